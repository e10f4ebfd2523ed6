//! Counters of a world at an instant, and the end of a run.

use airtcp_core::convert::count;
use airtcp_core::packet::{FlowId, Pool};
use airtcp_core::units::{Span, Time};

use super::World;
use super::interfaces::Interfaces;
use crate::books::Ledger;
use crate::books::record::{AirRow, DaemonRow, FlowRow, LinkRow};
use crate::books::results::{LinkResults, Results, RunOutput};
use crate::books::totals::{FlowTotals, LinkTotals, Totals};
use crate::link::{Ahead, Links, Until};
use crate::spec::LinkId;
use crate::traffic::{self, AnyEnds, Flow, Period, Report};

impl World {
    /// `before`: what happens at this very instant is still to come.
    pub(super) fn totals(&mut self, before: bool) -> Totals {
        let now = self.cx.engine.now;
        let until = if before { Until::before(now) } else { Until::after(now) };
        let ahead = self.ahead(until);
        Totals {
            links: LinkId::all(self.links.lines.len()).map(|link| self.totals_of(link, until, &ahead)).collect(),
            air: self.air.links().filter_map(|link| self.air.stats(link, now)).collect(),
            flows: self.flows.iter().map(|flow| totals_of_flow(flow, now)).collect(),
        }
    }

    /// For [`Self::totals_of`].
    pub(super) fn ahead(&self, until: Until) -> Vec<Ahead> {
        self.links.ahead(self.cx.engine.in_flight.iter(), &self.hops, until)
    }

    /// Those of a link. `ahead` is for the same instant.
    pub(super) fn totals_of(&mut self, link: LinkId, until: Until, ahead: &[Ahead]) -> LinkTotals {
        match self.air.stats(link, self.cx.engine.now) {
            Some(stats) => LinkTotals::from(&stats),
            None => self.links.totals(link, until, ahead),
        }
    }

    /// The warmup is over.
    pub(super) fn begin_summary(&mut self) {
        self.cx.engine.now = self.cx.engine.now.max(Time::ZERO + self.spec.warmup);
        let nothing_happened = self.cx.engine.events == 0 && self.cx.books.ledger == Ledger::default();
        debug_assert!(!nothing_happened || self.totals(true).are_zero());
        let totals = if nothing_happened { Totals::default() } else { self.totals(true) };
        for link in LinkId::all(self.links.lines.len()) {
            self.links.reset_max_queue(link, self.cx.engine.now, totals.link(link).queue_packets);
            if let Some((channel, own)) = self.air.at[link.index()] {
                self.air.channels[channel.index()].reset_held_max(own);
            }
        }
        self.cx.books.warm = Some(totals);
    }

    /// The records up to now; a run that was cut short keeps what it has.
    pub fn finish(mut self) -> RunOutput {
        debug_assert_eq!(self.finding(), None);
        // What follows needs no more of these, and in a large world as much memory as they have.
        (self.pool, self.place_of, self.interfaces) = (Pool::default(), Vec::new(), Interfaces::default());
        self.cx.engine.forget_deadlines();
        let until = Until::after(self.cx.engine.now);
        let ahead = self.ahead(until);
        // A run that did not reach the end of its warmup has nothing to summarise.
        let (first, period) = match self.cx.books.warm.take() {
            Some(first) => (first, self.cx.engine.now.since(Time::ZERO + self.spec.warmup)),
            None => (self.totals(false), Span::ZERO),
        };
        self.cx.engine.forget_packets();
        let warm_at = Time::ZERO + self.spec.warmup;
        let mut own_tables = traffic::tables();
        let mut flows = Vec::with_capacity(self.flows.len());
        for (i, own) in std::mem::take(&mut self.flows).into_iter().enumerate() {
            let spec = &self.spec.flows[i];
            if let AnyEnds::Daemon(host) = &own.ends {
                self.cx.books.log.daemons.push(DaemonRow::new(spec, &host.stats));
                continue;
            }
            let flow = FlowId(count(i));
            let (first, last) = (first.flow(flow), totals_of_flow(&own, self.cx.engine.now));
            let row = FlowRow::new(i, spec, &first, &last);
            let mut report = Report { row, figures: Vec::new(), tables: &mut own_tables };
            let (first, last) = (&first.counters, &last.counters);
            let now = self.cx.engine.now;
            own.ends.report(&Period { flow, first, last, length: period, warm_at, now }, &mut report);
            flows.push((report.row, report.figures));
        }
        let mut links = LinkResults::with_capacity(self.links.lines.len());
        for id in LinkId::all(self.links.lines.len()) {
            let last = self.totals_of(id, until, &ahead);
            let queue_max = match self.air.stats(id, self.cx.engine.now) {
                Some(stats) => stats.held_max,
                None => u64::from(self.links.cold[id.index()].max_queue),
            };
            let spec = &self.spec.links[id.index()];
            let row = LinkRow::new(id, spec, (&first.link(id), &last), period, queue_max);
            links.push(row, spec.is_member_of_group);
        }
        let lasts = self.air.links().filter_map(|link| Some((link, self.air.stats(link, self.cx.engine.now)?)));
        let air: Vec<AirRow> = lasts
            .enumerate()
            .map(|(i, (link, last))| {
                let spec = &self.spec.links[link.index()];
                let channel = spec.air.map_or("", |air| &self.spec.channels[air.channel.index()].name);
                AirRow::new(link, spec, channel, &first.air(i), &last, period)
            })
            .collect();
        self.links = Links::default();
        let handovers = self.roamers.handovers();
        self.cx.books.output(Results {
            spec: self.spec,
            now: self.cx.engine.now,
            events: self.cx.engine.events,
            flows,
            figures: traffic::figures().collect(),
            own_tables: own_tables.into_tables().collect(),
            links,
            air,
            handovers,
        })
    }
}

fn totals_of_flow(flow: &Flow, now: Time) -> FlowTotals {
    FlowTotals {
        counters: flow.ends.counters(now),
        dropped_at_queues: flow.dropped_at_queues,
        lost_on_lines: flow.lost_on_lines,
    }
}
