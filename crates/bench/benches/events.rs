//! The two structures that order events, each against its rivals, in the hold model: take the
//! earliest, put it back some delay later. `cargo bench -p airtcp-bench --bench events`.
//!
//! - One deadline per component: the tree of `timeline` against a 4-ary heap and a radix heap.
//! - Packets in flight: `packets_in_flight`, by its FIFOs and by its calendar alone, against a
//!   4-ary heap.
//!
//! Medians on a shared two-core virtual machine (AMD EPYC, family 26), ns per step:
//!
//! | deadlines | 35 | 1 000 | 10 000 | 40 000 | in flight | 1 500 | 30 000 | 500 000 |
//! |---|---|---|---|---|---|---|---|---|
//! | winner tree | 28 | 46 | 62 | 71 | FIFOs | 12 | 11 | 17 |
//! | 4-ary heap | 27 | 63 | 85 | 99 | calendar | 14 | 15 | 34 |
//! | radix heap | 43 | 32 | 31 | 33 | 4-ary heap | 63 | 93 | 80 |
//!
//! The first row is of a winner tree, which `timeline` was before it had groups of eight times.
//!
//! The radix heap wins from some hundred components on, but it does not order ties by component and
//! keeps moved deadlines as dead entries. With lazy timers a world touches its deadlines so rarely
//! (3 % of the time with 100 flows) that order wins.

#![allow(clippy::cast_lossless, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of numbers that are known to fit
#![allow(clippy::disallowed_methods)] // the platform's logarithms are good enough to compare with

use airtcp_core::packet::PacketId;
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::units::{Span, Time};
use airtcp_sim::engine::packets_in_flight::{DelayFifo, InFlight, PacketsInFlight};
use airtcp_sim::engine::timeline::{Component, Timeline};
use airtcp_sim::path::{Next, Place};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use rand::RngExt;

fn main() {
    divan::main();
}

const STEPS: usize = 100_000;
const COMPONENTS: [usize; 4] = [35, 1_000, 10_000, 40_000];

/// Deadlines from microseconds (pacing) to a second (timeouts), evenly on a logarithmic scale.
fn delays() -> Vec<u64> {
    let mut rng = stream(1, 0, Purpose::Pacing);
    (0..8192).map(|_| 10f64.powf(rng.random_range(4.0..9.0)) as u64).collect()
}

/// Least element first; four children per node, which halves the depth of a binary heap.
#[derive(Default)]
struct FourAryHeap<T> {
    items: Vec<T>,
}

impl<T: Copy + PartialOrd> FourAryHeap<T> {
    fn push(&mut self, item: T) {
        let mut at = self.items.len();
        self.items.push(item);
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.items[parent] <= item {
                break;
            }
            self.items[at] = self.items[parent];
            at = parent;
        }
        self.items[at] = item;
    }
    fn pop(&mut self) -> Option<T> {
        let top = *self.items.first()?;
        let item = self.items.pop()?;
        let n = self.items.len();
        if n == 0 {
            return Some(top);
        }
        let mut at = 0;
        loop {
            let first = 4 * at + 1;
            if first >= n {
                break;
            }
            let mut least = first;
            for child in first + 1..(first + 4).min(n) {
                if self.items[child] < self.items[least] {
                    least = child;
                }
            }
            if item <= self.items[least] {
                break;
            }
            self.items[at] = self.items[least];
            at = least;
        }
        self.items[at] = item;
        Some(top)
    }
}

/// Monotone: nothing earlier than the last taken out may be put in. Bucket i holds what differs
/// from it first in bit i - 1.
struct RadixHeap {
    buckets: Vec<Vec<(u64, u32)>>,
    last: u64,
}

impl RadixHeap {
    fn new() -> RadixHeap {
        RadixHeap { buckets: vec![Vec::new(); 65], last: 0 }
    }
    fn push(&mut self, time: u64, id: u32) {
        self.buckets[(64 - (time ^ self.last).leading_zeros()) as usize].push((time, id));
    }
    fn pop(&mut self) -> Option<(u64, u32)> {
        if self.buckets[0].is_empty() {
            let full = self.buckets.iter().position(|b| !b.is_empty())?;
            let moved = std::mem::take(&mut self.buckets[full]);
            self.last = moved.iter().map(|e| e.0).min()?;
            for &(time, id) in &moved {
                self.push(time, id);
            }
            self.buckets[full] = moved;
            self.buckets[full].clear();
        }
        self.buckets[0].pop()
    }
}

