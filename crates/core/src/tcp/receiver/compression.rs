//! ACKs for data above a hole that are put off into one (`__tcp_ack_snd_check` and
//! `tcp_sack_compress_send_ack`, net/ipv4/tcp_input.c of Linux 6.12).
//!
//! The first three segments above a hole are reported at once, so that compression does not delay
//! the detection of the loss. Those after them wait for 5 % of the round trip, or for as many
//! segments as the profile says. The round trip is the smaller of two. One is that of the handshake
//! (`srtt_us`, which an end that sends no data measures only then). The other is that of the echoed
//! timestamps (`rcv_rtt_est`).

use crate::units::{Span, Time};

/// Duplicate ACKs that are never put off (TCP_FASTRETRANS_THRESH).
const MAX_ACKED_AT_ONCE: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Compression {
    /// Segments above a hole that no ACK has told of.
    waiting: u32,
    /// ACKs sent at once since `rcv_nxt` was what it is.
    acked_at_once: u32,
    rcv_nxt: u64,
    handshake: Option<Span>,
    echoed: Option<Span>,
    /// The echo measured last: one sample each.
    last_echo: u32,
}

impl Compression {
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// An ACK leaves, and tells all.
    pub(super) fn on_ack(&mut self) {
        self.waiting = 0;
    }

    /// The handshake took so long.
    pub(super) fn on_handshake(&mut self, rtt: Span) {
        self.handshake = Some(rtt);
    }

    /// `echo` has not been measured yet, and is taken to be now.
    #[inline]
    pub(super) fn is_new_echo(&mut self, echo: u32) -> bool {
        let is_new = echo != self.last_echo;
        self.last_echo = echo;
        is_new
    }

    /// A round trip by the timestamps of a full segment: the least counts at once, more than that
    /// by an eighth (`tcp_rcv_rtt_update`).
    pub(super) fn on_echo(&mut self, rtt: Span) {
        self.echoed = Some(match self.echoed {
            Some(old) if old <= rtt => old.mul_ratio(7, 8) + rtt.mul_ratio(1, 8),
            _ => rtt,
        });
    }

    /// The round trip that echoed timestamps show.
    pub(super) fn echoed(&self) -> Option<Span> {
        self.echoed
    }

    /// A segment came above a hole, or filled a part of it up to `rcv_nxt`: when the ACK is due at
    /// the latest, if it may wait.
    pub(super) fn put_off(&mut self, now: Time, rcv_nxt: u64, most: u32, delay: Span, slack: Span) -> Option<Time> {
        if self.waiting >= most {
            return None;
        }
        if self.rcv_nxt != rcv_nxt {
            self.rcv_nxt = rcv_nxt;
            self.acked_at_once = 0;
        }
        if self.acked_at_once < MAX_ACKED_AT_ONCE {
            self.acked_at_once += 1;
            return None;
        }
        self.waiting += 1;
        let rtt = match (self.handshake, self.echoed) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or(Span::ZERO),
        };
        Some(now + delay.min(rtt.mul_ratio(1, 20)) + slack)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use crate::packet::{FlowId, Kind, Packet, TcpFlags};
    use crate::tcp::profile::profile;
    use crate::tcp::{Outputs, Receiver, TcpConfig};
    use crate::units::{Bytes, Seq32, Span, Time};

    const MSS: u32 = 1448;

    /// A receiver of `linux-6` past its quick ACKs, segments by number, and its ACKs: microseconds,
    /// segments covered, number of the newest SACK block's last segment.
    struct Story {
        receiver: Receiver,
        acks: Vec<(u64, u32, Option<u32>)>,
        now_us: u64,
    }

    impl Story {
        /// The handshake takes `rtt_ms`; segment 0 comes with it and is acknowledged.
        fn new(rtt_ms: u64, change: impl FnOnce(&mut TcpConfig)) -> Story {
            let mut config = profile("linux-6").unwrap().resolve().unwrap();
            (config.receiver.quick_acks, config.receiver.window_in_steps) = (0, false);
            config.timers.wheel = false;
            change(&mut config);
            let receiver = Receiver::new(FlowId(0), 0, Arc::new(config));
            let mut story = Story { receiver, acks: Vec::new(), now_us: 0 };
            let mut syn = Packet::new(FlowId(0), Kind::Tcp, 0);
            syn.flags = TcpFlags::SYN;
            story.act(0, |r, now, out| r.on_packet(now, &syn, out));
            story.segments(rtt_ms * 1000, [0, 1]);
            story.acks.clear();
            story
        }
        fn act(&mut self, us: u64, act: impl FnOnce(&mut Receiver, Time, &mut Outputs)) {
            let mut out = Outputs::default();
            act(&mut self.receiver, Time::ZERO + Span::from_us(us), &mut out);
            let segment = |seq: Seq32| (seq.0.wrapping_sub(1)) / MSS;
            let sack = |p: &Packet| p.sack().first().map(|b| segment(b.end) - 1);
            self.acks.extend(out.packets.iter().map(|p| (us, segment(p.ack), sack(p))));
            self.now_us = us;
        }
        fn until(&mut self, us: u64) {
            while self.receiver.deadline() <= Time::ZERO + Span::from_us(us) {
                let at = self.receiver.deadline().as_ns() / 1000;
                self.act(at, |r, now, out| r.on_deadline(now, out));
            }
        }
        fn segments(&mut self, us: u64, numbers: impl IntoIterator<Item = u32>) {
            self.until(us);
            for n in numbers {
                let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
                (p.flags, p.seq, p.len) = (TcpFlags::ACK, Seq32(n * MSS + 1), MSS as u16);
                self.act(us, |r, now, out| r.on_packet(now, &p, out));
            }
        }
    }

