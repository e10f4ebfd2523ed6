//! Links: transmission at the line's rate, then propagation; a queue in front.
//!
//! A drop-tail FIFO needs no events of its own. When a packet arrives it is known when the line
//! will be free for it. So its arrival at the far end can be scheduled at once ([`Line::accept`]).
//! Packets that wait are remembered by their start times, so that occupancy, drops and averages are
//! exact at any instant. Every other discipline, and every link that is captured, goes through its
//! [`airtcp_core::queue::Aqm`] packet by packet ([`Queued`]).
//!
//! **Ties.** When a packet comes to a full queue in the very nanosecond in which another leaves it,
//! a coin decides which is first ([`Links::departs_first`]). In a network of round numbers such
//! ties are no accident: a flow that sends at exactly the rate of the line sets the phase of the
//! departures, and with departures always first it would find room every time and everyone else
//! never (the phase effects of Floyd and Jacobson 1991, without the noise that ends them in real
//! networks and in simulators whose time is a floating-point number).
//!
//! **Fused links.** Where every packet on a link comes from one and the same link before it (the
//! access link of a host behind a bottleneck), the order on the second is that of the first. If the
//! second is also a drop-tail without limit, loss or capture, then all that will happen there is
//! known once a packet is put on the first line: [`Links::pass`] computes it ahead of time, and the
//! packet next arrives at the end of both. That saves an arrival of three on each way through a
//! dumbbell. A fused link's line and counters thus run ahead of the clock, by what is on the line
//! before it; [`Ahead`] collects from the packets in flight what has not happened yet, and
//! [`Links::totals`] takes it off, so that counters are those of any other link at any instant. A
//! link is not fused with one that is fused itself (one packet in flight tells one wait), nor where
//! it is slower than the one before, as a queue of any length could grow there.

mod ahead;
mod audit;
mod divide;
mod reordering;
mod stats;

pub(crate) use ahead::{Ahead, Until};
use reordering::Reordering;
use stats::{Counts, LinkExtras, LinkStats};

use std::collections::BTreeMap;

use airtcp_core::convert::{count, saturate32};
use airtcp_core::packet::PacketId;
use airtcp_core::prefetch::prefetch;
use airtcp_core::queue::{AnyQueue, DropReason, Hosts, QueueConfig, QueueContext};
use airtcp_core::rng::{Purpose, Rng, Stream, coin, stream};
use airtcp_core::units::{DataRate, Span, Time};
use rand::RngExt;

use crate::books::totals::LinkTotals;
use crate::engine::packets_in_flight::{DelayFifo, InFlight, MAX_FIFOS};
use crate::engine::timeline::GROUP;
use crate::engine::{QueueId, Ring};
use crate::path::{Hop, Next, Place};
use crate::spec::{LinkId, LinkSpec, RunSpec};

/// Bytes up to which a packet counts as small: ACKs, with all options.
const SMALL: u16 = 100;

/// Slowest link to be fused. No slower than the line before it, it keeps a packet waiting no longer
/// than its largest packet takes, 0.53 s.
const SLOWEST_FUSED: DataRate = DataRate::from_mbps(1);
/// Greatest delay of a fused link: with the wait and the transmission, [`InFlight::flight_ns`] has
/// room for it.
const LONGEST_FUSED: Span = Span::from_secs(3);

/// Kind of a link: where its packets wait, and who lets them depart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// A line behind a drop-tail queue: a departure is known when the packet arrives.
    DropTail(Departures),
    /// A line behind any other discipline, or one that is captured: [`Links::queued`] has its
    /// queue, and each departure is an event.
    Discipline,
    /// Through the air: a channel decides.
    Air,
}

/// How the departures of a drop-tail link are computed.
///
/// [`Departures::General`] is the specification, and right for every such link. The others leave
/// out what their links cannot have, and give the same times, fates and counters
/// (`world/departures.rs` holds them to it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Departures {
    /// Limit, loss and packets that wait are looked at for each packet.
    General,
    /// No limit, no loss, and nothing waits: the line alone is looked at. There are several such
    /// links with one rate and delay, which share FIFOs of packets in flight.
    Shared,
    /// The same, and [`LinkStats::waiting`] may hold packets.
    SharedBacklogged,
    /// Fused with the link before it: known when the packet enters that one.
    Fused,
    /// The same, and several such links behind one link share FIFOs of packets in flight.
    FusedShared,
}

