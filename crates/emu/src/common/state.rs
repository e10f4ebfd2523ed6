//! State of a running network for `airtcp exec`: a file without a name, which ends with the process
//! that holds it and never changes.
//!
//! Whoever enters a network runs programs that it chooses, since its files may be covered by
//! others. So only a network counts whose process is the caller's own and has every right that the
//! caller has.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use libc::{S_ISGID, S_ISUID, S_IWOTH};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::{Uid, User};
use serde::{Deserialize, Serialize};

use crate::common::addresses::OWN_HOST;
use crate::common::output::on_one_line;
use crate::common::process::{Process, Status, current_user, is_namespace, is_same_file, is_same_open_file};
use crate::common::sys::{Relative, namespace_kind, namespace_owner, namespace_relative};

/// The file's name as `/proc` shows it.
const NAME: &str = "airtcp-shell";
/// The program's.
const PROGRAM: &str = "airtcp-emu";
/// All that could change the file.
const SEALS: SealFlag =
    SealFlag::F_SEAL_WRITE.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SHRINK).union(SealFlag::F_SEAL_SEAL);
/// The longest that is read: a thousand hosts, each of which is told everybody's address.
const LONGEST: u64 = 64 << 20;

/// A running network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    /// Name of the scenario.
    pub(crate) name: String,
    /// First process of the programs' namespaces.
    pub(crate) init: i32,
    /// Hosts are kernels of their own, and this folder of the process is what they share with it.
    pub(crate) guests: Option<PathBuf>,
    pub(crate) hosts: Vec<StateHost>,
}

/// A real host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StateHost {
    pub(crate) name: String,
    /// Descriptor of its network namespace in the process that shows this.
    #[serde(rename = "space")]
    pub(crate) namespace: i32,
    pub(crate) env: Vec<(String, String)>,
}

impl StateHost {
    /// Variables that a command finds: the host's name, and addresses. Nothing else is taken, such
    /// as a path or a library to load.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        pairs.filter(|(name, value)| {
            let Some(rest) = name.strip_prefix("AIRTCP_") else { return false };
            let is_name = rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
            is_name && (*name == OWN_HOST && !value.contains('\0') || value.parse::<Ipv4Addr>().is_ok())
        })
    }
}

/// A network that its owner may enter.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) state: State,
}

/// Networks on this machine, as far as they can be seen.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    pub(crate) running: Vec<Running>,
    /// Others, by their process: why this user does not enter them.
    pub(crate) refused: Vec<(i32, String)>,
}

