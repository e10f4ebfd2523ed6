//! The fast path of [`Sender::on_ack`], for the ACK that a sender expects: it advances, and no
//! segment is missing, in repair or in question. All outstanding segments were sent once only, in
//! order. Nearly every ACK of a connection is like that.
//!
//! [`Sender::on_ack`] is the specification: this path leaves out those of its steps that find
//! nothing. The property test `everything_arrives_whatever_is_lost` in
//! `tcp/tests/connection.rs` runs each connection with and without this path, and compares all
//! segments sent and the whole state.

use super::Sender;
use super::ack::Ack;
use super::frto::FrtoState;
use crate::packet::{Packet, TcpFlags};
use crate::tcp::cc::{AnyCc, CaState};
use crate::tcp::{Outputs, Recovery, TcpConfig};
use crate::units::Time;

/// True if a sender looks for such ACKs: not if it repairs, measures or grows in ways of its own.
pub(super) fn are_looked_for(config: &TcpConfig, cc: &AnyCc) -> bool {
    config.loss_recovery.recovery == Recovery::Sack
        && config.rto.rtt_per_segment
        && config.rto.rtt_from_sack
        && !cc.owns_window()
        && !cc.wants_rate()
}

impl Sender {
    /// `number`: its acknowledgement as an offset.
    #[inline]
    pub(super) fn is_expected(&self, p: &Packet, number: u64) -> bool {
        self.expects
            && p.flags == TcpFlags::ACK
            && p.sack().is_empty()
            && self.path.state == CaState::Open
            && self.frto == FrtoState::Idle
            && self.tail_loss_probe.is_none()
            && self.marks.is_none()
            && self.acks.duplicates == 0
            && self.send_window > 0
            && self.newest.highest <= self.snd_una
            && self
                .board
                .front_of_intact()
                .is_some_and(|first| first.end() <= number && self.newest.is_before(first.number))
    }

    /// Does what [`Self::on_ack`] does with an ACK that [`Self::is_expected`].
    #[inline]
    pub(super) fn on_expected_ack(&mut self, now: Time, p: &Packet, number: u64, out: &mut Outputs) {
        self.note_timestamp(p);
        let prior_in_flight = self.in_flight();
        self.send_window = u64::from(p.window);
        let Some((oldest, last, segments)) = self.board.acknowledge_intact(number) else { return };
        self.advance_to(number);
        self.newest.note(now, last.sent_at, last.number);
        self.newest.note_end(last.end());
        self.newest.reported_at = now;
        self.delivery.on_delivered(now, segments);
        let rtt = self.take_round_trips(now, oldest, last.sent_at);
        self.on_advance(segments, false);
        self.set_transmission_timer(now);
        let ack = Ack {
            now,
            number,
            advanced: true,
            acked: segments,
            delivered: segments,
            prior_in_flight,
            rtt: Some(rtt),
            ..Ack::default()
        };
        let mut sample = self.ack_sample(&ack);
        if self.needs_every_ack {
            let window = self.window;
            self.cc.pass_every_ack(&mut self.window, &self.path, &sample);
            if self.window != window {
                sample = self.ack_sample(&ack);
            }
        }
        self.outstanding_after_ack = self.board.packets_out();
        self.path.in_flight = self.in_flight();
        self.cc.on_ack(&mut self.window, &self.path, &sample);
        self.window_use.begin(now);
        self.transmit(now, out);
        self.finish_if_done(out);
    }
}
