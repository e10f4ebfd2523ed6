//! Virtqueues in a guest's memory (virtio 1.2, split rings). Memory is read and written through the
//! guest's own file, at offsets that are checked first: whatever a guest writes there, this side
//! sees an error at most.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Error of a guest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An address is in none of its regions.
    #[error("{len} bytes at {at:#x} are not in the guest's memory")]
    Address {
        /// Where.
        at: u64,
        /// How many.
        len: u64,
    },
    /// Its memory cannot be read or written.
    #[error("the guest's memory at {at:#x}: {why}")]
    Memory {
        /// Where.
        at: u64,
        /// Why.
        why: String,
    },
    /// A ring contradicts itself.
    #[error("a ring of the guest: {0}")]
    Ring(&'static str),
    /// A message does not fit the protocol.
    #[error("a message of the guest: {0}")]
    Message(String),
}

/// A part of a guest's memory.
#[derive(Debug)]
pub struct Region {
    /// Its first address.
    pub start: u64,
    /// Its bytes.
    pub len: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// The file that it is.
    pub file: File,
}

/// A guest's memory.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Vec<Region>,
}

impl Memory {
    /// Memory of these regions.
    ///
    /// # Errors
    /// One of them is not within its file.
    pub fn new(regions: Vec<Region>) -> Result<Memory, Fault> {
        for region in &regions {
            let end = region.offset.checked_add(region.len);
            let is_sane = region.start.checked_add(region.len).is_some();
            let about = region.file.metadata();
            let fits = about.is_ok_and(|about| about.is_file() && end.is_some_and(|end| end <= about.len()));
            if !is_sane || !fits {
                return Err(Fault::Address { at: region.start, len: region.len });
            }
        }
        Ok(Memory { regions })
    }

    fn find(&self, at: u64, len: u64) -> Result<(&File, u64), Fault> {
        let found = self.regions.iter().find_map(|region| {
            let from = at.checked_sub(region.start)?;
            let is_inside = len <= region.len && from <= region.len - len;
            is_inside.then_some((&region.file, region.offset + from))
        });
        found.ok_or(Fault::Address { at, len })
    }

    /// Succeeds if these bytes are in it.
    ///
    /// # Errors
    /// They are not.
    pub fn check(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.find(at, len).map(|_| ())
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// They are not all in one region.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let (file, offset) = self.find(at, length(into.len()))?;
        file.read_exact_at(into, offset).map_err(|error| Fault::Memory { at, why: error.to_string() })
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// They are not all in one region.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        let (file, offset) = self.find(at, length(bytes.len()))?;
        file.write_all_at(bytes, offset).map_err(|error| Fault::Memory { at, why: error.to_string() })
    }

    fn read_u16(&self, at: u64) -> Result<u16, Fault> {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes)?;
        Ok(u16::from_le_bytes(bytes))
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The largest ring: `virtio_uml` has 256, and the standard up to 32768.
const MOST: u16 = 1024;
/// Most descriptors of one buffer. Linux has one for each fragment of a packet, 47 at most, and one
/// for its header.
const MOST_PIECES: usize = 64;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const NO_INTERRUPT: u16 = 1;
const DESCRIPTOR: u64 = 16;

/// A piece of memory that a descriptor names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    at: u64,
    len: u32,
    /// This side writes it.
    is_ours: bool,
}

/// One virtqueue, as its device sees it.
#[derive(Debug, Default)]
pub struct Queue {
    size: u16,
    descriptors: u64,
    available: u64,
    used: u64,
    taken: u16,
    given: u16,
    is_on: bool,
    pieces: Vec<Piece>,
}

impl Queue {
    /// How many descriptors it has. Addresses of a ring of another size are forgotten: they were
    /// checked for that one.
    ///
    /// # Errors
    /// Not a power of two, or too many.
    pub fn set_size(&mut self, size: u32) -> Result<(), Fault> {
        let fits = u16::try_from(size).ok().filter(|size| size.is_power_of_two() && *size <= MOST);
        self.size = fits.ok_or(Fault::Ring("its size must be a power of two up to 1024"))?;
        (self.descriptors, self.available, self.used, self.is_on) = (0, 0, 0, false);
        Ok(())
    }

    /// How many descriptors it has, as it was told.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Where the guest's next entry is.
    pub fn set_base(&mut self, base: u32) {
        self.taken = airtcp_core::convert::low16(u64::from(base));
        self.given = self.taken;
    }

    /// Where its three parts are.
    ///
    /// # Errors
    /// One of them is not in the guest's memory, or the size is not known yet.
    pub fn set_addresses(&mut self, memory: &Memory, descriptors: u64, used: u64, available: u64) -> Result<(), Fault> {
        if self.size == 0 {
            return Err(Fault::Ring("its addresses came before its size"));
        }
        let size = u64::from(self.size);
        memory.check(descriptors, size * DESCRIPTOR)?;
        memory.check(available, 6 + 2 * size)?;
        memory.check(used, 6 + 8 * size)?;
        (self.descriptors, self.available, self.used) = (descriptors, available, used);
        Ok(())
    }

