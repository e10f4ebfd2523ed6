//! Static shortest-path routes: least total cost, then fewest hops, then the path whose first differing link has the
//! lower id.
//!
//! Hosts never forward, so only routers take part in the search; a host behind a single router is reached through it. One
//! search from each destination (or its router) that a flow really uses, backwards over the links, gives the paths of all
//! flows to it. Directions are independent: a flow's two paths may differ.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::BuildError;
use crate::spec::{AirSpec, LinkId, NodeId, RunSpec, Traffic};

/// Ends a path in [`Routes::hops`].
pub const END: u32 = u32::MAX >> 1;
/// Added to the id of a link that is fused with the one before it (see [`crate::link`]); links with an id like [`END`]
/// there cannot be.
pub const FUSED: u32 = 1 << 31;

/// The paths of all flows.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// Link ids, path after path, each followed by [`END`].
    pub hops: Vec<u32>,
    /// By flow: where in `hops` its path begins, forward and reverse.
    pub start: Vec<[u32; 2]>,
}

impl Routes {
    pub fn new(spec: &RunSpec) -> Result<Routes, BuildError> {
        let graph = Graph::new(spec)?;
        // (search from, flow, reverse): sorted, so that one search serves all paths to one place.
        let mut wanted: Vec<(u32, u32, bool)> = Vec::with_capacity(2 * spec.flows.len());
        for (i, flow) in spec.flows.iter().enumerate() {
            for node in [flow.from, flow.to] {
                check_index(|| format!("flow `{}`", flow.name), "node", node.0, spec.nodes.len())?;
            }
            if flow.from == flow.to {
                return Err(BuildError::SameNode {
                    flow: flow.name.clone(),
                    node: spec.nodes[flow.from.0 as usize].name.clone(),
                });
            }
            wanted.push((graph.root_for(flow.to), i as u32, false));
            wanted.push((graph.root_for(flow.from), i as u32, true));
        }
        wanted.sort_unstable();
        let mut routes = Routes { hops: Vec::new(), start: vec![[0; 2]; spec.flows.len()] };
        let n = spec.nodes.len();
        let mut search = Search { best: vec![FAR; n], next: vec![END; n], heap: BinaryHeap::new() };
        for same_root in wanted.chunk_by(|a, b| a.0 == b.0) {
            let root = same_root[0].0;
            search.run(&graph, spec, root);
            for &(_, i, reverse) in same_root {
                let flow = &spec.flows[i as usize];
                let (from, to) = if reverse { (flow.to, flow.from) } else { (flow.from, flow.to) };
                routes.start[i as usize][usize::from(reverse)] = routes.hops.len() as u32;
                if !search.write_path(&graph, spec, from.0, to.0, &mut routes.hops) {
                    let name = |n: NodeId| spec.nodes[n.0 as usize].name.clone();
                    return Err(BuildError::NoRoute { flow: flow.name.clone(), from: name(from), to: name(to) });
                }
                if let (Traffic::Daemon(_), false) = (&flow.traffic, reverse) {
                    add_group(spec, routes.start[i as usize][0], &mut routes.hops);
                }
            }
        }
        Ok(routes)
    }

    /// The links of one direction of a flow, in order.
    pub fn path(&self, flow: usize, reverse: bool) -> impl Iterator<Item = LinkId> + '_ {
        let start = self.start[flow][usize::from(reverse)] as usize;
        self.hops[start..].iter().take_while(|&&l| l != END).map(|&l| LinkId(l))
    }
}

pub(crate) fn check_index(
    what: impl Fn() -> String,
    kind: &'static str,
    index: u32,
    count: usize,
) -> Result<(), BuildError> {
    if (index as usize) < count { Ok(()) } else { Err(BuildError::BadIndex { what: what(), kind, index, count }) }
}

/// Links by the node they leave, and links between routers by the node they enter.
struct Graph {
    out_start: Vec<u32>,
    out: Vec<u32>,
    in_start: Vec<u32>,
    into: Vec<u32>,
    /// By node: the one router that every link into this host comes from, and the best of these links.
    single: Vec<Option<(u32, u32)>>,
}

impl Graph {
    fn new(spec: &RunSpec) -> Result<Graph, BuildError> {
        let n = spec.nodes.len();
        for link in &spec.links {
            check_index(|| format!("link `{}`", link.name), "node", link.from.0.max(link.to.0), n)?;
        }
        let (out_start, out) = by_node(n, spec, |l| Some(l.from));
        // A host may begin a path, but it is looked at from its own links: the search crosses routers only.
        let (in_start, into) = by_node(n, spec, |l| (!spec.nodes[l.from.0 as usize].is_host).then_some(l.to));
        let mut single = vec![None; n];
        let mut several = vec![false; n];
        for (id, link) in spec.links.iter().enumerate() {
            let to = link.to.0 as usize;
            if !spec.nodes[to].is_host {
                continue;
            }
            match &mut single[to] {
                place @ None => *place = Some((link.from.0, id as u32)),
                Some((from, best)) => {
                    several[to] |= *from != link.from.0;
                    if link.cost < spec.links[*best as usize].cost {
                        *best = id as u32;
                    }
                }
            }
        }
        for (node, place) in single.iter_mut().enumerate() {
            *place = place.filter(|&(from, _)| !several[node] && !spec.nodes[from as usize].is_host);
        }
        Ok(Graph { out_start, out, in_start, into, single })
    }

