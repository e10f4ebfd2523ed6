//! Behaviour of a channel that the standard, a driver's rules or a published result requires.

use super::*;
use crate::wifi::config::{OnGiveUp, OnMissed, RetryCount};
use crate::wifi::phy::{ErrorRateConfig, SnrConfig};
use crate::wifi::transmit::mac80211::Driver;

fn errors(rate: f64) -> SignalConfig {
    SignalConfig::ErrorRate(ErrorRateConfig { rate: Some(Probability::new(rate).unwrap()), rates: None, bytes: 1538 })
}

fn rate(rate: &str) -> FixedConfig {
    FixedConfig { rate: Some(rate.parse().unwrap()), ..FixedConfig::default() }
}

fn mcs(mcs: u8) -> FixedConfig {
    FixedConfig { mcs: Some(mcs), ..FixedConfig::default() }
}

impl Rig {
    /// Stations of their own settings, the access point last.
    pub(super) fn of(
        radios: Vec<RadioConfig>,
        signals: Vec<SignalConfig>,
        hidden: Vec<(u16, u16)>,
        trace: TraceConfig,
    ) -> Rig {
        let n = signals.len() as u16;
        let pairs = signals.into_iter().zip(0..).map(|(signal, s)| PairConfig::fixed(s, n, signal));
        let config = ChannelConfig {
            radios: radios.into_iter().map(Arc::new).collect(),
            pairs: pairs.collect(),
            groups: Vec::new(),
            hidden: ids(hidden),
            sensing: Span::ZERO,
            capture_effect: Probability::ZERO,
            seed: 5,
            index: 0,
            trace,
        };
        let links = 2 * usize::from(n);
        Rig {
            channel: Channel::new(&config),
            pool: Pool::default(),
            out: AirOutputs::default(),
            now: 0,
            numbers: vec![0; links],
            delivered: vec![Vec::new(); links],
            bytes: 1500,
        }
    }

    pub(super) fn send_as(&mut self, link: u32, ac: Ac) {
        let mut p = Packet::new(FlowId(link), Kind::Udp, 0);
        p.size = self.bytes;
        p.seq = crate::units::Seq32(self.numbers[link as usize]);
        self.numbers[link as usize] += 1;
        let id = self.pool.insert(p);
        self.channel.enqueue(Time::from_ns(self.now), AirLinkId(link), id, ac, false, &mut self.pool, &mut self.out);
        self.take();
    }

    /// These links have always `waiting` packets.
    fn saturate_links(&mut self, links: &[u32], waiting: u64, until: u64) {
        loop {
            for &l in links {
                while self.channel.stats(AirLinkId(l), Time::from_ns(self.now)).held_packets < waiting {
                    self.send(l);
                }
            }
            let at = self.channel.deadline().as_ns();
            if at > until {
                return;
            }
            self.now = at;
            self.channel.on_deadline(Time::from_ns(at), &mut self.pool, &mut self.out);
            self.take();
        }
    }

    pub(super) fn drain(&mut self) {
        while self.channel.deadline() < NEVER {
            self.now = self.channel.deadline().as_ns();
            self.channel.on_deadline(Time::from_ns(self.now), &mut self.pool, &mut self.out);
            self.take();
        }
    }

    fn stats(&self, link: u32) -> AirStats {
        self.channel.stats(AirLinkId(link), Time::from_ns(self.now))
    }

    fn mbit(&self, link: u32) -> f64 {
        self.stats(link).delivered_bytes as f64 * 8e3 / self.now as f64
    }
}

pub(super) const PPDUS: TraceConfig = TraceConfig { ppdus: true, frames: false };

fn airtime_share(rig: &Rig, link: u32) -> f64 {
    rig.stats(link).airtime_ns as f64 / rig.now as f64
}

// [IEEE80211-10.12.2-1] [IEEE80211-10.13-1]
#[test]
fn every_limit_of_an_ampdu_binds_exactly() {
    let subframe = timing::subframe_bytes(timing::mpdu_bytes(1500, true));
    for (mcs_index, aggregation) in [
        (7, Aggregation { max_frames: 5, ..Aggregation::default() }),
        (7, Aggregation { max_bytes: Some(7 * subframe), ..Aggregation::default() }),
        (7, Aggregation { max_bytes: Some(7 * subframe - 1), ..Aggregation::default() }),
        (7, Aggregation { window: 9, ..Aggregation::default() }),
        (0, Aggregation::default()),
        (4, Aggregation { max_duration: Span::from_us(1_000), ..Aggregation::default() }),
        (7, Aggregation { max_frames: 64, max_duration: Span::from_ms(50), ..Aggregation::default() }),
        (0, Aggregation { max_frames: 64, max_duration: Span::from_ms(50), ..Aggregation::default() }),
    ] {
        let mut config = radio(Standard::N, mcs(mcs_index));
        // One A-MPDU at a time, so that the window is all its own.
        config.aggregation = Aggregation { formed_ahead: Some(1), ..aggregation };
        let (t, mode) = (config.phy.timing(), config.phy.mode_of_mcs(mcs_index).unwrap());
        let a = config.aggregation.clone();
        let mut rig = Rig::of(vec![config.clone(), config], vec![SignalConfig::default()], vec![], PPDUS);
        rig.saturate_links(&[0], 200, 200 * MS);
        let longest = a.max_duration.min(timing::PPDU_MAX);
        let expected = (1u32..=64)
            .take_while(|&n| {
                n <= u32::from(a.max_frames.min(a.window))
                    && n * subframe <= a.most_bytes(mode.format())
                    && t.ppdu(mode, n * subframe) <= longest
            })
            .last()
            .unwrap();
        let most = rig.channel.mac.ppdus.iter().map(|p| p.mpdus).max().unwrap();
        assert_eq!(u32::from(most), expected, "MCS {mcs_index}, {a:?}");
    }
}

