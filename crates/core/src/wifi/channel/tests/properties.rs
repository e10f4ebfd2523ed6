//! Properties that hold for every configuration of the radios and every pattern of loss.

use proptest::prelude::*;

use super::*;
use crate::queue::{FifoConfig, QueueConfig};
use crate::wifi::TxCompletion;
use crate::wifi::config::{OnGiveUp, OnMissed, RetryCount};
use crate::wifi::phy::{Backoff, ErrorRateConfig, WavelanConfig};
use crate::wifi::reorder::ReorderConfig;
use crate::wifi::retry_out::RetryOutConfig;
use crate::wifi::transmit::mac80211::Driver;

const PAYLOAD: u32 = 7;

/// Deliveries and drops: time, link, number, and the reason of a drop.
type Story = Vec<(u64, u32, u32, Option<DropReason>)>;

/// Stations and an access point, with whatever traffic, watched closely.
struct Watch {
    channel: Channel,
    pool: Pool,
    out: AirOutputs,
    now: u64,
    sent: Vec<u32>,
    sent_bytes: Vec<u64>,
    story: Story,
    /// The last number delivered, by link and category.
    last: Vec<[Option<u32>; 4]>,
    delivered: Vec<(u64, u64)>,
    dropped: Vec<(u64, u64)>,
    at_now: u32,
}

impl Watch {
    fn new(config: &ChannelConfig) -> Watch {
        let links = 2 * config.pairs.len();
        Watch {
            channel: Channel::new(config),
            pool: Pool::default(),
            out: AirOutputs::default(),
            now: 0,
            sent: vec![0; links],
            sent_bytes: vec![0; links],
            story: Vec::new(),
            last: vec![[None; 4]; links],
            delivered: vec![(0, 0); links],
            dropped: vec![(0, 0); links],
            at_now: 0,
        }
    }

    fn send(&mut self, link: u32, ac: Ac, kind: Kind, bytes: u16) {
        let mut p = Packet::new(FlowId(link), kind, 0);
        p.size = bytes;
        p.len = PAYLOAD as u16;
        // The number, with the category in the lowest bits.
        p.seq = crate::units::Seq32(self.sent[link as usize] << 2 | ac as u32);
        self.sent[link as usize] += 1;
        self.sent_bytes[link as usize] += u64::from(bytes);
        let id = self.pool.insert(p);
        self.channel.enqueue(Time::from_ns(self.now), AirLinkId(link), id, ac, true, &mut self.pool, &mut self.out);
        self.take();
    }

    fn take(&mut self) {
        for (link, id) in self.out.delivered.drain(..) {
            let p = self.pool.remove(id);
            assert_eq!(p.flow.0, link.0, "delivered on another link");
            let last = &mut self.last[link.index()][(p.seq.0 & 3) as usize];
            assert!(last.is_none_or(|l| l < p.seq.0), "link {}: {} after {last:?}", link.0, p.seq.0);
            *last = Some(p.seq.0);
            let d = &mut self.delivered[link.index()];
            *d = (d.0 + 1, d.1 + u64::from(p.size));
            self.story.push((self.now, link.0, p.seq.0, None));
        }
        for (link, id, reason) in self.out.dropped.drain(..) {
            let p = self.pool.remove(id);
            assert_eq!(p.flow.0, link.0, "dropped on another link");
            let d = &mut self.dropped[link.index()];
            *d = (d.0 + 1, d.1 + u64::from(p.size));
            self.story.push((self.now, link.0, p.seq.0, Some(reason)));
        }
    }

    /// Whatever waits has a deadline, and time moves on.
    fn step(&mut self) {
        let at = self.channel.deadline().as_ns();
        assert!(at >= self.now && at < u64::MAX);
        self.at_now = if at == self.now { self.at_now + 1 } else { 0 };
        assert!(self.at_now < 100, "no progress at {at} ns");
        self.now = at;
        self.channel.on_deadline(Time::from_ns(at), &mut self.pool, &mut self.out);
        self.take();
    }

    fn is_waiting(&self) -> bool {
        (0..self.sent.len() as u32).any(|l| self.channel.stats(AirLinkId(l), Time::from_ns(self.now)).held_packets > 0)
    }

