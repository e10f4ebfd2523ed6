//! What decides whether frames between two devices arrive: nothing at all, a given error rate, or an SNR over time.
//!
//! A [`Signal`] stands for one pair of devices and serves both directions (a radio channel is reciprocal). Ask it for the
//! [`Quality`] at the start of each PPDU, then for the fate of the MPDUs in it.
//!
//! | `kind` | decides by |
//! |---|---|
//! | `perfect` | nothing is ever lost to noise; costs nothing |
//! | `error_rate` | a given MPDU error rate per mode, scaled to other lengths by the bit error rate it implies |
//! | `bit_errors` | a given bit error rate, constant or in bursts, whatever the mode |
//! | `snr` | a fixed mean SNR, with shadowing if wanted |
//! | `path_loss` | transmit power, antenna gains, log-distance path loss, noise figure, with shadowing if wanted |
//! | `trace` | SNR at given times |
//!
//! The SNR is that of the whole signal power over the noise in 20 MHz; what width and streams make of it is the affair of
//! [`super::errors`]. Path loss is `reference_loss_db + 10 exponent log10(d / 1 m)`, never less than at 1 m. The reference
//! loss is free space's at 1 m unless given (40.2 dB at 2437 MHz, 46.7 dB at 5180 MHz). Exponent 3 is an office (ITU-R
//! P.1238: distance power loss coefficient 30 and 31 at 2.4 and 5.2 GHz); noise is -174 dBm/Hz, 73 dB for 20 MHz, and the noise figure.
//!
//! Shadowing is a stationary Gauss-Markov (Ornstein-Uhlenbeck) process in dB: log-normal with `sigma_db`, correlation
//! `exp(-t / correlation)`, as Gudmundson found it over distance (Electronics Letters 27(23), 1991). It is advanced exactly,
//! by whatever time has passed, so that it does not matter how often it is looked at. Short correlation times may stand for
//! fading; the SNR holds for a whole PPDU.

use std::collections::BTreeMap;
use std::f64::consts::PI;
use std::fmt;

use rand_distr::{Distribution, StandardNormal};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::bit_errors::{BitErrors, BitErrorsConfig};
use super::errors::{ErrorModel, survival};
use super::mobility::Motion;
use super::mode::Mode;
use super::timing::{Band, PhyConfig};
use crate::policy::checked;
use crate::rng::Rng;
use crate::units::{DataRate, Probability, Span, Time};

/// What decides the SNR or the error rate between two devices: `"perfect"`, or a table with `kind`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SignalConfig {
    /// Nothing is lost to noise.
    #[default]
    Perfect,
    ErrorRate(ErrorRateConfig),
    BitErrors(BitErrorsConfig),
    Snr(SnrConfig),
    PathLoss(PathLossConfig),
    Trace(TraceConfig),
}

/// MPDU error rates. At least one of `rate` and `rates`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "ErrorRateConfig")]
pub struct ErrorRateConfig {
    /// MPDU error rate of every mode that `rates` does not name. Left out: those have no errors.
    pub rate: Option<Probability>,
    /// MPDU error rates by mode: a table whose keys are names of modes or their beginnings (`"MCS 7"`, `"MCS 7 40 MHz"`,
    /// `"MCS 7 40 MHz SGI"`, with ac `"MCS 7 2SS"`, else `"54Mbit/s"`; the longest that fits counts), or a list in the order of the PHY's modes.
    pub rates: Option<RateTable>,
    /// Length of the MPDUs that have these error rates. Other lengths follow from the bit error rate this implies.
    #[schemars(range(min = 1))]
    pub bytes: u32,
}

/// Error rates by (the beginning of) a mode's name, or in the order of the PHY's modes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RateTable {
    ByName(BTreeMap<String, Probability>),
    ByIndex(Vec<Probability>),
}

impl<'de> Deserialize<'de> for RateTable {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> de::Visitor<'de> for V {
            type Value = RateTable;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a table such as { \"MCS 7\" = 0.1 }, or a list of error rates in 0..=1")
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
            return Err("`kind` = \"error_rate\" needs `rate` = 0..=1 or `rates` = { \"MCS 7\" = 0..=1, ... }".into());
        }
        if self.bytes == 0 {
            return Err("`bytes` = 0: must be at least 1".into());
        }
        Ok(())
    }

    /// Whether `rates` speaks of modes that the PHY has.
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
        let per_bit = |p: Probability| (-(-p.get()).ln_1p() / (8.0 * f64::from(self.bytes))).min(f64::MAX);
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
}
checked!(ErrorRateConfig);

/// All that a station of this PHY ever sends.
fn known_modes(phy: &PhyConfig) -> Vec<Mode> {
    let mut modes = phy.modes();
    modes.extend(phy.legacy_modes().into_iter().filter(|m| !phy.modes().contains(m)));
    modes
}

