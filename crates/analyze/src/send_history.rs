//! Outstanding segments of a sender, in the order of their sequence numbers, without gaps. Some
//! acknowledged ones are kept, because a repetition or a report of a duplicate may still come.

use std::collections::{BTreeSet, VecDeque};

use airtcp_core::convert::count;
use airtcp_core::flags;
use airtcp_core::units::Time;

/// Offsets count from here, so that what lies before the first byte seen has a number, too. Its low
/// half is zero: an offset's is the sequence number relative to the first one.
pub(crate) const ORIGIN: u64 = 1 << 40;

flags! {
    /// Knowledge about a run of bytes.
    pub(crate) struct Marks {
        /// The capture has not shown it: what came after it did.
        UNSEEN = 1,
        /// A SACK block has reported it.
        SACKED = 2,
        /// It was sent again.
        RESENT = 4,
        /// It filled a gap late: when it was sent is not known.
        LATE = 8,
        /// It ends with the byte that FIN takes.
        FIN = 16,
    }
}

/// No row.
pub(crate) const NONE: u32 = u32::MAX;

/// A run of bytes that was sent at once. If unseen: a gap, and its times are when it showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub start: u64,
    pub end: u64,
    /// When it was last sent, and when that passed.
    pub last_at: Time,
    pub seen_at: Time,
    /// Serial number of that passing among all of the flow.
    pub order: u64,
    /// TSval of the first and of the last passing.
    pub first_stamp: u32,
    pub last_stamp: u32,
    /// Number of its last retransmission among those of the flow, or [`NONE`].
    pub row: u32,
    pub ip_id: u16,
    pub marks: Marks,
}

