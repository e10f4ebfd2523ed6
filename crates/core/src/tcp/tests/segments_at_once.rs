//! Segments that leave at once, and the place of PSH: compared with a trace of a kernel 6.18
//! (evidence/kernel/run.py trace).

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use crate::tcp::cc::CcConfig;

/// Milliseconds and numbers of the segments that left together, and whether the last has PSH and no
/// other.
type Bursts = Vec<(f64, Vec<u64>, bool)>;

fn bursts(c: &Arc<TcpConfig>, one_way: Span, mbps: u64, bytes: u64, until: Span) -> Bursts {
    let pushed = Rc::new(RefCell::new(Vec::new()));
    let log = pushed.clone();
    let mut pair = Pair::same(c, one_way);
    pair.rate = Some(DataRate::from_mbps(mbps));
    pair.data_fate = Box::new(move |_, p| {
        log.borrow_mut().push(p.has(TcpFlags::PSH));
        Fate::Pass
    });
    let mut pair = pair.start(bytes);
    pair.run(Time::ZERO + until);
    let mut bursts: Bursts = Vec::new();
    for (&(at, seq, _), &push) in pair.sent.iter().zip(pushed.borrow().iter()) {
        let n = (seq - 1) / 1448;
        match bursts.last_mut() {
            Some((last, numbers, ends)) if *last == at && !*ends => {
                numbers.push(n);
                *ends = push;
            }
            _ => bursts.push((at, vec![n], push)),
        }
    }
    bursts
}

fn in_avoidance(change: impl FnOnce(&mut TcpConfig)) -> Arc<TcpConfig> {
    config("linux-6", |c| {
        c.cc = CcConfig::by_name("reno").unwrap();
        (c.cwnd.initial, c.cwnd.initial_ssthresh, c.cwnd.max) = (100, 100, 100);
        (c.buffers.receive, c.receiver.window_in_steps) = (c.buffers.receive_max, false);
        c.buffers.send = c.buffers.send_max;
        change(c);
    })
}

/// At 100 Mbit/s an ACK of two segments comes every 240 us. The kernel waits for ten segments, or
/// until its last burst is more than a millisecond old. Where ACKs are further apart than that it
/// sends what each of them allows.
#[test]
fn what_the_window_allows_waits_for_further_acks_for_a_millisecond() {
    let steady = |mbps: u64, change: fn(&mut TcpConfig)| -> Vec<usize> {
        let one_way = Span::from_us(600_000 / mbps);
        let all = bursts(&in_avoidance(change), one_way, mbps, u64::MAX, Span::from_ms(40_000 / mbps));
        let late: Vec<_> = all.iter().filter(|b| b.0 > 20_000.0 / mbps as f64).collect();
        assert!(late.len() > 20, "{all:?}");
        late.iter().map(|b| b.1.len()).collect()
    };
    let sizes = steady(100, |_| {});
    let most = sizes.iter().filter(|n| (8..=10).contains(*n)).count();
    assert!(sizes.iter().all(|&n| n <= 10) && most * 10 > sizes.len() * 6, "{sizes:?}");
    let sizes = steady(8, |_| {});
    assert!(sizes.iter().all(|n| (1..=2).contains(n)), "{sizes:?}");
    let sizes = steady(100, |c| c.host_queue.segments_at_once = SegmentsAtOnce::Single);
    assert!(sizes.iter().all(|n| (1..=2).contains(n)), "{sizes:?}");
}

/// A lost ACK must not stop a sender that waits for further ones.
#[test]
fn what_waits_goes_with_the_next_ack_however_few_they_are() {
    let mut pair = Pair::same(&in_avoidance(|_| {}), Span::from_ms(6));
    pair.rate = Some(DataRate::from_mbps(100));
    pair.ack_fate = Box::new(|n, _| if n % 5 == 0 { Fate::Pass } else { Fate::Lose });
    let mut pair = pair.start(u64::MAX);
    pair.run(Time::ZERO + Span::from_secs(1));
    assert!(pair.receiver.stats().bytes_delivered > 10_000_000, "{:?}", pair.receiver.stats());
    assert_eq!(pair.sender.stats().timeouts, 0);
}

/// The kernel's first data at 40 Mbit/s and 80 ms: BBR sends ten segments at once, in pairs with
/// PSH at their ends. With the first ACK pairs are spaced; the gap behind the first is half of the
/// others, since it might have left long before.
#[test]
fn bbr_spaces_pairs_and_its_first_ten_segments_not_at_all() {
    let c = config("linux-6", |c| c.cc = CcConfig::by_name("bbr").unwrap());
    let all = bursts(&c, Span::from_ms(40), 40, u64::MAX, Span::from_ms(185));
    let first: Vec<_> = all[..5].iter().map(|b| (b.0, b.1.len(), b.2)).collect();
    assert!(first.iter().all(|&b| b == (first[0].0, 2, true)), "{first:?}");
    let paced = &all[5..9];
    assert!(paced.iter().all(|b| (b.1.len(), b.2) == (2, true)), "{paced:?}");
    let gaps: Vec<f64> = paced.windows(2).map(|w| w[1].0 - w[0].0).collect();
    // Seen: 2.82, 5.65, 5.60 ms.
    assert!((gaps[0] - 2.82).abs() < 0.1 && gaps[1..].iter().all(|g| (g - 5.62).abs() < 0.2), "{gaps:?}");
}

