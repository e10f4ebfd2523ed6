//! A [`World`] runs a [`RunSpec`] in virtual time.
//!
//! Order of events, stated once: time, then component. Packets in flight on all links are the first component, so arrivals come before deadlines
//! of the same instant; among themselves, the packet that came to its link last is first, and then the order is that of their paths: by destination router, then by flow, forward before reverse. Then come links that need
//! departures, in the order of the scenario; then the wireless channels; then the interfaces of hosts and their processors; then each flow's source and destination; the
//! sampler sees what all others have done, but for hosts that roam, whose decisions come last. Of a departure from a queue and an arrival at it in the same instant, a coin decides (see `link`).
//!
//! Deadlines are lazy: a component's leaf in the timeline may be earlier than its deadline, never later. When it fires early, the leaf moves on and
//! nothing else happens, so a timer that every ACK pushes back costs nothing.

mod air;
mod audit;
mod batches;
mod bounds;
mod external;
mod interfaces;
mod join;
mod parts;
mod paths;
mod plan;
mod processors;
mod queues;
mod results;
mod roaming;
mod sample;
mod waiting;

use std::sync::Arc;

use airtcp_core::convert::{count, low64};
use airtcp_core::packet::{FlowId, Packet, PacketId, Pool};
use airtcp_core::queue::{DropReason, Drops};
use airtcp_core::receive::Merged;
use airtcp_core::tcp::{LocalDrops, Outputs, Tsq};
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::Released;

pub use crate::books::results::RunOutput;
pub use crate::books::{Count, Finding, Ledger};
pub use bounds::Outgrown;
pub use external::{Egress, NotInjected};
pub use parts::{Steps, Threads, Worlds};
pub use waiting::{Waiting, WaitsIn};

use crate::air::Air;
use crate::books::record::{Moment, PpduRow};
use crate::books::totals::LinkTotals;
use crate::books::{Books, CAPTURE_BATCH, Sampler};
use crate::capture::CaptureSink;
use crate::context::Cx;
use crate::engine::packets_in_flight::{DelayFifo, InFlight};
use crate::engine::timeline::Component;
use crate::engine::{ComponentKind, Components, Engine, QueueId};
use crate::error::BuildError;
use crate::link::{Accepted, Links, Until, flight_ns};
use crate::path::{Hop, Next, Place};
use crate::route::Routes;
use crate::spec::{ChannelId, LinkId, NodeId, RunSpec, Traffic};
use crate::traffic::{AnyEnds, Context, Flow, QueueNotice};

use external::Externals;
use interfaces::Interfaces;
use parts::Part;
use processors::{Processors, Way};
use roaming::Roamers;

/// Links beyond which a world counts as large.
const LARGE: usize = 1024;

/// A network, its traffic and everything in flight.
pub struct World {
    spec: Arc<RunSpec>,
    cx: Cx,
    hops: Vec<Hop>,
    links: Links,
    air: Air,
    interfaces: Interfaces,
    processors: Processors,
    external: Externals,
    flows: Vec<Flow>,
    pool: Pool,
    /// By packet: its place on its path, and when it came there, while it waits in a queue or is in the air.
    place_of: Vec<(Place, Time)>,
    out: Outputs,
    drops: Drops,
    /// What hosts no longer hold of their flows, to be told.
    released: Vec<Released>,
    /// What the first queues of senders' hosts had no room for.
    refused: Vec<Packet>,
    /// Flows whose hosts' first queue dropped a packet and has not said which.
    congested: Vec<FlowId>,
    /// Whose packet came last to a queue with a discipline of its own.
    entering: FlowId,
    roamers: Roamers,
    /// If it is one of several parts of a world.
    part: Option<Box<Part>>,
    /// Links that are fused in the whole and not here, where it is divided.
    unfused: Vec<LinkId>,
    /// By tests: what simulated ends have sent.
    #[cfg(test)]
    sent: Option<Vec<(Time, Packet)>>,
    /// Its state does not fit into a processor's second-level cache.
    is_large: bool,
}

impl World {
    /// A world at its beginning.
    pub fn build(spec: &RunSpec) -> Result<World, BuildError> {
        World::build_shared(&Arc::new(spec.clone()))
    }

