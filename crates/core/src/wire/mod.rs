//! Real header bytes: packets of the simulator as IPv4 with TCP, UDP or ICMP echo, checksums
//! correct over a payload of zeros.
//!
//! **Addresses.** Node *n* is `10.x.y.z` with `x.y = n / 254` and `z = n % 254 + 1`: node 0 is
//! 10.0.0.1, node 253 is 10.0.0.254, node 254 is 10.0.1.1. It wraps around after 16 646 144 nodes.
//! In IPv6 node *n* is `fd00::` plus *n* + 1.
//!
//! **Ports.** Flow *f* runs from port `61440 + 16 * (f % 256) + incarnation` to port `50000 + f /
//! 256 % 4096`, so that the connections of 2^20 flows between the same two nodes are told apart,
//! and a flow's 17th connection reuses the port of its first. Both ranges are free of protocols
//! that Wireshark would recognise by port. An echo's identifier is the flow's first port, its
//! number the low 16 bits of `seq`; a datagram's number (low 16 bits) is the IP identification,
//! which is zero elsewhere (RFC 6864: DF is set, the field is free).
//!
//! **Lengths.** The IP total length is `packet.size`. Where `size` leaves more room for TCP options
//! than there are options, NOPs fill it; where it leaves less, options are left out (of a SYN:
//! timestamps first, then SACK permitted, MSS, window scale; elsewhere the last SACK blocks first,
//! timestamps last). Bytes beyond a multiple of 4, or beyond the 40 bytes that TCP options can
//! have, are payload. A `size` below the smallest valid packet of its kind is raised to it (TCP 40
//! bytes, else 28): no invalid packet is ever written.
//!
//! **Windows.** `packet.window` is in bytes; the field holds it divided by 2^scale and rounded down
//! (RFC 7323 section 2.3), except that an open window never reads as closed: at least 1. It
//! saturates at 65535. On a SYN it is not scaled.

mod read;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    IcmpEchoHeader, Icmpv4Header, Icmpv4Type, IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptions, UdpHeader, tcp_option,
};

pub use read::{Read, Reader, Unread, patch_ecn};

use crate::convert::low16;
use crate::packet::{Ecn, Kind, MAX_SACK, Packet, TcpFlags};
use crate::tcp::{Recovery, TcpConfig};

const IP_HEADER: u16 = Ipv4Header::MIN_LEN_U16;
const TCP_HEADER: u16 = low16(TcpHeader::MIN_LEN as u64);
/// A UDP header, and as many bytes of an ICMP echo's.
const SHORT_HEADER: u16 = UdpHeader::LEN_U16;
/// The largest shift of the window field (RFC 7323 section 2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;
/// The option AccECN0 (RFC 9768 section 3.2.3), as flows with ECT(1) have it: bytes with ECT(0),
/// then bytes with CE.
const KIND_ACCURATE_ECN: u8 = 172;
/// Same in every packet: the simulator's packets carry no hop count.
const TIME_TO_LIVE: u8 = 64;

/// Addresses and ports of one packet. For ICMP the port of the flow's source is the echo
/// identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints {
    /// Address of the source.
    pub src: Ipv4Addr,
    /// Address of the destination.
    pub dst: Ipv4Addr,
    /// Port of the source.
    pub src_port: u16,
    /// Port of the destination.
    pub dst_port: u16,
}

/// The address of node number `node` (see the module's text).
pub fn address(node: u32) -> Ipv4Addr {
    let [_, x, y, _] = (node / 254 % 65_536 * 256).to_be_bytes();
    let [.., z] = (node % 254 + 1).to_be_bytes();
    Ipv4Addr::new(10, x, y, z)
}

/// The IPv6 address of node number `node` (see the module's text).
pub fn address6(node: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(PREFIX6 | (u128::from(node) + 1))
}

const PREFIX6: u128 = 0xfd00 << 112;

