//! Drop-tail FIFO: a packet that finds no room is dropped; the others leave in order of arrival.
//!
//! Source: Linux's `pfifo` (a limit in packets) and `bfifo` (a limit in bytes).
//!
//! Siblings: the oldest discipline and the baseline of all others.
//!
//! Valid: always. A large limit lets loss-based senders fill it, and every packet then waits for
//! the whole queue.
//!
//! Deviations: none known.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Aqm, DropReason, Drops, Limit, QueueContext};
use crate::packet::{PacketId, Pool};
use crate::policy::checked;
use crate::units::{Bytes, Time};

/// `limit_packets` and `limit_bytes` both bind when both are given; with neither the queue is
/// unbounded.
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

    /// The discipline of one line, at its beginning.
    pub fn build(&self, _: &QueueContext) -> Fifo {
        Fifo::with_limit(Limit::new(self.limit_packets, self.limit_bytes))
    }
}
checked!(FifoConfig);

/// The queue of one line.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::queue::tests::{Rig, context, ms, packet};

    /// Arrivals of these sizes to a queue with these limits: which are dropped.
    #[test]
    fn drops_what_has_no_room() {
        type Case<'a> = (Option<u32>, Option<u64>, &'a [u16], &'a [u32]);
        let cases: [Case; 6] = [
            (Some(3), None, &[1500, 40, 1500, 40, 1500], &[3, 4]),
            (None, Some(3000), &[1500, 1500, 1, 1500], &[2, 3]),
            // A small packet still fits where a large one did not.
            (None, Some(3000), &[1500, 1000, 1000, 500, 1], &[2, 4]),
            (Some(2), Some(3000), &[100, 100, 100], &[2]),
            (Some(9), Some(3000), &[1500, 1500, 100], &[2]),
            (None, None, &[1500; 50], &[]),
        ];
        for (limit_packets, limit_bytes, sizes, dropped) in cases {
            let config = FifoConfig { limit_packets, limit_bytes: limit_bytes.map(Bytes::new) };
            let mut fifo = config.build(&context(0));
            let mut rig = Rig::new(&mut fifo);
            for &size in sizes {
                rig.arrive(ms(0), packet(0, size, Ecn::Ect0));
            }
            assert_eq!(rig.dropped_numbers(), dropped, "{config:?}");
            assert!(rig.dropped.iter().all(|d| d.1 == DropReason::Overflow));
            let left: Vec<u32> = std::iter::from_fn(|| rig.leave(ms(9))).map(|p| p.seq.0).collect();
            let kept: Vec<u32> = (0..sizes.len() as u32).filter(|n| !dropped.contains(n)).collect();
            assert_eq!(left, kept);
            assert!(rig.marked.is_empty());
        }
    }

    #[test]
    fn a_departure_makes_room() {
        let mut fifo = FifoConfig { limit_packets: Some(1), limit_bytes: None }.build(&context(0));
        let mut rig = Rig::new(&mut fifo);
        for _ in 0..2 {
            rig.arrive(ms(0), packet(0, 1500, Ecn::NotEct));
        }
        rig.leave(ms(1));
        rig.arrive(ms(1), packet(0, 1500, Ecn::NotEct));
        assert_eq!(rig.dropped_numbers(), [1]);
        assert_eq!(rig.leave(ms(2)).map(|p| p.seq.0), Some(2));
    }
}
