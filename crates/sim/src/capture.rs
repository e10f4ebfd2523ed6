//! Captures of links and wireless channels as pcapng files, which Wireshark, tshark and any pcapng
//! library open.
//!
//! The blocks (draft-ietf-opsawg-pcapng) are written by hand: `pcap-file` serialises each block
//! twice and in many small writes, between which an interrupted run would leave half a block in the
//! file.

mod ethernet;
mod radiotap;

use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;

use airtcp_core::convert::{count, low32};
use airtcp_core::packet::Packet;
use airtcp_core::units::Time;
use airtcp_core::wifi::FrameRecord;
use airtcp_core::wifi::phy::Standard;
use airtcp_core::wire::{self, Announced, Endpoints};

use self::radiotap::Monitor;
use crate::spec::{ChannelId, FlowSpec, LinkId, NodeId, RunSpec, Traffic};

/// A packet that enters the line of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured {
    /// Time at which it enters the line.
    pub time: Time,
    /// The line.
    pub link: LinkId,
    /// As it enters it.
    pub packet: Packet,
}

/// Where captured packets go.
pub trait CaptureSink {
    /// Takes one packet.
    fn packet(&mut self, c: &Captured);
    /// A frame on a channel, an index into [`RunSpec::channels`].
    fn frame(&mut self, _channel: ChannelId, _frame: &FrameRecord) {}
}

/// Captures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCapture;

impl CaptureSink for NoCapture {
    fn packet(&mut self, _: &Captured) {}
}

impl CaptureSink for Vec<Captured> {
    fn packet(&mut self, c: &Captured) {
        self.push(*c);
    }
}

/// A snaplen that takes in all headers of any packet (at most 80 bytes) behind those of a Wi-Fi
/// frame (at most 82).
pub const HEADERS_ONLY: u32 = 192;

/// Snaplen: the whole packet.
pub const WHOLE_PACKETS: u32 = 0;

/// Blocks pass to the writer below in pieces of about this size, each of them of whole blocks.
const BUFFER_BYTES: usize = 1 << 16;

/// LINKTYPE_RAW: packets begin with the IP header.
const LINKTYPE_RAW: u16 = 101;

/// Names of nodes in one block: readers limit the size of blocks.
const NAMES_PER_BLOCK: usize = 1000;

mod block {
    pub(crate) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
    pub(crate) const NAME_RESOLUTION: u32 = 4;
    pub(crate) const ENHANCED_PACKET: u32 = 6;
}

mod option {
    pub(crate) const SHB_USERAPPL: u16 = 4;
    pub(crate) const IF_NAME: u16 = 2;
    pub(crate) const IF_SPEED: u16 = 8;
    pub(crate) const IF_TSRESOL: u16 = 9;
    pub(crate) const IF_FCSLEN: u16 = 13;
    /// A record of a name resolution block, laid out as options are.
    pub(crate) const NRB_IPV4: u16 = 1;
}

/// Writes the captured links and channels of a run as one pcapng section: an interface for each,
/// nanosecond timestamps counted from the start of the run (which reads as 1970-01-01 00:00 UTC),
/// and the hosts' names for their addresses. The headers are those of [`wire::write_headers`].
///
/// An I/O error ends the capture but not the run: it is kept for [`PcapngWriter::finish`]. If `W`
/// accepts or refuses each write as a whole, only whole blocks reach it before an error or the end
/// of the process.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: BufWriter<W>,
    state: io::Result<()>,
    block: Block,
    /// Interface of each link; `None` for those not captured.
    interfaces: Vec<Option<u32>>,
    /// By channel; `None` for those not captured.
    monitors: Vec<Option<Monitor>>,
    flows: Vec<Flow>,
    snaplen: u32,
}

#[derive(Debug)]
struct Flow {
    from: NodeId,
    to: NodeId,
    is_broadcast: bool,
    /// Options that the source and the destination announce.
    announced: [Announced; 2],
}

impl Flow {
    fn of(spec: &FlowSpec) -> Flow {
        let announced = match &spec.traffic {
            Traffic::Tcp { sender, receiver, .. } => [Announced::of(sender, receiver), Announced::of(receiver, sender)],
            _ => [Announced::default(); 2],
        };
        Flow { from: spec.from, to: spec.to, is_broadcast: matches!(spec.traffic, Traffic::Daemon(_)), announced }
    }

