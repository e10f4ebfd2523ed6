//! One control alone against a scripted path, round by round: the test bench of every control, also
//! of one you add.
//!
//! ```ignore
//! let mut run = Run::new("mine", Network { loss: Loss::Every(1_000), ..Path::default() });
//! run.until(Span::from_secs(8));
//! insta::assert_snapshot!(run.table());
//! ```
//!
//! The sender is ideal: it knows of each segment when its ACK arrives, calls a transmission lost
//! once three later ones have arrived, repairs losses first and halves nothing itself. The path is
//! a drop-tail queue before a line, then a constant delay back. Contract of the calls as documented
//! at [`CongestionControl`](super::CongestionControl); the bounds that hold for every control are
//! checked on every ACK.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;

use super::{AckSample, AnyCc, CaState, CcConfig, CcContext, Path, RateSample, Window};
use crate::rng::{Purpose, Stream};
use crate::units::{Span, Time};

const MSS: u32 = 1448;
const WIRE_BYTES: u32 = 1500;
const INITIAL_CWND: u32 = 10;
const DUP_THRESH: u32 = 3;

/// Context of a control under test: unpaced, 1448-byte segments, initial window 10.
pub fn context() -> CcContext {
    CcContext {
        mss: MSS,
        initial_cwnd: INITIAL_CWND,
        paced: false,
        stream: Stream::new(1, 0, Purpose::CongestionControl),
    }
}

/// A window of `cwnd` segments in slow start.
pub fn window(cwnd: u32) -> Window {
    Window { cwnd, cwnd_cnt: 0, ssthresh: u32::MAX }
}

/// A path at the beginning: nothing in flight, no round-trip samples.
pub fn new_path() -> Path {
    Path {
        now: Time::ZERO,
        srtt: Span::ZERO,
        min_rtt: Span::MAX,
        in_flight: 0,
        prior_cwnd: 0,
        cwnd_clamp: u32::MAX,
        mss: MSS,
        wire_bytes: WIRE_BYTES,
        state: CaState::Open,
        next_send_at: Time::ZERO,
        pacing_shift: 10,
    }
}

/// An ACK for one segment of a full window `w`.
pub fn sample(w: &Window) -> AckSample {
    AckSample {
        acked: 1,
        delivered: 1,
        credit: 1,
        lost: 0,
        rtt: None,
        prior_in_flight: w.cwnd,
        total_delivered: 1,
        rate: None,
        ece: false,
        marked: 0,
        cwnd_limited: true,
        snd_una: 0,
        snd_nxt: 0,
    }
}

/// Losses besides those of the full buffer.
#[derive(Debug, Clone, Default)]
pub enum Loss {
    #[default]
    None,
    /// Every n-th transmission.
    Every(u64),
    /// Losses by a token-bucket policer: bucket, and segments per second.
    Policer { bucket: f64, rate: f64 },
}

#[derive(Debug, Clone)]
pub struct Network {
    /// Round trip of the empty path, without the time on the line.
    pub rtt: Span,
    /// Rate of the line, segments per second.
    pub rate: u64,
    /// Segments that wait for the line, besides the one on it.
    pub buffer: u32,
    pub loss: Loss,
    /// Everything sent from the first time to before the second is lost.
    pub outage: Option<(Time, Time)>,
    /// The round trip is longer by this from then on.
    pub detour: Option<(Time, Span)>,
    /// The application keeps no more than this in flight, segments.
    pub application: u32,
}

impl Default for Network {
    /// 100 ms, 1000 segments per second (12 Mbit/s): 100 segments fill it; room for 50 more.
    fn default() -> Network {
        Network {
            rtt: Span::from_ms(99),
            rate: 1_000,
            buffer: 50,
            loss: Loss::None,
            outage: None,
            detour: None,
            application: u32::MAX,
        }
    }
}

/// One transmission that is out.
#[derive(Debug, Clone, Copy)]
struct Transmission {
    segment: u64,
    at: Time,
    /// When its ACK arrives; `NEVER`: it is lost.
    ack_at: Time,
    /// Later transmissions that have arrived.
    passed: u32,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
}

/// The end of a packet-timed round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    pub at: Time,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub state: CaState,
    /// Longest queue during the round, segments.
    pub queue: u32,
    /// Transmissions found lost during the round.
    pub lost: u32,
}

