//! Completions: how long after a PPDU the driver says that its packets have been sent.
//!
//! Until then the packets take room in their socket (`sk_wmem_alloc`), and TCP small queues count
//! them. Firmware that reports by interrupts of its own, and in batches, holds a sender back that
//! way. Airtime limits and the driver's own count of frames are not delayed.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::packet::FlowId;
use crate::policy::checked;
use crate::units::{Span, Time};
use crate::wifi::outputs::{AirOutputs, Released};

/// How long a driver takes to report that packets have been sent (`ieee80211_tx_status`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "TxCompletion")]
pub struct TxCompletion {
    /// From the end of the PPDU's exchange until the host's sockets have their room back.
    pub delay: Span,
    /// Reports are gathered for this long, from the first on, before `delay` begins for all of
    /// them.
    pub batch: Span,
}

impl TxCompletion {
    /// Longest `delay` and `batch`; a queue of packets that long makes no sense.
    const MOST: Span = Span::from_secs(1);

    fn check(&self) -> Result<(), String> {
        for (key, value) in [("delay", self.delay), ("batch", self.batch)] {
            if value > TxCompletion::MOST {
                return Err(format!("`{key}` ({value}) must be at most {}", TxCompletion::MOST));
            }
        }
        Ok(())
    }
}
checked!(TxCompletion);

/// Reports of all radios that are on their way.
#[derive(Debug)]
pub(in crate::wifi) struct Completions {
    /// By radio; empty where no radio delays any.
    radios: Vec<Radio>,
    /// When the next one is due.
    pub at: Time,
}

#[derive(Debug)]
struct Radio {
    config: TxCompletion,
    /// End of the batch under way, and what is in it and in those before, by the time at which it
    /// is due.
    batch_ends: Time,
    waiting: VecDeque<(Time, Released)>,
}

impl Completions {
    /// Queues of radios that report as `configs` say.
    pub(super) fn new(configs: impl Iterator<Item = TxCompletion>) -> Completions {
        let radio = |config| Radio { config, batch_ends: Time::ZERO, waiting: VecDeque::new() };
        let radios: Vec<Radio> = configs.map(radio).collect();
        let some = radios.iter().any(|r| r.config != TxCompletion::default());
        Completions { radios: if some { radios } else { Vec::new() }, at: Time::NEVER }
    }

    /// A packet has been sent, or given up, by radio `r`.
    #[inline]
    pub(super) fn complete(&mut self, now: Time, r: usize, flow: FlowId, payload: u16, out: &mut AirOutputs) {
        match self.radios.get_mut(r).filter(|radio| radio.config != TxCompletion::default()) {
            None => out.release(flow, payload),
            Some(radio) => self.at = self.at.min(radio.wait(now, flow, payload)),
        }
    }

    /// Reports what is due.
    pub(in crate::wifi) fn report(&mut self, now: Time, out: &mut AirOutputs) {
        self.at = Time::NEVER;
        for radio in &mut self.radios {
            let due = radio.waiting.partition_point(|&(at, _)| at <= now);
            out.released.extend(radio.waiting.drain(..due).map(|(_, released)| released));
            self.at = radio.waiting.front().map_or(self.at, |&(at, _)| self.at.min(at));
        }
    }
}

impl Radio {
    /// Adds a packet to the batch under way, or begins one; when it is due.
    fn wait(&mut self, now: Time, flow: FlowId, payload: u16) -> Time {
        if now >= self.batch_ends {
            self.batch_ends = now + self.config.batch;
        }
        let due = self.batch_ends + self.config.delay;
        match self.waiting.back_mut() {
            Some((at, last)) if *at == due && last.flow == flow => {
                last.packets += 1;
                last.payload_bytes += u64::from(payload);
            }
            _ => {
                let payload_bytes = u64::from(payload);
                self.waiting.push_back((due, Released { flow, packets: 1, payload_bytes }));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// Packets of 100 bytes complete at `times`, by radio and ms; the reports as (ms, flow,
    /// packets).
    fn reports(configs: &[TxCompletion], times: &[(usize, u64)]) -> Vec<(u64, u32, u32)> {
        let (mut all, mut out) = (Completions::new(configs.iter().copied()), AirOutputs::default());
        let mut told = Vec::new();
        let mut take = |ms, out: &mut AirOutputs| {
            told.extend(out.released.drain(..).map(|r| {
                assert_eq!(r.payload_bytes, 100 * u64::from(r.packets));
                (ms, r.flow.0, r.packets)
            }));
        };
        for &(r, ms) in times {
            while all.at <= at(ms) {
                let due = all.at;
                all.report(due, &mut out);
                take(due.as_ns() / 1_000_000, &mut out);
            }
            all.complete(at(ms), r, FlowId(r as u32), 100, &mut out);
            take(ms, &mut out);
        }
        while !all.at.is_never() {
            let due = all.at;
            all.report(due, &mut out);
            take(due.as_ns() / 1_000_000, &mut out);
        }
        told
    }

    #[test]
    fn a_report_comes_after_the_delay_and_with_those_of_its_batch() {
        let [none, late, batched] =
            [(0, 0), (4, 0), (4, 2)].map(|(d, b)| TxCompletion { delay: Span::from_ms(d), batch: Span::from_ms(b) });
        let times = [(0, 10), (0, 10), (0, 11), (0, 13), (0, 14)];
        assert_eq!(reports(&[none], &times), [(10, 0, 1), (10, 0, 1), (11, 0, 1), (13, 0, 1), (14, 0, 1)]);
        assert_eq!(reports(&[late], &times), [(14, 0, 2), (15, 0, 1), (17, 0, 1), (18, 0, 1)]);
        // From 10 to 12, and from 13 to 15.
        assert_eq!(reports(&[batched], &times), [(16, 0, 3), (19, 0, 2)]);
        // Each radio for itself.
        assert_eq!(reports(&[none, late], &[(1, 10), (0, 11), (1, 12)]), [(11, 0, 1), (14, 1, 1), (16, 1, 1)]);
    }
}
