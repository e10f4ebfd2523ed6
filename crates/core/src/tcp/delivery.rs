//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation): how fast segments arrive
//! over one flight.

use super::cc::RateSample;
use crate::convert::{low32, saturate32};
use crate::units::{Span, Time};

/// The connection's side.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Segments delivered so far.
    total: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Segments delivered up to here may have been held back by the application.
    app_limited_until: u64,
}

/// The connection's side as it was when a segment was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stamp {
    pub delivered_at: Time,
    first_sent_at: Time,
    /// Low 32 bits of the count.
    delivered: u32,
    /// The sender had no more data.
    app_limited: bool,
}

impl Delivery {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// A segment leaves at `now`, and nothing else is in flight.
    pub(super) fn begin(&mut self, now: Time) {
        self.first_sent_at = now;
        self.delivered_at = now;
    }

    /// For a segment that leaves now.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp {
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            delivered: low32(self.total),
            app_limited: self.is_app_limited(),
        }
    }

    pub(super) fn on_delivered(&mut self, now: Time, segments: u32) {
        if segments > 0 {
            self.total += u64::from(segments);
            self.delivered_at = now;
        }
        if self.app_limited_until != 0 && self.total > self.app_limited_until {
            self.app_limited_until = 0;
        }
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    pub(super) fn mark_app_limited(&mut self, in_flight: u32) {
        self.app_limited_until = (self.total + u64::from(in_flight)).max(1);
    }

    /// A new flight is measured from here on.
    fn begin_flight_at(&mut self, sent_at: Time) {
        self.first_sent_at = sent_at;
    }
}

/// The newest segment that one ACK reports.
#[derive(Debug, Default)]
pub(super) struct NewestReported {
    /// Total before this ACK: unwraps the 32-bit counts of the segments.
    total_before: u64,
    /// When it was sent, and its stamp.
    newest: Option<(Time, Stamp)>,
}

impl NewestReported {
    pub(super) fn new(total_before: u64) -> NewestReported {
        NewestReported { total_before, newest: None }
    }

    pub(super) fn on_delivered(&mut self, sent_at: Time, stamp: Stamp) {
        if self.newest.is_none_or(|(at, newest)| (stamp.delivered, sent_at) >= (newest.delivered, at)) {
            self.newest = Some((sent_at, stamp));
        }
    }

    /// Call after [`Delivery::on_delivered`]. None when nothing was delivered or the interval is
    /// shorter than any round trip, which happens when a retransmission is confused with its
    /// original.
    pub(super) fn sample(&self, now: Time, delivery: &Delivery, min_rtt: Span) -> Option<RateSample> {
        let (sent_at, stamp) = self.newest?;
        let prior = self.total_before - u64::from(low32(self.total_before).wrapping_sub(stamp.delivered));
        let send_phase = sent_at.since(stamp.first_sent_at);
        let ack_phase = now.since(stamp.delivered_at);
        let interval = send_phase.max(ack_phase);
        if interval.is_zero() || (min_rtt != Span::MAX && interval < min_rtt) {
            return None;
        }
        Some(RateSample {
            delivered: saturate32(delivery.total - prior),
            interval,
            prior_delivered: prior,
            app_limited: stamp.app_limited,
        })
    }

    pub(super) fn commit(&self, delivery: &mut Delivery) {
        if let Some((sent_at, _)) = self.newest {
            delivery.begin_flight_at(sent_at);
        }
    }
}
