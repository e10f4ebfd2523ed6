//! `airtcp-host probe`: the buffer probe of `airtcp_core::buffer_probe` between two real hosts.
//!
//! The sender, on the wire, sends trains of numbered UDP datagrams, faster than the air carries
//! them, and logs when each really left. The receiver, behind the access point, notes the kernel's
//! time of each arrival. It hands its log back over TCP after each train.
//!
//! A stranger can do one thing to a receiver: start a train of its own ([`receiver`]). A hostile
//! receiver can do one thing to a sender: hand over a log of arrivals that never were. That log has
//! no more lines than there were datagrams, and comes within [`LOG_WITHIN`].

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use airtcp_core::buffer_probe::{Estimate, EstimatorConfig, RunLog, estimate};
use airtcp_core::units::{Span, Time};

use crate::sys;

pub mod receiver;

/// Port of both TCP and UDP.
pub const PORT: u16 = 24_688;
/// Most datagrams of a train.
pub const MOST_DATAGRAMS: u32 = 100_000;
/// Most trains.
pub const MOST_TRAINS: u32 = 1_000;
/// Session, train and number.
const HEAD: usize = 16;
const GREETING: &str = "airtcp-probe 1";
/// No message of the log is longer.
const LINE_BYTES: usize = 64;
/// A receiver says that it is ready within this.
const READY_WITHIN: Span = Span::from_secs(10);
/// When the first arrival in a log is taken to have been: late enough that all datagrams have left
/// before.
const ORIGIN: Time = Time::from_ns(1 << 60);
/// All arrivals of a session are within this of that one.
const LONGEST: Span = receiver::MOST_TIME;
/// A whole log is there within this.
pub const LOG_WITHIN: Span = Span::from_secs(60);

/// Options of the sender.
#[derive(Debug, Clone)]
pub struct Order {
    /// Host and port of the receiver.
    pub to: SocketAddr,
    /// Datagrams of a train.
    pub count: u32,
    /// Time between them.
    pub gap: Span,
    /// Payload of each, bytes.
    pub bytes: usize,
    /// Trains.
    pub trains: u32,
    /// Pause after a train, in which the buffer empties.
    pub pause: Duration,
}

/// Resolves `HOST` or `HOST:PORT`.
pub fn address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().or_else(|_| (text, port).to_socket_addrs());
    found.ok().and_then(|mut all| all.next()).ok_or_else(|| format!("{text}: is no address or name of a host"))
}

/// One train as both ends saw it.
#[derive(Debug, Clone)]
pub struct Train {
    /// By number: when it left, on this host's clock, and when it arrived, on the receiver's.
    pub datagrams: Vec<(Time, Option<Time>)>,
    /// Datagrams that the receiver's kernel dropped.
    pub dropped: u64,
}

/// Sends all trains and fetches their logs.
pub fn send(order: &Order, mut tell: impl FnMut(&str)) -> Result<Vec<Train>, String> {
    let fault = |what: &str, e: &io::Error| format!("{}: cannot {what}: {e}", order.to);
    let control = TcpStream::connect_timeout(&order.to, Duration::from_secs(5))
        .map_err(|e| format!("{}; is `airtcp host probe receive` running there?", fault("reach the receiver", &e)))?;
    control.set_write_timeout(Some(Duration::from_secs(10))).map_err(|e| fault("wait", &e))?;
    let stream = control.try_clone().map_err(|e| fault("read", &e))?;
    let mut answers = BufReader::new(Within { stream, until: sys::monotonic() + READY_WITHIN });
    let mut control = control;
    let session = sys::random().map_err(|e| fault("draw a session", &e))?;
    writeln!(control, "{GREETING} {session:016x} {} {}", order.trains, order.count).map_err(|e| fault("greet", &e))?;
    let line = next_line(&mut answers).map_err(|e| fault("hear the receiver", &e))?;
    if line != "ready" {
        return Err(format!("{}: the receiver says {line:?}", order.to));
    }
    let any: IpAddr = if order.to.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).map_err(|e| fault("open a socket", &e))?;
    socket.connect(order.to).map_err(|e| fault("send", &e))?;
    sys::set_exact_timers();
    let (mut trains, mut first) = (Vec::new(), None);
    for train in 0..order.trains {
        let sent = send_train(order, &socket, session, train).map_err(|e| fault("send", &e))?;
        sys::sleep_until(sys::monotonic() + sys::span(order.pause));
        writeln!(control, "log {train}").map_err(|e| fault("ask for the log", &e))?;
        answers.get_mut().until = sys::monotonic() + LOG_WITHIN;
        let (arrived, dropped) =
            read_log(&mut answers, order.count, &mut first).map_err(|e| fault("read the receiver's log", &e))?;
        let datagrams: Vec<_> = sent.into_iter().zip(arrived).collect();
        let missing = datagrams.iter().filter(|d| d.1.is_none()).count();
        tell(&format!("train {}: {missing} of {} missing", train + 1, order.count));
        trains.push(Train { datagrams, dropped });
    }
    Ok(trains)
}

