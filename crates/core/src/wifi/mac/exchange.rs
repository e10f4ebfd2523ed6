//! The radios' side of an exchange: the next PPDU, and the treatment of MPDUs that have arrived or
//! have not.

use super::early_drop::{EarlyDrop, RetryLimit};
use super::originator::Ppdu;
use super::radio::win_start;
use super::rate::TxStatus;
use super::records::{Common, record_data};
use super::{Sim, SimMac};
use crate::convert::{count16, saturate8};
use crate::packet::Pool;
use crate::queue::DropReason;
use crate::units::{Span, Time};
use crate::wifi::config::{OnGiveUp, OnMissed, RetryCount};
use crate::wifi::ids::{AirLinkId, PairId, RadioId};
use crate::wifi::medium::{Arrival, Control, Fate, Mac, NEVER, Outcome, Payload, Signals, To, TxRequest, draw};
use crate::wifi::outputs::AirOutputs;
use crate::wifi::phy::timing;
use crate::wifi::trace::{Ac, PpduRecord};

impl Mac for Sim<'_> {
    fn next(&mut self, now: Time, signals: &mut Signals, request: &mut TxRequest) -> bool {
        let (radio, ac) = (request.from, request.ac);
        let r = radio.index();
        if self.mac.radios[r].queues[ac.index()].formed.is_empty()
            && !self.mac.form_ppdu(now, radio, ac, signals, self.pool, self.out)
        {
            return false;
        }
        let r = &self.mac.radios[r];
        let ppdu = r.queues[ac.index()].formed.front().expect("formed above");
        let link = self.mac.sessions[ppdu.session.index()].link;
        let l = &self.mac.links[link.index()];
        let stage = ppdu.series.stages()[stage_index(ppdu)];
        request.rts = stage.rts;
        let user = &mut request.users.head;
        user.id = u64::from(link.0);
        user.to = if l.is_group() { To::Group } else { To::Radio(l.to) };
        user.mode = stage.mode;
        user.acked = r.acks;
        user.psdu_bytes = ppdu.psdu_bytes;
        user.header_bytes = r.framing.header_bytes;
        if ppdu.is_bar() {
            user.payload = Payload::BlockAckRequest;
        } else {
            user.payload = if ppdu.is_ampdu() { Payload::Ampdu } else { Payload::Mpdu };
            request.rts |= ppdu.psdu_bytes > r.config.rts_threshold_bytes;
            user.mpdus.extend(ppdu.mpdus.iter().map(|mpdu| r.framing.mpdu_bytes(u32::from(mpdu.size))));
        }
        true
    }

    fn heard(&mut self, now: Time, request: &TxRequest, arrival: Arrival<'_>) {
        if request.is_group() {
            self.hear_group(request, arrival.at);
        } else {
            self.mac.hear(now, request, arrival, self.pool, self.out);
        }
    }

    fn done(&mut self, now: Time, signals: &mut Signals, request: &TxRequest, outcome: &Outcome<'_>) {
        if request.is_group() {
            self.mac.end_group(now, request, outcome, self.pool, self.out);
        }
        self.mac.complete(now, signals, request, outcome, self.pool, self.out);
    }

    #[inline]
    fn has_frame(&self, radio: RadioId, ac: Ac) -> bool {
        self.mac.has_frame(radio, ac)
    }

    fn listens(&self, at: RadioId, request: &TxRequest) -> bool {
        self.mac.pair_of(request.from, at).is_some_and(|pair| self.mac.pairs[pair.index()].is_associated)
    }

    #[cold]
    fn give_up(&mut self, now: Time, signals: &mut Signals, radio: RadioId, ac: Ac) -> Option<bool> {
        let (r, mac) = (radio.index(), &mut *self.mac);
        let mut ppdu = mac.radios[r].queues[ac.index()].formed.pop_front()?;
        mac.resolve(now, r, ac, &ppdu, DropReason::RetryLimit, false, false, self.out);
        ppdu.mpdus.clear();
        mac.spare.push(ppdu.mpdus);
        mac.refill(now, radio, ac, self.pool, self.out);
        let is_formed = !mac.radios[r].queues[ac.index()].formed.is_empty();
        Some(is_formed || mac.form_ppdu(now, radio, ac, signals, self.pool, self.out))
    }

    fn control(&mut self, now: Time, request: &TxRequest, frame: &Control) {
        self.mac.record_control(now, request, frame);
    }
}

