//! The receiving end of a connection: answers the set-up, acknowledges, advertises its window,
//! closes.
//!
//! With `acks_per_rtt` it acknowledges as rarely as TACK does (Li et al., "TACK: Improving wireless
//! transport performance by taming acknowledgments", SIGCOMM 2020): at most `min(bw / (L * MSS),
//! beta / RTT_min)` times a second, where L is `ack_every` (there 2) and beta is `acks_per_rtt`
//! (there 4). Some events are still acknowledged at once (the paper's IACK). They are a segment out
//! of order, a hole filled, data that came twice, an end, a window that opens. Not here: TACK's
//! changes at the sender and in the ACKs. These are loss and delay reports of the receiver,
//! pull-based loss recovery, and a sender paced by the rate that the receiver reports. RTT_min is
//! the receiver's own, from the echoed timestamps (as for the receive buffer), not the sender's. No
//! ACK waits longer than `delayed_ack`, which bounds the thinning where RTT_min / beta is longer. A
//! sender with so few ACKs sends in bursts, as much as each of them frees, and should pace. A
//! sender that counts ACKs grows its window more slowly. With a window or buffer of one
//! bandwidth-delay product the sender stalls for up to 1 / beta of the round trip. It needs as much
//! more.

mod compression;
mod driver;
mod echo;
mod out_of_order;
mod quick_acks;
mod right_sizing;

use std::sync::Arc;

use self::compression::Compression;
use self::echo::{Echo, Wish};
use self::out_of_order::OutOfOrder;
use self::quick_acks::QuickAcks;
use self::right_sizing::RightSizing;
use super::out_of_window::OutOfWindow;
use super::ticks::TickClock;
use super::{Outputs, Recovery, TcpConfig, paws, timestamp};
use crate::convert::{saturate16, saturate32};
use crate::packet::{Ecn, FlowId, Kind, MAX_SACK, MAX_SACK_WITH_TS, Packet, SackBlock, TcpFlags};
use crate::prefetch::prefetch;
use crate::units::{DataRate, Seq32, Span, Time};

/// Counters since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Data segments that arrived, duplicates included.
    pub segments_received: u64,
    /// Payload bytes received in order, ready for the application.
    pub bytes_delivered: u64,
    /// Data segments all of whose bytes had arrived before.
    pub segments_duplicate: u64,
    /// Payload bytes that had arrived before.
    pub bytes_duplicate: u64,
    /// Payload bytes discarded: beyond the window, or with a timestamp from before.
    pub bytes_refused: u64,
    /// Packets without payload that acknowledge, those of set-up and close included.
    pub acks_sent: u64,
    /// Segments that arrived with the ECN mark CE.
    pub ce_received: u64,
}

/// Pieces of data beside its head that an skb holds (include/linux/skbuff.h, the default of
/// CONFIG_MAX_SKB_FRAGS).
const MAX_SKB_FRAGS: u64 = 17;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Listen,
    SynReceived,
    Established,
    /// The peer's FIN has been answered with ours.
    LastAck,
    Closed,
}

/// The receiving end of a connection.
#[derive(Debug)]
pub struct Receiver {
    rcv_nxt: u64,
    /// Right edge of what has been advertised; never moves left.
    right_edge: u64,
    state: State,
    /// Segments in order that no ACK covers yet.
    unacked_segments: u32,
    quick: QuickAcks,
    /// The next ACK leaves at once (ICSK_ACK_NOW).
    ack_now: bool,
    ack_at: Time,
    /// Clock at whose ticks delayed ACKs leave.
    clock: TickClock,
    /// Range that arrived twice, for the next ACK to report (RFC 2883).
    duplicate: Option<(u64, u64)>,
    ts_recent: u32,
    last_ack_sent: u64,
    last_ack_at: Time,
    /// Least round trip seen in echoed timestamps; counts with `acks_per_rtt`.
    rtt_min: Option<Span>,
    echo: Echo,
    out_of_order: OutOfOrder,
    compression: Compression,
    out_of_window: OutOfWindow,
    /// When the only SYN-ACK left.
    syn_ack_at: Option<Time>,
    fin_at: Option<u64>,
    buffer: u64,
    /// Largest window to advertise, with `receive_window_in_steps` (`rcv_ssthresh` of Linux).
    window: u64,
    read_rate: Option<DataRate>,
    /// The application reads by [`Receiver::read`] alone.
    reads_by_calls: bool,
    /// It answers what it reads: an ACK waits for the answer (`inet_csk_in_pingpong_mode`).
    answers: bool,
    /// Bytes the application has read by `read_at`.
    read: u64,
    read_at: Time,
    /// A poll of the interface goes on, and the application reads when it is over.
    in_poll: bool,
    window_update_at: Time,
    sizing: RightSizing,
    control_at: Time,
    control_tries: u32,
    fin_sent: bool,
    flow: FlowId,
    incarnation: u8,
    config: Arc<TcpConfig>,
    stats: ReceiverStats,
}

