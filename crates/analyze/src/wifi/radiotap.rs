//! Radiotap: what a card in monitor mode says of a frame (radiotap.org). Fields lie in the order of
//! their bits, each at a multiple of its alignment; only those of the first presence word are read,
//! which stand for the whole frame.

use airtcp_core::units::DataRate;
use airtcp_core::wifi::phy::{Mode, Width};

use super::radio::{Phy, Radio};

/// By bit of the presence word: alignment and size.
const FIELDS: [(usize, usize); 28] = [
    (8, 8),  // TSFT
    (1, 1),  // flags
    (1, 1),  // rate
    (2, 4),  // channel
    (1, 2),  // FHSS
    (1, 1),  // antenna signal, dBm
    (1, 1),  // antenna noise, dBm
    (2, 2),  // lock quality
    (2, 2),  // TX attenuation
    (2, 2),  // the same in dB
    (1, 1),  // TX power
    (1, 1),  // antenna
    (1, 1),  // antenna signal, dB
    (1, 1),  // antenna noise, dB
    (2, 2),  // RX flags
    (2, 2),  // TX flags
    (1, 1),  // RTS retries
    (1, 1),  // data retries
    (4, 8),  // extended channel
    (1, 3),  // MCS
    (4, 8),  // A-MPDU status
    (2, 12), // VHT
    (8, 12), // timestamp
    (2, 12), // HE
    (2, 12), // HE-MU
    (2, 6),  // HE-MU, other user
    (1, 1),  // 0-length PSDU
    (2, 4),  // L-SIG
];
const MORE: u32 = 1 << 31;
const FLAG_SHORT_PREAMBLE: u8 = 0x02;
const FLAG_FCS: u8 = 0x10;
const FLAG_DATA_PAD: u8 = 0x20;
const FLAG_BAD_FCS: u8 = 0x40;

/// `None`: it is cut, or contradicts itself.
pub(super) fn parse(bytes: &[u8]) -> Option<Radio> {
    let le16 = |at: usize| Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let le32 = |at: usize| Some(u32::from(le16(at)?) | u32::from(le16(at + 2)?) << 16);
    let length = usize::from(le16(2)?);
    let present = le32(4)?;
    let mut at = 8;
    let mut word = present;
    while word & MORE != 0 {
        word = le32(at)?;
        at += 4;
    }
    let mut found = Radio::bare(length);
    for (bit, &(align, size)) in FIELDS.iter().enumerate() {
        if present & (1 << bit) == 0 {
            continue;
        }
        at = at.next_multiple_of(align);
        let field = bytes.get(at..at + size).filter(|_| at + size <= length)?;
        match bit {
            0 => found.tsft = Some(u64::from(le32(at)?) | u64::from(le32(at + 4)?) << 32),
            1 => {
                found.short_preamble = field[0] & FLAG_SHORT_PREAMBLE != 0;
                found.has_fcs = field[0] & FLAG_FCS != 0;
                found.padded = field[0] & FLAG_DATA_PAD != 0;
                found.bad_fcs = field[0] & FLAG_BAD_FCS != 0;
            }
            2 => {
                let mode = Mode::legacy(DataRate::from_bps(u64::from(field[0]) * 500_000));
                found.phy = mode.map_or(Phy::Unknown, Phy::Known);
            }
            3 => found.mhz = le16(at)?,
            5 => found.signal_dbm = Some(i8::from_le_bytes([field[0]])),
            19 => found.phy = ht(field),
            20 => found.ampdu = Some(le32(at)?),
            21 => found.phy = vht(field),
            23 => {
                found.phy = he([le16(at)?, le16(at + 2)?, le16(at + 4)?, le16(at + 6)?, le16(at + 8)?, le16(at + 10)?])
            }
            _ => {}
        }
        at += size;
    }
    Some(found)
}

fn ht(field: &[u8]) -> Phy {
    let (known, flags, mcs) = (field[0], field[1], field[2]);
    if known & 0x02 == 0 {
        return Phy::Unknown;
    }
    // Bandwidth: 20, 40, 20L, 20U.
    let width = if known & 0x01 != 0 && flags & 0x03 == 1 { Width::Mhz40 } else { Width::Mhz20 };
    Mode::ht(mcs, width, known & 0x04 != 0 && flags & 0x04 != 0).map_or(Phy::Unknown, Phy::Known)
}

fn vht(field: &[u8]) -> Phy {
    // The first user's; codes 1 to 3 of the bandwidth are within 40 MHz, 4 to 10 within 80, 11 and
    // above within 160.
    let (flags, bandwidth, user) = (field[2], field[3] & 0x1f, field[4]);
    let width = match bandwidth {
        0 => Width::Mhz20,
        1..=3 => Width::Mhz40,
        4..=10 => Width::Mhz80,
        _ => Width::Mhz160,
    };
    Mode::vht(user >> 4, user & 0x0f, width, flags & 0x04 != 0).map_or(Phy::Unknown, Phy::Known)
}

fn he(data: [u16; 6]) -> Phy {
    let (known1, mcs) = (data[0], (data[3] >> 8) & 0x0f);
    if known1 & 0x0020 == 0 {
        return Phy::Unknown;
    }
    let mhz = match data[4] & 0x0f {
        0 => 20,
        1 => 40,
        2 => 80,
        3 => 160,
        // Resource units of 26, 52, 106, 242, 484, 996 and twice 996 tones.
        4 => 2,
        5 => 4,
        6 => 8,
        7 => 20,
        8 => 40,
        9 => 80,
        _ => 160,
    };
    let guard_ns = match (data[4] >> 4) & 0x03 {
        0 => 800,
        1 => 1600,
        _ => 3200,
    };
    let streams = u8::try_from(data[5] & 0x0f).unwrap_or(1).max(1);
    Phy::He { mcs: u8::try_from(mcs).unwrap_or(0), streams, mhz, guard_ns }
}
