//! The sending side of one link and access category: sequence numbers, the Block Ack window,
//! retransmissions, and MPDUs that are given up.

use std::collections::VecDeque;

use super::Recipient;
use super::early_drop::PacketFacts;
use super::rate::RateSeries;
use super::transmit::TxqId;
use crate::convert::saturate32;
use crate::packet::{FlowId, Held, PacketId};
use crate::units::{Seq12, Span};
use crate::wifi::ids::{AirLinkId, SessionId};

/// The longest airtime that is booked for a packet.
pub(super) const MOST_BOOKED: Span = Span::from_ns(u32::MAX as u64);

/// A packet on its way through the radio.
#[derive(Debug, Clone, Copy)]
pub(in crate::wifi) struct Mpdu {
    pub packet: PacketId,
    pub flow: FlowId,
    /// Given when it is first put into a PPDU.
    pub sn: Seq12,
    /// Bytes at the IP layer; `payload` of them are payload.
    pub size: u16,
    pub payload: u16,
    /// Retries counted against the driver's limit.
    pub retries: u8,
    flags: u8,
    /// Airtime that AQL has booked for it, in 32 bits to keep an MPDU small: see [`MOST_BOOKED`].
    airtime_ns: u32,
}

impl Mpdu {
    const ARRIVED: u8 = 1;
    const TCP: u8 = 2;
    const REPORT: u8 = 4;
    const SENT: u8 = 8;

    #[inline]
    pub(in crate::wifi) fn new(id: PacketId, packet: &Held, report: bool, airtime: Span) -> Mpdu {
        let flags = if packet.is_tcp { Mpdu::TCP } else { 0 } | if report { Mpdu::REPORT } else { 0 };
        let (flow, size, payload) = (packet.flow, packet.size, packet.len);
        let airtime_ns = saturate32(airtime.as_ns());
        Mpdu { packet: id, flow, sn: Seq12::new(0), size, payload, retries: 0, flags, airtime_ns }
    }
    /// Airtime that AQL has booked for it.
    pub(in crate::wifi) fn airtime(&self) -> Span {
        Span::from_ns(u64::from(self.airtime_ns))
    }
    /// A correct copy has reached the recipient: the packet is no longer the sender's.
    pub(in crate::wifi) fn has_arrived(&self) -> bool {
        self.flags & Mpdu::ARRIVED != 0
    }
    pub(in crate::wifi) fn set_arrived(&mut self) {
        self.flags |= Mpdu::ARRIVED;
    }
    /// Facts about its packet, for rules that give MPDUs up early.
    pub(in crate::wifi) fn facts(&self) -> PacketFacts {
        PacketFacts { is_tcp: self.flags & Mpdu::TCP != 0, bytes: self.size }
    }
    /// Its release is to be reported to its flow.
    pub(in crate::wifi) fn reports(&self) -> bool {
        self.flags & Mpdu::REPORT != 0
    }
    /// It has been on the air: the Retry bit.
    pub(in crate::wifi) fn was_sent(&self) -> bool {
        self.flags & Mpdu::SENT != 0
    }
    pub(in crate::wifi) fn set_sent(&mut self) {
        self.flags |= Mpdu::SENT;
    }
}

/// A unit of transmission: an A-MPDU, a single MPDU, or a Block Ack request.
#[derive(Debug)]
pub(in crate::wifi) struct Ppdu {
    pub session: SessionId,
    pub series: RateSeries,
    /// Tries made, in all and by stage.
    pub tries_made: u32,
    pub tries: [u8; RateSeries::MAX_STAGES],
    /// Tries of the last stage in which an RTS got no answer.
    pub rts_failures: u8,
    /// Empty: a Block Ack request.
    pub mpdus: Vec<Mpdu>,
    pub psdu_bytes: u32,
    /// Airtime of its tries.
    pub airtime: Span,
    /// Number of BARs sent in its place, which ask for the MPDUs that have arrived; `None`: a BAR
    /// is not sent.
    pub bars_sent: Option<u8>,
}

