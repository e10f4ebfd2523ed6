//! One direction of a connection: the data it carries, and the ACKs of it that come the other way.
//! The state is that of the sender as far as the capture lets it be seen. By concern: [`sent`] what
//! the sender sends, [`acks`] what is acknowledged, [`classify`] why something was sent again,
//! [`limits`] what held the sender back, [`line`] the rate of the slowest line, [`finish`] rows.

mod acks;
mod classify;
mod finish;
mod limits;
mod line;
mod sent;

use std::collections::VecDeque;

use airtcp_core::convert::{low32, saturate32, signed32};
use airtcp_core::packet::FlowId;
use airtcp_core::units::{Span, Time};

use self::classify::{Class, Spurious};
pub(crate) use self::finish::Surroundings;
use self::limits::Limits as Held;
use self::line::Line;
use crate::rtt::Rtt;
use crate::send_history::{ORIGIN, SendHistory};
use crate::thin::Thinned;
use crate::whatif::{POLICIES, WhatIf};

/// No window is larger (RFC 7323 section 2.3): what is further away belongs to something else.
const MAX_WINDOW: u64 = 1 << 30;

/// How much a flow may keep, so that all together stay within bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Points of each series.
    pub points: usize,
    /// Segments remembered.
    pub segments: usize,
    /// Retransmissions held back because they may yet prove spurious.
    pub rows: usize,
}

/// When and where a packet passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passing {
    /// When it was at the flow's sender, since the first packet of the capture. Seen from there
    /// nothing is `near`.
    pub now: Time,
    /// When it passed the capture.
    pub seen: Time,
    /// Number in the file, from 1.
    pub packet: u64,
    /// Round trip from where `now` is to the flow's sender and back.
    pub near: Span,
    /// The least from the capture to the flow's sender and back, 0 if unknown.
    pub turn: Span,
    /// By so much `now` may be wrong.
    pub slack: Span,
    /// The sender's timestamps tell `now`.
    pub by_clock: bool,
    /// The sender is elsewhere, and it sent data just before.
    pub flowing: bool,
    /// In monitor mode: the air was taken of late.
    pub air_busy: bool,
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Fast recovery, until `high` is acknowledged. `partial`: the acknowledgement has moved within
    /// it.
    Recovery {
        high: u64,
        partial: bool,
        undone: bool,
    },
    /// After a timeout. `undone`: the first ACK showed that there had been no loss, on which Linux
    /// ends it (RFC 3522 and 4015).
    Loss {
        high: u64,
        partial: bool,
        undone: bool,
    },
}

/// The most recently sent of the segments that were reported.
#[derive(Debug, Clone, Copy, Default)]
struct Delivered {
    order: u64,
    sent_at: Time,
    rtt: Span,
}

#[derive(Debug, Clone, Copy)]
struct Retransmitted {
    at: Time,
    packet: u64,
    start: u64,
    bytes: u32,
    class: Class,
    reason: &'static str,
    spurious: Option<Spurious>,
    waited: Span,
    dup_acks: u32,
    flight_segments: u32,
    rto: Span,
    /// The capture shows what it repeats, and nothing said that it was missing.
    unprovoked_copy: bool,
}

#[derive(Debug, Clone, Copy)]
struct TimedOut {
    at: Time,
    packet: u64,
    waited: Span,
    dup_acks: u32,
    flight_segments: u32,
    window_segments: u32,
    found_at: [Option<Time>; POLICIES.len()],
}

#[derive(Debug, Clone, Copy)]
struct WindowPoint {
    at: Time,
    flight: u64,
    window: Option<u64>,
    cwnd: u64,
}

#[derive(Debug, Clone, Copy)]
struct SegmentPoint {
    at: Time,
    kind: &'static str,
    from: u64,
    to: u64,
}

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    data_packets: u64,
    payload_bytes: u64,
    unique_bytes: u64,
    retransmitted_bytes: u64,
    retransmitted_packets: u64,
    fast: u64,
    recovery: u64,
    timeouts: u64,
    repair: u64,
    probes: u64,
    unknown: u64,
    spurious: u64,
    syn_retransmissions: u64,
    keep_alives: u64,
    out_of_order: u64,
    duplicate_acks: u64,
    acks: u64,
    zero_windows: u64,
    missed_bytes: u64,
    outside_window: u64,
    timeouts_by_dup: [u64; 4],
    untold: u64,
    avoided: [u64; POLICIES.len()],
}

