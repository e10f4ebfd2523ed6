//! Drop-tail FIFO that thins ACKs: an arriving ACK removes older ACKs of its connection that it
//! makes superfluous.
//!
//! Source: RFC 3449 section 5.2.1 (ACK filtering), with the rules of CAKE's `ack-filter` (Linux
//! 6.12, `net/sched/sch_cake.c`).
//!
//! A cumulative ACK says all that the ACKs before it said, so where ACKs wait behind each other
//! only the newest matters. This happens in the queue of an access point through which many
//! stations upload, and on the slow direction of an asymmetric line.
//!
//! Only pure ACKs count: TCP, no payload, no flag but ACK and ECE, one connection and direction. An
//! older ACK is superfluous after a newer one if the newer
//! - acknowledges at least as much, and its window ends no earlier;
//! - has timestamps at least as late;
//! - reports every range that the older one reports as received (SACK), or has acknowledged it; and
//!   unless it acknowledges more, reports more. So all duplicate ACKs without SACK stay, for a
//!   sender that counts three of them. With SACK the newest ACK has all reports of the removed
//!   ones. A report of data that came twice (RFC 2883) is in no other ACK and always stays.
//!
//! An ACK stays if the next one of its connection differs in the congestion echo (ECE), so that the
//! change of the echo is kept. `mode = "conservative"` leaves one superfluous ACK in the queue
//! beside the newest: an arrival drops the oldest of two that it makes superfluous. `mode =
//! "aggressive"` drops a single one, too, if no other ACK of the connection came between. As in
//! CAKE an arrival drops at most one.
//!
//! Siblings: otherwise as [`super::Fifo`]. The newer ACK takes its place at the end of the queue,
//! not the place of the removed one.
//!
//! Valid: for senders with byte counting (RFC 3465) and pacing. A sender that counts ACKs grows its
//! window more slowly behind such a queue. A sender that transmits only on ACKs sends larger
//! bursts.
//!
//! Deviations: From CAKE: one FIFO, not a queue per flow. ACKs that carry data filter nothing. The
//! newer window must not end before the older one's; CAKE does not look. A range that the newer ACK
//! has acknowledged counts as reported; CAKE compares the reports only. An arrival that itself
//! finds no room drops nothing, so that the remaining ACKs always say the most that had been said.
//! A removed ACK counts as filtered, not as a loss.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Limit, QueueContext};
use crate::convert::{count, signed32};
use crate::packet::{Kind, Packet, PacketId, Pool, SackBlock, TcpFlags};
use crate::policy::checked;
use crate::units::{Bytes, Seq32, Time};

/// Number of superfluous ACKs that stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckFilterMode {
    /// One.
    #[default]
    Conservative,
    /// None, unless another ACK of the connection came between.
    Aggressive,
}

/// `limit_packets` and `limit_bytes` both bind when both are given; with neither the queue is
/// unbounded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "AckFilterConfig")]
pub struct AckFilterConfig {
    /// Most packets waiting, the one being transmitted not counted. At least 1.
    #[schemars(range(min = 1))]
    pub limit_packets: Option<u32>,
    /// Most bytes waiting.
    pub limit_bytes: Option<Bytes>,
    /// Number of superfluous ACKs that stay beside the newest one.
    pub mode: AckFilterMode,
}

impl AckFilterConfig {
    fn check(&self) -> Result<(), String> {
        Limit::check(self.limit_packets, self.limit_bytes)
    }

    /// The discipline of one line, at its beginning.
    pub fn build(&self, _: &QueueContext) -> AckFilter {
        AckFilter {
            limit: Limit::new(self.limit_packets, self.limit_bytes),
            mode: self.mode,
            slots: Vec::new(),
            free: NONE,
            head: NONE,
            tail: NONE,
            chains: Vec::new(),
            packets: 0,
            bytes: 0,
        }
    }
}
checked!(AckFilterConfig);

