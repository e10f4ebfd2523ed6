//! Sender and receiver: sockets in either namespace, driven by the thread that carries the packets.
//!
//! A reader in a process of its own reads when the scheduler lets it, and the kernel acknowledges
//! some segments when they are read: on a loaded machine its ACKs are the scheduler's. Here data is
//! read as soon as it has been delivered, and what the senders have to send is topped up well
//! before it runs out; both are checked.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::clock::os_error;

const PORT: u16 = 5001;
/// TCP_INFO's fields that are sampled, with their places in `struct tcp_info`
/// (include/uapi/linux/tcp.h) and sizes.
const INFO: [(&str, usize, usize); 9] = [
    ("rtt_us", 68, 4),
    ("ssthresh", 76, 4),
    ("cwnd", 80, 4),
    ("total_retrans", 100, 4),
    ("bytes_acked", 120, 8),
    ("notsent_bytes", 144, 4),
    ("min_rtt_us", 148, 4),
    ("rwnd_limited_us", 176, 8),
    ("sndbuf_limited_us", 184, 8),
];
/// Bytes that one attempt to top up writes at most. A copy of more would hold the socket while ACKs
/// come.
const CHUNK: usize = 65_536;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// When which flow starts and what it runs.
pub struct Plan {
    pub cc: String,
    /// After the beginning, ns.
    pub starts_ns: Vec<u64>,
    /// Data ahead of what TCP has sent, bytes.
    pub ahead: u64,
}

struct Flow {
    start_ns: u64,
    socket: OwnedFd,
    open: bool,
    written: u64,
    /// Rows of TCP_INFO, as JSON.
    series: Vec<String>,
}

pub struct Hosts {
    flows: Vec<Flow>,
    listener: OwnedFd,
    receivers: Vec<OwnedFd>,
    /// Those whose sender has closed.
    ended: Vec<OwnedFd>,
    peer: [u8; 4],
    ahead: u64,
    into: Vec<u8>,
    /// Bytes read.
    read: u64,
}

/// Moves the calling thread to a network namespace, as `ip netns` names them.
pub fn enter(netns: &str) -> Result<(), String> {
    let path = format!("/run/netns/{netns}");
    let ns = File::open(&path).map_err(|e| format!("{path}: {e}"))?;
    // SAFETY: `ns` is an open descriptor of a network namespace.
    match unsafe { libc::setns(ns.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(os_error(&format!("setns {netns}"))),
    }
}

fn socket() -> Result<OwnedFd, String> {
    // SAFETY: the returned descriptor is owned by the OwnedFd and nothing else.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
        if fd < 0 { Err(os_error("socket")) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

fn set(fd: RawFd, level: i32, option: i32, value: &[u8], what: &str) -> Result<(), String> {
    // SAFETY: the pointer is valid for the length given.
    let done = unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    if done == 0 { Ok(()) } else { Err(os_error(what)) }
}

fn address(ip: [u8; 4]) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: PORT.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ip) },
        sin_zero: [0; 8],
    }
}

const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