pub struct Run {
    pub cc: AnyCc,
    pub w: Window,
    pub path: Path,
    pub now: Time,
    pub rounds: Vec<Round>,
    /// Reductions: losses answered and timeouts.
    pub reductions: u32,
    pub timeouts: u32,
    pub delivered: u64,
    pub transmissions: u64,
    /// Integral of `cwnd` over time, segment seconds.
    pub cwnd_seconds: f64,
    network: Network,
    sent: VecDeque<Transmission>,
    lost: BTreeSet<u64>,
    received: BTreeSet<u64>,
    snd_una: u64,
    snd_nxt: u64,
    recovery_end: u64,
    line_free: Time,
    next_send: Time,
    progress: Time,
    backoff: u32,
    cwnd_limited: bool,
    delivered_at: Time,
    first_sent_at: Time,
    round_end: u64,
    round_queue: u32,
    round_lost: u32,
    tokens: f64,
    tokens_at: Time,
}

impl Run {
    /// The control registered as `name`, with its default parameters.
    pub fn new(name: &str, network: Network) -> Run {
        Run::with(&CcConfig::by_name(name).expect("registered"), network)
    }

    pub fn with(config: &CcConfig, network: Network) -> Run {
        let bucket = if let Loss::Policer { bucket, .. } = network.loss { bucket } else { 0.0 };
        Run {
            cc: config.build(&context()),
            w: window(INITIAL_CWND),
            path: new_path(),
            now: Time::ZERO,
            rounds: Vec::new(),
            reductions: 0,
            timeouts: 0,
            delivered: 0,
            transmissions: 0,
            cwnd_seconds: 0.0,
            network,
            sent: VecDeque::new(),
            lost: BTreeSet::new(),
            received: BTreeSet::new(),
            snd_una: 0,
            snd_nxt: 0,
            recovery_end: 0,
            line_free: Time::ZERO,
            next_send: Time::ZERO,
            progress: Time::ZERO,
            backoff: 0,
            cwnd_limited: false,
            delivered_at: Time::ZERO,
            first_sent_at: Time::ZERO,
            round_end: 0,
            round_queue: 0,
            round_lost: 0,
            tokens: bucket,
            tokens_at: Time::ZERO,
        }
    }

    /// Runs to `end` after the start.
    pub fn until(&mut self, end: Span) {
        let end = Time::ZERO + end;
        loop {
            self.send();
            let ack = self.sent.iter().map(|s| s.ack_at).find(|at| !at.is_never()).unwrap_or(Time::NEVER);
            let paced = if self.may_send() { self.next_send } else { Time::NEVER };
            let timeout = self.timeout();
            let next = ack.min(paced).min(timeout);
            let step_end = next.min(end);
            self.cwnd_seconds += f64::from(self.w.cwnd) * step_end.since(self.now).as_secs_f64();
            self.now = step_end;
            self.path.now = step_end;
            if next > end {
                return;
            }
            if next == ack {
                self.on_ack();
            } else if next == timeout {
                self.on_timeout();
            }
        }
    }

    /// From now on the application keeps no more than `segments` in flight.
    pub fn limit_application(&mut self, segments: u32) {
        self.network.application = segments;
    }

    /// From now on the line carries so many segments per second.
    pub fn set_line_rate(&mut self, rate: u64) {
        self.network.rate = rate;
    }

    /// Segments waiting for or on the line.
    pub fn queue(&self) -> u32 {
        (self.line_free.since(self.now).as_ns() as u128 * self.network.rate as u128).div_ceil(1_000_000_000) as u32
    }

    /// Runs on to `end`; returns the mean window and the mean rate in segments per second of that
    /// time.
    pub fn means_until(&mut self, end: Span) -> (f64, f64) {
        let (start, area, delivered) = (self.now, self.cwnd_seconds, self.delivered);
        self.until(end);
        let seconds = self.now.since(start).as_secs_f64();
        ((self.cwnd_seconds - area) / seconds, (self.delivered - delivered) as f64 / seconds)
    }

    /// Segments per second.
    pub fn line_rate(&self) -> f64 {
        self.network.rate as f64
    }

