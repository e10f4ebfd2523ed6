use super::super::phy::{PhyConfig, Standard};
use super::super::rate::{FixedConfig, RateConfig};
use super::*;
use crate::packet::{FlowId, Packet};
use crate::wifi::config::{Aggregation, QdiscPath};
use crate::wifi::phy::timing;

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
        transmit: Transmit::Qdisc(QdiscPath::default()),
        ..RadioConfig::default()
    }
}

impl Rig {
    fn new(stations: usize, radio: RadioConfig, signal: SignalConfig, hidden: bool, bytes: u16) -> Rig {
        let radio = Arc::new(radio);
        let n = stations as u16;
        let pairs = (0..n).map(|s| PairConfig { station: s, access_point: n, signal: signal.clone() }).collect();
        let hidden = if hidden { (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect() } else { Vec::new() };
        let config = ChannelConfig {
            radios: vec![radio; stations + 1],
            pairs,
            hidden,
            sensing: Span::ZERO,
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
        self.channel.enqueue(self.now, link, id, Ac::Be, false, &mut self.pool, &mut self.out);
        self.take();
    }

    fn take(&mut self) {
        for (link, id) in self.out.delivered.drain(..) {
            let p = self.pool.remove(id);
            assert_eq!(p.flow.0, link);
            self.delivered[link as usize].push(p.seq.0);
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
                while self.channel.stats(2 * s, self.now).held_packets < waiting {
                    self.send(2 * s);
                }
            }
            let at = self.channel.deadline();
            if at > until {
                return;
            }
            self.now = at;
            self.channel.on_deadline(at, &mut self.pool, &mut self.out);
            self.take();
        }
    }
}

#[test]
fn udp_saturation_is_what_the_airtime_allows() {
    for mcs in 0..8 {
        let mut config = radio(Standard::N, FixedConfig { mcs: Some(mcs), ..FixedConfig::default() });
        config.aggregation = Aggregation { max_frames: 64, ..Aggregation::default() };
        let t = config.phy.timing();
        let mode = config.phy.mode_of_mcs(mcs).unwrap();
        let mut rig = Rig::new(1, config, SignalConfig::default(), false, 1500);
        rig.saturate(200, 2 * SECOND);
        let bytes = rig.channel.stats(0, rig.now).delivered_bytes;
        // AIFS, mean backoff, the A-MPDU, SIFS and the Block Ack.
        let subframe = timing::subframe_bytes(timing::mpdu_bytes(1500, true));
        let limit = t.psdu_bytes_within(mode, 4 * MS).min(65_535);
        let n = (limit / subframe).min(32);
        let cycle = t.aifs_ns(3) as f64
            + 7.5 * t.slot_ns as f64
            + t.ppdu_ns(mode, n * subframe) as f64
            + (t.sifs_ns + t.block_ack_ns(mode)) as f64;
        let expected = f64::from(n) * 1500.0 * 8.0 / cycle * 1e3;
        let measured = bytes as f64 * 8.0 / 2.0 * 1e-6;
        println!("MCS {mcs}: {n} MPDUs, expected {expected:.2}, measured {measured:.2} Mbit/s");
        assert!((measured / expected - 1.0).abs() < 0.01, "MCS {mcs}: {measured} against {expected} Mbit/s");
    }
}

/// Bianchi's fixed point with a finite number of tries (Wu et al., INFOCOM 2002): probability that a station sends in a slot,
/// and that what it sends collides.
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

#[test]
fn saturated_stations_behave_as_bianchi_says() {
    for (standard, rate, name, g_only) in [(Standard::B, "11Mbit/s", "b", false), (Standard::G, "54Mbit/s", "g", true)]
    {
        for n in [1usize, 2, 5, 10, 20, 50] {
            let mut config =
                radio(standard, FixedConfig { rate: Some(rate.parse().unwrap()), ..FixedConfig::default() });
            config.eifs = !g_only;
            let t = config.phy.timing();
            let mode = *config.phy.modes().iter().find(|m| m.rate() == rate.parse().unwrap()).unwrap();
            let mut rig = Rig::new(n, config, SignalConfig::default(), false, 1500);
            let seconds = 10;
            rig.saturate(3, seconds * SECOND);
            let stats: Vec<AirStats> = (0..n as u32).map(|s| rig.channel.stats(2 * s, rig.now)).collect();
            let bytes: u64 = stats.iter().map(|s| s.delivered_bytes).sum();
            let (sent, collided) = stats.iter().fold((0, 0), |(a, b), s| (a + s.ppdus, b + s.ppdus_unanswered));
            let (tau, p) = bianchi(n, t.cw_min, t.cw_max, 7);
            let nf = n as f64;
            let busy = 1.0 - (1.0 - tau).powf(nf);
            let success = nf * tau * (1.0 - tau).powf(nf - 1.0);
            let data = t.ppdu_ns(mode, timing::mpdu_bytes(1500, false));
            let ts = (data + t.sifs_ns + t.ack_ns(mode) + t.difs_ns()) as f64;
            let tc = (data + if g_only { t.ack_timeout_ns(mode).max(t.difs_ns()) } else { t.eifs_ns() }) as f64;
            let slot = (1.0 - busy) * t.slot_ns as f64 + success * ts + (busy - success) * tc;
            let expected = success * 1500.0 * 8.0 / slot * 1e3;
            let measured = bytes as f64 * 8e-6 / seconds as f64;
            println!(
                "{name} n={n}: expected {expected:.2} measured {measured:.2} Mbit/s ({:+.2} %); p {p:.4} measured {:.4}",
                (measured / expected - 1.0) * 100.0,
                collided as f64 / sent as f64
            );
        }
    }
}