    /// As [`Self::build`], without a copy of what may be large.
    pub fn build_shared(spec: &Arc<RunSpec>) -> Result<World, BuildError> {
        let routes = World::paths(spec)?;
        let mut world = World::assemble(spec, routes, None)?;
        world.associate_first();
        if cfg!(debug_assertions) {
            world.audit();
        }
        Ok(world)
    }

    /// A world, or of one in parts the part that is named.
    fn assemble(spec: &Arc<RunSpec>, mut routes: Routes, part: Option<Box<Part>>) -> Result<World, BuildError> {
        let record = &spec.record;
        let home = part.as_ref().map(|part| part.home());
        let is_here = |node: NodeId| home.as_ref().is_none_or(|home| home.has(node));
        let has_link = |link: LinkId| home.as_ref().is_none_or(|home| home.has_link(link));
        let mut flows = Vec::with_capacity(spec.flows.len());
        for (i, (flow, &path_start)) in spec.flows.iter().zip(&routes.start).enumerate() {
            let first = routes.hops[path_start[0].index()];
            let below = air::below(spec, first);
            let hears =
                matches!(&flow.traffic, Traffic::Tcp { sender, .. } if sender.local_drops == LocalDrops::Unsent);
            let recorded = record.retransmissions.binary_search(&FlowId(count(i))).is_ok();
            let ctx = Context { flow: FlowId(count(i)), spec: flow, seed: spec.seed };
            let ends = match is_here(flow.from) || is_here(flow.to) {
                true => AnyEnds::new(&ctx, &spec.flows[..i], below, recorded)?,
                false => AnyEnds::elsewhere(),
            };
            flows.push(Flow {
                ends,
                path_start,
                dropped_at_queues: 0,
                lost_on_lines: 0,
                ac: flow.ac,
                first_queue: if hears && spec.nodes[flow.from.index()].packet_time.is_zero() {
                    air::first_queue(spec, first)
                } else {
                    None
                },
                reports_release: below.is_some()
                    && matches!(&flow.traffic, Traffic::Tcp { sender, .. } if sender.tsq != Tsq::Off),
            });
        }
        let mut links = Links::new(spec, typical_packet(spec), &record.capture, &record.drops);
        links.fuse(&spec.links, &mut routes.hops);
        let plan = part.as_ref().map(|part| part.plan());
        let of_place = plan.as_ref().map(|plan| &plan.of_place);
        let unfused = of_place.map(|of| plan::unfuse(of, &mut links, &mut routes.hops)).unwrap_or_default();
        let fifos = links.assign_fifos(&spec.links, &routes.hops);
        let air = Air::new(spec);
        let roamers = Roamers::new(spec, &routes, &air);
        let interfaces = Interfaces::new(spec);
        let processors = Processors::new(spec);
        let components = Components::new(
            links.queued.len(),
            air.channels.len(),
            interfaces.all.len(),
            processors.all.len(),
            flows.len(),
            roamers.count(),
        );
        let mut engine = Engine::new(components, fifos);
        let Engine { timeline, components, .. } = &mut engine;
        for (q, queued) in (0..).map(QueueId).zip(&links.queued) {
            if has_link(queued.link) {
                timeline.set(components.queue(q), queued.deadline(Time::NEVER));
            }
        }
        for (id, flow) in (0..).map(FlowId).zip(&flows) {
            let (from, to) = (spec.flows[id.0 as usize].from, spec.flows[id.0 as usize].to);
            if is_here(from) {
                timeline.set(components.source(id), flow.ends.deadline());
            }
            if is_here(to) {
                timeline.set(components.destination(id), flow.ends.destination_deadline());
            }
        }
        let mut sampler = Sampler::new(spec);
        sampler.keep(|flow| is_here(spec.flows[flow.0 as usize].from), has_link);
        timeline.set(components.sampler(), sampler.next());
        if let Some(of_place) = of_place {
            for place in plan::borders(of_place, &routes.hops) {
                routes.hops[place] = routes.hops[place].across();
            }
        }
        let books = Books::new(sampler, part.is_some());
        Ok(World {
            spec: Arc::clone(spec),
            cx: Cx { engine, books },
            hops: routes.hops,
            is_large: links.lines.len() > LARGE,
            links,
            air,
            interfaces,
            processors,
            external: Externals::new(spec),
            flows,
            pool: Pool::default(),
            place_of: Vec::new(),
            out: Outputs::default(),
            drops: Drops::default(),
            released: Vec::new(),
            refused: Vec::new(),
            congested: Vec::new(),
            entering: FlowId(u32::MAX),
            roamers,
            part,
            unfused,
            #[cfg(test)]
            sent: None,
        })
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        self.cx.engine.now
    }

