//! airtcp's own sender and receiver over a path that loses and delays, with captures at both ends
//! and in between, and what the sender says it did.

use std::net::Ipv4Addr;
use std::sync::Arc;

use airtcp_analyze::tables::{Data, Table};
use airtcp_analyze::{Analyzer, Options};
use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::rng::Streams;
use airtcp_core::tcp::profile::profile;
use airtcp_core::tcp::{Notice, Outputs, Receiver, Retransmission, Sender, SenderStats, TcpConfig};
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_core::wire::{self, Announced, Endpoints};

pub fn config(name: &str, change: impl FnOnce(&mut TcpConfig)) -> Arc<TcpConfig> {
    let mut config = profile(name).unwrap().resolve().unwrap();
    change(&mut config);
    Arc::new(config)
}

/// Where captures are taken, in the order of the way from sender to receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tap {
    Sender,
    Between,
    Receiver,
}

/// Treatment of a packet by the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    Pass,
    /// Lost before, or behind, the capture in between.
    LoseFirst,
    LoseLast,
    /// Held up before the capture in between.
    Delay(Span),
}

type Script = Box<dyn FnMut(u64, &Packet) -> Fate>;

pub struct Path {
    pub config: Arc<TcpConfig>,
    /// From the sender to the capture in between, and on to the receiver.
    pub first: Span,
    pub second: Span,
    /// Rate of the line before the capture in between, and the most bytes that wait there.
    pub rate: Option<DataRate>,
    pub buffer_bytes: u64,
    /// By number of the data packet (of the ACK), retransmissions counted, from 0.
    pub data: Script,
    pub acks: Script,
}

pub struct Told {
    pub retransmissions: Vec<(Time, Retransmission)>,
    pub stats: SenderStats,
    pub taps: [Vec<(Time, Vec<u8>)>; 3],
}

impl Path {
    pub fn new(config: Arc<TcpConfig>, one_way: Span) -> Path {
        let first = one_way.mul_ratio(1, 2);
        Path {
            config,
            first,
            second: one_way.saturating_sub(first),
            rate: None,
            buffer_bytes: u64::MAX,
            data: Box::new(|_, _| Fate::Pass),
            acks: Box::new(|_, _| Fate::Pass),
        }
    }

    pub fn losing(mut self, lost: &'static [u64]) -> Path {
        self.data = Box::new(move |n, _| if lost.contains(&n) { Fate::LoseLast } else { Fate::Pass });
        self
    }

    /// Transfers `bytes` and closes.
    pub fn run(mut self, bytes: u64, until: Span) -> Told {
        let mut sender = Sender::new(FlowId(0), 0, self.config.clone(), Streams::of(1, 0));
        let mut receiver = Receiver::new(FlowId(0), 0, self.config.clone());
        let announced = Announced::of(&self.config, &self.config);
        let mut told = Told {
            retransmissions: Vec::new(),
            stats: SenderStats::default(),
            taps: [Vec::new(), Vec::new(), Vec::new()],
        };
        let mut flying: Vec<(Time, u64, Packet)> = Vec::new();
        // At the ends in the order in which things happened there; in between sorted by time in the
        // end.
        let mut at_ends: [Vec<(Time, Packet)>; 2] = [Vec::new(), Vec::new()];
        let mut between: Vec<(Time, u64, Packet)> = Vec::new();
        let (mut data, mut acks, mut order) = (0, 0, 0);
        let mut line_free = Time::ZERO;
        let mut out = Outputs::default();
        let mut now = Time::ZERO;
        let end = Time::ZERO + until;
        sender.open(now, &mut out);
        sender.write(now, bytes, &mut out);
        sender.close(now, &mut out);
        loop {
            for notice in out.notices.drain(..) {
                if let Notice::Retransmitted(r) = notice {
                    told.retransmissions.push((now, r));
                }
            }
            for p in out.packets.drain(..) {
                order += 1;
                let back = p.is_reverse();
                let fate = if back {
                    acks += 1;
                    (self.acks)(acks - 1, &p)
                } else if p.len > 0 {
                    data += 1;
                    (self.data)(data - 1, &p)
                } else {
                    Fate::Pass
                };
                let mut at = now;
                at_ends[usize::from(back)].push((at, p));
                if let (Some(rate), false) = (self.rate, back) {
                    let waiting = rate.bytes_in(line_free.max(now).since(now)).get();
                    if waiting > self.buffer_bytes {
                        continue;
                    }
                    line_free = line_free.max(now) + rate.time_for(u64::from(p.size));
                    at = line_free;
                }
                match fate {
                    Fate::LoseFirst => continue,
                    Fate::Delay(d) => at += d,
                    _ => {}
                }
                at += if back { self.second } else { self.first };
                between.push((at, order, p));
                if fate == Fate::LoseLast {
                    continue;
                }
                at += if back { self.first } else { self.second };
                flying.push((at, order, p));
            }
            let next = (0..flying.len()).min_by_key(|&i| (flying[i].0, flying[i].1));
            let arrival = next.map_or(Time::NEVER, |i| flying[i].0);
            let deadline = sender.deadline().min(receiver.deadline());
            now = arrival.min(deadline);
            if now.is_never() || now > end {
                break;
            }
            if arrival <= deadline {
                let (at, _, p) = flying.swap_remove(next.unwrap());
                at_ends[usize::from(!p.is_reverse())].push((at, p));
                if p.is_reverse() { sender.on_packet(now, &p, &mut out) } else { receiver.on_packet(now, &p, &mut out) }
            } else {
                sender.on_deadline(now, &mut out);
                receiver.on_deadline(now, &mut out);
            }
        }
        told.stats = *sender.stats();
        between.sort_by_key(|&(at, order, _)| (at, order));
        let ends = Endpoints {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
            src_port: 40_000,
            dst_port: 80,
        };
        let back = Endpoints { src: ends.dst, dst: ends.src, src_port: ends.dst_port, dst_port: ends.src_port };
        let [left, right] = at_ends;
        let between = between.into_iter().map(|(at, _, p)| (at, p)).collect();
        for (tap, packets) in told.taps.iter_mut().zip([left, between, right]) {
            for (at, p) in packets {
                let mut bytes = Vec::new();
                wire::write_packet(&p, if p.is_reverse() { &back } else { &ends }, &announced, &mut bytes);
                tap.push((at, bytes));
            }
        }
        told
    }
}

