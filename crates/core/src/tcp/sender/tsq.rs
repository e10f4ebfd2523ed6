//! TCP small queues: data that waits below TCP in its own host, in the queue discipline and the
//! device, is bounded, so that it waits in the socket instead, where losses and the window are
//! known and other connections do not wait behind it.
//!
//! Linux, net/ipv4/tcp_output.c: 3.6 (commit 46d3ceab), 3.13 (98e09386), 3.19 (605ad7f1);
//! `tcp_small_queue_check` as of 6.12. The bound is looked at before each skb, so it can be
//! exceeded by one of them. A fast retransmission and one after a timeout leave whatever the bound
//! says; the retransmissions after them wait like new data, which Linux does since 4.x only.

use super::{Sender, State};
use crate::tcp::{Outputs, Pacing, SegmentsAtOnce, TcpConfig, Tsq};
use crate::units::Time;

/// `skb->truesize` of an skb beside its payload as `tcp_stream_alloc_skb` (net/ipv4/tcp.c) makes
/// it: 320 bytes for headers, 320 for `skb_shared_info`, 256 for `sk_buff`.
const SKB_HEAD: u64 = 896;

/// Segments of a connection that are below TCP in its own host.
#[derive(Debug, Default)]
pub(super) struct SmallQueue {
    /// `Some` if the device below reports what has left it: the pacing shift in force.
    pub pacing_shift: Option<u32>,
    /// Bytes below, overhead included.
    queued: u64,
    /// The bound has stopped the sender: a release is to start it again.
    is_throttled: bool,
}

impl SmallQueue {
    pub(super) fn begin(&mut self) {
        self.is_throttled = false;
    }

    pub(super) fn on_send(&mut self, payload: u16, config: &TcpConfig) {
        if self.pacing_shift.is_some() && payload > 0 {
            self.queued += u64::from(payload) + config.host_queue.tsq_overhead.get();
        }
    }
}

impl Sender {
    /// From now on the device below reports with [`Sender::on_released`] every data segment that it
    /// has been given, so that `tsq` can work. To be said before [`Sender::open`].
    /// `pacing_shift`: as the device asks (mac80211: 7); `None`: as the profile has it.
    pub fn enable_tsq(&mut self, pacing_shift: Option<u32>) {
        self.path.pacing_shift = pacing_shift.unwrap_or(self.config.host_queue.tsq_pacing_shift);
        self.small_queue.pacing_shift = Some(self.path.pacing_shift);
    }

    /// `segments` with `payload` bytes in all have left the host: sent and acknowledged, given up
    /// or dropped in its queues. Those without payload are not counted.
    pub fn on_released(&mut self, now: Time, segments: u32, payload: u64, out: &mut Outputs) {
        let bytes = payload + u64::from(segments) * self.config.host_queue.tsq_overhead.get();
        self.small_queue.queued = self.small_queue.queued.saturating_sub(bytes);
        if self.small_queue.is_throttled && self.state == State::Established {
            self.count_until(now);
            self.transmit_on(now, out);
        }
    }

    /// Bytes below TCP in its own host, with `tsq_overhead`; zero unless [`Sender::enable_tsq`] was
    /// called.
    pub fn queued_bytes(&self) -> u64 {
        self.small_queue.queued
    }

    /// True if enough bytes are below before an skb of `segments`. `at_rate`: payload of a second /
    /// 2^pacing shift.
    pub(super) fn must_wait_for_release(&mut self, at_rate: u64, segments: u32, retransmission: bool) -> bool {
        // A lost segment is in an skb of its own: SACK blocks split the others
        // (`tcp_match_skb_to_sack`).
        let is_full = self.is_small_queue_full(at_rate, segments, retransmission);
        self.small_queue.is_throttled |= is_full;
        is_full
    }

