//! Delay: gives MPDUs up, as soon as they fail, at a pace that a measured delay sets: CoDel's law
//! across the air.
//!
//! Source: our own, with the control law of RFC 8289 and the timestamps of RFC 7323. The study
//! `ap-retry-out` does not have it.
//!
//! It measures the delay at the access point alone, without clocks to agree. A packet goes down to
//! the station with TSval `v`; the station's segments made after it carry TSecr `v`. Between the
//! two passes the time in the station's queue and on the air, and nothing else. While the least of
//! these delays stays above `target` for an `interval`, one MPDU is given up at `index` retries.
//! The next follows not before `interval / sqrt(n)` later, where n counts them; a queue discipline
//! would run the same law on the station itself. Below the target nothing is given up, whatever the
//! rate. So a station that sends little, or has an AQM of its own, is left alone. A station that
//! its neighbours slow down is not.
//!
//! Two rules tell a queue from an application's pause. An echo counts only when at least `backlog`
//! segments of its connection came up since `v` went down. By Little's law they are the queue that
//! it went through. Waiting is counted from no earlier than the end of the station's last silence
//! of an `interval`, which ends the state of dropping too.
//!
//! Siblings: `stepped` takes a low MAC rate as a sign of a long queue, and `fixed` measures
//! nothing.
//!
//! Valid: for connections with timestamps (the others neither steer nor are spared) and delayed
//! ACKs well below `target`.
//!
//! Memory is bounded: the 4 connections heard of last, and for each the 32 latest timestamps, taken
//! at least `target / 8` apart. An echo older than all of those is known to be at least as late as
//! the oldest, and the law asks no more. Between two timestamps kept, the measured delay is too
//! long by less than their distance, which the least over an interval hides.
//!
//! Deviations: from CoDel: the give-up acts on one MPDU of the station, not on the head of a queue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RetryOut;
use crate::convert::signed32;
use crate::policy::checked;
use crate::queue::codel::CodelParams;
use crate::range::within;
use crate::units::{DataRate, Span, Time};

/// Connections of a station that are measured at a time.
const FLOWS: usize = 4;
/// Timestamps kept for each: with `target / 8` between them they reach back four targets.
const PROBES: usize = 32;

/// Parameters of the choice by delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "DelayRetryOutConfig")]
pub struct DelayConfig {
    /// Acceptable delay from a packet's arrival at the station to that of its echo. Above zero,
    /// below `interval`. 50 ms: the time of about ten aggregates of the longest duration (5.484
    /// ms, IEEE 802.11-2020 table 19-25). So aggregation never counts as a queue. The study
    /// measured ten times as much.
    pub target: Span,
    /// Time for which the delay must stay above target before an MPDU is given up. RFC 8289: 100
    /// ms.
    pub interval: Span,
    /// Estimated retries of an MPDU that may be given up; 0: one corrupt copy is enough. The law
    /// sets the pace. So a larger index only makes it wait for an MPDU that fails more often.
    #[schemars(range(max = 255))]
    pub index: u32,
    /// Segments that must come up between a timestamp and its echo for the delay to count as a
    /// queue. At least 1. 4: as many as an initial window of old.
    #[schemars(range(min = 1))]
    pub backlog: u32,
}

impl Default for DelayConfig {
    fn default() -> Self {
        DelayConfig { target: Span::from_ms(50), interval: Span::from_ms(100), index: 0, backlog: 4 }
    }
}

impl DelayConfig {
    fn check(&self) -> Result<(), String> {
        CodelParams::check(self.target, self.interval)?;
        within("index", self.index, 0..=255, "estimated retries")?;
        if self.backlog == 0 {
            return Err("`backlog` = 0: must be at least 1 (segments)".into());
        }
        Ok(())
    }

