//! Packets in the air: from routes into radios, and what channels put out back onto routes.

use airtcp_core::packet::PacketId;
use airtcp_core::queue::DropReason;
use airtcp_core::wifi::{PairId, TransmitConfig};

use super::World;
use crate::books::CAPTURE_BATCH;
use crate::path::{Hop, Place};
use crate::spec::{ChannelId, LinkId, RunSpec};
use crate::traffic::{AnyEnds, Below, FirstQueue};

impl World {
    /// A packet is handed to a radio.
    #[inline(never)]
    pub(super) fn enter_air(&mut self, link: LinkId, packet: PacketId, place: Place) {
        self.note_place(packet, place);
        let (channel, own) = self.air.at[link.index()].expect("a link through the air");
        let p = &self.pool[packet];
        let flow = &self.flows[p.flow.0 as usize];
        let counts = p.len > 0 && !p.is_reverse() || p.is_external();
        // Over a second radio, an access point's, it is no longer the host's.
        let is_own = flow.reports_release && place == flow.path_start[0];
        let (ac, report) = (p.ac().unwrap_or(flow.ac), is_own && counts);
        self.entering = p.flow;
        let c = &mut self.air.channels[channel.index()];
        c.enqueue(self.cx.engine.now, own, packet, ac, report, &mut self.pool, &mut self.air.out);
        self.cx.engine.timeline.advance_brief_to(self.cx.engine.components.channel(channel), c.deadline());
        if !self.air.out.is_empty() {
            self.take_from_air(channel);
        }
    }

    #[inline(never)]
    pub(super) fn on_channel_deadline(&mut self, channel: ChannelId) {
        let c = &mut self.air.channels[channel.index()];
        let component = self.cx.engine.components.channel(channel);
        if c.deadline() > self.cx.engine.now {
            // The leaf was early.
            self.cx.engine.timeline.set_brief(component, c.deadline());
            return;
        }
        loop {
            let c = &mut self.air.channels[channel.index()];
            c.on_deadline(self.cx.engine.now, &mut self.pool, &mut self.air.out);
            self.air.hand_over_due |= c.frames().len().max(c.ppdus().len()) >= CAPTURE_BATCH;
            if !self.air.out.is_empty() {
                self.take_from_air(channel);
            }
            self.tell_hosts();
            // Only now: what was delivered may have been answered, and the answer is in the channel.
            let deadline = self.air.channels[channel.index()].deadline();
            let others = self.cx.engine.next_besides(component);
            if deadline >= others || self.has_batch() {
                self.cx.engine.timeline.set_brief(component, deadline);
                return;
            }
            // Nothing else comes before it: the next event needs not be looked for.
            self.cx.engine.events += 1;
            self.reach(deadline, component);
        }
    }

    /// What a channel has put out goes where it belongs.
    pub(super) fn take_from_air(&mut self, channel: ChannelId) {
        // What it delivers may enter the air again, and that call has its own outputs.
        let mut delivered = std::mem::take(&mut self.air.out.delivered);
        let mut released = std::mem::take(&mut self.air.out.released);
        if !self.air.out.is_empty() {
            self.take_rest_from_air(channel);
        }
        // Packets of an A-MPDU have waited long: what is known of them is loaded for all at a time, so that the loads overlap.
        for (_, packet) in &delivered {
            std::hint::black_box(self.place_of[packet.0 as usize].0);
        }
        for (_, packet) in delivered.drain(..) {
            let place = self.place_of[packet.0 as usize].0;
            let size = self.pool[packet].size;
            self.enter(packet, place.next(), size);
        }
        self.released.append(&mut released);
        (self.air.out.delivered, self.air.out.released) = (delivered, released);
    }

    /// What a channel has put out besides packets that arrived and were let go.
    #[cold]
    fn take_rest_from_air(&mut self, channel: ChannelId) {
        let mut out = std::mem::take(&mut self.air.out);
        for (own, packet, reason) in out.dropped.drain(..) {
            let link = self.air.world_link(channel, own);
            match reason {
                DropReason::RetryLimit | DropReason::Late | DropReason::Collision | DropReason::Errors => {
                    self.lose_in_air(link, packet, reason)
                }
                DropReason::Gone => {
                    self.roamers.count_lost(link);
                    self.discard(link, packet, reason);
                }
                _ => self.discard(link, packet, reason),
            }
        }
        for (own, packet) in out.handed_back.drain(..) {
            self.find_another_way(self.air.world_link(channel, own), packet);
        }
        for (pair, packet) in out.heard.drain(..) {
            self.hear(channel, pair, packet);
        }
        self.air.out = out;
    }

    /// A group-addressed packet has reached the station of a pair.
    #[cold]
    fn hear(&mut self, channel: ChannelId, pair: PairId, packet: PacketId) {
        let packet = self.pool[packet];
        let Some(listener) = self.air.daemons[channel.index()][pair.index()] else { return };
        let AnyEnds::Daemon(speaker) = &self.flows[packet.flow.0 as usize].ends else { return };
        let Some(bytes) = speaker.bytes(&packet) else { return };
        let AnyEnds::Daemon(host) = &mut self.flows[listener.0 as usize].ends else { return };
        host.on_announcement(self.cx.engine.now, &bytes);
        self.cx.engine.timeline.advance_to(self.cx.engine.components.source(listener), host.deadline());
    }

    #[cold]
    fn lose_in_air(&mut self, link: LinkId, id: PacketId, reason: DropReason) {
        let packet = self.pool.remove(id);
        self.cx.books.lose(self.cx.engine.now, link, &packet, reason, self.links.cold[link.index()].record_drops);
        self.external.forget(&packet);
        self.flows[packet.flow.0 as usize].lost_on_lines += 1;
    }
}

/// What the first queue of a sender tells it.
pub(super) fn first_queue(spec: &RunSpec, hop: Hop) -> Option<FirstQueue> {
    let link = spec.links.get(hop.link().index())?;
    let queue = match link.air {
        None => &link.queue,
        Some(air) => {
            let channel = &spec.channels[air.channel.index()];
            let pair = &channel.pairs[usize::from(air.pair)];
            let radio = if air.down { pair.access_point } else { pair.station };
            match &channel.radios[radio.index()].config.transmit {
                TransmitConfig::Qdisc(path) => &path.qdisc,
                _ => return None,
            }
        }
    };
    FirstQueue::new(hop.link(), queue)
}

/// What the radio does for a sender whose packets go into `link` first; `None` for a wire.
pub(super) fn below(spec: &RunSpec, hop: Hop) -> Option<Below> {
    let air = spec.links.get(hop.link().index())?.air?;
    if air.is_group {
        return None;
    }
    let channel = &spec.channels[air.channel.index()];
    let pair = &channel.pairs[usize::from(air.pair)];
    let radio = if air.down { pair.access_point } else { pair.station };
    let pacing_shift = channel.radios[radio.index()].config.transmit.tsq_pacing_shift();
    Some(Below { pacing_shift })
}