#[divan::bench_group(sample_count = 20)]
mod deadlines {
    use super::*;

    #[divan::bench(args = COMPONENTS)]
    fn winner_tree(bencher: Bencher, n: usize) {
        let delays = delays();
        let mut tree = Timeline::new(n, 0..0);
        (0..n).for_each(|i| tree.set(Component(i as u32), Time::from_ns(delays[i % delays.len()])));
        bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
            for i in 0..STEPS {
                let (now, id) = tree.next();
                tree.set(id, now + Span::from_ns(delays[i % delays.len()]));
            }
            black_box(tree.next())
        });
    }

    #[divan::bench(args = COMPONENTS)]
    fn four_ary_heap(bencher: Bencher, n: usize) {
        let delays = delays();
        let mut heap = FourAryHeap::default();
        (0..n).for_each(|i| heap.push((delays[i % delays.len()], i as u32)));
        bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
            for i in 0..STEPS {
                let (now, id) = heap.pop().unwrap();
                heap.push((now + delays[i % delays.len()], id));
            }
            black_box(heap.items.len())
        });
    }

    #[divan::bench(args = COMPONENTS)]
    fn radix_heap(bencher: Bencher, n: usize) {
        let delays = delays();
        let mut heap = RadixHeap::new();
        (0..n).for_each(|i| heap.push(delays[i % delays.len()], i as u32));
        bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
            for i in 0..STEPS {
                let (now, id) = heap.pop().unwrap();
                heap.push(now + delays[i % delays.len()], id);
            }
            black_box(heap.last)
        });
    }
}

const IN_FLIGHT: [usize; 3] = [1_500, 30_000, 500_000];

/// A dumbbell's delays: access, bottleneck with its queue, access, and the way back.
fn hop(i: usize) -> (u64, usize) {
    match i % 4 {
        0 | 2 => (5_000_000, 0),
        1 => (100_000_000, 1),
        _ => (90_000_000, 2),
    }
}

#[divan::bench_group(sample_count = 20)]
mod in_flight {
    use super::*;

    fn in_flight(bencher: Bencher, n: usize, with_fifos: bool) {
        let mut in_flight = PacketsInFlight::new(3);
        let insert = |in_flight: &mut PacketsInFlight, now: Time, i: usize| {
            let (delay, fifo) = hop(i);
            let entry = InFlight {
                time: now + Span::from_ns(delay),
                packet: PacketId(i as u32),
                next: Next::reaches(Place::new(i as u32)),
                size: 1500,
                depth: 0,
                flight_ns: 0,
            };
            in_flight.insert(entry, if with_fifos { DelayFifo::new(fifo) } else { DelayFifo::NONE });
        };
        // Evenly spaced in time, as behind a busy line.
        let gap = 100_000_000 / n as u64;
        (0..n).for_each(|i| {
            let (time, next) = (Time::from_ns(i as u64 * gap), Next::reaches(Place::new(i as u32)));
            let entry = InFlight { time, packet: PacketId(i as u32), next, size: 1500, depth: 0, flight_ns: 0 };
            in_flight.insert(entry, DelayFifo::NONE);
        });
        bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
            for _ in 0..STEPS {
                let entry = in_flight.pop();
                insert(&mut in_flight, entry.time, entry.next.place().index() + 1);
            }
            black_box(in_flight.head_time())
        });
    }

    #[divan::bench(args = IN_FLIGHT)]
    fn fifos(bencher: Bencher, n: usize) {
        in_flight(bencher, n, true);
    }

    #[divan::bench(args = IN_FLIGHT)]
    fn calendar(bencher: Bencher, n: usize) {
        in_flight(bencher, n, false);
    }

    #[divan::bench(args = IN_FLIGHT)]
    fn four_ary_heap(bencher: Bencher, n: usize) {
        let mut heap = FourAryHeap::default();
        let gap = 100_000_000 / n as u64;
        // (time, order, packet, place): as large as an entry of `packets_in_flight`.
        (0..n).for_each(|i| heap.push((i as u64 * gap, i as u64, i as u32, i as u32)));
        let mut order = n as u64;
        bencher.counter(ItemsCount::new(STEPS)).bench_local(|| {
            for _ in 0..STEPS {
                let (now, _, packet, place) = heap.pop().unwrap();
                order += 1;
                heap.push((now + hop(place as usize + 1).0, order, packet, place + 1));
            }
            black_box(heap.items.len())
        });
    }
}
