//! Whole worlds with datagrams and pings: times to the nanosecond, conservation, order,
//! determinism.

use airtcp_core::queue::QueueConfig;
use airtcp_core::units::{DataRate, Probability, Span, Time};
use airtcp_sim::capture::{Captured, NoCapture};
use airtcp_sim::record::{Data, Table};
use airtcp_sim::spec::*;
use airtcp_sim::traffic::{Ping, Train};
use airtcp_sim::world::{RunOutput, World};
use proptest::prelude::*;

use crate::common::*;

fn f64s<'a>(output: &'a RunOutput, table: &str, column: &str) -> &'a [f64] {
    match output.table(table).unwrap().column(column) {
        Some(Data::F64(v)) => v,
        other => panic!("{table}.{column}: {other:?}"),
    }
}
fn u64s<'a>(output: &'a RunOutput, table: &str, column: &str) -> &'a [u64] {
    match output.table(table).unwrap().column(column) {
        Some(Data::U64(v)) => v,
        other => panic!("{table}.{column}: {other:?}"),
    }
}
/// Tables without NaN, which differs from itself.
fn bits(tables: &[Table]) -> String {
    format!("{tables:?}")
}

/// a - r - b; the second link is the bottleneck.
fn line(duration: Span, rate: DataRate, queue: QueueConfig) -> (RunSpec, NodeId, NodeId) {
    let mut spec = empty(1, duration);
    let (a, r, b) = (spec.host("a"), spec.router("r"), spec.host("b"));
    spec.both(a, r, DataRate::from_mbps(100), Span::from_ms(1));
    spec.link(r, b, rate, Span::from_ms(10), queue);
    spec.link(b, r, rate, Span::from_ms(10), fifo(None, None));
    (spec, a, b)
}

#[test]
fn a_train_takes_the_time_of_its_lines() {
    let (mut spec, a, b) = line(Span::from_secs(1), DataRate::from_mbps(10), fifo(None, None));
    spec.flow(a, b, Time::from_ns(500), Time::NEVER, train(3, 1250));
    let output = run(&spec);
    // 1250 bytes: 100 us on the first line, 1 ms on the second, where the later ones wait.
    let first: f64 = 500e-9 + 100e-6 + 1e-3 + 1e-3 + 10e-3;
    let received = f64s(&output, "datagrams", "received_s");
    for (i, at) in received.iter().enumerate() {
        assert!((at - (first + i as f64 * 1e-3)).abs() < 1e-12, "{received:?}");
    }
    // Waits: 0.9 ms for the second, 1.8 ms for the third, of one second; on the first line 0.1 and
    // 0.2 ms.
    let queue = f64s(&output, "links", "queue_mean_packets");
    assert!((queue[2] - 2.7e-3).abs() < 1e-12 && (queue[0] - 0.3e-3).abs() < 1e-12, "{queue:?}");
    assert_eq!(u64s(&output, "links", "queue_max_packets")[..3], [2, 0, 2]);
    assert!((f64s(&output, "links", "utilisation")[2] - 3e-3).abs() < 1e-12);
    assert!((f64s(&output, "links", "queue_delay_mean_ms")[2] - 0.9).abs() < 1e-12);
}

#[test]
fn a_ping_takes_the_round_trip() {
    let (mut spec, a, b) = line(Span::from_secs(1), DataRate::from_mbps(10), fifo(None, None));
    spec.flow(
        a,
        b,
        Time::ZERO,
        Time::ZERO + Span::from_ms(250),
        Traffic::Ping(Ping { interval: Span::from_ms(100), packet_bytes: 125 }),
    );
    let output = run(&spec);
    // 10 us and 100 us of transmission, 11 ms of propagation, twice.
    assert_eq!(f64s(&output, "pings", "rtt_ms"), [22.22; 3]);
    assert_eq!(f64s(&output, "pings", "sent_s"), [0.0, 0.1, 0.2]);
    assert_eq!(f64s(&output, "flows", "rtt_mean_ms"), [22.22]);
}

