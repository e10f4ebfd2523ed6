//! RACK: a segment is lost when a segment sent later has been delivered and a reordering window has
//! passed.
//!
//! Source: RFC 8985.
//!
//! A segment counts as lost once `RACK.rtt` and a reordering window have passed since it was sent.
//! `RACK.rtt` is the round trip of the most recently sent segment that was delivered. As long as no
//! reordering has been seen, the window is zero in recovery and from three reported segments on.
//! Otherwise it is a quarter of the smallest round trip times a factor, and at most the smoothed
//! round trip. Each round trip with a DSACK raises the factor by one; 16 recoveries without one
//! take it back to one. Retransmissions are judged in the same way. The RFC's tail loss probe is
//! the TCP option `tail_loss_probe`.
//!
//! Siblings: the other policies count segments. RACK compares send times, so it works in windows of
//! any size, as soon as two segments are in flight.
//!
//! Valid: with SACK, as the RFC requires. Without SACK three duplicates show a loss, as in Linux.
//!
//! Deviations: The smallest round trip is that of the whole connection, where the RFC wants one
//! that forgets. The DSACK factor is per connection, as
//! in the RFC, without Linux's bound of 255.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hole, LossContext, LossPolicy, Report, Scope, Verdict};
use crate::units::{Span, Time};

#[allow(missing_docs)] // the page of the policy says it
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RackConfig {
    /// Number of reported segments that ends the reordering window, as long as no reordering was
    /// seen (RFC 8985: DupThresh, 3). 0: never (Linux: `TCP_RACK_NO_DUPTHRESH`).
    pub threshold: u32,
    /// The reordering window adapts to DSACKs and to reordering seen. Off (Linux:
    /// `TCP_RACK_STATIC_REO_WND`): it stays a quarter of the smallest round trip.
    pub adaptive: bool,
    /// DSACKs count only once reordering has been seen (Linux). The RFC counts all.
    pub dsack_after_reordering: bool,
    /// `RACK.rtt` is of the delivered segment that the ACK told of last (Linux,
    /// `tcp_rack_advance`). The RFC: of the one sent last.
    pub rtt_of_last: bool,
}

impl Default for RackConfig {
    fn default() -> Self {
        RackConfig { threshold: 3, adaptive: true, dsack_after_reordering: false, rtt_of_last: false }
    }
}

impl RackConfig {
    /// The policy of one connection, at its beginning.
    pub fn build(&self, _: &LossContext) -> Rack {
        Rack { config: self.clone(), reordering_seen: false, dsack_round: None, factor: 1, recoveries_left: 0 }
    }
}

/// Recoveries for which a raised factor is kept (RFC 8985 section 6.2 step 4).
const PERSIST: u32 = 16;

/// RACK, as one connection has it.
#[derive(Debug, Clone)]
pub struct Rack {
    config: RackConfig,
    reordering_seen: bool,
    /// Once `snd_una` reaches this, another DSACK counts.
    dsack_round: Option<u64>,
    /// `RACK.reo_wnd_mult`.
    factor: u32,
    recoveries_left: u32,
}

impl Rack {
    /// `RACK.reo_wnd`.
    fn reordering_window(&self, hole: &Hole, srtt: Span) -> Span {
        // [RFC8985-3.3.2-1]
        if !self.reordering_seen
            && (hole.in_recovery || (self.config.threshold > 0 && hole.reported >= self.config.threshold))
        {
            return Span::ZERO;
        }
        // No round trip measured yet: none to wait for.
        // [RFC8985-3.3.2-2]
        if hole.min_rtt == Span::MAX {
            return Span::ZERO;
        }
        // [RFC8985-3.3.2-4] [RFC8985-3.3.2-5]
        hole.min_rtt.mul_ratio(u64::from(self.factor), 4).min(srtt)
    }
}

impl LossPolicy for Rack {
    // [RFC8985-6.2-6]
    fn judge(&self, hole: &Hole, srtt: Span, now: Time) -> Verdict {
        let sent_before = hole.number < hole.newest_delivered_number;
        if !sent_before {
            return Verdict::Wait { until: Time::NEVER };
        }
        let rtt = if self.config.rtt_of_last { hole.last_delivered_rtt } else { hole.newest_delivered_rtt };
        let allowed = rtt + self.reordering_window(hole, srtt);
        if now >= hole.sent_at + allowed {
            Verdict::Lost
        } else {
            // [RFC8985-6.2-7]
            Verdict::Wait { until: hole.sent_at + allowed }
        }
    }

