//! Frames of a wireless channel as a card in monitor mode hands them over: a radiotap header, the
//! 802.11 frame, its FCS.
//!
//! Radiotap fields are those of radiotap.org. Where they cannot say what is meant:
//! - There is no TSFT, which stands for the first bit of an MPDU. The field "timestamp" has the end
//!   of the PPDU in microseconds, pcapng's own timestamp the same to the nanosecond.
//! - The antenna signal is the SNR above a noise of -94 dBm: thermal noise in 20 MHz and a noise
//!   figure of 7 dB, whatever the scenario's. Without an SNR both fields are left out.
//! - The channel's frequency follows from its name where that is a channel number of the band; else
//!   it is channel 6 or 36.
//! - Corrupt frames have the bytes that were sent, under an FCS that is the complement of the right
//!   one, and the flag for it.
//!
//! Addresses are `02:00` (locally administered), two bytes for the channel and two for the radio.
//! An access point routes, so it is itself the destination of what its stations send, and the
//! source of what they get. Broadcasts have the broadcast address.

use std::collections::BTreeMap;

use airtcp_core::convert::{count16, saturate16};
use airtcp_core::packet::Packet;
use airtcp_core::wifi::phy::{Band, Format, Width};
use airtcp_core::wifi::{Ac, FrameKind, FrameRecord, RadioId};

use crate::spec::ChannelSpec;

/// LINKTYPE_IEEE802_11_RADIOTAP.
pub(super) const LINKTYPE: u16 = 127;

/// A captured channel.
#[derive(Debug)]
pub(super) struct Monitor {
    pub interface: u32,
    pub channel: u16,
    /// Its frames are those of Ethernet: WaveLAN.
    pub is_ethernet: bool,
    mhz: u16,
    channel_flags: u16,
    /// By radio.
    is_access_point: Vec<bool>,
    has_qos: Vec<bool>,
    /// Packets in data frames, by sender, receiver, access category and sequence number. A copy
    /// that is sent after one has arrived does not name its packet.
    sent: BTreeMap<(RadioId, RadioId, Ac, u16), Packet>,
}

mod field {
    pub(crate) const FLAGS: u32 = 1 << 1;
    pub(crate) const RATE: u32 = 1 << 2;
    pub(crate) const CHANNEL: u32 = 1 << 3;
    pub(crate) const SIGNAL: u32 = 1 << 5;
    pub(crate) const NOISE: u32 = 1 << 6;
    pub(crate) const MCS: u32 = 1 << 19;
    pub(crate) const AMPDU: u32 = 1 << 20;
    pub(crate) const VHT: u32 = 1 << 21;
    pub(crate) const TIMESTAMP: u32 = 1 << 22;
}

const NOISE_DBM: i8 = -94;
const FCS_AT_END: u8 = 0x10;
const BAD_FCS: u8 = 0x40;
const CCK: u16 = 0x0020;
const OFDM: u16 = 0x0040;
const GHZ_2: u16 = 0x0080;
const GHZ_5: u16 = 0x0100;
/// Both DSSS and OFDM.
const DYNAMIC: u16 = 0x0400;

/// LLC and SNAP header of an IPv4 packet (RFC 1042).
const LLC_SNAP_IPV4: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];

impl Monitor {
    pub(crate) fn new(index: u32, interface: u32, spec: &ChannelSpec, is_ethernet: bool) -> Monitor {
        let band = spec.radios.first().map_or(Band::Ghz5, |r| r.config.phy.band());
        let mut is_access_point = vec![false; spec.radios.len()];
        for pair in &spec.pairs {
            if let Some(is) = is_access_point.get_mut(pair.access_point.index()) {
                *is = true;
            }
        }
        Monitor {
            interface,
            channel: saturate16(index.into()),
            is_ethernet,
            mhz: frequency_mhz(&spec.name, band),
            channel_flags: match band {
                Band::Ghz2 => GHZ_2,
                Band::Ghz5 => GHZ_5,
            },
            is_access_point,
            has_qos: spec.radios.iter().map(|r| r.config.has_qos()).collect(),
            sent: BTreeMap::new(),
        }
    }

