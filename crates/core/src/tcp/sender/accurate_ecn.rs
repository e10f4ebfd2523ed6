//! Accurate ECN (RFC 9768) at the end that sends data: what its peer tells of congestion marks.
//!
//! Source: Linux since 6.18, net/ipv4/tcp_input.c, `__tcp_accecn_process` and
//! `tcp_accecn_process_option`.

use super::Sender;
use super::ack::Ack;
use crate::convert::signed32;
use crate::packet::{AccurateEcn, Packet};
use crate::tcp::cc::CaState;
use crate::tcp::{EcnEcho, Recovery};

/// The field counts modulo so many.
const CYCLE: u32 = 8;
/// Weight of an ACK in the mean of the segments that one reports, and parts of a segment in which
/// that mean is kept (`PKTS_ACKED_WEIGHT`, `PKTS_ACKED_PREC`).
const MEAN_WEIGHT: u32 = 6;
const MEAN_PARTS: u32 = 6;
/// Above this mean a long ACK is one that the path has thinned, not one that follows lost ones
/// (`ACK_COMP_THRESH`).
const THINNED: u32 = 4 << MEAN_PARTS;

/// Which of the option's byte counters grows. ACKs without the option count as if it told the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Growing {
    /// Not known, or more than one at once.
    #[default]
    Unknown,
    Unmarked,
    Marked,
}

/// Data that an ACK newly reports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub segments: u32,
    pub bytes: u32,
    /// The bytes are exact: there is SACK, or no loss is under repair.
    pub is_exact: bool,
}

/// Counters as the newest ACK has told them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    ace: u8,
    ce_bytes: u32,
    growing: Growing,
    /// Mean of the segments that an ACK reports (`pkts_acked_ewma`).
    mean_ack: u32,
    /// Segments reported as marked.
    pub in_all: u64,
}

impl Default for Marks {
    /// Initial values of both ends (RFC 9768 section 3.2.1).
    fn default() -> Marks {
        Marks { ace: 5, ce_bytes: 0, growing: Growing::Unknown, mean_ack: 0, in_all: 0 }
    }
}

impl Marks {
    /// Report of a sender of data about its peer's packets. Marks of ACKs steer nothing, so they
    /// are not counted.
    pub(super) const OF_NONE: AccurateEcn = AccurateEcn { ace: 5, ce_bytes: None };

    /// So many segments came marked since the last ACK that was counted.
    fn take(&mut self, echo: AccurateEcn, arrived: Arrived, mss: u32) -> u32 {
        let marked_bytes = self.take_option(echo.ce_bytes, arrived.bytes);
        self.note_ack(arrived.segments);
        let least = u32::from(echo.ace.wrapping_sub(self.ace)) % CYCLE;
        self.ace = echo.ace;
        let segments = arrived.segments;
        if segments < CYCLE {
            return least;
        }
        // The field may have wrapped around: from `least` on, every eighth number can be meant.
        let most = segments - (segments - least) % CYCLE;
        match marked_bytes {
            None if self.mean_ack > THINNED => least,
            None => most,
            Some(0) => least,
            Some(bytes) if segments >= 2 * CYCLE && arrived.is_exact => {
                if bytes >= arrived.bytes {
                    return most;
                }
                let share = (u64::from(bytes) * u64::from(segments)).div_ceil(u64::from(arrived.bytes));
                // A share of `segments`, so it fits.
                let share = u32::try_from(share).unwrap_or(segments);
                most.min(least + (share - share % CYCLE))
            }
            Some(bytes) if bytes > least * mss => most,
            Some(bytes) if bytes < most * mss / 2 => least,
            Some(_) => most,
        }
    }

    /// Bytes that came marked since the last ACK that was counted, of `arrived`. `None`: the option
    /// does not tell.
    fn take_option(&mut self, told: Option<u32>, arrived: u32) -> Option<u32> {
        let growing = self.growing;
        let Some(told) = told else {
            return match growing {
                Growing::Unknown => None,
                Growing::Unmarked => Some(0),
                Growing::Marked => {
                    self.ce_bytes = self.ce_bytes.wrapping_add(arrived);
                    Some(arrived)
                }
            };
        };
        // A number of 24 bits, with a sign.
        let more = signed32(told.wrapping_sub(self.ce_bytes) << 8) >> 8;
        self.ce_bytes = told;
        let Ok(more) = u32::try_from(more) else {
            self.growing = Growing::Unknown;
            return None;
        };
        self.growing = match (growing, more > 0, arrived > more) {
            (Growing::Unknown, true, true) => Growing::Unknown,
            (Growing::Unmarked, true, _) | (_, true, false) => Growing::Marked,
            (_, _, true) => Growing::Unmarked,
            (_, false, false) => growing,
        };
        (growing != Growing::Unknown).then_some(more)
    }

    fn note_ack(&mut self, segments: u32) {
        if segments > 0 {
            let new = segments << MEAN_PARTS;
            let mean = match self.mean_ack {
                0 => new,
                mean => ((mean << MEAN_WEIGHT) - mean + new) >> MEAN_WEIGHT,
            };
            self.mean_ack = mean.min(u32::from(u16::MAX));
        }
    }
}

