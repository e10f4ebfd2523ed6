//! ACKs as a sender sees them: their number, their order and what they tell.

use super::*;
use crate::tcp::profile::profile;
use crate::units::Bytes;

/// Otherwise a sender would wait for the last segment of a transfer as long as one before it is
/// missing.
#[test]
fn a_fin_above_a_hole_is_reported_with_the_data_before_it() {
    let mut receiver = Receiver::new(FlowId(0), 0, Arc::new(profile("linux-6").unwrap().resolve().unwrap()));
    let mut out = Outputs::default();
    let mut packet = |flags, seq, len| {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.len) = (flags, Seq32(seq), len);
        receiver.on_packet(Time::ZERO, &p, &mut out);
        out.packets.pop().map(|p| (p.ack.0, p.sack().iter().map(|b| (b.start.0, b.end.0)).collect::<Vec<_>>()))
    };
    packet(TcpFlags::SYN, 0, 0);
    assert_eq!(packet(TcpFlags::ACK, 1001, 1000), Some((1, vec![(1001, 2001)])));
    assert_eq!(packet(TcpFlags::ACK | TcpFlags::FIN, 2001, 500), Some((1, vec![(1001, 2502)])));
    assert_eq!(packet(TcpFlags::ACK, 1, 1000), Some((2502, vec![])));
}

/// A receiver whose peer answers its ACKs after 100 ms, and the times in milliseconds at which it
/// acknowledges what.
struct Thinned {
    receiver: Receiver,
    acks: Vec<(f64, u32)>,
    next: u32,
}

impl Thinned {
    fn new(acks_per_rtt: u32, change: impl FnOnce(&mut TcpConfig)) -> Thinned {
        let mut config = profile("linux-6").unwrap().resolve().unwrap();
        (config.receiver.acks_per_rtt, config.receiver.quick_acks, config.connection.handshake) =
            (acks_per_rtt, 0, false);
        (config.receiver.window_in_steps, config.timers.wheel) = (false, false);
        change(&mut config);
        Thinned { receiver: Receiver::new(FlowId(0), 0, Arc::new(config)), acks: Vec::new(), next: 1 }
    }
    fn at(&mut self, us: u64, act: impl FnOnce(&mut Receiver, Time, &mut Outputs)) {
        let now = Time::ZERO + Span::from_us(us);
        let mut out = Outputs::default();
        act(&mut self.receiver, now, &mut out);
        self.acks.extend(out.packets.iter().map(|p| (us as f64 / 1000.0, (p.ack.0 - 1) / 1000)));
    }
    /// Runs the timers before `us`.
    fn until(&mut self, us: u64) {
        while self.receiver.deadline() < Time::ZERO + Span::from_us(us) {
            let at = self.receiver.deadline().as_ns() / 1000;
            self.at(at, |r, now, out| r.on_deadline(now, out));
        }
    }
    /// Segment `n` arrives, or the next one.
    fn segment(&mut self, us: u64, n: Option<u32>) {
        self.until(us);
        let n = n.unwrap_or(self.next);
        self.next = self.next.max(n + 1);
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.len) = (TcpFlags::ACK, Seq32((n - 1) * 1000 + 1), 1000);
        (p.ts_val, p.ts_ecr) =
            ((us / 1000 + 900) as u32, timestamp(Time::ZERO + Span::from_us(us - 100_000), &self.receiver.config));
        self.at(us, |r, now, out| r.on_packet(now, &p, out));
    }
    /// One segment per millisecond, `count` of them from `first` ms on.
    fn stream(&mut self, first: u64, count: u64) {
        for i in 0..count {
            self.segment((first + i) * 1000, None);
        }
    }
}

#[test]
fn acks_per_rtt_bounds_the_rate_of_acks_by_the_least_round_trip() {
    let times = |acks_per_rtt| {
        let mut t = Thinned::new(acks_per_rtt, |_| {});
        t.stream(200, 100);
        t.acks
    };
    // Without: every second segment.
    let every_second: Vec<(f64, u32)> = (0..50).map(|i| (f64::from(201 + 2 * i), 2 * (i + 1))).collect();
    assert_eq!(times(0), every_second);
    // A quarter of 100 ms after the last, to the instant; the first when two segments are there.
    assert_eq!(times(4), [(201.0, 2), (226.0, 27), (251.0, 52), (276.0, 77)]);
    assert_eq!(times(10), (0..10).map(|i| (f64::from(201 + 10 * i), 2 + 10 * i)).collect::<Vec<_>>());
    // Never more often than every second segment.
    assert_eq!(times(100), every_second);
}

