//! State of a link that most packets do not touch, and state that most links do not have.

use std::sync::Arc;

use airtcp_core::queue::DropReason;
use airtcp_core::units::{DataRate, Time};

use super::Impairments;
use super::reordering::Reordering;
use crate::engine::{QueueId, Ring};
use crate::network::rate_trace::RateTrace;
use crate::spec::LinkId;

/// State of a link that most packets do not touch: its queue and its counters.
#[derive(Debug)]
pub(crate) struct LinkStats {
    pub rate: DataRate,
    /// Packets not yet on the line: when their transmission starts, and their size. Those whose
    /// time has come are removed when next looked at. On a fused link: as of the arrival of the
    /// last packet that waited.
    pub(super) waiting: Ring<(Time, u16)>,
    pub(super) waiting_bytes: u64,
    pub record_drops: bool,
    /// The link that this one is fused with.
    pub(super) feeder: Option<LinkId>,
    /// Time integral of the packets waiting, complete up to the end of every wait in `waiting`;
    /// packet nanoseconds. On a fused link: of those packets that have reached its end.
    pub(super) wait_ns: u128,
    pub max_queue: u32,
    /// `max_queue` is that of packets that arrived at or after this.
    pub(super) max_queue_since: Time,
    /// `None`: it has none of these.
    pub(super) extras: Option<Box<LinkExtras>>,
}

/// State that few links of a large network have.
#[derive(Debug)]
pub(super) struct LinkExtras {
    pub(super) limit_packets: usize,
    pub(super) limit_bytes: u64,
    /// Where in [`super::Links::queued`] it is, if it is there.
    pub(super) queued: Option<QueueId>,
    /// Only where the link has a queue of its own.
    pub(super) rate_trace: Option<Arc<RateTrace>>,
    /// If packets are lost on the line, or held back.
    pub(super) impairments: Option<Box<Impairments>>,
    pub(super) counts: Counts,
}

impl Default for LinkExtras {
    fn default() -> LinkExtras {
        let counts = Counts::default();
        LinkExtras {
            limit_packets: usize::MAX,
            limit_bytes: u64::MAX,
            queued: None,
            rate_trace: None,
            impairments: None,
            counts,
        }
    }
}

/// Fates of few packets, and on most links of none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub dropped_overflow: u64,
    pub dropped_early: u64,
    /// ACKs that a newer one made superfluous.
    pub filtered: u64,
    pub dropped_bytes: u64,
    pub lost_packets: u64,
    pub marked: u64,
}

impl LinkStats {
    #[inline]
    pub(super) fn is_full_for(&self, size: u16) -> bool {
        self.extras.as_ref().is_some_and(|extras| {
            self.waiting.len() >= extras.limit_packets || self.waiting_bytes + u64::from(size) > extras.limit_bytes
        })
    }

    /// A packet was dropped here.
    pub(crate) fn count_drop(&mut self, size: u16, reason: DropReason) {
        let counts = self.counts();
        match reason {
            DropReason::Early => counts.dropped_early += 1,
            DropReason::Filtered => counts.filtered += 1,
            _ => counts.dropped_overflow += 1,
        }
        counts.dropped_bytes += u64::from(size);
    }
    /// To be counted on.
    pub(crate) fn counts(&mut self) -> &mut Counts {
        &mut self.extras.get_or_insert_default().counts
    }
    /// Where in [`super::Links::queued`] it is, if it is there.
    #[inline]
    pub(crate) fn queued(&self) -> Option<QueueId> {
        self.extras.as_ref()?.queued
    }
    pub(super) fn rate_trace(&self) -> Option<&RateTrace> {
        self.extras.as_ref()?.rate_trace.as_deref()
    }
    #[inline]
    pub(super) fn impairments(&self) -> Option<&Impairments> {
        self.extras.as_ref()?.impairments.as_deref()
    }
    #[inline]
    pub(super) fn impairments_mut(&mut self) -> Option<&mut Impairments> {
        self.extras.as_mut()?.impairments.as_deref_mut()
    }
    pub(super) fn reordering(&self) -> Option<&Reordering> {
        self.impairments()?.reordering.as_ref()
    }
    #[inline]
    pub(super) fn reordering_mut(&mut self) -> Option<&mut Reordering> {
        self.impairments_mut()?.reordering.as_mut()
    }
}
