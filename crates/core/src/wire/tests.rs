use etherparse::TcpOptionElement as Opt;
use etherparse::{NetHeaders, PacketHeaders, TransportHeader};
use proptest::prelude::*;

use super::*;
use crate::packet::{FlowId, SackBlock};
use crate::tcp::BufferConfig;
use crate::tcp::profile::profile;
use crate::units::{Bytes, Seq32};

const LINUX: Announced = Announced { mss: 1460, window_scale: 7, sack_permitted: true, timestamps: true };
const NS2: Announced = Announced { mss: 960, window_scale: 14, sack_permitted: false, timestamps: false };

/// RFC 1071, by the book and independent of the library: right data sums to 0xffff, its checksum
/// included.
fn internet_sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for word in part.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Reads `bytes` back and checks lengths and checksums; IP, transport and number of payload bytes.
fn parse(bytes: &[u8]) -> (Ipv4Header, TransportHeader, usize) {
    let headers = PacketHeaders::from_ip_slice(bytes).expect("a valid packet");
    let Some(NetHeaders::Ipv4(ip, _)) = headers.net else { panic!("not IPv4") };
    assert_eq!(usize::from(ip.total_len), bytes.len());
    assert_eq!(internet_sum(&[&bytes[..20]]), 0xffff, "IP checksum");
    let segment = &bytes[20..];
    let length = (segment.len() as u16).to_be_bytes();
    let pseudo = [&ip.source[..], &ip.destination, &[0, ip.protocol.0], &length].concat();
    let transport = headers.transport.expect("a transport header");
    match &transport {
        TransportHeader::Icmpv4(_) => assert_eq!(internet_sum(&[segment]), 0xffff, "ICMP checksum"),
        _ => assert_eq!(internet_sum(&[&pseudo, segment]), 0xffff, "transport checksum"),
    }
    if let TransportHeader::Udp(udp) = &transport {
        assert_ne!(udp.checksum, 0, "zero would mean that there is none");
        assert_eq!(usize::from(udp.length), segment.len());
    }
    let payload = segment.len() - transport.header_len();
    assert!(bytes[bytes.len() - payload..].iter().all(|&b| b == 0));
    (ip, transport, payload)
}

fn tcp_of(packet: &Packet, announced: &Announced) -> (TcpHeader, usize) {
    let mut bytes = Vec::new();
    write_packet(packet, &Endpoints::of(packet, 0, 1), announced, &mut bytes);
    let (_, transport, payload) = parse(&bytes);
    (transport.tcp().expect("TCP"), payload)
}

fn elements(tcp: &TcpHeader) -> Vec<Opt> {
    tcp.options_iterator().map(|o| o.expect("a valid option")).filter(|o| *o != Opt::Noop).collect()
}

fn segment(flags: TcpFlags, size: u16, len: u16) -> Packet {
    let mut packet = Packet::new(FlowId(0), Kind::Tcp, 0);
    (packet.flags, packet.size, packet.len) = (flags, size, len);
    packet
}

fn with_sack(mut packet: Packet, blocks: u32) -> Packet {
    for i in 0..blocks {
        packet.push_sack(SackBlock { start: Seq32(1000 * i), end: Seq32(1000 * i + 500) });
    }
    packet
}

#[test]
fn a_syn_byte_by_byte() {
    let mut packet = segment(TcpFlags::SYN, 60, 0);
    (packet.window, packet.ts_val, packet.seq) = (65_535, 5, Seq32(7));
    let mut bytes = Vec::new();
    assert_eq!(write_headers(&packet, &Endpoints::of(&packet, 0, 254), &LINUX, &mut bytes), 60);
    #[rustfmt::skip]
    assert_eq!(bytes[..10], [0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 6]);
    assert_eq!(bytes[12..20], [10, 0, 0, 1, 10, 0, 1, 1]);
    #[rustfmt::skip]
    assert_eq!(bytes[20..36], [
        0xf0, 0x00, 0xc3, 0x50, // 61440, 50000
        0, 0, 0, 7,
        0, 0, 0, 0,
        0xa0, 0x02, 0xff, 0xff, // ten words, SYN, window
    ]);
    #[rustfmt::skip]
    assert_eq!(bytes[38..], [
        0, 0,
        3, 3, 7,
        2, 4, 0x05, 0xb4,
        4, 2,
        8, 10, 0, 0, 0, 5, 0, 0, 0, 0,
        1,
    ]);
    parse(&bytes);
}

