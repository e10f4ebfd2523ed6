//! BBR version 1: sends at the measured bottleneck bandwidth, with at most about two
//! bandwidth-delay products in flight.
//!
//! Source: Cardwell et al., "BBR: Congestion-based congestion control", ACM Queue 14(5), 2016, and
//! draft-cardwell-iccrg-bbr-congestion-control-00. Gaps in the draft are filled as in Linux 4.9 to
//! 6.x. These are policer detection, compensation of ACK aggregation (since 5.1), and the allowance
//! of three send quanta. Packet conservation in the first round of recovery is another.
//!
//! It has four modes. `Startup` doubles the rate per round until three rounds bring less than 25
//! percent more bandwidth. `Drain` empties the queue that this built. `ProbeBw` paces at 1.25, 0.75
//! and six times 1.0 of the bandwidth, each for about a smallest round trip. `ProbeRtt` keeps four
//! segments in flight for 200 ms when the smallest round trip is ten seconds old.
//!
//! Siblings: for BBR a loss is no signal; it only caps the window for the next round. BBR sets the
//! window in every state and always paces. No sibling does either.
//!
//! Valid: for bulk flows. With buffers below 1.5 bandwidth-delay products it causes high loss.
//! Beside Reno or CUBIC its share hardly depends on how many they are.
//!
//! The arithmetic is in fixed point as in Linux: bandwidth in segments per microsecond times 2^24,
//! gains in 1/256, round trips in microseconds.
//!
//! Deviations: From the draft: a round trip as short as the smallest does not make that young
//! again, as in Linux. From Linux: the control does not know which ACKs were delayed, so such a
//! sample may replace an expired smallest round trip. Clocks have no ticks of 1 to 10 ms.

mod aggregation;
mod max_filter;
mod policer;

use std::num::NonZeroU32;

use rand::RngExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use self::aggregation::Aggregation;
use self::max_filter::MaxFilter;
use self::policer::Policer;
use super::slow_start::SlowStart;
use super::{AckSample, CaState, CcContext, CongestionControl, Path, RateSample, Window, micros};
use crate::convert::{low32, low64, saturate32};
use crate::rng::Rng;
use crate::units::{DataRate, Span, Time};

/// Parameters of BBR. Linux has them as constants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BbrConfig {
    /// Rounds over which the bandwidth is the maximum. The draft's BtlBwFilterLen: 10.
    pub bandwidth_window_rounds: NonZeroU32,
    /// Age at which the smallest round trip is measured anew. The draft's RTpropFilterLen: 10 s.
    pub min_rtt_window: Span,
    /// Shortest time for which `ProbeRtt` keeps four segments in flight. The draft's
    /// ProbeRTTDuration: 200 ms. Zero: `ProbeRtt` never happens.
    pub probe_rtt_duration: Span,
    /// Estimate the rate of a token-bucket policer from two lossy intervals of equal throughput.
    /// The estimate holds for 48 rounds (Linux; not in the draft).
    pub policer_detection: bool,
    /// Add to the window the data that arrived in bursts beyond the bandwidth (Linux since 5.1;
    /// Wi-Fi and cellular need it).
    pub ack_aggregation: bool,
}

impl Default for BbrConfig {
    fn default() -> Self {
        BbrConfig {
            bandwidth_window_rounds: const { NonZeroU32::new(10).unwrap() },
            min_rtt_window: Span::from_secs(10),
            probe_rtt_duration: Span::from_ms(200),
            policer_detection: true,
            ack_aggregation: true,
        }
    }
}

