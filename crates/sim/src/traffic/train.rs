//! Train: numbered UDP datagrams in trains, with the times at which each is sent and received.
//!
//! Source: none; it is a measuring tool for dispersion, order and loss.
//!
//! Siblings: `buffer_probe` sends the same trains and estimates a buffer from them. `cbr` is even
//! and records no single datagram.
//!
//! Valid: measurements of short bursts. The load is the user's: a train leaves at its own rate,
//! whatever the network carries.
//!
//! Deviations: none known.

use airtcp_core::buffer_probe::Schedule;
use airtcp_core::convert::index;
use airtcp_core::packet::{FlowId, Kind as PacketKind, Packet};
use airtcp_core::table;
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{Seq32, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Context, Counters, Ends, Faults, Kind, Period, Report, Tables, payload};
use crate::error::BuildError;

/// Numbered UDP datagrams in trains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Train {
    /// Datagrams in a train.
    #[schemars(range(min = 1))]
    pub count: u32,
    /// Time between the datagrams of a train. "0s": back to back.
    #[serde(default)]
    pub gap: Span,
    /// Size of a datagram, IP and UDP headers (28 bytes) included.
    #[serde(default = "super::datagram_bytes")]
    #[schemars(range(min = 29))]
    pub packet_bytes: u16,
    /// Time from the start of a train to the start of the next. Default: one train.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
}

table! {
    /// One row per datagram of a `train`, `call` or `buffer_probe`.
    pub(crate) DatagramRows of DatagramRow as "datagrams" {
        flow: U32(u32) = "index of the flow",
        train: U32(u32) = "number of the train, from 0",
        number: U32(u32) = "number of the datagram within its train, from 0",
        sent_s: F64(f64) = "s, sent",
        received_s: F64(f64) = "s, received, NaN: not received",
    }
}

/// Datagrams of trains `every` apart within a span.
pub(super) fn datagrams_within(span: Span, count: u32, gap: Span, every: Option<Span>) -> u64 {
    let trains = every.map_or(1, |every| span.as_ns().div_ceil(every.as_ns().max(1)).max(1));
    let of_each = if gap.is_zero() { u64::MAX } else { (span.as_ns() / gap.as_ns()).saturating_add(1) };
    trains.saturating_mul(of_each.min(u64::from(count)))
}

/// A fault unless a train of `count` datagrams, `gap` apart, fits between the starts of two.
pub(super) fn check_distance(faults: &mut Faults, count: u32, gap: Span, every: Span) {
    let length = gap.saturating_mul(u64::from(count).saturating_sub(1));
    let message = format!("must be longer than 0s and no shorter than a train ({length})");
    faults.require(!every.is_zero() && every >= length, "every", message);
}

impl Kind for Train {
    type Ends = Trains;
    const REMEMBERS_PACKETS: bool = true;

    fn check(&self, faults: &mut Faults) {
        if let Some(every) = self.every {
            check_distance(faults, self.count, self.gap, every);
        }
    }
    fn packet_bytes(&self) -> u16 {
        self.packet_bytes
    }
    fn packets_within(&self, span: Span) -> u64 {
        datagrams_within(span, self.count, self.gap, self.every)
    }
    fn build(&self, ctx: &Context) -> Result<Trains, BuildError> {
        let every = self.every.unwrap_or(Span::MAX);
        let schedule = Schedule::new(ctx.spec.start, ctx.spec.stop, self.count, self.gap, every, u32::MAX);
        Ok(Trains::new(ctx.flow, schedule, self.packet_bytes))
    }
    fn declare(tables: &mut Tables) {
        tables.of::<DatagramRows>();
    }
}

/// Both ends of a flow.
pub(crate) struct Trains {
    flow: FlowId,
    schedule: Schedule,
    packet_bytes: u16,
    /// By datagram: when sent, when received.
    pub(super) datagrams: Vec<(Time, Option<Time>)>,
}

impl Trains {
    pub(super) fn new(flow: FlowId, schedule: Schedule, packet_bytes: u16) -> Trains {
        Trains { flow, schedule, packet_bytes, datagrams: Vec::new() }
    }
}

impl Ends for Trains {
    fn deadline(&self) -> Time {
        self.schedule.deadline()
    }
    fn on_deadline(&mut self, now: Time, out: &mut Outputs) {
        for _ in 0..self.schedule.on_deadline(now) {
            let mut packet = Packet::new(self.flow, PacketKind::Udp, 0);
            packet.size = self.packet_bytes;
            packet.len = payload(self.packet_bytes);
            packet.seq = Seq32::from_offset(self.datagrams.len() as u64);
            out.packets.push(packet);
            self.datagrams.push((now, None));
        }
    }
    fn on_packet(&mut self, now: Time, packet: &Packet, _: &mut Outputs) {
        let number = packet.seq.to_offset(self.datagrams.len() as u64);
        if let Some((_, received)) = self.datagrams.get_mut(index(number)) {
            *received = Some(now);
        }
    }
    fn counters(&self) -> Counters {
        Counters {
            sent: self.datagrams.len() as u64,
            received: self.datagrams.iter().filter(|(_, at)| at.is_some()).count() as u64,
            ..Counters::default()
        }
    }
    fn report(&self, period: &Period, report: &mut Report) {
        let rows = report.tables.of::<DatagramRows>();
        for (number, (sent, received)) in (0u32..).zip(&self.datagrams) {
            rows.push(DatagramRow {
                flow: period.flow.0,
                train: number / self.schedule.count(),
                number: number % self.schedule.count(),
                sent_s: sent.as_secs_f64(),
                received_s: received.map_or(f64::NAN, Time::as_secs_f64),
            });
        }
    }
}