impl LinkKind {
    /// Departures are known ahead of the clock, from those of the link before it.
    fn is_fused(self) -> bool {
        matches!(self, FUSED | FUSED_SHARED)
    }
}

const GENERAL: LinkKind = LinkKind::DropTail(Departures::General);
const SHARED: LinkKind = LinkKind::DropTail(Departures::Shared);
const SHARED_BACKLOGGED: LinkKind = LinkKind::DropTail(Departures::SharedBacklogged);
const FUSED: LinkKind = LinkKind::DropTail(Departures::Fused);
const FUSED_SHARED: LinkKind = LinkKind::DropTail(Departures::FusedShared);

/// State that every packet on a link touches: one cache line. [`LinkStats`] holds the rest.
#[derive(Debug)]
pub(crate) struct Line {
    /// When the line has sent all it has been given.
    free_at: Time,
    delay: Span,
    /// Transmission times of the two sizes seen last.
    tx: [Span; 2],
    tx_size: [u16; 2],
    /// Size of the packet on the line while `free_at` is in the future.
    in_service: u16,
    pub kind: LinkKind,
    /// Where in [`crate::engine::packets_in_flight::PacketsInFlight`] its packets go: links that
    /// are `Shared`, or `FusedShared`, share `fifo` for packets that did not wait, and the one
    /// after it for small ones; others have `fifo` for themselves.
    pub fifo: DelayFifo,
    /// Packets that are or will be transmitted.
    taken_packets: u64,
    taken_bytes: u64,
    /// Time to transmit them.
    taken_ns: u64,
}

/// Loss and reordering on a line.
#[derive(Debug)]
struct Impairments {
    /// Chance of loss.
    loss: f64,
    loss_rng: Rng,
    reordering: Option<Reordering>,
}

/// A link with a discipline of its own.
#[derive(Debug)]
pub(crate) struct Queued {
    pub link: LinkId,
    pub aqm: AnyQueue,
    pub capture: bool,
    /// The discipline has packets and hands none out: ask again after its own deadline, not when
    /// the line is free.
    pub held_back: bool,
    /// Up to when `LinkStats::wait_ns` is complete.
    counted_to: Time,
    /// Packets and bytes that arrived.
    arrived_packets: u64,
    arrived_bytes: u64,
}

/// Fate of a packet on its way into a drop-tail link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Reaches the far end at `time`; goes to that fifo.
    Arrives {
        time: Time,
        fifo: DelayFifo,
    },
    /// Reaches the far end at `time`, out of order.
    HeldBack {
        time: Time,
    },
    /// Is lost on the line, with the end of its transmission.
    Lost(Time),
    Dropped,
    /// Not drop-tail: goes to the link's own queue.
    Queued,
    /// Goes to the channel.
    Air,
}

#[derive(Debug, Default)]
pub(crate) struct Links {
    pub lines: Vec<Line>,
    pub stats: Vec<LinkStats>,
    pub queued: Vec<Queued>,
    has_fused: bool,
    /// For packets that have waited at links that share FIFOs.
    waited: DelayFifo,
    seed: u64,
    /// True while arrivals from other links are processed, before anything else of the instant.
    /// Packets that timers send come after the departures of the instant.
    pub before_departures: bool,
}

impl Links {
    /// True if a packet that leaves `link` at `now` does so before another one comes to it.
    pub(crate) fn departs_first(&self, link: LinkId, now: Time) -> bool {
        !self.before_departures || departs_first(self.seed, link, now)
    }

