//! The rate of a line over time: what radio and cable do to a line that IP sees as a wire.
//!
//! A rate holds from its point until the next one. A packet on the line when the rate changes goes
//! on with the new rate: its transmission ends when as many bits have passed as it has. So a rate
//! of zero is an outage, during which a packet stays where it is. The end is exact: rounded up to a
//! nanosecond once, as on a line without a trace.
//!
//! A trace may also be a list of instants at which 1500 bytes can pass, the lines of a trace file
//! of mahimahi (Netravali et al., USENIX ATC 2015). Each becomes 12 Mbit/s during the millisecond
//! that ends there. Mahimahi lets as many whole packets go at the instant as fit into its 1500
//! bytes, and loses what nobody uses. Here the bits of a packet pass one after the other, which is
//! the same to within that millisecond.

use airtcp_core::convert::{floor64, saturate64};
use airtcp_core::units::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fastest rate of a point, Mbit/s.
const FASTEST: f64 = 1e6;
/// Latest time of a point, s.
const LATEST_S: f64 = 1e9;
/// 1500 bytes in a millisecond, bit/s.
const ONE_DELIVERY: u64 = 12_000_000;
const MS: Span = Span::from_ms(1);

/// The rate of a line over time. The line's `rate` stays what queue disciplines and rules of buffer
/// sizing calculate with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RateTrace")]
pub struct RateTraceConfig {
    /// Pairs of time in seconds and rate in Mbit/s, times ascending. A rate holds until the next
    /// point; the first also before it, and the last after it. A rate of 0 is an outage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<[f64; 2]>,
    /// Start again with the first point at the time of the last one. The rate of the last point
    /// then does not matter.
    pub repeat: bool,
    /// Instead of points: milliseconds at which 1500 bytes can pass, ascending, one number for
    /// each. They are the lines of a trace file of mahimahi (`paste -sd,` makes one list of them).
    /// The list starts again at its last instant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deliveries_ms: Vec<u32>,
}

/// A key of a [`RateTraceConfig`], the place in its list, and what is wrong there.
pub(crate) type Fault = (&'static str, Option<usize>, String);

impl RateTraceConfig {
    pub(crate) fn build(&self) -> Result<RateTrace, Fault> {
        match (self.points.is_empty(), self.deliveries_ms.is_empty()) {
            (true, true) => Err(("points", None, "missing; needs `points` or `deliveries_ms`".into())),
            (false, false) => {
                Err(("deliveries_ms", None, "must be left out with `points`: give one of the two".into()))
            }
            (false, true) => self.steps(),
            (true, false) => self.deliveries(),
        }
    }

    fn steps(&self) -> Result<RateTrace, Fault> {
        let fault = |i: usize, message: String| Err(("points", Some(i), message));
        let mut points: Vec<(Time, u64)> = Vec::with_capacity(self.points.len());
        for (i, &[t, mbps]) in self.points.iter().enumerate() {
            if !(0.0..=LATEST_S).contains(&t) {
                return fault(i, format!("time {t}: must be from 0 to {LATEST_S} s"));
            }
            let bps = floor64((mbps * 1e6).round());
            if !(0.0..=FASTEST).contains(&mbps) || (bps == 0 && mbps > 0.0) {
                return fault(i, format!("rate {mbps}: must be 0, or from 0.000001 to {FASTEST} Mbit/s"));
            }
            let at = Time::ZERO + Span::from_secs_f64(t);
            if points.last().is_some_and(|&(before, _)| before >= at) {
                let before = self.points[i - 1][0];
                return fault(i, format!("time {t}: must be later than that of the point before ({before})"));
            }
            points.push((at, bps));
        }
        let count = points.len();
        if self.repeat && count < 2 {
            return Err(("repeat", None, "true: needs at least two `points`, whose times say the period".into()));
        }
        if self.repeat && points[..count - 1].iter().all(|&(_, bps)| bps == 0) {
            return Err(("points", None, "no rate above 0 before the last point: nothing would ever pass".into()));
        }
        if !self.repeat && points[count - 1].1 == 0 {
            return fault(
                count - 1,
                "rate 0 at the end: must be above 0, as it holds for ever without `repeat`".into(),
            );
        }
        Ok(RateTrace::new(points, self.repeat))
    }

    fn deliveries(&self) -> Result<RateTrace, Fault> {
        if self.repeat {
            return Err(("repeat", None, "must be left out with `deliveries_ms`, which always start again".into()));
        }
        let all = &self.deliveries_ms;
        if let Some(i) = all.windows(2).position(|w| w[0] > w[1]) {
            let message = format!("{}: must be at least that before ({})", all[i + 1], all[i]);
            return Err(("deliveries_ms", Some(i + 1), message));
        }
        let last = all.last().copied().unwrap_or_default();
        if last == 0 {
            return Err((
                "deliveries_ms",
                Some(all.len() - 1),
                "0: the last must be at least 1, as it ends the list".into(),
            ));
        }
        let (mut points, mut free) = (Vec::new(), Time::ZERO);
        // An instant 0 is that at which the list starts again: it counts to the first millisecond.
        for together in all.chunk_by(|a, b| a.max(&1) == b.max(&1)) {
            let end = Time::ZERO + MS * u64::from(together[0].max(1));
            if end - MS > free {
                points.push((free, 0));
            }
            points.push((end - MS, ONE_DELIVERY * together.len() as u64));
            free = end;
        }
        points.push((free, 0));
        Ok(RateTrace::new(points, true))
    }
}

/// The rate of a line over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateTrace {
    /// When, and from then on the rate in bit/s, ascending.
    points: Vec<(Time, u64)>,
    /// From the first point to the last, and what passes in it, in bits times 10⁹.
    period: Option<(Span, u128)>,
    top_bps: u64,
}

