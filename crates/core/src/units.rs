//! Quantities with their units: [`Time`], [`Span`], [`DataRate`], [`Bytes`], [`Probability`],
//! [`Seq32`], [`Seq12`].
//!
//! Every quantity that a user writes is a string with a unit (`"100Mbit/s"`, `"90ms"`, `"64KiB"`);
//! parsing lives here and nowhere else. Time is integer nanoseconds. [`Seq32`] and [`Seq12`] are
//! the only places with wrap-around arithmetic.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::convert::{count, floor64, low32, low64, signed32};

/// A quantity that could not be read. The message says what was found and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {what}: {accepted}")]
pub struct UnitError {
    /// The text as written.
    pub found: String,
    /// The quantity that was expected.
    pub what: &'static str,
    /// Description of the accepted values.
    pub accepted: &'static str,
}

/// A point in time: nanoseconds since the start of the run; in tools of a real host, since its
/// clock's zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// Start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens: the deadline of something idle.
    pub const NEVER: Time = Time(u64::MAX);

    /// So many nanoseconds after the beginning.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns)
    }
    /// Nanoseconds since the beginning.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Seconds since the beginning.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// True if it is [`Self::NEVER`].
    pub fn is_never(self) -> bool {
        self == Time::NEVER
    }
    /// The span since `earlier`; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    /// Saturates at [`Time::NEVER`].
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}
impl Sub<Span> for Time {
    type Output = Time;
    /// Saturates at zero.
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

/// A length of time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Span {
    /// No time.
    pub const ZERO: Span = Span(0);
    /// The longest: 584 years.
    pub const MAX: Span = Span(u64::MAX);

    /// From nanoseconds.
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns)
    }
    /// From microseconds.
    pub const fn from_us(us: u64) -> Span {
        Span(us * 1_000)
    }
    /// From milliseconds.
    pub const fn from_ms(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }
    /// From seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span(s * 1_000_000_000)
    }
    /// Rounds to the nearest nanosecond; negative and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Span {
        Span(floor64((s * 1e9).round()))
    }
    /// Nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// True if the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// `k` times as long; saturates.
    pub const fn saturating_mul(self, k: u64) -> Span {
        Span(self.0.saturating_mul(k))
    }
    /// `self * num / den` without overflow. Panics if `den` is zero.
    pub const fn mul_ratio(self, num: u64, den: u64) -> Span {
        // Dividing 128 bits takes several times as long, and few quotients need it.
        match self.0.checked_mul(num) {
            Some(product) => Span(product / den),
            None => Span(low64(self.0 as u128 * num as u128 / den as u128)),
        }
    }
    /// By how much it is longer than `other`; zero if it is not.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
    /// By how much the two differ.
    pub const fn abs_diff(self, other: Span) -> Span {
        Span(self.0.abs_diff(other.0))
    }
    /// Rounded up to a whole number of `tick`s; a zero tick leaves it as it is.
    pub fn round_up_to(self, tick: Span) -> Span {
        if tick.is_zero() {
            return self;
        }
        let whole = whole_ticks(self.0, tick.0) * tick.0;
        if whole < self.0 { Span(whole.saturating_add(tick.0)) } else { self }
    }
    /// Whole `tick`s in it. Panics if `tick` is zero.
    #[inline]
    pub(crate) const fn ticks(self, tick: Span) -> u64 {
        whole_ticks(self.0, tick.0)
    }
}

