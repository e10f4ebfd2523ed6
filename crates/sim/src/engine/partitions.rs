//! Partitions of a world in lockstep, in turn or each on a thread of its own.
//!
//! Let the earliest event of all partitions be due at `t`, and let every packet take the lookahead
//! `w` or longer from one to another. Events in `[t, t + w)` reach other partitions at `t + w` or
//! later. So all run to `t + w`, each by itself; then they exchange packets, and begin again. Some
//! partitions are ahead of others where delays differ by direction.

use std::hint::spin_loop;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use airtcp_core::units::{Span, Time};

/// A partition of a world.
pub(crate) trait Partition: Send {
    /// Something that changes over to another partition.
    type Parcel: Send;
    /// Time of its next event.
    fn next_event(&self) -> Time;
    /// Processes everything before `limit`. Returns the number of events.
    fn run_before(&mut self, limit: Time) -> u64;
    /// Parcels for others, by partition.
    fn outbox(&mut self) -> &mut [Vec<Self::Parcel>];
    /// Takes in parcels, and leaves the list empty.
    fn receive_parcels(&mut self, parcels: &mut Vec<Self::Parcel>);
    /// All partitions have come to a stop.
    fn arrive(&mut self, stop: &Stop);
}

/// Time at which all partitions stop.
pub(crate) struct Stop {
    /// Everything due before it is done.
    pub before: Time,
    /// The time then.
    pub now: Time,
    pub is_warmup: bool,
}

/// Balance of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    /// Steps so far.
    pub count: u64,
    /// Events in them.
    pub events: u64,
    /// Events of the partition that had most in a step, summed over steps: any number of cores has
    /// to do these one after the other.
    pub longest: u64,
}

impl Steps {
    /// Adds a step. `partitions`: the events of each.
    fn add(&mut self, partitions: impl Iterator<Item = u64>) {
        let (sum, most) = partitions.fold((0, 0), |(sum, most), events| (sum + events, events.max(most)));
        self.count += 1;
        self.events += sum;
        self.longest += most;
    }
}

/// Pace of partitions, and the steps that they have taken.
#[derive(Debug, Default)]
pub(crate) struct Lockstep {
    lookahead: Span,
    /// By partition: how far it is behind the one that is farthest ahead.
    behind: Vec<Span>,
    pub steps: Steps,
}

impl Lockstep {
    /// `behind`: by partition, how far it is behind the one that is farthest ahead.
    pub(crate) fn new(lookahead: Span, behind: Vec<Span>) -> Lockstep {
        Lockstep { lookahead, behind, steps: Steps::default() }
    }

    /// End of the next step, for the partition that is farthest ahead. `next`: by partition, its
    /// next event. `None`: nothing is due before `before`.
    fn limit(&self, next: impl Iterator<Item = Time>, before: Time) -> Option<Time> {
        let due = next.zip(&self.behind).filter(|(next, _)| *next < before).map(|(next, &behind)| next + behind);
        Some(due.min()? + self.lookahead)
    }

    /// End of the step for another partition.
    fn limit_of(&self, partition: usize, limit: Time) -> Time {
        Time::from_ns(limit.as_ns().saturating_sub(self.behind[partition].as_ns()))
    }

    /// Runs all to the stops on this thread, one after the other in each step.
    pub(crate) fn advance_in_turn<P: Partition>(&mut self, all: &mut [P], stops: &[Stop]) {
        for stop in stops {
            loop {
                for from in 0..all.len() {
                    for to in 0..all.len() {
                        let mut parcels = std::mem::take(&mut all[from].outbox()[to]);
                        all[to].receive_parcels(&mut parcels);
                        all[from].outbox()[to] = parcels;
                    }
                }
                let Some(limit) = self.limit(all.iter().map(P::next_event), stop.before) else { break };
                let ends = (0..all.len()).map(|number| self.limit_of(number, limit).min(stop.before));
                let events: Vec<u64> =
                    all.iter_mut().zip(ends).map(|(partition, end)| partition.run_before(end)).collect();
                self.steps.add(events.into_iter());
            }
            all.iter_mut().for_each(|partition| partition.arrive(stop));
        }
    }

