//! The backoff of one access category: its window, when its first slot begins, and how slots are
//! counted.
//!
//! The window grows with each transmission that stays without answer and with each collision inside
//! the radio; it starts again at its least after an answer, and after as many failures in a row as
//! the retry limit (IEEE 802.11-2020 10.3.3, 10.23.2.2).
//!
//! [`Rule`] selects other rules for radios of WaveLAN: nothing tells them of a failure, so their
//! range grows when they find the medium busy again. After an exchange they draw a backoff only if
//! another frame waits.

use rand::RngExt;

use super::NEVER;
use crate::convert::saturate32;
use crate::rng::Rng;
use crate::units::{Span, Time};
use crate::wifi::phy::{EdcaParams, WavelanConfig};

/// Rules by which backoffs are drawn, run and stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// IEEE 802.11.
    Dot11,
    /// WaveLAN: the backoff runs on while others send. If it ends during a transmission, the medium
    /// was found busy.
    Resense,
    /// WaveLAN: the backoff stands still while others send.
    Freeze,
}

/// Parameters that categories of several radios share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BackoffParams {
    pub(super) aifs: Span,
    /// Time from the notice of a missing answer to the first slot.
    pub(super) after_hold: Span,
    pub(super) slot: Span,
    /// Slots counted besides those that ended idle: 1 under EDCA.
    pub(super) begun: u32,
    pub(super) rule: Rule,
}

impl BackoffParams {
    /// Start of the first slot, with the medium idle since `idle_since` and a missing answer
    /// noticed at `hold`.
    #[inline]
    pub(super) fn start_after(&self, idle_since: Time, hold: Time) -> Time {
        (idle_since + self.aifs).max(hold + self.after_hold)
    }
}

/// The contention window of one access category of one radio, and other state that changes with
/// exchanges only.
#[derive(Debug, Clone)]
pub(super) struct Window {
    pub(super) cw: u32,
    cw_min: u32,
    cw_max: u32,
    /// Failures in a row, and after how many the window starts anew.
    failures: u8,
    retry_limit: u8,
    /// WaveLAN: the window of a frame that follows one of the radio's own.
    cw_next: u32,
    /// WaveLAN, [`Rule::Resense`]: while others send, when the backoff is over; [`NEVER`]: one is
    /// to begin.
    pub(super) runs_until: Time,
    /// WaveLAN: the frame follows one of the radio's own, and its backoff is to be drawn when the
    /// medium is idle.
    pub(super) follows_own: bool,
    /// WaveLAN: the medium was found busy as often as a frame may; its radio drops it.
    pub(super) gives_up: bool,
}

impl Window {
    pub(super) fn new(edca: &EdcaParams, retry_limit: u8, wavelan: Option<&WavelanConfig>) -> Window {
        Window {
            cw: edca.cw_min,
            cw_min: edca.cw_min,
            cw_max: edca.cw_max,
            failures: 0,
            retry_limit: wavelan.map_or(retry_limit, |w| w.attempts),
            cw_next: wavelan.map_or(edca.cw_min, |w| w.cw_next),
            runs_until: NEVER,
            follows_own: false,
            gives_up: false,
        }
    }
    /// Slots to wait.
    // [IEEE80211-10.3.3-1]
    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u32 {
        rng.random_range(0..=self.cw)
    }
    #[inline]
    pub(super) fn fail(&mut self) {
        self.failures += 1;
        if self.failures >= self.retry_limit {
            self.succeed();
        } else {
            // [IEEE80211-10.3.3-2]
            self.cw = (2 * self.cw + 1).min(self.cw_max);
        }
    }
    // [IEEE80211-10.3.3-3]
    #[inline]
    pub(super) fn succeed(&mut self) {
        self.failures = 0;
        self.cw = self.cw_min;
    }
    /// WaveLAN: the frame found the medium busy. Draws the backoff that follows.
    #[cold]
    pub(super) fn find_busy(&mut self, rule: Rule, rng: &mut Rng) -> u32 {
        if rule == Rule::Freeze {
            return rng.random_range(0..=self.cw_min);
        }
        self.cw = if self.failures == 0 { self.cw_min } else { (2 * self.cw + 1).min(self.cw_max) };
        self.failures = self.failures.saturating_add(1);
        self.gives_up = self.retry_limit > 0 && self.failures >= self.retry_limit;
        self.runs_until = NEVER;
        self.draw(rng)
    }
    /// WaveLAN: the medium is idle since `idle_since`, which is now, and the radio's last frame
    /// ended at `own_end`. When the next may leave, or is given up; `backoff` is what it has to
    /// wait, and may be drawn anew.
    #[cold]
    pub(super) fn resume(
        &mut self,
        kind: &BackoffParams,
        backoff: &mut u32,
        idle_since: Time,
        own_end: Time,
        rng: &mut Rng,
    ) -> Time {
        let start = idle_since + kind.aifs;
        if std::mem::take(&mut self.follows_own) {
            // Unless another transmission has outlasted the radio's own.
            if idle_since > own_end {
                *backoff = self.find_busy(kind.rule, rng);
            } else {
                *backoff = rng.random_range(0..=self.cw_next);
            }
        } else if kind.rule == Rule::Resense && self.runs_until != NEVER {
            let until = std::mem::replace(&mut self.runs_until, NEVER);
            if until >= idle_since {
                return until.max(start);
            }
            *backoff = self.find_busy(kind.rule, rng);
        }
        if self.gives_up { idle_since } else { start + kind.slot * u64::from(*backoff) }
    }
}

/// Slots that have been counted since an instant, as last asked for: radios of one kind mostly
/// began together.
#[derive(Debug)]
pub(super) struct Counted {
    kind: u16,
    begin: Time,
    slots: u32,
}

impl Counted {
    pub(super) fn nothing() -> Counted {
        Counted { kind: 0, begin: NEVER, slots: 0 }
    }
    /// Those of a backoff of this kind, which has that number, from `begin` to now.
    #[inline(always)]
    pub(super) fn slots(&mut self, number: u16, kind: &BackoffParams, begin: Time, now: Time) -> u32 {
        if (self.kind, self.begin) != (number, begin) {
            // [IEEE80211-10.23.2.4-1]
            let slots = saturate32(now.since(begin).as_ns() / kind.slot.as_ns()) + kind.begun;
            *self = Counted { kind: number, begin, slots };
        }
        self.slots
    }
}
