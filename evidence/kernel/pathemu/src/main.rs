//! A bottleneck between two network namespaces: packets that the kernel sends into a TUN device in
//! one leave a TUN device in the other after a queue, a line of given rate and delay, and random
//! loss.
//!
//! Forward (from `--from` to `--to`): drop-tail queue, rate (0: none), delay, loss. Back: delay
//! only. `--data` and `--acks` say what becomes of single packets (see script.rs); a delayed packet
//! may be overtaken. The times at which a packet starts and ends on the line and is delivered are
//! computed exactly when it is read. What the scheduler adds is measured, so that a run on a busy
//! machine can be rejected: how late packets were delivered, how long packets waited to be read
//! from the device, and how long data waited to be read from the socket.
//!
//! With `--cc` it also is the application at either end (see hosts.rs), from the first line on
//! standard input on; with `--read` at the receiver alone, from the beginning on.
//!
//! The result is one JSON object on standard output. The run ends after `--seconds`, or when
//! standard input is closed.

mod clock;
mod hosts;
mod line;
mod packet;
mod script;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::ExitCode;

use clock::{Lateness, RealTime, RunDelay, ask_for_weight, now_ns, os_error, pollfd, wait};
use hosts::{Hosts, Plan};
use line::{Bottleneck, Fate, Losses};
use packet::Tcp;
use script::{Action, Script};

const USAGE: &str = "pathemu --from NETNS --to NETNS --rate BIT_PER_S --delay-us N --limit-packets N
        [--back-delay-us N] [--limit-bytes N] [--loss P] [--seed N] [--seconds S] [--sample-ms N] [--trace FILE]
        [--mss N --data SCRIPT --acks SCRIPT] [--napi] [--realtime]
        [--cc NAME --peer IPV4 --starts-ms N,N... --ahead BYTES --warmup S | --read]
Both namespaces get a TUN device `path0`. --limit-packets counts waiting packets, without the one on the line. --seed is
that of the losses: a seed has its sequence, of which --tell-losses N tells
the first N and ends. --napi gives the receiver's device NAPI, and with it receive offload. --realtime: weight alone does
not do on a machine with much other work; the lowest real-time priority, given back by who sleeps less than 0.3 of a second.";

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
    napi: bool,
    realtime: bool,
    /// The receiver's application is here.
    read: bool,
    /// Empty: the sender's application is not here.
    cc: String,
    peer: [u8; 4],
    starts_ns: Vec<u64>,
    ahead: u64,
    warmup_ns: u64,
    /// Not zero: only tell which of so many packets the line would lose.
    tell_losses: u64,
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
        napi: false,
        realtime: false,
        read: false,
        cc: String::new(),
        peer: [0; 4],
        starts_ns: vec![0],
        ahead: 1 << 22,
        warmup_ns: 0,
        tell_losses: 0,
    };
    let mut args = std::env::args().skip(1);
    while let Some(key) = args.next() {
        let switch = match key.as_str() {
            "--napi" => Some(&mut a.napi),
            "--realtime" => Some(&mut a.realtime),
            "--read" => Some(&mut a.read),
            _ => None,
        };
        if let Some(switch) = switch {
            *switch = true;
            continue;
        }
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
            "--cc" => a.cc = value,
            "--peer" => {
                let ip: std::net::Ipv4Addr =
                    value.parse().map_err(|_| format!("{key} {value}: not an IPv4 address"))?;
                a.peer = ip.octets();
            }
            "--starts-ms" => {
                let starts = value.split(',').map(|ms| ms.parse::<f64>().map(|ms| (ms * 1e6) as u64));
                a.starts_ns = starts.collect::<Result<_, _>>().map_err(|_| format!("{key} {value}: not numbers"))?;
            }
            "--tell-losses" => a.tell_losses = number()?,
            "--ahead" => a.ahead = number()?,
            "--warmup" => a.warmup_ns = (real()? * 1e9) as u64,
            _ => return Err(format!("unknown option {key}")),
        }
    }
    if a.tell_losses > 0 {
        return Ok(a);
    }
    if a.from.is_empty() || a.to.is_empty() || a.rate_bit_per_s == u64::MAX || a.sample_ns == 0 {
        return Err("--from, --to and --rate are needed, and --sample-ms above 0".into());
    }
    if !(0.0..1.0).contains(&a.loss) {
        return Err("--loss must be from 0 to 1".into());
    }
    if a.back_delay_ns == u64::MAX {
        a.back_delay_ns = a.delay_ns;
    }
    Ok(a)
}

