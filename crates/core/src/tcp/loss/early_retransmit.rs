//! Early Retransmit: with fewer than four segments outstanding and nothing new to send, the
//! threshold falls to the number of duplicates that can still come.
//!
//! Source: RFC 5827. With `delay = "quarter_rtt"`, Linux 3.5 to 4.10 (commit eed530b6).
//!
//! It acts if less than four segments are outstanding, and there is no unsent data or the receive
//! window holds it back. Then a hole is lost once all but one of the outstanding segments have been
//! reported, by duplicate ACKs or SACK. Otherwise three duplicates are needed, as in
//! [`super::DupThresh`].
//!
//! With `delay = "quarter_rtt"` the retransmission waits for a quarter of the smoothed round trip,
//! at least 2 ms. It is dropped if the hole closes meanwhile.
//!
//! Siblings: [`super::Efr`] acts in the middle of a transfer, too. Early Retransmit stands back
//! wherever limited transmit (RFC 3042) could bring more duplicates, so it does nothing in the
//! middle of a bulk transfer.
//!
//! Valid: for short transfers and ends of transfers.
//!
//! Deviations: From Linux: it gives early retransmission up for the rest of a connection that has
//! seen reordering (`tcp_disable_early_retrans`). The RFC has a variant by bytes and one by
//! segments, and `unit` chooses; Linux counts segments.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hole, LossContext, LossPolicy, Verdict, is_lost_again};
use crate::units::{Span, Time};

/// Unit in which the outstanding data is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// RFC 5827 section 3.2.
    Segments,
    /// RFC 5827 section 3.1: as many full segments as the bytes would fill.
    Bytes,
}

#[allow(missing_docs)] // the key of this type says it
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delay {
    /// At once (RFC 5827).
    Off,
    /// A quarter of the smoothed round-trip time after the last report, at least `delay_min`
    /// (Linux).
    QuarterRtt,
}

#[allow(missing_docs)] // the page of the policy says it
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EarlyRetransmitConfig {
    /// Unit in which the outstanding data is counted.
    pub unit: Unit,
    /// Delay of an early retransmission, for segments that may only be late.
    pub delay: Delay,
    /// Shortest wait of `delay = "quarter_rtt"`. Linux: 2 ms.
    pub delay_min: Span,
    /// Threshold of larger flights. RFC 5681: 3.
    #[schemars(range(min = 1))]
    pub threshold: NonZeroU32,
    /// As in `dup_thresh`. Needs SACK.
    pub lost_retransmissions: bool,
}

impl Default for EarlyRetransmitConfig {
    fn default() -> Self {
        EarlyRetransmitConfig {
            unit: Unit::Segments,
            delay: Delay::Off,
            delay_min: Span::from_ms(2),
            threshold: const { NonZeroU32::new(3).unwrap() },
            lost_retransmissions: false,
        }
    }
}

impl EarlyRetransmitConfig {
    /// The policy of one connection, at its beginning.
    pub fn build(&self, context: &LossContext) -> EarlyRetransmit {
        EarlyRetransmit { config: self.clone(), mss: u64::from(context.mss.max(1)) }
    }
}

/// Early Retransmit, as one connection has it.
#[derive(Debug, Clone)]
pub struct EarlyRetransmit {
    config: EarlyRetransmitConfig,
    mss: u64,
}

impl EarlyRetransmit {
    /// True if no further duplicate ACK can come.
    fn is_early(&self, hole: &Hole) -> bool {
        if hole.can_send_new || hole.reported == 0 {
            return false;
        }
        match self.config.unit {
            Unit::Segments => hole.outstanding < 4 && hole.reported + 1 >= hole.outstanding,
            // With SACK: ownd - SMSS. Without, where each duplicate stands for a full segment, it
            // is the same as the RFC's equation 1, ceil(ownd / SMSS) - 1 duplicates.
            Unit::Bytes => {
                hole.outstanding_bytes < 4 * self.mss
                    && hole.reported_bytes >= hole.outstanding_bytes.saturating_sub(self.mss).max(1)
            }
        }
    }
}

