//! Fallback: a chain of modes for each frame, from the fastest down, and nothing remembered.
//!
//! Source: none needed. It is what retry chains of the hardware do by themselves, before any
//! algorithm moves their head; ath9k has four entries per descriptor.
//!
//! Every frame begins in the fastest mode, or in the one given by `rate`. After `tries` tries
//! without an ACK it goes on in the next slower mode, up to four modes; the last has all tries that
//! remain.
//!
//! Siblings: ARF and AARF begin the next frame where the last one ended. Here a loss costs its own
//! frame only.
//!
//! Valid: where the signal carries the first mode. It is a bound for what falling back within a
//! frame costs.
//!
//! Deviations: none, as there is no original.

use std::num::NonZeroU8;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RateContext, RateControl, RateRules, RateSeries, Stage, TxStatus};
use crate::units::{DataRate, Time};
use crate::wifi::phy::{Mode, PhyConfig};

/// Parameters of fallback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "FallbackConfig")]
pub struct FallbackConfig {
    /// Data rate of the first mode, such as "54Mbit/s". Left out: the fastest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<DataRate>,
    /// Tries in each mode but the last of the chain. 2: as ARF. At least 1.
    pub tries: NonZeroU8,
}

impl Default for FallbackConfig {
    fn default() -> Self {
        FallbackConfig { rate: None, tries: const { NonZeroU8::new(2).unwrap() } }
    }
}

impl FallbackConfig {
    /// The control of one link, at the beginning.
    pub fn build(&self, ctx: &RateContext) -> Fallback {
        let mut modes = ctx.modes.clone();
        modes.sort_by_key(|m| m.rate());
        modes.dedup_by_key(|m| m.rate());
        let wanted = self.rate.and_then(|rate| modes.iter().position(|m| m.rate() == rate));
        let first = wanted.unwrap_or(modes.len() - 1);
        let last = first.saturating_sub(RateSeries::MAX_STAGES - 1);
        let stage = |at: usize| {
            let tries = if at == last { u8::MAX } else { self.tries.get() };
            Stage { mode: modes[at], tries, rts: false }
        };
        let series = (last..first).rev().fold(RateSeries::of(stage(first)), |series, at| series.then(stage(at)));
        Fallback(series)
    }
}

impl RateRules for FallbackConfig {
    fn check_with(&self, phy: &PhyConfig) -> Result<(), String> {
        let modes = phy.modes();
        match self.rate {
            Some(rate) if !modes.iter().any(|m| m.rate() == rate) => {
                let mut rates: Vec<String> = modes.iter().map(|m| m.rate().to_string()).collect();
                rates.dedup();
                Err(format!("`rate` = {rate}: must be one of {}", rates.join(", ")))
            }
            _ => Ok(()),
        }
    }
}

/// Fallback, as one link has it: the series of every frame.
#[derive(Debug, Clone)]
pub struct Fallback(RateSeries);

impl RateControl for Fallback {
    #[inline]
    fn choose(&mut self, _now: Time, _is_retransmission: bool, _snr_db: Option<f32>) -> RateSeries {
        self.0
    }

    fn on_status(&mut self, _now: Time, _status: &TxStatus<'_>) {}

    fn best(&self) -> Mode {
        self.0.first().mode
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, context, phy};
    use super::*;
    use crate::wifi::phy::Standard;
    use serde_json::json;

    #[test]
    fn every_frame_begins_at_the_top_and_goes_down_by_itself() {
        let stages = |config: &FallbackConfig| {
            let mut control = config.build(&context(&phy(Standard::G), 1));
            let series = control.choose(Time::ZERO, false, None);
            let status = TxStatus { series: &series, tries: [2, 2, 2, 1], mpdus: 1, acked: 0, is_ampdu: false };
            control.on_status(Time::ZERO, &status);
            assert_eq!(control.choose(Time::ZERO, false, None), series);
            series.stages().iter().map(|s| (s.mode.rate().as_bps() / 1_000_000, s.tries)).collect::<Vec<_>>()
        };
        let default = FallbackConfig::default();
        assert_eq!(stages(&default), [(54, 2), (48, 2), (36, 2), (24, 255)]);
        let slow = FallbackConfig { rate: Some(DataRate::from_mbps(2)), tries: NonZeroU8::new(3).unwrap() };
        assert_eq!(stages(&slow), [(2, 3), (1, 255)]);
    }

    #[test]
    fn a_rate_that_the_phy_does_not_have_is_refused() {
        assert_eq!(config(json!("fallback")), super::super::RateConfig::Fallback(FallbackConfig::default()));
        let wrong = FallbackConfig { rate: Some(DataRate::from_mbps(7)), ..FallbackConfig::default() };
        let error = wrong.check_with(&phy(Standard::G)).unwrap_err();
        assert!(error.starts_with("`rate` = 7Mbit/s: must be one of 1Mbit/s, 2Mbit/s, "), "{error}");
    }
}
