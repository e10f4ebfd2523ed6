//! One connection of the core's sender with a real receiver, packet by packet as bytes of IPv4. It
//! does no I/O and reads no clock.
//!
//! The sender counts from 0 and believes that its peer does; here both have initial numbers.
//! Options that the peer's SYN-ACK refuses (SACK, timestamps, scaled windows) or bounds (the
//! segment) are settled before the sender sees it. Data of the peer are acknowledged and dropped.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddrV4};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use airtcp_core::convert::{low16, low32, saturate32, signed32};
use airtcp_core::packet::{FlowId, Kind, MAX_SACK, Packet, SackBlock, TcpFlags};
use airtcp_core::rng::Streams;
use airtcp_core::tcp::{Notice, Outputs, Recovery, Retransmission, Sender, SenderStats, TcpConfig};
use airtcp_core::units::{Seq32, Time};
use airtcp_core::wire::{self, Announced, Endpoints, Reader};
use etherparse::{Icmpv4Slice, Icmpv4Type, Ipv4Slice, TcpOptionElement, TcpSlice, icmpv4::DestUnreachableHeader};

/// Segment of a peer that announces none, bytes (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;
/// So far before the number that is expected a packet of the peer still counts: an old one, whose
/// ACK says nothing new.
const OLD: u32 = 1 << 30;

/// Where the data come from.
pub trait Source {
    /// Fills `into` from the byte `at` on.
    fn fill(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for File {
    fn fill(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, at)
    }
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All has arrived, and both sides are closed.
    Closed,
    /// The peer has no use for it.
    Refused,
    /// The peer broke it off.
    Reset,
    /// No answer came to many repetitions.
    TimedOut,
    /// A router says that packets are too large for what follows: bytes that fit, 0 if it does not
    /// say.
    TooLarge(u16),
    /// A router says that it goes no further.
    Unreachable(&'static str),
    /// The data cannot be read.
    Unreadable(String),
}

/// State of the peer, as it has told it.
#[derive(Debug)]
struct Peer {
    /// Its initial number.
    initial: u32,
    /// Offset from there of the byte that is expected next.
    expected: u32,
    /// Its FIN has come, in order.
    has_closed: bool,
    /// Its newest timestamp.
    timestamp: u32,
}

/// One segment that was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// When.
    pub at: Time,
    /// The sender's knowledge at that time.
    pub what: Retransmission,
}

/// A connection that sends all of a source, and closes.
#[derive(Debug)]
pub struct Conversation<S> {
    source: S,
    bytes: u64,
    config: Arc<TcpConfig>,
    streams: Streams,
    sender: Sender,
    ends: Endpoints,
    announced: Announced,
    initial: u32,
    /// When each SYN left.
    syns: Vec<Time>,
    peer: Option<Peer>,
    reader: Reader,
    out: Outputs,
    leaving: Vec<Vec<u8>>,
    repeats: Vec<Repeat>,
    end: Option<End>,
    closed_at: Option<Time>,
    dropped_bytes: u64,
    damaged: u64,
}

impl<S: Source> Conversation<S> {
    /// Not begun. `random` gives the initial number and the sender's draws.
    pub fn new(config: TcpConfig, source: S, bytes: u64, ends: [SocketAddrV4; 2], random: u64) -> Conversation<S> {
        let config = Arc::new(config);
        let streams = Streams::of(random, 0);
        let [from, to] = ends;
        Conversation {
            source,
            bytes,
            announced: Announced::of(&config, &config),
            sender: Sender::new(FlowId(0), 0, config.clone(), streams),
            config,
            streams,
            ends: Endpoints { src: *from.ip(), dst: *to.ip(), src_port: from.port(), dst_port: to.port() },
            initial: low32(random >> 32),
            syns: Vec::new(),
            peer: None,
            reader: Reader::default(),
            out: Outputs::default(),
            leaving: Vec::new(),
            repeats: Vec::new(),
            end: None,
            closed_at: None,
            dropped_bytes: 0,
            damaged: 0,
        }
    }

    /// Connects.
    pub fn begin(&mut self, now: Time) {
        begin(&mut self.sender, now, self.bytes, &mut self.out);
        self.drain(now);
    }

    /// When [`Self::on_deadline`] is due.
    pub fn deadline(&self) -> Time {
        if self.end.is_some() { Time::NEVER } else { self.sender.deadline() }
    }

    /// The deadline is reached.
    pub fn on_deadline(&mut self, now: Time) {
        self.sender.on_deadline(now, &mut self.out);
        self.drain(now);
    }

