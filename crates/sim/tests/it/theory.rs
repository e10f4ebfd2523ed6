//! Whole runs against what theory says, and a grid of runs whose table is reviewed when it changes.

#![allow(clippy::disallowed_methods)] // the platform's logarithms are good enough to compare with

use std::fmt::Write;

use airtcp_core::queue::QueueConfig;
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::tcp::cc::CcConfig;
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::Scenario;
use airtcp_sim::summary::{GroupSummary, LinkSummary};
use airtcp_sim::world::World;
use rand::RngExt;

const MSS: f64 = 1448.0;

/// One line between two hosts; `more` goes into the scenario's `[[flows]]` table.
struct Case {
    rate_mbit: u64,
    rtt_ms: u64,
    limit_packets: u64,
    loss: f64,
    seconds: u64,
    flows: u64,
    queue: &'static str,
    more: String,
}

impl Case {
    fn new(more: &str) -> Case {
        Case {
            rate_mbit: 10,
            rtt_ms: 80,
            limit_packets: 67,
            loss: 0.0,
            seconds: 120,
            flows: 1,
            queue: "fifo",
            more: more.to_owned(),
        }
    }

    fn run(&self) -> (GroupSummary, LinkSummary) {
        let Case { rate_mbit, rtt_ms, limit_packets, loss, seconds, flows, queue, more } = self;
        let limit = if *queue == "red" { String::new() } else { format!(", limit_packets = {limit_packets}") };
        let text = format!(
            r#"
            duration = "{seconds}s"
            warmup = "{}s"
            nodes = [{{ name = "a", kind = "host" }}, {{ name = "b", kind = "host" }}]
            [[links]]
            from = "a"
            to = "b"
            rate = "{rate_mbit}Mbit/s"
            delay = "{}us"
            queue = {{ name = "{queue}"{limit} }}
            loss = {loss}
            reverse = {{ queue = "fifo", loss = 0.0, rate = "10Gbit/s" }}
            [[flows]]
            name = "flow"
            from = "a"
            to = "b"
            count = {flows}
            start = {{ from = "0s", to = "1s" }}
            {more}
            "#,
            seconds / 6,
            rtt_ms * 500,
        );
        let spec = Scenario::parse(&text, "case", &[]).unwrap().to_spec().unwrap();
        let mut world = World::build(&spec).unwrap();
        world.run(&mut NoCapture);
        let mut summary = world.finish().summary;
        let line = summary.links.swap_remove(summary.links.iter().position(|l| l.name == "a->b").unwrap());
        (summary.groups.swap_remove(0), line)
    }
}

