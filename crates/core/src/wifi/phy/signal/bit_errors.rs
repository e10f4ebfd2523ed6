//! Bit errors: each bit is wrong with a given probability, constant or in bursts, whatever the
//! mode.
//!
//! Errors hit each bit by itself, so a frame of n bits arrives with probability (1 - rate)^n. With
//! `burst` there are a good and a bad state. Each is left after an exponentially distributed time,
//! and the state at the end of a PPDU holds for all of it.
//!
//! Source: D. Duchamp and N. Reynolds, "Measured performance of a wireless LAN", LCN 1992: WaveLAN
//! has as many errors per bit in short packets as in long ones, mostly not in a row. D. Eckhardt
//! and P. Steenkiste (SIGCOMM 1996) found its error rate near a wire's under many conditions.
//! Bursts: E. N. Gilbert (1960) and E. O. Elliott (1963).
//!
//! Siblings: `error_rate` has a rate for each mode. `snr`, `path_loss` and `trace` derive the error
//! rate from an SNR.
//!
//! Valid: every PHY; measured for WaveLAN.
//!
//! Deviations: the preamble is always received. Gilbert's states change by the bit, these by time.

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Quality, SignalContext, SignalRules, SignalSource};
use crate::convert::single;
use crate::policy::checked;
use crate::rng::Rng;
use crate::units::{Probability, Span, Time};

/// A given bit error rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(rename = "BitErrorsConfig")]
pub struct BitErrorsConfig {
    /// Probability that a bit is wrong; with `burst`: between bursts. 1e-6 loses 1.2 % of frames of
    /// 1500 bytes.
    pub rate: Probability,
    /// Times with another bit error rate. Default: none.
    #[serde(default)]
    pub burst: Option<BurstConfig>,
}

/// Bursts of errors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurstConfig {
    /// Probability that a bit is wrong during a burst.
    pub rate: Probability,
    /// Mean length of a burst. Above zero.
    pub length: Span,
    /// Mean time from the end of a burst to the next. Above zero.
    pub interval: Span,
}

impl BitErrorsConfig {
    fn check(&self) -> Result<(), String> {
        let Some(burst) = &self.burst else { return Ok(()) };
        for (key, span) in [("length", burst.length), ("interval", burst.interval)] {
            if span.is_zero() {
                return Err(format!("`{key}` = 0ns: must be above zero, such as \"50ms\""));
            }
        }
        Ok(())
    }

    pub(super) fn build(&self, ctx: &SignalContext) -> BitErrors {
        BitErrors::new(self, ctx.stream.open())
    }
}
checked!(BitErrorsConfig);

impl SignalRules for BitErrorsConfig {
    fn has_snr(&self) -> bool {
        false
    }
}

/// Error events per bit; finite, so that nothing sent has no errors.
fn events_per_bit(rate: Probability) -> f32 {
    single((-libm::log1p(-rate.get())).min(f64::from(f32::MAX)))
}

/// The bit error rate over time.
#[derive(Debug)]
pub struct BitErrors {
    good: f32,
    burst: Option<Box<Burst>>,
}

#[derive(Debug)]
struct Burst {
    bad: f32,
    length_s: f64,
    interval_s: f64,
    is_on: bool,
    /// When the state changes, s since the start.
    until_s: f64,
    rng: Rng,
}

impl BitErrors {
    /// Draws from `rng` only if there are bursts.
    fn new(config: &BitErrorsConfig, mut rng: Rng) -> BitErrors {
        let burst = config.burst.as_ref().map(|b| {
            let (length_s, interval_s) = (b.length.as_secs_f64(), b.interval.as_secs_f64());
            // Stationary from the start.
            let is_on = rng.random::<f64>() * (length_s + interval_s) < length_s;
            let first = rng.exponential();
            let until_s = first * if is_on { length_s } else { interval_s };
            Box::new(Burst { bad: events_per_bit(b.rate), length_s, interval_s, is_on, until_s, rng })
        });
        BitErrors { good: events_per_bit(config.rate), burst }
    }

