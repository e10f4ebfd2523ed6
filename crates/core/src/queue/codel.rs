//! CoDel: drops from the head while the smallest sojourn time stays above a target, ever more often
//! until it does not.
//!
//! Source: RFC 8289, with the arithmetic of Linux (include/net/codel_impl.h of 6.18).
//!
//! It watches how long packets waited, not how many wait, so one setting serves every line rate.
//! Once no packet has left in under `target` for a whole `interval`, it drops one. The next drop
//! follows after `interval / sqrt(n)`, where n counts the drops.
//!
//! Siblings: RED and PIE drop at the tail, by probability. CoDel drops at the head, by a schedule
//! and without randomness. FQ-CoDel runs this law on each of many queues.
//!
//! Valid: where `interval` covers the round-trip times of the flows, and for traffic that responds.
//! Against a flood the drop rate grows only with the square root of time, and the limit bounds the
//! queue.
//!
//! Deviations: With `ecn` an ECT packet is marked instead of dropped and then leaves at once, so
//! one dequeue gives at most one mark. `ce_threshold` marks ECT packets by sojourn alone, as Linux
//! does. The RFC names no limit; the default is Linux's. Linux marks only on request. Its times are
//! multiples of 1024 ns, these are not. As in Linux `1 / sqrt(n)` comes from one Newton step a
//! drop. So the second gap is `interval / 2`, and gaps after a return to dropping begin too short.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Limit, QueueContext, Stamped, StampedFifo};
use crate::convert::low16;
use crate::packet::{PacketId, Pool};
use crate::policy::checked;
use crate::units::{Bytes, Span, Time};

/// Both limits bind when both are given; with neither, 1000 packets as in Linux.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "CodelConfig")]
pub struct CodelConfig {
    /// Most packets waiting. At least 1.
    #[schemars(range(min = 1))]
    pub limit_packets: Option<u32>,
    /// Most bytes waiting.
    pub limit_bytes: Option<Bytes>,
    /// Acceptable standing delay. RFC 8289: 5 ms. Above zero, below `interval`.
    pub target: Span,
    /// Window over which the delay must stay above target; about the largest usual round-trip time.
    /// RFC 8289: 100 ms.
    pub interval: Span,
    /// Mark ECT packets instead of dropping them.
    pub ecn: bool,
    /// Mark ECT packets that waited longer than this, independently of the law. Default: off.
    pub ce_threshold: Option<Span>,
}

impl Default for CodelConfig {
    fn default() -> Self {
        CodelConfig {
            limit_packets: None,
            limit_bytes: None,
            // [RFC8289-4.2-1]
            target: Span::from_ms(5),
            interval: Span::from_ms(100),
            ecn: true,
            ce_threshold: None,
        }
    }
}

impl CodelConfig {
    fn check(&self) -> Result<(), String> {
        Limit::check(self.limit_packets, self.limit_bytes)?;
        CodelParams::check(self.target, self.interval)
    }

    /// The discipline of one line, at its beginning.
    pub fn build(&self, ctx: &QueueContext) -> Codel {
        Codel {
            params: CodelParams {
                target: self.target,
                interval: self.interval,
                mtu: ctx.mtu,
                ecn: self.ecn,
                ce_threshold: self.ce_threshold,
            },
            limit: Limit::or_packets(self.limit_packets, self.limit_bytes, 1000),
            law: CodelLaw::default(),
            fifo: StampedFifo::default(),
        }
    }
}
checked!(CodelConfig);

/// Parameters of [`CodelLaw`], the same for all queues of a discipline.
#[derive(Debug, Clone, PartialEq)]
pub struct CodelParams {
    /// Waiting time that is always allowed.
    pub target: Span,
    /// Time for which packets must wait longer than `target` before the first is dropped.
    pub interval: Span,
    /// Never drop while no more than this many bytes are left (RFC 8289 section 5.3, `MAXPACKET`).
    pub mtu: u32,
    /// Mark ECT packets instead of dropping them.
    pub ecn: bool,
    /// Mark ECT packets that waited longer, whatever the law says.
    pub ce_threshold: Option<Span>,
}

