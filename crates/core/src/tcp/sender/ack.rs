//! The information in one ACK, gathered while it is processed.

use super::newest::Newest;
use crate::convert::signed32;
use crate::tcp::delivery::{NewestReported, Stamp};
use crate::tcp::scoreboard::{SegFlags, Segment};
use crate::tcp::timestamp_at;
use crate::units::{Span, Time};

#[derive(Debug, Default)]
pub(super) struct Ack {
    pub now: Time,
    /// The cumulative acknowledgement, and that before it, as offsets.
    pub number: u64,
    pub from: u64,
    /// It covers something new.
    pub advanced: bool,
    /// It covers nothing new and says that something above has arrived.
    pub duplicate: bool,
    /// It is nothing but an ACK; and the receive window in it is not that of the last one.
    pub is_pure: bool,
    pub window_changed: bool,
    /// It carries an ECN echo that counts.
    pub ece: bool,
    /// Newly reported segments that came with a congestion mark.
    pub marked: u32,
    /// Segments in flight before it.
    pub prior_in_flight: u32,
    /// Before this ACK. A repeated segment acknowledged sooner was acknowledged for its original.
    pub min_rtt: Span,
    /// The timestamp that it echoes, and the tick in which it counts; 0: none. An echo older than a
    /// cumulatively acknowledged repeated segment is for the original. The echo says nothing of
    /// SACKed data: it is that of the last segment in order.
    pub echo: u32,
    pub timestamp_tick: Span,
    /// Segments newly acknowledged cumulatively; and newly known to have arrived in whatever way.
    pub acked: u32,
    pub delivered: u32,
    pub delivered_bytes: u32,
    /// Its timestamp is newer than the last.
    pub newer_timestamp: bool,
    /// Send time of the first acknowledged segment that was sent once only (for the timeout), and
    /// of the newest one (for the control).
    pub oldest_sent_at: Option<Time>,
    pub newest_sent_at: Option<Time>,
    pub retransmitted_data: bool,
    /// When the first and the last segment were sent that were sent once only: of those
    /// acknowledged cumulatively and not SACKed before, and of those newly SACKed. And whether
    /// a repeated one was acknowledged cumulatively.
    pub acknowledged_once: Option<(Time, Time)>,
    pub sacked_once: Option<(Time, Time)>,
    pub acknowledged_repeated: bool,
    /// Data sent once only was delivered that ends at `frto_limit` or below.
    pub original: bool,
    pub frto_limit: u64,
    /// Segments newly SACKed; and whether one of them was repeated or ends above `frto_limit`.
    pub sacked: u32,
    pub sacked_other: bool,
    /// The sender's, brought up to date by this ACK.
    pub newest: Newest,
    /// When the last segment was sent that it newly covers, and the last that it newly SACKs.
    pub last_covered: Option<Time>,
    pub last_sacked: Option<Time>,
    /// A segment sent once was delivered below one that had been before; and where the lowest such
    /// segment begins.
    pub reordered: bool,
    pub overtaken_from: Option<u64>,
    /// It looks as if the peer had taken back its SACKs, or the repair were needless, and further
    /// ACKs will tell: new data may leave, but nothing is repaired.
    pub repairs_nothing: bool,
    /// It takes a recovery back before its end: a mark on it reduces nothing.
    pub ignores_mark: bool,
    /// The timer of transmissions is set anew after it (`FLAG_SET_XMIT_TIMER` of Linux).
    pub restarts_timer: bool,
    /// The range that the first SACK block reports as a duplicate; and whether that is due to a
    /// tail loss probe, so that it is a sign neither of reordering nor of a needless recovery.
    pub duplicate_sack: Option<(u64, u64)>,
    pub duplicate_by_probe: bool,
    /// Segments of that range that count as delivered (`delivery_credit`).
    pub duplicates_delivered: u32,
    /// Those of that range that may have been sent again since the reduction in question, which
    /// began at `undo_marker`.
    pub needless_repeats: u32,
    pub undo_marker: u64,
    /// Segments that it showed to be lost.
    pub lost: u32,
    /// The round trip that it measured, for the congestion control.
    pub rtt: Option<Span>,
    /// For controls that ask for it.
    pub rate: Option<NewestReported>,
}

impl Ack {
    /// A segment that the cumulative number covers.
    pub(super) fn take_covered(&mut self, s: &Segment, stamp: Option<Stamp>) {
        self.acked += 1;
        self.needless_repeats += u32::from(self.is_needless_repeat(s));
        if self.is_delivery(s) {
            self.last_covered = Some(s.sent_at);
        }
        if s.has(SegFlags::EVER_RETRANSMITTED) {
            self.acknowledged_repeated = true;
        } else if !s.has(SegFlags::SACKED) {
            extend(&mut self.acknowledged_once, s.sent_at);
        }
        self.take(s, stamp);
    }

    /// A segment that is newly SACKed.
    pub(super) fn take_sacked(&mut self, s: &Segment, stamp: Option<Stamp>) {
        self.sacked += 1;
        if self.is_delivery(s) {
            self.last_sacked = Some(s.sent_at);
        }
        if !s.has(SegFlags::EVER_RETRANSMITTED) {
            extend(&mut self.sacked_once, s.sent_at);
        }
        self.sacked_other |= s.has(SegFlags::EVER_RETRANSMITTED) || s.end() > self.frto_limit;
        self.take(s, stamp);
    }