/// Two formed ahead share a Block Ack window of 64, so each has 32; a chip that forms one at a time
/// fills it. In 802.11n 65535 bytes are 42 packets.
#[test]
fn a_chip_that_forms_one_a_mpdu_at_a_time_fills_the_window() {
    for (driver, standard, expected) in
        [(Driver::Ath9k, Standard::Ac, 32), (Driver::Mt76, Standard::Ac, 64), (Driver::Mt76, Standard::N, 42)]
    {
        let mut config = radio(standard, mcs(7));
        config.phy.width_mhz = if standard == Standard::Ac { 80 } else { 40 };
        config.aggregation =
            Aggregation { max_frames: 64, max_duration: Span::from_us(5_484), ..Aggregation::default() };
        config.transmit = TransmitConfig::Mac80211(Mac80211Config { driver, ..Mac80211Config::default() });
        let mut rig = Rig::of(vec![config.clone(), config], vec![SignalConfig::default()], vec![], PPDUS);
        rig.saturate_links(&[0], 400, 500 * MS);
        let ppdus = &rig.channel.mac.ppdus[2..];
        let mean = ppdus.iter().map(|p| f64::from(p.mpdus)).sum::<f64>() / ppdus.len() as f64;
        assert!((mean - f64::from(expected)).abs() < 0.5, "{driver:?}, {standard:?}: {mean}");
    }
}

/// 802.11ac knows no other PSDU (clause 10.12.7): a delimiter goes before a frame that is alone,
/// and an ACK answers it.
// [IEEE80211-10.12.7-1]
#[test]
fn a_vht_frame_alone_goes_in_an_ampdu() {
    for (standard, delimiter) in [(Standard::N, 0), (Standard::Ac, timing::DELIMITER_BYTES)] {
        let mut config = radio(standard, mcs(7));
        config.aggregation.max_frames = 1;
        let mut rig = Rig::of(vec![config.clone(), config], vec![SignalConfig::default()], vec![], PPDUS);
        rig.send_as(0, Ac::Be);
        rig.drain();
        let [ppdu] = &rig.channel.mac.ppdus[..] else { panic!("one frame") };
        assert_eq!((ppdu.mpdus, ppdu.psdu_bytes), (1, timing::mpdu_bytes(1500, true) + delimiter));
    }
}

// [IEEE80211-10.3.4.4-1] [IEEE80211-10.25.6.3-1]
#[test]
fn how_often_a_lost_mpdu_is_sent_follows_the_drivers_rule() {
    use RetryCount::{Handings, Transmissions};
    // 13 each time: given up when the limit is behind it.
    for (software, counts, hardware_tries, transmissions) in [
        (10, Handings, 13, 11 * 13),
        (30, Handings, 1, 31),
        (30, Transmissions, 1, 31),
        (30, Transmissions, 13, 4 * 13),
        (10, Transmissions, 4, 4 * 4),
    ] {
        let mut config = radio(Standard::N, mcs(7));
        config.retries = Retries { software, counts, hardware_tries, ..Retries::default() };
        let mut rig = Rig::of(vec![config.clone(), config], vec![errors(1.0)], vec![], PPDUS);
        rig.send(0);
        rig.drain();
        let s = rig.stats(0);
        assert_eq!((s.ppdus, s.dropped_retries), (transmissions, 1), "{software} {counts:?}, {hardware_tries} tries");
    }
    for frame_tries in [1, 4, 7] {
        let mut config = radio(Standard::G, rate("54Mbit/s"));
        config.retries.frame_tries = frame_tries;
        let mut rig = Rig::of(vec![config.clone(), config], vec![errors(1.0)], vec![], PPDUS);
        rig.send(0);
        rig.drain();
        let s = rig.stats(0);
        assert_eq!((s.ppdus, s.dropped_retries), (u64::from(frame_tries), 1));
    }
}

/// A rate series that is shorter than the radio's own limit ends a PPDU's repeats earlier.
#[test]
fn a_short_series_ends_the_repeats() {
    let mut config = radio(Standard::N, FixedConfig { tries: 3, ..mcs(7) });
    config.retries = Retries { software: 2, counts: RetryCount::Handings, ..Retries::default() };
    let mut rig = Rig::of(vec![config.clone(), config], vec![errors(1.0)], vec![], PPDUS);
    rig.send(0);
    rig.drain();
    assert_eq!(rig.stats(0).ppdus, 9);
    assert_eq!(rig.channel.mac.ppdus.iter().filter(|p| p.mpdus > 0).map(|p| p.repeat).max(), Some(2));
}

