//! TCP-AV: holds the rate that a streaming application asks for, and shares as its base does where
//! it cannot.
//!
//! Source: Shimonishi et al., "Congestion control enhancements for streaming media", IEICE Trans.
//! Commun. E89-B(9), 2006. This much is public, and this file does it whatever its parameters. The
//! application names a target rate R. The slow-start threshold is `W_R = R * RTT_min / MSS`. The
//! window is steered so that the rate settles around R. After a loss the window is not below what R
//! needs. A parameter is tuned all along so that the throughput stays around R. Under severe
//! congestion the target is reduced for a time. Only the sender changes.
//!
//! The paper gives no gains, no triggers and no course of the reduction. They are parameters here.
//! Their defaults were chosen once, by a search over 40 points, by what is published of its
//! acceptance (`studies/tcp-av-handover/calibration`). They mean:
//!
//! - *Steering.* Once per round trip the window that R needs now is computed, `R * SRTT / MSS`.
//!   Below it the window closes the part `rise` of the gap per round trip, at least as fast as Reno
//!   and at most doubling. Above it the window closes the part `fall`.
//! - *Tuning.* The control counts the segments by which the connection is behind or ahead of R. It
//!   aims at a larger window that makes them up within `tune_rounds` round trips; the addition is
//!   at most `tune_limit` of the window. This covers the cost of recoveries and fractions of a
//!   segment.
//! - *Loss.* The base's reduction, but not below `R * RTT / MSS`, and never a raise; `floor_rtt`
//!   says which RTT. The study `tcp-av-handover` says that the window is kept as high as it can be,
//!   also when a loss is detected. So a timeout leaves the same (`after_timeout`). All outstanding
//!   segments count as lost, and that many leave. They leave at once, or with the next ACK where a
//!   timeout sends one segment (`timeout_sends_one`, as in Linux).
//! - *Temporal reduction.* Every `severe_rounds` round trips the connection looks back. After at
//!   least `severe_reductions` reductions with less than `severe_share` of the target, the target
//!   is multiplied by `reduced_to`, down to `target_min` of the requested rate. Otherwise it comes
//!   back by `recover_step` of the requested rate. Between the reduced target and the full one the
//!   window grows as that of its base, so that the fair share remains.
//!
//! Siblings: with an idle path and an endless source it stops at R (`above`). Reno and CUBIC fill
//! the path; Vegas and BBR find the path's rate by themselves. Feng, Kandlur, Saha and Shin
//! ("Understanding and improving TCP performance over networks with minimum rate guarantees",
//! IEEE/ACM ToN 7(2), 1999) split a window likewise, into a reserved and a shared part, for
//! networks that reserve. TCP-AV has no reservation and takes its rate from the other flows.
//!
//! Valid: where the network can carry the sum of targets, or where a few such streams compete with
//! many plain flows. Whole segments limit it on short paths: it cannot hold a rate below two
//! segments per round trip.
//!
//! The arithmetic is in integers: windows and shares in 1/1024. It is `crates/law`, which the Linux
//! kernel runs too (`airtcp host av`).
//!
//! Deviations: unknown, because the formulas of the original are not public.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use airtcp_law::tcp_av::{self as law, Params, State, Verdict, choice};
use airtcp_law::{UNIT, UNKNOWN};

use super::slow_start::SlowStart;
use super::{AckSample, AnyCc, CaState, CcConfig, CcContext, CongestionControl, CubicConfig, Path, RenoConfig, Window};
use crate::convert::{round32, saturate32};
use crate::policy::checked;
use crate::units::{DataRate, Probability, Span, Time};

