//! Queue disciplines. Each decides which packets wait, are dropped or are marked, and in which
//! order they leave.

mod stamped;
#[cfg(test)]
mod tests;

pub use stamped::{Stamped, StampedFifo};

use std::borrow::Cow;

use std::sync::Arc;

use crate::convert::count;
use crate::packet::{Ecn, Packet, PacketId, Pool};
use crate::policy::policies;
use crate::rng::{Stream, splitmix};
use crate::units::{Bytes, DataRate, Time};

/// Reason of a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DropReason {
    /// No room left.
    Overflow,
    /// The discipline chose to drop early (RED, CoDel, PIE).
    Early,
    /// An ACK that a newer one made superfluous: not a loss.
    Filtered,
    /// Lost on the line, after transmission. Links use this; disciplines never do.
    Line,
    /// In the air: the originator gave up after its last retry.
    RetryLimit,
    /// In the air: arrived after the recipient had given it up.
    Late,
    /// In the air, without acknowledgement: hit by another transmission.
    Collision,
    /// In the air, without acknowledgement: received with errors, or not at all.
    Errors,
    /// In the air: the station it is for, or from, is not associated there, or left before it was
    /// through.
    Gone,
}

impl DropReason {
    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Overflow => "overflow",
            DropReason::Early => "early",
            DropReason::Filtered => "filtered",
            DropReason::Line => "line",
            DropReason::RetryLimit => "retry_limit",
            DropReason::Late => "late",
            DropReason::Collision => "collision",
            DropReason::Errors => "errors",
            DropReason::Gone => "gone",
        }
    }
}

impl From<DropReason> for Cow<'static, str> {
    fn from(reason: DropReason) -> Cow<'static, str> {
        Cow::Borrowed(reason.name())
    }
}

/// Packets that a discipline dropped or marked during one call. The caller records it, removes the
/// dropped packets from the pool and clears the lists; a discipline only appends.
#[derive(Debug, Default)]
pub struct Drops {
    /// Packets that left the queue without being handed out, with the reason.
    pub dropped: Vec<(PacketId, DropReason)>,
    /// Packets that stay in the queue or leave it with their ECN field now set to CE.
    pub marked: Vec<PacketId>,
}

impl Drops {
    /// True if no packet has been dropped or marked.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.marked.is_empty()
    }
    /// Signals congestion on `id` without losing it, if its sender understands that (RFC 3168
    /// section 5): an ECT packet gets CE and is recorded, one that already carries CE stays as
    /// it is. False: the packet is not ECN-capable, drop it.
    pub fn try_mark(&mut self, id: PacketId, pool: &mut Pool) -> bool {
        let ecn = &mut pool[id].ecn;
        match *ecn {
            Ecn::NotEct => return false,
            Ecn::Ect0 | Ecn::Ect1 => {
                *ecn = Ecn::Ce;
                self.marked.push(id);
            }
            Ecn::Ce => {}
        }
        true
    }
}

/// Facts about its line that a discipline may use.
#[derive(Debug, Clone)]
pub struct QueueContext {
    /// Rate of the line it feeds.
    pub rate: DataRate,
    /// Size of a typical packet in bytes: RED's idle-time average and PIE's and CoDel's last-packet
    /// rules.
    pub mtu: u32,
    /// Random numbers of the discipline.
    pub stream: Stream,
    /// Hosts of the packets, for disciplines that share by hosts.
    pub hosts: Hosts,
}

/// The two hosts of each flow, by numbers of the owner's choice. The hosts of other flows are not
/// known.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Arc<[(u32, u32)]>);

impl Hosts {
    /// Source and destination of the flows, in their order.
    pub fn new(flows: impl IntoIterator<Item = (u32, u32)>) -> Hosts {
        Hosts(flows.into_iter().collect())
    }
    /// Where a packet comes from and goes to. Each flow without known hosts counts as having hosts
    /// of its own.
    pub fn of(&self, packet: &Packet) -> (u32, u32) {
        let unknown = (!packet.conversation(), packet.conversation());
        let (from, to) = self.0.get(packet.flow.0 as usize).copied().unwrap_or(unknown);
        if packet.is_reverse() { (to, from) } else { (from, to) }
    }
}

