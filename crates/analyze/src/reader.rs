//! Capture files, packet by packet: pcap, pcapng, and gzip of either, in bounded memory.
//!
//! `pcap-parser` knows the formats; what is here keeps a buffer filled, knows the place in the
//! file, and says what is wrong there. Blocks that hold no packets are skipped.

mod buffer;
mod pcap;
mod pcapng;

use std::io::{self, BufReader, Read};
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use airtcp_core::units::Span;
use flate2::read::MultiGzDecoder;

use self::buffer::Buffer;
use self::pcap::Pcap;
use self::pcapng::PcapNg;

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
    #[error("no capture: begins with {found}; expected is pcap (micro- or nanosecond), pcapng, or gzip of either")]
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
        /// `offset` counts in what gzip unpacked.
        unpacked: bool,
        /// The fault, and the expected contents.
        what: String,
    },
}

/// The two formats that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The classic format of libpcap.
    Pcap,
    /// Its successor, in blocks.
    PcapNg,
}

enum Parser {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

/// Reads packets from a capture.
pub struct Reader {
    buffer: Buffer,
    parser: Parser,
    gzip: bool,
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
        let gzip = magic.starts_with(&[0x1f, 0x8b]);
        let whole = io::Cursor::new(magic).chain(counted);
        let mut buffer = if gzip {
            Buffer::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 18, whole)))
        } else {
            Buffer::new(whole)
        };
        let parser = begin(&mut buffer).map_err(|error| match error {
            CaptureError::Io(e) if gzip => CaptureError::Unsupported(format!("gzip that cannot be unpacked: {e}")),
            other => other,
        })?;
        Ok(Reader { buffer, parser, gzip, packets: 0, ahead: None, consumed })
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
                unpacked: self.gzip,
                what,
            }),
        }
    }

    /// Which of them the file has.
    pub fn format(&self) -> Format {
        match self.parser {
            Parser::Pcap(_) => Format::Pcap,
            Parser::PcapNg(_) => Format::PcapNg,
        }
    }
    /// The file is compressed with gzip.
    pub fn is_gzip(&self) -> bool {
        self.gzip
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
    let head = buffer.rest();
    match head.get(..4) {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => Ok(Parser::PcapNg(PcapNg::default())),
        Some([0xd4, 0xc3, 0xb2, 0xa1] | [0xa1, 0xb2, 0xc3, 0xd4] | [0x4d, 0x3c, 0xb2, 0xa1] | [0xa1, 0xb2, 0x3c, 0x4d]) => {
            Pcap::begin(buffer).map(Parser::Pcap)
        }
        Some([0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34]) => Err(CaptureError::Unsupported(
            "a pcap file in the modified format of Alexey Kuznetsov's patch; expected is pcap or pcapng (editcap converts it)".into(),
        )),
        _ => Err(CaptureError::NoCapture { found: describe(head) }),
    }
}

fn describe(head: &[u8]) -> String {
    if head.is_empty() {
        return "nothing: it is empty".into();
    }
    let bytes: Vec<String> = head.iter().take(4).map(|b| format!("{b:02x}")).collect();
    format!("the bytes {}", bytes.join(" "))
}
