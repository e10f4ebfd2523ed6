//! A FIFO that remembers when each packet came: the backing store of disciplines that act on
//! sojourn time.

use std::collections::VecDeque;

use super::codel::CodelStore;
use crate::packet::PacketId;
use crate::units::{Span, Time};

/// A waiting packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamped {
    /// The packet.
    pub id: PacketId,
    /// Bytes at the IP layer.
    pub size: u32,
    /// Time at which it was enqueued.
    pub at: Time,
}

impl Stamped {
    /// Its waiting time.
    pub fn sojourn(&self, now: Time) -> Span {
        now.since(self.at)
    }
}

/// Waiting packets in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct StampedFifo {
    queue: VecDeque<Stamped>,
    bytes: u64,
}

impl StampedFifo {
    /// Takes a packet in at the end.
    pub fn push(&mut self, packet: Stamped) {
        self.bytes += u64::from(packet.size);
        self.queue.push_back(packet);
    }
    /// Hands out the packet that came first.
    pub fn pop(&mut self) -> Option<Stamped> {
        let packet = self.queue.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }
    /// The packet that came first.
    pub fn front(&self) -> Option<&Stamped> {
        self.queue.front()
    }
    /// Packets waiting.
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    /// True if no packet waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl CodelStore for StampedFifo {
    fn pop(&mut self) -> Option<Stamped> {
        StampedFifo::pop(self)
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
}