// [IEEE80211-10.25.6.6.3-1] [IEEE80211-10.25.6.7-2]
#[test]
fn a_bar_fills_the_hole_and_silence_leaves_it_to_the_timeout() {
    let run = |on_give_up| {
        let mut config = radio(Standard::N, mcs(7));
        config.retries = Retries { software: 1, hardware_tries: 1, on_give_up, ..Retries::default() };
        config.aggregation.max_frames = 8;
        let mut rig = Rig::of(vec![config.clone(), config], vec![errors(0.5)], vec![], PPDUS);
        // Bursts that end, so that no later MPDU moves the window.
        for _ in 0..100 {
            for _ in 0..8 {
                rig.send(0);
            }
            rig.drain();
        }
        rig
    };
    let (bar, silence) = (run(OnGiveUp::Bar), run(OnGiveUp::Silence));
    assert!(bar.stats(0).dropped_retries > 50 && silence.stats(0).dropped_retries > 50);
    assert!(bar.stats(0).bars > 30);
    assert_eq!(silence.stats(0).bars, 0);
    // A BAR can be lost, but hardly seven times.
    assert!(bar.stats(0).reorder_timeouts <= 1, "{}", bar.stats(0).reorder_timeouts);
    assert!(silence.stats(0).reorder_timeouts > 20);
    let unanswered = bar.channel.mac.ppdus.iter().filter(|p| p.mpdus == 0 && !p.answered).count();
    println!("{unanswered} of {} BARs unanswered", bar.stats(0).bars);
    let repeats = bar.channel.mac.ppdus.iter().filter(|p| p.mpdus == 0).map(|p| p.repeat).max();
    assert!(repeats < Some(7));
}

// [IEEE80211-10.25.6.7-2]
#[test]
fn when_every_bar_is_lost_the_recipients_timeout_remains() {
    let mut config = radio(Standard::N, mcs(7));
    config.retries = Retries { software: 1, hardware_tries: 1, frame_tries: 1, ..Retries::default() };
    // Half of all frames of 40 bytes are lost. A BAR has 24 bytes, its answer 32, an MPDU here 78.
    let signal =
        SignalConfig::ErrorRate(ErrorRateConfig { rate: Some(Probability::new(0.5).unwrap()), rates: None, bytes: 40 });
    let mut rig = Rig::of(vec![config.clone(), config], vec![signal], vec![], PPDUS);
    rig.bytes = 40;
    for _ in 0..200 {
        for _ in 0..8 {
            rig.send(0);
        }
        rig.drain();
    }
    let s = rig.stats(0);
    assert_eq!(s.delivered_packets + s.dropped_retries + s.dropped_late, 1600);
    let lost = rig.channel.mac.ppdus.iter().filter(|p| p.mpdus == 0 && p.received == 0 && !p.answered).count();
    println!("{} BARs, {lost} unanswered, {} timeouts", s.bars, s.reorder_timeouts);
    assert!(s.dropped_retries > 100 && s.bars > 100 && lost > 30, "{s:?}");
    assert!(s.reorder_timeouts > 10);
}

/// A station without Block Ack beside one with it (clause 10.25.2: an agreement is between two
/// stations).
// [IEEE80211-10.25.2-1]
#[test]
fn frames_to_a_station_without_block_ack_go_one_by_one() {
    let mut n = radio(Standard::N, mcs(7));
    n.phy.band = Some(crate::wifi::phy::Band::Ghz2);
    n.rate_control = None;
    let g = radio(Standard::G, rate("54Mbit/s"));
    let perfect = SignalConfig::default();
    let mut rig = Rig::of(vec![n.clone(), g, n], vec![perfect.clone(), perfect], vec![], PPDUS);
    for _ in 0..300 {
        for link in 0..4 {
            rig.send(link);
        }
    }
    rig.drain();
    for p in &rig.channel.mac.ppdus {
        let is_legacy = p.link.0 >= 2;
        assert!(!is_legacy || p.mpdus == 1, "link {}: {} MPDUs", p.link.0, p.mpdus);
        assert_eq!(p.mode.is_ht_or_later(), !is_legacy, "link {}: {}", p.link.0, p.mode.name());
    }
    assert!(rig.channel.mac.ppdus.iter().any(|p| p.mpdus > 1));
    for link in 0..4 {
        // After seven collisions in a row a frame without Block Ack is given up.
        let s = rig.stats(link);
        assert_eq!(s.delivered_packets + s.dropped_retries, 300);
        assert!(s.delivered_packets >= if link < 2 { 300 } else { 295 }, "link {link}: {s:?}");
        assert!(rig.delivered[link as usize].is_sorted());
    }
}

