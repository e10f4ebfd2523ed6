//! Why was it sent again? The rules, in the order in which they are tried.
//!
//! The sender's knowledge comes from `view`; all times are the sender's. A repetition is *prompt*
//! within a quarter of the round trip and 2 ms of the last ACK with news. It answers that ACK, even
//! if the sender waits a while for reordering to resolve. Away from the sender it is prompt, too,
//! and no timeout, if data flowed until just before it: a timer ends silence. The *timer* may have
//! run out if the acknowledgement has stood still for nine tenths of the least timeout of RFC 6298.
//! That timeout is SRTT + 4 RTTVAR, without a minimum. Its minimum is 200 ms where losses were
//! reported and the capture is not at the sender: repetitions wait in queues on their way there.
//! With SACK and losses reported, the timer may also have run out a full timeout after the first
//! segment was sent. Linux counts from there where a tail loss probe was due. A
//! *timeout* repeats the first unacknowledged segment when the timer may have run out and there is
//! no fresh reason. A fresh reason is a third report within the prompt time, or the first report of
//! something sent clearly later. For a segment that was repeated before, it is the report of
//! anything sent later. A sender that had its reason for longer and did nothing does not act on it.
//!
//! 1. After a timeout, until the data that was outstanding then is acknowledged: **timeout** as
//!    above, but not within 5/4 of a round trip of the segment's last sending, as a timeout starts
//!    the timer anew. If it is the first segment and three reports are in hand then, and nothing
//!    sent later has arrived, the sender has taken the timeout back (F-RTO): **fast**. Else
//!    **repair**.
//! 2. In fast recovery, likewise: **timeout** as above; **fast** if three duplicates came after a
//!    partial acknowledgement that was not answered, as with Reno; else **recovery**.
//! 3. Reported missing (duplicate ACKs, SACK above it): **timeout** as above; **fast** if prompt,
//!    or within 5/4 of a round trip of the last report, as after RACK's reordering window;
//!    **timeout** of the first unacknowledged segment later than that.
//! 4. Not reported missing: **probe** if it is the last segment outstanding, SACK is in use, and
//!    the sender was silent for at least a round trip but not for its estimated timeout;
//!    **timeout** as above; **fast** if something sent after an earlier repetition has just
//!    arrived; **timeout** of the first unacknowledged segment after 5/4 of a round trip of
//!    silence, as coarse clocks have it.
//! 5. **unknown**.
//!
//! Fast recovery lasts until what had been sent when it began is acknowledged. It begins with the
//! ACK that brings the third report, or with the one that ends the recovery before if something is
//! still taken for lost (`look_for_recovery`). Its first repetition may come later. That one is
//! **fast**, also if its own loss is not reported.
//!
//! After an ACK that shows the first repetition of 1 or 2 to have been needless, reported losses go
//! by 3: Linux is then out of it (RFC 3522).
//!
//! A tail loss probe of a flight of one segment that comes no sooner than the timeout would (in
//! Linux: a round trip below about 200 ms) looks like a timeout, and is called one.
//!
//! A gap is bytes that the capture had not seen when later ones came. Data that fills it is either
//! a repetition of data lost before the capture, or was overtaken. It is a repetition if its
//! timestamp is newer than that of the segment behind the gap, overtaken if older. If they are
//! equal or missing, the IP identification decides, provided the flow's grows in small steps. Else
//! time decides: a repetition cannot come before the report of the gap has reached the sender.
//! Without any report a timeout must have been possible. The report takes `near`, or half a round
//! trip and at most 5 ms if that is not known.

use airtcp_core::convert::{saturate32, signed16, signed32};
use airtcp_core::units::{Span, Time};

use super::{Flow, Passing, Retransmitted, State, TimedOut};
use crate::decode::Segment;
use crate::send_history::{Marks, NONE, Sent};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Fast,
    Recovery,
    Timeout,
    Repair,
    Probe,
    Unknown,
}

impl Class {
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Fast => "fast",
            Class::Recovery => "recovery",
            Class::Timeout => "timeout",
            Class::Repair => "repair",
            Class::Probe => "probe",
            Class::Unknown => "unknown",
        }
    }
}

/// How it showed that a repetition was not needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spurious {
    Dsack,
    Acknowledged,
    Echo,
    TooSoon,
    BothCopies,
}

