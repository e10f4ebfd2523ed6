//! In place of TCP small queues, which a TUN device ends: it takes every packet at once, so the
//! kernel believes that all have left. A gate lets only so much of a connection's data into the
//! host's radio as small queues would, and keeps the rest outside the network. For others the
//! radio's queue is then as short as with a kernel whose driver holds its packets. For the sender
//! nothing changes: its round trips and its window include the packets that wait here.
//!
//! The bound is that of `tcp_small_queue_check` (Linux, net/ipv4/tcp_output.c) for a radio of
//! mac80211: the pacing rate, which in congestion avoidance is 1.2 times the rate of the
//! connection, over 2^7 (`sk_pacing_shift_update(sk, 7)` in net/mac80211/tx.c), and two packets at
//! least. The rate is measured: what the radio has sent in the last [`WINDOW`] or more. It is bytes
//! of packets; the kernel counts its own overhead, too.

use std::collections::{BTreeMap, VecDeque};

use airtcp_core::convert::count;
use airtcp_core::units::{Span, Time};
use serde::Serialize;

use crate::common::network::TcpData;

/// The rate is that of so long a time, or a little longer.
const WINDOW: Span = Span::from_ms(50);
/// `sk_pacing_rate` over the rate, in tenths.
const PACING_TENTHS: u64 = 12;
/// Binary logarithm of the pacing divisor that mac80211 sets.
const PACING_SHIFT: u32 = 7;
/// Two packets may always be inside.
const MIN_BOUND_BYTES: u64 = 2 * 1500;
/// Packets of a host that wait at most. A send buffer ends before.
const MAX_WAITING: usize = 16_384;
/// Connections above this number are looked through for those that have ended.
const MANY_CONNECTIONS: usize = 256;
/// A connection that has been still for so long is forgotten.
const IDLE_TIME: Span = Span::from_secs(10);

/// Counts of a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GateReport {
    /// Packets that had to wait.
    pub waited: u64,
    /// Packets that waited at once, at most.
    pub most_waiting: u64,
    /// Packets that had no room to wait.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Flow {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes in the radio.
    inside: u64,
    /// Bytes that it has sent since `begun`.
    sent: u64,
    begun: Time,
    /// Bytes per second; `None`: not known yet.
    rate: Option<u64>,
    used: Time,
}

impl Flow {
    fn bound(&self) -> u64 {
        self.rate.map_or(u64::MAX, |rate| MIN_BOUND_BYTES.max((rate * PACING_TENTHS / 10) >> PACING_SHIFT))
    }

    /// As in Linux the bound is looked at before a packet, which may exceed it.
    fn is_open(&self) -> bool {
        self.inside < self.bound()
    }

    fn is_idle(&self, now: Time) -> bool {
        self.inside == 0 && self.waiting.is_empty() && now.since(self.used) > IDLE_TIME
    }
}

/// The gate of one host.
#[derive(Debug, Default)]
pub struct Gate {
    flows: BTreeMap<u32, Flow>,
    /// Packets that the radio holds, oldest first, by
    /// [`Network::holding`](crate::common::network::Network::holding): connection and bytes.
    /// `None`: not [`TcpData`].
    held: BTreeMap<u32, VecDeque<Option<(u32, u64)>>>,
    waiting: usize,
    report: GateReport,
}

impl Gate {
    /// Its counts.
    pub fn report(&self) -> GateReport {
        self.report
    }

    /// True if packets wait.
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// True if this packet may enter now. If not, it is kept or dropped.
    pub fn admits(&mut self, now: Time, bulk: TcpData, bytes: &[u8]) -> bool {
        if self.flows.len() > MANY_CONNECTIONS {
            self.flows.retain(|_, flow| !flow.is_idle(now));
        }
        let flow = self.flows.entry(bulk.connection).or_default();
        flow.used = now;
        if flow.waiting.is_empty() && flow.is_open() {
            return true;
        }
        if self.waiting >= MAX_WAITING {
            self.report.dropped += 1;
            return false;
        }
        flow.waiting.push_back(bytes.to_vec());
        self.waiting += 1;
        self.report.waited += 1;
        self.report.most_waiting = self.report.most_waiting.max(count(self.waiting).into());
        false
    }

