//! Sockets of the proxy: listening, onward connections, splicing, readiness.

use std::ffi::c_void;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::{checked, length, set_option};

fn family(value: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(value).unwrap_or(0)
}

/// An address as the kernel has it, and its length.
fn to_kernel(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all-zero is valid.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    match address {
        SocketAddr::V4(v4) => {
            let to = libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for every kind of address.
            unsafe { std::ptr::write((&raw mut storage).cast(), to) };
            (storage, length::<libc::sockaddr_in>())
        }
        SocketAddr::V6(v6) => {
            let to = libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { std::ptr::write((&raw mut storage).cast(), to) };
            (storage, length::<libc::sockaddr_in6>())
        }
    }
}

/// An address of the kernel; those of IPv4 as such, also where IPv6 maps them.
fn of_kernel(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let place: *const libc::sockaddr_storage = storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is the type.
            let v4: libc::sockaddr_in = unsafe { std::ptr::read(place.cast()) };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is the type.
            let v6: libc::sockaddr_in6 = unsafe { std::ptr::read(place.cast()) };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip.to_canonical(), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

fn socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let fd = checked(unsafe { libc::socket(domain, kind, 0) })?;
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives a socket an address of its own.
pub fn bind(fd: RawFd, address: SocketAddr) -> io::Result<()> {
    let (to, bytes) = to_kernel(address);
    // SAFETY: the address has the length given.
    checked(unsafe { libc::bind(fd, (&raw const to).cast(), bytes) }).map(drop)
}

/// Listens on an address. `transparent`: also for connections to other hosts that netfilter's
/// TPROXY brings; takes CAP_NET_ADMIN.
pub fn listen(address: SocketAddr, transparent: bool) -> io::Result<OwnedFd> {
    let fd = socket(address)?;
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if transparent {
        match address {
            SocketAddr::V4(_) => set_option(fd.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)?,
            SocketAddr::V6(_) => set_option(fd.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)?,
        }
    }
    bind(fd.as_raw_fd(), address)?;
    // SAFETY: no pointers. The kernel bounds the number by net.core.somaxconn.
    checked(unsafe { libc::listen(fd.as_raw_fd(), 4096) })?;
    Ok(fd)
}

/// The next connection of a listener, and whose it is. `None`: none waits.
pub fn accept(listener: RawFd) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
    loop {
        // SAFETY: all-zero is valid.
        let mut from: libc::sockaddr_storage = unsafe { zeroed() };
        let mut bytes = length::<libc::sockaddr_storage>();
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the address has the length given.
        let fd = unsafe { libc::accept4(listener, (&raw mut from).cast(), &raw mut bytes, flags) };
        if fd >= 0 {
            // SAFETY: the descriptor is new and owned by nobody else.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            let Some(from) = of_kernel(&from) else { continue };
            return Ok(Some((fd, from)));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN) => return Ok(None),
            // The client has given up meanwhile; errors of its path come here, too (accept(2)).
            Some(
                libc::EINTR
                | libc::ECONNABORTED
                | libc::EPROTO
                | libc::ENETDOWN
                | libc::EHOSTDOWN
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EOPNOTSUPP
                | libc::ENOPROTOOPT,
            ) => {}
            _ => return Err(error),
        }
    }
}

/// The socket's own address.
pub fn own_address(fd: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: all-zero is valid.
    let mut at: libc::sockaddr_storage = unsafe { zeroed() };
    let mut bytes = length::<libc::sockaddr_storage>();
    // SAFETY: the address has the length given.
    checked(unsafe { libc::getsockname(fd, (&raw mut at).cast(), &raw mut bytes) })?;
    of_kernel(&at).ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
}

/// Where an accepted connection was bound for before netfilter redirected it.
pub fn original_destination(fd: RawFd) -> io::Result<SocketAddr> {
    const SO_ORIGINAL_DST: libc::c_int = 80;
    // SAFETY: all-zero is valid.
    let mut at: libc::sockaddr_storage = unsafe { zeroed() };
    let own = own_address(fd)?;
    let level = if own.is_ipv4() { libc::SOL_IP } else { libc::IPPROTO_IPV6 };
    let mut bytes = length::<libc::sockaddr_storage>();
    // SAFETY: the result has the length given.
    checked(unsafe { libc::getsockopt(fd, level, SO_ORIGINAL_DST, (&raw mut at).cast(), &raw mut bytes) })?;
    of_kernel(&at).ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
}

/// A socket that is to connect to `address`; `before` may set options.
pub fn begin_connect(address: SocketAddr, before: impl FnOnce(RawFd) -> io::Result<()>) -> io::Result<OwnedFd> {
    let fd = socket(address)?;
    before(fd.as_raw_fd())?;
    let (to, bytes) = to_kernel(address);
    // SAFETY: the address has the length given.
    let result = checked(unsafe { libc::connect(fd.as_raw_fd(), (&raw const to).cast(), bytes) });
    match result {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(fd),
    }
}

/// How a connecting socket stands: connected or not yet; the error of one that failed.
pub fn is_connected(fd: RawFd) -> io::Result<bool> {
    if let Some(e) = pending_error(fd) {
        return Err(e);
    }
    // SAFETY: all-zero is valid.
    let mut at: libc::sockaddr_storage = unsafe { zeroed() };
    let mut bytes = length::<libc::sockaddr_storage>();
    // SAFETY: the address has the length given.
    Ok(unsafe { libc::getpeername(fd, (&raw mut at).cast(), &raw mut bytes) } == 0)
}

