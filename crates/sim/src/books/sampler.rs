//! Samples of flows, links, channels and hosts for the time series.

use airtcp_core::packet::FlowId;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::AirStats;
use airtcp_core::wifi::phy::Mode;

use super::Books;
use super::record::{AirSample, DaemonSample, FlowSample, LinkSample, Log, WalkerRow, ratio};
use super::totals::LinkTotals;
use crate::spec::{FlowSpec, LinkId, RunSpec, Traffic};

/// State of a cooperative daemon: terminals that send, connections by phase, and the least cap in
/// force.
pub(crate) type DaemonState = (u32, [u32; 3], Option<u32>);

/// State of a link of a WLAN: counters, SNR, and the mode that would carry most.
pub(crate) type AirState = (AirStats, f32, Mode);

/// Most rows for which a table makes room before the run: longer ones grow, as a run may be
/// stopped.
const MAX_ROOM: usize = 1 << 16;

pub(crate) struct Sampler {
    interval: Span,
    next: Time,
    flows: Vec<FlowId>,
    links: Vec<LinkId>,
    /// Counters of the links above at the last sample.
    last: Vec<LinkTotals>,
    /// Links of WLANs.
    air: Vec<LinkId>,
    last_air: Vec<AirStats>,
    daemons: Vec<FlowId>,
    last_at: Time,
    /// Samples so far.
    pub(crate) taken: u64,
}

impl Sampler {
    /// Time of the next sample.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    pub(crate) fn new(spec: &RunSpec) -> Sampler {
        let record = &spec.record;
        let tcp: Vec<FlowId> = (0..)
            .map(FlowId)
            .zip(&spec.flows)
            .filter(|(_, f)| matches!(f.traffic, Traffic::Tcp { .. }))
            .map(|(i, _)| i)
            .collect();
        let n = tcp.len().min(record.flow_series_max as usize);
        // Spread evenly over all.
        let flows: Vec<FlowId> = (0..n).map(|k| tcp[k * tcp.len() / n]).collect();
        let (sampled, air) = (record.link_series.clone(), record.air_series.clone());
        let is_daemon = |f: &FlowSpec| matches!(f.traffic, Traffic::Daemon(_));
        let daemons: Vec<FlowId> =
            (0..).map(FlowId).zip(&spec.flows).filter(|(_, f)| is_daemon(f)).map(|(i, _)| i).collect();
        let nothing =
            flows.is_empty() && sampled.is_empty() && air.is_empty() && daemons.is_empty() && spec.walks.is_empty();
        let idle = record.interval.is_zero() || nothing;
        Sampler {
            interval: record.interval,
            next: if idle { Time::NEVER } else { Time::ZERO + record.interval },
            last: vec![LinkTotals::default(); sampled.len()],
            flows,
            links: sampled,
            last_air: vec![AirStats::default(); air.len()],
            air,
            daemons,
            last_at: Time::ZERO,
            taken: 0,
        }
    }

    /// Samples only what a part of the world has, at the times of all.
    pub(crate) fn keep(&mut self, flow: impl Fn(FlowId) -> bool, link: impl Fn(LinkId) -> bool) {
        self.flows.retain(|&id| flow(id));
        self.links.retain(|&id| link(id));
        self.air.retain(|&id| link(id));
    }
}

impl Sampler {
    /// Makes room for the samples of a run, `walkers` hosts that walk included.
    pub(crate) fn reserve(&self, log: &mut Log, duration: Span, walkers: usize) {
        let samples = if self.next.is_never() { 0 } else { duration.as_ns() / self.interval.as_ns() };
        let rows =
            |series: usize| usize::try_from(samples).map_or(MAX_ROOM, |n| n.saturating_mul(series).min(MAX_ROOM));
        log.flow_series.reserve(rows(self.flows.len()));
        log.link_series.reserve(rows(self.links.len()));
        log.air_series.reserve(rows(self.air.len()));
        log.daemon_series.reserve(rows(self.daemons.len()));
        log.walkers.reserve(rows(walkers));
    }

    /// Links to be sampled.
    pub(crate) fn links(&self) -> &[LinkId] {
        &self.links
    }
}

impl Books {
    /// Samples flows. `sample`: `None` for one that is not TCP.
    pub(crate) fn sample_flows(&mut self, mut sample: impl FnMut(FlowId) -> Option<FlowSample>) {
        self.sampler.flows.iter().filter_map(|&flow| sample(flow)).for_each(|row| self.log.flow_series.push(row));
    }

    /// Samples links. `state`: counters now, and the probability with which the discipline drops or
    /// marks.
    pub(crate) fn sample_links(&mut self, now: Time, mut state: impl FnMut(LinkId) -> (LinkTotals, Option<f64>)) {
        let sampler = &mut self.sampler;
        let period_ns = now.since(sampler.last_at).as_ns() as f64;
        for (&link, last) in sampler.links.iter().zip(&mut sampler.last) {
            let (totals, drop_probability) = state(link);
            self.log.link_series.push(LinkSample {
                time_s: now.as_secs_f64(),
                link: link.0,
                queue_packets: totals.queue_packets,
                queue_bytes: totals.queue_bytes,
                arrived_packets: totals.arrived_packets - last.arrived_packets,
                dropped_packets: totals.dropped() - last.dropped(),
                marked_packets: totals.marked - last.marked,
                forwarded_packets: totals.forwarded_packets - last.forwarded_packets,
                utilisation: ratio((totals.busy_ns - last.busy_ns) as f64, period_ns),
                queue_mean_packets: ratio((totals.queue_packet_ns - last.queue_packet_ns) as f64, period_ns),
                drop_probability: drop_probability.unwrap_or(f64::NAN),
            });
            *last = totals;
        }
    }

    /// Samples links of WLANs. `state`: `None` for a wire.
    pub(crate) fn sample_air(&mut self, now: Time, mut state: impl FnMut(LinkId) -> Option<AirState>) {
        let sampler = &mut self.sampler;
        let period = now.since(sampler.last_at);
        for (&link, last) in sampler.air.iter().zip(&mut sampler.last_air) {
            let Some((stats, snr_db, best)) = state(link) else { continue };
            self.log.air_series.push(AirSample::new(now, link, (last, &stats), period, snr_db, best));
            *last = stats;
        }
    }

    /// Samples cooperative daemons. `state`: `None` for a flow that is none.
    pub(crate) fn sample_daemons(
        &mut self,
        now: Time,
        spec: &RunSpec,
        mut state: impl FnMut(FlowId) -> Option<DaemonState>,
    ) {
        for &flow in &self.sampler.daemons {
            if let Some(state) = state(flow) {
                self.log.daemon_series.push(DaemonSample::new(now, &spec.flows[flow.0 as usize], state));
            }
        }
    }

    /// Adds the rows of hosts that walk, and ends the sample.
    pub(crate) fn end_sample(&mut self, now: Time, walkers: impl Iterator<Item = WalkerRow>) {
        walkers.for_each(|row| self.log.walkers.push(row));
        let sampler = &mut self.sampler;
        sampler.last_at = now;
        sampler.taken += 1;
        sampler.next = now + sampler.interval;
    }
}