impl CodelParams {
    /// Checks the values: `0 < target < interval`. The error names the keys.
    pub fn check(target: Span, interval: Span) -> Result<(), String> {
        if interval.is_zero() {
            return Err("`interval` = 0ns: must be above zero, such as \"100ms\"".into());
        }
        if target.is_zero() || target >= interval {
            return Err(format!("`target` = {target}: must be above zero and below `interval` ({interval})"));
        }
        Ok(())
    }

    /// RFC 8289's control law: `interval / sqrt(count)` after `t`, to the nanosecond below. `count`
    /// is at least 1. [`CodelLaw`] takes Linux's approximation of it.
    // [RFC8289-5.4-1]
    pub fn control_law(&self, t: Time, count: u32) -> Time {
        // floor(sqrt(floor(i² / n))) = floor(i / sqrt(n)): exact, and no float to differ between
        // machines.
        let (interval, count) = (self.interval.as_ns(), u64::from(count.max(1)));
        let spacing = match interval.checked_mul(interval) {
            Some(square) => (square / count).isqrt(),
            None => {
                u64::try_from((u128::from(interval).pow(2) / u128::from(count)).isqrt()).expect("below the interval")
            }
        };
        t + Span::from_ns(spacing)
    }
}

/// The queue that a [`CodelLaw`] polices.
pub trait CodelStore {
    /// Takes out the packet that has waited longest.
    fn pop(&mut self) -> Option<Stamped>;
    /// Bytes left.
    fn bytes(&self) -> u64;
}

/// CoDel's state for one queue (RFC 8289 section 5.2), over any backing store.
#[derive(Debug, Clone, PartialEq)]
pub struct CodelLaw {
    /// Drops since this dropping state began, added to the count remembered from the one before.
    count: u32,
    /// `count` when this dropping state began.
    last_count: u32,
    /// Time at which the sojourn time has been above target for an interval; [`Time::NEVER`] while
    /// it is below.
    first_above: Time,
    /// [`Time::ZERO`] before the first dropping state.
    drop_next: Time,
    dropping: bool,
    /// `1 / sqrt(count)`, about, in 65536ths.
    inverse_sqrt: u16,
}

impl Default for CodelLaw {
    fn default() -> Self {
        CodelLaw {
            count: 0,
            last_count: 0,
            first_above: Time::NEVER,
            drop_next: Time::ZERO,
            dropping: false,
            inverse_sqrt: 0,
        }
    }
}

impl CodelLaw {
    /// Takes the next packet to send out of `store`, dropping and marking on the way (RFC 8289
    /// section 5.5). `None`: the store is empty, perhaps only now.
    pub fn dequeue(
        &mut self,
        params: &CodelParams,
        now: Time,
        store: &mut impl CodelStore,
        pool: &mut Pool,
        drops: &mut Drops,
    ) -> Option<Stamped> {
        // `first_above` stays as it is: Linux looks at it only when there is a packet.
        let Some(first) = store.pop() else {
            self.dropping = false;
            return None;
        };
        let above = self.is_above(params, now, Some(first), store);
        let mut packet = Some(first);
        if self.dropping {
            // [RFC8289-5.5-2]
            self.dropping = above;
            // A large backlog can have several drops due at once.
            // [RFC8289-5.5-1]
            while self.dropping && now >= self.drop_next {
                let Some(p) = packet else { break };
                self.count = self.count.saturating_add(1);
                self.newton_step();
                // [RFC8289-5.5-5]
                if params.ecn && drops.try_mark(p.id, pool) {
                    self.drop_next = self.after(self.drop_next, params);
                    break;
                }
                drops.dropped.push((p.id, DropReason::Early));
                (packet, self.dropping) = self.pop(params, now, store);
                if self.dropping {
                    self.drop_next = self.after(self.drop_next, params);
                }
            }
        // [RFC8289-5.5-3]
        } else if above {
            if let Some(p) = packet {
                if !(params.ecn && drops.try_mark(p.id, pool)) {
                    drops.dropped.push((p.id, DropReason::Early));
                    (packet, _) = self.pop(params, now, store);
                }
            }
            self.dropping = true;
            // Soon after the last dropping state, go on from the drop rate that had brought the
            // delay down.
            // [RFC8289-5.5-4]
            let learned = self.count - self.last_count;
            let recent = self.drop_next > Time::ZERO && now.since(self.drop_next) < params.interval.saturating_mul(16);
            if learned > 1 && recent {
                self.count = learned;
                // From the root of the count before: later steps come nearer.
                self.newton_step();
            } else {
                self.count = 1;
                self.inverse_sqrt = u16::MAX;
            }
            self.last_count = self.count;
            self.drop_next = self.after(now, params);
        }
        let packet = packet?;
        if params.ce_threshold.is_some_and(|threshold| packet.sojourn(now) > threshold) {
            drops.try_mark(packet.id, pool);
        }
        Some(packet)
    }

