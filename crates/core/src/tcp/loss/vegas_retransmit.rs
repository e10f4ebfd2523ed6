//! Vegas' retransmission: a duplicate ACK is a reason to look at the clock, and a segment older
//! than a fine timeout is lost.
//!
//! Source: Brakmo, O'Malley and Peterson, SIGCOMM 1994, section 3.1; Brakmo and Peterson, IEEE JSAC
//! 13(8), 1995, section III-A.
//!
//! Every round trip is measured exactly, of segments sent once. The fine timeout is the smoothed
//! round trip and four times its variation. Their gains are those of Jacobson and Karels, 1/8 and
//! 1/4, and there is no least value. A duplicate ACK shows that the first missing segment is lost
//! if that was sent longer ago; so does the third duplicate. The first two ACKs of new data after a
//! retransmission are such reasons, too: they find a second loss of the window. A loss of what was
//! sent before the last reduction of the window does not reduce it again.
//!
//! Siblings: [`super::Efr`] counts duplicates by the window and knows no time. [`super::Rack`]
//! compares with the round trip of what has arrived, and sets a timer for what is not old enough
//! yet. Vegas waits for the next ACK.
//!
//! Valid: for any window of two segments or more whose round trips vary little. Where they vary,
//! the timeout is long, or a late segment passes for lost. The congestion control `vegas` is the
//! other half of the papers, and either works alone.
//!
//! Deviations: after a second loss the window is what the reduction has left, even if it has grown
//! by a segment since. During the repair of a timeout there is no such look at new data, since all
//! is sent again in any case. With SACK, every hole is looked at when something is reported, and a
//! recovery goes by SACK's rules.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hole, LossContext, LossPolicy, Verdict};
use crate::units::{Span, Time};

#[allow(missing_docs)] // the page of the policy says it
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VegasRetransmitConfig {
    /// Duplicates that show a loss whatever the clock says. The papers: 3, as before.
    #[schemars(range(min = 1))]
    pub threshold: NonZeroU32,
    /// ACKs of new data after a retransmission that are looked at as duplicates are, without SACK.
    /// The papers: 2. With 0 there are none, and each recovery reduces the window.
    pub looks: u32,
}

impl Default for VegasRetransmitConfig {
    fn default() -> Self {
        VegasRetransmitConfig { threshold: const { NonZeroU32::new(3).unwrap() }, looks: 2 }
    }
}

impl VegasRetransmitConfig {
    /// The policy of one connection, at its beginning.
    pub fn build(&self, _: &LossContext) -> VegasRetransmit {
        VegasRetransmit { config: self.clone(), srtt8_ns: 0, var4_ns: 0 }
    }
}

/// Vegas' retransmission, as one connection has it.
#[derive(Debug, Clone)]
pub struct VegasRetransmit {
    config: VegasRetransmitConfig,
    /// Smoothed round trip, scaled by 8; 0 before the first sample.
    srtt8_ns: u64,
    /// Its mean deviation, scaled by 4.
    var4_ns: u64,
}

impl VegasRetransmit {
    /// `None` before the first round trip.
    fn timeout(&self) -> Option<Span> {
        (self.srtt8_ns > 0).then(|| Span::from_ns((self.srtt8_ns / 8).saturating_add(self.var4_ns)))
    }
}

impl LossPolicy for VegasRetransmit {
    fn judge(&self, hole: &Hole, _: Span, now: Time) -> Verdict {
        let is_old = || self.timeout().is_some_and(|timeout| now.since(hole.sent_at) > timeout);
        let is_lost = !hole.retransmitted && (hole.sacked_above >= self.config.threshold.get() || is_old());
        if is_lost { Verdict::Lost } else { Verdict::Wait { until: Time::NEVER } }
    }

    fn on_rtt(&mut self, rtt: Span) {
        let rtt = rtt.as_ns().max(1);
        if self.srtt8_ns == 0 {
            (self.srtt8_ns, self.var4_ns) = (rtt.saturating_mul(8), rtt.saturating_mul(2));
            return;
        }
        let srtt = self.srtt8_ns / 8;
        self.srtt8_ns = (self.srtt8_ns - srtt).saturating_add(rtt);
        self.var4_ns = (self.var4_ns - self.var4_ns / 4).saturating_add(rtt.abs_diff(srtt));
    }

    fn looks_after_retransmission(&self) -> u32 {
        self.config.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::loss::EXAMPLE;

    const fn at(ms: u64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }

    /// After round trips of so many milliseconds.
    fn policy(rtts_ms: &[u64]) -> VegasRetransmit {
        let mut policy = VegasRetransmitConfig::default().build(&LossContext { mss: 1460 });
        rtts_ms.iter().for_each(|&ms| policy.on_rtt(Span::from_ms(ms)));
        policy
    }

    fn is_lost(policy: &VegasRetransmit, hole: &Hole, now: Time) -> bool {
        policy.judge(hole, Span::from_ms(1000), now) == Verdict::Lost
    }

    /// Jacobson and Karels by hand: 100 ms and a deviation of 50; then an error of 40, so 100 +
    /// 40/8 and 50 + (40 - 50)/4.
    #[test]
    fn the_fine_timeout_follows_mean_and_deviation() {
        let timeout_us = |rtts: &[u64]| policy(rtts).timeout().map(|t| t.as_ns() / 1000);
        assert_eq!(timeout_us(&[]), None);
        assert_eq!(timeout_us(&[100]), Some(300_000));
        assert_eq!(timeout_us(&[100, 140]), Some(105_000 + 4 * 47_500));
        // Where nothing varies it comes down to the round trip itself.
        let steady = timeout_us(&[100; 60]).unwrap();
        assert!((100_000..100_100).contains(&steady), "{steady}");
    }

    /// The papers' Figure 4, in numbers: the first duplicate after the timeout, not the third, and
    /// not before it.
    #[test]
    fn one_duplicate_is_enough_for_a_segment_older_than_the_timeout() {
        let policy = policy(&[100]);
        for (dup_acks, now, lost) in [(1, 300, false), (1, 301, true), (2, 250, false), (3, 10, true)] {
            let hole = Hole { dup_acks, sacked_above: dup_acks, sent_at: at(0), ..EXAMPLE };
            assert_eq!(is_lost(&policy, &hole, at(now)), lost, "{dup_acks} duplicates at {now} ms");
        }
    }

    #[test]
    fn without_a_round_trip_only_duplicates_count() {
        let hole = |dup_acks| Hole { dup_acks, sacked_above: dup_acks, ..EXAMPLE };
        assert!(!is_lost(&policy(&[]), &hole(2), at(60_000)));
        assert!(is_lost(&policy(&[]), &hole(3), at(0)));
    }
}
