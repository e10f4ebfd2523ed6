//! Qdisc: a queue discipline for each access category before a driver queue of frames. The driver
//! serves its stations in turn, a PPDU each.
//!
//! Source: Linux until 4.10, where the driver's queue of frames lay below the interface's
//! discipline. Its length is ath9k's `ATH_MAX_QDEPTH` (drivers/net/wireless/ath/ath9k/ath9k.h).
//!
//! Siblings: `mac80211` has a queue for each station and shares airtime. Here one queue serves all
//! stations, and one that is slow fills it for all.
//!
//! Valid: every PHY, WaveLAN among them.
//!
//! Deviations: the driver takes frames from the discipline as soon as it has room, without an
//! interrupt in between.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TransmitContext, TransmitDriver, TransmitQueues, TransmitRules, TxqId};
use crate::packet::{Held, PacketId, Pool};
use crate::policy::checked;
use crate::queue::{AnyQueue, Drops, FifoConfig, Hosts, QueueConfig, QueueContext};
use crate::units::{Span, Time};
use crate::wifi::trace::Ac;

/// A queue discipline for each access category before a driver queue of frames, as Linux had it
/// until 4.10.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "QdiscConfig")]
pub struct QdiscConfig {
    /// Queue discipline. Default: 1000 packets drop-tail, as pfifo_fast with `txqueuelen` 1000.
    pub qdisc: QueueConfig,
    /// Frames per access category that the driver takes from it. ath9k: 123 (`ATH_MAX_QDEPTH`).
    #[schemars(range(min = 1))]
    pub driver_frames: u32,
    /// True if the driver releases a frame from its socket when it takes the frame (`skb_orphan`).
    /// Frames in the driver do not count for TCP small queues then. ath9k does not. There mac80211
    /// releases frames in `ieee80211_tx_status`, after the transmission (net/mac80211/status.c,
    /// Linux 3.13).
    pub orphans: bool,
}

impl Default for QdiscConfig {
    fn default() -> QdiscConfig {
        let qdisc = QueueConfig::Fifo(FifoConfig { limit_packets: Some(1000), limit_bytes: None });
        QdiscConfig { qdisc, driver_frames: 123, orphans: false }
    }
}

impl QdiscConfig {
    fn check(&self) -> Result<(), String> {
        if self.driver_frames == 0 {
            return Err("`driver_frames` = 0: must be at least 1".into());
        }
        Ok(())
    }

    pub(super) fn build(&self, ctx: &TransmitContext) -> Qdisc {
        let queue = |stream| {
            Box::new(self.qdisc.build(&QueueContext { rate: ctx.rate, mtu: 1500, stream, hosts: Hosts::default() }))
        };
        Qdisc { queues: ctx.streams.map(queue) }
    }
}
checked!(QdiscConfig);

impl TransmitRules for QdiscConfig {
    fn driver_frames(&self) -> u32 {
        self.driver_frames
    }
    fn orphans(&self) -> bool {
        self.orphans
    }
}

/// A discipline for each access category.
#[derive(Debug)]
pub struct Qdisc {
    queues: [Box<AnyQueue>; 4],
}

impl TransmitQueues for Qdisc {
    fn open(&mut self, _: Ac, _: &QueueContext) -> TxqId {
        TxqId::default()
    }
    fn backlog(&self) -> (u64, u64) {
        self.queues.iter().fold((0, 0), |sum, q| (sum.0 + q.len_packets() as u64, sum.1 + q.len_bytes()))
    }
    fn enqueue(&mut self, now: Time, ac: Ac, _: TxqId, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        self.queues[ac.index()].enqueue(now, id, pool, drops);
    }
    fn dequeue(
        &mut self,
        now: Time,
        ac: Ac,
        _: &dyn Fn(&Held) -> Span,
        pool: &mut Pool,
        drops: &mut Drops,
    ) -> Option<(PacketId, Span)> {
        let queue = &mut self.queues[ac.index()];
        if queue.len_packets() == 0 {
            return None;
        }
        queue.dequeue(now, pool, drops).map(|id| (id, Span::ZERO))
    }
    fn take_any(&mut self, now: Time, ac: Ac, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId> {
        let queue = &mut self.queues[ac.index()];
        loop {
            let before = queue.len_packets();
            if before == 0 {
                return None;
            }
            let next = queue.dequeue(now, pool, drops);
            let is_stuck = next.is_none() && queue.len_packets() == before;
            if next.is_some() || is_stuck {
                return next;
            }
        }
    }
    fn deadline(&self, ac: Ac) -> Time {
        self.queues[ac.index()].deadline()
    }
    fn on_deadline(&mut self, now: Time, ac: Ac) {
        self.queues[ac.index()].on_deadline(now);
    }
}

impl TransmitDriver for Qdisc {}
