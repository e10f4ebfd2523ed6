//! Records of a run: columnar [`Table`]s, and the log they grow from.
//!
//! Every table is declared here, column by column with unit and meaning. A value that does not
//! exist (an RTT never measured, the end of a transfer still under way) is NaN. Summaries per flow
//! and link count from `warmup` to the end of the run; series and single events begin with the run.

use std::borrow::Cow;
use std::collections::BTreeMap;

use airtcp_core::convert::count;
use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::queue::DropReason;
use airtcp_core::table;
pub use airtcp_core::table::{Column, Data, Table};
use airtcp_core::tcp::Cause;
use airtcp_core::units::{Span, Time};

use crate::spec::LinkId;

mod air;
mod daemon;
mod drops;
mod order;
mod roaming;

pub(crate) use daemon::{DaemonRow, DaemonRows, DaemonSample, DaemonSeries};

pub(crate) use air::{AirRow, AirRows, AirSample, AirSeries, PpduRow, PpduRows};
pub(crate) use drops::{DropLog, Dropped};
pub(crate) use order::{Moment, Order};
pub(crate) use roaming::{HandoverRow, HandoverRows, WalkerRow, WalkerRows};

/// A number that only one kind of traffic has: a column of the table `flows`; in summaries the mean
/// over the flows of a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    /// Ends in the unit where there is one.
    pub name: &'static str,
    pub unit_and_meaning: &'static str,
}

