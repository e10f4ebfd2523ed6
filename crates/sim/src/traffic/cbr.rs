//! Datagrams at a constant rate. Packet n leaves at `start + n * size / rate`, to the nanosecond and without drift.

use airtcp_core::packet::{FlowId, Kind, Packet};
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{DataRate, Seq32, Time};

use super::payload;
use crate::error::BuildError;
use crate::spec::FlowSpec;

pub(crate) struct Cbr {
    flow: FlowId,
    start: Time,
    stop: Time,
    next: Time,
    rate: DataRate,
    packet_bytes: u16,
    pub counters: CbrCounters,
    /// Delay of the previous datagram, ns.
    last_delay_ns: Option<u64>,
}

/// What the receiver counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CbrCounters {
    pub sent: u64,
    pub received: u64,
    pub received_bytes: u64,
    /// One-way delay: sum, least, greatest.
    pub delay_sum_ns: u128,
    pub delay_min_ns: u64,
    pub delay_max_ns: u64,
    /// RFC 3550 section 6.4.1: smoothed difference of successive one-way delays.
    pub jitter_ns: f64,
}

impl Cbr {
    pub fn new(flow: FlowId, spec: &FlowSpec, rate: DataRate, packet_bytes: u16) -> Result<Cbr, BuildError> {
        if rate.as_bps() == 0 {
            return Err(BuildError::BadParameter {
                flow: spec.name.clone(),
                parameter: "rate",
                value: "0bit/s".into(),
                accepted: "positive",
            });
        }
        Ok(Cbr {
            flow,
            start: spec.start,
            stop: spec.stop,
            next: spec.start,
            rate,
            packet_bytes,
            counters: CbrCounters { delay_min_ns: u64::MAX, ..CbrCounters::default() },
            last_delay_ns: None,
        })
    }
    fn send_time(&self, number: u64) -> Time {
        let bytes = u128::from(number) * u128::from(self.packet_bytes.max(1));
        let ns = bytes * 8_000_000_000 / u128::from(self.rate.as_bps());
        Time::from_ns(u64::try_from(ns).unwrap_or(u64::MAX).saturating_add(self.start.as_ns()))
    }
    pub fn deadline(&self) -> u64 {
        if self.next < self.stop { self.next.as_ns() } else { u64::MAX }
    }
    pub fn on_deadline(&mut self, _now: u64, out: &mut Outputs) {
        let mut packet = Packet::new(self.flow, Kind::Udp, 0);
        packet.size = self.packet_bytes;
        packet.len = payload(self.packet_bytes);
        packet.seq = Seq32::from_offset(self.counters.sent);
        out.packets.push(packet);
        self.counters.sent += 1;
        self.next = self.send_time(self.counters.sent);
    }
    pub fn on_packet(&mut self, now: u64, packet: &Packet) {
        let sent = self.send_time(packet.seq.to_offset(self.counters.sent));
        let delay = Time::from_ns(now).since(sent).as_ns();
        let c = &mut self.counters;
        c.received += 1;
        c.received_bytes += u64::from(packet.size);
        c.delay_sum_ns += u128::from(delay);
        c.delay_min_ns = c.delay_min_ns.min(delay);
        c.delay_max_ns = c.delay_max_ns.max(delay);
        if let Some(last) = self.last_delay_ns {
            c.jitter_ns += (delay.abs_diff(last) as f64 - c.jitter_ns) / 16.0;
        }
        self.last_delay_ns = Some(delay);
    }
}