fn clock(config: &TcpConfig, phase: Span) -> TickClock {
    match config.timers.wheel && config.timers.delayed_ack_tick.is_zero() {
        true => TickClock::wheel(config.rto.granularity, phase),
        false => TickClock::new(config.timers.delayed_ack_tick, phase),
    }
}

impl Receiver {
    /// Listens. `incarnation`: as in [`Packet::new`].
    pub fn new(flow: FlowId, incarnation: u8, config: Arc<TcpConfig>) -> Receiver {
        let buffer = config.buffers.payload(config.buffers.receive);
        let window = match config.receiver.window_in_steps {
            // The largest window that a SYN can carry, in whole segments
            // (tcp_select_initial_window).
            true => buffer.min(u64::from(u16::MAX) / u64::from(config.mss()) * u64::from(config.mss())),
            false => u64::MAX,
        };
        Receiver {
            rcv_nxt: 1,
            right_edge: 1 + buffer.min(window),
            state: if config.connection.handshake { State::Listen } else { State::Established },
            unacked_segments: 0,
            quick: QuickAcks::new(&config),
            ack_now: false,
            ack_at: Time::NEVER,
            clock: clock(&config, Span::ZERO),
            duplicate: None,
            ts_recent: 0,
            last_ack_sent: 1,
            last_ack_at: Time::ZERO,
            rtt_min: None,
            echo: Echo::new(&config),
            out_of_order: OutOfOrder::default(),
            compression: Compression::default(),
            out_of_window: OutOfWindow::default(),
            syn_ack_at: None,
            fin_at: None,
            buffer,
            window,
            read_rate: None,
            reads_by_calls: false,
            answers: false,
            read: 1,
            read_at: Time::ZERO,
            in_poll: false,
            window_update_at: Time::NEVER,
            sizing: RightSizing::new(buffer.min(u64::from(config.cwnd.initial) * u64::from(config.mss()))),
            control_at: Time::NEVER,
            control_tries: 0,
            fin_sent: false,
            flow,
            incarnation,
            config,
            stats: ReceiverStats::default(),
        }
    }

    /// When the first tick of the host's timers falls; counts with `delayed_ack_tick` and
    /// `timer_wheel`. To be said before the first packet.
    pub fn set_timer_phase(&mut self, phase: Span) {
        self.clock = clock(&self.config, phase);
    }

    /// The application reads no faster than this; `None`: at once.
    pub fn set_read_rate(&mut self, now: Time, rate: Option<DataRate>) {
        self.advance_reader(now);
        self.read_rate = rate;
        self.read_at = now;
    }

    /// Loads what the next segment needs and changes nothing; see [`super::Sender::prefetch`].
    #[inline]
    pub fn prefetch(&self) {
        let hot = (self.rcv_nxt, self.right_edge, self.quick.last_data(), self.buffer, self.read_at);
        let more = (self.stats.segments_received, self.out_of_order.first(), self.syn_ack_at, self.incarnation);
        prefetch((hot, more, self.compression.echoed(), self.deadline(), self.config.mss()));
    }

    /// When [`Self::on_deadline`] is to be called; never: not at all.
    pub fn deadline(&self) -> Time {
        self.ack_at.min(self.control_at).min(self.window_update_at)
    }

    /// The counters.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Offset of the next byte that it waits for; a FIN counts as one.
    pub fn next(&self) -> u64 {
        self.rcv_nxt
    }

    /// All bytes of `start..end` have arrived; offsets as in [`super::Retransmission`].
    pub fn holds(&self, start: u64, end: u64) -> bool {
        end <= self.rcv_nxt || {
            let start = start.max(self.rcv_nxt);
            self.out_of_order.holds(start, end)
        }
    }

    /// Closed, or given up.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// A packet of the sender arrived.
    #[inline]
    pub fn on_packet(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        self.on_merged(now, p, (1, p.len), false, out);
    }