    /// `mtu`: size of a typical packet, for the disciplines.
    pub(crate) fn new(spec: &RunSpec, mtu: u32, capture: &[LinkId], record_drops: &[LinkId]) -> Links {
        let (links, seed) = (&spec.links, spec.seed);
        let hosts = Hosts::new(spec.flows.iter().map(|flow| (flow.from.0, flow.to.0)));
        let n = links.len();
        let mut all = Links {
            lines: Vec::with_capacity(n),
            stats: Vec::with_capacity(n),
            queued: Vec::new(),
            has_fused: false,
            waited: DelayFifo::NONE,
            seed,
            before_departures: false,
        };
        for (i, spec) in links.iter().enumerate() {
            let id = LinkId(count(i));
            let capture = capture.contains(&id);
            let mut extras = LinkExtras { rate_trace: spec.rate_trace.clone(), ..LinkExtras::default() };
            let mut kind = SHARED;
            let is_impaired = spec.loss.get() > 0.0 || spec.reorder.probability.get() > 0.0;
            match &spec.queue {
                _ if spec.air.is_some() => kind = LinkKind::Air,
                // When the line will be free depends on when a packet starts: a trace goes with a
                // queue of its own.
                QueueConfig::Fifo(fifo) if !capture && spec.rate_trace.is_none() => {
                    extras.limit_packets = fifo.limit_packets.map_or(usize::MAX, |n| n as usize);
                    extras.limit_bytes = fifo.limit_bytes.map_or(u64::MAX, |b| b.get());
                    if extras.limit_packets != usize::MAX || extras.limit_bytes != u64::MAX || is_impaired {
                        kind = GENERAL;
                    }
                }
                discipline => {
                    kind = LinkKind::Discipline;
                    extras.queued = Some(QueueId(count(all.queued.len())));
                    let stream = Stream::new(seed, i as u64, Purpose::Queue);
                    let hosts = hosts.clone();
                    let aqm = discipline.build(&QueueContext { rate: spec.rate, mtu, stream, hosts });
                    all.queued.push(Queued {
                        link: id,
                        aqm,
                        capture,
                        held_back: false,
                        counted_to: Time::ZERO,
                        arrived_packets: 0,
                        arrived_bytes: 0,
                    });
                }
            }
            extras.impairments = is_impaired.then(|| {
                let loss_rng = stream(seed, i as u64, Purpose::LinkLoss);
                Box::new(Impairments {
                    loss: spec.loss.get(),
                    loss_rng,
                    reordering: Reordering::new(&spec.reorder, seed, id),
                })
            });
            all.lines.push(Line {
                free_at: Time::ZERO,
                delay: spec.delay,
                tx: [Span::ZERO; 2],
                tx_size: [0; 2],
                in_service: 0,
                kind,
                fifo: DelayFifo::NONE,
                taken_packets: 0,
                taken_bytes: 0,
                taken_ns: 0,
            });
            all.stats.push(LinkStats {
                rate: spec.rate,
                waiting: Ring::default(),
                waiting_bytes: 0,
                record_drops: false,
                feeder: None,
                wait_ns: 0,
                max_queue: 0,
                max_queue_since: Time::ZERO,
                extras: matches!(kind, GENERAL | LinkKind::Discipline).then(|| Box::new(extras)),
            });
        }
        for id in record_drops {
            all.stats[id.0 as usize].record_drops = true;
        }
        all
    }

    /// Finds the links that can be fused with the one before them, and marks them ([`Hop::fused`])
    /// in `hops`.
    pub(crate) fn fuse(&mut self, links: &[LinkSpec], hops: &mut [Hop]) {
        /// For a link that packets enter at their source, or from several links.
        const NO_FEEDER: Hop = Hop::END;
        let mut feeders: Vec<Option<Hop>> = vec![None; links.len()];
        let mut before = NO_FEEDER;
        for &hop in hops.iter() {
            if !hop.is_end() {
                let feeder = feeders[hop.link().index()].get_or_insert(before);
                *feeder = if *feeder == before { before } else { NO_FEEDER };
            }
            before = hop;
        }
        // A link with a single feeder has it before it on every path, so that is decided first.
        for hop in hops.iter_mut().filter(|hop| !hop.is_end()) {
            let link = hop.link().index();
            let Some(feeder) = feeders[link].filter(|&f| f != NO_FEEDER).map(Hop::link) else { continue };
            let spec = &links[link];
            if matches!(self.lines[link].kind, SHARED | FUSED_SHARED)
                && !matches!(self.lines[feeder.index()].kind, FUSED_SHARED | LinkKind::Air)
                && self.stats[feeder.index()].reordering().is_none()
                && spec.rate >= links[feeder.index()].top_rate().max(SLOWEST_FUSED)
                && spec.delay <= LONGEST_FUSED
            {
                self.lines[link].kind = FUSED_SHARED;
                self.stats[link].feeder = Some(feeder);
                self.has_fused = true;
                *hop = hop.fused();
            }
        }
    }