impl LossPolicy for EarlyRetransmit {
    fn judge(&self, hole: &Hole, srtt: Span, now: Time) -> Verdict {
        let wait = Verdict::Wait { until: Time::NEVER };
        if hole.retransmitted {
            return if self.config.lost_retransmissions && is_lost_again(hole) { Verdict::Lost } else { wait };
        }
        if hole.sacked_above >= self.config.threshold.get() {
            return Verdict::Lost;
        }
        if !self.is_early(hole) {
            return wait;
        }
        let due = match self.config.delay {
            Delay::Off => return Verdict::Lost,
            Delay::QuarterRtt => hole.newest_report_at + srtt.mul_ratio(1, 4).max(self.config.delay_min),
        };
        if now >= due { Verdict::Lost } else { Verdict::Wait { until: due } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::loss::EXAMPLE;

    const MSS: u64 = 1460;
    const SRTT: Span = Span::from_ms(100);

    fn hole(outstanding: u32, bytes: u64, reported: u32) -> Hole {
        Hole {
            dup_acks: reported,
            sacked_above: reported,
            reported,
            reported_bytes: u64::from(reported) * MSS,
            outstanding,
            outstanding_bytes: bytes,
            can_send_new: false,
            ..EXAMPLE
        }
    }

    fn judge(config: EarlyRetransmitConfig, hole: &Hole, now: Time) -> Verdict {
        config.build(&LossContext { mss: MSS as u32 }).judge(hole, SRTT, now)
    }

    /// Outstanding segments, duplicates, lost by segments, lost by bytes: full segments, where both
    /// agree.
    #[test]
    fn all_but_one_of_fewer_than_four_must_be_reported() {
        for (outstanding, reported, lost) in [
            (1, 0, false),
            (2, 1, true),
            (3, 1, false),
            (3, 2, true),
            (4, 2, false),
            (4, 3, true),
            (9, 2, false),
            (9, 3, true),
        ] {
            for unit in [Unit::Segments, Unit::Bytes] {
                let config = EarlyRetransmitConfig { unit, ..Default::default() };
                let hole = hole(outstanding, u64::from(outstanding) * MSS, reported);
                assert_eq!(
                    judge(config, &hole, Time::ZERO) == Verdict::Lost,
                    lost,
                    "{outstanding} {reported} {unit:?}"
                );
            }
        }
    }

    /// RFC 5827 section 3.2's point: six small segments are less than four full ones in bytes, and
    /// not in segments.
    #[test]
    fn bytes_and_segments_differ_for_small_segments() {
        let small = Hole { reported_bytes: 2 * MSS, ..hole(6, 6 * 500, 2) };
        let by = |unit| judge(EarlyRetransmitConfig { unit, ..Default::default() }, &small, Time::ZERO);
        assert_eq!(by(Unit::Bytes), Verdict::Lost);
        assert_eq!(by(Unit::Segments), Verdict::Wait { until: Time::NEVER });
    }

    #[test]
    fn it_stands_back_while_new_data_can_be_sent() {
        let open = Hole { can_send_new: true, ..hole(3, 3 * MSS, 2) };
        assert_eq!(judge(Default::default(), &open, Time::ZERO), Verdict::Wait { until: Time::NEVER });
    }

    #[test]
    fn the_delay_is_a_quarter_of_the_round_trip_and_at_least_two_milliseconds() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let delayed = EarlyRetransmitConfig { delay: Delay::QuarterRtt, ..Default::default() };
        let hole = Hole { newest_report_at: at(1000), ..hole(3, 3 * MSS, 2) };
        assert_eq!(judge(delayed.clone(), &hole, at(1000)), Verdict::Wait { until: at(1025) });
        assert_eq!(judge(delayed.clone(), &hole, at(1025)), Verdict::Lost);
        let policy = delayed.build(&LossContext { mss: MSS as u32 });
        assert_eq!(policy.judge(&hole, Span::from_ms(4), at(1000)), Verdict::Wait { until: at(1002) });
    }
}
