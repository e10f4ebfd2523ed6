//! A sender and a receiver over a scripted path: packets are lost, marked or delayed by number,
//! times are exact.

mod accurate_ecn;
mod against_linux;
mod against_ns2;
mod bbr;
mod connection;
mod flow_control;
mod frto;
mod paws;
mod recovery;
mod reduction;
mod reneging;
mod repair;
mod segments_at_once;
mod small_windows;
mod timers;

use std::sync::Arc;

use super::*;
use crate::packet::{Ecn, FlowId, Kind, Packet, SackBlock, TcpFlags};
use crate::rng::{Purpose, Streams, stream};
use crate::units::{Bytes, DataRate, Seq32, Span, Time};

/// Treatment of the n-th data packet or ACK by the path (counting from 0, retransmissions
/// included).
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Pass,
    Lose,
    Mark,
    Delay(Span),
}

/// The n-th packet and what becomes of it.
type Script = Box<dyn FnMut(u64, &Packet) -> Fate>;

struct Pair {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    one_way: Span,
    /// Serialisation in either direction, `None`: none.
    rate: Option<DataRate>,
    free_at: [Time; 2],
    /// Most packets that wait for the line towards the receiver.
    limit: usize,
    data_fate: Script,
    ack_fate: Script,
    data_count: u64,
    ack_count: u64,
    /// In flight: arrival, order, towards the receiver, packet.
    flying: Vec<(Time, u64, bool, Packet)>,
    order: u64,
    idle_rounds: u32,
    out: Outputs,
    notices: Vec<Notice>,
    /// `(ms, "seq:end")` of every data segment as it leaves, in segments of one MSS.
    sent: Vec<(f64, u64, u16)>,
    /// For each of `sent`: how long a timer ran that made it leave; `None` where an arrival or a
    /// write did.
    waited: Vec<Option<Span>>,
    timer_ran: Option<Span>,
    /// The sender's deadline, and since when it has been that.
    armed: (Time, Time),
}

/// Timers are exact: those of the wheel have tests of their own.
fn config(profile: &str, change: impl FnOnce(&mut TcpConfig)) -> Arc<TcpConfig> {
    let mut c = profile::profile(profile).unwrap().resolve().unwrap();
    c.timers.wheel = false;
    change(&mut c);
    Arc::new(c)
}

impl Pair {
    fn new(sender: &Arc<TcpConfig>, receiver: &Arc<TcpConfig>, one_way: Span) -> Pair {
        Pair {
            now: Time::ZERO,
            sender: Sender::new(FlowId(0), 0, sender.clone(), Streams::of(1, 0)),
            receiver: Receiver::new(FlowId(0), 0, receiver.clone()),
            one_way,
            rate: None,
            free_at: [Time::ZERO; 2],
            limit: usize::MAX,
            data_fate: Box::new(|_, _| Fate::Pass),
            ack_fate: Box::new(|_, _| Fate::Pass),
            data_count: 0,
            ack_count: 0,
            flying: Vec::new(),
            order: 0,
            idle_rounds: 0,
            out: Outputs::default(),
            notices: Vec::new(),
            sent: Vec::new(),
            waited: Vec::new(),
            timer_ran: None,
            armed: (Time::NEVER, Time::ZERO),
        }
    }

    fn same(c: &Arc<TcpConfig>, one_way: Span) -> Pair {
        Pair::new(c, c, one_way)
    }

    fn losing(mut self, lost: &'static [u64]) -> Pair {
        self.data_fate = Box::new(move |n, _| if lost.contains(&n) { Fate::Lose } else { Fate::Pass });
        self
    }

    fn start(mut self, bytes: u64) -> Pair {
        let mut out = std::mem::take(&mut self.out);
        self.sender.open(self.now, &mut out);
        self.sender.write(self.now, bytes, &mut out);
        self.out = out;
        self.drain();
        self
    }

