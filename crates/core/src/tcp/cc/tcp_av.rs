//! TCP-AV: holds the rate that a streaming application asks for, and shares as its base does where it cannot.
//!
//! Source: Shimonishi et al., "Congestion control enhancements for streaming media", IEICE Trans. Commun. E89-B(9),
//! 2006. This much is public, and this file does it whatever its parameters. The application names a target rate R.
//! The slow-start threshold is `W_R = R * RTT_min / MSS`. The window is steered so that the rate settles around R.
//! After a loss the window is not below what R needs. A parameter is tuned all along so that the throughput stays
//! around R. Under severe congestion the target is reduced for a time. Only the sender changes.
//!
//! The paper gives no gains, no triggers and no course of the reduction. They are parameters here. Their defaults were chosen once, by a search
//! over 40 points, by what is published of its acceptance (`studies/tcp-av-handover/calibration`). They mean:
//!
//! - *Steering.* Once per round trip the window that R needs now is computed, `R * SRTT / MSS`. Below it the window
//!   closes the part `rise` of the gap per round trip, at least as fast as Reno and at most doubling. Above it the
//!   window closes the part `fall`.
//! - *Tuning.* The control counts the segments by which the connection is behind or ahead of R. It aims at a larger
//!   window that makes them up within `tune_rounds` round trips; the addition is at most `tune_limit` of the window.
//!   This covers the cost of recoveries and fractions of a segment.
//! - *Loss.* The base's reduction, but not below `R * RTT / MSS`, and never a raise; `floor_rtt` says which RTT. The
//!   study `tcp-av-handover` says that the window is kept as high as it can be, also when a loss is detected. So a timeout leaves the same
//!   (`after_timeout`). What was outstanding counts as lost, and that many segments leave at once.
//! - *Temporal reduction.* Every `severe_rounds` round trips the connection looks back. After at least
//!   `severe_reductions` reductions with less than `severe_share` of the target, the target is multiplied by
//!   `reduced_to`, down to `target_min` of the requested rate. Otherwise it comes back by `recover_step` of the
//!   requested rate. Between the reduced target and the full one the window grows as that of its base, so that the
//!   fair share remains.
//!
//! Siblings: with an idle path and an endless source it stops at R (`above`). Reno and CUBIC fill the path; Vegas and
//! BBR find the path's rate by themselves. Feng, Kandlur, Saha and Shin ("Understanding and improving TCP performance
//! over networks with minimum rate guarantees", IEEE/ACM ToN 7(2), 1999) split a window likewise, into a reserved and
//! a shared part, for networks that reserve. TCP-AV has no reservation and takes its rate from the other flows.
//!
//! Valid: where the network can carry the sum of targets, or where a few such streams compete with many plain flows.
//! Whole segments limit it on short paths: it cannot hold a rate below two segments per round trip.
//!
//! The arithmetic is in integers: windows and shares in 1/1024.
//!
//! Deviations: unknown, because the formulas of the original are not public.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AckSample, AnyCc, CaState, CcConfig, CcContext, CongestionControl, CubicConfig, Path, RenoConfig, Window};
use crate::convert::{low64, round32, saturate32, saturate64, signed64, unsigned64};
use crate::policy::checked;
use crate::units::{DataRate, Probability, Span, Time};

