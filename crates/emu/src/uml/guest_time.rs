//! The time of guests. The network's begins when they have booted, and is a type of its own.

use std::ops::Add;

use airtcp_core::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// Guests boot in this time of theirs; then the network begins, and programs start.
pub const BOOT: Span = Span::from_secs(4);

/// A point in the time of guests: what their monotonic clocks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct GuestTime(u64);

impl GuestTime {
    /// Guests start.
    pub const ZERO: GuestTime = GuestTime(0);
    /// The network begins.
    pub const BEGIN: GuestTime = GuestTime(BOOT.as_ns());
    /// Later than all that guests ask for. Their kernels count with a sign.
    pub const NEVER: GuestTime = GuestTime(i64::MAX.unsigned_abs());

    /// So many nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> GuestTime {
        GuestTime(ns)
    }
    /// Nanoseconds since the start.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// The span since `earlier`; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: GuestTime) -> Span {
        Span::from_ns(self.0.saturating_sub(earlier.0))
    }
    /// Guest time at a time of the network.
    pub fn of(network: Time) -> GuestTime {
        if network.is_never() { GuestTime::NEVER } else { GuestTime::BEGIN + network.since(Time::ZERO) }
    }
    /// The network's time.
    pub fn network(self) -> Time {
        if self >= GuestTime::NEVER { Time::NEVER } else { Time::ZERO + self.since(GuestTime::BEGIN) }
    }
}

impl Add<Span> for GuestTime {
    type Output = GuestTime;
    /// Saturates at [`GuestTime::NEVER`].
    fn add(self, span: Span) -> GuestTime {
        GuestTime(self.0.saturating_add(span.as_ns())).min(GuestTime::NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_begins_when_guests_have_booted() {
        let at = Time::ZERO + Span::from_ms(20);
        assert_eq!(GuestTime::of(at).as_ns(), 4_020_000_000);
        assert_eq!(GuestTime::of(at).network(), at);
        assert_eq!(GuestTime::from_ns(7).network(), Time::ZERO, "before that the network's time stands");
        assert_eq!((GuestTime::of(Time::NEVER), GuestTime::NEVER.network()), (GuestTime::NEVER, Time::NEVER));
        assert_eq!(GuestTime::NEVER + Span::from_secs(1), GuestTime::NEVER);
    }
}
