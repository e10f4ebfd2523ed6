//! Books of a world: tables, counters, samples, and the laws that they obey.
//!
//! They hold what the other rooms write down, and ask none of them for it. The world carries
//! numbers over: at a sample, at an audit, and at the end of a run.

pub(crate) mod audit;
mod ledger;
pub mod record;
pub(crate) mod results;
mod sampler;
pub mod summary;
pub(crate) mod totals;

use airtcp_core::packet::Packet;
use airtcp_core::queue::DropReason;
use airtcp_core::units::Time;
use airtcp_core::wifi::FrameRecord;

pub use audit::Finding;
pub use ledger::{Count, Ledger};
pub(crate) use sampler::Sampler;

use crate::capture::{CaptureSink, Captured};
use crate::spec::{ChannelId, LinkId, RunSpec};
use audit::Audit;
use record::{Log, Moment};
use totals::Totals;

/// Captured packets, frames and PPDUs are passed on in batches of this size.
pub(crate) const CAPTURE_BATCH: usize = 1024;

/// Everything that a run writes down.
pub(crate) struct Books {
    pub log: Log,
    pub ledger: Ledger,
    /// Captured packets that have not reached the sink yet.
    pub captured: Vec<Captured>,
    /// Captured frames, with their channel.
    pub frames: Vec<(ChannelId, FrameRecord)>,
    pub sampler: Sampler,
    /// Counters at the end of the warmup.
    pub warm: Option<Totals>,
    pub audit: Option<Box<Audit>>,
    /// Rows carry the moments of their events, as the world is one of several parts. Rows of a
    /// whole come in order.
    notes_moments: bool,
}

impl Books {
    /// `is_part`: the rows of several worlds will be put in one order.
    pub(crate) fn new(spec: &RunSpec, sampler: Sampler, is_part: bool) -> Books {
        let mut log = Log::default();
        sampler.reserve(&mut log, spec.duration, spec.walks.len());
        log.order = is_part.then(Box::default);
        Books {
            log,
            ledger: Ledger::default(),
            captured: Vec::new(),
            frames: Vec::new(),
            sampler,
            warm: None,
            audit: None,
            notes_moments: is_part,
        }
    }

    /// Notes to which moment the rows from now on belong, where that is asked for.
    #[inline]
    pub(crate) fn reach(&mut self, moment: impl FnOnce() -> Moment) {
        if self.notes_moments {
            self.log.reach(moment());
        }
    }

    /// Writes down that a queue or a radio has dropped a packet. `recorded`: with a row in `drops`.
    pub(crate) fn drop(&mut self, now: Time, link: LinkId, packet: &Packet, reason: DropReason, recorded: bool) {
        self.ledger.dropped.add(packet.size);
        if recorded {
            self.log.drop(now, link, packet, reason);
        }
    }

    /// As [`Self::drop`], of a packet that was lost on a line or in the air.
    pub(crate) fn lose(&mut self, now: Time, link: LinkId, packet: &Packet, reason: DropReason, recorded: bool) {
        self.ledger.lost.add(packet.size);
        if recorded {
            self.log.drop(now, link, packet, reason);
        }
    }

    /// True if enough has been captured to be passed on.
    #[inline]
    pub(crate) fn has_batch(&self) -> bool {
        self.captured.len() >= CAPTURE_BATCH
    }

    /// Passes on what has been captured, in the order of time.
    pub(crate) fn flush(&mut self, sink: &mut dyn CaptureSink) {
        // Frames of one channel are in order already.
        self.frames.sort_by_key(|(_, frame)| frame.time);
        let mut frames = self.frames.drain(..).peekable();
        for captured in self.captured.drain(..) {
            while let Some((channel, frame)) = frames.next_if(|(_, f)| f.time <= captured.time) {
                sink.frame(channel, &frame);
            }
            sink.packet(&captured);
        }
        frames.for_each(|(channel, frame)| sink.frame(channel, &frame));
    }

    /// True if the summary is to begin by `time` and has not.
    pub(crate) fn awaits_warmup(&self, spec: &RunSpec, time: Time) -> bool {
        self.warm.is_none() && Time::ZERO + spec.warmup <= time
    }
}
