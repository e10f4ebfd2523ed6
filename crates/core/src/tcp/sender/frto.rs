//! F-RTO: was the timeout needed? A retransmission timeout that came too early, because the path or
//! the ACKs were late, is known by what the next ACKs cover: data that was sent once only.
//!
//! Two descriptions, as Linux had one and then the other:
//!
//! - [`Frto::Rfc5682`] (RFC 5682 section 3.1 with SACK, 2.1 without; Linux since 3.10,
//!   `tcp_process_loss`). The timeout is answered as always, window of one segment, everything
//!   lost. The first ACK that advances makes way for new data where the next repair would be; and
//!   any ACK that reports data that was never repeated says that the timeout was spurious.
//! - [`Frto::Rfc4138`] (Linux 2.6.24 to 3.9, `tcp_process_frto`; `tcp_frto` = 2 adds RFC 4138's
//!   appendix B for SACK). Until it is decided nothing counts as lost and the window is what it
//!   was: the first segment is repeated, the first ACK that advances lets two new segments leave,
//!   the second one decides. Where the decision is that data was lost, the repair begins with two
//!   or three segments instead of one. That is also what follows where the first ACK covers all
//!   that was outstanding, as when nothing but ACKs were lost.
//!
//! The cost of a spurious timeout is set by `frto_response`, see [`FrtoResponse`].
//!
//! Not here: Linux's exception for probes of the path's MTU; of RFC 4138's variant, that an earlier
//! repeated segment below the first ACK rules out a later undo.

use super::ack::Ack;
use super::{Evidence, Sender};
use crate::tcp::cc::CaState;
use crate::tcp::recovery::RateReduction;
use crate::tcp::scoreboard::SegFlags;
use crate::tcp::{Frto, FrtoResponse, Outputs, Recovery};
use crate::units::Time;

/// Where a sender stands with a timeout. Idle nearly always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FrtoState {
    #[default]
    Idle,
    /// RFC 5682: after the timeout, or with new data sent and waiting for the ACK that decides.
    Repairing { new_data_first: bool },
    /// RFC 4138: no ACK yet that advances, or one.
    Undecided { advanced: bool, highmark: u64 },
}

/// Steps left to do for an ACK that arrived while F-RTO is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrtoStep {
    /// All steps.
    Usual,
    /// The window has been set; a loss is neither looked for nor repaired.
    Undecided,
    /// Just decided: all steps, but the window does not grow by this ACK.
    Decided,
}

impl FrtoState {
    /// New data goes before lost segments.
    #[inline]
    pub(super) fn defers_repair(self) -> bool {
        matches!(self, FrtoState::Repairing { new_data_first: true } | FrtoState::Undecided { .. })
    }
    #[inline]
    pub(super) fn is_undecided(self) -> bool {
        matches!(self, FrtoState::Undecided { .. })
    }
}

impl Sender {
    /// Data that ends here or below was outstanding at the timeout; 0: no matter.
    #[inline]
    // [RFC5682-2.1-2]
    pub(super) fn frto_limit(&self) -> u64 {
        match self.frto {
            FrtoState::Idle => 0,
            FrtoState::Repairing { .. } => self.high_seq,
            FrtoState::Undecided { highmark, .. } => highmark,
        }
    }

    // ---- RFC 5682
    // -----------------------------------------------------------------------------------------------------

    /// At a timeout, before the state changes. RFC 5682 section 2.1 step 1 and section 3.2: not
    /// where another repair is under way, unless it is that of the same segment.
    // [RFC5682-2.1-1]
    pub(super) fn begin_frto(&mut self) {
        let first = matches!(self.path.state, CaState::Open | CaState::Disorder | CaState::Cwr);
        self.frto_arrived = 0;
        self.frto = if self.config.spurious_rto.frto == Frto::Rfc5682 && (first || self.timeouts_in_row > 0) {
            FrtoState::Repairing { new_data_first: false }
        } else {
            FrtoState::Idle
        };
    }