    /// Gives FIFOs to the links that most packets in flight will be on, as far as `hops` tell;
    /// returns their number.
    pub(crate) fn assign_fifos(&mut self, links: &[LinkSpec], hops: &[Hop]) -> usize {
        // Arrivals at the far end, paths counted: none where the next link is fused with this one.
        let mut paths = vec![0u64; links.len()];
        for hop in hops.windows(2).filter(|w| !w[0].is_end() && !w[1].is_fused()) {
            paths[hop[0].link().index()] += 1;
        }
        // Where there are FIFOs for all, what waits need not go to the calendar.
        let is_small = links.iter().filter(|l| l.air.is_none()).count() <= MAX_FIFOS;
        let mut groups: BTreeMap<(DataRate, Span, Hop, Hop), Vec<usize>> = BTreeMap::new();
        for (i, (line, spec)) in self.lines.iter().zip(links).enumerate().filter(|(_, (_, spec))| spec.air.is_none()) {
            let (feeder, alone) = match line.kind {
                SHARED if !is_small => (Hop::END, Hop::END),
                FUSED_SHARED => (self.stats[i].feeder.map_or(Hop::END, Hop::of), Hop::END),
                _ => (Hop::END, Hop::of(LinkId(count(i)))),
            };
            groups.entry((spec.rate, spec.delay, feeder, alone)).or_default().push(i);
        }
        let mut groups: Vec<(u64, Vec<usize>)> =
            groups.into_values().map(|g| (g.iter().map(|&i| paths[i]).sum(), g)).collect();
        groups.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut fifos = 0;
        for (paths, group) in groups {
            let shared = group.len() > 1;
            let wanted = if shared { 2 } else { 1 };
            if !shared {
                let kind = &mut self.lines[group[0]].kind;
                *kind = match *kind {
                    SHARED => GENERAL,
                    FUSED_SHARED => FUSED,
                    other => other,
                };
            }
            if paths > 0 && fifos + wanted <= MAX_FIFOS {
                group.iter().for_each(|&i| self.lines[i].fifo = DelayFifo::new(fifos));
                fifos += wanted;
            }
        }
        // Unless that makes two groups of times of one.
        if !is_small && fifos < MAX_FIFOS && fifos + 1 != GROUP {
            self.waited = DelayFifo::new(fifos);
            fifos += 1;
        }
        fifos
    }

    /// Loads what [`Self::accept`] needs and changes nothing.
    #[inline]
    pub(crate) fn prefetch(&self, link: LinkId) {
        let Some(line) = self.lines.get(link.index()) else { return };
        if line.kind == SHARED_BACKLOGGED {
            let stats = &self.stats[link.index()];
            prefetch((stats.waiting.front().map(|&(start, _)| start), stats.wait_ns, stats.extras.is_none()));
        }
        prefetch(line.free_at);
    }

    /// A packet arrives at a link.
    #[inline(always)]
    pub(crate) fn accept(&mut self, now: Time, link: LinkId, size: u16) -> Accepted {
        let line = &mut self.lines[link.index()];
        if line.kind == SHARED && line.free_at <= now {
            line.transmit(now, size, || self.stats[link.index()].rate);
            let fifo = line.fifo.next_if(size <= SMALL);
            return Accepted::Arrives { time: line.arrival(), fifo };
        }
        if line.kind == GENERAL && line.free_at <= now {
            let stats = &self.stats[link.index()];
            if stats.waiting.len() == 0 && stats.impairments().is_none() && !stats.is_full_for(size) {
                line.transmit(now, size, || stats.rate);
                return Accepted::Arrives { time: line.arrival(), fifo: line.fifo };
            }
        }
        if line.kind == LinkKind::Air {
            return Accepted::Air;
        }
        self.accept_slow(now, link, size)
    }

