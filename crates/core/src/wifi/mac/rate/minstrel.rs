//! Minstrel: learns from acknowledgements which rate of 802.11b, a or g carries the most, and goes
//! on sampling the others.
//!
//! Source: Linux's rate control for legacy rates since 2008, as its documentation describes it
//! (wireless.wiki.kernel.org, mac80211, "minstrel"; Smithies and Fietkau).
//!
//! Every `update_interval` the share of successful tries in each rate is smoothed (three quarters
//! old), and `probability * payload / airtime` ranks the rates. A frame goes through four stages:
//! best throughput, second best throughput, best probability, lowest rate. Each stage has as many
//! tries as fit `max_segment`. One frame in ten looks around: a rate drawn from a sample table
//! stands first if it is faster than the best. If it is slower it stands second, in place of the
//! second best.
//!
//! Siblings: Minstrel-HT works with A-MPDUs and groups and samples sparingly. Minstrel works frame
//! by frame, and a fixed share of the frames samples.
//!
//! Valid: for 802.11b, a and g. The airtime of a slow sample counts only through its place in the
//! series.
//!
//! Deviations: From Linux: look-around frames are spaced evenly by counting frames. One that stays
//! a second stage which is never reached is not made up for. Sampling is not limited for rates
//! known to be good or hopeless. A retransmission by the sender's software never looks around. The
//! update interval, 100 ms, is that of kernels before 2019 and of ns-3's legacy Minstrel. The
//! throughput floor of Minstrel-HT (10 %) holds here too.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statistics::{Airtime, ONE, Ranking, RateTable, fixed_point, series, throughput_bps};
use super::{RateContext, RateControl, RateRules, RateSeries, TxStatus, check_reference_packet, probability};
use crate::convert::{count16, saturate32};
use crate::policy::checked;
use crate::units::{Bytes, Probability, Span, Time};
use crate::wifi::phy::{Mode, PhyConfig, Standard, timing};

/// Parameters of Minstrel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "MinstrelConfig")]
pub struct MinstrelConfig {
    /// Time between two evaluations. Above zero. 100 ms: kernels before 2019, and ns-3.
    pub update_interval: Span,
    /// Weight of the old value in the smoothed success probability. Below 1. 0.75: Linux (96/128).
    pub ewma_old_weight: Probability,
    /// Share of frames that look around. Left out: 0.1, or 0.05 without `multi_rate_retry` (Linux).
    pub look_around: Option<Probability>,
    /// The hardware takes a series of rates; without it one rate per frame.
    pub multi_rate_retry: bool,
    /// Contention window of the first try, slots, for the airtime estimate. 15: Linux.
    pub cw_min: u32,
    /// Largest contention window, slots, for the airtime estimate. At least `cw_min`. 1023: Linux.
    pub cw_max: u32,
    /// Most airtime of one stage, backoff included; one try may exceed it. 6 ms: Linux.
    pub max_segment: Span,
    /// Most tries of one stage. At least 1. 7: Linux where the driver says nothing.
    #[schemars(range(min = 1))]
    pub max_retry: u8,
    /// Columns of the sample table, each a shuffled list of the rates. At least 1. 10: Linux.
    #[schemars(range(min = 1))]
    pub sample_columns: u8,
    /// IP packet that airtimes are estimated for. 1B to 2304B. 1200B: Linux, ns-3.
    pub reference_packet: Bytes,
    /// Below this success probability a rate counts as carrying nothing. 0.1: Linux.
    pub min_probability: Probability,
    /// From this success probability on a rate is as good as any as the reliable stage, and the
    /// faster is taken. 0.95: our choice.
    pub reliable: Probability,
}

impl Default for MinstrelConfig {
    fn default() -> Self {
        MinstrelConfig {
            update_interval: Span::from_ms(100),
            ewma_old_weight: probability(0.75),
            look_around: None,
            multi_rate_retry: true,
            cw_min: 15,
            cw_max: 1023,
            max_segment: Span::from_ms(6),
            max_retry: 7,
            sample_columns: 10,
            reference_packet: Bytes::new(1200),
            min_probability: probability(0.1),
            reliable: probability(0.95),
        }
    }
}

