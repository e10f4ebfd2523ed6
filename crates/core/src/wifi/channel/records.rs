//! What a monitor beside the receiver would capture, frame by frame.

use std::ops::Range;

use super::{Channel, Exchange, Stage};
use crate::convert::saturate16;
use crate::packet::Pool;
use crate::units::{Seq12, Span, Time};
use crate::wifi::originator::Ppdu;
use crate::wifi::phy::Mode;
use crate::wifi::radio::win_start;
use crate::wifi::trace::{FrameKind, FrameRecord};

impl Channel {
    /// A control frame has ended.
    pub(super) fn record_control(&mut self, now: Time, i: usize, kind: FrameKind, mode: Mode, decoded: bool) {
        if !self.trace.frames {
            return;
        }
        let x = &self.exchanges[i];
        let (from, to) = match kind {
            FrameKind::Rts => (x.from, x.to),
            FrameKind::Cts if x.stage == Stage::CtsToSelf => (x.from, x.from),
            _ => (x.to, x.from),
        };
        let ppdu = self.radios[x.from.index()].queues[x.ac.index()].formed.front();
        let (mut sn, mut bitmap) = (Seq12::new(0), 0u64);
        if let Some(ppdu) = ppdu.filter(|_| kind == FrameKind::BlockAck) {
            if let Some(first) = ppdu.mpdus.first() {
                sn = first.sn;
                for m in ppdu.mpdus.iter().filter(|m| m.has_arrived()) {
                    bitmap |= 1u64.checked_shl(u32::from(sn.distance_to(m.sn))).unwrap_or(0);
                }
            } else {
                let formed = &self.radios[x.from.index()].queues[x.ac.index()].formed;
                sn = win_start(&self.sessions[ppdu.session.index()], ppdu.session, formed);
            }
        }
        let sifs = self.radios[x.from.index()].timing.sifs;
        let left = match kind {
            FrameKind::Rts => sifs * 2 + x.data + x.answer + self.radios[x.from.index()].timing.cts(x.mode),
            FrameKind::Cts => sifs + x.data + x.answer,
            _ => Span::ZERO,
        };
        self.frames.push(FrameRecord {
            time_ns: now.as_ns(),
            kind,
            from,
            to,
            mode,
            ac: x.ac,
            sn: sn.get(),
            bitmap,
            retry: false,
            fcs_ok: decoded,
            ampdu: None,
            is_last_of_ampdu: false,
            duration_us: micros(left),
            snr_db: x.snr_db,
            packet: None,
        });
    }
}

fn micros(time: Span) -> u16 {
    saturate16(time.as_ns().div_ceil(1000).min(32_767))
}

/// Those frames of a PPDU with data that have `ended`. `copies`: of each MPDU whether it arrived whole, and if not, whether its header did.
#[expect(clippy::too_many_arguments, reason = "parts of one channel, and of one of its exchanges")]
pub(super) fn record_data(
    frames: &mut Vec<FrameRecord>,
    ampdus: &mut u32,
    now: Time,
    x: &Exchange,
    ppdu: &Ppdu,
    ended: Range<usize>,
    pool: &Pool,
    copies: impl Fn(usize) -> (bool, bool),
) {
    let duration_us = if x.answer.is_zero() { 0 } else { micros(x.response + Span::from_us(16)) };
    let record = FrameRecord {
        time_ns: now.as_ns(),
        kind: FrameKind::BlockAckRequest,
        from: x.from,
        to: x.to,
        mode: x.mode,
        ac: x.ac,
        sn: 0,
        bitmap: 0,
        retry: ppdu.tried > 0,
        fcs_ok: false,
        ampdu: None,
        is_last_of_ampdu: false,
        duration_us,
        snr_db: x.snr_db,
        packet: None,
    };
    if ppdu.is_bar() {
        frames.push(FrameRecord { fcs_ok: copies(0).0, ..record });
        return;
    }
    let ampdu = ppdu.is_ampdu().then_some(*ampdus);
    if ended.end == ppdu.mpdus.len() {
        *ampdus = ampdus.wrapping_add(1);
    }
    for (n, mpdu) in ppdu.mpdus.iter().enumerate().take(ended.end).skip(ended.start) {
        frames.push(FrameRecord {
            kind: FrameKind::Data,
            sn: mpdu.sn.get(),
            retry: mpdu.was_sent(),
            fcs_ok: copies(n).0,
            ampdu,
            is_last_of_ampdu: n + 1 == ppdu.mpdus.len(),
            // Once it has arrived the packet is no longer here to look at.
            packet: (!mpdu.has_arrived()).then(|| pool[mpdu.packet]),
            ..record
        });
    }
}
