//! Rate control: the modes in which a frame is tried, and the tries in each.
//!
//! A policy answers with a multi-rate retry series before a frame or an A-MPDU is sent and learns
//! its outcome afterwards. It never sees the channel; only [`Ideal`] is told the signal-to-noise
//! ratio.

mod statistics;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rand::RngExt;

use crate::policy::policies;
use crate::rng::{Rng, Stream};
use crate::units::{Bytes, Probability, Span, Time};
use crate::wifi::phy::{ErrorModel, Mode, PhyConfig, Standard, Timing};

/// Some tries in one mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// The mode of all its tries.
    pub mode: Mode,
    /// At least 1.
    pub tries: u8,
    /// Protect every try by RTS and CTS, whatever the length of the frame.
    pub rts: bool,
}

/// The stages that a frame or an A-MPDU goes through until it is acknowledged (multi-rate retry):
/// one to four, each with at least one try. The sender's own retry limit still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateSeries {
    stages: [Stage; RateSeries::MAX_STAGES],
    len: u8,
    is_sample: bool,
}

impl RateSeries {
    /// Most stages that hardware takes (ath9k: four entries per descriptor).
    pub const MAX_STAGES: usize = 4;

    /// A series of one stage; no tries count as one.
    pub fn of(stage: Stage) -> RateSeries {
        let stage = Stage { tries: stage.tries.max(1), ..stage };
        RateSeries { stages: [stage; RateSeries::MAX_STAGES], len: 1, is_sample: false }
    }
    /// One more stage at the end. Left out when the series is full or would repeat the mode it ends
    /// with.
    #[must_use]
    pub fn then(mut self, stage: Stage) -> RateSeries {
        let len = usize::from(self.len);
        if len < RateSeries::MAX_STAGES && self.stages[len - 1].mode != stage.mode {
            self.stages[len] = Stage { tries: stage.tries.max(1), ..stage };
            self.len += 1;
        }
        self
    }
    /// One more stage at the end, as [`Self::then`]; but where it goes on as the series ends,
    /// protection included, its tries are added to those of the last stage.
    #[must_use]
    pub fn more(mut self, stage: Stage) -> RateSeries {
        let len = usize::from(self.len);
        let last = &mut self.stages[len - 1];
        if (last.mode, last.rts) == (stage.mode, stage.rts) {
            last.tries = last.tries.saturating_add(stage.tries.max(1));
        } else if len < RateSeries::MAX_STAGES {
            self.stages[len] = Stage { tries: stage.tries.max(1), ..stage };
            self.len += 1;
        }
        self
    }
    /// Never empty.
    #[inline]
    pub fn stages(&self) -> &[Stage] {
        &self.stages[..usize::from(self.len)]
    }
    /// The stage of the first try.
    #[inline]
    pub fn first(&self) -> Stage {
        self.stages[0]
    }
    /// Its first stage tests a mode (Minstrel's look-around). A sender with A-MPDUs sends one new
    /// MPDU by itself with such a series, as ath9k does: a whole aggregate in a mode that may
    /// not work would cost many times the airtime.
    #[inline]
    pub fn is_sample(&self) -> bool {
        self.is_sample
    }
    /// All tries together.
    pub fn total_tries(&self) -> u32 {
        self.stages().iter().map(|s| u32::from(s.tries)).sum()
    }
    /// The index of the stage that makes try number `n`, counted from 0; `None` when the series is
    /// used up.
    #[inline]
    pub fn stage_of_try(&self, n: u32) -> Option<usize> {
        let mut end = 0;
        self.stages().iter().position(|s| {
            end += u32::from(s.tries);
            n < end
        })
    }
    pub(super) fn sampling(self) -> RateSeries {
        RateSeries { is_sample: true, ..self }
    }
}

/// Outcome of a frame or an A-MPDU.
#[derive(Debug, Clone, Copy)]
pub struct TxStatus<'a> {
    /// The series it was sent with.
    pub series: &'a RateSeries,
    /// Tries made in each stage.
    pub tries: [u8; RateSeries::MAX_STAGES],
    /// MPDUs sent in each try.
    pub mpdus: u16,
    /// MPDUs acknowledged after the last try; 0: no ACK or Block Ack came. Those of the earlier
    /// tries all failed.
    pub acked: u16,
    /// They went as an A-MPDU, even of one MPDU.
    pub is_ampdu: bool,
}

/// Facts about its station and link that a policy may use.
#[derive(Debug, Clone)]
pub struct RateContext {
    /// Modes that it may choose from ([`PhyConfig::modes`]): at least one.
    pub modes: Vec<Mode>,
    /// Durations at the sender.
    pub timing: Arc<Timing>,
    /// Random numbers for the policy.
    pub stream: Stream,
    /// Success probability of an MPDU by SNR, for a policy that reads the SNR.
    pub errors: ErrorModel,
}

/// Rate control towards one receiver.
pub trait RateControl {
    /// The series for the next frame or A-MPDU. `is_retransmission`: it can hold nothing but MPDUs
    /// that were sent before, or were asked about before; then it is no sample. Where a driver
    /// pulls frames out of mac80211's queues, a sample is for the frame that has just left its
    /// queue. `snr_db`: signal-to-noise ratio at the receiver, for a policy that asks for it
    /// ([`Self::wants_snr`]).
    fn choose(&mut self, now: Time, is_retransmission: bool, snr_db: Option<f32>) -> RateSeries;

