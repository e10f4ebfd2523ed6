//! Reports of a channel while it runs: counters for each link, a record for each PPDU, a record for
//! each frame.

use super::ids::{AirLinkId, RadioId};
use super::phy::Mode;
use crate::packet::Packet;
use crate::units::Time;

/// Access categories, lowest priority first (IEEE 802.11-2020 10.2.4.2).
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Ac {
    /// Background.
    Bk = 0,
    /// Best effort.
    #[default]
    Be = 1,
    /// Video.
    Vi = 2,
    /// Voice.
    Vo = 3,
}

impl Ac {
    /// All of them, lowest priority first.
    pub const ALL: [Ac; 4] = [Ac::Bk, Ac::Be, Ac::Vi, Ac::Vo];

    /// Its place in [`Ac::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Counters of one direction between two radios since the start of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AirStats {
    // Counters that every packet changes come first.
    /// Packets handed to the radio.
    pub arrived_packets: u64,
    /// Their size, with IP headers.
    pub arrived_bytes: u64,
    /// Packets now held by the sending host: queued, or sent and not yet acknowledged.
    pub held_packets: u64,
    /// Their size, with IP headers.
    pub held_bytes: u64,
    /// Time integral of `held_packets`.
    pub held_packet_ns: u128,
    /// Most packets held at a time since it was last reset.
    pub held_max: u64,
    /// Packets that reached the recipient's upper layer.
    pub delivered_packets: u64,
    /// Their size, with IP headers.
    pub delivered_bytes: u64,
    /// Packets dropped before transmission for want of room.
    pub dropped_overflow: u64,
    /// Packets that a discipline dropped before its queue was full.
    pub dropped_early: u64,
    /// ACKs that a newer one made superfluous.
    pub filtered: u64,
    /// Packets marked with CE.
    pub marked: u64,
    /// Packets that the originator gave up and that had not arrived. WaveLAN: it found the medium
    /// busy too often.
    pub dropped_retries: u64,
    /// Packets sent without acknowledgement and lost to another transmission.
    pub lost_collision: u64,
    /// Packets sent without acknowledgement and lost to errors.
    pub lost_errors: u64,
    /// Packets that arrived after the recipient had given them up (`retry_out`), or after its
    /// reorder timeout, and were dropped there.
    pub dropped_late: u64,
    /// Packets dropped without association, or since the association ended before they were
    /// delivered.
    pub dropped_gone: u64,
    /// Packets handed back at the end of an association, to go another way.
    pub handed_back: u64,
    /// RTS without a CTS in response.
    pub rts_unanswered: u64,
    /// PPDUs with data, every try counted.
    pub ppdus: u64,
    /// PPDUs among these without an answer; for frames without acknowledgement: PPDUs of which
    /// nothing arrived.
    pub ppdus_unanswered: u64,
    /// PPDUs hit by another transmission at their receiver.
    pub ppdus_collided: u64,
    /// MPDUs in these PPDUs, every try counted.
    pub mpdus: u64,
    /// MPDUs among these that were not acknowledged; for frames without acknowledgement: MPDUs that
    /// did not arrive.
    pub mpdus_failed: u64,
    /// Sum over the PPDUs of their data rate, bit/s: the mean MAC data rate is this over `ppdus`.
    pub rate_sum_bps: u128,
    /// Time on the air: data, responses and the gaps between.
    pub airtime_ns: u64,
    /// Block Ack requests sent.
    pub bars: u64,
    /// MPDUs that the recipient gave up by retry-out, and holes that its reorder timeout passed
    /// over.
    pub given_up: u64,
    /// Holes passed over because their time was up.
    pub reorder_timeouts: u64,
}

/// One PPDU with data, or a Block Ack request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PpduRecord {
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Index of the link within the channel.
    pub link: AirLinkId,
    /// Its access category.
    pub ac: Ac,
    /// Its mode.
    pub mode: Mode,
    /// MPDUs in it; 0: a Block Ack request.
    pub mpdus: u16,
    /// MPDUs among these that were received without error, for the first time or again.
    pub received: u16,
    /// MPDUs among these that arrived corrupt with an intact header.
    pub header_ok: u16,
    /// Size of the PSDU.
    pub psdu_bytes: u32,
    /// Number of times that this PPDU had been sent before.
    pub repeat: u8,
    /// An acknowledgement came back.
    pub answered: bool,
    /// Another transmission hit it at its receiver.
    pub collided: bool,
    /// NaN where the signal has no SNR.
    pub snr_db: f32,
}

/// Kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A packet.
    Data,
    /// Acknowledgement of one frame.
    Ack,
    /// Acknowledgement of an A-MPDU, or the answer to a request.
    BlockAck,
    /// Request for a Block Ack, which moves the window on.
    BlockAckRequest,
    /// Request to send.
    Rts,
    /// Clear to send.
    Cts,
}

/// One frame as a monitor beside the receiver would capture it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameRecord {
    /// End of the frame's PPDU: when a card would report it.
    pub time: Time,
    /// Its kind.
    pub kind: FrameKind,
    /// The radio that sent it.
    pub from: RadioId,
    /// The radio that must receive it.
    pub to: RadioId,
    /// The mode of its PPDU.
    pub mode: Mode,
    /// Its access category.
    pub ac: Ac,
    /// Sequence number of a data frame, first sequence number of a Block Ack or its request.
    pub sn: u16,
    /// Bit n: `sn + n` was received (Block Ack).
    pub bitmap: u64,
    /// True if it was sent before.
    pub retry: bool,
    /// True if it arrived whole.
    pub fcs_ok: bool,
    /// Number of the A-MPDU it belongs to.
    pub ampdu: Option<u32>,
    /// True if no other MPDU of its A-MPDU follows.
    pub is_last_of_ampdu: bool,
    /// Duration field, us.
    pub duration_us: u16,
    /// NaN where the signal has no SNR.
    pub snr_db: f32,
    /// The packet that a data frame carries.
    pub packet: Option<Packet>,
}

/// Records that are collected besides counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceConfig {
    /// PPDU by PPDU.
    pub ppdus: bool,
    /// Frame by frame.
    pub frames: bool,
}