impl State {
    /// Shows it for as long as the file is kept.
    pub(crate) fn publish(&self) -> io::Result<File> {
        let mut file = File::from(memfd_create(NAME, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
        file.write_all(&serde_json::to_vec(self)?)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
        Ok(file)
    }

    /// Reads what a network shows; `None`: that is no such file, or one that could change while it
    /// is read.
    fn read(shown: OwnedFd) -> Option<State> {
        let seals = fcntl(&shown, FcntlArg::F_GET_SEALS).ok()?;
        if !SealFlag::from_bits_truncate(seals).contains(SEALS) {
            return None;
        }
        let mut json = Vec::new();
        File::from(shown).take(LONGEST).read_to_end(&mut json).ok()?;
        serde_json::from_slice(&json).ok()
    }
}

impl Networks {
    /// Looks through all processes.
    pub(crate) fn find() -> Networks {
        let mut found = Networks::default();
        let (Ok(own), Ok(all)) = (Process::own(), fs::read_dir("/proc")) else { return found };
        let mut pids: Vec<i32> = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        for pid in pids.into_iter().filter(|&pid| pid != own.pid) {
            let Ok(process) = Process::open(pid) else { continue };
            let Ok(status) = process.status() else { continue };
            if status.name != PROGRAM {
                continue;
            }
            match read_network(process, &own) {
                Ok(Some(running)) => found.running.push(running),
                Ok(None) => {}
                Err(why) => found.refused.push((pid, why)),
            }
        }
        found
    }
}

/// The network that a process shows, if it is one that this process may believe. The state of a
/// stranger's process is not even read.
fn read_network(process: Process, own: &Process) -> Result<Option<Running>, String> {
    if let Err(why) = check_trust(&process, own) {
        // `hwsim` and `exec` run in processes of the same name.
        return if process.words().get(1).is_none_or(|what| what == "run") { Err(why) } else { Ok(None) };
    }
    let descriptors = process.descriptors().unwrap_or_default();
    let mut shown = descriptors.iter().filter(|(_, name)| name.starts_with(&format!("/memfd:{NAME}")));
    let state = shown.find_map(|(fd, _)| State::read(process.descriptor(*fd).ok()?));
    // It may have become another program since.
    check_trust(&process, own)?;
    Ok(state.map(|state| Running { process, state }))
}

/// Succeeds if a process is this user's own, runs this program, and has the rights of this process;
/// the error says why not.
fn check_trust(process: &Process, own: &Process) -> Result<(), String> {
    let text = |error: io::Error| format!("it cannot be looked at: {error}");
    let (status, own_status) = (process.status().map_err(text)?, own.status().map_err(text)?);
    if !status.is_of(current_user()) {
        return Err(belongs_to(&status));
    }
    let (program, name) = process.program().map_err(text)?;
    let is_ours = own.program().is_ok_and(|(own, _)| is_same_file(&own, &program));
    let is_trusted =
        [0, current_user().as_raw()].contains(&program.st_uid) && program.st_mode & (S_ISUID | S_ISGID | S_IWOTH) == 0;
    if !(is_ours || is_trusted && name == PROGRAM) {
        return Err(format!("its program is not {PROGRAM}, or one that others may change"));
    }
    let namespace = |of: &Process, kind: &str| of.namespace(kind).map_err(text);
    if !is_same_open_file(&namespace(process, "pid")?, &namespace(own, "pid")?) {
        return Err("it runs in a container, or inside another network: enter that first".to_owned());
    }
    let (users, own_users) = (namespace(process, "user")?, namespace(own, "user")?);
    if is_same_open_file(&users, &own_users) {
        if own_status.capabilities & !status.capabilities != 0 {
            return Err("it has fewer rights than you: a command in it would have more than its programs".to_owned());
        }
    } else {
        let is_child =
            namespace_relative(&users, Relative::Parent).is_ok_and(|parent| is_same_open_file(&parent, &own_users));
        if !is_child || namespace_owner(&users).ok() != Some(current_user().as_raw()) {
            return Err("its users are not those of a network that you have started".to_owned());
        }
    }
    if (status.is_confined && !own_status.is_confined) || status.seccomp > own_status.seccomp {
        return Err(
            "it is confined and you are not: a command in it would have more rights than its programs".to_owned()
        );
    }
    Ok(())
}

fn belongs_to(status: &Status) -> String {
    let mut ids = status.users.clone();
    ids.dedup();
    let name = |id: u32| match User::from_uid(Uid::from_raw(id)) {
        Ok(Some(user)) => format!("{} ({id})", on_one_line(&user.name)),
        _ => id.to_string(),
    };
    let owner = ids.iter().map(|&id| name(id)).collect::<Vec<_>>().join(" and ");
    let how = match ids.as_slice() {
        &[only] if current_user().is_root() => {
            format!(": as root, become that user first, as in `sudo -u '#{only}' airtcp exec ...`")
        }
        _ => String::new(),
    };
    format!("it belongs to user {owner}, and only its owner runs commands in it{how}")
}

/// The first process of a network's programs: a descriptor with which to enter its namespaces, if
/// they are what they should be.
pub(crate) fn first_process(network: &Process, init: i32) -> Result<(Process, OwnedFd), String> {
    let text = |error: io::Error| error.to_string();
    let (init, entry) = Process::open_both(init).map_err(text)?;
    let status = init.status().map_err(text)?;
    if status.parent != network.pid || status.inner_pid != 1 || !status.is_of(current_user()) {
        return Err("it is not the first one of the network's processes".to_owned());
    }
    let namespace = |of: &Process, kind: &str| of.namespace(kind).map_err(text);
    let users = namespace(network, "user")?;
    let is_inside = is_same_open_file(&namespace(&init, "user")?, &users)
        && is_same_open_file(&namespace(&init, "pid")?, &namespace(network, "pid_for_children")?)
        && !is_same_open_file(&namespace(&init, "mnt")?, &namespace(network, "mnt")?)
        && is_owned_by(&namespace(&init, "mnt")?, &users);
    if is_inside { Ok((init, entry)) } else { Err("its namespaces are not those of the network".to_owned()) }
}

/// The network namespace of a host.
pub(crate) fn host_namespace(network: &Process, host: &StateHost) -> Result<OwnedFd, String> {
    let namespace = network.descriptor(host.namespace).map_err(|error| error.to_string())?;
    let users = network.namespace("user").map_err(|error| error.to_string())?;
    let is_net = is_namespace(&namespace) && namespace_kind(&namespace).is_ok_and(|kind| kind == libc::CLONE_NEWNET);
    if is_net && is_owned_by(&namespace, &users) {
        Ok(namespace)
    } else {
        Err(format!("its descriptor {} is no network namespace of its own", host.namespace))
    }
}

/// True if a namespace belongs to this user namespace.
fn is_owned_by(namespace: &OwnedFd, users: &OwnedFd) -> bool {
    namespace_relative(namespace, Relative::Users).is_ok_and(|owner| is_same_open_file(&owner, users))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(env: &[(&str, &str)]) -> StateHost {
        let env = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        StateHost { name: "laptop".to_owned(), namespace: 3, env }
    }

    #[test]
    fn of_the_environment_addresses_are_taken_alone() {
        let all = host(&[
            ("AIRTCP_HOST", "laptop[0]"),
            ("AIRTCP_STA_3", "10.0.0.3"),
            ("AIRTCP_STA_4", "/tmp/evil"),
            ("AIRTCP_EMU", "./airtcp-emu"),
            ("PATH", "/tmp/evil"),
            ("LD_PRELOAD", "10.0.0.1"),
            ("AIRTCP_X=\nLD_PRELOAD", "10.0.0.1"),
        ]);
        let taken: Vec<_> = all.variables().collect();
        assert_eq!(taken, [("AIRTCP_HOST", "laptop[0]"), ("AIRTCP_STA_3", "10.0.0.3")]);
    }

    #[test]
    fn a_file_that_could_change_is_not_read() {
        let state = State { name: "home".to_owned(), init: 1, guests: None, hosts: vec![host(&[])] };
        let shown = state.publish().unwrap();
        let again = Process::own().unwrap().descriptor(std::os::fd::AsRawFd::as_raw_fd(&shown)).unwrap();
        assert_eq!(State::read(again).unwrap().name, "home");
        assert!((&shown).write_all(b"x").is_err());
        let mut open = File::from(memfd_create(NAME, MFdFlags::MFD_ALLOW_SEALING).unwrap());
        open.write_all(&serde_json::to_vec(&state).unwrap()).unwrap();
        std::io::Seek::rewind(&mut open).unwrap();
        assert!(State::read(open.try_clone().unwrap().into()).is_none());
        fcntl(&open, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK)).unwrap();
        assert!(State::read(open.into()).is_none());
    }

    #[test]
    fn this_test_is_no_network() {
        let own = Process::own().unwrap();
        let why = check_trust(&Process::open(own.pid).unwrap(), &own);
        // It is its own user's, and the very same program.
        assert_eq!(why, Ok(()));
        assert!(read_network(Process::open(own.pid).unwrap(), &own).unwrap().is_none());
        assert!(first_process(&own, own.pid).unwrap_err().contains("not the first one"));
        // Its own namespace is none that it has made; a file is none at all.
        let file = File::open("/proc/self/exe").unwrap();
        let wrong = StateHost { namespace: std::os::fd::AsRawFd::as_raw_fd(&file), ..host(&[]) };
        assert!(host_namespace(&own, &wrong).unwrap_err().contains("no network namespace"));
    }
}
