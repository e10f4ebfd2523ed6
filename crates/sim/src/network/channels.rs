//! Packets in the air: into radios, and what channels put out as answers.

use airtcp_core::packet::PacketId;
use airtcp_core::queue::DropReason;
use airtcp_core::units::Time;
use airtcp_core::wifi::PairId;

use super::{Answer, Network};
use crate::books::record::PpduRow;
use crate::books::{Books, CAPTURE_BATCH};
use crate::context::Cx;
use crate::path::Place;
use crate::spec::{ChannelId, LinkId};

impl Network {
    /// Passes a packet to a radio.
    #[inline(never)]
    pub(super) fn enter_air(&mut self, cx: &mut Cx, link: LinkId, packet: PacketId, place: Place) {
        let now = cx.engine.now;
        self.note_place(now, packet, place);
        let (channel, own) = self.air.at[link.index()].expect("a link through the air");
        let p = &self.pool[packet];
        let path = &self.paths[p.flow.0 as usize];
        let counts = p.len > 0 && !p.is_reverse() || p.is_external();
        // Over a second radio, an access point's, it is no longer the host's.
        let is_own = path.reports_release && place == path.start[0];
        let (ac, report) = (p.ac().unwrap_or(path.ac), is_own && counts);
        self.entering = p.flow;
        let c = &mut self.air.channels[channel.index()];
        c.enqueue(now, own, packet, ac, report, &mut self.pool, &mut self.air.out);
        cx.engine.timeline.advance_brief_to(cx.engine.components.channel(channel), c.deadline());
        if !self.air.out.is_empty() {
            self.answer_for_air(cx, channel);
        }
    }

    /// Signal that a pair of radios receives, dBm.
    pub(crate) fn received_dbm(&mut self, channel: ChannelId, pair: PairId, now: Time) -> f64 {
        self.air.channels[channel.index()].received_dbm(pair, now)
    }

    /// Deadline of a channel.
    #[inline]
    pub(crate) fn channel_deadline(&self, channel: ChannelId) -> Time {
        self.air.channels[channel.index()].deadline()
    }

    /// Does everything that is due on a channel.
    #[inline]
    pub(crate) fn on_channel_deadline(&mut self, cx: &mut Cx, channel: ChannelId) {
        let c = &mut self.air.channels[channel.index()];
        c.on_deadline(cx.engine.now, &mut self.pool, &mut self.air.out);
        self.air.flush_due |= c.frames().len().max(c.ppdus().len()) >= CAPTURE_BATCH;
        if !self.air.out.is_empty() {
            self.answer_for_air(cx, channel);
        }
    }

    /// Associates a station, or ends its association.
    pub(crate) fn set_association(&mut self, cx: &mut Cx, channel: ChannelId, pair: PairId, is_associated: bool) {
        let c = &mut self.air.channels[channel.index()];
        if is_associated {
            c.associate(cx.engine.now, pair, &mut self.pool, &mut self.air.out);
        } else {
            c.disassociate(cx.engine.now, pair, &mut self.pool, &mut self.air.out);
        }
        cx.engine.timeline.set_brief(cx.engine.components.channel(channel), c.deadline());
        if !self.air.out.is_empty() {
            self.answer_for_air(cx, channel);
        }
    }

    /// Turns what a channel has put out into answers, packets that arrived last but for those
    /// released.
    fn answer_for_air(&mut self, cx: &mut Cx, channel: ChannelId) {
        let out = &mut self.air.out;
        if !(out.dropped.is_empty() && out.handed_back.is_empty() && out.heard.is_empty()) {
            self.answer_slow(cx, channel);
        }
        let out = &mut self.air.out;
        if !out.delivered.is_empty() {
            debug_assert!(self.received.is_empty(), "one list at a time");
            std::mem::swap(&mut out.delivered, &mut self.received);
            self.answers.push(Answer::Received);
        }
        for &released in &out.released {
            self.answers.push(Answer::Released(released));
        }
        out.released.clear();
    }

    /// Answers for packets that were dropped, handed back or heard.
    #[cold]
    fn answer_slow(&mut self, cx: &mut Cx, channel: ChannelId) {
        for i in 0..self.air.out.dropped.len() {
            let (own, packet, reason) = self.air.out.dropped[i];
            let link = self.air.world_link(channel, own);
            match reason {
                DropReason::RetryLimit | DropReason::Late | DropReason::Collision | DropReason::Errors => {
                    let recorded = self.links.stats[link.index()].record_drops;
                    cx.books.lose(cx.engine.now, link, &self.pool[packet], reason, recorded);
                    self.answers.push(Answer::Lost(packet));
                }
                _ => self.discard(cx, link, packet, reason),
            }
        }
        let Network { air, answers, .. } = self;
        air.out.dropped.clear();
        for (own, packet) in air.out.handed_back.drain(..) {
            let link = air.world_link[channel.index()][own.index()];
            answers.push(Answer::Returned { packet, link });
        }
        let heard = air.out.heard.drain(..);
        answers.extend(heard.map(|(pair, packet)| Answer::Heard { packet, channel, pair }));
    }

    /// Moves records of PPDUs and frames into the books.
    pub(crate) fn record_air(&mut self, books: &mut Books) {
        for (c, channel) in (0..).map(ChannelId).zip(&mut self.air.channels) {
            for ppdu in channel.ppdus().drain(..) {
                let link = self.air.world_link[c.index()][ppdu.link.index()];
                books.log.ppdus.push(PpduRow::new(link, &ppdu));
            }
            books.frames.extend(channel.frames().drain(..).map(|frame| (c, frame)));
        }
        self.air.flush_due = false;
    }
}