#[test]
fn an_overloaded_line_drops_what_exceeds_its_rate_and_an_underloaded_one_nothing() {
    // 1250-byte packets on 10 Mbit/s: one per millisecond. At 110 % ten arrive in the time of
    // eleven.
    for (load_bps, expect_drops) in [(9_000_000, false), (11_000_000, true)] {
        let (mut spec, a, b) = line(Span::from_secs(11), DataRate::from_mbps(10), fifo(Some(50), None));
        spec.warmup = Span::from_secs(1);
        spec.flow(a, b, Time::ZERO, Time::NEVER, cbr(load_bps, 1250));
        let output = run(&spec);
        let arrived = u64s(&output, "links", "arrived_packets")[2];
        let dropped = u64s(&output, "links", "dropped_overflow")[2];
        assert_eq!(arrived, load_bps / 1000);
        if expect_drops {
            // Full by 1 s (50 places fill at 100 packets/s): from then on exactly the excess of 10
            // s is dropped.
            assert_eq!(dropped, 1000);
            assert_eq!(u64s(&output, "links", "forwarded_packets")[2], 10_000);
            assert_eq!(f64s(&output, "links", "utilisation")[2], 1.0);
            assert_eq!(u64s(&output, "links", "queue_max_packets")[2], 50);
            // A full queue: 50 right after an arrival, 49 from a departure to the next arrival.
            let queue = f64s(&output, "links", "queue_mean_packets")[2];
            assert!((49.0..50.0).contains(&queue), "{queue}");
        } else {
            assert_eq!(dropped, 0);
            assert!((f64s(&output, "links", "utilisation")[2] - 0.9).abs() < 1e-9);
            assert_eq!(f64s(&output, "links", "queue_mean_packets")[2], 0.0);
        }
    }
}

#[test]
fn constant_rate_delay_and_jitter() {
    let (mut spec, a, b) = line(Span::from_secs(2), DataRate::from_mbps(10), fifo(None, None));
    spec.flow(a, b, Time::ZERO, Time::NEVER, cbr(1_000_000, 1250));
    let output = run(&spec);
    // 0.1 + 1 ms of transmission, 11 ms of propagation, no queue.
    assert_eq!(f64s(&output, "flows", "delay_mean_ms"), [12.1]);
    assert_eq!(f64s(&output, "flows", "jitter_ms"), [0.0]);
    // Datagrams at 0, 10 ms, ...: those sent up to 1.98 s have arrived by 2 s.
    assert_eq!(u64s(&output, "flows", "received"), [199]);
    assert_eq!(u64s(&output, "flows", "segments_sent"), [201]);
}

#[test]
fn loss_on_the_line_takes_line_time_and_is_counted_at_its_rate() {
    let (mut spec, a, b) = line(Span::from_secs(100), DataRate::from_mbps(10), fifo(None, None));
    spec.links[2].loss = Probability::new(0.1).unwrap();
    spec.record.drops = vec![LinkId(2)];
    spec.flow(a, b, Time::ZERO, Time::NEVER, cbr(5_000_000, 1250));
    let output = run(&spec);
    let lost = u64s(&output, "links", "lost_packets")[2] as f64;
    // 50 000 draws: the standard deviation is 67; the seed is fixed.
    assert!((lost - 5000.0).abs() < 4.0 * 67.0, "{lost}");
    assert!((f64s(&output, "links", "utilisation")[2] - 0.5).abs() < 1e-4);
    assert_eq!(output.table("drops").unwrap().len(), lost as usize);
    assert_eq!(u64s(&output, "flows", "lost_on_lines")[0], lost as u64);
    assert_eq!(u64s(&output, "links", "dropped_overflow")[2], 0);
}

