//! The announcement: the datagram by which a terminal tells the others on its access point that it
//! is there and sending.
//!
//! 24 bytes, the payload of one UDP broadcast. Integers are big-endian, as in the headers around
//! it.
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | magic | `aCWN` |
//! | 4 | 1 | version | 2 |
//! | 5 | 1 | flags | 1: sending; 2: leaving; 4: the throughput is known; 8: correcting. No other bit is set |
//! | 6 | 2 | flows | TCP connections that are sending; 0 exactly if the flag `sending` is not set |
//! | 8 | 8 | sender | the terminal: 64 random bits that it keeps, not 0 |
//! | 16 | 4 | sequence | one more with each announcement, modulo 2^32 |
//! | 20 | 4 | throughput | what the terminal's connections delivered since its last announcement, kbit/s; 0 if not known |
//!
//! The source (`coop-cwnd`) says only that terminals announce themselves by UDP broadcast; the
//! format is airtcp's.
//!
//! Version 1 has no flag `correcting`. It is still read, and says nothing of the phase.
//!
//! **Nothing here is authenticated**: any station that can send on the WLAN can claim anything,
//! under any name. So no announcement can stop a connection, or keep or lift the cap that its own
//! RTT brought. Forged announcements can:
//!
//! - make the receiver count up to [`super::CoopConfig::max_peers`] terminals too many, or (as
//!   `leaving`, or in a real one's name) some too few, for as long as they go on and `expire_after`
//!   longer. A cap in force is then the share of as many terminals;
//! - with `phases = "shared"`, put a cap in force on a connection whose own RTT is `shared_at`
//!   times the least or more. The cap is the share of the terminals counted. It ends `shared_for`
//!   after the RTT was that long for the last time, or after the last report;
//! - where the bandwidth is learnt, make that estimate too large within its bound.
//!
//! No cap is below `min_cap`, and none above what the connection would use by itself.

/// Length of an announcement.
pub const ANNOUNCEMENT_BYTES: usize = 24;
/// Magic number at the start of every announcement.
pub const MAGIC: [u8; 4] = *b"aCWN";
/// The version that this code writes. It reads version 1 as well.
pub const VERSION: u8 = 2;

const SENDING: u8 = 1;
const LEAVING: u8 = 2;
const THROUGHPUT: u8 = 4;
const CORRECTING: u8 = 8;

/// A terminal's name: 64 random bits, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TerminalId(u64);

impl TerminalId {
    /// None if `bits` is 0, which names no terminal.
    pub const fn new(bits: u64) -> Option<TerminalId> {
        if bits == 0 { None } else { Some(TerminalId(bits)) }
    }
    /// The 64 bits.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Announcement of a terminal about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// The terminal that sent it.
    pub sender: TerminalId,
    /// One more with each announcement, modulo 2^32.
    pub sequence: u32,
    /// Connections that are sending; a terminal with none is not counted. 0 if `leaving`.
    pub flows: u16,
    /// The last announcement of this terminal.
    pub leaving: bool,
    /// A connection of it is in correction or stop mode by its own RTT. Not one that others brought
    /// there: terminals whose RTT is normal again would otherwise keep each other under a cap.
    /// False if no flow sends, and in version 1.
    pub correcting: bool,
    /// Delivered since the announcement before, kbit/s.
    pub throughput_kbps: Option<u32>,
}

/// Why bytes are no announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncementError {
    /// It has another length.
    #[error("{found} bytes: an announcement has {ANNOUNCEMENT_BYTES}")]
    Length {
        /// Bytes.
        found: usize,
    },
    /// It begins otherwise.
    #[error("begins with {found:02x?}: an announcement begins with {MAGIC:02x?}")]
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// Its version is not known.
    #[error("version {found}: versions 1 to {VERSION} are known")]
    Version {
        /// The version.
        found: u8,
    },
    /// It has flags that are not known, or that exclude each other.
    #[error(
        "flags {found:#04x}: 1 is sending, 2 leaving, 4 throughput known and, from version 2 on, 8 correcting; leaving excludes sending, and only who sends corrects"
    )]
    Flags {
        /// All flags.
        found: u8,
    },
    /// Flows and flags contradict each other.
    #[error("{flows} flows with the flag `sending` {}: the flag is set exactly if there are flows", if *.sending { "set" } else { "clear" })]
    Flows {
        /// Connections that are said to be sending.
        flows: u16,
        /// The flag is set.
        sending: bool,
    },
    /// It names no sender.
    #[error("sender 0: a terminal's name is not 0")]
    Sender,
    /// There is a throughput that is not known.
    #[error("throughput {found} kbit/s without the flag that it is known: must be 0")]
    Throughput {
        /// kbit/s.
        found: u32,
    },
}

impl Announcement {
    /// The datagram.
    pub fn encode(&self) -> [u8; ANNOUNCEMENT_BYTES] {
        let flows = if self.leaving { 0 } else { self.flows };
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags =
            flag(flows > 0, SENDING) | flag(self.leaving, LEAVING) | flag(self.throughput_kbps.is_some(), THROUGHPUT);
        let flags = flags | flag(flows > 0 && self.correcting, CORRECTING);
        let mut b = [0; ANNOUNCEMENT_BYTES];
        b[0..4].copy_from_slice(&MAGIC);
        b[4] = VERSION;
        b[5] = flags;
        b[6..8].copy_from_slice(&flows.to_be_bytes());
        b[8..16].copy_from_slice(&self.sender.0.to_be_bytes());
        b[16..20].copy_from_slice(&self.sequence.to_be_bytes());
        b[20..24].copy_from_slice(&self.throughput_kbps.unwrap_or(0).to_be_bytes());
        b
    }

