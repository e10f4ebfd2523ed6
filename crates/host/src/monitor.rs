//! `airtcp-host monitor`: the kernel's TCP as tables, with the columns of a simulated run.
//!
//! With rights: an event for each ACK that a sender gets, each retransmission and change of state,
//! through a ring buffer. Without: the kernel is asked for all connections every 10 ms by
//! `sock_diag`, which needs no rights.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::Ipv6Addr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use airtcp_core::units::{Span, Time};

use crate::sys;

mod around;

pub use around::Around;

/// State of a connection at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// By the monotonic clock.
    pub at: Time,
    /// The kernel's name of the connection.
    pub cookie: u64,
    /// Acknowledged, bytes.
    pub acked_bytes: u64,
    /// Data segments sent.
    pub segments_sent: u64,
    /// 0: an ACK came. 1: a segment was retransmitted. 2: the state changes.
    pub kind: u32,
    /// With kind 2: the new state.
    pub state: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Smoothed round-trip time, us.
    pub srtt_us: u32,
    /// The receiver's window, bytes.
    pub window_bytes: u32,
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// Sent and not acknowledged, segments.
    pub packets_out: u32,
    /// Those of `packets_out` that SACK reports.
    pub sacked_out: u32,
    /// Those of `packets_out` that are judged lost.
    pub lost_out: u32,
    /// Those of `packets_out` that were sent again.
    pub retrans_out: u32,
    /// Retransmissions since it began.
    pub retransmitted: u32,
    /// Own port, other port.
    pub ports: (u16, u16),
    /// Own address, other address; those of IPv4 mapped.
    pub ends: [Ipv6Addr; 2],
}

/// Bytes of an event of the ring buffer.
pub const EVENT_BYTES: usize = 4 * 8 + 14 * 4 + 2 * 16;

fn address(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    for (to, from) in octets.iter_mut().zip(bytes) {
        *to = *from;
    }
    Ipv6Addr::from(octets)
}

impl Seen {
    /// Reads an event's bytes.
    pub fn of_event(bytes: &[u8]) -> Option<Seen> {
        if bytes.len() < EVENT_BYTES {
            return None;
        }
        let long = crate::words::words(&bytes[..32]);
        let short = |n: usize| {
            let at = 32 + 4 * n;
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let ports = short(13);
        Some(Seen {
            at: Time::from_ns(long[0]),
            cookie: long[1],
            acked_bytes: long[2],
            segments_sent: long[3],
            kind: short(0),
            state: short(1),
            cwnd: short(2),
            ssthresh: short(3),
            srtt_us: short(4),
            window_bytes: short(5),
            mss: short(6),
            packets_out: short(7),
            sacked_out: short(8),
            lost_out: short(9),
            retrans_out: short(10),
            retransmitted: short(11),
            ports: (u16::try_from(ports >> 16).unwrap_or(0), u16::try_from(ports & 0xffff).unwrap_or(0)),
            ends: [address(&bytes[88..104]), address(&bytes[104..120])],
        })
    }

    /// Reads one connection in an answer of `sock_diag`: the message behind its header.
    pub fn of_diag(at: Time, body: &[u8]) -> Option<Seen> {
        const ID: usize = 72;
        let family = *body.first()?;
        let be16 = |at: usize| Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]));
        let end = |at: usize| {
            let bytes = body.get(at..at + 16)?;
            if family == 2 {
                return Some(std::net::Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).to_ipv6_mapped());
            }
            Some(address(bytes))
        };
        let info = crate::paths::attribute(body.get(ID..)?, 2)?;
        let u32_at = |at: usize| Some(u32::from_ne_bytes(info.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(info.get(at..at + 8)?.try_into().ok()?));
        let cookie = body.get(44..52)?;
        Some(Seen {
            at,
            cookie: u64::from_ne_bytes(cookie.try_into().ok()?),
            acked_bytes: u64_at(120)?,
            segments_sent: u64::from(u32_at(156)?),
            kind: 0,
            state: 0,
            cwnd: u32_at(80)?,
            ssthresh: u32_at(76)?,
            srtt_us: u32_at(68)?,
            window_bytes: u32_at(228).unwrap_or(0),
            mss: u32_at(16)?,
            packets_out: u32_at(24)?,
            sacked_out: u32_at(28)?,
            lost_out: u32_at(32)?,
            retrans_out: u32_at(36)?,
            retransmitted: u32_at(100)?,
            ports: (be16(4)?, be16(6)?),
            ends: [end(8)?, end(24)?],
        })
    }

    /// Segments in the network.
    pub fn in_flight(&self) -> u32 {
        self.packets_out.saturating_add(self.retrans_out).saturating_sub(self.sacked_out.saturating_add(self.lost_out))
    }
}

