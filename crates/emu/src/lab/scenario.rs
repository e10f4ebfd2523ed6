//! A scenario as the laboratory can run it: access points of one channel with their stations, wired
//! hosts behind them, and flows between them. Keys that it cannot follow are refused by name,
//! before anything starts.

use std::collections::BTreeSet;
use std::sync::Arc;

use airtcp_core::queue::QueueConfig;
use airtcp_core::receive::ReceiveOffloadConfig;
use airtcp_core::tcp::TcpConfig;
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_core::wifi::phy::Width;
use airtcp_core::wifi::rate::RateConfig;
use airtcp_core::wifi::retry_out::RetryOutConfig;
use airtcp_core::wifi::{ChannelConfig, RadioConfig};
use airtcp_sim::spec::{NodeId, RunSpec, TcpApp, Traffic};

use crate::common::medium::{medium, only_channel};

/// Most radios: each takes a kernel.
const MAX_RADIOS: usize = 33;
/// Congestion controls of the kernels that `tools/uml/build.py` makes.
const CONGESTION_CONTROLS: [&str; 10] =
    ["reno", "cubic", "bic", "westwood", "htcp", "vegas", "veno", "illinois", "dctcp", "bbr"];

/// A scenario that the laboratory can run.
#[derive(Debug)]
pub(crate) struct LabScenario {
    pub(crate) medium: ChannelConfig,
    /// By radio.
    pub(crate) radios: Vec<Radio>,
    /// Band of all of them.
    pub(crate) band: Band,
    pub(crate) wired: Vec<Wired>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) warmup: Span,
    pub(crate) duration: Span,
    pub(crate) interval: Span,
    pub(crate) seed: u64,
}

impl LabScenario {
    /// True if the radio of this index is an access point.
    pub(crate) fn is_ap(&self, index: usize) -> bool {
        self.radios[index].ap == index
    }

    /// Where the access points are.
    pub(crate) fn aps(&self) -> impl Iterator<Item = usize> {
        (0..self.radios.len()).filter(|&index| self.is_ap(index))
    }
}

/// Settings common to all radios, beside their rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Band {
    /// Rates of 802.11ac.
    pub(crate) vht: bool,
    /// 40 MHz.
    pub(crate) wide: bool,
}

impl Band {
    /// Wide channels and 802.11ac are at 5 GHz: at 2.4 GHz hostapd looks for neighbours first.
    pub(crate) fn is_at_5_ghz(self) -> bool {
        self.vht || self.wide
    }
}

/// A radio and its host.
#[derive(Debug)]
pub(crate) struct Radio {
    pub(crate) name: String,
    /// The index of its access point, or its own.
    pub(crate) ap: usize,
    /// Streams that it has.
    pub(crate) streams: u8,
    /// The MCS that it is fixed to.
    pub(crate) mcs: Option<u8>,
    pub(crate) short_gi: bool,
    pub(crate) tcp: Option<Arc<TcpConfig>>,
    /// For an access point with the remedy: its table, as the kernel writes it.
    pub(crate) retry_out: Option<String>,
}

/// How a wired host merges segments that it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offload {
    pub(crate) flush_timeout: Span,
    pub(crate) defer: u32,
}

/// A host behind an access point, on a line of its own.
#[derive(Debug)]
pub(crate) struct Wired {
    pub(crate) name: String,
    /// The access point's index.
    pub(crate) ap: usize,
    pub(crate) offload: Option<Offload>,
    /// The scenario has a receive offload that the laboratory has not.
    pub(crate) lacks_offload: bool,
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

/// A host, by its index.
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
    pub(crate) kind: FlowKind,
}

/// Traffic of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FlowKind {
    /// As much as TCP lets it.
    Tcp { cc: String },
    /// A datagram now and then, which comes back.
    Ping { interval: Span, payload: u16 },
    /// A datagram now and then.
    Cbr { interval: Span, payload: u16 },
}

impl FlowKind {
    /// As the tables call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            FlowKind::Tcp { .. } => "unlimited",
            FlowKind::Ping { .. } => "ping",
            FlowKind::Cbr { .. } => "cbr",
        }
    }
}

/// Headers of IPv4 and UDP.
const IP_UDP_BYTES: u16 = 28;

