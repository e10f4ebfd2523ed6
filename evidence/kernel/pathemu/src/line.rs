//! The bottleneck: a drop-tail queue, a line of given rate, and losses on the line whose sequence
//! has a seed.

use std::collections::VecDeque;

/// Which packets the line loses: the n-th draw of a seed is for the n-th packet sent, whatever the
/// queue dropped.
///
/// The draws are those of airtcp's first link for the same seed (`crates/core/src/rng.rs`: the
/// stream of component 0 and purpose `LinkLoss`, xoshiro256++ filled by SplitMix64), so that both
/// lines lose the same packets of their counts.
pub struct Losses {
    chance: f64,
    state: [u64; 4],
}

fn splitmix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Losses {
    pub fn new(seed: u64, chance: f64) -> Losses {
        const COMPONENT: u64 = 0;
        const LINK_LOSS: u64 = 1;
        let stream = splitmix(splitmix(splitmix(seed) ^ COMPONENT) ^ (LINK_LOSS << 32));
        let word = |n: u64| splitmix(stream.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        Losses { chance, state: [word(0), word(1), word(2), word(3)] }
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// True if the next packet is lost.
    pub fn draw(&mut self) -> bool {
        // As in airtcp, no draw without losses.
        self.chance > 0.0 && ((self.next() >> 11) as f64 / (1u64 << 53) as f64) < self.chance
    }
}

#[derive(Default, Clone, Copy)]
pub struct Counters {
    pub arrived: u64,
    pub dropped: u64,
    /// Lost on the line, after transmission.
    pub lost: u64,
    /// Packets and bytes whose transmission has started.
    pub sent: u64,
    pub sent_bytes: u64,
    /// Total waiting time of those packets; its slope is the mean number waiting.
    pub waited_ns: u64,
}

/// A packet between its arrival and the start of its transmission.
struct Waiting {
    start_ns: u64,
    arrival_ns: u64,
    bytes: u64,
}

pub struct Bottleneck {
    pub rate_bit_per_s: u64,
    pub limit_packets: u64,
    pub limit_bytes: u64,
    losses: Losses,
    free_ns: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    pub count: Counters,
}

pub enum Fate {
    Dropped,
    Lost,
    /// The last bit leaves the line's near end at this time.
    Sent(u64),
}

impl Bottleneck {
    /// `rate_bit_per_s` of 0: no time on the line.
    pub fn new(rate_bit_per_s: u64, limit_packets: u64, limit_bytes: u64, losses: Losses) -> Bottleneck {
        Bottleneck {
            rate_bit_per_s,
            limit_packets,
            limit_bytes,
            losses,
            free_ns: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            count: Counters::default(),
        }
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Moves packets whose transmission has started by `now` out of the queue.
    pub fn advance(&mut self, now: u64) {
        while let Some(w) = self.waiting.front() {
            if w.start_ns > now {
                break;
            }
            self.count.sent += 1;
            self.count.sent_bytes += w.bytes;
            self.count.waited_ns += w.start_ns - w.arrival_ns;
            self.waiting_bytes -= w.bytes;
            self.waiting.pop_front();
        }
    }

    pub fn arrive(&mut self, now: u64, bytes: u64) -> Fate {
        self.advance(now);
        self.count.arrived += 1;
        let idle = self.free_ns <= now;
        if !idle && (self.waiting.len() as u64 >= self.limit_packets || self.waiting_bytes + bytes > self.limit_bytes) {
            self.count.dropped += 1;
            return Fate::Dropped;
        }
        let start_ns = self.free_ns.max(now);
        self.free_ns = start_ns + (bytes * 8 * 1_000_000_000).checked_div(self.rate_bit_per_s).unwrap_or(0);
        self.waiting.push_back(Waiting { start_ns, arrival_ns: now, bytes });
        self.waiting_bytes += bytes;
        self.advance(now);
        if self.losses.draw() {
            self.count.lost += 1;
            return Fate::Lost;
        }
        Fate::Sent(self.free_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(limit_packets: u64) -> Bottleneck {
        Bottleneck::new(12_000_000, limit_packets, u64::MAX, Losses::new(1, 0.0))
    }

    #[test]
    fn packets_leave_one_after_the_other_and_the_limit_leaves_out_the_one_on_the_line() {
        // 1500 bytes at 12 Mbit/s take 1 ms.
        let mut l = line(2);
        let done: Vec<_> = (0..4).map(|_| l.arrive(1_000_000, 1500)).collect();
        let sent: Vec<_> = done.iter().map(|f| if let Fate::Sent(t) = f { *t } else { 0 }).collect();
        assert_eq!(sent, [2_000_000, 3_000_000, 4_000_000, 0]);
        assert_eq!((l.count.arrived, l.count.dropped, l.count.sent), (4, 1, 1));
        l.advance(3_000_000);
        assert_eq!((l.count.sent, l.count.waited_ns, l.waiting()), (3, 3_000_000, 0));
    }

    #[test]
    fn no_room_to_wait_still_serves_an_idle_line() {
        let mut l = line(0);
        assert!(matches!(l.arrive(0, 1500), Fate::Sent(1_000_000)));
        assert!(matches!(l.arrive(999_999, 1500), Fate::Dropped));
        assert!(matches!(l.arrive(1_000_000, 1500), Fate::Sent(2_000_000)));
    }

    /// Datagrams that airtcp 0.1 loses on its first link, with a chance of 0.3 each:
    /// `tests/test_kernel_bench.py` compares the two without this list.
    #[test]
    fn a_seed_has_its_sequence_of_losses() {
        let lost = |seed| {
            let mut losses = Losses::new(seed, 0.3);
            (0..24).map(|_| if losses.draw() { 'x' } else { '.' }).collect::<String>()
        };
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
        let n = 100_000;
        let mut losses = Losses::new(7, 0.02);
        let share = (0..n).filter(|_| losses.draw()).count() as f64 / f64::from(n);
        assert!((share - 0.02).abs() < 4.0 * (0.02f64 * 0.98 / f64::from(n)).sqrt(), "{share}");
    }

    #[test]
    fn a_drop_by_the_queue_uses_up_no_draw() {
        let fates = |limit| {
            let mut l = Bottleneck::new(12_000_000, limit, u64::MAX, Losses::new(3, 0.5));
            (0..64).map(|n| l.arrive(n * 400_000, 1500)).collect::<Vec<_>>()
        };
        let on_the_line = |fates: Vec<Fate>| {
            let passed = fates.into_iter().filter(|f| !matches!(f, Fate::Dropped));
            passed.take(20).map(|f| matches!(f, Fate::Lost)).collect::<Vec<_>>()
        };
        assert_eq!(on_the_line(fates(1)), on_the_line(fates(1000)));
    }
}
