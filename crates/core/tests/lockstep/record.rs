//! The record of a path (evidence/lockstep/run.py says what its lines mean).

use std::collections::BTreeMap;
use std::fmt;

/// A connection's options.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub topic: String,
    pub seed: u64,
    values: BTreeMap<String, String>,
}

impl Head {
    pub(crate) fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or_else(|| panic!("{} {}: no {key}", self.topic, self.seed), String::as_str)
    }
    pub(crate) fn number(&self, key: &str) -> u64 {
        self.text(key).parse().unwrap_or_else(|_| panic!("{} {}: {key} is no number", self.topic, self.seed))
    }
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.number(key) == 1
    }
}

/// An ACK, in segments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ack {
    pub number: u64,
    /// Data packet whose timestamp it echoes, in the order of sending; `None`: the SYN.
    pub echo: Option<usize>,
    pub timestamp: u32,
    pub window: u64,
    pub blocks: Vec<(u64, u64)>,
    pub ece: bool,
}

/// Data to a receiver, in halves of a segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Data {
    pub start: u64,
    pub len: u64,
    pub push: bool,
    pub marked: bool,
    pub reduced: bool,
    /// Packet of the receiver whose timestamp it echoes, in the order of sending.
    pub echo: Option<usize>,
    pub timestamp: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Open,
    SynAck,
    Write(u64),
    Ack(Ack),
    /// The kernel sent by itself.
    Timer,
    /// The kernel's state had changed without anything sent.
    Silent,
    /// To a receiver.
    Syn {
        timestamp: u32,
    },
    HandshakeAck {
        timestamp: u32,
    },
    Data(Data),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Ack(ack) => {
                write!(f, "ACK {}", ack.number)?;
                if !ack.blocks.is_empty() {
                    write!(f, " SACK {:?}", ack.blocks)?;
                }
                if ack.window == 0 {
                    f.write_str(" no window")?;
                }
                if ack.ece { f.write_str(" ECE") } else { Ok(()) }
            }
            Event::Data(data) => {
                write!(f, "data {}+{}", data.start, data.len)?;
                for (is, word) in [(data.push, " PSH"), (data.marked, " CE"), (data.reduced, " CWR")] {
                    f.write_str(if is { word } else { "" })?;
                }
                Ok(())
            }
            Event::Open => f.write_str("connect"),
            Event::SynAck => f.write_str("SYN-ACK"),
            Event::Write(n) => write!(f, "write of {n}"),
            Event::Timer => f.write_str("timer"),
            Event::Silent => f.write_str("silent change"),
            Event::Syn { .. } => f.write_str("SYN"),
            Event::HandshakeAck { .. } => f.write_str("handshake's ACK"),
        }
    }
}

/// A step: an event, the segments sent after it, and TCP_INFO.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub at_us: u64,
    pub event: Event,
    pub sent: Vec<String>,
    /// That of the last ACK.
    pub window: u64,
    pub state: BTreeMap<char, u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub head: Head,
    pub steps: Vec<Step>,
}

pub(crate) fn paths(text: &str) -> Vec<Path> {
    let mut all: Vec<Path> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("path ") {
            all.push(Path { head: parse_head(head), steps: Vec::new() });
        } else {
            let path = all.last_mut().expect("a record begins with its path");
            let step = parse_step(line, path.steps.last(), &path.head);
            path.steps.push(step);
        }
    }
    all
}

fn parse_head(line: &str) -> Head {
    let mut words = line.split(' ');
    let topic = words.next().expect("a topic").to_owned();
    let seed = words.next().and_then(|s| s.parse().ok()).expect("a seed");
    let values = words.filter_map(|word| word.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    Head { topic, seed, values }
}

fn parse_step(line: &str, before: Option<&Step>, head: &Head) -> Step {
    let bad = || -> ! { panic!("{} {}: cannot read {line:?}", head.topic, head.seed) };
    let number = |text: &str| -> u64 { text.parse().unwrap_or_else(|_| bad()) };
    let mut words = line.split(' ');
    let kind = words.next().unwrap_or_else(|| bad());
    let at_us = before.map_or(0, |step| step.at_us) + words.next().map_or_else(|| bad(), number);
    let mut step = Step {
        at_us,
        event: Event::Timer,
        sent: Vec::new(),
        window: 0,
        state: before.map(|step| step.state.clone()).unwrap_or_default(),
    };
    // A window is told where it changes.
    let mut ack = Ack { window: before.map_or(0, |step| step.window), ..Ack::default() };
    let mut data = Data::default();
    let is_receiver = head.topic == "receiver";
    let mut amount = 0;
    for word in words {
        let Some(mark) = word.chars().next() else { continue };
        let rest = &word[mark.len_utf8()..];
        match mark {
            '>' => step.sent = rest.split(if is_receiver { '/' } else { ',' }).map(str::to_owned).collect(),
            '+' => data.len = number(rest),
            'p' => data.push = true,
            'm' => data.marked = true,
            'c' => data.reduced = true,
            '|' => read_state(rest, &mut step.state),
            'k' => ack.echo = rest.parse().ok(),
            't' => ack.timestamp = rest.parse().unwrap_or_else(|_| bad()),
            'w' => ack.window = number(rest),
            's' => {
                ack.blocks = rest
                    .split(',')
                    .map(|b| b.split_once('-').map_or_else(|| bad(), |(a, b)| (number(a), number(b))))
                    .collect();
            }
            'e' => ack.ece = true,
            _ => (ack.number, amount) = (number(word), number(word)),
        }
    }
    step.window = ack.window;
    step.event = match kind {
        "O" => Event::Open,
        "Y" if is_receiver => Event::Syn { timestamp: ack.timestamp },
        "H" => Event::HandshakeAck { timestamp: ack.timestamp },
        "D" => Event::Data(Data { start: amount, echo: ack.echo, timestamp: ack.timestamp, ..data }),
        "Y" => Event::SynAck,
        "W" => Event::Write(amount),
        "A" => Event::Ack(ack),
        "T" => Event::Timer,
        "S" => Event::Silent,
        _ => bad(),
    };
    step
}

fn read_state(text: &str, into: &mut BTreeMap<char, u64>) {
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let digits = &rest[letter.len_utf8()..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        into.insert(letter, digits[..end].parse().expect("a number after each letter"));
        rest = &digits[end..];
    }
}
