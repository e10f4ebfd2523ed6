use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use airtcp_core::packet::PacketId;
use airtcp_core::units::{Span, Time};
use proptest::prelude::*;

use super::{Delivered, Driver, Network, Port, Tap};
use crate::common::clock::Clock;
use crate::common::network::NotSent;
use crate::common::network::TcpData;
use crate::shell::watch::Watch;

/// A pipe between two hosts with a fixed delay, whose packets' numbers are used again as soon as
/// they are free.
#[derive(Default)]
struct Pipe {
    now: Time,
    delay: Span,
    flying: VecDeque<Delivered>,
    arrived: VecDeque<Delivered>,
    free: Vec<u32>,
    numbers: u32,
}

impl Network for Pipe {
    fn deadline(&mut self) -> Time {
        self.flying.front().map_or(Time::NEVER, |p| p.time)
    }
    fn run_until(&mut self, time: Time) {
        assert!(time >= self.now, "time goes back");
        self.now = time;
        while let Some(p) = self.flying.front().copied().filter(|p| p.time <= time) {
            self.flying.pop_front();
            self.arrived.push_back(p);
        }
    }
    fn inject(&mut self, from: usize, bytes: &[u8]) -> Result<PacketId, NotSent> {
        if bytes.len() < 8 {
            return Err(NotSent::Unreadable);
        }
        let id = PacketId(self.free.pop().unwrap_or_else(|| {
            self.numbers += 1;
            self.numbers - 1
        }));
        self.flying.push_back(Delivered { id, to: 1 - from, time: self.now + self.delay, is_marked: bytes[0] == 1 });
        Ok(id)
    }
    fn take_egress(&mut self, give: &mut dyn FnMut(Delivered)) -> bool {
        let Some(delivered) = self.arrived.pop_front() else { return false };
        give(delivered);
        self.free.push(delivered.id.0);
        true
    }
    fn inside(&self) -> u32 {
        u32::try_from(self.flying.len()).unwrap()
    }
    fn write_mark(_: &Delivered, bytes: &mut [u8]) {
        bytes[1] = 0xce;
    }
}

#[derive(Default)]
struct Hosts {
    sends: [VecDeque<Vec<u8>>; 2],
    received: [Vec<Vec<u8>>; 2],
    /// A host answers what it is given at once, within the write, as a kernel does.
    answers: u32,
    /// So many packets are handed over together; 0: each by itself.
    together: usize,
}

impl Port for Hosts {
    fn count(&self) -> usize {
        2
    }
    fn read(&mut self, host: usize, buffer: &mut [u8]) -> Option<usize> {
        let packet = self.sends[host].pop_front()?;
        buffer[..packet.len()].copy_from_slice(&packet);
        Some(packet.len())
    }
    fn has_more(&self, host: usize) -> bool {
        self.together > 0 && self.sends[host].len() % self.together != 0
    }
    fn write(&mut self, host: usize, packet: &[u8]) -> bool {
        self.received[host].push(packet.to_vec());
        if self.answers > 0 {
            self.answers -= 1;
            self.sends[host].push_back(vec![9; packet.len()]);
        }
        true
    }
}

struct Manual(Cell<u64>);

impl Clock for Manual {
    fn now(&self) -> Time {
        // Reading it takes time, as it does.
        self.0.set(self.0.get() + 30);
        Time::from_ns(self.0.get())
    }
}

#[derive(Default)]
struct Seen(BTreeMap<(bool, usize), u32>);

impl Tap for Seen {
    fn packet(&mut self, _: Time, host: usize, sent: bool, _: &[u8]) {
        *self.0.entry((sent, host)).or_default() += 1;
    }
}

fn pipe(delay: Span) -> Driver<Pipe, Hosts> {
    Driver::new(Pipe { delay, ..Pipe::default() }, Hosts::default())
}

fn packet(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len.max(8)];
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

