//! One world of all its parts, at the end of a run: each component as it is in the part that has it.

use super::World;
use crate::books::record::Log;
use crate::books::totals::Totals;
use crate::engine::packets_in_flight::DelayFifo;
use crate::spec::LinkId;
use crate::traffic::AnyEnds;

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
        let warm: Option<Vec<Totals>> = parts.iter_mut().map(|part| part.cx.books.warm.take()).collect();
        let logs = parts.iter_mut().map(|part| std::mem::take(&mut part.cx.books.log)).collect();

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
            part.cx.engine.in_flight.iter().for_each(|&entry| whole.cx.engine.in_flight.insert(entry, DelayFifo::NONE));
            for (own, other) in whole.flows.iter_mut().zip(&part.flows) {
                own.dropped_at_queues += other.dropped_at_queues;
                own.lost_on_lines += other.lost_on_lines;
            }
            whole.cx.books.ledger.join(&part.cx.books.ledger);
            // The whole samples once.
            whole.cx.engine.events += part.cx.engine.events - part.cx.books.sampler.taken;
        }
        whole.close_borders();
        for (flow, ends) in whole.flows.iter_mut().zip(ends) {
            flow.ends = ends;
        }
        whole.cx.books.log = Log::join(logs, &spec);
        whole.cx.books.warm = warm.map(|all| Totals::join(&all, &spec, &plan.of_node, &plan.of_link));
        whole
    }

    /// Nothing is divided any more.
    fn close_borders(&mut self) {
        self.hops.iter_mut().filter(|hop| hop.is_across()).for_each(|hop| *hop = hop.within());
        // A link that is fused in the whole has no arrivals of its own.
        self.cx.engine.events -= self.unfused.drain(..).map(|link| self.links.taken(link)).sum::<u64>();
    }
}