    /// The end of the run that the scenario asks for.
    pub fn end(&self) -> Time {
        Time::ZERO + self.spec.duration
    }

    /// Everything that happens up to and including `time`. A [`Finding`] of the audit ends it where it is.
    pub fn run_until(&mut self, time: Time, sink: &mut dyn CaptureSink) {
        // Nothing may happen at the very end of time, where what is idle stands.
        let time = time.min(Time::NEVER - Span::from_ns(1));
        while let Some(due) = self.cx.books.next_audit().filter(|&due| due <= time) {
            self.advance(due, sink);
            self.check();
            if self.finding().is_some() {
                return;
            }
        }
        self.advance(time, sink);
    }

    fn advance(&mut self, time: Time, sink: &mut dyn CaptureSink) {
        if self.cx.books.awaits_warmup(&self.spec, time) {
            self.run_before(Time::ZERO + self.spec.warmup, sink);
            self.begin_summary();
        }
        self.run_before(time + Span::from_ns(1), sink);
        self.cx.engine.now = self.cx.engine.now.max(time);
        self.hand_over(sink);
    }

    /// To the end of the run.
    pub fn run(&mut self, sink: &mut dyn CaptureSink) {
        self.run_until(self.end(), sink);
    }

    /// Everything that is in flight and due, before `limit`.
    fn run_before(&mut self, limit: Time, sink: &mut dyn CaptureSink) {
        self.cx.engine.limit = limit;
        loop {
            let arrival = self.cx.engine.in_flight.head_time();
            let (deadline, component) = self.cx.engine.timeline.next();
            if arrival <= deadline {
                if arrival >= limit {
                    break;
                }
                self.cx.engine.now = arrival;
                self.links.before_departures = true;
                if self.is_large {
                    self.touch();
                }
                let entry = self.cx.engine.in_flight.pop();
                self.cx.books.reach(|| Moment { time: arrival, is_deadline: false, rank: low64(entry.key()) });
                if entry.depth > 0 {
                    self.count_wait(&{ entry }); // a copy: the frequent ones stay in registers
                }
                if entry.next.is_lost() {
                    self.lose(entry.packet, entry.next.place());
                } else {
                    self.enter(entry.packet, entry.next.place(), entry.size);
                }
            } else {
                if deadline >= limit {
                    break;
                }
                self.links.before_departures = false;
                self.reach(deadline, component);
                self.on_deadline(component);
            }
            self.tell_hosts();
            self.cx.engine.events += 1;
            if self.has_batch() {
                self.hand_over(sink);
            }
        }
    }

    /// It is time for the deadline of a component.
    #[inline]
    fn reach(&mut self, deadline: Time, component: Component) {
        self.cx.engine.now = deadline;
        self.cx.books.reach(|| Moment { time: deadline, is_deadline: true, rank: u64::from(component.0) });
    }

    /// Enough has been captured to be handed over.
    #[inline]
    fn has_batch(&self) -> bool {
        self.cx.books.captured.len() >= CAPTURE_BATCH || self.air.hand_over_due
    }

    /// What an event means for the hosts of senders.
    #[inline]
    fn tell_hosts(&mut self) {
        if !self.refused.is_empty() || !self.congested.is_empty() {
            self.tell_refused();
        }
        if !self.released.is_empty() {
            self.tell_released();
        }
    }

