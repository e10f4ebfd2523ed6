//! The sending end of a connection: opens it, sends, repairs losses, closes. Here are its state,
//! its interface, set-up and close; the rest is by concern: [`acks`], [`frto`], [`refusal`],
//! [`repair`], [`skb`], [`tail_loss_probe`], [`transmit`], [`tsq`].
//!
//! Offsets are 64-bit and count from the initial sequence number 0: the SYN is offset 0, data
//! starts at 1.

mod accurate_ecn;
mod ack;
mod ack_counts;
mod acks;
mod expected;
mod frto;
mod info;
mod newest;
mod refusal;
mod repair;
mod skb;
mod tail_loss_probe;
mod timers;
mod timing;
mod transmit;
mod tsq;
mod undo;
mod window_use;

use std::sync::Arc;

use self::accurate_ecn::Marks;
use self::ack_counts::AckCounts;
use self::frto::FrtoState;
pub use self::info::SenderInfo;
use self::newest::Newest;
use self::skb::Skb;
use self::tail_loss_probe::TailLossProbe;
use self::timers::{Pending, Timers};
use self::timing::Timing;
use self::tsq::SmallQueue;
use self::undo::Undo;
use self::window_use::WindowUse;
use super::cc::{AnyCc, CaState, CcContext, Path, Window};
use super::delivery::Delivery;
use super::loss::{AnyLoss, LossContext};
use super::out_of_window::OutOfWindow;
use super::pacing::Pacer;
use super::recovery::RateReduction;
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::ticks::TickClock;
use super::{Cause, EcnEcho, Notice, Outputs, Pacing, TcpConfig, timestamp};
use crate::convert::{saturate16, saturate32};
use crate::packet::{AccurateEcn, FlowId, Kind, Packet, TcpFlags};
use crate::prefetch::prefetch;
use crate::rng::{Purpose, Streams};
use crate::units::{Seq32, Span, Time};

/// Counters since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Data segments put on the line, retransmissions included.
    pub segments_sent: u64,
    /// Those of them that were sent before.
    pub segments_retransmitted: u64,
    /// Payload bytes cumulatively acknowledged.
    pub bytes_acked: u64,
    /// Times fast recovery was entered.
    pub fast_retransmits: u64,
    /// ACKs that acknowledged nothing new and said that something above had arrived.
    pub duplicate_acks: u64,
    /// Retransmission timeouts, those of the SYN included.
    pub timeouts: u64,
    /// Probes of a closed receive window.
    pub window_probes: u64,
    /// Tail loss probes (RFC 8985), new data or repeated.
    pub tail_loss_probes: u64,
    /// ACKs with a DSACK (RFC 2883).
    pub duplicate_sacks: u64,
    /// Window reductions after an ECN echo.
    pub ecn_reductions: u64,
    /// Reductions taken back because the originals turned out to have arrived (RFC 3522, RFC 2883).
    pub undos: u64,
    /// Timeouts that F-RTO found to be spurious (RFC 5682).
    pub spurious_timeouts: u64,
    /// Round-trip samples: number, sum, least and greatest.
    pub rtt_count: u64,
    /// Their sum, nanoseconds.
    pub rtt_sum_ns: u64,
    /// The least, nanoseconds.
    pub rtt_min_ns: u64,
    /// The greatest, nanoseconds.
    pub rtt_max_ns: u64,
    /// Integral of cwnd over the time the connection was open, segments times nanoseconds, and that
    /// time.
    pub cwnd_segment_ns: u128,
    /// That time, nanoseconds.
    pub open_ns: u64,
}

