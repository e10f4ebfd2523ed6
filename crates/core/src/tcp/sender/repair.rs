//! Finding losses and getting over them: recovery, window reductions, timeouts, and taking back
//! what was spurious.

use super::ack::Ack;
use super::frto::FrtoState;
use super::timers::Pending;
use super::undo::Undo;
use super::{Evidence, Sender};
use crate::convert::{saturate32, signed32};
use crate::packet::Packet;
use crate::tcp::cc::CaState;
use crate::tcp::loss::{Hole, Report, Scope, Verdict};
use crate::tcp::recovery::RateReduction;
use crate::tcp::scoreboard::Segment;
use crate::tcp::{Cause, Notice, Outputs, Recovery};
use crate::units::Time;

impl Sender {
    /// Partial ACKs and duplicates are taken as in Linux: NewReno that guards against needless
    /// recoveries, with one of Linux's ways to shrink the window. Else as RFC 6582 has it, in the
    /// impatient variant.
    pub(super) fn is_newreno_of_linux(&self) -> bool {
        let repair = &self.config.loss_recovery;
        repair.recovery == Recovery::NewReno && repair.recover_guard && (repair.prr || repair.rate_halving)
    }

    /// Without SACK Linux holds a repair until something above its end is acknowledged, so that
    /// duplicates of what it sent needlessly begin no other
    /// (`tcp_is_non_sack_preventing_reopen`).
    pub(super) fn is_held_at_end(&self) -> bool {
        self.snd_una == self.high_seq && self.is_newreno_of_linux()
    }

    /// Ends recovery, reduction and timeout repair when the window in which they began has been
    /// acknowledged. True if it has, and the repair is held nevertheless.
    pub(super) fn leave_states(&mut self) -> bool {
        let done = self.snd_una >= self.high_seq;
        if self.is_repairing() && self.is_held_at_end() {
            self.acks.duplicates = 0;
            return true;
        }
        match self.path.state {
            // [RFC6582-3.2-3] [RFC6675-5-8]
            CaState::Recovery if done => {
                self.acks.duplicates = 0;
                // `tcp_end_cwnd_reduction`: unless it was taken back.
                let ends_above = self.is_newreno_of_linux() && self.undo.is_none();
                if !self.owns_window && !ends_above {
                    let most = if self.halves_rate() { self.window.cwnd } else { self.path.cwnd_clamp };
                    // [RFC5681-4.3-5] [RFC5681-4.3-6]
                    self.window.cwnd = self.window.ssthresh.min(most).max(1);
                    self.window_use.begin(self.path.now);
                }
                self.enter(CaState::Open);
                self.keep_undo_for_dsack();
            }
            // Linux holds it until something above is acknowledged, so that the flag CWR has come
            // (net/ipv4/tcp_input.c, `tcp_fastretrans_alert`).
            CaState::Cwr if self.snd_una > self.high_seq => {
                if !self.owns_window {
                    self.window.cwnd = self.window.cwnd.min(self.window.ssthresh).max(1);
                    self.window_use.begin(self.path.now);
                }
                self.enter(CaState::Open);
            }
            CaState::Loss if done => {
                self.enter(CaState::Open);
                self.keep_undo_for_dsack();
            }
            CaState::Disorder if self.board.sacked_out() == 0 && self.acks.duplicates == 0 => self.enter(CaState::Open),
            _ => {}
        }
        false
    }

    /// Fast recovery, or what follows a timeout.
    pub(super) fn is_repairing(&self) -> bool {
        matches!(self.path.state, CaState::Recovery | CaState::Loss)
    }

    fn halves_rate(&self) -> bool {
        self.config.loss_recovery.rate_halving && !self.config.loss_recovery.prr
    }

    /// DSACKs come a round trip later than the ACK that ends a recovery.
    fn keep_undo_for_dsack(&mut self) {
        if !self.config.loss_recovery.dsack {
            self.undo = None;
        }
    }

    pub(super) fn enter(&mut self, to: CaState) {
        if to != self.path.state {
            self.first_repair = None;
            self.cc.on_state(&mut self.window, &self.path, to);
            self.path.state = to;
        }
        self.sacks_taken_back &= to != CaState::Open;
    }

