//! Data that arrived above a hole, and which of it was heard of last (RFC 2018 section 4).

use std::collections::VecDeque;

use crate::packet::MAX_SACK;

#[derive(Debug, Default)]
pub(super) struct OutOfOrder {
    /// Disjoint, ascending, as `(start, end)`.
    ranges: VecDeque<(u64, u64)>,
    /// The SACK blocks, the newest first, as Linux keeps them (`selective_acks`): a block that
    /// falls off the end is forgotten, and does not return with a neighbour.
    blocks: [(u64, u64); MAX_SACK],
    block_count: usize,
    /// In all ranges.
    bytes: u64,
}

impl OutOfOrder {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Where the lowest range begins.
    pub(super) fn first(&self) -> Option<u64> {
        self.ranges.front().map(|r| r.0)
    }

    /// Bytes that are here.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the highest range ends.
    pub(super) fn end(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.1)
    }

    /// True if all of `start..end` is here.
    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        let i = self.ranges.partition_point(|r| r.1 < end);
        self.ranges.get(i).is_some_and(|&(s, _)| s <= start)
    }

    /// The lowest part of `start..end` that is here.
    pub(super) fn overlap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let i = self.ranges.partition_point(|r| r.1 <= start);
        self.ranges.get(i).filter(|r| r.0 < end).map(|&(s, e)| (s.max(start), e.min(end)))
    }

    /// Adds `start..end`, and makes its block the newest. Returns the bytes that were new.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        let first = self.ranges.partition_point(|r| r.1 < start);
        let mut merged = (start, end);
        let mut known = 0;
        let mut last = first;
        while let Some(&(s, e)) = self.ranges.get(last) {
            if s > end {
                break;
            }
            known += e.min(end).saturating_sub(s.max(start));
            merged = (merged.0.min(s), merged.1.max(e));
            last += 1;
        }
        match last - first {
            0 => self.ranges.insert(first, merged),
            1 => self.ranges[first] = merged,
            _ => {
                self.ranges[first] = merged;
                self.ranges.drain(first + 1..last);
            }
        }
        self.bytes += end - start - known;
        self.tell(start, end);
        end - start - known
    }

    /// The SACK block of `start..end` becomes the newest: the first one that it touches, or a new
    /// one. Blocks that it then touches become part of it (`tcp_sack_new_ofo_skb`,
    /// `tcp_sack_maybe_coalesce`).
    // [RFC2883-4-4]
    #[inline]
    fn tell(&mut self, start: u64, end: u64) {
        let place = self.place(start, end);
        let mut newest = (start, end);
        if place < self.block_count {
            newest = join(self.blocks[place], newest);
        } else {
            self.block_count = (self.block_count + 1).min(MAX_SACK);
        }
        self.blocks[..=place.min(MAX_SACK - 1)].rotate_right(1);
        let mut kept = 1;
        for i in 1..self.block_count {
            if touches(newest, self.blocks[i]) {
                newest = join(newest, self.blocks[i]);
            } else {
                self.blocks[kept] = self.blocks[i];
                kept += 1;
            }
        }
        self.blocks[0] = newest;
        self.block_count = kept;
    }

    /// Takes out the lowest range, if it begins at `rcv_nxt` or below.
    pub(super) fn take_in_order(&mut self, rcv_nxt: u64) -> Option<(u64, u64)> {
        let lowest = *self.ranges.front().filter(|r| r.0 <= rcv_nxt)?;
        self.ranges.pop_front();
        self.bytes -= lowest.1 - lowest.0;
        // `tcp_sack_remove`.
        let mut kept = 0;
        for i in 0..self.block_count {
            if self.blocks[i].0 >= lowest.1 {
                self.blocks[kept] = self.blocks[i];
                kept += 1;
            }
        }
        self.block_count = kept;
        Some(lowest)
    }

    /// The SACK blocks, the newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (u64, u64)> {
        self.blocks[..self.block_count].iter().copied()
    }

    /// The place of the SACK block that `start..end` adds to; that behind the last if it adds to
    /// none.
    pub(super) fn place(&self, start: u64, end: u64) -> usize {
        self.newest_first().position(|block| touches(block, (start, end))).unwrap_or(self.block_count)
    }
}

fn touches(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

fn join(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.min(b.0), a.1.max(b.1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::OutOfOrder;

    #[test]
    fn ranges_merge_and_the_last_one_touched_comes_first() {
        let mut data = OutOfOrder::default();
        assert_eq!([(10, 20), (30, 40), (50, 60)].map(|(s, e)| data.insert(s, e)), [10, 10, 10]);
        assert_eq!(data.newest_first().collect::<Vec<_>>(), [(50, 60), (30, 40), (10, 20)]);
        assert_eq!(data.insert(15, 32), 10, "20 to 30 are new");
        assert_eq!(data.newest_first().collect::<Vec<_>>(), [(10, 40), (50, 60)]);
        assert!(data.holds(10, 40) && data.holds(15, 30) && !data.holds(35, 45) && !data.holds(40, 50));
        assert_eq!((data.take_in_order(9), data.take_in_order(10)), (None, Some((10, 40))));
        assert_eq!((data.take_in_order(40), data.take_in_order(60)), (None, Some((50, 60))));
        assert!(data.is_empty() && data.newest_first().next().is_none());
    }

    /// Five ranges: the oldest block is forgotten, and what joins its range later tells of itself.
    #[test]
    fn a_block_that_was_forgotten_does_not_return() {
        let mut data = OutOfOrder::default();
        for start in [10, 30, 50, 70, 90] {
            data.insert(start, start + 10);
        }
        assert_eq!(data.newest_first().collect::<Vec<_>>(), [(90, 100), (70, 80), (50, 60), (30, 40)]);
        data.insert(20, 25);
        assert_eq!(data.newest_first().collect::<Vec<_>>(), [(20, 25), (90, 100), (70, 80), (50, 60)]);
        assert!(data.holds(10, 25));
        // It came twice: the block with it is the newest again.
        data.insert(52, 55);
        assert_eq!(data.newest_first().next(), Some((50, 60)));
        assert_eq!(
            (data.overlap(0, 10), data.overlap(5, 12), data.overlap(24, 35)),
            (None, Some((10, 12)), Some((24, 25)))
        );
    }

    proptest! {
        #[test]
        fn it_holds_what_was_put_in(
            steps in prop::collection::vec((0u64..60, 1u64..12, any::<bool>()), 1..60)
        ) {
            let (mut data, mut model) = (OutOfOrder::default(), BTreeSet::new());
            for (start, length, take) in steps {
                let end = start + length;
                let new = (start..end).filter(|n| model.insert(*n)).count() as u64;
                prop_assert_eq!(data.insert(start, end), new);
                prop_assert!(data.holds(start, end));
                prop_assert!(data.newest_first().next().is_some_and(|(s, e)| s <= start && end <= e));
                prop_assert!(data.newest_first().all(|(s, e)| data.holds(s, e)));
                if take {
                    while let Some((s, e)) = data.take_in_order(start) {
                        prop_assert!((s..e).all(|n| model.remove(&n)));
                    }
                }
                for n in 0..75 {
                    prop_assert_eq!(data.holds(n, n + 1), model.contains(&n), "{}", n);
                }
            }
        }
    }
}