/// Every connection and direction has a key of its own.
#[inline]
fn flow_key(packet: &Packet) -> u64 {
    let connection = u64::from(packet.connection());
    ((connection & !0xf) << 4) | ((connection & 0xf) << 1) | u64::from(packet.is_reverse())
}

/// Spreads connections and directions.
fn flow_hash(packet: &Packet, seed: u64) -> u64 {
    splitmix(flow_key(packet) ^ seed)
}

/// Spreads hosts.
fn host_hash(host: u32, seed: u64) -> u32 {
    count((splitmix(u64::from(host) ^ seed) >> 32) as usize)
}

/// A queue discipline. May drop any packet, may mark, may hand out nothing.
///
/// The owner calls `enqueue` when a packet arrives, `dequeue` when the line is free, and
/// `on_deadline` at [`Aqm::deadline`]. Calling `dequeue` on an empty queue is harmless.
pub trait Aqm {
    /// A packet arrives.
    fn enqueue(&mut self, now: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops);
    /// The line is free: the packet that leaves next, if any may.
    fn dequeue(&mut self, now: Time, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId>;
    /// Packets now waiting.
    fn len_packets(&self) -> usize;
    /// Bytes now waiting (IP-layer sizes).
    fn len_bytes(&self) -> u64;
    /// When periodic work is due; [`Time::NEVER`] if there is none.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    /// The deadline has come.
    fn on_deadline(&mut self, _now: Time) {}
    /// For a time series: the probability, in `0..=1`, with which the discipline now drops or marks
    /// an arriving packet of typical size. `None` for disciplines that do not work by
    /// probability.
    fn drop_probability(&self) -> Option<f64> {
        None
    }
}

/// Bounds on the waiting packets and their bytes. Both hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    packets: usize,
    bytes: u64,
}

impl Limit {
    fn new(packets: Option<u32>, bytes: Option<Bytes>) -> Limit {
        Limit { packets: packets.map_or(usize::MAX, |n| n as usize), bytes: bytes.map_or(u64::MAX, Bytes::get) }
    }
    /// As [`Limit::new`], but `default_packets` when neither bound is given.
    fn or_packets(packets: Option<u32>, bytes: Option<Bytes>, default_packets: u32) -> Limit {
        Limit::new(packets.or(if bytes.is_none() { Some(default_packets) } else { None }), bytes)
    }
    /// True if a packet of `size` has room beside those that wait.
    #[inline]
    fn admits(&self, waiting_packets: usize, waiting_bytes: u64, size: u32) -> bool {
        waiting_packets < self.packets && waiting_bytes + u64::from(size) <= self.bytes
    }
    /// True if the waiting packets or bytes reach a third of their bound.
    fn is_third_full(&self, waiting_packets: usize, waiting_bytes: u64) -> bool {
        waiting_packets >= self.packets / 3 || waiting_bytes >= self.bytes / 3
    }
    /// Refuses limits that admit no packet.
    fn check(packets: Option<u32>, bytes: Option<Bytes>) -> Result<(), String> {
        if packets == Some(0) {
            return Err("`limit_packets` = 0: must be at least 1; leave it out for the default".into());
        }
        if bytes == Some(Bytes::new(0)) {
            return Err("`limit_bytes` = 0B: must be at least \"1B\"; leave it out for the default".into());
        }
        Ok(())
    }
}

policies! {
    /// One of the registered disciplines.
    AnyQueue: Aqm,
    /// Parameters of a queue discipline.
    QueueConfig("a queue discipline"), built with QueueContext {
        fifo => Fifo / FifoConfig,
        red => Red / RedConfig,
        codel => Codel / CodelConfig,
        fq_codel => FqCodel / FqCodelConfig,
        pie => Pie / PieConfig,
        dualpi2 => Dualpi2 / Dualpi2Config,
        cake => Cake / CakeConfig,
        ack_filter => AckFilter / AckFilterConfig,
    }
}
