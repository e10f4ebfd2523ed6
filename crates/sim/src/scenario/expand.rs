//! From the file type to the [`RunSpec`]: what only the whole can tell is checked here, and groups become members.
//!
//! A link direction, node or flow gets its index by its place in the file: entries in order, members in order, `from → to`
//! before `to → from`. Everything drawn from the seed is drawn here or by streams named after these indices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use airtcp_core::queue::QueueConfig;
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::tcp::profile::{profile, profile_names};
use airtcp_core::tcp::{Recovery, TcpConfig, TcpOptions};
use airtcp_core::units::{Bytes, DataRate, Probability, Span, Time};
use rand::RngExt;

use super::buffer::Limit;
use super::error::{nearest, unknown};
use super::file::{
    Buffer, BufferRule, Delay, Flow, GapFrom, Link, MAX_COUNT, NodeKind, ScenarioFile, Spread, Start, TrafficTable,
    Web, defaults,
};
use super::tree::Path;
use super::{ScenarioError, ScenarioErrors, Source};
use crate::spec::{FlowSpec, LinkId, LinkSpec, NodeId, NodeSpec, RecordSpec, RunSpec, Surge, TcpApp, Traffic};

const MAX_DURATION: Span = Span::from_secs(30 * 86_400);
const MAX_DELAY: Span = Span::from_secs(3_600);
/// Each of a million hosts has a line of two directions.
const MAX_LINKS: u64 = 2 * MAX_COUNT as u64 + 100_000;
/// Samples over all series: some GiB of results.
const MAX_SAMPLES: u64 = 50_000_000;
/// RFC 1122 section 4.2.3.2.
const MAX_DELAYED_ACK: Span = Span::from_ms(500);
/// Names suggested or listed in one message.
const LISTED: usize = 12;

