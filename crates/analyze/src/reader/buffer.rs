//! The part of a file that is being looked at.

use std::io::{ErrorKind, Read};

/// Read at once.
const CHUNK_BYTES: usize = 1 << 18;

pub(super) struct Buffer {
    input: Box<dyn Read + Send>,
    bytes: Vec<u8>,
    /// Range of `bytes` that has not been consumed.
    start: usize,
    end: usize,
    /// Place in the file of `bytes[0]`.
    base: u64,
    at_end: bool,
}

impl Buffer {
    pub(super) fn new(input: impl Read + Send + 'static) -> Buffer {
        Buffer { input: Box::new(input), bytes: vec![0; CHUNK_BYTES], start: 0, end: 0, base: 0, at_end: false }
    }

    /// Has at least `wanted` bytes at hand, unless the file ends before: says whether it does.
    #[inline]
    pub(super) fn fill(&mut self, wanted: usize) -> Result<bool, String> {
        if self.end - self.start >= wanted {
            return Ok(true);
        }
        self.read_more(wanted)
    }

    #[cold]
    fn read_more(&mut self, wanted: usize) -> Result<bool, String> {
        self.bytes.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted.next_multiple_of(CHUNK_BYTES), 0);
        }
        while self.end < wanted && !self.at_end {
            match self.input.read(&mut self.bytes[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("cannot be read on: {e}")),
            }
        }
        Ok(self.end >= wanted)
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
    /// Index of the first byte not consumed, for [`Buffer::taken`].
    pub(super) fn position(&self) -> usize {
        self.start
    }
    /// Bytes that may be consumed already; valid until the next [`Buffer::fill`].
    pub(super) fn taken(&self, start: usize, len: usize) -> &[u8] {
        &self.bytes[start..start + len]
    }
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }
    /// Consumes without keeping; false if the file ends before.
    pub(super) fn skip(&mut self, mut bytes: u64) -> Result<bool, String> {
        while bytes > 0 {
            if !self.fill(1)? {
                return Ok(false);
            }
            let step = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.end - self.start);
            self.start += step;
            bytes -= step as u64;
        }
        Ok(true)
    }
    /// Place in the (unpacked) file of the first byte not consumed.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }
}