impl Sim<'_> {
    /// A group-addressed frame has reached a station.
    fn hear_group(&mut self, request: &TxRequest, at: RadioId) {
        let formed = &self.mac.radios[request.from.index()].queues[request.ac.index()].formed;
        let (Some(ppdu), Some(pair)) = (formed.front(), self.mac.pair_of(request.from, at)) else { return };
        self.out.heard.extend(ppdu.mpdus.iter().map(|mpdu| (pair, mpdu.packet)));
    }
}

impl SimMac {
    /// The pair of an access point and a station.
    fn pair_of(&self, access_point: RadioId, station: RadioId) -> Option<PairId> {
        let at = self.pair_of.binary_search_by_key(&(access_point, station), |&(ends, _)| ends).ok()?;
        Some(self.pair_of[at].1)
    }

    /// A group-addressed frame is over. It goes up once if it has reached any station.
    #[cold]
    fn end_group(&mut self, now: Time, request: &TxRequest, outcome: &Outcome<'_>, pool: &Pool, out: &mut AirOutputs) {
        let radio = &mut self.radios[request.from.index()];
        let ppdu = radio.queues[request.ac.index()].formed.front_mut().expect("on the air");
        let outcome = outcome.only_user();
        let reached = outcome.received > 0;
        if self.trace.frames {
            let common =
                Common { now, to: request.from, mode: outcome.mode, response: Span::ZERO, snr_db: outcome.snr_db };
            record_data(&mut self.frames, &mut self.ampdus, &common, request, ppdu, 0..1, pool, |_| (reached, false));
        }
        if reached {
            for mpdu in &mut ppdu.mpdus {
                mpdu.set_arrived();
                self.deliverable.push(mpdu.packet);
            }
        }
        mark_sent(ppdu);
        let session = ppdu.session;
        self.deliver(session, pool, out);
    }