/// No packet: the end of a list.
const NONE: u32 = u32::MAX;

/// Number of chains of pure ACKs, by flow. Flows that share a chain only lengthen each other's
/// search.
const CHAINS: u32 = 256;

/// A waiting packet.
#[derive(Debug, Clone, Copy)]
struct Slot {
    id: PacketId,
    size: u32,
    /// Neighbours in the queue; in a free slot `next` is the next free one.
    previous: u32,
    next: u32,
    /// The next pure ACK of the same chain.
    next_ack: u32,
    is_ack: bool,
}

/// Pure ACKs in order of arrival.
#[derive(Debug, Clone, Copy)]
struct Chain {
    head: u32,
    tail: u32,
}

/// The filter of one line.
#[derive(Debug, Clone)]
pub struct AckFilter {
    limit: Limit,
    mode: AckFilterMode,
    /// Slots are reused, so a steady state allocates nothing.
    slots: Vec<Slot>,
    free: u32,
    head: u32,
    tail: u32,
    /// Empty until the first pure ACK.
    chains: Vec<Chain>,
    packets: usize,
    bytes: u64,
}

fn is_pure_ack(p: &Packet) -> bool {
    p.kind == Kind::Tcp && p.len == 0 && p.flags.without(TcpFlags::ECE) == TcpFlags::ACK
}

fn is_same_connection(a: &Packet, b: &Packet) -> bool {
    a.flow == b.flow && a.is_reverse() == b.is_reverse() && a.connection() == b.connection()
}

/// `a` lies after `b`, modulo 2^32.
fn is_after(a: u32, b: u32) -> bool {
    signed32(b.wrapping_sub(a)) < 0
}

/// True if `newer` reports everything about their connection that `older` reports, except for ECN;
/// see the module's text.
fn is_superfluous(older: &Packet, newer: &Packet) -> bool {
    let edge = |p: &Packet| p.ack.0.wrapping_add(p.window);
    let (before, after) = (older.timestamps(), newer.timestamps());
    if is_after(older.ack.0, newer.ack.0)
        || is_after(edge(older), edge(newer))
        || is_after(before.0, after.0)
        || is_after(before.1, after.1)
    {
        return false;
    }
    let covers = |b: &SackBlock| {
        !is_after(b.end.0, newer.ack.0)
            || newer.sack().iter().any(|n| !is_after(n.start.0, b.start.0) && !is_after(b.end.0, n.end.0))
    };
    let tells_duplicate = |p: &Packet| {
        // RFC 2883 section 4: below the ACK, or within the block that follows.
        let within = |a: Seq32, b: &SackBlock| !is_after(b.start.0, a.0) && is_after(b.end.0, a.0);
        match p.sack() {
            [] => false,
            [first, rest @ ..] => is_after(p.ack.0, first.start.0) || rest.iter().any(|b| within(first.start, b)),
        }
    };
    if tells_duplicate(older) || !older.sack().iter().all(covers) {
        return false;
    }
    older.ack != newer.ack || reported(newer) > reported(older)
}

/// Bytes reported as received above the ACK.
fn reported(p: &Packet) -> u64 {
    p.sack().iter().map(|b| u64::from(b.end.0.wrapping_sub(b.start.0))).sum()
}

impl AckFilter {
    fn chain_of(p: &Packet) -> usize {
        (p.conversation() % CHAINS) as usize
    }

