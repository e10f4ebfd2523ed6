//! Frames and backoffs of all access categories of all radios, and when each may leave.

use super::backoff::{BackoffParams, Counted, Rule, Window};
use super::carrier::Carrier;
use super::set::{RadioSet, bits};
use super::{Contender, NEVER};
use crate::convert::count16;
use crate::rng::Rng;
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;
use crate::wifi::phy::Backoff;
use crate::wifi::trace::Ac;

/// Contention of one access category of one radio, as far as each transmission touches it: four of
/// them fill a cache line.
#[derive(Debug, Clone)]
pub(super) struct Access {
    /// When the frame may leave, or the backoff ends, if the medium stays idle; [`NEVER`] while it
    /// is busy, or nothing is pending.
    pub(super) ready_at: Time,
    /// Slots left, as of when the medium was last busy.
    pub(super) backoff: u32,
    /// Its place among [`Categories::params`].
    pub(super) kind: u16,
    pub(super) has_frame: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Categories {
    // [IEEE80211-10.23.2.2-1]
    pub(super) access: Vec<[Access; 4]>,
    pub(super) windows: Vec<[Window; 4]>,
    pub(super) params: Vec<BackoffParams>,
    /// By radio: bit n is set if its category n has a frame or a backoff pending.
    pub(super) pending: Vec<u8>,
    /// By radio: when its first frame may leave.
    pub(super) ready: Vec<Time>,
    /// Radios for which `ready` is known.
    has_ready: RadioSet,
    /// By radio: its random numbers.
    pub(super) rng: Vec<Rng>,
    /// Time from the start of a transmission until others sense it.
    pub(super) sensing: Span,
    /// The least of `ready` and its radio; out of date if `is_stale`.
    pub(super) next: (Time, RadioId),
    pub(super) is_stale: bool,
}

impl Categories {
    /// Those of no radio.
    pub(super) fn new(sensing: Span) -> Categories {
        Categories {
            access: Vec::new(),
            windows: Vec::new(),
            params: Vec::new(),
            pending: Vec::new(),
            ready: Vec::new(),
            has_ready: RadioSet::default(),
            rng: Vec::new(),
            sensing,
            next: (NEVER, RadioId(0)),
            is_stale: false,
        }
    }

    /// Adds a radio without frames.
    pub(super) fn push(&mut self, radio: Contender) {
        let Contender { timing, edca, has_qos, retry_limit, wavelan, rng, .. } = radio;
        let rule = match wavelan.as_ref().map(|w| w.backoff) {
            None => Rule::Dot11,
            Some(Backoff::Resense) => Rule::Resense,
            Some(Backoff::Freeze) => Rule::Freeze,
        };
        self.access.push(edca.map(|e| {
            let aifs = timing.aifs(e.aifsn);
            let after_hold = if has_qos { aifs } else { Span::ZERO };
            let kind = BackoffParams { aifs, after_hold, slot: timing.slot, begun: u32::from(has_qos), rule };
            let known = self.params.iter().position(|k| *k == kind);
            let kind = known.unwrap_or_else(|| {
                self.params.push(kind);
                self.params.len() - 1
            });
            Access { ready_at: NEVER, backoff: 0, kind: count16(kind), has_frame: false }
        }));
        self.windows.push(edca.map(|e| Window::new(&e, retry_limit, wavelan.as_ref())));
        self.pending.push(0);
        self.ready.push(NEVER);
        self.has_ready = RadioSet::of(self.ready.len());
        self.rng.push(rng);
    }

    /// True if all radios follow [`Rule::Dot11`].
    pub(super) fn follow_dot11(&self) -> bool {
        self.params.iter().all(|kind| kind.rule == Rule::Dot11)
    }

    /// Looks for the first frame that may leave; `best` is one that does without a `ready`.
    #[inline]
    pub(super) fn find_next(&mut self, mut best: (Time, RadioId)) {
        for word in 0..self.has_ready.word_count() {
            for r in self.has_ready.of_word(word) {
                best = best.min((self.ready[r], RadioId::at(r)));
            }
        }
        self.next = best;
        self.is_stale = false;
    }

    /// A frame waits in a category that had none, of a radio that senses `carrier`.
    pub(super) fn on_first_frame(&mut self, r: usize, ac: Ac, now: Time, carrier: &Carrier) {
        // [IEEE80211-10.3.2.1-1]
        let is_idle = carrier.sensed == 0 && !carrier.engaged && carrier.nav <= now;
        let a = &mut self.access[r][ac.index()];
        let kind = &self.params[usize::from(a.kind)];
        a.has_frame = true;
        self.pending[r] |= 1 << ac.index();
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
                self.thaw::<false>(r, carrier);
                return;
            }
        }
        self.update(r);
    }

    /// See [`Contention::take`](super::Contention::take).
    #[inline]
    pub(super) fn take(&mut self, r: usize, now: Time) -> Ac {
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
        winner.expect("the radio was ready")
    }

    /// The exchange of a category is over; see [`Contention::finish`](super::Contention::finish).
    pub(super) fn finish(&mut self, r: usize, ac: Ac, failed: bool, has_frame: bool) {
        let (a, window) = (&mut self.access[r][ac.index()], &mut self.windows[r][ac.index()]);
        if failed {
            window.fail()
        } else {
            window.succeed()
        }
        if self.params[usize::from(a.kind)].rule == Rule::Dot11 {
            // [IEEE80211-10.3.4.3-3]
            a.backoff = window.draw(&mut self.rng[r]);
        } else {
            (a.backoff, window.follows_own) = (0, has_frame);
        }
        a.has_frame = has_frame;
        a.ready_at = NEVER;
        self.pending[r] = (self.pending[r] & !(1 << ac.index())) | u8::from(has_frame || a.backoff > 0) << ac.index();
    }

    /// Turns the remaining time of the backoffs into slots. A frame that is due before its radio
    /// can sense the transmission is sent nevertheless. `engaged`: the radio takes part in an
    /// exchange. `DOT11`: all radios follow [`Rule::Dot11`].
    #[inline(always)]
    // [IEEE80211-10.3.4.3-2]
    pub(super) fn freeze<const DOT11: bool>(&mut self, r: usize, now: Time, engaged: bool, counted: &mut Counted) {
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
            let kind = &self.params[usize::from(a.kind)];
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
            }
        }
        self.set_ready(r, ready);
    }

    /// The medium has become idle for a radio that senses `carrier`: slots become instants.
    /// `DOT11`: all radios follow [`Rule::Dot11`].
    #[inline(always)]
    // [IEEE80211-10.3.4.3-2]
    pub(super) fn thaw<const DOT11: bool>(&mut self, r: usize, carrier: &Carrier) {
        let start = (carrier.idle_since + carrier.extra).max(carrier.nav);
        let mut ready = NEVER;
        for ac in bits(self.pending[r]) {
            let a = &mut self.access[r][ac];
            // A frame that was due before its radio could sense the transmission stays due.
            if a.ready_at == NEVER {
                let kind = &self.params[usize::from(a.kind)];
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
    pub(super) fn update(&mut self, r: usize) {
        let access = &self.access[r];
        let all = bits(self.pending[r]).map(|ac| &access[ac]).filter(|a| a.has_frame).map(|a| a.ready_at);
        let ready = all.min().unwrap_or(NEVER);
        self.set_ready(r, ready);
    }

    #[inline]
    pub(super) fn set_ready(&mut self, r: usize, ready: Time) {
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
