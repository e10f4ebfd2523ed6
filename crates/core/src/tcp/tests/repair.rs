//! Repair as Linux 6.18 does it (net/ipv4/tcp_input.c), with times by hand: a round trip of 100 ms,
//! ten segments at 0, of which the first is acknowledged at 100 ms.

use super::*;

fn ten_sent() -> (Sender, u64, Outputs) {
    let (mut sender, mss) = sender_alone("linux-6");
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    assert_eq!(segments_in(&mut out, mss).len(), 10);
    sender.on_packet(ms(100), &ack_of(1, &[], mss), &mut out);
    (sender, mss, out)
}

/// The second and third are late. SACKs of what is above have both sent again at 100 and 105 ms, with
/// the timestamps 101 and 106. Then the originals arrive, whose timestamp was 1. The ACK of the
/// second leaves the third's retransmission out, and that of the third takes the reduction back
/// (`tcp_try_undo_partial`).
#[test]
fn a_partial_undo_waits_until_no_retransmission_is_out() {
    let (mut sender, mss, mut out) = ten_sent();
    sender.on_packet(ms(100), &ack_of(1, &[(3, 6)], mss), &mut out);
    sender.on_packet(ms(105), &ack_of(1, &[(3, 8)], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [1, 2]);
    let reduced = sender.window().ssthresh;
    let late = |next, sacked: &[(u64, u64)]| {
        let mut ack = ack_of(next, sacked, mss);
        ack.ts_ecr = 1;
        ack
    };
    sender.on_packet(ms(110), &late(2, &[(3, 8)]), &mut out);
    assert_eq!((sender.stats().undos, sender.window().ssthresh), (0, reduced), "the third is out");
    assert_eq!(segments_in(&mut out, mss), [0_u64; 0]);
    sender.on_packet(ms(112), &late(8, &[]), &mut out);
    assert_eq!((sender.stats().undos, sender.window().ssthresh), (1, u32::MAX));
    sender.check();
}

/// Nothing comes after 100 ms: a probe at 304 ms, the timeout at 604 ms, for which CUBIC leaves
/// seven tenths of the window, and the second is sent again. Its ACK lets two more leave at 704 ms.
/// Of those only the latter arrives. That was sent after the other, which has been lost again: a
/// new recovery begins, from the window of then (`FLAG_LOST_RETRANS` in `tcp_fastretrans_alert`).
#[test]
fn a_repair_of_a_timeout_that_is_lost_again_begins_a_recovery() {
    let (mut sender, mss, mut out) = ten_sent();
    assert_eq!(sender.deadline(), ms(304));
    sender.on_deadline(ms(304), &mut out);
    assert_eq!(sender.deadline(), ms(604));
    sender.on_deadline(ms(604), &mut out);
    assert_eq!((segments_in(&mut out, mss), sender.stats().timeouts), (vec![9, 1], 1));
    let at_timeout = sender.window().ssthresh;
    assert!(at_timeout >= 7, "{at_timeout}");
    sender.on_packet(ms(704), &ack_of(2, &[], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [2, 3]);
    sender.on_packet(ms(804), &ack_of(2, &[(3, 4)], mss), &mut out);
    assert_eq!((sender.stats().fast_retransmits, sender.window().ssthresh), (1, 2));
    assert_eq!(segments_in(&mut out, mss)[0], 2);
    sender.check();
}