    /// Error events per bit at `now`; at an earlier time than the last asked for, those of the
    /// last.
    #[inline]
    fn at(&mut self, now: Time) -> f32 {
        let Some(b) = &mut self.burst else { return self.good };
        let now_s = now.as_ns() as f64 * 1e-9;
        while b.until_s <= now_s {
            b.is_on = !b.is_on;
            let length = b.rng.exponential();
            b.until_s += length * if b.is_on { b.length_s } else { b.interval_s };
        }
        if b.is_on { b.bad } else { self.good }
    }
}

impl SignalSource for BitErrors {
    fn quality(&mut self, now: Time) -> Quality {
        Quality::BitErrors(self.at(now))
    }
}

#[cfg(test)]
mod tests {
    use crate::rng::Stream;

    use super::*;
    use crate::wifi::phy::{ErrorModel, Mode, PhyConfig, Signal, SignalConfig, Standard};

    fn read(text: &str) -> Result<BitErrorsConfig, String> {
        toml::from_str(text).map_err(|e| e.message().to_owned())
    }
    fn at_ms(ms: u64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }

    #[test]
    fn a_frame_survives_if_all_its_bits_do() {
        for (rate, bytes, success) in [
            (1e-6, 1518, 0.987_929), // 1 - 1e-6 to the power of 12 144
            (1e-5, 64, 0.994_893),   // 1 - 1e-5 to the power of 512
            (1e-4, 1518, 0.296_870),
            (0.0, 1518, 1.0),
            (1.0, 1, 0.0),
            (1.0, 0, 1.0),
        ] {
            let config = SignalConfig::BitErrors(read(&format!("rate = {rate:e}")).unwrap());
            let phy = PhyConfig::of(Standard::Wavelan);
            let mut signal = Signal::new(&config, &phy, &ErrorModel::default(), Stream::of_test(1));
            let quality = signal.link(at_ms(5));
            assert!(matches!(quality, Quality::BitErrors(_)));
            let found = signal.mpdu_success(quality, Mode::DSSS[1], bytes);
            assert!((found - success).abs() < 2e-6, "{rate}, {bytes} bytes: {found}");
            assert_eq!(signal.preamble_success(quality, Mode::DSSS[1]), 1.0);
        }
    }

    #[test]
    fn bursts_take_their_share_of_the_time_and_last_as_long_as_they_should() {
        let config = read("rate = 0\nburst = { rate = 1e-3, length = \"30ms\", interval = \"170ms\" }").unwrap();
        let mut bits = BitErrors::new(&config, Stream::of_test(2).open());
        let states: Vec<bool> = (0..4_000_000).map(|ms| bits.at(at_ms(ms)) > 0.0).collect();
        let on = states.iter().filter(|&&b| b).count() as f64;
        // 20 000 bursts: a standard error of about 1 %.
        assert!((on / 4e6 / 0.15 - 1.0).abs() < 0.03, "{on}");
        let begun = states.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
        // Seen each ms, a burst or a gap shorter than that may be missed: 1 / 30 + 1 / 170 of half
        // of them at most.
        assert!((begun * 0.2 / 4e3 - 1.0).abs() < 0.05, "{begun}");
        let rare: Vec<bool> = {
            let mut bits = BitErrors::new(&config, Stream::of_test(2).open());
            (0..40_000).map(|i| bits.at(at_ms(100 * i)) > 0.0).collect()
        };
        let every_100th: Vec<bool> = states.iter().copied().step_by(100).collect();
        assert_eq!(rare, every_100th, "it does not matter how often it is looked at");
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        for (text, message) in [
            ("", "missing field `rate`"),
            ("rate = 2", "2"),
            (
                "rate = 0\nburst = { rate = 0.1, length = \"0s\", interval = \"1s\" }",
                "`length` = 0ns: must be above zero",
            ),
            ("rate = 0\nburst = { rate = 0.1, length = \"1s\", interval = \"0s\" }", "`interval` = 0ns: must be above"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
