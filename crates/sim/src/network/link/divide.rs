//! Links of a world that is divided into parts, and taken together again at the end.

#[cfg(test)]
use super::{Departures, LinkKind};
use super::{Links, SHARED};
use crate::path::Hop;
use crate::spec::LinkId;

impl Links {
    /// Takes links that are fused with the one before them by themselves: those for which, with the
    /// one before, `apart` holds.
    pub(crate) fn unfuse(&mut self, apart: impl Fn(LinkId, LinkId) -> bool, hops: &mut [Hop]) -> Vec<LinkId> {
        let mut unfused = Vec::new();
        for link in LinkId::all(self.lines.len()) {
            let stats = &mut self.stats[link.index()];
            if stats.feeder.is_some_and(|feeder| apart(feeder, link)) {
                stats.feeder = None;
                self.lines[link.index()].kind = SHARED;
                unfused.push(link);
            }
        }
        for hop in hops.iter_mut().filter(|hop| hop.is_fused()) {
            if self.stats[hop.link().index()].feeder.is_none() {
                *hop = hop.unfused();
            }
        }
        unfused
    }

    /// Takes over a link as it is in `from`, of the same world.
    pub(crate) fn take_from(&mut self, from: &mut Links, link: LinkId) {
        std::mem::swap(&mut self.lines[link.index()], &mut from.lines[link.index()]);
        std::mem::swap(&mut self.stats[link.index()], &mut from.stats[link.index()]);
        if let Some(queue) = self.stats[link.index()].queued() {
            std::mem::swap(&mut self.queued[queue.index()], &mut from.queued[queue.index()]);
        }
    }

    /// Has all drop-tail links computed as [`Departures::General`] says.
    #[cfg(test)]
    pub(crate) fn compute_generally(&mut self, hops: &mut [Hop]) {
        self.unfuse(|_, _| true, hops);
        for line in &mut self.lines {
            if let LinkKind::DropTail(departures) = &mut line.kind {
                *departures = Departures::General;
            }
        }
    }

    /// Packets that a drop-tail link has taken.
    pub(crate) fn taken(&self, link: LinkId) -> u64 {
        self.lines[link.index()].taken_packets
    }
}
