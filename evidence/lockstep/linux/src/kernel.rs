//! The kernel's end: a namespace of this process's own, two devices into it, and its sockets.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::process::Command;

/// CONFIG_HZ = 250.
const JIFFY_US: u64 = 4000;
/// Steps of the timer wheel up to this many jiffies (kernel/time/timer.c, level 3) begin together.
const WHEEL_JIFFIES: u64 = 512;
/// The kernel's address.
pub const HERE: [u8; 4] = [10, 255, 0, 1];
/// Second byte of the peers' addresses behind either device.
pub const IN_UNITS: u8 = 8;
pub const BY_ONE: u8 = 9;

const SYSCTLS: [(&str, &str); 8] = [
    ("net/ipv4/tcp_no_metrics_save", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/tcp_timestamps", "1"),
    ("net/ipv4/tcp_sack", "1"),
    ("net/ipv4/tcp_ecn", "1"),
    ("net/ipv4/tcp_wmem", "4096 4194304 8388608"),
    ("net/ipv4/tcp_congestion_control", "reno"),
];

/// Fields of TCP_INFO: letter in the record, place in `struct tcp_info` (include/uapi/linux/tcp.h),
/// bytes.
pub const FIELDS: [(char, usize, usize); 17] = [
    ('c', 80, 4),
    ('h', 76, 4),
    ('a', 1, 1),
    ('u', 24, 4),
    ('k', 28, 4),
    ('l', 32, 4),
    ('r', 36, 4),
    ('o', 88, 4),
    ('p', 104, 8),
    ('t', 100, 4),
    ('d', 192, 4),
    ('e', 196, 4),
    ('i', 68, 4),
    ('v', 72, 4),
    ('m', 148, 4),
    ('x', 8, 4),
    ('b', 4, 1),
];
pub type State = [u64; FIELDS.len()];

pub fn error(what: &str) -> String {
    format!("{what}: {}", io::Error::last_os_error())
}

fn ip(arguments: &str) -> Result<(), String> {
    let done = Command::new("ip").args(arguments.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&done.stderr).trim()))
}

/// A namespace with both devices; it ends with the process.
pub fn enter(windows: &[u64]) -> Result<[File; 2], String> {
    // SAFETY: no memory is shared with it.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(error("a network namespace (it needs root)"));
    }
    ip("link set lo up")?;
    for (key, value) in SYSCTLS {
        std::fs::write(format!("/proc/sys/{key}"), value).map_err(|e| format!("{key} = {value}: {e}"))?;
    }
    let devices = [tun("units")?, tun("single")?];
    ip(&format!("address add {}.{}.{}.{}/32 dev lo", HERE[0], HERE[1], HERE[2], HERE[3]))?;
    for name in ["units", "single"] {
        ip(&format!("link set {name} txqueuelen 10000"))?;
        if name == "single" {
            ip("link set single gso_max_segs 1")?;
        }
        ip(&format!("link set {name} up"))?;
    }
    for (second, name) in [(IN_UNITS, "units"), (BY_ONE, "single")] {
        for window in windows {
            ip(&format!("route add 10.{second}.{window}.0/24 dev {name} src 10.255.0.1 initcwnd {window}"))?;
        }
    }
    Ok(devices)
}

fn tun(name: &str) -> Result<File, String> {
    let file = File::options().read(true).write(true).open("/dev/net/tun").map_err(|e| format!("/dev/net/tun: {e}"))?;
    let mut request = [0u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[16..18].copy_from_slice(&((libc::IFF_TUN | libc::IFF_NO_PI) as u16).to_ne_bytes());
    // SAFETY: `request` has the size of struct ifreq, and the descriptors are open.
    unsafe {
        if libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, request.as_mut_ptr()) != 0 {
            return Err(error("TUNSETIFF"));
        }
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK);
    }
    Ok(file)
}

/// The next packet that the kernel has sent.
pub fn take<'a>(device: &mut File, into: &'a mut [u8]) -> Option<&'a [u8]> {
    let n = device.read(into).ok()?;
    Some(&into[..n])
}

pub fn give(device: &mut File, packet: &[u8]) -> Result<(), String> {
    device.write_all(packet).map_err(|e| format!("writing to the device: {e}"))
}

pub fn now_us() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
}

/// When the steps of the timer wheel began together, once; by /proc/timer_list.
pub fn wheel_began_us() -> Result<u64, String> {
    let list = std::fs::read_to_string("/proc/timer_list").map_err(|e| format!("/proc/timer_list: {e}"))?;
    let number = |line: &str| line.chars().filter(char::is_ascii_digit).collect::<String>().parse::<u64>().ok();
    let find = |word: &str| list.lines().find(|line| line.trim_start().starts_with(word)).and_then(number);
    let (now_ns, jiffies) = find("now at").zip(find("jiffies")).ok_or("/proc/timer_list has no time or no jiffies")?;
    let tick_us = now_ns / 1000 / JIFFY_US * JIFFY_US;
    Ok(tick_us - jiffies % WHEEL_JIFFIES * JIFFY_US)
}