    /// So many segments, which follow each other, came up as one packet. All but the last have
    /// `segment_len` bytes. `more`: other data of the connection comes up in the same poll.
    pub fn on_merged(
        &mut self,
        now: Time,
        p: &Packet,
        (segments, segment_len): (u16, u16),
        more: bool,
        out: &mut Outputs,
    ) {
        self.in_poll = more && self.config.receiver.window_in_steps && self.config.receiver.acks_per_rtt == 0;
        if p.has(TcpFlags::SYN) {
            return self.on_syn(now, p, out);
        }
        match self.state {
            State::Listen => return,
            State::SynReceived => {
                self.state = State::Established;
                self.control_at = Time::NEVER;
                self.control_tries = 0;
                // Once the SYN-ACK was repeated, the timestamp tells (`tcp_synack_rtt_meas`).
                let rtt = self.syn_ack_at.take().map(|at| now.since(at)).or_else(|| self.echoed_rtt(now, p));
                if let Some(rtt) = rtt {
                    self.compression.on_handshake(rtt);
                    self.quick.on_handshake(rtt, &self.config);
                }
            }
            State::LastAck if p.has(TcpFlags::ACK) && p.ack.to_offset(1) >= 2 => {
                self.state = State::Closed;
                self.control_at = Time::NEVER;
            }
            _ => {}
        }
        let start = p.seq.to_offset(self.rcv_nxt);
        let fin = p.has(TcpFlags::FIN);
        if paws::is_outdated(p, self.ts_recent) {
            return self.discard_outdated(now, p, segments, start, out);
        }
        if p.len > 0 || fin {
            return self.on_data(now, p, (segments, segment_len), start, fin, out);
        }
        // An ACK without data tells a timestamp, too: that of the handshake is the first.
        if start == self.last_ack_sent {
            self.note_timestamp(p);
        }
        if start < self.last_ack_sent || (start < self.rcv_nxt && !self.limits_answers()) {
            // Below the window: a window probe or a keep-alive wants an answer (RFC 9293 section
            // 3.10.7.4). An ACK that is due anyway answers it, too (`tcp_sequence`).
            self.answer_out_of_window(now, out);
        }
    }

    /// The deadline is reached; early calls do no harm.
    pub fn on_deadline(&mut self, now: Time, out: &mut Outputs) {
        if now >= self.ack_at {
            if !self.compression.is_waiting() {
                self.quick.on_missed(self.answers);
                self.answers = false;
            }
            self.send_ack(now, out);
        }
        if now >= self.window_update_at {
            self.window_update_at = Time::NEVER;
            self.send_ack(now, out);
        }
        if now >= self.control_at {
            self.control_tries += 1;
            if self.control_tries > self.config.timers.retries.min(15) {
                self.state = State::Closed;
                self.control_at = Time::NEVER;
            } else if self.state == State::SynReceived {
                self.send_syn_ack(now, out);
            } else {
                self.send_ack(now, out);
            }
        }
    }

    /// `tcp_replace_ts_recent`.
    #[inline]
    fn note_timestamp(&mut self, p: &Packet) {
        if paws::is_current(p, self.ts_recent) {
            self.ts_recent = p.ts_val;
        }
    }

    /// `tcp_validate_incoming`, `tcp_send_dupack`.
    #[cold]
    fn discard_outdated(&mut self, now: Time, p: &Packet, segments: u16, start: u64, out: &mut Outputs) {
        if p.len == 0 {
            if start != self.rcv_nxt || !paws::is_late(p, self.ts_recent, self.config.rto.initial) {
                self.answer_out_of_window(now, out);
            }
            return;
        }
        let end = start + u64::from(p.len);
        let known = self.rcv_nxt.min(end).saturating_sub(start);
        self.stats.segments_received += u64::from(segments);
        self.stats.bytes_duplicate += known;
        self.stats.bytes_refused += u64::from(p.len) - known;
        self.stats.segments_duplicate += if end <= self.rcv_nxt { u64::from(segments) } else { 0 };
        if start < self.rcv_nxt {
            self.enter_quick_acks(u32::MAX);
            self.duplicate = Some((start, self.rcv_nxt.min(end)));
        }
        self.send_ack(now, out);
    }

    // ---- set-up and close
    // -------------------------------------------------------------------------------------------

