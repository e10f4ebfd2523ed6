//! Minstrel-HT: Minstrel for 802.11n and ac, with groups of modes, success per MPDU and sparing
//! samples.
//!
//! Source: Linux's rate control for HT and VHT since 2010 (announced in LWN 376765);
//! `net/mac80211/rc80211_minstrel_ht.c` of Linux 6.12.
//!
//! The modes form groups of equal streams, channel width and guard interval. The parameter
//! `sampling` says which kernels' rules hold:
//!
//! - `targeted`, the default: Linux 6.12, decision for decision. Success per MPDU goes through a
//!   low pass of the second order every `update_interval`. Throughput is `probability / (overhead /
//!   A-MPDU length + duration)` of a packet. The probability counts as at most 0.9 there, and below
//!   0.1 as nothing. A mode never tried is taken to be as good as the faster ones of its group. The
//!   series is the best three, then the fastest mode above 0.75 with fewer streams than the best,
//!   if there is one. Each stage has two tries, and as many more as fit `max_segment`. All stages
//!   but the first are protected by RTS and CTS, so that a collision costs little from the second
//!   stage on. If three quarters of more than 30 MPDUs of the best or second mode are lost, the
//!   next group takes its place at once. Every `sample_interval` one MPDU may test a mode in place
//!   of the first stage. Three of six samples take the next faster mode of a group, two take a
//!   random faster one. The sixth takes a mode between the slowest and the fastest of the series.
//! - `table`: the main rules of Linux 3.10 to 5.11, such as the stations of 2014. The average keeps
//!   three quarters of the old, and the series is the best two and the most reliable. A sample
//!   stands in the first place. It is due `sample_wait` and twice the mean A-MPDU length of MPDUs
//!   after the one before. The groups take turns, each going through a shuffled table of its modes.
//!   Modes of the series and modes known to be good are passed over. So are modes that could not
//!   beat the best throughput even if every MPDU arrived, but for `slow_per_interval` of those
//!   untried for `slow_after` intervals. Modes above what the signal carries are therefore tried
//!   again and again.
//!
//! Siblings: Minstrel gives a fixed share of its frames to samples; Minstrel-HT samples only when
//! these rules ask for it.
//!
//! Valid: for 802.11n and ac, with or without A-MPDUs. It cannot tell collisions from a weak
//! signal.
//!
//! Deviations: `targeted` is held against the kernel's own code (docs/validation.md). It does not
//! count time in ticks, with which an interval of Linux lasts 52 ms at 250 Hz. Each link has a
//! table of random numbers of its own. CCK and OFDM rates are no fall-back, as with hardware that
//! does not say it has them towards HT stations. The series has four stages, as Linux has it since
//! 6.0 with hardware such as ath9k's. From 5.12 on it had three. ath9k asks for 10 tries in
//! `max_retry`. `table` follows public descriptions and parameters. Its airtime includes DIFS and
//! the mean first backoff. An A-MPDU is not taken to be longer than `max_airtime`. Among modes
//! without measured throughput the slowest ranks first. Samples that fit no rule are not made up
//! for. Nothing is downgraded between evaluations. The numbers behind `table` (16, 16, 20, 2) and
//! `reliable` are to be varied.

mod table;
mod targeted;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::table::ByTable;
pub use self::targeted::Targeted;
use super::{RateContext, RateControl, RateRules, RateSeries, TxStatus, check_reference_packet, probability};
use crate::policy::checked;
use crate::units::{Bytes, Probability, Span, Time};
use crate::wifi::phy::{Mode, PhyConfig};

/// Choice of the modes that samples test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// By a shuffled table, slow modes seldom (2010 to 2020).
    Table,
    /// Faster modes near and far, and between the slowest and the fastest in use (from 2021); all
    /// else as in Linux 6.12.
    Targeted,
}