impl RateTrace {
    /// At least one point; of a period some rate is above zero, and otherwise the last.
    fn new(points: Vec<(Time, u64)>, repeat: bool) -> RateTrace {
        let passes = |w: &[(Time, u64)]| u128::from(w[0].1) * u128::from(w[1].0.since(w[0].0).as_ns());
        let period = match (points.first(), points.last()) {
            (Some(first), Some(last)) if repeat => Some((last.0.since(first.0), points.windows(2).map(passes).sum())),
            _ => None,
        };
        let top_bps = points.iter().map(|p| p.1).max().unwrap_or(0);
        RateTrace { points, period, top_bps }
    }

    /// The fastest rate.
    pub(crate) fn top_bps(&self) -> u64 {
        self.top_bps
    }

    /// The rate at a time, and until when it holds.
    fn at(&self, t: Time) -> (u64, Time) {
        let first = self.points[0].0;
        let folded = match self.period {
            Some((period, _)) if t > first => first + Span::from_ns(t.since(first).as_ns() % period.as_ns()),
            _ => t,
        };
        let after = self.points.partition_point(|p| p.0 <= folded);
        let bps = self.points[after.max(1) - 1].1;
        // Before the first point its rate holds, so that it need not be looked at again there.
        (bps, self.points.get(after).map_or(Time::NEVER, |p| t + p.0.since(folded)))
    }

