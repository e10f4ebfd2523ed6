//! Audits of a world: when, and the snapshot that the laws are held against.

use super::World;
use crate::books::Finding;
use crate::books::audit::{Audit, Snapshot};
use crate::context::Cx;

impl World {
    /// Checks the world's books from now on: at every sample, and at the end. See
    /// [`World::finding`].
    pub fn audit(&mut self) {
        self.cx.books.audit = Some(Audit::new(&self.spec, self.now()));
    }

    /// Finding of the audit, if there is one. The world stands still since.
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
        let totals = self.totals(false);
        let World { cx: Cx { engine, books }, network, hosts, .. } = self;
        let pool = &network.pool;
        let sum = |all: &mut dyn Iterator<Item = (u64, u64)>| all.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        let one = |size: u16| (1, u64::from(size));
        Snapshot {
            now: engine.now,
            channels: network.channel_snapshots(engine.now),
            ledger: books.ledger,
            pool: sum(&mut pool.iter().map(|(_, p)| one(p.size))),
            on_wires: sum(&mut engine.in_flight.iter().map(|entry| one(entry.size))),
            in_queues: network.in_queues(),
            in_egress: hosts.external.waiting(pool),
            with_roamers: sum(&mut hosts.roamers.held().map(|id| one(pool[id].size))),
            in_processors: sum(&mut hosts.processors.waiting().map(|id| one(pool[id].size))),
            in_interfaces: sum(&mut hosts.interfaces.waiting()),
            on_lines: network.on_lines(engine),
            connections: hosts.connections(),
            totals,
        }
    }
}

#[cfg(test)]
mod tests;
