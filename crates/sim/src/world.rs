//! A [`World`] runs a [`RunSpec`] in virtual time.
//!
//! Order of events, stated once: time, then component. Packets in flight on all links are the first component, so arrivals
//! come before deadlines of the same instant; among themselves, the packet that came to its link last is first, and then
//! the order is that of their paths: by destination router, then by flow, forward before reverse. Then come links that need
//! departures, in the order of the scenario; then the wireless channels; then each flow's source and destination; the
//! sampler sees what all others have done, but for hosts that roam, whose decisions come last. Of a departure from a queue and an arrival at it in the same instant, a coin decides (see `link`).
//!
//! Deadlines are lazy: a component's leaf in the timeline may be earlier than its deadline, never later. When it fires
//! early, the leaf moves on and nothing else happens, so a timer that every ACK pushes back costs nothing to push.

mod results;
mod roaming;

use std::collections::BTreeMap;

use airtcp_core::buffer_probe::{RunLog, estimate};
use airtcp_core::packet::{FlowId, PacketId, Pool};
use airtcp_core::queue::{DropReason, Drops};
use airtcp_core::tcp::{Outputs, Tsq};
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::{AirStats, Released, Transmit};
use rayon::prelude::*;

use crate::air::{Air, link_totals};
use crate::capture::{CaptureSink, Captured, NoCapture};
use crate::error::BuildError;
use crate::link::{Accepted, LinkTotals, Links};
use crate::record::*;
use crate::route::{END, FUSED, Routes, check_index};
use crate::spec::{FlowSpec, LinkId, RunSpec, Traffic};
use crate::summary::{AirSummary, GroupSummary, LinkSummary, MAX_AIR_LISTED, Reported, Summary, figure_of};
use crate::timeline::Timeline;
use crate::traffic::{self, AnyEnds, Below, Context, Counters, Flow, Period, Report};
use crate::wires::{InFlight, NO_LANE, Wires};
use results::Totals;
use roaming::Roamers;

/// In [`InFlight::place`]: the packet does not arrive, it is lost on the line before this place.
const LOST: u32 = 1 << 31;

/// Links beyond which a world counts as large.
const LARGE: usize = 1024;

/// Captured packets are handed over in lots of this size.
const CAPTURE_LOT: usize = 1024;

/// A network, its traffic and everything in flight.
pub struct World {
    spec: RunSpec,
    now: u64,
    wires: Wires,
    timeline: Timeline,
    hops: Vec<u32>,
    links: Links,
    air: Air,
    /// Component of the first flow's source.
    first_flow: usize,
    flows: Vec<Flow>,
    pool: Pool,
    /// By packet: its place on its path, and when it came there, while it waits in a queue or is in the air.
    place_of: Vec<(u32, u64)>,
    out: Outputs,
    drops: Drops,
    /// What hosts no longer hold of their flows, to be told.
    released: Vec<Released>,
    log: Log,
    captured: Vec<Captured>,
    sampler: Sampler,
    roamers: Roamers,
    warm: Option<Totals>,
    ledger: Ledger,
    events: u64,
    /// Its state does not fit into a processor's second-level cache.
    is_large: bool,
}

/// What became of all packets so far. What is neither delivered, dropped nor lost is in the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    pub sent: Count,
    /// Reached its flow's other end.
    pub delivered: Count,
    /// Of these, on the way from source to destination.
    pub delivered_forward: Count,
    pub dropped: Count,
    pub lost: Count,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    #[inline]
    fn add(&mut self, size: u16) {
        self.packets += 1;
        self.bytes += u64::from(size);
    }
}

struct Sampler {
    interval: Span,
    next: Time,
    flows: Vec<u32>,
    links: Vec<u32>,
    /// Of the links above, at the last sample.
    last: Vec<LinkTotals>,
    /// Links of WLANs.
    air: Vec<u32>,
    last_air: Vec<AirStats>,
    daemons: Vec<u32>,
    last_at: u64,
}

/// What a run leaves behind.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutput {
    pub tables: Vec<Table>,
    pub summary: Summary,
    /// Events processed: arrivals and deadlines.
    pub events: u64,
    /// Packets that reached their flow's destination; those that reached its source (ACKs, echo replies) not counted.
    pub packets_delivered: u64,
}

impl RunOutput {
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.name == name)
    }
}

