//! Capture files, packet by packet: pcap, pcapng, snoop and ERF, plain or packed by gzip or zstd,
//! in bounded memory.
//!
//! `pcap-parser` knows the formats; what is here keeps a buffer filled, knows the place in the
//! file, and says what is wrong there. Blocks that hold no packets are skipped.

mod buffer;
pub(crate) mod erf;
mod pcap;
mod pcapng;
mod snoop;

use std::io::{self, BufRead, BufReader, Read};
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use airtcp_core::units::Span;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use self::buffer::Buffer;
use self::erf::Erf;
use self::pcap::Pcap;
use self::pcapng::PcapNg;
use self::snoop::Snoop;

/// More bytes than this are not one packet: the largest snapshot length libpcap accepts for any
/// link type is 128 MiB, but what carries TCP stays below 256 KiB.
const MAX_BLOCK_BYTES: usize = 16 << 20;

/// A time by the clock of a capture: nanoseconds since 1970-01-01 00:00 UTC. Flows count from the
/// first packet on instead ([`airtcp_core::units::Time`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct UnixTime(u64);

impl UnixTime {
    /// Later than every packet.
    pub const NEVER: UnixTime = UnixTime(u64::MAX);

    /// So many nanoseconds after 1970-01-01 00:00 UTC.
    pub const fn from_ns(ns: u64) -> UnixTime {
        UnixTime(ns)
    }
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// The span since `earlier`; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: UnixTime) -> Span {
        Span::from_ns(self.0.saturating_sub(earlier.0))
    }
    /// By a clock that the own one is ahead of by so much.
    pub(crate) fn behind_by(self, ns: i64) -> UnixTime {
        UnixTime(self.0.saturating_add_signed(ns.saturating_neg()))
    }
}

impl Add<Span> for UnixTime {
    type Output = UnixTime;
    /// Saturates.
    fn add(self, span: Span) -> UnixTime {
        UnixTime(self.0.saturating_add(span.as_ns()))
    }
}

/// A packet as the file has it.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a> {
    /// When it was captured.
    pub time: UnixTime,
    /// Interface, from 0; counts on over the sections of a file.
    pub interface: u32,
    /// LINKTYPE_ of the tcpdump group's registry.
    pub link_type: u16,
    /// Its bytes, as far as they were captured.
    pub data: &'a [u8],
    /// Bytes it had on the wire.
    pub wire_bytes: u32,
}

/// Fault that ended the reading of a file before its end.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Not a capture at all.
    #[error(
        "no capture: begins with {found}; expected is pcap (micro- or nanosecond), pcapng, snoop or ERF, plain or packed by gzip or zstd"
    )]
    NoCapture {
        /// Its first bytes.
        found: String,
    },
    /// A capture whose beginning says it cannot be read.
    #[error("{0}")]
    Unsupported(String),
    /// Packets are numbered from 1, bytes from 0.
    #[error("packet {packet}, byte {offset}{}: {what}", if *.unpacked { " of the unpacked file" } else { "" })]
    Damage {
        /// Number of the packet that could not be read.
        packet: u64,
        /// Where in the file it begins.
        offset: u64,
        /// `offset` counts in the unpacked file.
        unpacked: bool,
        /// The fault, and the expected contents.
        what: String,
    },
}

/// Formats that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The classic format of libpcap.
    Pcap,
    /// Its successor, in blocks.
    PcapNg,
    /// Format of Solaris (RFC 1761).
    Snoop,
    /// Records of Endace's cards.
    Erf,
}

impl Format {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Pcap => "pcap",
            Format::PcapNg => "pcapng",
            Format::Snoop => "snoop",
            Format::Erf => "ERF",
        }
    }
}

/// Number of parts of a file that are not read, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignored {
    /// Comments of pcapng on a section, an interface or a packet.
    pub comments: u64,
    /// Blocks of pcapng with keys to decrypt the packets.
    pub secrets: u64,
}

/// Compression of a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Packing {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        }
    }
}

enum Parser {
    Pcap(Pcap),
    PcapNg(PcapNg),
    Snoop(Snoop),
    Erf(Erf),
}

/// Reads packets from a capture.
pub struct Reader {
    buffer: Buffer,
    parser: Parser,
    packing: Option<Packing>,
    packets: u64,
    /// Parsed already, not yet read.
    ahead: Option<Found>,
    consumed: Arc<AtomicU64>,
}