    /// Mean window from the `skip`-th reduction to the `count`-th after it, segments.
    pub fn mean_window(&mut self, skip: u32, count: u32) -> f64 {
        let mut run_to = |reductions: u32| {
            while self.reductions < reductions {
                self.until(self.now.since(Time::ZERO) + Span::from_ms(10));
            }
            (self.now, self.cwnd_seconds)
        };
        let (start, area) = run_to(skip);
        let (end, total) = run_to(skip + count);
        (total - area) / end.since(start).as_secs_f64()
    }

    /// One line per round: when it ended, windows in segments, longest queue, losses found, state.
    pub fn table(&self) -> String {
        let mut out = String::from("round    ms   cwnd ssthresh queue lost state\n");
        for (i, r) in self.rounds.iter().enumerate() {
            let ssthresh = if r.ssthresh == u32::MAX { "-".to_owned() } else { r.ssthresh.to_string() };
            let ms = r.at.as_ns() / 1_000_000;
            writeln!(out, "{i:5} {ms:5} {:6} {ssthresh:>8} {:5} {:4} {:?}", r.cwnd, r.queue, r.lost, r.state).unwrap();
        }
        out
    }

    fn may_send(&self) -> bool {
        self.path.in_flight < self.w.cwnd.min(self.network.application)
    }

    fn send(&mut self) {
        while self.may_send() && self.now >= self.next_send {
            let segment = self.lost.pop_first().unwrap_or_else(|| {
                self.snd_nxt += 1;
                self.snd_nxt - 1
            });
            if self.sent.is_empty() {
                self.progress = self.now;
                self.first_sent_at = self.now;
                self.delivered_at = self.now;
            }
            let ack_at = self.transmit();
            self.sent.push_back(Transmission {
                segment,
                at: self.now,
                ack_at,
                passed: 0,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                first_sent_at: self.first_sent_at,
            });
            self.path.in_flight += 1;
            if let Some(rate) = self.cc.pacing_rate(&self.w, &self.path) {
                self.next_send = self.now.max(self.next_send) + rate.time_for(u64::from(WIRE_BYTES));
            }
        }
        self.cwnd_limited = self.path.in_flight >= self.w.cwnd;
    }

    /// Puts one segment on the path. Returns when its ACK arrives.
    fn transmit(&mut self) -> Time {
        self.transmissions += 1;
        let outage = self.network.outage.is_some_and(|(from, to)| (from..to).contains(&self.now));
        let scripted = match self.network.loss {
            Loss::None => false,
            Loss::Every(n) => self.transmissions % n == 0,
            Loss::Policer { bucket, rate } => {
                let passed = self.now.since(self.tokens_at).as_secs_f64();
                self.tokens = (self.tokens + passed * rate).min(bucket);
                self.tokens_at = self.now;
                let empty = self.tokens < 1.0;
                self.tokens -= if empty { 0.0 } else { 1.0 };
                empty
            }
        };
        if outage || scripted || self.queue() > self.network.buffer {
            return Time::NEVER;
        }
        self.line_free = self.line_free.max(self.now) + Span::from_ns(1_000_000_000 / self.network.rate);
        self.round_queue = self.round_queue.max(self.queue());
        let detour = self.network.detour.filter(|(from, _)| self.now >= *from).map_or(Span::ZERO, |(_, by)| by);
        self.line_free + self.network.rtt + detour
    }

    fn timeout(&self) -> Time {
        let rto = Span::from_secs(1) + self.path.srtt.saturating_mul(2);
        if self.sent.is_empty() { Time::NEVER } else { self.progress + rto.saturating_mul(1 << self.backoff) }
    }

