//! From the frame of a link to the IP packet in it.

use super::{Skipped, wlan};
use crate::reader::erf;
use crate::wifi::radio;

/// LINKTYPE_ values of the tcpdump group's registry.
mod link_type {
    pub(super) const NULL: u16 = 0;
    pub(super) const ETHERNET: u16 = 1;
    pub(super) const PPP: u16 = 9;
    /// DLT_RAW as some systems write it into files.
    pub(super) const RAW_BSD: u16 = 12;
    pub(super) const RAW_OPENBSD: u16 = 14;
    pub(super) const PPP_HDLC: u16 = 50;
    pub(super) const PPP_ETHER: u16 = 51;
    pub(super) const RAW: u16 = 101;
    pub(super) const C_HDLC: u16 = 104;
    pub(super) const LOOP: u16 = 108;
    pub(super) const ENC: u16 = 109;
    pub(super) const LINUX_SLL: u16 = 113;
    pub(super) const PFLOG: u16 = 117;
    pub(super) const ERF: u16 = 197;
    pub(super) const IPV4: u16 = 228;
    pub(super) const IPV6: u16 = 229;
    pub(super) const NFLOG: u16 = 239;
    pub(super) const PKTAP: u16 = 258;
    pub(super) const LINUX_SLL2: u16 = 276;
}

pub(super) mod ether_type {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const IPV6: u16 = 0x86dd;
    /// IEEE 802.1Q, 802.1ad, and what came before the latter.
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const PROVIDER_BRIDGING: u16 = 0x88a8;
    pub(crate) const VLAN_DOUBLE: u16 = 0x9100;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(crate) const PPPOE_SESSION: u16 = 0x8864;
}

/// More tags than any network stacks.
const MAX_TAGS: usize = 8;

pub(crate) fn network_layer(link: u16, frame: &[u8]) -> Result<&[u8], Skipped> {
    match link {
        link_type::ETHERNET => ether_payload(be16(frame, 12)?, from(frame, 14)?),
        link_type::RAW | link_type::RAW_BSD | link_type::RAW_OPENBSD | link_type::IPV4 | link_type::IPV6 => Ok(frame),
        link_type::LINUX_SLL => ether_payload(be16(frame, 14)?, from(frame, 16)?),
        link_type::LINUX_SLL2 => ether_payload(be16(frame, 0)?, from(frame, 20)?),
        // The address family, in the order of the machine that captured; which number means IPv6
        // depends on it as well.
        link_type::NULL | link_type::LOOP => raw_ip(from(frame, 4)?),
        link_type::PPP => ppp(frame),
        link_type::PPP_HDLC | link_type::C_HDLC => hdlc(frame),
        link_type::PPP_ETHER => from(frame, 6).and_then(ppp),
        link_type::PFLOG => raw_ip(from(frame, usize::from(*frame.first().ok_or(Skipped::Cut)?).next_multiple_of(4))?),
        link_type::ENC => raw_ip(from(frame, 12)?),
        link_type::NFLOG => nflog(frame),
        link_type::ERF => erf(frame),
        link_type::PKTAP => pktap(frame),
        link if radio::is_monitor(link) => wlan::payload(link, frame),
        other => Err(Skipped::LinkType(other)),
    }
}

/// An IP packet of either version, told by its first byte.
fn raw_ip(packet: &[u8]) -> Result<&[u8], Skipped> {
    match packet {
        [first, ..] if matches!(first >> 4, 4 | 6) => Ok(packet),
        [] => Err(Skipped::Cut),
        _ => Err(Skipped::NoIp),
    }
}

/// PPP (RFC 1661), with or without HDLC's address and control; the protocol may be one byte.
fn ppp(frame: &[u8]) -> Result<&[u8], Skipped> {
    let rest = frame.strip_prefix(&[0xff, 0x03]).unwrap_or(frame);
    match rest {
        [0x21 | 0x57, packet @ ..] | [0, 0x21 | 0x57, packet @ ..] => Ok(packet),
        [] | [0] => Err(Skipped::Cut),
        _ => Err(Skipped::NoIp),
    }
}

