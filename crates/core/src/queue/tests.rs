//! Requirements on every registered discipline, by name; and the rig that the disciplines' own
//! tests drive.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::packet::{FlowId, Kind, Packet};
use crate::rng::Stream;
use crate::units::Span;

/// A line of 12 Mbit/s: 1500 bytes take a millisecond.
pub(super) fn context(seed: u64) -> QueueContext {
    QueueContext { rate: DataRate::from_mbps(12), mtu: 1500, stream: Stream::of_test(seed), hosts: Hosts::default() }
}

pub(super) fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

pub(super) fn packet(flow: u32, size: u16, ecn: Ecn) -> Packet {
    let mut p = Packet::new(FlowId(flow), Kind::Tcp, 0);
    (p.size, p.ecn) = (size, ecn);
    p
}

/// A discipline with its pool. Packets are numbered in order of arrival (in `seq`).
pub(super) struct Rig<'a, Q: Aqm + ?Sized> {
    pub q: &'a mut Q,
    pool: Pool,
    drops: Drops,
    arrived: u32,
    /// Number, reason and time of every drop; number and time of every mark.
    pub dropped: Vec<(u32, DropReason, Time)>,
    pub marked: Vec<(u32, Time)>,
}

impl<'a, Q: Aqm + ?Sized> Rig<'a, Q> {
    pub fn new(q: &'a mut Q) -> Self {
        Rig { q, pool: Pool::default(), drops: Drops::default(), arrived: 0, dropped: Vec::new(), marked: Vec::new() }
    }

    /// Returns the packet's number.
    pub fn arrive(&mut self, now: Time, mut packet: Packet) -> u32 {
        packet.seq.0 = self.arrived;
        self.arrived += 1;
        let id = self.pool.insert(packet);
        self.q.enqueue(now, id, &mut self.pool, &mut self.drops);
        self.settle(now);
        packet.seq.0
    }

    pub fn leave(&mut self, now: Time) -> Option<Packet> {
        let id = self.q.dequeue(now, &mut self.pool, &mut self.drops);
        self.settle(now);
        id.map(|id| self.pool.remove(id))
    }

    /// Runs the discipline's timer up to and including `now`.
    pub fn run_until(&mut self, now: Time) {
        while self.q.deadline() <= now {
            let at = self.q.deadline();
            self.q.on_deadline(at);
            assert!(self.q.deadline() > at, "the timer must move on");
        }
    }

    fn settle(&mut self, now: Time) {
        for id in self.drops.marked.drain(..) {
            assert_eq!(self.pool[id].ecn, Ecn::Ce);
            self.marked.push((self.pool[id].seq.0, now));
        }
        for (id, reason) in self.drops.dropped.drain(..) {
            self.dropped.push((self.pool.remove(id).seq.0, reason, now));
        }
    }

    pub fn drop_times_ms(&self) -> Vec<u64> {
        self.dropped.iter().map(|&(_, _, at)| at.as_ns() / 1_000_000).collect()
    }
    pub fn mark_times_ms(&self) -> Vec<u64> {
        self.marked.iter().map(|&(_, at)| at.as_ns() / 1_000_000).collect()
    }
    pub fn dropped_numbers(&self) -> Vec<u32> {
        self.dropped.iter().map(|d| d.0).collect()
    }
}

#[derive(Debug, Clone)]
enum Op {
    Arrive { flow: u32, size: u16, ecn: Ecn },
    Leave,
    Pass(Span),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let arrive = (0..5u32, 40..=1500u16, ecn).prop_map(|(flow, size, ecn)| Op::Arrive { flow, size, ecn });
    let pass = prop_oneof![0..2_000u64, 2_000..400_000u64].prop_map(|us| Op::Pass(Span::from_us(us)));
    prop::collection::vec(prop_oneof![5 => arrive, 3 => Just(Op::Leave), 2 => pass], 0..400)
}

