//! The scenarios a newcomer starts from, from the file to packets that arrive.

use airtcp_core::units::{Span, Time};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::world::World;

use crate::common::examples;

#[test]
fn every_example_builds_and_moves_packets() {
    let examples = examples();
    assert!(examples.len() >= 10, "{}", examples.len());
    for (path, spec) in examples {
        let mut world = World::build(&spec).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        world.run_until(Time::ZERO + Span::from_ms(1500), &mut NoCapture);
        assert!(world.ledger().delivered_forward.packets > 0, "{}", path.display());
    }
}
