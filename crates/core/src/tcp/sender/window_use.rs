//! Cwnd validation (RFC 7661, as Linux does it): whether the window, not the application, is what
//! holds the sender back.

use crate::tcp::TcpConfig;
use crate::tcp::cc::Window;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WindowUse {
    /// The window stopped the sender in this round trip, or in the one before it.
    is_limited: bool,
    /// Most segments out in that time.
    most_out: u32,
    /// Offset whose acknowledgement ends the round trip.
    round_end: u64,
}

impl WindowUse {
    /// Something was sent, or was not because the window was full (`limited`); then `out` segments
    /// were out.
    pub(super) fn note(&mut self, limited: bool, out: u32, snd_una: u64, snd_nxt: u64) {
        if snd_una >= self.round_end || limited || (!self.is_limited && out > self.most_out) {
            *self = WindowUse { is_limited: limited, most_out: out, round_end: snd_nxt };
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
            self.is_limited || (w.in_slow_start() && w.cwnd < self.most_out.saturating_mul(2))
        }
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
