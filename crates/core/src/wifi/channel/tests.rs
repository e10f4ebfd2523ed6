mod association;
mod behaviour;
mod below_tcp;
mod group;
mod hands_up;
mod properties;
mod txop;
mod wavelan;

use super::super::phy::{PhyConfig, Standard};
use super::super::rate::{FixedConfig, RateConfig};
use super::*;
use std::sync::Arc;

use rand::RngExt;

use crate::packet::{FlowId, Kind, Packet};
use crate::queue::DropReason;
use crate::rng::{Purpose, Rng, stream};
use crate::units::{Probability, Span};
use crate::wifi::config::{Aggregation, RadioConfig, Retries};
use crate::wifi::phy::{EdcaParams, Motion, Protection, SignalConfig, timing};
use crate::wifi::roam::{ApQueue, StationQueue};
use crate::wifi::setup::{PairConfig, Roams};
use crate::wifi::trace::{FrameKind, TraceConfig};
use crate::wifi::transmit::{AnyTransmit, Mac80211Config, QdiscConfig, TransmitConfig};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// Stations that send UDP to one access point.
struct Rig {
    channel: Channel,
    pool: Pool,
    out: AirOutputs,
    now: u64,
    numbers: Vec<u32>,
    delivered: Vec<Vec<u32>>,
    bytes: u16,
}

fn radio(standard: Standard, rate: FixedConfig) -> RadioConfig {
    RadioConfig {
        phy: PhyConfig::of(standard),
        rate_control: Some(RateConfig::Fixed(rate)),
        transmit: TransmitConfig::Qdisc(QdiscConfig::default()),
        ..RadioConfig::default()
    }
}

/// Estimated airtime of all frames below a radio's queues, where it is booked.
fn pending(transmit: &AnyTransmit) -> Span {
    match transmit {
        AnyTransmit::Mac80211(path) => path.pending,
        AnyTransmit::Qdisc(_) => Span::ZERO,
    }
}

/// Numbers as radios.
fn ids(pairs: Vec<(u16, u16)>) -> Vec<(RadioId, RadioId)> {
    pairs.into_iter().map(|(a, b)| (RadioId(a), RadioId(b))).collect()
}