/// The window is the lesser of the bounds of both ends (ADDBA response, clause 9.4.1.14).
// [IEEE80211-10.25.2-2] [IEEE80211-10.25.6.7-1]
#[test]
fn the_recipients_window_binds_the_originator() {
    let mut ap = radio(Standard::N, mcs(7));
    ap.reorder_buffer.window = 6;
    let mut rig = Rig::of(vec![radio(Standard::N, mcs(7)), ap], vec![errors(0.3)], vec![], PPDUS);
    rig.saturate_links(&[0], 100, 500 * MS);
    rig.drain();
    assert!(rig.channel.mac.ppdus.iter().all(|p| p.mpdus <= 6));
    let moves = rig.channel.mac.sessions[0].recipient.as_ref().unwrap().stats().window_moves;
    assert_eq!(moves, 0, "an MPDU beyond the recipient's window");
}

/// RTS without an answer are no PPDUs with data.
// [IEEE80211-10.3.2.9-3]
#[test]
fn an_rts_in_vain_is_counted_as_such() {
    let mut config = radio(Standard::G, rate("54Mbit/s"));
    config.phy.g_only = true;
    config.rts_threshold_bytes = 0;
    let n = 5;
    let hidden = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
    let signals = vec![SignalConfig::default(); usize::from(n)];
    let mut rig = Rig::of(vec![config; usize::from(n) + 1], signals, hidden, PPDUS);
    rig.saturate_links(&[0, 2, 4, 6, 8], 5, SECOND);
    let sum = |f: fn(&AirStats) -> u64| (0..u32::from(n)).map(|s| f(&rig.stats(2 * s))).sum::<u64>();
    assert!(sum(|s| s.rts_unanswered) > 100);
    // Radios that hear the CTS stay silent, so the data arrives. Radios that were sending an RTS do
    // not hear it.
    assert!(20 * sum(|s| s.ppdus_unanswered) < sum(|s| s.ppdus));
    assert_eq!(sum(|s| s.ppdus), rig.channel.mac.ppdus.len() as u64);
}

// [IEEE80211-10.3.2.4-3] [IEEE80211-10.3.2.9-1] [IEEE80211-10.3.2.9-4]
#[test]
fn rts_and_cts_bring_hidden_stations_their_throughput_back() {
    let run = |hidden: bool, threshold: u32| {
        let mut config = radio(Standard::A, rate("6Mbit/s"));
        config.rts_threshold_bytes = threshold;
        let mut rig = Rig::new(2, config, SignalConfig::default(), hidden, 1500);
        rig.saturate(3, 10 * SECOND);
        rig.mbit(0) + rig.mbit(2)
    };
    let (heard, hidden, with_rts) = (run(false, u32::MAX), run(true, u32::MAX), run(true, 0));
    println!("{heard:.2} Mbit/s; hidden {hidden:.2}; with RTS {with_rts:.2}");
    // 2.1 ms of data in backoffs of at most 1023 slots of 9 us: most frames overlap.
    assert!(hidden < 0.6 * heard);
    assert!(with_rts > 0.9 * heard);
}

/// Performance anomaly (Heusse, Rousseau, Berger-Sabbatel and Duda, INFOCOM 2003): DCF gives all
/// stations as many frames, so that the fast one is as slow as the slow one, and the cell carries
/// two frames in the time of one of each.
#[test]
fn a_slow_station_slows_down_the_fast_one() {
    let (fast, slow) = (radio(Standard::B, rate("11Mbit/s")), radio(Standard::B, rate("1Mbit/s")));
    let perfect = SignalConfig::default();
    let mut rig = Rig::of(vec![fast.clone(), slow, fast.clone()], vec![perfect.clone(), perfect], vec![], PPDUS);
    rig.saturate_links(&[0, 2], 3, 200 * SECOND);
    let (a, b) = (rig.mbit(0), rig.mbit(2));
    let t = fast.phy.timing();
    let modes = fast.phy.modes();
    let time = |i: usize| {
        let data = t.ppdu(modes[i], timing::mpdu_bytes(1500, false)).as_ns();
        (data + t.sifs.as_ns() + t.ack(modes[i]).as_ns() + t.difs().as_ns()) as f64
    };
    // Two stations, window 31: 10.6 idle slots for each frame (the mean of the lesser of two draws,
    // about a third of 31), collisions 6 %.
    let expected = 12_000.0 / (time(3) + time(0)) * 1e3;
    println!("fast {a:.3}, slow {b:.3} Mbit/s; without backoff and collisions {expected:.3}");
    assert!((a / b - 1.0).abs() < 0.05, "{a} and {b} Mbit/s");
    assert!(a < expected && a > 0.85 * expected, "{a} against {expected} Mbit/s");
}