impl SenderStats {
    fn count_rtt(&mut self, rtt: Span) {
        let ns = rtt.as_ns();
        self.rtt_min_ns = if self.rtt_count == 0 { ns } else { self.rtt_min_ns.min(ns) };
        self.rtt_count += 1;
        self.rtt_sum_ns += ns;
        self.rtt_max_ns = self.rtt_max_ns.max(ns);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    SynSent,
    Established,
    /// Over: closed cleanly or given up.
    Done,
}

/// Why a segment is sent again, and what was known before that changed the window.
#[derive(Debug, Clone, Copy)]
struct Evidence {
    cause: Cause,
    dup_acks: u32,
    cwnd: u32,
}

/// The sending end of a connection.
#[derive(Debug)]
pub struct Sender {
    // The fields that every ACK touches come first.
    window: Window,
    path: Path,
    snd_una: u64,
    snd_nxt: u64,
    /// Offset just past the last byte written; `u64::MAX / 2` for an endless source.
    write_end: u64,
    /// The peer's, as far as new data has left since.
    largest_window: u64,
    send_window: u64,
    /// Segments outstanding after the last ACK, before any were sent.
    outstanding_after_ack: u32,
    /// Bytes, as far as autotuning has raised it.
    send_buffer: u64,
    small_queue: SmallQueue,
    skb: Skb,
    board: Scoreboard,
    rtt: RttEstimator,
    timers: Timers,
    pacer: Pacer,
    delivery: Delivery,
    /// End of the window in which recovery, a reduction or a timeout began: `recover` of RFC 6582.
    high_seq: u64,
    acks: AckCounts,
    newest: Newest,
    reduction: RateReduction,
    undo: Option<Undo>,
    /// The threshold to which an undo returns, segments; 0: window and threshold stay reduced, as
    /// an ECN echo has proved that there was congestion.
    prior_ssthresh: u32,
    /// Timestamp of the first retransmission since none was out, 0 without timestamps
    /// (`retrans_stamp`).
    first_repeat_ts: Option<u32>,
    /// The evidence for the recovery under way, while its first retransmission waits for window and
    /// pacing.
    first_repair: Option<Evidence>,
    frto: FrtoState,
    /// Without SACK, after a timeout: new segments that duplicate ACKs stand for.
    frto_arrived: u32,
    tail_loss_probe: Option<TailLossProbe>,
    clock: TickClock,
    /// That of `rtt_tick`.
    rtt_clock: TickClock,
    /// Retransmissions that the ACK in hand showed to be lost.
    lost_again: u32,
    /// Timeouts since the cumulative acknowledgement last moved.
    timeouts_in_row: u32,
    /// A timeout has sent its one segment (`timeout_sends_one`), and no ACK has come since.
    waits_for_ack: bool,
    /// The peer has taken back what it SACKed, and that is still being repaired.
    sacks_taken_back: bool,
    timing: Timing,
    /// Up to when `stats.cwnd_segment_ns` counts.
    counted_until: Time,
    window_use: WindowUse,
    last_sent_at: Time,
    /// Newest timestamp of the peer, to be echoed.
    ts_recent: u32,
    state: State,
    /// FIN is to follow the last byte.
    closing: bool,
    all_acked_notified: bool,
    ecn_ok: bool,
    /// With Accurate ECN: what the peer has told of marks.
    marks: Option<Marks>,
    send_cwr: bool,
    peer_fin: bool,
    out_of_window: OutOfWindow,
    syn_sent: u32,
    flow: FlowId,
    incarnation: u8,
    cc: AnyCc,
    /// Answers of `cc`, cached because every ACK needs them.
    owns_window: bool,
    needs_every_ack: bool,
    wants_rate: bool,
    /// ACKs are looked at for whether they are what is [expected].
    expects: bool,
    loss: AnyLoss,
    config: Arc<TcpConfig>,
    stats: SenderStats,
}

fn clock(config: &TcpConfig, phase: Span) -> TickClock {
    match config.timers.wheel && config.timers.tick.is_zero() {
        true => TickClock::wheel(config.rto.granularity, phase),
        false => TickClock::new(config.timers.tick, phase),
    }
}

impl Sender {
    /// Closed, with nothing to send. `incarnation`: as in [`Packet::new`].
    pub fn new(flow: FlowId, incarnation: u8, config: Arc<TcpConfig>, streams: Streams) -> Sender {
        let mss = config.mss();
        // [RFC5681-3.1-2]
        let cwnd = config.cwnd.initial.clamp(1, config.cwnd.max.max(1));
        // [RFC5681-3.1-6]
        let window = Window { cwnd, cwnd_cnt: 0, ssthresh: config.cwnd.initial_ssthresh };
        let path = Path {
            now: Time::ZERO,
            srtt: Span::ZERO,
            min_rtt: Span::MAX,
            in_flight: 0,
            prior_cwnd: cwnd,
            cwnd_clamp: config.cwnd.max.max(1),
            mss,
            wire_bytes: u32::from(config.connection.packet_bytes),
            state: CaState::Open,
            next_send_at: Time::ZERO,
            pacing_shift: config.host_queue.tsq_pacing_shift,
        };
        let paced = config.pacing.rule != Pacing::Off;
        let stream = streams.stream(Purpose::CongestionControl);
        let mut cc = config.cc.build(&CcContext { mss, initial_cwnd: cwnd, paced, stream });
        let wants_rate = cc.wants_rate();
        Sender {
            window,
            path,
            snd_una: 1,
            snd_nxt: 1,
            write_end: 1,
            largest_window: 0,
            send_window: u64::from(mss),
            outstanding_after_ack: 0,
            send_buffer: config.buffers.send.get(),
            small_queue: SmallQueue::default(),
            skb: Skb::default(),
            board: Scoreboard::new(wants_rate),
            rtt: RttEstimator::new(&config),
            timers: Timers::STOPPED,
            pacer: Pacer::new(streams.stream(Purpose::Pacing).open()),
            delivery: Delivery::default(),
            // [RFC6582-3.2-1]
            high_seq: 0,
            acks: AckCounts::default(),
            newest: Newest::default(),
            reduction: RateReduction::default(),
            undo: None,
            prior_ssthresh: 0,
            first_repeat_ts: None,
            first_repair: None,
            frto: FrtoState::Idle,
            frto_arrived: 0,
            tail_loss_probe: None,
            clock: clock(&config, Span::ZERO),
            rtt_clock: TickClock::new(config.rto.rtt_tick, Span::ZERO),
            lost_again: 0,
            timeouts_in_row: 0,
            waits_for_ack: false,
            sacks_taken_back: false,
            timing: Timing::default(),
            counted_until: Time::NEVER,
            window_use: WindowUse::default(),
            last_sent_at: Time::ZERO,
            ts_recent: 0,
            state: State::Closed,
            closing: false,
            all_acked_notified: true,
            ecn_ok: false,
            marks: None,
            send_cwr: false,
            peer_fin: false,
            out_of_window: OutOfWindow::default(),
            syn_sent: 0,
            flow,
            incarnation,
            owns_window: cc.owns_window(),
            needs_every_ack: cc.needs_every_ack(),
            wants_rate,
            expects: expected::are_looked_for(&config, &cc),
            cc,
            loss: config.loss_recovery.loss.build(&LossContext { mss }),
            config,
            stats: SenderStats::default(),
        }
    }

