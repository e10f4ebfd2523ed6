//! An skb of several segments, which a Linux host hands down at once and which is cut apart below
//! TCP (segmentation offload). It has one place in the pacing, its last segment carries PSH, and it
//! may be held back until further ACKs have made it larger.
//!
//! Linux, net/ipv4/tcp_output.c as of 6.12: `tcp_tso_autosize`, `tcp_cwnd_test`,
//! `tcp_tso_should_defer`, `tcp_write_xmit`, and PSH in `__tcp_transmit_skb` (since 5.5). A lost
//! skb is sent again as a whole (`tcp_xmit_retransmit_queue`). Not here: a segment below the
//! full size waits for no other (Nagle), and a long write has no marks in between (`forced_push`).

use super::Sender;
use crate::convert::saturate32;
use crate::tcp::cc::CaState;
use crate::tcp::{Pacing, SegmentsAtOnce, Tsq};
use crate::units::{Span, Time};

/// Payload of the largest skb: `GSO_LEGACY_MAX_SIZE` without room for headers
/// (`sk_dst_gso_max_size`).
const GSO_MAX_BYTES: u64 = 65_536 - 321;
/// `tcp_tso_win_divisor`: a part of the window that goes without waiting for more.
const WINDOW_DIVISOR: u64 = 3;
/// An skb is held back only so soon after the last transmission, and only for an ACK that comes so
/// soon.
const DEFERRED: Span = Span::from_ms(1);

/// The skb that is leaving.
#[derive(Debug, Default)]
pub(super) struct Skb {
    /// Segments of it that are to follow.
    left: u32,
    /// Segments in all.
    pub size: u32,
    /// As of this chance to send.
    sizing: Option<Sizing>,
}

#[derive(Debug, Clone, Copy)]
struct Sizing {
    /// Payload of a second / 2^pacing shift.
    at_rate: u64,
    /// `tcp_tso_segs`.
    segments: u32,
}

/// Time at which the next skb leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextDeparture {
    Now,
    /// `for_window`: it is the congestion window that is too small for more.
    Later {
        for_window: bool,
    },
}

impl Skb {
    /// A chance to send begins.
    pub(super) fn begin(&mut self) {
        (self.left, self.sizing) = (0, None);
    }

    /// No segment of an skb that has been let go is left.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// The next segment leaves; whether it is the last of several.
    pub(super) fn take(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0 && self.size > 1
    }
}

impl Sender {
    /// Decides how much leaves at once, and whether it does. The window has room for a segment, and
    /// the pacing allows it. `buffer`: bytes that the socket holds at most.
    pub(super) fn begin_skb(&mut self, now: Time, retransmission: bool, buffer: u64) -> NextDeparture {
        if self.config.pacing.rule != Pacing::RttOverCwnd {
            self.pacer.is_late_by(now.since(self.last_sent_at.max(self.pacer.next_at())));
        }
        let by_one = !self.hands_down_several();
        // A device that reports nothing holds nothing back.
        let tsq_shift = self.small_queue.pacing_shift.filter(|_| self.config.host_queue.tsq != Tsq::Off);
        if by_one && tsq_shift.is_none() {
            (self.skb.left, self.skb.size) = (1, 1);
            return NextDeparture::Now;
        }
        let sizing = match self.skb.sizing {
            Some(sizing) => sizing,
            None => *self.skb.sizing.insert(self.sizing()),
        };
        let segments = if by_one {
            1
        } else if retransmission {
            // `tcp_xmit_retransmit_queue`: a lost skb leaves as a whole, as far as the window and
            // `tcp_tso_segs` go.
            let room = self.window.cwnd.saturating_sub(self.path.in_flight);
            self.board.lost_together(room.min(sizing.segments)).max(1)
        } else {
            match self.next_skb(now, sizing.segments, buffer) {
                Ok(segments) => segments,
                Err(later) => return later,
            }
        };
        if tsq_shift.is_some() && self.must_wait_for_release(sizing.at_rate, segments, retransmission) {
            return NextDeparture::Later { for_window: false };
        }
        (self.skb.left, self.skb.size) = (segments, segments);
        NextDeparture::Now
    }

