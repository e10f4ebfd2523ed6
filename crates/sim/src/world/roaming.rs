//! Handovers of a world: stations decide, channels follow, and packets that were handed back go on.

use super::World;
use crate::hosts::Reroute;
use crate::path::Place;
use crate::spec::LinkId;
use airtcp_core::packet::PacketId;
use airtcp_core::wifi::Measured;

impl World {
    /// Associates every station that roams, at the start of the run.
    pub(super) fn associate_first(&mut self) {
        for r in 0..self.hosts.roamers.count() {
            let measured = self.measured(r);
            self.hosts.roamers.head_for_first(r, &measured);
            self.on_association(r);
        }
    }

    /// Deadline of a station that roams: it decides, or is associated anew.
    #[cold]
    pub(super) fn on_roamer_deadline(&mut self, r: usize) {
        let now = self.cx.engine.now;
        if self.hosts.roamers.arrives_by(r, now) {
            self.on_association(r);
        } else if self.hosts.roamers.decides_by(r, now) {
            let measured = self.measured(r);
            if let Some(to) = self.hosts.roamers.decide(r, now, &measured) {
                self.leave(r, to, &measured);
            }
        }
        self.set_roamer(r);
    }

    fn set_roamer(&mut self, r: usize) {
        let engine = &mut self.cx.engine;
        engine.timeline.set(engine.components.roamer(r), self.hosts.roamers.deadline(r));
    }

    fn measured(&mut self, r: usize) -> Vec<Measured> {
        let now = self.cx.engine.now;
        let network = &mut self.network;
        self.hosts.roamers.measure(r, now, |channel, pair| network.received_dbm(channel, pair, now))
    }

    fn leave(&mut self, r: usize, to: usize, measured: &[Measured]) {
        let now = self.cx.engine.now;
        let old = self.hosts.roamers.leave(r, to, now, measured, &self.spec);
        self.move_paths(r);
        self.network.set_association(&mut self.cx, old.channel, old.pair, false);
        self.carry(0);
        if self.hosts.roamers.arrives_by(r, now) {
            self.on_association(r);
        }
    }

    fn on_association(&mut self, r: usize) {
        let now = self.cx.engine.now;
        let (new, is_first) = self.hosts.roamers.arrive(r, now);
        self.set_roamer(r);
        self.move_paths(r);
        self.network.set_association(&mut self.cx, new.channel, new.pair, true);
        self.carry(0);
        for (left, packet) in self.hosts.roamers.take_held(r) {
            let place = self.hosts.roamers.send_on(r, left);
            self.forward_again(place, packet);
        }
        if !is_first {
            self.hosts.notify_new_path(&mut self.cx.engine, r);
        }
    }

    /// Moves the flows of a station to the paths of its associations.
    fn move_paths(&mut self, r: usize) {
        for (flow, start) in self.hosts.roamers.paths(r) {
            self.network.set_starts(flow, start);
        }
    }

    /// Finds the path of a packet that the radio of `link` has not sent before the end of its
    /// association.
    pub(super) fn reroute(&mut self, link: LinkId, packet: PacketId) {
        let place = match self.hosts.roamers.reroute(link, packet) {
            Reroute::FromStart => {
                let p = &self.network.pool[packet];
                self.network.starts(p.flow)[usize::from(p.is_reverse())]
            }
            Reroute::From(place) => place,
            Reroute::Waits => return,
        };
        self.forward_again(place, packet);
    }

    fn forward_again(&mut self, place: Place, packet: PacketId) {
        let size = self.network.pool[packet].size;
        self.forward(place, packet, size);
    }
}
