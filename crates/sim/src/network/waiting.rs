//! Packets that wait, by place, for pictures of a run.

use airtcp_core::packet::{FlowId, PacketId};

use super::Network;
use crate::engine::Engine;
use crate::spec::LinkId;

/// Where a packet waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitsIn {
    /// In the queue of a link, or with the radio that is to send it.
    Queue,
    /// In a reorder buffer: it came over the link before others that are to go up first.
    Reorder,
}

/// A packet that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// The link that it waits for, or came over.
    pub link: LinkId,
    /// Where.
    pub place: WaitsIn,
    /// Flow that it is of.
    pub flow: FlowId,
    /// It goes from the flow's destination to its source.
    pub is_reverse: bool,
}

impl Network {
    /// Each packet that waits now, in no order. `with_hosts`: packets in the pool that hosts have.
    /// Nothing changes.
    pub(crate) fn waiting(&self, engine: &Engine, with_hosts: impl Iterator<Item = PacketId>) -> Vec<Waiting> {
        let mut all = Vec::new();
        let mut add = |link, place, id: PacketId| {
            let packet = &self.pool[id];
            all.push(Waiting { link, place, flow: packet.flow, is_reverse: packet.is_reverse() });
        };
        // By slot of the pool.
        let mut elsewhere = Vec::new();
        let mut skip = |id: PacketId| {
            let slot = id.0 as usize;
            elsewhere.resize(elsewhere.len().max(slot + 1), false);
            elsewhere[slot] = true;
        };
        engine.in_flight.iter().for_each(|entry| skip(entry.packet));
        self.links.waiting(engine.in_flight.iter(), &self.hops, engine.now, |link, id| add(link, WaitsIn::Queue, id));
        with_hosts.for_each(&mut skip);
        for (channel, links) in self.air.channels.iter().zip(&self.air.world_link) {
            for (own, id) in channel.reordering() {
                add(links[own.index()], WaitsIn::Reorder, id);
                skip(id);
            }
        }
        // All others are in a discipline or with a radio, and both note the place.
        let is_elsewhere = |id: PacketId| elsewhere.get(id.0 as usize).copied().unwrap_or(false);
        for (id, _) in self.pool.iter().filter(|&(id, _)| !is_elsewhere(id)) {
            if let Some((place, _)) = self.place_of.get(id.0 as usize) {
                add(self.hops[place.index()].link(), WaitsIn::Queue, id);
            }
        }
        all
    }
}
