//! Hosts of a world: who sends and who receives.
//!
//! They take packets from the end of a path ([`Hosts::deliver`]) and leave in [`Hosts::out`] those
//! that their flows send. The world carries these to the network, and tells hosts the network's
//! answers.

mod answers;
mod external;
mod first_queue;
mod interfaces;
mod notices;
mod processors;
mod receive;
mod roaming;
mod totals;

use std::collections::BTreeMap;

use airtcp_core::convert::count;
use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::prefetch::prefetch;
use airtcp_core::tcp::{LocalDrops, Outputs, Tsq};
use airtcp_core::units::Time;

pub use external::NotInjected;
pub(crate) use processors::Direction;
pub(crate) use receive::{Polled, Received};
pub(crate) use roaming::{Reroute, Roamers};

use crate::books::totals::FlowTotals;
use crate::engine::Engine;
use crate::error::BuildError;
use crate::path::Variants;
use crate::spec::{FlowSpec, LinkId, NodeId, RunSpec, Traffic};
use crate::traffic::{AnyEnds, Context, Flow};
use external::Externals;
pub(crate) use first_queue::radio_tsq;
use interfaces::Interfaces;
use notices::Notices;
use processors::Processors;

/// Flows, and the hosts that they begin and end at.
pub(crate) struct Hosts {
    pub flows: Vec<Flow>,
    pub interfaces: Interfaces,
    pub processors: Processors,
    pub external: Externals,
    pub roamers: Roamers,
    /// Packets that a flow has just sent; empty between calls.
    pub out: Outputs,
    /// Notices for senders, until the end of the event.
    notices: Notices,
    /// By channel and pair: the cooperative daemon on the pair's station, as a flow.
    daemons: Vec<Vec<Option<FlowId>>>,
    /// Packets that simulated ends have sent, for tests.
    #[cfg(test)]
    pub sent: Option<Vec<(Time, Packet)>>,
}

impl Hosts {
    /// Hosts before the run. `first_link`: the link that the packets of a flow go into first.
    /// `is_here`: the part has the host.
    pub(crate) fn new(
        spec: &RunSpec,
        first_link: impl Fn(FlowId) -> LinkId,
        variants: &[Variants],
        onward: &[Vec<Vec<crate::path::Place>>],
        is_here: impl Fn(NodeId) -> bool,
    ) -> Result<Hosts, BuildError> {
        let mut flows = Vec::with_capacity(spec.flows.len());
        for (i, flow) in spec.flows.iter().enumerate() {
            let id = FlowId(count(i));
            let first = first_link(id);
            let radio_tsq = radio_tsq(spec, first);
            let hears = matches!(&flow.traffic, Traffic::Tcp { sender, .. } if sender.host_queue.local_drops == LocalDrops::Unsent);
            let recorded = spec.record.retransmissions.binary_search(&id).is_ok();
            let ctx = Context { flow: id, spec: flow, seed: spec.seed };
            let ends = match is_here(flow.from) || is_here(flow.to) {
                true => AnyEnds::new(&ctx, &spec.flows[..i], radio_tsq, recorded)?,
                false => AnyEnds::elsewhere(),
            };
            let first_queue = match hears && spec.nodes[flow.from.index()].packet_time.is_zero() {
                true => first_queue::first_queue(spec, first),
                false => None,
            };
            flows.push(Flow { ends, dropped_at_queues: 0, lost_on_lines: 0, first_queue });
        }
        Ok(Hosts {
            flows,
            interfaces: Interfaces::new(spec),
            processors: Processors::new(spec),
            external: Externals::new(spec),
            roamers: Roamers::new(spec, variants, onward),
            out: Outputs::default(),
            notices: Notices::default(),
            daemons: daemons(spec),
            #[cfg(test)]
            sent: None,
        })
    }

    /// True if the radio below a flow's sender is to report packets that it no longer holds.
    pub(crate) fn wants_releases(spec: &RunSpec, flow: &FlowSpec, first: LinkId) -> bool {
        let limits = matches!(&flow.traffic, Traffic::Tcp { sender, .. } if sender.host_queue.tsq != Tsq::Off);
        limits && radio_tsq(spec, first).is_some()
    }

    /// Sets the deadlines of both ends of all flows. `is_here`: the part has the host.
    pub(crate) fn set_deadlines(&self, spec: &RunSpec, engine: &mut Engine, is_here: impl Fn(NodeId) -> bool) {
        for (id, flow) in (0..).map(FlowId).zip(&self.flows) {
            let (from, to) = (spec.flows[id.0 as usize].from, spec.flows[id.0 as usize].to);
            if is_here(from) {
                engine.timeline.set(engine.components.source(id), flow.ends.deadline());
            }
            if is_here(to) {
                engine.timeline.set(engine.components.destination(id), flow.ends.destination_deadline());
            }
        }
    }

    /// Gives up the memory of interfaces, at the end of a run.
    pub(crate) fn forget_interfaces(&mut self) {
        self.interfaces = Interfaces::default();
    }

    /// Counters of all flows.
    pub(crate) fn totals(&self, now: Time) -> Vec<FlowTotals> {
        self.flows.iter().map(|flow| flow.totals(now)).collect()
    }

    /// Loads what a packet needs that reaches an end of its flow, which may answer.
    #[inline]
    pub(crate) fn prefetch(&self, engine: &Engine, packet: &Packet) {
        let Some(flow) = self.flows.get(packet.flow.0 as usize) else { return };
        let is_reverse = packet.is_reverse();
        flow.ends.prefetch(is_reverse);
        let components = &engine.components;
        let component = if is_reverse { components.source(packet.flow) } else { components.destination(packet.flow) };
        prefetch(engine.timeline.get(component));
        self.prefetch_interface(engine, packet.flow.0, is_reverse);
    }
}

/// Daemons on stations, by channel and pair.
fn daemons(spec: &RunSpec) -> Vec<Vec<Option<FlowId>>> {
    let is_daemon = |(_, f): &(FlowId, &FlowSpec)| matches!(f.traffic, Traffic::Daemon(_));
    let of_node: BTreeMap<NodeId, FlowId> =
        (0..).map(FlowId).zip(&spec.flows).filter(is_daemon).map(|(id, f)| (f.from, id)).collect();
    let channels = spec.channels.iter().map(|channel| {
        let pairs = channel.pairs.iter();
        pairs.map(|pair| of_node.get(&channel.radios[pair.station.index()].node).copied()).collect()
    });
    channels.collect()
}
