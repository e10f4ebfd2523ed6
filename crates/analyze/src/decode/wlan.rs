//! 802.11 data frames, with or without radiotap's header before them. Only what carries an IP
//! packet in the clear: no management and control frames, no A-MSDUs, no encrypted frames.

use super::Skipped;
use super::link::{be16, ether_payload, from};

/// Radiotap: bit of the field *flags* in the presence word, and in it those of a frame check
/// sequence at the end and of a frame that fails it.
const PRESENT_TSFT: u32 = 1 << 0;
const PRESENT_FLAGS: u32 = 1 << 1;
const PRESENT_MORE: u32 = 1 << 31;
const FLAG_DATA_PAD: u8 = 0x20;
const FLAG_BAD_FCS: u8 = 0x40;

/// IEEE 802.11-2020 section 9.2.4.1, frame control.
mod control {
    pub(super) const TYPE: u8 = 0x0c;
    pub(super) const TYPE_DATA: u8 = 0x08;
    pub(super) const NO_DATA: u8 = 0x40;
    pub(super) const QOS: u8 = 0x80;
    pub(super) const TO_AND_FROM_DS: u8 = 0x03;
    pub(super) const PROTECTED: u8 = 0x40;
    pub(super) const ORDER: u8 = 0x80;
}
/// In the QoS control field: the frame body is an A-MSDU.
const AMSDU: u8 = 0x80;

pub(super) fn payload_after_radiotap(frame: &[u8]) -> Result<&[u8], Skipped> {
    let le16 = |at: usize| be16(frame, at).map(u16::swap_bytes);
    let length = usize::from(le16(2)?);
    let first = u32::from(le16(4)?) | u32::from(le16(6)?) << 16;
    let mut present = first;
    let mut at = 8;
    while present & PRESENT_MORE != 0 {
        present = u32::from(le16(at)?) | u32::from(le16(at + 2)?) << 16;
        at += 4;
    }
    let mut padded = false;
    if first & PRESENT_FLAGS != 0 {
        if first & PRESENT_TSFT != 0 {
            at = at.next_multiple_of(8) + 8;
        }
        let flags = *frame.get(at).ok_or(Skipped::Cut)?;
        if flags & FLAG_BAD_FCS != 0 {
            return Err(Skipped::BadFrame);
        }
        padded = flags & FLAG_DATA_PAD != 0;
    }
    body(from(frame, length)?, padded)
}

pub(super) fn payload(frame: &[u8]) -> Result<&[u8], Skipped> {
    body(frame, false)
}

/// `padded`: the body begins at a multiple of four bytes.
fn body(frame: &[u8], padded: bool) -> Result<&[u8], Skipped> {
    let &[first, second, ..] = frame else { return Err(Skipped::Cut) };
    if first & control::TYPE != control::TYPE_DATA || first & control::NO_DATA != 0 {
        return Err(Skipped::NoIp);
    }
    if second & control::PROTECTED != 0 {
        return Err(Skipped::Encrypted);
    }
    let mut header = 24;
    if second & control::TO_AND_FROM_DS == control::TO_AND_FROM_DS {
        header += 6;
    }
    if first & control::QOS != 0 {
        if frame.get(header).ok_or(Skipped::Cut)? & AMSDU != 0 {
            return Err(Skipped::NoIp);
        }
        header += 2;
        if second & control::ORDER != 0 {
            header += 4;
        }
    }
    if padded {
        header = header.next_multiple_of(4);
    }
    // LLC and SNAP (IEEE 802.2): DSAP, SSAP, control, an organisation of zeros (or that of bridge
    // tunnelling), the Ethernet type.
    match from(frame, header)? {
        [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low, rest @ ..] => ether_payload(u16::from_be_bytes([*high, *low]), rest),
        short if short.len() < 8 => Err(Skipped::Cut),
        _ => Err(Skipped::NoIp),
    }
}
