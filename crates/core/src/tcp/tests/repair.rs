//! Repair as Linux 6.18 does it (net/ipv4/tcp_input.c), with times by hand: a round trip of 100 ms,
//! ten segments at 0, of which the first is acknowledged at 100 ms.

use super::super::cc::{CaState, CcConfig};
use super::*;

fn ten_sent() -> (Sender, u64, Outputs) {
    let (mut sender, mss) = sender_alone("linux-6");
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    assert_eq!(segments_in(&mut out, mss).len(), 10);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    (sender, mss, out)
}

/// The second and third are late. SACKs of what is above have both sent again at 100 and 105 ms,
/// with the timestamps 101 and 106. Then the originals arrive, whose timestamp was 1. The ACK of
/// the second leaves the third's retransmission out, and that of the third takes the reduction back
/// (`tcp_try_undo_partial`).
#[test]
fn a_partial_undo_waits_until_no_retransmission_is_out() {
    let (mut sender, mss, mut out) = ten_sent();
    sender.on_packet(ms(100), &ack_of(1, &[(3, 6)], mss), &mut out);
    sender.on_packet(ms(105), &ack_of(1, &[(3, 8)], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [1, 2]);
    let reduced = sender.window().ssthresh;
    let late = |next, sacked: &[(u64, u64)]| {
        let mut ack = ack_of(next, sacked, mss);
        ack.ts_ecr = 1;
        ack
    };
    sender.on_packet(ms(110), &late(2, &[(3, 8)]), &mut out);
    assert_eq!((sender.stats().undos, sender.window().ssthresh), (0, reduced), "the third is out");
    assert_eq!(segments_in(&mut out, mss), [0_u64; 0]);
    sender.on_packet(ms(112), &late(8, &[]), &mut out);
    assert_eq!((sender.stats().undos, sender.window().ssthresh), (1, u32::MAX));
    sender.check();
}

/// Nothing comes after 100 ms: a probe at 304 ms, the timeout at 604 ms, for which CUBIC leaves
/// seven tenths of the window, and the second is sent again. Its ACK lets two more leave at 704 ms.
/// Of those only the latter arrives. That was sent after the other, which has been lost again: a
/// new recovery begins, from the window of then (`FLAG_LOST_RETRANS` in `tcp_fastretrans_alert`).
#[test]
fn a_repair_of_a_timeout_that_is_lost_again_begins_a_recovery() {
    let (mut sender, mss, mut out) = ten_sent();
    assert_eq!(sender.deadline(), ms(304));
    sender.on_deadline(ms(304), &mut out);
    assert_eq!(sender.deadline(), ms(604));
    sender.on_deadline(ms(604), &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.stats().timeouts), (vec![9, 1], 1));
    let at_timeout = sender.window().ssthresh;
    assert!(at_timeout >= 7, "{at_timeout}");
    sender.on_packet(ms(704), &ack_of(2, &[], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [2, 3]);
    sender.on_packet(ms(804), &ack_of(2, &[(3, 4)], mss), &mut out);
    assert_eq!((sender.stats().fast_retransmits, sender.window().ssthresh), (1, 2));
    assert_eq!(segments_in(&mut out, mss)[0], 2);
    sender.check();
}

/// The same without SACK, at 100 ms.
fn ten_sent_without_sack() -> (Sender, u64, Outputs) {
    let c = config("linux-6", |c| {
        (c.connection.handshake, c.loss_recovery.recovery) = (false, Recovery::NewReno);
    });
    let mss = u64::from(c.mss());
    let mut sender = Sender::new(FlowId(0), 0, c, Streams::of(1, 0));
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    assert_eq!(segments_in(&mut out, mss).len(), 10);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    (sender, mss, out)
}

/// No timer asks about reordering, whose send times only SACKs would tell: the third duplicate
/// shows the loss (`tcp_newreno_mark_lost`).
#[test]
fn without_sack_three_duplicates_are_needed_whatever_the_policy() {
    let (mut sender, mss, mut out) = ten_sent_without_sack();
    for at in [110, 112] {
        sender.on_packet(ms(at), &ack_of(1, &[], mss), &mut out);
        assert_eq!((segments_in(&mut out, mss), sender.deadline()), (vec![], ms(400)));
    }
    sender.on_packet(ms(114), &ack_of(1, &[], mss), &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.deadline()), (vec![1], ms(414)));
}