impl Spurious {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Spurious::Dsack => "DSACK",
            Spurious::Acknowledged => "acknowledged before it passed",
            Spurious::Echo => "the ACK echoes an earlier timestamp",
            Spurious::TooSoon => "acknowledged sooner than any round trip",
            Spurious::BothCopies => "both copies came to the receiver",
        }
    }
}

const PROMPT: Span = Span::from_ms(2);
const AT_ONCE: Span = Span::from_ms(1);
/// Timers run out so much later than they are set to.
const TIMER_TICKS: Span = Span::from_ms(20);
/// Reports that make a loss in the absence of anything cleverer (RFC 5681).
const THRESHOLD: u32 = 3;
/// IP identifications tell the order if at least so many of 16 steps are small ones.
const ORDERLY_STEPS_OF_16: u32 = 14;
const REORDERING: Span = Span::from_ms(5);

/// Facts known when a segment was repeated.
struct Facts {
    /// It is the first unacknowledged one.
    first: bool,
    /// It is the last one sent.
    last: bool,
    prompt: bool,
    /// The retransmission timer may have run out, and there is no fresh reason.
    timed_out: bool,
    fresh: bool,
    /// Since the last ACK that said anything new, and since anything was sent or reported.
    quiet: Span,
    silent: Span,
    round_trip: Span,
    rto: Span,
    /// SACKed above it; no more than make a loss are counted.
    above: u32,
    resent_before: bool,
    /// After a timeout it is repeated once more within a round trip, as an ACK comes.
    taken_back: bool,
}

impl Flow {
    /// Data is repeated: bytes `start` to `end`. `copy`: the capture shows what it repeats.
    pub(super) fn on_repetition(&mut self, at: &Passing, start: u64, end: u64, bytes: u32, copy: bool) {
        let original: Option<Sent> = self.history.within(start, end).next().copied();
        let waited = at.now.since(original.map_or(self.sent_at, |s| s.last_at));
        let delivered = end <= self.una || self.history.within(start, end).all(|s| s.has(Marks::SACKED));
        let facts = self.facts(at, start, end, original.as_ref());
        let (class, reason) = self.class(&facts);
        let reported = self.dup_acks > 0 || facts.above > 0;
        let row = Retransmitted {
            at: at.seen,
            packet: at.packet,
            start,
            bytes,
            class,
            reason,
            spurious: delivered.then_some(Spurious::Acknowledged),
            waited,
            dup_acks: self.dup_acks,
            flight_segments: self.flight_segments(),
            rto: self.rtt.rto(at.near),
            unprovoked_copy: copy && !reported,
        };
        self.loss_behind |= copy && reported && !delivered;
        self.counts.spurious += u64::from(delivered);
        self.retransmissions.push_back(row);
        self.count(class);
        // Elsewhere, and without the sender's clock, it is not known which data had been sent when
        // an ACK came. Data that passes before the first repetition was sent before it.
        let is_known = at.turn <= AT_ONCE || at.by_clock;
        let high = self.known_lost.take().filter(|_| is_known).unwrap_or(self.max);
        self.limit_of_repetition(at, matches!(class, Class::Timeout | Class::Probe));
        match class {
            Class::Timeout => self.on_timeout(at, &row),
            Class::Fast => {
                self.state = State::Recovery { high, partial: false, undone: false };
                self.round_flight = 0;
            }
            _ => {}
        }
        if facts.first {
            self.what_if.reset();
            self.overtaken_at = None;
            self.overtaken_clearly_at = None;
        }
    }

    fn count(&mut self, class: Class) {
        let counts = &mut self.counts;
        counts.retransmitted_packets += 1;
        *match class {
            Class::Fast => &mut counts.fast,
            Class::Recovery => &mut counts.recovery,
            Class::Timeout => &mut counts.timeouts,
            Class::Repair => &mut counts.repair,
            Class::Probe => &mut counts.probes,
            Class::Unknown => &mut counts.unknown,
        } += 1;
    }

