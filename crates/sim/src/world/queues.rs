//! Links with a discipline of their own: packets into queues, and out of them onto lines.

use airtcp_core::convert::count;
use airtcp_core::packet::PacketId;

use super::World;
use crate::capture::Captured;
use crate::engine::QueueId;
use crate::link::Accepted;
use crate::path::Place;
use crate::spec::LinkId;

impl World {
    /// A packet arrives at a link with a discipline of its own.
    #[inline(never)]
    pub(super) fn enter_queue(&mut self, link: LinkId, packet: PacketId, place: Place, size: u16) {
        let queue = self.links.cold[link.index()].queued().expect("a link with a discipline of its own");
        self.note_place(packet, place);
        self.entering = self.pool[packet].flow;
        let tie = self.links.lines[link.index()].free_at() == self.cx.engine.now;
        if !tie || self.links.departs_first(link, self.cx.engine.now) {
            self.start_if_free(queue);
        }
        let queued = &mut self.links.queued[queue.index()];
        queued.count_to(&mut self.links.cold[link.index()], self.cx.engine.now);
        queued.count_arrival(size);
        queued.aqm.enqueue(self.cx.engine.now, packet, &mut self.pool, &mut self.drops);
        self.account(link);
        self.start_if_free(queue);
        let queued = &self.links.queued[queue.index()];
        let cold = &mut self.links.cold[link.index()];
        cold.max_queue = cold.max_queue.max(count(queued.aqm.len_packets()));
        self.cx.engine.timeline.advance_to(
            self.cx.engine.components.queue(queue),
            queued.deadline(self.links.lines[link.index()].free_at()),
        );
    }

    pub(super) fn on_queue_deadline(&mut self, queue: QueueId) {
        self.start_if_free(queue);
        let queued = &mut self.links.queued[queue.index()];
        if queued.aqm.deadline() <= self.cx.engine.now {
            queued.aqm.on_deadline(self.cx.engine.now);
            queued.held_back = false;
            self.start_if_free(queue);
        }
        let queued = &self.links.queued[queue.index()];
        let free_at = self.links.lines[queued.link.index()].free_at();
        self.cx.engine.timeline.set(self.cx.engine.components.queue(queue), queued.deadline(free_at));
    }

    /// Puts the next waiting packet on the line if that is free.
    fn start_if_free(&mut self, queue: QueueId) {
        let queued = &mut self.links.queued[queue.index()];
        let link = queued.link;
        if self.links.lines[link.index()].free_at() > self.cx.engine.now || queued.aqm.len_packets() == 0 {
            return;
        }
        queued.count_to(&mut self.links.cold[link.index()], self.cx.engine.now);
        let next = queued.aqm.dequeue(self.cx.engine.now, &mut self.pool, &mut self.drops);
        queued.held_back = next.is_none() && queued.aqm.len_packets() > 0;
        let capture = queued.capture;
        self.account(link);
        let Some(packet) = next else { return };
        let (place, came_at) = self.place_of[packet.0 as usize];
        let place = place.next();
        let size = self.pool[packet].size;
        if capture {
            self.cx.books.captured.push(Captured { time: self.cx.engine.now, link, packet: self.pool[packet] });
        }
        match self.links.start(self.cx.engine.now, link, size) {
            Accepted::Arrives { time, fifo } => self.put_in_flight(came_at, time, packet, place, size, fifo),
            Accepted::HeldBack { time } => self.hold_back(came_at, time, packet, place, size),
            Accepted::Lost(time) => self.lose_at(came_at, time, packet, place, size),
            Accepted::Dropped | Accepted::Queued | Accepted::Air => unreachable!("the packet is on the line"),
        }
    }

    /// Books what a discipline has just dropped and marked.
    fn account(&mut self, link: LinkId) {
        if self.drops.marked.is_empty() && self.drops.dropped.is_empty() {
            return;
        }
        self.links.cold[link.index()].counts().marked += self.drops.marked.len() as u64;
        self.drops.marked.clear();
        let mut dropped = std::mem::take(&mut self.drops.dropped);
        for (packet, reason) in dropped.drain(..) {
            self.links.cold[link.index()].count_drop(self.pool[packet].size, reason);
            self.discard(link, packet, reason);
        }
        self.drops.dropped = dropped;
    }
}
