//! The transmit path of one radio: from the host's queue through the driver into PPDUs that wait
//! for the air.

use std::collections::VecDeque;
use std::sync::Arc;

use super::originator::{Mpdu, Ppdu, Session};
use super::rate::RateSeries;
use super::transmit::{AnyTransmit, Rotation, ServiceOrder, TxqId};
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

impl AcQueue {
    /// A session has something to send.
    #[inline]
    pub(in crate::wifi) fn schedule(&mut self, id: SessionId, session: &mut Session, transmit: &AnyTransmit) {
        if session.is_scheduled {
            return;
        }
        session.is_scheduled = true;
        if transmit.new_goes_first() {
            self.schedule.push_front(id);
        } else {
            self.schedule.push_back(id);
        }
    }
}

#[derive(Debug)]
pub(in crate::wifi) struct Radio {
    pub config: Arc<RadioConfig>,
    pub timing: Arc<Timing>,
    pub edca: [EdcaParams; 4],
    pub queues: [AcQueue; 4],
    /// PPDUs that it keeps ready for the air.
    pub formed_ahead: usize,
    pub aggregates: bool,
    pub has_qos: bool,
    pub framing: Framing,
    /// Its frames are acknowledged.
    pub acks: bool,
    /// The last computed duration of a single MPDU, with its mode and size.
    pub single_mpdu: ((Mode, u32), Span),
    /// The last computed bound on the bytes of a PPDU, with its category and mode.
    pub max_bytes_by_duration: Option<((Ac, Mode), u32)>,
    /// Its driver pulls frames out of the queues above it, and rate control is asked for each
    /// (`ieee80211_tx_dequeue` in `tx.c` of Linux 6.12).
    pub is_pulled: bool,
    /// Frames that it receives count as airtime in the queues above it, too.
    pub counts_received: bool,
    /// Frames that its driver has no longer count for their connection.
    pub orphans: bool,
    /// The station has no association: its packets wait.
    pub is_shut: bool,
}

impl Radio {
    /// The session that is served next, with an MPDU that its window admits. It stays on the list
    /// as long as it has a backlog.
    pub(in crate::wifi) fn next_session(
        &mut self,
        now: Time,
        ac: Ac,
        transmit: &mut AnyTransmit,
        sessions: &[Session],
    ) -> Option<SessionId> {
        let queue = &mut self.queues[ac.index()];
        let order = Scheduled { sessions, schedule: &queue.schedule, formed: &queue.formed };
        let turn = transmit.next_txq(now, ac, &order)?;
        let id = queue.schedule[turn.at];
        match turn.rotation {
            Rotation::SkippedToBack => queue.schedule.rotate_left(turn.at),
            Rotation::ServedToBack => {
                queue.schedule.remove(turn.at);
                queue.schedule.push_back(id);
            }
        }
        Some(id)
    }