    fn on_timeout(&mut self, at: &Passing, row: &Retransmitted) {
        let mut found_at = self.what_if.found_before(at.now);
        // Beside the receiver, and without the sender's clock, what the sender knew and when is
        // guesswork.
        if !at.by_clock && self.far.min().is_some_and(|far| at.turn > far * 4) {
            found_at = Default::default();
            self.counts.untold += 1;
        }
        let window_segments = self.window_segments();
        self.counts.timeouts_by_dup[self.dup_acks.min(THRESHOLD) as usize] += 1;
        for (avoided, found) in self.counts.avoided.iter_mut().zip(found_at) {
            *avoided += u64::from(found.is_some());
        }
        self.timeouts.push(TimedOut {
            at: at.seen,
            packet: at.packet,
            waited: row.waited,
            dup_acks: row.dup_acks,
            flight_segments: row.flight_segments,
            window_segments,
            found_at,
        });
        self.state = State::Loss { high: self.max, partial: false, undone: false };
        self.dup_acks = 0;
        self.round_flight = 0;
    }

    fn flight_segments(&mut self) -> u32 {
        let mss = self.mss();
        saturate32(self.history.outstanding_segments(mss))
    }

    fn facts(&self, at: &Passing, start: u64, end: u64, original: Option<&Sent>) -> Facts {
        let since = |time: Time| at.now.since(time);
        let above = if self.sack { self.history.sacked_above(end, THRESHOLD) } else { 0 };
        let quiet = since(self.reported_at.max(self.advanced_at));
        let round_trip = self.rtt.srtt() + at.near;
        let prompt_within = at.near + round_trip / 4 + PROMPT + at.slack;
        let first = start <= self.una;
        let resent_before = original.is_some_and(|s| s.has(Marks::RESENT));
        let at_once = at.near + round_trip / 64 + AT_ONCE + at.slack;
        let fresh = if resent_before {
            // Only with SACK can a sender know that a repetition was lost, and then there is
            // nothing to wait for.
            let reasons = [self.overtaken_at, self.overtaken_clearly_at];
            self.sack && reasons.into_iter().flatten().any(|time| since(time) <= at_once)
        } else {
            let allowed = if self.sack { prompt_within } else { at_once };
            // Or something sent clearly later has just arrived, as a tail loss probe.
            self.third_report_at.is_some_and(|time| since(time) <= allowed)
                || (self.sack && self.overtaken_clearly_at.is_some_and(|time| since(time) <= at_once))
        };
        let still = since(self.advanced_at.max(self.flight_began_at));
        let reported = self.dup_acks > 0 || above > 0;
        // Away from the sender a repetition may have waited in queues on its way here: with a
        // report in hand only the usual least timeout counts against that.
        let least = if reported && at.turn > AT_ONCE && !at.by_clock {
            self.rtt.rto(at.near)
        } else {
            self.rtt.rto_least(at.near)
        };
        let timer_ran = still >= least / 10 * 9;
        // Not an answer to anything, and at the time the timer is expected.
        let rto = self.rtt.rto(at.near);
        let on_time = quiet > at_once && still >= rto / 20 * 19;
        // Where a tail loss probe was due the timeout counts from when the first segment was sent,
        // which is before the last advance (`tcp_rearm_rto` of Linux since 3.10).
        let age = original.map_or(Span::ZERO, |s| since(s.last_at));
        let by_age = self.sack
            && reported
            && !resent_before
            && quiet > at_once
            && age >= rto / 20 * 19
            && age <= rto + TIMER_TICKS;
        // A timeout starts the timer anew.
        let just_repeated =
            resent_before && matches!(self.state, State::Loss { .. }) && age < round_trip + round_trip / 4;
        Facts {
            first,
            last: end >= self.max,
            prompt: quiet <= prompt_within || at.flowing,
            fresh,
            timed_out: first
                && !just_repeated
                && (timer_ran && (!fresh || on_time) || by_age && !fresh)
                && !(at.flowing && reported),
            taken_back: first && just_repeated && !fresh && quiet <= at_once,
            quiet,
            silent: quiet.min(since(self.sent_at)),
            round_trip,
            rto,
            above,
            resent_before,
        }
    }

