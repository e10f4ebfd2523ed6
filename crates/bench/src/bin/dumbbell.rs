//! Runs a dumbbell and prints how it went and how long it took: for measuring and profiling.
//!
//! `cargo run --release -p airtcp-bench --bin dumbbell -- [flows=100] [rate=100Mbit/s] [delay=90ms]
//! [buffer=1666] [seconds=60] [traffic=reno] [profile=linux-6] [access=RATE] [packet=1500]`;
//! `traffic` is a congestion control, `ping` (the same packets and hops without TCP) or `cbr`.

#![allow(clippy::cast_lossless, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of numbers that are known to fit

use std::sync::Arc;

use airtcp_core::queue::QueueConfig;
use airtcp_core::queue::fifo::FifoConfig;
use airtcp_core::tcp::cc::CcConfig;
use airtcp_core::tcp::profile::profile;
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::record::Data;
use airtcp_sim::spec::*;
use airtcp_sim::traffic::{Cbr, Ping, Unlimited};
use airtcp_sim::world::World;

#[allow(clippy::disallowed_types)] // a measurement needs a clock
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |name: &str, default: &str| {
        let value = args.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or(default).to_owned()
    };
    let flows: u32 = arg("flows", "100").parse().expect("flows: a number");
    let rate: DataRate = arg("rate", "100Mbit/s").parse().expect("rate");
    let delay: Span = arg("delay", "90ms").parse().expect("delay");
    let buffer: u32 = arg("buffer", "1666").parse().expect("buffer: packets");
    let seconds: u64 = arg("seconds", "60").parse().expect("seconds: a number");
    let packet: u16 = arg("packet", "1500").parse().expect("packet: bytes");
    let access: DataRate = arg("access", &rate.to_string()).parse().expect("access");
    let traffic = arg("traffic", "reno");
    let traffic = match traffic.as_str() {
        "ping" | "cbr" => {
            let each = DataRate::from_bps((rate.as_bps() * 98 / 100 / u64::from(flows)).max(1));
            if traffic == "cbr" {
                Traffic::Cbr(Cbr { rate: each, packet_bytes: packet })
            } else {
                Traffic::Ping(Ping { interval: each.time_for(u64::from(packet)), packet_bytes: packet })
            }
        }
        cc => {
            let mut options = profile(&arg("profile", "linux-6")).expect("profile: a built-in one");
            options.cc = Some(CcConfig::by_name(cc).expect("traffic: a congestion control, ping or cbr").into());
            options.packet_bytes = Some(packet);
            let config = Arc::new(options.resolve().expect("profiles are complete"));
            Traffic::Tcp {
                sender: config.clone(),
                receiver: config,
                read_rate: None,
                app: TcpApp::Unlimited(Unlimited {}),
            }
        }
    };

    let spec = dumbbell(flows, rate, access, delay, buffer, seconds, &traffic);
    let begin = std::time::Instant::now();
    let mut world = World::build(&spec).unwrap_or_else(|e| panic!("{e}"));
    let built = begin.elapsed();
    let cpu = cpu_time();
    world.run(&mut NoCapture);
    let ran = cpu.map_or(begin.elapsed() - built, |cpu| cpu_time().unwrap_or_default().saturating_sub(cpu));
    let output = world.finish();
    let links = output.table("links").expect("there is always a table of links");
    let figure = |name: &str| match links.column(name) {
        Some(Data::F64(v)) => v[0],
        _ => f64::NAN,
    };
    println!(
        "utilisation {:.4}  loss {:.5}  mean queue {:.1} packets  delivered {}  events {}",
        figure("utilisation"),
        figure("loss_ratio"),
        figure("queue_mean_packets"),
        output.packets_delivered,
        output.events
    );
    println!(
        "built in {:.3} s, ran in {:.3} s of processor time: {:.1} ns per delivered packet, {:.1} ns per event, {:.2} times real time",
        built.as_secs_f64(),
        ran.as_secs_f64(),
        ran.as_nanos() as f64 / output.packets_delivered as f64,
        ran.as_nanos() as f64 / output.events as f64,
        seconds as f64 / ran.as_secs_f64()
    );
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        if let Some(line) = status.lines().find(|l| l.starts_with("VmHWM")) {
            println!("{line}");
        }
    }
}

/// Time this thread has spent computing, where the system tells: other load does not disturb it as
/// it does a clock.
fn cpu_time() -> Option<std::time::Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(std::time::Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

fn dumbbell(
    flows: u32,
    rate: DataRate,
    access: DataRate,
    delay: Span,
    buffer: u32,
    seconds: u64,
    traffic: &Traffic,
) -> RunSpec {
    let router = |name: &str| NodeSpec::new(name, false);
    let mut nodes = vec![router("r1"), router("r2")];
    let link = |from: u32, to: u32, rate, delay, limit_packets: Option<u32>| LinkSpec {
        name: format!("{from}->{to}"),
        from: NodeId(from),
        to: NodeId(to),
        delay,
        air: None,
        line: Arc::new(LineSpec {
            queue: QueueConfig::Fifo(FifoConfig { limit_packets, limit_bytes: None }),
            is_member_of_group: limit_packets.is_none(),
            ..LineSpec::new(if limit_packets.is_some() { "bottleneck" } else { "access" }, rate)
        }),
    };
    let mut links = vec![link(0, 1, rate, delay, Some(buffer)), link(1, 0, rate, delay, Some(buffer))];
    let mut list = Vec::new();
    for i in 0..flows {
        let (left, right) = (2 + 2 * i, 3 + 2 * i);
        nodes.push(NodeSpec::new(format!("left[{i}]"), true));
        nodes.push(NodeSpec::new(format!("right[{i}]"), true));
        for (a, b) in [(left, 0), (0, left), (right, 1), (1, right)] {
            links.push(link(a, b, access, Span::from_ms(5), None));
        }
        list.push(FlowSpec {
            name: format!("flow[{i}]"),
            group: "flow".into(),
            from: NodeId(left),
            to: NodeId(right),
            // Spread over the first second, in an order unlike that of the flows.
            start: Time::ZERO + Span::from_secs(1).mul_ratio(u64::from(i) * 7919 % u64::from(flows), u64::from(flows)),
            stop: Time::NEVER,
            ac: airtcp_core::wifi::Ac::Be,
            traffic: traffic.clone(),
        });
    }
    RunSpec {
        seed: 1,
        duration: Span::from_secs(seconds),
        warmup: Span::from_secs(seconds).mul_ratio(1, 6),
        nodes,
        links,
        channels: Vec::new(),
        walks: Vec::new(),
        roaming: Vec::new(),
        flows: list,
        external: ExternalSpec::default(),
        record: RecordSpec {
            interval: Span::from_ms(100),
            flow_series_max: 10,
            link_series: vec![LinkId(0)],
            drops: vec![LinkId(0)],
            retransmissions: Vec::new(),
            capture: Vec::new(),
            air_series: Vec::new(),
            ppdus: Vec::new(),
            capture_air: Vec::new(),
        },
    }
}
