//! CAKE: a shaper, fair shares for hosts and for their flows, and COBALT on each flow's queue, in
//! one discipline.
//!
//! Source: Linux 6.12, net/sched/sch_cake.c; Høiland-Jørgensen, Täht and Morton, "Piece of CAKE",
//! LANMAN 2018.
//!
//! With `bandwidth` it lets packets go at that rate, so that they wait here and not in a modem
//! behind it. A hash with eight ways puts each flow into a queue of its own. Queues take turns by
//! deficit round robin, and a queue that was empty goes first. A queue's share is divided by the
//! number of backlogged queues of its host. With `triple_isolate` that is the source or the
//! destination, whichever has more. So a host with thirty connections has no more than a host with
//! one. COBALT is CoDel with BLUE beside it: BLUE drops at random from flows that fill the queue
//! and do not answer. Without room the queue with the most bytes loses its first packet.
//!
//! Siblings: `fq_codel` shares by flows only and has no shaper. `ack_filter` is CAKE's thinning of
//! ACKs, as a queue of its own.
//!
//! Valid: on a line. Put the shaper's line before the modem's: a link with `bandwidth` a little
//! below the rate of the link behind it. Before a radio, whose rate changes, leave `bandwidth` out.
//!
//! Deviations: one tin (tc's `besteffort`), since simulated packets carry no DSCP. Sizes count from
//! the IP header; `overhead` adds what the line adds. Room counts IP bytes, not buffer memory. No
//! estimate of the rate (`autorate-ingress`). A simulated network translates no addresses, so hosts
//! are told apart as with `nat`. Before a radio it knows no hosts and shares by flows. COBALT's
//! reciprocal root is exact, not approximated.

mod cobalt;

use std::collections::VecDeque;

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::cobalt::{Cobalt, CobaltParams};
use super::{Aqm, DropReason, Drops, Hosts, QueueContext, Stamped, StampedFifo, flow_hash, host_hash};
use crate::convert::count;
use crate::packet::{Packet, PacketId, Pool};
use crate::policy::checked;
use crate::range::within;
use crate::rng::Rng;
use crate::units::{Bytes, DataRate, Span, Time};

/// Packets that share a queue, and hosts that share the line alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CakeIsolation {
    /// One queue for all.
    Flowblind,
    /// A queue for each source.
    Srchost,
    /// A queue for each destination.
    Dsthost,
    /// A queue for each pair of hosts.
    Hosts,
    /// A queue for each flow.
    Flows,
    /// A queue for each flow; sources share alike.
    DualSrchost,
    /// A queue for each flow; destinations share alike.
    DualDsthost,
    /// A queue for each flow; neither a source nor a destination has more for having many.
    #[default]
    TripleIsolate,
}

impl CakeIsolation {
    /// Two flags: a queue's share is divided by the number of its source's queues; by that of its
    /// destination's.
    fn divides(self) -> [bool; 2] {
        match self {
            CakeIsolation::DualSrchost => [true, false],
            CakeIsolation::DualDsthost => [false, true],
            CakeIsolation::TripleIsolate => [true, true],
            _ => [false, false],
        }
    }
}

/// Framing of the line, which changes a packet's length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CakeFraming {
    /// No change: tc's `noatm`.
    #[default]
    None,
    /// ATM cells: 48 bytes of 53, the last one filled up.
    Atm,
    /// PTM (VDSL2): one byte more for each 64.
    Ptm,
}

