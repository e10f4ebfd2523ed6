//! Slow start, losses and getting over them.

use super::*;

#[test]
fn slow_start_doubles_each_round_without_delayed_acks() {
    let c = config("ns2-reno", |_| {});
    let mut pair = Pair::same(&c, ONE_WAY).start(u64::MAX);
    pair.run(Time::ZERO + Span::from_ms(599));
    let rounds: Vec<usize> =
        (1..6).map(|r| pair.sent_between(100.0 * f64::from(r), 100.0 * f64::from(r) + 99.0, 960).len()).collect();
    assert_eq!(rounds, [2, 4, 8, 16, 32]);
}

#[test]
fn one_lost_segment_is_retransmitted_on_the_third_duplicate_and_the_window_halves() {
    for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
        for prr in [false, true] {
            let c = config("ns2-reno", |c| {
                c.recovery = recovery;
                c.prr = prr;
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

#[test]
fn several_losses_in_a_window_cost_reno_a_timeout_newreno_a_round_each_and_sack_one_round() {
    let story = |recovery| {
        let c = config("ns2-reno", |c| c.recovery = recovery);
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

#[test]
fn limited_transmit_sends_one_new_segment_for_each_of_the_first_two_duplicates() {
    // RFC 3042 section 2: a window of four, its first segment lost; the third duplicate comes only from limited transmit.
    for (limited_transmit, timeouts) in [(true, 0), (false, 1)] {
        let c = config("ns2-reno", |c| {
            c.limited_transmit = limited_transmit;
            c.max_cwnd = 3;
        });
        let mut pair = Pair::same(&c, ONE_WAY).losing(&[10]).start(960 * 40);
        pair.run(Time::ZERO + Span::from_secs(10));
        assert_eq!(pair.sender.stats().timeouts, timeouts, "{limited_transmit}");
        assert_eq!(pair.receiver.stats().bytes_delivered, 960 * 40);
    }
}

#[test]
fn timeouts_back_off_and_the_window_restarts_at_one() {
    for again in [false, true] {
        let c = config("ns2-reno", |c| {
            c.rto_min = Span::from_secs(1);
            c.ssthresh_at_every_timeout = again;
        });
        // Data 6 to 13 is the third window: all of it and the first two retransmissions of its head are lost.
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

/// A window of 8 is lost at 300 ms. What leaves with the timeout, a second later, is what `loss_window` lets.
#[test]
fn the_loss_window_is_what_leaves_after_a_timeout() {
    for (loss_window, expected) in [(1, 1), (3, 3), (8, 8), (u32::MAX, 8)] {
        let c = config("ns2-reno", |c| {
            c.rto_min = Span::from_secs(1);
            c.loss_window = loss_window;
        });
        let mut pair = Pair::same(&c, ONE_WAY).losing(&[6, 7, 8, 9, 10, 11, 12, 13]).start(u64::MAX);
        pair.run(Time::ZERO + Span::from_ms(1399));
        let repeated: Vec<u64> = (6..6 + expected).collect();
        assert_eq!(pair.sent_between(1300.0, 1399.0, 960), repeated, "loss window {loss_window}");
        assert_eq!((pair.sender.stats().timeouts, pair.sender.window().ssthresh), (1, 4));
    }
}

/// By RFC 5681's halving and by rate halving: of 16 segments in flight the first is lost. Halving at once, nothing leaves for half
/// a round trip of ACKs; rate halving sends one segment for every second ACK. Both end at 8.
#[test]
fn rate_halving_spreads_the_reduction_over_the_round_trip() {
    for (halving, quiet) in [(false, true), (true, false)] {
        let c = config("ns2-reno", |c| {
            c.recovery = Recovery::Sack;
            c.rate_halving = halving;
        });
        // Rounds of 2, 4, 8, 16 at 100, 200, 300 and 400 ms: segment 14 is the first of the fourth round. Its ACKs come one by one.
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
        // Not CUBIC, whose HyStart takes the late ACKs for a queue; and neither DSACKs nor F-RTO, which would take it back as well.
        let c = config("linux-6", |c| {
            (c.eifel, c.dsack, c.frto) = (eifel, false, Frto::Off);
            c.cc = super::cc::CcConfig::by_name("reno").unwrap();
        });
        let mut pair = Pair::same(&c, ONE_WAY);
        // A stall: what is sent from 500 to 1100 ms waits until 1100 ms. The timestamp clock shows the milliseconds, plus 1.
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

/// All ACKs of a window come in one instant: two segments leave by limited transmit, then the retransmission, all at the same time.
/// What those two tell when they have arrived says nothing of the retransmission, which left after them.
#[test]
fn new_data_that_left_before_the_retransmission_in_the_same_instant_does_not_declare_it_lost() {
    let c = config("linux-6", |c| c.handshake = false);
    let mut pair = Pair::same(&c, ONE_WAY).losing(&[0]).start(40 * 1448);
    pair.run(Time::ZERO + Span::from_secs(5));
    let second_round: Vec<u64> = pair.sent_between(99.0, 101.0, 1448);
    assert_eq!(second_round[..3], [10, 11, 0], "limited transmit twice, then the hole, at 100 ms");
    assert_eq!(pair.sender.stats().segments_retransmitted, 1, "{:?}", pair.sent);
    assert_eq!(pair.receiver.stats().segments_duplicate, 0);
    assert_eq!(pair.receiver.stats().bytes_delivered, 40 * 1448);
}
