//! Accurate ECN (RFC 9768) between two ends: what was marked is what the sender counts.

use proptest::prelude::*;

use super::*;
use crate::packet::AccurateEcn;

fn accurate(change: impl FnOnce(&mut TcpConfig)) -> Arc<TcpConfig> {
    config("linux-6", |c| {
        (c.ecn.enabled, c.ecn.echo, c.ecn.ect1) = (true, EcnEcho::Accurate, true);
        change(c);
    })
}

/// Runs an endless transfer for 3 s; returns segments marked, times the sender reduced its window,
/// and ACKs.
fn run(config: &Arc<TcpConfig>, peer: &Arc<TcpConfig>, marks: fn(u64) -> bool, lost_ack: u64) -> (u64, u64, u64) {
    let mut pair = Pair::new(config, peer, Span::from_ms(10));
    pair.rate = Some(DataRate::from_mbps(20));
    pair.data_fate = Box::new(move |n, _| if marks(n) { Fate::Mark } else { Fate::Pass });
    pair.ack_fate = Box::new(move |n, _| if n % lost_ack == lost_ack - 1 { Fate::Lose } else { Fate::Pass });
    let mut pair = pair.start(u64::MAX);
    pair.run_for(Span::from_secs(3));
    (pair.receiver.stats().ce_received, pair.sender.stats().ecn_reductions, pair.ack_count)
}

/// The control is told of every mark, whatever becomes of a third of the ACKs.
#[test]
fn the_sender_counts_what_the_receiver_saw() {
    let config = accurate(|c| c.cc = crate::tcp::cc::CcConfig::by_name("prague").unwrap());
    for (marks, lost_ack) in [
        ((|n| n % 50 == 49) as fn(u64) -> bool, u64::MAX),
        (|n| n % 50 == 49, 3),
        (|n| n > 20 && n % 3 > 0, 3),
        (|n| n > 40, u64::MAX),
    ] {
        let mut pair = Pair::same(&config, Span::from_ms(10));
        pair.rate = Some(DataRate::from_mbps(20));
        // A tail loss probe after a lost ACK is not ECN-capable.
        let may = |p: &Packet| p.ecn != Ecn::NotEct;
        pair.data_fate = Box::new(move |n, p| if marks(n) && may(p) { Fate::Mark } else { Fate::Pass });
        pair.ack_fate = Box::new(move |n, _| if n % lost_ack == lost_ack - 1 { Fate::Lose } else { Fate::Pass });
        let mut pair = pair.start(400_000);
        pair.run_for(Span::from_secs(30));
        let told = pair.sender.marks_reported();
        let seen = pair.receiver.stats().ce_received;
        assert!(seen > 4 && told.abs_diff(seen) <= 1, "told of {told}, {seen} seen");
    }
}

/// ACKs of eight segments and more, as merged segments or thinned ACKs bring them: nothing was
/// marked, and the sender counts nothing.
#[test]
fn a_long_ack_without_marks_counts_none() {
    for control in ["cubic", "prague"] {
        let config = accurate(|c| {
            c.cc = crate::tcp::cc::CcConfig::by_name(control).unwrap();
            (c.receiver.ack_every, c.receiver.quick_acks) = (16, 0);
        });
        let (seen, reductions, acks) = run(&config, &config, |_| false, u64::MAX);
        assert!(acks > 50 && (seen, reductions) == (0, 0), "{control}: {seen} {reductions}, {acks} ACKs");
    }
}

/// With Accurate ECN repeated data and ACKs can carry a mark, too; with RFC 3168 new data alone.
#[test]
fn repeated_data_and_acks_can_be_marked() {
    use crate::packet::Ecn::{Ect0, NotEct};
    for (echo, other) in [(EcnEcho::Accurate, Ect0), (EcnEcho::Latched, NotEct)] {
        let config = accurate(|c| (c.ecn.echo, c.ecn.ect1, c.connection.handshake) = (echo, false, false));
        let mss = config.mss();
        let mut sender = Sender::new(FlowId(0), 0, config.clone(), Streams::of(1, 0));
        let mut receiver = Receiver::new(FlowId(0), 0, config);
        let mut out = Outputs::default();
        sender.open(Time::ZERO, &mut out);
        sender.write(Time::ZERO, 10 * u64::from(mss), &mut out);
        let data = std::mem::take(&mut out.packets);
        assert!(data.len() == 10 && data.iter().all(|p| p.ecn == Ect0), "{echo:?}");
        for segment in &data[1..4] {
            receiver.on_packet(Time::ZERO, segment, &mut out);
        }
        let acks = std::mem::take(&mut out.packets);
        assert!(acks.len() == 3 && acks.iter().all(|p| p.ecn == other), "{echo:?}");
        sender.on_packet(Time::ZERO + Span::from_ms(50), &acks[2], &mut out);
        assert_eq!((out.packets[0].seq, out.packets[0].ecn), (Seq32(1), other), "{echo:?}");
    }
}

