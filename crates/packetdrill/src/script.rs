//! A script as the parser hands it over.

use std::collections::BTreeMap;

/// A parsed script.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// `--name=value` at the beginning.
    pub options: Vec<(String, Option<String>)>,
    /// Shell commands before the first event, between backticks.
    pub init: Option<(u32, String)>,
    /// In the order of the file.
    pub events: Vec<Event>,
}

impl Script {
    /// Values of `--define=NAME=value`.
    pub fn definitions(&self) -> BTreeMap<&str, &str> {
        let values = self.options.iter().filter(|(name, _)| name == "define");
        values.filter_map(|(_, value)| value.as_deref()?.split_once('=')).collect()
    }
}

/// Something that happens, or is to happen, at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Line of the file, from 1.
    pub line: u32,
    /// When.
    pub when: When,
    /// The event itself.
    pub action: Action,
}

/// Time of an event, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Since the script began.
    Absolute(u64),
    /// Between two such times.
    AbsoluteRange(u64, u64),
    /// After the event before.
    Relative(u64),
    /// Between two such times.
    RelativeRange(u64, u64),
    /// Whenever.
    Any,
}

/// A kind of event.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A segment arrives.
    Inbound(Segment),
    /// A segment is to leave.
    Outbound(Segment),
    /// A packet that is no TCP segment; its first word.
    Other(String),
    /// A system call.
    Call(Call),
    /// Shell commands.
    Command(String),
    /// Python.
    Code(String),
}

/// ECN field of the IP header, as a script states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpEcn {
    /// `noecn`
    NotEct,
    /// `ect0`
    Ect0,
    /// `ect1`
    Ect1,
    /// `ce`
    Ce,
    /// `ect01`: either of the two.
    Ect01,
}

/// A TCP segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// In brackets before the flags.
    pub ecn: Option<IpEcn>,
    /// Anything else that is said there (`tos`, `ttl`, `flowlabel`).
    pub ip_note: Option<String>,
    /// Flags.
    pub flags: Flags,
    /// Sequence number.
    pub seq: u32,
    /// Payload bytes.
    pub len: u16,
    /// Acknowledgement number; zero where there is none.
    pub ack: u32,
    /// Window field.
    pub window: Option<u16>,
    /// Urgent pointer.
    pub urgent: bool,
    /// Options; `None`: `<...>`, any.
    pub options: Option<Vec<Opt>>,
}

/// Flags of a TCP header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the flags' own names
#[allow(clippy::struct_excessive_bools)]
pub struct Flags {
    pub fin: bool,
    pub syn: bool,
    pub rst: bool,
    pub psh: bool,
    pub ack: bool,
    pub urg: bool,
    pub ece: bool,
    pub cwr: bool,
    pub ae: bool,
    /// Written as a digit: the field ACE in place of its three flags.
    pub ace: Option<u8>,
}

impl Flags {
    /// The three flags as a number.
    pub fn ace_field(&self) -> u8 {
        self.ace.unwrap_or(u8::from(self.ae) << 2 | u8::from(self.cwr) << 1 | u8::from(self.ece))
    }

    /// As scripts write them.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let letters = [
            (self.fin, 'F'),
            (self.syn, 'S'),
            (self.rst, 'R'),
            (self.psh, 'P'),
            (self.ece && self.ace.is_none(), 'E'),
            (self.cwr && self.ace.is_none(), 'W'),
            (self.ae && self.ace.is_none(), 'A'),
            (self.urg, 'U'),
            (self.ack, '.'),
        ];
        text.extend(letters.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter));
        if let Some(ace) = self.ace {
            text.push_str(&ace.to_string());
        }
        if text.is_empty() { "-".to_owned() } else { text }
    }
}

/// A TCP option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opt {
    /// Padding.
    Nop,
    /// End of the list.
    Eol,
    /// `mss`
    Mss(u16),
    /// `wscale`
    WindowScale(u8),
    /// `sackOK`
    SackPermitted,
    /// `sack`
    Sack(Vec<(u32, u32)>),
    /// `TS val .. ecr ..`
    Timestamps {
        /// The clock.
        val: u32,
        /// The echo.
        ecr: u32,
    },
    /// `ECN`, with the counters that it has.
    AccurateEcn {
        /// Bytes marked CE.
        ceb: Option<u32>,
        /// Bytes marked ECT(0).
        e0b: Option<u32>,
        /// Bytes marked ECT(1).
        e1b: Option<u32>,
    },
    /// `FO` or `FOEXP`
    FastOpen,
    /// `md5`
    Md5,
}

/// A system call and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Name of the function.
    pub name: String,
    /// It blocks until then; relative to the call where the call's time is. Microseconds.
    pub until: Option<u64>,
    /// Arguments.
    pub arguments: Vec<Expr>,
    /// Its result.
    pub result: Expr,
    /// Name of the error, as `EAGAIN`.
    pub error: Option<String>,
}

/// An argument or a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// `...`
    Any,
    /// A number.
    Int(i64),
    /// A name.
    Word(String),
    /// A string.
    Text(String),
    /// `a | b`
    Or(Vec<Expr>),
    /// `name = value`, also as `name(..) = value`.
    Assign(String, Box<Expr>),
    /// `name(...)`
    Function(String, Vec<Expr>),
    /// `[..]`
    List(Vec<Expr>),
    /// `{..}`
    Struct(Vec<Expr>),
}

impl Expr {
    /// The number that it is.
    pub fn int(&self) -> Option<i64> {
        match self {
            Expr::Int(n) => Some(*n),
            Expr::List(items) if items.len() == 1 => items[0].int(),
            _ => None,
        }
    }

    /// Every name in it.
    pub fn words(&self) -> Vec<&str> {
        match self {
            Expr::Word(word) => vec![word],
            Expr::Or(items) | Expr::List(items) | Expr::Struct(items) | Expr::Function(_, items) => {
                items.iter().flat_map(Expr::words).collect()
            }
            Expr::Assign(_, value) => value.words(),
            Expr::Any | Expr::Int(_) | Expr::Text(_) => Vec::new(),
        }
    }

    /// The value that a structure gives a name.
    pub fn field(&self, name: &str) -> Option<&Expr> {
        let Expr::Struct(items) = self else { return None };
        items.iter().find_map(|item| match item {
            Expr::Assign(left, value) if left == name => Some(&**value),
            _ => None,
        })
    }
}