/// The node that has this address; `None` if no node has it.
pub fn node_at(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, _, _, 0 | 255] => None,
            [10, x, y, z] => Some(u32::from_be_bytes([0, 0, x, y]) * 254 + u32::from(z) - 1),
            _ => None,
        },
        IpAddr::V6(v6) => u32::try_from((v6.to_bits() ^ PREFIX6).checked_sub(1)?).ok(),
    }
}

impl Endpoints {
    /// Where `packet` comes from and goes to when its flow runs from node number `from` to node
    /// number `to`.
    pub fn of(packet: &Packet, from: u32, to: u32) -> Endpoints {
        let flow = packet.flow.0;
        let from_port = 61_440 + 16 * low16(u64::from(flow % 256)) + u16::from(packet.incarnation());
        let to_port = 50_000 + low16(u64::from(flow / 256 % 4096));
        let forward = Endpoints { src: address(from), dst: address(to), src_port: from_port, dst_port: to_port };
        if packet.is_reverse() { forward.reversed() } else { forward }
    }

    fn reversed(self) -> Endpoints {
        Endpoints { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port }
    }
}

/// Options that the TCP end announces on its SYN. The simulator's packets do not carry them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Announced {
    /// Maximum segment size, which leaves options out of account (RFC 6691).
    pub mss: u16,
    /// Windows count in units of 2^`window_scale` bytes; at most [`MAX_WINDOW_SCALE`] is used.
    pub window_scale: u8,
    /// Selective acknowledgements are understood.
    pub sack_permitted: bool,
    /// The connection uses timestamps: the option is written even if both its fields happen to be
    /// zero.
    pub timestamps: bool,
}

impl Announced {
    /// Options that an end with configuration `own` announces to one with `peer`. The window scale
    /// is the smallest with which the largest receive buffer fits the field, and
    /// [`MAX_WINDOW_SCALE`] beyond that.
    pub fn of(own: &TcpConfig, peer: &TcpConfig) -> Announced {
        let buffer = own.buffers.receive_max.max(own.buffers.receive).get();
        let fits = |scale: &u8| buffer <= u64::from(u16::MAX) << scale;
        Announced {
            mss: own.connection.packet_bytes.saturating_sub(IP_HEADER + TCP_HEADER),
            window_scale: (0..MAX_WINDOW_SCALE).find(fits).unwrap_or(MAX_WINDOW_SCALE),
            sack_permitted: own.loss_recovery.recovery == Recovery::Sack
                && peer.loss_recovery.recovery == Recovery::Sack,
            timestamps: own.timestamps.enabled && peer.timestamps.enabled,
        }
    }
}

/// Bytes of the TCP options of a SYN that announces everything: MSS and window scale, and the
/// options asked for.
pub const fn syn_option_bytes(sack_permitted: bool, timestamps: bool) -> u16 {
    let bytes = tcp_option::LEN_MAXIMUM_SEGMENT_SIZE as u16
        + tcp_option::LEN_WINDOW_SCALE as u16
        + if sack_permitted { tcp_option::LEN_SELECTIVE_ACK_PERMITTED as u16 } else { 0 }
        + if timestamps { tcp_option::LEN_TIMESTAMP as u16 } else { 0 };
    bytes.next_multiple_of(4)
}

/// Appends the IP and TCP, UDP or ICMP headers of `packet` to `out`, without payload, and returns
/// the IP total length: the packet goes on with zeros up to it.
pub fn write_headers(packet: &Packet, addresses: &Endpoints, announced: &Announced, out: &mut Vec<u8>) -> u16 {
    match packet.kind {
        Kind::Tcp => write_tcp(packet, addresses, announced, out),
        Kind::Udp => write_udp(packet, addresses, out),
        Kind::EchoRequest | Kind::EchoReply => write_echo(packet, addresses, out),
    }
}

/// [`write_headers`] followed by the payload of zeros.
pub fn write_packet(packet: &Packet, addresses: &Endpoints, announced: &Announced, out: &mut Vec<u8>) -> u16 {
    let start = out.len();
    let total = write_headers(packet, addresses, announced, out);
    out.resize(start + usize::from(total), 0);
    total
}

