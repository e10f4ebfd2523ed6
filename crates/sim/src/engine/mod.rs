//! Engine of a world: what is next. It orders packets in flight and deadlines by time, and knows no
//! packet's meaning.

mod components;
pub mod packets_in_flight;
pub(crate) mod partitions;
mod ring;
pub mod timeline;

use airtcp_core::units::Time;

pub(crate) use components::{ComponentKind, Components, InterfaceId, ProcessorId, QueueId};
pub(crate) use ring::Ring;

use packets_in_flight::PacketsInFlight;
use timeline::{Component, Timeline};

/// Virtual time, and everything that is due in it.
pub(crate) struct Engine {
    pub now: Time,
    /// Events before this are processed by the call under way.
    pub limit: Time,
    /// Events processed so far.
    pub events: u64,
    pub in_flight: PacketsInFlight,
    pub timeline: Timeline,
    pub components: Components,
}

impl Engine {
    /// At time zero, with nothing in flight. `fifos`: of [`PacketsInFlight`].
    pub(crate) fn new(components: Components, fifos: usize) -> Engine {
        Engine {
            now: Time::ZERO,
            limit: Time::ZERO,
            events: 0,
            in_flight: PacketsInFlight::new(fifos),
            timeline: Timeline::new(components.count(), components.brief()),
            components,
        }
    }

    /// Time of the next event; [`Time::NEVER`]: there is none. It may be early, and is never late.
    pub(crate) fn next_event(&self) -> Time {
        self.in_flight.head_time().min(self.timeline.next().0)
    }

    /// Time before which nothing but this brief component has anything to do in the call under way.
    #[inline]
    pub(crate) fn next_besides(&self, component: Component) -> Time {
        self.in_flight.head_time().min(self.timeline.next_besides(component)).min(self.limit)
    }

    /// Gives up the memory of what is due, at the end of a run.
    pub(crate) fn forget_deadlines(&mut self) {
        self.timeline = Timeline::new(1, 0..0);
    }

    /// Gives up the memory of what is in flight, at the end of a run.
    pub(crate) fn forget_packets(&mut self) {
        self.in_flight = PacketsInFlight::new(0);
    }
}
