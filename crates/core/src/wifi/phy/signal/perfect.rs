//! Perfect: no frame is ever lost to noise. Collisions are the only losses on the air.
//!
//! It costs nothing: no random number is drawn.
//!
//! Source: none. It is an assumption of G. Bianchi, "Performance analysis of the IEEE 802.11
//! distributed coordination function", IEEE JSAC 18(3), 2000.
//!
//! Siblings: every other signal loses frames.
//!
//! Valid: every PHY, where stations are so near that noise does not matter; and checks against
//! models without noise.
//!
//! Deviations: none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Quality, SignalContext, SignalRules, SignalSource};
use crate::units::Time;

/// Nothing is lost to noise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerfectConfig {}

impl PerfectConfig {
    pub(super) fn build(&self, _: &SignalContext) -> Perfect {
        Perfect
    }
}

impl SignalRules for PerfectConfig {
    fn has_snr(&self) -> bool {
        false
    }
}

/// No state.
#[derive(Debug, Clone)]
pub struct Perfect;

impl SignalSource for Perfect {
    fn quality(&mut self, _: Time) -> Quality {
        Quality::Perfect
    }
}

#[cfg(test)]
mod tests {
    use crate::units::Time;
    use crate::wifi::phy::PhyConfig;
    use crate::wifi::phy::signal::Quality;
    use crate::wifi::phy::signal::tests::{ht, signal};

    #[test]
    fn perfect_loses_nothing() {
        let mut s = signal("signal = \"perfect\"", &PhyConfig::default());
        let quality = s.link(Time::from_ns(5_000_000));
        assert_eq!(quality, Quality::Perfect);
        for found in [
            s.mpdu_success(quality, ht(7), u32::MAX),
            s.header_success(quality, ht(7), 26),
            s.preamble_success(quality, ht(7)),
            s.header_success_if_corrupt(quality, ht(7), 26, 1500),
        ] {
            assert_eq!(found, 1.0);
        }
    }
}