    /// MPDUs of a PPDU with data, or a Block Ack request, have ended; `arrival`: the parts that
    /// reached the recipient.
    #[inline]
    fn hear(&mut self, now: Time, request: &TxRequest, arrival: Arrival<'_>, pool: &Pool, out: &mut AirOutputs) {
        let Arrival { at, user, mode, caught, first, fates, is_first, snr_db, response, chance } = arrival;
        let tracing = self.trace.frames;
        let ac = request.ac;
        let hearer = &self.radios[at.index()];
        let (reports_corrupt, counts_received) =
            (hearer.config.reorder_buffer.reports_corrupt.get(), hearer.counts_received);
        let reports_all = reports_corrupt >= 1.0;
        let radio = &mut self.radios[request.from.index()];
        let ppdu = radio.queues[ac.index()].formed.front_mut().expect("on the air");
        let session_id = ppdu.session;
        let session = &mut self.sessions[session_id.index()];
        let common = Common { now, to: at, mode, response, snr_db };
        if !caught {
            if tracing {
                let (all, no_copies) = (0..ppdu.mpdus.len(), |_: usize| (false, false));
                record_data(&mut self.frames, &mut self.ampdus, &common, request, ppdu, all, pool, no_copies);
            }
            mark_sent(ppdu);
            return;
        }
        if ppdu.is_bar() {
            let arrives = fates == [Fate::Whole];
            if tracing {
                let all = 0..ppdu.mpdus.len();
                record_data(&mut self.frames, &mut self.ampdus, &common, request, ppdu, all, pool, |_| {
                    (arrives, false)
                });
            }
            if arrives {
                let formed = &self.radios[request.from.index()].queues[ac.index()].formed;
                let ssn = win_start(session, session_id, formed);
                if let Some(recipient) = &mut session.recipient {
                    recipient.on_bar(now, ssn, &mut self.deliverable);
                }
                self.deliver(session_id, pool, out);
                self.update_holding();
            }
            return;
        }
        let ended = first..first + fates.len();
        let mut heard = Span::ZERO;
        if counts_received {
            for (&bytes, _) in
                request.users[user].mpdus[ended.clone()].iter().zip(fates).filter(|(_, fate)| **fate == Fate::Whole)
            {
                if radio.single_mpdu.0 != (mode, bytes) {
                    radio.single_mpdu = ((mode, bytes), radio.timing.ppdu(mode, bytes));
                }
                heard += radio.single_mpdu.1;
            }
        }
        if tracing {
            let copies = |n: usize| (fates[n - first] == Fate::Whole, fates[n - first] == Fate::HeaderOk);
            record_data(&mut self.frames, &mut self.ampdus, &common, request, ppdu, ended.clone(), pool, copies);
        }
        let is_end = ended.end == ppdu.mpdus.len();
        if let Some(recipient) = &mut session.recipient {
            if is_first && fates.iter().any(|&fate| fate != Fate::Lost) {
                recipient.on_ppdu(now, mode.rate());
            }
            for (mpdu, &fate) in ppdu.mpdus[ended].iter_mut().zip(fates) {
                if fate == Fate::Whole && !mpdu.has_arrived() {
                    mpdu.set_arrived();
                    if let Some(early_drop) = recipient.early_drop_mut() {
                        early_drop.on_received(now, &pool[mpdu.packet]);
                    }
                    recipient.on_mpdu(now, mpdu.sn, mpdu.packet, &mut self.deliverable, &mut self.refused);
                } else if fate == Fate::HeaderOk && (reports_all || draw(reports_corrupt, chance)) {
                    recipient.on_corrupt(now, mpdu.sn, mpdu.facts(), &mut self.deliverable);
                }
            }
        } else {
            for (mpdu, &fate) in ppdu.mpdus[ended].iter_mut().zip(fates) {
                // [IEEE80211-10.3.2.14-1]
                if fate == Fate::Whole && !mpdu.has_arrived() {
                    mpdu.set_arrived();
                    self.deliverable.push(mpdu.packet);
                }
            }
        }
        if is_end {
            mark_sent(ppdu);
        }
        let link = session.link;
        if !heard.is_zero() {
            self.charge_received(now, link, ac, heard);
        }
        self.report_sent(now, link, ac, pool);
        self.deliver(session_id, pool, out);
        let session = &mut self.sessions[session_id.index()];
        if let Some(recipient) = &session.recipient {
            let at = recipient.deadline();
            if at != NEVER && !session.recipient_waits {
                session.recipient_waits = true;
                self.holding.push(session_id);
                self.reorder_at = self.reorder_at.min(at);
            } else if session.recipient_waits {
                self.update_holding();
            }
        }
    }

    /// Reports packets that have just reached the other end of `link` to the rule that gives up
    /// MPDUs of the other direction.
    fn report_sent(&mut self, now: Time, link: AirLinkId, ac: Ac, pool: &Pool) {
        let Some(back) = self.links[link.opposite().index()].sessions[ac.index()] else { return };
        let Some(early_drop) = self.sessions[back.index()].recipient.as_mut().and_then(|r| r.early_drop_mut()) else {
            return;
        };
        for &id in &self.deliverable {
            early_drop.on_sent(now, &pool[id]);
        }
    }