/// Parameters of TCP-AV.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "TcpAvConfig")]
pub struct TcpAvConfig {
    /// Payload rate that the application asks for, 1kbit/s to 100Gbit/s. Left out: 4Mbit/s, video of standard definition in
    /// MPEG-2.
    pub target: DataRate,
    /// The control it extends: `"reno"` (the original), `"cubic"`, or a table with the parameters of one of them. It
    /// decides the reduction after a loss while the window is larger than the target needs. It also decides the growth
    /// above a reduced target. Default: `"reno"`.
    #[schemars(with = "CcConfig")] // not a list of its own, so that each control stays one class in Python
    pub base: Base,
    /// Scope of the smallest round-trip time. Not published for handovers.
    pub rtt_min: RttMin,
    /// With `rtt_min = "window"`: length of the window, between once and twice this. 10s: BBR's window for the same quantity.
    /// Above zero.
    pub rtt_min_window: Span,
    /// Round-trip time in the least window after a loss. Default: `"smoothed"`.
    pub floor_rtt: FloorRtt,
    /// What a timeout leaves of the window: as much as any loss (`"floor"`), or one segment, from which slow start leads back (`"one"`).
    pub after_timeout: AfterTimeout,
    /// Beyond what the full target needs the window stays (`"hold"`) or grows as its base (`"base"`).
    pub above: Above,
    /// Part of the gap to the target's window that is closed per round trip, from below; above 0. 1/4: nine tenths in eight round
    /// trips. A loop that sees its effect one to two round trips late does not swing up to about 1/(e d).
    pub rise: Probability,
    /// The same part from above; above 0. 1/4 for the same reason.
    pub fall: Probability,
    /// Round trips within which tuning makes up for segments that the connection is behind, 1 to 1000. 32: by the search; much slower than the
    /// steering, so that the two do not work against each other.
    #[schemars(range(min = 1, max = 1000))]
    pub tune_rounds: u32,
    /// Largest change of the window by tuning, as a part of the target's window. 0: no tuning. 0.5: by the search.
    pub tune_limit: Probability,
    /// Round trips over which severe congestion is judged, 1 to 10000.
    #[schemars(range(min = 1, max = 10_000))]
    pub severe_rounds: u32,
    /// Number of reductions and timeouts within `severe_rounds` that make congestion severe; 0: never. 8, every other round trip: by the
    /// search. Without any reduction the acceptance is met as well, but there is one in the paper.
    pub severe_reductions: u32,
    /// Congestion is not severe while at least this part of the target is delivered; above 0.
    pub severe_share: Probability,
    /// Factor by which severe congestion multiplies the target; above 0, below 1. 0.5: as Reno does with its window.
    pub reduced_to: Probability,
    /// Least target, as a part of the full one; above 0.
    pub target_min: Probability,
    /// Part of the full target that is restored after `severe_rounds` round trips without severe congestion; above 0. 0.25: by the search.
    pub recover_step: Probability,
}

impl Default for TcpAvConfig {
    fn default() -> TcpAvConfig {
        let part = |p| Probability::new(p).expect("in range");
        TcpAvConfig {
            target: DataRate::from_mbps(4),
            base: Base::default(),
            rtt_min: RttMin::Connection,
            rtt_min_window: Span::from_secs(10),
            floor_rtt: FloorRtt::Smoothed,
            after_timeout: AfterTimeout::Floor,
            above: Above::Hold,
            rise: part(0.25),
            fall: part(0.25),
            tune_rounds: 32,
            tune_limit: part(0.5),
            severe_rounds: 16,
            severe_reductions: 8,
            severe_share: part(0.9),
            reduced_to: part(0.5),
            target_min: part(0.0625),
            recover_step: part(0.25),
        }
    }
}

/// The control that TCP-AV extends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "CcConfig", into = "CcConfig")]
pub enum Base {
    /// Reno, the original.
    Reno(RenoConfig),
    /// CUBIC.
    Cubic(CubicConfig),
}

impl Default for Base {
    fn default() -> Base {
        Base::Reno(RenoConfig::default())
    }
}

impl TryFrom<CcConfig> for Base {
    type Error = String;
    fn try_from(config: CcConfig) -> Result<Base, String> {
        match config {
            CcConfig::Reno(c) => Ok(Base::Reno(c)),
            CcConfig::Cubic(c) => Ok(Base::Cubic(c)),
            other => {
                Err(format!("base = \"{}\": must be \"reno\" or \"cubic\", or a table of one of them", other.name()))
            }
        }
    }
}

impl From<Base> for CcConfig {
    fn from(base: Base) -> CcConfig {
        match base {
            Base::Reno(c) => CcConfig::Reno(c),
            Base::Cubic(c) => CcConfig::Cubic(c),
        }
    }
}

