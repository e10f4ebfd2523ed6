use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::packet::FlowId;
use crate::queue::tests::{Rig, context, ms};

fn filter(mode: AckFilterMode) -> AckFilter {
    AckFilterConfig { mode, ..AckFilterConfig::default() }.build(&context(0))
}

fn ack(flow: u32, ack: u32) -> Packet {
    let mut p = Packet::new(FlowId(flow), Kind::Tcp, 0);
    p.set_reverse();
    (p.size, p.flags, p.ack, p.window) = (52, TcpFlags::ACK, Seq32(ack), 60_000);
    p
}

fn sack(number: u32, blocks: &[(u32, u32)]) -> Packet {
    let mut p = ack(0, number);
    for &(start, end) in blocks {
        p.push_sack(SackBlock { start: Seq32(start), end: Seq32(end) });
    }
    p
}

fn with(mut p: Packet, change: impl Fn(&mut Packet)) -> Packet {
    change(&mut p);
    p
}

fn ece(p: Packet) -> Packet {
    with(p, |p| p.flags |= TcpFlags::ECE)
}

/// Which of these, arriving in this order, go for being superfluous: by number, in the order in
/// which they go.
fn filtered(mode: AckFilterMode, arrivals: &[Packet]) -> Vec<u32> {
    let mut queue = filter(mode);
    let mut rig = Rig::new(&mut queue);
    for &p in arrivals {
        rig.arrive(ms(0), p);
    }
    assert!(rig.dropped.iter().all(|d| d.1 == DropReason::Filtered));
    let gone = rig.dropped_numbers();
    let left: Vec<u32> = std::iter::from_fn(|| rig.leave(ms(1))).map(|p| p.seq.0).collect();
    let kept: Vec<u32> = (0..arrivals.len() as u32).filter(|n| !gone.contains(n)).collect();
    assert_eq!(left, kept, "in order of arrival");
    gone
}

#[test]
fn arrivals_and_what_becomes_of_them() {
    let data = with(ack(0, 9000), |p| p.len = 1000);
    let is = |flags: TcpFlags| with(ack(0, 9000), |p| p.flags |= flags);
    let at = |number, ts| with(ack(0, number), |p| (p.ts_val, p.ts_ecr) = (ts, ts));
    // Arrivals; the numbers dropped in conservative mode; those dropped in aggressive mode.
    type Case<'a> = (&'a str, Vec<Packet>, &'a [u32], &'a [u32]);
    let cases: &[Case] = &[
        ("one beside the newest, or none", (1..=5).map(|n| ack(0, n * 1000)).collect(), &[0, 1, 2], &[0, 1, 2, 3]),
        ("across the end of the numbers", vec![ack(0, u32::MAX - 9), ack(0, 5), ack(0, 500)], &[0], &[0, 1]),
        ("two flows", vec![ack(0, 1), ack(1, 1), ack(0, 2), ack(1, 2), ack(0, 3)], &[0], &[0, 1, 2]),
        ("two flows of one chain", vec![ack(0, 1), ack(256, 1), ack(0, 2), ack(256, 2), ack(0, 3)], &[0], &[0, 1, 2]),
        ("duplicates all stay", vec![ack(0, 1); 6], &[], &[]),
        ("until something new is acknowledged", [vec![ack(0, 1); 4], vec![ack(0, 2)]].concat(), &[0], &[0]),
        ("an older one behind a newer one", vec![ack(0, 9), ack(0, 5), ack(0, 7)], &[], &[1]),
        ("data", vec![ack(0, 1), data, ack(0, 9000), data], &[], &[0]),
        (
            "set-up, end and reset",
            vec![is(TcpFlags::SYN), is(TcpFlags::FIN), is(TcpFlags::RST), ack(0, 9999)],
            &[],
            &[],
        ),
        (
            "other direction, other connection",
            vec![
                with(Packet::new(FlowId(0), Kind::Tcp, 0), |p| (p.flags, p.ack) = (TcpFlags::ACK, Seq32(1))),
                with(Packet::new(FlowId(0), Kind::Tcp, 1), |p| (p.flags, p.ack) = (TcpFlags::ACK, Seq32(1))),
                ack(0, 2),
            ],
            &[],
            &[],
        ),
        ("not TCP", vec![with(ack(0, 1), |p| p.kind = Kind::Udp), ack(0, 2), ack(0, 3)], &[], &[1]),
        (
            "SACK that grows",
            vec![sack(1, &[(3, 4)]), sack(1, &[(3, 5)]), sack(1, &[(3, 6)]), sack(1, &[(3, 7)])],
            &[0, 1],
            &[0, 1, 2],
        ),
        ("the same SACK", vec![sack(1, &[(3, 4)]); 4], &[], &[]),
        (
            "a range that the newest leaves out",
            vec![sack(1, &[(9, 10)]), sack(1, &[(3, 4)]), sack(1, &[(5, 6), (3, 4)])],
            &[],
            &[1],
        ),
        ("a range in the middle", vec![sack(1, &[(5, 6)]), sack(1, &[(5, 6)]), sack(1, &[(3, 8)])], &[0], &[0]),
        ("a range acknowledged", vec![sack(1, &[(3, 4)]), sack(1, &[(3, 5)]), ack(0, 5)], &[0], &[0, 1]),
        ("a range that is no longer reported", vec![sack(1, &[(7, 9)]), sack(1, &[(7, 9)]), ack(0, 5)], &[], &[]),
        (
            "a report of a duplicate",
            vec![sack(9, &[(3, 4)]), sack(9, &[(13, 14), (11, 15)]), sack(10, &[(11, 15)]), ack(0, 20)],
            &[],
            &[2],
        ),
        (
            "the congestion echo's turns",
            vec![ack(0, 1), ece(ack(0, 2)), ece(ack(0, 3)), ece(ack(0, 4)), ack(0, 5), ack(0, 6)],
            &[1, 2],
            &[1, 2, 4],
        ),
        ("a window that ends earlier", vec![with(ack(0, 1), |p| p.window = 70_000), ack(0, 2), ack(0, 3)], &[], &[1]),
        ("a window that opens", vec![ack(0, 1), with(ack(0, 1), |p| p.window = 70_000)], &[], &[]),
        ("timestamps", vec![at(1, 10), at(2, 20), at(3, 15)], &[], &[0]),
    ];
    for (name, arrivals, conservative, aggressive) in cases {
        assert_eq!(filtered(AckFilterMode::Conservative, arrivals), *conservative, "{name}, conservative");
        assert_eq!(filtered(AckFilterMode::Aggressive, arrivals), *aggressive, "{name}, aggressive");
    }
}

