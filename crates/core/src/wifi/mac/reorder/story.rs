//! A bulk upload through a station's queue, a lossy line of A-MPDUs and the reorder buffer. The
//! tests show if each policy for the index keeps the queue short, and at which cost.
//!
//! The model is not the simulator's 802.11: it has no contention, its ACKs take no airtime, and the
//! test sets the rate.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::RngExt;

use super::*;
use crate::packet::{FlowId, Packet};
use crate::rng::{Purpose, Rng, Streams, stream};
use crate::tcp::profile::profile;
use crate::tcp::{Outputs, Receiver, Sender};
use crate::units::Bytes;
use crate::wifi::retry_out::{DelayConfig, FixedConfig};

/// An MPDU that the station has not seen acknowledged.
struct Pending {
    sn: Seq12,
    packet: Packet,
    queued_at: Time,
}

struct Upload {
    now: Time,
    rng: Rng,
    rate: DataRate,
    corrupt: f64,
    sender: Sender,
    receiver: Receiver,
    queue: VecDeque<(Packet, Time)>,
    pending: Vec<Pending>,
    next_sn: Seq12,
    buffer: ReorderBuffer<Packet, TcpEarlyDrop>,
    acks: VecDeque<(Time, Packet)>,
    waits_ns: Vec<u64>,
}

/// Results over the last two thirds of the run.
#[derive(Debug)]
struct Outcome {
    mean_wait_ms: f64,
    mbps: f64,
    stats: ReorderStats,
}

impl Upload {
    fn new(retry_out: Option<RetryOutConfig>, mbps: u64, corrupt: f64) -> Upload {
        let mut config = profile("linux-3.13-no-tsq").unwrap().resolve().unwrap();
        config.buffers.receive = Bytes::new(3 << 20);
        let config = Arc::new(config);
        let start = Seq12::new(4000);
        let reorder = ReorderConfig { retry_out, ..ReorderConfig::default() };
        Upload {
            now: Time::ZERO,
            rng: stream(1, 0, Purpose::LinkLoss),
            rate: DataRate::from_mbps(mbps),
            corrupt,
            sender: Sender::new(FlowId(0), 0, config.clone(), Streams::of(1, 0)),
            receiver: Receiver::new(FlowId(0), 0, config),
            queue: VecDeque::new(),
            pending: Vec::new(),
            next_sn: start,
            buffer: ReorderBuffer::new(&reorder, start, reorder.early_drop()),
            acks: VecDeque::new(),
            waits_ns: Vec::new(),
        }
    }

    fn enqueue(&mut self, out: &mut Outputs) {
        self.queue.extend(out.packets.drain(..).map(|p| (p, self.now)));
    }

    /// Handles the events up to `until` other than transmissions.
    fn run_timers(&mut self, until: Time) {
        let mut out = Outputs::default();
        loop {
            let ack = self.acks.front().map_or(Time::NEVER, |a| a.0);
            let next = ack.min(self.sender.deadline()).min(self.receiver.deadline()).min(self.buffer.deadline());
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            if next == ack {
                let (_, ack) = self.acks.pop_front().unwrap();
                self.sender.on_packet(self.now, &ack, &mut out);
                self.enqueue(&mut out);
            } else if next == self.sender.deadline() {
                self.sender.on_deadline(self.now, &mut out);
                self.enqueue(&mut out);
            } else if next == self.receiver.deadline() {
                self.receiver.on_deadline(self.now, &mut out);
                self.acknowledge(&mut out);
            } else {
                let mut up = Vec::new();
                self.buffer.on_deadline(self.now, &mut up);
                self.deliver(&up);
            }
        }
        self.now = until;
    }

    /// ACKs go down and are at the station a millisecond later.
    fn acknowledge(&mut self, out: &mut Outputs) {
        for ack in out.packets.drain(..) {
            if let Some(early_drop) = self.buffer.early_drop_mut() {
                early_drop.on_sent(self.now, &ack);
            }
            self.acks.push_back((self.now + Span::from_ms(1), ack));
        }
    }

    fn deliver(&mut self, up: &[Packet]) {
        let mut out = Outputs::default();
        for p in up {
            self.receiver.on_packet(self.now, p, &mut out);
        }
        self.acknowledge(&mut out);
    }