pub(super) fn expand(file: &ScenarioFile, source: &Source) -> Result<RunSpec, ScenarioErrors> {
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
        profiles: BTreeMap::new(),
    };
    e.times();
    e.profiles();
    e.nodes();
    e.links();
    let links_are_good = e.errors.is_empty();
    let flows = e.flows(links_are_good);
    let record = e.record(&flows, links_are_good);
    ScenarioErrors::check(e.errors)?;
    Ok(RunSpec {
        seed: file.seed,
        duration: file.duration,
        warmup: file.warmup,
        nodes: e.nodes,
        links: e.links,
        flows,
        record,
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

/// What a `from` or `to` names.
#[derive(Clone, Copy)]
struct Ends {
    group: usize,
    first: u32,
    len: u32,
    /// A group as a whole, even of one member.
    is_group: bool,
}

impl Ends {
    fn member(&self, i: u32) -> NodeId {
        NodeId(self.first + i % self.len)
    }
}

/// One direction of a `links` entry, before its members.
struct Direction {
    rate: DataRate,
    queue: QueueConfig,
    loss: Probability,
    cost: u32,
}

struct Expander<'a> {
    file: &'a ScenarioFile,
    source: &'a Source,
    errors: Vec<ScenarioError>,
    groups: Vec<Group<'a>>,
    group_by_name: BTreeMap<&'a str, usize>,
    nodes: Vec<NodeSpec>,
    links: Vec<LinkSpec>,
    link_by_ends: BTreeMap<(NodeId, NodeId), LinkId>,
    /// Of each `links` entry its directions.
    entry_links: Vec<std::ops::Range<u32>>,
    /// Options of every profile in use, by name; `None` if it is at fault, which has been reported.
    profiles: BTreeMap<String, Option<TcpOptions>>,
}

fn root(key: &str) -> Path {
    Path::default().key(key)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

const NAME_RULE: &str = "must be a letter, then letters, digits, `_` or `-`";

impl<'a> Expander<'a> {
    fn error(&mut self, path: &Path, message: impl Into<String>) {
        self.errors.push(self.source.error(path, message.into()));
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
            self.error(&path, format!("already the name of {list}[{first}]"));
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
                self.error(&path, "is the name of a built-in profile");
            } else if let Some(options) = self.profile(name, &path) {
                match options.resolve() {
                    Ok(config) => {
                        for (keys, message) in faults(&config) {
                            let at = keys.iter().map(|k| path.key(k)).find(|p| self.is_written(p));
                            if let Some(at) = at {
                                self.error(&at, message);
                            }
                        }
                    }
                    Err(missing) => self.error(&path.key(missing), "missing, and the base does not set it either"),
                }
            }
        }
    }

    fn is_written(&self, path: &Path) -> bool {
        self.source.tree.locate(path).1.is_some()
    }

    /// The options of a profile. `at` is where it was asked for.
    fn profile(&mut self, name: &str, at: &Path) -> Option<TcpOptions> {
        let file = self.file;
        if let Some(known) = self.profiles.get(name) {
            return known.clone();
        }
        // Unwinds the chain of bases to the built-in one, then lays the options back on, base first.
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
                self.error(&path, format!("goes round in a circle: {}, {}", chain.join(", "), own.base));
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
            self.error(&root("nodes"), format!("{total} nodes in all: at most {MAX_COUNT}"));
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
            let profile = node.profile.as_deref();
            self.groups.push(Group { name: &node.name, kind: node.kind, profile, first, count: node.count });
            let len = node.count.unwrap_or(1);
            first = first.saturating_add(len);
            if !too_many {
                let is_host = node.kind == NodeKind::Host;
                self.nodes.extend((0..len).map(|k| NodeSpec { name: member_name(&node.name, node.count, k), is_host }));
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
    fn ends(&self, name: &str) -> Result<Ends, String> {
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
            (None, _) => Ok(Ends { group, first, len: count.unwrap_or(1), is_group: count.is_some() }),
            (Some(_), None) => Err(format!("`{plain}` is a single node, not a group: write `{plain}`")),
            (Some(index), Some(count)) => match index.parse::<u32>() {
                Ok(i) if i < count => Ok(Ends { group, first: first + i, len: 1, is_group: false }),
                _ => Err(format!("the members of `{plain}` are {plain}[0] to {plain}[{}]", count - 1)),
            },
        }
    }

    /// Both ends of a link or flow; reports what is wrong with either.
    fn both_ends(&mut self, path: &Path, from: &str, to: &str) -> Option<(Ends, Ends)> {
        let mut resolve = |key, name| self.ends(name).map_err(|message| self.error(&path.key(key), message)).ok();
        let (from, to) = (resolve("from", from), resolve("to", to));
        Some((from?, to?))
    }

    fn links(&mut self) {
        let file = self.file;
        let names: Vec<_> = file.links.iter().map(Link::name).collect();
        let mut seen = BTreeMap::new();
        let mut too_many = false;
        for (i, link) in file.links.iter().enumerate() {
            match link.name {
                Some(_) => self.check_name(&mut seen, "links", i, &names[i]),
                None => {
                    let first = *seen.entry(&*names[i]).or_insert(i);
                    let other = &file.links[first];
                    // The same ends again are a fault of their own.
                    if first != i && (&other.from, &other.to) != (&link.from, &link.to) {
                        let message = format!("missing; links[{first}] has its default name, `{}`", names[i]);
                        self.error(&root("links").index(i).key("name"), message);
                    }
                }
            }
            let path = root("links").index(i);
            let start = self.links.len() as u32;
            let forward = self.direction(&path, link, false);
            let reverse = if link.one_way {
                if link.reverse.is_some() {
                    self.error(&path.key("reverse"), "there is no reverse direction with `one_way = true`");
                }
                None
            } else {
                Some(self.direction(&path, link, true))
            };
            let delays = self.delays(&path, link);
            if let Some((from, to)) = self.both_ends(&path, &link.from, &link.to) {
                if let Some(members) = self.pair_up(&path, link, from, to) {
                    let directions = if link.one_way { 1 } else { 2 };
                    if self.links.len() as u64 + u64::from(members) * directions > MAX_LINKS {
                        if !too_many {
                            self.error(&path, format!("too many lines: at most {MAX_LINKS} directions in all"));
                        }
                        too_many = true;
                    } else if let (Some(forward), Some((delay, back))) = (forward, delays) {
                        let is_member_of_group = from.is_group || to.is_group;
                        let line = Line { from, to, members, is_member_of_group, group: &names[i] };
                        self.add_line(&path, &line, &forward, reverse.flatten().as_ref(), delay, back);
                    }
                }
            }
            self.entry_links.push(start..self.links.len() as u32);
        }
        if self.errors.is_empty() {
            self.hosts_have_links();
        }
    }

    /// How many member lines an entry has.
    fn pair_up(&mut self, path: &Path, link: &Link, from: Ends, to: Ends) -> Option<u32> {
        if from.group == to.group && (from.first == to.first || from.is_group || to.is_group) {
            self.error(&path.key("to"), "must be another node than `from`");
            return None;
        }
        if from.is_group && to.is_group && from.len != to.len {
            let (a, b) = (&link.from, &link.to);
            let message =
                format!("groups are linked member by member, but `{a}` has {} and `{b}` {}", from.len, to.len);
            self.error(&path.key("to"), message);
            return None;
        }
        Some(from.len.max(to.len))
    }

    /// Rate, queue, loss and cost of one direction.
    fn direction(&mut self, path: &Path, link: &Link, backward: bool) -> Option<Direction> {
        let own = if backward { link.reverse.clone().unwrap_or_default() } else { Default::default() };
        let at = |is_own: bool, key: &str| if is_own { path.key("reverse").key(key) } else { path.key(key) };
        let rate = own.rate.unwrap_or(link.rate);
        if rate.as_bps() == 0 {
            self.error(&at(own.rate.is_some(), "rate"), "must be above 0bit/s");
        }
        let queue = own.queue.as_ref().unwrap_or(&link.queue).clone();
        let buffer = own.buffer.or(if own.queue.is_some() { None } else { link.buffer });
        let queue = match buffer {
            Some(buffer) => {
                let (queue_at, buffer_at) = (at(own.queue.is_some(), "queue"), at(own.buffer.is_some(), "buffer"));
                self.limited(queue, &queue_at, &buffer, &buffer_at, rate)?
            }
            None => queue,
        };
        let loss = own.loss.unwrap_or(link.loss);
        Some(Direction { rate, queue, loss, cost: own.cost.unwrap_or(link.cost) })
    }

    /// `queue` with the limit that `buffer` gives it. Goes through the queue's own serialised form, because which disciplines
    /// have which limit is their affair.
    fn limited(
        &mut self,
        queue: QueueConfig,
        queue_at: &Path,
        buffer: &Buffer,
        at: &Path,
        rate: DataRate,
    ) -> Option<QueueConfig> {
        let before = self.errors.len();
        let written = |queue: &QueueConfig| serde_json::to_value(queue).expect("a configuration can be written");
        let mut json = written(&queue);
        let default = QueueConfig::by_name(queue.name()).as_ref().map(written).unwrap_or_default();
        for key in ["limit_packets", "limit_bytes"] {
            // The discipline's own default gives way to the rule, written out or not.
            if self.is_written(&queue_at.key(key)) && json[key] != default[key] {
                self.error(at, format!("{queue_at}.{key} sets a limit already: leave out one of the two"));
            }
        }
        if buffer.rule == BufferRule::BdpOverSqrtN && buffer.flows.is_none() {
            self.error(&at.key("flows"), "missing; the rule needs the number of flows");
        }
        let (key, limit, most) = match buffer.limit(rate) {
            Limit::Packets(n) => ("limit_packets", n, u64::from(u32::MAX)),
            Limit::Bytes(n) => ("limit_bytes", n, i64::MAX as u64),
        };
        if limit > most {
            self.error(at, format!("the limit comes to more than {most} {}", &key["limit_".len()..]));
        }
        if self.errors.len() > before {
            return None;
        }
        json[key] = match key {
            "limit_packets" => limit.into(),
            _ => format!("{limit}B").into(),
        };
        match serde_json::from_value(json) {
            Ok(limited) => Some(limited),
            Err(refusal) => {
                let name = queue.name();
                self.error(
                    at,
                    format!("comes to {key} = {limit}, which the queue discipline `{name}` refuses: {refusal}"),
                );
                None
            }
        }
    }

    /// The delays of both directions.
    fn delays(&mut self, path: &Path, link: &Link) -> Option<(Delay, Option<Delay>)> {
        let before = self.errors.len();
        let back = link.reverse.as_ref().and_then(|r| r.delay);
        for (delay, at) in [(Some(link.delay), path.key("delay")), (back, path.key("reverse").key("delay"))] {
            match delay {
                Some(Delay::Fixed(delay)) if delay > MAX_DELAY => self.error(&at, "must be at most 1h"),
                Some(Delay::Spread(range)) if range.max > MAX_DELAY => self.error(&at.key("max"), "must be at most 1h"),
                Some(Delay::Spread(range)) if range.min > range.max => {
                    self.error(&at.key("min"), format!("must be at most max ({})", range.max));
                }
                _ => {}
            }
        }
        (self.errors.len() == before).then_some((link.delay, back))
    }

    fn add_line(
        &mut self,
        path: &Path,
        line: &Line,
        forward: &Direction,
        reverse: Option<&Direction>,
        delay: Delay,
        back: Option<Delay>,
    ) {
        let mut is_reported = false;
        for k in 0..line.members {
            let (from, to) = (line.from.member(k), line.to.member(k));
            let mut there = None;
            for (direction, from, to) in [(Some(forward), from, to), (reverse, to, from)] {
                let Some(direction) = direction else { continue };
                let id = LinkId(self.links.len() as u32);
                let delay = match (there, back) {
                    (None, _) => self.delay_of(delay, id, k, line.members),
                    (Some(there), None) => there,
                    (Some(_), Some(back)) => self.delay_of(back, id, k, line.members),
                };
                there = Some(delay);
                let name = format!("{}->{}", self.node_name(from), self.node_name(to));
                if self.link_by_ends.insert((from, to), id).is_some() && !is_reported {
                    is_reported = true;
                    let message = format!(
                        "there is a line {name} already: packets take one shortest path, a second line beside it stays unused"
                    );
                    self.error(path, message);
                }
                self.links.push(LinkSpec {
                    name,
                    group: line.group.to_owned(),
                    from,
                    to,
                    rate: direction.rate,
                    delay,
                    queue: direction.queue.clone(),
                    loss: direction.loss,
                    cost: direction.cost,
                    is_member_of_group: line.is_member_of_group,
                });
            }
        }
    }

    fn delay_of(&self, delay: Delay, id: LinkId, member: u32, members: u32) -> Span {
        let range = match delay {
            Delay::Fixed(delay) => return delay,
            Delay::Spread(range) => range,
        };
        let width = range.max.saturating_sub(range.min);
        match range.spread {
            Spread::Even if members == 1 => range.min + width.mul_ratio(1, 2),
            Spread::Even => range.min + width.mul_ratio(u64::from(member), u64::from(members - 1)),
            Spread::Random => {
                let mut rng = stream(self.file.seed, u64::from(id.0), Purpose::LinkDelay);
                Span::from_ns(rng.random_range(range.min.as_ns()..=range.max.as_ns()))
            }
        }
    }

    fn node_name(&self, id: NodeId) -> &str {
        self.nodes.get(id.0 as usize).map_or("", |n| &n.name)
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

    fn flows(&mut self, links_are_good: bool) -> Vec<FlowSpec> {
        let file = self.file;
        let reach = links_are_good.then(|| Reach::new(&self.nodes, &self.links));
        let mut specs: Vec<FlowSpec> = Vec::new();
        let mut total = 0u64;
        let mut seen = BTreeMap::new();
        for (i, flow) in file.flows.iter().enumerate() {
            let path = root("flows").index(i);
            self.check_name(&mut seen, "flows", i, &flow.name);
            self.flow_times(&path, flow);
            let table = flow.traffic.table();
            let ends = self.both_ends(&path, &flow.from, &flow.to);
            let ends = ends.filter(|(from, to)| {
                let mut is_host = |key, name: &str, ends: &Ends| {
                    let is_host = self.groups[ends.group].kind == NodeKind::Host;
                    if !is_host {
                        self.error(&path.key(key), format!("`{name}` is a router: flows run between hosts"));
                    }
                    is_host
                };
                is_host("from", &flow.from, from) & is_host("to", &flow.to, to)
            });
            let traffic = self.traffic(&path, flow, &table, ends);
            let Some((from, to)) = ends else { continue };
            let count = flow.count.unwrap_or(from.len.max(to.len));
            total += u64::from(count);
            if total > u64::from(MAX_COUNT) {
                self.error(&path.key("count"), format!("{total} flows in all: at most {MAX_COUNT}"));
                break;
            }
            if let Some(k) = (0..count).find(|&k| from.member(k) == to.member(k)) {
                let name = self.node_name(from.member(k)).to_owned();
                self.error(&path.key("to"), format!("must be another host than `from`: both are {name}"));
                continue;
            }
            if let Some(reach) = &reach {
                let needs_answers = !matches!(*table, TrafficTable::Cbr(_) | TrafficTable::Train(_));
                let cut = (0..count.min(from.len.max(to.len))).find_map(|k| {
                    let (a, b) = (from.member(k), to.member(k));
                    let there = (!reach.connects(a, b)).then_some((a, b));
                    there.or_else(|| (needs_answers && !reach.connects(b, a)).then_some((b, a)))
                });
                if let Some((a, b)) = cut {
                    let message = format!("no path leads from {} to {}", self.node_name(a), self.node_name(b));
                    self.error(&path.key("to"), message);
                    continue;
                }
            }
            let Some(traffic) = traffic else { continue };
            let indexed = flow.count.is_some() || from.is_group || to.is_group;
            for k in 0..count {
                let index = specs.len() as u64;
                let start = match flow.start {
                    Start::At(at) => at,
                    Start::Between(range) if range.from >= range.to => range.from,
                    Start::Between(range) => {
                        let mut rng = stream(file.seed, index, Purpose::StartTime);
                        Span::from_ns(rng.random_range(range.from.as_ns()..=range.to.as_ns()))
                    }
                };
                specs.push(FlowSpec {
                    name: member_name(&flow.name, indexed.then_some(count), k),
                    group: flow.name.clone(),
                    from: from.member(k),
                    to: to.member(k),
                    start: Time::ZERO + start,
                    stop: flow.stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
                    traffic: traffic.clone(),
                });
            }
        }
        specs
    }

    fn flow_times(&mut self, path: &Path, flow: &Flow) {
        let duration = self.file.duration;
        let (latest, key) = match flow.start {
            Start::At(at) => (at, path.key("start")),
            Start::Between(range) => {
                if range.from > range.to {
                    self.error(&path.key("start").key("from"), format!("must be at most to ({})", range.to));
                }
                (range.to, path.key("start").key("to"))
            }
        };
        if latest >= duration && self.has_duration() {
            self.error(&key, format!("must be before the end of the run ({duration})"));
        }
        if let Some(stop) = flow.stop {
            if stop <= latest {
                self.error(&path.key("stop"), format!("must be after start ({latest})"));
            } else if stop > duration && self.has_duration() {
                self.error(&path.key("stop"), format!("must be at most duration ({duration})"));
            }
        }
    }

    fn traffic(
        &mut self,
        path: &Path,
        flow: &Flow,
        table: &TrafficTable,
        ends: Option<(Ends, Ends)>,
    ) -> Option<Traffic> {
        let before = self.errors.len();
        let at = path.key("traffic");
        let app = match table {
            TrafficTable::Unlimited(_) => Some(TcpApp::Unlimited),
            TrafficTable::Transfer(t) => {
                if t.bytes.get() == 0 {
                    self.error(&at.key("bytes"), "must be at least 1B");
                }
                Some(TcpApp::Sized(t.bytes.get()))
            }
            TrafficTable::Web(web) => Some(TcpApp::Web(self.surge(&at, web))),
            TrafficTable::Ping(_) | TrafficTable::Cbr(_) | TrafficTable::Train(_) => {
                for key in ["tcp", "receiver", "read_rate"] {
                    if self.is_written(&path.key(key)) {
                        self.error(&path.key(key), "only for TCP traffic: unlimited, transfer or web");
                    }
                }
                None
            }
        };
        let traffic = match (app, table) {
            (Some(app), _) => {
                if flow.read_rate.is_some_and(|rate| rate.as_bps() == 0) {
                    self.error(&path.key("read_rate"), "must be above 0bit/s");
                }
                let (sender, receiver) = self.configs(path, flow, ends?)?;
                let (sender, receiver) = (Arc::new(sender), Arc::new(receiver));
                Traffic::Tcp { sender, receiver, read_rate: flow.read_rate, app }
            }
            (None, TrafficTable::Ping(ping)) => {
                if ping.interval.is_zero() {
                    self.error(&at.key("interval"), "must be longer than 0s");
                }
                Traffic::Ping { interval: ping.interval, packet_bytes: ping.packet_bytes }
            }
            (None, TrafficTable::Cbr(cbr)) => {
                if cbr.rate.as_bps() == 0 {
                    self.error(&at.key("rate"), "must be above 0bit/s");
                }
                Traffic::Cbr { rate: cbr.rate, packet_bytes: cbr.packet_bytes }
            }
            (None, TrafficTable::Train(train)) => {
                let length = train.gap.saturating_mul(u64::from(train.count) - 1);
                if train.every.is_some_and(|every| every.is_zero() || every < length) {
                    let message = format!("must be longer than 0s and no shorter than a train ({length})");
                    self.error(&at.key("every"), message);
                }
                let (count, gap, packet_bytes) = (train.count, train.gap, train.packet_bytes);
                Traffic::Train { count, gap, packet_bytes, every: train.every.unwrap_or(Span::MAX) }
            }
            (None, TrafficTable::Unlimited(_) | TrafficTable::Transfer(_) | TrafficTable::Web(_)) => return None,
        };
        (self.errors.len() == before).then_some(traffic)
    }

    fn surge(&mut self, at: &Path, web: &Web) -> Surge {
        for (key, alpha) in [("tail_alpha", web.tail_alpha), ("gap_alpha", web.gap_alpha)] {
            if alpha <= 0.0 {
                self.error(&at.key(key), "must be above 0; the mean is finite above 1");
            }
        }
        if web.body_mu.abs() > 100.0 {
            self.error(&at.key("body_mu"), "must be in -100..=100: it is the natural logarithm of the bytes");
        }
        if web.body_sigma > 100.0 {
            self.error(&at.key("body_sigma"), "must be in 0..=100: it is that of the natural logarithm of the bytes");
        }
        if web.gap_k.is_zero() {
            self.error(&at.key("gap_k"), "must be longer than 0s");
        }
        if web.tail_k.get() == 0 {
            self.error(&at.key("tail_k"), "must be at least 1B");
        }
        if web.max_bytes < web.tail_k {
            self.error(&at.key("max_bytes"), format!("must be at least tail_k ({})", web.tail_k));
        }
        Surge {
            body_mu: web.body_mu,
            body_sigma: web.body_sigma,
            tail_fraction: web.tail_fraction,
            tail_k_bytes: web.tail_k.get() as f64,
            tail_alpha: web.tail_alpha,
            gap_k: web.gap_k,
            gap_alpha: web.gap_alpha,
            max_bytes: web.max_bytes.get(),
            gap_after_end: web.gap_from == GapFrom::End,
        }
    }

    /// Sender and receiver of a TCP flow, as they are once they have agreed. The state machines take their options as
    /// given, so what real ends settle in the handshake is settled here.
    fn configs(&mut self, path: &Path, flow: &Flow, (from, to): (Ends, Ends)) -> Option<(TcpConfig, TcpConfig)> {
        let mut sender = self.config(path, "tcp", flow.tcp.clone(), from)?;
        let shared = TcpOptions {
            handshake: Some(sender.handshake),
            packet_bytes: flow.tcp.packet_bytes,
            timestamps: flow.tcp.timestamps,
            recovery: flow.tcp.recovery,
            ecn: flow.tcp.ecn,
            ..TcpOptions::default()
        };
        let mut receiver = self.config(path, "receiver", flow.receiver.clone().over(shared), to)?;
        if receiver.handshake != sender.handshake {
            let message = format!("must be as at the sender, whose `handshake` is {}", sender.handshake);
            self.error(&path.key("receiver").key("handshake"), message);
            return None;
        }
        let both = |end: &mut bool, other: &mut bool| (*end, *other) = (*end && *other, *end && *other);
        both(&mut sender.timestamps, &mut receiver.timestamps);
        if !sender.handshake {
            // With one the state machines negotiate ECN, because the SYN itself depends on it.
            both(&mut sender.ecn, &mut receiver.ecn);
        }
        match (sender.recovery, receiver.recovery) {
            (Recovery::Sack, Recovery::Sack) => {}
            (Recovery::Sack, _) => sender.recovery = Recovery::NewReno,
            (without, _) => receiver.recovery = without,
        }
        let packet_bytes = sender.packet_bytes.min(receiver.packet_bytes);
        (sender.packet_bytes, receiver.packet_bytes) = (packet_bytes, packet_bytes);

        let segment = sender.mss();
        if receiver.receive_buffer.get() < u64::from(segment) {
            let message = format!("must hold at least one segment of the sender ({segment}B)");
            self.error(&self.option_place(path, "receiver", "receive_buffer", to), message);
            return None;
        }
        Some((sender, receiver))
    }

    fn config(&mut self, path: &Path, key: &str, options: TcpOptions, ends: Ends) -> Option<TcpConfig> {
        let name = self.profile_name(ends).to_owned();
        let base = self.profile(&name, path)?;
        let config = match options.over(base).resolve() {
            Ok(config) => config,
            Err(missing) => {
                self.error(&path.key(key).key(missing), format!("missing, and the profile `{name}` does not set it"));
                return None;
            }
        };
        let faults = faults(&config);
        for (keys, message) in &faults {
            let places = keys.iter().map(|k| self.option_place(path, key, k, ends));
            let place = places.clone().find(|p| self.is_written(p)).or_else(|| places.clone().next());
            if let Some(place) = place {
                self.error(&place, message.clone());
            }
        }
        faults.is_empty().then_some(config)
    }

    fn profile_name(&self, ends: Ends) -> &'a str {
        self.groups[ends.group].profile.unwrap_or(defaults::PROFILE)
    }

    /// Where an option that a flow ends up with was written: in the flow, or in a profile of the file's.
    fn option_place(&self, path: &Path, end: &str, option: &str, ends: Ends) -> Path {
        let mut places = vec![path.key(end).key(option)];
        if end == "receiver" && matches!(option, "packet_bytes" | "timestamps") {
            places.push(path.key("tcp").key(option));
        }
        let mut name = self.profile_name(ends);
        for _ in 0..=self.file.profiles.len() {
            let Some(own) = self.file.profiles.get(name) else { break };
            places.push(root("profiles").key(name).key(option));
            name = &own.base;
        }
        let written = places.iter().find(|p| self.is_written(p)).cloned();
        written.unwrap_or_else(|| places.swap_remove(0))
    }

    fn record(&mut self, flows: &[FlowSpec], links_are_good: bool) -> RecordSpec {
        let record = &self.file.record;
        let path = root("record");
        let interval = record.interval_of(self.file.duration);
        let default = || self.links.iter().enumerate().filter(|(_, l)| !l.is_member_of_group);
        let default: Vec<LinkId> = default().map(|(i, _)| LinkId(i as u32)).collect();
        let mut selected = |key: &str, names: &[String]| {
            let mut ids = BTreeSet::new();
            for (i, name) in names.iter().enumerate() {
                match self.select(name) {
                    Ok(found) => ids.extend(found),
                    // A line that was not built for a fault of its own is not missing.
                    Err(_) if !links_are_good && name.contains("->") => {}
                    Err(message) => self.error(&path.key(key).index(i), message),
                }
            }
            ids.into_iter().collect()
        };
        let link_series = record.links.as_ref().map_or(default, |names| selected("links", names));
        let drops = record.drops.as_ref().map_or_else(|| link_series.clone(), |names| selected("drops", names));
        let capture = selected("capture", &record.capture);

        let interval_at = path.key("interval");
        if !self.has_duration() {
            // Reported.
        } else if interval.is_zero() || interval > self.file.duration {
            self.error(&interval_at, format!("must be longer than 0s and at most duration ({})", self.file.duration));
        } else {
            let tcp_flows = flows.iter().filter(|f| matches!(f.traffic, Traffic::Tcp { .. })).count() as u64;
            let flow_series = tcp_flows.min(u64::from(record.flow_series_max));
            let samples = self.file.duration.as_ns() / interval.as_ns();
            let series = link_series.len() as u64 + flow_series;
            if samples.saturating_mul(series) > MAX_SAMPLES {
                let message = format!(
                    "{samples} samples of each of {series} series ({} links, {flow_series} flows) are more than \
                     {MAX_SAMPLES}: raise record.interval, lower record.flow_series_max or name fewer record.links",
                    link_series.len()
                );
                self.error(&interval_at, message);
            }
        }
        let flow_series_max = record.flow_series_max;
        RecordSpec { interval, flow_series_max, link_series, drops, capture }
    }

    /// Links by the name of their entry, or one direction by its ends.
    fn select(&self, name: &str) -> Result<Vec<LinkId>, String> {
        if let Some(entry) = self.file.links.iter().position(|l| l.name() == name) {
            return Ok(self.entry_links.get(entry).cloned().unwrap_or_default().map(LinkId).collect());
        }
        if let Some((from, to)) = name.split_once("->") {
            let (from, to) = (self.ends(from.trim())?, self.ends(to.trim())?);
            let id = self.link_by_ends.get(&(from.member(0), to.member(0)));
            return match id {
                Some(id) if !from.is_group && !to.is_group => Ok(vec![*id]),
                _ => Err("there is no such line".to_owned()),
            };
        }
        let names: Vec<_> = self.file.links.iter().map(Link::name).collect();
        Err(self.unknown_name("link", name, names.iter().map(AsRef::as_ref)))
    }
}

struct Line<'a> {
    from: Ends,
    to: Ends,
    members: u32,
    is_member_of_group: bool,
    group: &'a str,
}

