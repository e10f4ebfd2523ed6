//! CUBIC's growth as Linux computes it: `bictcp_update` of net/ipv4/tcp_cubic.c, read in 6.12.
//!
//! It differs from RFC 9438 in what one sees packet by packet. The clock is the jiffy. The curve
//! looks the smallest round trip ahead, not the smoothed one. How many segments one more of the
//! window takes (`per`) is found at most once in a jiffy, and not for [`STANDSTILL`] while the
//! window has not changed. Above the curve the window still grows, by a hundredth in a round trip.
//! Reno's window is a bound of `per`, not a window to jump to. Time in which the application limits
//! the sender counts; only time without anything in flight does not. The root in K is exact here;
//! the kernel's is up to 0.2 % off.

use super::{Aggressiveness, UNIT, cube_root};
use crate::convert::{low32, round32, saturate32};
use crate::tcp::cc::{Path, Window, micros};
use crate::units::{Probability, Span, Time};

/// 1/CONFIG_HZ, with HZ = 250, as in Debian's kernels and most others.
const JIFFY: Span = Span::from_ms(4);
const HZ: u32 = 250;
/// HZ / 32 jiffies.
const STANDSTILL: u32 = HZ / 32;
/// Segments of the window for one more in a round trip, above the curve.
const ABOVE: u32 = 100;

/// `struct bictcp`, but for HyStart and the window at the last loss.
#[derive(Debug, Clone)]
pub(super) struct LinuxCurve {
    /// Acknowledged segments that make the window one larger.
    per: u32,
    /// The window of the last look at the curve, and when that was, in jiffies.
    last_cwnd: u32,
    last_look: u32,
    /// Plateau of the curve, segments.
    origin: u32,
    /// From the start of the epoch to the plateau, 1/1024 s.
    pub(super) k: u32,
    /// Smallest round trip since the connection began or a timeout fired, microseconds; 0: none.
    delay_min_us: u32,
    /// In jiffies; `None` between a reduction and the first growth after it.
    epoch_start: Option<u32>,
    /// Acknowledged segments that `w_est` has not grown by.
    acked: u32,
    /// Reno's window with the same backoff.
    w_est: u32,
    /// C in 1/1024 segments per second cubed.
    c: u32,
    /// Eighths of the window that make `w_est` one larger (`beta_scale`); 0: no such window.
    reno_eighths: u32,
}

impl LinuxCurve {
    pub(super) fn new(c: Aggressiveness, beta: Probability, reno_friendly: bool) -> LinuxCurve {
        let beta = round32(beta.get() * f64::from(UNIT));
        LinuxCurve {
            per: 0,
            last_cwnd: 0,
            last_look: 0,
            origin: 0,
            k: 0,
            delay_min_us: 0,
            epoch_start: None,
            acked: 0,
            w_est: 0,
            c: round32(c.0 * f64::from(UNIT)).max(1),
            reno_eighths: if reno_friendly { 8 * (UNIT + beta) / 3 / (UNIT - beta).max(1) } else { 0 },
        }
    }

    /// A timeout fired (`bictcp_reset`).
    pub(super) fn reset(&mut self) {
        *self = LinuxCurve {
            per: 0,
            last_cwnd: 0,
            last_look: 0,
            origin: 0,
            k: 0,
            delay_min_us: 0,
            epoch_start: None,
            acked: 0,
            w_est: 0,
            ..*self
        };
    }

    pub(super) fn end_epoch(&mut self) {
        self.epoch_start = None;
    }

    /// An epoch is under way that is younger than a second: its round trips may still hold the
    /// queue of before the loss.
    pub(super) fn is_young(&self, now: Time) -> bool {
        self.epoch_start.is_some_and(|start| jiffies(now).wrapping_sub(start) < HZ)
    }

    /// An ACK measured a round trip.
    pub(super) fn note_rtt(&mut self, rtt: Span, now: Time) {
        if self.is_young(now) {
            return;
        }
        let us = micros(rtt).max(1);
        if self.delay_min_us == 0 || us < self.delay_min_us {
            self.delay_min_us = us;
        }
    }

