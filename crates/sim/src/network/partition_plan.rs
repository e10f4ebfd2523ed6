//! Plan of partitions: where a world can be divided, at lines with delay.
//!
//! Links, channels and hosts are divided: all the state of a network is theirs. An element that
//! packets leave without delay (a source, a channel) and the one that they come to then stay
//! together. From there on elements are joined over ever longer lines, as long as none grows beyond
//! a part's share of the work; what is left is spread over the parts, the heaviest first.
//!
//! Parts need not stand at the same time. If packets take 5 ms from a server to cells and 0.1 ms
//! back, the cells may be ahead: each part has a lead, and the lookahead is the mean of both ways,
//! not the lesser. In general it is the least mean delay of any circle through parts.

use std::collections::BTreeMap;

use airtcp_core::convert::{count, low16};
use airtcp_core::packet::FlowId;
use airtcp_core::units::Span;

use super::link::Links;
use super::route::Routes;
use crate::path::Hop;
use crate::spec::{FlowSpec, LinkId, NodeId, RunSpec, Traffic};

/// A division of a world.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionPlan {
    /// How far all parts go on in one step.
    pub lookahead: Span,
    /// By part: how far it is behind the part that is farthest ahead.
    pub behind: Vec<Span>,
    /// How many there are.
    pub parts: usize,
    /// The share of the work that the part with the most of it has, as far as the paths tell.
    pub greatest_share: f64,
    /// By node, of hosts: its part.
    pub of_node: Vec<u16>,
    /// By link: its part.
    pub of_link: Vec<u16>,
    /// By place: the part of the link or the host that it is.
    pub of_place: Vec<u16>,
}

/// How much more than its share of the work a part may get, percent.
const TOLERANCE: u64 = 3;

/// Costs of a packet at its source, its destination, a line and a channel; about.
const SOURCE: u64 = 3;
const DESTINATION: u64 = 2;
const LINE: u64 = 1;
const AIR: u64 = 8;

/// Elements of a network that may be divided, and the delays between them.
pub(crate) struct Elements {
    numbers: Numbers,
    /// Sets of elements that nothing may divide.
    together: Together,
    /// By element: its share of the work.
    weight: Vec<u64>,
    /// From one element to another: the least delay.
    ways: BTreeMap<(usize, usize), Span>,
}

impl Elements {
    /// `None`: it stays whole.
    pub(crate) fn new(spec: &RunSpec, routes: &Routes) -> Option<Elements> {
        let record = &spec.record;
        let is_whole = !spec.roaming.is_empty()
            || !spec.walks.is_empty()
            || !spec.external.hosts.is_empty()
            || spec.duration == Span::MAX
            || !record.capture.is_empty()
            || !record.capture_air.is_empty()
            || !record.ppdus.is_empty()
            || spec.flows.iter().any(|flow| matches!(flow.traffic, Traffic::Daemon(_) | Traffic::External));
        if is_whole {
            return None;
        }
        let numbers = Numbers { links: spec.links.len(), channels: spec.channels.len() };
        let mut together = Together::new(numbers.links + numbers.channels + spec.nodes.len());
        let mut weight = vec![0u64; together.0.len()];
        let mut ways: BTreeMap<(usize, usize), Span> = BTreeMap::new();
        for (i, flow) in spec.flows.iter().enumerate() {
            let id = FlowId(count(i));
            let air = |link: LinkId| spec.links[link.index()].air;
            // A channel tells the source of each of its packets that has left a radio, wherever
            // that is.
            let mut forward = routes.path(id, false);
            let is_notified = forward.next().is_some_and(|l| air(l).is_some()) && forward.any(|l| air(l).is_some());
            let stays = is_notified || !may_part(spec, id, flow);
            let ends = [numbers.node(flow.from), numbers.node(flow.to)];
            weight[ends[0]] += SOURCE;
            weight[ends[1]] += DESTINATION;
            for (is_reverse, [first, last]) in [(false, ends), (true, [ends[1], ends[0]])] {
                let (mut before, mut delay) = (first, Span::ZERO);
                for link in routes.path(id, is_reverse) {
                    let here = numbers.link(spec, link);
                    step(&mut ways, before, here, delay);
                    weight[here] += if air(link).is_some() { AIR } else { LINE };
                    let delay_of_link = if air(link).is_some() { Span::ZERO } else { spec.links[link.index()].delay };
                    (before, delay) = (here, delay_of_link);
                    if stays {
                        together.unite(first, here);
                    }
                }
                step(&mut ways, before, last, delay);
            }
            if stays {
                together.unite(ends[0], ends[1]);
            }
        }
        for (&(from, to), _) in ways.iter().filter(|(_, delay)| delay.is_zero()) {
            together.unite(from, to);
        }
        Some(Elements { numbers, together, weight, ways })
    }

    /// By set of elements that nothing divides, at its least: its share of the work.
    fn load(&mut self) -> Vec<u64> {
        let mut load = vec![0u64; self.weight.len()];
        for (element, weight) in self.weight.iter().enumerate() {
            load[self.together.root(element)] += weight;
        }
        load
    }

