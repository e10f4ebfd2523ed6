//! Signals between two devices, which decide if frames arrive: without loss, by a given error rate,
//! or by an SNR over time.
//!
//! A [`Signal`] stands for one pair of devices and serves both directions (a radio channel is
//! reciprocal). Ask it for the [`Quality`] at the start of each PPDU, then for the fate of the
//! MPDUs in it. Each kind of signal is a file here and a line of the registry.
//!
//! An SNR is the whole signal power over the noise in 20 MHz; [`super::errors`] accounts for width
//! and streams.

mod shadowing;

pub use bit_errors::BurstConfig;
pub use error_rate::RateTable;
pub use shadowing::ShadowingConfig;
pub use trace::Interpolation;

use std::ops::RangeInclusive;

use super::errors::{ErrorModel, survival};
use super::mobility::Motion;
use super::mode::Mode;
use super::timing::{Band, PhyConfig};
use crate::convert::single;
use crate::policy::policies;
use crate::rng::Stream;
use crate::units::Time;

/// Facts about its pair of devices that a signal may use.
#[derive(Debug, Clone)]
pub struct SignalContext {
    /// The PHY of the station, whose band and modes hold for both directions.
    pub phy: PhyConfig,
    /// A stream of this pair's own.
    pub stream: Stream,
}

/// Quality of the link between two devices, in both directions.
pub trait SignalSource {
    /// The quality at `now`. Callers should ask for times in order. At an earlier time than the
    /// last, the random parts keep their latest values.
    fn quality(&mut self, now: Time) -> Quality;

    /// Error events per bit in a mode, where the quality is [`Quality::ErrorRate`].
    fn event_rate(&self, _mode: Mode) -> f64 {
        0.0
    }

    /// Sets the distance of the devices from now on. Signals that do not follow from a distance
    /// ignore it.
    fn set_distance_m(&mut self, _distance_m: f64) {}

    /// Sets the distance to that of `motion` at each look. Signals that do not follow from a
    /// distance ignore it.
    fn follow(&mut self, _motion: Motion) {}

    /// Noise of a receiver in 20 MHz, dBm. Default: thermal noise and a noise figure of 7 dB, -94
    /// dBm.
    fn noise_dbm(&self) -> f64 {
        noise_dbm(7.0)
    }
}

/// Properties of a signal's parameters that are known before it is built.
pub trait SignalRules {
    /// Checks that the parameters go together with the PHY. The error names the key and what is
    /// accepted. (Values were checked when they were read.)
    fn check_phy(&self, _phy: &PhyConfig) -> Result<(), String> {
        Ok(())
    }

    /// True if its quality is an SNR. The receiver then has a power, which roaming by power needs.
    fn has_snr(&self) -> bool;

    /// Use of the distance between the devices. A signal that follows from the distance has a key
    /// `distance_m`, for which positions and walks of a scenario stand.
    fn distance(&self) -> Distance {
        Distance::Unused
    }

    /// Mean power at a receiver at a distance, dBm; `None` where it does not follow from the
    /// distance.
    fn mean_received_dbm(&self, _distance_m: f64, _band: Band) -> Option<f64> {
        None
    }
}

/// Use that a signal makes of the distance between the devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distance {
    /// The signal does not follow from the distance.
    Unused,
    /// The signal follows from the distance, which must be given elsewhere.
    Needed,
    /// The signal follows from the distance, which is this, m.
    Given(f64),
}

policies! {
    /// One of the registered signals.
    AnySignal: SignalSource,
    /// Model of the SNR or the error rate between two devices: a name, or a table with `kind`.
    SignalConfig("a signal", by "kind"): SignalRules, built with SignalContext {
        perfect => Perfect / PerfectConfig,
        error_rate => ErrorRate / ErrorRateConfig,
        bit_errors => BitErrors / BitErrorsConfig,
        snr => Snr / SnrConfig,
        path_loss => PathLoss / PathLossConfig,
        trace => Trace / TraceConfig,
    }
}

impl Default for SignalConfig {
    fn default() -> SignalConfig {
        SignalConfig::Perfect(PerfectConfig {})
    }
}

/// Accepted values of an SNR, dB.
const SNR_DB: RangeInclusive<f64> = -50.0..=150.0;

/// Thermal noise at 290 K in 20 MHz and that of the receiver, dBm.
fn noise_dbm(noise_figure_db: f64) -> f64 {
    -174.0 + 10.0 * libm::log10(20e6) + noise_figure_db
}

/// Quality of the link at an instant, without effects of the mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quality {
    /// Nothing is lost.
    Perfect,
    /// The mode's given error rate holds at any time.
    ErrorRate,
    /// Error events per bit, the same in each mode.
    BitErrors(f32),
    /// SNR in 20 MHz.
    SnrDb(f32),
}