fn member_name(name: &str, count: Option<u32>, k: u32) -> String {
    if count.is_some() { format!("{name}[{k}]") } else { name.to_owned() }
}

/// Beyond any host's memory, and small enough to be added up.
const MAX_TSQ_BYTES: Bytes = Bytes::new(1 << 40);

/// What is wrong with a TCP end: the options concerned, the likeliest culprit first, and what would be right.
fn faults(c: &TcpConfig) -> Vec<(&'static [&'static str], String)> {
    let mut faults: Vec<(&'static [&'static str], String)> = Vec::new();
    let mut require = |fits: bool, keys: &'static [&'static str], message: &dyn Fn() -> String| {
        if !fits {
            faults.push((keys, message()));
        }
    };
    let headers = c.header_bytes();
    let segment = u64::from(c.mss());
    let at_least_1 = || "must be at least 1".to_owned();
    let positive = || "must be longer than 0s".to_owned();
    require(c.packet_bytes > headers, &["packet_bytes", "timestamps"], &|| {
        format!("must be in {}..={}: the headers take {headers} bytes", headers + 1, u16::MAX)
    });
    require(c.initial_window >= 1, &["initial_window"], &at_least_1);
    require(c.initial_ssthresh >= 1, &["initial_ssthresh"], &at_least_1);
    require(c.max_cwnd >= 1, &["max_cwnd"], &at_least_1);
    require(c.ack_every >= 1, &["ack_every"], &at_least_1);
    require(!c.rto_min.is_zero(), &["rto_min"], &positive);
    require(!c.rto_initial.is_zero(), &["rto_initial"], &positive);
    require(c.rto_min <= c.rto_max, &["rto_min", "rto_max"], &|| {
        format!("rto_min ({}) must be at most rto_max ({})", c.rto_min, c.rto_max)
    });
    require(c.rto_initial <= c.rto_max, &["rto_initial", "rto_max"], &|| {
        format!("rto_initial ({}) must be at most rto_max ({})", c.rto_initial, c.rto_max)
    });
    require(c.rto_max <= MAX_DURATION, &["rto_max"], &|| "must be at most 30 days (720h)".to_owned());
    require(c.rto_granularity <= c.rto_max, &["rto_granularity", "rto_max"], &|| {
        format!("rto_granularity ({}) must be at most rto_max ({})", c.rto_granularity, c.rto_max)
    });
    require(c.rtt_tick <= c.rto_max, &["rtt_tick", "rto_max"], &|| {
        format!("rtt_tick ({}) must be at most rto_max ({})", c.rtt_tick, c.rto_max)
    });
    require(c.rto_var_min <= c.rto_max, &["rto_var_min", "rto_max"], &|| {
        format!("rto_var_min ({}) must be at most rto_max ({})", c.rto_var_min, c.rto_max)
    });
    require(!c.timestamp_tick.is_zero(), &["timestamp_tick"], &positive);
    require(c.timestamp_tick <= Span::from_secs(1), &["timestamp_tick"], &|| {
        "must be at most 1s (RFC 7323 section 5.4)".to_owned()
    });
    require(c.delayed_ack <= MAX_DELAYED_ACK, &["delayed_ack"], &|| "must be at most 500ms (RFC 1122)".to_owned());
    require(c.send_buffer.get() >= segment, &["send_buffer"], &|| {
        format!("must hold at least one segment ({segment}B)")
    });
    require(c.receive_buffer.get() >= segment, &["receive_buffer"], &|| {
        format!("must hold at least one segment ({segment}B)")
    });
    require(c.pacing_percent >= 1, &["pacing_percent"], &at_least_1);
    require(c.pacing_slow_start_percent >= 1, &["pacing_slow_start_percent"], &at_least_1);
    require(c.tsq_limit.get() >= 1, &["tsq_limit"], &|| "must be at least 1B; tsq = \"off\" for no bound".to_owned());
    require(c.tsq_limit <= MAX_TSQ_BYTES, &["tsq_limit"], &|| format!("must be at most {MAX_TSQ_BYTES}"));
    require(c.tsq_overhead <= MAX_TSQ_BYTES, &["tsq_overhead"], &|| format!("must be at most {MAX_TSQ_BYTES}"));
    require(c.tsq_pacing_shift <= 30, &["tsq_pacing_shift"], &|| "must be in 0..=30".to_owned());
    require(c.tsq_chunk >= 1, &["tsq_chunk"], &at_least_1);
    faults
}

