//! The connection against a receiver of the core, whose packets are written and read as bytes; and
//! against nonsense.

use airtcp_core::tcp::Receiver;
use airtcp_core::units::Span;
use proptest::prelude::*;

use super::*;

impl Source for Vec<u8> {
    fn fill(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(at).map_err(io::Error::other)?;
        let from = self.get(at..at + into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(from);
        Ok(())
    }
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| u8::try_from((n * 7 + n / 251) % 256).unwrap()).collect()
}

/// Options that the other end does without.
#[derive(Debug, Clone, Copy, Default)]
struct Without {
    sack: bool,
    timestamps: bool,
    scale: bool,
}

/// A receiver of the core with numbers and addresses of its own. It puts the bytes together that
/// came.
struct Far {
    receiver: Receiver,
    config: Arc<TcpConfig>,
    announced: Announced,
    reader: Reader,
    initial: u32,
    initial_of_near: u32,
    ends: Endpoints,
    received: Vec<u8>,
    out: Outputs,
}

const NEAR: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 97, 116, 2), 40_000);
const FAR: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(192, 0, 2, 7), 5001);

impl Far {
    fn new(mss: u16, without: Without, initial: u32, initial_of_near: u32) -> Far {
        let mut config = crate::send::config("linux-6", &[]).unwrap();
        config.connection.packet_bytes = mss + 40;
        config.timestamps.enabled = !without.timestamps;
        if without.sack {
            config.loss_recovery.recovery = Recovery::NewReno;
        }
        let config = Arc::new(config);
        let mut announced = Announced::of(&config, &config);
        if without.scale {
            announced.window_scale = 0;
        }
        Far {
            receiver: Receiver::new(FlowId(0), 0, config.clone()),
            config,
            announced,
            reader: Reader::default(),
            initial,
            initial_of_near,
            ends: Endpoints { src: *FAR.ip(), dst: *NEAR.ip(), src_port: FAR.port(), dst_port: NEAR.port() },
            received: Vec::new(),
            out: Outputs::default(),
        }
    }

    fn on_packet(&mut self, now: Time, bytes: &[u8]) {
        let ip = Ipv4Slice::from_slice(bytes).unwrap();
        let tcp = TcpSlice::from_slice(ip.payload().payload).unwrap();
        let sum = tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap();
        assert_eq!(sum, tcp.checksum(), "the checksum holds for the data");
        assert_eq!(usize::from(ip.header().total_len()), bytes.len());
        let read = self.reader.read(bytes).unwrap().packet;
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.size, p.len, p.window) = (read.flags, read.size, read.len, read.window);
        (p.ts_val, p.ts_ecr) = read.timestamps();
        p.seq = Seq32(read.seq.0.wrapping_sub(self.initial_of_near));
        p.ack = Seq32(read.ack.0.wrapping_sub(self.initial));
        if !p.has(TcpFlags::SYN) {
            assert!(p.ack.0 <= 2, "our numbers: {}", p.ack.0);
            // Data that came before their turn are put where they belong.
            let payload = tcp.payload();
            if !payload.is_empty() {
                let at = usize::try_from(p.seq.to_offset(self.received.len() as u64)).unwrap() - 1;
                self.received.resize(self.received.len().max(at + payload.len()), 0);
                self.received[at..at + payload.len()].copy_from_slice(payload);
            }
        }
        self.receiver.on_packet(now, &p, &mut self.out);
    }

    fn take(&mut self) -> Vec<Vec<u8>> {
        let packets = std::mem::take(&mut self.out.packets);
        packets.into_iter().map(|p| self.write(p)).collect()
    }

    fn write(&mut self, mut p: Packet) -> Vec<u8> {
        let mut with_blocks = Packet::new(FlowId(0), Kind::Tcp, 0);
        (with_blocks.flags, with_blocks.size, with_blocks.len) = (p.flags, p.size, p.len);
        (with_blocks.window, with_blocks.ts_val, with_blocks.ts_ecr) = (p.window, p.ts_val, p.ts_ecr);
        for block in p.sack() {
            let [start, end] = [block.start, block.end].map(|n| Seq32(n.0.wrapping_add(self.initial_of_near)));
            with_blocks.push_sack(SackBlock { start, end });
        }
        with_blocks.seq = Seq32(p.seq.0.wrapping_add(self.initial));
        with_blocks.ack = Seq32(p.ack.0.wrapping_add(self.initial_of_near));
        p = with_blocks;
        let mut bytes = Vec::new();
        wire::write_packet(&p, &self.ends, &self.announced, &mut bytes);
        let _ = self.reader.read(&bytes);
        bytes
    }
}

