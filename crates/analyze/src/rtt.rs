//! Round trips as the capture shows them, and the timeout a sender of RFC 6298 would have.

/// RTO before the first sample (RFC 6298 section 2.1).
const INITIAL_RTO_NS: u64 = 1_000_000_000;
/// Least `4 RTTVAR` in the estimate shown. Linux's minimum; RFC 6298 has 1 s for the whole timeout, BSDs 30 ms to 1 s: from
/// outside it cannot be known.
const VARIATION_FLOOR_NS: u64 = 200_000_000;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rtt {
    srtt_ns: u64,
    variation_ns: u64,
    pub samples: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Rtt {
    /// A round trip from the capture to the receiver and back.
    pub(crate) fn sample(&mut self, ns: u64) {
        self.min_ns = if self.samples == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.samples += 1;
        self.sum_ns += u128::from(ns);
    }

    /// What the sender's timeout is calculated from (RFC 6298 section 2).
    pub(crate) fn smooth(&mut self, ns: u64) {
        if self.srtt_ns == 0 {
            self.srtt_ns = ns.max(1);
            self.variation_ns = ns / 2;
        } else {
            self.variation_ns = (3 * self.variation_ns + self.srtt_ns.abs_diff(ns)) / 4;
            self.srtt_ns = ((7 * self.srtt_ns + ns) / 8).max(1);
        }
    }

    pub(crate) fn min_ns(&self) -> Option<u64> {
        (self.samples > 0).then_some(self.min_ns)
    }
    pub(crate) fn max_ns(&self) -> Option<u64> {
        (self.samples > 0).then_some(self.max_ns)
    }
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum_ns as f64 / self.samples as f64)
    }
    /// Smoothed; zero before the first sample.
    pub(crate) fn srtt_ns(&self) -> u64 {
        self.srtt_ns
    }
    /// The timeout of a sender that is `near_ns` (there and back) away from the capture, not backed off.
    pub(crate) fn rto_ns(&self, near_ns: u64) -> u64 {
        if self.srtt_ns == 0 {
            return INITIAL_RTO_NS;
        }
        self.srtt_ns + near_ns + (4 * self.variation_ns).max(VARIATION_FLOOR_NS)
    }
    /// The least timeout it can have whatever its minimum: none fires sooner.
    pub(crate) fn rto_least_ns(&self, near_ns: u64) -> u64 {
        if self.srtt_ns == 0 {
            return VARIATION_FLOOR_NS;
        }
        self.srtt_ns + near_ns + 4 * self.variation_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6298 section 2 by hand: 100 ms gives SRTT 100, RTTVAR 50; then 140 ms gives RTTVAR 47.5, SRTT 105.
    #[test]
    fn the_timeout_follows_the_rfc() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto_ns(0), 1_000_000_000);
        rtt.smooth(100_000_000);
        assert_eq!((rtt.srtt_ns(), rtt.rto_least_ns(0)), (100_000_000, 300_000_000));
        rtt.smooth(140_000_000);
        assert_eq!((rtt.srtt_ns(), rtt.rto_least_ns(0), rtt.rto_ns(5)), (105_000_000, 295_000_000, 305_000_005));
    }
}
