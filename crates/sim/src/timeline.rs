//! The next deadline of many components: a winner tree.
//!
//! Every component owns one leaf; the root names the component whose deadline is earliest, ties to the lower id. Moving a
//! deadline replays only the matches on the way to the root and stops at the first node whose winner neither changes nor
//! is the component itself, which is what makes it cheap: most deadlines are far from being next.

/// Deadlines in nanoseconds; [`u64::MAX`] means none.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// By component, padded with [`u64::MAX`] to a power of two.
    deadlines: Vec<u64>,
    /// `winners[1]` is the root; the children of node `n` are `2n` and `2n + 1`; a child at or beyond
    /// `winners.len()` is leaf `child - winners.len()`.
    winners: Vec<u32>,
    /// The root and its deadline, at hand.
    next: (u64, u32),
}

impl Timeline {
    /// `components` of them, all idle.
    pub fn new(components: usize) -> Timeline {
        let leaves = components.next_power_of_two().max(2);
        let mut winners = vec![0; leaves];
        for node in (1..leaves).rev() {
            // All deadlines are equal, so the leftmost leaf below wins.
            winners[node] = if 2 * node >= leaves { (2 * node - leaves) as u32 } else { winners[2 * node] };
        }
        Timeline { deadlines: vec![u64::MAX; leaves], winners, next: (u64::MAX, 0) }
    }

    /// The earliest deadline and whose it is.
    #[inline]
    pub fn next(&self) -> (u64, u32) {
        self.next
    }

    #[inline]
    pub fn get(&self, id: u32) -> u64 {
        self.deadlines[id as usize]
    }

    /// Sets the deadline of component `id`.
    #[inline]
    pub fn set(&mut self, id: u32, deadline: u64) {
        self.deadlines[id as usize] = deadline;
        let leaves = self.winners.len();
        let leaf = (id as usize) & !1;
        let mut node = (leaf + leaves) / 2;
        let mut winner = self.match_of(leaf as u32, leaf as u32 + 1);
        loop {
            if self.winners[node] == winner && winner != id {
                return;
            }
            self.winners[node] = winner;
            if node == 1 {
                self.next = (self.deadlines[winner as usize], winner);
                return;
            }
            let left = self.winners[node & !1];
            let right = self.winners[node | 1];
            winner = self.match_of(left, right);
            node /= 2;
        }
    }

    /// Moves the deadline of `id` forward to `deadline` if that is earlier; a later one is left for the moment when the
    /// leaf fires.
    #[inline]
    pub fn advance_to(&mut self, id: u32, deadline: u64) {
        if deadline < self.deadlines[id as usize] {
            self.set(id, deadline);
        }
    }

    #[inline]
    fn match_of(&self, left: u32, right: u32) -> u32 {
        if self.deadlines[right as usize] < self.deadlines[left as usize] { right } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(n in 1usize..70, updates in prop::collection::vec((0u32..70, 0u64..12), 0..400)) {
            let mut tree = Timeline::new(n);
            let mut model = vec![u64::MAX; n];
            for (id, deadline) in updates {
                let id = id % n as u32;
                // Few distinct values, so that ties are common; the greatest stands for "idle".
                let deadline = if deadline == 11 { u64::MAX } else { deadline };
                tree.set(id, deadline);
                model[id as usize] = deadline;
                let (best, &at) = model.iter().enumerate().min_by_key(|&(i, &d)| (d, i)).unwrap();
                prop_assert_eq!(tree.next(), (at, best as u32));
            }
        }
    }

    #[test]
    fn only_an_earlier_deadline_moves_a_leaf_lazily() {
        let mut tree = Timeline::new(3);
        tree.advance_to(2, 50);
        tree.advance_to(2, 70);
        assert_eq!(tree.next(), (50, 2));
        tree.advance_to(1, 50);
        assert_eq!(tree.next(), (50, 1));
    }
}