/// The times at which the datagrams of a train really left.
fn send_train(order: &Order, socket: &UdpSocket, session: u64, train: u32) -> io::Result<Vec<Time>> {
    let mut payload = vec![0; order.bytes];
    payload[..8].copy_from_slice(&session.to_be_bytes());
    payload[8..12].copy_from_slice(&train.to_be_bytes());
    let begin = sys::monotonic() + Span::from_ms(1);
    let mut sent = Vec::with_capacity(order.count as usize);
    for n in 0..order.count {
        sys::sleep_until(begin + order.gap * u64::from(n));
        payload[12..HEAD].copy_from_slice(&n.to_be_bytes());
        sent.push(sys::monotonic());
        socket.send(&payload)?;
    }
    Ok(sent)
}

/// A connection that is read until an instant, however slowly it tells.
#[derive(Debug)]
struct Within {
    stream: TcpStream,
    until: Time,
}

impl Read for Within {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = Duration::from_nanos(self.until.since(sys::monotonic()).as_ns());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long"));
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

fn next_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.take(LINE_BYTES as u64).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a line ends early or is too long"));
    }
    Ok(line.trim_end().to_owned())
}

/// Arrivals, and datagrams that the kernel dropped. `first`: the first arrival in any log of the
/// session, once there is one.
fn read_log(from: &mut impl BufRead, count: u32, first: &mut Option<Time>) -> io::Result<(Vec<Option<Time>>, u64)> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let wrong = |line: &str| invalid(format!("{line:?} is no line of a log"));
    let mut arrived = vec![None; count as usize];
    // A line for each datagram, and one for the end.
    for _ in 0..=count {
        let line = next_line(from)?;
        let (what, value) = line.split_once(' ').ok_or_else(|| wrong(&line))?;
        let value: u64 = value.parse().map_err(|_| wrong(&line))?;
        if what == "end" {
            return Ok((arrived, value));
        }
        let at = Time::from_ns(value);
        let first = *first.get_or_insert(at);
        let (after, before) = (at.since(first), first.since(at));
        if after.max(before) > LONGEST {
            return Err(invalid(format!("the log has arrivals more than {LONGEST} apart")));
        }
        let n: usize = what.parse().map_err(|_| wrong(&line))?;
        // The clocks need not agree, so one origin is as good as another.
        let at = Time::from_ns((ORIGIN + after).as_ns() - before.as_ns());
        *arrived.get_mut(n).ok_or_else(|| wrong(&line))? = Some(at);
    }
    Err(invalid(format!("the log has more lines than the {count} datagrams")))
}

/// Estimates of all trains.
pub fn estimates(trains: &[Train], packet_bytes: u16) -> Vec<Estimate> {
    let logs: Vec<RunLog> = trains.iter().map(|t| RunLog { datagrams: &t.datagrams, packet_bytes }).collect();
    estimate(&EstimatorConfig::default(), &logs)
}

/// Summary of the estimates, with their limits.
pub fn report(estimates: &[Estimate], trains: &[Train]) -> String {
    let shown = |n: Option<u32>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let mut text = "train   sent  received    raw  corrected  drained  unexplained\n".to_owned();
    for (n, e) in estimates.iter().enumerate() {
        text += &format!(
            "{:5} {:6} {:9} {:>6} {:>10} {:>8} {:12}\n",
            n + 1,
            e.sent,
            e.received,
            shown(e.first_gap),
            shown(e.corrected),
            shown(e.drained),
            e.unexplained
        );
    }
    let corrected: Vec<f64> = estimates.iter().filter_map(|e| e.corrected.map(f64::from)).collect();
    let mean = corrected.iter().sum::<f64>() / corrected.len() as f64;
    if corrected.is_empty() {
        let least = estimates.iter().map(|e| e.at_least).max().unwrap_or(0);
        text += &format!(
            "no train overflowed the buffer: it takes at least {least} packets; send longer trains or a smaller gap\n"
        );
    } else {
        let least = corrected.iter().copied().fold(f64::INFINITY, f64::min);
        let most = corrected.iter().copied().fold(0.0, f64::max);
        text += &format!("buffer: {mean:.1} packets, {least} to {most} over {} trains\n", corrected.len());
        if most - least > 0.2 * mean + 2.0 {
            text +=
                "warning: trains disagree; other traffic, or a buffer without a fixed size such as FQ-CoDel or AQL\n";
        }
        let lost: u32 = estimates.iter().map(|e| e.sent - e.received).sum();
        let unexplained: u32 = estimates.iter().map(|e| e.unexplained).sum();
        if unexplained > lost / 10 {
            text += &format!("warning: {unexplained} of {lost} losses do not fit a drop-tail buffer of that size\n");
        }
    }
    let dropped = trains.iter().fold(0u64, |all, t| all.saturating_add(t.dropped));
    if dropped > 0 {
        text += &format!("warning: the receiver's kernel dropped {dropped} datagrams; the figures are wrong\n");
    }
    text
}

