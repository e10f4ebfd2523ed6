//! Modes in a row, one step at a time: the common part of ARF and AARF. The two differ in the time
//! that they wait before they go up.

use super::{RateContext, RateSeries, Stage, TxStatus};
use crate::wifi::phy::Mode;

/// A place among the modes, and counters of the frames there.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    /// By rate.
    modes: Vec<Mode>,
    at: usize,
    /// Tries in each mode.
    down_after: u8,
    /// Frames acknowledged at once since one was not, and frames since it came to this mode.
    in_a_row: u16,
    frames: u16,
    /// Nothing was sent in this mode since it went up to it.
    is_new: bool,
}

/// A change to a slower mode, by `steps`.
pub(super) struct Fall {
    pub steps: usize,
    /// The first frame of a mode that was new had failed.
    pub was_new: bool,
}

impl Steps {
    pub(super) fn new(ctx: &RateContext, down_after: u8) -> Steps {
        let mut modes = ctx.modes.clone();
        modes.sort_by_key(|m| m.rate());
        modes.dedup_by_key(|m| m.rate());
        Steps { at: modes.len() - 1, modes, down_after, in_a_row: 0, frames: 0, is_new: false }
    }

    pub(super) fn mode(&self) -> Mode {
        self.modes[self.at]
    }

    fn go_to(&mut self, at: usize, is_new: bool) {
        (self.at, self.is_new) = (at, is_new);
        (self.in_a_row, self.frames) = (0, 0);
    }

    #[inline]
    pub(super) fn series(&self) -> RateSeries {
        let stage = |at: usize, tries| Stage { mode: self.modes[at], tries, rts: false };
        let slowest = self.at.saturating_sub(RateSeries::MAX_STAGES - 1);
        if self.at == slowest {
            return RateSeries::of(stage(self.at, u8::MAX));
        }
        let mut series = RateSeries::of(stage(self.at, if self.is_new { 1 } else { self.down_after }));
        for at in (slowest..self.at).rev() {
            series = series.then(stage(at, if at == slowest { u8::MAX } else { self.down_after }));
        }
        series
    }

    /// A step up follows after `run` frames in a row that were acknowledged at once, or after
    /// `timer_frames` in all; 0: never.
    pub(super) fn on_status(&mut self, status: &TxStatus<'_>, run: u16, timer_frames: u16) -> Option<Fall> {
        // A frame may have waited while another one moved the mode.
        if status.series.first().mode != self.modes[self.at] {
            return None;
        }
        let steps = status.tries.iter().rposition(|&t| t > 0).unwrap_or(0);
        if steps > 0 {
            let was_new = self.is_new;
            self.go_to(self.at.saturating_sub(steps), false);
            return Some(Fall { steps, was_new });
        }
        self.is_new = false;
        self.frames = self.frames.saturating_add(1);
        self.in_a_row = if status.acked > 0 && status.tries[0] == 1 { self.in_a_row.saturating_add(1) } else { 0 };
        let timer = timer_frames > 0 && self.frames >= timer_frames;
        if self.at + 1 < self.modes.len() && (self.in_a_row >= run || timer) {
            self.go_to(self.at + 1, true);
        }
        None
    }
}