#[test]
fn a_full_queue_of_acks_still_takes_newer_ones() {
    let config = AckFilterConfig { limit_packets: Some(4), ..AckFilterConfig::default() };
    let mut queue = config.build(&context(0));
    let mut rig = Rig::new(&mut queue);
    for n in 1..=20 {
        for flow in 0..2 {
            rig.arrive(ms(0), ack(flow, n));
        }
    }
    assert_eq!(rig.q.len_packets(), 4);
    assert!(rig.dropped.iter().all(|d| d.1 == DropReason::Filtered));
    let left: Vec<(u32, u32)> = std::iter::from_fn(|| rig.leave(ms(0))).map(|p| (p.flow.0, p.ack.0)).collect();
    assert_eq!(left, [(0, 19), (1, 19), (0, 20), (1, 20)]);
}

/// Its SACK blocks need more bytes than the one it would replace gives back.
#[test]
fn who_finds_no_room_drops_nothing_else() {
    let config = AckFilterConfig { limit_bytes: Some(Bytes::new(110)), ..AckFilterConfig::default() };
    let mut queue = config.build(&context(0));
    let mut rig = Rig::new(&mut queue);
    rig.arrive(ms(0), ack(0, 1));
    rig.arrive(ms(0), ack(0, 2));
    rig.arrive(ms(0), with(ack(0, 3), |p| p.size = 64));
    assert_eq!(rig.dropped, [(2, DropReason::Overflow, ms(0))]);
    rig.arrive(ms(0), ack(0, 4));
    assert_eq!(rig.dropped[1], (0, DropReason::Filtered, ms(0)));
}

#[derive(Debug, Clone)]
enum Op {
    /// Data segments `lost` numbers beyond the next one arrive at the receiver, whose ACK goes into
    /// the queue.
    Segment {
        flow: usize,
        skip: u32,
    },
    /// The oldest hole is filled.
    Fill {
        flow: usize,
    },
    /// The newest segment arrives a second time.
    Again {
        flow: usize,
    },
    Ece {
        flow: usize,
        on: bool,
    },
    Data,
    Leave,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let flow = 0..3usize;
    let op = prop_oneof![
        8 => (flow.clone(), prop_oneof![6 => Just(0), 1 => 1..3u32]).prop_map(|(flow, skip)| Op::Segment { flow, skip }),
        3 => flow.clone().prop_map(|flow| Op::Fill { flow }),
        1 => flow.clone().prop_map(|flow| Op::Again { flow }),
        1 => (flow, any::<bool>()).prop_map(|(flow, on)| Op::Ece { flow, on }),
        1 => Just(Op::Data),
        4 => Just(Op::Leave),
    ];
    prop::collection::vec(op, 1..300)
}

/// A receiver reduced to what it tells: what it holds, the newest range first.
#[derive(Debug, Clone, Default)]
struct Receiver {
    held: Vec<bool>,
    newest: Vec<u32>,
    ece: bool,
}

const STEP: u32 = 1000;