/// Most bytes of `overhead` and of `mpu`, as tc has it.
const MAX_OVERHEAD: i32 = 256;
const MIN_OVERHEAD: i32 = -64;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "CakeConfig")]
#[allow(missing_docs)] // the page of the policy says it
pub struct CakeConfig {
    /// Rate of the shaper. Left out: none (tc's `unlimited`).
    pub bandwidth: Option<DataRate>,
    /// Round-trip time that COBALT is for: its interval. Its target is a twentieth, and at least
    /// one and a half packets at `bandwidth`.
    pub rtt: Span,
    /// Packets that share a queue, and queues that share a host's part.
    pub isolation: CakeIsolation,
    /// Bytes that the line adds to each packet; counted by shaper and shares. -64 to 256.
    #[schemars(range(min = MIN_OVERHEAD, max = MAX_OVERHEAD))]
    pub overhead: i32,
    /// Least length of a packet on the line, bytes. 0 to 256.
    #[schemars(range(max = MAX_OVERHEAD))]
    pub mpu: u32,
    /// Framing of the line, which changes a packet's length.
    pub framing: CakeFraming,
    /// It stands behind the bottleneck: the shaper counts drops too, and the target grows with the
    /// number of backlogged queues.
    pub ingress: bool,
    /// Most packets waiting in all queues together. Linux: 10240.
    #[schemars(range(min = 1))]
    pub limit_packets: u32,
    /// Most bytes waiting in all queues together. Left out: with `bandwidth` four intervals of it,
    /// at least 4 MiB; else no limit.
    pub memory_limit: Option<Bytes>,
}

impl Default for CakeConfig {
    fn default() -> Self {
        CakeConfig {
            bandwidth: None,
            rtt: Span::from_ms(100),
            isolation: CakeIsolation::TripleIsolate,
            overhead: 0,
            mpu: 0,
            framing: CakeFraming::None,
            ingress: false,
            limit_packets: 10_240,
            memory_limit: None,
        }
    }
}

/// Queues, and the ways of a set.
const QUEUES: u32 = 1024;
const WAYS: u32 = 8;
/// Bytes that a queue may send in a round; less at slow rates.
const QUANTUM: u64 = 1514;
const LEAST_QUANTUM: u64 = 300;

impl CakeConfig {
    fn check(&self) -> Result<(), String> {
        if let Some(rate) = self.bandwidth.filter(|rate| rate.as_bps() < 1000) {
            return Err(format!("`bandwidth` = {rate}: must be at least \"1kbit/s\"; leave it out for no shaper"));
        }
        if self.rtt < Span::from_us(20) {
            return Err(format!("`rtt` = {}: must be at least \"20us\", such as \"100ms\"", self.rtt));
        }
        within("overhead", self.overhead, MIN_OVERHEAD..=MAX_OVERHEAD, "bytes")?;
        if i64::from(self.mpu) > i64::from(MAX_OVERHEAD) {
            return Err(format!("`mpu` = {}: must be at most {MAX_OVERHEAD} (bytes)", self.mpu));
        }
        if self.limit_packets == 0 {
            return Err("`limit_packets` = 0: must be at least 1".into());
        }
        if self.memory_limit == Some(Bytes::new(0)) {
            return Err("`memory_limit` = 0B: must be at least \"1B\"; leave it out for the default".into());
        }
        Ok(())
    }

    /// `cake_set_rate`.
    fn params(&self, mtu: u32) -> CobaltParams {
        let mtu_time = self.bandwidth.map_or(Span::ZERO, |rate| rate.time_for(u64::from(mtu)));
        let wanted = self.rtt.mul_ratio(1, 20);
        let target = wanted.max(mtu_time.mul_ratio(3, 2));
        let interval = (self.rtt + target.saturating_sub(wanted)).max(target.saturating_mul(2));
        CobaltParams { target, interval, mtu_time }
    }

    /// The discipline of one line, at its beginning.
    pub fn build(&self, ctx: &QueueContext) -> Cake {
        let quantum = |rate: DataRate| ((rate.as_bps() / 8) >> 12).clamp(LEAST_QUANTUM, QUANTUM);
        let room = |rate: DataRate| rate.bytes_in(self.rtt.saturating_mul(4)).get().max(4 << 20);
        Cake {
            params: self.params(ctx.mtu),
            quantum: self.bandwidth.map_or(QUANTUM, quantum),
            memory_limit: self
                .memory_limit
                .or(self.bandwidth.map(|rate| Bytes::new(room(rate))))
                .map_or(u64::MAX, Bytes::get),
            config: self.clone(),
            rng: ctx.stream.open(),
            seed: ctx.stream.again(1).open().random(),
            known: ctx.hosts.clone(),
            queues: Vec::new(),
            tags: Vec::new(),
            hosts: [const { Vec::new() }; 2],
            lists: Lists::default(),
            bulk: 0,
            packets: 0,
            bytes: 0,
            next_packet: Time::ZERO,
            wake_at: Time::NEVER,
        }
    }
}
checked!(CakeConfig);

