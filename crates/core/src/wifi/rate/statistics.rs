//! What both Minstrels measure: success probabilities by mode, airtimes, throughput estimates. Integers, as in a kernel:
//! probabilities in 1/65536, throughput in bit/s.

use super::{RateSeries, Stage, TxStatus};
use crate::units::Probability;
use crate::wifi::phy::{Mode, Timing};

/// The probability 1.
pub(super) const ONE: u32 = 1 << 16;

pub(super) fn fixed_point(p: Probability) -> u32 {
    (p.get() * f64::from(ONE)).round() as u32
}

/// Moves `average` towards `sample`; `old_weight` of [`ONE`] is the share of the average that stays.
pub(super) fn ewma(average: u32, sample: u32, old_weight: u32) -> u32 {
    let sum = u64::from(average) * u64::from(old_weight) + u64::from(sample) * u64::from(ONE - old_weight);
    (sum >> 16) as u32
}

/// One mode's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RateStats {
    /// MPDUs sent and acknowledged in the running interval.
    pub attempts: u32,
    pub successes: u32,
    /// Smoothed success probability per MPDU; 0 while nothing was measured.
    pub probability: u32,
    pub is_measured: bool,
    /// Intervals in a row, up to the last one, without an attempt.
    pub idle_intervals: u32,
}

impl RateStats {
    /// Ends an interval. Without an attempt the probability stays; the first measurement is taken as it is.
    pub fn end_interval(&mut self, old_weight: u32) {
        if self.attempts == 0 {
            self.idle_intervals = self.idle_intervals.saturating_add(1);
            return;
        }
        let now = (u64::from(self.successes) * u64::from(ONE) / u64::from(self.attempts)) as u32;
        self.probability = if self.is_measured { ewma(self.probability, now, old_weight) } else { now };
        self.is_measured = true;
        self.idle_intervals = 0;
        (self.attempts, self.successes) = (0, 0);
    }
}

/// Modes with their records.
#[derive(Debug, Clone)]
pub(super) struct RateTable {
    pub modes: Vec<Mode>,
    pub stats: Vec<RateStats>,
    /// By [`Mode::index`]: where the mode is in `modes`.
    position: Vec<u16>,
}

const ABSENT: u16 = u16::MAX;

impl RateTable {
    pub fn new(modes: &[Mode]) -> RateTable {
        let mut position = vec![ABSENT; Mode::COUNT];
        for (i, mode) in modes.iter().enumerate() {
            position[mode.index()] = i as u16;
        }
        RateTable { modes: modes.to_vec(), stats: vec![RateStats::default(); modes.len()], position }
    }

    /// Counts what a status says. A mode that is not in the table is passed over.
    pub fn record(&mut self, status: &TxStatus<'_>) {
        let mpdus = u32::from(status.mpdus);
        let mut last = None;
        for (stage, &tries) in status.series.stages().iter().zip(&status.tries) {
            let at = self.position[stage.mode.index()];
            if tries == 0 || at == ABSENT {
                continue;
            }
            let at = usize::from(at);
            self.stats[at].attempts = self.stats[at].attempts.saturating_add(u32::from(tries) * mpdus);
            last = Some(at);
        }
        if let Some(last) = last {
            let s = &mut self.stats[last];
            s.successes = s.successes.saturating_add(u32::from(status.acked).min(mpdus));
        }
    }

    pub fn end_interval(&mut self, old_weight: u32) {
        for stats in &mut self.stats {
            stats.end_interval(old_weight);
        }
    }
}

/// How airtime is estimated.
#[derive(Debug, Clone)]
pub(super) struct Airtime {
    pub timing: Timing,
    /// Slots; doubled per try up to `cw_max`.
    pub cw_min: u32,
    pub cw_max: u32,
    /// Most airtime of one stage.
    pub max_segment_ns: u64,
    pub max_retry: u8,
}