/// Whether `key` names the mode: as its name or the beginning of it up to a space, or as its rate unless HT or VHT.
fn is_named(mode: Mode, key: &str) -> bool {
    let name = mode.name().to_string();
    let begins = name.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    if mode.is_ht_or_later() { begins && !key.is_empty() } else { key.parse::<DataRate>() == Ok(mode.rate()) }
}

/// Slow variation of the SNR around its mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "ShadowingConfig")]
pub struct ShadowingConfig {
    /// Standard deviation in dB. 0 to 40.
    #[schemars(range(min = 0, max = 40))]
    pub sigma_db: f64,
    /// Time after which the correlation has fallen to 1/e. Above zero.
    pub correlation: Span,
}

impl Default for ShadowingConfig {
    /// 4 dB: indoor office at 5 GHz (TGn channel model D before the breakpoint: 3 dB, beyond: 5 dB). One second: somebody
    /// walks by.
    fn default() -> Self {
        ShadowingConfig { sigma_db: 4.0, correlation: Span::from_secs(1) }
    }
}

impl ShadowingConfig {
    fn check(&self) -> Result<(), String> {
        in_range("sigma_db", self.sigma_db, 0.0, 40.0, "dB")?;
        if self.correlation.is_zero() {
            return Err("`correlation` = 0ns: must be above zero, such as \"1s\"".into());
        }
        Ok(())
    }
}
checked!(ShadowingConfig);

/// A given mean SNR.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(rename = "SnrConfig")]
pub struct SnrConfig {
    /// Mean SNR in 20 MHz. -50 to 150.
    #[schemars(range(min = -50, max = 150))]
    pub snr_db: f64,
    #[serde(default)]
    pub shadowing: Option<ShadowingConfig>,
}

impl SnrConfig {
    fn check(&self) -> Result<(), String> {
        in_range("snr_db", self.snr_db, SNR_DB.0, SNR_DB.1, "dB")
    }
}
checked!(SnrConfig);

/// Link budget with log-distance path loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "PathLossConfig")]
pub struct PathLossConfig {
    /// Transmit power, the same in both directions. -50 to 60 dBm; 15 dBm is a laptop's or a telephone's.
    pub tx_power_dbm: f64,
    /// Sum of both antennas' gains. -60 to 60 dB.
    pub antenna_gain_db: f64,
    /// Path loss exponent: 2 in free space, about 3 in offices. 0 to 10.
    #[schemars(range(min = 0, max = 10))]
    pub exponent: f64,
    /// Path loss at 1 m, 0 to 200 dB. Left out: free space at `frequency_mhz`.
    pub reference_loss_db: Option<f64>,
    /// Carrier frequency, 100 to 100 000 MHz. Left out: 2437 or 5180, by the band.
    pub frequency_mhz: Option<f64>,
    /// Noise figure of the receivers. 0 to 40 dB.
    pub noise_figure_db: f64,
    /// Distance between the devices, above 0 and at most 1 000 000 m; may be left out where devices have positions.
    pub distance_m: Option<f64>,
    pub shadowing: Option<ShadowingConfig>,
}

impl Default for PathLossConfig {
    fn default() -> Self {
        PathLossConfig {
            tx_power_dbm: 15.0,
            antenna_gain_db: 0.0,
            exponent: 3.0,
            reference_loss_db: None,
            frequency_mhz: None,
            noise_figure_db: 7.0,
            distance_m: None,
            shadowing: None,
        }
    }
}

impl PathLossConfig {
    fn check(&self) -> Result<(), String> {
        in_range("tx_power_dbm", self.tx_power_dbm, -50.0, 60.0, "dBm")?;
        in_range("antenna_gain_db", self.antenna_gain_db, -60.0, 60.0, "dB")?;
        in_range("exponent", self.exponent, 0.0, 10.0, "")?;
        in_range("noise_figure_db", self.noise_figure_db, 0.0, 40.0, "dB")?;
        if let Some(loss) = self.reference_loss_db {
            in_range("reference_loss_db", loss, 0.0, 200.0, "dB")?;
        }
        if let Some(mhz) = self.frequency_mhz {
            in_range("frequency_mhz", mhz, 100.0, 100_000.0, "MHz")?;
        }
        match self.distance_m {
            Some(d) if !(d > 0.0 && d <= 1e6) => Err(format!("`distance_m` = {d}: must be above 0, at most 1000000 m")),
            _ => Ok(()),
        }
    }

    /// Mean power at a receiver, both antennas' gains included; nearer than 1 m it is that of 1 m.
    pub fn received_dbm(&self, distance_m: f64, band: Band) -> f64 {
        let mhz = self.frequency_mhz.unwrap_or(if band == Band::Ghz2 { 2437.0 } else { 5180.0 });
        let free_space = || 20.0 * (4.0 * PI * mhz * 1e6 / 299_792_458.0).log10();
        let loss =
            self.reference_loss_db.unwrap_or_else(free_space) + 10.0 * self.exponent * distance_m.max(1.0).log10();
        self.tx_power_dbm + self.antenna_gain_db - loss
    }