#[test]
fn a_packet_takes_the_delay_and_the_answer_too() {
    let mut driver = pipe(Span::from_ms(5));
    driver.ports.sends[0].push_back(packet(1, 100));
    driver.ports.answers = 1;
    let (clock, mut watch, mut seen) = (Manual(Cell::new(1000)), Watch::new(2), Seen::default());
    let first = driver.turn(&clock, &mut watch, &mut seen);
    assert!((5_000_000..5_002_000).contains(&first.as_ns()), "{first:?}");
    clock.0.set(first.as_ns());
    let second = driver.turn(&clock, &mut watch, &mut seen);
    assert_eq!(driver.ports.received[1], [packet(1, 100)]);
    // The answer was read in the same turn, though nobody said that there is one.
    assert!((10_000_000..10_004_000).contains(&second.as_ns()), "{second:?}");
    clock.0.set(second.as_ns());
    driver.turn(&clock, &mut watch, &mut seen);
    assert_eq!(driver.ports.received[0], [vec![9; 100]]);
    assert_eq!(seen.0, BTreeMap::from([((true, 0), 1), ((false, 1), 1), ((true, 1), 1), ((false, 0), 1)]));
    assert!(watch.lateness().max_us < 1.0);
}

#[test]
fn packets_that_are_handed_over_together_enter_together() {
    let mut driver = pipe(Span::from_ms(5));
    driver.ports.together = 3;
    driver.ports.sends[0].extend((0..6).map(|number| packet(number, 100)));
    let (clock, mut watch) = (Manual(Cell::new(1000)), Watch::new(2));
    driver.turn(&clock, &mut watch, &mut Seen::default());
    let times: Vec<Time> = driver.network.flying.iter().map(|flying| flying.time).collect();
    let [first, .., last] = times.as_slice() else { panic!("{times:?}") };
    assert_eq!(times, [[*first; 3], [*last; 3]].concat());
    assert!(last > first);
}

#[test]
fn marks_are_written_and_what_cannot_be_read_is_counted() {
    let mut driver = pipe(Span::from_us(10));
    let mut marked = packet(1, 40);
    marked[0] = 1;
    driver.ports.sends[0].extend([marked, vec![1, 2, 3]]);
    let (clock, mut watch) = (Manual(Cell::new(0)), Watch::new(2));
    let wake = driver.turn(&clock, &mut watch, &mut Seen::default());
    clock.0.set(wake.as_ns());
    driver.turn(&clock, &mut watch, &mut Seen::default());
    assert_eq!(driver.ports.received[1][0][..2], [1, 0xce]);
    assert_eq!(watch.refused(), [0, 1, 0]);
}

#[test]
fn nothing_real_inside_wakes_a_thousand_times_a_second_at_most() {
    let mut driver = pipe(Span::from_us(10));
    let (clock, mut watch) = (Manual(Cell::new(0)), Watch::new(2));
    let wake = driver.turn(&clock, &mut watch, &mut Seen::default());
    assert!(wake.is_never());
}

proptest! {
    /// Whatever the instants of the turns, each packet arrives once, as it was, in order, and never
    /// before its time.
    #[test]
    fn every_packet_arrives_once(
        sizes in prop::collection::vec((0usize..2, 8usize..1500, 0u64..400_000), 1..200),
        wakes in prop::collection::vec(1u64..300_000, 1..50),
    ) {
        let mut driver = pipe(Span::from_us(700));
        let (clock, mut watch) = (Manual(Cell::new(0)), Watch::new(2));
        let mut sent: [Vec<Vec<u8>>; 2] = Default::default();
        let mut wakes = wakes.into_iter().cycle();
        let (mut at, mut number) = (0, 0);
        for (host, len, gap) in sizes {
            at += gap;
            while clock.0.get() + 1_000_000 < at {
                clock.0.set(clock.0.get() + wakes.next().unwrap());
                driver.turn(&clock, &mut watch, &mut Seen::default());
            }
            driver.ports.sends[host].push_back(packet(number, len));
            sent[host].push(packet(number, len));
            driver.wake(host);
            number += 1;
        }
        for _ in 0..1000 {
            clock.0.set(clock.0.get() + 10_000);
            driver.turn(&clock, &mut watch, &mut Seen::default());
        }
        let [first, second] = sent;
        prop_assert_eq!(&driver.ports.received[1], &first);
        prop_assert_eq!(&driver.ports.received[0], &second);
        prop_assert_eq!(watch.lateness().packets, u64::from(number));
    }
}

