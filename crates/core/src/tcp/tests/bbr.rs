//! BBR's sender beside a kernel 6.18 that was given the same ACKs: paths of evidence/lockstep by
//! hand, each to where a rule shows.

use super::*;
use crate::tcp::cc::{CaState, CcConfig};
use crate::tcp::loss::LossConfig;

const MSS: u32 = 1448;

struct Story {
    sender: Sender,
    now: Time,
    out: Outputs,
    /// Timestamps of the SYN and of the data.
    stamps: Vec<u32>,
}

impl Story {
    /// Connected after `rtt`, with nothing written.
    fn new(rtt: Span, initial_window: u32, change: impl FnOnce(&mut TcpConfig)) -> Story {
        let c = config("linux-6", |c| {
            c.cc = CcConfig::by_name("bbr").unwrap();
            (c.cwnd.initial, c.cwnd.restart_window) = (initial_window, initial_window);
            change(c);
        });
        let sender = Sender::new(FlowId(0), 0, c, Streams::of(1, 0));
        let mut story =
            Story { sender, now: Time::ZERO + Span::from_ms(1000), out: Outputs::default(), stamps: vec![] };
        story.sender.open(story.now, &mut story.out);
        let syn = story.out.packets.pop().unwrap();
        story.now += rtt;
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.ack, p.window) = (TcpFlags::SYN | TcpFlags::ACK, Seq32(1), 65_535);
        (p.ts_val, p.ts_ecr) = (1, syn.ts_val);
        story.sender.on_packet(story.now, &p, &mut story.out);
        story.stamps.push(syn.ts_val);
        story.sent();
        story
    }

    /// Numbers of the segments that have left.
    fn sent(&mut self) -> Vec<u64> {
        let data: Vec<Packet> = self.out.packets.drain(..).filter(|p| p.len > 0).collect();
        self.stamps.extend(data.iter().map(|p| p.ts_val));
        data.iter().map(|p| u64::from((p.seq.0 - 1) / MSS)).collect()
    }

    fn write(&mut self, segments: u64) -> Vec<u64> {
        self.sender.write(self.now, segments * u64::from(MSS), &mut self.out);
        self.sent()
    }

    /// An ACK after so many microseconds, which echoes the `echoed`th of what was sent; 0: the SYN.
    fn ack(&mut self, us: u64, segments: u32, echoed: usize) -> Vec<u64> {
        self.now += Span::from_us(us);
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        (p.flags, p.seq, p.ack, p.window) = (TcpFlags::ACK, Seq32(1), Seq32(1 + segments * MSS), 2_896_896);
        (p.ts_val, p.ts_ecr) = (1 + saturated_ms(self.now), self.stamps[echoed]);
        self.sender.on_packet(self.now, &p, &mut self.out);
        self.sent()
    }

    /// The next timer.
    fn timer(&mut self) -> Vec<u64> {
        self.now = self.sender.deadline();
        self.sender.on_deadline(self.now, &mut self.out);
        self.sent()
    }

    fn cwnd(&self) -> u32 {
        self.sender.window().cwnd
    }
}

fn saturated_ms(now: Time) -> u32 {
    u32::try_from(now.as_ns() / 1_000_000).unwrap()
}

fn without_sack(c: &mut TcpConfig) {
    c.loss_recovery.recovery = Recovery::NewReno;
    c.loss_recovery.loss = LossConfig::by_name("dup_thresh").unwrap();
}

/// `bbr_min_tso_segs`: three segments in 98 ms at 2.89 times that are 127 kB/s, below 1.2 Mbit/s.
/// The tenth segment is the first that is paced, and it leaves alone. Twice the window leave in
/// twos, as three times the rate is above.
#[test]
fn below_1_2_mbit_segments_leave_one_by_one() {
    for (window, burst) in [(3, 1), (6, 2)] {
        let mut story = Story::new(Span::from_ms(98), window, |_| {});
        let mut sent = story.write(50).len();
        story.now += Span::from_ms(98);
        let mut number = 0;
        while sent < 9 {
            number += 1;
            sent += story.ack(3_000, number, number as usize).len();
        }
        let paced = (0..4).find_map(|_| {
            number += 1;
            Some(story.ack(100_000, number, number as usize)).filter(|sent| !sent.is_empty())
        });
        assert_eq!(paced.map(|sent| sent.len()), Some(burst), "window {window}");
    }
}