    /// Unites what is near, as long as nothing grows beyond `most` of the work. Returns the share
    /// of each set.
    fn gather(&mut self, most: u64) -> Vec<u64> {
        let mut load = self.load();
        let mut ordered: Vec<(Span, usize, usize)> =
            self.ways.iter().map(|(&(from, to), &delay)| (delay, from, to)).collect();
        ordered.sort_unstable();
        for (_, from, to) in ordered {
            let (a, b) = (self.together.root(from), self.together.root(to));
            if a != b && load[a] + load[b] <= most {
                self.together.unite(a, b);
                load[a.min(b)] = load[a] + load[b];
            }
        }
        load
    }

    /// The parts of nodes, links and places, given that of each element.
    pub(crate) fn places(&self, spec: &RunSpec, routes: &Routes, of_element: &[u16]) -> [Vec<u16>; 3] {
        let of_node: Vec<u16> =
            (0..count(spec.nodes.len())).map(|n| of_element[self.numbers.node(NodeId(n))]).collect();
        let of_link: Vec<u16> =
            LinkId::all(spec.links.len()).map(|link| of_element[self.numbers.link(spec, link)]).collect();
        let of_place = places(spec, routes, &of_node, &of_link);
        [of_node, of_link, of_place]
    }
}

impl PartitionPlan {
    /// The best division into that many parts or fewer; `None`: there is none.
    pub(crate) fn new(spec: &RunSpec, routes: &Routes, elements: &mut Elements, parts: usize) -> Option<PartitionPlan> {
        if parts < 2 {
            return None;
        }
        let of_element = spread(elements, parts as u64)?;
        let weight = &elements.weight;
        let count_of =
            |part: u16| weight.iter().zip(&of_element).filter(|(_, p)| **p == part).map(|(w, _)| w).sum::<u64>();
        let parts = usize::from(of_element.iter().copied().max()?) + 1;
        let greatest = (0..low16(parts as u64)).map(count_of).max()?;
        let greatest_share = greatest as f64 / weight.iter().sum::<u64>() as f64;

        let mut delays = vec![vec![None::<Span>; parts]; parts];
        for (&(from, to), &delay) in &elements.ways {
            let [from, to] = [from, to].map(|element| usize::from(of_element[element]));
            if from != to {
                let least = &mut delays[from][to];
                *least = Some(least.map_or(delay, |least| least.min(delay)));
            }
        }
        let (lookahead, behind) = longest_lookahead(&delays)?;
        let [of_node, of_link, of_place] = elements.places(spec, routes, &of_element);
        Some(PartitionPlan { lookahead, behind, parts, greatest_share, of_node, of_link, of_place })
    }
}

/// Numbers of what is divided: wired links, channels, and hosts.
struct Numbers {
    links: usize,
    channels: usize,
}

impl Numbers {
    fn link(&self, spec: &RunSpec, link: LinkId) -> usize {
        spec.links[link.index()].air.map_or(link.index(), |air| self.links + air.channel.index())
    }
    fn node(&self, node: NodeId) -> usize {
        self.links + self.channels + node.index()
    }
}

/// Notes a way from one element to the next.
fn step(ways: &mut BTreeMap<(usize, usize), Span>, from: usize, to: usize, delay: Span) {
    let least = ways.entry((from, to)).or_insert(delay);
    *least = delay.min(*least);
}

/// The two ends of a flow may be in different parts.
fn may_part(spec: &RunSpec, id: FlowId, flow: &FlowSpec) -> bool {
    flow.traffic.may_part() && spec.record.retransmissions.binary_search(&id).is_err()
}

/// By element: its part. `None`: all work is in one place.
fn spread(elements: &mut Elements, parts: u64) -> Option<Vec<u16>> {
    let all: u64 = elements.weight.iter().sum();
    let load = elements.gather(all * (100 + TOLERANCE) / (100 * parts));
    let count = elements.weight.len();
    let mut order: Vec<(u64, usize)> =
        (0..count).filter(|&e| elements.together.root(e) == e && load[e] > 0).map(|e| (load[e], e)).collect();
    if order.len() < 2 {
        return None;
    }
    order.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut loads = vec![0u64; order.len().min(usize::try_from(parts).ok()?)];
    let mut part_of = vec![0u16; count];
    for (weight, root) in order {
        let part = (0..loads.len()).min_by_key(|&i| (loads[i], i))?;
        loads[part] += weight;
        part_of[root] = low16(part as u64);
    }
    Some((0..count).map(|element| part_of[elements.together.root(element)]).collect())
}