/// An ACK that reports no data and has no newer timestamp may be an old one.
#[test]
fn marks_of_an_ack_without_progress_wait_for_the_next() {
    let config = accurate(|c| c.connection.handshake = false);
    let mut sender = Sender::new(FlowId(0), 0, config.clone(), Streams::of(1, 0));
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, u64::MAX, &mut out);
    let mut ack = Packet::new(FlowId(0), crate::packet::Kind::Tcp, 0);
    (ack.flags, ack.window) = (TcpFlags::ACK, 1 << 20);
    let mut tell = |ace, segments: u32, ts_val| {
        (ack.ack, ack.ts_val) = (Seq32(1 + segments * config.mss()), ts_val);
        ack.set_accurate_ecn(AccurateEcn { ace, ce_bytes: None });
        sender.on_packet(Time::ZERO + Span::from_ms(100), &ack, &mut out);
        sender.marks_reported()
    };
    assert_eq!([tell(6, 1, 50), tell(7, 1, 50), tell(7, 1, 51), tell(1, 2, 51)], [1, 1, 2, 4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// With the option the sender's count is the receiver's to the packet, whatever becomes of ACKs
    /// and however long they are.
    #[test]
    fn every_mark_is_counted_once(
        marked in prop::collection::vec(any::<bool>(), 1..40),
        lost in prop::collection::vec(0u32..7, 0..30),
        ack_every in 1u32..40,
        rate in prop::option::of(10u64..200),
    ) {
        let config = accurate(|c| {
            c.cc = crate::tcp::cc::CcConfig::by_name("prague").unwrap();
            c.receiver.ack_every = ack_every;
        });
        let mss = u64::from(config.mss());
        let mut pair = Pair::same(&config, Span::from_ms(10));
        pair.rate = rate.map(DataRate::from_mbps);
        let mut highest = 0;
        pair.data_fate = Box::new(move |n, p| {
            let is_new = p.seq.0 >= highest;
            highest = highest.max(p.seq.0 + 1);
            // The first ACKs say which of the option's counters grows.
            let mark = is_new && n > 3 && marked[n as usize % marked.len()];
            if mark { Fate::Mark } else { Fate::Pass }
        });
        // So many ACKs are lost, and one comes.
        let lost: Vec<bool> = lost.iter().flat_map(|&n| (0..=n).map(move |i| i < n)).collect();
        pair.ack_fate = Box::new(move |n, _| {
            let is_lost = n > 3 && lost.get(n as usize - 4) == Some(&true);
            if is_lost { Fate::Lose } else { Fate::Pass }
        });
        let mut pair = pair.start(600 * mss);
        pair.run_for(Span::from_secs(10_000));
        prop_assert!(pair.sender.is_idle());
        prop_assert_eq!(pair.sender.marks_reported(), pair.receiver.stats().ce_received);
    }
}

#[test]
fn a_peer_that_does_not_know_it_gets_the_classic_echo() {
    let classic = config("linux-6", |c| c.ecn.enabled = true);
    let accurate = accurate(|_| {});
    let seldom = |n: u64| n % 200 == 199;
    for (a, b) in [(&accurate, &classic), (&classic, &accurate), (&classic, &classic)] {
        let (seen, reductions, _) = run(a, b, seldom, u64::MAX);
        assert!(seen > 5 && reductions > 0 && reductions <= seen, "{seen} {reductions}");
    }
}

/// The handshake, and on ACKs the field and the option.
#[test]
fn it_is_on_the_wire_as_the_rfc_has_it() {
    let config = accurate(|_| {});
    let mut pair = Pair::same(&config, Span::from_ms(10));
    let told = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = told.clone();
    pair.data_fate = Box::new(|n, _| if n == 3 { Fate::Mark } else { Fate::Pass });
    pair.ack_fate = Box::new(move |_, p| {
        seen.borrow_mut().push((p.accurate_ecn(), p.size));
        Fate::Pass
    });
    let mut out = Outputs::default();
    pair.sender.open(Time::ZERO, &mut out);
    assert_eq!(out.packets[0].accurate_ecn().ace, 7, "the SYN asks");
    let syn = out.packets[0];
    pair.receiver.on_packet(Time::ZERO, &syn, &mut out);
    assert_eq!(out.packets[1].accurate_ecn().ace, 2, "the SYN-ACK says yes: the SYN came without ECT");
    let mut pair = Pair { sender: pair.sender, out: Outputs::default(), ..pair };
    let answer = out.packets[1];
    pair.sender.on_packet(Time::ZERO + Span::from_ms(20), &answer, &mut pair.out);
    pair.sender.write(Time::ZERO + Span::from_ms(20), 10_000, &mut pair.out);
    pair.now = Time::ZERO + Span::from_ms(20);
    pair.drain();
    pair.run_for(Span::from_secs(1));
    let told = told.borrow();
    assert_eq!(told[0], (AccurateEcn { ace: 5, ce_bytes: Some(0) }, config.header_bytes() + 12));
    let last = told.last().unwrap();
    assert_eq!(last.0, AccurateEcn { ace: 6, ce_bytes: Some(1448) });
    assert_eq!(last.1, config.header_bytes() + 12);
}
