//! Whose each component of the timeline is: the order in which deadlines of the same instant are served.

use airtcp_core::convert::count;
use airtcp_core::packet::FlowId;

use super::interfaces::InterfaceId;
use super::processors::ProcessorId;
use crate::link::QueueId;
use crate::spec::ChannelId;
use crate::timeline::Component;

/// Links that need departures, channels, interfaces of hosts, their processors, the two ends of each flow, the sampler, hosts that roam: in this order.
#[derive(Debug, Clone)]
pub(super) struct Components {
    queues: u32,
    first_interface: u32,
    first_processor: u32,
    first_flow: u32,
    sampler: u32,
    count: u32,
}

/// Whose a component is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
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
    pub(super) fn new(
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

    pub(super) fn count(&self) -> usize {
        self.count as usize
    }
    #[inline]
    pub(super) fn queue(&self, queue: QueueId) -> Component {
        Component(queue.0)
    }
    #[inline]
    pub(super) fn channel(&self, channel: ChannelId) -> Component {
        Component(self.queues + channel.0)
    }
    #[inline]
    pub(super) fn interface(&self, interface: InterfaceId) -> Component {
        Component(self.first_interface + interface.0)
    }
    /// All channels and interfaces. They are brief ones of the timeline.
    pub(super) fn brief(&self) -> std::ops::Range<u32> {
        self.queues..self.first_processor
    }
    #[inline]
    pub(super) fn processor(&self, processor: ProcessorId) -> Component {
        Component(self.first_processor + processor.0)
    }
    #[inline]
    pub(super) fn source(&self, flow: FlowId) -> Component {
        Component(self.first_flow + 2 * flow.0)
    }
    #[inline]
    pub(super) fn destination(&self, flow: FlowId) -> Component {
        Component(self.first_flow + 2 * flow.0 + 1)
    }
    pub(super) fn sampler(&self) -> Component {
        Component(self.sampler)
    }
    pub(super) fn roamer(&self, roamer: usize) -> Component {
        debug_assert!(roamer < (self.count - self.sampler - 1) as usize);
        Component(self.sampler + 1 + count(roamer))
    }

    #[inline]
    pub(super) fn whose(&self, component: Component) -> Whose {
        let id = component.0;
        if id < self.queues {
            Whose::Queue(QueueId(id))
        } else if id < self.first_interface {
            Whose::Channel(ChannelId(id - self.queues))
        } else if id < self.first_processor {
            Whose::Interface(InterfaceId(id - self.first_interface))
        } else if id < self.first_flow {
            Whose::Processor(ProcessorId(id - self.first_processor))
        } else if id < self.sampler {
            let flow = FlowId((id - self.first_flow) / 2);
            if (id - self.first_flow) % 2 == 0 { Whose::Source(flow) } else { Whose::Destination(flow) }
        } else if id == self.sampler {
            Whose::Sampler
        } else {
            Whose::Roamer((id - self.sampler - 1) as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChannelId, Components, FlowId, InterfaceId, ProcessorId, QueueId, Whose};

    #[test]
    fn each_component_is_somebodys_in_the_order_stated() {
        let c = Components::new(2, 1, 2, 1, 2, 2);
        let all = [
            (c.queue(QueueId(0)), Whose::Queue(QueueId(0))),
            (c.queue(QueueId(1)), Whose::Queue(QueueId(1))),
            (c.channel(ChannelId(0)), Whose::Channel(ChannelId(0))),
            (c.interface(InterfaceId(0)), Whose::Interface(InterfaceId(0))),
            (c.interface(InterfaceId(1)), Whose::Interface(InterfaceId(1))),
            (c.processor(ProcessorId(0)), Whose::Processor(ProcessorId(0))),
            (c.source(FlowId(0)), Whose::Source(FlowId(0))),
            (c.destination(FlowId(0)), Whose::Destination(FlowId(0))),
            (c.source(FlowId(1)), Whose::Source(FlowId(1))),
            (c.destination(FlowId(1)), Whose::Destination(FlowId(1))),
            (c.sampler(), Whose::Sampler),
            (c.roamer(0), Whose::Roamer(0)),
            (c.roamer(1), Whose::Roamer(1)),
        ];
        assert_eq!(c.count(), all.len());
        for (i, (component, whose)) in all.into_iter().enumerate() {
            assert_eq!((component.0 as usize, c.whose(component)), (i, whose));
        }
    }
}
