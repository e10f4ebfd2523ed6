//! The first difference of a path, and what the kernel's timers allow.

use airtcp_core::units::{Span, Time};

use super::record::Path;
use super::{receiving, sending};

/// CONFIG_HZ = 250.
const JIFFY_US: u64 = 4000;
/// Scheduling of the kernel's host.
const NOISE_US: u64 = 2000;
/// A shorter wait is one of a high-resolution timer: pacing, compressed ACKs.
const EXACT_US: u64 = 5000;
pub(crate) const EXACT_NOISE_US: u64 = 700;

/// The first difference of a path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    pub step: usize,
    pub at_us: u64,
    /// The event before it.
    pub event: String,
    pub field: &'static str,
    pub linux: String,
    pub airtcp: String,
}

/// Field, the kernel's value and airtcp's.
pub(crate) type Found = (&'static str, String, String);

/// The first difference, if there is one, in fields that are not `ignored`.
pub(crate) fn first_difference(path: &Path, ignored: &[String]) -> Option<Difference> {
    if path.head.topic == "receiver" {
        receiving::first_difference(path, ignored)
    } else {
        sending::first_difference(path, ignored)
    }
}

pub(crate) fn time(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// A timer, and since when it has been set to that time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Armed {
    pub due: Time,
    since: Time,
    /// It may be a high-resolution timer.
    may_be_exact: bool,
}

impl Armed {
    pub(crate) fn never(may_be_exact: bool) -> Armed {
        Armed { due: Time::NEVER, since: Time::ZERO, may_be_exact }
    }

    pub(crate) fn note(&mut self, due: Time, now: Time) {
        if due != self.due {
            (self.due, self.since) = (due, now);
        }
    }

    fn waited_us(&self) -> u64 {
        if self.due.is_never() { 0 } else { self.due.since(self.since).as_ns() / 1000 }
    }

    /// It is a high-resolution timer.
    pub(crate) fn is_exact(&self) -> bool {
        self.may_be_exact && !self.due.is_never() && self.waited_us() < EXACT_US
    }

    /// How much earlier the kernel's timer may be.
    pub(crate) fn early(&self) -> Span {
        self.tolerance()
    }

    /// How much later it may be.
    pub(crate) fn late(&self) -> Span {
        self.tolerance()
    }

    /// Both count by jiffies and in steps of a wheel, but their steps begin at different times.
    fn tolerance(&self) -> Span {
        let step = NOISE_US + JIFFY_US + wheel_step_us(self.waited_us());
        Span::from_us(if self.is_exact() { EXACT_NOISE_US } else { step })
    }

    /// The kernel's has run for certain by `at`.
    pub(crate) fn is_over(&self, at: Time) -> bool {
        !self.due.is_never() && self.due + self.late() < at
    }
}

/// `kernel/time/timer.c`: 64 steps a level, each level eight times coarser than the one below.
fn wheel_step_us(wait_us: u64) -> u64 {
    let (mut jiffies, mut step) = (wait_us / JIFFY_US, JIFFY_US);
    while jiffies >= 63 {
        (jiffies, step) = (jiffies / 8, step * 8);
    }
    step
}