#[test]
fn options_are_what_fits_between_header_and_payload() {
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    let scale = |s| Opt::WindowScale(s);
    let mss = |m| Opt::MaximumSegmentSize(m);
    let permitted = Opt::SelectiveAcknowledgementPermitted;
    let ts = Opt::Timestamp(9, 8);
    let sack = |n: u32| {
        let block = |i: u32| (i < n).then_some((1000 * i, 1000 * i + 500));
        Opt::SelectiveAcknowledgement(block(0).unwrap(), [block(1), block(2), block(3)])
    };
    let timed = |mut p: Packet| {
        (p.ts_val, p.ts_ecr) = (9, 8);
        p
    };
    let cases = [
        // Packets as TCP sends them: their sizes fit exactly.
        (timed(segment(syn, 60, 0)), LINUX, 40, 0, vec![scale(7), mss(1460), permitted.clone(), ts.clone()]),
        (segment(syn, 48, 0), NS2, 28, 0, vec![scale(14), mss(960)]),
        (timed(segment(ack, 1500, 1448)), LINUX, 32, 1448, vec![ts.clone()]),
        (segment(ack, 1500, 1460), NS2, 20, 1460, vec![]),
        (with_sack(timed(segment(ack, 64, 0)), 1), LINUX, 44, 0, vec![ts.clone(), sack(1)]),
        (with_sack(timed(segment(ack, 80, 0)), 3), LINUX, 60, 0, vec![ts.clone(), sack(3)]),
        (with_sack(segment(ack, 76, 0), 4), NS2, 56, 0, vec![sack(4)]),
        // Timestamps that happen to be zero are still there.
        (segment(ack, 52, 0), LINUX, 32, 0, vec![Opt::Timestamp(0, 0)]),
        // More room than options: NOPs.
        (segment(ack, 60, 0), NS2, 40, 0, vec![]),
        (timed(segment(ack, 68, 0)), LINUX, 48, 0, vec![ts.clone()]),
        // Less room: the least important option goes.
        (timed(segment(syn, 52, 0)), LINUX, 32, 0, vec![scale(7), mss(1460), permitted]),
        (segment(syn, 44, 0), NS2, 24, 0, vec![scale(14)]),
        (segment(syn, 40, 0), NS2, 20, 0, vec![]),
        (with_sack(timed(segment(ack, 80, 0)), 4), LINUX, 60, 0, vec![ts.clone(), sack(3)]),
        (with_sack(timed(segment(ack, 52, 0)), 2), LINUX, 32, 0, vec![ts.clone()]),
        (with_sack(timed(segment(ack, 1500, 1456)), 2), LINUX, 24, 1456, vec![]),
        // Sizes and lengths that contradict each other.
        (segment(ack, 1000, 0), NS2, 60, 920, vec![]),
        (segment(ack, 43, 0), NS2, 20, 3, vec![]),
        (segment(ack, 100, 5000), NS2, 20, 60, vec![]),
        (segment(ack, 0, 0), NS2, 20, 0, vec![]),
    ];
    for (packet, announced, header, payload, options) in cases {
        let (tcp, bytes) = tcp_of(&packet, &announced);
        assert_eq!((tcp.header_len(), bytes, elements(&tcp)), (header, payload, options), "{packet:?}");
    }
}