    /// The choice for one station, at the beginning.
    pub fn build(&self, _: &()) -> Delay {
        Delay {
            law: CodelParams { target: self.target, interval: self.interval, mtu: 0, ecn: false, ce_threshold: None },
            index: self.index,
            backlog: self.backlog,
            flows: Vec::with_capacity(FLOWS),
            heard_at: None,
            busy_since: Time::ZERO,
            delay: None,
            first_above: Time::NEVER,
            dropping: false,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
        }
    }
}
checked!(DelayConfig);

/// A timestamp that went down.
#[derive(Debug, Clone, Copy, Default)]
struct Probe {
    ts_val: u32,
    at: Time,
    /// [`Flow::came_up`] then.
    came_up: u32,
}

#[derive(Debug, Clone)]
struct Flow {
    id: u32,
    /// When it was last seen, up or down.
    seen_at: Time,
    /// Segments that came up so far, modulo 2^32.
    came_up: u32,
    /// A ring: `len` probes, the oldest at `first`.
    probes: [Probe; PROBES],
    first: usize,
    len: usize,
}

impl Flow {
    fn new(id: u32, now: Time) -> Flow {
        Flow { id, seen_at: now, came_up: 0, probes: [Probe::default(); PROBES], first: 0, len: 0 }
    }

    /// The `i`th oldest.
    fn probe(&self, i: usize) -> Probe {
        self.probes[(self.first + i) % PROBES]
    }

    fn push(&mut self, probe: Probe) {
        if self.len == PROBES {
            self.first = (self.first + 1) % PROBES;
            self.len -= 1;
        }
        self.probes[(self.first + self.len) % PROBES] = probe;
        self.len += 1;
    }

    /// The newest probe that the station had when it made a segment echoing `ts_ecr`; the oldest
    /// there is if it had none of them yet: its delay is a lower bound of the segment's.
    fn probe_for(&self, ts_ecr: u32) -> Option<Probe> {
        let newest = (0..self.len).rev().map(|i| self.probe(i)).find(|p| !is_later(p.ts_val, ts_ecr));
        newest.or_else(|| (self.len > 0).then(|| self.probe(0)))
    }
}

/// RFC 7323 section 5.2: timestamps are compared modulo 2^32.
fn is_later(a: u32, b: u32) -> bool {
    signed32(a.wrapping_sub(b)) > 0
}

/// The choice by delay, as one station has it.
#[derive(Debug, Clone)]
pub struct Delay {
    law: CodelParams,
    index: u32,
    backlog: u32,
    flows: Vec<Flow>,
    /// Time of the last reception from the station.
    heard_at: Option<Time>,
    /// End of its last silence of an interval.
    busy_since: Time,
    /// The latest measurement.
    delay: Option<Span>,
    /// Time at which the delay has been above target for an interval; [`Time::NEVER`] while it is
    /// below.
    first_above: Time,
    dropping: bool,
    /// While dropping: time of the next give-up at the earliest.
    drop_next: Time,
    /// MPDUs given up in this state of dropping, added to the count remembered from the one before.
    count: u32,
    /// `count` when this state began.
    last_count: u32,
}

impl Delay {
    fn flow(&mut self, now: Time, id: u32) -> &mut Flow {
        let found = self.flows.iter().position(|f| f.id == id);
        let i = found.unwrap_or_else(|| {
            if self.flows.len() < FLOWS {
                self.flows.push(Flow::new(id, now));
                return self.flows.len() - 1;
            }
            let (i, _) = self.flows.iter().enumerate().min_by_key(|(_, f)| f.seen_at).unwrap_or((0, &self.flows[0]));
            self.flows[i] = Flow::new(id, now);
            i
        });
        let flow = &mut self.flows[i];
        flow.seen_at = now;
        flow
    }

    fn is_above(&self, now: Time) -> bool {
        !self.first_above.is_never() && now >= self.first_above
    }