/// Reads the scenario.
///
/// # Errors
/// A sentence about what the laboratory cannot do.
pub(crate) fn lab_scenario(spec: &RunSpec) -> Result<LabScenario, String> {
    let channel = only_channel(spec, "airtcp lab")?;
    if let Some(link) = spec.links.iter().find(|link| link.rate_trace.is_some()) {
        return Err(format!("line {:?} has a `rate_trace`: airtcp lab runs lines of one rate", link.name));
    }
    let aps: BTreeSet<usize> = channel.pairs.iter().map(|pair| pair.access_point.index()).collect();
    let mut ap_of: Vec<Option<usize>> = vec![None; channel.radios.len()];
    for pair in &channel.pairs {
        let (station, ap) = (pair.station.index(), pair.access_point.index());
        if ap_of[station].replace(ap).is_some_and(|other| other != ap) {
            return Err(format!("WLAN {:?}: airtcp lab runs stations of one access point each", channel.name));
        }
        ap_of[ap] = Some(ap);
    }
    if channel.radios.len() > MAX_RADIOS {
        return Err(format!("{} radios: airtcp lab runs {MAX_RADIOS} at most", channel.radios.len()));
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
    for (index, radio) in channel.radios.iter().enumerate() {
        let name = name(radio.node);
        let ap = ap_of[index].ok_or_else(|| format!("the radio of {name:?} has no access point"))?;
        let read = radio_settings(&radio.config, index == ap).map_err(|why| format!("the radio of {name:?}: {why}"))?;
        let (mcs, short_gi, retry_out) = read;
        let streams = radio.config.phy.streams;
        radios.push(Radio { name, ap, streams, mcs, short_gi, tcp: tcp_of(radio.node), retry_out });
    }
    let bands: Vec<Band> = channel.radios.iter().map(|radio| band(&radio.config)).collect();
    let band = *bands.first().ok_or("the WLAN has no radios")?;
    if bands.iter().any(|other| *other != band) {
        return Err(format!("WLAN {:?}: airtcp lab runs radios of one standard and width", channel.name));
    }
    let mut wired = Vec::new();
    let mut nodes = Vec::new();
    for (node, about) in (0..).map(NodeId).zip(&spec.nodes) {
        if let Some(index) = channel.radios.iter().position(|radio| radio.node == node) {
            nodes.push((!aps.contains(&index)).then_some(Host::Station(index)));
            continue;
        }
        let line = |from, to| {
            let link = spec.links.iter().find(|link| link.from == from && link.to == to && link.air.is_none())?;
            Some(line(link.rate, link.delay, &link.queue))
        };
        let to_ap = |ap: usize| {
            let ap_node = channel.radios[ap].node;
            Some((ap, line(ap_node, node)?, line(node, ap_node)?))
        };
        let mut lines = aps.iter().filter_map(|&ap| to_ap(ap));
        let (Some((ap, down, up)), None, true) = (lines.next(), lines.next(), about.is_host) else {
            return Err(format!(
                "{:?} is no host with a line to one access point: airtcp lab runs stations and such hosts",
                about.name
            ));
        };
        let (offload, lacks_offload) = match &about.receive_offload {
            ReceiveOffloadConfig::Off(_) => (None, false),
            ReceiveOffloadConfig::Napi(napi) if napi.interrupt_interval.is_zero() => {
                (Some(Offload { flush_timeout: napi.gro_flush_timeout, defer: napi.napi_defer_hard_irqs }), false)
            }
            _ => (None, true),
        };
        nodes.push(Some(Host::Wired(wired.len())));
        wired.push(Wired { name: about.name.clone(), ap, offload, lacks_offload, up, down, tcp: tcp_of(node) });
    }
    let end = Time::ZERO + spec.duration;
    let mut flows = Vec::new();
    for flow in &spec.flows {
        let host = |node: NodeId| {
            nodes[node.index()].ok_or_else(|| format!("flow {:?}: no program runs on an access point", flow.name))
        };
        let kind = flow_kind(&flow.traffic).map_err(|why| format!("flow {:?}: {why}", flow.name))?;
        let (from, to) = (host(flow.from)?, host(flow.to)?);
        let ap_of_host = |host| match host {
            Host::Station(index) => ap_of[index],
            Host::Wired(n) => wired.get(n).map(|own| own.ap),
        };
        if ap_of_host(from) != ap_of_host(to) {
            return Err(format!(
                "flow {:?}: its ends are behind two access points: airtcp lab has no line between",
                flow.name
            ));
        }
        let (name, group) = (flow.name.clone(), flow.group.clone());
        flows.push(Flow { name, group, from, to, start: flow.start, stop: flow.stop.min(end), kind });
    }
    let medium = medium(spec, channel);
    let (warmup, duration, interval) = (spec.warmup, spec.duration, spec.record.interval);
    Ok(LabScenario { medium, radios, band, wired, flows, warmup, duration, interval, seed: spec.seed })
}

/// MCS, short guard interval, and the remedy's table.
fn radio_settings(config: &RadioConfig, is_ap: bool) -> Result<(Option<u8>, bool, Option<String>), String> {
    let phy = &config.phy;
    let is_known = phy.standard.has_ht() && matches!(phy.width(), Width::Mhz20 | Width::Mhz40);
    if !is_known || phy.streams > 2 {
        return Err("airtcp lab runs 802.11n and 802.11ac with 20 MHz or 40 MHz and at most 2 streams: \
            set phy.standard = \"n\", or phy.width_mhz = 40"
            .to_owned());
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

fn band(config: &RadioConfig) -> Band {
    Band { vht: config.phy.standard.has_vht(), wide: config.phy.width() == Width::Mhz40 }
}

fn line(rate: DataRate, delay: Span, queue: &QueueConfig) -> Line {
    let waiting = match queue {
        QueueConfig::Fifo(fifo) => fifo.limit_packets.map_or(100_000, u64::from),
        _ => 1000,
    };
    let bytes = u128::from(rate.as_bps()) * u128::from(delay.as_ns()) / 8_000_000_000;
    let on_line = u64::try_from(bytes / 64).unwrap_or(u64::MAX).min(1_000_000);
    Line { rate, delay, limit: waiting + on_line }
}

fn flow_kind(traffic: &Traffic) -> Result<FlowKind, String> {
    match traffic {
        Traffic::Tcp { sender, app: TcpApp::Unlimited(_), read_rate: None, .. } => {
            let cc = sender.cc.name().to_owned();
            if !CONGESTION_CONTROLS.contains(&cc.as_str()) {
                return Err(format!("tcp.cc: kernels have {}, not {cc:?}", CONGESTION_CONTROLS.join(", ")));
            }
            Ok(FlowKind::Tcp { cc })
        }
        Traffic::Ping(ping) => {
            Ok(FlowKind::Ping { interval: ping.interval, payload: ping.packet_bytes - IP_UDP_BYTES })
        }
        Traffic::Cbr(cbr) => {
            let interval = cbr.rate.time_for(u64::from(cbr.packet_bytes));
            Ok(FlowKind::Cbr { interval, payload: cbr.packet_bytes - IP_UDP_BYTES })
        }
        _ => Err("traffic: airtcp lab runs \"unlimited\" without a read rate, \"ping\" and \"cbr\"".to_owned()),
    }
}
