//! Queue disciplines. Each decides which packets wait, in what order they leave, and which are dropped or marked.

use crate::packet::{PacketId, Pool};
use crate::policy::policies;
use crate::rng::Rng;
use crate::units::{DataRate, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum DropReason {
    /// No room left.
    Overflow,
    /// The discipline chose to drop early (RED, CoDel, PIE).
    Early,
    /// Lost on the line, after transmission. Links use this; disciplines never do.
    Line,
}

/// What a discipline did to packets during one call, besides queueing them. The caller records it, removes the dropped
/// packets from the pool and clears the lists; a discipline only appends.
#[derive(Debug, Default)]
pub struct Drops {
    pub dropped: Vec<(PacketId, DropReason)>,
    /// Packets that stay in the queue or leave it with their ECN field now set to CE.
    pub marked: Vec<PacketId>,
}

/// What a discipline may know about where it stands.
#[derive(Debug, Clone)]
pub struct QueueContext {
    /// Rate of the line it feeds.
    pub rate: DataRate,
    /// Size of a typical packet in bytes: RED's idle-time average and PIE's and CoDel's last-packet rules.
    pub mtu: u32,
    pub rng: Rng,
}

/// A queue discipline. May drop any packet, may mark, may hand out nothing.
///
/// The owner calls `enqueue` when a packet arrives, `dequeue` when the line is free, and `on_deadline` at [`Aqm::deadline`].
/// Calling `dequeue` on an empty queue is harmless.
pub trait Aqm {
    fn enqueue(&mut self, now: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops);
    fn dequeue(&mut self, now: Time, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId>;
    /// Packets now waiting.
    fn len_packets(&self) -> usize;
    /// Bytes now waiting (IP-layer sizes).
    fn len_bytes(&self) -> u64;
    /// When periodic work is due; [`Time::NEVER`] if there is none.
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    fn on_deadline(&mut self, _now: Time) {}
}

policies! {
    /// One of the registered disciplines.
    AnyQueue: Aqm,
    /// Parameters of a queue discipline.
    QueueConfig("a queue discipline"), built with QueueContext {
        fifo => Fifo / FifoConfig,
    }
}
