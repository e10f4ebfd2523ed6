//! Processing of an ACK: the data that it covers, their round trip, and the reaction of the
//! congestion control.
//!
//! Not here: data from the peer. In Linux without SACK the first duplicate ACK after some counts as
//! a window update (`tcp_may_update_window`, net/ipv4/tcp_input.c of 6.12: its sequence number is
//! above that of the last update). Flows here carry data one way, so that number never moves.

use super::Sender;
use super::ack::Ack;
use super::frto::FrtoStep;
use super::timers::Pending;
use crate::convert::{saturate32, signed32};
use crate::packet::{MAX_SACK, Packet, TcpFlags};
use crate::tcp::cc::{AckSample, CaState};
use crate::tcp::delivery::NewestReported;
use crate::tcp::loss::Report;
use crate::tcp::scoreboard::{SegFlags, Segment};
use crate::tcp::{Outputs, Recovery, paws, timestamp};
use crate::units::{Span, Time};

impl Sender {
    /// Takes an ACK, step by step. Each step leaves its findings in `ack` for the following ones.
    /// An ACK without any of them takes the fast path, [`Self::on_expected_ack`].
    // [RFC6675-5-10]
    pub(super) fn on_ack(&mut self, now: Time, p: &Packet, out: &mut Outputs) {
        let number = p.ack.to_offset(self.snd_una);
        if paws::is_outdated(p, self.ts_recent) && !self.is_disordered(p, number) {
            return self.answer_out_of_window(now, out);
        }
        if number > self.snd_nxt {
            return; // acknowledges what was never sent (RFC 9293 section 3.10.7.4)
        }
        if number < self.snd_una && self.is_too_old(now, number, out) {
            return;
        }
        self.waits_for_ack = false;
        if self.is_expected(p, number) {
            return self.on_expected_ack(now, p, number, out);
        }
        let mut ack = self.begin_ack(now, p, number);
        self.take_send_window(p, number);
        // Newly arrived data.
        self.take_duplicate_sack(p, &mut ack);
        self.take_cumulative(&mut ack);
        self.take_sack(p, &mut ack);
        self.recognize_duplicate(p, &mut ack);
        self.take_delivery_credit(&mut ack);
        self.take_news(&mut ack);
        self.count_marks(p, &mut ack);
        ack.rtt = self.sample_rtt(p, &ack);
        ack.restarts_timer = if ack.advanced {
            self.on_advance(ack.acked, ack.retransmitted_data)
        } else {
            self.sack_restarts_timer(&ack)
        };
        self.count_duplicate(&ack);
        // Checks if the repair was right, and if it is over.
        let reneged = ack.advanced && self.board.is_reneged();
        ack.repairs_nothing = reneged;
        if let (Some(undo), Some(_)) = (&mut self.undo, ack.duplicate_sack) {
            undo.on_needless(ack.needless_repeats);
        }
        if ack.ece {
            self.prior_ssthresh = 0;
        }
        let frto = if reneged { FrtoStep::Usual } else { self.question_timeout(p, &mut ack) };
        self.settle_tail_loss_probe(&mut ack);
        let lost_before = self.board.lost_out();
        if !ack.repairs_nothing {
            self.finish_repair(&mut ack, frto);
        }
        if self.needs_every_ack && (ack.delivered > 0 || ack.advanced) {
            let sample = self.ack_sample(&ack);
            self.cc.pass_every_ack(&mut self.window, &self.path, &sample);
        }
        // Losses, and marks where there are none.
        if reneged {
            self.wait_for_sacks(now);
        } else {
            let waits = !ack.repairs_nothing && self.look_for_losses(&ack, frto, out);
            self.react_to_ecn(&ack);
            if ack.restarts_timer && !waits {
                self.set_transmission_timer(now);
            }
        }
        ack.lost = self.board.lost_out().saturating_sub(lost_before) + std::mem::take(&mut self.lost_again);
        // Segments that may leave now.
        self.outstanding_after_ack = self.board.packets_out();
        self.path.in_flight = self.in_flight();
        if frto == FrtoStep::Usual || self.path.state == CaState::Cwr {
            self.control_window(&ack);
        }
        self.waits_for_ack = ack.repairs_nothing;
        self.send_what_follows(&ack, out);
        self.waits_for_ack = false;
        self.finish_if_done(out);
        if p.has(TcpFlags::FIN) {
            self.send_pure_ack(now, out);
        }
    }