    /// When a packet has passed whose transmission begins at `start`.
    pub(crate) fn end(&self, start: Time, bytes: u64) -> Time {
        let mut t = start;
        let mut left = u128::from(bytes) * 8_000_000_000;
        while left > 0 && t < Time::NEVER {
            if let Some((period, passes)) = self.period.filter(|&(_, passes)| left > passes && t >= self.points[0].0) {
                let whole = (left - 1) / passes;
                left -= whole * passes;
                t += period * saturate64(whole);
                continue;
            }
            let (bps, until) = self.at(t);
            let room = u128::from(bps) * u128::from(until.since(t).as_ns());
            if room >= left {
                return t + Span::from_ns(saturate64(left.div_ceil(u128::from(bps))));
            }
            left -= room;
            t = until;
        }
        t
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_points(points: &[[f64; 2]], repeat: bool) -> Result<RateTrace, Fault> {
        RateTraceConfig { points: points.to_vec(), repeat, ..Default::default() }.build()
    }
    fn of_deliveries(deliveries_ms: &[u32]) -> Result<RateTrace, Fault> {
        RateTraceConfig { deliveries_ms: deliveries_ms.to_vec(), ..Default::default() }.build()
    }
    /// Ends, in us, of packets of 1500 bytes whose transmissions begin at these times.
    fn ends(trace: &RateTrace, starts_us: &[u64]) -> Vec<f64> {
        let end = |&us: &u64| trace.end(Time::from_ns(us * 1000), 1500).as_ns() as f64 / 1e3;
        starts_us.iter().map(end).collect()
    }

    #[test]
    fn a_packet_ends_when_its_bits_have_passed() {
        // 1500 bytes take 1 ms at 12 Mbit/s, 2 ms at 6 Mbit/s.
        let points = [[0.001, 12.0], [0.0025, 6.0], [0.005, 0.0], [0.008, 12.0]];
        let held = of_points(&points, false).unwrap();
        // Whole at the first rate, also before its point; half and half; a quarter and an outage of
        // 3 ms; after it.
        assert_eq!(ends(&held, &[0, 1000, 2000, 4500, 6000, 9000]), [1000.0, 2000.0, 3500.0, 8750.0, 9000.0, 10000.0]);
        // The 7 ms of the period carry 1.5 + 1.25 packets. The first rate begins again at 8 ms, and
        // its outage at 12 ms.
        let repeated = of_points(&points, true).unwrap();
        assert_eq!(
            ends(&repeated, &[4500, 8000, 9000, 11_500, 15_000]),
            [8750.0, 9000.0, 10_500.0, 15_750.0, 16_000.0]
        );
        // A packet of 2 * 2.75 + 1 times the size: two periods, and as the first.
        let ten = Time::from_ns(8_000_000);
        assert_eq!(repeated.end(ten, 9750).as_ns(), ten.as_ns() + 2 * 7_000_000 + 1_000_000);
    }

    #[test]
    fn deliveries_are_the_milliseconds_that_end_there() {
        // Two at 3 ms, one at 4 and one at 7 ms, where the list starts again with that at 0: the
        // first millisecond.
        let trace = of_deliveries(&[0, 3, 3, 4, 7]).unwrap();
        assert_eq!(
            ends(&trace, &[0, 1000, 2000, 2500, 3000, 4000, 7000]),
            [1000.0, 2500.0, 2500.0, 3000.0, 4000.0, 7000.0, 8000.0]
        );
        assert_eq!(trace.period, Some((Span::from_ms(7), 5 * 12_000_000_000_000)));
    }

    #[test]
    fn what_can_never_pass_or_means_nothing_is_refused() {
        for (trace, key, place, part) in [
            (of_points(&[], false), "points", None, "needs `points` or `deliveries_ms`"),
            (of_points(&[[-1.0, 1.0]], false), "points", Some(0), "must be from 0 to 1000000000 s"),
            (of_points(&[[f64::NAN, 1.0]], false), "points", Some(0), "must be from 0 to"),
            (of_points(&[[0.0, 1e-7]], false), "points", Some(0), "must be 0, or from 0.000001 to 1000000 Mbit/s"),
            (of_points(&[[0.0, 2e6]], false), "points", Some(0), "must be 0, or from"),
            (of_points(&[[1.0, 1.0], [1.0, 2.0]], false), "points", Some(1), "later than that of the point before (1)"),
            (of_points(&[[0.0, 1.0], [1.0, 0.0]], false), "points", Some(1), "must be above 0"),
            (of_points(&[[0.0, 1.0]], true), "repeat", None, "at least two `points`"),
            (of_points(&[[0.0, 0.0], [1.0, 5.0]], true), "points", None, "nothing would ever pass"),
            (of_deliveries(&[2, 1]), "deliveries_ms", Some(1), "must be at least that before (2)"),
            (of_deliveries(&[0]), "deliveries_ms", Some(0), "must be at least 1"),
        ] {
            let (at, i, message) = trace.unwrap_err();
            assert_eq!((at, i), (key, place), "{message}");
            assert!(message.contains(part), "{message}");
        }
        let both = RateTraceConfig { points: vec![[0.0, 1.0]], deliveries_ms: vec![1], repeat: false };
        assert_eq!(both.build().unwrap_err().0, "deliveries_ms");
        let twice = RateTraceConfig { deliveries_ms: vec![1], repeat: true, ..Default::default() };
        assert_eq!(twice.build().unwrap_err().0, "repeat");
    }

    /// Bits times 10⁹ that can pass from one time to another, nanosecond steps not needed: rates
    /// are constant between points.
    fn passes(trace: &RateTrace, from: Time, to: Time) -> u128 {
        let (mut t, mut sum) = (from, 0);
        while t < to {
            let (bps, until) = trace.at(t);
            let end = until.min(to);
            sum += u128::from(bps) * u128::from(end.since(t).as_ns());
            t = end;
        }
        sum
    }

    proptest! {
        /// Bits that have passed when a packet ends are its own, and a nanosecond before they are
        /// fewer.
        #[test]
        fn bits_are_neither_lost_nor_made(
            steps in prop::collection::vec((1u32..5_000, 0u32..400), 1..12),
            repeat: bool,
            start_us in 0u64..60_000,
            bytes in 1u64..10_000,
        ) {
            let mut t = 0.0;
            let mut points: Vec<[f64; 2]> = Vec::new();
            for (us, tenths) in steps {
                points.push([t, f64::from(tenths) / 10.0]);
                t += f64::from(us) * 1e-6;
            }
            points.push([t, 3.0]);
            points[0][1] += 0.1;
            let trace = of_points(&points, repeat).unwrap();
            let (start, need) = (Time::ZERO + Span::from_us(start_us), u128::from(bytes) * 8_000_000_000);
            let end = trace.end(start, bytes);
            prop_assert!(passes(&trace, start, end) >= need && passes(&trace, start, end - Span::from_ns(1)) < need);
        }

        #[test]
        fn one_rate_is_that_of_a_line_without_a_trace(bps in 1u64..10_000_000_000, bytes in 0u64..70_000, start in 0u64..1 << 50) {
            let trace = RateTrace::new(vec![(Time::from_ns(5), bps)], false);
            let took = airtcp_core::units::DataRate::from_bps(bps).time_for(bytes);
            prop_assert_eq!(trace.end(Time::from_ns(start), bytes), Time::from_ns(start) + took);
        }
    }
}