    /// Forms the session's next PPDU; `None` if there is none after all. `choose` gives the series;
    /// its argument is true if there are retransmissions only. `fetch` looks for another unsent
    /// MPDU and appends it.
    pub(in crate::wifi) fn form_ppdu(
        &mut self,
        ac: Ac,
        id: SessionId,
        session: &mut Session,
        mut choose: impl FnMut(bool) -> RateSeries,
        mut fetch: impl FnMut(TxqId, &mut Vec<Mpdu>) -> bool,
        mut mpdus: Vec<Mpdu>,
    ) -> Option<Ppdu> {
        mpdus.clear();
        let formed = &self.queues[ac.index()].formed;
        if session.bar_due {
            session.bar_due = false;
            let series = choose(true);
            return Some(Ppdu {
                session: id,
                series,
                tries_made: 0,
                tries: [0; 4],
                rts_failures: 0,
                mpdus,
                psdu_bytes: timing::BAR_BYTES,
                airtime: Span::ZERO,
                bars_sent: None,
            });
        }
        let limits = &self.config.aggregation;
        // Block Ack is agreed on with each station by itself.
        let aggregates = session.recipient.is_some();
        let mut room = if aggregates { room(session, id, formed) } else { usize::MAX };
        // Where a driver pulls frames, rate control was asked about a kept frame when it was
        // pulled. One question per instant is enough: a second sample is not due yet.
        let is_asked_by_frame = aggregates && self.is_pulled;
        let mut asks = is_asked_by_frame;
        let mut pull = |session: &mut Session, choose: &mut dyn FnMut(bool) -> RateSeries, to: &mut Vec<Mpdu>| {
            let is_there = fetch(session.receiver, to);
            if is_there && std::mem::take(&mut asks) {
                session.sample = Some(choose(false)).filter(RateSeries::is_sample);
            }
            is_there
        };
        let was_empty = session.unsent.is_empty();
        if was_empty && room > 0 && pull(session, &mut choose, &mut mpdus) {
            session.unsent.extend(mpdus.pop());
        }
        let has_unsent = room > 0 && !session.unsent.is_empty();
        // The frame just pulled comes after all that were there.
        let is_new = was_empty && !session.retransmissions.is_empty();
        if !has_unsent && session.retransmissions.is_empty() {
            return None;
        }
        let only_retransmissions = !has_unsent;
        let series = match session.sample {
            // A sample goes before retransmissions, too: ath9k puts those behind the frames that it
            // kept (`ath_tx_complete_aggr` in `xmit.c` of Linux 6.12, `skb_queue_splice_tail`).
            Some(sample) if has_unsent && !is_new => {
                session.sample = None;
                sample
            }
            _ => choose(only_retransmissions || is_asked_by_frame),
        };
        let mut psdu_bytes = 0;
        if aggregates && series.is_sample() && !only_retransmissions {
            mpdus.extend(session.unsent.pop_front());
            session.number(&mut mpdus);
            // ath9k looks at the next frame before it knows that there is no room for one, and
            // keeps it (`ath_tx_form_aggr` in `xmit.c`).
            let looks =
                is_asked_by_frame && room > 1 && session.unsent.is_empty() && session.retransmissions.is_empty();
            if looks && pull(session, &mut choose, &mut mpdus) {
                session.unsent.extend(mpdus.pop());
            }
        } else {
            let (most, bytes) = if aggregates {
                let slowest = series.stages().iter().map(|s| s.mode).min_by_key(|m| m.rate()).expect("never empty");
                let bytes = match self.max_bytes_by_duration {
                    Some((of, bytes)) if of == (ac, slowest) => bytes,
                    _ => self.timing.psdu_bytes_within(slowest, self.longest(ac, slowest)),
                };
                self.max_bytes_by_duration = Some(((ac, slowest), bytes));
                (usize::from(limits.max_frames), bytes.min(limits.most_bytes(slowest.format())))
            } else {
                (1, 0)
            };
            let fits = |psdu_bytes: u32, next: &Mpdu| {
                let size = timing::subframe_bytes(self.framing.mpdu_bytes(u32::from(next.size)));
                (psdu_bytes == 0 || psdu_bytes + size <= bytes).then_some(psdu_bytes + size)
            };
            while let Some(next) = session.retransmissions.front().filter(|_| mpdus.len() < most) {
                let Some(longer) = fits(psdu_bytes, next) else { break };
                psdu_bytes = longer;
                mpdus.extend(session.retransmissions.pop_front());
            }
            while mpdus.len() < most && room > 0 && session.retransmissions.is_empty() {
                // A pulled MPDU is built in place at the end of the list.
                match session.unsent.pop_front() {
                    Some(kept) => mpdus.push(kept),
                    None if pull(session, &mut choose, &mut mpdus) => {}
                    None => break,
                }
                // One that tests a rate goes alone, after this A-MPDU.
                let longer = mpdus.last().filter(|_| session.sample.is_none());
                let Some(longer) = longer.and_then(|next| fits(psdu_bytes, next)) else {
                    mpdus.pop().into_iter().for_each(|next| session.unsent.push_front(next));
                    break;
                };
                psdu_bytes = longer;
                room -= 1;
                session.number(&mut mpdus);
            }
        }
        if let [single] = mpdus[..] {
            psdu_bytes = self.framing.mpdu_bytes(u32::from(single.size));
            if series.first().mode.format() == Format::Vht {
                // Every VHT PPDU carries an A-MPDU, if only of one MPDU (clause 10.12.7); that is
                // still answered by an ACK. [IEEE80211-10.12.7-1]
                psdu_bytes += timing::DELIMITER_BYTES;
            }
        }
        let tries = [0; RateSeries::MAX_STAGES];
        Some(Ppdu {
            session: id,
            series,
            tries_made: 0,
            tries,
            rts_failures: 0,
            mpdus,
            psdu_bytes,
            airtime: Span::ZERO,
            bars_sent: None,
        })
    }