#[test]
fn a_syn_of_the_announced_size_carries_everything() {
    for (sack_permitted, timestamps) in [(false, false), (false, true), (true, false), (true, true)] {
        let announced = Announced { sack_permitted, timestamps, ..LINUX };
        let size = 40 + syn_option_bytes(sack_permitted, timestamps);
        let (tcp, _) = tcp_of(&segment(TcpFlags::SYN, size, 0), &announced);
        let expected = 2 + usize::from(sack_permitted) + usize::from(timestamps);
        assert_eq!(elements(&tcp).len(), expected);
        let (tcp, _) = tcp_of(&segment(TcpFlags::SYN, size - 4, 0), &announced);
        assert!(elements(&tcp).len() < expected, "{size} is not the smallest");
    }
}

#[test]
fn windows_are_scaled_rounded_down_and_never_falsely_closed() {
    for (window, scale, flags, field) in [
        (0, 7, TcpFlags::ACK, 0),
        (1, 7, TcpFlags::ACK, 1),
        (127, 7, TcpFlags::ACK, 1),
        (255, 7, TcpFlags::ACK, 1),
        (256, 7, TcpFlags::ACK, 2),
        (u32::MAX, 14, TcpFlags::ACK, 65_535),
        (1000, 200, TcpFlags::ACK, 1),
        (65_535, 7, TcpFlags::SYN, 65_535),
        (3_000_000, 7, TcpFlags::SYN | TcpFlags::ACK, 65_535),
        (1000, 7, TcpFlags::SYN, 1000),
    ] {
        let mut packet = segment(flags, 60, 0);
        packet.window = window;
        let (tcp, _) = tcp_of(&packet, &Announced { window_scale: scale, ..LINUX });
        assert_eq!(tcp.window_size, field, "{window} bytes, scale {scale}");
    }
}

#[test]
fn announcements_follow_the_configuration() {
    let linux = profile("linux-6").unwrap().resolve().unwrap();
    let ns2 = profile("ns2-reno").unwrap().resolve().unwrap();
    let scale = |max: u64| {
        let buffers = BufferConfig { receive: Bytes::new(0), receive_max: Bytes::new(max), ..linux.buffers.clone() };
        let config = TcpConfig { buffers, ..linux.clone() };
        Announced::of(&config, &linux).window_scale
    };
    assert_eq!(
        Announced::of(&linux, &linux),
        // 16 MiB >> 8 is one more than 16 bits hold.
        Announced { mss: 1460, window_scale: 9, sack_permitted: true, timestamps: true }
    );
    assert_eq!(Announced::of(&ns2, &ns2), NS2);
    assert_eq!(
        Announced::of(&linux, &ns2),
        Announced { sack_permitted: false, timestamps: false, ..Announced::of(&linux, &linux) }
    );
    assert_eq!([0, 65_535, 65_536, 131_070, 131_071, u64::MAX].map(scale), [0, 0, 1, 1, 2, 14]);
}

#[test]
fn addresses_by_node() {
    for (node, text) in [
        (0, "10.0.0.1"),
        (253, "10.0.0.254"),
        (254, "10.0.1.1"),
        (65_023, "10.0.255.254"),
        (65_024, "10.1.0.1"),
        (16_646_143, "10.255.255.254"),
        (16_646_144, "10.0.0.1"),
    ] {
        assert_eq!(address(node).to_string(), text, "node {node}");
    }
}

#[test]
fn an_echo_and_its_reply_carry_the_same_identifier_and_number() {
    let mut request = Packet::new(FlowId(5), Kind::EchoRequest, 0);
    (request.size, request.seq) = (84, Seq32(0x0001_0203));
    let mut reply = request;
    reply.kind = Kind::EchoReply;
    reply.set_reverse();
    for (packet, kind, src) in [
        (request, (|e| Icmpv4Type::EchoRequest(e)) as fn(IcmpEchoHeader) -> Icmpv4Type, 3),
        (reply, (|e| Icmpv4Type::EchoReply(e)) as fn(IcmpEchoHeader) -> Icmpv4Type, 9),
    ] {
        let mut bytes = Vec::new();
        write_packet(&packet, &Endpoints::of(&packet, 3, 9), &NS2, &mut bytes);
        let (ip, transport, payload) = parse(&bytes);
        assert_eq!((Ipv4Addr::from(ip.source), payload), (address(src), 56));
        assert_eq!(transport.icmpv4().unwrap().icmp_type, kind(IcmpEchoHeader { id: 61_520, seq: 0x0203 }));
    }
}

