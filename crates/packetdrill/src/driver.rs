//! Plays a script: its segments and calls go to airtcp's TCP, and what that sends is held against
//! the script, in virtual time.

use std::collections::BTreeMap;

use airtcp_core::tcp::cc::CaState;
use airtcp_core::units::{Span, Time};

use crate::compare;
use crate::connection::Sent;
use crate::python::{self, Names, Outcome, Variables};
use crate::script::{Action, Call, Event, Expr, Opt, Script, Segment, When};
use crate::settings::Settings;
use crate::sockets::{Returned, Sockets, Waiting};

/// How a script ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// airtcp does all that the script expects.
    Passed,
    /// It does not.
    Failed {
        /// Line of the script.
        line: u32,
        /// The expected and the sent segment, or the values.
        message: String,
    },
    /// The script needs what is not modelled.
    NotExpressible {
        /// Line of the script; 0: the script as a whole.
        line: u32,
        /// The thing that it needs.
        reason: String,
    },
}

/// Timers that may run out between two events.
const MOST_TIMERS: u32 = 10_000;
/// A real host takes some time for each event. Without it an event a millisecond after a write
/// meets a timer of a millisecond in one instant, and no rule says which comes first.
const EVENT_TAKES: Span = Span::from_us(1);
/// Time for which a segment is waited for that is late, so that a message tells when it came.
const PATIENCE: Span = Span::from_secs(2);

/// Plays a script on a host with so many jiffies a second.
pub fn play(script: &Script, hz: u32) -> Verdict {
    match Driver::begin(script, hz) {
        Ok(mut driver) => match driver.run(script) {
            Ok(()) => Verdict::Passed,
            Err(verdict) => verdict,
        },
        Err(verdict) => verdict,
    }
}

struct Driver {
    settings: Settings,
    sockets: Sockets,
    now: Time,
    /// Nominal time of the last event, and whether it was a segment that came.
    last: (Time, bool),
    tolerance: Span,
    tolerance_percent: f64,
    timestamp_tick_us: u64,
    strict_segments: bool,
    waiting: Vec<Waiting>,
    variables: Variables,
    /// First timestamps of the script and of airtcp, and all of the script's with airtcp's.
    timestamps_began: Option<(u32, u32)>,
    timestamps: BTreeMap<u32, u32>,
    /// A SYN or SYN-ACK of the current connection was compared.
    has_begun: Vec<bool>,
}

type Step = Result<(), Verdict>;

fn failed<T>(line: u32, message: impl Into<String>) -> Result<T, Verdict> {
    Err(Verdict::Failed { line, message: message.into() })
}

fn not_expressible<T>(line: u32, reason: impl Into<String>) -> Result<T, Verdict> {
    Err(Verdict::NotExpressible { line, reason: reason.into() })
}

impl Driver {
    fn begin(script: &Script, hz: u32) -> Result<Driver, Verdict> {
        let mut driver = Driver {
            settings: Settings::new(hz),
            sockets: Sockets::default(),
            now: Time::ZERO,
            last: (Time::ZERO, false),
            tolerance: Span::from_us(4000),
            tolerance_percent: 12.5,
            timestamp_tick_us: 0,
            strict_segments: false,
            waiting: Vec::new(),
            variables: Variables::new(),
            timestamps_began: None,
            timestamps: BTreeMap::new(),
            has_begun: Vec::new(),
        };
        for (name, value) in &script.options {
            let value = value.as_deref().unwrap_or("");
            let number = value.parse::<u64>().ok();
            match (name.as_str(), number) {
                ("tolerance_usecs", Some(us)) if us > 0 => driver.tolerance = Span::from_us(us.min(60_000_000)),
                ("tolerance_percent", _) => {
                    driver.tolerance_percent = value.parse::<f64>().unwrap_or(12.5).clamp(0.0, 100.0)
                }
                ("tcp_ts_tick_usecs", Some(us)) => driver.timestamp_tick_us = us,
                ("strict_segments", _) => driver.strict_segments = true,
                ("mtu", Some(mtu)) => driver.settings.mtu = u16::try_from(mtu).unwrap_or(u16::MAX).max(88),
                ("ip_version", _) if value == "ipv4" => {}
                ("ip_version", _) => return not_expressible(0, "IPv6"),
                ("define", _) => return not_expressible(0, "symbols (--define)"),
                ("so_filename" | "so_flags" | "wire_client" | "wire_server", _) => {
                    return not_expressible(0, format!("the option --{name}"));
                }
                // Addresses, speed, output: nothing that TCP sees.
                _ => {}
            }
        }
        if let Some((line, command)) = &script.init {
            if let Err(reason) = driver.settings.read_commands(command) {
                return not_expressible(*line, reason);
            }
        }
        Ok(driver)
    }

