use proptest::prelude::*;

use super::*;
use crate::packet::{FlowId, Kind, TcpFlags};
use crate::units::{Seq32, Span};

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

fn segment(n: u32) -> Packet {
    let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
    (p.flags, p.seq, p.len, p.size) = (TcpFlags::ACK, Seq32(1 + n * 1448), 1448, 1500);
    p
}

/// An interface, and when it handed up how many segments at a time.
struct Host {
    interface: Interface,
    rings: Rings,
    up: Vec<(u64, Vec<u16>)>,
    sent: u32,
}

impl Host {
    fn new(config: &str) -> Host {
        #[derive(serde::Deserialize)]
        struct File {
            receive_offload: ReceiveOffloadConfig,
        }
        let file: File = toml::from_str(&format!("receive_offload = {config}")).unwrap();
        Host { interface: Interface::new(&file.receive_offload), rings: Rings::default(), up: Vec::new(), sent: 0 }
    }
    fn poll(&mut self, us: u64) {
        let mut up = Vec::new();
        self.interface.poll(at(us), &mut up, &mut self.rings);
        if !up.is_empty() {
            self.up.push((us, up.iter().map(|m| m.segments).collect()));
        }
    }
    fn until(&mut self, us: u64) {
        while self.interface.deadline() <= at(us) {
            let now = self.interface.deadline().as_ns() / 1000;
            self.poll(now);
        }
    }
    /// So many segments in the same instant; polls that were due before come first.
    fn arrive(&mut self, us: u64, count: u32) {
        if us > 0 {
            self.until(us - 1);
        }
        for _ in 0..count {
            self.interface.on_packet(at(us), &segment(self.sent), &mut self.rings);
            self.sent += 1;
        }
    }
}

#[test]
fn packets_of_one_instant_are_one_poll() {
    let mut host = Host::new("'napi'");
    host.arrive(100, 5);
    host.arrive(103, 2);
    host.until(1000);
    assert_eq!(host.up, [(100, vec![5]), (103, vec![2])]);
}

#[test]
fn without_gro_a_poll_hands_up_packet_by_packet() {
    let mut host = Host::new("{ name = 'napi', gro = false }");
    host.arrive(100, 3);
    host.until(1000);
    assert_eq!(host.up, [(100, vec![1, 1, 1])]);
    // Nothing is held for others either.
    let mut host = Host::new("{ name = 'napi', gro = false, gro_flush_timeout = '100us' }");
    for us in [0, 50] {
        assert!(host.interface.pass(at(us), &segment(0), &mut host.rings));
    }
}

#[test]
fn a_poll_takes_64_packets_and_nothing_stays_merged_beyond() {
    let mut host = Host::new("'napi'");
    host.arrive(0, 64 + 64 + 10);
    host.until(0);
    // 64 KiB are 45 segments.
    assert_eq!(host.up, [(0, vec![45, 19, 45, 19, 10])]);
}

#[test]
fn interrupts_that_are_kept_apart_gather_what_comes_between_them() {
    let mut host = Host::new("{ name = 'napi', interrupt_interval = '50us' }");
    for us in [100, 112, 124, 136, 148, 160, 300] {
        host.arrive(us, 1);
    }
    host.until(1000);
    assert_eq!(host.up, [(100, vec![1]), (150, vec![4]), (200, vec![1]), (300, vec![1])]);
}

#[test]
fn a_flush_timeout_keeps_what_was_merged_for_the_next_poll() {
    // Each packet is polled by itself, 84 us apart (143 Mbit/s), and joins the one held.
    let mut host = Host::new("{ name = 'napi', gro_flush_timeout = '100us' }");
    for i in 0..10 {
        host.arrive(84 * i, 1);
    }
    host.until(10_000);
    assert_eq!(host.up, [(84 * 9 + 100, vec![10])]);
    // Not beyond a tick of the kernel's clock.
    let mut host = Host::new("{ name = 'napi', gro_flush_timeout = '100us', jiffy = '400us' }");
    for i in 0..10 {
        host.arrive(84 * i, 1);
    }
    host.until(10_000);
    assert_eq!(host.up, [(420, vec![6]), (856, vec![4])]);
}

#[test]
fn deferred_interrupts_poll_by_a_timer_until_one_poll_finds_nothing() {
    // r8169: 20 us, one empty poll.
    let mut host = Host::new("{ name = 'napi', gro_flush_timeout = '20us', napi_defer_hard_irqs = 1 }");
    for us in [100, 112, 124, 136] {
        host.arrive(us, 1);
    }
    host.until(1000);
    assert_eq!(host.up, [(160, vec![4])], "polls at 100, 120, 140 and, with nothing left, at 160");
    host.arrive(2000, 1);
    host.until(3000);
    assert_eq!(host.up[1..], [(2020, vec![1])]);
}

