//! Samples for the time series: what the network and the hosts say of themselves, into the books.

use super::World;
use crate::books::record::{FlowSample, millis};
use crate::books::totals::LinkTotals;
use crate::context::Cx;
use crate::link::Until;
use crate::traffic::AnyEnds;

impl World {
    #[cold]
    pub(super) fn sample(&mut self) {
        let World { cx: Cx { engine, books }, flows, links, air, hops, spec, roamers, .. } = self;
        let now = engine.now;
        books.sample_flows(|flow| {
            let AnyEnds::Tcp(tcp) = &flows[flow.0 as usize].ends else { return None };
            let (window, stats) = (tcp.sender.window(), tcp.stats(now));
            Some(FlowSample {
                time_s: now.as_secs_f64(),
                flow: flow.0,
                cwnd_segments: window.cwnd,
                window_segments: window.cwnd.min(tcp.sender.send_window_segments()),
                ssthresh_segments: if window.ssthresh == u32::MAX { f64::NAN } else { f64::from(window.ssthresh) },
                in_flight_segments: tcp.sender.path().in_flight,
                srtt_ms: tcp.sender.srtt().map_or(f64::NAN, millis),
                bytes_acked: stats.bytes_acked,
                segments_sent: stats.segments_sent,
                segments_retransmitted: stats.segments_retransmitted,
                timeouts: stats.timeouts,
            })
        });
        // Looking through all that is in flight is for links that ask for it.
        let until = Until::after(now);
        let ahead = match books.sampler.links().iter().any(|&link| links.is_fused(link)) {
            true => links.ahead(engine.in_flight.iter(), hops, until),
            false => Vec::new(),
        };
        books.sample_links(now, |link| {
            let totals = match air.stats(link, now) {
                Some(stats) => LinkTotals::from(&stats),
                None => links.totals(link, until, &ahead),
            };
            (totals, links.drop_probability(link))
        });
        books.sample_air(now, |link| {
            let (channel, own) = air.at[link.index()]?;
            let channel = &mut air.channels[channel.index()];
            let stats = channel.stats(own, now);
            Some((stats, channel.snr_db(own, now), channel.best_mode(own)))
        });
        books.sample_daemons(now, spec, |flow| match &flows[flow.0 as usize].ends {
            AnyEnds::Daemon(host) => Some(host.state()),
            _ => None,
        });
        books.end_sample(now, roamers.sample(now, air));
    }
}
