//! Minstrel-HT of Linux 5.12 to 6.12, decision for decision: integers, order and ties are those of
//! `net/mac80211/rc80211_minstrel_ht.c` (named below by its functions), which it is held against in
//! `tests.rs`.

use rand::RngExt;

use super::super::{RateContext, RateControl, RateSeries, Stage, TxStatus};
use super::MinstrelHtConfig;
use crate::convert::{count8, count16, floor32, positive32, round32, saturate32, signed64};
use crate::units::{Probability, Span, Time};
use crate::wifi::phy::{Format, Mode};

/// The probability 1 (`MINSTREL_SCALE`).
const ONE: u32 = 1 << 12;
/// Thresholds of `minstrel_ht_set_best_prob_rate`, `minstrel_ht_next_jump_rate`,
/// `minstrel_ht_set_rate`.
const RELIABLE: u32 = ONE * 75 / 100;
const GOOD: u32 = ONE * 95 / 100;
const POOR: u32 = ONE * 20 / 100;
/// Airtime of a PPDU beside its data, us. It is an empty frame and an acknowledgement of ten bytes
/// at 6 Mbit/s, each with its SIFS (`minstrel_ht_update_caps`, `ieee80211_frame_duration` in
/// `util.c`). RTS and CTS take twice the time of the acknowledgement.
const OVERHEAD_US: u32 = 48 + 60;
const PROTECTION_US: u32 = 2 * 60;
/// Slot in `minstrel_calc_retransmit`, the same for every PHY.
const SLOT_US: u32 = 9;
/// MPDUs that a duration is averaged over (`AVG_AMPDU_SIZE`).
const DURATION_MPDUS: u32 = 16;
/// Rates in a group (`MCS_GROUP_RATES`), and in a list of samples (`MINSTREL_SAMPLE_RATES`).
pub(super) const GROUP_RATES: usize = 10;
const SAMPLES: usize = 5;
/// No rate.
const NONE: u16 = u16::MAX;

/// Kind of mode that a sample tests (`enum minstrel_sample_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// The next faster mode of a group.
    Step,
    /// Any faster mode.
    Jump,
    /// A mode between the fastest and the slowest of the series.
    Slow,
}

/// `minstrel_sample_seq`.
const AIMS: [Aim; 6] = [Aim::Step, Aim::Jump, Aim::Step, Aim::Jump, Aim::Step, Aim::Slow];

#[derive(Debug, Clone)]
pub(super) struct Rate {
    pub mode: Mode,
    group: u16,
    /// Its place in the group: the MCS, without that of the streams.
    pub place: u8,
    /// Mean duration of an MPDU's data. In 32 bits, as the kernel has it: they all fit a few cache
    /// lines.
    duration_ns: u32,
    /// MPDUs sent and acknowledged since the last evaluation; `was_tried`: true if any was sent
    /// before it.
    attempts: u32,
    successes: u32,
    was_tried: bool,
    /// Smoothed success probability, and its value one evaluation earlier.
    pub probability: u32,
    before: u32,
}

/// Modes of equal streams, width and guard interval.
#[derive(Debug, Clone)]
struct Group {
    /// In the list of rates, slowest first.
    rates: std::ops::Range<u16>,
    streams: u8,
    by_throughput: [u16; 4],
    most_reliable: u16,
    /// Its place in the table of samples.
    column: usize,
    line: usize,
}

/// Rates that wait for a test, and the group of the last one.
#[derive(Debug, Clone)]
struct Samples {
    rates: [u16; SAMPLES],
    group: usize,
}

