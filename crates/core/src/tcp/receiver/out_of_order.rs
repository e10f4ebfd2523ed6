//! Data that arrived above a hole, and which of it was heard of last (RFC 2018 section 4).

use std::collections::VecDeque;

use crate::packet::MAX_SACK;

const NOT_RECENT: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct OutOfOrder {
    /// Disjoint, ascending, as `(start, end)`.
    ranges: VecDeque<(u64, u64)>,
    /// Starts of the ranges that changed most recently, newest first.
    recent: [u64; MAX_SACK],
    /// In all ranges.
    bytes: u64,
}

impl Default for OutOfOrder {
    fn default() -> OutOfOrder {
        OutOfOrder { ranges: VecDeque::new(), recent: [NOT_RECENT; MAX_SACK], bytes: 0 }
    }
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

    /// Adds `start..end` and makes its range the most recent. Returns the bytes that were new.
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
            self.forget_recent(s);
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
        // [RFC2883-4-4]
        self.recent.rotate_right(1);
        self.recent[0] = merged.0;
        self.bytes += end - start - known;
        end - start - known
    }

    /// Takes out the lowest range, if it begins at `rcv_nxt` or below.
    pub(super) fn take_in_order(&mut self, rcv_nxt: u64) -> Option<(u64, u64)> {
        let lowest = *self.ranges.front().filter(|r| r.0 <= rcv_nxt)?;
        self.forget_recent(lowest.0);
        self.ranges.pop_front();
        self.bytes -= lowest.1 - lowest.0;
        Some(lowest)
    }

    /// The ranges that changed most recently, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = (u64, u64)> {
        self.recent.iter().take_while(|&&start| start != NOT_RECENT).filter_map(|&start| {
            let i = self.ranges.partition_point(|r| r.0 < start);
            self.ranges.get(i).filter(|r| r.0 == start).copied()
        })
    }

    /// The place of the range that `start..end` adds to, among those that changed most recently;
    /// that behind the last if it adds to none.
    pub(super) fn place(&self, start: u64, end: u64) -> usize {
        let touches = |&(s, e): &(u64, u64)| s <= end && start <= e;
        self.newest_first().position(|r| touches(&r)).unwrap_or_else(|| self.newest_first().count())
    }

    fn forget_recent(&mut self, start: u64) {
        if let Some(i) = self.recent.iter().position(|&r| r == start) {
            self.recent[i..].rotate_left(1);
            self.recent[MAX_SACK - 1] = NOT_RECENT;
        }
    }
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
