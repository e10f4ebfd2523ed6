//! A path on which the kernel receives: seeded segments go to it at seeded times, its application
//! reads at once, and the ACKs are written down.

use std::fmt::Write;

use crate::kernel::{self, Socket};
use crate::plan::Topic;
use crate::rng::Rng;
use crate::wire::{self, Tcp};

/// Where the kernel listens.
pub const PORT: u16 = 900;
const SCALE: u8 = 10;
/// Segments that may lie between what the receiver waits for and the newest.
const MOST_AHEAD: u64 = 36;
/// After the last arrival the path is watched so long: every delayed ACK has left by then.
const AFTERWARDS_US: u64 = 350_000;

/// Data that arrives, in halves of a segment.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at_us: u64,
    start: u64,
    len: u64,
    push: bool,
    marked: bool,
    reduced: bool,
}

pub enum Due {
    Syn,
    HandshakeAck,
    Data(usize),
    End,
}

pub struct Receiving {
    sack: bool,
    timestamps: bool,
    ecn: bool,
    rtt_us: u64,
    arrivals: Vec<Arrival>,
    peer: ([u8; 4], u16),
    base_us: u64,
    isn: u32,
    scale: u8,
    /// When each of the kernel's packets left, and its timestamp.
    packets: Vec<(u64, u32)>,
    socket: Option<Socket>,
    sent: Vec<String>,
    pub record: String,
    last_us: u64,
    pub over: bool,
}

impl Receiving {
    pub fn open(seed: u64, port: u16, wheel_us: u64, later: &mut Vec<(u64, Due)>) -> Receiving {
        let r = &mut Rng::new(seed, &[Topic::Receiver as u64]);
        let (sack, timestamps, ecn) = (r.chance(85), r.chance(85), r.chance(25));
        let rtt_us = r.range(4_000, 160_000);
        let arrivals = arrivals(r, rtt_us, ecn);
        let now = kernel::now_us();
        let base_us = kernel::wheel_begins_us(wheel_us, now);
        let flag = |on: bool| u8::from(on);
        later.push((now + 1, Due::Syn));
        let mut path = Receiving {
            sack,
            timestamps,
            ecn,
            rtt_us,
            arrivals,
            peer: ([10, kernel::BY_ONE, 10, 2], port),
            base_us,
            isn: 0,
            scale: 0,
            packets: Vec::new(),
            socket: None,
            sent: Vec::new(),
            record: String::new(),
            last_us: base_us,
            over: false,
        };
        path.record = format!(
            "path receiver {seed} cc=none sack={} ts={} ecn={} mss={}\n",
            flag(sack),
            flag(timestamps),
            flag(ecn),
            path.mss()
        );
        path
    }

    fn mss(&self) -> u32 {
        if self.timestamps { 1448 } else { 1460 }
    }

    fn half(&self) -> u32 {
        self.mss() / 2
    }

    fn clock(&self, at_us: u64) -> u32 {
        ((at_us - self.base_us) / 1000) as u32 + 1
    }

    pub fn on_sent(&mut self, at_us: u64, p: &Tcp) {
        self.packets.push((at_us, p.timestamps.map_or(0, |t| t.0)));
        if p.flags & wire::SYN != 0 {
            self.isn = p.seq;
            self.scale = p.wscale.unwrap_or(0);
            self.sent.push(format!("syn:w{}", p.window));
            return;
        }
        let half = self.half();
        let place =
            |seq: u32| if (seq - 1) % half == 0 { ((seq - 1) / half).to_string() } else { format!("b{}", seq - 1) };
        let mut said = place(p.ack);
        if !p.sack.is_empty() {
            let blocks: Vec<String> = p.sack.iter().map(|b| format!("{}-{}", place(b.0), place(b.1))).collect();
            let _ = write!(said, ":s{}", blocks.join(","));
        }
        let _ = write!(said, ":w{}", u64::from(p.window) << self.scale);
        if let Some((_, echo)) = p.timestamps {
            let _ = write!(said, ":t{echo}");
        }
        if p.flags & wire::ECE != 0 {
            said.push_str(":e");
        }
        self.sent.push(said);
    }

