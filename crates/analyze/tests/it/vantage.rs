//! One story each, seen from the sender, from between and from the receiver.

use airtcp_core::tcp::TcpConfig;
use airtcp_core::units::{DataRate, Span};

use crate::common::*;

const TAPS: [(Tap, &str); 3] = [(Tap::Sender, "sender"), (Tap::Between, "between"), (Tap::Receiver, "receiver")];

/// 40 ms there and back, losses before the capture in between if `first`.
fn path(change: impl FnOnce(&mut TcpConfig), lost: &'static [u64], first: bool) -> Path {
    let mut path = Path::new(config("linux-3.13", change), Span::from_ms(20));
    let fate = if first { Fate::LoseFirst } else { Fate::LoseLast };
    path.data = Box::new(move |n, _| if lost.contains(&n) { fate } else { Fate::Pass });
    path
}

fn classes(found: &Analysed) -> Vec<String> {
    found.texts("retransmissions", "class")
}

#[test]
fn the_place_of_the_capture_shows() {
    let told = path(|_| {}, &[], false).run(100_000, Span::from_secs(10));
    for (tap, expected) in TAPS {
        let found = told.analyzed(tap);
        assert_eq!(found.texts("flows", "vantage")[0], expected);
        assert_eq!(found.flow("retransmitted_packets"), 0);
        assert_eq!(found.flow("complete"), 1);
        assert_eq!(found.flow("mss_bytes"), 1448);
        assert_eq!((found.flow("payload_bytes"), found.flow("unique_bytes")), (100_000, 100_000));
        let (near, far) = (found.floats("flows", "rtt_near_min_ms")[0], found.floats("flows", "rtt_min_ms")[0]);
        assert!((near + far - 40.0).abs() < 2.0, "{near} and {far} ms");
    }
}

#[test]
fn a_fast_retransmission_is_one_from_everywhere() {
    for first in [false, true] {
        let told = path(|_| {}, &[12], first).run(100_000, Span::from_secs(10));
        assert_eq!((told.stats.fast_retransmits, told.stats.timeouts), (1, 0));
        for (tap, place) in TAPS {
            let found = told.analyzed(tap);
            assert_eq!(classes(&found), ["fast"], "{place}, lost before the middle: {first}");
            assert_eq!(found.numbers("retransmissions", "spurious"), [0]);
            assert_eq!(found.flow("out_of_order"), 0);
        }
    }
}

#[test]
fn duplicate_acks_in_hand_when_the_timer_fires() {
    // A flight of 10: the last is lost, and one before it that `after` others follow. (Receivers
    // differ in whether they SACK the FIN that rides on the last.)
    let mut seen = Vec::new();
    for after in 0..3u64 {
        let told = {
            let mut path = path(|c| c.loss_recovery.limited_transmit = false, &[], false);
            path.config = config("windows-10", |c| c.cwnd.initial = 10);
            path.data = Box::new(move |n, _| if n == 9 || n == 8 - after { Fate::LoseLast } else { Fate::Pass });
            path.run(10 * 1460, Span::from_secs(10))
        };
        assert_eq!(told.stats.timeouts, 1, "{after}: {:?}", told.retransmissions);
        // With an odd number before the loss, the last is acknowledged together with the first
        // report, which is then no duplicate.
        let in_hand = told.retransmissions[0].1.dup_acks;
        seen.push(in_hand);
        for (tap, place) in [TAPS[0], TAPS[1]] {
            let found = told.analyzed(tap);
            assert_eq!(classes(&found)[0], "timeout", "{place}, {after}");
            assert_eq!(found.numbers("timeouts", "dup_acks"), [u64::from(in_hand)], "{place}");
            assert_eq!(found.flow(&format!("timeouts_dup_{in_hand}")), 1);
            let rack = found.floats("timeouts", "rack_at_s")[0];
            assert_eq!(rack.is_nan(), after == 0, "{place}, {after}: {rack}");
            assert!(rack.is_nan() || rack < found.floats("timeouts", "time_s")[0]);
            assert_eq!(found.flow("avoided_rack"), u64::from(after > 0));
        }
    }
    assert_eq!(seen, [0, 0, 2]);
}

