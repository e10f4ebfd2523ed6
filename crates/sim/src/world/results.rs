//! What a run leaves behind: from counters and logs to tables and the summary.

use std::collections::BTreeMap;

use airtcp_core::convert::count;
use airtcp_core::packet::{FlowId, Pool};
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::AirStats;

use super::interfaces::Interfaces;
use super::{Ledger, RunOutput, World};
use crate::air::link_totals;
use crate::link::{Ahead, LinkTotals, Links, Until};
use crate::record::{
    AirRow, AirRows, Column, DaemonRow, Data, Durations, FlowRow, Flows, LinkRow, LinkRows, Table, TransferRows,
    millis, ratio, secs_or_nan,
};
use crate::spec::LinkId;
use crate::summary::{AirSummary, GroupSummary, LinkSummary, MAX_AIR_LISTED, Reported, Summary, figure_of};
use crate::timeline::Timeline;
use crate::traffic::{self, AnyEnds, Counters, Flow, Period, Report};
use crate::wires::Wires;

/// All counters at one instant. Where nothing has happened yet they are zero, and nothing is kept.
#[derive(Clone, Default)]
pub(super) struct Totals {
    pub links: Vec<LinkTotals>,
    /// Of the links of WLANs, in order.
    pub air: Vec<AirStats>,
    pub flows: Vec<FlowTotals>,
}

