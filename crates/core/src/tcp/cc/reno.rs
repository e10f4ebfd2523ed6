//! Reno: slow start, then one segment per round trip; half on loss.
//!
//! RFC 5681. The baseline of every other control. The recovery algorithm (Reno, NewReno, SACK) is not part of it: that is
//! the connection's `recovery` option.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::{SlowStart, SlowStartExit};
use super::{AckSample, CaState, CcContext, CongestionControl, Window};
use crate::units::Time;

/// Parameters of Reno.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RenoConfig {
    /// What may end slow start before a loss does. RFC 5681: nothing.
    pub slow_start_exit: SlowStartExit,
}

impl RenoConfig {
    pub fn build(&self, ctx: &CcContext) -> Reno {
        Reno { slow_start: self.slow_start_exit.build(ctx) }
    }
}

#[derive(Debug, Clone)]
pub struct Reno {
    slow_start: SlowStart,
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, w: &mut Window, ack: &AckSample) {
        let credit = self.slow_start.on_ack(w, ack);
        if credit > 0 {
            w.increase_additively(w.cwnd, credit);
        }
    }

    fn ssthresh(&mut self, w: &Window, _: Time) -> u32 {
        self.slow_start.on_reduction();
        (w.cwnd / 2).max(2)
    }

    fn on_state(&mut self, _: &mut Window, to: CaState, _: Time) {
        if to == CaState::Loss {
            self.slow_start.on_timeout();
        }
    }
}
