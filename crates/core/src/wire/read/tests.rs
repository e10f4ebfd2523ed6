//! Reading packets: against the writer, against `etherparse`'s builder for packets that the writer
//! does not write, and any bytes at all.

use etherparse::{IpFragOffset, Ipv6FragmentHeader, PacketBuilder};
use proptest::prelude::*;

use super::super::{Announced, Endpoints, address, address6, node_at, write_packet};
use super::*;
use crate::packet::FlowId;

fn read(bytes: &[u8]) -> Read {
    Reader::default().read(bytes).expect("a packet")
}

/// TCP of IPv4 between two addresses and ports, as `change` makes it.
fn tcp(
    change: impl Fn(&mut etherparse::TcpHeader),
    from: ([u8; 4], u16),
    to: ([u8; 4], u16),
    payload: &[u8],
) -> Vec<u8> {
    let mut header = etherparse::TcpHeader::new(from.1, to.1, 1, 1000);
    change(&mut header);
    let mut bytes = Vec::new();
    PacketBuilder::ipv4(from.0, to.0, 64).tcp_header(header).write(&mut bytes, payload).unwrap();
    bytes
}

const A: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
const B: ([u8; 4], u16) = ([10, 0, 0, 2], 443);

#[test]
fn both_directions_are_one_connection_and_other_ports_another() {
    let of = |from, to| read(&tcp(|_| {}, from, to, &[])).packet.connection();
    assert_eq!(of(A, B), of(B, A));
    let others = [of(A, (B.0, 444)), of((A.0, 40_001), B), of(A, ([10, 0, 0, 3], 443)), of((A.0, 443), (B.0, 40_000))];
    assert!(others.iter().all(|&other| other != of(A, B)), "{others:?}");
    let mut udp = Vec::new();
    PacketBuilder::ipv4(A.0, B.0, 64).udp(A.1, B.1).write(&mut udp, &[]).unwrap();
    assert_ne!(read(&udp).packet.connection(), of(A, B), "another protocol");
}

#[test]
fn thousands_of_connections_are_told_apart() {
    let mut all: Vec<u32> = (0..4000).map(|port| read(&tcp(|_| {}, (A.0, port), B, &[])).packet.connection()).collect();
    all.sort_unstable();
    let before = all.len();
    all.dedup();
    // One in 500 sets of 4000 random hashes of 32 bits has an equal pair.
    assert!(before - all.len() <= 1, "{} collisions", before - all.len());
}

#[test]
fn echoes_have_their_identifier_and_number() {
    let mut connections = Vec::new();
    for (id, seq) in [(7, 1), (7, 2), (8, 1)] {
        let mut of_id = Vec::new();
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        PacketBuilder::ipv4(A.0, B.0, 64).icmpv4_echo_request(id, seq).write(&mut request, &[0; 56]).unwrap();
        PacketBuilder::ipv4(B.0, A.0, 64).icmpv4_echo_reply(id, seq).write(&mut reply, &[0; 56]).unwrap();
        for (bytes, kind) in [(request, Kind::EchoRequest), (reply, Kind::EchoReply)] {
            let p = read(&bytes).packet;
            assert_eq!((p.kind, p.seq, p.size, p.len), (kind, Seq32(seq.into()), 84, 56));
            of_id.push(p.connection());
        }
        let (from, to) = (address6(0).octets(), address6(1).octets());
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        PacketBuilder::ipv6(from, to, 64).icmpv6_echo_request(id, seq).write(&mut request, &[0; 56]).unwrap();
        PacketBuilder::ipv6(to, from, 64).icmpv6_echo_reply(id, seq).write(&mut reply, &[0; 56]).unwrap();
        for (bytes, kind) in [(request, Kind::EchoRequest), (reply, Kind::EchoReply)] {
            let p = read(&bytes).packet;
            assert_eq!((p.kind, p.seq, p.size, p.len), (kind, Seq32(seq.into()), 104, 56));
            of_id.push(p.connection());
        }
        assert_eq!((of_id[0], of_id[2]), (of_id[1], of_id[3]));
        connections.push(of_id[0]);
    }
    assert_eq!(connections[0], connections[1], "of one ping");
    assert_ne!(connections[0], connections[2], "of two");
}