    fn on_delay(&mut self, now: Time, delay: Span) {
        self.delay = Some(delay);
        if delay < self.law.target {
            self.first_above = Time::NEVER;
            self.dropping = false;
        } else if self.first_above.is_never() {
            self.first_above = now + self.law.interval;
        }
    }
}

impl RetryOut for Delay {
    fn on_ampdu(&mut self, now: Time, _rate: DataRate) {
        if self.heard_at.is_none_or(|at| now.since(at) >= self.law.interval) {
            self.busy_since = now;
            self.first_above = Time::NEVER;
            self.dropping = false;
        }
        self.heard_at = Some(now);
    }

    fn on_down(&mut self, now: Time, flow: u32, ts_val: u32) {
        if ts_val == 0 {
            return; // no timestamps
        }
        let spacing = Span::from_ns(self.law.target.as_ns() / 8);
        let flow = self.flow(now, flow);
        let last = (flow.len > 0).then(|| flow.probe(flow.len - 1));
        if last.is_none_or(|p| is_later(ts_val, p.ts_val) && now.since(p.at) >= spacing) {
            let came_up = flow.came_up;
            flow.push(Probe { ts_val, at: now, came_up });
        }
    }

    fn on_up(&mut self, now: Time, flow: u32, ts_ecr: u32) {
        if ts_ecr == 0 {
            return;
        }
        let (busy_since, backlog) = (self.busy_since, self.backlog);
        let flow = self.flow(now, flow);
        let before = flow.came_up;
        flow.came_up = before.wrapping_add(1);
        if let Some(probe) = flow.probe_for(ts_ecr) {
            let queue = before.wrapping_sub(probe.came_up);
            let waited = now.since(probe.at.max(busy_since));
            self.on_delay(now, if queue >= backlog { waited } else { Span::ZERO });
        }
    }

    fn index(&mut self, now: Time) -> Option<u32> {
        (self.is_above(now) && !(self.dropping && now < self.drop_next)).then_some(self.index)
    }

    fn on_given_up(&mut self, now: Time) {
        if self.dropping {
            self.count = self.count.saturating_add(1);
        } else {
            // As RFC 8289 section 5.5: soon after the last state of dropping the pace starts from
            // the one that brought the delay down.
            let learned = self.count - self.last_count;
            let recent = now.since(self.drop_next) < self.law.interval.saturating_mul(16);
            self.count = if learned > 1 && recent { learned } else { 1 };
            self.last_count = self.count;
            self.dropping = true;
        }
        // The next time counts from now, not from the time allowed: errors choose the instant, and
        // TCP takes a burst of losses as one.
        self.drop_next = self.law.control_law(now, self.count);
    }