    fn on_syn(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        match self.state {
            State::Listen | State::SynReceived => {
                self.state = State::SynReceived;
                self.ts_recent = p.ts_val;
                self.echo.agree(p, &self.config);
                self.send_syn_ack(now, out);
            }
            _ => self.answer_out_of_window(now, out),
        }
    }

    fn limits_answers(&self) -> bool {
        !self.config.receiver.invalid_ratelimit.is_zero()
    }

    fn answer_out_of_window(&mut self, now: Time, out: &mut Outputs) {
        if self.out_of_window.answers(now, self.config.receiver.invalid_ratelimit) {
            self.send_ack(now, out);
        }
    }

    fn send_syn_ack(&mut self, now: Time, out: &mut Outputs) {
        let mut p = self.packet(now);
        p.seq = Seq32(0);
        p.ack = Seq32(1);
        p.flags = TcpFlags::SYN | TcpFlags::ACK;
        self.echo.answer(&mut p);
        p.size = self.config.syn_bytes();
        p.window = u32::from(saturate16(self.buffer.min(self.window))); // unscaled in a SYN (RFC 7323 section 2.2)
        out.packets.push(p);
        // Once it was sent again, nothing tells which one is answered.
        self.syn_ack_at = (self.control_at.is_never() && self.control_tries == 0).then_some(now);
        self.control_at = now + self.backed_off_rto();
    }

    fn backed_off_rto(&self) -> Span {
        self.config.rto.initial.saturating_mul(1 << self.control_tries.min(16)).min(self.config.rto.max)
    }

    fn packet(&self, now: Time) -> Packet {
        let mut p = Packet::new(self.flow, Kind::Tcp, self.incarnation);
        p.set_reverse();
        if self.config.timestamps.enabled {
            p.ts_val = timestamp(now, &self.config);
            p.ts_ecr = self.ts_recent;
        }
        p
    }

    // ---- data
    // -------------------------------------------------------------------------------------------------------

    /// In-order payload bytes end here (a FIN occupies one number more).
    fn data_end(&self) -> u64 {
        self.rcv_nxt - u64::from(self.fin_at.is_some_and(|f| self.rcv_nxt > f))
    }