    /// Mean SNR in 20 MHz at a distance; nearer than 1 m it is that of 1 m.
    pub fn snr_db(&self, distance_m: f64, band: Band) -> f64 {
        self.received_dbm(distance_m, band) - noise_dbm(self.noise_figure_db)
    }
}
checked!(PathLossConfig);

/// Thermal noise at 290 K in 20 MHz, and the receiver's own.
fn noise_dbm(noise_figure_db: f64) -> f64 {
    -174.0 + 10.0 * 20e6f64.log10() + noise_figure_db
}

/// SNR between the points of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// A value holds until the next point.
    Step,
    /// Straight lines in dB.
    #[default]
    Linear,
}

/// SNR at given times. Before the first point its value holds, after the last that one's, unless repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(rename = "TraceConfig")]
pub struct TraceConfig {
    /// Pairs of time in seconds and SNR in dB (in 20 MHz), times ascending.
    #[schemars(length(min = 1))]
    pub points: Vec<[f64; 2]>,
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Begin again with the first point at the time of the last, whose value then counts for nothing but the line to it.
    #[serde(default)]
    pub repeat: bool,
}

impl TraceConfig {
    fn check(&self) -> Result<(), String> {
        if self.points.is_empty() {
            return Err("`points` = []: needs at least one [seconds, dB]".into());
        }
        for (i, &[t, snr]) in self.points.iter().enumerate() {
            if !(0.0..=1e9).contains(&t) {
                return Err(format!("`points[{i}]` has time {t}: must be seconds in 0..=1000000000"));
            }
            if !(SNR_DB.0..=SNR_DB.1).contains(&snr) {
                return Err(format!("`points[{i}]` has SNR {snr}: must be dB in {}..={}", SNR_DB.0, SNR_DB.1));
            }
        }
        let ns = self.points_ns();
        if let Some(i) = ns.windows(2).position(|w| w[0].0 >= w[1].0) {
            let (t, before) = (self.points[i + 1][0], self.points[i][0]);
            return Err(format!(
                "`points[{}]` has time {t}: must be later than that of the point before ({before})",
                i + 1
            ));
        }
        if self.repeat && self.points.len() < 2 {
            return Err("`repeat` = true: needs at least two `points`, whose times say the period".into());
        }
        Ok(())
    }

    fn points_ns(&self) -> Vec<(u64, f64)> {
        self.points.iter().map(|&[t, snr]| (Span::from_secs_f64(t).as_ns(), snr)).collect()
    }
}
checked!(TraceConfig);

const SNR_DB: (f64, f64) = (-50.0, 150.0);

fn in_range(key: &str, value: f64, min: f64, max: f64, unit: &str) -> Result<(), String> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let unit = if unit.is_empty() { String::new() } else { format!(" of {unit}") };
    Err(format!("`{key}` = {value}: must be a number{unit} in {min}..={max}"))
}

impl SignalConfig {
    pub const KINDS: &'static [&'static str] = &["perfect", "error_rate", "bit_errors", "snr", "path_loss", "trace"];

    /// Whether it goes together with the PHY. (Each part has checked its own values when it was read.)
    pub fn check(&self, phy: &PhyConfig) -> Result<(), String> {
        match self {
            SignalConfig::ErrorRate(c) => c.check().and_then(|()| c.check_modes(phy)),
            _ => Ok(()),
        }
    }

    /// Whether the caller must give a distance by [`Signal::set_distance_m`].
    pub fn needs_distance(&self) -> bool {
        matches!(self, SignalConfig::PathLoss(PathLossConfig { distance_m: None, .. }))
    }
}

impl<'de> Deserialize<'de> for SignalConfig {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
        enum Tagged {
            Perfect {},
            ErrorRate(ErrorRateConfig),
            BitErrors(BitErrorsConfig),
            Snr(SnrConfig),
            PathLoss(PathLossConfig),
            Trace(TraceConfig),
        }
        struct V;
        impl<'de> de::Visitor<'de> for V {
            type Value = SignalConfig;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                let kinds = SignalConfig::KINDS[1..].join(", ");
                write!(f, "a signal: \"perfect\", or a table with `kind` (one of {kinds}) and its parameters")
            }
            fn visit_str<E: de::Error>(self, kind: &str) -> Result<SignalConfig, E> {
                match kind {
                    "perfect" => Ok(SignalConfig::Perfect),
                    kind if SignalConfig::KINDS.contains(&kind) => Err(E::custom(format!(
                        "signal `{kind}` has parameters: write a table with `kind` = \"{kind}\" and them"
                    ))),
                    _ => Err(E::unknown_variant(kind, SignalConfig::KINDS)),
                }
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<SignalConfig, A::Error> {
                Ok(match Tagged::deserialize(de::value::MapAccessDeserializer::new(map))? {
                    Tagged::Perfect {} => SignalConfig::Perfect,
                    Tagged::ErrorRate(c) => SignalConfig::ErrorRate(c),
                    Tagged::BitErrors(c) => SignalConfig::BitErrors(c),
                    Tagged::Snr(c) => SignalConfig::Snr(c),
                    Tagged::PathLoss(c) => SignalConfig::PathLoss(c),
                    Tagged::Trace(c) => SignalConfig::Trace(c),
                })
            }
        }
        d.deserialize_any(V)
    }
}

