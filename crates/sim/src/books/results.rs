//! Results of a run: from counters and logs to tables and the summary.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

use airtcp_core::convert::count;
use airtcp_core::units::{Span, Time};

use super::Books;
use super::record::{
    AirRow, AirRows, Column, Data, Durations, Figure, FlowRow, Flows, HandoverRows, LinkRow, LinkRows, Log, Table,
    TransferRows, millis, ratio, secs_or_nan,
};
use super::summary::{AirSummary, GroupSummary, LinkSummary, MAX_AIR_LISTED, Reported, Summary, figure_of};
use super::totals::{FlowTotals, LinkTotals};
use crate::spec::{FlowSpec, LinkId, LinkSpec, RunSpec};

/// Tables and figures that a run leaves behind.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutput {
    /// Everything that was recorded.
    pub tables: Vec<Table>,
    /// The figures at a glance.
    pub summary: Summary,
    /// Events processed: arrivals and deadlines.
    pub events: u64,
    /// Packets that reached their flow's destination; those that reached its source (ACKs, echo
    /// replies) not counted.
    pub packets_delivered: u64,
}

impl RunOutput {
    /// A table by name.
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.name == name)
    }
}

/// Results that the network and the hosts know at the end of a run.
pub(crate) struct Results {
    pub spec: Arc<RunSpec>,
    pub now: Time,
    pub events: u64,
    pub flows: Vec<Reported>,
    /// Columns of the table of flows that only some kinds of traffic have.
    pub figures: Vec<&'static Figure>,
    /// Tables that only some kinds of traffic fill.
    pub own_tables: Vec<Table>,
    pub links: LinkResults,
    pub air: Vec<AirRow>,
    pub handovers: HandoverRows,
}

/// Rows of links, and those that the summary lists.
pub(crate) struct LinkResults {
    rows: LinkRows,
    listed: Vec<LinkSummary>,
}

impl LinkResults {
    /// Room for `links` of them.
    pub(crate) fn with_capacity(links: usize) -> LinkResults {
        LinkResults { rows: LinkRows::with_capacity(links), listed: Vec::new() }
    }
    pub(crate) fn push(&mut self, row: LinkRow, is_member_of_group: bool) {
        if !is_member_of_group {
            self.listed.push(LinkSummary::new(&row));
        }
        self.rows.push(row);
    }
}

impl Books {
    /// Takes the rows since the last time. Transfers among them still count in the summary.
    pub(crate) fn take_tables(&mut self, spec: &RunSpec, handovers: HandoverRows) -> Vec<Table> {
        let log = &mut self.log;
        for transfer in &log.transfers {
            if let Some(end) = transfer.end.filter(|_| transfer.start >= Time::ZERO + spec.warmup) {
                log.taken_transfers.entry(transfer.flow).or_default().add(end.since(transfer.start));
            }
        }
        let mut transfer_rows = TransferRows::default();
        log.transfers.drain(..).for_each(|transfer| transfer_rows.push(transfer.into()));
        let retransmissions = log.take_retransmissions();
        vec![
            take(&mut log.flow_series).into_table(),
            take(&mut log.link_series).into_table(),
            take(&mut log.drops).into_rows().into_table(),
            retransmissions.into_table(),
            transfer_rows.into_table(),
            take(&mut log.air_series).into_table(),
            take(&mut log.ppdus).into_table(),
            take(&mut log.daemon_series).into_table(),
            handovers.into_table(),
            take(&mut log.walkers).into_table(),
        ]
    }

    /// Ends the books.
    pub(crate) fn output(self, mut results: Results) -> RunOutput {
        let mut log = self.log;
        let summary = summary(&log, &mut results);
        let flows = flows_table(results.flows, &results.figures);
        let mut air = AirRows::default();
        results.air.into_iter().for_each(|r| air.push(r));
        let mut transfers = TransferRows::default();
        for &transfer in &log.transfers {
            transfers.push(transfer.into());
        }
        let retransmissions = log.take_retransmissions();
        let mut tables = vec![
            flows,
            results.links.rows.into_table(),
            log.flow_series.into_table(),
            log.link_series.into_table(),
            log.drops.into_rows().into_table(),
            retransmissions.into_table(),
            transfers.into_table(),
        ];
        tables.extend(results.own_tables);
        tables.extend([
            air.into_table(),
            log.air_series.into_table(),
            log.ppdus.into_table(),
            log.daemons.into_table(),
            log.daemon_series.into_table(),
            results.handovers.into_table(),
            log.walkers.into_table(),
        ]);
        let packets_delivered = self.ledger.delivered_forward.packets;
        RunOutput { tables, summary, events: results.events, packets_delivered }
    }
}

impl FlowRow {
    /// Row of the `i`-th flow with the columns that all kinds of traffic fill.
    pub(crate) fn new(i: usize, spec: &FlowSpec, first: &FlowTotals, last: &FlowTotals) -> FlowRow {
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
}

impl LinkRow {
    /// Row of a link over a period. `queue_max`: the most packets that waited in it.
    pub(crate) fn new(
        id: LinkId,
        spec: &LinkSpec,
        (first, last): (&LinkTotals, &LinkTotals),
        period: Span,
        queue_max: u64,
    ) -> LinkRow {
        let period_ns = period.as_ns() as f64;
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
            queue_max_packets: queue_max,
            queue_delay_mean_ms: ratio(queue_ns * 1e-6, (last.started_packets - first.started_packets) as f64),
        }
    }
}

fn summary(log: &Log, results: &mut Results) -> Summary {
    let spec = &results.spec;
    let mut order: Vec<Vec<&Reported>> = Vec::new();
    let mut by_name = BTreeMap::new();
    let mut group_of = Vec::with_capacity(results.flows.len());
    for reported in &results.flows {
        let at = *by_name.entry(reported.0.group.as_ref()).or_insert(order.len());
        if at == order.len() {
            order.push(Vec::new());
        }
        order[at].push(reported);
        group_of.push(at);
    }
    let mut durations = vec![Durations::default(); order.len()];
    for (flow, &taken) in &log.taken_transfers {
        durations[group_of[flow.0 as usize]].join(taken);
    }
    for t in &log.transfers {
        if let Some(end) = t.end.filter(|_| t.start >= Time::ZERO + spec.warmup) {
            durations[group_of[t.flow.0 as usize]].add(end.since(t.start));
        }
    }
    Summary {
        seed: spec.seed,
        end_s: results.now.as_secs_f64(),
        warmup_s: spec.warmup.as_secs_f64(),
        groups: order
            .iter()
            .zip(durations)
            .map(|(rows, durations)| GroupSummary::new(rows, durations.mean_s(), &results.figures))
            .collect(),
        links: take(&mut results.links.listed),
        air: results
            .air
            .iter()
            .filter(|row| results.air.len() <= MAX_AIR_LISTED || !spec.links[row.link as usize].is_member_of_group)
            .map(AirSummary::new)
            .collect(),
    }
}

/// Part of what arrived in a period that was dropped. Packets that waited when the period began may
/// be dropped in it; no more of them count than make the ratio 1.
fn loss_ratio(dropped: u64, arrived: u64) -> f64 {
    ratio(dropped.min(arrived) as f64, arrived as f64)
}

/// Rows of flows, with a column for each figure that only some kinds of traffic have.
fn flows_table(reported: Vec<Reported>, figures: &[&'static Figure]) -> Table {
    let mut own: Vec<Column> = figures
        .iter()
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