/// Counts the bytes of the file itself, before they are unpacked.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Reader {
    /// Looks at the beginning to see which format it is.
    pub fn new<R: Read + Send + 'static>(input: R) -> Result<Reader, CaptureError> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut counted = Counted { inner: input, count: Arc::clone(&consumed) };
        let mut magic = Vec::with_capacity(4);
        counted.by_ref().take(4).read_to_end(&mut magic)?;
        let packing = match magic[..] {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Packing::Zstd),
            _ => None,
        };
        let whole = BufReader::with_capacity(1 << 18, io::Cursor::new(magic).chain(counted));
        let mut buffer = match packing {
            Some(Packing::Gzip) => Buffer::new(MultiGzDecoder::new(whole)),
            Some(Packing::Zstd) => Buffer::new(Zstd::new(whole)),
            None => Buffer::new(whole),
        };
        let parser = begin(&mut buffer).map_err(|error| match (error, packing) {
            (CaptureError::Io(e), Some(packing)) => {
                CaptureError::Unsupported(format!("{} that cannot be unpacked: {e}", packing.name()))
            }
            (other, _) => other,
        })?;
        Ok(Reader { buffer, parser, packing, packets: 0, ahead: None, consumed })
    }

    /// The next packet; `None` at the end of the file.
    pub fn read(&mut self) -> Result<Option<Raw<'_>>, CaptureError> {
        let found = match self.ahead.take() {
            Some(found) => Some(found),
            None => self.find()?,
        };
        Ok(found.map(|found| found.raw(&self.buffer)))
    }

    /// Time of the next packet; `None` at the end of the file.
    pub fn peek(&mut self) -> Result<Option<UnixTime>, CaptureError> {
        if self.ahead.is_none() {
            self.ahead = self.find()?;
        }
        Ok(self.ahead.map(|found| found.time))
    }

    fn find(&mut self) -> Result<Option<Found>, CaptureError> {
        self.packets += 1;
        let next = match &mut self.parser {
            Parser::Pcap(pcap) => pcap.next(&mut self.buffer),
            Parser::PcapNg(pcapng) => pcapng.next(&mut self.buffer),
            Parser::Snoop(snoop) => snoop.next(&mut self.buffer),
            Parser::Erf(erf) => erf.next(&mut self.buffer),
        };
        match next {
            Ok(Some(found)) => Ok(Some(found)),
            Ok(None) => {
                self.packets -= 1;
                Ok(None)
            }
            Err(what) => Err(CaptureError::Damage {
                packet: self.packets,
                offset: self.buffer.offset(),
                unpacked: self.packing.is_some(),
                what,
            }),
        }
    }

    /// Which of them the file has.
    pub fn format(&self) -> Format {
        match self.parser {
            Parser::Pcap(_) => Format::Pcap,
            Parser::PcapNg(_) => Format::PcapNg,
            Parser::Snoop(_) => Format::Snoop,
            Parser::Erf(_) => Format::Erf,
        }
    }
    /// Compression of the file.
    pub fn packing(&self) -> Option<Packing> {
        self.packing
    }
    /// Parts of the file that are not read.
    pub fn ignored(&self) -> Ignored {
        match &self.parser {
            Parser::PcapNg(pcapng) => pcapng.ignored(),
            _ => Ignored::default(),
        }
    }
    /// Bytes of the file read so far, packed if it is.
    pub fn bytes_read(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }
    /// The largest snapshot length the file names; 0: none is named.
    pub fn snap_bytes(&self) -> u32 {
        match &self.parser {
            Parser::Pcap(pcap) => pcap.snap_bytes(),
            Parser::PcapNg(pcapng) => pcapng.snap_bytes(),
            Parser::Snoop(_) | Parser::Erf(_) => 0,
        }
    }
}

/// A packet found in the buffer, before its bytes are borrowed.
#[derive(Debug, Clone, Copy)]
struct Found {
    time: UnixTime,
    interface: u32,
    link_type: u16,
    start: usize,
    len: usize,
    wire_bytes: u32,
}

impl Found {
    fn raw<'a>(&self, buffer: &'a Buffer) -> Raw<'a> {
        Raw {
            time: self.time,
            interface: self.interface,
            link_type: self.link_type,
            data: buffer.taken(self.start, self.len),
            wire_bytes: self.wire_bytes,
        }
    }
}

fn begin(buffer: &mut Buffer) -> Result<Parser, CaptureError> {
    buffer.fill(28).map_err(|e| CaptureError::Io(io::Error::other(e)))?;
    let magic: Option<[u8; 4]> = buffer.rest().first_chunk().copied();
    match magic {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => Ok(Parser::PcapNg(PcapNg::default())),
        Some(
            [0xd4, 0xc3, 0xb2, 0xa1] | [0xa1, 0xb2, 0xc3, 0xd4] | [0x4d, 0x3c, 0xb2, 0xa1] | [0xa1, 0xb2, 0x3c, 0x4d],
        ) => Pcap::begin(buffer, false).map(Parser::Pcap),
        Some([0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34]) => Pcap::begin(buffer, true).map(Parser::Pcap),
        _ if buffer.rest().starts_with(&snoop::MAGIC) => Snoop::begin(buffer).map(Parser::Snoop),
        _ if is_erf(buffer)? => Ok(Parser::Erf(Erf)),
        _ => Err(CaptureError::NoCapture { found: describe(buffer.rest()) }),
    }
}

/// ERF has no magic number. A few records are looked at.
fn is_erf(buffer: &mut Buffer) -> Result<bool, CaptureError> {
    const PROBED_BYTES: usize = 1 << 16;
    let has_more = buffer.fill(PROBED_BYTES).map_err(|e| CaptureError::Io(io::Error::other(e)))?;
    Ok(Erf::fits(buffer.rest(), !has_more))
}

/// Unpacks zstd, frame after frame, as tools leave them that compress in parallel.
struct Zstd<R: Read> {
    input: Option<R>,
    frame: Option<Box<StreamingDecoder<R, FrameDecoder>>>,
}

impl<R: BufRead> Zstd<R> {
    fn new(input: R) -> Zstd<R> {
        Zstd { input: Some(input), frame: None }
    }

    fn next_frame(&mut self) -> io::Result<bool> {
        let Some(mut input) = self.input.take() else { return Ok(false) };
        if input.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let decoder = StreamingDecoder::new(input).map_err(io::Error::other)?;
        self.frame = Some(Box::new(decoder));
        Ok(true)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let n = frame.read(out)?;
                if n > 0 || out.is_empty() {
                    return Ok(n);
                }
                self.input = self.frame.take().map(|frame| frame.into_inner());
            }
            if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

fn describe(head: &[u8]) -> String {
    if head.is_empty() {
        return "nothing: it is empty".into();
    }
    let bytes: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
    format!("the bytes {}", bytes.join(" "))
}