    // [RFC5681-4.2-5]
    fn on_data(
        &mut self,
        now: Time,
        p: &Packet,
        (segments, segment_len): (u16, u16),
        start: u64,
        fin: bool,
        out: &mut Outputs,
    ) {
        // Nearly always nothing came twice, and a division takes long.
        let whole = |bytes: u64| if bytes == 0 { 0 } else { bytes.checked_div(u64::from(segment_len)).unwrap_or(0) };
        let end = start + u64::from(p.len);
        self.stats.segments_received += if p.len > 0 { u64::from(segments) } else { 0 };
        let wish = self.note_ecn(now, p, segments, out);
        if p.len > 0 && end >= self.last_ack_sent {
            self.quick.schedule();
        }
        // RFC 7323 section 4.3: the echo is that of the segment at the left edge of what the next
        // ACK
        // covers. A segment that lies wholly below it had been acknowledged. It is not acceptable
        // (section 5.3 R2), and its echo would tell the sender that the repetition had been needed.
        let is_acceptable = start <= self.last_ack_sent && end + u64::from(fin) >= self.last_ack_sent;
        if is_acceptable {
            self.note_timestamp(p);
        }
        if fin {
            self.fin_at = Some(end);
        }
        // Data that came twice is reported by the next ACK or never (tcp_data_queue).
        self.duplicate = None;
        if end + u64::from(fin) <= self.rcv_nxt {
            self.stats.bytes_duplicate += u64::from(p.len);
            self.stats.segments_duplicate += if p.len > 0 { u64::from(segments) } else { 0 };
            self.enter_quick_acks(u32::MAX);
            // [RFC2883-4-1]
            self.duplicate = Some((start, end)).filter(|_| p.len > 0);
            return self.send_ack(now, out);
        }
        if start >= self.right_edge && p.len > 0 {
            self.stats.bytes_refused += u64::from(p.len);
            self.enter_quick_acks(u32::MAX);
            return self.send_ack(now, out);
        }
        if self.config.receiver.window_in_steps || self.config.receiver.compressed_sacks > 0 {
            self.measure_round_trip(now, p);
        }
        if start > self.rcv_nxt {
            self.duplicate = self.out_of_order.overlap(start, end);
            if self.compresses() {
                self.before_compression(start, end, now, out);
            }
        }
        if p.len > 0 {
            self.quick.measure(p, segment_len, self.config.mss());
            if start <= self.rcv_nxt {
                self.quick.on_data(now, self.right_edge - self.last_ack_sent);
            }
        }
        match wish {
            Wish::None => {}
            Wish::OneAck => self.ack_now = true,
            Wish::TwoAcks => self.enter_quick_acks(2),
        }
        // Without SACK an ACK above a hole keeps its window, so that it counts as a duplicate
        // (tcp_data_queue_ofo).
        let is_dropped = start > self.rcv_nxt && self.duplicate == Some((start, end));
        let with_sack = self.config.loss_recovery.recovery == Recovery::Sack;
        if (start <= self.rcv_nxt || with_sack) && !is_dropped {
            self.grow_window(p.len, start <= self.rcv_nxt);
        }
        if start > self.rcv_nxt {
            let kept = self.out_of_order.insert(start, end);
            let known = u64::from(p.len) - kept;
            self.stats.bytes_duplicate += known;
            if kept > 0 {
                self.stats.segments_duplicate += whole(known);
            } else if p.len > 0 {
                self.stats.segments_duplicate += u64::from(segments);
            }
            self.make_room_above();
            return self.acknowledge_hole(now, false, out);
        }
        let fills_hole = !self.out_of_order.is_empty();
        let known = self.rcv_nxt.saturating_sub(start);
        self.stats.bytes_duplicate += known;
        self.stats.segments_duplicate += whole(known);
        if start < self.rcv_nxt {
            // [RFC2883-4-3]
            self.duplicate = Some((start, self.rcv_nxt));
        }
        self.rcv_nxt = self.rcv_nxt.max(end);
        let filled = self.rcv_nxt;
        while let Some((s, e)) = self.out_of_order.take_in_order(self.rcv_nxt) {
            self.stats.bytes_duplicate += self.rcv_nxt.min(e) - s;
            // It covers what lay above the hole (`tcp_ofo_queue`).
            if s < filled && self.duplicate.is_none() {
                self.duplicate = Some((s, e.min(filled)));
            }
            self.rcv_nxt = self.rcv_nxt.max(e);
        }
        self.stats.bytes_delivered = self.rcv_nxt - 1;
        let mut fin_now = false;
        if self.fin_at == Some(self.rcv_nxt) {
            self.rcv_nxt += 1;
            fin_now = true;
        }
        // It looks before the application has read, and only in a poll or where a hole is left.
        let unread_now = self.in_poll || self.reads_by_calls;
        let keeps_window = (unread_now || !self.out_of_order.is_empty()) && self.keeps_window();
        self.advance_reader(now);
        if !self.in_poll {
            self.right_size(now, p, filled);
        }
        self.unacked_segments += u32::from(segments);
        if fin_now {
            self.fin_sent = true;
            self.state = State::LastAck;
            return self.send_ack(now, out);
        }
        let is_read = self.read == self.data_end();
        if !self.out_of_order.is_empty() && self.compresses() {
            self.acknowledge_hole(now, keeps_window, out);
            if is_read && self.is_due_when_read() {
                self.send_ack(now, out);
            }
            return;
        }
        // RFC 5681 section 4.2: at once when a hole is filled; at least every second full segment.
        // [RFC5681-3.2-2] [RFC5681-4.2-7]
        let at_once = fills_hole
            || self.ack_now
            || self.config.receiver.delayed_ack.is_zero()
            || !self.answers && self.quick.are_left()
            || is_read && self.is_pushed();
        // [RFC5681-4.2-3]
        if at_once || (self.owes_ack_of_several() && (!unread_now || keeps_window)) {
            if self.config.receiver.acks_per_rtt > 0 && self.postpones_ack(now, p, at_once) {
                return;
            }
            self.send_ack(now, out);
        } else if !self.in_poll {
            self.delay_ack(now, out);
        }
    }

    /// Linux counts bytes (`__tcp_ack_snd_check`), others segments.
    #[inline]
    fn owes_ack_of_several(&self) -> bool {
        let most = self.config.receiver.ack_every;
        match self.quick.is_linux() {
            true => self.rcv_nxt - self.last_ack_sent > self.quick.full_segment() * u64::from(most.saturating_sub(1)),
            false => self.unacked_segments >= most,
        }
    }

