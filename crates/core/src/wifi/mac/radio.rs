//! The transmit path of one radio: from the host's queue through the driver into PPDUs that wait for the air.

use std::collections::VecDeque;
use std::sync::Arc;

use super::originator::{Mpdu, Ppdu, Session};
use super::rate::RateSeries;
use super::transmit::{AnyTransmit, Order, Receiver, Then};
use crate::units::{Span, Time};
use crate::wifi::config::RadioConfig;
use crate::wifi::ids::SessionId;
use crate::wifi::phy::mode::Format;
use crate::wifi::phy::{EdcaParams, Framing, Mode, Timing, timing};
use crate::wifi::trace::Ac;

/// One access category of one radio.
#[derive(Debug)]
pub(in crate::wifi) struct AcQueue {
    /// Frames that the driver has taken and not yet released.
    pub driver_count: u32,
    pub driver_frames: u32,
    /// Ready for the air; the first is on it, or next.
    pub formed: VecDeque<Ppdu>,
    /// Sessions with something to send.
    pub schedule: VecDeque<SessionId>,
}

#[derive(Debug)]
pub(in crate::wifi) struct Radio {
    pub config: Arc<RadioConfig>,
    pub timing: Arc<Timing>,
    pub edca: [EdcaParams; 4],
    pub queues: [AcQueue; 4],
    pub aggregates: bool,
    pub has_qos: bool,
    pub framing: Framing,
    /// Its frames are acknowledged.
    pub acks: bool,
    /// Frames that its driver has no longer count for their connection.
    pub orphans: bool,
    /// A station without association: what it has waits.
    pub is_shut: bool,
}

impl Radio {
    /// The session that is served next, with something that its window lets it send. It stays on the list as long as it has
    /// a backlog.
    pub(in crate::wifi) fn pick(
        &mut self,
        now: Time,
        ac: Ac,
        transmit: &mut AnyTransmit,
        sessions: &[Session],
    ) -> Option<SessionId> {
        let queue = &mut self.queues[ac.index()];
        let order = Scheduled { sessions, schedule: &queue.schedule, formed: &queue.formed };
        let turn = transmit.turn(now, ac, &order)?;
        let id = queue.schedule[turn.at];
        match turn.then {
            Then::ThoseBeforeGoBehind => queue.schedule.rotate_left(turn.at),
            Then::ItGoesBehind => {
                queue.schedule.remove(turn.at);
                queue.schedule.push_back(id);
            }
        }
        Some(id)
    }

    /// Forms what the session sends next; `None` if there is nothing after all. `choose` gives the series, told whether there are
    /// retransmissions only. `fetch` looks for another fresh MPDU.
    pub(in crate::wifi) fn form(
        &self,
        ac: Ac,
        id: SessionId,
        session: &mut Session,
        mut choose: impl FnMut(bool) -> RateSeries,
        mut fetch: impl FnMut(&mut Session) -> bool,
        mut mpdus: Vec<Mpdu>,
    ) -> Option<Ppdu> {
        mpdus.clear();
        let formed = &self.queues[ac.index()].formed;
        if session.bar {
            session.bar = false;
            let series = choose(true);
            return Some(Ppdu {
                session: id,
                series,
                tried: 0,
                tries: [0; 4],
                unheard: 0,
                mpdus,
                psdu_bytes: timing::BAR_BYTES,
                spent: Span::ZERO,
                asked: None,
            });
        }
        let limits = &self.config.aggregation;
        // Block Ack is agreed on with each station by itself.
        let aggregates = session.recipient.is_some();
        let mut room = if aggregates { room(session, id, formed) } else { usize::MAX };
        let has_fresh = room > 0 && (!session.fresh.is_empty() || fetch(session));
        if !has_fresh && session.again.is_empty() {
            return None;
        }
        let only_again = !has_fresh;
        let series = choose(only_again);
        let mut psdu_bytes = 0;
        if aggregates && series.is_sample() && !only_again {
            let mpdu = self.take_fresh(session);
            mpdus.push(mpdu);
        } else {
            let (most, bytes) = if aggregates {
                let slowest = series.stages().iter().map(|s| s.mode).min_by_key(|m| m.rate()).expect("never empty");
                let bytes = self.timing.psdu_bytes_within(slowest, self.longest(ac, slowest));
                (usize::from(limits.max_frames), bytes.min(limits.max_bytes))
            } else {
                (1, 0)
            };
            while mpdus.len() < most {
                if session.again.is_empty() && (room == 0 || (session.fresh.is_empty() && !fetch(session))) {
                    break;
                }
                let Some(next) = session.again.front().or(session.fresh.front()) else { break };
                let size = timing::subframe_bytes(self.framing.mpdu_bytes(u32::from(next.size)));
                if psdu_bytes + size > bytes && !mpdus.is_empty() {
                    break;
                }
                psdu_bytes += size;
                let mpdu = match session.again.pop_front() {
                    Some(mpdu) => mpdu,
                    None => {
                        room -= 1;
                        self.take_fresh(session)
                    }
                };
                mpdus.push(mpdu);
            }
        }
        if let [single] = mpdus[..] {
            psdu_bytes = self.framing.mpdu_bytes(u32::from(single.size));
            if series.first().mode.format() == Format::Vht {
                // Every VHT PPDU carries an A-MPDU, if only of one MPDU (clause 10.12.7); that is still answered by an ACK.
                // [IEEE80211-10.12.7-1]
                psdu_bytes += timing::DELIMITER_BYTES;
            }
        }
        let tries = [0; RateSeries::MAX_STAGES];
        Some(Ppdu {
            session: id,
            series,
            tried: 0,
            tries,
            unheard: 0,
            mpdus,
            psdu_bytes,
            spent: Span::ZERO,
            asked: None,
        })
    }