/// Ending the anomaly (Høiland-Jørgensen et al., USENIX ATC 2017): the access point gives its
/// stations equal airtime.
#[test]
fn airtime_fairness_gives_equal_airtime_and_a_fifo_equal_packets() {
    let run = |transmit: TransmitConfig| {
        let mut station = radio(Standard::N, mcs(7));
        station.rate_control = Some(RateConfig::Ideal(Default::default()));
        station.transmit = transmit;
        let snr = |snr_db| SignalConfig::Snr(SnrConfig { snr_db, shadowing: None });
        let radios = vec![station; 3];
        let mut rig = Rig::of(radios, vec![snr(5.0), snr(40.0)], vec![], PPDUS);
        // More than can be carried, in turn.
        for i in 0..30_000u64 {
            let at = i * 200_000;
            while rig.channel.deadline().as_ns() <= at {
                rig.now = rig.channel.deadline().as_ns();
                rig.channel.on_deadline(Time::from_ns(rig.now), &mut rig.pool, &mut rig.out);
                rig.take();
            }
            rig.now = at;
            rig.send(1);
            rig.send(3);
        }
        let (slow, fast) = (airtime_share(&rig, 1), airtime_share(&rig, 3));
        let packets = (rig.stats(1).delivered_packets as f64, rig.stats(3).delivered_packets as f64);
        println!("airtime {slow:.3} {fast:.3}, packets {packets:?}");
        (slow / fast, packets.0 / packets.1)
    };
    let (airtime, packets) = run(TransmitConfig::Mac80211(Mac80211Config::default()));
    assert!((airtime - 1.0).abs() < 0.03, "airtime {airtime}");
    assert!(packets < 0.2);
    let (airtime, packets) = run(TransmitConfig::Qdisc(QdiscConfig::default()));
    assert!((packets - 1.0).abs() < 0.05, "packets {packets}");
    assert!(airtime > 4.0);
}

/// A station that uploads has used airtime as well (`AIRTIME_USE_RX` of mac80211). If this counts,
/// the other station gets its downloads first.
#[test]
fn what_a_station_sends_counts_as_its_airtime() {
    let run = |airtime_received| {
        let mut station = radio(Standard::N, mcs(7));
        station.transmit = TransmitConfig::Mac80211(Mac80211Config { airtime_received, ..Mac80211Config::default() });
        let mut rig = Rig::of(vec![station; 3], vec![SignalConfig::default(), SignalConfig::default()], vec![], PPDUS);
        for i in 0..30_000u64 {
            let at = i * 200_000;
            while rig.channel.deadline().as_ns() <= at {
                rig.now = rig.channel.deadline().as_ns();
                rig.channel.on_deadline(Time::from_ns(rig.now), &mut rig.pool, &mut rig.out);
                rig.take();
            }
            rig.now = at;
            for link in [0, 1, 3] {
                rig.send(link);
            }
        }
        let (up, down, other) = (airtime_share(&rig, 0), airtime_share(&rig, 1), airtime_share(&rig, 3));
        println!("uploader: up {up:.3}, down {down:.3}; the other: down {other:.3}");
        (up, down, other)
    };
    let (_, down, other) = run(false);
    assert!((down / other - 1.0).abs() < 0.03, "{down} against {other}");
    // The upload takes half of the air by contention: little is left of the uploader's share.
    let (up, down, other) = run(true);
    assert!(up > 0.3 && other > 0.3 && down < 0.25 * other, "{up}, {down}, {other}");
}

/// ath9k forms an A-MPDU of one station's frames as they wait above it, so that it is full however
/// many stations there are, and has two of them (`ATH_AGGR_MIN_QDEPTH`). A driver's queue that all
/// stations share leaves each a few frames.
#[test]
fn ath9k_pulls_full_a_mpdus_for_any_number_of_stations() {
    for n in [1, 5, 20] {
        let station = RadioConfig { transmit: TransmitConfig::default(), ..radio(Standard::N, mcs(7)) };
        let signals = vec![SignalConfig::default(); n];
        let mut rig = Rig::of(vec![station; n + 1], signals, vec![], PPDUS);
        rig.bytes = 500;
        let links: Vec<u32> = (0..n as u32).map(|s| 2 * s + 1).collect();
        rig.saturate_links(&links, 200, 2 * SECOND);
        let queue = &rig.channel.mac.radios[n].queues[Ac::Be.index()];
        assert!(queue.formed.len() == 2 && queue.driver_count == 64, "{n}: {}", queue.driver_count);
        for &link in &links {
            let s = rig.stats(link);
            let mean = s.mpdus as f64 / s.ppdus as f64;
            assert!(mean > 30.0, "{n} stations: {mean} of 32 MPDUs");
        }
    }
}

/// mt76 takes frames ahead: as many as it has room for.
#[test]
fn mt76_takes_frames_ahead() {
    let driver = Driver::Mt76;
    let path = Mac80211Config { driver, driver_frames: 100, ..Mac80211Config::default() };
    let station = RadioConfig { transmit: TransmitConfig::Mac80211(path), ..radio(Standard::N, mcs(7)) };
    let mut rig = Rig::of(vec![station; 3], vec![SignalConfig::default(); 2], vec![], PPDUS);
    rig.bytes = 500;
    rig.saturate_links(&[1, 3], 200, SECOND);
    assert_eq!(rig.channel.mac.radios[2].queues[Ac::Be.index()].driver_count, 100);
}