    /// The state before the ACK, and the peer's state as the header shows it.
    #[inline(always)]
    fn begin_ack(&mut self, now: Time, p: &Packet, number: u64) -> Ack {
        if p.has(TcpFlags::FIN) {
            self.peer_fin = true;
        }
        let newer_timestamp = self.note_timestamp(p);
        Ack {
            now,
            number,
            from: self.snd_una,
            advanced: number > self.snd_una,
            is_pure: p.len == 0,
            window_changed: u64::from(p.window) != self.send_window,
            ece: self.ecn_ok && p.has(TcpFlags::ECE),
            prior_in_flight: self.in_flight(),
            min_rtt: self.path.min_rtt,
            echo: if self.config.timestamps.enabled { p.ts_ecr } else { 0 },
            timestamp_tick: self.config.timestamps.tick,
            newer_timestamp,
            frto_limit: self.frto_limit(),
            newest: self.newest,
            rate: self.wants_rate.then(|| NewestReported::new(self.delivery.total())),
            ..Ack::default()
        }
    }

    /// True if it is newer than the last.
    #[inline]
    pub(super) fn note_timestamp(&mut self, p: &Packet) -> bool {
        if !self.config.timestamps.enabled || p.ts_val == 0 {
            return false;
        }
        let newer = signed32(p.ts_val.wrapping_sub(self.ts_recent)) > 0;
        if paws::is_current(p, self.ts_recent) {
            self.ts_recent = p.ts_val;
        }
        newer
    }

    /// A pure ACK that says nothing of the window and came late (`tcp_disordered_ack`): it is taken
    /// although its timestamp is outdated.
    #[cold]
    fn is_disordered(&self, p: &Packet, number: u64) -> bool {
        let window = u64::from(p.window);
        p.len == 0
            && !p.has(TcpFlags::FIN)
            && number == self.snd_una
            && (1..=self.send_window).contains(&window)
            && paws::is_late(p, self.ts_recent, self.rtt.rto(&self.config))
    }

    fn take_send_window(&mut self, p: &Packet, number: u64) {
        if number >= self.snd_una {
            if self.send_window == 0 && p.window > 0 {
                self.timers.persist = Time::NEVER;
                self.rtt.reset_backoff();
            }
            self.send_window = u64::from(p.window);
        }
    }

    fn take_cumulative(&mut self, ack: &mut Ack) {
        if ack.advanced {
            self.board.acknowledge(ack.number, |s, stamp| ack.take_covered(s, stamp));
            self.advance_to(ack.number);
        }
    }

    #[inline]
    pub(super) fn advance_to(&mut self, number: u64) {
        self.stats.bytes_acked += number.min(self.write_end) - self.snd_una.min(self.write_end);
        self.snd_una = number;
    }

    // [RFC6675-4-1] [RFC6675-5.1-4]
    fn take_sack(&mut self, p: &Packet, ack: &mut Ack) {
        if self.config.loss_recovery.recovery != Recovery::Sack {
            return;
        }
        let floor = self.snd_una;
        ack.echo = 0;
        // From below, as Linux sorts them (`tcp_sacktag_write_queue`): the newest block comes
        // first, and
        // one ACK that was put off may tell of what arrived before that. It has not been overtaken.
        let mut blocks = [(u64::MAX, 0); MAX_SACK];
        for (place, block) in blocks.iter_mut().zip(p.sack()) {
            *place = (block.start.to_offset(floor), block.end.to_offset(floor));
        }
        blocks[..p.sack().len()].sort_unstable();
        for &(start, end) in &blocks[..p.sack().len()] {
            if start >= floor && end > start && end <= self.snd_nxt {
                self.board.sack(start, end, |s, stamp| ack.take_sacked(s, stamp));
            }
        }
    }

    fn recognize_duplicate(&mut self, p: &Packet, ack: &mut Ack) {
        // [RFC5681-2-1]
        ack.duplicate = !ack.advanced
            && ack.number == self.snd_una
            && ack.is_pure
            && !self.board.is_empty()
            // [RFC5681-3.2-6]
            && if self.config.loss_recovery.recovery == Recovery::Sack {
                ack.delivered > 0
            } else {
                !ack.window_changed && !p.has(TcpFlags::FIN)
            };
    }

