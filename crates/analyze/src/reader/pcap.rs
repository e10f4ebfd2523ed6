//! pcap (draft-ietf-opsawg-pcap): one header, then packets.

use airtcp_core::convert::{count, low16, unsigned64};
use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use super::buffer::Buffer;
use super::{CaptureError, Found, MAX_BLOCK_BYTES, UnixTime};

const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;
/// Interface, protocol, kind of packet and padding, in files of Alexey Kuznetsov's patch.
const MODIFIED_BYTES: usize = 8;

pub(super) struct Pcap {
    big_endian: bool,
    /// Bytes of a packet's header beyond the usual ones.
    more: usize,
    nanoseconds: bool,
    link_type: u16,
    snap_bytes: u32,
}

impl Pcap {
    /// `modified`: the magic number is that of Kuznetsov's patch.
    pub(super) fn begin(buffer: &mut Buffer, modified: bool) -> Result<Pcap, CaptureError> {
        let mut head = buffer.rest().to_vec();
        if modified {
            // The parser knows the usual magic number.
            let usual: [u8; 4] =
                if head.starts_with(&[0xa1]) { [0xa1, 0xb2, 0xc3, 0xd4] } else { [0xd4, 0xc3, 0xb2, 0xa1] };
            head[..4].copy_from_slice(&usual);
        }
        let (_, header) = parse_pcap_header(&head).map_err(|_| CaptureError::Damage {
            packet: 0,
            offset: 0,
            unpacked: false,
            what: format!("the file header has {} bytes; expected are {FILE_HEADER_BYTES}", buffer.rest().len()),
        })?;
        let pcap = Pcap {
            big_endian: header.is_bigendian(),
            more: if modified { MODIFIED_BYTES } else { 0 },
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
        let header_bytes = PACKET_HEADER_BYTES + self.more;
        if !buffer.fill(header_bytes)? {
            return match buffer.rest().len() {
                0 => Ok(None),
                n => Err(format!("the file ends {n} bytes into a packet header; expected are {header_bytes}")),
            };
        }
        let length = [8, 9, 10, 11].map(|i| buffer.rest()[i]);
        let length = if self.big_endian { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) } as usize;
        if length > MAX_BLOCK_BYTES {
            return Err(format!("a packet of {length} captured bytes; expected are at most {MAX_BLOCK_BYTES}"));
        }
        let whole = header_bytes + length;
        if !buffer.fill(whole)? {
            let has = buffer.rest().len() - header_bytes;
            return Err(format!("the file ends {has} bytes into a packet; expected are {length}"));
        }
        let parse = if self.big_endian { parse_pcap_frame_be } else { parse_pcap_frame };
        let (_, frame) = parse(buffer.rest()).map_err(|_| "a packet header that makes no sense".to_owned())?;
        let fraction = u64::from(frame.ts_usec) * if self.nanoseconds { 1 } else { 1000 };
        let found = Found {
            time: UnixTime::from_ns(u64::from(frame.ts_sec) * 1_000_000_000 + fraction),
            interface: 0,
            link_type: self.link_type,
            start: buffer.position() + header_bytes,
            len: length,
            wire_bytes: frame.origlen.max(count(length)),
        };
        buffer.consume(whole);
        Ok(Some(found))
    }
}
