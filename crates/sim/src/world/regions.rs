//! One world in turns: its regions, each with what is in flight and due there.
//!
//! A region is a cell with its hosts, a server, or a line that many share: what lies between lines with delay. What happens in it reaches others a delay
//! later, so each goes on by itself that far, then the next one. A processor then has to do with one cell for many packets,
//! and with one after the other; in the order of time it would come to another cell with every event, and in a large world find nothing
//! of it in its caches.
//!
//! All that is said of parts ([`super::parts`]) holds for regions, and so results are the same to the bit. But regions are of one world and have its memory
//! in common. Packets go from one to another as they are, and nothing is there twice but the two lists of what comes next.
//! Parts are made of regions, where there are both.
//!
//! **How far.** What is due first in all regions is due at `floor`. A region has done all before its `clock`; what it sends from now on reaches another no sooner
//! than a delay after the later of both. So a region may go on to the least of that over all from which it hears.
//!
//! **When.** Every turn costs the loading of a region's lists, so turns pay where they are long. A world begins in the order of time; once it has something to do, it
//! tries turns, and goes back as soon as these are short. Later it tries again, each time after four times as many events. To change over costs a look at each deadline and
//! each packet in flight: links stay fused as in the whole ([`crate::link`]), since a region has both links of a pair.

use std::sync::Arc;

use airtcp_core::convert::{count, low16};
use airtcp_core::packet::FlowId;
use airtcp_core::units::{Span, Time};

use super::World;
use super::components::Components;
use super::interfaces::Interfaces;
use super::plan::{Network, Plan, borders};
use super::processors::Processors;
use crate::capture::CaptureSink;
use crate::link::Links;
use crate::path::Hop;
use crate::record::Moment;
use crate::route::Routes;
use crate::spec::RunSpec;
use crate::timeline::{Component, Timeline};
use crate::wires::{InFlight, Lane, Wires};

/// Most regions of a world.
const MOST: usize = 4096;
/// Fewer cells than these fit into a processor's cache together.
const LEAST_CELLS: usize = 16;
/// The share of the work that is not divided further: that of a cell with about twenty flows.
const SMALL: u64 = 500;
/// Turns after which it is looked whether they are long enough, and for each region some.
const REVIEW_EVERY: u64 = 512;
const REVIEW_EVERY_ALL: u64 = 4;
/// Events of a turn on average, below which turns cost more than they save. With 100 cells, those of 5 events took 2.5 % longer than none, and those of 13
/// events 8 % less time.
const SHORTEST_TURN: u64 = 8;
/// Events before turns are tried. After a trial that failed, so many times as many pass as before it.
const FIRST_TRIAL: u64 = 10_000;
const LATER: u64 = 4;

/// Whether a world is divided into regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turns {
    /// Where it pays.
    #[default]
    Auto,
    /// Wherever it can be divided, for tests.
    Always,
    /// The same, and every other time in the order of time.
    Alternating,
    /// Never.
    Never,
}

/// Where a world is divided into regions.
pub(super) struct Division {
    /// How many there are.
    count: usize,
    /// By region: from which it hears, and how long that takes at least.
    hears: Vec<Vec<(u16, Span)>>,
    /// By region, where there are parts: its part.
    part: Vec<u16>,
    of_node: Vec<u16>,
    of_link: Vec<u16>,
    of_channel: Vec<u16>,
    pub of_place: Vec<u16>,
    turns: Turns,
}

impl Division {
    /// Whether it can pay, as far as is known before it is made.
    pub(super) fn may_pay(spec: &RunSpec, turns: Turns) -> bool {
        match turns {
            Turns::Auto => spec.channels.len() >= LEAST_CELLS,
            Turns::Always | Turns::Alternating => true,
            Turns::Never => false,
        }
    }