    /// Each ACK of a repair after a timeout.
    pub(super) fn on_frto_ack(&mut self, ack: &Ack) {
        let FrtoState::Repairing { new_data_first } = &mut self.frto else { return };
        *new_data_first = false;
        let sack = self.config.loss_recovery.recovery == Recovery::Sack;
        // Without SACK an ACK that covers a repeated segment may be for what had arrived above it.
        // [RFC5682-2.1-3b] [RFC5682-3.1-1]
        if ack.original && (sack || !ack.retransmitted_data) {
            self.frto = FrtoState::Idle;
            let duplicates = self.acks.duplicates;
            self.on_spurious_timeout();
            if sack {
                // The segment below is still missing: the duplicates since the timeout count.
                self.acks.duplicates = duplicates;
            }
            return;
        }
        if self.snd_nxt > self.high_seq {
            // [RFC5682-2.1-3a] [RFC5682-3.1-2]
            if ack.duplicate || ack.sacked > 0 {
                // Step 3a: the new data arrived, and what is below it did not.
                self.frto = FrtoState::Idle;
            }
        // [RFC5682-2.1-2a]
        } else if ack.advanced && self.snd_una < self.high_seq {
            // Step 2b; whether anything leaves shows in `after_frto_transmit`.
            // [RFC5682-2.1-2b]
            self.frto = FrtoState::Repairing { new_data_first: true };
        }
    }

    /// Once what the ACK allows has left: without new data to send F-RTO has nothing to go by (step
    /// 2b).
    // [RFC5682-2.1-2c]
    pub(super) fn after_frto_transmit(&mut self, now: Time, sent_new: bool, out: &mut Outputs) {
        if sent_new || self.frto != (FrtoState::Repairing { new_data_first: true }) {
            return;
        }
        self.frto = FrtoState::Idle;
        self.transmit(now, out);
    }

    /// Without SACK each duplicate after new data stands for a segment of it that arrived, until
    /// the next advance.
    pub(super) fn count_frto_duplicates(&mut self, ack: &Ack) {
        if self.path.state == CaState::Loss && self.config.spurious_rto.frto == Frto::Rfc5682 {
            if ack.advanced {
                self.frto_arrived = 0;
            } else if ack.duplicate && ack.delivered > 0 && self.snd_nxt > self.high_seq {
                self.frto_arrived += 1;
            }
        }
    }

    // ---- RFC 4138
    // -----------------------------------------------------------------------------------------------------

    /// True if a timeout that fires now is left open. Without SACK it is left open only if no
    /// segment but the first was ever sent again.
    pub(super) fn may_defer_timeout_response(&self) -> bool {
        self.config.spurious_rto.frto == Frto::Rfc4138
            && !self.owns_window
            && self.kept_at_timeout() <= 1
            && !self.board.is_reneged()
            && (self.config.loss_recovery.recovery == Recovery::Sack || self.board.only_front_was_retransmitted())
    }

    /// The timeout, without its consequences: the threshold falls, the first segment is repeated,
    /// and nothing else may leave.
    pub(super) fn defer_timeout_response(&mut self, now: Time, evidence: Evidence, out: &mut Outputs) {
        let repairing = matches!(self.path.state, CaState::Recovery | CaState::Loss) || self.frto.is_undecided();
        let sack = self.config.loss_recovery.recovery == Recovery::Sack;
        let highmark = if sack && repairing && self.high_seq > self.snd_una { self.high_seq } else { self.snd_nxt };
        self.frto = FrtoState::Undecided { advanced: false, highmark };
        if self.board.front().is_some_and(|first| first.has(SegFlags::EVER_RETRANSMITTED)) {
            // An ACK does not show which of the copies it is for.
            self.undo = None;
        }
        self.enter(CaState::Disorder);
        self.high_seq = self.snd_nxt;
        self.acks.duplicates = 0;
        self.board.mark_front_lost();
        self.board.forget_front_retransmission();
        self.path.in_flight = self.in_flight();
        self.retransmit(now, evidence, false, out);
        self.window.cwnd = self.window.cwnd.min(self.in_flight()).max(1);
    }