/// The list in which a queue waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Turn {
    #[default]
    None,
    Sparse,
    /// Empty, in the rotation of the backlogged queues, and still counted as sparse.
    SparseWaits,
    Bulk,
    /// Empty; its COBALT comes to rest.
    Decaying,
}

/// One of the queues.
#[derive(Debug, Clone, Default)]
struct Queue {
    waiting: StampedFifo,
    deficit: i64,
    law: Cobalt,
    /// Places of its source and its destination in [`Cake::hosts`].
    hosts: [u32; 2],
    turn: Turn,
}

#[derive(Debug, Clone, Copy, Default)]
struct Host {
    tag: u32,
    /// Number of its backlogged queues.
    bulk: u32,
}

#[derive(Debug, Clone, Default)]
struct Lists {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    decaying: VecDeque<u32>,
}

/// CAKE, as one line has it.
#[derive(Debug)]
pub struct Cake {
    config: CakeConfig,
    params: CobaltParams,
    quantum: u64,
    memory_limit: u64,
    rng: Rng,
    /// Perturbs the hashes.
    seed: u64,
    known: Hosts,
    /// Built with the first packet: many a link never sees one.
    queues: Vec<Queue>,
    tags: Vec<u32>,
    /// Sources, destinations.
    hosts: [Vec<Host>; 2],
    lists: Lists,
    /// Backlogged queues.
    bulk: u64,
    packets: usize,
    bytes: u64,
    /// When the shaper lets the next packet go.
    next_packet: Time,
    /// When to ask again, after it let none go.
    wake_at: Time,
}

/// The way of a set that suits best: the first, from the hash's own on, for which `is_good`.
fn find_way(hash: u32, is_good: impl Fn(usize) -> bool) -> Option<usize> {
    let way = hash % QUEUES % WAYS;
    let set = hash % QUEUES - way;
    (0..WAYS).map(|n| (set + (way + n) % WAYS) as usize).find(|&i| is_good(i))
}

/// The place of a host; a new one takes that of a host without backlogged queues.
fn place_of_host(hosts: &mut [Host], hash: u32) -> u32 {
    let own = find_way(hash, |i| hosts[i].tag == hash);
    let i = own.or_else(|| find_way(hash, |i| hosts[i].bulk == 0)).unwrap_or((hash % QUEUES) as usize);
    hosts[i].tag = hash;
    count(i)
}

impl Cake {
    /// The packet's length on the line.
    fn length(&self, size: u32) -> u64 {
        let length = (i64::from(size) + i64::from(self.config.overhead)).max(i64::from(self.config.mpu));
        let length = u64::try_from(length).unwrap_or(0);
        match self.config.framing {
            CakeFraming::None => length,
            CakeFraming::Atm => length.div_ceil(48) * 53,
            CakeFraming::Ptm => length + length.div_ceil(64),
        }
    }

    fn charge(&mut self, size: u32) -> u64 {
        let length = self.length(size);
        if let Some(rate) = self.config.bandwidth {
            self.next_packet += rate.time_for(length);
        }
        length
    }

    /// The hosts of queue `i` that its share is divided by.
    fn hosts_of(&mut self, i: usize) -> impl Iterator<Item = &mut Host> {
        let places = self.queues[i].hosts;
        let divides = self.config.isolation.divides();
        self.hosts
            .iter_mut()
            .zip(places)
            .zip(divides)
            .filter(|side| side.1)
            .map(|((table, i), _)| &mut table[i as usize])
    }

    fn count_bulk(&mut self, i: usize, by: i32) {
        self.hosts_of(i).for_each(|host| host.bulk = host.bulk.saturating_add_signed(by));
    }

