//! Trains of numbered datagrams: `count` of them, `gap` apart, again every `every`.
//!
//! A train that would begin before the last one has ended begins right after it.

use airtcp_core::packet::{FlowId, Kind, Packet};
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{Seq32, Span, Time};

use super::payload;
use crate::spec::FlowSpec;

pub(crate) struct Train {
    flow: FlowId,
    /// Begin of the train under way or to come.
    begin: Time,
    next: Time,
    stop: Time,
    count: u32,
    gap: Span,
    every: Span,
    packet_bytes: u16,
    /// Datagrams of the present train already sent.
    sent_of_train: u32,
    /// By datagram: when sent, when received.
    pub datagrams: Vec<(Time, Option<Time>)>,
}

impl Train {
    pub fn new(flow: FlowId, spec: &FlowSpec, count: u32, gap: Span, packet_bytes: u16, every: Span) -> Train {
        let next = if count == 0 { Time::NEVER } else { spec.start };
        // Trains without length or distance would never let time go on.
        let every = every.max(Span::from_ns(1));
        Train {
            flow,
            begin: spec.start,
            next,
            stop: spec.stop,
            count,
            gap,
            every,
            packet_bytes,
            sent_of_train: 0,
            datagrams: Vec::new(),
        }
    }
    pub fn count(&self) -> u32 {
        self.count
    }
    pub fn deadline(&self) -> u64 {
        if self.next < self.stop { self.next.as_ns() } else { u64::MAX }
    }
    pub fn on_deadline(&mut self, now: u64, out: &mut Outputs) {
        let now = Time::from_ns(now);
        loop {
            let mut packet = Packet::new(self.flow, Kind::Udp, 0);
            packet.size = self.packet_bytes;
            packet.len = payload(self.packet_bytes);
            packet.seq = Seq32::from_offset(self.datagrams.len() as u64);
            out.packets.push(packet);
            self.datagrams.push((now, None));
            self.sent_of_train += 1;
            if self.sent_of_train == self.count {
                self.sent_of_train = 0;
                self.begin = (self.begin + self.every).max(now + self.gap);
                self.next = self.begin;
                return;
            }
            if !self.gap.is_zero() {
                self.next = now + self.gap;
                return;
            }
        }
    }
    pub fn on_packet(&mut self, now: u64, packet: &Packet) {
        let number = packet.seq.to_offset(self.datagrams.len() as u64);
        if let Some((_, received)) = self.datagrams.get_mut(number as usize) {
            *received = Some(Time::from_ns(now));
        }
    }
}
