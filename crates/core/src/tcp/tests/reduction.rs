//! Marks and losses in one reduction of the window as Linux 6.18 has it (net/ipv4/tcp_input.c):
//! Reno, a round trip of 100 ms, ten segments at 0 of thirty.

use super::super::cc::{CaState, CcConfig};
use super::*;

fn ten_sent() -> (Sender, u64, Outputs) {
    ten_sent_of(30)
}

fn ten_sent_of(segments: u64) -> (Sender, u64, Outputs) {
    let c = config("linux-6", |c| {
        (c.connection.handshake, c.ecn.enabled, c.timestamps.enabled) = (false, true, false);
        c.ecn.echo = EcnEcho::Latched;
        c.cc = CcConfig::by_name("reno").unwrap();
    });
    let mss = u64::from(c.mss());
    let mut sender = Sender::new(FlowId(0), 0, c, Streams::of(1, 0));
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, segments * mss, &mut out);
    assert_eq!(segments_in(&mut out, mss).len(), 10);
    (sender, mss, out)
}

fn marked(next: u64, sacked: &[(u64, u64)], mss: u64) -> Packet {
    let mut ack = ack_of(next, sacked, mss);
    ack.flags |= TcpFlags::ECE;
    ack
}

/// The mark of the first cuts the window of 11 for five. Three segments arrive above a hole. The
/// reduction of 5 for 11 goes on: of the four that have arrived 4 * 5 / 11 = 1.8 may be made up
/// for, and two have left, so that nothing leaves for the loss (`tcp_enter_recovery`). The
/// threshold stays.
#[test]
fn a_recovery_in_a_reduction_goes_on_with_it() {
    let (mut sender, mss, mut out) = ten_sent();
    sender.on_packet(ms(100), &marked(1, &[], mss), &mut out);
    assert_eq!((sender.path().state, sender.window().ssthresh), (CaState::Cwr, 5));
    let first = segments_in(&mut out, mss);
    for (i, end) in [3, 4, 5].into_iter().enumerate() {
        sender.on_packet(ms(102 + i as u64), &ack_of(1, &[(2, end)], mss), &mut out);
    }
    assert_eq!((sender.path().state, sender.window().ssthresh), (CaState::Recovery, 5));
    assert_eq!((first, segments_in(&mut out, mss)), (vec![10], vec![11]));
    sender.on_packet(ms(106), &ack_of(1, &[(2, 6)], mss), &mut out);
    assert_eq!(segments_in(&mut out, mss), [1]);
    // The end is that of the reduction, the tenth: the ACK of it ends the recovery.
    sender.on_packet(ms(200), &ack_of(10, &[], mss), &mut out);
    assert_eq!(sender.path().state, CaState::Open);
    sender.check();
}

/// A loss and a mark on one ACK are one reduction, of the loss, and a DSACK of the repetition does
/// not take it back.
#[test]
fn a_mark_forbids_to_take_back_what_a_loss_took() {
    for mark in [false, true] {
        let (mut sender, mss, mut out) = ten_sent();
        sender.on_packet(ms(100), &ack_of(0, &[(1, 3)], mss), &mut out);
        let third = if mark { marked(0, &[(1, 5)], mss) } else { ack_of(0, &[(1, 5)], mss) };
        sender.on_packet(ms(102), &third, &mut out);
        assert_eq!((sender.path().state, sender.stats().ecn_reductions), (CaState::Recovery, 0), "{mark}");
        sender.on_packet(ms(104), &ack_of(10, &[], mss), &mut out);
        sender.on_packet(ms(204), &ack_of(10, &[(0, 1)], mss), &mut out);
        assert_eq!(sender.stats().undos, 1);
        assert_eq!(sender.window().ssthresh == u32::MAX, !mark);
    }
}

/// The threshold before is that of an earlier reduction, 5, but the window has grown to 13 since:
/// an undo returns to three quarters of it (`tcp_current_ssthresh`).
#[test]
fn an_undo_returns_to_no_less_than_three_quarters_of_the_window() {
    let (mut sender, mss, mut out) = ten_sent();
    sender.on_packet(ms(100), &marked(1, &[], mss), &mut out);
    let mut next = 10;
    let mut at = 200;
    sender.on_packet(ms(at), &ack_of(next, &[], mss), &mut out);
    while sender.window().cwnd < 8 {
        next += segments_in(&mut out, mss).len() as u64;
        at += 100;
        sender.write(ms(at), 20 * mss, &mut out);
        sender.on_packet(ms(at), &ack_of(next, &[], mss), &mut out);
    }
    assert_eq!((sender.path().state, sender.window().ssthresh), (CaState::Open, 5));
    sender.on_packet(ms(at + 100), &ack_of(next, &[(next + 1, next + 5)], mss), &mut out);
    assert_eq!((sender.path().state, sender.window().ssthresh), (CaState::Recovery, 4));
    let sent = sender.outstanding().1 / mss;
    sender.on_packet(ms(at + 110), &ack_of(sent, &[], mss), &mut out);
    sender.on_packet(ms(at + 200), &ack_of(sent, &[(next, next + 1)], mss), &mut out);
    assert_eq!((sender.stats().undos, sender.window().ssthresh), (1, 6));
}

/// As in the first story, and nothing has been sent again when what was missing comes: it was late
/// (`tcp_packet_delayed`). The recovery is over before its end, but the window stays reduced.
#[test]
fn a_recovery_in_which_nothing_was_sent_again_is_taken_back() {
    let (mut sender, mss, mut out) = ten_sent();
    sender.on_packet(ms(100), &marked(1, &[], mss), &mut out);
    for (i, end) in [3, 4, 5].into_iter().enumerate() {
        sender.on_packet(ms(102 + i as u64), &ack_of(1, &[(2, end)], mss), &mut out);
    }
    assert_eq!(sender.path().state, CaState::Recovery);
    sender.on_packet(ms(105), &ack_of(5, &[], mss), &mut out);
    assert_eq!((sender.stats().undos, sender.path().state, sender.window().ssthresh), (1, CaState::Open, 5));
    assert_eq!(sender.stats().segments_retransmitted, 0);
}

/// All of ten segments are sent when the mark of the first cuts the window for five. A probe
/// repeats the last, and its SACK shows that eight are lost. Two segments have arrived in the
/// reduction, and the probe is none of those that have left in it: two may leave.
#[test]
fn a_probe_is_not_counted_in_a_reduction() {
    let (mut sender, mss, mut out) = ten_sent_of(10);
    sender.on_packet(ms(100), &marked(1, &[], mss), &mut out);
    let at = sender.deadline();
    sender.on_deadline(at, &mut out);
    assert_eq!(segments_in(&mut out, mss), [9]);
    sender.on_packet(at + Span::from_ms(100), &ack_of(1, &[(9, 10)], mss), &mut out);
    assert_eq!(sender.path().state, CaState::Recovery);
    assert_eq!(segments_in(&mut out, mss), [1, 2]);
}
