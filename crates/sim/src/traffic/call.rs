//! Call: video frames as UDP datagrams in one direction, at a fixed rate or at one that adapts. A
//! call both ways is two such flows.
//!
//! Source: NADA (RFC 8698) adapts the rate; its parameters and bounds are those of the RFC. The
//! grade is the rating R of the E-model (ITU-T G.107), for the best fixed playout delay: packets
//! that come later count as missing.
//!
//! Siblings: `train` sends at a fixed rate whatever happens and gives no grade. `stream` is a film
//! over TCP.
//!
//! Valid: interactive video between two parties. Frames are of equal size, so a film's scenes are
//! not.
//!
//! Deviations: The encoder reaches a new rate with the next frame. Packets of a frame leave back to
//! back, as without a pacer. Nothing is sent again and nothing is corrected. The grade rates speech
//! with the delay and the loss of these packets, without the time of devices.

use std::collections::VecDeque;

use airtcp_core::convert::{count16, index};
use airtcp_core::e_model::rating;
use airtcp_core::nada::{FEEDBACK_EVERY, REPORT_BYTES, Receiver, Report as NadaReport, Sender};
use airtcp_core::packet::{FlowId, Kind as PacketKind, Packet};
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{DataRate, Seq32, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::train::{DatagramRow, DatagramRows};
use super::{Context, Counters, Ends, Faults, Figure, Kind, Period, Report, Tables, payload};
use crate::books::record::{millis, ratio};
use crate::error::BuildError;

/// Frames of video, at a fixed rate or at one that adapts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Call {
    /// The rate adapts to the path by NADA. Off: it is `rate_max` throughout.
    pub adaptive: bool,
    /// Lowest rate, at which an adaptive call begins. It counts packets at the IP layer.
    pub rate_min: DataRate,
    /// Highest rate.
    pub rate_max: DataRate,
    /// Frames per second, 1 to 240.
    #[schemars(range(min = 1, max = 240))]
    pub frames_per_s: u32,
    /// Largest packet, IP and UDP headers (28 bytes) included.
    #[schemars(range(min = 100))]
    pub packet_bytes: u16,
}

impl Default for Call {
    fn default() -> Call {
        Call {
            adaptive: true,
            rate_min: DataRate::from_bps(150_000),
            rate_max: DataRate::from_bps(1_500_000),
            frames_per_s: 30,
            packet_bytes: 1200,
        }
    }
}

const P50: &str = "call_delay_p50_ms";
const P95: &str = "call_delay_p95_ms";
const P99: &str = "call_delay_p99_ms";
const LOST: &str = "call_loss_ratio";
const RATE: &str = "call_rate_bps";
const GRADE: &str = "call_grade";

impl Kind for Call {
    type Ends = Calling;
    const IS_ANSWERED: bool = true;
    const REMEMBERS_PACKETS: bool = true;
    const FIGURES: &'static [Figure] = &[
        Figure { name: P50, unit_and_meaning: "ms, median of the one-way delays of packets (call)" },
        Figure { name: P95, unit_and_meaning: "ms, 95th percentile of the one-way delays (call)" },
        Figure { name: P99, unit_and_meaning: "ms, 99th percentile of the one-way delays (call)" },
        Figure { name: LOST, unit_and_meaning: "part of the packets that never arrived (call)" },
        Figure { name: RATE, unit_and_meaning: "bit/s, mean rate of packets sent, IP layer (call)" },
        Figure {
            name: GRADE,
            unit_and_meaning: "rating R of the E-model (ITU-T G.107), 0 to 93.2, at the best fixed playout delay (call)",
        },
    ];

    fn by_default() -> Option<Call> {
        Some(Call::default())
    }
    fn check(&self, faults: &mut Faults) {
        let least = self.rate_min.as_bps();
        faults.require(least > 0, "rate_min", "must be above 0bit/s");
        let message = format!("must be at least `rate_min` ({})", self.rate_min);
        faults.require(self.rate_max.as_bps() >= least, "rate_max", message);
        let most = u64::from(self.frames_per_s) * u64::from(u16::MAX) * 8;
        let message = format!("must be at most 65535 bytes a frame, {}", DataRate::from_bps(most));
        faults.require(self.rate_max.as_bps() <= most, "rate_max", message);
        faults.require((1..=240).contains(&self.frames_per_s), "frames_per_s", "must be 1 to 240");
        faults.require(self.packet_bytes >= 100, "packet_bytes", "must be at least 100");
    }
    fn packet_bytes(&self) -> u16 {
        self.packet_bytes
    }
    fn packets_within(&self, span: Span) -> u64 {
        let frames = span.as_ns().div_ceil(self.interval().as_ns());
        frames.saturating_mul(self.frame_bytes(self.rate_max.as_bps()).div_ceil(u64::from(self.packet_bytes)))
    }
    fn build(&self, ctx: &Context) -> Result<Calling, BuildError> {
        Ok(Calling {
            flow: ctx.flow,
            config: self.clone(),
            next: ctx.spec.start,
            stop: ctx.spec.stop,
            frames: 0,
            sender: self.adaptive.then(|| Sender::new(self.rate_min, self.rate_max)),
            datagrams: Vec::new(),
            receiver: Receiver::default(),
            report_at: Time::NEVER,
            reports: VecDeque::new(),
            reported: 0,
        })
    }
    fn declare(tables: &mut Tables) {
        tables.of::<DatagramRows>();
    }
}

