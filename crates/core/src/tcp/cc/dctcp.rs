//! DCTCP: falls by half of the share of marked packets, instead of by half.
//!
//! Source: RFC 8257, with the integers of Linux 6.12 (net/ipv4/tcp_dctcp.c).
//!
//! Once per window it takes the share of delivered segments whose ACKs carried an ECN echo, and
//! smooths it (`alpha`, weight 1/16). A window with a mark shrinks by `alpha / 2`. Some queues mark
//! early and often, as the low-latency one of `dualpi2` and CoDel's `ce_threshold` do. They hold it
//! at one or two marks a round trip. It grows as Reno, and a loss halves it.
//!
//! Siblings: Reno and CUBIC reduce as much for one mark as for a hundred, and need a deeper queue.
//!
//! Valid: with the options `ecn = true` and `ecn_echo = "each"` or `"accurate"`, which give the
//! share; and `ect1 = true` where a network separates scalable flows by it. Without ECN it is Reno.
//! It does not meet all of RFC 9331, as its rate depends on the round trip. It is for data centres,
//! and here the simplest of the scalable controls.
//!
//! Linux keeps `alpha` in 1/1024, and its average works from 16/1024 on only: below, a window's
//! marks replace it. Once it has fallen so low, a share of marks below a quarter no longer lifts
//! it. Over long paths such a sender hardly yields. Beside Reno behind `dualpi2` it has
//! three to four times as much at 20 Mbit/s each and 40 ms. At 5 Mbit/s each, with more marks, it
//! has the same. `alpha_bits = 20` keeps it exactly, as `prague` does.
//!
//! Deviations: none from Linux but those of `reno`. Neither the RFC's bytes nor Linux's fallback to
//! Reno without ECN is here: segments are counted, and without echoes `alpha` is not used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slow_start::{SlowStart, SlowStartExit};
use super::{AckSample, CaState, CcContext, CongestionControl, Path, Window};
use crate::convert::saturate32;
use crate::policy::checked;
use crate::range::within;
use crate::units::Time;

/// Parameters of DCTCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "DctcpConfig")]
pub struct DctcpConfig {
    /// Rule that ends slow start before a loss or a mark does. Linux has none.
    pub slow_start_exit: SlowStartExit,
    /// Weight of a window in `alpha`: 1/2^this. RFC 8257: 4. At most 10.
    #[schemars(range(min = 0, max = 10))]
    pub shift_g: u32,
    /// `alpha` at the beginning, in 1/1024. Linux: 1024, so that the first mark halves the window.
    /// At most 1024.
    #[schemars(range(min = 0, max = 1024))]
    pub alpha_on_init: u32,
    /// Bits of `alpha` below one. Linux: 10, too few for an average of rare marks; TCP Prague: 20.
    /// 10 to 30.
    #[schemars(range(min = 10, max = 30))]
    pub alpha_bits: u32,
}

impl Default for DctcpConfig {
    fn default() -> DctcpConfig {
        DctcpConfig { slow_start_exit: SlowStartExit::default(), shift_g: 4, alpha_on_init: 1024, alpha_bits: 10 }
    }
}

impl DctcpConfig {
    fn check(&self) -> Result<(), String> {
        within("shift_g", self.shift_g, 0..=10, "")?;
        within("alpha_on_init", self.alpha_on_init, 0..=1024, "")?;
        within("alpha_bits", self.alpha_bits, 10..=30, "")
    }

    /// The control of one connection, at its beginning.
    pub fn build(&self, ctx: &CcContext) -> Dctcp {
        let bits = self.alpha_bits.clamp(10, 30);
        Dctcp {
            slow_start: self.slow_start_exit.build(ctx),
            shift_g: self.shift_g.min(10),
            bits,
            alpha: u64::from(self.alpha_on_init.min(1024)) << (bits - 10),
            window_end: 0,
            delivered: 0,
            marked: 0,
            is_for_mark: false,
        }
    }
}
checked!(DctcpConfig);

/// DCTCP, as one connection has it.
#[derive(Debug, Clone)]
pub struct Dctcp {
    slow_start: SlowStart,
    shift_g: u32,
    bits: u32,
    /// Smoothed share of marked segments, in units of 2^-`bits`.
    alpha: u64,
    /// Stream offset that ends the window under way.
    window_end: u64,
    /// Segments delivered in it, and those with an echo.
    delivered: u64,
    marked: u64,
    /// The latest ACK carries an echo that may reduce the window.
    is_for_mark: bool,
}

