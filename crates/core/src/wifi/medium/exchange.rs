//! Frame exchanges: from the end of a backoff to the outcome at the originator.

use nonempty::NonEmpty;
use rand::RngExt;

use super::reception::{Judge, Reception, draw};
use super::seam::{Arrival, Control, Fate, Mac, Outcome, Payload, To, TxRequest};
use super::{Medium, NEVER};
use crate::convert::count16;
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::phy::{Mode, Protection, Quality, timing};
use crate::wifi::trace::{Ac, FrameKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// On the air.
    Rts,
    Cts,
    /// CTS to itself.
    CtsToSelf,
    Data,
    Response,
    /// SIFS before it.
    BeforeCts,
    BeforeData,
    BeforeResponse,
    /// Nothing has come back; the originator will notice.
    Overdue,
}

/// A frame exchange under way.
#[derive(Debug)]
pub(super) struct Exchange {
    /// End of the stage.
    pub at: Time,
    stage: Stage,
    pub request: TxRequest,
    /// Receptions of the users of the request, in the same order.
    receptions: NonEmpty<Reception>,
    /// The radio that an RTS asks, and that answers. It is the sender itself where the data is for
    /// a group or for several users, which nobody answers.
    partner: RadioId,
    /// Length of the PPDU with data: that of its longest user.
    data: Span,
    /// Time from the end of the data to the end of the response: SIFS and the response, or zero
    /// without acknowledgements.
    answer: Span,
    pub start: Time,
    /// Start of the PPDU on the air, or of the last one.
    ppdu_start: Time,
    /// Start of the PPDU with data.
    data_start: Time,
    is_data_sent: bool,
    /// End of the TXOP; [`NEVER`]: it is one exchange only.
    txop_end: Time,
}

impl Exchange {
    #[cold]
    fn blank() -> Exchange {
        Exchange {
            at: NEVER,
            stage: Stage::Overdue,
            request: TxRequest::blank(),
            receptions: NonEmpty::new(Reception::blank()),
            partner: RadioId(0),
            data: Span::ZERO,
            answer: Span::ZERO,
            start: NEVER,
            ppdu_start: NEVER,
            data_start: NEVER,
            is_data_sent: false,
            txop_end: NEVER,
        }
    }
    fn is_on_air(&self) -> bool {
        matches!(self.stage, Stage::Rts | Stage::Cts | Stage::CtsToSelf | Stage::Data | Stage::Response)
    }
    /// The radio that sends the PPDU on the air.
    fn transmitter(&self) -> RadioId {
        if self.stage.is_answer() { self.partner } else { self.request.from }
    }
    /// The user that [`Exchange::partner`] is. Of several users without acknowledgements it is the
    /// first, whose mode stands for all.
    #[inline]
    fn first(&self) -> &Reception {
        &self.receptions.head
    }
}

impl Stage {
    /// The originator receives.
    #[inline]
    fn is_answer(self) -> bool {
        matches!(self, Stage::Cts | Stage::Response)
    }
}

/// The radio that answers a request of `from`, and the time from the end of the data to the end of
/// the answer.
///
/// Several users get data, but none of them answers. Answers one after another, as Block Ack
/// requests ask for them, or all at once after a trigger frame, begin here: stages and NAVs know
/// no more of it. To carrier sense all receivers of such a PPDU are third parties.
#[inline]
fn answer_of(request: &TxRequest, receptions: &NonEmpty<Reception>, sifs: Span) -> (RadioId, Span) {
    let (user, more) = request.users.split_first();
    debug_assert!(
        more.is_empty() || request.users.iter().all(|user| !user.acked && user.to != To::Group),
        "the medium collects no answers of several users, and a group is the only user of its PPDU"
    );
    let reception = receptions.first();
    if !more.is_empty() {
        (request.from, Span::ZERO)
    } else if user.is_answered() {
        // [IEEE80211-10.3.6-1]
        (reception.to, sifs + reception.response)
    } else {
        (reception.to, Span::ZERO)
    }
}