impl Sender {
    /// The answer to the SYN. Accurate ECN has four codes, by the ECN field with which the SYN
    /// arrived (RFC 9768 section 3.1.2).
    pub(super) fn agree_on_ecn(&mut self, syn_ack: &Packet) {
        let answer = syn_ack.accurate_ecn().ace;
        let accurate = self.config.ecn.echo == EcnEcho::Accurate && matches!(answer, 2 | 3 | 4 | 6);
        self.ecn_ok = self.config.ecn.enabled && (accurate || answer & 1 != 0);
        self.marks = (self.ecn_ok && accurate).then(Marks::default);
    }

    /// Counts the marked ones among the segments that an ACK reports. An ACK that another has
    /// overtaken does not count, nor does one that may have been: it reports no data, and its
    /// timestamp is not newer.
    pub(super) fn count_marks(&mut self, p: &Packet, ack: &mut Ack) {
        let by_sack = self.config.loss_recovery.recovery == Recovery::Sack;
        let is_exact = by_sack || matches!(self.path.state, CaState::Open | CaState::Cwr);
        let progresses = ack.advanced || ack.sacked > 0 || ack.newer_timestamp;
        match &mut self.marks {
            Some(marks) if ack.number >= self.snd_una && progresses => {
                let arrived = Arrived { segments: ack.counted(), bytes: ack.delivered_bytes, is_exact };
                ack.marked = marks.take(p.accurate_ecn(), arrived, self.path.mss);
                ack.ece = ack.marked > 0;
                marks.in_all += u64::from(ack.marked);
            }
            Some(_) => ack.ece = false,
            None => ack.marked = if ack.ece { ack.delivered } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    fn arrived(segments: u32) -> Arrived {
        Arrived { segments, bytes: segments * MSS, is_exact: true }
    }

    fn field(marks: &mut Marks, ace: u8, segments: u32) -> u32 {
        marks.take(AccurateEcn { ace, ce_bytes: None }, arrived(segments), MSS)
    }

    /// Marks that a peer with the option tells of, one ACK after the other.
    struct Peer {
        marks: Marks,
        seen: u32,
    }

    impl Peer {
        fn new() -> Peer {
            let mut peer = Peer { marks: Marks::default(), seen: 0 };
            assert_eq!(peer.tell(1, 0), 0);
            peer
        }
        fn tell(&mut self, segments: u32, marked: u32) -> u32 {
            self.seen += marked;
            let ace = u8::try_from((5 + self.seen) % 8).unwrap();
            let echo = AccurateEcn { ace, ce_bytes: Some((self.seen * MSS) & 0xff_ffff) };
            self.marks.take(echo, arrived(segments), MSS)
        }
    }

    /// A long ACK without the option follows lost ones, and the most is meant that fits, unless all
    /// ACKs are long.
    #[test]
    fn the_field_counts_modulo_eight() {
        let mut marks = Marks::default();
        assert_eq!([(5, 2), (6, 2), (0, 2), (0, 1)].map(|(ace, n)| field(&mut marks, ace, n)), [0, 1, 2, 0]);
        // Ten more segments, two by the field: ten is two modulo eight. Nine: two.
        assert_eq!([(2, 10), (4, 9), (6, 16)].map(|(ace, n)| field(&mut marks, ace, n)), [10, 2, 10]);
        let mut thinned = Marks::default();
        assert_eq!([(5, 20), (5, 40), (7, 40)].map(|(ace, n)| field(&mut thinned, ace, n)), [0, 0, 2]);
    }

    /// With the option the count is exact, whatever the number of segments that an ACK reports.
    #[test]
    fn the_option_says_how_often_the_field_wrapped_around() {
        for segments in 1..60 {
            for marked in 0..=segments {
                let mut peer = Peer::new();
                let told = [peer.tell(segments, marked), peer.tell(segments, 0), peer.tell(segments, marked)];
                assert_eq!(told, [marked, 0, marked], "{marked} of {segments}");
            }
        }
    }

    #[test]
    fn the_counter_of_bytes_has_24_bits() {
        let mut marks = Marks { ce_bytes: 0xff_ff00, growing: Growing::Unmarked, ..Marks::default() };
        assert_eq!(marks.take_option(Some(0x2e8), 1000), Some(1000));
        assert_eq!(marks.take_option(Some(0x2e7), 1000), None, "it cannot fall");
    }

    /// SACK blocks can leave no room for the option.
    #[test]
    fn without_the_option_the_counter_is_taken_to_grow_that_grew_last() {
        let mut peer = Peer::new();
        assert_eq!(field(&mut peer.marks, 5, 20), 0, "no marks");
        assert_eq!(peer.tell(2, 2), 2);
        assert_eq!(field(&mut peer.marks, 7, 20), 16, "all that can be meant");
        assert_eq!(peer.marks.take_option(Some(22 * MSS), MSS), Some(0));
    }
}
