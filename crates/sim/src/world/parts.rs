//! One world on several cores: its parts, each a [`World`] of its own, in step.
//!
//! **What is shared.** Everything that a [`World`] holds belongs to a link, a channel or a host, and each of these to one part ([`Plan`]). So do
//! random streams, which belong to components. Only packets go from part to part, and only over lines with delay. A part is built from
//! the whole specification, so every number (of a link, a flow, a place, a component) and every stream is that of the whole. What it does
//! not have it never touches.
//!
//! **In step.** Let the earliest event of all parts be due at `t`, and let every packet take `w` or longer from part to part. What parts do in
//! `[t, t + w)` reaches others at `t + w` or later. So all run to `t + w`, each by itself; then they exchange packets, and begin again.
//! Some parts are ahead of others where delays differ by direction ([`super::plan`] says how far). A packet changes over at the far
//! end of a line: it leaves the pool of one part, waits for the end of the step, and enters the other's, in flight with its time.
//!
//! **To the bit.** [`PacketsInFlight`](crate::engine::packets_in_flight::PacketsInFlight) orders packets by time, flight and place, whenever they were put in flight, and no two are equal. Deadlines are ordered
//! by time and component. So what a part has it does in the order in which the whole would, with the same states. What parts do in the same instant
//! does not meet: no line between them is without delay. Numbers of packets differ; nothing but the pool reads them.
//! Rows of single events are put in the whole's order afterwards ([`crate::books::record::Order`]), samples in that of what is sampled. Links are fused as in the whole, but
//! for pairs of which a part has only one, or only one end: those have an arrival more, which is not counted. At the end [`World::join`] makes one world of all parts, and [`World::finish`] is that of the whole.
//!
//! **What stays whole.** Runs with captures, records of PPDUs, hosts that walk or roam, cooperative daemons, real programs, or without an
//! end. A flow whose ends share more than packets (transfers one after the other, calls, recorded retransmissions) stays in one part with its whole path.

use std::hint::spin_loop;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use airtcp_core::packet::{Packet, PacketId};
use airtcp_core::units::{Span, Time};

use super::plan::{Network, Plan};
use super::{Finding, Outgrown, RunOutput, World};
use crate::capture::{CaptureSink, NoCapture};
use crate::engine::packets_in_flight::{DelayFifo, InFlight};
use crate::error::BuildError;
use crate::link::flight_ns;
use crate::path::{Next, Place};
use crate::spec::{LinkId, NodeId, RunSpec};

/// Threads that one run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// One for each core, where that pays; otherwise one.
    #[default]
    Auto,
    /// So many, or as many as the network has parts.
    Most(NonZeroUsize),
}

/// Least share of a run that a second part must take from the first.
const LEAST_GAIN: f64 = 0.2;
/// Shortest window that pays: below it parts wait for each other longer than they run.
const SHORTEST: Span = Span::from_us(50);
/// A run with fewer flows times seconds is over before a second world is built.
const LEAST_WORK: u128 = 100;

/// A run: one world, or the parts of one in step. Results are the same to the bit.
pub struct Worlds {
    parts: Vec<World>,
    pace: Pace,
    /// Each part on a thread of its own.
    is_threaded: bool,
    steps: Steps,
}

/// How evenly parts have worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Steps {
    /// Steps so far.
    pub count: u64,
    /// Events in them.
    pub events: u64,
    /// Of each step those of the part that had most, summed: what any number of cores has to do one after the other.
    pub longest: u64,
}

impl Steps {
    /// By part: its events in a step.
    fn add(&mut self, parts: impl Iterator<Item = u64>) {
        let (sum, most) = parts.fold((0, 0), |(sum, most), events| (sum + events, events.max(most)));
        self.count += 1;
        self.events += sum;
        self.longest += most;
    }
}

/// How parts go on.
#[derive(Default)]
struct Pace {
    window: Span,
    /// By part: how far it is behind the one that is farthest ahead.
    behind: Vec<Span>,
}