/// Every discipline with its defaults and with a limit that is soon reached.
fn every_config() -> Vec<QueueConfig> {
    let tight = |name| serde_json::from_value(json!({ "name": name, "limit_packets": 20 })).unwrap();
    let default = |name| QueueConfig::by_name(name).unwrap();
    QueueConfig::NAMES.iter().flat_map(|&name| [default(name), tight(name)]).collect()
}

/// Everything visible from outside, to compare two runs: departures, drops and marks.
pub(super) type Trace = (Vec<u32>, Vec<(u32, DropReason, Time)>, Vec<(u32, Time)>);

/// Drives a discipline through `ops` and then empties it; checks the invariants after every step.
fn check_invariants(config: &QueueConfig, ops: &[Op], seed: u64) -> Result<Trace, TestCaseError> {
    let mut queue = config.build(&context(seed));
    let mut rig = Rig::new(&mut *queue);
    let mut now = Time::ZERO;
    // Their sizes, and for a discipline with two queues which it belongs to.
    let mut waiting: BTreeMap<u32, (u16, bool)> = BTreeMap::new();
    let (mut left, mut last_of_flow) = (Vec::new(), BTreeMap::new());
    let (mut seen_drops, mut seen_marks) = (0, 0);
    let mut latest_deadline = Time::ZERO;
    let drain = std::iter::repeat_n(&Op::Leave, ops.len() + 2);
    for op in ops.iter().chain(drain) {
        match *op {
            Op::Arrive { flow, size, ecn } => {
                let n = rig.arrive(now, packet(flow, size, ecn));
                let is_low = config.name() == "dualpi2" && matches!(ecn, Ecn::Ect1 | Ecn::Ce);
                waiting.insert(n, (size, is_low));
            }
            Op::Leave => {
                if let Some(p) = rig.leave(now) {
                    let known = waiting.remove(&p.seq.0);
                    prop_assert_eq!(known.map(|k| k.0), Some(p.size), "handed out twice, or after a drop");
                    let before = last_of_flow.insert((p.flow, known.map(|k| k.1)), p.seq.0);
                    prop_assert!(before.is_none_or(|n| n < p.seq.0), "reordered within a flow");
                    left.push(p.seq.0);
                } else {
                    prop_assert_eq!(rig.q.len_packets(), 0, "idle although packets wait");
                }
            }
            Op::Pass(span) => {
                now += span;
                rig.run_until(now);
            }
        }
        let marked: BTreeSet<u32> = rig.marked[seen_marks..].iter().map(|m| m.0).collect();
        for &(n, reason, _) in &rig.dropped[seen_drops..] {
            prop_assert!(waiting.remove(&n).is_some(), "dropped twice, or after it left");
            prop_assert!(reason != DropReason::Line);
            prop_assert!(!marked.contains(&n), "marked for nothing");
        }
        (seen_drops, seen_marks) = (rig.dropped.len(), rig.marked.len());
        prop_assert_eq!(rig.q.len_packets(), waiting.len());
        prop_assert_eq!(rig.q.len_bytes(), waiting.values().map(|k| u64::from(k.0)).sum::<u64>());
        prop_assert!(rig.q.drop_probability().is_none_or(|p| (0.0..=1.0).contains(&p)));
        let deadline = rig.q.deadline();
        prop_assert!(deadline > now, "overdue");
        prop_assert!(deadline >= latest_deadline, "went back");
        if !deadline.is_never() {
            latest_deadline = deadline;
        }
    }
    prop_assert!(waiting.is_empty());
    let marks: BTreeSet<u32> = rig.marked.iter().map(|m| m.0).collect();
    prop_assert_eq!(marks.len(), rig.marked.len(), "marked twice");
    Ok((left, rig.dropped, rig.marked))
}