    /// A packet came. A packet that is damaged, out of place or of another connection is passed
    /// over.
    pub fn on_packet(&mut self, now: Time, bytes: &[u8]) {
        let Ok(ip) = Ipv4Slice::from_slice(bytes) else { return };
        let payload = ip.payload();
        if ip.header().destination_addr() != self.ends.src || payload.fragmented {
            return;
        }
        if payload.ip_number == etherparse::IpNumber::ICMP {
            self.on_icmp(payload.payload);
        } else if payload.ip_number == etherparse::IpNumber::TCP && ip.header().source_addr() == self.ends.dst {
            let Ok(tcp) = TcpSlice::from_slice(payload.payload) else { return };
            if (tcp.source_port(), tcp.destination_port()) != (self.ends.dst_port, self.ends.src_port) {
                return;
            }
            let sum = tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination());
            if sum != Ok(tcp.checksum()) {
                self.damaged += 1;
                return;
            }
            // The reader takes the scale of windows from the SYNs.
            let Ok(read) = self.reader.read(bytes) else { return };
            if matches!(read.src, IpAddr::V4(_)) {
                self.on_tcp(now, &tcp, read.packet);
            }
        }
    }

    fn on_icmp(&mut self, bytes: &[u8]) {
        use DestUnreachableHeader as Why;

        let Ok(icmp) = Icmpv4Slice::from_slice(bytes) else { return };
        let Icmpv4Type::DestinationUnreachable(why) = icmp.icmp_type() else { return };
        // It holds the header that it is about, and eight bytes: the ports and the number.
        let Some(about) = icmp.payload().get(..20) else { return };
        let header_bytes = usize::from(about[0] & 15) * 4;
        let Some([a, b, c, d, n @ ..]) = icmp.payload().get(header_bytes..header_bytes + 8) else { return };
        let is_ours = about[12..16] == self.ends.src.octets()
            && about[16..20] == self.ends.dst.octets()
            && about[9] == etherparse::IpNumber::TCP.0
            && [*a, *b] == self.ends.src_port.to_be_bytes()
            && [*c, *d] == self.ends.dst_port.to_be_bytes();
        let number = n.iter().fold(0u32, |all, byte| all << 8 | u32::from(*byte)).wrapping_sub(self.initial);
        // The number must be in flight (RFC 5927 section 4.1).
        let (una, nxt) = self.sender.outstanding();
        let offset = Seq32(number).to_offset(una);
        if !is_ours || !(self.peer.is_none() || (una..nxt).contains(&offset)) {
            return;
        }
        match why {
            Why::FragmentationNeeded { next_hop_mtu } => self.stop(End::TooLarge(next_hop_mtu)),
            // Later they may be passing (RFC 1122 section 4.2.3.9).
            _ if self.peer.is_some() => {}
            Why::Network | Why::NetworkUnknown => self.stop(End::Unreachable("there is no way to its network")),
            Why::Host | Why::HostUnknown => self.stop(End::Unreachable("no such host answers")),
            Why::Port | Why::Protocol => self.stop(End::Refused),
            _ => self.stop(End::Unreachable("it is forbidden on the way")),
        }
    }

    fn on_tcp(&mut self, now: Time, tcp: &TcpSlice<'_>, read: Packet) {
        let answers_syn = read.has(TcpFlags::ACK) && read.ack.0 == self.initial.wrapping_add(1);
        let Some(peer) = &mut self.peer else {
            if read.has(TcpFlags::RST) && answers_syn {
                self.stop(End::Refused);
            } else if read.has(TcpFlags::SYN) && answers_syn && !self.syns.is_empty() {
                self.agree(tcp);
                self.peer = Some(Peer { initial: read.seq.0, expected: 1, has_closed: false, timestamp: read.ts_val });
                self.give(now, &read, true);
            }
            return;
        };
        let number = read.seq.0.wrapping_sub(peer.initial);
        if read.has(TcpFlags::RST) {
            // Only the very next number: others may be guessed (RFC 5961 section 3.2).
            if number == peer.expected {
                self.stop(End::Reset);
            }
            return;
        }
        let ahead = number.wrapping_sub(peer.expected);
        let window = self.config.buffers.receive.get().min(u64::from(OLD));
        if u64::from(ahead) > window && ahead < OLD.wrapping_neg() {
            return; // neither old nor within the window
        }
        if read.has(TcpFlags::SYN) {
            // Our ACK of it was lost, or it is somebody else's: either is answered in the same way
            // (RFC 5961 section 4).
            self.give(now, &read, true);
            return;
        }
        // RFC 7323 section 5.3: the sender discards it, and answers. A millisecond of disorder is
        // allowed (`TCP_PAWS_WINDOW`).
        let has_time = self.config.timestamps.enabled && read.ts_val != 0;
        if has_time && signed32(read.ts_val.wrapping_sub(peer.timestamp)) < -1 {
            self.give(now, &read, false);
            return;
        }
        if ahead == 0 && read.len > 0 && !peer.has_closed {
            peer.expected = peer.expected.wrapping_add(u32::from(read.len));
            self.dropped_bytes += u64::from(read.len);
        }
        let at_end = number.wrapping_add(u32::from(read.len)) == peer.expected;
        if read.has(TcpFlags::FIN) && at_end && !peer.has_closed {
            peer.has_closed = true;
            peer.expected = peer.expected.wrapping_add(1);
        }
        if has_time && ahead == 0 {
            peer.timestamp = read.ts_val;
        }
        let closes = read.has(TcpFlags::FIN) && peer.has_closed;
        let asks = read.len > 0 || (read.has(TcpFlags::FIN) && !closes);
        self.give(now, &read, closes);
        // Data are to be acknowledged; the sender does so for a FIN alone.
        if asks && !closes {
            let ack = self.pure_ack(now);
            self.leave(&ack);
        }
    }

