//! Vegas: keeps a few segments of its own in the queue, judged by delay once per round trip.
//!
//! Source: Brakmo, O'Malley and Peterson, SIGCOMM 1994; Brakmo and Peterson, IEEE JSAC 13(8), 1995.
//! Decisions follow Linux's variant.
//!
//! Each round trip it compares the expected rate `cwnd / baseRTT` with the actual one. Their
//! difference times `baseRTT` is the number of segments that wait in queues. Below `alpha` the
//! window grows by one segment; above `beta` it shrinks by one. Slow start ends above `gamma`. The
//! smallest round trip of a round represents that round. Rounds with fewer than three samples, and
//! all states but `Open`, act as Reno.
//!
//! Siblings: Reno and CUBIC wait for a loss; Vegas backs off before one, and so yields to them in a
//! shared queue. BBR estimates a bandwidth; Vegas needs none.
//!
//! Valid: where the smallest round trip is that of the empty path. A flow that starts over a
//! standing queue, or whose path gets longer, misjudges it.
//!
//! Deviations: From Linux: the difference is that of the papers. Linux divides by the base instead
//! of the actual round trip, and so keeps less in the queue of a short path. From the papers, as in
//! Linux: slow start doubles every round trip instead of every other one. The papers' fine-grained
//! retransmission is the loss policy `vegas_retransmit`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::SlowStart;
use super::{AckSample, CaState, CcContext, CongestionControl, Path, Window, micros};
use crate::convert::saturate32;
use crate::units::{Span, Time};

/// Parameters of Vegas, in segments queued. The papers use 1 and 3 or 2 and 4 for `alpha` and
/// `beta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Unchecked")]
#[schemars(!try_from, deny_unknown_fields, default)]
pub struct VegasConfig {
    /// The window grows while fewer segments than this are queued. Linux: 2.
    pub alpha: u32,
    /// The window shrinks while more segments than this are queued. At least `alpha`. Linux: 4.
    pub beta: u32,
    /// Slow start ends when more segments than this are queued. Linux: 1.
    pub gamma: u32,
}