/// Options of the monitor.
#[derive(Debug, Clone)]
pub struct Order {
    /// Folder to write; it must not exist.
    pub out: PathBuf,
    /// Only connections with this port; 0: all.
    pub port: u16,
    /// Only connections on this interface; 0: all.
    pub interface: u32,
    /// Least time between two rows of a connection; zero: a row for each ACK.
    pub interval: Duration,
    /// Ends after this; `None`: at SIGINT or SIGTERM.
    pub duration: Option<Duration>,
}

const SERIES: &str = "time_s,flow,cwnd_segments,ssthresh_segments,window_segments,in_flight_segments,srtt_ms,bytes_acked,segments_sent,segments_retransmitted\n";
const EVENTS: &str = "time_s,flow,event,cwnd_segments,in_flight_segments\n";
const FLOWS: &str =
    "flow,source,source_port,destination,destination_port,start_s,end_s,bytes_acked,segments_retransmitted\n";
const STATES: [&str; 13] = [
    "?",
    "established",
    "syn_sent",
    "syn_recv",
    "fin_wait1",
    "fin_wait2",
    "time_wait",
    "close",
    "close_wait",
    "last_ack",
    "listen",
    "closing",
    "new_syn_recv",
];

#[derive(Debug)]
struct Flow {
    number: usize,
    first: Time,
    /// When its last row was written, if one was.
    row: Option<Time>,
    last: Seen,
    /// The last thing seen is in no row yet.
    is_open: bool,
}

/// The tables, as they are written.
#[derive(Debug)]
pub struct Tables {
    folder: PathBuf,
    series: BufWriter<File>,
    events: BufWriter<File>,
    interval: Span,
    start: Time,
    flows: BTreeMap<u64, Flow>,
    /// Things seen.
    pub seen: u64,
}

impl Tables {
    /// In a new folder.
    pub fn new(folder: &Path, interval: Duration, start: Time) -> io::Result<Tables> {
        fs::create_dir_all(folder.parent().unwrap_or(Path::new(".")))?;
        fs::create_dir(folder)?;
        let open = |name: &str, head: &str| -> io::Result<BufWriter<File>> {
            let mut file = BufWriter::new(File::options().write(true).create_new(true).open(folder.join(name))?);
            file.write_all(head.as_bytes())?;
            Ok(file)
        };
        Ok(Tables {
            series: open("flow_series.csv", SERIES)?,
            events: open("events.csv", EVENTS)?,
            folder: folder.to_owned(),
            interval: sys::span(interval),
            start,
            flows: BTreeMap::new(),
            seen: 0,
        })
    }

    /// Takes in one thing.
    pub fn take(&mut self, seen: Seen) -> io::Result<()> {
        self.seen += 1;
        let number = self.flows.len();
        let flow = self.flows.entry(seen.cookie).or_insert(Flow {
            number,
            first: seen.at,
            row: None,
            last: seen,
            is_open: false,
        });
        // A connection that has ended has no port any more.
        let (ports, ends) = if seen.ports.0 == 0 { (flow.last.ports, flow.last.ends) } else { (seen.ports, seen.ends) };
        flow.last = Seen { ports, ends, ..seen };
        let time = |at: Time| seconds(at.since(self.start));
        if seen.kind > 0 {
            let state = STATES.get(seen.state as usize).unwrap_or(&STATES[0]);
            let event = if seen.kind == 1 { "retransmission" } else { state };
            writeln!(self.events, "{},{},{event},{},{}", time(seen.at), flow.number, seen.cwnd, seen.in_flight())?;
            return Ok(());
        }
        flow.is_open = true;
        if flow.row.is_none_or(|row| seen.at.since(row) >= self.interval) {
            flow.row = Some(seen.at);
            flow.is_open = false;
            row(&mut self.series, flow.number, &seen, &time(seen.at))?;
        }
        Ok(())
    }

