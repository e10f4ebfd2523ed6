//! COBALT: CoDel and BLUE side by side. CoDel is for flows that react to signals, BLUE for flows
//! that do not and fill the queue.
//!
//! Source: Linux 6.12, net/sched/sch_cake.c (`cobalt_*`). The reciprocal root is exact here; Linux
//! tabulates it up to 15 and takes one Newton step from there.

use crate::units::{Span, Time};

/// Parameters of the law, the same for all queues of one CAKE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CobaltParams {
    /// Delay up to which nothing is signalled.
    pub target: Span,
    /// Time from the first excess to the first signal, and the scale of the times between signals.
    pub interval: Span,
    /// A packet's time on the line; zero where the rate is not known.
    pub mtu_time: Span,
}

/// BLUE's steps, in 1/2^32: up by 1/256 when the queue is full, down by 1/4096 when it is empty.
const UP: u32 = 1 << 24;
const DOWN: u32 = 1 << 20;

/// State of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cobalt {
    /// CoDel's frequency of signals.
    count: u32,
    /// Time of the next signal; with a count of zero, the end of the time that the queue has to
    /// rest.
    next: Time,
    blue_changed: Time,
    /// BLUE's probability, in 1/2^32.
    probability: u32,
    is_over_target: bool,
}

/// `interval / sqrt(count)`, with Linux's 32 bits below the point.
fn spacing(interval: Span, count: u32) -> Span {
    let root = match count {
        0 | 1 => u64::from(u32::MAX),
        n => (u64::MAX / u64::from(n)).isqrt(),
    };
    interval.mul_ratio(root, 1 << 32)
}

impl Cobalt {
    fn step(&mut self, params: &CobaltParams) {
        self.next += spacing(params.interval, self.count);
    }

