use std::path::PathBuf;

use airtcp_core::queue::{FifoConfig, QueueConfig};
use airtcp_core::units::{DataRate, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::spec::{LinkId, NodeId, TcpApp, Traffic};

/// Everything a file can say at least once.
const FULL: &str = r#"name = "full"
seed = 7
duration = "10s"
warmup = "1s"

[profiles.mine]
base = "ns2-reno"
pacing = "rtt_over_cwnd"

[[nodes]]
name = "left"
kind = "host"
count = 4
profile = "mine"

[[nodes]]
name = "r1"
kind = "router"

[[nodes]]
name = "right"
kind = "host"

[[links]]
from = "left"
to = "r1"
rate = "100Mbit/s"
delay = { min = "1ms", max = "4ms" }

[[links]]
name = "bottleneck"
from = "r1"
to = "right"
rate = "10Mbit/s"
delay = "20ms"
queue = { name = "fifo", limit_packets = 50 }
loss = 0.01
cost = 2
reverse = { rate = "1Mbit/s", buffer = { rule = "bdp", rtt = "80ms", scale = 0.5 }, queue = "fifo" }

[[flows]]
name = "reno"
from = "left"
to = "right"
start = { from = "0s", to = "2s" }
tcp = { cc = { name = "reno" }, packet_bytes = 1500 }
receiver = { delayed_ack = "100ms" }
read_rate = "2Mbit/s"

[[flows]]
name = "web"
from = "left[2]"
to = "right"
count = 2
traffic = { kind = "web", tail_alpha = 1.2 }

[[flows]]
name = "ping"
from = "right"
to = "left[0]"
traffic = "ping"

[[flows]]
name = "train"
from = "right"
to = "left[0]"
stop = "9s"
traffic = { kind = "train", count = 10, gap = "1ms", every = "1s" }

[record]
interval = "100ms"
links = ["bottleneck", "left[1]->r1"]
capture = ["r1->right"]
"#;

fn spec(text: &str) -> RunSpec {
    Scenario::parse(text, "x.toml", &[]).and_then(|s| s.to_spec()).unwrap_or_else(|e| panic!("{e}"))
}

fn errors_with(text: &str, sets: &[&str]) -> String {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    match Scenario::parse(text, "x.toml", &overrides).and_then(|s| s.to_spec()) {
        Ok(_) => "accepted".to_owned(),
        Err(errors) => errors.to_string(),
    }
}

/// The errors of `FULL` after `from` has become `to`.
fn errors(from: &str, to: &str) -> String {
    assert_eq!(FULL.matches(from).count(), 1, "{from:?} is not unique");
    errors_with(&FULL.replace(from, to), &[])
}

fn examples() -> Vec<(PathBuf, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    found.sort();
    found.into_iter().map(|p| (p.clone(), std::fs::read_to_string(p).unwrap())).collect()
}

#[test]
fn every_example_expands() {
    let examples = examples();
    assert!(examples.len() >= 9);
    for (path, _) in examples {
        let scenario = Scenario::load(&path, &[]).unwrap_or_else(|e| panic!("{e}"));
        let spec = scenario.to_spec().unwrap_or_else(|e| panic!("{e}"));
        assert!(!spec.flows.is_empty());
        assert_eq!(Some(scenario.name()), path.file_stem().and_then(|s| s.to_str()));
        assert!(scenario.file().description.is_some());
    }
}
