//! TCP Prague: a scalable control for the Internet, DCTCP without its dependence on short round
//! trips.
//!
//! Source: draft-briscoe-iccrg-prague-congestion-control-04, and where it leaves a choice the
//! reference implementation of the L4S team (net/ipv4/tcp_prague.c, version 0.7, window mode).
//!
//! It smooths the share of marked segments (`alpha`, weight 1/16, 24 bits). Marks reduce the window
//! by `alpha / 2`. The window is a real number: each segment that came without a mark adds its part
//! of a segment per round trip. It does so during reductions, too. The first mark ends slow start
//! and halves the window. A loss halves it. Segments are spaced evenly.
//!
//! With a round trip below `target_rtt` it behaves like a flow with that round trip. It grows
//! slower, by the square of the ratio, and reduces once per `target_rtt`. So flows with 5 and 25 ms
//! get the same rate. This begins `transition_rounds` after slow start.
//!
//! Siblings: `dctcp` stops growing for a round after a mark. It has 10 bits of `alpha` in Linux.
//! Its share follows the round trip.
//!
//! Valid: with `ecn = true`, `ecn_echo = "accurate"` and `ect1 = true`, behind `dualpi2` or CoDel's
//! `ce_threshold`. Behind a queue that marks like one for Reno it takes more than its share.
//! Without ECN it is Reno with pacing.
//!
//! Deviations: the reference has a rate mode for windows up to four segments; this paces by the
//! real window there. It also takes smaller segments, varies its pacing by 3 %, and sends bursts of
//! 0.25 ms (set `tsq_pacing_shift`). A reduction that proves needless is not taken back. There slow
//! start can go on after the first mark if the ACK reports unmarked segments as well.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::SlowStart;
use super::{AckSample, CaState, CcContext, CongestionControl, Path, Window};
use crate::convert::{low64, saturate32};
use crate::units::{DataRate, Span, Time};

/// Parameters of TCP Prague.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PragueConfig {
    /// Round trip below which the share no longer depends on it. The draft: 25 ms. Zero: it always
    /// depends on it.
    pub target_rtt: Span,
    /// Rounds after slow start until then. The reference implementation: 4.
    pub transition_rounds: u32,
    /// Segments per round trip at which it paces at least. 2: reference implementation before
    /// version 0.7, which paces by whole segments. 0: version 0.7, down to 100 kbit/s.
    pub least_paced_window: u32,
}

impl Default for PragueConfig {
    fn default() -> PragueConfig {
        PragueConfig { target_rtt: Span::from_ms(25), transition_rounds: 4, least_paced_window: 0 }
    }
}

/// A segment of the real window.
const ONE: u64 = 1 << 20;
const ALPHA_BITS: u32 = 24;
/// Weight of a round in `alpha`: 1/16.
const SHIFT_G: u32 = 4;
/// Longer round trips never scale the increase.
const LONGEST_SCALED: Span = Span::from_ms(100);
/// Up to here the real window sets the pace, above it also what is in flight.
const SMALL_WINDOW: u64 = 4 * ONE;
/// The least rate at which it paces.
const MIN_BPS: u64 = 100_000;
const MIN_CWND: u32 = 2;

impl PragueConfig {
    /// The control of one connection, at its beginning.
    pub fn build(&self, ctx: &CcContext) -> Prague {
        Prague {
            config: self.clone(),
            window: u64::from(ctx.initial_cwnd.max(1)) * ONE,
            alpha: 0,
            round_end: 0,
            delivered: 0,
            marked: 0,
            alpha_at: Time::ZERO,
            reduced_at: Time::ZERO,
            rounds: 0,
            saw_mark: false,
            in_loss: false,
        }
    }
}

/// TCP Prague, as one connection has it.
#[derive(Debug, Clone)]
pub struct Prague {
    config: PragueConfig,
    /// In segments / 2^20.
    window: u64,
    /// Smoothed share of marked segments, in 2^-24, times 16.
    alpha: u64,
    /// Stream offset that ends the round under way.
    round_end: u64,
    /// Segments delivered since `alpha` was brought up to date, and those of them with a mark.
    delivered: u64,
    marked: u64,
    alpha_at: Time,
    reduced_at: Time,
    /// Since the end of slow start.
    rounds: u32,
    saw_mark: bool,
    in_loss: bool,
}

