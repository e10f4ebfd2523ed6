//! TCP-AV: holds the rate that a streaming application asks for. The page of the control, in
//! `crates/core/src/tcp/cc/tcp_av.rs`, says what it does and why.
//!
//! A home calls each function where its sender has the event of that name, and keeps [`State`] for
//! the connection. [`on_ack`] answers what its base control is to do with the ACK. After
//! [`Verdict::UNLIMITED`] the home calls [`steer`].

use crate::{MOST, UNIT, UNKNOWN, at_least, at_most, divided, part};

/// Instruction to a home about its base control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict(pub u64);

impl Verdict {
    /// The base takes the ACK as it is.
    pub const BASE: Verdict = Verdict(0);
    /// The base takes the ACK as one of a sender that its window does not limit. Then comes
    /// [`steer`].
    pub const UNLIMITED: Verdict = Verdict(1);
}

/// Numbers of the choices in [`Params`], as a BPF map holds them.
pub mod choice {
    /// `rtt_min`: that of the connection.
    pub const CONNECTION: u64 = 0;
    /// `rtt_min`: that of the path, until the host says that the path has changed.
    pub const PATH: u64 = 1;
    /// `rtt_min`: that of the last `rtt_min_window_ns`.
    pub const WINDOW: u64 = 2;
    /// `floor_rtt`: the smallest.
    pub const MIN: u64 = 0;
    /// `floor_rtt`: the present one.
    pub const SMOOTHED: u64 = 1;
    /// `after_timeout`: one segment.
    pub const ONE: u64 = 0;
    /// `after_timeout`: what any loss leaves.
    pub const FLOOR: u64 = 1;
    /// `after_timeout`: the same, and new data leaves at once.
    pub const NEW_DATA: u64 = 2;
    /// `above`: the window returns to the target's.
    pub const HOLD: u64 = 0;
    /// `above`: it grows as that of the base.
    pub const BASE: u64 = 1;
}

/// Parameters. Shares are in 1/[`UNIT`]; larger ones count as 1.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// Payload rate asked for, bit/s; at most [`MOST_BPS`].
    pub target_bps: u64,
    /// Scope of the smallest round-trip time: [`choice::CONNECTION`], [`choice::PATH`] or
    /// [`choice::WINDOW`].
    pub rtt_min: u64,
    /// Length of that window, ns.
    pub rtt_min_window_ns: u64,
    /// Round-trip time in the floor: [`choice::MIN`] or [`choice::SMOOTHED`].
    pub floor_rtt: u64,
    /// Window after a timeout: [`choice::ONE`], [`choice::FLOOR`] or [`choice::NEW_DATA`].
    pub after_timeout: u64,
    /// Beyond the full target: [`choice::HOLD`] or [`choice::BASE`].
    pub above: u64,
    /// Part of the gap that a round trip closes from below.
    pub rise: u64,
    /// The same from above.
    pub fall: u64,
    /// Round trips within which tuning makes up for what is missing, at most 1000.
    pub tune_rounds: u64,
    /// Largest change by tuning, as a part of the target's window.
    pub tune_limit: u64,
    /// Round trips over which severe congestion is judged.
    pub severe_rounds: u64,
    /// Reductions within them that make it severe; 0: never.
    pub severe_reductions: u64,
    /// It is not severe while this part of the target is delivered.
    pub severe_share: u64,
    /// Factor of the target under severe congestion.
    pub reduced_to: u64,
    /// Least target.
    pub target_min: u64,
    /// Part of the full target that comes back per period.
    pub recover_step: u64,
}

impl Params {
    /// The defaults of the simulator's control, for a host: with the smallest round-trip time of
    /// the path, and new data after a timeout.
    pub const HOST: Params = Params {
        target_bps: 4_000_000,
        rtt_min: choice::PATH,
        rtt_min_window_ns: 10_000_000_000,
        floor_rtt: choice::SMOOTHED,
        after_timeout: choice::NEW_DATA,
        above: choice::HOLD,
        rise: 256,
        fall: 256,
        tune_rounds: 32,
        tune_limit: 512,
        severe_rounds: 16,
        severe_reductions: 8,
        severe_share: 922,
        reduced_to: 512,
        target_min: 64,
        recover_step: 256,
    };
}

