//! A [`World`] runs a [`RunSpec`] in virtual time. It owns four rooms, takes the next event from
//! the [engine](crate::engine), gives it to the network or to the hosts, and carries answers from
//! one to the other. The books hear of it all.
//!
//! Order of events, stated once: time, then component. Packets in flight on all links are the first
//! component, so arrivals come before deadlines of the same instant. Among themselves, the packet
//! that came to its link last is first, and then the order is that of their paths: by destination
//! router, then by flow, forward before reverse. Then come links that need departures, in the order
//! of the scenario; then the wireless channels; then the interfaces of hosts and their processors;
//! then each flow's source and destination. The sampler sees what all others have done, but for
//! hosts that roam, whose decisions come last. A coin decides between a departure from a queue and
//! an arrival at it in the same instant (see the network's links).
//!
//! Deadlines are lazy: a component's leaf in the timeline may be earlier than its deadline, never
//! later. When it fires early, the leaf moves on and nothing else happens, so a timer that every
//! ACK pushes back costs nothing.

mod audit;
mod batches;
mod bounds;
mod build;
mod carry;
#[cfg(test)]
mod departures;
mod external;
mod join;
mod partition;
mod results;
mod roaming;

use std::sync::Arc;

use airtcp_core::convert::low64;
use airtcp_core::units::{Span, Time};

pub use bounds::Outgrown;
pub use external::{Egress, NotInjected};

pub use crate::books::results::RunOutput;
pub use crate::books::{Count, Finding, Ledger};
pub use crate::network::{Waiting, WaitsIn};
pub use crate::worlds::{Steps, Threads, Worlds};

use crate::books::record::Moment;
use crate::capture::CaptureSink;
use crate::context::Cx;
use crate::engine::ComponentKind;
use crate::engine::timeline::Component;
use crate::hosts::Hosts;
use crate::network::Network;
use crate::spec::RunSpec;

/// A network, its traffic and everything in flight.
pub struct World {
    spec: Arc<RunSpec>,
    /// Engine and books.
    cx: Cx,
    network: Network,
    hosts: Hosts,
}

impl World {
    /// The virtual time.
    pub fn now(&self) -> Time {
        self.cx.engine.now
    }

    /// The end of the run that the scenario asks for.
    pub fn end(&self) -> Time {
        Time::ZERO + self.spec.duration
    }

    /// To the end of the run.
    pub fn run(&mut self, sink: &mut dyn CaptureSink) {
        self.run_until(self.end(), sink);
    }

    /// Everything that happens up to and including `time`. A [`Finding`] of the audit ends it where
    /// it is.
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
        self.flush(sink);
    }

    /// Processes everything that is in flight and due, before `limit`.
    fn run_before(&mut self, limit: Time, sink: &mut dyn CaptureSink) {
        self.cx.engine.limit = limit;
        loop {
            let arrival = self.cx.engine.in_flight.head_time();
            let (deadline, component) = self.cx.engine.timeline.next();
            if arrival <= deadline {
                if arrival >= limit {
                    break;
                }
                self.on_arrival(arrival);
            } else {
                if deadline >= limit {
                    break;
                }
                self.network.links.before_departures = false;
                self.reach(deadline, component);
                self.on_deadline(component);
            }
            self.notify();
            self.cx.engine.events += 1;
            if self.has_batch() {
                self.flush(sink);
            }
        }
    }

    /// The next packet in flight comes to the far end of its link.
    #[inline(always)]
    fn on_arrival(&mut self, time: Time) {
        self.cx.engine.now = time;
        self.network.links.before_departures = true;
        if self.network.is_large() {
            self.prefetch();
        }
        let entry = self.cx.engine.in_flight.pop();
        self.cx.books.reach(|| Moment { time, is_deadline: false, rank: low64(entry.key()) });
        if entry.depth > 0 {
            self.network.count_wait(&{ entry }); // a copy: the frequent ones stay in registers
        }
        if entry.next.is_lost() {
            self.network.lose(&mut self.cx, entry.packet, entry.next.place());
            self.carry(0);
        } else {
            self.enter(entry.packet, entry.next.place(), entry.size);
        }
    }

    /// Comes to the deadline of a component.
    #[inline]
    fn reach(&mut self, deadline: Time, component: Component) {
        self.cx.engine.now = deadline;
        self.cx.books.reach(|| Moment { time: deadline, is_deadline: true, rank: u64::from(component.0) });
    }

    #[inline(never)]
    fn on_deadline(&mut self, component: Component) {
        match self.cx.engine.components.kind(component) {
            ComponentKind::Source(flow) => {
                self.hosts.on_source_deadline(&mut self.cx, flow, component);
                self.transmit(flow);
            }
            ComponentKind::Destination(flow) => {
                self.hosts.on_destination_deadline(&mut self.cx, flow, component);
                self.transmit(flow);
            }
            ComponentKind::Queue(queue) => {
                self.network.on_queue_deadline(&mut self.cx, queue);
                self.carry(0);
            }
            ComponentKind::Channel(channel) => self.on_channel_deadline(channel, component),
            ComponentKind::Interface(interface) => self.on_interface_deadline(interface, component),
            ComponentKind::Processor(processor) => self.on_processor_deadline(processor, component),
            ComponentKind::Sampler => {
                self.sample();
                self.cx.engine.timeline.set(component, self.cx.books.sampler.next());
            }
            ComponentKind::Roamer(roamer) => self.on_roamer_deadline(roamer),
        }
    }

    #[cold]
    fn sample(&mut self) {
        let World { spec, cx: Cx { engine, books }, network, hosts } = self;
        hosts.sample(engine.now, spec, books);
        network.sample(engine, books);
        let now = engine.now;
        books.end_sample(now, hosts.roamers.sample(now, |channel, pair| network.received_dbm(channel, pair, now)));
    }

    /// True if enough has been captured to be passed on.
    #[inline]
    fn has_batch(&self) -> bool {
        self.cx.books.has_batch() || self.network.air.flush_due
    }

    /// Passes on what has been captured.
    fn flush(&mut self, sink: &mut dyn CaptureSink) {
        self.network.record_air(&mut self.cx.books);
        self.cx.books.flush(sink);
    }

    /// Loads state of packets that arrive soon, several at a time so that the loads overlap. State
    /// that is found through the state loaded here is loaded a batch of packets later.
    #[inline]
    fn prefetch(&self) {
        let Some([next, soon]) = self.cx.engine.in_flight.look_ahead() else { return };
        for entry in next {
            if self.network.hop(entry.next.place()).is_end() {
                let packet = &self.network.pool[entry.packet];
                self.hosts.prefetch(&self.cx.engine, packet);
                self.network.prefetch_start(packet.flow.0 as usize, !packet.is_reverse());
            }
        }
        soon.for_each(|entry| self.network.prefetch(&entry));
    }
}

const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<World>();
};