    fn on_ack(&mut self) {
        let place = self.sent.iter().position(|s| !s.ack_at.is_never()).expect("an ACK is due");
        let arrived = self.sent.remove(place).expect("in range");
        let prior_in_flight = self.path.in_flight;
        let rtt = self.now.since(arrived.at);
        self.measure(rtt);
        self.progress = self.now;
        self.backoff = 0;

        self.delivered += 1;
        self.delivered_at = self.now;
        self.first_sent_at = arrived.at;
        self.received.insert(arrived.segment);
        let before = self.snd_una;
        while self.received.remove(&self.snd_una) {
            self.snd_una += 1;
        }
        let mut lost = 0;
        for s in self.sent.iter_mut().take(place) {
            s.passed += 1;
        }
        while self.sent.front().is_some_and(|s| s.passed >= DUP_THRESH) {
            self.lost.insert(self.sent.pop_front().expect("there is one").segment);
            lost += 1;
        }
        self.path.in_flight = self.sent.len() as u32;
        self.round_lost += lost;

        self.change_state(lost > 0);
        let acked = (self.snd_una - before) as u32;
        let interval = self.now.since(arrived.delivered_at).max(arrived.at.since(arrived.first_sent_at));
        let ack = AckSample {
            acked,
            delivered: 1,
            credit: acked.min(1),
            lost,
            rtt: Some(rtt),
            prior_in_flight,
            total_delivered: self.delivered,
            rate: Some(RateSample {
                delivered: (self.delivered - arrived.delivered) as u32,
                interval,
                prior_delivered: arrived.delivered,
                app_limited: self.network.application < self.w.cwnd,
            }),
            ece: false,
            marked: 0,
            cwnd_limited: self.cwnd_limited,
            snd_una: self.snd_una * u64::from(MSS),
            snd_nxt: self.snd_nxt * u64::from(MSS),
        };
        if self.cc.needs_every_ack() {
            self.cc.pass_every_ack(&mut self.w, &self.path, &ack);
        }
        if self.cc.owns_window() || !matches!(self.path.state, CaState::Recovery | CaState::Cwr) {
            self.cc.on_ack(&mut self.w, &self.path, &ack);
        }
        assert!((1..=self.path.cwnd_clamp).contains(&self.w.cwnd), "cwnd {} out of range", self.w.cwnd);
        if arrived.delivered >= self.round_end {
            self.end_round();
        }
    }

    fn measure(&mut self, rtt: Span) {
        self.path.min_rtt = self.path.min_rtt.min(rtt);
        let srtt = if self.path.srtt.is_zero() { rtt } else { self.path.srtt };
        self.path.srtt = srtt.mul_ratio(7, 8) + rtt.mul_ratio(1, 8);
    }

    fn end_round(&mut self) {
        self.round_end = self.delivered;
        self.rounds.push(Round {
            at: self.now,
            cwnd: self.w.cwnd,
            ssthresh: self.w.ssthresh,
            state: self.path.state,
            queue: self.round_queue,
            lost: self.round_lost,
        });
        (self.round_queue, self.round_lost) = (0, 0);
    }

    fn change_state(&mut self, lost: bool) {
        let repaired = self.snd_una >= self.recovery_end;
        let holes = !self.received.is_empty();
        match self.path.state {
            CaState::Open | CaState::Disorder if lost => self.reduce(CaState::Recovery),
            CaState::Open if holes => self.enter(CaState::Disorder),
            CaState::Disorder if !holes => self.enter(CaState::Open),
            CaState::Recovery | CaState::Loss if repaired => {
                if self.path.state == CaState::Recovery && !self.cc.owns_window() {
                    self.w.cwnd = self.w.ssthresh;
                }
                self.enter(CaState::Open);
            }
            _ => {}
        }
    }

    fn enter(&mut self, to: CaState) {
        self.cc.on_state(&mut self.w, &self.path, to);
        self.path.state = to;
    }

    fn reduce(&mut self, to: CaState) {
        self.reductions += 1;
        let ssthresh = self.cc.ssthresh(&self.w, &self.path);
        assert!(ssthresh >= 2);
        self.path.prior_cwnd = self.w.cwnd;
        self.w.ssthresh = ssthresh;
        self.recovery_end = self.snd_nxt;
        self.enter(to);
        if !self.cc.owns_window() {
            let kept = self.cc.loss_window(&self.path);
            self.w.cwnd = if to == CaState::Loss { self.w.cwnd.min(kept) } else { ssthresh };
            self.w.cwnd_cnt = 0;
        }
    }

    fn on_timeout(&mut self) {
        self.timeouts += 1;
        self.backoff = (self.backoff + 1).min(6);
        self.progress = self.now;
        if self.path.state == CaState::Loss {
            self.w.cwnd = self.w.cwnd.min(self.cc.loss_window(&self.path))
        } else {
            self.reduce(CaState::Loss)
        }
        self.lost.extend(self.sent.drain(..).map(|s| s.segment));
        self.path.in_flight = 0;
    }
}