/// A radio that sends a packet each millisecond to the other host, and holds what waits.
#[derive(Default)]
struct Radio {
    now: Time,
    waiting: VecDeque<(PacketId, usize)>,
    next_at: Time,
    arrived: VecDeque<Delivered>,
    released: VecDeque<(u32, u32)>,
    numbers: u32,
    most: usize,
}

impl Network for Radio {
    fn deadline(&mut self) -> Time {
        if self.waiting.is_empty() { Time::NEVER } else { self.next_at }
    }
    fn run_until(&mut self, time: Time) {
        while self.next_at <= time {
            let Some((id, from)) = self.waiting.pop_front() else { break };
            self.arrived.push_back(Delivered { id, to: 1 - from, time: self.next_at, is_marked: false });
            self.released.push_back((u32::try_from(from).unwrap(), 1));
            self.next_at += Span::from_ms(1);
        }
        self.now = time;
    }
    fn inject(&mut self, from: usize, _: &[u8]) -> Result<PacketId, NotSent> {
        if self.waiting.is_empty() {
            self.next_at = self.next_at.max(self.now + Span::from_ms(1));
        }
        self.numbers += 1;
        self.waiting.push_back((PacketId(self.numbers), from));
        self.most = self.most.max(self.waiting.len());
        Ok(PacketId(self.numbers))
    }
    fn take_egress(&mut self, give: &mut dyn FnMut(Delivered)) -> bool {
        self.arrived.pop_front().map(give).is_some()
    }
    fn holding(&self) -> Option<u32> {
        self.waiting.back().map(|&(_, from)| u32::try_from(from).unwrap())
    }
    fn take_released(&mut self) -> Option<(u32, u32)> {
        self.released.pop_front()
    }
    fn tcp_data(&mut self, bytes: &[u8]) -> Option<TcpData> {
        (bytes[0] == 7).then_some(TcpData { connection: 1 })
    }
    fn inside(&self) -> u32 {
        u32::try_from(self.waiting.len()).unwrap()
    }
    fn write_mark(_: &Delivered, _: &mut [u8]) {}
}

#[test]
fn behind_a_gate_others_do_not_wait_for_what_small_queues_would_hold_back() {
    let data = |number| {
        let mut bytes = packet(number, 1500);
        bytes[0] = 7;
        bytes
    };
    // How long the radio's queue is when a ping comes behind 400 packets, and what has arrived at
    // the end.
    let ping_waits = |has_gate: bool| {
        let mut driver = Driver::new(Radio::default(), Hosts::default());
        if has_gate {
            driver.gate(0);
        }
        let (clock, mut watch) = (Manual(Cell::new(0)), Watch::new(2));
        let mut go_on = |driver: &mut Driver<Radio, Hosts>, ms: u64| {
            for _ in 0..10 * ms {
                clock.0.set(clock.0.get() + 100_000);
                driver.turn(&clock, &mut watch, &mut Seen::default());
            }
        };
        driver.ports.sends[0].extend((0..80).map(data));
        driver.wake(0);
        go_on(&mut driver, 70);
        driver.ports.sends[0].extend((80..400).map(data));
        driver.ports.sends[0].push_back(packet(400, 84));
        driver.wake(0);
        // 64 packets are read in a turn.
        go_on(&mut driver, 1);
        let waiting = driver.network.waiting.len();
        go_on(&mut driver, 500);
        let numbers = driver.ports.received[1].iter().map(|p| u32::from_be_bytes(p[4..8].try_into().unwrap()));
        let data: Vec<u32> = numbers.filter(|&number| number < 400).collect();
        assert_eq!(data, (0..400).collect::<Vec<_>>(), "each once, in order");
        assert_eq!(driver.ports.received[1].len(), 401);
        (waiting, driver.gate_report(0))
    };
    let (waiting, report) = ping_waits(false);
    assert!(waiting > 300 && report.is_none(), "{waiting}");
    // 1500 bytes a millisecond: 1.2 * 1.5 MB/s / 128 are ten packets, and the ping.
    let (waiting, report) = ping_waits(true);
    assert!((9..=11).contains(&waiting), "{waiting}");
    let report = report.unwrap();
    assert!(report.waited >= 300 && report.dropped == 0, "{report:?}");
}