impl World {
    pub fn build(spec: &RunSpec) -> Result<World, BuildError> {
        for link in &spec.links {
            if link.rate.as_bps() == 0 {
                return Err(BuildError::ZeroRate { link: link.name.clone() });
            }
        }
        let record = &spec.record;
        let lists = [
            ("link_series", &record.link_series),
            ("drops", &record.drops),
            ("capture", &record.capture),
            ("air_series", &record.air_series),
        ];
        for (what, ids) in lists {
            for id in ids {
                check_index(|| format!("record.{what}"), "link", id.0, spec.links.len())?;
            }
        }
        for &flow in &record.retransmissions {
            check_index(|| "record.retransmissions".to_owned(), "flow", flow, spec.flows.len())?;
        }
        let mut routes = Routes::new(spec)?;
        if routes.hops.len() >= LOST as usize {
            return Err(BuildError::TooManyHops { hops: routes.hops.len() });
        }
        let mut flows = Vec::with_capacity(spec.flows.len());
        for (i, (flow, &path_start)) in spec.flows.iter().zip(&routes.start).enumerate() {
            let below = below(spec, routes.hops[path_start[0] as usize]);
            let recorded = record.retransmissions.binary_search(&(i as u32)).is_ok();
            let ctx = Context { flow: FlowId(i as u32), spec: flow, seed: spec.seed };
            let ends = AnyEnds::new(&ctx, &spec.flows[..i], below, recorded)?;
            flows.push(Flow {
                ends,
                path_start,
                dropped_at_queues: 0,
                lost_on_lines: 0,
                ac: flow.ac,
                reports_release: below.is_some()
                    && matches!(&flow.traffic, Traffic::Tcp { sender, .. } if sender.tsq != Tsq::Off),
            });
        }
        let mut links = Links::new(&spec.links, spec.seed, typical_packet(spec), &record.capture, &record.drops);
        links.fuse(&spec.links, &mut routes.hops);
        let lanes = links.assign_lanes(&spec.links, &routes.hops);
        let air = Air::new(spec);
        let first_flow = links.queued.len() + air.channels.len();
        let roamers = Roamers::new(spec, &routes, &air, first_flow + 2 * flows.len() + 1);
        let mut timeline = Timeline::new(first_flow + 2 * flows.len() + 1 + roamers.count());
        for (q, queued) in links.queued.iter().enumerate() {
            timeline.set(q as u32, queued.deadline(u64::MAX));
        }
        for (i, flow) in flows.iter().enumerate() {
            timeline.set((first_flow + 2 * i) as u32, flow.ends.deadline().as_ns());
            timeline.set((first_flow + 2 * i + 1) as u32, flow.ends.destination_deadline().as_ns());
        }
        let sampler = Sampler::new(spec);
        timeline.set((first_flow + 2 * flows.len()) as u32, sampler.next.as_ns());
        let mut world = World {
            spec: spec.clone(),
            now: 0,
            wires: Wires::new(lanes),
            timeline,
            hops: routes.hops,
            is_large: links.lines.len() > LARGE,
            links,
            air,
            first_flow,
            flows,
            pool: Pool::default(),
            place_of: Vec::new(),
            out: Outputs::default(),
            drops: Drops::default(),
            released: Vec::new(),
            log: Log::default(),
            captured: Vec::new(),
            sampler,
            roamers,
            warm: None,
            ledger: Ledger::default(),
            events: 0,
        };
        world.associate_first();
        Ok(world)
    }

    pub fn now(&self) -> Time {
        Time::from_ns(self.now)
    }

    /// The end of the run that the scenario asks for.
    pub fn end(&self) -> Time {
        Time::ZERO + self.spec.duration
    }

    /// Everything that happens up to and including `time`.
    pub fn run_until(&mut self, time: Time, sink: &mut dyn CaptureSink) {
        // Nothing may happen at the very end of time, where what is idle stands.
        let time = time.as_ns().min(u64::MAX - 1);
        let warmup = self.spec.warmup.as_ns();
        if self.warm.is_none() && warmup <= time {
            self.run_before(warmup, sink);
            self.now = self.now.max(warmup);
            let totals = self.totals(true);
            for (link, totals) in totals.links.iter().enumerate() {
                self.links.reset_max_queue(link as u32, self.now, totals);
                if let Some((channel, own)) = self.air.at[link] {
                    self.air.channels[channel as usize].reset_held_max(own);
                }
            }
            self.warm = Some(totals);
        }
        self.run_before(time + 1, sink);
        self.now = self.now.max(time);
        self.hand_over(sink);
    }

