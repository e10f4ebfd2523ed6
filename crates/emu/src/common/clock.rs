//! The monotonic clock, and waits that end as near to a deadline as a sleep can.

use airtcp_core::convert::unsigned64;
use airtcp_core::units::{Span, Time};
use nix::sys::prctl::set_timerslack;
use nix::time::{ClockId, clock_gettime};

use crate::common::sys::{Processors, ask_for_turns, has_realtime_priority, pin_to};

/// Tells the time of a network. It begins at zero and never goes back.
pub trait Clock {
    /// Now.
    fn now(&self) -> Time;
}

/// The machine's, from its start on.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic {
    zero: Time,
}

/// The sleep ends this long before a deadline; the rest is spun. A wake-up comes 30 to 100 us late
/// where nothing else runs.
pub(crate) const SPIN: Span = Span::from_us(20);
/// Turns of the scheduler that the driver asks for.
const TURN: Span = Span::from_us(100);

/// Since the machine's start.
fn monotonic() -> Time {
    let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return Time::ZERO };
    Time::ZERO + Span::from_secs(1) * unsigned64(now.tv_sec()) + Span::from_ns(unsigned64(now.tv_nsec()))
}

impl Monotonic {
    /// From now on.
    pub fn start() -> Monotonic {
        Monotonic { zero: monotonic() }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Time {
        Time::ZERO + monotonic().since(self.zero)
    }
}

/// Timer and scheduling rights that the kernel gives a process that must wake in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Urgency {
    /// Timers end on their nanosecond.
    pub exact_timers: bool,
    /// Short turns.
    pub short_turns: bool,
    /// More weight than others. Where the kernel groups processes by login session it is the
    /// session's: nice works within one only.
    pub weight: bool,
    /// The programs of the network run on other processors.
    pub own_processor: bool,
}

/// Weight where it is allowed, which is for root.
const NICE: i32 = -10;

impl Urgency {
    /// Asks for all of it. The process is in a session of its own then; its children are not if
    /// they were started before. A process that `chrt` has put before others stays there.
    pub fn ask() -> Urgency {
        let own_processor = pin_to(Processors::Last).unwrap_or(false);
        if has_realtime_priority() {
            return Urgency { exact_timers: set_timerslack(1).is_ok(), short_turns: true, weight: true, own_processor };
        }
        let is_session =
            nix::unistd::setsid().is_ok() && std::fs::write("/proc/self/autogroup", NICE.to_string()).is_ok();
        let is_nice = ask_for_turns(TURN, NICE).is_ok();
        Urgency {
            exact_timers: set_timerslack(1).is_ok(),
            short_turns: is_nice || ask_for_turns(TURN, 0).is_ok(),
            weight: is_session || is_nice,
            own_processor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on() {
        let clock = Monotonic::start();
        let first = clock.now();
        assert!(first < Time::from_ns(10_000_000_000));
        assert!(clock.now() >= first);
    }
}
