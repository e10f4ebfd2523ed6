//! mac80211: FQ-CoDel for each station and access category, served by airtime, and a bound on the frames below it by their
//! airtime.
//!
//! Source: Linux since 4.11 (Høiland-Jørgensen et al., *Ending the Anomaly*, USENIX ATC 2017); the bound, AQL, since 5.5.
//! Defaults: net/mac80211/tx.c (`ieee80211_txq_setup_flows`, `fq_init`) and include/net/cfg80211.h.
//!
//! Stations with an empty deficit of airtime wait until it is filled up again, a quantum at a time.
//!
//! Siblings: `qdisc` has one queue for all stations, and serves them in turn whatever airtime each takes.
//!
//! Valid: every 802.11 PHY; not WaveLAN.
//!
//! Deviations: 64 flow queues for each station, where the kernel has 4096 for all stations together.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Order, Receiver, Then, TransmitContext, TransmitPath, TransmitRules, Turn};
use crate::convert::saturate32;
use crate::packet::{PacketId, Pool};
use crate::policy::checked;
use crate::queue::{Aqm, Drops, FqCodel, FqCodelConfig, QueueContext};
use crate::units::{Bytes, Span, Time};
use crate::wifi::phy::{PhyConfig, Standard};
use crate::wifi::trace::Ac;

/// FQ-CoDel for each station and access category, airtime fairness and AQL, as mac80211 has it since 4.11.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "Mac80211Config")]
pub struct Mac80211Config {
    /// The queues of one station and access category. Defaults: target 20 ms, interval 100 ms, quantum 300 bytes, 8192
    /// packets, 4 MiB, ECN on; 64 flow queues each, where the kernel has 4096 for all stations together.
    pub fq_codel: FqCodelConfig,
    /// Stations are served by airtime rather than in turn.
    pub airtime_fairness: bool,
    /// What a station sends to this radio counts as its airtime as well (`AIRTIME_USE_RX`), where the driver reports it, as ath9k
    /// does: who uploads much waits longer for what comes down.
    pub airtime_received: bool,
    /// Airtime a station may use before the next one's turn (its weight, 256 us).
    pub airtime_quantum: Span,
    /// Bound on the frames below the queues by their airtime.
    pub aql: bool,
    /// Airtime that may be pending for one station and access category while the radio as a whole is above
    /// `aql_threshold`.
    pub aql_low: Span,
    /// The same while it is below.
    pub aql_high: Span,
    /// Pending airtime of the whole radio above which `aql_low` holds.
    pub aql_threshold: Span,
    /// Frames per access category that the driver or firmware takes. Without AQL this is what bounds it.
    #[schemars(range(min = 1))]
    pub driver_frames: u32,
    /// What the radio asks of TCP small queues: data for a second / 2^n at the pacing rate may wait below a connection, 8 ms.
    #[schemars(range(max = 30))]
    pub tsq_pacing_shift: u32,
}

impl Default for Mac80211Config {
    fn default() -> Mac80211Config {
        Mac80211Config {
            fq_codel: FqCodelConfig {
                flows: 64,
                quantum: 300,
                limit_packets: 8192,
                memory_limit: Some(Bytes::new(4 << 20)),
                target: Span::from_ms(20),
                interval: Span::from_ms(100),
                ecn: true,
                ..FqCodelConfig::default()
            },
            airtime_fairness: true,
            airtime_received: true,
            airtime_quantum: Span::from_us(256),
            aql: true,
            aql_low: Span::from_us(5_000),
            aql_high: Span::from_us(12_000),
            aql_threshold: Span::from_us(24_000),
            driver_frames: 512,
            tsq_pacing_shift: 7,
        }
    }
}

