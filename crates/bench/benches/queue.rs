//! Cost of one arrival and one departure in each queue discipline, by state of the queue.
//!
//! `cargo bench -p airtcp-bench --bench queue`. An item is one pair of `enqueue` and `dequeue`.

#![allow(clippy::cast_lossless, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of numbers that are known to fit

use airtcp_core::packet::{FlowId, Kind, Packet, Pool};
use airtcp_core::queue::{AnyQueue, Drops, Hosts, QueueConfig, QueueContext};
use airtcp_core::rng::{Purpose, Stream};
use airtcp_core::units::{DataRate, Span, Time};
use divan::counter::ItemsCount;

fn main() {
    divan::main();
}

const PAIRS: u32 = 1000;

/// A line of 10 Gbit/s, its queue and packets of 1500 bytes from `flows` flows in turn.
struct Line {
    queue: AnyQueue,
    pool: Pool,
    drops: Drops,
    now: Time,
    flows: u32,
    next_flow: u32,
}

impl Line {
    fn new(name: &str, flows: u32, waiting: usize) -> Line {
        let config = QueueConfig::by_name(name).unwrap();
        let ctx = QueueContext {
            rate: DataRate::from_mbps(10_000),
            mtu: 1500,
            stream: Stream::new(1, 0, Purpose::Queue),
            hosts: Hosts::default(),
        };
        let mut line = Line {
            queue: config.build(&ctx),
            pool: Pool::default(),
            drops: Drops::default(),
            now: Time::ZERO,
            flows,
            next_flow: 0,
        };
        for _ in 0..waiting {
            line.arrive();
        }
        line
    }

    fn arrive(&mut self) {
        let mut packet = Packet::new(FlowId(self.next_flow), Kind::Tcp, 0);
        packet.size = 1500;
        self.next_flow = (self.next_flow + 1) % self.flows;
        let id = self.pool.insert(packet);
        self.queue.enqueue(self.now, id, &mut self.pool, &mut self.drops);
        self.settle();
    }

    fn leave(&mut self) {
        if let Some(id) = self.queue.dequeue(self.now, &mut self.pool, &mut self.drops) {
            self.pool.remove(id);
        }
        self.settle();
    }

    fn settle(&mut self) {
        for (id, _) in self.drops.dropped.drain(..) {
            self.pool.remove(id);
        }
        self.drops.marked.clear();
    }

    /// `PAIRS` times `arrivals` packets come and one leaves.
    fn run(&mut self, arrivals: u32) {
        for _ in 0..PAIRS {
            self.now += Span::from_ns(1200);
            if self.queue.deadline() <= self.now {
                self.queue.on_deadline(self.now);
            }
            for _ in 0..arrivals {
                self.arrive();
            }
            self.leave();
        }
    }
}

/// A standing queue of a few packets, 64 flows: nothing is dropped.
#[divan::bench(args = QueueConfig::NAMES)]
fn steady(bencher: divan::Bencher, name: &str) {
    let mut line = Line::new(name, 64, 4);
    bencher.counter(ItemsCount::new(PAIRS)).bench_local(|| line.run(1));
}

/// As `steady`, 10 000 flows.
#[divan::bench(args = QueueConfig::NAMES)]
fn steady_10_000_flows(bencher: divan::Bencher, name: &str) {
    let mut line = Line::new(name, 10_000, 4);
    bencher.counter(ItemsCount::new(PAIRS)).bench_local(|| line.run(1));
}

/// Two arrivals per departure: the discipline drops half of them, whichever way it does that. The
/// unbounded FIFO grows.
#[divan::bench(args = QueueConfig::NAMES)]
fn overload(bencher: divan::Bencher, name: &str) {
    let mut line = Line::new(name, 64, 4);
    bencher.counter(ItemsCount::new(PAIRS)).bench_local(|| line.run(2));
}
