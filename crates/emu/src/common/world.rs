//! A [`World`] behind real hosts: who they are on it, and their packets into it and out of it.

use std::collections::BTreeSet;

use airtcp_core::packet::{Ecn, Kind, PacketId};
use airtcp_core::tcp::{Recovery, TcpConfig};
use airtcp_core::units::{Bytes, Span, Time};
use airtcp_core::wire::{Reader, address, address6, node_at, patch_ecn};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Attach, Scenario};
use airtcp_sim::spec::{ExternalHost, LinkId, NodeId, RecordSpec, RunSpec};
use airtcp_sim::world::{RunOutput, World};

use crate::common::addresses::{MACHINE, MACHINE_ADDRESS, OWN_HOST, variable};
use crate::common::broadcast::{BroadcastCells, is_to_all};
use crate::common::config::RunConfig;
use crate::common::net::{Addresses, CONTROL, Sysctl, can_have_v6};
use crate::common::network::TcpData;
use crate::common::network::{Delivered, Network, NotSent};
use crate::common::stop::Stop;

/// A host of real programs, as the scenario has it.
#[derive(Debug, Clone)]
pub(crate) struct RealHost {
    pub(crate) name: String,
    pub(crate) device: &'static str,
    pub(crate) addresses: Addresses,
    pub(crate) mtu: u16,
    pub(crate) profile: String,
    pub(crate) sysctls: Vec<Sysctl>,
}

/// A scenario whose real hosts are known.
pub(crate) struct Attached {
    pub(crate) network: SimulatedNetwork,
    pub(crate) hosts: Vec<RealHost>,
    /// Flows of the scenario that real programs replace.
    pub(crate) left_out: Vec<String>,
    /// Propagation there and back, of the nearest two real hosts.
    pub(crate) least_rtt: Span,
    /// Seed of the run.
    pub(crate) seed: u64,
}

impl Attached {
    /// True if programs find each other by IPv6, too: all real hosts have it, or none is said to.
    pub(crate) fn has_v6(&self) -> bool {
        self.hosts.iter().all(|real| can_have_v6(real.mtu))
    }
}

/// A world, and which of its nodes real programs are on.
pub(crate) struct SimulatedNetwork {
    world: World,
    reader: Reader,
    /// By index of the real host.
    nodes: Vec<NodeId>,
    /// By node: the real host's index.
    index_of: Vec<Option<usize>>,
    /// Takes what is for nobody on the network.
    gateway: Option<NodeId>,
    /// Names and addresses of all hosts.
    all_hosts: Vec<(String, Addresses)>,
    broadcast: BroadcastCells,
    /// The flow of the packet injected last, if a radio holds it.
    holding: Option<u32>,
    /// Links that [`SimulatedNetwork::load`] looks at, each with its channel if it is in the air.
    watched_links: Vec<(LinkId, Option<usize>)>,
}

/// State of the network at a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NetworkLoad {
    /// Packets in queues, of simulated hosts too.
    pub(crate) waiting: u64,
    /// By channel: how long it has been used so far.
    pub(crate) used: Vec<Span>,
}

/// A network with more links is not looked at: it would take time that packets need.
const WATCHED_LINKS_MAX: usize = 64;

fn addresses_of(node: u32) -> Addresses {
    Addresses { v4: address(node), v4_prefix: 8, v6: address6(node), v6_prefix: 64 }
}