/// Which host can reach which, over routers only: hosts do not forward.
struct Reach {
    /// Component of each router under lines of both directions; of a host its own index, which is no router's.
    component: Vec<u32>,
    /// Of each host the nodes its lines lead to, and those whose lines lead to it.
    out: BTreeMap<NodeId, Vec<NodeId>>,
    into: BTreeMap<NodeId, Vec<NodeId>>,
    /// Lines between routers.
    onward: BTreeMap<NodeId, Vec<NodeId>>,
    is_host: Vec<bool>,
    /// Some lines between routers have one direction only.
    has_one_way: bool,
}

impl Reach {
    fn new(nodes: &[NodeSpec], links: &[LinkSpec]) -> Reach {
        let is_host: Vec<bool> = nodes.iter().map(|n| n.is_host).collect();
        let mut component: Vec<u32> = (0..nodes.len() as u32).collect();
        let (mut out, mut into, mut onward) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let push = |map: &mut BTreeMap<NodeId, Vec<NodeId>>, key, value| map.entry(key).or_default().push(value);
        let mut between = BTreeSet::new();
        for link in links {
            let (from_host, to_host) = (is_host[link.from.0 as usize], is_host[link.to.0 as usize]);
            if from_host {
                push(&mut out, link.from, link.to);
            }
            if to_host {
                push(&mut into, link.to, link.from);
            }
            if !from_host && !to_host {
                push(&mut onward, link.from, link.to);
                between.insert((link.from, link.to));
            }
        }
        let mut has_one_way = false;
        for &(a, b) in &between {
            if between.contains(&(b, a)) {
                let (a, b) = (find(&mut component, a.0), find(&mut component, b.0));
                component[a.max(b) as usize] = a.min(b);
            } else {
                has_one_way = true;
            }
        }
        for i in 0..component.len() as u32 {
            component[i as usize] = find(&mut component, i);
        }
        Reach { component, out, into, onward, is_host, has_one_way }
    }

