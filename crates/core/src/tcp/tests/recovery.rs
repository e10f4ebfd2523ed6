//! Slow start, losses and getting over them.

use super::cc::CaState;
use super::*;

use crate::packet::{Kind, SackBlock};
use crate::units::Seq32;
// [RFC5681-3.1-1] [RFC5681-3.1-2]
#[test]
fn slow_start_doubles_each_round_without_delayed_acks() {
    let c = config("ns2-reno", |_| {});
    let mut pair = Pair::same(&c, ONE_WAY).start(u64::MAX);
    pair.run(Time::ZERO + Span::from_ms(599));
    let rounds: Vec<usize> =
        (1..6).map(|r| pair.sent_between(100.0 * f64::from(r), 100.0 * f64::from(r) + 99.0, 960).len()).collect();
    assert_eq!(rounds, [2, 4, 8, 16, 32]);
}

// [RFC5681-3.1-7] [RFC5681-3.2-3] [RFC5681-4.3-5] [RFC6582-3.2-1] [RFC6582-3.2-2a]
#[test]
fn one_lost_segment_is_retransmitted_on_the_third_duplicate_and_the_window_halves() {
    for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
        for prr in [false, true] {
            let c = config("ns2-reno", |c| {
                c.loss_recovery.recovery = recovery;
                c.loss_recovery.prr = prr;
            });
            let mss = u64::from(c.mss());
            // Rounds of 2, 4, 8, 16: segment 14 is the first of the fourth round.
            let mut pair = Pair::same(&c, ONE_WAY).losing(&[14]).start(u64::MAX);
            pair.run(Time::ZERO + Span::from_ms(500));
            let resent: Vec<f64> = pair.sent.iter().filter(|s| (s.1 - 1) / mss == 14).map(|s| s.0).collect();
            assert_eq!(resent, [400.0, 500.0], "{recovery:?} prr {prr}");
            assert_eq!(pair.sender.stats().fast_retransmits, 1);
            assert_eq!(pair.sender.window().ssthresh, 8, "{recovery:?}");
            pair.run(Time::ZERO + Span::from_ms(601));
            assert!(
                matches!(pair.sender.window().cwnd, 8 | 9),
                "{recovery:?} prr {prr}: {}",
                pair.sender.window().cwnd
            );
            pair.run_for(Span::from_secs(5));
            assert_eq!(pair.sender.stats().timeouts, 0);
            assert_eq!(pair.sender.stats().segments_retransmitted, 1);
        }
    }
}

// [RFC5681-4.3-1] [RFC6582-3.2-4a]
#[test]
fn several_losses_in_a_window_cost_reno_a_timeout_newreno_a_round_each_and_sack_one_round() {
    let story = |recovery| {
        let c = config("ns2-reno", |c| c.loss_recovery.recovery = recovery);
        let mut pair = Pair::same(&c, ONE_WAY).losing(&[14, 16, 18]).start(60 * 960);
        pair.run(Time::ZERO + Span::from_secs(20));
        assert_eq!(pair.receiver.stats().bytes_delivered, 60 * 960);
        (pair.sender.stats().timeouts, pair.sender.stats().segments_retransmitted, pair.sent.last().unwrap().0)
    };
    let (reno_timeouts, _, _) = story(Recovery::Reno);
    let (newreno_timeouts, newreno_resent, newreno_end) = story(Recovery::NewReno);
    let (sack_timeouts, sack_resent, sack_end) = story(Recovery::Sack);
    assert_eq!(reno_timeouts, 1);
    assert_eq!((newreno_timeouts, newreno_resent), (0, 3));
    assert_eq!((sack_timeouts, sack_resent), (0, 3));
    assert!(sack_end < newreno_end);
}

// [RFC5681-3.2-4]
#[test]
fn limited_transmit_sends_one_new_segment_for_each_of_the_first_two_duplicates() {
    // RFC 3042 section 2: a window of four, its first segment lost; the third duplicate comes only
    // from limited transmit.
    for (limited_transmit, timeouts) in [(true, 0), (false, 1)] {
        let c = config("ns2-reno", |c| {
            c.loss_recovery.limited_transmit = limited_transmit;
            c.cwnd.max = 3;
        });
        let mut pair = Pair::same(&c, ONE_WAY).losing(&[10]).start(960 * 40);
        pair.run(Time::ZERO + Span::from_secs(10));
        assert_eq!(pair.sender.stats().timeouts, timeouts, "{limited_transmit}");
        assert_eq!(pair.receiver.stats().bytes_delivered, 960 * 40);
    }
}

