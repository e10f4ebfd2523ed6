//! Evidence by which retry-out takes a corrupt MPDU for one with a TCP segment.
//!
//! In an open network the driver reads the IP header of a corrupt MPDU, as the study `ap-retry-out`
//! does (section 3.2). In an encrypted one it cannot: CCMP and GCMP decrypt an MPDU only whole,
//! after its check (IEEE 802.11-2020 12.5.3.4 and 12.5.5.4). The driver still knows its length,
//! which the A-MPDU delimiter states with a check of its own. It also knows the earlier MPDUs of
//! the same sender and TID. All variants but `payload` use these two alone. A wrong guess loses a
//! packet that should have been spared, or spares one that should have been lost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Evidence by which retry-out takes a corrupt MPDU for one with a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TcpKnownBy {
    /// Its payload, as the study has it: only without encryption.
    #[default]
    Payload,
    /// Its length: an IP packet of 1400 bytes or more. A TCP segment under 1500 bytes of MTU has
    /// 1492 or more, through most tunnels 1400. QUIC and calls mostly stay below (RFC 9000,
    /// section 14: 1200 bytes must work).
    Length,
    /// More than half of the latest 16 MPDUs that arrived correct carry TCP.
    LastGood,
    /// All of the latest 64 MPDUs that arrived correct carry TCP: a Block Ack window without
    /// anything else.
    AllTcp,
    /// At least one of the latest 64 MPDUs that arrived correct has the same length, and all with
    /// that length carry TCP.
    SameLength,
}

impl TcpKnownBy {
    /// Knowledge of one session at its beginning: no MPDUs.
    pub fn build(self) -> TcpKnowledge {
        let recent = if self == TcpKnownBy::LastGood { 16 } else { 64 };
        let size = if self.needs_good() { recent } else { 0 };
        TcpKnowledge { by: self, good: vec![Good::default(); size].into(), known: 0, next: 0 }
    }

    fn needs_good(self) -> bool {
        match self {
            TcpKnownBy::Payload | TcpKnownBy::Length => false,
            TcpKnownBy::LastGood | TcpKnownBy::AllTcp | TcpKnownBy::SameLength => true,
        }
    }
}

/// An IP packet of this many bytes counts as a full TCP segment.
const LONG: u16 = 1400;

/// An MPDU that arrived correct.
#[derive(Debug, Clone, Copy, Default)]
struct Good {
    bytes: u16,
    is_tcp: bool,
}

/// Knowledge about one sender and TID: at most the latest 64 MPDUs that arrived correct.
#[derive(Debug, Clone)]
pub struct TcpKnowledge {
    by: TcpKnownBy,
    /// A ring of the latest MPDUs; empty if the variant does not use them.
    good: Box<[Good]>,
    /// Number of entries, and the place of the next.
    known: usize,
    next: usize,
}

impl TcpKnowledge {
    /// An MPDU arrived correct, with a packet of `bytes` at the IP layer.
    #[inline]
    pub fn on_correct(&mut self, is_tcp: bool, bytes: u16) {
        if let Some(place) = self.good.get_mut(self.next) {
            *place = Good { bytes, is_tcp };
            self.next = (self.next + 1) % self.good.len();
            self.known = (self.known + 1).min(self.good.len());
        }
    }

    /// True if a corrupt MPDU with a packet of `bytes` counts as TCP. `shows_tcp`: its payload is
    /// TCP.
    pub fn is_tcp(&self, shows_tcp: bool, bytes: u16) -> bool {
        // Until the ring is full, its first entries are those that are known.
        let good = &self.good[..self.known];
        match self.by {
            TcpKnownBy::Payload => shows_tcp,
            TcpKnownBy::Length => bytes >= LONG,
            TcpKnownBy::LastGood => 2 * good.iter().filter(|g| g.is_tcp).count() > good.len(),
            TcpKnownBy::AllTcp => !good.is_empty() && good.iter().all(|g| g.is_tcp),
            TcpKnownBy::SameLength => {
                let mut same = good.iter().filter(|g| g.bytes == bytes).peekable();
                same.peek().is_some() && same.all(|g| g.is_tcp)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knowledge of a session after these MPDUs: count, size, and true for TCP.
    fn after(by: TcpKnownBy, good: &[(usize, u16, bool)]) -> TcpKnowledge {
        let mut knowledge = by.build();
        for &(count, bytes, is_tcp) in good {
            (0..count).for_each(|_| knowledge.on_correct(is_tcp, bytes));
        }
        knowledge
    }

    #[test]
    fn each_way_knows_what_it_says() {
        use TcpKnownBy::*;
        let (upload, datagrams, pings) = ((63, 1500, true), (20, 500, false), (1, 92, false));
        // After these, is a corrupt MPDU of so many bytes TCP? Its payload shows it or not.
        for (by, good, bytes, shows, answer) in [
            (Payload, &[][..], 92, true, true),
            (Payload, &[upload], 1500, false, false),
            (Length, &[], 1500, false, true),
            (Length, &[], 1400, false, true),
            (Length, &[upload], 1399, true, false),
            (LastGood, &[], 1500, true, false),
            (LastGood, &[upload], 92, false, true),
            (LastGood, &[upload, (8, 500, false)], 1500, true, false),
            (LastGood, &[upload, (7, 500, false)], 500, false, true),
            (LastGood, &[datagrams, (9, 1500, true)], 1500, true, true),
            (AllTcp, &[], 1500, true, false),
            (AllTcp, &[upload], 500, false, true),
            (AllTcp, &[upload, pings], 1500, true, false),
            (AllTcp, &[pings, upload], 1500, true, false),
            (AllTcp, &[pings, upload, (1, 1500, true)], 1500, true, true),
            (SameLength, &[], 1500, true, false),
            (SameLength, &[upload, datagrams, pings], 1500, true, true),
            (SameLength, &[upload, datagrams, pings], 500, false, false),
            (SameLength, &[upload, datagrams, pings], 1400, true, false),
            (SameLength, &[upload, (1, 1500, false)], 1500, true, false),
            (SameLength, &[(1, 1500, false), upload, (1, 1500, true)], 1500, true, true),
        ] {
            assert_eq!(after(by, good).is_tcp(shows, bytes), answer, "{by:?} after {good:?}, {bytes} bytes");
        }
    }
}