    /// To the end of the run.
    pub fn run(&mut self, sink: &mut dyn CaptureSink) {
        self.run_until(self.end(), sink);
    }

    fn run_before(&mut self, limit: u64, sink: &mut dyn CaptureSink) {
        loop {
            let arrival = self.wires.head_time();
            let (deadline, component) = self.timeline.next();
            if arrival <= deadline {
                if arrival >= limit {
                    break;
                }
                self.now = arrival;
                self.links.before_departures = true;
                if self.is_large {
                    self.touch();
                }
                let entry = self.wires.pop();
                if entry.depth > 0 {
                    self.count_wait(&entry);
                }
                if entry.place & LOST == 0 {
                    self.enter(entry.packet, entry.place, entry.size);
                } else {
                    self.lose(entry.packet, entry.place & !LOST);
                }
            } else {
                if deadline >= limit {
                    break;
                }
                self.now = deadline;
                self.links.before_departures = false;
                self.on_deadline(component);
            }
            if !self.released.is_empty() {
                self.tell_released();
            }
            self.events += 1;
            if self.captured.len() >= CAPTURE_LOT || self.air.hand_over_due {
                self.hand_over(sink);
            }
        }
    }

    /// Loads what packets that arrive soon will need, several at a time so that the loads overlap: in a large world every
    /// link and every packet would otherwise be waited for.
    #[inline]
    fn touch(&self) {
        let Some(soon) = self.wires.look_ahead() else { return };
        for entry in soon {
            let link = self.hops[(entry.place & !LOST) as usize];
            if let Some(line) = self.links.lines.get(link as usize) {
                std::hint::black_box(line.kind);
            } else {
                let packet = &self.pool[entry.packet];
                let ends = &self.flows[packet.flow.0 as usize].ends;
                let deadline = if packet.is_reverse() { ends.deadline() } else { ends.destination_deadline() };
                std::hint::black_box(deadline);
            }
        }
    }

    #[cold]
    fn count_wait(&mut self, entry: &InFlight) {
        self.links.count_wait(self.hops[entry.place as usize - 1] & !FUSED, entry);
    }

    fn hand_over(&mut self, sink: &mut dyn CaptureSink) {
        let recorded = &mut self.air.recorded;
        for (c, channel) in (0u32..).zip(&mut self.air.channels) {
            for ppdu in channel.ppdus.drain(..) {
                let link = self.air.world_link[c as usize][ppdu.link as usize];
                self.log.ppdus.push(PpduRow::new(link, &ppdu));
            }
            recorded.extend(channel.frames.drain(..).map(|frame| (c, frame)));
        }
        // Those of one channel are in order already.
        recorded.sort_by_key(|(_, frame)| frame.time_ns);
        let mut frames = recorded.drain(..).peekable();
        for captured in self.captured.drain(..) {
            while let Some((channel, frame)) = frames.next_if(|(_, f)| f.time_ns <= captured.time.as_ns()) {
                sink.frame(channel, &frame);
            }
            sink.packet(&captured);
        }
        frames.for_each(|(channel, frame)| sink.frame(channel, &frame));
        self.air.hand_over_due = false;
    }

    /// A packet is at `place` on its path: before a link, or at its end.
    #[inline]
    fn enter(&mut self, packet: PacketId, place: u32, size: u16) {
        let link = self.hops[place as usize];
        if link == END {
            self.deliver(packet);
        } else {
            self.forward(link, packet, place, size);
        }
    }

    /// A packet is before `link`, at `place` on its path.
    #[inline]
    fn forward(&mut self, link: u32, packet: PacketId, place: u32, size: u16) {
        match self.links.accept(self.now, link, size) {
            Accepted::Arrives { time, lane } => self.put_in_flight(self.now, time, packet, place + 1, size, lane),
            Accepted::Queued => self.enter_queue(link, packet, place, size),
            Accepted::Air => self.enter_air(link, packet, place),
            Accepted::HeldBack { time } => self.hold_back(self.now, time, packet, place + 1, size),
            Accepted::Lost(time) => self.lose_at(self.now, time, packet, place + 1, size),
            Accepted::Dropped => self.discard(LinkId(link), packet, DropReason::Overflow),
        }
    }

