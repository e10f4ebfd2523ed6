//! EDCA and DCF: the choice of the radio that transmits next (IEEE 802.11-2020 10.3.4 and 10.23.2).
//!
//! Every radio keeps its own view of the medium, so radios that do not hear each other need nothing
//! special. A backoff is kept as the instant at which it would end if the medium stayed idle. A
//! transmission that the radio senses turns the remaining time into slots, and its end turns these
//! into an instant again. So there is one deadline for the whole medium and no event for a slot.
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
//! [`carrier`] has the medium as a radio senses it, [`backoff`] the window of a category and its
//! count of slots. [`set`] has the radios that a transmission concerns, and [`queue`] backoffs that
//! run down in step.

mod backoff;
mod carrier;
mod queue;
mod set;

use std::sync::Arc;

use crate::convert::count16;
use crate::rng::Rng;
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::phy::{Backoff, EdcaParams, Timing, WavelanConfig};
use crate::wifi::trace::Ac;

use self::backoff::{Counted, Kind, Rule, Window};
use self::carrier::Carrier;
use self::queue::Queue;
use self::set::{Set, bits};

const NEVER: Time = Time::NEVER;

/// Contention of one access category of one radio, as far as each transmission touches it: four of
/// them fill a cache line.
#[derive(Debug, Clone)]
struct Access {
    /// When the frame may leave, or the backoff ends, if the medium stays idle; [`NEVER`] while it
    /// is busy, or nothing is pending.
    ready_at: Time,
    /// Slots left, as of when the medium was last busy.
    backoff: u32,
    /// Its place among [`Contention::kinds`].
    kind: u16,
    has_frame: bool,
}

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
    /// By radio: its own view of the medium, if it has one.
    carrier: Vec<Carrier>,
    /// One view that radios share which have not taken part in an exchange lately.
    shared: Carrier,
    /// By radio: true if it has a view of its own.
    is_apart: Vec<bool>,
    /// Radios with a view of their own, where others share one.
    apart: Vec<RadioId>,
    // [IEEE80211-10.23.2.2-1]
    access: Vec<[Access; 4]>,
    windows: Vec<[Window; 4]>,
    kinds: Vec<Kind>,
    /// By radio: bit n is set if its category n has a frame or a backoff pending.
    pending: Vec<u8>,
    /// By radio: true if its backoffs are in the queues, without a `ready_at` of their own. A radio
    /// that gets a view of its own stays in the queues while they stand still. A responder has
    /// mostly come back when they go on.
    is_queued: Vec<bool>,
    /// Radios outside the queues that have a frame or backoff pending and share the common view.
    /// Each is stopped and started by itself.
    loose: Set,
    /// Queues of backoffs, by kind.
    queues: Vec<Queue>,
    /// Kinds with a queue that has had a backoff.
    in_use: Vec<u16>,
    /// Time since which backoffs in the queues run, interframe spaces included; [`NEVER`]: the
    /// medium is busy.
    queues_start: Time,
    /// By radio in the queues: the slot in which each backoff is over.
    due: Vec<[u64; 4]>,
    /// By radio: when its first frame may leave.
    ready: Vec<Time>,
    /// Radios for which `ready` is known.
    has_ready: Set,
    /// By radio: its random numbers.
    rng: Vec<Rng>,
    /// By transmitter: the other radios that hear it. Empty where `shared` is used.
    hears: Vec<Vec<RadioId>>,
    heard: Vec<bool>,
    sensing: Span,
    /// The least of `ready` and its radio; out of date if `is_stale`.
    next: (Time, RadioId),
    is_stale: bool,
    /// All radios hear each other and follow IEEE 802.11 with one EIFS, so most of them sense the
    /// same. Backoffs that a transmission stops stay stopped for the rest of the exchange.
    is_one_cell: bool,
    /// `shared` is used: in one cell of more than [`FEW`] radios.
    shares: bool,
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
        let mut c = Contention {
            carrier: Vec::new(),
            shared: Carrier::new(Span::ZERO),
            is_apart: Vec::new(),
            apart: Vec::new(),
            access: Vec::new(),
            windows: Vec::new(),
            kinds: Vec::new(),
            pending: Vec::new(),
            is_queued: Vec::new(),
            loose: Set::default(),
            queues: Vec::new(),
            in_use: Vec::new(),
            queues_start: Time::ZERO,
            due: Vec::new(),
            ready: Vec::new(),
            has_ready: Set::default(),
            rng: Vec::new(),
            hears: Vec::new(),
            heard: Vec::new(),
            sensing,
            next: (NEVER, RadioId(0)),
            is_stale: false,
            is_one_cell: hidden.is_empty(),
            shares: false,
        };
        for Contender { timing, edca, has_qos, eifs, retry_limit, wavelan, rng } in radios {
            let eifs_extra = if eifs { timing.eifs().saturating_sub(timing.difs()) } else { Span::ZERO };
            c.carrier.push(Carrier::new(eifs_extra));
            let rule = match wavelan.as_ref().map(|w| w.backoff) {
                None => Rule::Dot11,
                Some(Backoff::Resense) => Rule::Resense,
                Some(Backoff::Freeze) => Rule::Freeze,
            };
            c.is_one_cell &= rule == Rule::Dot11;
            c.access.push(edca.map(|e| {
                let aifs = timing.aifs(e.aifsn);
                let after_hold = if has_qos { aifs } else { Span::ZERO };
                let kind = Kind { aifs, after_hold, slot: timing.slot, begun: u32::from(has_qos), rule };
                let known = c.kinds.iter().position(|k| *k == kind);
                let kind = known.unwrap_or_else(|| {
                    c.kinds.push(kind);
                    c.kinds.len() - 1
                });
                Access { ready_at: NEVER, backoff: 0, kind: count16(kind), has_frame: false }
            }));
            c.windows.push(edca.map(|e| Window::new(&e, retry_limit, wavelan.as_ref())));
            c.pending.push(0);
            c.ready.push(NEVER);
            c.rng.push(rng);
        }
        let n = c.ready.len();
        (c.loose, c.has_ready) = (Set::of(n), Set::of(n));
        (c.is_queued, c.due) = (vec![false; n], vec![[0; 4]; n]);
        c.queues = c.kinds.iter().map(|kind| Queue::new(kind.slot)).collect();
        if let Some(first) = c.carrier.first() {
            c.shared = *first;
            c.is_one_cell &= c.carrier.iter().all(|carrier| carrier.eifs_extra == first.eifs_extra);
        }
        c.shares = c.is_one_cell && n > FEW;
        c.is_apart = vec![!c.shares; n];
        if !c.shares {
            c.hide(hidden);
        }
        c
    }

    /// Fills in the table of the radios that hear each other.
    fn hide(&mut self, hidden: &[(RadioId, RadioId)]) {
        let n = self.ready.len();
        self.heard = vec![true; n * n];
        for &(a, b) in hidden {
            let (a, b) = (a.index(), b.index());
            self.heard[a * n + b] = false;
            self.heard[b * n + a] = false;
        }
        (0..n).for_each(|own| self.heard[own * n + own] = false);
        let heard = &self.heard;
        let by = |from: usize| (0..n).map(RadioId::at).filter(move |to| heard[from * n + to.index()]).collect();
        self.hears = (0..n).map(by).collect();
    }

    /// The medium as a radio senses it.
    #[inline]
    fn sensed_by(&self, r: usize) -> &Carrier {
        if self.is_apart[r] { &self.carrier[r] } else { &self.shared }
    }

    /// As [`Self::sensed_by`], to be changed for this radio alone.
    #[inline]
    fn set_apart(&mut self, r: usize) -> &mut Carrier {
        if !self.is_apart[r] {
            self.leave_shared(r);
        }
        &mut self.carrier[r]
    }

    /// Gives a radio a view of its own. Its backoffs may stay in the queues while these stand
    /// still: see [`Self::is_queued`].
    #[inline(never)]
    fn leave_shared(&mut self, r: usize) {
        if self.queues_start != NEVER {
            self.take_out(r);
        }
        self.is_apart[r] = true;
        self.loose.remove(r);
        self.carrier[r] = self.shared;
        self.apart.push(RadioId::at(r));
    }

    /// True if `to` hears `from`.
    #[inline]
    pub(super) fn is_heard(&self, from: RadioId, to: RadioId) -> bool {
        if self.is_one_cell {
            return from != to;
        }
        self.heard[from.index() * self.ready.len() + to.index()]
    }

    /// True if the radio senses a transmission, its own included.
    #[inline]
    pub(super) fn is_busy(&self, radio: RadioId) -> bool {
        self.sensed_by(radio.index()).sensed > 0
    }

    /// True if the radio takes part in an exchange.
    #[inline]
    pub(super) fn is_engaged(&self, radio: RadioId) -> bool {
        self.sensed_by(radio.index()).engaged
    }

    /// Time and radio of the first frame that may leave; ties go to the lower number.
    #[inline]
    pub(super) fn next(&mut self) -> (Time, RadioId) {
        if self.is_stale {
            self.find_next();
        }
        self.next
    }

    #[inline]
    fn find_next(&mut self) {
        let mut best = self.first_queued();
        for word in 0..self.has_ready.word_count() {
            for r in self.has_ready.of_word(word) {
                best = best.min((self.ready[r], RadioId::at(r)));
            }
        }
        self.next = best;
        self.is_stale = false;
    }

    /// A frame waits in a category. True if it is the first.
    #[inline]
    pub(super) fn on_frame(&mut self, radio: RadioId, ac: Ac, now: Time) -> bool {
        let r = radio.index();
        let is_first = !self.access[r][ac.index()].has_frame;
        if is_first {
            self.take_out(r);
            self.on_first_frame(r, ac, now);
            if !self.is_apart[r] {
                self.put_in(r);
            }
        }
        is_first
    }

    /// A frame waits in a category that had none, of a radio that is not in the queues.
    fn on_first_frame(&mut self, r: usize, ac: Ac, now: Time) {
        let carrier = *self.sensed_by(r);
        // [IEEE80211-10.3.2.1-1]
        let is_idle = carrier.sensed == 0 && !carrier.engaged && carrier.nav <= now;
        let a = &mut self.access[r][ac.index()];
        let kind = &self.kinds[usize::from(a.kind)];
        a.has_frame = true;
        self.pending[r] |= 1 << ac.index();
        self.loose.put(r, !self.is_apart[r]);
        if is_idle {
            if a.ready_at == NEVER {
                a.ready_at = kind.start_after((carrier.idle_since + carrier.extra).max(carrier.nav), carrier.hold);
            }
            a.ready_at = a.ready_at.max(now);
            // [IEEE80211-10.3.4.2-1]
            if a.ready_at == now {
                a.backoff = 0;
            }
        } else if kind.rule != Rule::Dot11 {
            a.backoff = self.windows[r][ac.index()].find_busy(kind.rule, &mut self.rng[r]);
        // [IEEE80211-10.3.4.3-1]
        } else if a.backoff == 0 && a.ready_at == NEVER {
            a.backoff = self.windows[r][ac.index()].draw(&mut self.rng[r]);
            if carrier.sensed == 0 && !carrier.engaged {
                // Only the NAV is set: nothing will end that wakes it.
                self.thaw(r);
                return;
            }
        }
        self.update(r);
    }

    /// Takes the frame of a radio that may leave at `now`, of several categories the one with the
    /// highest priority. The other categories have collided inside the radio (10.23.2.12): their
    /// windows grow and they draw anew.
    // [IEEE80211-10.23.2.12-1]
    pub(super) fn take(&mut self, radio: RadioId, now: Time) -> Ac {
        let r = radio.index();
        self.take_out(r);
        let mut winner = None;
        let pending = self.pending[r];
        for ac in Ac::ALL.into_iter().rev().filter(|ac| pending & 1 << ac.index() != 0) {
            let a = &mut self.access[r][ac.index()];
            if a.ready_at > now || !a.has_frame {
                continue;
            }
            if winner.is_none() {
                winner = Some(ac);
                a.ready_at = NEVER;
                a.backoff = 0;
                self.pending[r] &= !(1 << ac.index());
            } else {
                let window = &mut self.windows[r][ac.index()];
                window.fail();
                a.backoff = window.draw(&mut self.rng[r]);
                a.ready_at = NEVER;
            }
        }
        let winner = winner.expect("the radio was ready");
        self.set_apart(r).engaged = true;
        self.freeze(r, now, &mut Counted::nothing());
        winner
    }

    /// True if the frame that may leave now must be dropped instead, since it found the medium busy
    /// too often. Clears the flag.
    #[inline]
    pub(super) fn take_given_up(&mut self, radio: RadioId, ac: Ac) -> bool {
        std::mem::take(&mut self.windows[radio.index()][ac.index()].gives_up)
    }

    /// A transmission begins.
    pub(super) fn on_begin(&mut self, transmitter: RadioId, now: Time) {
        let t = transmitter.index();
        let own = self.set_apart(t);
        own.sensed += 1;
        own.clean = false;
        own.deaf = true;
        let is_stopped = own.engaged;
        let mut counted = Counted::nothing();
        if !is_stopped {
            self.freeze(t, now, &mut counted);
        }
        let hears = if self.shares { &mut self.apart } else { &mut self.hears[t] };
        let hears = std::mem::take(hears);
        for h in hears.iter().map(|h| h.index()).filter(|&h| h != t) {
            let carrier = &mut self.carrier[h];
            carrier.hear_begin();
            if carrier.clean && !carrier.engaged && self.pending[h] != 0 {
                self.freeze(h, now, &mut counted);
            }
        }
        if !self.shares {
            self.hears[t] = hears;
            return;
        }
        self.apart = hears;
        self.shared.hear_begin();
        if self.shared.clean {
            self.stop_shared(now, &mut counted);
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
        let stays = if self.is_one_cell && follows != NEVER { follows + self.sensing } else { NEVER };
        let t = transmitter.index();
        // After a transmission that no radio can decode, the receiver senses the same as the
        // others, and needs no view of its own.
        if receiver.index() < self.ready.len() && self.shared.clean {
            self.set_apart(receiver.index());
        }
        let is_shared_idle = self.shares && self.shared.hear_end(now, nav_end, false, is_decoded);
        let hears = if self.shares { &mut self.apart } else { &mut self.hears[t] };
        let hears = std::mem::take(hears);
        for &h in hears.iter().filter(|&&h| h != transmitter) {
            let is_receiver = h == receiver;
            let h = h.index();
            let carrier = &mut self.carrier[h];
            let is_idle = carrier.hear_end(now, nav_end, is_receiver, is_decoded);
            let rejoins = is_shared_idle && carrier.is_as(&self.shared);
            if is_idle && !carrier.engaged && self.pending[h] != 0 && carrier.nav < stays && !rejoins {
                self.thaw(h);
            }
        }
        let carrier = &mut self.carrier[t];
        carrier.sensed -= 1;
        if carrier.sensed == 0 {
            carrier.idle_since = now;
            carrier.extra = Span::ZERO;
            let rejoins = is_shared_idle && carrier.is_as(&self.shared);
            if !carrier.engaged && !rejoins {
                self.thaw(t);
            }
        }
        if !self.shares {
            self.hears[t] = hears;
            return;
        }
        self.apart = hears;
        if !is_shared_idle {
            return;
        }
        let starts = self.shared.nav < stays;
        let mut apart = std::mem::take(&mut self.apart);
        apart.retain(|r| {
            let r = r.index();
            let stays = !self.carrier[r].is_as(&self.shared);
            if !stays {
                self.join(r);
            } else if starts {
                self.take_out(r);
            }
            stays
        });
        self.apart = apart;
        if starts {
            self.start_shared();
        }
    }

    /// Lets a radio with stopped backoffs share the common view again if it senses the same.
    /// Returns false if it does not.
    fn rejoins(&mut self, r: usize) -> bool {
        let rejoins = self.shares && self.shared.sensed == 0 && self.carrier[r].is_as(&self.shared);
        if rejoins {
            if let Some(at) = self.apart.iter().position(|&other| other == RadioId::at(r)) {
                self.apart.swap_remove(at);
            }
            self.join(r);
        }
        rejoins
    }

    /// From now on a radio has no view of its own.
    fn join(&mut self, r: usize) {
        self.is_apart[r] = false;
        if self.pending[r] != 0 && !self.is_queued[r] {
            self.loose.put(r, true);
            self.put_in(r);
        }
    }

    /// The radio has a response to send, or has sent it.
    pub(super) fn engage(&mut self, radio: RadioId, engaged: bool, now: Time) {
        let r = radio.index();
        let carrier = self.set_apart(r);
        carrier.engaged = engaged;
        let is_idle = carrier.sensed == 0;
        if engaged {
            self.freeze(r, now, &mut Counted::nothing());
        } else if is_idle && !self.rejoins(r) {
            self.thaw(r);
        }
    }

    /// The exchange of a category is over. `failed`: no answer came.
    pub(super) fn finish(&mut self, radio: RadioId, ac: Ac, now: Time, failed: bool, has_frame: bool) {
        let r = radio.index();
        let (a, window) = (&mut self.access[r][ac.index()], &mut self.windows[r][ac.index()]);
        if failed {
            window.fail()
        } else {
            window.succeed()
        }
        if self.kinds[usize::from(a.kind)].rule == Rule::Dot11 {
            // [IEEE80211-10.3.4.3-3]
            a.backoff = window.draw(&mut self.rng[r]);
        } else {
            (a.backoff, window.follows_own) = (0, has_frame);
        }
        a.has_frame = has_frame;
        a.ready_at = NEVER;
        self.pending[r] = (self.pending[r] & !(1 << ac.index())) | u8::from(has_frame || a.backoff > 0) << ac.index();
        let carrier = self.set_apart(r);
        carrier.engaged = false;
        carrier.hold = now;
        if carrier.sensed > 0 {
            self.update(r);
        } else if !self.rejoins(r) {
            self.thaw(r);
        }
    }

    /// An exchange was answered, and its radio keeps the medium for another one.
    pub(super) fn go_on(&mut self, radio: RadioId, ac: Ac) {
        self.windows[radio.index()][ac.index()].succeed();
    }

    /// True if virtual carrier sense keeps the radio silent: a CTS is not sent then (10.3.2.9).
    // [IEEE80211-10.3.2.9-2]
    pub(super) fn has_nav(&self, radio: RadioId, now: Time) -> bool {
        self.sensed_by(radio.index()).nav > now
    }

    /// Turns the remaining time of the backoffs into slots. A frame that is due before its radio
    /// can sense the transmission is sent nevertheless.
    fn freeze(&mut self, r: usize, now: Time, counted: &mut Counted) {
        // Backoffs in the queues are stopped already.
        if self.pending[r] == 0 || self.is_queued[r] {
            return self.set_ready(r, NEVER);
        }
        let engaged = self.sensed_by(r).engaged;
        self.freeze_as::<false>(r, now, engaged, counted);
    }

    /// As [`Self::freeze`]; `engaged`: the radio takes part in an exchange. `DOT11`: all radios
    /// follow [`Rule::Dot11`].
    #[inline(always)]
    // [IEEE80211-10.3.4.3-2]
    fn freeze_as<const DOT11: bool>(&mut self, r: usize, now: Time, engaged: bool, counted: &mut Counted) {
        let mut ready = NEVER;
        for ac in bits(self.pending[r]) {
            let a = &mut self.access[r][ac];
            if a.ready_at == NEVER {
                continue;
            }
            if a.has_frame && !engaged && a.ready_at <= now + self.sensing {
                ready = ready.min(a.ready_at);
                continue;
            }
            let kind = &self.kinds[usize::from(a.kind)];
            if !DOT11 && kind.rule == Rule::Resense {
                self.windows[r][ac].runs_until = a.ready_at;
            } else if a.ready_at <= now {
                a.backoff = 0;
            } else if a.backoff > 0 {
                let begin = a.ready_at - kind.slot * u64::from(a.backoff);
                if now >= begin {
                    a.backoff -= counted.slots(a.kind, kind, begin, now);
                }
            } else if !DOT11 && kind.rule == Rule::Freeze && a.has_frame {
                // It waited for the interframe space only.
                a.backoff = self.windows[r][ac].find_busy(kind.rule, &mut self.rng[r]);
            }
            a.ready_at = NEVER;
            if a.backoff == 0 && !a.has_frame {
                self.pending[r] &= !(1 << ac);
                if self.pending[r] == 0 {
                    self.loose.remove(r);
                }
            }
        }
        self.set_ready(r, ready);
    }

    /// The medium has become idle: slots become instants.
    fn thaw(&mut self, r: usize) {
        self.take_out(r);
        let carrier = *self.sensed_by(r);
        self.thaw_as::<false>(r, &carrier);
    }

    /// As [`Self::thaw`], for a radio that senses `carrier`. `DOT11`: all radios follow
    /// [`Rule::Dot11`].
    #[inline(always)]
    // [IEEE80211-10.3.4.3-2]
    fn thaw_as<const DOT11: bool>(&mut self, r: usize, carrier: &Carrier) {
        let start = (carrier.idle_since + carrier.extra).max(carrier.nav);
        let mut ready = NEVER;
        for ac in bits(self.pending[r]) {
            let a = &mut self.access[r][ac];
            // A frame that was due before its radio could sense the transmission stays due.
            if a.ready_at == NEVER {
                let kind = &self.kinds[usize::from(a.kind)];
                let rule = if DOT11 { Rule::Dot11 } else { kind.rule };
                a.ready_at = match rule {
                    Rule::Dot11 => kind.start_after(start, carrier.hold) + kind.slot * u64::from(a.backoff),
                    _ => self.windows[r][ac].resume(
                        kind,
                        &mut a.backoff,
                        carrier.idle_since,
                        carrier.hold,
                        &mut self.rng[r],
                    ),
                };
            }
            if a.has_frame {
                ready = ready.min(a.ready_at);
            }
        }
        self.set_ready(r, ready);
    }

    /// Computes the radio's `ready` anew, after another change of its frames or backoffs.
    fn update(&mut self, r: usize) {
        let access = &self.access[r];
        let all = bits(self.pending[r]).map(|ac| &access[ac]).filter(|a| a.has_frame).map(|a| a.ready_at);
        let ready = all.min().unwrap_or(NEVER);
        self.set_ready(r, ready);
    }

    #[inline]
    fn set_ready(&mut self, r: usize, ready: Time) {
        let old = std::mem::replace(&mut self.ready[r], ready);
        if old == ready {
            return;
        }
        self.has_ready.put(r, ready != NEVER);
        if self.is_stale {
            return;
        }
        if (ready, RadioId::at(r)) < self.next {
            self.next = (ready, RadioId::at(r));
        } else if self.next.1 == RadioId::at(r) {
            self.is_stale = true;
        }
    }
}

#[cfg(test)]
mod tests;
