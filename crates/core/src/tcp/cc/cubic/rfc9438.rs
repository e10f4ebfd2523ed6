//! CUBIC's growth as RFC 9438 has it, looked at anew for each ACK.

use super::{Aggressiveness, UNIT, cube_root};
use crate::convert::{round32, saturate16};
use crate::tcp::cc::{Path, Window};
use crate::units::{Probability, Span, Time};

/// C is held in 1/2^16, finer than Linux's 1/2^10, which is 0.1 percent off 0.4.
const C_SHIFT: u32 = 16;
/// From C times time cubed to segments.
const RISE_SHIFT: u32 = C_SHIFT + 3 * UNIT.ilog2();

#[derive(Debug, Clone)]
pub(super) struct RfcCurve {
    /// When this stage of congestion avoidance began, moved forward by pauses; `NEVER` between a
    /// reduction and the first ACK after it.
    pub(super) epoch_start: Time,
    /// Since when the application or the receiver, not the window, has limited the sender; `NEVER`:
    /// it does not.
    paused_at: Time,
    /// Plateau of the curve, segments.
    pub(super) origin: u32,
    /// Time from the start of the epoch to the plateau, 1/1024 s.
    pub(super) k: u32,
    /// Window that Reno with the same backoff would have, segments.
    pub(super) w_est: u32,
    /// Towards the next segment of `w_est`, in 1/1024 of an acknowledged segment.
    w_est_credit: u64,
    c: u32,
    alpha: u16,
    reno_friendly: bool,
    reno_catch_up: bool,
}

impl RfcCurve {
    pub(super) fn new(c: Aggressiveness, beta: Probability, reno_friendly: bool, reno_catch_up: bool) -> RfcCurve {
        let beta = round32(beta.get() * f64::from(UNIT));
        RfcCurve {
            epoch_start: Time::NEVER,
            paused_at: Time::NEVER,
            origin: 0,
            k: 0,
            w_est: 0,
            w_est_credit: 0,
            c: round32(c.0 * f64::from(1 << C_SHIFT)),
            // Section 4.3: 3 (1 - beta) / (1 + beta), rounded.
            alpha: saturate16(((6 * UNIT * (UNIT - beta) + UNIT + beta) / (2 * (UNIT + beta))).into()),
            reno_friendly,
            reno_catch_up,
        }
    }

    pub(super) fn end_epoch(&mut self) {
        self.epoch_start = Time::NEVER;
        self.paused_at = Time::NEVER;
    }

    /// An ACK arrived while the application or the receiver limits the sender.
    pub(super) fn pause(&mut self, now: Time) {
        self.paused_at = self.paused_at.min(now);
    }

    pub(super) fn on_restart(&mut self, idle: Span, now: Time) {
        if self.paused_at.is_never() {
            self.shift_epoch(idle, now);
        }
    }

    fn start_epoch(&mut self, cwnd: u32, w_max: u32, now: Time) {
        self.epoch_start = now;
        // [RFC9438-4.8-2]
        self.w_est = cwnd;
        self.w_est_credit = 0;
        self.origin = w_max.max(cwnd);
        self.k = time_to_cover(self.origin - cwnd, self.c);
    }

    /// W_cubic (RFC 9438 section 4.2), segments.
    // [RFC9438-4.2-1]
    fn curve(&self, elapsed: Span) -> u32 {
        let t = in_units(elapsed);
        let distance = u128::from(t.abs_diff(self.k));
        let rise = (distance * distance * distance * u128::from(self.c)) >> RISE_SHIFT;
        let rise = u32::try_from(rise).unwrap_or(u32::MAX);
        if t < self.k { self.origin.saturating_sub(rise) } else { self.origin.saturating_add(rise) }
    }

    /// W_est (RFC 9438 section 4.3): one ACK's step.
    fn grow_reno_estimate(&mut self, w: &Window, path: &Path, acked: u32) {
        // [RFC9438-4.3-2]
        let caught_up = self.reno_catch_up && self.w_est >= path.prior_cwnd;
        let alpha = if caught_up { UNIT } else { u32::from(self.alpha) };
        self.w_est_credit += u64::from(alpha) * u64::from(acked);
        let per_segment = u64::from(w.cwnd) * u64::from(UNIT);
        let steps = self.w_est_credit / per_segment;
        self.w_est_credit -= steps * per_segment;
        self.w_est = self.w_est.saturating_add(u32::try_from(steps).unwrap_or(u32::MAX));
    }

    pub(super) fn grow(&mut self, w: &mut Window, path: &Path, credit: u32, w_max: u32, first_increase: u32) {
        let now = path.now;
        if !self.paused_at.is_never() {
            self.shift_epoch(now.since(self.paused_at), now);
            self.paused_at = Time::NEVER;
        }
        if self.epoch_start.is_never() {
            self.start_epoch(w.cwnd, w_max, now);
        }
        self.grow_reno_estimate(w, path, credit);
        let elapsed = now.since(self.epoch_start);
        if self.reno_friendly && w.cwnd < self.w_est && self.curve(elapsed) < self.w_est {
            // [RFC9438-4.3-1]
            w.cwnd = self.w_est.min(w.cwnd.saturating_add(credit)).min(path.cwnd_clamp);
            return;
        }
        let mut per = u32::MAX;
        // [RFC9438-4.4-1] [RFC9438-4.5-1]
        let target = self.curve(elapsed + path.srtt);
        if target > w.cwnd {
            // No more than half a window per round trip (section 4.2).
            // [RFC9438-4.2-3]
            per = (w.cwnd / (target - w.cwnd)).max(2);
        }
        if w_max == 0 && first_increase > 0 {
            per = per.min(first_increase.max(2));
        }
        if per < u32::MAX {
            w.increase_additively(path, per, credit);
        }
    }

    /// Time in which the window could not grow does not count (section 4.2): the curve waits.
    // [RFC9438-4.2-2]
    fn shift_epoch(&mut self, by: Span, now: Time) {
        if !self.epoch_start.is_never() {
            self.epoch_start = (self.epoch_start + by).min(now);
        }
    }
}

/// In 1/1024 s; saturates after 48 days.
fn in_units(span: Span) -> u32 {
    // 1024 / 10^9, reduced.
    u32::try_from(span.as_ns().saturating_mul(2) / 1_953_125).unwrap_or(u32::MAX)
}

/// K (RFC 9438 section 4.2): how long the curve takes over `segments`, 1/1024 s. `c` in 1/2^16
/// segments per second cubed.
fn time_to_cover(segments: u32, c: u32) -> u32 {
    cube_root((u128::from(segments) << RISE_SHIFT) / u128::from(c))
}
