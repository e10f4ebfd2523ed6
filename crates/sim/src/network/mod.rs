//! Network of a world: where packets are between hosts.
//!
//! It takes packets in ([`Network::forward`]), moves them on as their time comes, and answers with
//! [`Answer`]s that only hosts can deal with. The world carries those over. Packets in flight are
//! with the engine; their contents are in the pool here.

pub(crate) mod air;
pub(crate) mod borders;
mod channels;
mod forward;
pub(crate) mod link;
pub(crate) mod partition_plan;
mod queues;
pub mod rate_trace;
pub mod route;
mod totals;
mod waiting;

use airtcp_core::packet::{FlowId, PacketId, Pool};
use airtcp_core::queue::{DropReason, Drops};
use airtcp_core::units::Time;
use airtcp_core::wifi::{Ac, AirLinkId, PairId, Released};

pub use waiting::{Waiting, WaitsIn};

use crate::engine::Engine;
use crate::path::{Hop, Place};
use crate::spec::{ChannelId, LinkId, RunSpec};
use air::Air;
use borders::Borders;
use link::{Links, Until};
use route::Routes;

/// Links beyond which a network counts as large.
const LARGE: usize = 1024;

/// Paths, links, channels, and the packets on them.
pub(crate) struct Network {
    /// Hops of all paths, one path after the other.
    hops: Vec<Hop>,
    /// By flow.
    paths: Vec<FlowPath>,
    pub links: Links,
    pub air: Air,
    pub pool: Pool,
    /// By packet: its place on its path, and when it came there, while it waits in a queue or is in
    /// the air.
    place_of: Vec<(Place, Time)>,
    /// Drops and marks that a discipline has just made; empty between calls.
    drops: Drops,
    /// Flow whose packet came last to a queue with a discipline of its own.
    entering: FlowId,
    /// Answers that the world has not dealt with yet.
    pub answers: Vec<Answer>,
    /// Packets of [`Answer::Received`], with their links. Channels put them out at their own
    /// deadlines and at handovers alone, so there is one list of them at a time.
    received: Vec<(AirLinkId, PacketId)>,
    /// Borders, if the world is one of several partitions.
    borders: Option<Box<Borders>>,
    /// Links that are fused in the whole and not here, where it is divided.
    unfused: Vec<LinkId>,
    /// True if the state of all links does not fit into a processor's second-level cache.
    is_large: bool,
}

/// Path of a flow, as the network needs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowPath {
    /// Places where its paths begin, forward and reverse.
    pub start: [Place; 2],
    /// Access category in the air.
    pub ac: Ac,
    /// True if the radio of its source reports packets that it no longer holds.
    pub reports_release: bool,
}

/// An event of the network that concerns hosts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// Packets have come through the air to the far ends of their links: those in
    /// [`Network::received`].
    Received,
    /// A packet was dropped at a queue or with a radio; links and books have counted it. `is_own`:
    /// the packet that came last to a queue was of the same flow.
    Dropped { packet: PacketId, link: LinkId, reason: DropReason, is_own: bool },
    /// A packet was lost on a line or in the air; links and books have counted it.
    Lost(PacketId),
    /// A radio has not sent a packet before the end of its association.
    Returned { packet: PacketId, link: LinkId },
    /// A group-addressed packet has reached the station of a pair.
    Heard { packet: PacketId, channel: ChannelId, pair: PairId },
    /// A radio no longer holds some packets of its host.
    Released(Released),
}

impl Network {
    /// Network with nothing in it. `paths`: by flow, without their starts. Returns the number of
    /// FIFOs for packets in flight.
    pub(crate) fn new(
        spec: &RunSpec,
        mut routes: Routes,
        paths: Vec<FlowPath>,
        borders: Option<Box<Borders>>,
    ) -> (Network, usize) {
        let record = &spec.record;
        let mut links = Links::new(spec, typical_packet(spec), &record.capture, &record.drops);
        links.fuse(&spec.links, &mut routes.hops);
        let plan = borders.as_ref().map(|borders| borders.plan());
        let of_place = plan.as_ref().map(|plan| &plan.of_place);
        let unfused = of_place.map(|of| partition_plan::unfuse(of, &mut links, &mut routes.hops)).unwrap_or_default();
        let fifos = links.assign_fifos(&spec.links, &routes.hops);
        if let Some(of_place) = of_place {
            for place in partition_plan::borders(of_place, &routes.hops) {
                routes.hops[place] = routes.hops[place].across();
            }
        }
        let network = Network {
            hops: routes.hops,
            paths,
            is_large: links.lines.len() > LARGE,
            links,
            air: Air::new(spec),
            pool: Pool::default(),
            place_of: Vec::new(),
            drops: Drops::default(),
            entering: FlowId(u32::MAX),
            answers: Vec::new(),
            received: Vec::new(),
            borders,
            unfused,
        };
        (network, fifos)
    }

    /// Hop at a place on a path.
    #[inline]
    pub(crate) fn hop(&self, place: Place) -> Hop {
        self.hops[place.index()]
    }

    /// Places where the paths of a flow begin, forward and reverse.
    #[inline]
    pub(crate) fn starts(&self, flow: FlowId) -> [Place; 2] {
        self.paths[flow.0 as usize].start
    }

    /// Moves the paths of a flow.
    pub(crate) fn set_starts(&mut self, flow: FlowId, start: [Place; 2]) {
        self.paths[flow.0 as usize].start = start;
    }

    /// Settings of a flow's path.
    pub(crate) fn path_mut(&mut self, flow: FlowId) -> &mut FlowPath {
        &mut self.paths[flow.0 as usize]
    }

    /// True if the radio of a flow's source reports packets that it no longer holds.
    pub(crate) fn reports_release(&self, flow: FlowId) -> bool {
        self.paths[flow.0 as usize].reports_release
    }

    /// Place of a packet that waits in a queue or has been in the air.
    #[inline]
    fn place_of(&self, packet: PacketId) -> Place {
        self.place_of[packet.0 as usize].0
    }

    /// Notes where a packet is that goes into a queue or into the air.
    fn note_place(&mut self, now: Time, packet: PacketId, place: Place) {
        if self.place_of.len() <= packet.0 as usize {
            self.place_of.resize(packet.0 as usize + 1, (place, now));
        }
        self.place_of[packet.0 as usize] = (place, now);
    }

    /// The `i`-th packet that has come through the air, the place that it has reached, and its
    /// size.
    #[inline]
    pub(crate) fn received(&self, i: usize) -> Option<(PacketId, Place, u16)> {
        let &(_, packet) = self.received.get(i)?;
        Some((packet, self.place_of(packet).next(), self.pool[packet].size))
    }

    /// All packets of [`Answer::Received`] have gone on.
    pub(crate) fn forget_received(&mut self) {
        self.received.clear();
    }

    /// True if all that is on paths needs loading ahead of time.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.is_large
    }

    /// See [`Links::compute_generally`].
    #[cfg(test)]
    pub(crate) fn compute_generally(&mut self) {
        self.links.compute_generally(&mut self.hops);
    }

    /// Counters of fused links that run ahead of the clock, for [`Self::totals_of`].
    pub(crate) fn ahead(&self, engine: &Engine, until: Until) -> Vec<link::Ahead> {
        self.links.ahead(engine.in_flight.iter(), &self.hops, until)
    }
}

/// Size of the largest packet that any flow sends; 1500 bytes if there is none.
fn typical_packet(spec: &RunSpec) -> u32 {
    spec.flows.iter().map(|f| u32::from(f.traffic.packet_bytes())).max().unwrap_or(1500)
}