impl Pace {
    /// The end of the next step, of the part that is farthest ahead. `next`: by part, its next event. `None`: nothing is due before `before`.
    fn limit(&self, next: impl Iterator<Item = Time>, before: Time) -> Option<Time> {
        let due = next.zip(&self.behind).filter(|(next, _)| *next < before).map(|(next, &behind)| next + behind);
        Some(due.min()? + self.window)
    }
    /// That of another part.
    fn of(&self, part: usize, limit: Time) -> Time {
        Time::from_ns(limit.as_ns().saturating_sub(self.behind[part].as_ns()))
    }
}

/// A packet on its way to another part.
pub(super) struct Sent {
    entry: InFlight,
    fifo: DelayFifo,
    packet: Packet,
}

/// What a world knows as a part of another.
pub(super) struct Part {
    home: Home,
    /// What leaves, by part.
    out: Vec<Vec<Sent>>,
}

/// Which part it is of which plan.
#[derive(Clone)]
pub(super) struct Home {
    plan: Arc<Plan>,
    number: u16,
}

impl Home {
    /// A host.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.plan.of_node[node.index()] == self.number
    }
    pub(super) fn has_link(&self, link: LinkId) -> bool {
        self.plan.of_link[link.index()] == self.number
    }
}

impl Part {
    fn new(plan: &Arc<Plan>, number: u16) -> Box<Part> {
        let out = (0..plan.parts).map(|_| Vec::new()).collect();
        let home = Home { plan: Arc::clone(plan), number };
        Box::new(Part { home, out })
    }
    pub(super) fn home(&self) -> Home {
        self.home.clone()
    }
    pub(super) fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.home.plan)
    }
}

impl World {
    /// As [`World::put_in_flight`], of a packet that another part has next.
    #[inline(never)]
    pub(super) fn put_across(
        &mut self,
        from: Time,
        time: Time,
        packet: PacketId,
        place: Place,
        size: u16,
        fifo: DelayFifo,
    ) {
        let hop = self.hops[place.index()];
        let (entry, fifo) = if hop.is_fused() {
            self.links.pass(time, hop.link(), packet, place.next(), size)
        } else {
            let flight_ns = flight_ns(from, time);
            (InFlight { time, packet, next: Next::reaches(place), size, depth: 0, flight_ns }, fifo)
        };
        self.send_across(entry, fifo);
    }

    /// A packet reaches a place that another part has.
    pub(super) fn send_across(&mut self, entry: InFlight, fifo: DelayFifo) {
        let packet = self.pool.remove(entry.packet);
        let part = self.part.as_mut().expect("only what is divided has borders");
        let to = part.home.plan.of_place[entry.next.place().index()];
        part.out[usize::from(to)].push(Sent { entry, fifo, packet });
    }

    fn take_in(&mut self, sent: &mut Vec<Sent>) {
        for Sent { entry, fifo, packet } in sent.drain(..) {
            let entry = InFlight { packet: self.pool.insert(packet), ..entry };
            self.cx.engine.in_flight.insert(entry, fifo);
        }
    }

    fn out(&mut self) -> &mut [Vec<Sent>] {
        self.part.as_mut().map_or(&mut [], |part| &mut part.out)
    }
}

