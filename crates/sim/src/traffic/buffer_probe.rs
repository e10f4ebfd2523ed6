//! Buffer probe: trains of datagrams, faster than the air carries them. Their losses tell the size
//! of the access point's buffer.
//!
//! Source: Ando, Murase and Oguchi, DICOMO 2010, as the study `tcp-av-handover` describes it in
//! section 2.3.
//!
//! Siblings: `train` sends the same datagrams without an estimate.
//!
//! Valid: a wire that is faster than the air, and a queue that drops only what does not fit.
//! docs/probe.md lists the errors.
//!
//! Deviations: besides the published estimate there is one that corrects for datagrams that leave
//! while the buffer fills.

use airtcp_core::buffer_probe::{EstimatorConfig, RunLog, Schedule, estimate};
use airtcp_core::packet::Packet;
use airtcp_core::table;
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::train::{Trains, check_distance};
use super::{Context, Counters, Ends, Faults, Figure, Kind, Period, Report, Tables, datagram_bytes};
use crate::books::record::ratio;
use crate::error::BuildError;

/// Numbered UDP datagrams in trains faster than the air carries them: how many fit into the access
/// point's buffer.
///
/// The procedure and its errors: docs/probe.md.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferProbe {
    /// Datagrams in a train. It must be well above the buffer, and above the raw estimate.
    #[schemars(range(min = 2))]
    pub count: u32,
    /// Time between the datagrams of a train: shorter than the air needs for one, and no shorter
    /// than the wire needs. Default: 96 Mbit/s, just below Fast Ethernet.
    pub gap: Span,
    /// Size of a datagram, IP and UDP headers (28 bytes) included.
    #[schemars(range(min = 29))]
    pub packet_bytes: u16,
    /// Trains.
    #[schemars(range(min = 1))]
    pub runs: u32,
    /// Time from the start of a train to the start of the next. It must be long enough for the
    /// buffer to drain.
    pub every: Span,
    /// Parameters of the estimate from the receiver's log.
    pub estimator: EstimatorConfig,
}

impl Default for BufferProbe {
    fn default() -> Self {
        BufferProbe {
            count: 1000,
            gap: Span::from_us(125),
            packet_bytes: datagram_bytes(),
            runs: 10,
            every: Span::from_secs(2),
            estimator: EstimatorConfig::default(),
        }
    }
}

table! {
    /// One row per train of a `buffer_probe` whose time is over (the next has begun, or could
    /// have): how many packets the buffer takes ([probe](probe.md)).
    pub(crate) ProbeRows of ProbeRow as "probes" {
        flow: U32(u32) = "index of the flow",
        run: U32(u32) = "number of the train, from 0",
        sent: U32(u32) = "datagrams sent",
        received: U32(u32) = "datagrams received",
        onset: F64(f64) = "number of the first datagram that found no room, from 0, NaN: none; single ones before it may be lost on the air",
        estimate_packets: F64(f64) = "packets, raw estimate: number of datagrams before the first missing one, NaN: none is missing",
        corrected_packets: F64(f64) = "packets that the buffer holds, corrected estimate from the log, NaN: no overflow",
        drained: F64(f64) = "packets that had left the buffer at the onset, NaN: no overflow",
        at_least_packets: U32(u32) = "packets that the buffer holds at least: the only result without overflow",
        unexplained: U32(u32) = "datagrams whose fate the corrected estimate does not explain; without overflow the missing ones",
    }
}

const RAW: &str = "buffer_raw_packets";
const CORRECTED: &str = "buffer_corrected_packets";