impl Quality {
    /// The quality of an SNR in 20 MHz.
    #[inline]
    pub fn of_snr_db(snr_db: f64) -> Quality {
        Quality::SnrDb(single(snr_db))
    }
    /// True if nothing is lost.
    #[inline]
    pub fn is_perfect(self) -> bool {
        matches!(self, Quality::Perfect)
    }
    /// The SNR, where there is one, dB.
    pub fn snr_db(self) -> Option<f32> {
        match self {
            Quality::SnrDb(snr) => Some(snr),
            Quality::Perfect | Quality::ErrorRate | Quality::BitErrors(_) => None,
        }
    }
}

/// The link between two devices, for both directions.
#[derive(Debug)]
pub struct Signal {
    source: AnySignal,
    errors: ErrorModel,
}

impl Signal {
    /// `config` has been checked against `phy`. Draws from `stream` only where something is random.
    pub fn new(config: &SignalConfig, phy: &PhyConfig, errors: &ErrorModel, stream: Stream) -> Signal {
        let source = config.build(&SignalContext { phy: phy.clone(), stream });
        Signal { source, errors: errors.clone() }
    }

    /// Moves the devices: from now on they are `distance_m` apart. Signals that do not follow from
    /// a distance ignore it.
    pub fn set_distance_m(&mut self, distance_m: f64) {
        self.source.set_distance_m(distance_m);
    }

    /// One of the devices moves. Signals that do not follow from a distance ignore it.
    pub fn follow(&mut self, motion: Motion) {
        self.source.follow(motion);
    }

    /// Received power at `now`, shadowing included; `None` where the signal has no SNR.
    pub fn received_dbm(&mut self, now: Time) -> Option<f64> {
        let snr = f64::from(self.link(now).snr_db()?);
        Some(snr + self.source.noise_dbm())
    }

    /// The quality at `now`, see [`SignalSource::quality`].
    #[inline]
    pub fn link(&mut self, now: Time) -> Quality {
        self.source.quality(now)
    }