    fn outgoing(&self, node: u32) -> &[u32] {
        &self.out[self.out_start[node as usize] as usize..self.out_start[node as usize + 1] as usize]
    }
    fn incoming(&self, node: u32) -> &[u32] {
        &self.into[self.in_start[node as usize] as usize..self.in_start[node as usize + 1] as usize]
    }
    /// Where to search from for paths to `node`.
    fn root_for(&self, node: NodeId) -> u32 {
        self.single[node.0 as usize].map_or(node.0, |(router, _)| router)
    }
}

/// Link ids grouped by the node that `key` gives, ascending within a group.
fn by_node(n: usize, spec: &RunSpec, key: impl Fn(&crate::spec::LinkSpec) -> Option<NodeId>) -> (Vec<u32>, Vec<u32>) {
    let mut start = vec![0u32; n + 1];
    for node in spec.links.iter().filter_map(&key) {
        start[node.0 as usize + 1] += 1;
    }
    for i in 0..n {
        start[i + 1] += start[i];
    }
    let mut next = start.clone();
    let mut ids = vec![0; start[n] as usize];
    for (id, link) in spec.links.iter().enumerate() {
        if let Some(node) = key(link) {
            ids[next[node.0 as usize] as usize] = id as u32;
            next[node.0 as usize] += 1;
        }
    }
    (start, ids)
}

/// At its access point an announcement goes to all stations.
fn add_group(spec: &RunSpec, start: u32, hops: &mut Vec<u32>) {
    let up = &spec.links[hops[start as usize] as usize];
    let channel = up.air.map(|air| air.channel);
    let is_group = |air: AirSpec| air.is_group && Some(air.channel) == channel;
    if let Some(link) = spec.links.iter().position(|l| l.from == up.to && l.air.is_some_and(is_group)) {
        hops.pop();
        hops.extend([link as u32, END]);
    }
}

/// Cost and hops.
type Distance = (u64, u32);
const FAR: Distance = (u64::MAX, u32::MAX);

struct Search {
    /// Distance from each router to the root of the search.
    best: Vec<Distance>,
    /// First link from each node that a path has led through; [`END`] if not yet known.
    next: Vec<u32>,
    heap: BinaryHeap<Reverse<(Distance, u32)>>,
}

impl Search {
    /// Dijkstra, backwards from `root`.
    fn run(&mut self, graph: &Graph, spec: &RunSpec, root: u32) {
        self.best.fill(FAR);
        self.next.fill(END);
        self.best[root as usize] = (0, 0);
        self.heap.push(Reverse(((0, 0), root)));
        while let Some(Reverse((distance, node))) = self.heap.pop() {
            if distance > self.best[node as usize] {
                continue;
            }
            for &id in graph.incoming(node) {
                let link = &spec.links[id as usize];
                let through = step(distance, link.cost);
                let from = link.from.0;
                if through < self.best[from as usize] {
                    self.best[from as usize] = through;
                    self.heap.push(Reverse((through, from)));
                }
            }
        }
    }

    /// Appends the path; false, with nothing useful appended, if there is none.
    fn write_path(&mut self, graph: &Graph, spec: &RunSpec, from: u32, to: u32, hops: &mut Vec<u32>) -> bool {
        let (root, last_link) = match graph.single[to as usize] {
            Some((router, link)) => (router, Some(link)),
            None => (to, None),
        };
        let mut at = from;
        while at != root {
            if self.next[at as usize] == END {
                self.next[at as usize] = self.best_link(graph, spec, at, root);
            }
            let link = self.next[at as usize];
            if link == END {
                return false;
            }
            hops.push(link);
            at = spec.links[link as usize].to.0;
        }
        hops.extend(last_link);
        hops.push(END);
        true
    }

    fn best_link(&self, graph: &Graph, spec: &RunSpec, at: u32, root: u32) -> u32 {
        // Links are in ascending order and only a smaller distance replaces the choice: ties go to the lower id.
        let mut choice = (FAR, END);
        for &id in graph.outgoing(at) {
            let link = &spec.links[id as usize];
            let next = link.to.0;
            let there = self.best[next as usize];
            let may_pass = next == root || !spec.nodes[next as usize].is_host;
            if may_pass && there != FAR && step(there, link.cost) < choice.0 {
                choice = (step(there, link.cost), id);
            }
        }
        choice.1
    }
}

fn step((cost, hops): Distance, link_cost: u32) -> Distance {
    (cost.saturating_add(u64::from(link_cost)), hops + 1)
}
