//! The life of a connection: set-up, close, giving up; and that everything arrives whatever is
//! lost.

use proptest::prelude::*;

use super::*;
use crate::packet::Kind;

// [RFC5681-3.1-3] [RFC5681-3.1-6]
#[test]
fn the_handshake_takes_one_round_trip_and_the_initial_window_follows() {
    let c = config("linux-6", |_| {});
    let mut pair = Pair::same(&c, ONE_WAY).start(u64::MAX);
    pair.run(Time::from_ns(99_999_999));
    assert!(pair.sent.is_empty());
    pair.run(Time::from_ns(100_000_000));
    assert_eq!(pair.sent.len(), 10);
    assert_eq!(pair.notices, [Notice::Established]);
    assert_eq!(pair.sender.srtt(), Some(RTT));
    assert_eq!((pair.sender.window().cwnd, pair.sender.window().ssthresh), (10, u32::MAX));
}

/// An ACK without data ends the handshake, before any data (RFC 9293 section 3.10.7.3;
/// `tcp_rcv_synsent_state_process` of Linux 6.12). The receiver answers nothing to it. Where it is
/// lost, the first data does as well.
#[test]
fn an_ack_of_its_own_ends_the_handshake() {
    let c = config("linux-6", |_| {});
    let mut sender = Sender::new(FlowId(0), 0, c.clone(), Streams::of(1, 0));
    let mut receiver = Receiver::new(FlowId(0), 0, c.clone());
    let (mut out, mut answers) = (Outputs::default(), Outputs::default());
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * 1448, &mut out);
    receiver.on_packet(Time::ZERO + ONE_WAY, &out.packets.remove(0), &mut answers);
    sender.on_packet(Time::ZERO + RTT, &answers.packets.remove(0), &mut out);
    let sent: Vec<(u32, u16, u16)> = out.packets.iter().map(|p| (p.seq.0, p.len, p.size)).collect();
    assert_eq!((sent.len(), &sent[..2]), (11, &[(1, 0, 52), (1, 1448, 1500)][..]));
    receiver.on_packet(Time::ZERO + RTT + ONE_WAY, &out.packets[0], &mut answers);
    assert!(answers.packets.is_empty() && receiver.deadline().is_never(), "nothing is sent again");
    let mut unheard = Receiver::new(FlowId(0), 0, c);
    let mut syn = Packet::new(FlowId(0), Kind::Tcp, 0);
    syn.flags = TcpFlags::SYN;
    unheard.on_packet(Time::ZERO + ONE_WAY, &syn, &mut answers);
    unheard.on_packet(Time::ZERO + RTT + ONE_WAY, &out.packets[1], &mut answers);
    assert_eq!(unheard.stats().bytes_delivered, 1448);
}

// [RFC5681-3.1-4]
#[test]
fn a_lost_syn_is_repeated_after_the_initial_timeout_and_the_window_starts_at_one() {
    let c = config("linux-6", |_| {});
    let mut pair = Pair::same(&c, ONE_WAY);
    let mut out = Outputs::default();
    pair.sender.open(Time::ZERO, &mut out); // this SYN never arrives
    pair.sender.write(Time::ZERO, 10_000, &mut out);
    pair.run(Time::ZERO + Span::from_ms(1100));
    assert_eq!(pair.sent.len(), 1);
    assert_eq!(pair.sent[0].0, 1100.0);
}

/// Without timestamps nothing tells which SYN was answered: three seconds until there is a sample.
/// With them the answer measures the round trip of 100 ms, to which Linux adds 200 ms of variation.
// [RFC6298-3-2] [RFC6298-5.7-1]
#[test]
fn after_a_lost_syn_the_timeout_is_three_seconds_or_what_timestamps_say() {
    for (timestamps, again) in [(false, 4_100.0), (true, 1_400.0)] {
        let c = config("linux-6", |c| (c.timestamps.enabled, c.loss_recovery.tail_loss_probe) = (timestamps, false));
        let mut pair = Pair::same(&c, ONE_WAY).losing(&[0]);
        let mut out = Outputs::default();
        pair.sender.open(Time::ZERO, &mut out); // this SYN never arrives
        pair.sender.write(Time::ZERO, 1_000, &mut out);
        pair.run(Time::ZERO + Span::from_secs(10));
        let sent: Vec<f64> = pair.sent.iter().map(|s| s.0).collect();
        assert_eq!(sent, [1_100.0, again], "timestamps {timestamps}");
    }
}
#[test]
fn a_transfer_closes_cleanly_even_when_fins_are_lost() {
    for lose in [None, Some(true), Some(false)] {
        let c = config("linux-6", |_| {});
        let mut pair = Pair::same(&c, ONE_WAY);
        let mut left = 1;
        let mut once = move |p: &Packet, data: bool| {
            if p.has(TcpFlags::FIN) && lose == Some(data) && left > 0 {
                left -= 1;
                Fate::Lose
            } else {
                Fate::Pass
            }
        };
        let mut other = once;
        pair.data_fate = Box::new(move |_, p| once(p, true));
        pair.ack_fate = Box::new(move |_, p| other(p, false));
        let mut pair = pair.start(5 * 1448);
        pair.sender.close(pair.now, &mut pair.out);
        pair.run(Time::ZERO + Span::from_secs(30));
        assert!(pair.sender.is_done() && pair.receiver.is_closed(), "{lose:?}");
        assert_eq!(pair.notices.iter().filter(|&&n| n == Notice::AllAcked).count(), 1);
        assert_eq!(pair.notices.last(), Some(&Notice::Closed));
        assert_eq!(pair.receiver.stats().bytes_delivered, 5 * 1448);
    }
}

