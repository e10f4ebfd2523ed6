//! mac80211: FQ-CoDel for each station and access category, and stations served by airtime. The
//! driver decides how many frames lie below these queues.
//!
//! Source: Høiland-Jørgensen et al., *Ending the Anomaly*, USENIX ATC 2017; Linux, read in 6.12.
//! Airtime fairness was ath9k's own from 4.11 on (commit 63fefa050477) and is mac80211's since 5.1
//! (Add airtime accounting and scheduling to TXQs). Stations in turn: net/mac80211/tx.c,
//! `ieee80211_next_txq`. Airtime: net/mac80211/sta_info.c, `ieee80211_sta_register_airtime`. The
//! bound on frames below by their airtime, AQL, is of 5.5.
//!
//! **Turns.** Each station has a deficit of airtime. A station that has used more than its share is
//! passed over, and gets a quantum each time. A station without packets gets it, too, for 100 ms. A
//! station with airtime left stays first.
//!
//! **Who is active.** Airtime counts for 100 ms from when a station came onto the list with
//! packets. It had none before, or a turn left some (net/mac80211/tx.c, `__ieee80211_schedule_txq`,
//! `ieee80211_txq_set_active`). Packets that come while it waits do not extend the 100 ms. So some
//! airtime is not charged where turns are more than 100 ms apart.
//!
//! **Airtime** is charged when the driver reports it. ath9k reports a PPDU when its hardware is
//! done with it (drivers/net/wireless/ath/ath9k/xmit.c, `ath_tx_count_airtime`). It reports the
//! duration of the PPDU times its tries, without gaps, backoffs and responses. It reports each
//! received MPDU as if it came in a PPDU of its own, preamble included (recv.c,
//! `ath_rx_count_airtime`).
//!
//! **The driver** takes frames in one of two ways, `driver`. ath9k leaves them in these queues
//! until it forms an A-MPDU (xmit.c, `ath_txq_schedule`). So A-MPDUs are as long as these queues
//! allow. Rate control is asked for each frame that leaves them (net/mac80211/tx.c,
//! `ieee80211_tx_dequeue`). A frame that tests a rate goes alone, after the frames taken before it.
//! Other drivers take frames ahead, as far as AQL lets them, and their chip forms A-MPDUs of these
//! (drivers/net/wireless/mediatek/mt76/tx.c, `mt76_txq_schedule_list`). The driver also decides how
//! a station hands packets up: ath9k one by one in a tasklet, mt76 merged by GRO.
//!
//! Siblings: `qdisc` has one queue for all stations, and serves them in turn whatever airtime each
//! takes.
//!
//! Valid: every 802.11 PHY; not WaveLAN.
//!
//! Deviations: 64 flow queues for each station, where the kernel has 4096 for all stations
//! together. A station whose Block Ack window is full is passed over; in ath9k it keeps its turn.
//! Without A-MPDUs ath9k has up to eight frames in its hardware, here one. Each frame adds to AQL
//! at the mode that rate control thinks best. The driver of mt76 takes frames of a station until
//! AQL stops it, here a frame of each in turn. With it stations are served by airtime where the
//! chip forms its PPDUs.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NextTxq, Rotation, ServiceOrder, TransmitContext, TransmitDriver, TransmitQueues, TransmitRules, TxqId};
use crate::convert::{saturate32, signed64};
use crate::packet::{Held, PacketId, Pool};
use crate::policy::checked;
use crate::queue::{Aqm, Drops, FqCodel, FqCodelConfig, QueueContext};
use crate::range::within;
use crate::receive::{NapiConfig, ReceiveOffloadConfig};
use crate::units::{Bytes, Span, Time};
use crate::wifi::phy::{PhyConfig, Standard};
use crate::wifi::trace::Ac;

