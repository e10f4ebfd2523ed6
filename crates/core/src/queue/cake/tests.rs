use std::collections::BTreeMap;

use super::*;
use crate::packet::Ecn;
use crate::queue::tests::{Rig, context, ms, packet};

/// Flows `0..n` of hosts `(source, destination)`.
fn cake(config: CakeConfig, hosts: &[(u32, u32)]) -> Cake {
    config.build(&QueueContext { hosts: Hosts::new(hosts.iter().copied()), ..context(1) })
}

/// Bytes of each key over `n` packets, with every flow always backlogged.
fn shares(config: CakeConfig, hosts: &[(u32, u32)], n: usize, key: impl Fn(usize) -> u32) -> BTreeMap<u32, f64> {
    let mut q = cake(CakeConfig { limit_packets: 1 << 20, ..config }, hosts);
    let mut rig = Rig::new(&mut q);
    let mut sent = BTreeMap::new();
    for flow in 0..count(hosts.len()) {
        for _ in 0..n {
            rig.arrive(ms(0), packet(flow, 1000, Ecn::NotEct));
        }
    }
    for _ in 0..n {
        let flow = rig.leave(ms(0)).unwrap().flow.0 as usize;
        *sent.entry(key(flow)).or_insert(0.0) += 1.0 / n as f64;
    }
    sent
}

fn about(share: f64, expected: f64) -> bool {
    (share - expected).abs() < 0.02
}

#[test]
fn a_host_with_many_flows_gets_no_more_than_one_with_one() {
    // Ten flows of host 1, one of host 2, to one server.
    let mut hosts = vec![(1, 9); 10];
    hosts.push((2, 9));
    let of_two =
        |isolation| shares(CakeConfig { isolation, ..CakeConfig::default() }, &hosts, 4000, |f| hosts[f].0)[&2];
    assert!(about(of_two(CakeIsolation::Flows), 1.0 / 11.0));
    assert!(about(of_two(CakeIsolation::DualSrchost), 0.5));
    assert!(about(of_two(CakeIsolation::Srchost), 0.5));
    // One destination: it tells nobody apart.
    assert!(about(of_two(CakeIsolation::DualDsthost), 1.0 / 11.0));
    // The server has eleven queues, so all are divided alike: the kernel's own page says that
    // triple isolation needs both ends.
    assert!(about(of_two(CakeIsolation::TripleIsolate), 1.0 / 11.0));
    // Towards the hosts it is the other way round.
    let back: Vec<(u32, u32)> = hosts.iter().map(|&(a, b)| (b, a)).collect();
    let config = CakeConfig { isolation: CakeIsolation::DualDsthost, ..CakeConfig::default() };
    assert!(about(shares(config, &back, 4000, |f| back[f].1)[&2], 0.5));
    // Servers of their own: triple isolation does what either dual mode would.
    let own: Vec<(u32, u32)> = hosts.iter().enumerate().map(|(i, h)| (h.0, 100 + count(i))).collect();
    assert!(about(shares(CakeConfig::default(), &own, 4000, |f| own[f].0)[&2], 0.5));
}

#[test]
fn the_shaper_sends_at_its_rate_with_what_the_line_adds() {
    for (framing, overhead, mpu, size, length) in [
        (CakeFraming::None, 0, 0, 1000, 1000),
        (CakeFraming::None, 44, 0, 1000, 1044),
        (CakeFraming::None, -14, 0, 1000, 986),
        (CakeFraming::None, 0, 84, 40, 84),
        (CakeFraming::Atm, 40, 0, 1000, 22 * 53),
        (CakeFraming::Ptm, 0, 0, 1000, 1016),
    ] {
        let config =
            CakeConfig { bandwidth: Some(DataRate::from_mbps(8)), framing, overhead, mpu, ..CakeConfig::default() };
        let mut q = cake(config, &[(1, 2)]);
        let mut rig = Rig::new(&mut q);
        // Fewer than COBALT lets through in its first interval.
        for _ in 0..80 {
            rig.arrive(ms(0), packet(0, size, Ecn::NotEct));
        }
        // A byte takes a microsecond.
        let (mut now, mut left) = (Time::ZERO, 0);
        loop {
            while rig.leave(now).is_some() {
                left += 1;
            }
            if rig.q.len_packets() == 0 {
                break;
            }
            assert!(rig.q.deadline() > now);
            now = rig.q.deadline();
            rig.run_until(now);
        }
        assert_eq!((left, now), (80, Time::ZERO + Span::from_us(79 * length)), "{framing:?} {overhead} {mpu}");
    }
}

#[test]
fn the_shaper_saves_nothing_up_while_it_rests() {
    let config = CakeConfig { bandwidth: Some(DataRate::from_mbps(8)), ..CakeConfig::default() };
    let mut q = cake(config, &[(1, 2)]);
    let mut rig = Rig::new(&mut q);
    for _ in 0..3 {
        rig.arrive(ms(500), packet(0, 1000, Ecn::NotEct));
    }
    assert!(rig.leave(ms(500)).is_some());
    assert!(rig.leave(ms(500)).is_none());
    assert_eq!(rig.q.deadline(), ms(501));
}

/// `cake_set_rate` by hand.
#[test]
fn slow_rates_raise_the_target_and_lower_the_quantum() {
    let at = |bandwidth: Option<DataRate>, rtt| CakeConfig { bandwidth, rtt, ..CakeConfig::default() };
    let kbit = |n: u64| Some(DataRate::from_bps(n * 1000));
    for (config, target_us, interval_us, quantum) in [
        (at(None, Span::from_ms(100)), 5000, 100_000, 1514),
        (at(kbit(100_000), Span::from_ms(100)), 5000, 100_000, 1514),
        // 1500 bytes take 12 ms; 125 000 bytes a second over 4096 are 30.
        (at(kbit(1000), Span::from_ms(100)), 18_000, 113_000, 300),
        (at(kbit(20_000), Span::from_ms(100)), 5000, 100_000, 610),
        (at(kbit(1000), Span::from_ms(10)), 18_000, 36_000, 300),
    ] {
        let params = config.params(1500);
        assert_eq!((params.target, params.interval), (Span::from_us(target_us), Span::from_us(interval_us)));
        assert_eq!(cake(config, &[]).quantum, quantum);
    }
}