    fn run(&mut self, script: &Script) -> Step {
        for event in &script.events {
            self.run_event(event)?;
        }
        // Calls that still wait have until their time.
        while let Some(waiting) = self.waiting.first() {
            let until = waiting.until;
            self.run_timers(until, true);
            self.resume()?;
            self.check_waiting(until + self.tolerance + Span::from_us(1))?;
        }
        Ok(())
    }

    /// The window of time in which an event is to happen.
    fn times(&self, event: &Event) -> (Time, Time) {
        let comes = matches!(event.action, Action::Inbound(_));
        // As packetdrill counts: segments that come one after the other keep the script's own time.
        let base = if comes && self.last.1 { self.last.0 } else { self.now };
        let at = |us: u64| Time::ZERO + Span::from_us(us);
        match event.when {
            When::Absolute(us) => (at(us), at(us)),
            When::AbsoluteRange(from, to) => (at(from), at(to)),
            When::Relative(us) => (base + Span::from_us(us), base + Span::from_us(us)),
            When::RelativeRange(from, to) => (base + Span::from_us(from), base + Span::from_us(to)),
            When::Any => (base, base),
        }
    }

    fn run_event(&mut self, event: &Event) -> Step {
        let (from, to) = self.times(event);
        let before = self.last.0;
        match &event.action {
            Action::Outbound(segment) => {
                let any = event.when == When::Any;
                let slack = self.slack(from, before);
                self.expect(event.line, segment, (from, to), slack, any)?;
                self.last = (from, false);
            }
            Action::Inbound(segment) => {
                self.wait_until(event.line, from)?;
                self.take(event.line, segment)?;
                self.last = (from, true);
            }
            Action::Call(call) => {
                self.wait_until(event.line, from)?;
                self.call(event, call, from)?;
                self.last = (from, false);
            }
            Action::Code(code) => {
                self.wait_until(event.line, from)?;
                self.code(event.line, code)?;
                self.last = (from, false);
            }
            Action::Command(command) => {
                self.wait_until(event.line, from)?;
                if let Err(reason) = self.settings.read_commands(command) {
                    return not_expressible(event.line, reason);
                }
                self.last = (from, false);
            }
            Action::Other(kind) => return not_expressible(event.line, format!("packets of {kind}")),
        }
        if !matches!(event.action, Action::Outbound(_)) {
            self.now += EVENT_TAKES;
        }
        Ok(())
    }

    /// packetdrill's tolerance grows with the time since the last event.
    fn slack(&self, from: Time, before: Time) -> Span {
        let since = from.since(before.min(from));
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // percent from 0 to 100
        let thousandths = (self.tolerance_percent * 10.0) as u64;
        self.tolerance.max(since.mul_ratio(thousandths, 1000))
    }

    fn wait_until(&mut self, line: u32, at: Time) -> Step {
        self.run_timers(at, false);
        if self.now > at {
            let late = self.now.since(at);
            if late > self.tolerance {
                return failed(
                    line,
                    format!("the event is at {}, but the one before ended at {}", seconds(at), seconds(self.now)),
                );
            }
        }
        self.now = self.now.max(at);
        self.check_waiting(self.now)
    }

    /// Timers before `until`, or also those of that instant.
    fn run_timers(&mut self, until: Time, with_last: bool) -> bool {
        for _ in 0..MOST_TIMERS {
            let deadlines = self.sockets.connections.iter().map(|c| c.deadline());
            let Some(due) = deadlines.min().filter(|due| *due < until || (with_last && *due == until)) else {
                return true;
            };
            self.now = self.now.max(due);
            let now = self.now;
            for connection in &mut self.sockets.connections {
                if connection.deadline() <= now {
                    connection.on_deadline(now);
                }
            }
        }
        false
    }

