//! Counters of a world at an instant, and the end of a run.

use std::sync::Arc;

use airtcp_core::units::{Span, Time};

use super::World;
use crate::books::Ledger;
use crate::books::results::{Results, RunOutput};
use crate::books::totals::{LinkTotals, Totals};
use crate::network::Waiting;
use crate::network::link::Until;
use crate::spec::LinkId;
use crate::traffic;

impl World {
    /// Counters of everything. `before`: events at this very instant are still to come.
    pub(super) fn totals(&mut self, before: bool) -> Totals {
        let now = self.now();
        let until = if before { Until::before(now) } else { Until::after(now) };
        let (links, air) = self.network.totals(&self.cx.engine, until);
        Totals { links, air, flows: self.hosts.totals(now) }
    }

    /// The warmup is over.
    pub(super) fn begin_summary(&mut self) {
        self.cx.engine.now = self.now().max(Time::ZERO + self.spec.warmup);
        let nothing_happened = self.cx.engine.events == 0 && self.cx.books.ledger == Ledger::default();
        debug_assert!(!nothing_happened || self.totals(true).are_zero());
        let totals = if nothing_happened { Totals::default() } else { self.totals(true) };
        self.network.reset_maxima(self.now(), &totals);
        self.cx.books.warm = Some(totals);
    }

    /// The records up to now; a run that was cut short keeps what it has.
    pub fn finish(mut self) -> RunOutput {
        debug_assert_eq!(self.finding(), None);
        // Tables need no more of these, and in a large world as much memory as they have.
        self.network.forget_packets();
        self.hosts.forget_interfaces();
        self.cx.engine.forget_deadlines();
        let now = self.now();
        let ahead = self.network.ahead(&self.cx.engine, Until::after(now));
        // A run that did not reach the end of its warmup has nothing to summarise.
        let (first, period) = match self.cx.books.warm.take() {
            Some(first) => (first, now.since(Time::ZERO + self.spec.warmup)),
            None => (self.totals(false), Span::ZERO),
        };
        self.cx.engine.forget_packets();
        let World { spec, mut cx, network, mut hosts } = self;
        let handovers = hosts.roamers.handovers();
        let (flows, own_tables) = hosts.into_rows(&spec, now, &first, period, &mut cx.books);
        let (links, air) = network.into_rows(&spec, now, &ahead, &first, period);
        let figures = traffic::figures().collect();
        let events = cx.engine.events;
        let results =
            Results { spec: Arc::clone(&spec), now, events, flows, figures, own_tables, links, air, handovers };
        cx.books.output(results)
    }

    /// Fates of all packets so far.
    pub fn ledger(&self) -> Ledger {
        self.cx.books.ledger
    }

    /// Packets in queues and on lines.
    pub fn packets_inside(&self) -> usize {
        self.network.pool.len()
    }

    /// Counters of a link from the start of the run to now.
    pub fn link_totals(&mut self, link: LinkId) -> LinkTotals {
        let until = Until::after(self.now());
        let ahead = self.network.ahead(&self.cx.engine, until);
        self.network.totals_of(link, until, &ahead)
    }

    /// Each packet that waits now, in no order. It looks at every packet, and is for those who
    /// draw.
    pub fn waiting(&self) -> Vec<Waiting> {
        let with_hosts = self.hosts.roamers.held().chain(self.hosts.processors.waiting());
        self.network.waiting(&self.cx.engine, with_hosts)
    }
}

#[cfg(test)]
mod tests;
