//! Packets onto links and off them.

use airtcp_core::packet::PacketId;
use airtcp_core::prefetch::prefetch;
use airtcp_core::queue::DropReason;
use airtcp_core::units::Time;

use super::link::{Accepted, flight_ns};
use super::{Answer, Network};
use crate::context::Cx;
use crate::engine::packets_in_flight::{DelayFifo, InFlight};
use crate::path::{Next, Place};
use crate::spec::LinkId;

impl Network {
    /// Takes a packet that is before `link`, at `place` on its path. Returns the number of the
    /// first answer that this led to, if it led to any: a packet that goes onto a free line leads
    /// to none.
    #[inline(always)]
    pub(crate) fn forward(
        &mut self,
        cx: &mut Cx,
        link: LinkId,
        packet: PacketId,
        place: Place,
        size: u16,
    ) -> Option<usize> {
        let now = cx.engine.now;
        let accepted = self.links.accept(now, link, size);
        if let Accepted::Arrives { time, fifo } = accepted {
            self.put_in_flight(cx, now, time, packet, place.next(), size, fifo);
            return None;
        }
        let before = self.answers.len();
        match accepted {
            Accepted::Arrives { .. } => {}
            Accepted::Queued => self.enter_queue(cx, link, packet, place, size),
            Accepted::Air => self.enter_air(cx, link, packet, place),
            Accepted::HeldBack { time } => self.hold_back(cx, now, time, packet, place.next(), size),
            Accepted::Lost(time) => self.lose_at(cx, now, time, packet, place.next(), size),
            Accepted::Dropped => self.discard(cx, link, packet, DropReason::Overflow),
        }
        (self.answers.len() > before).then_some(before)
    }

    /// Puts a packet in flight that came to a link at `from` and reaches the link's far end, at
    /// `place` on its path, at `time`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // in registers, on the way of every packet
    pub(super) fn put_in_flight(
        &mut self,
        cx: &mut Cx,
        from: Time,
        time: Time,
        packet: PacketId,
        place: Place,
        size: u16,
        fifo: DelayFifo,
    ) {
        let hop = self.hops[place.index()];
        if hop.is_marked() {
            if hop.is_across() {
                return self.put_across(from, time, packet, place, size, fifo);
            }
            let (entry, fifo) = self.links.pass(time, hop.link(), packet, place.next(), size);
            cx.engine.in_flight.insert(entry, fifo);
        } else {
            let flight_ns = flight_ns(from, time);
            let entry = InFlight { time, packet, next: Next::reaches(place), size, depth: 0, flight_ns };
            cx.engine.in_flight.insert(entry, fifo);
        }
    }

    /// As [`Self::put_in_flight`], of a packet that others overtake; the next link is not fused
    /// with this one. Its flight counts a nanosecond more than it is, so that it does not tie with
    /// one that came to the link together with it and was not held.
    #[cold]
    pub(super) fn hold_back(&mut self, cx: &mut Cx, from: Time, time: Time, packet: PacketId, place: Place, size: u16) {
        let flight_ns = flight_ns(from, time).saturating_add(1);
        let entry = InFlight { time, packet, next: Next::reaches(place), size, depth: 0, flight_ns };
        if self.hops[place.index()].is_across() {
            return self.send_across(entry, DelayFifo::NONE);
        }
        cx.engine.in_flight.insert(entry, DelayFifo::NONE);
    }

    /// Puts a packet in flight that came to a link at `from` on its way to `place`, and is lost at
    /// the end of its transmission, at `time`.
    #[cold]
    pub(super) fn lose_at(&mut self, cx: &mut Cx, from: Time, time: Time, packet: PacketId, place: Place, size: u16) {
        let next = Next::lost_before(place);
        let entry = InFlight { time, packet, next, size, depth: 0, flight_ns: flight_ns(from, time) };
        cx.engine.in_flight.insert(entry, DelayFifo::NONE);
    }

    /// Loses a packet on the line that leads to `place`.
    #[cold]
    pub(crate) fn lose(&mut self, cx: &mut Cx, packet: PacketId, place: Place) {
        let link = self.hops[place.before().index()].link();
        let stats = &mut self.links.stats[link.index()];
        stats.counts().lost_packets += 1;
        cx.books.lose(cx.engine.now, link, &self.pool[packet], DropReason::Line, stats.record_drops);
        self.answers.push(Answer::Lost(packet));
    }

    /// Drops a packet that its link has counted.
    #[inline(never)]
    pub(super) fn discard(&mut self, cx: &mut Cx, link: LinkId, packet: PacketId, reason: DropReason) {
        let p = &self.pool[packet];
        cx.books.drop(cx.engine.now, link, p, reason, self.links.stats[link.index()].record_drops);
        let is_own = p.flow == self.entering;
        self.answers.push(Answer::Dropped { packet, link, reason, is_own });
    }

    /// Counts the wait of a packet on a fused link, at its end.
    #[cold]
    pub(crate) fn count_wait(&mut self, entry: &InFlight) {
        self.links.count_wait(self.hops[entry.next.place().before().index()].link(), entry);
    }

    /// Loads the links that packets come to soon, several at a time so that the loads overlap: in a
    /// large world every link, packet and flow would otherwise be waited for.
    #[inline]
    pub(crate) fn prefetch(&self, entry: &InFlight) {
        let hop = self.hops[entry.next.place().index()];
        if hop.is_end() {
            prefetch(self.pool[entry.packet].flow);
            return;
        }
        self.links.prefetch(hop.link());
        if let Some(after) = self.hops.get(entry.next.place().next().index()).filter(|hop| hop.is_fused()) {
            self.links.prefetch(after.link());
        }
    }

    /// Loads the first link of a flow's path.
    #[inline]
    pub(crate) fn prefetch_start(&self, flow: usize, is_reverse: bool) {
        let Some(path) = self.paths.get(flow) else { return };
        if let Some(first) = self.hops.get(path.start[usize::from(is_reverse)].index()) {
            self.links.prefetch(first.link());
        }
    }
}