/// Parameters of TCP-AV.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "TcpAvConfig")]
pub struct TcpAvConfig {
    /// Payload rate that the application asks for, 1kbit/s to 100Gbit/s. Left out: 4Mbit/s, video
    /// of standard definition in MPEG-2.
    pub target: DataRate,
    /// The control it extends: `"reno"` (the original), `"cubic"`, or a table with the parameters
    /// of one of them. It decides the reduction after a loss while the window is larger than
    /// the target needs. It also decides the growth above a reduced target. Default: `"reno"`.
    #[schemars(with = "CcConfig")] // not a list of its own, so that each control stays one class in Python
    pub base: Base,
    /// Scope of the smallest round-trip time. Not published for handovers.
    pub rtt_min: RttMin,
    /// With `rtt_min = "window"`: length of the window, between once and twice this. 10s: BBR's
    /// window for the same quantity. Above zero.
    pub rtt_min_window: Span,
    /// Round-trip time in the least window after a loss.
    pub floor_rtt: FloorRtt,
    /// Window that a timeout leaves: as large as after any loss (`"floor"`), or one segment, from
    /// which slow start leads back (`"one"`). `"new_data"` keeps the same window as `"floor"`, but
    /// fills it with new data where the timeout sends one segment (`timeout_sends_one`). The
    /// command `airtcp host av` does so.
    pub after_timeout: AfterTimeout,
    /// Beyond what the full target needs the window stays (`"hold"`) or grows as its base
    /// (`"base"`).
    pub above: Above,
    /// Part of the gap to the target's window that is closed per round trip, from below; above 0.
    /// 1/4: nine tenths in eight round trips. A loop that sees its effect one to two round
    /// trips late does not swing up to about 1/(e d).
    pub rise: Probability,
    /// The same part from above; above 0. 1/4 for the same reason.
    pub fall: Probability,
    /// Round trips within which tuning makes up for segments that the connection is behind, 1 to
    /// 1000. 32: by the search; much slower than the steering, so that the two do not work
    /// against each other.
    #[schemars(range(min = 1, max = 1000))]
    pub tune_rounds: u32,
    /// Largest change of the window by tuning, as a part of the target's window. 0: no tuning. 0.5:
    /// by the search.
    pub tune_limit: Probability,
    /// Round trips over which severe congestion is judged, 1 to 10000.
    #[schemars(range(min = 1, max = 10_000))]
    pub severe_rounds: u32,
    /// Number of reductions and timeouts within `severe_rounds` that make congestion severe; 0:
    /// never. 8, every other round trip: by the search. Without any reduction the acceptance is
    /// met as well, but there is one in the paper.
    pub severe_reductions: u32,
    /// Congestion is not severe while at least this part of the target is delivered; above 0.
    pub severe_share: Probability,
    /// Factor by which severe congestion multiplies the target; above 0, below 1. 0.5: as Reno does
    /// with its window.
    pub reduced_to: Probability,
    /// Least target, as a part of the full one; above 0.
    pub target_min: Probability,
    /// Part of the full target that is restored after `severe_rounds` round trips without severe
    /// congestion; above 0. 0.25: by the search.
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
    /// The path's: when the host says that it has another one, it is measured anew, and the full
    /// target is tried at once.
    Path,
    /// That of the last `rtt_min_window`.
    Window,
}

/// Round-trip time in the least window after a loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FloorRtt {
    /// The smallest: `W_R`, as published for the threshold. The queue then pays for a loss. On a
    /// LAN of a few milliseconds it is a few segments.
    Min,
    /// The present one: what R needs over the queue as it is.
    #[default]
    Smoothed,
}

/// Window that a timeout leaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AfterTimeout {
    /// One segment, as RFC 5681 has it.
    One,
    /// The window that any loss leaves: as much as R needs.
    #[default]
    Floor,
    /// The same, and new data leaves at once. Any of it that arrives brings an ACK, and that the
    /// repair.
    NewData,
}

/// Growth of the window beyond the size that the full target needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Above {
    /// It returns to it: the rate settles around the target.
    #[default]
    Hold,
    /// It grows as that of the base: the target is a minimum.
    Base,
}

/// A share as the law holds it.
fn share(p: Probability) -> u64 {
    u64::from(round32(p.get() * 1024.0))
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
        let least = 1.0 / 1024.0;
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
            state: State::NEW,
            params: Params {
                target_bps: self.target.as_bps(),
                rtt_min: match self.rtt_min {
                    RttMin::Connection => choice::CONNECTION,
                    RttMin::Path => choice::PATH,
                    RttMin::Window => choice::WINDOW,
                },
                rtt_min_window_ns: self.rtt_min_window.as_ns(),
                floor_rtt: match self.floor_rtt {
                    FloorRtt::Min => choice::MIN,
                    FloorRtt::Smoothed => choice::SMOOTHED,
                },
                after_timeout: match self.after_timeout {
                    AfterTimeout::One => choice::ONE,
                    AfterTimeout::Floor => choice::FLOOR,
                    AfterTimeout::NewData => choice::NEW_DATA,
                },
                above: match self.above {
                    Above::Hold => choice::HOLD,
                    Above::Base => choice::BASE,
                },
                rise: share(self.rise),
                fall: share(self.fall),
                tune_rounds: u64::from(self.tune_rounds),
                tune_limit: share(self.tune_limit),
                severe_rounds: u64::from(self.severe_rounds),
                severe_reductions: u64::from(self.severe_reductions),
                severe_share: share(self.severe_share),
                reduced_to: share(self.reduced_to),
                target_min: share(self.target_min),
                recover_step: share(self.recover_step),
            },
        }
    }
}
checked!(TcpAvConfig);

