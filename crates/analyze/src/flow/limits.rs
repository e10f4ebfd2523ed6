//! Where a flow's time went: which limit held its sender back, in the manner of TCP_ESTATS (RFC
//! 4898, `SndLimTime`).
//!
//! A sender that may send and has data sends. So each pause between two packets of new data has the
//! cause that its end shows:
//!
//! - an ACK or a new window just before it: the sender waited for that. If what was outstanding
//!   before filled the receive window, that was the limit (**receiver_app** if the window was
//!   closed, or less than three quarters of the largest it ever was; else **receive_window**); if
//!   not, the congestion window. The timestamp that the data echoes says which ACKs its sender had
//!   heard. So a full window shows wherever the capture is.
//! - nothing outstanding, or the last segment was the end of a write and nothing prompted the next:
//!   the application (**sender_app**). If the peer sent data meanwhile, it was an answer: **idle**
//!   until the request came, then **think**.
//! - the same, but the last segment was a full one. Without PSH more of the same write followed,
//!   which pacing or a shaper before the capture held back: **paced**. With PSH, and if pauses keep
//!   one rate, an application and a shaper look alike: **steady**.
//! - a repetition: **loss**; from two timeouts in a row, or with one and a second without a word
//!   from the receiver: **outage**. Behind the interruption repetitions may not pass. There an
//!   outage shows by data that, by its sender's clock, had been held all the while.
//!
//! While the receiver's window is closed, and the sender probes it or goes on when it opens, the
//! limit is **receiver_app**. A full window is no limit where a queue stands: with an empty queue
//! the same window would have given more. Time after the last byte was acknowledged has no limit.
//!
//! A congestion window limits by **slow_start** while the flight grows by at least 3/10 each round
//! trip; by a **queue** when the round trip is above its least by 2 ms and a twentieth (in slow
//! start: by half), or **air** if a capture in monitor mode shows that the air was taken meanwhile;
//! else it is **loss** if anything was repeated before, and **cwnd** if not.

use std::collections::VecDeque;

use airtcp_core::convert::signed32;
use airtcp_core::units::{Span, Time};

use super::{Flow, Passing, State};
use crate::histogram::Histogram;

/// Limit that held a sender back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Limit {
    ReceiveWindow,
    ReceiverApp,
    SenderApp,
    Think,
    Idle,
    SlowStart,
    Queue,
    Loss,
    Cwnd,
    Outage,
    /// A queue, and the air was taken.
    Air,
    Paced,
    Steady,
}

/// In the order of [`Limit`].
pub(crate) const LIMITS: [&str; 13] = [
    "receive_window",
    "receiver_app",
    "sender_app",
    "think",
    "idle",
    "slow_start",
    "queue",
    "loss",
    "cwnd",
    "outage",
    "air",
    "paced",
    "steady",
];

impl Limit {
    pub(crate) fn name(self) -> &'static str {
        LIMITS[self as usize]
    }
}

/// Data was sent because of an ACK if it follows within this time plus this part of the round trip.
const PROMPT: Span = Span::from_ms(1);
const PROMPT_PART: u64 = 16;
/// A round trip longer than the least by this, and by this part of it, has a queue in it.
const QUEUE: Span = Span::from_ms(2);
const QUEUE_PART: u64 = 20;
/// So near, the capture is at the sender.
const AT_SENDER: Span = Span::from_ms(1);
/// Segments outstanding, behind which the end of a write is the end of the data.
const FEW: u64 = 4;
/// Without a word from the receiver for so long, and for a timeout, the path is interrupted.
const OUTAGE: Span = Span::from_secs(1);
/// A window is full if the segment's permission came so long, or this part of a round trip, before
/// the newest ACK that its sender had heard: seven eighths of the window are in use.
const FULL_TIME: Span = Span::from_ms(1);
const FULL_PART: u64 = 8;
/// ACKs that moved the window's edge and that are remembered.
const PERMITS: usize = 1024;
/// A window below three quarters of its largest holds data that the application has not read.
const OPEN_QUARTERS: u64 = 3;
/// A round trip longer than the least by this part has so much queue in it that a full receive
/// window is not what limits. A window of few segments makes such a queue by its own bursts: there
/// the round trip has to be twice the least.
const WINDOW_QUEUE_PART: u64 = 4;
/// Pauses that keep one rate, before they count as steady; and by which part the rate may differ.
const STEADY_PAUSES: u32 = 8;
const STEADY_PART: f64 = 0.25;
/// Pacing sends so many segments at once at most, or what its rate gives in so much time (Linux,
/// `sk_pacing_shift`: about a millisecond).
const PACED_BURST: u64 = 4;
const PACED_TIME: Span = Span::from_ms(2);
/// In slow start the flight grows by so many tenths in a round trip; exits after two rounds that do
/// not.
const GROWTH_TENTHS: u64 = 3;

