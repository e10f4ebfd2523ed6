//! A [`World`] behind real hosts: who they are on it, and their packets into it and out of it.

use std::collections::BTreeSet;

use airtcp_core::packet::{Ecn, Kind, PacketId};
use airtcp_core::tcp::TcpConfig;
use airtcp_core::tcp::profile::Recovery;
use airtcp_core::units::{Bytes, Span, Time};
use airtcp_core::wire::{Reader, address, address6, node_at, patch_ecn};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Attach, Scenario};
use airtcp_sim::spec::{ExternalHost, LinkId, NodeId, RecordSpec, RunSpec};
use airtcp_sim::world::{RunOutput, World};

use crate::common::addresses::{MACHINE, MACHINE_ADDRESS, OWN_HOST, variable};
use crate::common::cells::{Cells, is_to_all};
use crate::common::config::Plan;
use crate::common::net::{Addresses, CONTROL, Sysctl, can_have_v6};
use crate::common::network::Bulk;
use crate::common::network::{Delivered, Network, NotSent};
use crate::common::stop::Stop;

/// A host of real programs, as the scenario has it.
#[derive(Debug, Clone)]
pub(crate) struct Real {
    pub(crate) name: String,
    pub(crate) device: &'static str,
    pub(crate) addresses: Addresses,
    pub(crate) mtu: u16,
    pub(crate) profile: String,
    pub(crate) sysctls: Vec<Sysctl>,
}

/// A scenario whose real hosts are known.
pub(crate) struct Attached {
    pub(crate) air: Air,
    pub(crate) real: Vec<Real>,
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
        self.real.iter().all(|real| can_have_v6(real.mtu))
    }
}

/// A world, and which of its nodes real programs are on.
pub(crate) struct Air {
    world: World,
    reader: Reader,
    /// By place of the real host.
    nodes: Vec<NodeId>,
    /// By node: the real host's place.
    place_of: Vec<Option<usize>>,
    /// Takes what is for nobody on the network.
    gateway: Option<NodeId>,
    /// Names and addresses of all hosts.
    everybody: Vec<(String, Addresses)>,
    cells: Cells,
    /// The flow of the packet injected last, if a radio holds it.
    holding: Option<u32>,
    /// Links that [`Air::glance`] looks at, each with its channel if it is in the air.
    looked_at: Vec<(LinkId, Option<usize>)>,
}

/// State of the network at a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Glance {
    /// Packets in queues, of simulated hosts too.
    pub(crate) waiting: u64,
    /// By channel: how long it has been used so far.
    pub(crate) used: Vec<Span>,
}

/// A network with more links is not looked at: it would take time that packets need.
const LOOKED_AT: usize = 64;

fn addresses_of(node: u32) -> Addresses {
    Addresses { v4: address(node), v4_prefix: 8, v6: address6(node), v6_prefix: 64 }
}

/// Builds the world of a plan.
pub(crate) fn attach(scenario: &Scenario, plan: &Plan) -> Result<Attached, Stop> {
    let named = plan.hosts.iter().chain(plan.commands.iter().map(|command| &command.host)).chain(&plan.internet);
    let named = named.chain(&plan.gates);
    let hosts: Vec<String> = named.collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let attach = Attach { hosts: &hosts, forever: true };
    let mut spec = scenario.to_spec_attached(&attach).map_err(|faults| Stop::bad_input(faults.to_string()))?;
    if plan.record.is_none() {
        keep_nothing(&mut spec.record);
    }
    let world = World::build(&spec).map_err(|error| Stop::bad_input(error.to_string()))?;
    let real: Vec<Real> = spec.external.hosts.iter().map(|host| real(&spec, host)).collect();
    for host in plan.commands.iter().map(|command| &command.host).chain(&plan.internet).chain(&plan.gates) {
        if !real.iter().any(|real| real.name == *host) {
            return Err(Stop::bad_input(format!(
                "{host:?} stands for several hosts: name one of them, as in {host}[0]"
            )));
        }
    }
    let nodes: Vec<NodeId> = spec.external.hosts.iter().map(|host| host.node).collect();
    let mut place_of = vec![None; spec.nodes.len()];
    for (place, node) in nodes.iter().enumerate() {
        place_of[node.index()] = Some(place);
    }
    let is_gateway = |real: &Real| Some(&real.name) == plan.internet.as_ref();
    let gateway = real.iter().position(is_gateway).map(|place| nodes[place]);
    let everybody = (0..).zip(&spec.nodes).filter(|(_, node)| node.is_host);
    let everybody = everybody.map(|(i, node)| (node.name.clone(), addresses_of(i))).collect();
    let least_rtt = least_rtt(&spec, &nodes);
    let cells = Cells::new(&spec, &nodes);
    let left_out = spec.external.left_out;
    let links = (0..).map(LinkId).zip(&spec.links).map(|(id, link)| (id, link.air.map(|air| air.channel.index())));
    let looked_at = if spec.links.len() > LOOKED_AT { Vec::new() } else { links.collect() };
    let air =
        Air { world, reader: Reader::default(), nodes, place_of, gateway, everybody, cells, holding: None, looked_at };
    Ok(Attached { air, real, left_out, least_rtt, seed: spec.seed })
}

