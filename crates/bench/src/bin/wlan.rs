//! Runs TCP uploads over one access point and prints how it went and how long it took: for
//! measuring and profiling.
//!
//! `cargo run --release -p airtcp-bench --bin wlan -- [stations=1] [mcs=7] [seconds=60] [cc=cubic]
//! [profile=linux-6] [path=qdisc|mac80211] [ahead=2] [direction=up|down] [tsq=off|on]`

#![allow(clippy::cast_lossless, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of numbers that are known to fit

use std::sync::Arc;

use airtcp_core::tcp::cc::CcConfig;
use airtcp_core::tcp::profile::profile;
use airtcp_core::units::{DataRate, Probability, Span, Time};
use airtcp_core::wifi::phy::{PhyConfig, SignalConfig, Standard};
use airtcp_core::wifi::rate::{FixedConfig, RateConfig};
use airtcp_core::wifi::{Ac, Aggregation, RadioConfig, TransmitConfig};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::record::Data;
use airtcp_sim::spec::*;
use airtcp_sim::traffic::Unlimited;
use airtcp_sim::world::World;

#[allow(clippy::disallowed_types)] // a measurement needs a clock
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |name: &str, default: &str| {
        let value = args.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or(default).to_owned()
    };
    let number =
        |name: &str, default: &str| arg(name, default).parse::<u64>().unwrap_or_else(|_| panic!("{name}: a number"));
    let stations = number("stations", "1") as u32;
    let seconds = number("seconds", "60");
    let mut options = profile(&arg("profile", "linux-6")).expect("profile: a built-in one");
    options.cc = Some(CcConfig::by_name(&arg("cc", "cubic")).expect("cc: a congestion control").into());
    if arg("tsq", "off") == "off" {
        options.tsq = Some(airtcp_core::tcp::Tsq::Off);
    }
    let tcp = Arc::new(options.resolve().expect("profiles are complete"));
    let radio = Arc::new(RadioConfig {
        phy: PhyConfig::of(Standard::N),
        rate_control: Some(RateConfig::Fixed(FixedConfig {
            mcs: Some(number("mcs", "7") as u8),
            ..FixedConfig::default()
        })),
        aggregation: Aggregation {
            max_frames: 64,
            formed_ahead: Some(number("ahead", "2") as u8),
            ..Aggregation::default()
        },
        transmit: if arg("path", "qdisc") == "qdisc" {
            TransmitConfig::Qdisc(Default::default())
        } else {
            TransmitConfig::Mac80211(Default::default())
        },
        ..RadioConfig::default()
    });
    let is_up = arg("direction", "up") == "up";
    let (ap, server) = (NodeId(stations), NodeId(stations + 1));
    let host = |name: String, is_host| NodeSpec::new(name, is_host);
    let mut nodes: Vec<NodeSpec> = (0..stations).map(|i| host(format!("sta[{i}]"), true)).collect();
    nodes.push(host("ap".into(), false));
    nodes.push(host("server".into(), true));
    let link = |from: NodeId, to: NodeId, air| LinkSpec {
        name: format!("{}->{}", from.0, to.0),
        from,
        to,
        delay: Span::from_ms(1),
        air,
        line: LineSpec { is_member_of_group: true, ..LineSpec::new("wlan", DataRate::from_mbps(1000)) }.into(),
    };
    let mut links = Vec::new();
    for i in 0..stations {
        links.push(link(
            NodeId(i),
            ap,
            Some(AirSpec { channel: ChannelId(0), pair: i as u16, down: false, is_group: false }),
        ));
        links.push(link(
            ap,
            NodeId(i),
            Some(AirSpec { channel: ChannelId(0), pair: i as u16, down: true, is_group: false }),
        ));
    }
    links.push(link(ap, server, None));
    links.push(link(server, ap, None));
    let mut radios: Vec<RadioSpec> =
        (0..stations).map(|i| RadioSpec { node: NodeId(i), config: radio.clone() }).collect();
    radios.push(RadioSpec { node: ap, config: radio });
    let pair = |i| PairSpec::fixed(i as u16, stations as u16, SignalConfig::default());
    let flow = |i: u32| FlowSpec {
        name: format!("f[{i}]"),
        group: "f".into(),
        from: if is_up { NodeId(i) } else { server },
        to: if is_up { server } else { NodeId(i) },
        start: Time::from_ns(u64::from(i) * 1_000_000),
        stop: Time::NEVER,
        ac: Ac::Be,
        traffic: Traffic::Tcp {
            sender: tcp.clone(),
            receiver: tcp.clone(),
            read_rate: None,
            app: TcpApp::Unlimited(Unlimited {}),
        },
    };
    let spec = RunSpec {
        seed: number("seed", "1"),
        duration: Span::from_secs(seconds),
        warmup: Span::from_secs(seconds.min(10) / 2),
        nodes,
        links,
        channels: vec![ChannelSpec {
            name: "wlan".into(),
            radios,
            pairs: (0..stations).map(pair).collect(),
            groups: Vec::new(),
            hidden: Vec::new(),
            sensing: Span::from_us(4),
            capture_effect: Probability::ZERO,
        }],
        walks: Vec::new(),
        roaming: Vec::new(),
        flows: (0..stations).map(flow).collect(),
        external: ExternalSpec::default(),
        record: RecordSpec {
            interval: Span::from_ms(100),
            flow_series_max: 0,
            link_series: Vec::new(),
            drops: Vec::new(),
            retransmissions: Vec::new(),
            capture: Vec::new(),
            air_series: Vec::new(),
            ppdus: Vec::new(),
            capture_air: Vec::new(),
        },
    };
    let mut world = World::build(&spec).unwrap_or_else(|e| panic!("{e}"));
    let begin = std::time::Instant::now();
    world.run(&mut NoCapture);
    let ran = begin.elapsed();
    let ledger = world.ledger();
    let output = world.finish();
    let column = |table: &str, name: &str| match output.table(table).and_then(|t| t.column(name)) {
        Some(Data::F64(values)) => values.clone(),
        _ => Vec::new(),
    };
    let goodput = column("flows", "goodput_bps");
    println!(
        "goodput {:.2} Mbit/s, rtt {:.1} ms, queue {:.1} packets; {} packets delivered, {} events, {:.3} s: {:.0} ns per packet, {:.0} ns per event, {:.0} simulated s per s",
        goodput.iter().sum::<f64>() * 1e-6,
        column("flows", "rtt_mean_ms").iter().sum::<f64>() / f64::from(stations),
        column("links", "queue_mean_packets").first().copied().unwrap_or(f64::NAN),
        ledger.delivered.packets,
        output.events,
        ran.as_secs_f64(),
        ran.as_nanos() as f64 / ledger.delivered.packets as f64,
        ran.as_nanos() as f64 / output.events as f64,
        seconds as f64 / ran.as_secs_f64(),
    );
}
