//! Onoe: a threshold on the share of frames that needed another try, counted over a second.
//!
//! Source: A. Onoe's rate control of the madwifi driver (2004), as FreeBSD has it in
//! `sys/dev/ath/ath_rate/onoe/onoe.c`.
//!
//! Every `interval` it looks at the frames sent since. It goes one mode down if none arrived.
//! Otherwise it needs `enough` frames. It goes down if more tries failed than frames arrived. It
//! earns a credit if no frame was given up, and the failed tries are fewer than `raise_below` of
//! the frames. Anything between costs a credit. With `credits` of them it goes one mode up.
//!
//! Siblings: ARF and AARF go by runs of frames, and so by chance within milliseconds. Onoe is slow
//! and conservative. Minstrel measures every mode.
//!
//! Valid: for single frames. It takes collisions for a weak signal. Where more than a tenth of the
//! frames need a second try, it does not come back from slower modes.
//!
//! Deviations: the series is the driver's. It is four tries in the mode, and two in each of the
//! next two slower ones and in the slowest. It begins in the fastest mode. The driver began at 24
//! or 36 Mbit/s or below, depending on the signal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RateContext, RateControl, RateRules, RateSeries, Stage, TxStatus};
use crate::policy::checked;
use crate::units::{Probability, Span, Time};
use crate::wifi::phy::{Mode, PhyConfig};

/// Parameters of Onoe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "OnoeConfig")]
pub struct OnoeConfig {
    /// Time between two looks. 1 s: the driver. Above zero.
    pub interval: Span,
    /// Frames without which a look decides nothing, unless none arrived. 10: the driver. At least
    /// 1.
    #[schemars(range(min = 1))]
    pub enough: u32,
    /// A look earns a credit if the failed tries are fewer than this part of the frames that
    /// arrived. 0.1: the driver.
    pub raise_below: Probability,
    /// Credits that a step up costs. 10: the driver. At least 1.
    #[schemars(range(min = 1))]
    pub credits: u32,
}

impl Default for OnoeConfig {
    fn default() -> Self {
        OnoeConfig { interval: Span::from_secs(1), enough: 10, raise_below: super::probability(0.1), credits: 10 }
    }
}

impl OnoeConfig {
    /// Checks the values. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        if self.interval.is_zero() {
            return Err("`interval` = 0ns: must be above zero, such as \"1s\"".into());
        }
        for (key, value) in [("enough", self.enough), ("credits", self.credits)] {
            if value == 0 {
                return Err(format!("`{key}` = 0: must be at least 1"));
            }
        }
        Ok(())
    }

    /// The control of one link, at the beginning.
    pub fn build(&self, ctx: &RateContext) -> Onoe {
        let mut modes = ctx.modes.clone();
        modes.sort_by_key(|m| m.rate());
        modes.dedup_by_key(|m| m.rate());
        let at = modes.len() - 1;
        let next_evaluation = Time::ZERO + self.interval;
        Onoe { config: self.clone(), at, modes, next_evaluation, arrived: 0, given_up: 0, failed: 0, credits: 0 }
    }
}
checked!(OnoeConfig);

impl RateRules for OnoeConfig {
    fn check_with(&self, _: &PhyConfig) -> Result<(), String> {
        self.check()
    }
}

/// Onoe, as one link has it.
#[derive(Debug, Clone)]
pub struct Onoe {
    config: OnoeConfig,
    /// By rate.
    modes: Vec<Mode>,
    at: usize,
    next_evaluation: Time,
    /// Frames since the mode changed or a look decided, and the tries of them that failed.
    arrived: u32,
    given_up: u32,
    failed: u32,
    credits: u32,
}

impl Onoe {
    fn evaluate(&mut self) {
        let enough = self.arrived.saturating_add(self.given_up) >= self.config.enough;
        let raise = f64::from(self.failed) < f64::from(self.arrived) * self.config.raise_below.get();
        let before = self.at;
        if (self.given_up > 0 && self.arrived == 0) || (enough && self.arrived < self.failed) {
            self.at = self.at.saturating_sub(1);
            self.credits = 0;
        } else if enough && self.given_up == 0 && raise {
            self.credits += 1;
            if self.credits >= self.config.credits {
                self.credits = 0;
                self.at = (self.at + 1).min(self.modes.len() - 1);
            }
        } else if enough {
            self.credits = self.credits.saturating_sub(1);
        }
        if enough || self.at != before {
            (self.arrived, self.given_up, self.failed) = (0, 0, 0);
        }
    }
}

