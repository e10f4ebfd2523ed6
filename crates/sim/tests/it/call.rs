//! Calls over lines with too little room, with room, and beside a download.

use airtcp_core::table::Data;
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::Scenario;
use airtcp_sim::world::{RunOutput, World};

fn run(rate: &str, call: &str, more: &str) -> RunOutput {
    let text = format!(
        r#"
duration = "62s"
warmup = "20s"
nodes = [{{ name = "a", kind = "host" }}, {{ name = "r", kind = "router" }}, {{ name = "b", kind = "host" }}]
links = [
  {{ name = "in", from = "a", to = "r", rate = "1Gbit/s", delay = "1ms" }},
  {{ name = "out", from = "r", to = "b", rate = "{rate}", delay = "10ms", queue = {{ name = "fifo", limit_packets = 200 }} }},
]

[[flows]]
name = "call"
from = "a"
to = "b"
stop = "60s"
traffic = {call}
{more}"#
    );
    let scenario = Scenario::parse(&text, "x.toml", &[]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut world = World::build(&scenario.to_spec().unwrap_or_else(|e| panic!("{e}"))).unwrap();
    world.run(&mut NoCapture);
    world.finish()
}

fn figure(output: &RunOutput, name: &str) -> f64 {
    match output.table("flows").and_then(|flows| flows.column(name)) {
        Some(Data::F64(values)) => values[0],
        other => panic!("{name}: {other:?}"),
    }
}

const FIXED: &str = r#"{ kind = "call", adaptive = false }"#;
const DOWNLOAD: &str = "[[flows]]\nname = \"load\"\nfrom = \"a\"\nto = \"b\"\n";

#[test]
fn an_adaptive_call_finds_the_rate_of_the_line_and_keeps_its_queue_short() {
    let output = run("1Mbit/s", r#""call""#, "");
    let rate = figure(&output, "call_rate_bps");
    assert!((0.7e6..1.0e6).contains(&rate), "{rate}");
    assert!(figure(&output, "call_delay_p95_ms") < 11.0 + 60.0, "{}", figure(&output, "call_delay_p95_ms"));
    assert!(figure(&output, "call_loss_ratio") < 1e-9);
    assert!(figure(&output, "call_grade") > 90.0);
}

#[test]
fn a_fixed_call_fills_the_queue_of_a_line_that_is_too_slow() {
    let output = run("1Mbit/s", FIXED, "");
    assert!((figure(&output, "call_rate_bps") - 1.5e6).abs() < 2e4);
    // A third does not fit.
    assert!((figure(&output, "call_loss_ratio") - 1.0 / 3.0).abs() < 0.02);
    assert!(figure(&output, "call_delay_p50_ms") > 1000.0);
    assert!(figure(&output, "call_grade") < 10.0);
}

#[test]
fn with_room_both_send_at_the_highest_rate() {
    for call in [r#""call""#, FIXED] {
        let output = run("20Mbit/s", call, "");
        assert!((figure(&output, "call_rate_bps") - 1.5e6).abs() < 2e4, "{call}");
        assert!(figure(&output, "call_delay_p99_ms") < 16.0, "{call}");
        assert!(figure(&output, "call_grade") > 93.0, "{call}");
    }
}

#[test]
fn beside_a_download_an_adaptive_call_gives_way() {
    let output = run("10Mbit/s", r#""call""#, DOWNLOAD);
    let rate = figure(&output, "call_rate_bps");
    assert!((1.5e5..1.2e6).contains(&rate), "{rate}");
    assert!(figure(&output, "call_delay_p95_ms") > 50.0);
}
