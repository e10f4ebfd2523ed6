//! Error rate: each mode has a given MPDU error rate, whatever the time and the distance.
//!
//! The rate holds for MPDUs of `bytes`. Other lengths follow from the bit error rate that it
//! implies: with independent bit errors a frame of n bits arrives with probability (1 - p)^n.
//!
//! Source: the rule of lengths is ns-3's `RateErrorModel` with the unit of bits. The rates are the
//! user's.
//!
//! Siblings: `bit_errors` has one bit error rate for all modes. `snr`, `path_loss` and `trace`
//! derive the error rate from an SNR.
//!
//! Valid: every PHY. It gives rate control a channel whose best mode is known beforehand.
//!
//! Deviations: the preamble is always received, because a given error rate is that of MPDUs.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Quality, SignalContext, SignalRules, SignalSource};
use crate::policy::checked;
use crate::units::{DataRate, Probability, Time};
use crate::wifi::phy::{Mode, PhyConfig};

/// MPDU error rates. At least one of `rate` and `rates`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "ErrorRateConfig")]
pub struct ErrorRateConfig {
    /// MPDU error rate of every mode that `rates` does not name. Default: no errors.
    pub rate: Option<Probability>,
    /// MPDU error rates by mode: a list in the order of the PHY's modes, or a table. Its keys are
    /// names of modes or their beginnings: `"MCS 7"`, `"MCS 7 40 MHz"`, `"MCS 7 40 MHz SGI"`,
    /// with ac `"MCS 7 2SS"`, else `"54Mbit/s"`. The longest key that fits counts.
    pub rates: Option<RateTable>,
    /// Length of the MPDUs that have these error rates. Other lengths follow from the bit error
    /// rate this implies.
    #[schemars(range(min = 1))]
    pub bytes: u32,
}

/// Error rates by (the beginning of) a mode's name, or in the order of the PHY's modes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RateTable {
    /// By the name of the mode.
    ByName(BTreeMap<String, Probability>),
    /// By the mode's place among those of the PHY, slowest first.
    ByIndex(Vec<Probability>),
}

impl<'de> Deserialize<'de> for RateTable {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> de::Visitor<'de> for V {
            type Value = RateTable;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a table such as { \"MCS 7\" = 0.1 }, or a list of error rates from 0 to 1")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RateTable, A::Error> {
                Deserialize::deserialize(de::value::MapAccessDeserializer::new(map)).map(RateTable::ByName)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<RateTable, A::Error> {
                Deserialize::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(RateTable::ByIndex)
            }
        }
        d.deserialize_any(V)
    }
}

impl Default for ErrorRateConfig {
    fn default() -> Self {
        ErrorRateConfig { rate: None, rates: None, bytes: 1500 }
    }
}

impl ErrorRateConfig {
    fn check(&self) -> Result<(), String> {
        if self.rate.is_none() && self.rates.is_none() {
            return Err(
                "`kind` = \"error_rate\" needs `rate`, a number from 0 to 1, or `rates`, such as { \"MCS 7\" = 0.1 }"
                    .into(),
            );
        }
        if self.bytes == 0 {
            return Err("`bytes` = 0: must be at least 1".into());
        }
        Ok(())
    }

    /// Checks that `rates` names modes of the PHY only.
    fn check_modes(&self, phy: &PhyConfig) -> Result<(), String> {
        match &self.rates {
            None => Ok(()),
            Some(RateTable::ByIndex(rates)) => {
                let modes = phy.modes().len();
                if rates.len() > modes {
                    return Err(format!("`rates` has {} entries: the PHY has {modes} modes", rates.len()));
                }
                Ok(())
            }
            Some(RateTable::ByName(rates)) => {
                let modes = known_modes(phy);
                let Some(key) = rates.keys().find(|k| !modes.iter().any(|&m| is_named(m, k))) else { return Ok(()) };
                let names: Vec<_> = modes.iter().map(|m| format!("\"{}\"", m.name())).collect();
                Err(format!("`rates` has \"{key}\": must be one of {}, or the beginning of one", names.join(", ")))
            }
        }
    }

    /// Error events per bit, by mode.
    fn event_rates(&self, phy: &PhyConfig) -> Box<[f64]> {
        // Not infinite, so that nothing sent has no errors.
        let per_bit = |p: Probability| (-libm::log1p(-p.get()) / (8.0 * f64::from(self.bytes))).min(f64::MAX);
        let mut rates = vec![self.rate.map_or(0.0, per_bit); Mode::COUNT].into_boxed_slice();
        match &self.rates {
            None => {}
            Some(RateTable::ByIndex(list)) => {
                for (mode, &p) in phy.modes().into_iter().zip(list) {
                    rates[mode.index()] = per_bit(p);
                }
            }
            Some(RateTable::ByName(table)) => {
                for mode in known_modes(phy) {
                    let longest = table.iter().filter(|(k, _)| is_named(mode, k)).max_by_key(|(k, _)| k.len());
                    if let Some((_, &p)) = longest {
                        rates[mode.index()] = per_bit(p);
                    }
                }
            }
        }
        rates
    }

    pub(super) fn build(&self, ctx: &SignalContext) -> ErrorRate {
        ErrorRate { events_per_bit: self.event_rates(&ctx.phy) }
    }
}
checked!(ErrorRateConfig);

