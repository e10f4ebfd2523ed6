//! BPF objects: loading with a message that a user can act on, and maps by name.

use std::fmt;
use std::os::fd::AsFd;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, set_print};

use crate::rights::{Capability, Host, LINKS};

/// Why a part of the kernel's side does not work.
#[derive(Debug)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// The programs, as `make bpf` made them.
pub mod objects {
    /// TCP-AV.
    pub const TCP_AV: &[u8] = include_bytes!("../bpf/built/tcp_av.o");
    /// TCP-AV on CUBIC.
    pub const TCP_AV_CUBIC: &[u8] = include_bytes!("../bpf/built/tcp_av_cubic.o");
    /// The cooperative daemon's readings and leases.
    pub const COOP: &[u8] = include_bytes!("../bpf/built/coop.o");
    /// BBR with leases.
    pub const COOP_BBR: &[u8] = include_bytes!("../bpf/built/coop_bbr.o");
    /// Events of the monitor.
    pub const MONITOR: &[u8] = include_bytes!("../bpf/built/monitor.o");
    /// One step of the law, for tests.
    pub const STEP: &[u8] = include_bytes!("../bpf/built/step.o");
}

/// A loaded object. Its programs go when it does.
#[derive(Debug)]
pub struct Loaded {
    object: Object,
    name: &'static str,
}

/// Loads the object `name`, which needs a kernel from `least` on and `capabilities`.
pub fn load(
    name: &'static str,
    bytes: &[u8],
    least: (u32, u32),
    capabilities: &[Capability],
) -> Result<Loaded, Refusal> {
    load_with(name, bytes, least, capabilities, &Wishes::default())
}

/// Loads it with maps that another object has, too, and with names of its own for the controls in
/// it.
pub fn load_named(
    name: &'static str,
    bytes: &[u8],
    least: (u32, u32),
    capabilities: &[Capability],
    shared: &[(&str, &MapHandle)],
    names: &[(&str, String)],
) -> Result<Loaded, Refusal> {
    load_with(name, bytes, least, capabilities, &Wishes { left_out: &[], shared, names })
}

/// Loads it without the programs `left_out`, which need more rights than are there.
pub fn load_without(
    name: &'static str,
    bytes: &[u8],
    least: (u32, u32),
    capabilities: &[Capability],
    left_out: &[&str],
) -> Result<Loaded, Refusal> {
    load_with(name, bytes, least, capabilities, &Wishes { left_out, ..Wishes::default() })
}

/// Changes to an object when it is loaded.
#[derive(Default)]
struct Wishes<'a> {
    left_out: &'a [&'a str],
    shared: &'a [(&'a str, &'a MapHandle)],
    /// Name of a control in the object, and the name that it is to be registered under.
    names: &'a [(&'a str, String)],
}

/// Bytes of a control's name in Linux, the zero at the end included.
pub const NAME_BYTES: usize = 16;

/// Puts `name` where the bytes have `of`, padded by zeros.
fn rename(bytes: &mut [u8], of: &str, name: &str) -> bool {
    let mut padded = [[0; NAME_BYTES]; 2];
    for (to, text) in padded.iter_mut().zip([of, name]) {
        to.iter_mut().zip(text.bytes().take(NAME_BYTES - 1)).for_each(|(to, byte)| *to = byte);
    }
    let Some(at) = bytes.windows(NAME_BYTES).position(|there| there == padded[0]) else { return false };
    bytes[at..at + NAME_BYTES].copy_from_slice(&padded[1]);
    true
}

fn load_with(
    name: &'static str,
    bytes: &[u8],
    least: (u32, u32),
    capabilities: &[Capability],
    wishes: &Wishes<'_>,
) -> Result<Loaded, Refusal> {
    let Wishes { left_out, shared, names } = wishes;
    let host = Host::read();
    let missing = host.missing(least, capabilities);
    if !missing.is_empty() {
        return Err(Refusal(format!("{name}: {}", missing.join("; "))));
    }
    // libbpf speaks to standard error by itself; its own words only where somebody looks for them.
    if std::env::var_os("AIRTCP_HOST_VERBOSE").is_none() {
        set_print(None);
    }
    let object = ObjectBuilder::default()
        .open_memory(bytes)
        .and_then(|mut object| {
            for mut program in object.progs_mut().filter(|p| left_out.iter().any(|name| p.name() == *name)) {
                program.set_autoload(false);
            }
            for mut map in object.maps_mut() {
                if let Some((_, other)) = shared.iter().find(|(name, _)| map.name() == *name) {
                    map.reuse_fd(other.as_fd())?;
                }
                if map.map_type() == MapType::StructOps && host.version < LINKS {
                    map.set_map_flags(0)?;
                }
                if let Some((of, new)) = names.iter().find(|(of, _)| map.name() == *of) {
                    let is_there = map.initial_value_mut().is_some_and(|bytes| rename(bytes, of, new));
                    assert!(is_there, "the object has the name of its control {of}");
                }
            }
            object.load()
        })
        .map_err(|e| {
            Refusal(format!(
                "{name}: the kernel does not take the program: {}; AIRTCP_HOST_VERBOSE=1 shows its reasons",
                chain(&e)
            ))
        })?;
    Ok(Loaded { object, name })
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text += &format!(": {inner}");
        source = inner.source();
    }
    text
}