// [RFC5681-4.2-2] [RFC5681-4.2-4]
#[test]
fn no_ack_waits_longer_than_the_delayed_ack_timer() {
    // A half of 100 ms is more than the 40 ms for which the first segment not covered may wait.
    let mut t = Thinned::new(2, |_| {});
    t.stream(200, 60);
    t.until(400_000);
    assert_eq!(t.acks, [(201.0, 2), (242.0, 43), (283.0, 60)]);
}

// [RFC5681-3.2-1] [RFC5681-3.2-2] [RFC5681-4.2-6] [RFC5681-4.2-7]
#[test]
fn a_hole_its_repair_a_duplicate_and_the_end_are_told_at_once() {
    let mut t = Thinned::new(4, |_| {});
    t.stream(200, 4);
    t.segment(204_000, Some(6));
    t.segment(204_500, Some(7));
    t.segment(205_000, Some(5));
    t.segment(205_500, Some(5));
    assert_eq!(t.acks, [(201.0, 2), (204.0, 4), (204.5, 4), (205.0, 7), (205.5, 7)]);
    // Duplicates raise the quick ACKs of the profile, here none; the bound counts from the last ACK
    // again.
    t.stream(206, 30);
    assert_eq!(t.acks[5..], [(230.5, 32)]);
    let mut fin = Packet::new(FlowId(0), Kind::Tcp, 0);
    (fin.flags, fin.seq) = (TcpFlags::ACK | TcpFlags::FIN, Seq32(37 * 1000 + 1));
    t.at(236_000, |r, now, out| r.on_packet(now, &fin, out));
    assert_eq!(t.acks[6..], [(236.0, 37)]);
}

/// Reports of a receiver that acknowledges each segment, in numbers of segments of 1000 bytes: the
/// first one missing, and the SACK blocks.
fn reports(arrivals: &[(u32, u16)]) -> Vec<(u32, Vec<(u32, u32)>)> {
    let mut config = profile("linux-6").unwrap().resolve().unwrap();
    (config.connection.handshake, config.timestamps.enabled, config.receiver.compressed_sacks) = (false, false, 0);
    let mut receiver = Receiver::new(FlowId(0), 0, Arc::new(config));
    let mut told = Vec::new();
    for &(first, count) in arrivals {
        let mut out = Outputs::default();
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.len) = (TcpFlags::ACK, Seq32(first * 1000 + 1), 1000 * count);
        receiver.on_packet(Time::ZERO, &p, &mut out);
        let [ack] = &out.packets[..] else { panic!("one ACK for a segment: {:?}", out.packets) };
        let number = |s: Seq32| (s.0 - 1) / 1000;
        told.push((number(ack.ack), ack.sack().iter().map(|b| (number(b.start), number(b.end))).collect()));
    }
    told
}

/// RFC 2883 section 4: the first block is what came twice, below the ACK or within the block that
/// follows, and it is told once.
// [RFC5681-4.2-5] [RFC2883-4-1] [RFC2883-4-2] [RFC2883-4-3] [RFC2883-4-4] [RFC2883-4-5]
#[test]
fn what_came_twice_is_the_first_block_of_one_ack() {
    // All of it below the ACK; the next ACK says nothing of it.
    assert_eq!(reports(&[(0, 1), (1, 1), (0, 1), (2, 1)])[2..], [(2, vec![(0, 1)]), (3, vec![])]);
    // Its beginning only.
    assert_eq!(reports(&[(0, 2), (1, 2)])[1], (3, vec![(1, 2)]));
    // Above a hole: the second block holds it, and is larger.
    assert_eq!(
        reports(&[(0, 1), (2, 1), (3, 1), (6, 1), (2, 1), (8, 1)])[4..],
        [(1, vec![(2, 3), (2, 4), (6, 7)]), (1, vec![(8, 9), (2, 4), (6, 7)])]
    );
    // Below the ACK while there is a hole: the others follow.
    assert_eq!(reports(&[(0, 1), (2, 1), (0, 1)])[2], (1, vec![(0, 1), (2, 3)]));
}

/// A repair that receive offload has merged covers data that lay above the hole. Linux reports the
/// lowest part of it as come twice (`tcp_ofo_queue`, `tcp_dsack_extend`).
#[test]
fn in_order_data_over_what_lay_above_the_hole_is_reported_as_come_twice() {
    // The middle of the repair was there.
    assert_eq!(reports(&[(0, 1), (2, 1), (1, 3)])[2], (4, vec![(2, 3)]));
    // A part of what was there, which goes on.
    assert_eq!(reports(&[(0, 1), (2, 3), (1, 2)])[2], (5, vec![(2, 3)]));
    // Two pieces apart: the lower one. Two that touch are one.
    assert_eq!(reports(&[(0, 1), (2, 1), (4, 1), (1, 4)])[3], (5, vec![(2, 3)]));
    assert_eq!(reports(&[(0, 1), (2, 1), (3, 1), (1, 4)])[3], (5, vec![(2, 4)]));
    // The part that its beginning repeats goes before.
    assert_eq!(reports(&[(0, 2), (3, 1), (1, 3)])[2], (4, vec![(1, 2)]));
    // It ends where the other begins: nothing came twice.
    assert_eq!(reports(&[(0, 1), (2, 1), (1, 1)])[2], (3, vec![]));
}