/// The error that waits on a socket, as after a reset. It is taken away.
pub fn pending_error(fd: RawFd) -> Option<io::Error> {
    let (mut error, mut bytes): (libc::c_int, _) = (0, length::<libc::c_int>());
    // SAFETY: the result has the length given.
    let result = checked(unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &raw mut bytes)
    });
    match result {
        Err(e) => Some(e),
        Ok(_) => (error != 0).then(|| io::Error::from_raw_os_error(error)),
    }
}

/// Marks a connection as one of the proxy's own; takes CAP_NET_ADMIN.
pub fn set_mark(fd: RawFd, mark: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MARK, libc::c_int::from_ne_bytes(mark.to_ne_bytes()))
}

/// Socket options that a relay wants: no waiting for full segments, and an end within two minutes
/// for peers that are gone.
pub fn prepare_relay(fd: RawFd) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    for (option, value) in [(libc::TCP_KEEPIDLE, 60), (libc::TCP_KEEPINTVL, 15), (libc::TCP_KEEPCNT, 4)] {
        set_option(fd, libc::IPPROTO_TCP, option, value)?;
    }
    set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)
}

/// Ends a connection by a reset.
pub fn reset(socket: OwnedFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the value has the length given. If it fails, closing ends the connection in the
    // ordinary way.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            length::<libc::linger>(),
        )
    };
    drop(socket);
}

/// No more data will follow in this direction.
pub fn end_sending(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::shutdown(fd, libc::SHUT_WR) }).map(drop)
}

/// Result of a call that does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// So many bytes.
    Bytes(usize),
    /// Nothing, for now.
    NotNow,
    /// The other end has said that nothing more follows.
    End,
}

fn moved(n: isize) -> io::Result<Moved> {
    match usize::try_from(n) {
        Ok(0) => Ok(Moved::End),
        Ok(n) => Ok(Moved::Bytes(n)),
        Err(_) => {
            let e = io::Error::last_os_error();
            match e.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => Ok(Moved::NotNow),
                _ => Err(e),
            }
        }
    }
}

/// A pipe of the kernel: data pass through it from socket to socket without a copy here.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    /// An empty one.
    pub fn new() -> io::Result<Pipe> {
        let mut fds = [0; 2];
        // SAFETY: the array has room for two.
        checked(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) })?;
        // SAFETY: both descriptors are new and owned by nobody else.
        Ok(unsafe { Pipe { read: OwnedFd::from_raw_fd(fds[0]), write: OwnedFd::from_raw_fd(fds[1]) } })
    }

    /// From a socket into the pipe. `NotNow`: the socket has nothing, or the pipe is full.
    pub fn fill(&self, from: RawFd) -> io::Result<Moved> {
        splice(from, self.write.as_raw_fd())
    }

    /// From the pipe into a socket, at most `most` bytes.
    pub fn empty(&self, to: RawFd) -> io::Result<Moved> {
        splice(self.read.as_raw_fd(), to)
    }
}

fn splice(from: RawFd, to: RawFd) -> io::Result<Moved> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    // SAFETY: no offsets are passed.
    moved(unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), 1 << 16, flags) })
}

/// Reads what a socket has.
pub fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<Moved> {
    // SAFETY: the buffer has the length given.
    moved(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) })
}

/// Writes what a socket takes.
pub fn write(fd: RawFd, data: &[u8]) -> io::Result<Moved> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the data have the length given.
    moved(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) })
}

/// Tells which sockets have become ready.
#[derive(Debug)]
pub struct Poll {
    fd: OwnedFd,
}

impl Poll {
    /// Begins without sockets.
    pub fn new() -> io::Result<Poll> {
        // SAFETY: no pointers.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Poll { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    fn add_with(&self, fd: RawFd, name: u64, events: libc::c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: u32::from_ne_bytes(events.to_ne_bytes()), u64: name };
        // SAFETY: the event is valid. A socket leaves the set when it is closed.
        checked(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) }).map(drop)
    }

    /// Told each time more can be read or written, and not again until then.
    pub fn add_edges(&self, fd: RawFd, name: u64) -> io::Result<()> {
        self.add_with(fd, name, libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET)
    }

    /// Told as long as a connection waits.
    pub fn add_listener(&self, fd: RawFd, name: u64) -> io::Result<()> {
        self.add_with(fd, name, libc::EPOLLIN)
    }

    /// Names of what is ready, after at most `timeout`.
    pub fn wait(&self, timeout: Duration, names: &mut Vec<u64>) -> io::Result<()> {
        names.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        let ms = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the array has the length given.
        let n = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), 256, ms) };
        match checked(n) {
            Ok(n) => {
                names.extend(events.iter().take(usize::try_from(n).unwrap_or(0)).map(|event| event.u64));
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(e),
        }
    }
}

/// Descriptors that this process may have open, after asking for as many as it may ask for.
pub fn most_descriptors() -> u64 {
    // SAFETY: all-zero is valid, and both calls are given the struct that they take.
    unsafe {
        let mut limit: libc::rlimit = zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return 1024;
        }
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    }
}

/// The congestion control that a socket has.
pub fn congestion_control(fd: RawFd) -> io::Result<String> {
    let mut name = [0u8; 16];
    let mut bytes = length::<[u8; 16]>();
    let place: *mut c_void = name.as_mut_ptr().cast();
    // SAFETY: the result has the length given.
    checked(unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, place, &raw mut bytes) })?;
    let end = name.iter().position(|&b| b == 0).unwrap_or(size_of::<[u8; 16]>());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}