/// ath9k reports each MPDU that it receives as if it came in a PPDU of its own
/// (drivers/net/wireless/ath/ath9k/recv.c, `ath_rx_count_airtime`), and what it sends by the
/// duration of the PPDU, without Block Ack and gaps.
#[test]
fn airtime_is_charged_as_ath9k_reports_it() {
    let config = RadioConfig { transmit: TransmitConfig::default(), ..radio(Standard::N, mcs(7)) };
    let mut rig = Rig::of(vec![config.clone(); 2], vec![SignalConfig::default()], vec![], PPDUS);
    for (link, packets) in [(1, 1), (0, 10)] {
        for _ in 0..packets {
            rig.send(link);
        }
        while rig.channel.deadline() != NEVER {
            rig.now = rig.channel.deadline().as_ns();
            rig.channel.on_deadline(Time::from_ns(rig.now), &mut rig.pool, &mut rig.out);
            rig.take();
        }
    }
    assert_eq!((rig.delivered[0].len(), rig.delivered[1].len()), (10, 1));
    let alone = config.phy.timing().ppdu(config.phy.mode_of_mcs(7).unwrap(), timing::mpdu_bytes(1500, true)).as_ns();
    let AnyTransmit::Mac80211(path) = &rig.channel.mac.transmits[1] else { panic!("as it was set") };
    let session = rig.channel.mac.links[1].sessions[Ac::Be.index()].unwrap();
    let receiver = rig.channel.mac.sessions[session.index()].receiver;
    assert_eq!(path.deficit_ns_of(Ac::Be, receiver), 256_000 - 11 * alone as i64);
}

/// Aggregation of a radio concerns its own transmissions alone.
#[test]
fn an_access_point_that_does_not_aggregate_receives_a_mpdus() {
    let station = radio(Standard::N, mcs(7));
    let mut ap = station.clone();
    ap.aggregation.enabled = false;
    let mut rig = Rig::of(vec![station, ap], vec![SignalConfig::default()], vec![], PPDUS);
    rig.saturate_links(&[0, 1], 100, SECOND);
    let (up, down) = (rig.stats(0), rig.stats(1));
    assert!(up.mpdus > 15 * up.ppdus, "{} MPDUs in {} PPDUs", up.mpdus, up.ppdus);
    assert!(down.mpdus == down.ppdus && down.ppdus > 100);
}

/// A PPDU of 4 ms counts in each millisecond for the time that it is on the air in it.
#[test]
fn airtime_is_booked_when_it_is_spent() {
    let mut rig = Rig::of(vec![radio(Standard::N, mcs(7)); 2], vec![SignalConfig::default()], vec![], PPDUS);
    let (mut before, mut full) = (0, 0);
    for at in (1..=1000).map(|ms| ms * MS) {
        rig.saturate_links(&[0], 100, at);
        let airtime = rig.channel.stats(AirLinkId(0), Time::from_ns(at)).airtime_ns;
        assert!(airtime - before <= MS, "{} ns in 1 ms", airtime - before);
        full += u32::from(airtime - before == MS);
        before = airtime;
    }
    assert!(full > 400, "most of the time one PPDU is on the air all the while: {full}");
}

/// An 802.11b station makes its 802.11g neighbours announce each frame with a CTS at a rate it can
/// hear.
// [IEEE80211-10.27-1]
#[test]
fn protection_costs_a_cts_ahead_of_each_frame() {
    let run = |protection| {
        let mut g = radio(Standard::G, rate("54Mbit/s"));
        g.phy.protection = protection;
        let mut rig = Rig::of(vec![g.clone(), g.clone()], vec![SignalConfig::default()], vec![], PPDUS);
        rig.saturate_links(&[0], 3, 10 * SECOND);
        (g, rig.mbit(0))
    };
    for protection in [Protection::None, Protection::CtsToSelf, Protection::RtsCts] {
        let (g, measured) = run(protection);
        let t = g.phy.timing();
        let mode = *g.phy.modes().iter().find(|m| m.rate() == "54Mbit/s".parse().unwrap()).unwrap();
        let cycle = t.difs().as_ns()
            + t.cw_min as u64 * t.slot.as_ns() / 2
            + t.protection_time(mode).as_ns()
            + t.ppdu(mode, timing::mpdu_bytes(1500, false)).as_ns()
            + t.sifs.as_ns()
            + t.ack(mode).as_ns();
        let expected = 12_000.0 / cycle as f64 * 1e3;
        println!("{protection:?}: {measured:.2}, expected {expected:.2} Mbit/s");
        assert!((measured / expected - 1.0).abs() < 0.01, "{protection:?}: {measured} against {expected} Mbit/s");
    }
}