    /// Each ACK until it is decided.
    pub(super) fn on_undecided_ack(&mut self, ack: &Ack) -> FrtoStep {
        let FrtoState::Undecided { advanced, highmark } = self.frto else { return FrtoStep::Usual };
        let progress = ack.acked > 0 || ack.sacked > 0;
        if advanced && ack.retransmitted_data {
            self.undo = None;
        }
        if self.snd_una >= highmark {
            return self.believe_timeout(if advanced { 3 } else { 2 }, ack);
        }
        if self.config.loss_recovery.recovery != Recovery::Sack {
            if ack.acked == 0 {
                return match (ack.duplicate, advanced) {
                    (false, _) => FrtoStep::Undecided,
                    (true, false) => self.believe_timeout(0, ack),
                    (true, true) => self.believe_timeout(3, ack),
                };
            }
        } else if !advanced {
            if ack.acked == 0 {
                self.window.cwnd = self.window.cwnd.min(self.in_flight()).max(1);
                return FrtoStep::Undecided;
            }
        } else if !progress {
            return if ack.duplicate { self.believe_timeout(3, ack) } else { FrtoStep::Undecided };
        } else if ack.sacked > 0 && ack.sacked_other {
            return self.believe_timeout(3, ack);
        }
        if advanced {
            self.frto = FrtoState::Idle;
            self.on_spurious_timeout();
            return FrtoStep::Decided;
        }
        self.window.cwnd = (self.in_flight() + 2).min(self.path.cwnd_clamp);
        self.frto = FrtoState::Undecided { advanced: true, highmark };
        let mss = u64::from(self.path.mss);
        let may_send = self.snd_nxt < self.write_end
            && self.snd_nxt + mss.min(self.write_end - self.snd_nxt) <= self.snd_una + self.send_window;
        if may_send { FrtoStep::Undecided } else { self.believe_timeout(2, ack) }
    }

    /// The timeout was right (`tcp_enter_frto_loss`): all that was not SACKed is lost, and
    /// `allowed` segments leave at once.
    fn believe_timeout(&mut self, allowed: u32, ack: &Ack) -> FrtoStep {
        let FrtoState::Undecided { advanced, .. } = std::mem::take(&mut self.frto) else { return FrtoStep::Usual };
        if !advanced && ack.acked == 0 {
            // The repeated segment is still on its way.
            self.board.mark_lost_until(self.snd_nxt);
        } else {
            self.board.mark_lost_at_timeout(|_| true);
        }
        if let Some(undo) = &mut self.undo {
            undo.after_timeout = true;
        }
        self.acks.duplicates = 0;
        self.high_seq = self.snd_nxt;
        self.enter(CaState::Loss);
        self.path.in_flight = self.in_flight();
        self.window.cwnd = (self.path.in_flight + allowed).clamp(1, self.path.cwnd_clamp);
        self.window.cwnd_cnt = 0;
        FrtoStep::Decided
    }

    // ---- what follows
    // ---------------------------------------------------------------------------------------------------

    // [RFC5682-4-1]
    fn on_spurious_timeout(&mut self) {
        self.stats.spurious_timeouts += 1;
        let response = if self.owns_window { FrtoResponse::Undo } else { self.config.spurious_rto.frto_response };
        if response == FrtoResponse::Undo {
            let held = self.is_held_at_end();
            if self.undo.is_some() {
                self.take_back(held);
            } else {
                if self.config.spurious_rto.frto == Frto::Rfc5682 {
                    // Taken back once before: Linux does it again.
                    self.stats.undos += 1;
                    self.restore_window(true);
                }
                self.forget_losses(if held { self.path.state } else { CaState::Open });
            }
            return;
        }
        // The window that the timeout took, if it did.
        let window = self.cc.undo(&self.window, &self.path);
        self.undo = None;
        let prior = self.path.prior_cwnd;
        self.forget_losses(if response == FrtoResponse::RateHalving { CaState::Cwr } else { CaState::Open });
        let in_flight = self.in_flight();
        self.window.cwnd = match response {
            FrtoResponse::RateHalving => window.min(in_flight + 1),
            _ => window.min(self.window.ssthresh).min(in_flight + CONSERVATIVE_BURST),
        }
        .clamp(1, self.path.cwnd_clamp);
        self.window.cwnd_cnt = 0;
        self.high_seq = self.snd_nxt;
        self.reduction = RateReduction::begin(prior);
    }

    fn forget_losses(&mut self, to: CaState) {
        self.unmark_losses();
        self.enter(to);
    }
}

/// `tcp_moderate_cwnd`: the duplicate threshold.
const CONSERVATIVE_BURST: u32 = 3;
