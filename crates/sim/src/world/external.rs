//! The seam to real programs: their packets come in by [`World::inject`] at the time that [`World::run_until`] has reached, and
//! leave by [`World::take_egress`]. A driver with a clock does the rest; it keeps the bytes, by packet number.
//!
//! A packet that has arrived keeps its number until it has been taken, so no other packet gets that number while the bytes of the
//! first still wait. [`Egress`] borrows the world, and frees the number when it goes.

use std::collections::VecDeque;

use airtcp_core::convert::count;
use airtcp_core::packet::{FlowId, Packet, PacketId, Pool};
use airtcp_core::units::Time;

use super::World;
use crate::spec::{ExternalHost, NodeId, RunSpec, Traffic};
use crate::traffic::AnyEnds;

/// Hosts of real programs, and their packets.
#[derive(Debug, Default)]
pub(super) struct Externals {
    /// By node: its place among the hosts; [`NONE`] of all others. Empty without such hosts.
    place_of: Vec<u32>,
    hosts: usize,
    /// By place of the source, then of the destination: the flow between them, or [`NONE`].
    flows: Vec<u32>,
    /// By packet: when it came in.
    came_at: Vec<Time>,
    /// In queues, on lines, in the air.
    inside: u32,
    egress: VecDeque<(Time, PacketId)>,
    /// Flows and how many of their packets radios no longer hold, oldest first.
    pub(super) released: VecDeque<(FlowId, u32)>,
}

const NONE: u32 = u32::MAX;

/// Why a packet of a real program could not enter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotInjected {
    /// No real programs are on the host.
    #[error("`{0}` is not attached: real programs cannot send from it or to it")]
    NotAttached(String),
    /// Both ends are the same host.
    #[error("`{0}` would send to itself: such packets do not leave a host")]
    SameHost(String),
    /// The scenario has no way from one to the other and back.
    #[error("no path leads from `{from}` to `{to}` and back")]
    NoPath {
        /// The source.
        from: String,
        /// The destination.
        to: String,
    },
    /// Its fields do not say to which connection it belongs.
    #[error("the packet was not read from bytes: `airtcp_core::packet::Packet::external` makes one")]
    NotExternal,
}

impl Externals {
    pub(super) fn new(spec: &RunSpec) -> Externals {
        let hosts = &spec.external.hosts;
        if hosts.is_empty() {
            return Externals::default();
        }
        let mut place_of = vec![NONE; spec.nodes.len()];
        for (place, ExternalHost { node, .. }) in (0..).zip(hosts) {
            place_of[node.index()] = place;
        }
        let mut flows = vec![NONE; hosts.len() * hosts.len()];
        for (i, flow) in (0..).zip(&spec.flows).filter(|(_, flow)| matches!(flow.traffic, Traffic::External)) {
            let (from, to) = (place_of[flow.from.index()], place_of[flow.to.index()]);
            if from != NONE && to != NONE {
                flows[from as usize * hosts.len() + to as usize] = i;
            }
        }
        Externals { place_of, hosts: hosts.len(), flows, ..Externals::default() }
    }

    /// A packet has been dropped or lost.
    #[inline]
    pub(super) fn forget(&mut self, packet: &Packet) {
        self.inside -= u32::from(packet.is_external());
    }

    /// Packets that wait to be taken, and their bytes.
    pub(super) fn waiting(&self, pool: &Pool) -> (u64, u64) {
        self.egress.iter().fold((0, 0), |(n, bytes), &(_, id)| (n + 1, bytes + u64::from(pool[id].size)))
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.place_of.get(node.index()).filter(|&&place| place != NONE).map(|&place| place as usize)
    }
}

/// A packet that has reached a host of real programs. Its number is free again when this goes.
#[derive(Debug)]
pub struct Egress<'w> {
    world: &'w mut World,
    /// When it arrived.
    pub time: Time,
    /// The host that sent it.
    pub from: NodeId,
    /// The host that it has reached.
    pub to: NodeId,
    /// What [`World::inject`] returned.
    pub id: PacketId,
}

impl Egress<'_> {
    /// Its fields as it arrived: [`Packet::ecn`] may have changed on the way.
    pub fn packet(&self) -> &Packet {
        &self.world.pool[self.id]
    }
}

impl Drop for Egress<'_> {
    fn drop(&mut self) {
        let size = self.world.pool.remove(self.id).size;
        self.world.cx.books.ledger.delivered.add(size);
        self.world.cx.books.ledger.delivered_forward.add(size);
    }
}

