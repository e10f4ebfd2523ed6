//! Segments that the first queue of the sender's own host has refused. Linux,
//! net/ipv4/tcp_output.c, `__tcp_transmit_skb` and `tcp_write_xmit` (6.12): the segment stays
//! unsent and the window shrinks as after an ECN echo, once per window of data.

use super::{Sender, State};
use crate::packet::Packet;
use crate::tcp::cc::CaState;
use crate::units::Time;

impl Sender {
    /// The first queue of the host had no room for these segments, in the order in which they were
    /// to leave.
    pub fn on_refused(&mut self, now: Time, refused: &[Packet]) {
        if self.state != State::Established || refused.is_empty() {
            return;
        }
        self.count_until(now);
        // The newest first: behind a segment that was refused nothing new has left.
        for p in refused.iter().rev() {
            let start = p.seq.to_offset(self.snd_una);
            if self.board.take_back_last(start) {
                self.snd_nxt = start;
            } else if self.board.take_back_retransmission(start) {
                self.stats.segments_retransmitted -= 1;
            } else {
                continue;
            }
            self.stats.segments_sent -= 1;
            self.reduction.on_refused();
        }
        self.reduce_for_own_queue();
        self.path.in_flight = self.in_flight();
        if self.board.is_empty() {
            // No ACK will come: it tries again by itself (`tcp_check_probe_timer`).
            self.timers.stop_transmission();
            self.tail_loss_probe = None;
            self.timers.persist = self.timeout_from(now);
        }
    }

    /// The first queue of the host dropped a segment, which counts as sent: NET_XMIT_CN.
    pub fn on_congested(&mut self, now: Time) {
        if self.state == State::Established {
            self.count_until(now);
            self.reduce_for_own_queue();
        }
    }

    /// `tcp_enter_cwr`.
    fn reduce_for_own_queue(&mut self) {
        if matches!(self.path.state, CaState::Open | CaState::Disorder) {
            self.reduce(CaState::Cwr);
            self.undo = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::packet::FlowId;
    use crate::rng::Streams;
    use crate::tcp::{Outputs, Receiver, profile};
    use crate::units::Span;

    const MSS: u64 = 1448;

    /// A Linux host that has just sent its initial window of 10 of 100 segments, and the receiver.
    fn host() -> (Sender, Receiver, Vec<Packet>) {
        let mut config = profile::profile("linux-6").unwrap().resolve().unwrap();
        config.connection.handshake = false;
        let config = Arc::new(config);
        let mut sender = Sender::new(FlowId(0), 0, config.clone(), Streams::of(1, 0));
        let mut out = Outputs::default();
        sender.open(Time::ZERO, &mut out);
        sender.write(Time::ZERO, 100 * MSS, &mut out);
        assert_eq!(out.packets.len(), 10);
        (sender, Receiver::new(FlowId(0), 0, config), out.packets)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Packets that the sender sends in response to the receiver's answers to `packets`.
    fn arrive(sender: &mut Sender, receiver: &mut Receiver, now: Time, packets: &[Packet]) -> Vec<Packet> {
        let mut acks = Outputs::default();
        packets.iter().for_each(|p| receiver.on_packet(now, p, &mut acks));
        let mut out = Outputs::default();
        acks.packets.iter().for_each(|ack| sender.on_packet(now, ack, &mut out));
        sender.check();
        out.packets
    }

    fn numbers(packets: &[Packet]) -> Vec<u64> {
        packets.iter().map(|p| u64::from(p.seq.0 - 1) / MSS).collect()
    }

    #[test]
    fn what_the_queue_refuses_stays_unsent_and_the_window_shrinks_once() {
        let (mut sender, mut receiver, sent) = host();
        sender.on_refused(Time::ZERO, &sent[6..]);
        sender.check();
        assert_eq!((sender.path().state, sender.path().in_flight), (CaState::Cwr, 6));
        assert_eq!((sender.stats().segments_sent, sender.window().ssthresh), (6, 7));
        let next = arrive(&mut sender, &mut receiver, at(100), &sent[..3]);
        assert_eq!(numbers(&next)[0], 6, "the first that was refused goes first");
        let before = sender.window().ssthresh;
        sender.on_refused(at(100), &next[1..]);
        assert_eq!(sender.window().ssthresh, before, "once per window");
        assert_eq!((sender.stats().segments_retransmitted, sender.stats().fast_retransmits), (0, 0));
    }

    #[test]
    fn after_a_drop_that_counts_as_sent_the_window_shrinks_once_and_nothing_is_unsent() {
        let (mut sender, mut receiver, sent) = host();
        sender.on_congested(Time::ZERO);
        sender.on_congested(Time::ZERO);
        sender.check();
        assert_eq!((sender.path().state, sender.path().in_flight, sender.window().ssthresh), (CaState::Cwr, 10, 7));
        assert_eq!(sender.stats().segments_sent, 10);
        let next = arrive(&mut sender, &mut receiver, at(100), &sent);
        assert_eq!(numbers(&next)[0], 10, "what comes next is new");
    }

    #[test]
    fn a_sender_of_which_everything_was_refused_tries_again_by_itself() {
        let (mut sender, _, sent) = host();
        sender.on_refused(Time::ZERO, &sent);
        sender.check();
        assert_eq!((sender.path().in_flight, sender.stats().segments_sent), (0, 0));
        let mut out = Outputs::default();
        let due = sender.deadline();
        assert!(!due.is_never());
        sender.on_deadline(due, &mut out);
        assert_eq!(numbers(&out.packets)[0], 0);
        assert_eq!((sender.stats().timeouts, sender.stats().segments_retransmitted), (0, 0));
    }

    #[test]
    fn a_retransmission_that_was_refused_is_still_to_be_sent() {
        let (mut sender, mut receiver, sent) = host();
        let next = arrive(&mut sender, &mut receiver, at(100), &sent[1..5]);
        let again = next.iter().position(|p| p.seq.0 == 1).expect("the hole is repaired at the third duplicate");
        assert_eq!(sender.stats().segments_retransmitted, 1);
        sender.on_refused(at(100), &next[again..again + 1]);
        sender.check();
        assert_eq!((sender.path().state, sender.stats().segments_retransmitted), (CaState::Recovery, 0));
        let next = arrive(&mut sender, &mut receiver, at(101), &sent[5..]);
        assert_eq!(numbers(&next).iter().filter(|&&n| n == 0).count(), 1);
        assert_eq!(sender.stats().segments_retransmitted, 1);
    }
}
