//! Reno: slow start, then one segment more per round trip; half the window on a loss.
//!
//! Source: RFC 5681, as far as it concerns the window.
//!
//! Siblings: Reno is the baseline. CUBIC grows by a curve over time, Vegas watches delay, BBR
//! measures the bandwidth, TCP-AV holds a target rate.
//!
//! Valid: for any path. On long fat paths it takes many round trips to recover from a loss, and
//! random losses keep its window small.
//!
//! Deviations: a reduction halves the window, as in Linux, where the RFC halves the flight. The two
//! differ after a time in which the application or the receiver held the sender back. The recovery
//! algorithm (Reno, NewReno or SACK) is not part of the control: it is the connection's option
//! `recovery`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::{SlowStart, SlowStartExit};
use super::{AckSample, CaState, CcContext, CongestionControl, Path, Window};
use crate::convert::{high32, low32, saturate64};
use crate::units::Time;

/// Parameters of Reno.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RenoConfig {
    /// Rule that ends slow start before a loss does. RFC 5681 has none.
    pub slow_start_exit: SlowStartExit,
    /// Way in which congestion avoidance counts ACKs.
    pub increase: Increase,
}

/// How congestion avoidance adds a segment per round trip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Increase {
    /// A whole segment once a whole window has been acknowledged (RFC 3465, Linux).
    #[default]
    PerWindow,
    /// 1/cwnd for each ACK, cwnd being a real number that a reduction halves (RFC 5681 equation 3,
    /// ns-2). A little slower, at two segments by a quarter.
    PerAck,
}

impl RenoConfig {
    /// The control of one connection, at its beginning.
    pub fn build(&self, ctx: &CcContext) -> Reno {
        Reno { slow_start: self.slow_start_exit.build(ctx), increase: self.increase, fraction: 0 }
    }
}

/// Reno, as one connection has it.
#[derive(Debug, Clone)]
pub struct Reno {
    slow_start: SlowStart,
    increase: Increase,
    /// With [`Increase::PerAck`]: what the window is above `cwnd`, in 2^-32 segments.
    fraction: u32,
}

impl Reno {
    /// The window in 2^-32 segments.
    fn real_window(&self, w: &Window) -> u64 {
        (u64::from(w.cwnd) << 32) | u64::from(self.fraction)
    }

    // [RFC5681-3.1-13]
    fn increase_per_ack(&mut self, w: &mut Window, path: &Path, credit: u32) {
        for _ in 0..credit {
            let window = self.real_window(w);
            let window = window.saturating_add(saturate64((1u128 << 64) / u128::from(window.max(1))));
            w.cwnd = high32(window).min(path.cwnd_clamp);
            self.fraction = low32(window);
        }
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let credit = self.slow_start.on_ack(w, path, ack);
        if credit > 0 {
            match self.increase {
                Increase::PerWindow => w.increase_additively(path, w.cwnd, credit),
                Increase::PerAck => self.increase_per_ack(w, path, credit),
            }
        }
    }

    fn slow_start(&mut self, _: Time) -> Option<&mut SlowStart> {
        Some(&mut self.slow_start)
    }

    fn ssthresh(&mut self, w: &Window, _: &Path) -> u32 {
        self.slow_start.on_reduction();
        let half = self.real_window(w) / 2;
        self.fraction = if self.increase == Increase::PerAck && half >> 32 >= 2 { low32(half) } else { 0 };
        // [RFC5681-3.2-8]
        (w.cwnd / 2).max(2)
    }

    fn cwnd_fraction(&self) -> u32 {
        self.fraction
    }