impl JsonSchema for SignalConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SignalConfig".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        #[derive(JsonSchema)]
        #[schemars(tag = "kind", rename_all = "snake_case")]
        #[allow(dead_code)]
        enum Tagged {
            Perfect {},
            ErrorRate(ErrorRateConfig),
            BitErrors(BitErrorsConfig),
            Snr(SnrConfig),
            PathLoss(PathLossConfig),
            Trace(TraceConfig),
        }
        let tables = Tagged::json_schema(generator);
        schemars::json_schema!({ "anyOf": [{ "type": "string", "const": "perfect" }, tables] })
    }
}

/// How good the link is at an instant, as far as it does not depend on the mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quality {
    Perfect,
    /// By the mode's given error rate, whenever.
    ErrorRate,
    /// Error events per bit, in whatever mode.
    BitErrors(f32),
    /// SNR in 20 MHz.
    SnrDb(f32),
}

impl Quality {
    #[inline]
    pub fn is_perfect(self) -> bool {
        matches!(self, Quality::Perfect)
    }
    pub fn snr_db(self) -> Option<f32> {
        match self {
            Quality::SnrDb(snr) => Some(snr),
            Quality::Perfect | Quality::ErrorRate | Quality::BitErrors(_) => None,
        }
    }
}

/// An Ornstein-Uhlenbeck process with mean zero.
#[derive(Debug, Clone)]
struct Shadowing {
    sigma_db: f64,
    correlation_s: f64,
    value_db: f64,
    at: Time,
    rng: Rng,
}

impl Shadowing {
    fn new(config: &ShadowingConfig, mut rng: Rng) -> Shadowing {
        let start: f64 = StandardNormal.sample(&mut rng);
        Shadowing {
            sigma_db: config.sigma_db,
            correlation_s: config.correlation.as_secs_f64(),
            value_db: config.sigma_db * start,
            at: Time::ZERO,
            rng,
        }
    }

    /// The value at `now`; at an earlier time than the last asked for, the last value.
    #[inline]
    fn at(&mut self, now: Time) -> f64 {
        let elapsed = now.since(self.at);
        if !elapsed.is_zero() {
            self.at = now;
            let exponent = -elapsed.as_secs_f64() / self.correlation_s;
            let noise: f64 = StandardNormal.sample(&mut self.rng);
            // exp_m1 keeps its digits when little time has passed.
            let variance = -(2.0 * exponent).exp_m1();
            self.value_db = self.value_db * exponent.exp() + self.sigma_db * variance.sqrt() * noise;
        }
        self.value_db
    }
}

#[derive(Debug, Clone)]
struct Trace {
    points: Vec<(u64, f64)>,
    interpolation: Interpolation,
    repeat: bool,
}

