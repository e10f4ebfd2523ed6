//! Every way to compute the departures of drop-tail links gives what the specification of them
//! gives: times, fates and counters.

use std::collections::BTreeSet;

use airtcp_core::units::{Span, Time};
use proptest::prelude::*;

use crate::capture::NoCapture;
use crate::network::link::{Departures, LinkKind};
use crate::scenario::Scenario;
use crate::spec::{LinkId, RunSpec};
use crate::world::World;

/// Hosts on both sides of a line. With more than seven of them there are more links than FIFOs.
fn dumbbell(hosts: usize, rates: [u64; 2], limit: u32, loss: f64, seed: u64) -> RunSpec {
    let [access, line] = rates;
    let text = format!(
        r#"
        duration = "600ms"
        seed = {seed}
        nodes = [
            {{ name = "a", kind = "host", count = {hosts}, profile = "linux-6" }},
            {{ name = "b", kind = "host", count = {hosts}, profile = "linux-6" }},
            {{ name = "p", kind = "router" }},
            {{ name = "q", kind = "router" }},
        ]
        links = [
            {{ from = "a", to = "p", rate = "{access}Mbit/s", delay = "1ms" }},
            {{ name = "line", from = "p", to = "q", rate = "{line}Mbit/s", delay = "3ms", loss = {loss}, queue = {{ name = "fifo", limit_packets = {limit} }} }},
            {{ from = "q", to = "b", rate = "{access}Mbit/s", delay = "1ms" }},
        ]
        flows = [
            {{ name = "tcp", from = "a", to = "b", count = {hosts} }},
            {{ name = "cbr", from = "b[0]", to = "a[0]", traffic = {{ kind = "cbr", rate = "3Mbit/s" }} }},
        ]
        record = {{ interval = "10ms", drops = ["line"], retransmissions = ["tcp"] }}
        "#
    );
    Scenario::parse(&text, "dumbbell.toml", &[]).unwrap().to_spec().unwrap()
}

/// Ways in which links are computed at the moment.
fn ways(world: &World) -> BTreeSet<String> {
    let kinds = world.network.links.lines.iter().map(|line| line.kind);
    let ways = kinds.filter_map(|kind| match kind {
        LinkKind::DropTail(departures) => Some(format!("{departures:?}")),
        LinkKind::Discipline | LinkKind::Air => None,
    });
    ways.collect()
}

/// Runs a world as it is and one that computes all links by the specification, and compares them
/// every few milliseconds and at the end. Returns the ways of the first.
fn compare(spec: &RunSpec) -> BTreeSet<String> {
    let (mut fast, mut general) = (World::build(spec).unwrap(), World::build(spec).unwrap());
    general.network.compute_generally();
    let mut seen = ways(&fast);
    for step in 1..=80 {
        let at = Time::ZERO + Span::from_us(7_300 * step);
        fast.run_until(at, &mut NoCapture);
        general.run_until(at, &mut NoCapture);
        for link in LinkId::all(spec.links.len()) {
            assert_eq!(fast.link_totals(link), general.link_totals(link), "{link:?} at {at:?}");
        }
        seen.extend(ways(&fast));
        assert_eq!(ways(&general), BTreeSet::from([format!("{:?}", Departures::General)]));
    }
    fast.run(&mut NoCapture);
    general.run(&mut NoCapture);
    let (fast, general) = (fast.finish(), general.finish());
    for (a, b) in fast.tables.iter().zip(&general.tables) {
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }
    assert_eq!(fast.summary, general.summary);
    seen
}

#[test]
fn links_of_each_way_are_as_the_specification_has_them() {
    let mut seen = BTreeSet::new();
    for hosts in [1, 9] {
        seen.extend(compare(&dumbbell(hosts, [30, 20], 25, 0.0, 1)));
    }
    let all = [
        Departures::General,
        Departures::Shared,
        Departures::SharedBacklogged,
        Departures::Fused,
        Departures::FusedShared,
    ];
    assert_eq!(seen, all.iter().map(|way| format!("{way:?}")).collect());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn departures_are_those_of_the_specification(
        hosts in 1usize..12,
        access in 5u64..60,
        line in 5u64..60,
        limit in 2u32..60,
        is_lossy in any::<bool>(),
        seed in 0u64..1000,
    ) {
        compare(&dumbbell(hosts, [access, line], limit, if is_lossy { 0.01 } else { 0.0 }, seed));
    }
}
