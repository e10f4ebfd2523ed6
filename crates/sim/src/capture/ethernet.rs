//! Frames of a WaveLAN channel: its controllers send Ethernet frames, and the modem's preamble is
//! no part of them.
//!
//! Destination, source and type, the packet, padding to 60 bytes, and the FCS, whose length the
//! interface states. A frame that collided or has errors has the bytes that were sent, under an FCS
//! that is the complement of the right one. The time is that of the end of the frame. Addresses are
//! those of 802.11 captures: `02:00`, two bytes for the channel and two for the radio; an access
//! point routes, so it is itself the destination of what its stations send.

use airtcp_core::wifi::FrameRecord;

/// LINKTYPE_ETHERNET.
pub(super) const LINKTYPE: u16 = 1;
pub(super) const FCS_BYTES: u8 = 4;

const IPV4: [u8; 2] = [0x08, 0x00];
/// Shortest frame without FCS.
const LEAST_BYTES: usize = 60;

/// Appends the frame with its FCS. `write_packet` appends the whole IP packet that it carries.
pub(super) fn write_frame(
    channel: u16,
    frame: &FrameRecord,
    write_packet: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let start = out.len();
    for radio in [frame.to, frame.from] {
        out.extend_from_slice(&super::address(channel, radio.0));
    }
    out.extend_from_slice(&IPV4);
    write_packet(out);
    out.resize(out.len().max(start + LEAST_BYTES), 0);
    let fcs = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&if frame.fcs_ok { fcs } else { !fcs }.to_le_bytes());
}
