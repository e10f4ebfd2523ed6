//! A bottleneck between two network namespaces: packets that the kernel sends into a TUN device in one leave a TUN device
//! in the other after a queue, a line of given rate and delay, and random loss.
//!
//! Forward (from `--from` to `--to`): drop-tail queue, rate (0: none), delay, loss. Back: delay only. `--data` and `--acks` say what
//! becomes of single packets (see script.rs); a delayed packet may be overtaken. The times at which a packet
//! starts and ends on the line and is delivered are computed exactly when it is read; what the scheduler adds is measured
//! as lateness of the delivery and reported, so that a run on a busy machine can be rejected.
//!
//! The result is one JSON object on standard output. The run ends after `--seconds`, or when standard input is closed.

mod script;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::process::ExitCode;

use script::{Action, Script};

const USAGE: &str = "pathemu --from NETNS --to NETNS --rate BIT_PER_S --delay-us N --limit-packets N
        [--back-delay-us N] [--limit-bytes N] [--loss P] [--seed N] [--seconds S] [--sample-ms N] [--trace FILE]
        [--mss N --data SCRIPT --acks SCRIPT]
Both namespaces get a TUN device `path0`. --limit-packets counts waiting packets, without the one on the line.";

struct Args {
    from: String,
    to: String,
    rate_bit_per_s: u64,
    delay_ns: u64,
    back_delay_ns: u64,
    limit_packets: u64,
    limit_bytes: u64,
    loss: f64,
    seed: u64,
    run_ns: u64,
    sample_ns: u64,
    trace: Option<String>,
    /// Payload of a segment, to number segments.
    mss: u64,
    data: Script,
    acks: Script,
}

fn parse_args() -> Result<Args, String> {
    let mut a = Args {
        from: String::new(),
        to: String::new(),
        rate_bit_per_s: u64::MAX,
        delay_ns: 0,
        back_delay_ns: u64::MAX,
        limit_packets: u64::MAX,
        limit_bytes: u64::MAX,
        loss: 0.0,
        seed: 1,
        run_ns: 600_000_000_000,
        sample_ns: 100_000_000,
        trace: None,
        mss: 1448,
        data: Script::default(),
        acks: Script::default(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(key) = args.next() {
        let value = args.next().ok_or_else(|| format!("{key} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{key} {value}: not a whole number"));
        let real = || value.parse::<f64>().map_err(|_| format!("{key} {value}: not a number"));
        match key.as_str() {
            "--from" => a.from = value,
            "--to" => a.to = value,
            "--rate" => a.rate_bit_per_s = number()?,
            "--delay-us" => a.delay_ns = number()? * 1000,
            "--back-delay-us" => a.back_delay_ns = number()? * 1000,
            "--limit-packets" => a.limit_packets = number()?,
            "--limit-bytes" => a.limit_bytes = number()?,
            "--loss" => a.loss = real()?,
            "--seed" => a.seed = number()?,
            "--seconds" => a.run_ns = (real()? * 1e9) as u64,
            "--sample-ms" => a.sample_ns = number()? * 1_000_000,
            "--trace" => a.trace = Some(value),
            "--mss" => a.mss = number()?.max(1),
            "--data" => a.data = Script::parse(&value)?,
            "--acks" => a.acks = Script::parse(&value)?,
            _ => return Err(format!("unknown option {key}")),
        }
    }
    if a.from.is_empty() || a.to.is_empty() || a.rate_bit_per_s == u64::MAX || a.sample_ns == 0 {
        return Err("--from, --to and --rate are needed, and --sample-ms above 0".into());
    }
    if !(0.0..1.0).contains(&a.loss) {
        return Err("--loss must be in 0..1".into());
    }
    if a.back_delay_ns == u64::MAX {
        a.back_delay_ns = a.delay_ns;
    }
    Ok(a)
}

/// CLOCK_MONOTONIC, nanoseconds: what Python's `time.monotonic_ns` reads too.
fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec; CLOCK_MONOTONIC always exists on Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn os_error(what: &str) -> String {
    format!("{what}: {}", io::Error::last_os_error())
}

/// Opens TUN device `path0` inside the named namespace (as `ip netns` names them). Moves the calling thread there.
fn open_tun(netns: &str) -> Result<File, String> {
    let path = format!("/run/netns/{netns}");
    let ns = File::open(&path).map_err(|e| format!("{path}: {e}"))?;
    // SAFETY: `ns` is an open descriptor of a network namespace.
    if unsafe { libc::setns(ns.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        return Err(os_error(&format!("setns {netns}")));
    }
    let dev = CString::new("/dev/net/tun").expect("no NUL inside");
    // SAFETY: `dev` is a NUL-terminated path; the returned descriptor is owned by the File below and nothing else.
    let file = unsafe {
        let fd = libc::open(dev.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(os_error("/dev/net/tun"));
        }
        File::from_raw_fd(fd)
    };
    // SAFETY: an all-zero ifreq is a valid value of that C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"path0") {
        *to = *from as libc::c_char;
    }
    // No IFF_VNET_HDR: the kernel then has to cut large segments itself, and every packet here is what a wire would carry.
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is a TUN control file and `request` outlives the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) } != 0 {
        return Err(os_error("TUNSETIFF"));
    }
    Ok(file)
}