    /// `None`: it does not pay, or cannot be done.
    pub(super) fn new(spec: &RunSpec, routes: &Routes, plan: Option<&Plan>, turns: Turns) -> Option<Division> {
        if !Division::may_pay(spec, turns) {
            return None;
        }
        let small = if turns == Turns::Auto { SMALL } else { 0 };
        let mut fused = Links::fused_pairs(spec, &routes.hops);
        // A link at a border between parts is taken by itself.
        fused.retain(|(a, b)| plan.is_none_or(|plan| plan.of_link[a.index()] == plan.of_link[b.index()]));
        let mut network = Network::new(spec, routes, &fused)?;
        let of_part = network.parts(plan);
        let of_element = network.regions(small, &of_part, MOST)?;
        let count = usize::from(of_element.iter().copied().max()?) + 1;
        let mut part = vec![0; count];
        for (&region, &of_part) in of_element.iter().zip(&of_part) {
            part[usize::from(region)] = of_part;
        }
        let hears = network.hears(&of_element, count);
        let [of_node, of_link, of_place] = network.places(spec, routes, &of_element);
        let of_channel = network.channels(&of_element).to_vec();
        Some(Division { count, hears, part, of_node, of_link, of_channel, of_place, turns })
    }

    /// By component: its region. What all have in common has none.
    fn of_components(
        &self,
        spec: &RunSpec,
        components: &Components,
        (links, interfaces, processors): (&Links, &Interfaces, &Processors),
    ) -> Vec<Option<u16>> {
        let mut of = vec![None; components.count()];
        let mut set = |component: Component, region: u16| of[component.0 as usize] = Some(region);
        for (queue, queued) in (0..).map(crate::link::QueueId).zip(&links.queued) {
            set(components.queue(queue), self.of_link[queued.link.index()]);
        }
        for (channel, &region) in (0..).map(crate::spec::ChannelId).zip(&self.of_channel) {
            set(components.channel(channel), region);
        }
        for (flow, ends) in (0..).map(FlowId).zip(&spec.flows) {
            set(components.source(flow), self.of_node[ends.from.index()]);
            set(components.destination(flow), self.of_node[ends.to.index()]);
            for (node, at_source) in [(ends.from, true), (ends.to, false)] {
                let region = self.of_node[node.index()];
                if let Some(interface) = interfaces.of(flow.0, at_source) {
                    set(components.interface(interface), region);
                }
                if let Some(processor) = processors.of(flow.0, at_source) {
                    set(components.processor(processor), region);
                }
            }
        }
        of
    }
}

/// The regions that a world has.
pub(super) struct Regions {
    division: Arc<Division>,
    /// By region; those of other parts are empty.
    all: Vec<Region>,
    /// Which it has.
    own: Vec<u16>,
    /// Places that lead across their borders, and across none of a part.
    borders: Vec<usize>,
    /// They are served in turns at present.
    in_turns: bool,
    /// While they are, the timeline of the whole; otherwise an empty one.
    whole: Timeline,
    /// While they are not, by component: its number in its region.
    local: Vec<u32>,
    /// Turns taken so far; events and turns at the last review.
    taken: u64,
    reviewed: (u64, u64),
    /// Turns were found too short.
    are_short: bool,
    /// When so many events are done it is tried whether turns pay.
    trial_at: u64,
    /// How far the whole goes on before it is looked whether it is time for that.
    slice: Span,
}

/// What is in flight and due in a region.
struct Region {
    wires: Wires,
    timeline: Timeline,
    /// Its components, in order.
    components: Vec<u32>,
    /// What came from others since its last turn.
    inbox: Vec<(InFlight, Lane)>,
    /// All before it has been done.
    clock: Time,
    /// Its next event.
    due: Time,
    /// The latest moment that rows were written at.
    latest: Moment,
}

impl Region {
    fn put(&mut self, entry: InFlight, lane: Lane) {
        self.due = self.due.min(entry.time);
        self.inbox.push((entry, lane));
    }
}

