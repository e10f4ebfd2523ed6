//! Flows: members are paired up, options of both ends laid over their hosts' profiles and agreed on.

use std::collections::BTreeMap;
use std::sync::Arc;

use airtcp_core::buffer_probe::EstimatorConfig;
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::tcp::{Recovery, TcpConfig, TcpOptions};
use airtcp_core::units::{Bytes, Span, Time};
use rand::RngExt;

use super::super::file::{BufferProbe, Flow, GapFrom, MAX_COUNT, NodeKind, Start, TrafficTable, Web, defaults};
use super::super::tree::Path;
use super::reach::Reach;
use super::{Ends, Expander, MAX_DURATION, member_name, root};
use crate::spec::{FlowSpec, Surge, TcpApp, Traffic};

/// Beyond any host's memory, and small enough to be added up.
const MAX_TSQ_BYTES: Bytes = Bytes::new(1 << 40);
/// RFC 1122 section 4.2.3.2.
const MAX_DELAYED_ACK: Span = Span::from_ms(500);

impl<'a> Expander<'a> {
    pub(super) fn flows(&mut self, links_are_good: bool) -> Vec<FlowSpec> {
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
                let needs_answers =
                    !matches!(*table, TrafficTable::Cbr(_) | TrafficTable::Train(_) | TrafficTable::BufferProbe(_));
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
                    ac: flow.ac,
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
            TrafficTable::Stream(s) => {
                if s.rate.as_bps() == 0 {
                    self.error(&at.key("rate"), "must be above 0bit/s");
                }
                if s.every.is_zero() {
                    self.error(&at.key("every"), "must be longer than 0s");
                }
                Some(TcpApp::Stream { rate: s.rate, every: s.every })
            }
            TrafficTable::Ping(_) | TrafficTable::Cbr(_) | TrafficTable::Train(_) | TrafficTable::BufferProbe(_) => {
                for key in ["tcp", "receiver", "read_rate"] {
                    if self.is_written(&path.key(key)) {
                        self.error(&path.key(key), "only for TCP traffic: unlimited, transfer, web or stream");
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
            (None, TrafficTable::BufferProbe(probe)) => Traffic::BufferProbe {
                count: probe.count,
                gap: probe.gap,
                packet_bytes: probe.packet_bytes,
                every: probe.every,
                runs: probe.runs,
                estimator: self.buffer_probe(&at, probe),
            },
            (
                None,
                TrafficTable::Unlimited(_) | TrafficTable::Transfer(_) | TrafficTable::Web(_) | TrafficTable::Stream(_),
            ) => return None,
        };
        (self.errors.len() == before).then_some(traffic)
    }

    fn buffer_probe(&mut self, at: &Path, probe: &BufferProbe) -> EstimatorConfig {
        let length = probe.gap.saturating_mul(u64::from(probe.count).saturating_sub(1));
        if probe.every.is_zero() || probe.every < length {
            let message = format!("must be longer than 0s and no shorter than a train ({length})");
            self.error(&at.key("every"), message);
        }
        let estimator = &probe.estimator;
        if probe.gap.is_zero() && estimator.line_rate.is_none() {
            let message = "0s spreads the datagrams as the slowest line does: name its rate as estimator.line_rate";
            self.error(&at.key("gap"), message);
        }
        let at = at.key("estimator");
        if estimator.line_rate.is_some_and(|rate| rate.as_bps() == 0) {
            self.error(&at.key("line_rate"), "must be above 0bit/s");
        }
        if estimator.sustained_losses == 0 {
            self.error(&at.key("sustained_losses"), "must be at least 1");
        }
        if estimator.sustained_within < estimator.sustained_losses {
            let message = format!("must be at least sustained_losses ({})", estimator.sustained_losses);
            self.error(&at.key("sustained_within"), message);
        }
        estimator.clone()
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

    pub(super) fn profile_name(&self, ends: Ends) -> &'a str {
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
}

/// What is wrong with a TCP end: the options concerned, the likeliest culprit first, and what would be right.
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
    require(c.packet_bytes > headers, &["packet_bytes", "timestamps"], &|| {
        format!("must be in {}..={}: the headers take {headers} bytes", headers + 1, u16::MAX)
    });
    require(c.initial_window >= 1, &["initial_window"], &at_least_1);
    require(c.initial_ssthresh >= 1, &["initial_ssthresh"], &at_least_1);
    require(c.max_cwnd >= 1, &["max_cwnd"], &at_least_1);
    require(c.ack_every >= 1, &["ack_every"], &at_least_1);
    require(c.acks_per_rtt == 0 || c.timestamps, &["acks_per_rtt", "timestamps"], &|| {
        "needs timestamps = true: the receiver takes its round trips from them".to_owned()
    });
    require(c.acks_per_rtt == 0 || !c.delayed_ack.is_zero(), &["acks_per_rtt", "delayed_ack"], &|| {
        "needs a delayed_ack above 0s: no ACK waits longer than that".to_owned()
    });
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
    require(c.timer_tick <= c.rto_max, &["timer_tick", "rto_max"], &|| {
        format!("timer_tick ({}) must be at most rto_max ({})", c.timer_tick, c.rto_max)
    });
    require(c.timer_tick.is_zero() || !c.rtt_per_segment, &["timer_tick", "rtt_per_segment"], &|| {
        "rtt_per_segment = true: a timer of ticks counts the round trip of one segment at a time; set it to false"
            .to_owned()
    });
    require(c.rto_ticks_above_rtt <= 1000, &["rto_ticks_above_rtt"], &|| "must be in 0..=1000".to_owned());
    require(c.delayed_ack_tick <= MAX_DELAYED_ACK, &["delayed_ack_tick"], &|| {
        "must be at most 500ms (RFC 1122)".to_owned()
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
