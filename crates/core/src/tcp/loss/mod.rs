//! Loss policies: is this hole a loss? One file per answer. The policy is its own axis, independent of congestion control.

use crate::policy::policies;
use crate::units::{Span, Time};

/// A run of unacknowledged segments below something the receiver has reported, as the sender sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// Duplicate ACKs since the last cumulative advance.
    pub dup_acks: u32,
    /// Segments SACKed above the hole; without SACK the number of duplicate ACKs.
    pub sacked_above: u32,
    /// When the first segment of the hole was last sent.
    pub sent_at: Time,
    /// The hole was judged lost before and `sent_at` is its retransmission: is that lost as well?
    pub retransmitted: bool,
    /// When the most recently sent of the delivered segments was sent (RACK's reference).
    pub newest_delivered_sent_at: Time,
    /// Segments sent and not yet cumulatively acknowledged.
    pub outstanding: u32,
    /// Segments.
    pub cwnd: u32,
    /// Receive window in whole segments.
    pub send_window: u32,
    /// Unsent data is at hand and the receive window would allow it (RFC 5827 section 3.1).
    pub can_send_new: bool,
    /// Smallest recent round-trip time.
    pub min_rtt: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Lost,
    /// Not lost yet; ask again at `until` ([`Time::NEVER`]: only when something new is reported).
    Wait {
        until: Time,
    },
}

pub struct LossContext {
    /// Payload bytes of a full segment.
    pub mss: u32,
}

/// Pure: the same hole at the same time gets the same verdict.
pub trait LossPolicy {
    fn judge(&self, hole: &Hole, srtt: Span, now: Time) -> Verdict;
}

policies! {
    /// One of the registered loss policies.
    AnyLoss: LossPolicy,
    /// Parameters of a loss policy.
    LossConfig("a loss policy"), built with LossContext {
        dup_thresh => DupThresh / DupThreshConfig,
    }
}