impl Regions {
    /// `part`: which of several it is.
    pub(super) fn new(
        division: &Arc<Division>,
        part: u16,
        spec: &RunSpec,
        components: &Components,
        lanes: usize,
        hops: &[Hop],
        made_of: (&Links, &Interfaces, &Processors),
    ) -> Box<Regions> {
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); division.count];
        let of = division.of_components(spec, components, made_of);
        let local = (0..).zip(of).map(|(component, region)| {
            let Some(region) = region else { return u32::MAX };
            let list = &mut lists[usize::from(region)];
            list.push(component);
            count(list.len() - 1)
        });
        let local = local.collect();
        let is_own = |region: usize| division.part[region] == part;
        let brief = components.brief();
        let region = |(number, components): (usize, Vec<u32>)| {
            let (lanes, leaves, brief) = if is_own(number) {
                let before = |id: u32| count(components.partition_point(|&component| component < id));
                (lanes, components.len(), before(brief.start)..before(brief.end))
            } else {
                (0, 0, 0..0)
            };
            Region {
                wires: Wires::new(lanes),
                timeline: Timeline::new(leaves, brief),
                components,
                inbox: Vec::new(),
                clock: Time::ZERO,
                due: Time::NEVER,
                latest: Moment::default(),
            }
        };
        let all: Vec<Region> = lists.into_iter().enumerate().map(region).collect();
        let own = (0..all.len()).filter(|&region| is_own(region)).map(|region| low16(region as u64)).collect();
        let mut borders = borders(&division.of_place, hops);
        borders.retain(|&place| !hops[place].is_across());
        Box::new(Regions {
            division: Arc::clone(division),
            all,
            own,
            borders,
            in_turns: false,
            whole: Timeline::new(1, 0..0),
            local,
            taken: 0,
            reviewed: (0, 0),
            are_short: false,
            trial_at: if division.turns == Turns::Auto { FIRST_TRIAL } else { 0 },
            slice: Span::from_ms(1),
        })
    }

    pub(super) fn are_in_turns(&self) -> bool {
        self.in_turns
    }

    /// How many this world has.
    pub(super) fn count(&self) -> usize {
        self.own.len()
    }

    /// The next event of all.
    pub(super) fn due(&self) -> Time {
        self.own.iter().map(|&region| self.all[usize::from(region)].due).min().unwrap_or(Time::NEVER)
    }

    /// How far a region may go on, at most to `stop`.
    fn limit(&self, region: u16, floor: Time, stop: Time) -> Time {
        let heard = self.division.hears[usize::from(region)].iter();
        let own = |&&(from, _): &&(u16, Span)| {
            self.division.part[usize::from(from)] == self.division.part[usize::from(region)]
        };
        let reach = |&(from, delay): &(u16, Span)| self.all[usize::from(from)].clock.max(floor) + delay;
        heard.filter(own).map(reach).min().unwrap_or(stop).min(stop)
    }

    /// Takes a packet that reaches a place across a border, if a region of this world has it.
    pub(super) fn take(&mut self, entry: InFlight, lane: Lane, part: u16) -> bool {
        let region = usize::from(self.division.of_place[entry.next.place().index()]);
        let is_own = self.in_turns && self.division.part[region] == part;
        if is_own {
            self.all[region].put(entry, lane);
        }
        is_own
    }

    fn in_flight(&self) -> impl Iterator<Item = &InFlight> {
        self.all.iter().flat_map(|region| region.wires.iter().chain(region.inbox.iter().map(|(entry, _)| entry)))
    }

    /// Whether turns are too short to pay.
    fn review(&mut self, events: u64) -> bool {
        let (events_before, taken_before) = self.reviewed;
        let (events, taken) = (events - events_before, self.taken - taken_before);
        let every = match self.division.turns {
            Turns::Auto => REVIEW_EVERY.max(REVIEW_EVERY_ALL * self.own.len() as u64),
            _ => 10,
        };
        if taken >= every {
            self.reviewed = (events_before + events, self.taken);
            self.are_short |= match self.division.turns {
                Turns::Always => false,
                Turns::Alternating => true,
                Turns::Auto | Turns::Never => events < SHORTEST_TURN * taken,
            };
        }
        self.are_short
    }

    /// Whether turns end now. When they are tried again is known then.
    fn end_turns(&mut self, events: u64) -> bool {
        let ends = std::mem::take(&mut self.are_short);
        if ends {
            self.trial_at = if self.division.turns == Turns::Auto { events * LATER } else { events + 100 };
        }
        ends
    }

    fn begins_turns(&self, events: u64) -> bool {
        events >= self.trial_at
    }

    /// `events` were in a slice, and whether that was cut short.
    fn set_slice(&mut self, events: u64, is_cut: bool) {
        let most = if self.division.turns == Turns::Auto { FIRST_TRIAL / 4 } else { 50 };
        if events > most {
            self.slice = Span::from_ns((self.slice.as_ns() / 2).max(1000));
        } else if events < most / 4 && !is_cut {
            self.slice = (self.slice * 2).min(Span::from_secs(1));
        }
    }
}

