//! The sender's view of a flow: what passed the capture, in the order in which it was sent and
//! heard there.
//!
//! Between the capture and the sender may lie a long way and a queue. An ACK that passes reaches
//! the sender later; data that passes was sent before. Both show in a capture:
//!
//! - **TSecr**: data echoes the newest timestamp that the sender had heard (RFC 7323 section 4.3).
//!   ACKs with a newer one came after it was sent.
//! - **TSval** is the sender's clock. A packet that passes later, by that clock, than the quickest
//!   one waited that much longer in queues before the capture.
//!
//! Without timestamps queues before the capture are not known. But if data passed until just before
//! a repetition, its sender was not silent, so that the timer had hardly run out (`flowing`).
//!
//! The least round trip between capture and sender (`near`) is reckoned to the way of the ACKs,
//! queues to that of the data.

use std::collections::VecDeque;

use airtcp_core::convert::signed32;
use airtcp_core::units::{Span, Time};

use crate::decode::Segment;
use crate::flow::{Flow, Passing};

/// The capture is at the sender if both ways together take no longer.
const AT_SENDER: Span = Span::from_ms(1);
/// A queue before the capture counts from here on.
const QUEUE: Span = Span::from_ms(3);
/// An ACK that was not echoed so long after it must have come has come.
const LATEST: Span = Span::from_secs(2);
/// A sender that sent data within this before a repetition was not silent.
const NOT_SILENT: Span = Span::from_ms(50);

/// Timestamp clocks that are in use: nanoseconds of a tick.
const TICKS: [u64; 5] = [1_000, 1_000_000, 4_000_000, 10_000_000, 500_000_000];
/// Ticks before the clock is told.
const ENOUGH_TICKS: u32 = 30;
/// Clocks run apart by a ten-thousandth at most.
const DRIFT_PART: u64 = 10_000;

/// A sender's clock, known by its timestamps: it tells when a packet was sent.
#[derive(Debug, Default)]
struct Clock {
    /// Value and passing of the first one, and ticks since at the last one.
    first: Option<(u32, Time)>,
    ticks: u64,
    tick_ns: Option<u64>,
    /// The least time that passed between the clock's and the capture's, which is only known but
    /// for a constant; and when it was brought up to date.
    least_ns: i64,
    updated: Time,
}

impl Clock {
    /// Time that the packet waited on its way to the capture, beyond the time of the quickest one.
    fn waited(&mut self, now: Time, value: u32) -> Option<Span> {
        let Some((first, began)) = self.first else {
            self.first = Some((value, now));
            return None;
        };
        // Not by more than half of its range, as it goes with long silence.
        let since = signed32(value.wrapping_sub(first.wrapping_add(airtcp_core::convert::low32(self.ticks))));
        let ticks = self.ticks.checked_add_signed(i64::from(since))?;
        self.ticks = self.ticks.max(ticks);
        if self.tick_ns.is_none() && ticks >= u64::from(ENOUGH_TICKS) {
            let measured = now.since(began).as_ns() / ticks;
            // The nearest, if none is more than twice as far away: a queue that builds up stretches
            // the time.
            let tick = TICKS.into_iter().find(|&tick| measured < 2 * tick && 2 * measured > tick)?;
            self.tick_ns = Some(tick);
            (self.least_ns, self.updated) = (i64::MAX, now);
        }
        let tick_ns = self.tick_ns?;
        let passed = i64::try_from(now.since(began).as_ns()).ok()?;
        let offset = passed.checked_sub_unsigned(ticks.checked_mul(tick_ns)?)?;
        let drift = i64::try_from(now.since(self.updated).as_ns() / DRIFT_PART).ok()?;
        self.updated = now;
        self.least_ns = self.least_ns.saturating_add(drift).min(offset);
        // Its clock had moved on by up to a tick.
        let waited = offset - self.least_ns;
        Some(Span::from_ns(waited.unsigned_abs().saturating_sub(tick_ns)))
    }

    fn tick(&self) -> Span {
        Span::from_ns(self.tick_ns.unwrap_or(0))
    }
}