/// Runs both, losing the packets of `lost` (a bit for each that leaves either end, over and over),
/// 10 ms one way. After two losses two packets in a row come through, so that no packet is repeated
/// as often as would end the connection (RFC 9293 section 3.8.3).
fn transfer(bytes: usize, mss: u16, without: Without, random: u64, lost: u64) -> (Conversation<Vec<u8>>, Far) {
    let config = crate::send::config("linux-6", &[]).unwrap();
    let mut near = Conversation::new(config, data(bytes), bytes as u64, [NEAR, FAR], random);
    let mut far = Far::new(mss, without, low32(random), low32(random >> 32));
    let (mut now, mut sent) = (Time::ZERO, 0u32);
    let (mut lost_lately, mut came_in_row) = (0, 0);
    let mut flying: Vec<(Time, bool, Vec<u8>)> = Vec::new();
    near.begin(now);
    for _ in 0..200_000 {
        for (to_far, packets) in [(true, near.take()), (false, far.take())] {
            for packet in packets {
                sent += 1;
                if lost >> (sent % 64) & 1 == 1 && lost_lately < 2 {
                    (lost_lately, came_in_row) = (lost_lately + 1, 0);
                    continue;
                }
                came_in_row += 1;
                if came_in_row == 2 {
                    lost_lately = 0;
                }
                flying.push((now + Span::from_ms(10), to_far, packet));
            }
        }
        let arrival = flying.first().map_or(Time::NEVER, |f| f.0);
        let next = arrival.min(near.deadline()).min(far.receiver.deadline());
        if next.is_never() {
            break;
        }
        now = next;
        if arrival == next {
            let (_, to_far, packet) = flying.remove(0);
            if to_far { far.on_packet(now, &packet) } else { near.on_packet(now, &packet) }
        } else if near.deadline() == next {
            near.on_deadline(now);
        } else {
            far.receiver.on_deadline(now, &mut far.out);
        }
    }
    (near, far)
}

#[test]
fn what_the_answer_refuses_is_left_out() {
    for (mss, without, recovery, timestamps, segment) in [
        (1460, Without::default(), Recovery::Sack, true, 1448),
        (1460, Without { sack: true, ..Without::default() }, Recovery::NewReno, true, 1448),
        (1460, Without { timestamps: true, ..Without::default() }, Recovery::Sack, false, 1460),
        (536, Without { sack: true, timestamps: true, scale: true }, Recovery::NewReno, false, 536),
        (9000, Without::default(), Recovery::Sack, true, 1448),
    ] {
        let (near, far) = transfer(100_000, mss, without, 0x89ab_cdef_0123_4567, 0);
        assert_eq!(near.end(), Some(&End::Closed), "{without:?}");
        assert!(far.received == data(100_000), "{without:?}");
        let config = near.config();
        assert_eq!(
            (config.loss_recovery.recovery, config.timestamps.enabled, config.mss()),
            (recovery, timestamps, segment),
            "{without:?}"
        );
        assert_eq!(far.config.mss(), u32::from(mss) - if timestamps { 12 } else { 0 });
        assert_eq!(near.stats().segments_retransmitted, 0, "{without:?}");
    }
}

/// Numbers may wrap anywhere, on either side.
#[test]
fn initial_numbers_do_not_matter() {
    let times = [0, 0xffff_ffff_ffff_ffff, 0xffff_f000_ffff_ffff, 0x7fff_ff00_8000_0000].map(|random| {
        let (near, far) = transfer(50_000, 1460, Without::default(), random, 1 << 20);
        assert_eq!((near.end(), far.received == data(50_000)), (Some(&End::Closed), true), "{random:#x}");
        near.closed_at()
    });
    assert!(times.iter().all(|t| *t == times[0]), "{times:?}");
}

fn opened() -> (Conversation<Vec<u8>>, Far, Time) {
    let config = crate::send::config("linux-6", &[]).unwrap();
    let random = 0x1234_5678_9abc_def0;
    let mut near = Conversation::new(config, data(50_000), 50_000, [NEAR, FAR], random);
    let mut far = Far::new(1460, Without::default(), low32(random), low32(random >> 32));
    near.begin(Time::ZERO);
    let now = Time::ZERO + Span::from_ms(10);
    for packet in near.take() {
        far.on_packet(now, &packet);
    }
    (near, far, now)
}

#[test]
fn a_reset_counts_only_at_the_very_next_number() {
    let (mut near, mut far, now) = opened();
    let reset = |far: &mut Far, number: u32| {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.size, p.seq) = (TcpFlags::RST | TcpFlags::ACK, 40, Seq32(number));
        p.ack = Seq32(1);
        far.write(p)
    };
    let refusal = reset(&mut far, 0);
    let answer = far.take().remove(0);
    let (mut refused, ..) = opened();
    refused.on_packet(now, &refusal);
    assert_eq!(refused.end(), Some(&End::Refused));
    near.on_packet(now, &answer);
    assert_eq!(near.take().len(), 11, "the ACK of the handshake, and the initial window");
    for number in [0, 2, 100, u32::MAX] {
        near.on_packet(now, &reset(&mut far, number));
        assert_eq!(near.end(), None, "{number}");
    }
    near.on_packet(now, &reset(&mut far, 1));
    assert_eq!(near.end(), Some(&End::Reset));
}

