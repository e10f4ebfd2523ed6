//! State of each segment in flight at the sender: sent, SACKed, lost, retransmitted (RFC 6675,
//! section 3).
//!
//! Segments are in a ring ordered by sequence; SACKed ranges are merged intervals beside it, so
//! that a SACK block costs only what it newly reports. Every segment is marked SACKed, lost and
//! retransmitted at most once per transmission.

use std::collections::VecDeque;

use super::delivery::Stamp;
use super::loss::Verdict;
use crate::convert::{count, saturate16};
use crate::flags;
use crate::units::{Span, Time};

/// Room for so many segments stays when fewer are out.
const SPARE: usize = 16;

flags! {
    /// Knowledge about a segment.
    pub(super) struct SegFlags {
        /// Known to have arrived, and not acknowledged.
        SACKED = 1,
        /// Judged lost and not known to have arrived.
        LOST = 2,
        /// Lost and sent again.
        RETRANSMITTED = 4,
        /// Sent more than once: no round-trip sample without timestamps (Karn).
        EVER_RETRANSMITTED = 8,
        /// The connection's last segment: it ends with the number that the FIN takes.
        FIN = 16,
        /// It is the last of what was handed down at once.
        PUSH = 32,
        /// It carries PSH whenever it leaves, and ends an skb.
        WRITE_END = 64,
        /// Send times have told that its last transmission is lost, or it was SACKed: they are not
        /// asked again, not even if an undo has taken the loss back, or the peer the SACK (Linux
        /// keeps no such segment in `tsorted_sent_queue`).
        JUDGED = 128,
    }
}

/// One segment between `snd_una` and `snd_nxt`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub start: u64,
    // [RFC8985-4-3]
    pub sent_at: Time,
    /// The connection's transmissions, counted from 1, when this was sent last: which of two was
    /// later, also within one instant.
    pub number: u64,
    pub len: u16,
    pub flags: SegFlags,
}

impl Segment {
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.len) + u64::from(self.has(SegFlags::FIN))
    }
    /// True if at least one of `flags` is set.
    pub(super) fn has(&self, flags: SegFlags) -> bool {
        self.flags.has_any(flags)
    }
}

#[derive(Debug, Default)]
// [RFC6675-3-1] [RFC8985-4-2]
pub(super) struct Scoreboard {
    segments: VecDeque<Segment>,
    /// One for each segment, where the control asks for delivery rates.
    stamps: Option<VecDeque<Stamp>>,
    /// Disjoint, ascending `(start, end, segments)`.
    sacked: VecDeque<(u64, u64, u32)>,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// Below this every segment that is not SACKed is marked lost.
    lost_edge: u64,
    /// Below this nothing waits to be retransmitted.
    retransmit_from: u64,
    /// Starts of the segments that were retransmitted and the number of each transmission, in that
    /// order: some may have arrived.
    retransmissions: VecDeque<(u64, u64)>,
    /// Number of segments sent, retransmissions included.
    transmissions: u64,
    /// Segments that end above this offset were sent once only.
    repeated_to: u64,
}

