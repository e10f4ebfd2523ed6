//! Remedies on real packets: those of a simulated TCP connection, written as bytes, read and
//! injected at the times at which its ends sent them, fare as they did. So kind, length, numbers,
//! flags, SACK, timestamps and window are those that the remedies read.

use airtcp_core::wire::{self, Announced, Endpoints, Reader};

use airtcp_core::convert::count;

use super::*;
use crate::books::record::Data;
use crate::capture::NoCapture;
use crate::scenario::{Attach, Scenario};
use crate::spec::Traffic;
use crate::world::RunOutput;

/// A download over a link that is slow on the way back, where its ACKs wait: `QUEUE`.
const ASYMMETRIC: &str = r#"
    duration = "6s"
    nodes = [
        { name = "a", kind = "host" }, { name = "b", kind = "host" },
        { name = "r1", kind = "router" }, { name = "r2", kind = "router" },
    ]
    links = [
        { from = "a", to = "r1", rate = "1Gbit/s", delay = "1ms" },
        { name = "line", from = "r1", to = "r2", rate = "30Mbit/s", delay = "9ms", loss = 0.002, queue = FORWARD, reverse = { rate = "300kbit/s", loss = 0.0, queue = QUEUE } },
        { from = "r2", to = "b", rate = "1Gbit/s", delay = "1ms" },
    ]
    flows = [{ name = "up", from = "a", to = "b", tcp = { timestamps = TIMESTAMPS } }]
"#;

const FIFO: &str = r#"{ name = "fifo", limit_packets = 60 }"#;

/// An upload through the air with `REMEDY` at the access point.
const AIR: &str = r#"
    duration = "6s"
    nodes = [{ name = "a", kind = "host" }, { name = "ap", kind = "router" }, { name = "b", kind = "host" }]
    wlans = [{ ap = "ap", stations = ["a"], phy = { standard = "n" }, signal = { kind = "error_rate", rate = 0.5 }, ap_radio = { reorder_buffer = { retry_out = REMEDY } }, station_radio = { STATIONrate_control = { name = "fixed", mcs = 3 } } }]
    links = [{ from = "ap", to = "b", rate = "1Gbit/s", delay = "5ms" }]
    flows = [{ name = "up", from = "a", to = "b" }]
"#;

/// All that the tables of links and of the air say, but for the names of flows.
fn figures(output: &RunOutput) -> Vec<String> {
    let mut all = Vec::new();
    for name in ["links", "air", "drops"] {
        for column in &output.table(name).unwrap().columns {
            let values = match &column.data {
                Data::U64(v) => v.iter().map(u64::to_string).collect::<Vec<_>>(),
                Data::F64(v) => v.iter().map(f64::to_string).collect(),
                Data::Str(v) => v.iter().map(ToString::to_string).collect(),
                Data::U32(_) | Data::Bool(_) => continue,
            };
            all.push(format!("{name}.{}: {}", column.name, values.join(" ")));
        }
    }
    all
}

fn sum(output: &RunOutput, table: &str, column: &str) -> u64 {
    match output.table(table).unwrap().column(column) {
        Some(Data::U64(values)) => values.iter().sum(),
        other => panic!("{column}: {other:?}"),
    }
}

/// The run, and what it says once both ends of its flow are real.
fn simulated_and_injected(text: &str) -> (RunOutput, RunOutput) {
    let scenario = Scenario::parse(text, "x.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let spec = scenario.to_spec().unwrap();
    let mut simulation = World::build(&spec).unwrap();
    simulation.hosts.sent = Some(Vec::new());
    simulation.run(&mut NoCapture);
    let sent = simulation.hosts.sent.take().unwrap();
    let Traffic::Tcp { sender, receiver, .. } = &spec.flows[0].traffic else { panic!("a TCP flow") };
    let announced = [Announced::of(sender, receiver), Announced::of(receiver, sender)];

    let hosts = ["a".to_owned(), "b".to_owned()];
    let spec = scenario.to_spec_attached(&Attach { hosts: &hosts, forever: false }).unwrap();
    let node = |name: &str| NodeId(count(spec.nodes.iter().position(|node| node.name == name).unwrap()));
    let ends = [node("a"), node("b")];
    let mut world = World::build(&spec).unwrap();
    let mut reader = Reader::default();
    let mut bytes = Vec::new();
    for (time, packet) in sent {
        world.run_until(time, &mut NoCapture);
        while world.take_egress().is_some() {}
        let back = usize::from(packet.is_reverse());
        bytes.clear();
        wire::write_packet(&packet, &Endpoints::of(&packet, ends[0].0, ends[1].0), &announced[back], &mut bytes);
        let read = reader.read(&bytes).unwrap();
        let to = wire::node_at(read.dst).map(NodeId);
        assert_eq!((Some(ends[1 - back]), read.packet.kind, read.packet.len), (to, packet.kind, packet.len));
        world.inject(ends[back], ends[1 - back], read.packet).unwrap();
    }
    world.run_until(world.end(), &mut NoCapture);
    while world.take_egress().is_some() {}
    (simulation.finish(), world.finish())
}

/// Runs both and finds no difference; how much of `table.column` there was.
fn held_to_simulation(text: &str, table: &str, column: &str) -> u64 {
    let (simulated, injected) = simulated_and_injected(text);
    for (simulated, injected) in figures(&simulated).iter().zip(figures(&injected)) {
        assert_eq!(*simulated, injected);
    }
    sum(&injected, table, column)
}

#[test]
fn ack_filter_takes_the_acks_that_it_takes_of_simulated_ones() {
    let filter = r#"{ name = "ack_filter", limit_packets = 100 }"#;
    for timestamps in ["true", "false"] {
        let text = ASYMMETRIC.replace("FORWARD", FIFO).replace("QUEUE", filter).replace("TIMESTAMPS", timestamps);
        let filtered = held_to_simulation(&text, "links", "filtered");
        assert!(filtered > 200, "{filtered}");
    }
}

#[test]
fn fair_queues_serve_what_they_serve_of_simulated_packets() {
    let text = ASYMMETRIC.replace("FORWARD", r#""fq_codel""#).replace("QUEUE", r#""fq_codel""#);
    let text = text.replace("TIMESTAMPS", "true").replace("0.002", "0.0");
    let dropped = held_to_simulation(&text, "links", "dropped_early");
    assert!(dropped > 5, "{dropped}");
}

#[test]
fn retry_out_by_delay_measures_real_timestamps() {
    let given_up = held_to_simulation(
        &AIR.replace("REMEDY", r#"{ name = "delay", target = "5ms", interval = "20ms", backlog = 1 }"#)
            .replace("STATION", ""),
        "air",
        "given_up",
    );
    assert!(given_up > 10, "{given_up}");
}

#[test]
fn retry_out_gives_up_real_tcp() {
    for remedy in [r#""stepped""#, r#"{ name = "fixed", index = 1 }"#] {
        let given_up = held_to_simulation(&AIR.replace("REMEDY", remedy).replace("STATION", ""), "air", "given_up");
        assert!(given_up > 10, "{remedy}: {given_up}");
    }
}

#[test]
fn a_senders_limit_of_retries_for_tcp_holds_for_real_tcp() {
    let text = AIR
        .replace("retry_out = REMEDY", "")
        .replace("STATION", r#"retries = { tcp_limit = { name = "fixed", index = 1 } }, "#);
    let dropped = held_to_simulation(&text, "air", "dropped_retries");
    assert!(dropped > 10, "{dropped}");
}