#[test]
fn throttling_follows_what_arrives() {
    let mut host = Host::new("'e1000e'");
    // 84 us apart, 143 Mbit/s: each by itself, at once.
    for i in 0..20 {
        host.arrive(84 * i, 1);
    }
    assert!(host.up.iter().all(|(_, up)| *up == [1]) && host.up.len() >= 19);
    // A burst at 1 Gbit/s: at first 50 us, in which five arrive; more than 10 000 bytes are bulk,
    // from then on 250 us.
    let mut host = Host::new("'e1000e'");
    for i in 0..100 {
        host.arrive(12 * i, 1);
    }
    host.until(10_000);
    let polls: Vec<u64> = host.up.iter().map(|(us, _)| *us).collect();
    let segments: Vec<u16> = host.up.iter().map(|(_, up)| up.iter().sum()).collect();
    assert_eq!((polls[0], polls[1], segments[0], segments[1]), (0, 50, 1, 4));
    assert_eq!(segments.iter().sum::<u16>(), 100);
    // Four segments in 50 us are below 10 000 bytes, so the rate stays where it is.
    assert!(polls.windows(2).all(|w| w[1] - w[0] == 50), "{polls:?}");
    // Eight arrive together, 12 000 bytes: bulk.
    let mut host = Host::new("'e1000e'");
    host.arrive(0, 1);
    host.arrive(10, 8);
    for i in 0..60 {
        host.arrive(60 + 12 * i, 1);
    }
    host.until(10_000);
    let polls: Vec<u64> = host.up.iter().map(|(us, _)| *us).collect();
    assert_eq!(polls, [0, 50, 300, 550, 800]);
}

#[test]
fn little_in_a_long_interval_leads_back_in_steps() {
    let mut host = Host::new("'e1000e'");
    host.arrive(0, 1);
    host.arrive(10, 8);
    // Bulk from 50 on; then one packet each millisecond: 4000, 9000, 14 000, 19 000, 20 000
    // interrupts a second.
    for i in 1..=6 {
        host.arrive(1000 * i, 1);
        host.until(1000 * i);
        host.arrive(1000 * i + 1, 1);
        host.until(1000 * i + 400);
    }
    let second: Vec<u64> = host.up[2..].iter().map(|(us, _)| us % 1000).filter(|&us| us > 0).collect();
    assert_eq!(second, [111, 52, 50, 50, 50, 50], "{:?}", host.up);
}

#[test]
fn the_size_of_frames_sets_the_time_between_interrupts() {
    let mut host = Host::new("'igb'");
    for i in 0..100 {
        host.arrive(12 * i, 1);
    }
    host.until(10_000);
    // 1514 and 24 bytes, halved: 769 quarters of a microsecond.
    let polls: Vec<u64> = host.up.iter().map(|(us, _)| *us).collect();
    assert_eq!(polls, [0, 162, 354, 546, 738, 930, 1122, 1314]);
    assert_eq!(host.up[2..7].iter().map(|(_, up)| up.clone()).collect::<Vec<_>>(), vec![vec![16]; 5]);
    // After a poll of small frames 49 us, unless the host sends large ones.
    for (sends, gap) in [(false, 49_000), (true, 192_250)] {
        let mut host = Host::new("'igb'");
        let mut small = segment(0);
        (small.len, small.size) = (0, 52);
        host.interface.on_packet(at(0), &small, &mut host.rings);
        if sends {
            host.interface.on_sent(1500);
        }
        host.until(0);
        host.interface.on_packet(at(1), &small, &mut host.rings);
        host.until(162);
        host.interface.on_packet(at(163), &small, &mut host.rings);
        assert_eq!(host.interface.deadline(), Time::from_ns(162_000 + gap));
    }
}

#[test]
fn bad_parameters_are_refused_by_name() {
    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct File {
        receive_offload: ReceiveOffloadConfig,
    }
    for (table, message) in [
        ("name = 'napi', jiffy = '0s'", "`jiffy` = 0s: must be longer than 0s"),
        ("name = 'napi', napi_defer_hard_irqs = 1", "needs a `gro_flush_timeout` above 0s"),
        ("name = 'napi', napi_defer_hard_irqs = 2000", "`napi_defer_hard_irqs` = 2000: must be from 0 to 1000"),
        ("name = 'e1000e', bulk = '10us'", "`bulk` = 10us: must be above 0s"),
        ("name = 'gro'", "unknown variant `gro`"),
    ] {
        let error = toml::from_str::<File>(&format!("receive_offload = {{ {table} }}")).unwrap_err().to_string();
        assert!(error.contains(message), "{table}: {error}");
    }
}