    /// Loads what packets that arrive soon will need, several at a time so that the loads overlap: in a large world every
    /// link, packet and flow would otherwise be waited for. What is found by what is loaded now is loaded a lot of packets later.
    #[inline]
    fn touch(&self) {
        let Some([next, soon]) = self.cx.engine.in_flight.look_ahead() else { return };
        for entry in next {
            if self.hops[entry.next.place().index()].is_end() {
                self.touch_ends(&self.pool[entry.packet]);
            }
        }
        for entry in soon {
            let hop = self.hops[entry.next.place().index()];
            if hop.is_end() {
                std::hint::black_box(self.pool[entry.packet].flow);
                continue;
            }
            self.links.touch(hop.link());
            if let Some(after) = self.hops.get(entry.next.place().next().index()).filter(|hop| hop.is_fused()) {
                self.links.touch(after.link());
            }
        }
    }

    /// For a packet that reaches an end of its flow, which may answer.
    #[inline]
    fn touch_ends(&self, packet: &Packet) {
        let Some(flow) = self.flows.get(packet.flow.0 as usize) else { return };
        let is_reverse = packet.is_reverse();
        flow.ends.touch(is_reverse);
        if let Some(answer) = self.hops.get(flow.path_start[usize::from(!is_reverse)].index()) {
            self.links.touch(answer.link());
        }
        let component = if is_reverse {
            self.cx.engine.components.source(packet.flow)
        } else {
            self.cx.engine.components.destination(packet.flow)
        };
        std::hint::black_box(self.cx.engine.timeline.get(component));
        self.touch_interface(packet.flow.0, is_reverse);
    }

    #[cold]
    fn count_wait(&mut self, entry: &InFlight) {
        self.links.count_wait(self.hops[entry.next.place().before().index()].link(), entry);
    }

    fn hand_over(&mut self, sink: &mut dyn CaptureSink) {
        let recorded = &mut self.air.recorded;
        for (c, channel) in (0..).map(ChannelId).zip(&mut self.air.channels) {
            for ppdu in channel.ppdus().drain(..) {
                let link = self.air.world_link[c.index()][ppdu.link.index()];
                self.cx.books.log.ppdus.push(PpduRow::new(link, &ppdu));
            }
            recorded.extend(channel.frames().drain(..).map(|frame| (c, frame)));
        }
        // Those of one channel are in order already.
        recorded.sort_by_key(|(_, frame)| frame.time);
        let mut frames = recorded.drain(..).peekable();
        for captured in self.cx.books.captured.drain(..) {
            while let Some((channel, frame)) = frames.next_if(|(_, f)| f.time <= captured.time) {
                sink.frame(channel, &frame);
            }
            sink.packet(&captured);
        }
        frames.for_each(|(channel, frame)| sink.frame(channel, &frame));
        self.air.hand_over_due = false;
    }

    /// A packet is at `place` on its path: before a link, or at its end.
    #[inline]
    fn enter(&mut self, packet: PacketId, place: Place, size: u16) {
        let hop = self.hops[place.index()];
        if hop.is_end() {
            self.deliver(packet);
        } else {
            self.forward(hop.link(), packet, place, size);
        }
    }

    /// A packet is before `link`, at `place` on its path.
    #[inline]
    fn forward(&mut self, link: LinkId, packet: PacketId, place: Place, size: u16) {
        match self.links.accept(self.cx.engine.now, link, size) {
            Accepted::Arrives { time, fifo } => {
                self.put_in_flight(self.cx.engine.now, time, packet, place.next(), size, fifo)
            }
            Accepted::Queued => self.enter_queue(link, packet, place, size),
            Accepted::Air => self.enter_air(link, packet, place),
            Accepted::HeldBack { time } => self.hold_back(self.cx.engine.now, time, packet, place.next(), size),
            Accepted::Lost(time) => self.lose_at(self.cx.engine.now, time, packet, place.next(), size),
            Accepted::Dropped => self.discard(link, packet, DropReason::Overflow),
        }
    }

    /// A packet that came to a link at `from` reaches the link's far end, at `place` on its path, at `time`.
    #[inline(always)]
    fn put_in_flight(&mut self, from: Time, time: Time, packet: PacketId, place: Place, size: u16, fifo: DelayFifo) {
        let hop = self.hops[place.index()];
        if hop.is_marked() {
            if hop.is_across() {
                return self.put_across(from, time, packet, place, size, fifo);
            }
            let (entry, fifo) = self.links.pass(time, hop.link(), packet, place.next(), size);
            self.cx.engine.in_flight.insert(entry, fifo);
        } else {
            let flight_ns = flight_ns(from, time);
            self.cx
                .engine
                .in_flight
                .insert(InFlight { time, packet, next: Next::reaches(place), size, depth: 0, flight_ns }, fifo);
        }
    }