impl Prague {
    /// The share no longer depends on the round trip.
    fn is_independent(&self, w: &Window) -> bool {
        !w.in_slow_start() && self.rounds >= self.config.transition_rounds
    }

    /// Segments / 2^20 by which a round trip grows the window.
    fn increase(&self, w: &Window, path: &Path) -> u64 {
        let (rtt, target) = (path.srtt, self.config.target_rtt);
        if !self.is_independent(w) || rtt.is_zero() || rtt >= target || rtt > LONGEST_SCALED {
            return ONE;
        }
        let (rtt, target) = (u128::from(rtt.as_ns()), u128::from(target.as_ns()));
        low64(u128::from(ONE) * rtt * rtt / (target * target))
    }

    /// The window of whole segments that goes with the real one.
    fn whole(&self, path: &Path) -> u32 {
        saturate32(self.window.div_ceil(ONE)).max(MIN_CWND).min(path.cwnd_clamp)
    }

    fn halve(&mut self) {
        self.window = (self.window - self.window / 2).max(ONE / 16);
        self.in_loss = true;
    }

    fn grow(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let mut credit = ack.delivered.saturating_sub(ack.marked);
        if ack.marked > 0 && !self.saw_mark {
            self.saw_mark = true;
            self.window -= self.window / 2;
            w.ssthresh = self.whole(path).max(2);
        }
        if credit == 0 || self.in_loss || !ack.cwnd_limited {
            return;
        }
        if w.in_slow_start() {
            credit = w.slow_start(path, credit);
            self.window = u64::from(w.cwnd) * ONE;
        }
        if credit > 0 {
            let more = u128::from(credit) * u128::from(self.increase(w, path)) * u128::from(ONE);
            self.window += low64(more / u128::from(self.window.max(1))).max(u64::from(credit));
            self.window = self.window.min(u64::from(path.cwnd_clamp) * ONE);
        }
    }

