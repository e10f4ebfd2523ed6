//! Calls of a driver whose application reads when it wants to, or has data the other way.

use super::Receiver;
use crate::tcp::Outputs;
use crate::units::{Span, Time};

impl Receiver {
    /// The application reads by [`Self::read`] alone, and has no rate of its own.
    pub fn read_by_calls(&mut self) {
        self.reads_by_calls = true;
    }

    /// With [`Self::read_by_calls`]: the application takes up to so many bytes; returns how many.
    /// An ACK that waited for that leaves, and one that tells of twice the window (Linux 6.12,
    /// net/ipv4/tcp.c, `__tcp_cleanup_rbuf`).
    pub fn read(&mut self, now: Time, bytes: u64, out: &mut Outputs) -> u64 {
        let taken = bytes.min(self.data_end() - self.read);
        self.read += taken;
        let owed = self.rcv_nxt - self.last_ack_sent;
        let is_due = owed > self.quick.full_segment() || self.read == self.data_end() && self.is_due_when_read();
        let offered = self.right_edge.saturating_sub(self.rcv_nxt);
        let room = self.buffer.saturating_sub(self.data_end() - self.read + self.out_of_order.bytes());
        let doubles = taken > 0 && room.min(self.window) >= (2 * offered).max(1) && 2 * offered <= self.buffer;
        if is_due || doubles {
            self.send_ack(now, out);
        }
        taken
    }

    /// For a driver with data the other way: the application sends some. Soon after data of the
    /// peer it is an answer, and from then on ACKs wait for answers until a delayed ACK has
    /// waited in vain (Linux 6.12, net/ipv4/tcp_output.c, `tcp_event_data_sent`).
    pub fn on_data_sent(&mut self, now: Time) {
        self.answers |= now.since(self.quick.last_data()) < self.quick.delay(true);
    }

    /// Retransmission timeout and smoothed round trip of this end by the data that it sends.
    /// Without them those of the handshake count.
    pub fn set_path(&mut self, timeout: Span, srtt: Span) {
        self.quick.set_path(timeout, srtt);
    }

    /// Bytes that wait for the application.
    pub fn unread(&self) -> u64 {
        self.data_end() - self.read
    }

    /// An ACK leaves now, whatever waits: for a driver whose data carries it.
    pub fn acknowledge(&mut self, now: Time, out: &mut Outputs) {
        self.send_ack(now, out);
    }

    /// Data has come in order that no ACK covers yet.
    pub fn owes_ack(&self) -> bool {
        self.rcv_nxt > self.last_ack_sent
    }
}