impl Dctcp {
    /// `dctcp_update_alpha`.
    fn end_window(&mut self) {
        let fall = self.alpha >> self.shift_g;
        self.alpha -= if fall == 0 { self.alpha } else { fall };
        if self.marked > 0 {
            let share = (self.marked << (self.bits - self.shift_g)) / self.delivered.max(1);
            self.alpha = (self.alpha + share).min(1 << self.bits);
        }
        (self.delivered, self.marked) = (0, 0);
    }
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, w: &mut Window, path: &Path, ack: &AckSample) {
        let credit = self.slow_start.on_ack(w, path, ack);
        if credit > 0 {
            w.increase_additively(path, w.cwnd, credit);
        }
    }

    fn on_every_ack(&mut self, _: &mut Window, path: &Path, ack: &AckSample) {
        self.delivered += u64::from(ack.delivered);
        self.marked += u64::from(ack.marked);
        self.is_for_mark = ack.ece && matches!(path.state, CaState::Open | CaState::Disorder);
        if ack.snd_una >= self.window_end {
            self.end_window();
            self.window_end = ack.snd_nxt;
        }
    }

    fn ssthresh(&mut self, w: &Window, _: &Path) -> u32 {
        self.slow_start.on_reduction();
        let fall = if std::mem::take(&mut self.is_for_mark) {
            saturate32((u64::from(w.cwnd) * self.alpha) >> (self.bits + 1))
        } else {
            w.cwnd - w.cwnd / 2
        };
        w.cwnd.saturating_sub(fall).max(2)
    }

    fn on_state(&mut self, _: &mut Window, path: &Path, to: CaState) {
        if to == CaState::Loss {
            self.slow_start.on_timeout(path.now);
        }
    }

    fn slow_start(&mut self, _: Time) -> Option<&mut SlowStart> {
        Some(&mut self.slow_start)
    }

    fn wants_every_ack(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::rounds::{context, new_path, sample, window};

    /// A window of `cwnd` segments of which `marked` come back with an echo, ACK by ACK.
    fn round(cc: &mut Dctcp, path: &Path, cwnd: u64, marked: u64, una: &mut u64) {
        for i in 0..cwnd {
            *una += 1;
            let ack = AckSample {
                ece: i < marked,
                marked: u32::from(i < marked),
                snd_una: *una,
                snd_nxt: *una + cwnd,
                ..sample(&window(10))
            };
            cc.on_every_ack(&mut window(100), path, &ack);
        }
    }

    fn steady(alpha_on_init: u32) -> (Dctcp, Path, u64) {
        let config = DctcpConfig { alpha_on_init, ..DctcpConfig::default() };
        let (mut cc, path, mut una) = (config.build(&context()), new_path(), 0);
        // The first ACK ends the empty window before it, which lets alpha fall once.
        round(&mut cc, &path, 1, 0, &mut una);
        (cc, path, una)
    }

    /// RFC 8257 section 3.3: alpha = alpha (1 - g) + g M, g = 1/16.
    #[test]
    fn alpha_is_the_smoothed_share_of_marks() {
        for (marked, limit) in [(0, 0), (4, 102), (40, 1024)] {
            let (mut cc, path, mut una) = steady(512);
            for _ in 0..200 {
                round(&mut cc, &path, 40, marked, &mut una);
            }
            // A tenth of 1024, all, none; the integers lose up to 16 of 1024.
            assert!(cc.alpha.abs_diff(limit) <= 16, "{marked} of 40: {}", cc.alpha);
        }
        let (mut cc, path, mut una) = steady(0);
        cc.window_end = una + 40;
        round(&mut cc, &path, 40, 40, &mut una);
        assert_eq!(cc.alpha, 1024 / 16, "one marked window");
    }

    /// From no marks to one in twenty: Linux's integers never average it, 20 bits do.
    #[test]
    fn rare_marks_need_more_bits_than_linux_has() {
        for (bits, expected) in [(10, 3..=3), (20, (1 << 20) / 20 - 20..=(1 << 20) / 20)] {
            let mut cc = DctcpConfig { alpha_on_init: 0, alpha_bits: bits, ..DctcpConfig::default() }.build(&context());
            let (path, mut una) = (new_path(), 0);
            cc.window_end = 100;
            for _ in 0..300 {
                round(&mut cc, &path, 100, 5, &mut una);
            }
            assert!(expected.contains(&cc.alpha), "{bits} bits: {}", cc.alpha);
        }
    }

    #[test]
    fn a_mark_costs_half_of_alpha_and_a_loss_half() {
        for (alpha, left) in [(1024, 50), (512, 75), (102, 96), (0, 100)] {
            let mut cc = DctcpConfig { alpha_on_init: alpha, ..DctcpConfig::default() }.build(&context());
            let path = new_path();
            cc.window_end = 1 << 20;
            let echo = AckSample { ece: true, ..sample(&window(100)) };
            cc.on_every_ack(&mut window(100), &path, &echo);
            assert_eq!(cc.ssthresh(&window(100), &path), left, "alpha {alpha}");
            cc.on_every_ack(&mut window(100), &path, &AckSample { ece: false, ..echo });
            assert_eq!(cc.ssthresh(&window(100), &path), 50, "a loss");
            let repairing = Path { state: CaState::Recovery, ..path };
            cc.on_every_ack(&mut window(100), &repairing, &echo);
            assert_eq!(cc.ssthresh(&window(100), &repairing), 50, "an echo during a repair is none of its losses");
        }
    }
}