    /// Linux 6.18, net/ipv4/tcp.c, `__tcp_cleanup_rbuf`: the peer seems to have nothing more for
    /// now. With a bound on ACKs of its own a receiver is not Linux's.
    #[inline]
    fn is_pushed(&self) -> bool {
        self.quick.pushed && !self.answers && self.config.receiver.pushed_acks && self.config.receiver.acks_per_rtt == 0
    }

    /// The application has read all data at hand: whether that sends an ACK.
    #[inline]
    fn is_due_when_read(&self) -> bool {
        let owed = self.rcv_nxt - self.last_ack_sent;
        owed > 0 && (owed > self.quick.full_segment() || self.is_pushed())
    }

    /// `tcp_enter_quickack_mode`.
    fn enter_quick_acks(&mut self, most: u32) {
        self.quick.enter(most, self.right_edge - self.last_ack_sent);
        self.answers = false;
    }

    /// An ACK waits for more data, and no longer than one that waits already. If that is about to
    /// leave, it does (`tcp_send_delayed_ack`).
    // [RFC5681-4.2-1]
    #[inline]
    fn delay_ack(&mut self, now: Time, out: &mut Outputs) {
        let delay = self.delayed_ack();
        if self.ack_at.is_never() {
            self.ack_at = self.clock.after(now, delay);
        } else if self.quick.is_linux() {
            if self.ack_at <= now + delay.mul_ratio(1, 4) {
                return self.send_ack(now, out);
            }
            self.ack_at = self.ack_at.min(self.clock.after(now, delay));
        }
    }

    /// Linux 6.12, net/ipv4/tcp_input.c, `tcp_grow_window`.
    #[inline]
    fn grow_window(&mut self, len: u16, is_next: bool) {
        if self.window < self.buffer && (len >= 128 || !is_next) {
            // Data that came in order waits for the application when the window is computed.
            let waiting = self.data_end() - self.read + if is_next { u64::from(len) } else { 0 };
            let taken = waiting + self.out_of_order.bytes();
            let room = self.buffer.saturating_sub(taken).saturating_sub(self.window);
            if room > 0 {
                self.window += room.min(2 * u64::from(len).max(u64::from(self.config.mss())));
                if self.config.receiver.acks_per_rtt == 0 {
                    self.quick.add_one();
                }
            }
        }
    }

    /// Linux 6.12, net/ipv4/tcp_input.c, `__tcp_ack_snd_check`: while the application has not read,
    /// the second segment is acknowledged if the window need not shrink for that. Reading sends
    /// the ACK otherwise; above a hole it counts among those that are told at once.
    #[inline]
    fn keeps_window(&self) -> bool {
        let taken = self.data_end() - self.read + self.out_of_order.bytes();
        let room = self.buffer.saturating_sub(taken).min(self.window);
        room >= self.right_edge.saturating_sub(self.last_ack_sent)
    }

    /// With `acks_per_rtt`: whether the ACK that is due waits for its share of the round trip; then
    /// the timer is set.
    #[cold]
    fn postpones_ack(&mut self, now: Time, p: &Packet, at_once: bool) -> bool {
        if let Some(rtt) = self.echoed_rtt(now, p) {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
        }
        let Some(rtt) = self.rtt_min else { return false };
        let next = self.last_ack_at + rtt.mul_ratio(1, u64::from(self.config.receiver.acks_per_rtt));
        if at_once || now >= next {
            return false;
        }
        if self.ack_at.is_never() {
            self.ack_at = self.clock.after(now, self.delayed_ack());
        }
        self.ack_at = self.ack_at.min(next);
        true
    }

    /// ACKs that tell of data above a hole may wait. With a bound on ACKs of its own a receiver is
    /// not Linux's.
    #[inline]
    fn compresses(&self) -> bool {
        self.config.receiver.compressed_sacks > 0
            && self.config.receiver.acks_per_rtt == 0
            && self.config.loss_recovery.recovery == Recovery::Sack
    }

    /// A full segment's echo of a timestamp that no other has had (`tcp_rcv_rtt_measure_ts`).
    #[inline]
    fn measure_round_trip(&mut self, now: Time, p: &Packet) {
        if self.compression.is_new_echo(p.ts_ecr) && u32::from(p.len) >= self.config.mss() {
            if let Some(rtt) = self.echoed_rtt(now, p) {
                self.compression.on_echo(rtt);
            }
        }
    }

