//! CUBIC: the window is a cubic function of the time since the last loss; a loss takes it to 0.7 of
//! its size.
//!
//! Source: RFC 9438. Where the RFC leaves a choice, and in its integer arithmetic, it follows
//! Linux.
//!
//! After a loss the window climbs fast towards `W_max`, the window at which the loss came. It stays
//! near `W_max` and then probes beyond it. The curve depends on time, so it is the same at every
//! round-trip time. Where Reno would be faster (short paths, small windows) the window grows as
//! Reno's with the same backoff.
//!
//! Siblings: Reno has no such curve, backs off by half, and has no fast convergence. Vegas backs
//! off when delay grows, and BBR follows the bandwidth that it measures. CUBIC backs off only on
//! loss and ECN.
//!
//! Valid: for windows up to 2^20 segments.
//!
//! The arithmetic is in integers: segments, time in 1/1024 s, fractions in 1/1024. With `growth =
//! "rfc9438"` the window grows by one segment per `cwnd / (target - cwnd)` acknowledged ones,
//! rounded down, as in Linux. The target is computed anew for each ACK, so rounding errors do not
//! add up.
//!
//! Deviations: From the RFC: the backoff applies to `cwnd`, not to the flight. Section 4.6 allows
//! it, because `cwnd` does not grow while the application limits the sender. No reduction goes
//! below two segments; for ECN echoes section 4.6 goes down to one. A reduction that proves
//! spurious restores `cwnd` and `ssthresh` but starts a new epoch at the restored window; section
//! 4.9 also restores the old epoch. `first_increase` and HyStart are on by default, as in Linux.
//! From Linux: `growth = "linux"`, which the profiles of Linux have, is its arithmetic, with HZ =
//! 250 and an exact cube root.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod linux;
mod rfc9438;

use linux::LinuxCurve;
use rfc9438::RfcCurve;

use super::slow_start::{SlowStart, SlowStartExit};
use super::{AckSample, CaState, CcContext, CongestionControl, Path, Window};
use crate::convert::{round32, saturate16, saturate32};
use crate::units::{Probability, Span, Time};

/// Parameters of CUBIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CubicConfig {
    /// Aggressiveness C, segments per second cubed (RFC 9438 section 5: 0.4).
    pub c: Aggressiveness,
    /// Factor by which a loss multiplies the window (RFC 9438 section 4.6: 0.7).
    pub beta: Probability,
    /// A flow that meets a loss earlier than last time makes room for newer ones (RFC 9438 section
    /// 4.7).
    pub fast_convergence: bool,
    /// Never slower than Reno with the same backoff (RFC 9438 section 4.3).
    pub reno_friendly: bool,
    /// The Reno-friendly estimate grows by a whole segment per round trip once it has reached the
    /// window before the reduction (RFC 9438 section 4.3). Linux never does, so it has no
    /// meaning with `growth = "linux"`.
    pub reno_catch_up: bool,
    /// How the window follows the curve: as RFC 9438 has it, or as Linux computes it, jiffy by
    /// jiffy.
    pub growth: Growth,
    /// Before the first loss, and after a timeout, the window grows by at least one segment per
    /// this many acknowledged segments. 0: by the curve alone (RFC 9438). Linux: 20, five
    /// percent per round trip.
    pub first_increase: u32,
    /// Rule that ends slow start before a loss does. RFC 9438 section 4.10 recommends HyStart++;
    /// Linux has HyStart.
    pub slow_start_exit: SlowStartExit,
}

impl Default for CubicConfig {
    fn default() -> Self {
        CubicConfig {
            // [RFC9438-5.1-1]
            c: Aggressiveness(0.4),
            // [RFC9438-4.6-2]
            beta: Probability::new(0.7).expect("in range"),
            fast_convergence: true,
            reno_friendly: true,
            reno_catch_up: true,
            growth: Growth::Rfc9438,
            first_increase: 20,
            slow_start_exit: SlowStartExit::Hystart,
        }
    }
}