    /// Counts newly arrived data as delivered.
    fn take_news(&mut self, ack: &mut Ack) {
        self.newest = ack.newest;
        // SACKed data is taken before cumulatively acknowledged data (Linux 6.12,
        // net/ipv4/tcp_input.c, `tcp_ack`).
        if let Some(sent_at) = ack.last_covered.or(ack.last_sacked) {
            self.newest.last_rtt = ack.now.since(sent_at);
        }
        if self.config.loss_recovery.recovery != Recovery::Sack {
            self.infer_delivered(ack);
        }
        self.delivery.on_delivered(ack.now, ack.counted());
    }

    /// Takes what came twice, before anything else is looked at. With `delivery_credit` it counts
    /// as delivered once more, and a DSACK of more than was sent again says nothing: the
    /// network made the copy (Linux 6.12, net/ipv4/tcp_input.c, `tcp_dsack_seen`).
    /// Retransmissions that it shows to have been needless are those among the outstanding
    /// segments; of what is forgotten all counts (`tcp_check_dsack`).
    fn take_duplicate_sack(&mut self, p: &Packet, ack: &mut Ack) {
        if p.sack().is_empty() || self.config.loss_recovery.recovery != Recovery::Sack {
            return;
        }
        let Some((start, end)) = self.duplicate_sack(p) else { return };
        let mss = u64::from(self.path.mss);
        if self.config.cwnd.delivery_credit {
            ack.duplicates_delivered = self.acks.count_twice((start, end), mss, self.stats.segments_retransmitted);
            if ack.duplicates_delivered == 0 {
                return;
            }
        }
        ack.duplicate_sack = Some((start, end));
        ack.undo_marker = self.undo.map_or(u64::MAX, |undo| undo.marker());
        ack.needless_repeats = if end > ack.from {
            saturate32(
                self.board.within(start.max(ack.number), end).filter(|s| ack.is_needless_repeat(s)).count() as u64
            )
        } else if end > ack.undo_marker {
            saturate32((end - start).div_ceil(mss))
        } else {
            0
        };
        // It came before what was sent again, and was overtaken (`tcp_sacktag_one`).
        let overtaken = |s: &&Segment| s.has(SegFlags::SACKED) && s.has(SegFlags::EVER_RETRANSMITTED);
        if let Some(first) = self.board.within(start.max(ack.number), end).find(overtaken) {
            (ack.reordered, ack.overtaken_from) = (true, Some(first.start));
        }
    }

    /// The extent of reordering is kept.
    fn take_delivery_credit(&mut self, ack: &mut Ack) {
        if let Some(from) = ack.overtaken_from {
            self.note_reordering(from, ack);
        }
    }

    /// `tcp_check_sack_reordering`: what begins at `from` came after all else that has come.
    pub(super) fn note_reordering(&mut self, from: u64, ack: &Ack) {
        if !self.config.cwnd.delivery_credit {
            return;
        }
        let highest = match self.config.loss_recovery.recovery {
            Recovery::Sack => ack.newest.highest,
            // `tcp_highest_sack_seq`: no segment is known to be above the first.
            _ if self.is_newreno_of_linux() => self.snd_una,
            _ => return,
        };
        self.acks.note_reordering((from, highest), u64::from(self.path.mss));
    }

    // [RFC6675-5-2]
    fn count_duplicate(&mut self, ack: &Ack) {
        if ack.duplicate {
            self.stats.duplicate_acks += 1;
            if ack.delivered > 0 || !self.is_newreno_of_linux() {
                self.acks.on_duplicate(self.window.cwnd.min(self.send_window_segments()));
            }
        }
        if ack.duplicate || ack.delivered > 0 {
            self.newest.reported_at = ack.now;
        }
    }

