//! The sending end of a connection: opens it, sends, repairs losses, closes.
//!
//! Offsets are 64-bit and count from the initial sequence number 0: the SYN is offset 0, data starts at 1.

use std::sync::Arc;

use super::cc::{AckSample, AnyCc, CaState, CcContext, Window};
use super::delivery::{Delivery, RateProbe};
use super::loss::{AnyLoss, Hole, LossContext, Verdict};
use super::pacing::Pacer;
use super::recovery::RateReduction;
use super::rtt::RttEstimator;
use super::scoreboard::{Scoreboard, Segment, seg_flags};
use super::{Notice, Outputs, Pacing, Recovery, TcpConfig, timestamp};
use crate::packet::{Ecn, FlowId, Kind, Packet, tcp_flags};
use crate::rng::Rng;
use crate::units::{Seq32, Span, Time};

/// Counters since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments put on the line, retransmissions included.
    pub segments_sent: u64,
    pub segments_retransmitted: u64,
    /// Payload bytes cumulatively acknowledged.
    pub bytes_acked: u64,
    /// Times fast recovery was entered.
    pub fast_retransmits: u64,
    pub timeouts: u64,
    pub window_probes: u64,
    pub ecn_reductions: u64,
    /// Reductions taken back because the original turned out to have arrived (RFC 3522).
    pub undos: u64,
    /// Round-trip samples: number, sum, least and greatest.
    pub rtt_count: u64,
    pub rtt_sum_ns: u64,
    pub rtt_min_ns: u64,
    pub rtt_max_ns: u64,
    /// Integral of cwnd over the time the connection was open, segments times nanoseconds, and that time.
    pub cwnd_segment_ns: u128,
    pub open_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    SynSent,
    Established,
    /// Over: closed cleanly or given up.
    Done,
}

/// What a reduction replaced, in case it proves spurious.
#[derive(Debug, Clone, Copy)]
struct Undo {
    ssthresh: u32,
    /// Timestamp of the first retransmission since; zero until there is one.
    first_retransmission_ts: u32,
}

/// What one ACK covered.
#[derive(Default)]
struct Covered {
    acked: u32,
    delivered: u32,
    /// Of the first acknowledged segment that was sent once only (for the timeout), and of the newest (for the control).
    oldest_sent_at: Option<Time>,
    newest_sent_at: Option<Time>,
    retransmitted_data: bool,
    rate: RateProbe,
}

impl Covered {
    fn take(&mut self, s: &Segment) {
        if !s.has(seg_flags::SACKED) {
            self.delivered += 1;
            self.rate.on_delivered(s);
        }
        if s.has(seg_flags::EVER_RETRANSMITTED) {
            self.retransmitted_data = true;
        } else if !s.has(seg_flags::SACKED) {
            self.oldest_sent_at.get_or_insert(s.sent_at);
            self.newest_sent_at = Some(s.sent_at);
        }
    }
}

#[derive(Debug)]
pub struct Sender {
    // The fields that every ACK touches come first.
    window: Window,
    snd_una: u64,
    snd_nxt: u64,
    /// Offset just past the last byte written; `u64::MAX / 2` for an endless source.
    write_end: u64,
    send_window: u64,
    /// Bytes, as far as autotuning has raised it.
    send_buffer: u64,
    board: Scoreboard,
    rtt: RttEstimator,
    rto_at: Time,
    persist_at: Time,
    pacer: Pacer,
    delivery: Delivery,
    /// End of the window in which recovery, a reduction or a timeout began: `recover` of RFC 6582.
    high_seq: u64,
    dup_acks: u32,
    /// Segments that duplicate ACKs, without SACK, have reported as delivered.
    inferred: u32,
    reduction: RateReduction,
    undo: Option<Undo>,
    /// Retransmissions that the ACK in hand showed to be lost.
    lost_again: u32,
    /// Partial ACKs of this recovery (NewReno).
    partial_acks: u32,
    /// When to ask the loss policy again.
    judge_at: Time,
    newest_delivered_sent_at: Time,
    /// With one timed segment per round trip: its end and when it was sent.
    timed: Option<(u64, Time)>,
    /// Up to when `stats.cwnd_segment_ns` counts.
    counted_until: Time,
    cwnd_limited: bool,
    max_in_flight: u32,
    cwnd_usage_end: u64,
    last_sent_at: Time,
    /// Newest timestamp of the peer, to be echoed.
    ts_recent: u32,
    state: State,
    /// FIN is to follow the last byte.
    closing: bool,
    all_acked_told: bool,
    ecn_ok: bool,
    send_cwr: bool,
    peer_fin: bool,
    syn_sent: u32,
    flow: FlowId,
    incarnation: u8,
    cc: AnyCc,
    loss: AnyLoss,
    config: Arc<TcpConfig>,
    stats: SenderStats,
}

