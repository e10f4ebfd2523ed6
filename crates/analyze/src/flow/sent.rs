//! Data that the sender of a flow sends.

use airtcp_core::convert::{count, saturate32};
use airtcp_core::packet::TcpFlags;
use airtcp_core::units::Span;

use super::{Flow, MAX_WINDOW, Passing, SegmentPoint, State};
use crate::decode::Segment;
use crate::send_history::{Marks, NONE, ORIGIN, Sent};

/// A repeated byte below what is acknowledged, alone and after such a pause, asks whether the peer
/// still lives.
const KEEP_ALIVE_IDLE: Span = Span::from_secs(1);
/// After so many packets that fit nothing the sequence numbers are taken to have moved on without
/// us.
const RESYNCHRONISE_AFTER: u32 = 3;

impl Flow {
    /// A packet of the flow's sender passes.
    pub(crate) fn on_sent(&mut self, at: &Passing, p: &Segment) {
        self.first_at.get_or_insert(at.seen);
        self.counts.packets += 1;
        if p.has(TcpFlags::RST) {
            // Its sequence number may be anything (RFC 9293 section 3.10.7).
            self.rst_seen = true;
            return;
        }
        let mut seq = p.seq;
        if p.has(TcpFlags::SYN) {
            if self.syn_seen {
                self.counts.syn_retransmissions += 1;
            }
            self.syn_seen = true;
            if self.initial.is_none() {
                self.begin_at(p.seq);
            }
            seq = seq.wrapping_add(1);
        }
        self.timestamps |= p.payload > 0 && p.options.timestamps.is_some();
        self.fin_seen |= p.has(TcpFlags::FIN);
        let length = u64::from(p.payload) + u64::from(p.has(TcpFlags::FIN));
        if length == 0 {
            // Without payload, one below what is acknowledged: asks for an ACK.
            if !p.has(TcpFlags::SYN) && self.flight() == 0 && self.offset(seq, self.una) == Some(self.una - 1) {
                self.counts.keep_alives += 1;
                self.limit_of_probe(at);
            }
            return;
        }
        if self.initial.is_none() {
            self.begin_at(seq.wrapping_sub(1));
        }
        let Some(start) = self.within_window(seq) else { return };
        let end = start + length;
        if p.payload > 0 {
            self.counts.data_packets += 1;
            self.counts.payload_bytes += u64::from(p.payload);
            self.largest_payload = self.largest_payload.max(p.payload);
            if p.payload <= 1460 {
                self.smaller_payload = self.smaller_payload.max(p.payload);
            }
            self.first_data.get_or_insert((at.now, start));
        }
        let silent = self.seen_at.replace(at.seen).map_or(Span::ZERO, |last| at.seen.since(last));
        self.limit_of_held(at, silent);
        self.note_ip_id(p);
        if self.is_keep_alive(at, p, start, end) {
            self.counts.keep_alives += 1;
            self.limit_of_probe(at);
            self.counts.retransmitted_bytes += u64::from(p.payload);
            return;
        }
        // A probe of a closed window sent one byte; the segment that follows begins with it.
        let is_probed = end > self.max && start + 1 == self.max && self.probed_to == Some(self.max);
        if start < self.max && !is_probed {
            let fin = p.has(TcpFlags::FIN) && end <= self.max;
            self.on_old(at, p, start, end.min(self.max), fin);
        }
        if p.payload == 1 && self.window == Some(0) {
            self.probed_to = Some(end);
        }
        if end > self.max {
            self.on_new(at, p, start.max(self.max), end);
        }
        self.pushed = p.has(TcpFlags::PSH) || p.has(TcpFlags::FIN);
        if p.has(TcpFlags::PSH) {
            self.limit_of_push();
        }
        self.sent_at = at.now;
        let missed = self.history.shrink_to(at.limits.segments);
        if missed > 0 {
            // Segments that are no longer remembered cannot be told apart from acknowledged ones.
            self.una = self.history.front().map_or(self.max, |s| s.start).max(self.una);
        }
        self.note_window(at);
    }

    fn begin_at(&mut self, initial: u32) {
        self.initial = Some(initial);
        self.una = ORIGIN + 1;
        self.max = ORIGIN + 1;
    }

    /// The offset, if it is one that a receiver may take.
    fn within_window(&mut self, seq: u32) -> Option<u64> {
        let start = self.offset(seq, self.max)?;
        if start.abs_diff(self.max) < MAX_WINDOW {
            self.outside_in_row = 0;
            return Some(start);
        }
        self.counts.outside_window += 1;
        self.outside_in_row += 1;
        if self.outside_in_row >= RESYNCHRONISE_AFTER && start > self.max {
            self.outside_in_row = 0;
            self.history.clear();
            self.una = start;
            self.max = start;
            self.state = State::Open;
            self.dup_acks = 0;
            self.what_if.reset();
        }
        None
    }

