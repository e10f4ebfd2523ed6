//! Borders of a network that is one of several partitions, and the packets that cross them.

use std::sync::Arc;

use airtcp_core::packet::{Packet, PacketId};
use airtcp_core::units::Time;

use super::Network;
use super::link::flight_ns;
use super::partition_plan::PartitionPlan;
use crate::engine::Engine;
use crate::engine::packets_in_flight::{DelayFifo, InFlight};
use crate::path::{Next, Place};
use crate::spec::{LinkId, NodeId};

/// A packet on its way to another partition.
pub(crate) struct Parcel {
    entry: InFlight,
    fifo: DelayFifo,
    packet: Packet,
}

/// Borders of a partition, and the packets that leave it.
pub(crate) struct Borders {
    home: Home,
    /// Packets that leave, by partition.
    out: Vec<Vec<Parcel>>,
}

/// Number of a partition, and the plan that it is of.
#[derive(Clone)]
pub(crate) struct Home {
    plan: Arc<PartitionPlan>,
    number: u16,
}

impl Home {
    /// True if this partition has the host.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.plan.of_node[node.index()] == self.number
    }
    pub(crate) fn has_link(&self, link: LinkId) -> bool {
        self.plan.of_link[link.index()] == self.number
    }
}

impl Borders {
    pub(crate) fn new(plan: &Arc<PartitionPlan>, number: u16) -> Box<Borders> {
        let out = (0..plan.parts).map(|_| Vec::new()).collect();
        let home = Home { plan: Arc::clone(plan), number };
        Box::new(Borders { home, out })
    }
    pub(crate) fn home(&self) -> Home {
        self.home.clone()
    }
    pub(crate) fn plan(&self) -> Arc<PartitionPlan> {
        Arc::clone(&self.home.plan)
    }
}

impl Network {
    /// As [`Network::put_in_flight`], of a packet that another partition has next.
    #[inline(never)]
    pub(super) fn put_across(
        &mut self,
        from: Time,
        time: Time,
        packet: PacketId,
        place: Place,
        size: u16,
        fifo: DelayFifo,
    ) {
        let hop = self.hops[place.index()];
        let (entry, fifo) = if hop.is_fused() {
            self.links.pass(time, hop.link(), packet, place.next(), size)
        } else {
            let flight_ns = flight_ns(from, time);
            (InFlight { time, packet, next: Next::reaches(place), size, depth: 0, flight_ns }, fifo)
        };
        self.send_across(entry, fifo);
    }

    /// Sends a packet to the partition that has the place which it reaches.
    pub(super) fn send_across(&mut self, entry: InFlight, fifo: DelayFifo) {
        let packet = self.pool.remove(entry.packet);
        let borders = self.borders.as_mut().expect("only what is divided has borders");
        let to = borders.home.plan.of_place[entry.next.place().index()];
        borders.out[usize::from(to)].push(Parcel { entry, fifo, packet });
    }

    /// Takes in packets from another partition.
    pub(crate) fn receive_parcels(&mut self, engine: &mut Engine, sent: &mut Vec<Parcel>) {
        for Parcel { entry, fifo, packet } in sent.drain(..) {
            let entry = InFlight { packet: self.pool.insert(packet), ..entry };
            engine.in_flight.insert(entry, fifo);
        }
    }

    /// Packets that leave, by partition.
    pub(crate) fn outbox(&mut self) -> &mut [Vec<Parcel>] {
        self.borders.as_mut().map_or(&mut [], |borders| &mut borders.out)
    }

    /// Ends the division, if it is of one.
    pub(crate) fn take_borders(&mut self) -> Option<Box<Borders>> {
        self.borders.take()
    }

    /// Takes over links and channels as another partition of the same world has them.
    pub(crate) fn take_from(&mut self, other: &mut Network, has: impl Fn(LinkId) -> bool) {
        for link in LinkId::all(self.links.lines.len()).filter(|&link| has(link)) {
            self.links.take_from(&mut other.links, link);
        }
        for (channel, links) in self.air.world_link.iter().enumerate() {
            if links.first().is_some_and(|&link| has(link)) {
                std::mem::swap(&mut self.air.channels[channel], &mut other.air.channels[channel]);
            }
        }
    }

    /// Closes all borders. Returns the arrivals that the whole does not count: a link that is fused
    /// there has none of its own.
    pub(crate) fn close_borders(&mut self) -> u64 {
        self.hops.iter_mut().filter(|hop| hop.is_across()).for_each(|hop| *hop = hop.within());
        self.unfused.drain(..).map(|link| self.links.taken(link)).sum()
    }
}