    #[inline(never)]
    fn accept_slow(&mut self, now: Time, link: LinkId, size: u16) -> Accepted {
        let (line, stats) = (&mut self.lines[link.index()], &mut self.stats[link.index()]);
        if line.kind == LinkKind::Discipline {
            return Accepted::Queued;
        }
        // Time only makes it emptier: one that is not full now has room in any order.
        if line.kind == GENERAL && self.before_departures && now > Time::ZERO && stats.is_full_for(size) {
            line.dequeue_started_slow(stats, now - Span::from_ns(1));
            let tie = stats.waiting.front().is_some_and(|&(start, _)| start == now);
            if tie && stats.is_full_for(size) && !departs_first(self.seed, link, now) {
                line.dequeue_started_slow(stats, now);
                stats.count_drop(size, DropReason::Overflow);
                return Accepted::Dropped;
            }
        }
        line.dequeue_started(stats, now);
        if line.kind == GENERAL && stats.is_full_for(size) {
            stats.count_drop(size, DropReason::Overflow);
            return Accepted::Dropped;
        }
        let mut fifo = line.fifo;
        if line.free_at <= now {
            line.transmit(now, size, || stats.rate);
        } else {
            let start = line.free_at;
            stats.waiting.push_back((start, size));
            stats.waiting_bytes += u64::from(size);
            stats.wait_ns += u128::from(start.since(now).as_ns());
            stats.max_queue = stats.max_queue.max(count(stats.waiting.len()));
            if line.kind == SHARED {
                line.kind = SHARED_BACKLOGGED;
            }
            if line.kind == SHARED_BACKLOGGED {
                fifo = self.waited;
            }
            let in_service = line.in_service;
            line.transmit(start, size, || stats.rate);
            line.in_service = in_service;
        }
        line.fate_on_line(stats, fifo)
    }

    /// Passes a packet through a fused link that it reaches at `arrival`, no earlier than those
    /// before it. Returns its arrival at the far end with the place `after` it, and the FIFO.
    #[inline(always)]
    pub(crate) fn pass(
        &mut self,
        arrival: Time,
        link: LinkId,
        packet: PacketId,
        after: Place,
        size: u16,
    ) -> (InFlight, DelayFifo) {
        let line = &mut self.lines[link.index()];
        if line.free_at > arrival {
            return self.pass_waiting(arrival, link, packet, after, size);
        }
        line.transmit(arrival, size, || self.stats[link.index()].rate);
        let fifo = line.fifo.next_if(size <= SMALL && line.kind == FUSED_SHARED);
        let time = line.arrival();
        (
            InFlight { time, packet, next: Next::reaches(after), size, depth: 0, flight_ns: flight_ns(arrival, time) },
            fifo,
        )
    }

    /// Only behind a larger packet.
    #[inline(never)]
    fn pass_waiting(
        &mut self,
        arrival: Time,
        link: LinkId,
        packet: PacketId,
        after: Place,
        size: u16,
    ) -> (InFlight, DelayFifo) {
        let (line, stats) = (&mut self.lines[link.index()], &mut self.stats[link.index()]);
        while stats.waiting.front().is_some_and(|&(start, _)| start <= arrival) {
            stats.waiting.pop_front();
        }
        let start = line.free_at;
        stats.waiting.push_back((start, size));
        line.transmit(start, size, || stats.rate);
        let depth = u16::try_from(stats.waiting.len()).unwrap_or(u16::MAX);
        let fifo = if line.kind == FUSED_SHARED { DelayFifo::NONE } else { line.fifo };
        let time = line.arrival();
        (InFlight { time, packet, next: Next::reaches(after), size, depth, flight_ns: flight_ns(arrival, time) }, fifo)
    }

    /// A packet that has waited on a fused link reaches its end.
    pub(crate) fn count_wait(&mut self, link: LinkId, entry: &InFlight) {
        let stats = &mut self.stats[link.index()];
        let (arrival, start, _) = self.lines[link.index()].passage(stats, entry);
        stats.wait_ns += u128::from(start.since(arrival).as_ns());
        if arrival >= stats.max_queue_since {
            stats.max_queue = stats.max_queue.max(u32::from(entry.depth));
        }
    }

    pub(crate) fn is_fused(&self, link: LinkId) -> bool {
        self.lines[link.index()].kind.is_fused()
    }

