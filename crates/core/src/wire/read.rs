//! Real packets: from their bytes to the fields that queues and radios look at, and their ECN bits
//! back into the bytes.
//!
//! IPv4 and IPv6 are read, with extension headers; of TCP all fields and the options of
//! acknowledgements, of UDP and ICMP echoes kind and length. All other packets have their length
//! alone. The reader never looks at payload, and tests no checksum.
//!
//! **Connections.** A connection is known by a hash of both addresses, the protocol and both ports,
//! the same for both directions. An echo has its identifier in place of ports. Fragments have the
//! datagram's identification and never ports, which only the first of them carries. All other
//! packets of one protocol between two addresses are one connection.
//!
//! **Access categories** are those that Linux gives a packet by its DSCP: `cfg80211_classify8021d`
//! in net/wireless/util.c, after RFC 8325 section 4, and `ieee802_1d_to_ac` in net/mac80211/wme.c
//! (6.12.117).
//!
//! **Windows** are scaled as the SYNs of the connection announced. [`Reader`] remembers the scales
//! of the connections that began last, and leaves the windows of others unscaled.

use std::net::IpAddr;

use etherparse::{
    Icmpv4Slice, Icmpv4Type, Icmpv6Slice, Icmpv6Type, IpAuthHeaderSlice, IpNumber, Ipv6ExtensionsSlice,
    Ipv6FragmentHeaderSlice, Ipv6RawExtHeaderSlice, LaxIpSlice, TcpHeaderSlice, tcp_option,
};

use super::MAX_WINDOW_SCALE;
use crate::convert::{high32, index, saturate16};
use crate::packet::{Ecn, Kind, Packet, SackBlock, TcpFlags};
use crate::rng::splitmix;
use crate::units::Seq32;
use crate::wifi::Ac;

/// Connections whose window scales are remembered: a power of 2. They take 128 KiB.
const REMEMBERED: usize = 1 << 13;

/// Bytes that cannot even be forwarded as a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// There are none.
    #[error("the packet is empty")]
    Empty,
    /// The version is neither 4 nor 6.
    #[error("the packet is not IP: its version is {version}, must be 4 or 6")]
    NotIp {
        /// The first four bits.
        version: u8,
    },
    /// The packet is shorter than its header, or its header has an impossible length.
    #[error("the packet has no whole IPv{version} header in its {bytes} bytes")]
    NoHeader {
        /// Its version.
        version: u8,
        /// Its length.
        bytes: usize,
    },
}

/// A packet as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    /// Address of its source.
    pub src: IpAddr,
    /// Address of its destination.
    pub dst: IpAddr,
    /// Its fields. It is external, and of no flow yet.
    pub packet: Packet,
}

/// Reads packets, those of one network in their order.
#[derive(Debug)]
pub struct Reader {
    /// By the low bits of [`Identity::key`].
    scales: Vec<Scales>,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader { scales: vec![Scales::default(); REMEMBERED] }
    }
}

/// Window scales that the SYNs of a connection announced.
#[derive(Debug, Clone, Copy, Default)]
struct Scales {
    /// Key of the connection; zero: the entry is free.
    key: u64,
    /// Scales of the lower and the higher endpoint; `None`: not announced.
    of: [Option<u8>; 2],
}

/// The connection of a packet, and the end that sent it.
#[derive(Debug, Clone, Copy)]
struct Identity {
    key: u64,
    is_from_higher: bool,
}

impl Identity {
    fn new(protocol: IpNumber, from: (u128, u16), to: (u128, u16), more: u32) -> Identity {
        let (lower, higher) = (from.min(to), from.max(to));
        let mut key = u64::from(protocol.0) << 32 | u64::from(more);
        for (address, port) in [lower, higher] {
            let [high, low] = [address >> 64, address].map(|half| half.to_le_bytes());
            let word = |bytes: [u8; 16]| u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| bytes[i]));
            key = splitmix(key ^ word(high));
            key = splitmix(key ^ word(low));
            key = splitmix(key ^ u64::from(port));
        }
        // Zero stands for none.
        Identity { key: key.max(1), is_from_higher: from > to }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Fields of the headers above IP.
#[derive(Default)]
struct Above {
    kind: Option<Kind>,
    /// Ports of source and destination.
    ports: [u16; 2],
    header_bytes: usize,
    /// Sequence number, of TCP, or number of an echo.
    seq: u32,
}

