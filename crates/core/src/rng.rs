//! Randomness: one independent generator per (run seed, component, purpose), so that adding a component or a draw in one
//! place never changes what another place sees.

use rand::SeedableRng;
pub use rand_xoshiro::Xoshiro256PlusPlus as Rng;

/// What a stream is used for. The discriminants are part of the result format: never renumber, only add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    LinkLoss = 1,
    Queue = 2,
    StartTime = 3,
    TransferSize = 4,
    ThinkTime = 5,
    Pacing = 6,
    CongestionControl = 7,
    LinkDelay = 8,
    Backoff = 9,
    AirErrors = 10,
    RateControl = 11,
    Signal = 12,
    AirQueue = 13,
    TimerPhase = 14,
    Capture = 15,
    LinkReorder = 16,
    Coop = 17,
}

/// The generator for one use. `component` is the scenario-fixed index of what draws (link, flow ...).
pub fn stream(run_seed: u64, component: u64, purpose: Purpose) -> Rng {
    // Three rounds of SplitMix64 keep streams of neighbouring components unrelated.
    let mut state = splitmix(run_seed);
    state = splitmix(state ^ component);
    Rng::seed_from_u64(splitmix(state ^ ((purpose as u64) << 32)))
}

/// A coin that lands alike for the same arguments: for choices that need no stream of their own.
pub fn coin(run_seed: u64, component: u64, time_ns: u64) -> bool {
    splitmix(splitmix(run_seed ^ (component << 32)) ^ time_ns) & 1 == 1
}

/// SplitMix64's output function: a bijection that spreads every input bit over the whole word.
pub(crate) fn splitmix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