    /// Was the last timeout or retransmission needed? (F-RTO, Eifel)
    fn question_timeout(&mut self, p: &Packet, ack: &mut Ack) -> FrtoStep {
        let frto = if self.frto.is_undecided() { self.on_undecided_ack(ack) } else { FrtoStep::Usual };
        if self.undo.is_some() && self.is_repairing() && ack.advanced && frto != FrtoStep::Undecided {
            ack.repairs_nothing = self.undo_if_spurious(p, ack);
        }
        if self.path.state == CaState::Loss && !ack.repairs_nothing {
            self.on_frto_ack(ack);
            if self.config.loss_recovery.recovery != Recovery::Sack {
                self.count_frto_duplicates(ack);
            }
        }
        frto
    }

    /// Ends what the ACK has finished, takes back what it shows to have been needless, and tells
    /// the loss policy.
    fn finish_repair(&mut self, ack: &mut Ack, frto: FrtoStep) {
        let was_repairing = self.is_repairing();
        if frto != FrtoStep::Undecided {
            ack.repairs_nothing |= self.leave_states();
        }
        let recovered = was_repairing && !self.is_repairing();
        if ack.duplicate_sack.is_some() {
            self.undo_if_needless(ack);
        }
        let duplicate_sack = ack.tells_of_needless();
        if ack.reordered || duplicate_sack || recovered {
            let (snd_una, snd_nxt) = (self.snd_una, self.snd_nxt);
            self.loss.on_report(&Report { reordered: ack.reordered, duplicate_sack, snd_una, snd_nxt, recovered });
        }
    }

    /// The ACK stops below a segment that the peer had SACKed. Until half a round trip has passed,
    /// 10 ms at least, further ACKs may show that it still has that segment. The timeout then
    /// forgets all SACKs. Linux, net/ipv4/tcp_input.c, `tcp_check_sack_reneging`, since 3.17;
    /// older kernels do not wait.
    fn wait_for_sacks(&mut self, now: Time) {
        let wait = self.rtt.srtt().mul_ratio(1, 2).max(SHORTEST_WAIT_FOR_SACKS);
        self.timers.set(Pending::Timeout, now + wait.round_up_to(self.config.rto.granularity));
    }

    /// True if the timer is set for segments that may only be late.
    fn look_for_losses(&mut self, ack: &Ack, frto: FrtoStep, out: &mut Outputs) -> bool {
        let looks =
            ack.duplicate || ack.delivered > 0 || self.path.state == CaState::Recovery || self.board.lost_out() > 0;
        frto != FrtoStep::Undecided && looks && self.detect_loss_after(ack, out)
    }

    fn send_what_follows(&mut self, ack: &Ack, out: &mut Outputs) {
        let sent_new = self.transmit(ack.now, out);
        if self.frto.defers_repair() {
            self.after_frto_transmit(ack.now, sent_new, out);
        }
    }

    /// RFC 2883 section 4: the first block reports a duplicate if it lies below the cumulative ACK
    /// or within the second.
    fn duplicate_sack(&mut self, p: &Packet) -> Option<(u64, u64)> {
        let ack = p.ack.to_offset(self.snd_una);
        let range = |i: usize| p.sack().get(i).map(|b| (b.start.to_offset(ack), b.end.to_offset(ack)));
        let (start, end) = range(0).filter(|_| self.config.loss_recovery.dsack)?;
        let is_below = end <= ack;
        // [RFC2883-4-6]
        let is_within = range(1).is_some_and(|(from, to)| from <= start && end <= to);
        (start < end && (is_below || is_within)).then(|| {
            self.stats.duplicate_sacks += 1;
            (start, end)
        })
    }

    /// Without SACK a duplicate ACK says that some segment arrived; the cumulative ACK that follows
    /// must not count it again.
    fn infer_delivered(&mut self, ack: &mut Ack) {
        if self.is_newreno_of_linux() {
            self.infer_delivered_as_linux(ack);
        } else if ack.duplicate {
            ack.delivered = 1;
            let place = self.acks.infer_one(self.board.packets_out());
            if let Some((sent_at, number)) = self.board.sent(place) {
                self.newest.note(ack.now, sent_at, number);
            }
        } else if ack.acked > 0 {
            ack.delivered = self.acks.newly_delivered(ack.acked);
        }
    }