    /// A packet that came to a link at `from` reaches the link's far end, at `place` on its path, at `time`.
    #[inline(always)]
    fn put_in_flight(&mut self, from: u64, time: u64, packet: PacketId, place: u32, size: u16, lane: u8) {
        let next = self.hops[place as usize];
        if next & FUSED != 0 {
            let (entry, lane) = self.links.pass(time, next & !FUSED, packet, place + 1, size);
            self.wires.insert(entry, lane);
        } else {
            self.wires.insert(InFlight { time, packet, place, size, depth: 0, flight_ns: flight(from, time) }, lane);
        }
    }

    /// As [`Self::put_in_flight`], of a packet that others overtake; the next link is not fused with this one. Its flight counts a
    /// nanosecond more than it is, so that it does not tie with one that came to the link together with it and was not held.
    #[cold]
    fn hold_back(&mut self, from: u64, time: u64, packet: PacketId, place: u32, size: u16) {
        let flight_ns = flight(from, time).saturating_add(1);
        self.wires.insert(InFlight { time, packet, place, size, depth: 0, flight_ns }, NO_LANE);
    }

    /// A packet on its way to `place`, that came to a link at `from`, is lost at the end of its transmission, at `time`.
    #[cold]
    fn lose_at(&mut self, from: u64, time: u64, packet: PacketId, place: u32, size: u16) {
        let entry = InFlight { time, packet, place: place | LOST, size, depth: 0, flight_ns: flight(from, time) };
        self.wires.insert(entry, NO_LANE);
    }

    #[inline(never)]
    fn deliver(&mut self, id: PacketId) {
        let packet = &self.pool[id];
        let size = packet.size;
        self.ledger.delivered.add(size);
        let index = packet.flow.0 as usize;
        let flow = &mut self.flows[index];
        flow.ends.on_packet(Time::from_ns(self.now), packet, &mut self.out, &mut self.log);
        let leaf = (self.first_flow + 2 * index) as u32;
        let is_reverse = packet.is_reverse();
        self.pool.remove(id);
        if is_reverse {
            self.timeline.advance_to(leaf, flow.ends.deadline().as_ns());
        } else {
            self.ledger.delivered_forward.add(size);
            self.timeline.advance_to(leaf + 1, flow.ends.destination_deadline().as_ns());
        }
        self.send_out(index);
    }

    /// What the ends of a flow have put into `out` goes to the first links of its paths.
    #[inline]
    fn send_out(&mut self, flow: usize) {
        if self.out.packets.is_empty() {
            return;
        }
        let path_start = self.flows[flow].path_start;
        for i in 0..self.out.packets.len() {
            let packet = self.out.packets[i];
            let size = packet.size;
            self.ledger.sent.add(size);
            let place = path_start[usize::from(packet.is_reverse())];
            let id = self.pool.insert(packet);
            self.forward(self.hops[place as usize], id, place, size);
        }
        self.out.packets.clear();
    }

    #[inline(never)]
    fn on_deadline(&mut self, component: u32) {
        let queues = self.links.queued.len();
        if (component as usize) < queues {
            self.on_queue_deadline(component);
            return;
        }
        if (component as usize) < self.first_flow {
            self.on_channel_deadline(component - queues as u32);
            return;
        }
        let index = (component as usize - self.first_flow) / 2;
        let now = Time::from_ns(self.now);
        let Some(flow) = self.flows.get_mut(index) else {
            if self.roamers.is_one(component) {
                self.on_roamer(component);
                return;
            }
            self.sample();
            self.timeline.set(component, self.sampler.next.as_ns());
            return;
        };
        if let AnyEnds::Daemon(_) = flow.ends {
            self.run_daemon(index, component);
        } else if (component as usize - self.first_flow) % 2 == 0 {
            if flow.ends.deadline() <= now {
                flow.ends.on_deadline(now, &mut self.out, &mut self.log);
            }
            self.timeline.set(component, flow.ends.deadline().as_ns());
        } else {
            if flow.ends.destination_deadline() <= now {
                flow.ends.on_destination_deadline(now, &mut self.out);
            }
            self.timeline.set(component, flow.ends.destination_deadline().as_ns());
        }
        self.send_out(index);
    }

