//! [`prefetch`]: state that is needed soon is loaded into the caches.

/// Loads what `read` was read from, and changes nothing.
///
/// In a large world nearly every packet meets links, flows and timers that no cache holds. Loads
/// for one packet wait for each other. Loads for a batch of packets overlap, so drivers of many
/// machines read a little of each ahead of its turn. An instruction for it needs `unsafe`, so a
/// read stands in, whose result the compiler may not drop. Read one field of each cache line.
///
/// Without these reads 10 000 TCP flows over one line take 10 % more processor time (row
/// `wired_10000` of `bench/engines.py`, cut to 0.7 s; median of 21 pairs of runs on a busy
/// machine). Without those of receivers and interfaces alone it is 4 % more, without those of
/// senders 1 %. Ahead of packets from the air such a read gains nothing (row `campus`), so there is
/// none.
#[inline(always)]
pub fn prefetch<T>(read: T) {
    std::hint::black_box(read);
}