impl Receiver {
    fn acknowledged(&self) -> u32 {
        self.held.iter().take_while(|h| **h).count() as u32
    }
    fn take(&mut self, n: u32) {
        self.held.resize(self.held.len().max(n as usize + 1), false);
        self.held[n as usize] = true;
        self.newest.retain(|&m| m != n);
        self.newest.insert(0, n);
    }
    /// The range around `n` that is held.
    fn range(&self, n: u32) -> (u32, u32) {
        let start = (0..=n).rev().take_while(|&m| self.held[m as usize]).last().unwrap();
        let end = (n..self.held.len() as u32).take_while(|&m| self.held[m as usize]).last().unwrap() + 1;
        (start, end)
    }
    fn tell(&self, flow: usize, with_sack: bool, again: Option<u32>) -> Packet {
        let number = self.acknowledged();
        let mut p = ack(flow as u32, number * STEP);
        if self.ece {
            p.flags |= TcpFlags::ECE;
        }
        if with_sack {
            let mut blocks: Vec<(u32, u32)> = again.map(|n| (n, n + 1)).into_iter().collect();
            for &n in &self.newest {
                let range = self.range(n);
                if n >= number && !blocks.contains(&range) && blocks.len() < 3 {
                    blocks.push(range);
                }
            }
            for (start, end) in blocks {
                p.push_sack(SackBlock { start: Seq32(start * STEP), end: Seq32(end * STEP) });
            }
        }
        p
    }
}

/// Knowledge of a sender about its flow, in segments: the highest acknowledgement, and the reports
/// of segments above it.
#[derive(Debug, Default, PartialEq)]
struct Known {
    acknowledged: u32,
    reported: Vec<u32>,
    ece_turns: Vec<bool>,
    duplicates_told: usize,
}

impl Known {
    fn hear(&mut self, p: &Packet) {
        self.acknowledged = self.acknowledged.max(p.ack.0 / STEP);
        for b in p.sack() {
            self.duplicates_told += usize::from(b.start.0 < p.ack.0);
            self.reported.extend(b.start.0 / STEP..b.end.0 / STEP);
        }
        self.reported.retain(|&n| n >= self.acknowledged);
        self.reported.sort_unstable();
        self.reported.dedup();
        let ece = p.has(TcpFlags::ECE);
        if self.ece_turns.last() != Some(&ece) {
            self.ece_turns.push(ece);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The sender at the far end knows in the end what it would know without the filter; the newest
    /// ACK of each flow is always there, and without SACK, so are the duplicates that follow it.
    #[test]
    fn nothing_that_was_told_is_lost(ops in ops(), with_sack: bool, aggressive: bool) {
        let mode = if aggressive { AckFilterMode::Aggressive } else { AckFilterMode::Conservative };
        let mut queue = filter(mode);
        let mut rig = Rig::new(&mut queue);
        let mut receivers = vec![Receiver::default(); 3];
        let mut told: Vec<Vec<Packet>> = vec![Vec::new(); 3];
        // Numbers and flows of what waits, in order.
        let mut waiting: BTreeMap<u32, Packet> = BTreeMap::new();
        let (mut heard, mut expected) = (<[Known; 3]>::default(), <[Known; 3]>::default());
        let drain = std::iter::repeat_n(&Op::Leave, ops.len() + 1);
        for op in ops.iter().chain(drain) {
            let again = |r: &Receiver| r.newest.first().copied();
            let arrival = match *op {
                Op::Segment { flow, skip } => {
                    let n = receivers[flow].held.len() as u32 + skip;
                    receivers[flow].take(n);
                    Some((flow, None))
                }
                Op::Fill { flow } => {
                    let n = receivers[flow].acknowledged();
                    receivers[flow].take(n);
                    Some((flow, None))
                }
                Op::Again { flow } => again(&receivers[flow]).map(|n| (flow, Some(n))),
                Op::Ece { flow, on } => {
                    receivers[flow].ece = on;
                    None
                }
                Op::Data => {
                    let mut data = Packet::new(FlowId(7), Kind::Tcp, 0);
                    (data.size, data.len, data.flags) = (1500, 1448, TcpFlags::ACK);
                    waiting.insert(rig.arrive(ms(0), data), data);
                    None
                }
                Op::Leave => {
                    if let Some(p) = rig.leave(ms(0)) {
                        let first = waiting.pop_first().map(|(n, _)| n);
                        prop_assert_eq!(first, Some(p.seq.0), "not in order");
                        if is_pure_ack(&p) {
                            heard[p.flow.0 as usize].hear(&p);
                        }
                    } else {
                        prop_assert!(waiting.is_empty());
                    }
                    None
                }
            };
            if let Some((flow, again)) = arrival {
                let p = receivers[flow].tell(flow, with_sack, again);
                expected[flow].hear(&p);
                told[flow].push(p);
                let before = rig.dropped.len();
                let n = rig.arrive(ms(0), p);
                waiting.insert(n, p);
                for d in &rig.dropped[before..] {
                    prop_assert_eq!(d.1, DropReason::Filtered);
                    prop_assert!(d.0 != n, "the newest");
                    let gone = waiting.remove(&d.0).unwrap();
                    prop_assert_eq!(gone.flow.0 as usize, flow);
                    prop_assert!(with_sack || gone.ack != p.ack, "a duplicate of the newest");
                }
                prop_assert!(rig.dropped.len() <= before + 1);
                if !aggressive && rig.dropped.len() > before {
                    // One beside the newest stays.
                    prop_assert!(waiting.values().filter(|w| is_pure_ack(w) && w.flow == p.flow).count() >= 2);
                }
            }
            prop_assert_eq!(rig.q.len_packets(), waiting.len());
        }
        prop_assert_eq!(heard, expected);
    }
}
