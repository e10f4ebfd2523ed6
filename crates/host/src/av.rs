//! `airtcp-host av`: TCP-AV in the kernel for the connections that the user names, as long as this
//! process lives.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use airtcp_core::units::DataRate;
#[cfg(feature = "bpf")]
use airtcp_core::units::Span;

#[cfg(feature = "bpf")]
use crate::load::Refusal;
#[cfg(feature = "bpf")]
use crate::paths::change::{Change, Family, Whose};

/// Name of the control, for `TCP_CONGESTION`.
pub const CONTROL: &str = "airtcp_av";
/// Rules that the kernel's side holds.
pub const MOST_RULES: usize = 64;
/// Interfaces whose paths the kernel's side tells apart.
#[cfg(feature = "bpf")]
const INTERFACES: u32 = 4096;
/// How long the law acts without a sign of life of this process.
pub const LEASE: Duration = Duration::from_secs(2);

/// The kernel's own control that TCP-AV stands on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Base {
    /// Reno, as in the study.
    #[default]
    Reno,
    /// CUBIC.
    Cubic,
}

impl Base {
    /// Reads it.
    pub fn read(text: &str) -> Result<Base, String> {
        match text {
            "reno" => Ok(Base::Reno),
            "cubic" => Ok(Base::Cubic),
            _ => Err("must be reno or cubic".to_owned()),
        }
    }
}

/// Window after a timeout, beside the one segment that the kernel sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AfterTimeout {
    /// The window that the target needs, and new data leaves at once.
    #[default]
    NewData,
    /// The same window, which waits for an ACK.
    Floor,
    /// A window of one segment, as without TCP-AV.
    One,
}

impl AfterTimeout {
    /// Reads it.
    pub fn read(text: &str) -> Result<AfterTimeout, String> {
        match text {
            "new_data" => Ok(AfterTimeout::NewData),
            "floor" => Ok(AfterTimeout::Floor),
            "one" => Ok(AfterTimeout::One),
            _ => Err("must be new_data, floor or one".to_owned()),
        }
    }

    /// As the law has it.
    pub fn choice(self) -> u64 {
        use airtcp_law::tcp_av::choice;

        match self {
            AfterTimeout::NewData => choice::NEW_DATA,
            AfterTimeout::Floor => choice::FLOOR,
            AfterTimeout::One => choice::ONE,
        }
    }
}

/// Connections with a target of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Payload rate; `None`: the common one.
    pub target: Option<DataRate>,
    /// The other end's addresses: network and length. `None`: all.
    pub prefix: Option<(IpAddr, u8)>,
    /// Port of either end. `None`: all.
    pub port: Option<u16>,
}

impl Rule {
    /// Reads `PORT[=RATE]`.
    pub fn of_port(text: &str) -> Result<Rule, String> {
        let (port, target) = split(text)?;
        match port.parse() {
            Ok(port) if port > 0 => Ok(Rule { target, prefix: None, port: Some(port) }),
            _ => Err(format!("--port {text}: must be 1 to 65535, with `=RATE` behind it for a target of its own")),
        }
    }

    /// Reads `ADDRESS[/LENGTH][=RATE]`.
    pub fn of_prefix(text: &str) -> Result<Rule, String> {
        let wrong = || {
            format!(
                "--prefix {text}: must be as 192.0.2.0/24 or 2001:db8::/32, with `=RATE` behind it for a target of its own"
            )
        };
        let (prefix, target) = split(text)?;
        let (address, length) = prefix.split_once('/').map_or((prefix, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), |l| l.parse::<u8>().map_err(|_| wrong()))?;
        if length > most {
            return Err(wrong());
        }
        Ok(Rule { target, prefix: Some((address, length)), port: None })
    }

    /// As the kernel's side holds it.
    pub fn words(&self) -> Vec<u64> {
        let (address, length) = match self.prefix {
            None => (0, 0),
            Some((IpAddr::V4(v4), length)) => (u128::from(v4.to_ipv6_mapped()), 96 + u32::from(length)),
            Some((IpAddr::V6(v6), length)) => (u128::from(v6), u32::from(length)),
        };
        let mask = if length == 0 { 0 } else { u128::MAX << (128 - length) };
        let mut bytes = self.target.map_or(0, DataRate::as_bps).to_ne_bytes().to_vec();
        bytes.extend(Ipv6Addr::from(address & mask).octets());
        bytes.extend(Ipv6Addr::from(mask).octets());
        bytes.extend(u32::from(self.port.unwrap_or(0)).to_ne_bytes());
        bytes.extend([0; 4]);
        crate::words::words(&bytes)
    }
}

