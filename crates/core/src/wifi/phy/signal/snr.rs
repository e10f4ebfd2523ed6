//! SNR: a given mean signal-to-noise ratio, the same in both directions, with shadowing if wanted.
//!
//! The error model of the PHY derives from it how likely a frame is to arrive in each mode.
//! Shadowing is a stationary Gauss-Markov process in dB; the SNR at the end of a PPDU holds for all
//! of it.
//!
//! Source: M. Gudmundson, "Correlation model for shadow fading in mobile radio systems",
//! Electronics Letters 27(23), 1991, for the shadowing. The mean is the user's.
//!
//! Siblings: `path_loss` derives the mean from a distance, and `trace` gives it over time.
//!
//! Valid: every 802.11 PHY, for devices that stay where they are.
//!
//! Deviations: Gudmundson's correlation is over distance; here it is over time. Both ends have the
//! same noise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shadowing::{Shadowing, ShadowingConfig};
use super::{Quality, SNR_DB, SignalContext, SignalRules, SignalSource};
use crate::policy::checked;
use crate::range::within;
use crate::units::Time;

/// A given mean SNR.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(rename = "SnrConfig")]
pub struct SnrConfig {
    /// Mean SNR in 20 MHz, -50 to 150 dB.
    #[schemars(range(min = -50, max = 150))]
    pub snr_db: f64,
    /// Slow variation around the mean. Default: none.
    #[serde(default)]
    pub shadowing: Option<ShadowingConfig>,
}

impl SnrConfig {
    fn check(&self) -> Result<(), String> {
        within("snr_db", self.snr_db, SNR_DB, "dB")
    }

    pub(super) fn build(&self, ctx: &SignalContext) -> Snr {
        let shadowing = self.shadowing.as_ref().map(|c| Shadowing::new(c, ctx.stream.open()));
        Snr { mean_db: self.snr_db, shadowing }
    }
}
checked!(SnrConfig);

impl SignalRules for SnrConfig {
    fn has_snr(&self) -> bool {
        true
    }
}

/// A mean and what varies around it.
#[derive(Debug)]
pub struct Snr {
    mean_db: f64,
    shadowing: Option<Shadowing>,
}

impl SignalSource for Snr {
    fn quality(&mut self, now: Time) -> Quality {
        let shadowing = self.shadowing.as_mut().map_or(0.0, |s| s.at(now));
        Quality::of_snr_db(self.mean_db + shadowing)
    }
}
