//! Accurate ECN (RFC 9768) at the end that sends data: what its peer tells of congestion marks.

use super::Sender;
use super::ack::Ack;
use crate::packet::{AccurateEcn, Packet};
use crate::tcp::EcnEcho;

/// Counters as the newest ACK has told them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    ace: u8,
    ce_bytes: u32,
    #[cfg(test)]
    pub in_all: u64,
}

impl Default for Marks {
    /// Initial values of both ends (RFC 9768 section 3.2.1).
    fn default() -> Marks {
        Marks {
            ace: 5,
            ce_bytes: 0,
            #[cfg(test)]
            in_all: 0,
        }
    }
}

impl Marks {
    /// Report of a sender of data about its peer's packets: ACKs are never marked.
    pub(super) const OF_NONE: AccurateEcn = AccurateEcn { ace: 5, ce_bytes: None };

    /// So many segments came marked since the last ACK that was counted; `delivered` is how many
    /// this one newly reports.
    fn take(&mut self, echo: AccurateEcn, delivered: u32, mss: u32) -> u32 {
        let cycles = u32::from(echo.ace.wrapping_sub(self.ace) & 7);
        self.ace = echo.ace;
        let Some(bytes) = echo.ce_bytes else {
            // The field may have wrapped around, so the most counts that can be meant (RFC 9768
            // appendix A.2.1).
            return if delivered < 8 { cycles } else { delivered - ((delivered - cycles) & 7) };
        };
        let more = bytes.wrapping_sub(self.ce_bytes) & 0xff_ffff;
        self.ce_bytes = bytes;
        more.div_ceil(mss.max(1))
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
    /// overtaken does not count.
    pub(super) fn count_marks(&mut self, p: &Packet, ack: &mut Ack) {
        match &mut self.marks {
            Some(marks) if ack.number >= self.snd_una => {
                ack.marked = marks.take(p.accurate_ecn(), ack.delivered, self.path.mss);
                ack.ece = ack.marked > 0;
                #[cfg(test)]
                {
                    marks.in_all += u64::from(ack.marked);
                }
            }
            Some(_) => ack.ece = false,
            None => ack.marked = if ack.ece { ack.delivered } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9768 appendix A.2.1: without the option, and few segments at once, the difference modulo
    /// 8; else the most that fits.
    #[test]
    fn the_field_counts_modulo_eight_and_the_option_bytes() {
        let mut marks = Marks::default();
        let mut field = |ace, delivered| marks.take(AccurateEcn { ace, ce_bytes: None }, delivered, 1000);
        assert_eq!([field(5, 2), field(6, 2), field(0, 2), field(0, 1)], [0, 1, 2, 0]);
        // Ten more segments, two by the field: ten is two modulo eight. Nine, two by the field:
        // two. Sixteen: ten.
        assert_eq!([field(2, 10), field(4, 9), field(6, 16)], [10, 2, 10]);
        let mut marks = Marks::default();
        let mut option = |ce_bytes| marks.take(AccurateEcn { ace: 0, ce_bytes: Some(ce_bytes) }, 1, 1000);
        assert_eq!([option(0), option(1000), option(21_000), option(21_001)], [0, 1, 20, 1]);
        let mut marks = Marks { ce_bytes: 0xff_ff00, ..Marks::default() };
        assert_eq!(marks.take(AccurateEcn { ace: 0, ce_bytes: Some(0x2e8) }, 1, 1000), 1, "24 bits wrap around");
    }
}
