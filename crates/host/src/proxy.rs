//! `airtcp-host proxy`: TCP-AV for clients that know nothing of it.
//!
//! A client's connection ends here, and a second one goes on to the server. The rule that fits
//! gives one or both of them a target. Data pass through pipes of the kernel. An end of data in one
//! direction is passed on in that direction, and a reset to the other side. One thread serves all,
//! told by epoll what has become ready.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use airtcp_core::units::{Span, Time};

use crate::rights::{Capability, Host};
use crate::sys::stream::{self, Moved, Pipe, Poll};
use crate::sys::{self, span};

pub mod divert;
pub mod hello;
pub mod rules;

use hello::Hello;
use rules::{Mode, Rules, Toward};

/// Descriptors of a connection: two sockets, a pipe for each direction.
const DESCRIPTORS: u64 = 6;
/// Descriptors of everything else.
const OTHERS: u64 = 64;
/// A connection moves at most so often before others get their turn.
const TURNS: usize = 16;
/// Empty pipes that are kept for the next.
const SPARE_PIPES: usize = 64;

/// Gives a socket its target: TCP-AV, or in tests something that can be observed.
pub trait Targets {
    /// Sets the control and the target on a socket, before or after it has connected.
    fn set(&mut self, socket: RawFd, target: airtcp_core::units::DataRate) -> Result<(), String>;
    /// A sign of life, at least every half second.
    fn renew(&mut self) -> Result<(), String>;
}

/// Counts of the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections by rule; behind them those of no rule.
    pub by_rule: Vec<u64>,
    /// Ended by an end of data in both directions.
    pub whole: u64,
    /// Ended by a reset of either side.
    pub resets: u64,
    /// Servers that did not take the connection.
    pub refused: u64,
    /// Reset at once because of a limit.
    pub over_limit: u64,
    /// Still there at the end of the time to drain.
    pub cut: u64,
    /// Bytes to servers, and to clients.
    pub bytes: [u64; 2],
}

