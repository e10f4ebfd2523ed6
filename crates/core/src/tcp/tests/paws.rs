//! Outdated timestamps (RFC 7323 section 5; `tcp_validate_incoming`, `tcp_paws_discard` and
//! `tcp_disordered_ack` of Linux 6.18, net/ipv4/tcp_input.c).

use super::*;

/// Ten segments at 0. The ACK of two carries the timestamp 1010.
fn two_acknowledged() -> (Sender, u64, Outputs) {
    let (mut sender, mss) = sender_alone("linux-6");
    let mut out = Outputs::default();
    sender.open(Time::ZERO, &mut out);
    sender.write(Time::ZERO, 10 * mss, &mut out);
    sender.on_packet(ms(110), &stamped(ack_of(2, &[], mss), 1010), &mut out);
    out.packets.clear();
    (sender, mss, out)
}

fn stamped(mut p: Packet, ts_val: u32) -> Packet {
    (p.ts_val, p.ts_ecr) = (ts_val, 1);
    p
}

/// An ACK of all that was sent two ticks before is discarded and answered, the next within half a
/// second is discarded alone, and one of a tick before counts. The newest timestamp stays.
#[test]
fn a_late_ack_is_discarded_and_answered() {
    let (mut sender, mss, mut out) = two_acknowledged();
    sender.on_packet(ms(111), &stamped(ack_of(5, &[], mss), 1008), &mut out);
    let answers: Vec<_> = out.packets.drain(..).map(|p| (p.len, p.ts_ecr)).collect();
    assert_eq!((answers, sender.outstanding().0), (vec![(0, 1010)], 1 + 2 * mss));
    sender.on_packet(ms(112), &stamped(ack_of(6, &[], mss), 1008), &mut out);
    assert_eq!((out.packets.len(), sender.outstanding().0), (0, 1 + 2 * mss));
    sender.on_packet(ms(113), &stamped(ack_of(7, &[], mss), 1009), &mut out);
    assert_eq!(sender.outstanding().0, 1 + 7 * mss);
    assert!(out.packets.iter().all(|p| p.len > 0 && p.ts_ecr == 1010), "it never goes back");
}

/// A late duplicate ACK is taken with its SACK, if it changes no window and is no later than the
/// timeout allows.
#[test]
fn a_late_duplicate_is_taken() {
    let sacked = |ts_val, window| {
        let (mut sender, mss, mut out) = two_acknowledged();
        let mut ack = stamped(ack_of(2, &[(4, 5)], mss), ts_val);
        ack.window = window;
        sender.on_packet(ms(111), &ack, &mut out);
        sender.info().sacked
    };
    assert_eq!(sacked(1008, 1 << 20), 1);
    assert_eq!(sacked(1008, (1 << 20) + 1), 0, "the window grows");
    // The timeout is 330 ms, at most 396 ticks of a peer's clock (332 ms in jiffies: 398).
    assert_eq!((sacked(1010 - 380, 1 << 20), sacked(1010 - 420, 1 << 20)), (1, 0));
}

/// The receiver discards data that was sent two ticks before what it acknowledged last. It reports
/// the part that it has as come twice.
#[test]
fn late_data_is_discarded_and_answered() {
    let c = config("linux-6", |c| c.connection.handshake = false);
    let mut receiver = Receiver::new(FlowId(0), 0, c);
    let mut answer = |seq, ts_val| {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.len, p.ts_val) = (TcpFlags::ACK, Seq32(seq), 1000, ts_val);
        let mut out = Outputs::default();
        receiver.on_packet(ms(10), &p, &mut out);
        let [ack] = &out.packets[..] else { panic!("one ACK: {:?}", out.packets) };
        (ack.ack.0, ack.ts_ecr, ack.sack().iter().map(|b| (b.start.0, b.end.0)).collect::<Vec<_>>())
    };
    assert_eq!(answer(1, 100), (1001, 100, vec![]));
    assert_eq!(answer(1001, 110), (2001, 110, vec![]));
    assert_eq!(answer(2001, 108), (2001, 110, vec![]), "discarded");
    assert_eq!(answer(1501, 108), (2001, 110, vec![(1501, 2001)]), "discarded, and a part of it was there");
    assert_eq!(answer(2001, 109), (3001, 110, vec![]), "taken, and the newest timestamp stays");
}

/// The timestamp of the handshake's ACK is the first that is echoed (`tcp_replace_ts_recent`).
#[test]
fn the_handshakes_ack_tells_its_timestamp() {
    let mut receiver = Receiver::new(FlowId(0), 0, config("linux-6", |_| {}));
    let mut echo = |flags, (seq, len), ts_val| {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.len, p.ts_val) = (flags, Seq32(seq), len, ts_val);
        let mut out = Outputs::default();
        receiver.on_packet(ms(10), &p, &mut out);
        out.packets.last().map(|ack| ack.ts_ecr)
    };
    assert_eq!(echo(TcpFlags::SYN, (0, 0), 100), Some(100));
    assert_eq!(echo(TcpFlags::ACK, (1, 0), 150), None);
    assert_eq!(echo(TcpFlags::ACK, (1001, 1000), 155), Some(150), "above a hole");
}
