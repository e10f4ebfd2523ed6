//! When an ACK of data in order leaves: quick ACKs, the delay of the others, and the segment size
//! that the peer seems to use (net/ipv4/tcp_input.c of Linux 6.18: `tcp_event_data_recv`,
//! `tcp_incr_quickack`, `tcp_measure_rcv_mss`; net/ipv4/tcp_output.c: `tcp_dec_quickack_mode`,
//! `tcp_send_delayed_ack`).
//!
//! Without `quick_acks` a receiver is not Linux's. Then only the segment size counts here.

use crate::packet::{Packet, TcpFlags};
use crate::tcp::TcpConfig;
use crate::tcp::rtt::RttEstimator;
use crate::units::{Span, Time};

/// Longest delay of an ACK (TCP_DELACK_MAX), and of one that no small segment waits for.
const LONGEST_DELAY: Span = Span::from_ms(200);
const LONGEST_DELAY_OF_FULL: Span = Span::from_ms(500);
/// Headers of the smallest segments that tell of the peer's size (TCP_MSS_DEFAULT, TCP_MIN_MSS).
const MSS_DEFAULT: u16 = 536;
const MSS_MIN: u16 = 88;

#[derive(Debug)]
pub(super) struct QuickAcks {
    /// At most so many at a time; 0: none.
    most: u32,
    left: u32,
    /// Delay of an ACK (`ato`); `None`: neither data in order nor a quick ACK yet.
    delay: Option<Span>,
    /// Delay to begin with, and after quick ACKs (TCP_ATO_MIN).
    least_delay: Span,
    /// Data has come of which no ACK has told (ICSK_ACK_SCHED).
    scheduled: bool,
    /// A small segment, or one with PSH, has come of which no ACK has told (ICSK_ACK_PUSHED).
    pub(super) pushed: bool,
    /// When the last data came in order.
    last_data: Time,
    /// Payload bytes of a full segment of the peer, and of the last segment, if that was smaller.
    full_segment: u16,
    last_len: u16,
    /// Retransmission timeout and round trip of this end.
    timeout: Span,
    srtt: Span,
    granularity: Span,
}

impl QuickAcks {
    pub(super) fn new(config: &TcpConfig) -> QuickAcks {
        QuickAcks {
            most: config.receiver.quick_acks,
            left: 0,
            delay: None,
            least_delay: config.receiver.delayed_ack,
            scheduled: false,
            pushed: false,
            last_data: Time::ZERO,
            full_segment: MSS_DEFAULT,
            last_len: 0,
            timeout: config.rto.initial,
            srtt: Span::ZERO,
            granularity: config.rto.granularity,
        }
    }

    /// Linux's rules apply.
    #[inline]
    pub(super) fn is_linux(&self) -> bool {
        self.most > 0
    }

    /// The handshake took so long: an end that sends nothing else has no other round trip.
    pub(super) fn on_handshake(&mut self, rtt: Span, config: &TcpConfig) {
        let mut estimator = RttEstimator::new(config);
        estimator.on_sample(rtt, rtt.round_up_to(config.rto.rtt_tick), true, config);
        self.set_path(estimator.rto(config), rtt);
    }

    /// Timeout and round trip of this end by what it sends.
    pub(super) fn set_path(&mut self, timeout: Span, srtt: Span) {
        (self.timeout, self.srtt) = (timeout, srtt);
    }

    pub(super) fn full_segment(&self) -> u64 {
        u64::from(self.full_segment)
    }

    pub(super) fn last_data(&self) -> Time {
        self.last_data
    }

    /// The next ACK leaves at once.
    #[inline]
    pub(super) fn are_left(&self) -> bool {
        self.left > 0
    }

    /// Data came, wherever it lies.
    #[inline]
    pub(super) fn schedule(&mut self) {
        self.scheduled = true;
    }