/// A packet on its way to the sender.
#[derive(Debug)]
struct Coming {
    at: Passing,
    segment: Segment,
}

#[derive(Debug, Default)]
pub(crate) struct View {
    clock: Clock,
    coming: VecDeque<Coming>,
    /// When the last event was, at the sender.
    last: Time,
    /// Data waits before the capture.
    queue: Span,
    /// When data last passed.
    passed_at: Time,
}

impl View {
    /// A packet that the flow's sender sent passes.
    pub(crate) fn sent(&mut self, at: &Passing, p: &Segment, flow: &mut Flow) {
        let stamped = p.options.timestamps.and_then(|(value, _)| self.clock.waited(at.seen, value));
        if let Some(waited) = stamped {
            self.queue = if waited > QUEUE + self.clock.tick() { waited } else { Span::ZERO };
        }
        if self.is_at_sender(at) {
            self.hear_all(flow);
            self.last = at.seen;
            flow.on_sent(&Passing { now: at.seen, ..*at }, p);
        } else {
            let now = Time::from_ns(at.seen.as_ns().saturating_sub(self.queue.as_ns())).max(self.last);
            self.hear_until(now, p.options.timestamps.map(|(_, echo)| echo), flow);
            self.last = self.last.max(now);
            let by_clock = stamped.is_some();
            let flowing = at.seen.since(self.passed_at) <= NOT_SILENT.max(flow.round_trip() / 4);
            let slack = self.clock.tick() * 2;
            flow.on_sent(&Passing { now: self.last, near: Span::ZERO, slack, by_clock, flowing, ..*at }, p);
        }
        if p.payload > 0 {
            self.passed_at = at.seen;
        }
    }

    /// A packet that is meant for the flow's sender passes.
    pub(crate) fn heard(&mut self, at: &Passing, p: &Segment, flow: &mut Flow) {
        if self.is_at_sender(at) {
            self.hear_all(flow);
            self.last = at.seen;
            flow.on_ack(&Passing { now: at.seen, ..*at }, p);
            return;
        }
        self.coming.push_back(Coming { at: *at, segment: *p });
        while self
            .coming
            .front()
            .is_some_and(|first| self.coming.len() > at.limits.segments || first.at.seen + at.turn + LATEST < at.seen)
        {
            self.hear(at.seen, flow);
        }
    }

    fn is_at_sender(&self, at: &Passing) -> bool {
        at.turn <= AT_SENDER && self.queue.is_zero()
    }

    /// The first packet on its way arrives, no later than `latest`.
    fn hear(&mut self, latest: Time, flow: &mut Flow) {
        let Some(Coming { at, segment }) = self.coming.pop_front() else { return };
        self.last = self.last.max((at.seen + at.turn).min(latest));
        let (tick, by_clock) = (self.clock.tick(), self.clock.tick_ns.is_some());
        flow.on_ack(&Passing { now: self.last, near: Span::ZERO, slack: tick * 2, by_clock, ..at }, &segment);
    }

    /// Hears the ACKs that had come by `now`, when a packet was sent that echoes `echo`.
    fn hear_until(&mut self, now: Time, echo: Option<u32>, flow: &mut Flow) {
        while let Some(first) = self.coming.front() {
            let due = first.at.seen + first.at.turn;
            let newer = match (echo, first.segment.options.timestamps) {
                (Some(echo), Some((value, _))) => signed32(value.wrapping_sub(echo)),
                _ => 0,
            };
            let come = match newer {
                1.. => due + LATEST < now,
                // Without a clock `turn` may be one of a slow moment; a report that is missed would
                // matter more.
                0 if self.clock.tick_ns.is_none() => first.at.seen + first.at.turn / 2 <= now,
                0 => due <= now + self.clock.tick() * 2,
                _ => true,
            };
            if !come {
                break;
            }
            self.hear(now, flow);
        }
    }

    fn hear_all(&mut self, flow: &mut Flow) {
        while !self.coming.is_empty() {
            self.hear(Time::NEVER, flow);
        }
    }

    /// All that is on its way arrives: nothing follows.
    pub(crate) fn finish(&mut self, flow: &mut Flow) {
        self.hear_all(flow);
    }
}