/// Which round-trip time counts as the smallest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RttMin {
    /// The connection's, whatever has changed since.
    #[default]
    Connection,
    /// The path's: when the host says that it has another one, it is measured anew, and the full target is tried at once.
    Path,
    /// That of the last `rtt_min_window`.
    Window,
}

/// Round-trip time in the least window after a loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FloorRtt {
    /// The smallest: `W_R`, as published for the threshold. The queue then pays for a loss. On a LAN of a few milliseconds it is a few segments.
    Min,
    /// The present one: what R needs over the queue as it is.
    #[default]
    Smoothed,
}

/// What a timeout leaves of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterTimeout {
    /// One segment, as RFC 5681 has it.
    One,
    /// What any loss leaves: what R needs.
    #[default]
    Floor,
}

/// What the window does beyond what the full target needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Above {
    /// It returns to it: the rate settles around the target.
    #[default]
    Hold,
    /// It grows as that of the base: the target is a minimum.
    Base,
}

/// Denominator of shares and of fractions of a segment.
const UNIT: u32 = 1 << 10;

fn share(p: Probability) -> u32 {
    round32(p.get() * f64::from(UNIT))
}

impl TcpAvConfig {
    fn check(&self) -> Result<(), String> {
        let target = self.target.as_bps();
        if !(1_000..=100_000_000_000).contains(&target) {
            return Err(format!("target = {}: must be 1kbit/s to 100Gbit/s", self.target));
        }
        if self.rtt_min_window.is_zero() {
            return Err("rtt_min_window = 0ns: must be above zero".to_owned());
        }
        for (name, value, most) in
            [("tune_rounds", self.tune_rounds, 1_000), ("severe_rounds", self.severe_rounds, 10_000)]
        {
            if !(1..=most).contains(&value) {
                return Err(format!("{name} = {value}: must be 1 to {most}"));
            }
        }
        // Held in 1/1024.
        let least = 1.0 / f64::from(UNIT);
        for (name, value) in [
            ("rise", self.rise),
            ("fall", self.fall),
            ("severe_share", self.severe_share),
            ("reduced_to", self.reduced_to),
            ("target_min", self.target_min),
            ("recover_step", self.recover_step),
        ] {
            if value.get() < least {
                return Err(format!("{name} = {}: must be 1/1024 to 1", value.get()));
            }
        }
        if share(self.reduced_to) == UNIT {
            return Err(format!("reduced_to = {}: must be below 1", self.reduced_to.get()));
        }
        Ok(())
    }

    /// The control of one connection, at its beginning.
    pub fn build(&self, ctx: &CcContext) -> TcpAv {
        TcpAv {
            base: Box::new(CcConfig::from(self.base.clone()).build(ctx)),
            share: UNIT,
            smallest: Smallest::new(self.rtt_min, self.rtt_min_window),
            before_first_reduction: true,
            round: None,
            behind: 0,
            aim: None,
            moved: 0,
            period: None,
            rounds: 0,
            reductions: 0,
            target: self.target,
            floor_rtt: self.floor_rtt,
            after_timeout: self.after_timeout,
            above: self.above,
            rise: share(self.rise),
            fall: share(self.fall),
            tune_rounds: self.tune_rounds,
            tune_limit: share(self.tune_limit),
            severe_rounds: self.severe_rounds,
            severe_reductions: self.severe_reductions,
            severe_share: share(self.severe_share),
            reduced_to: share(self.reduced_to),
            target_min: share(self.target_min),
            recover_step: share(self.recover_step),
        }
    }
}
checked!(TcpAvConfig);

/// The smallest round-trip time under a policy.
#[derive(Debug, Clone)]
struct Smallest {
    policy: RttMin,
    window: Span,
    /// Since when `now` collects.
    since: Time,
    now: Span,
    /// Of the window before.
    before: Span,
}