#[test]
fn held_back_packets_arrive_later_by_their_delay_and_others_on_time() {
    let (mut spec, a, b) = line(Span::from_secs(100), DataRate::from_mbps(10), fifo(None, None));
    spec.flow(
        a,
        b,
        Time::ZERO,
        Time::NEVER,
        Traffic::Train(Train { count: 40_000, gap: Span::from_us(2_000), packet_bytes: 1250, every: None }),
    );
    let delays = |spec: &RunSpec| {
        let output = run(spec);
        let (sent, received) = (f64s(&output, "datagrams", "sent_s"), f64s(&output, "datagrams", "received_s"));
        let delays: Vec<f64> = sent.iter().zip(received).map(|(s, r)| (r - s) * 1e3).collect();
        (delays, u64s(&output, "links", "held_back_packets").to_vec())
    };
    let plain = delays(&spec);
    assert_eq!(plain.1, [0; 4]);
    // On the first link, which the second would be fused with otherwise; as drop-tail, and with a
    // queue of its own.
    for (link, queue) in [(0, fifo(None, None)), (2, fifo(None, None)), (2, QueueConfig::by_name("codel").unwrap())] {
        spec.links[link].queue = queue;
        for (min, max) in [(5_000, 5_000), (1_000, 9_000)] {
            spec.links[link].reorder = held_back(0.03, min, max);
            let (late, held) = delays(&spec);
            let extra: Vec<f64> = late.iter().zip(&plain.0).map(|(a, b)| a - b).collect();
            // Held-back packets of 40 000: the standard deviation is 34; the seed is fixed.
            let count = held[link];
            assert!((count as f64 - 1200.0).abs() < 4.0 * 34.0, "{count}");
            assert_eq!(held.iter().sum::<u64>(), count);
            let (min, max) = (min as f64 * 1e-3, max as f64 * 1e-3);
            if link == 0 {
                // Late or not, all then wait for the second line, which takes a millisecond for
                // each.
                let at_most = max + 1e-6 + count as f64;
                assert!(extra.iter().all(|e| (-1e-6..at_most).contains(e)));
                assert!(extra.iter().filter(|e| **e > min - 1e-6).count() as u64 >= count);
                continue;
            }
            let (late, on_time): (Vec<f64>, Vec<f64>) = extra.into_iter().partition(|e| *e > 0.5);
            assert_eq!(late.len() as u64, count);
            assert!(late.iter().all(|e| (min - 1e-6..max + 1e-6).contains(e)));
            assert!(on_time.iter().all(|e| e.abs() < 1e-6));
        }
        spec.links[link].reorder = Reorder::NONE;
        spec.links[link].queue = fifo(None, None);
    }
}

#[test]
fn captured_packets_come_in_order_and_no_closer_than_the_line_sends_them() {
    let (mut spec, a, b) = line(Span::from_secs(5), DataRate::from_mbps(10), fifo(Some(20), None));
    spec.record.capture = vec![LinkId(2), LinkId(0)];
    spec.flow(a, b, Time::ZERO, Time::NEVER, cbr(11_000_000, 1250));
    let mut captured: Vec<Captured> = Vec::new();
    let mut world = World::build(&spec).unwrap();
    // In steps, as a progress bar does it.
    for ms in (0..=5000).step_by(250) {
        world.run_until(Time::ZERO + Span::from_ms(ms), &mut captured);
    }
    assert!(captured.is_sorted_by_key(|c| c.time));
    let line: Vec<_> = captured.iter().filter(|c| c.link == LinkId(2)).collect();
    assert_eq!(line[0].time, Time::from_ns(1_100_000));
    assert!(
        line.windows(2).all(|w| w[1].time.since(w[0].time) == Span::from_ms(1) && w[0].packet.seq != w[1].packet.seq)
    );
    assert_eq!(line.len() as u64, world.link_totals(LinkId(2)).started_packets);
    assert_eq!(world.now(), world.end());
}

