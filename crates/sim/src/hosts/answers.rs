//! Answers of the network, as hosts take them.

use airtcp_core::packet::Packet;
use airtcp_core::queue::DropReason;
use airtcp_core::wifi::PairId;

use super::Hosts;
use crate::engine::Engine;
use crate::spec::{ChannelId, LinkId};
use crate::traffic::{AnyEnds, QueueNotice};

impl Hosts {
    /// A packet was dropped at a queue or with a radio. `is_own`: the packet that came last there
    /// was of the same flow.
    pub(crate) fn on_dropped(&mut self, packet: &Packet, link: LinkId, reason: DropReason, is_own: bool) {
        if reason == DropReason::Gone {
            self.roamers.count_lost(link);
        }
        self.external.forget(packet);
        let flow = &mut self.flows[packet.flow.0 as usize];
        if reason != DropReason::Filtered {
            flow.dropped_at_queues += 1;
            flow.ends.on_drop(packet);
        }
        let is_data = !packet.is_reverse() && packet.len > 0;
        if let Some(queue) = flow.first_queue.as_ref().filter(|queue| queue.link == link && is_data) {
            match queue.notice(reason, is_own) {
                Some(QueueNotice::Refused) => self.notices.refused.push(*packet),
                Some(QueueNotice::Congested) => self.notices.congested.push(packet.flow),
                None => {}
            }
        }
    }

    /// A packet was lost on a line or in the air.
    pub(crate) fn on_lost(&mut self, packet: &Packet) {
        self.external.forget(packet);
        self.flows[packet.flow.0 as usize].lost_on_lines += 1;
    }

    /// A group-addressed packet has reached the station of a pair.
    #[cold]
    pub(crate) fn on_heard(&mut self, engine: &mut Engine, packet: &Packet, channel: ChannelId, pair: PairId) {
        let Some(listener) = self.daemons[channel.index()][pair.index()] else { return };
        let AnyEnds::Daemon(speaker) = &self.flows[packet.flow.0 as usize].ends else { return };
        let Some(bytes) = speaker.bytes(packet) else { return };
        let AnyEnds::Daemon(host) = &mut self.flows[listener.0 as usize].ends else { return };
        host.on_announcement(engine.now, &bytes);
        engine.timeline.advance_to(engine.components.source(listener), host.deadline());
    }
}