/// Largest target: 100 Gbit/s.
pub const MOST_BPS: u64 = 100_000_000_000;

/// Fields that a control may write.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Congestion window, segments.
    pub cwnd: u64,
    /// Slow-start threshold, segments.
    pub ssthresh: u64,
}

/// Fields of its connection that a control may read.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The instant of the call, ns.
    pub now_ns: u64,
    /// Smoothed round-trip time, ns; 0 before the first.
    pub srtt_ns: u64,
    /// Smallest round-trip time of the connection, ns; [`UNKNOWN`] before the first.
    pub min_rtt_ns: u64,
    /// Payload bytes of a full segment, at most 65535.
    pub mss: u64,
    /// Upper bound of `cwnd`, segments.
    pub cwnd_clamp: u64,
}

/// Information of an ACK.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Round-trip time measured by it, ns; [`UNKNOWN`]: none.
    pub rtt_ns: u64,
    /// Segments credited for growth.
    pub credit: u64,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// Not 0: the window limits the sender.
    pub cwnd_limited: u64,
    /// First stream offset not acknowledged, bytes.
    pub snd_una: u64,
    /// First stream offset not sent, bytes.
    pub snd_nxt: u64,
}

/// Where counting began: a round trip, or a period over which congestion is judged.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// 0: none has begun, the next ACK begins one.
    pub is_on: u64,
    /// When it began, ns.
    pub start_ns: u64,
    /// Delivered until then, segments.
    pub delivered: u64,
    /// Stream offset whose acknowledgement ends a round trip.
    pub end: u64,
    /// Not 0: the window limited the sender throughout.
    pub limited: u64,
    /// Not 0: there was slow start in it.
    pub slow_start: u64,
}

/// A connection's state.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The present target, in 1/[`UNIT`] of the full one.
    pub share: u64,
    /// Since when `least_ns` collects.
    pub least_since_ns: u64,
    /// Smallest round-trip time since then.
    pub least_ns: u64,
    /// That of the window before.
    pub least_before_ns: u64,
    /// 0 until the first reduction.
    pub is_reduced: u64,
    /// The present round trip.
    pub round: Count,
    /// The present period.
    pub period: Count,
    /// Round trips in it.
    pub rounds: u64,
    /// Reductions in it.
    pub reductions: u64,
    /// How far delivery is behind the target, in 1/[`UNIT`] segments.
    pub behind: u64,
    /// How far it is ahead.
    pub ahead: u64,
    /// 0: where the window goes is to be computed at the next ACK.
    pub has_aim: u64,
    /// Window that the present target needs, in 1/[`UNIT`] segments.
    pub low: u64,
    /// Window that the full target needs.
    pub high: u64,
    /// By how much the window moves in a round trip.
    pub step: u64,
    /// Towards the next step: acknowledged segments times `step`.
    pub moved: u64,
}

impl State {
    /// A connection's, at its beginning.
    pub const NEW: State = State {
        share: UNIT,
        least_since_ns: 0,
        least_ns: UNKNOWN,
        least_before_ns: UNKNOWN,
        is_reduced: 0,
        round: Count { is_on: 0, start_ns: 0, delivered: 0, end: 0, limited: 0, slow_start: 0 },
        period: Count { is_on: 0, start_ns: 0, delivered: 0, end: 0, limited: 0, slow_start: 0 },
        rounds: 0,
        reductions: 0,
        behind: 0,
        ahead: 0,
        has_aim: 0,
        low: 0,
        high: 0,
        step: 0,
        moved: 0,
    };
}

