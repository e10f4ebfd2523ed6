//! Minstrel-HT: Minstrel for 802.11n and ac, with groups of modes, success per MPDU and sparing samples.
//!
//! Source: Linux's rate control for HT and VHT since 2010 (announced in LWN 376765).
//!
//! The modes form groups of equal streams, channel width and guard interval. Every `update_interval` the share of
//! acknowledged MPDUs in each mode is smoothed (three quarters old), and so is the mean length of A-MPDUs. Throughput
//! is estimated as `probability * payload / airtime` of an A-MPDU of that length. A probability counts as at most 0.9,
//! because other losses will follow, and below 0.1 as nothing. The series is best throughput, second best, best
//! probability; each stage has as many tries as fit `max_segment`.
//!
//! A sample is one try ahead of the usual series, sent by itself, never on a retransmission. It is due `sample_wait`
//! and twice the mean A-MPDU length of MPDUs after the one before. The parameter `sampling` chooses its mode:
//!
//! - `table`, the default: kernels of 2010 to 2020, such as those of the stations of 2014. The groups take turns, each
//!   going through a shuffled table of its modes. Modes of the series and modes known to be good are passed over. So
//!   are modes that could not beat the best throughput even if every MPDU arrived, but for `slow_per_interval` of
//!   those untried for `slow_after` intervals. Modes above what the signal carries are therefore tried again and
//!   again.
//! - `targeted`: kernels from 2021 on (Linux commit 80d55154). Of six samples three take the next faster mode of a
//!   group, and two a random faster one. One takes a mode between the most reliable and the best. No mode is sampled
//!   twice per interval.
//!
//! Siblings: Minstrel gives a fixed share of its frames to samples; Minstrel-HT samples only when the rules above ask
//! for it.
//!
//! Valid: for 802.11n and ac, with or without A-MPDUs. It cannot tell collisions from a weak signal.
//!
//! Deviations: From Linux: the rules above follow its public descriptions and parameters, not its code. Where they say
//! nothing the rule is our own. Airtime includes DIFS and the mean first backoff. An A-MPDU is not taken to be longer
//! than `max_airtime`. Of modes without any measured throughput the slowest ranks first. Samples that fit no rule are
//! not made up for. The numbers behind `table` (16, 16, 20, 2) and `reliable` have no citable document and are to be
//! varied. CCK and OFDM rates are not used as a fallback. `update_interval` is the 50 ms of newer kernels and of ns-3;
//! kernels before 2019, the study's 3.13 among them, had 100 ms.

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::statistics::{Airtime, ONE, Ranking, RateTable, ewma, fixed_point, series, throughput_bps};
use super::{RateContext, RateControl, RateSeries, Stage, TxStatus, check_reference_packet, probability};
use crate::policy::checked;
use crate::rng::Rng;
use crate::units::{Bytes, Probability, Span, Time};
use crate::wifi::phy::{Mode, timing};

/// What samples test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// By a shuffled table, slow modes seldom (2010 to 2020).
    Table,
    /// Faster modes near and far, and between the best and the most reliable (from 2021).
    Targeted,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "MinstrelHtConfig")]
pub struct MinstrelHtConfig {
    /// What samples test.
    pub sampling: Sampling,
    /// Time between two evaluations. Above zero. 50 ms: Linux since 2019, ns-3. Linux before: "100ms".
    pub update_interval: Span,
    /// Weight of the old value in the smoothed success probability and A-MPDU length. Below 1. 0.75: Linux (96/128).
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
    /// Columns of the sample table, each a shuffled list of a group's modes. At least 1. 10: Linux.
    #[schemars(range(min = 1))]
    pub sample_columns: u8,
    /// IP packet that airtimes are estimated for. 1B to 2304B. 1200B: Linux, ns-3.
    pub reference_packet: Bytes,
    /// Most airtime of an A-MPDU in the estimate. 4 ms: ath9k's frame limit.
    pub max_airtime: Span,
    /// Success probabilities above this count as this. Above zero. 0.9: Linux.
    pub max_probability: Probability,
    /// Below this success probability a mode counts as carrying nothing. 0.1: Linux.
    pub min_probability: Probability,
    /// From this success probability on a mode is as good as any as the reliable stage, and the faster is taken; samples leave
    /// it alone. 0.95: our choice.
    pub reliable: Probability,
    /// MPDUs between two samples, to which twice the mean A-MPDU length is added. 16: after Linux until 2020.
    pub sample_wait: u16,
    /// Most samples per update interval. 16: after Linux until 2020.
    pub samples_per_interval: u16,
    /// `table`: a mode too slow to win is tested only after so many intervals without use. 20: after Linux until 2020.
    pub slow_after: u32,
    /// `table`: most tests of modes too slow to win per update interval. 2: after Linux until 2020.
    pub slow_per_interval: u16,
}

