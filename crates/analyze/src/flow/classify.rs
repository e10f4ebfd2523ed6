//! Why was it sent again? The rules, in the order in which they are tried.
//!
//! What the sender knew is what had passed the capture on its way to it, `near` earlier. *Prompt* is a repetition within
//! `near`, a quarter of the round trip and 2 ms of the last ACK that said anything new: an answer to it, even of a sender that
//! waits a while for reordering to resolve. *Long* is one whose segment, and the acknowledgement, have stood still for at
//! least nine tenths of the least timeout RFC 6298 allows (SRTT + 4 RTTVAR, without a minimum).
//!
//! 1. After a timeout, below the data that was outstanding then: **repair**, or **timeout** once more if it is the first
//!    unacknowledged segment, long, and not prompt.
//! 2. In fast recovery, below its end: **timeout** if it is the first unacknowledged segment, long, and either not prompt, or
//!    repeated before without a report since of anything sent later. **fast** if three duplicates came after a partial
//!    acknowledgement that was not answered, as Reno does without SACK. Otherwise **recovery**.
//! 3. Reported missing (duplicate ACKs, SACK above it): **fast** if prompt, with fewer than three reports only if not long;
//!    **timeout** if it is the first unacknowledged segment and long; **fast** if within 5/4 of a round trip, as after RACK's
//!    reordering window.
//! 4. Not reported missing: **probe** if it is the last segment outstanding, SACK is in use, and the sender was silent for
//!    at least a round trip but not for its estimated timeout; **timeout** if it is the first unacknowledged segment and long.
//! 5. **unknown**.
//!
//! A tail loss probe of a flight of one segment that comes no sooner than the timeout would (in Linux: a round trip below
//! about 200 ms) looks like a timeout, and is called one.
//!
//! What fills a gap, that is bytes the capture had not seen when later ones came, is either a repetition of what was lost
//! before the capture or was overtaken. It is a repetition if its timestamp is newer than that of the segment behind the gap,
//! overtaken if older; if they are equal or missing, the IP identification decides where the flow's grows in small steps; else
//! time: a repetition cannot come before the report of the gap has reached the sender (`near`; half a round trip, at most 5 ms,
//! if that is not known), nor without any report unless a timeout could have fired.

use super::*;
use crate::decode::Segment;
use crate::ring::{NONE, Sent, marks};

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
    pub fn name(self) -> &'static str {
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
    pub fn reason(self) -> &'static str {
        match self {
            Spurious::Dsack => "DSACK",
            Spurious::Acknowledged => "acknowledged before it passed",
            Spurious::Echo => "the ACK echoes an earlier timestamp",
            Spurious::TooSoon => "acknowledged sooner than any round trip",
            Spurious::BothCopies => "both copies came to the receiver",
        }
    }
}

const PROMPT_NS: u64 = 2_000_000;
/// Reports that make a loss in the absence of anything cleverer (RFC 5681).
const THRESHOLD: u32 = 3;
/// IP identifications tell the order if at least so many of 16 steps are small ones.
const ORDERLY_STEPS_OF_16: u32 = 14;
const REORDERING_NS: u64 = 5_000_000;

/// What was known when a segment was repeated.
struct Facts {
    /// It is the first unacknowledged one.
    first: bool,
    /// It is the last one sent.
    last: bool,
    prompt: bool,
    long: bool,
    /// Since the last ACK that said anything new, and since anything was sent or reported.
    quiet_ns: u64,
    silent_ns: u64,
    round_trip_ns: u64,
    rto_ns: u64,
    /// SACKed above it.
    above: u32,
    resent_before: bool,
    /// Something sent after it was last sent has been reported.
    overtaken: bool,
}