impl Kind for BufferProbe {
    type Ends = Probing;
    const REMEMBERS_PACKETS: bool = true;
    const FIGURES: &'static [Figure] = &[
        Figure { name: RAW, unit_and_meaning: "packets, mean over the runs of the raw estimate (buffer_probe)" },
        Figure {
            name: CORRECTED,
            unit_and_meaning: "packets, mean over the runs of the corrected estimate, those without overflow left out (buffer_probe)",
        },
    ];

    fn check(&self, faults: &mut Faults) {
        check_distance(faults, self.count, self.gap, self.every);
        let estimator = &self.estimator;
        let message = "0s spreads the datagrams as the slowest line does: name its rate as estimator.line_rate";
        faults.require(!self.gap.is_zero() || estimator.line_rate.is_some(), "gap", message);
        let has_rate = estimator.line_rate.is_none_or(|rate| rate.as_bps() > 0);
        faults.require(has_rate, "estimator.line_rate", "must be above 0bit/s");
        faults.require(estimator.sustained_losses > 0, "estimator.sustained_losses", "must be at least 1");
        let message = format!("must be at least sustained_losses ({})", estimator.sustained_losses);
        let fits = estimator.sustained_within >= estimator.sustained_losses;
        faults.require(fits, "estimator.sustained_within", message);
    }
    fn packet_bytes(&self) -> u16 {
        self.packet_bytes
    }
    fn packets_within(&self, span: Span) -> u64 {
        let all = u64::from(self.count).saturating_mul(u64::from(self.runs));
        super::train::datagrams_within(span, self.count, self.gap, Some(self.every)).min(all)
    }
    fn build(&self, ctx: &Context) -> Result<Probing, BuildError> {
        let (start, stop) = (ctx.spec.start, ctx.spec.stop);
        let schedule = Schedule::new(start, stop, self.count, self.gap, self.every, self.runs);
        Ok(Probing { trains: Trains::new(ctx.flow, schedule, self.packet_bytes), config: self.clone() })
    }
    fn declare(tables: &mut Tables) {
        tables.of::<ProbeRows>();
    }
}

/// Both ends of a flow.
pub(crate) struct Probing {
    trains: Trains,
    config: BufferProbe,
}

impl Ends for Probing {
    fn deadline(&self) -> Time {
        self.trains.deadline()
    }
    fn on_deadline(&mut self, now: Time, out: &mut Outputs) {
        self.trains.on_deadline(now, out);
    }
    fn on_packet(&mut self, now: Time, packet: &Packet, out: &mut Outputs) {
        self.trains.on_packet(now, packet, out);
    }
    fn counters(&self) -> Counters {
        self.trains.counters()
    }
    /// Reports the trains whose time is over, up to the start of the next.
    fn report(&self, period: &Period, report: &mut Report) {
        self.trains.report(period, report);
        let trains = self.trains.datagrams.chunks_exact(self.config.count as usize);
        let over = trains.take_while(|train| train[0].0 + self.config.every <= period.now);
        let logs: Vec<RunLog> =
            over.map(|datagrams| RunLog { datagrams, packet_bytes: self.config.packet_bytes }).collect();
        let or_nan = |n: Option<u32>| n.map_or(f64::NAN, f64::from);
        let (mut raw, mut corrected) = (Mean::default(), Mean::default());
        let rows = report.tables.of::<ProbeRows>();
        for (run, e) in (0..).zip(estimate(&self.config.estimator, &logs)) {
            raw.add(e.first_gap);
            corrected.add(e.corrected);
            rows.push(ProbeRow {
                flow: period.flow.0,
                run,
                sent: e.sent,
                received: e.received,
                onset: or_nan(e.onset),
                estimate_packets: or_nan(e.first_gap),
                corrected_packets: or_nan(e.corrected),
                drained: or_nan(e.drained),
                at_least_packets: e.at_least,
                unexplained: e.unexplained,
            });
        }
        report.figures.extend([(RAW, raw.get()), (CORRECTED, corrected.get())]);
    }
}

/// Mean of the numbers that there are.
#[derive(Default)]
struct Mean {
    count: f64,
    sum: f64,
}

impl Mean {
    fn add(&mut self, value: Option<u32>) {
        if let Some(value) = value {
            (self.count, self.sum) = (self.count + 1.0, self.sum + f64::from(value));
        }
    }
    fn get(&self) -> f64 {
        ratio(self.sum, self.count)
    }
}