#[derive(Debug)]
pub(crate) struct Flow {
    /// Once it carried data or a SYN.
    pub id: Option<FlowId>,
    /// Sequence number of offset [`ORIGIN`]: of the SYN, or of the byte before the first one seen.
    initial: Option<u32>,
    una: u64,
    max: u64,
    /// End of the payload: without the byte that FIN takes.
    data_end: u64,
    history: SendHistory,
    state: State,
    dup_acks: u32,
    window_at_first_duplicate: u32,
    /// When the acknowledgement last moved, when an ACK last said anything new, when data last
    /// passed.
    advanced_at: Time,
    /// When payload was last acknowledged, and not only FIN.
    data_acked_at: Time,
    reported_at: Time,
    sent_at: Time,
    /// When data last passed the capture.
    seen_at: Option<Time>,
    /// Since when something sent later than the first unacknowledged segment has been reported.
    overtaken_at: Option<Time>,
    /// The same, if it was sent a quarter of a round trip later.
    overtaken_clearly_at: Option<Time>,
    /// Since when there are three reports of something above it.
    third_report_at: Option<Time>,
    /// End of the data that the sender had sent when fast recovery could begin, if nothing has been
    /// sent again since.
    known_lost: Option<u64>,
    /// When the flight began that is out now.
    flight_began_at: Time,
    sent_order: u64,
    newest_delivered: Delivered,
    /// Round trip of the sender.
    rtt: Rtt,
    /// From the capture to the receiver and back.
    far: Rtt,
    /// End of a byte that probed a closed window.
    probed_to: Option<u64>,
    /// Largest flight since the last loss.
    round_flight: u64,
    flight_max: u64,
    /// Receive window in bytes, and as it was in the last ACK.
    window: Option<u64>,
    raw_window: u16,
    blocks: [(u64, u64); 4],
    what_if: WhatIf,

    first_at: Option<Time>,
    pub syn_seen: bool,
    pub fin_seen: bool,
    pub rst_seen: bool,
    /// True if the last data carried PSH or FIN.
    pushed: bool,
    /// MSS the receiver announced; largest payload.
    pub announced_mss: Option<u16>,
    largest_payload: u32,
    smaller_payload: u32,
    pub receiver_scale: Option<u8>,
    /// Both ends permitted it, or blocks came.
    pub sack: bool,
    timestamps: bool,
    /// Steps of the IP identification from one data packet to the next: small ones upwards, others.
    ip_id_steps: (u32, u32),
    last_ip_id: Option<u16>,
    outside_in_row: u32,
    /// Something that passed the capture was reported missing.
    loss_behind: bool,
    first_data: Option<(Time, u64)>,
    /// Before the first ACK of data.
    initial_bytes: Option<u64>,
    counts: Counts,
    retransmissions: VecDeque<Retransmitted>,
    /// Number of the first of `retransmissions`.
    first_row: u32,
    timeouts: Vec<TimedOut>,
    /// When the ACK passed, the round trip from here and the sender's.
    rtt_points: Thinned<(Time, Span, Span)>,
    windows: Thinned<WindowPoint>,
    data_points: Thinned<SegmentPoint>,
    ack_points: Thinned<SegmentPoint>,
    resent_points: Thinned<SegmentPoint>,
    held: Held,
    line: Line,
}

