//! The medium: the times of transmissions, and their reception. It knows no queues, no sessions and
//! no packets. A [`Mac`] gives it the PPDUs of each radio, and gets the MPDUs that have arrived.
//!
//! [`contention`] lets radios begin, [`exchange`] carries their exchanges out, and [`signals`]
//! decides on errors. [`seam`] is the interface between a medium and its Mac.
//!
//! **An exchange** is RTS, CTS, data and response, as far as they are used, each a PPDU with a
//! short gap (SIFS) before it. The end of a PPDU decides which of its parts reach the receiver.
//! Nothing does if the receiver was sensing or sending something else when the PPDU began. A
//! transmission of a hidden station destroys the MPDUs that it overlaps. Each other MPDU has a
//! success probability from the signal at that time, the mode and its length.
//!
//! **Users** are the receivers of a PPDU, each with MPDUs, a mode and a signal of its own. It lasts
//! as long as its longest user. One user is answered; several are not.
//!
//! **Without acknowledgements** an exchange is over with its data: MPDUs that have not arrived are
//! lost.
//!
//! **Any radio** can send to any other and to all: the medium knows no associations.
//!
//! Assumptions: propagation takes no time; radios hear each other or do not; a third party decodes
//! what it hears alone. Two transmissions that overlap from the start are both lost, unless
//! [`MediumSetup::capture_effect`] lets one be received. Another transmission that the sender of a
//! group-addressed frame hears disturbs the frame for all. No station saves power, so no frame
//! waits for a DTIM beacon.

mod contention;
mod exchange;
mod reception;
pub mod seam;
pub mod signals;
#[cfg(test)]
mod tests;

pub(super) use reception::draw;
pub use seam::{Arrival, Control, Fate, Mac, Outcome, Payload, To, TxRequest, TxUser, UserOutcome};
pub use signals::{PathSetup, Signals};

use std::sync::Arc;

use contention::{Contender, Contention};
use exchange::Exchange;

use super::ids::RadioId;
use super::phy::{EdcaParams, Timing, WavelanConfig};
use super::trace::Ac;
use crate::rng::{Purpose, Rng, stream};
use crate::units::{Span, Time};

pub(super) const NEVER: Time = Time::NEVER;

/// A medium as it is set up.
#[derive(Debug)]
pub struct MediumSetup {
    /// Its radios; a [`RadioId`] is a place in this list.
    pub radios: Vec<RadioSetup>,
    /// Pairs of radios that can decode each other's frames.
    pub paths: Vec<PathSetup>,
    /// Radios that send group-addressed frames, named first in the random numbers. Others may, too.
    pub groups: Vec<RadioId>,
    /// Pairs of radios that do not hear each other.
    pub hidden: Vec<(RadioId, RadioId)>,
    /// Time from the start of a transmission until others sense it.
    pub sensing: Span,
    /// Probability that one of two transmissions that meet at a receiver is received as if it were
    /// alone, 0 to 1.
    pub capture_effect: f64,
    /// Seed of the run.
    pub seed: u64,
    /// Number of the medium within the run; media with different numbers draw different random
    /// numbers.
    pub index: u32,
    /// [`Mac::control`] is called.
    pub reports_control: bool,
}

/// Facts about a radio that a medium needs.
#[derive(Debug, Clone)]
pub struct RadioSetup {
    /// Durations of its PHY.
    pub timing: Arc<Timing>,
    /// How it contends, by access category.
    pub edca: [EdcaParams; 4],
    /// Its categories contend by EDCA.
    pub has_qos: bool,
    /// It keeps EIFS.
    pub eifs: bool,
    /// Failures in a row after which the contention window starts anew (dot11ShortRetryLimit).
    pub retry_limit: u8,
    /// It contends as WaveLAN does.
    pub wavelan: Option<WavelanConfig>,
    /// It hears of each MPDU of an A-MPDU at its last bit, and not of all when the PPDU is over.
    pub hears_one_by_one: bool,
}

#[derive(Debug)]
struct Radio {
    timing: Arc<Timing>,
    txop: [Span; 4],
    hears_one_by_one: bool,
}

/// Use of a medium's time, by the number of frame exchanges under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occupancy {
    counted_to: Time,
    /// Time without an exchange, ns.
    pub idle_ns: u64,
    /// Time with one exchange or more.
    pub busy_ns: u64,
    /// Time of each simultaneous exchange beyond the first. Such exchanges collide, or their radios
    /// do not hear each other.
    pub overlap_ns: u64,
}

