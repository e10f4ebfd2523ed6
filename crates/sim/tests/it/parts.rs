//! A world in parts gives what the whole gives, to the bit: tables, summary, events.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::Arc;

use airtcp_core::units::{Span, Time};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::spec::RunSpec;
use airtcp_sim::world::{RunOutput, Threads, World, Worlds};
use proptest::prelude::*;

use crate::common::examples;

fn most(threads: usize) -> Threads {
    Threads::Most(NonZeroUsize::new(threads).unwrap())
}

fn spec(text: &str) -> RunSpec {
    Scenario::parse(text, "x.toml", &[]).and_then(|s| s.to_spec()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn whole(spec: &RunSpec, stop: Time) -> RunOutput {
    let mut world = World::build(spec).unwrap();
    world.run_until(stop, &mut NoCapture);
    world.finish()
}

/// The output, and into how many parts the network was divided.
fn parted(spec: &RunSpec, parts: usize, is_threaded: bool, stops: &[Time]) -> (RunOutput, usize) {
    let mut worlds = Worlds::build(&Arc::new(spec.clone()), most(parts)).unwrap();
    worlds.set_threaded(is_threaded);
    stops.iter().for_each(|&stop| worlds.run_until(stop, &mut NoCapture));
    let parts = worlds.parts();
    (worlds.finish(), parts)
}

/// NaN differs from itself, so tables are compared as text.
fn differs(a: &RunOutput, b: &RunOutput) -> Option<String> {
    if (a.events, a.packets_delivered) != (b.events, b.packets_delivered) {
        return Some(format!("events {} and {}", a.events, b.events));
    }
    for (a, b) in a.tables.iter().zip(&b.tables) {
        for (a_column, b_column) in a.columns.iter().zip(&b.columns) {
            let (left, right) = (format!("{:?}", a_column.data), format!("{:?}", b_column.data));
            if left != right {
                let at = left.bytes().zip(right.bytes()).take_while(|(l, r)| l == r).count();
                let around = |s: &str| s.chars().skip(at.saturating_sub(60)).take(120).collect::<String>();
                return Some(format!("{}.{}: {} | {}", a.name, a_column.name, around(&left), around(&right)));
            }
        }
    }
    (format!("{:?}", a.summary) != format!("{:?}", b.summary)).then(|| "summary".to_owned())
}

/// Sites around a ring of routers: each a cell with stations or a router with wired hosts.
fn network(sites: &[Site], flows: &[(usize, usize, usize)], queues: &[usize], rough: bool, warmup_ms: u64) -> String {
    const QUEUES: [&str; 6] = [
        r#"{ name = "fifo", limit_packets = 12 }"#,
        r#"{ name = "fifo" }"#,
        r#"{ name = "fq_codel" }"#,
        r#"{ name = "codel" }"#,
        r#"{ name = "pie" }"#,
        r#"{ name = "red" }"#,
    ];
    const TRAFFIC: [&str; 8] = [
        r#""unlimited""#,
        r#"{ kind = "cbr", rate = "3Mbit/s" }"#,
        r#"{ kind = "ping", interval = "10ms" }"#,
        r#"{ kind = "stream", rate = "2Mbit/s" }"#,
        r#""unlimited""#,
        r#"{ kind = "transfer", bytes = "100kB" }"#,
        r#""web""#,
        r#""call""#,
    ];
    let mut text = format!("duration = \"0.6s\"\nwarmup = \"{warmup_ms}ms\"\nseed = 7\n");
    let (mut nodes, mut links, mut wlans) = (String::new(), String::new(), String::new());
    let n = sites.len();
    for (i, site) in sites.iter().enumerate() {
        let offload = if site.offload { "" } else { r#", receive_offload = "off""# };
        let packet_us = site.packet_us;
        writeln!(
            nodes,
            r#"{{ name = "r{i}", kind = "router" }}, {{ name = "h{i}", kind = "host", count = 2, packet_time = "{packet_us}us"{offload} }},"#
        )
        .unwrap();
        let queue = QUEUES[queues[i % queues.len()]];
        if site.is_cell {
            writeln!(
                wlans,
                "[[wlans]]\nname = \"w{i}\"\nap = \"r{i}\"\nstations = [\"h{i}\"]\nphy = {{ standard = \"n\" }}\n"
            )
            .unwrap();
        } else {
            writeln!(
                links,
                "[[links]]\nfrom = \"h{i}\"\nto = \"r{i}\"\nrate = \"20Mbit/s\"\ndelay = \"{}us\"\nqueue = {queue}\n",
                site.access_us
            )
            .unwrap();
        }
        if i + 1 < n || n > 2 {
            let next = (i + 1) % n;
            let rough = if rough && i % 2 == 0 { "loss = 0.01\n" } else { "" };
            writeln!(
                links,
                "[[links]]\nname = \"b{i}\"\nfrom = \"r{i}\"\nto = \"r{next}\"\nrate = \"20Mbit/s\"\ndelay = \"{}us\"\nqueue = {queue}\n{rough}",
                site.delay_us
            )
            .unwrap();
        }
    }
    writeln!(text, "nodes = [{nodes}]\n{links}\n{wlans}").unwrap();
    for (k, &(from, to, kind)) in flows.iter().enumerate() {
        let (from, to) = (from % n, to % n);
        if from != to {
            writeln!(
                text,
                "[[flows]]\nname = \"f{k}\"\nfrom = \"h{from}\"\nto = \"h{to}\"\nstart = {{ from = \"0s\", to = \"50ms\" }}\ntraffic = {}\n",
                TRAFFIC[kind % TRAFFIC.len()]
            )
            .unwrap();
        }
    }
    text
}

#[derive(Debug, Clone)]
struct Site {
    is_cell: bool,
    access_us: u64,
    delay_us: u64,
    offload: bool,
    packet_us: u64,
}

fn site() -> impl Strategy<Value = Site> {
    // Few values, so that packets of several sites meet in the same instant.
    let delay = prop::sample::select(vec![0u64, 30, 500, 500, 1000, 2000, 5000]);
    let packet_us = prop::sample::select(vec![0u64, 0, 30, 500, 1000]);
    (any::<bool>(), delay.clone(), delay, any::<bool>(), packet_us).prop_map(
        |(is_cell, access_us, delay_us, offload, packet_us)| Site { is_cell, access_us, delay_us, offload, packet_us },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn parts_give_what_the_whole_gives(
        sites in prop::collection::vec(site(), 2..6),
        flows in prop::collection::vec((0usize..6, 0usize..6, 0usize..8), 1..7),
        queues in prop::collection::vec(0usize..6, 1..4),
        rough in any::<bool>(),
        warmup_ms in prop::sample::select(vec![0u64, 100, 250]),
        parts in 2usize..5,
        // On a busy machine threads that meet often wait for each other long.
        is_threaded in prop::bool::weighted(0.15),
        stops in prop::collection::vec(0u64..600_000_000, 0..4),
    ) {
        let text = network(&sites, &flows, &queues, rough, warmup_ms);
        prop_assume!(text.contains("[[flows]]"));
        let mut spec = spec(&text);
        spec.record.link_series = (0..spec.links.len() as u32).map(airtcp_sim::spec::LinkId).collect();
        spec.record.drops = spec.record.link_series.clone();
        spec.record.interval = Span::from_ms(20);
        let end = Time::ZERO + spec.duration;
        let mut stops: Vec<Time> = stops.into_iter().map(Time::from_ns).collect();
        stops.sort_unstable();
        stops.push(end);
        let (output, parts) = parted(&spec, parts, is_threaded, &stops);
        let differs = differs(&output, &whole(&spec, end));
        prop_assert!(differs.is_none(), "{parts} parts: {}\n{text}", differs.unwrap_or_default());
    }
}

/// Cells with a server of their own, some of which lie behind the same line.
fn campus(cells: usize, traffic: &str) -> String {
    let mut text =
        String::from("duration = \"1s\"\nwarmup = \"100ms\"\n[[nodes]]\nname = \"server\"\nkind = \"host\"\n");
    text += "[[nodes]]\nname = \"core\"\nkind = \"router\"\n";
    text += "[[links]]\nname = \"up\"\nfrom = \"core\"\nto = \"server\"\nrate = \"10Gbit/s\"\ndelay = \"5ms\"\n";
    for i in 0..cells {
        write!(
            text,
            "[[nodes]]\nname = \"ap{i}\"\nkind = \"router\"\n[[nodes]]\nname = \"s{i}\"\nkind = \"host\"\ncount = 3\n\
             [[links]]\nfrom = \"ap{i}\"\nto = \"core\"\nrate = \"1Gbit/s\"\ndelay = \"1ms\"\n\
             [[wlans]]\nname = \"w{i}\"\nap = \"ap{i}\"\nstations = [\"s{i}\"]\nphy = {{ standard = \"n\" }}\n\
             [[flows]]\nname = \"f{i}\"\nfrom = \"s{i}\"\nto = \"server\"\ntraffic = {traffic}\n"
        )
        .unwrap();
    }
    text
}

#[test]
fn a_campus_is_divided_and_balanced() {
    let spec = spec(&campus(6, "\"unlimited\""));
    let end = Time::ZERO + spec.duration;
    let whole = whole(&spec, end);
    for threads in [2, 3, 4] {
        let (output, parts) = parted(&spec, threads, true, &[end]);
        assert_eq!(parts, threads);
        assert_eq!(differs(&output, &whole), None);
    }
    // Too short for a second world to pay.
    assert_eq!(Worlds::build(&Arc::new(spec.clone()), Threads::Auto).unwrap().parts(), 1);
}

#[test]
fn what_cannot_be_divided_is_one_world() {
    // Transfers one after the other tie their ends together, and so do what is recorded of each of
    // their copies.
    for (text, change) in [(campus(3, "\"web\""), None), (campus(3, "\"unlimited\""), Some("duration=\"unlimited\""))] {
        let changes: Vec<Override> = change.iter().map(|c| Override::parse(c).unwrap()).collect();
        let Ok(spec) = Scenario::parse(&text, "x.toml", &changes).and_then(|s| s.to_spec()) else { continue };
        assert_eq!(Worlds::build(&Arc::new(spec.clone()), most(2)).unwrap().parts(), 1);
    }
}

#[test]
fn every_example_gives_the_same_in_parts() {
    let mut divided = 0;
    for (path, spec) in examples() {
        let stop = Time::ZERO + Span::from_ms(1200);
        let whole = whole(&spec, stop);
        let (output, parts) = parted(&spec, 2, false, &[stop]);
        assert_eq!(differs(&output, &whole), None, "{}", path.display());
        divided += usize::from(parts > 1);
    }
    assert!(divided >= 3, "{divided}");
}