    /// When the first tick of the host's clocks falls; counts with `timer_tick`, `rtt_tick` and
    /// `timer_wheel`. To be said before [`Sender::open`].
    pub fn set_timer_phase(&mut self, phase: Span) {
        self.clock = clock(&self.config, phase);
        self.rtt_clock = TickClock::new(self.config.rto.rtt_tick, phase);
    }

    /// Connects; data written before or after flows as soon as the handshake allows.
    pub fn open(&mut self, now: Time, out: &mut Outputs) {
        if self.state != State::Closed {
            return;
        }
        self.counted_until = now;
        self.path.now = now;
        if self.config.connection.handshake {
            self.state = State::SynSent;
            self.send_syn(now, out);
        } else {
            self.state = State::Established;
            self.send_window = self.config.buffers.receive.get();
            self.ecn_ok = self.config.ecn.enabled;
            self.delivery.mark_app_limited(0);
            self.marks = (self.ecn_ok && self.config.ecn.echo == EcnEcho::Accurate).then(Marks::default);
            self.transmit(now, out);
        }
    }

    /// The application has `bytes` more to send; `u64::MAX`: it never runs out.
    pub fn write(&mut self, now: Time, bytes: u64, out: &mut Outputs) {
        if self.state == State::Established {
            self.note_application();
        }
        self.write_end = self.write_end.saturating_add(bytes).min(u64::MAX / 2);
        self.all_acked_notified = self.write_end == 1;
        self.count_until(now);
        if self.state == State::Established {
            self.restart_after_idle(now);
            self.transmit(now, out);
        }
    }

