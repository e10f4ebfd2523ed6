//! pcapng (draft-ietf-opsawg-pcapng): sections of blocks; interfaces have link type, resolution and
//! offset of their own.

use airtcp_core::convert::{count, low16, unsigned64};
use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock, OptionCode, PcapNGOption, parse_block_be, parse_block_le};

use super::buffer::Buffer;
use super::{Found, Ignored, MAX_BLOCK_BYTES, UnixTime};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
/// Type, length, and the length again at the end.
const FRAME_BYTES: usize = 12;
/// Where the packet's bytes begin in an enhanced (and an obsolete) and in a simple packet block.
const ENHANCED_DATA: usize = 28;
const SIMPLE_DATA: usize = 12;
/// More interfaces than any machine has: a damaged file.
const MAX_INTERFACES: usize = 1 << 20;

struct Interface {
    link_type: u16,
    snap_bytes: u32,
    /// Units per second of its timestamps.
    resolution: u64,
    offset_s: i64,
}

#[derive(Default)]
pub(super) struct PcapNg {
    big_endian: bool,
    in_section: bool,
    interfaces: Vec<Interface>,
    /// Interfaces of the sections before this one.
    earlier: u32,
    snap_bytes: u32,
    last: UnixTime,
    ignored: Ignored,
}

enum Step {
    Packet(Found),
    Other,
}

impl PcapNg {
    pub(super) fn snap_bytes(&self) -> u32 {
        self.snap_bytes
    }

    pub(super) fn ignored(&self) -> Ignored {
        self.ignored
    }

    pub(super) fn next(&mut self, buffer: &mut Buffer) -> Result<Option<Found>, String> {
        loop {
            if !buffer.fill(FRAME_BYTES)? {
                return match buffer.rest().len() {
                    0 => Ok(None),
                    n => Err(format!("the file ends {n} bytes into a block; expected are at least {FRAME_BYTES}")),
                };
            }
            let word = |i: usize| [0, 1, 2, 3].map(|k| buffer.rest()[i + k]);
            if word(0) == SECTION_HEADER.to_le_bytes() {
                self.big_endian = match word(8) {
                    [0x4d, 0x3c, 0x2b, 0x1a] => false,
                    [0x1a, 0x2b, 0x3c, 0x4d] => true,
                    other => {
                        return Err(format!("a section header with byte order {other:02x?}; expected is 1a2b3c4d"));
                    }
                };
                self.in_section = true;
            }
            if !self.in_section {
                return Err("a block before the first section header".into());
            }
            let number = |i| if self.big_endian { u32::from_be_bytes(word(i)) } else { u32::from_le_bytes(word(i)) };
            let (kind, length) = (number(0), number(4) as usize);
            if length < FRAME_BYTES || length % 4 != 0 {
                return Err(format!(
                    "a block of type {kind} with length {length}; expected is a multiple of 4 from 12"
                ));
            }
            let is_known = matches!(
                kind,
                SECTION_HEADER | INTERFACE_DESCRIPTION | OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET
            );
            self.ignored.secrets += u64::from(kind == DECRYPTION_SECRETS);
            if !is_known {
                if !buffer.skip(length as u64)? {
                    return Err(format!("the file ends within a block of type {kind} and length {length}"));
                }
                continue;
            }
            if length > MAX_BLOCK_BYTES {
                return Err(format!(
                    "a block of type {kind} with length {length}; expected is at most {MAX_BLOCK_BYTES}"
                ));
            }
            if !buffer.fill(length)? {
                let has = buffer.rest().len();
                return Err(format!("the file ends {has} bytes into a block of type {kind}; expected are {length}"));
            }
            let step = self.block(kind, length, &buffer.rest()[..length])?;
            let position = buffer.position();
            buffer.consume(length);
            if let Step::Packet(found) = step {
                return Ok(Some(Found { start: found.start + position, ..found }));
            }
        }
    }

