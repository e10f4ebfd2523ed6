//! The next deadline of many components: a tree of groups of eight.
//!
//! Every component owns one leaf. Eight leaves are a group, a cache line; the earliest of a group is a leaf of the level
//! above, up to a single group. Most deadlines are far from being next: moving one ends at the first group whose earliest
//! stays. Ids are not kept: whose the earliest deadline is, is found from the root down, the first of each group first, so
//! ties go to the lower id.

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
    /// All levels one after the other, the deadlines of components first, each padded with [`Time::NEVER`] to whole groups.
    groups: Vec<Group>,
    /// Where in `groups` each level begins; the last has one group.
    levels: Vec<usize>,
    /// The earliest, at hand.
    next: (Time, Component),
}

impl Timeline {
    /// `components` of them, all idle.
    pub fn new(components: usize) -> Timeline {
        let (mut levels, mut groups, mut leaves) = (Vec::new(), 0, components.max(1));
        loop {
            levels.push(groups);
            leaves = leaves.div_ceil(GROUP);
            groups += leaves;
            if leaves == 1 {
                break;
            }
        }
        let groups = vec![Group([Time::NEVER; GROUP]); groups];
        Timeline { groups, levels, next: (Time::NEVER, Component(0)) }
    }

    /// The earliest deadline and whose it is.
    #[inline]
    pub fn next(&self) -> (Time, Component) {
        self.next
    }

    /// The deadline of a component.
    #[inline]
    pub fn get(&self, component: Component) -> Time {
        let leaf = component.0 as usize;
        self.groups[leaf / GROUP].0[leaf % GROUP]
    }

    /// Sets the deadline of a component.
    #[inline]
    pub fn set(&mut self, component: Component, deadline: Time) {
        let (mut place, mut new) = (component.0 as usize, deadline);
        let was_next = component == self.next.1;
        for level in 0..self.levels.len() {
            let group = &mut self.groups[self.levels[level] + place / GROUP].0;
            let old = std::mem::replace(&mut group[place % GROUP], new);
            if old == new {
                break;
            }
            place /= GROUP;
            // What the level above holds: it is stale only where the old one was the earliest.
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
            self.next = self.find();
        } else if (deadline, component) < self.next {
            self.next = (deadline, component);
        }
    }

    /// Moves the deadline of a component forward to `deadline` if that is earlier; a later one is left for the moment when the
    /// leaf fires.
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
        (earliest, Component(count(place)))
    }
}

/// The earliest of a group, the first of those that are, and its place. Which it will be cannot be guessed, so this is
/// written to compile without jumps: in rounds, and without a loop.
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
            let mut tree = Timeline::new(n);
            let mut model = vec![Time::NEVER; n];
            for (id, deadline) in updates {
                let id = id % n as u32;
                // Few distinct values, so that ties are common; the greatest stands for "idle".
                let deadline = if deadline == 11 { Time::NEVER } else { Time::from_ns(deadline) };
                tree.set(Component(id), deadline);
                model[id as usize] = deadline;
                let (best, &at) = model.iter().enumerate().min_by_key(|&(i, &d)| (d, i)).unwrap();
                prop_assert_eq!(tree.next(), (at, Component(best as u32)));
            }
        }
    }

    #[test]
    fn only_an_earlier_deadline_moves_a_leaf_lazily() {
        let mut tree = Timeline::new(3);
        let at = Time::from_ns;
        tree.advance_to(Component(2), at(50));
        tree.advance_to(Component(2), at(70));
        assert_eq!(tree.next(), (at(50), Component(2)));
        tree.advance_to(Component(1), at(50));
        assert_eq!(tree.next(), (at(50), Component(1)));
    }
}