impl Reader {
    /// Reads a packet from its IP header on. It fails only if there is no IP header; a packet with
    /// other unreadable parts has its length alone.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Read, Unread> {
        let version = bytes.first().ok_or(Unread::Empty)? >> 4;
        if version != 4 && version != 6 {
            return Err(Unread::NotIp { version });
        }
        let no_header = |_| Unread::NoHeader { version, bytes: bytes.len() };
        let (ip, _) = LaxIpSlice::from_slice(bytes).map_err(no_header)?;
        let (src, dst) = (ip.source_addr(), ip.destination_addr());
        let protocol = ip.payload_ip_number();
        let payload = ip.payload().payload;
        let (traffic_class, datagram) = match &ip {
            LaxIpSlice::Ipv4(v4) => {
                let header = v4.header();
                (header.dcp().value() << 2 | header.ecn().value(), u32::from(header.identification()))
            }
            LaxIpSlice::Ipv6(v6) => (v6.header().traffic_class(), fragmented(v6.extensions()).unwrap_or(0)),
        };
        let is_fragment = ip.is_fragmenting_payload();
        let tcp =
            if protocol == IpNumber::TCP && !is_fragment { TcpHeaderSlice::from_slice(payload).ok() } else { None };
        let above = match &tcp {
            _ if is_fragment => Above::default(),
            Some(tcp) => Above {
                kind: Some(Kind::Tcp),
                ports: [tcp.source_port(), tcp.destination_port()],
                header_bytes: tcp.slice().len(),
                seq: tcp.sequence_number(),
            },
            None => above(protocol, payload, if version == 4 { datagram } else { 0 }),
        };
        let [from, to] = [(src, above.ports[0]), (dst, above.ports[1])].map(|(address, port)| (number(address), port));
        let identity = Identity::new(protocol, from, to, if is_fragment { datagram } else { 0 });
        let mut packet = Packet::external(
            above.kind.unwrap_or(Kind::Udp),
            high32(identity.key),
            access_category(traffic_class >> 2),
        );
        packet.size = saturate16(bytes.len() as u64);
        packet.len = saturate16((payload.len() - above.header_bytes) as u64);
        packet.ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(traffic_class & 3)];
        packet.seq = Seq32(above.seq);
        if let Some(tcp) = &tcp {
            self.read_tcp(tcp, identity, &mut packet);
        }
        Ok(Read { src, dst, packet })
    }

    fn read_tcp(&mut self, tcp: &TcpHeaderSlice, identity: Identity, packet: &mut Packet) {
        packet.flags = TcpFlags::from_bits(tcp.slice()[13]);
        packet.ack = Seq32(if tcp.ack() { tcp.acknowledgment_number() } else { 0 });
        let mut scale = None;
        let mut sack: &[u8] = &[];
        for (kind, value) in Options(tcp.options()) {
            match (kind, value) {
                (tcp_option::KIND_WINDOW_SCALE, &[shift]) => scale = Some(shift.min(MAX_WINDOW_SCALE)),
                (tcp_option::KIND_TIMESTAMP, &[a, b, c, d, e, f, g, h]) => {
                    packet.ts_val = u32::from_be_bytes([a, b, c, d]);
                    packet.ts_ecr = u32::from_be_bytes([e, f, g, h]);
                }
                (tcp_option::KIND_SELECTIVE_ACK, blocks) => sack = blocks,
                _ => {}
            }
        }
        // After the timestamps: they decide how many there can be.
        for block in sack.chunks_exact(8) {
            let end = |at: usize| Seq32(u32::from_be_bytes([0, 1, 2, 3].map(|i| block[at + i])));
            packet.push_sack(SackBlock { start: end(0), end: end(4) });
        }
        let scales = &mut self.scales[index(identity.key) % REMEMBERED];
        if tcp.syn() {
            // The first SYN of either side begins anew, and that of the other joins it.
            if scales.key != identity.key || !tcp.ack() {
                *scales = Scales { key: identity.key, of: [None; 2] };
            }
            scales.of[usize::from(identity.is_from_higher)] = scale;
        }
        let is_scaled = scales.key == identity.key && scales.of.iter().all(Option::is_some) && !tcp.syn();
        let shift = if is_scaled { scales.of[usize::from(identity.is_from_higher)].unwrap_or(0) } else { 0 };
        packet.window = u32::from(tcp.window_size()) << shift;
    }
}

