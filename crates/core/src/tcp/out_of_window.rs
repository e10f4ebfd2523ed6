//! Answers to segments without data that are out of window, and to ACKs far below what is
//! acknowledged: RFC 5961, and `tcp_oow_rate_limited`, `tcp_send_challenge_ack` of Linux
//! (net/ipv4/tcp_input.c, 6.12). Two ends that each take the other's segments for old would answer
//! each other for ever.
//!
//! Not here: the bound on such ACKs of all connections of a host.

use crate::units::{Span, Time};

/// When such a segment was answered last.
#[derive(Debug, Clone, Copy)]
pub(super) struct OutOfWindow {
    answered_at: Time,
}

impl Default for OutOfWindow {
    fn default() -> OutOfWindow {
        OutOfWindow { answered_at: Time::NEVER }
    }
}

impl OutOfWindow {
    /// True if one that comes now is answered; `least`: no two within this time.
    pub(super) fn answers(&mut self, now: Time, least: Span) -> bool {
        let too_soon = !self.answered_at.is_never() && now.since(self.answered_at) < least;
        if !too_soon {
            self.answered_at = now;
        }
        !too_soon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_in_half_a_second() {
        let (mut limit, half) = (OutOfWindow::default(), Span::from_ms(500));
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let answered: Vec<bool> = [0, 499, 500, 900, 1000].map(|ms| limit.answers(at(ms), half)).into();
        assert_eq!(answered, [true, false, true, false, true]);
        assert!(limit.answers(at(1000), Span::ZERO), "without a bound each is answered");
    }
}