/// Nothing is written down, so that a network without results takes no more memory the longer it
/// runs.
fn keep_nothing(record: &mut RecordSpec) {
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

fn real(spec: &RunSpec, host: &ExternalHost) -> Real {
    let is_station = spec.channels.iter().flat_map(|channel| &channel.radios).any(|radio| radio.node == host.node);
    Real {
        name: spec.nodes[host.node.index()].name.clone(),
        device: if is_station { "wlan0" } else { "eth0" },
        addresses: addresses_of(host.node.0),
        mtu: host.tcp.packet_bytes,
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
    let memory = |payload: Bytes| payload.get().saturating_mul(256).div_ceil(PAYLOAD_SHARE);
    let sizes = |initial: u64, max: u64| {
        let [initial, max] = [initial, max.max(initial)].map(|bytes| bytes.clamp(LEAST_BUFFER, MOST_BUFFER));
        format!("{LEAST_BUFFER} {initial} {max}")
    };
    let all = [
        (CONTROL, tcp.cc.name().to_owned()),
        ("ipv4/tcp_rmem", sizes(memory(tcp.receive_buffer), memory(tcp.receive_buffer_max))),
        ("ipv4/tcp_wmem", sizes(tcp.send_buffer.get(), tcp.send_buffer_max.get())),
        // 2: answers, and does not ask.
        ("ipv4/tcp_ecn", if tcp.ecn { "1" } else { "2" }.to_owned()),
        ("ipv4/tcp_sack", on(tcp.recovery == Recovery::Sack)),
        ("ipv4/tcp_timestamps", on(tcp.timestamps)),
        ("ipv4/tcp_slow_start_after_idle", on(tcp.restart_after_idle)),
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
                let Some(here) = far[link.from.index()] else { continue };
                let (there, old) = (here + link.delay, far[link.to.index()]);
                if old.is_none_or(|old| there < old) {
                    far[link.to.index()] = Some(there);
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

impl Air {
    /// Every host of the scenario.
    pub(crate) fn everybody(&self) -> impl Iterator<Item = (&str, Addresses)> {
        self.everybody.iter().map(|(name, at)| (name.as_str(), *at))
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
    pub(crate) fn glance(&mut self) -> Option<Glance> {
        let mut glance = Glance::default();
        for &(link, channel) in &self.looked_at {
            let totals = self.world.link_totals(link);
            glance.waiting += totals.queue_packets;
            if let Some(channel) = channel {
                glance.used.resize(glance.used.len().max(channel + 1), Span::ZERO);
                glance.used[channel] += Span::from_ns(totals.busy_ns);
            }
        }
        (!self.looked_at.is_empty()).then_some(glance)
    }

    /// Ends the world and hands out what it recorded.
    pub(crate) fn finish(self) -> RunOutput {
        self.world.finish()
    }
}

impl Network for Air {
    fn deadline(&mut self) -> Time {
        self.world.deadline()
    }

    fn run_until(&mut self, time: Time) {
        self.world.run_until(time, &mut NoCapture);
    }

    fn inject(&mut self, from: usize, bytes: &[u8]) -> Result<PacketId, NotSent> {
        let read = self.reader.read(bytes).map_err(|_| NotSent::Unreadable)?;
        let known = node_at(read.dst).map(NodeId).filter(|node| node.index() < self.place_of.len());
        let is_elsewhere = known.is_none() && !read.dst.is_multicast() && !is_local(&read.dst);
        let is_to_all = is_to_all(&read.dst);
        let carrier = if is_to_all { self.cells.carrier(from) } else { None };
        let carrier = carrier.and_then(|place| self.nodes.get(place)).copied();
        let to = known.or(carrier).or(self.gateway.filter(|_| is_elsewhere)).ok_or(NotSent::Unroutable)?;
        let from = *self.nodes.get(from).ok_or(NotSent::Unroutable)?;
        let id = self.world.inject(from, to, read.packet).map_err(|_| NotSent::Unroutable)?;
        self.cells.entered(id, is_to_all);
        self.holding = self.world.held_flow(from, to).map(|flow| flow.0);
        Ok(id)
    }

    fn take_egress(&mut self, give: &mut dyn FnMut(Delivered)) -> bool {
        let Some(egress) = self.world.take_egress() else { return false };
        let place = |node: NodeId| self.place_of.get(node.index()).copied().flatten();
        let is_marked = egress.packet().ecn == Ecn::Ce;
        let mut give_to = |to| give(Delivered { id: egress.id, to, time: egress.time, is_marked });
        match place(egress.from).and_then(|from| self.cells.hearers(egress.id, from)) {
            Some(hearers) => hearers.iter().copied().for_each(&mut give_to),
            None => {
                if let Some(to) = place(egress.to) {
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

    fn bulk(&mut self, bytes: &[u8]) -> Option<Bulk> {
        let packet = self.reader.read(bytes).ok()?.packet;
        // As in the kernel: acknowledgements are not counted.
        (packet.kind == Kind::Tcp && packet.len > 0).then(|| Bulk { connection: packet.connection() })
    }

    fn inside(&self) -> u32 {
        self.world.external_inside()
    }

    fn mend(_: &Delivered, bytes: &mut [u8]) {
        patch_ecn(bytes, Ecn::Ce);
    }
}

/// In larger networks variables have the addresses of real hosts only: the kernel starts no program
/// with too many.
const IN_VARIABLES: usize = 1000;

/// Environment of the programs of each host: the host's name, and everybody's address.
pub(crate) fn environment(plan: &Plan, attached: &Attached) -> Vec<Vec<(String, String)>> {
    let everybody = attached.air.everybody().count();
    let is_told = |name: &str| everybody <= IN_VARIABLES || attached.real.iter().any(|real| real.name == name);
    let told = attached.air.everybody().filter(|(name, _)| is_told(name));
    let mut all: Vec<_> = told.filter_map(|(name, at)| Some((variable(name)?, at.v4.to_string()))).collect();
    if plan.internet.is_some() {
        all.push((MACHINE.to_owned(), MACHINE_ADDRESS.to_owned()));
    }
    let of = |real: &Real| [vec![(OWN_HOST.to_owned(), real.name.clone())], all.clone()].concat();
    attached.real.iter().map(of).collect()
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
