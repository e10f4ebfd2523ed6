//! Flows: members are paired up, options of both ends laid over their hosts' profiles and agreed
//! on.

use std::collections::BTreeMap;
use std::sync::Arc;

use airtcp_core::range::from_to;
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::tcp::{Recovery, TcpConfig, TcpOptions, Unresolved};
use airtcp_core::units::{Bytes, Span, Time};
use rand::RngExt;

use super::super::file::{Flow, MAX_COUNT, NodeKind, Start, defaults};
use super::super::tree::KeyPath;
use super::reach::Reach;
use super::{Expander, MAX_DURATION, Members, member_name, root};
use crate::spec::FlowSpec;
use crate::traffic::{Carried, Faults, TcpApp, Traffic};

/// Beyond any host's memory, and small enough to be added up.
const MAX_TSQ_BYTES: Bytes = Bytes::new(1 << 40);
/// Packets per second of all entries with traffic that does not wait for the network: 800 Gbit/s of
/// 1000 bytes.
const MAX_PACKETS_PER_SECOND: u64 = 100_000_000;
/// Packets of all entries that get a row each: a GiB of results, and as much again where all of
/// them are dropped.
const MAX_REMEMBERED: u64 = 10_000_000;
/// RFC 1122 section 4.2.3.2.
const MAX_DELAYED_ACK: Span = Span::from_ms(500);

/// Packets that flows send of their own accord, without waiting for the network.
#[derive(Debug, Clone, Copy, Default)]
struct OwnPackets {
    in_a_second: u64,
    /// Over the whole run, of those with a row of their own.
    remembered: u64,
}

