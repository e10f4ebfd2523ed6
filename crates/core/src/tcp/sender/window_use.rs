//! Cwnd validation (RFC 7661, as Linux does it): whether the window, not the application, is what
//! holds the sender back.

use super::Sender;
use crate::tcp::TcpConfig;
use crate::tcp::cc::{CaState, Window};
use crate::units::Time;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WindowUse {
    /// The window stopped the sender in this round trip, or in the one before it.
    is_limited: bool,
    /// Most segments out in that time.
    most_out: u32,
    /// Offset whose acknowledgement ends the round trip.
    round_end: u64,
    /// Most segments out since the window was last set or full, and when that was
    /// (`snd_cwnd_used`, `snd_cwnd_stamp`).
    used: u32,
    since: Time,
}

impl WindowUse {
    /// Something was sent, or was not because the window was full (`limited`); then `out` segments
    /// were out.
    pub(super) fn note(&mut self, limited: bool, out: u32, snd_una: u64, snd_nxt: u64) {
        if snd_una >= self.round_end || limited || (!self.is_limited && out > self.most_out) {
            *self = WindowUse { is_limited: limited, most_out: out, round_end: snd_nxt, ..*self };
        }
    }

    /// Growth only while the window is what holds the sender back; in slow start half of it in use
    /// is enough.
    // [RFC9438-4.6-3]
    pub(super) fn may_grow(&self, w: &Window, prior_in_flight: u32, config: &TcpConfig) -> bool {
        if !config.cwnd.validation {
            true
        } else if config.cwnd.slack > 0 {
            prior_in_flight.saturating_add(config.cwnd.slack) >= w.cwnd
        } else {
            self.stops_sender(w)
        }
    }

    /// `tcp_is_cwnd_limited`.
    fn stops_sender(&self, w: &Window) -> bool {
        self.is_limited || (w.in_slow_start() && w.cwnd < self.most_out.saturating_mul(2))
    }

    /// The window has been set.
    #[inline]
    pub(super) fn begin(&mut self, now: Time) {
        self.since = now;
    }
}

impl Sender {
    /// The window falls half way to what of it was in use, if that was less for a timeout's time
    /// without an ACK, because the application or the receiver stopped the sender: Linux,
    /// net/ipv4/tcp_output.c, `tcp_cwnd_validate` and `tcp_cwnd_application_limited` (RFC 2861).
    /// Not where more is written than the socket holds.
    pub(super) fn follow_application(&mut self, now: Time) {
        let config = &self.config;
        let follows = config.cwnd.validation && config.cwnd.slack == 0 && config.loss_recovery.prr;
        if !(follows && config.cwnd.restart_after_idle) || self.owns_window {
            return;
        }
        let used = &mut self.window_use;
        if used.stops_sender(&self.window) {
            (used.used, used.since) = (0, now);
            return;
        }
        used.used = used.used.max(self.board.packets_out());
        if now.since(used.since) < self.rtt.rto(config) {
            return;
        }
        if self.path.state == CaState::Open && self.write_end.saturating_sub(self.snd_una) <= self.send_buffer {
            let kept = used.used.max(config.cwnd.restart_window);
            let w = &mut self.window;
            if kept < w.cwnd {
                w.ssthresh = w.ssthresh.max(w.cwnd / 2 + w.cwnd / 4);
                w.cwnd = w.cwnd.midpoint(kept);
            }
            used.used = 0;
        }
        used.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::WindowUse;
    use crate::tcp::cc::Window;
    use crate::tcp::profile::profile;

    // [RFC9438-4.6-3]
    #[test]
    fn the_window_grows_while_it_is_what_stops_the_sender() {
        let mut config = profile("linux-6").unwrap().resolve().unwrap();
        (config.cwnd.validation, config.cwnd.slack) = (true, 0);
        let avoidance = Window { cwnd: 10, cwnd_cnt: 0, ssthresh: 5 };
        let slow_start = Window { ssthresh: 20, ..avoidance };
        let mut used = WindowUse::default();
        used.note(false, 6, 1, 1001);
        assert!(!used.may_grow(&avoidance, 6, &config), "the application stopped it");
        assert!(used.may_grow(&slow_start, 6, &config), "more than half is in use");
        used.note(true, 10, 1, 1001);
        assert!(used.may_grow(&avoidance, 10, &config));
        used.note(false, 11, 1000, 2001);
        assert!(used.may_grow(&avoidance, 4, &config), "until the round trip is over");
        used.note(false, 4, 1001, 3001);
        assert!(!used.may_grow(&avoidance, 4, &config) && !used.may_grow(&slow_start, 4, &config));
        config.cwnd.slack = 6;
        assert!(used.may_grow(&avoidance, 4, &config) && !used.may_grow(&avoidance, 3, &config));
        config.cwnd.validation = false;
        assert!(used.may_grow(&avoidance, 0, &config));
    }
}
