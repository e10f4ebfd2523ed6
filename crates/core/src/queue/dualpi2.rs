//! DualPI2: two queues that share a line and one controller, so that scalable flows (L4S) wait a
//! millisecond beside classic ones.
//!
//! Source: RFC 9332, appendix A, with the overload of A.2. Where Linux (net/sched/sch_dualpi2.c,
//! 6.17) differs from it, the text below says so.
//!
//! Packets with ECT(1) or CE go to the low-latency queue, all others to the classic one. Every
//! `t_update` a PI controller moves a base probability `p` by the classic queue's delay. Classic
//! packets are dropped, or with ECT(0) marked, with `p²`, low-latency packets marked with `k p`. So
//! flows that react to `p` and flows that react to its square get the same share. Beside that a
//! low-latency packet is marked when it waited long itself: never up to `min_th`, always from
//! `min_th + range` on.
//!
//! Siblings: `pie` controls one queue and drops at the tail. `fq_codel` separates flows instead of
//! two kinds of them.
//!
//! Valid: beside scalable senders such as `prague` and `dctcp`. Without any, it is a PI² for
//! classic traffic. Ten `dctcp` and ten Reno have equal shares of 100 Mbit/s over 40 ms. With few
//! and fast flows the scalable ones take more. At 20 Mbit/s each they have 1.4 to 1.5 times as
//! much. Their round trip is shorter, by 1.1 to 1.2. And `p` varies with the classic flows'
//! windows, which get signals by the mean of its square. Linux's `dctcp` has three times as much
//! there, since its 10 bits do not average rare marks (`alpha_bits`).
//!
//! Deviations: where the RFC leaves it open, as Linux does. The controller sees the longer of the
//! two queues' delays, each that of the packet that waits longest. The scheduler takes low-latency
//! packets first and leaves the classic queue a tenth of the line, counted while both have
//! something. The limit is in packets. A counter decides if a packet is dropped or marked (`recur`
//! of the RFC), not a random number. The drops of overload have a count of their own. Updates
//! happen at multiples of `t_update` since the start of the run and rest while nothing waits and
//! `p` is zero.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Limit, QueueContext, Stamped, StampedFifo};
use crate::packet::{Ecn, PacketId, Pool};
use crate::policy::checked;
use crate::range::within;
use crate::units::{Bytes, Span, Time};

/// Both limits bind when both are given; with neither, 10 000 packets as in Linux.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "Dualpi2Config")]
pub struct Dualpi2Config {
    /// Most packets waiting, in both queues. At least 1.
    #[schemars(range(min = 1))]
    pub limit_packets: Option<u32>,
    /// Most bytes waiting, in both queues.
    pub limit_bytes: Option<Bytes>,
    /// Delay of the classic queue to steer to. RFC 9332: 15 ms. Above zero.
    pub target: Span,
    /// Time between updates of the probability. RFC 9332: the lesser of `target` and a third of the
    /// longest round trip; Linux: 16 ms.
    pub t_update: Span,
    /// Weight of the deviation from target in an update, per second of delay. RFC 9332: 0.16 for
    /// round trips up to 100 ms.
    #[schemars(range(min = 0))]
    pub alpha: f64,
    /// Weight of the trend in an update, per second of delay. RFC 9332: 3.2 for round trips up to
    /// 100 ms.
    #[schemars(range(min = 0))]
    pub beta: f64,
    /// Coupling of the low-latency queue's marks to the base probability. RFC 9332: 2. At least 1.
    #[schemars(range(min = 1))]
    pub coupling: f64,
    /// Waiting time up to which a low-latency packet is not marked for itself. RFC 9332: 0.8 ms;
    /// Linux: 1 ms.
    pub min_th: Span,
    /// From `min_th` on, how much longer until every one is marked. RFC 9332: 0.4 ms; Linux: 0 (a
    /// step).
    pub range: Span,
    /// Part of the line that is kept for the classic queue, percent. Linux: 10. 1 to 99.
    #[schemars(range(min = 1, max = 99))]
    pub classic_protection: u8,
}