fn split(text: &str) -> Result<(&str, Option<DataRate>), String> {
    let Some((what, rate)) = text.split_once('=') else { return Ok((text, None)) };
    Ok((what, Some(target(rate)?)))
}

/// Reads a target.
pub fn target(text: &str) -> Result<DataRate, String> {
    let wrong = || format!("target {text}: must be a rate from 1kbit/s to 100Gbit/s, as 4Mbit/s");
    let rate: DataRate = text.parse().map_err(|_| wrong())?;
    if (1_000..=100_000_000_000).contains(&rate.as_bps()) { Ok(rate) } else { Err(wrong()) }
}

/// Folder of a control group: a path, or a name below the mount of cgroup v2.
pub fn cgroup(name: &str) -> Result<PathBuf, String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mount = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields.get(2) == Some(&"cgroup2")).then(|| fields[1].to_owned())
    });
    let Some(mount) = mount else {
        return Err("cgroup v2 is not mounted; mount it: mount -t cgroup2 none /sys/fs/cgroup".to_owned());
    };
    let folder = if name.starts_with('/') && Path::new(name).starts_with(&mount) {
        PathBuf::from(name)
    } else {
        Path::new(&mount).join(name.trim_start_matches('/'))
    };
    if folder.join("cgroup.procs").exists() {
        Ok(folder)
    } else {
        Err(format!("--cgroup {name}: {} is no control group", folder.display()))
    }
}

/// Options of `airtcp-host av`.
#[derive(Debug, Clone)]
pub struct Order {
    /// Common target.
    pub target: DataRate,
    /// Congestion control that the law builds on.
    pub base: Base,
    /// Window after a timeout.
    pub after_timeout: AfterTimeout,
    /// Control group whose connections are meant; `None`: of rules, all of the host.
    pub cgroup: Option<PathBuf>,
    /// Connections by port and prefix; the first that fits counts.
    pub rules: Vec<Rule>,
}

/// TCP-AV as this process has it in the kernel. Dropped, it takes no new connections; those it has
/// go on as Reno once the lease ends.
#[cfg(feature = "bpf")]
#[derive(Debug)]
pub struct Av {
    settings: libbpf_rs::MapHandle,
    rules: libbpf_rs::MapHandle,
    paths: libbpf_rs::MapHandle,
    wishes: libbpf_rs::MapHandle,
    flows: libbpf_rs::MapHandle,
    order: Order,
    _links: Vec<libbpf_rs::Link>,
    _loaded: crate::load::Loaded,
}

#[cfg(feature = "bpf")]
impl Av {
    /// Loads, registers, and attaches what the order needs.
    pub fn start(order: Order) -> Result<Av, Refusal> {
        use crate::load::{load_without, objects};
        use crate::rights::{Capability, STRUCT_OPS};

        let needs_hook = order.cgroup.is_some() || !order.rules.is_empty();
        let mut capabilities = vec![Capability::Bpf, Capability::Perfmon];
        if needs_hook {
            capabilities.push(Capability::NetAdmin);
        }
        let left_out: &[&str] = if needs_hook { &[] } else { &["choose"] };
        let object = match order.base {
            Base::Reno => objects::TCP_AV,
            Base::Cubic => objects::TCP_AV_CUBIC,
        };
        let mut loaded = load_without("av", object, STRUCT_OPS, &capabilities, left_out)?;
        let mut av = Av {
            settings: loaded.map("settings")?,
            rules: loaded.map("rules")?,
            paths: loaded.map("paths")?,
            wishes: loaded.map("wishes")?,
            flows: loaded.map("flows")?,
            order: order.clone(),
            _links: vec![loaded.register(CONTROL)?],
            _loaded: loaded,
        };
        av.set(order)?;
        if needs_hook {
            let folder = match &av.order.cgroup {
                Some(folder) => folder.clone(),
                None => cgroup("").map_err(Refusal)?,
            };
            let open =
                fs::File::open(&folder).map_err(|e| Refusal(format!("cannot open {}: {e}", folder.display())))?;
            let link = av._loaded.attach_cgroup("choose", std::os::fd::AsRawFd::as_raw_fd(&open))?;
            av._links.push(link);
        }
        Ok(av)
    }

    /// Another target or other rules; connections follow at their next ACK.
    pub fn set(&mut self, order: Order) -> Result<(), Refusal> {
        if order.rules.len() > MOST_RULES {
            return Err(Refusal(format!("{} rules: at most {MOST_RULES} are possible", order.rules.len())));
        }
        for (at, rule) in order.rules.iter().enumerate() {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            crate::load::put(&self.rules, &at.to_ne_bytes(), &rule.words())?;
        }
        self.order = order;
        self.renew()
    }