    /// Never panics, and accepts exactly what [`Announcement::encode`] writes, or wrote as version
    /// 1.
    pub fn decode(bytes: &[u8]) -> Result<Announcement, AnnouncementError> {
        let b: &[u8; ANNOUNCEMENT_BYTES] =
            bytes.try_into().map_err(|_| AnnouncementError::Length { found: bytes.len() })?;
        let magic = [b[0], b[1], b[2], b[3]];
        if magic != MAGIC {
            return Err(AnnouncementError::Magic { found: magic });
        }
        let known = match b[4] {
            1 => SENDING | LEAVING | THROUGHPUT,
            VERSION => SENDING | LEAVING | THROUGHPUT | CORRECTING,
            found => return Err(AnnouncementError::Version { found }),
        };
        let flags = b[5];
        let (sending, leaving, correcting) = (flags & SENDING != 0, flags & LEAVING != 0, flags & CORRECTING != 0);
        if flags & !known != 0 || (sending && leaving) || (correcting && !sending) {
            return Err(AnnouncementError::Flags { found: flags });
        }
        let flows = u16::from_be_bytes([b[6], b[7]]);
        if sending != (flows > 0) {
            return Err(AnnouncementError::Flows { flows, sending });
        }
        let sender = u64::from_be_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]);
        let sender = TerminalId::new(sender).ok_or(AnnouncementError::Sender)?;
        let sequence = u32::from_be_bytes([b[16], b[17], b[18], b[19]]);
        let kbps = u32::from_be_bytes([b[20], b[21], b[22], b[23]]);
        let throughput_kbps = (flags & THROUGHPUT != 0).then_some(kbps);
        if throughput_kbps.is_none() && kbps != 0 {
            return Err(AnnouncementError::Throughput { found: kbps });
        }
        Ok(Announcement { sender, sequence, flows, leaving, correcting, throughput_kbps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Announcement {
        Announcement {
            sender: TerminalId(0x0123_4567_89ab_cdef),
            sequence: 7,
            flows: 2,
            leaving: false,
            correcting: true,
            throughput_kbps: Some(1900),
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let expected = [
            b'a', b'C', b'W', b'N', 2, 0b1101, 0, 2, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0, 0, 7, 0, 0,
            0x07, 0x6c,
        ];
        assert_eq!(example().encode(), expected);
        assert_eq!(Announcement::decode(&expected), Ok(example()));
    }

    #[test]
    fn version_1_is_read_and_says_nothing_of_the_phase() {
        let mut old = example().encode();
        (old[4], old[5]) = (1, 0b101);
        assert_eq!(Announcement::decode(&old), Ok(Announcement { correcting: false, ..example() }));
        old[5] = 0b1101;
        assert_eq!(Announcement::decode(&old), Err(AnnouncementError::Flags { found: 0b1101 }));
    }

    #[test]
    fn each_fault_has_its_own_message() {
        let with = |at: usize, value: u8| {
            let mut b = example().encode();
            b[at] = value;
            Announcement::decode(&b).unwrap_err().to_string()
        };
        assert_eq!(Announcement::decode(&[]).unwrap_err().to_string(), "0 bytes: an announcement has 24");
        assert_eq!(with(0, b'x'), "begins with [78, 43, 57, 4e]: an announcement begins with [61, 43, 57, 4e]");
        assert_eq!(with(4, 3), "version 3: versions 1 to 2 are known");
        let flags = ": 1 is sending, 2 leaving, 4 throughput known and, from version 2 on, 8 correcting; \
                     leaving excludes sending, and only who sends corrects";
        for found in [16, 8, 3] {
            assert_eq!(with(5, found), format!("flags {found:#04x}{flags}"));
        }
        let set = "the flag is set exactly if there are flows";
        assert_eq!(with(5, 4), format!("2 flows with the flag `sending` clear: {set}"));
        assert_eq!(with(7, 0), format!("0 flows with the flag `sending` set: {set}"));
        assert_eq!(with(5, 1), "throughput 1900 kbit/s without the flag that it is known: must be 0");
        let mut nobody = example().encode();
        nobody[8..16].fill(0);
        assert_eq!(Announcement::decode(&nobody), Err(AnnouncementError::Sender));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(
            sender in 1..=u64::MAX, sequence: u32, flows: u16, leaving: bool, correcting: bool, throughput_kbps: Option<u32>
        ) {
            let flows = if leaving { 0 } else { flows };
            let correcting = correcting && flows > 0;
            let a = Announcement { sender: TerminalId(sender), sequence, flows, leaving, correcting, throughput_kbps };
            prop_assert_eq!(Announcement::decode(&a.encode()), Ok(a));
        }

        #[test]
        fn any_bytes_are_an_announcement_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..40), plausible: bool, old: bool
        ) {
            if plausible {
                bytes.resize(ANNOUNCEMENT_BYTES, 0);
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[4] = if old { 1 } else { VERSION };
                bytes[5] &= 15;
            }
            match Announcement::decode(&bytes) {
                Ok(a) => {
                    prop_assert!(bytes[4] == VERSION || !a.correcting);
                    bytes[4] = VERSION;
                    prop_assert_eq!(&a.encode()[..], &bytes[..]);
                }
                Err(e) => prop_assert!(!e.to_string().is_empty()),
            }
        }
    }
}