impl Default for Dualpi2Config {
    fn default() -> Self {
        Dualpi2Config {
            limit_packets: None,
            limit_bytes: None,
            target: Span::from_ms(15),
            t_update: Span::from_ms(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            min_th: Span::from_us(800),
            range: Span::from_us(400),
            classic_protection: 10,
        }
    }
}

impl Dualpi2Config {
    fn check(&self) -> Result<(), String> {
        Limit::check(self.limit_packets, self.limit_bytes)?;
        if self.target.is_zero() {
            return Err("`target` = 0ns: must be above zero, such as \"15ms\"".into());
        }
        if self.t_update < Span::from_us(1) {
            return Err(format!("`t_update` = {}: must be at least 1us, such as \"16ms\"", self.t_update));
        }
        for (key, gain) in [("alpha", self.alpha), ("beta", self.beta)] {
            if !(gain.is_finite() && gain >= 0.0) {
                return Err(format!("`{key}` = {gain}: must be a finite number, zero or above"));
            }
        }
        if !(self.coupling.is_finite() && self.coupling >= 1.0) {
            return Err(format!("`coupling` = {}: must be a finite number, at least 1", self.coupling));
        }
        within("classic_protection", self.classic_protection, 1..=99, "")
    }

    /// The discipline of one line, at its beginning.
    pub fn build(&self, ctx: &QueueContext) -> Dualpi2 {
        let classic = i64::from(self.classic_protection.clamp(1, 99));
        let weights = Weights { classic, low: 100 - classic, start: i64::from(ctx.mtu) * (2 * classic - 100) };
        Dualpi2 {
            limit: Limit::or_packets(self.limit_packets, self.limit_bytes, 10_000),
            // A zero would keep the deadline where it is.
            t_update: self.t_update.max(Span::from_ns(1)),
            config: self.clone(),
            low: StampedFifo::default(),
            classic: StampedFifo::default(),
            credit: weights.start,
            weights,
            base: 0.0,
            delay_before: Span::ZERO,
            low_count: Count::default(),
            overload_count: Count::default(),
            classic_count: Count::default(),
            next_update: Time::NEVER,
        }
    }
}
checked!(Dualpi2Config);

/// `recur` of RFC 9332, appendix A: returns true with a likelihood, as evenly as possible.
#[derive(Debug, Clone, Copy, Default)]
struct Count(f64);

impl Count {
    fn recurs(&mut self, likelihood: f64) -> bool {
        self.0 += likelihood;
        let over = self.0 > 1.0;
        if over {
            self.0 -= 1.0;
        }
        over
    }
}

/// Weights of the two queues in percent, and the initial credit of the classic one.
#[derive(Debug, Clone, Copy)]
struct Weights {
    classic: i64,
    low: i64,
    start: i64,
}

/// DualPI2, as one line has it.
#[derive(Debug)]
pub struct Dualpi2 {
    config: Dualpi2Config,
    limit: Limit,
    t_update: Span,
    low: StampedFifo,
    classic: StampedFifo,
    weights: Weights,
    /// Above zero it is the classic queue's turn.
    credit: i64,
    /// p' of the RFC.
    base: f64,
    delay_before: Span,
    low_count: Count,
    overload_count: Count,
    classic_count: Count,
    next_update: Time,
}

impl Dualpi2 {
    /// The low-latency queue's own probability for a packet that waited so long, `more` behind it.
    fn ramp(&self, waited: Span, more: usize) -> f64 {
        let beyond = waited.saturating_sub(self.config.min_th);
        // Th_len of the RFC: a packet alone is never marked for its wait.
        if beyond.is_zero() || more == 0 {
            0.0
        } else if beyond >= self.config.range {
            1.0
        } else {
            beyond.as_secs_f64() / self.config.range.as_secs_f64()
        }
    }

    fn coupled(&self) -> f64 {
        self.config.coupling * self.base
    }

    fn squared(&self) -> f64 {
        self.base * self.base
    }

    /// `dualpi2_update` of the RFC.
    fn update(&mut self, now: Time) {
        let delay = |q: &StampedFifo| q.front().map_or(Span::ZERO, |p| p.sojourn(now));
        let longer = delay(&self.low).max(delay(&self.classic));
        let (seconds, before, target) =
            (longer.as_secs_f64(), self.delay_before.as_secs_f64(), self.config.target.as_secs_f64());
        let step = self.config.alpha * (seconds - target) + self.config.beta * (seconds - before);
        self.base = (self.base + step).clamp(0.0, 1.0);
        self.delay_before = longer;
    }