    /// True if fewer PPDUs are formed than the radio keeps ready, or than `least`.
    #[inline]
    pub(super) fn lacks_ppdus(&self, ac: Ac, least: usize) -> bool {
        self.queues[ac.index()].formed.len() < self.formed_ahead.max(least)
    }

    /// The longest PPDU that the limits allow: within a TXOP the response must fit behind it
    /// (clause 10.23.2.9).
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
}

/// The sessions of one category with something to send.
struct Scheduled<'a> {
    sessions: &'a [Session],
    schedule: &'a VecDeque<SessionId>,
    formed: &'a VecDeque<Ppdu>,
}

impl ServiceOrder for Scheduled<'_> {
    fn count(&self) -> usize {
        self.schedule.len()
    }
    fn receiver(&self, at: usize) -> TxqId {
        self.sessions[self.schedule[at].index()].receiver
    }
    fn can_send(&self, at: usize) -> bool {
        let id = self.schedule[at];
        let s = &self.sessions[id.index()];
        s.recipient.is_none() || s.bar_due || !s.retransmissions.is_empty() || room(s, id, self.formed) > 0
    }
}

/// The oldest sequence number that is not resolved; that of the next MPDU if all are.
pub(in crate::wifi) fn win_start(session: &Session, id: SessionId, formed: &VecDeque<Ppdu>) -> crate::units::Seq12 {
    let mut oldest = session.next_sn;
    if let Some(m) = session.retransmissions.front() {
        oldest = m.sn;
    }
    for ppdu in formed.iter().filter(|p| p.session == id) {
        if let Some(m) = ppdu.mpdus.first().filter(|m| m.sn.is_before(oldest)) {
            oldest = m.sn;
        }
    }
    oldest
}