/// An answer of the peer is acknowledged once it is whole, whatever the order, and its FIN after
/// that.
#[test]
fn data_of_the_peer_are_acknowledged_in_order_and_dropped() {
    let (mut near, mut far, now) = opened();
    near.on_packet(now, &far.take().remove(0));
    near.take();
    let mut say = |seq: u32, len: u16, flags: TcpFlags, time: u32| {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.len, p.size) = (TcpFlags::ACK | flags, len, 52 + len);
        (p.seq, p.ack, p.window, p.ts_val) = (Seq32(seq), Seq32(1), 60_000, time);
        near.on_packet(now, &far.write(p));
        let acks: Vec<u32> = near
            .take()
            .iter()
            .map(|bytes| TcpSlice::from_slice(&bytes[20..]).unwrap().acknowledgment_number().wrapping_sub(far.initial))
            .collect();
        acks
    };
    assert_eq!(say(101, 100, TcpFlags::FIN, 1000), [1], "a hole is before it");
    assert_eq!(say(1, 100, TcpFlags::PSH, 1000), [101]);
    assert_eq!(say(1, 100, TcpFlags::PSH, 1000), [101], "again");
    assert_eq!(say(101, 100, TcpFlags::FIN, 9), [101], "an old timestamp is discarded, and answered once");
    assert_eq!(say(101, 100, TcpFlags::FIN, 1000), [202], "data and FIN");
    assert_eq!(near.passed_over().0, 200);
    assert_eq!(near.end(), None);
}

#[test]
fn icmp_counts_for_what_is_under_way() {
    let (mut near, mut far, now) = opened();
    near.on_packet(now, &far.take().remove(0));
    let sent = near.take();
    let about = |of: &[u8], kind: u8, code: u8, mtu: u16| {
        let mut icmp = vec![kind, code, 0, 0, 0, 0];
        icmp.extend(mtu.to_be_bytes());
        icmp.extend(&of[..28]);
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0];
        bytes.extend([192, 0, 2, 1, 10, 97, 116, 2]);
        bytes[3] = u8::try_from(20 + icmp.len()).unwrap();
        bytes.extend(icmp);
        bytes
    };
    let mut stranger = sent[0].clone();
    stranger[20] ^= 1; // another port
    near.on_packet(now, &about(&stranger, 3, 4, 1000));
    let mut old = sent[0].clone();
    old[27] = old[27].wrapping_sub(200); // long acknowledged
    old[26] = old[26].wrapping_sub(1);
    near.on_packet(now, &about(&old, 3, 4, 1000));
    near.on_packet(now, &about(&sent[0], 3, 1, 0));
    assert_eq!(near.end(), None, "a host that is away may come back");
    near.on_packet(now, &about(&sent[0], 3, 4, 1000));
    assert_eq!(near.end(), Some(&End::TooLarge(1000)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is lost, all arrives, once and in order.
    #[test]
    fn everything_arrives(
        bytes in 0usize..60_000, mss in 536u16..1461, random: u64, lost: [u64; 2],
        (sack, timestamps, scale) in any::<(bool, bool, bool)>(),
    ) {
        // About a quarter of the packets, of both ends.
        let lost = lost[0] & lost[1];
        let (near, far) = transfer(bytes, mss, Without { sack, timestamps, scale }, random, lost);
        prop_assert_eq!(near.end(), Some(&End::Closed));
        prop_assert_eq!(far.receiver.stats().bytes_delivered, bytes as u64);
        prop_assert!(far.received == data(bytes));
    }

    /// No packet, however damaged or forged, breaks the sender: it goes on or ends with a reason.
    #[test]
    fn forged_packets_do_no_harm(
        changes in proptest::collection::vec((0usize..80, any::<u8>(), any::<bool>()), 1..200), raw: Vec<u8>,
    ) {
        let (mut near, mut far, mut now) = opened();
        let answer = far.take().remove(0);
        near.on_packet(now, &raw);
        near.on_packet(now, &answer);
        for (n, (at, byte, acknowledges)) in changes.into_iter().enumerate() {
            now += Span::from_ms(1);
            let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
            (p.flags, p.size, p.window, p.ts_val) = (TcpFlags::ACK, 84, 60_000, 5);
            (p.seq, p.ack) = (Seq32(1), Seq32(if acknowledges { 1 + 1448 * count(n) } else { 1 }));
            for block in 0..3 {
                let start = Seq32(1 + 1448 * (count(n) + block + 1));
                p.push_sack(SackBlock { start, end: Seq32(start.0 + u32::from(byte) * 100) });
            }
            let mut bytes = far.write(p);
            let at = 20 + at % (bytes.len() - 20);
            bytes[at] ^= byte;
            // With a checksum that is right, so that it is looked at.
            let sum = TcpSlice::from_slice(&bytes[20..])
                .map(|tcp| tcp.calc_checksum_ipv4(FAR.ip().octets(), NEAR.ip().octets()).unwrap());
            if let Ok(sum) = sum {
                bytes[36..38].copy_from_slice(&sum.to_be_bytes());
            }
            near.on_packet(now, &bytes);
            if now >= near.deadline() {
                near.on_deadline(now);
            }
            near.take();
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap()
}
