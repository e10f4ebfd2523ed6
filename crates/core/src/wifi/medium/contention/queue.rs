//! Backoffs that run down in step. Radios that sense the same count the same slots, so only the
//! first of many of one kind has to be examined. Each backoff is in a queue by the number of its
//! slot, counted from the start of the run. A transmission stops one counter for all.

use super::NEVER;
use super::backoff::Counted;
use super::categories::Categories;
use super::one_cell::OneCell;
use super::set::bits;
use crate::convert::{low16, saturate32};
use crate::units::{Span, Time};
use crate::wifi::ids::RadioId;

/// Backoffs of one kind that run down in step.
#[derive(Debug)]
pub(super) struct Queue {
    /// Slots counted before `begin`.
    pub(super) counted: u64,
    /// Start of the first slot that is not counted; [`NEVER`]: the medium is busy.
    pub(super) begin: Time,
    slot: Span,
    /// It has had a backoff.
    is_in_use: bool,
    /// Backoffs that go by this count, without a frame or with one.
    pub(super) members: u32,
    /// Backoffs with a frame, as slot and radio; the first to leave is at the end.
    waiting: Vec<u64>,
}

/// Bits of a radio's number below that of its slot.
const RADIO_BITS: u32 = u16::BITS;

fn key(slot: u64, radio: RadioId) -> u64 {
    slot << RADIO_BITS | u64::from(radio.0)
}

impl Queue {
    /// An empty queue, with slots of that length.
    pub(super) fn new(slot: Span) -> Queue {
        Queue { counted: 0, begin: NEVER, slot, is_in_use: false, members: 0, waiting: Vec::new() }
    }
    /// End of a backoff that ends with this slot, if the medium stays idle.
    #[inline]
    pub(super) fn end_of(&self, slot: u64) -> Time {
        if self.begin == NEVER { NEVER } else { self.begin + self.slot * (slot - self.counted) }
    }
    /// Puts in a frame of a radio that may leave in that slot.
    pub(super) fn put(&mut self, slot: u64, radio: RadioId) {
        let key = key(slot, radio);
        let at = self.waiting.partition_point(|&other| other > key);
        self.waiting.insert(at, key);
    }
    /// Takes a frame out of the queue.
    pub(super) fn remove(&mut self, slot: u64, radio: RadioId) {
        let key = key(slot, radio);
        // Mostly the frame is the next one.
        if self.waiting.last() == Some(&key) {
            self.waiting.pop();
            return;
        }
        let at = self.waiting.partition_point(|&other| other > key);
        debug_assert_eq!(self.waiting.get(at), Some(&key));
        self.waiting.remove(at);
    }
    /// Slot and radio of the frame that may leave first; ties go to the lower number.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, RadioId)> {
        let key = *self.waiting.last()?;
        Some((key >> RADIO_BITS, RadioId(low16(key))))
    }
}

impl OneCell {
    /// Time and radio of the first frame in the queues that may leave; ties go to the lower number.
    pub(super) fn first_queued(&self) -> (Time, RadioId) {
        let mut first = (NEVER, RadioId(0));
        if self.queues_start == NEVER {
            return first;
        }
        for &kind in &self.in_use {
            let queue = &self.queues[usize::from(kind)];
            if let Some((slot, radio)) = queue.first() {
                first = first.min((queue.end_of(slot), radio));
            }
        }
        first
    }