/// Parameters of Minstrel-HT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "MinstrelHtConfig")]
pub struct MinstrelHtConfig {
    /// Choice of the modes that samples test.
    pub sampling: Sampling,
    /// Time between two evaluations. Above zero. 50 ms: Linux (`update_interval`, until 2019 half
    /// of 100 ms), ns-3.
    pub update_interval: Span,
    /// Weight of the old value in the smoothed A-MPDU length; in `table` also in the success
    /// probability. Below 1. 0.75: Linux (96/128).
    pub ewma_old_weight: Probability,
    /// Contention window of the first try, slots, for the airtime estimate. 15: Linux.
    pub cw_min: u32,
    /// Largest contention window, slots, for the airtime estimate. At least `cw_min`. 1023: Linux.
    pub cw_max: u32,
    /// Most airtime of one stage, backoff included; one try may exceed it. 6 ms: Linux.
    pub max_segment: Span,
    /// Most tries of one stage. At least 1. 7: Linux where the driver says nothing.
    #[schemars(range(min = 1))]
    pub max_retry: u8,
    /// Columns of the table of samples, each a shuffled list of a group's modes. At least 1. 10:
    /// Linux.
    #[schemars(range(min = 1))]
    pub sample_columns: u8,
    /// IP packet that airtimes are estimated for. 1B to 2304B. 1200B: Linux, ns-3.
    pub reference_packet: Bytes,
    /// `table`: most airtime of an A-MPDU in the estimate. 4 ms: ath9k's frame limit.
    pub max_airtime: Span,
    /// Success probabilities above this count as this. Above zero. 0.9: Linux.
    pub max_probability: Probability,
    /// Below this success probability a mode counts as carrying nothing. 0.1: Linux.
    pub min_probability: Probability,
    /// `table`: modes with at least this success probability count as equally reliable, so the
    /// fastest of them becomes the reliable stage. Samples leave them alone.
    pub reliable: Probability,
    /// `table`: MPDUs between two samples, to which twice the mean A-MPDU length is added. 16:
    /// after Linux until 2020.
    pub sample_wait: u16,
    /// `table`: most samples per update interval. 16: after Linux until 2020.
    pub samples_per_interval: u16,
    /// `targeted`: least time between two samples. 20 ms: Linux.
    pub sample_interval: Span,
    /// `table`: a mode too slow to win is tested only after so many intervals without use. 20:
    /// after Linux until 2020.
    pub slow_after: u32,
    /// `table`: most tests of modes too slow to win per update interval. 2: after Linux until 2020.
    pub slow_per_interval: u16,
}

impl Default for MinstrelHtConfig {
    fn default() -> Self {
        MinstrelHtConfig {
            sampling: Sampling::Targeted,
            update_interval: Span::from_ms(50),
            ewma_old_weight: probability(0.75),
            cw_min: 15,
            cw_max: 1023,
            max_segment: Span::from_ms(6),
            max_retry: 7,
            sample_columns: 10,
            reference_packet: Bytes::new(1200),
            max_airtime: Span::from_ms(4),
            max_probability: probability(0.9),
            min_probability: probability(0.1),
            reliable: probability(0.95),
            sample_wait: 16,
            samples_per_interval: 16,
            sample_interval: Span::from_ms(20),
            slow_after: 20,
            slow_per_interval: 2,
        }
    }
}

impl MinstrelHtConfig {
    /// Checks the values. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        super::check_learning(self.update_interval, self.ewma_old_weight, [self.cw_min, self.cw_max], self.max_retry)?;
        super::check_sample_columns(self.sample_columns)?;
        if self.max_probability == Probability::ZERO {
            return Err("`max_probability` = 0: must be above 0, or no mode carries anything".into());
        }
        if self.min_probability > self.max_probability {
            let (min, max) = (self.min_probability.get(), self.max_probability.get());
            return Err(format!("`min_probability` = {min}: must be at most `max_probability` ({max})"));
        }
        check_reference_packet(self.reference_packet)
    }

    /// The control of one link, at the beginning.
    pub fn build(&self, ctx: &RateContext) -> MinstrelHt {
        match self.sampling {
            Sampling::Table => MinstrelHt::Table(ByTable::new(self, ctx)),
            Sampling::Targeted => MinstrelHt::Targeted(Targeted::new(self, ctx)),
        }
    }
}
checked!(MinstrelHtConfig);

impl RateRules for MinstrelHtConfig {
    fn only_for(&self) -> Option<&'static str> {
        Some("802.11n and ac")
    }
    fn is_for(&self, phy: &PhyConfig) -> bool {
        phy.standard.has_ht()
    }
    fn check_with(&self, _: &PhyConfig) -> Result<(), String> {
        self.check()
    }
}

/// Minstrel-HT, as one link has it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one per link, held in place on purpose
pub enum MinstrelHt {
    /// With samples out of a table.
    Table(ByTable),
    /// With samples that aim at something.
    Targeted(Targeted),
}

impl RateControl for MinstrelHt {
    #[inline]
    fn choose(&mut self, now: Time, is_retransmission: bool, snr_db: Option<f32>) -> RateSeries {
        match self {
            MinstrelHt::Table(m) => m.choose(now, is_retransmission, snr_db),
            MinstrelHt::Targeted(m) => m.choose(now, is_retransmission, snr_db),
        }
    }

    #[inline]
    fn on_status(&mut self, now: Time, status: &TxStatus<'_>) {
        match self {
            MinstrelHt::Table(m) => m.on_status(now, status),
            MinstrelHt::Targeted(m) => m.on_status(now, status),
        }
    }

    fn best(&self) -> Mode {
        match self {
            MinstrelHt::Table(m) => m.best(),
            MinstrelHt::Targeted(m) => m.best(),
        }
    }
}
