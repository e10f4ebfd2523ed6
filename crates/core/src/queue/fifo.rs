//! Drop-tail FIFO: what arrives when there is no room is dropped; what is queued leaves in order of arrival.
//!
//! The oldest discipline and every other's baseline. The limit is in packets or bytes, as in Linux's `pfifo` and `bfifo`.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, QueueContext};
use crate::packet::{PacketId, Pool};
use crate::units::{Bytes, Time};

/// `limit_packets` and `limit_bytes` both bind when both are given; with neither the queue is unbounded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FifoConfig {
    /// Most packets waiting, the one being transmitted not counted.
    pub limit_packets: Option<u32>,
    /// Most bytes waiting.
    pub limit_bytes: Option<Bytes>,
}

impl FifoConfig {
    pub fn build(&self, _: &QueueContext) -> Fifo {
        Fifo {
            limit_packets: self.limit_packets.map_or(usize::MAX, |n| n as usize),
            limit_bytes: self.limit_bytes.map_or(u64::MAX, Bytes::get),
            queue: VecDeque::new(),
            bytes: 0,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Fifo {
    limit_packets: usize,
    limit_bytes: u64,
    queue: VecDeque<(PacketId, u32)>,
    bytes: u64,
}

impl Aqm for Fifo {
    fn enqueue(&mut self, _: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let size = u32::from(pool[id].size);
        if self.queue.len() >= self.limit_packets || self.bytes + u64::from(size) > self.limit_bytes {
            drops.dropped.push((id, DropReason::Overflow));
        } else {
            self.bytes += u64::from(size);
            self.queue.push_back((id, size));
        }
    }
    fn dequeue(&mut self, _: Time, _: &mut Pool, _: &mut Drops) -> Option<PacketId> {
        let (id, size) = self.queue.pop_front()?;
        self.bytes -= u64::from(size);
        Some(id)
    }
    fn len_packets(&self) -> usize {
        self.queue.len()
    }
    fn len_bytes(&self) -> u64 {
        self.bytes
    }
}