    pub fn on_due(
        &mut self,
        now_us: u64,
        due: &Due,
        later: &mut Vec<(u64, Due)>,
    ) -> Option<(Vec<u8>, &'static str, String)> {
        let blank = Tcp { from: self.peer, to: (kernel::HERE, PORT), ..Tcp::default() };
        let clock = self.clock(now_us);
        match due {
            Due::Syn => {
                later.push((now_us + self.rtt_us, Due::HandshakeAck));
                let flags = wire::SYN | if self.ecn { wire::ECE | wire::CWR } else { 0 };
                let packet = Tcp {
                    flags,
                    window: 65_535,
                    mss: Some(1460),
                    wscale: Some(SCALE),
                    sack_permitted: self.sack,
                    timestamps: self.timestamps.then_some((clock, 0)),
                    ..blank
                };
                Some((wire::build(&packet), "Y", format!(" t{clock}")))
            }
            Due::HandshakeAck => {
                let begin = now_us + 200;
                later.extend(self.arrivals.iter().enumerate().map(|(i, a)| (begin + a.at_us, Due::Data(i))));
                let last = self.arrivals.iter().map(|a| a.at_us).max().unwrap_or(0);
                later.push((begin + last + AFTERWARDS_US, Due::End));
                let packet = Tcp {
                    seq: 1,
                    ack: self.isn.wrapping_add(1),
                    flags: wire::ACK,
                    window: 1000,
                    timestamps: self.timestamps.then_some((clock, self.packets[0].1)),
                    ..blank
                };
                Some((wire::build(&packet), "H", format!(" k0 t{clock}")))
            }
            Due::Data(i) => {
                let a = self.arrivals[*i];
                let known = self.packets.iter().rposition(|p| p.0 + self.rtt_us <= now_us).unwrap_or(0);
                let half = self.half();
                let packet = Tcp {
                    seq: 1 + a.start as u32 * half,
                    ack: self.isn.wrapping_add(1),
                    flags: wire::ACK | if a.push { wire::PSH } else { 0 } | if a.reduced { wire::CWR } else { 0 },
                    window: 1000,
                    ecn: if a.marked {
                        3
                    } else if self.ecn {
                        2
                    } else {
                        0
                    },
                    timestamps: self.timestamps.then_some((clock, self.packets[known].1)),
                    payload: (a.len as u32 * half) as usize,
                    ..blank
                };
                let mut said = format!(" {} +{} k{known} t{clock}", a.start, a.len);
                for (is, letter) in [(a.push, " p"), (a.marked, " m"), (a.reduced, " c")] {
                    if is {
                        said.push_str(letter);
                    }
                }
                Some((wire::build(&packet), "D", said))
            }
            Due::End => {
                self.over = true;
                None
            }
        }
    }

    /// After something has been given: the application takes what there is.
    pub fn read(&mut self, listener: &Socket, into: &mut [u8]) -> Result<(), String> {
        if self.socket.is_none() {
            self.socket = listener.accept();
            if let Some(socket) = &self.socket {
                socket.never_lingers()?;
            }
        }
        if let Some(socket) = &self.socket {
            socket.read_all(into);
        }
        Ok(())
    }

    pub fn note(&mut self, kind: &str, at_us: u64, said: &str) {
        let _ = write!(self.record, "{kind} {}{said}", at_us - self.last_us.min(at_us));
        self.last_us = at_us;
        if !self.sent.is_empty() {
            let _ = write!(self.record, " >{}", self.sent.join("/"));
            self.sent.clear();
        }
        self.record.push('\n');
    }
}

/// Flights of a sender that loses, reorders and repeats.
fn arrivals(r: &mut Rng, rtt_us: u64, ecn: bool) -> Vec<Arrival> {
    let loss = r.pick(&[0, 3, 10, 20]);
    let late = r.pick(&[0, 0, 3, 10]);
    let twice = r.pick(&[0, 0, 3, 10]);
    let odd = r.pick(&[0, 0, 5]);
    let slot = r.pick(&[150, 600, 1500, 3000]);
    let most = r.pick(&[3, 10, 10, 20]);
    let pushes = r.pick(&[0, 0, 10, 100]);
    let mark = if ecn { r.pick(&[5, 20, 60]) } else { 0 };
    let number = r.range(30, 90) as usize;
    let mut all: Vec<Arrival> = Vec::new();
    let (mut next, mut begin) = (0, 0);
    let mut missing: Vec<(u64, u64)> = Vec::new();
    while all.len() < number {
        let mut flight: Vec<(u64, u64)> = Vec::new();
        for (start, len) in std::mem::take(&mut missing) {
            // A repetition is sometimes larger than what was lost.
            let more = r.chance(odd * 4);
            flight.push(if more && start > 0 { (start - 1, 2) } else { (start, len) });
            if more && len > 1 {
                flight.push((start + 1, len - 1));
            }
        }
        let first = flight.iter().map(|f| f.0).min().unwrap_or(next);
        for _ in 0..r.range(1, most) {
            let len = if r.chance(odd) { 1 } else { 2 };
            if next + len - first > 2 * MOST_AHEAD {
                break;
            }
            flight.push((next, len));
            next += len;
        }
        let last = flight.len() - 1;
        let mut at = begin;
        for (i, &(start, len)) in flight.iter().enumerate() {
            at += slot * r.range(80, 120) / 100;
            if r.chance(loss) {
                missing.push((start, len));
                continue;
            }
            let delay = if r.chance(late) { r.range(1, 8) * slot + 70 } else { 0 };
            let push = i == last || r.chance(pushes);
            let arrival =
                Arrival { at_us: at + delay, start, len, push, marked: r.chance(mark), reduced: ecn && r.chance(8) };
            all.push(arrival);
            if r.chance(twice) {
                let again = at + delay + r.range(1, 6) * slot + 30;
                all.push(Arrival { at_us: again, ..arrival });
            }
        }
        begin = at.max(begin + rtt_us) + r.pick(&[0, 0, 0, 10_000, 60_000, 300_000]) + r.range(0, 5_000);
    }
    all.sort_by_key(|a| a.at_us);
    all
}