/// Connections that this process can hold.
pub fn most_connections() -> usize {
    let free = stream::most_descriptors().saturating_sub(OTHERS) / DESCRIPTORS;
    usize::try_from(free).unwrap_or(usize::MAX).clamp(1, 1_000_000)
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Half {
    pipe: Option<Pipe>,
    /// Bytes in the pipe.
    held: usize,
    /// Read to find a name, to be written first.
    first: Vec<u8>,
    has_ended: bool,
    is_told: bool,
    bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The client may name its server.
    Naming,
    Connecting,
    Open,
}

#[derive(Debug)]
struct Connection {
    client: OwnedFd,
    server: Option<OwnedFd>,
    stage: Stage,
    /// When the stage has lasted too long.
    until: Time,
    from: IpAddr,
    to: SocketAddr,
    /// Both ends of the connection to the server.
    onward: Option<(SocketAddr, SocketAddr)>,
    /// To the server, to the client.
    halves: [Half; 2],
}

/// An address of another host, as far as the address tells.
fn is_elsewhere(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(std::net::Ipv4Addr::BROADCAST)
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Reset,
    Refused,
}

/// The proxy at work.
pub struct Proxy<T> {
    rules: Rules,
    poll: Poll,
    listeners: Vec<OwnedFd>,
    connections: BTreeMap<u64, Connection>,
    per_client: BTreeMap<IpAddr, usize>,
    /// The proxy's own connections to servers, by both ends. One of them that comes in goes round
    /// in a circle.
    onward: BTreeSet<(SocketAddr, SocketAddr)>,
    /// When stages end, and of which connection.
    deadlines: BTreeSet<(Time, u64)>,
    /// Connections with more to do.
    again: VecDeque<u64>,
    pipes: Vec<Pipe>,
    next: u64,
    targets: Option<T>,
    /// It may mark its own connections.
    marks: bool,
    counts: Counts,
    /// Connections are not accepted before this: the system is out of descriptors.
    resume: Time,
}

impl<T: Targets> Proxy<T> {
    /// Listens. `targets`: gives sockets their targets; `None` if no rule has one.
    pub fn new(rules: Rules, targets: Option<T>) -> Result<Proxy<T>, String> {
        let poll = Poll::new().map_err(|e| format!("proxy: cannot wait for connections: {e}"))?;
        let mut listeners = Vec::new();
        for (at, listen) in rules.listen.iter().enumerate() {
            let fault = |e: io::Error| {
                let hint = match e.kind() {
                    io::ErrorKind::PermissionDenied if listen.mode == Mode::Tproxy => {
                        "no CAP_NET_ADMIN: run it as root, or as a service with AmbientCapabilities=CAP_NET_ADMIN"
                            .to_owned()
                    }
                    io::ErrorKind::AddrInUse => "another program listens there".to_owned(),
                    _ => e.to_string(),
                };
                format!("listen[{at}].address = \"{}\": cannot listen: {hint}", listen.address)
            };
            let fd = stream::listen(listen.address, listen.mode == Mode::Tproxy).map_err(fault)?;
            poll.add_listener(fd.as_raw_fd(), at as u64).map_err(fault)?;
            listeners.push(fd);
        }
        let counts = Counts { by_rule: vec![0; rules.rules.len() + 1], ..Counts::default() };
        Ok(Proxy {
            next: listeners.len() as u64,
            rules,
            poll,
            listeners,
            connections: BTreeMap::new(),
            per_client: BTreeMap::new(),
            onward: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            again: VecDeque::new(),
            pipes: Vec::new(),
            targets,
            marks: Host::read().may(Capability::NetAdmin),
            counts,
            resume: Time::ZERO,
        })
    }

    /// Where it listens, as the kernel has it: port 0 is a free one then.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|fd| stream::own_address(fd.as_raw_fd()).ok()).collect()
    }

    /// Runs until `has_ended` says so; then lets connections finish for the time that the rules
    /// allow. `end_new` runs in between.
    pub fn run(
        mut self,
        has_ended: impl Fn() -> bool,
        end_new: impl FnOnce(),
        mut tell: impl FnMut(&str),
    ) -> Result<Counts, String> {
        let (mut names, mut renewed, mut told_limit) = (Vec::new(), Time::ZERO, Time::ZERO);
        let mut end_new = Some(end_new);
        let mut drained = Time::NEVER;
        loop {
            let now = sys::monotonic();
            if now.since(renewed) >= Span::from_ms(250) {
                renewed = now;
                if let Some(targets) = &mut self.targets {
                    targets.renew()?;
                }
            }
            if end_new.is_some() && has_ended() {
                if let Some(end_new) = end_new.take() {
                    end_new();
                }
                self.listeners.clear();
                drained = now + span(self.rules.limits.drain);
                if !self.connections.is_empty() {
                    tell(&format!("ending; {} connections may finish", self.connections.len()));
                }
            }
            if end_new.is_none() && (self.connections.is_empty() || now >= drained) {
                self.counts.cut = self.connections.len() as u64;
                for (_, c) in std::mem::take(&mut self.connections) {
                    stream::reset(c.client);
                    if let Some(server) = c.server {
                        stream::reset(server);
                    }
                }
                return Ok(self.counts);
            }
            let wait = if self.again.is_empty() { self.wait(now) } else { Duration::ZERO };
            self.poll.wait(wait, &mut names).map_err(|e| format!("proxy: cannot wait: {e}"))?;
            let now = sys::monotonic();
            let over = self.counts.over_limit;
            for &name in &names {
                match usize::try_from(name) {
                    Ok(at) if at < self.rules.listen.len() => self.accept(at, now),
                    _ => self.step(name, now),
                }
            }
            for _ in 0..self.again.len() {
                if let Some(name) = self.again.pop_front() {
                    self.step(name, now);
                }
            }
            self.late(now);
            if self.counts.over_limit > over && now.since(told_limit) >= Span::from_secs(10) {
                told_limit = now;
                tell(&format!(
                    "{} connections: more are reset at once, as limits says; {} so far",
                    self.connections.len(),
                    self.counts.over_limit
                ));
            }
        }
    }

    fn wait(&self, now: Time) -> Duration {
        let first = self.deadlines.first().map_or(Time::NEVER, |&(at, _)| at);
        // A whole millisecond more: epoll counts in these, and waking early would spin.
        let span = (first.since(now) + Span::from_ms(1)).min(Span::from_ms(200));
        Duration::from_nanos(span.as_ns())
    }

    fn accept(&mut self, at: usize, now: Time) {
        if now < self.resume {
            sys::sleep_until(now + Span::from_ms(1));
            return;
        }
        // Others get their turn in between.
        for _ in 0..64 {
            let Some(listener) = self.listeners.get(at) else { return };
            match stream::accept(listener.as_raw_fd()) {
                Ok(Some((client, from))) => self.begin(at, client, from, now),
                Ok(None) => return,
                Err(_) => {
                    self.resume = now + Span::from_ms(100);
                    return;
                }
            }
        }
    }

    fn begin(&mut self, at: usize, client: OwnedFd, from: SocketAddr, now: Time) {
        let whose = rules::client(from.ip());
        let of_client = self.per_client.get(&whose).copied().unwrap_or(0);
        if self.connections.len() >= self.rules.limits.connections || of_client >= self.rules.limits.per_client {
            self.counts.over_limit += 1;
            return stream::reset(client);
        }
        let fd = client.as_raw_fd();
        let listen = &self.rules.listen[at];
        let to = match listen.mode {
            Mode::Forward(to) => Ok(to),
            Mode::Redirect => stream::original_destination(fd),
            Mode::Tproxy => stream::own_address(fd),
        };
        let own = stream::own_address(fd);
        let came_to = if listen.mode == Mode::Redirect { to.as_ref().ok() } else { own.as_ref().ok() };
        let is_own = came_to.is_some_and(|came_to| self.onward.contains(&(from, *came_to)));
        let may_go = |to: &SocketAddr| match listen.mode {
            // One that was bound for the proxy itself would come back for ever.
            Mode::Forward(_) => own.is_ok_and(|own| own != *to),
            // A stranger must not reach by the proxy what its host has for itself alone.
            Mode::Redirect => is_elsewhere(to.ip()) && own.is_ok_and(|own| own.ip() != to.ip()),
            Mode::Tproxy => is_elsewhere(to.ip()) && to.port() != listen.address.port(),
        };
        let to = to.ok().filter(|to| !is_own && may_go(to));
        let (Some(to), Ok(())) = (to, stream::prepare_relay(fd)) else {
            self.counts.refused += 1;
            return stream::reset(client);
        };
        let name = self.next;
        self.next += 1;
        if self.poll.add_edges(fd, name).is_err() {
            self.counts.refused += 1;
            return stream::reset(client);
        }
        *self.per_client.entry(whose).or_default() += 1;
        let connection = Connection {
            client,
            server: None,
            stage: Stage::Naming,
            until: Time::NEVER,
            from: whose,
            to,
            onward: None,
            halves: Default::default(),
        };
        self.connections.insert(name, connection);
        if self.rules.needs_name(to) {
            self.set_deadline(name, now + span(self.rules.limits.hello_timeout));
            self.step(name, now);
        } else {
            self.connect(name, None, now);
        }
    }

    /// When the stage of a connection ends; [`Time::NEVER`]: it does not.
    fn set_deadline(&mut self, name: u64, at: Time) {
        let Some(c) = self.connections.get_mut(&name) else { return };
        self.deadlines.remove(&(c.until, name));
        c.until = at;
        if !at.is_never() {
            self.deadlines.insert((at, name));
        }
    }

    /// The onward connection, with what the rule says.
    fn connect(&mut self, name: u64, server_name: Option<&str>, now: Time) {
        let Some(c) = self.connections.get_mut(&name) else { return };
        let rule = self.rules.choose(c.to, server_name);
        self.counts.by_rule[rule.unwrap_or(self.rules.rules.len())] += 1;
        let wish = rule.and_then(|at| Some((self.rules.rules[at].target?, self.rules.rules[at].toward)));
        let (targets, mark, client) = (&mut self.targets, self.rules.mark, c.client.as_raw_fd());
        let mut give = |fd: RawFd, sides: [Toward; 2]| match (wish, targets.as_mut()) {
            (Some((target, toward)), Some(targets)) if sides.contains(&toward) => {
                targets.set(fd, target).map_err(io::Error::other)
            }
            _ => Ok(()),
        };
        let marks = self.marks;
        let begun = give(client, [Toward::Client, Toward::Both]).and_then(|()| {
            stream::begin_connect(c.to, |fd| {
                if marks {
                    stream::set_mark(fd, mark)?;
                }
                stream::prepare_relay(fd)?;
                give(fd, [Toward::Server, Toward::Both])
            })
        });
        match begun {
            Ok(server) => {
                let added = self.poll.add_edges(server.as_raw_fd(), name);
                let to = SocketAddr::new(c.to.ip().to_canonical(), c.to.port());
                c.onward = stream::own_address(server.as_raw_fd()).ok().map(|own| (own, to));
                self.onward.extend(c.onward);
                c.server = Some(server);
                c.stage = Stage::Connecting;
                if added.is_err() {
                    return self.end(name, End::Refused);
                }
                self.set_deadline(name, now + span(self.rules.limits.connect_timeout));
            }
            Err(_) => self.end(name, End::Refused),
        }
    }

    /// Does what can be done on a connection.
    fn step(&mut self, name: u64, now: Time) {
        let Some(c) = self.connections.get_mut(&name) else { return };
        match c.stage {
            Stage::Naming => {
                let mut buffer = [0; 4096];
                loop {
                    match stream::read(c.client.as_raw_fd(), &mut buffer) {
                        Ok(Moved::Bytes(n)) => {
                            c.halves[0].first.extend_from_slice(&buffer[..n]);
                            match hello::read(&c.halves[0].first) {
                                Hello::NotYet => {}
                                Hello::Name(server) => return self.connect(name, Some(&server), now),
                                Hello::Nothing => return self.connect(name, None, now),
                            }
                        }
                        Ok(Moved::NotNow) => return,
                        Ok(Moved::End) => {
                            c.halves[0].has_ended = true;
                            return self.connect(name, None, now);
                        }
                        Err(_) => return self.end(name, End::Reset),
                    }
                }
            }
            Stage::Connecting => {
                let Some(server) = &c.server else { return };
                match stream::is_connected(server.as_raw_fd()) {
                    Ok(true) => {
                        c.stage = Stage::Open;
                        self.set_deadline(name, Time::NEVER);
                        self.relay(name);
                    }
                    // A client that is gone meanwhile needs no server.
                    Ok(false) if stream::pending_error(c.client.as_raw_fd()).is_some() => self.end(name, End::Reset),
                    Ok(false) => {}
                    Err(_) => self.end(name, End::Refused),
                }
            }
            Stage::Open => self.relay(name),
        }
    }

    fn relay(&mut self, name: u64) {
        let Some(c) = self.connections.get_mut(&name) else { return };
        let Some(server) = &c.server else { return };
        let (client, server) = (c.client.as_raw_fd(), server.as_raw_fd());
        if stream::pending_error(client).is_some() || stream::pending_error(server).is_some() {
            return self.end(name, End::Reset);
        }
        let mut is_more = false;
        for (at, (from, to)) in [(client, server), (server, client)].into_iter().enumerate() {
            match c.halves[at].relay(from, to, &mut self.pipes) {
                Ok(more) => is_more |= more,
                Err(_) => return self.end(name, End::Reset),
            }
        }
        if c.halves.iter().all(|half| half.is_told) {
            self.end(name, End::Whole);
        } else if is_more {
            self.again.push_back(name);
        }
    }

    fn end(&mut self, name: u64, how: End) {
        let Some(c) = self.connections.remove(&name) else { return };
        self.deadlines.remove(&(c.until, name));
        c.onward.map(|end| self.onward.remove(&end));
        if let Some(n) = self.per_client.get_mut(&c.from) {
            *n -= 1;
            if *n == 0 {
                self.per_client.remove(&c.from);
            }
        }
        for (total, half) in self.counts.bytes.iter_mut().zip(c.halves) {
            *total += half.bytes;
        }
        match how {
            End::Whole => self.counts.whole += 1,
            End::Reset => self.counts.resets += 1,
            End::Refused => self.counts.refused += 1,
        }
        if how != End::Whole {
            stream::reset(c.client);
            if let Some(server) = c.server {
                stream::reset(server);
            }
        }
    }

    /// Ends stages that have lasted too long.
    fn late(&mut self, now: Time) {
        while let Some(&(at, name)) = self.deadlines.first() {
            if at > now {
                return;
            }
            match self.connections.get(&name).map(|c| &c.stage) {
                // One that names no server in time: the rules without names count.
                Some(Stage::Naming) => self.connect(name, None, now),
                _ => self.end(name, End::Refused),
            }
            self.deadlines.remove(&(at, name));
        }
    }
}