impl Default for MinstrelHtConfig {
    fn default() -> Self {
        MinstrelHtConfig {
            sampling: Sampling::Table,
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
            slow_after: 20,
            slow_per_interval: 2,
        }
    }
}

impl MinstrelHtConfig {
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

    pub fn build(&self, ctx: &RateContext) -> MinstrelHt {
        let mut rng = ctx.stream.open();
        let modes = &ctx.modes;
        let group_of = |m: Mode| (m.streams(), m.width(), m.is_short_gi());
        let mut keys: Vec<_> = modes.iter().map(|&m| group_of(m)).collect();
        keys.sort_unstable();
        keys.dedup();
        let groups: Vec<Group> = keys
            .into_iter()
            .map(|key| {
                let mut members: Vec<u16> = (0..modes.len() as u16).collect();
                members.retain(|&i| group_of(modes[usize::from(i)]) == key);
                members.sort_by_key(|&i| modes[usize::from(i)].rate());
                let mut samples = Vec::with_capacity(usize::from(self.sample_columns) * members.len());
                for _ in 0..self.sample_columns {
                    super::append_shuffled(&mut samples, members.iter().copied(), &mut rng);
                }
                Group { members, samples, next: 0 }
            })
            .collect();
        let subframe = timing::subframe_bytes(timing::mpdu_bytes(self.reference_packet.get() as u32, true));
        let longest = |&mode: &Mode| {
            let bytes = ctx.timing.psdu_bytes_within(mode, self.max_airtime.as_ns());
            bytes.min(mode.max_psdu_bytes()).max(subframe)
        };
        let mut minstrel = MinstrelHt {
            table: RateTable::new(modes),
            airtime: Airtime {
                timing: ctx.timing.clone(),
                cw_min: self.cw_min,
                cw_max: self.cw_max,
                max_segment_ns: self.max_segment.as_ns(),
                max_retry: self.max_retry,
            },
            longest_psdu: modes.iter().map(longest).collect(),
            tries: vec![1; modes.len()],
            error_free_bps: vec![0; modes.len()],
            throughput_bps: vec![0; modes.len()],
            ranking: Ranking { by_throughput: [0; Ranking::KEPT], max_prob: 0 },
            chain: RateSeries::of(Stage { mode: modes[0], tries: 1, rts: false }),
            old_weight: fixed_point(self.ewma_old_weight),
            floor: fixed_point(self.min_probability),
            cap: fixed_point(self.max_probability),
            reliable: fixed_point(self.reliable),
            next_update: Time::ZERO + self.update_interval,
            updates: 0,
            ampdus: 0,
            ampdu_mpdus: 0,
            mean_ampdu_len: ONE,
            groups,
            next_group: 0,
            next_slow: 0,
            attempts: 0,
            sampled_at: vec![u64::MAX; modes.len()],
            // Starts with a sample.
            mpdus_since_sample: u32::MAX,
            sample_wait: 0,
            samples_left: 0,
            slow_left: 0,
            rng,
            config: self.clone(),
        };
        minstrel.evaluate();
        minstrel
    }
}
checked!(MinstrelHtConfig);

