//! The surroundings of the kernel's TCP: the queues of interfaces, and stations of Wi-Fi where the
//! kernel has nl80211. Both are asked ten times a second, which takes no rights.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use airtcp_core::units::{Span, Time};

use super::seconds;
use crate::paths::wifi::{Station, Wifi};
use crate::paths::{attribute, messages, u32_at};
use crate::sys;

/// Time between two looks.
const EVERY: Span = Span::from_ms(100);
/// Interfaces of Wi-Fi are looked for anew this often.
const INTERFACES_EVERY: Span = Span::from_secs(5);

const QUEUES: &str = "time_s,interface,qdisc,handle,parent,queue_packets,queue_bytes,sent_packets,sent_bytes,dropped_packets,overlimits,requeued_packets,marked_packets,drop_probability,delay_ms,is_dropping\n";
const STATIONS: &str = "time_s,interface,station,sent_rate_bps,received_rate_bps,expected_bps,sent_packets,retries,failed_packets,signal_dbm,queue_packets,queue_bytes,queue_dropped_packets,queue_marked_packets\n";

const GET_QDISC: u16 = 38;
const NEW_QDISC: u16 = 36;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const ROOT: u32 = u32::MAX;
/// PIE's probability is in parts of this: 2^64.
const SHARES: f64 = 18_446_744_073_709_551_616.0;

// Attributes of `include/uapi/linux/rtnetlink.h` and `gen_stats.h`, Linux 6.12.
const KIND: u16 = 1;
const STATS2: u16 = 7;
const BASIC: u16 = 1;
const QUEUE: u16 = 3;
const APP: u16 = 4;

/// A queue discipline, as the kernel tells of it.
#[derive(Debug, Clone, PartialEq)]
struct Queue {
    /// Number of its interface.
    interface: u32,
    /// Its name, as `fq_codel`.
    kind: String,
    /// Its own number, and that of the class it hangs from; as `tc` has them.
    handle: u32,
    /// See `handle`.
    parent: u32,
    /// Packets and bytes that wait.
    waiting: (u32, u32),
    /// Packets and bytes sent since it is there.
    sent: (u32, u64),
    /// Packets dropped, put off by a shaper, and put back by the device since it is there.
    dropped: u32,
    /// See `dropped`.
    overlimits: u32,
    /// See `dropped`.
    requeued: u32,
    /// Figures that active queue management tells.
    aqm: Aqm,
}

/// State of active queue management; `None`: the discipline does not tell it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Aqm {
    /// Packets marked since it is there.
    marked: Option<u32>,
    /// Probability with which it drops or marks.
    probability: Option<f64>,
    /// Time that the last packet has waited, or as it estimates it, us.
    delay_us: Option<u32>,
    /// CoDel drops until the delay is below its target.
    is_dropping: Option<bool>,
}

impl Aqm {
    /// Reads the statistics that a discipline has beside those of all: the structures `tc_*_xstats`
    /// of `include/uapi/linux/pkt_sched.h`, 6.12.
    fn read(kind: &str, app: &[u8]) -> Aqm {
        let word = |n: usize| u32_at(app, 4 * n);
        match kind {
            // The first word says that the rest is of the discipline, not of a class.
            "fq_codel" if word(0) == Some(0) => Aqm { marked: word(3), ..Aqm::default() },
            "codel" => Aqm {
                marked: word(6),
                delay_us: word(3),
                is_dropping: word(7).map(|dropping| dropping != 0),
                ..Aqm::default()
            },
            // `pie_dump_stats` of net/sched/sch_pie.c: a share of 2^64, and microseconds, though
            // the header says milliseconds.
            "pie" => Aqm {
                marked: word(9),
                probability: app.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes) as f64 / SHARES),
                delay_us: word(2),
                ..Aqm::default()
            },
            "red" => Aqm { marked: word(3), ..Aqm::default() },
            _ => Aqm::default(),
        }
    }
}

impl Queue {
    /// Reads a message: the bytes behind its header.
    fn read(body: &[u8]) -> Option<Queue> {
        let word = |at| u32_at(body, at);
        let attributes = body.get(20..)?;
        let kind = attribute(attributes, KIND)?;
        let kind = String::from_utf8_lossy(kind.split(|&b| b == 0).next().unwrap_or_default()).into_owned();
        let all = attribute(attributes, STATS2)?;
        let (basic, queue) = (attribute(all, BASIC)?, attribute(all, QUEUE)?);
        let count = |n: usize| u32_at(queue, 4 * n);
        Some(Queue {
            interface: word(4)?,
            handle: word(8)?,
            parent: word(12)?,
            waiting: (count(0)?, count(1)?),
            sent: (u32_at(basic, 8)?, u64::from_ne_bytes(*basic.first_chunk()?)),
            dropped: count(2)?,
            requeued: count(3)?,
            overlimits: count(4)?,
            aqm: attribute(all, APP).map(|app| Aqm::read(&kind, app)).unwrap_or_default(),
            kind,
        })
    }
}