/// `ns / tick`. By what Linux has as ticks it is divided without an instruction that divides, which
/// takes as long as ten others.
#[inline]
const fn whole_ticks(ns: u64, tick: u64) -> u64 {
    match tick {
        1_000_000 => ns / 1_000_000,
        4_000_000 => ns / 4_000_000,
        _ => ns / tick,
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, k: u64) -> Span {
        self.saturating_mul(k)
    }
}
/// Rounds down to a nanosecond.
impl Div<u64> for Span {
    type Output = Span;
    fn div(self, k: u64) -> Span {
        Span(self.0 / k)
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

/// Bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DataRate(u64);

impl DataRate {
    /// From bits per second.
    pub const fn from_bps(bps: u64) -> DataRate {
        DataRate(bps)
    }
    /// From 10^6 bits per second.
    pub const fn from_mbps(mbps: u64) -> DataRate {
        DataRate(mbps * 1_000_000)
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// How long `bytes` take on a line of this rate, rounded up to a nanosecond. Panics on a zero
    /// rate.
    pub const fn time_for(self, bytes: u64) -> Span {
        match bytes.checked_mul(8_000_000_000) {
            Some(scaled) => Span(scaled.div_ceil(self.0)),
            None => Span(low64((bytes as u128 * 8_000_000_000).div_ceil(self.0 as u128))),
        }
    }
    /// The rate at which `bytes` pass in `span`; saturates, and a zero span gives the maximum.
    pub fn from_bytes_per(bytes: u64, span: Span) -> DataRate {
        if span.0 == 0 {
            return DataRate(u64::MAX);
        }
        DataRate(u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(span.0)).unwrap_or(u64::MAX))
    }
    /// Whole bytes that pass in `span` at this rate (bandwidth-delay product).
    pub fn bytes_in(self, span: Span) -> Bytes {
        Bytes(u64::try_from(u128::from(self.0) * u128::from(span.0) / 8_000_000_000).unwrap_or(u64::MAX))
    }
    /// `self * num / den`, saturating. Panics if `den` is zero.
    pub fn mul_ratio(self, num: u64, den: u64) -> DataRate {
        DataRate(u64::try_from(u128::from(self.0) * u128::from(num) / u128::from(den)).unwrap_or(u64::MAX))
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// So many bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }
    /// Bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A probability: a finite number in `0..=1`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize)]
pub struct Probability(f64);

impl Probability {
    /// Never.
    pub const ZERO: Probability = Probability(0.0);
    /// Always.
    pub const ONE: Probability = Probability(1.0);

    /// A probability, unless `p` is out of 0..=1 or no number.
    pub fn new(p: f64) -> Result<Probability, UnitError> {
        if (0.0..=1.0).contains(&p) {
            Ok(Probability(p))
        } else {
            Err(UnitError { found: p.to_string(), what: "a probability", accepted: "a number from 0 to 1" })
        }
    }
    /// As a number in 0..=1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl de::Visitor<'_> for V {
            type Value = Probability;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a probability: a number from 0 to 1")
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Probability, E> {
                Probability::new(v).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Probability, E> {
                self.visit_f64(v as f64)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Probability, E> {
                self.visit_f64(v as f64)
            }
        }
        d.deserialize_any(V)
    }
}

impl schemars::JsonSchema for Probability {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Probability".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}

/// Splits `"12.5 ms"` into an exact decimal (digits, number of decimals) and its unit.
fn split_quantity(s: &str) -> Option<(u128, u32, &str)> {
    let s = s.trim();
    let end = s.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(s.len());
    let (number, unit) = s.split_at(end);
    let number: String = number.chars().filter(|&c| c != '_').collect();
    let (whole, frac) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty()
        || frac.contains('.')
        || whole.len() + frac.len() > 24
        || (frac.is_empty() && number.contains('.'))
    {
        return None;
    }
    let digits: u128 = format!("{whole}{frac}").parse().ok()?;
    Some((digits, count(frac.len()), unit.trim()))
}

fn scaled(digits: u128, decimals: u32, scale: u128) -> Option<u64> {
    let den = 10u128.pow(decimals);
    let n = digits.checked_mul(scale)?;
    u64::try_from((n + den / 2) / den).ok()
}

/// Display and serde for a `u64` quantity with a table of units: `(unit, size in the base unit)`,
/// largest first; output uses the first unit that divides the value, so that printing and parsing
/// round-trip exactly.
macro_rules! quantity {
    ($type:ident, $what:literal, $accepted:literal, $pattern:literal, [$(($unit:literal, $size:expr)),+ $(,)?], also [$(($alias:literal, $asize:expr)),* $(,)?]) => {
        impl $type {
            const UNITS: &'static [(&'static str, u64)] = &[$(($unit, $size)),+];
            const ALIASES: &'static [(&'static str, u64)] = &[$(($alias, $asize)),*];
            fn error(found: &str) -> UnitError {
                UnitError { found: found.to_owned(), what: $what, accepted: $accepted }
            }
        }
        impl FromStr for $type {
            type Err = UnitError;
            fn from_str(s: &str) -> Result<$type, UnitError> {
                let (digits, decimals, unit) = split_quantity(s).ok_or_else(|| Self::error(s))?;
                let size = Self::UNITS.iter().chain(Self::ALIASES).find(|(u, _)| *u == unit).map(|&(_, size)| size);
                size.and_then(|size| scaled(digits, decimals, u128::from(size)))
                    .filter(|&v| v < u64::MAX)
                    .map($type)
                    .ok_or_else(|| Self::error(s))
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                let exact = Self::UNITS.iter().find(|(_, size)| self.0 != 0 && self.0 % size == 0);
                let &(unit, size) = exact.unwrap_or(&Self::UNITS[Self::UNITS.len() - 1]);
                write!(f, "{}{unit}", self.0 / size)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct V;
                impl de::Visitor<'_> for V {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                        f.write_str(concat!($what, ": ", $accepted))
                    }
                    fn visit_str<E: de::Error>(self, v: &str) -> Result<$type, E> {
                        v.parse().map_err(E::custom)
                    }
                }
                d.deserialize_any(V)
            }
        }
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern, "description": concat!($what, ": ", $accepted) })
            }
        }
    };
}