    /// The originator knows the outcome of its exchange. For frames without acknowledgement
    /// `UserOutcome::answered` tells if the data arrived.
    fn complete(
        &mut self,
        now: Time,
        signals: &mut Signals,
        request: &TxRequest,
        x: &Outcome<'_>,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) {
        let (user, r, ac) = (x.only_user(), request.from.index(), request.ac);
        let answered = user.answered;
        let radio = &mut self.radios[r];
        let ppdu = radio.queues[ac.index()].formed.front_mut().expect("it was on the air");
        let stage = stage_index(ppdu);
        if let Some(bars_sent) = &mut ppdu.bars_sent {
            *bars_sent += 1;
        } else {
            ppdu.count_try(stage, x.is_data_sent);
        }
        let aggregates = radio.aggregates && self.sessions[ppdu.session.index()].recipient.is_some();
        let acks = request.only_user().is_answered();
        let is_over = self.sessions[ppdu.session.index()].is_over;
        // [IEEE80211-10.3.6-2]
        let limit = if is_over || (!acks && x.is_data_sent) {
            0
        } else if aggregates && !ppdu.is_bar() {
            ppdu.series.total_tries().min(u32::from(radio.config.retries.hardware_tries))
        } else {
            u32::from(radio.config.retries.frame_tries)
        };
        let link_id = self.sessions[ppdu.session.index()].link;
        let link = &mut self.links[link_id.index()];
        let airtime = now.since(x.start);
        link.stats.airtime_ns += airtime.as_ns();
        let arrived = ppdu.mpdus.iter().filter(|m| m.has_arrived()).count();
        if !x.is_data_sent {
            // The RTS was in vain.
            link.stats.rts_unanswered += 1;
        } else if ppdu.is_bar() {
            link.stats.bars += 1;
        } else {
            link.stats.ppdus += 1;
            link.stats.ppdus_unanswered += u64::from(!answered);
            link.stats.ppdus_collided += u64::from(user.collided);
            link.stats.mpdus += ppdu.mpdus.len() as u64;
            link.stats.mpdus_failed += if answered { ppdu.mpdus.len() - arrived } else { ppdu.mpdus.len() } as u64;
            link.stats.rate_sum_bps += u128::from(user.mode.rate().as_bps());
        }
        if self.trace.ppdus && x.is_data_sent {
            self.ppdus.push(PpduRecord {
                start: x.data_start,
                end: x.data_start + x.data,
                link: link_id,
                ac,
                mode: user.mode,
                mpdus: if ppdu.is_bar() { 0 } else { count16(ppdu.mpdus.len()) },
                received: user.received,
                header_ok: user.header_ok,
                psdu_bytes: if ppdu.is_bar() { timing::BAR_BYTES } else { ppdu.psdu_bytes },
                repeat: saturate8(ppdu.bars_sent.map_or(ppdu.tries_made, u32::from) - 1),
                answered,
                collided: user.collided,
                snr_db: user.snr_db,
            });
        }
        ppdu.airtime += if x.is_data_sent { x.data } else { Span::ZERO };
        // [IEEE80211-10.25.6.7-3]
        let asks = !answered
            && aggregates
            && !ppdu.is_bar()
            && ppdu.is_ampdu()
            && radio.config.retries.on_missed == OnMissed::Bar;
        if asks {
            ppdu.bars_sent = Some(0);
        }
        let again = asks || (!answered && ppdu.bars_sent.map_or(ppdu.tries_made, u32::from) < limit);
        if !again {
            let ppdu = radio.queues[ac.index()].formed.pop_front().expect("it was on the air");
            let receiver = self.sessions[ppdu.session.index()].receiver;
            self.transmits[r].on_sent(now, ac, receiver, ppdu.airtime);
            // A request is repeated as often as any frame; then the recipient must find out by
            // itself.
            if !ppdu.mpdus.is_empty() {
                let status = TxStatus {
                    series: &ppdu.series,
                    tries: ppdu.reported_tries(),
                    mpdus: count16(ppdu.mpdus.len()),
                    acked: if answered { count16(arrived) } else { 0 },
                    is_ampdu: aggregates,
                };
                // The rate control of a later association learns nothing from frames of this one.
                if !is_over {
                    link.rate.on_status(now, &status);
                }
                let loss = match (acks || !x.is_data_sent, user.collided) {
                    (true, _) => DropReason::RetryLimit,
                    (false, true) => DropReason::Collision,
                    (false, false) => DropReason::Errors,
                };
                self.resolve(now, r, ac, &ppdu, loss, answered, aggregates, out);
            }
            let mut mpdus = ppdu.mpdus;
            mpdus.clear();
            self.spare.push(mpdus);
        }
        self.refill(now, request.from, ac, pool, out);
        self.form_ahead(now, request.from, ac, usize::from(again), signals, pool, out);
    }