    /// As [`Self::put_in_flight`], of a packet that others overtake; the next link is not fused with this one. Its flight counts a
    /// nanosecond more than it is, so that it does not tie with one that came to the link together with it and was not held.
    #[cold]
    fn hold_back(&mut self, from: Time, time: Time, packet: PacketId, place: Place, size: u16) {
        let flight_ns = flight_ns(from, time).saturating_add(1);
        let entry = InFlight { time, packet, next: Next::reaches(place), size, depth: 0, flight_ns };
        if self.hops[place.index()].is_across() {
            return self.send_across(entry, DelayFifo::NONE);
        }
        self.cx.engine.in_flight.insert(entry, DelayFifo::NONE);
    }

    /// A packet on its way to `place`, that came to a link at `from`, is lost at the end of its transmission, at `time`.
    #[cold]
    fn lose_at(&mut self, from: Time, time: Time, packet: PacketId, place: Place, size: u16) {
        let next = Next::lost_before(place);
        let entry = InFlight { time, packet, next, size, depth: 0, flight_ns: flight_ns(from, time) };
        self.cx.engine.in_flight.insert(entry, DelayFifo::NONE);
    }

    #[inline(never)]
    fn deliver(&mut self, id: PacketId) {
        let packet = &self.pool[id];
        if packet.is_external() {
            return self.hold_for_egress(id);
        }
        match self.processors.of(packet.flow.0, packet.is_reverse()) {
            Some(processor) => self.enter_processor(processor, id, Way::Up),
            None => self.take_up(id),
        }
    }

    /// A packet is with the host at the end of its path, and the host has the time for it.
    #[inline]
    fn take_up(&mut self, id: PacketId) {
        let packet = &self.pool[id];
        let size = packet.size;
        self.cx.books.ledger.delivered.add(size);
        let id_of_flow = packet.flow;
        let is_reverse = packet.is_reverse();
        if !is_reverse {
            self.cx.books.ledger.delivered_forward.add(size);
        }
        if let Some(interface) = self.interfaces.of(id_of_flow.0, is_reverse) {
            self.cx.books.ledger.taken_by_interfaces.add(size);
            if !self.enter_interface(interface, id) {
                self.pool.remove(id);
                return;
            }
            self.cx.books.ledger.handed_up.add(size);
        }
        let flow = &mut self.flows[id_of_flow.0 as usize];
        flow.ends.on_packet(self.cx.engine.now, &self.pool[id], &mut self.out, &mut self.cx.books.log);
        self.pool.remove(id);
        self.after_delivery(id_of_flow, is_reverse);
    }

    /// An interface hands a packet as it came to an end of its flow.
    fn hand_up_alone(&mut self, packet: &Packet) {
        let id_of_flow = packet.flow;
        self.cx.books.ledger.handed_up.add(packet.size);
        let flow = &mut self.flows[id_of_flow.0 as usize];
        flow.ends.on_packet(self.cx.engine.now, packet, &mut self.out, &mut self.cx.books.log);
        self.after_delivery(id_of_flow, packet.is_reverse());
    }

    /// An interface hands a packet, or several merged, to an end of their flow. `more`: other data for it comes in the same poll.
    fn hand_up(&mut self, merged: &Merged, more: bool) {
        let (id_of_flow, is_reverse) = (merged.packet.flow, merged.packet.is_reverse());
        self.cx.books.ledger.handed_up.add_all(u64::from(merged.segments), merged.bytes());
        let flow = &mut self.flows[id_of_flow.0 as usize];
        flow.ends.on_merged(self.cx.engine.now, merged, more, &mut self.out, &mut self.cx.books.log);
        self.after_delivery(id_of_flow, is_reverse);
    }

