//! State to restore if a reduction proves spurious. One proof is the first timestamp that is echoed
//! after it (Eifel, RFC 3522). The other is a DSACK for every retransmission since (RFC 2883, as
//! Linux uses it).

use crate::convert::signed32;

#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    /// Segments.
    pub ssthresh: u32,
    /// The control has been told of a timeout.
    pub after_timeout: bool,
    /// Timestamp of the first retransmission since; zero until there is one, and again once its ACK
    /// has been looked at.
    first_retransmission_ts: u32,
    /// First byte not acknowledged when it happened.
    marker: u64,
    /// Retransmissions since then, and how many of them are known to have been needless.
    retransmissions: u32,
    needless: u32,
}

impl Undo {
    /// A reduction happens with this threshold before it. `out`: retransmissions of an earlier one
    /// are on their way, so many, the first of them with that timestamp. An ACK may be for one
    /// of those, and DSACKs may.
    pub(crate) fn new(ssthresh: u32, snd_una: u64, out: Option<(u32, u32)>) -> Undo {
        let (retransmissions, first_retransmission_ts) = out.unwrap_or_default();
        Undo { ssthresh, after_timeout: false, first_retransmission_ts, marker: snd_una, retransmissions, needless: 0 }
    }

    /// A segment is sent again, with that timestamp; 0: none.
    pub(crate) fn on_retransmission(&mut self, timestamp: u32) {
        if self.retransmissions == 0 && self.first_retransmission_ts == 0 {
            self.first_retransmission_ts = timestamp;
        }
        self.retransmissions += 1;
    }

    /// True if an ACK with this echo is for the original of the first segment that was sent again.
    /// `None`: the echo decides nothing, as no timestamp is left to compare with.
    // [RFC9438-4.9.2-1]
    pub(crate) fn is_for_original(&self, echo: u32) -> Option<bool> {
        if self.first_retransmission_ts == 0 || echo == 0 {
            return None;
        }
        Some((signed32(echo.wrapping_sub(self.first_retransmission_ts))) < 0)
    }

    /// The ACK in hand has told: none later can.
    pub(crate) fn compares_no_more(&mut self) {
        self.first_retransmission_ts = 0;
    }

    /// No echo is waited for to be compared.
    #[inline]
    pub(crate) fn has_compared(&self) -> bool {
        self.first_retransmission_ts == 0
    }

    /// A DSACK reports `start..end`, in segments of `mss`; true if every retransmission is now
    /// known to have been needless.
    pub(crate) fn on_duplicate_sack(&mut self, (start, end): (u64, u64), mss: u64) -> bool {
        if end <= self.marker {
            return false;
        }
        let segments = u32::try_from((end - start).div_ceil(mss)).unwrap_or(u32::MAX);
        self.needless = self.needless.saturating_add(segments);
        self.retransmissions > 0 && self.needless >= self.retransmissions
    }
}

#[cfg(test)]
mod tests {
    use super::Undo;

    // [RFC9438-4.9.2-1]
    #[test]
    fn the_first_echo_after_the_first_retransmission_tells_once() {
        let mut undo = Undo::new(10, 1, None);
        assert_eq!(undo.is_for_original(99), None, "nothing was sent again");
        undo.on_retransmission(100);
        undo.on_retransmission(105);
        assert_eq!(undo.is_for_original(0), None, "no echo");
        assert_eq!(undo.is_for_original(99), Some(true));
        undo.compares_no_more();
        assert_eq!(undo.is_for_original(99), None);
        let mut undo = Undo::new(10, 1, None);
        undo.on_retransmission(2);
        assert_eq!(undo.is_for_original(u32::MAX), Some(true), "timestamps wrap");
        let mut undo = Undo::new(10, 1, None);
        undo.on_retransmission(100);
        assert_eq!(undo.is_for_original(100), Some(false));
    }

    #[test]
    fn retransmissions_of_an_earlier_recovery_say_nothing_of_this_one() {
        let mut undo = Undo::new(10, 1, Some((2, 90)));
        undo.on_retransmission(100);
        assert_eq!(undo.is_for_original(95), Some(false), "the ACK of one of them");
        assert!(!undo.on_duplicate_sack((5_001, 6_001), 1_000), "two more may have been needless");
        assert!(undo.on_duplicate_sack((7_001, 9_001), 1_000));
    }

    // [RFC9438-4.9.2-1]
    #[test]
    fn it_takes_a_dsack_for_every_retransmission_since() {
        let mut undo = Undo::new(10, 5_001, None);
        assert!(!undo.on_duplicate_sack((5_001, 6_001), 1_000), "nothing was sent again");
        let mut undo = Undo::new(10, 5_001, None);
        (0..3).for_each(|_| undo.on_retransmission(0));
        assert!(!undo.on_duplicate_sack((4_001, 5_001), 1_000), "from before the reduction");
        assert!(!undo.on_duplicate_sack((5_001, 6_001), 1_000));
        assert!(undo.on_duplicate_sack((7_001, 9_001), 1_000), "two in one range");
    }
}