/// Segments of `mss` bytes that pass in `span_ns` at `bps`, in 1/[`UNIT`], rounded down; at most
/// 2^32 - 1 segments.
///
/// Exact for every span, although the product has up to 108 bits: seconds and the rest of a second
/// are taken apart, and the rest again.
#[inline]
pub fn segments(bps: u64, span_ns: u64, mss: u64) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    const SPLIT: u64 = 1 << 15;
    let (bps, mss) = (at_most(bps, MOST_BPS), at_least(at_most(mss, 65_535), 1));
    // 1/1024 of a byte per second: below 2^44.
    let per_second = bps * (UNIT / 8);
    let (seconds, rest) = if span_ns < SECOND { (0, span_ns) } else { (span_ns / SECOND, span_ns % SECOND) };
    // Below 2^14 s the product has 58 bits.
    if seconds >= 1 << 14 && seconds > divided(MOST * UNIT * mss, per_second) && per_second > 0 {
        return MOST * UNIT;
    }
    let (upper, lower) = (per_second * (rest / SPLIT), per_second * (rest % SPLIT));
    let in_rest = upper / SECOND * SPLIT + (upper % SECOND * SPLIT + lower) / SECOND;
    let seconds = if per_second == 0 { 0 } else { seconds };
    at_most((per_second * seconds + in_rest) / mss, MOST * UNIT)
}

/// `a` times `b`, or the largest there is; `b` is below 2^32. In halves, since BPF has no product
/// of 128 bits, which a check by division is compiled to.
#[inline]
fn times(a: u64, b: u64) -> u64 {
    let (upper, lower) = ((a >> 32) * b, (a & 0xffff_ffff) * b);
    if upper >> 32 == 0 { (upper << 32).saturating_add(lower) } else { u64::MAX }
}

#[inline]
fn whole(segments: u64) -> u64 {
    at_most(segments / UNIT, MOST)
}

#[inline]
fn whole_up(segments: u64) -> u64 {
    at_most(segments.div_ceil(UNIT), MOST)
}

/// How far a round trip closes `gap`: a segment, or the `share` of it if that is more.
#[inline]
fn closing(gap: u64, share: u64) -> u64 {
    at_least(part(gap, share), at_most(gap, UNIT))
}

/// The target as reduced at present, bit/s.
#[inline]
pub fn target_now(p: &Params, s: &State) -> u64 {
    part(at_most(p.target_bps, MOST_BPS), s.share)
}

/// The smallest round-trip time that counts, ns; [`UNKNOWN`]: none is known.
#[inline]
pub fn least_rtt(p: &Params, s: &State, path: &Path) -> u64 {
    if p.rtt_min == choice::CONNECTION { path.min_rtt_ns } else { at_most(s.least_ns, s.least_before_ns) }
}

/// `W_R`, segments, at least 2; 0 before the first round-trip time.
#[inline]
pub fn threshold(p: &Params, s: &State, path: &Path) -> u64 {
    let rtt = least_rtt(p, s, path);
    if rtt == UNKNOWN { 0 } else { at_least(whole(segments(target_now(p, s), rtt, path.mss)), 2) }
}

/// Least window that a loss leaves, segments.
#[inline]
pub fn floor(p: &Params, s: &State, path: &Path) -> u64 {
    if p.floor_rtt == choice::MIN {
        at_least(threshold(p, s, path), 2)
    } else {
        at_least(whole(segments(target_now(p, s), path.srtt_ns, path.mss)), 2)
    }
}

/// Window that a timeout leaves, segments. It is never a raise: the home takes the lesser of it and
/// the window before.
#[inline]
pub fn loss_window(p: &Params, s: &State, path: &Path) -> u64 {
    if p.after_timeout == choice::ONE { 1 } else { floor(p, s, path) }
}

#[inline]
fn tuned(p: &Params, s: &State, need: u64) -> u64 {
    let limit = part(need, p.tune_limit);
    let rounds = at_least(p.tune_rounds, 1);
    need + at_most(s.behind / rounds, limit) - at_most(s.ahead / rounds, limit)
}

