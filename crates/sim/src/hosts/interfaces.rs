//! Packets at the interfaces of hosts: from the last link of their path, over a poll, to the ends
//! of flows.

use airtcp_core::convert::count;
use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::prefetch::prefetch;
use airtcp_core::receive::{Interface, Merged, Rings};
use airtcp_core::units::Time;

use super::Hosts;
use crate::engine::{Engine, InterfaceId};
use crate::spec::{NodeId, RunSpec, Traffic};

/// The interfaces of hosts that do not take each packet by itself.
#[derive(Debug, Default)]
pub(crate) struct Interfaces {
    all: Vec<Interface>,
    /// It hangs on the air, where several packets arrive in one instant.
    gathers: Vec<bool>,
    /// By flow: at its source and at its destination.
    of_flow: Vec<[InterfaceId; 2]>,
    /// Packets that the last poll has passed up; empty between polls.
    up: Vec<Merged>,
    /// Number of these that are delivered.
    delivered: usize,
    rings: Rings,
}

impl Interfaces {
    pub(crate) fn new(spec: &RunSpec) -> Interfaces {
        let mut interfaces = Interfaces::default();
        if spec.nodes.iter().all(|node| node.receive_offload.is_off()) {
            return interfaces;
        }
        let most = spec.nodes.iter().filter(|node| !node.receive_offload.is_off()).count().min(2 * spec.flows.len());
        interfaces.all.reserve_exact(most);
        let mut on_air = vec![false; spec.nodes.len()];
        for link in spec.links.iter().filter(|l| l.air.is_some()) {
            on_air[link.to.index()] = true;
        }
        let mut of_node = vec![InterfaceId::NONE; spec.nodes.len()];
        for flow in &spec.flows {
            let mut of = |node: NodeId| {
                let offload = &spec.nodes[node.index()].receive_offload;
                let own = &mut of_node[node.index()];
                if *own == InterfaceId::NONE
                    && !offload.is_off()
                    && !matches!(flow.traffic, Traffic::Daemon(_) | Traffic::External)
                {
                    *own = InterfaceId(count(interfaces.all.len()));
                    interfaces.all.push(Interface::new(offload));
                    interfaces.gathers.push(on_air[node.index()]);
                }
                *own
            };
            let ends = [of(flow.from), of(flow.to)];
            interfaces.of_flow.push(ends);
        }
        interfaces
    }

    /// At the source or the destination of a flow.
    #[inline]
    pub(crate) fn of(&self, flow: u32, at_source: bool) -> Option<InterfaceId> {
        let [source, destination] = *self.of_flow.get(flow as usize)?;
        let own = if at_source { source } else { destination };
        (own != InterfaceId::NONE).then_some(own)
    }

    /// Number of them.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Packets and bytes that wait for a poll.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.all.iter().map(Interface::waiting)
    }

    /// Deadline of an interface.
    #[inline]
    pub(crate) fn deadline(&self, id: InterfaceId) -> Time {
        self.all[id.index()].deadline()
    }

    /// A flow has sent a packet through its host's interface.
    #[inline]
    pub(crate) fn on_sent(&mut self, flow: FlowId, is_reverse: bool, size: u16) {
        if let Some(interface) = self.of(flow.0, !is_reverse) {
            self.all[interface.index()].on_sent(size);
        }
    }

    /// Offers a packet that has come to the end of its path.
    #[inline]
    pub(super) fn offer(&mut self, engine: &mut Engine, id: InterfaceId, packet: &Packet) -> Offered {
        let interface = &mut self.all[id.index()];
        let mut offered = Offered::Held;
        if self.gathers[id.index()] {
            interface.on_packet(engine.now, packet, &mut self.rings);
        } else if interface.pass(engine.now, packet, &mut self.rings) {
            offered = Offered::GoesUp;
        } else if interface.deadline() <= engine.now {
            return Offered::PollIsDue;
        }
        self.advance(engine, id);
        offered
    }

    /// Moves the leaf of an interface forward if its deadline is earlier.
    #[inline]
    pub(crate) fn advance(&self, engine: &mut Engine, id: InterfaceId) {
        engine.timeline.advance_brief_to(engine.components.interface(id), self.all[id.index()].deadline());
    }

    /// Polls an interface. `Some`: it held one packet at most, which is taken out if it goes up.
    #[inline(always)]
    pub(super) fn begin_poll(&mut self, now: Time, id: InterfaceId) -> Option<Option<Packet>> {
        debug_assert!(self.up.is_empty(), "one poll at a time");
        let interface = &mut self.all[id.index()];
        if interface.has_one() {
            return Some(interface.take_one(&mut self.rings).filter(|packet| interface.goes_up_alone(now, packet)));
        }
        interface.poll(now, &mut self.up, &mut self.rings);
        None
    }

    /// Next packet that the last poll has passed up; and true if other data for its receiver comes
    /// in the same poll.
    #[inline(always)]
    pub(super) fn next_up(&mut self) -> Option<(&Merged, bool)> {
        let at = self.delivered;
        if at == self.up.len() {
            self.up.clear();
            self.delivered = 0;
            return None;
        }
        self.delivered += 1;
        let merged = &self.up[at];
        let more = self.up[at + 1..].iter().any(|later| later.packet.len > 0 && later.is_of(&merged.packet));
        Some((merged, more))
    }
}

/// Decision of an interface on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// It goes up at once, as it is.
    GoesUp,
    /// The interface has it.
    Held,
    /// The interface has it, and is to be polled now.
    PollIsDue,
}

impl Hosts {
    /// Loads what an interface needs for a packet.
    #[inline]
    pub(super) fn prefetch_interface(&self, engine: &Engine, flow: u32, at_source: bool) {
        if let Some(id) = self.interfaces.of(flow, at_source) {
            self.interfaces.all[id.index()].prefetch();
            prefetch(engine.timeline.get_brief(engine.components.interface(id)));
        }
    }
}
