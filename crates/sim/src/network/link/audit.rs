//! Packets on lines and waiting for them, by those in flight alone: [`Links::totals`] is held
//! against these.

use airtcp_core::packet::PacketId;
use airtcp_core::units::Time;

use super::Links;
use crate::books::audit::OnLine;
use crate::engine::packets_in_flight::InFlight;
use crate::path::Hop;
use crate::spec::LinkId;

impl Links {
    /// By link. `None`: the times of its packets in flight do not tell (some are held back), or it
    /// has none (air).
    pub(crate) fn on_lines<'a>(
        &self,
        in_flight: impl Iterator<Item = &'a InFlight>,
        hops: &[Hop],
        now: Time,
    ) -> Vec<Option<OnLine>> {
        let is_known = |id: usize| self.stats[id].reordering().is_none() && self.lines[id].kind != super::LinkKind::Air;
        let empty = |id: usize| OnLine { has_discipline: self.stats[id].queued().is_some(), ..OnLine::default() };
        let mut all: Vec<_> = (0..self.lines.len()).map(|id| is_known(id).then(|| empty(id))).collect();
        self.passages(in_flight, hops, now, |link, end, entry| {
            let (line, stats) = (&self.lines[link.index()], &self.stats[link.index()]);
            let Some(on) = &mut all[link.index()] else { return };
            // From a queue of its own a packet comes when its transmission begins.
            let start = if stats.rate_trace().is_some() { now } else { end - line.tx(entry.size, || stats.rate) };
            let place = match (start > now, end > now) {
                (true, _) => &mut on.waiting,
                (false, true) => &mut on.in_service,
                (false, false) => return,
            };
            *place = (place.0 + 1, place.1 + u64::from(entry.size));
        });
        all
    }

    /// Notes for each packet in flight the links that it is on or waits for, and when its
    /// transmission there is over.
    fn passages<'a>(
        &self,
        in_flight: impl Iterator<Item = &'a InFlight>,
        hops: &[Hop],
        now: Time,
        mut note: impl FnMut(LinkId, Time, &InFlight),
    ) {
        for entry in in_flight {
            let last = entry.next.place().before();
            let Some(&hop) = hops.get(last.index()) else { continue };
            let line = &self.lines[hop.link().index()];
            if entry.next.is_lost() {
                note(hop.link(), entry.time, entry);
            } else if hop.is_fused() {
                let feeder = hops[last.before().index()].link();
                let (arrival, start, _) = line.passage(&self.stats[hop.link().index()], entry);
                note(feeder, arrival - self.lines[feeder.index()].delay, entry);
                // Before it has come to the second link, nothing of it is there.
                if arrival <= now {
                    note(hop.link(), start + line.tx(entry.size, || self.stats[hop.link().index()].rate), entry);
                }
            } else {
                note(hop.link(), entry.time - line.delay, entry);
            }
        }
    }

    /// Each packet in flight that waits for a line, and which. This is not known for a line that
    /// holds packets back.
    pub(crate) fn waiting<'a>(
        &self,
        in_flight: impl Iterator<Item = &'a InFlight>,
        hops: &[Hop],
        now: Time,
        mut each: impl FnMut(LinkId, PacketId),
    ) {
        self.passages(in_flight, hops, now, |link, end, entry| {
            let (line, stats) = (&self.lines[link.index()], &self.stats[link.index()]);
            if stats.reordering().is_none()
                && stats.rate_trace().is_none()
                && end - line.tx(entry.size, || stats.rate) > now
            {
                each(link, entry.packet);
            }
        });
    }

    /// Packets and bytes in the disciplines of links that have one of their own.
    pub(crate) fn in_queues(&self) -> (u64, u64) {
        self.queued.iter().fold((0, 0), |sum, q| (sum.0 + q.aqm.len_packets() as u64, sum.1 + q.aqm.len_bytes()))
    }
}
