//! Configuration of a radio: the transmit path of its host, aggregation, retries, and its side as a
//! recipient.
//!
//! [`RadioConfig`] is complete. [`RadioOptions`] is its form in a file: every key is optional, and
//! the keys given replace defaults.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mac::completion::TxCompletion;
use super::phy::mode::Format;
use super::phy::{Framing, PhyConfig, Standard};
use super::rate::RateConfig;
use super::reorder::ReorderConfig;
use super::retry_out::RetryOutConfig;
use super::transmit::{QdiscConfig, TransmitConfig};
use crate::policy::checked;
use crate::queue::{FifoConfig, QueueConfig};
use crate::range::within;
use crate::units::Span;

macro_rules! radio_options {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)+) => {
        /// A radio, fully determined.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub struct RadioConfig { $($(#[$doc])* pub $name: $type,)+ }

        /// The same options, each of them optional.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct RadioOptions { $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)+ }

        impl RadioOptions {
            /// `self` where it says something, `base` elsewhere.
            pub fn over(self, base: RadioOptions) -> RadioOptions {
                RadioOptions { $($name: self.$name.or(base.$name),)+ }
            }
            /// `self` where it says something, the defaults of its standard elsewhere.
            pub fn resolve(self) -> RadioConfig {
                let base = RadioConfig::of(self.phy.clone().unwrap_or_default());
                RadioConfig { $($name: self.$name.unwrap_or(base.$name),)+ }
            }
        }
    };
}

radio_options! {
    /// Standard, band, width, guard interval, streams.
    phy: PhyConfig,
    /// 802.11e: four access categories with EDCA parameters and Block Ack. Off: one queue under
    /// DCF, every frame acknowledged by itself. Default: on for n and ac, off for a, b and g.
    qos: Option<bool>,
    /// Frames are acknowledged, and sent again if no acknowledgement comes. Off: 802.11's No Ack
    /// policy for every frame (IEEE
    /// 802.11-2020 9.2.4.5.4). A frame that does not arrive is lost, and the sender's contention
    /// window stays as it is. Off is not
    /// possible with A-MPDUs, and needs a fixed rate, because rate control learns nothing. Default:
    /// on, off for `wavelan`.
    ack: Option<bool>,
    /// After a frame that it could not decode, such as a collision, the radio waits EIFS instead of
    /// DIFS (IEEE 802.11-2020
    /// 10.3.2.3.7). Off: DIFS, as analytical models assume (Bianchi 2000). Stations that have
    /// collided then have no advantage over the
    /// others. The difference is large if an ACK at the lowest basic rate is long.
    eifs: bool,
    /// Frames whose PSDU is larger than this are preceded by RTS and CTS.
    rts_threshold_bytes: u32,
    /// Rate control. Default: as in Linux, minstrel_ht for n and ac, minstrel for the others.
    rate_control: Option<RateConfig>,
    /// Aggregation into A-MPDUs; only with `qos` and standard n or ac.
    aggregation: Aggregation,
    /// Limits of retransmissions, and the reactions when they are reached.
    retries: Retries,
    /// The queues between the host and the radio.
    transmit: TransmitConfig,
    /// How late the driver reports that packets have been sent, by which TCP small queues count
    /// what waits below TCP.
    tx_completion: TxCompletion,
    /// The recipient's side of Block Ack: reorder buffer and retry-out.
    reorder_buffer: ReorderConfig,
}

impl Default for RadioConfig {
    fn default() -> RadioConfig {
        RadioConfig {
            phy: PhyConfig::default(),
            qos: None,
            ack: None,
            eifs: true,
            rts_threshold_bytes: u32::MAX,
            rate_control: None,
            aggregation: Aggregation::default(),
            retries: Retries::default(),
            transmit: TransmitConfig::default(),
            tx_completion: TxCompletion::default(),
            reorder_buffer: ReorderConfig::default(),
        }
    }
}

/// Limits of an A-MPDU. All of them bind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "Aggregation")]
pub struct Aggregation {
    /// Off: frames leave this radio one by one, each with its ACK. Frames that it receives may come
    /// in A-MPDUs all the same.
    pub enabled: bool,
    /// Most MPDUs. ath9k: 32 (`ATH_AMPDU_SUBFRAME_DEFAULT`); the Block Ack window allows 64.
    #[schemars(range(min = 1, max = 64))]
    pub max_frames: u16,
    /// Most bytes, delimiters and padding included. Default: as the standard of the A-MPDU allows,
    /// 65535 for HT and 1048575 for VHT (IEEE 802.11-2020 9.4.2.55.3, 9.4.2.157.2).
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u32>,
    /// Longest duration on the air at the slowest rate of its series. ath9k: 4 ms.
    pub max_duration: Span,
    /// Block Ack window: an MPDU is sent only within so many sequence numbers of the oldest one not
    /// yet acknowledged.
    #[schemars(range(min = 1, max = 64))]
    pub window: u16,
    /// A-MPDUs that are formed ahead and wait in the radio's hardware, the one on the air included.
    /// ath9k: 2 (`ATH_AGGR_MIN_QDEPTH`). So failed MPDUs are repeated not in the next A-MPDU
    /// but in the one after. And two A-MPDUs share the window: 64 hold two of 32. 1: a chip forms
    /// the next one when the one before is answered, so that an A-MPDU may fill the window. 0:
    /// formed at the moment of transmission, as ns-3 does. Default: 1 where the driver of
    /// `transmit` is `mt76`, whose chip forms them; 2 with other ones.
    #[schemars(range(max = 16))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formed_ahead: Option<u8>,
}

