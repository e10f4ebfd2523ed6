//! WaveLAN: exact airtime, n stations against a simulation with nothing of the channel's code,
//! capture, conservation.

use super::*;
use crate::wifi::phy::{Backoff, WavelanConfig};

fn wavelan(config: WavelanConfig) -> RadioConfig {
    RadioConfig::of(PhyConfig { wavelan: Some(config), ..PhyConfig::of(Standard::Wavelan) })
}

/// As [`Rig::new`], with carrier sense and capture.
fn rig(stations: usize, radio: RadioConfig, sensing: Span, capture: f64, seed: u64) -> Rig {
    let mut rig = Rig::new(stations, radio.clone(), SignalConfig::default(), false, 1500);
    let (n, radio) = (stations as u16, Arc::new(radio));
    let pair = |s| PairConfig::fixed(s, n, SignalConfig::default());
    rig.channel = Channel::new(&ChannelConfig {
        radios: vec![radio; stations + 1],
        pairs: (0..n).map(pair).collect(),
        groups: Vec::new(),
        hidden: Vec::new(),
        sensing,
        capture_effect: Probability::new(capture).unwrap(),
        seed,
        index: 0,
        trace: TraceConfig { ppdus: true, frames: false },
    });
    rig
}

/// By hand: 14 + 1500 + 4 bytes at 2 Mbit/s are 6072 us.
const DATA_US: u64 = 6072;

#[test]
fn one_saturated_station_sends_at_the_rate_that_the_airtime_allows() {
    for (preamble_us, space_us, slot_us, cw_next) in [(96, 60, 23, 15), (0, 16, 16, 0), (192, 50, 20, 31)] {
        let us = Span::from_us;
        let config = WavelanConfig {
            preamble: us(preamble_us),
            interframe_space: us(space_us),
            slot: us(slot_us),
            cw_next,
            ..WavelanConfig::default()
        };
        let mut rig = rig(1, wavelan(config), us(16), 0.0, 1);
        rig.saturate(3, 60 * SECOND);
        let stats = rig.channel.stats(AirLinkId(0), Time::from_ns(rig.now));
        let gap_us = (space_us as f64) + f64::from(cw_next) / 2.0 * slot_us as f64;
        let cycle_us = gap_us + (preamble_us + DATA_US) as f64;
        let expected = 60e6 / cycle_us;
        let measured = stats.delivered_packets as f64;
        assert!((measured / expected - 1.0).abs() < 0.001, "{measured} against {expected} frames");
        assert_eq!((stats.ppdus, stats.ppdus_collided), (stats.delivered_packets, 0));
        let airtime_us = stats.ppdus * (preamble_us + DATA_US);
        assert_eq!(stats.airtime_ns, airtime_us * 1000, "nothing but data is on the air");
        for pair in rig.channel.mac.ppdus.windows(2) {
            let gap_ns = pair[1].start.since(pair[0].end).as_ns();
            let gap_us = gap_ns / 1000;
            assert_eq!(gap_ns % 1000, 0);
            assert_eq!((gap_us - space_us) % slot_us, 0);
            assert!((gap_us - space_us) / slot_us <= u64::from(cw_next));
        }
    }
}

#[test]
fn short_packets_are_padded_to_the_least_ethernet_frame() {
    let t = PhyConfig::of(Standard::Wavelan).timing();
    let framing = PhyConfig::of(Standard::Wavelan).framing(false);
    for (ip_bytes, frame_bytes, us) in
        [(1500, 1518, 6168), (40, 64, 352), (46, 64, 352), (47, 65, 356), (576, 594, 2472)]
    {
        assert_eq!(framing.mpdu_bytes(ip_bytes), frame_bytes);
        assert_eq!(
            t.ppdu(Mode::DSSS[1], frame_bytes).as_ns(),
            us * 1000,
            "96 us and 4 us for each of {frame_bytes} bytes"
        );
    }
}