/// The estimates as one JSON object.
pub fn json(estimates: &[Estimate], trains: &[Train]) -> String {
    let number = |n: Option<u32>| n.map_or_else(|| "null".to_owned(), |n| n.to_string());
    let all: Vec<String> = estimates
        .iter()
        .zip(trains)
        .map(|(e, train)| {
            format!(
                "{{\"sent\": {}, \"received\": {}, \"raw\": {}, \"corrected\": {}, \"drained\": {}, \"at_least\": {}, \"unexplained\": {}, \"dropped_by_receiver\": {}}}",
                e.sent, e.received, number(e.first_gap), number(e.corrected), number(e.drained), e.at_least, e.unexplained, train.dropped
            )
        })
        .collect();
    format!("{{\"trains\": [{}]}}\n", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_bounded() {
        assert_eq!(receiver::greeting("airtcp-probe 1 00000000000000ff 10 1000"), Some((255, 10, 1000)));
        for line in
            ["", "airtcp-probe 2 ff 1 1", "airtcp-probe 1 ff 1", "airtcp-probe 1 ff 0 1", "airtcp-probe 1 ff 1 4000000"]
        {
            assert_eq!(receiver::greeting(line), None, "{line}");
        }
    }

    #[test]
    fn a_log_has_as_many_lines_as_datagrams_at_most() {
        let read = |text: &str, count| read_log(&mut text.as_bytes(), count, &mut None).map_err(|e| e.to_string());
        assert_eq!(read("1 7\nend 3\n", 2), Ok((vec![None, Some(ORIGIN)], 3)));
        assert!(read(&"0 7\n".repeat(1_000_000), 2).unwrap_err().contains("more lines than the 2 datagrams"));
        assert!(read(&"0".repeat(1_000_000), 2).unwrap_err().contains("too long"));
        assert!(read(&format!("0 1\n1 {}\nend 0\n", u64::MAX), 2).unwrap_err().contains("apart"));
        for text in ["2 7\nend 0\n", "x 7\n", "0\n", "0 -1\n", "end 0"] {
            assert!(read(text, 2).is_err(), "{text:?}");
        }
    }

    proptest::proptest! {
        /// Whatever times a hostile receiver makes up, there is an estimate or a refusal.
        #[test]
        fn any_times_are_estimated(
            base: u64, far: bool, times in proptest::collection::vec((0usize..60, proptest::prelude::any::<u64>()), 0..60),
            dropped: u64
        ) {
            let of = |time: u64| if far { time } else { base.saturating_add(time % 3_600_000_000_000) };
            let log: String = times.iter().map(|(n, time)| format!("{n} {}\n", of(*time))).collect();
            let read = read_log(&mut format!("{log}end {dropped}\n").as_bytes(), 60, &mut Some(Time::from_ns(base)));
            let Ok((arrived, _)) = read else { return Ok(()) };
            let sent = |n: usize| Time::from_ns(1_000_000_000 + 125_000 * n as u64);
            let datagrams = arrived.into_iter().enumerate().map(|(n, at)| (sent(n), at)).collect();
            let trains = [Train { datagrams, dropped }, Train { datagrams: vec![], dropped: u64::MAX }];
            let found = estimates(&trains, 1500);
            proptest::prop_assert!(!report(&found, &trains).is_empty() && !json(&found, &trains).is_empty());
        }
    }

    #[test]
    fn what_cannot_be_known_is_said() {
        let none = Estimate {
            sent: 9,
            received: 9,
            first_gap: None,
            onset: None,
            corrected: None,
            drained: None,
            at_least: 7,
            unexplained: 0,
        };
        assert!(report(&[none], &[]).contains("at least 7 packets"));
        let some = |corrected, unexplained| Estimate { received: 4, corrected: Some(corrected), unexplained, ..none };
        assert!(report(&[some(50, 0), some(51, 0)], &[]).contains("50.5 packets, 50 to 51 over 2 trains"));
        assert!(report(&[some(50, 0), some(90, 0)], &[]).contains("trains disagree"));
        assert!(report(&[some(50, 3)], &[]).contains("3 of 5 losses do not fit"));
        let train = Train { datagrams: vec![], dropped: 2 };
        assert!(report(&[some(50, 0)], &[train]).contains("dropped 2"));
    }
}