impl Default for Aggregation {
    fn default() -> Aggregation {
        Aggregation {
            enabled: true,
            max_frames: 32,
            max_bytes: None,
            max_duration: Span::from_ms(4),
            window: 64,
            formed_ahead: None,
        }
    }
}

impl Aggregation {
    fn check(&self) -> Result<(), String> {
        for (key, value) in [("max_frames", self.max_frames), ("window", self.window)] {
            within(key, value, 1..=64, "")?;
        }
        if self.max_bytes == Some(0) {
            return Err("`max_bytes` = 0: must be at least 1; one MPDU is always sent".into());
        }
        if self.max_duration.is_zero() {
            return Err("`max_duration` = 0ns: must be above zero, such as \"4ms\"".into());
        }
        within("formed_ahead", self.formed_ahead.unwrap_or_default(), 0..=16, "")
    }
    /// Most bytes of an A-MPDU in a format.
    pub fn most_bytes(&self, format: Format) -> u32 {
        self.max_bytes.unwrap_or(match format {
            Format::Vht => 1_048_575,
            _ => 65_535,
        })
    }
}
checked!(Aggregation);

/// Reaction of an originator to the hole that an MPDU leaves when it gives it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnGiveUp {
    /// Sends a Block Ack request that moves the recipient's window past it (IEEE 802.11-2020
    /// 10.25.6). It may be lost as any frame, and is then repeated up to `frame_tries` times.
    Bar,
    /// Says nothing: the recipient finds out by its own timeout, or when the window moves on.
    Silence,
}

/// Events that the retry limit under Block Ack counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryCount {
    /// Times the driver handed the MPDU to the radio again, however often the radio sent it each
    /// time (ath9k with the limit of 10).
    Handings,
    /// Transmissions of the times before: the driver gives up when as many as the limit are behind
    /// it. So does ath9k with the limit of 30; its `ath_tx_set_retry` adds the tries that the
    /// radio reports.
    Transmissions,
}

/// Reaction of an originator to an unanswered A-MPDU (IEEE 802.11-2020 10.25.6.7 allows either).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissed {
    /// Sends it again, whole, as ath9k's hardware.
    Repeat,
    /// Asks with a Block Ack request what has arrived, up to `frame_tries` times, and sends the
    /// rest again in new A-MPDUs, as ns-3.
    Bar,
}

/// Retry limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "Retries")]
pub struct Retries {
    /// Most retries of an MPDU under Block Ack before the driver gives it up. ath9k: 10
    /// (`ATH_MAX_SW_RETRIES` of about 2.6.38), 30 in later trees.
    #[schemars(range(min = 1, max = 255))]
    pub software: u8,
    /// Events that `software` counts.
    pub counts: RetryCount,
    /// Most transmissions of an unanswered PPDU under Block Ack. After them the radio hands its
    /// MPDUs back to the driver, which forms new A-MPDUs. A rate series may be shorter. ath9k:
    /// 13 (`ATH_TXMAXTRY`). 1: the driver has each back at once, as in ns-3.
    #[schemars(range(min = 1, max = 255))]
    pub hardware_tries: u8,
    /// Most tries of a frame without Block Ack, the first included (dot11ShortRetryLimit: 7).
    #[schemars(range(min = 1, max = 255))]
    pub frame_tries: u8,
    /// Lower limit for MPDUs with TCP segments, by the sender's rate: the index of `stepped` or
    /// `fixed`. Source: Nomoto, Wu, Ohzahata and Kato, ICN 2017, pages 69-74; the abstract says no
    /// more. Default: off.
    pub tcp_limit: Option<RetryOutConfig>,
    /// Reaction of the radio to an unanswered A-MPDU.
    pub on_missed: OnMissed,
    /// Reaction of the sender when it gives up an MPDU under Block Ack.
    pub on_give_up: OnGiveUp,
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            software: 30,
            counts: RetryCount::Transmissions,
            hardware_tries: 13,
            frame_tries: 7,
            tcp_limit: None,
            on_missed: OnMissed::Repeat,
            on_give_up: OnGiveUp::Bar,
        }
    }
}

