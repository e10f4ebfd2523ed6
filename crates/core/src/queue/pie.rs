//! PIE: drops arriving packets with a probability that a PI controller steers towards a queueing
//! delay.
//!
//! Source: RFC 8033. Defaults are those of the basic algorithm (section 4 and appendix A); the
//! optional elements of section 5 are parameters.
//!
//! Every `t_update` the probability moves by `alpha (delay - target) + beta (delay - delay
//! before)`. The step is scaled down while the probability is small. Bursts of up to `max_burst`
//! after a quiet time pass untouched.
//!
//! Siblings: PIE controls delay, as CoDel does, and not length as RED. It drops at random and at
//! the tail, as RED does, before the packet costs anything.
//!
//! Valid: where `t_update` is well below the flows' round-trip times. `alpha` and `beta` belong to
//! 15 ms and must change with it (section 4.2).
//!
//! Deviations: none from the RFC; these are its open choices. Timestamps measure the delay unless
//! `delay = "departure_rate"`; an empty queue has none. ECN marking is on. Updates happen at
//! multiples of `t_update` since the start of the run. They rest while the queue is empty and
//! nothing is left to decay, which changes no outcome. The limit's default is Linux's. Linux's
//! extra 2 % at delays over 250 ms is not in the RFC and not here.

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Limit, QueueContext, Stamped, StampedFifo};
use crate::packet::{PacketId, Pool};
use crate::policy::checked;
use crate::rng::Rng;
use crate::units::{Bytes, Probability, Span, Time};

/// Way in which PIE learns the queueing delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DelayEstimate {
    /// Waiting time of the packet that left last.
    Timestamp,
    /// Bytes waiting over the measured departure rate (RFC 8033 section 5.2).
    DepartureRate,
}

/// Both limits bind when both are given; with neither, 1000 packets as in Linux.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "PieConfig")]
pub struct PieConfig {
    /// Most packets waiting. At least 1.
    #[schemars(range(min = 1))]
    pub limit_packets: Option<u32>,
    /// Most bytes waiting.
    pub limit_bytes: Option<Bytes>,
    /// Queueing delay to steer to (`QDELAY_REF`). RFC 8033: 15 ms. Above zero.
    pub target: Span,
    /// Time between updates of the probability. RFC 8033: 15 ms. Above zero.
    pub t_update: Span,
    /// Longest burst after a quiet time that passes without drops. RFC 8033: 150 ms.
    pub max_burst: Span,
    /// Weight of the deviation from target, per second of delay. RFC 8033: 0.125.
    #[schemars(range(min = 0))]
    pub alpha: f64,
    /// Weight of the trend, per second of delay. RFC 8033: 1.25.
    #[schemars(range(min = 0))]
    pub beta: f64,
    /// Mark ECT packets instead of dropping them.
    pub ecn: bool,
    /// From this probability on, ECT packets are dropped too. RFC 8033: 0.1.
    pub mark_ecnth: Probability,
    #[allow(missing_docs)] // its type says it
    pub delay: DelayEstimate,
    /// Keep random drops from coming too close together or too far apart (RFC 8033 section 5.4).
    pub derandomize: bool,
    /// From a probability of 0.1 on, add no more than 0.02 at a time (RFC 8033 section 5.5).
    pub cap_drop_adjustment: bool,
    /// Do nothing until the queue is a third of its limit, and again after it has been empty (RFC
    /// 8033 section 5.3).
    pub on_off: bool,
}

impl Default for PieConfig {
    fn default() -> Self {
        PieConfig {
            limit_packets: None,
            limit_bytes: None,
            target: Span::from_ms(15),
            t_update: Span::from_ms(15),
            max_burst: Span::from_ms(150),
            alpha: 0.125,
            beta: 1.25,
            ecn: true,
            mark_ecnth: Probability::new(0.1).unwrap_or_default(),
            delay: DelayEstimate::Timestamp,
            derandomize: false,
            cap_drop_adjustment: false,
            on_off: false,
        }
    }
}

