//! The instants that a sender waits for; `NEVER`: not running.

use crate::units::Time;

#[derive(Debug, Clone, Copy)]
pub(super) struct Timers {
    /// The retransmission timeout (RFC 6298).
    pub retransmit: Time,
    /// The next probe of a closed receive window (RFC 9293 section 3.8.6.1).
    pub persist: Time,
    /// When to ask the loss policy again.
    pub judge: Time,
    /// When a tail loss probe is due (RFC 8985 section 7).
    pub tail_loss_probe: Time,
}

impl Timers {
    pub(super) const STOPPED: Timers =
        Timers { retransmit: Time::NEVER, persist: Time::NEVER, judge: Time::NEVER, tail_loss_probe: Time::NEVER };

    pub(super) fn deadline(&self) -> Time {
        self.retransmit.min(self.persist).min(self.judge).min(self.tail_loss_probe)
    }
}