    fn run_until(&mut self, until: u64) {
        loop {
            assert!(!self.is_waiting() || self.channel.deadline() < NEVER, "packets wait, and nothing is due");
            self.check_airtime();
            if self.channel.deadline().as_ns() > until {
                self.now = until;
                return;
            }
            self.step();
        }
    }

    /// AQL: what is booked is what is below the queues, and never more than the bound and one
    /// packet.
    fn check_airtime(&self) {
        let c = &self.channel.mac;
        let mut booked = vec![Span::ZERO; c.radios.len()];
        for (id, s) in c.sessions.iter().enumerate() {
            let from = c.links[s.link.index()].from.index();
            let formed = c.radios[from].queues.iter().flat_map(|q| &q.formed).filter(|p| p.session.index() == id);
            let mpdus = s.unsent.iter().chain(&s.retransmissions).chain(formed.flat_map(|p| &p.mpdus));
            let sum = mpdus.fold(Span::ZERO, |sum, m| sum + m.airtime());
            booked[from] += sum;
            let now = c.links[s.link.index()].sessions.map(|now| now.is_some_and(|now| now.index() == id));
            let Some(ac) = Ac::ALL.into_iter().find(|ac| now[ac.index()]) else { continue };
            if let AnyTransmit::Mac80211(path) = &c.transmits[from] {
                assert_eq!(path.pending_of(ac, s.receiver), sum);
            }
            if let TransmitConfig::Mac80211(path) = &c.radios[from].config.transmit {
                if path.has_aql() {
                    // The slowest mode there is, 1500 bytes at 1 Mbit/s.
                    assert!(sum <= path.aql_high + Span::from_ms(12));
                }
            }
        }
        for (transmit, booked) in c.transmits.iter().zip(booked) {
            assert_eq!(pending(transmit), booked);
        }
    }

    /// Until nothing is left; then every packet has been delivered once or dropped once.
    fn drain(&mut self) {
        while self.channel.deadline() < NEVER {
            self.check_airtime();
            self.step();
        }
        assert!(self.pool.is_empty(), "{} packets are lost without a word", self.pool.len());
        for l in 0..self.sent.len() {
            let s = self.channel.stats(AirLinkId(l as u32), Time::from_ns(self.now));
            assert_eq!((s.held_packets, s.held_bytes), (0, 0), "link {l}");
            assert_eq!((s.arrived_packets, s.arrived_bytes), (u64::from(self.sent[l]), self.sent_bytes[l]));
            assert_eq!((s.delivered_packets, s.delivered_bytes), self.delivered[l]);
            assert_eq!(
                s.dropped_overflow
                    + s.dropped_early
                    + s.filtered
                    + s.dropped_retries
                    + s.dropped_late
                    + s.lost_collision
                    + s.lost_errors,
                self.dropped[l].0,
                "link {l}: {s:?}"
            );
            assert_eq!(self.delivered[l].0 + self.dropped[l].0, u64::from(self.sent[l]));
            assert_eq!(self.delivered[l].1 + self.dropped[l].1, self.sent_bytes[l]);
        }
        let released: u32 = self.out.released.iter().map(|r| u32::try_from(r.payload_bytes).unwrap()).sum();
        assert_eq!(released, PAYLOAD * self.sent.iter().sum::<u32>(), "each release is told once");
        assert!(self.channel.medium.under_way().next().is_none());
        for radio in &self.channel.mac.radios {
            assert!(radio.queues.iter().all(|q| q.driver_count == 0 && q.formed.is_empty()));
        }
    }
}

pub(super) fn errors(rate: f64) -> SignalConfig {
    if rate == 0.0 {
        return SignalConfig::default();
    }
    SignalConfig::ErrorRate(ErrorRateConfig { rate: Some(Probability::new(rate).unwrap()), rates: None, bytes: 1538 })
}