/// Minstrel-HT since Linux 5.12, as one link has it.
#[derive(Debug)]
pub struct Targeted {
    interval: Span,
    sample_interval: Span,
    floor: u32,
    cap: u32,
    /// Weight of the old value, in 1/128.
    old_weight: i64,
    cw_min: u32,
    cw_max: u32,
    max_segment_us: u64,
    max_retry: u8,
    pub(super) rates: Vec<Rate>,
    /// By [`Mode::index`].
    rate_of: Vec<u16>,
    groups: Vec<Group>,
    columns: Vec<[u8; GROUP_RATES]>,
    by_throughput: [u16; 4],
    pub(super) most_reliable: u16,
    /// The stages as a driver takes them, one for each rate; and the series that is sent.
    pub(super) stages: [Stage; 4],
    chain: RateSeries,
    /// Frames and A-MPDUs since the last evaluation, and the MPDUs in them.
    ppdus: u32,
    mpdus: u32,
    /// MPDUs, in 1/4096.
    pub(super) mean_ampdu_len: u32,
    pub(super) evaluated: Time,
    sample_at: Time,
    turn: usize,
    steps: Samples,
    jumps: Samples,
    slow: Samples,
}

fn fixed_point(p: Probability) -> u32 {
    floor32(p.get() * f64::from(ONE))
}

/// Mean duration of an MPDU's data in an A-MPDU, rounded as the kernel's table is (`MCS_DURATION`,
/// `GROUP_SHIFT`).
fn rounded_duration(mode: Mode, streams_bits: u32, packet: u32, shift: Option<u32>) -> (Span, u32) {
    let symbols = (8 * packet * DURATION_MPDUS).div_ceil(streams_bits);
    let ns = if mode.is_short_gi() { (symbols * 18_000 + 4_000) / 5 } else { symbols * 4_000 } / DURATION_MPDUS;
    let shift = shift.unwrap_or(16u32.saturating_sub(ns.leading_zeros()));
    (Span::from_ns(u64::from((ns >> shift) << shift)), shift)
}

/// The smoothing of `minstrel_filter_avg_add`: a low pass of the second order (period 16). `last`
/// of 0: nothing was known.
fn smooth(sample: u32, last: u32, before: u32) -> u32 {
    let sample = i64::from(sample.max(1));
    if last == 0 {
        return positive32(sample);
    }
    const LAST: i64 = 0x1499;
    const BEFORE: i64 = -0x92e;
    let new = i64::from(ONE) - LAST - BEFORE;
    let sum = (new * sample + LAST * i64::from(last) + BEFORE * i64::from(before)) >> 12;
    if sum < 0 { 1 } else { positive32(sum.min(i64::from(ONE))) }
}

impl Targeted {
    pub(super) fn new(config: &MinstrelHtConfig, ctx: &RateContext) -> Targeted {
        let mut rng = ctx.stream.open();
        // `init_sample_table`: each rate goes a random number of places on, to the next that is
        // free.
        let columns = (0..config.sample_columns).map(|_| {
            let mut column = [u8::MAX; GROUP_RATES];
            for rate in 0..count8(GROUP_RATES) {
                let mut place = (usize::from(rate) + usize::from(rng.random::<u8>())) % GROUP_RATES;
                while column[place] != u8::MAX {
                    place = (place + 1) % GROUP_RATES;
                }
                column[place] = rate;
            }
            column
        });
        Targeted::with_columns(config, &ctx.modes, columns.collect())
    }

