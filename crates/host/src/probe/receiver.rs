//! The end of the buffer probe behind the access point: serves several senders at a time, each
//! within bounds of size and time.
//!
//! A stranger can hold one of [`MOST_SESSIONS`] places from each of its networks. It loses the
//! place after [`MOST_TIME`], or when it is silent and somebody else wants the place. `--from`
//! names who may come at all. No datagram is ever answered.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use airtcp_core::units::{Span, Time};

use super::{GREETING, HEAD, LINE_BYTES, MOST_DATAGRAMS, MOST_TRAINS};
use crate::proxy::rules::{client, is_within};
use crate::sys;

/// Senders at a time; the log of each is a few MB at most.
pub const MOST_SESSIONS: usize = 8;
/// A session lasts no longer.
pub const MOST_TIME: Span = Span::from_secs(3600);
/// A sender greets within this.
const GREETS_WITHIN: Span = Span::from_secs(5);
/// One that is silent this long has gone; its log is taken within this, too.
const SILENT_FOR: Span = Span::from_secs(60);
/// One that is silent this long gives its place to a newcomer.
const YIELDS_AFTER: Span = Span::from_secs(10);
/// Datagrams that are looked at in one turn.
const TURN: usize = 10_000;

/// Session, trains and datagrams of a greeting.
pub(super) fn greeting(line: &str) -> Option<(u64, u32, u32)> {
    let mut words = line.strip_prefix(GREETING)?.split_whitespace();
    let session = u64::from_str_radix(words.next()?, 16).ok()?;
    let (trains, count) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    ((1..=MOST_TRAINS).contains(&trains) && (1..=MOST_DATAGRAMS).contains(&count)).then_some((session, trains, count))
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

/// Request of a greeting.
#[derive(Debug)]
struct Asked {
    session: u64,
    trains: u32,
    train: u32,
    arrived: Vec<Option<Time>>,
}

#[derive(Debug)]
struct Session {
    control: TcpStream,
    peer: SocketAddr,
    /// Bytes of a line that is not complete.
    line: Vec<u8>,
    asked: Option<Asked>,
    /// Bytes that are to be written.
    out: Vec<u8>,
    begun: Time,
    /// When it was heard last, or a log was begun.
    heard: Time,
    /// Datagrams that the kernel had dropped when the train began.
    dropped: u64,
}

impl Session {
    fn new(control: TcpStream, peer: SocketAddr, now: Time, dropped: u64) -> io::Result<Session> {
        control.set_nonblocking(true)?;
        let (line, out) = (Vec::new(), Vec::new());
        Ok(Session { control, peer, line, asked: None, out, begun: now, heard: now, dropped })
    }

    /// Does what can be done. True: all trains are handed over.
    fn step(&mut self, now: Time, dropped: u64) -> io::Result<bool> {
        let silent = now.since(self.heard);
        if self.asked.is_none() && now.since(self.begun) > GREETS_WITHIN {
            return Err(wrong("did not greet"));
        }
        if silent > SILENT_FOR {
            return Err(wrong("was silent for a minute"));
        }
        if now.since(self.begun) > MOST_TIME {
            return Err(wrong("has taken an hour, which is the most"));
        }
        loop {
            while !self.out.is_empty() {
                match self.control.write(&self.out) {
                    Ok(n) => drop(self.out.drain(..n)),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(e) => return Err(e),
                }
            }
            if self.asked.as_ref().is_some_and(|asked| asked.train == asked.trains) {
                return Ok(true);
            }
            let Some(line) = self.next_line()? else { return Ok(false) };
            self.heard = now;
            self.answer(&line, dropped)?;
        }
    }

    fn next_line(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.line.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
            }
            let mut buffer = [0; LINE_BYTES];
            let room = buffer.len() - self.line.len();
            if room == 0 {
                return Err(wrong("sends a line that is too long"));
            }
            match self.control.read(&mut buffer[..room]) {
                Ok(0) => return Err(wrong("has gone")),
                Ok(n) => self.line.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }

    fn answer(&mut self, line: &str, dropped: u64) -> io::Result<()> {
        let Some(asked) = &mut self.asked else {
            let Some((session, trains, count)) = greeting(line) else {
                return Err(wrong("is no sender of this version, or asks for too much"));
            };
            self.asked = Some(Asked { session, trains, train: 0, arrived: vec![None; count as usize] });
            self.dropped = dropped;
            self.out = b"ready\n".to_vec();
            return Ok(());
        };
        if line != format!("log {}", asked.train) {
            return Err(wrong("asks for another train"));
        }
        let mut log = String::new();
        for (n, at) in asked.arrived.iter_mut().enumerate() {
            if let Some(at) = at.take() {
                log += &format!("{n} {}\n", at.as_ns());
            }
        }
        log += &format!("end {}\n", dropped.saturating_sub(self.dropped));
        asked.train += 1;
        self.dropped = dropped;
        self.out = log.into_bytes();
        Ok(())
    }

    /// A datagram of `from`; true: it is of this session.
    fn take(&mut self, now: Time, from: IpAddr, head: &[u8; HEAD], at: Time) -> bool {
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let Some(asked) = &mut self.asked else { return false };
        let is_ours = self.peer.ip().to_canonical() == from
            && head[..8] == asked.session.to_be_bytes()
            && number(8) == asked.train;
        let Some(place) = asked.arrived.get_mut(number(12) as usize).filter(|_| is_ours) else { return false };
        place.get_or_insert(at);
        self.heard = now;
        true
    }
}

/// Who may come, and how long it goes on.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// Port of TCP and UDP.
    pub port: u16,
    /// Ends when one sender has all its logs.
    pub once: bool,
    /// Networks of senders; empty: all.
    pub from: Vec<(IpAddr, u8)>,
}

