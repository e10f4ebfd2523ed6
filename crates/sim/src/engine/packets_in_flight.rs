//! Packets in flight on all links, ordered by arrival time; then the one that came to its link
//! last; then by place.
//!
//! Where access links have the bottleneck's rate, ties between arrivals are the rule, not the
//! exception: all that left the bottleneck comes back in step with its line. So the second key
//! matters. In ns-2, which takes events of the same instant in the order in which they were
//! scheduled, a packet that an ACK has just let go is ahead of one that waited behind others at its
//! access link, whose turn was scheduled later than that ACK. The same here: of two packets that
//! arrive together, the one with the shorter time on its link is first. The reverse, or a coin for
//! each packet, nearly doubles the timeouts of a hundred flows in slow start (docs/validation.md).
//!
//! A place is a hop of one path, and packets on one line follow each other by at least a
//! nanosecond, so no two packets are ever equal. An order that does not depend on when a packet was
//! put in flight is what lets a link be computed ahead of time (see [`crate::network::link`])
//! without changing a result.
//!
//! Two structures side by side, and the earlier of their heads is next. **FIFOs** are queues of
//! packets known to arrive in the order in which they are sent: those on one link, or those on idle
//! links of the same rate and delay. Appending and taking out cost a few instructions and touch
//! memory in sequence. Packets that would arrive out of a FIFO's order, and those without a FIFO,
//! go to the **calendar**: a ring of buckets, each `2^shift` ns wide. Inserting appends to the
//! bucket of the arrival time, so packets with the same delay land next to each other; a bucket is
//! sorted when its turn comes. Arrivals beyond the ring wait in a heap. The width of a bucket
//! follows the density of arrivals: it changes how fast this runs and never what comes out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use airtcp_core::convert::{index, low_index, low16, low32};
use airtcp_core::packet::PacketId;
use airtcp_core::units::{Span, Time};

use super::Ring;
use super::timeline::{GROUP, first};
use crate::path::Next;

/// A packet that reaches the far end of a link at `time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InFlight {
    /// When.
    pub time: Time,
    /// Which packet.
    pub packet: PacketId,
    /// Place that it reaches, or its loss. Carried here, with the size, so that passing an idle
    /// link does not touch the packet itself.
    pub next: Next,
    /// Bytes at the IP layer.
    pub size: u16,
    /// If the link is fused with the one before it: packets that waited there when this one had
    /// come, itself included.
    pub depth: u16,
    /// Time since it came to the link, waiting included, ns; [`u32::MAX`]: that or more.
    pub flight_ns: u32,
}

impl InFlight {
    /// Key that packets are ordered by.
    #[inline]
    pub(crate) fn key(&self) -> u128 {
        u128::from(self.time.as_ns()) << 64 | u128::from(self.flight_ns) << 32 | u128::from(self.next.rank())
    }
}

/// A packet in flight as three registers hold it. Calls off the frequent way take it in this form:
/// for a reference to an [`InFlight`], the frequent way would put that together in memory.
#[derive(Clone, Copy)]
struct Packed {
    time_ns: u64,
    packet_and_next: u64,
    flight_depth_and_size: u64,
}

impl Packed {
    #[inline(always)]
    fn of(entry: &InFlight) -> Packed {
        let InFlight { time, packet, next, size, depth, flight_ns } = *entry;
        Packed {
            time_ns: time.as_ns(),
            packet_and_next: u64::from(packet.0) << 32 | u64::from(next.rank()),
            flight_depth_and_size: u64::from(flight_ns) << 32 | u64::from(depth) << 16 | u64::from(size),
        }
    }
    fn time(self) -> Time {
        Time::from_ns(self.time_ns)
    }
    fn packet(self) -> PacketId {
        PacketId(low32(self.packet_and_next >> 32))
    }
    fn next(self) -> Next {
        Next::of_rank(low32(self.packet_and_next))
    }
    fn flight_ns(self) -> u32 {
        low32(self.flight_depth_and_size >> 32)
    }
    fn depth(self) -> u16 {
        low16(self.flight_depth_and_size >> 16)
    }
    fn size(self) -> u16 {
        low16(self.flight_depth_and_size)
    }
    #[inline(always)]
    fn unpack(self) -> InFlight {
        InFlight {
            time: self.time(),
            packet: self.packet(),
            next: self.next(),
            size: self.size(),
            depth: self.depth(),
            flight_ns: self.flight_ns(),
        }
    }
}

