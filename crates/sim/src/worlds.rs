//! One world on several cores: its partitions, each a [`World`] of its own, in lockstep.
//!
//! **Shared state.** Everything that a [`World`] holds belongs to a link, a channel or a host, and
//! each of these to one partition ([`PartitionPlan`]). So do random streams, which belong to
//! components. Only packets go from one partition to another, and only over lines with delay. A
//! partition is built from the whole specification, so every number (of a link, a flow, a place, a
//! component) and every stream is that of the whole. It never touches links and hosts that it does
//! not have.
//!
//! **In step.** [`Lockstep`] says how far all run before they exchange packets. A packet changes
//! over at the far end of a line: it leaves the pool of one partition, waits for the end of the
//! step, and enters the other's, in flight with its time.
//!
//! **To the bit.** [`PacketsInFlight`](crate::engine::packets_in_flight::PacketsInFlight) orders
//! packets by time, flight and place, whenever they were put in flight, and no two are equal.
//! Deadlines are ordered by time and component. So a partition processes its events in the order in
//! which the whole would, with the same states. Events of the same instant in two partitions do not
//! meet: no line between them is without delay. Numbers of packets differ; nothing but the pool
//! reads them. Rows of single events are put in the whole's order afterwards
//! ([`crate::books::record::Order`]), samples in that of what is sampled. Links are fused as in the
//! whole, but for pairs of which a partition has only one, or only one end: those have an arrival
//! more, which is not counted. At the end [`World::join`] makes one world of all partitions, and
//! [`World::finish`] is that of the whole.
//!
//! **Runs that stay whole.** Runs with captures, records of PPDUs, hosts that walk or roam,
//! cooperative daemons, real programs, or without an end. A flow whose ends share more than packets
//! (transfers one after the other, calls, recorded retransmissions) stays in one partition with its
//! whole path.

use std::num::NonZeroUsize;
use std::sync::Arc;

use airtcp_core::units::{Span, Time};

use crate::capture::CaptureSink;
use crate::engine::partitions::Lockstep;
use crate::error::BuildError;
use crate::network::borders::Borders;
use crate::network::partition_plan::{Elements, PartitionPlan};
use crate::network::route::Routes;
use crate::spec::RunSpec;
use crate::world::{Finding, Outgrown, RunOutput, World};

pub use crate::engine::partitions::Steps;

/// Threads that one run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Threads {
    /// One for each core, where that pays; otherwise one.
    #[default]
    Auto,
    /// So many, or as many as the network has partitions.
    Most(NonZeroUsize),
}

/// Least share of a run that a second partition must take from the first.
const LEAST_GAIN: f64 = 0.2;
/// Shortest lookahead that pays: below it partitions wait for each other longer than they run.
const SHORTEST: Span = Span::from_us(50);
/// A run with fewer flows times seconds is over before a second world is built.
const LEAST_WORK: u128 = 100;

/// A run: one world, or the partitions of one in lockstep. Results are the same to the bit.
pub struct Worlds {
    parts: Vec<World>,
    lockstep: Lockstep,
    /// True if each partition runs on a thread of its own.
    is_threaded: bool,
}

impl Worlds {
    /// At the beginning of the run.
    pub fn build(spec: &Arc<RunSpec>, threads: Threads) -> Result<Worlds, BuildError> {
        let wanted = match threads {
            Threads::Auto if !is_worth_it(spec) => 1,
            Threads::Auto => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            Threads::Most(threads) => threads.get(),
        };
        let one = |parts| Ok(Worlds { parts, lockstep: Lockstep::default(), is_threaded: false });
        if wanted < 2 {
            return one(vec![World::build_shared(spec)?]);
        }
        let routes = Routes::checked(spec)?;
        let pays = |plan: &PartitionPlan| plan.greatest_share <= 1.0 - LEAST_GAIN && plan.lookahead >= SHORTEST;
        let plan = Elements::new(spec, &routes)
            .and_then(|mut elements| PartitionPlan::new(spec, &routes, &mut elements, wanted))
            .filter(|plan| threads != Threads::Auto || pays(plan));
        let Some(plan) = plan.map(Arc::new) else {
            return one(vec![World::build_shared(spec)?]);
        };
        let build = |number| World::assemble(spec, routes.clone(), Some(Borders::new(&plan, number)));
        let parts: Result<Vec<World>, BuildError> = (0..).take(plan.parts).map(build).collect();
        let lockstep = Lockstep::new(plan.lookahead, plan.behind.clone());
        Ok(Worlds { parts: parts?, lockstep, is_threaded: true })
    }

    /// Number of partitions that the network is divided into.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }
    /// Gives each partition a thread of its own from now on, or lets one thread run all in turn. A
    /// driver with a clock knows which is faster where other programs want the cores as well.
    /// Results do not depend on it.
    pub fn set_threaded(&mut self, is_threaded: bool) {
        self.is_threaded = is_threaded;
    }
    /// Balance of partitions so far.
    pub fn steps(&self) -> Steps {
        self.lockstep.steps
    }
    /// The virtual time.
    pub fn now(&self) -> Time {
        self.parts[0].now()
    }
    /// See [`World::end`].
    pub fn end(&self) -> Time {
        self.parts[0].end()
    }
    /// See [`World::audit`]. Partitions are not audited.
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

    /// See [`World::run_until`]. Several partitions have nothing for the sink.
    pub fn run_until(&mut self, time: Time, sink: &mut dyn CaptureSink) {
        if let [world] = &mut self.parts[..] {
            return world.run_until(time, sink);
        }
        let time = time.min(Time::NEVER - Span::from_ns(1));
        let stops = self.parts[0].stops(time);
        if self.is_threaded {
            self.lockstep.advance_threaded(&mut self.parts, &stops);
        } else {
            self.lockstep.advance_in_turn(&mut self.parts, &stops);
        }
    }
}

/// True if a second thread can pay at all.
fn is_worth_it(spec: &RunSpec) -> bool {
    spec.flows.len() as u128 * u128::from(spec.duration.as_ns()) >= LEAST_WORK * 1_000_000_000
}
