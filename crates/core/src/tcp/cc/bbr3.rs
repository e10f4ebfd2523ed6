//! BBR version 3: sends at the measured bottleneck bandwidth, and keeps what is in flight where
//! losses stay below two percent.
//!
//! Source: draft-ietf-ccwg-bbr-06. Gaps in it are filled as in `bbr`, whose estimate of ACK
//! aggregation it shares.
//!
//! `Startup` and `Drain` are those of version 1, with gains of 2.77 and 0.5. Six losses in a round
//! beyond two percent end `Startup`, too. After that it cycles. `Down` (gain 0.9) drains the queue,
//! until 15 % of `inflight_hi` are free. `Cruise` (1.0) leaves that headroom to others.
//! `Refill` (1.0) fills the pipe for a round, and `Up` (1.25) probes for more. A cycle takes two to
//! three seconds, or as many rounds as Reno would need, at most 63. `ProbeRtt` keeps half of the
//! flight for 200 ms every five seconds.
//!
//! Losses bound it in two ways. More than two percent while it probes set `inflight_hi`, by no more
//! than 30 %. Elsewhere a round with losses lowers the bandwidth and flight in use to what that
//! round delivered, by no more than 30 %. `Refill` forgets the latter.
//!
//! Siblings: `bbr` does not heed losses, keeps two bandwidth-delay products in flight, and probes
//! every eight round trips whoever is beside it.
//!
//! Valid: for bulk flows, beside Reno and CUBIC with buffers around the bandwidth-delay product.
//! Losses at random up to about one percent hardly slow it.
//!
//! The arithmetic is that of `bbr`: bandwidth in segments per microsecond times 2^24, gains in
//! 1/256, round trips in microseconds.
//!
//! Deviations: no ECN, as in the draft. The flight at the time when a segment left is known ACK by
//! ACK, and a loss counts where the newest delivered segment was sent. An ACK that reports losses
//! counts as one lost range. A recovery that proves needless restores the window alone.

use std::collections::VecDeque;

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bbr::{Aggregation, BW_UNIT, UNIT, in_recovery, initial_bps, send_quantum, to_bps};
use super::slow_start::SlowStart;
use super::{AckSample, CaState, CcContext, CongestionControl, Path, RateSample, Window, micros};
use crate::convert::{floor32, floor64, saturate32, saturate64};
use crate::policy::checked;
use crate::range::within;
use crate::rng::Rng;
use crate::units::{DataRate, Span, Time};

/// Parameters of BBR version 3. The draft has them as constants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "Bbr3Config")]
pub struct Bbr3Config {
    /// Part of the segments in flight that may be lost while it probes. The draft's `LossThresh`:
    /// 0.02. 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub loss_threshold: f64,
    /// Least part that a round with losses leaves. The draft's `Beta`: 0.7. 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub beta: f64,
    /// Part of `inflight_hi` that is left to others. The draft's `Headroom`: 0.15. 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub headroom: f64,
    /// Most rounds between probes, so that Reno and CUBIC can grow. The draft: 63.
    pub reno_rounds: u32,
    /// Time between two `ProbeRtt`. The draft: 5 s.
    pub probe_rtt_interval: Span,
    /// Shortest time of `ProbeRtt`. The draft: 200 ms. Zero: it never happens.
    pub probe_rtt_duration: Span,
}

impl Default for Bbr3Config {
    fn default() -> Self {
        Bbr3Config {
            loss_threshold: 0.02,
            beta: 0.7,
            headroom: 0.15,
            reno_rounds: 63,
            probe_rtt_interval: Span::from_secs(5),
            probe_rtt_duration: Span::from_ms(200),
        }
    }
}

