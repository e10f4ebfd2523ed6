//! The cap of one connection: phases by its own RTT, and what bounds its window in each.
//!
//! | phase | cap | ends |
//! |---|---|---|
//! | free | none | RTT / least RTT reaches `correct_at`: correction. It is at least `shared_at`, and `shared_peers` others report correction: shared |
//! | shared | equation (1), at least `min_cap` | the ratio reaches `correct_at`: correction. `shared_for` has passed since both of what brought it held: free |
//! | correction | equation (1), at least `min_cap` | the ratio reaches `stop_at` although the cap has been in force for `stop_grace_rtts`: stop. It has been below `correction_exit` for `correction_hold`: free |
//! | stop | `stop_cap` | the ratio falls below `stop_exit`, or after `stop_max`: correction |
//!
//! The source gives the thresholds of correction and stop, and the caps. It leaves open how phases
//! end, and has no shared phase; the rest of this page is ours.
//!
//! - The shared phase is for fairness. By its own RTT alone a connection whose RTT just misses
//!   `correct_at` keeps its window, while the others cap theirs for it. Without `phases = "shared"`
//!   the phase does not occur. It never leads to stop mode, and is not reported to others: only
//!   what a terminal measures itself does and is.
//! - To lift a cap is a trial, since a short queue is the effect of the caps. With `phases =
//!   "shared"` the cap is back if the ratio reaches `shared_at` within `relapse_for`. Else those
//!   that are free first take all, while the others see a long queue and keep their caps.
//! - Only a newly measured ratio changes anything: after a timeout the last RTT stands still, and
//!   it must neither stop a connection nor let it go. New is an RTT that differs from the last one,
//!   or one read after more data was acknowledged.
//! - With a window of 1, as in the source, there is still one segment per round trip, so that stop
//!   mode measures. If nothing comes back, `stop_max` ends it.
//! - When `relearn_after` stops in a row ended by `stop_max`, this terminal's own windows are not
//!   what makes the RTT long: either others fill the queue whatever it does, or the least RTT is of
//!   a path that is gone. The least RTT is then forgotten and learnt anew. Without that rule (0) a
//!   change to a path that is five times as long would hold the connection down for
//!   `min_rtt_window`.
//! - A connection that does not send has no cap and begins anew.

use std::cmp::Reverse;

use super::recent::Recent;
use super::{CoopConfig, FlowSample, Phases};
use crate::units::{Span, Time};