/// Identification of the datagram of which an IPv6 packet is a fragment. The library's iterator is
/// not used: where an extension is cut, it reads past the packet's end (etherparse 0.21).
fn fragmented(extensions: &Ipv6ExtensionsSlice) -> Option<u32> {
    let (mut kind, mut rest) = (extensions.first_header()?, extensions.slice());
    loop {
        let (bytes, next) = match kind {
            IpNumber::IPV6_FRAGMENTATION_HEADER => {
                return Some(Ipv6FragmentHeaderSlice::from_slice(rest).ok()?.identification());
            }
            IpNumber::IPV6_HEADER_HOP_BY_HOP | IpNumber::IPV6_ROUTE_HEADER | IpNumber::IPV6_DESTINATION_OPTIONS => {
                let header = Ipv6RawExtHeaderSlice::from_slice(rest).ok()?;
                (header.slice().len(), header.next_header())
            }
            IpNumber::AUTHENTICATION_HEADER => {
                let header = IpAuthHeaderSlice::from_slice(rest).ok()?;
                (header.slice().len(), header.next_header())
            }
            _ => return None,
        };
        (kind, rest) = (next, rest.get(bytes..)?);
    }
}

/// Fields of the headers of all protocols but TCP. `datagram`: the identification in the IP header.
fn above(protocol: IpNumber, payload: &[u8], datagram: u32) -> Above {
    /// Length of the header of UDP, and of an echo.
    const HEADER: usize = 8;
    if payload.len() < HEADER {
        return Above::default();
    }
    let echo = match protocol {
        IpNumber::UDP => {
            let port = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
            return Above { kind: Some(Kind::Udp), ports: [port(0), port(2)], header_bytes: HEADER, seq: datagram };
        }
        IpNumber::ICMP => match Icmpv4Slice::from_slice(payload).map(|icmp| icmp.icmp_type()) {
            Ok(Icmpv4Type::EchoRequest(echo)) => Some((Kind::EchoRequest, echo)),
            Ok(Icmpv4Type::EchoReply(echo)) => Some((Kind::EchoReply, echo)),
            _ => None,
        },
        IpNumber::IPV6_ICMP => match Icmpv6Slice::from_slice(payload).map(|icmp| icmp.icmp_type()) {
            Ok(Icmpv6Type::EchoRequest(echo)) => Some((Kind::EchoRequest, echo)),
            Ok(Icmpv6Type::EchoReply(echo)) => Some((Kind::EchoReply, echo)),
            _ => None,
        },
        _ => None,
    };
    match echo {
        Some((kind, echo)) => {
            Above { kind: Some(kind), ports: [echo.id; 2], header_bytes: HEADER, seq: u32::from(echo.seq) }
        }
        None => Above::default(),
    }
}

/// Kinds and values of TCP options, up to the end of the list or the first that does not fit. The
/// library's iterator ends at the first kind that it does not know.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while let [tcp_option::KIND_NOOP, rest @ ..] = self.0 {
            self.0 = rest;
        }
        let (&[kind, length], _) = self.0.split_first_chunk()?;
        if kind == tcp_option::KIND_END {
            return None;
        }
        // The length takes in kind and length.
        let value = self.0.get(2..usize::from(length))?;
        self.0 = &self.0[usize::from(length)..];
        Some((kind, value))
    }
}

/// See the module's text.
fn access_category(dscp: u8) -> Ac {
    let priority = match dscp {
        // AF11 to AF13, CS2.
        10 | 12 | 14 | 16 => 0,
        // AF21 to AF23.
        18 | 20 | 22 => 3,
        // CS3, AF31 to AF33.
        24 | 26 | 28 | 30 => 4,
        // Voice admit, EF.
        44 | 46 => 6,
        // CS6.
        48 => 7,
        other => other >> 3,
    };
    match priority {
        1 | 2 => Ac::Bk,
        4 | 5 => Ac::Vi,
        6 | 7 => Ac::Vo,
        _ => Ac::Be,
    }
}

/// Writes the ECN bits of an IP header, and mends the checksum of IPv4 (RFC 1624 equation 3). Does
/// nothing where there is no IP header.
pub fn patch_ecn(bytes: &mut [u8], ecn: Ecn) {
    let ecn = ecn as u8;
    match bytes {
        [first, second, ..] if *first >> 4 == 6 => *second = *second & !0x30 | ecn << 4,
        [first, second, _, _, _, _, _, _, _, _, high, low, ..] if *first >> 4 == 4 => {
            let before = u16::from_be_bytes([*first, *second]);
            *second = *second & !0x03 | ecn;
            let after = u16::from_be_bytes([*first, *second]);
            if after != before {
                let checksum = u16::from_be_bytes([*high, *low]);
                let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
                while sum > 0xffff {
                    sum = (sum & 0xffff) + (sum >> 16);
                }
                [.., *high, *low] = (!sum).to_be_bytes();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