/// How a driver takes frames out of mac80211's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// It pulls an A-MPDU at a time, of one station's frames, whenever fewer than
    /// `aggregation.formed_ahead` are ready (2: `ATH_AGGR_MIN_QDEPTH`). Linux 6.12,
    /// drivers/net/wireless/ath/ath9k/xmit.c, `ath_txq_schedule`, `ath_tx_sched_aggr`. It hands
    /// packets up one by one, without receive offload (recv.c, `ath_rx_tasklet`). Programs read
    /// when the tasklet is over, so TCP mostly sends one ACK for an A-MPDU.
    Ath9k,
    /// It takes frames as long as AQL and `driver_frames` let it, and A-MPDUs are formed below, one
    /// at a time unless `aggregation.formed_ahead` says more. Linux 6.12,
    /// drivers/net/wireless/mediatek/mt76/tx.c, `mt76_txq_schedule_list`. It hands packets up
    /// through GRO (mac80211.c, `mt76_rx_complete`).
    Mt76,
}

/// FQ-CoDel for each station and access category, airtime fairness and AQL, as mac80211 has it
/// since 5.5.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "Mac80211Config")]
pub struct Mac80211Config {
    /// The queues of one station and access category. Defaults: target 20 ms, interval 100 ms,
    /// quantum 300 bytes, 8192 packets, 4 MiB, 32 packets dropped at a time, ECN on. Each has 64
    /// flow queues; the kernel has 4096 for all stations together.
    pub fq_codel: FqCodelConfig,
    /// Stations are served by airtime rather than in turn.
    pub airtime_fairness: bool,
    /// Frames that a station sends to this radio count as its airtime as well (`AIRTIME_USE_RX`),
    /// if the driver reports it, as ath9k does. A station that uploads much waits longer for
    /// its downloads.
    pub airtime_received: bool,
    /// Airtime a station may use before the next one's turn (its weight, 256 us).
    pub airtime_quantum: Span,
    /// How the driver takes frames out of the queues.
    pub driver: Driver,
    /// Bound on the frames below the queues by their airtime. Default: as the driver announces it,
    /// on for `mt76` (drivers/net/wireless/mediatek/mt76/mac80211.c), not there in `ath9k`
    /// (drivers/net/wireless/ath/ath9k/init.c).
    pub aql: Option<bool>,
    /// Airtime that may be pending for one station and access category while the radio as a whole
    /// is above `aql_threshold`.
    pub aql_low: Span,
    /// The same while it is below.
    pub aql_high: Span,
    /// Pending airtime of the whole radio above which `aql_low` holds.
    pub aql_threshold: Span,
    /// Frames per access category that the driver or chip takes ahead. Without AQL this is the only
    /// bound. `ath9k` takes none.
    #[schemars(range(min = 1))]
    pub driver_frames: u32,
    /// Pacing shift `n` that the radio sets for TCP small queues. A connection may have the data of
    /// 1 s / 2^n at its pacing rate waiting below it. Default: 7, about 8 ms.
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
                drop_batch: 32,
                target: Span::from_ms(20),
                interval: Span::from_ms(100),
                ecn: true,
                ..FqCodelConfig::default()
            },
            airtime_fairness: true,
            airtime_received: true,
            airtime_quantum: Span::from_us(256),
            driver: Driver::Ath9k,
            aql: None,
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
        if self.aql == Some(true) && self.driver == Driver::Ath9k {
            return Err("`aql` = true: ath9k has none; leave it out, or set `driver` = \"mt76\"".into());
        }
        if self.driver_frames == 0 {
            return Err("`driver_frames` = 0: must be at least 1".into());
        }
        within("tsq_pacing_shift", self.tsq_pacing_shift, 0..=30, "")?;
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
    pub(in crate::wifi) fn has_aql(&self) -> bool {
        self.aql.unwrap_or(self.driver == Driver::Mt76)
    }
    pub(super) fn build(&self, _: &TransmitContext) -> Mac80211 {
        let aql = self.has_aql();
        Mac80211 { config: self.clone(), aql, categories: Default::default(), pending: Span::ZERO }
    }
}