impl Scoreboard {
    /// `stamped`: segments have stamps.
    pub(super) fn new(stamped: bool) -> Scoreboard {
        Scoreboard { stamps: stamped.then(VecDeque::new), ..Scoreboard::default() }
    }
    pub(super) fn packets_out(&self) -> u32 {
        count(self.segments.len())
    }
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }
    pub(super) fn sacked_out(&self) -> u32 {
        self.sacked_out
    }
    /// Retransmissions on their way.
    pub(super) fn retransmitted_out(&self) -> u32 {
        self.retrans_out
    }
    /// Bytes in the SACKed ranges.
    pub(super) fn sacked_bytes(&self) -> u64 {
        self.sacked.iter().map(|&(start, end, _)| end - start).sum()
    }
    pub(super) fn lost_out(&self) -> u32 {
        self.lost_out
    }
    /// Sent and neither SACKed nor lost, plus retransmissions: RFC 6675's pipe.
    // [RFC6675-4-4] [RFC8985-9.2-1]
    pub(super) fn pipe(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }
    /// Retransmissions on their way; `None`: neither is there one, nor was the first segment ever
    /// repeated.
    pub(super) fn retransmissions_out(&self) -> Option<u32> {
        let repeated = self.front().is_some_and(|first| first.has(SegFlags::EVER_RETRANSMITTED));
        (self.retrans_out > 0 || repeated).then_some(self.retrans_out)
    }
    pub(super) fn has_retransmission_out(&self) -> bool {
        self.retrans_out > 0
    }
    pub(super) fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }
    pub(super) fn last(&self) -> Option<&Segment> {
        self.segments.back()
    }
    pub(super) fn push(&mut self, segment: Segment, stamp: Stamp) {
        self.transmissions += 1;
        self.segments.push_back(Segment { number: self.transmissions, ..segment });
        if let Some(stamps) = &mut self.stamps {
            stamps.push_back(stamp);
        }
    }
    /// The segment at `i` is sent again.
    fn put_stamp(&mut self, i: usize, stamp: Stamp) {
        if let Some(own) = self.stamps.as_mut().and_then(|stamps| stamps.get_mut(i)) {
            *own = stamp;
        }
    }

    fn index_of(&self, seq: u64) -> usize {
        self.segments.partition_point(|s| s.end() <= seq)
    }

    /// Removes what `ack` covers, oldest first. A segment covered in part is trimmed and stays.
    // [RFC6675-5-9]
    pub(super) fn acknowledge(&mut self, ack: u64, mut each: impl FnMut(&Segment, Option<Stamp>)) {
        while let Some(segment) = self.take_covered(ack) {
            self.sacked_out -= u32::from(segment.has(SegFlags::SACKED));
            self.lost_out -= u32::from(segment.has(SegFlags::LOST));
            self.retrans_out -= u32::from(segment.has(SegFlags::RETRANSMITTED));
            each(&segment, self.stamps.as_mut().and_then(VecDeque::pop_front));
        }
        self.give_back_spare();
        if self.retrans_out == 0 {
            self.retransmissions.clear();
        }
        while let Some(range) = self.sacked.front_mut() {
            if range.1 <= ack {
                self.sacked.pop_front();
            } else {
                // Receivers do not acknowledge into the middle of what they SACKed; if one does,
                // keep the counts whole.
                if range.0 < ack {
                    range.0 = ack;
                    let within = self.segments.iter().take_while(|s| s.end() <= range.1);
                    range.2 = count(within.filter(|s| s.has(SegFlags::SACKED)).count());
                }
                break;
            }
        }
        if self.sacked.is_empty() && self.has_room_for_holes() {
            self.forget_holes();
        }
    }

    #[inline]
    fn take_covered(&mut self, ack: u64) -> Option<Segment> {
        let front = self.segments.front_mut()?;
        if front.end() > ack {
            if front.start < ack {
                front.len -= saturate16(ack - front.start);
                front.start = ack;
            }
            return None;
        }
        self.segments.pop_front()
    }

    /// The first segment, if nothing is SACKed or lost, and all that is outstanding was sent once
    /// only.
    #[inline]
    pub(super) fn front_of_intact(&self) -> Option<&Segment> {
        let is_intact = self.sacked_out + self.lost_out == 0 && !self.has_room_for_holes();
        self.segments.front().filter(|first| is_intact && first.start >= self.repeated_to)
    }

    /// As [`Self::acknowledge`] where there is such a [first one](Self::front_of_intact), and `ack`
    /// covers it: when it was sent, the last that is covered, and how many are.
    #[inline]
    pub(super) fn acknowledge_intact(&mut self, ack: u64) -> Option<(Time, Segment, u32)> {
        let first = self.take_covered(ack)?;
        let (mut last, mut segments) = (first, 1);
        while let Some(segment) = self.take_covered(ack) {
            (last, segments) = (segment, segments + 1);
        }
        self.give_back_spare();
        Some((first.sent_at, last, segments))
    }

    #[inline]
    fn has_room_for_holes(&self) -> bool {
        self.sacked.capacity() + self.retransmissions.capacity() > 0
    }

    /// Frees the room for holes: among thousands of connections few repair losses at a time.
    #[cold]
    fn forget_holes(&mut self) {
        self.sacked = VecDeque::new();
        if self.retransmissions.is_empty() {
            self.retransmissions = VecDeque::new();
        }
    }

    #[inline]
    fn give_back_spare(&mut self) {
        if self.segments.capacity() > SPARE && self.segments.len() < self.segments.capacity() / 4 {
            self.give_back();
        }
    }

    /// Half of the room for segments goes back: of thousands of connections few have their largest
    /// window at a time.
    #[cold]
    fn give_back(&mut self) {
        self.segments.shrink_to(self.segments.capacity() / 2);
        if let Some(stamps) = &mut self.stamps {
            stamps.shrink_to(stamps.capacity() / 2);
        }
    }

    /// The whole segments within `start..end`.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = &Segment> {
        let from = self.segments.partition_point(|s| s.start < start);
        self.segments.range(from..).take_while(move |s| s.end() <= end)
    }

    /// Marks the whole segments within `start..end` as SACKed; `each` sees those that were not
    /// before.
    pub(super) fn sack(&mut self, start: u64, end: u64, mut each: impl FnMut(&Segment, Option<Stamp>)) {
        let mut from = start;
        while from < end {
            // Up to the next range that is already known, then past it.
            let next = self.sacked.get(self.sacked.partition_point(|r| r.1 <= from)).copied();
            let to = next.map_or(end, |r| r.0.min(end));
            if from < to {
                self.sack_new(from, to, &mut each);
            }
            let Some((_, known_end, _)) = next else { break };
            from = known_end;
        }
    }

    // [RFC6675-4-2]
    fn sack_new(&mut self, start: u64, end: u64, each: &mut impl FnMut(&Segment, Option<Stamp>)) {
        let mut i = self.segments.partition_point(|s| s.start < start);
        let mut covered: Option<(u64, u64, u32)> = None;
        while let Some(segment) = self.segments.get_mut(i) {
            if segment.end() > end {
                break;
            }
            if !segment.has(SegFlags::SACKED) {
                let before = *segment;
                self.lost_out -= u32::from(segment.has(SegFlags::LOST));
                self.retrans_out -= u32::from(segment.has(SegFlags::RETRANSMITTED));
                segment.flags = segment.flags.without(SegFlags::LOST | SegFlags::RETRANSMITTED) | SegFlags::SACKED;
                self.sacked_out += 1;
                let range = covered.get_or_insert((segment.start, segment.start, 0));
                range.1 = segment.end();
                range.2 += 1;
                each(&before, self.stamps.as_ref().and_then(|stamps| stamps.get(i)).copied());
            }
            i += 1;
        }
        let Some(mut range) = covered else { return };
        let mut at = self.sacked.partition_point(|r| r.0 < range.0);
        if at < self.sacked.len() && self.sacked[at].0 == range.1 {
            let next = self.sacked.remove(at).expect("checked above");
            range = (range.0, next.1, range.2 + next.2);
        }
        if at > 0 && self.sacked[at - 1].1 == range.0 {
            at -= 1;
            self.sacked[at].1 = range.1;
            self.sacked[at].2 += range.2;
        } else {
            self.sacked.insert(at, range);
        }
    }

    /// Visits the holes that are not yet marked lost, lowest first: `judge(first segment of the
    /// hole, segments SegFlags::SACKED above it)` says whether the whole hole is lost; the
    /// first that is not ends the walk. Returns how many segments were marked.
    pub(super) fn mark_lost_holes(&mut self, mut judge: impl FnMut(&Segment, u32) -> bool) -> u32 {
        let mut newly = 0;
        let mut above = self.sacked_out;
        let Some(front) = self.segments.front() else { return 0 };
        let mut hole_start = front.start;
        for r in 0..self.sacked.len() {
            let (start, end, count) = self.sacked[r];
            if start > self.lost_edge && start > hole_start {
                let i = self.index_of(hole_start.max(self.lost_edge));
                if !judge(&self.segments[i], above) {
                    return newly;
                }
                newly += self.mark_lost_until(start);
            }
            above -= count;
            hole_start = end;
        }
        newly
    }

    /// Marks each segment lost for which `judge` says so, lowest first, among those that are
    /// neither SACKed nor lost. The first segment sent only once that can never be lost by what has
    /// been delivered so far ends the walk: whatever is above it was sent later. Returns how many.
    pub(super) fn mark_lost_segments(&mut self, mut judge: impl FnMut(&Segment) -> Verdict) -> u32 {
        let mut newly = 0;
        let mut i = self.index_of(self.lost_edge);
        let mut range = self.sacked.partition_point(|r| r.1 <= self.lost_edge);
        let mut unbroken = true;
        while let Some(segment) = self.segments.get_mut(i) {
            if segment.has(SegFlags::SACKED) {
                // All of the SACKed range at once.
                while self.sacked[range].1 <= segment.start {
                    range += 1;
                }
                let (start, end, count) = self.sacked[range];
                i = if segment.start == start { i + count as usize } else { self.index_of(end) };
                if unbroken {
                    self.lost_edge = end;
                }
                continue;
            }
            if segment.has(SegFlags::JUDGED) {
                unbroken &= segment.has(SegFlags::LOST);
            } else if !segment.has(SegFlags::LOST) {
                match judge(segment) {
                    Verdict::Lost => {
                        segment.flags |= SegFlags::LOST | SegFlags::JUDGED;
                        self.lost_out += 1;
                        self.retransmit_from = self.retransmit_from.min(segment.start);
                        newly += 1;
                    }
                    Verdict::Wait { until } => {
                        unbroken = false;
                        if until.is_never() && !segment.has(SegFlags::EVER_RETRANSMITTED) {
                            break;
                        }
                    }
                }
            }
            if unbroken {
                self.lost_edge = segment.end();
            }
            i += 1;
        }
        newly
    }

    /// Marks every segment below `end` lost that is neither SACKed nor already lost.
    pub(super) fn mark_lost_until(&mut self, end: u64) -> u32 {
        let mut newly = 0;
        let mut i = self.index_of(self.lost_edge);
        while let Some(segment) = self.segments.get_mut(i) {
            if segment.start >= end {
                break;
            }
            if !segment.has(SegFlags::SACKED | SegFlags::LOST) {
                segment.flags |= SegFlags::LOST;
                self.lost_out += 1;
                self.retransmit_from = self.retransmit_from.min(segment.start);
                newly += 1;
            }
            i += 1;
        }
        self.lost_edge = self.lost_edge.max(end);
        newly
    }

    /// Marks the first segment lost, if it is not.
    pub(super) fn mark_front_lost(&mut self) -> u32 {
        let end = self.segments.front().map_or(0, |s| s.end());
        let edge = std::mem::replace(&mut self.lost_edge, 0);
        let newly = self.mark_lost_until(end);
        self.lost_edge = self.lost_edge.max(edge);
        newly
    }

    /// The peer has taken back what it SACKed (RFC 2018 section 8): the first segment is SACKed,
    /// and an honest peer would have acknowledged it.
    pub(super) fn is_reneged(&self) -> bool {
        self.front().is_some_and(|first| first.has(SegFlags::SACKED))
    }

    /// After a timeout: the first segment is lost and so is everything not SACKed for which
    /// `is_lost` says so, and none of that is on its way (RFC 6675 section 5.1, RFC 8985
    /// section 6.3). If the peer has [taken back](Self::is_reneged) its SACKs, all of them are
    /// forgotten, and everything is lost (`tcp_timeout_mark_lost` of Linux).
    // [RFC6675-5.1-5]
    pub(super) fn mark_lost_at_timeout(&mut self, mut is_lost: impl FnMut(&Segment) -> bool) {
        let reneged = self.is_reneged();
        if reneged {
            self.merge_sacked();
            for segment in &mut self.segments {
                let was_sacked = segment.has(SegFlags::SACKED);
                segment.flags = segment.flags.without(SegFlags::SACKED) | SegFlags::when(was_sacked, SegFlags::JUDGED);
            }
            self.sacked.clear();
            self.sacked_out = 0;
        }
        let mut unbroken = true;
        for (i, segment) in self.segments.iter_mut().enumerate() {
            if i == 0 {
                self.retransmit_from = segment.start;
                self.lost_edge = segment.start;
            }
            if !segment.has(SegFlags::SACKED) {
                if i > 0 && !reneged && !is_lost(segment) {
                    // A recent retransmission keeps its state: lost, and in flight again.
                    unbroken &= segment.has(SegFlags::LOST);
                    continue;
                }
                self.retrans_out -= u32::from(segment.has(SegFlags::RETRANSMITTED));
                self.lost_out += u32::from(!segment.has(SegFlags::LOST));
                segment.flags = segment.flags.without(SegFlags::RETRANSMITTED) | SegFlags::LOST;
            }
            if unbroken {
                self.lost_edge = segment.end();
            }
        }
    }

    /// Data that was SACKed in one range is one skb in Linux (`tcp_shift_skb_data`): all of it was
    /// sent when the first of it was, and more than once if any of it was. It matters only if
    /// the peer takes the SACKs back.
    fn merge_sacked(&mut self) {
        for &(start, _, segments) in &self.sacked {
            let first = self.segments.partition_point(|s| s.start < start);
            let range = first..(first + segments as usize).min(self.segments.len());
            let repeated = self.segments.range(range.clone()).any(|s| s.has(SegFlags::EVER_RETRANSMITTED));
            let Some(&Segment { sent_at, number, .. }) = self.segments.get(first) else { continue };
            for segment in self.segments.range_mut(range) {
                (segment.sent_at, segment.number) = (sent_at, number);
                if repeated {
                    segment.flags |= SegFlags::EVER_RETRANSMITTED;
                    self.repeated_to = self.repeated_to.max(segment.end());
                }
            }
        }
    }

    /// The first segment is lost once more, if it was sent again: it is to be repeated first.
    pub(super) fn forget_front_retransmission(&mut self) {
        if let Some(front) = self.segments.front_mut().filter(|front| front.has(SegFlags::RETRANSMITTED)) {
            front.flags.remove(SegFlags::RETRANSMITTED);
            self.retrans_out -= 1;
            self.retransmit_from = front.start;
        }
    }

    /// Nothing above the first segment was ever sent again, as far as the first that was not SACKed
    /// there shows.
    pub(super) fn only_front_was_retransmitted(&self) -> bool {
        let above =
            self.segments.iter().skip(1).find(|s| s.has(SegFlags::EVER_RETRANSMITTED) || !s.has(SegFlags::SACKED));
        self.retrans_out <= 1 && above.is_none_or(|s| !s.has(SegFlags::EVER_RETRANSMITTED))
    }

    /// When the `n`-th segment, counted from 0, was last sent, and the number of that transmission;
    /// of the last if there are fewer.
    pub(super) fn sent(&self, n: u32) -> Option<(Time, u64)> {
        self.segments.get(n as usize).or(self.segments.back()).map(|s| (s.sent_at, s.number))
    }

    /// The last segment, now counted as sent at `now` again: a tail loss probe. It is not taken to
    /// be lost. And how long ago it was sent last.
    // [RFC8985-7.3-7]
    pub(super) fn take_probe(&mut self, now: Time, stamp: Stamp) -> Option<(Segment, Span)> {
        let last = self.segments.len().checked_sub(1)?;
        let segment = &mut self.segments[last];
        let waited = now.since(segment.sent_at);
        segment.flags = segment.flags.without(SegFlags::JUDGED) | SegFlags::EVER_RETRANSMITTED;
        segment.sent_at = now;
        self.transmissions += 1;
        segment.number = self.transmissions;
        self.repeated_to = self.repeated_to.max(segment.end());
        let segment = *segment;
        self.put_stamp(last, stamp);
        Some((segment, waited))
    }

    /// The marks prove wrong: nothing is lost, everything is in flight again.
    pub(super) fn clear_lost(&mut self) {
        for segment in &mut self.segments {
            segment.flags.remove(SegFlags::LOST | SegFlags::RETRANSMITTED);
        }
        self.lost_out = 0;
        self.retrans_out = 0;
        self.lost_edge = 0;
        self.retransmit_from = u64::MAX;
        self.retransmissions.clear();
    }

    /// Lost segments that have not been sent again.
    pub(super) fn has_to_retransmit(&self) -> bool {
        self.lost_out > self.retrans_out
    }

    /// Visits the retransmissions that are still on their way, oldest first; those that `judge`
    /// says have been lost again wait to be retransmitted once more. The first that can never be
    /// lost by what has been delivered so far ends the walk.
    pub(super) fn mark_lost_retransmissions(&mut self, mut judge: impl FnMut(&Segment) -> Verdict) -> u32 {
        let mut newly = 0;
        let mut n = 0;
        while let Some(&(start, number)) = self.retransmissions.get(n) {
            let i = self.index_of(start);
            let is_it = |s: &&mut Segment| s.has(SegFlags::RETRANSMITTED) && s.number == number && s.start <= start;
            let mut waits = false;
            if let Some(segment) = self.segments.get_mut(i).filter(is_it) {
                match judge(segment) {
                    Verdict::Lost => {
                        segment.flags.remove(SegFlags::RETRANSMITTED);
                        self.retrans_out -= 1;
                        self.retransmit_from = self.retransmit_from.min(segment.start);
                        newly += 1;
                    }
                    Verdict::Wait { until } if until.is_never() => break,
                    Verdict::Wait { .. } => waits = true,
                }
            }
            if waits || n > 0 {
                n += 1;
            } else {
                self.retransmissions.pop_front();
            }
        }
        newly
    }

    /// Where the lowest lost segment begins that has not been sent again.
    pub(super) fn next_retransmission(&self) -> Option<u64> {
        let waits = |s: &&Segment| s.has(SegFlags::LOST) && !s.has(SegFlags::RETRANSMITTED);
        let first = self.has_to_retransmit().then(|| self.index_of(self.retransmit_from))?;
        self.segments.range(first..).find(waits).map(|s| s.start)
    }

    /// Number of segments to send again together, `most` at most. They start with the lowest lost
    /// segment that has not been sent again, and left in the same skb as that one.
    pub(super) fn lost_together(&self, most: u32) -> u32 {
        if !self.has_to_retransmit() {
            return 0;
        }
        let waits = |s: &Segment| s.has(SegFlags::LOST) && !s.has(SegFlags::RETRANSMITTED);
        let mut rest = self.segments.range(self.index_of(self.retransmit_from)..).skip_while(|s| !waits(s)).peekable();
        let sent_at = rest.peek().map(|s| s.sent_at);
        let mut n = 0;
        for s in rest.take_while(|s| waits(s) && Some(s.sent_at) == sent_at).take(most as usize) {
            n += 1;
            if s.has(SegFlags::PUSH | SegFlags::WRITE_END) {
                break;
            }
        }
        n
    }

    /// The lowest lost segment that has not been sent again, now counted as sent at `now`, and how
    /// long ago it was sent last.
    // [RFC6675-4-5]
    pub(super) fn take_retransmission(&mut self, now: Time, stamp: Stamp) -> Option<(Segment, Span)> {
        if !self.has_to_retransmit() {
            return None;
        }
        let mut i = self.index_of(self.retransmit_from);
        while !self.segments[i].has(SegFlags::LOST) || self.segments[i].has(SegFlags::RETRANSMITTED) {
            i += 1;
        }
        let segment = &mut self.segments[i];
        // [RFC8985-6.1-1]
        segment.flags =
            segment.flags.without(SegFlags::JUDGED) | SegFlags::RETRANSMITTED | SegFlags::EVER_RETRANSMITTED;
        let waited = now.since(segment.sent_at);
        segment.sent_at = now;
        self.transmissions += 1;
        segment.number = self.transmissions;
        self.retransmissions.push_back((segment.start, segment.number));
        // [RFC6675-5-13]
        self.retransmit_from = segment.end();
        self.repeated_to = self.repeated_to.max(segment.end());
        self.retrans_out += 1;
        let segment = *segment;
        self.put_stamp(i, stamp);
        Some((segment, waited))
    }

    /// The last segment has not left after all, if it starts at `start` and was sent once only.
    pub(super) fn take_back_last(&mut self, start: u64) -> bool {
        let last = self.segments.back();
        let is_new = last.is_some_and(|s| s.start == start && !s.has(SegFlags::EVER_RETRANSMITTED | SegFlags::SACKED));
        if is_new {
            let lost = self.segments.pop_back().is_some_and(|s| s.has(SegFlags::LOST));
            self.stamps.as_mut().and_then(VecDeque::pop_back);
            self.lost_out -= u32::from(lost);
        }
        is_new
    }

    /// The retransmission of the segment at `start` has not left after all: it is still to be sent
    /// again.
    pub(super) fn take_back_retransmission(&mut self, start: u64) -> bool {
        let i = self.segments.partition_point(|s| s.start < start);
        let segment = self.segments.get_mut(i).filter(|s| s.start == start && s.has(SegFlags::RETRANSMITTED));
        let Some(segment) = segment else { return false };
        segment.flags.remove(SegFlags::RETRANSMITTED);
        self.retrans_out -= 1;
        self.retransmit_from = self.retransmit_from.min(start);
        true
    }

    /// Checks every count against the marks; for tests.
    #[cfg(test)]
    pub fn check(&self) {
        assert!(self.stamps.as_ref().is_none_or(|stamps| stamps.len() == self.segments.len()));
        let count = |f: SegFlags| self.segments.iter().filter(|s| s.has(f)).count() as u32;
        assert_eq!(self.sacked_out, count(SegFlags::SACKED));
        assert_eq!(self.lost_out, count(SegFlags::LOST));
        assert_eq!(self.retrans_out, count(SegFlags::RETRANSMITTED));
        assert!(
            self.segments.iter().all(|s| !(s.has(SegFlags::SACKED) && s.has(SegFlags::LOST | SegFlags::RETRANSMITTED)))
        );
        assert!(self.segments.iter().all(|s| !s.has(SegFlags::RETRANSMITTED) || s.has(SegFlags::LOST)));
        assert!(self.segments.iter().all(|s| !s.has(SegFlags::EVER_RETRANSMITTED) || s.end() <= self.repeated_to));
        assert!(self.sacked.iter().zip(self.sacked.iter().skip(1)).all(|(a, b)| a.1 < b.0));
        assert_eq!(self.sacked.iter().map(|r| r.2).sum::<u32>(), self.sacked_out);
        for s in self.segments.iter().filter(|s| s.has(SegFlags::SACKED)) {
            assert!(self.sacked.iter().any(|r| r.0 <= s.start && s.end() <= r.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u64 = 1000;

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::new(true);
        for n in 0..segments {
            let (start, len) = (1 + n * MSS, MSS as u16);
            let segment = Segment { start, len, flags: SegFlags::NONE, sent_at: Time::ZERO, number: 0 };
            board.push(segment, Stamp::default());
        }
        board
    }

    /// RFC 6675 section 4 with DupThresh 3: of ten segments 0, 3 and 7 are missing; 0 and 3 have
    /// three or more SACKed above them, 7 has two.
    // [RFC6675-4-3] [RFC6675-4-4] [RFC6675-4-5] [RFC6675-5-13]
    #[test]
    fn holes_are_judged_by_what_was_sacked_above_them() {
        let mut board = board(10);
        for (from, to) in [(1, 3), (4, 7), (8, 10)] {
            board.sack(1 + from * MSS, 1 + to * MSS, |_, _| {});
        }
        let mut seen = Vec::new();
        let newly = board.mark_lost_holes(|first, above| {
            seen.push(((first.start - 1) / MSS, above));
            above >= 3
        });
        assert_eq!(seen, [(0, 7), (3, 5), (7, 2)]);
        assert_eq!(newly, 2);
        assert_eq!(board.pipe(), 1);
        let resent: Vec<u64> = std::iter::from_fn(|| {
            board.take_retransmission(Time::ZERO, Stamp::default()).map(|(s, _)| (s.start - 1) / MSS)
        })
        .collect();
        assert_eq!(resent, [0, 3]);
        assert_eq!(board.pipe(), 3);
        board.check();
    }

    // [RFC8985-7.3-7]
    #[test]
    fn a_probe_is_the_latest_transmission() {
        let mut board = board(3);
        let now = Time::ZERO + Span::from_ms(1);
        let (probe, waited) = board.take_probe(now, Stamp::default()).unwrap();
        assert_eq!((probe.start, probe.sent_at, probe.number, waited), (1 + 2 * MSS, now, 4, Span::from_ms(1)));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Sack(u64, u64),
        Ack(u64),
        Lose,
        Retransmit,
        LoseAgain,
        Timeout,
        TimeoutOfSome(u64),
        LoseSegments(u64),
        FrontAgain,
        Probe,
        Undo,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..60, 1u64..12).prop_map(|(a, n)| Step::Sack(a, n)),
            2 => (0u64..60).prop_map(Step::Ack),
            2 => Just(Step::Lose),
            2 => Just(Step::Retransmit),
            1 => Just(Step::LoseAgain),
            1 => Just(Step::Timeout),
            1 => (0u64..60).prop_map(Step::TimeoutOfSome),
            2 => (0u64..60).prop_map(Step::LoseSegments),
            1 => Just(Step::FrontAgain),
            1 => Just(Step::Probe),
            1 => Just(Step::Undo),
        ]
    }

    proptest! {
        // [RFC6675-3-1] [RFC6675-4-1] [RFC6675-4-2] [RFC6675-4-4] [RFC6675-5-9] [RFC8985-4-2] [RFC8985-6.1-1]
        // [RFC8985-7.3-7] [RFC8985-9.2-1]
        #[test]
        fn counts_follow_the_marks_and_each_segment_is_reported_once(steps in prop::collection::vec(step(), 1..60)) {
            let mut board = board(60);
            let mut sacked = std::collections::BTreeSet::new();
            let mut una = 0;
            for s in steps {
                match s {
                    Step::Sack(a, n) => {
                        let (from, to) = (a.max(una), (a + n).min(60));
                        if from < to {
                            board.sack(1 + from * MSS, 1 + to * MSS, |s, _| assert!(sacked.insert(s.start), "told twice"));
                            prop_assert!((from..to).all(|n| sacked.contains(&(1 + n * MSS))));
                        }
                    }
                    Step::Ack(n) if n > una => {
                        let mut seen = 0;
                        board.acknowledge(1 + n * MSS, |_, _| seen += 1);
                        prop_assert_eq!(seen, n - una);
                        una = n;
                    }
                    Step::Ack(_) => {}
                    Step::Lose => { board.mark_lost_holes(|_, above| above >= 3); }
                    Step::Retransmit => { board.take_retransmission(Time::ZERO, Stamp::default()); }
                    Step::LoseAgain => { board.mark_lost_retransmissions(|_| Verdict::Lost); }
                    Step::Timeout | Step::TimeoutOfSome(_) => {
                        if board.is_reneged() {
                            sacked.clear();
                        }
                        match s {
                            Step::TimeoutOfSome(from) => board.mark_lost_at_timeout(|s| s.start > from * MSS),
                            _ => { board.mark_lost_at_timeout(|_| true); prop_assert_eq!(board.pipe(), 0); }
                        }
                        prop_assert!(board.is_empty() || board.has_to_retransmit());
                    }
                    Step::LoseSegments(below) => {
                        let late = Verdict::Wait { until: Time::ZERO };
                        board.mark_lost_segments(|s| if s.start <= below * MSS { Verdict::Lost } else { late });
                     }
                    Step::FrontAgain => {
                        board.mark_front_lost();
                        board.forget_front_retransmission();
                        prop_assert!(board.front().is_none_or(|f| f.has(SegFlags::SACKED)) || board.has_to_retransmit());
                    }
                    Step::Probe => { board.take_probe(Time::ZERO, Stamp::default()); }
                    Step::Undo => { board.clear_lost(); prop_assert_eq!(board.lost_out(), 0); }
                }
                board.check();
                let held = sacked.iter().filter(|&&s| s > una * MSS).count() as u32;
                prop_assert_eq!(board.sacked_out(), held);
            }
        }
    }
}
