//! AARF, adaptive automatic rate fallback: ARF that waits longer before it tries a faster mode that
//! has just failed.
//!
//! Source: M. Lacage, M. H. Manshaei, T. Turletti, "IEEE 802.11 Rate Adaptation: A Practical
//! Approach", MSWiM 2004.
//!
//! It goes up after a run of frames that were acknowledged at once, or after a number of frames
//! whatever their outcome. It goes down after `down_after` tries in a row without an ACK. If the
//! first frame in the faster mode fails at its first try, it goes back. The run that it waits for
//! is then `grow` times as long, up to `up_after_max`. Any other step down makes the run `up_after`
//! again.
//!
//! Siblings: ARF always waits for the same run. Onoe counts over a second; fallback remembers
//! nothing.
//!
//! Valid: where a weak signal causes the losses. It takes collisions for a weak signal, as ARF
//! does.
//!
//! Deviations: the timer counts frames, one and a half times the run (15 for 10, as in ns-3's
//! `AarfWifiManager`). A frame's tries go down with the mode, `down_after` in each, as series of up
//! to four stages allow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::Steps;
use super::{RateContext, RateControl, RateRules, RateSeries, TxStatus};
use crate::policy::checked;
use crate::units::Time;
use crate::wifi::phy::{Mode, PhyConfig};

/// Parameters of AARF.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "AarfConfig")]
pub struct AarfConfig {
    /// Least run of frames acknowledged at their first try, after which a faster mode is tried. 10.
    /// At least 1.
    #[schemars(range(min = 1))]
    pub up_after: u16,
    /// Longest run. 50: the paper. At least `up_after`.
    pub up_after_max: u16,
    /// Factor by which the run grows. 2: the paper. At least 1.
    #[schemars(range(min = 1))]
    pub grow: u16,
    /// Tries in a row without an ACK, after which the mode is left for a slower one. 2. At least 1.
    #[schemars(range(min = 1))]
    pub down_after: u8,
    /// A faster mode is also tried after one and a half runs of frames, whatever their outcome.
    pub timer: bool,
}

impl Default for AarfConfig {
    fn default() -> Self {
        AarfConfig { up_after: 10, up_after_max: 50, grow: 2, down_after: 2, timer: true }
    }
}

impl AarfConfig {
    /// Checks the values. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        for (key, value) in [("up_after", self.up_after), ("grow", self.grow), ("down_after", self.down_after.into())] {
            if value == 0 {
                return Err(format!("`{key}` = 0: must be at least 1"));
            }
        }
        if self.up_after_max < self.up_after {
            let (max, least) = (self.up_after_max, self.up_after);
            return Err(format!("`up_after_max` = {max}: must be at least `up_after` ({least})"));
        }
        Ok(())
    }

    /// The control of one link, at the beginning.
    pub fn build(&self, ctx: &RateContext) -> Aarf {
        Aarf { run: self.up_after, config: self.clone(), steps: Steps::new(ctx, self.down_after) }
    }
}
checked!(AarfConfig);

impl RateRules for AarfConfig {
    fn check_with(&self, _: &PhyConfig) -> Result<(), String> {
        self.check()
    }
}

/// AARF, as one link has it.
#[derive(Debug, Clone)]
pub struct Aarf {
    config: AarfConfig,
    steps: Steps,
    /// The run that is waited for.
    run: u16,
}

impl RateControl for Aarf {
    #[inline]
    fn choose(&mut self, _now: Time, _is_retransmission: bool, _snr_db: Option<f32>) -> RateSeries {
        self.steps.series()
    }

    fn on_status(&mut self, _now: Time, status: &TxStatus<'_>) {
        let config = &self.config;
        let timer_frames = if config.timer { self.run.saturating_add(self.run / 2) } else { 0 };
        if let Some(fall) = self.steps.on_status(status, self.run, timer_frames) {
            self.run = if fall.was_new && fall.steps == 1 {
                self.run.saturating_mul(config.grow).min(config.up_after_max)
            } else {
                config.up_after
            };
        }
    }

    fn best(&self) -> Mode {
        self.steps.mode()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, context, phy};
    use super::*;
    use crate::wifi::phy::Standard;
    use serde_json::json;

    /// The mode, Mbit/s, after frames that took so many tries in each stage.
    fn after(aarf: &mut Aarf, frames: &[[u8; 4]]) -> u64 {
        for &tries in frames {
            let series = aarf.choose(Time::ZERO, false, None);
            aarf.on_status(Time::ZERO, &TxStatus { series: &series, tries, mpdus: 1, acked: 1, is_ampdu: false });
        }
        aarf.best().rate().as_bps() / 1_000_000
    }

    #[test]
    fn each_vain_try_of_a_faster_mode_doubles_the_wait_up_to_fifty() {
        let (hit, miss) = ([1, 0, 0, 0], [1, 1, 0, 0]);
        let mut aarf = AarfConfig::default().build(&context(&phy(Standard::G), 1));
        assert_eq!(after(&mut aarf, &[[2, 1, 0, 0]]), 48);
        for run in [10, 20, 40, 50, 50] {
            assert_eq!(after(&mut aarf, &[hit].repeat(run - 1)), 48, "{run}");
            assert_eq!(after(&mut aarf, &[hit]), 54, "{run}");
            assert_eq!(after(&mut aarf, &[miss]), 48, "{run}");
        }
        // Losses in the mode itself: the wait is short again.
        assert_eq!(after(&mut aarf, &[[2, 1, 0, 0]]), 36);
        assert_eq!(after(&mut aarf, &[hit; 10]), 48);
        // Every second frame misses once: no run, but one and a half of it in frames.
        assert_eq!(after(&mut aarf, &[hit, [2, 0, 0, 0]].repeat(7)), 48);
        assert_eq!(after(&mut aarf, &[hit]), 54);
    }

    #[test]
    fn a_configuration_is_checked() {
        assert_eq!(config(json!("aarf")), super::super::RateConfig::Aarf(AarfConfig::default()));
        for key in ["up_after", "grow", "down_after"] {
            let error = serde_json::from_value::<AarfConfig>(json!({ key: 0 })).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}` = 0: must be")), "{error}");
        }
        let error = serde_json::from_value::<AarfConfig>(json!({ "up_after_max": 9 })).unwrap_err().to_string();
        assert!(error.contains("`up_after_max` = 9: must be at least `up_after` (10)"), "{error}");
    }
}
