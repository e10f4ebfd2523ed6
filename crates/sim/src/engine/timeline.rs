//! The next deadline of many components: a tree of groups of eight.
//!
//! Every component but some owns one leaf. Eight leaves are a group, a cache line; the earliest of
//! a group is a leaf of the level above, up to a single group. Most deadlines are far from being
//! next: moving one ends at the first group whose earliest stays. Ids are not kept: whose the
//! earliest deadline is, is found from the root down, the first of each group first, so ties go to
//! the lower id.
//!
//! Some components have deadlines that are next soon: the polls of interfaces, which are idle
//! nearly always, and wireless channels, which are few. For them the way through the tree is long
//! and a heap is short, so they are in a heap ([`Brief`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use airtcp_core::convert::count;
use airtcp_core::units::Time;

/// Something with a deadline of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Component(pub u32);

/// Times are looked through in groups of this size.
pub(crate) const GROUP: usize = 8;

/// Deadlines side by side, on one cache line.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Group([Time; GROUP]);

/// The deadlines of all components; [`Time::NEVER`]: none.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// All levels one after the other, the deadlines of components first, each padded with
    /// [`Time::NEVER`] to whole groups. Brief components are not here.
    groups: Vec<Group>,
    /// Where in `groups` each level begins; the last has one group.
    levels: Vec<usize>,
    /// The earliest in the tree, at hand.
    next_in_tree: (Time, Component),
    brief: Brief,
    /// The earliest of all.
    next: (Time, Component),
}

/// Deadlines of components that are few, or idle nearly always.
#[derive(Debug, Clone)]
struct Brief {
    /// The number of the first of them.
    first: u32,
    deadlines: Vec<Time>,
    /// Deadlines that were set; one that is not that of its component any more has no meaning. The
    /// earliest has one.
    heap: BinaryHeap<Reverse<(Time, Component)>>,
}

const IDLE: (Time, Component) = (Time::NEVER, Component(u32::MAX));

impl Timeline {
    /// `components` of them, all idle; of those in `brief` few have a deadline at a time.
    pub fn new(components: usize, brief: Range<u32>) -> Timeline {
        let (mut levels, mut groups, mut leaves) = (Vec::new(), 0, (components - brief.len()).max(1));
        loop {
            levels.push(groups);
            leaves = leaves.div_ceil(GROUP);
            groups += leaves;
            if leaves == 1 {
                break;
            }
        }
        let groups = vec![Group([Time::NEVER; GROUP]); groups];
        let deadlines = vec![Time::NEVER; brief.len()];
        let brief = Brief { first: brief.start, deadlines, heap: BinaryHeap::new() };
        Timeline { groups, levels, next_in_tree: IDLE, brief, next: IDLE }
    }

    /// The earliest deadline and whose it is.
    #[inline]
    pub fn next(&self) -> (Time, Component) {
        self.next
    }

    /// The deadline of a component that is not a brief one.
    #[inline]
    pub fn get(&self, component: Component) -> Time {
        let leaf = self.leaf(component);
        self.groups[leaf / GROUP].0[leaf % GROUP]
    }

    /// Sets the deadline of a component that is not a brief one.
    #[inline]
    pub fn set(&mut self, component: Component, deadline: Time) {
        debug_assert!(!self.brief.has(component));
        let (mut place, mut new) = (self.leaf(component), deadline);
        let was_next = component == self.next_in_tree.1;
        for level in 0..self.levels.len() {
            let group = &mut self.groups[self.levels[level] + place / GROUP].0;
            let old = std::mem::replace(&mut group[place % GROUP], new);
            if old == new {
                break;
            }
            place /= GROUP;
            // Deadline that the level above holds: it is stale only where the old one was the
            // earliest.
            let Some(&above) = self.levels.get(level + 1) else { break };
            let earliest = self.groups[above + place / GROUP].0[place % GROUP];
            if new > earliest {
                if old > earliest {
                    break;
                }
                new = first(&self.groups[self.levels[level] + place].0).0;
            }
        }
        if was_next {
            self.next_in_tree = self.find();
        } else if (deadline, component) < self.next_in_tree {
            self.next_in_tree = (deadline, component);
        }
        self.next = self.next_in_tree.min(self.brief.next());
    }

    /// The deadline of a brief component.
    #[inline]
    pub fn get_brief(&self, component: Component) -> Time {
        self.brief.deadlines[(component.0 - self.brief.first) as usize]
    }

    /// Sets the deadline of a brief component.
    #[inline]
    pub fn set_brief(&mut self, component: Component, deadline: Time) {
        self.brief.set(component, deadline);
        self.next = self.next_in_tree.min(self.brief.next());
    }

    /// The earliest deadline of components other than this brief one, which may be the next of all;
    /// or a time before it.
    #[inline]
    pub fn next_besides(&self, brief: Component) -> Time {
        let mut earliest = self.next_in_tree.0;
        // Below the first of the heap, the next is one of two; whether it still has a meaning does
        // not matter here.
        for (i, &Reverse((time, component))) in self.brief.heap.as_slice().iter().take(3).enumerate() {
            if i > 0 || component != brief {
                earliest = earliest.min(time);
            }
        }
        earliest
    }

