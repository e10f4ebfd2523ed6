//! System calls that the standard library does not have. The only module with `unsafe`.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use airtcp_core::units::{Span, Time};

pub mod packets;
pub mod stream;

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn length<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("small")
}

/// Time on a clock; `CLOCK_MONOTONIC` counts as BPF's `bpf_ktime_get_ns` does.
fn clock(clock: libc::clockid_t) -> Time {
    // SAFETY: an all-zero timespec is valid, and the call writes only there.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time_of(&time)
}

fn time_of(time: &libc::timespec) -> Time {
    let (seconds, ns) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    Time::from_ns(seconds * 1_000_000_000 + ns)
}

/// The clock that never jumps, from the machine's start on.
pub fn monotonic() -> Time {
    clock(libc::CLOCK_MONOTONIC)
}

/// The clock of the wall, from 1970 on.
pub fn realtime() -> Time {
    clock(libc::CLOCK_REALTIME)
}

/// A length of time as the standard library has it.
pub fn span(duration: Duration) -> Span {
    Span::from_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Waits until the monotonic clock shows `at`.
pub fn sleep_until(at: Time) {
    let ns = at.as_ns();
    let until = libc::timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
    };
    loop {
        // SAFETY: `until` is valid, and no remainder is asked for.
        let result = unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
        };
        if result != libc::EINTR {
            return;
        }
    }
}

/// Which of `fds` have something to read, after at most `timeout`.
pub fn readable(fds: &[RawFd], timeout: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let time = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: the array has the length given, and no signal mask is passed.
    let result =
        unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &raw const time, std::ptr::null()) };
    match checked(result) {
        Ok(_) => Ok(polled.iter().map(|p| p.revents != 0).collect()),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(vec![false; fds.len()]),
        Err(e) => Err(e),
    }
}

/// A netlink socket of `protocol` that hears `groups`.
pub fn netlink(protocol: libc::c_int, groups: u32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = checked(unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol)
    })?;
    // SAFETY: the descriptor is new and owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero address is valid.
    let mut address: libc::sockaddr_nl = unsafe { zeroed() };
    address.nl_family = libc::sa_family_t::try_from(libc::AF_NETLINK).unwrap_or(0);
    address.nl_groups = groups;
    // SAFETY: the address has the length given.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length::<libc::sockaddr_nl>()) })?;
    Ok(fd)
}

/// Has a netlink socket hear a group by its number.
pub fn join_group(fd: RawFd, group: u32) -> io::Result<()> {
    const SOL_NETLINK: libc::c_int = 270;
    let group = libc::c_int::try_from(group).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    set_option(fd, SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)
}

/// One datagram of the kernel on a netlink socket into `buffer`; its length. Those of other
/// processes are left out.
pub fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY: an all-zero address is valid.
        let mut from: libc::sockaddr_nl = unsafe { zeroed() };
        let mut bytes = length::<libc::sockaddr_nl>();
        // SAFETY: buffer and address have the lengths given.
        let n = unsafe {
            libc::recvfrom(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0, (&raw mut from).cast(), &raw mut bytes)
        };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        if from.nl_pid == 0 {
            return Ok(n);
        }
    }
}

/// Sends a datagram on a connected or netlink socket.
pub fn send(fd: RawFd, data: &[u8]) -> io::Result<()> {
    // SAFETY: the data have the length given.
    let n = unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) };
    if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets an integer option of a socket.
pub fn set_option(fd: RawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the value has the length given.
    checked(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), length::<libc::c_int>()) })
        .map(drop)
}

/// Chooses the congestion control of a socket.
pub fn set_congestion_control(fd: RawFd, name: &str) -> io::Result<()> {
    let bytes = libc::socklen_t::try_from(name.len()).unwrap_or(0);
    // SAFETY: the name has the length given.
    checked(unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_ptr().cast(), bytes) })
        .map(drop)
}

/// The first bytes of a connection's `TCP_INFO`.
pub fn tcp_info(fd: RawFd) -> io::Result<libc::tcp_info> {
    // SAFETY: all-zero is valid.
    let mut info: libc::tcp_info = unsafe { zeroed() };
    let mut bytes = length::<libc::tcp_info>();
    // SAFETY: the result has the length given.
    checked(unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut bytes)
    })?;
    Ok(info)
}

/// A socket's cookie, by which BPF programs know it.
pub fn cookie(fd: RawFd) -> io::Result<u64> {
    let (mut cookie, mut bytes) = (0u64, length::<u64>());
    // SAFETY: the result has the length given.
    checked(unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut cookie).cast(), &raw mut bytes)
    })?;
    Ok(cookie)
}

