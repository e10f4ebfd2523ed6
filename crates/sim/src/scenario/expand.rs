//! From the file type to the [`RunSpec`]: what only the whole can tell is checked here, and groups
//! become members.
//!
//! A link direction, node or flow gets its index by its place in the file: entries in order,
//! members in order, `from → to` before `to → from`. Everything drawn from the seed is drawn here
//! or by streams named after these indices.

mod attach;
mod coop;
mod flows;
mod links;
mod reach;
mod record;
mod roam;
mod wlan;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use airtcp_core::receive::{OffConfig, ReceiveOffloadConfig};
use airtcp_core::tcp::profile::{profile, profile_names, receive};
use airtcp_core::tcp::{TcpOptions, Unresolved};
use airtcp_core::units::Span;
use airtcp_core::wifi::roam::StationQueue;

use super::error::{nearest, unknown};
use super::file::{MAX_COUNT, NodeKind, ScenarioFile, defaults};
use super::tree::KeyPath;
use super::{Attach, Document, ScenarioError, ScenarioErrors};
use crate::spec::{ChannelId, ChannelSpec, ExternalSpec, LinkId, LinkSpec, NodeId, NodeSpec, RunSpec, WalkSpec};

const MAX_DURATION: Span = Span::from_secs(30 * 86_400);
/// Profiles that build on each other. Each is laid over its base, so long chains take long.
const MAX_CHAIN: usize = 16;
/// Each of a million hosts has a line of two directions.
const MAX_LINKS: u64 = 2 * MAX_COUNT as u64 + 100_000;
/// A processor slower than a packet a second is no host of a network.
const MAX_PACKET_TIME: Span = Span::from_secs(1);
/// Names suggested or listed in one message.
const LISTED: usize = 12;

pub(super) fn expand(file: &ScenarioFile, source: &Document, attach: &Attach) -> Result<RunSpec, ScenarioErrors> {
    let mut e = Expander {
        file,
        source,
        errors: Vec::new(),
        groups: Vec::new(),
        group_by_name: BTreeMap::new(),
        nodes: Vec::new(),
        links: Vec::new(),
        link_by_ends: BTreeMap::new(),
        entry_links: Vec::new(),
        channels: Vec::new(),
        wlans: Vec::new(),
        walks: BTreeMap::new(),
        roams: BTreeMap::new(),
        profiles: BTreeMap::new(),
        attached: BTreeSet::new(),
        left_out: Vec::new(),
    };
    e.times();
    e.profiles();
    e.nodes();
    e.attach(attach.hosts);
    e.links();
    e.walks();
    e.who_roams();
    e.wlans();
    let roaming = if e.errors.is_empty() { e.roaming() } else { Vec::new() };
    if e.errors.is_empty() {
        e.hosts_have_links();
        e.receive_offload();
    }
    let links_are_good = e.errors.is_empty();
    let mut flows = e.flows(links_are_good);
    let daemons = e.daemons(flows.len());
    let record = e.record(&flows, daemons.len(), links_are_good);
    flows.extend(daemons);
    let hosts = e.external_hosts();
    if e.errors.is_empty() {
        e.external_flows(&hosts, &mut flows);
    }
    ScenarioErrors::check(e.errors)?;
    // They stay for the whole run, and grew by doubling.
    e.nodes.shrink_to_fit();
    e.links.shrink_to_fit();
    flows.shrink_to_fit();
    Ok(RunSpec {
        seed: file.seed,
        duration: if attach.forever { Span::MAX } else { file.duration },
        warmup: file.warmup,
        nodes: e.nodes,
        links: e.links,
        channels: e.channels,
        walks: e.walks.into_iter().map(|(node, (_, track))| WalkSpec { node, track }).collect(),
        roaming,
        flows,
        record,
        external: ExternalSpec { hosts, left_out: e.left_out },
    })
}

/// One entry of `nodes`.
struct Group<'a> {
    name: &'a str,
    kind: NodeKind,
    profile: Option<&'a str>,
    first: u32,
    /// `None`: a single node.
    count: Option<u32>,
}

