//! Pacing: the instant before which no further segment may leave.

use rand::RngExt;

use super::cc::{CongestionControl, Path, Window};
use super::rtt::RttEstimator;
use super::{Pacing, PacingRtt, TcpConfig};
use crate::rng::Rng;
use crate::units::{Span, Time};

#[derive(Debug)]
pub(super) struct Pacer {
    next_at: Time,
    /// Something is waiting for `next_at`.
    waiting: bool,
    /// Delay of the next segment beyond the time at which it was allowed to leave.
    credit: Span,
    rng: Rng,
}

impl Pacer {
    pub(super) fn new(rng: Rng) -> Pacer {
        Pacer { next_at: Time::ZERO, waiting: false, credit: Span::ZERO, rng }
    }

    /// True if nothing may leave at `now`; the deadline is then the next chance.
    pub(super) fn must_wait(&mut self, now: Time) -> bool {
        self.waiting = now < self.next_at;
        self.waiting
    }

    /// Nothing waits until [`Self::must_wait`] says so again.
    pub(super) fn forget_waiting(&mut self) {
        self.waiting = false;
    }

    pub(super) fn deadline(&self) -> Time {
        if self.waiting { self.next_at } else { Time::NEVER }
    }

    /// Before this no further segment may leave.
    pub(super) fn next_at(&self) -> Time {
        self.next_at
    }

    /// Records that the next segment leaves this long after it was allowed. The gap behind it is
    /// shortened by that time, by half at most (Linux 6.12, net/ipv4/tcp_output.c,
    /// `tcp_update_skb_after_send`).
    pub(super) fn is_late_by(&mut self, late: Span) {
        self.credit = late;
    }

    pub(super) fn stop(&mut self) {
        self.waiting = false;
        self.next_at = Time::ZERO;
    }

    /// A segment of `bytes` on the wire left at `path.now`. A control that has a rate of its own
    /// sets the gap; else it follows from `config` and the round-trip time. `outstanding`: as in
    /// [`bytes_at_pacing_rate`].
    #[allow(clippy::too_many_arguments)]
    pub(super) fn on_send(
        &mut self,
        bytes: u32,
        w: &Window,
        path: &Path,
        outstanding: u32,
        cc: &dyn CongestionControl,
        rtt: &RttEstimator,
        config: &TcpConfig,
    ) {
        self.waiting = false;
        let gap = if let Some(rate) = cc.pacing_rate(w, path) {
            if rate.as_bps() == 0 { Span::ZERO } else { rate.time_for(u64::from(bytes)) }
        } else {
            let full = u64::from(path.wire_bytes);
            let srtt = match config.pacing.rtt {
                PacingRtt::Exact => rtt.srtt(),
                PacingRtt::Ticks => rtt.srtt_in_ticks(),
            };
            match config.pacing.rule {
                Pacing::Off => return,
                Pacing::RttOverCwnd => {
                    // In 2^-16 segments, which spares a division of 128 bits.
                    let window = (u64::from(w.cwnd.max(1)) << 16) | u64::from(cc.cwnd_fraction() >> 16);
                    srtt.mul_ratio(1 << 16, window)
                }
                Pacing::Linux => {
                    let (percent, window) = linux_rate(w, outstanding, config);
                    srtt.mul_ratio(100 * u64::from(bytes), percent * window * full)
                }
            }
        };
        let jitter = config.pacing.jitter.get();
        let gap = if jitter > 0.0 && !gap.is_zero() {
            let factor = 1.0 + jitter * (2.0 * self.rng.random::<f64>() - 1.0);
            Span::from_secs_f64(gap.as_secs_f64() * factor)
        } else {
            gap
        };
        let early = self.credit.min(gap.mul_ratio(1, 2));
        self.credit = self.credit.saturating_sub(early);
        self.next_at = self.next_at.max(path.now) + gap.saturating_sub(early);
    }
}

/// Linux's rate, `percent` of `window` segments per round trip (6.12, net/ipv4/tcp_input.c,
/// `tcp_update_pacing_rate`).
fn linux_rate(w: &Window, outstanding: u32, config: &TcpConfig) -> (u64, u64) {
    let in_slow_start = w.cwnd < w.ssthresh / 2;
    let percent = if in_slow_start { config.pacing.slow_start_percent } else { config.pacing.percent };
    (u64::from(percent.max(1)), u64::from(w.cwnd.max(outstanding).max(1)))
}

/// Payload bytes that pass in `span` at the rate at which Linux would pace, whether anything is
/// paced or not (its `sk_pacing_rate`): that of the control if it has one, else by window and
/// round-trip time. No bound before the first round trip. `outstanding`: segments sent and not
/// cumulatively acknowledged after the last ACK, before any were sent.
pub(super) fn bytes_at_pacing_rate(
    span: Span,
    w: &Window,
    path: &Path,
    outstanding: u32,
    cc: &dyn CongestionControl,
    rtt: &RttEstimator,
    config: &TcpConfig,
) -> u64 {
    if let Some(rate) = cc.pacing_rate(w, path).filter(|rate| rate.as_bps() > 0) {
        // A control's rate is of packets with their headers, the kernel's of payload.
        let (payload, whole) = (u64::from(path.mss), u64::from(path.wire_bytes.max(1)));
        return rate.bytes_in(span).get().saturating_mul(payload) / whole;
    }
    let (percent, window) = linux_rate(w, outstanding, config);
    let per_srtt = (percent * window).saturating_mul(u64::from(path.mss)); // in hundredths of a byte
    let product = per_srtt.saturating_mul(span.as_ns());
    product.checked_div(rtt.srtt().as_ns().saturating_mul(100)).unwrap_or(u64::MAX)
}