/// Opens TUN device `path0` inside the named namespace (as `ip netns` names them). Moves the
/// calling thread there.
fn open_tun(netns: &str, napi: bool) -> Result<File, String> {
    hosts::enter(netns)?;
    let dev = CString::new("/dev/net/tun").expect("no NUL inside");
    // SAFETY: `dev` is a NUL-terminated path; the returned descriptor is owned by the File below
    // and nothing else.
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
    // No IFF_VNET_HDR: the kernel then has to cut large segments itself, and every packet here is
    // what
    // a wire would carry. Without IFF_NAPI the driver gives each packet to the stack by itself, and
    // nothing is merged (drivers/net/tun.c, tun_get_user and tun_napi_receive).
    let napi = if napi { libc::IFF_NAPI } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | napi) as libc::c_short;
    // SAFETY: the descriptor is a TUN control file and `request` outlives the call.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) } != 0 {
        return Err(os_error("TUNSETIFF"));
    }
    Ok(file)
}

/// Ordered by time of delivery, then by arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct InFlight {
    due_ns: u64,
    order: u64,
    is_data: bool,
    bytes: Vec<u8>,
}

/// Gaps between packets, of which the median and the tenths at either end are told.
#[derive(Default)]
struct Gaps {
    last_ns: Option<u64>,
    all_ns: Vec<u64>,
}

impl Gaps {
    fn add(&mut self, now: u64) {
        if let Some(last) = self.last_ns.replace(now) {
            self.all_ns.push(now - last);
        }
    }

    fn json(&mut self) -> String {
        self.all_ns.sort_unstable();
        let n = self.all_ns.len();
        let at = |percent: usize| {
            self.all_ns.get(n * percent / 100).map_or("null".into(), |ns| format!("{:.1}", *ns as f64 / 1e3))
        };
        format!("{{\"n\":{n},\"p10_us\":{},\"p50_us\":{},\"p90_us\":{}}}", at(10), at(50), at(90))
    }
}

/// Packets that came by, beside the bottleneck's counters.
#[derive(Default)]
struct Passed {
    /// Data packets given to the receiver, and ACKs read from it.
    data: u64,
    acks: u64,
    /// Between ACKs.
    gaps: Gaps,
    largest: usize,
    write_errors: u64,
}

/// True if time was kept.
#[derive(Default)]
struct Kept {
    /// Packets given to a device, after the time computed.
    deliveries: Lateness,
    /// Packets read from a device: for how long at most they had been there.
    arrivals: Lateness,
    /// Data read from a socket: for how long at most it had been there.
    reads: Lateness,
}

/// The path's state while it runs.
struct Path {
    tun: [File; 2],
    line: Bottleneck,
    flight: [BinaryHeap<Reverse<InFlight>>; 2],
    order: u64,
    /// Sequence number of the sender's SYN.
    first_seq: u32,
    trace: Option<BufWriter<File>>,
    started: u64,
    /// From here on gaps between ACKs count.
    gaps_from: u64,
    passed: Passed,
    kept: Kept,
}

impl Path {
    /// Gives away what is due; whether any of it went to the receiver.
    fn deliver(&mut self, now: u64) -> bool {
        let mut any = false;
        for way in 0..2 {
            while self.flight[way].peek().is_some_and(|p| p.0.due_ns <= now) {
                let Reverse(p) = self.flight[way].pop().expect("just seen");
                self.kept.deliveries.add(now_ns() - p.due_ns);
                self.passed.write_errors += u64::from((&self.tun[1 - way]).write(&p.bytes).is_err());
                any |= way == 0;
                self.passed.data += u64::from(way == 0 && p.is_data);
            }
        }
        any
    }

