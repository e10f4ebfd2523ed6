//! When slow start ends without a loss: the parameter `slow_start_exit`, shared by the controls
//! that double per round trip.
//!
//! Standard slow start (RFC 5681) overshoots by up to a window and pays with a burst of losses.
//! HyStart (Linux's CUBIC) and HyStart++ (RFC 9406) watch round-trip times, HyStart also the length
//! of the ACK train, and leave earlier.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hystart::HyStart;
use super::hystart_plus_plus::HyStartPlusPlus;
use super::{AckSample, CcContext, Path, Window};
use crate::units::Time;

/// Rule that may end slow start before a loss does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlowStartExit {
    /// Only a loss or `ssthresh` (RFC 5681).
    #[default]
    None,
    /// Rising delay or a long ACK train (Ha and Rhee 2011; Linux's CUBIC).
    Hystart,
    /// Rising delay, then five rounds of slower growth to be sure (RFC 9406).
    HystartPlusPlus,
}

impl SlowStartExit {
    /// Slow start with this exit.
    pub fn build(self, ctx: &CcContext) -> SlowStart {
        match self {
            SlowStartExit::None => SlowStart::Standard,
            SlowStartExit::Hystart => SlowStart::HyStart(HyStart::new(ctx.paced)),
            SlowStartExit::HystartPlusPlus => SlowStart::HyStartPlusPlus(HyStartPlusPlus::new(ctx.paced)),
        }
    }
}

/// Slow start with one of the exits.
#[derive(Debug, Clone)]
pub enum SlowStart {
    /// Without an exit of its own.
    Standard,
    /// With HyStart.
    HyStart(HyStart),
    /// With HyStart++.
    HyStartPlusPlus(HyStartPlusPlus),
}

impl SlowStart {
    /// Grows `cwnd` if the connection is in slow start and may grow. Returns the credit that is
    /// left for congestion avoidance: none while slow start goes on, all of it outside slow
    /// start.
    // [RFC9438-4.10-1]
    pub fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) -> u32 {
        let mut credit = if ack.cwnd_limited { ack.credit } else { 0 };
        if !w.in_slow_start() {
            return credit;
        }
        // It sees every ACK, also those that grow nothing: rounds go on. HyStart has seen this one.
        // [RFC9438-4.10-2]
        if let SlowStart::HyStartPlusPlus(h) = self {
            credit = h.on_ack(w, ack, credit);
        }
        if w.in_slow_start() { w.slow_start(path, credit) } else { credit }
    }

    /// A loss or an ECN echo reduces the window.
    pub fn on_reduction(&mut self) {
        if let SlowStart::HyStartPlusPlus(h) = self {
            h.stop();
        }
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self, now: Time) {
        if let SlowStart::HyStart(h) = self {
            h.restart(now);
        }
    }

    /// An ACK arrived, whatever the sender does: Linux calls it `pkts_acked`. Before
    /// [`Self::on_ack`].
    pub fn on_every_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        if let SlowStart::HyStart(h) = self {
            h.on_ack(w, path, ack);
        }
    }

    /// True if [`Self::on_every_ack`] does anything.
    pub fn wants_every_ack(&self) -> bool {
        matches!(self, SlowStart::HyStart(_))
    }
}
