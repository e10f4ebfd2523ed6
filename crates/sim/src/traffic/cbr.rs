//! Constant bit rate: UDP datagrams of one size at a constant rate.
//!
//! Source: a call or a test such as `iperf3 -u`. Jitter is that of RFC 3550, section 6.4.1.
//!
//! Siblings: `stream` has the same rate over TCP. `train` sends in trains and records every
//! datagram; `ping` is answered.
//!
//! Valid: calls, games and other loads that do not react to losses.
//!
//! Deviations: the rate includes IP and UDP headers; that of `iperf3` counts the payload only.
//!
//! Datagram n leaves at `start + n * size / rate`, to the nanosecond and without drift.

use airtcp_core::packet::{FlowId, Kind as PacketKind, Packet};
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{DataRate, Seq32, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Counters, Ends, Faults, Kind, Period, Report, payload};
use crate::books::record::ratio;
use crate::error::BuildError;

/// UDP datagrams at a constant rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cbr {
    /// Rate, IP and UDP headers included.
    pub rate: DataRate,
    /// Size of a datagram, IP and UDP headers (28 bytes) included.
    #[serde(default = "super::datagram_bytes")]
    #[schemars(range(min = 29))]
    pub packet_bytes: u16,
}

impl Kind for Cbr {
    type Ends = Datagrams;
    const MAY_PART: bool = true;

    fn check(&self, faults: &mut Faults) {
        faults.require(self.rate.as_bps() > 0, "rate", "must be above 0bit/s");
    }
    fn packet_bytes(&self) -> u16 {
        self.packet_bytes
    }
    fn packets_within(&self, span: Span) -> u64 {
        let packet = u128::from(self.packet_bytes.max(1)) * 8_000_000_000;
        let bits = u128::from(self.rate.as_bps()) * u128::from(span.as_ns());
        u64::try_from(bits.div_ceil(packet)).unwrap_or(u64::MAX)
    }
    fn build(&self, ctx: &Context) -> Result<Datagrams, BuildError> {
        if self.rate.as_bps() == 0 {
            return Err(ctx.bad("rate", "0bit/s", "positive"));
        }
        Ok(Datagrams {
            flow: ctx.flow,
            start: ctx.spec.start,
            stop: ctx.spec.stop,
            next: ctx.spec.start,
            config: self.clone(),
            counters: Counters::default(),
            jitter_ns: 0.0,
            last_delay: None,
            received_up_to: 0,
        })
    }
}

/// Both ends of a flow.
pub(crate) struct Datagrams {
    flow: FlowId,
    start: Time,
    stop: Time,
    next: Time,
    config: Cbr,
    counters: Counters,
    /// RFC 3550 section 6.4.1: smoothed difference of successive one-way delays.
    jitter_ns: f64,
    /// Delay of the previous datagram.
    last_delay: Option<Span>,
    /// The last datagram that has arrived is the one before this.
    received_up_to: u64,
}

impl Datagrams {
    fn send_time(&self, number: u64) -> Time {
        let bytes = u128::from(number) * u128::from(self.config.packet_bytes.max(1));
        let ns = bytes * 8_000_000_000 / u128::from(self.config.rate.as_bps());
        Time::from_ns(u64::try_from(ns).unwrap_or(u64::MAX).saturating_add(self.start.as_ns()))
    }
}

impl Ends for Datagrams {
    fn deadline(&self) -> Time {
        if self.next < self.stop { self.next } else { Time::NEVER }
    }
    fn on_deadline(&mut self, _: Time, out: &mut Outputs) {
        let mut packet = Packet::new(self.flow, PacketKind::Udp, 0);
        packet.size = self.config.packet_bytes;
        packet.len = payload(self.config.packet_bytes);
        packet.seq = Seq32::from_offset(self.counters.sent);
        out.packets.push(packet);
        self.counters.sent += 1;
        self.next = self.send_time(self.counters.sent);
    }
    fn on_packet(&mut self, now: Time, packet: &Packet, _: &mut Outputs) {
        let number = packet.seq.to_offset(self.received_up_to);
        self.received_up_to = self.received_up_to.max(number + 1);
        let sent = self.send_time(number);
        let delay = now.since(sent);
        self.counters.received += 1;
        self.counters.received_bytes += u64::from(packet.size);
        self.counters.delay_sum_ns += u128::from(delay.as_ns());
        if let Some(last) = self.last_delay {
            self.jitter_ns += (delay.abs_diff(last).as_ns() as f64 - self.jitter_ns) / 16.0;
        }
        self.last_delay = Some(delay);
    }
    fn counters(&self) -> Counters {
        self.counters
    }
    fn join(&mut self, destination: Datagrams) {
        self.counters.receive(&destination.counters);
        (self.jitter_ns, self.last_delay) = (destination.jitter_ns, destination.last_delay);
    }
    fn report(&self, period: &Period, report: &mut Report) {
        let (first, last, row) = (period.first, period.last, &mut report.row);
        let bits = (last.received_bytes - first.received_bytes) as f64 * 8.0;
        row.goodput_bps = ratio(bits, period.length.as_secs_f64());
        row.delivered_bps = row.goodput_bps;
        row.delay_mean_ms = ratio((last.delay_sum_ns - first.delay_sum_ns) as f64 * 1e-6, row.received as f64);
        if self.counters.received > 1 {
            row.jitter_ms = self.jitter_ns * 1e-6;
        }
    }
}
