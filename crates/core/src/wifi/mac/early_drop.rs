//! Rules that give up an MPDU earlier than retry limits and windows do, as the MAC knows them: it
//! tells such a rule of attempts and packets, and asks it. [`super::retry_out`] has the rules.

use crate::packet::Packet;
use crate::units::{DataRate, Time};

/// Facts about the packet in an MPDU that stay with the MPDU. The MAC carries them and does not
/// read them; the packet itself may be gone when a rule asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketFacts {
    /// The packet is a TCP segment.
    pub is_tcp: bool,
    /// Its bytes at the IP layer.
    pub bytes: u16,
}

/// A recipient's rule, for one sender and TID: it gives up an MPDU that keeps arriving corrupt.
pub trait EarlyDrop {
    /// An A-MPDU, or an MPDU sent alone, was heard from the sender at `rate` (its MAC data rate),
    /// corrupt or not. The MAC reports each once, before its MPDUs.
    fn on_ppdu(&mut self, now: Time, rate: DataRate);

    /// An MPDU arrived correct for the first time, whether or not it is in order.
    fn on_received(&mut self, now: Time, packet: &Packet);

    /// A packet has reached the sender: the other direction.
    fn on_sent(&mut self, now: Time, packet: &Packet);

    /// A corrupt copy of an MPDU arrived; `retries` is the number of corrupt copies before it.
    /// Returns true if the MPDU is given up.
    fn gives_up(&mut self, now: Time, retries: u32, facts: PacketFacts) -> bool;
}

/// An originator's rule, for one link: a lower retry limit than that of the driver.
pub trait RetryLimit {
    /// The radio is done with a PPDU; it sent the last copy at `rate`.
    fn on_ppdu(&mut self, now: Time, rate: DataRate);

    /// Most retries of an MPDU, if the driver makes `most` at most.
    fn limit(&mut self, now: Time, most: u8, facts: PacketFacts) -> u8;
}
