//! RED: drops or marks arriving packets with a probability that rises with the average queue
//! length.
//!
//! Source: Floyd and Jacobson, "Random Early Detection gateways for congestion avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993. Defaults are Floyd's recommendations ("RED: discussions
//! of setting parameters", 1997; "Recommendation on using the gentle variant of RED", 2000):
//! `min_th` 5, `max_th` three times that, `max_p` 0.1, `w_q` 0.002, `gentle`, and ns-2's waiting
//! between signals. `target_delay` and `adaptive` follow Floyd, Gummadi and Shenker, "Adaptive RED:
//! an algorithm for increasing the robustness of RED's active queue management", 2001.
//!
//! The average is exponentially weighted and decays over idle times as if small packets had come.
//! Below `min_th` every packet passes. Between the two thresholds the probability rises to `max_p`.
//! Signals are spaced out by counting the packets since the last one. `target_delay` sets
//! thresholds and weight from the line rate; `adaptive` moves `max_p`. ns-2 sets both itself unless
//! told otherwise.
//!
//! Siblings: CoDel and PIE control delay. RED controls length, so its thresholds have to fit the
//! line.
//!
//! Valid: on a line whose rate is known and hardly varies.
//!
//! Deviations: as in ns-2, a queue of at most one packet gets no signal. An idle time counts as
//! whole packets of `mean_packet` at the line's rate. `max_p` adapts on the first arrival after
//! each half second, as in ns-2, not by a timer. In `bytes` mode the spacing counts bytes too, as
//! in ns-2. Above the upper threshold ECT packets are dropped as well, as in ns-2.

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Fifo, Limit, QueueContext};
use crate::convert::floor32;
use crate::packet::{PacketId, Pool};
use crate::policy::checked;
use crate::rng::Rng;
use crate::units::{Bytes, DataRate, Probability, Span, Time};

/// Both limits bind when both are given; with neither, ns-2's 50 packets or four times `max_th`,
/// whichever is more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "RedConfig")]
pub struct RedConfig {
    /// Most packets waiting. At least 1.
    #[schemars(range(min = 1))]
    pub limit_packets: Option<u32>,
    /// Most bytes waiting.
    pub limit_bytes: Option<Bytes>,
    /// Average length below which every packet passes; packets, in `bytes` mode of `mean_packet`
    /// bytes each. Above zero. When left out: a third of `max_th` if that is given, else by
    /// `target_delay`, else 5.
    pub min_th: Option<f64>,
    /// Average length at which the probability is `max_p`; packets. Above `min_th`. When left out:
    /// three times `min_th`.
    pub max_th: Option<f64>,
    /// Weight of the present length in the average. Above zero. When left out: by `target_delay`,
    /// else 0.002.
    pub w_q: Option<Probability>,
    /// Probability at `max_th`, and the start of `adaptive`. Above zero.
    pub max_p: Probability,
    /// Above `max_th` let the probability rise to 1 at twice `max_th`, instead of dropping every
    /// packet.
    pub gentle: bool,
    /// Let at least `1/p` packets pass between two signals, instead of at least none.
    pub wait: bool,
    /// Average bytes, and give large packets a larger probability, instead of counting packets.
    pub bytes: bool,
    /// Size of a typical packet. Default: the line's MTU.
    pub mean_packet: Option<Bytes>,
    /// Move `max_p` between 0.01 and 0.5 so that the average stays midway between the thresholds.
    pub adaptive: bool,
    /// Average delay from which thresholds and weight follow if they are not given. `min_th` is
    /// half the packets of that delay at the line's rate, at least 5. `w_q` has a time constant
    /// of one second. Above zero.
    pub target_delay: Option<Span>,
    /// Mark ECT packets instead of dropping them early.
    pub ecn: bool,
}

impl Default for RedConfig {
    fn default() -> Self {
        RedConfig {
            limit_packets: None,
            limit_bytes: None,
            min_th: None,
            max_th: None,
            w_q: None,
            max_p: Probability::new(0.1).unwrap_or_default(),
            gentle: true,
            wait: true,
            bytes: false,
            mean_packet: None,
            adaptive: false,
            target_delay: None,
            ecn: true,
        }
    }
}

