//! Randomness: one independent generator per (run seed, component, purpose), so that adding a
//! component or a draw in one place never changes what another place sees.
//!
//! No other way leads to a generator: it has no seed of its own to give, and it cannot be copied.
//! The distributions are here and not from a crate because their logarithms must be those of
//! `libm`: `rand_distr` takes the platform's as soon as any crate of a build turns on the `std`
//! feature of `num-traits`, and then two machines draw different numbers.

use std::convert::Infallible;

use rand::{RngExt, SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::units::Time;

/// Use of a stream. The discriminants are part of the result format: never renumber, only add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Packets lost on a line.
    LinkLoss = 1,
    /// Drops, marks and hashes of a queue discipline.
    Queue = 2,
    /// When flows start.
    StartTime = 3,
    /// Sizes of transfers.
    TransferSize = 4,
    /// Pauses between transfers.
    ThinkTime = 5,
    /// The pacer of a connection.
    Pacing = 6,
    /// The congestion control of a connection.
    CongestionControl = 7,
    /// Delays of the lines of a group.
    LinkDelay = 8,
    /// Backoffs of a station.
    Backoff = 9,
    /// Which frames arrive in error.
    AirErrors = 10,
    /// Trials of a rate control.
    RateControl = 11,
    /// Changes of a signal.
    Signal = 12,
    /// The queue before a radio.
    AirQueue = 13,
    /// Phases of timers.
    TimerPhase = 14,
    /// Which of two frames a receiver follows.
    Capture = 15,
    /// Packets held back on a line.
    LinkReorder = 16,
    /// The cooperative daemon.
    Coop = 17,
    /// mac80211's queue of one receiver and access category.
    SessionQueue = 18,
    /// Which of an arrival and a departure in the same instant comes first.
    LinkTie = 19,
}

impl Purpose {
    /// Every purpose, in the order of the discriminants.
    pub const ALL: [Purpose; 19] = {
        let mut all = [Purpose::LinkLoss; 19];
        let mut n = 1;
        while let Some(next) = all[n - 1].next() {
            all[n] = next;
            n += 1;
        }
        assert!(n == all.len());
        all
    };

    /// The one after this, for [`Purpose::ALL`]. A new purpose does not compile before it has its
    /// place here.
    const fn next(self) -> Option<Purpose> {
        use Purpose::*;
        match self {
            LinkLoss => Some(Queue),
            Queue => Some(StartTime),
            StartTime => Some(TransferSize),
            TransferSize => Some(ThinkTime),
            ThinkTime => Some(Pacing),
            Pacing => Some(CongestionControl),
            CongestionControl => Some(LinkDelay),
            LinkDelay => Some(Backoff),
            Backoff => Some(AirErrors),
            AirErrors => Some(RateControl),
            RateControl => Some(Signal),
            Signal => Some(AirQueue),
            AirQueue => Some(TimerPhase),
            TimerPhase => Some(Capture),
            Capture => Some(LinkReorder),
            LinkReorder => Some(Coop),
            Coop => Some(SessionQueue),
            SessionQueue => Some(LinkTie),
            LinkTie => None,
        }
    }
}

/// Name of a stream. Its owner opens it once and does not share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    seed: u64,
}

impl Stream {
    /// The stream for one use. `component` is the scenario-fixed index of what draws (link, flow
    /// ...).
    pub fn new(run_seed: u64, component: u64, purpose: Purpose) -> Stream {
        // Three rounds of SplitMix64 keep streams of neighbouring components unrelated.
        let mut state = splitmix(run_seed);
        state = splitmix(state ^ component);
        Stream { seed: splitmix(state ^ ((purpose as u64) << 32)) }
    }

    /// For a test of one part, which knows no run.
    #[cfg(test)]
    pub(crate) fn of_test(seed: u64) -> Stream {
        Stream { seed }
    }

    /// The same use again, for the `n`-th time: after a station came back, for example.
    pub fn again(self, n: u64) -> Stream {
        Stream { seed: splitmix(self.seed ^ n) }
    }

    /// The generator, at the start of its stream.
    pub fn open(self) -> Rng {
        #[allow(clippy::disallowed_methods)] // the one place that seeds
        Rng(Xoshiro256PlusPlus::seed_from_u64(self.seed))
    }
}

/// Names the streams of one component, for a component with several uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    run_seed: u64,
    component: u64,
}

impl Streams {
    /// Those of a component, see [`Stream::new`].
    pub fn of(run_seed: u64, component: u64) -> Streams {
        Streams { run_seed, component }
    }

    /// That for one of the uses.
    pub fn stream(self, purpose: Purpose) -> Stream {
        Stream::new(self.run_seed, self.component, purpose)
    }
}

/// The generator for one use, at the start of its stream: see [`Stream::new`].
pub fn stream(run_seed: u64, component: u64, purpose: Purpose) -> Rng {
    Stream::new(run_seed, component, purpose).open()
}

/// A random stream. Not `Clone`: two that draw from copies of one stream would draw the same.
#[derive(Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl TryRng for Rng {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }
    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }
    #[inline]
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(dst)
    }
}

impl Rng {
    /// In (0, 1]: its logarithm is finite.
    #[inline]
    fn above_zero(&mut self) -> f64 {
        1.0 - self.random::<f64>()
    }

    /// From the exponential distribution of mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -libm::log(self.above_zero())
    }

    /// From the normal distribution of mean 0 and variance 1, by Marsaglia's polar method.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.random::<f64>() - 1.0, 2.0 * self.random::<f64>() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * libm::log(square) / square).sqrt();
            }
        }
    }

    /// From the lognormal distribution; its logarithm has mean `mu` and standard deviation `sigma`.
    pub fn lognormal(&mut self, mu: f64, sigma: f64) -> f64 {
        libm::exp(mu + sigma * self.normal())
    }

    /// From the Pareto distribution: at least `scale`, and above `x` with probability `(scale /
    /// x)^shape`.
    pub fn pareto(&mut self, scale: f64, shape: f64) -> f64 {
        scale * libm::pow(self.above_zero(), -1.0 / shape)
    }
}

/// A coin that lands alike for the same arguments: for choices that are named by their time, and so
/// need no stream.
pub fn coin(run_seed: u64, component: u64, purpose: Purpose, at: Time) -> bool {
    splitmix(Stream::new(run_seed, component, purpose).seed ^ at.as_ns()) & 1 == 1
}

/// SplitMix64's output function: a bijection that spreads every input bit over the whole word.
pub(crate) fn splitmix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
