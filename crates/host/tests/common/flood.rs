//! Acknowledgements by the hundred thousand, for connections of one namespace's loopback.
#![allow(unsafe_code, clippy::cast_possible_wrap)]

use std::io::{self, Write};
use std::mem::size_of;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use airtcp_core::units::Span;
use airtcp_host::sys::monotonic;
use etherparse::PacketBuilder;
use libbpf_rs::libbpf_sys::{
    BPF_F_TEST_XDP_LIVE_FRAMES, BPF_PROG_TYPE_XDP, bpf_prog_load, bpf_prog_test_run_opts, bpf_test_run_opts,
};

/// Copies of an ACK that one call has the kernel receive. Each call waits some 30 ms until the
/// kernel has its program in place.
const COPIES: i32 = 1 << 18;

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

/// A program that passes each frame on: `mov r0, XDP_PASS` and `exit`.
fn pass() -> OwnedFd {
    let instructions: [u64; 2] = [0x2_0000_00b7, 0x95];
    // SAFETY: two instructions of eight bytes, names that end with zero; the descriptor is new and
    // owned by nobody else.
    unsafe {
        OwnedFd::from_raw_fd(checked(bpf_prog_load(
            BPF_PROG_TYPE_XDP,
            c"pass".as_ptr(),
            c"GPL".as_ptr(),
            instructions.as_ptr().cast(),
            instructions.len() as _,
            null_mut(),
        )))
    }
}

/// Connections with a byte on its way that never arrives, and for each an ACK which tells nothing
/// new.
///
/// The ACKs come from a test run of an XDP program with `BPF_F_TEST_XDP_LIVE_FRAMES` (Linux 5.18):
/// the kernel receives as many copies of a frame as asked, at less cost than sending them takes.
pub struct Flood {
    pass: OwnedFd,
    frames: Vec<Vec<u8>>,
    _open: Vec<(TcpStream, TcpStream)>,
}

impl Flood {
    /// `count` connections to `port` of this thread's loopback.
    pub fn new(port: u16, count: usize) -> Flood {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (mut frames, mut open) = (Vec::new(), Vec::new());
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
            let builder = PacketBuilder::ethernet2([0; 6], [0; 6])
                .ipv4([127, 0, 0, 1], [127, 0, 0, 1], 64)
                .tcp(port, local, received, 65_535)
                .ack(sent);
            let mut frame = Vec::new();
            builder.write(&mut frame, &[]).unwrap();
            frames.push(frame);
            open.push((sender, receiver));
        }
        Flood { pass: pass(), frames, _open: open }
    }

    /// Has the kernel receive ACKs for `span`, those of each connection in turn; how many.
    pub fn run(&mut self, span: Span) -> u64 {
        let (begin, mut received) = (monotonic(), 0);
        for frame in self.frames.iter().cycle() {
            if monotonic().since(begin) >= span {
                break;
            }
            let mut options = bpf_test_run_opts {
                sz: size_of::<bpf_test_run_opts>() as _,
                data_in: frame.as_ptr().cast(),
                data_size_in: frame.len() as u32,
                repeat: COPIES,
                flags: BPF_F_TEST_XDP_LIVE_FRAMES,
                ..Default::default()
            };
            // SAFETY: the frame lives longer than the call, and nothing is given back.
            checked(unsafe { bpf_prog_test_run_opts(self.pass.as_raw_fd(), &raw mut options) });
            received += u64::from(COPIES.unsigned_abs());
        }
        received
    }
}
