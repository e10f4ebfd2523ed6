//! System calls of a script: what they do to connections, and what they return.

use std::collections::BTreeMap;

use airtcp_core::units::{Bytes, Time};

use crate::connection::Connection;
use crate::script::{Call, Expr, Segment};
use crate::settings::{Reason, Settings, payload_of_receive_memory, payload_of_send_memory};

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Returned {
    /// A value; below zero with an error's name.
    Value(i64, Option<&'static str>),
    /// It waits.
    Waits,
    /// A value that it fills in is not what the script states.
    Different(String),
    /// As the script says: what decides it is not modelled.
    AsScripted,
}

/// A call that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// Line of the script.
    pub line: u32,
    /// It waits for that.
    pub what: Wait,
    /// Its result.
    pub expected: Option<i64>,
    /// When it is to return.
    pub until: Time,
}

/// Event that ends a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The handshake of a connection.
    Established(usize),
    /// A connection of a listening socket; the descriptor it gets.
    Accept(Option<i64>),
    /// Data, up to so many bytes.
    Read(usize, u64),
}

#[derive(Debug, Clone, Default)]
struct Fresh {
    nonblocking: bool,
    listens: bool,
    mss: Option<u16>,
    receive_buffer: Option<u64>,
    send_buffer: Option<u64>,
    control: Option<String>,
    is_bound: bool,
}

#[derive(Debug, Clone)]
enum Descriptor {
    Fresh(Fresh),
    Connected { connection: usize, nonblocking: bool, reads_nothing: bool },
    Closed,
}

/// All sockets of a script.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Connections, the oldest first.
    pub connections: Vec<Connection>,
    descriptors: BTreeMap<i64, Descriptor>,
    /// Connections that no `accept` has taken.
    backlog: Vec<usize>,
    /// The socket that listens, and whether no SYN has come for it.
    listener: Option<i64>,
    awaits_syn: bool,
}

/// Longest write or read that counts.
const MOST: i64 = 1 << 40;

impl Sockets {
    /// The connection that the script deals with.
    pub fn current(&mut self) -> Option<&mut Connection> {
        self.connections.last_mut()
    }

    /// A SYN of the peer.
    ///
    /// # Errors
    ///
    /// Nobody listens, or it asks for what is not modelled.
    pub fn on_syn(&mut self, settings: &Settings, now: Time, syn: &Segment) -> Result<(), Reason> {
        let Some(Descriptor::Fresh(listener)) = self.listener.and_then(|at| self.descriptors.get(&at)) else {
            return Err("a SYN that nobody waits for (it takes a reset)".to_owned());
        };
        let settings = settings_of(listener, settings)?;
        let connection = Connection::accept(&settings, listener.mss, now, syn)?;
        self.connections.push(connection);
        self.awaits_syn = false;
        self.backlog.push(self.connections.len() - 1);
        Ok(())
    }

    /// The next SYN opens a connection: a later one has the same addresses, and is for that one.
    pub fn awaits_syn(&self) -> bool {
        self.awaits_syn
    }

    /// Result of a call that waits, if it is over.
    pub fn resume(&mut self, wait: Wait, now: Time) -> Option<i64> {
        match wait {
            Wait::Established(at) => self.connections.get(at).filter(|c| c.is_established()).map(|_| 0),
            Wait::Accept(descriptor) => self.take_from_backlog(descriptor, false),
            Wait::Read(at, bytes) => {
                let connection = self.connections.get_mut(at)?;
                if connection.unread() > 0 {
                    return i64::try_from(connection.read(now, bytes)).ok();
                }
                connection.peer_has_ended().then_some(0)
            }
        }
    }

    fn take_from_backlog(&mut self, descriptor: Option<i64>, nonblocking: bool) -> Option<i64> {
        let place = self.backlog.iter().position(|&at| self.connections[at].is_established())?;
        let connection = self.backlog.remove(place);
        let descriptor = descriptor.unwrap_or(1000);
        self.descriptors.insert(descriptor, Descriptor::Connected { connection, nonblocking, reads_nothing: false });
        Some(descriptor)
    }