/// Real-time priority and locked memory where allowed; without them only lateness grows, and that is reported.
fn ask_for_priority() -> bool {
    let param = libc::sched_param { sched_priority: 10 };
    // SAFETY: plain system calls with valid arguments.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE);
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0
    }
}

/// SplitMix64: which packets are lost depends on the seed and the packet's number only.
struct Rng(u64);

impl Rng {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ordered by time of delivery, then by arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    due_ns: u64,
    order: u64,
    bytes: Vec<u8>,
}

/// How late deliveries were.
#[derive(Default)]
struct Lateness {
    n: u64,
    sum_ns: u64,
    max_ns: u64,
    over_1ms: u64,
    over_5ms: u64,
}

impl Lateness {
    fn add(&mut self, ns: u64) {
        self.n += 1;
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        self.over_1ms += u64::from(ns > 1_000_000);
        self.over_5ms += u64::from(ns > 5_000_000);
    }
}

#[derive(Default, Clone, Copy)]
struct Counters {
    arrived: u64,
    dropped: u64,
    /// Lost on the line, after transmission.
    lost: u64,
    /// Packets and bytes whose transmission has started.
    sent: u64,
    sent_bytes: u64,
    /// Total waiting time of those packets; its slope is the mean number waiting.
    waited_ns: u64,
}

/// A packet between its arrival and the start of its transmission.
struct Waiting {
    start_ns: u64,
    arrival_ns: u64,
    bytes: u64,
}

struct Bottleneck {
    rate_bit_per_s: u64,
    limit_packets: u64,
    limit_bytes: u64,
    loss: f64,
    rng: Rng,
    free_ns: u64,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    count: Counters,
}

enum Fate {
    Dropped,
    Lost,
    /// The last bit leaves the line's near end at this time.
    Sent(u64),
}

impl Bottleneck {
    /// Moves packets whose transmission has started by `now` out of the queue.
    fn advance(&mut self, now: u64) {
        while let Some(w) = self.waiting.front() {
            if w.start_ns > now {
                break;
            }
            self.count.sent += 1;
            self.count.sent_bytes += w.bytes;
            self.count.waited_ns += w.start_ns - w.arrival_ns;
            self.waiting_bytes -= w.bytes;
            self.waiting.pop_front();
        }
    }

    fn arrive(&mut self, now: u64, bytes: u64) -> Fate {
        self.advance(now);
        self.count.arrived += 1;
        let idle = self.free_ns <= now;
        if !idle && (self.waiting.len() as u64 >= self.limit_packets || self.waiting_bytes + bytes > self.limit_bytes) {
            self.count.dropped += 1;
            return Fate::Dropped;
        }
        let start_ns = self.free_ns.max(now);
        self.free_ns = start_ns + (bytes * 8 * 1_000_000_000).checked_div(self.rate_bit_per_s).unwrap_or(0);
        self.waiting.push_back(Waiting { start_ns, arrival_ns: now, bytes });
        self.waiting_bytes += bytes;
        self.advance(now);
        // One draw for each packet sent, so that the losses do not depend on what the queue dropped.
        if self.rng.unit() < self.loss {
            self.count.lost += 1;
            return Fate::Lost;
        }
        Fate::Sent(self.free_ns)
    }
}

/// What the trace and the scripts need of a TCP packet.
struct Tcp {
    ports: (u16, u16),
    seq: u32,
    ack: u32,
    flags: u8,
    payload: usize,
    window: u16,
    /// SACK blocks in the packet's order.
    sack: Vec<(u32, u32)>,
}