/// Phase of a connection's traffic, as the daemon assumes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No cap: the connection does not make its RTT long.
    Free,
    /// The cap of equation (1) applies.
    Correction {
        /// When it began.
        since: Time,
        /// Since when the ratio has been below `correction_exit`.
        low_since: Option<Time>,
    },
    /// The cap of equation (1) applies, because others report correction and the RTT is long here
    /// too.
    Shared {
        /// When both held last.
        renewed: Time,
    },
    /// The window is `stop_cap`.
    Stop {
        /// When it began.
        since: Time,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Flow {
    phase: Phase,
    least: Recent<Reverse<Span>>,
    rtt: Option<Span>,
    delivered_bytes: u64,
    /// When the cap of its own RTT was lifted after a calm.
    lifted: Option<Time>,
    /// Stops in a row that `stop_max` ended.
    vain_stops: u8,
    /// When the sample with this connection in it was taken last.
    pub(super) seen: Time,
}

impl Flow {
    pub(super) fn new(config: &CoopConfig, now: Time, sample: &FlowSample) -> Flow {
        Flow {
            phase: Phase::Free,
            least: Recent::new(config.min_rtt_window),
            rtt: None,
            delivered_bytes: sample.delivered_bytes,
            lifted: None,
            vain_stops: 0,
            seen: now,
        }
    }
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }
    /// Its own RTT brought it under a cap.
    pub(super) fn is_correcting(&self) -> bool {
        matches!(self.phase, Phase::Correction { .. } | Phase::Stop { .. })
    }
    pub(super) fn forget_path(&mut self, config: &CoopConfig) {
        self.phase = Phase::Free;
        self.least = Recent::new(config.min_rtt_window);
        self.lifted = None;
        self.vain_stops = 0;
    }

    /// Takes a sample; what was delivered since the last one, bytes. `reported`: enough others are
    /// in correction.
    pub(super) fn on_sample(&mut self, config: &CoopConfig, now: Time, sample: &FlowSample, reported: bool) -> u64 {
        let delivered = sample.delivered_bytes.saturating_sub(self.delivered_bytes);
        let new = sample.rtt.is_some() && (delivered > 0 || sample.rtt != self.rtt);
        self.seen = now;
        self.delivered_bytes = sample.delivered_bytes;
        self.rtt = sample.rtt;
        let measured = sample.rtt.filter(|rtt| new && !rtt.is_zero());
        if let Some(rtt) = measured {
            self.least.push(now, Reverse(sample.least_rtt.map_or(rtt, |least| least.min(rtt)).max(Span::from_ns(1))));
        }
        if sample.sending {
            self.turn(config, now, measured, reported);
        } else {
            self.phase = Phase::Free;
            self.lifted = None;
            self.vain_stops = 0;
        }
        delivered
    }

    fn turn(&mut self, config: &CoopConfig, now: Time, measured: Option<Span>, reported: bool) {
        let ratio =
            self.least.get(now).zip(measured).map(|(Reverse(least), rtt)| rtt.as_secs_f64() / least.as_secs_f64());
        match self.phase {
            Phase::Free | Phase::Shared { .. } => {
                let relapse = config.phases == Phases::Shared
                    && self.lifted.is_some_and(|lifted| now.since(lifted) < config.relapse_for);
                let correct_at = if relapse { config.correct_at.min(config.shared_at) } else { config.correct_at };
                if ratio.is_some_and(|r| r >= correct_at) {
                    self.phase = Phase::Correction { since: now, low_since: None };
                } else if reported && ratio.is_some_and(|r| r >= config.shared_at) {
                    self.phase = Phase::Shared { renewed: now };
                } else if matches!(self.phase, Phase::Shared { renewed } if now.since(renewed) >= config.shared_for) {
                    self.phase = Phase::Free;
                }
            }
            Phase::Correction { since, low_since } => {
                let Some((ratio, rtt)) = ratio.zip(measured) else { return };
                let grace = Span::from_secs_f64(rtt.as_secs_f64() * config.stop_grace_rtts);
                if ratio >= config.stop_at && now.since(since) >= grace {
                    self.phase = Phase::Stop { since: now };
                } else if ratio < config.correction_exit {
                    let low_since = low_since.unwrap_or(now);
                    self.vain_stops = 0;
                    if now.since(low_since) >= config.correction_hold {
                        (self.phase, self.lifted) = (Phase::Free, Some(now));
                    } else {
                        self.phase = Phase::Correction { since, low_since: Some(low_since) };
                    }
                } else {
                    self.phase = Phase::Correction { since, low_since: None };
                }
            }
            Phase::Stop { since } => {
                if ratio.is_some_and(|r| r < config.stop_exit) {
                    self.vain_stops = 0;
                    self.phase = Phase::Correction { since: now, low_since: None };
                } else if now.since(since) >= config.stop_max {
                    self.vain_stops = self.vain_stops.saturating_add(1);
                    self.phase = Phase::Correction { since: now, low_since: None };
                    if self.vain_stops == config.relearn_after {
                        self.vain_stops = 0;
                        self.least = Recent::new(config.min_rtt_window);
                    }
                }
            }
        }
    }

    /// The RTT that equation (1) is to use.
    pub(super) fn rtt_in_cap(&mut self, config: &CoopConfig, now: Time) -> Option<Span> {
        match config.rtt_in_cap {
            super::CapRtt::Current => self.rtt,
            super::CapRtt::Min => self.least.get(now).map(|Reverse(least)| least),
        }
    }
}