const STARTUP_GAIN: u32 = UNIT * 277 / 100;
const DRAIN_GAIN: u32 = UNIT / 2;
const DOWN_GAIN: u32 = UNIT * 9 / 10;
const UP_GAIN: u32 = UNIT * 5 / 4;
const CWND_GAIN: u32 = 2 * UNIT;
const UP_CWND_GAIN: u32 = UNIT * 9 / 4;
const PROBE_RTT_CWND_GAIN: u32 = UNIT / 2;
/// Segments.
const MIN_CWND: u32 = 4;
const FULL_BW_ROUNDS: u8 = 3;
const DRAIN_ROUNDS: u32 = 3;
/// Losses in a round that end `Startup`.
const STARTUP_LOSSES: u32 = 6;
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
const PROBE_WAIT: Span = Span::from_secs(2);
const UNSET: u32 = u32::MAX;

/// Phase of BBR; the module's text gives the purpose of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Doubles the rate per round until the pipe is full.
    Startup,
    /// Empties the queue that this built.
    Drain,
    /// Sends less than arrives, until there is headroom.
    Down,
    /// Sends what arrives, and leaves headroom to others.
    Cruise,
    /// Fills the pipe.
    Refill,
    /// Sends more, to find more.
    Up,
    /// Keeps little in flight to see the empty path.
    ProbeRtt,
}

/// Where the samples come from that arrive now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acks {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Flight and losses at the time when `delivered` segments had been delivered.
#[derive(Debug, Clone, Copy)]
struct FlightSample {
    delivered: u64,
    in_flight: u32,
    lost: u64,
}

/// The newest delivered segment: the rate over its flight, and the flight that it made.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    bw: u32,
    delivered: u32,
    prior_delivered: u64,
    app_limited: bool,
    /// In flight when it left, and lost since then.
    in_flight: u32,
    lost: u32,
}

impl Bbr3Config {
    fn check(&self) -> Result<(), String> {
        for (key, part) in [("loss_threshold", self.loss_threshold), ("beta", self.beta), ("headroom", self.headroom)] {
            within(key, part, 0.0..=1.0, "")?;
        }
        Ok(())
    }

    /// The control of one connection, at its beginning.
    pub fn build(&self, ctx: &CcContext) -> Bbr3 {
        let parts = |x: f64| floor32(x * f64::from(UNIT) + 0.5);
        Bbr3 {
            loss_threshold: floor64(self.loss_threshold * 1024.0 + 0.5),
            beta: parts(self.beta),
            headroom: parts(self.headroom),
            phase: Phase::Startup,
            acks: Acks::Init,
            max_bw: [0; 2],
            bw_lo: UNSET,
            inflight_lo: UNSET,
            inflight_hi: UNSET,
            bw_latest: 0,
            inflight_latest: 0,
            min_rtt_us: u32::MAX,
            min_rtt_at: Time::NEVER,
            probe_rtt_min_us: u32::MAX,
            probe_rtt_min_at: Time::ZERO,
            probe_rtt_done: Time::NEVER,
            probe_rtt_round_done: false,
            low_rate_until: 0,
            next_round: 0,
            rounds: 0,
            rounds_since_probe: 0,
            drain_round: 0,
            round_start: false,
            loss_round: 0,
            loss_round_start: false,
            loss_in_round: false,
            loss_events: 0,
            full_bw: 0,
            full_bw_rounds: 0,
            full_bw_now: false,
            full_bw_reached: false,
            is_probe_sample: false,
            cycle_start: Time::ZERO,
            probe_wait: Span::ZERO,
            up_rounds: 0,
            up_acked: 0,
            up_per_segment: UNSET,
            lost: 0,
            moments: VecDeque::new(),
            prior_cwnd: 0,
            initial_cwnd: ctx.initial_cwnd,
            previous_state: CaState::Open,
            pacing_bps: 0,
            rtt_seen: false,
            idle_restart: false,
            aggregation: Aggregation::default(),
            rng: ctx.stream.open(),
            config: self.clone(),
        }
    }
}
checked!(Bbr3Config);

