//! One cell of many radios that hear each other: those that have not taken part in an exchange
//! lately sense the same, and share a view of the medium.

use super::backoff::Counted;
use super::carrier::Carrier;
use super::categories::Categories;
use super::queue::Queue;
use super::set::RadioSet;
use super::{End, NEVER};
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::trace::Ac;

/// See the module. All radios follow [`Rule::Dot11`](super::backoff::Rule::Dot11), with one EIFS.
#[derive(Debug)]
pub(super) struct OneCell {
    /// The view that radios share.
    pub(super) shared: Carrier,
    /// By radio: its own view of the medium, if it has one.
    carriers: Vec<Carrier>,
    /// By radio: true if it has a view of its own.
    has_own_view: Vec<bool>,
    /// Radios with a view of their own.
    own_views: Vec<RadioId>,
    /// By radio: true if its backoffs are in the queues, without a `ready_at` of their own. A radio
    /// that gets a view of its own stays in the queues while they stand still. A responder has
    /// mostly come back when they go on.
    pub(super) is_queued: Vec<bool>,
    /// Radios outside the queues that have a frame or backoff pending and share the common view.
    /// Each is stopped and started by itself.
    pub(super) unsynchronised: RadioSet,
    /// Queues of backoffs, by kind.
    pub(super) queues: Vec<Queue>,
    /// Kinds with a queue that has had a backoff.
    pub(super) in_use: Vec<u16>,
    /// Time since which backoffs in the queues run, interframe spaces included; [`NEVER`]: the
    /// medium is busy.
    pub(super) queues_start: Time,
    /// By radio in the queues: the slot in which each backoff is over.
    pub(super) due: Vec<[u64; 4]>,
}

impl OneCell {
    /// `carriers`: of at least one radio.
    pub(super) fn new(carriers: Vec<Carrier>, categories: &Categories) -> OneCell {
        let n = carriers.len();
        OneCell {
            shared: carriers[0],
            carriers,
            has_own_view: vec![false; n],
            own_views: Vec::new(),
            is_queued: vec![false; n],
            unsynchronised: RadioSet::of(n),
            queues: categories.params.iter().map(|kind| Queue::new(kind.slot)).collect(),
            in_use: Vec::new(),
            queues_start: Time::ZERO,
            due: vec![[0; 4]; n],
        }
    }

    #[inline]
    pub(super) fn sensed_by(&self, r: usize) -> &Carrier {
        if self.has_own_view[r] { &self.carriers[r] } else { &self.shared }
    }

    /// True if the radio shares the common view.
    #[inline]
    pub(super) fn is_shared(&self, r: usize) -> bool {
        !self.has_own_view[r]
    }

    /// As [`Self::sensed_by`], to be changed for this radio alone.
    #[inline]
    fn own_view(&mut self, categories: &mut Categories, r: usize) -> &mut Carrier {
        if !self.has_own_view[r] {
            self.leave_shared(categories, r);
        }
        &mut self.carriers[r]
    }

    /// Gives a radio a view of its own. Its backoffs may stay in the queues while these stand
    /// still: see [`Self::is_queued`].
    #[inline(never)]
    fn leave_shared(&mut self, categories: &mut Categories, r: usize) {
        if self.queues_start != NEVER {
            self.take_out(categories, r);
        }
        self.has_own_view[r] = true;
        self.unsynchronised.remove(r);
        self.carriers[r] = self.shared;
        self.own_views.push(RadioId::at(r));
    }

    pub(super) fn on_first_frame(&mut self, categories: &mut Categories, r: usize, ac: Ac, now: Time) {
        self.take_out(categories, r);
        categories.on_first_frame(r, ac, now, self.sensed_by(r));
        if !self.has_own_view[r] {
            self.unsynchronised.put(r, true);
            self.put_in(categories, r);
        }
    }

    pub(super) fn on_begin(&mut self, categories: &mut Categories, t: usize, now: Time) {
        let own = self.own_view(categories, t);
        own.sensed += 1;
        own.clean = false;
        own.deaf = true;
        let is_stopped = own.engaged;
        let mut counted = Counted::nothing();
        if !is_stopped {
            self.freeze(categories, t, now, &mut counted);
        }
        let own_views = std::mem::take(&mut self.own_views);
        for h in own_views.iter().map(|h| h.index()).filter(|&h| h != t) {
            let carrier = &mut self.carriers[h];
            carrier.hear_begin();
            if carrier.clean && !carrier.engaged && categories.pending[h] != 0 {
                self.freeze(categories, h, now, &mut counted);
            }
        }
        self.own_views = own_views;
        self.shared.hear_begin();
        if self.shared.clean {
            self.stop_shared(categories, now, &mut counted);
        }
    }