impl Medium {
    /// A radio's frame may leave.
    pub(super) fn begin(&mut self, now: Time, radio: RadioId, mac: &mut impl Mac) {
        let ac = self.contention.take(radio, now);
        if self.contention.take_given_up(radio, ac) {
            // The frame that was given up on may have gone with its association.
            if let Some(has_frame) = mac.give_up(now, &mut self.signals, radio, ac) {
                self.contention.finish(radio, ac, now, false, has_frame);
                return;
            }
        }
        let txop = self.radios[radio.index()].txop[ac.index()];
        let txop_end = if txop.is_zero() { NEVER } else { now + txop };
        let Some(i) = self.open(now, radio, ac, txop_end, mac) else {
            // Packets that wait may not be sent now.
            self.contention.finish(radio, ac, now, false, false);
            return;
        };
        let x = &self.exchanges[i];
        let timing = &self.radios[radio.index()].timing;
        let mode = x.first().mode();
        let protection = timing.protection(mode);
        // Nobody would answer an RTS to a group, and its frames are sent at a rate that all can
        // hear (10.3.2.9). [IEEE80211-10.3.2.9-4]
        let (first, length) = if x.request.is_group() || x.receptions.len() > 1 {
            (Stage::Data, x.data)
        } else if x.request.rts || protection == Protection::RtsCts {
            (Stage::Rts, timing.rts(mode))
        } else if protection == Protection::CtsToSelf {
            (Stage::CtsToSelf, timing.cts_to_self(mode))
        } else {
            (Stage::Data, x.data)
        };
        self.put_on_air(now, i, first, length);
    }

    /// Opens an exchange with the next PPDU of a category; returns its place, or `None` if there is
    /// no PPDU.
    fn open(&mut self, now: Time, radio: RadioId, ac: Ac, txop_end: Time, mac: &mut impl Mac) -> Option<usize> {
        self.occupancy.count_to(now, self.under_way);
        let i = self.under_way;
        if i == self.exchanges.len() {
            self.exchanges.push(Exchange::blank());
        }
        // It is filled in where it stays.
        let x = &mut self.exchanges[i];
        x.request.renew(radio, ac);
        if !mac.next(now, &mut self.signals, &mut x.request) {
            return None;
        }
        self.under_way += 1;
        (x.stage, x.at, x.start, x.ppdu_start, x.data_start) = (Stage::BeforeData, now, now, now, now);
        (x.is_data_sent, x.txop_end) = (false, txop_end);
        let timing = &self.radios[radio.index()].timing;
        let Exchange { request, receptions, .. } = x;
        receptions.head.renew(radio, &request.users.head, timing, &self.signals);
        x.data = receptions.head.data;
        receptions.tail.clear();
        for user in &request.users.tail {
            let mut reception = Reception::blank();
            reception.renew(radio, user, timing, &self.signals);
            x.data = x.data.max(reception.data);
            receptions.push(reception);
        }
        (x.partner, x.answer) = answer_of(request, receptions, timing.sifs);
        Some(i)
    }

    /// Takes an exchange out of those under way.
    #[inline]
    fn close(&mut self, i: usize) {
        self.under_way -= 1;
        // Mostly it is the only one, and nothing moves.
        for j in i..self.under_way {
            self.exchanges.swap(j, j + 1);
        }
    }

    fn put_on_air(&mut self, now: Time, i: usize, stage: Stage, length: Span) {
        let is_answer = stage.is_answer();
        let x = &mut self.exchanges[i];
        x.stage = stage;
        let (from, transmitter) = (x.request.from, x.transmitter());
        let end = now + length;
        let has_capture = self.capture_effect > 0.0;
        let contention = &self.contention;
        let user = &mut x.receptions.head;
        user.begin(contention.misses(user.listener(is_answer, from), transmitter, is_answer, has_capture));
        for user in &mut x.receptions.tail {
            user.begin(contention.misses(user.listener(is_answer, from), transmitter, is_answer, has_capture));
        }
        x.at = end;
        x.ppdu_start = now;
        if self.under_way > 1 {
            self.meet(now, i, transmitter, end);
        }
        if stage == Stage::Data {
            let x = &mut self.exchanges[i];
            x.is_data_sent = true;
            x.data_start = now;
            let one_by_one = |user: &Reception| self.radios[user.to.index()].hears_one_by_one;
            if one_by_one(&x.receptions.head) || x.receptions.tail.iter().any(one_by_one) {
                self.exchanges[i].at = self.next_end(i);
            }
        }
        self.contention.on_begin(transmitter, now);
    }

