//! F-RTO: what a timeout costs that was not needed, and one that was. The stories are those of RFC
//! 4138, appendix A, and the one behind uploads over an access point whose queue overflows:
//! everything arrives, and every ACK of a window is lost.

use super::*;
use crate::tcp::cc::CcConfig;
use crate::tcp::loss::LossConfig;

const MSS: u64 = 1000;

/// 100 ms a round trip and no serialisation: ten segments leave at 100 ms and twenty, 10 to 29, at
/// 200 ms. Their timeout is due at 500 ms: srtt 100 ms and 200 ms for the variation. Neither
/// timestamps nor DSACKs, so that F-RTO is all there is.
fn sender(frto: Frto, response: FrtoResponse, recovery: Recovery) -> Arc<TcpConfig> {
    config("linux-6", |c| {
        c.cc = CcConfig::by_name("reno").unwrap();
        c.loss_recovery.loss = LossConfig::by_name("dup_thresh").unwrap();
        (c.spurious_rto.frto, c.spurious_rto.frto_response, c.loss_recovery.recovery) = (frto, response, recovery);
        (c.timestamps.enabled, c.loss_recovery.dsack, c.loss_recovery.tail_loss_probe, c.spurious_rto.eifel) =
            (false, false, false, false);
        c.connection.packet_bytes = 40 + MSS as u16;
        (c.receiver.quick_acks, c.receiver.window_in_steps, c.host_queue.segments_at_once) =
            (u32::MAX, false, SegmentsAtOnce::Single);
        c.cwnd.byte_counting = 1;
        c.loss_recovery.rate_halving = frto == Frto::Rfc4138;
        c.loss_recovery.prr = !c.loss_recovery.rate_halving;
        c.buffers.send = c.buffers.send_max;
        c.buffers.receive = c.buffers.receive_max;
    })
}

/// Delays all segments sent from 200 ms on until `until_ms`, retransmissions too; they arrive in
/// order.
fn stalled(c: &Arc<TcpConfig>, until_ms: u64) -> Pair {
    let mut pair = Pair::same(c, ONE_WAY);
    // Sent in that time: 20 segments, and what the timeouts repeat.
    let mut repeated = 0;
    pair.data_fate = Box::new(move |n, _| match n {
        10..30 => Fate::Delay(Span::from_ms(until_ms - 200)),
        30.. if repeated < (until_ms + 100) / 600 => {
            repeated += 1;
            // At 500 ms, then 600 ms later.
            Fate::Delay(Span::from_ms(until_ms + 100 - 600 * repeated))
        }
        _ => Fate::Pass,
    });
    pair.start(200 * MSS)
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

const SEEN: [(Frto, FrtoResponse); 4] = [
    (Frto::Rfc5682, FrtoResponse::Undo),
    (Frto::Rfc4138, FrtoResponse::Undo),
    (Frto::Rfc4138, FrtoResponse::RateHalving),
    (Frto::Rfc4138, FrtoResponse::Conservative),
];

/// RFC 4138 appendix A.1. The ACKs come at 750 ms: the first makes way for two new segments, the
/// second shows the timeout to be spurious. One segment was repeated, the one that the timeout
/// repeats.
// [RFC5682-2.1-1] [RFC5682-2.1-2] [RFC5682-2.1-2b] [RFC5682-2.1-3b] [RFC5682-3.1-1] [RFC5682-4-1]
#[test]
fn a_sudden_delay_costs_one_repeated_segment() {
    for recovery in [Recovery::Sack, Recovery::NewReno] {
        for (frto, response) in SEEN {
            let c = sender(frto, response, recovery);
            let mut pair = stalled(&c, 650);
            pair.run(at(749));
            let told = format!("{frto:?} {response:?} {recovery:?}");
            assert_eq!(pair.sent_between(201.0, 749.0, MSS), [10], "{told}");
            assert_eq!((pair.sender.stats().timeouts, pair.sender.window().ssthresh), (1, 10), "{told}");
            pair.run(at(750));
            assert_eq!(pair.sent_between(749.0, 751.0, MSS)[..2], [30, 31], "{told}");
            let stats = *pair.sender.stats();
            assert_eq!((stats.segments_retransmitted, stats.spurious_timeouts), (1, 1), "{told}");
            let undone = response == FrtoResponse::Undo;
            assert_eq!((stats.undos, pair.sender.window().ssthresh == u32::MAX), (u64::from(undone), undone), "{told}");
            // Some 20 ACKs later: all of the window, or half of it, where a duplicate for the
            // repeated segment changes nothing.
            let cwnd = pair.sender.window().cwnd;
            assert!(if undone { cwnd >= 20 } else { (10..=13).contains(&cwnd) }, "{told}: {cwnd}");
            pair.run_for(Span::from_secs(2));
            assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().segments_retransmitted), (1, 1), "{told}");
        }
        // Without it the repair goes on behind the ACKs: go-back-N.
        let c = sender(Frto::Off, FrtoResponse::Undo, recovery);
        let mut pair = stalled(&c, 650);
        pair.run(at(800));
        assert_eq!((pair.sender.stats().spurious_timeouts, pair.sender.stats().undos), (0, 0));
        assert!(pair.sender.stats().segments_retransmitted > 5, "{:?}", pair.sender.stats());
    }
}