    /// Counters up to an instant, with what [`Self::ahead`] gave for the same; it may be left out
    /// for a link that is not fused.
    pub(crate) fn totals(&mut self, link: LinkId, until: Until, ahead: &[Ahead]) -> LinkTotals {
        if self.is_fused(link) {
            return self.fused_totals(link, &ahead[link.index()]);
        }
        let (line, stats, now) = (&mut self.lines[link.index()], &mut self.stats[link.index()], until.now());
        line.dequeue_started_slow(stats, until.last());
        let counts = stats.extras.as_ref().map_or(Counts::default(), |extras| extras.counts);
        let mut totals = LinkTotals {
            dropped_overflow: counts.dropped_overflow,
            dropped_early: counts.dropped_early,
            filtered: counts.filtered,
            dropped_gone: 0,
            dropped_bytes: counts.dropped_bytes,
            lost_packets: counts.lost_packets,
            held_back_packets: stats.reordering().map_or(0, Reordering::held),
            marked: counts.marked,
            busy_ns: line.taken_ns - line.free_at.since(now).as_ns(),
            ..LinkTotals::default()
        };
        if let Some(queued) = stats.queued().and_then(|q| self.queued.get_mut(q.index())) {
            queued.count_to(stats, now);
            totals.queue_packets = queued.aqm.len_packets() as u64;
            totals.queue_bytes = queued.aqm.len_bytes();
            totals.arrived_packets = queued.arrived_packets;
            totals.arrived_bytes = queued.arrived_bytes;
            totals.started_packets = line.taken_packets;
            totals.forwarded_bytes = line.taken_bytes;
            totals.queue_packet_ns = stats.wait_ns;
        } else {
            totals.queue_packets = stats.waiting.len() as u64;
            totals.queue_bytes = stats.waiting_bytes;
            totals.arrived_packets = line.taken_packets + counts.dropped_overflow;
            totals.arrived_bytes = line.taken_bytes + counts.dropped_bytes;
            totals.started_packets = line.taken_packets - totals.queue_packets;
            totals.forwarded_bytes = line.taken_bytes - totals.queue_bytes;
            let ahead: u128 = stats.waiting.iter().map(|&(start, _)| u128::from(start.since(now).as_ns())).sum();
            totals.queue_packet_ns = stats.wait_ns - ahead;
        }
        totals.forwarded_packets = totals.started_packets;
        if totals.started_packets > 0 && line.free_at > until.last() {
            totals.forwarded_packets -= 1;
            totals.forwarded_bytes -= u64::from(line.in_service);
        }
        totals
    }

    /// See [`airtcp_core::queue::Aqm::drop_probability`].
    pub(crate) fn drop_probability(&self, link: LinkId) -> Option<f64> {
        self.queued.get(self.stats[link.index()].queued()?.0 as usize)?.aqm.drop_probability()
    }

    /// Begins a new maximum: `packets` wait at `now`, arrivals at that instant still to come.
    pub(crate) fn reset_max_queue(&mut self, link: LinkId, now: Time, packets: u64) {
        let stats = &mut self.stats[link.index()];
        stats.max_queue = saturate32(packets);
        stats.max_queue_since = now;
    }

    /// The next packet of a queue starts its transmission. Returns its far-end time, or the time of
    /// its loss.
    pub(crate) fn start(&mut self, now: Time, link: LinkId, size: u16) -> Accepted {
        let (line, stats) = (&mut self.lines[link.0 as usize], &mut self.stats[link.0 as usize]);
        if let Some(reordering) = stats.reordering_mut() {
            reordering.count_to(now);
        }
        match stats.rate_trace() {
            None => line.transmit(now, size, || stats.rate),
            Some(trace) => line.occupy(now, size, trace.end(now, u64::from(size))),
        }
        line.fate_on_line(stats, line.fifo)
    }
}