    #[inline]
    fn after_delivery(&mut self, id_of_flow: FlowId, is_reverse: bool) {
        let ends = &self.flows[id_of_flow.0 as usize].ends;
        if is_reverse {
            self.cx.engine.timeline.advance_to(self.cx.engine.components.source(id_of_flow), ends.deadline());
        } else {
            self.cx
                .engine
                .timeline
                .advance_to(self.cx.engine.components.destination(id_of_flow), ends.destination_deadline());
        }
        self.send_out(id_of_flow);
    }

    /// What the ends of a flow have put into `out` goes to the first links of its paths.
    #[inline]
    fn send_out(&mut self, flow: FlowId) {
        if self.out.packets.is_empty() {
            return;
        }
        let path_start = self.flows[flow.0 as usize].path_start;
        for i in 0..self.out.packets.len() {
            let packet = &self.out.packets[i];
            let (size, is_reverse) = (packet.size, packet.is_reverse());
            self.cx.books.ledger.sent.add(size);
            #[cfg(test)]
            if let Some(sent) = &mut self.sent {
                sent.push((self.cx.engine.now, *packet));
            }
            let id = self.pool.insert(*packet);
            if let Some(processor) = self.processors.of(flow.0, !is_reverse) {
                self.enter_processor(processor, id, Way::Down);
                continue;
            }
            self.leave_host(id, flow, size, is_reverse, path_start);
        }
        self.out.packets.clear();
    }

    /// A packet of a simulated end goes through its host's interface to the first link of its path.
    #[inline(always)]
    fn leave_host(&mut self, id: PacketId, flow: FlowId, size: u16, is_reverse: bool, path_start: [Place; 2]) {
        if let Some(interface) = self.interfaces.of(flow.0, !is_reverse) {
            self.interfaces.all[interface.index()].on_sent(size);
        }
        let place = path_start[usize::from(is_reverse)];
        self.forward(self.hops[place.index()].link(), id, place, size);
    }

    #[inline(never)]
    fn on_deadline(&mut self, component: Component) {
        match self.cx.engine.components.kind(component) {
            ComponentKind::Source(flow) => self.on_source_deadline(flow, component),
            ComponentKind::Destination(flow) => {
                let ends = &mut self.flows[flow.0 as usize].ends;
                if ends.destination_deadline() <= self.cx.engine.now {
                    ends.on_destination_deadline(self.cx.engine.now, &mut self.out);
                }
                self.cx.engine.timeline.set(component, ends.destination_deadline());
                self.send_out(flow);
            }
            ComponentKind::Queue(queue) => self.on_queue_deadline(queue),
            ComponentKind::Channel(channel) => self.on_channel_deadline(channel),
            ComponentKind::Interface(interface) => self.on_interface_deadline(interface, component),
            ComponentKind::Processor(processor) => self.on_processor_deadline(processor, component),
            ComponentKind::Sampler => {
                self.sample();
                self.cx.engine.timeline.set(component, self.cx.books.sampler.next());
            }
            ComponentKind::Roamer(roamer) => self.on_roamer(roamer),
        }
    }

    fn on_source_deadline(&mut self, flow: FlowId, component: Component) {
        let ends = &mut self.flows[flow.0 as usize].ends;
        if let AnyEnds::Daemon(_) = ends {
            self.run_daemon(flow, component);
        } else {
            if ends.deadline() <= self.cx.engine.now {
                ends.on_deadline(self.cx.engine.now, &mut self.out, &mut self.cx.books.log);
            }
            self.cx.engine.timeline.set(component, ends.deadline());
        }
        self.send_out(flow);
    }

    /// A cooperative daemon looks at the connections of its host, or announces itself.
    #[inline(never)]
    fn run_daemon(&mut self, flow: FlowId, component: Component) {
        let (before, rest) = self.flows.split_at_mut(flow.0 as usize);
        let AnyEnds::Daemon(host) = &mut rest[0].ends else { unreachable!("the caller has looked") };
        if host.deadline() <= self.cx.engine.now {
            host.on_deadline(self.cx.engine.now, before, &mut self.out);
        }
        self.cx.engine.timeline.set(component, host.deadline());
    }