    /// The radio holds a packet now.
    pub fn entered(&mut self, now: Time, holding: u32, bulk: Option<TcpData>, bytes: usize) {
        let bytes = u64::from(count(bytes));
        if let Some(flow) = bulk.and_then(|bulk| self.flows.get_mut(&bulk.connection)) {
            if flow.inside == 0 {
                // Time in which the connection had nothing in the radio tells nothing about the
                // possible rate.
                (flow.begun, flow.sent) = (now, 0);
            }
            flow.inside += bytes;
        }
        self.held.entry(holding).or_default().push_back(bulk.map(|bulk| (bulk.connection, bytes)));
    }

    /// The radio no longer holds the oldest of these packets.
    pub fn released(&mut self, now: Time, holding: u32, packets: u32) {
        let Some(held) = self.held.get_mut(&holding) else { return };
        for (connection, bytes) in (0..packets).filter_map(|_| held.pop_front()).flatten() {
            let Some(flow) = self.flows.get_mut(&connection) else { continue };
            flow.inside = flow.inside.saturating_sub(bytes);
            flow.sent += bytes;
            let took = now.since(flow.begun);
            if took >= WINDOW {
                flow.rate = Some(flow.sent.saturating_mul(1_000_000_000) / took.as_ns());
                (flow.begun, flow.sent) = (now, 0);
            }
        }
    }

    /// The radio holds nothing.
    pub fn emptied(&mut self) {
        self.held.clear();
        self.flows.values_mut().for_each(|flow| flow.inside = 0);
    }

    /// A packet that waited and may enter now.
    pub fn take_next(&mut self) -> Option<(TcpData, Vec<u8>)> {
        if self.waiting == 0 {
            return None;
        }
        let open = self.flows.iter_mut().find(|(_, flow)| !flow.waiting.is_empty() && flow.is_open());
        let (&connection, flow) = open?;
        let packet = flow.waiting.pop_front()?;
        self.waiting -= 1;
        Some((TcpData { connection }, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TcpData = TcpData { connection: 1 };
    const B: TcpData = TcpData { connection: 2 };

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    /// A gate behind which a radio has sent 1500 bytes of A each millisecond for 50 ms: 12 Mbit/s.
    fn measured() -> Gate {
        let mut gate = Gate::default();
        for _ in 0..60 {
            assert!(gate.admits(at(0), A, &[0; 1500]), "nothing is known of the rate yet");
            gate.entered(at(0), 7, Some(A), 1500);
        }
        (1..=50).for_each(|ms| gate.released(at(ms), 7, 1));
        gate
    }

    #[test]
    fn the_bound_is_that_of_small_queues() {
        let mut gate = measured();
        // 1.2 * 1 500 000 / 128 = 14 062 bytes; ten packets are inside still, 15 000 bytes.
        assert_eq!(gate.flows[&1].bound(), 14_062);
        assert!(!gate.admits(at(50), A, &[1; 1500]));
        assert_eq!((gate.has_waiting(), gate.take_next()), (true, None));
        gate.released(at(51), 7, 1);
        assert_eq!(gate.take_next(), Some((A, vec![1; 1500])));
        assert!(!gate.has_waiting());
        assert_eq!(gate.report(), GateReport { waited: 1, most_waiting: 1, dropped: 0 });
    }

    #[test]
    fn connections_do_not_wait_for_each_other_and_packets_keep_their_order() {
        let mut gate = measured();
        for k in 0..3 {
            assert!(!gate.admits(at(50), A, &[k; 9]));
        }
        assert!(gate.admits(at(50), B, &[9; 9]));
        gate.entered(at(50), 7, Some(B), 9);
        // Others' packets count when they leave, as no connection's data.
        gate.entered(at(50), 7, None, 84);
        gate.released(at(52), 7, 12);
        let after: Vec<u8> = std::iter::from_fn(|| gate.take_next()).map(|(_, packet)| packet[0]).collect();
        assert_eq!(after, [0, 1, 2]);
    }

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let mut gate = measured();
        (0..MAX_WAITING + 5).for_each(|_| assert!(!gate.admits(at(50), A, &[0; 40])));
        assert_eq!(gate.report().dropped, 5);
        // A radio that holds nothing lets the gate open, whatever was counted.
        gate.emptied();
        assert!(gate.take_next().is_some());
    }

    #[test]
    fn connections_that_have_ended_are_forgotten() {
        let mut gate = Gate::default();
        for connection in 0..5000 {
            let now = at(u64::from(connection) * 100);
            assert!(gate.admits(now, TcpData { connection }, &[0; 100]));
            gate.entered(now, 7, Some(TcpData { connection }), 100);
            gate.released(now, 7, 1);
        }
        assert!(gate.flows.len() <= MANY_CONNECTIONS + 1, "{}", gate.flows.len());
    }
}
