//! Measurements of both Minstrels: success probabilities by mode, airtimes, throughput estimates.
//! They are integers, as in a kernel: probabilities in 1/65536, throughput in bit/s.

use std::sync::Arc;

use super::{RateSeries, Stage, TxStatus};
use crate::convert::{count16, round32, saturate32};
use crate::units::{Probability, Span};
use crate::wifi::phy::{Mode, Timing};

/// The probability 1.
pub(super) const ONE: u32 = 1 << 16;

pub(super) fn fixed_point(p: Probability) -> u32 {
    round32(p.get() * f64::from(ONE))
}

/// Moves `average` towards `sample`; `old_weight` of [`ONE`] is the share of the average that
/// stays.
pub(super) fn ewma(average: u32, sample: u32, old_weight: u32) -> u32 {
    let sum = u64::from(average) * u64::from(old_weight) + u64::from(sample) * u64::from(ONE - old_weight);
    saturate32(sum >> 16)
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
    /// Ends an interval. Without an attempt the probability stays; the first measurement is taken
    /// as it is.
    pub(super) fn end_interval(&mut self, old_weight: u32) {
        if self.attempts == 0 {
            self.idle_intervals = self.idle_intervals.saturating_add(1);
            return;
        }
        let now = saturate32(u64::from(self.successes) * u64::from(ONE) / u64::from(self.attempts));
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
    pub(super) fn new(modes: &[Mode]) -> RateTable {
        let mut position = vec![ABSENT; Mode::COUNT];
        for (i, mode) in modes.iter().enumerate() {
            position[mode.index()] = count16(i);
        }
        RateTable { modes: modes.to_vec(), stats: vec![RateStats::default(); modes.len()], position }
    }

    /// Counts the MPDUs of a status. A mode that is not in the table is passed over.
    pub(super) fn record(&mut self, status: &TxStatus<'_>) {
        let mpdus = u32::from(status.mpdus);
        let mut last = None;
        for (stage, &tries) in status.series.stages().iter().zip(&status.tries) {
            if tries == 0 {
                continue;
            }
            last = self.stats.get_mut(usize::from(self.position[stage.mode.index()]));
            if let Some(s) = &mut last {
                s.attempts = s.attempts.saturating_add(u32::from(tries) * mpdus);
            }
        }
        if let Some(s) = last {
            s.successes = s.successes.saturating_add(u32::from(status.acked).min(mpdus));
        }
    }

    pub(super) fn end_interval(&mut self, old_weight: u32) {
        for stats in &mut self.stats {
            stats.end_interval(old_weight);
        }
    }
}

/// Parameters of the estimate of airtime.
#[derive(Debug, Clone)]
pub(super) struct Airtime {
    pub timing: Arc<Timing>,
    /// Slots; doubled per try up to `cw_max`.
    pub cw_min: u32,
    pub cw_max: u32,
    /// Most airtime of one stage.
    pub max_segment: Span,
    pub max_retry: u8,
}

impl Airtime {
    /// DIFS and the mean backoff out of a window.
    fn access(&self, cw: u32) -> Span {
        self.timing.difs() + self.timing.slot * u64::from(cw) / 2
    }
    /// From the start of the PPDU, or of the protection ahead of it, to the end of its
    /// acknowledgement.
    pub(super) fn exchange(&self, mode: Mode, psdu_bytes: u32, is_ampdu: bool) -> Span {
        let response = if is_ampdu { self.timing.block_ack(mode) } else { self.timing.ack(mode) };
        self.timing.protection_time(mode) + self.timing.ppdu(mode, psdu_bytes) + self.timing.sifs + response
    }
    /// Payload over the whole time of a first try, in bit/s.
    pub(super) fn error_free_bps(&self, payload_bits: u64, exchange: Span) -> u64 {
        payload_bits * 1_000_000_000 / (self.access(self.cw_min) + exchange).as_ns()
    }
    /// As many tries as fit one stage, backoff included: 1 to `max_retry`.
    pub(super) fn tries(&self, exchange: Span) -> u8 {
        let (mut tries, mut spent, mut cw) = (0, Span::ZERO, self.cw_min);
        while tries < self.max_retry {
            spent += self.access(cw) + exchange;
            if spent > self.max_segment {
                break;
            }
            tries += 1;
            cw = (2 * cw + 1).min(self.cw_max);
        }
        tries.max(1)
    }
}

/// Modes from which a series is built: indices into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ranking {
    /// Modes by throughput, the best first. Among equal ones (none measured) the slower comes
    /// first, since its frames are more likely to arrive.
    pub by_throughput: [u16; Ranking::KEPT],
    /// The highest probability; among those that are reliable, the highest throughput.
    pub max_prob: u16,
}