impl PieConfig {
    fn check(&self) -> Result<(), String> {
        Limit::check(self.limit_packets, self.limit_bytes)?;
        if self.target.is_zero() {
            return Err("`target` = 0ns: must be above zero, such as \"15ms\"".into());
        }
        if self.t_update < Span::from_us(1) {
            return Err(format!("`t_update` = {}: must be at least 1us, such as \"15ms\"", self.t_update));
        }
        for (key, gain) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !(gain.is_finite() && gain >= 0.0) {
                return Err(format!("`{key}` = {gain}: must be a finite number, zero or above"));
            }
        }
        Ok(())
    }

    /// The discipline of one line, at its beginning.
    pub fn build(&self, ctx: &QueueContext) -> Pie {
        Pie {
            limit: Limit::or_packets(self.limit_packets, self.limit_bytes, 1000),
            // A zero would keep the deadline where it is.
            t_update: self.t_update.max(Span::from_ns(1)),
            mtu: u64::from(ctx.mtu),
            config: self.clone(),
            rng: ctx.stream.open(),
            fifo: StampedFifo::default(),
            active: !self.on_off,
            next_update: Time::NEVER,
            drop_prob: 0.0,
            accu_prob: 0.0,
            burst_allowance: self.max_burst,
            last_sojourn: Span::ZERO,
            qdelay_old: Span::ZERO,
            departures: Departures::default(),
        }
    }
}
checked!(PieConfig);

/// Departure rate estimation (RFC 8033 section 5.2): how long `THRESHOLD` bytes take to leave,
/// while that many wait.
#[derive(Debug, Clone, Default)]
struct Departures {
    /// When the running measurement began and the bytes that left since.
    measuring: Option<(Time, u64)>,
    /// Average, seconds per `THRESHOLD` bytes; zero before the first measurement.
    average: f64,
}

impl Departures {
    /// `DQ_THRESHOLD`, bytes.
    const THRESHOLD: u64 = 1 << 14;
    /// `DQ_THRESHOLD / 2^16`.
    const WEIGHT: f64 = 0.25;

    /// `size` bytes left at `now`, `waiting` bytes remain.
    // [RFC8033-5.2-1]
    fn on_departure(&mut self, now: Time, size: u64, waiting: u64) {
        if let Some((since, bytes)) = &mut self.measuring {
            *bytes += size;
            if *bytes >= Self::THRESHOLD {
                let took = now.since(*since).as_secs_f64();
                let weight = if self.average == 0.0 { 1.0 } else { Self::WEIGHT };
                self.average += weight * (took - self.average);
                self.measuring = None;
            }
        }
        if self.measuring.is_none() && waiting >= Self::THRESHOLD {
            self.measuring = Some((now, 0));
        }
    }

    fn delay(&self, waiting: u64) -> Span {
        Span::from_secs_f64(waiting as f64 * self.average / Self::THRESHOLD as f64)
    }
}

/// PIE, as one line has it.
#[derive(Debug)]
pub struct Pie {
    config: PieConfig,
    limit: Limit,
    t_update: Span,
    /// Typical packet size, bytes (`MEAN_PKTSIZE`).
    mtu: u64,
    rng: Rng,
    fifo: StampedFifo,
    active: bool,
    next_update: Time,
    drop_prob: f64,
    /// Sum of the drop probabilities since the last drop.
    accu_prob: f64,
    burst_allowance: Span,
    /// Waiting time of the packet that left last.
    last_sojourn: Span,
    qdelay_old: Span,
    departures: Departures,
}

/// The factor by which a step of the drop probability is scaled down while the probability is small
/// (RFC 8033 section 4.2).
// [RFC8033-4.2-2]
fn auto_tune(drop_prob: f64) -> f64 {
    match drop_prob {
        p if p < 0.000_001 => 1.0 / 2048.0,
        p if p < 0.000_01 => 1.0 / 512.0,
        p if p < 0.000_1 => 1.0 / 128.0,
        p if p < 0.001 => 1.0 / 32.0,
        p if p < 0.01 => 1.0 / 8.0,
        p if p < 0.1 => 1.0 / 2.0,
        _ => 1.0,
    }
}

impl Pie {
    // [RFC8033-4.3-1]
    fn qdelay(&self) -> Span {
        match self.config.delay {
            _ if self.fifo.is_empty() => Span::ZERO,
            DelayEstimate::Timestamp => self.last_sojourn,
            DelayEstimate::DepartureRate => self.departures.delay(self.fifo.bytes()),
        }
    }

    fn is_below_half_target(&self, delay: Span) -> bool {
        delay.as_ns() < self.config.target.as_ns() / 2
    }