    /// A cooperative daemon looks at the connections of its host, or announces itself.
    #[inline(never)]
    fn run_daemon(&mut self, index: usize, component: u32) {
        let (before, rest) = self.flows.split_at_mut(index);
        let AnyEnds::Daemon(host) = &mut rest[0].ends else { unreachable!("the caller has looked") };
        let now = Time::from_ns(self.now);
        if host.deadline() <= now {
            host.on_deadline(now, before, &mut self.out);
        }
        self.timeline.set(component, host.deadline().as_ns());
    }

    /// A group-addressed packet has reached the station of a pair.
    #[cold]
    fn hear(&mut self, channel: u32, pair: u32, packet: PacketId) {
        let packet = self.pool[packet];
        let Some(listener) = self.air.daemons[channel as usize][pair as usize] else { return };
        let AnyEnds::Daemon(speaker) = &self.flows[packet.flow.0 as usize].ends else { return };
        let Some(bytes) = speaker.bytes(&packet) else { return };
        let AnyEnds::Daemon(host) = &mut self.flows[listener as usize].ends else { return };
        host.on_announcement(Time::from_ns(self.now), &bytes);
        let leaf = (self.first_flow + 2 * listener as usize) as u32;
        self.timeline.advance_to(leaf, host.deadline().as_ns());
    }

    /// A packet is handed to a radio.
    #[inline(never)]
    fn enter_air(&mut self, link: u32, packet: PacketId, place: u32) {
        self.note_place(packet, place);
        let (channel, own) = self.air.at[link as usize].expect("a link through the air");
        let p = &self.pool[packet];
        let flow = &self.flows[p.flow.0 as usize];
        let (ac, report) = (flow.ac, flow.reports_release && p.len > 0 && !p.is_reverse());
        let c = &mut self.air.channels[channel as usize];
        c.enqueue(self.now, own, packet, ac, report, &mut self.pool, &mut self.air.out);
        let component = self.links.queued.len() as u32 + channel;
        self.timeline.advance_to(component, c.deadline());
        if !self.air.out.is_empty() {
            self.take_from_air(channel);
        }
    }

    #[inline(never)]
    fn on_channel_deadline(&mut self, channel: u32) {
        let c = &mut self.air.channels[channel as usize];
        if c.deadline() > self.now {
            // The leaf was early.
            self.timeline.set(self.links.queued.len() as u32 + channel, c.deadline());
            return;
        }
        c.on_deadline(self.now, &mut self.pool, &mut self.air.out);
        self.air.hand_over_due |= c.frames.len().max(c.ppdus.len()) >= CAPTURE_LOT;
        let component = self.links.queued.len() as u32 + channel;
        self.timeline.set(component, c.deadline());
        self.take_from_air(channel);
    }

    /// What a channel has put out goes where it belongs.
    fn take_from_air(&mut self, channel: u32) {
        // What it delivers may enter the air again, and that call has its own outputs.
        let mut out = std::mem::take(&mut self.air.out);
        for (own, packet, reason) in out.dropped.drain(..) {
            let link = LinkId(self.air.world_link(channel, own));
            match reason {
                DropReason::RetryLimit | DropReason::Late | DropReason::Collision | DropReason::Errors => {
                    self.lose_in_air(link, packet, reason)
                }
                DropReason::Gone => {
                    self.roamers.count_lost(link.0);
                    self.discard(link, packet, reason);
                }
                _ => self.discard(link, packet, reason),
            }
        }
        for (own, packet) in out.handed_back.drain(..) {
            self.find_another_way(self.air.world_link(channel, own), packet);
        }
        for (pair, packet) in out.heard.drain(..) {
            self.hear(channel, pair, packet);
        }
        for (_, packet) in out.delivered.drain(..) {
            let place = self.place_of[packet.0 as usize].0;
            let size = self.pool[packet].size;
            self.enter(packet, place + 1, size);
        }
        self.released.append(&mut out.released);
        self.air.out = out;
    }