    /// Packets of this queue were dropped because there was no room: raises the drop rate
    /// accordingly, as Linux does.
    pub fn on_overflow(&mut self, dropped: u32) {
        self.count = self.count.saturating_add(dropped);
    }

    /// The control law with the root that is known: `interval / sqrt(count)` after `t`, about.
    // [RFC8289-5.4-1]
    fn after(&self, t: Time, params: &CodelParams) -> Time {
        let spacing = (u128::from(params.interval.as_ns()) * u128::from(self.inverse_sqrt)) >> 16;
        t + Span::from_ns(u64::try_from(spacing).expect("below the interval"))
    }

    /// Brings `inverse_sqrt` nearer to that of `count`: `x (3 - count x²) / 2`, in 32 binary
    /// places, of which 16 are kept. Linux, `codel_Newton_step`: a count that grew much makes
    /// it overflow, here too.
    fn newton_step(&mut self) {
        let x = u64::from(self.inverse_sqrt) << 16;
        let square = (x * x) >> 32;
        let bracket = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square));
        // A quarter, so that the product fits, and then twice that.
        let next = (bracket >> 2).wrapping_mul(x) >> 31;
        self.inverse_sqrt = low16(next >> 16);
    }

    /// The oldest packet, and whether the sojourn time has been above target for an interval
    /// (`dodequeue` in RFC 8289 section 5.6).
    fn pop(&mut self, params: &CodelParams, now: Time, store: &mut impl CodelStore) -> (Option<Stamped>, bool) {
        let packet = store.pop();
        (packet, self.is_above(params, now, packet, store))
    }

    /// With `packet` out of the store: has the sojourn time been above target for an interval?
    fn is_above(&mut self, params: &CodelParams, now: Time, packet: Option<Stamped>, store: &impl CodelStore) -> bool {
        // [RFC8289-5.3-1] [RFC8289-5.3-3]
        let below = packet.is_none_or(|p| p.sojourn(now) < params.target) || store.bytes() <= u64::from(params.mtu);
        if below {
            self.first_above = Time::NEVER;
        } else if self.first_above.is_never() {
            // [RFC8289-5.3-2]
            self.first_above = now + params.interval;
        } else {
            return now > self.first_above;
        }
        false
    }
}

/// CoDel, as one line has it.
#[derive(Debug, Clone)]
pub struct Codel {
    params: CodelParams,
    limit: Limit,
    law: CodelLaw,
    fifo: StampedFifo,
}