    /// Takes what the devices hold; `waited_ns`: for how long at most it has been there.
    fn take(&mut self, args: &mut Args, buffer: &mut [u8], waited_ns: u64) -> Result<(), String> {
        for way in 0..2 {
            // Bounded, so that a burst one way cannot hold up deliveries the other way.
            for _ in 0..32 {
                let n = match (&self.tun[way]).read(buffer) {
                    Ok(n) => n,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(format!("read from TUN: {e}")),
                };
                self.kept.arrivals.add(waited_ns);
                self.packet(args, way, &buffer[..n])?;
            }
        }
        Ok(())
    }

    fn packet(&mut self, args: &mut Args, way: usize, bytes: &[u8]) -> Result<(), String> {
        let at = now_ns();
        let n = bytes.len();
        self.passed.largest = self.passed.largest.max(n);
        let tcp = Tcp::parse(bytes);
        let is_data = tcp.as_ref().is_some_and(|t| t.payload > 0);
        let action = match &tcp {
            Some(t) if t.is_syn() => {
                if way == 0 {
                    self.first_seq = t.seq;
                }
                None
            }
            Some(t) if way == 0 && t.payload > 0 => {
                args.data.next(Some(u64::from(t.seq.wrapping_sub(self.first_seq).wrapping_sub(1)) / args.mss))
            }
            Some(_) if way == 1 => {
                self.passed.acks += 1;
                if at >= self.gaps_from {
                    self.passed.gaps.add(at);
                }
                args.acks.next(None)
            }
            _ => None,
        };
        let (mut fate, mut due) = if way == 0 {
            match self.line.arrive(at, n as u64) {
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
        if let (Some(f), Some(t)) = (&mut self.trace, &tcp) {
            writeln!(f, "{},{},{fate},{n},{}", at - self.started, ["forward", "back"][way], t.columns())
                .map_err(|e| format!("trace: {e}"))?;
        }
        if let Some(due_ns) = due {
            self.order += 1;
            self.flight[way].push(Reverse(InFlight { due_ns, order: self.order, is_data, bytes: bytes.to_vec() }));
        }
        Ok(())
    }

    fn next_due(&self) -> u64 {
        self.flight.iter().filter_map(|f| f.peek().map(|p| p.0.due_ns)).min().unwrap_or(u64::MAX)
    }

    /// The counters, as a row of `series`.
    fn row(&mut self, at: u64) -> String {
        self.line.advance(at);
        let (c, p) = (self.line.count, &self.passed);
        format!(
            "[{at},{},{},{},{},{},{},{},{},{}]",
            c.arrived,
            c.dropped,
            c.lost,
            c.sent,
            c.sent_bytes,
            c.waited_ns,
            self.line.waiting(),
            p.data,
            p.acks
        )
    }
}

fn open_trace(path: &str) -> Result<BufWriter<File>, String> {
    let mut f = BufWriter::new(File::create(path).map_err(|e| format!("{path}: {e}"))?);
    writeln!(f, "time_ns,way,fate,ip_bytes,src_port,dst_port,seq,ack,flags,payload,window,sack")
        .map_err(|e| format!("{path}: {e}"))?;
    Ok(f)
}

fn run(args: &mut Args) -> Result<(), String> {
    let tun = [open_tun(&args.from, false)?, open_tun(&args.to, args.napi)?];
    let mut hosts = None;
    let sends = !args.cc.is_empty();
    if sends || args.read {
        let starts_ns = if sends { args.starts_ns.clone() } else { Vec::new() };
        let plan = Plan { cc: args.cc.clone(), starts_ns, ahead: args.ahead };
        hosts = Some(Hosts::new(&args.from, &args.to, args.peer, plan)?);
    }
    let weight = ask_for_weight();
    let mut realtime = RealTime::new(args.realtime, now_ns());
    let mut run_delay = RunDelay::open()?;
    let mut path = Path {
        tun,
        line: Bottleneck::new(
            args.rate_bit_per_s,
            args.limit_packets,
            args.limit_bytes,
            Losses::new(args.seed, args.loss),
        ),
        flight: [BinaryHeap::new(), BinaryHeap::new()],
        order: 0,
        first_seq: 0,
        trace: args.trace.as_deref().map(open_trace).transpose()?,
        started: now_ns(),
        gaps_from: u64::MAX,
        passed: Passed::default(),
        kept: Kept::default(),
    };
    println!("ready");

    let mut buffer = vec![0u8; 65536];
    let mut series = Vec::new();
    // With an application here, when it began: the addresses are set after `ready`.
    let mut begin = if sends { u64::MAX } else { path.started };
    let mut end = path.started + args.run_ns;
    let mut next_sample = path.started;

    loop {
        let waited_ns = run_delay.since()?;
        let now = now_ns();
        if now >= end {
            break;
        }
        while next_sample <= now {
            if begin <= now {
                series.push(path.row(next_sample));
            }
            next_sample += args.sample_ns;
            if let Some(h) = &mut hosts {
                h.sample(now)?;
            }
        }
        let delivered = path.deliver(now);
        if let Some(h) = &mut hosts {
            if begin <= now {
                h.open(now - begin)?;
            }
            // Either it was delivered just now or by the kernel's own timer meanwhile.
            if h.receive()? {
                path.kept.reads.add(if delivered { now_ns() - now } else { waited_ns });
            }
        }
        path.take(args, &mut buffer, waited_ns)?;
        let mut until = path.next_due().min(next_sample).min(end);
        let mut fds = vec![pollfd(path.tun[0].as_raw_fd()), pollfd(path.tun[1].as_raw_fd()), pollfd(0)];
        if let Some(h) = &hosts {
            fds.extend(h.descriptors().map(pollfd));
            until = until.min(h.next_start().map_or(u64::MAX, |ns| begin.saturating_add(ns)));
        }
        let from = now_ns();
        wait(&mut fds, until)?;
        realtime.slept(from, now_ns());
        if fds[2].revents != 0 {
            if io::stdin().read(&mut [0u8; 64]).map_err(|e| format!("standard input: {e}"))? == 0 {
                break;
            }
            if begin == u64::MAX {
                begin = now_ns();
                end = begin + args.run_ns;
                path.gaps_from = begin + args.warmup_ns;
            }
        }
    }
    if let Some(mut f) = path.trace.take() {
        f.flush().map_err(|e| format!("trace: {e}"))?;
    }
    let stays = hosts.is_some();
    let application = hosts.map_or(String::new(), |h| format!("\"begin_ns\":{begin},{},", h.close()));
    println!(
        "{{\"nice\":{},\"autogroup\":{},\"slice\":{},\"realtime\":{},\"given_back\":{},\"write_errors\":{},\"largest_packet\":{},\
         \"deliveries\":{},\"arrivals\":{},\"reads\":{},\"ack_gaps\":{},{application}\
         \"series_columns\":[\"time_ns\",\"arrived\",\"dropped\",\"lost\",\"sent\",\"sent_bytes\",\"waited_ns\",\"waiting\",\
         \"data\",\"acks\"],\"series\":[{}]}}",
        weight.nice,
        weight.autogroup,
        weight.slice,
        realtime.held(),
        realtime.given_back,
        path.passed.write_errors,
        path.passed.largest,
        path.kept.deliveries.json(),
        path.kept.arrivals.json(),
        path.kept.reads.json(),
        path.passed.gaps.json(),
        series.join(",")
    );
    // The devices, and what they have counted, stay until standard input is closed.
    if stays {
        io::copy(&mut io::stdin(), &mut io::sink()).map_err(|e| format!("standard input: {e}"))?;
    }
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
    if args.tell_losses > 0 {
        let mut losses = Losses::new(args.seed, args.loss);
        let lost: Vec<_> = (0..args.tell_losses).filter(|_| losses.draw()).map(|n| n.to_string()).collect();
        println!("[{}]", lost.join(","));
        return ExitCode::SUCCESS;
    }
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

    #[test]
    fn gaps_are_told_by_rank() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.json(), r#"{"n":0,"p10_us":null,"p50_us":null,"p90_us":null}"#);
        // Gaps of 1 to 10 us.
        let mut at = 0;
        for us in 0..=10 {
            at += us * 1000;
            gaps.add(at);
        }
        assert_eq!(gaps.json(), r#"{"n":10,"p10_us":2.0,"p50_us":6.0,"p90_us":10.0}"#);
    }
}