fn any_radio() -> impl Strategy<Value = RadioConfig> {
    let standard = prop_oneof![
        1 => Just(Standard::B),
        1 => Just(Standard::G),
        4 => Just(Standard::N),
        2 => Just(Standard::Ac),
    ];
    let aggregation = (any::<bool>(), 1..=64u16, 1_000..70_000u32, 300..6_000u64, 1..=64u16, 0..=3u8).prop_map(
        |(some, max_frames, max_bytes, us, window, formed_ahead)| Aggregation {
            enabled: some || formed_ahead > 0,
            max_frames,
            max_bytes: Some(max_bytes),
            max_duration: Span::from_us(us),
            window,
            formed_ahead: Some(formed_ahead),
        },
    );
    let retries = (1..40u8, any::<bool>(), 1..=13u8, 1..=7u8, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(software, handings, hardware_tries, frame_tries, asks, bar, by_rate)| Retries {
            tcp_limit: by_rate.then(RetryOutConfig::default),
            on_missed: if asks { OnMissed::Bar } else { OnMissed::Repeat },
            software,
            counts: if handings { RetryCount::Handings } else { RetryCount::Transmissions },
            hardware_tries,
            frame_tries,
            on_give_up: if bar { OnGiveUp::Bar } else { OnGiveUp::Silence },
        },
    );
    let transmit = prop_oneof![
        (1..200u32)
            .prop_map(|driver_frames| TransmitConfig::Qdisc(QdiscConfig { driver_frames, ..QdiscConfig::default() })),
        (any::<[bool; 4]>(), 1..600u32).prop_map(
            |([aql, airtime_fairness, airtime_received, pulls], driver_frames)| {
                let base =
                    Mac80211Config { airtime_fairness, airtime_received, driver_frames, ..Mac80211Config::default() };
                let driver = Driver::Mt76;
                let path = if pulls { base } else { Mac80211Config { driver, aql: Some(aql), ..base } };
                TransmitConfig::Mac80211(path)
            }
        ),
    ];
    let reorder = (1..=128u16, any::<bool>(), prop::option::of(1..5u32)).prop_map(|(window, obey_bar, index)| {
        let retry_out = index.map(|index| RetryOutConfig::Fixed(crate::wifi::retry_out::fixed::FixedConfig { index }));
        ReorderConfig { window, obey_bar, retry_out, ..ReorderConfig::default() }
    });
    let rest = (any::<bool>(), any::<bool>(), prop_oneof![Just(u32::MAX), Just(0), Just(1000)], 0..3u8, 0..3u64);
    (standard, aggregation, retries, transmit, reorder, rest).prop_map(
        |(standard, aggregation, retries, transmit, reorder, (qos, eifs, rts_threshold_bytes, rate, late))| {
            let mut phy = PhyConfig::of(standard);
            phy.band = Some(crate::wifi::phy::Band::Ghz2);
            if standard == Standard::Ac {
                phy.band = None;
            }
            let mut config = RadioConfig {
                ack: (rate == 2).then_some(false),
                qos: qos.then_some(true),
                eifs,
                rts_threshold_bytes,
                rate_control: (rate > 0).then(|| RateConfig::Fixed(FixedConfig::default())),
                aggregation,
                retries,
                transmit,
                tx_completion: TxCompletion { delay: Span::from_ms(late), batch: Span::from_us(300 * late) },
                reorder_buffer: reorder,
                phy,
            };
            config.aggregation.enabled &= config.acks();
            config.check().expect("valid");
            config
        },
    )
}

fn any_wavelan() -> impl Strategy<Value = RadioConfig> {
    let windows = (0..40u32, 0..40u32, 0..300u32, 0..5u8, any::<bool>(), 1..60u32);
    (1..30u64, 0..80u64, 0..200u64, windows).prop_map(
        |(slot, space, preamble, (cw_min, cw_next, more, attempts, freezes, limit))| {
            let us = Span::from_us;
            let wavelan = WavelanConfig {
                slot: us(slot),
                interframe_space: us(space),
                preamble: us(preamble),
                cw_min,
                cw_max: cw_min.max(cw_next) + more,
                cw_next,
                attempts,
                backoff: if freezes { Backoff::Freeze } else { Backoff::Resense },
            };
            let mut config = RadioConfig::of(PhyConfig { wavelan: Some(wavelan), ..PhyConfig::of(Standard::Wavelan) });
            let qdisc = QueueConfig::Fifo(FifoConfig { limit_packets: Some(limit), limit_bytes: None });
            config.transmit =
                TransmitConfig::Qdisc(QdiscConfig { qdisc, driver_frames: 1 + limit % 3, orphans: false });
            config.check().expect("valid");
            config
        },
    )
}

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub ap: RadioConfig,
    pub stations: Vec<(RadioConfig, f64)>,
    pub hidden: bool,
    pub sensing_us: u64,
    pub capture: f64,
    pub seed: u64,
    /// Time to the next burst in us, link, category, kind, bytes, packets.
    pub bursts: Vec<(u64, u32, u8, u8, u16, u16)>,
}

