//! Packets of real hosts as pcapng, with their bytes and virtual times: one interface per host.
//! Files are written by a thread of their own, so that a slow disk makes no packet late; what it
//! cannot take in time is left out and counted.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use airtcp_core::units::Time;

use crate::common::config::RunConfig;
use crate::common::network::Tap;
use crate::common::stop::Stop;

/// Bytes that are handed over at once.
const BATCH_BYTES: usize = 256 << 10;
/// Batches that may wait for the disk.
const BATCHES_MAX: usize = 64;
const LINKTYPE_RAW: u16 = 101;

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Capture {
    batch: Vec<u8>,
    snaplen: usize,
    to: SyncSender<Vec<u8>>,
    writer: JoinHandle<io::Result<()>>,
    /// Packets in the batch.
    packets: u64,
    left_out: u64,
    waits: bool,
}

fn block(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let len = u32::try_from(12 + body.len().next_multiple_of(4)).unwrap_or(0);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(body);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(&len.to_le_bytes());
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&u16::try_from(value.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// The blocks that open a file, with an interface for each host.
fn head<'a>(hosts: impl Iterator<Item = &'a str>, snaplen: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // Section header: byte order, version 1.0, length unknown.
    let mut section = Vec::new();
    section.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
    section.extend_from_slice(&1u32.to_le_bytes());
    section.extend_from_slice(&u64::MAX.to_le_bytes());
    block(&mut out, 0x0a0d_0d0a, &section);
    for host in hosts {
        let mut interface = Vec::new();
        interface.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        interface.extend_from_slice(&[0, 0]);
        interface.extend_from_slice(&u32::try_from(snaplen).unwrap_or(0).to_le_bytes());
        option(&mut interface, 2, host.as_bytes());
        option(&mut interface, 9, &[9]); // times in nanoseconds
        option(&mut interface, 0, &[]);
        block(&mut out, 1, &interface);
    }
    out
}

impl Capture {
    /// A capture at `path`. `snaplen`: bytes kept of each packet; 0: all. `waits`: for a slow disk,
    /// rather than leaving packets out.
    pub(crate) fn begin<'a>(
        path: &Path,
        hosts: impl Iterator<Item = &'a str>,
        snaplen: u32,
        waits: bool,
    ) -> io::Result<Capture> {
        let mut file = BufWriter::new(File::create(path)?);
        let snaplen = usize::try_from(snaplen).unwrap_or(usize::MAX);
        let (to, from): (_, Receiver<Vec<u8>>) = sync_channel(BATCHES_MAX);
        let writer = std::thread::Builder::new().name("airtcp-capture".to_owned()).spawn(move || {
            while let Ok(batch) = from.recv() {
                file.write_all(&batch)?;
            }
            file.flush()
        })?;
        Ok(Capture { batch: head(hosts, snaplen), snaplen, to, writer, packets: 0, left_out: 0, waits })
    }

    /// One packet, as `host` sent or received it.
    pub(crate) fn packet(&mut self, time: Time, host: usize, sent: bool, bytes: &[u8]) {
        let kept = bytes.len().min(if self.snaplen == 0 { usize::MAX } else { self.snaplen });
        let ns = time.as_ns();
        let word = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let mut body = Vec::with_capacity(kept + 40);
        body.extend_from_slice(&word(host));
        body.extend_from_slice(&airtcp_core::convert::high32(ns).to_le_bytes());
        body.extend_from_slice(&airtcp_core::convert::low32(ns).to_le_bytes());
        body.extend_from_slice(&word(kept));
        body.extend_from_slice(&word(bytes.len()));
        body.extend_from_slice(&bytes[..kept]);
        body.resize(body.len().next_multiple_of(4), 0);
        // epb_flags: inbound 1, outbound 2.
        option(&mut body, 2, &(if sent { 2u32 } else { 1 }).to_le_bytes());
        option(&mut body, 0, &[]);
        block(&mut self.batch, 6, &body);
        self.packets += 1;
        if self.batch.len() >= BATCH_BYTES {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_BYTES + 4096));
        if self.waits {
            // If its writer has failed, it says so at the end.
            let _ = self.to.send(batch);
        } else if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.to.try_send(batch) {
            self.left_out += self.packets;
        }
        self.packets = 0;
    }

    /// Writes the rest, and returns how many packets are missing.
    pub(crate) fn end(mut self) -> Result<u64, String> {
        let last = std::mem::take(&mut self.batch);
        // Waits for the disk now; if the writer has failed, it says so itself.
        let _ = self.to.send(last);
        drop(self.to);
        match self.writer.join() {
            Ok(Ok(())) => Ok(self.left_out),
            Ok(Err(error)) => Err(format!("cannot write the capture: {error}")),
            Err(_) => Err("cannot write the capture: its writer failed".to_owned()),
        }
    }
}

/// The capture, if one is kept.
pub(crate) struct Recorder(pub(crate) Option<Capture>);

impl Recorder {
    /// Begins the configured capture. Its thread begins here: none can once programs have a
    /// namespace. `waits`: see [`Capture::begin`].
    pub(crate) fn begin<'h>(
        config: &RunConfig,
        hosts: impl Iterator<Item = &'h str>,
        waits: bool,
    ) -> Result<Recorder, Stop> {
        let Some(record) = &config.record else { return Ok(Recorder(None)) };
        let Some(path) = &record.capture else { return Ok(Recorder(None)) };
        let capture = Capture::begin(path, hosts, record.snaplen, waits);
        capture
            .map(|capture| Recorder(Some(capture)))
            .map_err(|e| Stop::failure(format!("cannot write the capture: {e}")))
    }

    /// Writes the rest, and returns how many packets are missing.
    pub(crate) fn end(&mut self) -> Result<u64, String> {
        self.0.take().map_or(Ok(0), Capture::end)
    }
}

impl Tap for Recorder {
    fn packet(&mut self, time: Time, host: usize, sent: bool, bytes: &[u8]) {
        if let Some(capture) = &mut self.0 {
            capture.packet(time, host, sent, bytes);
        }
    }
}