    /// No more will be written: FIN after the last byte. Without a handshake there is no FIN
    /// either.
    pub fn close(&mut self, now: Time, out: &mut Outputs) {
        self.closing = true;
        self.count_until(now);
        if self.state == State::Established {
            self.transmit(now, out);
            self.finish_if_done(out);
        }
    }

    /// The host's path has changed, as after a handover between access points.
    pub fn on_path_change(&mut self, now: Time) {
        self.count_until(now);
        self.cc.on_path_change(&mut self.window, &self.path);
    }

    /// Somebody outside bounds the window, in segments, until it says otherwise:
    /// `TCP_BPF_SNDCWND_CLAMP` of Linux. Never less than 1, and it only ever lowers what
    /// `max_cwnd` allows.
    pub fn set_cwnd_cap(&mut self, now: Time, cap: Option<u32>) {
        self.count_until(now);
        let most = self.config.cwnd.max;
        self.path.cwnd_clamp = cap.map_or(most, |cap| cap.min(most)).max(1);
        self.window.cwnd = self.window.cwnd.min(self.path.cwnd_clamp);
    }

    /// Loads what the next ACK needs and changes nothing: for a driver of many that knows whose
    /// turn comes soon.
    #[inline]
    pub fn prefetch(&self) {
        let hot = (self.window.cwnd, self.snd_una, self.rtt.srtt(), self.acks.duplicates, self.skb.size);
        let more = (self.state, self.ts_recent, self.counted_until, self.stats.rtt_count, self.stats.open_ns);
        // One of each of what lies further apart.
        let rest = (self.stats.cwnd_segment_ns, self.path.mss, self.reduction, self.owns_window, self.undo.is_some());
        prefetch((hot, more, rest, self.deadline(), self.delivery.total(), self.config.mss()));
        prefetch(self.board.front().map(|segment| segment.number));
    }

    /// When [`Self::on_deadline`] is to be called; never: not at all.
    pub fn deadline(&self) -> Time {
        self.timers.deadline().min(self.pacer.deadline())
    }

    /// The window, which the congestion control sets.
    pub fn window(&self) -> &Window {
        &self.window
    }
    /// The state that the congestion control reads besides the window, as of the last call.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The counters; those over time as of the last call.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }
    /// The counters as they stand at `now`, which is not before the last call.
    pub fn stats_at(&self, now: Time) -> SenderStats {
        let (open, cwnd) = self.uncounted(now);
        SenderStats {
            open_ns: self.stats.open_ns + open.as_ns(),
            cwnd_segment_ns: self.stats.cwnd_segment_ns + cwnd,
            ..self.stats
        }
    }

    /// Since the counters were last brought up to date: time open, and cwnd over it.
    fn uncounted(&self, now: Time) -> (Span, u128) {
        if !matches!(self.state, State::SynSent | State::Established) {
            return (Span::ZERO, 0);
        }
        let span = now.since(self.counted_until);
        (span, u128::from(self.window.cwnd) * u128::from(span.as_ns()))
    }

    /// Before anything changes at `now`.
    #[inline]
    fn count_until(&mut self, now: Time) {
        let (open, cwnd) = self.uncounted(now);
        self.stats.open_ns += open.as_ns();
        self.stats.cwnd_segment_ns += cwnd;
        self.counted_until = now;
        self.path.now = now;
    }

    /// Nothing is left to send or to be acknowledged.
    pub fn is_idle(&self) -> bool {
        self.snd_nxt >= self.write_end && self.board.is_empty()
    }

    /// Offsets of the oldest byte that is not acknowledged, and of the next that was never sent.
    pub fn outstanding(&self) -> (u64, u64) {
        (self.snd_una, self.snd_nxt)
    }

