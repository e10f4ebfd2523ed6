//! The time at which a station leaves its access point, and the one to which it goes.
//!
//! A [`Roam`] gets the station's measurements of each access point that it may use, and decides
//! when to go. It knows nothing of frames: scanning costs no airtime here, and the change takes the
//! owner's `gap`.
//!
//! | rule | goes |
//! |---|---|
//! | `nearest` | when another access point is nearer, by more than `hysteresis_m`. With 0 that is the midpoint; looked at every 10 ms |
//! | `rssi` | when the mean of the last `samples` measurements of its own is below `below_dbm` and that of another better by at least `hysteresis_db` |
//! | `times` | at given times |
//!
//! `rssi` is the behaviour of clients. wpa_supplicant (`bgscan` module `simple`) looks for another
//! access point once the signal is below a threshold. NetworkManager sets it to -65 dBm where
//! several access points serve a network (`simple:30:-65:300`). The client moves if the other is
//! better by 1 dB at the edge of reception, or by 5 dB at a good signal
//! (`wpa_supplicant_need_to_roam_within_ess` of 2.10). Unlike there, the others are measured all
//! the time, the margin does not depend on the level, and estimated throughput does not count. The
//! mean begins anew with each association, so a station does not go again before `samples`
//! measurements.
//!
//! A change takes from a few milliseconds, where all is known beforehand, to several hundred:
//! Mishra, Shin and Arbaugh (SIGCOMM CCR 33(2), 2003) found that more than 90 % of it is the search
//! for another access point. The 50 ms of [`DEFAULT_GAP`] are the aim of IEEE 802.11r, the longest
//! break that a voice call bears.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phy::mobility::POSITION_INTERVAL;
use crate::units::{Span, Time};

/// Default time without association during a change. See the module.
pub const DEFAULT_GAP: Span = Span::from_ms(50);

/// Treatment of packets that wait in a station's own queue when it leaves, and of those that come
/// while it is away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StationQueue {
    /// They wait for the next association.
    #[default]
    Keep,
    /// They are dropped.
    Drop,
}

/// Treatment of packets for a station that has left, at the access point that it left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApQueue {
    /// They are dropped: those that wait, and those that still come.
    #[default]
    Drop,
    /// Packets that wait, and packets that still come, go over the wires to the station's next
    /// access point once it is associated there. (IEEE 802.11F had the access points tell each
    /// other.)
    Forward,
}

/// When to go. Access points are known by their place in the list of the candidates.
#[derive(Debug, Clone, PartialEq)]
pub enum RoamRule {
    /// The station goes to the nearest access point.
    Nearest {
        /// The other must be nearer by this.
        hysteresis_m: f64,
    },
    /// The station goes to a better access point when the signal is weak.
    Rssi {
        /// Time between two measurements.
        every: Span,
        /// Measurements that a mean is taken of.
        samples: u16,
        /// The signal is weak below this mean.
        below_dbm: f64,
        /// The mean of the other must be better by this.
        hysteresis_db: f64,
    },
    /// Times of changes, in ascending order, each with the place of the access point.
    Times(Vec<(Time, usize)>),
}

/// Measurements of one access point by a station. NaN: not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Its distance.
    pub distance_m: f64,
    /// Received power.
    pub rssi_dbm: f64,
}

/// A station's decisions.
#[derive(Debug, Clone)]
pub struct Roam {
    rule: RoamRule,
    /// Where it is associated; `None`: on the way.
    at: Option<usize>,
    /// Time of its next look.
    next: Time,
    /// Start and end of its movement.
    moves: (Time, Time),
    /// The last measurements of each candidate.
    rssi_dbm: Vec<VecDeque<f64>>,
    /// Number of times in the list that have passed.
    done: usize,
}

impl Roam {
    /// `moves`: from when to when the station moves; [`Time::NEVER`] twice if it never does.
    pub fn new(rule: RoamRule, candidates: usize, moves: (Time, Time)) -> Roam {
        Roam { rule, at: None, next: Time::NEVER, moves, rssi_dbm: vec![VecDeque::new(); candidates], done: 0 }
    }

    /// The access point that the station would take now if it had none; the first among equal ones.
    pub fn preferred(&self, measured: &[Measured]) -> usize {
        match &self.rule {
            RoamRule::Nearest { .. } => best(measured, |m| -m.distance_m),
            RoamRule::Rssi { .. } => best(measured, |m| m.rssi_dbm),
            RoamRule::Times(_) => 0,
        }
    }