impl Trace {
    fn at(&self, now: Time) -> f64 {
        let (Some(&(first, first_db)), Some(&(last, last_db))) = (self.points.first(), self.points.last()) else {
            return 0.0;
        };
        let mut t = now.as_ns();
        if self.repeat && t > first {
            t = first + (t - first) % (last - first);
        }
        let after = self.points.partition_point(|p| p.0 <= t);
        if after == 0 {
            return first_db;
        }
        let (from, from_db) = self.points[after - 1];
        match (self.points.get(after), self.interpolation) {
            (None, _) => last_db,
            (Some(_), Interpolation::Step) => from_db,
            (Some(&(to, to_db)), Interpolation::Linear) => {
                from_db + (to_db - from_db) * ((t - from) as f64 / (to - from) as f64)
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Source {
    Perfect,
    /// Error events per bit, by mode.
    ErrorRate(Box<[f64]>),
    BitErrors(BitErrors),
    Snr(f64),
    Trace(Trace),
    /// Path loss over a distance that changes.
    Moving(Box<Motion>),
}

/// The link between two devices, for both directions.
#[derive(Debug, Clone)]
pub struct Signal {
    source: Source,
    shadowing: Option<Shadowing>,
    path_loss: Option<Box<(PathLossConfig, Band)>>,
    errors: ErrorModel,
}

impl Signal {
    /// `config` has been checked against `phy`. Draws from `rng` only if there is shadowing, or bursts. A path loss without
    /// `distance_m` is that of 1 m until [`Signal::set_distance_m`].
    pub fn new(config: &SignalConfig, phy: &PhyConfig, errors: &ErrorModel, rng: Rng) -> Signal {
        let (source, shadowing) = match config {
            SignalConfig::Perfect => (Source::Perfect, &None),
            SignalConfig::ErrorRate(c) => (Source::ErrorRate(c.event_rates(phy)), &None),
            SignalConfig::BitErrors(c) => (Source::BitErrors(BitErrors::new(c, rng.clone())), &None),
            SignalConfig::Snr(c) => (Source::Snr(c.snr_db), &c.shadowing),
            SignalConfig::PathLoss(c) => (Source::Snr(c.snr_db(c.distance_m.unwrap_or(1.0), phy.band())), &c.shadowing),
            SignalConfig::Trace(c) => (
                Source::Trace(Trace { points: c.points_ns(), interpolation: c.interpolation, repeat: c.repeat }),
                &None,
            ),
        };
        let path_loss = match config {
            SignalConfig::PathLoss(c) => Some(Box::new((c.clone(), phy.band()))),
            _ => None,
        };
        let shadowing = shadowing.as_ref().map(|c| Shadowing::new(c, rng));
        Signal { source, shadowing, path_loss, errors: errors.clone() }
    }

    /// Moves the devices: from now on the path loss is that of `distance_m`. Signals of another kind do not care.
    pub fn set_distance_m(&mut self, distance_m: f64) {
        if let Some(path_loss) = &self.path_loss {
            self.source = Source::Snr(path_loss.0.snr_db(distance_m, path_loss.1));
        }
    }

    /// One of the devices moves: the path loss is that of the distance at each look. Signals of another kind do not care.
    pub fn follow(&mut self, motion: Motion) {
        if self.path_loss.is_some() {
            self.source = Source::Moving(Box::new(motion));
        }
    }

    /// Received power at `now`, shadowing included; `None` where the signal has no SNR. A given SNR is taken to be above the noise of
    /// [`PathLossConfig::default`]: thermal noise in 20 MHz and a noise figure of 7 dB, -94 dBm.
    pub fn received_dbm(&mut self, now: Time) -> Option<f64> {
        let snr = f64::from(self.link(now).snr_db()?);
        let figure = self.path_loss.as_ref().map_or(PathLossConfig::default().noise_figure_db, |p| p.0.noise_figure_db);
        Some(snr + noise_dbm(figure))
    }

    /// The quality at `now`. Times are best asked for in order: an earlier one than the last finds the shadowing unchanged.
    #[inline]
    pub fn link(&mut self, now: Time) -> Quality {
        let mean = match &mut self.source {
            Source::Perfect => return Quality::Perfect,
            Source::ErrorRate(_) => return Quality::ErrorRate,
            Source::BitErrors(bits) => return Quality::BitErrors(bits.at(now)),
            Source::Snr(snr) => *snr,
            Source::Trace(trace) => trace.at(now),
            Source::Moving(motion) => match &self.path_loss {
                Some(path_loss) => path_loss.0.snr_db(motion.distance_m(now), path_loss.1),
                None => return Quality::Perfect,
            },
        };
        let shadowing = self.shadowing.as_mut().map_or(0.0, |s| s.at(now));
        Quality::SnrDb((mean + shadowing) as f32)
    }

    /// Error events per bit: what all success probabilities come from.
    #[inline]
    fn event_rate(&self, quality: Quality, mode: Mode) -> f64 {
        match (quality, &self.source) {
            (Quality::SnrDb(snr), _) => self.errors.event_rate(mode, snr),
            (Quality::ErrorRate, Source::ErrorRate(rates)) => rates[mode.index()],
            (Quality::BitErrors(rate), _) => f64::from(rate),
            (Quality::Perfect | Quality::ErrorRate, _) => 0.0,
        }
    }

    /// Probability that an MPDU of `bytes` arrives intact, given that the preamble was received.
    #[inline]
    pub fn mpdu_success(&self, quality: Quality, mode: Mode, bytes: u32) -> f64 {
        if quality == Quality::Perfect { 1.0 } else { survival(self.event_rate(quality, mode), bytes) }
    }

    /// Probability that the first `header_bytes` of an MPDU arrive intact.
    #[inline]
    pub fn header_success(&self, quality: Quality, mode: Mode, header_bytes: u32) -> f64 {
        self.mpdu_success(quality, mode, header_bytes)
    }

    /// Probability that the header of an MPDU is intact given that the MPDU of `bytes` is not: its sequence number can then
    /// be read.
    #[inline]
    pub fn legibility(&self, quality: Quality, mode: Mode, header_bytes: u32, bytes: u32) -> f64 {
        if quality == Quality::Perfect {
            return 1.0;
        }
        let rate = 8.0 * self.event_rate(quality, mode);
        let (header, whole) = (f64::from(header_bytes.min(bytes)), f64::from(bytes));
        // (P(header) - P(whole)) / (1 - P(whole)), to full precision for rare errors; their limit when there are none.
        if rate * whole < 1e-12 {
            return if whole > 0.0 { 1.0 - header / whole } else { 1.0 };
        }
        (-rate * header).exp() * (-rate * (whole - header)).exp_m1() / (-rate * whole).exp_m1()
    }

    /// Probability that the PPDU's preamble and PHY headers are understood; 1 where an error rate is given, which speaks of MPDUs.
    #[inline]
    pub fn preamble_success(&self, quality: Quality, mode: Mode) -> f64 {
        match quality {
            Quality::SnrDb(snr) => self.errors.preamble_success(mode, snr),
            Quality::Perfect | Quality::ErrorRate | Quality::BitErrors(_) => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::rng::Rng;
    use crate::wifi::phy::{Standard, Width};

    fn rng(seed: u64) -> Rng {
        Rng::seed_from_u64(seed)
    }
    fn ms(ms: u64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Scenario {
        signal: SignalConfig,
    }
    fn read(toml: &str) -> Result<SignalConfig, String> {
        toml::from_str::<Scenario>(toml).map(|s| s.signal).map_err(|e| e.message().to_owned())
    }
    fn signal(toml: &str, phy: &PhyConfig) -> Signal {
        let config = read(toml).unwrap();
        config.check(phy).unwrap();
        Signal::new(&config, phy, &ErrorModel::default(), rng(1))
    }
    fn snr(quality: Quality) -> f64 {
        f64::from(quality.snr_db().unwrap())
    }
    fn ht(mcs: u8) -> Mode {
        Mode::ht(mcs, Width::Mhz20, false).unwrap()
    }

    #[test]
    fn perfect_loses_nothing() {
        let mut s = signal("signal = \"perfect\"", &PhyConfig::default());
        let quality = s.link(ms(5));
        assert_eq!(quality, Quality::Perfect);
        for found in [
            s.mpdu_success(quality, ht(7), u32::MAX),
            s.header_success(quality, ht(7), 26),
            s.preamble_success(quality, ht(7)),
            s.legibility(quality, ht(7), 26, 1500),
        ] {
            assert_eq!(found, 1.0);
        }
    }

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
            assert!(!s.legibility(quality, ht(7), 26, 1500).is_nan());
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
            let error = config.check(&phy).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn legibility_is_the_conditional_probability() {
        let mut s = signal("signal = { kind = \"snr\", snr_db = 18.9 }", &PhyConfig::default());
        let quality = s.link(ms(0));
        let (header, whole) = (s.header_success(quality, ht(7), 36), s.mpdu_success(quality, ht(7), 1538));
        assert!((0.1..0.9).contains(&whole), "{whole}");
        let expected = (header - whole) / (1.0 - whole);
        assert!((s.legibility(quality, ht(7), 36, 1538) - expected).abs() < 1e-12);
        // Rare errors fall on the header in proportion to its length.
        for snr_db in [30.0, 60.0] {
            let found = s.legibility(Quality::SnrDb(snr_db), ht(7), 36, 1538);
            assert!((found - (1.0 - 36.0 / 1538.0)).abs() < 1e-6, "{found}");
        }
        // When all is lost, so are headers.
        assert!(s.legibility(Quality::SnrDb(5.0), ht(7), 36, 1538) < 1e-3);
    }

    #[test]
    fn path_loss_by_hand() {
        // 15 dBm - 46.73 dB - 30 log10 d + 174 - 73.01 - 7 dBm; at 2437 MHz the first metre costs 40.18 dB.
        for (toml, standard, distance, expected) in [
            ("", Standard::N, 1.0, 62.25),
            ("", Standard::N, 0.01, 62.25),
            ("", Standard::N, 10.0, 32.25),
            ("", Standard::N, 100.0, 2.25),
            ("", Standard::G, 10.0, 38.80),
            ("exponent = 2.0\ntx_power_dbm = 20", Standard::N, 10.0, 47.25),
            ("reference_loss_db = 40.0\nnoise_figure_db = 0\nantenna_gain_db = 3.0", Standard::N, 10.0, 48.99),
            ("frequency_mhz = 2437", Standard::N, 10.0, 38.80),
        ] {
            let phy = PhyConfig::of(standard);
            let mut s = signal(&format!("[signal]\nkind = \"path_loss\"\n{toml}"), &phy);
            s.set_distance_m(distance);
            assert!((snr(s.link(ms(1))) - expected).abs() < 0.02, "{toml} at {distance}: {:?}", s.link(ms(1)));
            let mut s = signal(&format!("[signal]\nkind = \"path_loss\"\ndistance_m = {distance}\n{toml}"), &phy);
            assert!((snr(s.link(ms(1))) - expected).abs() < 0.02);
        }
        assert!(read("signal = { kind = \"path_loss\" }").unwrap().needs_distance());
        assert!(!read("signal = { kind = \"path_loss\", distance_m = 3 }").unwrap().needs_distance());
    }

    #[test]
    fn traces() {
        let points = "points = [[1.0, 10.0], [2.0, 20.0], [4.0, 0.0]]";
        // Value in dB at these times in ms.
        let times = [0, 1_000, 1_500, 2_000, 3_000, 4_000, 4_500, 10_000];
        for (more, expected) in [
            ("", [10.0, 10.0, 15.0, 20.0, 10.0, 0.0, 0.0, 0.0]),
            ("interpolation = \"step\"", [10.0, 10.0, 10.0, 20.0, 20.0, 0.0, 0.0, 0.0]),
            ("repeat = true", [10.0, 10.0, 15.0, 20.0, 10.0, 10.0, 15.0, 10.0]),
            ("repeat = true\ninterpolation = \"step\"", [10.0, 10.0, 10.0, 20.0, 20.0, 10.0, 10.0, 10.0]),
        ] {
            let mut s = signal(&format!("[signal]\nkind = \"trace\"\n{points}\n{more}"), &PhyConfig::default());
            assert_eq!(times.map(|t| snr(s.link(ms(t)))), expected, "{more}");
        }
    }

    #[test]
    fn bad_signals_are_refused() {
        for (toml, message) in [
            ("signal = \"snr\"", "signal `snr` has parameters: write a table with `kind` = \"snr\" and them"),
            ("signal = { kind = \"error_rate\" }", "`kind` = \"error_rate\" needs `rate` = 0..=1 or `rates` ="),
            ("signal = { kind = \"error_rate\", rate = 0.1, bytes = 0 }", "`bytes` = 0: must be at least 1"),
            ("signal = { kind = \"snr\", snr_db = nan }", "`snr_db` = NaN: must be a number of dB in -50..=150"),
            ("signal = { kind = \"path_loss\", exponent = -1 }", "`exponent` = -1: must be a number in 0..=10"),
            ("signal = { kind = \"path_loss\", distance_m = 0 }", "`distance_m` = 0: must be above 0"),
            ("signal = { kind = \"path_loss\", distance_m = inf }", "`distance_m` = inf: must be above 0"),
            (
                "signal = { kind = \"path_loss\", tx_power_dbm = 100 }",
                "`tx_power_dbm` = 100: must be a number of dBm in",
            ),
            (
                "signal = { kind = \"path_loss\", frequency_mhz = 2.4 }",
                "`frequency_mhz` = 2.4: must be a number of MHz",
            ),
            (
                "signal = { kind = \"snr\", snr_db = 20, shadowing = { correlation = \"0s\" } }",
                "`correlation` = 0ns: must be above zero",
            ),
            (
                "signal = { kind = \"snr\", snr_db = 20, shadowing = { sigma_db = -1 } }",
                "`sigma_db` = -1: must be a number of dB in 0..=40",
            ),
            ("signal = { kind = \"trace\", points = [] }", "`points` = []: needs at least one [seconds, dB]"),
            (
                "signal = { kind = \"trace\", points = [[0, 1], [2, 1], [2, 3]] }",
                "`points[2]` has time 2: must be later than that of the point before (2)",
            ),
            ("signal = { kind = \"trace\", points = [[-1, 1]] }", "`points[0]` has time -1: must be seconds in"),
            ("signal = { kind = \"trace\", points = [[0, nan]] }", "`points[0]` has SNR NaN: must be dB in -50..=150"),
            (
                "signal = { kind = \"trace\", points = [[0, 1]], repeat = true }",
                "`repeat` = true: needs at least two `points`",
            ),
        ] {
            let error = read(toml).unwrap_err();
            assert!(error.starts_with(message), "{toml}: {error}");
        }
        for (toml, part) in [
            ("signal = \"prefect\"", "unknown variant `prefect`, expected one of `perfect`, `error_rate`"),
            ("signal = { kind = \"fading\" }", "unknown variant `fading`"),
            ("signal = { snr_db = 3 }", "missing field `kind`"),
            ("signal = { kind = \"snr\" }", "missing field `snr_db`"),
            ("signal = { kind = \"snr\", snr_db = 3, noise = 1 }", "unknown field `noise`"),
            ("signal = { kind = \"perfect\", rate = 1 }", "unknown field `rate`"),
            ("signal = { kind = \"error_rate\", rate = 2 }", "a number in 0..=1"),
            ("signal = { kind = \"error_rate\", rates = { \"MCS 7\" = 2 } }", "a number in 0..=1"),
            ("signal = { kind = \"error_rate\", rates = 0.1 }", "a table such as"),
            ("signal = { kind = \"trace\", points = [[0, 1, 2]] }", "invalid length"),
            ("signal = 7", "\"perfect\", or a table with `kind`"),
        ] {
            let error = read(toml).unwrap_err();
            assert!(error.contains(part), "{toml}: {error}");
        }
    }

    #[test]
    fn configurations_survive_being_written() {
        for toml in [
            "signal = \"perfect\"",
            "signal = { kind = \"perfect\" }",
            "signal = { kind = \"error_rate\", rates = { \"MCS 7\" = 0.1 } }",
            "signal = { kind = \"error_rate\", rates = [0.1, 0.2] }",
            "signal = { kind = \"snr\", snr_db = 20.5, shadowing = { sigma_db = 3, correlation = \"20ms\" } }",
            "signal = { kind = \"path_loss\", distance_m = 12 }",
            "signal = { kind = \"trace\", points = [[0, 1], [1, 2]], repeat = true, interpolation = \"step\" }",
        ] {
            let signal = read(toml).unwrap();
            let written = toml::to_string(&Scenario { signal: signal.clone() }).unwrap();
            assert_eq!(read(&written), Ok(signal), "{written}");
        }
        let schema = serde_json::to_string(&schemars::schema_for!(SignalConfig)).unwrap();
        for kind in SignalConfig::KINDS {
            assert!(schema.contains(kind), "{kind}");
        }
    }

    /// Mean, variance and correlation of successive values of shadowing of 4 dB and 100 ms, seen every `step_ms`, with as
    /// many looks between as `looks` says.
    fn statistics(step_ms: u64, looks: u64, count: u64) -> (f64, f64, f64) {
        let config = ShadowingConfig { sigma_db: 4.0, correlation: Span::from_ms(100) };
        let mut shadowing = Shadowing::new(&config, rng(3));
        let mut when = rng(4);
        let values: Vec<f64> = (1..=count)
            .map(|i| {
                let mut offsets: Vec<u64> = (0..looks).map(|_| when.random_range(0..step_ms * 1_000_000)).collect();
                offsets.sort_unstable();
                for offset in offsets {
                    shadowing.at(Time::from_ns((i - 1) * step_ms * 1_000_000 + offset));
                }
                shadowing.at(ms(i * step_ms))
            })
            .collect();
        let n = count as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        let covariance = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / (n - 1.0);
        (mean, variance, covariance / variance)
    }

    #[test]
    fn shadowing_has_its_variance_and_correlation_however_often_it_is_seen() {
        // Steps, correlation exp(-step / 100 ms). With r = 0.61 and 100 000 values the standard errors are 0.026 dB, 0.7 %
        // and 0.0025; with r = 0.9, 0.055 dB, 1.4 % and 0.0014. Four of them are allowed.
        for (step, looks, correlation, errors) in [
            (50, 0, 0.60653, (0.026, 0.007, 0.0025)),
            (50, 5, 0.60653, (0.026, 0.007, 0.0025)),
            (10, 0, 0.90484, (0.057, 0.014, 0.0014)),
            (10, 3, 0.90484, (0.057, 0.014, 0.0014)),
            (500, 0, 0.00674, (0.013, 0.0045, 0.0032)),
        ] {
            let (mean, variance, found) = statistics(step, looks, 100_000);
            assert!(mean.abs() < 4.0 * errors.0, "step {step}, {looks} looks: mean {mean}");
            assert!((variance / 16.0 - 1.0).abs() < 4.0 * errors.1, "step {step}, {looks} looks: variance {variance}");
            assert!((found - correlation).abs() < 4.0 * errors.2, "step {step}, {looks} looks: correlation {found}");
        }
    }

    #[test]
    fn shadowing_starts_as_spread_as_it_goes_on() {
        let config = ShadowingConfig { sigma_db: 4.0, correlation: Span::from_secs(3600) };
        let starts: Vec<f64> = (0..20_000).map(|seed| Shadowing::new(&config, rng(seed)).at(ms(0))).collect();
        let variance = starts.iter().map(|v| v * v).sum::<f64>() / starts.len() as f64;
        // One standard error is 1 %.
        assert!((variance / 16.0 - 1.0).abs() < 0.04, "{variance}");
    }

    proptest! {
        #[test]
        fn the_same_seed_gives_the_same_signal(seed in any::<u64>(), steps in proptest::collection::vec(0u64..1_000_000_000, 1..50)) {
            let config = read("signal = { kind = \"snr\", snr_db = 20, shadowing = { correlation = \"1ms\" } }").unwrap();
            let make = || Signal::new(&config, &PhyConfig::default(), &ErrorModel::default(), rng(seed));
            let (mut one, mut other) = (make(), make());
            let mut now = Time::ZERO;
            for step in steps {
                now += Span::from_ns(step);
                let quality = one.link(now);
                prop_assert!(quality.snr_db().is_some_and(f32::is_finite));
                prop_assert_eq!(quality, other.link(now));
                // Looking again changes nothing, nor does looking back.
                prop_assert_eq!(quality, one.link(now));
                prop_assert_eq!(quality, one.link(now - Span::from_ns(1)));
            }
        }

        #[test]
        fn legibility_is_a_probability(snr in -60f32..60.0, header in 0u32..3000, bytes in 0u32..3000) {
            let s = signal("signal = { kind = \"snr\", snr_db = 20 }", &PhyConfig::default());
            let quality = Quality::SnrDb(snr);
            let found = s.legibility(quality, ht(7), header, bytes);
            prop_assert!((0.0..=1.0).contains(&found), "{}", found);
            let (h, m) = (s.header_success(quality, ht(7), header.min(bytes)), s.mpdu_success(quality, ht(7), bytes));
            prop_assert!((h - (m + (1.0 - m) * found)).abs() < 1e-9);
        }
    }
}