impl TransmitRules for Mac80211Config {
    fn driver_frames(&self) -> u32 {
        self.driver_frames
    }
    fn tsq_pacing_shift(&self) -> Option<u32> {
        Some(self.tsq_pacing_shift)
    }
    fn formed_ahead(&self) -> u8 {
        match self.driver {
            Driver::Ath9k => 2,
            // The host does not form A-MPDUs; a chip that formed two ahead could not fill the
            // window with one, as these do.
            Driver::Mt76 => 1,
        }
    }
    fn receive_offload(&self) -> Option<ReceiveOffloadConfig> {
        Some(match self.driver {
            Driver::Ath9k => ReceiveOffloadConfig::Napi(NapiConfig { gro: false, ..NapiConfig::default() }),
            Driver::Mt76 => ReceiveOffloadConfig::Napi(NapiConfig::default()),
        })
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
    aql: bool,
    categories: [Category; 4],
    /// Estimated airtime of all frames below the queues.
    pub(in crate::wifi) pending: Span,
}

#[derive(Debug, Default)]
struct Category {
    txqs: Vec<Txq>,
    /// Those with packets.
    waiting: VecDeque<TxqId>,
    /// All of them were above their bound when last looked at, and nothing has changed since.
    blocked: bool,
}

/// The packets of one category for one station.
#[derive(Debug)]
struct Txq {
    /// `None`: it is closed and has been emptied.
    queue: Option<Box<FqCodel>>,
    is_listed: bool,
    /// Airtime that it may use before it is passed over, ns.
    deficit_ns: i64,
    /// When it last came onto the list with packets; 100 ms later (`ieee80211_sta_keep_active`, HZ
    /// / 10) it is not active.
    active: Time,
    /// Value of `active` before the turn under way; it is restored if the turn leaves no packets.
    active_before: Time,
    /// It was in the order when turns were last looked at.
    is_in_order: bool,
    /// Estimated airtime of the frames below its queue.
    pending: Span,
}

impl Txq {
    fn is_active(&self, now: Time) -> bool {
        now.since(self.active) <= Span::from_ms(100)
    }
    /// It waits for a turn: with packets, or to pay back (`ieee80211_txq_keep_active`).
    fn is_on_list(&self, now: Time) -> bool {
        self.has_packets() || (self.deficit_ns < 0 && self.is_active(now))
    }
    fn has_packets(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.len_packets() > 0)
    }
    /// Adds a quantum for each of `rounds` in which it is passed over, at most until its deficit is
    /// not negative.
    fn fill_up(&mut self, rounds: i64, quantum: Span) {
        let quantum = signed64(quantum.as_ns());
        if self.deficit_ns < 0 {
            self.deficit_ns += rounds.min(-self.deficit_ns.div_euclid(quantum)) * quantum;
        }
    }
}

impl Mac80211 {
    fn charge(&mut self, now: Time, ac: Ac, receiver: TxqId, airtime: Span) {
        let txq = &mut self.categories[ac.index()].txqs[receiver.index()];
        if txq.is_active(now) {
            txq.deficit_ns -= signed64(airtime.as_ns());
        }
    }
    /// Estimated airtime of a receiver's frames below its queue.
    #[cfg(test)]
    pub(in crate::wifi) fn pending_of(&self, ac: Ac, receiver: TxqId) -> Span {
        self.categories[ac.index()].txqs[receiver.index()].pending
    }
    /// Airtime that a receiver may use before it is passed over, ns.
    #[cfg(test)]
    pub(in crate::wifi) fn deficit_ns_of(&self, ac: Ac, receiver: TxqId) -> i64 {
        self.categories[ac.index()].txqs[receiver.index()].deficit_ns
    }
}