/// Most FIFOs that [`PacketsInFlight`] will have.
pub const MAX_FIFOS: usize = 15;

/// Two groups of times, for the FIFOs and the calendar.
const _: () = assert!(MAX_FIFOS < 2 * GROUP);

/// Packets that [`PacketsInFlight::look_ahead`] gives at a time.
const BATCH: usize = 16;

/// A FIFO of packets that share a delay, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayFifo(u8);

impl Default for DelayFifo {
    fn default() -> DelayFifo {
        DelayFifo::NONE
    }
}

impl DelayFifo {
    /// For packets without a FIFO.
    pub const NONE: DelayFifo = DelayFifo(u8::MAX);

    /// The FIFO of that number; none beyond [`MAX_FIFOS`].
    pub fn new(number: usize) -> DelayFifo {
        u8::try_from(number).ok().filter(|_| number < MAX_FIFOS).map_or(DelayFifo::NONE, DelayFifo)
    }
    /// The FIFO after it if `moves`, and where there is none, none.
    #[inline]
    pub(crate) fn next_if(self, moves: bool) -> DelayFifo {
        DelayFifo(self.0.saturating_add(u8::from(moves)))
    }
    #[inline]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// All packets in flight.
#[derive(Debug)]
pub struct PacketsInFlight {
    /// Time of the earliest arrival; [`Time::NEVER`] when there is none.
    head_time: Time,
    /// Number of the FIFO that has it, or of the calendar beyond the last FIFO. One of them where
    /// several have that time.
    head: usize,
    /// Times of the heads of all FIFOs and, after them, of the calendar; [`Time::NEVER`] where
    /// there is none.
    heads: [[Time; GROUP]; 2],
    fifos: Vec<Queue>,
    calendar: Calendar,
    /// The last arrival.
    now: Time,
}

/// Packets in a FIFO.
#[derive(Debug)]
struct Queue {
    queue: Ring<InFlight>,
    /// Time of the last entry.
    back: Time,
    /// Packets taken out so far.
    taken: usize,
}

impl PacketsInFlight {
    /// No packet in flight, and this many FIFOs.
    pub fn new(fifos: usize) -> PacketsInFlight {
        let fifos = fifos.min(MAX_FIFOS);
        PacketsInFlight {
            head_time: Time::NEVER,
            head: fifos,
            heads: [[Time::NEVER; GROUP]; 2],
            fifos: (0..fifos).map(|_| Queue { queue: Ring::default(), back: Time::ZERO, taken: 0 }).collect(),
            calendar: Calendar::new(),
            now: Time::ZERO,
        }
    }

    /// Packets in flight.
    pub fn len(&self) -> usize {
        self.calendar.len() + self.fifos.iter().map(|l| l.queue.len()).sum::<usize>()
    }
    /// True if nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the next packet arrives; [`Time::NEVER`] if none is in flight.
    #[inline]
    pub fn head_time(&self) -> Time {
        self.head_time
    }

    /// Puts a packet in flight, into `fifo` if that is one and if it arrives after what is there.
    /// It must not arrive before the last one that was taken out. The FIFO changes nothing but the
    /// cost.
    #[inline(always)]
    pub fn insert(&mut self, entry: InFlight, fifo: DelayFifo) {
        let time = entry.time;
        debug_assert!(time >= self.now, "a packet arrives in the past");
        let into = match self.fifos.get_mut(fifo.index()) {
            Some(l) if l.back < time || (l.back == time && l.goes_last(entry.key())) => {
                l.back = time;
                l.queue.push_back(entry);
                if l.queue.len() > 1 {
                    return;
                }
                fifo.index()
            }
            _ => {
                self.calendar.insert_packed(Packed::of(&entry), self.now);
                self.fifos.len()
            }
        };
        // Only the head of a FIFO or the calendar can be the next of all.
        let head = &mut self.heads[into / GROUP % 2][into % GROUP];
        *head = time.min(*head);
        if time < self.head_time {
            self.head_time = time;
            self.head = into;
        }
    }

    /// Once every [`BATCH`] packets of a FIFO: the next batch of them and the one after it, of the
    /// fifo that [`Self::pop`] takes from.
    #[inline]
    pub fn look_ahead(&self) -> Option<[impl Iterator<Item = InFlight> + '_; 2]> {
        let fifo = self.fifos.get(self.head)?;
        if fifo.taken % BATCH != 0 {
            return None;
        }
        let end = fifo.queue.len().min(2 * BATCH);
        let batch = |from: usize, to: usize| (from.min(end)..to.min(end)).map(|i| *fifo.queue.at(i));
        Some([batch(0, BATCH), batch(BATCH, 2 * BATCH)])
    }