    /// Linux, net/ipv4/tcp_input.c, `tcp_add_reno_sack` and `tcp_remove_reno_sacks`: a duplicate
    /// counts as long as a segment may have arrived that none has reported. It does not once all
    /// that a repair began with has been acknowledged, nor after a timeout before new data is out.
    fn infer_delivered_as_linux(&mut self, ack: &mut Ack) {
        let in_loss = self.path.state == CaState::Loss;
        let reported = self.reported_without_sack();
        if ack.duplicate {
            let (holes, out) = (self.board.lost_out().max(1), self.board.packets_out());
            let may_count =
                (!self.is_repairing() || self.snd_una < self.high_seq) && (!in_loss || self.snd_nxt > self.high_seq);
            let counts = may_count && reported + holes < out;
            if may_count && !counts {
                self.acks.reorders_by(out);
            }
            ack.delivered = u32::from(counts);
            if let Some((sent_at, number)) = self.board.sent(reported + 1).filter(|_| counts) {
                self.newest.note(ack.now, sent_at, number);
            }
        } else if ack.acked > 0 {
            ack.delivered = ack.acked.saturating_sub(reported).max(1);
        }
    }

    /// Segments that duplicate ACKs have reported and no cumulative ACK has covered.
    pub(super) fn reported_without_sack(&self) -> u32 {
        match self.path.state {
            _ if !self.is_newreno_of_linux() => self.acks.inferred(),
            CaState::Loss => self.frto_arrived,
            _ => self.acks.duplicates,
        }
    }

    /// In the network, as the sender can tell. Without SACK each duplicate ACK stands for a segment
    /// that has left it.
    // [RFC5681-3.2-5]
    pub(super) fn in_flight(&self) -> u32 {
        let pipe = self.board.pipe();
        if self.config.loss_recovery.recovery == Recovery::Sack {
            // Without limited transmit what was SACKed makes no room before a loss is found (RFC
            // 6675 section 5 step 3). [RFC6675-5-4]
            let waits = !self.config.loss_recovery.limited_transmit
                && matches!(self.path.state, CaState::Open | CaState::Disorder);
            return if waits { pipe + self.board.sacked_out() } else { pipe };
        }
        let left = match self.path.state {
            // [RFC5681-3.2-10]
            CaState::Recovery => self.acks.duplicates,
            CaState::Loss if !self.config.rto_recovery.limited_transmit => self.frto_arrived,
            _ if self.is_newreno_of_linux() => self.acks.duplicates,
            // RFC 3042: at most two segments beyond the window.
            // [RFC5681-3.2-4]
            _ if self.config.loss_recovery.limited_transmit => self.acks.duplicates.min(2),
            _ => 0,
        };
        pipe.saturating_sub(left)
    }

    /// Takes the round trip that the ACK measured for the timeout; returns that for the control,
    /// which is exact.
    // [RFC6298-3-1]
    fn sample_rtt(&mut self, p: &Packet, ack: &Ack) -> Option<Span> {
        let now = ack.now;
        if self.config.rto.rtt_per_segment && self.config.rto.rtt_from_sack {
            return self.sample_rtt_also_of_sacked(p, ack);
        }
        // Beside a retransmission an original may have waited for the hole below it (Karn's
        // problem).
        let exact = ack.newest_sent_at.filter(|_| !ack.retransmitted_data).map(|t| now.since(t));
        if self.config.rto.rtt_per_segment {
            if !ack.retransmitted_data {
                if let Some(oldest) = ack.oldest_sent_at {
                    self.on_rtt(oldest, now, ack.advanced);
                }
            } else if ack.advanced {
                self.sample_echo(now, p);
            }
        } else if let Some(sent_at) = self.timing.take_if_acknowledged(self.snd_una) {
            self.rtt.reset_backoff();
            self.on_rtt(sent_at, now, true);
        }
        if let Some(rtt) = exact {
            self.take_exact_rtt(rtt);
        }
        exact
    }

    fn take_exact_rtt(&mut self, rtt: Span) {
        self.path.min_rtt = self.path.min_rtt.min(rtt);
        self.stats.count_rtt(rtt);
        self.loss.on_rtt(rtt);
    }

