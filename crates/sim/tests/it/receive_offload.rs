//! Receive offload in whole runs: who merges what, and how many ACKs that leaves.

use airtcp_core::table::{Data, Table};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::{RunOutput, World};

/// Laptops behind an access point, and a server 5 ms away.
const WLAN: &str = r#"
duration = "4s"
warmup = "2s"

[[nodes]]
name = "laptop"
kind = "host"
count = 2
profile = "linux-6"

[[nodes]]
name = "ap"
kind = "router"

[[nodes]]
name = "server"
kind = "host"
profile = "linux-6"

[[links]]
from = "ap"
to = "server"
rate = "1Gbit/s"
delay = "5ms"

[[wlans]]
name = "wlan"
ap = "ap"
phy = { standard = "n", width_mhz = 40, streams = 2 }
stations = ["laptop"]

[[flows]]
name = "flow"
from = "laptop"
to = "server"
"#;

/// One flow over a line on which packets are 83 us apart.
const LINE: &str = r#"
duration = "6s"
warmup = "2s"

[[nodes]]
name = "a"
kind = "host"
profile = "linux-6"

[[nodes]]
name = "r"
kind = "router"

[[nodes]]
name = "b"
kind = "host"
profile = "linux-6"

[[links]]
from = "a"
to = "r"
rate = "1Gbit/s"
delay = "1ms"

[[links]]
name = "line"
from = "r"
to = "b"
rate = "143Mbit/s"
delay = "9ms"
queue = { name = "fifo", limit_packets = 240 }

[[flows]]
name = "flow"
from = "a"
to = "b"
"#;

fn parse(text: &str, sets: &[&str]) -> Result<Scenario, String> {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    Scenario::parse(text, "scene.toml", &overrides).map_err(|e| e.to_string())
}

fn run(text: &str, sets: &[&str]) -> RunOutput {
    let spec = parse(text, sets)
        .and_then(|s| s.to_spec().map_err(|e| e.to_string()))
        .unwrap_or_else(|e| panic!("{sets:?}: {e}"));
    let mut world = World::build(&spec).unwrap();
    world.run(&mut NoCapture);
    let ledger = world.ledger();
    let gone = ledger.delivered.packets + ledger.dropped.packets + ledger.lost.packets;
    assert_eq!(ledger.sent.packets, gone + world.packets_inside() as u64, "every packet has a fate");
    world.finish()
}

fn sum(table: &Table, column: &str) -> f64 {
    match table.column(column) {
        Some(Data::F64(values)) => values.iter().sum(),
        Some(Data::U64(values)) => values.iter().sum::<u64>() as f64,
        other => panic!("{column}: {other:?}"),
    }
}

fn of(out: &RunOutput, column: &str) -> f64 {
    sum(out.table("flows").unwrap(), column)
}

fn acks_per_packet(out: &RunOutput) -> f64 {
    of(out, "acks_sent") / of(out, "segments_sent")
}

#[test]
fn an_upload_is_acknowledged_once_for_what_one_interrupt_brings() {
    let off = run(WLAN, &["nodes.server.receive_offload=off"]);
    assert!((0.48..0.56).contains(&acks_per_packet(&off)), "every second segment: {}", acks_per_packet(&off));
    // A-MPDUs go over the wire as bursts of 1 Gbit/s: 16 segments in 192 us. Timestamps that differ
    // part some.
    let igb = run(WLAN, &[]);
    assert!(acks_per_packet(&igb) < 0.2, "{}", acks_per_packet(&igb));
    // Fewer ACKs contend with the data.
    assert!(of(&igb, "goodput_bps") > of(&off, "goodput_bps"));
}