/// Modes of equal streams, width and guard interval.
#[derive(Debug, Clone)]
struct Group {
    /// Slowest first.
    members: Vec<u16>,
    /// The columns of the sample table one after the other, and where it stands.
    samples: Vec<u16>,
    next: usize,
}

#[derive(Debug)]
pub struct MinstrelHt {
    config: MinstrelHtConfig,
    table: RateTable,
    airtime: Airtime,
    /// By index of the mode: longest A-MPDU in bytes, tries of a stage, throughput without and with errors.
    longest_psdu: Vec<u32>,
    tries: Vec<u8>,
    error_free_bps: Vec<u64>,
    throughput_bps: Vec<u64>,
    ranking: Ranking,
    /// For what is no sample.
    chain: RateSeries,
    old_weight: u32,
    floor: u32,
    cap: u32,
    reliable: u32,
    next_update: Time,
    updates: u64,
    /// A-MPDUs of the running interval, and the MPDUs in them.
    ampdus: u32,
    ampdu_mpdus: u32,
    /// MPDUs, in 1/65536.
    mean_ampdu_len: u32,
    groups: Vec<Group>,
    next_group: usize,
    /// Where the search for a mode between the most reliable and the best goes on.
    next_slow: usize,
    /// `targeted`: samples looked for so far, whether found or not.
    attempts: u32,
    /// `targeted`: in which interval each mode was last tested.
    sampled_at: Vec<u64>,
    mpdus_since_sample: u32,
    sample_wait: u32,
    samples_left: u16,
    slow_left: u16,
    rng: Rng,
}

impl MinstrelHt {
    /// Ends an interval.
    #[cold]
    fn update(&mut self, now: Time) {
        self.next_update = now + self.config.update_interval;
        self.updates += 1;
        self.table.end_interval(self.old_weight);
        if self.ampdus > 0 {
            let mean = (u64::from(self.ampdu_mpdus) * u64::from(ONE) / u64::from(self.ampdus)) as u32;
            self.mean_ampdu_len = ewma(self.mean_ampdu_len, mean, self.old_weight).max(ONE);
            (self.ampdus, self.ampdu_mpdus) = (0, 0);
        }
        self.evaluate();
    }

    /// Throughputs, the series and the allowance of samples out of what is known.
    fn evaluate(&mut self) {
        let packet = self.config.reference_packet.get() as u32;
        let mpdu = timing::mpdu_bytes(packet, true);
        let subframe = timing::subframe_bytes(mpdu);
        let is_ampdu = self.mean_ampdu_len > ONE;
        let ampdu_bytes = (u64::from(self.mean_ampdu_len) * u64::from(subframe)) >> 16;
        for (i, &mode) in self.table.modes.iter().enumerate() {
            let (psdu, payload) = if is_ampdu {
                let psdu = ampdu_bytes.min(u64::from(self.longest_psdu[i]));
                (psdu as u32, psdu * u64::from(packet) / u64::from(subframe))
            } else {
                (mpdu, u64::from(packet))
            };
            let exchange_ns = self.airtime.exchange_ns(mode, psdu, is_ampdu);
            self.tries[i] = self.airtime.tries(exchange_ns);
            self.error_free_bps[i] = self.airtime.error_free_bps(8 * payload, exchange_ns);
            self.throughput_bps[i] = throughput_bps(&self.table.stats[i], self.error_free_bps[i], self.floor, self.cap);
        }
        self.ranking = Ranking::new(&self.table.stats, &self.throughput_bps, &self.error_free_bps, self.reliable);
        let [best, second, ..] = self.ranking.by_throughput;
        self.chain = series(&self.table.modes, &self.tries, &[best, second, self.ranking.max_prob]);
        self.sample_wait = u32::from(self.config.sample_wait) + 2 * (self.mean_ampdu_len >> 16);
        self.samples_left = self.config.samples_per_interval;
        self.slow_left = self.config.slow_per_interval;
    }

    fn is_in_series(&self, i: u16) -> bool {
        let [best, second, ..] = self.ranking.by_throughput;
        i == best || i == second || i == self.ranking.max_prob
    }