impl Worlds {
    /// At the beginning of the run.
    pub fn build(spec: &Arc<RunSpec>, threads: Threads) -> Result<Worlds, BuildError> {
        let wanted = match threads {
            Threads::Auto if !is_worth_it(spec) => 1,
            Threads::Auto => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            Threads::Most(threads) => threads.get(),
        };
        let one = |parts| Ok(Worlds { parts, pace: Pace::default(), is_threaded: false, steps: Steps::default() });
        if wanted < 2 {
            return one(vec![World::build_shared(spec)?]);
        }
        let routes = World::paths(spec)?;
        let pays = |plan: &Plan| plan.greatest_share <= 1.0 - LEAST_GAIN && plan.window >= SHORTEST;
        let plan = Network::new(spec, &routes)
            .and_then(|mut network| Plan::new(spec, &routes, &mut network, wanted))
            .filter(|plan| threads != Threads::Auto || pays(plan));
        let Some(plan) = plan.map(Arc::new) else {
            return one(vec![World::build_shared(spec)?]);
        };
        let build = |number| World::assemble(spec, routes.clone(), Some(Part::new(&plan, number)));
        let parts: Result<Vec<World>, BuildError> = (0..).take(plan.parts).map(build).collect();
        let pace = Pace { window: plan.window, behind: plan.behind.clone() };
        Ok(Worlds { parts: parts?, pace, is_threaded: true, steps: Steps::default() })
    }

    /// Into how many parts the network is divided.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }
    /// Whether each part has a thread of its own from now on, or one thread runs all in turn: a driver with a clock knows which is faster
    /// where other programs want the cores as well. Results do not depend on it.
    pub fn set_threaded(&mut self, is_threaded: bool) {
        self.is_threaded = is_threaded;
    }
    /// How evenly parts have worked so far.
    pub fn steps(&self) -> Steps {
        self.steps
    }
    /// The virtual time.
    pub fn now(&self) -> Time {
        self.parts[0].now()
    }
    /// See [`World::end`].
    pub fn end(&self) -> Time {
        self.parts[0].end()
    }
    /// See [`World::audit`]. Parts are not audited.
    pub fn audit(&mut self) {
        if let [world] = &mut self.parts[..] {
            world.audit();
        }
    }
    /// See [`World::finding`].
    pub fn finding(&self) -> Option<&Finding> {
        self.parts[0].finding()
    }
    /// See [`World::outgrown`].
    pub fn outgrown(&self) -> Option<Outgrown> {
        World::outgrown_together(&self.parts)
    }
    /// See [`World::finish`].
    pub fn finish(self) -> RunOutput {
        World::join(self.parts).finish()
    }

    /// To the end of the run.
    pub fn run(&mut self, sink: &mut dyn CaptureSink) {
        self.run_until(self.end(), sink);
    }

    /// See [`World::run_until`]. Several parts have nothing for the sink.
    pub fn run_until(&mut self, time: Time, sink: &mut dyn CaptureSink) {
        if let [world] = &mut self.parts[..] {
            return world.run_until(time, sink);
        }
        let time = time.min(Time::NEVER - Span::from_ns(1));
        if self.is_threaded {
            self.advance_threaded(time);
        } else {
            self.advance_in_turn(time);
        }
    }

    fn advance_in_turn(&mut self, time: Time) {
        let stops = self.parts[0].stops(time);
        for stop in stops {
            loop {
                for from in 0..self.parts.len() {
                    for to in 0..self.parts.len() {
                        let mut sent = std::mem::take(&mut self.parts[from].out()[to]);
                        self.parts[to].take_in(&mut sent);
                        self.parts[from].out()[to] = sent;
                    }
                }
                let next = self.parts.iter().map(World::deadline);
                let Some(limit) = self.pace.limit(next, stop.before) else { break };
                let pace = &self.pace;
                let run =
                    |(number, part): (usize, &mut World)| part.run_counted(pace.of(number, limit).min(stop.before));
                self.steps.add(self.parts.iter_mut().enumerate().map(run));
            }
            self.parts.iter_mut().for_each(|part| part.arrive(&stop));
        }
    }

    fn advance_threaded(&mut self, time: Time) {
        let stops = self.parts[0].stops(time);
        let shared = Shared::new(self.parts.len(), &self.pace);
        let steps = std::thread::scope(|scope| {
            let (shared, stops) = (&shared, &stops);
            let mut parts = self.parts.iter_mut().enumerate();
            let first = parts.next();
            let spawn = |(number, part)| scope.spawn(move || shared.advance(number, part, stops));
            let others: Vec<_> = parts.map(spawn).collect();
            let first = first.map(|(number, part)| shared.advance(number, part, stops));
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            first.into_iter().chain(others).collect::<Vec<_>>()
        });
        for step in 0..steps[0].len() {
            self.steps.add(steps.iter().map(|of_part| of_part[step]));
        }
    }
}

