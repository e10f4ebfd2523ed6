//! Round trips as the capture shows them, and the timeout a sender of RFC 6298 would have.

use airtcp_core::units::Span;

/// RTO before the first sample (RFC 6298 section 2.1).
const INITIAL_RTO: Span = Span::from_secs(1);
/// Least `4 RTTVAR` in the estimate shown. Linux's minimum; RFC 6298 has 1 s for the whole timeout,
/// BSDs 30 ms to 1 s: from outside it cannot be known.
const VARIATION_FLOOR: Span = Span::from_ms(200);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rtt {
    srtt: Span,
    variation: Span,
    pub samples: u64,
    sum_ns: u128,
    min: Span,
    max: Span,
}

impl Rtt {
    /// A round trip from the capture to the receiver and back.
    pub(crate) fn sample(&mut self, rtt: Span) {
        self.min = if self.samples == 0 { rtt } else { self.min.min(rtt) };
        self.max = self.max.max(rtt);
        self.samples += 1;
        self.sum_ns += u128::from(rtt.as_ns());
    }

    /// Updates the values from which the sender's timeout is calculated (RFC 6298 section 2).
    pub(crate) fn smooth(&mut self, rtt: Span) {
        let least = Span::from_ns(1);
        if self.srtt.is_zero() {
            self.srtt = rtt.max(least);
            self.variation = rtt / 2;
        } else {
            self.variation = (self.variation * 3 + self.srtt.abs_diff(rtt)) / 4;
            self.srtt = ((self.srtt * 7 + rtt) / 8).max(least);
        }
    }

    pub(crate) fn min(&self) -> Option<Span> {
        (self.samples > 0).then_some(self.min)
    }
    pub(crate) fn max(&self) -> Option<Span> {
        (self.samples > 0).then_some(self.max)
    }
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum_ns as f64 / self.samples as f64)
    }
    /// Smoothed; zero before the first sample.
    pub(crate) fn srtt(&self) -> Span {
        self.srtt
    }
    /// The timeout of a sender that is `near` (there and back) away from the capture, not backed
    /// off.
    pub(crate) fn rto(&self, near: Span) -> Span {
        if self.srtt.is_zero() {
            return INITIAL_RTO;
        }
        self.srtt + near + (self.variation * 4).max(VARIATION_FLOOR)
    }
    /// The least timeout it can have whatever its minimum: none fires sooner.
    pub(crate) fn rto_least(&self, near: Span) -> Span {
        if self.srtt.is_zero() {
            return VARIATION_FLOOR;
        }
        self.srtt + near + self.variation * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6298 section 2 by hand: 100 ms gives SRTT 100, RTTVAR 50; then 140 ms gives RTTVAR 47.5,
    /// SRTT 105.
    #[test]
    fn the_timeout_follows_the_rfc() {
        let mut rtt = Rtt::default();
        let (ms, here) = (Span::from_ms, Span::ZERO);
        assert_eq!(rtt.rto(here), ms(1000));
        rtt.smooth(ms(100));
        assert_eq!((rtt.srtt(), rtt.rto_least(here)), (ms(100), ms(300)));
        rtt.smooth(ms(140));
        assert_eq!((rtt.srtt(), rtt.rto_least(here), rtt.rto(ms(5))), (ms(105), ms(295), ms(310)));
    }
}
