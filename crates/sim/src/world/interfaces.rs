//! Packets at the interfaces of hosts: from the last link of their path, over a poll, to the ends of flows.

use airtcp_core::convert::count;
use airtcp_core::packet::PacketId;
use airtcp_core::receive::{Interface, Merged, Rings};

use super::World;
use crate::engine::InterfaceId;
use crate::engine::timeline::Component;
use crate::spec::{NodeId, RunSpec, Traffic};

/// The interfaces of hosts that do not take each packet by itself.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    pub all: Vec<Interface>,
    /// It hangs on the air, where several packets arrive in one instant.
    gathers: Vec<bool>,
    /// By flow: at its source and at its destination.
    of_flow: Vec<[InterfaceId; 2]>,
    /// What a poll has just handed up; empty between calls.
    up: Vec<Merged>,
    rings: Rings,
}

impl Interfaces {
    pub(super) fn new(spec: &RunSpec) -> Interfaces {
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
    pub(super) fn of(&self, flow: u32, at_source: bool) -> Option<InterfaceId> {
        let [source, destination] = *self.of_flow.get(flow as usize)?;
        let own = if at_source { source } else { destination };
        (own != InterfaceId::NONE).then_some(own)
    }
}

impl World {
    /// Loads what [`World::enter_interface`] needs.
    #[inline]
    pub(super) fn touch_interface(&self, flow: u32, at_source: bool) {
        if let Some(id) = self.interfaces.of(flow, at_source) {
            self.interfaces.all[id.index()].touch();
            std::hint::black_box(self.cx.engine.timeline.get_brief(self.cx.engine.components.interface(id)));
        }
    }

    /// A packet has come to the end of its path, where an interface takes it. Whether it goes up at once, as it is.
    #[inline]
    pub(super) fn enter_interface(&mut self, id: InterfaceId, packet: PacketId) -> bool {
        let Interfaces { all, gathers, rings, .. } = &mut self.interfaces;
        let interface = &mut all[id.index()];
        let packet = &self.pool[packet];
        let mut goes_up = false;
        if gathers[id.index()] {
            interface.on_packet(self.cx.engine.now, packet, rings);
        } else {
            goes_up = interface.pass(self.cx.engine.now, packet, rings);
            if !goes_up && interface.deadline() <= self.cx.engine.now {
                self.poll(id);
            }
        }
        let deadline = self.interfaces.all[id.index()].deadline();
        let component = self.cx.engine.components.interface(id);
        if deadline < self.cx.engine.timeline.get_brief(component) {
            self.cx.engine.timeline.set_brief(component, deadline);
        }
        goes_up
    }

    pub(super) fn on_interface_deadline(&mut self, id: InterfaceId, component: Component) {
        if self.interfaces.all[id.index()].deadline() <= self.cx.engine.now {
            self.poll(id);
        }
        self.cx.engine.timeline.set_brief(component, self.interfaces.all[id.index()].deadline());
    }

    fn poll(&mut self, id: InterfaceId) {
        let Interfaces { all, rings, up, .. } = &mut self.interfaces;
        let interface = &mut all[id.index()];
        if interface.has_one() {
            if let Some(packet) =
                interface.take_one(rings).filter(|packet| interface.goes_up_alone(self.cx.engine.now, packet))
            {
                self.hand_up_alone(&packet);
            }
            return;
        }
        // What it leads to may come back to an interface in the same instant.
        let mut up = std::mem::take(up);
        interface.poll(self.cx.engine.now, &mut up, rings);
        for (i, merged) in up.iter().enumerate() {
            let more = up[i + 1..].iter().any(|later| later.packet.len > 0 && later.is_of(&merged.packet));
            self.hand_up(merged, more);
        }
        up.clear();
        self.interfaces.up = up;
    }
}