    /// Bytes that a queue may send in a round: its part of its host's share, rounded at random so
    /// that rounding favours no queue.
    fn share(&mut self, i: usize) -> i64 {
        let load = self.hosts_of(i).fold(1, |most, host| most.max(host.bulk));
        let share = (self.quantum * u64::from(65_535 / load) + u64::from(self.rng.random::<u16>())) >> 16;
        i64::try_from(share).unwrap_or(i64::MAX)
    }

    /// The queue of a packet (`cake_hash`).
    fn classify(&mut self, packet: &Packet) -> usize {
        let isolation = self.config.isolation;
        if isolation == CakeIsolation::Flowblind {
            return 0;
        }
        let (from, to) = self.known.of(packet);
        let hosts = [host_hash(from, self.seed), host_hash(to, self.seed ^ 1)];
        let hash = match isolation {
            CakeIsolation::Srchost => hosts[0],
            CakeIsolation::Dsthost => hosts[1],
            CakeIsolation::Hosts => hosts[0] ^ hosts[1],
            _ => count((flow_hash(packet, self.seed) >> 32) as usize),
        };
        let own = find_way(hash, |i| self.tags[i] == hash);
        let free = || find_way(hash, |i| self.queues[i].turn == Turn::None);
        let (i, collides) = match own.or_else(free) {
            Some(i) => (i, false),
            None => ((hash % QUEUES) as usize, true),
        };
        let is_bulk = self.queues[i].turn == Turn::Bulk;
        if collides || self.queues[i].turn == Turn::None {
            if is_bulk {
                self.count_bulk(i, -1);
            }
            for (side, hash) in hosts.into_iter().enumerate().filter(|&(side, _)| isolation.divides()[side]) {
                self.queues[i].hosts[side] = place_of_host(&mut self.hosts[side], hash);
            }
            if is_bulk {
                self.count_bulk(i, 1);
            }
        }
        self.tags[i] = hash;
        i
    }

    fn take(&mut self, i: usize) -> Option<Stamped> {
        let packet = self.queues[i].waiting.pop()?;
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    /// Makes room: the queue with the most bytes loses its first packet.
    fn drop_from_fattest(&mut self, now: Time, drops: &mut Drops) {
        let (mut fattest, mut most) = (0, 0);
        for (i, queue) in self.queues.iter().enumerate() {
            if queue.waiting.bytes() > most {
                (fattest, most) = (i, queue.waiting.bytes());
            }
        }
        self.queues[fattest].law.on_full(&self.params, now);
        let Some(packet) = self.take(fattest) else { return };
        drops.dropped.push((packet.id, DropReason::Overflow));
        if self.config.ingress {
            self.charge(packet.size);
        }
    }

    /// It was the turn of queue `i`, and nothing waited there.
    fn on_empty(&mut self, now: Time, i: usize) {
        let queue = &mut self.queues[i];
        queue.law.on_empty(&self.params, now);
        let is_at_rest = queue.law.is_at_rest(now);
        let was = std::mem::replace(&mut queue.turn, if is_at_rest { Turn::None } else { Turn::Decaying });
        if was == Turn::Bulk {
            self.bulk -= 1;
            self.count_bulk(i, -1);
        }
        if !is_at_rest {
            self.lists.decaying.push_back(count(i));
        }
    }

    /// Takes the next queue off its list. For each packet one decaying queue is examined.
    fn next_turn(&mut self, may_decay: bool) -> Option<usize> {
        let lists = &mut self.lists;
        let first = if may_decay { lists.decaying.pop_front() } else { None };
        let i = first
            .or_else(|| lists.new.pop_front())
            .or_else(|| lists.old.pop_front())
            .or_else(|| lists.decaying.pop_front())?;
        Some(i as usize)
    }

    /// Puts queue `i`, whose packet has been taken, back to the head of its list.
    fn stay(&mut self, i: usize) {
        let list = match self.queues[i].turn {
            Turn::Sparse => &mut self.lists.new,
            _ => &mut self.lists.old,
        };
        list.push_front(count(i));
    }
}

impl Aqm for Cake {
    fn enqueue(&mut self, now: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        if self.queues.is_empty() {
            self.queues = vec![Queue::default(); QUEUES as usize];
            self.tags = vec![0; QUEUES as usize];
            self.hosts = [const { Vec::new() }; 2].map(|_: Vec<Host>| vec![Host::default(); QUEUES as usize]);
        }
        let size = u32::from(pool[id].size);
        let i = self.classify(&pool[id]);
        if self.packets == 0 {
            self.next_packet = self.next_packet.max(now);
        }
        self.queues[i].waiting.push(Stamped { id, size, at: now });
        self.packets += 1;
        self.bytes += u64::from(size);
        match self.queues[i].turn {
            was @ (Turn::None | Turn::Decaying) => {
                if was == Turn::Decaying {
                    self.lists.decaying.retain(|&n| n as usize != i);
                }
                self.queues[i].turn = Turn::Sparse;
                self.queues[i].deficit = self.share(i);
                self.lists.new.push_back(count(i));
            }
            Turn::SparseWaits => {
                self.queues[i].turn = Turn::Bulk;
                self.bulk += 1;
                self.count_bulk(i, 1);
            }
            Turn::Sparse | Turn::Bulk => {}
        }
        while self.packets > self.config.limit_packets as usize || self.bytes > self.memory_limit {
            if self.packets == 0 {
                break;
            }
            self.drop_from_fattest(now, drops);
        }
    }

