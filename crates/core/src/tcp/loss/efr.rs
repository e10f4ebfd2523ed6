//! Efficient Fast Retransmit: the duplicate-ACK threshold follows the window.
//!
//! Source: Tamura, Tobe and Tokuda, "Efficient Retransmit Scheme for TCP in Wireless LANs" (Keio
//! University), section 3 and Figure 10.
//!
//! On the first duplicate ACK for a segment the threshold becomes min(snd_wnd, snd_cwnd) / MSS - 2,
//! in whole segments. It is at most 3 and, by the abstract, at least 1. The 2 stand for the lost
//! segment and the segment whose ACK is not a duplicate. So a window of four segments needs two
//! duplicates, and one of three or fewer needs one. From five segments on the threshold is the
//! fixed one.
//!
//! Siblings: [`super::EarlyRetransmit`] looks at the outstanding data and waits while new data
//! could be sent. Efficient Fast Retransmit looks at the window and acts in either case.
//! [`super::DupThresh`] is its limit for large windows.
//!
//! Valid: for windows below five segments. There a segment that is merely late costs a needless
//! halving of a small window. It does not help when two segments of a window are lost, because the
//! second takes away the duplicate that the first needs. It does not help the last segment of a
//! transfer either.
//!
//! Deviations: the study has no SACK. With SACK it takes the place of RFC 6675's DupThresh: SACKed
//! segments above the hole count. Inside recovery the threshold follows the reduced window in the
//! same way.

use std::num::NonZeroU32;

use airtcp_law::efr;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hole, LossContext, LossPolicy, Verdict, is_lost_again};
use crate::convert::saturate32;
use crate::policy::checked;
use crate::units::{Span, Time};

#[allow(missing_docs)] // the page of the policy says it
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
pub struct EfrConfig {
    /// Largest threshold, which large windows have. The study: 3.
    #[schemars(range(min = 1))]
    pub most: NonZeroU32,
    /// Smallest threshold, in duplicate ACKs. The study's abstract: 1. Its Figure 10 does not
    /// exclude 0. Then a window of two segments or fewer waits for the timeout, because the
    /// count of duplicates never equals 0.
    pub least: u32,
    /// Segments that are subtracted from the window. The study: 2.
    pub less: u32,
    /// As in `dup_thresh`. Needs SACK.
    pub lost_retransmissions: bool,
}

impl Default for EfrConfig {
    fn default() -> Self {
        EfrConfig { most: const { NonZeroU32::new(3).unwrap() }, least: 1, less: 2, lost_retransmissions: false }
    }
}

impl EfrConfig {
    fn check(&self) -> Result<(), String> {
        if self.least > self.most.get() {
            return Err(format!("`least` = {}: must be at most `most` ({})", self.least, self.most));
        }
        Ok(())
    }

    /// The policy of one connection, at its beginning.
    pub fn build(&self, _: &LossContext) -> Efr {
        Efr(self.clone())
    }
}

checked!(EfrConfig);

/// EFR, as one connection has it.
#[derive(Debug, Clone)]
pub struct Efr(EfrConfig);

impl Efr {
    /// 0: never.
    fn threshold(&self, window: u32) -> u32 {
        let [window, less, least, most] = [window, self.0.less, self.0.least, self.0.most.get()].map(u64::from);
        saturate32(efr::threshold(window, less, least, most))
    }
}

impl LossPolicy for Efr {
    fn judge(&self, hole: &Hole, _: Span, _: Time) -> Verdict {
        let lost = if hole.retransmitted {
            self.0.lost_retransmissions && is_lost_again(hole)
        } else {
            let threshold = self.threshold(hole.window_at_first_duplicate);
            threshold > 0 && hole.sacked_above >= threshold
        };
        if lost { Verdict::Lost } else { Verdict::Wait { until: Time::NEVER } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::loss::EXAMPLE;

    /// Figures 9 and 10: window, duplicates needed.
    #[test]
    fn the_threshold_follows_the_window_at_the_first_duplicate() {
        let efr = EfrConfig::default().build(&LossContext { mss: 1460 });
        for (window, needed) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 3), (6, 3), (11, 3), (u32::MAX, 3)] {
            for dup_acks in 1..5 {
                let hole = Hole {
                    dup_acks,
                    sacked_above: dup_acks,
                    window_at_first_duplicate: window,
                    cwnd: 9, // what it has become since does not count
                    ..EXAMPLE
                };
                let lost = efr.judge(&hole, Span::from_ms(100), Time::ZERO) == Verdict::Lost;
                assert_eq!(lost, dup_acks >= needed, "window {window}, {dup_acks} duplicates");
            }
        }
    }

    /// Figure 10 to the letter: 2 - 2 = 0 is less than the first duplicate, and the test is for
    /// equality.
    #[test]
    fn a_threshold_of_zero_is_never_reached() {
        let letter = EfrConfig { least: 0, ..EfrConfig::default() }.build(&LossContext { mss: 1460 });
        for (window, needed) in [(1, None), (2, None), (3, Some(1)), (4, Some(2)), (5, Some(3)), (9, Some(3))] {
            let lost = |sacked_above: &u32| {
                let hole = Hole {
                    dup_acks: *sacked_above,
                    sacked_above: *sacked_above,
                    window_at_first_duplicate: window,
                    ..EXAMPLE
                };
                letter.judge(&hole, Span::from_ms(100), Time::ZERO) == Verdict::Lost
            };
            assert_eq!((1..9).find(lost), needed, "window {window}");
        }
    }

    #[test]
    fn bounds_that_cross_are_refused() {
        let error = toml::from_str::<EfrConfig>("least = 4").unwrap_err();
        assert!(error.message().contains("`least` = 4: must be at most `most` (3)"), "{error}");
    }
}
