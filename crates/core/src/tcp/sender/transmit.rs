//! Which segments leave and when: window, pacing, buffers, window probes.

use super::skb::NextDeparture;
use super::timers::Pending;
use super::{Evidence, Sender};
use crate::convert::saturate16;
use crate::packet::{Kind, Packet, TcpFlags};
use crate::tcp::cc::CaState;
use crate::tcp::pacing::bytes_at_pacing_rate;
use crate::tcp::scoreboard::{SegFlags, Segment};
use crate::tcp::{Cause, Notice, Outputs, Pacing, Recovery, Retransmission, timestamp};
use crate::units::{Seq32, Span, Time};

/// Segments that Linux sends before it spaces any.
const UNPACED: u64 = 10;

impl Sender {
    /// RFC 9293 section 3.8.6.1: the receiver's window is closed; ask whether it still is.
    pub(super) fn on_persist(&mut self, now: Time, out: &mut Outputs) {
        self.timers.persist = Time::NEVER;
        if !self.board.is_empty() || self.snd_nxt >= self.write_end {
            return;
        }
        if self.send_window > 0 {
            // Too small for a full segment, but all there is: RFC 1122 section 4.2.3.4 lets it go
            // after the wait.
            let len = (self.write_end - self.snd_nxt).min(self.send_window).min(u64::from(self.path.mss));
            self.send_new(now, saturate16(len), true, out);
            self.timers.probe_sent_at = now;
            return;
        }
        // One below the window: the receiver must answer with its present window.
        let mut p = Packet::new(self.flow, Kind::Tcp, self.incarnation);
        p.seq = Seq32::from_offset(self.snd_una - 1);
        p.size = self.config.header_bytes();
        self.fill_ack(now, &mut p);
        out.packets.push(p);
        self.stats.window_probes += 1;
        self.timers.probe_sent_at = now;
        self.rtt.back_off(&self.config);
        self.timers.persist = self.timeout_from(now);
    }

    /// Sends what window, pacing, buffers and data allow: retransmissions first (RFC 6675 section
    /// 5). Says whether new data left.
    // [RFC5681-3.2-11]
    pub(super) fn transmit(&mut self, now: Time, out: &mut Outputs) -> bool {
        self.transmit_with(now, !self.frto.defers_repair() && !self.waits_for_ack, out)
    }

    /// The same where pacing or the queues below TCP had held it back: what is lost goes first,
    /// also while F-RTO would have new data first (Linux 6.12, net/ipv4/tcp_output.c,
    /// `tcp_tsq_write`).
    pub(super) fn transmit_on(&mut self, now: Time, out: &mut Outputs) {
        self.transmit_with(now, !self.waits_for_ack && !self.frto.is_undecided(), out);
    }

