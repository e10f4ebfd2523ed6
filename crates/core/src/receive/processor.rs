//! The processor of a host, where it is slow enough to matter: one server for all packets that the
//! host sends or receives.
//!
//! Each packet takes the same time, whatever its size, in the order in which packets come to it
//! from either side. Packets that it has no time for yet wait, without a limit. So TCP hears of an
//! arrival late, and a packet leaves late for the interface.

use std::collections::VecDeque;

use crate::units::{Span, Time};

/// One server with a constant time of service, and its queue.
#[derive(Debug, Clone)]
pub struct Processor<T> {
    packet_time: Span,
    /// Time at which it has done all of `work`.
    free_at: Time,
    /// The packet in service and those that wait, in the order of arrival, each with the time at
    /// which it is done.
    work: VecDeque<(Time, T)>,
}

impl<T> Processor<T> {
    /// Idle.
    pub fn new(packet_time: Span) -> Processor<T> {
        Processor { packet_time, free_at: Time::ZERO, work: VecDeque::new() }
    }

    /// A packet comes to it.
    pub fn accept(&mut self, now: Time, packet: T) {
        self.free_at = self.free_at.max(now) + self.packet_time;
        self.work.push_back((self.free_at, packet));
    }

    /// When it is done with a packet; [`Time::NEVER`] while it is idle.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.work.front().map_or(Time::NEVER, |&(done, _)| done)
    }

    /// The packet with which it is done at `now`, if it is. The caller asks again until there is
    /// none.
    pub fn take(&mut self, now: Time) -> Option<T> {
        let is_done = self.deadline() <= now;
        if is_done { self.work.pop_front().map(|(_, packet)| packet) } else { None }
    }

    /// Packets that it has not done yet, in the order of arrival.
    pub fn waiting(&self) -> impl Iterator<Item = &T> {
        self.work.iter().map(|(_, packet)| packet)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(us: u64) -> Time {
        Time::from_ns(us * 1000)
    }

    /// Packets that are done until `until`, each with its time.
    fn run(processor: &mut Processor<usize>, until: Time) -> Vec<(Time, usize)> {
        let mut done = Vec::new();
        while processor.deadline() <= until {
            let now = processor.deadline();
            done.extend(processor.take(now).map(|packet| (now, packet)));
        }
        done
    }

    #[test]
    fn each_takes_its_time_and_the_next_waits_for_it() {
        let mut processor = Processor::new(Span::from_ms(2));
        assert_eq!(processor.deadline(), Time::NEVER);
        processor.accept(at(0), 0);
        processor.accept(at(500), 1);
        assert_eq!(processor.deadline(), at(2000));
        assert_eq!(processor.take(at(1999)), None);
        assert_eq!(run(&mut processor, at(9_000)), [(at(2000), 0), (at(4000), 1)]);
        // Idle since 4 ms: the next does not wait.
        processor.accept(at(9_000), 2);
        assert_eq!(run(&mut processor, at(20_000)), [(at(11_000), 2)]);
    }

    proptest! {
        /// Nothing is lost or overtaken; each is done a time of service after it came or, if that
        /// is later, after the one before it.
        #[test]
        fn what_comes_is_done_once_and_in_order(
            packet_us in 1u64..5000,
            gaps_us in prop::collection::vec(0u64..4000, 0..100),
        ) {
            let mut processor = Processor::new(Span::from_us(packet_us));
            let (mut now, mut free, mut expected, mut done) = (0, 0, Vec::new(), Vec::new());
            for (packet, gap) in gaps_us.iter().enumerate() {
                now += gap;
                done.extend(run(&mut processor, at(now)));
                prop_assert_eq!(done.len() + processor.waiting().count(), packet);
                processor.accept(at(now), packet);
                free = free.max(now) + packet_us;
                expected.push((at(free), packet));
            }
            done.extend(run(&mut processor, at(now + packet_us * 101)));
            prop_assert_eq!(done, expected);
            prop_assert_eq!(processor.deadline(), Time::NEVER);
        }
    }
}