#[test]
fn what_was_only_late_is_spurious() {
    let mut path = path(|_| {}, &[], false);
    path.data = Box::new(|n, _| if n == 12 { Fate::Delay(Span::from_ms(60)) } else { Fate::Pass });
    let told = path.run(100_000, Span::from_secs(10));
    assert_eq!(told.stats.fast_retransmits, 1);
    let found = told.analyzed(Tap::Sender);
    assert_eq!(classes(&found)[0], "fast");
    assert_eq!(found.numbers("retransmissions", "spurious")[0], 1, "{:?}", found.texts("retransmissions", "reason"));
}

#[test]
fn what_was_overtaken_is_no_retransmission() {
    let mut path = path(|_| {}, &[], false);
    // A full packet takes 0.12 ms.
    path.rate = Some(DataRate::from_mbps(100));
    path.data = Box::new(|n, _| if n == 12 { Fate::Delay(Span::from_us(300)) } else { Fate::Pass });
    let told = path.run(100_000, Span::from_secs(10));
    assert_eq!(told.retransmissions, []);
    for (tap, place) in TAPS {
        let found = told.analyzed(tap);
        assert_eq!(found.flow("retransmitted_packets"), 0, "{place}");
        assert_eq!(found.flow("out_of_order"), u64::from(tap != Tap::Sender), "{place}");
    }
}

#[test]
fn what_the_capture_missed_is_counted() {
    let told = path(|_| {}, &[], false).run(100_000, Span::from_secs(10));
    let mut packets = told.taps[0].clone();
    let missed = packets.iter().enumerate().filter(|(_, (_, p))| p.len() > 1000).map(|(i, _)| i).nth(20).unwrap();
    packets.remove(missed);
    let found = analyse(pcap(&packets));
    assert_eq!(found.flow("lost_before_capture"), 1);
    assert_eq!(found.flow("retransmitted_packets"), 0);
}

#[test]
fn tail_loss_probes_show_at_every_place() {
    for first in [false, true] {
        // Flights of ten, twenty and so on: the last two segments are lost, the probe repeats the
        // last.
        let mut path = path(|_| {}, &[27, 28], first);
        path.config = config("linux-6", |_| {});
        let told = path.run(29 * 1448, Span::from_secs(10));
        let causes: Vec<_> = told.retransmissions.iter().map(|(_, r)| r.cause.name()).collect();
        assert_eq!(causes[0], "probe", "{:?}", told.retransmissions);
        let taps: &[_] = if first { &TAPS[..1] } else { &TAPS[..2] };
        for (tap, place) in taps {
            let found = told.analyzed(*tap);
            assert_eq!(classes(&found), causes, "{place}, {:?}", found.texts("retransmissions", "reason"));
            assert_eq!(found.flow("tail_loss_probes"), 1, "{place}");
        }
    }
}

#[test]
fn a_needless_timeout_is_spurious_wherever_it_is_seen() {
    // All ACKs of the last flight are lost.
    let mut path = path(|_| {}, &[], false);
    path.config = config("windows-10", |c| c.cwnd.initial = 10);
    path.acks = Box::new(|n, _| if (1..6).contains(&n) { Fate::LoseFirst } else { Fate::Pass });
    let told = path.run(10 * 1460, Span::from_secs(10));
    assert_eq!(told.stats.timeouts, 1);
    let found = told.analyzed(Tap::Receiver);
    assert_eq!(classes(&found)[0], "timeout");
    assert_eq!(found.numbers("retransmissions", "spurious")[0], 1);
    assert!(found.texts("retransmissions", "reason")[0].ends_with("acknowledged before it passed"));
}