impl Mac80211Config {
    fn check(&self) -> Result<(), String> {
        if self.driver_frames == 0 {
            return Err("`driver_frames` = 0: must be at least 1".into());
        }
        if self.tsq_pacing_shift > 30 {
            return Err(format!("`tsq_pacing_shift` = {}: must be in 0..=30", self.tsq_pacing_shift));
        }
        if self.airtime_quantum.is_zero() {
            return Err("`airtime_quantum` = 0ns: must be above zero, such as \"256us\"".into());
        }
        if self.aql_low > self.aql_high {
            return Err(format!("`aql_low` = {}: must not be above `aql_high` ({})", self.aql_low, self.aql_high));
        }
        if self.aql_low.is_zero() {
            return Err("`aql_low` = 0ns: must be above zero; switch it off with `aql = false`".into());
        }
        Ok(())
    }
}
checked!(Mac80211Config);

impl Mac80211Config {
    pub(super) fn build(&self, _: &TransmitContext) -> Mac80211 {
        Mac80211 { config: self.clone(), categories: Default::default(), pending_ns: 0 }
    }
}

impl TransmitRules for Mac80211Config {
    fn driver_frames(&self) -> u32 {
        self.driver_frames
    }
    fn tsq_pacing_shift(&self) -> Option<u32> {
        Some(self.tsq_pacing_shift)
    }
    fn check_phy(&self, phy: &PhyConfig) -> Result<(), String> {
        if phy.standard == Standard::Wavelan {
            return Err("\"mac80211\" is for 802.11: WaveLAN takes \"qdisc\"".into());
        }
        Ok(())
    }
}

/// The queues of one radio.
#[derive(Debug)]
pub struct Mac80211 {
    config: Mac80211Config,
    categories: [Category; 4],
    /// Estimated airtime of all frames below the queues, ns.
    pub(in crate::wifi) pending_ns: u64,
}

#[derive(Debug, Default)]
struct Category {
    txqs: Vec<Txq>,
    /// Those with packets.
    waiting: VecDeque<Receiver>,
    /// All of them were above their bound when last looked at, and nothing has changed since.
    blocked: bool,
}

/// The packets of one category for one station.
#[derive(Debug)]
struct Txq {
    /// `None`: it is closed and has been emptied.
    queue: Option<Box<FqCodel>>,
    is_listed: bool,
    /// What it may use before its turn is over, ns.
    deficit_ns: i64,
    /// When something was last sent to it.
    served: Time,
    /// Estimated airtime of the frames below its queue, ns.
    pending_ns: u64,
}

impl Mac80211 {
    /// Estimated airtime of a receiver's frames below its queue, ns.
    #[cfg(test)]
    pub(in crate::wifi) fn pending_ns_of(&self, ac: Ac, receiver: Receiver) -> u64 {
        self.categories[ac.index()].txqs[receiver.index()].pending_ns
    }
}

impl TransmitPath for Mac80211 {
    fn open(&mut self, ac: Ac, context: &QueueContext) -> Receiver {
        let txqs = &mut self.categories[ac.index()].txqs;
        let receiver = Receiver(saturate32(txqs.len() as u64));
        let queue = Some(Box::new(self.config.fq_codel.build(context)));
        txqs.push(Txq { queue, is_listed: false, deficit_ns: 0, served: Time::ZERO, pending_ns: 0 });
        receiver
    }

    fn close(&mut self, ac: Ac, receiver: Receiver) {
        let category = &mut self.categories[ac.index()];
        category.waiting.retain(|&r| r != receiver);
        category.blocked = false;
    }

    fn enqueue(&mut self, now: Time, ac: Ac, receiver: Receiver, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let category = &mut self.categories[ac.index()];
        let txq = &mut category.txqs[receiver.index()];
        txq.queue.as_mut().expect("open").enqueue(now, id, pool, drops);
        if !txq.is_listed {
            txq.is_listed = true;
            category.waiting.push_back(receiver);
            category.blocked = false;
        }
    }