    /// Takes out the earliest arrival. Panics if there is none.
    #[inline(always)]
    pub fn pop(&mut self) -> InFlight {
        self.now = self.head_time;
        let from = self.head;
        let entry = self.take(from);
        let (mut best, mut head) = first(&self.heads[0]);
        if self.fifos.len() >= GROUP {
            let (time, i) = first(&self.heads[1]);
            if time < best {
                (best, head) = (time, GROUP + i);
            }
        }
        self.head = head;
        self.head_time = best;
        if best != entry.time {
            return entry;
        }
        self.settle_tie(Packed::of(&entry), from).unpack()
    }

    #[inline(always)]
    fn take(&mut self, from: usize) -> InFlight {
        let (entry, next) = if let Some(fifo) = self.fifos.get_mut(from) {
            fifo.taken = fifo.taken.wrapping_add(1);
            (fifo.queue.pop_front(), fifo.queue.front())
        } else {
            (self.calendar.pop(), self.calendar.head())
        };
        self.heads[from / GROUP % 2][from % GROUP] = next.map_or(Time::NEVER, |e| e.time);
        entry
    }

    /// Other packets arrive together with the one just taken out: gives the first of them all, and
    /// puts that one back if it is another.
    #[cold]
    #[inline(never)]
    fn settle_tie(&mut self, packed: Packed, from: usize) -> Packed {
        let taken = packed.unpack();
        let head = |i: usize| match self.fifos.get(i) {
            Some(fifo) => fifo.queue.front(),
            None => self.calendar.head(),
        };
        let tied = (0..=self.fifos.len()).filter(|&i| self.heads[i / GROUP % 2][i % GROUP] == taken.time);
        let Some((first, i)) = tied.filter_map(|i| Some((head(i)?.key(), i))).min() else { return packed };
        if taken.key() < first {
            return packed;
        }
        let entry = self.take(i);
        if let Some(fifo) = self.fifos.get_mut(from) {
            fifo.queue.unpop(taken);
            fifo.taken = fifo.taken.wrapping_sub(1);
        } else {
            self.calendar.insert(taken, self.now);
        }
        self.heads[from / GROUP % 2][from % GROUP] = taken.time;
        self.head = from;
        Packed::of(&entry)
    }

    /// All packets in flight, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.fifos.iter().flat_map(|fifo| fifo.queue.iter()).chain(self.calendar.iter())
    }
}