/// Binds a socket to an interface.
pub fn bind_to_interface(fd: RawFd, name: &str) -> io::Result<()> {
    let bytes = libc::socklen_t::try_from(name.len()).unwrap_or(0);
    // SAFETY: the name has the length given.
    checked(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_ptr().cast(), bytes) })
        .map(drop)
}

/// Has the loaded program of BPF filter what a socket receives.
pub fn attach_filter(fd: RawFd, program: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, program.as_raw_fd())
}

/// Frames of an interface begin as those of Ethernet, with the address of the sender's radio or
/// card.
pub fn has_link_addresses(name: &str) -> bool {
    let Ok(socket) = tcp_socket() else { return false };
    let mut request = interface_request(name);
    // SAFETY: the request is the struct that this ioctl takes.
    let asked = checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) });
    // SAFETY: the call has filled this part.
    asked.is_ok() && unsafe { request.ifr_ifru.ifru_hwaddr.sa_family } == libc::ARPHRD_ETHER
}

/// Argument of ioctls on interfaces.
fn interface_request(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request
}

/// The number of an interface; `None`: there is none of that name.
pub fn interface_index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a zero byte.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index > 0).then_some(index)
}

/// The name of an interface; `None`: there is none of that number.
pub fn interface_name(index: u32) -> Option<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the length that the function takes.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    if found.is_null() {
        return None;
    }
    let name = name.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Moves this thread into a network namespace of its own, which goes with its last thread and
/// socket.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Opens a TUN device `name` in this thread's namespace; packets come and go without a header.
pub fn tun(name: &str) -> io::Result<File> {
    device(name, libc::IFF_TUN)
}

/// Opens a TAP device `name` in this thread's namespace; what comes and goes are frames of
/// Ethernet.
pub fn tap(name: &str) -> io::Result<File> {
    device(name, libc::IFF_TAP)
}

fn device(name: &str, kind: libc::c_int) -> io::Result<File> {
    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    let mut request = interface_request(name);
    let flags = kind | libc::IFF_NO_PI;
    request.ifr_ifru.ifru_flags = libc::c_short::try_from(flags).unwrap_or(0);
    // SAFETY: the request is the struct that this ioctl takes.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let fd = file.as_raw_fd();
    // SAFETY: no pointers.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) })?;
    Ok(file)
}

/// Lets this thread run before ordinary ones.
pub fn run_first() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is valid; 0 is this thread.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) }).map(drop)
}

/// A TCP socket over IPv4 in this thread's namespace.
pub fn tcp_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connects it.
pub fn connect(socket: OwnedFd, address: [u8; 4], port: u16) -> io::Result<std::net::TcpStream> {
    // SAFETY: all-zero is valid.
    let mut to: libc::sockaddr_in = unsafe { zeroed() };
    to.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0);
    to.sin_port = port.to_be();
    to.sin_addr.s_addr = u32::from_ne_bytes(address);
    // SAFETY: the address has the length given.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), length::<libc::sockaddr_in>()) })?;
    Ok(socket.into())
}

/// Waits for a lock on a file, held until it is closed.
pub fn lock(file: &File) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }).map(drop)
}