    /// Puts the backoffs of a radio that shares the common view into the queues, if each of them
    /// ends there at the same time. A stopped backoff always does.
    pub(super) fn put_in(&mut self, categories: &mut Categories, r: usize) {
        for ac in bits(categories.pending[r]) {
            let a = &categories.access[r][ac];
            let queue = &mut self.queues[usize::from(a.kind)];
            if !queue.is_in_use {
                // Most params never have a backoff: nothing is done for their queues.
                queue.is_in_use = true;
                queue.begin = categories.params[usize::from(a.kind)].start_after(self.queues_start, self.shared.hold);
                self.in_use.push(a.kind);
            }
            if a.ready_at != NEVER && a.ready_at != queue.end_of(queue.counted + u64::from(a.backoff)) {
                return;
            }
        }
        categories.set_ready(r, NEVER);
        for ac in bits(categories.pending[r]) {
            let a = &mut categories.access[r][ac];
            let queue = &mut self.queues[usize::from(a.kind)];
            let slot = queue.counted + u64::from(a.backoff);
            self.due[r][ac] = slot;
            queue.members += 1;
            a.ready_at = NEVER;
            if a.has_frame {
                queue.put(slot, RadioId::at(r));
                // If `next` is out of date, the search for it covers this frame anyway.
                categories.next = categories.next.min((queue.end_of(slot), RadioId::at(r)));
            }
        }
        self.is_queued[r] = true;
        self.unsynchronised.remove(r);
    }

    /// Takes the backoffs of a radio out of the queues, if they are there; each has an instant
    /// again.
    #[inline]
    pub(super) fn take_out(&mut self, categories: &mut Categories, r: usize) {
        if self.is_queued[r] {
            self.take_out_queued(categories, r);
        }
    }

    fn take_out_queued(&mut self, categories: &mut Categories, r: usize) {
        self.is_queued[r] = false;
        let mut ready = NEVER;
        for ac in bits(categories.pending[r]) {
            let (a, due) = (&mut categories.access[r][ac], self.due[r][ac]);
            let queue = &mut self.queues[usize::from(a.kind)];
            queue.members -= 1;
            a.backoff = saturate32(due.saturating_sub(queue.counted));
            if !a.has_frame && a.backoff == 0 {
                // It was over before a transmission.
                categories.pending[r] &= !(1 << ac);
                continue;
            }
            a.ready_at = queue.end_of(due);
            if a.has_frame {
                queue.remove(due, RadioId::at(r));
                ready = ready.min(a.ready_at);
            }
        }
        self.unsynchronised.put(r, categories.pending[r] != 0 && self.is_shared(r));
        categories.set_ready(r, ready);
    }

    /// The medium becomes busy in the common view. A frame that is due before its radio can sense
    /// the transmission is sent nevertheless.
    pub(super) fn stop_shared(&mut self, categories: &mut Categories, now: Time, counted: &mut Counted) {
        if self.queues_start == NEVER && self.unsynchronised.is_empty() {
            return;
        }
        loop {
            let (at, radio) = self.first_queued();
            if at > now + categories.sensing {
                break;
            }
            self.take_out_queued(categories, radio.index());
        }
        for word in 0..self.unsynchronised.word_count() {
            for h in self.unsynchronised.of_word(word) {
                self.freeze_as(categories, h, now, false, counted);
            }
        }
        self.queues_start = NEVER;
        for &number in &self.in_use {
            let (kind, queue) = (&categories.params[usize::from(number)], &mut self.queues[usize::from(number)]);
            let begin = std::mem::replace(&mut queue.begin, NEVER);
            if queue.members > 0 && now >= begin {
                queue.counted += u64::from(counted.slots(number, kind, begin, now));
            }
        }
        for word in 0..self.unsynchronised.word_count() {
            for h in self.unsynchronised.of_word(word) {
                self.put_in(categories, h);
            }
        }
        categories.is_stale = true;
    }

    /// The medium becomes idle in the common view.
    pub(super) fn start_shared(&mut self, categories: &mut Categories) {
        let shared = self.shared;
        self.queues_start = (shared.idle_since + shared.extra).max(shared.nav);
        for &number in &self.in_use {
            let kind = &categories.params[usize::from(number)];
            self.queues[usize::from(number)].begin = kind.start_after(self.queues_start, shared.hold);
        }
        for word in 0..self.unsynchronised.word_count() {
            for h in self.unsynchronised.of_word(word) {
                categories.thaw::<true>(h, &shared);
            }
        }
        categories.is_stale = true;
    }
}
