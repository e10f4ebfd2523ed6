//! The instants that a sender waits for, and how the timer of transmissions is set.
//!
//! As in Linux one timer serves three purposes (`icsk_pending`,
//! include/net/inet_connection_sock.h): the retransmission timeout, the tail loss probe, and
//! segments that may only be late. To set it for one of them ends the wait for another. The timeout
//! then follows: once a probe has left or late segments have been judged, it counts from when the
//! first segment was sent.

use super::Sender;
use super::ack::Ack;
use crate::tcp::Recovery;
use crate::units::{Span, Time};

/// A purpose of the timer of transmissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    /// The retransmission timeout (RFC 6298).
    Timeout,
    /// A tail loss probe (RFC 8985 section 7).
    TailLossProbe,
    /// To ask the loss policy again, where segments may only be late.
    Reordering,
}

/// `NEVER`: not running.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timers {
    transmission: Time,
    pending: Pending,
    /// The next probe of a closed receive window (RFC 9293 section 3.8.6.1).
    pub persist: Time,
    /// When a timer last made a window probe leave, and a retransmission after a timeout: the
    /// host's own queue may refuse them at once.
    pub probe_sent_at: Time,
    pub timeout_at: Time,
}

impl Timers {
    pub(super) const STOPPED: Timers = Timers {
        transmission: Time::NEVER,
        pending: Pending::Timeout,
        persist: Time::NEVER,
        probe_sent_at: Time::NEVER,
        timeout_at: Time::NEVER,
    };

    pub(super) fn deadline(&self) -> Time {
        self.transmission.min(self.persist)
    }

    pub(super) fn set(&mut self, pending: Pending, at: Time) {
        (self.pending, self.transmission) = (pending, at);
    }

    pub(super) fn stop_transmission(&mut self) {
        self.set(Pending::Timeout, Time::NEVER);
    }

    /// The timer of transmissions does not run.
    pub(super) fn waits_for_nothing(&self) -> bool {
        self.transmission.is_never()
    }

    pub(super) fn waits_for(&self, pending: Pending) -> bool {
        self.pending == pending && !self.waits_for_nothing()
    }

    /// The purpose for which the timer of transmissions has run out.
    pub(super) fn due(&self, now: Time) -> Option<Pending> {
        (now >= self.transmission && !self.waits_for_nothing()).then_some(self.pending)
    }
}

impl Sender {
    /// When the retransmission timer expires that is started at `now`.
    pub(super) fn timeout_from(&self, now: Time) -> Time {
        self.clock.after(now, self.rtt.rto(&self.config))
    }

    /// The retransmission timeout starts anew.
    pub(super) fn restart_timeout(&mut self, now: Time) {
        self.timers.set(Pending::Timeout, self.timeout_from(now));
    }

    /// The first segment has been sent again, and the timer is its own
    /// (`tcp_xmit_retransmit_queue`); but not while late segments are waited for.
    // [RFC6298-5-1] [RFC6675-6-1]
    pub(super) fn restart_timeout_for_repair(&mut self, now: Time) {
        if !self.timers.waits_for(Pending::Reordering) {
            self.restart_timeout(now);
        }
    }

    /// When the first segment times out, counted from when it was sent (`tcp_rto_delta_us`).
    /// `None`: it would have before `now`.
    pub(super) fn timeout_of_first(&self, now: Time) -> Option<Time> {
        let left = self.board.front().map(|first| (first.sent_at + self.rtt.rto(&self.config)).since(now))?;
        (!left.is_zero()).then(|| self.clock.after(now, left.round_up_to(self.config.rto.granularity)))
    }

    /// Linux, net/ipv4/tcp_input.c, `tcp_rearm_rto`: the timeout counts from now, but from when the
    /// first segment was sent where the timer was set for something else meanwhile.
    pub(super) fn set_timeout(&mut self, now: Time) {
        if self.board.is_empty() {
            self.timers.stop_transmission();
        } else if self.timers.waits_for(Pending::TailLossProbe) || self.timers.waits_for(Pending::Reordering) {
            let a_jiffy = || self.clock.after(now, Span::from_ns(1).round_up_to(self.config.rto.granularity));
            let at = self.timeout_of_first(now).unwrap_or_else(a_jiffy);
            self.timers.set(Pending::Timeout, at);
        } else {
            self.restart_timeout(now);
        }
    }

    /// `tcp_set_xmit_timer`: for a tail loss probe, else for the timeout.
    #[inline]
    pub(super) fn set_transmission_timer(&mut self, now: Time) {
        if !self.schedule_tail_loss_probe(now, true) {
            self.set_timeout(now);
        }
    }

    /// `FLAG_SET_XMIT_TIMER` of `tcp_clean_rtx_queue` where nothing was acknowledged cumulatively:
    /// a SACK starts the timer anew if what it tells of was sent before the first segment was
    /// (again). So a repair is not timed out while others arrive, and the timeout of a segment
    /// that waits is not put off for ever.
    pub(super) fn sack_restarts_timer(&self, ack: &Ack) -> bool {
        self.config.loss_recovery.recovery == Recovery::Sack
            && self.config.rto.rtt_from_sack
            && ack.sacked_once.zip(self.board.front()).is_some_and(|(sacked, first)| sacked.0 < first.sent_at)
    }

    /// When a short wait that begins at `now` is over, as the host's timers have it.
    pub(super) fn after_slack(&self, now: Time, wait: Span) -> Time {
        let wait = (wait + self.config.rto.timer_slack).round_up_to(self.config.rto.granularity);
        if self.clock.is_wheel() { self.clock.after(now, wait) } else { now + wait }
    }
}
