//! Minstrel-HT of Linux 2.6.35 to 5.11 in its main rules: samples by a shuffled table, slow modes
//! rarely.

use std::sync::Arc;

use super::super::statistics::{Airtime, ONE, Ranking, RateTable, ewma, fixed_point, throughput_bps};
use super::super::{RateContext, RateControl, RateSeries, Stage, TxStatus, append_shuffled};
use super::MinstrelHtConfig;
use crate::convert::{count16, saturate32};
use crate::units::{Span, Time};
use crate::wifi::phy::{Mode, timing};

/// Modes of equal streams, width and guard interval.
#[derive(Debug, Clone)]
struct Group {
    /// The columns of the sample table one after the other, and the place in them.
    samples: Vec<u16>,
    next: usize,
}

/// Minstrel-HT until Linux 5.11, as one link has it.
#[derive(Debug)]
pub struct ByTable {
    config: MinstrelHtConfig,
    table: RateTable,
    airtime: Airtime,
    /// By index of the mode: longest A-MPDU in bytes; tries of a stage, without and with
    /// protection; throughput without and with errors.
    longest_psdu: Vec<u32>,
    tries: Vec<[u8; 2]>,
    error_free_bps: Vec<u64>,
    throughput_bps: Vec<u64>,
    ranking: Ranking,
    /// The series of frames that are no samples, and its stages behind the first.
    chain: RateSeries,
    fall_back: [Stage; 2],
    old_weight: u32,
    floor: u32,
    cap: u32,
    reliable: u32,
    next_update: Time,
    /// A-MPDUs of the running interval, and the MPDUs in them.
    ampdus: u32,
    ampdu_mpdus: u32,
    /// MPDUs, in 1/65536.
    mean_ampdu_len: u32,
    groups: Vec<Group>,
    next_group: usize,
    mpdus_since_sample: u32,
    sample_wait: u32,
    samples_left: u16,
    slow_left: u16,
}

impl ByTable {
    pub(super) fn new(config: &MinstrelHtConfig, ctx: &RateContext) -> ByTable {
        let mut rng = ctx.stream.open();
        let modes = &ctx.modes;
        let group_of = |m: Mode| (m.streams(), m.width(), m.is_short_gi());
        let mut keys: Vec<_> = modes.iter().map(|&m| group_of(m)).collect();
        keys.sort_unstable();
        keys.dedup();
        let groups: Vec<Group> = keys
            .into_iter()
            .map(|key| {
                let mut members: Vec<u16> = (0..count16(modes.len())).collect();
                members.retain(|&i| group_of(modes[usize::from(i)]) == key);
                members.sort_by_key(|&i| modes[usize::from(i)].rate());
                let mut samples = Vec::with_capacity(usize::from(config.sample_columns) * members.len());
                for _ in 0..config.sample_columns {
                    append_shuffled(&mut samples, members.iter().copied(), &mut rng);
                }
                Group { samples, next: 0 }
            })
            .collect();
        let subframe = timing::subframe_bytes(timing::mpdu_bytes(saturate32(config.reference_packet.get()), true));
        let longest = |&mode: &Mode| {
            let bytes = ctx.timing.psdu_bytes_within(mode, config.max_airtime);
            bytes.min(mode.max_psdu_bytes()).max(subframe)
        };
        let first = Stage { mode: modes[0], tries: 1, rts: false };
        let mut minstrel = ByTable {
            table: RateTable::new(modes),
            airtime: Airtime {
                timing: Arc::clone(&ctx.timing),
                cw_min: config.cw_min,
                cw_max: config.cw_max,
                max_segment: config.max_segment,
                max_retry: config.max_retry,
            },
            longest_psdu: modes.iter().map(longest).collect(),
            tries: vec![[2; 2]; modes.len()],
            error_free_bps: vec![0; modes.len()],
            throughput_bps: vec![0; modes.len()],
            ranking: Ranking { by_throughput: [0; Ranking::KEPT], max_prob: 0 },
            chain: RateSeries::of(first),
            fall_back: [first; 2],
            old_weight: fixed_point(config.ewma_old_weight),
            floor: fixed_point(config.min_probability),
            cap: fixed_point(config.max_probability),
            reliable: fixed_point(config.reliable),
            next_update: Time::ZERO + config.update_interval,
            ampdus: 0,
            ampdu_mpdus: 0,
            mean_ampdu_len: ONE,
            groups,
            next_group: 0,
            // Starts with a sample.
            mpdus_since_sample: u32::MAX,
            sample_wait: 0,
            samples_left: 0,
            slow_left: 0,
            config: config.clone(),
        };
        minstrel.evaluate();
        minstrel
    }