impl Totals {
    pub(super) fn link(&self, id: LinkId) -> LinkTotals {
        self.links.get(id.index()).copied().unwrap_or_default()
    }
    pub(super) fn flow(&self, id: FlowId) -> FlowTotals {
        self.flows.get(id.0 as usize).copied().unwrap_or_default()
    }
    /// Of the `i`-th link of a WLAN.
    pub(super) fn air(&self, i: usize) -> AirStats {
        self.air.get(i).copied().unwrap_or_default()
    }
    fn are_zero(&self) -> bool {
        let no_links = self.links.iter().all(|link| *link == LinkTotals::default());
        let no_air = self.air.iter().all(|link| *link == AirStats::default());
        no_links && no_air && self.flows.iter().all(|flow| *flow == FlowTotals::default())
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FlowTotals {
    pub counters: Counters,
    pub dropped_at_queues: u64,
    pub lost_on_lines: u64,
}

impl World {
    /// `before`: what happens at this very instant is still to come.
    pub(super) fn totals(&mut self, before: bool) -> Totals {
        let now = self.now;
        let until = if before { Until::before(now) } else { Until::after(now) };
        let ahead = self.ahead(until);
        Totals {
            links: LinkId::all(self.links.lines.len()).map(|link| self.totals_of(link, until, &ahead)).collect(),
            air: self.air.links().filter_map(|link| self.air.stats(link, now)).collect(),
            flows: self.flows.iter().map(|flow| FlowTotals::of(flow, now)).collect(),
        }
    }

    /// For [`Self::totals_of`].
    pub(super) fn ahead(&self, until: Until) -> Vec<Ahead> {
        self.links.ahead(self.wires.iter(), &self.hops, until)
    }

    /// Those of a link. `ahead` is for the same instant.
    pub(super) fn totals_of(&mut self, link: LinkId, until: Until, ahead: &[Ahead]) -> LinkTotals {
        match self.air.stats(link, self.now) {
            Some(stats) => link_totals(&stats),
            None => self.links.totals(link, until, ahead),
        }
    }

    /// The warmup is over.
    pub(super) fn begin_summary(&mut self) {
        self.now = self.now.max(Time::ZERO + self.spec.warmup);
        let nothing_happened = self.events == 0 && self.ledger == Ledger::default();
        debug_assert!(!nothing_happened || self.totals(true).are_zero());
        let totals = if nothing_happened { Totals::default() } else { self.totals(true) };
        for link in LinkId::all(self.links.lines.len()) {
            self.links.reset_max_queue(link, self.now, totals.link(link).queue_packets);
            if let Some((channel, own)) = self.air.at[link.index()] {
                self.air.channels[channel.index()].reset_held_max(own);
            }
        }
        self.warm = Some(totals);
    }

    /// The records up to now; a run that was cut short keeps what it has.
    pub fn finish(mut self) -> RunOutput {
        debug_assert_eq!(self.finding(), None);
        // What follows needs no more of these, and in a large world as much memory as they have.
        (self.pool, self.place_of, self.interfaces) = (Pool::default(), Vec::new(), Interfaces::default());
        self.timeline = Timeline::new(1, 0..0);
        let until = Until::after(self.now);
        let ahead = self.ahead(until);
        // A run that did not reach the end of its warmup has nothing to summarise.
        let (first, period) = match self.warm.take() {
            Some(first) => (first, self.now.since(Time::ZERO + self.spec.warmup)),
            None => (self.totals(false), Span::ZERO),
        };
        self.wires = Wires::new(0);
        let warm_at = Time::ZERO + self.spec.warmup;
        let mut own_tables = traffic::tables();
        let mut reported = Vec::with_capacity(self.flows.len());
        for (i, own) in std::mem::take(&mut self.flows).into_iter().enumerate() {
            if let AnyEnds::Daemon(host) = &own.ends {
                self.log.daemons.push(DaemonRow::new(&self.spec.flows[i], &host.stats));
                continue;
            }
            let flow = FlowId(count(i));
            let (first, last) = (first.flow(flow), FlowTotals::of(&own, self.now));
            let row = self.flow_row(i, &first, &last);
            let mut report = Report { row, figures: Vec::new(), tables: &mut own_tables };
            let (first, last) = (&first.counters, &last.counters);
            let now = self.now;
            own.ends.report(&Period { flow, first, last, length: period, warm_at, now }, &mut report);
            reported.push((report.row, report.figures));
        }
        let (mut links, mut listed) = (LinkRows::with_capacity(self.links.lines.len()), Vec::new());
        for id in LinkId::all(self.links.lines.len()) {
            let last = self.totals_of(id, until, &ahead);
            let row = self.link_row(id, &first.link(id), &last, period);
            if !self.spec.links[id.index()].is_member_of_group {
                listed.push(LinkSummary::new(&row));
            }
            links.push(row);
        }
        let lasts = self.air.links().filter_map(|link| Some((link, self.air.stats(link, self.now)?)));
        let air_rows: Vec<AirRow> = lasts
            .enumerate()
            .map(|(i, (link, last))| {
                let spec = &self.spec.links[link.index()];
                let channel = spec.air.map_or("", |air| &self.spec.channels[air.channel.index()].name);
                AirRow::new(link, spec, channel, &first.air(i), &last, period)
            })
            .collect();
        let summary = self.summary(&reported, listed, &air_rows);
        self.links = Links::default();

        let flows = flows_table(reported);
        let mut air = AirRows::default();
        air_rows.into_iter().for_each(|r| air.push(r));
        let mut transfers = TransferRows::default();
        for &transfer in &self.log.transfers {
            transfers.push(transfer.into());
        }
        let retransmissions = self.log.take_retransmissions();
        let mut tables = vec![
            flows,
            links.into_table(),
            self.log.flow_series.into_table(),
            self.log.link_series.into_table(),
            self.log.drops.into_rows().into_table(),
            retransmissions.into_table(),
            transfers.into_table(),
        ];
        tables.extend(own_tables.into_tables());
        tables.extend([
            air.into_table(),
            self.log.air_series.into_table(),
            self.log.ppdus.into_table(),
            self.log.daemons.into_table(),
            self.log.daemon_series.into_table(),
            self.roamers.handovers().into_table(),
            self.log.walkers.into_table(),
        ]);
        RunOutput { tables, summary, events: self.events, packets_delivered: self.ledger.delivered_forward.packets }
    }

    /// What all kinds of traffic have in common.
    fn flow_row(&self, i: usize, first: &FlowTotals, last: &FlowTotals) -> FlowRow {
        let spec = &self.spec.flows[i];
        let (dropped_at_queues, lost_on_lines) =
            (last.dropped_at_queues - first.dropped_at_queues, last.lost_on_lines - first.lost_on_lines);
        let (first, last) = (&first.counters, &last.counters);
        let (a, b) = (&first.tcp, &last.tcp);
        FlowRow {
            flow: count(i),
            name: spec.name.clone().into(),
            group: spec.group.clone().into(),
            kind: spec.traffic.kind().into(),
            cc: "".into(),
            start_s: spec.start.as_secs_f64(),
            stop_s: secs_or_nan(spec.stop),
            bytes_acked: b.bytes_acked - a.bytes_acked,
            goodput_bps: f64::NAN,
            delivered_bps: f64::NAN,
            acks_sent: last.acks_sent - first.acks_sent,
            segments_sent: last.sent - first.sent,
            segments_retransmitted: b.segments_retransmitted - a.segments_retransmitted,
            retransmission_ratio: f64::NAN,
            timeouts: b.timeouts - a.timeouts,
            spurious_timeouts: b.spurious_timeouts - a.spurious_timeouts,
            undos: b.undos - a.undos,
            fast_retransmits: b.fast_retransmits - a.fast_retransmits,
            duplicate_acks: b.duplicate_acks - a.duplicate_acks,
            tail_loss_probes: b.tail_loss_probes - a.tail_loss_probes,
            spurious_retransmissions: last.spurious_retransmissions - first.spurious_retransmissions,
            ecn_reductions: b.ecn_reductions - a.ecn_reductions,
            dropped_at_queues,
            lost_on_lines,
            cwnd_mean_segments: f64::NAN,
            rtt_mean_ms: f64::NAN,
            rtt_min_ms: f64::NAN,
            rtt_max_ms: f64::NAN,
            transfers: 0,
            completion_s: f64::NAN,
            received: last.received - first.received,
            delay_mean_ms: f64::NAN,
            jitter_ms: f64::NAN,
        }
    }

    fn link_row(&self, id: LinkId, first: &LinkTotals, last: &LinkTotals, period: Span) -> LinkRow {
        let period_ns = period.as_ns() as f64;
        let spec = &self.spec.links[id.index()];
        let arrived_packets = last.arrived_packets - first.arrived_packets;
        let dropped_overflow = last.dropped_overflow - first.dropped_overflow;
        let dropped_early = last.dropped_early - first.dropped_early;
        let dropped_gone = last.dropped_gone - first.dropped_gone;
        let queue_ns = (last.queue_packet_ns - first.queue_packet_ns) as f64;
        LinkRow {
            link: id.0,
            name: spec.name.clone().into(),
            group: spec.group.clone().into(),
            rate_bps: spec.rate.as_bps(),
            delay_ms: millis(spec.delay),
            arrived_packets,
            arrived_bytes: last.arrived_bytes - first.arrived_bytes,
            dropped_overflow,
            dropped_early,
            filtered: last.filtered - first.filtered,
            dropped_gone,
            marked: last.marked - first.marked,
            lost_packets: last.lost_packets - first.lost_packets,
            held_back_packets: last.held_back_packets - first.held_back_packets,
            forwarded_packets: last.forwarded_packets - first.forwarded_packets,
            forwarded_bytes: last.forwarded_bytes - first.forwarded_bytes,
            utilisation: ratio((last.busy_ns - first.busy_ns) as f64, period_ns),
            loss_ratio: loss_ratio(dropped_overflow + dropped_early + dropped_gone, arrived_packets),
            queue_mean_packets: ratio(queue_ns, period_ns),
            queue_max_packets: match self.air.stats(id, self.now) {
                Some(stats) => stats.held_max,
                None => u64::from(self.links.cold[id.index()].max_queue),
            },
            queue_delay_mean_ms: ratio(queue_ns * 1e-6, (last.started_packets - first.started_packets) as f64),
        }
    }

    fn summary(&self, flows: &[Reported], links: Vec<LinkSummary>, air: &[AirRow]) -> Summary {
        let mut order: Vec<Vec<&Reported>> = Vec::new();
        let mut by_name = BTreeMap::new();
        let mut group_of = Vec::with_capacity(flows.len());
        for reported in flows {
            let at = *by_name.entry(reported.0.group.as_ref()).or_insert(order.len());
            if at == order.len() {
                order.push(Vec::new());
            }
            order[at].push(reported);
            group_of.push(at);
        }
        let mut durations = vec![Durations::default(); order.len()];
        for (flow, &taken) in &self.log.taken_transfers {
            durations[group_of[flow.0 as usize]].join(taken);
        }
        for t in &self.log.transfers {
            if let Some(end) = t.end.filter(|_| t.start >= Time::ZERO + self.spec.warmup) {
                durations[group_of[t.flow.0 as usize]].add(end.since(t.start));
            }
        }
        Summary {
            seed: self.spec.seed,
            end_s: self.now.as_secs_f64(),
            warmup_s: self.spec.warmup.as_secs_f64(),
            groups: order
                .iter()
                .zip(durations)
                .map(|(rows, durations)| GroupSummary::new(rows, durations.mean_s()))
                .collect(),
            links,
            air: air
                .iter()
                .filter(|row| air.len() <= MAX_AIR_LISTED || !self.spec.links[row.link as usize].is_member_of_group)
                .map(AirSummary::new)
                .collect(),
        }
    }
}

/// Of what arrived in a period, the part that was dropped. What waited when the period began may be dropped in it; no more of that
/// counts than makes the ratio 1.
fn loss_ratio(dropped: u64, arrived: u64) -> f64 {
    ratio(dropped.min(arrived) as f64, arrived as f64)
}

impl FlowTotals {
    fn of(flow: &Flow, now: Time) -> FlowTotals {
        FlowTotals {
            counters: flow.ends.counters(now),
            dropped_at_queues: flow.dropped_at_queues,
            lost_on_lines: flow.lost_on_lines,
        }
    }
}

/// The rows, with a column for each figure that only some kinds of traffic have.
fn flows_table(reported: Vec<Reported>) -> Table {
    let mut own: Vec<Column> = traffic::figures()
        .map(|figure| Column {
            name: figure.name,
            unit_and_meaning: figure.unit_and_meaning,
            data: Data::F64(reported.iter().map(|(_, figures)| figure_of(figures, figure.name)).collect()),
        })
        .collect();
    let mut flows = Flows::with_capacity(reported.len());
    reported.into_iter().for_each(|(row, _)| flows.push(row));
    let mut table = flows.into_table();
    table.columns.append(&mut own);
    table
}
