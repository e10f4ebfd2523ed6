//! A capture from its first packet to its last.

use std::collections::BTreeMap;
use std::io::Read;

use airtcp_core::convert::floor64;
use airtcp_core::packet::FlowId;
use airtcp_core::units::{Span, Time};

use crate::connection::{Arrival, Connection, ConnectionId};
use crate::copies::{Copies, Copy};
use crate::decode::{Segment, Skipped, datagram, decode};
use crate::dns::{self, Dns, Questions};
use crate::flow::Limits;
use crate::open::Open;
use crate::places::{Broken, Next, Place, Places};
use crate::quic::Quic;
use crate::reader::{CaptureError, Packing, Reader, UnixTime};
use crate::tables::{Rows, Table};
use crate::wifi::{self, Air};

/// After FIN or RST from both sides a connection may still repeat something for so long.
const LINGER: Span = Span::from_secs(5);
/// Segments and points that all open flows together may keep, in each of their rings and series,
/// beyond the least every one has.
const SEGMENTS: usize = 2_000_000;
const POINTS: usize = 500_000;
const LEAST_POINTS: usize = 64;
const RETRANSMISSIONS: usize = 1_000_000;

/// Bounds of an analysis.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Points of a flow in each series at most; thinned evenly beyond.
    pub points: usize,
    /// Seconds of silence that end a connection.
    pub idle_timeout_s: f64,
    /// Open at once; beyond, the one silent longest is ended.
    pub max_connections: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { points: 4000, idle_timeout_s: 300.0, max_connections: 100_000 }
    }
}

/// Description of the capture.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// pcap, pcapng, snoop or ERF.
    pub format: &'static str,
    /// Compression of the file.
    pub packing: Option<Packing>,
    /// LINKTYPE_ values in the order of their numbers.
    pub link_types: Vec<u16>,
    /// Bytes; 0: none named.
    pub snap_bytes: u32,
    /// Packets read.
    pub packets: u64,
    /// Those of them that are TCP.
    pub tcp_packets: u64,
    /// TCP connections among them.
    pub connections: u64,
    /// Bytes of the packets, on the wire.
    pub bytes: u64,
    /// Time of the first packet.
    pub first: Option<UnixTime>,
    /// Time of the last packet.
    pub last: Option<UnixTime>,
    /// Packets that it holds twice; they count once in all other figures.
    pub copies: u64,
    /// Questions for names.
    pub dns: Dns,
}

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    tcp_packets: u64,
    connections: u32,
    /// That of the next flow.
    flows: FlowId,
    bytes: u64,
    skipped: BTreeMap<Skipped, u64>,
    options_cut: u64,
    elsewhere: u64,
    evicted: u64,
    copies: u64,
    went_back: u64,
    first_back: u64,
    link_types: BTreeMap<u16, u64>,
}

/// Analyses a capture.
pub struct Analyzer {
    places: Places,
    options: Options,
    idle: Span,
    open: Open,
    limits: Limits,
    rows: Rows,
    copies: Copies,
    questions: Questions,
    /// By place.
    air: Vec<Air>,
    quic: Quic,
    first: Option<UnixTime>,
    /// Since the first packet.
    now: Time,
    last_link: Option<u16>,
    counts: Counts,
    damage: Vec<Broken>,
    at_end: bool,
}