/// EDCA by chance, with nothing of the channel's code: each category a station of its own that
/// hears all others. Gives the share of successes of the first.
fn edca_by_chance(a: EdcaParams, b: EdcaParams, t: &timing::Timing) -> f64 {
    let mut rng = stream(9, 9, Purpose::Backoff);
    let params = [a, b];
    let mut cw = [a.cw_min, b.cw_min];
    let mut left = [rng.random_range(0..=cw[0]), rng.random_range(0..=cw[1])];
    let mut done = [0u64; 2];
    // When each may count its first slot after the last busy period, from its end.
    let aifs = params.map(|p| t.aifs(p.aifsn).as_ns());
    let mut begin = aifs;
    let mut failures = [0; 2];
    for _ in 0..400_000 {
        let at = [0, 1].map(|i| begin[i] + u64::from(left[i]) * t.slot.as_ns());
        let first = at[0].min(at[1]);
        let collision = at[0] == at[1];
        for i in 0..2 {
            if at[i] == first {
                if collision && failures[i] < 6 {
                    failures[i] += 1;
                    cw[i] = (2 * cw[i] + 1).min(params[i].cw_max);
                } else {
                    failures[i] = 0;
                    cw[i] = params[i].cw_min;
                    done[i] += u64::from(!collision);
                }
                left[i] = rng.random_range(0..=cw[i]);
            } else if first >= begin[i] {
                // EDCA counts a slot that has begun.
                left[i] -= ((first - begin[i]) / t.slot.as_ns() + 1) as u32;
            }
            begin[i] = aifs[i];
        }
        if collision {
            // Both notice the missing answer first.
            let timeout = t.sifs.as_ns() + t.slot.as_ns() + 20_000;
            begin = aifs.map(|a| a + timeout);
        }
    }
    done[0] as f64 / (done[0] + done[1]) as f64
}

// [IEEE80211-10.23.2.2-1]
#[test]
fn voice_goes_before_best_effort_as_often_as_chance_says() {
    for (ac, other) in [(Ac::Vo, Ac::Be), (Ac::Vi, Ac::Be), (Ac::Be, Ac::Bk), (Ac::Be, Ac::Be)] {
        // Single frames, one for each time the medium is won.
        let mut config = radio(Standard::N, mcs(7));
        config.aggregation.enabled = false;
        let t = config.phy.timing();
        let mut rig =
            Rig::of(vec![config.clone(), config.clone(), config], vec![SignalConfig::default(); 2], vec![], PPDUS);
        for r in &mut rig.channel.mac.radios {
            r.edca.iter_mut().for_each(|e| e.txop = Span::ZERO);
        }
        rig.channel.medium.without_txop();
        let edca = rig.channel.mac.radios[0].edca;
        while rig.now < 20 * SECOND {
            for (link, ac) in [(0, ac), (2, other)] {
                while rig.stats(link).held_packets < 3 {
                    rig.send_as(link, ac);
                }
            }
            rig.now = rig.channel.deadline().as_ns();
            rig.channel.on_deadline(Time::from_ns(rig.now), &mut rig.pool, &mut rig.out);
            rig.take();
        }
        let (a, b) = (rig.stats(0).delivered_packets as f64, rig.stats(2).delivered_packets as f64);
        let expected = edca_by_chance(edca[ac as usize], edca[other as usize], &t);
        let share = a / (a + b);
        println!("{ac:?} beside {other:?}: {share:.4} of the frames, by chance {expected:.4}");
        assert!((share - expected).abs() < 0.01, "{ac:?} beside {other:?}: {share} against {expected}");
    }
}