impl Airtime {
    /// DIFS and the mean backoff out of a window.
    fn access_ns(&self, cw: u32) -> u64 {
        self.timing.difs_ns() + u64::from(cw) * self.timing.slot_ns / 2
    }
    /// From the start of the PPDU, or of the protection ahead of it, to the end of its acknowledgement.
    pub fn exchange_ns(&self, mode: Mode, psdu_bytes: u32, is_ampdu: bool) -> u64 {
        let response = if is_ampdu { self.timing.block_ack_ns(mode) } else { self.timing.ack_ns(mode) };
        self.timing.protection_ns(mode) + self.timing.ppdu_ns(mode, psdu_bytes) + self.timing.sifs_ns + response
    }
    /// Payload over the whole time of a first try, in bit/s.
    pub fn error_free_bps(&self, payload_bits: u64, exchange_ns: u64) -> u64 {
        payload_bits * 1_000_000_000 / (self.access_ns(self.cw_min) + exchange_ns)
    }
    /// As many tries as fit one stage, backoff included: 1 to `max_retry`.
    pub fn tries(&self, exchange_ns: u64) -> u8 {
        let (mut tries, mut spent_ns, mut cw) = (0, 0, self.cw_min);
        while tries < self.max_retry {
            spent_ns += self.access_ns(cw) + exchange_ns;
            if spent_ns > self.max_segment_ns {
                break;
            }
            tries += 1;
            cw = (2 * cw + 1).min(self.cw_max);
        }
        tries.max(1)
    }
}

/// The modes that a chain is made of: indices into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ranking {
    /// The best throughput first. Of equal ones (none measured) the slower first: what is most likely to get through.
    pub by_throughput: [u16; Ranking::KEPT],
    /// The highest probability; among those that are reliable, the highest throughput.
    pub max_prob: u16,
}

impl Ranking {
    /// Modes kept by throughput.
    pub const KEPT: usize = 4;

    /// `throughput_bps` and `error_free_bps` by index; at least one mode.
    pub fn new(stats: &[RateStats], throughput_bps: &[u64], error_free_bps: &[u64], reliable: u32) -> Ranking {
        let by_throughput = |a: u16, b: u16| {
            let (a, b) = (usize::from(a), usize::from(b));
            throughput_bps[b].cmp(&throughput_bps[a]).then(error_free_bps[a].cmp(&error_free_bps[b])).is_lt()
        };
        let by_probability = |a: u16, b: u16| {
            let (p, q) = (stats[usize::from(a)].probability, stats[usize::from(b)].probability);
            let (p, q) = (p.min(reliable), q.min(reliable));
            if p == q { by_throughput(a, b) } else { p > q }
        };
        let mut best = [ABSENT; Ranking::KEPT];
        let mut max_prob = 0;
        for i in 0..stats.len() as u16 {
            if by_probability(i, max_prob) {
                max_prob = i;
            }
            let mut candidate = i;
            for slot in &mut best {
                if *slot == ABSENT || by_throughput(candidate, *slot) {
                    std::mem::swap(slot, &mut candidate);
                }
                if candidate == ABSENT {
                    break;
                }
            }
        }
        for slot in 1..Ranking::KEPT {
            if best[slot] == ABSENT {
                best[slot] = best[slot - 1];
            }
        }
        Ranking { by_throughput: best, max_prob }
    }
}

/// `throughput = probability * error-free throughput`, the probability capped and, below a floor, taken as none.
pub(super) fn throughput_bps(stats: &RateStats, error_free_bps: u64, floor: u32, cap: u32) -> u64 {
    if stats.probability < floor {
        return 0;
    }
    (error_free_bps * u64::from(stats.probability.min(cap))) >> 16
}

/// A series through these modes, each with its tries.
pub(super) fn series(modes: &[Mode], tries: &[u8], chain: &[u16]) -> RateSeries {
    let stage = |&i: &u16| Stage { mode: modes[usize::from(i)], tries: tries[usize::from(i)], rts: false };
    chain[1..].iter().fold(RateSeries::of(stage(&chain[0])), |series, i| series.then(stage(i)))
}