// [RFC5681-3.1-15] [RFC5681-3.1-17] [RFC6298-2.4-1] [RFC6298-5-1] [RFC6298-5.4-1] [RFC6298-5.5-1]
// [RFC6298-5.6-1]
#[test]
fn timeouts_back_off_and_the_window_restarts_at_one() {
    for again in [false, true] {
        let c = config("ns2-reno", |c| {
            c.rto.min = Span::from_secs(1);
            c.rto_recovery.ssthresh_at_every_timeout = again;
        });
        // Data 6 to 13 is the third window: all of it and the first two retransmissions of its head
        // are lost.
        let mut pair = Pair::same(&c, ONE_WAY).losing(&[6, 7, 8, 9, 10, 11, 12, 13, 14, 15]).start(u64::MAX);
        pair.run(Time::ZERO + Span::from_secs(8));
        let head: Vec<f64> = pair.sent.iter().filter(|s| (s.1 - 1) / 960 == 6).map(|s| s.0).collect();
        // Sent at 300 ms; last progress at 300 ms; then 1, 2, 4 s of patience.
        assert_eq!(head, [300.0, 1300.0, 3300.0, 7300.0]);
        assert_eq!(pair.sender.stats().timeouts, 3);
        assert_eq!(
            pair.sender.window().ssthresh,
            if again { 2 } else { 4 },
            "RFC 5681 section 3.1: halved once, not at every timeout"
        );
    }
}

/// A window of 8 is lost at 300 ms. The timeout, a second later, lets as many segments leave as
/// `loss_window` allows.
// [RFC5681-3.1-16]
#[test]
fn the_loss_window_is_what_leaves_after_a_timeout() {
    for (loss_window, expected) in [(1, 1), (3, 3), (8, 8), (u32::MAX, 8)] {
        let c = config("ns2-reno", |c| {
            c.rto.min = Span::from_secs(1);
            c.rto_recovery.loss_window = loss_window;
        });
        let mut pair = Pair::same(&c, ONE_WAY).losing(&[6, 7, 8, 9, 10, 11, 12, 13]).start(u64::MAX);
        pair.run(Time::ZERO + Span::from_ms(1399));
        let repeated: Vec<u64> = (6..6 + expected).collect();
        assert_eq!(pair.sent_between(1300.0, 1399.0, 960), repeated, "loss window {loss_window}");
        assert_eq!((pair.sender.stats().timeouts, pair.sender.window().ssthresh), (1, 4));
    }
}

/// The same with `timeout_sends_one`: the first leaves alone, and its ACK brings the rest of what
/// the window lets.
#[test]
fn what_linux_keeps_at_a_timeout_waits_for_an_ack() {
    let c = config("ns2-reno", |c| {
        c.rto.min = Span::from_secs(1);
        c.rto_recovery.loss_window = 8;
        c.rto_recovery.sends_one = true;
    });
    let mut pair = Pair::same(&c, ONE_WAY).losing(&[6, 7, 8, 9, 10, 11, 12, 13]).start(u64::MAX);
    pair.run(Time::ZERO + Span::from_ms(1399));
    assert_eq!(pair.sent_between(1300.0, 1399.0, 960), [6]);
    assert_eq!(pair.sender.window().cwnd, 8);
    pair.run(Time::ZERO + Span::from_ms(1499));
    assert_eq!(pair.sent_between(1399.0, 1499.0, 960)[..7], [7, 8, 9, 10, 11, 12, 13]);
    assert_eq!(pair.sender.stats().timeouts, 1);
}

/// That one is lost, too: the next timeout again sends the first alone.
#[test]
fn each_timeout_of_linux_sends_the_first_alone() {
    let c = lone_config(Recovery::Sack, |c| {
        c.rto_recovery.loss_window = 4;
        c.rto_recovery.sends_one = true;
    });
    let (mut sender, mut out) = lone_sender(c, 10);
    for _ in 0..3 {
        let timeout = sender.deadline();
        sender.on_deadline(timeout, &mut out);
        assert_eq!(left(&mut out), [0]);
    }
    assert_eq!((sender.stats().timeouts, sender.window().cwnd), (3, 4));
}

