//! Reno: slow start, then one segment per round trip; half on loss.
//!
//! RFC 5681. The baseline of every other control. The recovery algorithm (Reno, NewReno, SACK) is not part of it: that is
//! the connection's `recovery` option.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AckSample, CcContext, CongestionControl, Window};
use crate::units::Time;

/// Reno has no parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RenoConfig {}

impl RenoConfig {
    pub fn build(&self, _: &CcContext) -> Reno {
        Reno
    }
}

#[derive(Debug, Clone)]
pub struct Reno;

impl CongestionControl for Reno {
    fn on_ack(&mut self, w: &mut Window, ack: &AckSample) {
        if !ack.cwnd_limited {
            return;
        }
        let mut credit = ack.credit;
        if w.in_slow_start() {
            credit = w.slow_start(credit);
            if credit == 0 {
                return;
            }
        }
        w.increase_additively(w.cwnd, credit);
    }

    fn ssthresh(&mut self, w: &Window, _: Time) -> u32 {
        (w.cwnd / 2).max(2)
    }
}