/// `tcp_clean_rtx_queue` counts the SYN as delivered: the window grows without bound until
/// `TCP_INIT_CWND` are, whatever it began with. The kernel's windows after each of nine ACKs.
#[test]
fn the_syn_is_one_of_the_ten_that_let_the_window_grow() {
    let mut story = Story::new(Span::from_ms(66), 20, |c| c.host_queue.segments_at_once = SegmentsAtOnce::Single);
    story.write(12);
    story.timer();
    story.timer();
    assert_eq!(story.sender.info().delivered, 1);
    story.now += Span::from_ms(66);
    let windows: Vec<u32> = (1..=9)
        .map(|n| {
            story.ack(1_700, n, n as usize);
            story.cwnd()
        })
        .collect();
    assert_eq!(windows, [21, 22, 23, 24, 25, 26, 27, 28, 28]);
}

/// `tcp_cong_control` comes before `tcp_xmit_recovery`, without SACK as with it: at the third
/// duplicate six are in flight, of which the window has room for no more.
#[test]
fn the_window_of_a_recovery_is_set_before_the_repair_leaves() {
    let mut story = Story::new(Span::from_us(68_313), 5, without_sack);
    story.write(90);
    story.ack(72_510, 0, 0);
    assert_eq!((story.ack(2_054, 0, 0), story.cwnd()), (vec![5, 6], 6));
    assert_eq!((story.ack(1_890, 0, 0), story.cwnd()), (vec![7, 8], 7));
    assert_eq!((story.ack(2_150, 0, 0), story.cwnd()), (vec![0], 6));
    assert_eq!(story.sender.path().state, CaState::Recovery);
}

/// `tcp_tsq_write`: after a timeout F-RTO lets two new segments leave first. The pacing timer that
/// follows repeats what is lost.
#[test]
fn the_pacing_timer_repeats_what_is_lost_while_f_rto_decides() {
    let mut story = Story::new(Span::from_us(77_018), 3, |c| {
        without_sack(c);
        c.host_queue.segments_at_once = SegmentsAtOnce::Single;
        c.loss_recovery.tail_loss_probe = false;
    });
    story.write(12);
    assert_eq!((story.ack(79_371, 1, 1), story.ack(2_141, 2, 2)), (vec![3, 4], vec![5, 6]));
    assert_eq!(story.timer(), [2], "the timeout");
    assert_eq!(story.ack(79_003, 3, 8), [7, 8]);
    assert_eq!((story.timer(), story.timer()), (vec![3], vec![4]));
}

/// `tcp_rate_check_app_limited` is asked when the application writes: data that ends limits
/// nothing, and what is written behind all that was sent does.
#[test]
fn the_application_limits_what_it_writes_late_and_not_what_it_wrote_last() {
    let mut story = Story::new(Span::from_ms(50), 10, |_| {});
    let limited = |story: &Story| story.sender.is_app_limited();
    story.write(30);
    assert!(limited(&story), "the first flight is");
    story.ack(50_000, 10, 10);
    assert!(!limited(&story), "the application had written enough");
    while story.sender.outstanding().1 <= u64::from(30 * MSS) {
        story.timer();
    }
    assert!(!limited(&story), "the end of the data limits nothing");
    story.ack(50_000, 12, 12);
    story.write(10);
    assert!(limited(&story), "less was out than the window has room for");
    story.ack(60_000, 30, 30);
    assert!(limited(&story), "what was out by then has not been passed");
    story.ack(1_000, 31, 31);
    assert!(!limited(&story));
}

/// `tcp_packet_delayed`: pacing holds the repair back, and meanwhile an ACK covers the segment.
/// Nothing was sent again, so it was late, and the window is what it was.
#[test]
fn a_segment_that_arrives_before_its_repair_has_left_was_late() {
    let mut story = Story::new(Span::from_us(136_372), 10, |c| {
        without_sack(c);
        c.host_queue.segments_at_once = SegmentsAtOnce::Single;
    });
    story.write(30);
    story.ack(141_107, 2, 1);
    story.timer();
    story.ack(2_011, 4, 3);
    story.ack(1_228, 4, 3);
    story.ack(300, 4, 3);
    assert_eq!(story.ack(300, 4, 3), Vec::<u64>::new(), "the repair waits for the pacing");
    assert_eq!((story.sender.path().state, story.sender.stats().segments_retransmitted), (CaState::Recovery, 0));
    story.ack(300, 8, 4);
    assert_eq!((story.sender.path().state, story.sender.info().lost), (CaState::Open, 0));
    assert_eq!((story.sender.stats().undos, story.sender.stats().segments_retransmitted), (1, 0));
}