/// How the window follows the curve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// RFC 9438: the curve looks one smoothed round trip ahead, and each ACK looks at it.
    #[default]
    Rfc9438,
    /// Linux (`bictcp_update`): one smallest round trip ahead, by a clock of 4 ms, and not for 28
    /// ms while the window stands still.
    Linux,
}

/// CUBIC's C: a finite number above zero, at most 1000.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Aggressiveness(f64);

impl TryFrom<f64> for Aggressiveness {
    type Error = String;
    fn try_from(c: f64) -> Result<Self, String> {
        // [RFC9438-5.1-2]
        if (0.001..=1000.0).contains(&c) {
            Ok(Aggressiveness(c))
        } else {
            Err(format!("`{c}` is not an aggressiveness: a number from 0.001 to 1000, in segments per second cubed"))
        }
    }
}

impl JsonSchema for Aggressiveness {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Aggressiveness".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "minimum": 0.001, "maximum": 1000 })
    }
}

/// Denominator of fractions and of seconds.
const UNIT: u32 = 1 << 10;
/// So long an epoch is too young for HyStart's samples.
const YOUNG: Span = Span::from_secs(1);

impl CubicConfig {
    /// The control of one connection, at its beginning.
    pub fn build(&self, ctx: &CcContext) -> Cubic {
        let beta = round32(self.beta.get() * f64::from(UNIT));
        Cubic {
            curve: match self.growth {
                Growth::Rfc9438 => {
                    let curve = RfcCurve::new(self.c, self.beta, self.reno_friendly, self.reno_catch_up);
                    Curve::Rfc9438(curve)
                }
                Growth::Linux => Curve::Linux(LinuxCurve::new(self.c, self.beta, self.reno_friendly)),
            },
            w_max: 0,
            slow_start: self.slow_start_exit.build(ctx),
            beta: saturate16(beta.into()),
            first_increase: self.first_increase,
            fast_convergence: self.fast_convergence,
        }
    }
}

/// CUBIC, as one connection has it.
#[derive(Debug, Clone)]
pub struct Cubic {
    curve: Curve,
    /// Window at the last loss, segments, after fast convergence; zero before the first loss and
    /// after a timeout.
    w_max: u32,
    slow_start: SlowStart,
    beta: u16,
    first_increase: u32,
    fast_convergence: bool,
}

#[derive(Debug, Clone)]
enum Curve {
    Rfc9438(RfcCurve),
    Linux(LinuxCurve),
}

impl Cubic {
    /// K of the current epoch.
    pub fn time_to_plateau(&self) -> Span {
        let k = match &self.curve {
            Curve::Rfc9438(curve) => curve.k,
            Curve::Linux(curve) => curve.k,
        };
        Span::from_ns(u64::from(k) * 1_000_000_000 / u64::from(UNIT))
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let credit = self.slow_start.on_ack(w, path, ack);
        match &mut self.curve {
            Curve::Rfc9438(curve) if !ack.cwnd_limited => curve.pause(path.now),
            _ if !ack.cwnd_limited || credit == 0 => {}
            Curve::Rfc9438(curve) => curve.grow(w, path, credit, self.w_max, self.first_increase),
            Curve::Linux(curve) => curve.grow(w, path, credit, self.w_max, self.first_increase),
        }
    }

    fn on_every_ack(&mut self, _: &mut Window, path: &Path, ack: &AckSample) {
        if let (Curve::Linux(curve), Some(rtt)) = (&mut self.curve, ack.rtt) {
            curve.note_rtt(rtt, path.now);
        }
    }

    fn wants_every_ack(&self) -> bool {
        matches!(self.curve, Curve::Linux(_))
    }

