//! The kernel's recorded ACKs, given to airtcp's sender at the same times.
//!
//! The kernel's timers run by jiffies and a wheel of ever coarser steps. A timer that the record
//! shows has its turn here if its own time is within such a step. A timer within a step of another
//! event has its turn only if the record shows it.

use std::sync::Arc;

use airtcp_core::packet::{FlowId, Kind, Packet, SackBlock, TcpFlags};
use airtcp_core::rng::Streams;
use airtcp_core::tcp::cc::{CaState, CcConfig};
use airtcp_core::tcp::loss::LossConfig;
use airtcp_core::tcp::profile::profile;
use airtcp_core::tcp::{EcnEcho, Outputs, Recovery, SegmentsAtOnce, Sender, TcpConfig};
use airtcp_core::units::{Bytes, Seq32, Span, Time};

use super::compare::{Armed, Difference, EXACT_NOISE_US, Found, time};
use super::record::{Ack, Event, Head, Path, Step};

/// Relative, of rates and times that follow from measured round trips.
const RATE_TOLERANCE: f64 = 0.02;
/// `TCP_INFINITE_SSTHRESH`.
const NO_THRESHOLD: u64 = 0x7fff_ffff;

fn config(head: &Head) -> TcpConfig {
    let mut c = profile("linux-6").expect("a built-in profile").resolve().expect("it is complete");
    if head.text("cc") != "cubic" {
        c.cc = CcConfig::by_name(head.text("cc")).expect("a congestion control");
    }
    if !head.flag("sack") {
        c.loss_recovery.recovery = Recovery::NewReno;
        c.loss_recovery.loss = LossConfig::by_name("dup_thresh").expect("a loss policy");
    }
    c.timestamps.enabled = head.flag("ts");
    c.ecn.enabled = head.flag("ecn");
    c.ecn.echo = EcnEcho::Latched;
    if head.flag("by_one") {
        c.host_queue.segments_at_once = SegmentsAtOnce::Single;
    }
    c.cwnd.initial = u32::try_from(head.number("iw")).expect("a window");
    // `tcp_cwnd_restart` takes the route's, too.
    c.cwnd.restart_window = c.cwnd.initial;
    c.buffers.send = Bytes::new(4 << 20);
    assert_eq!(u64::from(c.mss()), head.number("mss"));
    c
}

struct Replay<'a> {
    head: &'a Head,
    sender: Sender,
    mss: u64,
    now: Time,
    out: Outputs,
    /// Timestamps of the SYN and of the data packets.
    syn_timestamp: u32,
    timestamps: Vec<u32>,
    /// Sent since the last step, as the record writes it.
    sent: Vec<String>,
    next: u64,
    armed: Armed,
    /// The control has a rate of its own, so that segments wait for a high-resolution timer.
    paces: bool,
}