/// Bandwidth of one segment per microsecond.
pub(super) const BW_UNIT: u64 = 1 << 24;
/// A gain of one.
pub(super) const UNIT: u32 = 1 << 8;
/// 2 / ln 2: the least gain with which the rate doubles per round trip.
const HIGH_GAIN: u32 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u32 = UNIT * 1000 / 2885;
const CWND_GAIN: u32 = 2 * UNIT;
const PHASES: u8 = 8;
/// Pacing gains of the phases of `ProbeBw`.
const CYCLE: [u32; PHASES as usize] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// Pace this much below the estimate: queues drain in the long run.
const PACING_MARGIN_PERCENT: u64 = 1;
/// Segments.
const MIN_CWND: u32 = 4;
/// Until so many segments have been delivered the window grows without bound (`TCP_INIT_CWND`),
/// whatever the connection began with.
const INIT_CWND: u32 = 10;
/// Rounds without a quarter more bandwidth before the pipe counts as full.
const FULL_BW_ROUNDS: u8 = 3;
/// Round-trip time from which the rate is derived before the first sample.
const NOMINAL_RTT_US: u32 = 1_000;

/// Mode of BBR; the module's text gives the purpose of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Doubles the rate per round until the pipe is full.
    Startup,
    /// Empties the queue that this built.
    Drain,
    /// Cycles its gain around the bandwidth.
    ProbeBw,
    /// Keeps four segments in flight to see the empty path.
    ProbeRtt,
}

impl BbrConfig {
    /// The control of one connection, at its beginning.
    pub fn build(&self, ctx: &CcContext) -> Bbr {
        Bbr {
            bw: MaxFilter::default(),
            next_round_delivered: 0,
            held_back_from: 0,
            held_back: 0,
            total_delivered: 0,
            min_rtt_stamp: Time::NEVER,
            cycle_start: Time::ZERO,
            probe_rtt_done: Time::NEVER,
            pacing_bps: 0,
            aggregation: Aggregation::default(),
            policer: Policer::default(),
            min_rtt_us: u32::MAX,
            rounds: 0,
            full_bw: 0,
            prior_cwnd: 0,
            mode: Mode::Startup,
            previous_state: CaState::Open,
            cycle_index: 0,
            full_bw_rounds: 0,
            full_bw_reached: false,
            round_start: false,
            probe_rtt_round_done: false,
            packet_conservation: false,
            idle_restart: false,
            rtt_seen: false,
            rng: ctx.stream.open(),
            config: self.clone(),
        }
    }
}

/// BBR, as one connection has it.
#[derive(Debug)]
pub struct Bbr {
    /// Bandwidth over the last rounds.
    bw: MaxFilter,
    /// The round ends when a segment is acknowledged that was sent after this many had been
    /// delivered.
    next_round_delivered: u64,
    total_delivered: u64,
    /// `NEVER` before the first ACK.
    min_rtt_stamp: Time,
    /// When the phase of the gain cycle began.
    cycle_start: Time,
    /// When `ProbeRtt` may end; `NEVER` until few enough segments are in flight.
    probe_rtt_done: Time,
    /// Wire bits per second; zero before the first ACK.
    pacing_bps: u64,
    aggregation: Aggregation,
    policer: Policer,
    min_rtt_us: u32,
    /// Segments sent after so many had been delivered (the low half of the count), and at most
    /// [`Self::held_back`] more, say nothing about the bandwidth: `ProbeRtt` held them back.
    held_back_from: u32,
    /// 0: it held none back, or that is long ago.
    held_back: u32,
    rounds: u32,
    /// Bandwidth that the pipe's fullness is judged against.
    full_bw: u32,
    /// Window to return to after recovery or `ProbeRtt`, segments.
    prior_cwnd: u32,
    mode: Mode,
    /// The sender's state at the last ACK.
    previous_state: CaState,
    cycle_index: u8,
    full_bw_rounds: u8,
    full_bw_reached: bool,
    /// The present ACK begins a round.
    round_start: bool,
    probe_rtt_round_done: bool,
    packet_conservation: bool,
    /// No ACK since transmission began again after idle.
    idle_restart: bool,
    rtt_seen: bool,
    rng: Rng,
    config: BbrConfig,
}

pub(super) fn in_recovery(state: CaState) -> bool {
    matches!(state, CaState::Recovery | CaState::Loss)
}