/// Builds the world of a configuration.
pub(crate) fn attach(scenario: &Scenario, config: &RunConfig) -> Result<Attached, Stop> {
    let named = config.hosts.iter().chain(config.commands.iter().map(|command| &command.host)).chain(&config.internet);
    let named = named.chain(&config.gates);
    let hosts: Vec<String> = named.collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let attach = Attach { hosts: &hosts, forever: true };
    let mut spec = scenario.to_spec_attached(&attach).map_err(|faults| Stop::bad_input(faults.to_string()))?;
    if config.record.is_none() {
        record_nothing(&mut spec.record);
    }
    let world = World::build(&spec).map_err(|error| Stop::bad_input(error.to_string()))?;
    let hosts: Vec<RealHost> = spec.external.hosts.iter().map(|host| real_host(&spec, host)).collect();
    for host in config.commands.iter().map(|command| &command.host).chain(&config.internet).chain(&config.gates) {
        if !hosts.iter().any(|real| real.name == *host) {
            return Err(Stop::bad_input(format!(
                "{host:?} stands for several hosts: name one of them, as in {host}[0]"
            )));
        }
    }
    let nodes: Vec<NodeId> = spec.external.hosts.iter().map(|host| host.node).collect();
    let mut index_of = vec![None; spec.nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        index_of[node.index()] = Some(index);
    }
    let is_gateway = |real: &RealHost| Some(&real.name) == config.internet.as_ref();
    let gateway = hosts.iter().position(is_gateway).map(|index| nodes[index]);
    let all_hosts = (0..).zip(&spec.nodes).filter(|(_, node)| node.is_host);
    let all_hosts = all_hosts.map(|(i, node)| (node.name.clone(), addresses_of(i))).collect();
    let least_rtt = least_rtt(&spec, &nodes);
    let broadcast = BroadcastCells::new(&spec, &nodes);
    let left_out = spec.external.left_out;
    let links = (0..).map(LinkId).zip(&spec.links).map(|(id, link)| (id, link.air.map(|air| air.channel.index())));
    let watched_links = if spec.links.len() > WATCHED_LINKS_MAX { Vec::new() } else { links.collect() };
    let network = SimulatedNetwork {
        world,
        reader: Reader::default(),
        nodes,
        index_of,
        gateway,
        all_hosts,
        broadcast,
        holding: None,
        watched_links,
    };
    Ok(Attached { network, hosts, left_out, least_rtt, seed: spec.seed })
}

/// Nothing is written down, so that a network without results takes no more memory the longer it
/// runs.
fn record_nothing(record: &mut RecordSpec) {
    *record = RecordSpec {
        interval: Span::from_secs(100 * 365 * 86_400),
        flow_series_max: 0,
        link_series: Vec::new(),
        drops: Vec::new(),
        retransmissions: Vec::new(),
        capture: Vec::new(),
        air_series: Vec::new(),
        ppdus: Vec::new(),
        capture_air: Vec::new(),
    };
}

fn real_host(spec: &RunSpec, host: &ExternalHost) -> RealHost {
    let is_station = spec.channels.iter().flat_map(|channel| &channel.radios).any(|radio| radio.node == host.node);
    RealHost {
        name: spec.nodes[host.node.index()].name.clone(),
        device: if is_station { "wlan0" } else { "eth0" },
        addresses: addresses_of(host.node.0),
        mtu: host.tcp.connection.packet_bytes,
        profile: host.profile.clone(),
        sysctls: sysctls(&host.tcp),
    }
}

/// Share of a receive buffer that the kernel counts as payload, in 256ths: see `receive_buffer` in
/// the profile linux-6.
const PAYLOAD_SHARE: u64 = 160;
/// `tcp_rmem` and `tcp_wmem` begin with it: a page.
const LEAST_BUFFER: u64 = 4096;
/// The kernel knows no more: a profile may have buffers without end.
const MOST_BUFFER: u64 = i32::MAX.unsigned_abs() as u64;

