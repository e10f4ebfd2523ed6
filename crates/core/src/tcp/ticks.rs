//! Timers that only run at the ticks of a clock: BSD's `tcp_slowtimo` (every 500 ms) and
//! `tcp_fasttimo` (every 200 ms), and Linux's timer wheel.
//!
//! McKusick et al., "The Design and Implementation of the 4.4BSD Operating System" (1996), section
//! 13.4; Wright and Stevens, "TCP/IP Illustrated, Volume 2" (1995), chapter 25. A timer set to n
//! ticks expires with the n-th tick from now, so between n - 1 and n ticks later.
//!
//! Linux since 4.8, kernel/time/timer.c (6.12), `calc_wheel_index`: a timer never expires early, so
//! that one of n jiffies takes between n and n + 1. The further away its end, the coarser are the
//! steps at which it can expire, and it takes the next one.

use crate::units::{Span, Time};

/// A free-running clock. With a tick of zero it is exact: nothing is rounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TickClock {
    tick_ns: u64,
    /// Time of the first tick, below `tick_ns`; for a wheel, of the first tick at which all levels
    /// step, below [`WHEEL_TICKS`] ticks.
    phase_ns: u64,
    is_wheel: bool,
}

/// Steps of a level of the wheel (`LVL_SIZE`), and by how many powers of two each level is coarser
/// than the one below (`LVL_CLK_SHIFT`).
const WHEEL_STEPS: u64 = 64;
const WHEEL_SHIFT: u32 = 3;
/// The highest of the levels that timers of TCP use, the two minutes of the longest timeout
/// included.
const WHEEL_TOP: u32 = 3;
/// Ticks after which all these levels step together.
pub(super) const WHEEL_TICKS: u64 = 1 << (WHEEL_SHIFT * WHEEL_TOP);

impl TickClock {
    /// Ticks at `phase`, one `tick` later, and so on.
    pub(super) fn new(tick: Span, phase: Span) -> TickClock {
        let phase_ns = phase.as_ns().checked_rem(tick.as_ns()).unwrap_or(0);
        TickClock { tick_ns: tick.as_ns(), phase_ns, is_wheel: false }
    }

    /// Linux's timer wheel, whose levels all step at `phase`.
    pub(super) fn wheel(jiffy: Span, phase: Span) -> TickClock {
        let phase_ns = phase.as_ns().checked_rem(jiffy.as_ns().saturating_mul(WHEEL_TICKS)).unwrap_or(0);
        TickClock { tick_ns: jiffy.as_ns(), phase_ns, is_wheel: true }
    }

    pub(super) fn is_wheel(self) -> bool {
        self.is_wheel
    }

    /// Number of the jiffy that runs at `at`; the wheel's phase is at a multiple of
    /// [`WHEEL_TICKS`].
    fn jiffies(self, at: Time) -> u64 {
        let lead = self.tick_ns.saturating_mul(WHEEL_TICKS);
        at.as_ns().saturating_add(lead).saturating_sub(self.phase_ns) / self.tick_ns
    }

    /// A timer of so many jiffies that is set at `now` (`calc_wheel_index`, `calc_index`).
    fn on_wheel(self, now: Time, jiffies: u64) -> Time {
        let expires = self.jiffies(now).saturating_add(jiffies);
        let mut level = 0;
        while level < WHEEL_TOP && jiffies >= (WHEEL_STEPS - 1) << (WHEEL_SHIFT * level) {
            level += 1;
        }
        let shift = WHEEL_SHIFT * level;
        let bucket = ((expires >> shift) + 1) << shift;
        let lead = self.tick_ns.saturating_mul(WHEEL_TICKS);
        let ns = bucket.saturating_mul(self.tick_ns).saturating_add(self.phase_ns).saturating_sub(lead);
        Time::from_ns(ns.min(Time::NEVER.as_ns()))
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
        if self.is_wheel {
            return self.on_wheel(now, ticks);
        }
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
    /// exact clock, and for a wheel, by which nothing is measured.
    pub(super) fn counter(self, from: Time, to: Time) -> Option<u64> {
        (self.tick_ns > 0 && !self.is_wheel).then(|| self.count(to).saturating_sub(self.count(from)) + 1)
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

    /// Jiffies of 4 ms, and all levels step at 1 ms: 10 jiffies take 10 to 11, 63 and more end at
    /// every eighth, 504 and more at every 64th.
    #[test]
    fn a_timer_of_the_wheel_is_never_early_and_the_later_the_coarser() {
        let wheel = TickClock::wheel(Span::from_ms(4), Span::from_ms(1));
        for (now, span, expires) in [
            (1, 40, 45),
            (2, 40, 45),
            (4, 40, 45),
            (5, 40, 49),
            (2, 37, 45),
            (1, 248, 253),    // 62 jiffies
            (1, 252, 257),    // 63: at 64
            (1, 256, 289),    // 64: at 72
            (33, 1000, 1057), // from 8: 258, at 264
            (1, 2012, 2017),  // 503: at 504
            (1, 2016, 2049),  // 504: at 512
            (1, 4000, 4097),
            (1, 20_000, 20_481),
        ] {
            assert_eq!(wheel.after(at(now), Span::from_ms(span)), at(expires), "{span} ms from {now}");
        }
        // Before its phase, too.
        let late = TickClock::wheel(Span::from_ms(4), Span::from_ms(2047));
        assert_eq!(late.after(at(0), Span::from_ms(40)), at(43));
        assert_eq!(late.after(at(2040), Span::from_ms(400)), at(2463), "100 jiffies from 510: at 616");
        assert_eq!(late.counter(at(0), at(100)), None);
        for ns in [0, 3_999_999, 123_456_789] {
            for ms in [4, 40, 200, 251, 253, 900, 3000, 60_000, 120_000] {
                let (now, span) = (Time::from_ns(ns), Span::from_ms(ms));
                let whole = span.round_up_to(Span::from_ms(4));
                let is_above = |ms: &&u64| whole >= Span::from_ms(**ms);
                let step = Span::from_ms(4 << (3 * [252, 2016, 16_128].iter().filter(is_above).count()));
                let taken = late.after(now, span).since(now);
                assert!(taken >= span && taken <= whole + step, "{ms}: {taken}");
            }
        }
        assert_eq!(TickClock::wheel(Span::ZERO, Span::ZERO).after(at(7), Span::from_ms(3)), at(10), "exact");
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
