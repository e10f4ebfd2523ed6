//! One world of all its parts, at the end of a run: each component as it is in the part that has
//! it.

use super::World;
use crate::books::record::Log;
use crate::books::totals::Totals;
use crate::engine::packets_in_flight::DelayFifo;
use crate::traffic::AnyEnds;

impl World {
    /// Joins all partitions of a world. [`World::finish`] of the whole gives what it would have
    /// given undivided. It cannot go on: packets remain in their partitions.
    pub(crate) fn join(mut parts: Vec<World>) -> World {
        let Some(borders) = parts[0].network.take_borders() else { return parts.swap_remove(0) };
        let (spec, plan) = (std::sync::Arc::clone(&parts[0].spec), borders.plan());

        let mut ends = Vec::with_capacity(spec.flows.len());
        for (i, flow) in spec.flows.iter().enumerate() {
            let [source, destination] = [flow.from, flow.to].map(|node| usize::from(plan.of_node[node.index()]));
            let mut take = |part: usize| std::mem::replace(&mut parts[part].hosts.flows[i].ends, AnyEnds::elsewhere());
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
            whole.network.take_from(&mut part.network, |link| plan.of_link[link.index()] == number);
            // Links that are fused know from what is in flight what has not happened yet.
            let in_flight = part.cx.engine.in_flight.iter();
            in_flight.for_each(|&entry| whole.cx.engine.in_flight.insert(entry, DelayFifo::NONE));
            for (own, other) in whole.hosts.flows.iter_mut().zip(&part.hosts.flows) {
                own.dropped_at_queues += other.dropped_at_queues;
                own.lost_on_lines += other.lost_on_lines;
            }
            whole.cx.books.ledger.join(&part.cx.books.ledger);
            // The whole samples once.
            whole.cx.engine.events += part.cx.engine.events - part.cx.books.sampler.taken;
        }
        whole.cx.engine.events -= whole.network.close_borders();
        for (flow, ends) in whole.hosts.flows.iter_mut().zip(ends) {
            flow.ends = ends;
        }
        whole.cx.books.log = Log::join(logs, &spec);
        whole.cx.books.warm = warm.map(|all| Totals::join(&all, &spec, &plan.of_node, &plan.of_link));
        whole
    }
}