    /// RFC 8033 section 4.1 and, derandomised, section 5.4.
    fn drop_early(&mut self) -> bool {
        // [RFC8033-4.1-2] [RFC8033-4.1-3]
        if (self.is_below_half_target(self.qdelay_old) && self.drop_prob < 0.2) || self.fifo.bytes() <= 2 * self.mtu {
            return false;
        }
        // [RFC8033-5.4-1]
        if self.config.derandomize {
            if self.drop_prob == 0.0 {
                self.accu_prob = 0.0;
            }
            self.accu_prob += self.drop_prob;
            if self.accu_prob < 0.85 {
                return false;
            }
            if self.accu_prob >= 8.5 {
                return true;
            }
        }
        // [RFC8033-4.1-1]
        self.rng.random::<f64>() < self.drop_prob
    }

    /// RFC 8033 section 4.2.
    // [RFC8033-4.2-1]
    fn update_drop_prob(&mut self) {
        let qdelay = self.qdelay();
        let (delay, old) = (qdelay.as_secs_f64(), self.qdelay_old.as_secs_f64());
        let mut step =
            self.config.alpha * (delay - self.config.target.as_secs_f64()) + self.config.beta * (delay - old);
        step *= auto_tune(self.drop_prob);
        // [RFC8033-5.5-1]
        if self.config.cap_drop_adjustment && self.drop_prob >= 0.1 {
            step = step.min(0.02);
        }
        self.drop_prob += step;
        if qdelay.is_zero() && self.qdelay_old.is_zero() {
            // [RFC8033-4.2-3]
            self.drop_prob *= 0.98;
        }
        // [RFC8033-4.2-4]
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        self.qdelay_old = qdelay;
        self.burst_allowance = self.burst_allowance.saturating_sub(self.t_update);
    }

    /// Nothing to control and nothing left to decay.
    fn is_quiet(&self) -> bool {
        self.drop_prob == 0.0 && self.qdelay_old.is_zero() && self.qdelay().is_zero()
    }

    /// The first multiple of `t_update` after `now`.
    fn next_tick(&self, now: Time) -> Time {
        let t = self.t_update.as_ns();
        Time::from_ns((now.as_ns() / t + 1).saturating_mul(t))
    }

    /// RFC 8033 section 5.3, after an arrival.
    // [RFC8033-5.3-1]
    fn switch_on_or_off(&mut self) {
        if !self.active && self.limit.is_third_full(self.fifo.len(), self.fifo.bytes()) {
            self.active = true;
            self.drop_prob = 0.0;
            self.accu_prob = 0.0;
            self.qdelay_old = Span::ZERO;
            self.burst_allowance = self.config.max_burst;
            self.departures = Departures::default();
        } else if self.active && self.is_quiet() {
            self.active = false;
        }
    }
}

impl Aqm for Pie {
    fn enqueue(&mut self, now: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let size = u32::from(pool[id].size);
        if !self.limit.admits(self.fifo.len(), self.fifo.bytes(), size) {
            self.accu_prob = 0.0;
            drops.dropped.push((id, DropReason::Overflow));
            return;
        }
        if self.drop_prob == 0.0
            && self.is_below_half_target(self.qdelay_old)
            && self.is_below_half_target(self.qdelay())
        {
            // [RFC8033-4.4-1]
            self.burst_allowance = self.config.max_burst;
        }
        if self.active && self.burst_allowance.is_zero() && self.drop_early() {
            self.accu_prob = 0.0;
            // [RFC8033-5.1-1] [RFC8033-5.1-2]
            let may_mark = self.config.ecn && self.drop_prob < self.config.mark_ecnth.get();
            if !(may_mark && drops.try_mark(id, pool)) {
                drops.dropped.push((id, DropReason::Early));
                return;
            }
        }
        self.fifo.push(Stamped { id, size, at: now });
        if self.config.on_off {
            self.switch_on_or_off();
        }
        if self.active && self.next_update.is_never() {
            self.next_update = self.next_tick(now);
        }
    }

    fn dequeue(&mut self, now: Time, _: &mut Pool, _: &mut Drops) -> Option<PacketId> {
        let packet = self.fifo.pop()?;
        self.last_sojourn = packet.sojourn(now);
        if self.config.delay == DelayEstimate::DepartureRate {
            self.departures.on_departure(now, u64::from(packet.size), self.fifo.bytes());
        }
        Some(packet.id)
    }