    /// The longest PPDU that the limits allow: within a TXOP the response must fit behind it (clause 10.23.2.9).
    // [IEEE80211-10.12.2-1]
    fn longest(&self, ac: Ac, mode: Mode) -> Span {
        // [IEEE80211-10.13-1]
        let limit = self.config.aggregation.max_duration.min(timing::PPDU_MAX);
        match self.edca[ac.index()].txop {
            Span::ZERO => limit,
            // [IEEE80211-10.23.2.9-1]
            txop => limit.min(txop.saturating_sub(self.timing.sifs + self.timing.block_ack(mode))),
        }
    }

    fn take_fresh(&self, session: &mut Session) -> Mpdu {
        let mut mpdu = session.fresh.pop_front().expect("the caller has seen it");
        mpdu.sn = session.next_sn;
        session.next_sn = session.next_sn.forward(1);
        mpdu
    }
}

/// The sessions of one category with something to send.
struct Scheduled<'a> {
    sessions: &'a [Session],
    schedule: &'a VecDeque<SessionId>,
    formed: &'a VecDeque<Ppdu>,
}

impl Order for Scheduled<'_> {
    fn count(&self) -> usize {
        self.schedule.len()
    }
    fn receiver(&self, at: usize) -> Receiver {
        self.sessions[self.schedule[at].index()].receiver
    }
    fn can_send(&self, at: usize) -> bool {
        let id = self.schedule[at];
        let s = &self.sessions[id.index()];
        s.recipient.is_none() || s.bar || !s.again.is_empty() || room(s, id, self.formed) > 0
    }
}

/// The oldest sequence number that is not resolved; that of the next MPDU if all are.
pub(in crate::wifi) fn win_start(session: &Session, id: SessionId, formed: &VecDeque<Ppdu>) -> crate::units::Seq12 {
    let mut oldest = session.next_sn;
    if let Some(m) = session.again.front() {
        oldest = m.sn;
    }
    for ppdu in formed.iter().filter(|p| p.session == id) {
        if let Some(m) = ppdu.mpdus.first().filter(|m| m.sn.is_before(oldest)) {
            oldest = m.sn;
        }
    }
    oldest
}

/// How many new MPDUs the Block Ack window has room for.
// [IEEE80211-10.25.6.7-1]
fn room(session: &Session, id: SessionId, formed: &VecDeque<Ppdu>) -> usize {
    let used = win_start(session, id, formed).distance_to(session.next_sn);
    usize::from(session.window.saturating_sub(used))
}