impl Loaded {
    /// The map `name`, which outlives the object.
    pub fn map(&self, name: &str) -> Result<MapHandle, Refusal> {
        let map = self.object.maps().find(|map| map.name() == name);
        let map = map.ok_or_else(|| Refusal(format!("{}: no map {name}", self.name)))?;
        MapHandle::try_from(&map).map_err(|e| Refusal(format!("{}: map {name}: {}", self.name, chain(&e))))
    }

    /// Registers the congestion control `name`.
    pub fn register(&mut self, name: &str) -> Result<Link, Refusal> {
        let mut map = self.object.maps_mut().find(|map| map.name() == name);
        let map = map.as_mut().ok_or_else(|| Refusal(format!("{}: no control {name}", self.name)))?;
        map.attach_struct_ops().map_err(|e| {
            let text = chain(&e);
            let why = if text.contains("File exists") || text.contains("exists") {
                let killed =
                    if Host::read().version < LINKS { ", or, if it was killed, run: airtcp host undo" } else { "" };
                format!("another airtcp-host has registered `{name}` on this host; end it first{killed}")
            } else {
                format!("the kernel does not register `{name}`: {text}")
            };
            Refusal(format!("{}: {why}", self.name))
        })
    }

    /// Attaches the program `name` in the way that its section says.
    pub fn attach(&self, name: &str) -> Result<Link, Refusal> {
        self.program(name)?
            .attach()
            .map_err(|e| Refusal(format!("{}: {name} does not attach: {}", self.name, chain(&e))))
    }

    /// Attaches the program `name` to an open cgroup.
    pub fn attach_cgroup(&self, name: &str, cgroup: i32) -> Result<Link, Refusal> {
        self.program(name)?.attach_cgroup(cgroup).map_err(|e| {
            Refusal(format!(
                "{}: {name} does not attach to the cgroup: {}; it must be one of cgroup v2",
                self.name,
                chain(&e)
            ))
        })
    }

    /// The program `name`.
    pub fn program(&self, name: &str) -> Result<libbpf_rs::ProgramMut<'_>, Refusal> {
        self.object
            .progs_mut()
            .find(|p| p.name() == name)
            .ok_or_else(|| Refusal(format!("{}: no program {name}", self.name)))
    }
}

/// Takes back the controls of airtcp that are registered without a link, as Linux before [`LINKS`]
/// has them: there one of a killed process stays. Those of a process that lives go as well, and its
/// connections go on as at its end.
pub fn unregister_left(mut tell: impl FnMut(&str)) -> Result<(), Refusal> {
    if Host::read().version >= LINKS {
        return Ok(());
    }
    for map in MapInfoIter::default().filter(|map| map.ty == MapType::StructOps) {
        let name = map.name.to_string_lossy().into_owned();
        if !name.starts_with("airtcp_") {
            continue;
        }
        match MapHandle::from_map_id(map.id).and_then(|map| map.delete(&0u32.to_ne_bytes())) {
            Ok(()) => tell(&format!("control {name} taken back")),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                return Err(Refusal(format!("cannot take back the control {name}: {}; run it as root", chain(&e))));
            }
            // Never registered, or taken back before and still in use by connections.
            Err(_) => {}
        }
    }
    Ok(())
}

/// Writes a value of words.
pub fn put(map: &MapHandle, key: &[u8], words: &[u64]) -> Result<(), Refusal> {
    map.update(key, &crate::words::bytes(words), MapFlags::ANY)
        .map_err(|e| Refusal(format!("cannot write a map of the kernel: {}", chain(&e))))
}

/// Reads a value of words; `None`: the key has none.
pub fn get(map: &MapHandle, key: &[u8]) -> Result<Option<Vec<u64>>, Refusal> {
    let value = map.lookup(key, MapFlags::ANY);
    let value = value.map_err(|e| Refusal(format!("cannot read a map of the kernel: {}", chain(&e))))?;
    Ok(value.map(|bytes| crate::words::words(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_gets_its_new_name_and_nothing_else_changes() {
        let mut bytes = b"....airtcp_reno\0\0\0\0\0\0\0\0.".to_vec();
        assert!(!rename(&mut bytes, "airtcp", "x"), "a part of the name");
        assert!(rename(&mut bytes, "airtcp_reno", "airtcp_renoxyz"));
        assert_eq!(bytes, b"....airtcp_renoxyz\0\0\0\0\0.");
        assert!(rename(&mut bytes, "airtcp_renoxyz", "a"));
        assert_eq!(bytes, b"....a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0.");
    }
}
