//! A host of real programs: its network namespace with a TUN device. It ends with the last process
//! and descriptor, so that nothing is left after kill -9.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::SockProtocol;

use crate::common::diag::ENDED_GROUPS;
use crate::common::net::{Addresses, Net, Sysctl, set_sysctls};
use crate::common::netlink::Netlink;
use crate::common::process::is_same_open_file;
use crate::shell::tun::{DEVICE, Tun};

/// Buckets in a host's table of connections.
const CONNECTION_BUCKETS: u32 = 1024;

/// Message about a host without a device.
const DEVICE_DELETED: &str = "its device was deleted while the network ran";

/// Settings that a host needs at its start.
#[derive(Debug, Clone)]
pub(crate) struct HostConfig {
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
    namespace: File,
}

impl Host {
    /// The descriptor of its network namespace.
    pub(crate) fn namespace(&self) -> RawFd {
        self.namespace.as_raw_fd()
    }

    /// Reason why its device is lost, if it is: root of the namespace may delete it or move it.
    pub(crate) fn why_lost(&self) -> Option<&'static str> {
        match self.tun.namespace() {
            _ if self.tun.is_gone() => Some(DEVICE_DELETED),
            Ok(namespace) if is_same_open_file(&namespace, &self.namespace) => None,
            Ok(_) => Some("its device was moved to another namespace"),
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Some(DEVICE_DELETED),
            // Linux before 5.1 cannot say.
            Err(_) => None,
        }
    }

    /// It hands on packets that are not its own.
    pub(crate) fn forward(&self) -> io::Result<()> {
        let namespace = self.namespace.try_clone()?;
        let done = std::thread::spawn(move || {
            setns(&namespace, CloneFlags::CLONE_NEWNET)?;
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")
        });
        done.join().unwrap_or_else(|_| Err(io::Error::other("its thread failed")))
    }

    /// A host with its device, in a network namespace of its own. The calling thread stays where it
    /// is.
    pub(crate) fn make(config: HostConfig) -> Result<Host, String> {
        let name = config.name.clone();
        let made =
            std::thread::Builder::new().spawn(move || Host::make_here(config)).map(std::thread::JoinHandle::join);
        match made {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(format!("host {name:?}: making its network failed")),
            Err(error) => Err(format!("host {name:?}: no thread to make its network: {error}")),
        }
    }

    fn make_here(config: HostConfig) -> Result<Host, String> {
        let HostConfig { name, device, addresses, mtu, default_route, sysctls } = config;
        let failed = |what: &str, error: io::Error| format!("host {name:?}: {what}: {error}");
        let leave = || unshare(CloneFlags::CLONE_NEWNET).map_err(|e| failed("a network namespace", e.into()));
        leave()?;
        // The next namespace has a table of connections of its own (Linux 6.1). The machine's has a
        // bucket for each of a million, and asking for a host's connections looks into every one:
        // milliseconds in which no packet is carried.
        if fs::write("/proc/sys/net/ipv4/tcp_child_ehash_entries", CONNECTION_BUCKETS.to_string()).is_ok() {
            leave()?;
        }
        let namespace =
            File::open("/proc/thread-self/ns/net").map_err(|error| failed("its network namespace", error))?;
        let tun = Tun::open(&device).map_err(|error| failed(DEVICE, error))?;
        let net = Net::set_up(&device, addresses, mtu).map_err(|error| failed("setting up its device", error))?;
        if default_route {
            net.add_default_route().map_err(|error| failed("its default route", error))?;
        }
        let sysctls = set_sysctls(&name, &net, addresses, &sysctls)?;
        let sockets =
            Netlink::open(SockProtocol::NetlinkSockDiag).map_err(|error| failed("asking for sockets", error))?;
        let ends = Netlink::listen(SockProtocol::NetlinkSockDiag, ENDED_GROUPS)
            .map_err(|error| failed("hearing of sockets that end", error))?;
        Ok(Host { name, tun, net, sockets, ends, sysctls, namespace })
    }
}