/// BBR version 3, as one connection has it. Names are the draft's where it has any; its
/// `inflight_longterm` is `inflight_hi`, and what it calls short-term ends in `_lo`.
#[derive(Debug)]
pub struct Bbr3 {
    /// In 1/1024.
    loss_threshold: u64,
    /// In 1/256.
    beta: u32,
    headroom: u32,
    phase: Phase,
    acks: Acks,
    /// Largest bandwidth of the last cycle of probing and of this one.
    max_bw: [u32; 2],
    bw_lo: u32,
    inflight_lo: u32,
    inflight_hi: u32,
    bw_latest: u32,
    inflight_latest: u32,
    min_rtt_us: u32,
    /// `NEVER` before the first ACK.
    min_rtt_at: Time,
    probe_rtt_min_us: u32,
    probe_rtt_min_at: Time,
    probe_rtt_done: Time,
    probe_rtt_round_done: bool,
    /// Segments sent before this many had been delivered say nothing about the bandwidth.
    low_rate_until: u64,
    /// A round ends when a segment is delivered that left after so many had been.
    next_round: u64,
    rounds: u32,
    rounds_since_probe: u32,
    drain_round: u32,
    round_start: bool,
    loss_round: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    loss_events: u32,
    full_bw: u32,
    full_bw_rounds: u8,
    full_bw_now: bool,
    full_bw_reached: bool,
    is_probe_sample: bool,
    cycle_start: Time,
    probe_wait: Span,
    up_rounds: u32,
    up_acked: u32,
    up_per_segment: u32,
    lost: u64,
    moments: VecDeque<FlightSample>,
    prior_cwnd: u32,
    initial_cwnd: u32,
    previous_state: CaState,
    pacing_bps: u64,
    rtt_seen: bool,
    idle_restart: bool,
    aggregation: Aggregation,
    rng: Rng,
    config: Bbr3Config,
}

fn part(n: u32, of_256: u32) -> u32 {
    saturate32(u64::from(n) * u64::from(of_256) / u64::from(UNIT))
}

impl Bbr3 {
    /// The present phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    fn is_cycling(&self) -> bool {
        matches!(self.phase, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }
    fn is_probing(&self) -> bool {
        matches!(self.phase, Phase::Startup | Phase::Refill | Phase::Up)
    }

    fn max_bandwidth(&self) -> u32 {
        self.max_bw[0].max(self.max_bw[1])
    }
    fn bandwidth(&self) -> u32 {
        self.max_bandwidth().min(self.bw_lo)
    }

    fn pacing_gain(&self) -> u32 {
        match self.phase {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => DRAIN_GAIN,
            Phase::Down => DOWN_GAIN,
            Phase::Up => UP_GAIN,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt => UNIT,
        }
    }
    fn cwnd_gain(&self) -> u32 {
        match self.phase {
            Phase::Up => UP_CWND_GAIN,
            Phase::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => CWND_GAIN,
        }
    }

    fn bdp(&self, bw: u32, gain: u32) -> u32 {
        if self.min_rtt_us == u32::MAX {
            return self.initial_cwnd;
        }
        let bdp = u128::from(bw) * u128::from(self.min_rtt_us) * u128::from(gain) / u128::from(UNIT);
        saturate32(saturate64(bdp.div_ceil(u128::from(BW_UNIT))))
    }
    fn with_quantization(&self, path: &Path, segments: u32) -> u32 {
        let budget = 3 * send_quantum(self.pacing_bps, path);
        segments.max(budget).max(MIN_CWND).saturating_add(if self.phase == Phase::Up { 2 } else { 0 })
    }
    fn inflight(&self, path: &Path, bw: u32) -> u32 {
        self.with_quantization(path, self.bdp(bw, UNIT))
    }
    fn with_headroom(&self) -> u32 {
        match self.inflight_hi {
            UNSET => UNSET,
            hi => hi.saturating_sub(part(hi, self.headroom).max(1)).max(MIN_CWND),
        }
    }
    fn target_inflight(&self, w: &Window) -> u32 {
        self.bdp(self.bandwidth(), UNIT).min(w.cwnd)
    }

    fn set_pacing_rate(&mut self, w: &Window, path: &Path, gain: u32) {
        if self.pacing_bps == 0 || (!self.rtt_seen && !path.srtt.is_zero()) {
            self.pacing_bps = initial_bps(w, path, STARTUP_GAIN);
            self.rtt_seen = !path.srtt.is_zero();
        }
        let bps = to_bps(u64::from(self.bandwidth()), gain, path);
        if self.full_bw_reached || bps > self.pacing_bps {
            self.pacing_bps = bps;
        }
    }