/// A time with one limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Band {
    pub from: Time,
    pub to: Time,
    pub limit: Limit,
}

/// A packet of the receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    /// Bytes outstanding and permitted before it.
    pub before: (u64, Option<u64>),
    /// It changes either, or reports a loss.
    pub room: bool,
    /// It carries data.
    pub asks: bool,
    /// Some of what was outstanding is payload.
    pub data: bool,
    /// The timeout before it was heard.
    pub rto: Span,
    /// Its timestamp, if it is no SYN.
    pub stamp: Option<u32>,
}

/// An ACK that moved the right edge of the receive window.
#[derive(Debug, Clone, Copy)]
struct Permit {
    /// Its timestamp.
    stamp: u32,
    /// The first byte that may not be sent.
    edge: u64,
    window: u64,
    seen: Time,
}

#[derive(Debug)]
pub(super) struct Limits {
    /// All before is accounted for; `None`: nothing was sent yet.
    until: Option<Time>,
    pub spent: [Span; LIMITS.len()],
    bands: Vec<Band>,
    /// Bands shorter than this join their neighbour.
    least_band: Span,
    /// The last ACK that made room or told of a loss: when, and what was outstanding and permitted
    /// before it.
    ack_at: Option<Time>,
    before: (u64, Option<u64>),
    window_max: u64,
    /// The last one that did not permit the newest segment comes first, once that is known.
    permits: VecDeque<Permit>,
    /// When data passed that had been held before the capture for as long as an outage, after
    /// silence; until an ACK of it comes.
    stopped: Option<Time>,
    /// When the peer's data last came, since this end sent data.
    asked_at: Option<Time>,
    /// The receiver's last packet.
    heard_at: Option<Time>,
    /// Timeouts since.
    timeouts: u32,
    /// The last data ended with less than a full segment.
    short: bool,
    lossy: bool,
    slow_start: bool,
    /// Rounds of slow start: where the present one ends, its largest flight, that of the one
    /// before, rounds without growth.
    round_end: u64,
    round_max: u64,
    last_round_max: u64,
    flat_rounds: u32,
    /// The sender marks ends of writes with PSH.
    uses_push: bool,
    /// When the last pause without a prompt ended, bytes sent since; bytes per second of such
    /// pauses, and how many in a row had that rate.
    pause_at: Option<Time>,
    burst: u64,
    pause_rate: f64,
    steady_pauses: u32,
    /// Longest time from a request to its answer.
    pub longest_think: Span,
    /// Since when the receiver's window is closed, how long it was in all, and whether the sender
    /// probed it.
    closed_at: Option<Time>,
    pub closed: Span,
    probed: bool,
    /// Bytes sent with each limit.
    pub sent: [u64; LIMITS.len()],
    /// Whole round trips, from the sender's side.
    pub rtts: Histogram,
    pub rtt_min: Option<Span>,
    rtt: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            until: None,
            spent: [Span::ZERO; LIMITS.len()],
            bands: Vec::new(),
            least_band: Span::ZERO,
            ack_at: None,
            before: (0, None),
            window_max: 0,
            permits: VecDeque::new(),
            stopped: None,
            asked_at: None,
            heard_at: None,
            timeouts: 0,
            short: false,
            lossy: false,
            slow_start: true,
            round_end: 0,
            round_max: 0,
            last_round_max: 0,
            flat_rounds: 0,
            uses_push: false,
            pause_at: None,
            burst: 0,
            pause_rate: 0.0,
            steady_pauses: 0,
            longest_think: Span::ZERO,
            closed_at: None,
            closed: Span::ZERO,
            probed: false,
            sent: [0; LIMITS.len()],
            rtts: Histogram::default(),
            rtt_min: None,
            rtt: Span::ZERO,
        }
    }
}

