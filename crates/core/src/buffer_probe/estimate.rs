//! From what a train's receiver notes to the size of the buffer.
//!
//! **Raw** (Ando, Murase and Oguchi, DICOMO 2010, as the study `tcp-av-handover` credits it in
//! section 2.3): the number just before the first gap. All datagrams up to there found room, so the
//! buffer takes that many. It overestimates, because the buffer drains while it fills: with the
//! wire `r` times as fast as the air by `B / (r - 1)` packets, a factor of `r / (r - 1)`.
//!
//! **Corrected**: when a datagram found no room, the buffer held the datagrams admitted less those
//! that had left. The number admitted follows from the datagrams' numbers, the number that had left
//! from the arrivals at the receiver. For the latter the receiver's clock must show when the lost
//! datagram came to the access point. The sending times are known (a log, or number times gap); one
//! constant is missing, clock offset and delay of the wire together. The constant lies just below
//! the least difference of arrival and sending, which belongs to a datagram that found the access
//! point idle (the first). The distance is that datagram's time to access and cross the air, and
//! the access point's to learn of the arrival and free the place. Within that range the log itself
//! fixes the constant. With the right one every lost datagram found the same number held, B, and
//! every admitted one found fewer. The other trains help, since their first datagrams may have met
//! neither a slow rate nor another packet in the air. The estimate is the B that contradicts the
//! fewest datagrams, over all constants in the range. So no synchronised clocks are needed.
//!
//! A datagram lost on the air took a place and looks like one without room. It found fewer than B
//! held; so for sizes near the first best one the train is replayed: what is missing although there
//! was room was admitted and lost on the air, held its place until the next one that arrived had
//! left, and counts as a contradiction like one that arrived although there was none. The size with
//! the fewest is the estimate. Five in a thousand lost on the air leave it exact; without this it
//! would be too small by as many as were in the buffer at a time.
//!
//! **Counted**: all places that a packet of the train could take at the access point from its
//! arrival until it is acknowledged. They are places in queues, in the driver and in the air, for
//! packets of the size sent. A buffer limited in bytes holds more smaller ones. Packets of others
//! take places and are not seen. With cross traffic the estimate is the buffer less what others had
//! in it, on average over the losses.
//!
//! **Remaining error**: one or two packets where single frames are sent, as the constant is known
//! to about two transmission times and a shift by a whole one changes almost nothing but B.
//! Aggregates leave at once and many at a time, which fixes the constant well. Sending times that
//! are not those at the access point count in full, at the rate of the air: a gap shorter than the
//! wire needs for a datagram is the usual mistake (name the slowest line as `line_rate`).
//!
//! A gap is the **onset** of overflow if at least `sustained_losses` of the `sustained_within`
//! datagrams from it on are missing; an isolated one is a loss on the air. With the wire only
//! little faster than the air losses are rare: 3 of 64 is a ratio of rates of 1.05. A train without
//! onset fills no buffer: then the buffer takes `at_least` so many.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::convert::count;
use crate::units::{DataRate, Span, Time};

/// Parameters of the estimate from a receiver's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EstimatorConfig {
    /// Number of missing datagrams among `sustained_within` that shows an overflow. Fewer are
    /// losses on the air. 3.
    #[schemars(range(min = 1))]
    pub sustained_losses: u32,
    /// See `sustained_losses`. 64: three of them are an overflow where the wire is 1.05 times as
    /// fast as the air.
    #[schemars(range(min = 1))]
    pub sustained_within: u32,
    /// Rate of the slowest line between sender and access point, if a datagram takes longer on it
    /// than `gap`.
    pub line_rate: Option<DataRate>,
    /// Largest drift between the clocks of sender and receiver, parts per million. It limits how
    /// well the clock offset of one train holds for another. 50: two ordinary crystals.
    /// Simulated clocks do not drift.
    pub clock_drift_ppm: u32,
    /// Longest time for which the first datagram holds its place at an idle access point. It
    /// applies if it exceeds two mean transmission times. 500 us: more than a frame of 1500
    /// bytes and its acknowledgement take at 30 Mbit/s; at lower rates two transmission times
    /// are longer.
    pub first_access: Span,
}