    pub(super) fn with_columns(config: &MinstrelHtConfig, modes: &[Mode], columns: Vec<[u8; GROUP_RATES]>) -> Targeted {
        let mut modes = modes.to_vec();
        let group_of = |m: &Mode| (m.format() as u8, m.width(), m.is_short_gi(), m.streams());
        modes.sort_by_key(|m| (group_of(m), m.mcs()));
        let mut groups: Vec<Group> = Vec::new();
        let mut rates: Vec<Rate> = Vec::with_capacity(modes.len());
        let mut rate_of = vec![NONE; Mode::COUNT];
        for members in modes.chunk_by(|a, b| group_of(a) == group_of(b)) {
            let first = count16(rates.len());
            let mut shift = None;
            for &mode in members {
                rate_of[mode.index()] = count16(rates.len());
                let streams = u32::from(mode.streams());
                // By whole bits of one stream, as the kernel's tables have them.
                let bits = mode.bits_per_symbol() / streams * streams;
                let (duration, group_shift) =
                    rounded_duration(mode, bits, saturate32(config.reference_packet.get()), shift);
                shift = Some(group_shift);
                let mcs = mode.mcs().unwrap_or(0);
                let place = if mode.format() == Format::Ht { mcs % 8 } else { mcs };
                rates.push(Rate {
                    mode,
                    group: count16(groups.len()),
                    place,
                    duration_ns: saturate32(duration.as_ns()),
                    attempts: 0,
                    successes: 0,
                    was_tried: false,
                    probability: 0,
                    before: 0,
                });
            }
            groups.push(Group {
                rates: first..count16(rates.len()),
                streams: members[0].streams(),
                by_throughput: [first; 4],
                most_reliable: first,
                column: 0,
                line: 0,
            });
        }
        // The kernel numbers the groups of HT first: the first group that a VHT station turns to is
        // its own first.
        let last_group = if modes[0].format() == Format::Vht { groups.len() - 1 } else { 0 };
        let samples = Samples { rates: [NONE; SAMPLES], group: last_group };
        let stage = Stage { mode: modes[0], tries: 1, rts: false };
        let mut minstrel = Targeted {
            interval: config.update_interval,
            sample_interval: config.sample_interval,
            floor: fixed_point(config.min_probability),
            cap: fixed_point(config.max_probability),
            old_weight: i64::from(round32(config.ewma_old_weight.get() * 128.0)),
            cw_min: config.cw_min,
            cw_max: config.cw_max,
            max_segment_us: config.max_segment.as_ns() / 1_000,
            max_retry: config.max_retry,
            rates,
            rate_of,
            groups,
            columns,
            by_throughput: [0; 4],
            most_reliable: 0,
            stages: [stage; 4],
            chain: RateSeries::of(stage),
            ppdus: 0,
            mpdus: 0,
            mean_ampdu_len: ONE,
            evaluated: Time::ZERO,
            sample_at: Time::ZERO,
            turn: 0,
            steps: samples.clone(),
            jumps: samples.clone(),
            slow: samples,
        };
        minstrel.evaluate(Time::ZERO);
        minstrel.set_chain();
        minstrel
    }

    fn rate(&self, i: u16) -> &Rate {
        &self.rates[usize::from(i)]
    }
    fn duration(&self, i: u16) -> Span {
        Span::from_ns(u64::from(self.rate(i).duration_ns))
    }
    /// MPDUs of the mean A-MPDU, as an integer of at least 1.
    fn mpdus_of_ampdu(&self) -> u32 {
        (self.mean_ampdu_len / ONE).max(1)
    }

    /// `minstrel_ht_get_tp_avg`, in hundredths of a packet per ms.
    pub(super) fn throughput(&self, i: u16) -> u32 {
        let rate = self.rate(i);
        if rate.probability < self.floor {
            return 0;
        }
        let ns = u64::from(1_000 * OVERHEAD_US / self.mpdus_of_ampdu() + rate.duration_ns);
        let packets = u64::from(rate.probability.min(self.cap)) * 1_000_000 / ns.max(1);
        saturate32(100 * packets / u64::from(ONE))
    }

    /// `minstrel_ht_sort_best_tp_rates`: of equal throughput the more probable first, of equals the
    /// one that was there.
    fn insert(&self, list: &mut [u16; 4], i: u16) {
        let key = |i: u16| (self.throughput(i), self.rate(i).probability);
        let (own, mut at) = (key(i), list.len());
        while at > 0 && own > key(list[at - 1]) {
            at -= 1;
        }
        if at < list.len() {
            list[at..].rotate_right(1);
            list[at] = i;
        }
    }