impl RedConfig {
    fn check(&self) -> Result<(), String> {
        Limit::check(self.limit_packets, self.limit_bytes)?;
        for (key, threshold) in [("min_th", self.min_th), ("max_th", self.max_th)] {
            if let Some(v) = threshold.filter(|v| !(v.is_finite() && *v > 0.0 && *v <= MAX_TH)) {
                return Err(format!("`{key}` = {v}: must be above zero and at most {MAX_TH} (packets)"));
            }
        }
        if let (Some(min_th), Some(max_th)) = (self.min_th, self.max_th) {
            if max_th <= min_th {
                return Err(format!("`max_th` = {max_th}: must be above `min_th` ({min_th})"));
            }
        }
        for (key, p) in [("w_q", self.w_q), ("max_p", Some(self.max_p))] {
            if p == Some(Probability::ZERO) {
                return Err(format!("`{key}` = 0: must be above 0 and at most 1"));
            }
        }
        if self.mean_packet == Some(Bytes::new(0)) {
            return Err("`mean_packet` = 0B: must be at least \"1B\"".into());
        }
        if self.target_delay == Some(Span::ZERO) {
            return Err("`target_delay` = 0ns: must be above zero, such as \"5ms\"".into());
        }
        Ok(())
    }

    /// The discipline of one line, at its beginning.
    pub fn build(&self, ctx: &QueueContext) -> Red {
        let mean_packet = self.mean_packet.map_or(u64::from(ctx.mtu), Bytes::get).max(1);
        let per_second = ctx.rate.as_bps() as f64 / (8.0 * mean_packet as f64);
        let auto_min_th =
            || self.target_delay.map(|d| (d.as_secs_f64() * per_second / 2.0).clamp(DEFAULT_MIN_TH, MAX_TH / 3.0));
        let given = self.min_th.or(self.max_th.map(|v| v / 3.0));
        let min_th = given.or_else(auto_min_th).unwrap_or(DEFAULT_MIN_TH);
        let max_th = self.max_th.unwrap_or(3.0 * min_th);
        let w_q = match (self.w_q, self.target_delay) {
            (Some(w_q), _) => w_q.get(),
            (None, None) => 0.002,
            (None, Some(_)) => one_minus_exp_minus(1.0 / per_second),
        };
        let limit = Limit::or_packets(self.limit_packets, self.limit_bytes, floor32((4.0 * max_th).ceil()).max(50));
        let unit = if self.bytes { mean_packet as f64 } else { 1.0 };
        Red {
            min_th: min_th * unit,
            max_th: max_th * unit,
            w_q,
            max_p: self.max_p.get(),
            gentle: self.gentle,
            wait: self.wait,
            bytes: self.bytes,
            ecn: self.ecn,
            mean_packet,
            rate: ctx.rate,
            next_adaptation: if self.adaptive { Time::ZERO + ADAPT_EVERY } else { Time::NEVER },
            rng: ctx.stream.open(),
            fifo: Fifo::with_limit(limit),
            average: 0.0,
            idle_since: Some(Time::ZERO),
            since_signal: None,
        }
    }
}
checked!(RedConfig);

const DEFAULT_MIN_TH: f64 = 5.0;
/// Packets; keeps four times as much a packet count.
const MAX_TH: f64 = 1e9;

// Adaptive RED (Floyd, Gummadi and Shenker 2001).
const ADAPT_EVERY: Span = Span::from_ms(500);
const MAX_P_RANGE: (f64, f64) = (0.01, 0.5);
const MAX_P_DECREASE: f64 = 0.9;

/// `1 - exp(-x)` for `0 <= x`; from 1 on its value at 1. By its series, so that every machine gets
/// the same bits.
fn one_minus_exp_minus(x: f64) -> f64 {
    let x = x.clamp(0.0, 1.0);
    let (mut sum, mut term) = (0.0, -1.0);
    for k in 1..=20 {
        term *= -x / f64::from(k);
        sum += term;
    }
    sum
}

