//! Losses in small windows: which policies recover without a timeout, and when.

use super::*;
use crate::tcp::loss::LossConfig;

/// A window of `window` segments with one lost of each entry in `lost` (counted over all
/// transmissions), every segment acknowledged at once unless `delayed`. A first segment goes ahead,
/// so that the ACK asking for the lost one has been seen.
struct Story {
    profile: &'static str,
    loss: LossConfig,
    window: u32,
    lost: &'static [u64],
    delayed: bool,
    limited_transmit: bool,
    tail_loss_probe: bool,
    recovery: Recovery,
    segments: u64,
}

const MSS: u64 = 1000;

impl Story {
    fn new(loss: &str, window: u32, lost: &'static [u64]) -> Story {
        Story {
            profile: "linux-6",
            loss: LossConfig::by_name(loss).unwrap(),
            window,
            lost,
            delayed: false,
            limited_transmit: false,
            tail_loss_probe: false,
            recovery: Recovery::Sack,
            segments: u64::MAX,
        }
    }

    fn run(&self) -> Pair {
        let c = config(self.profile, |c| {
            c.timestamps.enabled = false;
            c.connection.packet_bytes = 40 + MSS as u16;
            c.cc = crate::tcp::cc::CcConfig::by_name("reno").unwrap();
            c.loss_recovery.loss = self.loss.clone();
            c.loss_recovery.recovery = self.recovery;
            c.loss_recovery.limited_transmit = self.limited_transmit;
            c.loss_recovery.tail_loss_probe = self.tail_loss_probe;
            (c.cwnd.initial, c.cwnd.max) = (self.window, self.window);
            (c.receiver.quick_acks, c.receiver.window_in_steps, c.receiver.pushed_acks) = (0, false, false);
            c.host_queue.segments_at_once = SegmentsAtOnce::Single;
            c.rto.timer_slack = Span::ZERO;
            if !self.delayed {
                c.receiver.delayed_ack = Span::ZERO;
            }
        });
        let bytes = if self.segments == u64::MAX { u64::MAX } else { self.segments * MSS };
        let mut pair = Pair::same(&c, ONE_WAY).losing(self.lost).start(bytes);
        pair.run(Time::ZERO + Span::from_secs(4));
        pair
    }

    /// Milliseconds from the first transmission of segment `n` to the second.
    fn repeated_after(&self, n: u64) -> Option<f64> {
        let pair = self.run();
        let mut times = pair.sent.iter().filter(|s| (s.1 - 1) / MSS == n).map(|s| s.0);
        let first = times.next()?;
        Some(times.next()? - first)
    }
}

/// Segment 24, the first of a burst, is lost in the middle of a bulk transfer with that window and
/// an ACK for each segment, so each of the others in the window yields a duplicate: window - 1 of
/// them. The timeout is at 300 ms (round trip 100 ms, variation at its floor of 200 ms).
#[test]
fn a_loss_in_a_steady_small_window() {
    // Window, policy, limited transmit, repeated after ms.
    for (window, loss, limited_transmit, after) in [
        (2, "dup_thresh", false, 300.0),
        (3, "dup_thresh", false, 300.0),
        (4, "dup_thresh", false, 100.0),
        (8, "dup_thresh", false, 100.0),
        // Limited transmit: one duplicate lets one new segment go, two let two.
        (2, "dup_thresh", true, 300.0),
        (3, "dup_thresh", true, 200.0),
        (2, "efr", false, 100.0),
        (3, "efr", false, 100.0),
        (4, "efr", false, 100.0),
        (8, "efr", false, 100.0),
        // There is always more to send: Early Retransmit leaves it to limited transmit.
        (2, "early_retransmit", false, 300.0),
        (3, "early_retransmit", false, 300.0),
        (3, "early_retransmit", true, 200.0),
        // A quarter of the round trip.
        (2, "rack", false, 125.0),
        (3, "rack", false, 125.0),
        (4, "rack", false, 100.0),
    ] {
        let story = Story { limited_transmit, ..Story::new(loss, window, &[24]) };
        let took = story.repeated_after(24).unwrap();
        // Timeouts are whole jiffies of 4 ms from the last ACK.
        assert!((took - after).abs() < 5.0, "{loss}, window {window}, limited transmit {limited_transmit}: {took} ms");
    }
}

