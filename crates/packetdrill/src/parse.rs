//! Reader of packetdrill's language, for what TCP scripts write.
//!
//! It never fails otherwise than by an [`Error`] with a line, whatever the text.

use std::fmt;

use crate::script::{Action, Call, Event, Expr, Flags, IpEcn, Opt, Script, Segment, When};

/// Why a text is no script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Line, from 1.
    pub line: u32,
    /// The mistake.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for Error {}

/// Nesting of expressions that is followed.
const DEPTH: u32 = 32;
/// Longest time in a script: a day.
const LONGEST_US: u64 = 86_400_000_000;

/// Reads a script.
///
/// # Errors
///
/// The first place that is not of the language.
pub fn parse(text: &str) -> Result<Script, Error> {
    let clean = without_comments(text);
    let mut reader = Reader { text: &clean, at: 0, line: 1 };
    let mut script = Script::default();
    reader.skip_space();
    while reader.rest().starts_with("--") {
        script.options.push(reader.option()?);
        reader.skip_space();
    }
    let mut before_events = true;
    while !reader.is_at_end() {
        if reader.peek() == Some('`') {
            // The first one prepares; one after the last event cleans up, and has no effect here.
            let line = reader.line;
            let command = reader.quoted('`')?;
            if before_events {
                script.init = Some((line, command));
            }
        } else {
            let event = reader.event()?;
            script.events.push(event);
        }
        before_events = false;
        reader.skip_space();
    }
    Ok(script)
}