    /// Decides which PPDUs survive when another begins.
    #[inline(never)]
    fn meet(&mut self, now: Time, i: usize, transmitter: RadioId, end: Time) {
        if self.capture_effect > 0.0 {
            return self.meet_with_capture(now, i, transmitter, end);
        }
        for (j, other) in self.exchanges[..self.under_way].iter_mut().enumerate() {
            if j == i || !other.is_on_air() {
                continue;
            }
            let (is_answer, from) = (other.stage.is_answer(), other.request.from);
            for user in other.receptions.iter_mut() {
                user.meet(user.listener(is_answer, from), transmitter, now, end, &self.contention);
            }
        }
    }

    /// Decides which PPDUs survive when another begins, where one of two may be captured, and which
    /// receivers of the new one do not notice it.
    #[cold]
    fn meet_with_capture(&mut self, now: Time, i: usize, transmitter: RadioId, end: Time) {
        let x = &mut self.exchanges[i];
        let (is_answer, from) = (x.stage.is_answer(), x.request.from);
        let mut own = std::mem::replace(&mut x.receptions, NonEmpty::new(Reception::blank()));
        let (capture, rng) = (self.capture_effect, &mut self.capture_rng);
        // Draws two flags: the earlier PPDU is received as if alone; the later one is.
        let mut captured = || {
            let u = rng.random::<f64>();
            (u < capture / 2.0, (capture / 2.0..capture).contains(&u))
        };
        for (j, other) in self.exchanges[..self.under_way].iter_mut().enumerate() {
            if j == i || !other.is_on_air() {
                continue;
            }
            let (speaker, others_answer, others_from) =
                (other.transmitter(), other.stage.is_answer(), other.request.from);
            let preamble = self.radios[speaker.index()].timing.preamble(other.first().mode());
            let after_preamble = now >= other.ppdu_start + preamble;
            for user in own.iter_mut() {
                let receiver = user.listener(is_answer, from);
                let is_late = after_preamble && self.contention.is_heard(speaker, receiver);
                user.missed |= speaker == receiver || is_late;
            }
            for user in other.receptions.iter_mut() {
                let listener = user.listener(others_answer, others_from);
                let at_listener = self.contention.is_heard(transmitter, listener);
                let there = if at_listener { captured() } else { (true, false) };
                if listener == transmitter {
                    user.hit(now, NEVER);
                } else if !there.0 {
                    user.hit(now, end);
                }
                // Two PPDUs at the same receiver share one draw.
                for user in own.iter_mut().filter(|user| at_listener && user.listener(is_answer, from) == listener) {
                    user.missed |= self.contention.is_heard(speaker, listener) && !there.1;
                }
            }
            for user in own.iter_mut() {
                let receiver = user.listener(is_answer, from);
                let listens = |other: &Reception| other.listener(others_answer, others_from) == receiver;
                let is_shared = self.contention.is_heard(transmitter, receiver) && other.receptions.iter().any(listens);
                if !is_shared && self.contention.is_heard(speaker, receiver) {
                    user.missed |= !captured().1;
                }
            }
        }
        for user in own.iter_mut() {
            user.outcome.collided |= user.missed;
        }
        self.exchanges[i].receptions = own;
    }