    /// `start..end` has come above a hole and is not in yet. The array of SACK blocks has room for
    /// two changes that no ACK has reported. A third change sends the waiting ACK, with what came
    /// twice (TCP_SACK_BLOCKS_EXPECTED).
    #[inline]
    fn before_compression(&mut self, start: u64, end: u64, now: Time, out: &mut Outputs) {
        if self.compression.is_waiting() && self.out_of_order.place(start, end) >= 2 {
            self.send_ack(now, out);
        }
    }

    /// Data lies above a hole, and the last segment changed that or came twice. `keeps_window`: it
    /// filled a part, and see there.
    // [RFC5681-3.2-1] [RFC5681-4.2-6]
    fn acknowledge_hole(&mut self, now: Time, keeps_window: bool, out: &mut Outputs) {
        let is_due = !self.compresses()
            || (keeps_window && self.rcv_nxt - self.last_ack_sent > self.quick.full_segment())
            || self.ack_now
            || !self.answers && self.quick.are_left();
        let until = match is_due {
            true => None,
            false => self.compression.put_off(
                now,
                self.rcv_nxt,
                self.config.receiver.compressed_sacks,
                self.config.receiver.compressed_sack_delay,
                self.config.receiver.compressed_sack_slack,
            ),
        };
        match until {
            Some(at) => self.ack_at = self.ack_at.min(at),
            None => self.send_ack(now, out),
        }
    }

    // [RFC5681-4.2-2] [RFC5681-4.2-4]
    fn delayed_ack(&self) -> Span {
        if !self.config.timers.delayed_ack_tick.is_zero() {
            self.config.timers.delayed_ack_tick
        } else if self.config.receiver.acks_per_rtt > 0 {
            self.config.receiver.delayed_ack
        } else {
            self.quick.delay(self.answers)
        }
    }

    fn note_ecn(&mut self, now: Time, p: &Packet, segments: u16, out: &mut Outputs) -> Wish {
        if p.ecn == Ecn::Ce {
            self.stats.ce_received += u64::from(segments);
        }
        let unacked = self.rcv_nxt > self.last_ack_sent;
        if unacked && self.echo.changes_with(p) {
            self.send_ack(now, out);
        }
        self.echo.take(p, segments)
    }

    // ---- window
    // -----------------------------------------------------------------------------------------------------

    #[inline]
    fn advance_reader(&mut self, now: Time) {
        match self.read_rate {
            None if self.in_poll || self.reads_by_calls => {}
            None => self.read = self.data_end(),
            Some(rate) => self.advance_slow_reader(now, rate),
        }
    }

    fn advance_slow_reader(&mut self, now: Time, rate: DataRate) {
        let end = self.data_end();
        let bytes = rate.bytes_in(now.since(self.read_at)).get();
        if self.read + bytes >= end {
            self.read = end;
            self.read_at = now;
        } else if bytes > 0 {
            self.read += bytes;
            // Keep the fraction of a byte that has not been counted.
            self.read_at += rate.time_for(bytes);
        }
    }

    /// RFC 9293 section 3.8.6.2.2: the right edge never moves left, and opens in steps worth
    /// sending.
    fn select_window(&mut self, now: Time) -> u64 {
        self.advance_reader(now);
        let unread = self.data_end() - self.read;
        // Data above a hole leaves less room (Linux, `tcp_space`); elsewhere its place has been
        // granted.
        let held = if self.config.receiver.window_in_steps { self.out_of_order.bytes() } else { 0 };
        let room = self.buffer.saturating_sub(unread + held);
        if self.config.receiver.window_in_steps && room < self.buffer / 2 {
            self.quick.clear();
        }
        let edge = self.rcv_nxt + room.min(self.window);
        let step = u64::from(self.config.mss()).min(self.buffer / 2);
        if edge >= self.right_edge + step || (edge > self.right_edge && unread == 0) {
            self.right_edge = edge;
        }
        let window = self.right_edge.saturating_sub(self.rcv_nxt);
        self.window_update_at = Time::NEVER;
        if let Some(rate) = self.read_rate.filter(|_| window < step) {
            // Tell the sender once the application has read enough to open the window again.
            let wanted = (self.right_edge + step).saturating_sub(edge);
            self.window_update_at = now + rate.time_for(wanted.max(1));
        }
        window
    }