/// Recovery begins at 100 ms. Partial ACKs at 200 and 300 ms each start the timeout of 300 ms anew.
/// The ACK of all ten leaves it in recovery, until more is acknowledged.
#[test]
fn without_sack_recovery_is_held_until_more_is_acknowledged() {
    let (mut sender, mss, mut out) = ten_sent_without_sack();
    (0..3).for_each(|_| sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out));
    for (at, next) in [(200, 3), (300, 5)] {
        sender.on_packet(ms(at), &ack_of(next, &[], mss), &mut out);
        assert_eq!(sender.deadline(), ms(at + 300), "partial ACK of {next}");
    }
    sender.on_packet(ms(400), &ack_of(10, &[], mss), &mut out);
    assert_eq!((sender.path().state, sender.deadline()), (CaState::Recovery, Time::NEVER));
    sender.write(ms(400), mss, &mut out);
    sender.on_packet(ms(500), &ack_of(11, &[], mss), &mut out);
    assert_eq!((sender.path().state, sender.window().cwnd), (CaState::Open, sender.window().ssthresh));
    assert_eq!(sender.stats().fast_retransmits, 1);
}

/// The timeout at 400 ms sends the second again, with the timestamp 401. The ACK of its original
/// takes the reduction back, but the repair goes on; the ACK of the third, which was sent once,
/// ends it and is counted once more (`tcp_try_undo_loss`).
#[test]
fn without_sack_the_repair_of_a_timeout_goes_on_after_an_undo() {
    let (mut sender, mss, mut out) = ten_sent_without_sack();
    sender.on_deadline(ms(400), &mut out);
    assert_eq!(segments_in(&mut out, mss), [1]);
    for (at, next, undos, state) in [(410, 2, 1, CaState::Loss), (412, 3, 2, CaState::Open)] {
        let mut late = ack_of(next, &[], mss);
        late.ts_ecr = 1;
        sender.on_packet(ms(at), &late, &mut out);
        assert_eq!((sender.stats().undos, sender.path().state), (undos, state));
    }
    assert_eq!(sender.window().ssthresh, u32::MAX);
}

/// Ten segments fill the window of ten, and nothing is left to be sent. It was the window that
/// stopped the sender all the same (`tcp_write_xmit`): above the threshold the ACK of ten adds one.
#[test]
fn a_window_that_the_last_segment_fills_may_grow() {
    let c = config("linux-6", |c| {
        (c.connection.handshake, c.cwnd.initial_ssthresh) = (false, 5);
        c.cc = CcConfig::by_name("reno").unwrap();
    });
    for (segments, cwnd) in [(10, 11), (9, 10)] {
        let mss = u64::from(c.mss());
        let mut sender = Sender::new(FlowId(0), 0, c.clone(), Streams::of(1, 0));
        let mut out = Outputs::default();
        sender.open(Time::ZERO, &mut out);
        sender.write(Time::ZERO, segments * mss, &mut out);
        sender.on_packet(ms(100), &ack_of(segments, &[], mss), &mut out);
        assert_eq!(sender.window().cwnd, cwnd, "{segments} segments");
    }
}