/// TCP-AV on a host: the first segment leaves, then new data as far as the floor has room. The
/// other lost segments wait for an ACK.
#[test]
fn new_data_leaves_with_a_timeout_that_sends_one() {
    for (after, expected) in [("floor", &[0][..]), ("new_data", &[0, 10])] {
        let c = lone_config(Recovery::Sack, |c| {
            let text = format!(r#"{{ "name": "tcp_av", "after_timeout": "{after}" }}"#);
            c.cc = serde_json::from_str(&text).unwrap();
            c.rto_recovery.sends_one = true;
        });
        let (mut sender, mut out) = lone_sender(c, 10);
        let timeout = sender.deadline();
        sender.on_deadline(timeout, &mut out);
        // Nothing was measured yet: two segments.
        assert_eq!(left(&mut out), expected, "{after}");
    }
}

/// F-RTO of RFC 4138 repeats one segment and waits for the verdict. A sender that keeps a window
/// repairs at once: its own loss window, or that of its control.
#[test]
fn who_keeps_a_window_after_a_timeout_does_not_wait_for_a_verdict() {
    let leaves = |change: fn(&mut TcpConfig)| {
        let c = lone_config(Recovery::Sack, |c| {
            c.spurious_rto.frto = Frto::Rfc4138;
            change(c);
        });
        let (mut sender, mut out) = lone_sender(c, 10);
        let timeout = sender.deadline();
        sender.on_deadline(timeout, &mut out);
        left(&mut out)
    };
    assert_eq!(leaves(|_| {}), [0]);
    assert_eq!(leaves(|c| c.rto_recovery.loss_window = 4), [0, 1, 2, 3]);
    // Nothing was measured yet: two segments.
    assert_eq!(leaves(|c| c.cc = crate::tcp::cc::CcConfig::by_name("tcp_av").unwrap()), [0, 1]);
}

/// By RFC 5681's halving and by rate halving: of 16 segments in flight the first is lost. Halving
/// at once, nothing leaves for half a round trip of ACKs; rate halving sends one segment for every
/// second ACK. Both end at 8.
#[test]
fn rate_halving_spreads_the_reduction_over_the_round_trip() {
    for (halving, quiet) in [(false, true), (true, false)] {
        let c = config("ns2-reno", |c| {
            c.loss_recovery.recovery = Recovery::Sack;
            c.loss_recovery.rate_halving = halving;
        });
        // Rounds of 2, 4, 8, 16 at 100, 200, 300 and 400 ms: segment 14 is the first of the fourth
        // round. Its ACKs come one by one.
        let mut pair = Pair::same(&c, ONE_WAY);
        pair.rate = Some(DataRate::from_mbps(1));
        let mut pair = pair.losing(&[14]).start(u64::MAX);
        pair.run(Time::ZERO + Span::from_secs(1));
        assert_eq!((pair.sender.stats().fast_retransmits, pair.sender.stats().timeouts), (1, 0));
        let at = |n: u64| pair.sent.iter().filter(|s| (s.1 - 1) / 960 == n).map(|s| s.0).next_back().unwrap();
        let repeated = at(14);
        let first_new = pair.sent.iter().find(|s| s.0 > repeated).unwrap().0;
        // An ACK comes every 8 ms.
        assert_eq!(first_new - repeated > 30.0, quiet, "{halving}: {repeated} {first_new}");
        let window = pair.sender.window();
        assert!(window.ssthresh <= window.cwnd && window.cwnd <= window.ssthresh + 4, "{halving}: {window:?}");
    }
}

#[test]
fn a_spurious_timeout_is_taken_back_with_timestamps() {
    for (eifel, undos) in [(true, 1), (false, 0)] {
        // Not CUBIC, whose HyStart takes the late ACKs for a queue; and neither DSACKs nor F-RTO,
        // which would take it back as well.
        let c = config("linux-6", |c| {
            (c.spurious_rto.eifel, c.loss_recovery.dsack, c.spurious_rto.frto) = (eifel, false, Frto::Off);
            c.cc = super::cc::CcConfig::by_name("reno").unwrap();
        });
        let mut pair = Pair::same(&c, ONE_WAY);
        // A stall: what is sent from 500 to 1100 ms waits until 1100 ms. The timestamp clock shows
        // the milliseconds, plus 1.
        pair.data_fate = Box::new(move |_, p| match u64::from(p.ts_val - 1) {
            ms @ 500..1100 => Fate::Delay(Span::from_ms(1100 - ms)),
            _ => Fate::Pass,
        });
        let mut pair = pair.start(u64::MAX);
        let mut before = 0;
        while pair.sender.stats().undos == 0 && pair.now < Time::ZERO + Span::from_ms(1500) {
            if pair.sender.stats().timeouts == 0 {
                before = pair.sender.window().cwnd;
            }
            pair.run_for(Span::from_ms(1));
        }
        assert!(pair.sender.stats().timeouts >= 1);
        assert_eq!(pair.sender.stats().undos, undos);
        assert_eq!(pair.sender.window().ssthresh == u32::MAX && pair.sender.window().cwnd >= before, eifel);
    }
}

/// All ACKs of a window come in one instant: two segments leave by limited transmit, then the
/// retransmission, all at the same time. The ACKs of those two say nothing of the retransmission,
/// which left after them.
#[test]
fn new_data_that_left_before_the_retransmission_in_the_same_instant_does_not_declare_it_lost() {
    let c = config("linux-6", |c| {
        (c.connection.handshake, c.host_queue.segments_at_once) = (false, SegmentsAtOnce::Single)
    });
    let mut pair = Pair::same(&c, ONE_WAY).losing(&[0]).start(40 * 1448);
    pair.run(Time::ZERO + Span::from_secs(5));
    let second_round: Vec<u64> = pair.sent_between(99.0, 101.0, 1448);
    assert_eq!(second_round[..3], [10, 11, 0], "limited transmit twice, then the hole, at 100 ms");
    assert_eq!(pair.sender.stats().segments_retransmitted, 1, "{:?}", pair.sent);
    assert_eq!(pair.receiver.stats().segments_duplicate, 0);
    assert_eq!(pair.receiver.stats().bytes_delivered, 40 * 1448);
}

/// A sender by itself, with so many segments of 1000 bytes outstanding since time zero and more to
/// send.
fn lone_sender(c: Arc<TcpConfig>, outstanding: usize) -> (Sender, Outputs) {
    lone_sender_of(c, outstanding, u64::MAX)
}

fn lone_sender_of(c: Arc<TcpConfig>, outstanding: usize, bytes: u64) -> (Sender, Outputs) {
    let mut sender = Sender::new(FlowId(0), 0, c, Streams::of(1, 0));
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, bytes, &mut out);
    assert_eq!(out.packets.len(), outstanding);
    out.packets.clear();
    (sender, out)
}

