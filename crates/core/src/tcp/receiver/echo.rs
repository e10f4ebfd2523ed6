//! Congestion marks, as a receiver echoes them: once per window, one by one, or counted.

use crate::convert::low16;
use crate::packet::{AccurateEcn, Ecn, MAX_SACK, Packet, TcpFlags};
use crate::tcp::{EcnEcho, TcpConfig};

/// Counters of the option of Accurate ECN: bytes with ECT(1), with CE, with ECT(0). An option can
/// leave out the last of them.
const COUNTERS: u16 = 3;
/// Bytes of TCP options in a packet, of the timestamps, of a SACK option and of each block in it.
const OPTION_SPACE: u16 = 40;
const TIMESTAMPS: u16 = 12;
const SACK: u16 = 4;
const SACK_BLOCK: u16 = 8;
/// SACK blocks that never make room for the option.
const LEAST_BLOCKS: u16 = 2;
/// Marks after which an ACK leaves at once (`TCP_ACCECN_ACE_MAX_DELTA`): the field ACE counts
/// seven.
const MOST_MARKS: u32 = 6;

/// ACKs that a packet asks for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    None,
    OneAck,
    TwoAcks,
}

#[derive(Debug, Default)]
pub(super) struct Echo {
    /// As agreed on with the peer; `None`: marks are not echoed.
    how: Option<EcnEcho>,
    /// ECE is set on ACKs.
    ece: bool,
    /// The ECN field of the last packet; and whether any data could be marked (TCP_ECN_SEEN).
    last: Ecn,
    capable: bool,
    /// The option is worth its place with so many counters, so that it has those of the packets
    /// since the last one (`accecn_minlen`).
    least_counters: u16,
    /// Packets that came marked, and how many the last ACK had told of; bytes of data in them.
    marked: u32,
    reported: u32,
    ce_bytes: u32,
}

impl Echo {
    /// Where there is no handshake, both ends are set alike.
    pub(super) fn new(config: &TcpConfig) -> Echo {
        Echo { how: (config.ecn.enabled && !config.connection.handshake).then_some(config.ecn.echo), ..Echo::default() }
    }

    /// Takes the method that a SYN asks for, as far as this end supports it.
    pub(super) fn agree(&mut self, syn: &Packet, config: &TcpConfig) {
        let asked = syn.accurate_ecn().ace;
        self.how = (config.ecn.enabled && asked & 3 == 3).then_some(match config.ecn.echo {
            EcnEcho::Accurate if asked != 7 => EcnEcho::Latched,
            how => how,
        });
    }

    /// The SYN-ACK says what was agreed on. A SYN cannot be marked here (RFC 9768 section 3.1.2: it
    /// came as Not-ECT).
    pub(super) fn answer(&self, syn_ack: &mut Packet) {
        let ace = match self.how {
            None => 0,
            Some(EcnEcho::Accurate) => 2,
            Some(_) => 1,
        };
        syn_ack.set_accurate_ecn(AccurateEcn { ace, ce_bytes: None });
    }

    /// ACKs can carry a mark themselves, as all packets do with Accurate ECN.
    pub(super) fn marks_acks(&self) -> bool {
        self.how == Some(EcnEcho::Accurate)
    }

    /// An ACK sent after this packet would say something else of marks than one sent before.
    pub(super) fn changes_with(&self, p: &Packet) -> bool {
        self.how == Some(EcnEcho::Each) && p.len > 0 && (p.ecn == Ecn::Ce) != self.ece
    }

