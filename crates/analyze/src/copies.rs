//! Packets that the capture holds twice: a mirror port, both sides of a bridge or router, or a
//! network that doubles packets. What a sender sends again has another IP identification.

use airtcp_core::convert::low32;
use airtcp_core::packet::TcpFlags;
use airtcp_core::units::{Span, Time};

use crate::decode::{Endpoint, Segment};

/// Packets remembered: one for each slot, so that memory and work stay the same.
const SLOTS: usize = 1 << 15;
/// Packets with the same IP identification are copies within this time: less than Linux's least
/// timeout.
const SAME_ID: Span = Span::from_ms(200);
/// Without an identification, within this time, and within half of a round trip.
const NO_ID: Span = Span::from_ms(1);

#[derive(Debug, Clone, Copy)]
struct Slot {
    print: u64,
    at: Time,
}

#[derive(Debug)]
pub(crate) struct Copies {
    slots: Vec<Slot>,
}

/// Answer to the question if a packet is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copy {
    /// No packet like it passed.
    No,
    Yes,
    /// It has no identification: the round trip decides.
    Perhaps(Span),
}

impl Default for Copies {
    fn default() -> Copies {
        Copies { slots: vec![Slot { print: 0, at: Time::ZERO }; SLOTS] }
    }
}

impl Copies {
    pub(crate) fn look_for(&mut self, now: Time, p: &Segment) -> Copy {
        let print = print(p);
        let slot = &mut self.slots[low32(print) as usize % SLOTS];
        let age = now.since(slot.at);
        if slot.print != print || age > SAME_ID {
            *slot = Slot { print, at: now };
            return Copy::No;
        }
        if p.ip_id.is_some_and(|id| id != 0) {
            return Copy::Yes;
        }
        if age > NO_ID {
            slot.at = now;
            return Copy::No;
        }
        Copy::Perhaps(age)
    }
}

/// Never 0.
fn print(p: &Segment) -> u64 {
    // Multiplication and rotation, as Firefox's hash: the same in every run.
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let end = |hash: u64, e: &Endpoint| {
        let [high, low] = e.halves();
        mix(mix(mix(hash, high), low), u64::from(e.port))
    };
    let hash = end(end(u64::from(p.place), &p.source), &p.destination);
    let hash = mix(hash, u64::from(p.seq) << 32 | u64::from(p.ack));
    let small = u64::from(p.checksum) << 48 | u64::from(p.window) << 32 | u64::from(p.payload);
    let hash = mix(hash, small);
    let ends = u64::from(p.has(TcpFlags::FIN)) << 1 | u64::from(p.has(TcpFlags::RST));
    let hash = mix(hash, u64::from(p.ip_id.unwrap_or(0)) << 2 | ends);
    let hash = match p.options.timestamps {
        Some((value, echo)) => mix(hash, u64::from(value) << 32 | u64::from(echo)),
        None => hash,
    };
    (hash ^ hash >> 32) | 1
}
