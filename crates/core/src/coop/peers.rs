//! The other terminals on the access point, as far as their announcements tell.
//!
//! - **Who counts**: a terminal that sends counts once `admit_after` announcements of it were
//!   taken, at least half an announcement interval apart. A datagram that is sent once under each
//!   of many names counts for nothing.
//! - **Expiry**: who was not heard for `expire_after` is forgotten.
//! - **Order**: an announcement is taken if its sequence number is later than the last one taken
//!   (the difference modulo 2^32 read as signed). Others are duplicates or overtaken: they change
//!   nothing and renew nothing. If the number lies more than [`REORDER`] back, the terminal has
//!   restarted, and the announcement is taken. That also bounds for how long somebody who sends a
//!   large number in a terminal's name can mute it.
//! - **Room**: `max_peers`. When it is full, a newcomer takes the place of the one heard longest
//!   ago among those that do not count yet; without such a one it is refused. A flood therefore
//!   moves out no terminal that counts.
//! - **Leaving**: says that a terminal no longer sends. Its entry stays until it expires, so that
//!   it counts again with the next announcement if somebody else has said it.

use std::collections::BTreeMap;

use super::{Announcement, CoopConfig, TerminalId};
use crate::convert::{count, signed32};
use crate::units::{Span, Time};

/// An announcement up to this far behind the last one is late; further, its sender has begun anew.
pub const REORDER: u32 = 64;

#[derive(Debug, Clone)]
struct Peer {
    heard: Time,
    /// When the last announcement came that counted towards admission.
    admitted_at: Time,
    taken: u8,
    sequence: u32,
    flows: u16,
    correcting: bool,
    throughput_kbps: u32,
}

/// Result of an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnouncementOutcome {
    /// It is news, and counts.
    Taken,
    /// A duplicate, or overtaken by a later one.
    Late,
    /// The terminal's own, or in its name.
    Own,
    /// No room for one more terminal.
    Refused,
}

/// The other terminals, by what they announced last.
#[derive(Debug, Clone)]
pub struct Peers {
    own: TerminalId,
    max_peers: usize,
    max_flows: u16,
    admit_after: u8,
    admit_spacing: Span,
    expire_after: Span,
    peers: BTreeMap<TerminalId, Peer>,
}

impl Peers {
    /// Nobody yet. `own`: whose announcements are not those of others.
    pub fn new(own: TerminalId, config: &CoopConfig) -> Peers {
        Peers {
            own,
            max_peers: usize::from(config.max_peers),
            max_flows: config.max_flows,
            admit_after: config.admit_after,
            admit_spacing: Span::from_ns(config.announce_every.as_ns() / 2),
            expire_after: config.expire_after,
            peers: BTreeMap::new(),
        }
    }

    /// An announcement arrived; says what became of it.
    pub fn on_announcement(&mut self, now: Time, a: &Announcement) -> AnnouncementOutcome {
        if a.sender == self.own {
            return AnnouncementOutcome::Own;
        }
        self.expire(now);
        if let Some(peer) = self.peers.get_mut(&a.sender) {
            let ahead = signed32(a.sequence.wrapping_sub(peer.sequence));
            if (-signed32(REORDER)..=0).contains(&ahead) {
                return AnnouncementOutcome::Late;
            }
            if peer.taken < self.admit_after && now.since(peer.admitted_at) >= self.admit_spacing {
                peer.taken += 1;
                peer.admitted_at = now;
            }
            peer.heard = now;
            peer.sequence = a.sequence;
            peer.flows = a.flows.min(self.max_flows);
            peer.correcting = a.correcting;
            peer.throughput_kbps = a.throughput_kbps.unwrap_or(0);
            return AnnouncementOutcome::Taken;
        }
        if self.peers.len() >= self.max_peers {
            let waiting = self.peers.iter().filter(|(_, p)| p.taken < self.admit_after);
            let Some(longest) = waiting.min_by_key(|(_, p)| p.heard).map(|(&id, _)| id) else {
                return AnnouncementOutcome::Refused;
            };
            self.peers.remove(&longest);
        }
        let peer = Peer {
            heard: now,
            admitted_at: now,
            taken: 1,
            sequence: a.sequence,
            flows: a.flows.min(self.max_flows),
            correcting: a.correcting,
            throughput_kbps: a.throughput_kbps.unwrap_or(0),
        };
        self.peers.insert(a.sender, peer);
        AnnouncementOutcome::Taken
    }

    /// Forgets who was not heard for `expire_after`.
    pub fn expire(&mut self, now: Time) {
        let expire_after = self.expire_after;
        self.peers.retain(|_, p| now.since(p.heard) < expire_after);
    }