/// Comments become blanks; lines stay.
fn without_comments(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kept, taken) = match first {
            '/' if rest.starts_with("//") => (false, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (false, end_of(rest, 2, "*/")),
            '#' if clean.is_empty() || clean.ends_with('\n') => (false, rest.find('\n').unwrap_or(rest.len())),
            '%' if rest.starts_with("%{") => (true, end_of(rest, 2, "}%")),
            '`' | '"' => (true, end_of_quote(rest, first)),
            _ => (true, first.len_utf8()),
        };
        if kept {
            clean.push_str(&rest[..taken]);
        } else {
            clean.extend(rest[..taken].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[taken..];
    }
    clean
}

fn end_of(text: &str, from: usize, mark: &str) -> usize {
    text[from..].find(mark).map_or(text.len(), |at| from + at + mark.len())
}

fn end_of_quote(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }
    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }
    fn advance(&mut self, bytes: usize) {
        let taken = &self.rest()[..bytes];
        self.line += u32::try_from(taken.matches('\n').count()).unwrap_or(0);
        self.at += bytes;
    }
    fn skip_space(&mut self) {
        let rest = self.rest();
        self.advance(rest.len() - rest.trim_start().len());
    }
    fn error<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error { line: self.line, message: message.into() })
    }
    /// The word that stands here, for messages.
    fn here(&self) -> String {
        let word: String = self.rest().chars().take_while(|c| !c.is_whitespace()).take(30).collect();
        if word.is_empty() { "the end".to_owned() } else { format!("`{word}`") }
    }
    /// Takes `mark` if it stands here, blanks before it apart.
    fn take(&mut self, mark: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(mark);
        if found {
            self.advance(mark.len());
        }
        found
    }
    fn expect(&mut self, mark: &str) -> Result<(), Error> {
        if self.take(mark) { Ok(()) } else { self.error(format!("`{mark}` is expected, not {}", self.here())) }
    }
    fn while_true(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.advance(end);
        &rest[..end]
    }
    fn word(&mut self) -> &'a str {
        self.skip_space();
        self.while_true(is_word)
    }
    /// Takes the word if it stands here as a whole.
    fn take_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let rest = self.rest();
        let found = rest.strip_prefix(word).is_some_and(|after| !after.starts_with(is_word));
        if found {
            self.advance(word.len());
        }
        found
    }
    fn quoted(&mut self, quote: char) -> Result<String, Error> {
        let rest = self.rest();
        let end = end_of_quote(rest, quote);
        if end < 2 || !rest[..end].ends_with(quote) {
            return self.error(format!("{quote} is not closed"));
        }
        self.advance(end);
        Ok(rest[1..end - 1].to_owned())
    }
    fn number<T: TryFrom<i64>>(&mut self, what: &str) -> Result<T, Error> {
        self.skip_space();
        let start = self.at;
        let is_negative = self.rest().starts_with('-');
        if is_negative {
            self.advance(1);
        }
        let value = if self.rest().starts_with("0x") {
            self.advance(2);
            i64::from_str_radix(self.while_true(|c| c.is_ascii_hexdigit()), 16)
        } else {
            self.while_true(|c| c.is_ascii_digit()).parse()
        };
        let value = value.ok().map(|n| if is_negative { -n } else { n }).and_then(|n| T::try_from(n).ok());
        match value {
            Some(value) => Ok(value),
            None => {
                self.at = start;
                self.error(format!("{what} is expected, not {}", self.here()))
            }
        }
    }

    fn option(&mut self) -> Result<(String, Option<String>), Error> {
        self.advance(2);
        let name = self.while_true(is_word).to_owned();
        if name.is_empty() {
            return self.error("an option has no name");
        }
        let value = if self.rest().starts_with('=') {
            self.advance(1);
            Some(if self.peek() == Some('"') {
                self.quoted('"')?
            } else {
                self.while_true(|c| !c.is_whitespace()).to_owned()
            })
        } else {
            None
        };
        Ok((name, value))
    }

    /// Seconds with up to six places that count; as microseconds.
    fn time(&mut self) -> Result<u64, Error> {
        self.skip_space();
        let whole = self.while_true(|c| c.is_ascii_digit());
        let mut fraction = "";
        let mut after = self.rest().chars();
        if after.next() == Some('.') && after.next().is_some_and(|c| c.is_ascii_digit()) {
            self.advance(1);
            fraction = self.while_true(|c| c.is_ascii_digit());
        }
        if whole.is_empty() && fraction.is_empty() {
            return self.error(format!("a time is expected, not {}", self.here()));
        }
        let seconds: u64 = if whole.is_empty() { 0 } else { whole.parse().unwrap_or(u64::MAX) };
        let places: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let us = seconds.saturating_mul(1_000_000).saturating_add(places.parse().unwrap_or(0));
        if us > LONGEST_US { self.error("a time is more than a day") } else { Ok(us) }
    }

    fn when(&mut self) -> Result<When, Error> {
        if self.take("*") {
            return Ok(When::Any);
        }
        let relative = self.take("+");
        let from = self.time()?;
        if self.take("~") {
            self.take("+");
            let to = self.time()?;
            let to = to.max(from);
            return Ok(if relative { When::RelativeRange(from, to) } else { When::AbsoluteRange(from, to) });
        }
        Ok(if relative { When::Relative(from) } else { When::Absolute(from) })
    }

    fn event(&mut self) -> Result<Event, Error> {
        self.skip_space();
        let line = self.line;
        let when = self.when()?;
        self.skip_space();
        let action = match self.peek() {
            Some('<') => {
                self.advance(1);
                self.packet(Action::Inbound)?
            }
            Some('>') => {
                self.advance(1);
                self.packet(Action::Outbound)?
            }
            Some('`') => Action::Command(self.quoted('`')?),
            Some('%') => {
                let Some(code) = self.rest().strip_prefix("%{").and_then(|rest| Some(rest.split_once("}%")?.0)) else {
                    return self.error("%{ is not closed by }%");
                };
                self.advance(code.len() + 4);
                Action::Code(code.to_owned())
            }
            _ => Action::Call(self.call()?),
        };
        Ok(Event { line, when, action })
    }

    fn packet(&mut self, direction: impl Fn(Segment) -> Action) -> Result<Action, Error> {
        self.skip_space();
        let mut segment = Segment::default();
        if self.peek() == Some('[') || self.peek() == Some('(') {
            let close = if self.peek() == Some('[') { "]" } else { ")" };
            self.advance(1);
            let rest = self.rest();
            let Some(end) = rest.find(close) else { return self.error("a bracket is not closed") };
            self.advance(end + 1);
            for word in rest[..end].split(',') {
                match word.trim() {
                    "noecn" => segment.ecn = Some(IpEcn::NotEct),
                    "ect0" => segment.ecn = Some(IpEcn::Ect0),
                    "ect1" => segment.ecn = Some(IpEcn::Ect1),
                    "ce" => segment.ecn = Some(IpEcn::Ce),
                    "ect01" => segment.ecn = Some(IpEcn::Ect01),
                    other => segment.ip_note = Some(other.to_owned()),
                }
            }
        }
        self.skip_space();
        // Ports, `1000 > 80`: all connections of a script are one.
        let rest = self.rest();
        if let Some((source, after)) = rest.split_once('>') {
            let target = after.trim_start();
            let is_port = !source.trim().is_empty() && source.trim().chars().all(|c| c.is_ascii_digit());
            if is_port && target.starts_with(|c: char| c.is_ascii_digit()) {
                let skipped = rest.len() - target.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                self.advance(skipped);
            }
        }
        self.skip_space();
        let word = self.while_true(|c| !c.is_whitespace());
        let Some(flags) = flags_of(word) else {
            let rest_of_line = self.rest().find('\n').unwrap_or(self.rest().len());
            self.advance(rest_of_line);
            if word.is_empty() || !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
                return self.error(format!("flags of TCP are expected, not `{word}`"));
            }
            return Ok(Action::Other(word.trim_end_matches(['(', ')']).to_owned()));
        };
        segment.flags = flags;
        segment.seq = self.number("a sequence number")?;
        self.expect(":")?;
        let end: u32 = self.number("a sequence number")?;
        self.expect("(")?;
        segment.len = self.number("a length below 65536")?;
        self.expect(")")?;
        if segment.seq.wrapping_add(u32::from(segment.len)) != end {
            return self.error(format!("{}:{end}({}): the length is not the difference", segment.seq, segment.len));
        }
        if self.take_word("ack") {
            segment.ack = self.number("an acknowledgement number")?;
        }
        if self.take_word("win") {
            segment.window = Some(self.number("a window below 65536")?);
        }
        if self.take_word("urg") {
            let _: u16 = self.number("an urgent pointer below 65536")?;
            segment.urgent = true;
        }
        segment.urgent |= segment.flags.urg;
        segment.options = Some(Vec::new());
        self.skip_space();
        // An event begins with a time, so that `<` here begins options.
        if self.peek() == Some('<') {
            self.advance(1);
            segment.options = self.options()?;
        }
        if self.take_word("encap") {
            segment.ip_note = Some("encap".to_owned());
            let rest_of_line = self.rest().find('\n').unwrap_or(self.rest().len());
            self.advance(rest_of_line);
        }
        Ok(direction(segment))
    }

    fn options(&mut self) -> Result<Option<Vec<Opt>>, Error> {
        if self.take("...") {
            self.expect(">")?;
            return Ok(None);
        }
        let mut options = Vec::new();
        loop {
            options.push(self.tcp_option()?);
            if options.len() > 40 {
                return self.error("a segment has room for 40 bytes of options");
            }
            if self.take(">") {
                return Ok(Some(options));
            }
            self.expect(",")?;
        }
    }

    fn tcp_option(&mut self) -> Result<Opt, Error> {
        let name = self.word();
        Ok(match name {
            "nop" => Opt::Nop,
            "eol" => Opt::Eol,
            "mss" => Opt::Mss(self.number("a segment size below 65536")?),
            "wscale" => Opt::WindowScale(self.number("a shift below 256")?),
            "sackOK" => Opt::SackPermitted,
            "sack" => {
                let mut blocks = Vec::new();
                while self.rest().trim_start().starts_with(|c: char| c.is_ascii_digit()) && blocks.len() < 5 {
                    let start = self.number("a sequence number")?;
                    self.expect(":")?;
                    blocks.push((start, self.number("a sequence number")?));
                }
                Opt::Sack(blocks)
            }
            "TS" => {
                let mut field = |name: &str| {
                    if self.take_word(name) {
                        self.number("a timestamp")
                    } else {
                        self.error(format!("`{name}` is expected, not {}", self.here()))
                    }
                };
                Opt::Timestamps { val: field("val")?, ecr: field("ecr")? }
            }
            "ECN" => {
                let (mut ceb, mut e0b, mut e1b) = (None, None, None);
                for (name, field) in ["e0b", "e1b", "ceb", "e0b", "e1b"].into_iter().zip([0_u8, 1, 2, 0, 1]) {
                    if self.take_word(name) {
                        let value = Some(self.number("a number of bytes")?);
                        *(match field {
                            0 => &mut e0b,
                            1 => &mut e1b,
                            _ => &mut ceb,
                        }) = value;
                    }
                }
                Opt::AccurateEcn { ceb, e0b, e1b }
            }
            "FO" | "FOEXP" => {
                self.word();
                Opt::FastOpen
            }
            "md5" => {
                self.word();
                Opt::Md5
            }
            _ => return self.error(format!("`{name}` is no option of TCP known here")),
        })
    }

    fn call(&mut self) -> Result<Call, Error> {
        let until = if self.take("...") { Some(self.time()?) } else { None };
        let name = self.word().to_owned();
        if name.is_empty() {
            return self.error(format!("a packet, a call, `shell` or %{{ code }}% is expected, not {}", self.here()));
        }
        self.expect("(")?;
        let arguments = self.expressions(")", 0)?;
        self.expect("=")?;
        let result = self.expression(0)?;
        let mut error = None;
        self.skip_space();
        if self.rest().starts_with(|c: char| c.is_ascii_uppercase()) {
            error = Some(self.word().to_owned());
        }
        self.skip_space();
        if self.peek() == Some('(') {
            let Some(end) = self.rest().find(')') else { return self.error("( is not closed") };
            self.advance(end + 1);
        }
        Ok(Call { name, until, arguments, result, error })
    }

    fn expressions(&mut self, close: &str, depth: u32) -> Result<Vec<Expr>, Error> {
        let mut items = Vec::new();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            items.push(self.expression(depth)?);
            if self.take(close) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    fn expression(&mut self, depth: u32) -> Result<Expr, Error> {
        if depth > DEPTH {
            return self.error("an expression is nested too deep");
        }
        let first = self.primary(depth)?;
        let mut items = vec![first];
        while self.take("|") {
            items.push(self.primary(depth)?);
        }
        let only = if items.len() == 1 { items.pop() } else { None };
        Ok(only.unwrap_or(Expr::Or(items)))
    }

    fn primary(&mut self, depth: u32) -> Result<Expr, Error> {
        self.skip_space();
        match self.peek() {
            Some('.') if self.take("...") => Ok(Expr::Any),
            Some('[') => {
                self.advance(1);
                Ok(Expr::List(self.expressions("]", depth + 1)?))
            }
            Some('{') => {
                self.advance(1);
                Ok(Expr::Struct(self.expressions("}", depth + 1)?))
            }
            Some('"') => {
                let mut text = self.quoted('"')?;
                self.skip_space();
                while self.peek() == Some('"') {
                    text.push_str(&self.quoted('"')?);
                    self.skip_space();
                }
                self.take("...");
                Ok(Expr::Text(text))
            }
            Some(c) if c.is_ascii_digit() || c == '-' => Ok(Expr::Int(self.number("a number")?)),
            Some(c) if is_word(c) => {
                let name = self.word().to_owned();
                self.skip_space();
                let arguments = if self.peek() == Some('(') {
                    self.advance(1);
                    Some(self.expressions(")", depth + 1)?)
                } else {
                    None
                };
                self.skip_space();
                if self.peek() == Some('=') {
                    self.advance(1);
                    return Ok(Expr::Assign(name, Box::new(self.expression(depth + 1)?)));
                }
                Ok(match arguments {
                    Some(arguments) => Expr::Function(name, arguments),
                    None => Expr::Word(name),
                })
            }
            _ => self.error(format!("a value is expected, not {}", self.here())),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Flags as scripts write them: letters, a dot for ACK, a digit for the field ACE.
fn flags_of(word: &str) -> Option<Flags> {
    let mut flags = Flags::default();
    if word == "-" {
        return Some(flags);
    }
    if word.is_empty() {
        return None;
    }
    if !word.contains(|c: char| c == '.' || c.is_ascii_uppercase()) {
        return None;
    }
    for c in word.chars() {
        let flag = match c {
            'F' => &mut flags.fin,
            'S' => &mut flags.syn,
            'R' => &mut flags.rst,
            'P' => &mut flags.psh,
            'U' => &mut flags.urg,
            'E' => &mut flags.ece,
            'W' => &mut flags.cwr,
            'A' => &mut flags.ae,
            '.' => &mut flags.ack,
            '0'..='7' if flags.ace.is_none() => {
                flags.ace = c.to_digit(8).and_then(|n| u8::try_from(n).ok());
                continue;
            }
            _ => return None,
        };
        *flag = true;
    }
    Some(flags)
}
