//! Each radio has a view of the medium of its own: the specification, and the way of small cells,
//! hidden stations and WaveLAN.

use super::backoff::Counted;
use super::carrier::Carrier;
use super::categories::Categories;
use super::{End, NEVER};
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::trace::Ac;

/// See the module.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct PerRadio {
    /// By radio: the medium as it senses it.
    carriers: Vec<Carrier>,
    /// By transmitter: the other radios that hear it.
    hears: Vec<Vec<RadioId>>,
    /// By transmitter and radio: true if the radio hears it.
    heard: Vec<bool>,
    /// Backoffs that a transmission stops stay stopped for the rest of the exchange. All radios
    /// hear each other and follow IEEE 802.11 with one EIFS.
    keeps_stopped: bool,
}

impl PerRadio {
    /// `hidden`: pairs that do not hear each other.
    pub(super) fn new(carriers: Vec<Carrier>, hidden: &[(RadioId, RadioId)], keeps_stopped: bool) -> PerRadio {
        let n = carriers.len();
        let mut heard = vec![true; n * n];
        for &(a, b) in hidden {
            let (a, b) = (a.index(), b.index());
            heard[a * n + b] = false;
            heard[b * n + a] = false;
        }
        (0..n).for_each(|own| heard[own * n + own] = false);
        let by = |from: usize| (0..n).map(RadioId::at).filter(|to| heard[from * n + to.index()]).collect();
        PerRadio { carriers, hears: (0..n).map(by).collect(), heard, keeps_stopped }
    }

    /// See the field.
    #[cfg(test)]
    pub(super) fn keeps_stopped(&self) -> bool {
        self.keeps_stopped
    }

    #[inline]
    pub(super) fn sensed_by(&self, r: usize) -> &Carrier {
        &self.carriers[r]
    }

    #[inline]
    pub(super) fn is_heard(&self, from: RadioId, to: RadioId) -> bool {
        self.heard[from.index() * self.carriers.len() + to.index()]
    }

    pub(super) fn on_first_frame(&mut self, categories: &mut Categories, r: usize, ac: Ac, now: Time) {
        categories.on_first_frame(r, ac, now, &self.carriers[r]);
    }

    pub(super) fn on_begin(&mut self, categories: &mut Categories, t: usize, now: Time) {
        let own = &mut self.carriers[t];
        own.sensed += 1;
        own.clean = false;
        own.deaf = true;
        let mut counted = Counted::nothing();
        if !own.engaged {
            self.freeze(categories, t, now, &mut counted);
        }
        for h in self.hears[t].iter().map(|h| h.index()) {
            let carrier = &mut self.carriers[h];
            carrier.hear_begin();
            if carrier.clean && !carrier.engaged && categories.pending[h] != 0 {
                categories.freeze::<false>(h, now, false, &mut counted);
            }
        }
    }

    pub(super) fn on_end(&mut self, categories: &mut Categories, end: &End) {
        let &End { transmitter, now, nav_end, receiver, is_decoded, follows } = end;
        let stays = if self.keeps_stopped && follows != NEVER { follows + categories.sensing } else { NEVER };
        let t = transmitter.index();
        for &radio in &self.hears[t] {
            let h = radio.index();
            let carrier = &mut self.carriers[h];
            let is_idle = carrier.hear_end(now, nav_end, radio == receiver, is_decoded);
            if is_idle && !carrier.engaged && categories.pending[h] != 0 && carrier.nav < stays {
                categories.thaw::<false>(h, carrier);
            }
        }
        let own = &mut self.carriers[t];
        own.sensed -= 1;
        if own.sensed == 0 {
            own.idle_since = now;
            own.extra = Span::ZERO;
            if !own.engaged {
                self.thaw(categories, t);
            }
        }
    }

    #[inline]
    pub(super) fn engage(&mut self, categories: &mut Categories, r: usize, engaged: bool, now: Time) {
        let carrier = &mut self.carriers[r];
        carrier.engaged = engaged;
        if engaged {
            self.freeze(categories, r, now, &mut Counted::nothing());
        } else if carrier.sensed == 0 {
            self.thaw(categories, r);
        }
    }

    pub(super) fn finish(&mut self, categories: &mut Categories, r: usize, now: Time) {
        let carrier = &mut self.carriers[r];
        carrier.engaged = false;
        carrier.hold = now;
        if carrier.sensed > 0 {
            categories.update(r);
        } else {
            self.thaw(categories, r);
        }
    }

    fn freeze(&self, categories: &mut Categories, r: usize, now: Time, counted: &mut Counted) {
        categories.freeze::<false>(r, now, self.carriers[r].engaged, counted);
    }

    pub(super) fn thaw(&self, categories: &mut Categories, r: usize) {
        categories.thaw::<false>(r, &self.carriers[r]);
    }
}
