//! Frame exchanges: from the end of a backoff to what the originator makes of the answer.

use super::records::record_data;
use super::{AirOutputs, Channel, Exchange, NEVER, Stage, UNHURT, snr_of};
use crate::convert::{count16, floor64, saturate8};
use crate::packet::{Kind, Pool};
use crate::queue::DropReason;
use crate::rng::Rng;
use crate::units::{Span, Time};
use crate::wifi::config::{OnGiveUp, OnMissed, RetryCount};
use crate::wifi::ids::{AirLinkId, RadioId};
use crate::wifi::originator::{Mpdu, Ppdu};
use crate::wifi::phy::{Mode, Protection, timing};
use crate::wifi::radio::win_start;
use crate::wifi::rate::TxStatus;
use crate::wifi::reorder::HandsUp;
use crate::wifi::trace::{Ac, FrameKind, PpduRecord};
use rand::RngExt;

impl Channel {
    /// A radio's frame may leave.
    pub(super) fn begin(&mut self, now: Time, radio: RadioId, pool: &mut Pool, out: &mut AirOutputs) {
        let ac = self.contention.take(radio, now);
        let has_formed = !self.radios[radio.index()].queues[ac.index()].formed.is_empty();
        // The frame that was given up on may have gone with its association.
        if self.contention.take_given_up(radio, ac) && has_formed {
            self.give_up(now, radio, ac, pool, out);
            return;
        }
        if self.radios[radio.index()].queues[ac.index()].formed.is_empty() && !self.form(now, radio, ac, pool, out) {
            // Everything that waits is beyond the Block Ack window.
            self.contention.finish(radio, ac, now, false, false);
            return;
        }
        let txop = self.radios[radio.index()].edca[ac.index()].txop;
        let txop_end = if txop.is_zero() { NEVER } else { now + txop };
        let i = self.plan(now, radio, ac, txop_end);
        let x = &self.exchanges[i];
        let r = &self.radios[radio.index()];
        let ppdu = r.queues[ac.index()].formed.front().expect("formed above");
        let stage = ppdu.series.stages()[stage_index(ppdu)];
        let protection = r.timing.protection(x.mode);
        // Nobody would answer an RTS to a group, and its frames are sent at a rate that all can hear (10.3.2.9).
        let is_group = self.links[x.link.index()].is_group();
        // [IEEE80211-10.3.2.9-4]
        let (first, length) = if is_group {
            (Stage::Data, x.data)
        } else if (ppdu.psdu_bytes > r.config.rts_threshold_bytes && !ppdu.is_bar())
            || stage.rts
            || protection == Protection::RtsCts
        {
            (Stage::Rts, r.timing.rts(x.mode))
        } else if protection == Protection::CtsToSelf {
            (Stage::CtsToSelf, r.timing.cts_to_self(x.mode))
        } else {
            (Stage::Data, x.data)
        };
        self.put_on_air(now, i, first, length);
    }

    /// A new exchange for the first formed PPDU of a category; returns its place.
    fn plan(&mut self, now: Time, radio: RadioId, ac: Ac, txop_end: Time) -> usize {
        let r = &self.radios[radio.index()];
        let ppdu = r.queues[ac.index()].formed.front().expect("the caller formed one");
        let link = self.sessions[ppdu.session.index()].link;
        let to = self.links[link.index()].to;
        let mut mode = ppdu.series.stages()[stage_index(ppdu)].mode;
        let data;
        if ppdu.is_bar() {
            data = r.timing.bar(mode);
            mode = r.timing.response_mode(mode);
        } else {
            data = r.timing.ppdu(mode, ppdu.psdu_bytes);
        }
        // [IEEE80211-10.25.6.3-1]
        let response = if ppdu.is_bar() || ppdu.is_ampdu() { r.timing.block_ack(mode) } else { r.timing.ack(mode) };
        // [IEEE80211-10.3.6-1]
        let is_answered = r.acks && !self.links[link.index()].is_group();
        let answer = if is_answered { r.timing.sifs + response } else { Span::ZERO };
        self.occupancy.count_to(now, self.exchanges.len());
        self.exchanges.push(Exchange {
            at: now,
            stage: Stage::BeforeData,
            ac,
            from: radio,
            to,
            link,
            mode,
            data,
            response,
            answer,
            response_mode: r.timing.response_mode(mode),
            start: now,
            ppdu_start: now,
            data_start: now,
            hit: UNHURT,
            missed: false,
            collided: false,
            is_data_sent: false,
            txop_end,
            received: 0,
            legible: 0,
            judged: 0,
            caught: None,
            snr_db: f32::NAN,
        });
        self.exchanges.len() - 1
    }