/// An ACK of the first `acked` segments that SACKs those of `sack`.
fn ack_of(acked: u32, sack: Option<(u32, u32)>) -> Packet {
    let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
    (p.flags, p.ack, p.window) = (TcpFlags::ACK, Seq32(1 + 1000 * acked), 1 << 20);
    if let Some((from, to)) = sack {
        p.push_sack(SackBlock { start: Seq32(1 + 1000 * from), end: Seq32(1 + 1000 * to) });
    }
    p
}

fn lone_config(recovery: Recovery, change: impl FnOnce(&mut TcpConfig)) -> Arc<TcpConfig> {
    config("linux-6", |c| {
        c.cc = super::cc::CcConfig::by_name("reno").unwrap();
        c.loss_recovery.loss = super::loss::LossConfig::by_name("dup_thresh").unwrap();
        (c.loss_recovery.recovery, c.connection.handshake, c.timestamps.enabled, c.loss_recovery.tail_loss_probe) =
            (recovery, false, false, false);
        (c.connection.packet_bytes, c.cwnd.initial, c.cwnd.byte_counting) = (1040, 10, 1);
        // The RFCs know of no skbs.
        c.host_queue.segments_at_once = SegmentsAtOnce::Single;
        c.rto_recovery.sends_one = false;
        // The window that `ack_of` tells.
        (c.buffers.send, c.buffers.receive) = (c.buffers.send_max, Bytes::new(1 << 20));
        change(c);
    })
}

/// The numbers of the segments that left.
fn left(out: &mut Outputs) -> Vec<u32> {
    out.packets.drain(..).map(|p| (p.seq.0 - 1) / 1000).collect()
}

/// RFC 5681 section 3.2 steps 1 to 5: each of the first two duplicates lets a new segment leave and
/// the window stays; the third repeats the first segment; each one after it frees a place once half
/// the window has been freed.
// [RFC5681-2-2] [RFC5681-3-1] [RFC5681-3.2-5] [RFC5681-3.2-8] [RFC5681-3.2-9] [RFC5681-3.2-10] [RFC5681-3.2-11]
#[test]
fn duplicates_let_segments_leave_without_a_change_of_the_window() {
    let c = lone_config(Recovery::NewReno, |c| c.loss_recovery.prr = false);
    let (mut sender, mut out) = lone_sender(c, 10);
    let at = Time::ZERO + RTT;
    let mut duplicate = || {
        sender.on_packet(at, &ack_of(0, None), &mut out);
        (left(&mut out), sender.window().cwnd)
    };
    assert_eq!(duplicate(), (vec![10], 10));
    assert_eq!(duplicate(), (vec![11], 10));
    assert_eq!(duplicate(), (vec![0], 5), "and ssthresh is half of what was out before limited transmit");
    // Twelve are out and three have left the network; five may be in it.
    let later: Vec<Vec<u32>> = (0..8).map(|_| duplicate().0).collect();
    assert_eq!(later.concat(), [12, 13, 14, 15]);
    assert!(later[..4].concat().is_empty(), "{later:?}");
}