impl TransmitQueues for Mac80211 {
    fn open(&mut self, ac: Ac, context: &QueueContext) -> TxqId {
        let txqs = &mut self.categories[ac.index()].txqs;
        let receiver = TxqId(saturate32(txqs.len() as u64));
        // No `mtu` is set for these queues (net/mac80211/tx.c, `ieee80211_txq_setup_flows`;
        // include/net/codel_impl.h): CoDel may drop down to the last packet.
        let context = QueueContext { mtu: 0, ..context.clone() };
        let queue = Some(Box::new(self.config.fq_codel.build_for_station(&context)));
        txqs.push(Txq {
            queue,
            is_listed: false,
            deficit_ns: signed64(self.config.airtime_quantum.as_ns()),
            active: Time::ZERO,
            active_before: Time::ZERO,
            is_in_order: false,
            pending: Span::ZERO,
        });
        receiver
    }

    fn backlog(&self) -> (u64, u64) {
        let queues = self.categories.iter().flat_map(|c| &c.txqs).filter_map(|txq| txq.queue.as_ref());
        queues.fold((0, 0), |sum, q| (sum.0 + q.len_packets() as u64, sum.1 + q.len_bytes()))
    }

    fn close(&mut self, ac: Ac, receiver: TxqId) {
        let category = &mut self.categories[ac.index()];
        category.waiting.retain(|&r| r != receiver);
        category.blocked = false;
    }

    fn enqueue(&mut self, now: Time, ac: Ac, receiver: TxqId, id: PacketId, pool: &mut Pool, drops: &mut Drops) {
        let category = &mut self.categories[ac.index()];
        let txq = &mut category.txqs[receiver.index()];
        if self.config.driver != Driver::Ath9k || !txq.is_on_list(now) {
            txq.active = now;
        }
        txq.queue.as_mut().expect("open").enqueue(now, id, pool, drops);
        if !txq.is_listed && self.config.driver != Driver::Ath9k {
            txq.is_listed = true;
            category.waiting.push_back(receiver);
            category.blocked = false;
        }
    }

    /// Takes a packet of the first station in turn whose pending airtime is within its bound.
    fn dequeue(
        &mut self,
        now: Time,
        ac: Ac,
        airtime: &dyn Fn(&Held) -> Span,
        pool: &mut Pool,
        drops: &mut Drops,
    ) -> Option<(PacketId, Span)> {
        let Category { txqs, waiting, blocked } = &mut self.categories[ac.index()];
        if *blocked {
            return None;
        }
        let config = &self.config;
        for _ in 0..waiting.len() {
            let txq = &mut txqs[waiting[0].index()];
            let bound = if self.pending > config.aql_threshold { config.aql_low } else { config.aql_high };
            if self.aql && txq.pending >= bound {
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
                let booked = if self.aql { airtime(pool.held(packet)) } else { Span::ZERO };
                txq.pending += booked;
                self.pending += booked;
                return Some((packet, booked));
            }
        }
        *blocked = true;
        None
    }

    fn fetch(&mut self, now: Time, ac: Ac, receiver: TxqId, pool: &mut Pool, drops: &mut Drops) -> Option<PacketId> {
        let txq = &mut self.categories[ac.index()].txqs[receiver.index()];
        let queue = txq.queue.as_mut()?;
        let mut next = None;
        while next.is_none() && queue.len_packets() > 0 {
            next = queue.dequeue(now, pool, drops);
        }
        txq.active = if queue.len_packets() > 0 { now } else { txq.active_before };
        next
    }

    fn can_fetch(&self, ac: Ac, receiver: TxqId) -> bool {
        self.is_pulled() && self.categories[ac.index()].txqs[receiver.index()].has_packets()
    }

    fn take_back(
        &mut self,
        now: Time,
        ac: Ac,
        receiver: TxqId,
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
}

impl TransmitDriver for Mac80211 {
    fn is_pulled(&self) -> bool {
        self.config.driver == Driver::Ath9k
    }

