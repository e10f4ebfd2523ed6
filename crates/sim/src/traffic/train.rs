//! Trains of numbered datagrams ([`Schedule`]) and what becomes of them.

use airtcp_core::buffer_probe::Schedule;
use airtcp_core::packet::{FlowId, Kind, Packet};
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{Seq32, Time};

use super::payload;

pub(crate) struct Train {
    flow: FlowId,
    schedule: Schedule,
    packet_bytes: u16,
    /// By datagram: when sent, when received.
    pub datagrams: Vec<(Time, Option<Time>)>,
}

impl Train {
    pub fn new(flow: FlowId, schedule: Schedule, packet_bytes: u16) -> Train {
        Train { flow, schedule, packet_bytes, datagrams: Vec::new() }
    }
    /// Datagrams in a train.
    pub fn count(&self) -> u32 {
        self.schedule.count()
    }
    pub fn deadline(&self) -> u64 {
        let at = self.schedule.deadline();
        if at.is_never() { u64::MAX } else { at.as_ns() }
    }
    pub fn on_deadline(&mut self, now: u64, out: &mut Outputs) {
        let now = Time::from_ns(now);
        for _ in 0..self.schedule.on_deadline(now) {
            let mut packet = Packet::new(self.flow, Kind::Udp, 0);
            packet.size = self.packet_bytes;
            packet.len = payload(self.packet_bytes);
            packet.seq = Seq32::from_offset(self.datagrams.len() as u64);
            out.packets.push(packet);
            self.datagrams.push((now, None));
        }
    }
    pub fn on_packet(&mut self, now: u64, packet: &Packet) {
        let number = packet.seq.to_offset(self.datagrams.len() as u64);
        if let Some((_, received)) = self.datagrams.get_mut(number as usize) {
            *received = Some(Time::from_ns(now));
        }
    }
}