    /// Carries a call out.
    ///
    /// # Errors
    ///
    /// It needs something that is not modelled.
    pub fn call(&mut self, call: &Call, settings: &Settings, now: Time) -> Result<(Returned, Option<Wait>), Reason> {
        let done = |value| Ok((Returned::Value(value, None), None));
        let failed = |name| Ok((Returned::Value(-1, Some(name)), None));
        let first = call.arguments.first().and_then(Expr::int).unwrap_or(-1);
        let words: Vec<&str> = call.arguments.iter().flat_map(Expr::words).collect();
        let has = |word: &str| words.contains(&word);
        match call.name.as_str() {
            "socket" => {
                if !has("SOCK_STREAM") {
                    return Err("a socket that is not of TCP".to_owned());
                }
                if words.iter().any(|word| word.contains("MPTCP")) {
                    return Err("MPTCP".to_owned());
                }
                let Some(descriptor) = call.result.int() else { return Ok((Returned::AsScripted, None)) };
                let fresh = Fresh { nonblocking: has("SOCK_NONBLOCK"), ..Fresh::default() };
                self.descriptors.insert(descriptor, Descriptor::Fresh(fresh));
                done(descriptor)
            }
            "bind" => match self.descriptors.get_mut(&first) {
                Some(Descriptor::Fresh(fresh)) => {
                    fresh.is_bound = true;
                    done(0)
                }
                _ => failed("EBADF"),
            },
            "listen" => match self.descriptors.get_mut(&first) {
                Some(Descriptor::Fresh(fresh)) => {
                    fresh.listens = true;
                    (self.listener, self.awaits_syn) = (Some(first), true);
                    done(0)
                }
                _ => failed("EBADF"),
            },
            "accept" | "accept4" => {
                let Some(Descriptor::Fresh(fresh)) = self.descriptors.get(&first) else { return failed("EBADF") };
                let (nonblocking, wanted) = (fresh.nonblocking, call.result.int().filter(|n| *n >= 0));
                match self.take_from_backlog(wanted, has("SOCK_NONBLOCK")) {
                    Some(descriptor) => done(descriptor),
                    None if nonblocking => failed("EAGAIN"),
                    None => Ok((Returned::Waits, Some(Wait::Accept(wanted)))),
                }
            }
            "connect" => self.connect(call, settings, now, first),
            "fcntl" => {
                let sets = words.first() == Some(&"F_SETFL");
                match self.descriptors.get_mut(&first) {
                    Some(Descriptor::Fresh(Fresh { nonblocking, .. }) | Descriptor::Connected { nonblocking, .. }) => {
                        if sets {
                            *nonblocking = has("O_NONBLOCK");
                            done(0)
                        } else {
                            done(if *nonblocking { 0x802 } else { 2 })
                        }
                    }
                    _ => failed("EBADF"),
                }
            }
            "setsockopt" => self.set_option(call, now, first),
            "getsockopt" => self.get_option(call, first),
            "write" | "send" | "sendto" | "sendmsg" | "writev" => self.write(call, now, first, &words),
            "read" | "recv" | "recvfrom" | "recvmsg" | "readv" => self.read(call, now, first, &words),
            "shutdown" => {
                let Some(Descriptor::Connected { connection, reads_nothing, .. }) = self.descriptors.get_mut(&first)
                else {
                    return if matches!(self.descriptors.get(&first), Some(Descriptor::Fresh(_))) {
                        failed("ENOTCONN")
                    } else {
                        failed("EBADF")
                    };
                };
                *reads_nothing |= has("SHUT_RD") || has("SHUT_RDWR");
                if has("SHUT_WR") || has("SHUT_RDWR") {
                    self.connections[*connection].end(now);
                }
                done(0)
            }
            "close" => self.close(now, first),
            "ioctl" => {
                let Some(Descriptor::Connected { connection, .. }) = self.descriptors.get(&first) else {
                    return failed("EBADF");
                };
                let connection = &self.connections[*connection];
                let value = match words.first() {
                    Some(&"SIOCINQ" | &"FIONREAD") => connection.unread(),
                    Some(&"SIOCOUTQ" | &"TIOCOUTQ") => connection.unacknowledged(),
                    Some(&"SIOCOUTQNSD") => connection.unsent(),
                    _ => return Err("this ioctl".to_owned()),
                };
                match call.arguments.last().and_then(Expr::int) {
                    Some(expected) if u64::try_from(expected) != Ok(value) => {
                        Ok((Returned::Different(format!("the value is {value}, not {expected}")), None))
                    }
                    _ => done(0),
                }
            }
            "epoll_create" | "epoll_create1" | "epoll_ctl" | "epoll_wait" => Err("epoll".to_owned()),
            "poll" => Err("poll".to_owned()),
            "sendfile" | "splice" | "open" | "pipe" | "vmsplice" | "tee" => Err(format!("`{}`", call.name)),
            other => Err(format!("the system call `{other}`")),
        }
    }

