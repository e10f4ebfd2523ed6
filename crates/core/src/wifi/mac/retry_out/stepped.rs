//! Stepped: the retry-out index rises in steps with the smoothed MAC data rate.
//!
//! Source: the study `ap-retry-out` (IPSJ Journal 58(2), 2017), section 3.2 and table 1.
//!
//! The slower a station sends, the longer its queue takes to drain. So at a low rate an MPDU is
//! given up earlier, TCP loses a segment and halves its window. From the last step on the remedy
//! rests. The rate of each A-MPDU is smoothed exponentially, the new one with weight `smoothing`.
//!
//! Siblings: `fixed` is one step for all rates. `delay` measures the delay that the rate only
//! suggests.
//!
//! Valid: the table was found for one station alone on 802.11n at 5 GHz with two streams and
//! ath9k's 30 retries. A station that shares the medium drains slower than its rate says. A station
//! that sends little is measured by its rate all the same.
//!
//! Deviations: none; these are choices that the study leaves open. The first A-MPDU sets the
//! average, and before it nothing is given up. A rate equal to a bound belongs to the step above.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RetryOut, check_index};
use crate::convert::floor64;
use crate::policy::checked;
use crate::units::{DataRate, Probability, Time};

/// While the smoothed rate is below a bound, and not below that of the step before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryOutStep {
    /// The bound; the smoothed rate must be less.
    pub below: DataRate,
    /// Estimated retries at which an MPDU is given up.
    #[schemars(range(min = 1, max = 255))]
    pub index: u32,
}

/// Parameters of the steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "SteppedRetryOutConfig")]
pub struct SteppedConfig {
    /// Weight of the latest A-MPDU's rate in the average. Above zero. The study: 0.25.
    pub smoothing: Probability,
    /// Steps by rising bound; at least one. The study: 2 below 25 Mbit/s, 5 below 50, 8 below 100.
    #[schemars(length(min = 1))]
    pub steps: Vec<RetryOutStep>,
}

impl Default for SteppedConfig {
    fn default() -> Self {
        let step = |mbps, index| RetryOutStep { below: DataRate::from_mbps(mbps), index };
        SteppedConfig {
            smoothing: Probability::new(0.25).unwrap_or_default(),
            steps: vec![step(25, 2), step(50, 5), step(100, 8)],
        }
    }
}

impl SteppedConfig {
    fn check(&self) -> Result<(), String> {
        if self.smoothing == Probability::ZERO {
            return Err("`smoothing` = 0: must be above 0 and at most 1".into());
        }
        if self.steps.is_empty() {
            return Err("`steps` = []: needs at least one step, such as { below = \"25Mbit/s\", index = 2 }".into());
        }
        let mut last = DataRate::default();
        for (i, step) in self.steps.iter().enumerate() {
            check_index(&format!("steps[{i}].index"), step.index)?;
            if step.below <= last {
                let bound = if i == 0 { "zero".into() } else { format!("that of the step before it ({last})") };
                return Err(format!("`steps[{i}].below` = {}: must be above {bound}", step.below));
            }
            last = step.below;
        }
        Ok(())
    }

    /// The choice for one station, at the beginning.
    pub fn build(&self, _: &()) -> Stepped {
        Stepped {
            smoothing: self.smoothing.get(),
            steps: self.steps.iter().map(|s| (s.below.as_bps() as f64, s.index.max(1))).collect(),
            average_bps: None,
            index: None,
        }
    }
}
checked!(SteppedConfig);

/// The steps, as one station has them.
#[derive(Debug, Clone)]
pub struct Stepped {
    smoothing: f64,
    /// (bound in bit/s, index), by rising bound.
    steps: Box<[(f64, u32)]>,
    average_bps: Option<f64>,
    /// The index that follows from `average_bps`.
    index: Option<u32>,
}

impl RetryOut for Stepped {
    fn on_ampdu(&mut self, _now: Time, rate: DataRate) {
        let sample = rate.as_bps() as f64;
        let average = self.average_bps.map_or(sample, |average| average + self.smoothing * (sample - average));
        self.average_bps = Some(average);
        self.index = self.steps.iter().find(|(below, _)| average < *below).map(|&(_, index)| index);
    }
    fn index(&mut self, _now: Time) -> Option<u32> {
        self.index
    }
    fn smoothed_rate(&self) -> Option<DataRate> {
        self.average_bps.map(|bps| DataRate::from_bps(floor64(bps)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rates_mbps: &[u64]) -> Stepped {
        let mut policy = SteppedConfig::default().build(&());
        for &mbps in rates_mbps {
            policy.on_ampdu(Time::ZERO, DataRate::from_mbps(mbps));
        }
        policy
    }

    #[test]
    fn index_follows_the_studys_table() {
        for (mbps, index) in
            [(6, Some(2)), (24, Some(2)), (25, Some(5)), (49, Some(5)), (50, Some(8)), (99, Some(8)), (100, None)]
        {
            assert_eq!(after(&[mbps]).index(Time::ZERO), index, "{mbps} Mbit/s");
        }
        assert_eq!(after(&[]).index(Time::ZERO), None, "nothing heard yet");
    }

    #[test]
    fn the_new_rate_weighs_a_quarter() {
        // 100, then 0.75 * 100 + 0.25 * 20 = 80, then 0.75 * 80 + 0.25 * 20 = 65.
        for (rates, mbps, index) in [(&[100][..], 100, None), (&[100, 20], 80, Some(8)), (&[100, 20, 20], 65, Some(8))]
        {
            let mut policy = after(rates);
            assert_eq!(policy.smoothed_rate(), Some(DataRate::from_mbps(mbps)));
            assert_eq!(policy.index(Time::ZERO), index);
        }
    }
}