impl Occupancy {
    /// Counts the time up to `now`, with this number of exchanges.
    #[inline]
    fn count_to(&mut self, now: Time, exchanges: usize) {
        let ns = now.since(self.counted_to).as_ns();
        self.counted_to = now;
        match exchanges {
            0 => self.idle_ns += ns,
            n => {
                self.busy_ns += ns;
                self.overlap_ns += (n as u64 - 1) * ns;
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Medium {
    radios: Vec<Radio>,
    contention: Contention,
    /// Exchanges, those under way first, in the order of their beginnings. The rest are over, and
    /// keep their memory for others.
    exchanges: Vec<Exchange>,
    /// Number of exchanges under way.
    under_way: usize,
    signals: Signals,
    occupancy: Occupancy,
    capture_effect: f64,
    capture_rng: Rng,
    reports_control: bool,
    /// Fates of the MPDUs of the user that has just ended.
    fates: Vec<Fate>,
}

/// Name of a stream of random numbers: that of the `i`-th component in the channel of that index.
pub(super) fn component(channel: u32, i: usize) -> u64 {
    u64::from(channel) << 32 | i as u64
}

impl Medium {
    /// The medium at time 0, without a transmission.
    pub fn new(setup: MediumSetup) -> Medium {
        let (seed, index) = (setup.seed, setup.index);
        let contenders = setup.radios.iter().enumerate().map(|(i, r)| Contender {
            timing: Arc::clone(&r.timing),
            edca: r.edca,
            has_qos: r.has_qos,
            eifs: r.eifs,
            retry_limit: r.retry_limit,
            wavelan: r.wavelan.clone(),
            rng: stream(seed, component(index, i), Purpose::Backoff),
        });
        let contention = Contention::new(contenders, &setup.hidden, setup.sensing);
        let signals = Signals::new(setup.radios.len(), setup.paths, &setup.groups, index, seed);
        let radio = |r: RadioSetup| Radio {
            timing: r.timing,
            txop: r.edca.map(|e| e.txop),
            hears_one_by_one: r.hears_one_by_one,
        };
        Medium {
            radios: setup.radios.into_iter().map(radio).collect(),
            contention,
            exchanges: Vec::new(),
            under_way: 0,
            signals,
            occupancy: Occupancy::default(),
            capture_effect: setup.capture_effect,
            capture_rng: stream(seed, component(index, 0), Purpose::Capture),
            reports_control: setup.reports_control,
            fates: Vec::new(),
        }
    }

    /// Time at which a stage of an exchange ends, or a radio may begin.
    #[inline]
    pub fn deadline(&mut self) -> Time {
        let mut due = self.contention.next().0;
        for x in &self.exchanges[..self.under_way] {
            due = due.min(x.at);
        }
        due
    }

    /// A frame waits in a category: the radio contends for it. The medium asks for the frame itself
    /// when it may leave. Returns false if the category had one already, and nothing changes.
    #[inline]
    pub fn on_frame(&mut self, now: Time, radio: RadioId, ac: Ac) -> bool {
        self.contention.on_frame(radio, ac, now)
    }

    /// Ends a stage that is over at `now`, of several the one that began first. Returns false if
    /// there is none.
    #[inline]
    pub fn advance(&mut self, now: Time, mac: &mut impl Mac) -> bool {
        match self.exchanges[..self.under_way].iter().position(|x| x.at <= now) {
            Some(i) => {
                self.step(now, i, mac);
                true
            }
            None => false,
        }
    }

    /// Lets a radio begin that may do so at `now`; returns false if there is none.
    #[inline]
    pub fn begin_next(&mut self, now: Time, mac: &mut impl Mac) -> bool {
        let (at, radio) = self.contention.next();
        if at > now {
            return false;
        }
        self.begin(now, radio, mac);
        true
    }

    /// Use of its time up to `now`.
    pub fn occupancy(&self, now: Time) -> Occupancy {
        let mut occupancy = self.occupancy;
        occupancy.count_to(now, self.under_way);
        occupancy
    }

    /// The signals between its radios.
    #[inline]
    pub fn signals(&mut self) -> &mut Signals {
        &mut self.signals
    }

    /// Exchanges under way, each with its start.
    pub fn under_way(&self) -> impl Iterator<Item = (&TxRequest, Time)> {
        self.exchanges[..self.under_way].iter().map(|x| (&x.request, x.start))
    }

    /// No radio keeps the medium for more than one exchange.
    #[cfg(test)]
    pub(super) fn without_txop(&mut self) {
        self.radios.iter_mut().for_each(|r| r.txop = [Span::ZERO; 4]);
    }
}