    /// The stage of an exchange is over.
    pub(super) fn step(&mut self, now: Time, i: usize, mac: &mut impl Mac) {
        let x = &self.exchanges[i];
        let (from, to) = (x.request.from, x.partner);
        let timing = &self.radios[from.index()].timing;
        let (sifs, data, answer) = (timing.sifs, x.data, x.answer);
        match x.stage {
            Stage::Rts => {
                let mode = x.first().mode();
                let cts = timing.cts(mode);
                let timeout = timing.cts_timeout(mode);
                let mode = timing.rts_mode(mode);
                let data_is_late = timing.preamble(timing.response_mode(mode)) + timing.slot * 2;
                let decoded = self.control_arrives(now, i, mode, timing::RTS_BYTES);
                self.report_control(now, i, FrameKind::Rts, mode, decoded, mac);
                // [IEEE80211-10.3.2.9-1]
                let answers = decoded && !self.contention.has_nav(to, now);
                // A radio that hears only the RTS waits for the CTS, and then senses the data. If
                // no data comes, the NAV is reset when it should have begun (10.3.2.4, NAVTimeout).
                // [IEEE80211-10.3.2.4-3]
                let nav = now + sifs * 2 + cts + if answers { Span::ZERO } else { data_is_late };
                let follows = if answers { now + sifs } else { NEVER };
                if answers {
                    self.contention.engage(to, true, now);
                    self.wait(i, Stage::BeforeCts, now + sifs);
                } else {
                    self.wait(i, Stage::Overdue, now + timeout);
                }
                self.contention.on_end(from, now, nav, to, decoded, follows);
            }
            Stage::BeforeCts => {
                let cts = timing.cts(x.first().mode());
                self.put_on_air(now, i, Stage::Cts, cts);
            }
            Stage::Cts => {
                let mode = timing.response_mode(timing.rts_mode(x.first().mode()));
                let decoded = self.control_arrives(now, i, mode, timing::CTS_BYTES);
                self.report_control(now, i, FrameKind::Cts, mode, decoded, mac);
                let follows = if decoded { now + sifs } else { NEVER };
                self.contention.engage(to, false, now);
                self.contention.on_end(to, now, now + sifs + data + answer, from, decoded, follows);
                if decoded {
                    self.wait(i, Stage::BeforeData, now + sifs);
                } else {
                    self.complete(now, i, mac);
                }
            }
            Stage::CtsToSelf => {
                let mode = timing.rts_mode(x.first().mode());
                let nav = now + sifs + data + answer;
                let decoded = !x.first().is_spoilt();
                self.report_control(now, i, FrameKind::Cts, mode, decoded, mac);
                self.contention.on_end(from, now, nav, to, true, now + sifs);
                self.wait(i, Stage::BeforeData, now + sifs);
            }
            Stage::BeforeData => self.put_on_air(now, i, Stage::Data, data),
            // An MPDU has ended, and goes up by itself.
            Stage::Data if now < x.data_start + data => {
                for user in 0..x.receptions.len() {
                    if self.next_end_of(i, user) <= now {
                        let ended = usize::from(self.exchanges[i].receptions[user].judged) + 1;
                        self.data_arrives(now, i, user, ended, mac);
                    }
                }
                self.exchanges[i].at = self.next_end(i);
            }
            Stage::Data => {
                let mut arrived = if x.request.is_group() {
                    self.group_arrives(now, i, mac)
                } else {
                    self.data_arrives(now, i, 0, usize::MAX, mac)
                };
                for user in 1..self.exchanges[i].receptions.len() {
                    arrived |= self.data_arrives(now, i, user, usize::MAX, mac);
                }
                let responds = arrived && !answer.is_zero();
                if responds {
                    self.contention.engage(to, true, now);
                }
                let follows = if responds { now + sifs } else { NEVER };
                self.contention.on_end(from, now, now + answer, to, arrived, follows);
                if responds {
                    // [IEEE80211-10.3.2.3-1]
                    self.wait(i, Stage::BeforeResponse, now + sifs);
                } else if answer.is_zero() {
                    self.complete(now, i, mac);
                } else {
                    let mode = self.exchanges[i].first().mode();
                    let timeout = self.radios[from.index()].timing.ack_timeout(mode);
                    self.wait(i, Stage::Overdue, now + timeout);
                }
            }
            // [IEEE80211-10.3.2.11-1]
            Stage::BeforeResponse => {
                let response = x.first().response;
                self.put_on_air(now, i, Stage::Response, response);
            }
            Stage::Response => {
                let mode = x.first().response_mode;
                let user = x.request.users.first();
                let is_ack = user.payload == Payload::Mpdu;
                let bytes = if is_ack { timing::ACK_BYTES } else { timing::block_ack_bytes(user.mpdus.len()) };
                let decoded = self.control_arrives(now, i, mode, bytes);
                let kind = if is_ack { FrameKind::Ack } else { FrameKind::BlockAck };
                self.report_control(now, i, kind, mode, decoded, mac);
                self.contention.engage(to, false, now);
                self.contention.on_end(to, now, now, from, decoded, NEVER);
                self.exchanges[i].receptions.head.outcome.answered = decoded;
                self.complete(now, i, mac);
            }
            Stage::Overdue => self.complete(now, i, mac),
        }
    }

    fn wait(&mut self, i: usize, stage: Stage, until: Time) {
        self.exchanges[i].stage = stage;
        self.exchanges[i].at = until;
    }

    /// True if the control frame that has just ended arrived at its receiver.
    fn control_arrives(&mut self, now: Time, i: usize, mode: Mode, bytes: u32) -> bool {
        let user = self.exchanges[i].first();
        if user.is_spoilt() {
            return false;
        }
        let Some((signal, chance)) = user.direction.map(|direction| self.signals.on(direction)) else { return false };
        let quality = signal.link(now);
        if quality.is_perfect() {
            return true;
        }
        draw(signal.preamble_success(quality, mode) * signal.mpdu_success(quality, mode, bytes), chance)
    }