/// Sysctls that decide TCP of the host's kernel.
pub(crate) fn sysctls(tcp: &TcpConfig) -> Vec<Sysctl> {
    let on = |is_on: bool| u8::from(is_on).to_string();
    let memory = |buffer: Bytes| tcp.buffers.payload(buffer).saturating_mul(256).div_ceil(PAYLOAD_SHARE);
    let sizes = |initial: u64, max: u64| {
        let [initial, max] = [initial, max.max(initial)].map(|bytes| bytes.clamp(LEAST_BUFFER, MOST_BUFFER));
        format!("{LEAST_BUFFER} {initial} {max}")
    };
    let all = [
        (CONTROL, tcp.cc.name().to_owned()),
        ("ipv4/tcp_rmem", sizes(memory(tcp.buffers.receive), memory(tcp.buffers.receive_max))),
        ("ipv4/tcp_wmem", sizes(tcp.buffers.send.get(), tcp.buffers.send_max.get())),
        // 2: answers, and does not ask.
        ("ipv4/tcp_ecn", if tcp.ecn.enabled { "1" } else { "2" }.to_owned()),
        ("ipv4/tcp_sack", on(tcp.loss_recovery.recovery == Recovery::Sack)),
        ("ipv4/tcp_timestamps", on(tcp.timestamps.enabled)),
        ("ipv4/tcp_slow_start_after_idle", on(tcp.cwnd.restart_after_idle)),
        // No connection learns from an earlier one: runs are alike.
        ("ipv4/tcp_no_metrics_save", on(true)),
    ];
    all.map(|(key, value)| Sysctl { key: key.to_owned(), value }).into()
}