    /// Tells flows what their hosts no longer hold: after everything else of the event, as a flow may answer with packets.
    #[inline(never)]
    fn tell_released(&mut self) {
        let mut told = 0;
        while let Some(&released) = self.released.get(told) {
            told += 1;
            let index = released.flow as usize;
            let ends = &mut self.flows[index].ends;
            ends.on_released(Time::from_ns(self.now), released, &mut self.out, &mut self.log);
            let deadline = ends.deadline().as_ns();
            self.timeline.advance_to((self.first_flow + 2 * index) as u32, deadline);
            self.send_out(index);
        }
        self.released.clear();
    }

    #[cold]
    fn lose_in_air(&mut self, link: LinkId, id: PacketId, reason: DropReason) {
        let packet = self.pool.remove(id);
        self.ledger.lost.add(packet.size);
        self.flows[packet.flow.0 as usize].lost_on_lines += 1;
        let cold = &mut self.links.cold[link.0 as usize];
        if cold.record_drops {
            self.log.drop(self.now, link, &packet, reason);
        }
    }

    fn note_place(&mut self, packet: PacketId, place: u32) {
        if self.place_of.len() <= packet.0 as usize {
            self.place_of.resize(packet.0 as usize + 1, (0, 0));
        }
        self.place_of[packet.0 as usize] = (place, self.now);
    }

    /// A packet arrives at a link with a discipline of its own.
    #[inline(never)]
    fn enter_queue(&mut self, link: u32, packet: PacketId, place: u32, size: u16) {
        let index = self.links.cold[link as usize].queued;
        self.note_place(packet, place);
        let tie = self.links.lines[link as usize].free_at() == self.now;
        if !tie || self.links.departs_first(link, self.now) {
            self.start_if_free(index);
        }
        let queued = &mut self.links.queued[index as usize];
        queued.count_to(&mut self.links.cold[link as usize], self.now);
        queued.count_arrival(size);
        queued.aqm.enqueue(Time::from_ns(self.now), packet, &mut self.pool, &mut self.drops);
        self.account(LinkId(link));
        self.start_if_free(index);
        let queued = &self.links.queued[index as usize];
        let cold = &mut self.links.cold[link as usize];
        cold.max_queue = cold.max_queue.max(queued.aqm.len_packets() as u32);
        self.timeline.advance_to(index, queued.deadline(self.links.lines[link as usize].free_at()));
    }

    fn on_queue_deadline(&mut self, index: u32) {
        self.start_if_free(index);
        let queued = &mut self.links.queued[index as usize];
        if queued.aqm.deadline().as_ns() <= self.now {
            queued.aqm.on_deadline(Time::from_ns(self.now));
            queued.held_back = false;
            self.start_if_free(index);
        }
        let queued = &self.links.queued[index as usize];
        let free_at = self.links.lines[queued.link.0 as usize].free_at();
        self.timeline.set(index, queued.deadline(free_at));
    }

    /// Puts the next waiting packet on the line if that is free.
    fn start_if_free(&mut self, index: u32) {
        let queued = &mut self.links.queued[index as usize];
        let link = queued.link;
        if self.links.lines[link.0 as usize].free_at() > self.now || queued.aqm.len_packets() == 0 {
            return;
        }
        queued.count_to(&mut self.links.cold[link.0 as usize], self.now);
        let next = queued.aqm.dequeue(Time::from_ns(self.now), &mut self.pool, &mut self.drops);
        queued.held_back = next.is_none() && queued.aqm.len_packets() > 0;
        let capture = queued.capture;
        self.account(link);
        let Some(packet) = next else { return };
        let (place, came_at) = self.place_of[packet.0 as usize];
        let place = place + 1;
        let size = self.pool[packet].size;
        if capture {
            self.captured.push(Captured { time: Time::from_ns(self.now), link, packet: self.pool[packet] });
        }
        match self.links.start(self.now, link, size) {
            Accepted::Arrives { time, lane } => self.put_in_flight(came_at, time, packet, place, size, lane),
            Accepted::HeldBack { time } => self.hold_back(came_at, time, packet, place, size),
            Accepted::Lost(time) => self.lose_at(came_at, time, packet, place, size),
            Accepted::Dropped | Accepted::Queued | Accepted::Air => unreachable!("the packet is on the line"),
        }
    }

    /// Books what a discipline has just dropped and marked.
    fn account(&mut self, link: LinkId) {
        if self.drops.marked.is_empty() && self.drops.dropped.is_empty() {
            return;
        }
        self.links.cold[link.0 as usize].marked += self.drops.marked.len() as u64;
        self.drops.marked.clear();
        let mut dropped = std::mem::take(&mut self.drops.dropped);
        for (packet, reason) in dropped.drain(..) {
            self.links.cold[link.0 as usize].count_drop(self.pool[packet].size, reason);
            self.discard(link, packet, reason);
        }
        self.drops.dropped = dropped;
    }