    fn put_on_air(&mut self, now: Time, i: usize, stage: Stage, length: Span) {
        let x = &self.exchanges[i];
        let (transmitter, receiver) = match stage {
            Stage::Cts | Stage::Response => (x.to, x.from),
            _ => (x.from, x.to),
        };
        let is_response = matches!(stage, Stage::Cts | Stage::Response);
        // A radio that waits for a response of its own does not listen for anything else. (A group's receiver stands for all: it is the
        // access point itself, engaged by sending.)
        let is_occupied = !is_response && receiver != transmitter && self.contention.is_engaged(receiver);
        let end = now + length;
        let missed = if self.capture_effect > 0.0 {
            self.meet(now, i, (transmitter, receiver), end) || is_occupied
        } else {
            for (j, other) in self.exchanges.iter_mut().enumerate() {
                if j == i || !other.is_on_air() {
                    continue;
                }
                let listener = other.receiver();
                if listener == transmitter {
                    other.hit(now, NEVER);
                } else if self.contention.is_heard(transmitter, listener) {
                    other.hit(now, end);
                }
            }
            self.contention.is_busy(receiver) || is_occupied
        };
        let x = &mut self.exchanges[i];
        x.stage = stage;
        x.at = end;
        x.ppdu_start = now;
        x.hit = UNHURT;
        x.missed = missed;
        x.collided |= missed;
        if stage == Stage::Data {
            x.is_data_sent = true;
            x.data_start = now;
            if self.radios[receiver.index()].config.reorder_buffer.hands_up == HandsUp::AtLastBit {
                self.exchanges[i].at = self.next_end(i);
            }
        }
        self.contention.on_begin(transmitter, now);
    }

    /// What a PPDU that begins does to those on the air, and they to it, where one may be captured. True if its own
    /// receiver does not notice it.
    #[cold]
    fn meet(&mut self, now: Time, i: usize, (transmitter, receiver): (RadioId, RadioId), end: Time) -> bool {
        let (capture, rng) = (self.capture_effect, &mut self.capture_rng);
        // Whether the earlier, the later is received as if alone.
        let mut captured = || {
            let u = rng.random::<f64>();
            (u < capture / 2.0, (capture / 2.0..capture).contains(&u))
        };
        let mut missed = false;
        for (j, other) in self.exchanges.iter_mut().enumerate() {
            if j == i || !other.is_on_air() {
                continue;
            }
            let (speaker, listener) = (other.transmitter(), other.receiver());
            let at_listener = self.contention.is_heard(transmitter, listener);
            let at_receiver = self.contention.is_heard(speaker, receiver);
            let there = if at_listener { captured() } else { (true, false) };
            // At the same receiver it is one event.
            let here = match (at_receiver, listener == receiver && at_listener) {
                (true, true) => there,
                (true, false) => captured(),
                (false, _) => (false, true),
            };
            if listener == transmitter {
                other.hit(now, NEVER);
            } else if !there.0 {
                other.hit(now, end);
            }
            let preamble = self.radios[speaker.index()].timing.preamble(other.mode);
            let is_late = at_receiver && now >= other.ppdu_start + preamble;
            missed |= speaker == receiver || is_late || !here.1;
        }
        missed
    }