impl Limits {
    /// The time up to `to` had this limit.
    fn spend(&mut self, to: Time, limit: Limit, most_bands: usize) {
        let Some(from) = self.until.filter(|&from| from < to) else { return };
        self.until = Some(to);
        self.spent[limit as usize] += to.since(from);
        let goes_on = |last: &&mut Band| last.limit == limit || to.since(from) < self.least_band;
        if let Some(last) = self.bands.last_mut().filter(goes_on) {
            last.to = to;
            return;
        }
        self.bands.push(Band { from, to, limit });
        while self.bands.len() > most_bands.max(2) {
            let first = self.bands[0].from;
            self.least_band = (self.least_band * 2).max(to.since(first) / (4 * most_bands as u64).max(1));
            let mut kept: Vec<Band> = Vec::with_capacity(self.bands.len());
            for band in self.bands.drain(..) {
                match kept.last_mut() {
                    Some(last) if last.limit == band.limit || band.to.since(band.from) < self.least_band => {
                        last.to = band.to;
                    }
                    _ => kept.push(band),
                }
            }
            self.bands = kept;
        }
    }

    fn sample(&mut self, rtt: Span) {
        self.rtts.add(rtt.as_ns(), 1);
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
        self.rtt = rtt;
    }

    /// Round trips are above their least by the larger of `QUEUE` and this part of it.
    pub(super) fn queue_above(&self, part: u64) -> bool {
        self.rtt_min.is_some_and(|least| self.rtt > least + (least / part).max(QUEUE))
    }

    fn by_congestion_window(&self, air_busy: bool) -> Limit {
        if self.slow_start && !self.queue_above(2) {
            Limit::SlowStart
        } else if self.queue_above(QUEUE_PART) {
            if air_busy { Limit::Air } else { Limit::Queue }
        } else if self.lossy {
            Limit::Loss
        } else {
            Limit::Cwnd
        }
    }

    fn queue(&self, air_busy: bool) -> Limit {
        if air_busy { Limit::Air } else { Limit::Queue }
    }

    /// From a request to its answer.
    fn think(&mut self, to: Time, most_bands: usize) {
        let took = self.until.map_or(Span::ZERO, |from| to.since(from));
        self.longest_think = self.longest_think.max(took);
        self.spend(to, Limit::Think, most_bands);
    }

    /// Data comes that nothing prompted. `pushed`: the segment before ended a write.
    fn without_prompt(&mut self, now: Time, pushed: bool, mss: u64) -> Limit {
        let burst = std::mem::take(&mut self.burst);
        let pause = self.pause_at.replace(now).map(|before| now.since(before));
        if self.short {
            self.steady_pauses = 0;
            return Limit::SenderApp;
        }
        if self.uses_push && !pushed {
            return Limit::Paced;
        }
        let Some(pause) = pause.filter(|pause| !pause.is_zero()) else { return Limit::SenderApp };
        let rate = burst as f64 * 1e9 / pause.as_ns() as f64;
        let is_small = burst <= PACED_BURST * mss || pause <= PACED_TIME;
        if is_small && (rate - self.pause_rate).abs() <= STEADY_PART * self.pause_rate {
            self.steady_pauses += 1;
            self.pause_rate += (rate - self.pause_rate) / 8.0;
        } else {
            self.steady_pauses = 0;
            self.pause_rate = rate;
        }
        if self.steady_pauses >= STEADY_PAUSES { Limit::Steady } else { Limit::SenderApp }
    }

    /// The receiver's window is `window` now.
    fn close_or_open(&mut self, now: Time, window: Option<u64>) {
        match (window == Some(0), self.closed_at) {
            (true, None) => self.closed_at = Some(now),
            (false, Some(since)) => {
                self.closed += now.since(since);
                self.closed_at = None;
            }
            _ => {}
        }
    }

    fn by_receive_window(&self, window: u64) -> Limit {
        if window < self.window_max / 4 * OPEN_QUARTERS { Limit::ReceiverApp } else { Limit::ReceiveWindow }
    }