/// The same at the end of a transfer of 21 segments in windows of three: two after the lost one,
/// and nothing more to send.
#[test]
fn a_loss_near_the_end_of_a_transfer() {
    for (loss, after) in [("dup_thresh", 300.0), ("efr", 100.0), ("early_retransmit", 100.0), ("rack", 125.0)] {
        for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
            // Without SACK send times say nothing: RACK needs three duplicates.
            let after = if loss == "rack" && recovery != Recovery::Sack { 300.0 } else { after };
            let story = Story { segments: 21, recovery, limited_transmit: true, ..Story::new(loss, 3, &[18]) };
            let took = story.repeated_after(18).unwrap();
            assert!((took - after).abs() < 5.0, "{loss} {recovery:?}: {took} ms");
        }
    }
}

/// The study's Figure 9: window 4, the first of four segments lost. With an ACK for every segment
/// the ACK asking for the lost one has come before, so all three others yield duplicates and Reno
/// recovers, too. With delayed ACKs it can be the ACK of a segment above the lost one that first
/// asks for it, as the figure counts.
#[test]
fn figure_9_depends_on_what_was_acknowledged_when() {
    for loss in ["dup_thresh", "efr"] {
        let story = Story { recovery: Recovery::Reno, ..Story::new(loss, 4, &[20]) };
        assert!((story.repeated_after(20).unwrap() - 100.0).abs() < 5.0, "{loss}: three duplicates");
    }
    // Delayed: 20 waits for 21, which is lost, so 22 draws the ACK that first asks for 21: no
    // duplicate. 23 draws one, and so does 24, which that first ACK let go. A third cannot come.
    let repeated = |loss| {
        let story = Story { delayed: true, recovery: Recovery::Reno, ..Story::new(loss, 4, &[21]) };
        let pair = story.run();
        (pair.sender.stats().timeouts, story.repeated_after(21).unwrap())
    };
    let (reno, efr) = (repeated("dup_thresh"), repeated("efr"));
    assert!(reno.0 == 1 && reno.1 > 250.0, "{reno:?}");
    assert!(efr.0 == 0 && (efr.1 - 200.0).abs() < 5.0, "{efr:?}");
}

/// Section 4.1: with two losses in a window of four only one duplicate comes, and EFR waits for
/// two.
#[test]
fn efr_does_not_help_when_two_segments_of_a_small_window_are_lost() {
    let story = Story { recovery: Recovery::Reno, ..Story::new("efr", 4, &[20, 22]) };
    assert_eq!(story.run().sender.stats().timeouts, 1);
}

/// Vegas: two losses in a window of eight. Three duplicates find the first. The ACK of its repeat,
/// a round trip later, is reason to look at the clock, and the second is older than the fine
/// timeout. Reno's recovery has ended then, and without the look a timeout follows. The window is
/// reduced once.
#[test]
fn vegas_looks_at_the_clock_after_a_retransmission() {
    let run = |loss| {
        let story = Story { recovery: Recovery::Reno, ..Story::new(loss, 8, &[24, 26]) };
        let pair = story.run();
        let stats = pair.sender.stats();
        let counts = (stats.fast_retransmits, stats.timeouts, stats.segments_retransmitted);
        (counts, pair.sender.window().ssthresh, story.repeated_after(26).unwrap())
    };
    let (counts, ssthresh, after) = run("vegas_retransmit");
    assert_eq!((counts, ssthresh), ((2, 0, 2), 4));
    assert!((after - 200.0).abs() < 5.0, "{after}");
    let ((_, timeouts, _), ..) = run("dup_thresh");
    assert_eq!(timeouts, 1);
}