    fn connects(&self, from: NodeId, to: NodeId) -> bool {
        let none = Vec::new();
        let first = self.out.get(&from).unwrap_or(&none);
        let last = self.into.get(&to).unwrap_or(&none);
        if first.contains(&to) {
            return true;
        }
        let component = |n: &NodeId| self.component[n.0 as usize];
        let is_router = |n: &&NodeId| !self.is_host[n.0 as usize];
        let goals: BTreeSet<u32> = last.iter().filter(is_router).map(component).collect();
        if first.iter().filter(is_router).any(|n| goals.contains(&component(n))) {
            return true;
        }
        self.has_one_way && self.search(first.iter().filter(is_router).copied().collect(), &goals)
    }

    /// Walks the lines between routers in their direction.
    fn search(&self, mut open: Vec<NodeId>, goals: &BTreeSet<u32>) -> bool {
        let mut seen: BTreeSet<NodeId> = open.iter().copied().collect();
        while let Some(node) = open.pop() {
            if goals.contains(&self.component[node.0 as usize]) {
                return true;
            }
            open.extend(self.onward.get(&node).into_iter().flatten().copied().filter(|&next| seen.insert(next)));
        }
        false
    }
}

/// Representative of `i`, with path halving.
fn find(parent: &mut [u32], mut i: u32) -> u32 {
    while parent[i as usize] != i {
        parent[i as usize] = parent[parent[i as usize] as usize];
        i = parent[i as usize];
    }
    i
}
