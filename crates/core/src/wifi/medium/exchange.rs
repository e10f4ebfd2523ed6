//! Frame exchanges: from the end of a backoff to the outcome at the originator.

use std::ops::Range;

use rand::RngExt;

use super::seam::{Arrival, Control, Fate, Mac, Outcome, Payload, Plan, To};
use super::signals::Way;
use super::{Medium, NEVER};
use crate::convert::{count16, floor64};
use crate::rng::Rng;
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::phy::{Mode, Protection, Quality, Signal, timing};
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
    pub plan: Plan,
    /// Receiver. For a group-addressed frame it is the sender itself, which stands for all
    /// receivers.
    to: RadioId,
    way: Option<Way>,
    /// Mode of the PPDU with data.
    mode: Mode,
    data: Span,
    response: Span,
    /// Time from the end of the data to the end of the response: SIFS and the response, or zero
    /// without acknowledgements.
    answer: Span,
    response_mode: Mode,
    pub start: Time,
    /// Start of the PPDU on the air, or of the last one.
    ppdu_start: Time,
    /// Start of the PPDU with data.
    data_start: Time,
    /// Start and end of the time in which the receiver got other transmissions, too.
    hit: (Time, Time),
    /// The receiver did not notice the beginning of the PPDU on the air.
    missed: bool,
    collided: bool,
    is_data_sent: bool,
    /// End of the TXOP; [`NEVER`]: it is one exchange only.
    txop_end: Time,
    received: u16,
    legible: u16,
    /// MPDUs whose fate is known and which have gone up. Above zero before the PPDU's end only
    /// where MPDUs go up one by one.
    judged: u16,
    /// The receiver has caught the preamble of the PPDU with data; known when an MPDU has ended.
    caught: Option<bool>,
    snr_db: f32,
}

impl Exchange {
    fn is_on_air(&self) -> bool {
        matches!(self.stage, Stage::Rts | Stage::Cts | Stage::CtsToSelf | Stage::Data | Stage::Response)
    }
    /// The radio that sends the PPDU on the air.
    fn transmitter(&self) -> RadioId {
        match self.stage {
            Stage::Cts | Stage::Response => self.to,
            _ => self.plan.from,
        }
    }
    /// The radio that receives the PPDU on the air.
    fn receiver(&self) -> RadioId {
        match self.stage {
            Stage::Cts | Stage::Response => self.plan.from,
            _ => self.to,
        }
    }
    fn hit(&mut self, from: Time, to: Time) {
        self.hit = (self.hit.0.min(from), self.hit.1.max(to));
        self.collided = true;
    }
    /// The whole PPDU on the air is lost if anything hits it: control frames are one piece.
    fn is_spoilt(&self) -> bool {
        self.missed || self.hit.0 < self.hit.1
    }
}