/// Above a hole, too, a part that was there is reported (`tcp_data_queue_ofo`).
#[test]
fn a_segment_above_a_hole_that_came_in_part_reports_that_part() {
    // Its beginning; its end; its middle.
    assert_eq!(reports(&[(0, 1), (2, 2), (3, 2)])[2], (1, vec![(3, 4), (2, 5)]));
    assert_eq!(reports(&[(0, 1), (4, 2), (3, 2)])[2], (1, vec![(4, 5), (3, 6)]));
    assert_eq!(reports(&[(0, 1), (3, 1), (2, 3)])[2], (1, vec![(3, 4), (2, 5)]));
    // The lower one of two pieces.
    assert_eq!(reports(&[(0, 1), (3, 1), (5, 1), (2, 4)])[3], (1, vec![(3, 4), (2, 6)]));
}

/// Memory of 131072 bytes holds 160/256 of it, as a buffer of 81920 payload bytes.
#[test]
fn a_receive_buffer_in_memory_offers_the_part_that_payload_fills() {
    let windows = |buffer, ratio| {
        let mut config = profile("linux-6").unwrap().resolve().unwrap();
        (config.buffers.receive, config.buffers.receive_max) = (Bytes::new(buffer), Bytes::new(buffer));
        config.buffers.receive_scaling_ratio = ratio;
        config.connection.handshake = false;
        let mut receiver = Receiver::new(FlowId(0), 0, Arc::new(config));
        let mut out = Outputs::default();
        for n in 0..60 {
            let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
            (p.flags, p.seq, p.len) = (TcpFlags::ACK, Seq32(n * 1448 + 1), 1448);
            receiver.on_packet(Time::ZERO, &p, &mut out);
        }
        out.packets.iter().map(|p| p.window).collect::<Vec<_>>()
    };
    assert_eq!(windows(131_072, 160), windows(81_920, 256));
    assert_ne!(windows(131_072, 160), windows(131_072, 256));
}

#[test]
fn without_a_round_trip_or_in_the_quick_phase_nothing_is_thinned() {
    let mut quick = Thinned::new(4, |c| c.receiver.quick_acks = 5);
    quick.stream(200, 8);
    assert_eq!(quick.acks.len(), 5);
    let mut unknown = Thinned::new(4, |c| c.timestamps.enabled = false);
    for i in 0..10u64 {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.len) = (TcpFlags::ACK, Seq32(i as u32 * 1000 + 1), 1000);
        unknown.at(200_000 + i * 1000, |r, now, out| r.on_packet(now, &p, out));
    }
    assert_eq!(unknown.acks.len(), 5);
}

/// Three packets in one poll, the first and the last of them merged, then one more alone: what is
/// acknowledged when. `offered`: the window as the last ACK told it, where the buffer has room for
/// 81920 bytes.
fn polls(offered: u64, flags: TcpFlags) -> Vec<(u32, usize)> {
    let mut config = profile("linux-6").unwrap().resolve().unwrap();
    (config.receiver.quick_acks, config.connection.handshake) = (0, false);
    let mut receiver = Receiver::new(FlowId(0), 0, Arc::new(config));
    receiver.window = receiver.buffer;
    receiver.right_edge = 1 + offered;
    let mut seq = 1;
    let mut acks = Vec::new();
    for (step, (segments, more)) in [(3, true), (1, true), (2, false), (1, false)].into_iter().enumerate() {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.len) = (TcpFlags::ACK | flags, Seq32(seq), segments * 1448);
        seq += u32::from(p.len);
        let mut out = Outputs::default();
        receiver.on_merged(Time::ZERO, &p, (segments, 1448), more, &mut out);
        acks.extend(out.packets.iter().map(|p| ((p.ack.0 - 1) / 1448, step)));
    }
    acks
}

#[test]
fn the_application_reads_after_the_poll_and_reading_acknowledges_once() {
    // The window would have to shrink: all of the poll waits for the reader. The last segment waits
    // for another.
    assert_eq!(polls(81_920, TcpFlags::default()), [(6, 2)]);
    // Pushed data is acknowledged when it is read.
    assert_eq!(polls(81_920, TcpFlags::PSH), [(6, 2), (7, 3)]);
    // There is room: two segments are acknowledged as they come.
    assert_eq!(polls(20_000, TcpFlags::default()), [(3, 0), (6, 2)]);
}
