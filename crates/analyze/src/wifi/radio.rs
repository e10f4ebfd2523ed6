//! Headers that a card in monitor mode puts before a frame: radiotap, Prism, AVS, PPI, or none.

use airtcp_core::units::DataRate;
use airtcp_core::wifi::phy::{Mode, Width};

use super::radiotap;

/// LINKTYPE_ values of the tcpdump group's registry.
pub(crate) mod link_type {
    pub(crate) const IEEE802_11: u16 = 105;
    pub(crate) const PRISM: u16 = 119;
    pub(crate) const RADIOTAP: u16 = 127;
    pub(crate) const AVS: u16 = 163;
    pub(crate) const PPI: u16 = 192;
}

/// How a frame was sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phy {
    Unknown,
    /// DSSS, CCK, OFDM, HT and VHT.
    Known(Mode),
    /// HE: MCS, streams, width in MHz, guard interval in ns.
    He {
        mcs: u8,
        streams: u8,
        mhz: u16,
        guard_ns: u16,
    },
}

/// Description of a frame by the card that heard it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Radio {
    /// Length of this header, bytes.
    pub length: usize,
    /// Link type of the frame behind it.
    pub inner: u16,
    /// The frame ends with its check sequence, and fails it.
    pub has_fcs: bool,
    pub bad_fcs: bool,
    /// The frame's body begins at a multiple of four.
    pub padded: bool,
    pub short_preamble: bool,
    pub mhz: u16,
    pub signal_dbm: Option<i8>,
    pub phy: Phy,
    /// Number of the A-MPDU it belongs to.
    pub ampdu: Option<u32>,
    /// The card's clock.
    pub tsft: Option<u64>,
}

impl Radio {
    /// A header that says nothing but its length.
    pub(super) const fn bare(length: usize) -> Radio {
        Radio {
            length,
            inner: link_type::IEEE802_11,
            has_fcs: false,
            bad_fcs: false,
            padded: false,
            short_preamble: false,
            mhz: 0,
            signal_dbm: None,
            phy: Phy::Unknown,
            ampdu: None,
            tsft: None,
        }
    }
}

/// True for links whose frames may be of monitor mode.
pub(crate) const fn is_monitor(link: u16) -> bool {
    matches!(link, link_type::IEEE802_11 | link_type::PRISM | link_type::RADIOTAP | link_type::AVS | link_type::PPI)
}