    /// A repeated segment in the range reported as a duplicate.
    pub(super) fn is_needless_repeat(&self, s: &Segment) -> bool {
        self.duplicate_sack.is_some_and(|(start, end)| start <= s.start && s.end() <= end)
            && s.has(SegFlags::EVER_RETRANSMITTED)
            && s.end() > self.undo_marker
    }

    fn take(&mut self, s: &Segment, stamp: Option<Stamp>) {
        let repeated = s.has(SegFlags::EVER_RETRANSMITTED);
        let news = !s.has(SegFlags::SACKED);
        if news {
            self.delivered += 1;
            self.delivered_bytes += u32::from(s.len);
            // RFC 8985 section 6.2 steps 2 and 3.
            if self.is_delivery(s) {
                self.newest.note(self.now, s.sent_at, s.number);
            }
            let below = self.newest.note_end(s.end());
            // [RFC8985-6.2-4]
            if below && !repeated {
                self.reordered = true;
                self.overtaken_from = Some(self.overtaken_from.map_or(s.start, |from| from.min(s.start)));
            }
            if let (Some(rate), Some(stamp)) = (&mut self.rate, stamp) {
                rate.on_delivered(s.sent_at, stamp);
            }
        }
        if repeated {
            self.retransmitted_data = true;
        } else if news {
            self.original |= s.end() <= self.frto_limit;
            self.oldest_sent_at.get_or_insert(s.sent_at);
            self.newest_sent_at = Some(s.sent_at);
        }
    }

    /// Its last transmission has arrived, as far as this ACK can tell, and was not known to have.
    fn is_delivery(&self, s: &Segment) -> bool {
        !(s.has(SegFlags::SACKED) || s.has(SegFlags::EVER_RETRANSMITTED) && self.is_for_original(s))
    }

    // [RFC8985-6.2-2]
    fn is_for_original(&self, s: &Segment) -> bool {
        let echoes_earlier =
            self.echo != 0 && signed32(self.echo.wrapping_sub(timestamp_at(s.sent_at, self.timestamp_tick))) < 0;
        echoes_earlier || self.now.since(s.sent_at) < self.min_rtt
    }

    /// Segments that reductions and credit for growth count: what it newly reports, and what came
    /// twice.
    pub(super) fn counted(&self) -> u32 {
        self.delivered + self.duplicates_delivered
    }

    /// A range is reported as a duplicate, and says something of reordering.
    pub(super) fn tells_of_needless(&self) -> bool {
        self.duplicate_sack.is_some() && !self.duplicate_by_probe
    }
}

/// The first stays, the last is the new one.
fn extend(times: &mut Option<(Time, Time)>, sent_at: Time) {
    *times = Some((times.map_or(sent_at, |t| t.0), sent_at));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    fn segment(number: u64, sent_ms: u64, flags: SegFlags) -> Segment {
        Segment { start: 1 + 1000 * number, len: 1000, flags, sent_at: at(sent_ms), number: 1 + sent_ms }
    }

    fn ack(now_ms: u64) -> Ack {
        let tick = Span::from_ms(1);
        Ack { now: at(now_ms), min_rtt: Span::from_ms(100), timestamp_tick: tick, frto_limit: 2001, ..Ack::default() }
    }

    // [RFC8985-6.2-2]
    #[test]
    fn a_repeated_segment_acknowledged_too_soon_is_not_the_newest_that_arrived() {
        for (now, newest) in [(149, at(0)), (150, at(50))] {
            let mut ack = ack(now);
            ack.take_covered(&segment(0, 50, SegFlags::EVER_RETRANSMITTED), None);
            assert_eq!((ack.newest.sent_at, ack.delivered), (newest, 1), "at {now} ms");
        }
        // The timestamp clock is 51 at 50 ms.
        for (echo, newest) in [(50, at(0)), (51, at(50))] {
            let mut ack = Ack { echo, ..ack(500) };
            ack.take_covered(&segment(0, 50, SegFlags::EVER_RETRANSMITTED), None);
            assert_eq!(ack.newest.sent_at, newest, "echo {echo}");
        }
    }

    // [RFC6937-3-2]
    #[test]
    fn what_was_sacked_before_is_acknowledged_and_not_delivered() {
        let mut ack = ack(200);
        ack.take_covered(&segment(0, 10, SegFlags::NONE), None);
        ack.take_covered(&segment(1, 20, SegFlags::SACKED), None);
        ack.take_covered(&segment(2, 30, SegFlags::NONE), None);
        assert_eq!((ack.acked, ack.delivered, ack.sacked), (3, 2, 0));
        assert_eq!((ack.oldest_sent_at, ack.newest_sent_at), (Some(at(10)), Some(at(30))));
        assert!(ack.original && !ack.reordered && !ack.retransmitted_data);
    }

    // [RFC8985-6.2-4]
    #[test]
    fn a_segment_sent_once_that_comes_below_another_is_reordered() {
        for (flags, reordered) in [(SegFlags::NONE, true), (SegFlags::EVER_RETRANSMITTED, false)] {
            let mut ack = ack(200);
            ack.take_sacked(&segment(3, 30, SegFlags::NONE), None);
            assert!(ack.sacked_other, "it ends above the limit");
            ack.take_covered(&segment(0, 10, flags), None);
            assert_eq!((ack.reordered, ack.sacked, ack.acked, ack.delivered), (reordered, 1, 1, 2));
        }
    }
}