proptest! {
    #[test]
    fn every_discipline_conserves_packets_keeps_flows_in_order_and_repeats_itself(ops in ops(), seed: u64) {
        for config in every_config() {
            let trace = check_invariants(&config, &ops, seed)?;
            prop_assert_eq!(trace, check_invariants(&config, &ops, seed)?, "{} is not deterministic", config.name());
        }
    }
}

#[test]
fn a_limit_holds_in_every_discipline() {
    for config in every_config() {
        let mut queue = config.build(&context(1));
        let mut rig = Rig::new(&mut *queue);
        for _ in 0..30_000 {
            rig.arrive(Time::ZERO, packet(0, 1000, Ecn::NotEct));
        }
        let bounded = ["fifo", "ack_filter"].iter().all(|name| config != QueueConfig::by_name(name).unwrap());
        assert_eq!(rig.q.len_packets() < 30_000, bounded, "{config:?}");
        assert!(rig.dropped.iter().all(|d| d.1 == DropReason::Overflow || config.name() == "red"));
    }
}

#[test]
fn taking_from_an_empty_queue_is_harmless() {
    for config in every_config() {
        let mut queue = config.build(&context(1));
        let mut rig = Rig::new(&mut *queue);
        for now in [0, 1, 500] {
            assert!(rig.leave(ms(now)).is_none());
        }
        rig.arrive(ms(600), packet(1, 1500, Ecn::NotEct));
        assert_eq!(rig.leave(ms(600)).map(|p| p.flow), Some(FlowId(1)), "{}", config.name());
        assert!(rig.leave(ms(600)).is_none());
        assert!(rig.dropped.is_empty());
    }
}

#[test]
fn an_early_call_of_the_timer_is_harmless() {
    for config in every_config() {
        let run = |early: bool| {
            let mut queue = config.build(&context(1));
            let mut rig = Rig::new(&mut *queue);
            for i in 0..3000 {
                let now = ms(i);
                rig.run_until(now);
                if early {
                    rig.q.on_deadline(now);
                }
                rig.arrive(now, packet(0, 1500, Ecn::NotEct));
                if i % 2 == 0 {
                    rig.leave(now);
                }
            }
            rig.dropped
        };
        assert_eq!(run(false), run(true), "{}", config.name());
    }
}

#[test]
fn every_configuration_round_trips() {
    for config in every_config() {
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<QueueConfig>(&text).unwrap(), config, "{text}");
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<QueueConfig>(&text).unwrap(), config, "{text}");
    }
    let all_set = [
        json!({ "name": "fifo", "limit_packets": 7, "limit_bytes": "9KiB" }),
        json!({ "name": "red", "limit_packets": 7, "limit_bytes": "9KiB", "min_th": 2.5, "max_th": 9.0, "w_q": 0.5,
            "max_p": 1.0, "gentle": false, "wait": false, "bytes": true, "mean_packet": "500B", "adaptive": true,
            "target_delay": "7ms", "ecn": false }),
        json!({ "name": "codel", "limit_packets": 7, "limit_bytes": "9KiB", "target": "20ms", "interval": "300ms",
            "ecn": false, "ce_threshold": "1ms" }),
        json!({ "name": "fq_codel", "flows": 16, "quantum": 300, "limit_packets": 7, "memory_limit": "4MiB",
            "drop_batch": 1, "target": "20ms", "interval": "300ms", "ecn": false, "ce_threshold": "1ms", "codel_backlog": "flow" }),
        json!({ "name": "pie", "limit_packets": 7, "limit_bytes": "9KiB", "target": "20ms", "t_update": "30ms",
            "max_burst": "0ns", "alpha": 0.25, "beta": 2.5, "ecn": false, "mark_ecnth": 0.5, "delay": "departure_rate",
            "derandomize": true, "cap_drop_adjustment": true, "on_off": true }),
        json!({ "name": "dualpi2", "limit_packets": 7, "limit_bytes": "9KiB", "target": "20ms", "t_update": "30ms", "alpha": 0.25,
            "beta": 2.5, "coupling": 4.0, "min_th": "1ms", "range": "0ns", "classic_protection": 20 }),
        json!({ "name": "cake", "bandwidth": "20Mbit/s", "rtt": "30ms", "isolation": "dual_srchost", "overhead": -10, "mpu": 64,
            "framing": "atm", "ingress": true, "limit_packets": 7, "memory_limit": "4MiB" }),
        json!({ "name": "ack_filter", "limit_packets": 7, "limit_bytes": "9KiB", "mode": "aggressive" }),
    ];
    assert_eq!(all_set.each_ref().map(|v| v["name"].as_str().unwrap()), QueueConfig::NAMES);
    for value in all_set {
        let config: QueueConfig = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&config).unwrap(), value);
    }
}