    /// `tcp_measure_rcv_mss`, for data that is kept. `segment_len`: of each of those merged.
    #[inline]
    pub(super) fn measure(&mut self, p: &Packet, segment_len: u16, mss: u32) {
        let last = std::mem::take(&mut self.last_len);
        if segment_len >= self.full_segment {
            self.full_segment = crate::convert::saturate16(u64::from(segment_len).min(u64::from(mss)));
            self.pushed |= p.has(TcpFlags::PSH);
            return;
        }
        // With timestamps, the headers of a segment are longer by them.
        let is_remnant = p.has(TcpFlags::PSH) || p.has(TcpFlags::FIN);
        if segment_len >= MSS_DEFAULT || (segment_len >= MSS_MIN && !is_remnant) {
            self.last_len = segment_len;
            if segment_len == last {
                self.full_segment = segment_len;
                return;
            }
        }
        self.pushed = true;
    }

    /// Data came in order, and was measured. `window`: as the last ACK told it.
    #[inline]
    pub(super) fn on_data(&mut self, now: Time, window: u64) {
        let pause = now.since(std::mem::replace(&mut self.last_data, now));
        if !self.is_linux() {
            return;
        }
        let half = self.least_delay.mul_ratio(1, 2);
        match self.delay {
            None => {
                self.add(self.most, window);
                self.delay = Some(self.least_delay);
            }
            Some(delay) if pause <= half => self.delay = Some(delay.mul_ratio(1, 2) + half),
            Some(delay) if pause < delay => {
                self.delay = Some((delay.mul_ratio(1, 2) + pause).min(self.timeout).min(LONGEST_DELAY));
            }
            Some(_) if pause > self.timeout => self.add(self.most, window),
            Some(_) => {}
        }
    }

    /// `tcp_incr_quickack`: no more than the peer can send in half a window.
    fn add(&mut self, most: u32, window: u64) {
        let half = match window / (2 * self.full_segment()) {
            0 => 2,
            segments => segments,
        };
        self.left = self.left.max(crate::convert::saturate32(half.min(u64::from(most))));
    }

    /// `tcp_enter_quickack_mode`.
    pub(super) fn enter(&mut self, most: u32, window: u64) {
        self.add(most.min(self.most), window);
        self.delay = Some(self.least_delay);
    }

    /// The window grows with a segment.
    #[inline]
    pub(super) fn add_one(&mut self) {
        self.left |= u32::from(self.is_linux());
    }

    /// There is little room: the peer need not hear of it at once (`__tcp_select_window`).
    #[inline]
    pub(super) fn clear(&mut self) {
        self.left = 0;
    }

    /// An ACK leaves. Only one that tells of data counts.
    #[inline]
    pub(super) fn on_ack(&mut self) {
        self.pushed = false;
        if std::mem::take(&mut self.scheduled) && self.left > 0 {
            self.left -= 1;
            if self.left == 0 {
                self.delay = Some(self.least_delay);
            }
        }
    }

    /// A delayed ACK waited in vain for more data. `answers`: for an answer of the application.
    pub(super) fn on_missed(&mut self, answers: bool) {
        if let Some(delay) = self.delay.filter(|_| self.is_linux()) {
            self.delay = Some(match answers {
                true => self.least_delay,
                false => (delay + delay).min(self.timeout).min(LONGEST_DELAY),
            });
        }
    }