#[test]
fn connections_between_two_nodes_are_told_apart() {
    let ports = |flow, incarnation| {
        let ends = Endpoints::of(&Packet::new(FlowId(flow), Kind::Tcp, incarnation), 0, 1);
        assert!(ends.src_port >= 61_440 && (50_000..54_096).contains(&ends.dst_port));
        (ends.src_port, ends.dst_port)
    };
    let flows = (0..600).chain((3..1 << 12).map(|i| i << 8));
    let connections = flows.flat_map(|flow| (0..16).map(move |incarnation| (flow, incarnation)));
    let distinct: std::collections::BTreeSet<_> = connections.clone().map(|(f, i)| ports(f, i)).collect();
    assert_eq!(distinct.len(), connections.count());
    assert_eq!(ports(7, 16), ports(7, 0), "the 17th connection reuses the first's port");
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_all_ones() {
    let mut all_ones = 0;
    for size in 28..=u16::MAX {
        let mut packet = Packet::new(FlowId(1), Kind::Udp, 0);
        packet.size = size;
        let mut bytes = Vec::new();
        write_headers(&packet, &Endpoints::of(&packet, 0, 1), &NS2, &mut bytes);
        assert_ne!(bytes[26..28], [0, 0], "size {size} would mean: no checksum (RFC 768)");
        all_ones += u32::from(bytes[26..28] == [0xff, 0xff]);
    }
    assert!(all_ones > 0, "no size gives a sum of zero");
}

prop_compose! {
    fn any_packet()(
        flow in prop_oneof![0u32..2000, any::<u32>()],
        (kind, ecn) in (0usize..4, 0usize..4),
        incarnation in any::<u8>(),
        reverse in any::<bool>(),
        (size, len) in prop_oneof![(0u16..200, 0u16..200), (any::<u16>(), any::<u16>())],
        flags in any::<u8>(),
        (seq, ack, window) in any::<(u32, u32, u32)>(),
        (ts_val, ts_ecr) in prop_oneof![Just((0, 0)), any::<(u32, u32)>()],
        sack in prop::collection::vec(any::<(u32, u32)>(), 0..6),
    ) -> Packet {
        let kind = [Kind::Tcp, Kind::Udp, Kind::EchoRequest, Kind::EchoReply][kind];
        let mut packet = Packet::new(FlowId(flow), kind, incarnation);
        packet.ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][ecn];
        (packet.size, packet.len, packet.flags) = (size, len, TcpFlags::from_bits(flags));
        (packet.seq, packet.ack, packet.window) = (Seq32(seq), Seq32(ack), window);
        (packet.ts_val, packet.ts_ecr) = (ts_val, ts_ecr);
        if reverse {
            packet.set_reverse();
        }
        for (start, end) in sack {
            packet.push_sack(SackBlock { start: Seq32(start), end: Seq32(end) });
        }
        packet
    }
}

prop_compose! {
    fn any_announced()(mss in any::<u16>(), window_scale in any::<u8>(), bits in any::<(bool, bool)>()) -> Announced {
        Announced { mss, window_scale, sack_permitted: bits.0, timestamps: bits.1 }
    }
}

