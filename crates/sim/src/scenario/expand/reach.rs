//! Which host can reach which.

use std::collections::{BTreeMap, BTreeSet};

use crate::spec::{LinkSpec, NodeId, NodeSpec};
use airtcp_core::convert::count;

/// Which host can reach which, over routers only: hosts do not forward.
pub(super) struct Reach {
    /// Component of each router under lines of both directions; of a host its own index, which is
    /// no router's.
    component: Vec<u32>,
    /// Lines from host to host.
    direct: BTreeSet<(NodeId, NodeId)>,
    /// For each host the routers its lines lead to, and those whose lines lead to it.
    out: BTreeMap<NodeId, Vec<NodeId>>,
    into: BTreeMap<NodeId, Vec<NodeId>>,
    /// Lines between routers.
    onward: BTreeMap<NodeId, Vec<NodeId>>,
    /// Some lines between routers have one direction only.
    has_one_way: bool,
}

impl Reach {
    pub(crate) fn new(nodes: &[NodeSpec], links: &[LinkSpec]) -> Reach {
        let is_host: Vec<bool> = nodes.iter().map(|n| n.is_host).collect();
        let mut component: Vec<u32> = (0..count(nodes.len())).collect();
        let (mut out, mut into, mut onward) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let push = |map: &mut BTreeMap<NodeId, Vec<NodeId>>, key, value| map.entry(key).or_default().push(value);
        let (mut between, mut direct) = (BTreeSet::new(), BTreeSet::new());
        for link in links {
            let (from_host, to_host) = (is_host[link.from.0 as usize], is_host[link.to.0 as usize]);
            // A server may have a line to each of a hundred thousand hosts, and a flow to each.
            match (from_host, to_host) {
                (true, true) => {
                    direct.insert((link.from, link.to));
                }
                (true, false) => push(&mut out, link.from, link.to),
                (false, true) => push(&mut into, link.to, link.from),
                (false, false) => {
                    push(&mut onward, link.from, link.to);
                    between.insert((link.from, link.to));
                }
            }
        }
        let mut has_one_way = false;
        for &(a, b) in &between {
            if between.contains(&(b, a)) {
                let (a, b) = (find(&mut component, a.0), find(&mut component, b.0));
                component[a.max(b) as usize] = a.min(b);
            } else {
                has_one_way = true;
            }
        }
        for i in 0..count(component.len()) {
            component[i as usize] = find(&mut component, i);
        }
        Reach { component, direct, out, into, onward, has_one_way }
    }

    pub(crate) fn connects(&self, from: NodeId, to: NodeId) -> bool {
        if self.direct.contains(&(from, to)) {
            return true;
        }
        let none = Vec::new();
        let first = self.out.get(&from).unwrap_or(&none);
        let last = self.into.get(&to).unwrap_or(&none);
        let component = |n: &NodeId| self.component[n.0 as usize];
        let goals: BTreeSet<u32> = last.iter().map(component).collect();
        if first.iter().any(|n| goals.contains(&component(n))) {
            return true;
        }
        self.has_one_way && self.search(first.clone(), &goals)
    }

    /// Walks the lines between routers in their direction.
    fn search(&self, mut open: Vec<NodeId>, goals: &BTreeSet<u32>) -> bool {
        let mut seen: BTreeSet<NodeId> = open.iter().copied().collect();
        while let Some(node) = open.pop() {
            if goals.contains(&self.component[node.0 as usize]) {
                return true;
            }
            open.extend(self.onward.get(&node).into_iter().flatten().copied().filter(|&next| seen.insert(next)));
        }
        false
    }
}

/// Representative of `i`, with path halving.
fn find(parent: &mut [u32], mut i: u32) -> u32 {
    while parent[i as usize] != i {
        parent[i as usize] = parent[parent[i as usize] as usize];
        i = parent[i as usize];
    }
    i
}
