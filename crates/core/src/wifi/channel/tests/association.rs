//! Associations that end and begin: whatever is on its way then has one fate.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::properties::{ACS, KINDS, Plan, any_plan, errors};
use super::*;
use crate::wifi::phy::{ErrorRateConfig, PathLossConfig, Track};
use crate::wifi::trace::FrameRecord;

const UP: u32 = 0;
const DOWN: u32 = 1;

/// The first station comes and goes; what is handed back goes in again.
struct Visit {
    channel: Channel,
    pool: Pool,
    out: AirOutputs,
    now: u64,
    sent: u32,
    /// By number: when and why, if it was dropped.
    fates: BTreeMap<u32, (u64, Option<DropReason>)>,
    delivered: Vec<Vec<u32>>,
    /// Packets that the access point has handed back while the station is not associated.
    held: Vec<PacketId>,
    handed_back: u64,
    released: u64,
    /// When associations began.
    begun: Vec<u64>,
}

impl Visit {
    fn new(config: &ChannelConfig) -> Visit {
        Visit {
            channel: Channel::new(config),
            pool: Pool::default(),
            out: AirOutputs::default(),
            now: 0,
            sent: 0,
            fates: BTreeMap::new(),
            delivered: vec![Vec::new(); 2 * config.pairs.len()],
            held: Vec::new(),
            handed_back: 0,
            released: 0,
            begun: Vec::new(),
        }
    }

    /// One station and its access point, alike.
    fn of_one(radio: RadioConfig, signal: SignalConfig, roams: Roams) -> Visit {
        let radio = Arc::new(radio);
        let pair = PairConfig { roams: Some(roams), ..PairConfig::fixed(0, 1, signal) };
        Visit::new(&ChannelConfig {
            radios: vec![radio; 2],
            pairs: vec![pair],
            groups: Vec::new(),
            hidden: Vec::new(),
            sensing: Span::ZERO,
            capture_effect: Probability::ZERO,
            seed: 3,
            index: 0,
            trace: TraceConfig { ppdus: true, frames: true },
        })
    }

    fn send(&mut self, link: u32, ac: Ac, kind: Kind, bytes: u16) {
        let mut p = Packet::new(FlowId(link), kind, 0);
        p.size = bytes;
        p.len = 1;
        p.seq = crate::units::Seq32(self.sent << 2 | ac as u32);
        self.sent += 1;
        let id = self.pool.insert(p);
        self.enqueue(link, id);
        self.take();
    }

    fn enqueue(&mut self, link: u32, id: PacketId) {
        let ac = ACS[(self.pool[id].seq.0 & 3) as usize];
        self.channel.enqueue(Time::from_ns(self.now), AirLinkId(link), id, ac, true, &mut self.pool, &mut self.out);
    }

    fn settle(&mut self, id: PacketId, fate: Option<DropReason>) -> u32 {
        let p = self.pool.remove(id);
        let number = p.seq.0 >> 2;
        let before = self.fates.insert(number, (self.now, fate));
        assert!(before.is_none(), "{number} has two fates: {before:?} and {fate:?}");
        number
    }

    fn take(&mut self) {
        while !self.out.is_empty() {
            let out = std::mem::take(&mut self.out);
            for (link, id) in out.delivered {
                assert_eq!(self.pool[id].flow.0, link.0);
                let number = self.settle(id, None);
                self.delivered[link.index()].push(number);
            }
            for (_, id, reason) in out.dropped {
                self.settle(id, Some(reason));
            }
            self.released += out.released.iter().map(|r| u64::from(r.packets)).sum::<u64>();
            for (link, id) in out.handed_back {
                self.handed_back += 1;
                let link = link.0;
                if link == UP || self.channel.is_associated(PairId(0)) {
                    self.enqueue(link, id);
                } else {
                    self.held.push(id);
                }
            }
        }
    }

    fn change(&mut self) {
        if self.channel.is_associated(PairId(0)) {
            self.channel.disassociate(Time::from_ns(self.now), PairId(0), &mut self.pool, &mut self.out);
        } else {
            self.begun.push(self.now);
            self.channel.associate(Time::from_ns(self.now), PairId(0), &mut self.pool, &mut self.out);
            for id in std::mem::take(&mut self.held) {
                self.enqueue(DOWN, id);
            }
        }
        self.take();
    }

    fn run_until(&mut self, until: u64) {
        while self.channel.deadline().as_ns() <= until {
            assert!(self.channel.deadline().as_ns() >= self.now);
            self.now = self.channel.deadline().as_ns();
            self.channel.on_deadline(Time::from_ns(self.now), &mut self.pool, &mut self.out);
            self.take();
        }
        self.now = self.now.max(until.min(u64::MAX - 1));
    }