    /// The packet that a frame carries; `None` for control frames.
    ///
    /// # Errors
    /// Radios that the channel does not have, or a data frame that was never seen with its packet.
    pub(crate) fn packet(&mut self, frame: &FrameRecord) -> Result<Option<Packet>, String> {
        let radios = self.has_qos.len();
        if frame.from.max(frame.to).index() >= radios {
            let (from, to) = (frame.from.0, frame.to.0);
            return Err(format!("a frame from radio {from} to {to} of a channel with {radios} radios"));
        }
        if frame.kind != FrameKind::Data {
            return Ok(None);
        }
        let key = (frame.from, frame.to, frame.ac, frame.sn);
        if let Some(packet) = frame.packet {
            self.sent.insert(key, packet);
        }
        match self.sent.get(&key) {
            Some(packet) => Ok(Some(*packet)),
            None => Err(format!("a copy of a data frame ({key:?}) that was not captured before")),
        }
    }

    /// Appends the radiotap header.
    pub(crate) fn write_radiotap(&self, frame: &FrameRecord, out: &mut Vec<u8>) {
        let start = out.len();
        let mode = frame.mode;
        let has_snr = frame.snr_db.is_finite();
        let mut present = field::FLAGS | field::CHANNEL | field::TIMESTAMP;
        present |= match mode.format() {
            Format::Dsss | Format::Ofdm => field::RATE,
            Format::Ht => field::MCS,
            Format::Vht => field::VHT,
        };
        if has_snr {
            present |= field::SIGNAL | field::NOISE;
        }
        if frame.ampdu.is_some() {
            present |= field::AMPDU;
        }
        out.extend_from_slice(&[0, 0, 0, 0]); // version, padding, the length, set at the end
        out.extend_from_slice(&present.to_le_bytes());
        out.push(FCS_AT_END | if frame.fcs_ok { 0 } else { BAD_FCS });
        if present & field::RATE != 0 {
            out.push(u8::try_from(mode.rate().as_bps() / 500_000).unwrap_or(u8::MAX));
        }
        align(out, start, 2);
        out.extend_from_slice(&self.mhz.to_le_bytes());
        let modulation = match mode.format() {
            Format::Dsss => CCK,
            Format::Ofdm => OFDM,
            Format::Ht | Format::Vht if self.channel_flags == GHZ_2 => DYNAMIC,
            Format::Ht | Format::Vht => OFDM,
        };
        out.extend_from_slice(&(self.channel_flags | modulation).to_le_bytes());
        if has_snr {
            let signal = (f32::from(NOISE_DBM) + frame.snr_db).round();
            #[expect(clippy::cast_possible_truncation, reason = "whole, and within bounds")]
            let signal = signal.clamp(-128.0, 127.0) as i8;
            out.extend_from_slice(&signal.to_le_bytes());
            out.extend_from_slice(&NOISE_DBM.to_le_bytes());
        }
        if mode.format() == Format::Ht {
            // Bandwidth, MCS and guard interval; mixed format, BCC, neither STBC nor extension
            // streams.
            let known = 0x01 | 0x02 | 0x04 | 0x08 | 0x10 | 0x20 | 0x40;
            let mut flags = if mode.width() == Width::Mhz40 { 1 } else { 0 };
            flags |= if mode.is_short_gi() { 0x04 } else { 0 };
            out.extend_from_slice(&[known, flags, mode.mcs().unwrap_or(0)]);
        }
        if let Some(number) = frame.ampdu {
            align(out, start, 4);
            out.extend_from_slice(&number.to_le_bytes());
            let (last_is_known, is_last) = (0x0004u16, 0x0008);
            let flags = last_is_known | if frame.is_last_of_ampdu { is_last } else { 0 };
            out.extend_from_slice(&flags.to_le_bytes());
            out.extend_from_slice(&[0, 0]); // delimiter CRC: not known
        }
        if mode.format() == Format::Vht {
            align(out, start, 2);
            let (guard, bandwidth) = (0x0004u16, 0x0040);
            out.extend_from_slice(&(guard | bandwidth).to_le_bytes());
            out.push(if mode.is_short_gi() { 0x04 } else { 0 });
            out.push(match mode.width() {
                Width::Mhz20 => 0,
                Width::Mhz40 => 1,
                Width::Mhz80 => 4,
                Width::Mhz160 => 11,
            });
            out.extend_from_slice(&[mode.mcs().unwrap_or(0) << 4 | mode.streams(), 0, 0, 0]);
            out.extend_from_slice(&[0, 0, 0, 0]); // coding, group, partial AID
        }
        align(out, start, 8);
        out.extend_from_slice(&(frame.time.as_ns() / 1000).to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes()); // accuracy: not stated
        let (microseconds, end_of_ppdu) = (0x01, 0x20);
        out.push(microseconds | end_of_ppdu);
        out.push(0);
        let length = count16(out.len() - start);
        out[start + 2..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// Appends the frame up to its FCS. `write_packet` appends the whole IP packet that a data
    /// frame carries.
    pub(crate) fn write_frame(&self, frame: &FrameRecord, write_packet: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        let start = out.len();
        let from = self.address(frame.from);
        // A radio that sends data to itself sends it to all its stations.
        let is_group = frame.kind == FrameKind::Data && frame.to == frame.from;
        let to = if is_group { [0xff; 6] } else { self.address(frame.to) };
        let tid = tid(frame.ac);
        // Frame control: type and subtype.
        let kind = match frame.kind {
            FrameKind::Data if self.is_qos(frame) => 0x88,
            FrameKind::Data => 0x08,
            FrameKind::BlockAckRequest => 0x84,
            FrameKind::BlockAck => 0x94,
            FrameKind::Rts => 0xb4,
            FrameKind::Cts => 0xc4,
            FrameKind::Ack => 0xd4,
        };
        let (to_ds, from_ds, retry) = (0x01, 0x02, 0x08);
        let mut flags = 0;
        if frame.kind == FrameKind::Data {
            flags |= if self.is_access_point[frame.from.index()] { from_ds } else { to_ds };
        }
        if frame.retry {
            flags |= retry;
        }
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&frame.duration_us.to_le_bytes());
        out.extend_from_slice(&to);
        match frame.kind {
            FrameKind::Ack | FrameKind::Cts => {}
            FrameKind::Rts => out.extend_from_slice(&from),
            FrameKind::BlockAckRequest | FrameKind::BlockAck => {
                out.extend_from_slice(&from);
                let compressed = 0x0004u16;
                out.extend_from_slice(&(compressed | u16::from(tid) << 12).to_le_bytes());
                out.extend_from_slice(&(frame.sn << 4).to_le_bytes());
                if frame.kind == FrameKind::BlockAck {
                    out.extend_from_slice(&frame.bitmap.to_le_bytes());
                }
            }
            FrameKind::Data => {
                out.extend_from_slice(&from);
                // Address 3: the destination beyond the distribution system, or the source. Both
                // are the access point.
                out.extend_from_slice(if flags & to_ds != 0 { &to } else { &from });
                out.extend_from_slice(&(frame.sn << 4).to_le_bytes());
                if self.is_qos(frame) {
                    out.extend_from_slice(&[tid, 0]);
                }
                out.extend_from_slice(&LLC_SNAP_IPV4);
                write_packet(out);
            }
        }
        let fcs = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&if frame.fcs_ok { fcs } else { !fcs }.to_le_bytes());
    }

