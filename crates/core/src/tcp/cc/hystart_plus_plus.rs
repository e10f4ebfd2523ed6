//! HyStart++: when delay rises, grow four times more slowly for five rounds; leave slow start
//! unless the rise was noise.
//!
//! Source: RFC 9406, with its recommended constants. Differs from HyStart in that it compares a
//! round with the one before it (not with the base delay), looks at no ACK trains, and goes back to
//! slow start when the delay falls again during the conservative phase (CSS). Used for the first
//! slow start of a connection only (section 4.3).
//!
//! Deviates: it counts segments where the RFC counts bytes; a remainder of the division by four is
//! carried over.

use super::{AckSample, Window, micros};

/// Microseconds.
const MIN_RTT_THRESH: u32 = 4_000;
/// Microseconds.
const MAX_RTT_THRESH: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u8 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u8 = 5;
/// Segments of credit from one ACK when the sender does not pace; no limit when it does.
const L: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// Conservative slow start.
    Css,
    /// For the rest of the connection.
    Done,
}

/// The rounds and the phase of RFC 9406.
#[derive(Debug, Clone)]
pub struct HyStartPlusPlus {
    /// Stream offset whose acknowledgement ends the round; zero before the first ACK.
    window_end: u64,
    /// Round-trip times in microseconds; `u32::MAX`: none yet.
    last_round_min_rtt: u32,
    current_round_min_rtt: u32,
    css_baseline_min_rtt: u32,
    rtt_samples: u8,
    css_rounds: u8,
    /// Credit of CSS that did not make a segment yet.
    css_remainder: u8,
    phase: Phase,
    paced: bool,
}

impl HyStartPlusPlus {
    /// `paced`: the sender spaces its segments, so that one ACK may add any number.
    pub fn new(paced: bool) -> HyStartPlusPlus {
        HyStartPlusPlus {
            window_end: 0,
            last_round_min_rtt: u32::MAX,
            current_round_min_rtt: u32::MAX,
            css_baseline_min_rtt: u32::MAX,
            rtt_samples: 0,
            css_rounds: 0,
            css_remainder: 0,
            phase: Phase::SlowStart,
            paced,
        }
    }

    /// Congestion was signalled: standard slow start from now on.
    pub fn stop(&mut self) {
        self.phase = Phase::Done;
    }

    /// Call for each ACK in slow start, before the window grows. Returns how many of `credit`
    /// segments may be added, and sets `w.ssthresh` to `w.cwnd` when it is time to leave.
    pub fn on_ack(&mut self, w: &mut Window, ack: &AckSample, credit: u32) -> u32 {
        if self.phase == Phase::Done {
            return credit;
        }
        if self.window_end == 0 {
            self.window_end = ack.snd_nxt;
        }
        if let Some(rtt) = ack.rtt {
            self.current_round_min_rtt = self.current_round_min_rtt.min(micros(rtt));
            self.rtt_samples = self.rtt_samples.saturating_add(1);
            self.judge();
        }
        let growth = self.growth(credit);
        if ack.snd_una >= self.window_end {
            self.end_round(ack.snd_nxt);
            if self.phase == Phase::Done {
                w.ssthresh = w.cwnd;
                return credit;
            }
        }
        growth
    }