impl World {
    /// When something happens next of its own accord; [`Time::NEVER`]: nothing will. It may be early, and is never late.
    pub fn deadline(&self) -> Time {
        self.cx.engine.next_event()
    }

    /// Hosts of real programs, ascending.
    pub fn external_hosts(&self) -> &[ExternalHost] {
        &self.spec.external.hosts
    }

    /// Packets of real programs in queues, on lines and in the air. Those that wait to be taken do not count.
    pub fn external_inside(&self) -> u32 {
        self.external.inside
    }

    /// A real program on `from` sends `packet` to `to`, now. The number it gets is its own until it is dropped or lost, or has
    /// arrived and been taken.
    pub fn inject(&mut self, from: NodeId, to: NodeId, mut packet: Packet) -> Result<PacketId, NotInjected> {
        let flow = self.external_flow(from, to)?;
        if !packet.is_external() {
            return Err(NotInjected::NotExternal);
        }
        packet.flow = FlowId(flow);
        let Packet { size, .. } = packet;
        let own = &mut self.flows[flow as usize];
        if let AnyEnds::External(ends) = &mut own.ends {
            ends.on_sent();
        }
        let place = own.path_start[0];
        self.cx.books.ledger.sent.add(size);
        self.external.inside += 1;
        let id = self.pool.insert(packet);
        let slot = id.0 as usize;
        if self.external.came_at.len() <= slot {
            self.external.came_at.resize(slot + 1, Time::ZERO);
        }
        self.external.came_at[slot] = self.cx.engine.now;
        // As at the deadline of a source.
        self.links.before_departures = false;
        self.forward(self.hops[place.index()].link(), id, place, size);
        self.tell_hosts();
        Ok(id)
    }

    /// From now on [`Self::take_released`] tells which packets their hosts no longer hold. Whoever calls this has to take them.
    pub fn report_releases(&mut self) {
        for i in 0..self.flows.len() {
            if let AnyEnds::External(_) = self.flows[i].ends {
                let first = self.hops[self.flows[i].path_start[0].index()];
                self.flows[i].reports_release = super::air::below(&self.spec, first).is_some();
            }
        }
    }

    /// The flow of packets from one host to another, if the first holds them until its radio has sent or dropped them. A wire takes
    /// them at once, as it does those of simulated hosts.
    pub fn held_flow(&self, from: NodeId, to: NodeId) -> Option<FlowId> {
        let flow = self.external_flow(from, to).ok()?;
        self.flows[flow as usize].reports_release.then_some(FlowId(flow))
    }

    /// A flow and how many of its packets the host no longer holds: in the order in which that happened.
    pub fn take_released(&mut self) -> Option<(FlowId, u32)> {
        self.external.released.pop_front()
    }

    /// The packet that has waited longest of those that arrived at hosts of real programs: in the order of arrival.
    pub fn take_egress(&mut self) -> Option<Egress<'_>> {
        let (time, id) = self.external.egress.pop_front()?;
        let flow = &self.spec.flows[self.pool[id].flow.0 as usize];
        let (from, to) = (flow.from, flow.to);
        Some(Egress { world: self, time, from, to, id })
    }

    /// A packet has come to the end of its path, where real programs take it.
    #[cold]
    pub(super) fn hold_for_egress(&mut self, id: PacketId) {
        let Packet { flow, size, .. } = self.pool[id];
        let delay = self.cx.engine.now.since(self.external.came_at[id.0 as usize]);
        if let AnyEnds::External(ends) = &mut self.flows[flow.0 as usize].ends {
            ends.on_arrival(size, delay);
        }
        self.external.inside -= 1;
        self.external.egress.push_back((self.cx.engine.now, id));
    }

    fn external_flow(&self, from: NodeId, to: NodeId) -> Result<u32, NotInjected> {
        let name = |node: NodeId| match self.spec.nodes.get(node.index()) {
            Some(node) => node.name.clone(),
            None => format!("node {}", node.0),
        };
        let place = |node| self.external.place(node).ok_or_else(|| NotInjected::NotAttached(name(node)));
        let (source, destination) = (place(from)?, place(to)?);
        match self.external.flows[source * self.external.hosts + destination] {
            NONE if from == to => Err(NotInjected::SameHost(name(from))),
            NONE => Err(NotInjected::NoPath { from: name(from), to: name(to) }),
            flow => Ok(flow),
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World at {}, {} packets inside", self.cx.engine.now, count(self.pool.len()))
    }
}

#[cfg(test)]
mod tests;