    // [RFC8985-4-1]
    fn scope(&self) -> Scope {
        Scope::Segments
    }

    /// RFC 8985 section 6.2, steps 3 and 4.
    fn on_report(&mut self, report: &Report) {
        // Linux looks at the DSACK of an ACK before the order of what it reports.
        let counts = report.duplicate_sack && (self.reordering_seen || !self.config.dsack_after_reordering);
        self.reordering_seen |= report.reordered;
        if !self.config.adaptive {
            return;
        }
        if self.dsack_round.is_some_and(|end| report.snd_una >= end) {
            self.dsack_round = None;
        }
        // [RFC8985-3.3.2-3] [RFC8985-4-4]
        if counts && self.dsack_round.is_none() {
            self.dsack_round = Some(report.snd_nxt);
            self.factor = self.factor.saturating_add(1);
            // [RFC8985-6.2-5]
            self.recoveries_left = PERSIST;
        } else if report.recovered {
            self.recoveries_left = self.recoveries_left.saturating_sub(1);
            if self.recoveries_left == 0 {
                self.factor = 1;
            }
        }
    }

    /// RFC 8985 section 6.3: what was sent too recently for that is not lost because the first
    /// segment is.
    // [RFC8985-6.3-1]
    fn is_lost_at_timeout(&self, hole: &Hole, srtt: Span, now: Time) -> bool {
        let allowed = if self.config.rtt_of_last {
            hole.last_delivered_rtt // `tcp_timeout_mark_lost`: without a reordering window
        } else {
            hole.newest_delivered_rtt + self.reordering_window(hole, srtt)
        };
        now >= hole.sent_at + allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::loss::EXAMPLE;

    const RTT: Span = Span::from_ms(100);

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }
    fn rack(change: impl FnOnce(&mut RackConfig)) -> Rack {
        let mut config = RackConfig::default();
        change(&mut config);
        config.build(&LossContext { mss: 1460 })
    }
    /// Sent at `sent`, the newest delivered at `newest` with a round trip of 100 ms.
    fn hole(sent: u64, newest: u64, reported: u32) -> Hole {
        let (sent_at, newest_delivered_sent_at) = (at(sent), at(newest));
        let (number, newest_delivered_number) = (2 * sent + 1, 2 * newest + 2);
        Hole { sent_at, newest_delivered_sent_at, number, newest_delivered_number, reported, ..EXAMPLE }
    }
    const QUIET: Report =
        Report { reordered: false, duplicate_sack: false, snd_una: 1, snd_nxt: 100, recovered: false };

    /// RFC 8985 section 3.4, example 1 in times: one segment reported is enough after a quarter of
    /// the round trip.
    // [RFC8985-3.3.2-2] [RFC8985-6.2-6] [RFC8985-6.2-7]
    #[test]
    fn one_report_is_enough_after_the_reordering_window() {
        let policy = rack(|_| {});
        let hole = hole(0, 0, 1);
        assert_eq!(policy.judge(&hole, RTT, at(100)), Verdict::Wait { until: at(125) });
        assert_eq!(policy.judge(&hole, RTT, at(125)), Verdict::Lost);
    }

    /// Linux 6.12, net/ipv4/tcp_recovery.c, `tcp_rack_advance`: what was held up lengthens the wait
    /// for others.
    #[test]
    fn the_round_trip_is_that_of_the_last_where_linux_is_asked_for() {
        let hole = Hole { last_delivered_rtt: Span::from_ms(140), ..hole(0, 0, 3) };
        assert_eq!(rack(|_| {}).judge(&hole, RTT, at(100)), Verdict::Lost);
        let linux = rack(|config| config.rtt_of_last = true);
        assert_eq!(linux.judge(&hole, RTT, at(139)), Verdict::Wait { until: at(140) });
        assert_eq!(linux.judge(&hole, RTT, at(140)), Verdict::Lost);
    }