proptest! {
    #[test]
    fn every_packet_reads_back(
        packet in any_packet(),
        announced in any_announced(),
        from in any::<u32>(),
        to in any::<u32>(),
    ) {
        let ends = Endpoints::of(&packet, from, to);
        let mut bytes = vec![0xaa];
        let total = write_packet(&packet, &ends, &announced, &mut bytes);
        prop_assert_eq!(bytes[0], 0xaa);
        let bytes = &bytes[1..];
        let (ip, transport, payload) = parse(bytes);

        let least = if packet.kind == Kind::Tcp { 40 } else { 28 };
        prop_assert_eq!(total, packet.size.max(least));
        prop_assert_eq!(bytes.len(), usize::from(total));
        let (src, dst) = if packet.is_reverse() { (to, from) } else { (from, to) };
        prop_assert_eq!(ip.source, address(src).octets());
        prop_assert_eq!(ip.destination, address(dst).octets());
        prop_assert_eq!(ip.ecn.value(), packet.ecn as u8);
        prop_assert!(ip.dont_fragment && !ip.more_fragments && ip.fragment_offset.value() == 0);

        match transport {
            TransportHeader::Tcp(tcp) => {
                prop_assert_eq!(packet.kind, Kind::Tcp);
                prop_assert_eq!((tcp.source_port, tcp.destination_port), (ends.src_port, ends.dst_port));
                prop_assert_eq!(tcp.sequence_number, packet.seq.0);
                let bits = [tcp.fin, tcp.syn, tcp.rst, tcp.psh, tcp.ack, tcp.urg, tcp.ece, tcp.cwr];
                let flags = bits.iter().enumerate().fold(0, |f, (i, &b)| f | u8::from(b) << i);
                prop_assert_eq!(TcpFlags::from_bits(flags), packet.flags);
                prop_assert_eq!(tcp.acknowledgment_number, if tcp.ack { packet.ack.0 } else { 0 });
                prop_assert_eq!(tcp.window_size == 0, packet.window == 0);
                if u32::from(packet.size) >= 40 + u32::from(packet.len) {
                    prop_assert!(payload >= usize::from(packet.len));
                    prop_assert!(payload < usize::from(packet.len) + 4 || tcp.options.len() == 40);
                }
                for option in elements(&tcp) {
                    match option {
                        Opt::Timestamp(val, ecr) => prop_assert_eq!((val, ecr), (packet.ts_val, packet.ts_ecr)),
                        Opt::SelectiveAcknowledgement(first, rest) => {
                            prop_assert!(!tcp.syn);
                            let blocks: Vec<_> = [Some(first)].into_iter().chain(rest).flatten().collect();
                            let sent: Vec<_> = packet.sack().iter().map(|b| (b.start.0, b.end.0)).collect();
                            prop_assert_eq!(&blocks[..], &sent[..blocks.len()]);
                        }
                        Opt::MaximumSegmentSize(mss) => prop_assert!(tcp.syn && mss == announced.mss),
                        Opt::WindowScale(scale) => prop_assert!(tcp.syn && scale == announced.window_scale.min(14)),
                        Opt::SelectiveAcknowledgementPermitted => prop_assert!(tcp.syn && announced.sack_permitted),
                        Opt::Noop => unreachable!("filtered out"),
                    }
                }
            }
            TransportHeader::Udp(udp) => {
                prop_assert_eq!(packet.kind, Kind::Udp);
                prop_assert_eq!((udp.source_port, udp.destination_port), (ends.src_port, ends.dst_port));
                prop_assert_eq!(ip.identification, packet.seq.0 as u16);
            }
            TransportHeader::Icmpv4(icmp) => match icmp.icmp_type {
                Icmpv4Type::EchoRequest(echo) => {
                    prop_assert_eq!(packet.kind, Kind::EchoRequest);
                    prop_assert_eq!(echo.seq, packet.seq.0 as u16);
                }
                Icmpv4Type::EchoReply(echo) => {
                    prop_assert_eq!(packet.kind, Kind::EchoReply);
                    prop_assert_eq!(echo.seq, packet.seq.0 as u16);
                }
                other => prop_assert!(false, "{other:?}"),
            },
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