    /// RFC 3168 section 6.1.2: once per window of data, which the states tell.
    pub(super) fn react_to_ecn(&mut self, ack: &Ack) {
        if ack.ece && !ack.ignores_mark && matches!(self.path.state, CaState::Open | CaState::Disorder) {
            self.stats.ecn_reductions += 1;
            self.reduce_for_congestion();
        }
    }

    /// `tcp_enter_cwr`: there is congestion for certain, so that no undo can follow.
    pub(super) fn reduce_for_congestion(&mut self) {
        self.begin_reduction(CaState::Cwr);
        (self.undo, self.prior_ssthresh) = (None, 0);
    }

    /// `tcp_enter_recovery`. `ece`: the ACK that shows a loss tells of marks as well.
    fn reduce_for_loss(&mut self, ece: bool) {
        self.note_threshold();
        self.undo = Some(self.new_undo());
        self.begin_reduction(CaState::Recovery);
        if ece {
            self.prior_ssthresh = 0;
        }
    }

    /// The threshold before a reduction. It is not below the window that it would have been
    /// (`tcp_current_ssthresh`).
    fn note_threshold(&mut self) {
        let w = &self.window;
        let reducing = matches!(self.path.state, CaState::Recovery | CaState::Cwr);
        self.prior_ssthresh = if reducing { w.ssthresh } else { w.ssthresh.max(w.cwnd / 2 + w.cwnd / 4) };
    }

    /// Common start of a window reduction.
    // [RFC9438-4.6-1]
    pub(super) fn begin_reduction(&mut self, to: CaState) {
        self.path.in_flight = self.in_flight();
        // [RFC6582-3.2-2a] [RFC6675-5-5]
        self.high_seq = self.snd_nxt;
        self.send_cwr = self.marks.is_none();
        // The probe's answer would only tell of the loss that is dealt with
        // (`tcp_init_cwnd_reduction`, as `tcp_enter_loss`).
        self.tail_loss_probe = None;
        let ssthresh = self.cc.ssthresh(&self.window, &self.path);
        self.enter(to);
        self.path.prior_cwnd = self.window.cwnd;
        self.window.cwnd_cnt = 0;
        self.reduction = RateReduction::begin(self.path.prior_cwnd);
        self.acks.partial = 0;
        self.acks.at_reduction = self.acks.duplicates;
        if !self.owns_window {
            // [RFC5681-3.1-7]
            self.window.ssthresh = ssthresh;
            if !self.config.loss_recovery.prr && !self.config.loss_recovery.rate_halving {
                self.window.cwnd = ssthresh.min(self.path.cwnd_clamp);
            }
        }
    }

    /// Linux keeps `retrans_stamp` and counts `undo_retrans` from one recovery to the next while
    /// retransmissions are out (6.12, net/ipv4/tcp_input.c, `tcp_retrans_stamp_cleanup` and
    /// `tcp_init_undo`).
    fn new_undo(&mut self) -> Undo {
        let out = self.board.retransmissions_out();
        if out.is_none() {
            self.first_repeat_ts = None;
        }
        Undo::new(self.snd_una, out)
    }

    /// Returns as [`Self::detect_loss`].
    pub(super) fn detect_loss_after(&mut self, ack: &Ack, out: &mut Outputs) -> bool {
        if self.path.state == CaState::Recovery && ack.advanced {
            match self.config.loss_recovery.recovery {
                // The first new ACK ends it, whatever else is missing (RFC 2581 section 3.2 step
                // 6).
                Recovery::Reno => {
                    if !self.owns_window {
                        // [RFC5681-3.2-12]
                        let stays = self.config.loss_recovery.deflates_above_threshold
                            && self.acks.before_advance <= self.acks.at_reduction;
                        let inflated = if stays { self.acks.before_advance } else { 0 };
                        let cwnd = self.window.ssthresh.max(1).saturating_add(inflated);
                        self.window.cwnd = cwnd.min(self.path.cwnd_clamp);
                    }
                    // Begun while a timeout was being repaired, it leaves that to be finished.
                    let repair = !self.config.loss_recovery.recover_guard && self.board.lost_out() > 0;
                    if !repair {
                        self.board.clear_lost();
                    }
                    self.enter(if repair { CaState::Loss } else { CaState::Open });
                    if repair || !self.acks.looks_now {
                        return false;
                    }
                }
                // [RFC6582-3.2-4a]
                Recovery::NewReno => {
                    self.board.mark_front_lost();
                    return false;
                }
                Recovery::Sack => {}
            }
        }
        if self.path.state == CaState::Loss && ack.delivered == 0 {
            return false;
        }
        self.detect_loss(ack.now, Some(ack), out)
    }