impl Smallest {
    fn new(policy: RttMin, window: Span) -> Smallest {
        Smallest { policy, window, since: Time::ZERO, now: Span::MAX, before: Span::MAX }
    }

    fn on_ack(&mut self, path: &Path, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        if self.policy == RttMin::Window && path.now.since(self.since) >= self.window {
            // Nothing measured for two windows: the last one says nothing.
            self.before = if path.now.since(self.since) < self.window.saturating_mul(2) { self.now } else { Span::MAX };
            (self.since, self.now) = (path.now, Span::MAX);
        }
        self.now = self.now.min(rtt);
    }

    fn forget(&mut self) {
        (self.now, self.before) = (Span::MAX, Span::MAX);
    }

    /// `Span::MAX`: not known.
    fn get(&self, path: &Path) -> Span {
        if self.policy == RttMin::Connection { path.min_rtt } else { self.now.min(self.before) }
    }
}

/// Where counting began: a round trip, or a period over which congestion is judged.
#[derive(Debug, Clone, Copy)]
struct Count {
    start: Time,
    delivered: u64,
    /// Stream offset whose acknowledgement ends a round trip.
    end: u64,
    /// The window limited the sender throughout: what was not delivered was not the application's doing.
    limited: bool,
    /// There was slow start in it.
    slow_start: bool,
}

impl Count {
    fn from(w: &Window, path: &Path, ack: &AckSample) -> Count {
        Count {
            start: path.now,
            delivered: ack.total_delivered,
            end: ack.snd_nxt,
            limited: ack.cwnd_limited,
            slow_start: w.in_slow_start(),
        }
    }
}

/// Where the window goes during this round trip. In 1/1024 segments.
#[derive(Debug, Clone, Copy)]
struct Aim {
    /// What the present target needs.
    low: u64,
    /// What the full target needs.
    high: u64,
    /// By how much the window moves in the round trip.
    step: u64,
}

/// TCP-AV, as one connection has it.
#[derive(Debug)]
pub struct TcpAv {
    base: Box<AnyCc>,
    /// The present target, in 1/1024 of the full one.
    share: u32,
    smallest: Smallest,
    before_first_reduction: bool,
    /// `None`: the next ACK begins one.
    round: Option<Count>,
    /// How far delivery is behind the target, in 1/1024 segments; negative: ahead.
    behind: i64,
    /// `None`: to be computed at the next ACK.
    aim: Option<Aim>,
    /// Towards the next step of the window: acknowledged segments times `step`.
    moved: u64,
    period: Option<Count>,
    /// Round trips and reductions in this period.
    rounds: u32,
    reductions: u32,
    target: DataRate,
    floor_rtt: FloorRtt,
    after_timeout: AfterTimeout,
    above: Above,
    rise: u32,
    fall: u32,
    tune_rounds: u32,
    tune_limit: u32,
    severe_rounds: u32,
    severe_reductions: u32,
    severe_share: u32,
    reduced_to: u32,
    target_min: u32,
    recover_step: u32,
}

/// Segments of `mss` bytes that pass in `span` at `rate`, in 1/1024; no more than a window can hold.
fn segments(rate: DataRate, span: Span, mss: u32) -> u64 {
    let bits = u128::from(rate.as_bps()) * u128::from(span.as_ns()) * u128::from(UNIT);
    let most = u128::from(u32::MAX) * u128::from(UNIT);
    saturate64((bits / (8_000_000_000 * u128::from(mss.max(1)))).min(most))
}

impl TcpAv {
    /// The target as reduced at present.
    pub fn target_now(&self) -> DataRate {
        self.target.mul_ratio(u64::from(self.share), u64::from(UNIT))
    }

    /// `W_R`, segments, at least 2; `None` before the first round-trip time.
    fn threshold(&self, path: &Path) -> Option<u32> {
        let rtt = self.smallest.get(path);
        (rtt != Span::MAX).then(|| whole(segments(self.target_now(), rtt, path.mss)).max(2))
    }