impl Sent {
    /// True if at least one of `marks` is set.
    pub(crate) fn has(&self, marks: Marks) -> bool {
        self.marks.has_any(marks)
    }
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// Segments that a sender has sent. A lookup for a packet costs a few steps, however much is
/// outstanding.
#[derive(Debug, Default)]
pub(crate) struct SendHistory {
    /// The first `acked` of them are acknowledged.
    sent: VecDeque<Sent>,
    acked: usize,
    sacked_bytes: u64,
    /// Where those begin that are SACKed.
    sacked: BTreeSet<u64>,
    /// Outstanding data in segments of `segment_bytes`, begun ones counted.
    segments: u64,
    segment_bytes: u64,
}

#[cfg(test)]
thread_local! {
    /// Segments that were looked at, for tests that count work.
    pub(crate) static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Segments are being looked at, one after the other.
#[inline]
fn look(_segments: u64) {
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + _segments);
}

impl SendHistory {
    /// Outstanding data in segments of so many bytes, begun ones counted. The count is renewed only
    /// when their size changes.
    pub(crate) fn outstanding_segments(&mut self, bytes: u32) -> u64 {
        let bytes = u64::from(bytes.max(1));
        if self.segment_bytes != bytes {
            look(self.sent.len() as u64);
            self.segment_bytes = bytes;
            self.segments = self.sent.range(self.acked..).map(|s| s.len().div_ceil(bytes)).sum();
        }
        self.segments
    }
    fn in_segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.segment_bytes.max(1))
    }
    pub(crate) fn front(&self) -> Option<&Sent> {
        self.sent.get(self.acked)
    }
    /// The outstanding segment at `index`, from 0.
    pub(crate) fn nth(&self, index: usize) -> Option<&Sent> {
        self.sent.get(self.acked + index)
    }
    pub(crate) fn count(&self) -> u32 {
        count(self.sent.len() - self.acked)
    }
    pub(crate) fn sacked(&self) -> u32 {
        count(self.sacked.len())
    }
    pub(crate) fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    pub(crate) fn push(&mut self, sent: Sent) {
        debug_assert!(self.sent.back().is_none_or(|last| last.end == sent.start) && sent.start < sent.end);
        self.segments += self.in_segments(sent.len());
        self.sent.push_back(sent);
    }

    pub(crate) fn clear(&mut self) {
        *self = SendHistory::default();
    }

    /// Forgets the oldest segments beyond `limit`, outstanding ones too; returns the number of the
    /// latter.
    pub(crate) fn shrink_to(&mut self, limit: usize) -> u32 {
        let mut lost = 0;
        while self.sent.len() > limit {
            if let Some(first) = self.sent.pop_front() {
                if self.acked > 0 {
                    self.acked -= 1;
                } else {
                    lost += 1;
                    self.uncount(&first);
                }
            }
        }
        lost
    }

    /// It is no longer outstanding.
    fn uncount(&mut self, s: &Sent) {
        self.segments -= self.in_segments(s.len());
        if s.has(Marks::SACKED) {
            self.sacked.remove(&s.start);
            self.sacked_bytes -= s.len();
        }
    }

    /// Everything below `to` is acknowledged; `f` sees what that newly covers, in order.
    pub(crate) fn acknowledge(&mut self, to: u64, mut f: impl FnMut(&Sent)) {
        while let Some(&first) = self.sent.get(self.acked) {
            if first.start >= to {
                break;
            }
            if first.end > to {
                self.split(self.acked, to);
                continue;
            }
            look(1);
            self.uncount(&first);
            self.acked += 1;
            f(&first);
        }
    }

    /// Index of the segment that holds `offset`, or of the first one above it.
    fn find(&self, offset: u64) -> usize {
        // The offset is mostly near one of the ends.
        match self.sent.get(self.acked) {
            Some(front) if front.start <= offset && offset < front.end => self.acked,
            _ => self.sent.partition_point(|s| s.end <= offset),
        }
    }

    fn split(&mut self, index: usize, at: u64) {
        let whole = &mut self.sent[index];
        debug_assert!(whole.start < at && at < whole.end);
        let upper = Sent { start: at, ..*whole };
        let (before, lower) = (whole.len(), at - whole.start);
        whole.end = at;
        whole.marks.remove(Marks::FIN);
        if index < self.acked {
            self.acked += 1;
        } else {
            self.segments += self.in_segments(lower) + self.in_segments(upper.len()) - self.in_segments(before);
            if upper.has(Marks::SACKED) {
                self.sacked.insert(at);
            }
        }
        self.sent.insert(index + 1, upper);
    }

    /// Cuts segments at both ends of the range, and shows those in it to `f`, which may change all
    /// but where they begin and end, and whether they are SACKed.
    pub(crate) fn change(&mut self, start: u64, end: u64, mut f: impl FnMut(&mut Sent)) {
        for at in [start, end] {
            let index = self.find(at);
            if self.sent.get(index).is_some_and(|s| s.start < at && at < s.end) {
                self.split(index, at);
            }
        }
        let mut index = self.find(start);
        while let Some(s) = self.sent.get_mut(index).filter(|s| s.start < end) {
            look(1);
            f(s);
            index += 1;
        }
    }

    /// Those that lie at least partly in the range.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = &Sent> {
        self.sent.range(self.find(start).min(self.sent.len())..).take_while(move |s| s.start < end).inspect(|_| look(1))
    }

    /// Marks as SACKed what lies wholly in the range and is outstanding; `f` sees what was not
    /// marked before.
    pub(crate) fn sack(&mut self, start: u64, end: u64, mut f: impl FnMut(&Sent)) {
        let mut index = self.find(start).max(self.acked);
        if self.sent.get(index).is_some_and(|s| s.start < start) {
            index += 1;
        }
        while let Some(s) = self.sent.get_mut(index).filter(|s| s.end <= end) {
            look(1);
            if !s.has(Marks::SACKED) {
                s.marks |= Marks::SACKED;
                self.sacked.insert(s.start);
                self.sacked_bytes += s.end - s.start;
                f(s);
            }
            index += 1;
        }
    }

    /// SACKed segments that begin at `offset` or above, counted up to `enough`.
    pub(crate) fn sacked_above(&self, offset: u64, enough: u32) -> u32 {
        count(self.sacked.range(offset..).take(enough as usize).inspect(|_| look(1)).count())
    }
}