    /// The next packet by the scheduler, and whether it is a low-latency one.
    fn next(&mut self) -> Option<(Stamped, bool)> {
        if self.low.is_empty() || self.classic.is_empty() {
            self.credit = self.weights.start;
            return self.low.pop().map(|p| (p, true)).or_else(|| self.classic.pop().map(|p| (p, false)));
        }
        let is_low = self.credit <= 0;
        let packet = if is_low { self.low.pop() } else { self.classic.pop() }?;
        self.credit += i64::from(packet.size) * if is_low { self.weights.classic } else { -self.weights.low };
        Some((packet, is_low))
    }

    fn is_quiet(&self) -> bool {
        self.low.is_empty() && self.classic.is_empty() && self.base == 0.0 && self.delay_before.is_zero()
    }

    /// The first multiple of `t_update` after `now`.
    fn next_tick(&self, now: Time) -> Time {
        let t = self.t_update.as_ns();
        Time::from_ns((now.as_ns() / t + 1).saturating_mul(t))
    }
}

impl Aqm for Dualpi2 {
    fn enqueue(&mut self, now: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let size = u32::from(pool[id].size);
        if !self.limit.admits(self.len_packets(), self.len_bytes(), size) {
            drops.dropped.push((id, DropReason::Overflow));
            return;
        }
        let queue = match pool[id].ecn {
            Ecn::Ect1 | Ecn::Ce => &mut self.low,
            Ecn::NotEct | Ecn::Ect0 => &mut self.classic,
        };
        queue.push(Stamped { id, size, at: now });
        if self.next_update.is_never() {
            self.next_update = self.next_tick(now);
        }
    }