impl MinstrelConfig {
    /// Checks the values. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        super::check_learning(self.update_interval, self.ewma_old_weight, [self.cw_min, self.cw_max], self.max_retry)?;
        super::check_sample_columns(self.sample_columns)?;
        check_reference_packet(self.reference_packet)
    }

    /// The control of one link, at the beginning.
    pub fn build(&self, ctx: &RateContext) -> Minstrel {
        let mut rng = ctx.stream.open();
        let airtime = Airtime {
            timing: Arc::clone(&ctx.timing),
            cw_min: self.cw_min,
            cw_max: self.cw_max,
            max_segment: self.max_segment,
            max_retry: self.max_retry,
        };
        let packet = saturate32(self.reference_packet.get());
        let exchange = |&mode: &Mode| airtime.exchange(mode, timing::mpdu_bytes(packet, true), false);
        let exchanges: Vec<Span> = ctx.modes.iter().map(exchange).collect();
        let bps = |&exchange: &Span| airtime.error_free_bps(8 * u64::from(packet), exchange);
        let error_free_bps: Vec<u64> = exchanges.iter().map(bps).collect();
        let look_around = self.look_around.unwrap_or(probability(if self.multi_rate_retry { 0.1 } else { 0.05 }));
        let lowest = (0..count16(ctx.modes.len())).min_by_key(|&i| error_free_bps[usize::from(i)]).unwrap_or(0);
        let mut samples = Vec::with_capacity(usize::from(self.sample_columns) * ctx.modes.len());
        for _ in 0..self.sample_columns {
            super::append_shuffled(&mut samples, 0..count16(ctx.modes.len()), &mut rng);
        }
        let mut minstrel = Minstrel {
            tries: exchanges.iter().map(|&exchange| airtime.tries(exchange)).collect(),
            throughput_bps: vec![0; ctx.modes.len()],
            error_free_bps,
            table: RateTable::new(&ctx.modes),
            lowest,
            samples,
            next_sample: 0,
            look_around: fixed_point(look_around),
            // Starts with a look around.
            credit: ONE,
            multi_rate_retry: self.multi_rate_retry,
            old_weight: fixed_point(self.ewma_old_weight),
            floor: fixed_point(self.min_probability),
            reliable: fixed_point(self.reliable),
            interval: self.update_interval,
            next_update: Time::ZERO + self.update_interval,
            best: lowest,
            max_prob: lowest,
            chain: RateSeries::of(super::Stage { mode: ctx.modes[usize::from(lowest)], tries: 1, rts: false }),
        };
        minstrel.rank();
        minstrel
    }
}
checked!(MinstrelConfig);

impl RateRules for MinstrelConfig {
    fn only_for(&self) -> Option<&'static str> {
        Some("802.11b, a and g")
    }
    fn is_for(&self, phy: &PhyConfig) -> bool {
        phy.standard != Standard::Wavelan && !phy.standard.has_ht()
    }
    fn check_with(&self, _: &PhyConfig) -> Result<(), String> {
        self.check()
    }
}

/// Minstrel, as one link has it.
#[derive(Debug, Clone)]
pub struct Minstrel {
    table: RateTable,
    /// By index of the mode: the most tries of a stage, and the throughput without and with errors.
    tries: Vec<u8>,
    error_free_bps: Vec<u64>,
    throughput_bps: Vec<u64>,
    lowest: u16,
    /// The columns of the sample table one after the other.
    samples: Vec<u16>,
    next_sample: usize,
    /// Share of frames that look around, and the part of one that has accrued, in 1/65536.
    look_around: u32,
    credit: u32,
    multi_rate_retry: bool,
    old_weight: u32,
    floor: u32,
    reliable: u32,
    interval: Span,
    next_update: Time,
    best: u16,
    max_prob: u16,
    /// For a frame that does not look around.
    chain: RateSeries,
}

impl Minstrel {
    fn rank(&mut self) {
        for (i, stats) in self.table.stats.iter().enumerate() {
            self.throughput_bps[i] = throughput_bps(stats, self.error_free_bps[i], self.floor, ONE);
        }
        let ranking = Ranking::new(&self.table.stats, &self.throughput_bps, &self.error_free_bps, self.reliable);
        let [best, second, ..] = ranking.by_throughput;
        (self.best, self.max_prob) = (best, ranking.max_prob);
        self.chain = self.series(&[best, second, ranking.max_prob, self.lowest]);
    }

    fn series(&self, chain: &[u16]) -> RateSeries {
        let len = if self.multi_rate_retry { chain.len() } else { 1 };
        series(&self.table.modes, &self.tries, &chain[..len])
    }

    /// The next entry of the sample table other than the best rate, if there is one in a column's
    /// length.
    fn sample(&mut self) -> Option<u16> {
        for _ in 0..self.table.modes.len() {
            let sample = self.samples[self.next_sample];
            self.next_sample = (self.next_sample + 1) % self.samples.len();
            if sample != self.best {
                return Some(sample);
            }
        }
        None
    }
}

impl RateControl for Minstrel {
    #[inline]
    fn choose(&mut self, _now: Time, is_retransmission: bool, _snr_db: Option<f32>) -> RateSeries {
        if is_retransmission {
            return self.chain;
        }
        self.credit += self.look_around;
        if self.credit <= ONE {
            return self.chain;
        }
        self.credit -= ONE;
        let Some(sample) = self.sample() else { return self.chain };
        let is_faster = self.error_free_bps[usize::from(sample)] > self.error_free_bps[usize::from(self.best)];
        let chain = match is_faster || !self.multi_rate_retry {
            true => [sample, self.best, self.max_prob, self.lowest],
            false => [self.best, sample, self.max_prob, self.lowest],
        };
        self.series(&chain).sampling()
    }

    #[inline]
    fn on_status(&mut self, now: Time, status: &TxStatus<'_>) {
        self.table.record(status);
        if now >= self.next_update {
            self.next_update = now + self.interval;
            self.table.end_interval(self.old_weight);
            self.rank();
        }
    }

    fn best(&self) -> Mode {
        self.table.modes[usize::from(self.best)]
    }
}