/// Value of `Exchange::hit` as long as there is no other transmission.
const UNHURT: (Time, Time) = (NEVER, Time::ZERO);

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
        let Some(i) = self.plan(now, radio, ac, txop_end, mac) else {
            // Packets that wait may not be sent now.
            self.contention.finish(radio, ac, now, false, false);
            return;
        };
        let x = &self.exchanges[i];
        let timing = &self.radios[radio.index()].timing;
        let protection = timing.protection(x.mode);
        // Nobody would answer an RTS to a group, and its frames are sent at a rate that all can
        // hear (10.3.2.9). [IEEE80211-10.3.2.9-4]
        let (first, length) = if x.plan.is_group() {
            (Stage::Data, x.data)
        } else if x.plan.rts || protection == Protection::RtsCts {
            (Stage::Rts, timing.rts(x.mode))
        } else if protection == Protection::CtsToSelf {
            (Stage::CtsToSelf, timing.cts_to_self(x.mode))
        } else {
            (Stage::Data, x.data)
        };
        self.put_on_air(now, i, first, length);
    }

    /// Plans an exchange with the next PPDU of a category; returns its place, or `None` if there is
    /// no PPDU.
    fn plan(&mut self, now: Time, radio: RadioId, ac: Ac, txop_end: Time, mac: &mut impl Mac) -> Option<usize> {
        let mut mpdus = self.spare.pop().unwrap_or_default();
        mpdus.clear();
        self.occupancy.count_to(now, self.exchanges.len());
        // It is filled in where it stays.
        self.exchanges.push(Exchange {
            at: now,
            stage: Stage::BeforeData,
            to: radio,
            way: None,
            mode: Mode::DSSS[0],
            data: Span::ZERO,
            response: Span::ZERO,
            answer: Span::ZERO,
            response_mode: Mode::DSSS[0],
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
            plan: Plan::new(radio, ac, mpdus),
        });
        let i = self.exchanges.len() - 1;
        let x = &mut self.exchanges[i];
        if !mac.next(now, &mut self.signals, &mut x.plan) {
            self.spare.extend(self.exchanges.pop().map(|x| x.plan.mpdus));
            return None;
        }
        let timing = &self.radios[radio.index()].timing;
        let plan = &x.plan;
        x.mode = plan.mode;
        if plan.is_bar() {
            x.data = timing.bar(plan.mode);
            x.mode = timing.response_mode(plan.mode);
        } else {
            x.data = timing.ppdu(plan.mode, plan.psdu_bytes);
        }
        // [IEEE80211-10.25.6.3-1]
        x.response = match plan.payload {
            Payload::Mpdu => timing.ack(x.mode),
            Payload::Ampdu | Payload::BlockAckRequest => timing.block_ack_of(x.mode, plan.mpdus.len()),
        };
        x.response_mode = timing.response_mode(x.mode);
        // [IEEE80211-10.3.6-1]
        if plan.is_answered() {
            x.answer = timing.sifs + x.response;
        }
        if let To::Radio(to) = plan.to {
            (x.to, x.way) = (to, self.signals.way(radio, to));
        }
        Some(i)
    }

    fn put_on_air(&mut self, now: Time, i: usize, stage: Stage, length: Span) {
        let x = &self.exchanges[i];
        let (transmitter, receiver) = match stage {
            Stage::Cts | Stage::Response => (x.to, x.plan.from),
            _ => (x.plan.from, x.to),
        };
        let is_response = matches!(stage, Stage::Cts | Stage::Response);
        // A radio that waits for a response of its own does not listen for anything else. (A
        // group's receiver stands for all: it is the access point itself, engaged by sending.)
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
            if self.radios[receiver.index()].hears_one_by_one {
                self.exchanges[i].at = self.next_end(i);
            }
        }
        self.contention.on_begin(transmitter, now);
    }

    /// Decides which PPDUs survive when another begins, where one of two may be captured. Returns
    /// true if the receiver of the new PPDU does not notice it.
    #[cold]
    fn meet(&mut self, now: Time, i: usize, (transmitter, receiver): (RadioId, RadioId), end: Time) -> bool {
        let (capture, rng) = (self.capture_effect, &mut self.capture_rng);
        // Draws two flags: the earlier PPDU is received as if alone; the later one is.
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
            // Two PPDUs at the same receiver share one draw.
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
    pub(super) fn step(&mut self, now: Time, i: usize, mac: &mut impl Mac) {
        let x = &self.exchanges[i];
        let (from, to) = (x.plan.from, x.to);
        let timing = &self.radios[from.index()].timing;
        let (sifs, data, response, answer) = (timing.sifs, x.data, x.response, x.answer);
        match x.stage {
            Stage::Rts => {
                let cts = timing.cts(x.mode);
                let timeout = timing.cts_timeout(x.mode);
                let mode = timing.rts_mode(x.mode);
                let data_is_late = timing.preamble(timing.response_mode(mode)) + timing.slot * 2;
                let decoded = self.control_arrives(now, i, mode, timing::RTS_BYTES);
                self.tell_control(now, i, FrameKind::Rts, mode, decoded, mac);
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
                let cts = timing.cts(x.mode);
                self.put_on_air(now, i, Stage::Cts, cts);
            }
            Stage::Cts => {
                let mode = timing.response_mode(timing.rts_mode(x.mode));
                let decoded = self.control_arrives(now, i, mode, timing::CTS_BYTES);
                self.tell_control(now, i, FrameKind::Cts, mode, decoded, mac);
                let follows = if decoded { now + sifs } else { NEVER };
                self.contention.engage(to, false, now);
                self.contention.on_end(to, now, now + sifs + data + answer, from, decoded, follows);
                if decoded {
                    self.wait(i, Stage::BeforeData, now + sifs);
                } else {
                    self.complete(now, i, false, mac);
                }
            }
            Stage::CtsToSelf => {
                let mode = timing.rts_mode(x.mode);
                let nav = now + sifs + data + answer;
                self.tell_control(now, i, FrameKind::Cts, mode, !self.exchanges[i].is_spoilt(), mac);
                self.contention.on_end(from, now, nav, to, true, now + sifs);
                self.wait(i, Stage::BeforeData, now + sifs);
            }
            Stage::BeforeData => self.put_on_air(now, i, Stage::Data, data),
            // An MPDU has ended, and goes up by itself.
            Stage::Data if now < x.data_start + data => {
                let ended = usize::from(x.judged) + 1;
                self.data_arrives(now, i, ended, mac);
                self.exchanges[i].at = self.next_end(i);
            }
            Stage::Data => {
                let answered = if x.plan.is_group() {
                    self.group_arrives(now, i, mac)
                } else {
                    self.data_arrives(now, i, usize::MAX, mac)
                };
                let responds = answered && !answer.is_zero();
                if responds {
                    self.contention.engage(to, true, now);
                }
                let follows = if responds { now + sifs } else { NEVER };
                self.contention.on_end(from, now, now + answer, to, answered, follows);
                if responds {
                    // [IEEE80211-10.3.2.3-1]
                    self.wait(i, Stage::BeforeResponse, now + sifs);
                } else if answer.is_zero() {
                    self.complete(now, i, answered, mac);
                } else {
                    let timeout = self.radios[from.index()].timing.ack_timeout(self.exchanges[i].mode);
                    self.wait(i, Stage::Overdue, now + timeout);
                }
            }
            // [IEEE80211-10.3.2.11-1]
            Stage::BeforeResponse => self.put_on_air(now, i, Stage::Response, response),
            Stage::Response => {
                let mode = x.response_mode;
                let is_ack = x.plan.payload == Payload::Mpdu;
                let bytes = if is_ack { timing::ACK_BYTES } else { timing::block_ack_bytes(x.plan.mpdus.len()) };
                let decoded = self.control_arrives(now, i, mode, bytes);
                let kind = if is_ack { FrameKind::Ack } else { FrameKind::BlockAck };
                self.tell_control(now, i, kind, mode, decoded, mac);
                self.contention.engage(to, false, now);
                self.contention.on_end(to, now, now, from, decoded, NEVER);
                self.complete(now, i, decoded, mac);
            }
            Stage::Overdue => self.complete(now, i, false, mac),
        }
    }

    fn wait(&mut self, i: usize, stage: Stage, until: Time) {
        self.exchanges[i].stage = stage;
        self.exchanges[i].at = until;
    }

    /// True if the control frame that has just ended arrived at its receiver.
    fn control_arrives(&mut self, now: Time, i: usize, mode: Mode, bytes: u32) -> bool {
        let x = &self.exchanges[i];
        if x.is_spoilt() {
            return false;
        }
        let Some((signal, chance)) = x.way.map(|way| self.signals.on(way)) else { return false };
        let quality = signal.link(now);
        if quality.is_perfect() {
            return true;
        }
        draw(signal.preamble_success(quality, mode) * signal.mpdu_success(quality, mode, bytes), chance)
    }

    /// Decides which MPDUs reached the receiver, after `ended` MPDUs of a PPDU with data, or a
    /// Block Ack request, have ended. Returns true if the receiver has something to answer.
    fn data_arrives(&mut self, now: Time, i: usize, ended: usize, mac: &mut impl Mac) -> bool {
        let x = &mut self.exchanges[i];
        let plan = &x.plan;
        self.fates.clear();
        let is_end = ended >= plan.mpdus.len();
        let Some((signal, chance)) = x.way.map(|way| self.signals.on(way)) else {
            // A receiver without a signal senses the frame, and decodes nothing.
            x.caught = Some(false);
            return false;
        };
        let quality = signal.link(now);
        x.snr_db = snr_of(quality);
        let preamble = self.radios[plan.from.index()].timing.preamble(x.mode);
        // The receiver must catch the preamble undisturbed.
        let caught = *x.caught.get_or_insert_with(|| {
            !x.missed
                && x.hit.0 >= x.ppdu_start + preamble
                && (quality.is_perfect() || draw(signal.preamble_success(quality, x.mode), chance))
        });
        let whole_ppdu = if plan.is_bar() { 1 } else { plan.mpdus.len() };
        if !caught && !is_end {
            return false;
        }
        let ended = usize::from(x.judged)..ended.min(whole_ppdu);
        let is_first = x.received + x.legible == 0;
        let mut answers = false;
        if !caught {
            self.fates.resize(whole_ppdu, Fate::Lost);
        } else if plan.is_bar() {
            let success = signal.mpdu_success(quality, x.mode, timing::BAR_BYTES);
            answers = x.hit.0 >= x.hit.1 && (quality.is_perfect() || draw(success, chance));
            self.fates.push(if answers { Fate::Whole } else { Fate::Lost });
        } else {
            // Earlier MPDUs have gone up.
            x.judged = count16(ended.end);
            if quality.is_perfect() && x.hit.0 >= x.hit.1 {
                self.fates.resize(ended.len(), Fate::Whole);
                x.received += count16(ended.len());
            } else {
                let hit = (x.hit, x.ppdu_start + preamble, x.data.saturating_sub(preamble));
                let mut judge = Judge { signal, quality, mode: x.mode, plan, hit, chance };
                let (received, legible) = judge.fates(ended.clone(), &mut self.fates);
                x.received += received;
                x.legible += legible;
            }
            answers = x.received > 0;
        }
        let arrival = Arrival {
            at: x.to,
            mode: x.mode,
            caught,
            first: if caught { ended.start } else { 0 },
            fates: &self.fates,
            is_first,
            snr_db: x.snr_db,
            response: if x.answer.is_zero() { Span::ZERO } else { x.response },
            chance,
        };
        mac.heard(now, plan, arrival);
        answers
    }

    /// Decides which radios a group-addressed frame has reached, after its end. Returns true if it
    /// reached any.
    fn group_arrives(&mut self, now: Time, i: usize, mac: &mut impl Mac) -> bool {
        let x = &mut self.exchanges[i];
        if x.is_spoilt() {
            return false;
        }
        let (paths, all, chance) = self.signals.around(x.plan.from);
        let mut reached = false;
        for &path in paths {
            let path = &mut all[path as usize];
            let at = if path.ends.0 == x.plan.from { path.ends.1 } else { path.ends.0 };
            if !mac.listens(at, &x.plan) {
                continue;
            }
            let signal = &mut path.signal;
            let quality = signal.link(now);
            self.fates.clear();
            for &bytes in &x.plan.mpdus {
                let success = || signal.preamble_success(quality, x.mode) * signal.mpdu_success(quality, x.mode, bytes);
                let is_whole = quality.is_perfect() || draw(success(), chance);
                self.fates.push(if is_whole { Fate::Whole } else { Fate::Lost });
            }
            if self.fates.contains(&Fate::Whole) {
                reached = true;
                let arrival = Arrival {
                    at,
                    mode: x.mode,
                    caught: true,
                    first: 0,
                    fates: &self.fates,
                    is_first: true,
                    snr_db: snr_of(quality),
                    response: Span::ZERO,
                    chance,
                };
                mac.heard(now, &x.plan, arrival);
            }
        }
        x.received = u16::from(reached);
        reached
    }

    /// End of the next MPDU, where MPDUs go up one by one; else the end of the PPDU.
    #[cold]
    fn next_end(&self, i: usize) -> Time {
        let x = &self.exchanges[i];
        let end = x.data_start + x.data;
        let judged = usize::from(x.judged);
        let mpdus = &x.plan.mpdus;
        if x.plan.is_bar() || x.caught == Some(false) || judged + 1 >= mpdus.len() {
            return end;
        }
        let before: u32 = mpdus[..judged].iter().map(|&bytes| timing::subframe_bytes(bytes)).sum();
        let offset = before + timing::DELIMITER_BYTES + mpdus[judged];
        let preamble = self.radios[x.plan.from.index()].timing.preamble(x.mode);
        x.data_start + preamble + x.data.saturating_sub(preamble).mul_ratio(offset.into(), x.plan.psdu_bytes.into())
    }

    /// The originator knows the outcome of its exchange. `answered`: the answer came; for frames
    /// without acknowledgement, the data arrived.
    fn complete(&mut self, now: Time, i: usize, answered: bool, mac: &mut impl Mac) {
        self.occupancy.count_to(now, self.exchanges.len());
        let x = &self.exchanges[i];
        let outcome = Outcome {
            answered,
            is_data_sent: x.is_data_sent,
            collided: x.collided,
            start: x.start,
            data_start: x.data_start,
            data: x.data,
            mode: x.mode,
            received: x.received,
            legible: x.legible,
            snr_db: x.snr_db,
        };
        mac.done(now, &mut self.signals, &x.plan, &outcome);
        let (radio, ac, txop_end) = (x.plan.from, x.plan.ac, x.txop_end);
        let failed = !answered && (x.plan.is_answered() || !x.is_data_sent);
        self.spare.push(std::mem::take(&mut self.exchanges[i].plan.mpdus));
        // Mostly it is the only one, and nothing moves.
        if i + 1 == self.exchanges.len() {
            self.exchanges.truncate(i);
        } else {
            self.exchanges.remove(i);
        }
        let goes_on = !failed && txop_end != NEVER && self.goes_on(now, radio, ac, txop_end, mac);
        if !goes_on {
            self.contention.finish(radio, ac, now, failed, mac.has_frame(radio, ac));
        }
    }

    /// The next frame of the category within the same TXOP, if it fits. True if so.
    // [IEEE80211-10.23.2.8-1]
    fn goes_on(&mut self, now: Time, radio: RadioId, ac: Ac, txop_end: Time, mac: &mut impl Mac) -> bool {
        let Some(i) = self.plan(now, radio, ac, txop_end, mac) else { return false };
        let timing = &self.radios[radio.index()].timing;
        let next = &mut self.exchanges[i];
        let end = now + timing.sifs + next.data + next.answer;
        let protected = timing.protection(next.mode) != Protection::None;
        if end > txop_end || protected {
            self.spare.extend(self.exchanges.pop().map(|x| x.plan.mpdus));
            return false;
        }
        next.at = now + timing.sifs;
        self.contention.go_on(radio, ac);
        true
    }

    /// A control frame has ended.
    #[inline]
    fn tell_control(&mut self, now: Time, i: usize, kind: FrameKind, mode: Mode, decoded: bool, mac: &mut impl Mac) {
        if !self.tells_control {
            return;
        }
        let x = &self.exchanges[i];
        let (from, to) = match kind {
            FrameKind::Rts => (x.plan.from, x.to),
            FrameKind::Cts if x.stage == Stage::CtsToSelf => (x.plan.from, x.plan.from),
            _ => (x.to, x.plan.from),
        };
        let timing = &self.radios[x.plan.from.index()].timing;
        let left = match kind {
            FrameKind::Rts => timing.sifs * 2 + x.data + x.answer + timing.cts(x.mode),
            FrameKind::Cts => timing.sifs + x.data + x.answer,
            _ => Span::ZERO,
        };
        mac.control(now, &x.plan, &Control { kind, from, to, mode, left, decoded, snr_db: x.snr_db });
    }
}

