//! From a flow to the rows of the tables.

use std::borrow::Cow;

use airtcp_core::convert::{self, saturate32};
use airtcp_core::packet::FlowId;
use airtcp_core::units::{Span, Time};

use super::classify::Spurious;
use super::limits::Limit;
use super::{Flow, Retransmitted};
use crate::connection::ConnectionId;
use crate::tables::{FlowRow, LimitRow, RetransmissionRow, Rows, RttRow, SegmentRow, TimeoutRow, WindowRow};

/// Part of the round trip, there and back, up to which the nearer end counts as the place of the
/// capture.
const HERE: f64 = 0.2;

/// Facts about a flow that its connection knows.
pub(crate) struct Surroundings {
    pub connection: ConnectionId,
    pub place: u32,
    pub source: (String, u16),
    pub destination: (String, u16),
    pub ip_version: u32,
    pub end: Time,
    /// Round trip from the capture to the sender and back, where known.
    pub near: Option<Span>,
    /// As [`Flow::rtt_min`], but also from handshake and timestamps.
    pub far: Option<Span>,
    /// A RST from either end.
    pub reset: bool,
    /// As the table's columns have it.
    pub opening: &'static str,
    pub answered_in: Option<Span>,
    pub asked_after: Option<Span>,
    pub role: &'static str,
    pub reset_by: &'static str,
    pub reset_cut: bool,
    pub one_way: bool,
}

/// Seconds since the first packet.
fn secs(at: Time) -> f64 {
    span_s(at.since(Time::ZERO))
}
fn span_s(span: Span) -> f64 {
    span.as_ns() as f64 * 1e-9
}
fn millis(span: Option<Span>) -> f64 {
    span.map_or(f64::NAN, |span| span.as_ns() as f64 * 1e-6)
}

impl Surroundings {
    /// Where the capture was taken.
    pub(crate) fn vantage(&self) -> &'static str {
        let (Some(near), Some(far)) = (self.near, self.far) else { return "" };
        let part = near.as_ns() as f64 / (near + far).as_ns().max(1) as f64;
        if part <= HERE {
            "sender"
        } else if part >= 1.0 - HERE {
            "receiver"
        } else {
            "between"
        }
    }
}

impl Flow {
    /// Retransmissions and timeouts that can wait no longer: what is more than `keep`.
    pub(crate) fn flush(&mut self, keep: usize, around: &Surroundings, rows: &mut Rows) {
        let Some(FlowId(flow)) = self.id else { return };
        let count = self.retransmissions.len().saturating_sub(keep);
        let both_copies = around.vantage() == "receiver" && !self.loss_behind;
        let done: Vec<Retransmitted> = self.retransmissions.drain(..count).collect();
        self.first_row = self.first_row.wrapping_add(convert::count(count));
        for mut r in done {
            if both_copies && r.unprovoked_copy && r.spurious.is_none() {
                r.spurious = Some(Spurious::BothCopies);
                self.counts.spurious += 1;
            }
            let reason = match r.spurious {
                None => Cow::Borrowed(r.reason),
                Some(why) => format!("{}; spurious: {}", r.reason, why.reason()).into(),
            };
            rows.retransmissions.push(RetransmissionRow {
                flow,
                packet: r.packet,
                time_s: secs(r.at),
                seq: Self::relative(r.start),
                bytes: r.bytes,
                class: r.class.name().into(),
                spurious: r.spurious.is_some(),
                waited_s: span_s(r.waited),
                dup_acks: r.dup_acks,
                flight_segments: r.flight_segments,
                rto_estimate_s: span_s(r.rto),
                reason,
            });
        }
        for t in self.timeouts.drain(..) {
            let [efr, early, rack] = t.found_at.map(|at| at.map_or(f64::NAN, secs));
            rows.timeouts.push(TimeoutRow {
                flow,
                packet: t.packet,
                time_s: secs(t.at),
                waited_s: span_s(t.waited),
                dup_acks: t.dup_acks,
                flight_segments: t.flight_segments,
                window_segments: t.window_segments,
                efr_at_s: efr,
                early_retransmit_at_s: early,
                rack_at_s: rack,
            });
        }
    }

    /// Rows held back.
    pub(crate) fn pending(&self) -> usize {
        self.retransmissions.len()
    }

    /// The flow is over.
    pub(crate) fn finish(mut self, around: Surroundings, rows: &mut Rows) {
        let Some(FlowId(flow)) = self.id else { return };
        self.flush(0, &around, rows);
        for (at, far, whole) in std::mem::take(&mut self.rtt_points).into_points() {
            let (rtt_ms, path_rtt_ms) = (millis(Some(far)), millis(Some(whole)));
            rows.rtt_samples.push(RttRow { flow, time_s: secs(at), rtt_ms, path_rtt_ms });
        }
        for w in std::mem::take(&mut self.windows).into_points() {
            rows.windows.push(WindowRow {
                flow,
                time_s: secs(w.at),
                flight_bytes: w.flight,
                receive_window_bytes: w.window.map_or(f64::NAN, |w| w as f64),
                cwnd_estimate_bytes: w.cwnd,
            });
        }
        let mut points = std::mem::take(&mut self.data_points).into_points();
        points.extend(std::mem::take(&mut self.ack_points).into_points());
        points.extend(std::mem::take(&mut self.resent_points).into_points());
        points.sort_by_key(|p| p.at);
        for p in points {
            rows.segments.push(SegmentRow {
                flow,
                time_s: secs(p.at),
                kind: p.kind.into(),
                seq_from: Self::relative(p.from),
                seq_to: Self::relative(p.to),
            });
        }
        self.end_limits(around.end);
        for band in self.held.take_bands() {
            let limit = band.limit.name().into();
            rows.limits.push(LimitRow { flow, from_s: secs(band.from), to_s: secs(band.to), limit });
        }
        let row = self.row(FlowId(flow), around);
        rows.flows.push(row);
    }

