//! Path loss: the SNR follows from transmit power, antenna gains, distance and noise, with
//! shadowing if wanted.
//!
//! The loss is `reference_loss_db + 10 exponent log10(d / 1 m)`, never less than at 1 m. The
//! reference loss is free space's at 1 m unless given: 40.2 dB at 2437 MHz, 46.7 dB at 5180 MHz.
//! Noise is -174 dBm/Hz, 73 dB for 20 MHz, and the noise figure.
//!
//! Source: T. S. Rappaport, "Wireless Communications", 2nd edition, 4.9, log-distance path loss.
//! Exponent 3 is an office (ITU-R P.1238: distance power loss coefficient 30 at 2.4 GHz and 31 at
//! 5.2 GHz).
//!
//! Siblings: the only one that follows from the distance, so positions, walks and
//! `carrier_sense_dbm` need it. `snr` and `trace` are given their SNR.
//!
//! Valid: every 802.11 PHY, from 1 m on.
//!
//! Deviations: no breakpoint and no walls. Both directions have the same power, loss and noise.

use std::f64::consts::PI;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shadowing::{Shadowing, ShadowingConfig};
use super::{Distance, Quality, SignalContext, SignalRules, SignalSource, noise_dbm};
use crate::policy::checked;
use crate::range::within;
use crate::units::Time;
use crate::wifi::phy::{Band, Motion};

/// Link budget with log-distance path loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "PathLossConfig")]
pub struct PathLossConfig {
    /// Transmit power, the same in both directions. -50 to 60 dBm; 15 dBm is a laptop's or a
    /// telephone's.
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
    /// Distance between the devices, above 0 and at most 1 000 000 m; may be left out where devices
    /// have positions.
    pub distance_m: Option<f64>,
    /// Slow variation around the mean. Default: none.
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
        within("tx_power_dbm", self.tx_power_dbm, -50.0..=60.0, "dBm")?;
        within("antenna_gain_db", self.antenna_gain_db, -60.0..=60.0, "dB")?;
        within("exponent", self.exponent, 0.0..=10.0, "")?;
        within("noise_figure_db", self.noise_figure_db, 0.0..=40.0, "dB")?;
        if let Some(loss) = self.reference_loss_db {
            within("reference_loss_db", loss, 0.0..=200.0, "dB")?;
        }
        if let Some(mhz) = self.frequency_mhz {
            within("frequency_mhz", mhz, 100.0..=100_000.0, "MHz")?;
        }
        match self.distance_m {
            Some(d) if !(d > 0.0 && d <= 1e6) => Err(format!("`distance_m` = {d}: must be above 0, at most 1000000 m")),
            _ => Ok(()),
        }
    }

    /// Mean SNR in 20 MHz at a distance; nearer than 1 m it is that of 1 m.
    pub fn snr_db(&self, distance_m: f64, band: Band) -> f64 {
        self.received_dbm(distance_m, band) - noise_dbm(self.noise_figure_db)
    }

    /// Mean power at a receiver, both antennas' gains included; nearer than 1 m it is that of 1 m.
    pub fn received_dbm(&self, distance_m: f64, band: Band) -> f64 {
        let mhz = self.frequency_mhz.unwrap_or(if band == Band::Ghz2 { 2437.0 } else { 5180.0 });
        let free_space = || 20.0 * libm::log10(4.0 * PI * mhz * 1e6 / 299_792_458.0);
        let loss =
            self.reference_loss_db.unwrap_or_else(free_space) + 10.0 * self.exponent * libm::log10(distance_m.max(1.0));
        self.tx_power_dbm + self.antenna_gain_db - loss
    }

    /// Without `distance_m` it is that of 1 m, until the channel gives a distance or a motion.
    pub(super) fn build(&self, ctx: &SignalContext) -> PathLoss {
        let band = ctx.phy.band();
        PathLoss {
            mean: Mean::Fixed(self.snr_db(self.distance_m.unwrap_or(1.0), band)),
            shadowing: self.shadowing.as_ref().map(|c| Shadowing::new(c, ctx.stream.open())),
            config: Box::new(self.clone()),
            band,
        }
    }
}
checked!(PathLossConfig);

impl SignalRules for PathLossConfig {
    fn has_snr(&self) -> bool {
        true
    }
    fn distance(&self) -> Distance {
        self.distance_m.map_or(Distance::Needed, Distance::Given)
    }
    fn mean_received_dbm(&self, distance_m: f64, band: Band) -> Option<f64> {
        Some(self.received_dbm(distance_m, band))
    }
}

#[derive(Debug, Clone)]
enum Mean {
    /// SNR in dB.
    Fixed(f64),
    /// The SNR follows from the distance at each look.
    Moving(Box<Motion>),
}

/// The link budget of two devices.
#[derive(Debug)]
pub struct PathLoss {
    mean: Mean,
    shadowing: Option<Shadowing>,
    config: Box<PathLossConfig>,
    band: Band,
}

impl SignalSource for PathLoss {
    fn quality(&mut self, now: Time) -> Quality {
        let mean = match &mut self.mean {
            Mean::Fixed(snr_db) => *snr_db,
            Mean::Moving(motion) => self.config.snr_db(motion.distance_m(now), self.band),
        };
        let shadowing = self.shadowing.as_mut().map_or(0.0, |s| s.at(now));
        Quality::of_snr_db(mean + shadowing)
    }
    fn set_distance_m(&mut self, distance_m: f64) {
        self.mean = Mean::Fixed(self.config.snr_db(distance_m, self.band));
    }
    fn follow(&mut self, motion: Motion) {
        self.mean = Mean::Moving(Box::new(motion));
    }
    fn noise_dbm(&self) -> f64 {
        noise_dbm(self.config.noise_figure_db)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wifi::phy::signal::tests::{ms, read, signal, snr};
    use crate::wifi::phy::{PhyConfig, Standard};

    #[test]
    fn path_loss_by_hand() {
        // 15 dBm - 46.73 dB - 30 log10 d + 174 - 73.01 - 7 dBm; at 2437 MHz the first metre costs
        // 40.18 dB.
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
        assert!(read("signal = { kind = \"path_loss\" }").unwrap().distance() == Distance::Needed);
        assert_eq!(read("signal = { kind = \"path_loss\", distance_m = 3 }").unwrap().distance(), Distance::Given(3.0));
        // All has a default, so the name will do.
        assert_eq!(read("signal = \"path_loss\""), read("signal = { kind = \"path_loss\" }"));
    }
}
