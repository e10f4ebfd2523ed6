//! A host's network: its device, addresses, routes, the sysctls that decide TCP, and the counters
//! at the end.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use nix::net::if_::if_nametoindex;
use nix::sys::socket::SockProtocol;

use crate::common::netlink::{Message, Netlink, attributes};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_STATS64: u16 = 23;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 0x02;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_CC_ALGO: u16 = 16;
const IFF_UP: u32 = 1;
const IFF_NOARP: u32 = 0x80;
/// Packets that wait in TUN's ring before they are read: 50 ms of 1 Gbit/s, and a window of 4 MiB
/// that is sent at once. How long they wait is watched, so a ring that is long hides no queue.
const TXQLEN: u32 = 5000;
/// Behind `struct rtnl_link_stats64`: rx and tx of packets, bytes, errors; then those dropped.
const TX_DROPPED: usize = 7 * 8;

/// Where a host is on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Addresses {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v4_prefix: u8,
    pub(crate) v6: Ipv6Addr,
    pub(crate) v6_prefix: u8,
}

/// The tables of one network namespace: the one in which it was opened.
#[derive(Debug)]
pub(crate) struct Net {
    route: Netlink,
    device: u32,
    has_v6: bool,
}

/// True if a device can have IPv6: the machine may have it off, and an IPv6 link must carry packets
/// of 1280 bytes (RFC 8200, 5).
pub(crate) fn can_have_v6(mtu: u16) -> bool {
    mtu >= 1280 && fs::exists("/proc/sys/net/ipv6").unwrap_or(false)
}

impl Net {
    /// Brings up loopback and the device, with its addresses, in the namespace of the calling
    /// thread.
    pub(crate) fn set_up(name: &str, at: Addresses, mtu: u16) -> io::Result<Net> {
        let route = Netlink::open(SockProtocol::NetlinkRoute)?;
        let loopback = if_nametoindex("lo")?;
        let device = if_nametoindex(name)?;
        // Its own address is all that it needs: no link-local one, no search for routers.
        for (key, value) in [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0")] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{key}"), value);
        }
        let net = Net { route, device, has_v6: can_have_v6(mtu) };
        net.route.change(up(loopback))?;
        let changed =
            up(device).attribute(IFLA_MTU, &u32::from(mtu).to_ne_bytes()).attribute(IFLA_TXQLEN, &TXQLEN.to_ne_bytes());
        net.route.change(changed)?;
        net.add_address(libc::AF_INET, &at.v4.octets(), at.v4_prefix)?;
        if net.has_v6 {
            net.add_address(libc::AF_INET6, &at.v6.octets(), at.v6_prefix)?;
        }
        Ok(net)
    }

    fn add_address(&self, family: i32, address: &[u8], prefix: u8) -> io::Result<()> {
        let mut body = vec![u8::try_from(family).unwrap_or(0), prefix, IFA_F_NODAD, 0];
        body.extend_from_slice(&self.device.to_ne_bytes());
        let message = Message::new(RTM_NEWADDR, CREATE, &body);
        self.route.change(message.attribute(IFA_LOCAL, address).attribute(IFA_ADDRESS, address))
    }

    /// Whatever has no nearer way leaves by the device, IPv4 and IPv6.
    pub(crate) fn add_default_route(&self) -> io::Result<()> {
        let families = if self.has_v6 { &[libc::AF_INET, libc::AF_INET6][..] } else { &[libc::AF_INET] };
        for &family in families {
            // Family, lengths of destination and source, TOS, table main, protocol static, scope
            // link, unicast, flags.
            let body = [u8::try_from(family).unwrap_or(0), 0, 0, 0, 254, 4, 253, 1, 0, 0, 0, 0];
            self.route
                .change(Message::new(RTM_NEWROUTE, CREATE, &body).attribute(RTA_OIF, &self.device.to_ne_bytes()))?;
        }
        Ok(())
    }

    /// Connections to the network have this congestion control, whatever the namespace's default
    /// is: it is a property of the route.
    pub(crate) fn prefer_congestion_control(&self, name: &str, at: Addresses) -> io::Result<()> {
        let mut metric = Vec::new();
        metric.extend_from_slice(&u16::try_from(name.len() + 5).unwrap_or(0).to_ne_bytes());
        metric.extend_from_slice(&RTAX_CC_ALGO.to_ne_bytes());
        metric.extend_from_slice(name.as_bytes());
        metric.resize((name.len() + 5).next_multiple_of(4), 0);
        let replace = |family: i32, address: &[u8], prefix: u8, priority: Option<u32>| {
            // As the kernel made it with the address: table main, protocol kernel, scope link,
            // unicast.
            let body = [u8::try_from(family).unwrap_or(0), prefix, 0, 0, 254, 2, 253, 1, 0, 0, 0, 0];
            let mut network = address.to_vec();
            network.iter_mut().skip(usize::from(prefix / 8)).for_each(|byte| *byte = 0);
            let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
            let mut message = Message::new(RTM_NEWROUTE, flags, &body)
                .attribute(RTA_DST, &network)
                .attribute(RTA_OIF, &self.device.to_ne_bytes());
            if let Some(priority) = priority {
                message = message.attribute(RTA_PRIORITY, &priority.to_ne_bytes());
            } else {
                message = message.attribute(RTA_PREFSRC, address);
            }
            self.route.change(message.attribute(RTA_METRICS, &metric))
        };
        replace(libc::AF_INET, &at.v4.octets(), at.v4_prefix, None)?;
        if self.has_v6 {
            replace(libc::AF_INET6, &at.v6.octets(), at.v6_prefix, Some(256))?;
        }
        Ok(())
    }

    /// Packets that the device dropped because its ring was full: the only trace of them.
    pub(crate) fn dropped(&self) -> io::Result<u64> {
        let mut dropped = None;
        self.route.ask(Message::new(RTM_GETLINK, 0, &link(self.device, 0)), &mut |body| {
            let stats = attributes(body.get(16..).unwrap_or(&[])).find(|(kind, _)| *kind == IFLA_STATS64);
            dropped = stats.and_then(|(_, s)| s.get(TX_DROPPED..)?.first_chunk().map(|b| u64::from_ne_bytes(*b)));
        })?;
        dropped.ok_or_else(|| io::Error::other("the kernel counts no dropped packets for the device"))
    }
}