    /// What a loss leaves at least, segments.
    fn floor(&self, path: &Path) -> u32 {
        match self.floor_rtt {
            FloorRtt::Min => self.threshold(path).unwrap_or(2),
            FloorRtt::Smoothed => whole(segments(self.target_now(), path.srtt, path.mss)).max(2),
        }
    }

    fn aim(&mut self, w: &Window, path: &Path) -> Aim {
        if let Some(aim) = self.aim {
            return aim;
        }
        let need = |rate| signed64(segments(rate, path.srtt, path.mss));
        let tuned = |need: i64| {
            let limit = need * i64::from(self.tune_limit) / i64::from(UNIT);
            unsigned64(need + (self.behind / i64::from(self.tune_rounds)).clamp(-limit, limit))
        };
        let (low, high) = (tuned(need(self.target_now())), tuned(need(self.target)));
        let cwnd = u64::from(w.cwnd) * u64::from(UNIT);
        let step = if cwnd < low {
            closing(low - cwnd, self.rise).min(cwnd)
        } else {
            closing(cwnd.saturating_sub(high), self.fall)
        };
        let aim = Aim { low, high, step };
        self.aim = Some(aim);
        aim
    }

    /// Steps that the window takes at this ACK so that `step` passes per window of acknowledged segments.
    fn steps(&mut self, w: &Window, step: u64, credit: u32) -> u32 {
        self.moved = self.moved.saturating_add(step.saturating_mul(u64::from(credit)));
        let per = u64::from(w.cwnd) * u64::from(UNIT);
        let steps = (self.moved / per).min(u64::from(credit));
        self.moved = (self.moved - steps * per).min(per);
        saturate32(steps)
    }

    fn avoid_congestion(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let aim = self.aim(w, path);
        let cwnd = u64::from(w.cwnd) * u64::from(UNIT);
        if cwnd >= aim.low && (self.above == Above::Base || cwnd < aim.high) {
            return self.base.on_ack(w, path, ack);
        }
        // What the base counts in time stands still meanwhile.
        self.base.on_ack(w, path, &AckSample { cwnd_limited: false, ..*ack });
        if !ack.cwnd_limited {
            return;
        }
        let steps = self.steps(w, aim.step, ack.credit);
        if cwnd < aim.low {
            w.cwnd = w.cwnd.saturating_add(steps).min(whole_up(aim.low)).max(w.cwnd).min(path.cwnd_clamp);
        } else {
            w.cwnd = w.cwnd.saturating_sub(steps).max(whole(aim.high)).max(2).min(w.cwnd);
            // Slow start does not come back by itself.
            w.ssthresh = w.ssthresh.min(w.cwnd).max(2);
        }
    }

    fn count(&mut self, w: &Window, path: &Path, ack: &AckSample) {
        for count in [&mut self.round, &mut self.period] {
            match count {
                Some(count) => count.limited &= ack.cwnd_limited,
                None => *count = Some(Count::from(w, path, ack)),
            }
        }
        let Some(round) = self.round.filter(|round| ack.snd_una >= round.end) else { return };
        self.tune(path, ack, &round);
        self.rounds += 1;
        if self.rounds >= self.severe_rounds {
            self.judge(w, path, ack);
        }
        self.round = Some(Count::from(w, path, ack));
        self.aim = None;
    }

    /// Target and delivery since `count` began, in 1/1024 segments.
    fn account(&self, path: &Path, ack: &AckSample, count: &Count) -> (u64, u64) {
        let delivered = (ack.total_delivered - count.delivered).min(u64::from(u32::MAX));
        (segments(self.target_now(), path.now.since(count.start), path.mss), delivered * u64::from(UNIT))
    }

    /// The end of a round trip: what it left of the target undone.
    fn tune(&mut self, path: &Path, ack: &AckSample, round: &Count) {
        if !round.limited || round.slow_start {
            return;
        }
        let (asked, delivered) = self.account(path, ack, round);
        let window = segments(self.target_now(), path.srtt, path.mss);
        let limit = signed64(part(window, self.tune_limit) * u64::from(self.tune_rounds));
        // What the base takes above the target is not to be given back.
        let least = if self.share < UNIT || self.above == Above::Base { 0 } else { -limit };
        self.behind = (self.behind + signed64(asked) - signed64(delivered)).clamp(least, limit);
    }