fn write_ip(packet: &Packet, addresses: &Endpoints, protocol: IpNumber, total: u16, out: &mut Vec<u8>) {
    let mut ip = Ipv4Header {
        ecn: match packet.ecn {
            Ecn::NotEct => IpEcn::NotEct,
            Ecn::Ect1 => IpEcn::Ect1,
            Ecn::Ect0 => IpEcn::Ect0,
            Ecn::Ce => IpEcn::CongestionExperienced,
        },
        total_len: total,
        identification: if packet.kind == Kind::Udp { low16(packet.seq.0.into()) } else { 0 },
        dont_fragment: true,
        time_to_live: TIME_TO_LIVE,
        protocol,
        source: addresses.src.octets(),
        destination: addresses.dst.octets(),
        ..Ipv4Header::default()
    };
    ip.header_checksum = ip.calc_header_checksum();
    out.extend_from_slice(&ip.to_bytes());
}

/// Sum over the pseudo header (RFC 9293 section 3.1, RFC 768). Zeros of the payload count in the
/// length alone, so the headers are all that is left to add.
fn pseudo_header(addresses: &Endpoints, protocol: IpNumber, segment_bytes: u16) -> Sum16BitWords {
    Sum16BitWords::new()
        .add_4bytes(addresses.src.octets())
        .add_4bytes(addresses.dst.octets())
        .add_2bytes([0, protocol.0])
        .add_2bytes(segment_bytes.to_be_bytes())
}

fn write_tcp(packet: &Packet, addresses: &Endpoints, announced: &Announced, out: &mut Vec<u8>) -> u16 {
    let total = packet.size.max(IP_HEADER + TCP_HEADER);
    let segment = total - IP_HEADER;
    let room = (segment - TCP_HEADER).saturating_sub(packet.len).min(low16(TcpOptions::MAX_LEN as u64)) & !3;
    let has = |flag| packet.has(flag);
    let mut tcp = TcpHeader {
        ns: packet.accurate_ecn().ace & 4 != 0, // AE of RFC 9768
        acknowledgment_number: if has(TcpFlags::ACK) { packet.ack.0 } else { 0 },
        fin: has(TcpFlags::FIN),
        syn: has(TcpFlags::SYN),
        rst: has(TcpFlags::RST),
        psh: has(TcpFlags::PSH),
        ack: has(TcpFlags::ACK),
        urg: has(TcpFlags::URG),
        ece: has(TcpFlags::ECE),
        cwr: has(TcpFlags::CWR),
        options: options(packet, announced, usize::from(room)),
        ..TcpHeader::new(addresses.src_port, addresses.dst_port, packet.seq.0, window_field(packet, announced))
    };
    let sum = pseudo_header(addresses, IpNumber::TCP, segment).add_slice(&tcp.to_bytes());
    tcp.checksum = sum.ones_complement().to_be();
    write_ip(packet, addresses, IpNumber::TCP, total, out);
    out.extend_from_slice(&tcp.to_bytes());
    total
}

fn window_field(packet: &Packet, announced: &Announced) -> u16 {
    let scale = if packet.has(TcpFlags::SYN) { 0 } else { announced.window_scale.min(MAX_WINDOW_SCALE) };
    let units = (packet.window >> scale).max(u32::from(packet.window > 0));
    u16::try_from(units).unwrap_or(u16::MAX)
}

