//! What a sender counts of ACKs: duplicates, partial ones, and what it infers from them where nothing is SACKed (RFC 5681, RFC 6582).

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AckCounts {
    /// Duplicate ACKs since the last cumulative advance. In NewReno's recovery a partial ACK takes back what it covers.
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
    /// Segments that duplicate ACKs, without SACK, have reported as delivered and that no cumulative ACK has covered yet.
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
    pub(super) fn look(&mut self) {
        self.looks_now = self.looks > 0;
        self.looks = self.looks.saturating_sub(1);
    }

    /// Of the `acked` segments that a partial ACK covers, one was the hole and the rest had each sent a duplicate (RFC 6582).
    // [RFC6582-3.2-4b]
    pub(super) fn deflate(&mut self, acked: u32) {
        self.duplicates = self.duplicates.saturating_sub(acked.saturating_sub(1));
    }

    /// Without SACK: a duplicate stands for a segment that arrived, of `packets_out`. Returns how many such there are now, which is
    /// the place of the segment that this one stands for.
    pub(super) fn infer_one(&mut self, packets_out: u32) -> u32 {
        self.inferred = (self.inferred + 1).min(packets_out);
        self.inferred
    }

    /// Without SACK: of `acked` segments, at least 1, those that no duplicate has reported; at least the hole itself.
    pub(super) fn newly_delivered(&mut self, acked: u32) -> u32 {
        let delivered = acked.saturating_sub(self.inferred).max(1);
        self.inferred = self.inferred.saturating_sub(acked - 1);
        delivered
    }
}

#[cfg(test)]
mod tests {
    use super::AckCounts;

    /// Ten segments, the first lost: nine duplicates report nine, and the ACK of all ten the hole alone.
    #[test]
    fn no_segment_is_delivered_twice() {
        let mut acks = AckCounts::default();
        assert_eq!((0..9).map(|_| acks.infer_one(10)).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(acks.newly_delivered(10), 1);
        assert_eq!(acks.newly_delivered(4), 4, "nothing is left of the duplicates");
        // Two holes, three segments between: the partial ACK covers the hole and the three, of six reported.
        (0..6).for_each(|_| _ = acks.infer_one(10));
        assert_eq!((acks.newly_delivered(4), acks.newly_delivered(4)), (1, 1));
        // No more can have arrived than is out.
        assert_eq!((acks.infer_one(1), acks.infer_one(1)), (1, 1));
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
