//! Static shortest-path routes: least total cost, then fewest hops, then the path whose first differing link has the
//! lower id.
//!
//! Hosts never forward, so only routers take part in the search; a host behind a single router is reached through it. One
//! search from each destination (or its router) that a flow really uses, backwards over the links, gives the paths of all
//! flows to it. Directions are independent: a flow's two paths may differ.
//!
//! Of a host that roams only the links of one association at a time count. A flow with such an end has paths for every
//! association ([`Variants`]), found with the links of the others left out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::error::BuildError;
use airtcp_core::wifi::ApQueue;

use crate::spec::{AirSpec, LinkId, LinkSpec, NodeId, RoamingSpec, RunSpec, Traffic};

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
    /// By flow: where in `hops` its path begins, forward and reverse; with roaming ends that of their first candidates.
    pub start: Vec<[u32; 2]>,
    /// Flows with roaming ends, in order.
    pub variants: Vec<Variants>,
    /// By roaming host, if its access points forward: for each candidate that it left and each where it is, where in `hops` the path
    /// from the access point to it begins.
    pub onward: Vec<Vec<Vec<u32>>>,
}

/// The paths of a flow with roaming ends.
#[derive(Debug, Clone, Default)]
pub struct Variants {
    pub flow: u32,
    /// Ends, as indices into [`RunSpec::roaming`]; `None`: does not roam.
    pub ends: [Option<u32>; 2],
    /// By association of `from`, then of `to`: as [`Routes::start`].
    pub start: Vec<Vec<[u32; 2]>>,
}