/// The nodes that a `from` or `to` names.
#[derive(Clone, Copy)]
struct Members {
    group: usize,
    first: u32,
    len: u32,
    /// A group as a whole, even of one member.
    is_group: bool,
}

impl Members {
    fn member(&self, i: u32) -> NodeId {
        NodeId(self.first + i % self.len)
    }
}

struct Expander<'a> {
    file: &'a ScenarioFile,
    source: &'a Document,
    errors: Vec<ScenarioError>,
    groups: Vec<Group<'a>>,
    group_by_name: BTreeMap<&'a str, usize>,
    nodes: Vec<NodeSpec>,
    links: Vec<LinkSpec>,
    link_by_ends: BTreeMap<(NodeId, NodeId), LinkId>,
    /// Directions of each `links` entry.
    entry_links: Vec<Range<u32>>,
    channels: Vec<ChannelSpec>,
    /// Channel and directions of each `wlans` entry.
    wlans: Vec<(ChannelId, Range<u32>)>,
    walks: roam::Walks,
    /// Hosts that roam, with their entry.
    /// By host: the entry of the file, and what becomes of its queue.
    roams: BTreeMap<NodeId, (usize, StationQueue)>,
    /// Options of every profile in use, by name; `None` if it is at fault, which has been reported.
    profiles: BTreeMap<String, Option<TcpOptions>>,
    /// Hosts of real programs.
    attached: BTreeSet<NodeId>,
    /// Names of flows that real programs at both ends replace.
    left_out: Vec<String>,
}