    /// Error events per bit, from which all success probabilities follow.
    #[inline]
    fn event_rate(&self, quality: Quality, mode: Mode) -> f64 {
        match quality {
            Quality::SnrDb(snr) => self.errors.event_rate(mode, snr),
            Quality::ErrorRate => self.source.event_rate(mode),
            Quality::BitErrors(rate) => f64::from(rate),
            Quality::Perfect => 0.0,
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

    /// Probability that the header of an MPDU is intact given that the MPDU of `bytes` is not: its
    /// sequence number can then be read.
    #[inline]
    pub fn header_success_if_corrupt(&self, quality: Quality, mode: Mode, header_bytes: u32, bytes: u32) -> f64 {
        if quality == Quality::Perfect {
            return 1.0;
        }
        let rate = 8.0 * self.event_rate(quality, mode);
        let (header, whole) = (f64::from(header_bytes.min(bytes)), f64::from(bytes));
        // (P(header) - P(whole)) / (1 - P(whole)), to full precision for rare errors; their limit
        // when there are none.
        if rate * whole < 1e-12 {
            return if whole > 0.0 { 1.0 - header / whole } else { 1.0 };
        }
        libm::exp(-rate * header) * libm::expm1(-rate * (whole - header)) / libm::expm1(-rate * whole)
    }

    /// Probability that the PPDU's preamble and PHY headers are understood; 1 where an error rate
    /// is given, which speaks of MPDUs.
    #[inline]
    pub fn preamble_success(&self, quality: Quality, mode: Mode) -> f64 {
        match quality {
            Quality::SnrDb(snr) => self.errors.preamble_success(mode, snr),
            Quality::Perfect | Quality::ErrorRate | Quality::BitErrors(_) => 1.0,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::rng::Rng;
    use crate::units::Span;
    use crate::wifi::phy::Width;

    pub(super) fn rng(seed: u64) -> Rng {
        Stream::of_test(seed).open()
    }
    pub(super) fn ms(ms: u64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Scenario {
        signal: SignalConfig,
    }
    pub(super) fn read(toml: &str) -> Result<SignalConfig, String> {
        toml::from_str::<Scenario>(toml).map(|s| s.signal).map_err(|e| e.message().to_owned())
    }
    pub(super) fn signal(toml: &str, phy: &PhyConfig) -> Signal {
        let config = read(toml).unwrap();
        config.check_phy(phy).unwrap();
        Signal::new(&config, phy, &ErrorModel::default(), Stream::of_test(1))
    }
    pub(super) fn snr(quality: Quality) -> f64 {
        f64::from(quality.snr_db().unwrap())
    }
    pub(super) fn ht(mcs: u8) -> Mode {
        Mode::ht(mcs, Width::Mhz20, false).unwrap()
    }

    #[test]
    fn header_success_of_a_corrupt_mpdu_is_the_conditional_probability() {
        let mut s = signal("signal = { kind = \"snr\", snr_db = 18.9 }", &PhyConfig::default());
        let quality = s.link(ms(0));
        let (header, whole) = (s.header_success(quality, ht(7), 36), s.mpdu_success(quality, ht(7), 1538));
        assert!((0.1..0.9).contains(&whole), "{whole}");
        let expected = (header - whole) / (1.0 - whole);
        assert!((s.header_success_if_corrupt(quality, ht(7), 36, 1538) - expected).abs() < 1e-12);
        // Rare errors fall on the header in proportion to its length.
        for snr_db in [30.0, 60.0] {
            let found = s.header_success_if_corrupt(Quality::SnrDb(snr_db), ht(7), 36, 1538);
            assert!((found - (1.0 - 36.0 / 1538.0)).abs() < 1e-6, "{found}");
        }
        // When all is lost, so are headers.
        assert!(s.header_success_if_corrupt(Quality::SnrDb(5.0), ht(7), 36, 1538) < 1e-3);
    }

    #[test]
    fn bad_signals_are_refused() {
        for (toml, message) in [
            ("signal = \"snr\"", "`snr` needs parameters: write a table with `kind` = \"snr\" and them"),
            (
                "signal = { kind = \"error_rate\" }",
                "`kind` = \"error_rate\" needs `rate`, a number from 0 to 1, or `rates`",
            ),
            ("signal = { kind = \"error_rate\", rate = 0.1, bytes = 0 }", "`bytes` = 0: must be at least 1"),
            ("signal = { kind = \"snr\", snr_db = nan }", "`snr_db` = NaN: must be from -50 to 150 dB"),
            ("signal = { kind = \"path_loss\", exponent = -1 }", "`exponent` = -1: must be from 0 to 10"),
            ("signal = { kind = \"path_loss\", distance_m = 0 }", "`distance_m` = 0: must be above 0"),
            ("signal = { kind = \"path_loss\", distance_m = inf }", "`distance_m` = inf: must be above 0"),
            (
                "signal = { kind = \"path_loss\", tx_power_dbm = 100 }",
                "`tx_power_dbm` = 100: must be from -50 to 60 dBm",
            ),
            (
                "signal = { kind = \"path_loss\", frequency_mhz = 2.4 }",
                "`frequency_mhz` = 2.4: must be from 100 to 100000 MHz",
            ),
            (
                "signal = { kind = \"snr\", snr_db = 20, shadowing = { correlation = \"0s\" } }",
                "`correlation` = 0ns: must be above zero",
            ),
            (
                "signal = { kind = \"snr\", snr_db = 20, shadowing = { sigma_db = -1 } }",
                "`sigma_db` = -1: must be from 0 to 40 dB",
            ),
            ("signal = { kind = \"trace\", points = [] }", "`points` = []: needs at least one [seconds, dB]"),
            (
                "signal = { kind = \"trace\", points = [[0, 1], [2, 1], [2, 3]] }",
                "`points[2]` has time 2: must be later than that of the point before (2)",
            ),
            (
                "signal = { kind = \"trace\", points = [[-1, 1]] }",
                "`points[0]` has time -1: must be from 0 to 1000000000 s",
            ),
            (
                "signal = { kind = \"trace\", points = [[0, nan]] }",
                "`points[0]` has SNR NaN: must be from -50 to 150 dB",
            ),
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
            ("signal = { kind = \"error_rate\", rate = 2 }", "a number from 0 to 1"),
            ("signal = { kind = \"error_rate\", rates = { \"MCS 7\" = 2 } }", "a number from 0 to 1"),
            ("signal = { kind = \"error_rate\", rates = 0.1 }", "a table such as"),
            ("signal = { kind = \"trace\", points = [[0, 1, 2]] }", "invalid length"),
            ("signal = 7", &format!("one of {}, or a table with that `kind`", SignalConfig::NAMES.join(", "))),
            ("signal = \"trace\"", "`trace` needs parameters: write a table with `kind` = \"trace\""),
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
        for kind in SignalConfig::NAMES {
            assert!(schema.contains(kind), "{kind}");
        }
    }

    proptest! {
        #[test]
        fn the_same_seed_gives_the_same_signal(seed in any::<u64>(), steps in proptest::collection::vec(0u64..1_000_000_000, 1..50)) {
            let config = read("signal = { kind = \"snr\", snr_db = 20, shadowing = { correlation = \"1ms\" } }").unwrap();
            let make = || Signal::new(&config, &PhyConfig::default(), &ErrorModel::default(), Stream::of_test(seed));
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
        fn header_success_of_a_corrupt_mpdu_is_a_probability(snr in -60f32..60.0, header in 0u32..3000, bytes in 0u32..3000) {
            let s = signal("signal = { kind = \"snr\", snr_db = 20 }", &PhyConfig::default());
            let quality = Quality::SnrDb(snr);
            let found = s.header_success_if_corrupt(quality, ht(7), header, bytes);
            prop_assert!((0.0..=1.0).contains(&found), "{}", found);
            let (h, m) = (s.header_success(quality, ht(7), header.min(bytes)), s.mpdu_success(quality, ht(7), bytes));
            prop_assert!((h - (m + (1.0 - m) * found)).abs() < 1e-9);
        }
    }
}
