//! The scenarios a newcomer starts from, from the file to packets that arrive.

use std::path::Path;

use airtcp_core::units::{Span, Time};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::Scenario;
use airtcp_sim::world::World;

#[test]
fn every_example_builds_and_moves_packets() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let is_sweep = path.file_name().unwrap().to_string_lossy().starts_with("sweep-");
        if path.extension().is_none_or(|e| e != "toml") || is_sweep {
            continue;
        }
        let spec = Scenario::load(&path, &[]).and_then(|s| s.to_spec()).unwrap_or_else(|e| panic!("{e}"));
        let mut world = World::build(&spec).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        world.run_until(Time::ZERO + Span::from_ms(1500), &mut NoCapture);
        assert!(world.ledger().delivered_forward.packets > 0, "{}", path.display());
        count += 1;
    }
    assert!(count >= 10, "{count}");
}
