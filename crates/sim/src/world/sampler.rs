//! Samples of flows, links, channels and hosts for the time series.

use airtcp_core::packet::FlowId;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::AirStats;

use super::World;
use crate::air::link_totals;
use crate::link::{LinkTotals, Until};
use crate::record::{AirSample, DaemonSample, FlowSample, LinkSample, millis, ratio};
use crate::spec::{FlowSpec, LinkId, RunSpec, Traffic};
use crate::traffic::AnyEnds;

pub(super) struct Sampler {
    interval: Span,
    next: Time,
    flows: Vec<FlowId>,
    links: Vec<LinkId>,
    /// Of the links above, at the last sample.
    last: Vec<LinkTotals>,
    /// Links of WLANs.
    air: Vec<LinkId>,
    last_air: Vec<AirStats>,
    daemons: Vec<FlowId>,
    last_at: Time,
    /// Samples so far.
    pub(super) taken: u64,
}

impl Sampler {
    /// When the next sample is due.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    pub(super) fn new(spec: &RunSpec) -> Sampler {
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
    pub(super) fn keep(&mut self, flow: impl Fn(FlowId) -> bool, link: impl Fn(LinkId) -> bool) {
        self.flows.retain(|&id| flow(id));
        self.links.retain(|&id| link(id));
        self.air.retain(|&id| link(id));
    }
}

impl World {
    #[cold]
    pub(super) fn sample(&mut self) {
        let now = self.now;
        let sampler = &mut self.sampler;
        for &i in &sampler.flows {
            let AnyEnds::Tcp(tcp) = &self.flows[i.0 as usize].ends else { continue };
            let (window, stats) = (tcp.sender.window(), tcp.stats(now));
            self.log.flow_series.push(FlowSample {
                time_s: now.as_secs_f64(),
                flow: i.0,
                cwnd_segments: window.cwnd,
                window_segments: window.cwnd.min(tcp.sender.send_window_segments()),
                ssthresh_segments: if window.ssthresh == u32::MAX { f64::NAN } else { f64::from(window.ssthresh) },
                in_flight_segments: tcp.sender.path().in_flight,
                srtt_ms: tcp.sender.srtt().map_or(f64::NAN, millis),
                bytes_acked: stats.bytes_acked,
                segments_sent: stats.segments_sent,
                segments_retransmitted: stats.segments_retransmitted,
                timeouts: stats.timeouts,
            });
        }
        let period = now.since(sampler.last_at);
        let period_ns = period.as_ns() as f64;
        // Looking through all that is in flight is for links that ask for it.
        let some_fused = sampler.links.iter().any(|&l| self.links.is_fused(l));
        let ahead =
            if some_fused { self.links.ahead(self.wires.iter(), &self.hops, Until::after(now)) } else { Vec::new() };
        for (&link, last) in sampler.links.iter().zip(&mut sampler.last) {
            let totals = match self.air.stats(link, now) {
                Some(stats) => link_totals(&stats),
                None => self.links.totals(link, Until::after(now), &ahead),
            };
            let dropped = |t: &LinkTotals| t.dropped_overflow + t.dropped_early + t.dropped_gone;
            self.log.link_series.push(LinkSample {
                time_s: now.as_secs_f64(),
                link: link.0,
                queue_packets: totals.queue_packets,
                queue_bytes: totals.queue_bytes,
                arrived_packets: totals.arrived_packets - last.arrived_packets,
                dropped_packets: dropped(&totals) - dropped(last),
                marked_packets: totals.marked - last.marked,
                forwarded_packets: totals.forwarded_packets - last.forwarded_packets,
                utilisation: ratio((totals.busy_ns - last.busy_ns) as f64, period_ns),
                queue_mean_packets: ratio((totals.queue_packet_ns - last.queue_packet_ns) as f64, period_ns),
                drop_probability: self.links.drop_probability(link).unwrap_or(f64::NAN),
            });
            *last = totals;
        }
        for (&link, last) in sampler.air.iter().zip(&mut sampler.last_air) {
            let Some((channel, own)) = self.air.at[link.index()] else { continue };
            let channel = &mut self.air.channels[channel.index()];
            let stats = channel.stats(own, now);
            let (snr_db, best) = (channel.snr_db(own, now), channel.best_mode(own));
            self.log.air_series.push(AirSample::new(now, link, (last, &stats), period, snr_db, best));
            *last = stats;
        }
        for &i in &sampler.daemons {
            if let AnyEnds::Daemon(host) = &self.flows[i.0 as usize].ends {
                self.log.daemon_series.push(DaemonSample::new(now, &self.spec.flows[i.0 as usize], host.state()));
            }
        }
        self.roamers.sample(now, &mut self.air, &mut self.log.walkers);
        sampler.last_at = now;
        sampler.taken += 1;
        sampler.next = now + sampler.interval;
    }
}