/// The card decides both how frames go down and how packets come up: ath9k (the profile's) hands
/// them up one by one in a tasklet, mt76 merges. Either way the program reads when all of an A-MPDU
/// is there. Then it is acknowledged about once, as soon as the window does not grow.
#[test]
fn a_download_is_acknowledged_once_for_each_a_mpdu_where_the_driver_merges() {
    let down = ["flows.flow.from=server", "flows.flow.to=laptop"];
    let mt76 = ["wlans.wlan.station_radio.transmit={ name = 'mac80211', driver = 'mt76' }"];
    let with = |sets: &[&str]| acks_per_packet(&run(WLAN, &[&down[..], sets].concat()));
    let (ath9k, merged) = (with(&[]), with(&mt76));
    assert!(ath9k < 0.2, "{ath9k}");
    assert!(merged < 0.2, "{merged}");
    let alone = with(&["nodes.laptop.receive_offload=off"]);
    assert!((0.48..0.56).contains(&alone), "{alone}");
    // A host's own setting holds for any card; and old profiles merge nothing.
    assert!(with(&["nodes.laptop.receive_offload=napi"]) < 0.2);
    assert!(with(&[&mt76[..], &["nodes.laptop.receive_offload=off"]].concat()) > 0.48);
    assert!(with(&[&mt76[..], &["nodes.laptop.profile=linux-3.13"]].concat()) > 0.48);
}

/// Linux 6.18 over veth at 143 Mbit/s sends 0.51 ACKs a packet where each packet is polled by
/// itself, and 0.04 with a flush timeout of 100 us.
#[test]
fn evenly_spaced_packets_merge_only_where_something_waits_for_them() {
    let with = |offload: &str| acks_per_packet(&run(LINE, &[&format!("nodes.b.receive_offload={offload}")]));
    for alone in ["off", "napi", "{ name = 'napi', interrupt_interval = '80us' }", "e1000e"] {
        assert!((0.49..0.53).contains(&with(alone)), "{alone}: {}", with(alone));
    }
    let held = with("{ name = 'napi', gro_flush_timeout = '100us' }");
    assert!((0.02..0.12).contains(&held), "{held}");
}

#[test]
fn what_waits_in_queues_as_acks_has_been_delivered() {
    let out = run(WLAN, &["nodes.server.receive_offload=off", "nodes.laptop.count=5"]);
    let (acked, delivered) = (of(&out, "goodput_bps"), of(&out, "delivered_bps"));
    assert!(delivered > 0.0 && (acked / delivered - 1.0).abs() < 0.3, "{acked} {delivered}");
    let text = serde_json::to_value(&out.summary).unwrap();
    assert_eq!(text["groups"][0]["delivered_bps"].as_f64(), Some(delivered));
    // Not yet acknowledged at the end of a run without warmup: that much more was delivered.
    let all = run(WLAN, &["warmup=0s"]);
    assert!(of(&all, "delivered_bps") > of(&all, "goodput_bps"));
}

#[test]
fn retransmissions_are_judged_within_merged_packets() {
    let sets = ["links.line.loss=0.02", "links.line.rate=20Mbit/s", "record.retransmissions=true"];
    let out =
        run(LINE, &[&sets[..], &["nodes.b.receive_offload={ name = 'napi', gro_flush_timeout = '1ms' }"]].concat());
    let table = out.table("retransmissions").unwrap();
    assert!(table.len() > 20, "{}", table.len());
    let Some(Data::Bool(needless)) = table.column("needless") else { panic!() };
    let marked = needless.iter().filter(|&&n| n).count();
    // Data that came twice, as the receiver counts it.
    let twice = of(&out, "spurious_retransmissions");
    assert!((marked as f64 - twice).abs() <= 3.0, "{marked} {twice}");
}

#[test]
fn a_router_has_no_receive_offload_and_a_wrong_name_is_told() {
    let error = parse(LINE, &["nodes.r.receive_offload=napi"])
        .and_then(|s| s.to_spec().map_err(|e| e.to_string()))
        .unwrap_err();
    assert!(error.contains("only hosts hand packets up"), "{error}");
    let error =
        parse(LINE, &["nodes.b.receive_offload=gro"]).and_then(|s| s.to_spec().map_err(|e| e.to_string())).unwrap_err();
    assert!(error.contains("off, napi, e1000e, igb"), "{error}");
}