impl Default for EstimatorConfig {
    fn default() -> Self {
        EstimatorConfig {
            sustained_losses: 3,
            sustained_within: 64,
            line_rate: None,
            clock_drift_ppm: 50,
            first_access: Span::from_us(500),
        }
    }
}

/// One train, by number: when each datagram was sent, on the sender's clock, and when it arrived,
/// on the receiver's.
#[derive(Debug, Clone, Copy)]
pub struct RunLog<'a> {
    /// When each was sent and when it arrived; never: `None`.
    pub datagrams: &'a [(Time, Option<Time>)],
    /// Bytes of a datagram on the slowest line; counts with `line_rate`.
    pub packet_bytes: u16,
}

/// Estimate of the buffer from one train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Datagrams of the train.
    pub sent: u32,
    /// Those of them that arrived.
    pub received: u32,
    /// Datagrams before the first gap, whatever made it: the raw estimate. `None`: none is missing.
    pub first_gap: Option<u32>,
    /// Datagrams before the onset of overflow. `None`: no overflow.
    pub onset: Option<u32>,
    /// Packets that the buffer takes. `None`: no overflow.
    pub corrected: Option<u32>,
    /// Packets that had left at the onset, as the corrected estimate has it.
    pub drained: Option<u32>,
    /// Most packets held: with overflow the corrected estimate, else what is known at least.
    pub at_least: u32,
    /// Datagrams from the first on whose fate the corrected estimate does not explain, those lost
    /// on the air among them.
    pub unexplained: u32,
}

/// Constants that are tried, and those for which trains are replayed.
const STEPS: i64 = 512;
const REPLAY_STEPS: i64 = 64;

/// Sizes for which trains are replayed: so many below the first best one, and above, where losses
/// on the air put the truth.
const BELOW: u32 = 4;
const ABOVE: u32 = 12;

/// Reads the logs of trains that were sent between the same two hosts, one after the other.
pub fn estimate(config: &EstimatorConfig, logs: &[RunLog]) -> Vec<Estimate> {
    let least: Vec<Option<(i64, i64)>> = logs.iter().map(|log| Fit::least(&came(config, log), log)).collect();
    logs.iter()
        .enumerate()
        .map(|(run, log)| {
            // Bound on the constant by the other trains, widened by the drift between the clocks
            // since.
            let drift = |span: i64| span / 1_000_000 * i64::from(config.clock_drift_ppm);
            let known = least[run].map(|(_, begin)| {
                least.iter().flatten().map(|&(least, at)| least + drift((at - begin).abs())).min().unwrap_or(i64::MAX)
            });
            estimate_one(config, log, known)
        })
        .collect()
}

/// `most`: greatest constant; `None`: nothing arrived.
fn estimate_one(config: &EstimatorConfig, log: &RunLog, most: Option<i64>) -> Estimate {
    let first_gap = log.datagrams.iter().position(|d| d.1.is_none());
    let mut result = Estimate {
        sent: count(log.datagrams.len()),
        received: count(log.datagrams.iter().filter(|d| d.1.is_some()).count()),
        first_gap: first_gap.map(count),
        onset: first_gap.and_then(|from| find_onset(config, log.datagrams, from)).map(count),
        corrected: None,
        drained: None,
        at_least: 0,
        unexplained: 0,
    };
    let Some(most) = most else { return result };
    let fit = Fit::new(config, log, result.onset, most);
    match result.onset {
        Some(onset) => {
            let best = fit.refined(fit.best());
            result.corrected = Some(best.held);
            result.drained = Some(onset.saturating_sub(best.held));
            result.at_least = best.held;
            result.unexplained = best.cost;
        }
        None => {
            let most = fit.held(fit.most).map(|(_, held)| held + 1).max();
            result.at_least = most.map_or(0, |n| u32::try_from(n).unwrap_or(0));
            result.unexplained = result.sent - result.received;
        }
    }
    result
}

