//! The latest arrivals, as RACK keeps them (RFC 8985 section 6.2): the most recently sent segment
//! that has arrived, and the highest.

use crate::units::{Span, Time};

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Newest {
    /// When the most recently sent segment that has arrived was sent: `RACK.xmit_ts`.
    pub sent_at: Time,
    /// Its number among the connection's transmissions. RFC 8985 keeps `RACK.end_seq` instead, to
    /// order what was sent within one tick of its clock. Here many ACKs can come in one
    /// instant, so that a retransmission leaves with new data, and after it.
    pub number: u64,
    /// Its round trip: `RACK.rtt`.
    pub rtt: Span,
    /// The round trip of what the last ACK told of last.
    pub last_rtt: Span,
    /// The highest offset known to have arrived: `RACK.fack`.
    pub highest: u64,
    /// Something has been delivered since the loss policy last looked at send times
    /// (`rack.advanced` of Linux).
    pub advanced: bool,
    /// When an ACK last reported something new.
    pub reported_at: Time,
}

impl Newest {
    /// True if a segment was sent after the newest that has arrived.
    pub(super) fn is_before(&self, number: u64) -> bool {
        number > self.number
    }

    /// A segment sent at `sent_at`, as the connection's transmission `number`, is known at `now` to
    /// have arrived.
    // [RFC8985-6.2-3]
    pub(super) fn note(&mut self, now: Time, sent_at: Time, number: u64) {
        self.advanced = true;
        if self.is_before(number) {
            (self.sent_at, self.number) = (sent_at, number);
            self.rtt = now.since(sent_at);
            self.last_rtt = self.rtt;
        }
    }

    /// Something that ends at `end` arrived; true if something above it came before.
    pub(super) fn note_end(&mut self, end: u64) -> bool {
        let below = end < self.highest;
        self.highest = self.highest.max(end);
        below
    }
}

#[cfg(test)]
mod tests {
    use super::Newest;
    use crate::units::{Span, Time};

    // [RFC8985-6.2-3]
    #[test]
    fn the_newest_is_what_was_sent_last_whatever_arrives_last() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        let mut newest = Newest::default();
        newest.note(at(100), at(10), 2);
        assert_eq!((newest.sent_at, newest.number, newest.rtt), (at(10), 2, Span::from_ms(90)));
        newest.note(at(120), at(5), 1);
        assert_eq!((newest.sent_at, newest.number, newest.rtt), (at(10), 2, Span::from_ms(90)), "sent earlier");
        newest.note(at(130), at(10), 3);
        assert_eq!(
            (newest.number, newest.rtt),
            (3, Span::from_ms(120)),
            "in the same instant the order of sending decides"
        );
        assert!(newest.is_before(4) && !newest.is_before(3));
    }

    // [RFC8985-6.2-4]
    #[test]
    fn what_arrives_below_the_highest_is_reordered() {
        let mut newest = Newest::default();
        assert_eq!([2000, 1000, 2000, 3000].map(|end| newest.note_end(end)), [false, true, false, false]);
        assert_eq!(newest.highest, 3000);
    }
}
