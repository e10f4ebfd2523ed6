//! The recorded data, given to airtcp's receiver at the same times, and its ACKs.

use std::fmt::Write;
use std::sync::Arc;

use airtcp_core::packet::{Ecn, FlowId, Kind, Packet, TcpFlags};
use airtcp_core::tcp::profile::profile;
use airtcp_core::tcp::{EcnEcho, Outputs, Receiver, Recovery, TcpConfig};
use airtcp_core::units::{Seq32, Time};

use super::compare::{Armed, Difference, Found, time};
use super::record::{Data, Event, Head, Path, Step};

fn config(head: &Head) -> TcpConfig {
    let mut c = profile("linux-6").expect("a built-in profile").resolve().expect("it is complete");
    if !head.flag("sack") {
        c.loss_recovery.recovery = Recovery::NewReno;
    }
    c.timestamps.enabled = head.flag("ts");
    c.ecn.enabled = head.flag("ecn");
    c.ecn.echo = EcnEcho::Latched;
    assert_eq!(u64::from(c.mss()), head.number("mss"));
    c
}

/// By the window scale that follows from 32 MiB of tcp_rmem.
const WINDOW_UNIT: u32 = 1024;

struct Replay<'a> {
    head: &'a Head,
    receiver: Receiver,
    half: u32,
    now: Time,
    out: Outputs,
    /// Timestamps of what it has sent.
    timestamps: Vec<u32>,
    sent: Vec<String>,
    armed: Armed,
}

