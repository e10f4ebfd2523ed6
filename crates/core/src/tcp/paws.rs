//! Protection against wrapped sequence numbers (RFC 7323 section 5), as Linux has it: a segment is
//! discarded if its timestamp is below the newest by more than a tick (`tcp_paws_check`,
//! TCP_PAWS_WINDOW, net/ipv4/tcp_input.c of 6.18). Where the network reorders ACKs, late ones are
//! lost by it.

use crate::convert::{low32, signed32};
use crate::packet::Packet;
use crate::units::Span;

/// Ticks a second of the fastest clock that a peer may have (`tcp_tsval_replay`).
const FASTEST_HZ: u64 = 1200;

/// The packet's timestamp is below `recent` by more than a tick.
#[inline]
pub(super) fn is_outdated(p: &Packet, recent: u32) -> bool {
    p.ts_val != 0 && recent != 0 && signed32(recent.wrapping_sub(p.ts_val)) > 1
}

/// The packet's timestamp may take the place of `recent`, which never goes back.
#[inline]
pub(super) fn is_current(p: &Packet, recent: u32) -> bool {
    p.ts_val != 0 && (recent == 0 || signed32(p.ts_val.wrapping_sub(recent)) >= 0)
}

/// The timestamp is not further back than a packet can be late (`tcp_disordered_ack`).
pub(super) fn is_late(p: &Packet, recent: u32, timeout: Span) -> bool {
    signed32(recent.wrapping_sub(p.ts_val)) <= signed32(low32(timeout.as_ns() / 1000 * FASTEST_HZ / 1_000_000))
}
