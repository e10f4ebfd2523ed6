//! Grows the receive buffer to twice what arrives in a round trip (dynamic right-sizing, Fisk and
//! Feng 2001).
//!
//! [`RightSizing::on_data`] is the rule as such. [`RightSizing::on_read`] and
//! [`RightSizing::with_data_above`] are Linux's of today: net/ipv4/tcp_input.c of 6.18,
//! `tcp_rcv_space_adjust` and `tcp_rcvbuf_grow`, as the tracepoint `tcp:tcp_rcvbuf_grow` shows them
//! too.

use crate::units::{Span, Time};

#[derive(Debug)]
pub(super) struct RightSizing {
    /// Bytes that arrived in the best round trip so far.
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

    /// Data arrived in order, up to `rcv_nxt`. `echoed`: the round trip by its timestamps;
    /// `right_edge`: of the window. Returns the buffer to have at least, bytes, where it is to
    /// grow.
    pub(super) fn on_data(
        &mut self,
        now: Time,
        echoed: Option<Span>,
        rcv_nxt: u64,
        right_edge: u64,
        mss: u32,
    ) -> Option<u64> {
        if let Some(rtt) = echoed {
            // Smoothed: while a queue builds, the least round trip would hold the buffer at what
            // the empty path needs.
            self.rtt = if self.rtt.is_zero() { rtt } else { self.rtt.mul_ratio(7, 8) + rtt.mul_ratio(1, 8) };
        } else {
            self.measure_window(now, rcv_nxt, right_edge);
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

    /// A full window has arrived in so long, at the least.
    pub(super) fn measure_window(&mut self, now: Time, rcv_nxt: u64, right_edge: u64) -> Span {
        if rcv_nxt >= self.window_end {
            if self.window_end > 1 {
                let rtt = now.since(self.window_began);
                self.rtt = if self.rtt.is_zero() { rtt } else { self.rtt.min(rtt) };
            }
            self.window_began = now;
            self.window_end = right_edge;
        }
        self.rtt
    }

    /// The application has read up to `first`, an skb, and goes on to read the rest, up to `end`.
    /// Once in a round trip of `rtt` what was read counts, less what then waits. Returns the
    /// room to have at least, bytes, where it is to grow.
    pub(super) fn on_read(&mut self, now: Time, rtt: Span, first: u64, end: u64) -> Option<u64> {
        if rtt.is_zero() || now.since(self.round_began) < rtt {
            return None;
        }
        let read = (first - self.round_start).saturating_sub(end - first);
        self.round_start = first;
        self.round_began = now;
        if read <= self.space {
            return None;
        }
        // The sender may double its rate in a round trip, and what is told now counts for the next.
        let room = 2 * read;
        let growth = 2 * (room.saturating_mul(read - self.space) / self.space.max(1));
        self.space = read;
        Some(room + growth)
    }

    /// The room to have while data spans `above` bytes over a hole.
    pub(super) fn with_data_above(&self, above: u64) -> u64 {
        2 * self.space + above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// 20 kB in a round trip where 10 kB were known: twice that, 16 segments, and as much again as
    /// the growth promises.
    #[test]
    fn the_buffer_follows_what_arrives_in_a_round_trip() {
        let rtt = Some(Span::from_ms(100));
        let mut sizing = RightSizing::new(10_000);
        assert_eq!(sizing.on_data(at(50), rtt, 10_001, 65_536, 1000), None, "the round trip is not over");
        assert_eq!(sizing.on_data(at(100), rtt, 20_001, 65_536, 1000), Some(40_000 + 16_000 + 40_000));
        assert_eq!(sizing.on_data(at(200), rtt, 40_001, 65_536, 1000), None, "no more than in the last one");
        assert_eq!(sizing.on_data(at(300), rtt, 70_001, 65_536, 1000), Some(60_000 + 16_000 + 30_000));
    }

    /// Growth of a kernel 6.18 at 100 Mbit/s, 100 ms and 2 % of loss: `copied`, `inq`, `space` and
    /// `ooo` of its tracepoint `tcp:tcp_rcvbuf_grow`, and the `window_clamp` of the line that
    /// follows, which counts in steps of 1.6 bytes.
    #[test]
    fn it_grows_as_the_kernels_tracepoint_shows() {
        let seen = [
            (28_960, 0, 15_928, 0, 152_697),
            (125_976, 78_192, 28_960, 62_264, 282_070),
            (151_552, 0, 47_784, 0, 1_619_547),
            (855_768, 0, 325_800, 0, 7_279_731),
        ];
        let rtt = Span::from_ms(100);
        for (copied, waiting, space, above, clamp) in seen {
            let mut sizing = RightSizing::new(space);
            assert_eq!(
                sizing.on_read(at(99), rtt, 1 + copied, 1 + copied + waiting),
                None,
                "the round trip is not over"
            );
            let room = sizing.on_read(at(100), rtt, 1 + copied, 1 + copied + waiting).unwrap() + above;
            assert!(room.abs_diff(clamp) <= 4, "{room}, not {clamp}");
        }
        assert_eq!(RightSizing::new(28_960).with_data_above(98 * 1448).abs_diff(199_823), 1);
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
