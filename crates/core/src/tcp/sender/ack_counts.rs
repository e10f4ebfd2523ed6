//! Counts of ACKs at a sender: duplicates, partial ones, and the arrivals that it infers from them
//! without SACK (RFC 5681, RFC 6582).

use crate::convert::saturate32;

/// Linux's `tcp_reordering` and `tcp_max_reordering`, segments.
const REORDERING: u32 = 3;
const MOST_REORDERING: u32 = 300;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AckCounts {
    /// Duplicate ACKs since the last cumulative advance. In NewReno's recovery a partial ACK takes
    /// back what it covers.
    pub duplicates: u32,
    /// The smaller of cwnd and receive window, segments, when the first of `duplicates` came.
    pub window_at_first_duplicate: u32,
    /// `duplicates` when the last reduction began, and just before the last cumulative advance.
    pub at_reduction: u32,
    pub before_advance: u32,
    /// Partial ACKs of this recovery (NewReno).
    pub partial: u32,
    /// ACKs of new data to come that are looked at as duplicates are, and whether the last one was.
    pub looks: u32,
    pub looks_now: bool,
    /// The furthest that a segment was overtaken, segments; and those that DSACKs have reported
    /// (`delivery_credit`).
    reordering: u32,
    came_twice: u64,
    /// Segments that duplicate ACKs, without SACK, have reported as delivered and that no
    /// cumulative ACK has covered yet.
    inferred: u32,
}

impl AckCounts {
    /// Another duplicate, with that window.
    pub(super) fn on_duplicate(&mut self, window: u32) {
        if self.duplicates == 0 {
            self.window_at_first_duplicate = window;
        }
        self.duplicates += 1;
        self.looks_now = false;
    }

    /// An ACK of new data.
    pub(super) fn on_new_data(&mut self) {
        self.looks_now = self.looks > 0;
        self.looks = self.looks.saturating_sub(1);
    }

    /// Without SACK, as Linux counts (`tcp_limit_reno_sacked`, `tcp_check_reno_reordering`): of
    /// `packets_out` segments so many as `holes` have not arrived. More duplicates show that the
    /// network reorders, by up to `packets_out` and the `acked` ones.
    pub(super) fn limit_duplicates(&mut self, packets_out: u32, holes: u32, acked: u32) {
        let most = packets_out.saturating_sub(holes.max(1));
        if self.duplicates > most {
            self.duplicates = most;
            self.reorders_by(packets_out + acked);
        }
    }

    /// Without SACK: as many segments may have been overtaken.
    pub(super) fn reorders_by(&mut self, segments: u32) {
        self.reordering = segments.min(MOST_REORDERING);
    }

    /// Duplicates that show a loss: three, and more where segments were overtaken further
    /// (`tp->reordering`).
    pub(super) fn threshold(&self) -> u32 {
        self.reordering.max(REORDERING)
    }

    /// A partial ACK covers `acked` segments: one was the hole, and the others had each sent a
    /// duplicate (RFC 6582).
    // [RFC6582-3.2-4b]
    pub(super) fn deflate(&mut self, acked: u32) {
        self.duplicates = self.duplicates.saturating_sub(acked.saturating_sub(1));
    }

    /// A segment that begins at `from` came when everything below `to` that came had. Offsets;
    /// segments of `mss`.
    pub(super) fn note_reordering(&mut self, (from, to): (u64, u64), mss: u64) {
        self.reordering = self.reordering.max(saturate32(to.saturating_sub(from).div_ceil(mss)).min(MOST_REORDERING));
    }

    /// A timeout found as many segments SACKed as recovery takes for a loss: more are not
    /// overtaken.
    pub(super) fn doubt_reordering(&mut self, sacked: u32) {
        if sacked >= REORDERING {
            self.reordering = self.reordering.min(REORDERING);
        }
    }

    /// Segments were overtaken so far that what comes above a hole counts for the window as what
    /// comes in order.
    pub(super) fn grows_above_holes(&self) -> bool {
        self.reordering > REORDERING
    }