impl Call {
    fn interval(&self) -> Span {
        Span::from_ns(1_000_000_000 / u64::from(self.frames_per_s.max(1)))
    }
    /// Bytes of a frame with all its headers.
    fn frame_bytes(&self, bps: u64) -> u64 {
        (bps / 8 / u64::from(self.frames_per_s.max(1))).max(64)
    }
}

/// A datagram of the call.
struct Sent {
    frame: u32,
    number: u32,
    bytes: u16,
    at: Time,
    received: Option<Time>,
}

/// A report on its way back, and when its newest packet was sent and received: what the sender
/// takes the round trip from.
struct QueueNotice {
    report: NadaReport,
    newest_sent: Time,
    newest_received: Time,
    at: Time,
}

/// Reports on their way; older ones are lost.
const KEPT: usize = 64;

/// Both ends of a flow.
pub(crate) struct Calling {
    flow: FlowId,
    config: Call,
    next: Time,
    stop: Time,
    frames: u32,
    /// `None`: the rate is fixed.
    sender: Option<Sender>,
    datagrams: Vec<Sent>,
    receiver: Receiver,
    report_at: Time,
    /// The last of them is number `reported - 1`.
    reports: VecDeque<QueueNotice>,
    reported: u64,
}

impl Calling {
    fn bps(&self) -> u64 {
        self.sender
            .as_ref()
            .map_or(self.config.rate_max.as_bps(), |sender| airtcp_core::convert::floor64(sender.rate_bps()))
    }
}

