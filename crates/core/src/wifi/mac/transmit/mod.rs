//! The queues between a host and its radio, and the choice of the station that the driver serves
//! next. Each file is one variant.

use crate::packet::{Held, PacketId, Pool};
use crate::policy::policies;
use crate::queue::{Drops, QueueContext};
use crate::receive::ReceiveOffloadConfig;
use crate::rng::Stream;
use crate::units::{DataRate, Span, Time};
use crate::wifi::phy::PhyConfig;
use crate::wifi::trace::Ac;

/// Facts about a radio that its queues may use.
#[derive(Debug, Clone)]
pub struct TransmitContext {
    /// Rate of its fastest mode.
    pub rate: DataRate,
    /// A stream for each access category.
    pub streams: [Stream; 4],
}

/// The frames of one access category for one receiver, from one association to its end: a number of
/// the queues' own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxqId(pub u32);

impl TxqId {
    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The receiver that is served next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextTxq {
    /// Its place in the order.
    pub at: usize,
    /// Change of the order after the turn.
    pub rotation: Rotation,
}

/// Change of the order of receivers with packets after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// The receiver that is served goes to the end.
    ServedToBack,
    /// Receivers before it have had their share and go to the end; the one that is served stays
    /// first.
    SkippedToBack,
}

/// Receivers with packets to send, in order.
pub trait ServiceOrder {
    /// Number of receivers.
    fn count(&self) -> usize;
    /// The receiver at this place.
    fn receiver(&self, at: usize) -> TxqId;
    /// True if its Block Ack window lets the radio send to it now.
    fn can_send(&self, at: usize) -> bool;
}

/// The queues of one radio, all four access categories.
///
/// The owner opens a [`TxqId`] before its first packet. The driver takes packets ahead with
/// `dequeue`, or pulls them for a PPDU with `fetch`: [`TransmitDriver::is_pulled`].
pub trait TransmitQueues {
    /// Packets for another receiver will come. `context`: a queue of its own may be built from it.
    fn open(&mut self, ac: Ac, context: &QueueContext) -> TxqId;

    /// No more packets will come for it. Packets that wait are taken out with
    /// [`TransmitQueues::take_back`].
    fn close(&mut self, _ac: Ac, _receiver: TxqId) {}

    /// Packets that wait, and their bytes at the IP layer.
    fn backlog(&self) -> (u64, u64);

    /// A packet comes from the host.
    fn enqueue(&mut self, now: Time, ac: Ac, receiver: TxqId, id: PacketId, pool: &mut Pool, drops: &mut Drops);

    /// The next packet for the driver, and the airtime booked for it. `airtime` estimates that of a
    /// packet.
    fn dequeue(
        &mut self,
        now: Time,
        ac: Ac,
        airtime: &dyn Fn(&Held) -> Span,
        pool: &mut Pool,
        drops: &mut Drops,
    ) -> Option<(PacketId, Span)>;

    /// As `dequeue`, for this receiver; `None`: nothing waits for it.
    fn fetch(
        &mut self,
        _now: Time,
        _ac: Ac,
        _receiver: TxqId,
        _pool: &mut Pool,
        _drops: &mut Drops,
    ) -> Option<PacketId> {
        None
    }

    /// True if a packet for this receiver waits and can be fetched.
    fn can_fetch(&self, _ac: Ac, _receiver: TxqId) -> bool {
        false
    }

    /// Takes out a packet that waits for a closed receiver; `None`: there are no more. Queues for
    /// all receivers are not searched.
    fn take_back(
        &mut self,
        _now: Time,
        _ac: Ac,
        _receiver: TxqId,
        _pool: &mut Pool,
        _drops: &mut Drops,
    ) -> Option<PacketId> {
        None
    }

    /// Takes out a packet that waits in a queue for all receivers; `None`: there are no more.
    fn take_any(&mut self, _now: Time, _ac: Ac, _pool: &mut Pool, _drops: &mut Drops) -> Option<PacketId> {
        None
    }

    /// When periodic work is due; [`Time::NEVER`] if there is none.
    fn deadline(&self, _ac: Ac) -> Time {
        Time::NEVER
    }

    /// Does the periodic work, which is due.
    fn on_deadline(&mut self, _now: Time, _ac: Ac) {}
}

/// The driver of one radio: the receiver that it serves next, and its reports of airtime. The
/// defaults are those of a driver that serves receivers in turn, a PPDU each.
pub trait TransmitDriver {
    /// True if the driver takes packets only when it forms a PPDU ([`TransmitQueues::fetch`]), and
    /// none ahead. There is no periodic work then.
    fn is_pulled(&self) -> bool {
        false
    }

    /// True if a receiver that gets packets after a time without any goes before the others.
    fn new_goes_first(&self) -> bool {
        false
    }

    /// Chooses the next receiver of those with packets. `None`: no receiver may be served.
    fn next_txq(&mut self, _now: Time, _ac: Ac, order: &dyn ServiceOrder) -> Option<NextTxq> {
        let at = (0..order.count()).find(|&at| order.can_send(at))?;
        Some(NextTxq { at, rotation: Rotation::ServedToBack })
    }