impl<'a> Replay<'a> {
    fn new(head: &'a Head) -> Replay<'a> {
        Replay {
            head,
            receiver: Receiver::new(FlowId(0), 0, Arc::new(config(head))),
            half: u32::try_from(head.number("mss") / 2).expect("a small number"),
            now: Time::ZERO,
            out: Outputs::default(),
            timestamps: Vec::new(),
            sent: Vec::new(),
            armed: Armed::never(true),
        }
    }

    fn place(&self, seq: Seq32) -> String {
        let offset = seq.0.wrapping_sub(1);
        if offset % self.half == 0 { (offset / self.half).to_string() } else { format!("b{offset}") }
    }

    fn drain(&mut self) {
        for p in std::mem::take(&mut self.out.packets) {
            self.timestamps.push(p.ts_val);
            if p.has(TcpFlags::SYN) {
                self.sent.push(format!("syn:w{}", p.window));
                continue;
            }
            let mut said = self.place(p.ack);
            let blocks: Vec<String> =
                p.sack().iter().map(|b| format!("{}-{}", self.place(b.start), self.place(b.end))).collect();
            if !blocks.is_empty() {
                let _ = write!(said, ":s{}", blocks.join(","));
            }
            // The kernel's is in units of its scale, rounded up (`__tcp_select_window`).
            let _ = write!(said, ":w{}", p.window.next_multiple_of(WINDOW_UNIT));
            if self.head.flag("ts") {
                let _ = write!(said, ":t{}", p.ts_ecr);
            }
            if p.has(TcpFlags::ECE) {
                said.push_str(":e");
            }
            self.sent.push(said);
        }
        self.out.notices.clear();
        self.armed.note(self.receiver.deadline(), self.now);
    }

    fn fire(&mut self, at: Time) {
        self.now = self.now.max(at);
        self.receiver.on_deadline(self.now, &mut self.out);
        self.drain();
    }

    fn packet(&self) -> Packet {
        Packet::new(FlowId(0), Kind::Tcp, 0)
    }

    fn give(&mut self, p: &Packet) {
        self.receiver.on_packet(self.now, p, &mut self.out);
        self.drain();
    }

    fn data(&mut self, data: &Data) {
        let mut p = self.packet();
        let flags = TcpFlags::when(data.push, TcpFlags::PSH) | TcpFlags::when(data.reduced, TcpFlags::CWR);
        p.flags = TcpFlags::ACK | flags;
        (p.seq, p.ack) = (Seq32(1 + u32::try_from(data.start).expect("a short path") * self.half), Seq32(1));
        p.len = u16::try_from(data.len * u64::from(self.half)).expect("a segment");
        p.size = p.len + if self.head.flag("ts") { 52 } else { 40 };
        p.window = 1000 << 10;
        p.ecn = match (data.marked, self.head.flag("ecn")) {
            (true, _) => Ecn::Ce,
            (false, true) => Ecn::Ect0,
            (false, false) => Ecn::NotEct,
        };
        if self.head.flag("ts") {
            (p.ts_val, p.ts_ecr) = (data.timestamp, self.timestamps[data.echo.unwrap_or(0)]);
        }
        self.give(&p);
    }

    fn step(&mut self, step: &Step) -> Option<Found> {
        let at = time(step.at_us);
        while self.armed.is_over(at) {
            self.fire(self.armed.due);
            if !self.sent.is_empty() {
                return Some(("sent by a timer", String::new(), self.sent.join("/")));
            }
        }
        if matches!(step.event, Event::Timer) {
            if self.armed.due.is_never() || self.armed.due > at + self.armed.early() {
                let due = if self.armed.due.is_never() { "never".to_owned() } else { self.armed.due.to_string() };
                return Some(("no timer is due", format!("{} at {} us", step.sent.join("/"), step.at_us), due));
            }
            self.fire(self.armed.due.max(at));
        } else {
            self.now = self.now.max(at);
        }
        match &step.event {
            Event::Syn { timestamp } => {
                let mut p = self.packet();
                p.flags = TcpFlags::SYN;
                if self.head.flag("ecn") {
                    p.flags |= TcpFlags::ECE | TcpFlags::CWR;
                }
                p.window = 65_535;
                if self.head.flag("ts") {
                    p.ts_val = *timestamp;
                }
                self.give(&p);
            }
            Event::HandshakeAck { timestamp } => {
                let mut p = self.packet();
                p.flags = TcpFlags::ACK;
                (p.seq, p.ack) = (Seq32(1), Seq32(1));
                p.window = 1000 << 10;
                if self.head.flag("ts") {
                    (p.ts_val, p.ts_ecr) = (*timestamp, self.timestamps[0]);
                }
                self.give(&p);
            }
            Event::Data(data) => self.data(data),
            _ => {}
        }
        let sent = std::mem::take(&mut self.sent);
        if sent == step.sent {
            return None;
        }
        let without = |said: &[String], letter: &str| -> Vec<String> {
            let keeps = |part: &&str| !part.starts_with(letter);
            said.iter().map(|ack| ack.split(':').filter(keeps).collect::<Vec<_>>().join(":")).collect()
        };
        let told = (step.sent.join("/"), sent.join("/"));
        let (theirs, ours) = (without(&step.sent, "w"), without(&sent, "w"));
        let field = if theirs == ours {
            if fills_hole(step) || same_windows(&step.sent, &sent) {
                return None;
            }
            "window"
        } else if without(&theirs, "t") == without(&ours, "t") {
            "echo"
        } else if theirs.len() != ours.len() {
            "ACKs sent"
        } else {
            "ACK's contents"
        };
        Some((field, told.0, told.1))
    }
}

/// The ACK covers more than what came. The kernel sends it before the application reads that, and
/// its window is smaller by it; here reading takes no time.
fn fills_hole(step: &Step) -> bool {
    let Event::Data(data) = &step.event else { return false };
    let covered = |said: &String| said.split(':').next().and_then(|number| number.parse::<u64>().ok());
    step.sent.iter().filter_map(covered).any(|number| number > data.start + data.len)
}

/// Windows are the same within one unit: ours are not rounded when they are granted.
fn same_windows(theirs: &[String], ours: &[String]) -> bool {
    let window = |said: &str| -> u32 {
        said.split(':').find_map(|part| part.strip_prefix('w')?.parse().ok()).expect("every ACK has a window")
    };
    theirs.iter().zip(ours).all(|(a, b)| window(a).abs_diff(window(b)) <= WINDOW_UNIT)
}

pub(crate) fn first_difference(path: &Path, ignored: &[String]) -> Option<Difference> {
    let mut replay = Replay::new(&path.head);
    for (i, step) in path.steps.iter().enumerate() {
        let found = replay.step(step).filter(|found| !ignored.iter().any(|field| field == found.0));
        if let Some((field, linux, airtcp)) = found {
            return Some(Difference {
                step: i,
                at_us: step.at_us,
                event: step.event.to_string(),
                field,
                linux,
                airtcp,
            });
        }
    }
    None
}