impl Sender {
    pub fn new(flow: FlowId, incarnation: u8, config: Arc<TcpConfig>, rng: Rng) -> Sender {
        let mss = config.mss();
        let cwnd = config.initial_window.clamp(1, config.max_cwnd.max(1));
        let window = Window {
            cwnd,
            cwnd_cnt: 0,
            ssthresh: config.initial_ssthresh,
            cwnd_clamp: config.max_cwnd.max(1),
            prior_cwnd: cwnd,
            in_flight: 0,
            mss,
            wire_bytes: u32::from(config.packet_bytes),
            srtt: Span::ZERO,
            min_rtt: Span::MAX,
            state: CaState::Open,
        };
        Sender {
            window,
            snd_una: 1,
            snd_nxt: 1,
            write_end: 1,
            send_window: u64::from(mss),
            send_buffer: config.send_buffer.get(),
            board: Scoreboard::default(),
            rtt: RttEstimator::new(&config),
            rto_at: Time::NEVER,
            persist_at: Time::NEVER,
            pacer: Pacer::new(rng.clone()),
            delivery: Delivery::default(),
            high_seq: 0,
            dup_acks: 0,
            inferred: 0,
            reduction: RateReduction::default(),
            undo: None,
            lost_again: 0,
            partial_acks: 0,
            judge_at: Time::NEVER,
            newest_delivered_sent_at: Time::ZERO,
            timed: None,
            counted_until: Time::NEVER,
            cwnd_limited: false,
            max_in_flight: 0,
            cwnd_usage_end: 0,
            last_sent_at: Time::ZERO,
            ts_recent: 0,
            state: State::Closed,
            closing: false,
            all_acked_told: true,
            ecn_ok: false,
            send_cwr: false,
            peer_fin: false,
            syn_sent: 0,
            flow,
            incarnation,
            cc: config.cc.build(&CcContext { mss, initial_cwnd: cwnd, paced: config.pacing != Pacing::Off, rng }),
            loss: config.loss.build(&LossContext { mss }),
            config,
            stats: SenderStats::default(),
        }
    }

    /// Connects; data written before or after flows as soon as the handshake allows.
    pub fn open(&mut self, now: Time, out: &mut Outputs) {
        if self.state != State::Closed {
            return;
        }
        self.counted_until = now;
        if self.config.handshake {
            self.state = State::SynSent;
            self.send_syn(now, out);
        } else {
            self.state = State::Established;
            self.send_window = self.config.receive_buffer.get();
            self.ecn_ok = self.config.ecn;
            self.transmit(now, out);
        }
    }

    /// The application has `bytes` more to send; `u64::MAX`: it never runs out.
    pub fn write(&mut self, now: Time, bytes: u64, out: &mut Outputs) {
        self.write_end = self.write_end.saturating_add(bytes).min(u64::MAX / 2);
        self.all_acked_told = self.write_end == 1;
        if self.state == State::Established {
            self.transmit(now, out);
        }
    }

    /// The application writes no more than what has been sent by now; what is in flight is still repaired.
    pub fn stop_writing(&mut self) {
        self.write_end = self.snd_nxt.max(1);
    }

    /// No more will be written: FIN after the last byte. Without a handshake there is no FIN either.
    pub fn close(&mut self, now: Time, out: &mut Outputs) {
        self.closing = true;
        if self.state == State::Established {
            self.transmit(now, out);
            self.finish_if_done(out);
        }
    }

    pub fn deadline(&self) -> Time {
        self.rto_at.min(self.persist_at).min(self.pacer.deadline()).min(self.judge_at)
    }

