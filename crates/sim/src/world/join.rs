//! One world of all its parts, at the end of a run: each component as it is in the part that has it.

use airtcp_core::packet::FlowId;

use super::plan::Plan;
use super::results::{FlowTotals, Totals};
use super::{Log, World};
use crate::spec::{LinkId, RunSpec};
use crate::traffic::AnyEnds;
use crate::wires::Lane;

impl World {
    /// What [`World::finish`] of the whole would give, the whole gives. It cannot go on: packets remain in their parts.
    pub(super) fn join(mut parts: Vec<World>) -> World {
        let Some(part) = parts[0].part.take() else {
            let mut whole = parts.swap_remove(0);
            whole.close_borders();
            return whole;
        };
        let (spec, plan) = (std::sync::Arc::clone(&parts[0].spec), part.plan());
        let of_link = |link: LinkId| usize::from(plan.of_link[link.index()]);

        let mut ends = Vec::with_capacity(spec.flows.len());
        for (i, flow) in spec.flows.iter().enumerate() {
            let [source, destination] = [flow.from, flow.to].map(|node| usize::from(plan.of_node[node.index()]));
            let mut take = |part: usize| std::mem::replace(&mut parts[part].flows[i].ends, AnyEnds::elsewhere());
            let mut own = take(source);
            if destination != source {
                own.join(take(destination));
            }
            ends.push(own);
        }
        let warm: Option<Vec<Totals>> = parts.iter_mut().map(|part| part.warm.take()).collect();
        let logs = parts.iter_mut().map(|part| std::mem::take(&mut part.log)).collect();

        let mut whole = parts.remove(0);
        for (number, part) in (1..).zip(&mut parts) {
            for link in LinkId::all(spec.links.len()).filter(|&link| of_link(link) == number) {
                whole.links.take_from(&mut part.links, link);
            }
            for (channel, links) in whole.air.world_link.iter().enumerate() {
                if links.first().is_some_and(|&link| of_link(link) == number) {
                    std::mem::swap(&mut whole.air.channels[channel], &mut part.air.channels[channel]);
                }
            }
            // Links that are fused know from what is in flight what has not happened yet.
            part.wires.iter().for_each(|&entry| whole.wires.insert(entry, Lane::NONE));
            for (own, other) in whole.flows.iter_mut().zip(&part.flows) {
                own.dropped_at_queues += other.dropped_at_queues;
                own.lost_on_lines += other.lost_on_lines;
            }
            whole.ledger.join(&part.ledger);
            // The whole samples once.
            whole.events += part.events - part.sampler.taken;
        }
        whole.close_borders();
        for (flow, ends) in whole.flows.iter_mut().zip(ends) {
            flow.ends = ends;
        }
        whole.log = Log::join(logs, &spec);
        whole.warm = warm.map(|all| Totals::join(&all, &spec, &plan));
        whole
    }

    /// Nothing is divided any more.
    fn close_borders(&mut self) {
        self.hops.iter_mut().filter(|hop| hop.is_across()).for_each(|hop| *hop = hop.within());
        // A link that is fused in the whole has no arrivals of its own.
        self.events -= self.unfused.drain(..).map(|link| self.links.taken(link)).sum::<u64>();
    }
}

impl Totals {
    /// Those of the whole, of those of all parts.
    fn join(parts: &[Totals], spec: &RunSpec, plan: &Plan) -> Totals {
        let of_link = |link: LinkId| usize::from(plan.of_link[link.index()]);
        if parts.iter().all(|part| part.links.is_empty()) {
            return Totals::default();
        }
        let links = LinkId::all(spec.links.len());
        let air = links.clone().filter(|link| spec.links[link.index()].air.is_some());
        let flows = (0..).map(FlowId).zip(&spec.flows).map(|(id, flow)| {
            let [source, destination] = [flow.from, flow.to].map(|node| usize::from(plan.of_node[node.index()]));
            let mut counters = parts[source].flow(id).counters;
            if destination != source {
                counters.receive(&parts[destination].flow(id).counters);
            }
            let sum = |of: fn(&FlowTotals) -> u64| parts.iter().map(|part| of(&part.flow(id))).sum();
            FlowTotals {
                counters,
                dropped_at_queues: sum(|flow| flow.dropped_at_queues),
                lost_on_lines: sum(|flow| flow.lost_on_lines),
            }
        });
        Totals {
            links: links.map(|link| parts[of_link(link)].link(link)).collect(),
            air: air.enumerate().map(|(i, link)| parts[of_link(link)].air(i)).collect(),
            flows: flows.collect(),
        }
    }
}