    /// A packet is dropped at a queue; the link has counted it.
    #[inline(never)]
    fn discard(&mut self, link: LinkId, id: PacketId, reason: DropReason) {
        let packet = self.pool.remove(id);
        self.ledger.dropped.add(packet.size);
        let flow = &mut self.flows[packet.flow.0 as usize];
        if reason != DropReason::Filtered {
            flow.dropped_at_queues += 1;
            flow.ends.on_drop(&packet);
        }
        if self.links.cold[link.0 as usize].record_drops {
            self.log.drop(self.now, link, &packet, reason);
        }
    }

    /// A packet on its way to `place` is lost on the line.
    #[cold]
    fn lose(&mut self, id: PacketId, place: u32) {
        let link = LinkId(self.hops[place as usize - 1] & !FUSED);
        let packet = self.pool.remove(id);
        self.ledger.lost.add(packet.size);
        self.flows[packet.flow.0 as usize].lost_on_lines += 1;
        let cold = &mut self.links.cold[link.0 as usize];
        cold.lost_packets += 1;
        if cold.record_drops {
            self.log.drop(self.now, link, &packet, DropReason::Line);
        }
    }

    #[cold]
    fn sample(&mut self) {
        let now = self.now;
        let sampler = &mut self.sampler;
        for &i in &sampler.flows {
            let AnyEnds::Tcp(tcp) = &self.flows[i as usize].ends else { continue };
            let (window, stats) = (tcp.sender.window(), tcp.stats(Time::from_ns(self.now)));
            self.log.flow_series.push(FlowSample {
                time_s: secs(now),
                flow: i,
                cwnd_segments: window.cwnd,
                window_segments: window.cwnd.min(tcp.sender.send_window_segments()),
                ssthresh_segments: if window.ssthresh == u32::MAX { f64::NAN } else { f64::from(window.ssthresh) },
                in_flight_segments: tcp.sender.path().in_flight,
                srtt_ms: tcp.sender.srtt().map_or(f64::NAN, millis),
                bytes_acked: stats.bytes_acked,
                segments_sent: stats.segments_sent,
                segments_retransmitted: stats.segments_retransmitted,
                timeouts: stats.timeouts,
            });
        }
        let period = (now - sampler.last_at) as f64;
        // Looking through all that is in flight is for links that ask for it.
        let some_fused = sampler.links.iter().any(|&l| self.links.is_fused(l));
        let ahead = if some_fused { self.links.ahead(self.wires.iter(), &self.hops, now, false) } else { Vec::new() };
        for (&link, last) in sampler.links.iter().zip(&mut sampler.last) {
            let totals = match self.air.stats(link, now) {
                Some(stats) => link_totals(&stats),
                None => self.links.totals(link, now, &ahead),
            };
            let dropped = |t: &LinkTotals| t.dropped_overflow + t.dropped_early + t.dropped_gone;
            self.log.link_series.push(LinkSample {
                time_s: secs(now),
                link,
                queue_packets: totals.queue_packets,
                queue_bytes: totals.queue_bytes,
                arrived_packets: totals.arrived_packets - last.arrived_packets,
                dropped_packets: dropped(&totals) - dropped(last),
                marked_packets: totals.marked - last.marked,
                forwarded_packets: totals.forwarded_packets - last.forwarded_packets,
                utilisation: ratio((totals.busy_ns - last.busy_ns) as f64, period),
                queue_mean_packets: ratio((totals.queue_packet_ns - last.queue_packet_ns) as f64, period),
                drop_probability: self.links.drop_probability(link).unwrap_or(f64::NAN),
            });
            *last = totals;
        }
        for (&link, last) in sampler.air.iter().zip(&mut sampler.last_air) {
            let Some((channel, own)) = self.air.at[link as usize] else { continue };
            let channel = &mut self.air.channels[channel as usize];
            let stats = channel.stats(own, now);
            let (snr_db, best) = (channel.snr_db(own, now), channel.best_mode(own));
            self.log.air_series.push(AirSample::new(now, link, (last, &stats), period, snr_db, best));
            *last = stats;
        }
        for &i in &sampler.daemons {
            if let AnyEnds::Daemon(host) = &self.flows[i as usize].ends {
                self.log.daemon_series.push(DaemonSample::new(now, &self.spec.flows[i as usize], host.state()));
            }
        }
        self.roamers.sample(now, &mut self.air, &mut self.log.walkers);
        sampler.last_at = now;
        sampler.next = Time::from_ns(now) + sampler.interval;
    }