table! {
    /// One row per flow.
    pub(crate) Flows of FlowRow as "flows" {
        flow: U32(u32) = "index of the flow",
        name: Str(Cow<'static, str>) = "name of the flow",
        group: Str(Cow<'static, str>) = "entry of the scenario it came from",
        kind: Str(Cow<'static, str>) = "tcp, or the kind of traffic where that is not TCP",
        cc: Str(Cow<'static, str>) = "congestion control of the sender, empty unless tcp",
        start_s: F64(f64) = "s, start as configured",
        stop_s: F64(f64) = "s, stop as configured, NaN: end of the run",
        bytes_acked: U64(u64) = "bytes of payload acknowledged since warmup (tcp)",
        goodput_bps: F64(f64) = "bit/s of payload acknowledged (tcp) or of datagrams received (cbr) from warmup to the end",
        delivered_bps: F64(f64) = "bit/s of payload in order at the receiver (tcp) or of datagrams received (cbr) from warmup to the end",
        acks_sent: U64(u64) = "packets without payload that the receiver sent since warmup (tcp)",
        segments_sent: U64(u64) = "data segments, retransmissions included, or datagrams sent since warmup",
        segments_retransmitted: U64(u64) = "data segments retransmitted since warmup",
        retransmission_ratio: F64(f64) = "segments retransmitted / segments sent",
        timeouts: U64(u64) = "retransmission timeouts since warmup",
        spurious_timeouts: U64(u64) = "retransmission timeouts since warmup that F-RTO found to be spurious",
        undos: U64(u64) = "window reductions since warmup that were taken back, those of spurious timeouts included",
        fast_retransmits: U64(u64) = "entries into fast recovery since warmup",
        duplicate_acks: U64(u64) = "ACKs since warmup that acknowledged nothing new but reported data above",
        tail_loss_probes: U64(u64) = "tail loss probes since warmup, of new data or of the last segment again",
        spurious_retransmissions: U64(u64) = "data segments since warmup that brought the receiver nothing new, because another copy arrived",
        ecn_reductions: U64(u64) = "window reductions on an ECN echo since warmup",
        dropped_at_queues: U64(u64) = "packets of this flow, both directions, dropped at queues since warmup",
        lost_on_lines: U64(u64) = "packets of this flow, both directions, lost on lines since warmup",
        cwnd_mean_segments: F64(f64) = "segments, time average of cwnd while connected since warmup, NaN: not TCP",
        rtt_mean_ms: F64(f64) = "ms, mean of the round-trip samples since warmup",
        rtt_min_ms: F64(f64) = "ms, least round-trip sample of the whole run",
        rtt_max_ms: F64(f64) = "ms, greatest round-trip sample of the whole run",
        transfers: U64(u64) = "transfers completed in the whole run",
        completion_s: F64(f64) = "s, first packet sent to last byte acknowledged, of the first transfer",
        received: U64(u64) = "datagrams or echo replies received since warmup",
        delay_mean_ms: F64(f64) = "ms, mean one-way delay of the datagrams since warmup (cbr)",
        jitter_ms: F64(f64) = "ms, smoothed difference of successive delays at the end, RFC 3550 (cbr)",
    }
}

table! {
    /// One row per link and direction.
    pub(crate) LinkRows of LinkRow as "links" {
        link: U32(u32) = "index of the link",
        name: Str(Cow<'static, str>) = "name of the link",
        group: Str(Cow<'static, str>) = "entry of the scenario it came from",
        rate_bps: U64(u64) = "bit/s, rate of the line",
        delay_ms: F64(f64) = "ms, propagation delay",
        arrived_packets: U64(u64) = "packets that arrived at the queue since warmup",
        arrived_bytes: U64(u64) = "bytes at the IP layer of those packets",
        dropped_overflow: U64(u64) = "packets dropped because the queue was full",
        dropped_early: U64(u64) = "packets dropped by decision of the discipline",
        filtered: U64(u64) = "ACKs taken out of the queue because a newer one made them superfluous: no loss (ack_filter)",
        dropped_gone: U64(u64) = "packets dropped because the station was not associated, or left before they were through (WLANs)",
        marked: U64(u64) = "packets marked CE",
        lost_packets: U64(u64) = "packets lost on the line after transmission",
        held_back_packets: U64(u64) = "packets held back on the line so that others overtake them",
        forwarded_packets: U64(u64) = "packets transmitted to the end",
        forwarded_bytes: U64(u64) = "bytes at the IP layer of those packets",
        utilisation: F64(f64) = "part of the time the line was busy",
        loss_ratio: F64(f64) = "dropped / arrived, at most 1: what waited before may be dropped, too",
        queue_mean_packets: F64(f64) = "packets waiting, time average, the one being transmitted not counted",
        queue_max_packets: U64(u64) = "most packets waiting since warmup",
        queue_delay_mean_ms: F64(f64) = "ms of waiting per packet transmitted (time integral of the queue / packets)",
    }
}

table! {
    /// Senders over time: TCP flows, at most `record.flow_series_max` of them, every
    /// `record.interval`.
    pub(crate) FlowSeries of FlowSample as "flow_series" {
        time_s: F64(f64) = "s since the start of the run",
        flow: U32(u32) = "index of the flow",
        cwnd_segments: U32(u32) = "segments, congestion window",
        ssthresh_segments: F64(f64) = "segments, slow-start threshold, NaN until the first reduction",
        window_segments: U32(u32) = "segments, most that may be outstanding: the smaller of cwnd and receive window",
        in_flight_segments: U32(u32) = "segments in the network",
        srtt_ms: F64(f64) = "ms, smoothed round-trip time",
        bytes_acked: U64(u64) = "bytes of payload acknowledged since the start of the flow",
        segments_sent: U64(u64) = "data segments since the start of the flow",
        segments_retransmitted: U64(u64) = "data segments retransmitted since the start of the flow",
        timeouts: U64(u64) = "retransmission timeouts since the start of the flow",
    }
}

table! {
    /// Links over time: those in `record.links`, every `record.interval`.
    pub(crate) LinkSeries of LinkSample as "link_series" {
        time_s: F64(f64) = "s since the start of the run",
        link: U32(u32) = "index of the link",
        queue_packets: U64(u64) = "packets waiting",
        queue_bytes: U64(u64) = "bytes waiting",
        arrived_packets: U64(u64) = "packets that arrived since the last sample",
        dropped_packets: U64(u64) = "packets dropped since the last sample",
        marked_packets: U64(u64) = "packets marked CE since the last sample",
        forwarded_packets: U64(u64) = "packets transmitted since the last sample",
        utilisation: F64(f64) = "part of the time since the last sample the line was busy",
        queue_mean_packets: F64(f64) = "packets waiting, time average since the last sample",
        drop_probability: F64(f64) = "0 to 1, probability with which the discipline drops or marks, NaN: it has none",
    }
}

table! {
    /// One row per packet that was dropped by a queue or lost on a line, of the links in
    /// `record.drops`.
    pub(crate) DropRows of DropRow as "drops" {
        time_s: F64(f64) = "s since the start of the run",
        link: U32(u32) = "index of the link",
        flow: U32(u32) = "index of the flow",
        reverse: Bool(bool) = "true for packets from the flow's destination to its source",
        seq: U32(u32) = "sequence number of the packet",
        size_bytes: U32(u32) = "bytes at the IP layer",
        reason: Str(DropReason) = "overflow; early; line; filtered (no loss: a newer ACK made it superfluous); gone (the station was not associated there, or left). In the air: retry_limit (given up by its sender), late (its receiver had given it up). Without acknowledgements: collision, errors",
    }
}

table! {
    /// One row per data segment sent again, of the TCP flows in `record.retransmissions`. A sender
    /// knows all of it but the last column.
    pub(crate) RetransmissionRows of RetransmissionRow as "retransmissions" {
        time_s: F64(f64) = "s since the start of the run",
        flow: U32(u32) = "index of the flow",
        transfer: U32(u32) = "number of the connection within the flow, from 0",
        seq: U64(u64) = "offset of the first byte; the first byte of a connection is 1",
        size_bytes: U32(u32) = "bytes of payload, 0: a FIN alone",
        cause: Str(Cause) = "fast (begins fast recovery), recovery (another within it), timeout, repair (another after a timeout), probe (tail loss probe)",
        waited_ms: F64(f64) = "ms since the segment was last sent",
        dup_acks: U32(u32) = "duplicate ACKs received: since the last one that acknowledged something new",
        outstanding_segments: U32(u32) = "segments sent and not yet acknowledged, this one included",
        cwnd_segments: U32(u32) = "segments, congestion window before the reduction that comes with it",
        window_segments: U32(u32) = "segments, the smaller of cwnd and receive window",
        needless: Bool(bool) = "true: a copy sent earlier has reached the receiver, before or after",
    }
}

table! {
    /// One row per finished transfer of `transfer` and `web` traffic.
    pub(crate) TransferRows of TransferRow as "transfers" {
        flow: U32(u32) = "index of the flow",
        index: U32(u32) = "number of the transfer within the flow, from 0",
        bytes: U64(u64) = "bytes of payload",
        start_s: F64(f64) = "s, first packet sent",
        end_s: F64(f64) = "s, last byte acknowledged, NaN: given up",
        segments_sent: U64(u64) = "data segments, retransmissions included",
        segments_retransmitted: U64(u64) = "data segments retransmitted",
        dropped_at_queues: U64(u64) = "packets of this transfer dropped at queues",
    }
}

/// A transfer that has just ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    pub flow: FlowId,
    pub index: u32,
    pub bytes: u64,
    pub start: Time,
    /// `None`: given up.
    pub end: Option<Time>,
    pub segments_sent: u64,
    pub segments_retransmitted: u64,
    pub dropped_at_queues: u64,
}

/// How long transfers took. A sum of nanoseconds is the same in any order; one of seconds is not,
/// to the last bit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Durations {
    count: u64,
    sum_ns: u128,
}

impl Durations {
    /// One more transfer.
    pub(crate) fn add(&mut self, duration: Span) {
        self.count += 1;
        self.sum_ns += u128::from(duration.as_ns());
    }

    /// All of `other` as well.
    pub(crate) fn join(&mut self, other: Durations) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }

    /// In seconds; none of no transfers.
    pub(crate) fn mean_s(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e9)
    }
}

/// Rows that are recorded while the run goes on.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub transfers: Vec<Transfer>,
    /// By flow: those that began after warmup, ended, and have been taken.
    pub taken_transfers: BTreeMap<FlowId, Durations>,
    pub drops: DropLog,
    retransmissions: RetransmissionRows,
    /// Rows of it that have been taken.
    taken_retransmissions: u32,
    pub flow_series: FlowSeries,
    pub link_series: LinkSeries,
    pub air_series: AirSeries,
    pub ppdus: PpduRows,
    pub daemons: DaemonRows,
    pub daemon_series: DaemonSeries,
    pub walkers: WalkerRows,
    /// In a part of a world: when rows came, to put those of all parts in order.
    pub order: Option<Box<Order>>,
}

impl From<Transfer> for TransferRow {
    fn from(t: Transfer) -> TransferRow {
        TransferRow {
            flow: t.flow.0,
            index: t.index,
            bytes: t.bytes,
            start_s: t.start.as_secs_f64(),
            end_s: t.end.map_or(f64::NAN, Time::as_secs_f64),
            segments_sent: t.segments_sent,
            segments_retransmitted: t.segments_retransmitted,
            dropped_at_queues: t.dropped_at_queues,
        }
    }
}

impl Log {
    /// Rows there are now.
    pub(crate) fn retransmissions(&self) -> usize {
        self.retransmissions.count()
    }
    /// Rows that are noted from now on belong to this moment.
    #[inline]
    pub(crate) fn reach(&mut self, moment: Moment) {
        if let Some(order) = &mut self.order {
            order.reach(moment);
        }
    }
    /// The number by which [`Log::mark_needless`] will know the row.
    pub(crate) fn push_retransmission(&mut self, row: RetransmissionRow) -> u32 {
        if let Some(order) = &mut self.order {
            order.retransmissions.push(order.now);
        }
        self.retransmissions.push(row);
        self.taken_retransmissions.wrapping_add(count(self.retransmissions.count() - 1))
    }
    /// A row that has been taken stays as it was.
    pub(crate) fn mark_needless(&mut self, row: u32) {
        let at = row.wrapping_sub(self.taken_retransmissions);
        if let Some(needless) = self.retransmissions.needless.get_mut(at as usize) {
            *needless = true;
        }
    }
    /// All rows there are now.
    pub(crate) fn take_retransmissions(&mut self) -> RetransmissionRows {
        let rows = std::mem::take(&mut self.retransmissions);
        self.taken_retransmissions = self.taken_retransmissions.wrapping_add(count(rows.count()));
        rows
    }
    pub(crate) fn push_transfer(&mut self, transfer: Transfer) {
        if let Some(order) = &mut self.order {
            order.transfers.push(order.now);
        }
        self.transfers.push(transfer);
    }
    pub(crate) fn drop(&mut self, now: Time, link: LinkId, packet: &Packet, reason: DropReason) {
        if let Some(order) = &mut self.order {
            order.drops.push(order.now);
        }
        self.drops.push(Dropped::new(now, link, packet, reason));
    }
}

/// NaN for [`Time::NEVER`].
pub(crate) fn secs_or_nan(time: Time) -> f64 {
    if time.is_never() { f64::NAN } else { time.as_secs_f64() }
}
pub(crate) fn millis(span: Span) -> f64 {
    span.as_ns() as f64 * 1e-6
}
/// `a / b`, NaN if there is nothing to divide by.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { f64::NAN }
}