#[test]
fn the_window_is_scaled_by_what_both_syns_said() {
    let scaled = |shift: Option<u8>| {
        move |h: &mut etherparse::TcpHeader| {
            h.syn = true;
            if let Some(shift) = shift {
                h.set_options_raw(&[3, 3, shift, 1]).unwrap();
            }
        }
    };
    let with_ack = |set: Box<dyn Fn(&mut etherparse::TcpHeader)>| {
        move |h: &mut etherparse::TcpHeader| {
            set(h);
            h.ack = true;
        }
    };
    let plain = || Box::new(|_: &mut etherparse::TcpHeader| {}) as Box<dyn Fn(&mut etherparse::TcpHeader)>;
    for (a, b, expect) in [
        (Some(7), Some(3), (128, 8)),
        (Some(7), None, (1, 1)),
        (None, Some(3), (1, 1)),
        (Some(15), Some(0), (16384, 1)),
    ] {
        let mut reader = Reader::default();
        let mut window = |bytes: Vec<u8>| reader.read(&bytes).unwrap().packet.window;
        assert_eq!(window(tcp(scaled(a), A, B, &[])), 1000, "never that of a SYN");
        assert_eq!(window(tcp(with_ack(Box::new(scaled(b))), B, A, &[])), 1000);
        assert_eq!(window(tcp(with_ack(plain()), A, B, &[])), 1000 * expect.0, "{a:?} {b:?}");
        assert_eq!(window(tcp(with_ack(plain()), B, A, &[])), 1000 * expect.1, "{a:?} {b:?}");
        assert_eq!(window(tcp(with_ack(plain()), A, (B.0, 80), &[])), 1000, "of another connection nothing is known");
        // The same ports again: announcements of the connection before do not count.
        assert_eq!(window(tcp(scaled(None), A, B, &[])), 1000);
        assert_eq!(window(tcp(with_ack(plain()), A, B, &[])), 1000);
    }
}

