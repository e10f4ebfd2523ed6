//! Packets at the processors of hosts that take a time for each: up from the last link of their
//! path, down to the first.

use airtcp_core::convert::count;
use airtcp_core::packet::PacketId;
use airtcp_core::receive::Processor;
use airtcp_core::units::Time;

use crate::context::Cx;
use crate::engine::ProcessorId;
use crate::spec::{NodeId, RunSpec, Traffic};

/// Direction of a packet through a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the end of its flow on this host.
    Up,
    /// To the first link of its path.
    Down,
}

/// The processors of hosts that take a time for each packet.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    all: Vec<Processor<(PacketId, Direction)>>,
    /// By flow: at its source and at its destination.
    of_flow: Vec<[ProcessorId; 2]>,
}

impl Processors {
    pub(crate) fn new(spec: &RunSpec) -> Processors {
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
    pub(crate) fn of(&self, flow: u32, at_source: bool) -> Option<ProcessorId> {
        let [source, destination] = *self.of_flow.get(flow as usize)?;
        let own = if at_source { source } else { destination };
        (own != ProcessorId::NONE).then_some(own)
    }

    /// Packets that they have not done yet.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = PacketId> {
        self.all.iter().flat_map(Processor::waiting).map(|&(id, _)| id)
    }

    /// Number of them.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Deadline of a processor.
    pub(crate) fn deadline(&self, id: ProcessorId) -> Time {
        self.all[id.index()].deadline()
    }

    /// Takes in a packet that has come to a host, or is to leave it.
    pub(crate) fn accept(&mut self, cx: &mut Cx, id: ProcessorId, packet: PacketId, direction: Direction) {
        let processor = &mut self.all[id.index()];
        processor.accept(cx.engine.now, (packet, direction));
        cx.engine.timeline.advance_to(cx.engine.components.processor(id), processor.deadline());
    }

    /// Next packet that a processor is done with.
    pub(crate) fn take(&mut self, now: Time, id: ProcessorId) -> Option<(PacketId, Direction)> {
        self.all[id.index()].take(now)
    }
}