    fn len_packets(&self) -> usize {
        self.fifo.len()
    }
    fn len_bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn deadline(&self) -> Time {
        self.next_update
    }
    fn on_deadline(&mut self, now: Time) {
        if now < self.next_update {
            return;
        }
        self.update_drop_prob();
        let rests = !self.active || (self.fifo.is_empty() && self.is_quiet());
        self.next_update = if rests { Time::NEVER } else { self.next_tick(now) };
    }

    fn drop_probability(&self) -> Option<f64> {
        Some(if self.active { self.drop_prob } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::queue::tests::{Rig, context, ms, packet};

    fn pie(config: PieConfig) -> Pie {
        config.build(&context(3))
    }

    /// With `n` packets of 1500 bytes waiting, a delay as given, no burst allowance left and this
    /// probability.
    fn congested(config: PieConfig, n: usize, delay: Span, drop_prob: f64) -> Pie {
        let mut q = pie(config);
        let mut rig = Rig::new(&mut q);
        for _ in 0..n {
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        }
        (q.last_sojourn, q.qdelay_old, q.drop_prob, q.burst_allowance) = (delay, delay, drop_prob, Span::ZERO);
        q
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * b.abs()
    }

    // [RFC8033-4.2-2]
    #[test]
    fn steps_are_scaled_down_while_the_probability_is_small() {
        let table = [
            (0.0, 2048.0),
            (0.000_000_9, 2048.0),
            (0.000_001, 512.0),
            (0.000_009, 512.0),
            (0.000_01, 128.0),
            (0.000_09, 128.0),
            (0.000_1, 32.0),
            (0.000_9, 32.0),
            (0.001, 8.0),
            (0.009, 8.0),
            (0.01, 2.0),
            (0.09, 2.0),
            (0.1, 1.0),
            (0.9, 1.0),
        ];
        for (p, divisor) in table {
            assert_eq!(auto_tune(p), 1.0 / divisor, "at {p}");
            // A steady 55 ms is 40 ms above target: alpha * 0.04 s = 0.005.
            let mut q = congested(PieConfig::default(), 10, Span::from_ms(55), p);
            q.update_drop_prob();
            assert!(close(q.drop_prob, p + 0.005 / divisor), "from {p} to {}", q.drop_prob);
        }
    }

    /// RFC 8033 section 4.2 worked by hand: (delay ms, probability after the update).
    // [RFC8033-4.2-1] [RFC8033-4.2-4]
    #[test]
    fn the_controller_weighs_deviation_and_trend() {
        let mut q = congested(PieConfig::default(), 10, Span::ZERO, 0.0);
        for (delay, expected) in [
            // (0.125 * 0.020 + 1.25 * 0.035) / 2048
            (35, 2.258_300_781_25e-5),
            // + 0.125 * 0.020 / 128
            (35, 4.211_425_781_25e-5),
            // + (0.125 * 0.085 + 1.25 * 0.065) / 128
            (100, 7.598_876_953_125e-4),
            // + 0.125 * 0.085 / 32
            (100, 1.091_918_945_312_5e-3),
            // + (0.125 * 0.185 + 1.25 * 0.1) / 8
            (200, 1.960_754_394_531_25e-2),
            // + (0.125 * 0.005 - 1.25 * 0.18) / 2, not below zero
            (20, 0.0),
        ] {
            q.last_sojourn = Span::from_ms(delay);
            q.update_drop_prob();
            assert!((q.drop_prob - expected).abs() < 1e-15, "{delay} ms: {} != {expected}", q.drop_prob);
        }
    }

    // [RFC8033-4.2-3]
    #[test]
    fn the_probability_decays_once_the_queue_has_been_empty_twice() {
        let mut q = congested(PieConfig::default(), 1, Span::from_ms(15), 0.5);
        q.fifo.pop();
        q.update_drop_prob();
        // alpha * -0.015 + beta * -0.015
        assert!(close(q.drop_prob, 0.5 - 0.020_625));
        let before = q.drop_prob;
        q.update_drop_prob();
        assert!(close(q.drop_prob, 0.98 * (before - 0.001_875)));
    }

    // [RFC8033-4.2-4] [RFC8033-5.5-1]
    #[test]
    fn increases_can_be_capped() {
        for (cap_drop_adjustment, from, to) in [(false, 0.1, 1.0), (true, 0.1, 0.12), (true, 0.09, 0.09 + 0.5)] {
            let config = PieConfig { cap_drop_adjustment, alpha: 20.0, ..PieConfig::default() };
            // 20 * 0.05 s = 1, halved below a probability of 0.1.
            let mut q = congested(config, 10, Span::from_ms(65), from);
            q.update_drop_prob();
            assert!(close(q.drop_prob, to), "{from}: {}", q.drop_prob);
        }
    }

    // [RFC8033-4.4-1]
    #[test]
    fn a_burst_after_quiet_passes() {
        let mut q = pie(PieConfig { limit_packets: Some(10_000), ..PieConfig::default() });
        let mut rig = Rig::new(&mut q);
        let mut first_drop = None;
        for t in 0..600 {
            rig.run_until(ms(t));
            // From 300 ms on three times what the line carries.
            for _ in 0..if t < 300 { 1 } else { 3 } {
                rig.arrive(ms(t), packet(0, 1500, Ecn::NotEct));
            }
            rig.leave(ms(t));
            if rig.q.drop_prob > 0.0 {
                rig.q.drop_prob = 1.0;
            }
            first_drop = first_drop.or(rig.dropped.first().map(|d| d.2));
        }
        // The delay passes half the target 12 ms later, so the allowance is full before the update
        // at 315 ms; ten updates, the last at 450 ms, use it up.
        assert_eq!(first_drop, Some(ms(450)));
    }

    // [RFC8033-4.1-2] [RFC8033-4.1-3]
    #[test]
    fn no_random_drop_while_the_delay_was_small_or_two_packets_wait() {
        let half = Span::from_us(7500);
        // (packets waiting, delay before, probability, dropped)
        for (n, delay, p, dropped) in [
            (2, half, 1.0, false),
            (3, half, 1.0, true),
            (3, Span::from_ns(7_499_999), 1.0, true),
            (3, Span::from_ns(7_499_999), 0.2, true),
            (3, Span::from_ns(7_499_999), 0.199, false),
            (3, Span::ZERO, 0.0, false),
        ] {
            let mut q = congested(PieConfig::default(), n, delay, p);
            let mut rig = Rig::new(&mut q);
            for _ in 0..100 {
                rig.arrive(ms(0), packet(0, 0, Ecn::NotEct));
            }
            assert_eq!(!rig.dropped.is_empty(), dropped, "{n} {delay} {p}");
        }
    }

    // [RFC8033-4.1-1] [RFC8033-5.1-1] [RFC8033-5.1-2]
    #[test]
    fn ect_packets_are_marked_below_the_threshold_and_dropped_above() {
        // (probability, ecn, packet's field, marked, dropped) of 1000 arrivals
        for (p, ecn, field, marks, loses) in [
            (0.099, true, Ecn::Ect0, true, false),
            (0.099, true, Ecn::NotEct, false, true),
            (0.099, false, Ecn::Ect0, false, true),
            (0.1, true, Ecn::Ect1, false, true),
            (0.099, true, Ecn::Ce, false, false),
        ] {
            let config = PieConfig { ecn, limit_packets: Some(5000), ..PieConfig::default() };
            let mut q = congested(config, 3, Span::from_ms(20), p);
            let mut rig = Rig::new(&mut q);
            for _ in 0..1000 {
                rig.arrive(ms(0), packet(0, 1500, field));
            }
            let near_100 = |n: usize, expected: bool| if expected { (60..140).contains(&n) } else { n == 0 };
            assert!(near_100(rig.marked.len(), marks), "{p} {field:?}: {} marked", rig.marked.len());
            assert!(near_100(rig.dropped.len(), loses), "{p} {field:?}: {} dropped", rig.dropped.len());
            assert!(rig.dropped.iter().all(|d| d.1 == DropReason::Early));
        }
    }

    // [RFC8033-5.4-1]
    #[test]
    fn derandomised_drops_keep_their_distance() {
        let config = PieConfig { derandomize: true, limit_packets: Some(1_000_000), ..PieConfig::default() };
        let p = 1.0 / 16.0; // sums exactly
        let mut q = congested(config, 3, Span::from_ms(20), p);
        let mut rig = Rig::new(&mut q);
        for _ in 0..100_000 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        }
        let numbers = rig.dropped_numbers();
        let gaps: Vec<u32> = numbers.windows(2).map(|w| w[1] - w[0]).collect();
        // 0.85 * 16 = 13.6: none before the 14th packet.
        assert_eq!(gaps.iter().min(), Some(&14));
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        // 13 packets for certain, then geometric with mean 16.
        assert!((28.0..30.0).contains(&mean), "{mean}");
        // At 8.5 * 16 = 136 it drops without a draw.
        rig.q.accu_prob = 8.5 - p;
        rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        assert_eq!(rig.dropped.len(), numbers.len() + 1);
        assert_eq!(rig.q.accu_prob, 0.0);
    }

    // [RFC8033-4.3-1] [RFC8033-5.2-1]
    #[test]
    fn the_departure_rate_gives_the_delay() {
        let config = PieConfig { delay: DelayEstimate::DepartureRate, ..PieConfig::default() };
        let mut q = pie(config);
        let mut rig = Rig::new(&mut q);
        for _ in 0..60 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        }
        // Measurement starts with the first departure and ends with the eleventh after it, 16 500
        // >= 16 384 bytes.
        for t in 1..12 {
            rig.leave(ms(t));
            assert_eq!(rig.q.qdelay(), Span::ZERO);
        }
        rig.leave(ms(12));
        assert!(close(rig.q.departures.average, 0.011));
        // 48 packets: 72 000 bytes * 11 ms / 16 384 bytes.
        assert_eq!(rig.q.qdelay().as_ns(), 48_339_844);
        // The line slows to 2 ms per packet: 0.25 * 22 ms + 0.75 * 11 ms.
        for t in 1..12 {
            rig.leave(ms(12 + 2 * t));
        }
        assert!(close(rig.q.departures.average, 0.013_75));
    }