    /// `repairs`: what is lost goes before new data; else it does not go.
    fn transmit_with(&mut self, now: Time, repairs: bool, out: &mut Outputs) -> bool {
        self.pacer.forget_waiting();
        let mss = u64::from(self.path.mss);
        let buffer = self.expand_send_buffer();
        let mut limited_by_cwnd = false;
        self.small_queue.begin();
        self.skb.begin();
        let sent_to = self.snd_nxt;
        let fin_end = u64::from(self.closing && self.config.connection.handshake);
        let had_unsent = self.snd_nxt < self.write_end + fin_end;
        loop {
            // [RFC6675-5-11]
            self.path.in_flight = self.in_flight();
            // [RFC6675-5-12]
            let retransmit = repairs && self.board.has_to_retransmit();
            if retransmit && self.board.next_retransmission().is_some_and(|start| self.is_out_of_window(start)) {
                break;
            }
            let unsent = self.write_end - self.snd_nxt.min(self.write_end);
            let fin = self.closing && self.config.connection.handshake && self.snd_nxt <= self.write_end;
            // [RFC6675-4-11]
            if !retransmit && unsent == 0 && !fin {
                break;
            }
            // [RFC5681-3-1] [RFC8985-9.3-1]
            if self.path.in_flight >= self.window.cwnd {
                limited_by_cwnd = true;
                break;
            }
            if self.skb.is_over() {
                if self.pacer.must_wait(now) {
                    // Spaced over the round trip, the window is what sets the pace, though it is
                    // never full.
                    limited_by_cwnd = self.config.pacing.rule == Pacing::RttOverCwnd;
                    break;
                }
                if let NextDeparture::Later { for_window } = self.begin_skb(now, retransmit, buffer) {
                    limited_by_cwnd = for_window;
                    break;
                }
            }
            if self.path.in_flight == 0 && self.stats.segments_sent > 0 {
                let (idle, app_limited) = (now.since(self.last_sent_at), self.delivery.is_app_limited());
                self.cc.on_transmission_start(&mut self.window, &self.path, idle, app_limited);
            }
            // [RFC6675-4-6]
            if retransmit {
                let ends_skb = self.skb.take();
                let in_loss = self.path.state == CaState::Loss;
                let cause = if in_loss { Cause::TimeoutRepair } else { Cause::Recovery };
                let evidence = self.first_repair.take().unwrap_or_else(|| self.evidence(cause));
                self.retransmit(now, evidence, ends_skb, out);
                continue;
            }
            let outstanding = self.snd_nxt - self.snd_una;
            let len = unsent.min(mss);
            if len > 0 {
                // [RFC5681-2-2]
                if outstanding + len > self.send_window {
                    if self.board.is_empty() && self.timers.persist.is_never() {
                        self.timers.persist = self.timeout_from(now);
                    }
                    break;
                }
                if outstanding + len > buffer {
                    break;
                }
            }
            let ends_skb = self.skb.take();
            self.send_new(now, saturate16(len), ends_skb, out);
        }
        let sent_new = self.snd_nxt > sent_to;
        // `tcp_write_xmit`: a full window limits the sender, though nothing is left to be sent. But
        // one that only repetitions fill says nothing.
        let is_full = self.path.in_flight >= self.window.cwnd && self.config.cwnd.slack == 0;
        limited_by_cwnd = had_unsent && (limited_by_cwnd || is_full);
        if limited_by_cwnd || sent_new {
            self.window_use.note(limited_by_cwnd, self.board.packets_out(), self.snd_una, self.snd_nxt);
            self.follow_application(now);
        }
        if sent_new {
            self.schedule_tail_loss_probe(now, false);
        }
        sent_new
    }

    /// See [`bytes_at_pacing_rate`].
    pub(super) fn bytes_at_pacing_rate(&self, span: Span) -> u64 {
        let outstanding = self.outstanding_after_ack;
        bytes_at_pacing_rate(span, &self.window, &self.path, outstanding, &*self.cc, &self.rtt, &self.config)
    }

    /// Bytes that the socket holds at most. The bound grows to twice the window (as Linux's
    /// `tcp_sndbuf_expand`) and never shrinks. New segments can then follow while a hole is
    /// repaired.
    pub(super) fn expand_send_buffer(&mut self) -> u64 {
        let most = self.config.buffers.send_max.get();
        if self.send_buffer < most {
            let wanted = 2 * u64::from(self.window.cwnd) * u64::from(self.path.mss);
            self.send_buffer = self.send_buffer.max(wanted.min(most));
        }
        self.send_buffer
    }

    /// The application writes. If by then less than a segment was left to be sent, and neither the
    /// window nor a repair held any back, it is the application that limits what is in flight
    /// (Linux 6.12, net/ipv4/tcp_rate.c, `tcp_rate_check_app_limited`). The end of the data does
    /// not.
    pub(super) fn note_application(&mut self) {
        let unsent = self.write_end.saturating_sub(self.snd_nxt);
        let all_sent_again = self.board.lost_out() <= self.board.retransmitted_out();
        if self.wants_rate && unsent < u64::from(self.path.mss) && self.queued_bytes() == 0 && all_sent_again {
            let in_flight = self.in_flight();
            if in_flight < self.window.cwnd {
                self.delivery.mark_app_limited(in_flight);
            }
        }
    }

