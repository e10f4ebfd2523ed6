//! 802.11 data frames, with or without the header of a card in monitor mode before them. Only what
//! carries an IP packet in the clear: no management and control frames, no A-MSDUs, no encrypted
//! frames.

use super::Skipped;
use super::link::{ether_payload, from, network_layer};
use crate::wifi::radio;

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

/// Payload behind the header of a card in monitor mode.
pub(super) fn payload(link: u16, frame: &[u8]) -> Result<&[u8], Skipped> {
    let radio = radio::parse(link, frame).ok_or(Skipped::Cut)?;
    if radio.bad_fcs {
        return Err(Skipped::BadFrame);
    }
    let inner = from(frame, radio.length)?;
    match radio.inner {
        radio::link_type::IEEE802_11 => body(inner, radio.padded),
        // PPI may stand before other links.
        other if other != link => network_layer(other, inner),
        other => Err(Skipped::LinkType(other)),
    }
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