    /// Computes probabilities, ranking and samples from the counters (`minstrel_ht_update_stats`).
    #[cold]
    fn evaluate(&mut self, now: Time) {
        if self.ppdus > 0 {
            let mean = u64::from(self.mpdus) * u64::from(ONE) / u64::from(self.ppdus);
            let by = (128 - self.old_weight) * (signed64(mean) - i64::from(self.mean_ampdu_len)) / 128;
            self.mean_ampdu_len = positive32((i64::from(self.mean_ampdu_len) + by).clamp(i64::from(ONE), 1 << 30));
            (self.ppdus, self.mpdus) = (0, 0);
        }
        // Rates at the start of the ranking are compared by their old probabilities until their own
        // turn.
        let mut best = [0; 4];
        for g in 0..self.groups.len() {
            let members = self.groups[g].rates.clone();
            let mut best_of_group = [members.start; 4];
            let mut highest = 0;
            for i in members.rev() {
                let rate = &mut self.rates[usize::from(i)];
                if rate.attempts > 0 {
                    let share = u64::from(rate.successes) * u64::from(ONE) / u64::from(rate.attempts);
                    let last = rate.probability;
                    rate.probability = smooth(saturate32(share), last, rate.before);
                    rate.before = if last == 0 { rate.probability } else { last };
                    rate.was_tried = true;
                }
                (rate.attempts, rate.successes) = (0, 0);
                // A rate never tried counts as being as good as the best of the faster ones tried.
                if rate.was_tried {
                    highest = highest.max(rate.probability);
                } else {
                    rate.probability = rate.probability.max(highest);
                }
                if self.throughput(i) > 0 {
                    self.insert(&mut best, i);
                    self.insert(&mut best_of_group, i);
                }
            }
            self.groups[g].by_throughput = best_of_group;
        }
        self.by_throughput = best;
        self.rank_by_probability();
        self.refill_samples();
        self.evaluated = now;
        self.sample_at = now;
    }

    /// `minstrel_ht_set_best_prob_rate` for each rate, then `minstrel_ht_prob_rate_reduce_streams`.
    fn rank_by_probability(&mut self) {
        let best = self.by_throughput[0];
        let (best_duration, best_probability) = (self.duration(best), self.rate(best).probability);
        let is_better = |this: &Targeted, i: u16, than: u16| {
            let probability = this.rate(i).probability;
            if probability > RELIABLE {
                this.throughput(i) > this.throughput(than)
            } else {
                probability > this.rate(than).probability
            }
        };
        let mut most_reliable = 0;
        for g in 0..self.groups.len() {
            let members = self.groups[g].rates.clone();
            let mut of_group = members.start;
            for i in members {
                // Faster than the best, and less likely.
                if self.duration(i) < best_duration && self.rate(i).probability < best_probability {
                    continue;
                }
                if is_better(self, i, most_reliable) {
                    most_reliable = i;
                }
                if is_better(self, i, of_group) {
                    of_group = i;
                }
            }
            self.groups[g].most_reliable = of_group;
        }
        let streams = self.rate(best).mode.streams();
        let mut throughput = 0;
        for group in self.groups.iter().filter(|g| g.streams < streams) {
            let own = self.throughput(group.most_reliable);
            if own > throughput {
                (most_reliable, throughput) = (group.most_reliable, own);
            }
        }
        self.most_reliable = most_reliable;
    }

    /// `minstrel_ht_refill_sample_rates`.
    fn refill_samples(&mut self) {
        let of_series = [self.by_throughput[0], self.by_throughput[1], self.most_reliable].map(|i| self.duration(i));
        let [best, second, reliable] = of_series;
        let fast = best.min(second).min(reliable);
        let slow = best.max(second).max(reliable);

        let mut n = self.keep_samples(Aim::Step, fast, slow);
        while n < SAMPLES {
            let next = self.next_step(best);
            self.steps.rates[n] = next;
            if next == NONE {
                break;
            }
            n += 1;
        }
        let mut n = self.keep_samples(Aim::Jump, fast, slow);
        let mut slow_count = self.keep_samples(Aim::Slow, fast, slow);
        while n < SAMPLES {
            let next = self.next_jump(fast, slow, &mut slow_count);
            self.jumps.rates[n] = next;
            if next == NONE {
                break;
            }
            n += 1;
        }
    }

    fn samples(&mut self, aim: Aim) -> &mut Samples {
        match aim {
            Aim::Step => &mut self.steps,
            Aim::Jump => &mut self.jumps,
            Aim::Slow => &mut self.slow,
        }
    }