/// The error of a bad value names its key, the value and what is accepted.
#[test]
fn bad_values_are_refused() {
    let cases = [
        ("fifo", "limit_packets = 0", "`limit_packets` = 0: must be at least 1"),
        ("fifo", "limit_bytes = \"0B\"", "`limit_bytes` = 0B: must be at least \"1B\""),
        ("fifo", "limit_packets = -1", "expected u32"),
        ("fifo", "limit_bytes = 1000", "a number with B, kB"),
        ("fifo", "target = \"5ms\"", "unknown field `target`, expected `limit_packets` or `limit_bytes`"),
        ("red", "limit_packets = 0", "`limit_packets` = 0: must be at least 1"),
        ("red", "min_th = 0.0", "`min_th` = 0: must be above zero and at most"),
        ("red", "min_th = nan", "`min_th` = NaN: must be above zero and at most"),
        ("red", "max_th = inf", "`max_th` = inf: must be above zero and at most"),
        ("red", "min_th = 5.0\nmax_th = 5.0", "`max_th` = 5: must be above `min_th` (5)"),
        ("red", "w_q = 0.0", "`w_q` = 0: must be above 0 and at most 1"),
        ("red", "w_q = 1.5", "`1.5` is not a probability: a number from 0 to 1"),
        ("red", "max_p = 0.0", "`max_p` = 0: must be above 0 and at most 1"),
        ("red", "mean_packet = \"0B\"", "`mean_packet` = 0B: must be at least \"1B\""),
        ("red", "target_delay = \"0ms\"", "`target_delay` = 0ns: must be above zero"),
        ("codel", "limit_bytes = \"0B\"", "`limit_bytes` = 0B: must be at least \"1B\""),
        ("codel", "target = \"0ms\"", "`target` = 0ns: must be above zero and below `interval` (100ms)"),
        ("codel", "target = \"100ms\"", "`target` = 100ms: must be above zero and below `interval` (100ms)"),
        ("codel", "interval = \"0ms\"", "`interval` = 0ns: must be above zero"),
        ("codel", "interval = 100", "a number with ns, us, ms"),
        ("fq_codel", "flows = 0", "`flows` = 0: must be from 1 to 65536"),
        ("fq_codel", "flows = 65537", "`flows` = 65537: must be from 1 to 65536"),
        ("fq_codel", "quantum = 0", "`quantum` = 0: must be from 1 to 1048576"),
        ("fq_codel", "limit_packets = 0", "`limit_packets` = 0: must be at least 1"),
        ("fq_codel", "drop_batch = 0", "`drop_batch` = 0: must be at least 1"),
        ("fq_codel", "memory_limit = \"0B\"", "`memory_limit` = 0B: must be at least \"1B\""),
        ("fq_codel", "target = \"200ms\"", "`target` = 200ms: must be above zero and below `interval` (100ms)"),
        ("pie", "limit_packets = 0", "`limit_packets` = 0: must be at least 1"),
        ("pie", "target = \"0ms\"", "`target` = 0ns: must be above zero"),
        ("pie", "t_update = \"0ms\"", "`t_update` = 0ns: must be at least 1us"),
        ("pie", "alpha = -0.1", "`alpha` = -0.1: must be a finite number, zero or above"),
        ("pie", "beta = nan", "`beta` = NaN: must be a finite number, zero or above"),
        ("pie", "mark_ecnth = 2", "`2` is not a probability: a number from 0 to 1"),
        ("dualpi2", "limit_packets = 0", "`limit_packets` = 0: must be at least 1"),
        ("dualpi2", "target = \"0ms\"", "`target` = 0ns: must be above zero"),
        ("dualpi2", "t_update = \"0ms\"", "`t_update` = 0ns: must be at least 1us"),
        ("dualpi2", "alpha = -0.1", "`alpha` = -0.1: must be a finite number, zero or above"),
        ("dualpi2", "coupling = 0.5", "`coupling` = 0.5: must be a finite number, at least 1"),
        ("dualpi2", "classic_protection = 100", "`classic_protection` = 100: must be from 1 to 99"),
        ("cake", "bandwidth = \"0bit/s\"", "`bandwidth` = 0bit/s: must be at least \"1kbit/s\""),
        ("cake", "rtt = \"1us\"", "`rtt` = 1us: must be at least \"20us\""),
        ("cake", "overhead = 257", "`overhead` = 257: must be from -64 to 256"),
        ("cake", "mpu = 257", "`mpu` = 257: must be at most 256"),
        ("cake", "limit_packets = 0", "`limit_packets` = 0: must be at least 1"),
        ("cake", "memory_limit = \"0B\"", "`memory_limit` = 0B: must be at least \"1B\""),
        ("cake", "isolation = \"dual-srchost\"", "expected one of `flowblind`, `srchost`"),
        ("ack_filter", "limit_packets = 0", "`limit_packets` = 0: must be at least 1"),
        ("ack_filter", "mode = \"greedy\"", "expected `conservative` or `aggressive`"),
        ("pie", "delay = \"guess\"", "expected `timestamp` or `departure_rate`"),
    ];
    for (name, line, expected) in cases {
        let error = toml::from_str::<QueueConfig>(&format!("name = \"{name}\"\n{line}")).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}, {line}: {error}");
    }
    for name in QueueConfig::NAMES {
        assert!(cases.iter().any(|c| c.0 == *name), "no case for {name}");
        let error = toml::from_str::<QueueConfig>(&format!("name = \"{name}\"\nlimits = 3")).unwrap_err().to_string();
        assert!(error.contains("unknown field `limits`, expected"), "{name}: {error}");
    }
}