    /// A packet of this queue was dropped for want of room.
    pub(super) fn on_full(&mut self, params: &CobaltParams, now: Time) {
        if now.since(self.blue_changed) > params.target {
            self.probability = self.probability.saturating_add(UP);
            self.blue_changed = now;
        }
        self.is_over_target = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// It was this queue's turn, and nothing waited.
    pub(super) fn on_empty(&mut self, params: &CobaltParams, now: Time) {
        if self.probability > 0 && now.since(self.blue_changed) > params.target {
            self.probability = self.probability.saturating_sub(DOWN);
            self.blue_changed = now;
        }
        self.is_over_target = false;
        if self.count > 0 && now >= self.next {
            self.count -= 1;
            self.step(params);
        }
    }

    /// Nothing is left to decay in a queue that is empty.
    pub(super) fn is_at_rest(&self, now: Time) -> bool {
        self.probability == 0 && self.count == 0 && now >= self.next
    }

    /// True if a packet that waited so long is dropped. `mark` is called if a signal is due; it
    /// returns true if the packet carries the signal and stays. `bulk`: number of backlogged
    /// queues, which raises the target of an ingress shaper. `draw`: 32 random bits.
    pub(super) fn should_drop(
        &mut self,
        params: &CobaltParams,
        now: Time,
        waited: Span,
        bulk: u64,
        mark: impl FnOnce() -> bool,
        draw: impl FnOnce() -> u32,
    ) -> bool {
        let is_over = waited > params.target
            && waited > params.mtu_time.saturating_mul(2 * bulk)
            && waited > params.mtu_time.saturating_mul(4);
        let mut is_late = now > self.next;
        let mut is_due = self.count > 0 && now >= self.next;
        if is_over {
            if !self.is_over_target {
                self.is_over_target = true;
                self.next = now + spacing(params.interval, self.count);
            }
            self.count = self.count.max(1);
        } else {
            self.is_over_target = false;
        }
        let mut is_dropped = false;
        if is_due && self.is_over_target {
            is_dropped = !mark();
            self.count = self.count.saturating_add(1);
            self.step(params);
            is_late = now > self.next;
        } else {
            while is_due {
                self.count -= 1;
                self.step(params);
                is_late = now > self.next;
                is_due = self.count > 0 && now >= self.next;
            }
        }
        if self.probability > 0 {
            is_dropped |= draw() < self.probability;
        }
        if self.count == 0 {
            self.next = now + params.interval;
        } else if is_late && !is_dropped {
            self.next = now;
        }
        is_dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: CobaltParams =
        CobaltParams { target: Span::from_ms(5), interval: Span::from_ms(100), mtu_time: Span::ZERO };

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Linux's table of 2^32 / sqrt(count), to the last bit but one.
    #[test]
    fn the_reciprocal_root_is_the_kernels() {
        let table = [
            (0, u32::MAX),
            (1, u32::MAX),
            (2, 3_037_000_500),
            (3, 2_479_700_525),
            (4, 2_147_483_647),
            (9, 1_431_655_765),
            (15, 1_108_955_788),
        ];
        let second = Span::from_secs(1);
        for (count, root) in table {
            let kernel = second.mul_ratio(u64::from(root), 1 << 32);
            assert!(spacing(second, count).abs_diff(kernel) <= Span::from_ns(1), "{count}");
        }
    }

    /// A packet a millisecond, each of which waited 50 ms: first signal an interval after the first
    /// excess, then at the distances interval / sqrt(count).
    #[test]
    fn signals_come_at_codels_distances() {
        for can_mark in [false, true] {
            let mut law = Cobalt::default();
            let mut signals = Vec::new();
            for ms in 0..400 {
                let mut marked = false;
                let mark = || {
                    marked = can_mark;
                    can_mark
                };
                let dropped = law.should_drop(&PARAMS, at(ms), Span::from_ms(50), 0, mark, || unreachable!());
                if dropped || marked {
                    assert_eq!(marked, can_mark);
                    signals.push(ms);
                }
            }
            // 100 + 100/sqrt(2) = 170.7, + 100/sqrt(3) = 228.4, + 50 = 278.4, + 44.7 = 323.2, +
            // 40.8 = 364.0 less rounding
            let first = signals[0];
            assert_eq!(first, 100);
            let spaces: Vec<u64> = signals.iter().map(|ms| ms - first).collect();
            assert_eq!(&spaces[..4], [0, 71, 129, 179], "{signals:?}");
        }
    }

    #[test]
    fn the_count_decays_while_nothing_waits_too_long() {
        let mut law = Cobalt::default();
        for ms in 0..400 {
            law.should_drop(&PARAMS, at(ms), Span::from_ms(50), 0, || false, || unreachable!());
        }
        let count = law.count;
        assert!(count > 4);
        law.should_drop(&PARAMS, at(500), Span::from_ms(1), 0, || unreachable!(), || unreachable!());
        assert!(law.count < count && law.count > 0, "{} of {count}", law.count);
        law.should_drop(&PARAMS, at(5000), Span::from_ms(1), 0, || unreachable!(), || unreachable!());
        assert_eq!(law.count, 0);
        assert!(!law.is_at_rest(at(5000)) && law.is_at_rest(at(5100)));
    }

    /// Full queues raise BLUE's probability once in `target`, empty ones lower it by a sixteenth of
    /// a step.
    #[test]
    fn blue_counts_full_and_empty_queues() {
        let mut law = Cobalt::default();
        for ms in 10..40 {
            law.on_full(&PARAMS, at(ms));
        }
        assert_eq!(law.probability, 5 * UP);
        // BLUE's drop, where CoDel has none.
        let mut sparse = Cobalt { count: 0, next: at(1000), ..law };
        assert!(sparse.should_drop(&PARAMS, at(40), Span::ZERO, 0, || unreachable!(), || 5 * UP - 1));
        assert!(!sparse.should_drop(&PARAMS, at(40), Span::ZERO, 0, || unreachable!(), || 5 * UP));
        for n in 0..80 {
            assert_eq!(law.probability, 5 * UP - n * DOWN);
            law.on_empty(&PARAMS, at(100 + 6 * u64::from(n)));
        }
        assert_eq!(law.probability, 0);
    }

    #[test]
    fn four_packets_on_the_line_are_no_excess() {
        let params = CobaltParams { mtu_time: Span::from_ms(12), ..PARAMS };
        for (waited, bulk, is_over) in [(48, 0, false), (49, 0, true), (49, 3, false), (73, 3, true)] {
            let mut law = Cobalt::default();
            law.should_drop(&params, at(1), Span::from_ms(waited), bulk, || false, || unreachable!());
            assert_eq!(law.is_over_target, is_over, "{waited} ms, {bulk} queues");
        }
    }
}
