//! Slow variation of an SNR around its mean, as several signals have it.
//!
//! A stationary Gauss-Markov (Ornstein-Uhlenbeck) process in dB: log-normal with `sigma_db`,
//! correlation `exp(-t / correlation)`, as Gudmundson found it over distance (Electronics Letters
//! 27(23), 1991). It is advanced exactly, by whatever time has passed, so that it does not matter
//! how often it is looked at. Short correlation times may stand for fading; the SNR holds for a
//! whole PPDU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::checked;
use crate::range::within;
use crate::rng::Rng;
use crate::units::{Span, Time};

/// Slow variation of the SNR around its mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "ShadowingConfig")]
pub struct ShadowingConfig {
    /// Standard deviation in dB. 0 to 40.
    #[schemars(range(min = 0, max = 40))]
    pub sigma_db: f64,
    /// Time after which the correlation has fallen to 1/e. Above zero.
    pub correlation: Span,
}

impl Default for ShadowingConfig {
    /// 4 dB: indoor office at 5 GHz (TGn channel model D before the breakpoint: 3 dB, beyond: 5
    /// dB). One second: somebody walks by.
    fn default() -> Self {
        ShadowingConfig { sigma_db: 4.0, correlation: Span::from_secs(1) }
    }
}

impl ShadowingConfig {
    fn check(&self) -> Result<(), String> {
        within("sigma_db", self.sigma_db, 0.0..=40.0, "dB")?;
        if self.correlation.is_zero() {
            return Err("`correlation` = 0ns: must be above zero, such as \"1s\"".into());
        }
        Ok(())
    }
}
checked!(ShadowingConfig);

/// An Ornstein-Uhlenbeck process with mean zero.
#[derive(Debug)]
pub(super) struct Shadowing {
    sigma_db: f64,
    correlation_s: f64,
    value_db: f64,
    at: Time,
    rng: Rng,
}

impl Shadowing {
    pub(super) fn new(config: &ShadowingConfig, mut rng: Rng) -> Shadowing {
        let start = rng.normal();
        Shadowing {
            sigma_db: config.sigma_db,
            correlation_s: config.correlation.as_secs_f64(),
            value_db: config.sigma_db * start,
            at: Time::ZERO,
            rng,
        }
    }

    /// The value at `now`; at an earlier time than the last asked for, the last value.
    #[inline]
    pub(super) fn at(&mut self, now: Time) -> f64 {
        let elapsed = now.since(self.at);
        if !elapsed.is_zero() {
            self.at = now;
            let exponent = -elapsed.as_secs_f64() / self.correlation_s;
            let noise = self.rng.normal();
            // exp_m1 keeps its digits when little time has passed.
            let variance = -libm::expm1(2.0 * exponent);
            self.value_db = self.value_db * libm::exp(exponent) + self.sigma_db * variance.sqrt() * noise;
        }
        self.value_db
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::wifi::phy::signal::tests::{ms, rng};

    /// Mean, variance and correlation of successive values of shadowing of 4 dB and 100 ms, seen
    /// every `step_ms`, with as many looks between as `looks` says.
    fn statistics(step_ms: u64, looks: u64, count: u64) -> (f64, f64, f64) {
        let config = ShadowingConfig { sigma_db: 4.0, correlation: Span::from_ms(100) };
        let mut shadowing = Shadowing::new(&config, rng(3));
        let mut when = rng(4);
        let values: Vec<f64> = (1..=count)
            .map(|i| {
                let mut offsets: Vec<u64> = (0..looks).map(|_| when.random_range(0..step_ms * 1_000_000)).collect();
                offsets.sort_unstable();
                for offset in offsets {
                    shadowing.at(Time::from_ns((i - 1) * step_ms * 1_000_000 + offset));
                }
                shadowing.at(ms(i * step_ms))
            })
            .collect();
        let n = count as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let covariance = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / (n - 1.0);
        (mean, variance, covariance / variance)
    }

    #[test]
    fn shadowing_has_its_variance_and_correlation_however_often_it_is_seen() {
        // Steps, correlation exp(-step / 100 ms). With r = 0.61 and 100 000 values the standard
        // errors are
        // 0.026 dB, 0.7 % and 0.0025; with r = 0.9, 0.055 dB, 1.4 % and 0.0014. Four of them are
        // allowed.
        for (step, looks, correlation, errors) in [
            (50, 0, 0.60653, (0.026, 0.007, 0.0025)),
            (50, 5, 0.60653, (0.026, 0.007, 0.0025)),
            (10, 0, 0.90484, (0.057, 0.014, 0.0014)),
            (10, 3, 0.90484, (0.057, 0.014, 0.0014)),
            (500, 0, 0.00674, (0.013, 0.0045, 0.0032)),
        ] {
            let (mean, variance, found) = statistics(step, looks, 100_000);
            assert!(mean.abs() < 4.0 * errors.0, "step {step}, {looks} looks: mean {mean}");
            assert!((variance / 16.0 - 1.0).abs() < 4.0 * errors.1, "step {step}, {looks} looks: variance {variance}");
            assert!((found - correlation).abs() < 4.0 * errors.2, "step {step}, {looks} looks: correlation {found}");
        }
    }

    #[test]
    fn shadowing_starts_as_spread_as_it_goes_on() {
        let config = ShadowingConfig { sigma_db: 4.0, correlation: Span::from_secs(3600) };
        let starts: Vec<f64> = (0..20_000).map(|seed| Shadowing::new(&config, rng(seed)).at(ms(0))).collect();
        let variance = starts.iter().map(|v| v * v).sum::<f64>() / starts.len() as f64;
        // One standard error is 1 %.
        assert!((variance / 16.0 - 1.0).abs() < 0.04, "{variance}");
    }
}
