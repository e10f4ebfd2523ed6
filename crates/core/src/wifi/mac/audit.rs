//! Counts of the packets that a channel holds, for checks that none is lost.

use super::SimMac;
use super::radio::win_start;
use crate::packet::{PacketId, Pool};
use crate::units::Time;
use crate::wifi::ids::{AirLinkId, RadioId, SessionId};
use crate::wifi::phy::Mode;
use crate::wifi::trace::AirStats;

/// Packets that a channel holds, and how its own counters tell it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AirHoldings {
    /// In the queues above the drivers, and their bytes at the IP layer.
    pub queued: (u64, u64),
    /// Packets in the drivers without a copy at the recipient.
    pub in_drivers: (u64, u64),
    /// MPDUs in the drivers that the recipient has, which the sender does not know. Their packets
    /// are the recipient's.
    pub arrived: (u64, u64),
    /// Packets in reorder buffers, behind a hole.
    pub reordering: (u64, u64),
    /// Frames that the drivers count as theirs.
    pub driver_frames: u64,
    /// Packets that the sending hosts hold by the counters of the links.
    pub held: (u64, u64),
    /// Packets by the counters of the links that came and have neither been delivered nor dropped
    /// nor handed back.
    pub without_end: u64,
}

impl AirHoldings {
    /// Packets that are in the pool because of this channel.
    pub fn packets(&self) -> (u64, u64) {
        [self.queued, self.in_drivers, self.reordering].into_iter().fold((0, 0), plus)
    }
}

fn plus(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0 + b.0, a.1 + b.1)
}

impl SimMac {
    /// Counters of a link from the start of the run to now, without transmissions under way.
    pub(in crate::wifi) fn stats(&self, link: AirLinkId, now: Time) -> AirStats {
        let l = &self.links[link.index()];
        let mut stats = l.stats;
        stats.held_packet_ns += u128::from(stats.held_packets) * u128::from(now.since(l.counted_to).as_ns());
        for s in l.sessions.into_iter().flatten() {
            if let Some(recipient) = &self.sessions[s.index()].recipient {
                let r = recipient.stats();
                stats.given_up += r.given_up;
                stats.reorder_timeouts += r.timeouts;
            }
        }
        stats
    }

    /// Counts the most packets held anew from now.
    pub(in crate::wifi) fn reset_held_max(&mut self, link: AirLinkId) {
        let stats = &mut self.links[link.index()].stats;
        stats.held_max = stats.held_packets;
    }

    /// The mode that rate control now thinks best for a link.
    pub(in crate::wifi) fn best_mode(&self, link: AirLinkId) -> Mode {
        self.links[link.index()].rate.best()
    }

    /// The radios at both ends of a link of a pair.
    pub(in crate::wifi) fn ends(&self, link: AirLinkId) -> Option<(RadioId, RadioId)> {
        let link = &self.links[link.index()];
        (!link.is_group()).then_some((link.from, link.to))
    }

    /// The radio that sends on a link.
    pub(in crate::wifi) fn sender(&self, link: AirLinkId) -> RadioId {
        self.links[link.index()].from
    }

    /// Packets that the channel holds, counted one by one.
    pub(in crate::wifi) fn holdings(&self, pool: &Pool) -> AirHoldings {
        let mut all = AirHoldings::default();
        for transmit in &self.transmits {
            all.queued = plus(all.queued, transmit.backlog());
        }
        let of_sessions = self.sessions.iter().flat_map(|s| s.unsent.iter().chain(&s.retransmissions));
        let queues = || self.radios.iter().flat_map(|r| &r.queues);
        let formed = queues().flat_map(|q| &q.formed).flat_map(|ppdu| &ppdu.mpdus);
        for mpdu in of_sessions.chain(formed) {
            let one = (1, u64::from(mpdu.size));
            let place = if mpdu.has_arrived() { &mut all.arrived } else { &mut all.in_drivers };
            *place = plus(*place, one);
        }
        for (_, id) in self.reordering() {
            all.reordering = plus(all.reordering, (1, u64::from(pool[id].size)));
        }
        all.driver_frames = queues().map(|q| u64::from(q.driver_count)).sum();
        for s in self.links.iter().map(|link| &link.stats) {
            all.held = plus(all.held, (s.held_packets, s.held_bytes));
            let dropped = s.dropped_overflow + s.dropped_early + s.filtered + s.dropped_gone + s.handed_back;
            let lost = s.dropped_retries + s.lost_collision + s.lost_errors + s.dropped_late;
            // Below zero it wraps, and shows as a sum that is far too great.
            let ended = s.delivered_packets + dropped + lost;
            all.without_end = all.without_end.wrapping_add(s.arrived_packets.wrapping_sub(ended));
        }
        all
    }

    /// Packets in reorder buffers, which wait for earlier ones, each with its link.
    pub(in crate::wifi) fn reordering(&self) -> impl Iterator<Item = (AirLinkId, PacketId)> {
        let buffers = self.sessions.iter().filter_map(|s| Some((s.link, s.recipient.as_ref()?)));
        buffers.flat_map(|(link, recipient)| recipient.all_held().map(move |&id| (link, id)))
    }

    /// First fault in the order of the senders' sequence numbers: the link and a message; `None` if
    /// there is none.
    pub(in crate::wifi) fn disorder(&self) -> Option<(AirLinkId, String)> {
        self.sessions.iter().enumerate().filter(|(_, s)| s.recipient.is_some() && !s.is_over).find_map(|(i, s)| {
            let out_of_order =
                s.retransmissions.iter().zip(s.retransmissions.iter().skip(1)).find(|(a, b)| !a.sn.is_before(b.sn));
            if let Some((a, b)) = out_of_order {
                return Some((s.link, format!("{} before {} among those to be sent again", a.sn.get(), b.sn.get())));
            }
            let formed = &self.radios[self.links[s.link.index()].from.index()].queues;
            let start = formed
                .iter()
                .map(|q| win_start(s, SessionId::new(i), &q.formed))
                .reduce(|a, b| if b.is_before(a) { b } else { a })?;
            let open = start.distance_to(s.next_sn);
            (open > s.window).then(|| {
                (s.link, format!("{open} numbers open from {}, though the window has {}", start.get(), s.window))
            })
        })
    }
}