    /// Moves the rates that are still worth a test to the front; returns their number. A rate
    /// already in front is not counted and is overwritten, as in `minstrel_ht_move_sample_rates`.
    fn keep_samples(&mut self, aim: Aim, fast: Span, slow: Span) -> usize {
        let mut rates = self.samples(aim).rates;
        let mut kept = 0;
        for i in 0..SAMPLES {
            let rate = rates[i];
            if rate == NONE {
                continue;
            }
            let own = self.duration(rate);
            let is_worth_it = if aim == Aim::Slow { own > fast && own < slow } else { own < fast };
            if is_worth_it && i == kept {
                continue;
            }
            rates[i] = NONE;
            if is_worth_it {
                rates[kept] = rate;
                kept += 1;
            }
        }
        self.samples(aim).rates = rates;
        kept
    }

    /// True if the rate is in a list, which ends at its first gap (`minstrel_ht_find_sample_rate`).
    fn is_listed(list: &Samples, rate: u16) -> bool {
        list.rates.iter().take_while(|&&r| r != NONE).any(|&r| r == rate)
    }

    /// The slowest of a group that is faster than that (`minstrel_ht_group_min_rate_offset`).
    fn slowest_below(&self, group: usize, duration: Span) -> Option<u16> {
        self.groups[group].rates.clone().find(|&i| self.duration(i) < duration)
    }

    /// `minstrel_ht_next_inc_rate`: the groups take turns.
    fn next_step(&mut self, best: Span) -> u16 {
        for _ in 0..self.groups.len() {
            self.steps.group = (self.steps.group + 1) % self.groups.len();
            let slowest = self.slowest_below(self.steps.group, best);
            if let Some(rate) = slowest.filter(|&rate| !Self::is_listed(&self.steps, rate)) {
                return rate;
            }
        }
        NONE
    }

    /// `minstrel_ht_next_jump_rate`: a random faster rate, from the next group that has one. A rate
    /// between the fastest and the slowest of the series goes to the slow samples while they have
    /// room.
    fn next_jump(&mut self, fast: Span, slow: Span, slow_count: &mut usize) -> u16 {
        for _ in 0..self.groups.len() {
            self.jumps.group = (self.jumps.group + 1) % self.groups.len();
            let below = if *slow_count >= SAMPLES { fast } else { slow };
            let Some(slowest) = self.slowest_below(self.jumps.group, below) else { continue };
            let Some(rate) = self.draw(self.jumps.group, self.rate(slowest).place) else { continue };
            let own = self.duration(rate);
            if own < fast {
                if !Self::is_listed(&self.jumps, rate) {
                    return rate;
                }
                continue;
            }
            let is_wanted = !Self::is_listed(&self.slow, rate) && *slow_count < SAMPLES && own < slow;
            if is_wanted && self.rate(rate).probability <= GOOD {
                self.slow.rates[*slow_count] = rate;
                *slow_count += 1;
            }
        }
        NONE
    }

    /// The next of a group by the table of samples, not before a place in the group
    /// (`minstrel_ht_next_group_sample_rate`).
    fn draw(&mut self, group: usize, from: u8) -> Option<u16> {
        for _ in 0..GROUP_RATES {
            let group = &mut self.groups[group];
            let place = self.columns[group.column][group.line];
            group.line += 1;
            if group.line == GROUP_RATES {
                group.line = 0;
                group.column = (group.column + 1) % self.columns.len();
            }
            if place < from {
                continue;
            }
            let mut members = group.rates.clone();
            if let Some(rate) = members.find(|&i| self.rates[usize::from(i)].place == place) {
                return Some(rate);
            }
        }
        None
    }