#[test]
fn a_frame_leaves_at_once_if_the_medium_has_been_idle_long_enough() {
    let mut rig = rig(2, wavelan(WavelanConfig::default()), Span::from_us(16), 0.0, 1);
    rig.now = 10 * MS;
    rig.send(0);
    assert_eq!(rig.channel.deadline().as_ns(), 10 * MS);
    rig.saturate(0, 10 * MS + 1);
    // The other finds the medium busy: it waits for the end, 60 us and up to 31 slots of 23 us.
    rig.now = 12 * MS;
    rig.send(2);
    rig.saturate(0, 100 * MS);
    let starts: Vec<u64> = rig.channel.mac.ppdus.iter().map(|p| p.start.as_ns()).collect();
    let end = 10 * MS + 6_168_000;
    assert_eq!(starts[0], 10 * MS);
    let slots = (starts[1] - end - 60_000) / 23_000;
    assert_eq!((starts[1] - end - 60_000) % 23_000, 0);
    assert!(slots <= 31, "{slots}");
    assert_eq!(rig.delivered, [vec![0], vec![], vec![0], vec![]]);
}

/// Transmissions of n saturated stations: sent, collided, given up, received, and the time. The
/// model follows the description of the medium access alone, slot by slot; times are in ns.
fn by_hand(n: usize, w: &WavelanConfig, sensing: u64, frames: u64) -> (u64, u64, u64, u64, u64) {
    #[derive(Clone)]
    struct Station {
        /// When its wait is over.
        at: u64,
        range: u32,
        busy: u32,
    }
    let mut rng = stream(99, n as u64, Purpose::Backoff);
    let (slot, space) = (w.slot.as_ns(), w.interframe_space.as_ns());
    let length = w.preamble.as_ns() + DATA_US * 1000;
    // All begin at once, as in a cell where all packets come at the start.
    let mut stations = vec![Station { at: space, range: 0, busy: 0 }; n];
    let (mut sent, mut collided, mut given_up, mut received, mut now) = (0, 0, 0, 0, 0);
    while sent < frames {
        let first = stations.iter().map(|s| s.at).min().unwrap();
        let senders: Vec<usize> = (0..n).filter(|&i| stations[i].at <= first + sensing).collect();
        sent += senders.len() as u64;
        if senders.len() > 1 {
            collided += senders.len() as u64
        } else {
            received += 1
        }
        let last = senders.iter().map(|&i| stations[i].at).max().unwrap();
        let end = last + length;
        for (i, s) in stations.iter_mut().enumerate() {
            let own_end = s.at + length;
            if senders.contains(&i) {
                // Its next frame: the medium is free for it unless another still sends.
                let range = if own_end < end { w.cw_min } else { w.cw_next };
                *s = Station { at: 0, range, busy: u32::from(own_end < end) };
                if w.backoff == Backoff::Freeze {
                    s.busy = 0;
                }
                s.at = end + space + u64::from(rng.random_range(0..=range)) * slot;
                continue;
            }
            match w.backoff {
                Backoff::Resense => {
                    if s.at >= end {
                        s.at = s.at.max(end + space);
                        continue;
                    }
                    s.range = if s.busy == 0 { w.cw_min } else { (2 * s.range + 1).min(w.cw_max) };
                    s.busy += 1;
                    if w.attempts > 0 && s.busy >= u32::from(w.attempts) {
                        given_up += 1;
                        *s = Station { at: 0, range: w.cw_next, busy: 0 };
                    }
                    s.at = end + space + u64::from(rng.random_range(0..=s.range)) * slot;
                }
                Backoff::Freeze => {
                    // Slots that were idle to their end are counted; they began at the same time
                    // for all.
                    let left = (s.at - first).div_ceil(slot);
                    s.at = end + space + left * slot;
                }
            }
        }
        now = end;
    }
    (sent, collided, given_up, received, now)
}