    fn connect(
        &mut self,
        call: &Call,
        settings: &Settings,
        now: Time,
        first: i64,
    ) -> Result<(Returned, Option<Wait>), Reason> {
        match self.descriptors.get(&first) {
            Some(Descriptor::Fresh(fresh)) => {
                let words = call.arguments.iter().flat_map(Expr::words);
                if words.into_iter().any(|word| word == "AF_UNSPEC") {
                    return Err("a connect that disconnects".to_owned());
                }
                let nonblocking = fresh.nonblocking;
                let own = settings_of(fresh, settings)?;
                let connection = Connection::connect(&own, fresh.mss, now);
                self.connections.push(connection);
                let at = self.connections.len() - 1;
                self.descriptors
                    .insert(first, Descriptor::Connected { connection: at, nonblocking, reads_nothing: false });
                if nonblocking {
                    Ok((Returned::Value(-1, Some("EINPROGRESS")), None))
                } else {
                    Ok((Returned::Waits, Some(Wait::Established(at))))
                }
            }
            Some(Descriptor::Connected { connection, .. }) => {
                let is_established = self.connections[*connection].is_established();
                let expects_success = call.result.int() == Some(0);
                if is_established && expects_success {
                    Ok((Returned::Value(0, None), None))
                } else {
                    Ok((Returned::Value(-1, Some(if is_established { "EISCONN" } else { "EALREADY" })), None))
                }
            }
            _ => Ok((Returned::Value(-1, Some("EBADF")), None)),
        }
    }

    fn set_option(&mut self, call: &Call, now: Time, first: i64) -> Result<(Returned, Option<Wait>), Reason> {
        let done = Ok((Returned::Value(0, None), None));
        let name = call.arguments.get(2).map(Expr::words).and_then(|words| words.first().copied()).unwrap_or("");
        let value = call.arguments.get(3).and_then(Expr::int);
        let Some(descriptor) = self.descriptors.get_mut(&first) else {
            return Ok((Returned::Value(-1, Some("EBADF")), None));
        };
        let fresh = match descriptor {
            Descriptor::Fresh(fresh) => Some(fresh),
            _ => None,
        };
        let bytes = value.and_then(|n| u64::try_from(n).ok());
        match (name, fresh) {
            (
                "SO_REUSEADDR" | "SO_REUSEPORT" | "SO_MARK" | "SO_PRIORITY" | "SO_BINDTODEVICE" | "IP_TOS"
                | "IPV6_TCLASS" | "IP_MTU_DISCOVER" | "IP_FREEBIND" | "IPV6_V6ONLY" | "IP_RECVERR" | "IPV6_RECVERR"
                | "IP_TTL" | "TCP_NOTSENT_LOWAT" | "SO_SNDBUFFORCE" | "SO_KEEPALIVE" | "TCP_SYNCNT",
                _,
            ) if value != Some(1) || name != "SO_KEEPALIVE" => done,
            ("TCP_NODELAY" | "TCP_INQ", _) => done,
            ("TCP_FASTOPEN", _) if value == Some(0) => done,
            ("TCP_MAXSEG", Some(fresh)) => {
                fresh.mss = value.and_then(|n| u16::try_from(n).ok());
                done
            }
            ("SO_RCVBUF", Some(fresh)) => {
                fresh.receive_buffer = bytes;
                done
            }
            ("SO_SNDBUF", Some(fresh)) => {
                fresh.send_buffer = bytes;
                done
            }
            // The bound is far above what scripts write, and autotuning ends.
            ("SO_SNDBUF", None) => done,
            ("TCP_CONGESTION", Some(fresh)) => {
                fresh.control = match call.arguments.get(3) {
                    Some(Expr::Text(name)) => Some(name.clone()),
                    Some(Expr::Word(name)) => Some(name.clone()),
                    _ => None,
                };
                done
            }
            (name, _) => {
                let _ = now;
                Err(format!("the socket option {name}"))
            }
        }
    }