    /// Ends an interval.
    #[cold]
    fn update(&mut self, now: Time) {
        self.next_update = now + self.config.update_interval;
        self.table.end_interval(self.old_weight);
        if self.ampdus > 0 {
            let mean = saturate32(u64::from(self.ampdu_mpdus) * u64::from(ONE) / u64::from(self.ampdus));
            self.mean_ampdu_len = ewma(self.mean_ampdu_len, mean, self.old_weight).max(ONE);
            (self.ampdus, self.ampdu_mpdus) = (0, 0);
        }
        self.evaluate();
    }

    /// Computes throughputs, the series and the allowance of samples from the counters.
    fn evaluate(&mut self) {
        let packet = saturate32(self.config.reference_packet.get());
        let mpdu = timing::mpdu_bytes(packet, true);
        let subframe = timing::subframe_bytes(mpdu);
        let is_ampdu = self.mean_ampdu_len > ONE;
        let ampdu_bytes = (u64::from(self.mean_ampdu_len) * u64::from(subframe)) >> 16;
        for (i, &mode) in self.table.modes.iter().enumerate() {
            let (psdu, payload) = if is_ampdu {
                let psdu = ampdu_bytes.min(u64::from(self.longest_psdu[i]));
                (saturate32(psdu), psdu * u64::from(packet) / u64::from(subframe))
            } else {
                (mpdu, u64::from(packet))
            };
            let exchange = self.airtime.exchange(mode, psdu, is_ampdu);
            // A stage has at least two tries, and two in a mode that hardly works
            // (`minstrel_ht_set_rate` of 3.10 to 5.11). Tries of the fall-back are protected.
            let rts = self.airtime.timing.rts(mode) + self.airtime.timing.cts(mode) + self.airtime.timing.sifs * 2;
            let fit = |time: Span| {
                let is_poor = self.table.stats[i].probability < ONE / 5;
                if is_poor { 2 } else { self.airtime.tries(time).max(2) }
            };
            self.tries[i] = [fit(exchange), fit(exchange + rts)];
            self.error_free_bps[i] = self.airtime.error_free_bps(8 * payload, exchange);
            self.throughput_bps[i] = throughput_bps(&self.table.stats[i], self.error_free_bps[i], self.floor, self.cap);
        }
        self.ranking = Ranking::new(&self.table.stats, &self.throughput_bps, &self.error_free_bps, self.reliable);
        let [best, second, ..] = self.ranking.by_throughput;
        let [best, second, reliable] = [best, second, self.ranking.max_prob].map(usize::from);
        let stage =
            |i: usize, rts: bool| Stage { mode: self.table.modes[i], tries: self.tries[i][usize::from(rts)], rts };
        self.fall_back = [stage(second, true), stage(reliable, true)];
        self.chain = RateSeries::of(stage(best, false)).more(self.fall_back[0]).more(self.fall_back[1]);
        self.sample_wait = u32::from(self.config.sample_wait) + 2 * (self.mean_ampdu_len >> 16);
        self.samples_left = self.config.samples_per_interval;
        self.slow_left = self.config.slow_per_interval;
    }

    fn is_in_series(&self, i: u16) -> bool {
        let [best, second, ..] = self.ranking.by_throughput;
        i == best || i == second || i == self.ranking.max_prob
    }

    /// The mode to test now, if the next one in turn is worth a test.
    fn sample(&mut self) -> Option<u16> {
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
}

impl RateControl for ByTable {
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
        // It stands in the place of the best, as since 3.10.
        sample.more(self.fall_back[0]).more(self.fall_back[1]).sampling()
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