    /// Linux (`cubictcp_acked`): round trips of a young epoch may still hold the queue of before
    /// the loss.
    fn slow_start(&mut self, now: Time) -> Option<&mut SlowStart> {
        let is_young = match &self.curve {
            Curve::Rfc9438(c) => !c.epoch_start.is_never() && now.since(c.epoch_start) < YOUNG,
            Curve::Linux(c) => c.is_young(now),
        };
        (!is_young).then_some(&mut self.slow_start)
    }

    fn ssthresh(&mut self, w: &Window, _: &Path) -> u32 {
        self.slow_start.on_reduction();
        match &mut self.curve {
            Curve::Rfc9438(curve) => curve.end_epoch(),
            Curve::Linux(curve) => curve.end_epoch(),
        }
        let share = |numerator: u32, denominator: u32| {
            saturate32(u64::from(w.cwnd) * u64::from(numerator) / u64::from(denominator))
        };
        let beta = u32::from(self.beta);
        // [RFC9438-4.7-1] [RFC9438-4.7-2]
        self.w_max = if self.fast_convergence && w.cwnd < self.w_max { share(UNIT + beta, 2 * UNIT) } else { w.cwnd };
        share(beta, UNIT).max(2)
    }

    fn on_state(&mut self, _: &mut Window, path: &Path, to: CaState) {
        if to == CaState::Loss {
            // Section 4.8: the next epoch starts at its own plateau.
            // [RFC9438-4.8-1]
            self.w_max = 0;
            self.slow_start.on_timeout(path.now);
            if let Curve::Linux(curve) = &mut self.curve {
                curve.reset();
            }
        }
    }

    fn on_restart(&mut self, _: &mut Window, path: &Path, idle: Span) {
        if let Curve::Rfc9438(curve) = &mut self.curve {
            curve.on_restart(idle, path.now);
        }
    }

    fn on_transmission_start(&mut self, _: &mut Window, path: &Path, since_last: Span, _: bool) {
        if let Curve::Linux(curve) = &mut self.curve {
            curve.on_transmission_start(path.now, since_last);
        }
    }
}

