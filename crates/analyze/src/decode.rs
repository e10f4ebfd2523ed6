//! From a captured frame to the TCP segment in it. `etherparse` takes IP and TCP apart, also where
//! the snapshot length cut them.

mod link;
mod wlan;

use std::net::IpAddr;

use airtcp_core::convert::{count, low64};
use airtcp_core::packet::TcpFlags;
use etherparse::{LaxIpSlice, LenSource, TcpHeaderSlice, UdpHeaderSlice, ip_number};

use self::link::network_layer;
use crate::reader::Raw;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Endpoint {
    pub address: IpAddr,
    pub port: u16,
}

impl Endpoint {
    /// The address in two words.
    pub(crate) fn halves(&self) -> [u64; 2] {
        match self.address {
            IpAddr::V4(v4) => [0, u64::from(v4.to_bits())],
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                [low64(bits >> 64), low64(bits)]
            }
        }
    }
}

/// A TCP segment as it passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Place of the capture.
    pub place: u32,
    pub source: Endpoint,
    pub destination: Endpoint,
    /// Identification; only IPv4 has it.
    pub ip_id: Option<u16>,
    pub seq: u32,
    pub ack: u32,
    pub flags: TcpFlags,
    /// Not scaled.
    pub window: u16,
    /// Payload bytes it had on the wire.
    pub payload: u32,
    /// TCP's checksum: it tells other contents apart.
    pub checksum: u16,
    pub options: Options,
}

impl Segment {
    pub(crate) fn has(&self, flags: TcpFlags) -> bool {
        self.flags.has_all(flags)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    pub mss: Option<u16>,
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    /// TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    sack: [(u32, u32); 4],
    sack_blocks: u8,
    /// The snapshot length cut the options.
    pub cut: bool,
}

impl Options {
    pub(crate) fn sack(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.sack_blocks)]
    }
}

/// Why a frame is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Skipped {
    LinkType(u16),
    /// A frame of a known link that carries no IP packet.
    NoIp,
    /// An IP packet that is not TCP.
    NoTcp,
    Fragment,
    /// A wireless frame that its receiver got with errors.
    BadFrame,
    /// A wireless frame that was heard before.
    Repeated,
    /// A wireless frame whose payload is encrypted.
    Encrypted,
    /// Headers the snapshot length cut.
    Cut,
    /// Headers that contradict themselves.
    Malformed,
}

/// A datagram of UDP as it passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram<'a> {
    pub source: Endpoint,
    pub destination: Endpoint,
    /// Payload, as far as it was captured.
    pub payload: &'a [u8],
    /// Payload bytes it had on the wire.
    pub bytes: u32,
}

/// `None`: the frame carries no datagram of UDP, or its headers are cut.
pub(crate) fn datagram<'a>(raw: &Raw<'a>) -> Option<Datagram<'a>> {
    let (ip, _) = LaxIpSlice::from_slice(network_layer(raw.link_type, raw.data).ok()?).ok()?;
    if ip.is_fragmenting_payload() || ip.payload_ip_number() != ip_number::UDP {
        return None;
    }
    let bytes = ip.payload().payload;
    let udp = UdpHeaderSlice::from_slice(bytes).ok()?;
    let header = udp.slice().len();
    Some(Datagram {
        source: Endpoint { address: ip.source_addr(), port: udp.source_port() },
        destination: Endpoint { address: ip.destination_addr(), port: udp.destination_port() },
        payload: bytes.get(header..)?,
        bytes: count(usize::from(udp.length()).saturating_sub(header)),
    })
}

/// TCP's header without options.
const MIN_TCP_BYTES: usize = 20;

