//! One network for each cause: what held the sender back is known, and the analysis says so.

use airtcp_sim::capture::{HEADERS_ONLY, PcapngWriter};
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::{RunOutput, World};

use crate::common::*;
use crate::simulator::Shared;

/// One host sends to another through a router, whose queue is before the slow line. The captures
/// are taken beside the sender, in the middle, and beside the receiver.
const NETWORK: &str = r#"
duration = "20s"
nodes = [
  { name = "a", kind = "host", profile = "linux-6" },
  { name = "s", kind = "router" },
  { name = "r", kind = "router" },
  { name = "m", kind = "router" },
  { name = "n", kind = "router" },
  { name = "b", kind = "host", profile = "linux-6" },
]
links = [
  { from = "a", to = "s", rate = "10Gbit/s", delay = "1us" },
  { from = "s", to = "r", rate = "1Gbit/s", delay = "1ms" },
  { name = "line", from = "r", to = "m", rate = "20Mbit/s", delay = "9ms", queue = { name = "fifo", limit_packets = 30 } },
  { name = "last", from = "m", to = "n", rate = "1Gbit/s", delay = "10ms" },
  { from = "n", to = "b", rate = "10Gbit/s", delay = "1us" },
]
flows = [{ name = "f", from = "a", to = "b" }]
record = { retransmissions = ["f"] }
"#;

/// Where a capture is taken.
pub const PLACES: [(&str, [&str; 2]); 3] =
    [("before", ["s->r", "s->a"]), ("behind", ["m->n", "m->r"]), ("receiver", ["n->b", "n->m"])];

/// A run of the network with these settings: its capture and its tables.
pub fn run(sets: &[String], at: [&str; 2]) -> (Vec<u8>, RunOutput) {
    let links = format!("record.capture={at:?}");
    let all = sets.iter().chain([&links]);
    let overrides: Vec<Override> = all.map(|s| Override::parse(s).unwrap_or_else(|e| panic!("{s}: {e:?}"))).collect();
    let spec =
        Scenario::parse(NETWORK, "x.toml", &overrides).and_then(|s| s.to_spec()).unwrap_or_else(|e| panic!("{e}"));
    let file = Shared::default();
    let mut writer = PcapngWriter::new(file.clone(), &spec, HEADERS_ONLY);
    let mut world = World::build(&spec).unwrap();
    world.run(&mut writer);
    writer.finish().unwrap();
    (file.bytes(), world.finish())
}

/// Parts of the flow's time by limit, the largest first.
pub fn parts(found: &Analysed) -> Vec<(&'static str, f64)> {
    let row = (0..).zip(found.numbers("flows", "payload_bytes")).max_by_key(|&(_, bytes)| bytes).unwrap().0;
    let names = [
        "receive_window",
        "receiver_app",
        "sender_app",
        "think",
        "idle",
        "slow_start",
        "queue",
        "loss",
        "cwnd",
        "outage",
        "air",
    ];
    let spent = names.map(|name| found.floats("flows", &format!("limited_{name}_s"))[row]);
    let total: f64 = spent.iter().sum();
    let mut parts: Vec<_> = names.into_iter().zip(spent.map(|s| s / total)).filter(|p| p.1 > 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}

/// Cause, settings, least part of the time.
const CAUSES: [(&str, &[&str], f64); 9] = [
    ("receive_window", &["flows.f.receiver={ receive_buffer = \"32000B\", receive_buffer_max = \"32000B\" }"], 0.95),
    ("receiver_app", &["flows.f.read_rate=\"4Mbit/s\""], 0.9),
    ("sender_app", &["flows.f.traffic={ kind = \"stream\", rate = \"4Mbit/s\" }"], 0.85),
    ("queue", &["links.line.queue.limit_packets=400"], 0.95),
    ("loss", &["links.line.loss=0.02", "links.line.rate=\"200Mbit/s\""], 0.9),
    (
        "slow_start",
        &["flows.f.traffic={ kind = \"transfer\", bytes = \"600kB\" }", "links.line.rate=\"900Mbit/s\""],
        0.95,
    ),
    ("cwnd", &["flows.f.tcp={ max_cwnd = 12 }"], 0.95),
    // A control that drains its queue now and then, and does not wait for losses.
    ("queue", &["flows.f.tcp={ cc = \"bbr\" }", "links.line.queue.limit_packets=400"], 0.5),
    // Two directions: ACKs wait as long as data, so that the queue is on their way.
    ("queue", &["links.line.queue.limit_packets=400", "flows.f.from=b", "flows.f.to=a"], 0.95),
];

#[test]
fn the_cause_is_told_wherever_it_is_captured() {
    for (cause, sets, least) in CAUSES {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        for (place, at) in PLACES {
            let found = analyse(run(&sets, at).0);
            let parts = parts(&found);
            assert!(parts[0].0 == cause && parts[0].1 >= least, "{cause}, {place}: {parts:?}");
            assert!((parts.iter().map(|p| p.1).sum::<f64>() - 1.0).abs() < 1e-6);
        }
    }
}