    /// It is associated.
    pub fn on_associated(&mut self, now: Time, at: usize) {
        self.at = Some(at);
        self.rssi_dbm.iter_mut().for_each(VecDeque::clear);
        self.next = match &self.rule {
            RoamRule::Nearest { .. } => now.max(self.moves.0),
            RoamRule::Rssi { every, .. } => now + *every,
            // One that has come due on the way is due now.
            RoamRule::Times(switches) => switches.get(self.done).map_or(Time::NEVER, |&(time, _)| time.max(now)),
        };
    }

    /// When to call [`Roam::on_deadline`].
    pub fn deadline(&self) -> Time {
        self.next
    }

    /// Where to go, if it goes: then it has left, and [`Roam::on_associated`] follows. `measured`:
    /// of each candidate, now.
    pub fn on_deadline(&mut self, now: Time, measured: &[Measured]) -> Option<usize> {
        let at = self.at.filter(|_| now >= self.next)?;
        let (to, next) = match &self.rule {
            RoamRule::Nearest { hysteresis_m } => {
                let nearest = best(measured, |m| -m.distance_m);
                let nearer = measured[at].distance_m - measured[nearest].distance_m;
                let next = if now < self.moves.1 { (now + POSITION_INTERVAL).min(self.moves.1) } else { Time::NEVER };
                ((nearer > *hysteresis_m).then_some(nearest), next)
            }
            RoamRule::Rssi { every, samples, below_dbm, hysteresis_db } => {
                for (last, m) in self.rssi_dbm.iter_mut().zip(measured) {
                    if last.len() == usize::from(*samples) {
                        last.pop_front();
                    }
                    last.push_back(m.rssi_dbm);
                }
                let is_full = self.rssi_dbm[at].len() == usize::from(*samples);
                let mean = |i: usize| self.rssi_dbm[i].iter().sum::<f64>() / f64::from(*samples);
                let means: Vec<f64> = (0..measured.len()).map(mean).collect();
                let to = best(&means, |&m| m);
                let goes = is_full && to != at && means[at] < *below_dbm && means[to] - means[at] >= *hysteresis_db;
                (goes.then_some(to), now + *every)
            }
            RoamRule::Times(switches) => {
                let mut to = None;
                // If several times have passed without association, the last counts.
                while let Some(&(_, next)) = switches.get(self.done).filter(|&&(time, _)| time <= now) {
                    to = Some(next);
                    self.done += 1;
                }
                (to, switches.get(self.done).map_or(Time::NEVER, |&(time, _)| time))
            }
        };
        let to = to.filter(|&to| to != at);
        self.next = if to.is_some() { Time::NEVER } else { next };
        if to.is_some() {
            self.at = None;
        }
        to
    }
}