    /// The driver has released a frame for which `airtime` was booked.
    fn on_released(&mut self, _ac: Ac, _receiver: TxqId, _airtime: Span) {}

    /// The radio is done with a PPDU to the receiver. `airtime`: duration of all its tries.
    fn on_sent(&mut self, _now: Time, _ac: Ac, _receiver: TxqId, _airtime: Span) {}

    /// True if the owner must call `on_received`.
    fn counts_received(&self) -> bool {
        false
    }

    /// The radio has received MPDUs from this station. `airtime`: their duration if each came in a
    /// PPDU of its own.
    fn on_received(&mut self, _now: Time, _ac: Ac, _receiver: TxqId, _airtime: Span) {}
}

/// The way from the host to the radio: queues, and the driver that takes packets out of them.
pub trait TransmitPath: TransmitQueues + TransmitDriver {}

impl<T: TransmitQueues + TransmitDriver> TransmitPath for T {}

/// Properties of the parameters that are known before the queues are built.
pub trait TransmitRules {
    /// Frames per access category that the driver takes.
    fn driver_frames(&self) -> u32;

    /// True if the driver releases a frame from its socket when it takes the frame.
    fn orphans(&self) -> bool {
        false
    }

    /// Pacing shift `n` that the radio sets for TCP small queues. A connection may have the data of
    /// 1 s / 2^n at its pacing rate waiting below it.
    fn tsq_pacing_shift(&self) -> Option<u32> {
        None
    }

    /// A-MPDUs that the driver or its chip forms ahead, the one on the air included. ath9k: 2
    /// (Linux 6.12, drivers/net/wireless/ath/ath9k/ath9k.h, `ATH_AGGR_MIN_QDEPTH`).
    fn formed_ahead(&self) -> u8 {
        2
    }

    /// Receive offload of the driver; `None`: the parameters do not decide it.
    fn receive_offload(&self) -> Option<ReceiveOffloadConfig> {
        None
    }

    /// Checks that the parameters go together with the PHY. The error names what is accepted.
    fn check_phy(&self, _phy: &PhyConfig) -> Result<(), String> {
        Ok(())
    }
}

policies! {
    /// One of the registered ways.
    AnyTransmit: TransmitPath,
    /// The queues between a host and its radio, with their parameters.
    TransmitConfig("a transmit path"): TransmitRules, built with TransmitContext {
        qdisc => Qdisc / QdiscConfig,
        mac80211 => Mac80211 / Mac80211Config,
    }
}

impl Default for TransmitConfig {
    fn default() -> Self {
        TransmitConfig::Mac80211(Mac80211Config::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize, serde::Serialize, PartialEq)]
    struct File {
        transmit: TransmitConfig,
    }

    #[test]
    fn every_name_has_defaults_that_survive_a_file() {
        for name in TransmitConfig::NAMES {
            let by_name: File = toml::from_str(&format!("transmit = \"{name}\"")).unwrap();
            assert_eq!(by_name.transmit, TransmitConfig::by_name(name).unwrap());
            assert!(by_name.transmit.driver_frames() > 0);
            let written = toml::to_string(&by_name).unwrap();
            assert_eq!(toml::from_str::<File>(&written).unwrap(), by_name, "{written}");
        }
    }

    #[test]
    fn every_path_hands_out_what_it_was_given_and_no_more() {
        use crate::packet::{FlowId, Kind, Packet};
        for name in TransmitConfig::NAMES {
            let rate = DataRate::from_mbps(100);
            let streams = [1, 2, 3, 4].map(Stream::of_test);
            let context = TransmitContext { rate, streams };
            let mut path = TransmitConfig::by_name(name).unwrap().build(&context);
            let (mut pool, mut drops) = (Pool::default(), Drops::default());
            let queue =
                |n| QueueContext { rate, mtu: 1500, stream: Stream::of_test(n), hosts: crate::queue::Hosts::default() };
            let receivers = [5, 6, 7].map(|n| path.open(Ac::Be, &queue(n)));
            let mut waiting = Vec::new();
            for n in 0..30u32 {
                let mut packet = Packet::new(FlowId(n % 5), Kind::Udp, 0);
                packet.size = 1000;
                let id = pool.insert(packet);
                waiting.push(id);
                path.enqueue(Time::ZERO, Ac::Be, receivers[n as usize % 3], id, &mut pool, &mut drops);
            }
            loop {
                let (now, ac) = (Time::ZERO, Ac::Be);
                let next = if path.is_pulled() {
                    receivers.iter().find_map(|&r| path.fetch(now, ac, r, &mut pool, &mut drops))
                } else {
                    path.dequeue(now, ac, &|_| Span::from_ns(7), &mut pool, &mut drops).map(|(id, _)| id)
                };
                let Some(id) = next else { break };
                let at = waiting.iter().position(|&w| w == id).unwrap_or_else(|| panic!("{name}: {id:?} twice"));
                waiting.remove(at);
            }
            assert!(waiting.is_empty() && drops.dropped.is_empty(), "{name}: {waiting:?} {drops:?}");
        }
    }
}
