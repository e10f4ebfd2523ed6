//! Lines: pairs of groups become pairs of members, rules of buffer sizing become limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use airtcp_core::convert::count;
use airtcp_core::queue::QueueConfig;
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::units::{DataRate, Probability, Span};
use rand::RngExt;

use super::super::buffer::Limit;
use super::super::file::{self, Buffer, BufferRule, Delay, Hold, HoldRange, Link, Spread};
use super::super::tree::KeyPath;
use super::{Expander, MAX_LINKS, Members, root};
use crate::network::rate_trace::{RateTrace, RateTraceConfig};
use crate::spec::{LineSpec, LinkId, LinkSpec, Reorder};

const MAX_DELAY: Span = Span::from_secs(3_600);

/// One direction of a `links` entry, before its members.
struct Direction {
    rate: DataRate,
    rate_trace: Option<Arc<RateTrace>>,
    queue: QueueConfig,
    loss: Probability,
    reorder: Reorder,
    cost: u32,
}

struct Line {
    from: Members,
    to: Members,
    members: u32,
}

impl Direction {
    /// For all members of the entry of that name.
    fn line(self, group: &str, is_member_of_group: bool) -> Arc<LineSpec> {
        let Direction { rate, rate_trace, queue, loss, reorder, cost } = self;
        let group = group.to_owned();
        Arc::new(LineSpec { group, rate, rate_trace, queue, loss, reorder, cost, is_member_of_group })
    }
}

impl Expander<'_> {
    pub(super) fn links(&mut self) {
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
            let start = count(self.links.len());
            let forward = self.direction(&path, link, false);
            let reverse = if link.one_way {
                if link.reverse.is_some() {
                    self.error(
                        &path.key("reverse"),
                        "must be left out with `one_way = true`: there is no reverse direction",
                    );
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
                            self.error(&path, format!("too many lines: must be at most {MAX_LINKS} directions in all"));
                        }
                        too_many = true;
                    } else if let (Some(forward), Some((delay, back))) = (forward, delays) {
                        let is_member_of_group = from.is_group || to.is_group;
                        let forward = forward.line(&names[i], is_member_of_group);
                        let reverse = reverse.flatten().map(|reverse| reverse.line(&names[i], is_member_of_group));
                        let line = Line { from, to, members };
                        self.add_line(&path, &line, &forward, reverse.as_ref(), delay, back);
                    }
                }
            }
            self.entry_links.push(start..count(self.links.len()));
        }
    }

    /// How many member lines an entry has.
    fn pair_up(&mut self, path: &KeyPath, link: &Link, from: Members, to: Members) -> Option<u32> {
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
    fn direction(&mut self, path: &KeyPath, link: &Link, backward: bool) -> Option<Direction> {
        let own = if backward { link.reverse.clone().unwrap_or_default() } else { Default::default() };
        let at = |is_own: bool, key: &str| if is_own { path.key("reverse").key(key) } else { path.key(key) };
        let rate = own.rate.unwrap_or(link.rate);
        if rate.as_bps() == 0 {
            self.error(&at(own.rate.is_some(), "rate"), "must be above 0bit/s");
        }
        let trace = own.rate_trace.as_ref().or(if own.rate.is_some() { None } else { link.rate_trace.as_ref() });
        let rate_trace = match trace {
            Some(trace) => Some(self.rate_trace(&at(own.rate_trace.is_some(), "rate_trace"), trace)?),
            None => None,
        };
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
        let reorder = match own.reorder.or(link.reorder) {
            Some(reorder) => self.reorder(&at(own.reorder.is_some(), "reorder").key("delay"), &reorder)?,
            None => Reorder::NONE,
        };
        Some(Direction { rate, rate_trace, queue, loss, reorder, cost: own.cost.unwrap_or(link.cost) })
    }

    fn rate_trace(&mut self, at: &KeyPath, trace: &RateTraceConfig) -> Option<Arc<RateTrace>> {
        match trace.build() {
            Ok(trace) => Some(Arc::new(trace)),
            Err((key, place, message)) => {
                let at = at.key(key);
                self.error(&place.map_or(at.clone(), |i| at.index(i)), message);
                None
            }
        }
    }

    /// `at` is the place of its delay.
    fn reorder(&mut self, at: &KeyPath, reorder: &file::Reorder) -> Option<Reorder> {
        let (min, max, at) = match reorder.delay {
            Hold::For(span) => (span, span, at.clone()),
            Hold::Between(HoldRange { min, max }) => {
                if min > max {
                    self.error(&at.key("min"), format!("must be at most max ({max})"));
                    return None;
                }
                (min, max, at.key("max"))
            }
        };
        if max.is_zero() || max > MAX_DELAY {
            self.error(&at, "must be longer than 0s and at most 1h");
            return None;
        }
        Some(Reorder { probability: reorder.probability, min, max })
    }

    /// `queue` with the limit that `buffer` gives it. Goes through the queue's own serialised form,
    /// because which disciplines have which limit is their affair.
    fn limited(
        &mut self,
        queue: QueueConfig,
        queue_at: &KeyPath,
        buffer: &Buffer,
        at: &KeyPath,
        rate: DataRate,
    ) -> Option<QueueConfig> {
        let before = self.errors.len();
        let written = |queue: &QueueConfig| serde_json::to_value(queue).expect("a configuration can be written");
        let mut json = written(&queue);
        let default = QueueConfig::by_name(queue.name()).as_ref().map(written).unwrap_or_default();
        for key in ["limit_packets", "limit_bytes"] {
            // The discipline's own default gives way to the rule, written out or not.
            if self.is_written(&queue_at.key(key)) && json[key] != default[key] {
                self.error(at, format!("{queue_at}.{key} already sets a limit: leave out one of the two"));
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
    fn delays(&mut self, path: &KeyPath, link: &Link) -> Option<(Delay, Option<Delay>)> {
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
        path: &KeyPath,
        line: &Line,
        forward: &Arc<LineSpec>,
        reverse: Option<&Arc<LineSpec>>,
        delay: Delay,
        back: Option<Delay>,
    ) {
        let mut is_reported = false;
        for k in 0..line.members {
            let (from, to) = (line.from.member(k), line.to.member(k));
            let mut there = None;
            for (direction, from, to) in [(Some(forward), from, to), (reverse, to, from)] {
                let Some(direction) = direction else { continue };
                let id = LinkId(count(self.links.len()));
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
                        "there is already a line {name}: packets take one shortest path, so a second line stays unused"
                    );
                    self.error(path, message);
                }
                self.links.push(LinkSpec { name, from, to, delay, air: None, line: Arc::clone(direction) });
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
}
