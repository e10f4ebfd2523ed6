//! Grows the receive buffer to twice what arrives in a round trip (dynamic right-sizing, Fisk and Feng 2001; Linux).

use crate::units::{Span, Time};

#[derive(Debug)]
pub(super) struct RightSizing {
    /// What arrived in the best round trip so far, bytes.
    space: u64,
    round_start: u64,
    round_began: Time,
    rtt: Span,
    /// Without timestamps: a round trip is the time a full window takes to arrive.
    window_end: u64,
    window_began: Time,
}

impl RightSizing {
    /// At first `space` bytes are taken to arrive in a round trip.
    pub(super) fn new(space: u64) -> RightSizing {
        RightSizing {
            space,
            round_start: 1,
            round_began: Time::ZERO,
            rtt: Span::ZERO,
            window_end: 1,
            window_began: Time::ZERO,
        }
    }

    /// Data arrived in order, up to `rcv_nxt`. `echoed`: the round trip by its timestamps; `right_edge`: of the window. Returns the
    /// buffer to have at least, bytes, where it is to grow.
    pub(super) fn on_data(
        &mut self,
        now: Time,
        echoed: Option<Span>,
        rcv_nxt: u64,
        right_edge: u64,
        mss: u32,
    ) -> Option<u64> {
        if let Some(rtt) = echoed {
            // Smoothed: while a queue builds, the least round trip would hold the buffer at what the empty path needs.
            self.rtt = if self.rtt.is_zero() { rtt } else { self.rtt.mul_ratio(7, 8) + rtt.mul_ratio(1, 8) };
        } else if rcv_nxt >= self.window_end {
            if self.window_end > 1 {
                let rtt = now.since(self.window_began);
                self.rtt = if self.rtt.is_zero() { rtt } else { self.rtt.min(rtt) };
            }
            self.window_began = now;
            self.window_end = right_edge;
        }
        if self.rtt.is_zero() || now.since(self.round_began) < self.rtt {
            return None;
        }
        let arrived = rcv_nxt - self.round_start;
        self.round_start = rcv_nxt;
        self.round_began = now;
        if arrived <= self.space {
            return None;
        }
        let growth = 2 * arrived.saturating_mul(arrived - self.space) / self.space.max(1);
        self.space = arrived;
        Some(2 * arrived + 16 * u64::from(mss) + growth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// 20 kB in a round trip where 10 kB were known: twice that, 16 segments, and as much again as the growth promises.
    #[test]
    fn the_buffer_follows_what_arrives_in_a_round_trip() {
        let rtt = Some(Span::from_ms(100));
        let mut sizing = RightSizing::new(10_000);
        assert_eq!(sizing.on_data(at(50), rtt, 10_001, 65_536, 1000), None, "the round trip is not over");
        assert_eq!(sizing.on_data(at(100), rtt, 20_001, 65_536, 1000), Some(40_000 + 16_000 + 40_000));
        assert_eq!(sizing.on_data(at(200), rtt, 40_001, 65_536, 1000), None, "no more than in the last one");
        assert_eq!(sizing.on_data(at(300), rtt, 70_001, 65_536, 1000), Some(60_000 + 16_000 + 30_000));
    }

    #[test]
    fn without_timestamps_a_full_window_measures_the_round_trip() {
        let mut sizing = RightSizing::new(10_000);
        assert_eq!(sizing.on_data(at(10), None, 1_001, 20_001, 1000), None);
        assert_eq!(sizing.rtt, Span::ZERO);
        assert_eq!(sizing.on_data(at(110), None, 20_001, 60_001, 1000), Some(40_000 + 16_000 + 40_000));
        assert_eq!(sizing.rtt, Span::from_ms(100));
    }
}
