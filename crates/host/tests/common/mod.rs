//! A small bed: two network namespaces, a line between their TUN devices. All goes with the test's
//! process.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation
)]

#[cfg(feature = "bpf")]
pub mod coop;
#[cfg(feature = "bpf")]
pub mod flood;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use airtcp_host::sys;

/// Why tests with namespaces cannot run here; `None`: they can.
pub fn missing() -> Option<String> {
    use airtcp_host::rights::{Capability, Host, STRUCT_OPS};
    let mut all = Host::read().missing(STRUCT_OPS, &[Capability::Bpf, Capability::Perfmon, Capability::NetAdmin]);
    if !std::path::Path::new("/dev/net/tun").exists() {
        all.push("/dev/net/tun is missing".to_owned());
    }
    (!all.is_empty()).then(|| all.join("; "))
}

/// As [`missing`], of tests without BPF.
pub fn missing_namespaces() -> Option<String> {
    use airtcp_host::rights::{Capability, Host};
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !is_root || !Host::read().may(Capability::NetAdmin) {
        return Some("namespaces need root and CAP_NET_ADMIN".to_owned());
    }
    if std::path::Path::new("/dev/net/tun").exists() { None } else { Some("/dev/net/tun is missing".to_owned()) }
}

/// As [`missing_namespaces`], of tests whose command sets rules of nftables.
pub fn missing_nft() -> Option<String> {
    missing_namespaces().or_else(|| {
        let has = Command::new("nft").arg("--version").output().is_ok();
        (!has).then(|| "nft is missing; on Debian: apt install nftables".to_owned())
    })
}

/// Says aloud, past the test runner's capture, that a test did not run.
pub fn skipped(reason: &str) {
    std::io::stderr().write_all(format!("SKIPPED: {reason}\n").as_bytes()).unwrap();
}

/// One test of those that register a control at a time, on this machine.
pub fn alone() -> File {
    let file = File::create(std::env::temp_dir().join("airtcp-host-tests.lock")).unwrap();
    sys::lock(&file).unwrap();
    file
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a namespace of its own.
pub struct End {
    jobs: Sender<Job>,
}

impl End {
    pub fn new() -> End {
        let (jobs, queue) = channel::<Job>();
        thread::spawn(move || {
            sys::leave_network().unwrap();
            for job in queue {
                job();
            }
        });
        End { jobs }
    }

    /// Runs `f` in the namespace.
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let (give, take) = channel();
        self.jobs.send(Box::new(move || drop(give.send(f())))).unwrap();
        take.recv().unwrap()
    }

    pub fn ip(&self, words: &str) {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        self.run(move || {
            let out = Command::new("ip").args(&words).output().unwrap();
            assert!(out.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&out.stderr));
        });
    }
}

/// The line from a to b; the way back has only the delay.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    pub bits_per_second: u64,
    pub rtt: Duration,
    pub packets: usize,
    /// Number of packets in 1000 from a to b that are lost at random.
    pub loss_per_mille: u64,
}

/// 20 Mbit/s, 20 ms, 50 packets.
pub const LINE: Line =
    Line { bits_per_second: 20_000_000, rtt: Duration::from_millis(20), packets: 50, loss_per_mille: 0 };

pub struct Bed {
    pub a: End,
    pub b: End,
    /// Added to the round trip, ns.
    pub detour: Arc<AtomicU64>,
    /// Nothing passes.
    pub outage: Arc<AtomicBool>,
    /// So many of the next segments with data are lost.
    pub drop_next: Arc<AtomicU64>,
    script: Arc<Mutex<Script>>,
    end: Arc<AtomicBool>,
}

/// Which segments with data are lost.
#[derive(Debug, Default)]
struct Script {
    /// So many have come since it was written.
    count: u64,
    lost: Vec<u64>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

impl Bed {
    pub fn new(line: Line) -> Bed {
        Bed::of(line, false)
    }

    /// With frames of Ethernet on the line, and so with addresses of the link.
    pub fn with_ethernet(line: Line) -> Bed {
        Bed::of(line, true)
    }

    fn of(line: Line, is_ethernet: bool) -> Bed {
        let (a, b) = (End::new(), End::new());
        let open = |end: &End, own: &str, other: &str| {
            let tun = end.run(move || if is_ethernet { sys::tap("air0") } else { sys::tun("air0") }.unwrap());
            end.ip("link set lo up");
            let addresses = if is_ethernet { format!("{own}/24") } else { format!("{own} peer {other}") };
            end.ip(&format!("addr add {addresses} dev air0"));
            end.ip("link set air0 mtu 1500 txqueuelen 10000 up");
            if is_ethernet {
                // Without waiting whether another host has it.
                let last = own.rsplit('.').next().unwrap();
                end.ip(&format!("addr add fe80::{last}/64 dev air0 nodad"));
            }
            tun
        };
        let tuns = [open(&a, "10.9.0.1", "10.9.0.2"), open(&b, "10.9.0.2", "10.9.0.1")];
        let bed = Bed {
            a,
            b,
            detour: Arc::default(),
            outage: Arc::default(),
            drop_next: Arc::default(),
            script: Arc::default(),
            end: Arc::default(),
        };
        let (detour, outage, end) = (bed.detour.clone(), bed.outage.clone(), bed.end.clone());
        let (drop_next, script) = (bed.drop_next.clone(), bed.script.clone());
        thread::spawn(move || carry(tuns, line, &detour, &outage, &drop_next, &script, &end));
        bed
    }

