//! Loss policies: is this hole a loss? One file per answer. The policy is its own axis, independent
//! of congestion control.

use crate::policy::policies;
use crate::units::{Span, Time};

/// A run of unacknowledged segments below something the receiver has reported, or a single segment,
/// as the sender sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// Duplicate ACKs since the last cumulative advance.
    pub dup_acks: u32,
    /// Segments SACKed above the hole; without SACK the number of duplicate ACKs.
    pub sacked_above: u32,
    /// Segments reported as arrived above the cumulative ACK, wherever: SACKed, or, without SACK,
    /// duplicate ACKs.
    pub reported: u32,
    /// When the first segment of the hole was last sent.
    pub sent_at: Time,
    /// Number of that transmission in the connection: it orders segments sent in the same instant.
    pub number: u64,
    /// The hole was judged lost before and `sent_at` is its retransmission: is that lost as well?
    pub retransmitted: bool,
    /// When the most recently sent of the delivered segments was sent (`RACK.xmit_ts` of RFC 8985).
    /// Without SACK it is inferred: each duplicate ACK stands for the arrival of the next
    /// segment above the hole.
    pub newest_delivered_sent_at: Time,
    /// Number of that transmission in the connection, in place of `RACK.end_seq`.
    pub newest_delivered_number: u64,
    /// Round trip of that segment (`RACK.rtt`).
    pub newest_delivered_rtt: Span,
    /// Round trip of the segment that the last ACK with news reported last, in whatever order they
    /// were sent.
    pub last_delivered_rtt: Span,
    /// When the ACK arrived that last reported something new.
    pub newest_report_at: Time,
    /// Segments sent and not yet cumulatively acknowledged.
    pub outstanding: u32,
    /// Their payload bytes.
    pub outstanding_bytes: u64,
    /// Payload bytes of those that are reported as arrived: SACKed, or, without SACK, one MSS for
    /// each duplicate ACK.
    pub reported_bytes: u64,
    /// Segments.
    pub cwnd: u32,
    /// Receive window in whole segments.
    pub send_window: u32,
    /// The smaller of cwnd and receive window, in whole segments, when the first of the duplicate
    /// ACKs came.
    pub window_at_first_duplicate: u32,
    /// Unsent data is at hand and the receive window would allow it (RFC 5827 section 3.1).
    pub can_send_new: bool,
    /// Fast recovery or the repair of a timeout is under way.
    pub in_recovery: bool,
    /// Smallest round-trip time since the connection began.
    pub min_rtt: Span,
}

/// Verdict on a hole: loss or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is lost, and to be sent again.
    Lost,
    /// Not lost yet.
    Wait {
        /// When to ask again; [`Time::NEVER`]: only when something new is reported.
        until: Time,
    },
}

/// Report of an ACK on the order in which segments arrive, for policies that adapt to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// A segment that had not been sent again was delivered after one sent later.
    pub reordered: bool,
    /// The ACK carried a DSACK (RFC 2883): something arrived twice.
    pub duplicate_sack: bool,
    /// First byte not yet acknowledged, and first not yet sent: a round trip is over once the
    /// former reaches what the latter was.
    pub snd_una: u64,
    /// The first offset not sent yet.
    pub snd_nxt: u64,
    /// Fast recovery has just ended.
    pub recovered: bool,
}

/// Segments that a verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Whole holes below what was SACKed: counting what arrived above says nothing about the parts
    /// of one.
    Holes,
    /// Every segment by itself, as soon as anything that was sent later has been delivered.
    Segments,
}

/// Context in which a policy is built, besides its parameters.
pub struct LossContext {
    /// Payload bytes of a full segment.
    pub mss: u32,
}

/// Same hole, same time, same reports so far: same verdict.
pub trait LossPolicy {
    /// Decides if `hole` is a loss at `now`. The sender asks again at every ACK that reports
    /// something, and at the instant that the answer names.
    fn judge(&self, hole: &Hole, srtt: Span, now: Time) -> Verdict;
    /// Segments that the policy is asked about.
    fn scope(&self) -> Scope {
        Scope::Holes
    }
    /// Before anything is judged on an ACK that has something of the kind to tell.
    fn on_report(&mut self, _: &Report) {}
    /// An ACK has measured a round trip, exactly, of segments that were sent once.
    fn on_rtt(&mut self, _rtt: Span) {}
    /// So many ACKs of new data after a retransmission are looked at as a duplicate ACK is (without
    /// SACK). Then a loss of what was sent before the last reduction of the window is no reason
    /// for another.
    fn looks_after_retransmission(&self) -> u32 {
        0
    }
    /// The retransmission timeout has fired: is this segment lost as well as the first?
    fn is_lost_at_timeout(&self, _: &Hole, _srtt: Span, _now: Time) -> bool {
        true
    }
}

/// True if a retransmission is lost, too, by the rule of Linux since 2018. A segment has arrived
/// that was sent a quarter of the smallest round trip after it. Threshold policies offer this as
/// `lost_retransmissions`.
fn is_lost_again(hole: &Hole) -> bool {
    hole.sent_at + hole.min_rtt.mul_ratio(1, 4) < hole.newest_delivered_sent_at
}

policies! {
    /// One of the registered loss policies.
    AnyLoss: LossPolicy,
    /// Parameters of a loss policy.
    LossConfig("a loss policy"), built with LossContext {
        dup_thresh => DupThresh / DupThreshConfig,
        efr => Efr / EfrConfig,
        early_retransmit => EarlyRetransmit / EarlyRetransmitConfig,
        rack => Rack / RackConfig,
        vegas_retransmit => VegasRetransmit / VegasRetransmitConfig,
    }
}

/// A hole for the policies' tests: window 10, 10 outstanding, nothing reported, round trip 100 ms.
#[cfg(test)]
const EXAMPLE: Hole = Hole {
    dup_acks: 0,
    sacked_above: 0,
    reported: 0,
    sent_at: Time::ZERO,
    number: 1,
    retransmitted: false,
    newest_delivered_sent_at: Time::ZERO,
    newest_delivered_number: 10,
    newest_delivered_rtt: Span::from_ms(100),
    last_delivered_rtt: Span::from_ms(100),
    newest_report_at: Time::ZERO,
    outstanding: 10,
    outstanding_bytes: 14_600,
    reported_bytes: 0,
    cwnd: 10,
    send_window: 100,
    window_at_first_duplicate: 10,
    can_send_new: true,
    in_recovery: false,
    min_rtt: Span::from_ms(100),
};