    /// The wait for segments that may only be late is over: Linux, net/ipv4/tcp_recovery.c,
    /// `tcp_rack_reo_timeout`. The timeout follows once what is lost has been sent.
    pub(super) fn judge_late_segments(&mut self, now: Time, out: &mut Outputs) {
        let state = self.path.state;
        self.detect_loss(now, None, out);
        if state != CaState::Recovery && self.path.state == CaState::Recovery {
            self.on_recovery_by_timer();
        }
    }

    pub(super) fn hole(&self, first: &Segment, above: u32) -> Hole {
        let mss = u64::from(self.path.mss);
        let reported = match self.config.loss_recovery.recovery {
            Recovery::Sack => self.board.sacked_bytes(),
            _ => (u64::from(self.acks.duplicates) * mss).min(self.snd_nxt - self.snd_una),
        };
        Hole {
            dup_acks: self.acks.duplicates,
            sacked_above: above,
            reported: self.reported(),
            sent_at: first.sent_at,
            number: first.number,
            retransmitted: false,
            newest_delivered_sent_at: self.newest.sent_at,
            newest_delivered_number: self.newest.number,
            newest_delivered_rtt: self.newest.rtt,
            last_delivered_rtt: self.newest.last_rtt,
            newest_report_at: self.newest.reported_at,
            outstanding: self.board.packets_out(),
            outstanding_bytes: self.snd_nxt - self.snd_una,
            reported_bytes: reported,
            cwnd: self.window.cwnd,
            send_window: self.send_window_segments(),
            window_at_first_duplicate: self.acks.window_at_first_duplicate,
            can_send_new: self.snd_nxt < self.write_end && self.snd_nxt + mss <= self.snd_una + self.send_window,
            in_recovery: self.is_repairing(),
            min_rtt: self.path.min_rtt,
        }
    }

    /// Segments known to have arrived above the cumulative ACK.
    fn reported(&self) -> u32 {
        if self.config.loss_recovery.recovery == Recovery::Sack {
            self.board.sacked_out()
        } else {
            self.acks.duplicates
        }
    }

    /// The receive window in whole segments.
    pub fn send_window_segments(&self) -> u32 {
        saturate32(self.send_window / u64::from(self.path.mss))
    }

    /// True for nearly every ACK: all segments that arrived did so in order, and none waits for
    /// repair.
    fn nothing_is_missing(&self) -> bool {
        self.acks.duplicates == 0
            && self.board.sacked_out() == 0
            && self.board.lost_out() == 0
            && self.board.front().is_none_or(|first| self.newest.is_before(first.number))
    }