/// `base^n` by squaring: multiplications only, so that every machine gets the same bits.
fn power(mut base: f64, mut n: u64) -> f64 {
    let mut result = 1.0;
    while n > 0 && result > 0.0 {
        if n & 1 == 1 {
            result *= base;
        }
        base *= base;
        n >>= 1;
    }
    result
}

/// RED, as one line has it.
#[derive(Debug)]
pub struct Red {
    /// Both in the unit of the average: packets or bytes.
    min_th: f64,
    max_th: f64,
    w_q: f64,
    max_p: f64,
    gentle: bool,
    wait: bool,
    bytes: bool,
    ecn: bool,
    mean_packet: u64,
    rate: DataRate,
    next_adaptation: Time,
    rng: Rng,
    fifo: Fifo,
    average: f64,
    /// When the queue became empty.
    idle_since: Option<Time>,
    /// Bytes and packets that have passed since the last signal; `None` while the average is below
    /// `min_th`.
    since_signal: Option<Passed>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    packets: u64,
    bytes: u64,
}

/// Treatment of an arriving packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// Signal congestion: mark or drop.
    Signal,
    Drop,
}

impl Red {
    /// Before the packet that arrives at `now` is counted.
    fn update_average(&mut self, now: Time) {
        if let Some(since) = &mut self.idle_since {
            let idle = now.since(*since);
            *since = now;
            self.average *= power(1.0 - self.w_q, self.rate.bytes_in(idle).get() / self.mean_packet);
        } else {
            let present = if self.bytes { self.fifo.len_bytes() as f64 } else { self.fifo.len_packets() as f64 };
            self.average += self.w_q * (present - self.average);
        }
    }

    /// Adaptive RED: additive increase, multiplicative decrease of `max_p`; the target is the
    /// middle fifth.
    fn adapt(&mut self, now: Time) {
        self.next_adaptation = now + ADAPT_EVERY;
        let part = 0.4 * (self.max_th - self.min_th);
        if self.average > self.max_th - part && self.max_p <= MAX_P_RANGE.1 {
            self.max_p += (self.max_p / 4.0).min(0.01);
        } else if self.average < self.min_th + part && self.max_p >= MAX_P_RANGE.0 {
            self.max_p *= MAX_P_DECREASE;
        }
    }

    /// The probability by the average alone, `p_b` in the paper; 1 where every packet is dropped.
    fn base_probability(&self) -> f64 {
        let avg = self.average;
        if avg < self.min_th {
            0.0
        } else if avg < self.max_th {
            self.max_p * (avg - self.min_th) / (self.max_th - self.min_th)
        } else if self.gentle && avg < 2.0 * self.max_th {
            self.max_p + (1.0 - self.max_p) * (avg - self.max_th) / self.max_th
        } else {
            1.0
        }
    }

    fn judge(&mut self, size: u32) -> Verdict {
        if self.average < self.min_th || self.fifo.len_packets() <= 1 {
            self.since_signal = None;
            return Verdict::Pass;
        }
        let upper = if self.gentle { 2.0 * self.max_th } else { self.max_th };
        if self.average >= upper {
            self.since_signal = Some(Passed::default());
            return Verdict::Drop;
        }
        // The paper's count, which starts from -1 when the average comes from below and else
        // includes this packet.
        let passed = match self.since_signal {
            None => Passed::default(),
            Some(p) => Passed { packets: p.packets + 1, bytes: p.bytes + u64::from(size) },
        };
        self.since_signal = Some(passed);
        let count = if self.bytes { passed.bytes as f64 / self.mean_packet as f64 } else { passed.packets as f64 };
        let mut p = spaced(self.base_probability(), count, self.wait);
        if self.bytes && p < 1.0 {
            p *= f64::from(size) / self.mean_packet as f64;
        }
        if p > 0.0 && self.rng.random::<f64>() < p {
            self.since_signal = Some(Passed::default());
            return Verdict::Signal;
        }
        Verdict::Pass
    }
}

