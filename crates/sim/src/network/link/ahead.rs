//! Counters of links at an instant, and of fused links that run ahead of the clock.

use airtcp_core::units::{Span, Time};

use super::{Line, LinkStats, Links};
use crate::books::totals::LinkTotals;
use crate::engine::packets_in_flight::InFlight;
use crate::path::Hop;
use crate::spec::LinkId;

/// Up to when things are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    now: Time,
    last: Time,
}

impl Until {
    /// All that has happened before `now` and at it.
    pub(crate) fn after(now: Time) -> Until {
        Until { now, last: now }
    }

    /// Events at `now` are still to come.
    pub(crate) fn before(now: Time) -> Until {
        Until { now, last: now - Span::from_ns(1) }
    }

    /// Integrals over time go up to this.
    pub(crate) fn now(self) -> Time {
        self.now
    }

    /// The last instant whose events have taken place.
    pub(super) fn last(self) -> Time {
        self.last
    }
}

/// Events on a fused link that its line and counters know ahead of the clock, and some that they do
/// not know yet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ahead {
    /// Packets on their way to the link.
    coming: (u64, u64),
    waiting: (u64, u64),
    on_line: (u64, u64),
    busy_ns: u64,
    /// Part of the time integral of the packets waiting.
    wait_ns: u128,
    max_queue: u32,
}

impl Links {
    /// Events still to come on fused links, by link; empty if there are none. `in_flight`: the
    /// packets in flight; `hops`: what their places mean.
    pub(crate) fn ahead<'a>(
        &self,
        in_flight: impl Iterator<Item = &'a InFlight>,
        hops: &[Hop],
        until: Until,
    ) -> Vec<Ahead> {
        if !self.has_fused {
            return Vec::new();
        }
        let (now, last) = (until.now(), until.last());
        let mut all = vec![Ahead::default(); self.lines.len()];
        for entry in in_flight {
            // The last link of a packet that is lost is not fused, and every packet in flight has a
            // last link.
            let Some(&hop) = hops.get(entry.next.place().before().index()) else { continue };
            if !hop.is_fused() {
                continue;
            }
            let link = hop.link().index();
            let (ahead, stats) = (&mut all[link], &self.stats[link]);
            let (arrival, start, end) = self.lines[link].passage(stats, entry);
            let one = |count: &mut (u64, u64)| *count = (count.0 + 1, count.1 + u64::from(entry.size));
            ahead.busy_ns += end.since(start.max(now)).as_ns();
            if arrival > last {
                one(&mut ahead.coming);
                continue;
            }
            ahead.wait_ns += u128::from(start.min(now).since(arrival).as_ns());
            if arrival >= stats.max_queue_since {
                ahead.max_queue = ahead.max_queue.max(u32::from(entry.depth));
            }
            if start > last {
                one(&mut ahead.waiting);
            } else if end > last {
                one(&mut ahead.on_line);
            }
        }
        all
    }

    pub(super) fn fused_totals(&mut self, link: LinkId, ahead: &Ahead) -> LinkTotals {
        let (line, stats) = (&self.lines[link.index()], &mut self.stats[link.index()]);
        stats.max_queue = stats.max_queue.max(ahead.max_queue);
        let mut totals = LinkTotals {
            arrived_packets: line.taken_packets - ahead.coming.0,
            arrived_bytes: line.taken_bytes - ahead.coming.1,
            busy_ns: line.taken_ns - ahead.busy_ns,
            queue_packet_ns: stats.wait_ns + ahead.wait_ns,
            queue_packets: ahead.waiting.0,
            queue_bytes: ahead.waiting.1,
            ..LinkTotals::default()
        };
        totals.started_packets = totals.arrived_packets - ahead.waiting.0;
        totals.forwarded_packets = totals.started_packets - ahead.on_line.0;
        totals.forwarded_bytes = totals.arrived_bytes - ahead.waiting.1 - ahead.on_line.1;
        totals
    }
}

impl Line {
    /// For a packet that has passed through this link fused: when it arrived there, started and
    /// ended its transmission.
    pub(super) fn passage(&self, stats: &LinkStats, entry: &InFlight) -> (Time, Time, Time) {
        let end = entry.time - self.delay;
        let start = end - self.tx(entry.size, || stats.rate);
        (entry.time - Span::from_ns(u64::from(entry.flight_ns)), start, end)
    }
}
