//! HyStart: ends slow start when delay rises or when the ACK train of a round is as long as the
//! path.
//!
//! Source: Ha and Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55 (2011);
//! constants and the order of the tests as in Linux's CUBIC since 5.5 (2 ms ACK spacing, thresholds
//! in microseconds, whole round trip when paced). Both detectors are on, as there by default.
//! Differs from HyStart++ in that one sign is enough and slow start ends at once; it also runs
//! again after each timeout.
//!
//! It follows net/ipv4/tcp_cubic.c of Linux 6.12 (`cubictcp_acked`, `hystart_update`,
//! `hystart_ack_delay`). The base delay is the smallest round trip of data, not of the SYN, since
//! the connection began or a timeout fired. Every ACK with a round trip counts, also during a
//! reduction: where PRR has the window below `ssthresh`, HyStart may lower `ssthresh` further.
//!
//! Deviates from Linux: a round trip measured by a timestamp alone is no sample, and the pacing
//! rate in the allowance for segmentation offload is that of the default ratios.

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

/// Payload of the largest segment that is handed to a device (`sk_gso_max_size`).
const GSO_MAX_BYTES: u64 = 65_536 - 321;
/// An ACK train may be longer by the time of four such segments, by at most this.
const ACK_DELAY_MAX: Span = Span::from_ms(1);

/// The state of both detectors.
#[derive(Debug, Clone)]
pub struct HyStart {
    round_start: Time,
    /// The last ACK of the train.
    last_ack: Time,
    /// Stream offset whose acknowledgement ends the round; after a timeout what was sent by then,
    /// which the next ACK tells.
    round_end: Option<u64>,
    /// Smallest round trip of data; `Span::MAX` before the first.
    base: Span,
    /// Smallest sample of this round, microseconds.
    round_min_rtt_us: u32,
    samples: u8,
    found: bool,
    paced: bool,
}

impl HyStart {
    /// `paced`: the sender spaces its segments, which stretches an ACK train up to a round trip by
    /// itself.
    pub fn new(paced: bool) -> HyStart {
        HyStart {
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            round_end: Some(0),
            base: Span::MAX,
            round_min_rtt_us: u32::MAX,
            samples: 0,
            found: false,
            paced,
        }
    }

    /// A timeout: learn the base delay anew and look for an exit again.
    pub fn restart(&mut self, now: Time) {
        *self = HyStart { round_start: now, last_ack: now, round_end: None, ..HyStart::new(self.paced) };
    }

    /// Call for each ACK that has a round trip, before the window grows. Sets `w.ssthresh` to
    /// `w.cwnd` when it is time to leave slow start.
    pub fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        self.base = self.base.min(rtt);
        if self.found || !w.in_slow_start() {
            return;
        }
        if ack.snd_una > *self.round_end.get_or_insert(ack.snd_nxt) {
            self.round_start = path.now;
            self.last_ack = path.now;
            self.round_end = Some(ack.snd_nxt);
            self.round_min_rtt_us = u32::MAX;
            self.samples = 0;
        }
        if w.cwnd < LOW_WINDOW {
            return;
        }
        self.found = self.train_fills_path(ack_delay(w, path), path.now) || self.delay_rises(rtt);
        if self.found {
            w.ssthresh = w.cwnd;
        }
    }

    /// A train half a round trip long (a whole one when paced): the data sent back to back fills
    /// the one-way path.
    fn train_fills_path(&mut self, ack_delay: Span, now: Time) -> bool {
        if now.since(self.last_ack) > ACK_SPACING {
            return false;
        }
        self.last_ack = now;
        let threshold = self.base + ack_delay;
        let threshold = if self.paced { threshold } else { threshold.mul_ratio(1, 2) };
        now.since(self.round_start) > threshold
    }

    /// The smallest of at least [`MIN_SAMPLES`] earlier samples and this one exceeds the base delay
    /// by an eighth of it.
    fn delay_rises(&mut self, rtt: Span) -> bool {
        self.round_min_rtt_us = self.round_min_rtt_us.min(micros(rtt));
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        let threshold = self.base.mul_ratio(1, 8).clamp(DELAY_THRESH_MIN, DELAY_THRESH_MAX);
        self.round_min_rtt_us > micros(self.base + threshold)
    }
}