/// Cisco's HDLC has an Ethernet type, PPP over HDLC (RFC 1662) a protocol number.
fn hdlc(frame: &[u8]) -> Result<&[u8], Skipped> {
    match frame {
        [0xff, 0x03, ..] => ppp(frame),
        [0x0f | 0x8f, _, high, low, rest @ ..] => ether_payload(u16::from_be_bytes([*high, *low]), rest),
        short if short.len() < 4 => Err(Skipped::Cut),
        _ => ppp(frame),
    }
}

/// Packets of Linux's NFLOG: family, version, resource, then attributes; one has the packet.
fn nflog(frame: &[u8]) -> Result<&[u8], Skipped> {
    const PAYLOAD: u16 = 9;
    let le16 = |at: usize| be16(frame, at).map(u16::swap_bytes);
    let mut at = 4;
    loop {
        let (length, kind) = (usize::from(le16(at)?), le16(at + 2)?);
        if length < 4 {
            return Err(Skipped::Malformed);
        }
        if kind == PAYLOAD {
            let bytes = from(frame, at + 4)?;
            return raw_ip(&bytes[..bytes.len().min(length - 4)]);
        }
        at += length.next_multiple_of(4);
    }
}

/// Endace's extensible record as the contents of a packet.
fn erf(frame: &[u8]) -> Result<&[u8], Skipped> {
    let record = erf::Record::parse(frame).ok_or(Skipped::Cut)?;
    match record.link_type {
        Some(link) if link != link_type::ERF => network_layer(link, from(frame, record.header)?),
        _ => Err(Skipped::NoIp),
    }
}

/// Apple's header with the name of the process; the frame behind it has a link type of its own.
fn pktap(frame: &[u8]) -> Result<&[u8], Skipped> {
    let le32 = |at: usize| match frame.get(at..at + 4) {
        Some(&[a, b, c, d]) => Ok(u32::from_le_bytes([a, b, c, d])),
        _ => Err(Skipped::Cut),
    };
    const WITH_PACKET: u32 = 1;
    let (length, next, link) = (le32(0)?, le32(4)?, le32(8)?);
    match u16::try_from(link) {
        Ok(link_type::PKTAP) | Err(_) => Err(Skipped::Malformed),
        Ok(_) if next != WITH_PACKET => Err(Skipped::NoIp),
        Ok(link) => network_layer(link, from(frame, length as usize)?),
    }
}

/// Below VLAN tags, MPLS labels and PPPoE; a length in place of a type stands before LLC and SNAP.
pub(super) fn ether_payload(mut kind: u16, mut rest: &[u8]) -> Result<&[u8], Skipped> {
    for _ in 0..MAX_TAGS {
        match kind {
            ether_type::IPV4 | ether_type::IPV6 => return Ok(rest),
            ether_type::VLAN | ether_type::PROVIDER_BRIDGING | ether_type::VLAN_DOUBLE => {
                kind = be16(rest, 2)?;
                rest = from(rest, 4)?;
            }
            ether_type::MPLS => {
                let label = from(rest, 2)?.first().ok_or(Skipped::Cut)?;
                rest = from(rest, 4)?;
                if label & 1 == 1 {
                    return raw_ip(rest);
                }
            }
            // IEEE 802.3: a length.
            0..=1500 => match rest {
                [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low, inner @ ..] => {
                    kind = u16::from_be_bytes([*high, *low]);
                    rest = inner;
                }
                _ => return Err(Skipped::NoIp),
            },
            // PPP protocol numbers of IPv4 and IPv6 behind PPPoE's header (RFC 2516).
            ether_type::PPPOE_SESSION => match be16(rest, 6)? {
                0x0021 | 0x0057 => return from(rest, 8),
                _ => return Err(Skipped::NoIp),
            },
            _ => return Err(Skipped::NoIp),
        }
    }
    Err(Skipped::NoIp)
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Result<u16, Skipped> {
    match bytes.get(at..at + 2) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(Skipped::Cut),
    }
}
pub(super) fn from(bytes: &[u8], at: usize) -> Result<&[u8], Skipped> {
    bytes.get(at..).ok_or(Skipped::Cut)
}
