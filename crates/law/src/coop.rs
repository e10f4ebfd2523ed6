//! The cooperative daemon's cap as a lease: a bound of the window that ends by itself.
//!
//! The daemon renews a lease with each reading of the connection. Where the daemon has gone, the
//! lease runs out. Nothing else of the connection is touched, so what it had learnt of its path is
//! there when the cap ends.

/// A cap in force until an instant. All zero: none.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lease {
    /// Largest window, segments. 0: no cap.
    pub cap: u64,
    /// The instant at which it ends, ns.
    pub until_ns: u64,
}

/// The window that a connection may have. Never a raise, and never below one segment.
#[inline]
pub fn held(lease: &Lease, now_ns: u64, cwnd: u64) -> u64 {
    if lease.cap == 0 || now_ns >= lease.until_ns { cwnd } else { crate::at_most(cwnd, lease.cap) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself() {
        let lease = Lease { cap: 8, until_ns: 1_000 };
        assert_eq!(held(&lease, 999, 100), 8);
        assert_eq!(held(&lease, 999, 3), 3);
        assert_eq!(held(&lease, 1_000, 100), 100);
        assert_eq!(held(&Lease::default(), 0, 100), 100);
        assert_eq!(held(&Lease { cap: 0, until_ns: u64::MAX }, 0, 100), 100);
    }
}
