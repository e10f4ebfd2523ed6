//! Acknowledgements by the hundred thousand, for connections of one namespace's loopback.
#![allow(unsafe_code, clippy::cast_possible_wrap)]

use std::io::{self, Write};
use std::mem::{size_of, zeroed};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use airtcp_core::units::Span;
use airtcp_host::sys::monotonic;
use etherparse::PacketBuilder;

const TCP_REPAIR: i32 = 19;
const TCP_REPAIR_QUEUE: i32 = 20;
const TCP_QUEUE_SEQ: i32 = 21;

fn checked(result: i32) -> i32 {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

fn set<T>(fd: RawFd, level: i32, option: i32, value: &T) {
    // SAFETY: the value has the length given.
    checked(unsafe {
        libc::setsockopt(fd, level, option, (&raw const *value).cast(), size_of::<T>() as libc::socklen_t)
    });
}

/// The next sequence number of a queue of the socket, 1: received, 2: sent.
fn next(fd: RawFd, queue: i32) -> u32 {
    set(fd, libc::IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue);
    let (mut seq, mut bytes) = (0u32, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the result has the length given.
    checked(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, TCP_QUEUE_SEQ, (&raw mut seq).cast(), &raw mut bytes) });
    seq
}

/// Connections with a byte on its way that never arrives, and for each an ACK which tells nothing new.
pub struct Flood {
    raw: OwnedFd,
    packets: Vec<Vec<u8>>,
    _open: Vec<(TcpStream, TcpStream)>,
}

impl Flood {
    /// `count` connections to `port` of this thread's loopback.
    pub fn new(port: u16, count: usize) -> Flood {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (mut packets, mut open) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut sender = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (receiver, _) = listener.accept().unwrap();
            let fd = sender.as_raw_fd();
            set(fd, libc::IPPROTO_TCP, TCP_REPAIR, &1i32);
            let (received, sent) = (next(fd, 1), next(fd, 2));
            // Off again, without a probe of the window.
            set(fd, libc::IPPROTO_TCP, TCP_REPAIR, &-1i32);
            // The receiver takes no segment: "return 0" of classic BPF.
            let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
            let filter = libc::sock_fprog { len: 1, filter: &raw mut nothing };
            set(receiver.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter);
            sender.write_all(&[0]).unwrap();
            let local = sender.local_addr().unwrap().port();
            let builder =
                PacketBuilder::ipv4([127, 0, 0, 1], [127, 0, 0, 1], 64).tcp(port, local, received, 65_535).ack(sent);
            let mut packet = Vec::new();
            builder.write(&mut packet, &[]).unwrap();
            packets.push(packet);
            open.push((sender, receiver));
        }
        // SAFETY: no pointers; the descriptor is new and owned by nobody else.
        let raw =
            unsafe { OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW))) };
        Flood { raw, packets, _open: open }
    }

    /// Sends ACKs for `span`; how many.
    pub fn run(&mut self, span: Span) -> u64 {
        // SAFETY: all-zero is valid for each of these.
        let mut to: libc::sockaddr_in = unsafe { zeroed() };
        to.sin_family = libc::AF_INET as libc::sa_family_t;
        to.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let mut parts: Vec<libc::iovec> = self
            .packets
            .iter_mut()
            .map(|p| libc::iovec { iov_base: p.as_mut_ptr().cast(), iov_len: p.len() })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all-zero is valid.
                let mut message: libc::mmsghdr = unsafe { zeroed() };
                message.msg_hdr.msg_name = (&raw mut to).cast();
                message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        let (begin, mut sent) = (monotonic(), 0);
        while monotonic().since(begin) < span {
            // SAFETY: all that the messages point to lives until the end of this function.
            let count =
                unsafe { libc::sendmmsg(self.raw.as_raw_fd(), messages.as_mut_ptr(), messages.len() as u32, 0) };
            sent += u64::from(checked(count).unsigned_abs());
        }
        sent
    }
}