impl RateControl for Onoe {
    fn choose(&mut self, now: Time, _is_retransmission: bool, _snr_db: Option<f32>) -> RateSeries {
        if now >= self.next_evaluation {
            self.evaluate();
            self.next_evaluation = now + self.config.interval;
        }
        let stage = |at: usize, tries| Stage { mode: self.modes[at], tries, rts: false };
        let series = RateSeries::of(stage(self.at, 4));
        let series = series.then(stage(self.at.saturating_sub(1), 2)).then(stage(self.at.saturating_sub(2), 2));
        series.then(stage(0, 2))
    }

    fn on_status(&mut self, _now: Time, status: &TxStatus<'_>) {
        let tries: u32 = status.tries.iter().map(|&t| u32::from(t)).sum();
        let arrived = u32::from(status.acked > 0);
        self.arrived = self.arrived.saturating_add(arrived);
        self.given_up = self.given_up.saturating_add(1 - arrived);
        self.failed = self.failed.saturating_add(tries.saturating_sub(1));
    }

    fn best(&self) -> Mode {
        self.modes[self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, context, phy};
    use super::*;
    use crate::wifi::phy::Standard;
    use serde_json::json;

    /// The mode, Mbit/s, after seconds in which 100 frames went, so many of them at their second
    /// try.
    fn after(onoe: &mut Onoe, second: &mut u64, retried: &[u32]) -> u64 {
        for &retried in retried {
            let now = Time::ZERO + Span::from_secs(*second);
            *second += 1;
            let series = onoe.choose(now, false, None);
            for i in 0..100 {
                let tries = [if i < retried { 2 } else { 1 }, 0, 0, 0];
                onoe.on_status(now, &TxStatus { series: &series, tries, mpdus: 1, acked: 1, is_ampdu: false });
            }
        }
        onoe.choose(Time::ZERO + Span::from_secs(*second), false, None);
        *second += 1;
        onoe.best().rate().as_bps() / 1_000_000
    }

    #[test]
    fn it_falls_when_every_frame_needs_two_tries_and_climbs_after_ten_good_seconds() {
        let mut onoe = OnoeConfig::default().build(&context(&phy(Standard::G), 1));
        let mut second = 0;
        assert_eq!(after(&mut onoe, &mut second, &[100; 5]), 54); // as many failed tries as frames
        let now = Time::ZERO + Span::from_secs(second);
        let series = onoe.choose(now, false, None);
        for _ in 0..100 {
            let status = TxStatus { series: &series, tries: [3, 0, 0, 0], mpdus: 1, acked: 1, is_ampdu: false };
            onoe.on_status(now, &status);
        }
        second += 1;
        assert_eq!(after(&mut onoe, &mut second, &[]), 48);
        let stages: Vec<(u64, u8)> = onoe
            .choose(now, false, None)
            .stages()
            .iter()
            .map(|s| (s.mode.rate().as_bps() / 1_000_000, s.tries))
            .collect();
        assert_eq!(stages, [(48, 4), (36, 2), (24, 2), (1, 2)]);
        assert_eq!(after(&mut onoe, &mut second, &[9; 9]), 48);
        assert_eq!(after(&mut onoe, &mut second, &[9; 1]), 54);
        onoe.at -= 1;
        assert_eq!(after(&mut onoe, &mut second, &[10; 60]), 48); // a tenth is too many
    }

    #[test]
    fn nothing_that_arrives_is_a_reason_at_once() {
        let mut onoe = OnoeConfig::default().build(&context(&phy(Standard::G), 1));
        let series = onoe.choose(Time::ZERO, false, None);
        let status = TxStatus { series: &series, tries: [4, 2, 1, 0], mpdus: 1, acked: 0, is_ampdu: false };
        onoe.on_status(Time::ZERO, &status);
        onoe.choose(Time::ZERO + Span::from_ms(999), false, None);
        assert_eq!(onoe.best().rate().as_bps(), 54_000_000);
        onoe.choose(Time::ZERO + Span::from_secs(1), false, None);
        assert_eq!(onoe.best().rate().as_bps(), 48_000_000);
    }

    #[test]
    fn a_configuration_is_checked() {
        assert_eq!(config(json!("onoe")), super::super::RateConfig::Onoe(OnoeConfig::default()));
        for (value, message) in [
            (json!({ "enough": 0 }), "`enough` = 0: must be at least 1"),
            (json!({ "credits": 0 }), "`credits` = 0: must be at least 1"),
            (json!({ "interval": "0s" }), "`interval` = 0ns: must be above zero"),
        ] {
            let error = serde_json::from_value::<OnoeConfig>(value).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