impl Aqm for Codel {
    fn enqueue(&mut self, now: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let size = u32::from(pool[id].size);
        if self.limit.admits(self.fifo.len(), self.fifo.bytes(), size) {
            // [RFC8289-5.1-1]
            self.fifo.push(Stamped { id, size, at: now });
        } else {
            drops.dropped.push((id, DropReason::Overflow));
        }
    }
    fn dequeue(&mut self, now: Time, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId> {
        self.law.dequeue(&self.params, now, &mut self.fifo, pool, drops).map(|packet| packet.id)
    }
    fn len_packets(&self) -> usize {
        self.fifo.len()
    }
    fn len_bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::queue::tests::{Rig, context, ms, packet};

    /// The defaults, with room for a long overload.
    fn roomy() -> CodelConfig {
        CodelConfig { limit_packets: Some(100_000), ..CodelConfig::default() }
    }

    fn codel(config: CodelConfig) -> Codel {
        config.build(&context(0))
    }

    /// Two packets of 1500 bytes arrive per millisecond and one leaves, from 0 to `until` ms.
    fn overload<'a>(q: &'a mut Codel, ecn: Ecn, until: u64) -> Rig<'a, Codel> {
        let mut rig = Rig::new(q);
        for t in 0..until {
            rig.arrive(ms(t), packet(0, 1500, ecn));
            rig.leave(ms(t));
            rig.arrive(ms(t) + Span::from_us(500), packet(0, 1500, ecn));
        }
        rig
    }

    /// The sojourn time first reaches 5 ms at 10 ms and stays above. So the first drop comes after
    /// 110 ms, and drop `n + 1` at the first departure that is not before the instant of drop `n`
    /// plus 100 ms times Linux's approximation of `1 / sqrt(n)`: 1, 0.5, 0.5625, 0.488, 0.442.
    const OVERLOAD_MS: [u64; 31] = [
        111, 211, 261, 318, 367, 411, 451, 489, 524, 557, 588, 619, 647, 675, 702, 727, 752, 777, 800, 823, 845, 867,
        889, 909, 930, 950, 969, 989, 1007, 1026, 1044,
    ];

    // [RFC8289-5.4-1]
    #[test]
    fn control_law_is_exact() {
        let params = codel(CodelConfig::default()).params;
        for (count, ns) in
            [(1, 100_000_000), (2, 70_710_678), (3, 57_735_026), (4, 50_000_000), (5, 44_721_359), (1 << 30, 3051)]
        {
            assert_eq!(params.control_law(ms(7), count), ms(7) + Span::from_ns(ns), "count {count}");
        }
        // Squares that do not fit 64 bits.
        let slow = CodelParams { interval: Span::from_secs(3600), ..params };
        assert_eq!(slow.control_law(Time::ZERO, 9), Time::ZERO + Span::from_secs(1200));
        assert_eq!(slow.control_law(Time::ZERO, 2).as_ns(), 2_545_584_412_271);
    }

    // [RFC8289-4.2-1] [RFC8289-5.3-2] [RFC8289-5.4-1] [RFC8289-5.5-3]
    #[test]
    fn drops_under_overload_follow_the_control_law() {
        let mut q = codel(roomy());
        let rig = overload(&mut q, Ecn::NotEct, 1060);
        assert_eq!(rig.drop_times_ms(), OVERLOAD_MS);
        assert!(rig.dropped.iter().all(|d| d.1 == DropReason::Early));
        assert!(rig.marked.is_empty());
    }

    // [RFC8289-5.5-5]
    #[test]
    fn ect_packets_are_marked_where_others_are_dropped() {
        let mut q = codel(roomy());
        let rig = overload(&mut q, Ecn::Ect0, 1060);
        assert_eq!(rig.mark_times_ms(), OVERLOAD_MS);
        assert!(rig.dropped.is_empty());

        let mut q = codel(CodelConfig { ecn: false, ..roomy() });
        let rig = overload(&mut q, Ecn::Ect0, 1060);
        assert_eq!(rig.drop_times_ms(), OVERLOAD_MS);
        assert!(rig.marked.is_empty());
    }

    // [RFC8289-4.2-1]
    #[test]
    fn target_and_interval_are_obeyed() {
        let config = CodelConfig { target: Span::from_ms(20), interval: Span::from_ms(300), ..roomy() };
        let mut q = codel(config);
        let rig = overload(&mut q, Ecn::NotEct, 1200);
        // 20 ms are reached at 40 ms; then 300 ms / sqrt(n), about.
        assert_eq!(rig.drop_times_ms(), [341, 641, 791, 960, 1107]);
    }

    // [RFC8289-5.3-1]
    #[test]
    fn no_drop_below_target_nor_when_the_delay_dips_once_per_interval() {
        // (packets standing in the queue, every so many ms it is emptied)
        for (standing, dip_every) in [(4, None), (50, Some(99))] {
            let mut q = codel(CodelConfig::default());
            let mut rig = Rig::new(&mut q);
            for t in 0..5_000 {
                let dip = dip_every.is_some_and(|every| t % every == 0);
                while dip && rig.leave(ms(t)).is_some() {}
                while rig.q.len_packets() < standing + 1 {
                    rig.arrive(ms(t), packet(0, 1500, Ecn::NotEct));
                }
                rig.leave(ms(t));
            }
            assert!(rig.dropped.is_empty(), "standing {standing}: {:?}", rig.dropped);
        }
    }

    // [RFC8289-5.3-1]
    #[test]
    fn a_queue_of_at_most_one_mtu_is_never_dropped_from() {
        // Two packets wait 40 ms each; after one leaves, `size` bytes are left.
        for (size, drops) in [(1500, false), (1501, true)] {
            let mut q = codel(CodelConfig::default());
            let mut rig = Rig::new(&mut q);
            rig.arrive(ms(0), packet(0, size, Ecn::NotEct));
            for t in 1..100 {
                rig.arrive(ms(20 * t - 19), packet(0, size, Ecn::NotEct));
                rig.leave(ms(20 * t + 20));
            }
            assert_eq!(!rig.dropped.is_empty(), drops, "{size}");
        }
    }

    // [RFC8289-5.5-1]
    #[test]
    fn several_drops_are_due_at_once_after_a_stall() {
        let mut q = codel(CodelConfig::default());
        let mut rig = overload(&mut q, Ecn::NotEct, 400);
        assert_eq!(rig.drop_times_ms(), OVERLOAD_MS[..5]);
        // Nothing leaves until 530 ms; by then the drops of 411, 451, 489 and 524 ms are due.
        let next = rig.leave(ms(530)).map(|p| p.seq.0);
        assert_eq!(rig.drop_times_ms()[5..], [530; 4]);
        assert_eq!(next, rig.dropped_numbers().last().map(|n| n + 1));
        assert!(rig.leave(ms(556)).is_some());
        assert_eq!(rig.dropped.len(), 9);
        assert!(rig.leave(ms(557)).is_some());
        assert_eq!(rig.dropped.len(), 10);
    }

    /// A store that never empties and whose packets have waited as long as the test says.
    struct Scripted {
        id: PacketId,
        now: Time,
        sojourn: Span,
    }
    impl CodelStore for Scripted {
        fn pop(&mut self) -> Option<Stamped> {
            Some(Stamped { id: self.id, size: 1500, at: self.now - self.sojourn })
        }
        fn bytes(&self) -> u64 {
            9000
        }
    }

    /// Runs the law once per ms from 200 ms through `phases` of (until ms, sojourn in ms); returns
    /// when it dropped.
    fn drop_times(phases: &[(u64, u64)]) -> Vec<u64> {
        let params = codel(CodelConfig::default()).params;
        let mut law = CodelLaw::default();
        let mut pool = Pool::default();
        let id = pool.insert(packet(0, 1500, Ecn::NotEct));
        let mut drops = Drops::default();
        let (mut times, mut t) = (Vec::new(), 200);
        for &(until, sojourn) in phases {
            while t < until {
                let mut store = Scripted { id, now: ms(t), sojourn: Span::from_ms(sojourn) };
                assert!(law.dequeue(&params, ms(t), &mut store, &mut pool, &mut drops).is_some());
                times.extend(drops.dropped.drain(..).map(|_| t));
                t += 1;
            }
        }
        times
    }

    // [RFC8289-5.5-2] [RFC8289-5.5-4]
    #[test]
    fn count_is_remembered_for_sixteen_intervals() {
        // Above target from 200 to 700 ms: eight drops, so the count has grown from 1 to 8.
        let first = [301, 401, 451, 508, 557, 601, 641, 679];
        // Above again soon: goes on with count 7, so with 100 ms / sqrt(7) = 37.8 ms.
        assert_eq!(drop_times(&[(700, 9), (900, 4), (1100, 9)]), [&first[..], &[1001, 1039, 1074]].concat());
        // The next drop would have been at 713.3 ms; re-entry within 1600 ms of it remembers, later
        // does not.
        assert_eq!(drop_times(&[(700, 9), (2211, 4), (2400, 9)]), [&first[..], &[2312, 2350, 2385]].concat());
        assert_eq!(drop_times(&[(700, 9), (2215, 4), (2480, 9)]), [&first[..], &[2316, 2416, 2466]].concat());
    }

    // [RFC8289-5.5-4]
    #[test]
    fn only_the_growth_of_count_is_remembered() {
        // The second dropping state starts from 7 and ends at 8: grown by 1 only, so the third
        // starts from 1.
        let times = drop_times(&[(700, 9), (900, 4), (1045, 9), (1100, 4), (1320, 9)]);
        assert_eq!(times[8..], [1001, 1039, 1201, 1301]);
    }

    // [RFC8289-5.1-1] [RFC8289-5.3-3]
    #[test]
    fn sojourn_equal_to_target_counts_as_above() {
        assert_eq!(drop_times(&[(350, 5)]), [301]);
        assert!(drop_times(&[(900, 4)]).is_empty());
    }

    /// As in Linux, where the queue that is found empty says nothing (`codel_dequeue`).
    #[test]
    fn a_queue_found_empty_is_still_above() {
        struct Other(Scripted, bool);
        impl CodelStore for Other {
            fn pop(&mut self) -> Option<Stamped> {
                self.0.pop().filter(|_| self.1)
            }
            // Bytes of all queues, as in FQ-CoDel.
            fn bytes(&self) -> u64 {
                9000
            }
        }
        let params = codel(CodelConfig::default()).params;
        let (mut law, mut pool, mut drops) = (CodelLaw::default(), Pool::default(), Drops::default());
        let id = pool.insert(packet(0, 1500, Ecn::NotEct));
        for (t, has_packet) in [(200, true), (250, false), (301, true)] {
            let mut store = Other(Scripted { id, now: ms(t), sojourn: Span::from_ms(9) }, has_packet);
            law.dequeue(&params, ms(t), &mut store, &mut pool, &mut drops);
            assert_eq!(drops.dropped.len(), usize::from(t == 301), "at {t} ms");
        }
    }

    /// The first overflow of a queue leaves its dropping state as it is: it begins with one drop.
    #[test]
    fn an_overflow_before_the_first_dropping_state_is_not_remembered() {
        let params = codel(CodelConfig::default()).params;
        let (mut law, mut pool, mut drops) = (CodelLaw::default(), Pool::default(), Drops::default());
        let id = pool.insert(packet(0, 1500, Ecn::NotEct));
        law.on_overflow(4);
        let mut times = Vec::new();
        for t in 200..460 {
            let mut store = Scripted { id, now: ms(t), sojourn: Span::from_ms(9) };
            law.dequeue(&params, ms(t), &mut store, &mut pool, &mut drops);
            times.extend(drops.dropped.drain(..).map(|_| t));
        }
        assert_eq!(times, [301, 401, 451]);
    }

    #[test]
    fn ce_threshold_marks_by_sojourn_alone() {
        let config = CodelConfig { ce_threshold: Some(Span::from_ms(2)), ..CodelConfig::default() };
        let mut q = codel(config);
        let mut rig = Rig::new(&mut q);
        for (ecn, waits) in [(Ecn::Ect0, 2), (Ecn::Ect0, 3), (Ecn::Ect1, 3), (Ecn::NotEct, 3), (Ecn::Ce, 3)] {
            rig.arrive(ms(10), packet(0, 1500, ecn));
            rig.leave(ms(10 + waits));
        }
        assert_eq!(rig.marked.iter().map(|m| m.0).collect::<Vec<_>>(), [1, 2]);
        assert!(rig.dropped.is_empty());
    }

    #[test]
    fn the_limit_drops_at_the_tail() {
        for (config, dropped) in [
            (CodelConfig { limit_packets: Some(2), ..CodelConfig::default() }, vec![2, 3]),
            (CodelConfig { limit_bytes: Some(Bytes::new(4500)), ..CodelConfig::default() }, vec![3]),
        ] {
            let mut q = codel(config);
            let mut rig = Rig::new(&mut q);
            for _ in 0..4 {
                rig.arrive(ms(0), packet(0, 1500, Ecn::Ect0));
            }
            assert_eq!(rig.dropped_numbers(), dropped);
        }
        let mut q = codel(CodelConfig { limit_bytes: Some(Bytes::new(1 << 30)), ..CodelConfig::default() });
        let mut rig = Rig::new(&mut q);
        for _ in 0..2000 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::Ect0));
        }
        assert!(rig.dropped.is_empty(), "a byte limit replaces the default of 1000 packets");
    }
}