    fn take(&mut self, line: u32, segment: &Segment) -> Step {
        let now = self.now;
        let segment = self.with_our_timestamps(segment);
        let taken = if segment.flags.syn && !segment.flags.ack && self.sockets.awaits_syn() {
            self.sockets.on_syn(&self.settings, now, &segment)
        } else {
            match self.sockets.current() {
                Some(connection) => connection.on_segment(now, &segment),
                None => Err("a segment that no socket waits for".to_owned()),
            }
        };
        if let Err(reason) = taken {
            return not_expressible(line, reason);
        }
        self.resume()
    }

    /// The script's clock of timestamps is not airtcp's. An echo stands for the timestamp of the
    /// segment that the script expected with that value.
    fn with_our_timestamps(&self, segment: &Segment) -> Segment {
        let mut segment = segment.clone();
        for option in segment.options.iter_mut().flatten() {
            if let (Opt::Timestamps { ecr, .. }, Some((first, ours))) = (option, self.timestamps_began) {
                let by_offset = ecr.wrapping_sub(first).wrapping_add(ours);
                *ecr = match self.timestamps.get(ecr) {
                    Some(known) => *known,
                    None if *ecr == 0 => 0,
                    None => by_offset,
                };
            }
        }
        segment
    }

    /// Calls that wait go on where they can.
    fn resume(&mut self) -> Step {
        let mut at = 0;
        while at < self.waiting.len() {
            let Some(value) = self.sockets.resume(self.waiting[at].what, self.now) else {
                at += 1;
                continue;
            };
            let waiting = self.waiting.remove(at);
            if waiting.expected.is_some_and(|expected| expected != value) {
                return failed(
                    waiting.line,
                    format!("the call is to return {}, and returns {value}", waiting.expected.unwrap_or(0)),
                );
            }
            if self.now + self.tolerance < waiting.until {
                return failed(
                    waiting.line,
                    format!(
                        "the call is to return at {}, and returns at {}",
                        seconds(waiting.until),
                        seconds(self.now)
                    ),
                );
            }
        }
        Ok(())
    }

    fn check_waiting(&self, now: Time) -> Step {
        match self.waiting.iter().find(|waiting| waiting.until + self.tolerance < now) {
            Some(waiting) => {
                failed(waiting.line, format!("the call is to return by {}, and waits on", seconds(waiting.until)))
            }
            None => Ok(()),
        }
    }

    /// The next segment that leaves is to be this one.
    fn expect(&mut self, line: u32, wanted: &Segment, (from, to): (Time, Time), slack: Span, any: bool) -> Step {
        if wanted.flags.rst {
            return not_expressible(line, "a reset (airtcp's TCP sends none)");
        }
        if wanted.urgent {
            return not_expressible(line, "urgent data");
        }
        if let Some(note) = &wanted.ip_note {
            return not_expressible(line, format!("`{note}` of the IP header"));
        }
        let patience = if any { Span::from_secs(600) } else { slack + PATIENCE };
        let Some(mut sent) = self.next_sent(to + patience) else {
            let by = if any { String::new() } else { format!(" at {}", span_of(from, to)) };
            return failed(line, format!("expected `> {}`{by}, and nothing is sent", compare::text(wanted)));
        };
        // Segments that leave at once are one to a script that says so.
        while sent.segment.len < wanted.len && (!self.strict_segments || !sent.segment.flags.psh) {
            let Some(next) = self.next_part(&sent, wanted.len) else { break };
            sent.segment.len += next.segment.len;
            (sent.segment.flags.fin, sent.segment.flags.psh) = (next.segment.flags.fin, next.segment.flags.psh);
        }
        let at = sent.at;
        self.now = self.now.max(at);
        self.note_beginning(wanted, &mut sent);
        let differs = compare::difference(wanted, &sent.segment).or_else(|| self.timestamp_difference(wanted, &sent));
        if let Some(what) = differs {
            return failed(
                line,
                format!(
                    "expected `> {}`, got `> {}` at {}: {what}",
                    compare::text(wanted),
                    compare::text(&sent.segment),
                    seconds(at)
                ),
            );
        }
        if !any && (at + slack < from || at > to + slack) {
            return failed(
                line,
                format!("expected `> {}` at {}, got it at {}", compare::text(wanted), span_of(from, to), seconds(at)),
            );
        }
        self.check_waiting(self.now)
    }