#[test]
fn options_behind_unknown_ones_count_and_bad_ones_end_the_list() {
    let with = |options: &[u8]| read(&tcp(|h| h.set_options_raw(options).unwrap(), A, B, &[1, 2, 3])).packet;
    let p = with(&[30, 4, 0, 0, 1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6, 1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!(p.timestamps(), (5, 6));
    assert_eq!(p.sack(), [SackBlock { start: Seq32(1), end: Seq32(2) }]);
    assert_eq!(p.len, 3);
    // A length of zero, one beyond the field, the end of the list: nothing behind them counts.
    for bad in [[30, 0], [30, 40], [0, 10]] {
        let p = with(&[bad[0], bad[1], 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]);
        assert_eq!(p.timestamps(), (0, 0), "{bad:?}");
    }
    // Four blocks without timestamps: all of them.
    let mut four = vec![1, 1, 5, 34];
    (1..=8u32).for_each(|n| four.extend(n.to_be_bytes()));
    let p = with(&four);
    assert_eq!(p.sack().iter().map(|b| (b.start.0, b.end.0)).collect::<Vec<_>>(), [(1, 2), (3, 4), (5, 6), (7, 8)]);
    assert_eq!((p.timestamps(), p.connection()), ((0, 0), with(&[]).connection()));
}

#[test]
fn fragments_of_a_datagram_are_one_connection_whatever_their_ports() {
    let fragment = |id: u16, offset: u16, more: bool, payload: &[u8]| {
        let mut ip = etherparse::Ipv4Header::new(payload.len() as u16, 64, IpNumber::UDP, A.0, B.0).unwrap();
        (ip.identification, ip.more_fragments) = (id, more);
        ip.fragment_offset = IpFragOffset::try_new(offset).unwrap();
        let mut bytes = ip.to_bytes().to_vec();
        bytes.extend(payload);
        read(&bytes).packet
    };
    let (first, second, other) =
        (fragment(9, 0, true, &[1; 32]), fragment(9, 4, false, &[2; 16]), fragment(10, 0, true, &[1; 32]));
    assert_eq!((first.connection(), first.kind, first.len), (second.connection(), Kind::Udp, 32));
    assert_ne!(first.connection(), other.connection());

    let fragment6 = |id: u32, offset: u16, more: bool, payload: &[u8]| {
        let mut bytes = Vec::new();
        let header = Ipv6FragmentHeader::new(IpNumber::UDP, IpFragOffset::try_new(offset).unwrap(), more, id);
        let ip = etherparse::Ipv6Header {
            payload_length: 8 + payload.len() as u16,
            next_header: IpNumber::IPV6_FRAGMENTATION_HEADER,
            source: address6(0).octets(),
            destination: address6(1).octets(),
            ..Default::default()
        };
        bytes.extend(ip.to_bytes());
        bytes.extend(header.to_bytes());
        bytes.extend(payload);
        read(&bytes).packet
    };
    let (first, second, other) =
        (fragment6(9, 0, true, &[1; 32]), fragment6(9, 4, false, &[2; 16]), fragment6(10, 0, true, &[1; 32]));
    assert_eq!((first.connection(), first.kind, first.len), (second.connection(), Kind::Udp, 32));
    assert_ne!(first.connection(), other.connection());
}

#[test]
fn access_categories_are_those_of_linux() {
    let of = |dscp: u8| {
        let mut bytes = tcp(|_| {}, A, B, &[]);
        bytes[1] = dscp << 2 | 1;
        let mut six = Vec::new();
        PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(1, 2).write(&mut six, &[]).unwrap();
        (six[0], six[1]) = (0x60 | dscp >> 2, dscp << 6 | 0x10);
        let (four, six) = (read(&bytes).packet, read(&six).packet);
        assert_eq!((four.ac(), four.ecn), (six.ac(), six.ecn));
        assert_eq!(four.ecn, Ecn::Ect1);
        four.ac().unwrap()
    };
    // CS0 to CS7, then the exceptions: AF11 to AF43, voice admit, EF.
    let classes = [0, 8, 16, 24, 32, 40, 48, 56].map(of);
    assert_eq!(classes, [Ac::Be, Ac::Bk, Ac::Be, Ac::Vi, Ac::Vi, Ac::Vi, Ac::Vo, Ac::Vo]);
    let assured = [10, 12, 14, 18, 20, 22, 26, 28, 30, 34, 36, 38].map(of);
    assert_eq!(
        assured,
        [Ac::Be, Ac::Be, Ac::Be, Ac::Be, Ac::Be, Ac::Be, Ac::Vi, Ac::Vi, Ac::Vi, Ac::Vi, Ac::Vi, Ac::Vi]
    );
    assert_eq!([44, 46].map(of), [Ac::Vo, Ac::Vo]);
}

#[test]
fn what_is_no_packet_is_refused_and_what_is_unknown_travels() {
    let mut reader = Reader::default();
    assert_eq!(reader.read(&[]), Err(Unread::Empty));
    assert_eq!(reader.read(&[0x50; 60]), Err(Unread::NotIp { version: 5 }));
    assert_eq!(reader.read(&[0x45; 19]), Err(Unread::NoHeader { version: 4, bytes: 19 }));
    assert_eq!(reader.read(&[0x60; 39]), Err(Unread::NoHeader { version: 6, bytes: 39 }));
    let told = reader.read(&[0x60; 39]).unwrap_err().to_string();
    assert_eq!(told, "the packet has no whole IPv6 header in its 39 bytes");
    // SCTP, and TCP that is cut.
    for protocol in [132, 6] {
        let mut ip = etherparse::Ipv4Header::new(12, 64, IpNumber(protocol), A.0, B.0).unwrap();
        ip.dont_fragment = true;
        let bytes = [&ip.to_bytes()[..], &[9; 12]].concat();
        let p = reader.read(&bytes).unwrap().packet;
        assert_eq!((p.kind, p.size, p.len, p.is_external()), (Kind::Udp, 32, 12, true));
    }
}

/// An IPv6 packet from one host to another, of which `kind` is the first header after IP's.
fn with_extensions(kind: u8, after: &[u8]) -> Vec<u8> {
    let length = u16::try_from(after.len()).unwrap().to_be_bytes();
    let head = [0x60, 0, 0, 0, length[0], length[1], kind, 64];
    [&head[..], &address6(1).octets(), &address6(2).octets(), after].concat()
}

#[test]
fn an_extension_that_is_cut_ends_the_reading() {
    const OPTIONS: u8 = 60;
    for (kind, first_bytes) in [(51, [6, 255]), (43, [6, 255]), (44, [6, 0]), (60, [59, 255]), (0, [6, 255])] {
        // Whole options, and behind them a header that claims up to 2 KiB and has two bytes.
        let options = [kind, 0, 1, 4, 0, 0, 0, 0];
        // In a buffer of its own, so that nothing lies behind it.
        let cut = with_extensions(OPTIONS, &[&options[..], &first_bytes].concat()).into_boxed_slice();
        assert_eq!(usize::from(read(&cut).packet.size), cut.len(), "{kind}");
        let plain = with_extensions(kind, &first_bytes).into_boxed_slice();
        assert_eq!(usize::from(read(&plain).packet.size), plain.len(), "{kind}");
    }
}

#[test]
fn addresses_lead_back_to_their_nodes() {
    for node in [0, 1, 253, 254, 255, 508, 70_000, 999_999] {
        assert_eq!(node_at(address(node).into()), Some(node));
        assert_eq!(node_at(address6(node).into()), Some(node));
    }
    assert_eq!(address6(0).to_string(), "fd00::1");
    for nobody in ["10.0.0.0", "10.0.0.255", "11.0.0.1", "fd00::", "fe80::1", "ff02::1", "255.255.255.255"] {
        assert_eq!(node_at(nobody.parse().unwrap()), None, "{nobody}");
    }
}

/// RFC 1071: of a right header with its checksum 0xffff.
fn sum(header: &[u8]) -> u16 {
    let mut sum = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn an_ecn_patch_keeps_the_checksum_right_from_every_start() {
    let all = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
    for start in 0..=u16::MAX {
        // The identification takes the sum through all of its values.
        let mut ip = etherparse::Ipv4Header::new(100, 64, IpNumber::UDP, A.0, B.0).unwrap();
        (ip.identification, ip.ecn) = (start, etherparse::IpEcn::try_new((start % 4) as u8).unwrap());
        ip.header_checksum = ip.calc_header_checksum();
        let before = ip.to_bytes();
        for ecn in all {
            let mut bytes = before.to_vec();
            patch_ecn(&mut bytes, ecn);
            assert_eq!((sum(&bytes), bytes[1] & 3), (0xffff, ecn as u8), "{start} {ecn:?}");
            (bytes[1], bytes[10], bytes[11]) = (before[1], before[10], before[11]);
            assert_eq!(bytes, &before[..], "nothing else changes");
        }
    }
    for class in 0..=u8::MAX {
        for ecn in all {
            let mut bytes = vec![0x60 | class >> 4, class << 4 | 0x0f];
            bytes.resize(48, 7);
            patch_ecn(&mut bytes, ecn);
            assert_eq!((bytes[0], bytes[1]), (0x60 | class >> 4, (class << 4 | 0x0f) & !0x30 | (ecn as u8) << 4));
        }
    }
    for n in 0..12 {
        let mut short = vec![0x45; n];
        patch_ecn(&mut short, Ecn::Ce);
    }
}

prop_compose! {
    /// A packet as the writer can say all of it.
    fn whole_packet()(
        kind in 0usize..4,
        ecn in 0usize..4,
        flow in 0u32..2000,
        (len, flags) in (0u16..1400, any::<u8>()),
        (seq, ack) in any::<(u32, u32)>(),
        window in 0u32..0xffff,
        stamps in prop::option::of((1..u32::MAX, any::<u32>())),
        sack in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
    ) -> (Packet, Announced) {
        let kind = [Kind::Tcp, Kind::Udp, Kind::EchoRequest, Kind::EchoReply][kind];
        let mut p = Packet::new(FlowId(flow), kind, 3);
        p.ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][ecn];
        p.len = len;
        p.seq = Seq32(seq);
        let announced = Announced { mss: 1460, window_scale: 0, sack_permitted: true, timestamps: stamps.is_some() };
        if kind == Kind::Tcp {
            p.flags = TcpFlags::from_bits(flags);
            p.ack = if p.has(TcpFlags::ACK) { Seq32(ack) } else { Seq32(0) };
            p.window = window;
            (p.ts_val, p.ts_ecr) = stamps.unwrap_or((0, 0));
            let most = if stamps.is_some() { 3 } else { 4 };
            let is_syn = p.has(TcpFlags::SYN);
            for &(start, end) in sack.iter().take(if is_syn { 0 } else { most }) {
                p.push_sack(SackBlock { start: Seq32(start), end: Seq32(end) });
            }
            let of_sack = if p.sack().is_empty() { 0 } else { 4 + 8 * p.sack().len() as u16 };
            let options = match is_syn {
                true => super::super::syn_option_bytes(true, stamps.is_some()),
                false => of_sack + if stamps.is_some() { 12 } else { 0 },
            };
            p.size = 40 + options + len;
        } else {
            p.seq = Seq32(seq & 0xffff);
            p.size = 28 + len;
        }
        (p, announced)
    }
}

fn fields(p: &Packet) -> impl PartialEq + std::fmt::Debug + use<> {
    let sack: Vec<_> = p.sack().to_vec();
    (p.kind, p.size, p.len, p.ecn, p.flags, p.seq, p.ack, p.window, p.timestamps(), sack)
}

proptest! {
    #[test]
    fn what_is_written_reads_back((p, announced) in whole_packet(), reverse in any::<bool>(), nodes in (0u32..9999, 0u32..9999)) {
        let mut p = p;
        if reverse {
            p.set_reverse();
        }
        let ends = Endpoints::of(&p, nodes.0, nodes.1);
        let mut bytes = Vec::new();
        write_packet(&p, &ends, &announced, &mut bytes);
        let got = read(&bytes);
        prop_assert_eq!(fields(&got.packet), fields(&p));
        prop_assert_eq!((got.src, got.dst), (IpAddr::from(ends.src), IpAddr::from(ends.dst)));
        prop_assert!(got.packet.is_external());
        // The same in IPv6, with an extension header before it.
        if matches!(p.kind, Kind::Tcp | Kind::Udp) {
            let from = address6(nodes.0).octets();
            let to = address6(nodes.1).octets();
            let mut six = vec![0x60, (p.ecn as u8) << 4, 0, 0];
            six.extend(((bytes.len() - 20 + 8) as u16).to_be_bytes());
            six.extend([60, 64]);
            six.extend(from);
            six.extend(to);
            six.extend([bytes[9], 0, 1, 4, 0, 0, 0, 0]);
            six.extend(&bytes[20..]);
            let mut expected = p;
            expected.size += 28;
            if p.kind == Kind::Udp {
                expected.seq = Seq32(0);
            }
            prop_assert_eq!(fields(&read(&six).packet), fields(&expected));
        }
        // A mark changes the ECN field alone.
        let mut marked = bytes.clone();
        patch_ecn(&mut marked, Ecn::Ce);
        let mut expected = p;
        expected.ecn = Ecn::Ce;
        prop_assert_eq!(fields(&read(&marked).packet), fields(&expected));
        prop_assert_eq!(sum(&marked[..20]), 0xffff);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        version in prop_oneof![Just(0x45u8), Just(0x4f), Just(0x60), any::<u8>()],
        protocol in prop_oneof![Just(6u8), Just(17), Just(1), Just(58), Just(44), Just(0), any::<u8>()],
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = version;
        }
        for at in [6, 9] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = protocol;
            }
        }
        if let Ok(got) = Reader::default().read(&bytes) {
            prop_assert_eq!(usize::from(got.packet.size), bytes.len());
            prop_assert!(got.packet.len <= got.packet.size);
        }
        patch_ecn(&mut bytes, Ecn::Ce);
    }
}