    /// Smoothed round-trip time, if measured.
    pub fn srtt(&self) -> Option<Span> {
        Some(self.rtt.srtt()).filter(|s| !s.is_zero())
    }
    /// True once the connection is over: closed cleanly or given up.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// A packet of the receiver arrived.
    pub fn on_packet(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        self.count_until(now);
        match self.state {
            State::Closed => {}
            State::SynSent => {
                if p.has(TcpFlags::SYN | TcpFlags::ACK) && p.ack == Seq32(1) {
                    self.on_syn_ack(now, p, out);
                }
            }
            State::Established => {
                if p.has(TcpFlags::SYN) {
                    // Our ACK of the SYN-ACK was lost.
                    self.answer_out_of_window(now, out);
                } else if p.has(TcpFlags::ACK) {
                    self.on_ack(now, p, out);
                }
            }
            State::Done => {
                if p.has(TcpFlags::FIN) {
                    self.send_pure_ack(now, out);
                }
            }
        }
    }

    /// The deadline is reached; early calls do no harm.
    pub fn on_deadline(&mut self, now: Time, out: &mut Outputs) {
        self.count_until(now);
        let due = self.timers.due(now);
        let is_paced = now >= self.pacer.deadline();
        match due {
            Some(Pending::Timeout) if self.state == State::SynSent => self.on_syn_timeout(now, out),
            Some(Pending::Timeout) => self.on_rto(now, out),
            Some(Pending::TailLossProbe) => self.on_tail_loss_probe_due(now, out),
            Some(Pending::Reordering) => self.judge_late_segments(now, out),
            None => {}
        }
        if now >= self.timers.persist {
            self.on_persist(now, out);
        }
        if self.state == State::Established && (!self.waits_for_ack || self.cc.sends_new_data_after_timeout()) {
            if is_paced {
                self.transmit_on(now, out);
            } else {
                self.transmit(now, out);
            }
        }
        if due == Some(Pending::Reordering) && self.timers.waits_for(Pending::Reordering) {
            self.set_timeout(now);
        }
    }

    /// Segments that the peer has told to have come marked (Accurate ECN).
    pub(super) fn marks_reported(&self) -> u64 {
        self.marks.map_or(0, |marks| marks.in_all)
    }

    /// Takes each ACK step by step; for tests.
    #[cfg(test)]
    pub(super) fn expect_nothing(&mut self) {
        self.expects = false;
    }

    /// New packets count as limited by the application; for tests.
    #[cfg(test)]
    pub(super) fn is_app_limited(&self) -> bool {
        self.delivery.is_app_limited()
    }

    /// Checks the counts behind `in_flight`; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.board.check();
        assert!(self.window.cwnd >= 1 && self.snd_una <= self.snd_nxt);
    }

    // ---- set-up and close
    // -------------------------------------------------------------------------------------------

    fn send_syn(&mut self, now: Time, out: &mut Outputs) {
        let mut p = Packet::new(self.flow, Kind::Tcp, self.incarnation);
        p.flags = TcpFlags::SYN;
        if self.config.ecn.enabled && self.syn_sent == 0 {
            // All three flags ask for Accurate ECN, two for that of RFC 3168 (RFC 9768 section
            // 3.1.1).
            let ace = if self.config.ecn.echo == EcnEcho::Accurate { 7 } else { 3 };
            p.set_accurate_ecn(AccurateEcn { ace, ce_bytes: None });
        }
        p.size = self.config.syn_bytes();
        p.window = u32::from(saturate16(self.config.buffers.receive.get()));
        p.ts_val = timestamp(now, &self.config);
        out.packets.push(p);
        self.syn_sent += 1;
        self.last_sent_at = now;
        self.restart_timeout(now);
    }

    fn on_syn_timeout(&mut self, now: Time, out: &mut Outputs) {
        if self.syn_sent > self.config.timers.retries {
            return self.give_up(out);
        }
        self.rtt.back_off(&self.config);
        self.stats.timeouts += 1;
        self.send_syn(now, out);
    }