    /// An ACK with a timestamp moves the edge.
    fn permit(&mut self, permit: Permit) {
        if self.permits.back().is_some_and(|last| last.edge >= permit.edge) {
            return;
        }
        if self.permits.len() == PERMITS {
            self.permits.pop_front();
        }
        self.permits.push_back(permit);
    }

    /// The window that held the segment up to `end` back until the newest ACKs that its sender had
    /// heard; none if there was room before. `echo`: the timestamp that the segment echoes.
    fn window_that_held(&mut self, end: u64, echo: u32, round_trip: Span) -> Option<u64> {
        while self.permits.get(1).is_some_and(|next| next.edge < end) {
            self.permits.pop_front();
        }
        let before = self.permits.front().filter(|first| first.edge < end)?;
        let Some(permit) = self.permits.get(1) else { return Some(before.window) };
        let heard = self.permits.partition_point(|p| signed32(p.stamp.wrapping_sub(echo)) <= 0);
        let newest = heard.checked_sub(1).and_then(|last| self.permits.get(last))?;
        let unused = newest.seen.since(permit.seen);
        (unused <= FULL_TIME.max(round_trip / FULL_PART)).then_some(before.window)
    }

    /// A new flight after silence longer than a timeout: the window may have been taken back (RFC
    /// 2861).
    fn begin_slow_start(&mut self) {
        self.slow_start = true;
        (self.round_end, self.round_max, self.last_round_max, self.flat_rounds) = (0, 0, 0, 0);
    }

    /// The acknowledgement moves to `una`; `next` is the end of what was sent.
    fn round(&mut self, una: u64, next: u64) {
        if una < self.round_end || self.round_max == 0 {
            return;
        }
        let grown = self.round_max * 10 >= self.last_round_max * (10 + GROWTH_TENTHS);
        self.flat_rounds = if grown { 0 } else { self.flat_rounds + 1 };
        self.slow_start &= self.flat_rounds < 2;
        (self.last_round_max, self.round_max, self.round_end) = (self.round_max, 0, next);
    }

    pub(super) fn window_max(&self) -> Option<u64> {
        (self.window_max > 0).then_some(self.window_max)
    }

    pub(super) fn take_bands(&mut self) -> Vec<Band> {
        std::mem::take(&mut self.bands)
    }
}

impl Flow {
    /// New data is about to count as sent.
    pub(super) fn limit_of_new(&mut self, at: &Passing, length: u64, echo: Option<u32>) {
        let mss = u64::from(self.mss());
        let (flight, bands) = (self.flight(), at.limits.points);
        let full = self.held.before.0 + mss;
        let is_closed = self.window == Some(0);
        let window = self.held.before.1.filter(|&window| self.receiver_scale.is_some() || window == 0);
        let pushed = self.pushed;
        let end = self.max + length;
        let (round_trip, scaled) = (self.rtt.srtt(), self.receiver_scale.is_some());
        let l = &mut self.held;
        // The timestamp tells which ACKs the sender had heard. Without one, time has to.
        let held_by = match echo.filter(|_| scaled && !l.permits.is_empty()) {
            Some(echo) => l.window_that_held(end, echo, round_trip),
            None => None,
        };
        let prompt = PROMPT + at.slack + self.rtt.srtt() / PROMPT_PART;
        let prompted = l.ack_at.is_some_and(|ack| at.now.since(ack) <= prompt);
        let gap = l.until.map_or(Span::ZERO, |until| at.now.since(until));
        let limit = if l.until.is_none() {
            l.until = Some(l.asked_at.unwrap_or(at.now));
            l.think(at.now, bands);
            Limit::Think
        } else if is_closed {
            l.probed = true;
            Limit::ReceiverApp
        } else if let Some(window) = held_by.or(window.filter(|&window| prompted && full > window)) {
            match l.by_receive_window(window) {
                Limit::ReceiveWindow if l.queue_above(if window <= FEW * mss { 1 } else { WINDOW_QUEUE_PART }) => {
                    l.queue(at.air_busy)
                }
                limit => limit,
            }
        } else if flight == 0 && !(prompted && !l.short && l.asked_at.is_none()) {
            let limit = match l.asked_at {
                Some(asked) => {
                    l.spend(asked, Limit::Idle, bands);
                    l.think(at.now, bands);
                    Limit::Think
                }
                None => l.without_prompt(at.now, pushed, mss),
            };
            if gap > self.rtt.rto(at.near) {
                l.begin_slow_start();
            }
            limit
        } else {
            // PSH also ends the writes of who has more to send; with little outstanding it is the
            // last.
            let last_write = pushed && gap > self.rtt.srtt() / 2 && flight < FEW * mss;
            if l.short || (!prompted && last_write) {
                // Such a round says nothing about the window.
                l.flat_rounds = 0;
                l.without_prompt(at.now, pushed, mss)
            } else if !prompted && !pushed && l.uses_push && at.turn <= AT_SENDER && !l.queue_above(2) {
                // Nothing came that the sender could have waited for.
                Limit::Paced
            } else {
                l.by_congestion_window(at.air_busy)
            }
        };
        l.spend(at.now, limit, bands);
        l.sent[limit as usize] += length;
        l.burst += length;
        l.asked_at = None;
        l.short = length % mss != 0;
        l.round_max = l.round_max.max(flight + length);
        if l.round_end == 0 {
            l.round_end = self.max + length;
        }
    }