    /// The stage of an exchange is over.
    pub(super) fn step(&mut self, now: Time, i: usize, pool: &mut Pool, out: &mut AirOutputs) {
        let x = &self.exchanges[i];
        let (from, to) = (x.from, x.to);
        let timing = &self.radios[from.index()].timing;
        let (sifs, data, response, answer) = (timing.sifs, x.data, x.response, x.answer);
        match x.stage {
            Stage::Rts => {
                let cts = timing.cts(x.mode);
                let timeout = timing.cts_timeout(x.mode);
                let mode = timing.rts_mode(x.mode);
                let data_is_late = timing.preamble(timing.response_mode(mode)) + timing.slot * 2;
                let decoded = self.control_arrives(now, i, mode, timing::RTS_BYTES);
                self.record_control(now, i, FrameKind::Rts, mode, decoded);
                // [IEEE80211-10.3.2.9-1]
                let answers = decoded && !self.contention.has_nav(to, now);
                // Who hears only the RTS waits for the CTS; the data then speaks for itself. If none comes, the NAV is reset
                // when data should have begun (10.3.2.4, NAVTimeout).
                // [IEEE80211-10.3.2.4-3]
                let nav = now + sifs * 2 + cts + if answers { Span::ZERO } else { data_is_late };
                self.contention.on_end(from, now, nav, to, decoded);
                if answers {
                    self.contention.engage(to, true, now);
                    self.wait(i, Stage::BeforeCts, now + sifs);
                } else {
                    self.wait(i, Stage::Overdue, now + timeout);
                }
            }
            Stage::BeforeCts => {
                let cts = timing.cts(x.mode);
                self.put_on_air(now, i, Stage::Cts, cts);
            }
            Stage::Cts => {
                let mode = timing.response_mode(timing.rts_mode(x.mode));
                let decoded = self.control_arrives(now, i, mode, timing::CTS_BYTES);
                self.record_control(now, i, FrameKind::Cts, mode, decoded);
                self.contention.on_end(to, now, now + sifs + data + answer, from, decoded);
                self.contention.engage(to, false, now);
                if decoded {
                    self.wait(i, Stage::BeforeData, now + sifs);
                } else {
                    self.complete(now, i, false, pool, out);
                }
            }
            Stage::CtsToSelf => {
                let mode = timing.rts_mode(x.mode);
                let nav = now + sifs + data + answer;
                self.record_control(now, i, FrameKind::Cts, mode, !self.exchanges[i].is_spoilt());
                self.contention.on_end(from, now, nav, to, true);
                self.wait(i, Stage::BeforeData, now + sifs);
            }
            Stage::BeforeData => self.put_on_air(now, i, Stage::Data, data),
            // An MPDU has ended, and goes up by itself.
            Stage::Data if now < x.data_start + data => {
                let ended = usize::from(x.judged) + 1;
                self.data_arrives(now, i, ended, pool, out);
                self.exchanges[i].at = self.next_end(i);
            }
            Stage::Data => {
                let timeout = timing.ack_timeout(x.mode);
                let answered = if self.links[x.link.index()].is_group() {
                    self.group_arrives(now, i, pool, out)
                } else {
                    self.data_arrives(now, i, usize::MAX, pool, out)
                };
                self.contention.on_end(from, now, now + answer, to, answered);
                if answer.is_zero() {
                    self.complete(now, i, answered, pool, out);
                } else if answered {
                    self.contention.engage(to, true, now);
                    // [IEEE80211-10.3.2.3-1]
                    self.wait(i, Stage::BeforeResponse, now + sifs);
                } else {
                    self.wait(i, Stage::Overdue, now + timeout);
                }
            }
            // [IEEE80211-10.3.2.11-1]
            Stage::BeforeResponse => self.put_on_air(now, i, Stage::Response, response),
            Stage::Response => {
                let mode = x.response_mode;
                let ppdu = self.radios[from.index()].queues[x.ac.index()].formed.front().expect("on the air");
                let is_ack = !ppdu.is_bar() && !ppdu.is_ampdu();
                let bytes = if is_ack { timing::ACK_BYTES } else { timing::BLOCK_ACK_BYTES };
                let decoded = self.control_arrives(now, i, mode, bytes);
                let kind = if is_ack { FrameKind::Ack } else { FrameKind::BlockAck };
                self.record_control(now, i, kind, mode, decoded);
                self.contention.on_end(to, now, now, from, decoded);
                self.contention.engage(to, false, now);
                self.complete(now, i, decoded, pool, out);
            }
            Stage::Overdue => self.complete(now, i, false, pool, out),
        }
    }