/// `bw` as wire bits per second, scaled by `gain`, less the margin.
pub(super) fn to_bps(bw: u64, gain: u32, path: &Path) -> u64 {
    let bits = u128::from(bw) * u128::from(gain) * u128::from(path.wire_bytes) * 8;
    let bps =
        bits * (1_000_000 / 100 * (100 - u128::from(PACING_MARGIN_PERCENT))) / u128::from(BW_UNIT * u64::from(UNIT));
    u64::try_from(bps).unwrap_or(u64::MAX)
}

/// `gain` times the window per round trip.
pub(super) fn initial_bps(w: &Window, path: &Path, gain: u32) -> u64 {
    let rtt_us = if path.srtt.is_zero() { NOMINAL_RTT_US } else { micros(path.srtt).max(1) };
    to_bps(u64::from(w.cwnd) * BW_UNIT / u64::from(rtt_us), gain, path)
}

/// Segments of one burst at least: below 1.2 Mbit/s of payload they leave one by one (Linux,
/// `bbr_min_tso_segs`).
pub(super) fn least_burst(pacing_bps: u64, path: &Path) -> u32 {
    let payload_bps = u128::from(pacing_bps) * u128::from(path.mss) / u128::from(path.wire_bytes.max(1));
    if payload_bps < 1_200_000 { 1 } else { 2 }
}

/// `GSO_MAX_SIZE` without headers.
const MOST_BURST_BYTES: u128 = 65_215;

/// Size of one burst of the sender: what passes in a second / 2^pacing shift, [`least_burst`] at
/// least (Linux, `bbr_tso_segs_goal`).
pub(super) fn send_quantum(pacing_bps: u64, path: &Path) -> u32 {
    let wire = u128::from(path.wire_bytes.max(1));
    let payload = (u128::from(pacing_bps / 8) * u128::from(path.mss) / wire) >> path.pacing_shift.min(63);
    let segments = payload.min(MOST_BURST_BYTES) / u128::from(path.mss.max(1));
    saturate32(low64(segments)).clamp(least_burst(pacing_bps, path), 127)
}

impl Bbr {
    /// The present mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The bandwidth that is used: the policer's, or the maximum measured.
    fn bandwidth(&self) -> u32 {
        if self.policer.found { self.policer.bw } else { self.bw.max() }
    }