/// The second and third are taken for lost at 100 ms, and the second is sent again. Its original
/// comes: nothing that was sent again is out, and the recovery is taken back. The third is still
/// missing at 170 ms, but send times have told of it once (`tcp_rack_detect_loss`): its timeout,
/// 300 ms after it was sent, repairs it.
#[test]
fn what_was_lost_needlessly_is_left_to_the_timeout() {
    let (mut sender, mss, mut out) = ten_sent();
    (4..7).for_each(|end| sender.on_packet(ms(100), &ack_of(1, &[(3, end)], mss), &mut out));
    assert_eq!(segments_in(&mut out, mss), [1]);
    let mut late = ack_of(2, &[(3, 6)], mss);
    late.ts_ecr = 1;
    sender.on_packet(ms(103), &late, &mut out);
    assert_eq!((sender.stats().undos, sender.path().state), (1, CaState::Disorder));
    sender.on_packet(ms(170), &ack_of(2, &[(3, 8)], mss), &mut out);
    let timeout = sender.deadline();
    assert!(segments_in(&mut out, mss).is_empty() && timeout >= ms(300), "{timeout}");
    sender.on_deadline(timeout, &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.stats().timeouts), (vec![2], 1));
    sender.check();
}

/// The original of the second comes with the ACK of all ten. That ends the recovery and tells
/// nothing of reordering: in the next window three SACKs show a loss at once.
#[test]
fn an_undo_at_the_end_of_a_recovery_is_no_sign_of_reordering() {
    let (mut sender, mss, mut out) = ten_sent();
    sender.on_packet(ms(100), &ack_of(1, &[(2, 5)], mss), &mut out);
    let mut late = ack_of(10, &[], mss);
    late.ts_ecr = 1;
    sender.on_packet(ms(103), &late, &mut out);
    assert_eq!((sender.stats().undos, sender.path().state), (1, CaState::Open));
    sender.write(ms(103), 10 * mss, &mut out);
    segments_in(&mut out, mss);
    sender.on_packet(ms(203), &ack_of(10, &[(11, 14)], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [10]);
}

/// The second was overtaken, so that a loss is told after a quarter of a round trip: the fourth is
/// sent again by a timer. A DSACK shows that this was needless, while the ninth is SACKed above a
/// hole: the sender is in disorder (`tcp_try_keep_open`).
#[test]
fn an_undo_by_dsack_leaves_disorder_while_sacks_are_in() {
    let (mut sender, mss, mut out) = ten_sent();
    sender.on_packet(ms(100), &ack_of(1, &[(2, 3)], mss), &mut out);
    sender.on_packet(ms(101), &ack_of(3, &[], mss), &mut out);
    sender.on_packet(ms(102), &ack_of(3, &[(4, 7)], mss), &mut out);
    let at = sender.deadline();
    sender.on_deadline(at, &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.path().state), (vec![3], CaState::Recovery));
    sender.on_packet(at + Span::from_ms(2), &ack_of(7, &[(8, 9)], mss), &mut out);
    assert_eq!((sender.stats().undos, sender.path().state), (0, CaState::Recovery));
    sender.on_packet(at + Span::from_ms(3), &ack_of(7, &[(3, 4), (8, 9)], mss), &mut out);
    assert_eq!((sender.stats().undos, sender.path().state), (1, CaState::Disorder));
}

/// The third is SACKed after it was sent again, and again: its original came after what is above
/// it, five segments (`tcp_sacktag_one`).
#[test]
fn a_dsack_of_what_is_sacked_and_was_sent_again_tells_of_reordering() {
    let (mut sender, mss, mut out) = ten_sent();
    sender.on_packet(ms(100), &ack_of(1, &[(3, 6)], mss), &mut out);
    sender.on_packet(ms(105), &ack_of(1, &[(3, 8)], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [1, 2]);
    sender.on_packet(ms(204), &ack_of(1, &[(2, 8)], mss), &mut out);
    assert_eq!(sender.info().reordering, 3);
    sender.on_packet(ms(205), &ack_of(1, &[(2, 3), (2, 8)], mss), &mut out);
    assert_eq!(sender.info().reordering, 6);
}

/// The receiver closes its window. No probe can be sent then, and the timeout counts from when the
/// first was sent (`tcp_send_loss_probe`): it comes a jiffy after the probe would have.
#[test]
fn a_probe_that_does_not_fit_leaves_the_timeout_where_it_was() {
    let (mut sender, mss, mut out) = ten_sent();
    let mut closed = ack_of(2, &[], mss);
    closed.window = 0;
    sender.on_packet(ms(150), &closed, &mut out);
    let probe = sender.deadline();
    assert!(ms(300) <= probe && probe < ms(400), "{probe:?}");
    sender.on_deadline(probe, &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.stats().tail_loss_probes), (vec![], 0));
    assert!(sender.deadline() <= probe + Span::from_ms(8), "{:?}", sender.deadline());
}