    /// The same as Linux 6.12 does it (net/ipv4/tcp_input.c, `tcp_clean_rtx_queue` and
    /// `tcp_ack_update_rtt`). For the timeout the oldest counts of what was acknowledged,
    /// unless there was a repeated segment; else the oldest that was SACKed; else the timestamp of
    /// an ACK that advances. The control is told of the newest that was SACKed, or of the newest
    /// acknowledged, or of the timestamp.
    fn sample_rtt_also_of_sacked(&mut self, p: &Packet, ack: &Ack) -> Option<Span> {
        let now = ack.now;
        let acknowledged = ack.acknowledged_once.filter(|_| !ack.acknowledged_repeated);
        let Some((oldest, newest)) = acknowledged
            .map(|(oldest, newest)| (oldest, ack.sacked_once.map_or(newest, |sacked| sacked.1)))
            .or(ack.sacked_once)
        else {
            if !ack.advanced || !self.sample_echo(now, p) {
                return None;
            }
            // `tcp_rtt_tsopt_us`: a tick at least.
            let ticks = timestamp(now, &self.config).wrapping_sub(p.ts_ecr).max(1);
            return Some(self.config.timestamps.tick.saturating_mul(u64::from(ticks)));
        };
        Some(self.take_round_trips(now, oldest, newest))
    }

    /// When the segments were sent that tell the round trip for the timeout, and for the control.
    /// Returns the latter.
    #[inline]
    pub(super) fn take_round_trips(&mut self, now: Time, oldest: Time, newest: Time) -> Span {
        self.rtt.reset_backoff();
        self.on_rtt(oldest, now, true);
        let rtt = now.since(newest);
        self.take_exact_rtt(rtt);
        rtt
    }

    /// The round trip that a timestamp echo measures, also of what was sent again: Karn's problem
    /// does not arise with timestamps (RFC 7323 section 4). False: there is none.
    // [RFC6298-3-2]
    pub(super) fn sample_echo(&mut self, now: Time, p: &Packet) -> bool {
        if !self.config.timestamps.enabled || p.ts_ecr == 0 {
            return false;
        }
        let ticks = timestamp(now, &self.config).wrapping_sub(p.ts_ecr);
        if ticks >= 1 << 31 {
            return false;
        }
        let span = self.config.timestamps.tick.saturating_mul(u64::from(ticks)).max(Span::from_ns(1));
        self.sample_for_timeout(span, span.round_up_to(self.config.rto.rtt_tick));
        self.note_rtt(span);
        true
    }

    pub(super) fn on_rtt(&mut self, sent_at: Time, now: Time, for_timeout: bool) {
        let rtt = now.since(sent_at);
        if for_timeout || self.rtt.srtt().is_zero() {
            match self.clock.counter(sent_at, now) {
                Some(counter) => self.rtt.on_ticks(rtt, counter, &self.config),
                None => self.sample_for_timeout(rtt, self.rtt_clock.between(sent_at, now)),
            }
        }
        self.note_rtt(rtt);
    }

    /// `counted`: as the clock of `rtt_tick` shows it.
    fn sample_for_timeout(&mut self, rtt: Span, counted: Span) {
        let new_round = self.timing.begins_round(self.snd_una, self.snd_nxt);
        self.rtt.on_sample(rtt, counted, new_round, &self.config);
    }

    fn note_rtt(&mut self, rtt: Span) {
        self.path.srtt = self.rtt.srtt();
        self.path.min_rtt = self.path.min_rtt.min(rtt);
    }

    /// The cumulative acknowledgement moved by so many segments, of which one was `repeated`, or
    /// none. True if the retransmission timer starts anew, or stops where nothing is outstanding.
    // [RFC6298-5.2-1] [RFC6298-5.3-1]
    #[inline]
    pub(super) fn on_advance(&mut self, acked: u32, repeated: bool) -> bool {
        self.timeouts_in_row = 0;
        // Karn: a backed-off timeout stays until there is a sample again, here that of the timed
        // segment.
        if self.config.rto.rtt_per_segment && (!repeated || self.config.timestamps.enabled) {
            self.rtt.reset_backoff();
        }
        self.timers.persist = Time::NEVER;
        // RFC 6582 section 4, the impatient variant: only the first partial ACK restarts the timer,
        // so that
        // a window with many holes ends in a timeout and slow start instead of a round trip for
        // each. [RFC6582-3.2-4c]
        let partial = self.path.state == CaState::Recovery
            && self.config.loss_recovery.recovery == Recovery::NewReno
            && self.snd_una < self.high_seq;
        self.acks.partial += u32::from(partial);
        let is_linux = self.is_newreno_of_linux();
        let restarts = self.board.is_empty() || !partial || self.acks.partial == 1 || is_linux;
        self.acks.on_new_data();
        self.acks.before_advance = self.acks.duplicates;
        let deflates = self.path.state == CaState::Recovery && self.config.loss_recovery.recovery == Recovery::NewReno;
        if deflates || is_linux {
            self.acks.deflate(acked);
        }
        if is_linux {
            self.acks.limit_duplicates(self.board.packets_out(), self.board.lost_out(), acked);
        }
        if !deflates {
            // [RFC6675-5-1]
            self.acks.duplicates = 0;
        }
        restarts
    }