quantity!(
    Span,
    "a duration",
    "a number with ns, us, ms, s, min or h, such as \"90ms\"",
    r"^\s*[0-9_]+(\.[0-9_]+)?\s*(ns|us|µs|ms|s|min|h)\s*$",
    [
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1)
    ],
    also[("µs", 1_000)]
);
quantity!(
    DataRate, "a data rate", "a number with bit/s, kbit/s, Mbit/s, Gbit/s or Tbit/s, such as \"100Mbit/s\"", r"^\s*[0-9_]+(\.[0-9_]+)?\s*([kMGT]?bit/s|[kMGT]?bps)\s*$",
    [("Tbit/s", 1_000_000_000_000), ("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1_000), ("bit/s", 1)],
    also [("Tbps", 1_000_000_000_000), ("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("kbps", 1_000), ("bps", 1)]
);
quantity!(
    Bytes, "a size", "a number with B, kB, MB, GB, KiB, MiB or GiB, such as \"64KiB\"", r"^\s*[0-9_]+(\.[0-9_]+)?\s*(B|[kMGT]B|[KMGT]iB)\s*$",
    [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)],
    also [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("TiB", 1 << 40)]
);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.is_never() { f.write_str("never") } else { write!(f, "{:.9}s", self.as_secs_f64()) }
    }
}

/// A TCP sequence number as on the wire, modulo 2^32 (RFC 9293 section 3.4). State machines keep
/// 64-bit stream offsets, which never wrap, and convert at the edge with [`Seq32::from_offset`] and
/// [`Seq32::to_offset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq32(pub u32);

impl Seq32 {
    /// The number on the wire of a 64-bit offset.
    pub const fn from_offset(offset: u64) -> Seq32 {
        Seq32(low32(offset))
    }
    /// The 64-bit offset nearest to `near` with this value modulo 2^32. Saturates at zero.
    pub const fn to_offset(self, near: u64) -> u64 {
        let delta = signed32(self.0.wrapping_sub(low32(near)));
        near.saturating_add_signed(delta as i64)
    }
}

/// An 802.11 sequence number, modulo 4096 (IEEE 802.11-2020 clause 9.2.4.4.2). A number is later
/// than another if it lies less than half the space ahead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq12(u16);

impl Seq12 {
    /// Size of the sequence number space.
    pub const MODULUS: u16 = 1 << 12;

    /// `n` modulo 4096.
    pub const fn new(n: u16) -> Seq12 {
        Seq12(n % Self::MODULUS)
    }
    /// In `0..4096`.
    pub const fn get(self) -> u16 {
        self.0
    }
    /// `n` numbers later.
    pub const fn forward(self, n: u16) -> Seq12 {
        Seq12(self.0.wrapping_add(n) % Self::MODULUS)
    }
    /// `n` numbers earlier.
    pub const fn back(self, n: u16) -> Seq12 {
        Seq12(self.0.wrapping_sub(n) % Self::MODULUS)
    }
    /// Steps forward from `self` to `other`, in `0..4096`.
    pub const fn distance_to(self, other: Seq12) -> u16 {
        other.0.wrapping_sub(self.0) % Self::MODULUS
    }
    /// True if `self` comes before `other`: `other` lies 1 to 2047 numbers ahead.
    pub const fn is_before(self, other: Seq12) -> bool {
        let ahead = self.distance_to(other);
        ahead != 0 && ahead < Self::MODULUS / 2
    }
    /// True if `self` is one of the `size` numbers from `start` on.
    pub const fn is_in_window(self, start: Seq12, size: u16) -> bool {
        start.distance_to(self) < size
    }
}

impl fmt::Display for Seq12 {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_parse_with_units_and_refuse_the_rest() {
        assert_eq!("100Mbit/s".parse(), Ok(DataRate::from_mbps(100)));
        assert_eq!("2.5 Gbit/s".parse(), Ok(DataRate::from_mbps(2500)));
        assert_eq!("90ms".parse(), Ok(Span::from_ms(90)));
        assert_eq!("1.5us".parse(), Ok(Span::from_ns(1500)));
        assert_eq!("64KiB".parse(), Ok(Bytes::new(65536)));
        for bad in ["", "5", "-5ms", "ms", "1..2ms", "5 parsecs", "nan s", "1e9ms", "99999999999999999999s", "5.ms"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
        assert!(Probability::new(f64::NAN).is_err());
        assert!(Probability::new(-0.1).is_err());
    }

    #[test]
    fn transmission_time_rounds_up() {
        assert_eq!(DataRate::from_mbps(100).time_for(1500), Span::from_us(120));
        assert_eq!(DataRate::from_bps(3).time_for(1), Span::from_ns(2_666_666_667));
    }

    #[test]
    fn mpdu_numbers_wrap_at_4096() {
        let n = Seq12::new;
        assert_eq!((n(4095).forward(1), n(0).back(1), n(4096 + 7)), (n(0), n(4095), n(7)));
        assert_eq!((n(4090).distance_to(n(5)), n(5).distance_to(n(4090)), n(9).distance_to(n(9))), (11, 4085, 0));
        assert!(n(4095).is_before(n(0)) && !n(0).is_before(n(4095)) && !n(3).is_before(n(3)));
        assert!(n(0).is_before(n(2047)) && !n(0).is_before(n(2048)) && !n(2048).is_before(n(0)));
        for (sn, inside) in [(4031, false), (4032, true), (4095, true), (0, false)] {
            assert_eq!(n(sn).is_in_window(n(4032), 64), inside, "{sn}");
        }
        assert!(n(31).is_in_window(n(4064), 64) && !n(32).is_in_window(n(4064), 64));
    }

    proptest! {
        #[test]
        fn ratios_are_exact(a in any::<u64>(), shift in 0u32..64, num in any::<u64>(), den in 1..u64::MAX) {
            let (a, num) = (a >> shift, num >> (shift / 2));
            prop_assert_eq!(Span(a).mul_ratio(num, den), Span((u128::from(a) * u128::from(num) / u128::from(den)) as u64));
            let time = (u128::from(a) * 8_000_000_000).div_ceil(u128::from(den));
            prop_assert_eq!(DataRate(den).time_for(a), Span(time as u64));
        }

        #[test]
        fn printing_and_parsing_round_trip(v in 0..u64::MAX / 2) {
            prop_assert_eq!(Span(v).to_string().parse(), Ok(Span(v)));
            prop_assert_eq!(DataRate(v).to_string().parse(), Ok(DataRate(v)));
            prop_assert_eq!(Bytes(v).to_string().parse(), Ok(Bytes(v)));
        }

        #[test]
        fn sequence_numbers_unwrap_near_their_reference(offset in 0u64..1 << 48, delta in -(1i64 << 30)..1 << 30) {
            let target = offset.saturating_add_signed(delta);
            prop_assert_eq!(Seq32::from_offset(target).to_offset(offset), target);
        }
    }
}