    /// The script's numbers begin where its first segment says.
    fn note_beginning(&mut self, wanted: &Segment, sent: &mut Sent) {
        let at = self.sockets.connections.len();
        self.has_begun.resize(at, false);
        if wanted.flags.syn && sent.segment.flags.syn {
            if let (Some(begun), Some(connection)) = (self.has_begun.last_mut(), self.sockets.current()) {
                if !std::mem::replace(begun, true) {
                    connection.begin_at(wanted.seq);
                    sent.segment.seq = wanted.seq;
                }
            }
        }
    }

    fn next_sent(&mut self, until: Time) -> Option<Sent> {
        for _ in 0..MOST_TIMERS {
            if let Some(sent) = self.sockets.current()?.sent().pop_front() {
                return Some(sent);
            }
            let due = self.sockets.connections.iter().map(|c| c.deadline()).min()?;
            if due > until {
                return None;
            }
            self.run_timers(due, true);
        }
        None
    }

    /// The next segment, if it left with this one and goes on where it ends.
    fn next_part(&mut self, sent: &Sent, most: u16) -> Option<Sent> {
        let queue = self.sockets.current()?.sent();
        let next = queue.front()?;
        let goes_on = next.segment.seq == sent.segment.seq.wrapping_add(u32::from(sent.segment.len));
        let fits = u32::from(sent.segment.len) + u32::from(next.segment.len) <= u32::from(most);
        if goes_on && fits && next.segment.len > 0 { queue.pop_front() } else { None }
    }

    fn timestamp_difference(&mut self, wanted: &Segment, sent: &Sent) -> Option<String> {
        let (wanted, got) = (compare::timestamp(wanted)?, compare::timestamp(&sent.segment)?);
        let (first, ours) = *self.timestamps_began.get_or_insert((wanted, got));
        self.timestamps.insert(wanted, got);
        let actual = first.wrapping_add(got.wrapping_sub(ours));
        let off = i64::from(actual) - i64::from(wanted);
        let tick = i64::try_from(self.timestamp_tick_us).unwrap_or(0);
        let allowed = self.slack(self.now, Time::ZERO).as_ns() / 1000;
        (tick > 0 && off.saturating_abs().saturating_mul(tick) > i64::try_from(allowed).unwrap_or(i64::MAX))
            .then(|| format!("TS val {actual}, not {wanted}"))
    }

    fn call(&mut self, event: &Event, call: &Call, from: Time) -> Step {
        let line = event.line;
        let returned = self.sockets.call(call, &self.settings, self.now);
        let (returned, wait) = match returned {
            Ok(both) => both,
            Err(reason) => return not_expressible(line, reason),
        };
        let expected = call.result.int();
        match returned {
            Returned::AsScripted => Ok(()),
            Returned::Different(what) => failed(line, format!("`{}`: {what}", call.name)),
            Returned::Waits => {
                let until = match (call.until, event.when) {
                    (Some(us), When::Relative(offset)) => {
                        let begun = from.since(Time::ZERO).saturating_sub(Span::from_us(offset));
                        Time::ZERO + begun + Span::from_us(us)
                    }
                    (Some(us), _) => Time::ZERO + Span::from_us(us),
                    (None, _) => {
                        return failed(line, format!("`{}` waits, and the script says no time to end", call.name));
                    }
                };
                if let Some(what) = wait {
                    self.waiting.push(Waiting { line, what, expected, until });
                }
                Ok(())
            }
            Returned::Value(value, error) => {
                let says = match (&call.result, expected) {
                    (Expr::Any, _) | (_, None) => return Ok(()),
                    (_, Some(says)) => says,
                };
                let same_error = value >= 0 || call.error.is_none() || call.error.as_deref() == error;
                if value == says && same_error {
                    return Ok(());
                }
                let got = error.map_or(value.to_string(), |error| format!("{value} {error}"));
                let wanted = call.error.as_ref().map_or(says.to_string(), |error| format!("{says} {error}"));
                failed(line, format!("`{}` is to return {wanted}, and returns {got}", call.name))
            }
        }
    }

    fn code(&mut self, line: u32, code: &str) -> Step {
        let info = Info { now: self.now, sockets: &self.sockets };
        match python::run(code, &info, &mut self.variables) {
            Outcome::Holds => Ok(()),
            Outcome::Fails(what) => failed(line, format!("assert {what}")),
            Outcome::Unknown(what) => not_expressible(line, what),
        }
    }
}

