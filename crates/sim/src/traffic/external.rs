//! Packets of real programs, from one host to another. Neither end is simulated: what is sent comes
//! in by [`crate::world::World::inject`], and what arrives waits for
//! [`crate::world::World::take_egress`].

use airtcp_core::units::Span;

use super::{Counters, Period, Report};
use crate::books::record::ratio;

/// Packets that came in, and those that arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct External {
    sent: u64,
    received: u64,
    received_bytes: u64,
    delay_sum_ns: u128,
}

impl External {
    pub(crate) fn on_sent(&mut self) {
        self.sent += 1;
    }
    pub(crate) fn on_arrival(&mut self, size: u16, delay: Span) {
        self.received += 1;
        self.received_bytes += u64::from(size);
        self.delay_sum_ns += u128::from(delay.as_ns());
    }
    pub(crate) fn counters(&self) -> Counters {
        Counters {
            sent: self.sent,
            received: self.received,
            received_bytes: self.received_bytes,
            delay_sum_ns: self.delay_sum_ns,
            ..Counters::default()
        }
    }
    pub(crate) fn report(&self, period: &Period, report: &mut Report) {
        let (first, last) = (period.first, period.last);
        let bits = (last.received_bytes - first.received_bytes) as f64 * 8.0;
        report.row.delivered_bps = ratio(bits, period.length.as_secs_f64());
        let delay_ns = (last.delay_sum_ns - first.delay_sum_ns) as f64;
        report.row.delay_mean_ms = ratio(delay_ns * 1e-6, (last.received - first.received) as f64);
    }
}