    /// A packet, or several merged, came. Says whether it asks for an ACK at once. With Accurate
    /// ECN it does if its ECN field is not that of the last one (Linux since 6.18,
    /// include/net/tcp_ecn.h, `tcp_ecn_received_counters`). With a latched echo the first mark and
    /// the sender's answer to it do, since the sender may have a small window then, and so does
    /// data that is not capable, which may have been sent again (`__tcp_ecn_check_ce`,
    /// `tcp_ecn_accept_cwr`).
    pub(super) fn take(&mut self, p: &Packet, segments: u16) -> Wish {
        let one_if = |asks| if asks { Wish::OneAck } else { Wish::None };
        let is_marked = p.ecn == Ecn::Ce;
        match self.how {
            Some(EcnEcho::Accurate) => {
                let changes = std::mem::replace(&mut self.last, p.ecn) != p.ecn;
                if is_marked {
                    self.marked = self.marked.wrapping_add(u32::from(segments));
                    self.ce_bytes = self.ce_bytes.wrapping_add(u32::from(p.len));
                }
                if p.len > 0 {
                    self.least_counters = self.least_counters.max(match p.ecn {
                        Ecn::NotEct => 0,
                        Ecn::Ect1 => 1,
                        Ecn::Ce => 2,
                        Ecn::Ect0 => COUNTERS,
                    });
                }
                one_if(changes || self.marked.wrapping_sub(self.reported) >= MOST_MARKS)
            }
            Some(EcnEcho::Each) => {
                let changes = self.changes_with(p);
                self.ece ^= changes;
                one_if(changes)
            }
            Some(EcnEcho::Latched) => {
                let reduced = p.has(TcpFlags::CWR);
                let first = is_marked && (reduced || !self.ece);
                self.ece = is_marked || (self.ece && !reduced);
                let repeated = self.capable && p.ecn == Ecn::NotEct && p.len > 0;
                self.capable |= p.ecn != Ecn::NotEct;
                if first || repeated { Wish::TwoAcks } else { one_if(reduced && p.len > 0) }
            }
            None => Wish::None,
        }
    }

    /// Puts it into an ACK that has its SACK blocks; returns the bytes of options that this takes.
    pub(super) fn write_to(&mut self, ack: &mut Packet, timestamps: bool) -> u16 {
        if self.how != Some(EcnEcho::Accurate) {
            ack.flags |= TcpFlags::when(self.ece, TcpFlags::ECE);
            return 0;
        }
        self.reported = self.marked;
        let counters = self.counters_beside(low16(ack.sack().len() as u64), timestamps);
        if counters.is_some() {
            self.least_counters = 0;
        }
        // Both ends count from five on (section 3.2.1).
        let ace = (self.marked.wrapping_add(5) & 7) as u8;
        let ce_bytes = counters.is_some_and(|n| n >= 2).then_some(self.ce_bytes);
        ack.set_accurate_ecn(AccurateEcn { ace, ce_bytes });
        counters.map_or(0, |n| padded(n, !ack.sack().is_empty()))
    }

    /// So many of `blocks` SACK blocks stay beside the option. Linux sends it with every ACK that
    /// has room (`tcp_ecn_option` is 2), and one or two of many blocks can make that room
    /// (net/ipv4/tcp_output.c, `tcp_options_fit_accecn`).
    pub(super) fn sack_blocks_beside(&self, blocks: usize, timestamps: bool) -> usize {
        if self.how != Some(EcnEcho::Accurate) {
            return blocks;
        }
        // A packet with all the blocks has no place for the field.
        let blocks = low16(blocks.min(MAX_SACK - 1) as u64);
        let least = if self.least_counters > 0 { LEAST_BLOCKS.min(blocks) } else { blocks };
        let fits = |&n: &u16| self.counters_beside(n, timestamps).is_some();
        usize::from((least..=blocks).rev().find(fits).unwrap_or(blocks))
    }

    /// Counters for which an option has room beside so many SACK blocks; `None`: too few.
    fn counters_beside(&self, blocks: u16, timestamps: bool) -> Option<u16> {
        let sack = if blocks > 0 { SACK + SACK_BLOCK * blocks } else { 0 };
        let left = OPTION_SPACE - if timestamps { TIMESTAMPS } else { 0 } - sack;
        (self.least_counters..=COUNTERS).rev().find(|&n| padded(n, blocks > 0) <= left)
    }
}

