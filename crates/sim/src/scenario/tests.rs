use std::path::PathBuf;

use airtcp_core::packet::FlowId;
use airtcp_core::queue::{FifoConfig, QueueConfig};
use airtcp_core::tcp::cc::CcConfig;
use airtcp_core::tcp::loss::LossConfig;
use airtcp_core::tcp::{Pacing, Recovery};
use airtcp_core::units::{Bytes, DataRate, Probability, Span, Time};
use airtcp_core::wifi::phy::SignalConfig;
use airtcp_core::wifi::rate::RateConfig;
use airtcp_core::wifi::retry_out::RetryOutConfig;
use proptest::prelude::*;

use super::*;
use crate::spec::{LinkId, NodeId, Reorder, TcpApp, Traffic};
use crate::traffic::web::GapFrom;

mod policies;
mod roam;
mod wavelan;
mod wlan;

/// Everything a file can say at least once.
const FULL: &str = r#"name = "full"
seed = 7
duration = "10s"
warmup = "1s"

[profiles.mine]
base = "ns2-reno"
handshake = false
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
reorder = { probability = 0.01, delay = "5ms" }
reverse = { rate = "1Mbit/s", buffer = { rule = "bdp", rtt = "80ms", scale = 0.5 }, queue = "fifo", reorder = { probability = 0.02, delay = { min = "1ms", max = "9ms" } } }

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
retransmissions = ["reno", "web[1]"]
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
    // Sweep files lie there as well.
    let is_sweep = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("sweep-");
    found.retain(|path| path.extension().is_some_and(|e| e == "toml") && !is_sweep(path));
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
/// One change each to [`FULL`] that makes it wrong.
#[rustfmt::skip]
const FAULTS: &[(&str, &str)] = &[
    (r#"rate = "10Mbit/s""#, r#"rate = "10Mbits""#),
    (r#"rate = "10Mbit/s""#, "rate = 10"),
    (r#"rate = "10Mbit/s""#, r#"rate = "-1Mbit/s""#),
    (r#"rate = "10Mbit/s""#, r#"rate = "0Mbit/s""#),
    (r#"rate = "10Mbit/s""#, "rate = nan"),
    ("loss = 0.01", "loss = nan"),
    ("loss = 0.01", "loss = inf"),
    ("loss = 0.01", "loss = 1.5"),
    ("loss = 0.01", r#"loss = "1%""#),
    ("loss = 0.01", "lost = 0.01"),
    (r#"delay = "20ms""#, r#"delay = "20""#),
    (r#"delay = "20ms""#, "delay = 20"),
    (r#"delay = "20ms""#, r#"dealy = "20ms""#),
    (r#"delay = "20ms""#, r#"delay = "2h""#),
    (r#"delay = { min = "1ms", max = "4ms" }"#, r#"delay = { min = "5ms", max = "4ms" }"#),
    (r#"delay = { min = "1ms", max = "4ms" }"#, r#"delay = { min = "1ms", spread = "evn" }"#),
    ("cost = 2", "cost = 0"),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, r#"queue = { name = "fifi", limit_packets = 50 }"#),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, "queue = { limit_packets = 50 }"),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, r#"queue = { name = "fifo", limit = 50 }"#),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, r#"queue = "droptail""#),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, "queue = { name = \"fifo\", limit_packets = 50 }\nbuffer = { rule = \"bdp\", rtt = \"80ms\" }"),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, r#"buffer = { rule = "bdp_over_sqrt_n", rtt = "80ms" }"#),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, r#"buffer = { rule = "bdp", rtt = "720h", scale = 1e9, packet_bytes = 1 }"#),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, r#"buffer = { rule = "bdp", rtt = "80ms", scale = -1 }"#),
    (r#"queue = { name = "fifo", limit_packets = 50 }"#, "one_way = true"),
    ("from = \"r1\"\nto = \"right\"", "from = \"r2\"\nto = \"right\""),
    ("from = \"r1\"\nto = \"right\"", "from = \"r1[0]\"\nto = \"right\""),
    ("from = \"r1\"\nto = \"right\"", "from = \"right\"\nto = \"right\""),
    (r#"from = "left[2]""#, r#"from = "left[4]""#),
    (r#"from = "left[2]""#, r#"from = "lfet""#),
    (r#"from = "left[2]""#, r#"from = "r1""#),
    (r#"from = "left[2]""#, r#"from = "right""#),
    (r#"from = "left[2]""#, r#"form = "left[2]""#),
    ("count = 4", "count = 1000000000"),
    ("count = 4", "count = 99999999999999999999999999999999999999999999"),
    ("count = 4", "count = 0"),
    ("count = 4", "count = 1.5"),
    ("count = 4", r#"count = "4""#),
    ("count = 4", "count = 1000000"),
    ("count = 2", "count = 1000000"),
    (r#"kind = "router""#, r#"kind = "switch""#),
    (r#"kind = "router""#, "kind = \"router\"\nprofile = \"linux-6\""),
    (r#"name = "right""#, r#"name = "left""#),
    (r#"name = "right""#, r#"name = "the right""#),
    (r#"name = "bottleneck""#, r#"name = """#),
    (r#"name = "web""#, r#"name = "reno""#),
    (r#"profile = "mine""#, r#"profile = "linux6""#),
    (r#"base = "ns2-reno""#, r#"base = "mine""#),
    (r#"base = "ns2-reno""#, r#"base = "ns-reno""#),
    (r#"base = "ns2-reno""#, "initial_window = 0"),
    ("[profiles.mine]", "[profiles.linux-6]"),
    (r#"pacing = "rtt_over_cwnd""#, r#"paceing = "off""#),
    (r#"pacing = "rtt_over_cwnd""#, r#"pacing = "on""#),
    (r#"pacing = "rtt_over_cwnd""#, "pacing_jitter = 1.5"),
    (r#"pacing = "rtt_over_cwnd""#, "pacing_percent = 0"),
    (r#"pacing = "rtt_over_cwnd""#, "tsq_limit = \"0B\"\ntsq_pacing_shift = 31\ntsq_overhead = \"2TiB\""),
    (r#"pacing = "rtt_over_cwnd""#, r#"tsq = "on""#),
    (r#"duration = "10s""#, r#"duration = "0s""#),
    (r#"duration = "10s""#, r#"duration = "31000h""#),
    (r#"duration = "10s""#, r#"duration = "500ms""#),
    (r#"duration = "10s""#, "duration = 1979-05-27"),
    (r#"duration = "10s""#, ""),
    (r#"duration = "10s""#, "duration = 10s"),
    (r#"warmup = "1s""#, r#"warmup = "10s""#),
    ("seed = 7", "seed = -1"),
    (r#"start = { from = "0s", to = "2s" }"#, r#"start = { from = "3s", to = "2s" }"#),
    (r#"start = { from = "0s", to = "2s" }"#, r#"start = "10s""#),
    (r#"start = { from = "0s", to = "2s" }"#, "start = \"1s\"\nstop = \"1s\""),
    (r#"start = { from = "0s", to = "2s" }"#, r#"stop = "11s""#),
    (r#"start = { from = "0s", to = "2s" }"#, r#"trafic = "unlimited""#),
    (r#"start = { from = "0s", to = "2s" }"#, r#"cc = "reno""#),
    (r#"tcp = { cc = { name = "reno" }, packet_bytes = 1500 }"#, r#"tcp = { cc = { name = "renno" }, packet_bytes = 1500 }"#),
    (r#"tcp = { cc = { name = "reno" }, packet_bytes = 1500 }"#, r#"tcp = { cc = "westwood" }"#),
    (r#"tcp = { cc = { name = "reno" }, packet_bytes = 1500 }"#, "tcp = { packet_bytes = 40 }"),
    (r#"tcp = { cc = { name = "reno" }, packet_bytes = 1500 }"#, "tcp = { packet_bytes = 70000 }"),
    (r#"tcp = { cc = { name = "reno" }, packet_bytes = 1500 }"#, r#"tcp = { initial_window = 0, ack_every = 0, rto_min = "100s", send_buffer = "100B" }"#),
    (r#"tcp = { cc = { name = "reno" }, packet_bytes = 1500 }"#, r#"tcp = { rto_max = "100ms" }"#),
    (r#"tcp = { cc = { name = "reno" }, packet_bytes = 1500 }"#, r#"tcp = { loss = { name = "dup_thresh", threshold = 0 } }"#),
    (r#"receiver = { delayed_ack = "100ms" }"#, r#"receiver = { delayed_ack = "501ms" }"#),
    (r#"receiver = { delayed_ack = "100ms" }"#, "receiver = { handshake = true }"),
    (r#"receiver = { delayed_ack = "100ms" }"#, r#"receiver = { receive_buffer = "1000B" }"#),
    (r#"read_rate = "2Mbit/s""#, r#"read_rate = "0bit/s""#),
    (r#"traffic = "ping""#, r#"traffic = "pong""#),
    (r#"traffic = "ping""#, r#"traffic = "transfer""#),
    (r#"traffic = "ping""#, r#"traffic = { kind = "transfer", bytes = "0B" }"#),
    (r#"traffic = "ping""#, r#"traffic = { kind = "ping", interval = "0s" }"#),
    (r#"traffic = "ping""#, r#"traffic = { kind = "ping", packet_bytes = 28 }"#),
    (r#"traffic = "ping""#, r#"traffic = { kind = "cbr", rate = "0bit/s" }"#),
    (r#"traffic = "ping""#, r#"traffic = { kind = "stream", rate = "0bit/s", every = "0s" }"#),
    (r#"traffic = "ping""#, r#"traffic = { rate = "1Mbit/s" }"#),
    (r#"traffic = "ping""#, "traffic = \"ping\"\ntcp = { cc = \"reno\" }\nread_rate = \"1Mbit/s\""),
    (r#"traffic = { kind = "web", tail_alpha = 1.2 }"#, r#"traffic = { kind = "web", tail_alpha = 0 }"#),
    (r#"traffic = { kind = "web", tail_alpha = 1.2 }"#, r#"traffic = { kind = "web", gap_k = "0s", body_sigma = -1 }"#),
    (r#"traffic = { kind = "web", tail_alpha = 1.2 }"#, r#"traffic = { kind = "web", body_mu = nan }"#),
    (r#"traffic = { kind = "web", tail_alpha = 1.2 }"#, r#"traffic = { kind = "web", alpha = 1.2 }"#),
    (r#"traffic = { kind = "train", count = 10, gap = "1ms", every = "1s" }"#, r#"traffic = { kind = "train", count = 10, gap = "1ms", every = "5ms" }"#),
    (r#"traffic = { kind = "train", count = 10, gap = "1ms", every = "1s" }"#, r#"traffic = { kind = "train", count = 0 }"#),
    (r#"traffic = { kind = "train", count = 10, gap = "1ms", every = "1s" }"#, r#"traffic = { kind = "buffer_probe", gap = "0s", every = "0s", estimator = { sustained_within = 2 } }"#),
    (r#"interval = "100ms""#, r#"interval = "0s""#),
    (r#"interval = "100ms""#, r#"interval = "1ns""#),
    (r#"links = ["bottleneck", "left[1]->r1"]"#, r#"links = ["botleneck", "left[9]->r1", "left[0]->right"]"#),
    (r#"links = ["bottleneck", "left[1]->r1"]"#, r#"links = "bottleneck""#),
    (r#"capture = ["r1->right"]"#, "capture = [5]"),
    (r#"retransmissions = ["reno", "web[1]"]"#, r#"retransmissions = ["rno", "web[2]", "ping", "train[0]"]"#),
    (r#"retransmissions = ["reno", "web[1]"]"#, r#"retransmissions = "all""#),
    (r#"reorder = { probability = 0.01, delay = "5ms" }"#, r#"reorder = { probability = 1.01, delay = "0s" }"#),
    (r#"reorder = { probability = 0.01, delay = "5ms" }"#, r#"reorder = { probability = 0.01, delay = "0s" }"#),
    (r#"reorder = { probability = 0.01, delay = "5ms" }"#, r#"reorder = { probability = 0.01, delay = "2h" }"#),
    (r#"reorder = { probability = 0.01, delay = "5ms" }"#, "reorder = 0.01"),
    (r#"reorder = { probability = 0.01, delay = "5ms" }"#, "reorder = { probability = 0.01, dealy = 5 }"),
    (r#"delay = { min = "1ms", max = "9ms" }"#, r#"delay = { min = "9ms", max = "1ms" }"#),
    (r#"delay = { min = "1ms", max = "9ms" }"#, r#"delay = { min = "1ms", most = "9ms" }"#),
    (r#"delay = { min = "1ms", max = "9ms" }"#, r#"delay = { min = "0s", max = "0s" }"#),
    ("[record]", "[recrd]"),
    ("[record]", "[record"),
    ("[[nodes]]\nname = \"right\"", "[[nodes]]\nname = \"idle\"\nkind = \"host\"\n[[nodes]]\nname = \"right\""),
    ("[[nodes]]\nname = \"right\"\nkind = \"host\"", "[[nodes]]\nname = \"right\""),
    ("[[flows]]\nname = \"reno\"", "[[links]]\nfrom = \"r1\"\nto = \"right\"\nrate = \"1Mbit/s\"\ndelay = \"1ms\"\n[[flows]]\nname = \"reno\""),
    (r#"warmup = "1s""#, "warmup = \"1s\"\nwarmup = \"2s\""),
];

/// Overrides of [`FULL`] that are wrong.
#[rustfmt::skip]
const OVERRIDE_FAULTS: &[&[&str]] = &[
    &["duration=10"],
    &["duration=10 parsecs"],
    &["durration=10s"],
    &["links.bottleneck.rate=50Mbits"],
    &["links.bottelneck.rate=50Mbit/s"],
    &["links[2].rate=50Mbit/s"],
    &["links.left-r1.rate.x=1"],
    &["flows[0].tcp.cc=renno"],
    &["flows.reno.tcp.rto_max=1ms"],
    &["flows.reno.count=1000000000"],
    &["flows.reno.count=nan"],
    &["flows..count=1"],
    &["flows[x].count=1"],
    &["flows=3"],
    &["duration.x=3"],
    &["seed=-1", "warmup=20s"],
    &["record.interval={"],
    &["links.bottleneck.queue.limit=5"],
    &["links.left-r1.buffer.rtt=5ms"],
];

/// Replaces the lists of the registries: a new policy must not change these texts.
fn without_registries(mut text: String) -> String {
    let options = &schema()["$defs"]["TcpOptions"]["properties"];
    let options: Vec<&str> = options.as_object().unwrap().keys().map(String::as_str).collect();
    let mut of_profile = options.clone();
    of_profile.push("base");
    of_profile.sort_unstable();
    let profiles: Vec<&str> = airtcp_core::tcp::profile::profile_names().collect();
    for (names, shown) in [
        (QueueConfig::NAMES.join(", "), "<queues>"),
        (CcConfig::NAMES.join(", "), "<congestion controls>"),
        (LossConfig::NAMES.join(", "), "<loss policies>"),
        (RateConfig::NAMES.join(", "), "<rate controls>"),
        (RetryOutConfig::NAMES.join(", "), "<retry-out policies>"),
        (SignalConfig::NAMES.join(", "), "<signals>"),
        (options.join(", "), "<options>"),
        (of_profile.join(", "), "<options and base>"),
        (profiles.join(", "), "<profiles>"),
    ] {
        for before in ["accepted: ", "one of "] {
            text = text.replace(&format!("{before}{names}"), &format!("{before}{shown}"));
        }
    }
    text
}

#[test]
fn every_fault_is_named_with_file_line_key_value_and_what_is_accepted() {
    let listing = FAULTS.iter().map(|(from, to)| format!("{from}\n    => {to}\n{}\n\n", errors(from, to)));
    insta::assert_snapshot!(without_registries(listing.collect()));
}

#[test]
fn a_fault_of_an_override_names_the_argument() {
    let listing = OVERRIDE_FAULTS.iter().map(|sets| format!("{}\n\n", errors_with(FULL, sets)));
    insta::assert_snapshot!(without_registries(listing.collect()));
}

#[test]
fn a_file_that_is_no_scenario_is_refused_as_such() {
    let bytes = |bytes: &[u8]| Scenario::parse_bytes(bytes, "x.toml", &[]).unwrap_err().to_string();
    assert_eq!(bytes(b""), "x.toml: is empty: a scenario has at least `duration`, `nodes` and `links`");
    assert_eq!(bytes(b"# later\n\n"), bytes(b""));
    assert_eq!(bytes(b"\x7fELF\x02\0\0"), "x.toml: is a binary file, not a scenario in TOML");
    assert_eq!(bytes(b"seed = 1\nname = \"\xff\""), "x.toml:2: is not UTF-8 text");
    let load = |path: &str| Scenario::load(Path::new(path), &[]).unwrap_err().to_string();
    let folder = env!("CARGO_MANIFEST_DIR");
    assert_eq!(load(folder), format!("{folder}: is a directory, not a scenario file"));
    let absent = format!("{folder}/absent.toml");
    assert!(load(&absent).starts_with(&format!("{absent}: cannot be read: ")));
    let json = |text: &str| Scenario::parse_json(text, "x.json", &[]).unwrap_err().to_string();
    assert_eq!(json("[]"), "x.json: not a JSON object");
    assert_eq!(json("{}"), "x.json: is empty: a scenario has at least `duration`, `nodes` and `links`");
    assert!(json("{\n\n,}").starts_with("x.json:3: not JSON: "));
    assert_eq!(
        json(r#"{"duration": 5, "nodes": null, "links": []}"#),
        "x.json: duration = 5: not a duration: a number with ns, us, ms, s, min or h, such as \"90ms\"\n\
         x.json: nodes: missing; must be a list"
    );
}

#[test]
fn groups_become_members_in_the_order_of_the_file() {
    let spec = spec(FULL);
    let nodes: Vec<&str> = spec.nodes.iter().map(|n| &*n.name).collect();
    assert_eq!(nodes, ["left[0]", "left[1]", "left[2]", "left[3]", "r1", "right"]);
    assert_eq!(spec.nodes.iter().map(|n| n.is_host).collect::<Vec<_>>(), [true, true, true, true, false, true]);

    assert_eq!(spec.links.len(), 10);
    let there = &spec.links[2];
    assert_eq!((&*there.name, &*there.group, there.from, there.to), ("left[1]->r1", "left-r1", NodeId(1), NodeId(4)));
    assert_eq!((there.rate, there.delay, there.is_member_of_group), (DataRate::from_mbps(100), Span::from_ms(2), true));
    assert_eq!(there.queue, QueueConfig::Fifo(FifoConfig::default()));
    assert_eq!((&*spec.links[3].name, spec.links[3].delay), ("r1->left[1]", Span::from_ms(2)));
    assert_eq!(spec.links[6].delay, Span::from_ms(4));

    let (down, up) = (&spec.links[8], &spec.links[9]);
    assert_eq!((&*down.name, &*down.group), ("r1->right", "bottleneck"));
    assert_eq!((&*up.name, &*up.group), ("right->r1", "bottleneck"));
    assert_eq!((down.rate, up.rate), (DataRate::from_mbps(10), DataRate::from_mbps(1)));
    assert_eq!((down.delay, up.delay), (Span::from_ms(20), Span::from_ms(20)));
    assert_eq!(down.queue, QueueConfig::Fifo(FifoConfig { limit_packets: Some(50), limit_bytes: None }));
    // 1 Mbit/s times 80 ms, halved.
    assert_eq!(up.queue, QueueConfig::Fifo(FifoConfig { limit_packets: None, limit_bytes: Some(Bytes::new(5000)) }));
    assert_eq!((down.loss.get(), up.loss.get(), down.cost, up.cost), (0.01, 0.01, 2, 2));
    assert!(!down.is_member_of_group);
    let held = |probability, min, max| Reorder {
        probability: Probability::new(probability).unwrap(),
        min: Span::from_ms(min),
        max: Span::from_ms(max),
    };
    assert_eq!((down.reorder, up.reorder, there.reorder), (held(0.01, 5, 5), held(0.02, 1, 9), Reorder::NONE));

    let flows: Vec<(&str, u32, u32)> = spec.flows.iter().map(|f| (&*f.name, f.from.0, f.to.0)).collect();
    let expected = [
        ("reno[0]", 0, 5),
        ("reno[1]", 1, 5),
        ("reno[2]", 2, 5),
        ("reno[3]", 3, 5),
        ("web[0]", 2, 5),
        ("web[1]", 2, 5),
        ("ping", 5, 0),
        ("train", 5, 0),
    ];
    assert_eq!(flows, expected);
    assert_eq!(spec.flows[0].stop, Time::NEVER);
    assert_eq!(spec.flows[7].stop, Time::ZERO + Span::from_secs(9));

    assert_eq!(spec.record.interval, Span::from_ms(100));
    assert_eq!(spec.record.link_series, [LinkId(2), LinkId(8), LinkId(9)]);
    assert_eq!(spec.record.drops, spec.record.link_series);
    assert_eq!(spec.record.capture, [LinkId(8)]);
    assert_eq!(spec.record.retransmissions, [0, 1, 2, 3, 5].map(FlowId));
    let all = FULL.replace(r#"["reno", "web[1]"]"#, "true");
    assert_eq!(self::spec(&all).record.retransmissions, [0, 1, 2, 3, 4, 5].map(FlowId));
    assert_eq!(self::spec(&all.replace("retransmissions = true", "")).record.retransmissions, [FlowId(0); 0]);
}

#[test]
fn tcp_options_are_layered_flow_over_profile_over_base() {
    let spec = spec(FULL);
    let ends = |flow: usize| match &spec.flows[flow].traffic {
        Traffic::Tcp { sender, receiver, .. } => (sender.clone(), receiver.clone()),
        other => panic!("{other:?}"),
    };
    let (sender, receiver) = ends(0);
    assert_eq!(
        (sender.connection.packet_bytes, sender.pacing.rule, sender.cwnd.initial),
        (1500, Pacing::RttOverCwnd, 2)
    );
    // `right` has the default profile linux-6, but what concerns both ends is settled between them.
    assert_eq!(
        (receiver.connection.packet_bytes, receiver.connection.handshake, receiver.cwnd.initial),
        (1500, false, 10)
    );
    assert_eq!((receiver.timestamps.enabled, receiver.loss_recovery.recovery), (false, Recovery::Reno));
    assert_eq!(receiver.receiver.delayed_ack, Span::from_ms(100));
    let (web, _) = ends(4);
    assert_eq!(web.connection.packet_bytes, 1000);
    let Traffic::Tcp { app: TcpApp::Web(web), read_rate: None, .. } = &spec.flows[4].traffic else { panic!() };
    assert_eq!((web.tail_alpha, web.tail_k, web.gap_from), (1.2, Bytes::new(133_000), GapFrom::End));
}

#[test]
fn the_ends_agree_as_real_ones_do() {
    let ends = |tcp: &str, receiver: &str, from: &str, to: &str| {
        let text = format!(
            "duration = \"1s\"\n[profiles.bare]\nhandshake = false\npacket_bytes = 1000\ntimestamps = false\n\
             recovery = \"reno\"\n[[nodes]]\nname = \"a\"\nkind = \"host\"\nprofile = \"{from}\"\n\
             [[nodes]]\nname = \"b\"\nkind = \"host\"\nprofile = \"{to}\"\n\
             [[links]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit/s\"\ndelay = \"1ms\"\n\
             [[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ntcp = {{ {tcp} }}\nreceiver = {{ {receiver} }}\n"
        );
        let Traffic::Tcp { sender, receiver, .. } = spec(&text).flows.remove(0).traffic else { panic!() };
        [sender, receiver].map(|c| {
            (
                c.connection.packet_bytes,
                c.connection.handshake,
                c.timestamps.enabled,
                c.loss_recovery.recovery,
                c.ecn.enabled,
            )
        })
    };
    let (linux, bare) = ("linux-6", "bare");
    let same = |config| [config, config];
    use Recovery::{NewReno, Reno, Sack};
    assert_eq!(ends("", "", linux, linux), same((1500, true, true, Sack, false)));
    assert_eq!(ends("", "", linux, bare), [(1000, true, false, NewReno, false), (1000, true, false, Reno, false)]);
    assert_eq!(ends("", "", bare, linux), same((1000, false, false, Reno, false)));
    let all = "recovery = \"sack\", timestamps = true, ecn = true, packet_bytes = 576";
    assert_eq!(ends(all, "", bare, bare), same((576, false, true, Sack, true)));
    assert_eq!(ends("ecn = true", "", linux, linux), same((1500, true, true, Sack, true)));
    assert_eq!(ends(all, "timestamps = false", linux, linux), same((576, true, false, Sack, true)));
    assert_eq!(ends("", "packet_bytes = 1280", linux, linux), same((1280, true, true, Sack, false)));
}

#[test]
fn draws_come_from_the_seed_alone() {
    let starts = |text: &str| spec(text).flows[..4].iter().map(|f| f.start).collect::<Vec<_>>();
    let one = starts(FULL);
    assert_eq!(one, starts(FULL));
    assert_ne!(one, starts(&FULL.replace("seed = 7", "seed = 8")));
    assert!(one.iter().all(|&t| t <= Time::ZERO + Span::from_secs(2)));
    assert!(one.windows(2).all(|w| w[0] != w[1]));

    let random = FULL.replace(r#"max = "4ms" }"#, r#"max = "4ms", spread = "random" }"#);
    let links = spec(&random).links;
    for pair in links[..8].chunks(2) {
        assert_eq!(pair[0].delay, pair[1].delay);
        assert!((Span::from_ms(1)..=Span::from_ms(4)).contains(&pair[0].delay));
    }
    assert_ne!(links[0].delay, links[2].delay);
}

#[test]
fn overrides_reach_everything() {
    let with = |sets: &[&str]| {
        let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
        Scenario::parse(FULL, "x.toml", &overrides).and_then(|s| s.to_spec()).unwrap_or_else(|e| panic!("{e}"))
    };
    assert_eq!(with(&[]), spec(FULL));
    assert_eq!(with(&["duration=20s"]).duration, Span::from_secs(20));
    assert_eq!(with(&["duration=\"20s\"", "duration = 30s"]).duration, Span::from_secs(30));
    assert_eq!(with(&["links.bottleneck.rate=50Mbit/s"]).links[8].rate, DataRate::from_mbps(50));
    assert_eq!(with(&["links[1].rate=50Mbit/s"]).links[8].rate, DataRate::from_mbps(50));
    assert_eq!(with(&["links.left-r1.delay=9ms"]).links[0].delay, Span::from_ms(9));
    assert_eq!(with(&["flows.reno.count=10"]).flows.len(), 14);
    assert_eq!(with(&["name=2024"]), spec(FULL));
    // A queue that is not there, or only a name, becomes a table.
    let limit = |spec: &RunSpec| serde_json::to_value(&spec.links[0].queue).unwrap()["limit_packets"].clone();
    assert_eq!(limit(&with(&["links.left-r1.queue.limit_packets=5"])), 5);
    assert_eq!(limit(&with(&["links.left-r1.queue=fifo", "links[0].queue.limit_packets=6"])), 6);
    assert_eq!(limit(&with(&["links.left-r1.queue={ name = \"fifo\", limit_packets = 7 }"])), 7);
    let pinged = with(&["flows.ping.traffic.interval=10ms"]);
    assert!(matches!(&pinged.flows[6].traffic, Traffic::Ping(ping) if ping.interval == Span::from_ms(10)));
    assert!(Override::parse("duration").unwrap_err().contains("KEY=VALUE"));
    assert!(Override::parse("=5").is_err());
}

#[test]
fn every_override_that_an_example_suggests_works() {
    let mut suggested = 0;
    for (path, text) in examples() {
        let plain = Scenario::load(&path, &[]).and_then(|s| s.to_spec()).unwrap();
        for line in text.lines().filter(|l| l.starts_with('#')) {
            for set in line.split("--set ").skip(1) {
                let set = set.split(' ').next().unwrap_or_default().trim_end_matches(['.', ',']);
                let changed = Scenario::load(&path, &[Override::parse(set).unwrap()]).and_then(|s| s.to_spec());
                assert_ne!(changed.unwrap_or_else(|e| panic!("{e}")), plain, "{set} changes nothing");
                suggested += 1;
            }
        }
    }
    assert!(suggested >= 4);
}

/// A network of the given links between hosts a, b and routers r, s, with one flow; its `to` is on
/// the line before the last.
fn flow_over(links: &[(&str, &str, bool)], traffic: &str) -> String {
    let mut text = String::from("duration = \"1s\"\n");
    for (name, kind) in [("a", "host"), ("b", "host"), ("r", "router"), ("s", "router")] {
        text += &format!("[[nodes]]\nname = \"{name}\"\nkind = \"{kind}\"\n");
    }
    for (from, to, one_way) in links {
        text += &format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\none_way = {one_way}\n");
        text += "rate = \"1Mbit/s\"\ndelay = \"1ms\"\n";
    }
    text + &format!("[[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ntraffic = {traffic}\n")
}

#[test]
fn what_would_need_more_memory_than_there_is_is_told_before_the_run() {
    let lines = &[("a", "b", false)];
    let faults = |traffic: &str| {
        let scenario = Scenario::parse(&flow_over(lines, traffic), "x.toml", &[]).unwrap();
        scenario.to_spec().map_or_else(|errors| errors.to_string(), |_| String::new())
    };
    for traffic in [
        r#"{ kind = "ping", interval = "1ns" }"#,
        r#"{ kind = "cbr", rate = "1000Tbit/s" }"#,
        r#"{ kind = "train", count = 4294967295 }"#,
        r#"{ kind = "buffer_probe", count = 4294967295, gap = "1ns", every = "5s" }"#,
    ] {
        assert!(faults(traffic).contains("packets in a second of simulated time: at most 100000000"), "{traffic}");
    }
    assert!(faults(r#"{ kind = "stream", rate = "1Mbit/s", every = "1ns" }"#).contains("must be at least 1us"));
    let kept = faults(r#"{ kind = "ping", interval = "11ns" }"#);
    assert!(kept.contains("each with a row of its own: at most 10000000"), "{kept}");
    for traffic in [
        r#"{ kind = "ping", interval = "1us" }"#,
        r#"{ kind = "cbr", rate = "400Gbit/s" }"#,
        r#"{ kind = "train", count = 1000000 }"#,
    ] {
        assert_eq!(faults(traffic), "", "{traffic}");
    }
    // Each entry alone is within the bounds. The one that goes beyond is named, with file, line,
    // key and what is accepted.
    let mut text = flow_over(lines, r#"{ kind = "cbr", rate = "350Gbit/s" }"#);
    for name in ["g", "h", "i"] {
        text += &format!(
            "[[flows]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"cbr\", rate = \"350Gbit/s\" }}\n"
        );
    }
    let told = Scenario::parse(&text, "x.toml", &[]).unwrap().to_spec().unwrap_err().to_string();
    assert!(told.starts_with("x.toml:") && told.contains("flows[3].traffic: "), "{told}");
    let message = "116666668 packets in a second of simulated time, with those of flows before it: at most 100000000";
    assert!(told.contains(message), "{told}");
    let rows = flow_over(lines, "\"unlimited\"") + "[record]\ninterval = \"1ns\"\n";
    let told = Scenario::parse(&rows, "x.toml", &[]).unwrap().to_spec().unwrap_err().to_string();
    assert!(told.contains("record.interval = \"1ns\"") && told.contains("are more than 50000000"), "{told}");
}

#[test]
fn chains_of_profiles_end() {
    let chained = |count: usize| {
        let mut text = flow_over(&[("a", "b", false)], "\"unlimited\"");
        for i in 0..count {
            let base = if i == 0 { "linux-6".to_owned() } else { format!("p{}", i - 1) };
            text += &format!("[profiles.p{i}]\nbase = \"{base}\"\n");
        }
        let scenario = Scenario::parse(&text, "x.toml", &[]).unwrap();
        scenario.to_spec().map_or_else(|errors| errors.to_string(), |_| String::new())
    };
    assert_eq!(chained(15), "");
    assert!(chained(20).contains("chain of more than 16 profiles"));
    assert!(chained(4000).contains("chain of more than 16 profiles"));
}

#[test]
fn a_flow_needs_a_path_there_and_an_answer_needs_one_back() {
    const TCP: &str = "\"unlimited\"";
    const CBR: &str = "{ kind = \"cbr\", rate = \"1kbit/s\" }";
    let result = |links: &[(&str, &str, bool)], traffic: &str| {
        let text = flow_over(links, traffic);
        let line = text.lines().count() - 1;
        let errors = errors_with(&text, &[]);
        errors.replace(&format!("x.toml:{line}: flows[0].to = \"b\": "), "")
    };
    assert_eq!(result(&[("a", "b", false)], TCP), "accepted");
    assert_eq!(result(&[("a", "r", false), ("r", "s", false), ("s", "b", false)], TCP), "accepted");
    assert_eq!(result(&[("a", "r", false), ("s", "b", false)], TCP), "no path leads from a to b");
    let thither = [("a", "r", false), ("r", "s", true), ("s", "b", false)];
    assert_eq!(result(&thither, TCP), "no path leads from b to a");
    assert_eq!(result(&thither, CBR), "accepted");
    let hither = [("a", "r", false), ("s", "r", true), ("s", "b", false)];
    assert_eq!(result(&hither, CBR), "no path leads from a to b");
    // Two lines of one direction each make a way there and back.
    assert_eq!(result(&[("a", "r", false), ("r", "s", true), ("s", "r", true), ("s", "b", false)], TCP), "accepted");
    assert_eq!(result(&[("a", "r", true), ("r", "b", true), ("b", "s", true), ("s", "a", true)], TCP), "accepted");
}

#[test]
fn groups_are_linked_member_by_member() {
    let text = "duration = \"1s\"\n[[nodes]]\nname = \"a\"\nkind = \"host\"\ncount = 3\n\
                [[nodes]]\nname = \"b\"\nkind = \"host\"\ncount = 3\n\
                [[links]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit/s\"\ndelay = \"1ms\"\n\
                [[flows]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncount = 7\n";
    let expanded = spec(text);
    let names: Vec<&str> = expanded.links.iter().step_by(2).map(|l| &*l.name).collect();
    assert_eq!(names, ["a[0]->b[0]", "a[1]->b[1]", "a[2]->b[2]"]);
    assert!(expanded.record.link_series.is_empty());
    let wrapped: Vec<u32> = expanded.flows.iter().map(|f| f.from.0).collect();
    assert_eq!(wrapped, [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(
        errors_with(&text.replace("b\"\nkind = \"host\"\ncount = 3", "b\"\nkind = \"host\"\ncount = 2"), &[]),
        "x.toml:12: links[0].to = \"b\": groups are linked member by member, but `a` has 3 and `b` 2"
    );
}

#[test]
fn ten_thousand_separate_entries_expand() {
    let mut text = String::from("duration = \"1s\"\n[[nodes]]\nname = \"r\"\nkind = \"router\"\n");
    for i in 0..10_000 {
        text += &format!("[[nodes]]\nname = \"h{i}\"\nkind = \"host\"\n");
        text += &format!("[[links]]\nfrom = \"h{i}\"\nto = \"r\"\nrate = \"1Mbit/s\"\ndelay = \"1ms\"\n");
        if i > 0 {
            text += &format!("[[flows]]\nname = \"f{i}\"\nfrom = \"h{i}\"\nto = \"h0\"\n");
        }
    }
    let spec = spec(&text);
    assert_eq!((spec.nodes.len(), spec.links.len(), spec.flows.len()), (10_001, 20_000, 9_999));
}

#[test]
fn the_written_out_scenario_is_the_same_run() {
    let mut texts = examples();
    texts.push((PathBuf::from("full.toml"), FULL.to_owned()));
    for (path, text) in texts {
        let name = path.display().to_string();
        let scenario = Scenario::parse(&text, &name, &[]).unwrap();
        let toml = scenario.to_toml();
        let again = Scenario::parse(&toml, &name, &[]).unwrap_or_else(|e| panic!("{e}\n{toml}"));
        assert_eq!(again.to_spec(), scenario.to_spec(), "{name}");
        assert_eq!(again.to_toml(), toml, "{name}");
        let json = Scenario::parse_json(&scenario.to_json().to_string(), &name, &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(json.to_spec(), scenario.to_spec(), "{name}");
    }
}

#[test]
fn every_queue_takes_a_limit_by_rule() {
    let rule = "buffer = { rule = \"bdp\", rtt = \"100ms\", packet_bytes = 1000 }";
    for name in QueueConfig::NAMES {
        let text =
            FULL.replace(r#"queue = { name = "fifo", limit_packets = 50 }"#, &format!("queue = \"{name}\"\n{rule}"));
        let scenario = Scenario::parse(&text, "x.toml", &[]).unwrap();
        let spec = scenario.to_spec().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(serde_json::to_value(&spec.links[8].queue).unwrap()["limit_packets"], 125, "{name}");
        // Written out, the discipline's own default limit stands beside the rule.
        let again = Scenario::parse(&scenario.to_toml(), "x.toml", &[]).and_then(|s| s.to_spec());
        assert_eq!(again, Ok(spec), "{name}");
    }
}

/// Calls `visit` with every schema inside, and the key it stands under.
fn walk(key: &str, schema: &Json, visit: &mut dyn FnMut(&str, &Json)) {
    visit(key, schema);
    for (key, inner) in ["properties", "$defs"].iter().filter_map(|k| schema[k].as_object()).flatten() {
        walk(key, inner, visit);
    }
    for inner in ["anyOf", "oneOf"].iter().filter_map(|k| schema[k].as_array()).flatten() {
        walk(key, inner, visit);
    }
    for inner in ["items", "additionalProperties"].iter().map(|k| &schema[k]).filter(|s| s.is_object()) {
        walk(key, inner, visit);
    }
}

#[test]
fn the_schema_is_made_once() {
    assert!(std::ptr::eq(schema(), schema()));
}

#[test]
fn the_schema_describes_every_key_and_closes_every_table() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let mut keys = 0;
    let mut silent = Vec::new();
    walk("", schema, &mut |at, s| {
        for (key, property) in s["properties"].as_object().into_iter().flatten() {
            keys += 1;
            if !property["description"].is_string() {
                silent.push(format!("{at}.{key}: {property}"));
            }
        }
        if s["type"] == "object" {
            assert!(s["additionalProperties"] == false || s["additionalProperties"].is_object(), "{at} is open");
        }
        let shown = s.to_string();
        assert!(!shown.contains("null"), "{at}: TOML has no null: {shown}");
        let known = ["$ref", "type", "anyOf", "oneOf", "const"];
        assert!(known.iter().any(|k| !s[k].is_null()), "{at}: the checks do not understand {shown}");
        if let Some(name) = s["$ref"].as_str() {
            assert!(!schema["$defs"][name.trim_start_matches("#/$defs/")].is_null(), "{name}");
        }
    });
    assert!(silent.is_empty(), "without a description: {silent:#?}");
    assert!(keys > 80, "{keys}");
}

/// Pieces that are likely to hurt.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "", "\"", "[", "]", "{", "}", "=", ",", "\n", "#", ".", "-1", "0", "1e400", "nan", "-inf", "9223372036854775808",
    "99999999999999999999999999999999999999999", "0xffff_ffff", "true", "\"\"", "\"0s\"", "\"1h\"", "\"720h\"",
    "\"18446744073709551614ns\"", "\"0bit/s\"", "\"18446744073709551614bit/s\"", "\"left[0]\"", "\"left[4294967295]\"",
    "\"left\"", "\"r1\"", "\"right\"", "[[nodes]]", "[[links]]", "[record]", "1979-05-27T07:32:00Z", "{}", "[]", "[[]]",
    "'''", "\u{0}", "\u{feff}", "é", "one_way = true\n", "count = 1\n", "count = 1000000\n", "stop = \"5s\"\n",
    "buffer = { rule = \"bdp\", rtt = \"720h\", scale = 1e308 }\n", "traffic = \"web\"\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_mutated_file_parses_or_says_where_it_does_not(
        edits in prop::collection::vec((0.0..1.0f64, 0usize..30, prop::sample::select(PIECES), any::<bool>()), 1..4),
    ) {
        let mut text = FULL.to_owned();
        for (at, cut, piece, whole_value) in edits {
            let floor = |i: usize| (0..=i.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            let start = floor((at * text.len() as f64) as usize);
            let (start, end) = if whole_value {
                // From the `=` of a line to its end.
                let start = text[start..].find("= ").map_or(start, |i| start + i + 2);
                (start, text[start..].find('\n').map_or(text.len(), |i| start + i))
            } else {
                (start, floor(start + cut).max(start))
            };
            text.replace_range(start..end, piece);
        }
        match Scenario::parse_bytes(text.as_bytes(), "x.toml", &[]) {
            Ok(scenario) => {
                if let Err(errors) = scenario.to_spec() {
                    prop_assert!(errors.iter().next().is_some());
                    for error in errors.iter() {
                        prop_assert!(error.line.is_some() && !error.key.is_empty(), "{}", error);
                    }
                }
                let toml = scenario.to_toml();
                let again = Scenario::parse(&toml, "x.toml", &[]);
                prop_assert!(again.is_ok(), "{:?}\n{}", again, toml);
                prop_assert_eq!(again.unwrap().to_spec().ok(), scenario.to_spec().ok());
            }
            Err(errors) => {
                let whole_file = text.contains('\0') || text.trim().is_empty();
                for error in errors.iter() {
                    prop_assert!(whole_file || error.line.is_some(), "{}", error);
                }
            }
        }
    }

    #[test]
    fn an_override_applies_or_is_named(
        key in r"[a-z_.\[\]0-9]{0,20}|(flows|links|nodes|record)(\[[0-3]\]|\.(reno|web|ping|left|bottleneck))(\.[a-z_]{1,8}){0,3}",
        piece in prop::sample::select(PIECES),
    ) {
        if let Ok(over) = Override::parse(&format!("{key}={piece}")) {
            if let Err(errors) = Scenario::parse(FULL, "x.toml", &[over]).and_then(|s| s.to_spec()) {
                for error in errors.iter() {
                    prop_assert!(error.argument.is_some() || error.line.is_some(), "{}", error);
                }
            }
        }
    }
}