    fn wait(&mut self, i: usize, stage: Stage, until: Time) {
        self.exchanges[i].stage = stage;
        self.exchanges[i].at = until;
    }

    /// Whether a control frame that has just ended arrived at its receiver.
    fn control_arrives(&mut self, now: Time, i: usize, mode: Mode, bytes: u32) -> bool {
        let x = &self.exchanges[i];
        if x.is_spoilt() {
            return false;
        }
        let link = &mut self.links[x.link.index()];
        let signal = &mut self.pairs[link.pair.expect("not to a group").index()].signal;
        let quality = signal.link(now);
        if quality.is_perfect() {
            return true;
        }
        let chance = signal.preamble_success(quality, mode) * signal.mpdu_success(quality, mode, bytes);
        draw(chance, &mut link.error_rng)
    }

    /// Of a PPDU with data, or a Block Ack request, so many MPDUs have ended: what reached the recipient. True if it has something to
    /// answer.
    fn data_arrives(&mut self, now: Time, i: usize, ended: usize, pool: &mut Pool, out: &mut AirOutputs) -> bool {
        let x = &mut self.exchanges[i];
        let link = &mut self.links[x.link.index()];
        let reports_corrupt = self.radios[x.to.index()].config.reorder_buffer.reports_corrupt.get();
        let reports_all = reports_corrupt >= 1.0;
        let radio = &mut self.radios[x.from.index()];
        let (framing, preamble) = (radio.framing, radio.timing.preamble(x.mode));
        let ppdu = radio.queues[x.ac.index()].formed.front_mut().expect("on the air");
        let session_id = ppdu.session;
        let session = &mut self.sessions[session_id.index()];
        let signal = &mut self.pairs[link.pair.expect("not to a group").index()].signal;
        let quality = signal.link(now);
        x.snr_db = snr_of(quality);
        // The receiver must catch the preamble undisturbed.
        let caught = *x.caught.get_or_insert_with(|| {
            !x.missed
                && x.hit.0 >= x.ppdu_start + preamble
                && (quality.is_perfect() || draw(signal.preamble_success(quality, x.mode), &mut link.error_rng))
        });
        let tracing = self.trace.frames;
        let whole_ppdu = 0..ppdu.mpdus.len();
        let is_end = ended >= whole_ppdu.end;
        if !caught {
            if is_end {
                if tracing {
                    let no_copies = |_: usize| (false, false);
                    record_data(&mut self.frames, &mut self.ampdus, now, x, ppdu, whole_ppdu, pool, no_copies);
                }
                mark_sent(ppdu);
            }
            return false;
        }
        if ppdu.is_bar() {
            let chance = signal.mpdu_success(quality, x.mode, timing::BAR_BYTES);
            let arrives = x.hit.0 >= x.hit.1 && (quality.is_perfect() || draw(chance, &mut link.error_rng));
            if tracing {
                record_data(&mut self.frames, &mut self.ampdus, now, x, ppdu, whole_ppdu, pool, |_| (arrives, false));
            }
            if arrives {
                let formed = &self.radios[x.from.index()].queues[x.ac.index()].formed;
                let ssn = win_start(session, session_id, formed);
                if let Some(recipient) = &mut session.recipient {
                    recipient.on_bar(now, ssn, &mut self.up);
                }
                self.hand_up(session_id, pool, out);
                self.update_holding();
            }
            return arrives;
        }

        // Those before have gone up.
        let ended = usize::from(x.judged)..ended.min(whole_ppdu.end);
        x.judged = count16(ended.end);
        let mut copies: [(bool, bool); 64] = [(false, false); 64];
        let is_ampdu = ppdu.is_ampdu();
        let perfect = quality.is_perfect() && x.hit.0 >= x.hit.1;
        let header_bytes = framing.header_bytes + if is_ampdu { timing::DELIMITER_BYTES } else { 0 };
        // Of the size seen last: the chance of the MPDU, and of its header if the MPDU is corrupt.
        let mut known = (0u32, 1.0, 1.0);
        let (mut received, mut legible) = (0, 0);
        let mut offset = 0;
        for (n, mpdu) in ppdu.mpdus.iter().enumerate().take(ended.end) {
            let bytes = framing.mpdu_bytes(u32::from(mpdu.size));
            if n < ended.start {
                offset += timing::subframe_bytes(bytes);
                continue;
            }
            if perfect {
                copies[n] = (true, false);
                received += 1;
                continue;
            }
            if bytes != known.0 {
                let whole = signal.mpdu_success(quality, x.mode, bytes);
                known = (bytes, whole, signal.legibility(quality, x.mode, header_bytes, bytes));
            }
            let (mut whole, mut header) = (true, true);
            if x.hit.0 < x.hit.1 {
                // Where it lies in the PPDU, in time.
                let span = x.data.saturating_sub(preamble).as_ns() as f64 / f64::from(ppdu.psdu_bytes);
                let at = |o: u32| x.ppdu_start + preamble + Span::from_ns(floor64(f64::from(o) * span));
                let clear = |from: Time, to: Time| to <= x.hit.0 || from >= x.hit.1;
                whole = clear(at(offset), at(offset + bytes));
                header = clear(at(offset), at(offset + header_bytes));
                offset += if is_ampdu { timing::subframe_bytes(bytes) } else { bytes };
            }
            let (_, whole_chance, legibility) = known;
            if whole && draw(whole_chance, &mut link.error_rng) {
                copies[n] = (true, false);
                received += 1;
            } else if header {
                // Errors elsewhere in it. If another transmission made them, the header had its own chance.
                let chance = if whole { legibility } else { signal.header_success(quality, x.mode, header_bytes) };
                if draw(chance, &mut link.error_rng) {
                    copies[n] = (false, true);
                    legible += 1;
                }
            }
        }
        let is_first = x.received + x.legible == 0;
        x.received += received;
        x.legible += legible;
        let mut heard = Span::ZERO;
        if received > 0 && self.transmits[x.to.index()].counts_received() {
            let mut alone = (0, Span::ZERO);
            for (mpdu, _) in ppdu.mpdus[ended.clone()].iter().zip(&copies[ended.clone()]).filter(|(_, copy)| copy.0) {
                let bytes = framing.mpdu_bytes(u32::from(mpdu.size));
                if bytes != alone.0 {
                    alone = (bytes, radio.timing.ppdu(x.mode, bytes));
                }
                heard += alone.1;
            }
        }
        if tracing {
            record_data(&mut self.frames, &mut self.ampdus, now, x, ppdu, ended.clone(), pool, |n| copies[n]);
        }
        if let Some(recipient) = &mut session.recipient {
            if is_first && received + legible > 0 {
                recipient.on_ampdu(now, x.mode.rate());
            }
            for (mpdu, &(whole, legible)) in ppdu.mpdus[ended.clone()].iter_mut().zip(&copies[ended]) {
                if whole && !mpdu.has_arrived() {
                    mpdu.set_arrived();
                    if let Some(remedy) = recipient.retry_out_mut() {
                        let p = &pool[mpdu.packet];
                        let (_, echo) = p.timestamps();
                        if p.kind == Kind::Tcp && p.len > 0 && echo != 0 {
                            remedy.on_up(now, p.conversation(), echo);
                        }
                        recipient.on_good(mpdu.is_tcp(), mpdu.size);
                    }
                    recipient.on_mpdu(now, mpdu.sn, mpdu.packet, &mut self.up, &mut self.refused);
                } else if legible && (reports_all || draw(reports_corrupt, &mut link.error_rng)) {
                    recipient.on_corrupt(now, mpdu.sn, mpdu.is_tcp(), mpdu.size, &mut self.up);
                }
            }
        } else {
            for (mpdu, &(whole, _)) in ppdu.mpdus[ended.clone()].iter_mut().zip(&copies[ended]) {
                // [IEEE80211-10.3.2.14-1]
                if whole && !mpdu.has_arrived() {
                    mpdu.set_arrived();
                    self.up.push(mpdu.packet);
                }
            }
        }
        if is_end {
            mark_sent(ppdu);
        }
        let (link, ac, answers) = (x.link, x.ac, x.received > 0);
        if !heard.is_zero() {
            self.charge_received(now, link, ac, heard);
        }
        self.report_down(now, link, ac, pool);
        self.hand_up(session_id, pool, out);
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
        answers
    }