/// `None`: the header is cut, or contradicts itself, or the link has no such header.
pub(crate) fn parse(link: u16, bytes: &[u8]) -> Option<Radio> {
    match link {
        link_type::IEEE802_11 => Some(Radio::bare(0)),
        link_type::RADIOTAP => radiotap::parse(bytes),
        // Drivers wrote AVS headers into files of Prism's link type.
        link_type::PRISM if is_avs(bytes) => avs(bytes),
        link_type::PRISM => prism(bytes),
        link_type::AVS => avs(bytes),
        link_type::PPI => ppi(bytes),
        _ => None,
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    be32(bytes, at).map(u32::swap_bytes)
}
fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Centre of a channel, MHz; 0: no such channel.
fn mhz(channel: u32) -> u16 {
    let mhz = match channel {
        1..=13 => 2407 + 5 * channel,
        14 => 2484,
        32..=196 => 5000 + 5 * channel,
        _ => 0,
    };
    u16::try_from(mhz).unwrap_or(0)
}

fn legacy(bps: u64) -> Phy {
    Mode::legacy(DataRate::from_bps(bps)).map_or(Phy::Unknown, Phy::Known)
}

/// A level in dBm. Some drivers write a level above noise in its place, which is positive.
fn dbm(value: u32) -> Option<i8> {
    i8::try_from(i32::from_ne_bytes(value.to_ne_bytes())).ok().filter(|&level| level < 0)
}

/// Prism's header of linux-wlan-ng: message code, length, device name, then items of an
/// identifier, a status, a length and a value, in the byte order of the machine.
fn prism(bytes: &[u8]) -> Option<Radio> {
    const ITEM_BYTES: usize = 12;
    const FIRST_ITEM: usize = 24;
    let swapped = match be32(bytes, 0)? {
        0x4400_0000 | 0x4100_0000 => true,
        0x44 | 0x41 => false,
        _ => return None,
    };
    let word = |at: usize| if swapped { le32(bytes, at) } else { be32(bytes, at) };
    let length = word(4)? as usize;
    let header = bytes.get(..length)?;
    let mut found = Radio::bare(length);
    for at in (FIRST_ITEM..header.len().saturating_sub(ITEM_BYTES - 1)).step_by(ITEM_BYTES) {
        // Two numberings are in use: 0x44 in the low half with the item above, or 0x41 with the
        // item in the nibble above it.
        let id = word(at)?;
        let item = if id & 0xffff == 0x44 { id >> 16 } else { id >> 12 };
        let status = if swapped { le16(bytes, at + 4)? } else { le16(bytes, at + 4)?.swap_bytes() };
        if status != 0 {
            continue;
        }
        let value = word(at + 8)?;
        match item {
            3 => found.mhz = mhz(value),
            6 => found.signal_dbm = dbm(value),
            8 => found.phy = legacy(u64::from(value) * 500_000),
            _ => {}
        }
    }
    Some(found)
}

const AVS_MAGIC: u32 = 0x8021_1000;

fn is_avs(bytes: &[u8]) -> bool {
    be32(bytes, 0).is_some_and(|magic| magic & 0xffff_f000 == AVS_MAGIC & 0xffff_f000)
}

/// AVS capture header, big-endian.
fn avs(bytes: &[u8]) -> Option<Radio> {
    if !is_avs(bytes) {
        return None;
    }
    const SIGNAL_IN_DBM: u32 = 2;
    const SHORT_PREAMBLE: u32 = 1;
    let word = |at: usize| be32(bytes, at);
    let length = word(4)? as usize;
    bytes.get(..length)?;
    let mut found = Radio::bare(length);
    found.mhz = mhz(word(28)?);
    // Units of 100 kbit/s; 11 Mbit/s is 110.
    found.phy = legacy(u64::from(word(32)?) * 100_000);
    if word(44)? == SIGNAL_IN_DBM {
        found.signal_dbm = dbm(word(48)?);
    }
    found.short_preamble = word(56)? == SHORT_PREAMBLE;
    Some(found)
}

/// Per-Packet Information, little-endian: a header with the link type of the frame, then fields.
fn ppi(bytes: &[u8]) -> Option<Radio> {
    const COMMON: u16 = 2;
    const MAC_AND_PHY: u16 = 4;
    let length = usize::from(le16(bytes, 2)?);
    let header = bytes.get(..length).filter(|_| length >= 8)?;
    let mut found = Radio::bare(length);
    found.inner = u16::try_from(le32(bytes, 4)?).ok()?;
    let mut at = 8;
    while at + 4 <= header.len() {
        let (kind, size) = (le16(header, at)?, usize::from(le16(header, at + 2)?));
        let field = header.get(at + 4..at + 4 + size)?;
        match kind {
            COMMON => {
                let flags = le16(field, 8)?;
                found.has_fcs = flags & 1 != 0;
                found.bad_fcs = flags & 4 != 0;
                // Bit 1: the clock counts milliseconds.
                found.tsft = (flags & 2 == 0).then_some(u64::from(le32(field, 0)?) | u64::from(le32(field, 4)?) << 32);
                let rate = le16(field, 10)?;
                if rate != 0 && matches!(found.phy, Phy::Unknown) {
                    found.phy = legacy(u64::from(rate) * 500_000);
                }
                found.mhz = le16(field, 12)?;
                found.signal_dbm =
                    field.get(18).map(|&level| i8::from_ne_bytes([level])).filter(|level| (-127..0).contains(level));
            }
            MAC_AND_PHY => {
                let (flags, mcs) = (le32(field, 0)?, *field.get(9)?);
                let width = if flags & 2 != 0 { Width::Mhz40 } else { Width::Mhz20 };
                if let Some(mode) = Mode::ht(mcs, width, flags & 4 != 0) {
                    found.phy = Phy::Known(mode);
                }
                found.ampdu = (flags & 0x10 != 0).then_some(le32(field, 4)?);
            }
            _ => {}
        }
        at += 4 + size;
    }
    Some(found)
}
