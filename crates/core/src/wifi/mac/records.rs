//! Records of frames as a monitor beside the receiver would capture them.

use std::ops::Range;

use super::SimMac;
use super::originator::Ppdu;
use super::radio::win_start;
use crate::convert::saturate16;
use crate::packet::Pool;
use crate::units::{Seq12, Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::medium::{Control, TxRequest};
use crate::wifi::phy::Mode;
use crate::wifi::trace::{FrameKind, FrameRecord};

impl SimMac {
    /// A control frame has ended.
    #[cold]
    pub(super) fn record_control(&mut self, now: Time, request: &TxRequest, frame: &Control) {
        let formed = &self.radios[request.from.index()].queues[request.ac.index()].formed;
        let (mut sn, mut bitmap) = (Seq12::new(0), 0u64);
        if let Some(ppdu) = formed.front().filter(|_| frame.kind == FrameKind::BlockAck) {
            if let Some(first) = ppdu.mpdus.first() {
                sn = first.sn;
                for m in ppdu.mpdus.iter().filter(|m| m.has_arrived()) {
                    bitmap |= 1u64.checked_shl(u32::from(sn.distance_to(m.sn))).unwrap_or(0);
                }
            } else {
                sn = win_start(&self.sessions[ppdu.session.index()], ppdu.session, formed);
            }
        }
        self.frames.push(FrameRecord {
            time: now,
            kind: frame.kind,
            from: frame.from,
            to: frame.to,
            mode: frame.mode,
            ac: request.ac,
            sn: sn.get(),
            bitmap,
            retry: false,
            fcs_ok: frame.decoded,
            ampdu: None,
            is_last_of_ampdu: false,
            duration_us: micros(frame.left),
            snr_db: frame.snr_db,
            packet: None,
        });
    }
}

/// Fields that the frames of one PPDU share.
pub(super) struct Common {
    pub now: Time,
    pub to: RadioId,
    pub mode: Mode,
    /// The answer to come; zero if there is none.
    pub response: Span,
    pub snr_db: f32,
}

fn micros(time: Span) -> u16 {
    saturate16(time.as_ns().div_ceil(1000).min(32_767))
}

/// Those frames of a PPDU with data that have `ended`. `copies`: of each MPDU whether it arrived
/// whole, and if not, whether its header did.
#[expect(clippy::too_many_arguments, reason = "parts of one channel, and of one of its exchanges")]
pub(super) fn record_data(
    frames: &mut Vec<FrameRecord>,
    ampdus: &mut u32,
    common: &Common,
    request: &TxRequest,
    ppdu: &Ppdu,
    ended: Range<usize>,
    pool: &Pool,
    copies: impl Fn(usize) -> (bool, bool),
) {
    let duration_us = if common.response.is_zero() { 0 } else { micros(common.response + Span::from_us(16)) };
    let record = FrameRecord {
        time: common.now,
        kind: FrameKind::BlockAckRequest,
        from: request.from,
        to: common.to,
        mode: common.mode,
        ac: request.ac,
        sn: 0,
        bitmap: 0,
        retry: ppdu.tries_made > 0,
        fcs_ok: false,
        ampdu: None,
        is_last_of_ampdu: false,
        duration_us,
        snr_db: common.snr_db,
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
