//! Echo requests at a fixed interval; the destination answers each at once with a packet of the same size.

use airtcp_core::packet::{FlowId, Kind, Packet};
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{Seq32, Span, Time};

use super::payload;
use crate::spec::FlowSpec;

pub(crate) struct Ping {
    flow: FlowId,
    next: Time,
    stop: Time,
    interval: Span,
    packet_bytes: u16,
    /// By request: when sent, and the round trip once the reply is there, ns.
    pub requests: Vec<(Time, Option<Span>)>,
}

impl Ping {
    pub fn new(flow: FlowId, spec: &FlowSpec, interval: Span, packet_bytes: u16) -> Ping {
        // One request per nanosecond is the most that time can tell apart.
        let interval = interval.max(Span::from_ns(1));
        Ping { flow, next: spec.start, stop: spec.stop, interval, packet_bytes, requests: Vec::new() }
    }
    pub fn deadline(&self) -> u64 {
        if self.next < self.stop { self.next.as_ns() } else { u64::MAX }
    }
    pub fn on_deadline(&mut self, now: u64, out: &mut Outputs) {
        let mut packet = Packet::new(self.flow, Kind::EchoRequest, 0);
        packet.size = self.packet_bytes;
        packet.len = payload(self.packet_bytes);
        packet.seq = Seq32::from_offset(self.requests.len() as u64);
        out.packets.push(packet);
        self.requests.push((Time::from_ns(now), None));
        self.next += self.interval;
    }
    pub fn on_packet(&mut self, now: u64, packet: &Packet, out: &mut Outputs) {
        if packet.is_reverse() {
            let number = packet.seq.to_offset(self.requests.len() as u64);
            if let Some((sent, rtt)) = self.requests.get_mut(number as usize) {
                *rtt = Some(Time::from_ns(now).since(*sent));
            }
        } else {
            let mut reply = *packet;
            reply.kind = Kind::EchoReply;
            reply.set_reverse();
            out.packets.push(reply);
        }
    }
}