/// Packets in flight in a world, in no order.
pub(super) fn in_flight<'a>(wires: &'a Wires, regions: &'a Option<Box<Regions>>) -> impl Iterator<Item = &'a InFlight> {
    wires.iter().chain(regions.iter().flat_map(|regions| regions.in_flight()))
}

impl World {
    /// Everything before `limit`, in turns or in the order of time.
    pub(super) fn run_divided(&mut self, limit: Time, sink: &mut dyn CaptureSink) {
        while let Some(regions) = &self.regions {
            if regions.in_turns {
                // A sample is of all regions at one time, after all else.
                let sample = self.sampler.next();
                let stop = self.take_turns(limit.min(sample + Span::from_ns(1)), sink);
                if stop > sample {
                    self.now = sample;
                    self.sample();
                    self.events += 1;
                }
                let events = self.events;
                if self.regions.as_mut().is_some_and(|regions| regions.end_turns(events)) {
                    self.leave_turns();
                }
                if stop >= limit {
                    return;
                }
            } else {
                let due = self.wires.head_time().min(self.timeline.next().0);
                if due >= limit {
                    return;
                }
                if regions.begins_turns(self.events) {
                    self.enter_turns(due);
                    continue;
                }
                let events = self.events;
                let stop = limit.min(due + regions.slice);
                self.run_events(stop, sink);
                let events = self.events - events;
                if let Some(regions) = &mut self.regions {
                    regions.set_slice(events, stop == limit);
                }
            }
        }
    }

    /// To `stop`, or as soon as it is known that turns do not pay. Returns the time up to which all has been done.
    fn take_turns(&mut self, mut stop: Time, sink: &mut dyn CaptureSink) -> Time {
        while let Some(regions) = &mut self.regions {
            let floor = regions.due();
            if floor >= stop {
                regions.all.iter_mut().for_each(|region| region.clock = stop);
                break;
            }
            for i in 0..regions.own.len() {
                let Some(regions) = &mut self.regions else { return stop };
                let number = regions.own[i];
                let limit = regions.limit(number, floor, stop);
                let region = &mut regions.all[usize::from(number)];
                let is_due = region.due < limit;
                // It goes on to the limit in any case.
                region.clock = region.clock.max(limit);
                if is_due {
                    regions.taken += 1;
                    self.enter_region(number);
                    self.run_events(limit, sink);
                    self.leave_region(number);
                }
            }
            let events = self.events;
            let Some(regions) = &mut self.regions else { return stop };
            if regions.review(events) {
                // All come to where the first of them is.
                stop = regions.all.iter().map(|region| region.clock).max().map_or(stop, |clock| clock.min(stop));
            }
        }
        stop
    }