    pub fn window(&self) -> &Window {
        &self.window
    }
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }
    /// The counters as they stand at `now`, which is not before the last call.
    pub fn stats_at(&self, now: Time) -> SenderStats {
        let (open, cwnd) = self.uncounted(now);
        SenderStats {
            open_ns: self.stats.open_ns + open,
            cwnd_segment_ns: self.stats.cwnd_segment_ns + cwnd,
            ..self.stats
        }
    }

    /// Since the counters were last brought up to date: time open, and cwnd over it.
    fn uncounted(&self, now: Time) -> (u64, u128) {
        if !matches!(self.state, State::SynSent | State::Established) {
            return (0, 0);
        }
        let span = now.since(self.counted_until).as_ns();
        (span, u128::from(self.window.cwnd) * u128::from(span))
    }

    /// Before anything changes at `now`.
    #[inline]
    fn count_until(&mut self, now: Time) {
        let (open, cwnd) = self.uncounted(now);
        self.stats.open_ns += open;
        self.stats.cwnd_segment_ns += cwnd;
        self.counted_until = now;
    }

    /// Smoothed round-trip time, if measured.
    pub fn srtt(&self) -> Option<Span> {
        Some(self.rtt.srtt()).filter(|s| !s.is_zero())
    }
    pub fn congestion_control(&self) -> &AnyCc {
        &self.cc
    }
    /// True once the connection is over: closed cleanly or given up.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub fn on_packet(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        self.count_until(now);
        match self.state {
            State::Closed => {}
            State::SynSent => {
                if p.has(tcp_flags::SYN | tcp_flags::ACK) && p.ack == Seq32(1) {
                    self.on_syn_ack(now, p, out);
                }
            }
            State::Established => {
                if p.has(tcp_flags::SYN) {
                    // Our ACK of the SYN-ACK was lost.
                    self.send_pure_ack(now, out);
                } else if p.has(tcp_flags::ACK) {
                    self.on_ack(now, p, out);
                }
            }
            State::Done => {
                if p.has(tcp_flags::FIN) {
                    self.send_pure_ack(now, out);
                }
            }
        }
    }

    pub fn on_deadline(&mut self, now: Time, out: &mut Outputs) {
        self.count_until(now);
        if now >= self.rto_at {
            match self.state {
                State::SynSent => self.on_syn_timeout(now, out),
                _ => self.on_rto(now, out),
            }
        }
        if now >= self.persist_at {
            self.on_persist(now, out);
        }
        if now >= self.judge_at {
            self.judge_at = Time::NEVER;
            if matches!(self.window.state, CaState::Open | CaState::Disorder | CaState::Cwr | CaState::Recovery) {
                self.detect_loss(now, out);
            }
        }
        if self.state == State::Established {
            self.transmit(now, out);
        }
    }

    /// Checks the counts behind `in_flight`; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.board.check();
        assert!(self.window.cwnd >= 1 && self.snd_una <= self.snd_nxt);
    }

    // ---- set-up and close -------------------------------------------------------------------------------------------

    fn send_syn(&mut self, now: Time, out: &mut Outputs) {
        let mut p = Packet::new(self.flow, Kind::Tcp, self.incarnation);
        p.flags = tcp_flags::SYN;
        if self.config.ecn && self.syn_sent == 0 {
            p.flags |= tcp_flags::ECE | tcp_flags::CWR;
        }
        p.size = self.config.syn_bytes();
        p.window = self.config.receive_buffer.get().min(65535) as u32;
        p.ts_val = timestamp(now, &self.config);
        out.packets.push(p);
        self.syn_sent += 1;
        self.last_sent_at = now;
        self.rto_at = now + self.rtt.rto(&self.config);
    }

    fn on_syn_timeout(&mut self, now: Time, out: &mut Outputs) {
        if self.syn_sent > self.config.retries {
            return self.give_up(out);
        }
        self.rtt.back_off();
        self.stats.timeouts += 1;
        self.send_syn(now, out);
    }

    fn on_syn_ack(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        self.state = State::Established;
        self.rto_at = Time::NEVER;
        self.send_window = u64::from(p.window);
        self.ecn_ok = self.config.ecn && p.has(tcp_flags::ECE);
        self.ts_recent = p.ts_val;
        self.rtt.reset_backoff();
        if self.syn_sent == 1 {
            self.on_rtt(now.since(self.last_sent_at), true);
        } else {
            // RFC 5681 section 3.1: one segment after a lost SYN.
            self.window.cwnd = 1;
        }
        out.notices.push(Notice::Established);
        self.transmit(now, out);
        if self.board.is_empty() {
            self.send_pure_ack(now, out);
        }
        self.finish_if_done(out);
    }

    fn send_pure_ack(&mut self, now: Time, out: &mut Outputs) {
        let mut p = Packet::new(self.flow, Kind::Tcp, self.incarnation);
        p.seq = Seq32::from_offset(self.snd_nxt);
        p.size = self.config.header_bytes();
        self.fill_ack(now, &mut p);
        out.packets.push(p);
    }

    /// The fields every packet after the SYN carries.
    fn fill_ack(&self, now: Time, p: &mut Packet) {
        p.flags |= tcp_flags::ACK;
        p.ack = Seq32::from_offset(1 + u64::from(self.peer_fin));
        p.window = self.config.receive_buffer.get().min(u64::from(u32::MAX)) as u32;
        if self.config.timestamps {
            p.ts_val = timestamp(now, &self.config);
            p.ts_ecr = self.ts_recent;
        }
    }

    fn give_up(&mut self, out: &mut Outputs) {
        self.state = State::Done;
        self.rto_at = Time::NEVER;
        self.persist_at = Time::NEVER;
        self.judge_at = Time::NEVER;
        self.pacer.stop();
        out.notices.push(Notice::TimedOut);
    }

    fn finish_if_done(&mut self, out: &mut Outputs) {
        if !self.all_acked_told && self.snd_una >= self.write_end {
            self.all_acked_told = true;
            out.notices.push(Notice::AllAcked);
        }
        let over = if self.config.handshake {
            self.peer_fin && self.snd_una > self.write_end
        } else {
            self.closing && self.snd_una >= self.write_end
        };
        if over && self.state == State::Established {
            self.state = State::Done;
            self.rto_at = Time::NEVER;
            self.persist_at = Time::NEVER;
            self.pacer.stop();
            out.notices.push(Notice::Closed);
        }
    }

    // ---- acknowledgements -------------------------------------------------------------------------------------------

    fn on_ack(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        let ack = p.ack.to_offset(self.snd_una);
        if ack > self.snd_nxt {
            return; // acknowledges what was never sent (RFC 9293 section 3.10.7.4)
        }
        if p.has(tcp_flags::FIN) {
            self.peer_fin = true;
        }
        if self.config.timestamps && p.ts_val != 0 {
            self.ts_recent = p.ts_val;
        }
        let prior_in_flight = self.in_flight();
        let window_changed = u64::from(p.window) != self.send_window;
        let mut covered = Covered { rate: RateProbe::new(self.delivery.total()), ..Covered::default() };
        let advanced = ack > self.snd_una;
        if ack >= self.snd_una {
            if self.send_window == 0 && p.window > 0 {
                self.persist_at = Time::NEVER;
                self.rtt.reset_backoff();
            }
            self.send_window = u64::from(p.window);
        }
        if advanced {
            self.board.acknowledge(ack, |s| {
                covered.acked += 1;
                covered.take(s);
            });
            self.stats.bytes_acked += ack.min(self.write_end) - self.snd_una.min(self.write_end);
            self.snd_una = ack;
        }
        let sack = self.config.recovery == Recovery::Sack;
        if sack {
            let floor = self.snd_una;
            for block in p.sack() {
                let (start, end) = (block.start.to_offset(floor), block.end.to_offset(floor));
                if start >= floor && end > start && end <= self.snd_nxt {
                    self.board.sack(start, end, |s| covered.take(s));
                }
            }
        }
        let duplicate = !advanced
            && ack == self.snd_una
            && p.len == 0
            && !self.board.is_empty()
            && if sack { covered.delivered > 0 } else { !window_changed && !p.has(tcp_flags::FIN) };
        if let Some(newest) = covered.rate.newest_sent_at() {
            self.newest_delivered_sent_at = self.newest_delivered_sent_at.max(newest);
        }
        if !sack {
            self.infer_delivered(&mut covered, duplicate);
        }
        self.delivery.on_delivered(now, covered.delivered);
        let rtt = self.sample_rtt(now, p, advanced, &covered);
        if advanced {
            self.on_advance(now, &covered);
        }
        if duplicate {
            self.dup_acks += 1;
        }
        if self.undo.is_some() && advanced {
            self.undo_if_spurious(now, p);
        }

        let lost_before = self.board.lost_out();
        self.leave_states(now);
        self.react_to_ecn(now, p);
        if duplicate || covered.delivered > 0 || self.window.state == CaState::Recovery {
            self.detect_loss_after(now, advanced, &covered, out);
        }
        let newly_lost = self.board.lost_out().saturating_sub(lost_before) + std::mem::take(&mut self.lost_again);
        self.window.in_flight = self.in_flight();
        self.control_window(now, p, &covered, rtt, prior_in_flight, newly_lost, advanced);
        self.transmit(now, out);
        self.finish_if_done(out);
        if p.has(tcp_flags::FIN) {
            self.send_pure_ack(now, out);
        }
    }

    /// Without SACK a duplicate ACK says that some segment arrived; the cumulative ACK that follows must not count it again.
    fn infer_delivered(&mut self, covered: &mut Covered, duplicate: bool) {
        if duplicate {
            covered.delivered = 1;
            self.inferred = (self.inferred + 1).min(self.board.packets_out());
        } else if covered.acked > 0 {
            covered.delivered = covered.acked.saturating_sub(self.inferred).max(1);
            self.inferred = self.inferred.saturating_sub(covered.acked - 1);
        }
    }

    /// In the network, as the sender can tell. Without SACK each duplicate ACK stands for a segment that has left it.
    fn in_flight(&self) -> u32 {
        let pipe = self.board.pipe();
        if self.config.recovery == Recovery::Sack {
            return pipe;
        }
        let left = match self.window.state {
            CaState::Recovery => self.dup_acks,
            CaState::Loss => 0,
            // RFC 3042: at most two segments beyond the window.
            _ if self.config.limited_transmit => self.dup_acks.min(2),
            _ => 0,
        };
        pipe.saturating_sub(left)
    }

    fn sample_rtt(&mut self, now: Time, p: &Packet, advanced: bool, covered: &Covered) -> Option<Span> {
        // Beside a retransmission an original may have waited for the hole below it (Karn's problem).
        let exact = covered.newest_sent_at.filter(|_| !covered.retransmitted_data).map(|t| now.since(t));
        if self.config.rtt_per_segment {
            if !covered.retransmitted_data {
                if let Some(oldest) = covered.oldest_sent_at {
                    self.on_rtt(now.since(oldest), advanced);
                }
            } else if advanced && self.config.timestamps && p.ts_ecr != 0 {
                // Karn's problem does not arise with timestamps (RFC 7323 section 4).
                let ticks = timestamp(now, &self.config).wrapping_sub(p.ts_ecr);
                let span = self.config.timestamp_tick.saturating_mul(u64::from(ticks));
                if ticks < 1 << 31 {
                    self.on_rtt(span.max(Span::from_ns(1)), true);
                }
            }
        } else if let Some((end, sent_at)) = self.timed
            && self.snd_una >= end
        {
            self.timed = None;
            self.on_rtt(now.since(sent_at), true);
        }
        if let Some(rtt) = exact {
            self.window.min_rtt = self.window.min_rtt.min(rtt);
            self.stats.rtt_min_ns =
                if self.stats.rtt_count == 0 { rtt.as_ns() } else { self.stats.rtt_min_ns.min(rtt.as_ns()) };
            self.stats.rtt_count += 1;
            self.stats.rtt_sum_ns += rtt.as_ns();
            self.stats.rtt_max_ns = self.stats.rtt_max_ns.max(rtt.as_ns());
        }
        exact
    }

    fn on_rtt(&mut self, rtt: Span, for_timeout: bool) {
        if for_timeout || self.rtt.srtt().is_zero() {
            self.rtt.on_sample(rtt, &self.config);
        }
        self.window.srtt = self.rtt.srtt();
        self.window.min_rtt = self.window.min_rtt.min(rtt);
    }

    /// The cumulative acknowledgement moved.
    fn on_advance(&mut self, now: Time, covered: &Covered) {
        if !covered.retransmitted_data || self.config.timestamps {
            self.rtt.reset_backoff();
        }
        self.persist_at = Time::NEVER;
        // RFC 6582 section 4, the impatient variant: only the first partial ACK restarts the timer, so that a window with
        // many holes ends in a timeout and slow start instead of a round trip for each.
        let partial = self.window.state == CaState::Recovery
            && self.config.recovery == Recovery::NewReno
            && self.snd_una < self.high_seq;
        self.partial_acks += u32::from(partial);
        if self.board.is_empty() {
            self.rto_at = Time::NEVER;
        } else if !partial || self.partial_acks == 1 {
            self.rto_at = now + self.rtt.rto(&self.config);
        }
        if self.window.state == CaState::Recovery && self.config.recovery == Recovery::NewReno {
            // Of what a partial ACK covers, one was the hole and the rest had each sent a duplicate (RFC 6582).
            self.dup_acks = self.dup_acks.saturating_sub(covered.acked.saturating_sub(1));
        } else {
            self.dup_acks = 0;
        }
    }

    /// Ends recovery, reduction and timeout repair when the window in which they began has been acknowledged.
    fn leave_states(&mut self, now: Time) {
        let done = self.snd_una >= self.high_seq;
        match self.window.state {
            CaState::Recovery if done => {
                self.dup_acks = 0;
                if !self.cc.owns_window() {
                    self.window.cwnd = self.window.ssthresh.max(1).min(self.window.cwnd_clamp);
                }
                self.enter(CaState::Open, now);
                self.undo = None;
            }
            CaState::Cwr if done => {
                if !self.cc.owns_window() {
                    self.window.cwnd = self.window.cwnd.min(self.window.ssthresh).max(1);
                }
                self.enter(CaState::Open, now);
            }
            CaState::Loss if done => {
                self.enter(CaState::Open, now);
                self.undo = None;
            }
            CaState::Disorder if self.board.sacked_out() == 0 && self.dup_acks == 0 => self.enter(CaState::Open, now),
            _ => {}
        }
    }

    fn enter(&mut self, to: CaState, now: Time) {
        if to != self.window.state {
            self.cc.on_state(&mut self.window, to, now);
            self.window.state = to;
        }
    }

    /// RFC 3168 section 6.1.2: once per window of data.
    fn react_to_ecn(&mut self, now: Time, p: &Packet) {
        if self.ecn_ok
            && p.has(tcp_flags::ECE)
            && matches!(self.window.state, CaState::Open | CaState::Disorder)
            && self.snd_una > self.high_seq
        {
            self.stats.ecn_reductions += 1;
            self.reduce(now, CaState::Cwr);
            self.send_cwr = true;
        }
    }

    /// Common start of a window reduction.
    fn reduce(&mut self, now: Time, to: CaState) {
        self.window.in_flight = self.in_flight();
        self.high_seq = self.snd_nxt;
        self.undo = Some(Undo { ssthresh: self.window.ssthresh, first_retransmission_ts: 0 });
        let ssthresh = self.cc.ssthresh(&self.window, now);
        self.enter(to, now);
        self.window.prior_cwnd = self.window.cwnd;
        self.window.cwnd_cnt = 0;
        self.reduction = RateReduction::begin(self.window.prior_cwnd);
        self.partial_acks = 0;
        if !self.cc.owns_window() {
            self.window.ssthresh = ssthresh;
            if !self.config.prr {
                self.window.cwnd = ssthresh;
            }
        }
    }

    fn detect_loss_after(&mut self, now: Time, advanced: bool, covered: &Covered, out: &mut Outputs) {
        if self.window.state == CaState::Recovery && advanced {
            match self.config.recovery {
                // The first new ACK ends it, whatever else is missing (RFC 2581 section 3.2 step 6).
                Recovery::Reno => {
                    self.board.clear_lost();
                    if !self.cc.owns_window() {
                        self.window.cwnd = self.window.ssthresh.max(1).min(self.window.cwnd_clamp);
                    }
                    self.enter(CaState::Open, now);
                    return;
                }
                Recovery::NewReno => {
                    self.board.mark_front_lost();
                    return;
                }
                Recovery::Sack => {}
            }
        }
        if self.window.state == CaState::Loss && covered.delivered == 0 {
            return;
        }
        self.detect_loss(now, out);
    }

    fn hole(&self, first: &Segment, above: u32) -> Hole {
        let mss = u64::from(self.window.mss);
        Hole {
            dup_acks: self.dup_acks,
            sacked_above: above,
            sent_at: first.sent_at,
            retransmitted: false,
            newest_delivered_sent_at: self.newest_delivered_sent_at,
            outstanding: self.board.packets_out(),
            cwnd: self.window.cwnd,
            send_window: (self.send_window / mss).min(u64::from(u32::MAX)) as u32,
            can_send_new: self.snd_nxt < self.write_end && self.snd_nxt + mss <= self.snd_una + self.send_window,
            min_rtt: self.window.min_rtt,
        }
    }

    /// Asks the loss policy about every hole and enters fast recovery on the first loss.
    fn detect_loss(&mut self, now: Time, out: &mut Outputs) {
        let srtt = self.rtt.srtt();
        let mut judge_at = Time::NEVER;
        let mut found = 0;
        if self.config.recovery == Recovery::Sack {
            // Losses that the last recovery found beyond its end are reason enough for another (RFC 6675 section 5).
            found = self.board.lost_out();
            let mut board = std::mem::take(&mut self.board);
            let sacked = board.sacked_out() > 0;
            let template = board.front().map(|first| Hole { outstanding: board.packets_out(), ..self.hole(first, 0) });
            if let Some(template) = template.as_ref().filter(|_| sacked) {
                found += board.mark_lost_holes(|first, above| {
                    let hole = Hole { sacked_above: above, sent_at: first.sent_at, ..*template };
                    match self.loss.judge(&hole, srtt, now) {
                        Verdict::Lost => true,
                        Verdict::Wait { until } => {
                            judge_at = judge_at.min(until);
                            false
                        }
                    }
                });
            }
            if let Some(template) = template {
                let again = board.mark_lost_retransmissions(|segment| {
                    let hole = Hole { sent_at: segment.sent_at, retransmitted: true, ..template };
                    match self.loss.judge(&hole, srtt, now) {
                        Verdict::Lost => true,
                        Verdict::Wait { until } => {
                            judge_at = judge_at.min(until);
                            false
                        }
                    }
                });
                self.lost_again += again;
            }
            self.board = board;
        } else if self.dup_acks > 0
            && matches!(self.window.state, CaState::Open | CaState::Disorder | CaState::Cwr)
            && let Some(first) = self.board.front()
        {
            // RFC 6582 section 4.1: duplicates from before the last recovery's end are echoes of its retransmissions.
            if self.snd_una > self.high_seq || self.window.state == CaState::Cwr {
                match self.loss.judge(&self.hole(first, self.dup_acks), srtt, now) {
                    Verdict::Lost => found = 1,
                    Verdict::Wait { until } => judge_at = until,
                }
            }
        }
        self.judge_at = judge_at;
        match self.window.state {
            CaState::Open | CaState::Disorder | CaState::Cwr if found > 0 => {
                let from_cwr = self.window.state == CaState::Cwr;
                if from_cwr {
                    // The window was already reduced for this round trip.
                    self.high_seq = self.snd_nxt;
                    self.enter(CaState::Recovery, now);
                } else {
                    self.reduce(now, CaState::Recovery);
                }
                if self.config.recovery != Recovery::Sack {
                    self.board.mark_front_lost();
                }
                self.stats.fast_retransmits += 1;
                out.notices.push(Notice::EnteredRecovery);
                // The first retransmission leaves whatever the window says (RFC 5681 section 3.2 step 3).
                self.window.in_flight = self.in_flight();
                self.retransmit(now, out);
                self.rto_at = now + self.rtt.rto(&self.config);
            }
            CaState::Open if self.board.sacked_out() + self.dup_acks > 0 => self.enter(CaState::Disorder, now),
            _ => {}
        }
    }

    /// Eifel detection (RFC 3522): the first ACK after a retransmission echoes the original's timestamp.
    fn undo_if_spurious(&mut self, now: Time, p: &Packet) {
        let Some(undo) = self.undo else { return };
        if !self.config.eifel || undo.first_retransmission_ts == 0 || p.ts_ecr == 0 {
            return;
        }
        let is_original = (p.ts_ecr.wrapping_sub(undo.first_retransmission_ts) as i32) < 0;
        if is_original && matches!(self.window.state, CaState::Recovery | CaState::Loss) {
            self.window.cwnd = self.cc.undo(&self.window).clamp(1, self.window.cwnd_clamp);
            self.window.ssthresh = self.window.ssthresh.max(undo.ssthresh);
            self.board.clear_lost();
            self.dup_acks = 0;
            self.stats.undos += 1;
            self.enter(CaState::Open, now);
        }
        self.undo = None;
    }

    #[allow(clippy::too_many_arguments)] // one caller; the sample is assembled here
    fn control_window(
        &mut self,
        now: Time,
        p: &Packet,
        covered: &Covered,
        rtt: Option<Span>,
        prior_in_flight: u32,
        lost: u32,
        advanced: bool,
    ) {
        let state = self.window.state;
        let reducing = matches!(state, CaState::Recovery | CaState::Cwr);
        if reducing && !self.cc.owns_window() {
            if self.config.prr {
                let pipe = self.window.in_flight;
                self.window.cwnd =
                    self.reduction.on_ack(covered.delivered, pipe, self.window.ssthresh, lost > 0).max(1);
            }
            return;
        }
        if covered.delivered == 0 && !advanced {
            return;
        }
        let credit = match self.config.byte_counting {
            0 => u32::from(advanced),
            // What SACK or duplicates reported earlier was credited then.
            limit if self.window.in_slow_start() => covered.acked.min(covered.delivered).min(limit),
            _ => covered.acked.min(covered.delivered),
        };
        let rate = covered.rate.sample(now, &self.delivery, self.window.min_rtt);
        covered.rate.commit(&mut self.delivery);
        let sample = AckSample {
            now,
            acked: covered.acked,
            delivered: covered.delivered,
            credit,
            lost,
            rtt,
            prior_in_flight,
            total_delivered: self.delivery.total(),
            rate,
            ece: self.ecn_ok && p.has(tcp_flags::ECE),
            cwnd_limited: self.is_cwnd_limited(),
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        };
        if self.cc.owns_window() || advanced {
            self.cc.on_ack(&mut self.window, &sample);
        }
    }

    /// RFC 7661: growth only while the window is what holds the sender back; in slow start half of it in use is enough.
    fn is_cwnd_limited(&self) -> bool {
        if self.window.in_slow_start() {
            self.window.cwnd < self.max_in_flight.saturating_mul(2)
        } else {
            self.cwnd_limited
        }
    }

    // ---- timers -----------------------------------------------------------------------------------------------------

    fn on_rto(&mut self, now: Time, out: &mut Outputs) {
        self.rto_at = Time::NEVER;
        if self.board.is_empty() {
            return;
        }
        if self.rtt.backoff() >= self.config.retries {
            return self.give_up(out);
        }
        self.stats.timeouts += 1;
        out.notices.push(Notice::RetransmissionTimeout);
        let repeated = self.window.state == CaState::Loss && self.rtt.backoff() > 0;
        self.window.in_flight = self.in_flight();
        if !repeated {
            // RFC 5681 section 3.1: a second timeout of the same segment leaves ssthresh as it is.
            let undo = Undo { ssthresh: self.window.ssthresh, first_retransmission_ts: 0 };
            let ssthresh = self.cc.ssthresh(&self.window, now);
            if self.window.state != CaState::Recovery {
                self.window.prior_cwnd = self.window.cwnd;
            }
            self.undo = Some(undo);
            if !self.cc.owns_window() {
                self.window.ssthresh = ssthresh;
            }
        }
        // A control hears of every timeout, also of one that finds the sender still repairing the last.
        self.cc.on_state(&mut self.window, CaState::Loss, now);
        self.window.state = CaState::Loss;
        self.high_seq = self.snd_nxt;
        self.dup_acks = 0;
        self.board.mark_all_lost();
        self.window.in_flight = self.in_flight();
        if !self.cc.owns_window() {
            self.window.cwnd = 1;
        }
        self.window.cwnd_cnt = 0;
        self.timed = None;
        self.rtt.back_off();
        self.pacer.stop();
        self.retransmit(now, out);
        self.rto_at = now + self.rtt.rto(&self.config);
    }

    /// RFC 9293 section 3.8.6.1: the receiver's window is closed; ask whether it still is.
    fn on_persist(&mut self, now: Time, out: &mut Outputs) {
        self.persist_at = Time::NEVER;
        if !self.board.is_empty() || self.snd_nxt >= self.write_end {
            return;
        }
        if self.send_window > 0 {
            // Too small for a full segment, but all there is: RFC 1122 section 4.2.3.4 lets it go after the wait.
            let len = (self.write_end - self.snd_nxt).min(self.send_window).min(u64::from(self.window.mss));
            self.send_new(now, len as u16, out);
            return;
        }
        // One below the window: the receiver must answer with its present window.
        let mut p = Packet::new(self.flow, Kind::Tcp, self.incarnation);
        p.seq = Seq32::from_offset(self.snd_una - 1);
        p.size = self.config.header_bytes();
        self.fill_ack(now, &mut p);
        out.packets.push(p);
        self.stats.window_probes += 1;
        self.rtt.back_off();
        self.persist_at = now + self.rtt.rto(&self.config);
    }

    // ---- sending ----------------------------------------------------------------------------------------------------

    /// Sends what window, pacing, buffers and data allow: retransmissions first (RFC 6675 section 5).
    fn transmit(&mut self, now: Time, out: &mut Outputs) {
        self.restart_after_idle(now);
        self.pacer.forget_waiting();
        let mss = u64::from(self.window.mss);
        let buffer = self.expand_send_buffer();
        let mut limited_by_cwnd = false;
        loop {
            self.window.in_flight = self.in_flight();
            let retransmit = self.board.has_to_retransmit();
            let unsent = self.write_end - self.snd_nxt.min(self.write_end);
            let fin = self.closing && self.config.handshake && self.snd_nxt <= self.write_end;
            if !retransmit && unsent == 0 && !fin {
                self.delivery.mark_app_limited(self.window.in_flight);
                break;
            }
            if self.window.in_flight >= self.window.cwnd {
                limited_by_cwnd = true;
                break;
            }
            if self.pacer.must_wait(now) {
                // Spaced over the round trip, the window is what sets the pace, though it is never full.
                limited_by_cwnd = self.config.pacing == Pacing::RttOverCwnd;
                break;
            }
            if retransmit {
                self.retransmit(now, out);
                continue;
            }
            let outstanding = self.snd_nxt - self.snd_una;
            let len = unsent.min(mss);
            if len > 0 {
                if outstanding + len > self.send_window {
                    if self.board.is_empty() && self.persist_at.is_never() {
                        self.persist_at = now + self.rtt.rto(&self.config);
                    }
                    break;
                }
                if outstanding + len > buffer {
                    break;
                }
            }
            self.send_new(now, len as u16, out);
        }
        self.note_window_use(limited_by_cwnd);
    }

    /// What the socket holds at most: it grows to twice the window (as Linux's `tcp_sndbuf_expand`) and never shrinks, so that
    /// new segments can follow while a hole is repaired.
    fn expand_send_buffer(&mut self) -> u64 {
        let most = self.config.send_buffer_max.get();
        if self.send_buffer < most {
            let wanted = 2 * u64::from(self.window.cwnd) * u64::from(self.window.mss);
            self.send_buffer = self.send_buffer.max(wanted.min(most));
        }
        self.send_buffer
    }

    fn note_window_use(&mut self, limited_by_cwnd: bool) {
        let in_flight = self.window.in_flight;
        if self.snd_una >= self.cwnd_usage_end
            || limited_by_cwnd
            || (!self.cwnd_limited && in_flight > self.max_in_flight)
        {
            self.cwnd_limited = limited_by_cwnd;
            self.max_in_flight = in_flight;
            self.cwnd_usage_end = self.snd_nxt;
        }
    }

    /// RFC 2861: the window decays by half for each timeout's worth of silence, down to the initial window.
    fn restart_after_idle(&mut self, now: Time) {
        let idle = now.since(self.last_sent_at);
        if !self.board.is_empty() || self.stats.segments_sent == 0 || self.snd_nxt >= self.write_end || idle.is_zero() {
            return;
        }
        let rto = self.rtt.rto(&self.config);
        if idle <= rto {
            return;
        }
        if self.config.restart_after_idle && !self.cc.owns_window() {
            let w = &mut self.window;
            let restart = self.config.restart_window.min(w.cwnd).max(1);
            w.ssthresh = w.ssthresh.max(w.cwnd / 2 + w.cwnd / 4);
            let halvings = (idle.as_ns() / rto.as_ns().max(1)).min(31) as u32;
            w.cwnd = (w.cwnd >> halvings).max(restart);
            w.cwnd_cnt = 0;
        }
        self.cc.on_restart(&mut self.window, idle, now);
    }

    fn send_new(&mut self, now: Time, len: u16, out: &mut Outputs) {
        let end = self.snd_nxt + u64::from(len);
        let fin = self.closing && self.config.handshake && end == self.write_end;
        let mut segment = Segment {
            start: self.snd_nxt,
            len,
            flags: if fin { seg_flags::FIN } else { 0 },
            sent_at: now,
            delivered_at: now,
            first_sent_at: now,
            delivered: 0,
        };
        self.delivery.on_send(now, &mut segment, self.board.is_empty());
        if !self.config.rtt_per_segment && self.timed.is_none() {
            self.timed = Some((segment.end(), now));
        }
        self.snd_nxt = segment.end();
        if self.rto_at.is_never() {
            self.rto_at = now + self.rtt.rto(&self.config);
        }
        self.board.push(segment);
        self.emit(now, &segment, false, out);
    }

    fn retransmit(&mut self, now: Time, out: &mut Outputs) {
        let nothing_in_flight = self.window.in_flight == 0;
        let Some(segment) = self.board.take_retransmission(now) else { return };
        self.delivery.on_send(now, segment, nothing_in_flight);
        let segment = *segment;
        self.stats.segments_retransmitted += 1;
        // Karn: what is timed may now be acknowledged by either copy.
        self.timed = self.timed.filter(|&(end, _)| end <= segment.start);
        if let Some(undo) = &mut self.undo
            && undo.first_retransmission_ts == 0
        {
            undo.first_retransmission_ts = timestamp(now, &self.config);
        }
        self.emit(now, &segment, true, out);
    }

    fn emit(&mut self, now: Time, segment: &Segment, is_retransmission: bool, out: &mut Outputs) {
        let mut p = Packet::new(self.flow, Kind::Tcp, self.incarnation);
        p.seq = Seq32::from_offset(segment.start);
        p.len = segment.len;
        p.size = segment.len + self.config.header_bytes();
        self.fill_ack(now, &mut p);
        if segment.has(seg_flags::FIN) {
            p.flags |= tcp_flags::FIN;
        }
        if self.ecn_ok && segment.len > 0 && !is_retransmission {
            p.ecn = Ecn::Ect0;
            if self.send_cwr {
                p.flags |= tcp_flags::CWR;
                self.send_cwr = false;
            }
        }
        out.packets.push(p);
        self.stats.segments_sent += 1;
        self.last_sent_at = now;
        self.reduction.on_send();
        self.pacer.on_send(now, u32::from(p.size), &self.window, self.cc.pacing_rate(&self.window), &self.config);
    }
}