    /// A segment that ends at `filled` came in order, and with it all up to `rcv_nxt`.
    fn right_size(&mut self, now: Time, p: &Packet, filled: u64) {
        let most = self.config.buffers.payload(self.config.buffers.receive_max);
        if self.buffer >= most {
            return;
        }
        if self.config.receiver.window_in_steps {
            let rtt = match self.config.timestamps.enabled {
                true => self.compression.echoed().unwrap_or(Span::ZERO),
                false => self.sizing.measure_window(now, self.rcv_nxt, self.right_edge),
            };
            let end = self.data_end();
            // An skb takes in others as long as it has room for their data (`skb_try_coalesce`).
            let above = end - filled.min(end);
            let first = if above < MAX_SKB_FRAGS * u64::from(self.config.mss()) { end } else { filled };
            if let Some(wanted) = self.sizing.on_read(now, rtt, first, end) {
                let above = self.out_of_order.end().map_or(0, |above| above - self.rcv_nxt);
                self.buffer = self.buffer.max((wanted + above).min(most));
            }
            return;
        }
        let echoed = if self.config.timestamps.enabled { self.echoed_rtt(now, p) } else { None };
        let wanted = self.sizing.on_data(now, echoed, self.rcv_nxt, self.right_edge, self.config.mss());
        if let Some(wanted) = wanted {
            self.buffer = self.buffer.max(wanted.min(most));
        }
    }

    /// Data came above a hole: the buffer is to have room for all that may lie between, too
    /// (`tcp_rcvbuf_grow` in `tcp_data_queue_ofo`, since 6.17).
    fn make_room_above(&mut self) {
        let most = self.config.buffers.payload(self.config.buffers.receive_max);
        if self.config.receiver.window_in_steps && self.buffer < most {
            if let Some(end) = self.out_of_order.end() {
                self.buffer = self.buffer.max(self.sizing.with_data_above(end - self.rcv_nxt).min(most));
            }
        }
    }

    /// The round trip that the echo in a packet shows, if it has one; at least a tick.
    fn echoed_rtt(&self, now: Time, p: &Packet) -> Option<Span> {
        let ticks = timestamp(now, &self.config).wrapping_sub(p.ts_ecr);
        (p.ts_ecr != 0).then(|| self.config.timestamps.tick.saturating_mul(u64::from(ticks.max(1))))
    }

    fn send_ack(&mut self, now: Time, out: &mut Outputs) {
        let p = out.begin(self.packet(now));
        p.flags = TcpFlags::ACK;
        if self.echo.marks_acks() {
            p.ecn = self.config.ecn.capable();
        }
        p.size = self.config.header_bytes();
        p.seq = Seq32(1);
        if self.fin_sent {
            if self.state == State::LastAck {
                p.flags |= TcpFlags::FIN;
                self.control_at = now + self.backed_off_rto();
            } else {
                p.seq = Seq32(2);
            }
        }
        p.ack = Seq32::from_offset(self.rcv_nxt);
        p.window = saturate32(self.select_window(now));
        // [RFC2883-4-2]
        let duplicate = self.duplicate.take().filter(|_| self.config.loss_recovery.dsack);
        if self.config.loss_recovery.recovery == Recovery::Sack
            && (duplicate.is_some() || !self.out_of_order.is_empty())
        {
            let most = if self.config.timestamps.enabled { MAX_SACK_WITH_TS } else { MAX_SACK };
            let wanted = most.min(usize::from(duplicate.is_some()) + self.out_of_order.newest_first().count());
            let most = self.echo.sack_blocks_beside(wanted, self.config.timestamps.enabled);
            let mut n = 0;
            if let Some((start, end)) = duplicate {
                p.push_sack(SackBlock { start: Seq32::from_offset(start), end: Seq32::from_offset(end) });
                n = 1;
            }
            // [RFC2883-4-5]
            for (s, e) in self.out_of_order.newest_first().take(most - usize::from(n)) {
                // A FIN above a hole has arrived like the data before it.
                let e = e + u64::from(self.fin_at == Some(e));
                p.push_sack(SackBlock { start: Seq32::from_offset(s), end: Seq32::from_offset(e) });
                n += 1;
            }
            p.size += 4 + 8 * n; // two bytes of option header, two of padding
        }
        p.size += self.echo.write_to(p, self.config.timestamps.enabled);
        self.last_ack_sent = self.rcv_nxt;
        self.last_ack_at = now;
        self.unacked_segments = 0;
        self.ack_now = false;
        self.quick.on_ack();
        self.ack_at = Time::NEVER;
        self.compression.on_ack();
        self.stats.acks_sent += 1;
    }
}

#[cfg(test)]
mod tests;