    fn drain(&mut self) {
        self.notices.append(&mut self.out.notices);
        for mut p in std::mem::take(&mut self.out.packets) {
            let to_receiver = !p.is_reverse();
            let carries_data = p.len > 0;
            let fate = if carries_data {
                self.sent.push((self.now.as_ns() as f64 / 1e6, u64::from(p.seq.0), p.len));
                self.waited.push(self.timer_ran);
                self.data_count += 1;
                (self.data_fate)(self.data_count - 1, &p)
            } else if !to_receiver && !p.has(TcpFlags::SYN) {
                self.ack_count += 1;
                (self.ack_fate)(self.ack_count - 1, &p)
            } else {
                Fate::Pass
            };
            let mut at = self.now;
            if let Some(rate) = self.rate {
                let line = &mut self.free_at[usize::from(to_receiver)];
                let begin = at.max(*line);
                let full = rate.time_for(u64::from(self.sender.path().wire_bytes));
                if to_receiver && begin.since(at).as_ns().div_ceil(full.as_ns()) as usize > self.limit {
                    continue;
                }
                *line = begin + rate.time_for(u64::from(p.size));
                at = *line;
            }
            at += self.one_way;
            match fate {
                Fate::Lose => continue,
                Fate::Mark => {
                    assert_ne!(p.ecn, Ecn::NotEct, "only ECN-capable packets are marked");
                    p.ecn = Ecn::Ce;
                }
                Fate::Delay(d) => at += d,
                Fate::Pass => {}
            }
            self.order += 1;
            self.flying.push((at, self.order, to_receiver, p));
        }
    }

    /// Runs until `end` or until nothing more happens.
    fn run(&mut self, end: Time) -> &mut Pair {
        loop {
            let head = (0..self.flying.len()).min_by_key(|&i| (self.flying[i].0, self.flying[i].1));
            let arrival = head.map_or(Time::NEVER, |i| self.flying[i].0);
            if self.sender.deadline() != self.armed.0 {
                self.armed = (self.sender.deadline(), self.now);
            }
            let next = arrival.min(self.sender.deadline()).min(self.receiver.deadline());
            if next > end || next.is_never() {
                self.now = end;
                return self;
            }
            assert!(next >= self.now, "deadline {next} in the past of {}", self.now);
            self.idle_rounds = if next == self.now { self.idle_rounds + 1 } else { 0 };
            assert!(self.idle_rounds < 10_000, "stuck at {next}: {:?}", self.sender);
            self.now = next;
            self.timer_ran = None;
            if arrival == next {
                let (_, _, to_receiver, p) = self.flying.swap_remove(head.unwrap());
                if to_receiver {
                    self.receiver.on_packet(next, &p, &mut self.out);
                } else {
                    self.sender.on_packet(next, &p, &mut self.out);
                }
            } else if self.sender.deadline() == next {
                self.timer_ran = Some(next.since(self.armed.1));
                self.sender.on_deadline(next, &mut self.out);
            } else {
                self.receiver.on_deadline(next, &mut self.out);
            }
            self.sender.check();
            self.drain();
        }
    }

    fn run_for(&mut self, span: Span) -> &mut Pair {
        self.run(self.now + span)
    }

    /// Segment numbers as they left in `from..to` milliseconds.
    fn sent_between(&self, from_ms: f64, to_ms: f64, mss: u64) -> Vec<u64> {
        self.sent.iter().filter(|s| (from_ms..to_ms).contains(&s.0)).map(|s| (s.1 - 1) / mss).collect()
    }
}

/// A sender without a handshake, and its segment.
fn sender_alone(profile: &str) -> (Sender, u64) {
    let c = config(profile, |c| (c.connection.handshake, c.timers.retries) = (false, u32::MAX));
    (Sender::new(FlowId(0), 0, c.clone(), Streams::of(1, 0)), u64::from(c.mss()))
}

/// The ACK of all segments below `next` of `mss` bytes, with SACK blocks.
fn ack_of(next: u64, sacked: &[(u64, u64)], mss: u64) -> Packet {
    let seq = |segment: u64| Seq32::from_offset(1 + segment * mss);
    let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
    (p.flags, p.ack, p.window) = (TcpFlags::ACK, seq(next), 1 << 20);
    for &(from, to) in sacked {
        p.push_sack(SackBlock { start: seq(from), end: seq(to) });
    }
    p
}

/// After so many milliseconds.
fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

/// The data segments that left, by number.
fn segments_in(out: &mut Outputs, mss: u64) -> Vec<u64> {
    out.packets.drain(..).filter(|p| p.len > 0).map(|p| (u64::from(p.seq.0) - 1) / mss).collect()
}

const RTT: Span = Span::from_ms(100);
const ONE_WAY: Span = Span::from_ms(50);