    /// Sets the window after an ACK: by the reduction while one is under way, else by the
    /// congestion control.
    fn control_window(&mut self, ack: &Ack) {
        let reducing = matches!(self.path.state, CaState::Recovery | CaState::Cwr);
        if reducing && !self.owns_window {
            self.reduce_further(ack);
        } else if ack.delivered > 0 || ack.advanced || self.is_told_of_nothing_new(ack) {
            let sample = self.ack_sample(ack);
            // `tcp_may_raise_cwnd` (net/ipv4/tcp_input.c, Linux 6.12).
            let above_holes = self.config.loss_recovery.recovery == Recovery::Sack && self.acks.grows_above_holes();
            if self.owns_window || ack.advanced || above_holes {
                self.cc.on_ack(&mut self.window, &self.path, &sample);
                self.window_use.begin(ack.now);
            }
        }
    }

    /// Linux 6.12, net/ipv4/tcp_input.c, `tcp_ack`: a control that owns the window hears of every
    /// ACK while data is outstanding (`tcp_cong_control`), unless it is older than the last.
    fn is_told_of_nothing_new(&self, ack: &Ack) -> bool {
        self.owns_window && ack.number == self.snd_una && !self.board.is_empty()
    }

    /// Proportional rate reduction or rate halving, after an ACK.
    fn reduce_further(&mut self, ack: &Ack) {
        let w = &mut self.window;
        // `tcp_cwnd_reduction` (Linux 6.12) leaves the window as it is if nothing was delivered.
        if self.config.cwnd.delivery_credit && ack.counted() == 0 {
            return;
        }
        if self.config.loss_recovery.prr {
            let safe = ack.advanced && ack.lost == 0;
            w.cwnd = self.reduction.on_ack(ack.counted(), self.path.in_flight, w.ssthresh, safe);
        } else if self.config.loss_recovery.rate_halving && (ack.delivered > 0 || ack.duplicate_sack.is_some()) {
            w.cwnd = self.reduction.halve(w.cwnd, self.path.in_flight, w.ssthresh);
        }
        w.cwnd = w.cwnd.clamp(1, self.path.cwnd_clamp);
    }

    /// Sample of the ACK for the congestion control.
    // [RFC5681-5-1]
    #[inline]
    pub(super) fn ack_sample(&mut self, ack: &Ack) -> AckSample {
        let credit = match self.config.cwnd.byte_counting {
            0 => u32::from(ack.advanced),
            // All that it newly reports, SACKed included; what was reported before was credited
            // then.
            // [RFC5681-3.1-9]
            limit if self.window.in_slow_start() => ack.counted().min(limit),
            _ => ack.counted(),
        };
        let rate = ack.rate.as_ref().and_then(|newest| {
            let sample = newest.sample(ack.now, &self.delivery, self.path.min_rtt);
            newest.commit(&mut self.delivery);
            // Data that was SACKed before and taken back counts twice (`tcp_rate_gen`).
            sample.filter(|_| !self.sacks_taken_back)
        });
        AckSample {
            acked: ack.acked,
            delivered: ack.counted(),
            credit,
            lost: ack.lost,
            rtt: ack.rtt,
            prior_in_flight: ack.prior_in_flight,
            total_delivered: self.delivery.total(),
            rate,
            ece: ack.ece,
            marked: ack.marked,
            cwnd_limited: self.window_use.may_grow(&self.window, ack.prior_in_flight, &self.config),
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        }
    }
}

