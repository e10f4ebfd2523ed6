//! How late events came: a histogram of fixed size, its quantiles, and the validity of a run that
//! follows from them.

use airtcp_core::units::Span;
use serde::Serialize;

/// Linear steps within each power of two.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.ilog2();
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS;

/// Spans of time, in fixed memory, to within a 32nd.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: Span,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], count: 0, max: Span::ZERO }
    }
}

fn bucket_of(span: Span) -> usize {
    let ns = span.as_ns();
    let Some(exponent) = ns.checked_ilog2().filter(|&e| e >= STEP_BITS) else {
        return usize::try_from(ns).unwrap_or(0);
    };
    let shift = exponent - STEP_BITS;
    let step = usize::try_from(ns >> shift).unwrap_or(0) & (STEPS - 1);
    usize::try_from(shift + 1).unwrap_or(0) * STEPS + step
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> Span {
    let (row, step) = (bucket / STEPS, bucket % STEPS);
    let step = u64::try_from(step).unwrap_or(0);
    if row == 0 {
        return Span::from_ns(step);
    }
    let shift = u32::try_from(row - 1).unwrap_or(0);
    let first = u128::from(step + u64::try_from(STEPS).unwrap_or(0)) << shift;
    Span::from_ns(u64::try_from(first + (1 << shift) - 1).unwrap_or(u64::MAX))
}

impl Histogram {
    /// One more.
    pub fn add(&mut self, span: Span) {
        self.counts[bucket_of(span)] += 1;
        self.count += 1;
        self.max = self.max.max(span);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest.
    pub fn max(&self) -> Span {
        self.max
    }

    /// The span that this many of a thousand do not exceed, rounded up by at most a 32nd; zero
    /// without any.
    pub fn per_mille(&self, k: u64) -> Span {
        let wanted = (u128::from(self.count) * u128::from(k)).div_ceil(1000).max(1);
        let mut seen = 0u128;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += u128::from(count);
            if seen >= wanted {
                return top_of(bucket).min(self.max);
            }
        }
        Span::ZERO
    }
}

/// Lateness at a glance, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lateness {
    /// Packets.
    pub packets: u64,
    /// Half are not later.
    pub p50_us: f64,
    /// See `p50_us`.
    pub p90_us: f64,
    /// See `p50_us`.
    pub p99_us: f64,
    /// See `p50_us`.
    pub p999_us: f64,
    /// The latest.
    pub max_us: f64,
}

fn us(span: Span) -> f64 {
    span.as_secs_f64() * 1e6
}

impl Lateness {
    /// The quantiles of a histogram.
    pub fn of(late: &Histogram) -> Lateness {
        let quantile = |k| us(late.per_mille(k));
        Lateness {
            packets: late.count(),
            p50_us: quantile(500),
            p90_us: quantile(900),
            p99_us: quantile(990),
            p999_us: quantile(999),
            max_us: us(late.max()),
        }
    }
}

/// Validity of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// Time was kept.
    Valid,
    /// Time was kept but for rare packets.
    Strained,
    /// It was not.
    Invalid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_falls_into_it() {
        for ns in (0..4000)
            .chain((12..64).flat_map(|e| [(1u64 << e) - 1, 1 << e, (1 << e) + (1 << (e - 2))]))
            .chain([u64::MAX])
        {
            let bucket = bucket_of(Span::from_ns(ns));
            let top = top_of(bucket).as_ns();
            assert!(bucket < BUCKETS && ns <= top && top - ns <= ns / 32, "{ns} {bucket} {top}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_list() {
        let mut h = Histogram::default();
        assert_eq!(h.per_mille(990), Span::ZERO);
        for k in 1..=1000 {
            h.add(Span::from_us(k));
        }
        for (k, want) in [(500, 500.0), (990, 990.0), (999, 999.0), (1000, 1000.0)] {
            let got = us(h.per_mille(k));
            assert!((want..=want * 33.0 / 32.0).contains(&got), "{k}: {got}");
        }
        assert_eq!((h.count(), h.max()), (1000, Span::from_ms(1)));
    }
}