pub(super) fn any_plan() -> impl Strategy<Value = Plan> {
    prop_oneof![3 => plan_of(any_radio().boxed()), 1 => plan_of(any_wavelan().boxed())]
}

fn plan_of(radio: BoxedStrategy<RadioConfig>) -> impl Strategy<Value = Plan> {
    let rate = prop_oneof![Just(0.0), 0.01..0.9f64];
    let bursts = prop::collection::vec((0..20_000u64, 0..6u32, 0..4u8, 0..3u8, 40..=1500u16, 1..60u16), 1..25);
    let capture = prop_oneof![2 => Just(0.0), 1 => 0.0..=1.0f64];
    let air = (any::<bool>(), 0..3u64, capture);
    (radio.clone(), prop::collection::vec((radio, rate), 1..=3), air, any::<u64>(), bursts)
        .prop_map(|(ap, stations, (hidden, sensing, capture), seed, bursts)| Plan {
            sensing_us: if ap.acks() { 4 } else { 20 } * sensing,
            ap,
            stations,
            hidden,
            capture,
            seed,
            bursts,
        })
        // One band.
        .prop_filter("radios of one band", |p| p.stations.iter().all(|(s, _)| s.phy.band() == p.ap.phy.band()))
}

pub(super) const ACS: [Ac; 4] = [Ac::Bk, Ac::Be, Ac::Vi, Ac::Vo];
pub(super) const KINDS: [Kind; 3] = [Kind::Tcp, Kind::Udp, Kind::EchoRequest];

