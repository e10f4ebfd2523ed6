//! Components of a world by kind: the order in which deadlines of the same instant are served.

use airtcp_core::convert::count;
use airtcp_core::packet::FlowId;

use super::timeline::Component;
use crate::spec::ChannelId;

/// Number of a link with a discipline of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueId(pub u32);

/// Number of an interface of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterfaceId(pub u32);

/// Number of a processor of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessorId(pub u32);

impl QueueId {
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl InterfaceId {
    pub(crate) const NONE: InterfaceId = InterfaceId(u32::MAX);

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl ProcessorId {
    pub(crate) const NONE: ProcessorId = ProcessorId(u32::MAX);

    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Links that need departures, channels, interfaces of hosts, their processors, the two ends of
/// each flow, the sampler, hosts that roam: in this order.
#[derive(Debug, Clone)]
pub(crate) struct Components {
    queues: u32,
    first_interface: u32,
    first_processor: u32,
    first_flow: u32,
    sampler: u32,
    count: u32,
}

/// Kind of a component, and its number among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ComponentKind {
    Queue(QueueId),
    Channel(ChannelId),
    Interface(InterfaceId),
    Processor(ProcessorId),
    Source(FlowId),
    Destination(FlowId),
    Sampler,
    /// By its place in [`crate::spec::RunSpec::roaming`].
    Roamer(usize),
}

impl Components {
    pub(crate) fn new(
        queues: usize,
        channels: usize,
        interfaces: usize,
        processors: usize,
        flows: usize,
        roamers: usize,
    ) -> Components {
        // A world holds far less than 2^31 of each: its links and flows have 32-bit numbers.
        let number = |n: usize| u32::try_from(n).expect("a world of this size does not fit into memory");
        let first_interface = queues + channels;
        let first_processor = first_interface + interfaces;
        let first_flow = first_processor + processors;
        let sampler = first_flow + 2 * flows;
        Components {
            queues: number(queues),
            first_interface: number(first_interface),
            first_processor: number(first_processor),
            first_flow: number(first_flow),
            sampler: number(sampler),
            count: number(sampler + 1 + roamers),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }
    #[inline]
    pub(crate) fn queue(&self, queue: QueueId) -> Component {
        Component(queue.0)
    }
    #[inline]
    pub(crate) fn channel(&self, channel: ChannelId) -> Component {
        Component(self.queues + channel.0)
    }
    #[inline]
    pub(crate) fn interface(&self, interface: InterfaceId) -> Component {
        Component(self.first_interface + interface.0)
    }
    /// All channels and interfaces. They are brief ones of the timeline.
    pub(crate) fn brief(&self) -> std::ops::Range<u32> {
        self.queues..self.first_processor
    }
    #[inline]
    pub(crate) fn processor(&self, processor: ProcessorId) -> Component {
        Component(self.first_processor + processor.0)
    }
    #[inline]
    pub(crate) fn source(&self, flow: FlowId) -> Component {
        Component(self.first_flow + 2 * flow.0)
    }
    #[inline]
    pub(crate) fn destination(&self, flow: FlowId) -> Component {
        Component(self.first_flow + 2 * flow.0 + 1)
    }
    pub(crate) fn sampler(&self) -> Component {
        Component(self.sampler)
    }
    pub(crate) fn roamer(&self, roamer: usize) -> Component {
        debug_assert!(roamer < (self.count - self.sampler - 1) as usize);
        Component(self.sampler + 1 + count(roamer))
    }

    #[inline]
    pub(crate) fn kind(&self, component: Component) -> ComponentKind {
        let id = component.0;
        if id < self.queues {
            ComponentKind::Queue(QueueId(id))
        } else if id < self.first_interface {
            ComponentKind::Channel(ChannelId(id - self.queues))
        } else if id < self.first_processor {
            ComponentKind::Interface(InterfaceId(id - self.first_interface))
        } else if id < self.first_flow {
            ComponentKind::Processor(ProcessorId(id - self.first_processor))
        } else if id < self.sampler {
            let flow = FlowId((id - self.first_flow) / 2);
            if (id - self.first_flow) % 2 == 0 { ComponentKind::Source(flow) } else { ComponentKind::Destination(flow) }
        } else if id == self.sampler {
            ComponentKind::Sampler
        } else {
            ComponentKind::Roamer((id - self.sampler - 1) as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChannelId, ComponentKind, Components, FlowId, InterfaceId, ProcessorId, QueueId};

    #[test]
    fn each_component_has_its_kind_in_the_order_stated() {
        let c = Components::new(2, 1, 2, 1, 2, 2);
        let all = [
            (c.queue(QueueId(0)), ComponentKind::Queue(QueueId(0))),
            (c.queue(QueueId(1)), ComponentKind::Queue(QueueId(1))),
            (c.channel(ChannelId(0)), ComponentKind::Channel(ChannelId(0))),
            (c.interface(InterfaceId(0)), ComponentKind::Interface(InterfaceId(0))),
            (c.interface(InterfaceId(1)), ComponentKind::Interface(InterfaceId(1))),
            (c.processor(ProcessorId(0)), ComponentKind::Processor(ProcessorId(0))),
            (c.source(FlowId(0)), ComponentKind::Source(FlowId(0))),
            (c.destination(FlowId(0)), ComponentKind::Destination(FlowId(0))),
            (c.source(FlowId(1)), ComponentKind::Source(FlowId(1))),
            (c.destination(FlowId(1)), ComponentKind::Destination(FlowId(1))),
            (c.sampler(), ComponentKind::Sampler),
            (c.roamer(0), ComponentKind::Roamer(0)),
            (c.roamer(1), ComponentKind::Roamer(1)),
        ];
        assert_eq!(c.count(), all.len());
        for (i, (component, kind)) in all.into_iter().enumerate() {
            assert_eq!((component.0 as usize, c.kind(component)), (i, kind));
        }
    }
}
