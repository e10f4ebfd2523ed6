//! Conversions between integers that can lose something, by what they do with it. Everything else
//! is `From` or `TryFrom`.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)] // what each function is for

/// The largest there is where `n` does not fit.
pub const fn saturate8(n: u32) -> u8 {
    if n > u8::MAX as u32 { u8::MAX } else { n as u8 }
}

/// The largest there is where `n` does not fit.
pub const fn saturate16(n: u64) -> u16 {
    if n > u16::MAX as u64 { u16::MAX } else { n as u16 }
}

/// The largest there is where `n` does not fit.
pub const fn saturate32(n: u64) -> u32 {
    if n > u32::MAX as u64 { u32::MAX } else { n as u32 }
}

/// The largest there is where `n` does not fit.
pub const fn saturate64(n: u128) -> u64 {
    if n > u64::MAX as u128 { u64::MAX } else { n as u64 }
}

/// `n` modulo 2^8.
pub const fn low8(n: u64) -> u8 {
    n as u8
}

/// `n` modulo 2^16.
pub const fn low16(n: u64) -> u16 {
    n as u16
}

/// `n` modulo 2^32, as sequence numbers and timestamps go round.
pub const fn low32(n: u64) -> u32 {
    n as u32
}

/// The same bits, in two's complement: how far one number is ahead of another on a circle of 2^16.
pub const fn signed16(n: u16) -> i16 {
    n as i16
}

/// The same bits, in two's complement: how far one number is ahead of another on a circle of 2^32.
pub const fn signed32(n: u32) -> i32 {
    n as i32
}

/// The same bits, in two's complement.
pub const fn signed64(n: u64) -> i64 {
    n as i64
}

/// 0 where `n` is negative, the largest there is where it does not fit.
pub const fn positive32(n: i64) -> u32 {
    if n < 0 { 0 } else { saturate32(n as u64) }
}

/// The same bits, taken as an unsigned number.
pub const fn unsigned64(n: i64) -> u64 {
    n as u64
}

/// The upper half of `n`.
pub const fn high32(n: u64) -> u32 {
    (n >> 32) as u32
}

/// `n` modulo 2^64.
pub const fn low64(n: u128) -> u64 {
    n as u64
}

/// How many things there are in a collection: memory holds fewer than 2^32 of them.
pub const fn count(n: usize) -> u32 {
    debug_assert!(n <= u32::MAX as usize);
    n as u32
}

/// As [`count`], where there are few.
pub const fn count16(n: usize) -> u16 {
    debug_assert!(n <= u16::MAX as usize);
    n as u16
}

/// As [`count`], where there are very few.
pub const fn count8(n: usize) -> u8 {
    debug_assert!(n <= u8::MAX as usize);
    n as u8
}

/// As an index; beyond every collection where `n` does not fit.
pub const fn index(n: u64) -> usize {
    if n > usize::MAX as u64 { usize::MAX } else { n as usize }
}

/// The low bits of `n`, for a mask or a remainder to choose from.
pub const fn low_index(n: u64) -> usize {
    n as usize
}

/// The nearest integer; a number out of range, or none at all, gives the nearest bound, or 0.
pub fn round32(x: f64) -> u32 {
    x.round() as u32
}

/// The integer part; a number out of range, or none at all, gives the nearest bound, or 0.
pub const fn floor32(x: f64) -> u32 {
    x as u32
}

/// The integer part; a number out of range, or none at all, gives the nearest bound, or 0.
pub const fn floor64(x: f64) -> u64 {
    x as u64
}

/// The integer part as an index; a number out of range, or none at all, gives the nearest bound, or
/// 0.
pub const fn floor_index(x: f32) -> usize {
    x as usize
}

/// The nearest number of single precision.
pub const fn single(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_saturates_or_wraps_as_the_name_says() {
        assert_eq!((saturate16(65_535), saturate16(65_536)), (65_535, 65_535));
        assert_eq!((saturate32(1 << 31), saturate32(1 << 32)), (1 << 31, u32::MAX));
        assert_eq!((saturate64(1 << 63), saturate64(1 << 64)), (1 << 63, u64::MAX));
        assert_eq!(
            (high32(3 << 32), low16(65_537), low32((1 << 32) + 5), low64((1 << 64) + 9), count(7)),
            (3, 1, 5, 9, 7)
        );
        assert_eq!((signed16(65_535), signed32(1 << 31), signed64(5), unsigned64(-1)), (-1, i32::MIN, 5, u64::MAX));
        assert_eq!((saturate8(255), saturate8(256), count8(9)), (255, 255, 9));
        assert_eq!([-5, 7, 1 << 32].map(positive32), [0, 7, u32::MAX]);
        assert_eq!([0.9, -1.0, 7.5, f32::NAN].map(floor_index), [0, 0, 7, 0]);
        assert_eq!([single(0.5), single(1e300), single(0.1)], [0.5, f32::INFINITY, 0.1]);
        assert_eq!((count16(7), index(8), low_index(9)), (7, 8, 9));
        assert_eq!([0.5, 2.4, -1.0, 1e20, f64::NAN].map(round32), [1, 2, 0, u32::MAX, 0]);
        assert_eq!([0.9, -1.0, 1e20, f64::NAN].map(floor32), [0, 0, u32::MAX, 0]);
        assert_eq!([0.9, -1.0, 1e20, f64::NAN].map(floor64), [0, 0, u64::MAX, 0]);
    }
}