    #[test]
    fn three_are_told_at_once_and_the_rest_after_a_twentieth_of_the_round_trip() {
        // 10 ms: a twentieth is 500 us, and the timer takes up to 100 us more.
        let mut s = Story::new(10, |_| {});
        for (i, n) in (3..9).enumerate() {
            s.segments(20_000 + 100 * i as u64, [n]);
        }
        s.until(30_000);
        // The fourth, at 20 300, starts the timer.
        assert_eq!(s.acks, [(20_000, 2, Some(3)), (20_100, 2, Some(4)), (20_200, 2, Some(5)), (20_900, 2, Some(8))]);
    }

    #[test]
    fn the_wait_is_a_millisecond_at_most() {
        let mut s = Story::new(100, |_| {});
        s.segments(200_000, 3..10);
        s.until(300_000);
        assert_eq!(s.acks[3..], [(201_100, 2, Some(9))]);
    }

    #[test]
    fn an_ack_tells_of_44_segments_at_most() {
        let mut s = Story::new(100, |c| c.buffers.receive = Bytes::new(1 << 20));
        s.segments(200_000, 3..3 + 3 + 44 + 1);
        assert_eq!(s.acks.len(), 4, "the 45th that would wait lets go of all");
        assert_eq!(s.acks[3], (200_000, 2, Some(50)));
    }

    // [RFC5681-3.2-2]
    #[test]
    fn a_hole_that_is_filled_is_told_at_once() {
        let mut s = Story::new(100, |_| {});
        s.segments(200_000, 3..8);
        s.segments(200_300, [2]);
        assert_eq!(s.acks[3..], [(200_300, 8, None)]);
        // In order again: every second segment, and no timer is left.
        s.segments(200_400, [8, 9, 10, 11]);
        s.until(220_000);
        assert_eq!(s.acks[4..], [(200_400, 10, None), (200_400, 12, None)]);
    }

    /// Nothing of what it lets through has been read when the window is looked at, so that this
    /// would shrink. Then the ACK is the first of the three. Linux 6.12 in virtual time: after
    /// four segments at once two ACKs followed, and then the timer's.
    #[test]
    fn what_fills_a_part_is_the_first_of_three() {
        let mut s = Story::new(100, |_| {});
        // Segments 2 and 6 are missing.
        s.segments(200_000, [3, 4, 5, 7, 8, 9]);
        assert_eq!(s.acks.len(), 3);
        s.segments(200_200, [2, 10, 11, 12, 13, 14]);
        let at_once: Vec<_> = s.acks[3..].iter().map(|a| (a.1, a.2)).collect();
        assert_eq!(at_once, [(6, Some(9)), (6, Some(10)), (6, Some(11))]);
    }

    #[test]
    fn a_third_block_lets_go_of_what_waits() {
        let mut s = Story::new(100, |_| {});
        s.segments(200_000, [3, 4, 5, 6]);
        assert_eq!(s.acks.len(), 3);
        s.segments(200_100, [8]);
        assert_eq!(s.acks.len(), 3, "two blocks are in any ACK");
        s.segments(200_200, [10]);
        assert_eq!(s.acks[3..], [(200_200, 2, Some(8))], "told before the third came in");
        s.until(220_000);
        assert_eq!(s.acks[4..], [(201_300, 2, Some(10))]);
    }

    #[test]
    fn data_that_comes_twice_is_told_at_once_and_then_all_is_for_a_while() {
        let mut s = Story::new(100, |c| c.receiver.quick_acks = 2);
        s.until(300_000);
        s.segments(300_000, 3..8);
        let before = s.acks.len();
        s.segments(300_100, [0, 8, 9, 10]);
        assert_eq!(s.acks.len() - before, 2, "the duplicate, which tells of what waited, and another quick ACK");
    }

    #[test]
    fn profiles_of_its_time_have_it_and_others_tell_of_each_segment() {
        for (name, acks) in [("linux-6", 4), ("linux-3.13", 40), ("linux-2.6.32", 40), ("macos-10.11", 40)] {
            let config = profile(name).unwrap().resolve().unwrap();
            assert_eq!(config.receiver.compressed_sacks > 0, name == "linux-6");
            let mut s = Story::new(100, |c| c.receiver.compressed_sacks = config.receiver.compressed_sacks);
            s.segments(200_000, 3..43);
            s.until(300_000);
            assert_eq!(s.acks.len(), acks, "{name}");
        }
    }

    proptest! {
        /// For all arrivals: no change stays unreported for longer than the timers allow, and the
        /// ACKs report exactly the data that is there.
        #[test]
        fn nothing_stays_untold(
            arrivals in prop::collection::vec((0u32..40, 0u64..600), 1..200),
            most in 1u32..60,
        ) {
            let mut s = Story::new(20, |c| c.receiver.compressed_sacks = most);
            let mut held = std::collections::BTreeSet::from([0, 1]);
            let mut us = 50_000;
            for (n, gap) in arrivals {
                us += gap;
                s.segments(us, [n]);
                held.insert(n);
                let above = held.iter().zip(0..).any(|(&n, i)| n != i);
                // A twentieth of 20 ms and the slack, while there is a hole; the delayed ACK
                // otherwise.
                let most_us = if above { 1_100 } else { 40_000 };
                let deadline = s.receiver.deadline();
                prop_assert!(deadline.is_never() || deadline <= Time::ZERO + Span::from_us(us + most_us));
            }
            s.until(us + 100_000);
            let in_order = held.iter().zip(0..).take_while(|&(&n, i)| n == i).count() as u32;
            prop_assert_eq!(s.acks.last().map(|a| a.1), Some(in_order));
            prop_assert!(s.receiver.deadline().is_never());
        }
    }
}