impl Rig {
    fn new(stations: usize, radio: RadioConfig, signal: SignalConfig, hidden: bool, bytes: u16) -> Rig {
        let radio = Arc::new(radio);
        let n = stations as u16;
        let pairs = (0..n).map(|s| PairConfig::fixed(s, n, signal.clone())).collect();
        let hidden = if hidden { (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect() } else { Vec::new() };
        let config = ChannelConfig {
            radios: vec![radio; stations + 1],
            pairs,
            groups: Vec::new(),
            hidden: ids(hidden),
            sensing: Span::ZERO,
            capture_effect: Probability::ZERO,
            seed: 7,
            index: 0,
            trace: TraceConfig::default(),
        };
        Rig {
            channel: Channel::new(&config),
            pool: Pool::default(),
            out: AirOutputs::default(),
            now: 0,
            numbers: vec![0; 2 * stations],
            delivered: vec![Vec::new(); 2 * stations],
            bytes,
        }
    }

    fn send(&mut self, link: u32) {
        let mut p = Packet::new(FlowId(link), Kind::Udp, 0);
        p.size = self.bytes;
        p.seq = crate::units::Seq32(self.numbers[link as usize]);
        self.numbers[link as usize] += 1;
        let id = self.pool.insert(p);
        self.channel.enqueue(
            Time::from_ns(self.now),
            AirLinkId(link),
            id,
            Ac::Be,
            false,
            &mut self.pool,
            &mut self.out,
        );
        self.take();
    }

    fn take(&mut self) {
        for (link, id) in self.out.delivered.drain(..) {
            let p = self.pool.remove(id);
            assert_eq!(p.flow.0, link.0);
            self.delivered[link.index()].push(p.seq.0);
        }
        for (_, id, _) in self.out.dropped.drain(..) {
            self.pool.remove(id);
        }
    }

    /// Every station has always `waiting` packets.
    fn saturate(&mut self, waiting: u64, until: u64) {
        let stations = self.numbers.len() as u32 / 2;
        loop {
            for s in 0..stations {
                while self.channel.stats(AirLinkId(2 * s), Time::from_ns(self.now)).held_packets < waiting {
                    self.send(2 * s);
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
}

// [IEEE80211-10.3.2.3-1] [IEEE80211-10.3.2.11-1]
#[test]
fn udp_saturation_is_what_the_airtime_allows() {
    for mcs in 0..8 {
        let mut config = radio(Standard::N, FixedConfig { mcs: Some(mcs), ..FixedConfig::default() });
        config.aggregation = Aggregation { max_frames: 64, ..Aggregation::default() };
        let t = config.phy.timing();
        let mode = config.phy.mode_of_mcs(mcs).unwrap();
        let mut rig = Rig::new(1, config, SignalConfig::default(), false, 1500);
        rig.saturate(200, 2 * SECOND);
        let bytes = rig.channel.stats(AirLinkId(0), Time::from_ns(rig.now)).delivered_bytes;
        // AIFS, mean backoff, the A-MPDU, SIFS and the Block Ack.
        let subframe = timing::subframe_bytes(timing::mpdu_bytes(1500, true));
        let limit = t.psdu_bytes_within(mode, Span::from_ns(4 * MS)).min(65_535);
        let n = (limit / subframe).min(32);
        let cycle = t.aifs(3).as_ns() as f64
            + 7.5 * t.slot.as_ns() as f64
            + t.ppdu(mode, n * subframe).as_ns() as f64
            + (t.sifs.as_ns() + t.block_ack(mode).as_ns()) as f64;
        let expected = f64::from(n) * 1500.0 * 8.0 / cycle * 1e3;
        let measured = bytes as f64 * 8.0 / 2.0 * 1e-6;
        println!("MCS {mcs}: {n} MPDUs, expected {expected:.2}, measured {measured:.2} Mbit/s");
        assert!((measured / expected - 1.0).abs() < 0.01, "MCS {mcs}: {measured} against {expected} Mbit/s");
    }
}

/// Bianchi's fixed point with a finite number of tries (Wu et al., INFOCOM 2002). It gives the
/// probabilities that a station sends in a slot, and that its frame collides.
fn bianchi(n: usize, cw_min: u32, cw_max: u32, tries: u32) -> (f64, f64) {
    let tau_of = |p: f64| {
        let (mut sent, mut slots) = (0.0, 0.0);
        let mut cw = cw_min;
        for i in 0..tries {
            let reach = p.powi(i as i32);
            sent += reach;
            slots += reach * (f64::from(cw) / 2.0 + 1.0);
            cw = (2 * cw + 1).min(cw_max);
        }
        sent / slots
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let p = (low + high) / 2.0;
        let implied = 1.0 - (1.0 - tau_of(p)).powi(n as i32 - 1);
        if implied > p { low = p } else { high = p }
    }
    (tau_of(low), low)
}

/// DCF by chance, with nothing of the channel's code: collision probability and throughput in
/// packets per second. It has what Bianchi's slots leave out: the slot after a busy one is open to
/// those alone who sent in it and drew 0, as the others have at least one left to count
/// (Tinnirello, Bianchi and Xiao, IEEE Trans. Vehicular Technology 59(3), 2010); and those who have
/// collided start after the ACK timeout, the others after `others_ns`, which need not be the same.
fn by_chance(n: usize, t: &timing::Timing, data: Mode, others_ns: u64, transmissions: u64) -> (f64, f64) {
    let mut rng = stream(1, n as u64, Purpose::Backoff);
    // Slots left, when they begin to count, window, tries.
    let first = |rng: &mut Rng| (rng.random_range(0..=t.cw_min), t.difs().as_ns(), t.cw_min, 0);
    let mut stations: Vec<(u32, u64, u32, u32)> = (0..n).map(|_| first(&mut rng)).collect();
    let data_ns = t.ppdu(data, timing::mpdu_bytes(1500, false)).as_ns();
    let (mut sent, mut collided, mut won, mut now) = (0u64, 0u64, 0u64, 0u64);
    while sent < transmissions {
        let at = |s: &(u32, u64, u32, u32)| s.1 + u64::from(s.0) * t.slot.as_ns();
        now = stations.iter().map(at).min().expect("there are stations");
        let senders = stations.iter().filter(|s| at(s) == now).count() as u64;
        sent += senders;
        let failed = senders > 1;
        collided += if failed { senders } else { 0 };
        won += u64::from(!failed);
        let end = now + data_ns + if failed { 0 } else { t.sifs.as_ns() + t.ack(data).as_ns() };
        for s in &mut stations {
            let (ready, begin) = (at(s), s.1);
            let (backoff, start, cw, tried) = (&mut s.0, &mut s.1, &mut s.2, &mut s.3);
            if ready == now {
                *tried += 1;
                if failed && *tried < 7 {
                    *cw = (2 * *cw + 1).min(t.cw_max);
                } else {
                    (*cw, *tried) = (t.cw_min, 0);
                }
                *backoff = rng.random_range(0..=*cw);
                *start =
                    end + if failed { t.ack_timeout(data).as_ns().max(t.difs().as_ns()) } else { t.difs().as_ns() };
            } else {
                *backoff -= (now.saturating_sub(begin) / t.slot.as_ns()) as u32;
                *start = end + if failed { others_ns } else { t.difs().as_ns() };
            }
        }
    }
    (collided as f64 / sent as f64, won as f64 * 1e9 / now as f64)
}

/// A saturated cell: Mbit/s, and the share of data PPDUs without an answer with its standard error.
fn saturated(config: RadioConfig, n: usize, seconds: u64) -> (f64, f64, f64) {
    let mut rig = Rig::new(n, config, SignalConfig::default(), false, 1500);
    rig.saturate(3, seconds * SECOND);
    let stats: Vec<AirStats> =
        (0..n as u32).map(|s| rig.channel.stats(AirLinkId(2 * s), Time::from_ns(rig.now))).collect();
    let bytes: u64 = stats.iter().map(|s| s.delivered_bytes).sum();
    let (sent, failed) = stats.iter().fold((0, 0), |(a, b), s| (a + s.ppdus, b + s.ppdus_unanswered));
    let p = failed as f64 / sent as f64;
    // Two fail together, which doubles the variance.
    (bytes as f64 * 8e-6 / seconds as f64, p, (2.0 * p * (1.0 - p) / sent as f64).sqrt())
}

/// 802.11b with EIFS and 802.11g alone without: throughput within 3 % of Bianchi's model, collision
/// probability within 5 % and three standard errors. These and all other combinations: within 1.5
/// %, and 2 % and three standard errors, of DCF by chance.
///
/// Bianchi has all stations start together after a collision. Those who have collided start when
/// the ACK timeout is over, the others after EIFS or DIFS: 222 against 364 or 50 us in 802.11b, 39
/// against 88 or 28 us in 802.11g alone, and against 342 us where the basic rates include those of
/// 802.11b, as an ACK at 1 Mbit/s is what EIFS leaves room for: a start of 33 slots.
// [IEEE80211-10.3.3-1]
#[test]
fn saturated_stations_behave_as_bianchi_and_chance_say() {
    println!("| PHY | EIFS | n | Mbit/s, Bianchi | by chance | measured | | p, Bianchi | by chance | measured | |");
    for (name, standard, g_only, eifs, holds) in [
        ("b", Standard::B, false, true, true),
        ("b", Standard::B, false, false, false),
        ("g alone", Standard::G, true, false, true),
        ("g alone", Standard::G, true, true, false),
        ("g beside b", Standard::G, false, true, false),
    ] {
        for n in [1usize, 2, 3, 5, 10, 20, 30, 50] {
            let rate = if standard == Standard::B { "11Mbit/s" } else { "54Mbit/s" };
            let fixed = FixedConfig { rate: Some(rate.parse().unwrap()), ..FixedConfig::default() };
            let mut config = radio(standard, fixed);
            config.eifs = eifs;
            config.phy.g_only = g_only;
            let t = config.phy.timing();
            let mode = *config.phy.modes().iter().find(|m| m.rate() == rate.parse().unwrap()).unwrap();
            let seconds = if standard == Standard::G { 20 } else { 50 };
            let (measured, measured_p, error) = saturated(config, n, seconds);
            let (tau, p) = bianchi(n, t.cw_min, t.cw_max, 7);
            let nf = n as f64;
            let busy = 1.0 - (1.0 - tau).powf(nf);
            let success = nf * tau * (1.0 - tau).powf(nf - 1.0);
            let data = t.ppdu(mode, timing::mpdu_bytes(1500, false)).as_ns();
            let ts = (data + t.sifs.as_ns() + t.ack(mode).as_ns() + t.difs().as_ns()) as f64;
            let others = if eifs { t.eifs().as_ns() } else { t.difs().as_ns() };
            let tc = (data + t.ack_timeout(mode).as_ns().max(others)) as f64;
            let slot = (1.0 - busy) * t.slot.as_ns() as f64 + success * ts + (busy - success) * tc;
            let expected = success * 1500.0 * 8.0 / slot * 1e3;
            let (chance_p, chance) = by_chance(n, &t, mode, others, 300_000);
            let chance = chance * 12_000.0 * 1e-6;
            let (off, p_off) = (measured / expected - 1.0, measured_p / p - 1.0);
            println!(
                "| {name} | {} | {n} | {expected:.2} | {chance:.2} | {measured:.2} | {:+.1} % | {p:.4} | {chance_p:.4} | {measured_p:.4} | {} |",
                if eifs { "on" } else { "off" },
                off * 100.0,
                if n > 1 { format!("{:+.1} %", p_off * 100.0) } else { String::new() },
            );
            let case = format!("{name}, EIFS {eifs}, n = {n}");
            if holds {
                assert!(off.abs() < 0.03, "{case}: {measured} against {expected} Mbit/s");
                assert!((measured_p - p).abs() <= 0.05 * p + 3.0 * error, "{case}: {measured_p} against {p}");
            }
            assert!((measured / chance - 1.0).abs() < 0.015, "{case}: {measured} against {chance} Mbit/s by chance");
            assert!(
                (measured_p - chance_p).abs() <= 0.02 * chance_p + 3.0 * error,
                "{case}: {measured_p} against {chance_p} by chance"
            );
        }
    }
}

/// Two cells. The access point of the first hears of the second cell only what its access point
/// sends: the CTS that announces a long frame. Until that frame has been acknowledged it answers no
/// RTS of its own station, which hears nothing of all that.
// [IEEE80211-10.3.2.9-2]
#[test]
fn an_rts_is_not_answered_while_the_nav_is_set() {
    for (other_sends, unanswered) in [(false, 0), (true, 1)] {
        let mut config =
            radio(Standard::B, FixedConfig { rate: Some("1Mbit/s".parse().unwrap()), ..FixedConfig::default() });
        config.rts_threshold_bytes = 0;
        let mut rig = Rig::new(2, config.clone(), SignalConfig::default(), false, 1500);
        let radio = Arc::new(config);
        rig.channel = Channel::new(&ChannelConfig {
            radios: vec![radio; 4],
            pairs: [(0, 2), (1, 3)].map(|(s, ap)| PairConfig::fixed(s, ap, SignalConfig::default())).into(),
            groups: Vec::new(),
            hidden: ids(vec![(0, 1), (0, 3), (1, 2)]),
            sensing: Span::ZERO,
            capture_effect: Probability::ZERO,
            seed: 7,
            index: 0,
            trace: TraceConfig { ppdus: true, frames: false },
        });
        if other_sends {
            rig.send(2);
        }
        // By then the CTS is over; the frame takes 12.5 ms. The last time nothing more is sent.
        for at in [3 * MS, 20 * MS, SECOND] {
            while rig.channel.deadline() < Time::from_ns(at) {
                let now = rig.channel.deadline();
                rig.now = now.as_ns();
                rig.channel.on_deadline(now, &mut rig.pool, &mut rig.out);
                rig.take();
            }
            rig.now = at;
            if at < SECOND {
                rig.send(0);
            }
        }
        let stats = rig.channel.stats(AirLinkId(0), Time::from_ns(rig.now));
        assert_eq!(stats.rts_unanswered.min(1), unanswered, "other sends: {other_sends}");
        assert_eq!(rig.delivered[2].len(), usize::from(other_sends));
        let own = rig.channel.mac.ppdus.iter().find(|ppdu| ppdu.link == AirLinkId(0)).unwrap();
        let other = rig.channel.mac.ppdus.iter().find(|ppdu| ppdu.link == AirLinkId(2));
        assert!(other.is_none_or(|other| own.start > other.end), "{own:?} {other:?}");
    }
}