    fn enter_region(&mut self, number: u16) {
        let Some(regions) = &mut self.regions else { return };
        let region = &mut regions.all[usize::from(number)];
        for (entry, lane) in region.inbox.drain(..) {
            region.wires.insert(entry, lane);
        }
        self.swap_region(number);
    }

    fn leave_region(&mut self, number: u16) {
        self.swap_region(number);
        let Some(regions) = &mut self.regions else { return };
        let region = &mut regions.all[usize::from(number)];
        region.due = region.wires.head_time().min(region.timeline.next().0);
    }

    fn swap_region(&mut self, number: u16) {
        let Some(regions) = &mut self.regions else { return };
        let region = &mut regions.all[usize::from(number)];
        std::mem::swap(&mut self.wires, &mut region.wires);
        std::mem::swap(&mut self.timeline, &mut region.timeline);
        self.components.swap_own(&mut region.components);
        if let Some(order) = &mut self.log.order {
            std::mem::swap(&mut order.now, &mut region.latest);
        }
    }

    /// From `now` on in turns. All before has been done.
    fn enter_turns(&mut self, now: Time) {
        let Some(regions) = &mut self.regions else { return };
        regions.in_turns = true;
        self.notes_moments = true;
        regions.reviewed = (self.events, regions.taken);
        let latest = self.log.order.as_ref().map_or(Moment::default(), |order| order.now);
        for &number in &regions.own {
            let region = &mut regions.all[usize::from(number)];
            for (leaf, &component) in (0..).zip(&region.components) {
                region.timeline.set_any(Component(leaf), self.timeline.get_any(Component(component)));
            }
            (region.clock, region.latest) = (now, latest);
        }
        // Lanes are refilled in order.
        let lanes = self.wires.lanes();
        let mut entries = std::mem::replace(&mut self.wires, Wires::new(lanes)).into_entries();
        entries.sort_unstable_by_key(|(entry, _)| entry.key());
        for (entry, lane) in entries {
            // What is lost does not leave its line.
            let place = entry.next.place();
            let place = if entry.next.is_lost() { place.before() } else { place };
            let region = regions.division.of_place[place.index()];
            regions.all[usize::from(region)].wires.insert(entry, lane);
        }
        for &number in &regions.own {
            let region = &mut regions.all[usize::from(number)];
            region.due = region.wires.head_time().min(region.timeline.next().0);
        }
        std::mem::swap(&mut self.timeline, &mut regions.whole);
        self.components.divide(std::mem::take(&mut regions.local));
        for &place in &regions.borders {
            self.hops[place] = self.hops[place].across();
        }
    }

    /// Goes on as a whole, in the order of time.
    pub(super) fn leave_turns(&mut self) {
        let Some(regions) = self.regions.as_mut().filter(|regions| regions.in_turns) else { return };
        regions.in_turns = false;
        // Its rows now come after those of all regions, and before what these do later.
        self.notes_moments = self.part.is_some();
        regions.local = self.components.unite();
        std::mem::swap(&mut self.timeline, &mut regions.whole);
        let mut entries = Vec::new();
        for &number in &regions.own {
            let region = &mut regions.all[usize::from(number)];
            for (leaf, &component) in (0..).zip(&region.components) {
                self.timeline.set_any(Component(component), region.timeline.get_any(Component(leaf)));
            }
            let lanes = region.wires.lanes();
            entries.extend(std::mem::replace(&mut region.wires, Wires::new(lanes)).into_entries());
            entries.append(&mut region.inbox);
        }
        entries.sort_unstable_by_key(|(entry, _)| entry.key());
        entries.into_iter().for_each(|(entry, lane)| self.wires.insert(entry, lane));
        self.timeline.set(self.components.sampler(), self.sampler.next());
        let latest = regions.all.iter().map(|region| region.latest).max();
        if let (Some(order), Some(latest)) = (&mut self.log.order, latest) {
            order.now = order.now.max(latest);
        }
        for &place in &regions.borders {
            self.hops[place] = self.hops[place].within();
        }
    }
}