#[test]
fn n_saturated_stations_against_a_simulation_by_hand() {
    let published = WavelanConfig::default();
    let cases = [
        ("as published", published.clone(), 16),
        ("no detection within a slot", published.clone(), 40),
        ("never dropped", WavelanConfig { attempts: 0, ..published.clone() }, 0),
        ("fixed window", WavelanConfig { cw_min: 15, cw_max: 15, ..published.clone() }, 16),
        ("dropped at the third", WavelanConfig { attempts: 3, ..published.clone() }, 16),
        ("frozen", WavelanConfig { backoff: Backoff::Freeze, ..published.clone() }, 16),
        ("frozen, the same window for all", WavelanConfig { backoff: Backoff::Freeze, cw_next: 31, ..published }, 0),
    ];
    for (what, config, sensing_us) in cases {
        for n in [2, 3, 5, 8] {
            let mut rig = rig(n, wavelan(config.clone()), Span::from_us(sensing_us), 0.0, 3);
            rig.saturate(3, 400 * SECOND);
            let sum = |f: &dyn Fn(&AirStats) -> u64| -> f64 {
                (0..n as u32).map(|s| f(&rig.channel.stats(AirLinkId(2 * s), Time::from_ns(rig.now)))).sum::<u64>()
                    as f64
            };
            let (sent, lost) = (sum(&|s| s.ppdus), sum(&|s| s.lost_collision));
            let (given_up, delivered) = (sum(&|s| s.dropped_retries), sum(&|s| s.delivered_packets));
            assert_eq!(sent, lost + delivered);
            let (hand_sent, hand_collided, hand_up, hand_received, ns) =
                by_hand(n, &config, sensing_us * 1000, 400_000);
            let hand = |x: u64| x as f64 / hand_sent as f64;
            let rate = hand_received as f64 * 1e9 / ns as f64;
            println!(
                "{what}, {n}: lost {:.4} ({:.4} by hand), given up {:.4} ({:.4}), {:.1} frames/s ({rate:.1})",
                lost / sent,
                hand(hand_collided),
                given_up / sent,
                hand(hand_up),
                delivered / 400.0
            );
            // Short-term monopolies make the samples dependent: a generous multiple of the
            // binomial's error.
            let close = |found: f64, expected: f64| {
                let error = (expected.max(1e-3) / sent).sqrt();
                assert!((found - expected).abs() < 8.0 * error, "{what}, {n}: {found} against {expected} ± {error}");
            };
            close(lost / sent, hand(hand_collided));
            close(given_up / sent, hand(hand_up));
            assert!((delivered / 400.0 / rate - 1.0).abs() < 0.01, "{what}, {n}: {delivered} against {rate}");
        }
    }
}

/// Two stations that begin at the same time, again and again: what is received of both, of one, of
/// none.
#[test]
fn capture_lets_one_of_two_frames_through_as_often_as_it_says() {
    let always_collide = WavelanConfig { cw_min: 0, cw_max: 0, cw_next: 0, ..WavelanConfig::default() };
    for capture in [0.0, 0.3, 1.0] {
        let mut rig = rig(2, wavelan(always_collide.clone()), Span::from_us(16), capture, 1);
        // The first is alone: the second finds the medium busy, and from then on both wait the same
        // time.
        rig.saturate(3, 120 * SECOND);
        let [a, b] = [0, 2].map(|link| rig.channel.stats(AirLinkId(link), Time::from_ns(rig.now)));
        let met = a.ppdus.min(b.ppdus) as f64;
        let through = (a.delivered_packets + b.delivered_packets) as f64;
        let tolerance = 4.0 * (capture * (1.0 - capture) * met).sqrt() + 2.0;
        assert!((through - capture * met).abs() <= tolerance, "{capture}: {through} of {met}");
        let half = a.delivered_packets as f64 - through / 2.0;
        assert!(half.abs() <= 2.0 * through.sqrt() + 2.0, "{capture}: either is the stronger as often as the other");
        assert_eq!(a.lost_collision + b.lost_collision, a.ppdus + b.ppdus - through as u64);
    }
}

/// Stations that do not hear each other meet at any time: a frame is captured from one that came
/// before it only within the preamble of that one, but stands against one that comes later.
#[test]
fn a_frame_that_comes_late_is_not_captured_but_may_be_withstood() {
    let mut withstood = 0;
    for seed in 0..200 {
        let radio = Arc::new(wavelan(WavelanConfig::default()));
        let pair = |s| PairConfig::fixed(s, 2, SignalConfig::default());
        let mut rig = rig(2, wavelan(WavelanConfig::default()), Span::ZERO, 0.0, seed);
        rig.channel = Channel::new(&ChannelConfig {
            radios: vec![radio; 3],
            pairs: (0..2).map(pair).collect(),
            groups: Vec::new(),
            hidden: ids(vec![(0, 1)]),
            sensing: Span::ZERO,
            capture_effect: Probability::ONE,
            seed,
            index: 0,
            trace: TraceConfig::default(),
        });
        rig.now = MS;
        rig.send(0);
        rig.saturate(0, MS + 97_000);
        rig.now = MS + 97_000;
        rig.send(2);
        rig.saturate(0, SECOND);
        assert!(rig.delivered[2].is_empty(), "it began when the preamble was over");
        withstood += rig.delivered[0].len();
    }
    // Half of 200, four standard deviations.
    assert!((72..=128).contains(&withstood), "{withstood}");
}