#[test]
fn warmup_and_interruption() {
    let (mut spec, a, b) = line(Span::from_secs(10), DataRate::from_mbps(10), fifo(None, None));
    spec.warmup = Span::from_secs(4);
    spec.record_everything();
    spec.flow(a, b, Time::ZERO, Time::NEVER, cbr(1_000_000, 1250));
    let full = run(&spec);
    assert_eq!(full.table("link_series").unwrap().len(), 100 * spec.links.len());
    // One packet per 10 ms in 4 s..=10 s.
    assert_eq!(u64s(&full, "flows", "segments_sent"), [601]);
    assert_eq!(f64s(&full, "flows", "goodput_bps"), [1_000_000.0]);
    let mut world = World::build(&spec).unwrap();
    world.run_until(Time::ZERO + Span::from_secs(2), &mut NoCapture);
    let cut = world.finish();
    assert_eq!(cut.summary.end_s, 2.0);
    assert_eq!(cut.summary.groups[0].goodput_bps, None);
    assert_eq!(cut.table("link_series").unwrap().len(), 20 * spec.links.len());
}

/// A packet is at a fused link from the very nanosecond of its arrival, which a summary that begins
/// then includes.
#[test]
fn the_instant_of_an_arrival_at_a_fused_link() {
    let mut spec = empty(1, Span::from_ms(10));
    let (a, r1, r2, b) = (spec.host("a"), spec.router("r1"), spec.router("r2"), spec.host("b"));
    spec.both(a, r1, DataRate::from_mbps(100), Span::from_us(50));
    spec.both(r1, r2, DataRate::from_mbps(10), Span::from_us(300));
    let (fused, _) = spec.both(r2, b, DataRate::from_mbps(10), Span::from_us(700));
    spec.record_everything();
    spec.flow(a, b, Time::ZERO, Time::NEVER, train(2, 1250));
    // 100 us and 50 us, 1 ms and 300 us; the second packet follows a transmission later.
    for (at, before) in [(1_450_000, 0), (2_450_000, 1)] {
        let mut world = World::build(&spec).unwrap();
        world.run_until(Time::from_ns(at - 1), &mut NoCapture);
        assert_eq!(world.link_totals(fused).arrived_packets, before);
        world.run_until(Time::from_ns(at), &mut NoCapture);
        assert_eq!(world.link_totals(fused).arrived_packets, before + 1);
        for (warmup, since) in [(at - 1, 2 - before), (at, 2 - before), (at + 1, 1 - before)] {
            spec.warmup = Span::from_ns(warmup);
            assert_eq!(u64s(&run(&spec), "links", "arrived_packets")[fused.0 as usize], since);
        }
    }
}

/// A transmission that ends or begins in the very nanosecond in which the warm-up ends does so
/// after it, on every link.
#[test]
fn a_transmission_that_ends_with_the_warmup() {
    let mut spec = empty(1, Span::from_ms(10));
    let (a, r1, r2, b) = (spec.host("a"), spec.router("r1"), spec.router("r2"), spec.host("b"));
    let (first, _) = spec.both(a, r1, DataRate::from_mbps(100), Span::from_us(50));
    let (middle, _) = spec.both(r1, r2, DataRate::from_mbps(10), Span::from_us(300));
    let (fused, _) = spec.both(r2, b, DataRate::from_mbps(10), Span::from_us(700));
    spec.record_everything();
    spec.flow(a, b, Time::ZERO, Time::NEVER, train(3, 1250));
    // A packet takes 100 us, 1 ms and 1 ms.
    for (link, end) in [(first, 100_000), (middle, 1_150_000), (fused, 2_450_000)] {
        for captured in [vec![], vec![first, middle, fused]] {
            spec.record.capture = captured;
            for (warmup, since) in [(end - 1, 3), (end, 3), (end + 1, 2)] {
                spec.warmup = Span::from_ns(warmup);
                let output = run(&spec);
                assert_eq!(u64s(&output, "links", "forwarded_packets")[link.0 as usize], since);
                let delays = f64s(&output, "links", "queue_delay_mean_ms");
                // Waits of the packets whose transmission has not begun before: two, then one.
                let waited = match (link == first, link == middle, warmup > end) {
                    (true, _, false) => (f64::from(100_000 + 200_000) - 2.0 * warmup as f64).max(0.0) / 2.0,
                    (true, _, true) => 200_000.0 - warmup as f64,
                    (_, true, false) => (f64::from(1_150_000 + 2_150_000) - 2.0 * warmup as f64).max(0.0) / 2.0,
                    (_, true, true) => 2_150_000.0 - warmup as f64,
                    _ => 0.0,
                };
                assert!(
                    (delays[link.0 as usize] - waited * 1e-6).abs() < 1e-9,
                    "{link:?} {warmup}: {delays:?}, {waited}"
                );
            }
        }
    }
}