/// Propagation there and back between the nearest two of these nodes; zero where no lines lead from
/// one to another.
fn least_rtt(spec: &RunSpec, nodes: &[NodeId]) -> Span {
    let from_one = |start: NodeId| {
        let mut far = vec![None; spec.nodes.len()];
        far[start.index()] = Some(Span::ZERO);
        // As often as the longest path has hops, at most.
        for _ in 0..spec.nodes.len() {
            let mut is_settled = true;
            for link in &spec.links {
                let Some(near) = far[link.from.index()] else { continue };
                let (far_end, old) = (near + link.delay, far[link.to.index()]);
                if old.is_none_or(|old| far_end < old) {
                    far[link.to.index()] = Some(far_end);
                    is_settled = false;
                }
            }
            if is_settled {
                break;
            }
        }
        far
    };
    let far: Vec<_> = nodes.iter().map(|&node| from_one(node)).collect();
    let pairs = (0..nodes.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let rtts = pairs.filter_map(|(a, b)| Some(far[a][nodes[b].index()]? + far[b][nodes[a].index()]?));
    rtts.min().unwrap_or(Span::ZERO)
}

impl SimulatedNetwork {
    /// Every host of the scenario.
    pub(crate) fn all_hosts(&self) -> impl Iterator<Item = (&str, Addresses)> {
        self.all_hosts.iter().map(|(name, at)| (name.as_str(), *at))
    }

    /// Hosts hear which of their packets radios no longer hold.
    pub(crate) fn report_releases(&mut self) {
        self.world.report_releases();
    }

    /// True if this host has a radio that holds its packets, so that a gate before it means
    /// something.
    pub(crate) fn has_radio(&self, host: usize) -> bool {
        let Some(&from) = self.nodes.get(host) else { return false };
        self.nodes.iter().any(|&to| self.world.held_flow(from, to).is_some())
    }

    /// Queues and airtime; `None`: the network is too large for it.
    pub(crate) fn load(&mut self) -> Option<NetworkLoad> {
        let mut load = NetworkLoad::default();
        for &(link, channel) in &self.watched_links {
            let totals = self.world.link_totals(link);
            load.waiting += totals.queue_packets;
            if let Some(channel) = channel {
                load.used.resize(load.used.len().max(channel + 1), Span::ZERO);
                load.used[channel] += Span::from_ns(totals.busy_ns);
            }
        }
        (!self.watched_links.is_empty()).then_some(load)
    }

    /// Ends the world and hands out what it recorded.
    pub(crate) fn finish(self) -> RunOutput {
        self.world.finish()
    }
}

impl Network for SimulatedNetwork {
    fn deadline(&mut self) -> Time {
        self.world.deadline()
    }

    fn run_until(&mut self, time: Time) {
        self.world.run_until(time, &mut NoCapture);
    }

    fn inject(&mut self, from: usize, bytes: &[u8]) -> Result<PacketId, NotSent> {
        let read = self.reader.read(bytes).map_err(|_| NotSent::Unreadable)?;
        let known = node_at(read.dst).map(NodeId).filter(|node| node.index() < self.index_of.len());
        let is_elsewhere = known.is_none() && !read.dst.is_multicast() && !is_local(&read.dst);
        let is_to_all = is_to_all(&read.dst);
        let carrier = if is_to_all { self.broadcast.carrier(from) } else { None };
        let carrier = carrier.and_then(|index| self.nodes.get(index)).copied();
        let to = known.or(carrier).or(self.gateway.filter(|_| is_elsewhere)).ok_or(NotSent::Unroutable)?;
        let from = *self.nodes.get(from).ok_or(NotSent::Unroutable)?;
        let id = self.world.inject(from, to, read.packet).map_err(|_| NotSent::Unroutable)?;
        self.broadcast.entered(id, is_to_all);
        self.holding = self.world.held_flow(from, to).map(|flow| flow.0);
        Ok(id)
    }

    fn take_egress(&mut self, give: &mut dyn FnMut(Delivered)) -> bool {
        let Some(egress) = self.world.take_egress() else { return false };
        let index = |node: NodeId| self.index_of.get(node.index()).copied().flatten();
        let is_marked = egress.packet().ecn == Ecn::Ce;
        let mut give_to = |to| give(Delivered { id: egress.id, to, time: egress.time, is_marked });
        match index(egress.from).and_then(|from| self.broadcast.hearers(egress.id, from)) {
            Some(hearers) => hearers.iter().copied().for_each(&mut give_to),
            None => {
                if let Some(to) = index(egress.to) {
                    give_to(to);
                }
            }
        }
        true
    }

    fn holding(&self) -> Option<u32> {
        self.holding
    }

    fn take_released(&mut self) -> Option<(u32, u32)> {
        self.world.take_released().map(|(flow, packets)| (flow.0, packets))
    }

    fn tcp_data(&mut self, bytes: &[u8]) -> Option<TcpData> {
        let packet = self.reader.read(bytes).ok()?.packet;
        // As in the kernel: acknowledgements are not counted.
        (packet.kind == Kind::Tcp && packet.len > 0).then(|| TcpData { connection: packet.connection() })
    }

    fn inside(&self) -> u32 {
        self.world.external_inside()
    }

    fn write_mark(_: &Delivered, bytes: &mut [u8]) {
        patch_ecn(bytes, Ecn::Ce);
    }
}

/// In larger networks variables have the addresses of real hosts only: the kernel starts no program
/// with too many.
const IN_VARIABLES: usize = 1000;

/// Environment of the programs of each host: the host's name, and everybody's address.
pub(crate) fn environment(config: &RunConfig, attached: &Attached) -> Vec<Vec<(String, String)>> {
    let all_hosts = attached.network.all_hosts().count();
    let is_told = |name: &str| all_hosts <= IN_VARIABLES || attached.hosts.iter().any(|real| real.name == name);
    let told = attached.network.all_hosts().filter(|(name, _)| is_told(name));
    let mut all: Vec<_> = told.filter_map(|(name, at)| Some((variable(name)?, at.v4.to_string()))).collect();
    if config.internet.is_some() {
        all.push((MACHINE.to_owned(), MACHINE_ADDRESS.to_owned()));
    }
    let of = |real: &RealHost| [vec![(OWN_HOST.to_owned(), real.name.clone())], all.clone()].concat();
    attached.hosts.iter().map(of).collect()
}

/// Link-local, and the broadcast addresses of the hosts' own network.
fn is_local(address: &std::net::IpAddr) -> bool {
    match address {
        std::net::IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 10,
        std::net::IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.segments()[..4] == [0xfd00, 0, 0, 0],
    }
}

#[cfg(test)]
mod tests;
