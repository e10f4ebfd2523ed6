//! PIE: drops arriving packets with a probability that a PI controller steers towards a queueing delay.
//!
//! RFC 8033. Every `t_update` the probability moves by `alpha (delay - target) + beta (delay - delay before)`, the step
//! scaled down while the probability is small. Like CoDel it controls delay, not length; like RED it drops at random and at
//! the tail, before the packet costs anything. Bursts of up to `max_burst` after a quiet time pass untouched.
//!
//! Defaults are those of the basic algorithm (RFC 8033 section 4 and appendix A); the optional elements of section 5 are
//! parameters. Valid where `t_update` is well below the flows' round-trip times; `alpha` and `beta` belong to 15 ms and must
//! change with it (section 4.2).
//!
//! Choices where the RFC leaves one: the delay is measured by timestamps unless `delay = "departure_rate"`; an empty queue
//! has none. ECN marking is on. Updates happen at multiples of `t_update` since the start of the run, and rest while the
//! queue is empty and nothing is left to decay, which changes no outcome. The limit's default is Linux's. Linux's extra 2 %
//! at delays over 250 ms is not in the RFC and not here.

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Limit, QueueContext, Stamped, StampedFifo};
use crate::packet::{PacketId, Pool};
use crate::rng::Rng;
use crate::units::{Bytes, Probability, Span, Time};

/// How PIE learns the queueing delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DelayEstimate {
    /// The time that the packet which left last had waited.
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
    /// A burst this long after a quiet time is let pass. RFC 8033: 150 ms.
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
    pub delay: DelayEstimate,
    /// Keep random drops from coming too close together or too far apart (RFC 8033 section 5.4).
    pub derandomize: bool,
    /// From a probability of 0.1 on, add no more than 0.02 at a time (RFC 8033 section 5.5).
    pub cap_drop_adjustment: bool,
    /// Do nothing until the queue is a third of its limit, and again after it has been empty (RFC 8033 section 5.3).
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
        for (key, span) in [("target", self.target), ("t_update", self.t_update)] {
            if span.is_zero() {
                return Err(format!("`{key}` = 0ns: must be above zero, such as \"15ms\""));
            }
        }
        for (key, gain) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !(gain.is_finite() && gain >= 0.0) {
                return Err(format!("`{key}` = {gain}: must be a finite number, zero or above"));
            }
        }
        Ok(())
    }

    pub fn build(&self, ctx: &QueueContext) -> Pie {
        Pie {
            limit: Limit::or_packets(self.limit_packets, self.limit_bytes, 1000),
            // A zero would keep the deadline where it is.
            t_update: self.t_update.max(Span::from_ns(1)),
            mtu: u64::from(ctx.mtu),
            config: self.clone(),
            rng: ctx.rng.clone(),
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

/// Departure rate estimation (RFC 8033 section 5.2): how long `THRESHOLD` bytes take to leave, while that many wait.
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

#[derive(Debug, Clone)]
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
    /// Of the packet that left last.
    last_sojourn: Span,
    qdelay_old: Span,
    departures: Departures,
}

/// The factor by which a step of the drop probability is scaled down while the probability is small (RFC 8033 section 4.2).
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
        if (self.is_below_half_target(self.qdelay_old) && self.drop_prob < 0.2) || self.fifo.bytes() <= 2 * self.mtu {
            return false;
        }
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
        self.rng.random::<f64>() < self.drop_prob
    }

    /// RFC 8033 section 4.2.
    fn update_drop_prob(&mut self) {
        let qdelay = self.qdelay();
        let (delay, old) = (qdelay.as_secs_f64(), self.qdelay_old.as_secs_f64());
        let mut step = self.config.alpha * (delay - self.config.target.as_secs_f64()) + self.config.beta * (delay - old);
        step *= auto_tune(self.drop_prob);
        if self.config.cap_drop_adjustment && self.drop_prob >= 0.1 {
            step = step.min(0.02);
        }
        self.drop_prob += step;
        if qdelay.is_zero() && self.qdelay_old.is_zero() {
            self.drop_prob *= 0.98;
        }
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
            self.burst_allowance = self.config.max_burst;
        }
        if self.active && self.burst_allowance.is_zero() && self.drop_early() {
            self.accu_prob = 0.0;
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