    /// The sender ends a write here.
    pub(super) fn limit_of_push(&mut self) {
        self.held.uses_push = true;
    }

    /// The sender asks whether the closed window has opened.
    pub(super) fn limit_of_probe(&mut self, at: &Passing) {
        if self.window == Some(0) {
            self.held.probed = true;
            self.held.spend(at.now, Limit::ReceiverApp, at.limits.points);
        }
    }

    /// Data is repeated. The cause of the wait shows only when the receiver answers.
    pub(super) fn limit_of_repetition(&mut self, at: &Passing, timeout: bool) {
        let bands = at.limits.points;
        let l = &mut self.held;
        if self.window == Some(0) {
            // Data that the receiver has no room for is not lost.
            l.probed = true;
            l.spend(at.now, Limit::ReceiverApp, bands);
            return;
        }
        if timeout {
            l.timeouts += 1;
        } else if l.timeouts == 0 && l.stopped.is_none() {
            let limit = match l.queue_above(QUEUE_PART) {
                true if at.air_busy => Limit::Air,
                true => Limit::Queue,
                false => Limit::Loss,
            };
            l.spend(at.now, limit, bands);
        }
        l.lossy = true;
        l.slow_start = false;
    }

    /// Data passes that was sent at `at.now`, by its sender's clock. `silent`: no data had passed.
    /// What was held before the capture for so long found a path that was interrupted.
    pub(super) fn limit_of_held(&mut self, at: &Passing, silent: Span) {
        let outage = OUTAGE.max(self.rtt.rto(at.near));
        if at.by_clock && silent.min(at.seen.since(at.now)) >= outage {
            self.held.stopped.get_or_insert(at.seen);
        }
    }

    /// A packet of the receiver comes.
    pub(super) fn limit_of_ack(&mut self, at: &Passing, heard: &Heard) {
        let &Heard { before, room, asks, data, rto, stamp } = heard;
        let bands = at.limits.points;
        let (una, next) = (self.una, self.max);
        // Silence before anything was outstanding is nobody's fault.
        let began = self.flight_began_at;
        // Where round trips take seconds, so does every answer.
        let outage = OUTAGE.max(rto);
        let window = self.window;
        let l = &mut self.held;
        let silent = l.heard_at.or(l.until).map_or(Span::ZERO, |heard| at.now.since(heard.max(began)));
        let closed = before.1 == Some(0);
        // ACKs that passed before had been on their way.
        let goes_on = l.stopped.is_some_and(|since| at.seen >= since);
        l.close_or_open(at.now, self.window);
        if closed && l.probed {
            l.spend(at.now, Limit::ReceiverApp, bands);
        } else if !closed && data && (l.timeouts > 0 || goes_on) {
            // Silence without a repetition is that of a receiver that acknowledges late.
            let is_outage = l.timeouts > 1 || silent >= outage;
            l.spend(at.now, if is_outage { Limit::Outage } else { Limit::Loss }, bands);
        }
        l.timeouts = 0;
        l.stopped = l.stopped.filter(|_| !(goes_on && data));
        l.heard_at = Some(at.now);
        l.window_max = l.window_max.max(self.window.unwrap_or(0));
        if let (Some(stamp), Some(window)) = (stamp, window) {
            l.permit(Permit { stamp, edge: una + window, window, seen: at.seen });
        }
        if room {
            l.ack_at = Some(at.now);
            l.before = before;
        }
        if asks {
            l.asked_at = Some(at.now);
        }
        l.round(una, next);
        l.lossy |= self.state != State::Open;
    }