impl SignalRules for ErrorRateConfig {
    fn check_phy(&self, phy: &PhyConfig) -> Result<(), String> {
        self.check().and_then(|()| self.check_modes(phy))
    }
    fn has_snr(&self) -> bool {
        false
    }
}

/// A given error rate for each mode.
#[derive(Debug, Clone)]
pub struct ErrorRate {
    /// By the index of the mode.
    events_per_bit: Box<[f64]>,
}

impl SignalSource for ErrorRate {
    fn quality(&mut self, _: Time) -> Quality {
        Quality::ErrorRate
    }
    fn event_rate(&self, mode: Mode) -> f64 {
        self.events_per_bit[mode.index()]
    }
}

/// All that a station of this PHY ever sends.
fn known_modes(phy: &PhyConfig) -> Vec<Mode> {
    let mut modes = phy.modes();
    modes.extend(phy.legacy_modes().into_iter().filter(|m| !phy.modes().contains(m)));
    modes
}

/// True if `key` names the mode: by its name, the beginning of that up to a space, or its rate
/// unless HT or VHT.
fn is_named(mode: Mode, key: &str) -> bool {
    let begins = mode.name().strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    if mode.is_ht_or_later() { begins && !key.is_empty() } else { key.parse::<DataRate>() == Ok(mode.rate()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wifi::phy::signal::tests::{ht, ms, read, signal};
    use crate::wifi::phy::{Standard, Width};

    #[test]
    fn given_error_rates_scale_with_length() {
        let mut s = signal("signal = { kind = \"error_rate\", rate = 0.19 }", &PhyConfig::default());
        let quality = s.link(ms(0));
        // By hand: 0.81 at 1500 bytes is 0.9 at half of them.
        for (bytes, success) in [(1500, 0.81), (750, 0.9), (3000, 0.6561), (0, 1.0)] {
            assert!((s.mpdu_success(quality, ht(7), bytes) - success).abs() < 1e-12);
        }
        assert_eq!(s.preamble_success(quality, ht(7)), 1.0);
        for (rate, success) in [(0.0, 1.0), (1.0, 0.0)] {
            let mut s = signal(&format!("signal = {{ kind = \"error_rate\", rate = {rate} }}"), &PhyConfig::default());
            let quality = s.link(ms(0));
            assert_eq!(s.mpdu_success(quality, ht(7), 1500), success);
            assert!(!s.header_success_if_corrupt(quality, ht(7), 26, 1500).is_nan());
        }
        let s = signal("signal = { kind = \"error_rate\", rate = 0.19, bytes = 100 }", &PhyConfig::default());
        assert!((s.mpdu_success(Quality::ErrorRate, ht(7), 50) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn error_rates_by_mode() {
        let wide = PhyConfig { width_mhz: 40, short_guard_interval: true, streams: 2, ..PhyConfig::of(Standard::N) };
        let ht = |mcs, width, short_gi| Mode::ht(mcs, width, short_gi).unwrap();
        let s = signal(
            "[signal]\nkind = \"error_rate\"\nrate = 0.01\n\
             rates = { \"MCS 1\" = 0.1, \"MCS 1 40 MHz\" = 0.2, \"MCS 1 40 MHz SGI\" = 0.3, \"24Mbit/s\" = 0.4 }",
            &wide,
        );
        for (mode, rate) in [
            (ht(1, Width::Mhz20, false), 0.1),
            (ht(1, Width::Mhz20, true), 0.1),
            (ht(1, Width::Mhz40, false), 0.2),
            (ht(1, Width::Mhz40, true), 0.3),
            (ht(10, Width::Mhz40, true), 0.01),
            (Mode::OFDM[4], 0.4),
            (Mode::OFDM[0], 0.01),
        ] {
            let found = s.mpdu_success(Quality::ErrorRate, mode, 1500);
            assert!((found - (1.0 - rate)).abs() < 1e-12, "{mode:?}: {found}");
        }
        // In the order of the PHY's modes; those left over have `rate`, or no errors.
        let g = PhyConfig::of(Standard::G);
        let s = signal("signal = { kind = \"error_rate\", rates = [0, 0.1, 0.2] }", &g);
        for (mode, rate) in [(Mode::DSSS[0], 0.0), (Mode::DSSS[1], 0.1), (Mode::DSSS[2], 0.2), (Mode::OFDM[0], 0.0)] {
            assert!((s.mpdu_success(Quality::ErrorRate, mode, 1500) - (1.0 - rate)).abs() < 1e-12, "{mode:?}");
        }
        for (toml, phy, message) in [
            (
                "rates = { \"MCS 8\" = 0.1 }",
                PhyConfig::default(),
                "`rates` has \"MCS 8\": must be one of \"MCS 0 20 MHz\", ",
            ),
            ("rates = { \"MCS\" = 0.1, \"\" = 0.1 }", PhyConfig::default(), "`rates` has \"\": must be one of"),
            ("rates = { \"7Mbit/s\" = 0.1 }", g, "`rates` has \"7Mbit/s\": must be one of \"1 Mbit/s\", "),
            ("rates = [0, 0, 0, 0, 0.5]", PhyConfig::of(Standard::B), "`rates` has 5 entries: the PHY has 4 modes"),
        ] {
            let config = read(&format!("[signal]\nkind = \"error_rate\"\n{toml}")).unwrap();
            let error = config.check_phy(&phy).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
