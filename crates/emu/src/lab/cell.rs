//! A scenario as the laboratory can run it: one access point with its stations, wired hosts behind it, and flows between them. What it
//! cannot do is said by key, before anything starts.

use std::collections::BTreeSet;
use std::sync::Arc;

use airtcp_core::queue::QueueConfig;
use airtcp_core::tcp::TcpConfig;
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_core::wifi::phy::{Standard, Width};
use airtcp_core::wifi::rate::RateConfig;
use airtcp_core::wifi::retry_out::RetryOutConfig;
use airtcp_core::wifi::{ChannelConfig, PairConfig, RadioConfig, TraceConfig};
use airtcp_sim::spec::{NodeId, RunSpec, TcpApp, Traffic};

/// Most radios: each takes a kernel.
const MOST: usize = 33;
/// Congestion controls of the kernels that `tools/uml/build.py` makes.
const CONTROLS: [&str; 10] = ["reno", "cubic", "bic", "westwood", "htcp", "vegas", "veno", "illinois", "dctcp", "bbr"];

/// A scenario that the laboratory can run.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) medium: ChannelConfig,
    /// By radio.
    pub(crate) radios: Vec<Radio>,
    /// The access point's place among them.
    pub(crate) ap: usize,
    pub(crate) wired: Vec<Wired>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) warmup: Span,
    pub(crate) duration: Span,
    pub(crate) interval: Span,
    pub(crate) seed: u64,
}

/// A radio and its host.
#[derive(Debug)]
pub(crate) struct Radio {
    pub(crate) name: String,
    /// The MCS that it is fixed to.
    pub(crate) mcs: Option<u8>,
    pub(crate) short_gi: bool,
    pub(crate) tcp: Option<Arc<TcpConfig>>,
    /// Of an access point with the remedy: its table, as the kernel writes it.
    pub(crate) retry_out: Option<String>,
}

/// A host behind the access point, on a line of its own.
#[derive(Debug)]
pub(crate) struct Wired {
    pub(crate) up: Line,
    pub(crate) down: Line,
    pub(crate) tcp: Option<Arc<TcpConfig>>,
}

/// One direction of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) rate: DataRate,
    pub(crate) delay: Span,
    /// Packets that wait, and those on the line.
    pub(crate) limit: u64,
}

/// A host, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    Station(usize),
    Wired(usize),
}

/// Traffic between two hosts.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) from: Host,
    pub(crate) to: Host,
    pub(crate) start: Time,
    pub(crate) stop: Time,
    pub(crate) kind: Kind,
}

/// What a flow sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As much as TCP lets it.
    Tcp { cc: String },
    /// A datagram now and then, which comes back.
    Ping { interval: Span, payload: u16 },
    /// A datagram now and then.
    Cbr { interval: Span, payload: u16 },
}

impl Kind {
    /// As the tables call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Tcp { .. } => "unlimited",
            Kind::Ping { .. } => "ping",
            Kind::Cbr { .. } => "cbr",
        }
    }
}

/// Headers of IPv4 and UDP.
const UDP: u16 = 28;

/// Reads the scenario.
///
/// # Errors
/// A sentence about what the laboratory cannot do.
pub(crate) fn cell(spec: &RunSpec) -> Result<Cell, String> {
    let [channel] = &spec.channels[..] else {
        return Err(match spec.channels.len() {
            0 => "the scenario has no WLAN: airtcp lab needs [[wlans]] with an access point and stations".to_owned(),
            n => format!("the scenario has {n} channels: airtcp lab runs one"),
        });
    };
    if let Some(link) = spec.links.iter().find(|link| link.rate_trace.is_some()) {
        return Err(format!("line {:?} has a `rate_trace`: airtcp lab runs lines of one rate", link.name));
    }
    let aps: BTreeSet<usize> = channel.pairs.iter().map(|pair| pair.access_point.index()).collect();
    let (Some(&ap), 1) = (aps.first(), aps.len()) else {
        return Err(format!("WLAN {:?}: airtcp lab runs one access point, not {}", channel.name, aps.len()));
    };
    if !spec.walks.is_empty() || !spec.roaming.is_empty() {
        return Err("hosts that walk or roam: airtcp lab runs stations that stay where they are".to_owned());
    }
    if channel.radios.len() > MOST {
        return Err(format!("{} stations: airtcp lab runs {} at most", channel.radios.len() - 1, MOST - 1));
    }
    let tcp_of = |node: NodeId| {
        spec.flows.iter().find_map(|flow| match &flow.traffic {
            Traffic::Tcp { sender, .. } if flow.from == node => Some(Arc::clone(sender)),
            Traffic::Tcp { receiver, .. } if flow.to == node => Some(Arc::clone(receiver)),
            _ => None,
        })
    };
    let name = |node: NodeId| spec.nodes[node.index()].name.clone();
    let mut radios = Vec::new();
    for (place, radio) in channel.radios.iter().enumerate() {
        let name = name(radio.node);
        let read = radio_of(&radio.config, place == ap).map_err(|why| format!("the radio of {name:?}: {why}"))?;
        let (mcs, short_gi, retry_out) = read;
        radios.push(Radio { name, mcs, short_gi, tcp: tcp_of(radio.node), retry_out });
    }
    let mut wired = Vec::new();
    let ap_node = channel.radios[ap].node;
    let mut nodes = Vec::new();
    for (node, about) in (0..).map(NodeId).zip(&spec.nodes) {
        if let Some(place) = channel.radios.iter().position(|radio| radio.node == node) {
            nodes.push((place != ap).then_some(Host::Station(place)));
            continue;
        }
        let line = |from, to| {
            let link = spec.links.iter().find(|link| link.from == from && link.to == to && link.air.is_none())?;
            Some(line_of(link.rate, link.delay, &link.queue))
        };
        let (Some(down), Some(up), true) = (line(ap_node, node), line(node, ap_node), about.is_host) else {
            return Err(format!(
                "{:?} is no host with a line to the access point: airtcp lab runs stations and such hosts",
                about.name
            ));
        };
        nodes.push(Some(Host::Wired(wired.len())));
        wired.push(Wired { up, down, tcp: tcp_of(node) });
    }
    let end = Time::ZERO + spec.duration;
    let mut flows = Vec::new();
    for flow in &spec.flows {
        let host = |node: NodeId| {
            nodes[node.index()].ok_or_else(|| format!("flow {:?}: no program runs on an access point", flow.name))
        };
        let kind = kind_of(&flow.traffic).map_err(|why| format!("flow {:?}: {why}", flow.name))?;
        let (from, to) = (host(flow.from)?, host(flow.to)?);
        let (name, group) = (flow.name.clone(), flow.group.clone());
        flows.push(Flow { name, group, from, to, start: flow.start, stop: flow.stop.min(end), kind });
    }
    let pair = |pair: &airtcp_sim::spec::PairSpec| PairConfig {
        station: pair.station,
        access_point: pair.access_point,
        signal: pair.signal.clone(),
        motion: None,
        roams: None,
    };
    let medium = ChannelConfig {
        radios: channel.radios.iter().map(|radio| Arc::clone(&radio.config)).collect(),
        pairs: channel.pairs.iter().map(pair).collect(),
        groups: channel.groups.clone(),
        hidden: channel.hidden.clone(),
        sensing: channel.sensing,
        capture_effect: channel.capture_effect,
        seed: spec.seed,
        index: 0,
        trace: TraceConfig::default(),
    };
    let (warmup, duration, interval) = (spec.warmup, spec.duration, spec.record.interval);
    Ok(Cell { medium, radios, ap, wired, flows, warmup, duration, interval, seed: spec.seed })
}