    /// The waiting ACK that goes because `newer` arrives, and the one before it in its chain.
    fn find_superfluous(&self, newer: &Packet, pool: &Pool) -> Option<(u32, u32)> {
        let mut candidate: Option<(u32, u32)> = None;
        let mut candidate_ece = false;
        let (mut before, mut at) = (NONE, self.chains[Self::chain_of(newer)].head);
        // The newest of the connection so far.
        let mut last = NONE;
        while at != NONE {
            let slot = &self.slots[at as usize];
            let p = &pool[slot.id];
            if is_same_connection(p, newer) {
                let ece = p.has(TcpFlags::ECE);
                if candidate.is_some() && ece != candidate_ece {
                    candidate = None;
                }
                if is_superfluous(p, newer) {
                    if candidate.is_some() {
                        return candidate;
                    }
                    (candidate, candidate_ece) = (Some((at, before)), ece);
                }
                last = at;
            }
            (before, at) = (at, slot.next_ack);
        }
        candidate.filter(|&(at, _)| {
            self.mode == AckFilterMode::Aggressive && at == last && candidate_ece == newer.has(TcpFlags::ECE)
        })
    }

    fn push(&mut self, id: PacketId, size: u32) -> u32 {
        let slot = Slot { id, size, previous: self.tail, next: NONE, next_ack: NONE, is_ack: false };
        let at = if self.free == NONE {
            self.slots.push(slot);
            count(self.slots.len()) - 1
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].next;
            self.slots[at as usize] = slot;
            at
        };
        match self.tail {
            NONE => self.head = at,
            tail => self.slots[tail as usize].next = at,
        }
        self.tail = at;
        self.packets += 1;
        self.bytes += u64::from(size);
        at
    }

    /// Takes a packet out of the queue, not out of its chain.
    fn take(&mut self, at: u32) -> Slot {
        let slot = self.slots[at as usize];
        match slot.previous {
            NONE => self.head = slot.next,
            previous => self.slots[previous as usize].next = slot.next,
        }
        match slot.next {
            NONE => self.tail = slot.previous,
            next => self.slots[next as usize].previous = slot.previous,
        }
        self.slots[at as usize].next = self.free;
        self.free = at;
        self.packets -= 1;
        self.bytes -= u64::from(slot.size);
        slot
    }

    /// Takes an ACK out of its chain, where it comes after `before`.
    fn unchain(&mut self, chain: usize, at: u32, before: u32) {
        let next = self.slots[at as usize].next_ack;
        match before {
            NONE => self.chains[chain].head = next,
            before => self.slots[before as usize].next_ack = next,
        }
        if self.chains[chain].tail == at {
            self.chains[chain].tail = before;
        }
    }
}

impl Aqm for AckFilter {
    fn enqueue(&mut self, _: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let packet = &pool[id];
        let size = u32::from(packet.size);
        let is_ack = is_pure_ack(packet);
        if is_ack && self.chains.is_empty() {
            self.chains = vec![Chain { head: NONE, tail: NONE }; CHAINS as usize];
        }
        let superfluous = if is_ack { self.find_superfluous(packet, pool) } else { None };
        let (less_packets, less_bytes) =
            superfluous.map_or((0, 0), |(at, _)| (1, u64::from(self.slots[at as usize].size)));
        if !self.limit.admits(self.packets - less_packets, self.bytes - less_bytes, size) {
            drops.dropped.push((id, DropReason::Overflow));
            return;
        }
        let chain = Self::chain_of(packet);
        if let Some((at, before)) = superfluous {
            self.unchain(chain, at, before);
            drops.dropped.push((self.take(at).id, DropReason::Filtered));
        }
        let at = self.push(id, size);
        if is_ack {
            self.slots[at as usize].is_ack = true;
            match self.chains[chain].tail {
                NONE => self.chains[chain].head = at,
                tail => self.slots[tail as usize].next_ack = at,
            }
            self.chains[chain].tail = at;
        }
    }

    fn dequeue(&mut self, _: Time, pool: &mut Pool, _: &mut Drops) -> Option<PacketId> {
        if self.head == NONE {
            return None;
        }
        let at = self.head;
        if self.slots[at as usize].is_ack {
            // The first ACK of the queue is the first of its chain, too.
            self.unchain(Self::chain_of(&pool[self.slots[at as usize].id]), at, NONE);
        }
        Some(self.take(at).id)
    }
    fn len_packets(&self) -> usize {
        self.packets
    }
    fn len_bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
