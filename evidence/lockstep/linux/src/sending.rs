//! A path on which the kernel sends: the model receiver's answers go to it, and what it does after
//! each is written down.

use std::fmt::Write;

use crate::kernel::{self, FIELDS, Socket, State};
use crate::plan::Plan;
use crate::receiver::{Receiver, Said};
use crate::wire::{self, Tcp};

/// When a path ends that does not end by itself, after its beginning.
const LONGEST_US: u64 = 15_000_000;
/// Fields without which nothing has changed: the first eight of [`FIELDS`].
const COUNTS: usize = 8;
const SYN_WINDOW: u16 = 65_535;
const SCALE: u8 = 10;

/// To happen at a path.
pub enum Due {
    SynAck,
    Write(u64),
    Arrival { segment: u64, packet: usize, marked: bool, reduced: bool },
    Probe,
    DelayedAck(u64),
    Ack { said: Said, made_us: u64 },
}

pub struct Sending {
    pub plan: Plan,
    socket: Socket,
    peer: ([u8; 4], u16),
    here: ([u8; 4], u16),
    /// The record's time 0: when the steps of the kernel's timer wheel begin.
    base_us: u64,
    begun_us: u64,
    established_us: u64,
    isn: u32,
    syn_timestamp: u32,
    receiver: Receiver,
    delayed: u64,
    /// Transmissions by segment.
    transmissions: Vec<u64>,
    /// Timestamps of the data packets.
    packets: Vec<u32>,
    line_free_us: u64,
    acks_made: u64,
    acks_given: u64,
    /// Segments cumulatively acknowledged by what was given, and those written.
    acked: u64,
    written: u64,
    sent: Vec<String>,
    /// That of the last ACK, as the header has it.
    window: u64,
    pub record: String,
    last_us: u64,
    state: State,
    pub over: bool,
}

impl Sending {
    pub fn open(plan: Plan, port: u16, wheel_us: u64) -> Result<Sending, String> {
        let second = if plan.by_one { kernel::BY_ONE } else { kernel::IN_UNITS };
        let peer = ([10, second, plan.initial_window as u8, 1], port);
        let here = (kernel::HERE, port);
        let socket = Socket::new()?;
        socket.congestion_control(plan.cc)?;
        socket.large_send_buffer()?;
        socket.never_lingers()?;
        socket.bind(here.0, here.1)?;
        let begun_us = kernel::now_us();
        let base_us = kernel::wheel_begins_us(wheel_us, begun_us);
        let mut path = Sending {
            socket,
            peer,
            here,
            base_us,
            begun_us,
            established_us: 0,
            isn: 0,
            syn_timestamp: 0,
            receiver: Receiver::default(),
            delayed: 0,
            transmissions: Vec::new(),
            packets: Vec::new(),
            line_free_us: 0,
            acks_made: 0,
            acks_given: 0,
            acked: 0,
            written: 0,
            sent: Vec::new(),
            window: 0,
            record: String::new(),
            last_us: base_us,
            state: [0; FIELDS.len()],
            over: false,
            plan,
        };
        let flag = |on: bool| u8::from(on);
        let p = &path.plan;
        path.record = format!(
            "path {} {} cc={} sack={} dsack={} ts={} ecn={} by_one={} iw={} mss={}\n",
            p.topic.name(),
            p.seed,
            p.cc,
            flag(p.sack),
            flag(p.dsack),
            flag(p.timestamps),
            flag(p.ecn),
            flag(p.by_one),
            p.initial_window,
            path.mss(),
        );
        path.socket.connect(peer.0, peer.1)?;
        path.state = path.socket.info()?;
        Ok(path)
    }

    fn mss(&self) -> u32 {
        if self.plan.timestamps { 1448 } else { 1460 }
    }