    /// Asks the loss policy about every hole and enters fast recovery on the first loss.
    /// `ack` is the reason, if it is not the timer. Then the timer is set for the last of the
    /// segments that may only be late; true if there is one.
    fn detect_loss(&mut self, now: Time, ack: Option<&Ack>, out: &mut Outputs) -> bool {
        if self.nothing_is_missing() {
            return false;
        }
        let by_ack = ack.is_some();
        let srtt = self.rtt.srtt();
        // By send times nothing changes until something has been delivered (`rack.advanced`).
        let looks = std::mem::take(&mut self.newest.advanced) || !by_ack || self.loss.scope() == Scope::Holes;
        let mut judge_at = Time::NEVER;
        let (mut found, mut lost_again) = (0, false);
        if self.config.loss_recovery.recovery == Recovery::Sack {
            // Losses that the last recovery found beyond its end are reason enough for another (RFC
            // 6675 section 5).
            found = self.board.lost_out();
            let sacked = self.board.sacked_out() > 0;
            let template = self.board.front().map(|first| self.hole(first, 0));
            let Sender { board, loss, lost_again: lost_by_ack, .. } = self;
            if let Some(template) = template {
                let mut judge = |hole: &Hole| {
                    let verdict = loss.judge(hole, srtt, now);
                    if let Verdict::Wait { until } = verdict {
                        judge_at = later(judge_at, until);
                    }
                    verdict
                };
                let of = |s: &Segment| Hole { sent_at: s.sent_at, number: s.number, ..template };
                match loss.scope() {
                    Scope::Holes if sacked => {
                        // [RFC6675-5-3]
                        let hole = |s: &Segment, above| Hole { sacked_above: above, ..of(s) };
                        found += board.mark_lost_holes(|s, above| judge(&hole(s, above)) == Verdict::Lost);
                    }
                    Scope::Holes => {}
                    Scope::Segments if looks => {
                        let newly = board.mark_lost_segments(|s| judge(&of(s)));
                        found += newly;
                        // The timer asks if anything was lost (`tcp_rack_reo_timeout`).
                        lost_again = !by_ack && newly > 0;
                    }
                    Scope::Segments => {}
                }
                if looks {
                    let again = |s: &Segment| Hole { retransmitted: true, ..of(s) };
                    let again = board.mark_lost_retransmissions(|s| judge(&again(s)));
                    *lost_by_ack += again;
                    lost_again |= again > 0;
                }
            }
        } else if let Some(first) = self.board.front().filter(|_| {
            (self.acks.duplicates > 0 || self.acks.looks_now && self.path.state != CaState::Loss)
                && self.may_begin_recovery(false)
        }) {
            // RFC 6582 section 3.2: duplicates from before the last recovery's end are echoes of
            // its retransmissions. [RFC6582-3.2-2b]
            let guards = self.config.loss_recovery.recover_guard && !self.acks.looks_now && !self.is_newreno_of_linux();
            if self.snd_una > self.high_seq || self.path.state == CaState::Cwr || !guards {
                // Send times say nothing, and where the network reorders more duplicates are needed
                // (`tcp_newreno_mark_lost`).
                let reorders = self.is_newreno_of_linux() && self.acks.grows_above_holes();
                let counts = self.loss.scope() == Scope::Segments || reorders;
                let by_count = if self.acks.duplicates >= self.acks.threshold() {
                    Verdict::Lost
                } else {
                    Verdict::Wait { until: Time::NEVER }
                };
                let hole = self.hole(first, self.acks.duplicates);
                match if counts { by_count } else { self.loss.judge(&hole, srtt, now) } {
                    Verdict::Lost => found = 1,
                    Verdict::Wait { until } => judge_at = until,
                }
            }
        }
        let waits = by_ack && !judge_at.is_never();
        if waits {
            self.timers.set(Pending::Reordering, self.after_slack(now, judge_at.since(now)));
        }
        match self.path.state {
            // [RFC5681-3.2-3]
            _ if found > 0 && self.may_begin_recovery(lost_again) => {
                self.frto = FrtoState::Idle;
                let evidence = self.evidence(Cause::FastRetransmit);
                // The window was already reduced for this round trip.
                let from_cwr = self.path.state == CaState::Cwr;
                // The reduction goes on, with what has left in it: nothing is forced to leave
                // (`tcp_enter_recovery`).
                let goes_on = from_cwr && self.config.loss_recovery.prr;
                if from_cwr {
                    if !goes_on {
                        self.high_seq = self.snd_nxt;
                    }
                    self.prior_ssthresh = 0;
                    self.undo = Some(self.new_undo());
                    (self.acks.partial, self.acks.at_reduction) = (0, self.acks.duplicates);
                    self.enter(CaState::Recovery);
                } else if self.was_reduced_for_this() {
                    (self.acks.partial, self.acks.at_reduction) = (0, self.acks.duplicates);
                    self.enter(CaState::Recovery);
                } else {
                    self.reduce_for_loss(ack.is_some_and(|ack| ack.ece));
                }
                if self.config.loss_recovery.recovery != Recovery::Sack {
                    self.board.mark_front_lost();
                    self.board.forget_front_retransmission();
                }
                self.stats.fast_retransmits += 1;
                out.notices.push(Notice::EnteredRecovery);
                self.path.in_flight = self.in_flight();
                if goes_on || self.owns_window {
                    // Linux 6.12: the control sets the window first (`tcp_cong_control` in
                    // `tcp_ack`), with nothing
                    // sent again yet, and window and pacing hold for every retransmission
                    // (`tcp_xmit_retransmit_queue`).
                    self.first_repair = Some(evidence);
                } else {
                    // The first retransmission leaves whatever the window says (RFC 5681 section
                    // 3.2 step 3).
                    // [RFC5681-3.2-9] [RFC6675-5-7]
                    self.retransmit(now, evidence, false, out);
                    self.reduction.on_first_retransmission();
                    if self.config.loss_recovery.recovery != Recovery::Sack {
                        self.restart_timeout_for_repair(now);
                    }
                }
            }
            CaState::Open if self.board.sacked_out() + self.acks.duplicates > 0 => self.enter(CaState::Disorder),
            _ => {}
        }
        waits
    }