proptest! {
    /// Whatever the device: all that came goes up, once and in order, and nothing waits for longer
    /// than its timers allow.
    #[test]
    fn nothing_is_lost_and_nothing_waits_for_long(
        gaps in prop::collection::vec((0u64..300, 1u32..40), 1..80),
        which in 0usize..6,
    ) {
        let config = [
            "'napi'",
            "'e1000e'",
            "'igb'",
            "{ name = 'napi', interrupt_interval = '50us' }",
            "{ name = 'napi', gro_flush_timeout = '100us' }",
            "{ name = 'napi', gro_flush_timeout = '20us', napi_defer_hard_irqs = 2 }",
        ][which];
        let Host { mut interface, mut rings, .. } = Host::new(config);
        let (mut now, mut sent, mut up, mut came_at) = (Time::ZERO, 0u32, Vec::new(), Vec::new());
        let mut gone = 0u32;
        let mut steps: Vec<(u64, u32)> = gaps;
        steps.push((50_000, 0));
        for (gap, count) in steps {
            let until = now + Span::from_us(gap);
            loop {
                let due = interface.deadline();
                if due > until { break; }
                now = due;
                interface.poll(now, &mut up, &mut rings);
                for merged in up.drain(..) {
                    for p in merged.each() {
                        prop_assert_eq!(p.seq, segment(gone).seq);
                        let waited = now.since(came_at[gone as usize]);
                        // A tick of the clock and a timer at most.
                        prop_assert!(waited <= Span::from_us(4_100), "{} us", waited.as_ns() / 1000);
                        gone += 1;
                    }
                }
            }
            now = until;
            for _ in 0..count {
                interface.on_packet(now, &segment(sent), &mut rings);
                came_at.push(now);
                sent += 1;
            }
        }
        prop_assert_eq!(gone, sent);
        prop_assert!(interface.deadline().is_never());
    }
}

proptest! {
    #[test]
    fn a_packet_that_passes_goes_up_as_from_the_ring(
        way in 0usize..7,
        packets in prop::collection::vec((0u64..120, 0u32..2, any::<bool>(), any::<bool>()), 1..60),
    ) {
        let config = [
            "'off'",
            "'napi'",
            "{ name = 'napi', interrupt_interval = '50us' }",
            "{ name = 'napi', gro_flush_timeout = '20us', napi_defer_hard_irqs = 1 }",
            "{ name = 'napi', gro_flush_timeout = '20us' }",
            "'e1000e'",
            "'igb'",
        ][way];
        let (mut by_ring, mut passing) = (Host::new(config).interface, Host::new(config).interface);
        let (mut now, mut sent, mut rings) = (0, 0, Rings::default());
        for (gap, flow, is_pushed, is_ack) in packets {
            now += gap;
            let mut ups = [Vec::new(), Vec::new()];
            while by_ring.deadline() < at(now) {
                by_ring.poll(by_ring.deadline(), &mut ups[0], &mut rings);
            }
            let poll = |passing: &mut Interface, now: Time, up: &mut Vec<Merged>, rings: &mut Rings| {
                if passing.has_one() {
                    let alone = passing.take_one(rings).filter(|packet| passing.goes_up_alone(now, packet));
                    up.extend(alone.map(Merged::alone));
                } else {
                    passing.poll(now, up, rings);
                }
            };
            while passing.deadline() < at(now) {
                let due = passing.deadline();
                poll(&mut passing, due, &mut ups[1], &mut rings);
            }
            let mut packet = segment(sent);
            sent += 1;
            packet.flow = FlowId(flow);
            packet.flags |= TcpFlags::when(is_pushed, TcpFlags::PSH);
            packet.len = if is_ack { 0 } else { packet.len };
            by_ring.on_packet(at(now), &packet, &mut rings);
            match passing.pass(at(now), &packet, &mut rings) {
                true => ups[1].push(Merged::alone(packet)),
                false if passing.deadline() <= at(now) => poll(&mut passing, at(now), &mut ups[1], &mut rings),
                false => {}
            }
            if by_ring.deadline() <= at(now) {
                by_ring.poll(at(now), &mut ups[0], &mut rings);
            }
            prop_assert_eq!(&ups[0], &ups[1]);
            prop_assert_eq!(by_ring.deadline(), passing.deadline());
            prop_assert_eq!(by_ring.waiting(), passing.waiting());
        }
    }
}