    /// Segments spaced over the round trip leave one by one.
    pub(super) fn hands_down_several(&self) -> bool {
        self.config.host_queue.segments_at_once == SegmentsAtOnce::Linux
            && self.config.pacing.rule != Pacing::RttOverCwnd
    }

    /// `tcp_tso_autosize`, `tcp_tso_segs`.
    fn sizing(&self) -> Sizing {
        let shift = self.small_queue.pacing_shift.unwrap_or(self.config.host_queue.tsq_pacing_shift);
        let span = Span::from_ns(1_000_000_000 >> shift.min(30));
        let at_rate = self.bytes_at_pacing_rate(span);
        let log = self.config.host_queue.tso_rtt_log;
        let halvings = (self.path.min_rtt.as_ns() / 1000).checked_shr(log).unwrap_or(0);
        let near = if log > 0 && halvings < 32 { GSO_MAX_BYTES >> halvings } else { 0 };
        let bytes = at_rate.saturating_add(near).min(GSO_MAX_BYTES);
        let least = self.cc.min_tso_segs(&self.window, &self.path).unwrap_or(self.config.host_queue.min_tso_segs);
        Sizing { at_rate, segments: saturate32((bytes / u64::from(self.path.mss)).max(u64::from(least.max(1)))) }
    }

    /// Segments of the next skb of new data, of `most` at most; or that it waits.
    fn next_skb(&self, now: Time, most: u32, buffer: u64) -> Result<u32, NextDeparture> {
        let mss = u64::from(self.path.mss);
        let outstanding = self.snd_nxt - self.snd_una;
        // Unsent bytes that the socket holds.
        let unsent = self.write_end.saturating_sub(self.snd_nxt).min(buffer.saturating_sub(outstanding));
        let cwnd = self.window.cwnd;
        let room = cwnd.saturating_sub(self.path.in_flight);
        // `tcp_cwnd_test`: two skbs at least are to fill the window.
        let quota = (cwnd / 2).max(1).min(room).min(most);
        let send_window = self.send_window.saturating_sub(outstanding);
        let congestion_window = u64::from(room) * mss;
        let allowed = congestion_window.min(send_window);
        let may_wait = send_window >= mss && allowed < u64::from(most) * mss && !self.goes_now(now, allowed);
        if may_wait {
            // It was written into skbs of this many; one that is too short for the quota takes from
            // the next (`tcp_grow_skb`).
            let full = (GSO_MAX_BYTES / mss).max(1);
            let behind = self.snd_nxt.saturating_sub(1) / mss % full;
            let queued = ((full - behind).max(u64::from(quota)) * mss).min(unsent);
            let is_enough = queued < unsent && allowed >= queued;
            if queued > mss && !is_enough {
                if congestion_window < send_window {
                    if congestion_window <= queued {
                        return Err(NextDeparture::Later { for_window: true });
                    }
                } else if send_window <= queued {
                    return Err(NextDeparture::Later { for_window: false });
                }
                // With a FIN nothing can join it.
                let ends = self.closing && self.snd_nxt + queued >= self.write_end;
                if !ends {
                    return Err(NextDeparture::Later { for_window: false });
                }
            }
        }
        let most = unsent.min(send_window);
        let whole = if most < unsent { most / mss } else { most.div_ceil(mss) };
        Ok(saturate32(u64::from(quota).min(whole)).max(1))
    }

    /// `tcp_tso_should_defer`: whether what the windows allow, bytes, leaves although it is no full
    /// skb.
    fn goes_now(&self, now: Time, allowed: u64) -> bool {
        if matches!(self.path.state, CaState::Recovery | CaState::Loss) {
            return true;
        }
        if now.since(self.last_sent_at.max(self.pacer.next_at())) > DEFERRED {
            return true;
        }
        let window = self.send_window.min(u64::from(self.window.cwnd) * u64::from(self.path.mss));
        if allowed >= window / WINDOW_DIVISOR {
            return true;
        }
        let Some(oldest) = self.board.front() else { return true };
        let srtt = self.rtt.srtt();
        let ack_at = oldest.sent_at + srtt;
        ack_at > now + srtt.mul_ratio(1, 2).min(DEFERRED)
    }
}