/// The place of the greatest value; the first of equal ones, and 0 if there is nothing but NaN.
fn best<T>(all: &[T], value: impl Fn(&T) -> f64) -> usize {
    let mut best = 0;
    for i in 1..all.len() {
        let (new, old) = (value(&all[i]), value(&all[best]));
        if new > old || old.is_nan() && !new.is_nan() {
            best = i;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(t: u64) -> Time {
        Time::ZERO + Span::from_ms(t)
    }

    fn measured(values: &[(f64, f64)]) -> Vec<Measured> {
        values.iter().map(|&(distance_m, rssi_dbm)| Measured { distance_m, rssi_dbm }).collect()
    }

    #[test]
    fn nearest_switches_past_the_midpoint_and_the_hysteresis() {
        // (hysteresis, distances, goes to).
        let cases = [
            (0.0, [9.9, 10.1], None),
            (0.0, [10.0, 10.0], None),
            (0.0, [10.1, 9.9], Some(1)),
            (1.0, [10.4, 9.6], None),
            (1.0, [10.5, 9.5], None),
            (1.0, [10.6, 9.4], Some(1)),
        ];
        for (hysteresis_m, [a, b], goes) in cases {
            let mut roam = Roam::new(RoamRule::Nearest { hysteresis_m }, 2, (ms(0), Time::NEVER));
            roam.on_associated(ms(0), 0);
            let got = roam.on_deadline(ms(0), &measured(&[(a, f64::NAN), (b, f64::NAN)]));
            assert_eq!(got, goes, "{hysteresis_m} {a} {b}");
            assert_eq!(roam.deadline(), if goes.is_some() { Time::NEVER } else { ms(10) });
        }
    }

    #[test]
    fn nearest_looks_only_while_the_station_moves() {
        let mut roam = Roam::new(RoamRule::Nearest { hysteresis_m: 0.0 }, 2, (ms(1000), ms(1015)));
        let here = measured(&[(1.0, f64::NAN), (2.0, f64::NAN)]);
        assert_eq!(roam.preferred(&here), 0);
        roam.on_associated(ms(0), 0);
        let mut looks = Vec::new();
        while !roam.deadline().is_never() {
            looks.push(roam.deadline());
            assert_eq!(roam.on_deadline(roam.deadline(), &here), None);
        }
        assert_eq!(looks, [1000, 1010, 1015].map(ms));
        // A station that never moves looks once only.
        let mut roam = Roam::new(RoamRule::Nearest { hysteresis_m: 0.0 }, 2, (Time::NEVER, Time::NEVER));
        roam.on_associated(ms(0), 0);
        assert!(roam.deadline().is_never());
    }

    #[test]
    fn rssi_needs_a_weak_mean_and_a_better_other() {
        // (of its own, of the other, goes).
        let cases = [
            ([-60.0, -60.0], [-40.0, -40.0], false),
            ([-66.0, -66.0], [-62.0, -62.0], false),
            ([-66.0, -66.0], [-61.0, -61.0], true),
            // Means count: -65.5 against -60.5, then -64.5.
            ([-70.0, -61.0], [-60.0, -61.0], true),
            ([-68.0, -61.0], [-50.0, -50.0], false),
        ];
        for (own, other, goes) in cases {
            let rule = RoamRule::Rssi { every: Span::from_ms(100), samples: 2, below_dbm: -65.0, hysteresis_db: 5.0 };
            let mut roam = Roam::new(rule, 2, (ms(0), Time::NEVER));
            roam.on_associated(ms(0), 0);
            let look = |i: usize| measured(&[(f64::NAN, own[i]), (f64::NAN, other[i])]);
            assert_eq!(roam.deadline(), ms(100));
            assert_eq!(roam.on_deadline(ms(100), &look(0)), None, "one measurement is no mean of two");
            assert_eq!(roam.on_deadline(ms(200), &look(1)), goes.then_some(1), "{own:?} {other:?}");
        }
    }

    #[test]
    fn rssi_forgets_at_a_new_association() {
        let rule = RoamRule::Rssi { every: Span::from_ms(100), samples: 2, below_dbm: -65.0, hysteresis_db: 0.0 };
        let mut roam = Roam::new(rule, 3, (ms(0), Time::NEVER));
        let look = measured(&[(f64::NAN, -80.0), (f64::NAN, -75.0), (f64::NAN, -70.0)]);
        assert_eq!(roam.preferred(&look), 2);
        roam.on_associated(ms(0), 0);
        assert_eq!(roam.on_deadline(ms(100), &look), None);
        assert_eq!(roam.on_deadline(ms(200), &look), Some(2));
        assert!(roam.deadline().is_never(), "on the way it decides nothing");
        roam.on_associated(ms(250), 2);
        assert_eq!(roam.deadline(), ms(350));
        let look = measured(&[(f64::NAN, -60.0), (f64::NAN, -75.0), (f64::NAN, -70.0)]);
        assert_eq!(roam.on_deadline(ms(350), &look), None);
        assert_eq!(roam.on_deadline(ms(450), &look), Some(0));
    }

    #[test]
    fn times_are_kept_and_what_came_due_on_the_way_follows() {
        let rule = RoamRule::Times(vec![(ms(10), 1), (ms(20), 1), (ms(30), 0), (ms(35), 2), (ms(90), 0)]);
        let mut roam = Roam::new(rule, 3, (Time::NEVER, Time::NEVER));
        let none = measured(&[(f64::NAN, f64::NAN); 3]);
        assert_eq!(roam.preferred(&none), 0);
        roam.on_associated(ms(0), 0);
        assert_eq!(roam.deadline(), ms(10));
        assert_eq!(roam.on_deadline(ms(10), &none), Some(1));
        // The next says where it is already; then two come due while it is away.
        roam.on_associated(ms(15), 1);
        assert_eq!(roam.on_deadline(roam.deadline(), &none), None);
        assert_eq!(roam.on_deadline(ms(30), &none), Some(0));
        roam.on_associated(ms(80), 0);
        assert_eq!(roam.deadline(), ms(80), "never in the past");
        assert_eq!(roam.on_deadline(ms(80), &none), Some(2));
        roam.on_associated(ms(85), 2);
        assert_eq!(roam.on_deadline(ms(90), &none), Some(0));
        roam.on_associated(ms(95), 0);
        assert!(roam.deadline().is_never());
    }
}