#[test]
fn marking_needs_an_ecn_capable_packet() {
    for (before, may_stay, after, recorded) in [
        (Ecn::NotEct, false, Ecn::NotEct, 0),
        (Ecn::Ect0, true, Ecn::Ce, 1),
        (Ecn::Ect1, true, Ecn::Ce, 1),
        (Ecn::Ce, true, Ecn::Ce, 0),
    ] {
        let (mut pool, mut drops) = (Pool::default(), Drops::default());
        let id = pool.insert(packet(0, 1500, before));
        assert_eq!(drops.try_mark(id, &mut pool), may_stay);
        assert_eq!((pool[id].ecn, drops.marked.len()), (after, recorded));
    }
}

#[test]
fn the_schema_has_every_key_of_every_discipline_and_no_other() {
    let schema = serde_json::to_value(schemars::schema_for!(QueueConfig)).unwrap();
    let tables = schema["anyOf"][1]["oneOf"].as_array().unwrap();
    assert_eq!(tables.len(), QueueConfig::NAMES.len());
    for (table, name) in tables.iter().zip(QueueConfig::NAMES) {
        assert_eq!(table["properties"]["name"]["const"], *name);
        assert_eq!(table["additionalProperties"], false);
        let default = serde_json::to_value(QueueConfig::by_name(name).unwrap()).unwrap();
        let keys = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(keys(&table["properties"]), keys(&default));
    }
}