/// Time that segmentation and receive offload may add to a train: that of four of the largest
/// segments at the pacing rate. This rate is twice that of the window in slow start and 1.2 times
/// near its end (`tcp_update_pacing_rate`).
fn ack_delay(w: &Window, path: &Path) -> Span {
    let percent = if w.cwnd < w.ssthresh / 2 { 200 } else { 120 };
    let window = u64::from(w.cwnd) * u64::from(path.mss);
    path.srtt.mul_ratio(4 * 100 * GSO_MAX_BYTES, (percent * window).max(1)).min(ACK_DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::rounds::{new_path, sample, window};

    fn feed(h: &mut HyStart, w: &mut Window, path: &Path, rtt: Span, snd_una: u64, snd_nxt: u64) {
        let ack = AckSample { rtt: Some(rtt), snd_una, snd_nxt, ..sample(w) };
        h.on_ack(w, path, &ack);
    }

    /// One ACK teaches `base`. Then `n` ACKs of one round, `gap` apart, each with `rtt`; true if
    /// slow start ended.
    fn train(cwnd: u32, paced: bool, n: u64, gap: Span, rtt: Span, base: Span) -> bool {
        let mut h = HyStart::new(paced);
        let mut w = window(cwnd);
        let mut path = Path { srtt: base, ..new_path() };
        feed(&mut h, &mut w, &path, base, 10, 1_000);
        for i in 0..n {
            path.now = Time::from_ns(1_000_000_000) + gap.saturating_mul(i);
            feed(&mut h, &mut w, &path, rtt, 1_001 + i, 1_000_000);
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
        // A train longer than half of round trip and allowance; paced: longer than all of both.
        assert!(!train(60, false, 51, ms(1), base, base));
        assert!(train(60, false, 52, ms(1), base, base));
        assert!(!train(60, true, 102, ms(1), base, base));
        assert!(train(60, true, 103, ms(1), base, base));
    }

    /// Linux 6.12, `hystart_ack_delay`: 1 ms, or the time of four of the largest segments at the
    /// pacing rate if that is less.
    #[test]
    fn a_train_may_be_longer_by_the_allowance_for_offload() {
        let path = Path { srtt: Span::from_ms(10), ..new_path() };
        let delay = |cwnd, ssthresh| ack_delay(&Window { ssthresh, ..window(cwnd) }, &path);
        assert_eq!(delay(100, u32::MAX), Span::from_ms(1));
        // Twice 10 000 segments in 10 ms.
        let rate = 2 * 10_000 * u64::from(path.mss) * 100;
        assert_eq!(delay(10_000, u32::MAX), Span::from_ns(4 * GSO_MAX_BYTES * 1_000_000_000 / rate));
        // From half of ssthresh on 1.2 times.
        assert_eq!(delay(10_000, 20_000), Span::from_ns(4 * GSO_MAX_BYTES * 1_000_000_000 / (rate * 6 / 10)));
        assert_eq!(ack_delay(&window(20), &new_path()), Span::ZERO, "no round trip is known");
    }

    /// `path.min_rtt` is that of a SYN, which fills no line; the base is that of data.
    #[test]
    fn the_base_delay_is_that_of_data_and_ends_with_a_timeout() {
        let mut h = HyStart::new(false);
        let mut w = window(20);
        let path = Path { srtt: Span::from_ms(30), min_rtt: Span::from_ms(10), ..new_path() };
        for i in 0..40 {
            feed(&mut h, &mut w, &path, Span::from_ms(30), 10, 20 + i);
        }
        assert!(w.in_slow_start(), "20 ms above the SYN are no rise");
        feed(&mut h, &mut w, &path, Span::from_ms(10), 10, 100);
        assert_eq!(h.base, Span::from_ms(10));
        h.restart(path.now);
        for i in 0..40 {
            feed(&mut h, &mut w, &path, Span::from_ms(30), 10, 100 + i);
        }
        assert!(w.in_slow_start(), "after a timeout the base is learnt anew");
        assert_eq!(h.base, Span::from_ms(30));
    }

    /// Outside slow start a round trip still teaches the base.
    #[test]
    fn the_base_delay_is_learnt_outside_slow_start_too() {
        let mut h = HyStart::new(false);
        let mut w = Window { ssthresh: 20, ..window(30) };
        feed(&mut h, &mut w, &new_path(), Span::from_ms(10), 10, 100);
        assert_eq!((h.base, w.ssthresh), (Span::from_ms(10), 20));
    }

    /// Linux 6.12, `hystart_update`: `bictcp_hystart_reset` comes before the test of
    /// `hystart_low_window`.
    #[test]
    fn rounds_go_on_below_the_low_window() {
        let ms = Span::from_ms;
        let mut h = HyStart::new(false);
        let mut w = window(10);
        let mut path = Path { srtt: ms(40), ..new_path() };
        // A round of a small window begins at 100 ms, after one at 0.
        feed(&mut h, &mut w, &path, ms(40), 10, 100);
        path.now = Time::ZERO + ms(100);
        feed(&mut h, &mut w, &path, ms(40), 101, 200);
        // The window passes 16 within it; its train is 1 ms long, not 101.
        w.cwnd = 16;
        path.now = Time::ZERO + ms(101);
        feed(&mut h, &mut w, &path, ms(40), 110, 250);
        assert!(w.in_slow_start());
        assert_eq!((h.round_start, h.round_end), (Time::ZERO + ms(100), Some(200)));
    }

    /// Linux 6.12, `cubictcp_state`: what was sent by the time of a timeout is a round, which
    /// begins then.
    #[test]
    fn a_timeout_begins_a_round_of_what_was_sent() {
        let mut h = HyStart::new(false);
        let mut w = window(20);
        let mut path = Path { srtt: Span::from_ms(40), ..new_path() };
        h.restart(Time::ZERO + Span::from_ms(7));
        path.now = Time::ZERO + Span::from_ms(500);
        feed(&mut h, &mut w, &path, Span::from_ms(40), 50, 100);
        feed(&mut h, &mut w, &path, Span::from_ms(40), 100, 300);
        assert_eq!((h.round_start, h.round_end), (Time::ZERO + Span::from_ms(7), Some(100)));
        feed(&mut h, &mut w, &path, Span::from_ms(40), 101, 300);
        assert_eq!((h.round_start, h.round_end), (path.now, Some(300)));
    }

    #[test]
    fn a_new_round_forgets_the_train_and_the_samples() {
        let mut h = HyStart::new(false);
        let mut w = window(20);
        let mut path = new_path();
        for i in 0..100u64 {
            path.now = Time::from_ns(i * 10_000_000);
            // Eight samples per round: never the ninth. The first teaches the base.
            let rtt = Span::from_ms(if i == 0 { 100 } else { 150 });
            feed(&mut h, &mut w, &path, rtt, 10 + i, 10 + i + 7);
        }
        assert!(w.in_slow_start());
    }
}
