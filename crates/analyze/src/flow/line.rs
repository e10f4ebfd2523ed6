//! The rate of the slowest line of the path, from trains of segments.
//!
//! A train that was acknowledged more slowly than it was sent was stretched by the line (packet
//! pairs, but of ten segments: ACKs come in lumps). The middle of such rates is the line's. Without
//! stretched trains, those through a standing queue have it: the line then works all the time. Else
//! a plateau shows it: most bytes pass at one rate, whatever the flight. Only trains shorter than a
//! round trip count there: over a round trip a window has a rate, too.

use airtcp_core::units::{Span, Time};

use super::{Flow, Passing, State};
use crate::histogram::Histogram;

/// Segments, ACKs and time of a train, at least.
const SEGMENTS: u64 = 10;
const ACKS: u32 = 3;
const TIME: Span = Span::from_us(500);
/// Stretched to so many times the time in which it was sent, at least: jitter stretches, too.
const STRETCHED: u64 = 2;
/// Trains before their rate counts, and part of the bytes on a plateau.
const TRAINS: u32 = 3;
const PLATEAU_TRAINS: u32 = 12;
const PLATEAU_PART: f64 = 0.6;
/// Trains through a queue, and the part of the least round trip that such a queue adds.
const QUEUED_TRAINS: u32 = 6;
const QUEUED_PART: u64 = 4;

/// How the rate was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Trains,
    Queue,
    Plateau,
}

impl By {
    pub(super) fn name(self) -> &'static str {
        match self {
            By::Trains => "trains",
            By::Queue => "queue",
            By::Plateau => "plateau",
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Train {
    delivered: u64,
    acked: Time,
    sent: Time,
    acks: u32,
    /// A queue stood all the while.
    queued: bool,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    train: Option<Train>,
    /// Bits per second, weighed by bytes.
    all: Histogram,
    stretched: Histogram,
    queued: Histogram,
}

impl Line {
    /// Bits per second of payload, and how they were found.
    pub(super) fn rate(&self) -> Option<(u64, By)> {
        let trains = self.stretched.percentile(50).filter(|_| self.stretched.count >= TRAINS);
        let queued = self.queued.percentile(50).filter(|_| self.queued.count >= QUEUED_TRAINS);
        let plateau = self.all.plateau().filter(|&(_, part)| self.all.count >= PLATEAU_TRAINS && part >= PLATEAU_PART);
        match (trains, plateau) {
            (Some(by_trains), plateau) => Some((by_trains.max(plateau.map_or(0, |(rate, _)| rate)), By::Trains)),
            (None, _) if queued.is_some() => queued.map(|rate| (rate, By::Queue)),
            (None, Some((rate, _))) => Some((rate, By::Plateau)),
            (None, None) => None,
        }
    }
}

impl Flow {
    /// An ACK tells of data, of which the newest passed at `newest_seen` (zero: not known).
    pub(super) fn line_of_ack(&mut self, at: &Passing, newest_seen: Time) {
        let delivered = self.una + self.history.sacked_bytes();
        let enough = SEGMENTS * u64::from(self.mss());
        // Without SACK an ACK after a loss tells of what came long before.
        let is_told = self.state == State::Open || self.sack;
        let round_trip = self.rtt.srtt() + at.near;
        let queued = self.held.queue_above(QUEUED_PART);
        let line = &mut self.line;
        let Some(mut train) = line.train.take().filter(|train| is_told && train.delivered <= delivered) else {
            let begins = is_told && newest_seen > Time::ZERO;
            line.train = begins.then_some(Train { delivered, acked: at.seen, sent: newest_seen, acks: 0, queued });
            return;
        };
        train.acks += 1;
        train.queued &= queued;
        let bytes = delivered - train.delivered;
        let took = at.seen.since(train.acked);
        if newest_seen == Time::ZERO || bytes < enough || train.acks < ACKS || took < TIME {
            line.train = Some(train);
            return;
        }
        let rate = u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(took.as_ns())).unwrap_or(u64::MAX >> 8);
        // Over a whole round trip any window has a rate of its own.
        if took < round_trip / 4 * 3 {
            line.all.add(rate, bytes);
        }
        if newest_seen.since(train.sent) * STRETCHED < took {
            line.stretched.add(rate, bytes);
        }
        if train.queued {
            line.queued.add(rate, bytes);
        }
        line.train = Some(Train { delivered, acked: at.seen, sent: newest_seen, acks: 0, queued });
    }
}