    fn save_cwnd(&mut self, w: &Window) {
        let good = !in_recovery(self.previous_state) && self.phase != Phase::ProbeRtt;
        self.prior_cwnd = if good { w.cwnd } else { self.prior_cwnd.max(w.cwnd) };
    }

    // The information in an ACK

    /// The flight that the newest delivered segment made: section 4.1, `tx_in_flight` and `lost`.
    fn sample(&mut self, ack: &AckSample, rate: &RateSample) -> Sample {
        while self.moments.len() > 1 && self.moments[1].delivered <= rate.prior_delivered {
            self.moments.pop_front();
        }
        let (in_flight, lost) =
            self.moments.front().map_or((ack.prior_in_flight, self.lost), |m| (m.in_flight, m.lost));
        let per_us = (u64::from(rate.delivered) * BW_UNIT).saturating_mul(1_000);
        Sample {
            bw: saturate32(per_us / rate.interval.as_ns().max(1)),
            delivered: rate.delivered,
            prior_delivered: rate.prior_delivered,
            app_limited: rate.app_limited || rate.prior_delivered < self.low_rate_until,
            in_flight,
            lost: saturate32(self.lost.saturating_sub(lost)),
        }
    }

    fn is_too_high(&self, sample: &Sample) -> bool {
        u64::from(sample.lost) * 1024 > u64::from(sample.in_flight) * self.loss_threshold
    }

    /// Section 5.5.10.2, `HandleLostPacket`, for all that one ACK shows to be lost.
    fn on_losses(&mut self, w: &Window, path: &Path, ack: &AckSample, sample: &Sample) {
        self.note_loss(ack.total_delivered);
        self.loss_events += 1;
        if !self.is_probe_sample || !self.is_too_high(sample) {
            return;
        }
        // From which flight on were the losses too many?
        let before = sample.in_flight.saturating_sub(ack.lost);
        let lost_before = sample.lost.saturating_sub(ack.lost);
        let allowed = (u64::from(before) * self.loss_threshold).saturating_sub(u64::from(lost_before) * 1024);
        let at_loss = before.saturating_add(saturate32(allowed / (1024 - self.loss_threshold).max(1)));
        self.is_probe_sample = false;
        if !sample.app_limited {
            self.inflight_hi = at_loss.max(part(self.target_inflight(w), self.beta));
        }
        if self.phase == Phase::Up {
            self.start_down(path, ack.total_delivered);
        }
    }

    fn note_loss(&mut self, delivered: u64) {
        if !self.loss_in_round {
            self.loss_round = delivered;
        }
        self.loss_in_round = true;
    }

    fn update_model(&mut self, w: &Window, ack: &AckSample, sample: &Sample) {
        self.bw_latest = self.bw_latest.max(sample.bw);
        self.inflight_latest = self.inflight_latest.max(sample.delivered);
        self.loss_round_start = sample.prior_delivered >= self.loss_round;
        if self.loss_round_start {
            self.loss_round = ack.total_delivered;
        }
        self.round_start = sample.prior_delivered >= self.next_round;
        if self.round_start {
            self.next_round = ack.total_delivered;
            self.rounds = self.rounds.wrapping_add(1);
            self.rounds_since_probe = self.rounds_since_probe.saturating_add(1);
        }
        if !sample.app_limited || sample.bw >= self.max_bandwidth() {
            self.max_bw[1] = self.max_bw[1].max(sample.bw);
        }
        if self.loss_round_start && self.loss_in_round && !self.is_probing() {
            // The first time in a cycle they begin with what is in use.
            let bw = if self.bw_lo == UNSET { self.max_bandwidth() } else { self.bw_lo };
            let inflight = if self.inflight_lo == UNSET { w.cwnd } else { self.inflight_lo };
            self.bw_lo = self.bw_latest.max(part(bw, self.beta));
            self.inflight_lo = self.inflight_latest.max(part(inflight, self.beta));
        }
    }