    fn row(self, FlowId(flow): FlowId, around: Surroundings) -> FlowRow {
        let vantage = around.vantage();
        let mss = u64::from(self.mss());
        let c = &self.counts;
        let goodput_bps = match self.first_data {
            // The byte of a FIN is not payload, and the time until it comes is not the transfer's.
            Some((began, first)) if self.data_acked_at > began && self.una > first => {
                (self.una.min(self.data_end) - first) as f64 * 8.0 / span_s(self.data_acked_at.since(began))
            }
            _ => f64::NAN,
        };
        let line = self.line.rate();
        let (path_bytes, path_time) = self.on_path();
        let held = |limit: Limit| span_s(self.held.spent[limit as usize]);
        let started = self.first_at.unwrap_or(around.end);
        FlowRow {
            flow,
            connection: around.connection.0,
            place: around.place,
            source: around.source.0.into(),
            source_port: around.source.1.into(),
            destination: around.destination.0.into(),
            destination_port: around.destination.1.into(),
            ip_version: around.ip_version,
            start_s: secs(started),
            end_s: secs(around.end),
            complete: self.syn_seen && (self.fin_seen || around.reset),
            mss_bytes: if self.largest_payload == 0 { 0 } else { saturate32(mss) },
            sack_permitted: self.sack,
            timestamps: self.timestamps,
            window_scale: self.receiver_scale.map_or(f64::NAN, f64::from),
            vantage: vantage.into(),
            packets: c.packets,
            data_packets: c.data_packets,
            payload_bytes: c.payload_bytes,
            unique_bytes: c.unique_bytes,
            retransmitted_packets: c.retransmitted_packets,
            retransmitted_bytes: c.retransmitted_bytes,
            fast_retransmits: c.fast,
            recovery_retransmissions: c.recovery,
            timeouts: c.timeouts,
            repair_retransmissions: c.repair,
            tail_loss_probes: c.probes,
            spurious_retransmissions: c.spurious,
            unclassified_retransmissions: c.unknown,
            syn_retransmissions: c.syn_retransmissions,
            keep_alives: c.keep_alives,
            out_of_order: c.out_of_order,
            duplicate_acks: c.duplicate_acks,
            acks: c.acks,
            zero_windows: c.zero_windows,
            lost_before_capture: c.missed_bytes.div_ceil(mss),
            outside_window: c.outside_window,
            goodput_bps,
            rtt_min_ms: millis(self.far.min()),
            rtt_mean_ms: self.far.mean_ns().map_or(f64::NAN, |ns| ns * 1e-6),
            rtt_max_ms: millis(self.far.max()),
            rtt_samples: self.far.samples,
            rtt_near_min_ms: millis(around.near),
            initial_window_segments: self
                .initial_bytes
                .filter(|_| self.syn_seen)
                .map_or(0, |bytes| saturate32(bytes.div_ceil(mss))),
            flight_max_bytes: self.flight_max,
            timeouts_dup_0: c.timeouts_by_dup[0],
            timeouts_dup_1: c.timeouts_by_dup[1],
            timeouts_dup_2: c.timeouts_by_dup[2],
            timeouts_dup_3_or_more: c.timeouts_by_dup[3],
            avoided_efr: c.avoided[0],
            avoided_early_retransmit: c.avoided[1],
            avoided_rack: c.avoided[2],
            timeouts_untold: c.untold,
            path_rtt_min_ms: millis(self.held.rtt_min),
            path_rtt_p50_ms: millis(self.held.rtts.percentile(50).map(Span::from_ns)),
            path_rtt_p95_ms: millis(self.held.rtts.percentile(95).map(Span::from_ns)),
            receive_window_max_bytes: self.held.window_max().map_or(f64::NAN, |w| w as f64),
            limited_receive_window_s: held(Limit::ReceiveWindow),
            limited_receiver_app_s: held(Limit::ReceiverApp),
            limited_sender_app_s: held(Limit::SenderApp),
            limited_think_s: held(Limit::Think),
            limited_idle_s: held(Limit::Idle),
            limited_slow_start_s: held(Limit::SlowStart),
            limited_queue_s: held(Limit::Queue),
            limited_loss_s: held(Limit::Loss),
            limited_cwnd_s: held(Limit::Cwnd),
            limited_outage_s: held(Limit::Outage),
            limited_air_s: held(Limit::Air),
            limited_paced_s: held(Limit::Paced),
            limited_steady_s: held(Limit::Steady),
            role: around.role.into(),
            opening: around.opening.into(),
            opening_ms: millis(around.answered_in),
            asked_after_ms: millis(around.asked_after),
            reset_by: around.reset_by.into(),
            reset_cut: around.reset_cut,
            one_way: around.one_way,
            longest_think_s: span_s(self.held.longest_think),
            window_closed_s: span_s(self.held.closed),
            ends_closed: self.ends_closed(),
            line_bps: line.map_or(f64::NAN, |(rate, _)| rate as f64),
            line_by: line.map_or("", |(_, by)| by.name()).into(),
            path_bps: if path_time.is_zero() { f64::NAN } else { path_bytes as f64 * 8.0 / span_s(path_time) },
        }
    }
}