/// The longest lookahead that least delays between parts allow, and how far each part is behind.
/// `None`: there is no lookahead at all.
///
/// In a step a part goes on from some time to a lookahead later. A packet that it sends in the step
/// reaches another part a delay after the step's begin at the earliest. That must not be before the
/// end of the other's step. With `lead` for how far parts are ahead: `lookahead <= delay +
/// lead(from) - lead(to)`.
fn longest_lookahead(delays: &[Vec<Option<Span>>]) -> Option<(Span, Vec<Span>)> {
    let longest = delays.iter().flatten().flatten().copied().max().unwrap_or(Span::from_secs(1));
    let ns = Span::from_ns(1);
    let (mut fits, mut too_long) = (Span::ZERO, longest + ns);
    let mut leads = leads(delays, fits)?;
    while too_long.saturating_sub(fits) > ns {
        let middle = fits + too_long.saturating_sub(fits) / 2;
        match self::leads(delays, middle) {
            Some(found) => (fits, leads) = (middle, found),
            None => too_long = middle,
        }
    }
    let ahead = leads.iter().copied().max()?;
    let behind = leads.iter().map(|lead| Span::from_ns(ahead.abs_diff(*lead))).collect();
    (!fits.is_zero()).then_some((fits, behind))
}

/// A lead for each part with which that lookahead is not too long (Bellman and Ford).
fn leads(delays: &[Vec<Option<Span>>], lookahead: Span) -> Option<Vec<i64>> {
    let mut leads = vec![0i64; delays.len()];
    for _ in 0..=delays.len() {
        let mut is_settled = true;
        for (from, row) in delays.iter().enumerate() {
            for (to, delay) in row.iter().enumerate() {
                let Some(delay) = delay else { continue };
                let most =
                    leads[from].saturating_add_unsigned(delay.as_ns()).saturating_sub_unsigned(lookahead.as_ns());
                if leads[to] > most {
                    leads[to] = most;
                    is_settled = false;
                }
            }
        }
        if is_settled {
            return Some(leads);
        }
    }
    None
}

/// By place: the part of the link or the host that it is.
fn places(spec: &RunSpec, routes: &Routes, of_node: &[u16], of_link: &[u16]) -> Vec<u16> {
    let mut of_place = vec![0; routes.hops.len()];
    for (flow, starts) in spec.flows.iter().zip(&routes.start) {
        for (start, end) in starts.iter().zip([flow.to, flow.from]) {
            for (place, hop) in routes.hops.iter().enumerate().skip(start.index()) {
                if *hop == Hop::END {
                    of_place[place] = of_node[end.index()];
                    break;
                }
                of_place[place] = of_link[hop.link().index()];
            }
        }
    }
    of_place
}

/// Takes links by themselves that are fused with one before them across a border. Returns which.
pub(crate) fn unfuse(of_place: &[u16], links: &mut Links, hops: &mut [Hop]) -> Vec<LinkId> {
    // By link: what follows it, on some path, is across a border.
    let mut is_border = vec![false; links.lines.len()];
    for (pair, of_place) in hops.windows(2).zip(of_place.windows(2)) {
        if !pair[0].is_end() && of_place[0] != of_place[1] {
            is_border[pair[0].link().index()] = true;
        }
    }
    links.unfuse(|feeder, link| is_border[feeder.index()] || is_border[link.index()], hops)
}

/// The places that lead across a border (see [`Hop::across`]).
pub(crate) fn borders(of_place: &[u16], hops: &[Hop]) -> Vec<usize> {
    let mut places = Vec::new();
    for (place, of_place) in (1..).zip(of_place.windows(2)) {
        let before = hops[place - 1];
        if !before.is_end() && of_place[0] != of_place[1] {
            places.push(if before.is_fused() { place - 1 } else { place });
        }
    }
    places
}

/// Sets of elements, each called by its least.
struct Together(Vec<usize>);

impl Together {
    fn new(elements: usize) -> Together {
        Together((0..elements).collect())
    }
    fn root(&mut self, mut element: usize) -> usize {
        while self.0[element] != element {
            self.0[element] = self.0[self.0[element]];
            element = self.0[element];
        }
        element
    }
    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookahead(delays: &[&[u64]]) -> Option<(u64, Vec<u64>)> {
        let delays: Vec<Vec<Option<Span>>> =
            delays.iter().map(|row| row.iter().map(|&d| (d != u64::MAX).then(|| Span::from_ns(d))).collect()).collect();
        longest_lookahead(&delays)
            .map(|(lookahead, behind)| (lookahead.as_ns(), behind.iter().map(|b| b.as_ns()).collect()))
    }

    #[test]
    fn the_lookahead_is_the_least_mean_of_a_circle() {
        const NO: u64 = u64::MAX;
        assert_eq!(lookahead(&[&[NO, 5000], &[5000, NO]]), Some((5000, vec![0, 0])));
        // Ahead is who hears late.
        assert_eq!(lookahead(&[&[NO, 5000], &[100, NO]]), Some((2550, vec![2450, 0])));
        assert_eq!(lookahead(&[&[NO, 0], &[0, NO]]), None);
        // Two circles of two, one of three.
        let (length, behind) = lookahead(&[&[NO, 10, NO], &[30, NO, 2], &[1, 50, NO]]).unwrap();
        assert_eq!(length, 4);
        assert_eq!(behind.len(), 3);
    }
}