fn play(plan: &Plan) -> Watch {
    let n = plan.stations.len() as u16;
    let mut radios: Vec<Arc<RadioConfig>> = plan.stations.iter().map(|(r, _)| Arc::new(r.clone())).collect();
    radios.push(Arc::new(plan.ap.clone()));
    let pair = |s: u16| PairConfig::fixed(s, n, errors(plan.stations[usize::from(s)].1));
    let mut w = Watch::new(&ChannelConfig {
        radios,
        pairs: (0..n).map(pair).collect(),
        groups: Vec::new(),
        hidden: ids(if plan.hidden {
            (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect()
        } else {
            Vec::new()
        }),
        sensing: Span::from_us(plan.sensing_us),
        capture_effect: Probability::new(plan.capture).unwrap(),
        seed: plan.seed,
        index: 0,
        trace: TraceConfig { ppdus: true, frames: true },
    });
    for &(us, link, ac, kind, bytes, packets) in &plan.bursts {
        w.run_until(w.now + us * 1_000);
        for _ in 0..packets {
            w.send(link % (2 * u32::from(n)), ACS[usize::from(ac)], KINDS[usize::from(kind)], bytes);
        }
    }
    w.drain();
    w
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Every packet is delivered once or dropped once, in order, whatever is lost; there is always
    /// something due while anything waits; and the same seed tells the same story.
    // [IEEE80211-10.3.2.14-1]
    #[test]
    fn every_packet_has_one_fate(plan in any_plan()) {
        let w = play(&plan);
        let again = play(&plan);
        prop_assert_eq!(&w.story, &again.story);
        prop_assert_eq!(w.channel.mac.ppdus.len(), again.channel.mac.ppdus.len());
        for p in &w.channel.mac.ppdus {
            let from = if p.link.is_down() { &plan.ap } else { &plan.stations[p.link.index() / 2].0 };
            let most = if from.aggregates() { from.aggregation.max_frames } else { 1 };
            prop_assert!(p.mpdus <= most);
            prop_assert!(p.mpdus <= 1 || p.psdu_bytes <= from.aggregation.max_bytes.unwrap());
            prop_assert!(p.mpdus <= 1 || p.end.since(p.start) <= from.aggregation.max_duration);
            prop_assert!(p.received + p.header_ok <= p.mpdus.max(1));
        }
        for (_, link, _, fate) in &w.story {
            let from = if link & 1 == 1 { &plan.ap } else { &plan.stations[(link / 2) as usize].0 };
            match fate {
                Some(DropReason::Collision | DropReason::Errors) => prop_assert!(!from.acks()),
                Some(DropReason::RetryLimit) if !from.acks() => {
                    // An RTS in vain as often as may be, or the medium found busy.
                    prop_assert!(from.rts_threshold_bytes < u32::MAX || from.phy.standard == Standard::Wavelan)
                }
                _ => {}
            }
        }
        // Without retry-out a packet is late only after the reorder timeout, or after the window
        // moved on.
        let remedy = w.channel.mac.sessions.iter().any(|s| s.recipient.as_ref().is_some_and(|r| r.stats().given_up > 0));
        let holes: u64 = w.channel.mac.sessions.iter().filter_map(|s| s.recipient.as_ref()).map(|r| r.stats().lost).sum();
        let late = w.story.iter().filter(|s| s.3 == Some(DropReason::Late)).count();
        prop_assert!(late == 0 || remedy || holes > 0);
    }

    /// Without errors the remedy changes nothing.
    #[test]
    fn without_errors_retry_out_changes_nothing(mut plan in any_plan()) {
        plan.hidden = false;
        for (radio, rate) in &mut plan.stations {
            *rate = 0.0;
            radio.reorder_buffer.retry_out = None;
        }
        plan.ap.reorder_buffer.retry_out = None;
        let without = play(&plan).story;
        for (radio, _) in &mut plan.stations {
            radio.reorder_buffer.retry_out = Some(RetryOutConfig::default());
        }
        plan.ap.reorder_buffer.retry_out = Some(RetryOutConfig::default());
        prop_assert_eq!(without, play(&plan).story);
    }

    /// Pings are never given up by the remedy: without a reorder timeout and without give-ups none
    /// is ever late.
    #[test]
    fn the_remedy_spares_pings(seed: u64, rate in 0.05..0.7f64, index in 1..4u32, ahead in 0..=3u8) {
        let retry_out = Some(RetryOutConfig::Fixed(crate::wifi::retry_out::fixed::FixedConfig { index }));
        let mut radio = radio(Standard::N, FixedConfig { mcs: Some(7), ..FixedConfig::default() });
        radio.reorder_buffer = ReorderConfig { retry_out, timeout: Span::MAX, ..ReorderConfig::default() };
        radio.aggregation.formed_ahead = Some(ahead);
        radio.retries.software = 255;
        radio.retries.counts = RetryCount::Handings;
        let bursts = (0..20).map(|i| (2_000, 0, 1, if i % 2 == 0 { 0 } else { 2 }, 1400, 30)).collect();
        let plan = Plan { ap: radio.clone(), stations: vec![(radio, rate)], hidden: false, sensing_us: 0, capture: 0.0, seed, bursts };
        let w = play(&plan);
        for (i, &(_, _, number, fate)) in w.story.iter().enumerate() {
            let is_tcp = (number >> 2) / 30 % 2 == 0;
            prop_assert!(fate.is_none() || is_tcp, "{i}: {number} {fate:?}");
        }
    }
}

// [IEEE80211-10.25.6.7-1]
#[test]
fn sequence_numbers_come_round_in_order_with_losses() {
    for (rate, ahead, us) in [(0.2, 0, 80_000), (0.2, 2, 80_000), (0.5, 3, 200_000)] {
        let mut radio = radio(Standard::N, FixedConfig { mcs: Some(7), ..FixedConfig::default() });
        radio.aggregation = Aggregation { max_frames: 64, formed_ahead: Some(ahead), ..Aggregation::default() };
        radio.retries.software = 255;
        radio.retries.counts = RetryCount::Handings;
        radio.reorder_buffer.timeout = Span::MAX;
        let bursts = (0..50).map(|_| (us, 0, 1, 1, 1500, 200)).collect();
        let plan = Plan {
            ap: radio.clone(),
            stations: vec![(radio, rate)],
            hidden: false,
            sensing_us: 0,
            capture: 0.0,
            seed: 3,
            bursts,
        };
        let w = play(&plan);
        // 10 000 MPDUs: twice round; order was checked on the way.
        assert_eq!(w.delivered[0].0, 10_000, "at an error rate of {rate}");
        let next = w.channel.mac.sessions[0].next_sn;
        assert_eq!(next.get(), 10_000 % 4096);
    }
}
