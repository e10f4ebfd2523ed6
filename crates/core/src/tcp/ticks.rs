//! Timers that only run at the ticks of a clock: BSD's `tcp_slowtimo` (every 500 ms) and
//! `tcp_fasttimo` (every 200 ms).
//!
//! McKusick et al., "The Design and Implementation of the 4.4BSD Operating System" (1996), section
//! 13.4; Wright and Stevens, "TCP/IP Illustrated, Volume 2" (1995), chapter 25. A timer set to n
//! ticks expires with the n-th tick from now, so between n - 1 and n ticks later.

use crate::units::{Span, Time};

/// A free-running clock. With a tick of zero it is exact: nothing is rounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TickClock {
    tick_ns: u64,
    /// Time of the first tick, below `tick_ns`.
    phase_ns: u64,
}

impl TickClock {
    /// Ticks at `phase`, one `tick` later, and so on.
    pub(super) fn new(tick: Span, phase: Span) -> TickClock {
        TickClock { tick_ns: tick.as_ns(), phase_ns: phase.as_ns().checked_rem(tick.as_ns()).unwrap_or(0) }
    }

    /// Ticks up to and including `at`.
    fn count(self, at: Time) -> u64 {
        at.as_ns().checked_sub(self.phase_ns).map_or(0, |ns| ns / self.tick_ns + 1)
    }

    /// When a timer that is set to `span` at `now` expires: with that many ticks, at least one.
    pub(super) fn after(self, now: Time, span: Span) -> Time {
        if self.tick_ns == 0 {
            return now + span;
        }
        let ticks = span.as_ns().div_ceil(self.tick_ns).max(1);
        let nth = (self.count(now) + ticks - 1).saturating_mul(self.tick_ns);
        Time::from_ns(nth.saturating_add(self.phase_ns).min(Time::NEVER.as_ns()))
    }

    /// Duration that the clock measures: the ticks that began in it; the whole of it if the clock
    /// is exact.
    pub(super) fn between(self, from: Time, to: Time) -> Span {
        if self.tick_ns == 0 {
            return to.since(from);
        }
        Span::from_ns(self.count(to).saturating_sub(self.count(from)) * self.tick_ns)
    }

    /// Value of a counter that starts at 1 and is raised at every tick (`t_rtt`); `None` for an
    /// exact clock.
    pub(super) fn counter(self, from: Time, to: Time) -> Option<u64> {
        (self.tick_ns > 0).then(|| self.count(to).saturating_sub(self.count(from)) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Ticks at 3, 13, 23, ... ms: 26 ms are two ticks or three.
    #[test]
    fn a_time_is_the_ticks_that_began_during_it() {
        let clock = TickClock::new(Span::from_ms(10), Span::from_ms(3));
        for (from, to, ms) in [(4, 30, 20), (12, 38, 30), (13, 39, 20), (12, 13, 10), (13, 22, 0), (0, 2, 0)] {
            assert_eq!(clock.between(at(from), at(to)), Span::from_ms(ms), "{from} to {to}");
        }
        assert_eq!(TickClock::new(Span::ZERO, Span::ZERO).between(at(4), at(30)), Span::from_ms(26));
    }

    /// Ticks at 100, 600, 1100, ... ms.
    #[test]
    fn a_timer_expires_with_its_nth_tick() {
        let clock = TickClock::new(Span::from_ms(500), Span::from_ms(1600));
        for (now, span, expires) in [
            (0, 1000, 600),
            (99, 500, 100),
            (100, 500, 600),
            (101, 500, 600),
            (599, 1000, 1100),
            (599, 1001, 1600),
            (600, 0, 1100),
        ] {
            assert_eq!(clock.after(at(now), Span::from_ms(span)), at(expires), "{span} ms from {now}");
        }
        assert_eq!(TickClock::default().after(at(7), Span::from_ms(3)), at(10));
    }

    #[test]
    fn the_counter_starts_at_one() {
        let clock = TickClock::new(Span::from_ms(500), Span::ZERO);
        for (from, to, shows) in [(1, 499, 1), (1, 500, 2), (499, 501, 2), (500, 999, 1), (0, 5000, 11)] {
            assert_eq!(clock.counter(at(from), at(to)), Some(shows), "{from} to {to}");
        }
        assert_eq!(TickClock::default().counter(at(0), at(9)), None);
    }
}
