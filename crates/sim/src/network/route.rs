//! Static shortest-path routes: least total cost, then fewest hops, then the path whose first
//! differing link has the lower id.
//!
//! Hosts never forward, so only routers take part in the search; a host behind a single router is
//! reached through it. One search from each destination (or its router) that a flow really uses,
//! backwards over the links, gives the paths of all flows to it. Directions are independent: a
//! flow's two paths may differ.
//!
//! Links of one association at a time count for a host that roams. A flow with such an end has
//! paths for every association ([`Variants`]), found with the links of the others left out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::error::BuildError;
use airtcp_core::convert::count;
use airtcp_core::packet::FlowId;
use airtcp_core::wifi::ApQueue;

use crate::path::{Hop, Place, Variants};
use crate::spec::{AirSpec, LinkId, LinkSpec, NodeId, RoamingSpec, RunSpec, Traffic};

/// The paths of all flows.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// Links, path after path, each followed by [`Hop::END`].
    pub hops: Vec<Hop>,
    /// By flow: where in `hops` its path begins, forward and reverse; with roaming ends that of
    /// their first candidates.
    pub start: Vec<[Place; 2]>,
    /// Flows with roaming ends, in order.
    pub variants: Vec<Variants>,
    /// By roaming host, if its access points forward: for each candidate that it left and each
    /// where it is, where in `hops` the path from the access point to it begins.
    pub onward: Vec<Vec<Vec<Place>>>,
}

impl Routes {
    /// Best paths of all flows, and what a run names is there.
    pub(crate) fn checked(spec: &RunSpec) -> Result<Routes, BuildError> {
        for link in &spec.links {
            if link.rate.as_bps() == 0 {
                return Err(BuildError::ZeroRate { link: link.name.clone() });
            }
        }
        let record = &spec.record;
        let lists = [
            ("link_series", &record.link_series),
            ("drops", &record.drops),
            ("capture", &record.capture),
            ("air_series", &record.air_series),
        ];
        for (what, ids) in lists {
            for id in ids {
                check_index(|| format!("record.{what}"), "link", id.0, spec.links.len())?;
            }
        }
        for &flow in &record.retransmissions {
            check_index(|| "record.retransmissions".to_owned(), "flow", flow.0, spec.flows.len())?;
        }
        let routes = Routes::new(spec)?;
        if routes.hops.len() >= Place::MAX_COUNT {
            return Err(BuildError::TooManyHops { hops: routes.hops.len() });
        }
        Ok(routes)
    }