    /// Switches it on or off.
    ///
    /// # Errors
    /// It has no addresses yet.
    pub fn enable(&mut self, is_on: bool) -> Result<(), Fault> {
        if is_on && self.descriptors == 0 && self.used == 0 {
            return Err(Fault::Ring("it was enabled before its addresses were known"));
        }
        self.is_on = is_on;
        Ok(())
    }

    /// Takes the next buffer that the guest offers: the number of its first descriptor.
    ///
    /// # Errors
    /// The ring contradicts itself.
    pub fn take(&mut self, memory: &Memory) -> Result<Option<u16>, Fault> {
        if !self.is_on {
            return Ok(None);
        }
        let offered = memory.read_u16(self.available + 2)?.wrapping_sub(self.taken);
        if offered == 0 {
            return Ok(None);
        }
        if offered > self.size {
            return Err(Fault::Ring("it offers more buffers than it has"));
        }
        if self.taken.wrapping_sub(self.given) >= self.size {
            return Err(Fault::Ring("it offers a buffer again that it has not got back"));
        }
        let slot = u64::from(self.taken & (self.size - 1));
        let head = memory.read_u16(self.available + 4 + 2 * slot)?;
        self.taken = self.taken.wrapping_add(1);
        self.walk(memory, head)?;
        Ok(Some(head))
    }

    /// Follows a chain of descriptors. It ends, since no chain has more of them than
    /// [`MOST_PIECES`].
    fn walk(&mut self, memory: &Memory, head: u16) -> Result<(), Fault> {
        self.pieces.clear();
        let mut next = head;
        loop {
            if next >= self.size {
                return Err(Fault::Ring("a descriptor is beyond its end"));
            }
            if self.pieces.len() >= usize::from(self.size).min(MOST_PIECES) {
                return Err(Fault::Ring("a chain of descriptors has no end"));
            }
            // Once: the guest may change it meanwhile.
            let mut raw = [0; 16];
            memory.read(self.descriptors + u64::from(next) * DESCRIPTOR, &mut raw)?;
            let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1] = raw;
            let at = u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
            let (len, flags) = (u32::from_le_bytes([l0, l1, l2, l3]), u16::from_le_bytes([f0, f1]));
            if flags & INDIRECT != 0 {
                return Err(Fault::Ring("an indirect descriptor, which was not offered"));
            }
            memory.check(at, u64::from(len))?;
            self.pieces.push(Piece { at, len, is_ours: flags & WRITE != 0 });
            if flags & NEXT == 0 {
                return Ok(());
            }
            next = u16::from_le_bytes([n0, n1]);
        }
    }

    /// Reads the buffer taken last.
    ///
    /// # Errors
    /// It is longer than `most`, or not in memory.
    pub fn read(&self, memory: &Memory, into: &mut Vec<u8>, most: usize) -> Result<(), Fault> {
        into.clear();
        for piece in self.pieces.iter().filter(|piece| !piece.is_ours) {
            let from = into.len();
            let end = from.saturating_add(usize::try_from(piece.len).unwrap_or(usize::MAX));
            if end > most {
                return Err(Fault::Ring("a packet is too long"));
            }
            into.resize(end, 0);
            memory.read(piece.at, &mut into[from..])?;
        }
        Ok(())
    }

    /// Writes into the buffer taken last; false: they do not fit.
    ///
    /// # Errors
    /// It is not in memory.
    pub fn write(&self, memory: &Memory, bytes: &[u8]) -> Result<bool, Fault> {
        let mut rest = bytes;
        for piece in self.pieces.iter().filter(|piece| piece.is_ours) {
            let len = rest.len().min(usize::try_from(piece.len).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at(len);
            memory.write(piece.at, now)?;
            rest = later;
        }
        Ok(rest.is_empty())
    }

    /// Gives a buffer back, of which this side has written `len` bytes.
    ///
    /// # Errors
    /// The ring is not in memory.
    pub fn give(&mut self, memory: &Memory, head: u16, len: u32) -> Result<(), Fault> {
        let slot = u64::from(self.given & (self.size - 1));
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&u32::from(head).to_le_bytes());
        entry[4..].copy_from_slice(&len.to_le_bytes());
        memory.write(self.used + 4 + 8 * slot, &entry)?;
        self.given = self.given.wrapping_add(1);
        memory.write(self.used + 2, &self.given.to_le_bytes())
    }

    /// True if it is in use.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Asks the guest to tell when it offers buffers, or not to.
    ///
    /// # Errors
    /// The ring is not in memory.
    pub fn ask_for_notices(&self, memory: &Memory, asks: bool) -> Result<(), Fault> {
        memory.write(self.used, &u16::from(!asks).to_le_bytes())
    }

    /// True if the guest wants to be told that buffers came back.
    ///
    /// # Errors
    /// The ring is not in memory.
    pub fn wants_call(&self, memory: &Memory) -> Result<bool, Fault> {
        Ok(self.is_on && memory.read_u16(self.available)? & NO_INTERRUPT == 0)
    }
}