/// Serves probes.
pub fn receive(order: &Order, mut tell: impl FnMut(&str)) -> Result<(), String> {
    let port = order.port;
    let fault = |what: &str, e: &io::Error| format!("--udp-port {port}: cannot {what}: {e}");
    let v6 = |p| SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, p));
    let v4 = |p| SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, p));
    let listener =
        TcpListener::bind(v6(port)).or_else(|_| TcpListener::bind(v4(port))).map_err(|e| fault("listen", &e))?;
    let socket = UdpSocket::bind(v6(port)).or_else(|_| UdpSocket::bind(v4(port))).map_err(|e| fault("bind", &e))?;
    sys::prepare_arrivals(socket.as_raw_fd()).map_err(|e| fault("have arrivals timed", &e))?;
    listener.set_nonblocking(true).map_err(|e| fault("listen", &e))?;
    tell(&format!("waiting on port {port} of TCP and UDP"));
    let mut sessions: Vec<Session> = Vec::new();
    let (mut dropped, mut buffer) = (0, [0; 65_536]);
    loop {
        let mut fds = vec![listener.as_raw_fd(), socket.as_raw_fd()];
        fds.extend(sessions.iter().map(|session| session.control.as_raw_fd()));
        let writes = sessions.iter().any(|session| !session.out.is_empty());
        let wait = if writes { Duration::from_millis(5) } else { Duration::from_secs(1) };
        sys::readable(&fds, wait).map_err(|e| fault("wait", &e))?;
        let now = sys::monotonic();
        for _ in 0..TURN {
            let arrival = sys::arrival(socket.as_raw_fd(), &mut buffer).map_err(|e| fault("receive", &e))?;
            let Some(datagram) = arrival else { break };
            dropped = dropped.max(datagram.dropped);
            let (Some(from), Some(head)) = (datagram.from, buffer[..datagram.bytes].first_chunk::<HEAD>()) else {
                continue;
            };
            let from = from.to_canonical();
            let _ = sessions.iter_mut().any(|session| session.take(now, from, head, datagram.at));
        }
        let mut is_done = false;
        sessions.retain_mut(|session| {
            let said = match session.step(now, dropped) {
                Ok(false) => return true,
                Ok(true) => {
                    is_done = true;
                    format!("{} trains", session.asked.as_ref().map_or(0, |asked| asked.trains))
                }
                Err(e) => e.to_string(),
            };
            tell(&format!("{}: {said}", session.peer));
            false
        });
        if is_done && order.once {
            return Ok(());
        }
        while let Ok((control, peer)) = listener.accept() {
            if let Err(why) = admit(order, &mut sessions, control, peer, now, dropped) {
                tell(&format!("{peer}: {why}"));
            }
        }
    }
}

/// Takes a newcomer in, or says why not.
fn admit(
    order: &Order,
    sessions: &mut Vec<Session>,
    mut control: TcpStream,
    peer: SocketAddr,
    now: Time,
    dropped: u64,
) -> Result<(), String> {
    let ip = peer.ip().to_canonical();
    if !order.from.is_empty() && !order.from.iter().any(|prefix| is_within(ip, *prefix)) {
        return Err("is not of the networks of --from".to_owned());
    }
    let mut busy = |why: &str| {
        let _ = control.set_nonblocking(true).and_then(|()| control.write_all(b"busy\n"));
        Err(why.to_owned())
    };
    if sessions.iter().any(|session| client(session.peer.ip()) == client(ip)) {
        return busy("has a session already");
    }
    if sessions.len() >= MOST_SESSIONS {
        let longest = sessions.iter().enumerate().max_by_key(|(_, session)| now.since(session.heard));
        match longest.filter(|(_, session)| now.since(session.heard) >= YIELDS_AFTER).map(|(at, _)| at) {
            Some(at) => drop(sessions.swap_remove(at)),
            None => return busy("finds all places taken"),
        }
    }
    sessions.push(Session::new(control, peer, now, dropped).map_err(|e| e.to_string())?);
    Ok(())
}
