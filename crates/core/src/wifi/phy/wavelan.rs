//! WaveLAN: the radio LAN of NCR and AT&T before IEEE 802.11, 2 Mbit/s, with the known facts of its
//! medium access.
//!
//! It is an Ethernet controller (Intel 82586, in the PCMCIA card 82593) on a radio modem. Frames
//! are Ethernet's; the modem puts a preamble and a network number ahead of them. A radio that finds
//! the medium busy defers and waits a random number of slots. Their range doubles each time the
//! medium is busy again. There is no collision detection, no acknowledgement and no retransmission:
//! a frame that collides or has a bit error is gone.
//!
//! | what | value | source |
//! |---|---|---|
//! | rate | 2 Mbit/s, DSSS in the 915 MHz or 2.4 GHz band | Kunz; FreeBSD wl(4) |
//! | interframe space | 60 us after the end of a transmission | Kunz |
//! | slot | 23 us | Kunz |
//! | first range, found busy | 0 to 31 slots | Kunz; the Linux driver of the PCMCIA card: exponential priority 5, that is 2^5 |
//! | growth | doubled when found busy again, to 0 to 255 | Kunz |
//! | range after an own frame, if more wait | 0 to 15 slots | Kunz |
//! | attempts | the frame is dropped after 15 | Kunz; the same driver: 15 |
//! | least frame | 64 bytes with FCS, as Ethernet | the same driver |
//! | shortest slot and space that the controller counts itself | 16 us each (32 bit times) | the same driver |
//! | acknowledgement | none | INFERENCE from the Ethernet controller; the study of Efficient Fast Retransmit says a frame is simply lost |
//! | preamble and network number of the modem | 96 us ([`WavelanConfig::preamble`]) | INFERENCE |
//! | backoff while others transmit | runs on, then looks again ([`Backoff::Resense`]) | Kunz's words; a frozen one is kept to compare |
//! | a frame that comes within the interframe space | waits for its end, without backoff | INFERENCE: the medium is free |
//! | a frame that follows one of the radio's own, found busy again | 0 to 31 slots, as any that finds the medium busy first | INFERENCE: twice 0 to 15 |
//! | dropped at the 15th time that it finds the medium busy | | INFERENCE: whether the first counts is not said |
//!
//! Kunz: T. Kunz, Wireless LANs, lecture SCE 536/581, Carleton University, "WaveLAN MAC Protocol"
//! (WaveLAN version 1). The Linux driver: `wavelan_cs`, `wv_82593_config`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::checked;
use crate::range::within;
use crate::units::Span;

/// Headers of an Ethernet frame: addresses and type.
pub const ETHERNET_HEADER_BYTES: u32 = 14;
/// Shortest Ethernet frame, FCS included.
pub const ETHERNET_MIN_BYTES: u32 = 64;

/// Behaviour of a backoff while another radio transmits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// It continues. At its end the radio senses the medium. If the medium is busy, that was an
    /// attempt. A new backoff from a doubled range begins after the end of the transmission and
    /// the interframe space.
    Resense,
    /// It stops, and continues after the interframe space, as in 802.11. The medium is then never
    /// found busy, so ranges do not grow and no frame is dropped.
    Freeze,
}

/// Medium access of WaveLAN. See the module for the sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "WavelanConfig")]
pub struct WavelanConfig {
    /// Backoff slot. 23 us (Kunz).
    pub slot: Span,
    /// Time from the end of a transmission until the next one, or a backoff, may begin. 60 us
    /// (Kunz).
    pub interframe_space: Span,
    /// Duration of training and network number ahead of the Ethernet frame. Not published. 96 us:
    /// the duration of 802.11b's short preamble with the same modulation, DQPSK over an 11-chip
    /// code at 1 Mbaud (IEEE 802.11-2020 16.2.2.3). An assumption (INFERENCE): vary it.
    pub preamble: Span,
    /// Largest backoff, in slots, of a frame that finds the medium busy. 31 (Kunz; driver).
    #[schemars(range(max = 32767))]
    pub cw_min: u32,
    /// Largest backoff after doubling. 255 (Kunz).
    #[schemars(range(max = 32767))]
    pub cw_max: u32,
    /// Largest backoff after a frame of the radio's own, if another one waits. 15 (Kunz).
    #[schemars(range(max = 32767))]
    pub cw_next: u32,
    /// Times that a frame finds the medium busy before it is dropped. 15 (Kunz; driver). 0: never.
    pub attempts: u8,
    /// State of a backoff while another radio transmits. `"resense"` (Kunz).
    pub backoff: Backoff,
}

impl Default for WavelanConfig {
    fn default() -> Self {
        WavelanConfig {
            slot: Span::from_us(23),
            interframe_space: Span::from_us(60),
            preamble: Span::from_us(96),
            cw_min: 31,
            cw_max: 255,
            cw_next: 15,
            attempts: 15,
            backoff: Backoff::Resense,
        }
    }
}

impl WavelanConfig {
    /// 2^15 - 1.
    const MAX_CW: u32 = 32_767;
    const MAX_SPAN: Span = Span::from_ms(10);

    /// Checks the values. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        for (key, span) in
            [("slot", self.slot), ("interframe_space", self.interframe_space), ("preamble", self.preamble)]
        {
            if span > Self::MAX_SPAN {
                return Err(format!("`{key}` = {span}: must be at most {}", Self::MAX_SPAN));
            }
        }
        if self.slot.is_zero() {
            return Err("`slot` = 0ns: must be above zero, such as \"23us\"".into());
        }
        for (key, cw) in [("cw_min", self.cw_min), ("cw_max", self.cw_max), ("cw_next", self.cw_next)] {
            within(key, cw, 0..=Self::MAX_CW, "")?;
        }
        for (key, cw) in [("cw_min", self.cw_min), ("cw_next", self.cw_next)] {
            if cw > self.cw_max {
                return Err(format!("`{key}` = {cw}: must be at most `cw_max` ({})", self.cw_max));
            }
        }
        Ok(())
    }
}
checked!(WavelanConfig);