const CREATE: i32 = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;

/// `struct ifinfomsg`.
fn link(index: u32, flags: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    for word in [index, flags, flags] {
        body.extend_from_slice(&word.to_ne_bytes());
    }
    body
}

fn up(index: u32) -> Message {
    Message::new(RTM_NEWLINK, libc::NLM_F_ACK, &link(index, IFF_UP))
}

/// A guest's only device gets the name that it has in the scenario. It asks nobody for Ethernet
/// addresses: there is one network behind it, which looks at those of IP.
pub(crate) fn rename_device(is: &str, name: &str) -> io::Result<()> {
    let route = Netlink::open(SockProtocol::NetlinkRoute)?;
    let index = if_nametoindex(is)?;
    let message = Message::new(RTM_NEWLINK, libc::NLM_F_ACK, &link(index, IFF_NOARP));
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    route.change(if is == name { message } else { message.attribute(IFLA_IFNAME, &text) })
}

/// A sysctl below `net.`, by its file below `/proc/sys/net/`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Sysctl {
    /// `ipv4/tcp_congestion_control`.
    pub key: String,
    /// As `sysctl` prints it.
    pub value: String,
}

/// The sysctl of the congestion control.
pub(crate) const CONTROL: &str = "ipv4/tcp_congestion_control";

/// Sets sysctls in the namespace of the calling thread, and returns what they are then.
pub(crate) fn set_sysctls(host: &str, net: &Net, at: Addresses, sysctls: &[Sysctl]) -> Result<Vec<Sysctl>, String> {
    let mut out = Vec::new();
    for Sysctl { key, value } in sysctls {
        let path = format!("/proc/sys/net/{key}");
        let failed = |error: io::Error| format!("host {host:?}: sysctl {path} = {value:?}: {error}");
        if key == CONTROL {
            let has = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").map_err(failed)?;
            if !has.split_whitespace().any(|name| name == value) {
                let has = has.split_whitespace().collect::<Vec<_>>().join(", ");
                return Err(format!(
                    "host {host:?}: its profile has the congestion control {value:?}, this kernel has {has}. \
                     As root: modprobe tcp_{value}; or give the host another profile"
                ));
            }
            if fs::write(&path, value).is_err() {
                // Only the machine's administrator may make it a default, so the routes ask for it.
                net.prefer_congestion_control(value, at).map_err(failed)?;
                out.push(Sysctl { key: key.clone(), value: format!("{value} (by route)") });
                continue;
            }
        } else {
            fs::write(&path, value).map_err(failed)?;
        }
        let is = fs::read_to_string(&path).map_err(failed)?;
        out.push(Sysctl { key: key.clone(), value: is.split_whitespace().collect::<Vec<_>>().join(" ") });
    }
    Ok(out)
}
