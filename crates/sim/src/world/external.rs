//! The seam to real programs: their packets come in by [`World::inject`] at the time that
//! [`World::run_until`] has reached, and leave by [`World::take_egress`]. A driver with a clock
//! does the rest; it keeps the bytes, by packet number.
//!
//! A packet that has arrived keeps its number until it has been taken, so no other packet gets that
//! number while the bytes of the first still wait. [`Egress`] borrows the world, and frees the
//! number when it goes.

use airtcp_core::packet::{FlowId, Packet, PacketId};
use airtcp_core::units::Time;

use super::World;
use crate::hosts::radio_tsq;
use crate::spec::{ExternalHost, NodeId};
use crate::traffic::AnyEnds;

pub use crate::hosts::NotInjected;

/// A packet that has reached a host of real programs. Its number is free again when this goes.
#[derive(Debug)]
pub struct Egress<'w> {
    world: &'w mut World,
    /// When it arrived.
    pub time: Time,
    /// The host that sent it.
    pub from: NodeId,
    /// The host that it has reached.
    pub to: NodeId,
    /// Number that [`World::inject`] returned.
    pub id: PacketId,
}

impl Egress<'_> {
    /// Its fields as it arrived: [`Packet::ecn`] may have changed on the way.
    pub fn packet(&self) -> &Packet {
        &self.world.network.pool[self.id]
    }
}

impl Drop for Egress<'_> {
    fn drop(&mut self) {
        let size = self.world.network.pool.remove(self.id).size;
        self.world.cx.books.ledger.delivered.add(size);
        self.world.cx.books.ledger.delivered_forward.add(size);
    }
}

impl World {
    /// When something happens next of its own accord; [`Time::NEVER`]: nothing will. It may be
    /// early, and is never late.
    pub fn deadline(&self) -> Time {
        self.cx.engine.next_event()
    }

    /// Hosts of real programs, ascending.
    pub fn external_hosts(&self) -> &[ExternalHost] {
        &self.spec.external.hosts
    }

    /// Packets of real programs in queues, on lines and in the air. Those that wait to be taken do
    /// not count.
    pub fn external_inside(&self) -> u32 {
        self.hosts.external.inside
    }

    /// A real program on `from` sends `packet` to `to`, now. The number it gets is its own until it
    /// is dropped or lost, or has arrived and been taken.
    pub fn inject(&mut self, from: NodeId, to: NodeId, mut packet: Packet) -> Result<PacketId, NotInjected> {
        let flow = self.hosts.external_flow(&self.spec, from, to)?;
        if !packet.is_external() {
            return Err(NotInjected::NotExternal);
        }
        packet.flow = flow;
        let size = packet.size;
        self.cx.books.ledger.sent.add(size);
        let id = self.network.pool.insert(packet);
        self.hosts.on_injected(self.cx.engine.now, flow, id);
        // As at the deadline of a source.
        self.network.links.before_departures = false;
        self.forward(self.network.starts(flow)[0], id, size);
        self.notify();
        Ok(id)
    }

    /// From now on [`Self::take_released`] tells which packets their hosts no longer hold. Whoever
    /// calls this has to take them.
    pub fn report_releases(&mut self) {
        for (flow, own) in (0..).map(FlowId).zip(&self.hosts.flows) {
            if let AnyEnds::External(_) = own.ends {
                let first = self.network.hop(self.network.starts(flow)[0]).link();
                self.network.path_mut(flow).reports_release = radio_tsq(&self.spec, first).is_some();
            }
        }
    }

    /// The flow of packets from one host to another, if the first holds them until its radio has
    /// sent or dropped them. A wire takes them at once, as it does those of simulated hosts.
    pub fn held_flow(&self, from: NodeId, to: NodeId) -> Option<FlowId> {
        let flow = self.hosts.external_flow(&self.spec, from, to).ok()?;
        self.network.reports_release(flow).then_some(flow)
    }

    /// A flow and how many of its packets the host no longer holds: in the order in which that
    /// happened.
    pub fn take_released(&mut self) -> Option<(FlowId, u32)> {
        self.hosts.external.released.pop_front()
    }

    /// The packet that has waited longest of those that arrived at hosts of real programs: in the
    /// order of arrival.
    pub fn take_egress(&mut self) -> Option<Egress<'_>> {
        let (time, id) = self.hosts.take_egress()?;
        let flow = &self.spec.flows[self.network.pool[id].flow.0 as usize];
        let (from, to) = (flow.from, flow.to);
        Some(Egress { world: self, time, from, to, id })
    }
}

#[cfg(test)]
mod tests;