#[inline]
fn set_aim(p: &Params, s: &mut State, w: &Window, path: &Path) {
    if s.has_aim != 0 {
        return;
    }
    s.low = tuned(p, s, segments(target_now(p, s), path.srtt_ns, path.mss));
    s.high = tuned(p, s, segments(p.target_bps, path.srtt_ns, path.mss));
    let cwnd = at_most(w.cwnd, MOST) * UNIT;
    s.step = if cwnd < s.low {
        at_most(closing(s.low - cwnd, p.rise), cwnd)
    } else {
        closing(cwnd.saturating_sub(s.high), p.fall)
    };
    s.has_aim = 1;
}

#[inline]
fn sample(p: &Params, s: &mut State, path: &Path, ack: &Ack) {
    if ack.rtt_ns == UNKNOWN {
        return;
    }
    let age = path.now_ns.saturating_sub(s.least_since_ns);
    if p.rtt_min == choice::WINDOW && age >= p.rtt_min_window_ns {
        // Nothing measured for two windows: the last one says nothing.
        let two = p.rtt_min_window_ns.saturating_add(p.rtt_min_window_ns);
        s.least_before_ns = if age < two { s.least_ns } else { UNKNOWN };
        s.least_since_ns = path.now_ns;
        s.least_ns = UNKNOWN;
    }
    s.least_ns = at_most(s.least_ns, ack.rtt_ns);
}

#[inline]
fn begun(w: &Window, path: &Path, ack: &Ack) -> Count {
    Count {
        is_on: 1,
        start_ns: path.now_ns,
        delivered: ack.delivered,
        end: ack.snd_nxt,
        limited: ack.cwnd_limited,
        slow_start: u64::from(w.cwnd < w.ssthresh),
    }
}

/// Target and delivery since `count` began, in 1/[`UNIT`] segments.
#[inline]
fn account(p: &Params, s: &State, path: &Path, ack: &Ack, count: &Count) -> (u64, u64) {
    let delivered = at_most(ack.delivered.saturating_sub(count.delivered), MOST);
    let span = path.now_ns.saturating_sub(count.start_ns);
    (segments(target_now(p, s), span, path.mss), delivered * UNIT)
}

#[inline]
fn count(p: &Params, s: &mut State, w: &Window, path: &Path, ack: &Ack) {
    let limited = u64::from(ack.cwnd_limited != 0);
    if s.round.is_on == 0 {
        s.round = begun(w, path, ack);
    } else {
        s.round.limited &= limited;
    }
    if s.period.is_on == 0 {
        s.period = begun(w, path, ack);
    } else {
        s.period.limited &= limited;
    }
    if ack.snd_una < s.round.end {
        return;
    }
    tune(p, s, path, ack);
    s.rounds = s.rounds.saturating_add(1);
    if s.rounds >= p.severe_rounds {
        judge(p, s, w, path, ack);
    }
    s.round = begun(w, path, ack);
    s.has_aim = 0;
}

/// The end of a round trip: what it left of the target undone.
#[inline]
fn tune(p: &Params, s: &mut State, path: &Path, ack: &Ack) {
    if s.round.limited == 0 || s.round.slow_start != 0 {
        return;
    }
    let (asked, delivered) = account(p, s, path, ack, &s.round);
    let window = segments(target_now(p, s), path.srtt_ns, path.mss);
    let limit = part(window, p.tune_limit) * at_most(p.tune_rounds, 1_000);
    // Data that the base sends above the target is not to be given back.
    let most_ahead = if s.share < UNIT || p.above == choice::BASE { 0 } else { limit };
    let (behind, ahead) = (s.behind.saturating_add(asked), s.ahead.saturating_add(delivered));
    s.behind = at_most(behind.saturating_sub(ahead), limit);
    s.ahead = at_most(ahead.saturating_sub(behind), most_ahead);
}

/// The end of a period: is congestion severe?
#[inline]
fn judge(p: &Params, s: &mut State, w: &Window, path: &Path, ack: &Ack) {
    let (asked, delivered) = account(p, s, path, ack, &s.period);
    let is_severe = p.severe_reductions > 0
        && s.reductions >= p.severe_reductions
        && s.period.limited != 0
        && delivered < part(asked, p.severe_share);
    if is_severe {
        s.share = at_least(part(s.share, p.reduced_to), at_most(p.target_min, UNIT));
        s.behind = 0;
        s.ahead = 0;
    } else {
        s.share = at_most(s.share.saturating_add(p.recover_step), UNIT);
    }
    s.period = begun(w, path, ack);
    s.rounds = 0;
    s.reductions = 0;
}