    fn end_round(&mut self, w: &Window, path: &Path, ack: &AckSample) {
        let elapsed = path.now.since(self.alpha_at);
        if ack.snd_una < self.round_end || (self.is_independent(w) && elapsed < self.config.target_rtt) {
            return;
        }
        if self.saw_mark {
            self.alpha -= self.alpha >> SHIFT_G;
            self.alpha += (self.marked << ALPHA_BITS) / self.delivered.max(1);
            self.alpha_at = path.now;
        }
        (self.delivered, self.marked, self.round_end) = (0, 0, ack.snd_nxt);
        if !w.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    fn on_mark(&mut self, w: &Window, path: &Path) {
        if self.is_independent(w) && path.now.since(self.reduced_at) < self.config.target_rtt {
            return;
        }
        self.reduced_at = path.now;
        let fall = u128::from(self.alpha >> SHIFT_G) * u128::from(self.window);
        self.window -= low64((fall + (1 << ALPHA_BITS)) >> (ALPHA_BITS + 1)).min(self.window / 2);
        self.window = self.window.max(ONE / 16);
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        self.delivered += u64::from(ack.delivered);
        self.marked += u64::from(ack.marked.min(ack.delivered));
        self.grow(w, path, ack);
        // One segment per ACK in either direction.
        let whole = self.whole(path);
        if w.cwnd > whole {
            w.cwnd -= 1;
            w.ssthresh = w.cwnd.max(2);
        } else if w.cwnd < whole {
            w.cwnd += 1;
        }
        self.end_round(w, path, ack);
    }

    fn slow_start(&mut self, _: Time) -> Option<&mut SlowStart> {
        None
    }

    /// The real window falls by [`CongestionControl::on_state`], and this one follows it.
    fn ssthresh(&mut self, w: &Window, _: &Path) -> u32 {
        w.ssthresh.max(2)
    }

    fn on_state(&mut self, w: &mut Window, path: &Path, to: CaState) {
        match to {
            CaState::Open => self.in_loss = false,
            CaState::Disorder => {}
            CaState::Cwr => self.on_mark(w, path),
            CaState::Recovery => self.halve(),
            CaState::Loss => {
                self.halve();
                w.ssthresh = self.whole(path).max(2);
                w.cwnd = 1;
            }
        }
    }

    fn pacing_rate(&self, w: &Window, path: &Path) -> Option<DataRate> {
        if path.srtt.is_zero() {
            return None;
        }
        let window =
            if self.window <= SMALL_WINDOW { self.window } else { self.window.max(u64::from(path.in_flight) * ONE) };
        let window = window.max(u64::from(self.config.least_paced_window) * ONE);
        let bits = u128::from(window) * u128::from(path.wire_bytes) * 8 * 1_000_000_000;
        let bps = low64(bits / u128::from(path.srtt.as_ns()) / u128::from(ONE));
        let doubled = if w.cwnd < w.ssthresh / 2 { 2 } else { 1 };
        Some(DataRate::from_bps(bps.saturating_mul(doubled).max(MIN_BPS)))
    }

    fn owns_window(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::rounds::{context, new_path, sample, window};

    struct Flow {
        cc: Prague,
        w: Window,
        path: Path,
        una: u64,
    }

    impl Flow {
        /// Past slow start, with a window of `cwnd` and a round trip of `rtt_ms`; long enough that
        /// the target counts.
        fn new(cwnd: u32, rtt_ms: u64) -> Flow {
            let mut cc = PragueConfig::default().build(&context());
            (cc.window, cc.saw_mark, cc.rounds) = (u64::from(cwnd) * ONE, true, 100);
            let path = Path { srtt: Span::from_ms(rtt_ms), now: Time::ZERO + Span::from_secs(1), ..new_path() };
            Flow { cc, w: Window { ssthresh: 2, ..window(cwnd) }, path, una: 0 }
        }

        /// A round trip, ACK by ACK; `marked` of its segments came with a mark.
        fn round(&mut self, marked: u32) {
            let n = self.w.cwnd;
            for i in 0..n {
                self.path.now += self.path.srtt.mul_ratio(1, u64::from(n));
                self.una += 1;
                let ack = AckSample {
                    marked: u32::from(i < marked),
                    snd_una: self.una,
                    snd_nxt: self.una + u64::from(n),
                    ..sample(&self.w)
                };
                self.cc.on_ack(&mut self.w, &self.path, &ack);
            }
        }

        fn alpha(&self) -> f64 {
            (self.cc.alpha >> SHIFT_G) as f64 / f64::from(1 << ALPHA_BITS)
        }
        fn window(&self) -> f64 {
            self.cc.window as f64 / ONE as f64
        }
    }

    /// A segment per round trip from the target on; below it the square of the ratio, so that the
    /// rate of all grows alike.
    #[test]
    fn short_round_trips_grow_by_the_square_of_their_share_of_the_target() {
        for (rtt_ms, per_round) in [(5, 0.04), (10, 0.16), (25, 1.0), (80, 1.0), (200, 1.0)] {
            let mut flow = Flow::new(100, rtt_ms);
            flow.round(0);
            assert!((flow.window() - 100.0 - per_round).abs() < 0.01 * per_round, "{rtt_ms} ms: {}", flow.window());
        }
        // Before the transition it grows as everyone.
        let mut flow = Flow::new(100, 5);
        flow.cc.rounds = 0;
        flow.round(0);
        assert!((flow.window() - 101.0).abs() < 0.02, "{}", flow.window());
    }

    #[test]
    fn alpha_averages_rare_marks_exactly() {
        for (cwnd, marked) in [(100, 1), (1000, 1), (40, 20)] {
            let mut flow = Flow::new(cwnd, 30);
            for _ in 0..150 {
                (flow.w.cwnd, flow.cc.window) = (cwnd, u64::from(cwnd) * ONE);
                flow.round(marked);
            }
            let share = f64::from(marked) / f64::from(cwnd);
            assert!((flow.alpha() / share - 1.0).abs() < 0.01, "{marked} of {cwnd}: {}", flow.alpha());
        }
    }

    /// Half of `alpha` at a mark and half of the window at a loss. The whole window follows by a
    /// segment an ACK.
    #[test]
    fn a_mark_costs_half_of_alpha_and_a_loss_half() {
        let mut flow = Flow::new(100, 30);
        flow.cc.alpha = (1 << (ALPHA_BITS + SHIFT_G)) / 10;
        flow.cc.on_state(&mut flow.w, &flow.path, CaState::Cwr);
        assert!((flow.window() - 95.0).abs() < 1e-3, "{}", flow.window());
        assert_eq!(flow.w.cwnd, 100);
        flow.round(0);
        assert!((95..=97).contains(&flow.w.cwnd), "{}", flow.w.cwnd);
        let before = flow.window();
        flow.cc.on_state(&mut flow.w, &flow.path, CaState::Recovery);
        assert!((flow.window() - before / 2.0).abs() < 1e-3);
        flow.round(0);
        assert!((flow.window() - before / 2.0).abs() < 1e-3, "no growth while losses are repaired");
    }

    /// At 5 ms marks reduce once per 25 ms, so that `alpha` and the reductions are those of a flow
    /// with 25 ms.
    #[test]
    fn short_round_trips_reduce_once_per_target() {
        let mut flow = Flow::new(100, 5);
        flow.cc.alpha = (1 << (ALPHA_BITS + SHIFT_G)) / 10;
        let mut falls = 0;
        for _ in 0..25 {
            let before = flow.cc.window;
            flow.cc.on_state(&mut flow.w, &flow.path, CaState::Cwr);
            falls += u32::from(flow.cc.window < before);
            flow.path.now += Span::from_ms(5);
        }
        assert_eq!(falls, 5);
    }

    #[test]
    fn the_first_mark_ends_slow_start_and_halves_the_window() {
        let mut cc = PragueConfig::default().build(&context());
        let (mut w, path) = (window(10), new_path());
        let mut acks = |cc: &mut Prague, n: u32, marked: u32| {
            for _ in 0..n {
                let ack = AckSample { marked, ..sample(&w) };
                cc.on_ack(&mut w, &path, &ack);
            }
            (w.cwnd, w.in_slow_start())
        };
        assert_eq!(acks(&mut cc, 30, 0), (40, true));
        assert!(!acks(&mut cc, 1, 1).1);
        assert_eq!(cc.window / ONE, 20);
        let (cwnd, _) = acks(&mut cc, 19, 0);
        assert!((20..=22).contains(&cwnd), "{cwnd}");
    }

    #[test]
    fn below_two_segments_the_pace_goes_on_falling() {
        let mut flow = Flow::new(2, 10);
        flow.cc.window = ONE / 2;
        assert_eq!(flow.cc.whole(&flow.path), 2);
        // Half a segment of 1500 bytes per 10 ms.
        assert_eq!(flow.cc.pacing_rate(&flow.w, &flow.path).unwrap().as_bps(), 600_000);
        flow.cc.config.least_paced_window = 2;
        assert_eq!(flow.cc.pacing_rate(&flow.w, &flow.path).unwrap().as_bps(), 2_400_000);
    }

    /// All is marked for a long time: version 0.7 falls to its least rate, older ones to two
    /// segments per round trip.
    #[test]
    fn under_full_marking_the_version_decides() {
        for (least_paced_window, bps) in [(0, MIN_BPS), (2, 2_400_000)] {
            let mut flow = Flow::new(50, 10);
            flow.cc.config.least_paced_window = least_paced_window;
            for _ in 0..400 {
                flow.cc.on_state(&mut flow.w, &flow.path, CaState::Cwr);
                flow.round(u32::MAX);
            }
            assert_eq!(flow.w.cwnd, 2);
            let paced = flow.cc.pacing_rate(&flow.w, &flow.path).unwrap().as_bps();
            assert_eq!(paced, bps);
        }
    }
}