/// `Err`: what it is instead.
pub(crate) fn decode(raw: &Raw) -> Result<Segment, Skipped> {
    let packet = network_layer(raw.link_type, raw.data)?;
    let before_ip = raw.data.len() - packet.len();
    let (ip, stopped) = LaxIpSlice::from_slice(packet).map_err(|e| match e {
        etherparse::err::ip::LaxHeaderSliceError::Len(_) => Skipped::Cut,
        etherparse::err::ip::LaxHeaderSliceError::Content(_) => Skipped::Malformed,
    })?;
    if ip.is_fragmenting_payload() {
        return Err(Skipped::Fragment);
    }
    let tcp = ip.payload();
    if ip.payload_ip_number() != ip_number::TCP {
        return Err(if stopped.is_some() { Skipped::Cut } else { Skipped::NoTcp });
    }
    let ip_header = tcp.payload.as_ptr() as usize - packet.as_ptr() as usize;
    let (declared, ip_id) = match &ip {
        LaxIpSlice::Ipv4(v4) => (usize::from(v4.header().total_len()), Some(v4.header().identification())),
        LaxIpSlice::Ipv6(v6) => match usize::from(v6.header().payload_length()) {
            0 => (0, None),
            n => (n + 40, None),
        },
    };
    // Offloading leaves the length of a packet at 0 where it is captured before its segmentation;
    // then that of the frame counts.
    let ip_bytes = if declared == 0 || (declared < ip_header && tcp.len_source == LenSource::Slice) {
        (raw.wire_bytes as usize).saturating_sub(before_ip)
    } else {
        declared
    };
    let segment_bytes = ip_bytes.saturating_sub(ip_header);
    let mut whole = [0; 60];
    let (header, cut) = tcp_header(tcp.payload, segment_bytes, &mut whole)?;
    let payload = segment_bytes - header.slice().len();
    let mut flags = TcpFlags::NONE;
    for (is_set, bit) in [
        (header.fin(), TcpFlags::FIN),
        (header.syn(), TcpFlags::SYN),
        (header.rst(), TcpFlags::RST),
        (header.psh(), TcpFlags::PSH),
        (header.ack(), TcpFlags::ACK),
    ] {
        flags |= TcpFlags::when(is_set, bit);
    }
    Ok(Segment {
        place: 0,
        source: Endpoint { address: ip.source_addr(), port: header.source_port() },
        destination: Endpoint { address: ip.destination_addr(), port: header.destination_port() },
        ip_id,
        seq: header.sequence_number(),
        ack: header.acknowledgment_number(),
        flags,
        window: header.window_size(),
        payload: count(payload),
        checksum: header.checksum(),
        options: options(header.options(), cut),
    })
}

/// Where the options are cut, what is there is completed with zeros, which end the list.
fn tcp_header<'a>(
    bytes: &'a [u8],
    segment_bytes: usize,
    whole: &'a mut [u8; 60],
) -> Result<(TcpHeaderSlice<'a>, bool), Skipped> {
    if bytes.len() < MIN_TCP_BYTES {
        return Err(if segment_bytes >= MIN_TCP_BYTES { Skipped::Cut } else { Skipped::Malformed });
    }
    let header_bytes = usize::from(bytes[12] >> 4) * 4;
    if header_bytes < MIN_TCP_BYTES || header_bytes > segment_bytes {
        return Err(Skipped::Malformed);
    }
    let cut = bytes.len() < header_bytes;
    let bytes = if cut {
        whole[..bytes.len()].copy_from_slice(bytes);
        &whole[..]
    } else {
        bytes
    };
    Ok((TcpHeaderSlice::from_slice(bytes).map_err(|_| Skipped::Malformed)?, cut))
}

mod option {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// Walked by hand: the library's iterator ends at the first option it does not know, such as those
/// of Multipath TCP, TCP Fast Open and T/TCP.
fn options(mut rest: &[u8], cut: bool) -> Options {
    let mut options = Options { cut, ..Options::default() };
    let word = |b: &[u8]| u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
    while let [kind, tail @ ..] = rest {
        match *kind {
            option::END => break,
            option::NOP => {
                rest = tail;
                continue;
            }
            _ => {}
        }
        // Its length takes in kind and length.
        let Some(length) = tail.first().map(|&l| usize::from(l)).filter(|&l| l >= 2 && l <= rest.len()) else { break };
        let (this, others) = rest.split_at(length);
        rest = others;
        match (*kind, &this[2..]) {
            (option::MSS, &[high, low]) => options.mss = Some(u16::from_be_bytes([high, low])),
            // RFC 7323 section 2.3: more than 14 is taken as 14.
            (option::WINDOW_SCALE, &[scale]) => options.window_scale = Some(scale.min(14)),
            (option::SACK_PERMITTED, &[]) => options.sack_permitted = true,
            (option::TIMESTAMPS, stamps) if stamps.len() == 8 => {
                options.timestamps = Some((word(stamps), word(&stamps[4..])));
            }
            (option::SACK, blocks) => {
                options.sack_blocks = 0;
                let wanted = options.sack.iter_mut().zip(blocks.chunks_exact(8));
                for (place, block) in wanted {
                    *place = (word(block), word(&block[4..]));
                    options.sack_blocks += 1;
                }
            }
            _ => {}
        }
    }
    options
}