impl Tcp {
    fn parse(p: &[u8]) -> Option<Tcp> {
        if p.len() < 40 || p[0] >> 4 != 4 || p[9] != 6 {
            return None;
        }
        let ip = usize::from(p[0] & 15) * 4;
        let t = p.get(ip..)?;
        let u16_at = |i: usize| u16::from_be_bytes([t[i], t[i + 1]]);
        let u32_at = |i: usize| u32::from_be_bytes([t[i], t[i + 1], t[i + 2], t[i + 3]]);
        let header = usize::from(t.get(12)? >> 4) * 4;
        if t.len() < header || header < 20 {
            return None;
        }
        let mut sack = Vec::new();
        let mut option = 20;
        while option < header && t[option] != 0 {
            if t[option] == 1 {
                option += 1;
                continue;
            }
            let len = usize::from(*t.get(option + 1)?);
            if t[option] == 5 {
                let blocks = (option + 2..).step_by(8).take_while(|b| b + 8 <= (option + len).min(header));
                sack = blocks.map(|b| (u32_at(b), u32_at(b + 4))).collect();
            }
            option += len.max(2);
        }
        let ports = (u16_at(0), u16_at(2));
        let (payload, window) = (t.len() - header, u16_at(14));
        Some(Tcp { ports, seq: u32_at(4), ack: u32_at(8), flags: t[13], payload, window, sack })
    }

    fn is_syn(&self) -> bool {
        self.flags & 2 != 0
    }

    /// As columns of the trace; SACK blocks as `from-to;from-to`.
    fn columns(&self) -> String {
        let sack: Vec<String> = self.sack.iter().map(|(a, b)| format!("{a}-{b}")).collect();
        format!(
            "{},{},{},{},{},{},{},{}",
            self.ports.0,
            self.ports.1,
            self.seq,
            self.ack,
            self.flags,
            self.payload,
            self.window,
            sack.join(";")
        )
    }
}

fn wait(fds: &mut [libc::pollfd], until: u64) -> Result<(), String> {
    let left = until.saturating_sub(now_ns());
    let timeout = libc::timespec { tv_sec: (left / 1_000_000_000) as _, tv_nsec: (left % 1_000_000_000) as _ };
    // SAFETY: the slice is valid for its length, the mask pointer may be null.
    let n = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &timeout, std::ptr::null()) };
    if n < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        return Err(os_error("ppoll"));
    }
    Ok(())
}