/// Mathis, Semke, Mahdavi and Ott, ACM CCR 27(3), 1997: a mean window of sqrt(3/2) / sqrt(p) with
/// an ACK per segment.
#[test]
fn reno_under_random_loss_follows_mathis() {
    for loss in [0.0005, 0.002] {
        let mut case = Case::new(r#"tcp = { cc = "reno", receive_buffer = "64MiB", send_buffer_max = "64MiB" }"#);
        (case.rate_mbit, case.limit_packets, case.seconds, case.loss, case.flows) = (10_000, 100_000, 600, loss, 8);
        let (group, line) = case.run();
        let expected = (1.5 / loss).sqrt();
        let mean = group.cwnd_mean_segments.unwrap();
        assert!((mean / expected - 1.0).abs() < 0.1, "loss {loss}: cwnd {mean}, Mathis {expected}");
        let goodput = 8.0 * expected * MSS * 8.0 / 0.08;
        let measured = group.goodput_bps.unwrap();
        assert!((measured / goodput - 1.0).abs() < 0.1, "loss {loss}: {measured} bit/s, Mathis {goodput}");
        assert!(line.utilisation.unwrap() < 0.05);
    }
}

/// A sawtooth from W to W/2 with W = BDP + B keeps the line busy when B is at least BDP; with B
/// below that it delivers (BDP + B)^2 * 3/8 segments in (BDP + B)/2 round trips, less the round
/// trips that are longer while the queue is not empty.
#[test]
fn one_reno_flow_needs_a_bandwidth_delay_product_of_buffer() {
    let utilisation = |limit_packets| {
        let mut case = Case::new(r#"tcp = { cc = "reno", initial_ssthresh = 30 }"#);
        (case.limit_packets, case.seconds) = (limit_packets, 300);
        case.run().1.utilisation.unwrap()
    };
    let bdp: f64 = 10e6 * 0.08 / 8.0 / 1500.0;
    assert!(utilisation(bdp as u64 + 1) > 0.995);
    assert!(utilisation(2 * bdp as u64) > 0.995);
    for part in [0.1, 0.25, 0.5] {
        let buffer = (part * bdp).round();
        // Time in units of the empty round trip: below BDP a round takes 1, above it window / BDP.
        let (top, half) = (bdp + buffer, (bdp + buffer) / 2.0);
        let sent = (top * top - half * half) / 2.0;
        let time = (bdp - half) + (top * top - bdp * bdp) / (2.0 * bdp);
        let expected = sent / time / bdp;
        let measured = utilisation(buffer as u64);
        assert!((measured - expected).abs() < 0.03, "buffer {part} BDP: {measured}, sawtooth {expected}");
    }
}

/// Mean window of CUBIC's curve (RFC 9438 figure 1) under random loss, as a fluid: a loss after an
/// exponentially distributed number of segments, then W(t) = C (t - K)^3 + Wmax. Poojary and Sharma
/// (arXiv 1510.08496) solve the same chain; it is a quarter above the response function of RFC 9438
/// section 5.1, which assumes losses at equal distances.
fn cubic_fluid(loss: f64, rtt: f64) -> f64 {
    const C: f64 = 0.4;
    const BETA: f64 = 0.7;
    let mut rng = stream(1, 0, Purpose::LinkLoss);
    let (mut w_max, mut area, mut time) = (100.0f64, 0.0, 0.0);
    for _ in 0..20_000 {
        let mut left = -(1.0 - rng.random::<f64>()).ln() / loss;
        let k = (w_max * (1.0 - BETA) / C).cbrt();
        let (mut t, dt) = (0.0f64, 0.01);
        let mut w = BETA * w_max;
        while left > 0.0 {
            w = C * (t - k).powi(3) + w_max;
            left -= w * dt / rtt;
            area += w * dt;
            t += dt;
        }
        time += t;
        w_max = w;
    }
    area / time
}

#[test]
fn cubic_under_random_loss_follows_its_curve() {
    let mut case = Case::new(
        r#"
        tcp.cc = { name = "cubic", reno_friendly = false, fast_convergence = false, slow_start_exit = "none" }
        tcp.receive_buffer = "64MiB"
        tcp.send_buffer_max = "64MiB"
        "#,
    );
    (case.rate_mbit, case.limit_packets, case.seconds, case.loss, case.flows) = (10_000, 100_000, 900, 0.001, 8);
    let (group, _) = case.run();
    let expected = cubic_fluid(0.001, 0.08);
    let mean = group.cwnd_mean_segments.unwrap();
    assert!((mean / expected - 1.0).abs() < 0.1, "cwnd {mean}, fluid {expected}");
}

/// Results of the controls and the disciplines over buffers and losses. A change of behaviour shows
/// as a change of this table.
#[test]
fn the_grid_of_controls_buffers_and_losses() {
    let mut table = String::from("control  buffer/BDP  loss%  goodput Mbit/s  resent%  mean RTT ms  timeouts  Jain\n");
    for cc in CcConfig::NAMES {
        for (part, loss) in [(0.25, 0.0), (1.0, 0.0), (4.0, 0.0), (1.0, 0.001), (1.0, 0.02)] {
            // The bottleneck is the host's own line and stands for one in the network: what it
            // drops is lost.
            let mut case = Case::new(&format!("tcp = {{ cc = \"{cc}\", local_drops = \"lost\" }}"));
            (case.limit_packets, case.loss, case.flows) = ((part * 67.0) as u64, loss, 2);
            let (g, _) = case.run();
            row(&mut table, &format!("{cc:7}  {part:10}  {:5}", loss * 100.0), &g);
        }
    }
    insta::assert_snapshot!("controls", table);
}

#[test]
fn the_grid_of_queues() {
    let mut table = String::from("queue     ecn    goodput Mbit/s  resent%  mean RTT ms  timeouts  Jain\n");
    for queue in QueueConfig::NAMES {
        for ecn in [false, true] {
            let mut case = Case::new(&format!("tcp = {{ cc = \"cubic\", ecn = {ecn}, local_drops = \"lost\" }}"));
            (case.limit_packets, case.flows, case.queue) = (268, 4, queue);
            let (g, _) = case.run();
            row(&mut table, &format!("{queue:8}  {ecn:5}"), &g);
        }
    }
    insta::assert_snapshot!("queues", table);
}

fn row(table: &mut String, head: &str, g: &GroupSummary) {
    writeln!(
        table,
        "{head}  {:14.2}  {:7.2}  {:11.1}  {:8}  {:.2}",
        g.goodput_bps.unwrap() / 1e6,
        100.0 * g.retransmission_ratio.unwrap(),
        g.rtt_mean_ms.unwrap(),
        g.timeouts,
        g.jain.unwrap(),
    )
    .unwrap();
}

/// Access links at the bottleneck's own rate, drop-tail, round numbers: a backlogged flow's packets
/// come exactly as the bottleneck's packets leave. Were departures always first at equal times, it
/// would find room each time, and with these seeds one flow takes nearly all of the line (Floyd and
/// Jacobson, "On traffic phase effects", 1991, and what `crates/sim/src/network/link.rs` says on
/// ties). ns-2 gives a fairness of 0.97 to a like network.
#[test]
fn no_flow_locks_the_others_out() {
    for seed in 1..=6 {
        let text = format!(
            r#"
            seed = {seed}
            duration = "40s"
            warmup = "15s"
            [[nodes]]
            name = "left"
            kind = "host"
            count = 500
            profile = "ns2-reno"
            [[nodes]]
            name = "right"
            kind = "host"
            count = 500
            profile = "ns2-reno"
            [[nodes]]
            name = "r1"
            kind = "router"
            [[nodes]]
            name = "r2"
            kind = "router"
            [[links]]
            from = "left"
            to = "r1"
            rate = "100Mbit/s"
            delay = "5ms"
            [[links]]
            from = "r1"
            to = "r2"
            rate = "100Mbit/s"
            delay = "90ms"
            queue = {{ name = "fifo", limit_packets = 111 }}
            [[links]]
            from = "r2"
            to = "right"
            rate = "100Mbit/s"
            delay = "5ms"
            [[flows]]
            name = "flow"
            from = "left"
            to = "right"
            start = {{ from = "0s", to = "1s" }}
            "#
        );
        let spec = Scenario::parse(&text, "lock-out", &[]).unwrap().to_spec().unwrap();
        let mut world = World::build(&spec).unwrap();
        world.run(&mut NoCapture);
        let jain = world.finish().summary.groups[0].jain.unwrap();
        assert!(jain > 0.9, "seed {seed}: fairness {jain}");
    }
}