fn seconds(at: Time) -> String {
    format!("{:.6} s", at.as_secs_f64())
}

fn span_of(from: Time, to: Time) -> String {
    if from == to { seconds(from) } else { format!("{:.6} to {}", from.as_secs_f64(), seconds(to)) }
}

/// Fields of `tcp_info` of the current connection.
struct Info<'a> {
    now: Time,
    sockets: &'a Sockets,
}

impl Names for Info<'_> {
    fn value(&self, name: &str) -> Option<i64> {
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        if let Some(value) = constant(name) {
            return Some(value);
        }
        let connection = self.sockets.connections.last()?;
        let info = connection.info();
        let stats = connection.sender().stats();
        let us = |span: Span| number(span.as_ns() / 1000);
        let (timestamps, sack, ecn) = connection.agreed();
        Some(match name {
            "tcpi_ca_state" => state_number(info.state),
            "tcpi_snd_cwnd" => info.cwnd.into(),
            // TCP_INFINITE_SSTHRESH
            "tcpi_snd_ssthresh" => info.ssthresh.min(0x7fff_ffff).into(),
            "tcpi_unacked" => info.unacked.into(),
            "tcpi_sacked" => info.sacked.into(),
            "tcpi_lost" => info.lost.into(),
            "tcpi_retrans" => info.retransmissions_out.into(),
            "tcpi_total_retrans" => number(info.retransmissions),
            "tcpi_retransmits" => info.timeouts_in_row.into(),
            "tcpi_backoff" => info.backoff.into(),
            "tcpi_reordering" => info.reordering.into(),
            "tcpi_delivered" => number(info.delivered),
            "tcpi_delivered_ce" if connection.is_accurate() => number(info.delivered_marked),
            "tcpi_received_ce" if connection.is_accurate() => number(connection.receiver().stats().ce_received),
            "tcpi_rtt" => us(info.srtt),
            "tcpi_rttvar" => us(info.rttvar),
            "tcpi_min_rtt" => us(info.min_rtt).min(0xffff_ffff),
            "tcpi_rto" => us(info.rto),
            "tcpi_snd_mss" => info.mss.into(),
            "tcpi_advmss" => connection.advertised_mss().into(),
            "tcpi_pacing_rate" => number(info.pacing_rate),
            "tcpi_bytes_acked" => number(stats.bytes_acked),
            "tcpi_notsent_bytes" => number(connection.unsent()),
            "tcpi_data_segs_out" => number(stats.segments_sent),
            "tcpi_dsack_dups" => number(stats.duplicate_sacks),
            "tcpi_total_rto" => number(stats.timeouts),
            "tcpi_bytes_received" => number(connection.receiver().stats().bytes_delivered),
            "tcpi_snd_wscale" => connection.shifts().map_or(0, |(_, theirs)| theirs.into()),
            "tcpi_rcv_wscale" => connection.shifts().map_or(0, |(ours, _)| ours.into()),
            "tcpi_last_data_recv" => number(self.now.since(connection.last_received).as_ns() / 1_000_000),
            "tcpi_options" => {
                i64::from(timestamps)
                    | i64::from(sack) << 1
                    | i64::from(connection.shifts().is_some()) << 2
                    | i64::from(ecn) << 3
            }
            _ => return None,
        })
    }
}

fn state_number(state: CaState) -> i64 {
    match state {
        CaState::Open => 0,
        CaState::Disorder => 1,
        CaState::Cwr => 2,
        CaState::Recovery => 3,
        CaState::Loss => 4,
    }
}

/// Constants that packetdrill defines.
fn constant(name: &str) -> Option<i64> {
    Some(match name {
        "TCP_CA_Open" => 0,
        "TCP_CA_Disorder" => 1,
        "TCP_CA_CWR" => 2,
        "TCP_CA_Recovery" => 3,
        "TCP_CA_Loss" => 4,
        "TCPI_OPT_TIMESTAMPS" => 1,
        "TCPI_OPT_SACK" => 2,
        "TCPI_OPT_WSCALE" => 4,
        "TCPI_OPT_ECN" => 8,
        "TCPI_OPT_ECN_SEEN" => 16,
        "TCPI_OPT_SYN_DATA" => 32,
        _ => return None,
    })
}