impl Ends for Calling {
    fn deadline(&self) -> Time {
        if self.next < self.stop { self.next } else { Time::NEVER }
    }
    fn on_deadline(&mut self, now: Time, out: &mut Outputs) {
        let bytes = self.config.frame_bytes(self.bps());
        let packets = bytes.div_ceil(u64::from(self.config.packet_bytes));
        for number in 0..packets {
            // Packets of a frame are of one size, but for a byte.
            let size = count16(index(bytes * (number + 1) / packets - bytes * number / packets));
            let mut packet = Packet::new(self.flow, PacketKind::Udp, 0);
            packet.size = size;
            packet.len = payload(size);
            packet.seq = Seq32::from_offset(self.datagrams.len() as u64);
            out.packets.push(packet);
            let number = airtcp_core::convert::saturate32(number);
            self.datagrams.push(Sent { frame: self.frames, number, bytes: size, at: now, received: None });
        }
        self.frames += 1;
        self.next += self.config.interval();
    }
    fn destination_deadline(&self) -> Time {
        self.report_at
    }
    fn on_destination_deadline(&mut self, now: Time, out: &mut Outputs) {
        let newest = self.datagrams.iter().rev().find_map(|sent| Some((sent.at, sent.received?)));
        let (Some(report), Some((newest_sent, newest_received))) = (self.receiver.report(now), newest) else {
            // The next packet starts the reports again.
            self.report_at = Time::NEVER;
            return;
        };
        let mut packet = Packet::new(self.flow, PacketKind::Udp, 0);
        packet.size = REPORT_BYTES;
        packet.len = payload(REPORT_BYTES);
        packet.seq = Seq32::from_offset(self.reported);
        packet.set_reverse();
        out.packets.push(packet);
        self.reports.push_back(QueueNotice { report, newest_sent, newest_received, at: now });
        self.reported += 1;
        if self.reports.len() > KEPT {
            self.reports.pop_front();
        }
        self.report_at = now + FEEDBACK_EVERY;
    }
    fn on_packet(&mut self, now: Time, packet: &Packet, _: &mut Outputs) {
        if packet.is_reverse() {
            let number = packet.seq.to_offset(self.reported);
            let first = self.reported - self.reports.len() as u64;
            let told = number.checked_sub(first).and_then(|at| self.reports.get(index(at)));
            if let (Some(sender), Some(told)) = (&mut self.sender, told) {
                let held = told.at.since(told.newest_received);
                sender.on_report(now, &told.report, now.since(told.newest_sent).saturating_sub(held));
            }
            return;
        }
        let number = packet.seq.to_offset(self.datagrams.len() as u64);
        let Some(sent) = self.datagrams.get_mut(index(number)) else { return };
        sent.received = Some(now);
        if self.sender.is_some() {
            self.receiver.on_packet(now, number, u64::from(packet.size), now.since(sent.at));
            if self.report_at.is_never() {
                self.report_at = now + FEEDBACK_EVERY;
            }
        }
    }
    fn counters(&self) -> Counters {
        Counters {
            sent: self.datagrams.len() as u64,
            received: self.datagrams.iter().filter(|sent| sent.received.is_some()).count() as u64,
            ..Counters::default()
        }
    }
    fn report(&self, period: &Period, report: &mut Report) {
        let rows = report.tables.of::<DatagramRows>();
        for sent in &self.datagrams {
            rows.push(DatagramRow {
                flow: period.flow.0,
                train: sent.frame,
                number: sent.number,
                sent_s: sent.at.as_secs_f64(),
                received_s: sent.received.map_or(f64::NAN, Time::as_secs_f64),
            });
        }
        let counted: Vec<&Sent> = self.datagrams.iter().filter(|sent| sent.at >= period.warm_at).collect();
        let bytes: u64 = counted.iter().map(|sent| u64::from(sent.bytes)).sum();
        let until = self.stop.min(period.now);
        let began = counted.first().map_or(until, |sent| sent.at);
        // The fate of datagrams after the last one that has arrived is not known: they do not count
        // as lost.
        let settled = counted.iter().rposition(|sent| sent.received.is_some()).map_or(0, |last| last + 1);
        let mut delays: Vec<f64> =
            counted.iter().filter_map(|sent| Some(millis(sent.received?.since(sent.at)))).collect();
        delays.sort_by(f64::total_cmp);
        let lost = ratio((settled - delays.len().min(settled)) as f64, settled as f64);
        report.figures.extend([
            (P50, percentile(&delays, 0.50)),
            (P95, percentile(&delays, 0.95)),
            (P99, percentile(&delays, 0.99)),
            (LOST, lost),
            (RATE, ratio(8.0 * bytes as f64, until.since(began).as_secs_f64())),
            (GRADE, grade(&delays, settled)),
        ]);
    }
}

/// Percentile of sorted values, between neighbours in a straight line; NaN of none.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part * last as f64;
    let below = index(airtcp_core::convert::floor64(place));
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The rating at the best fixed playout delay, of `all` packets among which those of `delays`,
/// sorted, arrived.
fn grade(delays: &[f64], all: usize) -> f64 {
    // Waiting for one packet more costs delay and saves its loss.
    let at = |i: usize| rating(delays[i], 1.0 - (i + 1) as f64 / all as f64);
    (0..delays.len().min(all)).map(at).fold(if all == 0 { f64::NAN } else { 0.0 }, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_neighbours() {
        assert!(percentile(&[], 0.5).is_nan());
        assert_eq!(percentile(&[3.0], 0.95), 3.0);
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 0.5), 2.0);
        assert_eq!(percentile(&[0.0, 10.0], 0.95), 9.5);
    }

    #[test]
    fn a_late_packet_is_given_up_if_waiting_costs_more() {
        let mut delays = vec![20.0; 99];
        delays.push(2000.0);
        assert!((grade(&delays, 100) - rating(20.0, 0.01)).abs() < 1e-12);
        // Half of the packets late: waiting for them is better than to lose them.
        let mut delays = vec![20.0; 50];
        delays.extend([150.0; 50]);
        assert!((grade(&delays, 100) - rating(150.0, 0.0)).abs() < 1e-12);
        assert!(grade(&[], 0).is_nan());
        assert_eq!(grade(&[], 10), 0.0);
    }
}
