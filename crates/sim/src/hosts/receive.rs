//! Packets up to the ends of flows, and down from them.

use airtcp_core::packet::{FlowId, Packet, PacketId, Pool};

use super::interfaces::Offered;
use super::{Direction, Hosts};
use crate::context::Cx;
use crate::engine::InterfaceId;
use crate::engine::timeline::Component;
use crate::traffic::AnyEnds;

/// Outcome of a packet's arrival at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// It waits, or is gone.
    Held,
    /// An end of this flow has it, and may have sent packets.
    Delivered(FlowId),
    /// An interface holds it, and is to be polled now.
    Poll(InterfaceId),
}

/// Outcome of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polled {
    /// No packet went up.
    Nothing,
    /// An end of this flow has the only packet, and may have sent packets.
    One(FlowId),
    /// [`Hosts::deliver_next`] delivers them.
    Several,
}

impl Hosts {
    /// Takes a packet that has come to the end of its path.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, cx: &mut Cx, pool: &mut Pool, id: PacketId) -> Received {
        let packet = &pool[id];
        if packet.is_external() {
            self.hold_for_egress(cx.engine.now, packet, id);
            return Received::Held;
        }
        match self.processors.of(packet.flow.0, packet.is_reverse()) {
            Some(processor) => {
                self.processors.accept(cx, processor, id, Direction::Up);
                Received::Held
            }
            None => self.receive(cx, pool, id),
        }
    }

    /// Takes a packet that its host's processor is done with.
    pub(crate) fn receive_late(&mut self, cx: &mut Cx, pool: &mut Pool, id: PacketId) -> Received {
        self.receive(cx, pool, id)
    }

    /// Takes a packet at the end of its path, for which the host has the time.
    #[inline(always)]
    fn receive(&mut self, cx: &mut Cx, pool: &mut Pool, id: PacketId) -> Received {
        let packet = &pool[id];
        let size = packet.size;
        let ledger = &mut cx.books.ledger;
        ledger.delivered.add(size);
        let id_of_flow = packet.flow;
        let is_reverse = packet.is_reverse();
        if !is_reverse {
            ledger.delivered_forward.add(size);
        }
        if let Some(interface) = self.interfaces.of(id_of_flow.0, is_reverse) {
            ledger.taken_by_interfaces.add(size);
            match self.interfaces.offer(&mut cx.engine, interface, packet) {
                Offered::GoesUp => cx.books.ledger.passed_by_interfaces.add(size),
                Offered::Held => {
                    pool.remove(id);
                    return Received::Held;
                }
                Offered::PollIsDue => {
                    pool.remove(id);
                    return Received::Poll(interface);
                }
            }
        }
        let flow = &mut self.flows[id_of_flow.0 as usize];
        flow.ends.on_packet(cx.engine.now, &pool[id], &mut self.out, &mut cx.books.log);
        pool.remove(id);
        self.after_delivery(cx, id_of_flow, is_reverse);
        Received::Delivered(id_of_flow)
    }

    /// Polls an interface, and delivers a packet that it held alone.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Cx, id: InterfaceId) -> Polled {
        match self.interfaces.begin_poll(cx.engine.now, id) {
            None => Polled::Several,
            Some(None) => Polled::Nothing,
            Some(Some(packet)) => Polled::One(self.deliver_alone(cx, &packet)),
        }
    }

    /// Delivers the next packet that the interface polled last has passed up, or several merged.
    /// Returns its flow.
    #[inline(always)]
    pub(crate) fn deliver_next(&mut self, cx: &mut Cx) -> Option<FlowId> {
        let (merged, more) = self.interfaces.next_up()?;
        let (id_of_flow, is_reverse) = (merged.packet.flow, merged.packet.is_reverse());
        cx.books.ledger.passed_by_interfaces.add_all(u64::from(merged.segments), merged.bytes());
        let flow = &mut self.flows[id_of_flow.0 as usize];
        flow.ends.on_merged(cx.engine.now, merged, more, &mut self.out, &mut cx.books.log);
        self.after_delivery(cx, id_of_flow, is_reverse);
        Some(id_of_flow)
    }

    /// Delivers a packet as it came to its interface.
    fn deliver_alone(&mut self, cx: &mut Cx, packet: &Packet) -> FlowId {
        cx.books.ledger.passed_by_interfaces.add(packet.size);
        let flow = &mut self.flows[packet.flow.0 as usize];
        flow.ends.on_packet(cx.engine.now, packet, &mut self.out, &mut cx.books.log);
        self.after_delivery(cx, packet.flow, packet.is_reverse());
        packet.flow
    }

    #[inline(always)]
    fn after_delivery(&mut self, cx: &mut Cx, id: FlowId, is_reverse: bool) {
        let ends = &self.flows[id.0 as usize].ends;
        let engine = &mut cx.engine;
        if is_reverse {
            engine.timeline.advance_to(engine.components.source(id), ends.deadline());
        } else {
            engine.timeline.advance_to(engine.components.destination(id), ends.destination_deadline());
        }
    }

    /// Sends the `i`-th packet in [`Hosts::out`], which is of `flow`. Returns its number, size and
    /// direction if it leaves the host now.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        cx: &mut Cx,
        pool: &mut Pool,
        flow: FlowId,
        i: usize,
    ) -> Option<(PacketId, u16, bool)> {
        let packet = &self.out.packets[i];
        let (size, is_reverse) = (packet.size, packet.is_reverse());
        cx.books.ledger.sent.add(size);
        #[cfg(test)]
        if let Some(sent) = &mut self.sent {
            sent.push((cx.engine.now, *packet));
        }
        let id = pool.insert(*packet);
        if let Some(processor) = self.processors.of(flow.0, !is_reverse) {
            self.processors.accept(cx, processor, id, Direction::Down);
            return None;
        }
        self.interfaces.on_sent(flow, is_reverse, size);
        Some((id, size, is_reverse))
    }

    /// Deadline of a flow's source.
    pub(crate) fn on_source_deadline(&mut self, cx: &mut Cx, flow: FlowId, component: Component) {
        let now = cx.engine.now;
        let ends = &mut self.flows[flow.0 as usize].ends;
        if let AnyEnds::Daemon(_) = ends {
            return self.run_daemon(cx, flow, component);
        }
        if ends.deadline() <= now {
            ends.on_deadline(now, &mut self.out, &mut cx.books.log);
        }
        cx.engine.timeline.set(component, ends.deadline());
    }

    /// Deadline of a flow's destination.
    pub(crate) fn on_destination_deadline(&mut self, cx: &mut Cx, flow: FlowId, component: Component) {
        let now = cx.engine.now;
        let ends = &mut self.flows[flow.0 as usize].ends;
        if ends.destination_deadline() <= now {
            ends.on_destination_deadline(now, &mut self.out);
        }
        cx.engine.timeline.set(component, ends.destination_deadline());
    }

    /// Runs a cooperative daemon, which looks at the connections of its host or announces itself.
    #[inline(never)]
    fn run_daemon(&mut self, cx: &mut Cx, flow: FlowId, component: Component) {
        let now = cx.engine.now;
        let (before, rest) = self.flows.split_at_mut(flow.0 as usize);
        let AnyEnds::Daemon(host) = &mut rest[0].ends else { unreachable!("the caller has looked") };
        if host.deadline() <= now {
            host.on_deadline(now, before, &mut self.out);
        }
        cx.engine.timeline.set(component, host.deadline());
    }
}
