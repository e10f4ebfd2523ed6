//! Which data measures the round trip: one segment per round trip in old stacks (Karn and Partridge
//! 1987), and where rounds of samples end.

use crate::units::Time;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timing {
    /// With one timed segment per round trip: its end and when it was sent.
    timed: Option<(u64, Time)>,
    /// Offset whose acknowledgement ends the round trip of samples.
    round_end: u64,
}

impl Timing {
    /// A new segment leaves; it is timed unless another is.
    // [RFC6298-3-3]
    pub(super) fn start(&mut self, end: u64, now: Time) {
        self.timed.get_or_insert((end, now));
    }

    /// When the timed segment was sent, if all of it has been acknowledged; then none is timed any
    /// more.
    pub(super) fn take_if_acknowledged(&mut self, snd_una: u64) -> Option<Time> {
        let (_, sent_at) = self.timed.take_if(|(end, _)| snd_una >= *end)?;
        Some(sent_at)
    }

    /// Karn: once something from `start` on was sent again, an ACK of the timed segment may be for
    /// either copy.
    // [RFC6298-3-1]
    pub(super) fn on_retransmission(&mut self, start: u64) {
        self.timed = self.timed.filter(|&(end, _)| end <= start);
    }

    /// A timeout: nothing is timed.
    pub(super) fn stop(&mut self) {
        self.timed = None;
    }

    /// True if a sample is the first of a round trip.
    pub(super) fn begins_round(&mut self, snd_una: u64, snd_nxt: u64) -> bool {
        let begins = snd_una > self.round_end;
        if begins {
            self.round_end = snd_nxt;
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::Timing;
    use crate::units::Time;

    // [RFC6298-3-1] [RFC6298-3-2] [RFC6298-3-3]
    #[test]
    fn one_segment_is_timed_at_a_time_and_none_that_may_have_been_repeated() {
        let (first, second) = (Time::from_ns(1), Time::from_ns(2));
        let mut timing = Timing::default();
        timing.start(1000, first);
        timing.start(2000, second);
        assert_eq!((timing.take_if_acknowledged(999), timing.take_if_acknowledged(1000)), (None, Some(first)));
        assert_eq!(timing.take_if_acknowledged(5000), None);
        timing.start(3000, second);
        timing.on_retransmission(3000);
        assert_eq!(timing.take_if_acknowledged(3000), Some(second), "what was repeated is above it");
        timing.start(4000, second);
        timing.on_retransmission(2000);
        assert_eq!(timing.take_if_acknowledged(4000), None);
    }

    #[test]
    fn a_round_lasts_until_what_was_sent_at_its_beginning_is_acknowledged() {
        let mut timing = Timing::default();
        assert!(timing.begins_round(1, 1000));
        assert!(!timing.begins_round(500, 2000) && !timing.begins_round(1000, 3000));
        assert!(timing.begins_round(1001, 4000));
        assert!(!timing.begins_round(4000, 5000));
    }
}