    pub(super) fn limit_of_sample(&mut self, rtt: Span) {
        self.held.sample(rtt);
    }

    /// Until the last acknowledgement of data: what was left was on its way. `end`: last packet of
    /// the connection.
    pub(super) fn end_limits(&mut self, end: Time) {
        let limit = self.held.by_congestion_window(false);
        let waits = self.una < self.data_end && self.held.timeouts > 1;
        let most = usize::MAX / 8;
        if let Some(since) = self.held.closed_at {
            self.held.closed += end.since(since);
            if self.held.probed || self.una < self.data_end {
                self.held.spend(since, limit, most);
                self.held.spend(end, Limit::ReceiverApp, most);
            }
        }
        let to = if waits { self.sent_at } else { self.data_acked_at };
        self.held.spend(to, if waits { Limit::Outage } else { limit }, most);
    }

    /// The receiver's window is closed when the connection ends.
    pub(super) fn ends_closed(&self) -> bool {
        self.held.closed_at.is_some()
    }

    /// Bytes per second that the sender sent while the path held it back, and how long that was.
    pub(super) fn on_path(&self) -> (u64, Span) {
        let of = [Limit::Queue, Limit::Loss, Limit::Cwnd, Limit::Air, Limit::ReceiveWindow, Limit::Paced];
        let bytes = of.iter().map(|&limit| self.held.sent[limit as usize]).sum();
        (bytes, of.iter().fold(Span::ZERO, |sum, &limit| sum + self.held.spent[limit as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_full_if_its_last_opening_is_what_the_sender_heard_last() {
        let ms = |ms| Time::ZERO + Span::from_ms(ms);
        let with = |seen: [u64; 4]| {
            let mut l = Limits::default();
            for (i, at) in (0..).zip(seen) {
                l.permit(Permit { stamp: 100 + i, edge: 5000 + 1000 * u64::from(i), window: 5000, seen: ms(at) });
            }
            l
        };
        let trip = Span::from_ms(40);
        let mut l = with([0, 10, 20, 30]);
        assert_eq!(l.window_that_held(5000, 100, trip), None, "nothing is known of before the first one");
        assert_eq!(l.window_that_held(6000, 101, trip), Some(5000));
        assert_eq!(l.window_that_held(6000, 102, trip), None, "ten milliseconds are more than an eighth");
        assert_eq!(with([0, 10, 14, 30]).window_that_held(6000, 102, trip), Some(5000));
        assert_eq!(l.window_that_held(9000, 102, trip), Some(5000), "the ACK that permits it has not passed");
        // The clock wraps.
        let mut l = Limits::default();
        l.permit(Permit { stamp: u32::MAX, edge: 5000, window: 0, seen: ms(0) });
        l.permit(Permit { stamp: 3, edge: 9000, window: 4000, seen: ms(5) });
        assert_eq!(l.window_that_held(6000, 3, trip), Some(0));
    }

    #[test]
    fn bands_stay_few_and_their_sum_exact() {
        let mut l = Limits { until: Some(Time::ZERO), ..Limits::default() };
        for i in 1..=10_000 {
            let limit = if i % 3 == 0 { Limit::Queue } else { Limit::Loss };
            l.spend(Time::ZERO + Span::from_ms(i), limit, 100);
        }
        assert_eq!(
            (l.spent[Limit::Queue as usize], l.spent[Limit::Loss as usize]),
            (Span::from_ms(3333), Span::from_ms(6667))
        );
        let bands = l.take_bands();
        assert!(bands.len() <= 100 && bands[0].from == Time::ZERO);
        assert!(bands.windows(2).all(|b| b[0].to == b[1].from));
    }
}
