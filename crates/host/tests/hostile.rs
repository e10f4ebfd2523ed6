//! The cooperative daemon beside a hostile neighbour: router advertisements, many addresses,
//! packets from beyond a router.
#![cfg(feature = "bpf")]
#![allow(unsafe_code, clippy::disallowed_methods, clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

mod common;

use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::thread;
use std::time::Duration;

use airtcp_core::coop::{Announcement, TerminalId};
use airtcp_core::units::Span;
use airtcp_host::coop::PORT;
use airtcp_host::sys::{self, monotonic};
use common::coop::{HALF, Said, daemon_with, segments_of, wait_for_cap, window};
use common::{Bed, End, LINE, Line, Upload};

/// With a queue that makes the round trip eight times as long.
const LONG: Line = Line { packets: 250, ..LINE };
/// `min_cap` of a real host.
const FLOOR: u32 = 4;

fn announcement(name: u64, sequence: u32) -> [u8; 24] {
    let sender = TerminalId::new(name).unwrap();
    let flows = 16;
    Announcement { sender, sequence, flows, leaving: false, correcting: true, throughput_kbps: Some(1) }.encode()
}

fn socket(domain: i32, kind: i32, protocol: i32) -> OwnedFd {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: the descriptor is new and owned by nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A router advertisement with a prefix of its own, of which hosts make an address.
fn advertisement(prefix: u16, router_s: u16, valid_s: u32) -> Vec<u8> {
    let mut all = vec![134, 0, 0, 0, 64, 0];
    all.extend(router_s.to_be_bytes());
    all.extend([0; 8]);
    all.extend([3, 4, 64, 0xc0]);
    all.extend(valid_s.to_be_bytes());
    all.extend((valid_s / 2).to_be_bytes());
    all.extend([0; 4]);
    all.extend(Ipv6Addr::new(0x2001, 0xdb8, prefix, 0, 0, 0, 0, 0).octets());
    all
}

/// Sends to all on the link from `end`, as fast as a stranger may.
fn advertise(end: &End, bytes: Vec<u8>) {
    end.run(move || {
        let fd = socket(libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6);
        sys::set_option(fd.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, 255).unwrap();
        let all =
            SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 0, 0, sys::interface_index("air0").unwrap());
        UdpSocket::from(fd).send_to(&bytes, all).unwrap();
    });
}

fn told(said: &Said, what: &str) -> usize {
    said.lock().unwrap().iter().filter(|line| line.contains(what)).count()
}

/// Waits until the daemon has said `what` so often.
fn wait_for(said: &Said, what: &str, times: usize, at_most: Span) {
    let begin = monotonic();
    while told(said, what) < times {
        assert!(monotonic().since(begin) < at_most, "{what}: never said: {:?}", said.lock().unwrap());
        thread::sleep(Duration::from_millis(20));
    }
}

fn addresses(end: &End) -> usize {
    end.run(|| {
        let out =
            Command::new("ip").args(["-6", "-o", "addr", "show", "dev", "air0", "scope", "global"]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).lines().count()
    })
}

#[test]
fn router_advertisements_lift_no_cap_and_a_real_change_does() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let bed = Bed::with_ethernet(LONG);
    let (mut daemon, said) = daemon_with(&bed, &HALF);
    let upload = Upload::new(&bed, Some("cubic"), |_| {});
    let cap = 2 * segments_of(1);
    wait_for_cap(&upload, cap);
    // Twenty in four seconds: renewed prefixes, new ones, some of a router that comes and goes.
    let (mut lifted, mut is_free) = (0, false);
    for n in 0..20u16 {
        advertise(&bed.b, advertisement(n / 2, if n % 3 == 0 { 0 } else { 1800 }, 3600 + u32::from(n)));
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(20));
            let free = window(&upload).0 > cap;
            lifted += u32::from(free && !is_free);
            is_free = free;
        }
    }
    let news = told(&said, "has changed");
    println!("20 router advertisements in 4 s: {news} changes of the path, the cap lifted {lifted} times");
    assert!(addresses(&bed.a) >= 10, "the host has taken them");
    assert_eq!((news, lifted), (0, 0));
    // The connection's own address goes and comes back; then the carrier does so twice, the second
    // time within ten seconds.
    bed.a.ip("addr del 10.9.0.1/24 dev air0");
    wait_for(&said, "the path of 1 connections has changed", 1, Span::from_secs(2));
    bed.a.ip("addr add 10.9.0.1/24 dev air0");
    let begin = monotonic();
    for _ in 0..2 {
        bed.a.ip("link set air0 down");
        bed.a.ip("link set air0 up");
    }
    wait_for(&said, "the path has changed: ", 1, Span::from_secs(12));
    bed.a.ip("link set air0 down");
    bed.a.ip("link set air0 up");
    wait_for(&said, "the path has changed: ", 2, Span::from_secs(12));
    let took = monotonic().since(begin);
    println!("the carrier came back three times: 2 changes, the last {took} after the first");
    assert!(took >= Span::from_secs(15), "{took}");
    assert!(daemon.try_wait().unwrap().is_none(), "the daemon has ended");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn a_neighbour_with_a_hundred_addresses_is_one_terminal() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let bed = Bed::with_ethernet(LONG);
    bed.b.run(|| {
        let mut ip =
            Command::new("ip").args(["-6", "-batch", "-"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let lines: String = (1..=100).map(|n| format!("addr add fe80::7:{n:x}/64 dev air0 nodad\n")).collect();
        ip.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(ip.wait().unwrap().success());
    });
    let (mut daemon, _) = daemon_with(&bed, &HALF);
    let upload = Upload::new(&bed, Some("cubic"), |_| {});
    wait_for_cap(&upload, 2 * segments_of(1));
    thread::sleep(Duration::from_secs(1));
    let mut sequence = 0;
    // The least window while `send` has a second's round of announcements, five times.
    let mut least = |send: &dyn Fn(u32)| {
        let mut least = u32::MAX;
        for round in 0..50 {
            if round % 10 == 0 {
                sequence += 1;
                send(sequence);
            }
            thread::sleep(Duration::from_millis(100));
            least = least.min(window(&upload).0);
        }
        // Until they are forgotten.
        thread::sleep(Duration::from_secs(4));
        least
    };
    let beyond = least(&|sequence| {
        bed.b.run(move || {
            // One router is on the way.
            let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
            socket.set_ttl(254).unwrap();
            socket.send_to(&announcement(1000, sequence), ("10.9.0.1", PORT)).unwrap();
        });
    });
    let one = least(&|sequence| {
        bed.b.run(move || {
            let interface = sys::interface_index("air0").unwrap();
            for n in 1..=100u16 {
                let own = SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 7, n), 0, 0, interface);
                let socket = UdpSocket::bind(own).unwrap();
                sys::set_option(socket.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, 255).unwrap();
                let all = SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), PORT, 0, interface);
                socket.send_to(&announcement(u64::from(n), sequence), all).unwrap();
            }
        });
    });
    // The same with a forged address on the link for each.
    let forged = least(&|sequence| {
        bed.b.run(move || {
            let mut out = frames();
            for n in 1..=100 {
                out.write_all(&frame(n, &announcement(u64::from(n), sequence))).unwrap();
            }
        });
    });
    let is_alive = daemon.try_wait().unwrap().is_none();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let (alone, two) = (segments_of(1), segments_of(2));
    println!(
        "least windows: {beyond} beside one beyond a router, {one} beside 100 addresses of one neighbour, {forged} beside 100 forged ones"
    );
    println!("shares: alone {alone}, of two {two}, floor {FLOOR}");
    assert!(is_alive, "the daemon has ended");
    assert!(beyond > two + 3, "{beyond} segments: an announcement from beyond a router counts");
    assert!((two..two + 3).contains(&one), "{one} segments, the share of two terminals is {two}");
    assert_eq!(forged, FLOOR, "many terminals, as far as anybody can tell");
}