    fn block(&mut self, kind: u32, length: usize, bytes: &[u8]) -> Result<Step, String> {
        if kind == OBSOLETE_PACKET {
            return self.obsolete(bytes);
        }
        let parse = if self.big_endian { parse_block_be } else { parse_block_le };
        let (_, block) =
            parse(bytes).map_err(|_| format!("a block of type {kind} that contradicts its length {length}"))?;
        match block {
            Block::SectionHeader(header) => {
                self.ignored.comments += comments(&header.options);
                if header.major_version != 1 {
                    return Err(format!("pcapng version {}; expected is 1", header.major_version));
                }
                self.earlier += count(self.interfaces.len());
                self.interfaces.clear();
            }
            Block::InterfaceDescription(description) => {
                self.ignored.comments += comments(&description.options);
                if self.interfaces.len() + self.earlier as usize >= MAX_INTERFACES {
                    return Err(format!("more than {MAX_INTERFACES} interfaces"));
                }
                self.interfaces.push(Interface::new(&description, self.big_endian)?);
                self.snap_bytes = self.snap_bytes.max(description.snaplen);
            }
            Block::EnhancedPacket(p) => {
                let Some(interface) = self.interfaces.get(p.if_id as usize) else {
                    let known = self.interfaces.len();
                    return Err(format!("a packet of interface {}; this section has {known} so far", p.if_id));
                };
                self.last = interface.time((u64::from(p.ts_high) << 32) | u64::from(p.ts_low));
                self.ignored.comments += comments(&p.options);
                // The parser has checked that the padded bytes are there.
                let len = p.caplen as usize;
                return Ok(self.packet(p.if_id, interface.link_type, ENHANCED_DATA, len, p.origlen));
            }
            Block::SimplePacket(p) => {
                let Some(interface) = self.interfaces.first() else {
                    return Err("a simple packet block without an interface".into());
                };
                // Has no length of its own: what was captured is the least of what the packet had,
                // what the interface keeps and what the block holds.
                let snap = if interface.snap_bytes == 0 { usize::MAX } else { interface.snap_bytes as usize };
                let len = (p.origlen as usize).min(snap).min(length.saturating_sub(SIMPLE_DATA + 4));
                return Ok(self.packet(0, interface.link_type, SIMPLE_DATA, len, p.origlen));
            }
            _ => {}
        }
        Ok(Step::Other)
    }

    /// Packet block of the first drafts: as an enhanced one, but the interface has 16 bits, and a
    /// count of drops stands beside it.
    fn obsolete(&mut self, bytes: &[u8]) -> Result<Step, String> {
        let number = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or([0; 4]);
            if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        let interface = if self.big_endian { number(8) >> 16 } else { number(8) & 0xffff };
        let (ticks, captured, wire_bytes) =
            ((u64::from(number(12)) << 32) | u64::from(number(16)), number(20), number(24));
        let len = captured as usize;
        if ENHANCED_DATA + len + 4 > bytes.len() {
            return Err(format!("an obsolete packet block of {} bytes with {len} captured", bytes.len()));
        }
        let Some(of) = self.interfaces.get(interface as usize) else {
            let known = self.interfaces.len();
            return Err(format!("a packet of interface {interface}; this section has {known} so far"));
        };
        self.last = of.time(ticks);
        Ok(self.packet(interface, of.link_type, ENHANCED_DATA, len, wire_bytes))
    }

    /// Simple packets have no time: that of the packet before.
    fn packet(&self, interface: u32, link_type: u16, start: usize, len: usize, wire_bytes: u32) -> Step {
        Step::Packet(Found {
            time: self.last,
            interface: self.earlier + interface,
            link_type,
            start,
            len,
            wire_bytes: wire_bytes.max(count(len)),
        })
    }
}

fn comments(options: &[PcapNGOption<'_>]) -> u64 {
    options.iter().filter(|option| option.code == OptionCode::Comment).count() as u64
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock, big_endian: bool) -> Result<Interface, String> {
        let Some(resolution) = block.ts_resolution().filter(|&r| r > 0) else {
            return Err(format!(
                "timestamps of resolution {:#04x}; expected is at most 10^19 or 2^63 per second",
                block.if_tsresol
            ));
        };
        // By hand: the parser takes it as little-endian always.
        let offset = block.options.iter().find(|o| o.code == OptionCode::IfTsoffset);
        let offset = offset.and_then(|o| o.value().get(..8)?.try_into().ok());
        let offset_s = offset.map_or(0, |b| if big_endian { i64::from_be_bytes(b) } else { i64::from_le_bytes(b) });
        Ok(Interface {
            link_type: low16(unsigned64(block.linktype.0.into())),
            snap_bytes: block.snaplen,
            resolution,
            offset_s,
        })
    }

    fn time(&self, ticks: u64) -> UnixTime {
        UnixTime::from_ns(match self.resolution {
            1_000_000_000 if self.offset_s == 0 => ticks,
            resolution => {
                let ns = i128::from(ticks) * 1_000_000_000 / i128::from(resolution);
                u64::try_from((ns + i128::from(self.offset_s) * 1_000_000_000).max(0)).unwrap_or(u64::MAX)
            }
        })
    }
}