/// With round trips that do not vary, the only duplicate of a window of two comes just before the
/// fine timeout.
#[test]
fn vegas_leaves_a_loss_in_a_steady_window_of_two_to_the_timer() {
    for (window, after) in [(2, 300.0), (4, 100.0)] {
        let story = Story { recovery: Recovery::Reno, ..Story::new("vegas_retransmit", window, &[24]) };
        let took = story.repeated_after(24).unwrap();
        assert!((took - after).abs() < 5.0, "window {window}: {took} ms");
    }
}

/// RFC 8985 section 7: the last segment lost. PTO = 2 SRTT + 200 ms while one segment is in flight,
/// 2 SRTT for more; the probe's SACK shows what is missing, or the probe is itself what was.
// [RFC8985-7.2-1] [RFC8985-7.3-5] [RFC8985-7.3-7]
#[test]
fn a_tail_loss_probe_replaces_the_timeout() {
    let pair = Story { segments: 23, tail_loss_probe: true, ..Story::new("rack", 10, &[22]) }.run();
    let stats = pair.sender.stats();
    assert_eq!((stats.timeouts, stats.tail_loss_probes, stats.fast_retransmits), (0, 1, 0));
    assert_eq!(stats.bytes_acked, 23 * MSS);

    // The last three: the probe repeats the last, whose SACK gives the others away.
    let pair = Story { segments: 25, tail_loss_probe: true, ..Story::new("rack", 10, &[22, 23, 24]) }.run();
    let stats = pair.sender.stats();
    assert_eq!((stats.timeouts, stats.tail_loss_probes, stats.fast_retransmits), (0, 1, 1));
    assert_eq!(stats.bytes_acked, 25 * MSS);
    let again: Vec<u64> = pair.sent.iter().skip(25).map(|s| (s.1 - 1) / MSS).collect();
    assert_eq!(again, [24, 22, 23]);

    // Without: the timeout.
    let pair = Story { segments: 25, ..Story::new("rack", 10, &[22, 23, 24]) }.run();
    assert_eq!((pair.sender.stats().timeouts, pair.sender.stats().tail_loss_probes), (1, 0));
}

/// RFC 8985 section 7.4.2: a probe that repaired a loss unnoticed reduces the window all the same.
// [RFC8985-7.4.2-1] [RFC8985-7.4.2-2]
#[test]
fn a_loss_repaired_by_the_probe_alone_reduces_the_window() {
    let c = config("linux-6", |c| {
        c.cc = crate::tcp::cc::CcConfig::by_name("reno").unwrap();
        (c.receiver.quick_acks, c.cwnd.restart_after_idle) = (1000, false);
    });
    let mut pair = Pair::same(&c, ONE_WAY).losing(&[9]).start(10 * u64::from(c.mss()));
    pair.run(Time::ZERO + Span::from_secs(1));
    assert_eq!((pair.sender.stats().tail_loss_probes, pair.sender.stats().timeouts), (1, 0));
    let before = pair.sender.window().cwnd;
    let (now, mut out) = (pair.now, std::mem::take(&mut pair.out));
    pair.sender.write(now, 3 * u64::from(c.mss()), &mut out);
    pair.out = out;
    pair.drain();
    pair.run(Time::ZERO + Span::from_ms(1300));
    assert!(pair.sender.window().cwnd <= before / 2 + 1, "{} after {before}", pair.sender.window().cwnd);
}

