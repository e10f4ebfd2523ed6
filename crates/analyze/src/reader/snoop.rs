//! snoop (RFC 1761): a header of 16 bytes, then records, big-endian.

use airtcp_core::convert::count;

use super::buffer::Buffer;
use super::{CaptureError, Found, MAX_BLOCK_BYTES, UnixTime};

pub(super) const MAGIC: [u8; 8] = *b"snoop\0\0\0";
const FILE_HEADER_BYTES: usize = 16;
const RECORD_HEADER_BYTES: usize = 24;
const ETHERNET: u16 = 1;
/// RFC 1761: IEEE 802.3 and Ethernet.
const DATALINKS: [u32; 2] = [0, 4];

pub(super) struct Snoop;

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
}

impl Snoop {
    pub(super) fn begin(buffer: &mut Buffer) -> Result<Snoop, CaptureError> {
        let head = buffer.rest();
        if head.len() < FILE_HEADER_BYTES {
            return Err(CaptureError::Unsupported(format!(
                "a snoop file header of {} bytes; expected are {FILE_HEADER_BYTES}",
                head.len()
            )));
        }
        let (version, datalink) = (word(head, 8), word(head, 12));
        if version != 2 {
            return Err(CaptureError::Unsupported(format!("snoop version {version}; expected is 2")));
        }
        if !DATALINKS.contains(&datalink) {
            return Err(CaptureError::Unsupported(format!(
                "a snoop file of datalink type {datalink}; expected is 4, Ethernet"
            )));
        }
        buffer.consume(FILE_HEADER_BYTES);
        Ok(Snoop)
    }

    pub(super) fn next(&self, buffer: &mut Buffer) -> Result<Option<Found>, String> {
        if !buffer.fill(RECORD_HEADER_BYTES)? {
            return match buffer.rest().len() {
                0 => Ok(None),
                n => Err(format!("the file ends {n} bytes into a record header; expected are {RECORD_HEADER_BYTES}")),
            };
        }
        let head = buffer.rest();
        let (wire_bytes, included, record) = (word(head, 0), word(head, 4) as usize, word(head, 8) as usize);
        let (seconds, microseconds) = (word(head, 16), word(head, 20));
        if record > MAX_BLOCK_BYTES || record < RECORD_HEADER_BYTES + included {
            return Err(format!(
                "a record of {record} bytes with {included} captured; expected is at most {MAX_BLOCK_BYTES}, with room for both"
            ));
        }
        if !buffer.fill(record)? {
            let has = buffer.rest().len();
            return Err(format!("the file ends {has} bytes into a record; expected are {record}"));
        }
        let start = buffer.position() + RECORD_HEADER_BYTES;
        buffer.consume(record);
        Ok(Some(Found {
            time: UnixTime::from_ns(u64::from(seconds) * 1_000_000_000 + u64::from(microseconds) * 1000),
            interface: 0,
            link_type: ETHERNET,
            start,
            len: included,
            wire_bytes: wire_bytes.max(count(included)),
        }))
    }
}
