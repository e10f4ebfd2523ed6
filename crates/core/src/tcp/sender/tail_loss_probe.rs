//! Tail loss probe (RFC 8985 section 7): when nothing is heard for two round trips, one segment is
//! sent to draw an ACK that shows what is missing, so that a loss at the end of a flight need not
//! wait for the retransmission timeout.

use super::Sender;
use super::ack::Ack;
use super::timers::Pending;
use crate::convert::saturate16;
use crate::tcp::cc::CaState;
use crate::tcp::{Cause, Outputs, Recovery};
use crate::units::Time;

/// A probe on its way (`TLP.end_seq` and `TLP.is_retrans` of RFC 8985).
#[derive(Debug, Clone, Copy)]
pub(super) struct TailLossProbe {
    end: u64,
    is_retransmission: bool,
}

impl TailLossProbe {
    /// `start` begins the segment that was sent as this probe.
    pub(super) fn was_sent_as(&self, start: u64, len: u16) -> bool {
        self.end == start + u64::from(len)
    }
}

impl Sender {
    /// RFC 8985 section 7.2: with SACK, and no repair under way. Nothing is SACKed then, except
    /// while the window is reduced for another reason (Linux).
    // [RFC8985-7.2-1]
    fn may_probe_tail(&self) -> bool {
        self.config.loss_recovery.tail_loss_probe
            && self.config.loss_recovery.recovery == Recovery::Sack
            && matches!(self.path.state, CaState::Open | CaState::Cwr)
            && !self.board.is_empty()
    }

    /// Sets the timer for a probe, if one may be sent; else it stays as it is. Linux,
    /// net/ipv4/tcp_output.c, `tcp_schedule_loss_probe`. `restarts`: the timeout would start anew;
    /// else it counts from when the first segment was sent.
    pub(super) fn schedule_tail_loss_probe(&mut self, now: Time, restarts: bool) -> bool {
        let may_probe = self.may_probe_tail();
        if may_probe {
            let timeout = if restarts {
                self.timeout_from(now)
            } else {
                // One that has passed, as after a timeout that was taken back, bounds nothing.
                self.timeout_of_first(now).unwrap_or(Time::NEVER)
            };
            // [RFC8985-7.2-5]
            self.timers.set(Pending::TailLossProbe, self.tail_loss_probe_due(now).min(timeout));
        }
        may_probe
    }

    /// `PTO` from `now`.
    fn tail_loss_probe_due(&self, now: Time) -> Time {
        let srtt = self.rtt.srtt();
        if srtt.is_zero() {
            // [RFC8985-7.2-3]
            return now + self.config.rto.initial;
        }
        // [RFC8985-7.2-2]
        let two_round_trips = srtt.saturating_mul(2);
        if self.board.packets_out() == 1 {
            // The ACK of a single segment may be delayed.
            // [RFC8985-7.2-4]
            let wait = two_round_trips + self.config.loss_recovery.max_ack_delay;
            return now + wait.round_up_to(self.config.rto.granularity);
        }
        self.after_slack(now, two_round_trips)
    }

    /// RFC 8985 section 7.3; Linux, `tcp_send_loss_probe`.
    pub(super) fn on_tail_loss_probe_due(&mut self, now: Time, out: &mut Outputs) {
        // One probe at a time. And while the last segment has not left the host, no answer to it
        // can have been lost.
        // [RFC8985-7.3-1] [RFC8985-7.3-3]
        if self.tail_loss_probe.is_some() || self.queued_bytes() > 0 {
            return self.set_timeout(now);
        }
        let is_retransmission = !self.probe_with_new_data(now, out);
        if is_retransmission && !self.probe_with_last_segment(now, out) {
            return self.set_timeout(now);
        }
        self.stats.tail_loss_probes += 1;
        self.tail_loss_probe = Some(TailLossProbe { end: self.snd_nxt, is_retransmission });
        // [RFC8985-7.3-6]
        self.restart_timeout(now);
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

    /// False: the receiver has taken back the window that it was in. A reduction does not count it
    /// among what has left.
    // [RFC8985-7.3-5]
    fn probe_with_last_segment(&mut self, now: Time, out: &mut Outputs) -> bool {
        if self.board.last().is_some_and(|last| self.is_out_of_window(last.start)) {
            return false;
        }
        let evidence = self.evidence(Cause::TailLossProbe);
        let Some((segment, waited)) = self.board.take_probe(now, self.delivery.stamp()) else { return false };
        self.note_retransmission(&segment, waited, evidence, out);
        self.emit(now, &segment, true, false, out);
        true
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
                self.begin_reduction(CaState::Cwr);
                if !self.owns_window {
                    self.window.cwnd = self.window.ssthresh.clamp(1, self.path.cwnd_clamp);
                }
                self.enter(CaState::Open);
            }
        }
        ack.duplicate_by_probe = probe.is_retransmission;
    }
}