/// New MPDUs for which the Block Ack window has room.
// [IEEE80211-10.25.6.7-1]
fn room(session: &Session, id: SessionId, formed: &VecDeque<Ppdu>) -> usize {
    let used = win_start(session, id, formed).distance_to(session.next_sn);
    usize::from(session.window.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::packet::{FlowId, Held, PacketId};
    use crate::units::Probability;
    use crate::wifi::config::Aggregation;
    use crate::wifi::ids::{AirLinkId, RadioId};
    use crate::wifi::mac::SimMac;
    use crate::wifi::phy::{PhyConfig, SignalConfig, Standard};
    use crate::wifi::rate::Stage;
    use crate::wifi::setup::{ChannelConfig, PairConfig};
    use crate::wifi::trace::TraceConfig;
    use crate::wifi::transmit::{QdiscConfig, TransmitConfig};

    const BE: usize = Ac::Be.index();

    /// One session of a radio whose A-MPDUs have up to four frames, and a rate control that tests a
    /// rate with the frames it is told.
    struct Rig {
        mac: SimMac,
        id: SessionId,
        /// Frames above the driver, by number from 1.
        waiting: VecDeque<u32>,
        tests: Vec<u32>,
    }

    impl Rig {
        fn new(transmit: TransmitConfig, window: u16, tests: &[u32]) -> Rig {
            let aggregation = Aggregation { max_bytes: Some(6_400), window, ..Aggregation::default() };
            let radio =
                RadioConfig { phy: PhyConfig::of(Standard::N), aggregation, transmit, ..RadioConfig::default() };
            let radio = Arc::new(radio);
            let (mut mac, _) = SimMac::new(&ChannelConfig {
                radios: vec![Arc::clone(&radio), radio],
                pairs: vec![PairConfig::fixed(RadioId(0), RadioId(1), SignalConfig::default())],
                groups: Vec::new(),
                hidden: Vec::new(),
                sensing: Span::ZERO,
                capture_effect: Probability::ZERO,
                seed: 1,
                index: 0,
                trace: TraceConfig::default(),
            });
            let id = mac.open_session(AirLinkId(0), Ac::Be);
            Rig { mac, id, waiting: (1..=20).collect(), tests: tests.to_vec() }
        }

        fn frame(number: u32) -> Mpdu {
            let held = Held { session: 0, flow: FlowId(0), size: 1500, len: 1472, is_tcp: false, reports: false };
            Mpdu::new(PacketId(number), &held, false, Span::ZERO)
        }

        /// The driver had all of them before anything was formed.
        fn take_ahead(&mut self) {
            self.mac.sessions[self.id.index()].unsent = self.waiting.drain(..).map(Rig::frame).collect();
        }

        /// The numbers that go next, with a star where they test a rate.
        fn form_next(&mut self) -> String {
            let radio = &mut self.mac.radios[0];
            let session = &mut self.mac.sessions[self.id.index()];
            let mode = radio.config.phy.mode_of_mcs(7).unwrap();
            let newest = Cell::new(session.unsent.front().map_or(0, |m| m.packet.0));
            let choose = |only_retransmissions: bool| {
                let series = RateSeries::of(Stage { mode, tries: 2, rts: false });
                if !only_retransmissions && self.tests.contains(&newest.get()) { series.sampling() } else { series }
            };
            let fetch = |_, to: &mut Vec<Mpdu>| {
                let Some(number) = self.waiting.pop_front() else { return false };
                newest.set(number);
                to.push(Rig::frame(number));
                true
            };
            let Some(ppdu) = radio.form_ppdu(Ac::Be, self.id, session, choose, fetch, Vec::new()) else {
                return "nothing".into();
            };
            let numbers: Vec<String> = ppdu.mpdus.iter().map(|m| m.packet.0.to_string()).collect();
            let star = if ppdu.series.is_sample() { "*" } else { "" };
            radio.queues[BE].formed.push_back(ppdu);
            numbers.join(" ") + star
        }

        /// The oldest that was formed is over, and these of it go again.
        fn end(&mut self, failed: &[u32]) {
            let ppdu = self.mac.radios[0].queues[BE].formed.pop_front().unwrap();
            let failed: Vec<Mpdu> = ppdu.mpdus.iter().filter(|m| failed.contains(&m.packet.0)).copied().collect();
            self.mac.sessions[self.id.index()].put_back(&failed);
        }

        fn kept(&self) -> Vec<u32> {
            self.mac.sessions[self.id.index()].unsent.iter().map(|m| m.packet.0).collect()
        }
    }

    /// `ieee80211_tx_dequeue` (net/mac80211/tx.c of Linux 6.12) asks rate control for each frame
    /// that leaves the queue, and `ath_tx_form_aggr` (ath9k's xmit.c) keeps the one that does not
    /// fit or tests a rate. So an earlier kept frame, about which rate control was asked before,
    /// goes ahead of one that tests a rate.
    #[test]
    fn the_frame_that_tests_a_rate_is_the_one_just_pulled() {
        let mut rig = Rig::new(TransmitConfig::default(), 64, &[6]);
        assert_eq!(rig.form_next(), "1 2 3 4");
        assert_eq!(rig.kept(), [5]);
        assert_eq!(rig.form_next(), "5");
        assert_eq!(rig.kept(), [6]);
        assert_eq!(rig.form_next(), "6*");
        assert_eq!(rig.kept(), [7], "it has looked at one more");
        assert_eq!(rig.form_next(), "7 8 9 10");
    }

    #[test]
    fn with_nothing_kept_the_first_may_test_a_rate() {
        let mut rig = Rig::new(TransmitConfig::default(), 64, &[1]);
        assert_eq!((rig.form_next(), rig.form_next()), ("1*".into(), "2 3 4 5".into()));
    }

    /// Rate control is asked about one frame per A-MPDU, so only the first pulled frame may test a
    /// rate.
    #[test]
    fn a_frame_pulled_later_for_the_same_a_mpdu_tests_none() {
        let mut rig = Rig::new(TransmitConfig::default(), 64, &[2, 3, 5]);
        assert_eq!((rig.form_next(), rig.form_next()), ("1 2 3 4".into(), "5 6 7 8".into()));
    }

    /// `ath_tid_dequeue` pulls nothing as long as there are frames in `retry_q`, which includes
    /// retransmissions.
    #[test]
    fn what_is_sent_again_goes_before_a_frame_that_is_pulled() {
        let mut rig = Rig::new(TransmitConfig::default(), 64, &[6]);
        assert_eq!(rig.form_next(), "1 2 3 4");
        rig.end(&[1, 3]);
        assert_eq!((rig.form_next(), rig.kept()), ("1 3 5".into(), vec![6]), "with the kept one, which tests none");
        let mut rig = Rig::new(TransmitConfig::default(), 64, &[2]);
        rig.waiting = [1].into();
        assert_eq!((rig.form_next(), rig.kept()), ("1".into(), vec![]));
        rig.end(&[1]);
        rig.waiting = [2, 3, 4].into();
        assert_eq!((rig.form_next(), rig.kept()), ("1".into(), vec![2]));
        assert_eq!((rig.form_next(), rig.form_next()), ("2*".into(), "3 4".into()));
    }

    /// `ath_tx_complete_aggr` puts retransmissions at the end of `retry_q`, behind the frames kept.
    #[test]
    fn a_kept_frame_that_tests_a_rate_goes_before_what_is_sent_again() {
        let mut rig = Rig::new(TransmitConfig::default(), 64, &[6]);
        assert_eq!((rig.form_next(), rig.form_next()), ("1 2 3 4".into(), "5".into()));
        rig.end(&[2]);
        assert_eq!((rig.form_next(), rig.kept()), ("6*".into(), vec![]));
        assert_eq!(rig.form_next(), "2 7 8 9");
    }

    /// A full Block Ack window admits retransmissions only.
    #[test]
    fn a_frame_that_tests_a_rate_waits_for_the_window() {
        let mut rig = Rig::new(TransmitConfig::default(), 6, &[6]);
        assert_eq!((rig.form_next(), rig.form_next()), ("1 2 3 4".into(), "5".into()));
        rig.mac.sessions[rig.id.index()].window = 5;
        assert_eq!(rig.form_next(), "nothing");
        rig.end(&[1]);
        assert_eq!(rig.form_next(), "1");
        rig.end(&[]);
        rig.end(&[]);
        assert_eq!((rig.form_next(), rig.kept()), ("6*".into(), vec![7]));
    }

    /// Where the driver's queue is filled ahead, the next frame that has not been sent tests the
    /// rate.
    #[test]
    fn a_driver_that_takes_frames_ahead_tests_with_the_oldest() {
        let mut rig = Rig::new(TransmitConfig::Qdisc(QdiscConfig::default()), 64, &[5]);
        rig.take_ahead();
        assert_eq!(rig.form_next(), "1 2 3 4");
        rig.end(&[2]);
        assert_eq!((rig.form_next(), rig.form_next()), ("5*".into(), "2 6 7 8".into()));
    }
}
