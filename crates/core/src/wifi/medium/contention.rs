//! EDCA and DCF: the choice of the radio that transmits next (IEEE 802.11-2020 10.3.4 and 10.23.2).
//!
//! Every radio has a view of the medium, so radios that do not hear each other need nothing special
//! ([`per_radio`]). In a large cell most of these views are equal, and [`one_cell`] keeps them
//! once: a test holds both to the same results. A backoff is kept as the instant at which it would
//! end if the medium stayed idle. A transmission that the radio senses turns the remaining time
//! into slots, and its end turns these into an instant again. So there is one deadline for the
//! whole medium and no event for a slot.
//!
//! A backoff is drawn when a frame comes while the medium is busy, and after every exchange,
//! whether or not another frame waits. A frame that finds the medium idle and no backoff pending
//! leaves after AIFS, or at once if that has passed.
//!
//! DCF counts a slot when it has been idle to its end; EDCA counts it at its beginning, the end of
//! AIFS included. So a slot in which another radio transmits counts, too (10.23.2.4; Tinnirello and
//! Bianchi 2010).
//!
//! EIFS replaces DIFS after a transmission that a radio could not decode: a collision, or errors in
//! a frame for it. DIFS stays after one that began while the radio was sending, of which it senses
//! the energy alone. A radio notices a missing answer when the ACK timeout is over. Under DCF it
//! then counts on, since DIFS has passed (10.3.4.3). Under EDCA AIFS begins only then (10.23.2.4).
//!
//! [`categories`] has the frames and backoffs of all radios, [`backoff`] the window of a category
//! and its count of slots, [`carrier`] the medium as a radio senses it. [`set`] has sets of radios,
//! and [`queue`] backoffs that run down in step.

mod backoff;
mod carrier;
mod categories;
mod one_cell;
mod per_radio;
mod queue;
mod set;

use std::sync::Arc;

use crate::rng::Rng;
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::phy::{EdcaParams, Timing, WavelanConfig};
use crate::wifi::trace::Ac;

use self::carrier::Carrier;
use self::categories::Categories;
use self::one_cell::OneCell;
use self::per_radio::PerRadio;

const NEVER: Time = Time::NEVER;

/// Facts about a radio that contention needs.
#[derive(Debug)]
pub(super) struct Contender {
    pub timing: Arc<Timing>,
    pub edca: [EdcaParams; 4],
    pub has_qos: bool,
    /// It keeps EIFS.
    pub eifs: bool,
    /// Failures in a row after which the contention window starts anew (dot11ShortRetryLimit).
    pub retry_limit: u8,
    pub wavelan: Option<WavelanConfig>,
    pub rng: Rng,
}

#[derive(Debug)]
pub(super) struct Contention {
    categories: Categories,
    sensing: Sensing,
}

/// Views of the medium, and the frames and backoffs that they stop and start.
#[derive(Debug)]
enum Sensing {
    /// Every radio has a view of its own: the specification.
    PerRadio(PerRadio),
    /// Radios that all hear each other share a view: the fast path of large cells.
    OneCell(OneCell),
}

/// Up to this number of radios each has a view of its own, since most of them take part in every
/// exchange.
const FEW: usize = 8;

impl Contention {
    /// `hidden`: pairs that do not hear each other.
    pub(super) fn new(
        radios: impl Iterator<Item = Contender>,
        hidden: &[(RadioId, RadioId)],
        sensing: Span,
    ) -> Contention {
        let mut categories = Categories::new(sensing);
        let mut carriers: Vec<Carrier> = Vec::new();
        for radio in radios {
            let timing = &radio.timing;
            let eifs_extra = if radio.eifs { timing.eifs().saturating_sub(timing.difs()) } else { Span::ZERO };
            carriers.push(Carrier::new(eifs_extra));
            categories.push(radio);
        }
        let is_alike = |carrier: &Carrier| carrier.eifs_extra == carriers[0].eifs_extra;
        // All radios hear each other and follow IEEE 802.11 with one EIFS, so most of them sense
        // the same.
        let is_one_cell = hidden.is_empty() && categories.follow_dot11() && carriers.iter().all(is_alike);
        let sensing = if is_one_cell && carriers.len() > FEW {
            Sensing::OneCell(OneCell::new(carriers, &categories))
        } else {
            Sensing::PerRadio(PerRadio::new(carriers, hidden, is_one_cell))
        };
        Contention { categories, sensing }
    }

    /// The medium as a radio senses it.
    #[inline]
    fn sensed_by(&self, radio: RadioId) -> &Carrier {
        match &self.sensing {
            Sensing::PerRadio(all) => all.sensed_by(radio.index()),
            Sensing::OneCell(cell) => cell.sensed_by(radio.index()),
        }
    }

    /// True if `to` hears `from`.
    #[inline]
    pub(super) fn is_heard(&self, from: RadioId, to: RadioId) -> bool {
        match &self.sensing {
            Sensing::PerRadio(all) => all.is_heard(from, to),
            Sensing::OneCell(_) => from != to,
        }
    }