    /// `tcp_small_queue_check` before an skb of `segments`.
    fn is_small_queue_full(&self, at_rate: u64, segments: u32, retransmission: bool) -> bool {
        let queued = self.small_queue.queued;
        let config = &*self.config;
        let limit = config.host_queue.tsq_limit.get();
        match config.host_queue.tsq {
            Tsq::Off => false,
            Tsq::Fixed => queued >= limit.max(1),
            Tsq::AtLeast => queued > limit && queued > at_rate,
            Tsq::AtMost => {
                let payload = u64::from(segments) * u64::from(self.path.mss);
                let memory = match config.host_queue.segments_at_once {
                    SegmentsAtOnce::Single => payload + config.host_queue.tsq_overhead.get(),
                    SegmentsAtOnce::Linux => payload + SKB_HEAD,
                };
                let is_paced =
                    config.pacing.rule != Pacing::Off || self.cc.pacing_rate(&self.window, &self.path).is_some();
                let most = if is_paced { u64::MAX } else { limit };
                let bound = at_rate.max(2 * memory).min(most).saturating_mul(if retransmission { 2 } else { 1 });
                // `tcp_rtx_queue_empty_or_single_skb`: with no more than an skb outstanding the
                // next one goes.
                queued > bound && self.board.packets_out() > self.skb.size
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::collections::VecDeque;
    use std::sync::Arc;

    use super::*;
    use crate::packet::{FlowId, Packet};
    use crate::rng::Streams;
    use crate::tcp::{Receiver, profile};
    use crate::units::{Bytes, Seq32, Span};

    const RTT: Span = Span::from_ms(100);

    /// A device that holds what TCP sends until it is told to let go; then it arrives, and its ACKs
    /// return, at once.
    struct Host {
        now: Time,
        sender: Sender,
        receiver: Receiver,
        held: VecDeque<Packet>,
        out: Outputs,
    }

    impl Host {
        /// Connected after one round trip, with an initial window of 1000 segments and as much to
        /// send as `write` says.
        fn new(reports: bool, write: u64, change: impl FnOnce(&mut TcpConfig)) -> Host {
            let mut config = profile::profile("linux-3.13").unwrap().resolve().unwrap();
            (config.cwnd.initial, config.cwnd.max) = (1000, u32::MAX);
            config.buffers.send = Bytes::new(1 << 30);
            config.buffers.receive = Bytes::new(1 << 30);
            config.receiver.delayed_ack = Span::ZERO;
            change(&mut config);
            let config = Arc::new(config);
            let mut host = Host {
                now: Time::ZERO,
                sender: Sender::new(FlowId(0), 0, config.clone(), Streams::of(1, 0)),
                receiver: Receiver::new(FlowId(0), 0, config),
                held: Default::default(),
                out: Outputs::default(),
            };
            if reports {
                host.sender.enable_tsq(None);
            }
            host.sender.write(host.now, write, &mut host.out);
            host.sender.open(host.now, &mut host.out);
            host.now += RTT;
            let syn = host.out.packets.remove(0);
            host.deliver(&syn);
            host
        }

        fn deliver(&mut self, p: &Packet) {
            self.receiver.on_packet(self.now, p, &mut self.out);
            for mut ack in std::mem::take(&mut self.out.packets) {
                ack.window = 1 << 30; // unscaled in a SYN, at most 64 KiB
                self.sender.on_packet(self.now, &ack, &mut self.out);
            }
            self.hold();
        }

        fn hold(&mut self) {
            self.held.extend(self.out.packets.drain(..));
        }

        /// Lets `n` packets go, then reports them.
        fn release(&mut self, n: usize) {
            let n = n.min(self.held.len());
            let gone: Vec<Packet> = self.held.drain(..n).collect();
            for p in gone.iter().filter(|p| p.len > 0) {
                self.sender.on_released(self.now, 1, u64::from(p.len), &mut self.out);
                self.hold();
            }
            gone.iter().for_each(|p| self.deliver(p));
        }

        fn data_held(&self) -> usize {
            self.held.iter().filter(|p| p.len > 0).count()
        }
    }

    /// 1448 bytes a segment, 100 ms a round trip, 1000 segments of window in slow start: 200 % of
    /// it is 28.96 MB/s.
    #[test]
    fn each_era_stops_where_its_rule_says() {
        use SegmentsAtOnce::{Linux, Single};
        let rule = |tsq, limit, overhead, shift, at_once| {
            move |c: &mut TcpConfig| {
                c.host_queue.tsq = tsq;
                c.host_queue.tsq_limit = Bytes::new(limit);
                c.host_queue.tsq_overhead = Bytes::new(overhead);
                c.host_queue.tsq_pacing_shift = shift;
                c.host_queue.segments_at_once = at_once;
            }
        };
        for (tsq, limit, overhead, shift, at_once, segments) in [
            // 64 * 2048 = 131072: at the limit the old rule stops, the later ones let one more go.
            (Tsq::Fixed, 131_072, 600, 10, Single, 64),
            (Tsq::AtLeast, 131_072, 600, 10, Single, 65),
            // 4352 bytes each, as without scatter-gather: 30 are below the limit.
            (Tsq::Fixed, 131_072, 2904, 10, Single, 31),
            (Tsq::AtLeast, 131_072, 2904, 10, Single, 31),
            // A second / 2^7 at the pacing rate is 226250 bytes: 110 segments of 2048 are not above
            // it, 111 are.
            (Tsq::AtLeast, 131_072, 600, 7, Single, 111),
            // 28281 bytes in a second / 2^10; 14 segments of 1928 are below.
            (Tsq::AtMost, 4 << 20, 480, 10, Single, 15),
            // Never fewer than two segments, and one on top.
            (Tsq::AtMost, 4 << 20, 480, 20, Single, 3),
            // 28281 bytes are 19 segments at once. Twice their skb, 56816 bytes, is the bound: 24
            // of 2304 are below it.
            (Tsq::AtMost, 4 << 20, 856, 10, Linux, 38),
            // 226250 bytes are more than an skb of 45 segments takes, and than two: 98 of 2304 are
            // below it.
            (Tsq::AtMost, 4 << 20, 856, 7, Linux, 135),
            // The second skb goes whatever is below, as only one is outstanding.
            (Tsq::AtMost, 20_000, 856, 7, Linux, 90),
            // Two segments at least, and twice their skb: 7584 bytes.
            (Tsq::AtMost, 4 << 20, 856, 20, Linux, 4),
            (Tsq::AtMost, 4 << 20, 100, 20, Linux, 6),
            (Tsq::Off, 1, 480, 10, Single, 1000),
        ] {
            let host = Host::new(true, u64::MAX, rule(tsq, limit, overhead, shift, at_once));
            assert_eq!(host.data_held(), segments, "{tsq:?} {limit} {overhead} {shift} {at_once:?}");
            assert_eq!(host.sender.queued_bytes(), segments as u64 * (1448 + overhead));
            // Without reports nothing is counted and nothing held back.
            let host = Host::new(false, u64::MAX, rule(tsq, limit, overhead, shift, at_once));
            assert_eq!((host.data_held(), host.sender.queued_bytes()), (1000, 0));
        }
    }

    #[test]
    fn a_release_lets_as_much_follow() {
        let mut host = Host::new(true, u64::MAX, |_| {});
        assert_eq!(host.data_held(), 31);
        for released in 1..100 {
            host.sender.on_released(host.now, 1, 1448, &mut host.out);
            host.hold();
            assert_eq!((host.data_held(), host.sender.queued_bytes()), (31 + released, 31 * 4352));
        }
    }

    #[test]
    fn the_device_may_ask_for_another_pacing_shift() {
        let config = profile::profile("linux-6").unwrap().resolve().unwrap();
        let mut sender = Sender::new(FlowId(0), 0, Arc::new(config), Streams::of(1, 0));
        sender.enable_tsq(None);
        assert_eq!(sender.small_queue.pacing_shift, Some(10));
        sender.enable_tsq(Some(7));
        assert_eq!((sender.small_queue.pacing_shift, sender.path.pacing_shift), (Some(7), 7));
    }

    #[test]
    fn a_timeout_sends_whatever_the_bound_says() {
        let mut host = Host::new(true, u64::MAX, |_| {});
        // The tail loss probe that is due before finds everything still in the host.
        while host.out.packets.is_empty() {
            host.now = host.sender.deadline();
            host.sender.on_deadline(host.now, &mut host.out);
        }
        assert_eq!((host.out.packets.len(), host.sender.stats().tail_loss_probes), (1, 0));
        assert_eq!((host.out.packets[0].seq, host.sender.queued_bytes()), (Seq32(1), 32 * 4352));
    }

    fn rule() -> impl Strategy<Value = (Tsq, u64, u64, u32, SegmentsAtOnce)> {
        let tsq = prop_oneof![Just(Tsq::Fixed), Just(Tsq::AtLeast), Just(Tsq::AtMost)];
        let at_once = prop_oneof![Just(SegmentsAtOnce::Single), Just(SegmentsAtOnce::Linux)];
        (tsq, 1u64..300_000, 0u64..3000, 5u32..15, at_once)
    }

    proptest! {
        /// Without losses the bytes below never exceed the bound by more than an skb, they are
        /// those of the packets held, and everything arrives.
        #[test]
        fn the_bound_holds_and_nothing_stalls(
            (tsq, limit, overhead, shift, at_once) in rule(),
            steps in prop::collection::vec((1usize..60, 0u64..20), 1..60),
            write in 1u64..2_000_000,
        ) {
            let mut host = Host::new(true, write, |c| {
                c.cwnd.initial = 10;
                (c.host_queue.tsq, c.host_queue.tsq_limit, c.host_queue.tsq_overhead) = (tsq, Bytes::new(limit), Bytes::new(overhead));
                (c.host_queue.tsq_pacing_shift, c.host_queue.segments_at_once) = (shift, at_once);
            });
            let segment = 1448 + overhead;
            // An skb, and one more while only that is outstanding.
            let skbs = 2 * if at_once == SegmentsAtOnce::Single { 1 } else { 45 };
            for i in 0.. {
                prop_assert!(i < 10_000, "stalled");
                let held: u64 = host.held.iter().filter(|p| p.len > 0).map(|p| u64::from(p.len) + overhead).sum();
                prop_assert_eq!(host.sender.queued_bytes(), held);
                if tsq != Tsq::AtLeast {
                    prop_assert!(held <= limit.max(1) + skbs * segment, "{held}");
                }
                if host.held.is_empty() {
                    break;
                }
                let (n, ms) = steps[i % steps.len()];
                host.now += Span::from_ms(ms);
                host.release(n);
            }
            prop_assert_eq!(host.receiver.stats().bytes_delivered, write);
            prop_assert_eq!(host.sender.stats().segments_retransmitted, 0);
        }
    }
}