/// RFC 5681 section 3.2 step 1: with SACK a duplicate that reports nothing new lets nothing leave.
// [RFC5681-2-1] [RFC5681-3.2-6] [RFC6675-5-2] [RFC6675-5-4]
#[test]
fn a_duplicate_without_news_lets_nothing_leave_where_there_is_sack() {
    let (mut sender, mut out) = lone_sender(lone_config(Recovery::Sack, |_| {}), 10);
    let mut receive = |sack| {
        sender.on_packet(Time::ZERO + RTT, &ack_of(0, sack), &mut out);
        (left(&mut out), sender.window().cwnd, sender.stats().duplicate_acks)
    };
    assert_eq!(receive(None), (vec![], 10, 0));
    assert_eq!(receive(Some((1, 2))), (vec![10], 10, 1));
    assert_eq!(receive(Some((1, 2))), (vec![], 10, 1));
    assert_eq!(receive(Some((1, 3))), (vec![11], 10, 2));
}

/// Net/3 leaves the window inflated if exactly as many duplicates came as fast retransmit needs: of
/// ten segments the first is lost.
#[test]
fn the_window_stays_inflated_after_exactly_the_threshold_where_it_is_bsds() {
    let cwnd_after = |duplicates, above| {
        let c = lone_config(Recovery::Reno, |c| c.loss_recovery.deflates_above_threshold = above);
        let (mut sender, mut out) = lone_sender(c, 10);
        (0..duplicates).for_each(|_| sender.on_packet(Time::ZERO + RTT, &ack_of(0, None), &mut out));
        assert_eq!(sender.stats().fast_retransmits, 1);
        sender.on_packet(Time::ZERO + RTT, &ack_of(10, None), &mut out);
        sender.window().cwnd
    };
    // A half, and one more for the ACK: in slow start up to the threshold. From 5 + 3 on it grows
    // by a fraction.
    assert_eq!((cwnd_after(3, false), cwnd_after(3, true)), (6, 8));
    assert_eq!((cwnd_after(4, false), cwnd_after(4, true)), (6, 6));
}

/// RFC 6582 section 3.2 steps 2 and 4: three duplicates from below what was outstanding at a
/// timeout begin nothing; those above do.
// [RFC6582-3.2-2b] [RFC6675-5-1] [RFC6582-3.2-5]
#[test]
fn duplicates_from_before_a_timeout_begin_no_fast_retransmit() {
    for (guard, fast) in [(true, 0), (false, 1)] {
        let c = lone_config(Recovery::NewReno, |c| {
            (c.loss_recovery.recover_guard, c.spurious_rto.frto) = (guard, Frto::Off)
        });
        let (mut sender, mut out) = lone_sender(c, 10);
        let timeout = sender.deadline();
        sender.on_deadline(timeout, &mut out);
        assert_eq!((left(&mut out), sender.stats().timeouts), (vec![0], 1));
        let at = timeout + RTT;
        for _ in 0..3 {
            sender.on_packet(at, &ack_of(0, None), &mut out);
        }
        assert_eq!(sender.stats().fast_retransmits, fast, "guard {guard}");
        if guard {
            sender.on_packet(at, &ack_of(10, None), &mut out);
            assert_eq!(left(&mut out), [10, 11]);
            // All that had been sent is acknowledged, and nothing beyond it.
            (0..3).for_each(|_| sender.on_packet(at, &ack_of(10, None), &mut out));
            assert_eq!(sender.stats().fast_retransmits, 0);
            // The first advances, and the count of duplicates begins anew.
            (0..3).for_each(|_| sender.on_packet(at + RTT, &ack_of(11, None), &mut out));
            assert_eq!(sender.stats().fast_retransmits, 0);
            sender.on_packet(at + RTT, &ack_of(11, None), &mut out);
            assert_eq!(sender.stats().fast_retransmits, 1);
        }
    }
}