    /// `__ieee80211_schedule_txq`: by its deficit it goes behind soon enough.
    fn new_goes_first(&self) -> bool {
        self.is_pulled() && self.config.airtime_fairness
    }

    /// Deficit round robin by airtime.
    fn next_txq(&mut self, now: Time, ac: Ac, order: &dyn ServiceOrder) -> Option<NextTxq> {
        if !self.config.airtime_fairness {
            let at = (0..order.count()).find(|&at| order.can_send(at))?;
            return Some(NextTxq { at, rotation: Rotation::ServedToBack });
        }
        let txqs = &mut self.categories[ac.index()].txqs;
        let quantum = self.config.airtime_quantum;
        let quantum_ns = signed64(quantum.as_ns());
        let count = order.count();
        let candidates = || (0..count).filter(|&at| order.can_send(at));
        let has_share = |txqs: &[Txq], at: usize| txqs[order.receiver(at).index()].deficit_ns >= 0;
        let mut first = (0..count).find(|&at| has_share(txqs, at) && order.can_send(at));
        if first.is_none() {
            // Round after round, until one of them has a share again.
            let rounds = |at: usize| -txqs[order.receiver(at).index()].deficit_ns.div_euclid(quantum_ns);
            let least = candidates().map(rounds).min()?;
            for at in 0..count {
                txqs[order.receiver(at).index()].is_in_order = true;
            }
            for txq in txqs.iter_mut() {
                if std::mem::take(&mut txq.is_in_order) || txq.is_active(now) {
                    txq.fill_up(least, quantum);
                }
            }
            first = candidates().find(|&at| has_share(txqs, at));
        }
        let at = first?;
        for before in 0..at {
            txqs[order.receiver(before).index()].fill_up(1, quantum);
        }
        let own = &mut txqs[order.receiver(at).index()];
        own.active_before = own.active;
        if self.config.driver != Driver::Ath9k || own.has_packets() {
            own.active = now;
        }
        Some(NextTxq { at, rotation: Rotation::SkippedToBack })
    }

    fn on_released(&mut self, ac: Ac, receiver: TxqId, airtime: Span) {
        let category = &mut self.categories[ac.index()];
        category.blocked = false;
        let txq = &mut category.txqs[receiver.index()];
        txq.pending = txq.pending.saturating_sub(airtime);
        self.pending = self.pending.saturating_sub(airtime);
    }

    fn on_sent(&mut self, now: Time, ac: Ac, receiver: TxqId, airtime: Span) {
        if self.config.airtime_fairness {
            self.charge(now, ac, receiver, airtime);
        }
    }

    fn counts_received(&self) -> bool {
        self.config.airtime_fairness && self.config.airtime_received
    }

    fn on_received(&mut self, now: Time, ac: Ac, receiver: TxqId, airtime: Span) {
        self.charge(now, ac, receiver, airtime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Kind, Packet};
    use crate::rng::Stream;
    use crate::units::DataRate;

    struct Waiting<'a>(&'a [TxqId]);
    impl ServiceOrder for Waiting<'_> {
        fn count(&self) -> usize {
            self.0.len()
        }
        fn receiver(&self, at: usize) -> TxqId {
            self.0[at]
        }
        fn can_send(&self, _: usize) -> bool {
            true
        }
    }

    /// Some stations, each with the airtime that it has left, us.
    fn stations(left_us: &[i64]) -> (Mac80211, Vec<TxqId>) {
        let rate = DataRate::from_mbps(100);
        let context = TransmitContext { rate, streams: [1, 2, 3, 4].map(Stream::of_test) };
        let mut path = Mac80211Config::default().build(&context);
        let queue = QueueContext { rate, mtu: 1500, stream: Stream::of_test(5), hosts: crate::queue::Hosts::default() };
        let receivers: Vec<TxqId> = left_us.iter().map(|_| path.open(Ac::Be, &queue)).collect();
        for (&r, &left) in receivers.iter().zip(left_us) {
            assert!(left <= 256, "it begins with a quantum");
            path.on_sent(Time::ZERO, Ac::Be, r, Span::from_us(256u64.checked_add_signed(-left).unwrap()));
        }
        (path, receivers)
    }
    fn left_us(path: &Mac80211) -> Vec<i64> {
        path.categories[Ac::Be.index()].txqs.iter().map(|txq| txq.deficit_ns / 1000).collect()
    }