    /// The wait of an ACK that is delayed (`tcp_send_delayed_ack`, `tcp_delack_max`).
    #[inline]
    pub(super) fn delay(&self, answers: bool) -> Span {
        let least = self.least_delay;
        let Some(delay) = self.delay.filter(|&delay| delay > least && self.is_linux()) else { return least };
        let most = if answers || self.pushed { LONGEST_DELAY } else { LONGEST_DELAY_OF_FULL };
        let most = if self.srtt.is_zero() { most } else { most.min(self.srtt.max(least)) };
        delay.min(most).min(LONGEST_DELAY.saturating_sub(self.granularity))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::packet::{FlowId, Kind};
    use crate::tcp::profile::profile;
    use crate::tcp::{Outputs, Receiver};
    use crate::units::Seq32;

    const MSS: u16 = 1448;

    /// A receiver whose handshake takes 50 ms, so that its timeout is 250 ms (in jiffies 252), and
    /// the window stays as it is. `arrivals`: milliseconds, and the offset of a segment in halves
    /// of a full one, and its length in them. Returns the time of each ACK in milliseconds.
    fn acks(arrivals: impl IntoIterator<Item = (u64, u32, u16)>) -> Vec<u64> {
        let mut config = profile("linux-6").unwrap().resolve().unwrap();
        (config.receiver.window_in_steps, config.timers.wheel, config.timestamps.enabled) = (false, false, false);
        config.connection.packet_bytes = MSS + 40;
        let mut receiver = Receiver::new(FlowId(0), 0, Arc::new(config));
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut out = Outputs::default();
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        p.flags = TcpFlags::SYN;
        receiver.on_packet(at(0), &p, &mut out);
        (p.flags, p.seq) = (TcpFlags::ACK, Seq32(1));
        receiver.on_packet(at(50), &p, &mut out);
        out.packets.clear();
        let mut told = Vec::new();
        let mut note = |out: &mut Outputs, ms| told.extend(out.packets.drain(..).map(|_| ms));
        for (ms, start, len) in arrivals.into_iter().chain([(100_000, 0, 0)]) {
            while receiver.deadline() <= at(ms) {
                let due = receiver.deadline();
                receiver.on_deadline(due, &mut out);
                note(&mut out, due.since(Time::ZERO).as_ns() / 1_000_000);
            }
            if len > 0 {
                (p.seq, p.len) = (Seq32(1 + start * u32::from(MSS / 2)), len * MSS / 2);
                receiver.on_packet(at(ms), &p, &mut out);
                note(&mut out, ms);
            }
        }
        told
    }

    /// Full segments, one a millisecond.
    fn row(from_ms: u64, first: u32, count: u32) -> impl Iterator<Item = (u64, u32, u16)> {
        (0..count).map(move |i| (from_ms + u64::from(i), 2 * (first + i), 2))
    }

    /// Sixteen at the start, then every second. So it is again after a pause that is longer than
    /// the receiver's own timeout, and not after a shorter one (`tcp_event_data_recv`).
    #[test]
    fn sixteen_at_the_start_and_after_a_pause_longer_than_its_own_timeout() {
        let start: Vec<u64> = (100..116).chain([117, 119]).collect();
        assert_eq!(acks(row(100, 0, 20)), start);
        for (pause, quick) in [(250, false), (253, true)] {
            let from = 119 + pause;
            let again = acks(row(100, 0, 20).chain(row(from, 20, 20)));
            let expected: Vec<u64> = match quick {
                true => (from..from + 16).chain([from + 17, from + 19]).collect(),
                false => (0..10).map(|i| from + 1 + 2 * i).collect(),
            };
            assert_eq!(again[18..], expected, "{pause} ms");
        }
    }

    /// Data above a hole is acknowledged at once, and takes none of them.
    #[test]
    fn those_of_the_start_come_with_the_first_data_in_order() {
        let above = acks([(100, 2, 2), (101, 0, 2)].into_iter().chain(row(102, 2, 20)));
        assert_eq!(above[..17], (100..117).collect::<Vec<_>>(), "one above the hole, sixteen in order");
        assert_eq!(above.len(), 17 + 2 + 1, "and the last alone");
    }

    /// An ACK that waited in vain waits twice as long the next time, as far as the round trip of
    /// 50 ms goes. Two segments at most 20 ms apart bring it back.
    #[test]
    fn the_delay_follows_the_gaps() {
        // Segments 18, 19 and so on come alone, 100 ms apart.
        let alone = (0..3).map(|i| (300 + 100 * u64::from(i), 2 * (18 + i), 2));
        let told = acks(row(100, 0, 18).chain(alone));
        assert_eq!(told[17..], [340, 450, 550]);
    }

    /// Two halves of a full segment are one. Two small ones in a row show a smaller full segment
    /// (`tcp_measure_rcv_mss`).
    #[test]
    fn bytes_count_and_a_small_segment_is_acknowledged_when_it_is_read() {
        let halves = [(300, 36, 1), (301, 37, 1), (302, 38, 1), (303, 39, 1), (304, 40, 1)];
        let told = acks(row(100, 0, 18).chain(halves));
        // The first is pushed, and with the second the segments are small ones.
        assert_eq!(told[17..], [300, 302, 304]);
    }
}
