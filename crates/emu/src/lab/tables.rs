//! Results of a laboratory: the tables of a run as far as real stacks can be asked, and the frames
//! of radios.

use std::borrow::Cow;
use std::collections::BTreeMap;

use airtcp_core::convert::count;
use airtcp_core::table;
use airtcp_core::table::Table;
use airtcp_core::units::{Span, Time};
use airtcp_hwsim::HwsimMac;
use serde_json::{Value, json};

use super::run::ASSOCIATION_TIME;
use super::scenario::{Flow, FlowKind, LabScenario};
use super::script::end_file;
use super::traffic::{Datagram, Observations, Sample};
use crate::common::radio_table::{RadioTable, figure, real};
use crate::uml::guest_time::{BOOT, GuestTime};
use crate::uml::shared_folder::SharedFolder;

table! {
    /// One row per flow.
    pub(crate) FlowRows of FlowRow as "flows" {
        flow: U32(u32) = "index of the flow",
        name: Str(Cow<'static, str>) = "name of the flow",
        group: Str(Cow<'static, str>) = "entry of the scenario it came from",
        kind: Str(Cow<'static, str>) = "kind of traffic",
        cc: Str(Cow<'static, str>) = "congestion control, empty unless TCP",
        start_s: F64(f64) = "s, when it begins",
        goodput_bps: F64(f64) = "bit/s, payload acknowledged since warmup (TCP)",
        delivered_bps: F64(f64) = "bit/s, payload that the receiving program has read since warmup (TCP)",
        segments_sent: U64(u64) = "segments with and without payload since warmup (TCP), or datagrams",
        segments_retransmitted: U64(u64) = "segments retransmitted since warmup",
        cwnd_mean_segments: F64(f64) = "segments, mean of the samples since warmup",
        rtt_mean_ms: F64(f64) = "ms, mean of the round trips since warmup (ping)",
        rtt_min_ms: F64(f64) = "ms, least",
        rtt_max_ms: F64(f64) = "ms, greatest of them (ping)",
        srtt_mean_ms: F64(f64) = "ms, mean over time of the smoothed round-trip time since warmup (TCP)",
        srtt_max_ms: F64(f64) = "ms, greatest of the same samples (TCP)",
        received: U64(u64) = "datagrams or replies that came, of those sent since warmup",
        delay_mean_ms: F64(f64) = "ms, mean one-way delay of the datagrams since warmup (cbr)",
    }
}

table! {
    /// TCP senders over time, every `record.interval`.
    pub(crate) SeriesRows of SeriesRow as "flow_series" {
        time_s: F64(f64) = "s since the start of the run",
        flow: U32(u32) = "index of the flow",
        cwnd_segments: U32(u32) = "segments, congestion window",
        srtt_ms: F64(f64) = "ms, smoothed round-trip time",
        bytes_acked: U64(u64) = "bytes of payload acknowledged since the start of the flow",
        segments_retransmitted: U64(u64) = "segments retransmitted since the start of the flow",
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

/// The longest file of a flow's end.
const MOST_BYTES: u64 = 256 << 20;

/// Observations of each end of each flow.
///
/// # Errors
/// A guest has written more than its programs would.
pub(crate) fn observations(work: &SharedFolder, scenario: &LabScenario) -> Result<Vec<[Observations; 2]>, String> {
    let read = |number, end| {
        let bytes = work.bytes(&end_file(number, end), MOST_BYTES)?;
        Ok::<Observations, String>(serde_json::from_slice(&bytes).unwrap_or_default())
    };
    (0..scenario.flows.len()).map(|number| Ok([read(number, "sent")?, read(number, "came")?])).collect()
}

/// The flows of which nothing was written, by name.
pub(crate) fn flows_without_data<'a>(scenario: &'a LabScenario, observations: &[[Observations; 2]]) -> Vec<&'a str> {
    let is_silent = |(flow, [sent, _]): (&'a Flow, &[Observations; 2])| {
        (sent.samples.is_empty() && sent.datagrams.is_empty()).then_some(flow.name.as_str())
    };
    scenario.flows.iter().zip(observations).filter_map(is_silent).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u64), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { f64::NAN } else { sum / real(n) }
}

fn greatest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NAN, f64::max)
}

/// A time of a guest as one of the run, s.
fn run_s(guest: GuestTime) -> f64 {
    real(guest.as_ns()) * 1e-9 - (BOOT + ASSOCIATION_TIME).as_secs_f64()
}

fn flow_row(scenario: &LabScenario, number: usize, [sent, came]: &[Observations; 2]) -> FlowRow {
    let flow = &scenario.flows[number];
    let warm = scenario.warmup.as_secs_f64().max(flow.start.since(Time::ZERO).as_secs_f64());
    let since = |at: GuestTime| run_s(at) > warm - 1e-6;
    let mut row = FlowRow {
        flow: count(number),
        name: flow.name.clone().into(),
        group: flow.group.clone().into(),
        kind: flow.kind.name().into(),
        cc: String::new().into(),
        start_s: flow.start.as_secs_f64(),
        goodput_bps: f64::NAN,
        delivered_bps: f64::NAN,
        segments_sent: 0,
        segments_retransmitted: 0,
        cwnd_mean_segments: f64::NAN,
        rtt_mean_ms: f64::NAN,
        rtt_min_ms: f64::NAN,
        rtt_max_ms: f64::NAN,
        srtt_mean_ms: f64::NAN,
        srtt_max_ms: f64::NAN,
        received: 0,
        delay_mean_ms: f64::NAN,
    };
    let rate = |first: (GuestTime, u64), last: (GuestTime, u64)| {
        real(last.1.saturating_sub(first.1)) * 8e9 / real(last.0.since(first.0).as_ns())
    };
    match &flow.kind {
        FlowKind::Tcp { cc } => {
            row.cc = cc.clone().into();
            let samples: Vec<&Sample> = sent.samples.iter().filter(|s| since(s.at)).collect();
            if let [first, .., last] = samples[..] {
                row.goodput_bps = rate((first.at, first.bytes_acked), (last.at, last.bytes_acked));
                row.segments_sent = u64::from(last.segments.wrapping_sub(first.segments));
                row.segments_retransmitted = u64::from(last.retransmitted.wrapping_sub(first.retransmitted));
                row.rtt_min_ms = f64::from(last.min_rtt_us) * 1e-3;
            }
            let smoothed = || samples.iter().map(|s| f64::from(s.srtt_us) * 1e-3);
            (row.srtt_mean_ms, row.srtt_max_ms) = (mean(smoothed()), greatest(smoothed()));
            row.cwnd_mean_segments = mean(samples.iter().map(|s| f64::from(s.cwnd)));
            let came: Vec<(GuestTime, u64)> = came.came.iter().copied().filter(|(at, _)| since(*at)).collect();
            if let [first, .., last] = came[..] {
                row.delivered_bps = rate(first, last);
            }
        }
        FlowKind::Ping { .. } => {
            let all: Vec<&Datagram> = sent.datagrams.iter().filter(|d| since(d.sent)).collect();
            let rtts = || all.iter().filter_map(|d| Some(real(d.came?.since(d.sent).as_ns()) * 1e-6));
            row.segments_sent = u64::from(count(all.len()));
            row.received = u64::from(count(rtts().count()));
            (row.rtt_mean_ms, row.rtt_max_ms) = (mean(rtts()), greatest(rtts()));
            row.rtt_min_ms = rtts().fold(f64::NAN, f64::min);
        }
        FlowKind::Cbr { .. } => {
            row.segments_sent = u64::from(count(sent.datagrams.iter().filter(|d| since(d.sent)).count()));
            let all: Vec<&Datagram> = came.datagrams.iter().filter(|d| since(d.sent)).collect();
            row.received = u64::from(count(all.len()));
            row.delay_mean_ms = mean(all.iter().filter_map(|d| Some(real(d.came?.since(d.sent).as_ns()) * 1e-6)));
        }
    }
    row
}

/// The tables, and the figures at a glance.
pub(crate) fn tables(
    scenario: &LabScenario,
    observations: &[[Observations; 2]],
    mac: &HwsimMac,
) -> (Vec<Table>, Value) {
    let (mut flows, mut series, mut pings) = (FlowRows::default(), SeriesRows::default(), PingRows::default());
    let mut groups: BTreeMap<&str, Vec<(usize, FlowRow)>> = BTreeMap::new();
    for (number, both) in observations.iter().enumerate() {
        let flow = &scenario.flows[number];
        groups.entry(&flow.group).or_default().push((number, flow_row(scenario, number, both)));
        flows.push(flow_row(scenario, number, both));
        for sample in &both[0].samples {
            series.push(SeriesRow {
                time_s: run_s(sample.at),
                flow: count(number),
                cwnd_segments: sample.cwnd,
                srtt_ms: f64::from(sample.srtt_us) * 1e-3,
                bytes_acked: sample.bytes_acked,
                segments_retransmitted: u64::from(sample.retransmitted),
            });
        }
        if matches!(flow.kind, FlowKind::Ping { .. }) {
            for datagram in &both[0].datagrams {
                pings.push(PingRow {
                    flow: count(number),
                    number: u32::try_from(datagram.number).unwrap_or(u32::MAX),
                    sent_s: run_s(datagram.sent),
                    rtt_ms: datagram.came.map_or(f64::NAN, |came| real(came.since(datagram.sent).as_ns()) * 1e-6),
                });
            }
        }
    }
    let names: Vec<&str> = scenario.radios.iter().map(|radio| radio.name.as_str()).collect();
    let radios = RadioTable::of(mac, &names, scenario.duration + ASSOCIATION_TIME);
    let groups: Vec<Value> = groups.into_iter().map(|(name, rows)| group(scenario, name, &rows)).collect();
    let summary = json!({
        "seed": scenario.seed,
        "end_s": scenario.duration.as_secs_f64(),
        "warmup_s": scenario.warmup.as_secs_f64(),
        "groups": groups,
        "links": [],
        "air": [],
        "radios": radios.summary(),
    });
    let all = vec![flows.into_table(), series.into_table(), pings.into_table(), radios.table()];
    (all.into_iter().filter(|table| !table.is_empty()).collect(), summary)
}

fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| value.is_finite()).fold(f64::NAN, |sum, value| if sum.is_nan() { value } else { sum + value })
}