    fn note_ip_id(&mut self, p: &Segment) {
        if let (Some(id), Some(last)) = (p.ip_id, self.last_ip_id) {
            let step = id.wrapping_sub(last);
            if step != 0 && step < 256 { self.ip_id_steps.0 += 1 } else { self.ip_id_steps.1 += 1 }
        }
        self.last_ip_id = p.ip_id;
    }

    fn is_keep_alive(&self, at: &Passing, p: &Segment, start: u64, end: u64) -> bool {
        if p.payload != 1 || p.has(TcpFlags::FIN) {
            return false;
        }
        let idle = self.flight() == 0 && end == self.una && at.now.since(self.sent_at) >= KEEP_ALIVE_IDLE;
        // A closed window is probed with the next byte, again and again.
        let probe = self.window == Some(0) && start == self.una && end == self.max;
        idle || probe
    }

    fn stamp(p: &Segment) -> u32 {
        p.options.timestamps.map_or(0, |(value, _)| value)
    }

    fn on_new(&mut self, at: &Passing, p: &Segment, start: u64, end: u64) {
        if p.payload > 0 {
            self.limit_of_new(at, end - start, p.options.timestamps.map(|(_, echo)| echo));
        }
        if self.flight() == 0 {
            self.flight_began_at = at.now;
        }
        self.sent_order += 1;
        let sent = Sent {
            start,
            end,
            last_at: at.now,
            seen_at: at.seen,
            order: self.sent_order,
            first_stamp: Self::stamp(p),
            last_stamp: Self::stamp(p),
            row: NONE,
            ip_id: p.ip_id.unwrap_or(0),
            marks: Marks::when(p.has(TcpFlags::FIN), Marks::FIN),
        };
        if start > self.max {
            self.history.push(Sent { start: self.max, end: start, marks: Marks::UNSEEN, ..sent });
        }
        self.history.push(sent);
        self.max = end;
        self.data_end = end - u64::from(p.has(TcpFlags::FIN));
        self.counts.unique_bytes += (end - start) - u64::from(p.has(TcpFlags::FIN));
        self.flight_max = self.flight_max.max(self.flight());
        if self.state == State::Open {
            self.round_flight = self.round_flight.max(self.flight());
        }
        self.note_segment(at, "data", start, end);
    }

    fn note_segment(&mut self, at: &Passing, kind: &'static str, from: u64, to: u64) {
        let series = match kind {
            "data" => &mut self.data_points,
            "retransmission" => &mut self.resent_points,
            _ => &mut self.ack_points,
        };
        series.offer(at.limits.points, || SegmentPoint { at: at.seen, kind, from, to });
    }

    pub(super) fn note_ack(&mut self, at: &Passing, kind: &'static str, from: u64, to: u64) {
        self.note_segment(at, kind, from, to);
    }

    /// Bytes that were sent before, or that others overtook.
    /// `fin`: the last of them is that of FIN.
    fn on_old(&mut self, at: &Passing, p: &Segment, start: u64, end: u64, fin: bool) {
        let mut unseen = 0;
        let mut unseen_acked = 0;
        for s in self.history.within(start, end).filter(|s| s.has(Marks::UNSEEN)) {
            let bytes = s.end.min(end) - s.start.max(start);
            unseen += bytes;
            unseen_acked += s.end.min(end).min(self.una).saturating_sub(s.start.max(start));
        }
        self.counts.missed_bytes -= unseen_acked.min(self.counts.missed_bytes);
        let payload = (end - start) - u64::from(fin);
        let first_seen = unseen.min(payload);
        self.counts.unique_bytes += first_seen;
        self.counts.retransmitted_bytes += payload - first_seen;
        let stamp = Self::stamp(p);
        let again = unseen < end - start || (start >= self.una && self.late_is_repetition(at, p, start, end));
        self.sent_order += 1;
        let order = self.sent_order;
        let ip_id = p.ip_id.unwrap_or(0);
        if !again {
            self.counts.out_of_order += 1;
            self.history.change(start, end, |s| {
                s.marks = s.marks.without(Marks::UNSEEN) | Marks::LATE;
                (s.last_at, s.seen_at, s.order) = (at.now, at.seen, order);
                (s.first_stamp, s.last_stamp, s.ip_id) = (stamp, stamp, ip_id);
            });
            self.note_segment(at, "data", start, end);
            return;
        }
        let row = self.first_row.wrapping_add(count(self.retransmissions.len()));
        self.on_repetition(at, start, end, saturate32(payload), unseen == 0);
        self.history.change(start, end, |s| {
            if s.has(Marks::UNSEEN) {
                s.first_stamp = stamp;
                s.marks = s.marks.without(Marks::UNSEEN) | Marks::LATE;
            }
            s.marks |= Marks::RESENT;
            s.row = row;
            (s.last_at, s.seen_at, s.order, s.last_stamp) = (at.now, at.seen, order, stamp);
        });
        self.note_segment(at, "retransmission", start, end);
    }
}
