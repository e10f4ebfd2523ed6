//! Congestion marks, as a receiver echoes them: once per window, one by one, or counted.

use crate::packet::{AccurateEcn, Ecn, Packet, TcpFlags};
use crate::tcp::{EcnEcho, TcpConfig};

/// Bytes of the option of Accurate ECN with two of its three counters.
const OPTION_BYTES: u16 = 8;
/// Marks after which an ACK leaves at once, with data that no ACK covers yet and without (RFC 9768
/// section 3.2.2.5.1).
const MARKS_BESIDE_DATA: u32 = 2;
const MARKS_ALONE: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Echo {
    /// As agreed on with the peer; `None`: marks are not echoed.
    how: Option<EcnEcho>,
    /// ECE is set on ACKs.
    ece: bool,
    /// The last packet was marked.
    was_marked: bool,
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

    /// An ACK sent after this packet would say something else of marks than one sent before.
    pub(super) fn changes_with(&self, p: &Packet) -> bool {
        self.how == Some(EcnEcho::Each) && p.len > 0 && (p.ecn == Ecn::Ce) != self.ece
    }

    /// A packet, or several merged, came; `unacked`: data waits for an ACK. Says whether it asks
    /// for one at once.
    pub(super) fn take(&mut self, p: &Packet, segments: u16, unacked: bool) -> bool {
        let is_marked = p.ecn == Ecn::Ce;
        match self.how {
            Some(EcnEcho::Accurate) => {
                let begins = is_marked && !self.was_marked;
                self.was_marked = is_marked;
                if is_marked {
                    self.marked = self.marked.wrapping_add(u32::from(segments));
                    self.ce_bytes = self.ce_bytes.wrapping_add(u32::from(p.len));
                }
                let most = if unacked { MARKS_BESIDE_DATA } else { MARKS_ALONE };
                begins || self.marked.wrapping_sub(self.reported) >= most
            }
            Some(EcnEcho::Each) => {
                let changes = self.changes_with(p);
                self.ece ^= changes;
                changes
            }
            Some(EcnEcho::Latched) => {
                self.ece = is_marked || (self.ece && !p.has(TcpFlags::CWR));
                false
            }
            None => false,
        }
    }

    /// Puts it into an ACK; returns the bytes of options that this takes.
    pub(super) fn write_to(&mut self, ack: &mut Packet) -> u16 {
        if self.how != Some(EcnEcho::Accurate) {
            ack.flags |= TcpFlags::when(self.ece, TcpFlags::ECE);
            return 0;
        }
        self.reported = self.marked;
        let ce_bytes = (self.marked > 0).then_some(self.ce_bytes);
        // Both ends count from five on (section 3.2.1).
        let ace = (self.marked.wrapping_add(5) & 7) as u8;
        ack.set_accurate_ecn(AccurateEcn { ace, ce_bytes });
        if ce_bytes.is_some() { OPTION_BYTES } else { 0 }
    }

    /// SACK blocks for which the option leaves no room.
    pub(super) fn sack_blocks_in_its_place(&self) -> usize {
        usize::from(self.how == Some(EcnEcho::Accurate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Kind};
    use crate::tcp::profile::profile;

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

    /// Section 3.2.2.5.1: an ACK at once for the first of several marks, and for every second or
    /// third of them.
    #[test]
    fn marks_are_counted_and_told_at_once() {
        let mut config = config(EcnEcho::Accurate);
        config.connection.handshake = false;
        let mut echo = Echo::new(&config);
        let mut ack = packet(Ecn::NotEct, 0);
        assert_eq!((echo.write_to(&mut ack), ack.accurate_ecn()), (0, AccurateEcn { ace: 5, ce_bytes: None }));
        assert!(!echo.take(&packet(Ecn::Ect1, 1000), 1, false));
        let marked = packet(Ecn::Ce, 1000);
        assert!(echo.take(&marked, 1, true), "the first");
        assert_eq!((echo.write_to(&mut ack), ack.accurate_ecn()), (8, AccurateEcn { ace: 6, ce_bytes: Some(1000) }));
        assert_eq!([false, false].map(|unacked| echo.take(&marked, 1, unacked)), [false, false]);
        assert!(echo.take(&marked, 1, false), "the third");
        echo.write_to(&mut ack);
        assert_eq!(
            [false, true].map(|unacked| echo.take(&marked, 1, unacked)),
            [false, true],
            "the second beside data"
        );
        // Sixteen merged segments count as sixteen, which the field alone cannot say.
        assert!(echo.take(&packet(Ecn::Ce, 16_000), 16, false));
        echo.write_to(&mut ack);
        assert_eq!(ack.accurate_ecn(), AccurateEcn { ace: ((5 + 22) & 7) as u8, ce_bytes: Some(22_000) });
    }
}