/// The integer part of the cube root of numbers below 2^96; bit by bit, since it runs once per
/// epoch.
fn cube_root(x: u128) -> u32 {
    let mut root = 0;
    for bit in (0..32).rev() {
        let next = root | 1 << bit;
        if u128::from(next).pow(3) <= x {
            root = next;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::rounds::{Loss, Network, Run, context, new_path, sample, window};
    use proptest::prelude::*;

    const RTT: Span = Span::from_ms(100);

    /// A control with the window and the path that it is called with.
    struct Connection {
        cubic: Cubic,
        w: Window,
        path: Path,
    }

    impl Connection {
        /// Just after a loss at `w_max`.
        fn after_loss(config: &CubicConfig, w_max: u32) -> Connection {
            let path = Path { srtt: RTT, min_rtt: RTT, ..new_path() };
            let mut connection = Connection { cubic: config.build(&context()), w: window(w_max), path };
            connection.reduce();
            connection
        }

        fn reduce(&mut self) {
            self.path.prior_cwnd = self.w.cwnd;
            self.w.ssthresh = self.cubic.ssthresh(&self.w, &self.path);
            self.w.cwnd = self.w.ssthresh;
        }

        fn rfc(&self) -> &RfcCurve {
            match &self.cubic.curve {
                Curve::Rfc9438(curve) => curve,
                Curve::Linux(_) => panic!("Linux's growth"),
            }
        }

        /// One round trip from `path.now` on: an ACK for every segment of the window, evenly
        /// spaced.
        fn round(&mut self) {
            let (start, srtt, n) = (self.path.now, self.path.srtt, self.w.cwnd);
            for i in 0..n {
                self.path.now = start + srtt.mul_ratio(u64::from(i), u64::from(n));
                self.ack(true);
            }
            self.path.now = start + srtt;
        }

        fn ack(&mut self, cwnd_limited: bool) {
            let ack = AckSample { cwnd_limited, ..sample(&self.w) };
            self.cubic.on_ack(&mut self.w, &self.path, &ack);
        }

        fn restart(&mut self, idle: Span) {
            self.path.now += idle;
            self.cubic.on_restart(&mut self.w, &self.path, idle);
        }
    }

    /// W_cubic and K in floating point, `t` in seconds.
    fn closed_form(w_max: f64, start: f64, t: f64) -> (f64, f64) {
        let k = ((w_max - start) / 0.4).cbrt();
        (0.4 * (t - k).powi(3) + w_max, k)
    }

    // [RFC9438-4.2-1] [RFC9438-4.4-1] [RFC9438-4.5-1] [RFC9438-5.1-1]
    #[test]
    fn the_window_follows_the_closed_form() {
        let config = CubicConfig { reno_friendly: false, ..CubicConfig::default() };
        for w_max in [100, 1_000, 10_000] {
            let mut c = Connection::after_loss(&config, w_max);
            let start = f64::from(c.w.cwnd);
            for _ in 0..250 {
                let (now, cwnd) = (c.path.now, c.w.cwnd);
                let (expected, k) = closed_form(f64::from(w_max), start, now.as_secs_f64());
                assert!((f64::from(cwnd) - expected).abs() <= 2.0, "{w_max}, {now}: {cwnd} is not {expected}");
                c.round();
                let measured = c.cubic.time_to_plateau().as_secs_f64();
                assert!((measured - k).abs() < 2e-3, "{w_max}: K {measured} is not {k}");
            }
            assert!(c.w.cwnd > w_max, "25 s lead past the plateau");
        }
    }

    // [RFC9438-4.2-3]
    #[test]
    fn at_most_half_a_window_more_per_round() {
        // On a path of 5 s the curve rises from 70 to far beyond 105 within one round.
        let mut c = Connection::after_loss(&CubicConfig::default(), 100);
        c.path.srtt = Span::from_secs(5);
        for _ in 0..5 {
            let before = c.w.cwnd;
            c.round();
            assert!(c.w.cwnd <= before + before.div_ceil(2), "{before} to {}", c.w.cwnd);
        }
        assert!(c.w.cwnd > 300);
    }

    // [RFC9438-4.3-1] [RFC9438-4.3-2]
    #[test]
    fn in_the_reno_friendly_region_the_slope_is_alpha() {
        // 10 ms and 40 segments: the curve needs 3.1 s for what Reno does in 0.23 s.
        let mut slopes = Vec::new();
        for reno_catch_up in [false, true] {
            let mut c = Connection::after_loss(&CubicConfig { reno_catch_up, ..CubicConfig::default() }, 40);
            c.path.srtt = Span::from_ms(10);
            let mut run = |rounds: u32| {
                let before = c.w.cwnd;
                for _ in 0..rounds {
                    c.round();
                }
                f64::from(c.w.cwnd - before) / f64::from(rounds)
            };
            let first = run(20);
            run(10);
            slopes.push((first, run(60)));
        }
        // alpha = 3 (1 - 0.7) / (1 + 0.7) = 0.529; after the window before the loss it becomes 1,
        // if so set.
        for (slope, expected) in [(slopes[0].0, 0.529), (slopes[0].1, 0.529), (slopes[1].0, 0.529), (slopes[1].1, 1.0)]
        {
            assert!((slope - expected).abs() < 0.06, "{slope} is not {expected}");
        }
    }

    /// RFC 9438 section 5.1 for C = 0.4 and beta = 0.7: `1.054 (RTT / p) ^ 0.75`.
    ///
    /// In whole segments the plateau is flat for 1.36 s on either side of K, where the curve is
    /// less than a segment away. Under periodic loss every window whose loss falls there
    /// repeats itself: a flow that comes from above keeps a high one, from below a low one. The
    /// function lies in the middle.
    // [RFC9438-5.1-1]
    #[test]
    fn the_mean_window_is_the_response_function() {
        for (n, rtt) in [(10_000, 100u32), (100_000, 40)] {
            let expected = 1.054 * (f64::from(rtt) / 1e3 * n as f64).powf(0.75);
            let from = |start: f64| {
                let mut run = Run::new("cubic", Network { rtt: Span::from_ms(rtt.into()), ..lossy(n) });
                // As after a loss at that window.
                run.w.cwnd = (start * expected) as u32;
                run.w.ssthresh = run.cc.ssthresh(&run.w, &run.path);
                run.w.cwnd = run.w.ssthresh;
                run.mean_window(40, 10)
            };
            let (below, above) = (from(0.7), from(1.3));
            let mean = (below + above) / 2.0;
            assert!(
                below <= expected && expected <= above,
                "1 in {n}, {rtt} ms: {expected} is not in {below}..{above}"
            );
            assert!((mean / expected - 1.0).abs() < 0.05, "1 in {n}, {rtt} ms: {mean} is not {expected}");
        }
    }

    /// Where that is less than Reno's window, CUBIC has Reno's (section 4.3).
    // [RFC9438-4.3-1]
    #[test]
    fn on_short_paths_the_mean_window_is_renos() {
        for n in [200, 1_000, 5_000] {
            let path = Network { rtt: Span::from_ms(10), ..lossy(n) };
            let mean = |name: &str| {
                let mut run = Run::new(name, path.clone());
                run.w.ssthresh = (1.5 * n as f64).sqrt() as u32;
                run.mean_window(10, 20)
            };
            let (reno, cubic) = (mean("reno"), mean("cubic"));
            assert!((cubic / reno - 1.0).abs() < 0.1, "1 in {n}: {cubic} is not {reno}");
        }
    }

    fn lossy(n: u64) -> Network {
        Network { rate: 1_000_000, buffer: 100_000, loss: Loss::Every(n), ..Network::default() }
    }

    // [RFC9438-4.6-1] [RFC9438-4.6-2] [RFC9438-4.7-1] [RFC9438-4.7-2]
    #[test]
    fn fast_convergence_lowers_the_plateau_after_an_early_loss() {
        for (fast_convergence, second) in [(true, 75), (false, 89)] {
            let mut c = Connection::after_loss(&CubicConfig { fast_convergence, ..CubicConfig::default() }, 100);
            assert_eq!((c.cubic.w_max, c.w.cwnd), (100, 70));
            c.w.cwnd = 89;
            c.reduce();
            // 0.7 of 89; the plateau at (1 + 0.7) / 2 of it.
            assert_eq!((c.cubic.w_max, c.w.cwnd), (second, 62));
            // A loss above the plateau counts in full.
            c.w.cwnd = 95;
            c.reduce();
            assert_eq!(c.cubic.w_max, 95);
        }
    }

    /// Linux 6.12, `cubictcp_acked`: in the first second of an epoch a round trip is neither a base
    /// delay nor a sign of a queue.
    #[test]
    fn hystart_takes_no_sample_of_a_young_epoch() {
        for (age_ms, leaves) in [(999, false), (1000, true)] {
            let mut c = Connection::after_loss(&CubicConfig::default(), 100);
            let rtt = |c: &Connection, rtt| AckSample { rtt: Some(rtt), ..sample(&c.w) };
            let first = rtt(&c, RTT);
            c.cubic.pass_every_ack(&mut c.w, &c.path, &first);
            c.ack(true);
            assert_eq!(c.rfc().epoch_start, c.path.now);
            c.path.now += Span::from_ms(age_ms);
            // As after a reduction that was taken back.
            c.w.ssthresh = u32::MAX;
            let late = rtt(&c, RTT.saturating_mul(2));
            for _ in 0..9 {
                c.cubic.pass_every_ack(&mut c.w, &c.path, &late);
            }
            assert_eq!(!c.w.in_slow_start(), leaves, "{age_ms} ms");
        }
    }

    /// RFC 9438 section 4.9.2: a reduction that proves spurious gives the window back, and one that
    /// has grown beyond it stays.
    // [RFC9438-4.9.2-3]
    #[test]
    fn a_spurious_loss_returns_the_window_unless_it_is_larger_by_now() {
        let mut c = Connection::after_loss(&CubicConfig::default(), 100);
        assert_eq!((c.w.cwnd, c.cubic.undo(&c.w, &c.path)), (70, 100));
        c.w.cwnd = 120;
        assert_eq!(c.cubic.undo(&c.w, &c.path), 120);
    }
    // [RFC9438-4.8-1] [RFC9438-4.8-2] [RFC9438-4.10-1]
    #[test]
    fn after_a_timeout_the_curve_starts_at_its_plateau() {
        let mut c = Connection::after_loss(&CubicConfig::default(), 100);
        c.cubic.on_state(&mut c.w, &c.path, CaState::Loss);
        c.w.cwnd = 1;
        while c.w.in_slow_start() {
            c.round();
        }
        c.round();
        assert_eq!(c.cubic.time_to_plateau(), Span::ZERO);
        assert!(c.rfc().origin < 80);
        assert!((70..=72).contains(&c.rfc().w_est), "{}", c.rfc().w_est);
    }

    // [RFC9438-4.2-2] [RFC9438-4.6-3]
    #[test]
    fn idle_and_application_limited_time_does_not_count() {
        let run = |pause: &dyn Fn(&mut Connection)| {
            let mut c = Connection::after_loss(&CubicConfig::default(), 1_000);
            for _ in 0..20 {
                c.round();
            }
            pause(&mut c);
            for _ in 0..20 {
                c.round();
            }
            c.w.cwnd
        };
        let straight = run(&|_| {});
        let idle = run(&|c| c.restart(Span::from_secs(60)));
        let limited = run(&|c| {
            let before = c.w.cwnd;
            for _ in 0..600 {
                c.ack(false);
                c.path.now += RTT;
            }
            c.restart(Span::from_secs(60));
            assert_eq!(c.w.cwnd, before);
        });
        assert!(straight.abs_diff(idle) <= 1, "{straight}, {idle}");
        assert!(straight.abs_diff(limited) <= 1, "{straight}, {limited}");
    }

    // [RFC9438-4.10-2] [RFC9438-5.1-2]
    #[test]
    fn parameters_are_checked() {
        let parse = |text: &str| serde_json::from_str::<CubicConfig>(text).map_err(|e| e.to_string());
        assert_eq!(parse("{}"), Ok(CubicConfig::default()));
        assert!(parse(r#"{"c": 0}"#).unwrap_err().contains("from 0.001 to 1000"));
        assert!(parse(r#"{"c": -1}"#).is_err());
        assert!(parse(r#"{"beta": 1.5}"#).unwrap_err().contains("from 0 to 1"));
        assert!(parse(r#"{"slow_start_exit": "hystart++"}"#).unwrap_err().contains("hystart_plus_plus"));
        assert!(parse(r#"{"fast": true}"#).unwrap_err().contains("fast_convergence"));
        let extreme = parse(r#"{"c": 1000, "beta": 1, "slow_start_exit": "hystart_plus_plus"}"#).unwrap();
        let json = serde_json::to_string(&extreme).unwrap();
        assert_eq!(parse(&json), Ok(extreme));
    }

    #[test]
    fn the_state_is_about_as_small_as_the_kernels() {
        // ICSK_CA_PRIV_SIZE is 104; the kernel has the parameters once for all connections, and no
        // choice of curve.
        assert!(size_of::<Cubic>() <= 128);
    }

    proptest! {
        #[test]
        fn the_cube_root_is_exact(x in 0u128..1 << 96) {
            let root = u128::from(cube_root(x));
            prop_assert!(root * root * root <= x && x < (root + 1).pow(3));
        }
    }
}