/// `1:`, `1:2` or `root`, as `tc` writes it.
fn named(number: u32) -> String {
    match (number, number >> 16, number & 0xffff) {
        (ROOT, ..) => "root".to_owned(),
        (_, major, 0) => format!("{major:x}:"),
        (_, major, minor) => format!("{major:x}:{minor:x}"),
    }
}

fn or_empty<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// All queue disciplines of this namespace, but for those that are none.
fn queues(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Vec<Queue>> {
    let mut request = 36u32.to_ne_bytes().to_vec();
    request.extend(GET_QDISC.to_ne_bytes());
    request.extend(0x301u16.to_ne_bytes()); // a request, for all
    request.resize(36, 0);
    sys::send(socket.as_raw_fd(), &request)?;
    let mut found = Vec::new();
    loop {
        if sys::readable(&[socket.as_raw_fd()], Duration::from_millis(500))? != [true] {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let n = sys::receive(socket.as_raw_fd(), buffer)?;
        for (kind, body) in messages(&buffer[..n]) {
            match kind {
                NEW_QDISC => found.extend(Queue::read(body).filter(|queue| queue.kind != "noqueue")),
                DONE => return Ok(found),
                ERROR => return Err(io::Error::other("the kernel refuses to tell")),
                _ => {}
            }
        }
    }
}

/// The tables of queues and stations, as they are written.
#[derive(Debug)]
pub struct Around {
    route: Option<OwnedFd>,
    wifi: Option<Wifi>,
    queues: BufWriter<File>,
    stations: Option<BufWriter<File>>,
    /// Only this interface; 0: all.
    interface: u32,
    names: BTreeMap<u32, String>,
    wireless: (Time, Vec<u32>),
    start: Time,
    next: Time,
    buffer: Vec<u8>,
}

impl Around {
    /// Begins the tables in an existing folder. Figures that the kernel does not tell get no rows.
    pub fn new(folder: &Path, interface: u32, start: Time) -> io::Result<Around> {
        let open = |name: &str, head: &str| -> io::Result<BufWriter<File>> {
            let mut file = BufWriter::new(File::create_new(folder.join(name))?);
            file.write_all(head.as_bytes())?;
            Ok(file)
        };
        let wifi = Wifi::new().unwrap_or(None);
        Ok(Around {
            route: sys::netlink(libc::NETLINK_ROUTE, 0).ok(),
            queues: open("queues.csv", QUEUES)?,
            stations: if wifi.is_some() { Some(open("stations.csv", STATIONS)?) } else { None },
            wifi,
            interface,
            names: BTreeMap::new(),
            wireless: (Time::ZERO, Vec::new()),
            start,
            next: start,
            buffer: vec![0; 1 << 16],
        })
    }

    /// Looks, if it is time.
    pub fn look(&mut self, now: Time) -> io::Result<()> {
        if now < self.next {
            return Ok(());
        }
        // A look that comes late is not made up for.
        let late = Span::from_ns(now.since(self.next).as_ns() % EVERY.as_ns());
        self.next = now + EVERY.saturating_sub(late);
        let time = seconds(now.since(self.start));
        let found = self.route.as_ref().map(|socket| queues(socket, &mut self.buffer));
        match found {
            // Half an answer would be read as the next one.
            Some(Err(_)) => self.route = sys::netlink(libc::NETLINK_ROUTE, 0).ok(),
            Some(Ok(found)) => {
                for queue in found.iter().filter(|queue| self.interface == 0 || queue.interface == self.interface) {
                    let name = name_of(&mut self.names, queue.interface);
                    queue_row(&mut self.queues, &time, name, queue)?;
                }
            }
            None => {}
        }
        let (Some(wifi), Some(stations)) = (&self.wifi, &mut self.stations) else { return Ok(()) };
        if self.wireless.0 <= now {
            self.wireless = (now + INTERFACES_EVERY, wifi.interfaces().unwrap_or_default());
        }
        for &interface in self.wireless.1.iter().filter(|&&one| self.interface == 0 || one == self.interface) {
            for station in wifi.stations(interface).unwrap_or_default() {
                station_row(stations, &time, name_of(&mut self.names, interface), &station)?;
            }
        }
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(mut self) -> io::Result<()> {
        self.queues.flush()?;
        self.stations.map_or(Ok(()), |mut stations| stations.flush())
    }
}

fn name_of(names: &mut BTreeMap<u32, String>, interface: u32) -> &str {
    names.entry(interface).or_insert_with(|| sys::interface_name(interface).unwrap_or_else(|| interface.to_string()))
}

fn queue_row(out: &mut impl Write, time: &str, interface: &str, queue: &Queue) -> io::Result<()> {
    let Queue { kind, waiting, sent, dropped, overlimits, requeued, aqm, .. } = queue;
    let (handle, parent) = (named(queue.handle), named(queue.parent));
    let delay = or_empty(aqm.delay_us.map(|us| f64::from(us) / 1e3));
    writeln!(
        out,
        "{time},{interface},{kind},{handle},{parent},{},{},{},{},{dropped},{overlimits},{requeued},{},{},{delay},{}",
        waiting.0,
        waiting.1,
        sent.0,
        sent.1,
        or_empty(aqm.marked),
        or_empty(aqm.probability),
        or_empty(aqm.is_dropping)
    )
}

fn station_row(out: &mut impl Write, time: &str, interface: &str, station: &Station) -> io::Result<()> {
    let address: Vec<String> = station.address.iter().map(|byte| format!("{byte:02x}")).collect();
    let rate = |kbps: Option<u64>| or_empty(kbps.map(|kbps| kbps * 1000));
    writeln!(
        out,
        "{time},{interface},{},{},{},{},{},{},{},{},{},{},{},{}",
        address.join(":"),
        rate(station.sent_kbps),
        rate(station.received_kbps),
        rate(station.expected_kbps),
        or_empty(station.sent),
        or_empty(station.retries),
        or_empty(station.failed),
        or_empty(station.signal_dbm),
        or_empty(station.queue.map(|queue| queue.packets)),
        or_empty(station.queue.map(|queue| queue.bytes)),
        or_empty(station.queue.map(|queue| queue.dropped)),
        or_empty(station.queue.map(|queue| queue.marked))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attributes(all: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, value) in all {
            bytes.extend(u16::try_from(4 + value.len()).unwrap().to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn words(all: &[u32]) -> Vec<u8> {
        all.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn message(kind: &str, app: &[u8]) -> Vec<u8> {
        let basic = [&900_000u64.to_ne_bytes()[..], &words(&[600, 0])].concat();
        let stats = attributes(&[(BASIC, &basic), (QUEUE, &words(&[7, 10_500, 3, 2, 11])), (APP, app)]);
        let name = [kind.as_bytes(), &[0]].concat();
        let head = words(&[0, 4, 0x8001_0000, ROOT, 1]);
        [head, attributes(&[(KIND, &name), (STATS2, &stats)])].concat()
    }

    #[test]
    fn a_queue_and_its_state_are_read() {
        let queue = Queue::read(&message("fq_codel", &words(&[0, 1514, 0, 5, 9, 1, 2, 0, 0, 0]))).unwrap();
        assert_eq!((queue.interface, queue.kind.as_str(), queue.waiting), (4, "fq_codel", (7, 10_500)));
        assert_eq!((queue.sent, queue.dropped, queue.requeued, queue.overlimits), ((600, 900_000), 3, 2, 11));
        let mut row = Vec::new();
        queue_row(&mut row, "1.0", "wlan0", &queue).unwrap();
        assert_eq!(row, b"1.0,wlan0,fq_codel,8001:,root,7,10500,600,900000,3,11,2,5,,,\n");
        let aqm = |kind, app: &[u8]| Queue::read(&message(kind, app)).unwrap().aqm;
        let codel = aqm("codel", &words(&[1514, 2, 1, 6_500, 0, 0, 4, 1, 0]));
        assert_eq!((codel.marked, codel.delay_us, codel.is_dropping), (Some(4), Some(6_500), Some(true)));
        let pie = aqm("pie", &[&(1u64 << 62).to_ne_bytes()[..], &words(&[15_000, 0, 0, 1, 2, 3, 4, 8])].concat());
        assert_eq!((pie.probability, pie.delay_us, pie.marked), (Some(0.25), Some(15_000), Some(8)));
        assert_eq!(aqm("pfifo_fast", &[]), Aqm::default());
        assert_eq!((named(0x1_0002), named(0x1_0000)), ("1:2".to_owned(), "1:".to_owned()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200), n in 0usize..4) {
            Queue::read(&bytes);
            Queue::read(&message(["fq_codel", "codel", "pie", "red"][n], &bytes));
        }
    }
}
