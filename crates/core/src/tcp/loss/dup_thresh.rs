//! Fixed duplicate-ACK threshold: a hole is a loss once `threshold` segments above it have arrived.
//!
//! RFC 5681 section 3.2 (three duplicate ACKs) and, with SACK, RFC 6675's `IsLost`. Counts arrivals only: against
//! reordering it is as robust as the threshold is large, and windows too small to yield that many duplicates wait for the
//! retransmission timeout. RACK instead compares send times; EFR and RFC 5827 lower the threshold for small windows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hole, LossContext, LossPolicy, Verdict};
use crate::units::{Span, Time};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DupThreshConfig {
    /// Segments reported above a hole before it counts as lost. RFC 5681: 3.
    #[schemars(range(min = 1))]
    pub threshold: std::num::NonZeroU32,
}

impl Default for DupThreshConfig {
    fn default() -> Self {
        DupThreshConfig { threshold: const { std::num::NonZeroU32::new(3).unwrap() } }
    }
}

impl DupThreshConfig {
    pub fn build(&self, _: &LossContext) -> DupThresh {
        DupThresh { threshold: self.threshold.get() }
    }
}

#[derive(Debug, Clone)]
pub struct DupThresh {
    threshold: u32,
}

impl LossPolicy for DupThresh {
    fn judge(&self, hole: &Hole, _: Span, _: Time) -> Verdict {
        if hole.sacked_above >= self.threshold { Verdict::Lost } else { Verdict::Wait { until: Time::NEVER } }
    }
}