impl Ppdu {
    /// Counts one more try in a stage of its series. `has_sent`: the data was sent, and not only an
    /// RTS.
    pub(in crate::wifi) fn count_try(&mut self, stage: usize, has_sent: bool) {
        if self.tries[stage] == 0 {
            self.rts_failures = 0;
        }
        self.rts_failures = self.rts_failures.saturating_add(u8::from(!has_sent));
        self.tries[stage] = self.tries[stage].saturating_add(1);
        self.tries_made += 1;
    }
    /// Tries that rate control is told of. In the last stage only tries that sent the data count,
    /// with at least one. So ath9k reports them (`ath_tx_rc_status` in `xmit.c` of Linux 6.12:
    /// failures of the data, not of the RTS).
    pub(in crate::wifi) fn reported_tries(&self) -> [u8; RateSeries::MAX_STAGES] {
        let mut tries = self.tries;
        if let Some(last) = tries.iter_mut().rev().find(|t| **t > 0) {
            *last = last.saturating_sub(self.rts_failures).max(1);
        }
        tries
    }
    pub(in crate::wifi) fn is_bar(&self) -> bool {
        self.mpdus.is_empty() || self.bars_sent.is_some()
    }
    /// Sent as an A-MPDU and answered by a Block Ack; a single MPDU goes by itself and is answered
    /// by an ACK.
    pub(in crate::wifi) fn is_ampdu(&self) -> bool {
        self.mpdus.len() > 1
    }
}

/// One link and access category.
#[derive(Debug)]
pub(in crate::wifi) struct Session {
    pub link: AirLinkId,
    pub next_sn: Seq12,
    /// MPDUs not yet sent, in order.
    pub unsent: VecDeque<Mpdu>,
    /// MPDUs to be sent again, by sequence number.
    pub retransmissions: VecDeque<Mpdu>,
    /// A Block Ack request is due.
    pub bar_due: bool,
    /// It is on the list of those with something to send.
    pub is_scheduled: bool,
    /// Number of this session in the queues above the driver.
    pub receiver: TxqId,
    /// Most sequence numbers that may be open under the Block Ack agreement: the lesser of the
    /// originator's and the recipient's bound.
    // [IEEE80211-10.25.2-2]
    pub window: u16,
    /// The recipient's side; `None` without Block Ack.
    pub recipient: Option<Box<Recipient>>,
    pub recipient_waits: bool,
    /// The association is over: nothing new goes through it.
    pub is_over: bool,
    /// Series with which the first of `unsent` tests a rate; rate control chose it when the frame
    /// left the queue.
    pub sample: Option<RateSeries>,
}

impl Session {
    pub(in crate::wifi) fn has_backlog(&self) -> bool {
        self.bar_due || !self.retransmissions.is_empty() || !self.unsent.is_empty()
    }

    /// Numbers the last of these MPDUs, which is in a PPDU for the first time.
    #[inline]
    pub(in crate::wifi) fn number(&mut self, mpdus: &mut [Mpdu]) {
        if let Some(mpdu) = mpdus.last_mut() {
            mpdu.sn = self.next_sn;
            self.next_sn = self.next_sn.forward(1);
        }
    }

    /// Puts back MPDUs that must be sent again. `failed` is in order; both lists lie within one
    /// window.
    pub(in crate::wifi) fn put_back(&mut self, failed: &[Mpdu]) {
        for &mpdu in failed {
            let at = self.retransmissions.iter().rposition(|m| m.sn.is_before(mpdu.sn)).map_or(0, |i| i + 1);
            self.retransmissions.insert(at, mpdu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wifi::phy::Mode;
    use crate::wifi::rate::Stage;

    #[test]
    fn an_rts_in_vain_is_no_try_of_the_last_stage() {
        // Tries by stage, true with the data and false with an RTS only; and the tries that rate
        // control is told of.
        for (made, told) in [
            (&[(0, true)][..], [1, 0, 0, 0]),
            (&[(0, true), (0, true)], [2, 0, 0, 0]),
            (&[(0, true), (1, false), (1, false), (1, true)], [1, 1, 0, 0]),
            // All tries of earlier stages count, with data or RTS only.
            (&[(0, true), (1, false), (1, true), (2, false), (2, true), (2, true)], [1, 2, 2, 0]),
            (&[(0, false), (0, false)], [1, 0, 0, 0]),
        ] {
            let mut ppdu = Ppdu {
                session: SessionId::new(0),
                series: RateSeries::of(Stage { mode: Mode::OFDM[0], tries: 1, rts: false }),
                tries_made: 0,
                tries: [0; 4],
                rts_failures: 0,
                mpdus: Vec::new(),
                psdu_bytes: 0,
                airtime: Span::ZERO,
                bars_sent: None,
            };
            made.iter().for_each(|&(stage, has_sent)| ppdu.count_try(stage, has_sent));
            assert_eq!(ppdu.reported_tries(), told, "{made:?}");
            assert_eq!(ppdu.tries_made as usize, made.len());
        }
    }
}