/// The least wait of `tcp_check_sack_reneging`.
const SHORTEST_WAIT_FOR_SACKS: Span = Span::from_ms(10);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::packet::{FlowId, Kind, SackBlock};
    use crate::rng::Streams;
    use crate::tcp::profile::profile;
    use crate::tcp::sender::Sender;
    use crate::units::Seq32;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Ten segments at 0 s. After 100 ms the first is acknowledged, after 180 ms the third is
    /// SACKed.
    fn sender_with_a_hole(rtt_from_sack: bool) -> Sender {
        let mut config = profile("linux-6").unwrap().resolve().unwrap();
        (config.connection.handshake, config.timestamps.enabled, config.rto.rtt_from_sack) =
            (false, false, rtt_from_sack);
        let mss = config.mss();
        let mut sender = Sender::new(FlowId(0), 0, Arc::new(config), Streams::of(1, 0));
        let mut out = Outputs::default();
        sender.open(Time::ZERO, &mut out);
        sender.write(Time::ZERO, u64::MAX, &mut out);
        let mut ack = Packet::new(FlowId(0), Kind::Tcp, 0);
        (ack.flags, ack.ack, ack.window) = (TcpFlags::ACK, Seq32(1 + mss), 1 << 20);
        sender.on_packet(ms(100), &ack, &mut out);
        ack.push_sack(SackBlock { start: Seq32(1 + 2 * mss), end: Seq32(1 + 3 * mss) });
        sender.on_packet(ms(180), &ack, &mut out);
        sender
    }

    /// Linux 6.12, `tcp_ack_update_rtt`: `sack_rtt_us` stands in where nothing was acknowledged.
    #[test]
    fn what_is_sacked_gives_a_sample_for_the_timeout() {
        let srtt = |rtt_from_sack| sender_with_a_hole(rtt_from_sack).path.srtt;
        assert_eq!((srtt(false), srtt(true)), (Span::from_ms(100), Span::from_ms(110)));
    }

    /// Linux 6.12 in virtual time, 5 Mbit/s and 10 ms: an ACK covered what was sent 22 ms before
    /// and SACKed what was sent 18 ms before. The hole between them, sent with the former, was
    /// not taken for lost, since `rack.rtt_us` was 22 ms.
    #[test]
    fn the_last_round_trip_is_that_of_what_is_covered_before_that_of_what_is_sacked() {
        let mut sender = sender_with_a_hole(true);
        assert_eq!(sender.newest.last_rtt, Span::from_ms(180));
        let mut ack = sender.begin_ack(ms(300), &Packet::new(FlowId(0), Kind::Tcp, 0), 1);
        let front = *sender.board.front().unwrap();
        let segment = |sent_at, number| Segment { sent_at, number, ..front };
        let (covered, sacked) = (segment(ms(100), 100), segment(ms(140), 140));
        ack.take_sacked(&sacked, None);
        sender.take_news(&mut ack);
        assert_eq!((sender.newest.sent_at, sender.newest.last_rtt), (ms(140), Span::from_ms(160)));
        ack.take_covered(&covered, None);
        sender.take_news(&mut ack);
        assert_eq!((sender.newest.sent_at, sender.newest.last_rtt), (ms(140), Span::from_ms(200)));
    }

    /// The control is told of the segment that is SACKed, although a repeated one is acknowledged
    /// with it; and where there is nothing else, of the timestamp in whole milliseconds.
    #[test]
    fn a_repeated_segment_leaves_the_sample_of_what_is_sacked_beside_it() {
        let mut sender = sender_with_a_hole(true);
        let mss = u64::from(sender.path.mss);
        let mut ack = Ack { now: ms(300), number: 1 + 3 * mss, advanced: true, ..Ack::default() };
        (ack.acknowledged_repeated, ack.sacked_once) = (true, Some((ms(150), ms(170))));
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        assert_eq!(sender.sample_rtt(&p, &ack), Some(Span::from_ms(130)));
        ack.sacked_once = None;
        assert_eq!(sender.sample_rtt(&p, &ack), None, "no timestamps");
        let mut config = (*sender.config).clone();
        config.timestamps.enabled = true;
        sender.config = Arc::new(config);
        p.ts_ecr = timestamp(ms(200), &sender.config);
        ack.now = ms(300) + Span::from_us(700);
        assert_eq!(sender.sample_rtt(&p, &ack), Some(Span::from_ms(100)));
    }
}
