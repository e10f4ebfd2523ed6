//! Retry-out of TCP segments, as the MAC asks for it: by an index, and by evidence that a corrupt
//! MPDU carries TCP. Here are the fields of TCP that the index is told of.

use super::{AnyRetryOut, RetryOutConfig, TcpKnowledge, TcpKnownBy};
use crate::convert::saturate8;
use crate::packet::{Kind, Packet};
use crate::units::{DataRate, Time};
use crate::wifi::mac::early_drop::{EarlyDrop, PacketFacts, RetryLimit};

/// Retry-out at the recipient.
#[derive(Debug)]
pub struct TcpEarlyDrop {
    choice: AnyRetryOut,
    knowledge: TcpKnowledge,
}

impl TcpEarlyDrop {
    /// The rule for one sender and TID, at the beginning.
    pub fn new(config: &RetryOutConfig, known_by: TcpKnownBy) -> TcpEarlyDrop {
        TcpEarlyDrop { choice: config.build(&()), knowledge: known_by.build() }
    }
}

impl EarlyDrop for TcpEarlyDrop {
    fn on_ppdu(&mut self, now: Time, rate: DataRate) {
        self.choice.on_ampdu(now, rate);
    }
    fn on_received(&mut self, now: Time, packet: &Packet) {
        let (_, echo) = packet.timestamps();
        let is_tcp = packet.kind == Kind::Tcp;
        if is_tcp && packet.len > 0 && echo != 0 {
            self.choice.on_up(now, packet.conversation(), echo);
        }
        self.knowledge.on_correct(is_tcp, packet.size);
    }
    fn on_sent(&mut self, now: Time, packet: &Packet) {
        let (sent, _) = packet.timestamps();
        if packet.kind == Kind::Tcp && sent != 0 {
            self.choice.on_down(now, packet.conversation(), sent);
        }
    }
    fn gives_up(&mut self, now: Time, retries: u32, facts: PacketFacts) -> bool {
        let is_reached = self.choice.index(now).is_some_and(|index| retries >= index)
            && self.knowledge.is_tcp(facts.is_tcp, facts.bytes);
        if is_reached {
            self.choice.on_given_up(now);
        }
        is_reached
    }
}

/// A lower retry limit for TCP at the originator.
#[derive(Debug)]
pub struct TcpRetryLimit {
    choice: AnyRetryOut,
}

impl TcpRetryLimit {
    /// The limit of one link, at the beginning.
    pub fn new(config: &RetryOutConfig) -> TcpRetryLimit {
        TcpRetryLimit { choice: config.build(&()) }
    }
}

impl RetryLimit for TcpRetryLimit {
    fn on_ppdu(&mut self, now: Time, rate: DataRate) {
        self.choice.on_ampdu(now, rate);
    }
    fn limit(&mut self, now: Time, most: u8, facts: PacketFacts) -> u8 {
        let index = self.choice.index(now).filter(|_| facts.is_tcp);
        index.map_or(most, |index| most.min(saturate8(index)))
    }
}