    /// The kernel has sent a packet; what follows, and when.
    pub fn on_sent(&mut self, at_us: u64, p: &Tcp, due: &mut Vec<(u64, Due)>) {
        if p.flags & wire::SYN != 0 {
            (self.isn, self.syn_timestamp) = (p.seq, p.timestamps.map_or(0, |t| t.0));
            self.sent.push("syn".to_owned());
            due.push((at_us + self.plan.to_receiver_us + self.plan.to_sender_us, Due::SynAck));
            return;
        }
        let offset = p.seq.wrapping_sub(self.isn).wrapping_sub(1);
        if p.payload == 0 {
            let next = self.transmissions.len() as u32 * self.mss();
            let is_probe = offset.wrapping_add(1) <= next && offset != next;
            self.sent.push(if is_probe { "p" } else { "a" }.to_owned());
            if is_probe && !self.plan.ack_fate(u64::MAX, at_us - self.established_us).lost {
                due.push((at_us + self.plan.to_receiver_us, Due::Probe));
            }
            return;
        }
        if offset % self.mss() != 0 || p.payload as u32 != self.mss() {
            self.sent.push(format!("odd{offset}+{}", p.payload));
            self.over = true;
            return;
        }
        let segment = u64::from(offset / self.mss());
        if self.transmissions.len() as u64 <= segment {
            self.transmissions.resize(segment as usize + 1, 0);
        }
        let nth = self.transmissions[segment as usize];
        self.transmissions[segment as usize] += 1;
        let packet = self.packets.len();
        self.packets.push(p.timestamps.map_or(0, |t| t.0));
        let reduced = p.flags & wire::CWR != 0;
        self.sent.push(format!("{segment}{}", if reduced { "w" } else { "" }));
        self.line_free_us = self.line_free_us.max(at_us) + self.plan.slot(packet as u64);
        let fate = self.plan.fate(segment, nth, at_us - self.established_us);
        if !fate.lost {
            let marked = fate.marked && p.ecn != 0;
            let arrival = self.line_free_us + self.plan.to_receiver_us + fate.late_us;
            due.push((arrival, Due::Arrival { segment, packet, marked, reduced }));
            if let Some(again) = fate.again_us {
                due.push((arrival + again, Due::Arrival { segment, packet, marked, reduced }));
            }
        }
    }

    /// Segments that the kernel sent by itself are complete.
    pub fn on_quiet(&mut self, at_us: u64) -> Result<(), String> {
        let kind = if self.record.lines().count() == 1 { "O" } else { "T" };
        self.note(kind, at_us, "")
    }

    /// Something is due: what is to be given to the kernel.
    pub fn on_due(&mut self, now_us: u64, due: Due, later: &mut Vec<(u64, Due)>) -> Option<(Vec<u8>, Given)> {
        match due {
            Due::SynAck => {
                let packet = Tcp {
                    seq: 0,
                    ack: self.isn.wrapping_add(1),
                    flags: wire::SYN | wire::ACK | if self.plan.ecn { wire::ECE } else { 0 },
                    window: SYN_WINDOW,
                    mss: Some(1460),
                    wscale: Some(SCALE),
                    sack_permitted: self.plan.sack,
                    timestamps: self.plan.timestamps.then_some((self.clock(now_us), self.syn_timestamp)),
                    ..self.blank()
                };
                self.established_us = now_us;
                later.extend(self.plan.writes.iter().map(|&(at, n)| (now_us + at + 1, Due::Write(n))));
                Some((wire::build(&packet), Given { kind: "Y", said: String::new() }))
            }
            Due::Write(_) => None,
            Due::Probe => self.answer(now_us, later),
            Due::Arrival { segment, packet, marked, reduced } => {
                if self.receiver.on_segment(&self.plan, segment, packet, marked, reduced) {
                    return self.answer(now_us, later);
                }
                self.delayed += 1;
                later.push((now_us + self.plan.ack_delay_us, Due::DelayedAck(self.delayed)));
                None
            }
            Due::DelayedAck(of) => {
                if of == self.delayed && self.receiver.must_acknowledge() {
                    self.answer(now_us, later)
                } else {
                    None
                }
            }
            Due::Ack { said, made_us } => {
                let clock = self.clock(made_us);
                let seq = |segment: u64| self.isn.wrapping_add(1).wrapping_add(segment as u32 * self.mss());
                let echo = said.echo.map_or(self.syn_timestamp, |k| self.packets[k]);
                let window = (said.window * u64::from(self.mss())).div_ceil(1 << SCALE).min(65_535);
                let packet = Tcp {
                    seq: 1,
                    ack: seq(said.ack),
                    flags: wire::ACK | if said.ece { wire::ECE } else { 0 },
                    window: window as u16,
                    timestamps: self.plan.timestamps.then_some((clock, echo)),
                    sack: said.blocks.iter().map(|b| (seq(b.0), seq(b.1))).collect(),
                    ..self.blank()
                };
                let mut text = format!(" {}", said.ack);
                let _ = write!(text, " k{} t{clock}", said.echo.map_or(-1, |k| k as i64));
                if window != self.window {
                    let _ = write!(text, " w{}", window << SCALE);
                    self.window = window;
                }
                if !said.blocks.is_empty() {
                    let blocks: Vec<String> = said.blocks.iter().map(|b| format!("{}-{}", b.0, b.1)).collect();
                    let _ = write!(text, " s{}", blocks.join(","));
                }
                if said.ece {
                    text.push_str(" e");
                }
                self.acked = self.acked.max(said.ack);
                self.acks_given += 1;
                Some((wire::build(&packet), Given { kind: "A", said: text }))
            }
        }
    }