    /// Writes what is left, the connections, and how it was measured.
    pub fn finish(mut self, how: &str, lost: u64) -> io::Result<()> {
        let mut flows = BufWriter::new(File::create_new(self.folder.join("flows.csv"))?);
        flows.write_all(FLOWS.as_bytes())?;
        let mut all: Vec<&Flow> = self.flows.values().collect();
        all.sort_by_key(|flow| flow.number);
        let time = |at: Time| seconds(at.since(self.start));
        for flow in all {
            let (l, first) = (&flow.last, flow.first);
            if flow.is_open {
                row(&mut self.series, flow.number, l, &time(l.at))?;
            }
            let [source, destination] = l.ends.map(|end| end.to_canonical());
            writeln!(
                flows,
                "{},{source},{},{destination},{},{},{},{},{}",
                flow.number,
                l.ports.0,
                l.ports.1,
                time(first),
                time(l.at),
                l.acked_bytes,
                l.retransmitted
            )?;
        }
        for file in [&mut flows, &mut self.series, &mut self.events] {
            file.flush()?;
        }
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let about = format!(
            "{{\"format\": \"airtcp-monitor\", \"format_version\": 1, \"source\": \"{how}\", \"kernel\": \"{}\", \"events\": {}, \"lost\": {lost}, \"end_unix_ns\": {}}}\n",
            kernel.trim(),
            self.seen,
            sys::realtime().as_ns()
        );
        fs::write(self.folder.join("monitor.json"), about)
    }
}

fn seconds(since_start: Span) -> String {
    let ns = since_start.as_ns();
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn row(out: &mut impl Write, flow: usize, s: &Seen, time: &str) -> io::Result<()> {
    // Linux has this for "no reduction yet".
    let ssthresh = if s.ssthresh >= 0x7fff_ffff { String::new() } else { s.ssthresh.to_string() };
    let window = s.cwnd.min(s.window_bytes / s.mss.max(1));
    writeln!(
        out,
        "{time},{flow},{},{ssthresh},{window},{},{}.{:03},{},{},{}",
        s.cwnd,
        s.in_flight(),
        s.srtt_us / 1000,
        s.srtt_us % 1000,
        s.acked_bytes,
        s.segments_sent,
        s.retransmitted
    )
}

/// Asks `sock_diag` for all established connections of a family.
fn diag_request(family: u8) -> Vec<u8> {
    let mut all = 72u32.to_ne_bytes().to_vec();
    all.extend(20u16.to_ne_bytes()); // SOCK_DIAG_BY_FAMILY
    all.extend(0x301u16.to_ne_bytes()); // a request, for all
    all.extend([0; 8]);
    all.extend([family, 6, 1 << 1, 0]); // TCP, with the extension INFO
    all.extend((1u32 << 1).to_ne_bytes()); // established
    all.resize(72, 0);
    all
}

/// Asks once for all connections of this namespace; `take` gets each, and the number of the
/// interface that it is bound to.
pub fn ask(
    socket: std::os::fd::RawFd,
    buffer: &mut [u8],
    mut take: impl FnMut(Seen, u32) -> Result<(), String>,
) -> Result<(), String> {
    let fault = |e: &io::Error| format!("monitor: cannot ask sock_diag: {e}");
    for family in [2, 10] {
        sys::send(socket, &diag_request(family)).map_err(|e| fault(&e))?;
        loop {
            sys::readable(&[socket], Duration::from_secs(1)).map_err(|e| fault(&e))?;
            let n = match sys::receive(socket, buffer) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(fault(&e)),
            };
            let now = sys::monotonic();
            let mut is_done = false;
            for (kind, body) in crate::paths::messages(&buffer[..n]) {
                is_done |= kind == 3 || kind == 2; // done, or an error
                let Some(seen) = Seen::of_diag(now, body).filter(|_| kind == 20) else { continue };
                let interface = body.get(40..44).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
                take(seen, interface)?;
            }
            if is_done {
                break;
            }
        }
    }
    Ok(())
}

