//! The next deadline of many components: a winner tree.
//!
//! Every component owns one leaf; the root names the component whose deadline is earliest, ties to the lower id. Moving a
//! deadline replays only the matches on the way to the root and stops at the first node whose winner neither changes nor
//! is the component itself, which is what makes it cheap: most deadlines are far from being next.

use airtcp_core::convert::count;
use airtcp_core::units::Time;

/// Something with a deadline of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Component(pub u32);

/// The deadlines of all components; [`Time::NEVER`]: none.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// By component, padded with [`Time::NEVER`] to a power of two.
    deadlines: Vec<Time>,
    /// `winners[1]` is the root; the children of node `n` are `2n` and `2n + 1`; a child at or beyond
    /// `winners.len()` is leaf `child - winners.len()`.
    winners: Vec<u32>,
    /// The root and its deadline, at hand.
    next: (Time, Component),
}

impl Timeline {
    /// `components` of them, all idle.
    pub fn new(components: usize) -> Timeline {
        let leaves = components.next_power_of_two().max(2);
        let mut winners = vec![0; leaves];
        for node in (1..leaves).rev() {
            // All deadlines are equal, so the leftmost leaf below wins.
            winners[node] = if 2 * node >= leaves { count(2 * node - leaves) } else { winners[2 * node] };
        }
        Timeline { deadlines: vec![Time::NEVER; leaves], winners, next: (Time::NEVER, Component(0)) }
    }

    /// The earliest deadline and whose it is.
    #[inline]
    pub fn next(&self) -> (Time, Component) {
        self.next
    }

    /// The deadline of a component.
    #[inline]
    pub fn get(&self, component: Component) -> Time {
        self.deadlines[component.0 as usize]
    }

    /// Sets the deadline of a component.
    #[inline]
    pub fn set(&mut self, component: Component, deadline: Time) {
        let id = component.0;
        self.deadlines[id as usize] = deadline;
        let leaves = self.winners.len();
        let leaf = (id as usize) & !1;
        let mut node = (leaf + leaves) / 2;
        let mut winner = self.match_of(count(leaf), count(leaf) + 1);
        loop {
            if self.winners[node] == winner && winner != id {
                return;
            }
            self.winners[node] = winner;
            if node == 1 {
                self.next = (self.deadlines[winner as usize], Component(winner));
                return;
            }
            let left = self.winners[node & !1];
            let right = self.winners[node | 1];
            winner = self.match_of(left, right);
            node /= 2;
        }
    }

    /// Moves the deadline of a component forward to `deadline` if that is earlier; a later one is left for the moment when the
    /// leaf fires.
    #[inline]
    pub fn advance_to(&mut self, component: Component, deadline: Time) {
        if deadline < self.deadlines[component.0 as usize] {
            self.set(component, deadline);
        }
    }

    #[inline]
    fn match_of(&self, left: u32, right: u32) -> u32 {
        if self.deadlines[right as usize] < self.deadlines[left as usize] { right } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::{Component, Time, Timeline};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(n in 1usize..70, updates in prop::collection::vec((0u32..70, 0u64..12), 0..400)) {
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