    /// True if `receiver` does not notice the beginning of a PPDU of `transmitter` that is for it.
    /// `is_answer`: the PPDU is the answer that it waits for. `has_capture`: another transmission
    /// alone does not keep it from that.
    ///
    /// A radio that waits for a response of its own does not listen for anything else. (The
    /// receiver of a group stands for all: it is the access point itself, engaged by sending.)
    #[inline(always)]
    pub(super) fn misses(&self, receiver: RadioId, transmitter: RadioId, is_answer: bool, has_capture: bool) -> bool {
        let sensed = self.sensed_by(receiver);
        let is_occupied = !is_answer && receiver != transmitter && sensed.engaged;
        is_occupied || (!has_capture && sensed.sensed > 0)
    }

    /// True if virtual carrier sense keeps the radio silent: a CTS is not sent then (10.3.2.9).
    // [IEEE80211-10.3.2.9-2]
    pub(super) fn has_nav(&self, radio: RadioId, now: Time) -> bool {
        self.sensed_by(radio).nav > now
    }

    /// Time and radio of the first frame that may leave; ties go to the lower number.
    #[inline]
    pub(super) fn next(&mut self) -> (Time, RadioId) {
        if self.categories.is_stale {
            self.find_next();
        }
        self.categories.next
    }

    #[inline(never)]
    fn find_next(&mut self) {
        let first = match &self.sensing {
            Sensing::PerRadio(_) => (NEVER, RadioId(0)),
            Sensing::OneCell(cell) => cell.first_queued(),
        };
        self.categories.find_next(first);
    }

    /// A frame waits in a category. True if it is the first.
    #[inline]
    pub(super) fn on_frame(&mut self, radio: RadioId, ac: Ac, now: Time) -> bool {
        let (r, categories) = (radio.index(), &mut self.categories);
        let is_first = !categories.access[r][ac.index()].has_frame;
        if is_first {
            match &mut self.sensing {
                Sensing::PerRadio(all) => all.on_first_frame(categories, r, ac, now),
                Sensing::OneCell(cell) => cell.on_first_frame(categories, r, ac, now),
            }
        }
        is_first
    }

    /// Takes the frame of a radio that may leave at `now`, of several categories the one with the
    /// highest priority. The other categories have collided inside the radio (10.23.2.12): their
    /// windows grow and they draw anew.
    // [IEEE80211-10.23.2.12-1]
    pub(super) fn take(&mut self, radio: RadioId, now: Time) -> Ac {
        if let Sensing::OneCell(cell) = &mut self.sensing {
            cell.take_out(&mut self.categories, radio.index());
        }
        let ac = self.categories.take(radio.index(), now);
        self.engage(radio, true, now);
        ac
    }

    /// True if the frame that may leave now must be dropped instead, since it found the medium busy
    /// too often. Clears the flag.
    #[inline]
    pub(super) fn take_given_up(&mut self, radio: RadioId, ac: Ac) -> bool {
        std::mem::take(&mut self.categories.windows[radio.index()][ac.index()].gives_up)
    }

    /// A transmission begins.
    pub(super) fn on_begin(&mut self, transmitter: RadioId, now: Time) {
        let (t, categories) = (transmitter.index(), &mut self.categories);
        match &mut self.sensing {
            Sensing::PerRadio(all) => all.on_begin(categories, t, now),
            Sensing::OneCell(cell) => cell.on_begin(categories, t, now),
        }
    }

    /// A transmission ends. Radios that decoded it stay silent until `nav_end`. `is_decoded`: its
    /// receiver decoded it. At `follows` the next transmission of the exchange begins; [`NEVER`]:
    /// none does.
    ///
    /// Where all radios hear each other, backoffs of radios that are silent beyond `follows` stay
    /// stopped. The next transmission would stop them before they begin.
    pub(super) fn on_end(
        &mut self,
        transmitter: RadioId,
        now: Time,
        nav_end: Time,
        receiver: RadioId,
        is_decoded: bool,
        follows: Time,
    ) {
        let end = End { transmitter, now, nav_end, receiver, is_decoded, follows };
        match &mut self.sensing {
            Sensing::PerRadio(all) => all.on_end(&mut self.categories, &end),
            Sensing::OneCell(cell) => cell.on_end(&mut self.categories, &end),
        }
    }

    /// The radio takes part in an exchange from now on, or no more: it has a response to send, or
    /// has sent it.
    #[inline]
    pub(super) fn engage(&mut self, radio: RadioId, engaged: bool, now: Time) {
        let (r, categories) = (radio.index(), &mut self.categories);
        match &mut self.sensing {
            Sensing::PerRadio(all) => all.engage(categories, r, engaged, now),
            Sensing::OneCell(cell) => cell.engage(categories, r, engaged, now),
        }
    }

    /// The exchange of a category is over. `failed`: no answer came.
    pub(super) fn finish(&mut self, radio: RadioId, ac: Ac, now: Time, failed: bool, has_frame: bool) {
        let (r, categories) = (radio.index(), &mut self.categories);
        categories.finish(r, ac, failed, has_frame);
        match &mut self.sensing {
            Sensing::PerRadio(all) => all.finish(categories, r, now),
            Sensing::OneCell(cell) => cell.finish(categories, r, now),
        }
    }

    /// An exchange was answered, and its radio keeps the medium for another one.
    pub(super) fn continue_txop(&mut self, radio: RadioId, ac: Ac) {
        self.categories.windows[radio.index()][ac.index()].succeed();
    }
}

/// The end of a transmission: see [`Contention::on_end`].
struct End {
    transmitter: RadioId,
    now: Time,
    nav_end: Time,
    receiver: RadioId,
    is_decoded: bool,
    follows: Time,
}

#[cfg(test)]
mod tests;