    /// From now on segments with data from a to b are counted from 0, and these are lost.
    pub fn lose(&self, lost: &[u64]) {
        *self.script.lock().unwrap() = Script { count: 0, lost: lost.to_vec() };
    }
}

fn carry(
    mut tuns: [File; 2],
    line: Line,
    detour: &AtomicU64,
    outage: &AtomicBool,
    drop_next: &AtomicU64,
    script: &Mutex<Script>,
    end: &AtomicBool,
) {
    // A busy machine must not look like a slow line.
    let _ = sys::run_first();
    let mut ways: [VecDeque<(u64, Vec<u8>)>; 2] = Default::default();
    let mut leaving: VecDeque<u64> = VecDeque::new();
    let (mut free, mut draw) = (0u64, 0x5eed_u64);
    let mut buffer = vec![0; 1 << 16];
    while !end.load(Ordering::Relaxed) {
        let now = sys::monotonic().as_ns();
        let next = ways.iter().filter_map(|way| way.front().map(|p| p.0)).min().unwrap_or(now + 50_000_000);
        let wait = Duration::from_nanos(next.saturating_sub(now).min(50_000_000));
        let fds = [tuns[0].as_raw_fd(), tuns[1].as_raw_fd()];
        let ready = sys::readable(&fds, wait).unwrap();
        let now = sys::monotonic().as_ns();
        let one_way = line.rtt.as_nanos() as u64 / 2 + detour.load(Ordering::Relaxed) / 2;
        for way in 0..2 {
            if !ready[way] {
                continue;
            }
            while let Ok(n) = tuns[way].read(&mut buffer) {
                let packet = buffer[..n].to_vec();
                if outage.load(Ordering::Relaxed) {
                    continue;
                }
                if way == 1 {
                    ways[1].push_back((now + one_way, packet));
                    continue;
                }
                if n > 500 && drop_next.load(Ordering::Relaxed) > 0 {
                    drop_next.fetch_sub(1, Ordering::Relaxed);
                    continue;
                }
                while leaving.front().is_some_and(|&at| at <= now) {
                    leaving.pop_front();
                }
                let mut script = script.lock().unwrap();
                let is_lost = n > 500 && script.lost.contains(&script.count);
                script.count += u64::from(n > 500);
                drop(script);
                draw ^= draw << 13;
                draw ^= draw >> 7;
                draw ^= draw << 17;
                if leaving.len() > line.packets {
                    continue;
                }
                free = free.max(now) + n as u64 * 8 * 1_000_000_000 / line.bits_per_second;
                leaving.push_back(free);
                if draw % 1000 >= line.loss_per_mille && !is_lost {
                    ways[0].push_back((free + one_way, packet));
                }
            }
        }
        for way in 0..2 {
            while ways[way].front().is_some_and(|p| p.0 <= now) {
                let (_, packet) = ways[way].pop_front().unwrap();
                let _ = tuns[1 - way].write(&packet);
            }
        }
    }
}

/// One upload from a to b, counted at b.
pub struct Upload {
    pub socket: TcpStream,
    received: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
}

static PORTS: Mutex<u16> = Mutex::new(20_000);

impl Upload {
    /// `control`: what the program asks for; `before` runs on the socket's descriptor before it
    /// connects.
    pub fn new(bed: &Bed, control: Option<&str>, before: impl FnOnce(i32)) -> Upload {
        let port = {
            let mut ports = PORTS.lock().unwrap();
            *ports += 1;
            *ports
        };
        let listener = bed.b.run(move || TcpListener::bind(("10.9.0.2", port)).unwrap());
        let received = Arc::new(AtomicU64::new(0));
        let counter = received.clone();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 17];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                counter.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        let unconnected = bed.a.run(sys::tcp_socket).unwrap();
        if let Some(control) = control {
            sys::set_congestion_control(unconnected.as_raw_fd(), control).unwrap();
        }
        before(unconnected.as_raw_fd());
        let socket = sys::connect(unconnected, [10, 9, 0, 2], port).unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let (mut sender, stop) = (socket.try_clone().unwrap(), end.clone());
        thread::spawn(move || {
            let data = vec![0; 1 << 15];
            while !stop.load(Ordering::Relaxed) && sender.write_all(&data).is_ok() {}
        });
        Upload { socket, received, end }
    }

    pub fn bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

/// Mean rates of uploads over `span`, Mbit/s.
pub fn rates(uploads: &[Upload], span: Duration) -> Vec<f64> {
    let (start, at) = (uploads.iter().map(Upload::bytes).collect::<Vec<_>>(), sys::monotonic());
    thread::sleep(span);
    let seconds = sys::monotonic().since(at).as_secs_f64();
    uploads.iter().zip(start).map(|(u, start)| (u.bytes() - start) as f64 * 8e-6 / seconds).collect()
}