    fn is_qos(&self, frame: &FrameRecord) -> bool {
        self.has_qos[frame.from.index()] && self.has_qos[frame.to.index()]
    }

    fn address(&self, radio: RadioId) -> [u8; 6] {
        super::address(self.channel, radio.0)
    }
}

/// Radiotap fields lie at multiples of their size from the start of the header.
fn align(out: &mut Vec<u8>, start: usize, to: usize) {
    let length = (out.len() - start).next_multiple_of(to);
    out.resize(start + length, 0);
}

/// User priority, which is the TID, of an access category (IEEE 802.11-2020 table 10-1).
fn tid(ac: Ac) -> u8 {
    match ac {
        Ac::Bk => 1,
        Ac::Be => 0,
        Ac::Vi => 5,
        Ac::Vo => 6,
    }
}

/// Centre of the (primary) 20 MHz channel (IEEE 802.11-2020 annex E).
fn frequency_mhz(name: &str, band: Band) -> u16 {
    match (band, name.parse::<u16>()) {
        (Band::Ghz2, Ok(n @ 1..=13)) => 2407 + 5 * n,
        (Band::Ghz2, Ok(14)) => 2484,
        (Band::Ghz2, _) => 2437,
        (Band::Ghz5, Ok(n @ 36..=177)) => 5000 + 5 * n,
        (Band::Ghz5, _) => 5180,
    }
}