    /// The deadline of a component, brief or not.
    #[cfg(test)]
    fn get_any(&self, component: Component) -> Time {
        if self.brief.has(component) { self.get_brief(component) } else { self.get(component) }
    }

    /// Sets the deadline of a component, brief or not.
    #[cfg(test)]
    fn set_any(&mut self, component: Component, deadline: Time) {
        if self.brief.has(component) { self.set_brief(component, deadline) } else { self.set(component, deadline) }
    }

    /// As [`Self::advance_to`], of a brief component, whose deadline is never early.
    #[inline]
    pub fn advance_brief_to(&mut self, component: Component, deadline: Time) {
        if deadline < self.get_brief(component) {
            self.set_brief(component, deadline);
        }
    }

    /// Moves the deadline of a component forward to `deadline` if that is earlier; a later one is
    /// left for the moment when the leaf fires.
    #[inline]
    pub fn advance_to(&mut self, component: Component, deadline: Time) {
        if deadline < self.get(component) {
            self.set(component, deadline);
        }
    }

    /// The earliest deadline, from the root down.
    fn find(&self) -> (Time, Component) {
        let (mut place, mut earliest) = (0, Time::NEVER);
        for &level in self.levels.iter().rev() {
            let (time, at) = first(&self.groups[level + place].0);
            (place, earliest) = (place * GROUP + at, time);
        }
        let (place, brief) = (count(place), &self.brief);
        (earliest, Component(if place < brief.first { place } else { place + brief.count() }))
    }

    /// Brief components have no leaf.
    #[inline]
    fn leaf(&self, component: Component) -> usize {
        let (id, brief) = (component.0, &self.brief);
        (if id < brief.first { id } else { id - brief.count() }) as usize
    }
}

impl Brief {
    #[inline]
    fn count(&self) -> u32 {
        count(self.deadlines.len())
    }

    fn has(&self, component: Component) -> bool {
        component.0.checked_sub(self.first).is_some_and(|i| (i as usize) < self.deadlines.len())
    }

    #[inline]
    fn next(&self) -> (Time, Component) {
        self.heap.peek().map_or(IDLE, |&Reverse(next)| next)
    }

    #[inline]
    fn set(&mut self, component: Component, deadline: Time) {
        let own = &mut self.deadlines[(component.0 - self.first) as usize];
        if *own == deadline {
            return;
        }
        *own = deadline;
        if !deadline.is_never() {
            // Mostly it is the one that has just been served.
            let is_next = |next: &PeekMut<Reverse<(Time, Component)>>| next.0.1 == component;
            if let Some(mut next) = self.heap.peek_mut().filter(is_next) {
                *next = Reverse((deadline, component));
            } else {
                self.heap.push(Reverse((deadline, component)));
            }
        }
        while let Some(&Reverse((time, of))) = self.heap.peek() {
            if self.deadlines[(of.0 - self.first) as usize] == time {
                break;
            }
            self.heap.pop();
        }
    }
}

/// The earliest of a group, the first of those that are, and its place. Which it will be cannot be
/// guessed, so this is written to compile without jumps: in rounds, and without a loop.
#[inline(always)]
pub(crate) fn first(times: &[Time; GROUP]) -> (Time, usize) {
    let earlier = |a: (Time, usize), b: (Time, usize)| if b.0 < a.0 { b } else { a };
    let pair = |i: usize| earlier((times[i], i), (times[i + 1], i + 1));
    earlier(earlier(pair(0), pair(2)), earlier(pair(4), pair(6)))
}

#[cfg(test)]
mod tests {
    use super::{Component, Time, Timeline};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(n in 1usize..700, updates in prop::collection::vec((0u32..700, 0u64..12), 0..400)) {
            let brief = n as u32 / 3..n as u32 / 2;
            let mut tree = Timeline::new(n, brief);
            let mut model = vec![Time::NEVER; n];
            for (id, deadline) in updates {
                let id = id % n as u32;
                // Few distinct values, so that ties are common; the greatest stands for "idle".
                let deadline = if deadline == 11 { Time::NEVER } else { Time::from_ns(deadline) };
                tree.set_any(Component(id), deadline);
                prop_assert_eq!(tree.get_any(Component(id)), deadline);
                model[id as usize] = deadline;
                let (best, &at) = model.iter().enumerate().min_by_key(|&(i, &d)| (d, i)).unwrap();
                prop_assert_eq!(tree.next().0, at);
                prop_assert!(at.is_never() || tree.next().1 == Component(best as u32));
                if tree.brief.has(tree.next().1) {
                    let others = model.iter().enumerate().filter(|&(i, _)| i != best).map(|(_, &d)| d);
                    prop_assert!(tree.next_besides(tree.next().1) <= others.min().unwrap_or(Time::NEVER));
                }
            }
        }
    }

    #[test]
    fn only_an_earlier_deadline_moves_a_leaf_lazily() {
        let mut tree = Timeline::new(3, 0..0);
        let at = Time::from_ns;
        tree.advance_to(Component(2), at(50));
        tree.advance_to(Component(2), at(70));
        assert_eq!(tree.next(), (at(50), Component(2)));
        tree.advance_to(Component(1), at(50));
        assert_eq!(tree.next(), (at(50), Component(1)));
    }
}
