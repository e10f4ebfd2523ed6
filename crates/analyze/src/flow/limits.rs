//! Where a flow's time went: which limit held its sender back, in the manner of TCP_ESTATS (RFC
//! 4898, `SndLimTime`).
//!
//! A sender that may send and has data sends. So each pause between two packets of new data has the
//! cause that its end shows:
//!
//! - an ACK or a new window just before it: the sender waited for that. If what was outstanding
//!   before filled the receive window, that was the limit (**receiver_app** if the window was
//!   closed, or less than half of the largest it ever was; else **receive_window**); if not, the
//!   congestion window.
//! - nothing outstanding, or the last segment was the end of a write and nothing prompted the next:
//!   the application (**sender_app**). If the peer sent data meanwhile, it was an answer: **idle**
//!   until the request came, then **think**.
//! - a repetition: **loss**; from two timeouts in a row, or a second without a word from the
//!   receiver: **outage**.
//!
//! A congestion window limits by **slow_start** while the flight grows by at least 3/10 each round
//! trip; by a **queue** when the round trip is above its least by 2 ms and a twentieth (in slow
//! start: by half), or **air** if a capture in monitor mode shows that the air was taken meanwhile;
//! else it is **loss** if anything was repeated before, and **cwnd** if not.

use airtcp_core::convert::low32;
use airtcp_core::units::{Span, Time};

use super::{Flow, Passing, State};

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
}

/// In the order of [`Limit`].
pub(crate) const LIMITS: [&str; 11] = [
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
/// Segments outstanding, behind which the end of a write is the end of the data.
const FEW: u64 = 4;
/// Without a word from the receiver for so long, the path is interrupted.
const OUTAGE: Span = Span::from_secs(1);
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

/// Round trips in classes, 32 to an octave.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// Class and count, in order.
    classes: Vec<(u32, u64)>,
    total: u64,
}

const CLASS_BITS: u32 = 5;

impl Histogram {
    fn add(&mut self, rtt: Span) {
        // The octave, and the bits below the first.
        let ns = rtt.as_ns().max(1 << CLASS_BITS);
        let shift = ns.ilog2() - CLASS_BITS;
        let class = shift << CLASS_BITS | low32(ns >> shift) & ((1 << CLASS_BITS) - 1);
        match self.classes.binary_search_by_key(&class, |c| c.0) {
            Ok(at) => self.classes[at].1 += 1,
            Err(at) => self.classes.insert(at, (class, 1)),
        }
        self.total += 1;
    }

    /// The value that so many percent do not exceed, to two percent.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Span> {
        let mut left = (self.total * percent).div_ceil(100).max(1);
        for &(class, count) in &self.classes {
            if count >= left {
                let (shift, low) = (class >> CLASS_BITS, u64::from(class & ((1 << CLASS_BITS) - 1)));
                return Some(Span::from_ns((2 * ((1 << CLASS_BITS) + low) + 1) << shift >> 1));
            }
            left -= count;
        }
        None
    }
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
        self.rtts.add(rtt);
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |least| least.min(rtt)));
        self.rtt = rtt;
    }

    /// Round trips are above their least by the larger of `QUEUE` and this part of it.
    fn queue_above(&self, part: u64) -> bool {
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

    fn by_receive_window(&self, window: u64) -> Limit {
        if window < self.window_max / 2 { Limit::ReceiverApp } else { Limit::ReceiveWindow }
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
    pub(super) fn limit_of_new(&mut self, at: &Passing, length: u64) {
        let mss = u64::from(self.mss());
        let (flight, bands) = (self.flight(), at.limits.points);
        let full = self.held.before.0 + mss;
        let window = self.held.before.1.filter(|&window| self.receiver_scale.is_some() || window == 0);
        let l = &mut self.held;
        let prompt = PROMPT + at.slack + self.rtt.srtt() / PROMPT_PART;
        let prompted = l.ack_at.is_some_and(|ack| at.now.since(ack) <= prompt);
        let gap = l.until.map_or(Span::ZERO, |until| at.now.since(until));
        if l.until.is_none() {
            l.until = Some(l.asked_at.unwrap_or(at.now));
            l.spend(at.now, Limit::Think, bands);
        } else if let Some(window) = window.filter(|&window| prompted && full > window) {
            let limit = l.by_receive_window(window);
            l.spend(at.now, limit, bands);
        } else if flight == 0 && !(prompted && !l.short && l.asked_at.is_none()) {
            match l.asked_at {
                Some(asked) => {
                    l.spend(asked, Limit::Idle, bands);
                    l.spend(at.now, Limit::Think, bands);
                }
                None => l.spend(at.now, Limit::SenderApp, bands),
            }
            if gap > self.rtt.rto(at.near) {
                l.begin_slow_start();
            }
        } else {
            // PSH also ends the writes of who has more to send; with little outstanding it is the
            // last.
            let last_write = self.pushed && gap > self.rtt.srtt() / 2 && flight < FEW * mss;
            let application = l.short || (!prompted && last_write);
            let limit = if application { Limit::SenderApp } else { l.by_congestion_window(at.air_busy) };
            l.spend(at.now, limit, bands);
            if application {
                // Such a round says nothing about the window.
                l.flat_rounds = 0;
            }
        }
        l.asked_at = None;
        l.short = length % mss != 0;
        l.round_max = l.round_max.max(flight + length);
        if l.round_end == 0 {
            l.round_end = self.max + length;
        }
    }

    /// Data is repeated. The cause of the wait shows only when the receiver answers.
    pub(super) fn limit_of_repetition(&mut self, at: &Passing, timeout: bool) {
        let bands = at.limits.points;
        let l = &mut self.held;
        if timeout {
            l.timeouts += 1;
        } else if l.timeouts == 0 {
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

    /// A packet of the receiver comes. `before`: what was outstanding and permitted; `room`: it
    /// changes either, or reports a loss.
    pub(super) fn limit_of_ack(&mut self, at: &Passing, before: (u64, Option<u64>), room: bool, asks: bool) {
        let bands = at.limits.points;
        let (una, next) = (self.una, self.max);
        let l = &mut self.held;
        let silent = l.heard_at.or(l.until).map_or(Span::ZERO, |heard| at.now.since(heard));
        let closed = before.1 == Some(0);
        if !closed && before.0 > 0 && (l.timeouts > 0 || silent >= OUTAGE) {
            let is_outage = l.timeouts > 1 || silent >= OUTAGE;
            l.spend(at.now, if is_outage { Limit::Outage } else { Limit::Loss }, bands);
        }
        l.timeouts = 0;
        l.heard_at = Some(at.now);
        l.window_max = l.window_max.max(self.window.unwrap_or(0));
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

    /// Until the last acknowledgement: what was left was on its way.
    pub(super) fn end_limits(&mut self) {
        let limit = self.held.by_congestion_window(false);
        let waits = self.flight() > 0 && self.held.timeouts > 1;
        let to = if waits { self.sent_at } else { self.advanced_at };
        self.held.spend(to, if waits { Limit::Outage } else { limit }, usize::MAX / 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_two_percent() {
        let mut found = Histogram::default();
        assert_eq!(found.percentile(50), None);
        for ms in 1..=1000 {
            found.add(Span::from_ms(ms));
        }
        for (percent, ms) in [(1, 10.0), (50, 500.0), (95, 950.0), (100, 1000.0)] {
            let value = found.percentile(percent).unwrap().as_ns() as f64 * 1e-6;
            assert!((value / ms - 1.0).abs() < 0.02, "{percent}: {value}");
        }
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