impl Flow {
    pub(crate) fn new() -> Flow {
        Flow {
            id: None,
            initial: None,
            una: ORIGIN + 1,
            max: ORIGIN + 1,
            data_end: ORIGIN + 1,
            history: SendHistory::default(),
            state: State::Open,
            dup_acks: 0,
            window_at_first_duplicate: 0,
            advanced_at: Time::ZERO,
            data_acked_at: Time::ZERO,
            reported_at: Time::ZERO,
            sent_at: Time::ZERO,
            seen_at: None,
            overtaken_at: None,
            overtaken_clearly_at: None,
            third_report_at: None,
            known_lost: None,
            flight_began_at: Time::ZERO,
            sent_order: 0,
            newest_delivered: Delivered::default(),
            rtt: Rtt::default(),
            far: Rtt::default(),
            probed_to: None,
            round_flight: 0,
            flight_max: 0,
            window: None,
            raw_window: 0,
            blocks: [(0, 0); 4],
            what_if: WhatIf::default(),
            first_at: None,
            syn_seen: false,
            fin_seen: false,
            rst_seen: false,
            pushed: false,
            announced_mss: None,
            largest_payload: 0,
            smaller_payload: 0,
            receiver_scale: None,
            sack: false,
            timestamps: false,
            ip_id_steps: (0, 0),
            last_ip_id: None,
            outside_in_row: 0,
            loss_behind: false,
            first_data: None,
            initial_bytes: None,
            counts: Counts::default(),
            retransmissions: VecDeque::new(),
            first_row: 0,
            timeouts: Vec::new(),
            rtt_points: Thinned::default(),
            windows: Thinned::default(),
            data_points: Thinned::default(),
            ack_points: Thinned::default(),
            resent_points: Thinned::default(),
            held: Held::default(),
            line: Line::default(),
        }
    }

    /// Offset of a sequence number, the one nearest to `near`.
    fn offset(&self, seq: u32, near: u64) -> Option<u64> {
        let relative = seq.wrapping_sub(self.initial?);
        let ahead = signed32(relative.wrapping_sub(low32(near)));
        near.checked_add_signed(i64::from(ahead))
    }

    /// As tables show it.
    fn relative(offset: u64) -> u64 {
        offset.saturating_sub(ORIGIN)
    }

    pub(crate) fn flight(&self) -> u64 {
        self.max - self.una
    }

    /// Payload bytes of a full segment. Where segmentation is offloaded the capture shows larger
    /// ones than were announced.
    pub(crate) fn mss(&self) -> u32 {
        let options = if self.timestamps { 12 } else { 0 };
        match self.announced_mss {
            Some(announced) if self.largest_payload > u32::from(announced) => {
                u32::from(announced).saturating_sub(options).max(1)
            }
            // Jumbo frames end at 9000 bytes; more is several segments in one.
            None if self.largest_payload > 9000 => self.smaller_payload.max(1),
            _ => self.largest_payload.max(1),
        }
    }

    fn whole_segments(&self, bytes: u64) -> u32 {
        saturate32(bytes / u64::from(self.mss()))
    }

    /// Bytes: the largest flight since the last loss, before the next one. A lower bound of cwnd,
    /// and equal to it for a sender that neither application nor receive window holds back.
    /// While a loss is repaired: what is on its way now.
    pub(crate) fn cwnd_estimate(&self) -> u64 {
        match self.state {
            State::Open => self.round_flight,
            _ => self.flight() - self.history.sacked_bytes().min(self.flight()),
        }
    }

    /// Full segments in the smaller of receive window and estimated cwnd.
    fn window_segments(&self) -> u32 {
        let cwnd = self.cwnd_estimate();
        self.whole_segments(self.window.map_or(cwnd, |w| w.min(cwnd)))
    }

    fn note_window(&mut self, at: &Passing) {
        let point = WindowPoint { at: at.now, flight: self.flight(), window: self.window, cwnd: self.cwnd_estimate() };
        self.windows.offer(at.limits.points, || point);
    }

    /// From the capture to the receiver and back.
    pub(crate) fn rtt_min(&self) -> Option<Span> {
        self.far.min()
    }
    /// The sender's, smoothed.
    pub(crate) fn round_trip(&self) -> Span {
        self.rtt.srtt()
    }
    /// Data is outstanding.
    pub(crate) fn waits_for_ack(&self) -> bool {
        self.una < self.data_end
    }
    pub(crate) fn has_data(&self) -> bool {
        self.counts.data_packets > 0
    }
    pub(crate) fn has_packets(&self) -> bool {
        self.counts.packets > 0
    }
    pub(crate) fn repeats_syn(&self) -> bool {
        self.counts.syn_retransmissions > 0
    }
    /// Its SYN had another sequence number.
    pub(crate) fn has_other_initial(&self, seq: u32) -> bool {
        self.initial.is_some_and(|initial| initial != seq)
    }
}