/// The last such time before `at_us`.
pub fn wheel_begins_us(began_us: u64, at_us: u64) -> u64 {
    let round = WHEEL_JIFFIES * JIFFY_US;
    began_us % round + (at_us - began_us % round) / round * round
}

pub struct Socket(OwnedFd);

fn address(ip: [u8; 4], port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(ip) },
        sin_zero: [0; 8],
    }
}

const ADDRESS_LEN: u32 = size_of::<libc::sockaddr_in>() as u32;

impl Socket {
    pub fn new() -> Result<Socket, String> {
        // SAFETY: the descriptor is new, and nobody else has it.
        unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
            if fd < 0 { Err(error("socket")) } else { Ok(Socket(OwnedFd::from_raw_fd(fd))) }
        }
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn set(&self, level: i32, option: i32, value: &[u8]) -> Result<(), String> {
        // SAFETY: `value` is as long as is said.
        let done = unsafe { libc::setsockopt(self.fd(), level, option, value.as_ptr().cast(), value.len() as u32) };
        if done == 0 { Ok(()) } else { Err(error(&format!("setsockopt {option}"))) }
    }

    pub fn congestion_control(&self, name: &str) -> Result<(), String> {
        self.set(libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes()).map_err(|e| format!("{name}: {e}"))
    }

    pub fn large_send_buffer(&self) -> Result<(), String> {
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &(4i32 << 20).to_ne_bytes())
    }

    /// It ends with a reset.
    pub fn never_lingers(&self) -> Result<(), String> {
        let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        self.set(libc::SOL_SOCKET, libc::SO_LINGER, &linger)
    }

    pub fn bind(&self, ip: [u8; 4], port: u16) -> Result<(), String> {
        let a = address(ip, port);
        self.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32.to_ne_bytes())?;
        // SAFETY: `a` is an address of that length.
        let done = unsafe { libc::bind(self.fd(), (&raw const a).cast(), ADDRESS_LEN) };
        if done == 0 { Ok(()) } else { Err(error(&format!("bind {port}"))) }
    }

    pub fn connect(&self, ip: [u8; 4], port: u16) -> Result<(), String> {
        let a = address(ip, port);
        // SAFETY: `a` is an address of that length.
        let done = unsafe { libc::connect(self.fd(), (&raw const a).cast(), ADDRESS_LEN) };
        if done == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINPROGRESS) {
            return Ok(());
        }
        Err(error("connect"))
    }

    pub fn listen(&self) -> Result<(), String> {
        // SAFETY: the descriptor is open.
        if unsafe { libc::listen(self.fd(), 4096) } == 0 { Ok(()) } else { Err(error("listen")) }
    }

    pub fn accept(&self) -> Option<Socket> {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no address is asked for, and the descriptor is new.
        unsafe {
            let fd = libc::accept4(self.fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags);
            (fd >= 0).then(|| Socket(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub fn send(&self, bytes: usize) -> Result<(), String> {
        let data = vec![0u8; bytes];
        // SAFETY: `data` is as long as is said.
        let n = unsafe { libc::send(self.fd(), data.as_ptr().cast(), bytes, libc::MSG_NOSIGNAL) };
        if usize::try_from(n) == Ok(bytes) { Ok(()) } else { Err(error(&format!("send of {bytes} bytes took {n}"))) }
    }

    /// Reads all there is; how much that was.
    pub fn read_all(&self, into: &mut [u8]) -> usize {
        let mut all = 0;
        loop {
            // SAFETY: `into` is as long as is said.
            let n = unsafe { libc::recv(self.fd(), into.as_mut_ptr().cast(), into.len(), 0) };
            match usize::try_from(n) {
                Ok(n) if n > 0 => all += n,
                _ => return all,
            }
        }
    }

    pub fn info(&self) -> Result<State, String> {
        let mut bytes = [0u8; 256];
        let mut len = bytes.len() as u32;
        // SAFETY: `bytes` is as long as `len` says.
        let done = unsafe {
            libc::getsockopt(self.fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes.as_mut_ptr().cast(), &mut len)
        };
        if done != 0 {
            return Err(error("TCP_INFO"));
        }
        Ok(FIELDS.map(|(_, at, size)| {
            let mut value = [0u8; 8];
            value[..size].copy_from_slice(&bytes[at..at + size]);
            u64::from_le_bytes(value)
        }))
    }
}

/// Waits until the kernel sends or `until_us`.
pub fn wait(devices: &[File; 2], until_us: u64) {
    let mut polled = [0, 1].map(|i| libc::pollfd { fd: devices[i].as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let left = until_us.saturating_sub(now_us());
    let timeout = libc::timespec { tv_sec: (left / 1_000_000) as i64, tv_nsec: (left % 1_000_000 * 1000) as i64 };
    // SAFETY: the array and the time live throughout the call.
    unsafe { libc::ppoll(polled.as_mut_ptr(), 2, &timeout, std::ptr::null()) };
}

/// Runs before all that is not of this kind.
pub fn in_real_time() -> Result<(), String> {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: plain calls with values that live throughout.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE);
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) != 0 {
            return Err(error("real-time priority"));
        }
    }
    Ok(())
}
