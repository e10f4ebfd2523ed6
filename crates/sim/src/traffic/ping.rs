//! Ping: echo requests at a fixed interval. The destination answers each at once with a packet of
//! the same size.
//!
//! Source: ICMP echo (RFC 792). The defaults are those of the command `ping` of Linux: one request
//! of 84 bytes a second.
//!
//! Siblings: `cbr` and `train` measure one way and are not answered.
//!
//! Valid: round-trip times that other traffic causes, at any load of the probe itself.
//!
//! Deviations: none known.

use airtcp_core::convert::index;
use airtcp_core::packet::{FlowId, Kind as PacketKind, Packet};
use airtcp_core::table;
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{Seq32, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Counters, Ends, Faults, Kind, Period, Report, Tables, payload};
use crate::books::record::{millis, ratio};
use crate::error::BuildError;

/// Echo requests at a fixed interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ping {
    /// Time between requests.
    pub interval: Span,
    /// Size of request and reply, IP and ICMP headers (28 bytes) included.
    #[schemars(range(min = 29))]
    pub packet_bytes: u16,
}

impl Default for Ping {
    fn default() -> Ping {
        Ping { interval: Span::from_secs(1), packet_bytes: 84 }
    }
}

table! {
    /// One row per echo request.
    pub(crate) PingRows of PingRow as "pings" {
        flow: U32(u32) = "index of the flow",
        number: U32(u32) = "number of the request, from 0",
        sent_s: F64(f64) = "s, request sent",
        rtt_ms: F64(f64) = "ms, round trip, NaN: no reply",
    }
}

impl Kind for Ping {
    type Ends = Pings;
    const IS_ANSWERED: bool = true;
    const REMEMBERS_PACKETS: bool = true;
    // The destination remembers nothing.
    const MAY_PART: bool = true;

    fn by_default() -> Option<Ping> {
        Some(Ping::default())
    }
    fn check(&self, faults: &mut Faults) {
        faults.require(!self.interval.is_zero(), "interval", "must be longer than 0s");
    }
    fn packet_bytes(&self) -> u16 {
        self.packet_bytes
    }
    fn packets_within(&self, span: Span) -> u64 {
        span.as_ns().div_ceil(self.interval.as_ns().max(1))
    }
    fn build(&self, ctx: &Context) -> Result<Pings, BuildError> {
        Ok(Pings {
            flow: ctx.flow,
            next: ctx.spec.start,
            stop: ctx.spec.stop,
            // One request per nanosecond is the most that time can tell apart.
            interval: self.interval.max(Span::from_ns(1)),
            packet_bytes: self.packet_bytes,
            requests: Vec::new(),
        })
    }
    fn declare(tables: &mut Tables) {
        tables.of::<PingRows>();
    }
}

/// Both ends of a flow.
pub(crate) struct Pings {
    flow: FlowId,
    next: Time,
    stop: Time,
    interval: Span,
    packet_bytes: u16,
    /// By request: when sent, and the round trip once the reply is there.
    requests: Vec<(Time, Option<Span>)>,
}

impl Ends for Pings {
    fn deadline(&self) -> Time {
        if self.next < self.stop { self.next } else { Time::NEVER }
    }
    fn on_deadline(&mut self, now: Time, out: &mut Outputs) {
        let mut packet = Packet::new(self.flow, PacketKind::EchoRequest, 0);
        packet.size = self.packet_bytes;
        packet.len = payload(self.packet_bytes);
        packet.seq = Seq32::from_offset(self.requests.len() as u64);
        out.packets.push(packet);
        self.requests.push((now, None));
        self.next += self.interval;
    }
    fn on_packet(&mut self, now: Time, packet: &Packet, out: &mut Outputs) {
        if packet.is_reverse() {
            let number = packet.seq.to_offset(self.requests.len() as u64);
            if let Some((sent, rtt)) = self.requests.get_mut(index(number)) {
                *rtt = Some(now.since(*sent));
            }
        } else {
            let mut reply = *packet;
            reply.kind = PacketKind::EchoReply;
            reply.set_reverse();
            out.packets.push(reply);
        }
    }
    fn counters(&self) -> Counters {
        Counters {
            sent: self.requests.len() as u64,
            received: self.requests.iter().filter(|(_, rtt)| rtt.is_some()).count() as u64,
            ..Counters::default()
        }
    }
    fn report(&self, period: &Period, report: &mut Report) {
        let rtts = || self.requests.iter().filter_map(|(sent, rtt)| rtt.map(|rtt| (*sent, millis(rtt))));
        let warm = rtts().filter(|(sent, _)| *sent >= period.warm_at);
        let (n, sum) = warm.fold((0.0, 0.0), |(n, sum), (_, r)| (n + 1.0, sum + r));
        report.row.rtt_mean_ms = ratio(sum, n);
        report.row.rtt_min_ms = rtts().map(|(_, r)| r).fold(f64::NAN, f64::min);
        report.row.rtt_max_ms = rtts().map(|(_, r)| r).fold(f64::NAN, f64::max);
        let rows = report.tables.of::<PingRows>();
        for (number, (sent, rtt)) in (0..).zip(&self.requests) {
            let rtt_ms = rtt.map_or(f64::NAN, millis);
            rows.push(PingRow { flow: period.flow.0, number, sent_s: sent.as_secs_f64(), rtt_ms });
        }
    }
}