    fn delay(&self) -> Option<Span> {
        self.delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(t: u64) -> Time {
        Time::from_ns(t * 1_000_000)
    }

    /// A station that sends a segment every `every` ms, from `from` to `until` ms, which echoes the
    /// timestamp of `queue` ms before. An ACK goes down every 5 ms, with a clock of 1 ms that
    /// starts at `clock`. An MPDU may be given up every ms; `run` returns the times.
    struct Station {
        policy: Delay,
        clock: u32,
        every: u64,
    }

    impl Station {
        fn new() -> Station {
            Station { policy: DelayConfig::default().build(&()), clock: 1, every: 2 }
        }

        fn run(&mut self, from: u64, until: u64, queue: u64) -> Vec<u64> {
            let mut given_up = Vec::new();
            for t in from..until {
                if t % 5 == 0 {
                    self.policy.on_down(ms(t), 7, self.clock.wrapping_add(t as u32));
                }
                if t % self.every == 0 && t >= from + queue {
                    self.policy.on_ampdu(ms(t), DataRate::from_mbps(6));
                    let told = (t - queue) / 5 * 5;
                    self.policy.on_up(ms(t), 7, self.clock.wrapping_add(told as u32));
                }
                if self.policy.index(ms(t)).is_some() {
                    self.policy.on_given_up(ms(t));
                    given_up.push(t);
                }
            }
            given_up
        }
    }

    #[test]
    fn gives_up_by_codels_law_while_the_delay_stays_above_target() {
        // The first echo, of what went down at 0 ms, comes at 80 ms. Nothing counts as a queue
        // until four
        // segments came up after a timestamp went down, nor for more than the time since the
        // station was first heard: 50 ms of that at 130 ms. Then an interval, and 100 ms / sqrt(n).
        assert_eq!(Station::new().run(0, 800, 80), [230, 330, 401, 459, 509, 554, 595, 633, 669, 703, 735, 766, 795]);
    }

    #[test]
    fn a_delay_beyond_the_timestamps_kept_is_known_to_be_above() {
        assert_eq!(Station::new().run(0, 2500, 2000), [2150, 2250, 2321, 2379, 2429, 2474]);
    }

    #[test]
    fn short_delays_are_left_alone() {
        for queue in [0, 5, 20, 44] {
            assert_eq!(Station::new().run(0, 3000, queue), [0; 0], "{queue} ms");
        }
    }

    #[test]
    fn falling_below_target_ends_it_and_the_rate_is_remembered() {
        let mut station = Station::new();
        assert_eq!(station.run(0, 480, 80), [230, 330, 401, 459]);
        assert_eq!(station.run(480, 600, 10), [0; 0]);
        // At 598 ms came the echo of 585 ms; of the timestamps kept, the one before it is that of
        // 580 ms.
        assert_eq!(station.policy.delay(), Some(Span::from_ms(18)));
        // The fifth segment, at 688 ms, finds a queue of 88 ms. Then on from the three by which the
        // count had grown: after 57.7 ms, then 50.
        assert_eq!(station.run(600, 900, 80), [788, 846, 896]);
    }

    #[test]
    fn timestamps_wrap() {
        let mut station = Station::new();
        station.clock = u32::MAX - 300;
        assert_eq!(station.run(0, 800, 80), Station::new().run(0, 800, 80));
    }

    #[test]
    fn an_applications_pauses_are_no_queue() {
        // One segment per `every` ms, each echoing what had come since the one before.
        for every in [60, 90, 110, 500] {
            let mut policy = DelayConfig::default().build(&());
            for n in 1..40 {
                let t = ms(n * every);
                policy.on_ampdu(t, DataRate::from_mbps(6));
                policy.on_up(t, 1, n as u32);
                policy.on_down(t, 1, n as u32 + 1);
                assert_eq!(policy.index(t), None, "{every} ms");
            }
        }
        // Bursts of ten every half second: the first of a burst has waited for the application, not
        // in a queue.
        let mut policy = DelayConfig::default().build(&());
        for n in 1..40 {
            for i in 0..10 {
                let t = ms(n * 500 + 2 * i);
                policy.on_ampdu(t, DataRate::from_mbps(6));
                policy.on_up(t, 1, n as u32);
                assert_eq!(policy.index(t), None);
                if i == 1 {
                    policy.on_down(t, 1, n as u32 + 1);
                }
            }
        }
    }

    #[test]
    fn silence_ends_the_state() {
        let mut station = Station::new();
        assert_eq!(station.run(0, 240, 80), [230]);
        let policy = &mut station.policy;
        assert!(policy.is_above(ms(330)));
        policy.on_ampdu(ms(338), DataRate::from_mbps(6));
        assert_eq!(policy.index(ms(338)), None);
    }

    #[test]
    fn connections_heard_of_last_are_kept() {
        let mut policy = DelayConfig::default().build(&());
        for flow in 0..20 {
            policy.on_down(ms(u64::from(flow)), flow, 5);
            policy.on_up(ms(u64::from(flow)), 0, 5);
        }
        let mut kept: Vec<u32> = policy.flows.iter().map(|f| f.id).collect();
        kept.sort_unstable();
        assert_eq!(kept, [0, 17, 18, 19]);
    }
}
