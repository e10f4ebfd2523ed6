//! Counters of the network at an instant: for samples, audits, and the end of a run.

use airtcp_core::convert::count;
use airtcp_core::packet::Pool;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::{AirLinkId, AirStats};

use super::Network;
use super::link::{Ahead, Until};
use crate::books::Books;
use crate::books::audit::{ChannelSnapshot, OnLine, Sum};
use crate::books::record::{AirRow, LinkRow};
use crate::books::results::LinkResults;
use crate::books::totals::{LinkTotals, Totals};
use crate::engine::Engine;
use crate::spec::{LinkId, RunSpec};

impl Network {
    /// Counters of a link. `ahead` is for the same instant.
    pub(crate) fn totals_of(&mut self, link: LinkId, until: Until, ahead: &[Ahead]) -> LinkTotals {
        match self.air.stats(link, until.now()) {
            Some(stats) => LinkTotals::from(&stats),
            None => self.links.totals(link, until, ahead),
        }
    }

    /// Counters of all links, and of those of WLANs.
    pub(crate) fn totals(&mut self, engine: &Engine, until: Until) -> (Vec<LinkTotals>, Vec<AirStats>) {
        let ahead = self.ahead(engine, until);
        let links = LinkId::all(self.links.lines.len()).map(|link| self.totals_of(link, until, &ahead)).collect();
        (links, self.air.links().filter_map(|link| self.air.stats(link, until.now())).collect())
    }

    /// Begins new maxima of queues. `totals`: counters now.
    pub(crate) fn reset_maxima(&mut self, now: Time, totals: &Totals) {
        for link in LinkId::all(self.links.lines.len()) {
            self.links.reset_max_queue(link, now, totals.link(link).queue_packets);
            if let Some((channel, own)) = self.air.at[link.index()] {
                self.air.channels[channel.index()].reset_held_max(own);
            }
        }
    }

    /// Samples links for the books.
    pub(crate) fn sample(&mut self, engine: &Engine, books: &mut Books) {
        let now = engine.now;
        let until = Until::after(now);
        // Looking through all that is in flight is for links that ask for it.
        let ahead = match books.sampler.links().iter().any(|&link| self.links.is_fused(link)) {
            true => self.ahead(engine, until),
            false => Vec::new(),
        };
        books.sample_links(now, |link| {
            let totals = self.totals_of(link, until, &ahead);
            (totals, self.links.drop_probability(link))
        });
        books.sample_air(now, |link| {
            let (channel, own) = self.air.at[link.index()]?;
            let channel = &mut self.air.channels[channel.index()];
            let stats = channel.stats(own, now);
            Some((stats, channel.snr_db(own, now), channel.best_mode(own)))
        });
    }

    /// State of each channel, for an audit.
    pub(crate) fn channel_snapshots(&self, now: Time) -> Vec<ChannelSnapshot> {
        let channels = self.air.channels.iter().zip(&self.air.world_link).map(|(channel, links)| {
            let mut airtime = Vec::new();
            for link in (0..count(links.len())).map(AirLinkId) {
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
        channels.collect()
    }

    /// Packets on lines and waiting for them, by link, as those in flight tell.
    pub(crate) fn on_lines(&self, engine: &Engine) -> Vec<Option<OnLine>> {
        self.links.on_lines(engine.in_flight.iter(), &self.hops, engine.now)
    }

    /// Packets and bytes in the disciplines of links.
    pub(crate) fn in_queues(&self) -> Sum {
        self.links.in_queues()
    }

    /// Gives up the memory of packets, at the end of a run.
    pub(crate) fn forget_packets(&mut self) {
        (self.pool, self.place_of) = (Pool::default(), Vec::new());
    }

    /// Rows of links from `first` to `now`, and of those of WLANs. `ahead`: of packets in flight
    /// now.
    pub(crate) fn into_rows(
        mut self,
        spec: &RunSpec,
        now: Time,
        ahead: &[Ahead],
        first: &Totals,
        period: Span,
    ) -> (LinkResults, Vec<AirRow>) {
        let mut links = LinkResults::with_capacity(self.links.lines.len());
        for id in LinkId::all(self.links.lines.len()) {
            let last = self.totals_of(id, Until::after(now), ahead);
            let queue_max = match self.air.stats(id, now) {
                Some(stats) => stats.held_max,
                None => u64::from(self.links.stats[id.index()].max_queue),
            };
            let spec = &spec.links[id.index()];
            let row = LinkRow::new(id, spec, (&first.link(id), &last), period, queue_max);
            links.push(row, spec.is_member_of_group);
        }
        let lasts = self.air.links().filter_map(|link| Some((link, self.air.stats(link, now)?)));
        let air = lasts.enumerate().map(|(i, (link, last))| {
            let of_link = &spec.links[link.index()];
            let channel = of_link.air.map_or("", |air| &spec.channels[air.channel.index()].name);
            AirRow::new(link, of_link, channel, &first.air(i), &last, period)
        });
        let air = air.collect();
        (links, air)
    }
}