/// RFC 8985 sections 7.2 and 7.3: the last segment is lost, and so is its probe. One segment is out
/// since the ACK at 200 ms: the probe is due 2 SRTT and 200 ms later, but not after the timeout;
/// and that runs anew from the only probe.
// [RFC6298-5-1] [RFC8985-7.2-2] [RFC8985-7.2-4] [RFC8985-7.2-5] [RFC8985-7.3-1] [RFC8985-7.3-3] [RFC8985-7.3-6]
#[test]
fn a_lost_probe_leaves_the_rest_to_the_timeout() {
    for (rto_min_ms, probe_at, timeout) in [(200, 500.0..500.1, 300.0), (1000, 600.0..609.0, 1000.0)] {
        let c = config("linux-6", |c| (c.receiver.quick_acks, c.rto.min) = (1000, Span::from_ms(rto_min_ms)));
        let mut pair = Pair::same(&c, ONE_WAY).losing(&[9, 10]).start(10 * u64::from(c.mss()));
        pair.run(Time::ZERO + Span::from_secs(5));
        let stats = pair.sender.stats();
        assert_eq!((stats.tail_loss_probes, stats.timeouts, stats.segments_retransmitted), (1, 1, 2));
        let of_the_last: Vec<f64> = pair.sent.iter().filter(|s| (s.1 - 1) / 1448 == 9).map(|s| s.0).collect();
        assert!(probe_at.contains(&of_the_last[1]), "{of_the_last:?}");
        assert_eq!(of_the_last[2] - of_the_last[1], timeout, "{of_the_last:?}");
    }
}

/// RFC 8985 section 7.3: new data that leaves while a probe is on its way starts no other probe.
/// All is lost from the tenth on.
// [RFC8985-7.3-1]
#[test]
fn new_data_behind_a_probe_starts_no_other() {
    let c = config("linux-6", |c| (c.receiver.quick_acks, c.rto.min) = (1000, Span::from_secs(1)));
    let mut pair = Pair::same(&c, ONE_WAY);
    pair.data_fate = Box::new(|n, _| if n >= 9 { Fate::Lose } else { Fate::Pass });
    let mut pair = pair.start(10 * u64::from(c.mss()));
    pair.run(Time::ZERO + Span::from_ms(650));
    assert_eq!(pair.sender.stats().tail_loss_probes, 1);
    let (now, mut out) = (pair.now, std::mem::take(&mut pair.out));
    pair.sender.write(now, u64::from(c.mss()), &mut out);
    pair.out = out;
    pair.drain();
    pair.run(Time::ZERO + Span::from_secs(5));
    assert_eq!(pair.sender.stats().tail_loss_probes, 1);
    assert!(pair.sender.stats().timeouts > 0);
}

/// RFC 8985 sections 7.2 and 7.3: every ACK of the first window is lost. The probe is new data
/// although the window is full, two round trips after the window left; without a round trip
/// measured it waits a second.
// [RFC8985-7.2-2] [RFC8985-7.2-3] [RFC8985-7.3-4]
#[test]
fn a_probe_is_new_data_where_there_is_some() {
    for (handshake, sent_at, probe_at) in [(true, 100.0, 300.0..309.0), (false, 0.0, 1000.0..1000.1)] {
        let c = config("linux-6", |c| (c.connection.handshake, c.receiver.quick_acks) = (handshake, 1000));
        let mut pair = Pair::same(&c, ONE_WAY);
        pair.ack_fate = Box::new(|n, _| if n < 10 { Fate::Lose } else { Fate::Pass });
        let mut pair = pair.start(u64::MAX);
        pair.run(Time::ZERO + Span::from_ms(1001));
        let sent: Vec<(f64, u64)> = pair.sent.iter().take(11).map(|s| (s.0, (s.1 - 1) / 1448)).collect();
        assert!(sent[..10].iter().all(|s| s.0 == sent_at), "{sent:?}");
        assert!(probe_at.contains(&sent[10].0) && sent[10].1 == 10, "{sent:?}");
        let stats = pair.sender.stats();
        assert_eq!((stats.tail_loss_probes, stats.timeouts, stats.segments_retransmitted), (1, 0, 0));
    }
}

