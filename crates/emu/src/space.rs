//! Namespaces: a network for each host, and for an ordinary user one in which to be allowed to make
//! them. All of it ends with the last process and descriptor, so that nothing is left after kill
//! -9.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::SockProtocol;
use nix::unistd::{getegid, geteuid};

use crate::net::{Addresses, Net, Sysctl, set_sysctls};
use crate::netlink::Netlink;
use crate::process::is_same;
use crate::tun::{DEVICE, Tun};

/// SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY, as bits.
pub(crate) const ENDS: u32 = 1 << 0 | 1 << 2;

/// Buckets in a host's table of connections.
const CONNECTIONS: u32 = 1024;

/// Message about a host without a device.
const GONE: &str = "its device was deleted while the network ran";

/// Settings that a host needs at its start.
#[derive(Debug, Clone)]
pub(crate) struct HostPlan {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) addresses: Addresses,
    pub(crate) mtu: u16,
    /// Packets to elsewhere leave by the device, too.
    pub(crate) default_route: bool,
    pub(crate) sysctls: Vec<Sysctl>,
}

/// A host of the scenario that real programs run on.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) tun: Tun,
    pub(crate) net: Net,
    /// Asks for the connections of the host.
    pub(crate) sockets: Netlink,
    /// Tells of those that have ended.
    pub(crate) ends: Netlink,
    /// As they were read back.
    pub(crate) sysctls: Vec<Sysctl>,
    space: File,
}

impl Host {
    /// The descriptor of its network namespace.
    pub(crate) fn space(&self) -> RawFd {
        self.space.as_raw_fd()
    }

    /// Reason why its device is lost, if it is: root of the namespace may delete it or move it.
    pub(crate) fn why_lost(&self) -> Option<&'static str> {
        match self.tun.space() {
            _ if self.tun.is_gone() => Some(GONE),
            Ok(space) if is_same(&space, &self.space) => None,
            Ok(_) => Some("its device was moved to another namespace"),
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Some(GONE),
            // Linux before 5.1 cannot say.
            Err(_) => None,
        }
    }

    /// It hands on packets that are not its own.
    pub(crate) fn forward(&self) -> io::Result<()> {
        let space = self.space.try_clone()?;
        let done = std::thread::spawn(move || {
            setns(&space, CloneFlags::CLONE_NEWNET)?;
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")
        });
        done.join().unwrap_or_else(|_| Err(io::Error::other("its thread failed")))
    }

    /// A host with its device, in a network namespace of its own. The calling thread stays where it
    /// is.
    pub(crate) fn make(plan: HostPlan) -> Result<Host, String> {
        let name = plan.name.clone();
        let made = std::thread::Builder::new().spawn(move || Host::make_here(plan)).map(std::thread::JoinHandle::join);
        match made {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(format!("host {name:?}: making its network failed")),
            Err(error) => Err(format!("host {name:?}: no thread to make its network: {error}")),
        }
    }

    fn make_here(plan: HostPlan) -> Result<Host, String> {
        let HostPlan { name, device, addresses, mtu, default_route, sysctls } = plan;
        let failed = |what: &str, error: io::Error| format!("host {name:?}: {what}: {error}");
        let leave = || unshare(CloneFlags::CLONE_NEWNET).map_err(|e| failed("a network namespace", e.into()));
        leave()?;
        // The next namespace has a table of connections of its own (Linux 6.1). The machine's has a
        // bucket for each of a million, and asking for a host's connections looks into every one:
        // milliseconds in which no packet is carried.
        if fs::write("/proc/sys/net/ipv4/tcp_child_ehash_entries", CONNECTIONS.to_string()).is_ok() {
            leave()?;
        }
        let space = File::open("/proc/thread-self/ns/net").map_err(|error| failed("its network namespace", error))?;
        let tun = Tun::open(&device).map_err(|error| failed(DEVICE, error))?;
        let net = Net::set_up(&device, addresses, mtu).map_err(|error| failed("setting up its device", error))?;
        if default_route {
            net.add_default_route().map_err(|error| failed("its default route", error))?;
        }
        let sysctls = set_sysctls(&name, &net, addresses, &sysctls)?;
        let sockets =
            Netlink::open(SockProtocol::NetlinkSockDiag).map_err(|error| failed("asking for sockets", error))?;
        let ends = Netlink::listen(SockProtocol::NetlinkSockDiag, ENDS)
            .map_err(|error| failed("hearing of sockets that end", error))?;
        Ok(Host { name, tun, net, sockets, ends, sysctls, space })
    }
}

/// Rights of this user on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Namespaces of all kinds, as root.
    AsRoot,
    /// Within a user namespace.
    AsUser,
    /// Not, and a line that would change it.
    No(String),
}

/// True if the effective capabilities contain CAP_SYS_ADMIN and CAP_NET_ADMIN: root of a container
/// may lack them.
pub(crate) fn is_administrator() -> bool {
    const NEEDED: u64 = 1 << 12 | 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|has| has & NEEDED == NEEDED)
}

/// Finds out without changing this process: a thread cannot make a user namespace, so the kernel's
/// switches are read.
pub(crate) fn allowed() -> Allowed {
    if is_administrator() {
        return Allowed::AsRoot;
    }
    let switch = |key: &str| fs::read_to_string(format!("/proc/sys/{key}")).ok().map(|v| v.trim().to_owned());
    let off = "user namespaces are off for ordinary users. As root: sysctl -w";
    if !fs::exists("/proc/self/ns/user").unwrap_or(false) {
        return Allowed::No("this kernel has no user namespaces: start airtcp as root".to_owned());
    }
    if switch("user/max_user_namespaces").as_deref() == Some("0") {
        return Allowed::No(format!("{off} user.max_user_namespaces=10000"));
    }
    if switch("kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return Allowed::No(format!("{off} kernel.unprivileged_userns_clone=1"));
    }
    if switch("kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return Allowed::No(format!("{off} kernel.apparmor_restrict_unprivileged_userns=0"));
    }
    Allowed::AsUser
}

/// Makes this process root of a user namespace, if it is not root. It must have one thread.
pub(crate) fn become_root() -> Result<(), String> {
    match allowed() {
        Allowed::AsRoot => return Ok(()),
        Allowed::No(why) => return Err(why),
        Allowed::AsUser => {}
    }
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| {
        format!("a user namespace: {}. A container may forbid it; as root airtcp needs none", error.desc())
    })?;
    let map = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("/proc/self/{file}: {error}"))
    };
    map("setgroups", "deny".to_owned())?;
    map("uid_map", format!("0 {user} 1"))?;
    map("gid_map", format!("0 {group} 1"))
}

/// Why no TUN device can be had, with the line that would help; `None`: one can.
pub(crate) fn no_tun() -> Option<String> {
    match fs::OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => None,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Some(format!("{DEVICE} may not be opened. As root: chmod 0666 {DEVICE}"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(format!(
            "{DEVICE} is missing. In a container: start it with --device {DEVICE}; else, as root: modprobe tun"
        )),
        Err(error) => Some(format!("{DEVICE}: {error}. As root: modprobe tun")),
    }
}
