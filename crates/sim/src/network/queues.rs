//! Links with a discipline of their own: packets into queues, and out of them onto lines.

use airtcp_core::convert::count;
use airtcp_core::packet::PacketId;

use super::Network;
use super::link::Accepted;
use crate::capture::Captured;
use crate::context::Cx;
use crate::engine::QueueId;
use crate::path::Place;
use crate::spec::LinkId;

impl Network {
    /// A packet arrives at a link with a discipline of its own.
    #[inline(never)]
    pub(super) fn enter_queue(&mut self, cx: &mut Cx, link: LinkId, packet: PacketId, place: Place, size: u16) {
        let queue = self.links.stats[link.index()].queued().expect("a link with a discipline of its own");
        self.note_place(cx.engine.now, packet, place);
        self.entering = self.pool[packet].flow;
        let tie = self.links.lines[link.index()].free_at() == cx.engine.now;
        if !tie || self.links.departs_first(link, cx.engine.now) {
            self.start_if_free(cx, queue);
        }
        let queued = &mut self.links.queued[queue.index()];
        queued.count_to(&mut self.links.stats[link.index()], cx.engine.now);
        queued.count_arrival(size);
        queued.aqm.enqueue(cx.engine.now, packet, &mut self.pool, &mut self.drops);
        self.account(cx, link);
        self.start_if_free(cx, queue);
        let queued = &self.links.queued[queue.index()];
        let stats = &mut self.links.stats[link.index()];
        stats.max_queue = stats.max_queue.max(count(queued.aqm.len_packets()));
        cx.engine
            .timeline
            .advance_to(cx.engine.components.queue(queue), queued.deadline(self.links.lines[link.index()].free_at()));
    }

    pub(crate) fn on_queue_deadline(&mut self, cx: &mut Cx, queue: QueueId) {
        self.start_if_free(cx, queue);
        let queued = &mut self.links.queued[queue.index()];
        if queued.aqm.deadline() <= cx.engine.now {
            queued.aqm.on_deadline(cx.engine.now);
            queued.held_back = false;
            self.start_if_free(cx, queue);
        }
        let queued = &self.links.queued[queue.index()];
        let free_at = self.links.lines[queued.link.index()].free_at();
        cx.engine.timeline.set(cx.engine.components.queue(queue), queued.deadline(free_at));
    }

    /// Puts the next waiting packet on the line if that is free.
    fn start_if_free(&mut self, cx: &mut Cx, queue: QueueId) {
        let queued = &mut self.links.queued[queue.index()];
        let link = queued.link;
        if self.links.lines[link.index()].free_at() > cx.engine.now || queued.aqm.len_packets() == 0 {
            return;
        }
        queued.count_to(&mut self.links.stats[link.index()], cx.engine.now);
        let next = queued.aqm.dequeue(cx.engine.now, &mut self.pool, &mut self.drops);
        queued.held_back = next.is_none() && queued.aqm.len_packets() > 0;
        let capture = queued.capture;
        self.account(cx, link);
        let Some(packet) = next else { return };
        let (place, came_at) = self.place_of[packet.0 as usize];
        let place = place.next();
        let size = self.pool[packet].size;
        if capture {
            cx.books.captured.push(Captured { time: cx.engine.now, link, packet: self.pool[packet] });
        }
        match self.links.start(cx.engine.now, link, size) {
            Accepted::Arrives { time, fifo } => self.put_in_flight(cx, came_at, time, packet, place, size, fifo),
            Accepted::HeldBack { time } => self.hold_back(cx, came_at, time, packet, place, size),
            Accepted::Lost(time) => self.lose_at(cx, came_at, time, packet, place, size),
            Accepted::Dropped | Accepted::Queued | Accepted::Air => unreachable!("the packet is on the line"),
        }
    }

    /// Counts and discards packets that a discipline has just dropped, and counts marks.
    fn account(&mut self, cx: &mut Cx, link: LinkId) {
        if self.drops.marked.is_empty() && self.drops.dropped.is_empty() {
            return;
        }
        self.links.stats[link.index()].counts().marked += self.drops.marked.len() as u64;
        self.drops.marked.clear();
        let mut dropped = std::mem::take(&mut self.drops.dropped);
        for (packet, reason) in dropped.drain(..) {
            self.links.stats[link.index()].count_drop(self.pool[packet].size, reason);
            self.discard(cx, link, packet, reason);
        }
        self.drops.dropped = dropped;
    }
}