    /// Decides which MPDUs reached the receiver of a user, after `ended` MPDUs of a PPDU with data,
    /// or a Block Ack request, have ended. Returns true if the receiver has something to answer.
    fn data_arrives(&mut self, now: Time, i: usize, user: usize, ended: usize, mac: &mut impl Mac) -> bool {
        let x = &mut self.exchanges[i];
        let (sent, r) = (&x.request.users[user], &mut x.receptions[user]);
        self.fates.clear();
        let is_end = ended >= sent.mpdus.len();
        let Some((signal, chance)) = r.direction.map(|direction| self.signals.on(direction)) else {
            // A receiver without a signal senses the frame, and decodes nothing.
            r.caught = Some(false);
            return false;
        };
        let (mode, quality) = (r.mode(), signal.link(now));
        r.outcome.snr_db = snr_of(quality);
        let preamble = self.radios[x.request.from.index()].timing.preamble(mode);
        // The receiver must catch the preamble undisturbed.
        let caught = *r.caught.get_or_insert_with(|| {
            !r.missed
                && r.hit.0 >= x.ppdu_start + preamble
                && (quality.is_perfect() || draw(signal.preamble_success(quality, mode), chance))
        });
        let all = if sent.is_bar() { 1 } else { sent.mpdus.len() };
        if !caught && !is_end {
            return false;
        }
        let ended = usize::from(r.judged)..ended.min(all);
        let is_first = r.outcome.received + r.outcome.header_ok == 0;
        let mut answers = false;
        if !caught {
            self.fates.resize(all, Fate::Lost);
        } else if sent.is_bar() {
            let success = signal.mpdu_success(quality, mode, timing::BAR_BYTES);
            answers = r.hit.0 >= r.hit.1 && (quality.is_perfect() || draw(success, chance));
            self.fates.push(if answers { Fate::Whole } else { Fate::Lost });
        } else {
            // Earlier MPDUs have gone up.
            r.judged = count16(ended.end);
            if quality.is_perfect() && r.hit.0 >= r.hit.1 {
                self.fates.resize(ended.len(), Fate::Whole);
                r.outcome.received += count16(ended.len());
            } else {
                let hit = (r.hit, x.ppdu_start + preamble, r.data.saturating_sub(preamble));
                let mut judge = Judge { signal, quality, mode, user: sent, hit, chance };
                let (received, header_ok) = judge.fates(ended.clone(), &mut self.fates);
                r.outcome.received += received;
                r.outcome.header_ok += header_ok;
            }
            answers = r.outcome.received > 0;
        }
        r.outcome.answered = answers && x.answer.is_zero();
        let arrival = Arrival {
            at: r.to,
            user,
            mode,
            caught,
            first: if caught { ended.start } else { 0 },
            fates: &self.fates,
            is_first,
            snr_db: r.outcome.snr_db,
            response: if x.answer.is_zero() { Span::ZERO } else { r.response },
            chance,
        };
        mac.heard(now, &x.request, arrival);
        answers
    }

    /// Decides which radios a group-addressed frame has reached, after its end. Returns true if it
    /// reached any.
    fn group_arrives(&mut self, now: Time, i: usize, mac: &mut impl Mac) -> bool {
        let x = &mut self.exchanges[i];
        let (from, sent, r) = (x.request.from, &x.request.users.head, &mut x.receptions.head);
        if r.is_spoilt() {
            return false;
        }
        let (paths, all, chance) = self.signals.around(from);
        let mut reached = false;
        for &path in paths {
            let path = &mut all[path as usize];
            let at = if path.ends.0 == from { path.ends.1 } else { path.ends.0 };
            if !mac.listens(at, &x.request) {
                continue;
            }
            let signal = &mut path.signal;
            let quality = signal.link(now);
            self.fates.clear();
            for &bytes in &sent.mpdus {
                let success =
                    || signal.preamble_success(quality, r.mode()) * signal.mpdu_success(quality, r.mode(), bytes);
                let is_whole = quality.is_perfect() || draw(success(), chance);
                self.fates.push(if is_whole { Fate::Whole } else { Fate::Lost });
            }
            if self.fates.contains(&Fate::Whole) {
                reached = true;
                let arrival = Arrival {
                    at,
                    user: 0,
                    mode: r.mode(),
                    caught: true,
                    first: 0,
                    fates: &self.fates,
                    is_first: true,
                    snr_db: snr_of(quality),
                    response: Span::ZERO,
                    chance,
                };
                mac.heard(now, &x.request, arrival);
            }
        }
        (r.outcome.received, r.outcome.answered) = (u16::from(reached), reached);
        reached
    }

