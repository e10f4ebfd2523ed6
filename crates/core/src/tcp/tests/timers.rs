//! The one timer of a sender: what sets it, and what it counts from. Times by hand, from Linux,
//! net/ipv4/tcp_input.c, tcp_output.c and tcp_recovery.c of 6.18; timers expire at whole jiffies
//! of 4 ms after they were set. A round trip of 100 ms gives a timeout of 300 ms.

use super::*;

/// Ten segments at 0, of a connection that writes `bytes`.
fn ten_at_once(bytes: impl Fn(u64) -> u64) -> (Sender, u64, Outputs) {
    let (mut sender, mss) = sender_alone("linux-6");
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, bytes(mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), (0..10).collect::<Vec<_>>());
    (sender, mss, out)
}

/// At 100 ms three segments are SACKed above the second, which is lost and sent again: its timeout
/// is at 400 ms. At 150 ms another SACK tells of data sent at 0, before the repair. The mean is
/// then 106.25 ms, the timeout 306.25 ms or 77 jiffies, and starts anew: 458 ms.
#[test]
fn a_sack_of_what_was_sent_before_the_repair_restarts_the_timeout() {
    let (mut sender, mss, mut out) = ten_at_once(|mss| 10 * mss);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    sender.on_packet(ms(100), &ack_of(1, &[(2, 5)], mss), &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.deadline()), (vec![1], ms(400)));
    sender.on_packet(ms(150), &ack_of(1, &[(2, 6)], mss), &mut out);
    assert_eq!(sender.deadline(), ms(458));
}

/// The same where the second segment has not been sent again, but the SACK is of data sent with it:
/// without a repair under way a SACK puts nothing off. The timer is then that of reordering, set at
/// 110 ms for 25 ms and 2 ms, 7 jiffies.
#[test]
fn a_sack_above_a_segment_that_was_sent_once_leaves_the_timeout() {
    let (mut sender, mss, mut out) = ten_at_once(|mss| 10 * mss);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    sender.on_packet(ms(110), &ack_of(1, &[(2, 3)], mss), &mut out);
    assert_eq!(sender.deadline(), ms(138));
    sender.on_packet(ms(120), &ack_of(1, &[], mss), &mut out);
    assert_eq!(sender.deadline(), ms(138), "no news, and the timer stays");
}

/// The ACK of the first at 100 ms lets two new segments leave. The probe would be due 2 ms after
/// two round trips, at 304 ms. But the timeout comes first: it counts from when the first segment
/// was sent, since new data does not start it anew.
#[test]
fn a_probe_goes_in_the_place_of_the_timeout_of_the_first_segment() {
    let (mut sender, mss, mut out) = ten_at_once(|_| u64::MAX);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.deadline()), (vec![10, 11], ms(300)));
    sender.on_deadline(ms(300), &mut out);
    assert_eq!((sender.stats().tail_loss_probes, sender.stats().timeouts), (1, 0));
    assert_eq!(sender.deadline(), ms(600), "the probe starts it anew");
}

/// Five segments at 0 and five at 10 ms. At 110 ms the sixth is SACKed, whose round trip is 100 ms.
/// The second to fifth are lost a quarter of a round trip later than that after they were sent, at
/// 125 ms: 15 ms and 2 ms are 5 jiffies. The timeout then is that of the repair.
// [RFC8985-6.2-7]
#[test]
fn the_wait_for_late_segments_counts_from_when_they_were_sent() {
    let (mut sender, mss) = sender_alone("linux-6");
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 5 * mss, &mut out);
    sender.write(ms(10), 5 * mss, &mut out);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), (0..10).collect::<Vec<_>>());
    sender.on_packet(ms(110), &ack_of(1, &[(5, 6)], mss), &mut out);
    assert_eq!(sender.deadline(), ms(130));
    sender.on_deadline(ms(130), &mut out);
    assert_eq!(segments_in(&mut out, mss)[0], 1);
    assert_eq!((sender.deadline(), sender.stats().timeouts), (ms(430), 0));
}

/// Nothing comes after 100 ms: a probe at 304 ms, the timeout at 604 ms, which sends the second
/// again. The ACK of it and of the third, which was sent once, takes the timeout back at 704 ms.
/// The fourth has been out longer than a timeout, which bounds the next probe no more: two round
/// trips and 2 ms later new data makes way for one.
#[test]
fn a_timeout_that_has_passed_does_not_hurry_the_probe() {
    let (mut sender, mss, mut out) = ten_at_once(|mss| 10 * mss);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    sender.on_deadline(ms(304), &mut out);
    sender.on_deadline(ms(604), &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.stats().timeouts), (vec![9, 1], 1));
    sender.write(ms(610), 10 * mss, &mut out);
    sender.on_packet(ms(704), &ack_of(3, &[], mss), &mut out);
    assert_eq!(sender.stats().spurious_timeouts, 1);
    assert!(!segments_in(&mut out, mss).is_empty());
    assert!(sender.deadline() > ms(800), "{}", sender.deadline());
}