    fn on_state(&mut self, _: &mut Window, path: &Path, to: CaState) {
        if to == CaState::Loss {
            self.fraction = 0;
            self.slow_start.on_timeout(path.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::CcConfig;
    use crate::tcp::cc::rounds::{Loss, Network, Run, sample};
    use crate::units::Span;

    /// Mathis, Semke, Mahdavi, Ott, ACM CCR 27(3), 1997: sqrt(3/2) / sqrt(p) with an ACK per
    /// segment.
    // [RFC5681-3.1-10]
    #[test]
    fn the_mean_window_is_mathis_under_periodic_loss() {
        for n in [1_000, 10_000, 100_000] {
            let path = Network {
                rtt: Span::from_ms(100),
                rate: 1_000_000,
                buffer: 100_000,
                loss: Loss::Every(n),
                ..Network::default()
            };
            let expected = (1.5 * n as f64).sqrt();
            let mut run = Run::new("reno", path);
            run.w.ssthresh = expected as u32;
            let mean = run.mean_window(5, 20);
            assert!((mean / expected - 1.0).abs() < 0.05, "1 in {n}: {mean} is not {expected}");
        }
    }

    /// By hand from 2: 2.5, 2.9, 3.245; halved from 5 at a fraction of one half: 2.75.
    #[test]
    fn per_ack_the_window_is_a_real_number() {
        let config = CcConfig::Reno(RenoConfig { increase: Increase::PerAck, ..RenoConfig::default() });
        let mut run = Run::with(&config, Network::default());
        let mut reno = Reno { slow_start: SlowStart::Standard, increase: Increase::PerAck, fraction: 0 };
        let (w, path) = (&mut run.w, &run.path);
        (w.cwnd, w.ssthresh) = (2, 2);
        let mut seen = Vec::new();
        for _ in 0..3 {
            reno.increase_per_ack(w, path, 1);
            seen.push((reno.real_window(w) * 1000 + (1 << 31)) >> 32);
        }
        assert_eq!(seen, [2500, 2900, 3245]);
        (w.cwnd, reno.fraction) = (5, 1 << 31);
        assert_eq!(reno.ssthresh(w, path), 2);
        w.cwnd = 2;
        assert_eq!((reno.real_window(w) * 1000) >> 32, 2750);
    }

    /// RFC 5681 section 3.1: a segment per round trip, with an ACK for each segment or for every
    /// second one.
    // [RFC5681-3.1-8] [RFC5681-3.1-10] [RFC5681-3.1-11] [RFC5681-3.1-12] [RFC5681-5-1]
    #[test]
    fn congestion_avoidance_adds_one_segment_per_round_trip() {
        for increase in [Increase::PerWindow, Increase::PerAck] {
            for per_ack in [1, 2] {
                let config = CcConfig::Reno(RenoConfig { increase, ..RenoConfig::default() });
                let mut run = Run::with(&config, Network::default());
                (run.w.cwnd, run.w.ssthresh) = (20, 10);
                for round in 1..=10 {
                    for _ in 0..run.w.cwnd / per_ack {
                        let ack = AckSample { credit: per_ack, ..sample(&run.w) };
                        run.cc.on_ack(&mut run.w, &run.path, &ack);
                    }
                    let expected = 20 + round;
                    assert!((expected - 1..=expected).contains(&run.w.cwnd), "{increase:?} {per_ack}: {}", run.w.cwnd);
                }
            }
        }
    }

    /// RFC 5681 section 3.1: equation 3 never comes to nothing.
    // [RFC5681-3.1-13]
    #[test]
    fn the_largest_window_still_grows() {
        let mut run = Run::new("reno", Network::default());
        let mut reno = Reno { slow_start: SlowStart::Standard, increase: Increase::PerAck, fraction: 0 };
        run.w.cwnd = u32::MAX - 1;
        let before = reno.real_window(&run.w);
        reno.increase_per_ack(&mut run.w, &run.path, 1);
        assert!(reno.real_window(&run.w) > before);
    }

    #[test]
    fn an_early_exit_from_slow_start_saves_losses() {
        for buffer in [200, 400, 600] {
            let lost = |slow_start_exit| {
                let config = CcConfig::Reno(RenoConfig { slow_start_exit, ..RenoConfig::default() });
                let mut run = Run::with(&config, Network { buffer, ..Network::default() });
                run.until(Span::from_secs(4));
                run.transmissions - run.delivered - u64::from(run.path.in_flight)
            };
            let none = lost(SlowStartExit::None);
            assert!(none > u64::from(buffer), "slow start overshoots by what the buffer and the path hold: {none}");
            // HyStart sees the ACK train at half the path.
            assert_eq!(lost(SlowStartExit::Hystart), 0);
            // HyStart++ waits for a standing queue; then its window grows by a quarter per round
            // trip, not by all of itself.
            let plus_plus = lost(SlowStartExit::HystartPlusPlus);
            assert!(plus_plus <= none * 3 / 10, "{plus_plus} of {none}");
        }
    }
}