/// Bytes that the option takes with so many counters of three bytes: whole words. Beside SACK
/// blocks it takes the place of two bytes of padding.
fn padded(counters: u16, beside_sack: bool) -> u16 {
    let bytes = 2 + 3 * counters;
    let padding = if beside_sack { 2 } else { 0 };
    if bytes % 4 > padding { bytes.next_multiple_of(4) } else { bytes - bytes % 4 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Kind, SackBlock};
    use crate::tcp::profile::profile;
    use crate::units::Seq32;

    fn config(echo: EcnEcho) -> TcpConfig {
        let mut config = profile("linux-6").unwrap().resolve().unwrap();
        (config.ecn.enabled, config.ecn.echo) = (true, echo);
        config
    }

    fn packet(ecn: Ecn, len: u16) -> Packet {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.ecn, p.len) = (ecn, len);
        p
    }

    /// RFC 9768 section 3.1: what either end asks for and can do, and what the SYN-ACK then says.
    #[test]
    fn both_ends_have_to_know_it() {
        use EcnEcho::{Accurate, Each, Latched};
        for (own, asked, how, answer) in [
            (Accurate, 7, Some(Accurate), 2),
            (Accurate, 3, Some(Latched), 1),
            (Accurate, 0, None, 0),
            (Latched, 7, Some(Latched), 1),
            (Each, 3, Some(Each), 1),
        ] {
            let (mut echo, mut syn, mut syn_ack) = (Echo::default(), packet(Ecn::NotEct, 0), packet(Ecn::NotEct, 0));
            syn.set_accurate_ecn(AccurateEcn { ace: asked, ce_bytes: None });
            echo.agree(&syn, &config(own));
            echo.answer(&mut syn_ack);
            assert_eq!((echo.how, syn_ack.accurate_ecn().ace), (how, answer), "{own:?}, asked for {asked}");
        }
    }

    fn accurate() -> Echo {
        let mut config = config(EcnEcho::Accurate);
        config.connection.handshake = false;
        Echo::new(&config)
    }

    fn ack(blocks: usize) -> Packet {
        let mut ack = packet(Ecn::NotEct, 0);
        (0..blocks).for_each(|_| ack.push_sack(SackBlock { start: Seq32(1), end: Seq32(2) }));
        ack
    }

    /// The counters come from the first ACK on, so that a sender can tell marks from none in a long
    /// one.
    #[test]
    fn every_ack_has_the_counters() {
        let mut echo = accurate();
        let told = |echo: &mut Echo| {
            let mut ack = ack(0);
            (echo.write_to(&mut ack, true), ack.accurate_ecn())
        };
        let of = |ace, bytes| (12, AccurateEcn { ace, ce_bytes: Some(bytes) });
        assert_eq!(told(&mut echo), of(5, 0));
        echo.take(&packet(Ecn::Ect1, 1000), 1);
        assert_eq!(told(&mut echo), of(5, 0));
        echo.take(&packet(Ecn::Ce, 1000), 1);
        assert_eq!(told(&mut echo), of(6, 1000));
        // Sixteen merged segments count as sixteen, which the field alone cannot say.
        echo.take(&packet(Ecn::Ce, 16_000), 16);
        assert_eq!(told(&mut echo), of(6, 17_000));
    }

    /// `tcp_ecn_received_counters`: at each change between marked and not, and before the field
    /// wraps around.
    #[test]
    fn a_change_is_told_at_once_and_so_are_six_marks() {
        let mut echo = accurate();
        assert_eq!(echo.take(&packet(Ecn::Ect1, 1000), 1), Wish::OneAck, "the SYN came without ECT");
        let (marked, not) = (packet(Ecn::Ce, 1000), packet(Ecn::Ect1, 1000));
        let asks = |wishes: &[Wish]| wishes.iter().map(|&wish| wish == Wish::OneAck).collect::<Vec<_>>();
        let wishes = [not, marked, marked, not, not].map(|p| echo.take(&p, 1));
        assert_eq!(asks(&wishes), [false, true, false, true, false]);
        echo.write_to(&mut ack(0), true);
        assert_eq!(asks(&[0; 6].map(|_| echo.take(&marked, 1))), [true, false, false, false, false, true]);
    }

    /// `tcp_options_fit_accecn`: bytes of the option, and SACK blocks that stay.
    #[test]
    fn the_option_and_sack_blocks_share_the_room() {
        for (ecn, timestamps, blocks, kept, bytes) in [
            (Ecn::Ect1, true, 0, 0, 12),
            (Ecn::Ect1, true, 1, 1, 12),
            (Ecn::Ect1, true, 2, 2, 8),
            (Ecn::Ect1, true, 3, 2, 8),
            // The counter of ECT(0) is the last of three.
            (Ecn::Ect0, true, 1, 1, 12),
            (Ecn::Ect0, true, 2, 2, 0),
            (Ecn::Ect0, true, 3, 3, 0),
            (Ecn::Ect0, false, 4, 3, 12),
        ] {
            let mut echo = accurate();
            echo.take(&packet(ecn, 1000), 1);
            assert_eq!(echo.sack_blocks_beside(blocks, timestamps), kept, "{ecn:?} {blocks}");
            let mut ack = ack(kept);
            assert_eq!(echo.write_to(&mut ack, timestamps), bytes, "{ecn:?} {blocks}");
            assert_eq!(ack.accurate_ecn().ce_bytes, (bytes > 0).then_some(0));
        }
        assert_eq!(Echo::default().sack_blocks_beside(4, false), 4);
    }
}
