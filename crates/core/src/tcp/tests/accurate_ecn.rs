//! Accurate ECN (RFC 9768) between two ends: what was marked is what the sender counts.

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
        pair.data_fate = Box::new(move |n, _| if marks(n) { Fate::Mark } else { Fate::Pass });
        pair.ack_fate = Box::new(move |n, _| if n % lost_ack == lost_ack - 1 { Fate::Lose } else { Fate::Pass });
        let mut pair = pair.start(400_000);
        pair.run_for(Span::from_secs(30));
        let told = pair.sender.marks_reported();
        let seen = pair.receiver.stats().ce_received;
        assert!(seen > 4 && told.abs_diff(seen) <= 1, "told of {told}, {seen} seen");
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

/// The handshake, the field on ACKs, and the option from the first mark on.
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
    assert!(told.iter().any(|t| t.0 == AccurateEcn { ace: 5, ce_bytes: None }));
    let last = told.last().unwrap();
    assert_eq!(last.0, AccurateEcn { ace: 6, ce_bytes: Some(1448) });
    assert_eq!(last.1, config.header_bytes() + 8);
}
