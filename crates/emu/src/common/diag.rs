//! TCP_INFO of the kernel's TCP connections by sock_diag: of open ones, and once more of each that
//! ends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::common::netlink::{Message, Netlink, attributes};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
/// All states but LISTEN, TIME_WAIT and NEW_SYN_RECV: connections that carry data.
const STATES: u32 = 0xfff & !(1 << 10) & !(1 << 6) & !(1 << 12) & !1;
/// `struct inet_diag_msg`.
const FIXED: usize = 72;

/// SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY, as bits: groups that hear of connections
/// that end.
pub(crate) const ENDED_GROUPS: u32 = 1 << 0 | 1 << 2;

/// A connection as one end sees it. Times in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// Its own end.
    pub(crate) from: (IpAddr, u16),
    /// The other end.
    pub(crate) to: (IpAddr, u16),
    /// Unique among sockets, also among those of equal addresses at other times.
    pub(crate) cookie: u64,
    pub(crate) control: String,
    pub(crate) rtt_us: u32,
    pub(crate) min_rtt_us: u32,
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    pub(crate) mss: u32,
    pub(crate) retransmissions: u32,
    pub(crate) marked: u32,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) segments_out: u32,
    pub(crate) segments_in: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_ne_bytes(*b))
}

fn end(body: &[u8], port: usize, address: usize) -> Option<(IpAddr, u16)> {
    let number = u16::from_be_bytes(*body.get(port..)?.first_chunk()?);
    let ip = if i32::from(*body.first()?) == libc::AF_INET {
        Ipv4Addr::from(*body.get(address..)?.first_chunk::<4>()?).into()
    } else {
        let v6 = Ipv6Addr::from(*body.get(address..)?.first_chunk::<16>()?);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    };
    Some((ip, number))
}

/// Reads an answer; `None`: it is of a socket that is no connection, or of a kernel that tells
/// less.
fn parse(body: &[u8]) -> Option<Connection> {
    let mut info: &[u8] = &[];
    let mut control = String::new();
    for (kind, value) in attributes(body.get(FIXED..)?) {
        match kind {
            INET_DIAG_INFO => info = value,
            INET_DIAG_CONG => {
                control = String::from_utf8_lossy(value.split(|&b| b == 0).next().unwrap_or(&[])).into_owned();
            }
            _ => {}
        }
    }
    // A listening socket has no other end.
    let to = end(body, 6, 24).filter(|(_, port)| *port != 0)?;
    Some(Connection {
        from: end(body, 4, 8)?,
        to,
        cookie: u64_at(body, 44)?,
        control,
        // struct tcp_info of include/uapi/linux/tcp.h: fields are only ever added at its end.
        rtt_us: u32_at(info, 68)?,
        ssthresh: u32_at(info, 76)?,
        cwnd: u32_at(info, 80)?,
        mss: u32_at(info, 16)?,
        retransmissions: u32_at(info, 100)?,
        bytes_acked: u64_at(info, 120)?,
        bytes_received: u64_at(info, 128)?,
        segments_out: u32_at(info, 136)?,
        segments_in: u32_at(info, 140)?,
        min_rtt_us: u32_at(info, 148)?,
        marked: u32_at(info, 196).unwrap_or(0),
        bytes_sent: u64_at(info, 200).unwrap_or(0),
    })
}

/// The open connections of the namespace in which `sockets` was opened.
pub(crate) fn open_connections(sockets: &Netlink) -> io::Result<Vec<Connection>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let (family, tcp) = (u8::try_from(family).unwrap_or(0), u8::try_from(libc::IPPROTO_TCP).unwrap_or(0));
        let mut request = vec![family, tcp, 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1), 0];
        request.extend_from_slice(&STATES.to_ne_bytes());
        request.resize(56, 0);
        sockets.ask(Message::new(SOCK_DIAG_BY_FAMILY, libc::NLM_F_DUMP, &request), &mut |body| {
            found.extend(parse(body));
        })?;
    }
    Ok(found)
}

/// Connections that have ended since the last call.
pub(crate) fn ended_connections(ends: &Netlink) -> Vec<Connection> {
    let mut found = Vec::new();
    ends.read_notices(&mut |body| found.extend(parse(body)));
    found
}