    /// The loss is of the window for which the last reduction was, and the loss policy says that
    /// one is enough.
    fn was_reduced_for_this(&self) -> bool {
        self.config.loss_recovery.recovery != Recovery::Sack
            && self.path.state != CaState::Loss
            && self.snd_una < self.high_seq
            && self.loss.looks_after_retransmission() > 0
    }

    /// No ACK follows that the reduction could count: it takes the timer for one that delivered a
    /// segment (Linux).
    pub(super) fn on_recovery_by_timer(&mut self) {
        if self.config.loss_recovery.prr && !self.owns_window {
            self.path.in_flight = self.in_flight();
            self.window.cwnd = self
                .reduction
                .on_ack(1, self.path.in_flight, self.window.ssthresh, false)
                .clamp(1, self.path.cwnd_clamp);
        }
    }

    /// True if a loss found now begins fast recovery. After a timeout with SACK: if by send times
    /// the repair itself was `lost_again` (`FLAG_LOST_RETRANS` of Linux).
    // [RFC6675-5.1-3]
    fn may_begin_recovery(&self, lost_again: bool) -> bool {
        match self.path.state {
            CaState::Open | CaState::Disorder | CaState::Cwr => true,
            CaState::Loss if self.config.loss_recovery.recovery == Recovery::Sack => {
                lost_again && self.loss.scope() == Scope::Segments
            }
            CaState::Loss => !self.config.loss_recovery.recover_guard,
            CaState::Recovery => false,
        }
    }

    /// An ACK that advances is for originals: it echoes a timestamp from before the first
    /// retransmission (Eifel detection, RFC 3522), or nothing was sent again at all
    /// (`tcp_packet_delayed`).
    // [RFC9438-4.9.2-1]
    fn is_for_originals(&self, p: &Packet) -> bool {
        match self.first_repeat_ts {
            Some(first) => first != 0 && p.ts_ecr != 0 && signed32(p.ts_ecr.wrapping_sub(first)) < 0,
            None => self.config.loss_recovery.recovery == Recovery::Sack || self.snd_una < self.high_seq,
        }
    }

    /// An ACK that advances may show that the repair under way is needless. Within a recovery the
    /// reduction is taken back once no retransmission is out (`tcp_try_undo_partial` of Linux since
    /// 3.11): true if it waits for that, and nothing is repaired meanwhile.
    pub(super) fn undo_if_spurious(&mut self, p: &Packet, ack: &mut Ack) -> bool {
        let partial = self.path.state == CaState::Recovery && self.snd_una < self.high_seq;
        // `tcp_may_undo`: DSACKs tell within a recovery by themselves.
        let by_dsack = !partial && self.undo.is_some_and(|undo| undo.was_needless());
        if !(by_dsack || self.config.spurious_rto.eifel && self.is_for_originals(p)) {
            return false;
        }
        if partial {
            // How far it was overtaken counts, though it was repeated.
            self.note_reordering(ack.from, ack);
            let (snd_una, snd_nxt) = (self.snd_una, self.snd_nxt);
            self.loss.on_report(&Report { reordered: true, duplicate_sack: false, snd_una, snd_nxt, recovered: false });
            if self.board.has_retransmission_out() && !self.halves_rate() {
                return true;
            }
            ack.ignores_mark = true;
        }
        // Without SACK the repair of a timeout goes on (`tcp_try_undo_loss`).
        let goes_on = self.is_newreno_of_linux() && self.path.state == CaState::Loss;
        self.take_back(goes_on || self.is_held_at_end());
        goes_on
    }