    /// Data leaves `since_last` after the last, with nothing in flight (CA_EVENT_TX_START).
    pub(super) fn on_transmission_start(&mut self, now: Time, since_last: Span) {
        // [RFC9438-4.2-2]
        let idle = jiffies(now) - jiffies(now - since_last);
        self.epoch_start = self.epoch_start.map(|start| start.saturating_add(idle).min(jiffies(now)));
    }

    /// `cubictcp_cong_avoid` outside slow start. `w_max`: the window at the last loss.
    pub(super) fn grow(&mut self, w: &mut Window, path: &Path, credit: u32, w_max: u32, first_increase: u32) {
        self.update(w.cwnd, jiffies(path.now), credit, w_max, first_increase);
        w.increase_additively(path, self.per, credit);
    }

    /// `bictcp_update`.
    fn update(&mut self, cwnd: u32, now: u32, credit: u32, w_max: u32, first_increase: u32) {
        self.acked = self.acked.saturating_add(credit);
        if self.last_cwnd == cwnd && now.wrapping_sub(self.last_look) <= STANDSTILL {
            return;
        }
        if self.epoch_start.is_none() || now != self.last_look {
            self.look_at_curve(cwnd, now, credit, w_max, first_increase);
        }
        self.keep_up_with_reno(cwnd);
        // No more than half a window per round trip.
        // [RFC9438-4.2-3]
        self.per = self.per.max(2);
    }

    fn look_at_curve(&mut self, cwnd: u32, now: u32, credit: u32, w_max: u32, first_increase: u32) {
        (self.last_cwnd, self.last_look) = (cwnd, now);
        let start = *self.epoch_start.get_or_insert_with(|| {
            (self.acked, self.w_est) = (credit, cwnd);
            self.origin = w_max.max(cwnd);
            // 2^40 for C in 1/1024 and time in 1/1024 s.
            let factor = (1u64 << 40) / u64::from(self.c);
            self.k = cube_root(u128::from(factor) * u128::from(self.origin - cwnd));
            now
        });
        let ahead = u64::from(self.delay_min_us).div_ceil(JIFFY.as_ns() / 1_000);
        let t = (u64::from(now.wrapping_sub(start)) + ahead) * u64::from(UNIT) / u64::from(HZ);
        let distance = u128::from(t.abs_diff(u64::from(self.k)));
        let rise = u32::try_from((u128::from(self.c) * distance.pow(3)) >> 40).unwrap_or(u32::MAX);
        // [RFC9438-4.2-1] [RFC9438-4.4-1] [RFC9438-4.5-1]
        let target =
            if t < u64::from(self.k) { self.origin.saturating_sub(rise) } else { self.origin.saturating_add(rise) };
        self.per = if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(ABOVE) };
        if w_max == 0 && first_increase > 0 {
            self.per = self.per.min(first_increase);
        }
    }

    // [RFC9438-4.3-1] [RFC9438-4.3-2]
    fn keep_up_with_reno(&mut self, cwnd: u32) {
        if self.reno_eighths == 0 {
            return;
        }
        let step = saturate32((u64::from(cwnd) * u64::from(self.reno_eighths)) >> 3).max(1);
        // While more than a step is left.
        let steps = self.acked.saturating_sub(1) / step;
        self.acked -= steps * step;
        self.w_est = self.w_est.saturating_add(steps);
        if self.w_est > cwnd {
            self.per = self.per.min(cwnd / (self.w_est - cwnd));
        }
    }
}

