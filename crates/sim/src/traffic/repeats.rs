//! Retransmissions one by one, and which of them were needless.
//!
//! A copy of a segment is needless if one sent before it gets through, whether that comes first or
//! is only late: then nothing was lost that it could replace. The sender cannot know; here each
//! copy carries the number of its row, so that an arrival tells which copies were sent after the
//! one that arrived. A copy that is lost itself may have been needless all the same.

use std::collections::BTreeMap;

use airtcp_core::packet::{FlowId, Packet, TcpFlags};
use airtcp_core::tcp::{Receiver, Retransmission};
use airtcp_core::units::{Seq32, Time};

use crate::books::record::{Log, RetransmissionRow, millis};

/// Retransmissions of one connection.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// Rows of the copies of a segment, by its first byte, in the order of sending.
    rows: BTreeMap<u64, Vec<u32>>,
}

/// Columns of a row besides those from the sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowContext {
    pub now: Time,
    pub flow: FlowId,
    pub transfer: u32,
}

impl Repeats {
    /// A new connection begins.
    pub(crate) fn forget(&mut self) {
        self.rows.clear();
    }

    /// The sender has sent `what` again; the copy is in `packets`.
    pub(crate) fn on_retransmission(
        &mut self,
        at: RowContext,
        what: &Retransmission,
        receiver: &Receiver,
        packets: &mut [Packet],
        log: &mut Log,
    ) {
        let row = log.push_retransmission(RetransmissionRow {
            time_s: at.now.as_secs_f64(),
            flow: at.flow.0,
            transfer: at.transfer,
            seq: what.start,
            size_bytes: u32::from(what.len),
            cause: what.cause,
            waited_ms: millis(what.waited),
            dup_acks: what.dup_acks,
            outstanding_segments: what.outstanding,
            cwnd_segments: what.cwnd,
            window_segments: what.cwnd.min(what.send_window),
            needless: holds(receiver, what.start, what.len),
        });
        let seq = Seq32::from_offset(what.start);
        let copy = packets.iter_mut().find(|p| !p.is_reverse() && p.seq == seq && p.len == what.len && p.tag() == 0);
        if let Some(copy) = copy {
            copy.set_tag(row.wrapping_add(1));
        }
        self.rows.entry(what.start).or_default().push(row);
    }

    /// `packet` has come to the receiver, which has dealt with it.
    pub(crate) fn on_arrival(&mut self, packet: &Packet, receiver: &Receiver, log: &mut Log) {
        if packet.len == 0 && !packet.has(TcpFlags::FIN) {
            return;
        }
        let start = packet.seq.to_offset(receiver.stats().bytes_delivered + 1);
        let Some(rows) = self.rows.get(&start) else { return };
        // A segment that the receiver had to refuse did not get through.
        if holds(receiver, start, packet.len) {
            rows.iter().filter(|&&row| row + 1 > packet.tag()).for_each(|&row| log.mark_needless(row));
        }
    }
}

/// A FIN alone takes a place of its own.
fn holds(receiver: &Receiver, start: u64, len: u16) -> bool {
    receiver.holds(start, start + u64::from(len.max(1)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use airtcp_core::packet::Kind;
    use airtcp_core::table::Data;
    use airtcp_core::tcp::profile::profile;
    use airtcp_core::tcp::{Cause, Outputs};
    use airtcp_core::units::Span;

    use super::*;

    /// Events of the copies of one segment: `s` the next is sent, a digit: that copy arrives (0:
    /// the original). Copies that never arrive are lost. Which rows are needless is worked out by
    /// hand.
    #[test]
    fn a_copy_is_needless_if_an_earlier_one_gets_through() {
        let cases: [(&str, &[bool]); 9] = [
            ("s1", &[false]),
            ("s", &[false]),
            ("0s1", &[true]),
            ("0s", &[true]),
            ("s01", &[true]),
            ("s10", &[true]),
            ("ss2", &[false, false]),
            ("ss21", &[false, true]),
            ("s1s2", &[false, true]),
        ];
        for (story, expected) in cases {
            let config = Arc::new(profile("linux-6").unwrap().resolve().unwrap());
            let mut receiver = Receiver::new(FlowId(0), 0, Arc::clone(&config));
            let (mut repeats, mut log, mut out) = (Repeats::default(), Log::default(), Outputs::default());
            // Above a hole, so that the receiver keeps it out of order.
            let (start, len) = (2001, 1000);
            let mut original = Packet::new(FlowId(0), Kind::Tcp, 0);
            original.seq = Seq32::from_offset(start);
            original.len = len;
            original.flags = TcpFlags::ACK;
            let mut syn = Packet::new(FlowId(0), Kind::Tcp, 0);
            syn.flags = TcpFlags::SYN;
            receiver.on_packet(Time::ZERO, &syn, &mut out);
            let mut copies = vec![original];
            for step in story.bytes() {
                if step == b's' {
                    let what = Retransmission {
                        start,
                        len,
                        cause: Cause::Timeout,
                        waited: Span::from_ms(1),
                        dup_acks: 0,
                        outstanding: 1,
                        cwnd: 1,
                        send_window: 1,
                    };
                    let at = RowContext { now: Time::ZERO, flow: FlowId(0), transfer: 0 };
                    let mut packets = [original];
                    repeats.on_retransmission(at, &what, &receiver, &mut packets, &mut log);
                    copies.push(packets[0]);
                } else {
                    let copy = &copies[usize::from(step - b'0')];
                    receiver.on_packet(Time::ZERO, copy, &mut out);
                    repeats.on_arrival(copy, &receiver, &mut log);
                }
            }
            let table = log.take_retransmissions().into_table();
            let Some(Data::Bool(needless)) = table.column("needless") else { panic!() };
            assert_eq!(needless, expected, "{story}");
        }
    }
}