/// By `sock_diag`, until the order's end.
pub fn by_diag(
    order: &Order,
    tables: &mut Tables,
    around: &mut Around,
    has_ended: &dyn Fn() -> bool,
) -> Result<(), String> {
    let socket = sys::netlink(4, 0).map_err(|e| format!("monitor: cannot ask sock_diag: {e}"))?;
    let mut buffer = vec![0; 1 << 17];
    let begin = sys::monotonic();
    let mut next = begin;
    while !has_ended() && !is_over(order, begin) {
        ask(socket.as_raw_fd(), &mut buffer, |seen, interface| {
            let is_port = order.port == 0 || seen.ports.0 == order.port || seen.ports.1 == order.port;
            let is_there = order.interface == 0 || interface == 0 || interface == order.interface;
            if is_port && is_there && seen.segments_sent > 0 {
                tables.take(seen).map_err(|e| full(order, &e))?;
            }
            Ok(())
        })?;
        around.look(sys::monotonic()).map_err(|e| full(order, &e))?;
        next += Span::from_ms(10);
        sys::sleep_until(next);
    }
    Ok(())
}

fn is_over(order: &Order, begin: Time) -> bool {
    order.duration.is_some_and(|d| sys::monotonic().since(begin) >= sys::span(d))
}

fn full(order: &Order, e: &io::Error) -> String {
    format!("monitor: cannot write {}: {e}; what was written before is kept", order.out.display())
}

/// Runs until the order's end; then writes all and says how much it was.
pub fn run(order: &Order, has_ended: &dyn Fn() -> bool, mut tell: impl FnMut(&str)) -> Result<(), String> {
    let start = sys::monotonic();
    let opened = Tables::new(&order.out, order.interval, start)
        .and_then(|tables| Ok((tables, Around::new(&order.out, order.interface, start)?)));
    let (mut tables, mut around) =
        opened.map_err(|e| format!("--out {}: cannot make the folder: {e}", order.out.display()))?;
    let (how, lost) = match events(order, &mut tables, &mut around, has_ended, &mut tell) {
        Ok(lost) => ("tracepoints", lost?),
        Err(why) => {
            tell(&format!("{why}; falling back to sock_diag, every 10 ms, without events"));
            by_diag(order, &mut tables, &mut around, has_ended)?;
            ("sock_diag", 0)
        }
    };
    let (seen, flows) = (tables.seen, tables.flows.len());
    around.finish().and_then(|()| tables.finish(how, lost)).map_err(|e| full(order, &e))?;
    let lost = if lost > 0 { format!(", {lost} more were lost: the ring was full") } else { ", none lost".to_owned() };
    tell(&format!("{flows} connections, {seen} readings by {how}{lost}; tables in {}", order.out.display()));
    Ok(())
}

type Ended = Result<u64, String>;

#[cfg(not(feature = "bpf"))]
fn events(
    _: &Order,
    _: &mut Tables,
    _: &mut Around,
    _: &dyn Fn() -> bool,
    _: &mut dyn FnMut(&str),
) -> Result<Ended, String> {
    Err("this airtcp-host was built without BPF".to_owned())
}