    /// Tells flows what their hosts did not take, those of each flow together.
    #[cold]
    fn tell_refused(&mut self) {
        let refused = std::mem::take(&mut self.refused);
        for of_flow in refused.chunk_by(|a, b| a.flow == b.flow) {
            let flow = of_flow[0].flow;
            let ends = &mut self.flows[flow.0 as usize].ends;
            ends.on_refused(self.cx.engine.now, of_flow);
            self.cx.engine.timeline.advance_to(self.cx.engine.components.source(flow), ends.deadline());
        }
        self.refused = refused;
        self.refused.clear();
        for flow in std::mem::take(&mut self.congested) {
            let ends = &mut self.flows[flow.0 as usize].ends;
            ends.on_congested(self.cx.engine.now);
            self.cx.engine.timeline.advance_to(self.cx.engine.components.source(flow), ends.deadline());
        }
    }

    /// Tells flows what their hosts no longer hold: after everything else of the event, as a flow may answer with packets.
    #[inline(never)]
    fn tell_released(&mut self) {
        let mut told = 0;
        while let Some(&released) = self.released.get(told) {
            told += 1;
            let flow = released.flow;
            let ends = &mut self.flows[flow.0 as usize].ends;
            if let AnyEnds::External(_) = ends {
                self.external.released.push_back((flow, released.packets));
                continue;
            }
            ends.on_released(self.cx.engine.now, released, &mut self.out, &mut self.cx.books.log);
            self.cx.engine.timeline.advance_to(self.cx.engine.components.source(flow), ends.deadline());
            self.send_out(flow);
        }
        self.released.clear();
    }

    fn note_place(&mut self, packet: PacketId, place: Place) {
        if self.place_of.len() <= packet.0 as usize {
            self.place_of.resize(packet.0 as usize + 1, (place, self.cx.engine.now));
        }
        self.place_of[packet.0 as usize] = (place, self.cx.engine.now);
    }

    /// A packet is dropped at a queue; the link has counted it.
    #[inline(never)]
    fn discard(&mut self, link: LinkId, id: PacketId, reason: DropReason) {
        let packet = self.pool.remove(id);
        self.cx.books.drop(self.cx.engine.now, link, &packet, reason, self.links.cold[link.index()].record_drops);
        self.external.forget(&packet);
        let flow = &mut self.flows[packet.flow.0 as usize];
        if reason != DropReason::Filtered {
            flow.dropped_at_queues += 1;
            flow.ends.on_drop(&packet);
        }
        let is_data = !packet.is_reverse() && packet.len > 0;
        if let Some(queue) = flow.first_queue.as_ref().filter(|queue| queue.link == link && is_data) {
            match queue.told(reason, packet.flow == self.entering) {
                Some(QueueNotice::Refused) => self.refused.push(packet),
                Some(QueueNotice::Congested) => self.congested.push(packet.flow),
                None => {}
            }
        }
    }

    /// A packet on its way to `place` is lost on the line.
    #[cold]
    fn lose(&mut self, id: PacketId, place: Place) {
        let link = self.hops[place.before().index()].link();
        let packet = self.pool.remove(id);
        let cold = &mut self.links.cold[link.index()];
        cold.counts().lost_packets += 1;
        self.cx.books.lose(self.cx.engine.now, link, &packet, DropReason::Line, cold.record_drops);
        self.external.forget(&packet);
        self.flows[packet.flow.0 as usize].lost_on_lines += 1;
    }

    /// What became of all packets so far.
    pub fn ledger(&self) -> Ledger {
        self.cx.books.ledger
    }

    /// Packets in queues and on lines.
    pub fn packets_inside(&self) -> usize {
        self.pool.len()
    }

    /// Counters of a link from the start of the run to now.
    pub fn link_totals(&mut self, link: LinkId) -> LinkTotals {
        let until = Until::after(self.cx.engine.now);
        let ahead = self.ahead(until);
        self.totals_of(link, until, &ahead)
    }
}

/// The largest packet that any flow sends; 1500 bytes if there is none.
fn typical_packet(spec: &RunSpec) -> u32 {
    spec.flows.iter().map(|f| u32::from(f.traffic.packet_bytes())).max().unwrap_or(1500)
}

const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<World>();
};
