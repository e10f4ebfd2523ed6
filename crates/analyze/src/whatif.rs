//! Decisions that other loss policies would have made: the policies themselves judge the data of
//! the capture.
//!
//! From the first sign of a hole on, EFR, Early Retransmit and RACK get each ACK as from the
//! sender. When one says *lost*, its time is kept until the acknowledgement moves or the sender
//! repeats the segment. Consequences of the answer (another window, other packets) are not played
//! through: a timeout counts as avoided if the policy had the loss before it.
//!
//! Not in a capture and therefore inferred: cwnd, see [`crate::flow::Flow::cwnd_estimate`]; whether
//! unsent data was at hand, assumed unless the last segment sent carried PSH or FIN, which stacks
//! set on the last of what was written. All times are those of the capture, which a sender that is
//! `near` away has half a round trip later.

use airtcp_core::tcp::loss::{AnyLoss, Hole, LossConfig, LossContext, Report, Verdict};
use airtcp_core::units::{Span, Time};

/// In the order of the columns.
pub(crate) const POLICIES: [&str; 3] = ["efr", "early_retransmit", "rack"];

#[derive(Debug, Default)]
pub(crate) struct WhatIf {
    policies: Vec<Option<AnyLoss>>,
    lost_at: [Option<Time>; POLICIES.len()],
    /// When to ask again, and about what.
    ask_at: [Option<Time>; POLICIES.len()],
    asked: Option<(Hole, Span)>,
}

impl WhatIf {
    fn build(&mut self, mss: u32) {
        if self.policies.is_empty() {
            let build = |name| LossConfig::by_name(name).map(|config| config.build(&LossContext { mss: mss.max(1) }));
            self.policies = POLICIES.map(build).into();
        }
    }

    /// Before anything is judged on an ACK.
    pub(crate) fn on_report(&mut self, mss: u32, report: &Report) {
        self.build(mss);
        for policy in self.policies.iter_mut().flatten() {
            policy.on_report(report);
        }
    }

    /// The hole as an ACK leaves it.
    pub(crate) fn judge(&mut self, now: Time, mss: u32, hole: &Hole, srtt: Span) {
        self.until(now);
        self.build(mss);
        for (i, policy) in self.policies.iter().enumerate() {
            let Some(policy) = policy.as_ref().filter(|_| self.lost_at[i].is_none()) else { continue };
            self.ask_at[i] = None;
            match policy.judge(hole, srtt, now) {
                Verdict::Lost => self.lost_at[i] = Some(now),
                Verdict::Wait { until } if !until.is_never() => self.ask_at[i] = Some(until.max(now)),
                Verdict::Wait { .. } => {}
            }
        }
        self.asked = Some((*hole, srtt));
    }

    /// Asks those that wanted to be asked before `now`.
    fn until(&mut self, now: Time) {
        let Some((hole, srtt)) = self.asked else { return };
        for (i, policy) in self.policies.iter().enumerate() {
            // A policy that puts it off forever is not followed forever.
            for _ in 0..8 {
                let Some(at) = self.ask_at[i].filter(|&at| at < now) else { break };
                self.ask_at[i] = None;
                let Some(policy) = policy else { break };
                match policy.judge(&hole, srtt, at) {
                    Verdict::Lost => self.lost_at[i] = Some(at),
                    Verdict::Wait { until } if !until.is_never() => {
                        self.ask_at[i] = Some(until.max(at + Span::from_ns(1)))
                    }
                    Verdict::Wait { .. } => {}
                }
            }
        }
    }

    /// When each would have found the loss, if that is before `now`; starts anew.
    pub(crate) fn found_before(&mut self, now: Time) -> [Option<Time>; POLICIES.len()] {
        self.until(now);
        let found = self.lost_at.map(|at| at.filter(|&at| at < now));
        self.reset();
        found
    }

    /// The hole is gone.
    #[inline]
    pub(crate) fn reset(&mut self) {
        if self.asked.take().is_some() {
            self.lost_at = Default::default();
            self.ask_at = Default::default();
        }
    }
}