    /// `ieee80211_next_txq` walked through by hand.
    #[test]
    fn who_is_passed_over_gets_a_quantum() {
        let (mut path, all) = stations(&[-600, -100, 0, -500]);
        let turn = path.next_txq(Time::ZERO, Ac::Be, &Waiting(&all)).unwrap();
        assert_eq!(turn, NextTxq { at: 2, rotation: Rotation::SkippedToBack });
        assert_eq!(left_us(&path), [-344, 156, 0, -500]);
    }

    #[test]
    fn rounds_go_on_until_somebody_has_a_share() {
        // The first round leaves -344, -144 and -244, the second -88, 112 and 12; then the first is
        // passed over once more.
        let (mut path, all) = stations(&[-600, -400, -500]);
        let turn = path.next_txq(Time::ZERO, Ac::Be, &Waiting(&all)).unwrap();
        assert_eq!((turn.at, left_us(&path)), (1, vec![168, 112, 12]));
    }

    #[test]
    fn a_station_without_packets_pays_its_debt_back_for_100_ms() {
        for (ms, left) in [(100, -244), (101, -500)] {
            let (mut path, all) = stations(&[-100, -500]);
            path.next_txq(Time::ZERO + Span::from_ms(ms), Ac::Be, &Waiting(&all[..1])).unwrap();
            assert_eq!(left_us(&path), [156, left]);
        }
    }

    #[test]
    fn airtime_of_a_station_that_is_not_active_is_not_charged() {
        let (mut path, all) = stations(&[0]);
        path.on_received(Time::ZERO + Span::from_ms(101), Ac::Be, all[0], Span::from_ms(4));
        assert_eq!(left_us(&path), [0]);
        path.on_received(Time::ZERO + Span::from_ms(100), Ac::Be, all[0], Span::from_ms(4));
        assert_eq!(left_us(&path), [-4000]);
    }

    #[test]
    fn a_station_is_active_from_when_it_comes_onto_the_list() {
        let (mut path, all) = stations(&[256]);
        let (mut pool, mut drops) = (Pool::default(), Drops::default());
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        for ms in [10, 60] {
            // The second packet comes while the station waits, and does not extend the time.
            let id = pool.insert(Packet::new(FlowId(0), Kind::Udp, 0));
            path.enqueue(at(ms), Ac::Be, all[0], id, &mut pool, &mut drops);
        }
        let hears = |path: &mut Mac80211, ms| {
            path.on_received(at(ms), Ac::Be, all[0], Span::from_us(100));
            left_us(path)[0]
        };
        assert_eq!((hears(&mut path, 111), hears(&mut path, 110)), (256, 156));
        // A turn that leaves a packet does, and one that leaves none does not.
        for ms in [150, 200] {
            path.next_txq(at(ms), Ac::Be, &Waiting(&all)).unwrap();
            assert!(path.fetch(at(ms), Ac::Be, all[0], &mut pool, &mut drops).is_some());
        }
        assert_eq!((hears(&mut path, 251), hears(&mut path, 250)), (156, 56));
    }

    #[test]
    fn aql_is_the_drivers() {
        let read = |text: &str| toml::from_str::<Mac80211Config>(text).map_err(|e| e.message().to_owned());
        assert!(!read("").unwrap().has_aql() && read("driver = \"mt76\"").unwrap().has_aql());
        assert!(!read("driver = \"mt76\"\naql = false").unwrap().has_aql());
        assert!(read("aql = true").unwrap_err().contains("ath9k has none"));
    }
}