    // [RFC5681-3.1-3]
    fn on_syn_ack(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        self.state = State::Established;
        self.timers.stop_transmission();
        self.send_window = u64::from(p.window);
        self.agree_on_ecn(p);
        self.ts_recent = p.ts_val;
        self.rtt.reset_backoff();
        // The SYN counts as delivered (Linux 6.12, `tcp_clean_rtx_queue`), and controls compare the
        // count with windows.
        self.delivery.on_delivered(now, 1);
        self.delivery.mark_app_limited(0);
        if self.syn_sent == 1 {
            self.on_rtt(self.last_sent_at, now, true);
        } else {
            if !(self.config.rto.rtt_per_segment && self.sample_echo(now, p)) {
                self.rtt.fall_back(&self.config);
            }
            // RFC 5681 section 3.1: one segment after a lost SYN.
            // [RFC5681-3.1-4]
            self.window.cwnd = 1;
            self.window.ssthresh = self.window.ssthresh.min(self.config.cwnd.ssthresh_after_lost_syn.max(2));
        }
        out.notices.push(Notice::Established);
        self.cc.on_established(&mut self.window, &self.path);
        // RFC 9293 section 3.10.7.3. Data may go with this ACK only if it was queued before (Linux
        // 6.12, net/ipv4/tcp_input.c, `tcp_rcv_synsent_state_process`: with no `sk_write_pending`
        // tcp_send_ack).
        if self.config.connection.handshake_ack {
            self.send_pure_ack(now, out);
        }
        self.transmit(now, out);
        if self.board.is_empty() && !self.config.connection.handshake_ack {
            self.send_pure_ack(now, out);
        }
        self.finish_if_done(out);
    }

    /// An ACK within a window below what is acknowledged is merely late. One further below may be a
    /// blind attack: it is answered, and nothing else happens (RFC 5961 section 5; `tcp_ack`,
    /// net/ipv4/tcp_input.c of Linux 6.12).
    #[cold]
    fn is_too_old(&mut self, now: Time, number: u64, out: &mut Outputs) -> bool {
        let acknowledged = self.snd_una - 1;
        let window = self.largest_window.max(self.send_window).min(acknowledged);
        let is_too_old = number < self.snd_una - window && !self.config.receiver.invalid_ratelimit.is_zero();
        if is_too_old {
            self.answer_out_of_window(now, out);
        }
        is_too_old
    }

    pub(super) fn answer_out_of_window(&mut self, now: Time, out: &mut Outputs) {
        if self.out_of_window.answers(now, self.config.receiver.invalid_ratelimit) {
            self.send_pure_ack(now, out);
        }
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
        p.flags |= TcpFlags::ACK;
        if self.marks.is_some() {
            p.set_accurate_ecn(Marks::OF_NONE);
            // With Accurate ECN all packets after the handshake can be marked, repeated data and
            // pure ACKs, too (Linux since 6.18, include/net/tcp_ecn.h, `tcp_ecn_send`).
            p.ecn = self.config.ecn.capable();
        }
        p.ack = Seq32::from_offset(1 + u64::from(self.peer_fin));
        p.window = saturate32(self.config.buffers.receive.get());
        if self.config.timestamps.enabled {
            p.ts_val = timestamp(now, &self.config);
            p.ts_ecr = self.ts_recent;
        }
    }

    fn give_up(&mut self, out: &mut Outputs) {
        self.state = State::Done;
        self.timers = Timers::STOPPED;
        self.pacer.stop();
        out.notices.push(Notice::TimedOut);
    }

    fn finish_if_done(&mut self, out: &mut Outputs) {
        if !self.all_acked_notified && self.snd_una >= self.write_end {
            self.all_acked_notified = true;
            out.notices.push(Notice::AllAcked);
        }
        let over = if self.config.connection.handshake {
            self.peer_fin && self.snd_una > self.write_end
        } else {
            self.closing && self.snd_una >= self.write_end
        };
        if over && self.state == State::Established {
            self.state = State::Done;
            self.timers = Timers::STOPPED;
            self.pacer.stop();
            out.notices.push(Notice::Closed);
        }
    }
}