    /// Reports airtime of a frame to the radio that received it, which may charge it to the station
    /// that sent it.
    fn charge_received(&mut self, now: Time, link: AirLinkId, ac: Ac, airtime: Span) {
        let Some(back) = self.links[link.opposite().index()].sessions[ac.index()] else { return };
        let receiver = self.sessions[back.index()].receiver;
        self.transmits[self.links[link.index()].to.index()].on_received(now, ac, receiver, airtime);
    }

    /// Releases MPDUs that the recipient has; the others are sent again or given up.
    #[expect(clippy::too_many_arguments, reason = "one caller, which has all of it at hand")]
    fn resolve(
        &mut self,
        now: Time,
        r: usize,
        ac: Ac,
        ppdu: &Ppdu,
        loss: DropReason,
        answered: bool,
        aggregates: bool,
        out: &mut AirOutputs,
    ) {
        let radio = &mut self.radios[r];
        let session = &mut self.sessions[ppdu.session.index()];
        let link = &mut self.links[session.link.index()];
        let retries = &radio.config.retries;
        if let Some(lower) = &mut link.retry_limit {
            lower.on_ppdu(now, ppdu.series.stages()[stage_index_of_last(ppdu)].mode.rate());
        }
        let mut gave_up = false;
        let (mut released, mut released_bytes, mut released_airtime) = (0, 0, Span::ZERO);
        self.failed.clear();
        if session.is_over {
            for mpdu in ppdu.mpdus.iter().copied() {
                self.drop_or_hand_back_mpdu(now, ppdu.session, ac, mpdu, out);
            }
            return;
        }
        for &mpdu in &ppdu.mpdus {
            let mut mpdu = mpdu;
            if !(answered && mpdu.has_arrived()) {
                // [IEEE80211-10.3.4.4-1]
                let lower = link.retry_limit.as_mut();
                let limit = lower.map_or(retries.software, |lower| lower.limit(now, retries.software, mpdu.facts()));
                if aggregates && mpdu.retries < limit {
                    let more = match retries.counts {
                        RetryCount::Handings => 1,
                        RetryCount::Transmissions => saturate8(ppdu.tries_made),
                    };
                    mpdu.retries = mpdu.retries.saturating_add(more);
                    self.failed.push(mpdu);
                    continue;
                }
                gave_up = true;
                if !mpdu.has_arrived() {
                    match loss {
                        DropReason::Collision => link.stats.lost_collision += 1,
                        DropReason::Errors => link.stats.lost_errors += 1,
                        _ => link.stats.dropped_retries += 1,
                    }
                    out.dropped.push((session.link, mpdu.packet, loss));
                }
            }
            released += 1;
            released_bytes += u64::from(mpdu.size);
            released_airtime += mpdu.airtime();
            if mpdu.reports() {
                self.completions.complete(now, r, mpdu.flow, mpdu.payload, out);
            }
        }
        if released > 0 {
            link.release(now, released, released_bytes);
            self.transmits[r].on_released(ac, session.receiver, released_airtime);
        }
        session.put_back(&self.failed);
        // [IEEE80211-10.25.6.7-2]
        session.bar_due |= gave_up && aggregates && retries.on_give_up == OnGiveUp::Bar;
        let queue = &mut radio.queues[ac.index()];
        queue.driver_count -= released;
        if session.has_backlog() {
            self.schedule(RadioId::at(r), ac, ppdu.session);
        }
    }
}

/// The stage of the series that makes the next try; the last one for tries beyond it.
fn stage_index(ppdu: &Ppdu) -> usize {
    ppdu.series.stage_of_try(ppdu.tries_made).unwrap_or(ppdu.series.stages().len() - 1)
}

/// The stage of the latest try.
fn stage_index_of_last(ppdu: &Ppdu) -> usize {
    ppdu.series.stage_of_try(ppdu.tries_made.saturating_sub(1)).unwrap_or(ppdu.series.stages().len() - 1)
}

fn mark_sent(ppdu: &mut Ppdu) {
    for mpdu in &mut ppdu.mpdus {
        mpdu.set_sent();
    }
}