    /// Runs all to the stops, each on a thread of its own.
    pub(crate) fn advance_threaded<P: Partition>(&mut self, all: &mut [P], stops: &[Stop]) {
        let shared = Shared::new(all.len(), self);
        let steps = std::thread::scope(|scope| {
            let shared = &shared;
            let mut all = all.iter_mut().enumerate();
            let first = all.next();
            let spawn = |(number, partition)| scope.spawn(move || shared.advance(number, partition, stops));
            let others: Vec<_> = all.map(spawn).collect();
            let first = first.map(|(number, partition)| shared.advance(number, partition, stops));
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            first.into_iter().chain(others).collect::<Vec<_>>()
        });
        for step in 0..steps[0].len() {
            self.steps.add(steps.iter().map(|of_partition| of_partition[step]));
        }
    }
}

/// State that threads share.
struct Shared<'a, T> {
    count: usize,
    pace: &'a Lockstep,
    /// By sender, then by recipient.
    boxes: Vec<Mutex<Vec<T>>>,
    /// By partition: its next event.
    next: Vec<AtomicU64>,
    barrier: Barrier,
}

impl<T> Shared<'_, T> {
    fn new(count: usize, pace: &Lockstep) -> Shared<'_, T> {
        Shared {
            count,
            pace,
            boxes: (0..count * count).map(|_| Mutex::new(Vec::new())).collect(),
            next: (0..count).map(|_| AtomicU64::new(0)).collect(),
            barrier: Barrier { count, ..Barrier::default() },
        }
    }

    fn exchange(&self, from: usize, to: usize, parcels: &mut Vec<T>) {
        let mut own = self.boxes[from * self.count + to].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *own, parcels);
    }

    /// Runs one partition, in step with the others. Returns its events in each step.
    fn advance<P: Partition<Parcel = T>>(&self, number: usize, partition: &mut P, stops: &[Stop]) -> Vec<u64> {
        let _guard = Guard(&self.barrier);
        let mut steps = Vec::new();
        let mut parcels = Vec::new();
        // The last call may have left some.
        self.post(number, partition);
        self.barrier.wait();
        for stop in stops {
            loop {
                for from in 0..self.count {
                    self.exchange(from, number, &mut parcels);
                    partition.receive_parcels(&mut parcels);
                }
                self.next[number].store(partition.next_event().as_ns(), Ordering::Release);
                self.barrier.wait();
                let next = self.next.iter().map(|next| Time::from_ns(next.load(Ordering::Acquire)));
                let Some(limit) = self.pace.limit(next, stop.before) else { break };
                steps.push(partition.run_before(self.pace.limit_of(number, limit).min(stop.before)));
                self.post(number, partition);
                self.barrier.wait();
            }
            partition.arrive(stop);
        }
        steps
    }

    fn post<P: Partition<Parcel = T>>(&self, number: usize, partition: &mut P) {
        for (to, parcels) in partition.outbox().iter_mut().enumerate() {
            self.exchange(number, to, parcels);
        }
    }
}

/// Meeting of threads. Waits are short, so they look again and again, and then leave the core to
/// others in between.
#[derive(Default)]
struct Barrier {
    count: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    /// True if a thread has panicked: it will not come any more.
    is_broken: AtomicBool,
}

const LOOKS: u32 = 2000;

impl Barrier {
    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.arrived.store(0, Ordering::Release);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut looks = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.is_broken.load(Ordering::Relaxed), "another partition of the world has failed");
            looks += 1;
            if looks < LOOKS {
                spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

struct Guard<'a>(&'a Barrier);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_broken.store(true, Ordering::Relaxed);
        }
    }
}