impl Retries {
    fn check(&self) -> Result<(), String> {
        let limits =
            [("software", self.software), ("hardware_tries", self.hardware_tries), ("frame_tries", self.frame_tries)];
        for (key, value) in limits {
            within(key, value, 1..=255, "")?;
        }
        if let Some(RetryOutConfig::Delay(_)) = self.tcp_limit {
            return Err("`tcp_limit` = \"delay\": only a recipient measures that; \"stepped\" or \"fixed\"".into());
        }
        Ok(())
    }
}
checked!(Retries);

impl RadioConfig {
    /// The defaults with that PHY.
    pub fn of(phy: PhyConfig) -> RadioConfig {
        let base = RadioConfig::default();
        if phy.standard != Standard::Wavelan {
            return RadioConfig { phy, ..base };
        }
        // An Ethernet driver: the interface queue of 4.4BSD (IFQ_MAXLEN), and one frame in the
        // controller.
        let qdisc = QueueConfig::Fifo(FifoConfig { limit_packets: Some(50), limit_bytes: None });
        RadioConfig {
            phy,
            eifs: false,
            transmit: TransmitConfig::Qdisc(QdiscConfig { qdisc, driver_frames: 1, orphans: false }),
            ..base
        }
    }
    /// A-MPDUs that are formed ahead, the one on the air included.
    pub fn formed_ahead(&self) -> u8 {
        self.aggregation.formed_ahead.unwrap_or_else(|| self.transmit.formed_ahead())
    }
    /// True if frames are acknowledged.
    pub fn acks(&self) -> bool {
        self.ack.unwrap_or(self.phy.standard != Standard::Wavelan)
    }
    /// Header and trailer of the frames around packets.
    pub fn framing(&self) -> Framing {
        self.phy.framing(self.has_qos())
    }
    /// True if frames go out in A-MPDUs under Block Ack.
    pub fn aggregates(&self) -> bool {
        self.has_qos() && self.aggregation.enabled && self.phy.standard.has_ampdu()
    }
    /// True if it can receive A-MPDUs and answer them with a Block Ack. mac80211 accepts an
    /// agreement even if it sends no A-MPDUs itself (net/mac80211/agg-rx.c,
    /// `__ieee80211_start_rx_ba_session`).
    pub fn receives_ampdus(&self) -> bool {
        self.has_qos() && self.acks() && self.phy.standard.has_ampdu()
    }
    /// True if each frame has an access category (EDCA).
    pub fn has_qos(&self) -> bool {
        self.qos.unwrap_or(self.phy.standard.has_ht())
    }
    /// Checks that the parts go together. The error names the keys.
    pub fn check(&self) -> Result<(), String> {
        if let Some(rate_control) = &self.rate_control {
            rate_control.check(&self.phy).map_err(|e| format!("rate_control: {e}"))?;
        }
        if self.phy.standard == Standard::Wavelan {
            self.check_wavelan()?;
        }
        self.transmit.check_phy(&self.phy).map_err(|e| format!("transmit: {e}"))?;
        if self.phy.standard == Standard::Wavelan {
            return Ok(());
        }
        if !self.acks() {
            if self.aggregates() {
                return Err("ack: `false` does not go with A-MPDUs: set `aggregation = { enabled = false }` too".into());
            }
            if !matches!(self.rate_control, Some(RateConfig::Fixed(_))) {
                return Err(
                    "ack: `false` needs `rate_control` = \"fixed\": the others learn from acknowledgements".into()
                );
            }
        }
        Ok(())
    }

    /// Refuses settings that WaveLAN does not have.
    fn check_wavelan(&self) -> Result<(), String> {
        let without = "with `standard` = \"wavelan\" leave it out";
        let base = RadioConfig::of(self.phy.clone());
        if self.acks() {
            return Err(format!("ack: `true`: WaveLAN has no acknowledgements; {without}"));
        }
        if self.has_qos() {
            return Err(format!("qos: `true`: WaveLAN has one queue; {without}"));
        }
        if self.eifs {
            return Err(format!("eifs: `true`: WaveLAN has one interframe space; {without}"));
        }
        if self.rts_threshold_bytes != base.rts_threshold_bytes {
            return Err(format!("rts_threshold_bytes: WaveLAN has no RTS; {without}"));
        }
        if let Some(RateConfig::Fixed(fixed)) =
            self.rate_control.as_ref().filter(|r| **r != RateConfig::default_for(&self.phy))
        {
            if fixed.rts {
                return Err(format!("rate_control: `rts` = true: WaveLAN has no RTS; {without}"));
            }
        }
        if self.aggregation != base.aggregation {
            return Err(format!("aggregation: WaveLAN has no A-MPDUs; {without}"));
        }
        if self.retries != base.retries {
            return Err(format!("retries: WaveLAN sends nothing again; {without}"));
        }
        if self.reorder_buffer != base.reorder_buffer {
            return Err(format!("reorder_buffer: WaveLAN has no Block Ack; {without}"));
        }
        Ok(())
    }
}
