//! Fixed: every frame in one mode, whatever happens to it.
//!
//! Source: none needed; operators pin a rate so (`iw set bitrates`).
//!
//! The mode is given by `mcs` or by `rate`; without either it is the fastest one. In 802.11n `mcs`
//! is 0 to 31, or 0 to 7 with `streams`. In 802.11ac it is 0 to 9 with `streams`; without
//! `streams`, all that the PHY has are used. An `mcs` is sent with the PHY's full width and, where
//! allowed, its short guard interval.
//!
//! Siblings: all others change the mode. Fixed is for experiments that hold the rate still, and for
//! networks whose operator pins it.
//!
//! Valid: for every PHY.
//!
//! Deviations: none. A series is one stage of `tries`, by default more than any retry limit. So the
//! sender's limit decides when a frame is given up, and not the series.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RateContext, RateControl, RateRules, RateSeries, Stage, TxStatus, fastest, full_name};
use crate::policy::checked;
use crate::units::{DataRate, Time};
use crate::wifi::phy::{Format, Mode, PhyConfig, Standard};

/// Parameters of the fixed rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "FixedConfig")]
pub struct FixedConfig {
    /// Modulation and coding scheme of 802.11n (0 to 31) or ac (0 to 9).
    pub mcs: Option<u8>,
    /// Spatial streams, with `mcs`. In 802.11n an `mcs` from 8 on implies them.
    pub streams: Option<u8>,
    /// Data rate of the mode, such as "11Mbit/s" in 802.11b; of several such modes the one with the
    /// fewest streams.
    pub rate: Option<DataRate>,
    /// Tries per series. At least 1. 255: the sender's retry limit decides.
    #[schemars(range(min = 1))]
    pub tries: u8,
    /// Send RTS before every frame, whatever its length.
    pub rts: bool,
}

impl Default for FixedConfig {
    fn default() -> Self {
        FixedConfig { mcs: None, streams: None, rate: None, tries: u8::MAX, rts: false }
    }
}

impl FixedConfig {
    /// Checks that the values go together. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        if self.tries == 0 {
            return Err("`tries` = 0: must be from 1 to 255".into());
        }
        if self.mcs.is_some() && self.rate.is_some() {
            return Err("`mcs` and `rate` both choose the mode: give one of them".into());
        }
        if let (Some(streams), None) = (self.streams, self.mcs) {
            return Err(format!("`streams` = {streams} without `mcs`: give both, or `rate`"));
        }
        Ok(())
    }

    /// Where in `modes` the chosen one is.
    fn position(&self, modes: &[Mode]) -> Option<usize> {
        // On the PHY's full width; the shortest guard interval it is set to makes the fastest.
        let widest = modes.iter().map(|m| m.width()).max();
        let fastest_of = |is_wanted: &dyn Fn(Mode) -> bool| {
            let wanted = (0..modes.len()).filter(|&i| Some(modes[i].width()) == widest && is_wanted(modes[i]));
            wanted.max_by_key(|&i| (modes[i].rate(), std::cmp::Reverse(i)))
        };
        match (self.mcs, self.rate) {
            (None, None) => Some(fastest(modes)),
            (_, Some(rate)) => {
                (0..modes.len()).filter(|&i| modes[i].rate() == rate).min_by_key(|&i| modes[i].streams())
            }
            (Some(mcs), None) => fastest_of(&|mode| match (mode.mcs(), self.streams) {
                (None, _) => false,
                (Some(m), None) => m == mcs,
                (Some(m), Some(streams)) => {
                    // HT numbers run on over the streams, eight to each; VHT numbers start again.
                    mode.streams() == streams && (m == mcs || (mcs < 8 && mode.format() == Format::Ht && m % 8 == mcs))
                }
            }),
        }
    }

    /// The control of one link, at the beginning.
    pub fn build(&self, ctx: &RateContext) -> Fixed {
        let mode = ctx.modes[self.position(&ctx.modes).unwrap_or_else(|| fastest(&ctx.modes))];
        Fixed { series: RateSeries::of(Stage { mode, tries: self.tries, rts: self.rts }) }
    }
}
checked!(FixedConfig);

impl RateRules for FixedConfig {
    /// WaveLAN has it, too.
    fn is_for(&self, _: &PhyConfig) -> bool {
        true
    }
    /// The PHY must have the mode.
    fn check_with(&self, phy: &PhyConfig) -> Result<(), String> {
        self.check()?;
        let modes = phy.modes();
        if self.position(&modes).is_some() {
            return Ok(());
        }
        let asked = match (self.mcs, self.streams, self.rate) {
            (_, _, Some(rate)) => format!("`rate` = {rate}"),
            (Some(mcs), Some(streams), _) => format!("`mcs` = {mcs} with `streams` = {streams}"),
            (mcs, ..) => format!("`mcs` = {}", mcs.unwrap_or_default()),
        };
        Err(format!(
            "{asked}: not a mode of this {} PHY, which has {}",
            full_name(phy.standard),
            inventory(&modes, self.rate.is_some(), phy.standard)
        ))
    }
}

/// Modes to choose from, written with the key that was used: rates, or MCS.
fn inventory(modes: &[Mode], by_rate: bool, standard: Standard) -> String {
    let mut words: Vec<String> = Vec::new();
    let widest = modes.iter().map(|m| m.width()).max();
    for mode in modes.iter().filter(|m| by_rate || Some(m.width()) == widest) {
        let word = match mode.mcs() {
            Some(mcs) if !by_rate => match standard {
                Standard::Ac => format!("{mcs} (streams = {})", mode.streams()),
                _ => mcs.to_string(),
            },
            _ => mode.rate().to_string(),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let key = if !by_rate && modes.iter().any(|m| m.mcs().is_some()) { "mcs" } else { "rate" };
    format!("`{key}` {}", words.join(", "))
}

/// The fixed rate of one link.
#[derive(Debug, Clone)]
pub struct Fixed {
    series: RateSeries,
}

impl RateControl for Fixed {
    #[inline]
    fn choose(&mut self, _now: Time, _is_retransmission: bool, _snr_db: Option<f32>) -> RateSeries {
        self.series
    }
    fn on_status(&mut self, _now: Time, _status: &TxStatus<'_>) {}
    fn best(&self) -> Mode {
        self.series.first().mode
    }
}