    /// Moves between slow start and CSS by the delays of this round and the last.
    fn judge(&mut self) {
        if self.rtt_samples < N_RTT_SAMPLE {
            return;
        }
        match self.phase {
            Phase::SlowStart if self.last_round_min_rtt != u32::MAX => {
                let threshold = (self.last_round_min_rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.current_round_min_rtt >= self.last_round_min_rtt.saturating_add(threshold) {
                    self.css_baseline_min_rtt = self.current_round_min_rtt;
                    self.css_rounds = 0;
                    self.phase = Phase::Css;
                }
            }
            Phase::Css if self.current_round_min_rtt < self.css_baseline_min_rtt => {
                self.css_baseline_min_rtt = u32::MAX;
                self.phase = Phase::SlowStart;
            }
            _ => {}
        }
    }

    fn growth(&mut self, credit: u32) -> u32 {
        let credit = if self.paced { credit } else { credit.min(L) };
        if self.phase != Phase::Css {
            return credit;
        }
        let quarters = credit.saturating_add(u32::from(self.css_remainder));
        self.css_remainder = (quarters % CSS_GROWTH_DIVISOR) as u8;
        quarters / CSS_GROWTH_DIVISOR
    }

    /// The round in which CSS begins counts as one of its rounds, though it was only part of one.
    fn end_round(&mut self, snd_nxt: u64) {
        self.window_end = snd_nxt;
        self.last_round_min_rtt = self.current_round_min_rtt;
        self.current_round_min_rtt = u32::MAX;
        self.rtt_samples = 0;
        if self.phase == Phase::Css {
            self.css_rounds += 1;
            if self.css_rounds >= CSS_ROUNDS {
                self.phase = Phase::Done;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::rounds::{new_path, sample, window};
    use crate::units::Span;

    /// One round of `acks` ACKs of one segment each, all with the same round-trip time.
    fn round(h: &mut HyStartPlusPlus, w: &mut Window, acks: u64, rtt: Span) {
        let end = h.window_end.max(1_000);
        for i in 1..=acks {
            let mut ack = sample(w);
            ack.rtt = Some(rtt);
            (ack.snd_una, ack.snd_nxt) = (end - acks + i, end);
            if i == acks {
                ack.snd_nxt = end + 1_000;
            }
            let growth = h.on_ack(w, &ack, 1);
            if w.in_slow_start() {
                w.slow_start(&new_path(), growth);
            }
        }
    }

    #[test]
    fn the_threshold_is_an_eighth_of_the_last_round_within_4_and_16_ms() {
        for (last_us, exit_us) in [
            (1_000, 5_000),
            (20_000, 24_000),
            (32_000, 36_000),
            (100_000, 112_500),
            (128_000, 144_000),
            (400_000, 416_000),
        ] {
            for (rtt, css) in [(exit_us - 1, false), (exit_us, true)] {
                let (mut h, mut w) = (HyStartPlusPlus::new(false), window(10));
                round(&mut h, &mut w, 10, Span::from_us(last_us));
                assert_eq!(w.cwnd, 20);
                round(&mut h, &mut w, 20, Span::from_us(rtt));
                assert_eq!(h.phase == Phase::Css, css, "{last_us} us then {rtt} us");
                // Seven ACKs grow by one, from the eighth on (13 ACKs) by a quarter.
                assert_eq!(w.cwnd, if css { 20 + 7 + 13 / 4 } else { 40 });
            }
        }
    }

    #[test]
    fn fewer_than_eight_samples_prove_nothing() {
        let (mut h, mut w) = (HyStartPlusPlus::new(false), window(10));
        round(&mut h, &mut w, 10, Span::from_ms(100));
        round(&mut h, &mut w, 7, Span::from_ms(300));
        assert_eq!(h.phase, Phase::SlowStart);
        assert_eq!(w.cwnd, 27);
    }

    // [RFC9438-4.10-2]
    #[test]
    fn css_ends_slow_start_after_five_rounds() {
        let (mut h, mut w) = (HyStartPlusPlus::new(false), window(16));
        round(&mut h, &mut w, 16, Span::from_ms(100));
        for n in 1..=5 {
            assert!(w.in_slow_start(), "round {n}");
            round(&mut h, &mut w, 16, Span::from_ms(113));
        }
        // 32, then seven and a quarter of nine, then four a round.
        assert_eq!((w.cwnd, w.ssthresh), (32 + 7 + 2 + 4 + 4 + 4 + 4, 57));
        // For good.
        w.ssthresh = 100;
        round(&mut h, &mut w, 16, Span::from_ms(500));
        assert_eq!((w.cwnd, w.ssthresh), (73, 100));
    }

    #[test]
    fn css_returns_to_slow_start_when_the_delay_falls_below_its_baseline() {
        let (mut h, mut w) = (HyStartPlusPlus::new(false), window(16));
        round(&mut h, &mut w, 16, Span::from_ms(100));
        round(&mut h, &mut w, 16, Span::from_ms(113));
        assert_eq!(h.phase, Phase::Css);
        round(&mut h, &mut w, 16, Span::from_us(112_999));
        assert_eq!(h.phase, Phase::SlowStart);
        let before = w.cwnd;
        round(&mut h, &mut w, 16, Span::from_us(112_999));
        assert_eq!(w.cwnd, before + 16);
        // It may find another rise later, and counts the rounds of CSS anew.
        for _ in 0..5 {
            assert!(w.in_slow_start());
            round(&mut h, &mut w, 16, Span::from_ms(140));
        }
        assert!(!w.in_slow_start());
    }

    #[test]
    fn without_pacing_one_ack_adds_at_most_eight_segments() {
        for (paced, expected) in [(false, 8), (true, 64)] {
            let mut w = window(10);
            let ack = sample(&w);
            assert_eq!(HyStartPlusPlus::new(paced).on_ack(&mut w, &ack, 64), expected);
        }
    }
}