    /// The furthest that a segment was overtaken, at least [`REORDERING`].
    pub(super) fn reordering(&self) -> u32 {
        self.reordering.max(REORDERING)
    }

    /// Segments that duplicate ACKs stand for, without SACK.
    pub(super) fn inferred(&self) -> u32 {
        self.inferred
    }

    /// A DSACK reports `start..end`, of segments of `mss`, where so many were sent again. As
    /// delivered count as many as may have been.
    pub(super) fn count_twice(&mut self, (start, end): (u64, u64), mss: u64, sent_again: u64) -> u32 {
        let segments = (end - start).div_ceil(mss);
        self.came_twice += segments;
        if self.came_twice > sent_again { 0 } else { saturate32(segments) }
    }

    /// Without SACK: a duplicate stands for a segment that arrived, of `packets_out`. Returns how
    /// many such there are now, which is the place of the segment that this one stands for.
    pub(super) fn infer_one(&mut self, packets_out: u32) -> u32 {
        self.inferred = (self.inferred + 1).min(packets_out);
        self.inferred
    }

    /// Without SACK: of `acked` segments, at least 1, those that no duplicate has reported; at
    /// least the hole itself.
    pub(super) fn newly_delivered(&mut self, acked: u32) -> u32 {
        let delivered = acked.saturating_sub(self.inferred).max(1);
        self.inferred = self.inferred.saturating_sub(acked - 1);
        delivered
    }
}

#[cfg(test)]
mod tests {
    use super::AckCounts;

    /// Ten segments, the first lost: nine duplicates report nine, and the ACK of all ten the hole
    /// alone.
    #[test]
    fn no_segment_is_delivered_twice() {
        let mut acks = AckCounts::default();
        assert_eq!((0..9).map(|_| acks.infer_one(10)).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(acks.newly_delivered(10), 1);
        assert_eq!(acks.newly_delivered(4), 4, "nothing is left of the duplicates");
        // Two holes, three segments between: the partial ACK covers the hole and the three, of six
        // reported.
        (0..6).for_each(|_| _ = acks.infer_one(10));
        assert_eq!((acks.newly_delivered(4), acks.newly_delivered(4)), (1, 1));
        // No more can have arrived than is out.
        assert_eq!((acks.infer_one(1), acks.infer_one(1)), (1, 1));
    }

    /// As `tcp_check_sack_reordering` and `tcp_timeout_mark_lost` have it: more than three segments
    /// make the difference.
    #[test]
    fn a_segment_overtaken_by_more_than_three_lets_the_window_grow_above_holes() {
        let mut acks = AckCounts::default();
        acks.note_reordering((1_001, 4_001), 1_000);
        assert!(!acks.grows_above_holes());
        acks.note_reordering((1_001, 4_501), 1_000);
        assert!(acks.grows_above_holes(), "three and a half are four");
        acks.note_reordering((1_001, 2_001), 1_000);
        acks.doubt_reordering(2);
        assert!(acks.grows_above_holes(), "few were SACKed");
        acks.doubt_reordering(3);
        assert!(!acks.grows_above_holes());
    }

    /// `tcp_dsack_seen`: in whole segments, and no more than were sent again.
    #[test]
    fn no_more_count_twice_than_were_sent_again() {
        let mut acks = AckCounts::default();
        assert_eq!(acks.count_twice((1, 2_001), 1_000, 3), 2);
        assert_eq!(acks.count_twice((5_001, 5_501), 1_000, 3), 1);
        assert_eq!(acks.count_twice((1, 1_001), 1_000, 3), 0, "the network doubled it");
    }

    // [RFC6582-3.2-4b]
    #[test]
    fn the_window_is_that_of_the_first_duplicate() {
        let mut acks = AckCounts::default();
        for window in [8, 5, 3] {
            acks.on_duplicate(window);
        }
        assert_eq!((acks.duplicates, acks.window_at_first_duplicate), (3, 8));
        acks.deflate(3);
        assert_eq!(acks.duplicates, 1);
        acks.deflate(0);
        assert_eq!(acks.duplicates, 1);
    }
}