/// MCS, short guard interval, and the remedy's table.
fn radio_of(config: &RadioConfig, is_ap: bool) -> Result<(Option<u8>, bool, Option<String>), String> {
    let phy = &config.phy;
    if phy.standard != Standard::N || phy.width() != Width::Mhz20 || phy.streams > 2 {
        return Err("airtcp lab runs 802.11n with 20 MHz and at most 2 streams: set phy.standard = \"n\"".to_owned());
    }
    if !config.aggregates() || !config.acks() {
        return Err("airtcp lab runs radios with qos, ack and aggregation, as kernels have them".to_owned());
    }
    let (mcs, short_gi) = match &config.rate_control {
        None | Some(RateConfig::MinstrelHt(_)) => (None, phy.short_guard_interval),
        Some(RateConfig::Fixed(fixed)) => match fixed.mcs {
            Some(mcs) => (Some(mcs), phy.short_guard_interval),
            None => return Err("rate_control: a fixed rate needs `mcs` in airtcp lab".to_owned()),
        },
        Some(_) => return Err("rate_control: kernels have \"minstrel_ht\", or \"fixed\" with `mcs`".to_owned()),
    };
    let retry_out = match &config.reorder_buffer.retry_out {
        None => None,
        Some(_) if !is_ap => return Err("retry_out: in airtcp lab only an access point has it".to_owned()),
        Some(RetryOutConfig::Stepped(stepped)) if stepped.steps.len() <= 4 => {
            let step = |step: &airtcp_core::wifi::retry_out::stepped::RetryOutStep| {
                format!("{}:{}", step.below.as_bps() / 1_000_000, step.index)
            };
            Some(stepped.steps.iter().map(step).collect::<Vec<_>>().join(" "))
        }
        Some(_) => return Err("retry_out: kernels have \"stepped\", with up to four steps".to_owned()),
    };
    Ok((mcs, short_gi, retry_out))
}

fn line_of(rate: DataRate, delay: Span, queue: &QueueConfig) -> Line {
    let waiting = match queue {
        QueueConfig::Fifo(fifo) => fifo.limit_packets.map_or(100_000, u64::from),
        _ => 1000,
    };
    let bytes = u128::from(rate.as_bps()) * u128::from(delay.as_ns()) / 8_000_000_000;
    let on_line = u64::try_from(bytes / 64).unwrap_or(u64::MAX).min(1_000_000);
    Line { rate, delay, limit: waiting + on_line }
}

fn kind_of(traffic: &Traffic) -> Result<Kind, String> {
    match traffic {
        Traffic::Tcp { sender, app: TcpApp::Unlimited(_), read_rate: None, .. } => {
            let cc = sender.cc.name().to_owned();
            if !CONTROLS.contains(&cc.as_str()) {
                return Err(format!("tcp.cc: kernels have {}, not {cc:?}", CONTROLS.join(", ")));
            }
            Ok(Kind::Tcp { cc })
        }
        Traffic::Ping(ping) => Ok(Kind::Ping { interval: ping.interval, payload: ping.packet_bytes - UDP }),
        Traffic::Cbr(cbr) => {
            let interval = cbr.rate.time_for(u64::from(cbr.packet_bytes));
            Ok(Kind::Cbr { interval, payload: cbr.packet_bytes - UDP })
        }
        _ => Err("traffic: airtcp lab runs \"unlimited\" without a read rate, \"ping\" and \"cbr\"".to_owned()),
    }
}