/// Decides on the MPDUs of a PPDU after the receiver has caught its preamble.
struct Judge<'a> {
    signal: &'a Signal,
    quality: Quality,
    mode: Mode,
    plan: &'a Plan,
    /// Start and end of the hit; start of the PSDU, and its duration.
    hit: ((Time, Time), Time, Span),
    chance: &'a mut Rng,
}

impl Judge<'_> {
    /// Puts the fates of the MPDUs `ended` into `fates`. Returns the numbers of whole and of
    /// legible ones.
    fn fates(&mut self, ended: Range<usize>, fates: &mut Vec<Fate>) -> (u16, u16) {
        let (signal, quality, mode, plan) = (self.signal, self.quality, self.mode, self.plan);
        let (hit, psdu_start, psdu) = self.hit;
        let is_ampdu = plan.payload == Payload::Ampdu;
        let header_bytes = plan.header_bytes + if is_ampdu { timing::DELIMITER_BYTES } else { 0 };
        // The last size seen, with the success probability of the MPDU, and that of its header if
        // the MPDU is corrupt.
        let mut known = (0u32, 1.0, 1.0);
        let (mut received, mut legible) = (0, 0);
        let mut offset: u32 = plan.mpdus[..ended.start].iter().map(|&bytes| timing::subframe_bytes(bytes)).sum();
        for &bytes in &plan.mpdus[ended] {
            if bytes != known.0 {
                let whole = signal.mpdu_success(quality, mode, bytes);
                known = (bytes, whole, signal.legibility(quality, mode, header_bytes, bytes));
            }
            let (mut whole, mut header) = (true, true);
            if hit.0 < hit.1 {
                // Start and end of the MPDU within the PPDU, in time.
                let span = psdu.as_ns() as f64 / f64::from(plan.psdu_bytes);
                let at = |o: u32| psdu_start + Span::from_ns(floor64(f64::from(o) * span));
                let clear = |from: Time, to: Time| to <= hit.0 || from >= hit.1;
                whole = clear(at(offset), at(offset + bytes));
                header = clear(at(offset), at(offset + header_bytes));
                offset += if is_ampdu { timing::subframe_bytes(bytes) } else { bytes };
            }
            let (_, whole_chance, legibility) = known;
            let mut fate = Fate::Lost;
            if whole && draw(whole_chance, self.chance) {
                fate = Fate::Whole;
                received += 1;
            } else if header {
                // The errors are outside the header. If another transmission made them, the header
                // has a success probability of its own.
                let chance = if whole { legibility } else { signal.header_success(quality, mode, header_bytes) };
                if draw(chance, self.chance) {
                    fate = Fate::Legible;
                    legible += 1;
                }
            }
            fates.push(fate);
        }
        (received, legible)
    }
}

fn snr_of(quality: Quality) -> f32 {
    quality.snr_db().unwrap_or(f32::NAN)
}

#[inline]
pub(in crate::wifi) fn draw(chance: f64, rng: &mut Rng) -> bool {
    chance >= 1.0 || (chance > 0.0 && rng.random::<f64>() < chance)
}