    /// Hands the sender a packet with numbers as it counts them. `with_fin`: a FIN counts, all
    /// before it having come.
    fn give(&mut self, now: Time, read: &Packet, with_fin: bool) {
        let Some(peer) = &self.peer else { return };
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        p.set_reverse();
        p.flags = if with_fin { read.flags } else { read.flags.without(TcpFlags::FIN) };
        (p.size, p.len, p.ecn, p.window) = (read.size, read.len, read.ecn, read.window);
        p.seq = Seq32(read.seq.0.wrapping_sub(peer.initial));
        p.ack = Seq32(read.ack.0.wrapping_sub(self.initial));
        if self.config.timestamps.enabled {
            (p.ts_val, p.ts_ecr) = read.timestamps();
        }
        let (una, nxt) = self.sender.outstanding();
        if p.has(TcpFlags::ACK) && p.ack.to_offset(una) > nxt {
            return; // what was never sent
        }
        if self.config.loss_recovery.recovery == Recovery::Sack {
            for block in read.sack() {
                let [start, end] = [block.start, block.end].map(|n| Seq32(n.0.wrapping_sub(self.initial)));
                // A peer may say what it likes; only what was sent can have come.
                let [from, to] = [start, end].map(|n| n.to_offset(una));
                if from >= 1 && from < to && to <= nxt && p.sack().len() < MAX_SACK {
                    p.push_sack(SackBlock { start, end });
                }
            }
        }
        self.sender.on_packet(now, &p, &mut self.out);
        self.drain(now);
    }

    /// The sender as the SYN-ACK lets it be: set up anew and brought to where it stands, if that
    /// differs.
    fn agree(&mut self, tcp: &TcpSlice<'_>) {
        let (mut mss, mut sack, mut timestamps, mut scales) = (DEFAULT_MSS, false, false, false);
        for option in tcp.options_iterator().map_while(Result::ok) {
            match option {
                TcpOptionElement::MaximumSegmentSize(n) => mss = n,
                TcpOptionElement::SelectiveAcknowledgementPermitted => sack = true,
                TcpOptionElement::Timestamp(..) => timestamps = true,
                TcpOptionElement::WindowScale(_) => scales = true,
                _ => {}
            }
        }
        let mut config = (*self.config).clone();
        config.connection.packet_bytes =
            config.connection.packet_bytes.min(mss.max(DEFAULT_MSS / 8).saturating_add(40));
        config.timestamps.enabled &= timestamps;
        if config.loss_recovery.recovery == Recovery::Sack && !sack {
            config.loss_recovery.recovery = Recovery::NewReno;
        }
        if !scales {
            self.announced.window_scale = 0;
        }
        self.announced.timestamps = config.timestamps.enabled;
        if config == *self.config {
            return;
        }
        self.config = Arc::new(config);
        let (mut sender, mut unsent) =
            (Sender::new(FlowId(0), 0, self.config.clone(), self.streams), Outputs::default());
        for (n, at) in self.syns.iter().enumerate() {
            if n == 0 {
                begin(&mut sender, *at, self.bytes, &mut unsent);
            } else {
                sender.on_deadline(*at, &mut unsent);
            }
        }
        self.sender = sender;
    }

