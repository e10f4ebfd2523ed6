//! HyStart: ends slow start when delay rises or when the ACK train of a round is as long as the path.
//!
//! Source: Ha and Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55 (2011); constants and the order of
//! the tests as in Linux's CUBIC since 5.5 (2 ms ACK spacing, thresholds in microseconds, whole round trip when paced).
//! Both detectors are on, as there by default. Differs from HyStart++ in that one sign is enough and slow start ends at
//! once; it also runs again after each timeout.
//!
//! Deviates from Linux: the base delay is the connection's smallest round trip, which a timeout does not reset, and there
//! is no allowance for segmentation offload, which does not exist here.

use super::{AckSample, Path, Window, micros};
use crate::units::{Span, Time};

/// Below this window both detectors rest, segments.
const LOW_WINDOW: u32 = 16;
/// ACKs no further apart than this belong to one train.
const ACK_SPACING: Span = Span::from_ms(2);
/// Samples of a round before its delay counts.
const MIN_SAMPLES: u8 = 8;
const DELAY_THRESH_MIN: Span = Span::from_ms(4);
const DELAY_THRESH_MAX: Span = Span::from_ms(16);

/// The state of both detectors.
#[derive(Debug, Clone)]
pub struct HyStart {
    round_start: Time,
    /// The last ACK of the train.
    last_ack: Time,
    /// Stream offset whose acknowledgement ends the round.
    round_end: u64,
    /// Smallest sample of this round, microseconds.
    round_min_rtt_us: u32,
    samples: u8,
    found: bool,
    paced: bool,
}

impl HyStart {
    /// `paced`: the sender spaces its segments, which stretches an ACK train up to a round trip by itself.
    pub fn new(paced: bool) -> HyStart {
        HyStart {
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            round_end: 0,
            round_min_rtt_us: u32::MAX,
            samples: 0,
            found: false,
            paced,
        }
    }

    /// Look for an exit again, from the next ACK on.
    pub fn restart(&mut self) {
        *self = HyStart::new(self.paced);
    }

    /// Call for each ACK in slow start, before the window grows. Sets `w.ssthresh` to `w.cwnd` when it is time to leave.
    pub fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        if self.found || w.cwnd < LOW_WINDOW || path.min_rtt == Span::MAX {
            return;
        }
        if ack.snd_una > self.round_end {
            self.round_start = path.now;
            self.last_ack = path.now;
            self.round_end = ack.snd_nxt;
            self.round_min_rtt_us = u32::MAX;
            self.samples = 0;
        }
        self.found = self.train_fills_path(path.min_rtt, path.now) || self.delay_rises(path.min_rtt, rtt);
        if self.found {
            w.ssthresh = w.cwnd;
        }
    }

    /// A train half a round trip long (a whole one when paced): the data sent back to back fills the one-way path.
    fn train_fills_path(&mut self, min_rtt: Span, now: Time) -> bool {
        if now.since(self.last_ack) > ACK_SPACING {
            return false;
        }
        self.last_ack = now;
        let path = if self.paced { min_rtt } else { min_rtt.mul_ratio(1, 2) };
        now.since(self.round_start) > path
    }

    /// The smallest of at least [`MIN_SAMPLES`] earlier samples and this one exceeds the base delay by an eighth of it.
    fn delay_rises(&mut self, min_rtt: Span, rtt: Span) -> bool {
        self.round_min_rtt_us = self.round_min_rtt_us.min(micros(rtt));
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        let threshold = min_rtt.mul_ratio(1, 8).clamp(DELAY_THRESH_MIN, DELAY_THRESH_MAX);
        self.round_min_rtt_us > micros(min_rtt + threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::rounds::{new_path, sample, window};

    /// Feeds `n` ACKs, `gap` apart, each with `rtt`, all in one round; true if slow start ended.
    fn train(cwnd: u32, paced: bool, n: u64, gap: Span, rtt: Span, min_rtt: Span) -> bool {
        let mut h = HyStart::new(paced);
        let mut w = window(cwnd);
        let mut path = Path { min_rtt, ..new_path() };
        for i in 0..n {
            path.now = Time::from_ns(1_000_000_000) + gap.saturating_mul(i);
            let mut ack = sample(&w);
            ack.rtt = Some(rtt);
            (ack.snd_una, ack.snd_nxt) = (1_000 + i, 1_000_000);
            h.on_ack(&mut w, &path, &ack);
        }
        assert!(w.ssthresh == u32::MAX || w.ssthresh == cwnd);
        !w.in_slow_start()
    }

    #[test]
    fn exits_on_delay_or_train_and_only_then() {
        let ms = Span::from_ms;
        let far = ms(3); // too far apart to be a train
        let base = ms(100);
        // Threshold: an eighth of the base, 12.5 ms. Nine samples are needed.
        assert!(!train(20, false, 9, far, Span::from_us(112_500), base));
        assert!(train(20, false, 9, far, Span::from_us(112_501), base));
        assert!(!train(20, false, 8, far, ms(200), base));
        // It is at least 4 ms and at most 16 ms.
        assert!(!train(20, false, 9, far, ms(14), ms(10)));
        assert!(train(20, false, 9, far, Span::from_us(14_001), ms(10)));
        assert!(train(20, false, 9, far, Span::from_us(316_001), ms(300)));
        assert!(!train(20, false, 9, far, ms(316), ms(300)));
        // A small window is left alone.
        assert!(!train(15, false, 9, far, ms(200), base));
        // A train longer than half the round trip; paced: longer than all of it.
        assert!(!train(60, false, 51, ms(1), base, base));
        assert!(train(60, false, 52, ms(1), base, base));
        assert!(!train(60, true, 101, ms(1), base, base));
        assert!(train(60, true, 102, ms(1), base, base));
    }

    #[test]
    fn a_new_round_forgets_the_train_and_the_samples() {
        let mut h = HyStart::new(false);
        let mut w = window(20);
        let mut path = Path { min_rtt: Span::from_ms(100), ..new_path() };
        for i in 0..100u64 {
            path.now = Time::from_ns(i * 10_000_000);
            let mut ack = sample(&w);
            ack.rtt = Some(Span::from_ms(150));
            // Eight samples per round: never the ninth.
            (ack.snd_una, ack.snd_nxt) = (10 + i, 10 + i + 7);
            h.on_ack(&mut w, &path, &ack);
        }
        assert!(w.in_slow_start());
    }
}
