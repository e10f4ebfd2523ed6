//! Estimate of arrivals in bursts beyond the bandwidth, as where ACKs are aggregated.

use super::BW_UNIT;
use crate::convert::{low64, saturate32};
use crate::tcp::cc::AckSample;
use crate::units::Time;

/// Size of bursts: the most segments acknowledged beyond bandwidth times time, over five to ten
/// rounds.
#[derive(Debug, Clone, Default)]
pub(in crate::tcp::cc) struct Aggregation {
    epoch_start: Time,
    epoch_acked: u32,
    rounds: u8,
    current: u8,
    /// Segments.
    pub(super) extra: [u32; 2],
}

impl Aggregation {
    const WINDOW_ROUNDS: u8 = 5;
    /// An epoch with this many segments is too old.
    const EPOCH_LIMIT: u32 = 1 << 20;
    /// The allowance is worth at most this long.
    const LIMIT_US: u64 = 100_000;

    /// Counting begins at `now`: at the first ACK, and after idle.
    pub(in crate::tcp::cc) fn restart(&mut self, now: Time) {
        self.epoch_start = now;
        self.epoch_acked = 0;
    }

    pub(in crate::tcp::cc) fn update(&mut self, now: Time, ack: &AckSample, bw: u32, cwnd: u32, round_start: bool) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= Self::WINDOW_ROUNDS {
                self.rounds = 0;
                self.current ^= 1;
                self.extra[usize::from(self.current)] = 0;
            }
        }
        let elapsed_us = now.since(self.epoch_start).as_ns() / 1_000;
        let mut expected = saturate32(low64(u128::from(bw) * u128::from(elapsed_us) / u128::from(BW_UNIT)));
        if self.epoch_acked <= expected || self.epoch_acked.saturating_add(ack.delivered) >= Self::EPOCH_LIMIT {
            self.epoch_acked = 0;
            self.epoch_start = now;
            expected = 0;
        }
        self.epoch_acked = self.epoch_acked.saturating_add(ack.delivered).min(Self::EPOCH_LIMIT - 1);
        let extra = self.epoch_acked.saturating_sub(expected).min(cwnd);
        let best = &mut self.extra[usize::from(self.current)];
        *best = extra.max(*best);
    }

    /// Segments on top of the bandwidth-delay product.
    pub(in crate::tcp::cc) fn allowance(&self, bw: u32) -> u32 {
        let limit = saturate32(u64::from(bw) * Self::LIMIT_US / BW_UNIT);
        self.extra[0].max(self.extra[1]).min(limit)
    }
}