/// An ACK arrived while the window may grow.
#[inline]
pub fn on_ack(p: &Params, s: &mut State, w: &mut Window, path: &Path, ack: &Ack) -> Verdict {
    sample(p, s, path, ack);
    count(p, s, w, path, ack);
    if path.srtt_ns == 0 {
        return Verdict::BASE;
    }
    if w.cwnd < w.ssthresh {
        if s.is_reduced == 0 {
            let threshold = threshold(p, s, path);
            if threshold != 0 {
                w.ssthresh = at_most(w.ssthresh, threshold);
            }
        }
        if p.above == choice::HOLD {
            set_aim(p, s, w, path);
            if at_most(w.cwnd, MOST) * UNIT >= s.high {
                w.ssthresh = at_least(at_most(w.ssthresh, w.cwnd), 2);
            }
        }
        if w.cwnd < w.ssthresh {
            s.has_aim = 0;
            return Verdict::BASE;
        }
    }
    set_aim(p, s, w, path);
    let cwnd = at_most(w.cwnd, MOST) * UNIT;
    if cwnd >= s.low && (p.above == choice::BASE || cwnd < s.high) { Verdict::BASE } else { Verdict::UNLIMITED }
}

/// Moves the window towards what the target needs, once the base has seen the ACK.
#[inline]
pub fn steer(s: &mut State, w: &mut Window, path: &Path, ack: &Ack) {
    if ack.cwnd_limited == 0 {
        return;
    }
    let (now, credit) = (at_most(w.cwnd, MOST), at_most(ack.credit, MOST));
    let per = now * UNIT;
    let moved = s.moved.saturating_add(times(s.step, credit));
    let steps = at_most(divided(moved, per), credit);
    s.moved = at_most(moved - steps * per, per);
    if per < s.low {
        let aimed = at_most(now + steps, whole_up(s.low));
        w.cwnd = at_most(at_least(aimed, now), path.cwnd_clamp);
    } else {
        let aimed = at_least(at_least(now.saturating_sub(steps), whole(s.high)), 2);
        w.cwnd = at_most(aimed, now);
        // Slow start does not come back by itself.
        w.ssthresh = at_least(at_most(w.ssthresh, w.cwnd), 2);
    }
}

/// The slow-start threshold to fall to after a loss; `base`: that of the base control.
#[inline]
pub fn ssthresh(p: &Params, s: &mut State, cwnd: u64, path: &Path, base: u64) -> u64 {
    s.is_reduced = 1;
    s.reductions = s.reductions.saturating_add(1);
    s.has_aim = 0;
    s.moved = 0;
    at_least(base, at_most(floor(p, s, path), cwnd))
}

/// The sender's state changes; `is_loss` not 0: a timeout fired.
#[inline]
pub fn on_state(p: &Params, s: &mut State, w: &mut Window, path: &Path, is_loss: u64) {
    s.has_aim = 0;
    if is_loss != 0 {
        s.round.is_on = 0;
        w.ssthresh = at_least(w.ssthresh, threshold(p, s, path));
    }
}

/// Transmission starts again after a time without anything in flight.
#[inline]
pub fn on_restart(s: &mut State) {
    s.round.is_on = 0;
    s.has_aim = 0;
    s.period.limited = 0;
}

/// The path has changed.
#[inline]
pub fn on_path_change(p: &Params, s: &mut State) {
    if p.rtt_min != choice::PATH {
        return;
    }
    s.least_ns = UNKNOWN;
    s.least_before_ns = UNKNOWN;
    s.share = UNIT;
    s.behind = 0;
    s.ahead = 0;
    s.round.is_on = 0;
    s.period.is_on = 0;
    s.has_aim = 0;
    s.rounds = 0;
    s.reductions = 0;
}

#[cfg(test)]
mod tests;
