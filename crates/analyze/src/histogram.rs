//! Values in classes of equal ratio, 32 to an octave: percentiles to two percent.

use airtcp_core::convert::low32;

#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// Class and weight, in order.
    classes: Vec<(u32, u64)>,
    total: u64,
    /// Values added.
    pub count: u32,
}

const CLASS_BITS: u32 = 5;
/// Classes of a plateau: an eighth of the value to either side.
const PLATEAU: u32 = 11;

impl Histogram {
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        // The octave, and the bits below the first.
        let value = value.max(1 << CLASS_BITS);
        let shift = value.ilog2() - CLASS_BITS;
        let class = shift << CLASS_BITS | low32(value >> shift) & ((1 << CLASS_BITS) - 1);
        match self.classes.binary_search_by_key(&class, |c| c.0) {
            Ok(at) => self.classes[at].1 += weight,
            Err(at) => self.classes.insert(at, (class, weight)),
        }
        self.total += weight;
        self.count = self.count.saturating_add(1);
    }

    /// The middle of a class.
    fn value(class: u32) -> u64 {
        let (shift, low) = (class >> CLASS_BITS, u64::from(class & ((1 << CLASS_BITS) - 1)));
        (2 * ((1 << CLASS_BITS) + low) + 1) << shift >> 1
    }

    /// The value that so many percent do not exceed, to two percent.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        let mut left = (self.total * percent).div_ceil(100).max(1);
        for &(class, weight) in &self.classes {
            if weight >= left {
                return Some(Histogram::value(class));
            }
            left -= weight;
        }
        None
    }

    /// Classes near each other in which most weight lies: their middle by weight, and their part of
    /// all.
    pub(crate) fn plateau(&self) -> Option<(u64, f64)> {
        // Their first, the one behind their last, their weight.
        let mut best = (0, 0, 0);
        let (mut first, mut weight) = (0, 0);
        for (last, &(class, of)) in self.classes.iter().enumerate() {
            weight += of;
            while self.classes[first].0 + PLATEAU <= class {
                weight -= self.classes[first].1;
                first += 1;
            }
            if weight > best.2 {
                best = (first, last + 1, weight);
            }
        }
        let (first, end, weight) = best;
        let mut left = weight.div_ceil(2);
        let middle = self.classes[first..end].iter().find(|&&(_, of)| {
            let is_it = of >= left;
            left = left.saturating_sub(of);
            is_it
        })?;
        Some((Histogram::value(middle.0), weight as f64 / self.total as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_two_percent() {
        let mut found = Histogram::default();
        assert_eq!(found.percentile(50), None);
        for ms in 1..=1000 {
            found.add(ms * 1_000_000, 1);
        }
        for (percent, ms) in [(1, 10.0), (50, 500.0), (95, 950.0), (100, 1000.0)] {
            let value = found.percentile(percent).unwrap() as f64 * 1e-6;
            assert!((value / ms - 1.0).abs() < 0.02, "{percent}: {value}");
        }
    }

    #[test]
    fn a_plateau_is_where_the_weight_lies() {
        let mut found = Histogram::default();
        assert_eq!(found.plateau(), None);
        for i in 0..100 {
            found.add(950_000 + 1000 * i, 3);
            found.add(10_000 * (i + 1), 1);
        }
        let (value, part) = found.plateau().unwrap();
        assert!((900_000..1_100_000).contains(&value) && (0.75..0.9).contains(&part), "{value} {part}");
    }
}
