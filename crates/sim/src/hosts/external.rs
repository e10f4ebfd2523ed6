//! Hosts of real programs, and their packets between injection and egress.

use std::collections::VecDeque;

use airtcp_core::packet::{FlowId, Packet, PacketId, Pool};
use airtcp_core::units::Time;

use super::Hosts;
use crate::spec::{ExternalHost, NodeId, RunSpec, Traffic};
use crate::traffic::AnyEnds;

/// Hosts of real programs, and their packets.
#[derive(Debug, Default)]
pub(crate) struct Externals {
    /// By node: its place among the hosts; [`NONE`] of all others. Empty without such hosts.
    place_of: Vec<u32>,
    hosts: usize,
    /// By place of the source, then of the destination: the flow between them, or [`NONE`].
    flows: Vec<u32>,
    /// By packet: when it came in.
    came_at: Vec<Time>,
    /// In queues, on lines, in the air.
    pub inside: u32,
    /// Packets that have arrived, with their times, oldest first.
    egress: VecDeque<(Time, PacketId)>,
    /// Flows and how many of their packets radios no longer hold, oldest first.
    pub(crate) released: VecDeque<(FlowId, u32)>,
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
    pub(crate) fn new(spec: &RunSpec) -> Externals {
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
    pub(crate) fn forget(&mut self, packet: &Packet) {
        self.inside -= u32::from(packet.is_external());
    }

    /// Packets that wait to be taken, and their bytes.
    pub(crate) fn waiting(&self, pool: &Pool) -> (u64, u64) {
        self.egress.iter().fold((0, 0), |(n, bytes), &(_, id)| (n + 1, bytes + u64::from(pool[id].size)))
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.place_of.get(node.index()).filter(|&&place| place != NONE).map(|&place| place as usize)
    }
}

impl Hosts {
    /// Flow of packets from one host of real programs to another.
    pub(crate) fn external_flow(&self, spec: &RunSpec, from: NodeId, to: NodeId) -> Result<FlowId, NotInjected> {
        let name = |node: NodeId| match spec.nodes.get(node.index()) {
            Some(node) => node.name.clone(),
            None => format!("node {}", node.0),
        };
        let place = |node| self.external.place(node).ok_or_else(|| NotInjected::NotAttached(name(node)));
        let (source, destination) = (place(from)?, place(to)?);
        match self.external.flows[source * self.external.hosts + destination] {
            NONE if from == to => Err(NotInjected::SameHost(name(from))),
            NONE => Err(NotInjected::NoPath { from: name(from), to: name(to) }),
            flow => Ok(FlowId(flow)),
        }
    }

    /// Counts a packet that a real program has sent.
    pub(crate) fn on_injected(&mut self, now: Time, flow: FlowId, id: PacketId) {
        if let AnyEnds::External(ends) = &mut self.flows[flow.0 as usize].ends {
            ends.on_sent();
        }
        self.external.inside += 1;
        let slot = id.0 as usize;
        if self.external.came_at.len() <= slot {
            self.external.came_at.resize(slot + 1, Time::ZERO);
        }
        self.external.came_at[slot] = now;
    }

    /// Keeps a packet that has come to the end of its path until real programs take it.
    #[cold]
    pub(super) fn hold_for_egress(&mut self, now: Time, packet: &Packet, id: PacketId) {
        let delay = now.since(self.external.came_at[id.0 as usize]);
        if let AnyEnds::External(ends) = &mut self.flows[packet.flow.0 as usize].ends {
            ends.on_arrival(packet.size, delay);
        }
        self.external.inside -= 1;
        self.external.egress.push_back((now, id));
    }

    /// Packet that has waited longest for real programs, with the time of its arrival.
    pub(crate) fn take_egress(&mut self) -> Option<(Time, PacketId)> {
        self.external.egress.pop_front()
    }
}