impl Ranking {
    /// Modes kept by throughput.
    pub(super) const KEPT: usize = 4;

    /// `throughput_bps` and `error_free_bps` by index; at least one mode.
    pub(super) fn new(stats: &[RateStats], throughput_bps: &[u64], error_free_bps: &[u64], reliable: u32) -> Ranking {
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
        for i in 0..count16(stats.len()) {
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

/// `throughput = probability * error-free throughput`, the probability capped and, below a floor,
/// taken as none.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wifi::phy::{PhyConfig, Standard};

    fn percent(p: u32) -> u32 {
        (u64::from(p) * u64::from(ONE) / 100) as u32
    }

    #[test]
    fn three_quarters_of_a_probability_are_old() {
        let old = percent(75);
        assert_eq!(ewma(ONE, 0, old), ONE * 3 / 4);
        assert_eq!(ewma(0, ONE, old), ONE / 4);
        assert_eq!(ewma(ONE / 2, ONE, old), ONE * 5 / 8);
        assert_eq!(ewma(ONE, ONE, old), ONE);
        assert_eq!(ewma(u32::MAX, u32::MAX, old), u32::MAX);

        let mut stats = RateStats::default();
        // Attempts and successes of an interval, and the probability after it in 1/65536.
        for (attempts, successes, probability, idle_intervals) in [
            (0, 0, 0, 1),
            (4, 3, 49_152, 0),  // the first measurement as it is
            (10, 0, 36_864, 0), // 0.75 * 0.75
            (0, 0, 36_864, 1),
            (0, 0, 36_864, 2),
            (1, 1, 44_032, 0), // 0.75 * 0.5625 + 0.25
        ] {
            (stats.attempts, stats.successes) = (attempts, successes);
            stats.end_interval(old);
            assert_eq!((stats.probability, stats.idle_intervals), (probability, idle_intervals));
            assert_eq!((stats.attempts, stats.successes), (0, 0));
        }
    }

    fn airtime() -> Airtime {
        // 802.11a: slot 9 us, DIFS 34 us.
        let timing = PhyConfig::of(Standard::A).timing().into();
        Airtime { timing, cw_min: 15, cw_max: 1023, max_segment: Span::from_ms(6), max_retry: 7 }
    }

    #[test]
    fn tries_fill_a_segment_with_growing_backoff() {
        let airtime = airtime();
        // Mean access times of the tries: 101.5, 173.5, 317.5, 605.5, 1181.5, 2333.5 us and so on.
        for (exchange_us, tries) in [
            (292, 5),    // 393.5 + 465.5 + 609.5 + 897.5 + 1473.5 = 3839.5; a sixth would need 2625.5
            (1000, 4),   // 1101.5 + 1173.5 + 1317.5 + 1605.5 = 5198
            (1200, 4),   // 5998
            (1201, 3),   // 6002
            (5898, 1),   // 5999.5
            (20_000, 1), // too long for a segment: once nevertheless
        ] {
            assert_eq!(airtime.tries(Span::from_us(exchange_us)), tries, "{exchange_us} us");
        }
        assert_eq!(Airtime { max_retry: 2, ..airtime.clone() }.tries(Span::from_us(292)), 2);
        assert_eq!(Airtime { cw_min: 0, cw_max: 0, ..airtime }.tries(Span::from_us(100)), 7);
    }

    #[test]
    fn throughput_is_payload_over_the_whole_exchange() {
        let airtime = airtime();
        // 1536-byte MPDU at 54 Mbit/s: 248 us, SIFS 16 us, ACK 28 us; before it DIFS and 7.5 slots,
        // 101.5 us.
        let exchange = airtime.exchange(Mode::OFDM[7], 1536, false);
        assert_eq!(exchange, Span::from_us(292));
        assert_eq!(airtime.error_free_bps(12_000, exchange), 30_495_552);

        let stats = |p| RateStats { probability: percent(p), is_measured: true, ..RateStats::default() };
        let bps = |p| throughput_bps(&stats(p), 10_000_000, percent(10), percent(90));
        for (p, expected) in [(0, 0), (9, 0), (50, 5_000_000), (90, 9_000_000), (95, 9_000_000), (100, 9_000_000)] {
            assert!(bps(p).abs_diff(expected) <= 200, "{p} %: {}", bps(p));
        }
        assert!(bps(11) > 1_090_000);
    }

    #[test]
    fn modes_are_ranked_by_throughput_and_the_reliable_by_probability() {
        let ranking = |measured: &[(u32, u64)]| {
            let stats: Vec<_> =
                measured.iter().map(|m| RateStats { probability: percent(m.0), ..RateStats::default() }).collect();
            let error_free: Vec<u64> = measured.iter().map(|m| m.1).collect();
            let throughput: Vec<u64> =
                stats.iter().zip(&error_free).map(|(s, &bps)| throughput_bps(s, bps, percent(10), ONE)).collect();
            let r = Ranking::new(&stats, &throughput, &error_free, percent(95));
            (r.by_throughput, r.max_prob)
        };
        // Probability in percent, throughput without errors.
        assert_eq!(ranking(&[(100, 6), (97, 12), (90, 24), (60, 48), (5, 54)]), ([3, 2, 1, 0], 1));
        assert_eq!(ranking(&[(80, 6), (94, 12), (90, 24), (60, 48)]), ([3, 2, 1, 0], 1));
        // Nothing known, or all lost: the slowest first.
        assert_eq!(ranking(&[(0, 12), (0, 6), (0, 24)]), ([1, 0, 2, 2], 1));
        assert_eq!(ranking(&[(100, 6)]), ([0, 0, 0, 0], 0));
    }

    #[test]
    fn earlier_tries_failed_in_full_and_the_last_in_part() {
        let modes = PhyConfig::of(Standard::N).modes();
        let mut table = RateTable::new(&modes[..4]);
        let stage = |i: usize| Stage { mode: modes[i], tries: 4, rts: false };
        // The last one is not in the table.
        let series = RateSeries::of(stage(3)).then(stage(1)).then(stage(2)).then(stage(7));
        let counted = |table: &RateTable| table.stats.iter().map(|s| (s.attempts, s.successes)).collect::<Vec<_>>();
        let status = |tries, mpdus, acked| TxStatus { series: &series, tries, mpdus, acked, is_ampdu: true };
        table.record(&status([2, 1, 0, 0], 10, 7));
        assert_eq!(counted(&table), [(0, 0), (10, 7), (0, 0), (20, 0)]);
        table.record(&status([1, 0, 0, 0], 10, 10));
        assert_eq!(counted(&table), [(0, 0), (10, 7), (0, 0), (30, 10)]);
        // More acknowledged than sent counts as all.
        table.record(&status([1, 0, 0, 0], 1, 9));
        assert_eq!(counted(&table), [(0, 0), (10, 7), (0, 0), (31, 11)]);
        table.record(&status([0, 0, 0, 0], 1, 1));
        assert_eq!(counted(&table), [(0, 0), (10, 7), (0, 0), (31, 11)]);
        // MPDUs that arrived in a mode outside the table are no success of another mode.
        table.record(&status([1, 0, 0, 1], 10, 10));
        assert_eq!(counted(&table), [(0, 0), (10, 7), (0, 0), (41, 11)]);
    }
}