fn group(scenario: &LabScenario, name: &str, rows: &[(usize, FlowRow)]) -> Value {
    let all = |of: fn(&FlowRow) -> f64| rows.iter().map(move |(_, row)| of(row));
    let known = |of: fn(&FlowRow) -> f64| mean(all(of).filter(|value| value.is_finite()));
    let goodputs: Vec<f64> = all(|row| row.goodput_bps).filter(|value| value.is_finite()).collect();
    let squares: f64 = goodputs.iter().map(|value| value * value).sum();
    let total: f64 = goodputs.iter().sum();
    let jain = total * total / (squares * real(u64::from(count(goodputs.len()))));
    let segments: u64 = rows.iter().map(|(_, row)| row.segments_sent).sum();
    let again: u64 = rows.iter().map(|(_, row)| row.segments_retransmitted).sum();
    let flows = rows.iter().map(|(number, row)| {
        json!({
            "name": scenario.flows[*number].name,
            "goodput_bps": figure(row.goodput_bps),
            "delivered_bps": figure(row.delivered_bps),
            "segments_sent": row.segments_sent,
            "segments_retransmitted": row.segments_retransmitted,
            "cwnd_mean_segments": figure(row.cwnd_mean_segments),
            "rtt_mean_ms": figure(row.rtt_mean_ms),
            "rtt_min_ms": figure(row.rtt_min_ms),
            "rtt_max_ms": figure(row.rtt_max_ms),
            "srtt_mean_ms": figure(row.srtt_mean_ms),
            "srtt_max_ms": figure(row.srtt_max_ms),
            "received": row.received,
            "delay_mean_ms": figure(row.delay_mean_ms),
        })
    });
    let flows: Vec<Value> = flows.collect();
    let first = rows.first().map(|(_, row)| (row.kind.clone(), row.cc.clone())).unwrap_or_default();
    json!({
        "group": name,
        "kind": first.0,
        "cc": first.1,
        "flow_count": rows.len(),
        "goodput_bps": figure(sum(all(|row| row.goodput_bps))),
        "delivered_bps": figure(sum(all(|row| row.delivered_bps))),
        "jain": figure(jain),
        "segments_sent": segments,
        "segments_retransmitted": again,
        "retransmission_ratio": figure(real(again) / real(segments)),
        "cwnd_mean_segments": figure(known(|row| row.cwnd_mean_segments)),
        "rtt_mean_ms": figure(known(|row| row.rtt_mean_ms)),
        "srtt_mean_ms": figure(known(|row| row.srtt_mean_ms)),
        "received": rows.iter().map(|(_, row)| row.received).sum::<u64>(),
        "delay_mean_ms": figure(known(|row| row.delay_mean_ms)),
        "flows": flows,
    })
}

/// How long a run goes on after its end, so that its programs write down what they saw.
pub(crate) const WRITING_TIME: Span = Span::from_ms(1200);