/// Two stations that do not hear each other, by chance, with nothing of the channel's code: a frame
/// arrives if nothing of the other station's is on the air meanwhile, and the access point does not
/// send; its ACK silences who waits. Gives the share of frames without ACK, and Mbit/s.
fn hidden_by_chance(t: &timing::Timing, mode: Mode, frames: u64) -> (f64, f64) {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Counts { from: u64 },
        Frozen,
        Sends { arrives: bool },
        Unanswered,
        Answered,
    }
    use State::*;
    let (data_ns, ack_ns) = (t.ppdu(mode, timing::mpdu_bytes(1500, false)).as_ns(), t.ack(mode).as_ns());
    let (difs, timeout) = (t.difs().as_ns(), t.ack_timeout(mode).as_ns());
    let mut rng = stream(4, 4, Purpose::Backoff);
    let (mut cw, mut tries) = ([t.cw_min; 2], [0; 2]);
    let mut left = [0, 1].map(|_| rng.random_range(0..=t.cw_min));
    let mut state = [Counts { from: difs }; 2];
    let mut next = left.map(|l| difs + u64::from(l) * t.slot.as_ns());
    // An ACK: the time of its start or end, its receiver, and true if it is on the air.
    let mut ack: Option<(u64, usize, bool)> = None;
    let (mut sent, mut won, mut now) = (0, 0, 0);
    while sent < frames {
        let i = usize::from(next[1] < next[0]);
        if let Some((at, to, is_on_air)) = ack.filter(|a| a.0 <= next[i]) {
            now = at;
            let other = 1 - to;
            if is_on_air {
                ack = None;
                won += 1;
                (cw[to], tries[to]) = (t.cw_min, 0);
                left[to] = rng.random_range(0..=cw[to]);
                for s in [to, other] {
                    if s == to || state[s] == Frozen {
                        state[s] = Counts { from: now + difs };
                        next[s] = now + difs + u64::from(left[s]) * t.slot.as_ns();
                    }
                }
            } else {
                ack = Some((at + ack_ns, to, true));
                match state[other] {
                    Sends { .. } => state[other] = Sends { arrives: false },
                    Counts { from } => {
                        left[other] -= (now.saturating_sub(from) / t.slot.as_ns()) as u32;
                        (state[other], next[other]) = (Frozen, u64::MAX);
                    }
                    _ => {}
                }
            }
            continue;
        }
        now = next[i];
        let other = 1 - i;
        match state[i] {
            Counts { .. } => {
                sent += 1;
                let is_alone = !matches!(state[other], Sends { .. });
                if !is_alone {
                    state[other] = Sends { arrives: false };
                }
                state[i] = Sends { arrives: is_alone && ack.is_none() };
                next[i] = now + data_ns;
            }
            Sends { arrives: true } => {
                ack = Some((now + t.sifs.as_ns(), i, false));
                (state[i], next[i]) = (Answered, u64::MAX);
            }
            Sends { arrives: false } => (state[i], next[i]) = (Unanswered, now + timeout.max(difs)),
            Unanswered => {
                tries[i] += 1;
                if tries[i] < 7 {
                    cw[i] = (2 * cw[i] + 1).min(t.cw_max);
                } else {
                    (cw[i], tries[i]) = (t.cw_min, 0);
                }
                left[i] = rng.random_range(0..=cw[i]);
                state[i] = Counts { from: now };
                next[i] = now + u64::from(left[i]) * t.slot.as_ns();
                if ack.is_some_and(|a| a.2) {
                    (state[i], next[i]) = (Frozen, u64::MAX);
                }
            }
            Frozen | Answered => unreachable!("nothing is due"),
        }
    }
    (1.0 - won as f64 / sent as f64, won as f64 * 12_000.0 * 1e3 / now as f64)
}

#[test]
fn hidden_stations_fare_as_chance_says() {
    for (standard, name, seconds) in
        [(Standard::A, "54Mbit/s", 20), (Standard::A, "6Mbit/s", 100), (Standard::B, "11Mbit/s", 60)]
    {
        let config = radio(standard, rate(name));
        let t = config.phy.timing();
        let mode = *config.phy.modes().iter().find(|m| m.rate() == name.parse().unwrap()).unwrap();
        let mut rig = Rig::new(2, config, SignalConfig::default(), true, 1500);
        rig.saturate(3, seconds * SECOND);
        let (a, b) = (rig.stats(0), rig.stats(2));
        let p = (a.ppdus_unanswered + b.ppdus_unanswered) as f64 / (a.ppdus + b.ppdus) as f64;
        let mbit = rig.mbit(0) + rig.mbit(2);
        let (chance_p, chance) = hidden_by_chance(&t, mode, 200_000);
        println!("{name}: {mbit:.2} Mbit/s, p {p:.4}; by chance {chance:.2}, {chance_p:.4}");
        assert!((mbit / chance - 1.0).abs() < 0.03, "{name}: {mbit} against {chance} Mbit/s");
        assert!((p / chance_p - 1.0).abs() < 0.02, "{name}: {p} against {chance_p}");
    }
}

/// Asking after a missed Block Ack: each A-MPDU is on the air once, and a lost Block Ack costs a
/// BAR instead of all its MPDUs.
// [IEEE80211-10.25.6.3-1] [IEEE80211-10.25.6.7-3]
#[test]
fn a_bar_after_a_missed_block_ack_learns_what_has_arrived() {
    let run = |on_missed| {
        let mut config = radio(Standard::N, mcs(7));
        config.retries = Retries { on_missed, software: 255, ..Retries::default() };
        // Five of them keep each other waiting for more than 100 ms at times.
        config.reorder_buffer.timeout = Span::MAX;
        let mut rig = Rig::new(5, config, errors(0.05), false, 1500);
        rig.saturate(100, 2 * SECOND);
        let sum = |f: fn(&AirStats) -> u64| (0..5).map(|s| f(&rig.stats(2 * s))).sum::<u64>();
        let found = (sum(|s| s.bars), sum(|s| s.ppdus_unanswered), sum(|s| s.dropped_retries), sum(|s| s.dropped_late));
        rig.drain();
        for link in (0..10).step_by(2) {
            let s = rig.stats(link as u32);
            assert_eq!(rig.delivered[link].len(), rig.numbers[link] as usize, "{on_missed:?}: {s:?}");
            assert!(rig.delivered[link].is_sorted());
        }
        found
    };
    let (asks, repeats) = (run(OnMissed::Bar), run(OnMissed::Repeat));
    println!("BARs, unanswered, dropped: {asks:?}, {repeats:?}");
    assert_eq!(repeats.0, 0);
    // One at least for each that stayed without answer.
    assert!(asks.1 > 50 && asks.0 + 5 >= asks.1, "{asks:?}");
    assert_eq!((asks.2, asks.3), (0, 0));
}
