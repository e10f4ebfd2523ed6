//! Whose packets wait where, for pictures of a run. It reads and changes nothing.

use airtcp_core::packet::{FlowId, PacketId};

use super::World;
use crate::spec::LinkId;

/// Where a packet waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitsIn {
    /// In the queue of a link, or with the radio that is to send it.
    Queue,
    /// In a reorder buffer: it came over the link before others that are to go up first.
    Reorder,
}

/// A packet that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// The link that it waits for, or came over.
    pub link: LinkId,
    /// Where.
    pub place: WaitsIn,
    /// Whose it is.
    pub flow: FlowId,
    /// It goes from the flow's destination to its source.
    pub is_reverse: bool,
}

impl World {
    /// Each packet that waits now, in no order. It looks at every packet, and is for those who draw.
    pub fn waiting(&self) -> Vec<Waiting> {
        let mut all = Vec::new();
        let mut add = |link, place, id: PacketId| {
            let packet = &self.pool[id];
            all.push(Waiting { link, place, flow: packet.flow, is_reverse: packet.is_reverse() });
        };
        // By slot of the pool.
        let mut elsewhere = Vec::new();
        let mut skip = |id: PacketId| {
            let slot = id.0 as usize;
            elsewhere.resize(elsewhere.len().max(slot + 1), false);
            elsewhere[slot] = true;
        };
        self.cx.engine.in_flight.iter().for_each(|entry| skip(entry.packet));
        self.links.waiting(self.cx.engine.in_flight.iter(), &self.hops, self.cx.engine.now, |link, id| {
            add(link, WaitsIn::Queue, id)
        });
        self.roamers.held().for_each(&mut skip);
        self.processors.waiting().for_each(&mut skip);
        for (channel, links) in self.air.channels.iter().zip(&self.air.world_link) {
            for (own, id) in channel.reordering() {
                add(links[own.index()], WaitsIn::Reorder, id);
                skip(id);
            }
        }
        // What is left is in a discipline or with a radio, and both note the place.
        let is_elsewhere = |id: PacketId| elsewhere.get(id.0 as usize).copied().unwrap_or(false);
        for (id, _) in self.pool.iter().filter(|&(id, _)| !is_elsewhere(id)) {
            if let Some((place, _)) = self.place_of.get(id.0 as usize) {
                add(self.hops[place.index()].link(), WaitsIn::Queue, id);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use airtcp_core::convert::count;
    use airtcp_core::units::{Span, Time};

    use super::{WaitsIn, World};
    use crate::capture::NoCapture;
    use crate::scenario::Scenario;
    use crate::spec::LinkId;

    const CELL: &str = r#"
        duration = "4s"
        nodes = [
            { name = "sta", kind = "host", count = 3, profile = "linux-3.13-no-tsq" },
            { name = "ap", kind = "router" },
            { name = "r", kind = "router" },
            { name = "server", kind = "host" },
        ]
        links = [
            { from = "ap", to = "r", rate = "10Mbit/s", delay = "5ms", queue = "fq_codel" },
            { from = "r", to = "server", rate = "8Mbit/s", delay = "5ms", queue = { name = "fifo", limit_packets = 40 } },
        ]
        wlans = [{ name = "wlan", ap = "ap", signal = { kind = "snr", snr_db = 12 }, stations = ["sta"] }]
        flows = [
            { name = "up", from = "sta", to = "server" },
            { name = "down", from = "server", to = "sta[1]" },
            { name = "ping", from = "sta[0]", to = "server", traffic = { kind = "ping", interval = "50ms" } },
        ]
    "#;

    #[test]
    fn what_waits_is_what_links_and_radios_count() {
        let spec = Scenario::parse(CELL, "cell.toml", &[]).unwrap().to_spec().unwrap();
        let mut world = World::build(&spec).unwrap();
        let (mut most, mut reordered) = (0, 0);
        for step in 1..=400u64 {
            world.run_until(Time::ZERO + Span::from_ms(10 * step), &mut NoCapture);
            let all = world.waiting();
            let of = |link: LinkId, place| all.iter().filter(|w| w.link == link && w.place == place).count() as u64;
            for link in LinkId::all(spec.links.len()).filter(|l| spec.links[l.index()].air.is_none()) {
                assert_eq!(
                    of(link, WaitsIn::Queue),
                    world.link_totals(link).queue_packets,
                    "link {link:?}, step {step}"
                );
            }
            let held = world.air.channels[0].holdings(&world.pool);
            let through_air = || LinkId::all(spec.links.len()).filter(|l| spec.links[l.index()].air.is_some());
            let sum = |place| through_air().map(|link| of(link, place)).sum::<u64>();
            assert_eq!(sum(WaitsIn::Queue), held.queued.0 + held.in_drivers.0, "step {step}");
            assert_eq!(sum(WaitsIn::Reorder), held.reordering.0, "step {step}");
            most = most.max(count(all.len()));
            reordered += held.reordering.0;
        }
        assert!(most > 50 && reordered > 0, "{most}, {reordered}: something is to wait in both");
    }
}
