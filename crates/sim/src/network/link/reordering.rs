//! Packets that a line holds back, so that others overtake them.

use std::collections::VecDeque;

use airtcp_core::rng::{Purpose, Rng, stream};
use airtcp_core::units::{Span, Time};
use rand::RngExt;

use crate::spec::{LinkId, Reorder};

/// Reordering on a line, which holds packets back ([`crate::spec::Reorder`]).
#[derive(Debug)]
pub(super) struct Reordering {
    probability: f64,
    /// Shortest and longest, both included.
    range: (Span, Span),
    rng: Rng,
    held: u64,
    /// Ends of the transmissions of those that are to be held back.
    upcoming: VecDeque<Time>,
}

impl Reordering {
    pub(super) fn new(reorder: &Reorder, seed: u64, link: LinkId) -> Option<Reordering> {
        (reorder.probability.get() > 0.0).then(|| Reordering {
            probability: reorder.probability.get(),
            range: (reorder.min, reorder.max),
            rng: stream(seed, u64::from(link.0), Purpose::LinkReorder),
            held: 0,
            upcoming: VecDeque::new(),
        })
    }

    /// How many have been held back.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Counts packets as held back once their transmission is over.
    pub(super) fn count_to(&mut self, now: Time) {
        while self.upcoming.front().is_some_and(|&end| end <= now) {
            self.upcoming.pop_front();
            self.held += 1;
        }
    }

    /// How long the packet is held back, if it is, whose transmission is over at `end`.
    pub(super) fn draw(&mut self, end: Time) -> Option<Span> {
        (self.rng.random::<f64>() < self.probability).then(|| {
            self.upcoming.push_back(end);
            Span::from_ns(self.rng.random_range(self.range.0.as_ns()..=self.range.1.as_ns()))
        })
    }
}