fn ns(t: Time) -> i64 {
    signed(t.since(Time::ZERO))
}

fn signed(span: Span) -> i64 {
    i64::try_from(span.as_ns()).unwrap_or(i64::MAX)
}

/// By number: when a datagram came to the access point, on the sender's clock and but for the delay
/// of the wire.
fn came(config: &EstimatorConfig, log: &RunLog) -> Vec<i64> {
    let pace = config.line_rate.map_or(0, |rate| signed(rate.time_for(u64::from(log.packet_bytes))));
    let mut free = i64::MIN;
    log.datagrams
        .iter()
        .map(|d| {
            let at = ns(d.0).max(free);
            free = at + pace;
            at
        })
        .collect()
}

/// The first gap at or after `from` that others follow.
fn find_onset(config: &EstimatorConfig, datagrams: &[(Time, Option<Time>)], from: usize) -> Option<usize> {
    let missing = |n: usize| datagrams[n].1.is_none();
    (from..datagrams.len()).filter(|&n| missing(n)).find(|&n| {
        let end = datagrams.len().min(n + config.sustained_within as usize);
        (n..end).filter(|&m| missing(m)).count() >= config.sustained_losses as usize
    })
}

/// A log as the fit needs it: nanoseconds, in order.
struct Fit {
    /// By number: when it came to the access point, but for the constant.
    came: Vec<i64>,
    arrived: Vec<bool>,
    /// When datagrams left the access point, in order; and with their numbers.
    left: Vec<i64>,
    departures: Vec<(i64, u32)>,
    /// By number: the next that arrived.
    next_arrived: Vec<Option<u32>>,
    /// From here on what is missing found no room.
    onset: usize,
    /// Greatest constant: the least difference of arrival and sending that is known.
    most: i64,
    width: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Best {
    held: u32,
    /// Datagrams that contradict.
    cost: u32,
}

impl Fit {
    /// The least difference of arrival and sending, and when that datagram was sent. `None`:
    /// nothing arrived.
    fn least(came: &[i64], log: &RunLog) -> Option<(i64, i64)> {
        came.iter().zip(log.datagrams).filter_map(|(&came, d)| Some((ns(d.1?) - came, came))).min()
    }

    /// Fit for a train of which something arrived.
    fn new(config: &EstimatorConfig, log: &RunLog, onset: Option<u32>, most: i64) -> Fit {
        let mut departures: Vec<(i64, u32)> =
            (0u32..).zip(log.datagrams).filter_map(|(n, d)| Some((ns(d.1?), n))).collect();
        departures.sort_unstable();
        let left: Vec<i64> = departures.iter().map(|d| d.0).collect();
        let mut next_arrived = vec![None; log.datagrams.len()];
        let mut next = None;
        for (n, d) in log.datagrams.iter().enumerate().rev() {
            next_arrived[n] = next;
            next = if d.1.is_some() { Some(count(n)) } else { next };
        }
        let mean = match left[..] {
            [first, .., last] => (last - first) / (i64::from(count(left.len())) - 1),
            _ => 0,
        };
        Fit {
            arrived: log.datagrams.iter().map(|d| d.1.is_some()).collect(),
            came: came(config, log),
            left,
            departures,
            next_arrived,
            onset: onset.map_or(usize::MAX, |n| n as usize),
            most,
            width: (2 * mean).max(signed(config.first_access)),
        }
    }

    /// With this constant: by number, how many places the datagrams before it took when it came.
    fn held(&self, constant: i64) -> impl Iterator<Item = (usize, i64)> {
        let (mut admitted, mut gone) = (0, 0);
        self.came.iter().enumerate().map(move |(n, came)| {
            while gone < self.left.len() && self.left[gone] <= came + constant {
                gone += 1;
            }
            let held = admitted - i64::from(count(gone));
            admitted += i64::from(self.arrived[n]);
            (n, held)
        })
    }