    fn reset_full_bw(&mut self, bw: u32) {
        (self.full_bw, self.full_bw_rounds, self.full_bw_now) = (bw, 0, false);
    }

    fn check_full_bw(&mut self, sample: &Sample) {
        if self.full_bw_now || !self.round_start || sample.app_limited {
            return;
        }
        if u64::from(sample.bw) * 4 >= u64::from(self.full_bw) * 5 {
            return self.reset_full_bw(sample.bw);
        }
        self.full_bw_rounds += 1;
        self.full_bw_now = self.full_bw_rounds >= FULL_BW_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    fn check_startup_and_drain(&mut self, w: &mut Window, path: &Path, ack: &AckSample, sample: &Sample) {
        if self.phase == Phase::Startup {
            let lossy = self.loss_round_start
                && self.loss_events >= STARTUP_LOSSES
                && path.state == CaState::Recovery
                && self.is_too_high(sample);
            if lossy && !self.full_bw_reached {
                self.full_bw_reached = true;
                self.inflight_hi = self.bdp(self.max_bandwidth(), UNIT).max(self.inflight_latest);
            }
            if self.full_bw_reached {
                self.phase = Phase::Drain;
                self.drain_round = self.rounds;
                w.ssthresh = self.inflight(path, self.max_bandwidth()).max(2);
            }
        }
        if self.phase == Phase::Drain
            && (path.in_flight <= self.inflight(path, self.bandwidth())
                || self.rounds.wrapping_sub(self.drain_round) > DRAIN_ROUNDS)
        {
            self.start_down(path, ack.total_delivered);
        }
        if self.loss_round_start {
            self.loss_events = 0;
        }
    }

    // The cycle

    fn start_down(&mut self, path: &Path, delivered: u64) {
        (self.loss_in_round, self.bw_latest, self.inflight_latest) = (false, 0, 0);
        self.up_per_segment = UNSET;
        self.rounds_since_probe = self.rng.random_range(0..=1);
        self.probe_wait = PROBE_WAIT + Span::from_ns(self.rng.random_range(0..1_000_000_000));
        self.cycle_start = path.now;
        self.acks = Acks::ProbeStopping;
        self.next_round = delivered;
        self.phase = Phase::Down;
    }

    fn start_refill(&mut self, delivered: u64) {
        (self.bw_lo, self.inflight_lo) = (UNSET, UNSET);
        (self.up_rounds, self.up_acked) = (0, 0);
        self.acks = Acks::Refilling;
        self.next_round = delivered;
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, w: &Window, delivered: u64, bw: u32) {
        self.is_probe_sample = true;
        self.acks = Acks::ProbeStarting;
        self.next_round = delivered;
        self.reset_full_bw(bw);
        self.phase = Phase::Up;
        self.raise_slope(w);
    }

    fn raise_slope(&mut self, w: &Window) {
        self.up_per_segment = (w.cwnd >> self.up_rounds.min(31)).max(1);
        self.up_rounds = (self.up_rounds + 1).min(30);
    }

    fn adapt_upper_bounds(&mut self, w: &Window, ack: &AckSample, sample: &Sample) {
        if self.acks == Acks::ProbeStarting && self.round_start {
            self.acks = Acks::ProbeFeedback;
        }
        if self.acks == Acks::ProbeStopping && self.round_start {
            self.is_probe_sample = false;
            self.acks = Acks::Init;
            if self.is_cycling() && !sample.app_limited && self.max_bw[1] > 0 {
                self.max_bw = [self.max_bw[1], 0];
            }
        }
        if self.is_too_high(sample) || self.inflight_hi == UNSET {
            return;
        }
        self.inflight_hi = self.inflight_hi.max(sample.in_flight);
        if self.phase != Phase::Up || !ack.cwnd_limited || w.cwnd < self.inflight_hi {
            return;
        }
        self.up_acked = self.up_acked.saturating_add(ack.delivered);
        if self.up_acked >= self.up_per_segment {
            let more = self.up_acked / self.up_per_segment;
            self.up_acked -= more * self.up_per_segment;
            self.inflight_hi = self.inflight_hi.saturating_add(more).min(UNSET - 1);
        }
        if self.round_start {
            self.raise_slope(w);
        }
    }

    fn is_time_to_probe(&self, w: &Window, path: &Path) -> bool {
        path.now > self.cycle_start + self.probe_wait
            || self.rounds_since_probe >= self.target_inflight(w).min(self.config.reno_rounds)
    }

    fn advance_cycle(&mut self, w: &Window, path: &Path, ack: &AckSample, sample: &Sample) {
        if !self.full_bw_reached {
            return;
        }
        self.adapt_upper_bounds(w, ack, sample);
        match self.phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(w, path) => self.start_refill(ack.total_delivered),
            Phase::Down => {
                let bdp = self.inflight(path, self.max_bandwidth());
                if path.in_flight <= self.with_headroom() && path.in_flight <= bdp {
                    self.phase = Phase::Cruise;
                }
            }
            Phase::Refill if self.round_start => self.start_up(w, ack.total_delivered, sample.bw),
            Phase::Up if ack.cwnd_limited && w.cwnd >= self.inflight_hi => self.reset_full_bw(sample.bw),
            Phase::Up if self.full_bw_now => self.start_down(path, ack.total_delivered),
            _ => {}
        }
    }

