//! [`prefetch`]: state that is needed soon is loaded into the caches.

/// Loads what `read` was read from, and changes nothing.
///
/// In a large world nearly every packet meets links, flows and timers that no cache holds. Loads
/// for one packet wait for each other. Loads for a batch of packets overlap, so drivers of many
/// machines read a little of each ahead of its turn. An instruction for it needs `unsafe`, so a
/// read stands in, whose result the compiler may not drop. Read one field of each cache line.
#[inline(always)]
pub fn prefetch<T>(read: T) {
    std::hint::black_box(read);
}
