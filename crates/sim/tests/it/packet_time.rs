//! Hosts whose processor takes a time for each packet, in whole runs: exact times, one server for
//! both directions, and mistakes.

use airtcp_core::table::Data;
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::{RunOutput, World};

/// Two hosts on a line of 8 Mbit/s and 1 ms: a packet of 1000 bytes takes 1 ms on it.
const LINE: &str = r#"
duration = "10s"

[[nodes]]
name = "a"
kind = "host"

[[nodes]]
name = "b"
kind = "host"

[[links]]
name = "line"
from = "a"
to = "b"
rate = "8Mbit/s"
delay = "1ms"

[[flows]]
name = "flow"
from = "a"
to = "b"
"#;

fn scenario(sets: &[&str]) -> Result<airtcp_sim::spec::RunSpec, String> {
    let sets: Vec<Override> = sets.iter().map(|set| Override::parse(set).unwrap()).collect();
    let scenario = Scenario::parse(LINE, "line.toml", &sets).map_err(|e| e.to_string())?;
    scenario.to_spec().map_err(|e| e.to_string())
}

/// Debug builds audit it: what processors hold is found.
fn run(sets: &[&str]) -> RunOutput {
    let mut world = World::build(&scenario(sets).unwrap()).unwrap();
    world.run(&mut NoCapture);
    world.finish()
}

fn first(out: &RunOutput, column: &str) -> f64 {
    match out.table("flows").unwrap().column(column).unwrap() {
        Data::F64(values) => values[0],
        Data::U64(values) => values[0] as f64,
        data => panic!("{column}: {data:?}"),
    }
}

const CBR: &str = r#"flows.flow.traffic={ kind = "cbr", rate = "800kbit/s", packet_bytes = 1000 }"#;

#[test]
fn a_packet_takes_its_time_at_each_end() {
    // 100 packets a second, 10 ms apart: none waits for another. 1 ms on the line, 1 ms to the far
    // end.
    let delay = |sets: &[&str]| first(&run(&[&[CBR], sets].concat()), "delay_mean_ms");
    assert!((delay(&[]) - 2.0).abs() < 1e-9);
    assert!((delay(&["nodes.a.packet_time=3ms"]) - 5.0).abs() < 1e-9);
    assert!((delay(&["nodes.a.packet_time=3ms", "nodes.b.packet_time=500us"]) - 5.5).abs() < 1e-9);
}

#[test]
fn an_echo_needs_it_twice_at_either_host() {
    let rtt = |sets: &[&str]| {
        let ping = r#"flows.flow.traffic={ kind = "ping", interval = "100ms", packet_bytes = 1000 }"#;
        first(&run(&[&[ping], sets].concat()), "rtt_mean_ms")
    };
    let plain = rtt(&[]);
    assert!((rtt(&["nodes.a.packet_time=2ms"]) - plain - 4.0).abs() < 1e-9);
    assert!((rtt(&["nodes.a.packet_time=2ms", "nodes.b.packet_time=1ms"]) - plain - 6.0).abs() < 1e-9);
}

#[test]
fn more_than_it_can_do_waits_and_what_is_done_comes_in_order() {
    // A packet every 2 ms, and 4 ms for each: half of them are done, and the last waited for as
    // long as half the run.
    let fast = r#"flows.flow.traffic={ kind = "cbr", rate = "4Mbit/s", packet_bytes = 1000 }"#;
    for slow in ["nodes.a.packet_time=4ms", "nodes.b.packet_time=4ms"] {
        let out = run(&[fast, slow]);
        let received = first(&out, "received");
        assert!((2495.0..=2500.0).contains(&received), "{slow}: {received}");
        let mean = first(&out, "delay_mean_ms");
        assert!((2450.0..2550.0).contains(&mean), "{slow}: {mean}");
    }
}

#[test]
fn segments_and_their_acks_share_one_processor() {
    // With an ACK for every segment the receiver handles two packets for each, and so does the
    // sender: 1460 bytes in twice 3 ms.
    let tcp = ["flows.flow.receiver.ack_every=1", "nodes.a.profile=freebsd-2.2.1", "nodes.b.profile=freebsd-2.2.1"];
    let goodput = |slow: &[&str]| first(&run(&[&tcp, slow].concat()), "goodput_bps");
    let bound = 1460.0 * 8.0 / 0.006;
    for slow in ["nodes.a.packet_time=3ms", "nodes.b.packet_time=3ms"] {
        let bps = goodput(&[slow]);
        assert!(bps > 0.97 * bound && bps <= bound, "{slow}: {bps} of {bound}");
    }
    assert!(goodput(&[]) > 3.0 * bound);
}

#[test]
fn no_time_is_as_if_the_key_were_not_there() {
    let summary = |sets: &[&str]| format!("{:?}", run(sets).summary);
    assert_eq!(summary(&["nodes.a.packet_time=0s", "nodes.b.packet_time=0ms"]), summary(&[]));
}

/// A Linux sender hears of each segment that its own first queue refuses. One whose processor
/// stands between does not, and its counters do not fall.
#[test]
fn what_the_first_queue_drops_later_counts_as_sent() {
    let sets = [r#"links.line.queue={ name = "fifo", limit_packets = 5 }"#, "record.interval=1ms"];
    let out = run(&[&sets[..], &["nodes.a.packet_time=100us"]].concat());
    assert!(first(&out, "dropped_at_queues") > 0.0);
    assert!(first(&out, "goodput_bps") > 4e6);
}

#[test]
fn mistakes_name_their_place_and_what_is_accepted() {
    let error = |sets: &[&str]| scenario(sets).unwrap_err();
    let router = error(&["nodes.b.kind=router", "nodes.b.packet_time=1ms"]);
    assert!(router.contains("nodes[1].packet_time"), "{router}");
    assert!(router.contains("only hosts take time for packets: routers forward them at once"), "{router}");
    let long = error(&["nodes.a.packet_time=1001ms"]);
    assert!(long.contains("nodes[0].packet_time") && long.contains("must be at most 1s"), "{long}");
    let negative = error(&["nodes.a.packet_time=-1ms"]);
    assert!(negative.contains("nodes[0].packet_time"), "{negative}");
    // A router may say that it takes none.
    assert!(scenario(&["nodes.a.packet_time=1s"]).is_ok());
}
