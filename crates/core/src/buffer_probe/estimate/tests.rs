use proptest::prelude::*;
use rand::RngExt;

use super::{estimate as estimate_all, *};
use crate::rng::Stream;

/// An access point reduced to what matters: places, and a server that takes up to `batch` packets
/// at a time, for `access` (and up to `jitter` more), `each` per packet and `response` until their
/// places are free; the receiver has them before the response.
#[derive(Debug, Clone)]
struct Model {
    places: u32,
    batch: usize,
    access_us: u64,
    jitter_us: u64,
    each_us: u64,
    response_us: u64,
    /// The first frame takes this much longer.
    first_us: u64,
    /// Packets out of 1000 that are lost on the air after having taken their time.
    lost_permille: u32,
    /// Receiver's clock at the instant when a datagram sent at zero could arrive at the access
    /// point.
    offset_us: u64,
    seed: u64,
}

const G: Model = Model {
    places: 0,
    batch: 1,
    access_us: 34,
    jitter_us: 135,
    each_us: 248,
    response_us: 44,
    first_us: 0,
    lost_permille: 0,
    offset_us: 77_000,
    seed: 1,
};

const N: Model = Model { batch: 42, each_us: 190, response_us: 50, ..G };

impl Model {
    /// Log of datagrams that are sent `gap_ns` apart: send time, and arrival unless lost.
    fn run(&self, count: u32, gap_ns: u64) -> Vec<(Time, Option<Time>)> {
        let mut rng = Stream::of_test(self.seed).open();
        let us = |us: u64| us * 1000;
        let came: Vec<u64> = (0..u64::from(count)).map(|n| us(self.offset_us) + n * gap_ns).collect();
        let mut log: Vec<(Time, Option<Time>)> =
            (0..u64::from(count)).map(|n| (Time::from_ns(n * gap_ns), None)).collect();
        let (mut waiting, mut in_air) = (std::collections::VecDeque::new(), 0u32);
        let mut next = 0;
        // When the server is free again, and the places of what is in the air with it.
        let mut busy_until = None;
        loop {
            let now = match (came.get(next), busy_until) {
                (Some(&arrival), None) => arrival,
                (Some(&arrival), Some(end)) if arrival < end => arrival,
                (_, Some(end)) => end,
                (None, None) => return log,
            };
            if busy_until == Some(now) {
                (busy_until, in_air) = (None, 0);
            } else {
                if waiting.len() as u32 + in_air < self.places {
                    waiting.push_back(next);
                }
                next += 1;
            }
            if busy_until.is_none() && !waiting.is_empty() {
                let n = self.batch.min(waiting.len());
                let first = if waiting[0] == 0 { self.first_us } else { 0 };
                let access = self.access_us + rng.random_range(0..=self.jitter_us);
                let end = now + us(access + first + self.each_us * n as u64);
                for number in waiting.drain(..n) {
                    if rng.random_range(0..1000) >= self.lost_permille {
                        log[number].1 = Some(Time::from_ns(end));
                    }
                }
                (in_air, busy_until) = (n as u32, Some(end + us(self.response_us)));
            }
        }
    }

    fn estimate(&self, count: u32, gap_ns: u64) -> Estimate {
        let datagrams = self.run(count, gap_ns);
        estimate(&EstimatorConfig::default(), &RunLog { datagrams: &datagrams, packet_bytes: 1500 })
    }
}

fn estimate(config: &EstimatorConfig, log: &RunLog) -> Estimate {
    estimate_all(config, &[*log])[0]
}

fn datagrams(fates: &str) -> Vec<(Time, Option<Time>)> {
    let ms = |n: usize| Time::ZERO + Span::from_ms(n as u64);
    fates.bytes().enumerate().map(|(n, b)| (ms(n), (b == b'x').then(|| ms(5 + n)))).collect()
}

#[test]
fn the_raw_estimate_is_the_number_before_the_first_gap() {
    for (fates, first_gap, onset) in [
        ("xxxx", None, None),
        ("xx.x", Some(2), None),
        ("....", Some(0), Some(0)),
        ("xxx.x.x.", Some(3), Some(3)),
        // One lost alone, then an overflow.
        (&format!("xx.{}x..x.x.", "x".repeat(70)), Some(2), Some(74)),
        // The two before it belong to what follows within 64 datagrams.
        ("xx.xxxxx.xxx.", Some(2), Some(2)),
    ] {
        let datagrams = datagrams(fates);
        let e = estimate(&EstimatorConfig::default(), &RunLog { datagrams: &datagrams, packet_bytes: 1500 });
        assert_eq!((e.first_gap, e.onset), (first_gap, onset), "{fates}");
        assert_eq!(e.sent as usize, fates.len());
        assert_eq!(e.received as usize, fates.bytes().filter(|&b| b == b'x').count());
    }
}

/// The buffers of the study, wires of 100 Mbit/s and 1 Gbit/s.
#[test]
fn the_published_buffers_are_found() {
    for places in [135, 266, 284, 567] {
        for (name, model) in [("g", &G), ("n", &N)] {
            for gap_ns in [123_000, 12_300] {
                let e = Model { places, ..model.clone() }.estimate(2000, gap_ns);
                let corrected = e.corrected.unwrap();
                assert!(corrected.abs_diff(places) <= 2, "{name}, gap {gap_ns} ns: {places} places, {e:?}");
                assert!(e.first_gap >= Some(places), "{e:?}");
            }
        }
    }
}

