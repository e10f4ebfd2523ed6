//! Drop-tail FIFO: what arrives when there is no room is dropped; what is queued leaves in order of arrival.
//!
//! The oldest discipline and every other's baseline. The limit is in packets or bytes, as in Linux's `pfifo` and `bfifo`.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Limit, QueueContext};
use crate::packet::{PacketId, Pool};
use crate::units::{Bytes, Time};

/// `limit_packets` and `limit_bytes` both bind when both are given; with neither the queue is unbounded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "FifoConfig")]
pub struct FifoConfig {
    /// Most packets waiting, the one being transmitted not counted. At least 1.
    #[schemars(range(min = 1))]
    pub limit_packets: Option<u32>,
    /// Most bytes waiting.
    pub limit_bytes: Option<Bytes>,
}

impl FifoConfig {
    fn check(&self) -> Result<(), String> {
        Limit::check(self.limit_packets, self.limit_bytes)
    }

    pub fn build(&self, _: &QueueContext) -> Fifo {
        Fifo::with_limit(Limit::new(self.limit_packets, self.limit_bytes))
    }
}
checked!(FifoConfig);

#[derive(Debug, Clone)]
pub struct Fifo {
    limit: Limit,
    queue: VecDeque<(PacketId, u32)>,
    bytes: u64,
}

impl Fifo {
    pub(super) fn with_limit(limit: Limit) -> Fifo {
        Fifo { limit, queue: VecDeque::new(), bytes: 0 }
    }
    pub(super) fn has_room(&self, size: u32) -> bool {
        self.limit.admits(self.queue.len(), self.bytes, size)
    }
}

impl Aqm for Fifo {
    fn enqueue(&mut self, _: Time, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let size = u32::from(pool[id].size);
        if self.has_room(size) {
            self.bytes += u64::from(size);
            self.queue.push_back((id, size));
        } else {
            drops.dropped.push((id, DropReason::Overflow));
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
