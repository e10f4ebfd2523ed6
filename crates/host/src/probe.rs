//! `airtcp-host probe`: the buffer probe of `airtcp_core::buffer_probe` between two real hosts.
//!
//! The sender, on the wire, sends trains of numbered UDP datagrams, faster than the air carries them, and logs when each really left. The
//! receiver, behind the access point, notes the kernel's time of each arrival. It hands its log back over TCP after each train.
//!
//! What a stranger can do to a receiver: start a train of its own. A session belongs to the address of its TCP connection, is bounded in
//! size and time, and no datagram is ever answered.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use airtcp_core::buffer_probe::{Estimate, EstimatorConfig, RunLog, estimate};
use airtcp_core::units::{Span, Time};

use crate::sys;

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
const LINE_BYTES: u64 = 64;

/// What the sender was asked for.
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
    control.set_read_timeout(Some(Duration::from_secs(10))).map_err(|e| fault("wait", &e))?;
    let mut answers = BufReader::new(control.try_clone().map_err(|e| fault("read", &e))?);
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
    let mut trains = Vec::new();
    for train in 0..order.trains {
        let sent = send_train(order, &socket, session, train).map_err(|e| fault("send", &e))?;
        sys::sleep_until(sys::monotonic() + sys::span(order.pause));
        writeln!(control, "log {train}").map_err(|e| fault("ask for the log", &e))?;
        let (arrived, dropped) =
            read_log(&mut answers, order.count).map_err(|e| fault("read the receiver's log", &e))?;
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

fn next_line(from: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    from.take(LINE_BYTES).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the line ends early"));
    }
    Ok(line.trim_end().to_owned())
}

fn read_log(from: &mut BufReader<TcpStream>, count: u32) -> io::Result<(Vec<Option<Time>>, u64)> {
    let wrong = |line: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{line:?} is no line of a log"));
    let mut arrived = vec![None; count as usize];
    loop {
        let line = next_line(from)?;
        let (first, second) = line.split_once(' ').ok_or_else(|| wrong(&line))?;
        let value: u64 = second.parse().map_err(|_| wrong(&line))?;
        if first == "end" {
            return Ok((arrived, value));
        }
        let n: usize = first.parse().map_err(|_| wrong(&line))?;
        *arrived.get_mut(n).ok_or_else(|| wrong(&line))? = Some(Time::from_ns(value));
    }
}

/// Estimates of all trains.
pub fn estimates(trains: &[Train], packet_bytes: u16) -> Vec<Estimate> {
    let logs: Vec<RunLog> = trains.iter().map(|t| RunLog { datagrams: &t.datagrams, packet_bytes }).collect();
    estimate(&EstimatorConfig::default(), &logs)
}

/// What the estimates say together, and what they cannot know.
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
    let dropped: u64 = trains.iter().map(|t| t.dropped).sum();
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

/// Serves probes on `port`; after one if `once`.
pub fn receive(port: u16, once: bool, mut tell: impl FnMut(&str)) -> Result<(), String> {
    let fault = |what: &str, e: &io::Error| format!("--udp-port {port}: cannot {what}: {e}");
    let v6 = |p| std::net::SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, p));
    let v4 = |p| std::net::SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, p));
    let listener =
        TcpListener::bind(v6(port)).or_else(|_| TcpListener::bind(v4(port))).map_err(|e| fault("listen", &e))?;
    let socket = UdpSocket::bind(v6(port)).or_else(|_| UdpSocket::bind(v4(port))).map_err(|e| fault("bind", &e))?;
    sys::prepare_arrivals(socket.as_raw_fd()).map_err(|e| fault("have arrivals timed", &e))?;
    tell(&format!("waiting on port {port} of TCP and UDP"));
    loop {
        let (control, peer) = listener.accept().map_err(|e| fault("accept", &e))?;
        match serve(control, peer.ip().to_canonical(), &socket) {
            Ok(trains) => tell(&format!("{peer}: {trains} trains")),
            Err(e) => tell(&format!("{peer}: {e}")),
        }
        if once {
            return Ok(());
        }
    }
}

/// Session, trains and datagrams of a greeting.
fn greeting(line: &str) -> Option<(u64, u32, u32)> {
    let mut words = line.strip_prefix(GREETING)?.split_whitespace();
    let session = u64::from_str_radix(words.next()?, 16).ok()?;
    let (trains, count) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    ((1..=MOST_TRAINS).contains(&trains) && (1..=MOST_DATAGRAMS).contains(&count)).then_some((session, trains, count))
}

fn serve(mut control: TcpStream, peer: IpAddr, socket: &UdpSocket) -> io::Result<u32> {
    let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    control.set_read_timeout(Some(Duration::from_secs(10)))?;
    control.set_write_timeout(Some(Duration::from_secs(10)))?;
    let mut words = BufReader::new(control.try_clone()?);
    let Some((session, trains, count)) = greeting(&next_line(&mut words)?) else {
        return Err(wrong("is no sender of this version, or asks for too much"));
    };
    writeln!(control, "ready")?;
    let fds = [socket.as_raw_fd(), control.as_raw_fd()];
    let mut dropped_before = None;
    for train in 0..trains {
        let mut arrived: Vec<Option<Time>> = vec![None; count as usize];
        let mut drops = 0;
        let end = sys::monotonic() + Span::from_secs(60);
        let mut buffer = [0; 65_536];
        loop {
            let ready = sys::readable(&fds, Duration::from_secs(1))?;
            while let Some(d) = sys::arrival(socket.as_raw_fd(), &mut buffer)? {
                drops = drops.max(d.dropped);
                let of = |at: usize| u32::from_be_bytes([buffer[at], buffer[at + 1], buffer[at + 2], buffer[at + 3]]);
                let is_ours = d.bytes >= HEAD
                    && d.from.is_some_and(|from| from.to_canonical() == peer)
                    && buffer[..8] == session.to_be_bytes()
                    && of(8) == train;
                if let Some(place) = arrived.get_mut(of(12) as usize).filter(|_| is_ours) {
                    place.get_or_insert(d.at);
                }
            }
            if ready[1] {
                break;
            }
            if sys::monotonic() > end {
                return Err(wrong("was silent for a minute"));
            }
        }
        if next_line(&mut words)? != format!("log {train}") {
            return Err(wrong("asks for another train"));
        }
        let mut log = String::new();
        for (n, at) in arrived.iter().enumerate() {
            if let Some(at) = at {
                log += &format!("{n} {}\n", at.as_ns());
            }
        }
        let before = dropped_before.replace(drops).unwrap_or(0);
        log += &format!("end {}\n", drops.saturating_sub(before));
        control.write_all(log.as_bytes())?;
    }
    Ok(trains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_bounded() {
        assert_eq!(greeting("airtcp-probe 1 00000000000000ff 10 1000"), Some((255, 10, 1000)));
        for line in
            ["", "airtcp-probe 2 ff 1 1", "airtcp-probe 1 ff 1", "airtcp-probe 1 ff 0 1", "airtcp-probe 1 ff 1 4000000"]
        {
            assert_eq!(greeting(line), None, "{line}");
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
