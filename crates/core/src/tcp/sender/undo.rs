//! A reduction that may prove spurious. One proof is a timestamp that is echoed after it (Eifel,
//! RFC 3522). The other is a DSACK for every retransmission since (RFC 2883, as Linux uses it).

#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    /// The control has been told of a timeout.
    pub after_timeout: bool,
    /// First byte not acknowledged when it happened.
    marker: u64,
    /// Retransmissions since then that are not known to have been needless; `None`: there was none.
    retransmissions: Option<u32>,
}

impl Undo {
    /// A reduction happens while so many retransmissions of an earlier one are on their way, of
    /// which DSACKs may tell; `None`: there are none.
    pub(crate) fn new(snd_una: u64, retransmissions: Option<u32>) -> Undo {
        Undo { after_timeout: false, marker: snd_una, retransmissions }
    }

    /// A segment is sent again.
    pub(crate) fn on_retransmission(&mut self) {
        self.retransmissions = Some(self.retransmissions.unwrap_or(0) + 1);
    }

    /// End of the data of the time before.
    pub(crate) fn marker(&self) -> u64 {
        self.marker
    }

    /// A DSACK says that so many retransmissions were needless. Linux counts in `undo_retrans`
    /// (6.12, net/ipv4/tcp_input.c, `tcp_check_dsack` and `tcp_sacktag_one`).
    pub(crate) fn on_needless(&mut self, segments: u32) {
        if let Some(left) = &mut self.retransmissions {
            *left = left.saturating_sub(segments);
        }
    }

    /// Every retransmission is known to have been needless.
    pub(crate) fn was_needless(&self) -> bool {
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
    fn it_takes_a_dsack_for_every_retransmission_since() {
        let mut undo = Undo::new(5_001, None);
        let mut after = |segments, again| {
            undo.on_needless(segments);
            (0..again).for_each(|_| undo.on_retransmission());
            undo.was_needless()
        };
        assert!(!after(1, 3), "nothing was sent again, and what came before does not count");
        assert!(!after(1, 0) && !after(0, 0) && after(2, 0));
        let mut undo = Undo::new(1, Some(2));
        undo.on_retransmission();
        undo.on_needless(1);
        assert!(!undo.was_needless(), "two of an earlier recovery may have been needless");
        undo.on_needless(2);
        assert!(undo.was_needless());
    }
}
