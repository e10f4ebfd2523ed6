//! When the datagrams of a train leave: `count` of them, `gap` apart, again every `every`, `runs`
//! times.

use crate::units::{Span, Time};

/// A train that would begin before the last one has ended begins right after it.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Begin of the train under way or to come.
    begin: Time,
    next: Time,
    stop: Time,
    count: u32,
    gap: Span,
    every: Span,
    runs_left: u32,
    /// Datagrams of the present train already sent.
    sent_of_train: u32,
}

impl Schedule {
    /// From `start` on, nothing at or after `stop`; `runs`: [`u32::MAX`] for no end.
    pub fn new(start: Time, stop: Time, count: u32, gap: Span, every: Span, runs: u32) -> Schedule {
        Schedule {
            begin: start,
            next: if count == 0 || runs == 0 { Time::NEVER } else { start },
            stop,
            count,
            gap,
            // Trains without length or distance would never let time go on.
            every: every.max(Span::from_ns(1)),
            runs_left: runs,
            sent_of_train: 0,
        }
    }

    /// Datagrams in a train.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// When the next datagram is to leave; never: the trains are over.
    pub fn deadline(&self) -> Time {
        if self.next < self.stop { self.next } else { Time::NEVER }
    }

    /// How many datagrams leave now: one, or without a gap, all that are left of the train.
    pub fn on_deadline(&mut self, now: Time) -> u32 {
        let leave = if self.gap.is_zero() { self.count - self.sent_of_train } else { 1 };
        self.sent_of_train += leave;
        if self.sent_of_train < self.count {
            self.next = now + self.gap;
            return leave;
        }
        self.sent_of_train = 0;
        self.begin = (self.begin + self.every).max(now + self.gap);
        self.runs_left = if self.runs_left == u32::MAX { u32::MAX } else { self.runs_left - 1 };
        self.next = if self.runs_left == 0 { Time::NEVER } else { self.begin };
        leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(mut s: Schedule) -> Vec<(u64, u32)> {
        let mut all = Vec::new();
        while !s.deadline().is_never() {
            let at = s.deadline();
            all.push((at.as_ns() / 1_000_000, s.on_deadline(at)));
        }
        all
    }

    #[test]
    fn trains_leave_on_time_and_so_many() {
        let ms = Span::from_ms;
        let at = |t| Time::ZERO + ms(t);
        let s = |count, gap, every, runs| Schedule::new(at(10), at(1000), count, ms(gap), ms(every), runs);
        assert_eq!(times(s(3, 2, 100, 2)), [(10, 1), (12, 1), (14, 1), (110, 1), (112, 1), (114, 1)]);
        assert_eq!(times(s(3, 0, 100, 3)), [(10, 3), (110, 3), (210, 3)]);
        // No room between the trains.
        assert_eq!(times(s(2, 5, 1, 2)), [(10, 1), (15, 1), (20, 1), (25, 1)]);
        // Until `stop`, which is not included.
        assert_eq!(times(s(1, 0, 330, u32::MAX)), [(10, 1), (340, 1), (670, 1)]);
        assert_eq!(times(s(1, 0, 1, 0)), []);
    }
}
