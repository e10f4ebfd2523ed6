//! CoDel: drops from the head while the smallest sojourn time stays above a target, ever more often until it does not.
//!
//! RFC 8289. It watches how long packets waited, not how many wait, so one setting serves every line rate: once no packet
//! has left in under `target` for a whole `interval`, it drops one, and the next after `interval / sqrt(n)`, n counting the
//! drops. RED and PIE drop at the tail by probability; CoDel at the head, by a schedule and without randomness. FQ-CoDel
//! runs this law on each of many queues.
//!
//! Valid where `interval` covers the round-trip times of the flows. Meant for responsive traffic: against a flood the drop
//! rate grows only with the square root of time, and the limit bounds the queue.
//!
//! Beyond the RFC: with `ecn` an ECT packet is marked where it would have been dropped and then leaves at once, so one
//! dequeue gives at most one mark; `ce_threshold` marks ECT packets by sojourn alone, as Linux does. The limit's default is
//! Linux's; the RFC names none. Linux marks only on request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Limit, QueueContext, Stamped, StampedFifo};
use crate::packet::{PacketId, Pool};
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
    /// Window over which the delay must stay above target; about the largest usual round-trip time. RFC 8289: 100 ms.
    pub interval: Span,
    /// Mark ECT packets instead of dropping them.
    pub ecn: bool,
    /// Mark ECT packets that waited longer than this, whatever the law says. Off when left out.
    pub ce_threshold: Option<Span>,
}

impl Default for CodelConfig {
    fn default() -> Self {
        CodelConfig {
            limit_packets: None,
            limit_bytes: None,
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

/// What [`CodelLaw`] goes by. The same for all queues of a discipline.
#[derive(Debug, Clone, PartialEq)]
pub struct CodelParams {
    pub target: Span,
    pub interval: Span,
    /// Never drop while no more than this many bytes are left (RFC 8289 section 5.3, `MAXPACKET`).
    pub mtu: u32,
    /// Mark ECT packets instead of dropping them.
    pub ecn: bool,
    /// Mark ECT packets that waited longer, whatever the law says.
    pub ce_threshold: Option<Span>,
}

impl CodelParams {
    /// Whether the law can work with these: `0 < target < interval`. The message names the keys.
    pub fn check(target: Span, interval: Span) -> Result<(), String> {
        if interval.is_zero() {
            return Err("`interval` = 0ns: must be above zero, such as \"100ms\"".into());
        }
        if target.is_zero() || target >= interval {
            return Err(format!("`target` = {target}: must be above zero and below `interval` ({interval})"));
        }
        Ok(())
    }

    /// RFC 8289's control law: `interval / sqrt(count)` after `t`, to the nanosecond below. `count` is at least 1.
    pub fn control_law(&self, t: Time, count: u32) -> Time {
        // floor(sqrt(floor(i² / n))) = floor(i / sqrt(n)): exact, and no float to differ between machines.
        let (interval, count) = (self.interval.as_ns(), u64::from(count.max(1)));
        let spacing = match interval.checked_mul(interval) {
            Some(square) => (square / count).isqrt(),
            None => (u128::from(interval).pow(2) / u128::from(count)).isqrt() as u64,
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
#[derive(Debug, Clone)]
pub struct CodelLaw {
    /// Drops since this dropping state began, on top of what was remembered from the one before.
    count: u32,
    /// `count` when this dropping state began.
    last_count: u32,
    /// When the sojourn time will have been above target for an interval; [`Time::NEVER`] while it is below.
    first_above: Time,
    drop_next: Time,
    dropping: bool,
}

impl Default for CodelLaw {
    fn default() -> Self {
        CodelLaw { count: 0, last_count: 0, first_above: Time::NEVER, drop_next: Time::ZERO, dropping: false }
    }
}

impl CodelLaw {
    /// Takes the next packet to send out of `store`, dropping and marking on the way (RFC 8289 section 5.5). `None`: the
    /// store is empty, perhaps only now.
    pub fn dequeue(
        &mut self,
        params: &CodelParams,
        now: Time,
        store: &mut impl CodelStore,
        pool: &mut Pool,
        drops: &mut Drops,
    ) -> Option<PacketId> {
        let (mut packet, above) = self.pop(params, now, store);
        if self.dropping {
            self.dropping = above;
            // A large backlog can have several drops due at once.
            while self.dropping && now >= self.drop_next {
                let Some(p) = packet else { break };
                self.count = self.count.saturating_add(1);
                if params.ecn && drops.try_mark(p.id, pool) {
                    self.drop_next = params.control_law(self.drop_next, self.count);
                    break;
                }
                drops.dropped.push((p.id, DropReason::Early));
                (packet, self.dropping) = self.pop(params, now, store);
                if self.dropping {
                    self.drop_next = params.control_law(self.drop_next, self.count);
                }
            }
        } else if above {
            if let Some(p) = packet {
                if !(params.ecn && drops.try_mark(p.id, pool)) {
                    drops.dropped.push((p.id, DropReason::Early));
                    (packet, _) = self.pop(params, now, store);
                }
            }
            self.dropping = true;
            // Soon after the last dropping state, go on from the drop rate that had brought the delay down.
            let learned = self.count - self.last_count;
            let recent = now.since(self.drop_next) < params.interval.saturating_mul(16);
            self.count = if learned > 1 && recent { learned } else { 1 };
            self.last_count = self.count;
            self.drop_next = params.control_law(now, self.count);
        }
        let packet = packet?;
        if params.ce_threshold.is_some_and(|threshold| packet.sojourn(now) > threshold) {
            drops.try_mark(packet.id, pool);
        }
        Some(packet.id)
    }

    /// Packets of this queue were dropped because there was no room: raises the drop rate accordingly, as Linux does.
    pub fn on_overflow(&mut self, dropped: u32) {
        self.count = self.count.saturating_add(dropped);
    }

    /// The oldest packet, and whether the sojourn time has been above target for an interval (`dodequeue` in RFC 8289 section 5.6).
    fn pop(&mut self, params: &CodelParams, now: Time, store: &mut impl CodelStore) -> (Option<Stamped>, bool) {
        let packet = store.pop();
        let below = packet.is_none_or(|p| p.sojourn(now) < params.target) || store.bytes() <= u64::from(params.mtu);
        if below {
            self.first_above = Time::NEVER;
        } else if self.first_above.is_never() {
            self.first_above = now + params.interval;
        } else {
            return (packet, now >= self.first_above);
        }
        (packet, false)
    }
}

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
            self.fifo.push(Stamped { id, size, at: now });
        } else {
            drops.dropped.push((id, DropReason::Overflow));
        }
    }
    fn dequeue(&mut self, now: Time, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId> {
        self.law.dequeue(&self.params, now, &mut self.fifo, pool, drops)
    }
    fn len_packets(&self) -> usize {
        self.fifo.len()
    }
    fn len_bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}
