//! Notices of a host's first queue to the sender above it, about packets that it drops. Linux 6.12,
//! net/sched: `sch_fifo.c`, `sch_codel.c` and `sch_pie.c` return NET_XMIT_DROP for a packet that
//! does not get in. So does `sch_red.c` when its queue is full; when it drops early it returns
//! NET_XMIT_CN. `sch_fq_codel.c` drops from the fattest flow, and says NET_XMIT_CN if that is the
//! one whose packet came. Packets that CoDel and FQ-CoDel drop later, as packets leave, are
//! reported to nobody. mac80211's queues say nothing. There an skb of several segments comes to the
//! queue as one. Here each segment does, so that PIE may drop one and take those behind it: it is
//! then repaired as any loss.

use airtcp_core::queue::{DropReason, QueueConfig};

use crate::spec::LinkId;

/// Notice that a sender hears (`__tcp_transmit_skb` in net/ipv4/tcp_output.c). It reduces its
/// window after both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueNotice {
    /// NET_XMIT_DROP: the packet is still to be sent.
    Refused,
    /// NET_XMIT_CN: the packet counts as sent.
    Congested,
}

/// The queue of a host's first link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstQueue {
    pub link: LinkId,
    overflow: QueueNotice,
    early: Option<QueueNotice>,
    /// It drops others' packets than the one that came, of which their senders hear nothing.
    drops_others: bool,
}

impl FirstQueue {
    /// `None`: it tells nothing.
    pub(crate) fn new(link: LinkId, queue: &QueueConfig) -> Option<FirstQueue> {
        let (overflow, early, drops_others) = match queue {
            QueueConfig::Fifo(_) | QueueConfig::Codel(_) => (QueueNotice::Refused, None, false),
            QueueConfig::Pie(_) => (QueueNotice::Refused, Some(QueueNotice::Refused), false),
            QueueConfig::Red(_) => (QueueNotice::Refused, Some(QueueNotice::Congested), false),
            QueueConfig::FqCodel(_) => (QueueNotice::Congested, None, true),
            _ => return None,
        };
        Some(FirstQueue { link, overflow, early, drops_others })
    }

    /// Notice of a packet dropped for `reason`. `is_own`: the packet that came last was of the same
    /// flow.
    pub(crate) fn notice(&self, reason: DropReason, is_own: bool) -> Option<QueueNotice> {
        match reason {
            DropReason::Overflow if is_own || !self.drops_others => Some(self.overflow),
            DropReason::Early => self.early,
            _ => None,
        }
    }
}