/// Since the clock began, modulo 2^32.
fn jiffies(at: Time) -> u32 {
    low32(at.as_ns() / JIFFY.as_ns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::rounds::{new_path, window};

    const W_MAX: u32 = 1_000;

    fn at(ms: u64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }

    fn curve(delay_min: Span) -> LinuxCurve {
        let c = Aggressiveness(0.4);
        let mut curve = LinuxCurve::new(c, Probability::new(0.7).unwrap(), false);
        curve.note_rtt(delay_min, at(0));
        curve
    }

    /// `per` after an ACK at `ms` with that window, the epoch having begun with the first.
    fn per(curve: &mut LinuxCurve, cwnd: u32, ms: u64) -> u32 {
        curve.update(cwnd, jiffies(at(ms)), 1, W_MAX, 0);
        curve.per
    }

    /// By hand: K is the root of 2^40 / 410 * 300, 9300 / 1024 s. After a second and 100 ms ahead,
    /// t is 1126, the curve at 797.
    #[test]
    fn the_curve_is_looked_at_one_smallest_round_trip_ahead() {
        let mut ahead = curve(Span::from_ms(100));
        ahead.note_rtt(Span::from_ms(300), at(0));
        per(&mut ahead, 700, 4_000);
        assert_eq!(ahead.k, 9_300);
        assert_eq!(per(&mut ahead, 700, 5_000), 700 / (797 - 700));
        // The round trip counts in whole jiffies, rounded up: 101 to 104 ms are the same.
        let of = |ms| {
            let mut curve = curve(Span::from_ms(ms));
            per(&mut curve, 990, 4_000);
            (0..200).map(|i| per(&mut curve, 990 - i % 2, 8_000 + u64::from(i) * 40)).collect::<Vec<_>>()
        };
        assert_eq!(of(101), of(104));
        assert_ne!(of(104), of(105));
    }

    #[test]
    fn a_window_that_stands_still_is_looked_at_every_32_ms() {
        let mut c = curve(Span::from_ms(10));
        let first = per(&mut c, 700, 4_000);
        assert_eq!(per(&mut c, 700, 4_028), first, "seven jiffies: HZ / 32");
        assert!(per(&mut c, 700, 4_032) < first, "the curve has risen");
        let second = per(&mut c, 701, 4_036);
        assert_ne!(second, first, "a window that has changed is looked at in the next jiffy");
        assert_eq!(per(&mut c, 702, 4_039), second, "but not within one");
    }

    #[test]
    fn above_the_curve_the_window_grows_by_a_hundredth_in_a_round_trip() {
        let mut c = curve(Span::from_ms(10));
        per(&mut c, 700, 4_000);
        assert_eq!(per(&mut c, 900, 4_100), 90_000);
        let mut w = window(900);
        let path = crate::tcp::cc::Path { now: at(4_104), ..new_path() };
        c.grow(&mut w, &path, 45_000, W_MAX, 0);
        assert_eq!((w.cwnd, w.cwnd_cnt), (900, 45_000));
        c.grow(&mut w, &path, 45_000, W_MAX, 0);
        assert_eq!((w.cwnd, w.cwnd_cnt), (901, 0));
    }

    #[test]
    fn renos_window_is_a_bound_on_the_segments_for_one_more() {
        let mut c = LinuxCurve::new(Aggressiveness(0.4), Probability::new(0.7).unwrap(), true);
        assert_eq!(c.reno_eighths, 15, "beta_scale");
        c.update(100, 1_000, 1, 100, 0);
        // One more of Reno's for 187 acknowledged segments, once there are more than that.
        c.update(100, 1_010, 187, 100, 0);
        assert_eq!((c.w_est, c.acked), (101, 1));
        assert_eq!(c.per, 100);
        c.update(100, 1_020, 187 * 3, 100, 0);
        assert_eq!((c.w_est, c.per), (104, 25));
    }

    #[test]
    fn time_without_anything_in_flight_does_not_count() {
        // [RFC9438-4.2-2]
        let mut c = curve(Span::from_ms(10));
        per(&mut c, 700, 4_000);
        c.on_transmission_start(at(64_100), Span::from_secs(60));
        let mut straight = curve(Span::from_ms(10));
        per(&mut straight, 700, 4_000);
        assert_eq!(per(&mut c, 710, 65_000), per(&mut straight, 710, 5_000));
        c.on_transmission_start(at(65_000), Span::from_secs(200));
        assert_eq!(c.epoch_start, Some(jiffies(at(65_000))), "never later than now");
    }

    #[test]
    fn a_timeout_forgets_the_path_and_a_young_epoch_learns_nothing() {
        let mut c = curve(Span::from_ms(10));
        c.reset();
        assert_eq!((c.delay_min_us, c.epoch_start), (0, None));
        c.note_rtt(Span::from_ms(30), at(4_000));
        per(&mut c, 700, 4_000);
        c.note_rtt(Span::from_ms(20), at(4_999));
        assert_eq!(c.delay_min_us, 30_000);
        c.note_rtt(Span::from_ms(20), at(5_000));
        assert_eq!(c.delay_min_us, 20_000);
    }
}