impl Line {
    #[inline]
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }
    /// When what it has been given last reaches the far end.
    #[inline]
    fn arrival(&self) -> Time {
        self.free_at + self.delay
    }

    /// Fate of the packet that was transmitted last.
    #[inline(always)]
    fn fate_on_line(&self, stats: &mut LinkStats, fifo: DelayFifo) -> Accepted {
        match stats.impairments_mut() {
            Some(impairments) => self.fate_on_impaired_line(impairments, fifo),
            None => Accepted::Arrives { time: self.arrival(), fifo },
        }
    }

    #[inline(never)]
    fn fate_on_impaired_line(&self, impairments: &mut Impairments, fifo: DelayFifo) -> Accepted {
        if impairments.loss > 0.0 && impairments.loss_rng.random::<f64>() < impairments.loss {
            return Accepted::Lost(self.free_at);
        }
        let time = self.arrival();
        match impairments.reordering.as_mut().and_then(|reordering| reordering.draw(self.free_at)) {
            None => Accepted::Arrives { time, fifo },
            Some(delay) => Accepted::HeldBack { time: time + delay },
        }
    }

    /// Takes a packet whose transmission starts at `start`.
    #[inline]
    fn transmit(&mut self, start: Time, size: u16, rate: impl FnOnce() -> DataRate) {
        let tx = if size == self.tx_size[0] {
            self.tx[0]
        } else {
            let tx = self.tx(size, rate);
            if size != self.tx_size[1] {
                self.tx_size = [size, self.tx_size[0]];
                self.tx = [tx, self.tx[0]];
            }
            tx
        };
        self.occupy(start, size, start + tx);
    }

    #[inline]
    fn occupy(&mut self, start: Time, size: u16, end: Time) {
        self.free_at = end;
        self.in_service = size;
        self.taken_packets += 1;
        self.taken_bytes += u64::from(size);
        // As far as time reaches: `free_at` stops there too.
        self.taken_ns += self.free_at.since(start).as_ns();
    }

    #[inline]
    fn tx(&self, size: u16, rate: impl FnOnce() -> DataRate) -> Span {
        match self.tx_size.iter().position(|&s| s == size) {
            Some(i) => self.tx[i],
            None => rate().time_for(u64::from(size)),
        }
    }

    /// As [`Self::dequeue_started`], where that need not be fast.
    #[inline(never)]
    fn dequeue_started_slow(&mut self, stats: &mut LinkStats, now: Time) {
        self.dequeue_started(stats, now);
    }

    /// Removes from the queue what is on the line by now.
    #[inline(always)]
    fn dequeue_started(&mut self, stats: &mut LinkStats, now: Time) {
        if let Some(reordering) = stats.reordering_mut() {
            reordering.count_to(now);
        }
        while let Some(&(start, size)) = stats.waiting.front() {
            if start > now {
                return;
            }
            stats.waiting.pop_front();
            stats.waiting_bytes -= u64::from(size);
            self.in_service = size;
        }
        stats.waiting.give_back();
        if self.kind == SHARED_BACKLOGGED {
            self.kind = SHARED;
        }
    }
}

/// Time on a link, ns, as packets in flight carry it ([`InFlight::flight_ns`]).
#[inline]
pub(crate) fn flight_ns(from: Time, to: Time) -> u32 {
    u32::try_from(to.since(from).as_ns()).unwrap_or(u32::MAX)
}

/// See the module's text on ties.
fn departs_first(seed: u64, link: LinkId, now: Time) -> bool {
    coin(seed, u64::from(link.0), Purpose::LinkTie, now)
}

impl Queued {
    /// Brings the integral of the queue length up to `now`; to be called before the queue changes.
    pub(crate) fn count_to(&mut self, stats: &mut LinkStats, now: Time) {
        stats.wait_ns += self.aqm.len_packets() as u128 * u128::from(now.since(self.counted_to).as_ns());
        self.counted_to = now;
    }
    pub(crate) fn count_arrival(&mut self, size: u16) {
        self.arrived_packets += 1;
        self.arrived_bytes += u64::from(size);
    }
    /// When this link next needs attention, given when its line is free.
    pub(crate) fn deadline(&self, free_at: Time) -> Time {
        let periodic = self.aqm.deadline();
        if self.aqm.len_packets() > 0 && !self.held_back { periodic.min(free_at) } else { periodic }
    }
}

#[cfg(test)]
mod tests {
    use super::Line;

    #[test]
    fn a_line_is_one_cache_line() {
        assert_eq!(size_of::<Line>(), 64);
    }
}