    fn drain(&mut self) {
        while self.channel.deadline() < NEVER {
            self.run_until(self.channel.deadline().as_ns());
        }
    }

    fn count(&self, fate: Option<DropReason>) -> usize {
        self.fates.values().filter(|f| f.1 == fate).count()
    }

    /// True if the recipient had a reason to hold this frame until it was lost: an earlier frame of
    /// the same association was missing. That frame has a lower number, was sent before, and had
    /// not arrived by then.
    fn has_a_cause(&self, held: &FrameRecord, lost: u64) -> bool {
        let begun = *self.begun.iter().rfind(|&&at| at <= held.time.as_ns()).expect("no frames without association");
        let ends = (held.from, held.to);
        let of_the_session = |f: &&FrameRecord| {
            f.ac == held.ac
                && f.time.as_ns() >= begun
                && f.time <= held.time
                && [ends, (ends.1, ends.0)].contains(&(f.from, f.to))
        };
        let mut rts_in_vain = false;
        let mut open = false;
        for f in self.channel.mac.frames.iter().filter(of_the_session) {
            let is_own = (f.from, f.to) == ends;
            match f.kind {
                // No CTS came back for the one before.
                FrameKind::Rts if is_own => rts_in_vain |= std::mem::replace(&mut open, true),
                FrameKind::Cts if !is_own && f.fcs_ok => open = false,
                FrameKind::Data if is_own && f.sn < held.sn && !f.fcs_ok => {
                    let Some(p) = f.packet else { continue };
                    let (at, fate) = self.fates[&(p.seq.0 >> 2)];
                    // If it was handed back, it has its fate later, or at once where the queue has
                    // no room for it.
                    if at > lost || !matches!(fate, None | Some(DropReason::Late | DropReason::Gone)) {
                        return true;
                    }
                }
                _ => {}
            }
        }
        rts_in_vain || open
    }

    /// Nothing is anywhere, and the counters know where it went.
    fn check_the_end(&self) {
        assert_eq!(self.fates.len(), self.sent as usize, "each packet has a fate");
        assert!(self.pool.is_empty());
        assert_eq!(self.released, u64::from(self.sent), "hosts hold nothing any more");
        for link in 0..self.delivered.len() as u32 {
            let s = self.channel.stats(AirLinkId(link), Time::from_ns(self.now));
            assert_eq!((s.held_packets, s.held_bytes), (0, 0));
            let lost = s.dropped_retries + s.lost_collision + s.lost_errors + s.dropped_late + s.dropped_gone;
            let dropped = s.dropped_overflow + s.dropped_early;
            assert_eq!(s.arrived_packets, s.delivered_packets + lost + dropped + s.handed_back, "link {link}");
        }
        assert!(self.channel.mac.transmits.iter().all(|t| pending(t).is_zero()));
        for radio in &self.channel.mac.radios {
            assert!(radio.queues.iter().all(|q| q.driver_count == 0));
        }
    }
}