    /// RFC 2861: the window decays by half for each timeout's worth of silence, down to the initial
    /// window. It is the application's silence that counts, as in Linux
    /// (`tcp_slow_start_after_idle_check` when data is written): a closed receive window is none.
    pub(super) fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.last_sent_at);
        if !self.board.is_empty() || self.stats.segments_sent == 0 || self.snd_nxt >= self.write_end || idle.is_zero() {
            return;
        }
        let rto = self.rtt.rto(&self.config);
        if idle <= rto {
            return;
        }
        if self.config.cwnd.restart_after_idle && !self.owns_window {
            let w = &mut self.window;
            // [RFC5681-4.1-2]
            let restart = self.config.cwnd.restart_window.min(w.cwnd).max(1);
            w.ssthresh = w.ssthresh.max(w.cwnd / 2 + w.cwnd / 4);
            let halvings = (idle.as_ns() / rto.as_ns().max(1)).min(31) as u32;
            w.cwnd = (w.cwnd >> halvings).max(restart);
            w.cwnd_cnt = 0;
            self.window_use.begin(now);
        }
        self.cc.on_restart(&mut self.window, &self.path, idle);
    }

    /// `ends_skb`: it is the last of several segments that were handed down at once.
    pub(super) fn send_new(&mut self, now: Time, len: u16, ends_skb: bool, out: &mut Outputs) {
        let end = self.snd_nxt + u64::from(len);
        let fin = self.closing && self.config.connection.handshake && end == self.write_end;
        self.largest_window = self.largest_window.max(self.send_window);
        // `tcp_push`, `tcp_mark_push`. Data written behind it before it leaves takes the mark away.
        let mark = len > 0 && end == self.write_end;
        let segment = Segment {
            start: self.snd_nxt,
            len,
            flags: SegFlags::when(fin, SegFlags::FIN)
                | SegFlags::when(ends_skb, SegFlags::PUSH)
                | SegFlags::when(mark, SegFlags::WRITE_END),
            sent_at: now,
            number: 0, // the scoreboard counts
        };
        if self.board.is_empty() {
            self.delivery.begin(now);
        }
        if !self.config.rto.rtt_per_segment {
            self.timing.start(segment.end(), now);
        }
        self.snd_nxt = segment.end();
        // [RFC6298-5.1-1]
        // `tcp_event_new_data_sent`: a probe that waits makes way for the timeout, until
        // `transmit` sets the timer for the next one.
        if self.timers.waits_for_nothing() {
            self.restart_timeout(now);
        } else if self.timers.waits_for(Pending::TailLossProbe) {
            self.set_timeout(now);
        }
        self.board.push(segment, self.delivery.stamp());
        self.reduction.on_send();
        self.emit(now, &segment, false, ends_skb, out);
    }

    /// A segment that begins at `start` is not sent again: the receiver has taken back the window
    /// that it was in. The first that is missing is, and probes the window (Linux 6.12,
    /// net/ipv4/tcp_output.c, `__tcp_retransmit_skb`).
    pub(super) fn is_out_of_window(&self, start: u64) -> bool {
        start > self.snd_una && start >= self.snd_una + self.send_window
    }

    /// For a retransmission by `cause`; to be taken before the window changes.
    pub(super) fn evidence(&self, cause: Cause) -> Evidence {
        Evidence { cause, dup_acks: self.acks.duplicates, cwnd: self.window.cwnd }
    }

    /// `ends_skb`: as for new data. PSH of what is handed down at once is not kept
    /// (`__tcp_transmit_skb`, Linux 6.12), so a part that leaves alone has none. That of a write
    /// is.
    pub(super) fn retransmit(&mut self, now: Time, evidence: Evidence, ends_skb: bool, out: &mut Outputs) {
        // It is outstanding itself, so the flight goes on: `packets_out` in `tcp_rate_skb_sent`
        // (net/ipv4/tcp_rate.c, Linux 6.12).
        let Some((segment, waited)) = self.board.take_retransmission(now, self.delivery.stamp()) else { return };
        let is_first = segment.start == self.snd_una;
        if is_first
            && (self.owns_window || self.config.loss_recovery.recovery == Recovery::Sack || self.is_newreno_of_linux())
        {
            self.restart_timeout_for_repair(now);
        }
        self.note_retransmission(&segment, waited, evidence, out);
        self.first_repeat_ts.get_or_insert(timestamp(now, &self.config));
        if let Some(undo) = &mut self.undo {
            undo.on_retransmission();
        }
        self.reduction.on_send();
        self.emit(now, &segment, true, ends_skb, out);
    }

    pub(super) fn note_retransmission(
        &mut self,
        segment: &Segment,
        waited: Span,
        evidence: Evidence,
        out: &mut Outputs,
    ) {
        self.stats.segments_retransmitted += 1;
        (self.acks.looks, self.acks.looks_now) = (self.loss.looks_after_retransmission(), false);
        self.timing.on_retransmission(segment.start);
        out.notices.push(Notice::Retransmitted(Retransmission {
            start: segment.start,
            len: segment.len,
            cause: evidence.cause,
            waited,
            dup_acks: evidence.dup_acks,
            outstanding: self.board.packets_out(),
            cwnd: evidence.cwnd,
            send_window: self.send_window_segments(),
        }));
    }

    pub(super) fn emit(&mut self, now: Time, segment: &Segment, is_repeated: bool, push: bool, out: &mut Outputs) {
        let p = out.begin(Packet::new(self.flow, Kind::Tcp, self.incarnation));
        p.seq = Seq32::from_offset(segment.start);
        p.len = segment.len;
        p.size = segment.len + self.config.header_bytes();
        self.fill_ack(now, p);
        if segment.has(SegFlags::FIN) {
            p.flags |= TcpFlags::FIN;
        }
        if push || segment.has(SegFlags::WRITE_END) {
            p.flags |= TcpFlags::PSH;
        }
        if self.ecn_ok && segment.len > 0 && !is_repeated {
            p.ecn = self.config.ecn.capable();
            if self.send_cwr {
                p.flags |= TcpFlags::CWR;
                self.send_cwr = false;
            }
        }
        let size = u32::from(p.size);
        self.small_queue.on_send(segment.len, &self.config);
        self.stats.segments_sent += 1;
        self.last_sent_at = now;
        // Linux does not space the first segments (`tcp_update_skb_after_send`).
        if self.stats.segments_sent >= UNPACED || self.config.pacing.rule == Pacing::RttOverCwnd {
            let outstanding = self.outstanding_after_ack;
            self.pacer.on_send(size, &self.window, &self.path, outstanding, &*self.cc, &self.rtt, &self.config);
            self.path.next_send_at = self.pacer.next_at();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::packet::FlowId;
    use crate::rng::Streams;
    use crate::tcp::cc::CcConfig;
    use crate::tcp::profile::profile;

    /// Nothing is in flight after the timeout, as far as losses are known. But the segment is
    /// outstanding, so that its delivery is measured from the last one before
    /// (`tcp_rate_skb_sent`).
    #[test]
    fn a_timeouts_retransmission_is_measured_from_the_last_delivery() {
        let mut config = profile("linux-6").unwrap().resolve().unwrap();
        (config.connection.handshake, config.timestamps.enabled, config.loss_recovery.tail_loss_probe) =
            (false, false, false);
        config.cc = CcConfig::by_name("bbr").unwrap();
        let mss = config.mss();
        let mut sender = Sender::new(FlowId(0), 0, Arc::new(config), Streams::of(1, 0));
        let mut out = Outputs::default();
        sender.open(Time::ZERO, &mut out);
        sender.write(Time::ZERO, u64::MAX, &mut out);
        let delivered_at = Time::ZERO + Span::from_ms(100);
        let mut ack = Packet::new(FlowId(0), Kind::Tcp, 0);
        (ack.flags, ack.ack, ack.window) = (TcpFlags::ACK, Seq32(1 + mss), 1 << 20);
        sender.on_packet(delivered_at, &ack, &mut out);
        let mut now = delivered_at;
        while sender.stats().timeouts == 0 {
            now = sender.deadline();
            sender.on_deadline(now, &mut out);
        }
        let mut sent = Vec::new();
        let end = 1 + 2 * u64::from(mss);
        sender.board.acknowledge(end, |front, stamp| sent.push((front.sent_at, stamp.unwrap().delivered_at)));
        assert_eq!(sent, [(now, delivered_at)]);
    }
}
