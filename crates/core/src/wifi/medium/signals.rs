//! Signals between pairs of radios, each for both directions.

use super::{NEVER, component};
use crate::rng::{Purpose, Rng, stream};
use crate::units::Time;
use crate::wifi::ids::RadioId;
use crate::wifi::phy::{Quality, Signal};

/// Two radios that can decode each other's frames. A radio senses other transmissions as a busy
/// medium only.
#[derive(Debug)]
pub struct PathSetup {
    /// The two radios. Frames of either draw their errors from random numbers of its own.
    pub ends: (RadioId, RadioId),
    /// The signal between them.
    pub signal: Signal,
}

/// A path and the end that sends on it: 0 or 1, as in [`PathSetup::ends`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Direction {
    path: u32,
    end: u8,
}

#[derive(Debug)]
pub(super) struct SignalPath {
    pub ends: (RadioId, RadioId),
    pub signal: Signal,
    chance: [Rng; 2],
}

/// Paths of one radio, in order, and an index of them by the other radio.
#[derive(Debug, Default)]
struct Peers {
    paths: Vec<u32>,
    /// The radio with the lowest number among those at the other ends.
    least: usize,
    /// By number of the other radio, from `least` on: the path, or [`NO_PATH`].
    to: Vec<u32>,
}

const NO_PATH: u32 = u32::MAX;

/// All signals of a medium.
#[derive(Debug)]
pub struct Signals {
    paths: Vec<SignalPath>,
    peers: Vec<Peers>,
    /// By radio: random numbers for the frames that it sends to all, opened with the first frame.
    group_chance: Vec<Option<Box<Rng>>>,
    /// By radio: the name of these random numbers.
    group_component: Vec<u64>,
    seed: u64,
}

impl Signals {
    /// `groups`: their random numbers for group-addressed frames get the first names, in this
    /// order.
    pub(super) fn new(radios: usize, setups: Vec<PathSetup>, groups: &[RadioId], channel: u32, seed: u64) -> Signals {
        let mut peers: Vec<Peers> = (0..radios).map(|_| Peers::default()).collect();
        for (path, setup) in (0..).zip(&setups) {
            let (a, b) = (setup.ends.0.index(), setup.ends.1.index());
            peers[a].paths.push(path);
            peers[b].paths.push(path);
        }
        for (radio, own) in peers.iter_mut().enumerate() {
            let other = |&path: &u32| {
                let (a, b) = setups[path as usize].ends;
                if a.index() == radio { b.index() } else { a.index() }
            };
            own.least = own.paths.iter().map(other).min().unwrap_or(0);
            let count = own.paths.iter().map(other).max().map_or(0, |most| most + 1 - own.least);
            own.to = vec![NO_PATH; count];
            for path in &own.paths {
                own.to[other(path) - own.least] = *path;
            }
        }
        let after = 2 * setups.len();
        let mut group_component: Vec<u64> =
            (0..radios).map(|radio| component(channel, after + groups.len() + radio)).collect();
        for (i, radio) in groups.iter().enumerate() {
            group_component[radio.index()] = component(channel, after + i);
        }
        let chance = |i| stream(seed, component(channel, i), Purpose::AirErrors);
        let paths = setups
            .into_iter()
            .enumerate()
            .map(|(i, s)| SignalPath { ends: s.ends, signal: s.signal, chance: [chance(2 * i), chance(2 * i + 1)] })
            .collect();
        Signals { paths, peers, group_chance: (0..radios).map(|_| None).collect(), group_component, seed }
    }

    /// SignalPath and direction of frames from one radio to another; `None` if they have no signal.
    #[inline]
    pub(super) fn direction(&self, from: RadioId, to: RadioId) -> Option<Direction> {
        let peers = &self.peers[from.index()];
        let path = *peers.to.get(to.index().wrapping_sub(peers.least)).filter(|&&path| path != NO_PATH)?;
        Some(Direction { path, end: u8::from(self.paths[path as usize].ends.0 != from) })
    }

    /// The signal of a path, and the random numbers of errors in that direction.
    #[inline]
    pub(super) fn on(&mut self, direction: Direction) -> (&mut Signal, &mut Rng) {
        let path = &mut self.paths[direction.path as usize];
        (&mut path.signal, &mut path.chance[usize::from(direction.end)])
    }

    /// The paths that end at a radio, in the order of the setup, and the random numbers for its
    /// frames to all.
    pub(super) fn around(&mut self, radio: RadioId) -> (&[u32], &mut [SignalPath], &mut Rng) {
        let (seed, component) = (self.seed, self.group_component[radio.index()]);
        let chance = self.group_chance[radio.index()]
            .get_or_insert_with(|| Box::new(stream(seed, component, Purpose::AirErrors)));
        (&self.peers[radio.index()].paths, &mut self.paths, chance)
    }

    /// Quality of the signal between two radios; `None` if they have none.
    #[inline]
    pub fn quality(&mut self, from: RadioId, to: RadioId, now: Time) -> Option<Quality> {
        let direction = self.direction(from, to)?;
        Some(self.on(direction).0.link(now))
    }

    /// Received power at either end, where the signal has one.
    pub fn received_dbm(&mut self, from: RadioId, to: RadioId, now: Time) -> Option<f64> {
        debug_assert!(now < NEVER);
        let direction = self.direction(from, to)?;
        self.on(direction).0.received_dbm(now)
    }
}