impl Analyzer {
    /// Fails if it is no capture.
    pub fn new<R: Read + Send + 'static>(input: R, options: Options) -> Result<Analyzer, CaptureError> {
        let place = Place::new((0, Reader::new(input)?), []);
        Ok(Analyzer::of(vec![place], Vec::new(), options))
    }

    /// Several captures at once. `ahead_ns`: by how much the clock of each place is ahead of the
    /// first one's.
    pub fn of(places: Vec<Place>, ahead_ns: Vec<i64>, options: Options) -> Analyzer {
        Analyzer {
            air: places.iter().map(|_| Air::default()).collect(),
            places: Places::new(places, ahead_ns),
            idle: Span::from_ns(floor64(options.idle_timeout_s.max(0.0) * 1e9)),
            options,
            open: Open::default(),
            limits: limits(0, options.points),
            rows: Rows::default(),
            copies: Copies::default(),
            questions: Questions::default(),
            quic: Quic::default(),
            first: None,
            now: Time::ZERO,
            last_link: None,
            counts: Counts::default(),
            damage: Vec::new(),
            at_end: false,
        }
    }

    /// Reads up to that many packets more; false at the end of the file or of what can be read of
    /// it.
    pub fn advance(&mut self, packets: u64) -> bool {
        for _ in 0..packets {
            if self.at_end {
                break;
            }
            match self.places.read() {
                Ok(Some(Next { raw, place })) => {
                    self.counts.packets += 1;
                    let (time, interface) = (raw.time, raw.interface);
                    self.counts.bytes += u64::from(raw.wire_bytes);
                    if self.last_link != Some(raw.link_type) {
                        self.last_link = Some(raw.link_type);
                        *self.counts.link_types.entry(raw.link_type).or_default() += 1;
                    }
                    let mut decoded = decode(&raw);
                    let now = clock(&mut self.first, &mut self.now, &mut self.counts, time);
                    if wifi::is_monitor(&raw) && self.air[place as usize].on_frame(now, &raw) && decoded.is_ok() {
                        decoded = Err(Skipped::Repeated);
                    }
                    match decoded {
                        Ok(segment) => self.on_segment(interface, &Segment { place, ..segment }),
                        Err(Skipped::NoTcp) => {
                            let is_read = datagram(&raw).is_some_and(|found| match dns::decode(&found) {
                                Some(message) => {
                                    self.questions.on(now, &message);
                                    true
                                }
                                None => self.quic.on_datagram(now, place, &found),
                            });
                            if !is_read {
                                *self.counts.skipped.entry(Skipped::NoTcp).or_default() += 1;
                            }
                        }
                        Err(why) => *self.counts.skipped.entry(why).or_default() += 1,
                    }
                }
                Ok(None) => self.at_end = true,
                Err(damage) => {
                    // Other files are read all the same.
                    self.damage.push(damage);
                }
            }
        }
        !self.at_end
    }

    fn on_segment(&mut self, interface: u32, p: &Segment) {
        self.counts.tcp_packets += 1;
        self.counts.options_cut += u64::from(p.options.cut);
        self.close_silent();
        let copy = self.copies.look_for(self.now, p);
        if copy == Copy::Yes {
            self.counts.copies += 1;
            return;
        }
        let mut place = self.open.find(p);
        if let Some(old) = place.filter(|&old| self.open.get(old).is_some_and(|c| c.is_followed_by(p))) {
            self.end(|open| open.remove(old));
            place = None;
        }
        let place = match place {
            Some(place) => {
                self.open.heard_of(place);
                place
            }
            None => {
                if self.open.len() >= self.options.max_connections.max(1) {
                    self.counts.evicted += 1;
                    self.end(Open::remove_oldest);
                }
                let id = ConnectionId(self.counts.connections);
                self.counts.connections += 1;
                let place = self.open.insert(p, Connection::new(id, p));
                self.limits = limits(self.open.len(), self.options.points);
                place
            }
        };
        let Some(connection) = self.open.get(place) else { return };
        if let Copy::Perhaps(age) = copy {
            if connection.is_copy(p, age) {
                self.counts.copies += 1;
                return;
            }
        }
        let at = Arrival {
            now: self.now,
            packet: self.counts.packets,
            interface,
            air_busy: self.air[p.place as usize].is_busy(),
            limits: self.limits,
        };
        if !connection.on_packet(&at, p, &mut self.counts.flows, &mut self.rows) {
            self.counts.elsewhere += 1;
        }
    }

    fn end(&mut self, remove: impl FnOnce(&mut Open) -> Option<Connection>) -> bool {
        let Some(connection) = remove(&mut self.open) else { return false };
        connection.finish(self.now, &mut self.rows);
        self.limits = limits(self.open.len(), self.options.points);
        true
    }

    /// Connections nothing is heard of any more.
    fn close_silent(&mut self) {
        while let Some(oldest) = self.open.oldest() {
            let silent = self.now.since(oldest.last_at());
            if silent < LINGER.min(self.idle) || (silent < self.idle && !oldest.is_over()) {
                break;
            }
            self.end(Open::remove_oldest);
        }
    }

    /// Ends all connections that are open.
    pub fn finish(&mut self) {
        while self.end(Open::remove_oldest) {}
        let other = self.quic.finish(&mut self.rows);
        if other > 0 {
            *self.counts.skipped.entry(Skipped::NoTcp).or_default() += other;
        }
        for (place, air) in (0..).zip(&mut self.air) {
            air.finish(place, &mut self.rows);
        }
    }

    /// Rows that became final since the last call, all tables.
    pub fn drain(&mut self) -> Vec<Table> {
        std::mem::take(&mut self.rows).into_tables()
    }

    /// The first damage that ended the reading before the end of a file.
    pub fn damage(&self) -> Option<&CaptureError> {
        self.damage.first().map(|broken| &broken.damage)
    }
    /// Number of that file.
    pub fn damaged_file(&self) -> Option<usize> {
        self.damage.first().map(|broken| broken.file)
    }
    /// Packets read so far.
    pub fn packets(&self) -> u64 {
        self.counts.packets
    }
    /// Bytes of the file read so far.
    pub fn bytes_read(&self) -> u64 {
        self.places.bytes_read()
    }

    /// Description of the capture, as far as it has been read.
    pub fn summary(&self) -> Summary {
        Summary {
            format: self.places.format(),
            packing: self.places.packing(),
            link_types: self.counts.link_types.keys().copied().collect(),
            snap_bytes: self.places.snap_bytes(),
            packets: self.counts.packets,
            tcp_packets: self.counts.tcp_packets,
            connections: u64::from(self.counts.connections),
            bytes: self.counts.bytes,
            first: self.first,
            last: self.first.map(|first| first + self.now.since(Time::ZERO)),
            copies: self.counts.copies,
            dns: self.questions.summary(self.now),
        }
    }

    /// Notes for a reader of the results.
    pub fn notes(&self) -> Vec<String> {
        let c = &self.counts;
        let mut notes = Vec::new();
        for (why, &count) in &c.skipped {
            let what = match why {
                Skipped::LinkType(link) => format!("of link type {link}, which is not read"),
                Skipped::NoIp => "that carry no IP packet in the clear".into(),
                Skipped::NoTcp => "that are neither TCP, QUIC nor DNS".into(),
                Skipped::Fragment => "that are IP fragments".into(),
                Skipped::BadFrame => "that their receiver got with errors".into(),
                Skipped::Repeated => "that a radio had sent before".into(),
                Skipped::Encrypted => "that are encrypted".into(),
                Skipped::Cut => "whose headers the snapshot length cut".into(),
                Skipped::Malformed => "whose headers contradict themselves".into(),
            };
            notes.push(format!("{} {what} skipped", packets(count)));
        }
        let ignored = self.places.ignored();
        for (count, one, several) in [
            (ignored.comments, "comment", "comments"),
            (ignored.secrets, "block of decryption secrets", "blocks of decryption secrets"),
        ] {
            match count {
                0 => {}
                1 => notes.push(format!("1 {one} in the file is not read")),
                _ => notes.push(format!("{count} {several} in the file are not read")),
            }
        }
        let unreadable: u64 = self.air.iter().map(|air| air.unreadable).sum();
        if unreadable > 0 {
            notes.push(format!("{} in monitor mode whose header or frame is cut", packets(unreadable)));
        }
        let crowd: u64 = self.air.iter().map(|air| air.crowd).sum();
        if crowd > 0 {
            notes.push(format!("{} in monitor mode of no known station: corrupt, or of one too many", packets(crowd)));
        }
        if c.options_cut > 0 {
            notes.push(format!(
                "snapshot length cut the TCP options, SACK blocks among them, of {}",
                packets(c.options_cut)
            ));
        }
        if c.copies > 0 {
            let (were, they) = if c.copies == 1 { ("was", "It counts") } else { ("were", "They count") };
            notes.push(format!(
                "{} {were} captured twice, with the same IP identification and contents (mirror port, bridge, or a \
                 network that doubles packets). {they} once",
                packets(c.copies)
            ));
        }
        if c.elsewhere > 0 {
            notes.push(format!(
                "{} skipped that passed another interface than the first of their direction",
                packets(c.elsewhere)
            ));
        }
        if c.went_back > 0 {
            let first = c.first_back;
            notes.push(format!(
                "clock goes back at packet {first}, {} in all; they pass with the one before",
                packets(c.went_back)
            ));
        }
        if c.evicted > 0 {
            let max = self.options.max_connections;
            notes.push(format!("{} connections ended because more than {max} were open at once", c.evicted));
        }
        notes
    }
}

/// Time does not go back: a packet from before the last one passes with it.
fn clock(first: &mut Option<UnixTime>, now: &mut Time, counts: &mut Counts, time: UnixTime) -> Time {
    let first = *first.get_or_insert(time);
    if time < first + now.since(Time::ZERO) {
        counts.went_back += 1;
        if counts.went_back == 1 {
            counts.first_back = counts.packets;
        }
    } else {
        *now = Time::ZERO + time.since(first);
    }
    *now
}

/// Limits of each flow with so many connections open.
fn limits(connections: usize, points: usize) -> Limits {
    let flows = 2 * connections.max(1);
    let points = points.max(2);
    Limits {
        points: (POINTS / flows).max(LEAST_POINTS).min(points),
        segments: (SEGMENTS / flows).clamp(128, 65_536),
        rows: (RETRANSMISSIONS / flows).clamp(64, 8192),
    }
}

fn packets(count: u64) -> String {
    if count == 1 { "1 packet".into() } else { format!("{count} packets") }
}