    /// When the next MPDU ends, of a PPDU whose MPDUs go up one by one; else when the PPDU does.
    #[cold]
    fn next_end(&self, i: usize) -> Time {
        let x = &self.exchanges[i];
        let end = x.data_start + x.data;
        let radio = &self.radios[x.from.index()];
        let ppdu = radio.queues[x.ac.index()].formed.front().expect("on the air");
        let judged = usize::from(x.judged);
        if ppdu.is_bar() || x.caught == Some(false) || judged + 1 >= ppdu.mpdus.len() {
            return end;
        }
        let bytes = |mpdu: &Mpdu| radio.framing.mpdu_bytes(u32::from(mpdu.size));
        let before: u32 = ppdu.mpdus[..judged].iter().map(|m| timing::subframe_bytes(bytes(m))).sum();
        let offset = before + timing::DELIMITER_BYTES + bytes(&ppdu.mpdus[judged]);
        let preamble = radio.timing.preamble(x.mode);
        x.data_start + preamble + x.data.saturating_sub(preamble).mul_ratio(offset.into(), ppdu.psdu_bytes.into())
    }

    /// TCP packets that have just reached the other end of `link`, for a remedy there that measures delay by their timestamps.
    fn report_down(&mut self, now: Time, link: AirLinkId, ac: Ac, pool: &Pool) {
        let Some(back) = self.links[link.opposite().index()].sessions[ac.index()] else { return };
        let Some(remedy) = self.sessions[back.index()].recipient.as_mut().and_then(|r| r.retry_out_mut()) else {
            return;
        };
        for &id in &self.up {
            let p = &pool[id];
            let (sent, _) = p.timestamps();
            if p.kind == Kind::Tcp && sent != 0 {
                remedy.on_down(now, p.conversation(), sent);
            }
        }
    }