fn root(key: &str) -> KeyPath {
    KeyPath::default().key(key)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

const NAME_RULE: &str = "must be a letter, then letters, digits, `_` or `-`";

impl<'a> Expander<'a> {
    fn error(&mut self, path: &KeyPath, message: impl Into<String>) {
        self.errors.push(self.source.fault(path, message.into()));
    }

    /// Times are held against the duration only if it is one.
    fn has_duration(&self) -> bool {
        !self.file.duration.is_zero() && self.file.duration <= MAX_DURATION
    }

    fn times(&mut self) {
        let duration = self.file.duration;
        if !self.has_duration() {
            self.error(&root("duration"), "must be longer than 0s and at most 30 days (720h)");
        } else if self.file.warmup >= duration {
            self.error(&root("warmup"), format!("must be shorter than duration ({duration})"));
        }
    }

    /// Reports a bad or repeated name and the entry that has it already.
    fn check_name<'n>(&mut self, seen: &mut BTreeMap<&'n str, usize>, list: &str, i: usize, name: &'n str) {
        let path = root(list).index(i).key("name");
        if !is_name(name) {
            self.error(&path, NAME_RULE);
        }
        let first = *seen.entry(name).or_insert(i);
        if first != i {
            self.error(&path, format!("already the name of {list}[{first}]: choose another name"));
        }
    }

    fn profiles(&mut self) {
        let file = self.file;
        for name in file.profiles.keys() {
            let path = root("profiles").key(name);
            if !is_name(name) {
                self.error(&path, NAME_RULE);
            }
            if profile_names().any(|p| p == name) {
                self.error(&path, "is the name of a built-in profile: choose another name");
            } else if let Some(options) = self.profile(name, &path) {
                match options.resolve() {
                    Ok(config) => {
                        for (keys, message) in flows::faults(&config) {
                            let at = keys.iter().map(|k| path.key(k)).find(|p| self.is_written(p));
                            if let Some(at) = at {
                                self.error(&at, message);
                            }
                        }
                    }
                    Err(Unresolved { option, why: None }) => {
                        self.error(&path.key(option), "missing: the base does not set it either");
                    }
                    Err(Unresolved { option, why: Some(why) }) => {
                        self.error(&path.key(option), format!("with the parameters of the base: {why}"));
                    }
                }
                self.check_profile_radio(name);
            }
        }
    }

    fn is_written(&self, path: &KeyPath) -> bool {
        self.source.tree().locate(path).1.is_some()
    }

    /// The options of a profile. `at` is where it was asked for.
    fn profile(&mut self, name: &str, at: &KeyPath) -> Option<TcpOptions> {
        let file = self.file;
        if let Some(known) = self.profiles.get(name) {
            return known.clone();
        }
        // Unwinds the chain of bases to the built-in one, then lays the options back on, base
        // first.
        let mut chain = vec![name];
        let options = loop {
            let last = chain[chain.len() - 1];
            if let Some(builtin) = profile(last) {
                chain.pop();
                break Some(builtin);
            }
            let Some(own) = file.profiles.get(last) else {
                let at = match chain.len() {
                    1 => at.clone(),
                    n => root("profiles").key(chain[n - 2]).key("base"),
                };
                let mut known: Vec<&str> = profile_names().collect();
                let own = file.profiles.keys().map(String::as_str).filter(|p| profile(p).is_none());
                known.extend(own.take(LISTED));
                self.error(&at, unknown("profile", last, &known, None));
                break None;
            };
            if chain.contains(&own.base.as_str()) {
                let path = root("profiles").key(last).key("base");
                self.error(&path, format!("must not lead back to itself: {}, {}", chain.join(", "), own.base));
                break None;
            }
            if chain.len() == MAX_CHAIN {
                let path = root("profiles").key(last).key("base");
                self.error(&path, format!("is the end of a chain of more than {MAX_CHAIN} profiles"));
                break None;
            }
            chain.push(&own.base);
        };
        let options = options.map(|mut options| {
            for own in chain.iter().rev() {
                if let Some(own) = file.profiles.get(*own) {
                    options = own.options.clone().over(options);
                }
            }
            options
        });
        self.profiles.insert(name.to_owned(), options.clone());
        options
    }

    fn nodes(&mut self) {
        let file = self.file;
        let total: u64 = file.nodes.iter().map(|n| u64::from(n.count.unwrap_or(1))).sum();
        let too_many = total > u64::from(MAX_COUNT);
        if too_many {
            self.error(&root("nodes"), format!("{total} nodes in all: must be at most {MAX_COUNT}"));
        }
        if file.nodes.is_empty() {
            self.error(&root("nodes"), "must have at least one entry");
        }
        let mut seen = BTreeMap::new();
        let mut first = 0u32;
        for (i, node) in file.nodes.iter().enumerate() {
            self.check_name(&mut seen, "nodes", i, &node.name);
            let path = root("nodes").index(i);
            if let Some(name) = &node.profile {
                if node.kind == NodeKind::Router {
                    self.error(&path.key("profile"), "only hosts have a profile");
                } else {
                    self.profile(name, &path.key("profile"));
                }
            }
            if node.receive_offload.is_some() && node.kind == NodeKind::Router {
                self.error(&path.key("receive_offload"), "only hosts hand packets up: routers forward them one by one");
            }
            if !node.packet_time.is_zero() && node.kind == NodeKind::Router {
                self.error(&path.key("packet_time"), "only hosts take time for packets: routers forward them at once");
            } else if node.packet_time > MAX_PACKET_TIME {
                self.error(&path.key("packet_time"), "must be at most 1s");
            }
            let profile = node.profile.as_deref();
            self.groups.push(Group { name: &node.name, kind: node.kind, profile, first, count: node.count });
            let len = node.count.unwrap_or(1);
            first = first.saturating_add(len);
            if !too_many {
                let is_host = node.kind == NodeKind::Host;
                self.nodes.extend((0..len).map(|k| NodeSpec {
                    packet_time: node.packet_time,
                    ..NodeSpec::new(member_name(&node.name, node.count, k), is_host)
                }));
            }
        }
        self.group_by_name = seen;
    }

    /// As [`unknown`], of names of which there may be thousands.
    fn unknown_name<'n>(&self, what: &str, found: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
        let hint = if self.errors.len() < LISTED { nearest(found, names.clone()) } else { None };
        let mut known: Vec<&str> = names.clone().take(LISTED).collect();
        if names.count() > LISTED {
            known.push("…");
        }
        unknown(what, found, &known, hint)
    }

    /// The nodes that `name` means, or what is wrong with it.
    fn ends(&self, name: &str) -> Result<Members, String> {
        let (plain, index) = match name.strip_suffix(']').and_then(|n| n.split_once('[')) {
            Some((plain, index)) => (plain, Some(index)),
            None => (name, None),
        };
        let Some(&group) = self.group_by_name.get(plain) else {
            let names =
                self.groups.iter().enumerate().filter(|&(i, g)| self.group_by_name[g.name] == i).map(|(_, g)| g.name);
            return Err(self.unknown_name("node", plain, names));
        };
        let Group { first, count, .. } = self.groups[group];
        match (index, count) {
            (None, _) => Ok(Members { group, first, len: count.unwrap_or(1), is_group: count.is_some() }),
            (Some(_), None) => Err(format!("`{plain}` is a single node, not a group: write `{plain}`")),
            (Some(index), Some(count)) => match index.parse::<u32>() {
                Ok(i) if i < count => Ok(Members { group, first: first + i, len: 1, is_group: false }),
                _ => Err(format!("the members of `{plain}` are {plain}[0] to {plain}[{}]", count - 1)),
            },
        }
    }

    /// Both ends of a link or flow; reports what is wrong with either.
    fn both_ends(&mut self, path: &KeyPath, from: &str, to: &str) -> Option<(Members, Members)> {
        let mut resolve = |key, name| self.ends(name).map_err(|message| self.error(&path.key(key), message)).ok();
        let (from, to) = (resolve("from", from), resolve("to", to));
        Some((from?, to?))
    }

    fn node_name(&self, id: NodeId) -> &str {
        self.nodes.get(id.0 as usize).map_or("", |n| &n.name)
    }

    /// The profile that comes with airtcp on which one of the file rests, by its name. It need not
    /// exist.
    fn built_in_profile<'n>(&'n self, name: &'n str) -> &'n str {
        let mut name = name;
        // A chain that goes round in a circle has been reported.
        for _ in 0..=self.file.profiles.len() {
            let Some(own) = self.file.profiles.get(name) else { break };
            name = &own.base;
        }
        name
    }

    /// Sets the receive offload of each host: from its entry, or from its profile for its
    /// interface.
    fn receive_offload(&mut self) {
        let off = ReceiveOffloadConfig::Off(OffConfig {});
        // Receive offload of stations by the drivers of their radios.
        let mut of_driver: Vec<Option<ReceiveOffloadConfig>> = vec![None; self.nodes.len()];
        for channel in &self.channels {
            for pair in &channel.pairs {
                let radio = &channel.radios[pair.station.index()];
                let offload = || radio.config.transmit.receive_offload().unwrap_or_else(|| off.clone());
                of_driver[radio.node.index()].get_or_insert_with(offload);
            }
        }
        for (group, node) in self.groups.iter().zip(&self.file.nodes) {
            if group.kind == NodeKind::Router {
                continue;
            }
            let name = self.built_in_profile(group.profile.unwrap_or(defaults::PROFILE));
            // A profile that does not exist has been reported.
            let Some(of_profile) = receive(name) else { continue };
            for n in group.first..group.first + group.count.unwrap_or(1) {
                let of_interface = match &of_driver[n as usize] {
                    Some(of_driver) => of_profile.wifi.as_ref().unwrap_or(of_driver),
                    None => &of_profile.wired,
                };
                let offload = node.receive_offload.as_ref().unwrap_or(of_interface);
                self.nodes[n as usize].receive_offload = offload.clone();
            }
        }
    }

    fn hosts_have_links(&mut self) {
        let mut linked = vec![false; self.nodes.len()];
        for link in &self.links {
            linked[link.from.0 as usize] = true;
            linked[link.to.0 as usize] = true;
        }
        for g in 0..self.groups.len() {
            let Group { kind, first, count, .. } = self.groups[g];
            let alone = (first..first + count.unwrap_or(1)).find(|&n| !linked[n as usize]);
            if let (NodeKind::Host, Some(node)) = (kind, alone) {
                let message = format!("no link leads to {}", self.nodes[node as usize].name);
                self.error(&root("nodes").index(g), message);
            }
        }
    }
}

fn member_name(name: &str, count: Option<u32>, k: u32) -> String {
    if count.is_some() { format!("{name}[{k}]") } else { name.to_owned() }
}