    fn ends(&self, packet: &Packet) -> Endpoints {
        let ends = Endpoints::of(packet, self.from.0, self.to.0);
        if self.is_broadcast { Endpoints { dst: Ipv4Addr::BROADCAST, ..ends } } else { ends }
    }
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a file for the links in `spec.record.capture` and the channels in
    /// `spec.record.capture_air`. The file keeps at most `snaplen` bytes of each packet, beside its
    /// length; [`WHOLE_PACKETS`] keeps all. Lengths and checksums are those of the whole packet in
    /// any case.
    pub fn new(out: W, spec: &RunSpec, snaplen: u32) -> PcapngWriter<W> {
        let mut writer = PcapngWriter {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            state: Ok(()),
            block: Block::default(),
            interfaces: vec![None; spec.links.len()],
            monitors: spec.channels.iter().map(|_| None).collect(),
            flows: spec.flows.iter().map(Flow::of).collect(),
            snaplen,
        };
        writer.section_header();
        let mut interfaces = 0;
        for &id in &spec.record.capture {
            let Some((link, interface)) = spec.links.get(id.0 as usize).zip(writer.interfaces.get_mut(id.0 as usize))
            else {
                writer.fail(format!("link {} is to be captured, but there are only {}", id.0, spec.links.len()));
                break;
            };
            if interface.is_none() {
                *interface = Some(interfaces);
                interfaces += 1;
                writer.interface(LINKTYPE_RAW, &link.name, Some(link.rate.as_bps()), None);
            }
        }
        for &id in &spec.record.capture_air {
            let Some((channel, monitor)) = spec.channels.get(id.index()).zip(writer.monitors.get_mut(id.index()))
            else {
                writer.fail(format!("channel {} is to be captured, but there are only {}", id.0, spec.channels.len()));
                break;
            };
            if monitor.is_none() {
                let is_ethernet = channel.radios.iter().any(|r| r.config.phy.standard == Standard::Wavelan);
                *monitor = Some(Monitor::new(id.0, interfaces, channel, is_ethernet));
                interfaces += 1;
                if is_ethernet {
                    writer.interface(ethernet::LINKTYPE, &channel.name, None, Some(ethernet::FCS_BYTES));
                } else {
                    writer.interface(radiotap::LINKTYPE, &channel.name, None, None);
                }
            }
        }
        let hosts = spec.nodes.iter().enumerate().filter(|(_, node)| node.is_host);
        let names: Vec<_> = hosts.map(|(id, node)| (count(id), node.name.as_str())).collect();
        for names in names.chunks(NAMES_PER_BLOCK) {
            writer.names(names);
        }
        writer
    }

    /// Completes the file, and tells whether all of it was written.
    ///
    /// # Errors
    /// The first I/O error since [`PcapngWriter::new`]; [`io::ErrorKind::InvalidInput`] for a
    /// packet of a flow or link that the `RunSpec` does not have or does not capture. Packets
    /// that came after it are not in the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.state?;
        self.out.flush()
    }

    fn section_header(&mut self) {
        self.block.begin(block::SECTION_HEADER);
        self.block.u32(0x1a2b_3c4d); // byte order
        self.block.u16(1);
        self.block.u16(0);
        self.block.u64(u64::MAX); // length of the section: not stated
        self.block.option(option::SHB_USERAPPL, concat!("airtcp ", env!("CARGO_PKG_VERSION")).as_bytes());
        self.block.end_of_options();
        self.write();
    }

    fn interface(&mut self, link_type: u16, name: &str, bits_per_second: Option<u64>, fcs_bytes: Option<u8>) {
        self.block.begin(block::INTERFACE_DESCRIPTION);
        self.block.u16(link_type);
        self.block.u16(0);
        self.block.u32(self.snaplen);
        self.block.option(option::IF_NAME, name.as_bytes());
        if let Some(speed) = bits_per_second {
            self.block.option(option::IF_SPEED, &speed.to_le_bytes());
        }
        self.block.option(option::IF_TSRESOL, &[9]); // 10^-9 s
        if let Some(bytes) = fcs_bytes {
            self.block.option(option::IF_FCSLEN, &[bytes]);
        }
        self.block.end_of_options();
        self.write();
    }

    fn names(&mut self, names: &[(u32, &str)]) {
        self.block.begin(block::NAME_RESOLUTION);
        for &(node, name) in names {
            let record = [&wire::address(node).octets(), name.as_bytes(), &[0]].concat();
            self.block.option(option::NRB_IPV4, &record);
        }
        self.block.end_of_options();
        self.write();
    }

    /// Sends the block under construction on its way, in one piece: the buffer passes on what it
    /// holds rather than split it.
    fn write(&mut self) {
        self.block.end();
        if self.state.is_ok() {
            self.state = self.out.write_all(&self.block.bytes);
        }
    }

    /// Ends the packet whose data begin at `data_at` and go on with zeros to `total` bytes.
    fn end_packet(&mut self, data_at: usize, total: u32) {
        let kept = if self.snaplen == WHOLE_PACKETS { total } else { total.min(self.snaplen) };
        self.block.bytes.resize(data_at + kept as usize, 0);
        self.block.set_u32(data_at - 8, kept);
        self.block.set_u32(data_at - 4, total);
        self.write();
    }

    fn fail(&mut self, message: String) {
        if self.state.is_ok() {
            self.state = Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    }
}