    /// A frame or an A-MPDU was acknowledged, in part or not at all.
    fn on_status(&mut self, now: Time, status: &TxStatus<'_>);

    /// True if the policy reads `snr_db`; the others find `None` there.
    fn wants_snr(&self) -> bool {
        false
    }

    /// The mode it now thinks best, for traces.
    fn best(&self) -> Mode;
}

/// Properties of the parameters that are known before a link is built.
pub trait RateRules {
    /// PHYs that it is for, in words; `None`: every PHY of 802.11.
    fn only_for(&self) -> Option<&'static str> {
        None
    }

    /// True if the policy is for this PHY, whatever its parameters.
    fn is_for(&self, phy: &PhyConfig) -> bool {
        phy.standard != Standard::Wavelan
    }

    /// Checks the values, alone and with this PHY. The error names the fault and what is accepted.
    fn check_with(&self, phy: &PhyConfig) -> Result<(), String>;
}

policies! {
    /// One of the registered rate controls.
    AnyRateControl: RateControl,
    /// Parameters of a rate control.
    RateConfig("a rate control"): RateRules, built with RateContext {
        fixed => Fixed / FixedConfig,
        minstrel => Minstrel in Box / MinstrelConfig,
        minstrel_ht => MinstrelHt in Box / MinstrelHtConfig,
        ideal => Ideal / IdealConfig,
        arf => Arf / ArfConfig,
        aarf => Aarf / AarfConfig,
        onoe => Onoe / OnoeConfig,
        fallback => Fallback / FallbackConfig,
    }
}

impl RateConfig {
    /// Checks the values, and that a station with this PHY can use the policy. The error names the
    /// fault and what is accepted.
    pub fn check(&self, phy: &PhyConfig) -> Result<(), String> {
        if self.is_for(phy) {
            return self.check_with(phy);
        }
        let fits: Vec<&str> = RateConfig::NAMES
            .iter()
            .copied()
            .filter(|name| RateConfig::by_name(name).is_some_and(|other| other.is_for(phy)))
            .collect();
        let default = RateConfig::default_for(phy).name();
        match self.only_for() {
            Some(valid) if phy.standard != Standard::Wavelan => {
                let others: Vec<&str> = fits.into_iter().filter(|name| *name != default).collect();
                let (name, phy) = (self.name(), full_name(phy.standard));
                Err(format!("`{name}` is for {valid}: {phy} takes {default} or {}", others.join(" or ")))
            }
            _ => Err(format!("`{}`: WaveLAN has one rate; leave it out or say \"{default}\"", self.name())),
        }
    }

    /// The choice of Linux: `minstrel_ht` for 802.11n and ac, `minstrel` for the others; WaveLAN
    /// has one rate.
    pub fn default_for(phy: &PhyConfig) -> RateConfig {
        if phy.standard == Standard::Wavelan {
            RateConfig::Fixed(FixedConfig::default())
        } else if phy.standard.has_ht() {
            RateConfig::MinstrelHt(MinstrelHtConfig::default())
        } else {
            RateConfig::Minstrel(MinstrelConfig::default())
        }
    }
}

/// "802.11n", "WaveLAN".
fn full_name(standard: Standard) -> String {
    if standard == Standard::Wavelan { "WaveLAN".into() } else { format!("802.11{}", standard.name()) }
}

/// Refuses a size that is no MSDU's (IEEE 802.11-2020 clause 9.2.4.7.1: at most 2304 bytes).
fn check_reference_packet(size: Bytes) -> Result<(), String> {
    if (1..=2304).contains(&size.get()) {
        Ok(())
    } else {
        Err(format!("`reference_packet` = {size}: must be \"1B\" to \"2304B\""))
    }
}

/// Refuses values that no Minstrel can use.
fn check_learning(interval: Span, old_weight: Probability, cw: [u32; 2], max_retry: u8) -> Result<(), String> {
    let [cw_min, cw_max] = cw;
    if interval.is_zero() {
        return Err("`update_interval` = 0ns: must be above zero, such as \"50ms\"".into());
    }
    if old_weight.get() >= 1.0 {
        return Err(format!("`ewma_old_weight` = {}: must be below 1, or nothing is ever learnt", old_weight.get()));
    }
    if cw_max > MAX_CW {
        return Err(format!("`cw_max` = {cw_max}: must be at most {MAX_CW} (slots)"));
    }
    if cw_min > cw_max {
        return Err(format!("`cw_min` = {cw_min}: must be at most `cw_max` ({cw_max})"));
    }
    if max_retry == 0 {
        return Err("`max_retry` = 0: must be from 1 to 255".into());
    }
    Ok(())
}

/// 2^15 - 1, the largest window that EDCA can express (IEEE 802.11-2020 clause 9.4.2.28).
const MAX_CW: u32 = 32_767;

fn check_sample_columns(columns: u8) -> Result<(), String> {
    if columns == 0 { Err("`sample_columns` = 0: must be from 1 to 255".into()) } else { Ok(()) }
}

/// Appends these numbers in random order.
fn append_shuffled(list: &mut Vec<u16>, numbers: impl Iterator<Item = u16>, rng: &mut Rng) {
    let from = list.len();
    list.extend(numbers);
    for i in (from + 1..list.len()).rev() {
        list.swap(i, rng.random_range(from..=i));
    }
}

/// A constant of a configuration.
fn probability(p: f64) -> Probability {
    Probability::new(p).unwrap_or_default()
}

/// The index of the fastest mode; the first if several are as fast.
fn fastest(modes: &[Mode]) -> usize {
    let mut best = 0;
    for (i, mode) in modes.iter().enumerate() {
        if mode.rate() > modes[best].rate() {
            best = i;
        }
    }
    best
}
