//! A peer that takes back what it SACKed (RFC 2018 section 8): the sender never waits for what
//! nobody will send again.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// By hand, a round trip of 100 ms and ten segments at 0. The ACK of the first comes at 100 ms and
/// one that SACKs the third and fourth with it. The second is late, and its ACK at 120 ms stops
/// below the third. The round trips are 100, 100 and 120 ms, the mean is 102.5 ms, half of it in
/// jiffies 52 ms. Nothing has come at 172 ms: all eight are lost, and the first of them is sent.
/// Its ACK opens the window to 2.
#[test]
fn sacks_that_were_taken_back_are_forgotten_after_half_a_round_trip() {
    let (mut sender, mss) = sender_alone("linux-6");
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    assert_eq!(segments_in(&mut out, mss), (0..10).collect::<Vec<_>>());
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    sender.on_packet(ms(100), &ack_of(1, &[(2, 4)], mss), &mut out);
    sender.on_packet(ms(120), &ack_of(2, &[], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [0_u64; 0], "the peer may still have them");
    assert_eq!(sender.deadline(), ms(172));
    sender.on_deadline(ms(172), &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.stats().timeouts), (vec![2], 1));
    sender.on_packet(ms(272), &ack_of(3, &[], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [3, 4], "the SACKs count no more");
    sender.check();
}

/// The SACKs of the next ACK within that time show that the peer has everything.
#[test]
fn sacks_that_come_again_in_time_end_the_suspicion() {
    let (mut sender, mss) = sender_alone("linux-6");
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    sender.on_packet(ms(100), &ack_of(1, &[(2, 4)], mss), &mut out);
    sender.on_packet(ms(120), &ack_of(2, &[], mss), &mut out);
    sender.on_packet(ms(150), &ack_of(4, &[], mss), &mut out);
    segments_in(&mut out, mss);
    assert!(sender.deadline() > ms(200), "{}", sender.deadline());
    assert_eq!(sender.stats().timeouts, 0);
}

/// An eleventh is sent at 150 ms. It is SACKed in one range with the third to tenth, which is one
/// skb in Linux, sent at 0. The peer takes that back. The eleventh is SACKed once more at 400 ms:
/// the round trip is that of the skb.
#[test]
fn what_is_sacked_again_was_sent_with_the_first_of_its_range() {
    let (mut sender, mss) = sender_alone("linux-6");
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    sender.write(ms(150), mss, &mut out);
    sender.on_packet(ms(250), &ack_of(1, &[(2, 11)], mss), &mut out);
    sender.on_packet(ms(260), &ack_of(2, &[], mss), &mut out);
    let at = sender.deadline();
    sender.on_deadline(at, &mut out);
    assert_eq!((sender.stats().timeouts, sender.info().sacked), (1, 0));
    sender.on_packet(ms(400), &ack_of(2, &[(10, 11)], mss), &mut out);
    assert_eq!(sender.stats().rtt_max_ns, 400_000_000);
    sender.check();
}

/// Treatment of a packet by the peer or the path.
#[derive(Debug, Clone, Copy)]
enum Event {
    Pass,
    Lose,
    /// It arrives, and the peer then forgets all that lies above a hole.
    Renege,
    LoseAck,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => Just(Event::Pass),
        2 => Just(Event::Lose),
        2 => Just(Event::Renege),
        1 => Just(Event::LoseAck),
    ]
}

/// Runs `count` segments over a path of 50 ms each way; `events` in order of arrival, then all is
/// well. Returns how many segments the peer has at the end.
fn deliver(profile: &str, count: u64, events: &[Event]) -> u64 {
    let (mut sender, mss) = sender_alone(profile);
    let mut out = Outputs::default();
    let mut flying: BTreeMap<(Time, u32), Packet> = BTreeMap::new();
    let (mut next, mut above, mut order, mut now) = (0, BTreeSet::new(), 0, Time::ZERO);
    let mut events = events.iter();
    sender.open(now, &mut out);
    sender.write(now, count * mss, &mut out);
    while next < count {
        for p in out.packets.drain(..) {
            order += 1;
            flying.insert((now + ONE_WAY, order), p);
        }
        let arrival = flying.keys().next().map_or(Time::NEVER, |k| k.0);
        now = arrival.min(sender.deadline());
        if now.is_never() || now > Time::ZERO + Span::from_secs(36_000) {
            break;
        }
        if now < arrival {
            sender.on_deadline(now, &mut out);
            sender.check();
            continue;
        }
        let (_, p) = flying.pop_first().unwrap();
        if p.len == 0 {
            sender.on_packet(now, &p, &mut out);
            sender.check();
            continue;
        }
        let event = events.next().copied().unwrap_or(Event::Pass);
        if matches!(event, Event::Lose) {
            continue;
        }
        above.insert((u64::from(p.seq.0) - 1) / mss);
        while above.remove(&next) {
            next += 1;
        }
        above.retain(|&s| s > next);
        if matches!(event, Event::Renege) {
            above.clear();
        }
        if !matches!(event, Event::LoseAck) {
            let mut blocks: Vec<(u64, u64)> = Vec::new();
            for &s in &above {
                match blocks.last_mut() {
                    Some(block) if block.1 == s => block.1 += 1,
                    _ => blocks.push((s, s + 1)),
                }
            }
            blocks.truncate(3);
            let mut reply = ack_of(next, &blocks, mss);
            (reply.ts_val, reply.ts_ecr) = (1, p.ts_val);
            order += 1;
            flying.insert((now + ONE_WAY, order), reply);
        }
    }
    next
}

proptest! {
    /// Ten hours are enough for whatever a peer forgot: a timeout always sends something.
    #[test]
    fn everything_arrives_though_the_peer_reneges(events in prop::collection::vec(event(), 0..80)) {
        for profile in ["linux-6", "linux-2.6.32", "windows-10"] {
            prop_assert_eq!(deliver(profile, 60, &events), 60, "{}", profile);
        }
    }
}