/// TCP-AV, as one connection has it: its law, and the base that the law leaves ACKs to.
#[derive(Debug)]
pub struct TcpAv {
    base: Box<AnyCc>,
    params: Params,
    state: State,
}

impl TcpAv {
    /// The target as reduced at present.
    pub fn target_now(&self) -> DataRate {
        DataRate::from_bps(law::target_now(&self.params, &self.state))
    }
}

/// The fields of a path that the law reads.
fn read(path: &Path) -> law::Path {
    law::Path {
        now_ns: path.now.since(Time::ZERO).as_ns(),
        srtt_ns: path.srtt.as_ns(),
        min_rtt_ns: path.min_rtt.as_ns(),
        mss: u64::from(path.mss),
        cwnd_clamp: u64::from(path.cwnd_clamp),
    }
}

/// Runs `f` on the law's view of a window.
fn with_window<T>(w: &mut Window, f: impl FnOnce(&mut law::Window) -> T) -> T {
    let mut view = law::Window { cwnd: u64::from(w.cwnd), ssthresh: u64::from(w.ssthresh) };
    let result = f(&mut view);
    (w.cwnd, w.ssthresh) = (saturate32(view.cwnd), saturate32(view.ssthresh));
    result
}

impl CongestionControl for TcpAv {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let seen = read(path);
        let told = law::Ack {
            rtt_ns: ack.rtt.map_or(UNKNOWN, Span::as_ns),
            credit: u64::from(ack.credit),
            delivered: ack.total_delivered,
            cwnd_limited: u64::from(ack.cwnd_limited),
            snd_una: ack.snd_una,
            snd_nxt: ack.snd_nxt,
        };
        let (params, state) = (&self.params, &mut self.state);
        if with_window(w, |w| law::on_ack(params, state, w, &seen, &told)) == Verdict::BASE {
            return self.base.on_ack(w, path, ack);
        }
        // The base's growth over time stands still meanwhile.
        self.base.on_ack(w, path, &AckSample { cwnd_limited: false, ..*ack });
        with_window(w, |w| law::steer(&mut self.state, w, &seen, &told));
    }

    fn on_every_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        self.base.on_every_ack(w, path, ack);
    }

    fn wants_every_ack(&self) -> bool {
        self.base.wants_every_ack()
    }

    fn slow_start(&mut self, now: Time) -> Option<&mut SlowStart> {
        self.base.slow_start(now)
    }

    fn ssthresh(&mut self, w: &Window, path: &Path) -> u32 {
        let base = u64::from(self.base.ssthresh(w, path));
        saturate32(law::ssthresh(&self.params, &mut self.state, u64::from(w.cwnd), &read(path), base))
    }

    fn on_state(&mut self, w: &mut Window, path: &Path, to: CaState) {
        self.base.on_state(w, path, to);
        let is_loss = u64::from(to == CaState::Loss);
        with_window(w, |w| law::on_state(&self.params, &mut self.state, w, &read(path), is_loss));
    }

    fn loss_window(&self, path: &Path) -> u32 {
        saturate32(law::loss_window(&self.params, &self.state, &read(path)))
    }

    fn sends_new_data_after_timeout(&self) -> bool {
        self.params.after_timeout == choice::NEW_DATA
    }

    fn on_restart(&mut self, w: &mut Window, path: &Path, idle: Span) {
        self.base.on_restart(w, path, idle);
        law::on_restart(&mut self.state);
    }

    fn on_transmission_start(&mut self, w: &mut Window, path: &Path, since_last: Span, app_limited: bool) {
        self.base.on_transmission_start(w, path, since_last, app_limited);
    }

    fn on_path_change(&mut self, w: &mut Window, path: &Path) {
        self.base.on_path_change(w, path);
        law::on_path_change(&self.params, &mut self.state);
    }

    fn undo(&mut self, w: &Window, path: &Path) -> u32 {
        self.base.undo(w, path)
    }
}

#[cfg(test)]
mod tests;
