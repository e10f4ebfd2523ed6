//! Events of a channel, for its owner.

use super::ids::{AirLinkId, PairId};
use crate::packet::{FlowId, PacketId};
use crate::queue::DropReason;

/// Events of the channel. The owner takes them out after each call.
#[derive(Debug, Default)]
pub struct AirOutputs {
    /// Link and packet: delivered to the recipient's upper layer, in order.
    pub delivered: Vec<(AirLinkId, PacketId)>,
    /// Link and packet: lost, with the reason. The owner removes it from the pool.
    pub dropped: Vec<(AirLinkId, PacketId, DropReason)>,
    /// Link and packet: not sent before the association ended, in the order of the queue. The owner
    /// finds another way.
    pub handed_back: Vec<(AirLinkId, PacketId)>,
    /// Pair and packet: a group-addressed packet has reached this pair's station. The packet itself
    /// is among `delivered`, once, if it has reached any.
    pub heard: Vec<(PairId, PacketId)>,
    /// Packets that their host no longer holds, where the caller asked for this report.
    pub released: Vec<Released>,
}

/// Packets of a flow that its host no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// Flow of the packets.
    pub flow: FlowId,
    /// Number of packets.
    pub packets: u32,
    /// Sum of their payloads.
    pub payload_bytes: u64,
}

impl AirOutputs {
    /// True if there are no events.
    pub fn is_empty(&self) -> bool {
        let none = self.delivered.is_empty() && self.dropped.is_empty() && self.handed_back.is_empty();
        none && self.heard.is_empty() && self.released.is_empty()
    }
    /// Reports the release of a packet; consecutive packets of one flow share an entry.
    pub(super) fn release(&mut self, flow: FlowId, payload: u16) {
        match self.released.last_mut() {
            Some(last) if last.flow == flow => {
                last.packets += 1;
                last.payload_bytes += u64::from(payload);
            }
            _ => self.released.push(Released { flow, packets: 1, payload_bytes: u64::from(payload) }),
        }
    }
}
