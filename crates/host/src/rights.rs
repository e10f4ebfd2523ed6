//! Rights of this host and those that are missing: kernel, BTF, capabilities. A refusal says how to
//! allow it.

use std::fs;
use std::path::Path;

/// A capability by its number in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Network configuration; BPF programs of cgroups.
    NetAdmin = 12,
    /// Reading the kernel's memory in BPF programs.
    Perfmon = 38,
    /// BPF programs and maps.
    Bpf = 39,
}

impl Capability {
    /// As Linux spells it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::Perfmon => "CAP_PERFMON",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

/// Properties of this host.
#[derive(Debug, Clone)]
pub struct Host {
    /// As `uname -r` says it.
    pub release: String,
    /// Its first two numbers.
    pub version: (u32, u32),
    /// The kernel describes its types.
    pub has_btf: bool,
    /// Effective capabilities, as bits.
    pub capabilities: u64,
    /// This program has BPF in it.
    pub is_built_with_bpf: bool,
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The bits of `CapEff` in a `/proc/PID/status`.
fn effective(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

impl Host {
    /// Reads it from /proc and /sys.
    pub fn read() -> Host {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease").trim().to_owned();
        Host {
            version: version(&release),
            release,
            has_btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            capabilities: effective(&read("/proc/self/status")),
            is_built_with_bpf: cfg!(feature = "bpf"),
        }
    }

    /// Has the capability.
    pub fn may(&self, capability: Capability) -> bool {
        self.capabilities >> capability as u64 & 1 == 1
    }

    /// Reasons why a part that needs `capabilities` and a kernel from `least` on does not work;
    /// empty: it works.
    pub fn missing(&self, least: (u32, u32), capabilities: &[Capability]) -> Vec<String> {
        let mut all = Vec::new();
        if !self.is_built_with_bpf {
            all.push("this airtcp-host was built without BPF; build it with `make host`".to_owned());
        }
        if self.version < least {
            let (major, minor) = least;
            all.push(format!("Linux {} is too old: it takes {major}.{minor} or later", self.release));
        }
        if !self.has_btf {
            all.push(
                "/sys/kernel/btf/vmlinux is missing: the kernel needs CONFIG_DEBUG_INFO_BTF=y, and /sys must be mounted".to_owned(),
            );
        }
        let lacking: Vec<&str> = capabilities.iter().filter(|c| !self.may(**c)).map(|c| c.name()).collect();
        if !lacking.is_empty() {
            let list = lacking.join(" ");
            all.push(format!(
                "no {}: run it as root, or as a service with AmbientCapabilities={list}",
                lacking.join(" and no ")
            ));
        }
        all
    }
}

/// Least kernel for the parts of airtcp that run in the kernel.
pub const STRUCT_OPS: (u32, u32) = (6, 1);
/// From here on a control is held by a link, and goes when its process does. Before, the process
/// takes it back at an orderly end.
pub const LINKS: (u32, u32) = (6, 4);
/// Least kernel for BBR with a lease: the arguments of its function are those of 6.10.
pub const BBR: (u32, u32) = (6, 10);
/// Least kernel for the monitor.
pub const TRACING: (u32, u32) = (5, 8);

/// Its name, the least kernel, capabilities, and what the user has without them.
type Part = (&'static str, (u32, u32), &'static [Capability], &'static str);

/// The parts of airtcp-host.
const PARTS: [Part; 9] = [
    ("av", STRUCT_OPS, &[Capability::Bpf, Capability::Perfmon], ""),
    (
        "av --cgroup, --port, --prefix",
        STRUCT_OPS,
        &[Capability::Bpf, Capability::Perfmon, Capability::NetAdmin],
        "programs can still ask for it by TCP_CONGESTION",
    ),
    ("coop", STRUCT_OPS, &[Capability::Bpf, Capability::Perfmon], ""),
    ("monitor", TRACING, &[Capability::Bpf, Capability::Perfmon], "falls back to sock_diag, every 10 ms"),
    ("probe", (0, 0), &[], ""),
    ("proxy", STRUCT_OPS, &[Capability::Bpf, Capability::Perfmon], "passes connections through without targets"),
    ("proxy with tproxy, --divert", (0, 0), &[Capability::NetAdmin], "prints the lines for root"),
    ("pacing --apply", (0, 0), &[Capability::NetAdmin], "prints the lines for root"),
    ("efr --apply", (0, 0), &[Capability::NetAdmin], "prints the lines for root"),
];

/// The report of `airtcp host check`, and whether all parts work.
pub fn report(host: &Host) -> (String, bool) {
    let yes = |b: bool| if b { "yes" } else { "no" };
    let mut text = format!(
        "kernel {}, BTF {}, CAP_BPF {}, CAP_PERFMON {}, CAP_NET_ADMIN {}, built with BPF {}\n",
        host.release,
        yes(host.has_btf),
        yes(host.may(Capability::Bpf)),
        yes(host.may(Capability::Perfmon)),
        yes(host.may(Capability::NetAdmin)),
        yes(host.is_built_with_bpf),
    );
    let mut all = true;
    for (name, least, capabilities, otherwise) in PARTS {
        let missing = if least == (0, 0) {
            let host = Host { is_built_with_bpf: true, has_btf: true, ..host.clone() };
            host.missing(least, capabilities)
        } else {
            host.missing(least, capabilities)
        };
        all &= missing.is_empty();
        if missing.is_empty() {
            text += &format!("{name}: works\n");
        } else {
            let otherwise = if otherwise.is_empty() { String::new() } else { format!("; {otherwise}") };
            text += &format!("{name}: {}{otherwise}\n", missing.join("; "));
        }
    }
    (text, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(release: &str, capabilities: u64) -> Host {
        Host {
            release: release.to_owned(),
            version: version(release),
            has_btf: true,
            capabilities,
            is_built_with_bpf: true,
        }
    }

    #[test]
    fn a_refusal_names_what_is_missing_and_how_to_allow_it() {
        let both = [Capability::Bpf, Capability::Perfmon];
        assert_eq!(host("6.18.44-custom", 3 << 38).missing(STRUCT_OPS, &both), Vec::<String>::new());
        assert_eq!(
            host("5.10.0-32-amd64", 1 << 39).missing(STRUCT_OPS, &both),
            [
                "Linux 5.10.0-32-amd64 is too old: it takes 6.1 or later",
                "no CAP_PERFMON: run it as root, or as a service with AmbientCapabilities=CAP_PERFMON"
            ]
        );
        let bare = Host { has_btf: false, is_built_with_bpf: false, ..host("6.18", 0) };
        assert_eq!(bare.missing(STRUCT_OPS, &both).len(), 3);
        assert!(!report(&bare).1 && report(&bare).0.contains("monitor: "));
    }

    #[test]
    fn versions_and_capabilities_are_read() {
        assert_eq!(version("6.18.44"), (6, 18));
        assert_eq!(version("nonsense"), (0, 0));
        assert_eq!(effective("Name:\tx\nCapEff:\t000000c000001000\n"), 1 << 39 | 1 << 38 | 1 << 12);
    }
}