    fn get_option(&mut self, call: &Call, first: i64) -> Result<(Returned, Option<Wait>), Reason> {
        let name = call.arguments.get(2).map(Expr::words).and_then(|words| words.first().copied()).unwrap_or("");
        let stated = call.arguments.get(3).and_then(Expr::int);
        let value = match (name, self.descriptors.get(&first)) {
            ("SO_ERROR", Some(Descriptor::Connected { connection, .. })) => {
                if self.connections[*connection].is_reset() {
                    return Err("the error of a connection that was reset".to_owned());
                }
                0
            }
            ("TCP_MAXSEG", Some(Descriptor::Connected { connection, .. })) => {
                let connection = &self.connections[*connection];
                let options = if connection.agreed().0 { 12 } else { 0 };
                i64::from(connection.mss().saturating_sub(options))
            }
            ("TCP_MAXSEG", Some(Descriptor::Fresh(fresh))) => i64::from(fresh.mss.unwrap_or(536)),
            ("SO_SNDBUF", Some(Descriptor::Fresh(_) | Descriptor::Connected { .. })) => {
                return Ok((Returned::AsScripted, None));
            }
            (_, None | Some(Descriptor::Closed)) => return Ok((Returned::Value(-1, Some("EBADF")), None)),
            (name, _) => return Err(format!("the socket option {name}")),
        };
        match stated {
            Some(stated) if stated != value => {
                Ok((Returned::Different(format!("{name} is {value}, not {stated}")), None))
            }
            _ => Ok((Returned::Value(0, None), None)),
        }
    }

    fn write(
        &mut self,
        call: &Call,
        now: Time,
        first: i64,
        words: &[&str],
    ) -> Result<(Returned, Option<Wait>), Reason> {
        for (flag, reason) in [
            ("MSG_FASTOPEN", "TCP Fast Open"),
            ("MSG_ZEROCOPY", "MSG_ZEROCOPY"),
            ("MSG_MORE", "corking (MSG_MORE)"),
            ("MSG_EOR", "the end of a record (MSG_EOR)"),
            ("MSG_OOB", "urgent data"),
            ("MSG_SPLICE_PAGES", "MSG_SPLICE_PAGES"),
        ] {
            if words.contains(&flag) {
                return Err(reason.to_owned());
            }
        }
        let (at, nonblocking) = match self.descriptors.get(&first) {
            Some(Descriptor::Connected { connection, nonblocking, .. }) => (*connection, *nonblocking),
            Some(Descriptor::Fresh(_)) => return Ok((Returned::Value(-1, Some("EPIPE")), None)),
            _ => return Ok((Returned::Value(-1, Some("EBADF")), None)),
        };
        let connection = &mut self.connections[at];
        if connection.is_reset() {
            return Err("calls after a reset".to_owned());
        }
        if connection.has_ended() {
            return Ok((Returned::Value(-1, Some("EPIPE")), None));
        }
        if !connection.is_established() {
            return Ok((Returned::Value(-1, Some("EAGAIN")), None));
        }
        let wanted = match call.name.as_str() {
            "sendmsg" | "writev" => lengths(&call.arguments),
            _ => call.arguments.get(2).and_then(Expr::int),
        };
        let Some(wanted) = wanted.filter(|n| (0..=MOST).contains(n)) else {
            return Ok((Returned::AsScripted, None));
        };
        let expected = call.result.int();
        if expected.is_some_and(|n| n < 0) && call.error.as_deref() != Some("EAGAIN") {
            // A bad argument: the call has no effect on TCP.
            return Ok((Returned::AsScripted, None));
        }
        // The room in a send buffer depends on the kernel's memory for each skb.
        let nonblocking = nonblocking || words.contains(&"MSG_DONTWAIT");
        let taken = match expected {
            Some(-1) if nonblocking && connection.unacknowledged() > 0 => return Ok((Returned::AsScripted, None)),
            Some(n) if (0..wanted).contains(&n) => n,
            _ => wanted,
        };
        connection.write(now, u64::try_from(taken).unwrap_or(0));
        Ok((Returned::Value(taken, None), None))
    }