    fn pacing_gain(&self) -> u32 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw if !self.policer.found => CYCLE[usize::from(self.cycle_index)],
            Mode::ProbeBw | Mode::ProbeRtt => UNIT,
        }
    }

    fn cwnd_gain(&self) -> u32 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw => CWND_GAIN,
            Mode::ProbeRtt => UNIT,
        }
    }

    /// Wire bits per second at which it paces.
    fn bps(&self, w: &Window, path: &Path) -> u64 {
        if self.pacing_bps == 0 { initial_bps(w, path, HIGH_GAIN) } else { self.pacing_bps }
    }

    fn set_pacing_rate(&mut self, w: &Window, path: &Path, gain: u32) {
        if self.pacing_bps == 0 || (!self.rtt_seen && !path.srtt.is_zero()) {
            self.pacing_bps = initial_bps(w, path, HIGH_GAIN);
            self.rtt_seen = !path.srtt.is_zero();
        }
        let bps = to_bps(u64::from(self.bandwidth()), gain, path);
        // Before the pipe is known to be full the rate only rises.
        if self.full_bw_reached || bps > self.pacing_bps {
            self.pacing_bps = bps;
        }
    }

    /// Bandwidth-delay product times `gain`, segments, rounded up.
    fn bdp(&self, bw: u32, gain: u32) -> u32 {
        if self.min_rtt_us == u32::MAX {
            return INIT_CWND;
        }
        let bdp = (u128::from(bw) * u128::from(self.min_rtt_us) * u128::from(gain) / u128::from(UNIT))
            .div_ceil(u128::from(BW_UNIT));
        u32::try_from(bdp).unwrap_or(u32::MAX)
    }

    /// `segments`, and room for what the hosts hold: three quanta, an even number, two more to
    /// probe with on short paths.
    fn with_quantization(&self, path: &Path, segments: u32) -> u32 {
        let mut n = segments.saturating_add(3 * send_quantum(self.pacing_bps, path));
        n = n.saturating_add(n & 1);
        if self.mode == Mode::ProbeBw && self.cycle_index == 0 {
            n = n.saturating_add(2);
        }
        n
    }

    fn inflight_target(&self, path: &Path, gain: u32) -> u32 {
        self.with_quantization(path, self.bdp(self.bw.max(), gain))
    }

    /// Number of segments still in the network when the next skb may leave, out of `in_flight`. It
    /// includes that skb while the queue is to grow (Linux 6.12, net/ipv4/tcp_bbr.c,
    /// `bbr_packets_in_net_at_edt`). `gain` is that with which the sender has been pacing:
    /// `bbr_update_gains` sets the next at the end of an ACK.
    fn in_net_at_next_send(&self, path: &Path, in_flight: u32, gain: u32) -> u32 {
        let us = u64::from(micros(path.next_send_at.since(path.now)));
        let delivered = saturate32(u64::from(self.bandwidth()).saturating_mul(us) / BW_UNIT);
        let quantum = if gain > UNIT { send_quantum(self.pacing_bps, path) } else { 0 };
        in_flight.saturating_add(quantum).saturating_sub(delivered)
    }

    /// `ProbeRtt` held back what was sent when so many had been delivered.
    fn was_held_back(&self, prior_delivered: u64) -> bool {
        self.held_back > 0 && low32(prior_delivered).wrapping_sub(self.held_back_from) <= self.held_back
    }

    /// Takes the same values from the path as `bbr_init` of Linux 6.12. The handshake counts as a
    /// round trip.
    fn begin(&mut self, path: &Path) {
        self.min_rtt_stamp = path.now;
        self.aggregation.restart(path.now);
        if path.min_rtt < Span::MAX {
            self.min_rtt_us = micros(path.min_rtt).max(1);
        }
    }

    fn save_cwnd(&mut self, w: &Window) {
        let good = !in_recovery(self.previous_state) && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if good { w.cwnd } else { self.prior_cwnd.max(w.cwnd) };
    }

    // The model of the path

    fn update_bandwidth(&mut self, path: &Path, ack: &AckSample, rate: &RateSample) {
        if rate.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = ack.total_delivered;
            self.rounds = self.rounds.wrapping_add(1);
            self.round_start = true;
            self.packet_conservation = false;
        }
        if self.config.policer_detection {
            self.sample_policer(path.now, ack.lost > 0, rate.app_limited);
        }
        let per_us = (u64::from(rate.delivered) * BW_UNIT).saturating_mul(1_000);
        let bw = saturate32(per_us / rate.interval.as_ns().max(1));
        // A sample that the application held down counts only if it raises the estimate.
        if !rate.app_limited || bw >= self.bw.max() {
            self.bw.update(self.config.bandwidth_window_rounds.get(), self.rounds, bw);
        }
    }

    fn sample_policer(&mut self, now: Time, lost: bool, app_limited: bool) {
        if self.policer.found {
            if self.mode == Mode::ProbeBw && self.round_start {
                self.policer.rounds += 1;
                if self.policer.rounds >= Policer::USE_ROUNDS {
                    self.policer = Policer::default();
                    self.enter_probe_bw(now);
                }
            }
        } else {
            self.policer.sample(now, self.total_delivered, lost, app_limited, self.round_start);
        }
    }

    fn check_full_pipe(&mut self, app_limited: bool) {
        if self.full_bw_reached || !self.round_start || app_limited {
            return;
        }
        let grown = u64::from(self.bw.max()) * 4 >= u64::from(self.full_bw) * 5;
        if grown {
            self.full_bw = self.bw.max();
            self.full_bw_rounds = 0;
        } else {
            self.full_bw_rounds += 1;
            self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
        }
    }

    fn update_min_rtt(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let expired = path.now > self.min_rtt_stamp + self.config.min_rtt_window;
        if let Some(rtt) = ack.rtt {
            let rtt_us = micros(rtt).max(1);
            if rtt_us < self.min_rtt_us || expired {
                self.min_rtt_us = rtt_us;
                self.min_rtt_stamp = path.now;
            }
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt && !self.config.probe_rtt_duration.is_zero() {
            self.mode = Mode::ProbeRtt;
            self.held_back_from = low32(ack.total_delivered);
            self.save_cwnd(w);
            self.probe_rtt_done = Time::NEVER;
        }
        if self.mode == Mode::ProbeRtt {
            // Linux 6.12, `bbr_update_min_rtt`: as if the application held back whatever is sent
            // from now on.
            let delivered = low32(ack.total_delivered).wrapping_sub(self.held_back_from);
            self.held_back = delivered.saturating_add(path.in_flight).max(1);
            if !self.probe_rtt_done.is_never() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.leave_probe_rtt_if_due(w, path);
                }
            } else if path.in_flight <= MIN_CWND {
                self.probe_rtt_done = path.now + self.config.probe_rtt_duration;
                self.probe_rtt_round_done = false;
                self.next_round_delivered = ack.total_delivered;
            }
        }
        if ack.delivered > 0 {
            self.idle_restart = false;
        }
    }

    // Modes

    /// Starts the gain cycle at a random phase, except the one that drains.
    fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        let phase = self.rng.random_range(0..PHASES - 1);
        self.cycle_index = if phase == 0 { 0 } else { phase + 1 };
        self.cycle_start = now;
    }

    fn advance_cycle(&mut self, path: &Path, ack: &AckSample, gain: u32) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full_length = micros(path.now.since(self.cycle_start)) > self.min_rtt_us;
        let over = if gain > UNIT {
            // Until the queue is as long as meant, or does not fit.
            full_length
                && (ack.lost > 0
                    || self.in_net_at_next_send(path, ack.prior_in_flight, gain) >= self.inflight_target(path, gain))
        } else if gain < UNIT {
            full_length || self.in_net_at_next_send(path, ack.prior_in_flight, gain) <= self.inflight_target(path, UNIT)
        } else {
            full_length
        };
        if over {
            self.cycle_index = (self.cycle_index + 1) % PHASES;
            self.cycle_start = path.now;
        }
    }

    fn check_drain(&mut self, w: &mut Window, path: &Path, gain: u32) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            w.ssthresh = self.inflight_target(path, UNIT).max(2);
        }
        if self.mode == Mode::Drain
            && self.in_net_at_next_send(path, path.in_flight, gain) <= self.inflight_target(path, UNIT)
        {
            self.enter_probe_bw(path.now);
        }
    }

    fn leave_probe_rtt_if_due(&mut self, w: &mut Window, path: &Path) {
        let now = path.now;
        if now <= self.probe_rtt_done {
            return;
        }
        self.min_rtt_stamp = now;
        w.cwnd = w.cwnd.max(self.prior_cwnd).min(path.cwnd_clamp);
        if self.full_bw_reached {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    // The window

    /// The window that recovery asks for, and true if it is to be taken as it is (packet
    /// conservation).
    fn recover_or_restore(&mut self, w: &Window, path: &Path, ack: &AckSample) -> (u32, bool) {
        let mut cwnd = w.cwnd.saturating_sub(ack.lost).max(1);
        let conserving = path.in_flight.saturating_add(ack.delivered);
        if path.state == CaState::Recovery && self.previous_state != CaState::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = ack.total_delivered;
            cwnd = conserving;
        } else if in_recovery(self.previous_state) && !in_recovery(path.state) {
            self.packet_conservation = false;
            cwnd = cwnd.max(self.prior_cwnd);
        }
        self.previous_state = path.state;
        if self.packet_conservation { (cwnd.max(conserving), true) } else { (cwnd, false) }
    }

    fn set_cwnd(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        if ack.delivered > 0 {
            let (mut cwnd, conserve) = self.recover_or_restore(w, path, ack);
            if !conserve {
                let mut target = self.bdp(self.bandwidth(), self.cwnd_gain());
                if self.config.ack_aggregation && self.full_bw_reached {
                    target = target.saturating_add(self.aggregation.allowance(self.bandwidth()));
                }
                target = self.with_quantization(path, target);
                if self.full_bw_reached {
                    cwnd = cwnd.saturating_add(ack.delivered).min(target);
                } else if cwnd < target || ack.total_delivered < u64::from(INIT_CWND) {
                    cwnd = cwnd.saturating_add(ack.delivered);
                }
                cwnd = cwnd.max(MIN_CWND);
            }
            w.cwnd = cwnd.max(1);
        }
        w.cwnd = w.cwnd.min(path.cwnd_clamp);
        if self.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(MIN_CWND);
        }
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        if self.min_rtt_stamp.is_never() {
            self.begin(path);
        }
        let gain = self.pacing_gain();
        self.total_delivered = ack.total_delivered;
        self.policer.lost = self.policer.lost.saturating_add(ack.lost);
        self.round_start = false;
        if low32(ack.total_delivered).wrapping_sub(self.held_back_from) >= 1 << 31 {
            self.held_back = 0;
        }
        let rate =
            ack.rate.map(|r| RateSample { app_limited: r.app_limited || self.was_held_back(r.prior_delivered), ..r });
        if let Some(rate) = &rate {
            self.update_bandwidth(path, ack, rate);
            if self.config.ack_aggregation && ack.delivered > 0 {
                let bw = self.bandwidth();
                self.aggregation.update(path.now, ack, bw, w.cwnd, self.round_start);
            }
        }
        self.advance_cycle(path, ack, gain);
        self.check_full_pipe(rate.is_some_and(|r| r.app_limited));
        self.check_drain(w, path, gain);
        self.update_min_rtt(w, path, ack);
        self.set_pacing_rate(w, path, self.pacing_gain());
        self.set_cwnd(w, path, ack);
    }

    /// The rate is that of the initial window and the handshake's round trip until the bandwidth is
    /// known to be more.
    fn on_established(&mut self, w: &mut Window, path: &Path) {
        self.begin(path);
        self.pacing_bps = initial_bps(w, path, HIGH_GAIN);
        self.rtt_seen = !path.srtt.is_zero();
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
        if to != CaState::Loss {
            return;
        }
        // All that was in flight counts as lost, and the timeout as the end of a round.
        self.previous_state = CaState::Loss;
        self.full_bw = 0;
        self.round_start = true;
        self.policer.lost = self.policer.lost.saturating_add(path.in_flight);
        if self.config.policer_detection {
            self.sample_policer(path.now, true, false);
        }
        w.cwnd = 1;
    }

    fn on_transmission_start(&mut self, w: &mut Window, path: &Path, _: Span, app_limited: bool) {
        if !app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(path.now);
        match self.mode {
            // No need to overfill a buffer after a pause.
            Mode::ProbeBw => self.set_pacing_rate(w, path, UNIT),
            Mode::ProbeRtt if !self.probe_rtt_done.is_never() => self.leave_probe_rtt_if_due(w, path),
            _ => {}
        }
    }

    /// The window stays until the next ACK, which ends the recovery and restores it
    /// (`bbr_undo_cwnd`). Losses that were none said nothing of how full the pipe is.
    fn undo(&mut self, w: &Window, _: &Path) -> u32 {
        (self.full_bw, self.full_bw_rounds) = (0, 0);
        self.policer = Policer::default();
        w.cwnd
    }

    fn pacing_rate(&self, w: &Window, path: &Path) -> Option<DataRate> {
        Some(DataRate::from_bps(self.bps(w, path).max(1)))
    }

    fn min_tso_segs(&self, w: &Window, path: &Path) -> Option<u32> {
        Some(least_burst(self.bps(w, path), path))
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