    /// The best paths of all flows, or the first flow that has none.
    pub fn new(spec: &RunSpec) -> Result<Routes, BuildError> {
        let mut routes =
            Routes { hops: Vec::new(), start: vec![[Place::default(); 2]; spec.flows.len()], ..Routes::default() };
        let graph = Graph::new(spec, &BTreeSet::new())?;
        let roaming: BTreeMap<NodeId, u32> = spec.roaming.iter().zip(0..).map(|(r, i)| (r.node, i)).collect();
        // (search from, flow, reverse): sorted, so that one search serves all paths to one place.
        let mut wanted: Vec<(NodeId, u32, bool)> = Vec::with_capacity(2 * spec.flows.len());
        for (i, flow) in spec.flows.iter().enumerate() {
            for node in [flow.from, flow.to] {
                check_index(|| format!("flow `{}`", flow.name), "node", node.0, spec.nodes.len())?;
            }
            if flow.from == flow.to {
                return Err(BuildError::SameNode {
                    flow: flow.name.clone(),
                    node: spec.nodes[flow.from.index()].name.clone(),
                });
            }
            let ends = [flow.from, flow.to].map(|node| roaming.get(&node).copied());
            if ends != [None; 2] {
                routes.variants.push(Variants { flow: FlowId(count(i)), ends, start: Vec::new() });
                continue;
            }
            wanted.push((graph.root_for(flow.to), count(i), false));
            wanted.push((graph.root_for(flow.from), count(i), true));
        }
        wanted.sort_unstable();
        let n = spec.nodes.len();
        let mut search = Search { best: vec![FAR; n], next: vec![None; n], heap: BinaryHeap::new() };
        for same_root in wanted.chunk_by(|a, b| a.0 == b.0) {
            let root = same_root[0].0;
            search.run(&graph, spec, root);
            for &(_, i, reverse) in same_root {
                let flow = &spec.flows[i as usize];
                let (from, to) = if reverse { (flow.to, flow.from) } else { (flow.from, flow.to) };
                routes.start[i as usize][usize::from(reverse)] = routes.here();
                if !search.write_path(&graph, spec, from, to, &mut routes.hops) {
                    let name = |n: NodeId| spec.nodes[n.index()].name.clone();
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
            let flow = &spec.flows[v.flow.0 as usize];
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
                        let start = self.here();
                        let name = |n: NodeId| spec.nodes[n.index()].name.clone();
                        match search.write_path(&graph, spec, from, to, &mut self.hops) {
                            true => Ok(start),
                            false => {
                                Err(BuildError::NoRoute { flow: flow.name.clone(), from: name(from), to: name(to) })
                            }
                        }
                    };
                    v.start[a].push([path(flow.from, flow.to)?, path(flow.to, flow.from)?]);
                }
            }
            self.start[v.flow.0 as usize] = v.start[0][0];
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
                        onward[a].push(self.here());
                        let access_point = |up: LinkId| spec.links[up.index()].to;
                        if !search.write_path(&graph, spec, access_point(left), r.node, &mut self.hops) {
                            let name = |n: NodeId| spec.nodes[n.index()].name.clone();
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
    pub fn path(&self, flow: FlowId, reverse: bool) -> impl Iterator<Item = LinkId> + '_ {
        let start = self.start[flow.0 as usize][usize::from(reverse)].index();
        self.hops[start..].iter().take_while(|hop| !hop.is_end()).map(|hop| hop.link())
    }

    /// The place of what is appended next.
    fn here(&self) -> Place {
        Place::new(count(self.hops.len()))
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
fn closed_links<'a>(spec: &'a RunSpec, roaming: &'a RoamingSpec, at: usize) -> impl Iterator<Item = LinkId> + 'a {
    let pair = |air: AirSpec| (air.channel, air.pair);
    let air = |id: LinkId| spec.links[id.index()].air.map(pair);
    let open = roaming.candidates.get(at).and_then(|&id| air(id));
    let others: BTreeSet<_> =
        roaming.candidates.iter().filter_map(|&id| air(id)).filter(|&p| Some(p) != open).collect();
    let is_closed = move |l: &LinkSpec| l.air.is_some_and(|a| !a.is_group && others.contains(&pair(a)));
    (0..).map(LinkId).zip(&spec.links).filter(move |(_, l)| is_closed(l)).map(|(id, _)| id)
}

/// Links by the node they leave, and links between routers by the node they enter.
struct Graph {
    out_start: Vec<u32>,
    out: Vec<LinkId>,
    in_start: Vec<u32>,
    into: Vec<LinkId>,
    /// By node: the one router that every link into this host comes from, and the best of these
    /// links.
    single: Vec<Option<(NodeId, LinkId)>>,
}

impl Graph {
    /// `closed`: links that count as not there.
    fn new(spec: &RunSpec, closed: &BTreeSet<LinkId>) -> Result<Graph, BuildError> {
        let n = spec.nodes.len();
        for link in &spec.links {
            check_index(|| format!("link `{}`", link.name), "node", link.from.0.max(link.to.0), n)?;
        }
        let (out_start, out) = by_node(n, spec, closed, |l| Some(l.from));
        // A host may begin a path, but it is looked at from its own links: the search crosses
        // routers only.
        let (in_start, into) = by_node(n, spec, closed, |l| (!spec.nodes[l.from.index()].is_host).then_some(l.to));
        let mut single = vec![None; n];
        let mut several = vec![false; n];
        for (id, link) in (0..).map(LinkId).zip(&spec.links) {
            let to = link.to.index();
            if !spec.nodes[to].is_host || closed.contains(&id) {
                continue;
            }
            match &mut single[to] {
                place @ None => *place = Some((link.from, id)),
                Some((from, best)) => {
                    several[to] |= *from != link.from;
                    if link.cost < spec.links[best.index()].cost {
                        *best = id;
                    }
                }
            }
        }
        for (node, place) in single.iter_mut().enumerate() {
            *place = place.filter(|&(from, _)| !several[node] && !spec.nodes[from.index()].is_host);
        }
        Ok(Graph { out_start, out, in_start, into, single })
    }

    fn outgoing(&self, node: NodeId) -> &[LinkId] {
        &self.out[self.out_start[node.index()] as usize..self.out_start[node.index() + 1] as usize]
    }
    fn incoming(&self, node: NodeId) -> &[LinkId] {
        &self.into[self.in_start[node.index()] as usize..self.in_start[node.index() + 1] as usize]
    }
    /// Where to search from for paths to `node`.
    fn root_for(&self, node: NodeId) -> NodeId {
        self.single[node.index()].map_or(node, |(router, _)| router)
    }
}

/// Link ids grouped by the node that `key` gives, ascending within a group.
fn by_node(
    n: usize,
    spec: &RunSpec,
    closed: &BTreeSet<LinkId>,
    key: impl Fn(&LinkSpec) -> Option<NodeId>,
) -> (Vec<u32>, Vec<LinkId>) {
    let open = || (0..).map(LinkId).zip(&spec.links).filter(|(id, _)| closed.is_empty() || !closed.contains(id));
    let mut start = vec![0u32; n + 1];
    for node in open().filter_map(|(_, link)| key(link)) {
        start[node.index() + 1] += 1;
    }
    for i in 0..n {
        start[i + 1] += start[i];
    }
    let mut next = start.clone();
    let mut ids = vec![LinkId(0); start[n] as usize];
    for (id, link) in open() {
        if let Some(node) = key(link) {
            ids[next[node.index()] as usize] = id;
            next[node.index()] += 1;
        }
    }
    (start, ids)
}

/// At its access point an announcement goes to all stations.
fn add_group(spec: &RunSpec, start: Place, hops: &mut Vec<Hop>) {
    let up = &spec.links[hops[start.index()].link().index()];
    let channel = up.air.map(|air| air.channel);
    let is_group = |air: AirSpec| air.is_group && Some(air.channel) == channel;
    let is_it = |l: &LinkSpec| l.from == up.to && l.air.is_some_and(is_group);
    if let Some((link, _)) = (0..).map(LinkId).zip(&spec.links).find(|(_, l)| is_it(l)) {
        hops.pop();
        hops.extend([Hop::of(link), Hop::END]);
    }
}

/// Cost and hops.
type Distance = (u64, u32);
const FAR: Distance = (u64::MAX, u32::MAX);

struct Search {
    /// Distance from each router to the root of the search.
    best: Vec<Distance>,
    /// First link from each node that a path has led through, if known.
    next: Vec<Option<LinkId>>,
    heap: BinaryHeap<Reverse<(Distance, NodeId)>>,
}

impl Search {
    /// Dijkstra, backwards from `root`.
    fn run(&mut self, graph: &Graph, spec: &RunSpec, root: NodeId) {
        self.best.fill(FAR);
        self.next.fill(None);
        self.best[root.index()] = (0, 0);
        self.heap.push(Reverse(((0, 0), root)));
        while let Some(Reverse((distance, node))) = self.heap.pop() {
            if distance > self.best[node.index()] {
                continue;
            }
            for &id in graph.incoming(node) {
                let link = &spec.links[id.index()];
                let through = step(distance, link.cost);
                let from = link.from;
                if through < self.best[from.index()] {
                    self.best[from.index()] = through;
                    self.heap.push(Reverse((through, from)));
                }
            }
        }
    }

    /// Appends the path; false, with nothing useful appended, if there is none.
    fn write_path(&mut self, graph: &Graph, spec: &RunSpec, from: NodeId, to: NodeId, hops: &mut Vec<Hop>) -> bool {
        let (root, last_link) = match graph.single[to.index()] {
            Some((router, link)) => (router, Some(link)),
            None => (to, None),
        };
        let mut at = from;
        while at != root {
            if self.next[at.index()].is_none() {
                self.next[at.index()] = self.best_link(graph, spec, at, root);
            }
            let Some(link) = self.next[at.index()] else { return false };
            hops.push(Hop::of(link));
            at = spec.links[link.index()].to;
        }
        hops.extend(last_link.map(Hop::of));
        hops.push(Hop::END);
        true
    }

    fn best_link(&self, graph: &Graph, spec: &RunSpec, at: NodeId, root: NodeId) -> Option<LinkId> {
        // Links are in ascending order and only a smaller distance replaces the choice: ties go to
        // the lower id.
        let mut choice = (FAR, None);
        for &id in graph.outgoing(at) {
            let link = &spec.links[id.index()];
            let next = link.to;
            let there = self.best[next.index()];
            let may_pass = next == root || !spec.nodes[next.index()].is_host;
            if may_pass && there != FAR && step(there, link.cost) < choice.0 {
                choice = (step(there, link.cost), Some(id));
            }
        }
        choice.1
    }
}

fn step((cost, hops): Distance, link_cost: u32) -> Distance {
    (cost.saturating_add(u64::from(link_cost)), hops + 1)
}
