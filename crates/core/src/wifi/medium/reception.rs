//! A user's side of an exchange: how its part of a PPDU is received, and which MPDUs arrive.

use std::ops::Range;

use rand::RngExt;

use super::NEVER;
use super::contention::Contention;
use super::seam::{Fate, Payload, To, TxUser, UserOutcome};
use super::signals::{Direction, Signals};
use crate::convert::floor64;
use crate::rng::Rng;
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::phy::{Mode, Quality, Signal, Timing, timing};

/// One user's side of an exchange.
#[derive(Debug)]
pub(super) struct Reception {
    /// Receiver. For a group-addressed frame it is the sender itself, which stands for all
    /// receivers.
    pub to: RadioId,
    pub direction: Option<Direction>,
    /// Length of its part, without padding up to the longest one.
    pub data: Span,
    pub response: Span,
    pub response_mode: Mode,
    /// Start and end of the time in which the receiver got other transmissions, too.
    pub hit: (Time, Time),
    /// The receiver did not notice the beginning of the PPDU on the air.
    pub missed: bool,
    /// MPDUs whose fate is known and which have gone up. Above zero before the PPDU's end only
    /// where MPDUs go up one by one.
    pub judged: u16,
    /// The receiver has caught the preamble of the PPDU with data; known when an MPDU has ended.
    pub caught: Option<bool>,
    /// Its outcome so far. Its mode is that of the user's part of the PPDU with data.
    pub outcome: UserOutcome,
}

/// Value of `Reception::hit` as long as there is no other transmission.
const UNHURT: (Time, Time) = (NEVER, Time::ZERO);

impl Reception {
    #[cold]
    pub(super) fn blank() -> Reception {
        Reception {
            to: RadioId(0),
            direction: None,
            data: Span::ZERO,
            response: Span::ZERO,
            response_mode: Mode::DSSS[0],
            hit: UNHURT,
            missed: false,
            judged: 0,
            caught: None,
            outcome: UserOutcome::none_yet(Mode::DSSS[0]),
        }
    }
    /// Makes it the reception, not begun yet, of a user's part of a PPDU.
    #[inline(always)]
    pub(super) fn renew(&mut self, from: RadioId, user: &TxUser, timing: &Timing, signals: &Signals) {
        (self.to, self.direction) = match user.to {
            To::Radio(to) => (to, signals.direction(from, to)),
            To::Group => (from, None),
        };
        let mode = if user.is_bar() { timing.response_mode(user.mode) } else { user.mode };
        self.data = if user.is_bar() { timing.bar(user.mode) } else { timing.ppdu(mode, user.psdu_bytes) };
        // [IEEE80211-10.25.6.3-1]
        self.response = match user.payload {
            Payload::Mpdu => timing.ack(mode),
            Payload::Ampdu | Payload::BlockAckRequest => timing.block_ack_of(mode, user.mpdus.len()),
        };
        self.response_mode = timing.response_mode(mode);
        (self.caught, self.judged) = (None, 0);
        self.outcome = UserOutcome::none_yet(mode);
    }
    /// Mode of its part of the PPDU with data.
    #[inline]
    pub(super) fn mode(&self) -> Mode {
        self.outcome.mode
    }
    /// A PPDU for it begins; it has `missed` the beginning.
    #[inline(always)]
    pub(super) fn begin(&mut self, missed: bool) {
        self.missed = missed;
        self.outcome.collided |= missed;
        self.hit = UNHURT;
    }
    /// Another PPDU begins and lasts until `end`, and nothing of it is captured.
    #[inline(always)]
    pub(super) fn meet(
        &mut self,
        listener: RadioId,
        transmitter: RadioId,
        now: Time,
        end: Time,
        contention: &Contention,
    ) {
        if listener == transmitter {
            self.hit(now, NEVER);
        } else if contention.is_heard(transmitter, listener) {
            self.hit(now, end);
        }
    }
    /// The radio that receives the PPDU on the air: the originator `from` if it is an answer.
    #[inline]
    pub(super) fn listener(&self, is_answer: bool, from: RadioId) -> RadioId {
        if is_answer { from } else { self.to }
    }
    #[inline]
    pub(super) fn hit(&mut self, from: Time, to: Time) {
        self.hit = (self.hit.0.min(from), self.hit.1.max(to));
        self.outcome.collided = true;
    }
    /// The whole PPDU on the air is lost if anything hits it: control frames are one piece.
    pub(super) fn is_spoilt(&self) -> bool {
        self.missed || self.hit.0 < self.hit.1
    }
}

/// Decides on the MPDUs of a user after the receiver has caught the preamble.
pub(super) struct Judge<'a> {
    pub signal: &'a Signal,
    pub quality: Quality,
    pub mode: Mode,
    pub user: &'a TxUser,
    /// Start and end of the hit; start of the PSDU, and its duration.
    pub hit: ((Time, Time), Time, Span),
    pub chance: &'a mut Rng,
}

impl Judge<'_> {
    /// Puts the fates of the MPDUs `ended` into `fates`. Returns the numbers of whole ones
    /// and of those with an intact header.
    pub(super) fn fates(&mut self, ended: Range<usize>, fates: &mut Vec<Fate>) -> (u16, u16) {
        let (signal, quality, mode, user) = (self.signal, self.quality, self.mode, self.user);
        let (hit, psdu_start, psdu) = self.hit;
        let is_ampdu = user.payload == Payload::Ampdu;
        let header_bytes = user.header_bytes + if is_ampdu { timing::DELIMITER_BYTES } else { 0 };
        // The last size seen, with the success probability of the MPDU, and that of its header if
        // the MPDU is corrupt.
        let mut known = (0u32, 1.0, 1.0);
        let (mut received, mut header_ok) = (0, 0);
        let mut offset: u32 = user.mpdus[..ended.start].iter().map(|&bytes| timing::subframe_bytes(bytes)).sum();
        for &bytes in &user.mpdus[ended] {
            if bytes != known.0 {
                let whole = signal.mpdu_success(quality, mode, bytes);
                known = (bytes, whole, signal.header_success_if_corrupt(quality, mode, header_bytes, bytes));
            }
            let (mut whole, mut header) = (true, true);
            if hit.0 < hit.1 {
                // Start and end of the MPDU within the PPDU, in time.
                let span = psdu.as_ns() as f64 / f64::from(user.psdu_bytes);
                let at = |o: u32| psdu_start + Span::from_ns(floor64(f64::from(o) * span));
                let clear = |from: Time, to: Time| to <= hit.0 || from >= hit.1;
                whole = clear(at(offset), at(offset + bytes));
                header = clear(at(offset), at(offset + header_bytes));
                offset += if is_ampdu { timing::subframe_bytes(bytes) } else { bytes };
            }
            let (_, whole_chance, header_chance) = known;
            let mut fate = Fate::Lost;
            if whole && draw(whole_chance, self.chance) {
                fate = Fate::Whole;
                received += 1;
            } else if header {
                // The errors are outside the header. If another transmission made them, the header
                // has a success probability of its own.
                let chance = if whole { header_chance } else { signal.header_success(quality, mode, header_bytes) };
                if draw(chance, self.chance) {
                    fate = Fate::HeaderOk;
                    header_ok += 1;
                }
            }
            fates.push(fate);
        }
        (received, header_ok)
    }
}

#[inline]
pub(in crate::wifi) fn draw(chance: f64, rng: &mut Rng) -> bool {
    chance >= 1.0 || (chance > 0.0 && rng.random::<f64>() < chance)
}