    /// `minstrel_calc_retransmit` and `minstrel_ht_set_rate`: two tries, and as many more as fit a
    /// stage with its backoff.
    fn tries(&self, i: u16, rts: bool) -> u8 {
        let rate = self.rate(i);
        if rate.probability < POOR {
            return 2;
        }
        let slots = |cw: u32| u64::from(SLOT_US * cw / 2);
        let next = |cw: u32| (2 * cw + 1).min(self.cw_max);
        let data_us = u64::from(rate.duration_ns) * u64::from(self.mpdus_of_ampdu()) / 1_000;
        let bare_us = data_us + u64::from(OVERHEAD_US);
        // The time of the tries without protection bounds their number; with protection fewer may
        // fit.
        let try_us = bare_us + if rts { u64::from(PROTECTION_US) } else { 0 };
        let mut cw = next(self.cw_min);
        let backoff_us = slots(self.cw_min) + slots(cw);
        let (mut us, mut bare_sum_us) = (backoff_us + 2 * try_us, backoff_us + 2 * bare_us);
        let (mut tries, mut bare_tries) = (2, 2);
        loop {
            cw = next(cw);
            us += slots(cw) + try_us;
            bare_sum_us += slots(cw) + bare_us;
            if rts && us < self.max_segment_us {
                tries += 1;
            }
            if bare_sum_us >= self.max_segment_us {
                break;
            }
            bare_tries += 1;
            if bare_tries >= self.max_retry {
                break;
            }
        }
        if rts { tries } else { bare_tries }
    }

    /// `minstrel_ht_update_rates` for hardware with four stages: the best three by throughput, then
    /// the most reliable. All but the first are protected.
    #[cold]
    fn set_chain(&mut self) {
        let [best, second, third, _] = self.by_throughput;
        let chain = [best, second, third, self.most_reliable];
        for (n, i) in chain.into_iter().enumerate() {
            let rts = n > 0;
            self.stages[n] = Stage { mode: self.rate(i).mode, tries: self.tries(i, rts), rts };
        }
        self.chain = self.stages[1..].iter().fold(RateSeries::of(self.stages[0]), |series, &s| series.more(s));
    }

    /// `minstrel_downgrade_rate`: the rate in its place in the next group with no more streams.
    fn downgrade(&mut self, which: usize) {
        let group = usize::from(self.rate(self.by_throughput[which]).group);
        let streams = self.groups[group].streams;
        if let Some(lower) = self.groups[..group].iter().rev().find(|g| g.streams <= streams) {
            self.by_throughput[which] = lower.by_throughput[which];
        }
    }
}

impl RateControl for Targeted {
    #[inline]
    fn choose(&mut self, now: Time, is_retransmission: bool, _snr_db: Option<f32>) -> RateSeries {
        if is_retransmission || self.sample_at > now {
            return self.chain;
        }
        self.sample_at = now + self.sample_interval;
        let aim = AIMS[self.turn];
        self.turn = (self.turn + 1) % AIMS.len();
        let Some(slot) = self.samples(aim).rates.iter_mut().find(|r| **r != NONE) else { return self.chain };
        let sample = std::mem::replace(slot, NONE);
        let first = Stage { mode: self.rate(sample).mode, tries: 1, rts: false };
        self.stages[1..].iter().fold(RateSeries::of(first), |series, &stage| series.more(stage)).sampling()
    }

    #[inline]
    fn on_status(&mut self, now: Time, status: &TxStatus<'_>) {
        let mpdus = u32::from(status.mpdus);
        if mpdus > 0 {
            self.ppdus = self.ppdus.saturating_add(1);
            self.mpdus = self.mpdus.saturating_add(mpdus);
        }
        let mut last = NONE;
        for (stage, &tries) in status.series.stages().iter().zip(&status.tries) {
            if tries == 0 {
                continue;
            }
            last = self.rate_of[stage.mode.index()];
            if let Some(rate) = self.rates.get_mut(usize::from(last)) {
                rate.attempts = rate.attempts.saturating_add(u32::from(tries) * mpdus);
            }
        }
        if let Some(rate) = self.rates.get_mut(usize::from(last)) {
            rate.successes = rate.successes.saturating_add(u32::from(status.acked).min(mpdus));
        }
        // One of the two best rates fails nearly always: spatial streams may fade from one frame to
        // the next (`minstrel_ht_tx_status`).
        let mut is_new = false;
        for which in 0..2 {
            let rate = self.rate(self.by_throughput[which]);
            if rate.attempts > 30 && rate.successes < rate.attempts / 4 {
                self.downgrade(which);
                is_new = true;
            }
        }
        if now > self.evaluated + self.interval {
            self.evaluate(now);
            is_new = true;
        }
        if is_new {
            self.set_chain();
        }
    }

    fn best(&self) -> Mode {
        self.rate(self.by_throughput[0]).mode
    }
}
