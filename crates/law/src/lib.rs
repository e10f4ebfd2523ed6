//! The arithmetic of airtcp's remedies, apart from where they run.
//!
//! The simulator calls this crate. `make bpf` compiles the same sources for the Linux kernel. So it
//! keeps to what a BPF program may do: integers of 64 bits, no memory of its own, no loop, and no
//! path that panics. Every division says what a divisor of zero gives.
//!
//! A law has no base control inside. It answers what its caller is to do with its own: see
//! [`tcp_av::Verdict`].
//!
//! Times are nanoseconds, rates bits per second, windows segments; shares and fractions of a
//! segment are in 1/[`UNIT`].

#![no_std]
#![forbid(unsafe_code)]

pub mod coop;
pub mod efr;
pub mod tcp_av;

/// Denominator of shares and of fractions of a segment.
pub const UNIT: u64 = 1 << 10;

/// Largest count of segments.
pub const MOST: u64 = 0xffff_ffff;

/// A time that is not known, or never comes.
pub const UNKNOWN: u64 = u64::MAX;

/// `of` times `share` in 1/[`UNIT`]. `of` is at most 2^53.
#[inline]
pub(crate) fn part(of: u64, share: u64) -> u64 {
    of * at_most(share, UNIT) / UNIT
}

/// As `Ord::min`, which stays a call where the sources become a BPF program.
#[inline]
pub(crate) fn at_most(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// As `Ord::max`.
#[inline]
pub(crate) fn at_least(a: u64, b: u64) -> u64 {
    if a > b { a } else { b }
}

/// Zero where the divisor is.
#[inline]
pub(crate) fn divided(a: u64, by: u64) -> u64 {
    a.checked_div(by).unwrap_or(0)
}