impl<'a> Replay<'a> {
    fn new(head: &'a Head, draws: u64) -> Replay<'a> {
        let config = Arc::new(config(head));
        Replay {
            head,
            mss: head.number("mss"),
            sender: Sender::new(FlowId(0), 0, config, Streams::of(draws, 0)),
            now: Time::ZERO,
            out: Outputs::default(),
            syn_timestamp: 0,
            timestamps: Vec::new(),
            sent: Vec::new(),
            next: 0,
            armed: Armed::never(head.text("cc") == "bbr"),
            paces: head.text("cc") == "bbr",
        }
    }

    /// Takes what has been sent.
    fn drain(&mut self) {
        for p in std::mem::take(&mut self.out.packets) {
            if p.has(TcpFlags::SYN) {
                self.syn_timestamp = p.ts_val;
                self.sent.push("syn".to_owned());
            } else if p.len == 0 {
                let is_probe = u64::from(p.seq.0) < 1 + self.next;
                self.sent.push(if is_probe { "p" } else { "a" }.to_owned());
            } else {
                let offset = u64::from(p.seq.0) - 1;
                self.next = self.next.max(offset + u64::from(p.len));
                let reduced = if p.has(TcpFlags::CWR) { "w" } else { "" };
                if u64::from(p.len) == self.mss && offset % self.mss == 0 {
                    self.sent.push(format!("{}{reduced}", offset / self.mss));
                    self.timestamps.push(p.ts_val);
                } else {
                    self.sent.push(format!("odd{offset}+{}", p.len));
                }
            }
        }
        self.out.notices.clear();
        self.armed.note(self.sender.deadline(), self.now);
    }

    fn fire(&mut self, at: Time) {
        self.now = self.now.max(at);
        self.sender.on_deadline(self.now, &mut self.out);
        self.drain();
    }

    /// Lets the timers run that the kernel has had for certain by `at`; true if there were any. A
    /// pacing timer has its turn when the record shows it: one that is late sends nothing that an
    /// ACK before it would not.
    fn run_timers(&mut self, at: Time) -> bool {
        for n in 0..1000 {
            if !self.armed.is_over(at) || self.is_pacing() {
                return n > 0;
            }
            self.fire(self.armed.due);
        }
        panic!("{} {}: stuck at {:?}", self.head.topic, self.head.seed, self.armed);
    }

    /// The kernel's timer ran at `at`; whether one of ours was due.
    fn timer(&mut self, at: Time, expected: usize) -> bool {
        let mut any = false;
        for _ in 0..100 {
            if self.armed.due.is_never() || self.armed.due > at + self.armed.early() {
                return any;
            }
            any = true;
            self.fire(self.armed.due.max(at));
            if self.sent.len() >= expected {
                return true;
            }
        }
        any
    }

    /// The next timer is that of the pacing.
    fn is_pacing(&self) -> bool {
        self.paces && self.armed.due == self.sender.path().next_send_at
    }

    fn packet(&self) -> Packet {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        p.set_reverse();
        p
    }

    fn syn_ack(&mut self) {
        let mut p = self.packet();
        p.flags = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::when(self.head.flag("ecn"), TcpFlags::ECE);
        p.ack = Seq32(1);
        p.window = 65_535;
        if self.head.flag("ts") {
            (p.ts_val, p.ts_ecr) = (u32::try_from(self.now.as_ns() / 1_000_000).unwrap() + 1, self.syn_timestamp);
        }
        self.sender.on_packet(self.now, &p, &mut self.out);
        self.drain();
    }

    fn ack(&mut self, ack: &Ack) {
        let seq = |segment: u64| Seq32(u32::try_from(1 + segment * self.mss).expect("a short path"));
        let mut p = self.packet();
        p.flags = TcpFlags::ACK | TcpFlags::when(ack.ece, TcpFlags::ECE);
        (p.seq, p.ack) = (Seq32(1), seq(ack.number));
        p.window = u32::try_from(ack.window).expect("a window");
        if self.head.flag("ts") {
            let echo = ack.echo.map_or(self.syn_timestamp, |k| self.timestamps[k]);
            (p.ts_val, p.ts_ecr) = (ack.timestamp, echo);
        }
        for block in &ack.blocks {
            p.push_sack(SackBlock { start: seq(block.0), end: seq(block.1) });
        }
        self.sender.on_packet(self.now, &p, &mut self.out);
        self.drain();
    }

    /// When an ACK comes to the sender. If the pacing lets the next segment leave within a moment
    /// of the ACK, the record says which came first: what the kernel sent after the ACK was
    /// allowed by then, and what its timer sent soon after was not.
    fn arrival(&self, step: &Step, next: Option<&Step>) -> Time {
        let at = time(step.at_us);
        if !matches!(step.event, Event::Ack(_)) || !self.paces {
            return at;
        }
        let (allowed, moment) = (self.sender.path().next_send_at, Span::from_us(EXACT_NOISE_US));
        let soon = |next: &&Step| matches!(next.event, Event::Timer) && next.at_us <= step.at_us + EXACT_NOISE_US;
        if step.sent.is_empty() && allowed <= at && allowed + moment > at && next.filter(soon).is_some() {
            return Time::from_ns(allowed.as_ns() - 1);
        }
        if !step.sent.is_empty() && allowed > at && allowed <= at + moment { allowed } else { at }
    }

    /// Segments of a timer that the kernel's device showed with the next step.
    fn were_shown_later(&self, step: &Step, next: Option<&Step>) -> bool {
        matches!(step.event, Event::Silent) && next.is_some_and(|next| next.sent.starts_with(&self.sent))
    }

    fn step(&mut self, step: &Step, before: Option<&Step>, next: Option<&Step>) -> Option<Found> {
        let at = self.arrival(step, next);
        if !matches!(step.event, Event::Timer | Event::Silent) {
            self.run_timers(at);
            if !self.sent.is_empty() && !step.sent.starts_with(&self.sent) {
                return Some(("sent by a timer", String::new(), self.sent.join(",")));
            }
            self.now = self.now.max(at);
        }
        match &step.event {
            Event::Open => {
                self.now = at;
                self.sender.open(at, &mut self.out);
                self.drain();
            }
            Event::SynAck => self.syn_ack(),
            Event::Write(segments) => {
                self.sender.write(self.now, segments * self.mss, &mut self.out);
                self.drain();
            }
            Event::Ack(ack) => self.ack(ack),
            _ => {
                // A change without a packet shows no earlier than before the next event.
                let had_any = self.run_timers(at) && step.sent.is_empty();
                let expected = step.sent.len();
                if self.sent.is_empty() && !had_any && !self.timer(at, expected) {
                    let due = self.armed.due;
                    let due = if due.is_never() { "never".to_owned() } else { format!("{} us", due.as_ns() / 1000) };
                    return Some(("no timer is due", format!("{} at {} us", step.sent.join(","), step.at_us), due));
                }
            }
        }
        if self.were_shown_later(step, next) {
            return None;
        }
        let sent = std::mem::take(&mut self.sent);
        if sent != step.sent {
            return Some(("sent", step.sent.join(","), sent.join(",")));
        }
        if matches!(step.event, Event::Open) { None } else { self.compare(step, before) }
    }

    fn compare(&self, step: &Step, before: Option<&Step>) -> Option<Found> {
        let info = self.sender.info();
        let state = match info.state {
            CaState::Open => 0,
            CaState::Disorder => 1,
            CaState::Cwr => 2,
            CaState::Recovery => 3,
            CaState::Loss => 4,
        };
        let exact: [(char, &'static str, u64); 8] = [
            ('a', "ca_state", state),
            ('c', "cwnd", u64::from(info.cwnd)),
            ('h', "ssthresh", u64::from(info.ssthresh).min(NO_THRESHOLD)),
            ('u', "unacked", u64::from(info.unacked)),
            ('k', "sacked", u64::from(info.sacked)),
            ('l', "lost", u64::from(info.lost)),
            ('r', "retrans", u64::from(info.retransmissions_out)),
            ('o', "reordering", u64::from(info.reordering)),
        ];
        for (letter, name, ours) in exact {
            if step.state[&letter] != ours {
                return Some((name, step.state[&letter].to_string(), ours.to_string()));
            }
        }
        let rate = step.state[&'p'];
        // The kernel's is that of the last ACK which found something outstanding.
        let renews_rate = matches!(step.event, Event::Ack(_)) && before.is_some_and(|step| step.state[&'u'] > 0);
        if renews_rate && (rate as f64 - info.pacing_rate as f64).abs() > RATE_TOLERANCE * rate as f64 {
            return Some(("pacing rate", rate.to_string(), info.pacing_rate.to_string()));
        }
        None
    }
}

/// The phase in which BBR's gain cycle begins is random, and the kernel's draw is not in the
/// record: the path is the same if one of these draws makes it so. They have each of the seven
/// phases.
const DRAWS: std::ops::RangeInclusive<u64> = 1..=40;

pub(crate) fn first_difference(path: &Path, ignored: &[String]) -> Option<Difference> {
    let first = first_difference_with(path, ignored, *DRAWS.start())?;
    if path.head.text("cc") != "bbr" {
        return Some(first);
    }
    let mut furthest = first;
    for draws in DRAWS.skip(1) {
        let other = first_difference_with(path, ignored, draws)?;
        furthest = if other.step > furthest.step { other } else { furthest };
    }
    Some(furthest)
}

fn first_difference_with(path: &Path, ignored: &[String], draws: u64) -> Option<Difference> {
    let mut replay = Replay::new(&path.head, draws);
    for (i, step) in path.steps.iter().enumerate() {
        if step.sent.iter().any(|sent| sent.starts_with("odd")) {
            return None;
        }
        let found = replay
            .step(step, i.checked_sub(1).map(|i| &path.steps[i]), path.steps.get(i + 1))
            .filter(|found| !ignored.iter().any(|field| field == found.0));
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