/// By events of the kernel: how many were lost. The outer error: they cannot be had here.
#[cfg(feature = "bpf")]
fn events(
    order: &Order,
    tables: &mut Tables,
    around: &mut Around,
    has_ended: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Ended, String> {
    use std::cell::RefCell;

    use crate::load::{get, load, objects, put};
    use crate::rights::{Capability, TRACING};

    let capabilities = [Capability::Bpf, Capability::Perfmon];
    let loaded = load("monitor", objects::MONITOR, TRACING, &capabilities).map_err(|e| e.0)?;
    let map = |name| loaded.map(name).map_err(|e| e.0);
    let (events, wanted, lost) = (map("events")?, map("wanted")?, map("lost")?);
    // Tracepoints tell of all network namespaces, sock_diag of this one alone.
    let network = fs::metadata("/proc/thread-self/ns/net").map(|m| std::os::unix::fs::MetadataExt::ino(&m));
    let network = u32::try_from(network.unwrap_or(0)).unwrap_or(0);
    let mut filter = Vec::new();
    for value in [u32::from(order.port), order.interface, network, 0] {
        filter.extend(value.to_ne_bytes());
    }
    put(&wanted, &0u32.to_ne_bytes(), &crate::words::words(&filter)).map_err(|e| e.0)?;
    let fault = RefCell::new(None);
    let mut builder = libbpf_rs::RingBufferBuilder::new();
    builder
        .add(&events, |bytes| {
            if let Some(Err(e)) = Seen::of_event(bytes).map(|seen| tables.take(seen)) {
                *fault.borrow_mut() = Some(full(order, &e));
                return -1;
            }
            0
        })
        .map_err(|e| format!("monitor: no ring buffer: {e}"))?;
    let ring = builder.build().map_err(|e| format!("monitor: no ring buffer: {e}"))?;
    let mut links = Vec::new();
    for program in ["acked", "retransmitted", "changed"] {
        links.push(loaded.attach(program).map_err(|e| e.0)?);
    }
    tell("listening to the kernel's TCP");
    let begin = sys::monotonic();
    while !has_ended() && !is_over(order, begin) && fault.borrow().is_none() {
        let _ = ring.consume_raw();
        if let Err(e) = around.look(sys::monotonic()) {
            return Ok(Err(full(order, &e)));
        }
        // Woken by the clock, not by every event.
        sys::sleep_until(sys::monotonic() + Span::from_ms(5));
    }
    drop(links);
    let _ = ring.consume_raw();
    drop(ring);
    if let Some(text) = fault.into_inner() {
        return Ok(Err(text));
    }
    let lost = get(&lost, &0u32.to_ne_bytes()).map_err(|e| e.0)?.and_then(|words| words.first().copied()).unwrap_or(0);
    Ok(Ok(lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(at_ms: u64, cwnd: u32) -> Seen {
        Seen {
            at: Time::ZERO + Span::from_ms(at_ms),
            cookie: 7,
            cwnd,
            ssthresh: 0x7fff_ffff,
            srtt_us: 20_500,
            mss: 1448,
            ..Seen::of_event(&[0; EVENT_BYTES]).unwrap()
        }
    }

    #[test]
    fn rows_keep_their_distance_and_the_last_thing_seen_is_in_one() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let mut t = Tables::new(&out, Duration::from_millis(10), Time::ZERO).unwrap();
        for ms in 0..25 {
            t.take(seen(ms + 1, 10 + u32::try_from(ms).unwrap())).unwrap();
        }
        t.take(Seen { ports: (5000, 80), ..seen(29, 34) }).unwrap();
        t.take(Seen { kind: 1, ..seen(30, 34) }).unwrap();
        t.finish("test", 0).unwrap();
        let text = fs::read_to_string(out.join("flow_series.csv")).unwrap();
        let cwnd: Vec<&str> = text.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
        assert_eq!(cwnd, ["10", "20", "30", "34"]);
        assert!(text.contains("\n0.001000000,0,10,,0,0,20.500,0,0,0\n"), "{text}");
        assert!(fs::read_to_string(out.join("events.csv")).unwrap().contains("0.030000000,0,retransmission,34,0"));
        assert!(fs::read_to_string(out.join("monitor.json")).unwrap().contains("\"events\": 27"));
        assert!(fs::read_to_string(out.join("flows.csv")).unwrap().contains(",5000,::,80,"), "the ports it had");
        assert!(Tables::new(&out, Duration::ZERO, Time::ZERO).is_err(), "the folder is there");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = (Seen::of_diag(Time::ZERO, &bytes), Seen::of_event(&bytes));
        }
    }
}