    fn dequeue(&mut self, now: Time, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId> {
        if self.config.bandwidth.is_some() && self.next_packet > now {
            self.wake_at = if self.packets == 0 { Time::NEVER } else { self.next_packet };
            return None;
        }
        self.wake_at = Time::NEVER;
        let mut may_decay = true;
        while self.packets > 0 {
            let i = self.next_turn(std::mem::take(&mut may_decay))?;
            if self.queues[i].deficit <= 0 {
                if self.queues[i].turn == Turn::Sparse {
                    if self.queues[i].waiting.is_empty() {
                        self.queues[i].turn = Turn::SparseWaits;
                    } else {
                        self.queues[i].turn = Turn::Bulk;
                        self.bulk += 1;
                        self.count_bulk(i, 1);
                    }
                }
                self.queues[i].deficit += self.share(i);
                self.lists.old.push_back(count(i));
                continue;
            }
            let bulk = if self.config.ingress { self.bulk } else { 0 };
            loop {
                let Some(packet) = self.take(i) else {
                    self.on_empty(now, i);
                    break;
                };
                let rng = &mut self.rng;
                let queue = &mut self.queues[i];
                let mark = || drops.try_mark(packet.id, pool);
                let waited = packet.sojourn(now);
                let is_chosen = queue.law.should_drop(&self.params, now, waited, bulk, mark, || rng.random::<u32>());
                // The last packet of a queue may be marked and is not dropped.
                if !is_chosen || queue.waiting.is_empty() {
                    let length = self.charge(packet.size);
                    self.queues[i].deficit -= i64::try_from(length).unwrap_or(i64::MAX);
                    self.stay(i);
                    return Some(packet.id);
                }
                // A mark that BLUE made superfluous.
                drops.marked.retain(|marked| *marked != packet.id);
                drops.dropped.push((packet.id, DropReason::Early));
                if self.config.ingress {
                    let length = self.charge(packet.size);
                    self.queues[i].deficit -= i64::try_from(length).unwrap_or(i64::MAX);
                    self.stay(i);
                    break;
                }
            }
        }
        None
    }

    fn len_packets(&self) -> usize {
        self.packets
    }
    fn len_bytes(&self) -> u64 {
        self.bytes
    }
    fn deadline(&self) -> Time {
        self.wake_at
    }
    fn on_deadline(&mut self, now: Time) {
        if self.wake_at <= now {
            self.wake_at = Time::NEVER;
        }
    }
}

#[cfg(test)]
mod tests;