impl Half {
    /// Moves what can be moved. True: there may be more to move at once.
    fn relay(&mut self, from: RawFd, to: RawFd, spare: &mut Vec<Pipe>) -> io::Result<bool> {
        while !self.first.is_empty() {
            match stream::write(to, &self.first)? {
                Moved::Bytes(n) => {
                    self.first.drain(..n);
                    self.bytes += n as u64;
                }
                _ => return Ok(false),
            }
        }
        for _ in 0..TURNS {
            let mut has_moved = false;
            if !self.has_ended {
                if self.pipe.is_none() {
                    self.pipe = Some(spare.pop().map_or_else(Pipe::new, Ok)?);
                }
                match self.pipe.as_ref().map_or(Ok(Moved::NotNow), |pipe| pipe.fill(from))? {
                    Moved::Bytes(n) => {
                        self.held += n;
                        has_moved = true;
                    }
                    Moved::NotNow => {}
                    Moved::End => self.has_ended = true,
                }
            }
            if self.held > 0 {
                if let Moved::Bytes(n) = self.pipe.as_ref().map_or(Ok(Moved::NotNow), |pipe| pipe.empty(to))? {
                    self.held = self.held.saturating_sub(n);
                    self.bytes += n as u64;
                    has_moved = true;
                }
            }
            if self.held == 0 {
                if self.has_ended && !self.is_told {
                    self.is_told = true;
                    // A peer that is gone already needs no end.
                    let _ = stream::end_sending(to);
                }
                if !has_moved || self.is_told {
                    // An empty pipe may serve another connection.
                    if let Some(pipe) = self.pipe.take().filter(|_| spare.len() < SPARE_PIPES) {
                        spare.push(pipe);
                    }
                    return Ok(false);
                }
            } else if !has_moved {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Counts {
    /// As a person reads it.
    pub fn report(&self) -> String {
        let (none, rules) = self.by_rule.split_last().unwrap_or((&0, &[]));
        let mut text = String::new();
        for (at, n) in rules.iter().enumerate() {
            text += &format!("rule[{at}]: {n} connections; ");
        }
        text + &format!(
            "no rule: {none}; {} ended by both sides, {} by a reset, {} refused by servers, {} over a limit, {} cut at the end; bytes to servers {}, to clients {}",
            self.whole, self.resets, self.refused, self.over_limit, self.cut, self.bytes[0], self.bytes[1]
        )
    }
}

/// TCP-AV as this process has it in the kernel.
#[cfg(feature = "bpf")]
#[derive(Debug)]
pub struct InKernel {
    av: crate::av::Av,
    watch: crate::paths::Watch,
}

#[cfg(feature = "bpf")]
impl InKernel {
    /// Registers TCP-AV.
    pub fn start(rules: &Rules) -> Result<InKernel, String> {
        let first =
            rules.rules.iter().find_map(|rule| rule.target).unwrap_or(airtcp_core::units::DataRate::from_mbps(1));
        let (base, after_timeout) = Default::default();
        let order = crate::av::Order { target: first, base, after_timeout, cgroup: None, rules: Vec::new() };
        let av = crate::av::Av::start(order).map_err(|e| e.0)?;
        let watch =
            crate::paths::Watch::new().map_err(|e| format!("cannot listen to the kernel's routing messages: {e}"))?;
        Ok(InKernel { av, watch })
    }
}

#[cfg(feature = "bpf")]
impl Targets for InKernel {
    fn set(&mut self, socket: RawFd, target: airtcp_core::units::DataRate) -> Result<(), String> {
        sys::set_congestion_control(socket, crate::av::CONTROL).map_err(|e| e.to_string())?;
        self.av.set_target(socket, target).map_err(|e| e.0)
    }

    fn renew(&mut self) -> Result<(), String> {
        let now = sys::monotonic();
        self.watch.read(now);
        for change in self.watch.due(now, crate::paths::uses) {
            self.av.path_changed(change).map_err(|e| e.0)?;
        }
        self.av.renew().map_err(|e| e.0)
    }
}

/// Targets of a proxy that gives nobody a target.
#[derive(Debug)]
pub struct Nobody;

impl Targets for Nobody {
    fn set(&mut self, _: RawFd, _: airtcp_core::units::DataRate) -> Result<(), String> {
        Ok(())
    }

    fn renew(&mut self) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_has_for_itself_is_no_destination() {
        let is = |text: &str| is_elsewhere(text.parse().unwrap());
        for own in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "224.0.0.1", "ff02::1"] {
            assert!(!is(own), "{own}");
        }
        assert!(!is("255.255.255.255") && is("192.0.2.1") && is("2001:db8::1"));
    }
}