    fn class(&self, f: &Facts) -> (Class, &'static str) {
        let reported = self.dup_acks > 0 || f.above > 0;
        match self.state {
            State::Loss { undone, .. } if !(undone && reported) => {
                if f.timed_out {
                    (Class::Timeout, "the timeout again")
                } else if f.taken_back && self.dup_acks.max(f.above) >= THRESHOLD {
                    (Class::Fast, "reported missing after a timeout that was taken back")
                } else {
                    (Class::Repair, "outstanding when the timeout fired")
                }
            }
            State::Recovery { partial, undone, .. } if !(undone && reported) => {
                if f.timed_out {
                    (Class::Timeout, "no fresh report for a timeout, in fast recovery")
                } else if !self.sack && partial && f.first && !f.resent_before && self.dup_acks >= THRESHOLD {
                    (Class::Fast, "three duplicate ACKs after an unanswered partial ACK")
                } else {
                    (Class::Recovery, "in fast recovery")
                }
            }
            _ if reported => self.class_of_reported(f),
            _ if self.known_lost.is_some() && !f.timed_out => (Class::Fast, "losses were known when recovery ended"),
            _ => self.class_of_unreported(f),
        }
    }

    fn class_of_reported(&self, f: &Facts) -> (Class, &'static str) {
        let reports = self.dup_acks.max(f.above);
        if f.timed_out {
            (
                Class::Timeout,
                if reports >= THRESHOLD { "too late for its duplicate ACKs" } else { "too few duplicate ACKs" },
            )
        } else if f.prompt && reports >= THRESHOLD {
            (Class::Fast, if f.above > 0 { "SACKed above it" } else { "three duplicate ACKs" })
        } else if f.prompt {
            (Class::Fast, "prompt after fewer than three duplicate ACKs")
        } else if f.quiet <= f.round_trip + f.round_trip / 4 + PROMPT {
            (Class::Fast, "within a round trip of a report above it")
        } else if f.first {
            (Class::Timeout, "long after its duplicate ACKs")
        } else {
            (Class::Unknown, "reported missing, but neither at once nor after a timeout")
        }
    }

    fn class_of_unreported(&self, f: &Facts) -> (Class, &'static str) {
        let rto = f.rto / 10 * 9;
        if f.last && self.sack && !f.resent_before && f.silent >= f.round_trip && f.silent < rto {
            (Class::Probe, "the last segment, after silence shorter than a timeout")
        } else if f.timed_out {
            (Class::Timeout, "nothing reported for a timeout")
        } else if f.resent_before && f.fresh {
            (Class::Fast, "something sent after its repetition has arrived")
        } else if f.first && f.silent > f.round_trip + f.round_trip / 4 + PROMPT {
            (Class::Timeout, "after silence, sooner than RFC 6298 has it")
        } else {
            (Class::Unknown, "neither reported missing nor after a timeout")
        }
    }

    /// True if data that fills a gap was sent again; else it was overtaken.
    pub(super) fn late_is_repetition(&self, at: &Passing, p: &Segment, start: u64, end: u64) -> bool {
        let gap = self.history.within(start, end).next().copied();
        let behind = self.history.within(start, self.max).find(|s| !s.has(Marks::UNSEEN)).copied();
        let (Some(gap), Some(behind)) = (gap, behind) else { return false };
        if let (Some((stamp, _)), true) = (p.options.timestamps, behind.first_stamp != 0) {
            let newer = signed32(stamp.wrapping_sub(behind.first_stamp));
            if newer != 0 {
                return newer > 0;
            }
        }
        let (small, other) = self.ip_id_steps;
        if let (Some(id), true) = (p.ip_id, small >= ORDERLY_STEPS_OF_16 && small / ORDERLY_STEPS_OF_16 > other) {
            let newer = signed16(id.wrapping_sub(behind.ip_id));
            if newer != 0 {
                return newer > 0;
            }
        }
        let age = at.now.since(gap.last_at);
        let reported = self.dup_acks > 0 || self.history.sacked() > 0;
        let report_takes = if at.turn.is_zero() { (self.rtt.srtt() / 2).min(REORDERING) } else { at.turn / 10 * 9 };
        age >= report_takes && (reported || age >= self.rtt.rto_least(at.near) / 10 * 9)
    }

    /// The last retransmission of these bytes was not needed.
    pub(super) fn mark_spurious(&mut self, row: u32, why: Spurious) {
        if row == NONE {
            return;
        }
        let index = row.wrapping_sub(self.first_row) as usize;
        if let Some(found) = self.retransmissions.get_mut(index).filter(|r| r.spurious.is_none()) {
            found.spurious = Some(why);
            self.counts.spurious += 1;
        }
    }
}