    /// Sends an A-MPDU of all unacknowledged MPDUs, and new ones as far as the window and 4 ms
    /// admit.
    fn transmit(&mut self) {
        let most = (self.rate.bytes_in(Span::from_ms(4)).get() / 1540).clamp(1, 32) as usize;
        while self.pending.len() < most
            && self.pending.first().is_none_or(|first| first.sn.distance_to(self.next_sn) < 64)
        {
            let Some((packet, queued_at)) = self.queue.pop_front() else { break };
            self.pending.push(Pending { sn: self.next_sn, packet, queued_at });
            self.next_sn = self.next_sn.forward(1);
        }
        if self.pending.is_empty() {
            return self.run_timers(self.now + Span::from_us(100));
        }
        let bytes: u64 = self.pending.iter().map(|m| u64::from(m.packet.size) + 40).sum();
        self.run_timers(self.now + Span::from_us(200) + self.rate.time_for(bytes));
        self.buffer.on_ppdu(self.now, self.rate);
        let mut up = Vec::new();
        let mut refused = Vec::new();
        for mpdu in std::mem::take(&mut self.pending) {
            if self.rng.random::<f64>() < self.corrupt {
                self.buffer.on_corrupt(self.now, mpdu.sn, PacketFacts { is_tcp: true, bytes: 1500 }, &mut up);
                self.pending.push(mpdu);
                continue;
            }
            self.waits_ns.push(self.now.since(mpdu.queued_at).as_ns());
            if let Some(early_drop) = self.buffer.early_drop_mut() {
                early_drop.on_received(self.now, &mpdu.packet);
            }
            self.buffer.on_mpdu(self.now, mpdu.sn, mpdu.packet, &mut up, &mut refused);
        }
        self.deliver(&up);
    }

    fn run(mut self) -> Outcome {
        let mut out = Outputs::default();
        self.sender.write(self.now, u64::MAX, &mut out);
        self.sender.open(self.now, &mut out);
        self.enqueue(&mut out);
        let (begin, end) = (Time::ZERO + Span::from_secs(10), Time::ZERO + Span::from_secs(30));
        while self.now < begin {
            self.transmit();
        }
        self.waits_ns.clear();
        let before = self.receiver.stats().bytes_delivered;
        while self.now < end {
            self.transmit();
        }
        let mean_wait_ms = self.waits_ns.iter().sum::<u64>() as f64 / self.waits_ns.len() as f64 / 1e6;
        let mbps = (self.receiver.stats().bytes_delivered - before) as f64 * 8.0 / 20e6;
        Outcome { mean_wait_ms, mbps, stats: self.buffer.stats() }
    }
}

/// (rate in Mbit/s, part of MPDUs corrupt): without the remedy, with the table and by delay.
fn outcomes(mbps: u64, corrupt: f64) -> [Outcome; 3] {
    let policies = [None, Some(RetryOutConfig::default()), Some(RetryOutConfig::Delay(DelayConfig::default()))];
    policies.map(|policy| Upload::new(policy, mbps, corrupt).run())
}

/// The study's story: hundreds of milliseconds without, tens with the table where the rate is low,
/// for no less throughput.
#[test]
fn at_low_rates_the_table_shortens_the_queue() {
    for mbps in [6, 12, 24] {
        let [without, stepped, _] = outcomes(mbps, 0.1);
        assert_eq!((without.stats.given_up, without.stats.lost), (0, 0));
        assert!(without.mean_wait_ms > 500.0, "{mbps} Mbit/s: {without:?}");
        assert!(stepped.mean_wait_ms < 100.0, "{mbps} Mbit/s: {stepped:?}");
        assert!(stepped.mbps > 0.97 * without.mbps, "{mbps} Mbit/s: {stepped:?} beside {without:?}");
        // Every one given up came later after all, for the sender goes on: the last may still be on
        // its way.
        assert!(stepped.stats.late <= stepped.stats.given_up && stepped.stats.late + 1 >= stepped.stats.given_up);
    }
    // From 100 Mbit/s on the table rests.
    let [without, stepped, _] = outcomes(130, 0.1);
    assert_eq!((stepped.stats.given_up, stepped.mbps), (0, without.mbps));
}

/// The delay stays near its target at every rate and error rate. The table of `stepped` cannot know
/// how often MPDUs fail.
#[test]
fn by_delay_the_queue_is_as_long_as_asked_at_any_rate() {
    for (mbps, corrupt) in [(2, 0.02), (6, 0.005), (6, 0.2), (24, 0.02), (80, 0.1), (130, 0.02)] {
        let [without, _, delay] = outcomes(mbps, corrupt);
        assert!((40.0..70.0).contains(&delay.mean_wait_ms), "{mbps} Mbit/s, {corrupt}: {delay:?}");
        assert!(without.mean_wait_ms > 90.0, "{mbps} Mbit/s, {corrupt}: {without:?}");
        assert!(delay.mbps > 0.98 * without.mbps, "{mbps} Mbit/s, {corrupt}: {delay:?} beside {without:?}");
    }
}

/// The study's figure 17: the index of the lowest rates costs throughput at high ones.
#[test]
fn a_small_index_costs_throughput_at_high_rates() {
    let fixed = |mbps| Upload::new(Some(RetryOutConfig::Fixed(FixedConfig { index: 2 })), mbps, 0.2).run();
    let without = |mbps| Upload::new(None, mbps, 0.2).run();
    assert!(fixed(12).mbps > 0.97 * without(12).mbps);
    assert!(fixed(80).mbps < 0.8 * without(80).mbps);
}