#[test]
fn an_access_point_cannot_capture_while_it_sends() {
    let config = WavelanConfig { cw_min: 0, cw_max: 0, cw_next: 0, ..WavelanConfig::default() };
    let mut rig = rig(1, wavelan(config), Span::from_us(16), 1.0, 1);
    for _ in 0..20 {
        rig.send(0);
        rig.send(1);
    }
    rig.saturate(0, SECOND);
    // Both are due at the same times, from the first frame to the last.
    assert_eq!((rig.delivered[0].len(), rig.delivered[1].len()), (0, 0));
    assert_eq!([0, 1].map(|link| rig.channel.stats(AirLinkId(link), Time::from_ns(rig.now)).lost_collision), [20, 20]);
}

/// Frames with errors are lost, and counted as such; the expected share from the bit error rate.
#[test]
fn frames_with_bit_errors_are_lost_at_once() {
    let radio = Arc::new(wavelan(WavelanConfig::default()));
    let mut rig = rig(1, wavelan(WavelanConfig::default()), Span::from_us(16), 0.0, 1);
    let signal: SignalConfig = toml::from_str::<std::collections::BTreeMap<String, SignalConfig>>(
        "signal = { kind = \"bit_errors\", rate = 1e-5 }",
    )
    .unwrap()
    .remove("signal")
    .unwrap();
    rig.channel = Channel::new(&ChannelConfig {
        radios: vec![radio; 2],
        pairs: vec![PairConfig::fixed(0, 1, signal)],
        groups: Vec::new(),
        hidden: Vec::new(),
        sensing: Span::from_us(16),
        capture_effect: Probability::ZERO,
        seed: 5,
        index: 0,
        trace: TraceConfig::default(),
    });
    rig.saturate(3, 100 * SECOND);
    let s = rig.channel.stats(AirLinkId(0), Time::from_ns(rig.now));
    let lost = s.lost_errors as f64 / s.ppdus as f64;
    let expected = 1.0 - (1.0 - 1e-5f64).powi(8 * 1518);
    assert!((lost - expected).abs() < 4.0 * (expected / s.ppdus as f64).sqrt(), "{lost} against {expected}");
    assert_eq!(s.ppdus, s.delivered_packets + s.lost_errors);
    assert_eq!((s.mpdus_failed, s.ppdus_unanswered), (s.lost_errors, s.lost_errors));
}

#[test]
fn an_802_11_radio_without_acknowledgements_sends_once_and_counts_on() {
    let mut config = radio(Standard::B, FixedConfig::default());
    config.ack = Some(false);
    config.check().unwrap();
    let t = config.phy.timing();
    let mode = Mode::DSSS[3];
    let mut rig = Rig::new(1, config, SignalConfig::default(), false, 1500);
    rig.saturate(3, 20 * SECOND);
    let s = rig.channel.stats(AirLinkId(0), Time::from_ns(rig.now));
    let data_ns = t.ppdu(mode, timing::mpdu_bytes(1500, false)).as_ns();
    // DIFS, a mean of 15.5 slots, the data, and nothing after it.
    let expected = 20e9 / (t.difs().as_ns() as f64 + 15.5 * t.slot.as_ns() as f64 + data_ns as f64);
    assert!((s.delivered_packets as f64 / expected - 1.0).abs() < 0.005, "{} against {expected}", s.delivered_packets);
    assert_eq!(s.airtime_ns, s.ppdus * data_ns);
    assert_eq!((s.ppdus, s.ppdus_unanswered), (s.delivered_packets, 0));
}