    // The round trip

    fn update_min_rtt(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let expired = path.now > self.probe_rtt_min_at + self.config.probe_rtt_interval;
        if let Some(rtt) = ack.rtt {
            let rtt_us = micros(rtt).max(1);
            if rtt_us < self.probe_rtt_min_us || expired {
                (self.probe_rtt_min_us, self.probe_rtt_min_at) = (rtt_us, path.now);
            }
        }
        if self.probe_rtt_min_us < self.min_rtt_us || path.now > self.min_rtt_at + MIN_RTT_WINDOW {
            (self.min_rtt_us, self.min_rtt_at) = (self.probe_rtt_min_us, self.probe_rtt_min_at);
        }
        let may = !self.idle_restart && !self.config.probe_rtt_duration.is_zero();
        if expired && may && self.phase != Phase::ProbeRtt {
            self.save_cwnd(w);
            self.phase = Phase::ProbeRtt;
            self.probe_rtt_done = Time::NEVER;
            self.acks = Acks::ProbeStopping;
            self.next_round = ack.total_delivered;
        }
        if self.phase == Phase::ProbeRtt {
            self.low_rate_until = ack.total_delivered + u64::from(path.in_flight);
            if !self.probe_rtt_done.is_never() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.leave_probe_rtt_if_due(w, path, ack.total_delivered);
                }
            } else if path.in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done = path.now + self.config.probe_rtt_duration;
                self.probe_rtt_round_done = false;
                self.next_round = ack.total_delivered;
            }
        }
        if ack.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bandwidth(), PROBE_RTT_CWND_GAIN).max(MIN_CWND)
    }

    fn leave_probe_rtt_if_due(&mut self, w: &mut Window, path: &Path, delivered: u64) {
        if path.now <= self.probe_rtt_done {
            return;
        }
        self.probe_rtt_min_at = path.now;
        w.cwnd = w.cwnd.max(self.prior_cwnd).min(path.cwnd_clamp);
        (self.bw_lo, self.inflight_lo) = (UNSET, UNSET);
        if self.full_bw_reached {
            self.start_down(path, delivered);
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }

    // The window

    fn set_cwnd(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        if in_recovery(self.previous_state) && !in_recovery(path.state) {
            w.cwnd = w.cwnd.max(self.prior_cwnd);
        }
        self.previous_state = path.state;
        let mut most = self.bdp(self.bandwidth(), self.cwnd_gain());
        if self.full_bw_reached {
            most = most.saturating_add(self.aggregation.allowance(self.bandwidth()));
        }
        most = self.with_quantization(path, most);
        let grown = w.cwnd.saturating_add(ack.delivered);
        if self.full_bw_reached {
            w.cwnd = grown.min(most);
        } else if w.cwnd < most || ack.total_delivered < u64::from(self.initial_cwnd) {
            w.cwnd = grown;
        }
        let bound = match self.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.inflight_hi,
            Phase::Cruise => self.with_headroom(),
            Phase::ProbeRtt => self.with_headroom().min(self.probe_rtt_cwnd()),
            Phase::Startup | Phase::Drain => UNSET,
        };
        w.cwnd = w.cwnd.min(bound.min(self.inflight_lo)).max(MIN_CWND).min(path.cwnd_clamp);
    }
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        if self.min_rtt_at.is_never() {
            (self.min_rtt_at, self.probe_rtt_min_at) = (path.now, path.now);
            self.aggregation.restart(path.now);
            if path.min_rtt < Span::MAX {
                self.min_rtt_us = micros(path.min_rtt).max(1);
                self.probe_rtt_min_us = self.min_rtt_us;
            }
        }
        // Segments sent since the last ACK were sent at this count of delivered ones.
        let delivered = ack.total_delivered - u64::from(ack.delivered).min(ack.total_delivered);
        match self.moments.back_mut() {
            Some(last) if last.delivered >= delivered => last.in_flight = last.in_flight.max(ack.prior_in_flight),
            _ => self.moments.push_back(FlightSample { delivered, in_flight: ack.prior_in_flight, lost: self.lost }),
        }
        self.lost += u64::from(ack.lost);
        let sample = ack.rate.map(|rate| self.sample(ack, &rate)).unwrap_or_default();
        let has_sample = ack.rate.is_some();
        if ack.lost > 0 {
            self.on_losses(w, path, ack, &sample);
        }
        (self.round_start, self.loss_round_start) = (false, false);
        if has_sample {
            self.update_model(w, ack, &sample);
            if ack.delivered > 0 {
                let bw = self.bandwidth();
                self.aggregation.update(path.now, ack, bw, w.cwnd, self.round_start);
            }
            self.check_full_bw(&sample);
            self.check_startup_and_drain(w, path, ack, &sample);
            self.advance_cycle(w, path, ack, &sample);
        }
        self.update_min_rtt(w, path, ack);
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest, self.loss_in_round) = (sample.bw, sample.delivered, false);
        }
        self.set_pacing_rate(w, path, self.pacing_gain());
        if ack.delivered > 0 {
            self.set_cwnd(w, path, ack);
        }
    }

    fn slow_start(&mut self, _: Time) -> Option<&mut SlowStart> {
        None
    }

    /// Remembers the window; the threshold stays as it is.
    fn ssthresh(&mut self, w: &Window, _: &Path) -> u32 {
        self.save_cwnd(w);
        w.ssthresh.max(2)
    }

    fn on_state(&mut self, w: &mut Window, path: &Path, to: CaState) {
        if to == CaState::Loss {
            // All that was in flight counts as lost.
            self.previous_state = CaState::Loss;
            self.lost += u64::from(path.in_flight);
            let delivered = self.moments.back().map_or(0, |m| m.delivered);
            self.note_loss(delivered);
            w.cwnd = 1;
        }
    }

    fn on_transmission_start(&mut self, w: &mut Window, path: &Path, _: Span, app_limited: bool) {
        if !app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(path.now);
        if self.is_cycling() {
            self.set_pacing_rate(w, path, UNIT);
        } else if self.phase == Phase::ProbeRtt && !self.probe_rtt_done.is_never() {
            let delivered = self.moments.back().map_or(0, |m| m.delivered);
            self.leave_probe_rtt_if_due(w, path, delivered);
        }
    }

    fn undo(&mut self, w: &Window, _: &Path) -> u32 {
        w.cwnd.max(self.prior_cwnd)
    }

    fn pacing_rate(&self, w: &Window, path: &Path) -> Option<DataRate> {
        let bps = if self.pacing_bps == 0 { initial_bps(w, path, STARTUP_GAIN) } else { self.pacing_bps };
        Some(DataRate::from_bps(bps.max(1)))
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn wants_rate(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