/// RFC 4138 appendix A.2, RFC 5682 section 3.2: a second timeout of the same segment, at 1100 ms,
/// is no reason to give up.
// [RFC5682-2.1-1]
#[test]
fn a_second_timeout_of_the_same_segment_is_looked_at_as_well() {
    let c = sender(Frto::Rfc5682, FrtoResponse::Undo, Recovery::Sack);
    let mut pair = stalled(&c, 1250);
    pair.run(at(1349));
    assert_eq!(pair.sent_between(201.0, 1349.0, MSS), [10, 10]);
    assert_eq!(pair.sender.stats().timeouts, 2);
    pair.run(at(1350));
    let stats = pair.sender.stats();
    assert_eq!((stats.segments_retransmitted, stats.spurious_timeouts, stats.undos), (2, 1, 1));
    assert_eq!(pair.sender.window().ssthresh, u32::MAX);
}

/// A whole window is lost. The ACK of the repeated segment, at 600 ms, makes way for new data, and
/// what that draws, a round trip later, says that the loss was real: repair goes on a round trip
/// later than without F-RTO, in slow start from two or three segments.
// [RFC5682-2.1-2b] [RFC5682-2.1-3a] [RFC5682-3.1-2]
#[test]
fn a_genuine_loss_is_repaired_a_round_trip_later() {
    for (frto, recovery, at_700) in [
        (Frto::Rfc5682, Recovery::Sack, &[11, 12][..]),
        (Frto::Rfc5682, Recovery::NewReno, &[11, 12][..]),
        (Frto::Rfc4138, Recovery::Sack, &[11, 12, 13][..]),
        (Frto::Rfc4138, Recovery::NewReno, &[11, 12, 13][..]),
    ] {
        let c = sender(frto, FrtoResponse::Undo, recovery);
        let mut pair = Pair::same(&c, ONE_WAY);
        pair.data_fate = Box::new(|n, _| if (10..30).contains(&n) { Fate::Lose } else { Fate::Pass });
        let mut pair = pair.start(100 * MSS);
        pair.run(at(799));
        let told = format!("{frto:?} {recovery:?}");
        assert_eq!(pair.sent_between(201.0, 599.0, MSS), [10], "{told}");
        assert_eq!(pair.sent_between(599.0, 601.0, MSS), [30, 31], "{told}");
        assert_eq!(pair.sent_between(699.0, 701.0, MSS)[..at_700.len()], *at_700, "{told}");
        pair.run_for(Span::from_secs(10));
        let stats = pair.sender.stats();
        assert_eq!((stats.spurious_timeouts, stats.undos, stats.timeouts), (0, 0, 1), "{told}");
        assert_eq!(pair.receiver.stats().bytes_delivered, 100 * MSS, "{told}");
        assert!((10..20).contains(&pair.sender.window().ssthresh), "{told}");
    }
    // RFC 5681: the ACK at 600 ms lets two more be repeated.
    let c = sender(Frto::Off, FrtoResponse::Undo, Recovery::Sack);
    let mut pair = Pair::same(&c, ONE_WAY);
    pair.data_fate = Box::new(|n, _| if (10..30).contains(&n) { Fate::Lose } else { Fate::Pass });
    let mut pair = pair.start(100 * MSS);
    pair.run(at(699));
    assert_eq!(pair.sent_between(599.0, 601.0, MSS), [11, 12]);
}

/// Everything arrives and no ACK of the window does, as where ACKs overflow an access point. The
/// timeout repeats the first segment, and the answer, at 600 ms, covers all twenty. To RFC 5682
/// with SACK that is proof: most of it was sent once only, and the whole window returns. Without
/// SACK it is not (section 2.1 step 2a), and the window is that of slow start. RFC 4138's variant
/// has a rule of its own for an ACK of everything: repair begins with two segments, though nothing
/// is left to repair.
// [RFC5682-2.1-2a] [RFC5682-3.1-1]
#[test]
fn where_only_acks_were_lost_the_window_that_remains_depends_on_the_variant() {
    for (frto, response, recovery, leaving) in [
        (Frto::Off, FrtoResponse::Undo, Recovery::Sack, 2),
        (Frto::Rfc5682, FrtoResponse::Undo, Recovery::Sack, 21),
        (Frto::Rfc5682, FrtoResponse::Undo, Recovery::NewReno, 2),
        (Frto::Rfc4138, FrtoResponse::RateHalving, Recovery::Sack, 2),
        (Frto::Rfc4138, FrtoResponse::RateHalving, Recovery::NewReno, 2),
    ] {
        let c = sender(frto, response, recovery);
        let mut pair = Pair::same(&c, ONE_WAY);
        pair.ack_fate = Box::new(|n, _| if (10..30).contains(&n) { Fate::Lose } else { Fate::Pass });
        let mut pair = pair.start(u64::MAX);
        pair.run(at(601));
        let told = format!("{frto:?} {response:?} {recovery:?}");
        let expected: Vec<u64> = std::iter::once(10).chain(30..30 + leaving).collect();
        assert_eq!(pair.sent_between(201.0, 602.0, MSS), expected, "{told}");
        let spurious = leaving == 21;
        assert_eq!(pair.sender.stats().spurious_timeouts, u64::from(spurious), "{told}");
        assert_eq!(pair.sender.window().ssthresh, if spurious { u32::MAX } else { 10 }, "{told}");
    }
}