/// Frames of any content leave by this on air0.
fn frames() -> File {
    let packets = socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
    // SAFETY: all-zero is valid.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_ifindex = sys::interface_index("air0").unwrap() as i32;
    // SAFETY: the address has the length given.
    let bound =
        unsafe { libc::bind(packets.as_raw_fd(), (&raw const to).cast(), size_of::<libc::sockaddr_ll>() as u32) };
    assert_eq!(bound, 0, "{}", io::Error::last_os_error());
    File::from(packets)
}

/// Each from another address and in another name, a quarter of them damaged.
#[test]
fn a_flood_of_forged_announcements_leaves_the_daemon_at_work() {
    const FORGED: u32 = 120_000;
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let bed = Bed::with_ethernet(LONG);
    let (mut daemon, _) = daemon_with(&bed, &HALF);
    let upload = Upload::new(&bed, Some("cubic"), |_| {});
    wait_for_cap(&upload, 2 * segments_of(1));
    let begin = monotonic();
    bed.b.run(move || {
        let mut out = frames();
        for n in 0..FORGED {
            let mut payload = announcement(u64::from(n) + 1, n).to_vec();
            if n % 4 == 0 {
                payload[n as usize / 4 % 24] ^= 1 << (n / 96 % 8);
            }
            if let Err(e) = out.write_all(&frame(n, &payload)) {
                // The device's queue is full.
                assert_eq!(e.raw_os_error(), Some(libc::ENOBUFS));
            }
            if n % 100 == 0 {
                thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let took = monotonic().since(begin);
    let mut least = u32::MAX;
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(50));
        least = least.min(window(&upload).0);
    }
    let is_alive = daemon.try_wait().unwrap().is_none();
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let peak_kb = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB");
    let peak_kb: u32 = peak_kb.parse().unwrap();
    // Once they are forgotten, the terminal has its whole share again.
    thread::sleep(Duration::from_secs(6));
    let after = window(&upload).0;
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    println!(
        "{FORGED} forged announcements in {took}: the window is {least} at least, {after} later; {peak_kb} kB at most"
    );
    assert!(is_alive, "the daemon has ended");
    assert!(least >= FLOOR && after > segments_of(2) + 3, "{least}, then {after}");
    // The unit's bound is 64 MB.
    assert!(peak_kb < 48 << 10, "{peak_kb} kB");
}

/// A broadcast of the neighbour whose addresses end in `n`.
fn frame(n: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = n.to_be_bytes();
    let length = (28 + payload.len()) as u8;
    let mut ip = vec![0x45, 0, 0, length, 0, 0, 0, 0, 255, 17, 0, 0, 10, high | 128, middle, low, 255, 255, 255, 255];
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut all = vec![0xff; 6];
    all.extend([2, 0, 0, high, middle, low, 8, 0]);
    all.extend(ip);
    all.extend(9999u16.to_be_bytes());
    all.extend(PORT.to_be_bytes());
    all.extend([0, (8 + payload.len()) as u8, 0, 0]); // no checksum
    all.extend(payload);
    all
}