    /// The end of a period: is congestion severe?
    fn judge(&mut self, w: &Window, path: &Path, ack: &AckSample) {
        if let Some(period) = self.period {
            let (asked, delivered) = self.account(path, ack, &period);
            let severe = self.severe_reductions > 0
                && self.reductions >= self.severe_reductions
                && period.limited
                && delivered < part(asked, self.severe_share);
            if severe {
                self.share = (self.share * self.reduced_to / UNIT).max(self.target_min);
                self.behind = 0;
            } else {
                self.share = (self.share + self.recover_step).min(UNIT);
            }
        }
        (self.period, self.rounds, self.reductions) = (Some(Count::from(w, path, ack)), 0, 0);
    }
}

impl CongestionControl for TcpAv {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        self.smallest.on_ack(path, ack);
        self.count(w, path, ack);
        if path.srtt.is_zero() {
            return self.base.on_ack(w, path, ack);
        }
        if w.in_slow_start() {
            if self.before_first_reduction {
                w.ssthresh = w.ssthresh.min(self.threshold(path).unwrap_or(u32::MAX));
            }
            if self.above == Above::Hold && u64::from(w.cwnd) * u64::from(UNIT) >= self.aim(w, path).high {
                w.ssthresh = w.ssthresh.min(w.cwnd).max(2);
            }
            if w.in_slow_start() {
                self.base.on_ack(w, path, ack);
                self.aim = None;
                return;
            }
        }
        self.avoid_congestion(w, path, ack);
    }

    fn ssthresh(&mut self, w: &Window, path: &Path) -> u32 {
        self.before_first_reduction = false;
        self.reductions = self.reductions.saturating_add(1);
        (self.aim, self.moved) = (None, 0);
        self.base.ssthresh(w, path).max(self.floor(path).min(w.cwnd))
    }

    fn on_state(&mut self, w: &mut Window, path: &Path, to: CaState) {
        self.base.on_state(w, path, to);
        self.aim = None;
        if to == CaState::Loss {
            self.round = None;
            if let Some(threshold) = self.threshold(path) {
                w.ssthresh = w.ssthresh.max(threshold);
            }
        }
    }

    fn loss_window(&self, path: &Path) -> u32 {
        match self.after_timeout {
            AfterTimeout::One => 1,
            AfterTimeout::Floor => self.floor(path),
        }
    }

    fn on_restart(&mut self, w: &mut Window, path: &Path, idle: Span) {
        self.base.on_restart(w, path, idle);
        (self.round, self.aim) = (None, None);
        if let Some(period) = &mut self.period {
            period.limited = false;
        }
    }

    fn on_path_change(&mut self, w: &mut Window, path: &Path) {
        self.base.on_path_change(w, path);
        if self.smallest.policy == RttMin::Path {
            self.smallest.forget();
            self.share = UNIT;
            self.behind = 0;
            (self.round, self.period, self.aim) = (None, None, None);
            (self.rounds, self.reductions) = (0, 0);
        }
    }

    fn undo(&self, w: &Window, path: &Path) -> u32 {
        self.base.undo(w, path)
    }
}

/// How far a round trip closes `gap`: a segment, or the `share` of it if that is more.
fn closing(gap: u64, share: u32) -> u64 {
    part(gap, share).max(gap.min(u64::from(UNIT)))
}

fn part(of: u64, share: u32) -> u64 {
    low64(u128::from(of) * u128::from(share) / u128::from(UNIT))
}

fn whole(segments: u64) -> u32 {
    u32::try_from(segments / u64::from(UNIT)).unwrap_or(u32::MAX)
}

fn whole_up(segments: u64) -> u32 {
    u32::try_from(segments.div_ceil(u64::from(UNIT))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