    fn dequeue(&mut self, now: Time, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId> {
        while let Some((packet, is_low)) = self.next() {
            let (coupled, squared) = (self.coupled(), self.squared());
            if !is_low {
                if self.classic_count.recurs(squared) {
                    // p_Cmax: from there on marks no longer suffice.
                    let marks = coupled < 1.0;
                    if !(marks && drops.try_mark(packet.id, pool)) {
                        drops.dropped.push((packet.id, DropReason::Early));
                        continue;
                    }
                }
            } else if coupled < 1.0 {
                let own = self.ramp(packet.sojourn(now), self.low.len());
                if self.low_count.recurs(own.max(coupled)) {
                    drops.try_mark(packet.id, pool);
                }
            } else {
                if self.overload_count.recurs(squared) {
                    drops.dropped.push((packet.id, DropReason::Early));
                    continue;
                }
                // All remaining packets are marked: the linear probability is 1 or more.
                drops.try_mark(packet.id, pool);
            }
            return Some(packet.id);
        }
        None
    }

    fn len_packets(&self) -> usize {
        self.low.len() + self.classic.len()
    }
    fn len_bytes(&self) -> u64 {
        self.low.bytes() + self.classic.bytes()
    }

    fn deadline(&self) -> Time {
        self.next_update
    }
    fn on_deadline(&mut self, now: Time) {
        if now < self.next_update {
            return;
        }
        self.update(now);
        self.next_update = if self.is_quiet() { Time::NEVER } else { self.next_tick(now) };
    }

    /// Probability for a classic packet.
    fn drop_probability(&self) -> Option<f64> {
        Some(self.squared())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::{Rig, context, ms, packet};

    fn queue() -> Dualpi2 {
        Dualpi2Config::default().build(&context(1))
    }

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    /// RFC 9332, appendix A.1: p' = p' + alpha (curq - target) + beta (curq - prevq), by hand.
    #[test]
    fn the_controller_weighs_deviation_and_trend() {
        let mut q = queue();
        let mut rig = Rig::new(&mut q);
        rig.arrive(ms(1), packet(0, 1500, Ecn::NotEct));
        // At 16 ms it has waited 15 ms: no deviation, a trend of 15 ms. At 32 ms 31 ms: 16 ms off,
        // a trend of 16 ms.
        let first = 3.2 * 0.015;
        let second = first + 0.16 * 0.016 + 3.2 * 0.016;
        for (at, expected) in [(15, 0.0), (16, first), (31, first), (32, second)] {
            rig.run_until(ms(at));
            assert!((rig.q.base - expected).abs() < 1e-12, "at {at} ms: {}", rig.q.base);
            assert!((rig.q.drop_probability().unwrap() - expected * expected).abs() < 1e-12);
        }
        // Empty: a trend of -31 ms takes it to 0.00016, and the deviation to zero.
        rig.leave(ms(33));
        rig.run_until(ms(64));
        assert!(rig.q.base == 0.0 && rig.q.deadline().is_never(), "it rests");
    }

    /// RFC 9332, appendix A.1: `recur`.
    #[test]
    fn a_likelihood_recurs_evenly() {
        let mut count = Count::default();
        let said: Vec<usize> = (1..=12).filter(|_| count.recurs(0.25)).collect();
        // The sum must exceed one.
        assert_eq!(said, [5, 9]);
        assert!((0..1000).filter(|_| count.recurs(0.3)).count().abs_diff(300) <= 1);
    }

    #[test]
    fn classic_drops_are_the_square_of_what_low_latency_marks_are_half_of() {
        // Base 0.1: of classic packets 0.01 are dropped or marked, of low-latency ones 0.2 marked.
        for (ecn, dropped, marked) in
            [(Ecn::NotEct, 100, 0), (Ecn::Ect0, 0, 100), (Ecn::Ect1, 0, 2000), (Ecn::Ce, 0, 0)]
        {
            let mut q = queue();
            q.base = 0.1;
            let mut rig = Rig::new(&mut q);
            for i in 0..10_000 {
                rig.arrive(us(i), packet(0, 1500, ecn));
                rig.leave(us(i));
            }
            let got = (rig.dropped.len(), rig.marked.len());
            assert!(got.0.abs_diff(dropped) <= 1 && got.1.abs_diff(marked) <= 1, "{ecn:?}: {got:?}");
        }
    }

    #[test]
    fn a_low_latency_packet_that_waited_is_marked_unless_it_is_alone() {
        // RFC 9332: a ramp from 0.8 to 1.2 ms. The next one waits as long.
        for (waited, more, likelihood) in
            [(800, 1, 0.0), (900, 1, 0.25), (1000, 1, 0.5), (1199, 1, 0.9975), (1200, 1, 1.0), (5000, 0, 0.0)]
        {
            let q = queue();
            assert!((q.ramp(Span::from_us(waited), more) - likelihood).abs() < 1e-9, "{waited} us, {more} more");
        }
        let step = Dualpi2Config { min_th: Span::from_ms(1), range: Span::ZERO, ..Dualpi2Config::default() };
        let step = step.build(&context(1));
        assert_eq!([999, 1000, 1001].map(|t| step.ramp(Span::from_us(t), 3)), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn overload_drops_low_latency_packets_as_classic_ones() {
        // Base 0.6: k p' is above one; 0.36 of either kind are dropped, ECN or not, and the other
        // low-latency ones marked.
        for (ecn, marked) in [(Ecn::NotEct, 0), (Ecn::Ect0, 0), (Ecn::Ect1, 640)] {
            let mut q = queue();
            q.base = 0.6;
            let mut rig = Rig::new(&mut q);
            for i in 0..1000 {
                rig.arrive(us(i), packet(0, 1500, ecn));
                rig.leave(us(i));
            }
            let got = (rig.dropped.len(), rig.marked.len());
            assert!(got.0.abs_diff(360) <= 1 && got.1.abs_diff(marked) <= 1, "{ecn:?}: {got:?}");
        }
    }

    #[test]
    fn low_latency_goes_first_and_leaves_classic_a_tenth() {
        let mut q = queue();
        let mut rig = Rig::new(&mut q);
        let mut classic = 0;
        for _ in 0..20 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        }
        for i in 0..1000 {
            // Both always have something.
            rig.arrive(ms(0), packet(1, 1500, Ecn::Ect1));
            if i % 5 == 0 {
                rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
            }
            classic += usize::from(rig.leave(ms(0)).unwrap().flow.0 == 0);
            if i == 0 {
                assert_eq!(classic, 0, "low latency first");
            }
        }
        assert!(classic.abs_diff(100) <= 2, "{classic} of 1000");
        // A packet of the other kind does not wait behind a backlog.
        let mut q = queue();
        let mut rig = Rig::new(&mut q);
        for _ in 0..50 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::Ect0));
        }
        rig.arrive(ms(1), packet(1, 1500, Ecn::Ect1));
        assert_eq!(rig.leave(ms(1)).unwrap().flow.0, 1);
    }
}