/// The same with what the kernels of the laptops and phones had besides: by its timestamp or its
/// DSACK the answer says that the repeated segment had been there before. That returns ssthresh,
/// and the window only where the control still knew it.
#[test]
fn a_timeout_after_lost_acks_alone_is_taken_back_as_far_as_the_kernel_could() {
    for (profile, window_too) in
        [("linux-2.6.32", false), ("android-2.2", false), ("android-4.1", false), ("linux-6", true)]
    {
        for (timestamps, dsack) in [(true, false), (false, true)] {
            let c = config(profile, |c| {
                (c.timestamps.enabled, c.loss_recovery.dsack, c.loss_recovery.tail_loss_probe) =
                    (timestamps, dsack, false);
                (c.cwnd.initial, c.receiver.delayed_ack, c.cwnd.byte_counting) = (10, Span::ZERO, 1);
                c.cc = CcConfig::by_name("cubic").unwrap();
                (c.buffers.send, c.buffers.receive) = (c.buffers.send_max, c.buffers.receive_max);
            });
            let mut pair = Pair::same(&c, ONE_WAY);
            pair.ack_fate = Box::new(|n, _| if (10..30).contains(&n) { Fate::Lose } else { Fate::Pass });
            let mut pair = pair.start(u64::MAX);
            while pair.sender.stats().timeouts == 0 {
                pair.run_for(Span::from_ms(1));
            }
            pair.run_for(Span::from_ms(101));
            let told = format!("{profile} {timestamps} {dsack}");
            let (stats, window) = (pair.sender.stats(), pair.sender.window());
            assert_eq!((stats.timeouts, stats.segments_retransmitted, stats.undos), (1, 1, 1), "{told}");
            assert_eq!(window.ssthresh, u32::MAX, "{told}");
            assert_eq!(window.cwnd >= 20, window_too, "{told}: {}", window.cwnd);
            assert!(window_too || window.cwnd == 2, "{told}: {}", window.cwnd);
        }
    }
}

/// RFC 5682 section 2.1 step 2b: twenty segments are lost and there is no new data to ask with, so
/// that the repair goes on at once.
// [RFC5682-2.1-2c]
#[test]
fn without_new_data_the_repair_goes_on_at_once() {
    for recovery in [Recovery::Sack, Recovery::NewReno] {
        let mut pair = Pair::same(&sender(Frto::Rfc5682, FrtoResponse::Undo, recovery), ONE_WAY);
        pair.data_fate = Box::new(|n, _| if (10..30).contains(&n) { Fate::Lose } else { Fate::Pass });
        let mut pair = pair.start(30 * MSS);
        pair.run(at(699));
        assert_eq!(pair.sent_between(201.0, 699.0, MSS), [10, 11, 12], "{recovery:?}");
    }
}

/// RFC 5682 section 3.1 step 3a: once the new data has been reported above what is missing, the
/// loss was real, whatever comes late. All of the second flight is lost but segment 15, which
/// arrives when that has been decided.
// [RFC5682-2.1-3a] [RFC5682-3.1-2]
#[test]
fn a_loss_once_found_real_stays_so() {
    let c = sender(Frto::Rfc5682, FrtoResponse::Undo, Recovery::Sack);
    let mut pair = Pair::same(&c, ONE_WAY);
    pair.data_fate = Box::new(|n, _| match n {
        15 => Fate::Delay(Span::from_ms(410)),
        10..30 => Fate::Lose,
        _ => Fate::Pass,
    });
    let mut pair = pair.start(100 * MSS);
    pair.run(at(709));
    assert_eq!(pair.sent_between(599.0, 601.0, MSS), [30, 31]);
    assert_eq!(pair.sent_between(699.0, 701.0, MSS)[..2], [11, 12], "the report of 30 has come");
    pair.run_for(Span::from_secs(10));
    let stats = pair.sender.stats();
    assert_eq!((stats.spurious_timeouts, stats.undos, stats.timeouts), (0, 0, 1));
    assert_eq!(pair.receiver.stats().bytes_delivered, 100 * MSS);
}