    fn read(&mut self, call: &Call, now: Time, first: i64, words: &[&str]) -> Result<(Returned, Option<Wait>), Reason> {
        if words.contains(&"MSG_ERRQUEUE") {
            return Err("the error queue of a socket (MSG_ERRQUEUE)".to_owned());
        }
        if words.iter().any(|word| matches!(*word, "MSG_PEEK" | "MSG_OOB" | "MSG_WAITALL" | "MSG_TRUNC")) {
            return Err("flags of a read".to_owned());
        }
        let (at, nonblocking, reads_nothing) = match self.descriptors.get(&first) {
            Some(Descriptor::Connected { connection, nonblocking, reads_nothing }) => {
                (*connection, *nonblocking, *reads_nothing)
            }
            Some(Descriptor::Fresh(_)) => return Ok((Returned::Value(-1, Some("ENOTCONN")), None)),
            _ => return Ok((Returned::Value(-1, Some("EBADF")), None)),
        };
        let connection = &mut self.connections[at];
        if connection.is_reset() {
            return Err("calls after a reset".to_owned());
        }
        let mut waits_after = None;
        let wanted = match call.name.as_str() {
            "recvmsg" | "readv" => {
                let control = call.arguments.iter().find_map(|argument| argument.field("msg_control"));
                if let Some(control) = control.filter(|list| !list.words().is_empty()) {
                    // TCP_INQ: the bytes that wait after this read.
                    let Expr::List(messages) = control else { return Err("control messages of recvmsg".to_owned()) };
                    let inq = messages.iter().find(|message| message.words().contains(&"TCP_CM_INQ"));
                    waits_after = inq.and_then(|message| message.field("cmsg_data")).and_then(Expr::int);
                    if waits_after.is_none() || messages.len() > 1 {
                        return Err("control messages of recvmsg".to_owned());
                    }
                }
                lengths(&call.arguments)
            }
            _ => call.arguments.get(2).and_then(Expr::int),
        };
        if call.result.int().is_some_and(|n| n < 0) && call.error.as_deref() != Some("EAGAIN") {
            return Ok((Returned::AsScripted, None));
        }
        let Some(wanted) = wanted.and_then(|n| u64::try_from(n).ok()) else {
            return Ok((Returned::AsScripted, None));
        };
        if connection.unread() > 0 {
            let taken = connection.read(now, wanted);
            // The end of the stream counts as one byte where nothing else waits.
            let waits = connection.unread().max(u64::from(connection.peer_has_ended()));
            if let Some(says) = waits_after.filter(|says| u64::try_from(*says) != Ok(waits)) {
                return Ok((Returned::Different(format!("TCP_CM_INQ is {waits}, not {says}")), None));
            }
            return Ok((Returned::Value(i64::try_from(taken).unwrap_or(i64::MAX), None), None));
        }
        if connection.peer_has_ended() || reads_nothing || wanted == 0 {
            return Ok((Returned::Value(0, None), None));
        }
        if nonblocking || words.contains(&"MSG_DONTWAIT") {
            return Ok((Returned::Value(-1, Some("EAGAIN")), None));
        }
        Ok((Returned::Waits, Some(Wait::Read(at, wanted))))
    }

    fn close(&mut self, now: Time, first: i64) -> Result<(Returned, Option<Wait>), Reason> {
        let Some(descriptor) = self.descriptors.get_mut(&first) else {
            return Ok((Returned::Value(-1, Some("EBADF")), None));
        };
        match std::mem::replace(descriptor, Descriptor::Closed) {
            Descriptor::Fresh(fresh) => {
                if fresh.listens {
                    self.listener = None;
                }
            }
            Descriptor::Connected { connection, .. } => {
                let connection = &mut self.connections[connection];
                if connection.unread() > 0 {
                    return Err("a close with data unread (it takes a reset)".to_owned());
                }
                connection.end(now);
            }
            Descriptor::Closed => return Ok((Returned::Value(-1, Some("EBADF")), None)),
        }
        Ok((Returned::Value(0, None), None))
    }
}

/// A host's settings with those of a socket.
fn settings_of(fresh: &Fresh, settings: &Settings) -> Result<Settings, Reason> {
    let mut own = settings.clone();
    if let Some(control) = &fresh.control {
        own.set_control(control)?;
    }
    // Linux doubles what is asked for, and tunes it no further.
    if let Some(bytes) = fresh.receive_buffer {
        let payload = Bytes::new(payload_of_receive_memory(bytes.saturating_mul(2).max(2304)));
        (own.tcp.buffers.receive, own.tcp.buffers.receive_max) = (payload, payload);
        own.receive_memory_max = payload.get();
    }
    if let Some(bytes) = fresh.send_buffer {
        let payload = Bytes::new(payload_of_send_memory(bytes.saturating_mul(2).max(4608)));
        (own.tcp.buffers.send, own.tcp.buffers.send_max) = (payload, payload);
    }
    Ok(own)
}

/// Bytes in all pieces of a message.
fn lengths(arguments: &[Expr]) -> Option<i64> {
    fn of(expr: &Expr) -> Option<i64> {
        match expr {
            Expr::List(items) => items.iter().map(of).try_fold(0_i64, |all, n| all.checked_add(n?)),
            Expr::Struct(items) => match &items[..] {
                [Expr::Any, length] => length.int(),
                _ => None,
            },
            _ => None,
        }
    }
    arguments.iter().find_map(|argument| match argument {
        Expr::Struct(_) => argument.field("msg_iov").and_then(of),
        Expr::List(_) => of(argument),
        _ => None,
    })
}