/// RFC 6675 section 5.1: segments 14 and 16 are lost, and so is the repetition of 14. The timeout
/// ends the recovery, nothing that is known to have arrived is repeated, and no other recovery
/// begins although 16 has enough above it to count as lost.
// [RFC6675-5.1-1] [RFC6675-5.1-2] [RFC6675-5.1-3] [RFC6675-5.1-4] [RFC6675-5.1-5]
#[test]
fn a_timeout_ends_the_recovery_and_keeps_what_sack_has_told() {
    let c = config("ns2-reno", |c| c.loss_recovery.recovery = Recovery::Sack);
    let mut pair = Pair::same(&c, ONE_WAY);
    let mut left = [(14, 2), (16, 1)];
    pair.data_fate = Box::new(move |_, p| {
        let number = (u64::from(p.seq.0) - 1) / 960;
        match left.iter_mut().find(|l| l.0 == number && l.1 > 0) {
            Some(l) => {
                l.1 -= 1;
                Fate::Lose
            }
            None => Fate::Pass,
        }
    });
    let mut pair = pair.start(200 * 960);
    pair.run(Time::ZERO + Span::from_secs(20));
    let stats = *pair.sender.stats();
    assert_eq!((stats.timeouts, stats.fast_retransmits, stats.bytes_acked), (1, 1, 200 * 960));
    let mut seen = std::collections::BTreeSet::new();
    let repeated: Vec<u64> = pair.sent.iter().map(|s| (s.1 - 1) / 960).filter(|&n| !seen.insert(n)).collect();
    assert!(repeated.iter().all(|n| [14, 16].contains(n)), "{repeated:?}");
    assert_eq!(repeated.iter().filter(|&&n| n == 14).count(), 2);
}

/// RFC 6675 section 5 steps A to C: of twenty segments 0 and 5 are lost. The first repetition
/// leaves at once, the second when the pipe has room, new data after it; an ACK below the recovery
/// point leaves the state, one at it ends the recovery.
// [RFC5681-4.3-4] [RFC5681-4.3-6] [RFC6675-4-5] [RFC6675-4-6] [RFC6675-5-1] [RFC6675-5-3] [RFC6675-5-5] [RFC6675-5-7]
// [RFC6675-5-8] [RFC6675-5-10] [RFC6675-5-11] [RFC6675-5-12] [RFC8985-9.3-1]
#[test]
fn a_recovery_repeats_what_is_lost_first_and_lasts_until_its_point() {
    let c = lone_config(Recovery::Sack, |c| {
        (c.loss_recovery.prr, c.cwnd.initial, c.loss_recovery.limited_transmit) = (false, 20, false)
    });
    let (mut sender, mut out) = lone_sender(c, 20);
    let at = Time::ZERO + RTT;
    let mut receive = |acked, sack| {
        sender.on_packet(at, &ack_of(acked, sack), &mut out);
        (left(&mut out), sender.path().state)
    };
    assert_eq!(receive(0, Some((1, 3))), (vec![], CaState::Disorder));
    assert_eq!(receive(0, Some((1, 4))), (vec![0], CaState::Recovery));
    // In the network are 4 to 19 without what is lost, and the repetition: 17 and fewer. Ten may
    // be.
    assert!(receive(0, Some((1, 5))).0.is_empty());
    assert!(receive(0, Some((6, 11))).0.is_empty(), "5 is lost, nine of 11 to 19 and the repetition make ten");
    assert_eq!(receive(0, Some((6, 12))).0, [5], "what is lost goes before what is new");
    assert_eq!(receive(0, Some((6, 13))), (vec![20], CaState::Recovery));
    assert_eq!(receive(5, Some((6, 14))).1, CaState::Recovery, "below the recovery point");
    assert_eq!(receive(20, None).1, CaState::Open);
    assert!(sender.window().cwnd <= sender.window().ssthresh + 1);
}

/// RFC 5681 section 3.1, equation 2, and RFC 3465: what an ACK of four segments adds in slow start.
// [RFC5681-3.1-9] [RFC5681-5-1]
#[test]
fn an_ack_adds_to_slow_start_what_byte_counting_allows() {
    for (byte_counting, window) in [(0, 11), (1, 11), (2, 12), (u32::MAX, 14)] {
        let c = lone_config(Recovery::Sack, |c| c.cwnd.byte_counting = byte_counting);
        let (mut sender, mut out) = lone_sender(c, 10);
        sender.on_packet(Time::ZERO + RTT, &ack_of(4, None), &mut out);
        assert_eq!(sender.window().cwnd, window, "byte counting {byte_counting}");
        assert_eq!(left(&mut out).len() as u32, window - 6);
    }
}

/// `tcp_may_raise_cwnd` of Linux 6.12: once a segment was overtaken by three, what is SACKed above
/// a hole raises the window. Overtaken by one it does not, and in other stacks it never does.
#[test]
fn after_reordering_the_window_grows_above_holes() {
    for (credit, overtaken_by, grown) in [(true, 3, 12), (true, 1, 11), (false, 3, 11)] {
        let c = lone_config(Recovery::Sack, |c| {
            (c.cwnd.byte_counting, c.cwnd.delivery_credit) = (u32::MAX, credit);
            if let super::loss::LossConfig::DupThresh(own) = &mut c.loss_recovery.loss {
                own.threshold = std::num::NonZeroU32::new(100).unwrap();
            }
        });
        let (mut sender, mut out) = lone_sender(c, 10);
        let now = Time::ZERO + RTT;
        let in_order = 1 + overtaken_by;
        sender.on_packet(now, &ack_of(0, Some((1, in_order))), &mut out);
        assert_eq!(sender.window().cwnd, 10, "nothing was overtaken yet");
        sender.on_packet(now, &ack_of(in_order, None), &mut out);
        assert_eq!(sender.window().cwnd, 11, "one was newly delivered");
        sender.on_packet(now, &ack_of(in_order, Some((in_order + 1, in_order + 2))), &mut out);
        assert_eq!(sender.window().cwnd, grown, "{credit}, overtaken by {overtaken_by}");
    }
}

