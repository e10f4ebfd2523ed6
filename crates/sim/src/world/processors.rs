//! Packets at the processors of hosts that take a time for each: up from the last link of their path, down to the first.

use airtcp_core::convert::count;
use airtcp_core::packet::PacketId;
use airtcp_core::receive::Processor;

use super::World;
use crate::engine::ProcessorId;
use crate::engine::timeline::Component;
use crate::spec::{NodeId, RunSpec, Traffic};

/// Where a packet goes from the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To the end of its flow on this host.
    Up,
    /// To the first link of its path.
    Down,
}

/// The processors of hosts that take a time for each packet.
#[derive(Debug, Default)]
pub(super) struct Processors {
    pub all: Vec<Processor<(PacketId, Way)>>,
    /// By flow: at its source and at its destination.
    of_flow: Vec<[ProcessorId; 2]>,
}

impl Processors {
    pub(super) fn new(spec: &RunSpec) -> Processors {
        let mut processors = Processors::default();
        if spec.nodes.iter().all(|node| node.packet_time.is_zero()) {
            return processors;
        }
        let mut of_node = vec![ProcessorId::NONE; spec.nodes.len()];
        for flow in &spec.flows {
            let mut of = |node: NodeId| {
                let packet_time = spec.nodes[node.index()].packet_time;
                if packet_time.is_zero() || matches!(flow.traffic, Traffic::Daemon(_) | Traffic::External) {
                    return ProcessorId::NONE;
                }
                let own = &mut of_node[node.index()];
                if *own == ProcessorId::NONE {
                    *own = ProcessorId(count(processors.all.len()));
                    processors.all.push(Processor::new(packet_time));
                }
                *own
            };
            let ends = [of(flow.from), of(flow.to)];
            processors.of_flow.push(ends);
        }
        processors
    }

    /// At the source or the destination of a flow.
    #[inline]
    pub(super) fn of(&self, flow: u32, at_source: bool) -> Option<ProcessorId> {
        let [source, destination] = *self.of_flow.get(flow as usize)?;
        let own = if at_source { source } else { destination };
        (own != ProcessorId::NONE).then_some(own)
    }

    /// Packets that they have not done yet.
    pub(super) fn waiting(&self) -> impl Iterator<Item = PacketId> {
        self.all.iter().flat_map(Processor::waiting).map(|&(id, _)| id)
    }
}

impl World {
    /// A packet has come to a host that takes its time for it, or is to leave it.
    pub(super) fn enter_processor(&mut self, id: ProcessorId, packet: PacketId, way: Way) {
        let processor = &mut self.processors.all[id.index()];
        processor.accept(self.cx.engine.now, (packet, way));
        let deadline = processor.deadline();
        self.cx.engine.timeline.advance_to(self.cx.engine.components.processor(id), deadline);
    }

    pub(super) fn on_processor_deadline(&mut self, id: ProcessorId, component: Component) {
        while let Some((packet, way)) = self.processors.all[id.index()].take(self.cx.engine.now) {
            match way {
                Way::Up => self.take_up(packet),
                Way::Down => {
                    let p = self.pool[packet];
                    // A host that roams may have another way by now.
                    let path_start = self.flows[p.flow.0 as usize].path_start;
                    self.leave_host(packet, p.flow, p.size, p.is_reverse(), path_start);
                }
            }
        }
        self.cx.engine.timeline.set(component, self.processors.all[id.index()].deadline());
    }
}