    /// Of the stations in turn, the first whose pending airtime is within its bound.
    fn dequeue(
        &mut self,
        now: Time,
        ac: Ac,
        airtime: &dyn Fn(PacketId, u16) -> u32,
        pool: &mut Pool,
        drops: &mut Drops,
    ) -> Option<(PacketId, u32)> {
        let Category { txqs, waiting, blocked } = &mut self.categories[ac.index()];
        if *blocked {
            return None;
        }
        let config = &self.config;
        for _ in 0..waiting.len() {
            let txq = &mut txqs[waiting[0].index()];
            let bound = if self.pending_ns > config.aql_threshold.as_ns() { config.aql_low } else { config.aql_high };
            if config.aql && txq.pending_ns >= bound.as_ns() {
                waiting.rotate_left(1);
                continue;
            }
            let queue = txq.queue.as_mut().expect("it has packets");
            let next = queue.dequeue(now, pool, drops);
            if queue.len_packets() == 0 {
                txq.is_listed = false;
                waiting.pop_front();
            } else {
                waiting.rotate_left(1);
            }
            if let Some(packet) = next {
                let booked = if config.aql { airtime(packet, pool[packet].size) } else { 0 };
                txq.pending_ns += u64::from(booked);
                self.pending_ns += u64::from(booked);
                return Some((packet, booked));
            }
        }
        *blocked = true;
        None
    }

    fn take_back(
        &mut self,
        now: Time,
        ac: Ac,
        receiver: Receiver,
        pool: &mut Pool,
        drops: &mut Drops,
    ) -> Option<PacketId> {
        let place = &mut self.categories[ac.index()].txqs[receiver.index()].queue;
        let queue = place.as_mut()?;
        while queue.len_packets() > 0 {
            let next = queue.dequeue(now, pool, drops);
            if next.is_some() {
                return next;
            }
        }
        *place = None;
        None
    }

    fn on_released(&mut self, ac: Ac, receiver: Receiver, airtime_ns: u32) {
        let category = &mut self.categories[ac.index()];
        category.blocked = false;
        category.txqs[receiver.index()].pending_ns -= u64::from(airtime_ns);
        self.pending_ns -= u64::from(airtime_ns);
    }

    fn on_sent(&mut self, now: Time, ac: Ac, receiver: Receiver, airtime: Span) {
        if self.config.airtime_fairness {
            let txq = &mut self.categories[ac.index()].txqs[receiver.index()];
            txq.deficit_ns -= airtime.as_ns() as i64;
            txq.served = now;
        }
    }

    /// As mac80211 since 6.0, only while the station is served itself: a debt that grows all the time would silence it for
    /// long.
    fn on_received(&mut self, now: Time, ac: Ac, receiver: Receiver, airtime: Span) {
        const ACTIVE: Span = Span::from_ms(100); // AIRTIME_ACTIVE_DURATION, HZ / 10
        if self.config.airtime_fairness && self.config.airtime_received {
            let txq = &mut self.categories[ac.index()].txqs[receiver.index()];
            if now.since(txq.served) < ACTIVE {
                txq.deficit_ns -= airtime.as_ns() as i64;
            }
        }
    }

    /// Deficit round robin by airtime: whoever is first with something left of its share. If nobody has, all get as many
    /// quanta as the first of them needs.
    fn turn(&mut self, ac: Ac, order: &dyn Order) -> Option<Turn> {
        if !self.config.airtime_fairness {
            let at = (0..order.count()).find(|&at| order.can_send(at))?;
            return Some(Turn { at, then: Then::ItGoesBehind });
        }
        let txqs = &mut self.categories[ac.index()].txqs;
        let quantum = self.config.airtime_quantum.as_ns() as i64;
        let candidates = || (0..order.count()).filter(|&at| order.can_send(at));
        let has_share = |txqs: &[Txq], at: usize| txqs[order.receiver(at).index()].deficit_ns > 0;
        let mut first = candidates().find(|&at| has_share(txqs, at));
        if first.is_none() {
            let rounds = |at: usize| -txqs[order.receiver(at).index()].deficit_ns / quantum + 1;
            let least = candidates().map(rounds).min()?;
            for at in 0..order.count() {
                txqs[order.receiver(at).index()].deficit_ns += least * quantum;
            }
            first = candidates().find(|&at| has_share(txqs, at));
        }
        first.map(|at| Turn { at, then: Then::ThoseBeforeGoBehind })
    }
}