/// RFC 6298 rules 5.1 to 5.3: one second from the first segment on, which the second write does not
/// move; 100 ms and 200 ms of variation from each ACK; none once all is acknowledged. And RFC
/// 6675's NextSeg: no segment that is neither lost nor new.
// [RFC6298-5.1-1] [RFC6298-5.2-1] [RFC6298-5.3-1] [RFC6675-4-11]
#[test]
fn the_timer_runs_from_each_ack_and_stops_with_the_last() {
    let (mut sender, mut out) = lone_sender_of(lone_config(Recovery::Sack, |_| {}), 4, 4000);
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    assert_eq!(sender.deadline(), at(1000));
    sender.write(at(50), 1000, &mut out);
    assert_eq!((left(&mut out), sender.deadline()), (vec![4], at(1000)));
    sender.on_packet(at(100), &ack_of(2, Some((3, 4))), &mut out);
    assert!(left(&mut out).is_empty(), "one of three that are outstanding was SACKed, and there is nothing new");
    assert_eq!(sender.deadline(), at(400));
    sender.on_packet(at(150), &ack_of(5, None), &mut out);
    assert!(sender.deadline().is_never());
}

/// RFC 6582 section 3.2 step 4: of ten segments 0, 2 and 4 are lost. Each partial ACK repeats the
/// next hole, and the first one alone starts the timer anew.
// [RFC6582-3.2-3] [RFC6582-3.2-4c]
#[test]
fn only_the_first_partial_ack_starts_the_timer_anew() {
    let (mut sender, mut out) = lone_sender(lone_config(Recovery::NewReno, |c| c.loss_recovery.prr = false), 10);
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    (0..7).for_each(|_| sender.on_packet(at(100), &ack_of(0, None), &mut out));
    assert_eq!(left(&mut out)[2], 0, "after two by limited transmit");
    let mut partial = |ms, acked| {
        sender.on_packet(at(ms), &ack_of(acked, None), &mut out);
        (left(&mut out)[0], sender.deadline(), sender.path().state)
    };
    let first = partial(200, 2);
    assert_eq!((first.0, first.2), (2, CaState::Recovery));
    let second = partial(300, 4);
    assert_eq!((second.0, second.2), (4, CaState::Recovery));
    assert!(first.1 > at(200) && second.1 == first.1, "{first:?} {second:?}");
    // All that was outstanding when it began, and what limited transmit added.
    assert_eq!(partial(400, 12).2, CaState::Open);
    assert_eq!(sender.window().cwnd, sender.window().ssthresh);
}

/// RFC 5681 section 3.2 step 6: of ten segments 0 and 5 are lost, and the first new ACK ends Reno's
/// recovery with half the window.
// [RFC5681-3.2-12]
#[test]
fn reno_ends_its_recovery_with_the_first_new_ack() {
    let c = lone_config(Recovery::Reno, |c| c.loss_recovery.prr = false);
    let (mut sender, mut out) = lone_sender(c, 10);
    let at = Time::ZERO + RTT;
    (0..7).for_each(|_| sender.on_packet(at, &ack_of(0, None), &mut out));
    assert_eq!(sender.path().state, CaState::Recovery);
    sender.on_packet(at + RTT, &ack_of(5, None), &mut out);
    assert_eq!((sender.path().state, sender.window().cwnd, sender.window().ssthresh), (CaState::Open, 5, 5));
}

/// RFC 6298 section 3: after a timeout the ACK may be for either copy of the first segment, and
/// measures nothing, also where it covers segments that were sent once.
// [RFC6298-3-2]
#[test]
fn the_ack_of_a_repeated_segment_measures_no_round_trip() {
    for (acked, measured) in [(1, None), (3, None)] {
        let c = lone_config(Recovery::Sack, |c| c.spurious_rto.frto = Frto::Off);
        let (mut sender, mut out) = lone_sender(c, 10);
        let timeout = sender.deadline();
        sender.on_deadline(timeout, &mut out);
        assert_eq!(left(&mut out), [0]);
        sender.on_packet(timeout + Span::from_ms(10), &ack_of(acked, None), &mut out);
        assert_eq!(sender.srtt(), measured, "{acked} acknowledged");
    }
}