#[test]
fn a_dead_path_is_given_up() {
    let c = config("linux-6", |c| c.timers.retries = 3);
    let mut pair = Pair::same(&c, ONE_WAY);
    pair.data_fate = Box::new(|n, _| if n >= 10 { Fate::Lose } else { Fate::Pass });
    let mut pair = pair.start(u64::MAX);
    pair.run(Time::ZERO + Span::from_secs(600));
    assert_eq!(pair.notices.last(), Some(&Notice::TimedOut));
    assert!(pair.sender.deadline().is_never());
}

/// Each segment times out twice, so that the backoff never gets back for want of a sample; yet each
/// arrives.
#[test]
fn a_path_on_which_data_get_through_is_not_given_up() {
    let c = config("linux-6", |c| {
        (c.timers.retries, c.timestamps.enabled, c.loss_recovery.tail_loss_probe) = (3, false, false)
    });
    let mut pair = Pair::same(&c, ONE_WAY);
    let mut sent = std::collections::BTreeMap::new();
    pair.data_fate = Box::new(move |_, p| {
        let times = sent.entry(p.seq.0).or_insert(0);
        *times += 1;
        if *times <= 2 { Fate::Lose } else { Fate::Pass }
    });
    let mut pair = pair.start(8 * 1460);
    pair.run(Time::ZERO + Span::from_secs(7200));
    assert!(!pair.notices.contains(&Notice::TimedOut));
    assert_eq!(pair.receiver.stats().bytes_delivered, 8 * 1460);
}

/// A call that makes a sender act at an instant.
type Call<'a> = &'a mut dyn FnMut(&mut Sender, Time);

/// A control finds the instant of each call in its path, whoever made the sender act.
#[test]
fn the_path_is_that_of_the_call() {
    let c = config("linux-6", |c| c.connection.handshake = false);
    let mut sender = Sender::new(FlowId(0), 0, c, Streams::of(1, 0));
    let mut out = Outputs::default();
    let mut ack = Packet::new(FlowId(0), Kind::Tcp, 0);
    (ack.flags, ack.ack, ack.window) = (TcpFlags::ACK, Seq32(1), 1 << 20);
    let calls: [Call; 7] = [
        &mut |s, now| s.open(now, &mut out),
        &mut |s, now| s.write(now, 1000, &mut Outputs::default()),
        &mut |s, now| s.on_packet(now, &ack, &mut Outputs::default()),
        &mut |s, now| s.on_deadline(now, &mut Outputs::default()),
        &mut |s, now| s.on_path_change(now),
        &mut |s, now| s.set_cwnd_cap(now, None),
        &mut |s, now| s.close(now, &mut Outputs::default()),
    ];
    for (i, call) in (1..).zip(calls) {
        let now = Time::ZERO + Span::from_ms(i);
        call(&mut sender, now);
        assert_eq!(sender.path().now, now, "call {i}");
    }
}

