//! The system calls that need `unsafe`, and nothing else: each is a safe function over one call.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use airtcp_core::units::Span;
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{Pid, getppid, sethostname, setpgid, tcsetpgrp};

/// Makes an open `/dev/net/tun` the device `name` of the calling thread's network namespace: IP
/// packets, each behind `struct virtio_net_hdr`. Checksums and the segmentation of TCP are left to
/// us where the kernel can leave them.
pub(crate) fn attach_tun(file: &File, name: &str) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data, for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = i16::try_from(flags).unwrap_or(0);
    // SAFETY: the descriptor is open, and the request lives until the call returns.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // SAFETY: the call takes a number. Where it is refused the kernel does that work itself.
    unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) };
    Ok(())
}

/// The network namespace of a TUN device: TUNGETDEVNETNS.
pub(crate) fn namespace_of_tun(file: &File) -> io::Result<OwnedFd> {
    /// linux/if_tun.h
    const SPACE: libc::c_ulong = 0x54e3;
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::ioctl(file.as_raw_fd(), SPACE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// From now on a socket of netlink hears what the kernel tells this group, too.
pub(crate) fn join_group(socket: &OwnedFd, group: u32) -> io::Result<()> {
    let size = libc::socklen_t::try_from(size_of::<u32>()).unwrap_or(4);
    let (level, option) = (libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP);
    // SAFETY: the descriptor is open, and the kernel reads no more than `size` bytes of `group`,
    // which lives until the call returns.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const group).cast(), size) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Offload of segments by an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offload {
    /// It merges those that it receives, GRO. `ethtool -K DEVICE gro`, ETHTOOL_SGRO.
    Receive,
    /// It takes many as one, TSO. `ethtool -K DEVICE tso`, ETHTOOL_STSO.
    Send,
}

/// Turns an offload on or off.
pub(crate) fn set_offload(device: &str, offload: Offload, is_on: bool) -> io::Result<()> {
    /// `struct ethtool_value` of linux/ethtool.h.
    #[repr(C)]
    struct Value {
        cmd: u32,
        data: u32,
    }
    /// SIOCETHTOOL of linux/sockios.h.
    const ETHTOOL: libc::c_ulong = 0x8946;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let cmd = match offload {
        Offload::Receive => 0x2c,
        Offload::Send => 0x1f,
    };
    let mut value = Value { cmd, data: u32::from(is_on) };
    // SAFETY: a structure of numbers, of which zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the call reads a request whose pointer is to a value that lives longer than the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), ETHTOOL, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Credits the kernel with 256 bits of entropy, so that programs that ask for random numbers need
/// not wait. They come from the kernel itself, so they follow from a guest's seed (random(4),
/// RNDADDENTROPY).
pub(crate) fn credit_entropy() -> io::Result<()> {
    const BYTES: usize = 32;
    /// `struct rand_pool_info` of linux/random.h.
    #[repr(C)]
    struct Pool {
        entropy_bits: libc::c_int,
        bytes: libc::c_int,
        data: [u8; BYTES],
    }
    /// RNDADDENTROPY of linux/random.h.
    const ADD: libc::c_ulong = 0x4008_5203;
    let mut pool = Pool { entropy_bits: 256, bytes: 32, data: [0; BYTES] };
    // Neither waits nor gathers: /dev/urandom of 6.1 would do that for a second of the guest's
    // time. SAFETY: the call writes no more than the array takes.
    if unsafe { libc::getrandom(pool.data.as_mut_ptr().cast(), BYTES, libc::GRND_INSECURE) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let random = File::options().write(true).open("/dev/random")?;
    // SAFETY: the call reads a structure that lives longer, and whose length it is told.
    let done = unsafe { libc::ioctl(random.as_raw_fd(), ADD, &raw const pool) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks the scheduler for turns of this length, since short ones come sooner, and for a weight.
/// Kernels before 6.12 ignore the turns.
pub(crate) fn ask_for_turns(turn: Span, nice: i32) -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0),
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: turn.as_ns(),
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the structure says its own size and lives until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True if this process goes before all processes without a real-time policy, as `chrt` has asked
/// for it. It then goes before its own programs as well, which `chrt` has made its equals.
pub(crate) fn has_realtime_priority() -> bool {
    // SAFETY: the call takes a number.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if ![libc::SCHED_RR, libc::SCHED_FIFO].contains(&(policy & !libc::SCHED_RESET_ON_FORK)) {
        return false;
    }
    let mut own = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure lives until the calls return. Where more is not allowed it stays what
    // it is.
    unsafe {
        if libc::sched_getparam(0, &raw mut own) == 0 {
            own.sched_priority += 1;
            libc::sched_setscheduler(0, policy, &raw const own);
        }
    }
    true
}

/// Which processors a process may use, where there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processors {
    /// The last one of those that it has.
    Last,
    /// All others.
    Others,
}

/// Keeps the calling thread, and those that it starts, to these processors; false: there is only
/// one. The scheduler may else put two of them beside each other while one processor is free, and
/// who needs to be in time waits for a turn of milliseconds.
pub(crate) fn pin_to(processors: Processors) -> io::Result<bool> {
    let own = Pid::from_raw(0);
    let mut allowed = sched_getaffinity(own)?;
    let mut all = (0..CpuSet::count()).rev().filter(|&one| allowed.is_set(one).unwrap_or(false));
    let (Some(last), Some(_)) = (all.next(), all.next()) else { return Ok(false) };
    match processors {
        Processors::Last => {
            allowed = CpuSet::new();
            allowed.set(last)?;
        }
        Processors::Others => allowed.unset(last)?,
    }
    sched_setaffinity(own, &allowed)?;
    Ok(true)
}

/// TCP_INFO of a connection: `struct tcp_info`, as far as the kernel fills it.
pub(crate) fn tcp_info(socket: &std::net::TcpStream) -> io::Result<Vec<u8>> {
    let mut info = vec![0; 256];
    let mut len = libc::socklen_t::try_from(info.len()).unwrap_or(0);
    // SAFETY: the call writes at most `len` bytes to where `info` is, and says how many.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    info.truncate(usize::try_from(len).unwrap_or(0));
    Ok(info)
}

/// Rows and columns of a terminal; `None`: it has none, or is no terminal.
pub(crate) fn terminal_size(terminal: RawFd) -> Option<(u16, u16)> {
    // SAFETY: `winsize` is plain data, for which zeroes are valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the structure lives until the call returns.
    let done = unsafe { libc::ioctl(terminal, libc::TIOCGWINSZ, &raw mut size) };
    (done == 0 && size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Tells a terminal, and the programs on it, how large it is.
pub(crate) fn set_terminal_size(terminal: RawFd, (rows, columns): (u16, u16)) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the structure lives until the call returns.
    let done = unsafe { libc::ioctl(terminal, libc::TIOCSWINSZ, &raw const size) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A descriptor of a process, with which its namespaces can be entered.
pub(crate) fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let Ok(fd) = RawFd::try_from(fd) else { return Err(io::Error::other("no descriptor")) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Relatives of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relative {
    /// The user namespace that owns it: NS_GET_USERNS.
    Users,
    /// The one around it: NS_GET_PARENT.
    Parent,
}

/// A relative of a namespace. The descriptor must be of a namespace.
pub(crate) fn namespace_relative(namespace: &OwnedFd, relative: Relative) -> io::Result<OwnedFd> {
    // linux/nsfs.h
    let request: libc::c_ulong = match relative {
        Relative::Users => 0xb701,
        Relative::Parent => 0xb702,
    };
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), request) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Kind of a namespace, as a flag of clone(2): NS_GET_NSTYPE.
pub(crate) fn namespace_kind(namespace: &OwnedFd) -> io::Result<libc::c_int> {
    // SAFETY: the call takes two numbers.
    let kind = unsafe { libc::ioctl(namespace.as_raw_fd(), 0xb703) };
    if kind < 0 { Err(io::Error::last_os_error()) } else { Ok(kind) }
}

/// The user who made a user namespace, as it is called here: NS_GET_OWNER_UID.
pub(crate) fn namespace_owner(namespace: &OwnedFd) -> io::Result<u32> {
    let mut user: libc::uid_t = 0;
    // SAFETY: the kernel writes a number, which lives until the call returns.
    let done = unsafe { libc::ioctl(namespace.as_raw_fd(), 0xb704, &raw mut user) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(user) }
}

/// From here on no descriptor but the first three is handed on at exec.
fn close_descriptors_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    /// The most that are looked at one by one.
    const MANY: libc::rlim_t = 1 << 16;
    // SAFETY: the call takes three numbers.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return Ok(());
    }
    // Before Linux 5.11.
    let most = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?.0.min(MANY);
    for fd in 3..RawFd::try_from(most).unwrap_or(RawFd::MAX) {
        // SAFETY: the call takes numbers; a descriptor that is not open is an error, which means
        // nothing here.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// Steps of a child between fork and exec.
#[derive(Debug, Default, Clone)]
pub(crate) struct ChildSetup {
    /// It is killed when the thread that starts it ends.
    pub(crate) dies_with: Option<i32>,
    /// A network namespace that it enters.
    pub(crate) net: Option<RawFd>,
    /// The host's name, in a namespace of its own.
    pub(crate) host: Option<String>,
    /// It leads a process group of its own.
    pub(crate) leads_group: bool,
    /// Terminal that this group gets.
    pub(crate) terminal: Option<RawFd>,
    /// It begins a session on the terminal that is its standard input.
    pub(crate) begins_session: bool,
    /// Descriptors that it keeps across exec, beside the first three: it gets no others, whoever
    /// has left them open.
    pub(crate) keeps: Vec<RawFd>,
}

impl ChildSetup {
    /// Adds these steps to a command. Signals that the parent blocks are let through again.
    pub(crate) fn apply(self, command: &mut Command) {
        // SAFETY: the closure allocates nothing and takes no lock: it makes system calls on what
        // was prepared before the fork.
        unsafe {
            command.pre_exec(move || self.run());
        }
    }

    fn run(&self) -> io::Result<()> {
        if let Some(parent) = self.dies_with {
            set_pdeathsig(Signal::SIGKILL)?;
            // It may have died before; 0: it is outside this process's namespace and cannot be
            // seen.
            let now = getppid().as_raw();
            if now != parent && now != 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        if let Some(net) = self.net {
            // SAFETY: the descriptor is open in the parent, and so in its copy.
            setns(unsafe { std::os::fd::BorrowedFd::borrow_raw(net) }, CloneFlags::CLONE_NEWNET)?;
        }
        if let Some(host) = &self.host {
            // Where it is not allowed the name stays the machine's: a prompt shows it, nothing
            // depends on it.
            if unshare(CloneFlags::CLONE_NEWUTS).is_ok() {
                let _ = sethostname(host.as_str());
            }
        }
        if self.leads_group {
            setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        }
        if self.begins_session {
            nix::unistd::setsid()?;
            // SAFETY: the call takes numbers. Standard input is in its place already.
            if unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        if let Some(terminal) = self.terminal {
            // Not from the foreground yet: SIGTTOU is blocked until the line below.
            sigprocmask(SigmaskHow::SIG_BLOCK, Some(&SigSet::from(Signal::SIGTTOU)), None)?;
            // SAFETY: as above.
            let _ = tcsetpgrp(unsafe { std::os::fd::BorrowedFd::borrow_raw(terminal) }, nix::unistd::getpid());
        }
        close_descriptors_on_exec()?;
        for &fd in &self.keeps {
            // SAFETY: the call takes numbers; a descriptor that is not open is an error.
            if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
        Ok(())
    }
}

/// A socket that hears Ethernet frames of one type on all devices. Reading it never waits.
pub(crate) fn open_frame_socket(kind: u16) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes three numbers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, flags, i32::from(kind.to_be())) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes over a descriptor that the process was started with.
pub(crate) fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers; a descriptor that is not open is an error. It is not handed
    // on at exec.
    if fd < 3 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {fd} is not open")));
    }
    // SAFETY: it is open, and the command line names each once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets and takes away attributes of the mount at `path`, and of all below it if `deep`
/// (mount_setattr(2), Linux 5.12).
pub(crate) fn set_mount(path: &std::ffi::CStr, deep: bool, set: u64, clear: u64) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    let flags = if deep { libc::AT_RECURSIVE } else { 0 };
    let (at, size) = (libc::AT_FDCWD, size_of::<libc::mount_attr>());
    // SAFETY: the path ends with a zero, the structure has the size that is said, and both live
    // until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_mount_setattr, at, path.as_ptr(), flags, &raw const attributes, size) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// This thread, and all that it starts, have none of root's capabilities but those of `keeps`, by
/// their bits, and get none back.
pub(crate) fn keep_capabilities(keeps: u64) -> io::Result<()> {
    /// `struct __user_cap_header_struct` of linux/capability.h.
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    /// `struct __user_cap_data_struct`, of which there are two.
    #[repr(C)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    /// _LINUX_CAPABILITY_VERSION_3.
    const VERSION: u32 = 0x2008_0522;
    nix::sys::prctl::set_no_new_privs()?;
    for capability in (0..u64::BITS).filter(|capability| keeps & 1 << capability == 0) {
        // SAFETY: the call takes numbers. One that the kernel does not know is an error, which
        // means nothing here.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) };
    }
    let header = Header { version: VERSION, pid: 0 };
    let data = [keeps, keeps >> 32].map(|bits| {
        let bits = u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(0);
        Data { effective: bits, permitted: bits, inheritable: 0 }
    });
    // SAFETY: the call reads the header and two structures, which live until it returns.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
