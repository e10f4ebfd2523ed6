//! Delivery-rate estimation (draft-cheng-iccrg-delivery-rate-estimation): how fast segments arrive over one flight.

use super::cc::RateSample;
use super::scoreboard::{SegFlags, Segment};
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

impl Delivery {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Stamps a segment that leaves at `now`.
    pub(super) fn on_send(&mut self, now: Time, segment: &mut Segment, nothing_in_flight: bool) {
        if nothing_in_flight {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        segment.first_sent_at = self.first_sent_at;
        segment.delivered_at = self.delivered_at;
        segment.delivered = low32(self.total);
        segment.flags.remove(SegFlags::APP_LIMITED);
        if self.app_limited_until > self.total {
            segment.flags |= SegFlags::APP_LIMITED;
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
    newest: Option<Segment>,
}

impl NewestReported {
    pub(super) fn new(total_before: u64) -> NewestReported {
        NewestReported { total_before, newest: None }
    }

    pub(super) fn on_delivered(&mut self, s: &Segment) {
        let later = |n: &Segment| (s.delivered, s.sent_at) >= (n.delivered, n.sent_at);
        if self.newest.as_ref().is_none_or(later) {
            self.newest = Some(*s);
        }
    }

    /// Call after [`Delivery::on_delivered`]. None when nothing was delivered or the interval is shorter than any round
    /// trip, which happens when a retransmission is confused with its original.
    pub(super) fn sample(&self, now: Time, delivery: &Delivery, min_rtt: Span) -> Option<RateSample> {
        let s = self.newest.as_ref()?;
        let prior = self.total_before - u64::from(low32(self.total_before).wrapping_sub(s.delivered));
        let send_phase = s.sent_at.since(s.first_sent_at);
        let ack_phase = now.since(s.delivered_at);
        let interval = send_phase.max(ack_phase);
        if interval.is_zero() || (min_rtt != Span::MAX && interval < min_rtt) {
            return None;
        }
        Some(RateSample {
            delivered: saturate32(delivery.total - prior),
            interval,
            prior_delivered: prior,
            app_limited: s.has(SegFlags::APP_LIMITED),
        })
    }

    pub(super) fn commit(&self, delivery: &mut Delivery) {
        if let Some(s) = &self.newest {
            delivery.begin_flight_at(s.sent_at);
        }
    }
}