/// Whether a second thread can pay at all.
fn is_worth_it(spec: &RunSpec) -> bool {
    spec.flows.len() as u128 * u128::from(spec.duration.as_ns()) >= LEAST_WORK * 1_000_000_000
}

/// Where all parts stop.
struct Stop {
    /// Of what is due before it, all has been done.
    before: Time,
    /// The time then.
    now: Time,
    is_warmup: bool,
}

impl World {
    /// On the way to `time`.
    fn stops(&self, time: Time) -> Vec<Stop> {
        let warmup = Time::ZERO + self.spec.warmup;
        let mut stops = Vec::new();
        if self.cx.books.awaits_warmup(&self.spec, time) {
            stops.push(Stop { before: warmup, now: warmup, is_warmup: true });
        }
        stops.push(Stop { before: time + Span::from_ns(1), now: time, is_warmup: false });
        stops
    }

    /// Returns the events there were.
    fn run_counted(&mut self, limit: Time) -> u64 {
        let before = self.cx.engine.events;
        self.run_before(limit, &mut NoCapture);
        self.cx.engine.events - before
    }

    fn arrive(&mut self, stop: &Stop) {
        self.cx.engine.now = self.cx.engine.now.max(stop.now);
        if stop.is_warmup {
            self.begin_summary();
        }
    }
}

/// What threads have in common.
struct Shared<'a> {
    count: usize,
    pace: &'a Pace,
    /// By sender, then by recipient.
    boxes: Vec<Mutex<Vec<Sent>>>,
    /// By part: its next event.
    next: Vec<AtomicU64>,
    barrier: Barrier,
}

impl Shared<'_> {
    fn new(count: usize, pace: &Pace) -> Shared<'_> {
        Shared {
            count,
            pace,
            boxes: (0..count * count).map(|_| Mutex::default()).collect(),
            next: (0..count).map(|_| AtomicU64::new(0)).collect(),
            barrier: Barrier { count, ..Barrier::default() },
        }
    }

    fn exchange(&self, from: usize, to: usize, sent: &mut Vec<Sent>) {
        let mut own = self.boxes[from * self.count + to].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *own, sent);
    }

    /// One part, in step with the others. Returns its events in each step.
    fn advance(&self, number: usize, part: &mut World, stops: &[Stop]) -> Vec<u64> {
        let _guard = Guard(&self.barrier);
        let mut steps = Vec::new();
        let mut sent = Vec::new();
        // What the last call has left.
        self.hand_out(number, part);
        self.barrier.wait();
        for stop in stops {
            loop {
                for from in 0..self.count {
                    self.exchange(from, number, &mut sent);
                    part.take_in(&mut sent);
                }
                self.next[number].store(part.deadline().as_ns(), Ordering::Release);
                self.barrier.wait();
                let next = self.next.iter().map(|next| Time::from_ns(next.load(Ordering::Acquire)));
                let Some(limit) = self.pace.limit(next, stop.before) else { break };
                steps.push(part.run_counted(self.pace.of(number, limit).min(stop.before)));
                self.hand_out(number, part);
                self.barrier.wait();
            }
            part.arrive(stop);
        }
        steps
    }

    fn hand_out(&self, number: usize, part: &mut World) {
        for (to, sent) in part.out().iter_mut().enumerate() {
            self.exchange(number, to, sent);
        }
    }
}

/// Where threads wait for each other: shortly, so they look again and again, and then leave the core to others in between.
#[derive(Default)]
struct Barrier {
    count: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
    /// A thread has panicked: no one will come any more.
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
            assert!(!self.is_broken.load(Ordering::Relaxed), "another part of the world has failed");
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