/// RFC 2883 section 4: a first block is a duplicate if it lies below the ACK or within the second
/// block, and nothing else is.
// [RFC2883-4-6]
#[test]
fn a_sender_knows_a_duplicate_report_by_its_place() {
    for (acked, blocks, duplicates) in [
        (0, &[(3, 4), (2, 5)][..], 1),
        (2, &[(1, 2)], 1),
        (2, &[(1, 2), (4, 5)], 1),
        (0, &[(3, 4)], 0),
        (0, &[(3, 4), (6, 8)], 0),
        (0, &[(3, 7), (4, 6)], 0),
    ] {
        let (mut sender, mut out) = lone_sender(lone_config(Recovery::Sack, |_| {}), 10);
        let mut p = ack_of(acked, None);
        for &(from, to) in blocks {
            p.push_sack(SackBlock { start: Seq32(1 + 1000 * from), end: Seq32(1 + 1000 * to) });
        }
        sender.on_packet(Time::ZERO + RTT, &p, &mut out);
        assert_eq!(sender.stats().duplicate_sacks, duplicates, "{acked} {blocks:?}");
    }
}

/// One ACK reports two blocks, the newest first, since the ACKs before it were lost or put off. The
/// first arrival in the lower block is no reordering, so that RACK waits for nothing
/// (`tcp_sacktag_write_queue` sorts the blocks).
#[test]
fn blocks_that_one_ack_tells_together_are_no_reordering() {
    let c = config("linux-6", |c| (c.cwnd.initial, c.host_queue.segments_at_once) = (20, SegmentsAtOnce::Single));
    let mut pair = Pair::same(&c, ONE_WAY).losing(&[3, 12]);
    // ACKs of segments 0 to 2, 4 to 6, 7 to 11, and 13 to 15: those of the third group are lost.
    pair.ack_fate = Box::new(|n, _| if (6..11).contains(&n) { Fate::Lose } else { Fate::Pass });
    let mut pair = pair.start(20 * 1448);
    pair.run(Time::ZERO + Span::from_ms(400));
    let again: Vec<(f64, u64)> = pair.sent[20..].iter().map(|s| (s.0, (s.1 - 1) / 1448)).collect();
    assert_eq!(again, [(200.0, 3), (200.0, 12)]);
}

/// A recovery begins while retransmissions of the one before are out. An ACK for one of those
/// echoes an earlier time than the first retransmission of this one: not because the original
/// arrived.
#[test]
fn acks_of_an_earlier_recoverys_retransmissions_take_nothing_back() {
    let c = config("linux-6", |c| c.cc = super::cc::CcConfig::by_name("bbr").unwrap());
    let mut pair = Pair::same(&c, ONE_WAY);
    pair.rate = Some(DataRate::from_mbps(20));
    pair.data_fate = Box::new(|n, _| if n % 37 == 30 { Fate::Lose } else { Fate::Pass });
    let mut pair = pair.start(u64::MAX);
    pair.run(Time::ZERO + Span::from_secs(10));
    let stats = pair.sender.stats();
    assert!(stats.fast_retransmits > 30, "{stats:?}");
    assert_eq!((stats.undos, pair.receiver.stats().segments_duplicate), (0, 0));
}

/// Linux 6.12, `tcp_ack`: a control that owns the window sets it before anything is sent again, and
/// `tcp_xmit_retransmit_queue` keeps to window and pacing from the first retransmission on.
#[test]
fn the_first_retransmission_of_a_control_that_owns_the_window_keeps_to_the_pacing() {
    let c = config("linux-6", |c| {
        c.cc = super::cc::CcConfig::by_name("bbr").unwrap();
        c.host_queue.segments_at_once = SegmentsAtOnce::Single;
    });
    let mut pair = Pair::same(&c, ONE_WAY);
    pair.rate = Some(DataRate::from_mbps(8));
    pair.data_fate = Box::new(|n, _| if n >= 1000 && n % 100 == 0 { Fate::Lose } else { Fate::Pass });
    let mut pair = pair.start(u64::MAX);
    pair.run(Time::ZERO + Span::from_secs(8));
    assert!(pair.sender.stats().fast_retransmits > 20);
    // A segment takes 1.5 ms, 1.2 ms with the largest gain. Half of that is left after a late one
    // (`tcp_update_skb_after_send`).
    let times = pair.sent[1000..].iter().map(|s| s.0);
    let least = times.clone().zip(times.skip(1)).map(|(a, b)| b - a).fold(f64::INFINITY, f64::min);
    assert!(least > 0.55, "{least} ms");
}