/// A UDP socket of one family alone, at all addresses of `interface`, or of all of them.
pub fn udp_at(interface: Option<&str>, is_v6: bool, port: u16) -> io::Result<OwnedFd> {
    let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: no pointers.
    let fd = checked(unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if let Some(name) = interface {
        bind_to_interface(fd.as_raw_fd(), name)?;
    }
    if is_v6 {
        set_option(fd.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    // SAFETY: all-zero is valid for both, and means any address.
    let (mut v4, mut v6): (libc::sockaddr_in, libc::sockaddr_in6) = unsafe { (zeroed(), zeroed()) };
    let family = libc::sa_family_t::try_from(family).unwrap_or(0);
    (v4.sin_family, v4.sin_port) = (family, port.to_be());
    (v6.sin6_family, v6.sin6_port) = (family, port.to_be());
    let (address, bytes): (*const libc::sockaddr, _) = if is_v6 {
        ((&raw const v6).cast(), length::<libc::sockaddr_in6>())
    } else {
        ((&raw const v4).cast(), length::<libc::sockaddr_in>())
    };
    // SAFETY: the address has the length given.
    checked(unsafe { libc::bind(fd.as_raw_fd(), address, bytes) })?;
    Ok(fd)
}

/// 64 random bits of the kernel.
pub fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer has the length given.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n == 8 { Ok(u64::from_ne_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
}

static HAS_ENDED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

extern "C" fn end(_: libc::c_int) {
    HAS_ENDED.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM only make [`has_ended`] true; a second one ends the process.
pub fn catch_end() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: all-zero is a valid action; the handler does nothing but store a flag.
        unsafe {
            let mut action: libc::sigaction = zeroed();
            action.sa_sigaction = end as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// SIGINT or SIGTERM came since [`catch_end`].
pub fn has_ended() -> bool {
    HAS_ENDED.load(std::sync::atomic::Ordering::Relaxed)
}

/// The name of this thread's network namespace, unique until the next boot.
pub fn network_cookie() -> io::Result<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let socket = tcp_socket()?;
    let (mut cookie, mut bytes) = (0u64, length::<u64>());
    // SAFETY: the result has the length given.
    checked(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut bytes,
        )
    })?;
    Ok(cookie)
}

/// Lets this thread wake within a microsecond of the time it asked for.
pub fn set_exact_timers() {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// Has the kernel time each arrival on a socket, count what it drops, and hold a whole train.
pub fn prepare_arrivals(fd: RawFd) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    let bytes = 32 << 20;
    // The second is bounded by net.core.rmem_max; drops are counted in either case.
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
}

/// One datagram as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Its length, bytes.
    pub bytes: usize,
    /// When the kernel got it, on the wall's clock.
    pub at: Time,
    /// Datagrams that the kernel has dropped on this socket so far.
    pub dropped: u64,
    /// Address of its sender.
    pub from: Option<std::net::IpAddr>,
}

/// The next datagram that waits. `None`: none does.
pub fn arrival(fd: RawFd, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
    // SAFETY: all-zero is valid for all three.
    let (mut from, mut message): (libc::sockaddr_in6, libc::msghdr) = unsafe { (zeroed(), zeroed()) };
    let mut control = [0u64; 16];
    let mut place = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = length::<libc::sockaddr_in6>();
    message.msg_iov = &raw mut place;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<[u64; 16]>() as _;
    // SAFETY: all pointers of the message lead to places of the lengths given, which outlive the
    // call.
    let n = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) };
    let Ok(bytes) = usize::try_from(n) else {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    };
    let mut arrival = Arrival { bytes, at: realtime(), dropped: 0, from: None };
    // SAFETY: the kernel has filled the message; the macros walk within its control data, and each
    // value has the type that its kind says.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            let data = libc::CMSG_DATA(head);
            if (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time: libc::timespec = std::ptr::read_unaligned(data.cast());
                arrival.at = time_of(&time);
            } else if (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SO_RXQ_OVFL {
                arrival.dropped = u64::from(std::ptr::read_unaligned(data.cast::<u32>()));
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
    }
    arrival.from = match i32::from(from.sin6_family) {
        libc::AF_INET6 => Some(std::net::IpAddr::from(from.sin6_addr.s6_addr)),
        libc::AF_INET => {
            // The address of IPv4 lies where IPv6 has its flow information.
            Some(std::net::IpAddr::from(from.sin6_flowinfo.to_ne_bytes()))
        }
        _ => None,
    };
    Ok(Some(arrival))
}

/// This thread's number, by which others can name its namespace.
pub fn thread_id() -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes may send each other messages of NETLINK_USERSOCK, of other kinds with
    /// CAP_NET_ADMIN.
    #[test]
    fn netlink_messages_of_processes_are_left_out() {
        let (own, other) = (netlink(libc::NETLINK_USERSOCK, 0).unwrap(), netlink(libc::NETLINK_USERSOCK, 0).unwrap());
        // SAFETY: all-zero is valid.
        let mut at: libc::sockaddr_nl = unsafe { zeroed() };
        let mut bytes = length::<libc::sockaddr_nl>();
        // SAFETY: the address has the length given.
        checked(unsafe { libc::getsockname(own.as_raw_fd(), (&raw mut at).cast(), &raw mut bytes) }).unwrap();
        // SAFETY: as above.
        checked(unsafe { libc::connect(other.as_raw_fd(), (&raw const at).cast(), bytes) }).unwrap();
        send(other.as_raw_fd(), &[0; 16]).unwrap();
        assert_eq!(readable(&[own.as_raw_fd()], Duration::from_secs(5)).unwrap(), [true], "it has come");
        let error = receive(own.as_raw_fd(), &mut [0; 64]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