fn pollfd(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

fn run(args: &mut Args) -> Result<(), String> {
    let tun = [open_tun(&args.from)?, open_tun(&args.to)?];
    let realtime = ask_for_priority();
    let mut trace = match &args.trace {
        Some(path) => {
            let mut f = BufWriter::new(File::create(path).map_err(|e| format!("{path}: {e}"))?);
            writeln!(f, "time_ns,way,fate,ip_bytes,src_port,dst_port,seq,ack,flags,payload,window,sack")
                .map_err(|e| format!("{path}: {e}"))?;
            Some(f)
        }
        None => None,
    };
    println!("ready");

    let mut line = Bottleneck {
        rate_bit_per_s: args.rate_bit_per_s,
        limit_packets: args.limit_packets,
        limit_bytes: args.limit_bytes,
        loss: args.loss,
        rng: Rng(args.seed),
        free_ns: 0,
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        count: Counters::default(),
    };
    let mut flight: [BinaryHeap<Reverse<InFlight>>; 2] = [BinaryHeap::new(), BinaryHeap::new()];
    let mut order = 0;
    // Sequence number of the sender's SYN.
    let mut first_seq = 0u32;
    let mut late = Lateness::default();
    let mut write_errors = 0u64;
    let mut largest = 0usize;
    let mut buffer = vec![0u8; 65536];
    let mut series = Vec::new();
    let started = now_ns();
    let end = started + args.run_ns;
    let mut next_sample = started;
    let mut fds = [pollfd(tun[0].as_raw_fd()), pollfd(tun[1].as_raw_fd()), pollfd(0)];

    'run: loop {
        let now = now_ns();
        while next_sample <= now {
            line.advance(next_sample);
            let c = line.count;
            series.push(format!(
                "[{next_sample},{},{},{},{},{},{},{}]",
                c.arrived,
                c.dropped,
                c.lost,
                c.sent,
                c.sent_bytes,
                c.waited_ns,
                line.waiting.len()
            ));
            next_sample += args.sample_ns;
        }
        if now >= end {
            break;
        }
        for way in 0..2 {
            while flight[way].peek().is_some_and(|p| p.0.due_ns <= now) {
                let Reverse(p) = flight[way].pop().expect("just seen");
                late.add(now - p.due_ns);
                if (&tun[1 - way]).write(&p.bytes).is_err() {
                    write_errors += 1;
                }
            }
        }
        for way in 0..2 {
            // Bounded, so that a burst one way cannot hold up deliveries the other way.
            for _ in 0..32 {
                let n = match (&tun[way]).read(&mut buffer) {
                    Ok(n) => n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(format!("read from TUN: {e}")),
                };
                let at = now_ns();
                largest = largest.max(n);
                let tcp = Tcp::parse(&buffer[..n]);
                let action = match &tcp {
                    Some(t) if t.is_syn() => {
                        if way == 0 {
                            first_seq = t.seq;
                        }
                        None
                    }
                    Some(t) if way == 0 && t.payload > 0 => {
                        args.data.next(Some(u64::from(t.seq.wrapping_sub(first_seq).wrapping_sub(1)) / args.mss))
                    }
                    Some(_) if way == 1 => args.acks.next(None),
                    _ => None,
                };
                let (mut fate, mut due) = if way == 0 {
                    match line.arrive(at, n as u64) {
                        Fate::Dropped => ("dropped", None),
                        Fate::Lost => ("lost", None),
                        Fate::Sent(done) => ("sent", Some(done + args.delay_ns)),
                    }
                } else {
                    ("sent", Some(at + args.back_delay_ns))
                };
                match action {
                    Some(Action::Lose) => (fate, due) = ("lost", None),
                    Some(Action::DelayNs(extra)) => due = due.map(|d| d + extra),
                    None => {}
                }
                if let (Some(f), Some(t)) = (&mut trace, &tcp) {
                    writeln!(f, "{},{},{fate},{n},{}", at - started, ["forward", "back"][way], t.columns())
                        .map_err(|e| format!("trace: {e}"))?;
                }
                if let Some(due_ns) = due {
                    order += 1;
                    flight[way].push(Reverse(InFlight { due_ns, order, bytes: buffer[..n].to_vec() }));
                }
            }
        }
        let due = flight.iter().filter_map(|f| f.peek().map(|p| p.0.due_ns)).min().unwrap_or(u64::MAX);
        wait(&mut fds, due.min(next_sample).min(end))?;
        if fds[2].revents != 0 && io::stdin().read(&mut [0u8; 64]).map_err(|e| format!("standard input: {e}"))? == 0 {
            break 'run;
        }
    }
    if let Some(mut f) = trace {
        f.flush().map_err(|e| format!("trace: {e}"))?;
    }
    println!(
        "{{\"realtime\":{realtime},\"write_errors\":{write_errors},\"largest_packet\":{largest},\"delivered\":{},\
         \"late_mean_us\":{:.1},\"late_max_us\":{:.1},\"late_over_1ms\":{},\"late_over_5ms\":{},\
         \"series_columns\":[\"time_ns\",\"arrived\",\"dropped\",\"lost\",\"sent\",\"sent_bytes\",\"waited_ns\",\"waiting\"],\
         \"series\":[{}]}}",
        late.n,
        late.sum_ns as f64 / late.n.max(1) as f64 / 1e3,
        late.max_ns as f64 / 1e3,
        late.over_1ms,
        late.over_5ms,
        series.join(",")
    );
    Ok(())
}

fn main() -> ExitCode {
    let mut args = match parse_args() {
        Ok(a) => a,
        Err(e) => {
            eprintln!("pathemu: {e}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&mut args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("pathemu: {e}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(limit_packets: u64) -> Bottleneck {
        Bottleneck {
            rate_bit_per_s: 12_000_000,
            limit_packets,
            limit_bytes: u64::MAX,
            loss: 0.0,
            rng: Rng(1),
            free_ns: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            count: Counters::default(),
        }
    }

    #[test]
    fn packets_leave_one_after_the_other_and_the_limit_leaves_out_the_one_on_the_line() {
        // 1500 bytes at 12 Mbit/s take 1 ms.
        let mut l = line(2);
        let done: Vec<_> = (0..4).map(|_| l.arrive(1_000_000, 1500)).collect();
        let sent: Vec<_> = done.iter().map(|f| if let Fate::Sent(t) = f { *t } else { 0 }).collect();
        assert_eq!(sent, [2_000_000, 3_000_000, 4_000_000, 0]);
        assert_eq!((l.count.arrived, l.count.dropped, l.count.sent), (4, 1, 1));
        l.advance(3_000_000);
        assert_eq!((l.count.sent, l.count.waited_ns, l.waiting.len()), (3, 3_000_000, 0));
    }

    #[test]
    fn no_room_to_wait_still_serves_an_idle_line() {
        let mut l = line(0);
        assert!(matches!(l.arrive(0, 1500), Fate::Sent(1_000_000)));
        assert!(matches!(l.arrive(999_999, 1500), Fate::Dropped));
        assert!(matches!(l.arrive(1_000_000, 1500), Fate::Sent(2_000_000)));
    }
}
