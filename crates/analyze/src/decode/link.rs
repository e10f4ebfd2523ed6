//! From the frame of a link to the IP packet in it.

use super::{Skipped, wlan};

/// LINKTYPE_ values of the tcpdump group's registry.
mod link_type {
    pub(super) const NULL: u16 = 0;
    pub(super) const ETHERNET: u16 = 1;
    /// DLT_RAW as some systems write it into files.
    pub(super) const RAW_BSD: u16 = 12;
    pub(super) const RAW_OPENBSD: u16 = 14;
    pub(super) const RAW: u16 = 101;
    pub(super) const IEEE802_11: u16 = 105;
    pub(super) const LOOP: u16 = 108;
    pub(super) const LINUX_SLL: u16 = 113;
    pub(super) const IEEE802_11_RADIOTAP: u16 = 127;
    pub(super) const IPV4: u16 = 228;
    pub(super) const IPV6: u16 = 229;
    pub(super) const LINUX_SLL2: u16 = 276;
}

pub(super) mod ether_type {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const IPV6: u16 = 0x86dd;
    /// IEEE 802.1Q, 802.1ad, and what came before the latter.
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const PROVIDER_BRIDGING: u16 = 0x88a8;
    pub(crate) const VLAN_DOUBLE: u16 = 0x9100;
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
        link_type::NULL | link_type::LOOP => match from(frame, 4)? {
            packet @ [first, ..] if matches!(first >> 4, 4 | 6) => Ok(packet),
            [] => Err(Skipped::Cut),
            _ => Err(Skipped::NoIp),
        },
        link_type::IEEE802_11 => wlan::payload(frame),
        link_type::IEEE802_11_RADIOTAP => wlan::payload_after_radiotap(frame),
        other => Err(Skipped::LinkType(other)),
    }
}

/// Below VLAN tags and PPPoE.
pub(super) fn ether_payload(mut kind: u16, mut rest: &[u8]) -> Result<&[u8], Skipped> {
    for _ in 0..MAX_TAGS {
        match kind {
            ether_type::IPV4 | ether_type::IPV6 => return Ok(rest),
            ether_type::VLAN | ether_type::PROVIDER_BRIDGING | ether_type::VLAN_DOUBLE => {
                kind = be16(rest, 2)?;
                rest = from(rest, 4)?;
            }
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