    // [RFC8985-3.3.2-1]
    #[test]
    fn three_reports_or_recovery_need_no_window_until_reordering_was_seen() {
        let mut policy = rack(|_| {});
        let three = hole(0, 0, 3);
        let repairing = Hole { in_recovery: true, ..hole(0, 0, 1) };
        assert_eq!(policy.judge(&three, RTT, at(100)), Verdict::Lost);
        assert_eq!(policy.judge(&repairing, RTT, at(100)), Verdict::Lost);
        assert_eq!(rack(|c| c.threshold = 0).judge(&three, RTT, at(100)), Verdict::Wait { until: at(125) });
        policy.on_report(&Report { reordered: true, ..QUIET });
        assert_eq!(policy.judge(&three, RTT, at(100)), Verdict::Wait { until: at(125) });
        assert_eq!(policy.judge(&repairing, RTT, at(100)), Verdict::Wait { until: at(125) });
    }

    // [RFC8985-4-3] [RFC8985-6.2-6]
    #[test]
    fn nothing_is_lost_that_was_sent_after_the_newest_that_arrived() {
        let policy = rack(|_| {});
        assert_eq!(policy.judge(&hole(10, 9, 3), RTT, at(1000)), Verdict::Wait { until: Time::NEVER });
        // In the same instant the order of sending decides.
        let later = Hole { number: 21, ..hole(9, 9, 3) };
        assert_eq!(policy.judge(&later, RTT, at(1000)), Verdict::Wait { until: Time::NEVER });
        assert_eq!(policy.judge(&hole(9, 9, 3), RTT, at(1000)), Verdict::Lost);
    }

    /// Each round trip with a DSACK adds a quarter; 16 recoveries without one take it back.
    // [RFC8985-3.3.2-3] [RFC8985-3.3.2-4] [RFC8985-3.3.2-5] [RFC8985-4-4] [RFC8985-6.2-5]
    #[test]
    fn the_window_follows_dsacks_and_is_bounded_by_the_smoothed_round_trip() {
        let mut policy = rack(|_| {});
        let mut report = Report { duplicate_sack: true, ..QUIET };
        policy.on_report(&report);
        policy.on_report(&report); // same round trip: counts once
        assert_eq!(policy.judge(&hole(0, 0, 1), RTT, at(100)), Verdict::Wait { until: at(150) });
        for round in 1..10 {
            (report.snd_una, report.snd_nxt) = (100 * round, 100 * (round + 1));
            policy.on_report(&report);
        }
        assert_eq!(policy.judge(&hole(0, 0, 1), RTT, at(100)), Verdict::Wait { until: at(200) });
        for _ in 0..15 {
            policy.on_report(&Report { recovered: true, snd_una: 5000, snd_nxt: 6000, ..QUIET });
        }
        assert_eq!(policy.judge(&hole(0, 0, 1), RTT, at(100)), Verdict::Wait { until: at(200) });
        policy.on_report(&Report { recovered: true, snd_una: 5000, snd_nxt: 6000, ..QUIET });
        assert_eq!(policy.judge(&hole(0, 0, 1), RTT, at(100)), Verdict::Wait { until: at(125) });
    }

    #[test]
    fn the_dsack_that_comes_with_the_first_reordering_does_not_count_in_linux() {
        for (dsack_after_reordering, until) in [(false, 150), (true, 125)] {
            let mut policy = rack(|c| c.dsack_after_reordering = dsack_after_reordering);
            policy.on_report(&Report { reordered: true, duplicate_sack: true, ..QUIET });
            assert_eq!(policy.judge(&hole(0, 0, 1), RTT, at(100)), Verdict::Wait { until: at(until) });
        }
    }

    #[test]
    fn a_fixed_window_ignores_dsacks() {
        let mut policy = rack(|c| c.adaptive = false);
        policy.on_report(&Report { duplicate_sack: true, ..QUIET });
        assert_eq!(policy.judge(&hole(0, 0, 1), RTT, at(100)), Verdict::Wait { until: at(125) });
    }

    // [RFC8985-6.3-1]
    #[test]
    fn a_timeout_spares_what_was_sent_lately() {
        let policy = rack(|_| {});
        let hole = Hole { in_recovery: true, ..hole(50, 0, 0) };
        assert!(!policy.is_lost_at_timeout(&hole, RTT, at(149)));
        assert!(policy.is_lost_at_timeout(&hole, RTT, at(150)));
    }
}
