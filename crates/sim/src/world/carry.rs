//! Packets from the network to the hosts and back, and notices to senders.

use airtcp_core::packet::{FlowId, PacketId};

use super::World;
use crate::engine::timeline::Component;
use crate::engine::{InterfaceId, ProcessorId};
use crate::hosts::{Direction, Polled, Received};
use crate::network::Answer;
use crate::path::Place;
use crate::spec::{ChannelId, LinkId};

impl World {
    /// Does everything that is due on a channel, for as long as nothing else comes before it.
    #[inline(never)]
    pub(super) fn on_channel_deadline(&mut self, channel: ChannelId, component: Component) {
        let mut deadline = self.network.channel_deadline(channel);
        // Otherwise the leaf was early.
        while deadline <= self.cx.engine.now {
            self.network.on_channel_deadline(&mut self.cx, channel);
            self.carry(0);
            self.notify();
            // Only now: what was delivered may have been answered, and the answer is in the
            // channel.
            deadline = self.network.channel_deadline(channel);
            if deadline >= self.cx.engine.next_besides(component) || self.has_batch() {
                break;
            }
            // Nothing else comes before it: the next event needs not be looked for.
            self.cx.engine.events += 1;
            self.reach(deadline, component);
        }
        self.cx.engine.timeline.set_brief(component, deadline);
    }

    /// Deadline of an interface.
    pub(super) fn on_interface_deadline(&mut self, id: InterfaceId, component: Component) {
        if self.hosts.interfaces.deadline(id) <= self.cx.engine.now {
            self.poll(id);
        }
        self.cx.engine.timeline.set_brief(component, self.hosts.interfaces.deadline(id));
    }

    /// Deadline of a processor.
    pub(super) fn on_processor_deadline(&mut self, id: ProcessorId, component: Component) {
        while let Some((packet, direction)) = self.hosts.processors.take(self.cx.engine.now, id) {
            match direction {
                Direction::Up => {
                    let received = self.hosts.receive_late(&mut self.cx, &mut self.network.pool, packet);
                    self.after_receiving(received);
                }
                Direction::Down => {
                    let p = &self.network.pool[packet];
                    let (flow, size, is_reverse) = (p.flow, p.size, p.is_reverse());
                    self.hosts.interfaces.on_sent(flow, is_reverse, size);
                    // A host that roams may have another path by now.
                    self.forward(self.network.starts(flow)[usize::from(is_reverse)], packet, size);
                }
            }
        }
        self.cx.engine.timeline.set(component, self.hosts.processors.deadline(id));
    }

    /// Takes a packet that is at `place` on its path: before a link, or at its end.
    #[inline]
    pub(super) fn enter(&mut self, packet: PacketId, place: Place, size: u16) {
        let hop = self.network.hop(place);
        if hop.is_end() {
            self.deliver(packet);
        } else {
            self.forward_over(hop.link(), packet, place, size);
        }
    }

    /// Gives a packet that is at `place` on its path, before a link, to the network.
    #[inline]
    pub(super) fn forward(&mut self, place: Place, packet: PacketId, size: u16) {
        self.forward_over(self.network.hop(place).link(), packet, place, size);
    }

    #[inline]
    fn forward_over(&mut self, link: LinkId, packet: PacketId, place: Place, size: u16) {
        if let Some(first) = self.network.forward(&mut self.cx, link, packet, place, size) {
            self.carry(first);
        }
    }

    /// Carries the network's answers to the hosts, all but the first `from`. Each is dealt with to
    /// its end before the next one: packets that it leads to, and their answers.
    #[inline]
    pub(super) fn carry(&mut self, from: usize) {
        // Most events of a channel have no answer.
        if self.network.answers.len() > from {
            self.carry_some(from);
        }
    }

    #[inline(never)]
    fn carry_some(&mut self, from: usize) {
        let mut next = from;
        while next < self.network.answers.len() {
            let answer = self.network.answers[next];
            next += 1;
            match answer {
                Answer::Received => self.carry_received(),
                Answer::Dropped { packet, link, reason, is_own } => {
                    let packet = self.network.pool.remove(packet);
                    self.hosts.on_dropped(&packet, link, reason, is_own);
                }
                Answer::Lost(packet) => {
                    let packet = self.network.pool.remove(packet);
                    self.hosts.on_lost(&packet);
                }
                Answer::Returned { packet, link } => self.reroute(link, packet),
                Answer::Heard { packet, channel, pair } => {
                    self.hosts.on_heard(&mut self.cx.engine, &self.network.pool[packet], channel, pair);
                }
                Answer::Released(released) => self.hosts.on_released(released),
            }
        }
        self.network.answers.truncate(from);
    }

    /// Gives packets that have come through the air to hosts, or to the network again.
    fn carry_received(&mut self) {
        let mut i = 0;
        while let Some((packet, place, size)) = self.network.received(i) {
            self.enter(packet, place, size);
            i += 1;
        }
        self.network.forget_received();
    }

    /// Gives a packet at the end of its path to its host.
    #[inline(never)]
    fn deliver(&mut self, packet: PacketId) {
        let received = self.hosts.deliver(&mut self.cx, &mut self.network.pool, packet);
        self.after_receiving(received);
    }

    #[inline(always)]
    fn after_receiving(&mut self, received: Received) {
        match received {
            Received::Held => {}
            Received::Delivered(flow) => self.transmit(flow),
            Received::Poll(interface) => {
                self.poll(interface);
                self.hosts.interfaces.advance(&mut self.cx.engine, interface);
            }
        }
    }

    /// Delivers what an interface holds.
    fn poll(&mut self, interface: InterfaceId) {
        match self.hosts.poll(&mut self.cx, interface) {
            Polled::Nothing => {}
            Polled::One(flow) => self.transmit(flow),
            Polled::Several => {
                while let Some(flow) = self.hosts.deliver_next(&mut self.cx) {
                    self.transmit(flow);
                }
            }
        }
    }

    /// Carries packets that a flow has just sent to the first links of its paths.
    #[inline]
    pub(super) fn transmit(&mut self, flow: FlowId) {
        if self.hosts.out.packets.is_empty() {
            return;
        }
        let starts = self.network.starts(flow);
        for i in 0..self.hosts.out.packets.len() {
            if let Some((packet, size, is_reverse)) = self.hosts.send(&mut self.cx, &mut self.network.pool, flow, i) {
                self.forward(starts[usize::from(is_reverse)], packet, size);
            }
        }
        self.hosts.out.packets.clear();
    }

    /// Notifies senders of refused and released packets, at the end of an event.
    #[inline]
    pub(super) fn notify(&mut self) {
        if self.hosts.has_refusals() {
            self.hosts.notify_refused(&mut self.cx);
        }
        if self.hosts.has_releases() {
            self.notify_released();
        }
    }

    #[inline(never)]
    fn notify_released(&mut self) {
        while let Some(flow) = self.hosts.notify_released(&mut self.cx) {
            self.transmit(flow);
        }
    }
}