    /// The receiver acknowledges; the ACK is on its way, or lost.
    fn answer(&mut self, now_us: u64, later: &mut Vec<(u64, Due)>) -> Option<(Vec<u8>, Given)> {
        self.delayed += 1;
        let said = self.receiver.acknowledge(&self.plan);
        let nth = self.acks_made;
        self.acks_made += 1;
        let fate = self.plan.ack_fate(nth, now_us - self.established_us);
        if fate.lost {
            return None;
        }
        let at = now_us + self.plan.to_sender_us + fate.late_us;
        later.push((at, Due::Ack { said: said.clone(), made_us: now_us }));
        if let Some(again) = fate.again_us {
            later.push((at + again, Due::Ack { said, made_us: now_us }));
        }
        None
    }

    fn blank(&self) -> Tcp {
        Tcp { from: self.peer, to: self.here, ..Tcp::default() }
    }

    /// The peer's timestamps: milliseconds from 1 on.
    fn clock(&self, at_us: u64) -> u32 {
        ((at_us - self.base_us) / 1000) as u32 + 1
    }

    /// Nothing more comes of it.
    pub fn is_late(&self, now_us: u64) -> bool {
        now_us > self.begun_us + LONGEST_US
    }

    /// Before something is given: what has changed without anything sent.
    pub fn look(&mut self, now_us: u64) -> Result<(), String> {
        let state = self.socket.info()?;
        if state[..COUNTS] != self.state[..COUNTS] {
            return self.note("S", now_us, "");
        }
        Ok(())
    }

    pub fn write(&mut self, now_us: u64, segments: u64) -> Result<Given, String> {
        self.look(now_us)?;
        self.socket.send(segments as usize * self.mss() as usize)?;
        self.written += segments;
        Ok(Given { kind: "W", said: format!(" {segments}") })
    }

    /// One line of the record: what was given, what was sent, what has changed.
    pub fn note(&mut self, kind: &str, at_us: u64, said: &str) -> Result<(), String> {
        let state = self.socket.info()?;
        let _ = write!(self.record, "{kind} {}{said}", at_us - self.last_us.min(at_us));
        self.last_us = at_us;
        if !self.sent.is_empty() {
            let _ = write!(self.record, " >{}", self.sent.join(","));
            self.sent.clear();
        }
        let changed: Vec<usize> = (0..FIELDS.len()).filter(|&i| state[i] != self.state[i] || kind == "O").collect();
        if !changed.is_empty() {
            self.record.push_str(" |");
            for i in changed {
                let _ = write!(self.record, "{}{}", FIELDS[i].0, state[i]);
            }
        }
        self.state = state;
        self.record.push('\n');
        let all = self.written > 0
            && self.acked >= self.plan.writes.iter().map(|w| w.1).sum::<u64>()
            && self.written >= self.acked;
        self.over |= all || self.acks_given >= self.plan.most_acks || at_us > self.begun_us + LONGEST_US;
        Ok(())
    }
}

/// Input given to the kernel, for its line of the record.
pub struct Given {
    pub kind: &'static str,
    pub said: String,
}