/// `a, b or c`.
fn one_of(names: &[&str]) -> String {
    match names {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

impl<'a> Expander<'a> {
    pub(super) fn flows(&mut self, links_are_good: bool) -> Vec<FlowSpec> {
        let file = self.file;
        let reach = links_are_good.then(|| Reach::new(&self.nodes, &self.links));
        let mut specs: Vec<FlowSpec> = Vec::new();
        let mut total = 0u64;
        let mut own = OwnPackets::default();
        let mut seen = BTreeMap::new();
        for (i, flow) in file.flows.iter().enumerate() {
            let path = root("flows").index(i);
            self.check_name(&mut seen, "flows", i, &flow.name);
            self.flow_times(&path, flow);
            let ends = self.both_ends(&path, &flow.from, &flow.to);
            let ends = ends.filter(|(from, to)| {
                let mut is_host = |key, name: &str, ends: &Members| {
                    let is_host = self.groups[ends.group].kind == NodeKind::Host;
                    if !is_host {
                        self.error(&path.key(key), format!("`{name}` is a router: flows run between hosts"));
                    }
                    is_host
                };
                is_host("from", &flow.from, from) & is_host("to", &flow.to, to)
            });
            let traffic = self.traffic(&path, flow, ends);
            let Some((from, to)) = ends else { continue };
            let count = flow.count.unwrap_or(from.len.max(to.len));
            total += u64::from(count);
            if total > u64::from(MAX_COUNT) {
                self.error(&path.key("count"), format!("{total} flows in all: must be at most {MAX_COUNT}"));
                break;
            }
            if let Some(k) = (0..count).find(|&k| from.member(k) == to.member(k)) {
                let name = self.node_name(from.member(k)).to_owned();
                self.error(&path.key("to"), format!("must be another host than `from`: both are {name}"));
                continue;
            }
            if let Some(reach) = &reach {
                let needs_answers = match flow.traffic.carried() {
                    Carried::ByTcp(_) => true,
                    Carried::Alone(traffic) => traffic.is_answered(),
                };
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
            self.own_packets(&path, flow, &traffic, count, &mut own);
            let indexed = flow.count.is_some() || from.is_group || to.is_group;
            for k in 0..count {
                let name = member_name(&flow.name, indexed.then_some(count), k);
                if self.attached.contains(&from.member(k)) && self.attached.contains(&to.member(k)) {
                    self.left_out.push(name);
                    continue;
                }
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
                    name,
                    group: flow.name.clone(),
                    from: from.member(k),
                    to: to.member(k),
                    start: Time::ZERO + start,
                    stop: flow.stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
                    ac: flow.ac,
                    traffic: traffic.clone(),
                });
            }
        }
        specs
    }

    /// Bounds on what flows make of their own accord: they tell before the run what would end it
    /// without memory. `before`: of the entries before this one, and with it afterwards. The
    /// entry that goes beyond is named.
    fn own_packets(&mut self, path: &KeyPath, flow: &Flow, traffic: &Traffic, count: u32, before: &mut OwnPackets) {
        if !self.has_duration() {
            // Reported.
            return;
        }
        let start = match flow.start {
            Start::At(at) => at,
            Start::Between(range) => range.from,
        };
        let all = flow.stop.unwrap_or(self.file.duration).saturating_sub(start);
        let of = |span| traffic.packets_within(span).0.saturating_mul(u64::from(count));
        let in_a_second = of(all.min(Span::from_secs(1)));
        let remembered = if traffic.packets_within(all).1 { of(all) } else { 0 };
        let and_others = |of_others| if of_others > 0 { ", with those of flows before it" } else { "" };
        let sum = OwnPackets {
            in_a_second: before.in_a_second.saturating_add(in_a_second),
            remembered: before.remembered.saturating_add(remembered),
        };
        if sum.in_a_second > MAX_PACKETS_PER_SECOND {
            let message = format!(
                "{} packets in a second of simulated time{}: at most {MAX_PACKETS_PER_SECOND} can be simulated",
                sum.in_a_second,
                and_others(before.in_a_second),
            );
            self.error(&path.key("traffic"), message);
        } else if sum.remembered > MAX_REMEMBERED {
            let message = format!(
                "{} packets{}, each with a row of its own: at most {MAX_REMEMBERED} can be kept",
                sum.remembered,
                and_others(before.remembered),
            );
            self.error(&path.key("traffic"), message);
        } else {
            *before = sum;
        }
    }

    fn flow_times(&mut self, path: &KeyPath, flow: &Flow) {
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

    fn traffic(&mut self, path: &KeyPath, flow: &Flow, ends: Option<(Members, Members)>) -> Option<Traffic> {
        let before = self.errors.len();
        let carried = flow.traffic.carried();
        if let Carried::Alone(_) = carried {
            for key in ["tcp", "receiver", "read_rate"] {
                if self.is_written(&path.key(key)) {
                    let message = format!("only for TCP traffic: {}", one_of(TcpApp::NAMES));
                    self.error(&path.key(key), message);
                }
            }
        }
        let mut faults = Faults::default();
        flow.traffic.check(&mut faults);
        for (key, message) in faults.0 {
            let at = key.split('.').fold(path.key("traffic"), |at, key| at.key(key));
            self.error(&at, message);
        }
        let traffic = match carried {
            Carried::ByTcp(app) => {
                if flow.read_rate.is_some_and(|rate| rate.as_bps() == 0) {
                    self.error(&path.key("read_rate"), "must be above 0bit/s");
                }
                let (sender, receiver) = self.configs(path, flow, ends?)?;
                let (sender, receiver) = (Arc::new(sender), Arc::new(receiver));
                Traffic::Tcp { sender, receiver, read_rate: flow.read_rate, app }
            }
            Carried::Alone(traffic) => traffic,
        };
        (self.errors.len() == before).then_some(traffic)
    }

    /// Sender and receiver of a TCP flow, as they are once they have agreed. The state machines
    /// take their options as given, so what real ends settle in the handshake is settled here.
    fn configs(
        &mut self,
        path: &KeyPath,
        flow: &Flow,
        (from, to): (Members, Members),
    ) -> Option<(TcpConfig, TcpConfig)> {
        let mut sender = self.config(path, "tcp", flow.tcp.clone(), from)?;
        let shared = TcpOptions {
            handshake: Some(sender.connection.handshake),
            packet_bytes: flow.tcp.packet_bytes,
            timestamps: flow.tcp.timestamps,
            recovery: flow.tcp.recovery,
            ecn: flow.tcp.ecn,
            ecn_echo: flow.tcp.ecn_echo,
            ..TcpOptions::default()
        };
        let mut receiver = self.config(path, "receiver", flow.receiver.clone().over(shared), to)?;
        if receiver.connection.handshake != sender.connection.handshake {
            let message = format!("must be as at the sender, whose `handshake` is {}", sender.connection.handshake);
            self.error(&path.key("receiver").key("handshake"), message);
            return None;
        }
        let both = |end: &mut bool, other: &mut bool| (*end, *other) = (*end && *other, *end && *other);
        both(&mut sender.timestamps.enabled, &mut receiver.timestamps.enabled);
        if !sender.connection.handshake {
            // With one the state machines negotiate ECN, because the SYN itself depends on it.
            both(&mut sender.ecn.enabled, &mut receiver.ecn.enabled);
        }
        match (sender.loss_recovery.recovery, receiver.loss_recovery.recovery) {
            (Recovery::Sack, Recovery::Sack) => {}
            (Recovery::Sack, _) => sender.loss_recovery.recovery = Recovery::NewReno,
            (without, _) => receiver.loss_recovery.recovery = without,
        }
        let packet_bytes = sender.connection.packet_bytes.min(receiver.connection.packet_bytes);
        (sender.connection.packet_bytes, receiver.connection.packet_bytes) = (packet_bytes, packet_bytes);

        let segment = sender.mss();
        if receiver.buffers.payload(receiver.buffers.receive) < u64::from(segment) {
            let message = format!("must hold at least one segment of the sender ({segment}B)");
            self.error(&self.option_place(path, "receiver", "receive_buffer", to), message);
            return None;
        }
        Some((sender, receiver))
    }

    fn config(&mut self, path: &KeyPath, key: &str, options: TcpOptions, ends: Members) -> Option<TcpConfig> {
        let name = self.profile_name(ends).to_owned();
        let base = self.profile(&name, path)?;
        let config = match options.over(base).resolve() {
            Ok(config) => config,
            Err(Unresolved { option, why: None }) => {
                self.error(&path.key(key).key(option), format!("missing: the profile `{name}` does not set it either"));
                return None;
            }
            Err(Unresolved { option, why: Some(why) }) => {
                let at = self.option_place(path, key, option, ends);
                self.error(&at, format!("with the parameters of the profile `{name}`: {why}"));
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

    pub(super) fn profile_name(&self, ends: Members) -> &'a str {
        self.groups[ends.group].profile.unwrap_or(defaults::PROFILE)
    }

    /// Where an option that a flow ends up with was written: in the flow, or in a profile of the
    /// file's.
    fn option_place(&self, path: &KeyPath, end: &str, option: &str, ends: Members) -> KeyPath {
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
}

/// Errors of a TCP end: the options concerned, the likeliest culprit first, and what would be
/// right.
pub(super) fn faults(c: &TcpConfig) -> Vec<(&'static [&'static str], String)> {
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
    require(c.connection.packet_bytes > headers, &["packet_bytes", "timestamps"], &|| {
        format!("must be {}: the headers take {headers} bytes", from_to(&(headers + 1..=u16::MAX)))
    });
    require(c.cwnd.initial >= 1, &["initial_window"], &at_least_1);
    require(c.cwnd.initial_ssthresh >= 1, &["initial_ssthresh"], &at_least_1);
    require(c.cwnd.max >= 1, &["max_cwnd"], &at_least_1);
    require(c.receiver.ack_every >= 1, &["ack_every"], &at_least_1);
    require(c.receiver.acks_per_rtt == 0 || c.timestamps.enabled, &["acks_per_rtt", "timestamps"], &|| {
        "needs timestamps = true: the receiver takes its round trips from them".to_owned()
    });
    require(
        c.receiver.acks_per_rtt == 0 || !c.receiver.delayed_ack.is_zero(),
        &["acks_per_rtt", "delayed_ack"],
        &|| "needs a delayed_ack above 0s: no ACK waits longer than that".to_owned(),
    );
    require(!c.rto.min.is_zero(), &["rto_min"], &positive);
    require(!c.rto.initial.is_zero(), &["rto_initial"], &positive);
    require(c.rto.min <= c.rto.max, &["rto_min", "rto_max"], &|| {
        format!("rto_min ({}) must be at most rto_max ({})", c.rto.min, c.rto.max)
    });
    require(c.rto.initial <= c.rto.max, &["rto_initial", "rto_max"], &|| {
        format!("rto_initial ({}) must be at most rto_max ({})", c.rto.initial, c.rto.max)
    });
    require(c.rto.max <= MAX_DURATION, &["rto_max"], &|| "must be at most 30 days (720h)".to_owned());
    require(c.rto.granularity <= c.rto.max, &["rto_granularity", "rto_max"], &|| {
        format!("rto_granularity ({}) must be at most rto_max ({})", c.rto.granularity, c.rto.max)
    });
    require(c.rto.rtt_tick <= c.rto.max, &["rtt_tick", "rto_max"], &|| {
        format!("rtt_tick ({}) must be at most rto_max ({})", c.rto.rtt_tick, c.rto.max)
    });
    require(c.timers.tick <= c.rto.max, &["timer_tick", "rto_max"], &|| {
        format!("timer_tick ({}) must be at most rto_max ({})", c.timers.tick, c.rto.max)
    });
    require(c.timers.tick.is_zero() || !c.rto.rtt_per_segment, &["timer_tick", "rtt_per_segment"], &|| {
        "rtt_per_segment = true: a timer of ticks counts the round trip of one segment at a time; set it to false"
            .to_owned()
    });
    require(c.timers.rto_ticks_above_rtt <= 1000, &["rto_ticks_above_rtt"], &|| "must be from 0 to 1000".to_owned());
    require(c.timers.delayed_ack_tick <= MAX_DELAYED_ACK, &["delayed_ack_tick"], &|| {
        "must be at most 500ms (RFC 1122)".to_owned()
    });
    require(c.rto.var_min <= c.rto.max, &["rto_var_min", "rto_max"], &|| {
        format!("rto_var_min ({}) must be at most rto_max ({})", c.rto.var_min, c.rto.max)
    });
    require(!c.timestamps.tick.is_zero(), &["timestamp_tick"], &positive);
    require(c.timestamps.tick <= Span::from_secs(1), &["timestamp_tick"], &|| {
        "must be at most 1s (RFC 7323 section 5.4)".to_owned()
    });
    require(c.receiver.delayed_ack <= MAX_DELAYED_ACK, &["delayed_ack"], &|| {
        "must be at most 500ms (RFC 1122)".to_owned()
    });
    require(c.buffers.send.get() >= segment, &["send_buffer"], &|| {
        format!("must hold at least one segment ({segment}B)")
    });
    require((1..=256).contains(&c.buffers.receive_scaling_ratio), &["receive_scaling_ratio"], &|| {
        "must be from 1 to 256".to_owned()
    });
    require(c.buffers.payload(c.buffers.receive) >= segment, &["receive_buffer"], &|| {
        format!("must hold at least one segment ({segment}B)")
    });
    require(c.pacing.percent >= 1, &["pacing_percent"], &at_least_1);
    require(c.pacing.slow_start_percent >= 1, &["pacing_slow_start_percent"], &at_least_1);
    require(c.host_queue.tsq_limit.get() >= 1, &["tsq_limit"], &|| {
        "must be at least 1B; tsq = \"off\" for no bound".to_owned()
    });
    require(c.host_queue.tsq_limit <= MAX_TSQ_BYTES, &["tsq_limit"], &|| format!("must be at most {MAX_TSQ_BYTES}"));
    require(c.host_queue.tsq_overhead <= MAX_TSQ_BYTES, &["tsq_overhead"], &|| {
        format!("must be at most {MAX_TSQ_BYTES}")
    });
    require(c.host_queue.tsq_pacing_shift <= 30, &["tsq_pacing_shift"], &|| "must be from 0 to 30".to_owned());
    require((1..=255).contains(&c.host_queue.min_tso_segs), &["min_tso_segs"], &|| "must be from 1 to 255".to_owned());
    require(c.host_queue.tso_rtt_log <= 31, &["tso_rtt_log"], &|| "must be from 0 to 31".to_owned());
    require(c.receiver.invalid_ratelimit <= Span::from_secs(60), &["invalid_ratelimit"], &|| {
        "must be at most 60s".to_owned()
    });
    faults
}