    fn sending(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().filter(|p| p.taken >= self.admit_after && p.flows > 0)
    }
    /// Other terminals that are sending.
    pub fn sending_terminals(&self) -> u32 {
        count(self.sending().count())
    }
    /// Those of them that are in correction by their own RTT.
    pub fn correcting_terminals(&self) -> u32 {
        count(self.sending().filter(|p| p.correcting).count())
    }
    /// Their connections.
    pub fn sending_flows(&self) -> u32 {
        self.sending().map(|p| u32::from(p.flows)).sum()
    }
    /// The sum of what they announced to have delivered.
    pub fn throughput_kbps(&self) -> u64 {
        self.sending().map(|p| u64::from(p.throughput_kbps)).sum()
    }
    /// Terminals known, counted or not: at most `max_peers`.
    pub fn len(&self) -> usize {
        self.peers.len()
    }
    /// Nobody is known.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }
    fn peers(config: &CoopConfig) -> Peers {
        Peers::new(TerminalId::new(1).unwrap(), config)
    }
    fn from(sender: u64, sequence: u32, flows: u16) -> Announcement {
        let sender = TerminalId::new(sender).unwrap();
        Announcement { sender, sequence, flows, leaving: false, correcting: false, throughput_kbps: None }
    }

    #[test]
    fn a_terminal_counts_from_its_second_announcement_until_it_expires() {
        let mut p = peers(&CoopConfig::default());
        assert_eq!(p.on_announcement(at(0), &from(2, 0, 1)), AnnouncementOutcome::Taken);
        assert_eq!(p.sending_terminals(), 0);
        p.on_announcement(at(100), &from(2, 1, 1)); // too soon after the first to admit it
        assert_eq!(p.sending_terminals(), 0);
        p.on_announcement(at(1000), &from(2, 2, 3));
        assert_eq!((p.sending_terminals(), p.sending_flows()), (1, 3));
        p.on_announcement(at(2000), &from(2, 3, 0));
        assert_eq!((p.sending_terminals(), p.len()), (0, 1));
        p.on_announcement(at(3000), &from(2, 4, 1));
        assert_eq!(p.sending_terminals(), 1);
        p.expire(at(6499));
        assert_eq!(p.len(), 1);
        p.expire(at(6500));
        assert!(p.is_empty());
    }

    #[test]
    fn a_report_of_correction_counts_like_its_terminal_and_is_taken_back() {
        let mut p = peers(&CoopConfig::default());
        let report = |s, correcting| Announcement { correcting, ..from(2, s, 1) };
        p.on_announcement(at(0), &report(0, true));
        assert_eq!(p.correcting_terminals(), 0); // not admitted yet
        p.on_announcement(at(1000), &report(1, true));
        assert_eq!(p.correcting_terminals(), 1);
        p.on_announcement(at(2000), &report(2, false));
        assert_eq!(p.correcting_terminals(), 0);
        p.on_announcement(at(3000), &report(3, true));
        p.expire(at(6500));
        assert_eq!(p.correcting_terminals(), 0);
    }

    #[test]
    fn late_ones_renew_nothing_and_a_restart_is_heard() {
        let mut p = peers(&CoopConfig::default());
        p.on_announcement(at(0), &from(2, u32::MAX, 1));
        assert_eq!(p.on_announcement(at(1000), &from(2, 3, 1)), AnnouncementOutcome::Taken); // across the wrap
        for late in [3, 2, 0, u32::MAX, 3u32.wrapping_sub(REORDER)] {
            assert_eq!(p.on_announcement(at(3000), &from(2, late, 9)), AnnouncementOutcome::Late, "{late}");
        }
        assert_eq!(p.sending_flows(), 1);
        p.expire(at(4500));
        assert!(p.is_empty());
        p.on_announcement(at(5000), &from(2, 500, 1));
        assert_eq!(p.on_announcement(at(6000), &from(2, 0, 1)), AnnouncementOutcome::Taken); // begun anew
        assert_eq!(p.sending_terminals(), 1);
    }

    #[test]
    fn a_flood_moves_out_nobody_who_counts() {
        let config = CoopConfig { max_peers: 4, ..CoopConfig::default() };
        let mut p = peers(&config);
        for s in 0..2 {
            for id in 2..5 {
                p.on_announcement(at(1000 * u64::from(s)), &from(id, s, 1));
            }
        }
        assert_eq!(p.sending_terminals(), 3);
        for id in 100..1000 {
            assert_eq!(p.on_announcement(at(2000), &from(id, 0, 1)), AnnouncementOutcome::Taken);
            assert_eq!((p.len(), p.sending_terminals()), (4, 3));
        }
        p.on_announcement(at(2500), &from(999, 1, 1));
        assert_eq!(p.sending_terminals(), 4);
        assert_eq!(p.on_announcement(at(2500), &from(1000, 0, 1)), AnnouncementOutcome::Refused);
        assert_eq!(p.on_announcement(at(2500), &from(1, 0, 1)), AnnouncementOutcome::Own);
    }
}
