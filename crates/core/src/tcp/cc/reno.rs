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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::CcConfig;
    use crate::tcp::cc::rounds::{Loss, Path, Run};
    use crate::units::Span;

    /// Mathis, Semke, Mahdavi, Ott, ACM CCR 27(3), 1997: sqrt(3/2) / sqrt(p) with an ACK per segment.
    #[test]
    fn the_mean_window_is_mathis_under_periodic_loss() {
        for n in [1_000, 10_000, 100_000] {
            let path = Path {
                rtt: Span::from_ms(100),
                rate: 1_000_000,
                buffer: 100_000,
                loss: Loss::Every(n),
                ..Path::default()
            };
            let expected = (1.5 * n as f64).sqrt();
            let mut run = Run::new("reno", path);
            run.w.ssthresh = expected as u32;
            let mean = run.mean_window(5, 20);
            assert!((mean / expected - 1.0).abs() < 0.05, "1 in {n}: {mean} is not {expected}");
        }
    }

    #[test]
    fn an_early_exit_from_slow_start_saves_losses() {
        for buffer in [200, 400, 600] {
            let lost = |slow_start_exit| {
                let config = CcConfig::Reno(RenoConfig { slow_start_exit });
                let mut run = Run::with(&config, Path { buffer, ..Path::default() });
                run.until(Span::from_secs(4));
                run.transmissions - run.delivered - u64::from(run.w.in_flight)
            };
            let none = lost(SlowStartExit::None);
            assert!(none > u64::from(buffer), "slow start overshoots by what the buffer and the path hold: {none}");
            // HyStart sees the ACK train at half the path.
            assert_eq!(lost(SlowStartExit::Hystart), 0);
            // HyStart++ waits for a standing queue; then its window grows by a quarter per round trip, not by all of itself.
            let plus_plus = lost(SlowStartExit::HystartPlusPlus);
            assert!(plus_plus <= none * 3 / 10, "{plus_plus} of {none}");
        }
    }
}