    /// A frame has found the medium busy as often as it may, and is dropped.
    #[cold]
    fn give_up(&mut self, now: Time, radio: RadioId, ac: Ac, pool: &mut Pool, out: &mut AirOutputs) {
        let r = radio.index();
        let mut ppdu = self.radios[r].queues[ac.index()].formed.pop_front().expect("it waited for the air");
        self.resolve(now, r, ac, &ppdu, DropReason::RetryLimit, false, false, out);
        ppdu.mpdus.clear();
        self.spare.push(ppdu.mpdus);
        self.refill(now, radio, ac, pool, out);
        let has_frame = !self.radios[r].queues[ac.index()].formed.is_empty() || self.form(now, radio, ac, pool, out);
        self.contention.finish(radio, ac, now, false, has_frame);
    }

    /// The originator knows how its exchange went. Without acknowledgements nobody does: `answered` is then whether the data arrived.
    fn complete(&mut self, now: Time, i: usize, answered: bool, pool: &mut Pool, out: &mut AirOutputs) {
        self.occupancy.count_to(now, self.exchanges.len());
        let x = self.exchanges.remove(i);
        let (r, ac) = (x.from.index(), x.ac);
        let radio = &mut self.radios[r];
        let mut ppdu = radio.queues[ac.index()].formed.pop_front().expect("it was on the air");
        let stage = stage_index(&ppdu);
        if let Some(asked) = &mut ppdu.asked {
            *asked += 1;
        } else {
            ppdu.count_try(stage, x.is_data_sent);
        }
        let aggregates = radio.aggregates && self.sessions[ppdu.session.index()].recipient.is_some();
        let acks = radio.acks && !self.links[x.link.index()].is_group();
        let is_over = self.sessions[ppdu.session.index()].is_over;
        // [IEEE80211-10.3.6-2]
        let limit = if is_over || (!acks && x.is_data_sent) {
            0
        } else if aggregates && !ppdu.is_bar() {
            ppdu.series.total_tries().min(u32::from(radio.config.retries.hardware_tries))
        } else {
            u32::from(radio.config.retries.frame_tries)
        };
        let link = &mut self.links[x.link.index()];
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
            link.stats.ppdus_collided += u64::from(x.collided);
            link.stats.mpdus += ppdu.mpdus.len() as u64;
            link.stats.mpdus_failed += if answered { ppdu.mpdus.len() - arrived } else { ppdu.mpdus.len() } as u64;
            link.stats.rate_sum_bps += u128::from(x.mode.rate().as_bps());
        }
        if self.trace.ppdus && x.is_data_sent {
            self.ppdus.push(PpduRecord {
                start_ns: x.data_start.as_ns(),
                end_ns: (x.data_start + x.data).as_ns(),
                link: x.link,
                ac,
                mode: x.mode,
                mpdus: if ppdu.is_bar() { 0 } else { count16(ppdu.mpdus.len()) },
                received: x.received,
                legible: x.legible,
                psdu_bytes: if ppdu.is_bar() { timing::BAR_BYTES } else { ppdu.psdu_bytes },
                repeat: saturate8(ppdu.asked.map_or(ppdu.tried, u32::from) - 1),
                answered,
                collided: x.collided,
                snr_db: x.snr_db,
            });
        }
        ppdu.spent += if x.is_data_sent { x.data } else { Span::ZERO };
        let mut again = false;
        // [IEEE80211-10.25.6.7-3]
        let asks = !answered
            && aggregates
            && !ppdu.is_bar()
            && ppdu.is_ampdu()
            && radio.config.retries.on_missed == OnMissed::Bar;
        if asks {
            ppdu.asked = Some(0);
        }
        if asks || (!answered && ppdu.asked.map_or(ppdu.tried, u32::from) < limit) {
            again = true;
            radio.queues[ac.index()].formed.push_front(ppdu);
        } else {
            let receiver = self.sessions[ppdu.session.index()].receiver;
            self.transmits[r].on_sent(now, ac, receiver, ppdu.spent);
            // A request is repeated as often as any frame; then the recipient must find out by itself.
            if !ppdu.mpdus.is_empty() {
                let status = TxStatus {
                    series: &ppdu.series,
                    tries: ppdu.reported_tries(),
                    mpdus: count16(ppdu.mpdus.len()),
                    acked: if answered { count16(arrived) } else { 0 },
                    is_ampdu: aggregates,
                };
                // What is built for the next association knows nothing of this one.
                if !is_over {
                    link.rate.on_status(now, &status);
                }
                let loss = match (acks || !x.is_data_sent, x.collided) {
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
        self.refill(now, x.from, ac, pool, out);
        let ahead =
            if self.radios[r].aggregates { usize::from(self.radios[r].config.aggregation.formed_ahead) } else { 1 };
        while self.radios[r].queues[ac.index()].formed.len() < ahead.max(usize::from(again))
            && self.form(now, x.from, ac, pool, out)
        {}
        let failed = !answered && (acks || !x.is_data_sent);
        if !failed && x.txop_end != NEVER && self.goes_on(now, &x, pool, out) {
            return;
        }
        let queue = &self.radios[r].queues[ac.index()];
        let has_frame = !queue.formed.is_empty() || (ahead == 0 && !queue.schedule.is_empty());
        self.contention.finish(x.from, ac, now, failed, has_frame);
    }

    /// What a station has sent may be airtime of its own, too, for the radio that heard it.
    fn charge_received(&mut self, now: Time, link: AirLinkId, ac: Ac, airtime: Span) {
        let Some(back) = self.links[link.opposite().index()].sessions[ac.index()] else { return };
        let receiver = self.sessions[back.index()].receiver;
        self.transmits[self.links[link.index()].to.index()].on_received(now, ac, receiver, airtime);
    }

    /// What the recipient has is released; the rest is sent again or given up.
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
        let mut tcp_limit = retries.software;
        if let Some(by_rate) = &mut link.tcp_limit {
            by_rate.on_ampdu(now, ppdu.series.stages()[stage_index_of_last(ppdu)].mode.rate());
            tcp_limit = by_rate.index(now).map_or(tcp_limit, |index| tcp_limit.min(saturate8(index)));
        }
        let mut gave_up = false;
        let mut released = 0;
        self.failed.clear();
        if session.is_over {
            for mpdu in ppdu.mpdus.iter().copied() {
                self.let_go(now, ppdu.session, ac, mpdu, out);
            }
            return;
        }
        for &mpdu in &ppdu.mpdus {
            let mut mpdu = mpdu;
            if !(answered && mpdu.has_arrived()) {
                // [IEEE80211-10.3.4.4-1]
                let limit = if mpdu.is_tcp() { tcp_limit } else { retries.software };
                if aggregates && mpdu.retries < limit {
                    let more = match retries.counts {
                        RetryCount::Handings => 1,
                        RetryCount::Transmissions => saturate8(ppdu.tried),
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
            link.release(now, mpdu.size);
            if mpdu.reports() {
                out.release(mpdu.flow, mpdu.payload);
            }
            self.transmits[r].on_released(ac, session.receiver, mpdu.airtime_ns);
        }
        session.put_back(&self.failed);
        // [IEEE80211-10.25.6.7-2]
        session.bar |= gave_up && aggregates && retries.on_give_up == OnGiveUp::Bar;
        let queue = &mut radio.queues[ac.index()];
        queue.driver_count -= released;
        if session.has_backlog() {
            self.schedule(RadioId::at(r), ac, ppdu.session);
        }
    }

    /// The next frame of the category within the same TXOP, if it fits. True if so.
    // [IEEE80211-10.23.2.8-1]
    fn goes_on(&mut self, now: Time, x: &Exchange, pool: &mut Pool, out: &mut AirOutputs) -> bool {
        let (r, ac) = (x.from.index(), x.ac);
        if self.radios[r].queues[ac.index()].formed.is_empty() && !self.form(now, x.from, ac, pool, out) {
            return false;
        }
        let i = self.plan(now, x.from, ac, x.txop_end);
        let sifs = self.radios[r].timing.sifs;
        let next = &mut self.exchanges[i];
        let end = now + sifs + next.data + next.answer;
        let protected = self.radios[r].timing.protection(next.mode) != Protection::None;
        if end > x.txop_end || protected {
            self.exchanges.pop();
            return false;
        }
        next.at = now + sifs;
        self.contention.go_on(x.from, ac);
        true
    }
}

/// The stage of the series that makes the next try; the last one for tries beyond it.
fn stage_index(ppdu: &Ppdu) -> usize {
    ppdu.series.stage_of_try(ppdu.tried).unwrap_or(ppdu.series.stages().len() - 1)
}

/// That of the latest try.
fn stage_index_of_last(ppdu: &Ppdu) -> usize {
    ppdu.series.stage_of_try(ppdu.tried.saturating_sub(1)).unwrap_or(ppdu.series.stages().len() - 1)
}

pub(super) fn mark_sent(ppdu: &mut Ppdu) {
    for mpdu in &mut ppdu.mpdus {
        mpdu.set_sent();
    }
}

#[inline]
pub(super) fn draw(chance: f64, rng: &mut Rng) -> bool {
    chance >= 1.0 || (chance > 0.0 && rng.random::<f64>() < chance)
}