    /// A sign of life. The law acts for [`LEASE`] from now on.
    pub fn renew(&self) -> Result<(), Refusal> {
        use airtcp_law::tcp_av::Params;

        let after_timeout = self.order.after_timeout.choice();
        let params = Params { target_bps: self.order.target.as_bps(), after_timeout, ..Params::HOST };
        let mut words = crate::words::of_params(&params).to_vec();
        words.push((crate::sys::monotonic() + crate::sys::span(LEASE)).as_ns());
        words.push(self.order.rules.len() as u64);
        words.push(u64::from(self.order.cgroup.is_none() || !self.order.rules.is_empty()));
        crate::load::put(&self.settings, &0u32.to_ne_bytes(), &words)
    }

    /// The path has changed. After the loss of a source the law forgets the path of all connections
    /// of that version of IP.
    pub fn path_changed(&self, change: Change) -> Result<(), Refusal> {
        let family = match change.whose {
            Whose::All => 0,
            Whose::Family(family) => 1 + family as u32,
            Whose::Source(source) => 1 + Family::of(source) as u32,
        };
        let key = if change.interface < INTERFACES { family * INTERFACES + change.interface } else { 0 }.to_ne_bytes();
        let now = crate::load::get(&self.paths, &key)?.and_then(|words| words.first().copied()).unwrap_or(0);
        crate::load::put(&self.paths, &key, &[now.wrapping_add(1)])
    }

    /// A target for one socket of this process, now or before it connects.
    pub fn set_target(&self, socket: std::os::fd::RawFd, target: DataRate) -> Result<(), Refusal> {
        crate::load::put(&self.wishes, &socket.to_ne_bytes(), &[target.as_bps(), 0])
    }

    /// Least round-trip time that the law knows of a socket of this process. `None`: nothing
    /// measured.
    pub fn least_rtt(&self, socket: std::os::fd::RawFd) -> Result<Option<Span>, Refusal> {
        let words = crate::load::get(&self.flows, &socket.to_ne_bytes())?;
        let ns = words.and_then(|words| words.get(16 + 2).copied()).filter(|&ns| ns != airtcp_law::UNKNOWN);
        Ok(ns.map(Span::from_ns))
    }
}

/// Runs until `has_ended` says so.
#[cfg(feature = "bpf")]
pub fn run(order: &Order, has_ended: impl Fn() -> bool, mut tell: impl FnMut(&str)) -> Result<(), Refusal> {
    let av = Av::start(order.clone())?;
    let mut watch = crate::paths::Watch::new()
        .map_err(|e| Refusal(format!("cannot listen to the kernel's routing messages: {e}")))?;
    tell(&format!("{CONTROL} is registered; target {}; end with Ctrl-C", order.target));
    tell(watch.sources());
    while !has_ended() {
        let wait = watch.wait(crate::sys::monotonic(), LEASE / 4);
        crate::sys::readable(&watch.fds(), wait).map_err(|e| Refusal(format!("cannot wait: {e}")))?;
        let now = crate::sys::monotonic();
        watch.read(now);
        for change in watch.due(now, crate::paths::uses) {
            av.path_changed(change)?;
            tell(&format!("interface {}: the path has changed", change.interface));
        }
        av.renew()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_refused_with_what_is_accepted() {
        let rule = Rule::of_prefix("192.0.2.77/24=2Mbit/s").unwrap();
        assert_eq!(rule.target, Some(DataRate::from_mbps(2)));
        let bytes = crate::words::bytes(&rule.words());
        assert_eq!(bytes.len(), 48);
        assert_eq!(&bytes[8..24], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 0]);
        assert_eq!(&bytes[24..40], &[255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
        assert_eq!(Rule::of_port("443").unwrap(), Rule { target: None, prefix: None, port: Some(443) });
        for text in ["0", "70000", "x", "443=fast"] {
            assert!(Rule::of_port(text).unwrap_err().contains("must be"), "{text}");
        }
        for text in ["192.0.2.0/33", "nowhere", "192.0.2.0/x", "2001:db8::/129", "::/0=1bit/s"] {
            assert!(Rule::of_prefix(text).unwrap_err().contains("must be"), "{text}");
        }
        assert_eq!(Rule::of_prefix("::/0").unwrap().words()[1..5], [0; 4]);
    }

    #[test]
    fn a_group_that_is_none_is_refused() {
        assert!(cgroup("no/such/group").is_err());
    }
}
