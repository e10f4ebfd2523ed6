//! Endace's extensible record format: records without a file header.

use airtcp_core::convert::count;

use super::buffer::Buffer;
use super::{Found, UnixTime};

const HEADER_BYTES: usize = 16;
/// Types of records (ERF types reference of Endace).
mod kind {
    pub(super) const HDLC_POS: u8 = 1;
    pub(super) const ETHERNET: u8 = 2;
    pub(super) const COLOR_HDLC_POS: u8 = 10;
    pub(super) const COLOR_ETHERNET: u8 = 11;
    pub(super) const DSM_COLOR_HDLC_POS: u8 = 15;
    pub(super) const DSM_COLOR_ETHERNET: u8 = 16;
    pub(super) const COLOR_HASH_POS: u8 = 19;
    pub(super) const COLOR_HASH_ETHERNET: u8 = 20;
    pub(super) const IPV4: u8 = 22;
    pub(super) const IPV6: u8 = 23;
    pub(super) const PAD: u8 = 48;
}
/// Marks an extension header of eight bytes behind this one.
const MORE: u8 = 0x80;
const MOST_EXTENSIONS: usize = 16;
/// Records that are looked at before a file counts as of this format.
const PROBED: usize = 4;
/// 1990-01-01 and 2090-01-01 in Unix time: a file with other times is of another format.
const PLAUSIBLE_S: std::ops::Range<u64> = 631_152_000..3_786_912_000;

/// Header of one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    time: UnixTime,
    /// LINKTYPE_ of what it carries; `None`: no packet.
    pub link_type: Option<u16>,
    /// Bytes before the frame.
    pub header: usize,
    /// Bytes of the whole record.
    length: usize,
    wire_bytes: u32,
}

impl Record {
    /// `None`: cut, or no record.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Record> {
        let head = bytes.get(..HEADER_BYTES)?;
        let ticks = u64::from_le_bytes(head[..8].try_into().ok()?);
        let length = usize::from(u16::from_be_bytes([head[10], head[11]]));
        let wire = u16::from_be_bytes([head[14], head[15]]);
        let mut header = HEADER_BYTES;
        let mut more = head[8] & MORE != 0;
        while more {
            if header >= HEADER_BYTES + 8 * MOST_EXTENSIONS {
                return None;
            }
            more = bytes.get(header)? & MORE != 0;
            header += 8;
        }
        let link_type = match head[8] & !MORE {
            kind::ETHERNET | kind::COLOR_ETHERNET | kind::DSM_COLOR_ETHERNET | kind::COLOR_HASH_ETHERNET => {
                // Offset and padding.
                header += 2;
                Some(1)
            }
            kind::HDLC_POS | kind::COLOR_HDLC_POS | kind::DSM_COLOR_HDLC_POS | kind::COLOR_HASH_POS => Some(104),
            kind::IPV4 | kind::IPV6 => Some(101),
            _ => None,
        };
        if length < header {
            return None;
        }
        let (seconds, fraction) = (ticks >> 32, ticks & 0xffff_ffff);
        let time = UnixTime::from_ns(seconds * 1_000_000_000 + ((fraction * 1_000_000_000) >> 32));
        Some(Record { time, link_type, header, length, wire_bytes: u32::from(wire) })
    }
}

pub(super) struct Erf;

impl Erf {
    /// The format has no magic number: true if the first records follow upon each other.
    pub(super) fn fits(mut bytes: &[u8], at_end: bool) -> bool {
        for i in 0..PROBED {
            if bytes.is_empty() {
                return i > 0 && at_end;
            }
            let Some(record) = Record::parse(bytes) else { return false };
            let kind = bytes[8] & !MORE;
            let is_known = record.link_type.is_some() || (i > 0 && kind == kind::PAD);
            if !is_known || !PLAUSIBLE_S.contains(&(record.time.as_ns() / 1_000_000_000)) {
                return false;
            }
            match bytes.get(record.length..) {
                Some(rest) => bytes = rest,
                None => return i > 0,
            }
        }
        true
    }

    pub(super) fn next(&self, buffer: &mut Buffer) -> Result<Option<Found>, String> {
        loop {
            if !buffer.fill(HEADER_BYTES)? {
                return match buffer.rest().len() {
                    0 => Ok(None),
                    n => Err(format!("the file ends {n} bytes into a record header; expected are {HEADER_BYTES}")),
                };
            }
            let length = usize::from(u16::from_be_bytes([buffer.rest()[10], buffer.rest()[11]]));
            if !buffer.fill(length.max(HEADER_BYTES))? {
                let has = buffer.rest().len();
                return Err(format!("the file ends {has} bytes into a record; expected are {length}"));
            }
            let Some(record) = Record::parse(buffer.rest()) else {
                return Err(format!("a record of {length} bytes that contradicts its header"));
            };
            let start = buffer.position() + record.header;
            buffer.consume(record.length);
            let Some(link_type) = record.link_type else { continue };
            let len = record.length - record.header;
            let wire = record.wire_bytes;
            // Records are padded; the frame is no longer than it was on the wire.
            let len = if wire == 0 { len } else { len.min(wire as usize) };
            return Ok(Some(Found {
                time: record.time,
                interface: 0,
                link_type,
                start,
                len,
                wire_bytes: wire.max(count(len)),
            }));
        }
    }
}
