//! pcap (draft-ietf-opsawg-pcap): one header, then packets.

use airtcp_core::convert::{count, low16, unsigned64};
use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use super::buffer::Buffer;
use super::{CaptureError, Found, MAX_BLOCK_BYTES, UnixTime};

const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;

pub(super) struct Pcap {
    big_endian: bool,
    nanoseconds: bool,
    link_type: u16,
    snap_bytes: u32,
}

impl Pcap {
    pub(super) fn begin(buffer: &mut Buffer) -> Result<Pcap, CaptureError> {
        let (_, header) = parse_pcap_header(buffer.rest()).map_err(|_| CaptureError::Damage {
            packet: 0,
            offset: 0,
            unpacked: false,
            what: format!("the file header has {} bytes; expected are {FILE_HEADER_BYTES}", buffer.rest().len()),
        })?;
        let pcap = Pcap {
            big_endian: header.is_bigendian(),
            nanoseconds: header.is_nanosecond_precision(),
            // The upper half holds the length of the frame check sequence and flags.
            link_type: low16(unsigned64(header.network.0.into())),
            snap_bytes: header.snaplen,
        };
        buffer.consume(FILE_HEADER_BYTES);
        Ok(pcap)
    }

    pub(super) fn snap_bytes(&self) -> u32 {
        self.snap_bytes
    }

    pub(super) fn next(&self, buffer: &mut Buffer) -> Result<Option<Found>, String> {
        if !buffer.fill(PACKET_HEADER_BYTES)? {
            return match buffer.rest().len() {
                0 => Ok(None),
                n => Err(format!("the file ends {n} bytes into a packet header; expected are {PACKET_HEADER_BYTES}")),
            };
        }
        let length = [8, 9, 10, 11].map(|i| buffer.rest()[i]);
        let length = if self.big_endian { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) } as usize;
        if length > MAX_BLOCK_BYTES {
            return Err(format!("a packet of {length} captured bytes; expected are at most {MAX_BLOCK_BYTES}"));
        }
        let whole = PACKET_HEADER_BYTES + length;
        if !buffer.fill(whole)? {
            let has = buffer.rest().len() - PACKET_HEADER_BYTES;
            return Err(format!("the file ends {has} bytes into a packet; expected are {length}"));
        }
        let parse = if self.big_endian { parse_pcap_frame_be } else { parse_pcap_frame };
        let (_, frame) = parse(buffer.rest()).map_err(|_| "a packet header that makes no sense".to_owned())?;
        let fraction = u64::from(frame.ts_usec) * if self.nanoseconds { 1 } else { 1000 };
        let found = Found {
            time: UnixTime::from_ns(u64::from(frame.ts_sec) * 1_000_000_000 + fraction),
            interface: 0,
            link_type: self.link_type,
            start: buffer.position() + PACKET_HEADER_BYTES,
            len: length,
            wire_bytes: frame.origlen.max(count(length)),
        };
        buffer.consume(whole);
        Ok(Some(found))
    }
}