/// Ten segments never fill a window of twenty. Two timeouts leave a window and a threshold of two.
/// The repetitions fill that, but there is nothing new that it stops, so that it does not grow
/// (`tcp_write_xmit` does not run).
#[test]
fn repetitions_that_fill_the_window_do_not_let_it_grow() {
    let c = config("linux-6", |c| {
        (c.connection.handshake, c.cwnd.initial) = (false, 20);
        c.cc = CcConfig::by_name("reno").unwrap();
    });
    let mss = u64::from(c.mss());
    let mut sender = Sender::new(FlowId(0), 0, c, Streams::of(1, 0));
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    let mut now = Time::ZERO;
    for next in 1..=2 {
        while sender.stats().timeouts < next {
            now = sender.deadline();
            sender.on_deadline(now, &mut out);
        }
        if next == 1 {
            now += Span::from_ms(100);
            sender.on_packet(now, &ack_of(next, &[], mss), &mut out);
        }
    }
    assert_eq!(sender.window().ssthresh, 2);
    for acked in [2, 3, 4, 6] {
        now += Span::from_ms(100);
        sender.on_packet(now, &ack_of(acked, &[], mss), &mut out);
        assert_eq!(sender.window().cwnd, 2, "ACK of {acked}");
    }
}

/// With a closed window a timeout probes it and counts as no retry: each halves the threshold, and
/// the connection is not given up.
#[test]
fn timeouts_against_a_closed_window_are_no_retries() {
    let c = config("linux-6", |c| {
        (c.connection.handshake, c.timers.retries) = (false, 3);
        c.cc = CcConfig::by_name("reno").unwrap();
    });
    let mss = u64::from(c.mss());
    let mut sender = Sender::new(FlowId(0), 0, c, Streams::of(1, 0));
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    let mut closed = ack_of(1, &[], mss);
    closed.window = 0;
    sender.on_packet(ms(100), &closed, &mut out);
    let mut thresholds = Vec::new();
    for timeouts in 1..=5 {
        while sender.stats().timeouts < timeouts {
            let at = sender.deadline();
            sender.on_deadline(at, &mut out);
        }
        thresholds.push(sender.window().ssthresh);
    }
    assert_eq!(thresholds, [5, 2, 2, 2, 2]);
    assert!(!sender.is_done());
}

/// All of a window of twenty is acknowledged at 100 ms, and it is forty. One segment each is
/// written at 250 and 450 ms. The latter comes more than a timeout after the last ACK, and one was
/// in use: the window falls half way to the first (`tcp_cwnd_application_limited`).
#[test]
fn a_window_that_the_application_does_not_use_falls() {
    let c = config("linux-6", |c| {
        (c.connection.handshake, c.cwnd.initial) = (false, 20);
        c.cc = CcConfig::by_name("reno").unwrap();
    });
    let mss = u64::from(c.mss());
    let mut sender = Sender::new(FlowId(0), 0, c, Streams::of(1, 0));
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 20 * mss, &mut out);
    sender.on_packet(ms(100), &ack_of(20, &[], mss), &mut out);
    assert_eq!(sender.window().cwnd, 40);
    let windows = [250, 450, 460].map(|at| {
        sender.write(ms(at), mss, &mut out);
        sender.window().cwnd
    });
    assert_eq!(windows, [40, 25, 25]);
    assert_eq!(sender.window().ssthresh, u32::MAX);
}