impl Flow {
    /// Data is repeated: bytes `start` to `end`. `copy`: the capture shows what it repeats.
    pub(super) fn on_repetition(&mut self, at: &Passing, start: u64, end: u64, bytes: u32, copy: bool) {
        let original: Option<Sent> = self.ring.within(start, end).next().copied();
        let waited_ns = at.ns.saturating_sub(original.map_or(self.sent_ns, |s| s.last_ns));
        let delivered = end <= self.una || self.ring.within(start, end).all(|s| s.has(marks::SACKED));
        let facts = self.facts(at, start, end, original.as_ref());
        let (class, reason) = self.class(start, &facts);
        let reported = self.dup_acks > 0 || facts.above > 0;
        let row = Retransmitted {
            ns: at.ns,
            packet: at.packet,
            start,
            bytes,
            class,
            reason,
            spurious: delivered.then_some(Spurious::Acknowledged),
            waited_ns,
            dup_acks: self.dup_acks,
            flight_segments: self.flight_segments(),
            rto_ns: self.rtt.rto_ns(at.near_ns),
            unprovoked_copy: copy && !reported,
        };
        self.loss_behind |= copy && reported && !delivered;
        self.counts.spurious += u64::from(delivered);
        self.retransmissions.push_back(row);
        self.count(class);
        match class {
            Class::Timeout => self.on_timeout(at, &row),
            Class::Fast => {
                self.state = State::Recovery { high: self.max, partial: false };
                self.round_flight = 0;
                if facts.first {
                    self.what_if.reset();
                }
            }
            _ if facts.first => self.what_if.reset(),
            _ => {}
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
        let found_ns = self.what_if.found_before(at.ns);
        let window_segments = self.window_segments();
        self.counts.timeouts_by_dup[self.dup_acks.min(THRESHOLD) as usize] += 1;
        for (avoided, found) in self.counts.avoided.iter_mut().zip(found_ns) {
            *avoided += u64::from(found.is_some());
        }
        self.timeouts.push(TimedOut {
            ns: at.ns,
            packet: at.packet,
            waited_ns: row.waited_ns,
            dup_acks: row.dup_acks,
            flight_segments: row.flight_segments,
            window_segments,
            found_ns,
        });
        self.state = State::Loss { high: self.max };
        self.dup_acks = 0;
        self.round_flight = 0;
    }

    fn flight_segments(&self) -> u32 {
        let mss = u64::from(self.mss());
        self.ring.outstanding().map(|s| s.len().div_ceil(mss)).sum::<u64>().min(u64::from(u32::MAX)) as u32
    }

    fn facts(&self, at: &Passing, start: u64, end: u64, original: Option<&Sent>) -> Facts {
        let since = |ns: u64| at.ns.saturating_sub(ns);
        let quiet_ns = since(self.reported_ns.max(self.advanced_ns));
        let round_trip_ns = self.rtt.srtt_ns() + at.near_ns;
        let sent_ns = original.map_or(self.sent_ns, |s| s.last_ns);
        let still_ns = since(self.advanced_ns.max(self.flight_began_ns).max(sent_ns));
        Facts {
            first: start <= self.una,
            last: end >= self.max,
            prompt: quiet_ns <= at.near_ns + round_trip_ns / 4 + PROMPT_NS,
            long: still_ns >= self.rtt.rto_least_ns(at.near_ns) / 10 * 9,
            quiet_ns,
            silent_ns: quiet_ns.min(since(self.sent_ns)),
            round_trip_ns,
            rto_ns: self.rtt.rto_ns(at.near_ns),
            above: if self.sack { self.ring.sacked_above(end) } else { 0 },
            resent_before: original.is_some_and(|s| s.has(marks::RESENT)),
            overtaken: original.is_some_and(|s| self.newest_delivered.order > s.order),
        }
    }

    fn class(&self, start: u64, f: &Facts) -> (Class, &'static str) {
        match self.state {
            State::Loss { high } if start < high => {
                if f.first && f.long && !f.prompt {
                    (Class::Timeout, "the timeout again, backed off")
                } else {
                    (Class::Repair, "outstanding when the timeout fired")
                }
            }
            State::Recovery { high, partial } if start < high => {
                if f.first && f.long && !f.prompt {
                    (Class::Timeout, "nothing reported for a timeout, in fast recovery")
                } else if f.first && f.long && f.resent_before && !f.overtaken {
                    (Class::Timeout, "the fast retransmission was lost")
                } else if !self.sack && partial && f.first && !f.resent_before && self.dup_acks >= THRESHOLD {
                    (Class::Fast, "three duplicate ACKs after an unanswered partial ACK")
                } else {
                    (Class::Recovery, "in fast recovery")
                }
            }
            _ if self.dup_acks > 0 || f.above > 0 => self.class_of_reported(f),
            _ => self.class_of_unreported(f),
        }
    }

    fn class_of_reported(&self, f: &Facts) -> (Class, &'static str) {
        let reports = self.dup_acks.max(f.above);
        if f.prompt && reports >= THRESHOLD {
            (Class::Fast, if f.above > 0 { "SACKed above it" } else { "three duplicate ACKs" })
        } else if f.prompt && !f.long {
            (Class::Fast, "prompt after fewer than three duplicate ACKs")
        } else if f.first && f.long {
            (
                Class::Timeout,
                if reports >= THRESHOLD { "too late for its duplicate ACKs" } else { "too few duplicate ACKs" },
            )
        } else if f.quiet_ns <= f.round_trip_ns + f.round_trip_ns / 4 + PROMPT_NS {
            (Class::Fast, "within a round trip of a report above it")
        } else {
            (Class::Unknown, "reported missing, but neither at once nor after a timeout")
        }
    }

    fn class_of_unreported(&self, f: &Facts) -> (Class, &'static str) {
        let rto = f.rto_ns / 10 * 9;
        if f.last && self.sack && !f.resent_before && f.silent_ns >= f.round_trip_ns && f.silent_ns < rto {
            (Class::Probe, "the last segment, after silence shorter than a timeout")
        } else if f.first && f.long {
            (Class::Timeout, "nothing reported for a timeout")
        } else {
            (Class::Unknown, "neither reported missing nor after a timeout")
        }
    }

    /// Whether what fills a gap was sent again; else it was overtaken.
    pub(super) fn late_is_repetition(&self, at: &Passing, p: &Segment, start: u64, end: u64) -> bool {
        let gap = self.ring.within(start, end).next().copied();
        let behind = self.ring.within(start, self.max).find(|s| !s.has(marks::UNSEEN)).copied();
        let (Some(gap), Some(behind)) = (gap, behind) else { return false };
        if let (Some((stamp, _)), true) = (p.options.timestamps, behind.first_stamp != 0) {
            let newer = stamp.wrapping_sub(behind.first_stamp) as i32;
            if newer != 0 {
                return newer > 0;
            }
        }
        let (small, other) = self.ip_id_steps;
        if let (Some(id), true) = (p.ip_id, small >= ORDERLY_STEPS_OF_16 && small / ORDERLY_STEPS_OF_16 > other) {
            let newer = id.wrapping_sub(behind.ip_id) as i16;
            if newer != 0 {
                return newer > 0;
            }
        }
        let age = at.ns.saturating_sub(gap.last_ns);
        let reported = self.dup_acks > 0 || self.ring.sacked() > 0;
        let report_takes = match at.near_ns {
            0 => (self.rtt.srtt_ns() / 2).min(REORDERING_NS),
            near => near / 10 * 9,
        };
        age >= report_takes && (reported || age >= self.rtt.rto_least_ns(at.near_ns) / 10 * 9)
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
