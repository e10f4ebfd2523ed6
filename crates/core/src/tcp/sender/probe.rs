//! Tail loss probe (RFC 8985 section 7): when nothing is heard for two round trips, one segment is sent to draw an ACK that shows
//! what is missing, so that a loss at the end of a flight need not wait for the retransmission timeout.

use super::*;

impl Sender {
    /// RFC 8985 section 7.2: with SACK, nothing SACKed, no repair under way; and one probe at a time.
    pub(super) fn may_probe(&self) -> bool {
        self.config.tail_loss_probe
            && self.config.recovery == Recovery::Sack
            && self.probe.is_none()
            && matches!(self.path.state, CaState::Open | CaState::Cwr)
            && self.board.sacked_out() == 0
            && !self.board.is_empty()
    }

    /// Starts the timer anew, or stops it where no probe may be sent.
    pub(super) fn schedule_probe(&mut self, now: Time) {
        self.probe_at =
            if self.may_probe() { self.after_slack(now, self.probe_timeout()).min(self.rto_at) } else { Time::NEVER };
    }

    /// When a short wait that begins at `now` is over, as the host's timers have it.
    pub(super) fn after_slack(&self, now: Time, wait: Span) -> Time {
        now + (wait + self.config.timer_slack).round_up_to(self.config.rto_granularity)
    }

    /// `PTO`.
    fn probe_timeout(&self) -> Span {
        let srtt = self.rtt.srtt();
        if srtt.is_zero() {
            return self.config.rto_initial;
        }
        // The ACK of a single segment may be delayed.
        let delay = if self.board.packets_out() == 1 { self.config.max_ack_delay } else { Span::ZERO };
        srtt.saturating_mul(2) + delay
    }

    /// RFC 8985 section 7.3.
    pub(super) fn on_probe_due(&mut self, now: Time, out: &mut Outputs) {
        self.probe_at = Time::NEVER;
        if !self.may_probe() {
            return;
        }
        if self.queued_bytes() > 0 {
            // The last segment has not left the host: no answer can have been lost (Linux).
            self.rto_at = self.timeout_from(now);
            return;
        }
        self.stats.tail_loss_probes += 1;
        let is_retransmission = !self.probe_with_new_data(now, out);
        if is_retransmission {
            self.probe_with_last_segment(now, out);
        }
        self.probe = Some(Probe { end: self.snd_nxt, is_retransmission });
        self.rto_at = self.timeout_from(now);
    }

    /// A new segment, whatever cwnd says.
    fn probe_with_new_data(&mut self, now: Time, out: &mut Outputs) -> bool {
        let unsent = self.write_end - self.snd_nxt.min(self.write_end);
        let len = unsent.min(u64::from(self.path.mss));
        let outstanding = self.snd_nxt - self.snd_una + len;
        let fits = len > 0 && outstanding <= self.send_window && outstanding <= self.send_buffer;
        if fits {
            self.send_new(now, len as u16, out);
        }
        fits
    }

    fn probe_with_last_segment(&mut self, now: Time, out: &mut Outputs) {
        let evidence = self.evidence(Cause::Probe);
        let Some((segment, waited)) = self.board.take_probe(now) else { return };
        self.delivery.on_send(now, segment, false);
        let segment = *segment;
        self.note_retransmission(&segment, waited, evidence, out);
        self.emit(now, &segment, true, out);
    }

    /// RFC 8985 section 7.4.2, for an ACK that reaches the end of the probe. `echo`: it says nothing but that.
    pub(super) fn on_probe_acked(&mut self, probe: Probe, ack: u64, duplicate_sack: bool, echo: bool) {
        if !probe.is_retransmission || duplicate_sack || echo {
            // New data arrived, or both copies did.
            self.probe = None;
        } else if ack > probe.end {
            // One copy only: the probe itself repaired a loss, which the window is to show.
            self.probe = None;
            if self.path.state == CaState::Open {
                self.reduce(CaState::Cwr);
                if !self.owns_window {
                    self.window.cwnd = self.window.ssthresh.clamp(1, self.path.cwnd_clamp);
                }
                self.enter(CaState::Open);
            }
        }
    }
}