fn would_block() -> bool {
    matches!(io::Error::last_os_error().kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Hosts {
    /// Makes the sockets of `plan`: senders in `from`, a listener in `to`, whose address is `peer`.
    pub fn new(from: &str, to: &str, peer: [u8; 4], plan: Plan) -> Result<Hosts, String> {
        enter(to)?;
        let listener = socket()?;
        let any = address([0; 4]);
        // SAFETY: `any` is a socket address of the length given; the descriptor is open.
        unsafe {
            if libc::bind(listener.as_raw_fd(), (&raw const any).cast(), ADDRESS_BYTES) != 0
                || libc::listen(listener.as_raw_fd(), plan.starts_ns.len().max(1) as i32) != 0
            {
                return Err(os_error("listen"));
            }
        }
        enter(from)?;
        let mut flows = Vec::new();
        for &start_ns in &plan.starts_ns {
            let socket = socket()?;
            let fd = socket.as_raw_fd();
            set(
                fd,
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                plan.cc.as_bytes(),
                &format!("TCP_CONGESTION {}", plan.cc),
            )?;
            // Twice what is to be ahead, and room for what is outstanding; the kernel doubles it
            // for its own needs.
            let bytes = i32::try_from(2 * plan.ahead + (16 << 20)).unwrap_or(i32::MAX / 2);
            set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes.to_ne_bytes(), "SO_SNDBUFFORCE")?;
            flows.push(Flow { start_ns, socket, open: false, written: 0, series: Vec::new() });
        }
        let into = vec![0; 1 << 20];
        Ok(Hosts { flows, listener, receivers: Vec::new(), ended: Vec::new(), peer, ahead: plan.ahead, into, read: 0 })
    }

    /// Descriptors that become readable when there is something to do at the receiver.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        std::iter::once(self.listener.as_raw_fd()).chain(self.receivers.iter().map(AsRawFd::as_raw_fd))
    }

    /// When the next flow starts, after the beginning.
    pub fn next_start(&self) -> Option<u64> {
        self.flows.iter().filter(|f| !f.open).map(|f| f.start_ns).min()
    }

    /// Opens the connections whose time has come.
    pub fn open(&mut self, since_begin_ns: u64) -> Result<(), String> {
        let peer = address(self.peer);
        for flow in self.flows.iter_mut().filter(|f| !f.open && f.start_ns <= since_begin_ns) {
            // SAFETY: `peer` is a socket address of the length given; the descriptor is open.
            let done = unsafe { libc::connect(flow.socket.as_raw_fd(), (&raw const peer).cast(), ADDRESS_BYTES) };
            if done != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINPROGRESS) {
                return Err(os_error("connect"));
            }
            flow.open = true;
        }
        Ok(())
    }

    /// Reads whatever has come; whether there was anything.
    pub fn receive(&mut self) -> Result<bool, String> {
        let before = self.read;
        loop {
            // SAFETY: the listener is open; no address is asked for.
            let fd = unsafe {
                libc::accept4(
                    self.listener.as_raw_fd(),
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    libc::SOCK_NONBLOCK,
                )
            };
            if fd < 0 {
                break;
            }
            // SAFETY: a new descriptor that nothing else owns.
            self.receivers.push(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        let mut at = 0;
        while at < self.receivers.len() {
            let fd = self.receivers[at].as_raw_fd();
            at += 1;
            loop {
                // SAFETY: `into` is valid for its length.
                let n = unsafe { libc::recv(fd, self.into.as_mut_ptr().cast(), self.into.len(), 0) };
                match n {
                    1.. => self.read += n as u64,
                    0 if !self.flows.is_empty() => return Err("a connection ended before its time".into()),
                    0 => {
                        at -= 1;
                        // SAFETY: the descriptor is open.
                        unsafe { libc::shutdown(fd, libc::SHUT_WR) };
                        self.ended.push(self.receivers.remove(at));
                        break;
                    }
                    _ if would_block() => break,
                    _ => return Err(os_error("recv")),
                }
            }
        }
        Ok(self.read > before)
    }

    /// Samples TCP_INFO of all flows that are open, then tops up what they have to send.
    pub fn sample(&mut self, now: u64) -> Result<(), String> {
        for flow in self.flows.iter_mut().filter(|f| f.open) {
            let fd = flow.socket.as_raw_fd();
            let raw = tcp_info(fd)?;
            let fields: Vec<String> = INFO.iter().map(|&(_, at, bytes)| field(&raw, at, bytes).to_string()).collect();
            flow.series.push(format!("[{now},{}]", fields.join(",")));
            let unsent = field(&raw, 144, 4);
            let mut left = self.ahead.saturating_sub(unsent);
            while left > 0 {
                // SAFETY: the pointer is valid for the length given.
                let n = unsafe { libc::send(fd, ZEROS.as_ptr().cast(), CHUNK, libc::MSG_NOSIGNAL) };
                if n < 0 {
                    // Not connected yet, or no room.
                    if would_block() || io::Error::last_os_error().raw_os_error() == Some(libc::ENOTCONN) {
                        break;
                    }
                    return Err(os_error("send"));
                }
                flow.written += n as u64;
                left = left.saturating_sub(n as u64);
                if flow.written > 4 * CHUNK as u64 && flow.series.len() < 3 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Ends the connections at once; what is waiting to be sent is dropped.
    pub fn close(self) -> String {
        let linger = libc::linger { l_onoff: 1, l_linger: 0 };
        // SAFETY: `linger` lives as long as the slice of its bytes.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const linger).cast::<u8>(), size_of::<libc::linger>()) };
        for flow in &self.flows {
            // The socket is closed in any case; without this it would go on sending for a while.
            let _ = set(flow.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, bytes, "SO_LINGER");
        }
        let names: Vec<String> = INFO.iter().map(|(name, ..)| format!("\"{name}\"")).collect();
        let flows: Vec<String> = self.flows.iter().map(|f| format!("[{}]", f.series.join(","))).collect();
        format!(
            "\"read_bytes\":{},\"flow_columns\":[\"time_ns\",{}],\"flows\":[{}]",
            self.read,
            names.join(","),
            flows.join(",")
        )
    }
}

fn tcp_info(fd: RawFd) -> Result<[u8; 256], String> {
    let mut raw = [0u8; 256];
    let mut len = raw.len() as libc::socklen_t;
    // SAFETY: the buffer is valid for the length given.
    let done =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, raw.as_mut_ptr().cast(), &raw mut len) };
    if done == 0 { Ok(raw) } else { Err(os_error("TCP_INFO")) }
}

fn field(raw: &[u8], at: usize, bytes: usize) -> u64 {
    match bytes {
        4 => u64::from(u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])),
        _ => u64::from_ne_bytes(std::array::from_fn(|i| raw[at + i])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_tcp_info_are_taken_from_their_places() {
        let mut raw = [0u8; 256];
        raw[68..72].copy_from_slice(&41_000u32.to_ne_bytes());
        raw[120..128].copy_from_slice(&(1u64 << 40).to_ne_bytes());
        let of = |name| INFO.iter().find(|f| f.0 == name).map(|&(_, at, bytes)| field(&raw, at, bytes));
        assert_eq!((of("rtt_us"), of("bytes_acked"), of("cwnd")), (Some(41_000), Some(1 << 40), Some(0)));
        // No two fields overlap.
        let mut ends: Vec<_> = INFO.iter().map(|&(_, at, bytes)| (at, at + bytes)).collect();
        ends.sort_unstable();
        assert!(ends.windows(2).all(|w| w[0].1 <= w[1].0), "{ends:?}");
    }
}
