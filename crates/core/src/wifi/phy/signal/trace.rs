//! Trace: the SNR at given times, such as those of a measurement.
//!
//! Between two points it is on the line between them, or that of the earlier one (`interpolation =
//! "step"`). After the last point it stays, or begins again (`repeat`). Nothing is random.
//!
//! Source: the user's own measurement.
//!
//! Siblings: `snr` has one mean and random shadowing. `path_loss` derives the mean from a distance.
//!
//! Valid: every 802.11 PHY.
//!
//! Deviations: the SNR at the end of a PPDU holds for all of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Quality, SNR_DB, SignalContext, SignalRules, SignalSource};
use crate::policy::checked;
use crate::range::from_to;
use crate::units::{Span, Time};

/// SNR between the points of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The SNR of a point holds until the next point.
    Step,
    /// Straight lines in dB.
    #[default]
    Linear,
}

/// SNR at given times. Before the first point its value holds, after the last that one's, unless
/// repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
#[schemars(rename = "TraceConfig")]
pub struct TraceConfig {
    /// Pairs of time in seconds and SNR in dB (in 20 MHz), times ascending.
    #[schemars(length(min = 1))]
    pub points: Vec<[f64; 2]>,
    /// The value between two points.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// Start again with the first point at the time of the last one. The last value then only ends
    /// the line to it.
    #[serde(default)]
    pub repeat: bool,
}

impl TraceConfig {
    fn check(&self) -> Result<(), String> {
        if self.points.is_empty() {
            return Err("`points` = []: needs at least one [seconds, dB]".into());
        }
        for (i, &[t, snr]) in self.points.iter().enumerate() {
            let times_s = 0.0..=1e9;
            if !times_s.contains(&t) {
                return Err(format!("`points[{i}]` has time {t}: must be {} s", from_to(&times_s)));
            }
            if !SNR_DB.contains(&snr) {
                return Err(format!("`points[{i}]` has SNR {snr}: must be {} dB", from_to(&SNR_DB)));
            }
        }
        let points = self.points_in_time();
        if let Some(i) = points.windows(2).position(|w| w[0].0 >= w[1].0) {
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

    fn points_in_time(&self) -> Vec<(Time, f64)> {
        self.points.iter().map(|&[t, snr]| (Time::ZERO + Span::from_secs_f64(t), snr)).collect()
    }

    pub(super) fn build(&self, _: &SignalContext) -> Trace {
        Trace { points: self.points_in_time(), interpolation: self.interpolation, repeat: self.repeat }
    }
}
checked!(TraceConfig);

impl SignalRules for TraceConfig {
    fn has_snr(&self) -> bool {
        true
    }
}

/// An SNR over time.
#[derive(Debug, Clone)]
pub struct Trace {
    points: Vec<(Time, f64)>,
    interpolation: Interpolation,
    repeat: bool,
}

impl Trace {
    fn at(&self, now: Time) -> f64 {
        let (Some(&(first, first_db)), Some(&(last, last_db))) = (self.points.first(), self.points.last()) else {
            return 0.0;
        };
        let mut t = now;
        if self.repeat && t > first {
            t = first + Span::from_ns(t.since(first).as_ns() % last.since(first).as_ns());
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
                from_db + (to_db - from_db) * (t.since(from).as_ns() as f64 / to.since(from).as_ns() as f64)
            }
        }
    }
}

impl SignalSource for Trace {
    fn quality(&mut self, now: Time) -> Quality {
        Quality::of_snr_db(self.at(now))
    }
}

#[cfg(test)]
mod tests {
    use crate::wifi::phy::PhyConfig;
    use crate::wifi::phy::signal::tests::{ms, signal, snr};

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
}