impl Queue {
    #[cold]
    fn goes_last(&self, key: u128) -> bool {
        self.queue.back().is_none_or(|last| last.key() < key)
    }
}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &InFlight) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlight {
    /// By time, then by flight, longest first, then by place.
    fn cmp(&self, other: &InFlight) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

const MIN_BUCKETS: usize = 256;
const MAX_BUCKETS: usize = 1 << 20;
/// Arrivals per bucket to aim for.
const TARGET_PER_BUCKET: u64 = 8;
/// A review of the width takes place after this many arrivals, or as many as are in flight if that
/// is more.
const REVIEW_EVERY: u64 = 1024;

#[derive(Debug)]
struct Calendar {
    /// The bucket whose turn it is, sorted; what precedes `cursor` is gone.
    current: Vec<InFlight>,
    cursor: usize,
    /// Number of the current bucket: its times shifted right by `shift`.
    current_day: u64,
    shift: u32,
    /// The ring holds days `base_day .. base_day + buckets.len()`. `base_day` is the day of the
    /// last arrival taken out.
    base_day: u64,
    buckets: Vec<Vec<InFlight>>,
    /// A bit per bucket: not empty.
    occupied: Vec<u64>,
    in_buckets: usize,
    /// Arrivals beyond the ring.
    far: BinaryHeap<Reverse<InFlight>>,
    /// Emptied buckets' memory, reused last-in first-out so that it stays in cache.
    spare: Vec<Vec<InFlight>>,
    /// For the review: arrivals until the next one, the time of the last, the longest flight since.
    until_review: u64,
    reviewed_at: Time,
    reviewed_period: u64,
    longest: Span,
    /// The time up to which all arrivals have been taken out.
    now: Time,
}

impl Calendar {
    fn new() -> Calendar {
        Calendar {
            current: Vec::new(),
            cursor: 0,
            current_day: 0,
            shift: 14,
            base_day: 0,
            buckets: vec![Vec::new(); MIN_BUCKETS],
            occupied: vec![0; MIN_BUCKETS / 64],
            in_buckets: 0,
            far: BinaryHeap::new(),
            spare: Vec::new(),
            until_review: REVIEW_EVERY,
            reviewed_at: Time::ZERO,
            reviewed_period: REVIEW_EVERY,
            longest: Span::ZERO,
            now: Time::ZERO,
        }
    }

    /// The number of the bucket of a time.
    #[inline]
    fn day(&self, time: Time) -> u64 {
        time.as_ns() >> self.shift
    }
    fn len(&self) -> usize {
        self.current.len() - self.cursor + self.in_buckets + self.far.len()
    }
    fn iter(&self) -> impl Iterator<Item = &InFlight> {
        let far = self.far.iter().map(|Reverse(entry)| entry);
        self.current[self.cursor..].iter().chain(self.buckets.iter().flatten()).chain(far)
    }
    /// The earliest arrival.
    #[inline]
    fn head(&self) -> Option<&InFlight> {
        self.current.get(self.cursor).or_else(|| self.far.peek().map(|Reverse(e)| e))
    }

    #[inline(never)]
    fn insert_packed(&mut self, packed: Packed, now: Time) {
        self.insert(packed.unpack(), now);
    }

    /// `now`: when the last arrival was, here or in a FIFO.
    fn insert(&mut self, entry: InFlight, now: Time) {
        let today = self.day(now);
        if today != self.base_day {
            self.set_base(today);
            self.find_head();
        }
        self.now = now;
        let day = self.day(entry.time);
        self.longest = self.longest.max(entry.time.since(now));
        if day > self.current_day && day - self.base_day < self.buckets.len() as u64 {
            self.push(day, entry);
            if self.cursor == self.current.len() {
                self.find_head();
            }
        } else {
            self.insert_slow(day, entry);
        }
    }

    #[inline]
    fn push(&mut self, day: u64, entry: InFlight) {
        let slot = low_index(day) & (self.buckets.len() - 1);
        let bucket = &mut self.buckets[slot];
        if bucket.capacity() == 0 {
            *bucket = self.spare.pop().unwrap_or_default();
        }
        if bucket.is_empty() {
            self.occupied[slot / 64] |= 1 << (slot % 64);
        }
        bucket.push(entry);
        self.in_buckets += 1;
    }

    /// Into the current bucket, before it, or beyond the ring.
    fn insert_slow(&mut self, day: u64, entry: InFlight) {
        if day - self.base_day >= self.buckets.len() as u64 {
            self.far.push(Reverse(entry));
        } else if self.cursor == self.current.len() {
            // Nothing is in hand: start afresh at this day.
            self.current.clear();
            self.cursor = 0;
            self.current.push(entry);
            self.current_day = day;
        } else if day == self.current_day {
            let at = self.current[self.cursor..].partition_point(|e| *e < entry);
            self.current.insert(self.cursor + at, entry);
        } else {
            // The current bucket was taken up in expectation of its turn, and something comes
            // first: put it back.
            debug_assert!(day < self.current_day && self.cursor == 0);
            let slot = low_index(self.current_day) & (self.buckets.len() - 1);
            debug_assert!(self.buckets[slot].is_empty());
            self.in_buckets += self.current.len();
            self.occupied[slot / 64] |= 1 << (slot % 64);
            let empty = std::mem::replace(&mut self.buckets[slot], std::mem::take(&mut self.current));
            self.current = if empty.capacity() > 0 { empty } else { self.spare.pop().unwrap_or_default() };
            self.current.push(entry);
            self.current_day = day;
        }
    }

    /// Takes out the earliest arrival. Panics if there is none.
    #[inline(never)]
    fn pop(&mut self) -> InFlight {
        if self.cursor == self.current.len() {
            return self.pop_far();
        }
        let entry = self.current[self.cursor];
        self.cursor += 1;
        self.now = entry.time;
        if self.base_day != self.current_day {
            self.set_base(self.current_day);
        }
        if self.cursor == self.current.len() {
            self.find_head();
        }
        self.until_review -= 1;
        if self.until_review == 0 {
            self.review();
        }
        entry
    }

    /// The ring is empty: the next arrival is the first of the heap.
    #[cold]
    fn pop_far(&mut self) -> InFlight {
        let Reverse(entry) = self.far.pop().expect("a packet is in flight");
        self.now = entry.time;
        let day = self.day(entry.time);
        self.current.clear();
        self.cursor = 0;
        self.current_day = day;
        self.set_base(day);
        self.find_head();
        entry
    }

    /// Moves the ring on, and into it what was beyond it.
    #[inline]
    fn set_base(&mut self, day: u64) {
        self.base_day = day;
        if !self.far.is_empty() {
            self.move_far_into_ring();
        }
    }

    fn move_far_into_ring(&mut self) {
        while let Some(&Reverse(entry)) = self.far.peek() {
            let day = self.day(entry.time);
            if day - self.base_day >= self.buckets.len() as u64 {
                break;
            }
            self.far.pop();
            if day == self.current_day {
                // Only when that bucket has just become the current one through the heap: in order
                // already.
                self.current.push(entry);
            } else {
                self.push(day, entry);
            }
        }
    }

    /// Makes the next bucket that holds something the current one. The current one is used up.
    fn find_head(&mut self) {
        if self.cursor < self.current.len() || self.in_buckets == 0 {
            return;
        }
        let mask = self.buckets.len() - 1;
        // Everything in the ring is later than the current day unless nothing was in hand: then it
        // may be anywhere.
        let from = low_index(self.base_day) & mask;
        let words = self.occupied.len();
        let mut word = from / 64;
        let mut bits = self.occupied[word] & (u64::MAX << (from % 64));
        while bits == 0 {
            word = (word + 1) % words;
            bits = self.occupied[word];
        }
        let slot = word * 64 + bits.trailing_zeros() as usize;
        self.occupied[word] &= !(1 << (slot % 64));
        let mut used = std::mem::replace(&mut self.current, std::mem::take(&mut self.buckets[slot]));
        used.clear();
        if used.capacity() > 0 {
            self.spare.push(used);
        }
        self.cursor = 0;
        self.in_buckets -= self.current.len();
        self.current_day = self.base_day + (slot.wrapping_sub(from) & mask) as u64;
        self.current.sort_unstable();
    }

    /// Fits the width of the buckets to the arrivals since the last review.
    #[cold]
    #[inline(never)]
    fn review(&mut self) {
        let gap = self.now.since(self.reviewed_at).as_ns() / self.reviewed_period;
        let ideal = u64::BITS - gap.saturating_mul(TARGET_PER_BUCKET).leading_zeros();
        let shift = if ideal.abs_diff(self.shift) > 1 { ideal.clamp(1, 40) } else { self.shift };
        let len = self.len() as u64;
        // Room for the longest flight, but not for a few stragglers at the price of many empty
        // buckets.
        let wanted = (self.longest.as_ns() >> shift).saturating_add(2).min((8 * len).max(MIN_BUCKETS as u64));
        let wanted = index(wanted.next_power_of_two()).clamp(MIN_BUCKETS, MAX_BUCKETS);
        if shift != self.shift || wanted > self.buckets.len() || 8 * wanted <= self.buckets.len() {
            self.rebuild(shift, wanted);
        }
        self.reviewed_at = self.now;
        self.reviewed_period = REVIEW_EVERY.max(len);
        self.until_review = self.reviewed_period;
        self.longest = Span::ZERO;
    }

    fn rebuild(&mut self, shift: u32, buckets: usize) {
        let mut all: Vec<InFlight> = Vec::with_capacity(self.len());
        all.extend_from_slice(&self.current[self.cursor..]);
        let from = low_index(self.base_day);
        for i in 0..self.buckets.len() {
            let slot = (from + i) & (self.buckets.len() - 1);
            all.append(&mut self.buckets[slot]);
        }
        let far = std::mem::take(&mut self.far);
        all.extend(far.into_iter().map(|Reverse(entry)| entry));
        self.current.clear();
        self.cursor = 0;
        self.in_buckets = 0;
        self.shift = shift;
        self.buckets.iter_mut().for_each(|b| self.spare.extend(Some(std::mem::take(b)).filter(|b| b.capacity() > 0)));
        self.buckets.resize_with(buckets, Vec::new);
        self.occupied.clear();
        self.occupied.resize(buckets / 64, 0);
        self.base_day = self.day(self.now);
        self.current_day = self.base_day;
        for entry in all {
            let day = self.day(entry.time);
            if day - self.base_day < buckets as u64 { self.push(day, entry) } else { self.far.push(Reverse(entry)) }
        }
        self.spare.truncate(self.len());
        self.find_head();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{DelayFifo, InFlight, Next, Packed, PacketId, PacketsInFlight, Time};
    use crate::path::Place;
    use proptest::prelude::*;

    #[test]
    fn an_entry_is_24_bytes() {
        assert_eq!(size_of::<InFlight>(), 24);
    }

    proptest! {
        #[test]
        fn packing_loses_nothing(
            (time, packet, rank) in any::<(u64, u32, u32)>(),
            (size, depth, flight_ns) in any::<(u16, u16, u32)>(),
        ) {
            let (time, packet, next) = (Time::from_ns(time), PacketId(packet), Next::of_rank(rank));
            let entry = InFlight { time, packet, next, size, depth, flight_ns };
            prop_assert_eq!(Packed::of(&entry).unpack(), entry);
        }
    }

    fn in_flight(time: u64, n: u32) -> InFlight {
        // Places in an order unlike that of insertion.
        let place = n.wrapping_mul(0x9E37_79B1);
        let next = Next::reaches(Place::new(place));
        InFlight {
            time: Time::from_ns(time),
            packet: PacketId(n),
            next,
            size: 40,
            depth: n as u16,
            flight_ns: place >> 7 & 3,
        }
    }
    fn key(e: &InFlight) -> (u64, u32, u32) {
        (e.time.as_ns(), e.flight_ns, e.next.rank())
    }

    /// Insertions and removals against an ordered map.
    fn check(steps: impl IntoIterator<Item = (u8, u64)>) {
        let mut packets = PacketsInFlight::new(3);
        let mut model = BTreeMap::new();
        let mut now = 0;
        for (inserted, (takes, ahead)) in (0u32..).zip(steps) {
            let entry = in_flight(now + ahead, inserted);
            model.insert(key(&entry), inserted);
            // FIFOs that fit, FIFOs that do not, and none.
            let fifo = match ahead {
                5_000_000 => DelayFifo::new(0),
                90_000_000 => DelayFifo::new(1),
                _ if inserted % 3 == 0 => DelayFifo::new(2),
                _ => DelayFifo::NONE,
            };
            packets.insert(entry, fifo);
            for _ in 0..takes {
                let expected = model.pop_first();
                assert_eq!(packets.head_time(), expected.map_or(Time::NEVER, |((t, ..), _)| Time::from_ns(t)));
                let Some(((time, ..), id)) = expected else { break };
                assert_eq!(packets.pop(), in_flight(time, id));
                now = time;
            }
            assert_eq!(packets.len(), model.len());
            if inserted % 256 == 0 {
                let mut all: Vec<_> = packets.iter().map(key).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(model.keys().copied()));
            }
        }
        while let Some(((time, ..), id)) = model.pop_first() {
            assert_eq!(packets.head_time(), Time::from_ns(time));
            assert_eq!(packets.pop().packet.0, id);
        }
        assert!(packets.is_empty());
        assert_eq!(packets.head_time(), Time::NEVER);
    }

    fn delay() -> impl Strategy<Value = u64> {
        prop_oneof![
            4 => 0u64..4,
            4 => Just(5_000_000u64),
            2 => Just(90_000_000u64),
            2 => 0u64..100_000,
            2 => 0u64..10_000_000_000,
            1 => Just(u64::MAX / 4),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn agrees_with_an_ordered_map(steps in prop::collection::vec((0u8..3, delay()), 0..6000)) {
            check(steps.into_iter().scan(0u32, |far, (takes, ahead)| {
                // Only a few can be that far away before time itself runs out.
                let ahead = if ahead == u64::MAX / 4 { *far += 1; if *far > 2 { 7 } else { ahead } } else { ahead };
                Some((takes, ahead))
            }));
        }
    }

    #[test]
    fn widths_adapt_to_dense_and_sparse_phases_without_changing_the_order() {
        let dense = (0..40_000u64).map(|i| (u8::from(i > 2000), 100_000 + i % 7));
        let sparse = (0..5_000u64).map(|i| (1, 50_000_000 + i * 13 % 1000));
        let bursts = (0..20_000u64).map(|i| (if i % 100 == 0 { 100 } else { 0 }, 1_000_000));
        check(dense.chain(sparse).chain(bursts));
    }
}