    /// End of the next MPDU of any user, where MPDUs go up one by one; else the end of the PPDU.
    #[cold]
    fn next_end(&self, i: usize) -> Time {
        let users = 0..self.exchanges[i].receptions.len();
        users.map(|user| self.next_end_of(i, user)).min().unwrap_or(NEVER)
    }

    /// End of the next MPDU of a user. The last one goes up with the end of the PPDU, padding
    /// included.
    #[cold]
    fn next_end_of(&self, i: usize, user: usize) -> Time {
        let x = &self.exchanges[i];
        let (sent, r) = (&x.request.users[user], &x.receptions[user]);
        let judged = usize::from(r.judged);
        let mpdus = &sent.mpdus;
        let one_by_one = self.radios[r.to.index()].hears_one_by_one;
        if !one_by_one || sent.is_bar() || r.caught == Some(false) || judged + 1 >= mpdus.len() {
            return x.data_start + x.data;
        }
        let before: u32 = mpdus[..judged].iter().map(|&bytes| timing::subframe_bytes(bytes)).sum();
        let offset = before + timing::DELIMITER_BYTES + mpdus[judged];
        let preamble = self.radios[x.request.from.index()].timing.preamble(r.mode());
        x.data_start + preamble + r.data.saturating_sub(preamble).mul_ratio(offset.into(), sent.psdu_bytes.into())
    }

    /// The originator knows the outcome of its exchange.
    fn complete(&mut self, now: Time, i: usize, mac: &mut impl Mac) {
        self.occupancy.count_to(now, self.under_way);
        let x = &self.exchanges[i];
        let (is_data_sent, receptions) = (x.is_data_sent, &x.receptions);
        let outcome = Outcome { is_data_sent, start: x.start, data_start: x.data_start, data: x.data, receptions };
        mac.done(now, &mut self.signals, &x.request, &outcome);
        let (radio, ac, txop_end) = (x.request.from, x.request.ac, x.txop_end);
        let wants_answer = !x.answer.is_zero() || !is_data_sent;
        let failed = wants_answer && !outcome.users().any(|user| user.answered);
        self.close(i);
        let goes_on = !failed && txop_end != NEVER && self.goes_on(now, radio, ac, txop_end, mac);
        if !goes_on {
            self.contention.finish(radio, ac, now, failed, mac.has_frame(radio, ac));
        }
    }

    /// The next frame of the category within the same TXOP, if it fits. True if so.
    // [IEEE80211-10.23.2.8-1]
    fn goes_on(&mut self, now: Time, radio: RadioId, ac: Ac, txop_end: Time, mac: &mut impl Mac) -> bool {
        let Some(i) = self.open(now, radio, ac, txop_end, mac) else { return false };
        let timing = &self.radios[radio.index()].timing;
        let next = &mut self.exchanges[i];
        let end = now + timing.sifs + next.data + next.answer;
        let protected = timing.protection(next.first().mode()) != Protection::None;
        if end > txop_end || protected {
            self.close(i);
            return false;
        }
        next.at = now + timing.sifs;
        self.contention.continue_txop(radio, ac);
        true
    }

    /// A control frame has ended.
    #[inline]
    fn report_control(&mut self, now: Time, i: usize, kind: FrameKind, mode: Mode, decoded: bool, mac: &mut impl Mac) {
        if !self.reports_control {
            return;
        }
        let x = &self.exchanges[i];
        let (from, to) = match kind {
            FrameKind::Rts => (x.request.from, x.partner),
            FrameKind::Cts if x.stage == Stage::CtsToSelf => (x.request.from, x.request.from),
            _ => (x.partner, x.request.from),
        };
        let timing = &self.radios[x.request.from.index()].timing;
        let left = match kind {
            FrameKind::Rts => timing.sifs * 2 + x.data + x.answer + timing.cts(x.first().mode()),
            FrameKind::Cts => timing.sifs + x.data + x.answer,
            _ => Span::ZERO,
        };
        let snr_db = x.first().outcome.snr_db;
        mac.control(now, &x.request, &Control { kind, from, to, mode, left, decoded, snr_db });
    }
}

fn snr_of(quality: Quality) -> f32 {
    quality.snr_db().unwrap_or(f32::NAN)
}