    fn pure_ack(&self, now: Time) -> Packet {
        let mut p = Packet::new(FlowId(0), Kind::Tcp, 0);
        p.flags = TcpFlags::ACK;
        p.seq = Seq32::from_offset(self.sender.outstanding().1);
        p.size = self.config.header_bytes();
        p.window = saturate32(self.config.buffers.receive.get());
        if self.config.timestamps.enabled {
            p.ts_val = low32(now.as_ns() / self.config.timestamps.tick.as_ns().max(1) + 1).max(1);
            p.ts_ecr = self.peer.as_ref().map_or(0, |peer| peer.timestamp);
        }
        p
    }

    /// Handles the notices and the packets of the sender.
    fn drain(&mut self, now: Time) {
        for notice in std::mem::take(&mut self.out.notices) {
            match notice {
                Notice::Retransmitted(what) => self.repeats.push(Repeat { at: now, what }),
                Notice::Closed => {
                    self.closed_at = Some(now);
                    self.stop(End::Closed);
                }
                Notice::TimedOut => self.stop(End::TimedOut),
                _ => {}
            }
        }
        for p in std::mem::take(&mut self.out.packets) {
            if p.has(TcpFlags::SYN) {
                self.syns.push(now);
            }
            self.leave(&p);
        }
    }

    /// A packet of the sender as bytes.
    fn leave(&mut self, p: &Packet) {
        let mut packet = *p;
        let offset = p.seq.to_offset(self.sender.outstanding().0);
        packet.seq = Seq32(p.seq.0.wrapping_add(self.initial));
        if let Some(peer) = &self.peer {
            packet.ack = Seq32(peer.initial.wrapping_add(peer.expected));
        }
        let mut bytes = Vec::with_capacity(usize::from(packet.size));
        let total = usize::from(wire::write_headers(&packet, &self.ends, &self.announced, &mut bytes));
        let header = bytes.len();
        bytes.resize(total, 0);
        if p.len > 0 {
            // The first byte of the source has the offset 1. The sender's sizes leave room for the
            // options, so all else is data.
            let data = &mut bytes[header..];
            debug_assert_eq!(data.len(), usize::from(p.len));
            if let Err(e) = self.source.fill(offset - 1, data) {
                return self.stop(End::Unreadable(e.to_string()));
            }
            add_to_checksum(&mut bytes, header);
        }
        if p.has(TcpFlags::SYN) {
            let _ = self.reader.read(&bytes);
        }
        self.leaving.push(bytes);
    }

    fn stop(&mut self, end: End) {
        if self.end.is_none() {
            self.end = Some(end);
        }
    }

    /// Breaks the connection off: the last packet of it.
    pub fn abort(&mut self) {
        let mut p = self.pure_ack(Time::ZERO);
        p.flags = TcpFlags::RST | TcpFlags::when(self.peer.is_some(), TcpFlags::ACK);
        if self.peer.is_some() {
            self.leave(&p);
        }
    }

    /// Packets that are to be sent now, in this order.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.leaving)
    }

    /// How it ended; `None`: it goes on.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// When it was closed.
    pub fn closed_at(&self) -> Option<Time> {
        self.closed_at
    }

    /// The peer has answered.
    pub fn is_established(&self) -> bool {
        self.peer.is_some()
    }

    /// The sender's counters.
    pub fn stats(&self) -> &SenderStats {
        self.sender.stats()
    }

    /// Options that the ends agreed on.
    pub fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// All that was sent again.
    pub fn repeats(&self) -> &[Repeat] {
        &self.repeats
    }

    /// Bytes of the peer that were acknowledged and dropped, and packets with a wrong checksum.
    pub fn passed_over(&self) -> (u64, u64) {
        (self.dropped_bytes, self.damaged)
    }
}

fn begin(sender: &mut Sender, now: Time, bytes: u64, out: &mut Outputs) {
    sender.open(now, out);
    sender.write(now, bytes, out);
    sender.close(now, out);
}

/// The checksum of TCP holds for zeros behind `header`; makes it hold for what is there.
fn add_to_checksum(bytes: &mut [u8], header: usize) {
    const AT: usize = 20 + 16;
    let words = bytes[header..].chunks(2).map(|two| u64::from(two[0]) << 8 | two.get(1).map_or(0, |b| u64::from(*b)));
    let mut sum: u64 = words.sum::<u64>() + u64::from(!u16::from_be_bytes([bytes[AT], bytes[AT + 1]]));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[AT..AT + 2].copy_from_slice(&(!low16(sum)).to_be_bytes());
}

#[cfg(test)]
mod tests;
