//! ARF, automatic rate fallback: one step up after a run of acknowledged frames, one step down
//! after a run of missed ACKs.
//!
//! Source: A. Kamerman and L. Monteban, "WaveLAN-II: a high-performance wireless LAN for the
//! unlicensed band", Bell Labs Technical Journal 2(3), 1997.
//!
//! It goes up after `up_after` frames in a row that were acknowledged at once, or after
//! `timer_frames` frames at a mode, whatever their outcome. If the first frame there fails at its
//! first try, it goes back. It goes down after `down_after` tries in a row without an ACK.
//!
//! Siblings: Minstrel measures every mode and takes the one that carries most. ARF only looks at
//! the mode that it is in.
//!
//! Valid: where a weak signal causes the losses. ARF cannot tell a collision from a weak signal,
//! and a slower frame collides as often as a fast one. Where many stations contend it falls to the
//! slowest modes though the signal is perfect (Kim et al., "CARA: collision-aware rate adaptation
//! for IEEE 802.11 WLANs", INFOCOM 2006). Firmware of the 2000s had something like it; which
//! devices had it is not published.
//!
//! Deviations: the timer counts frames, as in ns-3's `ArfWifiManager` (15), where WaveLAN-II had a
//! clock. A frame's tries go down with the mode, `down_after` in each, as series of up to four
//! stages allow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::steps::Steps;
use super::{RateContext, RateControl, RateRules, RateSeries, TxStatus};
use crate::policy::checked;
use crate::units::Time;
use crate::wifi::phy::{Mode, PhyConfig};

/// Parameters of ARF.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "ArfConfig")]
pub struct ArfConfig {
    /// Frames in a row acknowledged at their first try, after which a faster mode is tried. 10. At
    /// least 1.
    #[schemars(range(min = 1))]
    pub up_after: u16,
    /// Tries in a row without an ACK, after which the mode is left for a slower one. 2. At least 1.
    #[schemars(range(min = 1))]
    pub down_after: u8,
    /// Frames at a mode after which a faster one is tried in any case. 15. 0: never.
    pub timer_frames: u16,
}

impl Default for ArfConfig {
    fn default() -> Self {
        ArfConfig { up_after: 10, down_after: 2, timer_frames: 15 }
    }
}

impl ArfConfig {
    /// Checks the values. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        if self.up_after == 0 {
            return Err("`up_after` = 0: must be at least 1".into());
        }
        if self.down_after == 0 {
            return Err("`down_after` = 0: must be from 1 to 255".into());
        }
        Ok(())
    }

    /// The control of one link, at the beginning.
    pub fn build(&self, ctx: &RateContext) -> Arf {
        Arf { config: self.clone(), steps: Steps::new(ctx, self.down_after) }
    }
}
checked!(ArfConfig);

impl RateRules for ArfConfig {
    fn check_with(&self, _: &PhyConfig) -> Result<(), String> {
        self.check()
    }
}

/// ARF, as one link has it.
#[derive(Debug, Clone)]
pub struct Arf {
    config: ArfConfig,
    steps: Steps,
}

impl RateControl for Arf {
    #[inline]
    fn choose(&mut self, _now: Time, _is_retransmission: bool, _snr_db: Option<f32>) -> RateSeries {
        self.steps.series()
    }

    fn on_status(&mut self, _now: Time, status: &TxStatus<'_>) {
        self.steps.on_status(status, self.config.up_after, self.config.timer_frames);
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

    fn mbps(mode: Mode) -> u64 {
        mode.rate().as_bps() / 1_000_000
    }

    /// The mode after frames that took so many tries in each stage.
    fn after(arf: &mut impl RateControl, frames: &[[u8; 4]]) -> u64 {
        for &tries in frames {
            let series = arf.choose(Time::ZERO, false, None);
            arf.on_status(Time::ZERO, &TxStatus { series: &series, tries, mpdus: 1, acked: 1, is_ampdu: false });
        }
        mbps(arf.best())
    }

    #[test]
    fn two_misses_go_down_ten_hits_go_up_and_a_miss_there_goes_back() {
        let ArfConfig { up_after, down_after, .. } = ArfConfig::default();
        assert_eq!((up_after, down_after), (10, 2));
        let mut arf = ArfConfig::default().build(&context(&phy(Standard::G), 1));
        assert_eq!(after(&mut arf, &[[1, 0, 0, 0]; 20]), 54);
        assert_eq!(after(&mut arf, &[[2, 0, 0, 0]]), 54);
        assert_eq!(after(&mut arf, &[[2, 1, 0, 0]]), 48);
        assert_eq!(after(&mut arf, &[[1, 0, 0, 0]; 9]), 48);
        assert_eq!(after(&mut arf, &[[1, 0, 0, 0]]), 54);
        let series = arf.choose(Time::ZERO, false, None);
        let stages: Vec<(u64, u8)> = series.stages().iter().map(|s| (mbps(s.mode), s.tries)).collect();
        assert_eq!(stages, [(54, 1), (48, 2), (36, 2), (24, 255)]);
        assert_eq!(after(&mut arf, &[[1, 2, 2, 1]]), 24);
        // Every second frame misses once: no ten in a row, but the timer.
        assert_eq!(after(&mut arf, &[[1, 0, 0, 0], [2, 0, 0, 0]].repeat(7)), 24);
        assert_eq!(after(&mut arf, &[[1, 0, 0, 0]]), 36);
        let mut without = ArfConfig { timer_frames: 0, ..ArfConfig::default() }.build(&context(&phy(Standard::G), 1));
        after(&mut without, &[[2, 1, 0, 0]]);
        assert_eq!(after(&mut without, &[[1, 0, 0, 0], [2, 0, 0, 0]].repeat(100)), 48);
    }

    #[test]
    fn a_configuration_is_checked() {
        assert_eq!(config(json!("arf")), super::super::RateConfig::Arf(ArfConfig::default()));
        for key in ["up_after", "down_after"] {
            let error = serde_json::from_value::<ArfConfig>(json!({ key: 0 })).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}` = 0: must be")), "{error}");
        }
    }
}