impl Told {
    pub fn pcap(&self, tap: Tap) -> Vec<u8> {
        pcap(&self.taps[tap as usize])
    }
    pub fn analyzed(&self, tap: Tap) -> Analysed {
        analyse(self.pcap(tap))
    }
}

/// A nanosecond pcap of raw IP packets.
pub fn pcap(packets: &[(Time, Vec<u8>)]) -> Vec<u8> {
    use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
    use pcap_file::{DataLink, TsResolution};
    let header =
        PcapHeader { ts_resolution: TsResolution::NanoSecond, datalink: DataLink::RAW, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (at, bytes) in packets {
        let time = std::time::Duration::from_nanos(at.as_ns());
        writer.write_packet(&PcapPacket::new(time, bytes.len() as u32, bytes)).unwrap();
    }
    writer.into_writer()
}

/// All tables of a capture.
pub struct Analysed {
    pub tables: Vec<Table>,
    pub notes: Vec<String>,
    pub damage: Option<String>,
    pub packets: u64,
}

pub fn analyse(capture: Vec<u8>) -> Analysed {
    analyse_with(capture, Options::default())
}

pub fn analyse_with(capture: Vec<u8>, options: Options) -> Analysed {
    let mut analyzer = Analyzer::new(std::io::Cursor::new(capture), options).unwrap();
    while analyzer.advance(1000) {}
    analyzer.finish();
    Analysed {
        tables: analyzer.drain(),
        notes: analyzer.notes(),
        damage: analyzer.damage().map(ToString::to_string),
        packets: analyzer.packets(),
    }
}

impl Analysed {
    fn data(&self, table: &str, column: &str) -> &Data {
        let table = self.tables.iter().find(|t| t.name == table).unwrap_or_else(|| panic!("no table {table}"));
        table.column(column).unwrap_or_else(|| panic!("no column {column}"))
    }
    /// Counts of any width.
    pub fn numbers(&self, table: &str, column: &str) -> Vec<u64> {
        match self.data(table, column) {
            Data::U64(v) => v.clone(),
            Data::U32(v) => v.iter().map(|&n| u64::from(n)).collect(),
            Data::Bool(v) => v.iter().map(|&n| u64::from(n)).collect(),
            other => panic!("{table}.{column}: {other:?}"),
        }
    }
    pub fn floats(&self, table: &str, column: &str) -> Vec<f64> {
        match self.data(table, column) {
            Data::F64(v) => v.clone(),
            other => panic!("{table}.{column}: {other:?}"),
        }
    }
    pub fn texts(&self, table: &str, column: &str) -> Vec<String> {
        match self.data(table, column) {
            Data::Str(v) => v.iter().map(ToString::to_string).collect(),
            other => panic!("{table}.{column}: {other:?}"),
        }
    }
    /// Value of the first flow in a column of its table.
    pub fn flow(&self, column: &str) -> u64 {
        self.numbers("flows", column)[0]
    }
}