    #[test]
    fn updates_rest_while_there_is_nothing_to_do() {
        let mut q = pie(PieConfig::default());
        let mut rig = Rig::new(&mut q);
        assert!(rig.q.deadline().is_never());
        rig.arrive(ms(20), packet(0, 1500, Ecn::NotEct));
        assert_eq!(rig.q.deadline(), ms(30));
        rig.leave(ms(29));
        rig.run_until(ms(30));
        assert!(rig.q.deadline().is_never());
        rig.arrive(ms(45), packet(0, 1500, Ecn::NotEct));
        assert_eq!(rig.q.deadline(), ms(60));
        rig.run_until(ms(60));
        assert_eq!(rig.q.deadline(), ms(75), "a packet waits");
    }

    // [RFC8033-5.3-1]
    #[test]
    fn it_can_stay_off_until_a_third_of_the_queue_is_full() {
        let mut q = pie(PieConfig { on_off: true, limit_packets: Some(30), ..PieConfig::default() });
        let mut rig = Rig::new(&mut q);
        for _ in 0..9 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        }
        assert!(!rig.q.active && rig.q.deadline().is_never());
        rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        assert!(rig.q.active);
        assert_eq!(rig.q.deadline(), ms(15));
        for t in 1..=10 {
            rig.leave(ms(t));
        }
        rig.run_until(ms(100));
        rig.arrive(ms(100), packet(0, 1500, Ecn::NotEct));
        rig.leave(ms(100));
        rig.arrive(ms(101), packet(0, 1500, Ecn::NotEct));
        rig.run_until(ms(200));
        assert!(!rig.q.active && rig.q.deadline().is_never());
    }

    /// Under a load of twice the line's rate that does not respond, half is dropped and the delay
    /// settles at target.
    // [RFC8033-4.1-1] [RFC8033-4.3-1]
    #[test]
    fn it_settles_at_the_target_delay() {
        for (delay, derandomize) in
            [(DelayEstimate::Timestamp, false), (DelayEstimate::DepartureRate, false), (DelayEstimate::Timestamp, true)]
        {
            let mut q = pie(PieConfig { delay, derandomize, ..PieConfig::default() });
            let mut rig = Rig::new(&mut q);
            let (mut waited, mut left, mut dropped_before) = (0.0, 0u32, 0);
            for t in 0..60_000 {
                rig.run_until(ms(t));
                for _ in 0..2 {
                    rig.arrive(ms(t), packet(0, 1500, Ecn::NotEct));
                }
                rig.leave(ms(t));
                if t == 20_000 {
                    dropped_before = rig.dropped.len();
                }
                if t > 20_000 {
                    waited += rig.q.last_sojourn.as_secs_f64();
                    left += 1;
                }
            }
            let loss = (rig.dropped.len() - dropped_before) as f64 / 80_000.0;
            let mean_delay = waited / f64::from(left);
            assert!((0.49..0.51).contains(&loss), "{loss}");
            assert!((0.0135..0.0165).contains(&mean_delay), "{delay:?}: {mean_delay}");
        }
    }
}