impl<W: Write> CaptureSink for PcapngWriter<W> {
    fn packet(&mut self, c: &Captured) {
        if self.state.is_err() {
            return;
        }
        let Some(&Some(interface)) = self.interfaces.get(c.link.0 as usize) else {
            return self.fail(format!("a packet of link {}, which is not captured", c.link.0));
        };
        let Some(flow) = self.flows.get(c.packet.flow.0 as usize) else {
            return self.fail(format!("a packet of flow {}, but there are only {}", c.packet.flow.0, self.flows.len()));
        };
        let ends = flow.ends(&c.packet);
        let announced = &flow.announced[usize::from(c.packet.is_reverse())];
        let data_at = self.block.begin_packet(interface, c.time);
        let total = u32::from(wire::write_headers(&c.packet, &ends, announced, &mut self.block.bytes));
        self.end_packet(data_at, total);
    }

    fn frame(&mut self, channel: ChannelId, frame: &FrameRecord) {
        if self.state.is_err() {
            return;
        }
        let Some(Some(monitor)) = self.monitors.get_mut(channel.index()) else {
            return self.fail(format!("a frame on channel {}, which is not captured", channel.0));
        };
        let packet = match monitor.packet(frame) {
            Ok(packet) => packet,
            Err(message) => return self.fail(message),
        };
        let flow = packet.map(|p| (p, self.flows.get(p.flow.0 as usize)));
        if let Some((p, None)) = flow {
            return self.fail(format!("a packet of flow {}, but there are only {}", p.flow.0, self.flows.len()));
        }
        let interface = monitor.interface;
        let data_at = self.block.begin_packet(interface, frame.time);
        let write_packet = |out: &mut Vec<u8>| {
            if let Some((p, Some(flow))) = flow {
                let ends = flow.ends(&p);
                wire::write_packet(&p, &ends, &flow.announced[usize::from(p.is_reverse())], out);
            }
        };
        if monitor.is_ethernet {
            ethernet::write_frame(monitor.channel, frame, write_packet, &mut self.block.bytes);
        } else {
            monitor.write_radiotap(frame, &mut self.block.bytes);
            monitor.write_frame(frame, write_packet, &mut self.block.bytes);
        }
        let total = count(self.block.bytes.len() - data_at);
        self.end_packet(data_at, total);
    }
}

/// Address of a radio: locally administered.
fn address(channel: u16, radio: u16) -> [u8; 6] {
    let ([a, b], [c, d]) = (channel.to_be_bytes(), radio.to_be_bytes());
    [0x02, 0x00, a, b, c, d]
}

/// A block under construction: little-endian on every machine, so that the same run gives the same
/// bytes.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
}

impl Block {
    fn begin(&mut self, kind: u32) {
        self.bytes.clear();
        self.u32(kind);
        self.u32(0); // the length, set at the end
    }
    /// Begins a packet; where its data go, after the lengths.
    fn begin_packet(&mut self, interface: u32, time: Time) -> usize {
        self.begin(block::ENHANCED_PACKET);
        self.u32(interface);
        self.u32((time.as_ns() >> 32) as u32);
        self.u32(low32(time.as_ns()));
        self.u64(0);
        self.bytes.len()
    }
    fn u16(&mut self, v: u16) {
        self.bytes.extend_from_slice(&v.to_le_bytes());
    }
    fn u32(&mut self, v: u32) {
        self.bytes.extend_from_slice(&v.to_le_bytes());
    }
    fn u64(&mut self, v: u64) {
        self.bytes.extend_from_slice(&v.to_le_bytes());
    }
    fn set_u32(&mut self, at: usize, v: u32) {
        self.bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
    /// Left out if `value` is longer than an option can be, 65535 bytes.
    fn option(&mut self, code: u16, value: &[u8]) {
        if let Ok(len) = u16::try_from(value.len()) {
            self.u16(code);
            self.u16(len);
            self.bytes.extend_from_slice(value);
            self.pad();
        }
    }
    fn end_of_options(&mut self) {
        self.u32(0);
    }
    fn end(&mut self) {
        self.pad();
        let len = count(self.bytes.len()) + 4;
        self.set_u32(4, len);
        self.u32(len);
    }
}