/// `p_a` in the paper: makes the gaps between signals uniform, on `1..1/p` or, waiting, on
/// `1/p..2/p`.
fn spaced(p: f64, count: f64, wait: bool) -> f64 {
    let done = count * p;
    let p = match wait {
        false if done < 1.0 => p / (1.0 - done),
        true if done < 1.0 => 0.0,
        true if done < 2.0 => p / (2.0 - done),
        _ => 1.0,
    };
    p.min(1.0)
}

impl Aqm for Red {
    fn enqueue(&mut self, now: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let size = u32::from(pool[id].size);
        self.update_average(now);
        if now >= self.next_adaptation {
            self.adapt(now);
        }
        if !self.fifo.has_room(size) {
            self.since_signal = Some(Passed::default());
            drops.dropped.push((id, DropReason::Overflow));
            return;
        }
        let passes = match self.judge(size) {
            Verdict::Pass => true,
            Verdict::Signal => self.ecn && drops.try_mark(id, pool),
            Verdict::Drop => false,
        };
        if passes {
            self.idle_since = None;
            self.fifo.enqueue(now, id, pool, drops);
        } else {
            drops.dropped.push((id, DropReason::Early));
        }
    }
    fn dequeue(&mut self, now: Time, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId> {
        let id = self.fifo.dequeue(now, pool, drops)?;
        if self.fifo.len_packets() == 0 {
            self.idle_since = Some(now);
        }
        Some(id)
    }
    fn len_packets(&self) -> usize {
        self.fifo.len_packets()
    }
    fn len_bytes(&self) -> u64 {
        self.fifo.len_bytes()
    }
    fn drop_probability(&self) -> Option<f64> {
        Some(self.base_probability())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::queue::tests::{Rig, context, ms, packet};

    fn red(config: RedConfig) -> Red {
        config.build(&context(5))
    }

    fn p(v: f64) -> Probability {
        Probability::new(v).unwrap()
    }

    /// Room for everything, thresholds out of reach.
    fn passive(w_q: f64) -> RedConfig {
        let (limit_packets, min_th) = (Some(100_000), Some(1e6));
        RedConfig { limit_packets, min_th, w_q: Some(p(w_q)), ..RedConfig::default() }
    }

    /// `n` packets waiting and the average held at `average` by a weight of next to nothing.
    fn at_average(config: RedConfig, n: u32, average: f64) -> Red {
        let config = RedConfig { w_q: Some(p(1e-300)), limit_packets: Some(1_000_000), ..config };
        let mut q = red(config);
        let mut rig = Rig::new(&mut q);
        for _ in 0..n {
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        }
        q.average = average;
        q
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * b.abs()
    }

    /// Floyd and Jacobson 1993, section 6: with w_q = 0.001, while the queue grows from 0 to 100
    /// packets, one by one, the average rises to 4.88 packets.
    #[test]
    fn the_average_follows_the_papers_example() {
        let mut q = red(passive(0.001));
        let mut rig = Rig::new(&mut q);
        for _ in 0..=100 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        }
        // The last arrival saw 100 packets. L + 1 + ((1 - w)^(L + 1) - 1) / w for L = 100.
        assert!((rig.q.average - (101.0 + (power(0.999, 101) - 1.0) / 0.001)).abs() < 1e-9, "{}", rig.q.average);
        assert!((4.875..4.895).contains(&rig.q.average));
    }

    #[test]
    fn an_idle_time_counts_as_small_queues() {
        let mut q = red(passive(0.1));
        let mut rig = Rig::new(&mut q);
        rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        rig.leave(ms(1));
        rig.q.average = 8.0;
        // Idle from 1 ms to 4.999 ms: three whole packets of 1500 bytes at 12 Mbit/s.
        rig.arrive(ms(5) - Span::from_us(1), packet(0, 1500, Ecn::NotEct));
        assert!(close(rig.q.average, 8.0 * 0.9 * 0.9 * 0.9), "{}", rig.q.average);
        // Not idle now: one packet waits.
        let before = rig.q.average;
        rig.arrive(ms(9), packet(0, 1500, Ecn::NotEct));
        assert!(close(rig.q.average, before + 0.1 * (1.0 - before)));
        rig.leave(ms(9));
        rig.leave(ms(9));
        rig.arrive(ms(3_600_000), packet(0, 1500, Ecn::NotEct));
        assert!(rig.q.average < 1e-300);
    }

    #[test]
    fn an_arrival_that_finds_no_room_does_not_end_the_idle_time_nor_count_it_twice() {
        let mut q = red(RedConfig { limit_bytes: Some(Bytes::new(1000)), ..passive(0.1) });
        let mut rig = Rig::new(&mut q);
        rig.q.average = 8.0;
        rig.arrive(ms(2), packet(0, 1500, Ecn::NotEct));
        assert_eq!(rig.dropped.len(), 1);
        rig.arrive(ms(5), packet(0, 1000, Ecn::NotEct));
        assert!(close(rig.q.average, 8.0 * power(0.9, 5)), "{}", rig.q.average);
    }

    #[test]
    fn the_average_counts_bytes_in_byte_mode() {
        let mut q = red(RedConfig { bytes: true, ..passive(0.5) });
        let mut rig = Rig::new(&mut q);
        for size in [1000, 500, 40] {
            rig.arrive(ms(0), packet(0, size, Ecn::NotEct));
        }
        assert_eq!(rig.q.average, 0.5 * 1500.0 + 0.25 * 1000.0);
        assert_eq!((rig.q.min_th, rig.q.max_th), (1.5e9, 4.5e9));
    }

    #[test]
    fn the_probability_rises_between_the_thresholds() {
        for (average, gentle, steep) in [
            (4.99, 0.0, 0.0),
            (5.0, 0.0, 0.0),
            (7.5, 0.025, 0.025),
            (10.0, 0.05, 0.05),
            (14.0, 0.09, 0.09),
            (15.0, 0.1, 1.0),
            (22.5, 0.55, 1.0),
            (30.0, 1.0, 1.0),
            (99.0, 1.0, 1.0),
        ] {
            for (is_gentle, expected) in [(true, gentle), (false, steep)] {
                let q = at_average(RedConfig { gentle: is_gentle, ..RedConfig::default() }, 5, average);
                assert!((q.base_probability() - expected).abs() < 1e-12, "{average}: {}", q.base_probability());
            }
        }
    }

    #[test]
    fn signals_are_spaced() {
        for (p, count, wait, expected) in [
            (0.1, 0.0, false, 0.1),
            (0.1, 5.0, false, 0.2),
            (0.1, 9.0, false, 1.0),
            (0.1, 10.0, false, 1.0),
            (0.1, 99.0, false, 1.0),
            (0.1, 0.0, true, 0.0),
            (0.1, 9.9, true, 0.0),
            (0.1, 10.0, true, 0.1),
            (0.1, 15.0, true, 0.2),
            (0.1, 19.0, true, 1.0),
            (0.1, 20.0, true, 1.0),
            (0.7, 1.0, false, 1.0),
        ] {
            assert!((spaced(p, count, wait) - expected).abs() < 1e-9, "{p} {count} {wait}: {}", spaced(p, count, wait));
        }
    }

    /// Drops of 100 000 arrivals at an average of 10 packets, that is with p_b = 0.05.
    #[test]
    fn gaps_between_signals_are_uniform() {
        for (wait, least, most, mean) in [(false, 1, 20, 10.5), (true, 20, 40, 30.0)] {
            let mut q = at_average(RedConfig { wait, ..RedConfig::default() }, 10, 10.0);
            let mut rig = Rig::new(&mut q);
            for _ in 0..100_000 {
                rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
                rig.q.average = 10.0;
            }
            let numbers = rig.dropped_numbers();
            let gaps: Vec<u32> = numbers.windows(2).map(|w| w[1] - w[0]).collect();
            assert!(gaps.iter().all(|g| (least..=most).contains(g)), "{gaps:?}");
            let got = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
            assert!((got - mean).abs() < 1.0, "wait {wait}: {got}");
            // Every value about equally often.
            for value in least + 1..most {
                let share = gaps.iter().filter(|&&g| g == value).count() as f64 / gaps.len() as f64;
                assert!((0.035..0.065).contains(&share), "{value}: {share}");
            }
        }
    }

    /// (average, gentle, packet's field) → of 1000 arrivals to 10 packets: some marked, some
    /// dropped early.
    #[test]
    fn what_becomes_of_arrivals() {
        let cases = [
            (4.9, true, Ecn::NotEct, "", ""),
            (10.0, true, Ecn::NotEct, "", "some"),
            (10.0, true, Ecn::Ect0, "some", ""),
            (10.0, true, Ecn::Ce, "", ""),
            (20.0, true, Ecn::Ect1, "some", ""),
            (15.0, false, Ecn::Ect1, "", "all"),
            (30.0, true, Ecn::Ect1, "", "all"),
        ];
        for (average, gentle, ecn, marked, dropped) in cases {
            let mut q = at_average(RedConfig { gentle, ..RedConfig::default() }, 10, average);
            let mut rig = Rig::new(&mut q);
            let says = |n: usize| match n {
                0 => "",
                1000 => "all",
                _ => "some",
            };
            for _ in 0..1000 {
                rig.arrive(ms(0), packet(0, 1500, ecn));
                rig.q.average = average;
            }
            assert_eq!((says(rig.marked.len()), says(rig.dropped.len())), (marked, dropped), "{average} {ecn:?}");
            assert!(rig.dropped.iter().all(|d| d.1 == DropReason::Early));
        }
    }

    #[test]
    fn a_queue_of_at_most_one_packet_gets_no_signal() {
        let mut q = at_average(RedConfig::default(), 0, 0.0);
        let mut rig = Rig::new(&mut q);
        for dropped in [0, 0, 1, 2] {
            rig.q.average = 30.0;
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
            assert_eq!(rig.dropped.len(), dropped);
        }
    }

    #[test]
    fn ecn_can_be_off() {
        let mut q = at_average(RedConfig { ecn: false, ..RedConfig::default() }, 10, 10.0);
        let mut rig = Rig::new(&mut q);
        for _ in 0..100 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::Ect0));
        }
        assert!(rig.marked.is_empty() && !rig.dropped.is_empty());
    }

    #[test]
    fn in_byte_mode_large_packets_are_signalled_more_often() {
        let mut hits = [0, 0];
        let config = RedConfig { bytes: true, wait: false, ..RedConfig::default() };
        let mut q = at_average(config, 10, 10.0 * 1500.0);
        let mut rig = Rig::new(&mut q);
        let mut small = Vec::new();
        for i in 0..100_000u32 {
            let size = if i % 2 == 0 { 1500 } else { 150 };
            let n = rig.arrive(ms(0), packet(0, size, Ecn::NotEct));
            if size == 150 {
                small.push(n);
            }
            rig.q.average = 10.0 * 1500.0;
        }
        for n in rig.dropped_numbers() {
            hits[usize::from(small.binary_search(&n).is_err())] += 1;
        }
        let ratio = f64::from(hits[1]) / f64::from(hits[0]);
        assert!((8.0..12.5).contains(&ratio), "{hits:?}");
    }

    #[test]
    fn thresholds_default_to_each_other_and_to_the_target_delay() {
        let fast = QueueContext { rate: DataRate::from_mbps(100), ..context(0) };
        // 100 Mbit/s are 8333.3 packets of 1500 bytes per second: half of 5 ms of them are 20.83.
        let auto = 100e6 / 12_000.0 * 0.005 / 2.0;
        let cases = [
            (None, None, None, 5.0, 15.0),
            (Some(20.0), None, None, 20.0, 60.0),
            (None, Some(30.0), None, 10.0, 30.0),
            (Some(4.0), Some(8.0), None, 4.0, 8.0),
            (None, None, Some(5), auto, 3.0 * auto),
            (None, None, Some(1), 5.0, 15.0),
            (None, Some(9.0), Some(5), 3.0, 9.0),
        ];
        for (min_th, max_th, target_ms, low, high) in cases {
            let config =
                RedConfig { min_th, max_th, target_delay: target_ms.map(Span::from_ms), ..RedConfig::default() };
            let q = config.build(&fast);
            assert!(close(q.min_th, low) && close(q.max_th, high), "{config:?}: {} {}", q.min_th, q.max_th);
            let w_q = if target_ms.is_some() { -(-12_000.0f64 / 100e6).exp_m1() } else { 0.002 };
            assert!(close(q.w_q, w_q), "{} != {w_q}", q.w_q);
        }
    }

    #[test]
    fn the_default_limit_leaves_room_above_the_thresholds() {
        for (max_th, limit) in [(None, 60), (Some(10.0), 50), (Some(1000.0), 4000)] {
            let config = RedConfig { max_th, w_q: Some(p(1e-300)), ..RedConfig::default() };
            let mut q = red(config);
            let mut rig = Rig::new(&mut q);
            for _ in 0..5000 {
                rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
            }
            assert_eq!(rig.q.len_packets(), limit);
        }
    }

    #[test]
    fn adaptive_red_moves_max_p_every_half_second() {
        let mut q = at_average(RedConfig { adaptive: true, ecn: false, ..RedConfig::default() }, 10, 0.0);
        let mut rig = Rig::new(&mut q);
        // (time ms, average, max_p after an arrival then). The target is 9 to 11.
        for (t, average, expected) in [
            (499, 12.0, 0.1),
            (500, 12.0, 0.11),
            (999, 12.0, 0.11),
            (1000, 10.9, 0.11),
            (1500, 9.1, 0.11),
            (2000, 8.9, 0.11 * 0.9),
            (9000, 8.9, 0.11 * 0.81),
            (9499, 8.9, 0.11 * 0.81),
        ] {
            rig.q.average = average;
            rig.arrive(ms(t), packet(0, 1500, Ecn::NotEct));
            assert!(close(rig.q.max_p, expected), "{t} ms: {}", rig.q.max_p);
        }
        // It stays within its range: small values grow by a quarter, 0.5 is passed by one step at
        // most.
        for (start, average, steps, range) in [(0.02, 8.0, 100, 0.009..0.01), (0.02, 12.0, 100, 0.5..0.51)] {
            rig.q.max_p = start;
            for _ in 0..steps {
                rig.q.average = average;
                rig.q.adapt(ms(10_000));
            }
            assert!(range.contains(&rig.q.max_p), "{}", rig.q.max_p);
        }
        rig.q.max_p = 0.02;
        rig.q.average = 12.0;
        rig.q.adapt(ms(10_000));
        assert!(close(rig.q.max_p, 0.025));
    }

    #[test]
    fn powers_and_exponentials_without_a_maths_library() {
        for (base, n) in [(0.998, 0), (0.998, 1), (0.998, 7), (0.998, 1000), (0.5, 62), (0.0, 3), (1.0, u64::MAX)] {
            let expected = f64::powf(base, n as f64);
            assert!((power(base, n) - expected).abs() <= 1e-12 * expected, "{base}^{n}");
        }
        assert_eq!(power(0.999, u64::MAX), 0.0);
        for x in [0.0f64, 1e-9, 1e-4, 0.1, 0.5, 1.0] {
            assert!(close(one_minus_exp_minus(x), -(-x).exp_m1()) || x == 0.0, "{x}");
        }
        assert_eq!(one_minus_exp_minus(f64::INFINITY), one_minus_exp_minus(1.0));
    }
}