    /// The mode to test now, if the one whose turn it is deserves it.
    fn sample(&mut self) -> Option<u16> {
        match self.config.sampling {
            Sampling::Table => self.sample_by_table(),
            Sampling::Targeted => self.sample_by_target(),
        }
    }

    fn sample_by_table(&mut self) -> Option<u16> {
        let group = &mut self.groups[self.next_group];
        let sample = group.samples[group.next];
        group.next = (group.next + 1) % group.samples.len();
        self.next_group = (self.next_group + 1) % self.groups.len();
        let stats = &self.table.stats[usize::from(sample)];
        if self.is_in_series(sample) || stats.probability >= self.reliable {
            return None;
        }
        let best_bps = self.throughput_bps[usize::from(self.ranking.by_throughput[0])];
        let at_most_bps = (self.error_free_bps[usize::from(sample)] * u64::from(self.cap)) >> 16;
        if at_most_bps <= best_bps {
            if stats.idle_intervals < self.config.slow_after || self.slow_left == 0 {
                return None;
            }
            self.slow_left -= 1;
        }
        Some(sample)
    }

    fn sample_by_target(&mut self) -> Option<u16> {
        let turn = self.attempts % 6;
        self.attempts = self.attempts.wrapping_add(1);
        let best = self.ranking.by_throughput[0];
        let error_free_bps = |i: u16| self.error_free_bps[usize::from(i)];
        let best_bps = error_free_bps(best);
        let sample = if turn == 5 {
            let (second, reliable) = (self.ranking.by_throughput[1], self.ranking.max_prob);
            let between = error_free_bps(second).min(error_free_bps(reliable))..best_bps;
            let modes = self.table.modes.len();
            let found = (0..modes)
                .map(|n| ((self.next_slow + n) % modes) as u16)
                .find(|&i| !self.is_in_series(i) && between.contains(&error_free_bps(i)))?;
            self.next_slow = usize::from(found) + 1;
            found
        } else {
            let group = &self.groups[self.next_group];
            self.next_group = (self.next_group + 1) % self.groups.len();
            let faster = group.members.partition_point(|&i| error_free_bps(i) <= best_bps);
            let faster = &group.members[faster..];
            let is_jump = turn % 2 == 1;
            *faster.get(if is_jump && !faster.is_empty() { self.rng.random_range(0..faster.len()) } else { 0 })?
        };
        let sampled_at = &mut self.sampled_at[usize::from(sample)];
        if *sampled_at == self.updates {
            return None;
        }
        *sampled_at = self.updates;
        Some(sample)
    }
}

impl RateControl for MinstrelHt {
    #[inline]
    fn choose(&mut self, _now: Time, is_retransmission: bool, _snr_db: Option<f32>) -> RateSeries {
        if is_retransmission || self.mpdus_since_sample < self.sample_wait || self.samples_left == 0 {
            return self.chain;
        }
        let Some(sample) = self.sample() else { return self.chain };
        self.samples_left -= 1;
        self.mpdus_since_sample = 0;
        let mode = self.table.modes[usize::from(sample)];
        let sample = RateSeries::of(Stage { mode, tries: 1, rts: false });
        self.chain.stages().iter().fold(sample, |series, &stage| series.then(stage)).sampling()
    }

    #[inline]
    fn on_status(&mut self, now: Time, status: &TxStatus<'_>) {
        self.table.record(status);
        let mpdus = u32::from(status.mpdus);
        self.mpdus_since_sample = self.mpdus_since_sample.saturating_add(mpdus);
        if status.is_ampdu && mpdus > 0 && !status.series.is_sample() {
            self.ampdus = self.ampdus.saturating_add(1);
            self.ampdu_mpdus = self.ampdu_mpdus.saturating_add(mpdus);
        }
        if now >= self.next_update {
            self.update(now);
        }
    }

    fn best(&self) -> Mode {
        self.table.modes[usize::from(self.ranking.by_throughput[0])]
    }
}