/// The end of what was written carries PSH, too.
#[test]
fn psh_ends_what_was_written() {
    let ends = |at_once| {
        let c = config("linux-6", |c| (c.host_queue.segments_at_once, c.cwnd.initial) = (at_once, 5));
        let all = bursts(&c, ONE_WAY, 100, 5 * 1448, Span::from_ms(500));
        all.into_iter().map(|b| (b.1, b.2)).collect::<Vec<_>>()
    };
    // Half of the window at most.
    assert_eq!(ends(SegmentsAtOnce::Linux), [(vec![0, 1], true), (vec![2, 3], true), (vec![4], true)]);
    assert_eq!(ends(SegmentsAtOnce::Single), [(vec![0, 1, 2, 3, 4], true)]);
}

/// Linux 6.12, `tcp_xmit_retransmit_queue`: what was lost of an skb leaves again at once, with one
/// place in the pacing.
#[test]
fn a_lost_skb_leaves_again_as_a_whole() {
    let together = |at_once| {
        let c =
            config("linux-6", |c| (c.cc, c.host_queue.segments_at_once) = (CcConfig::by_name("bbr").unwrap(), at_once));
        let mut pair = Pair::same(&c, Span::from_ms(20));
        pair.rate = Some(DataRate::from_mbps(8));
        // Six in a row, so that whole skbs of two are among them.
        pair.data_fate = Box::new(|n, _| if n >= 1000 && n % 200 < 6 { Fate::Lose } else { Fate::Pass });
        let mut pair = pair.start(u64::MAX);
        pair.run(Time::ZERO + Span::from_secs(8));
        assert!(pair.sender.stats().segments_retransmitted > 50);
        let mut highest = 0;
        let mut again = Vec::new();
        for &(at, seq, _) in &pair.sent {
            if seq < highest {
                again.push((at, seq));
            }
            highest = highest.max(seq);
        }
        again.windows(2).filter(|w| w[0].0 == w[1].0 && w[0].1 + 1448 == w[1].1).count()
    };
    assert_eq!(together(SegmentsAtOnce::Single), 0);
    let pairs = together(SegmentsAtOnce::Linux);
    assert!(pairs > 5, "{pairs}");
}

/// Linux 6.12, `__tcp_transmit_skb`: PSH is set on what leaves as one skb of several. A part that
/// is sent again by itself has none, though it was the end of an skb.
#[test]
fn a_segment_that_is_sent_again_alone_has_no_psh() {
    let c = config("linux-6", |c| c.cc = CcConfig::by_name("bbr").unwrap());
    let pushed = Rc::new(RefCell::new(Vec::new()));
    let log = pushed.clone();
    let mut pair = Pair::same(&c, Span::from_ms(20));
    pair.rate = Some(DataRate::from_mbps(8));
    pair.data_fate = Box::new(move |n, p| {
        log.borrow_mut().push((p.seq.0, p.has(TcpFlags::PSH)));
        // The end of an skb, by itself.
        if n >= 200 && n % 61 < 2 && p.has(TcpFlags::PSH) { Fate::Lose } else { Fate::Pass }
    });
    let mut pair = pair.start(u64::MAX);
    pair.run(Time::ZERO + Span::from_secs(8));
    let (mut ends, mut again) = (std::collections::BTreeMap::new(), Vec::new());
    for &(seq, push) in pushed.borrow().iter() {
        match ends.get(&seq) {
            Some(&was_end) => again.push((was_end, push)),
            None => _ = ends.insert(seq, push),
        }
    }
    assert!(again.iter().filter(|a| a.0).count() > 10 && again.iter().all(|a| !a.1), "{again:?}");
}

/// `tcp_push`: each write ends with PSH, and what has left with it is sent again with it. A write
/// that follows before it leaves takes it away.
#[test]
fn each_write_ends_with_psh_also_when_it_is_sent_again() {
    for at_once in [SegmentsAtOnce::Linux, SegmentsAtOnce::Single] {
        let c = config("linux-6", |c| (c.host_queue.segments_at_once, c.cwnd.initial) = (at_once, 3));
        let seen = Rc::new(RefCell::new(Vec::new()));
        let log = seen.clone();
        let mut pair = Pair::same(&c, ONE_WAY);
        pair.data_fate = Box::new(move |n, p| {
            log.borrow_mut().push(((p.seq.0 - 1) / 1448, p.has(TcpFlags::PSH)));
            if n == 0 { Fate::Lose } else { Fate::Pass }
        });
        let mut pair = pair.start(1448);
        pair.run(Time::ZERO + Span::from_ms(100));
        for _ in 0..4 {
            pair.sender.write(pair.now, 1448, &mut pair.out);
            pair.drain();
        }
        pair.run(Time::ZERO + Span::from_secs(3));
        let seen = seen.take();
        let of = |segment| seen.iter().filter(|s| s.0 == segment).map(|s| s.1).collect::<Vec<_>>();
        // The window is three segments: two writes wait, and leave as one.
        assert_eq!([of(0), of(1), of(2)], [vec![true, true], vec![true], vec![true]], "{seen:?}");
        assert_eq!(of(4), [true], "{seen:?}");
    }
}