    pub(super) fn on_end(&mut self, categories: &mut Categories, end: &End) {
        let &End { transmitter, now, nav_end, receiver, is_decoded, follows } = end;
        let stays = if follows != NEVER { follows + categories.sensing } else { NEVER };
        let t = transmitter.index();
        // After a transmission that no radio can decode, the receiver senses the same as the
        // others, and needs no view of its own.
        if receiver.index() < self.carriers.len() && self.shared.clean {
            self.own_view(categories, receiver.index());
        }
        let is_shared_idle = self.shared.hear_end(now, nav_end, false, is_decoded);
        let own_views = std::mem::take(&mut self.own_views);
        for &h in own_views.iter().filter(|&&h| h != transmitter) {
            let is_receiver = h == receiver;
            let h = h.index();
            let carrier = &mut self.carriers[h];
            let is_idle = carrier.hear_end(now, nav_end, is_receiver, is_decoded);
            let rejoins = is_shared_idle && carrier.is_equivalent_to(&self.shared);
            if is_idle && !carrier.engaged && categories.pending[h] != 0 && carrier.nav < stays && !rejoins {
                self.thaw(categories, h);
            }
        }
        self.own_views = own_views;
        let carrier = &mut self.carriers[t];
        carrier.sensed -= 1;
        if carrier.sensed == 0 {
            carrier.idle_since = now;
            carrier.extra = Span::ZERO;
            let rejoins = is_shared_idle && carrier.is_equivalent_to(&self.shared);
            if !carrier.engaged && !rejoins {
                self.thaw(categories, t);
            }
        }
        if !is_shared_idle {
            return;
        }
        let starts = self.shared.nav < stays;
        let mut own_views = std::mem::take(&mut self.own_views);
        own_views.retain(|r| {
            let r = r.index();
            let stays = !self.carriers[r].is_equivalent_to(&self.shared);
            if !stays {
                self.join(categories, r);
            } else if starts {
                self.take_out(categories, r);
            }
            stays
        });
        self.own_views = own_views;
        if starts {
            self.start_shared(categories);
        }
    }

    /// Lets a radio with stopped backoffs share the common view again if it senses the same.
    /// Returns false if it does not.
    fn rejoins(&mut self, categories: &mut Categories, r: usize) -> bool {
        let rejoins = self.shared.sensed == 0 && self.carriers[r].is_equivalent_to(&self.shared);
        if rejoins {
            if let Some(at) = self.own_views.iter().position(|&other| other == RadioId::at(r)) {
                self.own_views.swap_remove(at);
            }
            self.join(categories, r);
        }
        rejoins
    }

    /// From now on a radio has no view of its own.
    fn join(&mut self, categories: &mut Categories, r: usize) {
        self.has_own_view[r] = false;
        if categories.pending[r] != 0 && !self.is_queued[r] {
            self.unsynchronised.put(r, true);
            self.put_in(categories, r);
        }
    }

    #[inline]
    pub(super) fn engage(&mut self, categories: &mut Categories, r: usize, engaged: bool, now: Time) {
        let carrier = self.own_view(categories, r);
        carrier.engaged = engaged;
        let is_idle = carrier.sensed == 0;
        if engaged {
            self.freeze(categories, r, now, &mut Counted::nothing());
        } else if is_idle && !self.rejoins(categories, r) {
            self.thaw(categories, r);
        }
    }

    pub(super) fn finish(&mut self, categories: &mut Categories, r: usize, now: Time) {
        let carrier = self.own_view(categories, r);
        carrier.engaged = false;
        carrier.hold = now;
        if carrier.sensed > 0 {
            categories.update(r);
        } else if !self.rejoins(categories, r) {
            self.thaw(categories, r);
        }
    }

    fn freeze(&mut self, categories: &mut Categories, r: usize, now: Time, counted: &mut Counted) {
        // Backoffs in the queues are stopped already.
        if categories.pending[r] == 0 || self.is_queued[r] {
            return categories.set_ready(r, NEVER);
        }
        let engaged = self.sensed_by(r).engaged;
        self.freeze_as(categories, r, now, engaged, counted);
    }

    /// As [`Self::freeze`]; `engaged`: the radio takes part in an exchange.
    #[inline(always)]
    pub(super) fn freeze_as(
        &mut self,
        categories: &mut Categories,
        r: usize,
        now: Time,
        engaged: bool,
        counted: &mut Counted,
    ) {
        categories.freeze::<true>(r, now, engaged, counted);
        if categories.pending[r] == 0 {
            self.unsynchronised.remove(r);
        }
    }

    pub(super) fn thaw(&mut self, categories: &mut Categories, r: usize) {
        self.take_out(categories, r);
        categories.thaw::<true>(r, self.sensed_by(r));
    }
}