/// Constant rates: B / (r - 1) packets leave while the buffer fills.
#[test]
fn the_raw_estimate_is_too_large_by_what_leaves_meanwhile() {
    for ratio in [2u64, 3, 5, 10, 30] {
        let model = Model { places: 200, jitter_us: 0, ..G };
        let service_ns = 1000 * (model.access_us + model.each_us + model.response_us);
        let e = model.estimate(1000, service_ns / ratio);
        let expected = 200.0 * ratio as f64 / (ratio - 1) as f64;
        let raw = f64::from(e.first_gap.unwrap());
        assert!((raw - expected).abs() <= 2.0, "ratio {ratio}: {raw}, expected {expected}");
        assert!(e.corrected.unwrap().abs_diff(200) <= 2, "ratio {ratio}: {e:?}");
        assert_eq!(e.drained, Some(e.onset.unwrap() - e.corrected.unwrap()));
    }
}

#[test]
fn a_train_that_never_overflows_gives_a_lower_bound() {
    let e = Model { places: 5000, ..G }.estimate(1000, 123_000);
    assert_eq!((e.first_gap, e.onset, e.corrected), (None, None, None));
    // 1000 arrive in 123 ms; some 310 leave meanwhile.
    assert!((660..720).contains(&e.at_least), "{e:?}");
}

#[test]
fn losses_on_the_air_are_told_from_overflow() {
    let mut found_early = false;
    for seed in 0..20 {
        let e = Model { places: 284, lost_permille: 5, seed, ..G }.estimate(1000, 123_000);
        assert!(e.corrected.unwrap().abs_diff(284) <= 2, "{e:?}");
        assert!(e.onset >= Some(284), "{e:?}");
        found_early |= e.first_gap < Some(250);
    }
    assert!(found_early, "the case is not there");
}

#[test]
fn a_line_slower_than_the_gap_must_be_named() {
    // Sent at once, and spread by the line to 120 us apart.
    let model = Model { places: 150, ..G };
    let mut datagrams = model.run(1000, 120_000);
    datagrams.iter_mut().for_each(|d| d.0 = Time::ZERO);
    let read = |line_rate| {
        let config = EstimatorConfig { line_rate, ..EstimatorConfig::default() };
        estimate(&config, &RunLog { datagrams: &datagrams, packet_bytes: 1500 }).corrected.unwrap()
    };
    assert!(read(Some(DataRate::from_mbps(100))).abs_diff(150) <= 2);
    assert!(read(None).abs_diff(150) > 10);
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    let model = Model { places: 266, ..N };
    let plain = model.run(1000, 123_000);
    let mut mixed = plain.clone();
    // Within an aggregate the receiver may see any order: exchange arrival times of neighbours.
    for n in (0..999).step_by(7) {
        if mixed[n].1.is_some() && mixed[n + 1].1.is_some() {
            (mixed[n].1, mixed[n + 1].1) = (mixed[n + 1].1, mixed[n].1);
        }
    }
    let read = |d: &[(Time, Option<Time>)]| {
        estimate(&EstimatorConfig::default(), &RunLog { datagrams: d, packet_bytes: 1500 })
    };
    assert!(read(&mixed).corrected.unwrap().abs_diff(266) <= 2);
}

/// The first datagram of one train goes at a low rate, say, while rate control has no experience:
/// alone, it makes believe that the datagrams came so much later, when more had left.
#[test]
fn other_trains_know_that_the_first_datagram_was_slow() {
    for model in [G, N] {
        let slow = Model { places: 266, first_us: 4000, ..model.clone() }.run(2000, 123_000);
        let mut good = Model { places: 266, seed: 2, ..model }.run(2000, 123_000);
        let later = Span::from_secs(2);
        good.iter_mut().for_each(|d| *d = (d.0 + later, d.1.map(|at| at + later)));
        let logs = [&slow, &good].map(|datagrams| RunLog { datagrams, packet_bytes: 1500 });
        let found: Vec<u32> =
            estimate_all(&EstimatorConfig::default(), &logs).iter().map(|e| e.corrected.unwrap()).collect();
        assert!(found.iter().all(|n| n.abs_diff(266) <= 2), "{found:?}");
        let alone = estimate(&EstimatorConfig::default(), &logs[0]).corrected.unwrap();
        assert!(alone < 264, "the case is not there: {alone}");
    }
}

#[test]
fn nothing_arrived() {
    let e = estimate(&EstimatorConfig::default(), &RunLog { datagrams: &datagrams("....."), packet_bytes: 1500 });
    assert_eq!((e.received, e.first_gap, e.corrected, e.at_least), (0, Some(0), None, 0));
    let e = estimate(&EstimatorConfig::default(), &RunLog { datagrams: &[], packet_bytes: 1500 });
    assert_eq!((e.sent, e.first_gap, e.corrected), (0, None, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_buffer_is_found_to_within_two_packets(
        places in 20..700u32,
        batch in prop_oneof![Just(1usize), 2..64usize],
        each_us in 40..400u64,
        jitter_us in 0..300u64,
        ratio_percent in 160..3000u64,
        offset_us in 0..5_000_000u64,
        seed: u64,
    ) {
        prop_assume!(batch as u32 * 2 <= places);
        let model = Model { places, batch, each_us, jitter_us, offset_us, seed, ..G };
        let mean_ns = 1000 * (each_us + (34 + 44 + jitter_us / 2) / batch as u64);
        let count = places * 3 + 1000;
        let e = model.estimate(count, mean_ns * 100 / ratio_percent);
        prop_assert!(e.corrected.is_some(), "{:?}", e);
        prop_assert!(e.corrected.unwrap().abs_diff(places) <= 2, "{:?}", e);
        prop_assert!(e.first_gap >= Some(places));
    }
}