/// The options of `packet` that fit into `room` bytes (a multiple of 4, at most 40), then NOPs.
fn options(packet: &Packet, announced: &Announced, room: usize) -> TcpOptions {
    let mut field = OptionField { bytes: [tcp_option::KIND_NOOP; TcpOptions::MAX_LEN], used: 0, room };
    let has_timestamps = announced.timestamps || packet.ts_val != 0 || packet.ts_ecr != 0;
    let timestamps = two_words(packet.ts_val, packet.ts_ecr);
    if packet.has(TcpFlags::SYN) {
        // In order of importance: without the scale every later window would be misread.
        field.push(0, tcp_option::KIND_WINDOW_SCALE, &[announced.window_scale.min(MAX_WINDOW_SCALE)]);
        field.push(0, tcp_option::KIND_MAXIMUM_SEGMENT_SIZE, &announced.mss.to_be_bytes());
        if announced.sack_permitted {
            field.push(0, tcp_option::KIND_SELECTIVE_ACK_PERMITTED, &[]);
        }
        if has_timestamps {
            field.push(0, tcp_option::KIND_TIMESTAMP, &timestamps);
        }
    } else {
        // Two NOPs before each keep its fields on word boundaries (RFC 7323 appendix A).
        if has_timestamps {
            field.push(2, tcp_option::KIND_TIMESTAMP, &timestamps);
        }
        if let Some(bytes) = packet.accurate_ecn().ce_bytes {
            // Before it the bytes with the other ECT, of which there are none: the counter's first
            // value.
            let [_, high, middle, low] = bytes.to_be_bytes();
            field.push(0, KIND_ACCURATE_ECN, &[0, 0, 1, high, middle, low]);
        }
        let mut blocks = [[0; 8]; MAX_SACK];
        for (bytes, block) in blocks.iter_mut().zip(packet.sack()) {
            *bytes = two_words(block.start.0, block.end.0);
        }
        let fitting = (field.left().saturating_sub(4) / 8).min(packet.sack().len());
        if fitting > 0 {
            field.push(2, tcp_option::KIND_SELECTIVE_ACK, blocks[..fitting].as_flattened());
        }
    }
    TcpOptions::try_from_slice(&field.bytes[..room]).expect("room is a multiple of 4 and at most 40")
}

fn two_words(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

/// A TCP option field under construction; bytes not written stay NOP.
struct OptionField {
    bytes: [u8; TcpOptions::MAX_LEN],
    used: usize,
    room: usize,
}

impl OptionField {
    fn left(&self) -> usize {
        self.room - self.used
    }
    /// Appends an option after `nops` NOPs, or nothing if they do not fit.
    fn push(&mut self, nops: usize, kind: u8, value: &[u8]) {
        let len = 2 + value.len();
        if nops + len <= self.left() {
            let option = &mut self.bytes[self.used + nops..][..len];
            option[0] = kind;
            option[1] = u8::try_from(len).expect("as the field, 40 bytes at most");
            option[2..].copy_from_slice(value);
            self.used += nops + len;
        }
    }
}

fn write_udp(packet: &Packet, addresses: &Endpoints, out: &mut Vec<u8>) -> u16 {
    let total = packet.size.max(IP_HEADER + SHORT_HEADER);
    let mut udp = UdpHeader {
        source_port: addresses.src_port,
        destination_port: addresses.dst_port,
        length: total - IP_HEADER,
        checksum: 0,
    };
    let sum = pseudo_header(addresses, IpNumber::UDP, udp.length).add_slice(&udp.to_bytes());
    udp.checksum = sum.to_ones_complement_with_no_zero().to_be();
    write_ip(packet, addresses, IpNumber::UDP, total, out);
    out.extend_from_slice(&udp.to_bytes());
    total
}

fn write_echo(packet: &Packet, addresses: &Endpoints, out: &mut Vec<u8>) -> u16 {
    let total = packet.size.max(IP_HEADER + SHORT_HEADER);
    let id = if packet.is_reverse() { addresses.dst_port } else { addresses.src_port };
    let echo = IcmpEchoHeader { id, seq: low16(packet.seq.0.into()) };
    let kind = if packet.kind == Kind::EchoReply { Icmpv4Type::EchoReply(echo) } else { Icmpv4Type::EchoRequest(echo) };
    // ICMP has no pseudo header, so zeros add nothing at all.
    let icmp = Icmpv4Header::with_checksum(kind, &[]);
    write_ip(packet, addresses, IpNumber::ICMP, total, out);
    out.extend_from_slice(&icmp.to_bytes());
    total
}

#[cfg(test)]
mod tests;