impl Routes {
    pub fn new(spec: &RunSpec) -> Result<Routes, BuildError> {
        let mut routes = Routes { hops: Vec::new(), start: vec![[0; 2]; spec.flows.len()], ..Routes::default() };
        let graph = Graph::new(spec, &BTreeSet::new())?;
        let roaming: BTreeMap<NodeId, u32> = spec.roaming.iter().zip(0..).map(|(r, i)| (r.node, i)).collect();
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
            let ends = [flow.from, flow.to].map(|node| roaming.get(&node).copied());
            if ends != [None; 2] {
                routes.variants.push(Variants { flow: i as u32, ends, start: Vec::new() });
                continue;
            }
            wanted.push((graph.root_for(flow.to), i as u32, false));
            wanted.push((graph.root_for(flow.from), i as u32, true));
        }
        wanted.sort_unstable();
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
        routes.add_variants(spec, &mut search)?;
        routes.add_onward(spec, &mut search)?;
        Ok(routes)
    }

    fn add_variants(&mut self, spec: &RunSpec, search: &mut Search) -> Result<(), BuildError> {
        let mut variants = std::mem::take(&mut self.variants);
        for v in &mut variants {
            let flow = &spec.flows[v.flow as usize];
            let roaming = v.ends.map(|end| end.map(|r| &spec.roaming[r as usize]));
            let [from_count, to_count] = roaming.map(|r| r.map_or(1, |r| r.candidates.len()));
            for a in 0..from_count {
                v.start.push(Vec::with_capacity(to_count));
                for b in 0..to_count {
                    let closed = roaming.iter().zip([a, b]).filter_map(|(r, at)| Some((*(r.as_ref()?), at)));
                    let closed = closed.flat_map(|(r, at)| closed_links(spec, r, at)).collect();
                    let graph = Graph::new(spec, &closed)?;
                    let mut path = |from: NodeId, to: NodeId| {
                        search.run(&graph, spec, graph.root_for(to));
                        let start = self.hops.len() as u32;
                        let name = |n: NodeId| spec.nodes[n.0 as usize].name.clone();
                        match search.write_path(&graph, spec, from.0, to.0, &mut self.hops) {
                            true => Ok(start),
                            false => {
                                Err(BuildError::NoRoute { flow: flow.name.clone(), from: name(from), to: name(to) })
                            }
                        }
                    };
                    v.start[a].push([path(flow.from, flow.to)?, path(flow.to, flow.from)?]);
                }
            }
            self.start[v.flow as usize] = v.start[0][0];
        }
        self.variants = variants;
        Ok(())
    }

    fn add_onward(&mut self, spec: &RunSpec, search: &mut Search) -> Result<(), BuildError> {
        for r in &spec.roaming {
            let mut onward = Vec::new();
            if r.ap_queue == ApQueue::Forward {
                onward = vec![Vec::new(); r.candidates.len()];
                for (b, &there) in r.candidates.iter().enumerate() {
                    let graph = Graph::new(spec, &closed_links(spec, r, b).collect())?;
                    search.run(&graph, spec, graph.root_for(r.node));
                    for (a, &left) in r.candidates.iter().enumerate() {
                        onward[a].push(self.hops.len() as u32);
                        let access_point = |up: LinkId| spec.links[up.0 as usize].to;
                        if !search.write_path(&graph, spec, access_point(left).0, r.node.0, &mut self.hops) {
                            let name = |n: NodeId| spec.nodes[n.0 as usize].name.clone();
                            let (from, to) = (name(access_point(left)), name(access_point(there)));
                            return Err(BuildError::NoForwarding { node: name(r.node), from, to });
                        }
                    }
                }
            }
            self.onward.push(onward);
        }
        Ok(())
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

/// Air links of a host that are not there while it is with one of its candidates.
fn closed_links<'a>(spec: &'a RunSpec, roaming: &'a RoamingSpec, at: usize) -> impl Iterator<Item = u32> + 'a {
    let pair = |air: AirSpec| (air.channel, air.pair);
    let air = |id: LinkId| spec.links[id.0 as usize].air.map(pair);
    let open = roaming.candidates.get(at).and_then(|&id| air(id));
    let others: BTreeSet<_> =
        roaming.candidates.iter().filter_map(|&id| air(id)).filter(|&p| Some(p) != open).collect();
    let is_closed = move |l: &LinkSpec| l.air.is_some_and(|a| !a.is_group && others.contains(&pair(a)));
    (0u32..).zip(&spec.links).filter(move |(_, l)| is_closed(l)).map(|(id, _)| id)
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
    /// `closed`: links that count as not there.
    fn new(spec: &RunSpec, closed: &BTreeSet<u32>) -> Result<Graph, BuildError> {
        let n = spec.nodes.len();
        for link in &spec.links {
            check_index(|| format!("link `{}`", link.name), "node", link.from.0.max(link.to.0), n)?;
        }
        let (out_start, out) = by_node(n, spec, closed, |l| Some(l.from));
        // A host may begin a path, but it is looked at from its own links: the search crosses routers only.
        let (in_start, into) = by_node(n, spec, closed, |l| (!spec.nodes[l.from.0 as usize].is_host).then_some(l.to));
        let mut single = vec![None; n];
        let mut several = vec![false; n];
        for (id, link) in spec.links.iter().enumerate() {
            let to = link.to.0 as usize;
            if !spec.nodes[to].is_host || closed.contains(&(id as u32)) {
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
fn by_node(
    n: usize,
    spec: &RunSpec,
    closed: &BTreeSet<u32>,
    key: impl Fn(&LinkSpec) -> Option<NodeId>,
) -> (Vec<u32>, Vec<u32>) {
    let open = || (0u32..).zip(&spec.links).filter(|(id, _)| closed.is_empty() || !closed.contains(id));
    let mut start = vec![0u32; n + 1];
    for node in open().filter_map(|(_, link)| key(link)) {
        start[node.0 as usize + 1] += 1;
    }
    for i in 0..n {
        start[i + 1] += start[i];
    }
    let mut next = start.clone();
    let mut ids = vec![0; start[n] as usize];
    for (id, link) in open() {
        if let Some(node) = key(link) {
            ids[next[node.0 as usize] as usize] = id;
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