proptest! {
    /// For all losses and delays in both directions: everything arrives once, in order, and the
    /// counts hold.
    #[test]
    fn everything_arrives_whatever_is_lost(
        seed in any::<u64>(),
        loss_percent in 0u64..30,
        segments in 1u64..200,
        recovery in prop_oneof![Just(Recovery::Reno), Just(Recovery::NewReno), Just(Recovery::Sack)],
        profile in prop_oneof![Just("linux-6"), Just("linux-2.6.32"), Just("ns2-reno"), Just("freebsd-2.2.1")],
        loss in prop::sample::select(super::loss::LossConfig::NAMES),
        (tail_loss_probe, dsack, recover_guard, deflates) in any::<(bool, bool, bool, bool)>(),
        prr in any::<bool>(),
        limited_transmit in any::<bool>(),
        delay in any::<bool>(),
        pacing in prop_oneof![Just(Pacing::Off), Just(Pacing::RttOverCwnd), Just(Pacing::Linux)],
        frto in prop_oneof![Just(Frto::Off), Just(Frto::Rfc5682), Just(Frto::Rfc4138)],
        frto_response in
            prop_oneof![Just(FrtoResponse::Undo), Just(FrtoResponse::RateHalving), Just(FrtoResponse::Conservative)],
        (rate_halving, undo_window_after_timeout) in any::<(bool, bool)>(),
        (undo_burst, cwnd_slack, loss_window) in (0u32..4, 0u32..4, 1u32..20),
    ) {
        use rand::RngExt;
        let c = config(profile, |c| {
            c.loss_recovery.loss = super::loss::LossConfig::by_name(loss).unwrap();
            (c.loss_recovery.tail_loss_probe, c.loss_recovery.dsack, c.loss_recovery.recover_guard) = (tail_loss_probe, dsack, recover_guard);
            c.loss_recovery.deflates_above_threshold = deflates;
            c.loss_recovery.recovery = recovery;
            c.loss_recovery.prr = prr;
            (c.spurious_rto.frto, c.spurious_rto.frto_response) = (frto, frto_response);
            (c.loss_recovery.rate_halving, c.undo.window_after_timeout) = (rate_halving, undo_window_after_timeout);
            (c.undo.burst, c.cwnd.slack, c.rto_recovery.loss_window) = (undo_burst, cwnd_slack, loss_window);
            c.loss_recovery.limited_transmit = limited_transmit;
            c.rto_recovery.limited_transmit = limited_transmit;
            c.rto_recovery.ssthresh_at_every_timeout = prr;
            c.pacing.rule = pacing;
            c.timers.retries = u32::MAX;
            c.rto.max = Span::from_secs(5);
        });
        let fates = |component| {
            let mut rng = stream(seed, component, Purpose::LinkLoss);
            move || if rng.random_range(0..100) < loss_percent {
                Fate::Lose
            } else if delay && rng.random_range(0..10) == 0 {
                Fate::Delay(Span::from_us(rng.random_range(0..20_000)))
            } else {
                Fate::Pass
            }
        };
        let bytes = segments * 700;
        // Once with a sender that takes each ACK step by step, also those that it expects.
        let [pair, step_by_step] = [true, false].map(|expects| {
            let mut pair = Pair::same(&c, Span::from_ms(5));
            let (mut fate, mut other) = (fates(0), fates(1));
            pair.data_fate = Box::new(move |_, _| fate());
            pair.ack_fate = Box::new(move |_, _| other());
            if !expects {
                pair.sender.expect_nothing();
            }
            let mut pair = pair.start(bytes);
            pair.sender.close(pair.now, &mut pair.out);
            pair.drain();
            pair.run(Time::ZERO + Span::from_secs(4000));
            pair
        });
        prop_assert_eq!(pair.receiver.stats().bytes_delivered, bytes);
        prop_assert_eq!(pair.sender.stats().bytes_acked, bytes);
        prop_assert!(pair.sender.is_done(), "{:?}", pair.sender);
        prop_assert_eq!(&pair.sent, &step_by_step.sent);
        let state = |pair: &Pair| format!("{:?}", pair.sender).replace("expects: true", "expects: false");
        prop_assert_eq!(state(&pair), state(&step_by_step));
    }
}

/// RFC 5961 section 5 and `tcp_oow_rate_limited`: what is out of window is answered twice a second
/// at most.
#[test]
fn segments_out_of_window_and_old_acks_are_answered_twice_a_second() {
    let c =
        config("linux-6", |c| (c.buffers.receive, c.buffers.receive_max) = (Bytes::new(65_536), Bytes::new(65_536)));
    let mut pair = Pair::same(&c, ONE_WAY).start(200 * 1448);
    pair.run(Time::ZERO + Span::from_secs(3));
    let at = |ms: u64| Time::ZERO + Span::from_ms(3_000 + ms);
    let mut probe = Packet::new(FlowId(0), Kind::Tcp, 0);
    (probe.flags, probe.seq) = (TcpFlags::ACK, Seq32(200 * 1448));
    let answers = |ms| {
        let mut out = Outputs::default();
        pair.receiver.on_packet(at(ms), &probe, &mut out);
        out.packets.len()
    };
    assert_eq!([0, 200, 499, 500, 700, 1000].map(answers), [1, 0, 0, 1, 0, 1]);
    // Its largest window was 64 KB and more: an ACK of the beginning is too old, one a segment back
    // is late.
    let mut challenge = |ms, number| {
        let mut ack = Packet::new(FlowId(0), Kind::Tcp, 0);
        (ack.flags, ack.ack, ack.window) = (TcpFlags::ACK, Seq32(number), 1 << 16);
        ack.set_reverse();
        let mut out = Outputs::default();
        pair.sender.on_packet(at(ms), &ack, &mut out);
        out.packets.len()
    };
    assert_eq!([challenge(0, 199 * 1448), challenge(1, 1), challenge(2, 1), challenge(600, 1)], [0, 1, 0, 1]);
}