#[test]
fn the_fattest_queue_loses_its_first_packet_and_blue_remembers() {
    let config = CakeConfig { limit_packets: 100, ..CakeConfig::default() };
    let mut q = cake(config, &[(1, 9), (2, 9)]);
    let mut rig = Rig::new(&mut q);
    for _ in 0..5 {
        rig.arrive(ms(10), packet(0, 1500, Ecn::NotEct));
    }
    for _ in 0..100 {
        rig.arrive(ms(10), packet(1, 1500, Ecn::NotEct));
    }
    assert_eq!(rig.dropped_numbers(), [5, 6, 7, 8, 9]);
    let queues = |q: &Cake| q.queues.iter().filter(|queue| queue.law != Cobalt::default()).count();
    assert_eq!(queues(rig.q), 1);
}

#[test]
fn a_sparse_flow_goes_first_and_a_lone_packet_is_not_dropped() {
    let mut q = cake(CakeConfig::default(), &[(1, 9), (2, 9)]);
    let mut rig = Rig::new(&mut q);
    for t in 0..2000 {
        for _ in 0..2 {
            rig.arrive(ms(t), packet(0, 1500, Ecn::NotEct));
        }
        if t % 10 == 5 {
            let n = rig.arrive(ms(t), packet(1, 200, Ecn::NotEct));
            assert_eq!(rig.leave(ms(t)).map(|p| p.seq.0), Some(n), "at {t} ms");
        }
        rig.leave(ms(t));
    }
    assert!(rig.dropped.len() > 20 && rig.dropped.iter().all(|d| d.1 == DropReason::Early));
    // Alone in its queue, however long it waited: marked if it can be, never dropped.
    let mut q = cake(CakeConfig::default(), &[(1, 9)]);
    let mut rig = Rig::new(&mut q);
    for t in 0..50 {
        rig.arrive(ms(1000 * t), packet(0, 1500, Ecn::NotEct));
        assert!(rig.leave(ms(1000 * t + 999)).is_some());
    }
    assert!(rig.dropped.is_empty());
}

/// A queue that has emptied keeps its place until its law has come to rest, and does not hold
/// others up.
#[test]
fn empty_queues_decay_and_leave() {
    let mut q = cake(CakeConfig::default(), &[(1, 9), (2, 9)]);
    let mut rig = Rig::new(&mut q);
    for t in 0..400 {
        rig.arrive(ms(t), packet(0, 1500, Ecn::NotEct));
        rig.arrive(ms(t), packet(0, 1500, Ecn::NotEct));
        rig.leave(ms(t));
    }
    while rig.leave(ms(400)).is_some() {}
    // The empty queue is looked at once more with another flow's packet.
    for t in 0..40 {
        rig.arrive(ms(401 + t), packet(1, 100, Ecn::NotEct));
        assert_eq!(rig.leave(ms(401 + t)).map(|p| p.flow.0), Some(1));
    }
    assert_eq!(rig.q.lists.decaying.len(), 1);
    for t in 0..200 {
        rig.arrive(ms(1000 + 50 * t), packet(1, 100, Ecn::NotEct));
        assert_eq!(rig.leave(ms(1000 + 50 * t)).map(|p| p.flow.0), Some(1));
    }
    assert!(rig.q.queues.iter().filter(|q| q.turn == Turn::Decaying).count() <= 1, "only the sparse flow's own");
}

/// More flows than queues of a set, of many hosts: every count of backlogged queues is that of the
/// queues, and goes back to none.
#[test]
fn counts_of_hosts_agree_with_their_queues() {
    let hosts: Vec<(u32, u32)> = (0..3000).map(|i| (i % 37, 100 + i % 53)).collect();
    let mut q = cake(CakeConfig { limit_packets: 5000, ..CakeConfig::default() }, &hosts);
    let mut rig = Rig::new(&mut q);
    for t in 0..3000u32 {
        for n in 0..3 {
            rig.arrive(ms(u64::from(t)), packet(t * 7 % 3000 + n * 11 % 3000, 1500, Ecn::NotEct));
        }
        rig.leave(ms(u64::from(t)));
        rig.leave(ms(u64::from(t)));
        if t % 500 == 0 {
            for side in 0..2 {
                let mut expected = vec![0u32; QUEUES as usize];
                rig.q
                    .queues
                    .iter()
                    .filter(|q| q.turn == Turn::Bulk)
                    .for_each(|q| expected[q.hosts[side] as usize] += 1);
                let counted: Vec<u32> = rig.q.hosts[side].iter().map(|h| h.bulk).collect();
                assert_eq!(counted, expected);
            }
        }
    }
    let mut now = 3000;
    while rig.q.len_packets() > 0 {
        now += 1;
        rig.leave(ms(now));
    }
    // Empty queues stay in the rotation until their turn: one more flow sees them off.
    for t in 0..3000 {
        rig.arrive(ms(now + 1 + t), packet(0, 100, Ecn::NotEct));
        rig.leave(ms(now + 1 + t));
    }
    // But itself.
    let counted = |side: usize| rig.q.hosts[side].iter().map(|h| u64::from(h.bulk)).sum::<u64>();
    assert!(rig.q.bulk <= 1 && [0, 1].map(counted) == [rig.q.bulk; 2]);
}
