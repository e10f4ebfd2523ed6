//! Tail loss probe (RFC 8985 section 7): when nothing is heard for two round trips, one segment is
//! sent to draw an ACK that shows what is missing, so that a loss at the end of a flight need not
//! wait for the retransmission timeout.

use super::Sender;
use super::ack::Ack;
use crate::convert::saturate16;
use crate::tcp::cc::CaState;
use crate::tcp::{Cause, Outputs, Recovery};
use crate::units::{Span, Time};

/// A probe on its way (`TLP.end_seq` and `TLP.is_retrans` of RFC 8985).
#[derive(Debug, Clone, Copy)]
pub(super) struct TailLossProbe {
    end: u64,
    is_retransmission: bool,
}

impl Sender {
    /// RFC 8985 section 7.2: with SACK, nothing SACKed, no repair under way; and one probe at a
    /// time.
    // [RFC8985-7.2-1]
    pub(super) fn may_probe_tail(&self) -> bool {
        self.config.loss_recovery.tail_loss_probe
            && self.config.loss_recovery.recovery == Recovery::Sack
            // [RFC8985-7.3-1]
            && self.tail_loss_probe.is_none()
            && matches!(self.path.state, CaState::Open | CaState::Cwr)
            && self.board.sacked_out() == 0
            && !self.board.is_empty()
    }

    /// Starts the timer anew, or stops it where no probe may be sent.
    pub(super) fn schedule_tail_loss_probe(&mut self, now: Time) {
        self.timers.tail_loss_probe = if self.may_probe_tail() {
            // [RFC8985-7.2-5]
            self.after_slack(now, self.tail_loss_probe_timeout()).min(self.timers.retransmit)
        } else {
            Time::NEVER
        };
    }

    /// When a short wait that begins at `now` is over, as the host's timers have it.
    pub(super) fn after_slack(&self, now: Time, wait: Span) -> Time {
        now + (wait + self.config.rto.timer_slack).round_up_to(self.config.rto.granularity)
    }

    /// `PTO`.
    fn tail_loss_probe_timeout(&self) -> Span {
        let srtt = self.rtt.srtt();
        if srtt.is_zero() {
            // [RFC8985-7.2-3]
            return self.config.rto.initial;
        }
        // The ACK of a single segment may be delayed.
        // [RFC8985-7.2-4]
        let delay = if self.board.packets_out() == 1 { self.config.loss_recovery.max_ack_delay } else { Span::ZERO };
        // [RFC8985-7.2-2]
        srtt.saturating_mul(2) + delay
    }

    /// RFC 8985 section 7.3.
    pub(super) fn on_tail_loss_probe_due(&mut self, now: Time, out: &mut Outputs) {
        self.timers.tail_loss_probe = Time::NEVER;
        // [RFC8985-7.3-3]
        if !self.may_probe_tail() {
            return;
        }
        if self.queued_bytes() > 0 {
            // The last segment has not left the host: no answer can have been lost (Linux).
            self.timers.retransmit = self.timeout_from(now);
            return;
        }
        self.stats.tail_loss_probes += 1;
        let is_retransmission = !self.probe_with_new_data(now, out);
        if is_retransmission {
            self.probe_with_last_segment(now, out);
        }
        self.tail_loss_probe = Some(TailLossProbe { end: self.snd_nxt, is_retransmission });
        // [RFC8985-7.3-6]
        self.timers.retransmit = self.timeout_from(now);
    }

    /// A new segment, whatever cwnd says.
    // [RFC8985-7.3-4]
    fn probe_with_new_data(&mut self, now: Time, out: &mut Outputs) -> bool {
        let unsent = self.write_end - self.snd_nxt.min(self.write_end);
        let len = unsent.min(u64::from(self.path.mss));
        let outstanding = self.snd_nxt - self.snd_una + len;
        let fits = len > 0 && outstanding <= self.send_window && outstanding <= self.send_buffer;
        if fits {
            self.send_new(now, saturate16(len), false, out);
        }
        fits
    }

    // [RFC8985-7.3-5]
    fn probe_with_last_segment(&mut self, now: Time, out: &mut Outputs) {
        let evidence = self.evidence(Cause::TailLossProbe);
        let Some((segment, waited)) = self.board.take_probe(now, self.delivery.stamp()) else { return };
        self.note_retransmission(&segment, waited, evidence, out);
        self.emit(now, &segment, true, self.ends_what_was_written(segment.start, segment.len), out);
    }

    /// RFC 8985 section 7.4.2, once an ACK reaches the end of the probe.
    pub(super) fn settle_tail_loss_probe(&mut self, ack: &mut Ack) {
        let Some(probe) = self.tail_loss_probe.filter(|probe| ack.number >= probe.end) else { return };
        // It says nothing but that: the receiver had everything before the probe came.
        let echo = !ack.advanced && ack.delivered == 0 && ack.is_pure && !ack.window_changed;
        // [RFC8985-7.4.2-1]
        if !probe.is_retransmission || ack.duplicate_sack.is_some() || echo {
            // New data arrived, or both copies did.
            self.tail_loss_probe = None;
        } else if ack.number > probe.end {
            // One copy only: the probe itself repaired a loss, which the window is to show.
            self.tail_loss_probe = None;
            if self.path.state == CaState::Open {
                // [RFC8985-7.4.2-2]
                self.reduce(CaState::Cwr);
                if !self.owns_window {
                    self.window.cwnd = self.window.ssthresh.clamp(1, self.path.cwnd_clamp);
                }
                self.enter(CaState::Open);
            }
        }
        ack.duplicate_by_probe = probe.is_retransmission;
    }
}