fn any_roams() -> impl Strategy<Value = Roams> {
    let station_queue = prop_oneof![Just(StationQueue::Keep), Just(StationQueue::Drop)];
    let ap_queue = prop_oneof![Just(ApQueue::Drop), Just(ApQueue::Forward)];
    (station_queue, ap_queue).prop_map(|(station_queue, ap_queue)| Roams { station_queue, ap_queue })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whenever the station comes and goes, whatever the radios are set to, and whatever is lost.
    #[test]
    fn every_packet_has_one_fate_however_often_the_station_leaves(
        plan in any_plan(), roams in any_roams(), changes in prop::collection::vec((0..20_000u64, 1..4usize), 1..12),
    ) {
        let Plan { ap, stations, hidden, sensing_us, capture, seed, bursts } = &plan;
        let n = stations.len() as u16;
        let mut radios: Vec<Arc<RadioConfig>> = stations.iter().map(|(r, _)| Arc::new(r.clone())).collect();
        radios.push(Arc::new(ap.clone()));
        let pair = |s: u16| {
            let fixed = PairConfig::fixed(s, n, errors(stations[usize::from(s)].1));
            PairConfig { roams: (s == 0).then_some(roams), ..fixed }
        };
        let mut v = Visit::new(&ChannelConfig {
            radios,
            pairs: (0..n).map(pair).collect(),
            groups: Vec::new(),
            hidden: ids(if *hidden { (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect() } else { Vec::new() }),
            sensing: Span::from_us(*sensing_us),
            capture_effect: Probability::new(*capture).unwrap(),
            seed: *seed,
            index: 0,
            trace: TraceConfig { ppdus: true, frames: true },
        });
        let mut changes = changes.iter().cycle();
        for (i, &(us, link, ac, kind, bytes, packets)) in bursts.iter().enumerate() {
            let &(after, every) = changes.next().unwrap();
            v.run_until(v.now + us * 1_000);
            for _ in 0..packets {
                let link = link % (2 * u32::from(n));
                v.send(link, ACS[usize::from(ac)], KINDS[usize::from(kind)], bytes);
            }
            if i % every == 0 {
                v.run_until(v.now + after * 1_000);
                v.change();
            }
        }
        if !v.channel.is_associated(PairId(0)) {
            v.change();
        }
        v.drain();
        v.check_the_end();
        if roams.station_queue == StationQueue::Keep && roams.ap_queue == ApQueue::Forward {
            // All that is lost then was in a reorder buffer: it had arrived, and one before it had
            // not. Errors or a collision had taken that one, or its RTS or CTS.
            let frames = &v.channel.mac.frames;
            for (&number, &(at, _)) in v.fates.iter().filter(|(_, f)| f.1 == Some(DropReason::Gone)) {
                let carries = |f: &&FrameRecord| f.fcs_ok && f.packet.is_some_and(|p| p.seq.0 >> 2 == number);
                let held = frames.iter().find(carries);
                prop_assert!(held.is_some(), "{number} had not arrived");
                let held = held.unwrap();
                prop_assert!(v.has_a_cause(held, at), "{number} was held for want of nothing");
                let s = v.channel.stats(AirLinkId(if held.from == RadioId(0) { UP } else { DOWN }), Time::from_ns(v.now));
                prop_assert!(s.mpdus_failed + s.rts_unanswered > 0, "{s:?}");
            }
        }
    }
}

fn g(rate: &str) -> RadioConfig {
    radio(Standard::G, FixedConfig { rate: Some(rate.parse().unwrap()), ..FixedConfig::default() })
}

const KEEP: Roams = Roams { station_queue: StationQueue::Keep, ap_queue: ApQueue::Forward };
const DROP: Roams = Roams { station_queue: StationQueue::Drop, ap_queue: ApQueue::Drop };

#[test]
fn nothing_moves_before_the_first_association() {
    for (roams, dropped) in [(KEEP, 0), (DROP, 10)] {
        let mut v = Visit::of_one(g("54Mbit/s"), SignalConfig::default(), roams);
        for _ in 0..5 {
            v.send(UP, Ac::Be, Kind::Udp, 1500);
            v.send(DOWN, Ac::Be, Kind::Udp, 1500);
        }
        v.run_until(SECOND);
        assert_eq!(v.count(Some(DropReason::Gone)), dropped, "{roams:?}");
        assert_eq!(v.count(None), 0);
        v.change();
        v.drain();
        assert_eq!(v.count(None), 10 - dropped);
        v.check_the_end();
    }
}

#[test]
fn the_frame_on_the_air_gets_through_and_the_rest_is_kept_or_dropped() {
    // One frame of 1500 bytes at 6 Mbit/s takes 2 ms: the first is on the air when the station
    // leaves, nine wait.
    for (link, roams, gone) in [(UP, KEEP, 0), (UP, DROP, 9), (DOWN, KEEP, 0), (DOWN, DROP, 9)] {
        for mac80211 in [false, true] {
            let mut radio = g("6Mbit/s");
            if mac80211 {
                radio.transmit = TransmitConfig::Mac80211(Mac80211Config::default());
            }
            let mut v = Visit::of_one(radio, SignalConfig::default(), roams);
            v.change();
            for _ in 0..10 {
                v.send(link, Ac::Be, Kind::Udp, 1500);
            }
            v.run_until(MS);
            v.change();
            // A queue that an access point has for all is not searched: what comes out of it is
            // turned away in its turn.
            v.run_until(100 * MS);
            assert_eq!(v.delivered[link as usize], [0], "{link} {roams:?}");
            assert_eq!(v.count(Some(DropReason::Gone)), gone, "{link} {roams:?}");
            assert_eq!(v.handed_back, 9 - gone as u64);
            v.change();
            v.drain();
            assert_eq!(v.delivered[link as usize].len(), 10 - gone);
            assert!(v.delivered[link as usize].is_sorted(), "what is kept keeps its order");
            v.check_the_end();
        }
    }
}

// [IEEE80211-10.25.2-1]
#[test]
fn block_ack_starts_anew() {
    let mut radio = radio(Standard::N, FixedConfig { mcs: Some(3), ..FixedConfig::default() });
    radio.aggregation = Aggregation { max_frames: 64, ..Aggregation::default() };
    let lossy = ErrorRateConfig { rate: Some(Probability::new(0.3).unwrap()), rates: None, bytes: 1538 };
    let mut v = Visit::of_one(radio, SignalConfig::ErrorRate(lossy), KEEP);
    for round in 0..20 {
        v.change();
        let first = v.channel.mac.frames.len();
        // Fewer than the queue has room for in all rounds.
        for _ in 0..30 {
            v.send(UP, Ac::Be, Kind::Tcp, 1500);
        }
        v.run_until(v.now + 7 * MS);
        // Numbers of both ends begin at 0 with each association.
        let begin = v.channel.mac.frames[first..].iter().find(|f| f.kind == FrameKind::Data).unwrap();
        assert_eq!(begin.sn, 0, "round {round}");
        v.change();
        // Exchanges under way end.
        v.run_until(v.now + 20 * MS);
    }
    v.change();
    v.drain();
    let gone = v.count(Some(DropReason::Gone));
    assert!(gone > 0, "some were held back for want of one before");
    // No number of an old agreement is held against a new one: none is late, and whatever was not
    // held back gets through.
    assert_eq!(v.count(None), 600 - gone);
    v.check_the_end();
}

#[test]
fn a_queue_for_all_stations_lets_others_through_and_serves_who_comes_back() {
    let radio = Arc::new(g("6Mbit/s"));
    let pairs = vec![
        PairConfig { roams: Some(DROP), ..PairConfig::fixed(0, 2, SignalConfig::default()) },
        PairConfig::fixed(1, 2, SignalConfig::default()),
    ];
    let mut one_frame = g("6Mbit/s");
    one_frame.transmit = TransmitConfig::Qdisc(QdiscConfig { driver_frames: 1, ..QdiscConfig::default() });
    let mut v = Visit::new(&ChannelConfig {
        radios: vec![radio.clone(), radio, Arc::new(one_frame)],
        pairs,
        groups: Vec::new(),
        hidden: Vec::new(),
        sensing: Span::ZERO,
        capture_effect: Probability::ZERO,
        seed: 3,
        index: 0,
        trace: TraceConfig::default(),
    });
    v.change();
    for _ in 0..10 {
        v.send(DOWN, Ac::Be, Kind::Udp, 1500);
        v.send(3, Ac::Be, Kind::Udp, 1500);
    }
    v.run_until(MS);
    v.change();
    // Nothing was searched for: what is in the queue is still there.
    assert_eq!(v.count(Some(DropReason::Gone)), 0);
    v.run_until(11 * MS);
    let gone = v.count(Some(DropReason::Gone));
    assert!((3..=5).contains(&gone), "{gone}");
    v.change();
    v.drain();
    assert_eq!(v.delivered[3].len(), 10);
    assert_eq!(v.delivered[1].len(), 10 - gone, "the rest found it back");
    v.check_the_end();
}

#[test]
fn path_loss_follows_the_walk() {
    let path_loss = PathLossConfig { exponent: 4.0, ..PathLossConfig::default() };
    let track = Arc::new(Track::new(&[[1.0, 0.0], [100.0, 0.0]], 1.0, crate::units::Time::ZERO, false));
    let radio = Arc::new(g("54Mbit/s"));
    let fixed = PairConfig::fixed(0, 1, SignalConfig::PathLoss(path_loss.clone()));
    let mut channel = Channel::new(&ChannelConfig {
        radios: vec![radio; 2],
        pairs: vec![PairConfig { motion: Some(Motion { track, from_m: [0.0, 0.0] }), ..fixed }],
        groups: Vec::new(),
        hidden: Vec::new(),
        sensing: Span::ZERO,
        capture_effect: Probability::ZERO,
        seed: 3,
        index: 0,
        trace: TraceConfig::default(),
    });
    for metres in [1u64, 2, 10, 100] {
        let band = crate::wifi::phy::Band::Ghz2;
        let now = (metres - 1) * SECOND;
        let want = path_loss.received_dbm(metres as f64, band);
        assert!((channel.received_dbm(PairId(0), Time::from_ns(now)) - want).abs() < 1e-4, "{metres} m");
        assert!(
            (f64::from(channel.snr_db(AirLinkId(0), Time::from_ns(now))) - path_loss.snr_db(metres as f64, band)).abs()
                < 1e-4
        );
    }
    // Ten times the distance: 40 dB.
    assert!(
        (channel.received_dbm(PairId(0), Time::from_ns(9 * SECOND))
            - channel.received_dbm(PairId(0), Time::from_ns(99 * SECOND))
            - 40.0)
            .abs()
            < 1e-4
    );
}