    /// The size that contradicts the fewest datagrams, given the constant.
    fn size(&self, constant: i64, lost: &mut Vec<u32>, admitted: &mut Vec<u32>) -> Best {
        for counts in [&mut *lost, &mut *admitted] {
            counts.clear();
            counts.resize(self.came.len() + 1, 0);
        }
        for (n, held) in self.held(constant) {
            let at = usize::try_from(held).unwrap_or(0);
            if self.arrived[n] {
                admitted[at] += 1;
            } else if n >= self.onset {
                lost[at] += 1;
            }
        }
        let all: u32 = lost.iter().sum();
        // Admitted although so many or more were held.
        let mut too_many: u32 = admitted.iter().sum();
        let mut best = Best { held: 0, cost: u32::MAX };
        for held in 0..lost.len() {
            let cost = all - lost[held] + too_many;
            if cost < best.cost {
                best = Best { held: count(held), cost };
            }
            too_many -= admitted[held];
        }
        best
    }

    fn best(&self) -> Best {
        let (mut lost, mut admitted) = (Vec::new(), Vec::new());
        let tried: Vec<Best> =
            (0..=STEPS).map(|step| self.size(self.constant(step, STEPS), &mut lost, &mut admitted)).collect();
        fewest(&tried)
    }

    fn constant(&self, step: i64, steps: i64) -> i64 {
        self.most - self.width * step / steps
    }

    /// Replays the train for sizes near the one found, with what the air loses.
    fn refined(&self, first: Best) -> Best {
        if first.cost == 0 {
            return first;
        }
        let sizes = first.held.saturating_sub(BELOW).max(1)..=first.held + ABOVE;
        let mut lost_before = vec![0; self.came.len()];
        let mut tried = Vec::new();
        let mut limit = first.cost;
        for step in 0..=REPLAY_STEPS {
            let constant = self.constant(step, REPLAY_STEPS);
            for held in sizes.clone() {
                if let Some(cost) = self.replay(constant, held, limit, &mut lost_before) {
                    limit = cost;
                    tried.push(Best { held, cost });
                }
            }
        }
        // With the constant in coarser steps a replay may explain less.
        if tried.iter().any(|b| b.cost < first.cost) { fewest(&tried) } else { first }
    }

    /// Datagrams that contradict a buffer of `size`: lost although it was not full, or arrived
    /// although it was. `None`: more than `limit`. `lost_before` is working space.
    fn replay(&self, constant: i64, size: u32, limit: u32, lost_before: &mut [u32]) -> Option<u32> {
        lost_before.fill(0);
        let (mut held, mut gone, mut cost) = (0u32, 0, 0);
        for (n, came) in self.came.iter().enumerate() {
            while let Some(&(_, number)) = self.departures.get(gone).filter(|(left, _)| *left <= came + constant) {
                held = held.saturating_sub(1 + lost_before[number as usize]);
                gone += 1;
            }
            if self.arrived[n] {
                cost += u32::from(held >= size);
                held += 1;
            } else if held < size {
                cost += 1;
                held += 1;
                if let Some(next) = self.next_arrived[n] {
                    lost_before[next as usize] += 1;
                }
            }
            if cost > limit {
                return None;
            }
        }
        Some(cost)
    }
}

/// Among those with the fewest contradictions, the size that comes most often.
fn fewest(tried: &[Best]) -> Best {
    let cost = tried.iter().map(|b| b.cost).min().unwrap_or(0);
    let mut sizes: Vec<u32> = tried.iter().filter(|b| b.cost == cost).map(|b| b.held).collect();
    sizes.sort_unstable();
    let held = sizes.chunk_by(|a, b| a == b).max_by_key(|same| (same.len(), same[0])).map_or(0, |same| same[0]);
    Best { held, cost }
}

#[cfg(test)]
mod tests;