impl Default for VegasConfig {
    fn default() -> Self {
        VegasConfig { alpha: 2, beta: 4, gamma: 1 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Unchecked {
    alpha: u32,
    beta: u32,
    gamma: u32,
}

impl Default for Unchecked {
    fn default() -> Self {
        let VegasConfig { alpha, beta, gamma } = VegasConfig::default();
        Unchecked { alpha, beta, gamma }
    }
}

impl TryFrom<Unchecked> for VegasConfig {
    type Error = String;
    fn try_from(Unchecked { alpha, beta, gamma }: Unchecked) -> Result<Self, String> {
        if alpha <= beta {
            Ok(VegasConfig { alpha, beta, gamma })
        } else {
            Err(format!("beta = {beta}: must be at least alpha, which is {alpha}"))
        }
    }
}

impl VegasConfig {
    /// The control of one connection, at its beginning.
    pub fn build(&self, _: &CcContext) -> Vegas {
        Vegas {
            round_end: 0,
            base_rtt_us: u32::MAX,
            round_min_rtt_us: u32::MAX,
            samples: 0,
            active: true,
            alpha: self.alpha,
            beta: self.beta,
            gamma: self.gamma,
        }
    }
}

/// Vegas, as one connection has it.
#[derive(Debug, Clone)]
pub struct Vegas {
    /// Stream offset whose acknowledgement ends the round; zero: the next ACK begins one.
    round_end: u64,
    /// Smallest round trip of the connection, microseconds.
    base_rtt_us: u32,
    /// Smallest round trip of this round, microseconds.
    round_min_rtt_us: u32,
    /// Samples in this round.
    samples: u32,
    /// The sender is in `Open`: delays mean what they say.
    active: bool,
    alpha: u32,
    beta: u32,
    gamma: u32,
}

impl Vegas {
    fn start_round(&mut self, end: u64) {
        self.round_end = end;
        self.round_min_rtt_us = u32::MAX;
        self.samples = 0;
    }

    /// Judges the round that just ended.
    fn judge(&self, w: &mut Window, path: &Path, ack: &AckSample) {
        let (base, rtt) = (u64::from(self.base_rtt_us), u64::from(self.round_min_rtt_us));
        // (cwnd / base - cwnd / rtt) * base
        let queued = u64::from(w.cwnd) * (rtt - base) / rtt;
        if w.in_slow_start() {
            if queued > u64::from(self.gamma) {
                // The window that would leave no queue, and one more.
                let fitting = u64::from(w.cwnd) * base / rtt + 1;
                w.cwnd = w.cwnd.min(saturate32(fitting).max(2));
                end_slow_start(w);
            } else if ack.cwnd_limited {
                w.slow_start(path, ack.credit);
            }
        } else if queued > u64::from(self.beta) {
            w.cwnd = w.cwnd.min((w.cwnd - 1).max(2));
            end_slow_start(w);
        } else if queued < u64::from(self.alpha) && ack.cwnd_limited && ack.credit > 0 {
            w.cwnd = w.cwnd.saturating_add(1).min(path.cwnd_clamp);
        }
    }
}

/// `ssthresh` below `cwnd`: slow start does not come back by itself.
fn end_slow_start(w: &mut Window) {
    w.ssthresh = w.ssthresh.min(w.cwnd - 1).max(2);
}

fn act_as_reno(w: &mut Window, path: &Path, ack: &AckSample) {
    if !ack.cwnd_limited {
        return;
    }
    let mut credit = ack.credit;
    if w.in_slow_start() {
        credit = w.slow_start(path, credit);
    }
    if credit > 0 {
        w.increase_additively(path, w.cwnd, credit);
    }
}

impl CongestionControl for Vegas {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            // Never zero: it divides.
            let rtt_us = micros(rtt).saturating_add(1);
            self.base_rtt_us = self.base_rtt_us.min(rtt_us);
            self.round_min_rtt_us = self.round_min_rtt_us.min(rtt_us);
            self.samples = self.samples.saturating_add(1);
        }
        if !self.active {
            act_as_reno(w, path, ack);
        } else if ack.snd_una > self.round_end {
            // One or two samples may both be of delayed ACKs.
            if self.samples > 2 {
                self.judge(w, path, ack)
            } else {
                act_as_reno(w, path, ack)
            }
            self.start_round(ack.snd_nxt);
        } else if w.in_slow_start() && ack.cwnd_limited {
            w.slow_start(path, ack.credit);
        }
    }

    fn slow_start(&mut self, _: Time) -> Option<&mut SlowStart> {
        None
    }

    fn ssthresh(&mut self, w: &Window, _: &Path) -> u32 {
        (w.cwnd / 2).max(2)
    }

    fn on_state(&mut self, _: &mut Window, _: &Path, to: CaState) {
        self.active = to == CaState::Open;
        self.start_round(0);
    }

    fn on_restart(&mut self, _: &mut Window, _: &Path, _: Span) {
        // The path may be another one now.
        self.base_rtt_us = u32::MAX;
        self.active = true;
        self.start_round(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::CcConfig;
    use crate::tcp::cc::rounds::{Network, Run};
    use crate::units::Time;

    fn vegas(alpha: u32, beta: u32) -> CcConfig {
        CcConfig::Vegas(VegasConfig { alpha, beta, ..VegasConfig::default() })
    }

    /// Mean window beyond what the empty path holds, over the last 5 s of 20.
    fn queued(config: &CcConfig, path: Network) -> f64 {
        let bdp = (path.rtt.as_secs_f64() + 1.0 / path.rate as f64) * path.rate as f64;
        let mut run = Run::with(config, path);
        run.until(Span::from_secs(15));
        let (cwnd, rate) = run.means_until(Span::from_secs(20));
        assert!((rate / run.line_rate() - 1.0).abs() < 0.01, "the line is full: {rate}");
        (cwnd - bdp).round()
    }

    #[test]
    fn between_alpha_and_beta_segments_wait_in_the_queue() {
        for (alpha, beta) in [(1, 3), (2, 4), (4, 8), (20, 22)] {
            for rtt in [19, 99] {
                let path = Network { rtt: Span::from_ms(rtt), ..Network::default() };
                let n = queued(&vegas(alpha, beta), path);
                // Judged in whole segments, rounded down: one of slack.
                assert!((f64::from(alpha) - 1.0..=f64::from(beta) + 1.0).contains(&n), "{alpha}..{beta}: {n}");
            }
        }
    }

    #[test]
    fn a_window_above_beta_shrinks_by_one_each_round() {
        let mut run = Run::with(&vegas(2, 4), Network::default());
        run.until(Span::from_secs(10));
        (run.w.cwnd, run.w.ssthresh) = (140, 100);
        let first = run.rounds.len();
        run.until(Span::from_secs(13));
        let windows: Vec<u32> = run.rounds[first + 2..first + 12].iter().map(|r| r.cwnd).collect();
        assert!(windows.windows(2).all(|w| w[0] - w[1] == 1), "{windows:?}");
    }

    /// Brakmo's known weakness, kept as it is: a longer path looks like a queue.
    #[test]
    fn a_detour_is_taken_for_a_queue() {
        let detour = Some((Time::ZERO + Span::from_secs(10), Span::from_ms(100)));
        let mut run = Run::with(&vegas(2, 4), Network { detour, ..Network::default() });
        run.until(Span::from_secs(10));
        let before = run.w.cwnd;
        run.until(Span::from_secs(40));
        assert!(run.w.cwnd < before / 4, "{before} to {}", run.w.cwnd);
    }

    #[test]
    fn beta_below_alpha_is_refused() {
        let error = serde_json::from_str::<VegasConfig>(r#"{"alpha": 5}"#).unwrap_err().to_string();
        assert!(error.contains("beta = 4: must be at least alpha, which is 5"), "{error}");
    }

    #[test]
    fn the_schema_has_every_parameter_and_its_documentation() {
        let schema = serde_json::to_value(schemars::schema_for!(VegasConfig)).unwrap();
        for (name, value) in [("alpha", 2), ("beta", 4), ("gamma", 1)] {
            assert_eq!(schema["properties"][name]["default"], value);
            assert!(schema["properties"][name]["description"].is_string());
        }
        assert_eq!(schema["additionalProperties"], false);
    }

    #[test]
    fn the_state_is_as_small_as_the_kernels() {
        assert!(size_of::<Vegas>() <= 104);
    }
}
