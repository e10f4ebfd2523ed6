//! ACKs while a hole is open, in whole runs.

use airtcp_core::table::Data;
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::World;

/// One flow over a line that loses packets at random; BBR keeps it full, so that a hole is open
/// most of the time.
const LINE: &str = r#"
duration = "20s"
warmup = "2s"

[[nodes]]
name = "a"
kind = "host"
profile = "linux-6"

[[nodes]]
name = "b"
kind = "host"
profile = "linux-6"

[[links]]
name = "line"
from = "a"
to = "b"
rate = "13Mbit/s"
delay = "20ms"
queue = { name = "fifo", limit_packets = 100 }
loss = 0.02
reverse = { loss = 0 }

[[flows]]
name = "flow"
from = "a"
to = "b"
tcp = { cc = "bbr" }
"#;

/// ACKs for each packet of data that came through.
fn acks_per_packet(sets: &[&str]) -> f64 {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    let spec = Scenario::parse(LINE, "line.toml", &overrides).unwrap().to_spec().unwrap();
    let mut world = World::build(&spec).unwrap();
    world.run(&mut NoCapture);
    let out = world.finish();
    let links = out.table("links").unwrap();
    let (Some(Data::U64(came)), Some(Data::U64(left))) =
        (links.column("arrived_packets"), links.column("forwarded_packets"))
    else {
        panic!("columns of links");
    };
    came[1] as f64 / left[0] as f64
}

#[test]
fn while_a_hole_is_open_acks_are_compressed() {
    let before = acks_per_packet(&["flows.flow.receiver.compressed_sacks=0"]);
    assert!(before > 0.8, "nearly each packet comes while a hole is open: {before}");
    let now = acks_per_packet(&[]);
    assert!((0.45..0.6).contains(&now), "one in a millisecond, and three for each hole: {now}");
    // An era without them.
    assert_eq!(acks_per_packet(&["nodes.b.profile=linux-3.13", "flows.flow.receiver.compressed_sacks=0"]), {
        acks_per_packet(&["nodes.b.profile=linux-3.13"])
    });
}