fn held_back(probability: f64, min_us: u64, max_us: u64) -> Reorder {
    Reorder {
        probability: Probability::new(probability).unwrap(),
        min: Span::from_us(min_us),
        max: Span::from_us(max_us),
    }
}

/// A ring of routers with chords, hosts on them, every kind of datagram traffic. `reordering`: on
/// some of the links.
fn networks(reordering: bool) -> impl Strategy<Value = RunSpec> {
    let link = (
        1u64..200,
        0u64..3_000_000,
        prop::option::of(0u32..12),
        prop::option::of(0u64..20_000),
        0u8..4,
        1u32..4,
        0usize..10,
    );
    let flow = (0usize..6, 0usize..6, 0u64..50_000_000, 0u8..3, 1u32..40, 28u16..1600);
    (
        2usize..5,
        prop::collection::vec(link, 20),
        prop::collection::vec(flow, 1..8),
        any::<u64>(),
        prop::collection::vec(0u32..20, 0..3),
    )
        .prop_map(move |(routers, links, flows, seed, capture)| {
            let mut spec = empty(seed, Span::from_secs(2));
            let routers: Vec<NodeId> = (0..routers).map(|i| spec.router(&format!("r{i}"))).collect();
            let hosts: Vec<NodeId> = (0..6).map(|i| spec.host(&format!("h{i}"))).collect();
            let mut parameters = links.into_iter();
            let mut add = |spec: &mut RunSpec, from, to| {
                let Some((rate, delay, packets, bytes, loss, cost, queue)) = parameters.next() else { return };
                let rate = DataRate::from_bps(rate * 1_000_003);
                // Half of the links drop-tail, the others any discipline there is, with its
                // defaults.
                let queue = match QueueConfig::NAMES.get(queue) {
                    Some(name) => QueueConfig::by_name(name).unwrap(),
                    None => fifo(packets, bytes),
                };
                let id = spec.link(from, to, rate, Span::from_ns(delay), queue);
                spec.links[id.0 as usize].cost = cost;
                spec.links[id.0 as usize].loss = Probability::new(if loss == 0 { 0.05 } else { 0.0 }).unwrap();
                if reordering && loss < 2 {
                    spec.links[id.0 as usize].reorder = held_back(0.2, 1_000, 5_000);
                }
            };
            for i in 0..routers.len() {
                add(&mut spec, routers[i], routers[(i + 1) % routers.len()]);
            }
            for (i, &host) in hosts.iter().enumerate() {
                let router = routers[i % routers.len()];
                add(&mut spec, host, router);
                add(&mut spec, router, host);
            }
            for (a, b, start, kind, n, size) in flows {
                let (from, to) = (hosts[a], hosts[if a == b { (b + 1) % 6 } else { b }]);
                let traffic = match kind {
                    0 => cbr(u64::from(n) * 100_000, size),
                    1 => Traffic::Ping(Ping { interval: Span::from_ms(u64::from(n)), packet_bytes: size }),
                    _ => Traffic::Train(Train {
                        count: n,
                        gap: Span::from_us(u64::from(n % 3) * 50),
                        packet_bytes: size,
                        every: Some(Span::from_ms(100)),
                    }),
                };
                let stop = Time::ZERO + Span::from_secs(1);
                spec.flow(from, to, Time::from_ns(start), stop, traffic);
            }
            let mut capture: Vec<LinkId> = capture.into_iter().map(|l| LinkId(l % spec.links.len() as u32)).collect();
            capture.dedup();
            spec.record_everything();
            spec.record.capture = capture;
            spec
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn nothing_is_created_or_vanishes(spec in any::<bool>().prop_flat_map(networks)) {
        let mut world = World::build(&spec).unwrap();
        let mut captured: Vec<Captured> = Vec::new();
        for ms in [0, 3, 400, 401, 999, 1500] {
            world.run_until(Time::ZERO + Span::from_ms(ms), &mut captured);
            let l = world.ledger();
            let known = l.delivered.packets + l.dropped.packets + l.lost.packets;
            prop_assert_eq!(l.sent.packets, known + world.packets_inside() as u64);
            let totals: Vec<_> = (0..spec.links.len() as u32).map(|i| world.link_totals(LinkId(i))).collect();
            prop_assert_eq!(totals.iter().map(|t| t.dropped_overflow + t.dropped_early + t.filtered).sum::<u64>(), l.dropped.packets);
            prop_assert_eq!(totals.iter().map(|t| t.dropped_bytes).sum::<u64>(), l.dropped.bytes);
            prop_assert_eq!(totals.iter().map(|t| t.lost_packets).sum::<u64>(), l.lost.packets);
            for (t, link) in totals.iter().zip(&spec.links) {
                let on_line = t.started_packets - t.forwarded_packets;
                prop_assert!(on_line <= 1);
                let dropped = t.dropped_overflow + t.dropped_early + t.filtered;
                prop_assert_eq!(t.arrived_packets, dropped + t.queue_packets + t.started_packets);
                prop_assert!(t.busy_ns <= world.now().as_ns());
                prop_assert!(t.forwarded_bytes * 8 * 1_000_000_000 / link.rate.as_bps() <= t.busy_ns + 8);
                if t.queue_packets > 0 { prop_assert_eq!(on_line, 1); }
            }
        }
        // Long after the last packet has been sent the network is empty.
        world.run_until(Time::ZERO + Span::from_secs(3600), &mut captured);
        let l = world.ledger();
        prop_assert_eq!(world.packets_inside(), 0);
        prop_assert_eq!(l.sent.packets, l.delivered.packets + l.dropped.packets + l.lost.packets);
        prop_assert_eq!(l.sent.bytes, l.delivered.bytes + l.dropped.bytes + l.lost.bytes);
        prop_assert!(captured.is_sorted_by_key(|c| c.time));
        // Datagrams of one flow take one path of FIFO queues: no overtaking.
        let output = world.finish();
        let flows = match output.table("datagrams").unwrap().column("flow") { Some(Data::U32(v)) => v.clone(), _ => vec![] };
        let received = f64s(&output, "datagrams", "received_s");
        let reordered = spec.links.iter().any(|l| l.reorder != Reorder::NONE);
        for flow in (0..spec.flows.len() as u32).filter(|_| !reordered) {
            let mine: Vec<f64> =
                flows.iter().zip(received).filter(|(f, r)| **f == flow && !r.is_nan()).map(|(_, r)| *r).collect();
            prop_assert!(mine.windows(2).all(|w| w[0] < w[1]));
        }
    }

    /// Where nothing is held back, every packet has the same time and fate as on a line that knows
    /// of no reordering, whatever
    /// its delay and also on links that could otherwise be computed ahead of time.
    #[test]
    fn a_line_that_holds_nothing_back_is_as_any_other(mut spec in networks(false)) {
        let plain = run(&spec);
        for link in &mut spec.links {
            link.reorder = held_back(0.0, 1, 1_000_000);
        }
        prop_assert_eq!(bits(&run(&spec).tables), bits(&plain.tables));
    }

    /// Captured links go through their queue packet by packet, others by arithmetic, many of them
    /// fused with the link before
    /// them: every packet meets the same fate at the same time, and every counter is the same at
    /// any instant.
    #[test]
    fn no_link_is_computed_differently_for_being_captured(
        mut spec in any::<bool>().prop_flat_map(networks),
        stops in prop::collection::vec(0u64..1_300_000_000, 0..20),
        captured in prop::collection::vec(any::<bool>(), 20),
        warmup in 0u64..1_500_000_000,
        interval in 1_000_000u64..100_000_000,
    ) {
        spec.warmup = Span::from_ns(warmup);
        spec.record.interval = Span::from_ns(interval);
        spec.record.capture = Vec::new();
        let mut fast = World::build(&spec).unwrap();
        spec.record.capture =
            (0u32..).zip(captured).take(spec.links.len()).filter(|(_, c)| *c).map(|(i, _)| LinkId(i)).collect();
        let mut slow = World::build(&spec).unwrap();
        for at in stops {
            let at = Time::from_ns(at);
            fast.run_until(at, &mut NoCapture);
            slow.run_until(at, &mut NoCapture);
            for link in (0..spec.links.len() as u32).map(LinkId) {
                prop_assert_eq!(fast.link_totals(link), slow.link_totals(link));
            }
            prop_assert_eq!(fast.ledger(), slow.ledger());
        }
        fast.run(&mut NoCapture);
        slow.run(&mut NoCapture);
        let (fast, slow) = (fast.finish(), slow.finish());
        for (a, b) in fast.tables.iter().zip(&slow.tables) {
            prop_assert_eq!(bits(std::slice::from_ref(a)), bits(std::slice::from_ref(b)));
        }
        prop_assert_eq!(fast.summary, slow.summary);
    }

    /// The same where small packets wait behind large ones on the fused links of two hosts, up to a
    /// moment in the middle of it, from which on the greatest queue is counted anew.
    #[test]
    fn waiting_on_fused_links_is_counted_as_on_others(
        bursts in prop::collection::vec((0u64..20_000_000, 1u32..30, 28u16..1500, any::<bool>()), 2..8),
        speedup in 0u64..3,
        delays in prop::array::uniform3(0u64..3_000_000),
        warmup in 1_000_000u64..25_000_000,
        stop in 1_000_000u64..25_000_000,
        interval in 100_000u64..10_000_000,
    ) {
        let mut spec = empty(3, Span::from_ms(60));
        let (a, r1, r2) = (spec.host("a"), spec.router("r1"), spec.router("r2"));
        let ends = [spec.host("b1"), spec.host("b2")];
        let slow = DataRate::from_bps(10_000_019);
        spec.both(a, r1, DataRate::from_mbps(100), Span::from_us(50));
        spec.both(r1, r2, slow, Span::from_ns(delays[0]));
        let fused = ends.map(|end| {
            let rate = DataRate::from_bps(slow.as_bps() * (1 + speedup));
            spec.both(r2, end, rate, Span::from_ns(delays[1 + usize::from(end == ends[1])])).0
        });
        for (start, count, packet_bytes, to) in bursts {
            let traffic = Traffic::Train(Train { count, gap: Span::ZERO, packet_bytes, every: None });
            spec.flow(a, ends[usize::from(to)], Time::from_ns(start), Time::NEVER, traffic);
        }
        spec.warmup = Span::from_ns(warmup);
        spec.record_everything();
        spec.record.interval = Span::from_ns(interval);
        let mut fast = World::build(&spec).unwrap();
        spec.record.capture = fused.to_vec();
        let mut slow = World::build(&spec).unwrap();
        let stop = Time::from_ns(stop);
        fast.run_until(stop, &mut NoCapture);
        slow.run_until(stop, &mut NoCapture);
        for link in fused {
            prop_assert_eq!(fast.link_totals(link), slow.link_totals(link));
        }
        fast.run(&mut NoCapture);
        slow.run(&mut NoCapture);
        let (fast, slow) = (fast.finish(), slow.finish());
        prop_assert!(fast.events < slow.events);
        for (a, b) in fast.tables.iter().zip(&slow.tables) {
            prop_assert_eq!(bits(std::slice::from_ref(a)), bits(std::slice::from_ref(b)));
        }
        prop_assert_eq!(fast.summary, slow.summary);
    }

    /// The same with links in a row, limits and losses, of which all are captured.
    #[test]
    fn arithmetic_and_queue_agree(
        limits in prop::collection::vec((prop::option::of(0u32..9), prop::option::of(0u64..9000), any::<bool>()), 3),
        rates in prop::collection::vec(1u64..40, 3),
        flows in prop::collection::vec((0u64..30_000_000, 0u8..2, 1u32..30, 28u16..1600), 1..6),
        warmup in 0u64..300,
    ) {
        let mut spec = empty(7, Span::from_ms(600));
        spec.warmup = Span::from_ms(warmup);
        let nodes = [spec.host("a"), spec.router("r1"), spec.router("r2"), spec.host("b")];
        for (i, ((packets, bytes, lossy), rate)) in limits.into_iter().zip(rates).enumerate() {
            let rate = DataRate::from_bps(rate * 700_001);
            let id = spec.link(nodes[i], nodes[i + 1], rate, Span::from_us(700), fifo(packets, bytes));
            spec.links[id.0 as usize].loss = Probability::new(if lossy { 0.1 } else { 0.0 }).unwrap();
        }
        for i in (1..4).rev() {
            spec.link(nodes[i], nodes[i - 1], DataRate::from_mbps(1), Span::ZERO, fifo(None, None));
        }
        for (start, kind, n, size) in flows {
            let traffic = if kind == 0 {
                cbr(u64::from(n) * 200_000, size)
            } else {
                let gap = Span::from_us(u64::from(n % 3) * 70);
                Traffic::Train(Train { count: n, gap, packet_bytes: size, every: Some(Span::from_ms(30)) })
            };
            spec.flow(nodes[0], nodes[3], Time::from_ns(start), Time::NEVER, traffic);
        }
        spec.record_everything();
        spec.record.interval = Span::from_us(3_333);
        let fast = run(&spec);
        spec.record.capture = (0..3).map(LinkId).collect();
        let slow = run(&spec);
        for (a, b) in fast.tables.iter().zip(&slow.tables) {
            prop_assert_eq!(bits(std::slice::from_ref(a)), bits(std::slice::from_ref(b)));
        }
        prop_assert_eq!(fast.summary, slow.summary);
    }

    #[test]
    fn the_same_seed_gives_the_same_run_on_any_number_of_threads(specs in prop::collection::vec(networks(true), 1..4)) {
        let together = run_together(&specs);
        for (b, spec) in together.iter().zip(&specs) {
            let a = run(spec);
            prop_assert_eq!(bits(&a.tables), bits(&b.tables));
            prop_assert_eq!(&a.summary, &b.summary);
            prop_assert_eq!(a.events, b.events);
            // Nor does it matter in how many steps the run is driven.
            let mut world = World::build(spec).unwrap();
            for us in (0..2_000_000).step_by(77_777) {
                world.run_until(Time::ZERO + Span::from_us(us), &mut NoCapture);
            }
            world.run(&mut NoCapture);
            prop_assert_eq!(bits(&world.finish().tables), bits(&a.tables));
        }
    }
}
