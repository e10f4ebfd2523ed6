//! Routes against an enumeration of all paths.

use airtcp_core::packet::FlowId;
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_sim::error::BuildError;
use airtcp_sim::route::Routes;
use airtcp_sim::spec::*;
use proptest::prelude::*;

use crate::common::*;

const RATE: DataRate = DataRate::from_mbps(10);
const DELAY: Span = Span::from_ms(1);

/// Every path that visits no node twice and leads through routers only; the best by cost, hops,
/// then link ids.
fn best_path(spec: &RunSpec, from: NodeId, to: NodeId) -> Option<Vec<u32>> {
    fn extend(spec: &RunSpec, to: NodeId, at: NodeId, path: &mut Vec<u32>, all: &mut Vec<(u64, usize, Vec<u32>)>) {
        if at == to {
            let cost = path.iter().map(|&l| u64::from(spec.links[l as usize].cost)).sum();
            all.push((cost, path.len(), path.clone()));
            return;
        }
        if !path.is_empty() && spec.nodes[at.0 as usize].is_host {
            return;
        }
        for (id, link) in spec.links.iter().enumerate() {
            let seen = path.iter().any(|&l| spec.links[l as usize].from == link.to);
            if link.from == at && !seen {
                path.push(id as u32);
                extend(spec, to, link.to, path, all);
                path.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(spec, to, from, &mut Vec::new(), &mut all);
    all.into_iter().min().map(|(_, _, path)| path)
}

fn found(spec: &RunSpec, flow: usize, reverse: bool) -> Vec<u32> {
    Routes::new(spec).unwrap().path(FlowId(flow as u32), reverse).map(|l| l.0).collect()
}

#[test]
fn parking_lot() {
    let mut spec = empty(1, Span::from_secs(1));
    let routers: Vec<NodeId> = (0..4).map(|i| spec.router(&format!("r{i}"))).collect();
    let backbone: Vec<_> = (0..3).map(|i| spec.both(routers[i], routers[i + 1], RATE, DELAY)).collect();
    let a = spec.host("a");
    let b = spec.host("b");
    let (a_out, a_in) = spec.both(a, routers[0], RATE, DELAY);
    let (b_out, b_in) = spec.both(b, routers[3], RATE, DELAY);
    spec.flow(a, b, Time::ZERO, Time::NEVER, cbr(1_000_000, 100));
    let forward = [a_out, backbone[0].0, backbone[1].0, backbone[2].0, b_in].map(|l| l.0);
    let back = [b_out, backbone[2].1, backbone[1].1, backbone[0].1, a_in].map(|l| l.0);
    assert_eq!(found(&spec, 0, false), forward);
    assert_eq!(found(&spec, 0, true), back);
}

#[test]
fn each_direction_follows_its_own_costs() {
    let mut spec = empty(1, Span::from_secs(1));
    let [r1, r2, r3] = [1, 2, 3].map(|i| spec.router(&format!("r{i}")));
    let (a, b) = (spec.host("a"), spec.host("b"));
    spec.both(a, r1, RATE, DELAY);
    spec.both(b, r2, RATE, DELAY);
    let (there, back) = spec.both(r1, r2, RATE, DELAY);
    let (r1r3, _) = spec.both(r1, r3, RATE, DELAY);
    let (r3r2, _) = spec.both(r3, r2, RATE, DELAY);
    spec.links[there.0 as usize].cost = 5;
    spec.flow(a, b, Time::ZERO, Time::NEVER, cbr(1_000_000, 100));
    assert_eq!(found(&spec, 0, false)[1..3], [r1r3.0, r3r2.0]);
    assert_eq!(found(&spec, 0, true)[1], back.0);
}

#[test]
fn hosts_do_not_forward_and_the_error_names_the_flow_and_its_ends() {
    let mut spec = empty(1, Span::from_secs(1));
    let (a, middle, b) = (spec.host("a"), spec.host("middle"), spec.host("b"));
    spec.both(a, middle, RATE, DELAY);
    spec.both(middle, b, RATE, DELAY);
    spec.flow(a, b, Time::ZERO, Time::NEVER, cbr(1_000_000, 100));
    let error = Routes::new(&spec).unwrap_err();
    assert_eq!(error, BuildError::NoRoute { flow: "flow0".into(), from: "b".into(), to: "a".into() });
    spec.nodes[1].is_host = false;
    assert_eq!(found(&spec, 0, false), [0, 2]);
    spec.flow(a, a, Time::ZERO, Time::NEVER, cbr(1_000_000, 100));
    assert_eq!(Routes::new(&spec).unwrap_err(), BuildError::SameNode { flow: "flow1".into(), node: "a".into() });
}

/// Random directed links, some of cost zero, parallel ones among them.
fn networks() -> impl Strategy<Value = RunSpec> {
    let nodes = prop::collection::vec(any::<bool>(), 2..7);
    let links = prop::collection::vec((0usize..7, 0usize..7, 0u32..4), 1..16);
    (nodes, links).prop_map(|(hosts, links)| {
        let mut spec = empty(1, Span::from_secs(1));
        let nodes: Vec<NodeId> = hosts
            .iter()
            .enumerate()
            .map(|(i, &host)| if host { spec.host(&format!("h{i}")) } else { spec.router(&format!("r{i}")) })
            .collect();
        for (from, to, cost) in links {
            let (from, to) = (nodes[from % nodes.len()], nodes[to % nodes.len()]);
            if from != to {
                let id = spec.link(from, to, RATE, DELAY, fifo(None, None));
                spec.links[id.0 as usize].cost = cost;
            }
        }
        spec
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_route_is_the_best_of_all_paths(spec in networks()) {
        let n = spec.nodes.len() as u32;
        let pairs = || (0..n).flat_map(|a| (0..n).map(move |b| (NodeId(a), NodeId(b)))).filter(|(a, b)| a != b);
        // All pairs that are connected both ways, in one world, so that searches are shared.
        let mut all = spec.clone();
        for (from, to) in pairs() {
            let mut one = spec.clone();
            one.flow(from, to, Time::ZERO, Time::NEVER, cbr(1_000_000, 100));
            if best_path(&spec, from, to).is_some() && best_path(&spec, to, from).is_some() {
                all.flow(from, to, Time::ZERO, Time::NEVER, cbr(1_000_000, 100));
            } else {
                prop_assert!(matches!(Routes::new(&one), Err(BuildError::NoRoute { .. })), "no error");
            }
        }
        let routes = Routes::new(&all).unwrap();
        for (i, flow) in all.flows.iter().enumerate() {
            let path = |reverse| routes.path(FlowId(i as u32), reverse).map(|l| l.0).collect::<Vec<_>>();
            prop_assert_eq!(path(false), best_path(&all, flow.from, flow.to).unwrap());
            prop_assert_eq!(path(true), best_path(&all, flow.to, flow.from).unwrap());
        }
    }
}
