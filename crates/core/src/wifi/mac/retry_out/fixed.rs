//! Fixed: one retry-out index, whatever the rate.
//!
//! Source: the study `ap-retry-out`, figures 16 and 17. It compares indices 2, 5 and 8 held fixed
//! to derive the table of `stepped`.
//!
//! Siblings: `stepped` and `delay` change the index. A small fixed index costs throughput at high
//! rates; a large one leaves the delay of low rates as it was.
//!
//! Valid: for experiments, and for stations whose rate hardly varies.
//!
//! Deviations: none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RetryOut, check_index};
use crate::policy::checked;
use crate::units::Time;

/// Parameters of the fixed index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "FixedRetryOutConfig")]
pub struct FixedConfig {
    /// Estimated retries at which an MPDU is given up.
    #[schemars(range(min = 1, max = 255))]
    pub index: u32,
}

impl Default for FixedConfig {
    /// The study's index for the lowest rates.
    fn default() -> Self {
        FixedConfig { index: 2 }
    }
}

impl FixedConfig {
    fn check(&self) -> Result<(), String> {
        check_index("index", self.index)
    }

    /// The choice for one station, at the beginning.
    pub fn build(&self, _: &()) -> Fixed {
        Fixed { index: self.index.max(1) }
    }
}
checked!(FixedConfig);

/// The fixed index of one station.
#[derive(Debug, Clone)]
pub struct Fixed {
    index: u32,
}

impl RetryOut for Fixed {
    fn index(&mut self, _now: Time) -> Option<u32> {
        Some(self.index)
    }
}
