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
    /// Retransmissions since then that are not known to have been needless; `None`: there was none.
    retransmissions: Option<u32>,
}

impl Undo {
    /// A reduction happens with this threshold before it. `out`: retransmissions of an earlier one
    /// are on their way, so many, the first of them with that timestamp. An ACK may be for one
    /// of those, and DSACKs may.
    pub(crate) fn new(ssthresh: u32, snd_una: u64, out: Option<(u32, u32)>) -> Undo {
        let first_retransmission_ts = out.unwrap_or_default().1;
        let retransmissions = out.map(|out| out.0);
        Undo { ssthresh, after_timeout: false, first_retransmission_ts, marker: snd_una, retransmissions }
    }

    /// A segment is sent again, with that timestamp; 0: none.
    pub(crate) fn on_retransmission(&mut self, timestamp: u32) {
        if self.retransmissions.is_none() && self.first_retransmission_ts == 0 {
            self.first_retransmission_ts = timestamp;
        }
        self.retransmissions = Some(self.retransmissions.unwrap_or(0) + 1);
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

    /// Nothing has been sent again since, as where pacing holds the repair back.
    pub(crate) fn awaits_repair(&self) -> bool {
        self.retransmissions.is_none() && self.first_retransmission_ts == 0
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

    /// End of the data of the time before.
    pub(crate) fn marker(&self) -> u64 {
        self.marker
    }

    /// A DSACK says that so many retransmissions were needless; true if every one is now known to
    /// have been. Linux counts in `undo_retrans` (6.12, net/ipv4/tcp_input.c, `tcp_check_dsack` and
    /// `tcp_sacktag_one`).
    pub(crate) fn on_needless(&mut self, segments: u32) -> bool {
        if let Some(left) = &mut self.retransmissions {
            *left = left.saturating_sub(segments);
        }
        self.retransmissions == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Undo;
    use crate::packet::{FlowId, Kind, Packet, SackBlock, TcpFlags};
    use crate::rng::Streams;
    use crate::tcp::Outputs;
    use crate::tcp::cc::CaState;
    use crate::tcp::profile::profile;
    use crate::tcp::sender::Sender;
    use crate::units::{Seq32, Span, Time};

    /// Ten segments, of which the last is SACKed and then the second to fourth: the first is sent
    /// again.
    struct Repairing {
        sender: Sender,
        out: Outputs,
        now: Time,
    }

    impl Repairing {
        fn new() -> Repairing {
            let mut config = profile("linux-6").unwrap().resolve().unwrap();
            (config.connection.handshake, config.timestamps.enabled) = (false, false);
            let sender = Sender::new(FlowId(0), 0, Arc::new(config), Streams::of(1, 0));
            let mut story = Repairing { sender, out: Outputs::default(), now: Time::ZERO };
            story.sender.open(story.now, &mut story.out);
            story.sender.write(story.now, u64::MAX, &mut story.out);
            story.ack(0, &[(9, 10)]);
            story.ack(0, &[(1, 4), (9, 10)]);
            story.now += Span::from_ms(60);
            story.sender.on_deadline(story.now, &mut story.out);
            assert_eq!(story.sender.path.state, CaState::Recovery);
            story
        }

        /// An ACK of so many segments with SACK blocks in segments; returns reductions taken back
        /// and the state.
        fn ack(&mut self, segments: u32, blocks: &[(u32, u32)]) -> (u64, CaState) {
            self.now += Span::from_ms(100);
            let at = |n| Seq32(1 + n * self.sender.path.mss);
            let mut ack = Packet::new(FlowId(0), Kind::Tcp, 0);
            (ack.flags, ack.ack, ack.window) = (TcpFlags::ACK, at(segments), 1 << 20);
            blocks.iter().for_each(|&(start, end)| ack.push_sack(SackBlock { start: at(start), end: at(end) }));
            self.sender.on_packet(self.now, &ack, &mut self.out);
            (self.sender.stats.undos, self.sender.path.state)
        }

        fn reordering_steps(&self) -> Option<String> {
            let loss = format!("{:?}", self.sender.loss);
            loss.split("factor: ").nth(1).map(|rest| rest.chars().take_while(char::is_ascii_digit).collect())
        }
    }

    /// `tcp_sacktag_one` of Linux 6.12: a segment sent once came twice, and that says nothing of
    /// the one sent again.
    #[test]
    fn a_copy_of_what_was_sent_once_takes_nothing_back() {
        assert_eq!(Repairing::new().ack(0, &[(2, 3), (1, 4), (9, 10)]), (0, CaState::Recovery));
        assert_eq!(Repairing::new().ack(4, &[(2, 3), (9, 10)]).0, 0, "now covered");
        assert_eq!(Repairing::new().ack(4, &[(0, 1), (9, 10)]).0, 1, "it was needless");
    }

    /// `tcp_dsack_seen`: more came twice than was sent again, so the network makes copies.
    #[test]
    fn more_copies_than_retransmissions_say_nothing() {
        let mut story = Repairing::new();
        story.ack(0, &[(2, 3), (1, 4), (9, 10)]);
        assert_eq!(story.ack(4, &[(0, 1), (9, 10)]).0, 0);
        assert_eq!(story.reordering_steps().as_deref(), Some("2"), "the first of the two counts");
    }

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
        assert!(!undo.on_needless(1), "two more may have been needless");
        assert!(undo.on_needless(2));
    }

    // [RFC9438-4.9.2-1]
    #[test]
    fn it_takes_a_dsack_for_every_retransmission_since() {
        let mut undo = Undo::new(10, 5_001, None);
        assert!(!undo.on_needless(1), "nothing was sent again");
        (0..3).for_each(|_| undo.on_retransmission(0));
        assert!(!undo.on_needless(1), "what came before the first does not count");
        assert!(!undo.on_needless(0));
        assert!(undo.on_needless(2));
    }
}