    /// RFC 2883, as Linux uses it: once every retransmission since a reduction was reported to be a
    /// duplicate, it was needless (`tcp_try_undo_dsack`). The answer to a probe counts among them
    /// (`tcp_check_dsack`). What is lost remains so, and may begin another recovery.
    pub(super) fn undo_if_needless(&mut self, ack: &mut Ack) {
        let Some(undo) = self.undo.filter(|undo| undo.was_needless()) else { return };
        let in_recovery = self.path.state == CaState::Recovery;
        if in_recovery || matches!(self.path.state, CaState::Open | CaState::Disorder) {
            (self.undo, self.newest.advanced) = (None, true);
            self.stats.undos += 1;
            self.restore_window(undo.after_timeout);
            if in_recovery {
                ack.ignores_mark = true;
                self.keep_open();
            }
        }
    }

    /// `tcp_try_keep_open`.
    fn keep_open(&mut self) {
        let missing = self.board.sacked_out() + self.board.lost_out() + self.acks.duplicates > 0;
        let to = if missing || self.board.retransmissions_out().is_some() { CaState::Disorder } else { CaState::Open };
        if self.path.state != to {
            self.enter(to);
            self.high_seq = self.snd_nxt;
        }
    }

    /// Nothing is lost after all. What is missing is judged anew (`tcp_undo_cwnd_reduction`).
    pub(super) fn unmark_losses(&mut self) {
        self.board.clear_lost();
        if !self.is_newreno_of_linux() {
            self.acks.duplicates = 0;
        }
        self.newest.advanced = true;
    }

    /// The last reduction was needless: window and threshold as they were, and nothing is lost.
    /// `goes_on`: the repair has not ended all the same.
    pub(super) fn take_back(&mut self, goes_on: bool) {
        let Some(undo) = self.undo.take() else { return };
        self.stats.undos += 1;
        let repairing = self.is_repairing();
        if repairing {
            self.unmark_losses();
        }
        self.restore_window(undo.after_timeout);
        if repairing && !goes_on {
            if self.path.state == CaState::Recovery && self.snd_una < self.high_seq {
                self.keep_open();
            } else {
                self.enter(CaState::Open);
            }
        }
    }

    /// Window and threshold as they were, unless marks forbid it (`tcp_undo_cwnd_reduction`).
    pub(super) fn restore_window(&mut self, after_timeout: bool) {
        if self.owns_window || self.prior_ssthresh == 0 {
            return;
        }
        let most = match self.config.undo.burst {
            0 => self.path.cwnd_clamp,
            burst => self.path.cwnd_clamp.min(self.in_flight().saturating_add(burst)),
        };
        if self.config.undo.window_after_timeout || !after_timeout {
            self.window.cwnd = self.cc.undo(&self.window, &self.path).clamp(1, most.max(1));
        }
        self.window_use.begin(self.path.now);
        self.send_cwr &= self.window.ssthresh >= self.prior_ssthresh;
        self.window.ssthresh = self.window.ssthresh.max(self.prior_ssthresh);
    }

