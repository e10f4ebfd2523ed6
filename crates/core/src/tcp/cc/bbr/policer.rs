//! Detection of a policer that drops packets above its rate.

use super::BW_UNIT;
use crate::convert::{low64, saturate32};
use crate::units::{Span, Time};

/// Long-term bandwidth: is a token-bucket policer at work, and at which rate? (Flach et al.,
/// SIGCOMM 2016.)
#[derive(Debug, Clone, Default)]
pub(super) struct Policer {
    since: Time,
    delivered_before: u64,
    /// Lost since then.
    pub(super) lost: u32,
    /// Bandwidth of the last interval, or of the policer if found. Zero: none yet.
    pub(super) bw: u32,
    pub(super) rounds: u32,
    sampling: bool,
    pub(super) found: bool,
}

impl Policer {
    /// Rounds that an interval lasts, at least; four times as many at most.
    const MIN_ROUNDS: u32 = 4;
    /// Rounds for which a policer is believed in.
    pub(super) const USE_ROUNDS: u32 = 48;
    /// Lost per delivered, 1/256: an interval of fewer does not count.
    const LOSS: u64 = 50;
    /// Bandwidths that differ by less than an eighth, or by less than this, are equal: 4 kbit/s in
    /// segments of 1500 bytes.
    const EQUAL_BW: u32 = (4_000 * BW_UNIT / (1500 * 8 * 1_000_000)) as u32;

    fn start_interval(&mut self, now: Time, delivered: u64) {
        self.since = now;
        self.delivered_before = delivered;
        self.lost = 0;
        self.rounds = 0;
    }

    pub(super) fn sample(&mut self, now: Time, delivered: u64, lost: bool, app_limited: bool, round_start: bool) {
        if !self.sampling {
            // The first loss: now the bucket is empty.
            if !lost {
                return;
            }
            self.start_interval(now, delivered);
            self.sampling = true;
        }
        if app_limited {
            *self = Policer::default();
            return;
        }
        self.rounds += u32::from(round_start);
        if self.rounds < Self::MIN_ROUNDS {
            return;
        }
        if self.rounds > 4 * Self::MIN_ROUNDS {
            *self = Policer::default();
            return;
        }
        // An interval ends as it began, with a loss.
        let arrived = delivered - self.delivered_before;
        let elapsed = now.since(self.since);
        if !lost || arrived == 0 || u64::from(self.lost) * 256 < Self::LOSS * arrived || elapsed < Span::from_ms(1) {
            return;
        }
        let elapsed_us = u128::from(elapsed.as_ns() / 1_000);
        let bw = saturate32(low64(u128::from(arrived) * u128::from(BW_UNIT) / elapsed_us));
        let difference = bw.abs_diff(self.bw);
        if self.bw > 0 && (difference <= self.bw / 8 || difference <= Self::EQUAL_BW) {
            self.bw = bw.midpoint(self.bw);
            self.found = true;
            self.rounds = 0;
        } else {
            self.bw = bw;
            self.start_interval(now, delivered);
        }
    }
}