/// Segments held back by a fifth of a round trip. Fixed and EFR repeat them needlessly; the DSACK
/// takes the reduction back. So does RACK as long as it has seen no reordering: three reports are
/// enough for it then. Here it has, since one segment was late by two.
// [RFC9438-4.9.2-2] [RFC2883-4-6]
#[test]
fn needless_retransmissions_are_taken_back_and_reordering_is_learnt() {
    for (loss, dsack, learns, needless, undos) in [
        ("dup_thresh", true, true, true, true),
        ("dup_thresh", false, true, true, false),
        ("efr", true, true, true, true),
        ("rack", true, false, true, true),
        ("rack", true, true, false, false),
    ] {
        let c = config("linux-6", |c| {
            c.cc = crate::tcp::cc::CcConfig::by_name("reno").unwrap();
            c.loss_recovery.loss = LossConfig::by_name(loss).unwrap();
            (c.loss_recovery.dsack, c.spurious_rto.eifel) = (dsack, false);
            c.cwnd.max = 40;
            c.receiver.delayed_ack = Span::ZERO;
        });
        let mut pair = Pair::same(&c, ONE_WAY);
        pair.rate = Some(DataRate::from_mbps(10));
        pair.data_fate = Box::new(move |n, _| match n {
            300 if learns => Fate::Delay(Span::from_us(2_500)),
            350.. if n % 50 == 0 => Fate::Delay(Span::from_ms(20)),
            _ => Fate::Pass,
        });
        let mut pair = pair.start(u64::MAX);
        pair.run(Time::ZERO + Span::from_secs(10));
        let stats = *pair.sender.stats();
        let retransmissions = stats.segments_retransmitted;
        assert_eq!(retransmissions > 10, needless, "{loss}: {retransmissions}");
        assert_eq!(stats.undos > 10, undos, "{loss}, dsack {dsack}: {stats:?}");
        assert_eq!(pair.receiver.stats().segments_duplicate, retransmissions, "{loss}: all were needless");
        assert_eq!(stats.timeouts, 0);
    }
}

/// The host of the study: a lost segment of a small window waits for a timer of 500 ms ticks.
#[test]
fn timeouts_of_bsd_expire_at_ticks() {
    let c = config("freebsd-2.2.1", |_| {});
    for phase_ms in [0, 130, 499] {
        let mut pair = Pair::same(&c, Span::from_ms(10));
        pair.sender.set_timer_phase(Span::from_ms(phase_ms));
        pair.receiver.set_timer_phase(Span::from_ms(phase_ms));
        let mut pair = pair.losing(&[20]);
        pair = pair.start(40 * 1460);
        pair.run(Time::ZERO + Span::from_secs(10));
        assert_eq!(pair.receiver.stats().bytes_delivered, 40 * 1460);
        let again = pair.sent.iter().filter(|s| (s.1 - 1) / 1460 == 20).nth(1).unwrap().0;
        let expected = if pair.sender.stats().timeouts > 0 { (again - phase_ms as f64) % 500.0 } else { 0.0 };
        assert!(expected.abs() < 1e-6, "phase {phase_ms}: {again}");
    }
}

/// A round trip of 203 ms is 20 ticks of 10 ms or 21, as the ticks fall, and the timeout follows:
/// in ns-2 the clock of each agent starts at a random time.
#[test]
fn what_a_coarse_clock_shows_depends_on_when_it_ticks() {
    let waits: Vec<f64> = (0..10)
        .map(|phase_ms| {
            let c = config("ns2-reno", |c| c.cwnd.max = 1);
            let mut pair = Pair::same(&c, Span::from_us(101_500)).losing(&[12]);
            pair.sender.set_timer_phase(Span::from_ms(phase_ms));
            let mut pair = pair.start(13 * 960);
            pair.run(Time::ZERO + Span::from_secs(10));
            let of_the_last: Vec<f64> = pair.sent.iter().filter(|s| (s.1 - 1) / 960 == 12).map(|s| s.0).collect();
            of_the_last[1] - of_the_last[0]
        })
        .collect();
    assert!(waits.iter().all(|ms| (ms / 10.0).fract().abs() < 1e-6), "whole ticks: {waits:?}");
    assert!(waits.iter().any(|ms| ms != &waits[0]), "{waits:?}");
}
