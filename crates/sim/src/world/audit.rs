//! Audits of a world: when, and the snapshot that the laws are held against.

use airtcp_core::convert::count;
use airtcp_core::wifi::AirLinkId;

use super::World;
use crate::books::Finding;
use crate::books::audit::{Audit, ChannelSnapshot, Snapshot};
use crate::traffic::AnyEnds;

impl World {
    /// Checks the world's books from now on: at every sample, and at the end. See [`World::finding`].
    pub fn audit(&mut self) {
        self.cx.books.audit = Some(Audit::new(&self.spec, self.cx.engine.now));
    }

    /// What the audit has found. The world stands still since.
    pub fn finding(&self) -> Option<&Finding> {
        self.cx.books.finding()
    }

    /// Audits now.
    #[cold]
    pub(super) fn check(&mut self) {
        let snapshot = self.snapshot();
        self.cx.books.check(&self.spec, snapshot);
    }

    /// Everything that laws speak of, read off now.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let now = self.cx.engine.now;
        let totals = self.totals(false);
        let channels = self.air.channels.iter().zip(&self.air.world_link).map(|(channel, links)| {
            let own = || (0..count(links.len())).map(AirLinkId);
            let mut airtime = Vec::new();
            for link in own() {
                let radio = channel.sender(link).index();
                airtime.resize(airtime.len().max(radio + 1), 0);
                airtime[radio] += channel.stats(link, now).airtime_ns;
            }
            ChannelSnapshot {
                holdings: channel.holdings(&self.pool),
                occupancy: channel.occupancy(now),
                airtime_of_radios: airtime,
                disorder: channel.disorder().map(|(link, what)| (links[link.index()], what)),
            }
        });
        let sum = |all: &mut dyn Iterator<Item = (u64, u64)>| all.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let one = |size: u16| (1, u64::from(size));
        let connection = |flow: &crate::traffic::Flow| match &flow.ends {
            AnyEnds::Tcp(tcp) => Some((tcp.sender.outstanding(), tcp.receiver.next())),
            _ => None,
        };
        Snapshot {
            now,
            channels: channels.collect(),
            ledger: self.cx.books.ledger,
            pool: sum(&mut self.pool.iter().map(|(_, p)| one(p.size))),
            on_wires: sum(&mut self.cx.engine.in_flight.iter().map(|entry| one(entry.size))),
            in_queues: self.links.in_queues(),
            in_egress: self.external.waiting(&self.pool),
            with_roamers: sum(&mut self.roamers.held().map(|id| one(self.pool[id].size))),
            in_processors: sum(&mut self.processors.waiting().map(|id| one(self.pool[id].size))),
            in_interfaces: sum(&mut self.interfaces.all.iter().map(|i| i.waiting())),
            on_lines: self.links.on_lines(self.cx.engine.in_flight.iter(), &self.hops, now),
            connections: self.flows.iter().map(connection).collect(),
            totals,
        }
    }
}

#[cfg(test)]
mod tests;