    /// What became of all packets so far.
    pub fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// Packets in queues and on lines.
    pub fn packets_inside(&self) -> usize {
        self.pool.len()
    }

    /// Counters of a link from the start of the run to now.
    pub fn link_totals(&mut self, link: LinkId) -> LinkTotals {
        let ahead = self.links.ahead(self.wires.iter(), &self.hops, self.now, false);
        match self.air.stats(link.0, self.now) {
            Some(stats) => link_totals(&stats),
            None => self.links.totals(link.0, self.now, &ahead),
        }
    }
}

impl Sampler {
    fn new(spec: &RunSpec) -> Sampler {
        let record = &spec.record;
        let tcp: Vec<u32> = (0u32..)
            .zip(&spec.flows)
            .filter(|(_, f)| matches!(f.traffic, Traffic::Tcp { .. }))
            .map(|(i, _)| i)
            .collect();
        let n = tcp.len().min(record.flow_series_max as usize);
        // Spread evenly over all.
        let flows: Vec<u32> = (0..n).map(|k| tcp[k * tcp.len() / n]).collect();
        let sampled: Vec<u32> = record.link_series.iter().map(|l| l.0).collect();
        let air: Vec<u32> = record.air_series.iter().map(|l| l.0).collect();
        let is_daemon = |f: &FlowSpec| matches!(f.traffic, Traffic::Daemon(_));
        let daemons: Vec<u32> = (0u32..).zip(&spec.flows).filter(|(_, f)| is_daemon(f)).map(|(i, _)| i).collect();
        let nothing =
            flows.is_empty() && sampled.is_empty() && air.is_empty() && daemons.is_empty() && spec.walks.is_empty();
        let idle = record.interval.is_zero() || nothing;
        Sampler {
            interval: record.interval,
            next: if idle { Time::NEVER } else { Time::ZERO + record.interval },
            last: vec![LinkTotals::default(); sampled.len()],
            flows,
            links: sampled,
            last_air: vec![AirStats::default(); air.len()],
            air,
            daemons,
            last_at: 0,
        }
    }
}

/// See [`InFlight::flight_ns`].
#[inline]
fn flight(from: u64, to: u64) -> u32 {
    (to - from).min(u64::from(u32::MAX)) as u32
}

/// What the radio does for a sender whose packets go into `link` first; `None` for a wire.
fn below(spec: &RunSpec, link: u32) -> Option<Below> {
    let air = spec.links.get(link as usize)?.air?;
    if air.is_group {
        return None;
    }
    let channel = &spec.channels[air.channel as usize];
    let pair = &channel.pairs[usize::from(air.pair)];
    let radio = if air.down { pair.access_point } else { pair.station };
    let pacing_shift = match &channel.radios[usize::from(radio)].config.transmit {
        Transmit::Mac80211(path) => Some(path.tsq_pacing_shift),
        Transmit::Qdisc(_) => None,
    };
    Some(Below { pacing_shift })
}

/// The largest packet that any flow sends; 1500 bytes if there is none.
fn typical_packet(spec: &RunSpec) -> u32 {
    spec.flows.iter().map(|f| u32::from(f.traffic.packet_bytes())).max().unwrap_or(1500)
}

/// Builds and runs each specification, on up to `threads` threads (0: one per core). Results are in the order of the
/// specifications and do not depend on the number of threads.
pub fn run_many(specs: &[RunSpec], threads: usize) -> Vec<Result<RunOutput, BuildError>> {
    let run = |spec: &RunSpec| {
        let mut world = World::build(spec)?;
        world.run(&mut NoCapture);
        Ok(world.finish())
    };
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(|| specs.par_iter().with_max_len(1).map(run).collect()),
        // No threads to be had: one after the other gives the same.
        Err(_) => specs.iter().map(run).collect(),
    }
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<World>();
