//! Fixed duplicate-ACK threshold: a hole is a loss once `threshold` segments above it have arrived.
//!
//! Source: RFC 5681 section 3.2 (three duplicate ACKs) and, with SACK, `IsLost` of RFC 6675.
//!
//! Siblings: [`super::Rack`] compares send times instead of counting. [`super::Efr`] and
//! [`super::EarlyRetransmit`] lower the threshold for small windows.
//!
//! Valid: for windows that yield `threshold` duplicates. Smaller windows wait for the
//! retransmission timeout. A larger threshold tolerates more reordering.
//!
//! Deviations: with SACK, segments above the hole are counted, where RFC 6675 counts ranges or
//! bytes. For full segments that is the same. The parameter `lost_retransmissions` adds Linux's
//! detection of lost retransmissions (since 2018), which no RFC of the two has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hole, LossContext, LossPolicy, Verdict, is_lost_again};
use crate::units::{Span, Time};

#[allow(missing_docs)] // the page of the policy says it
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DupThreshConfig {
    /// Segments reported above a hole before it counts as lost. RFC 5681: 3.
    #[schemars(range(min = 1))]
    pub threshold: std::num::NonZeroU32,
    /// A retransmission counts as lost, too, once something sent a quarter of the smallest round
    /// trip after it has arrived, as in Linux. Off, it takes the retransmission timeout (RFC
    /// 6675). Needs SACK.
    pub lost_retransmissions: bool,
}

impl Default for DupThreshConfig {
    fn default() -> Self {
        DupThreshConfig { threshold: const { std::num::NonZeroU32::new(3).unwrap() }, lost_retransmissions: false }
    }
}

impl DupThreshConfig {
    /// The policy of one connection, at its beginning.
    pub fn build(&self, _: &LossContext) -> DupThresh {
        DupThresh { threshold: self.threshold.get(), lost_retransmissions: self.lost_retransmissions }
    }
}

/// The fixed threshold, as one connection has it.
#[derive(Debug, Clone)]
pub struct DupThresh {
    threshold: u32,
    lost_retransmissions: bool,
}

impl LossPolicy for DupThresh {
    fn judge(&self, hole: &Hole, _: Span, _: Time) -> Verdict {
        let lost = if hole.retransmitted {
            self.lost_retransmissions && is_lost_again(hole)
        } else {
            // [RFC6675-4-3]
            hole.sacked_above >= self.threshold
        };
        if lost { Verdict::Lost } else { Verdict::Wait { until: Time::NEVER } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::loss::EXAMPLE;

    fn judge(config: &DupThreshConfig, above: u32, resent_ms: Option<u64>, newest_ms: u64) -> bool {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let hole = Hole {
            dup_acks: above,
            sacked_above: above,
            sent_at: at(resent_ms.unwrap_or(0)),
            retransmitted: resent_ms.is_some(),
            newest_delivered_sent_at: at(newest_ms),
            ..EXAMPLE
        };
        config.build(&LossContext { mss: 1460 }).judge(&hole, Span::from_ms(120), at(newest_ms + 100)) == Verdict::Lost
    }

    // [RFC6675-4-3]
    #[test]
    fn a_hole_is_lost_at_the_threshold_and_its_retransmission_when_something_later_arrived() {
        let rfc = DupThreshConfig::default();
        let linux = DupThreshConfig { lost_retransmissions: true, ..rfc.clone() };
        for (config, above, resent, newest, lost) in [
            (&rfc, 2, None, 50, false),
            (&rfc, 3, None, 50, true),
            (&rfc, 9, Some(100), 190, false),
            (&linux, 2, None, 50, false),
            (&linux, 3, None, 50, true),
            (&linux, 9, Some(100), 90, false),
            (&linux, 9, Some(100), 125, false),
            (&linux, 9, Some(100), 126, true),
        ] {
            assert_eq!(judge(config, above, resent, newest), lost, "{above} above, resent {resent:?}, newest {newest}");
        }
    }
}