    pub(super) fn on_rto(&mut self, now: Time, out: &mut Outputs) {
        self.timers.stop_transmission();
        if self.board.is_empty() {
            return;
        }
        // Those of one segment count (RFC 9293 section 3.8.3). Without timestamps the backoff
        // outlives the segment (Karn).
        if self.timeouts_in_row >= self.config.timers.retries {
            return self.give_up(out);
        }
        let evidence = self.evidence(Cause::Timeout);
        self.stats.timeouts += 1;
        if matches!(self.path.state, CaState::Open | CaState::Disorder) {
            self.acks.doubt_reordering(self.board.sacked_out());
        }
        out.notices.push(Notice::RetransmissionTimeout);
        let repeated = match self.path.state {
            _ if self.frto.is_undecided() => self.timeouts_in_row > 0,
            CaState::Loss => self.timeouts_in_row > 0,
            // Within a recovery the window has been reduced for this loss (`tcp_enter_loss`).
            CaState::Recovery | CaState::Cwr => {
                let sack = self.config.loss_recovery.recovery == Recovery::Sack;
                (sack || self.is_newreno_of_linux()) && self.snd_una < self.high_seq
            }
            _ => false,
        };
        let stays_open = self.may_defer_timeout_response();
        let undecided = self.frto.is_undecided();
        if !stays_open {
            self.begin_frto();
        }
        // A repetition into a closed window is a probe of it, not a retry
        // (`tcp_retransmit_timer`).
        self.timeouts_in_row += u32::from(self.send_window > 0);
        self.path.in_flight = self.in_flight();
        // RFC 5681 section 3.1: a second timeout of the same segment leaves ssthresh as it is.
        // [RFC5681-3.1-15]
        if !repeated || self.config.rto_recovery.ssthresh_at_every_timeout {
            self.note_threshold();
            let mut undo = self.new_undo();
            undo.after_timeout = !stays_open;
            if self.path.state != CaState::Recovery {
                self.path.prior_cwnd = self.window.cwnd;
            }
            // Two segments were all that the window let leave while an earlier timeout was
            // undecided (Linux).
            let cwnd = self.window.cwnd;
            self.window.cwnd = if undecided { cwnd.min(2) } else { cwnd };
            let ssthresh = self.cc.ssthresh(&self.window, &self.path);
            self.window.cwnd = cwnd;
            self.undo = Some(undo);
            if !self.owns_window {
                self.window.ssthresh = ssthresh;
            }
        }
        self.tail_loss_probe = None;
        self.timing.stop();
        self.rtt.back_off(&self.config);
        self.pacer.stop();
        if stays_open {
            self.defer_timeout_response(now, evidence, out);
        } else {
            self.answer_timeout(now, evidence, out);
        }
        // [RFC6298-5.6-1]
        self.restart_timeout(now);
        self.timers.timeout_at = now;
    }

    /// Largest window, segments, that a timeout leaves.
    pub(super) fn kept_at_timeout(&self) -> u32 {
        self.config.rto_recovery.loss_window.max(self.cc.loss_window(&self.path))
    }

    /// All that is outstanding is lost, as far as the loss policy agrees, and repair begins with
    /// the first of it.
    // [RFC5681-3.1-17]
    fn answer_timeout(&mut self, now: Time, evidence: Evidence, out: &mut Outputs) {
        // A control hears of every timeout, also of one that finds the sender still repairing the
        // last.
        self.cc.on_state(&mut self.window, &self.path, CaState::Loss);
        // [RFC6582-3.2-5] [RFC6675-5.1-1] [RFC6675-5.1-2]
        self.path.state = CaState::Loss;
        self.first_repair = None;
        self.high_seq = self.snd_nxt;
        self.send_cwr = self.marks.is_none();
        self.acks.duplicates = 0;
        let srtt = self.rtt.srtt();
        if let Some(template) = self.board.front().map(|first| self.hole(first, 0)) {
            if self.board.is_reneged() {
                self.sacks_taken_back = true;
                // Data that comes again is not overtaken (`tcp_highest_sack_seq` without SACKs).
                self.newest.highest = self.snd_una;
            }
            let Sender { board, loss, .. } = self;
            board.mark_lost_at_timeout(|s| {
                loss.is_lost_at_timeout(&Hole { sent_at: s.sent_at, number: s.number, ..template }, srtt, now)
            });
        }
        self.path.in_flight = self.in_flight();
        if !self.owns_window {
            // [RFC5681-3.1-16]
            self.window.cwnd = self.window.cwnd.min(self.kept_at_timeout()).max(1);
        }
        // [RFC6298-5.4-1]
        self.window.cwnd_cnt = 0;
        self.window_use.begin(now);
        self.retransmit(now, evidence, false, out);
        self.waits_for_ack = self.config.rto_recovery.sends_one && self.window.cwnd > 1;
    }
}

/// The later of two times; `NEVER`: none.
fn later(a: Time, b: Time) -> Time {
    if a.is_never() || b.is_never() { a.min(b) } else { a.max(b) }
}
