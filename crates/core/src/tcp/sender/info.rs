//! The sender's state as a socket would report it (`struct tcp_info` of Linux), for drivers that
//! compare it with a kernel's. Nothing is decided here.

use super::Sender;
use crate::tcp::Recovery;
use crate::tcp::cc::CaState;
use crate::units::Span;

/// A sender's state at the last call. Segments, unless the name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderInfo {
    /// State of the window (`tcpi_ca_state`).
    pub state: CaState,
    /// Congestion window.
    pub cwnd: u32,
    /// Slow-start threshold.
    pub ssthresh: u32,
    /// Sent and not cumulatively acknowledged.
    pub unacked: u32,
    /// SACKed, or without SACK reported by duplicate ACKs.
    pub sacked: u32,
    /// Marked lost.
    pub lost: u32,
    /// Retransmissions that are out.
    pub retransmissions_out: u32,
    /// Retransmitted since the connection began.
    pub retransmissions: u64,
    /// The furthest that a segment was overtaken; at least the three that count as a loss.
    pub reordering: u32,
    /// Known to have arrived since the connection began, the SYN and what came twice included.
    pub delivered: u64,
    /// Those of them that Accurate ECN has reported as marked; otherwise 0 (`tcpi_delivered_ce`).
    pub delivered_marked: u64,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Span,
    /// Variation of the round trip, as the timeout has it (`tcpi_rttvar`).
    pub rttvar: Span,
    /// The least round trip; [`Span::MAX`] before the first sample.
    pub min_rtt: Span,
    /// Retransmission timeout in force.
    pub rto: Span,
    /// Timeouts since the cumulative acknowledgement last moved.
    pub timeouts_in_row: u32,
    /// Doublings of the timeout that no sample has ended.
    pub backoff: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Payload bytes per second at which Linux would pace. No bound before the first round trip.
    pub pacing_rate: u64,
}

impl Sender {
    /// Its state as of the last call.
    pub fn info(&self) -> SenderInfo {
        let sacks = self.config.loss_recovery.recovery == Recovery::Sack;
        let second = Span::from_secs(1);
        SenderInfo {
            state: self.path.state,
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
            unacked: self.board.packets_out(),
            sacked: if sacks { self.board.sacked_out() } else { self.reported_without_sack() },
            lost: self.board.lost_out(),
            retransmissions_out: self.board.retransmitted_out(),
            retransmissions: self.stats.segments_retransmitted,
            reordering: self.acks.reordering(),
            delivered: self.delivery.total(),
            delivered_marked: self.marks_reported(),
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.variation(&self.config),
            min_rtt: self.path.min_rtt,
            rto: self.rtt.rto(&self.config),
            timeouts_in_row: self.timeouts_in_row,
            backoff: self.rtt.backoff(),
            mss: self.path.mss,
            pacing_rate: self.bytes_at_pacing_rate(second),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::packet::{FlowId, Kind, Packet, SackBlock, TcpFlags};
    use crate::rng::Streams;
    use crate::tcp::cc::CaState;
    use crate::tcp::profile::profile;
    use crate::tcp::{Outputs, Sender};
    use crate::units::{Seq32, Span, Time};

    /// Ten segments leave, the fourth to the sixth arrive: three are lost and one is sent again.
    #[test]
    fn it_tells_what_an_ack_has_changed() {
        let mut config = profile("linux-6").unwrap().resolve().unwrap();
        config.connection.handshake = false;
        let mss = config.mss();
        let mut sender = Sender::new(FlowId(0), 0, Arc::new(config), Streams::of(1, 0));
        let mut out = Outputs::default();
        sender.open(Time::ZERO, &mut out);
        sender.write(Time::ZERO, 10 * u64::from(mss), &mut out);
        let info = sender.info();
        assert_eq!((info.state, info.cwnd, info.unacked, info.sacked), (CaState::Open, 10, 10, 0));
        assert_eq!((info.reordering, info.delivered, info.srtt), (3, 0, Span::ZERO));
        let mut ack = Packet::new(FlowId(0), Kind::Tcp, 0);
        (ack.flags, ack.ack, ack.window) = (TcpFlags::ACK, Seq32(1), 1 << 20);
        let from = 1 + 3 * mss;
        ack.push_sack(SackBlock { start: Seq32(from), end: Seq32(from + 3 * mss) });
        sender.on_packet(Time::ZERO + Span::from_ms(100), &ack, &mut out);
        let info = sender.info();
        assert_eq!((info.state, info.unacked, info.sacked, info.lost), (CaState::Recovery, 10, 3, 3));
        assert_eq!((info.delivered, info.ssthresh, info.srtt), (3, 7, Span::from_ms(100)));
        assert_eq!(u64::from(info.retransmissions_out), info.retransmissions);
        assert!(info.retransmissions > 0 && info.rto == Span::from_ms(300));
    }
}
