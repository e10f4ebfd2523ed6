//! Segments that the first queue of the sender's own host has refused. Linux,
//! net/ipv4/tcp_output.c, `__tcp_transmit_skb` and `tcp_write_xmit` (6.12): the segment stays
//! unsent and the window shrinks as after an ECN echo, once per window of data.

use super::timers::Pending;
use super::{Sender, State};
use crate::packet::Packet;
use crate::tcp::cc::CaState;
use crate::units::{Span, Time};

/// After what a timer sent has been refused, the next attempt (`TCP_RESOURCE_PROBE_INTERVAL`).
const NEXT_ATTEMPT: Span = Span::from_ms(500);

impl Sender {
    /// The first queue of the host had no room for these segments, in the order in which they were
    /// to leave.
    pub fn on_refused(&mut self, now: Time, refused: &[Packet]) {
        if self.state != State::Established || refused.is_empty() {
            return;
        }
        self.count_until(now);
        let first = self.snd_una;
        let (mut timeouts, mut probes) = (false, false);
        // The newest first: behind a segment that was refused nothing new has left.
        for p in refused.iter().rev() {
            let start = p.seq.to_offset(self.snd_una);
            timeouts |= start == first && self.timers.timeout_at == now;
            probes |= start <= first && self.timers.probe_sent_at == now;
            if self.tail_loss_probe.is_some_and(|probe| probe.was_sent_as(start, p.len)) {
                self.tail_loss_probe = None;
            }
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
        self.retry_after_refusal(now, timeouts, probes);
    }

    /// A transmission by a timer has been refused: it goes again soon, and the timeout does not
    /// grow (`tcp_retransmit_timer`, `tcp_send_probe0`).
    fn retry_after_refusal(&mut self, now: Time, timeouts: bool, probes: bool) {
        if timeouts && !self.board.is_empty() {
            self.rtt.take_back_off_back();
            self.timers.set(Pending::Timeout, self.clock.after(now, NEXT_ATTEMPT));
        }
        if probes && self.board.is_empty() && self.snd_nxt < self.write_end {
            if self.send_window == 0 {
                self.rtt.take_back_off_back();
            }
            self.timers.persist = self.clock.after(now, NEXT_ATTEMPT);
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
            self.reduce_for_congestion();
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
        host_with(true)
    }

    fn host_with(tail_loss_probe: bool) -> (Sender, Receiver, Vec<Packet>) {
        let mut config = profile::profile("linux-6").unwrap().resolve().unwrap();
        (config.connection.handshake, config.loss_recovery.tail_loss_probe) = (false, tail_loss_probe);
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

    /// `tcp_retransmit_timer`: the next attempt is half a second later, and the timeout stays.
    #[test]
    fn a_timeouts_retransmission_that_is_refused_goes_again_after_half_a_second() {
        let (mut sender, _, _) = host_with(false);
        let (rto, mut refused_at) = (sender.rtt.rto(&sender.config), Vec::new());
        for _ in 0..3 {
            let mut out = Outputs::default();
            let due = sender.deadline();
            sender.on_deadline(due, &mut out);
            assert_eq!(numbers(&out.packets), [0]);
            sender.on_refused(due, &out.packets);
            sender.check();
            refused_at.push(due);
        }
        assert_eq!(sender.rtt.rto(&sender.config), rto, "no backoff");
        let gaps: Vec<Span> = refused_at.windows(2).map(|w| w[1].since(w[0])).collect();
        let half_a_second = Span::from_ms(500)..=Span::from_ms(500 + 32);
        assert!(gaps.iter().all(|gap| half_a_second.contains(gap)), "{gaps:?}");
        // Once it leaves, the timeout grows.
        let due = sender.deadline();
        sender.on_deadline(due, &mut Outputs::default());
        assert_eq!(sender.rtt.rto(&sender.config), rto.saturating_mul(2));
    }

    /// `tcp_send_probe0`.
    #[test]
    fn what_a_probe_sends_and_the_queue_refuses_goes_again_after_half_a_second() {
        let (mut sender, _, sent) = host();
        sender.on_refused(Time::ZERO, &sent);
        let mut out = Outputs::default();
        let due = sender.deadline();
        sender.on_deadline(due, &mut out);
        sender.on_refused(due, &out.packets);
        let wait = sender.deadline().since(due);
        assert!((Span::from_ms(500)..=Span::from_ms(532)).contains(&wait), "{wait}");
    }

    #[test]
    fn a_tail_loss_probe_that_is_refused_is_none() {
        let (mut sender, mut receiver, sent) = host();
        // Measures a round trip.
        let next = arrive(&mut sender, &mut receiver, at(50), &sent);
        assert!(!next.is_empty());
        let mut out = Outputs::default();
        let due = sender.deadline();
        sender.on_deadline(due, &mut out);
        assert_eq!(sender.stats().tail_loss_probes, 1);
        sender.on_refused(due, &out.packets);
        assert!(sender.tail_loss_probe.is_none());
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
