//! Durations on the air: slots, interframe spaces, PPDUs, responses. All durations of 802.11 are
//! here.
//!
//! [`PhyConfig`] is the configuration of a station or access point; [`Timing`] has the durations
//! that follow, computed once. All durations are the standard's (IEEE 802.11-2020):
//!
//! | what | clause |
//! |---|---|
//! | DSSS and CCK: preamble and header 192 us, or 96 us if short; then whole microseconds | 16.3 |
//! | OFDM: 20 us, then symbols of 4 us for SERVICE (16 bits), PSDU and 6 tail bits | 17.4.3 |
//! | ERP-OFDM and HT at 2.4 GHz: 6 us signal extension at the end | 18.5, 19.4.3 |
//! | HT mixed format: 32 us and 4 us per HT-LTF (1, 2, 4, 4 for 1 to 4 streams) | 19.4.3 |
//! | VHT: 36 us and 4 us per VHT-LTF (as many) | 21.4.3 |
//! | short guard interval: symbols of 3.6 us, their sum rounded up to 4 us | 19.4.3, 21.4.3 |
//! | slot, SIFS, CWmin, CWmax | 15.4, 16.3, 17.4.4, 18.5, 19.4.4, 21.4.4 |
//! | DIFS = SIFS + 2 slots, AIFS = SIFS + AIFSN slots, EIFS = SIFS + ACK + DIFS | 10.3.2.3 |
//! | ACK timeout = SIFS + slot + aRxPHYStartDelay | 10.3.2.11 |
//! | mode of a response | 10.6.6.5 |
//!
//! The caller decides on the content of a PSDU. A VHT PSDU is always an A-MPDU, so
//! [`subframe_bytes`] holds even for a single MPDU. Air propagation time is left out.
//! aRxPHYStartDelay counts as the response's preamble and header, which it covers (20 us OFDM, 192
//! or 96 us DSSS).

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::mode::{Format, Mode, Width};
use super::wavelan::{ETHERNET_HEADER_BYTES, ETHERNET_MIN_BYTES, WavelanConfig};
use crate::policy::checked;
use crate::units::{DataRate, Span};

/// MAC header of a QoS Data frame with three addresses and no HT Control field, in bytes.
pub const QOS_HEADER_BYTES: u32 = 26;
/// MAC header of a Data frame without QoS, in bytes.
pub const HEADER_BYTES: u32 = 24;
/// Frame check sequence.
pub const FCS_BYTES: u32 = 4;
/// LLC and SNAP headers before an IP packet.
pub const LLC_SNAP_BYTES: u32 = 8;
/// Frame control, duration, receiver and FCS.
pub const ACK_BYTES: u32 = 14;
/// The fields of an ACK.
pub const CTS_BYTES: u32 = 14;
/// The fields of an ACK, and the transmitter.
pub const RTS_BYTES: u32 = 20;
/// Compressed Block Ack with a bitmap of 64.
pub const BLOCK_ACK_BYTES: u32 = 32;
/// Compressed Block Ack with a bitmap for `mpdus`: 64, 256 (802.11ax) or 1024 (802.11be).
pub const fn block_ack_bytes(mpdus: usize) -> u32 {
    let longer = match mpdus {
        0..=64 => 0,
        65..=256 => 256 - 64,
        _ => 1024 - 64,
    };
    BLOCK_ACK_BYTES + longer / 8
}
/// Compressed Block Ack request.
pub const BAR_BYTES: u32 = 24;
/// MPDU delimiter of an A-MPDU subframe.
pub const DELIMITER_BYTES: u32 = 4;
/// Longest HT or VHT PPDU (aPPDUMaxTime, clauses 19.4.4 and 21.4.4).
pub const PPDU_MAX: Span = Span::from_us(5_484);

/// MPDU that carries an IP packet of `ip_bytes`: MAC header, LLC/SNAP and FCS around it.
pub const fn mpdu_bytes(ip_bytes: u32, qos: bool) -> u32 {
    Framing::dot11(qos).mpdu_bytes(ip_bytes)
}
/// A-MPDU subframe: delimiter, MPDU, padding to a multiple of 4. The last subframe of an HT A-MPDU
/// goes without padding.
pub const fn subframe_bytes(mpdu_bytes: u32) -> u32 {
    DELIMITER_BYTES + mpdu_bytes.next_multiple_of(4)
}

/// The amendment of IEEE 802.11 that a radio follows, or WaveLAN before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Standard {
    /// 802.11b: DSSS and CCK at 2.4 GHz.
    B,
    /// 802.11a: OFDM at 5 GHz.
    A,
    /// 802.11g: ERP, DSSS, CCK and OFDM at 2.4 GHz.
    G,
    /// 802.11n: HT.
    N,
    /// 802.11ac: VHT at 5 GHz.
    Ac,
    /// WaveLAN before 802.11: 2 Mbit/s DSSS, Ethernet frames, no acknowledgements; see `wavelan`.
    Wavelan,
}

impl Standard {
    /// As files write it.
    pub fn name(self) -> &'static str {
        match self {
            Standard::B => "b",
            Standard::A => "a",
            Standard::G => "g",
            Standard::N => "n",
            Standard::Ac => "ac",
            Standard::Wavelan => "wavelan",
        }
    }
    /// True if it has HT, the high throughput of 802.11n: more than one stream, wider channels, the
    /// short guard interval, QoS.
    pub const fn has_ht(self) -> bool {
        matches!(self, Standard::N | Standard::Ac)
    }
    /// True if it has VHT, the very high throughput of 802.11ac.
    pub const fn has_vht(self) -> bool {
        matches!(self, Standard::Ac)
    }
    /// True if it has A-MPDUs and the Block Ack that answers them.
    pub const fn has_ampdu(self) -> bool {
        self.has_ht()
    }
}

/// Bytes around an IP packet in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Bytes before the packet without LLC and SNAP; a receiver must get them to know the frame.
    pub header_bytes: u32,
    /// Everything but the packet.
    overhead_bytes: u32,
    least_bytes: u32,
}

impl Framing {
    /// Framing of 802.11, with or without the QoS control field.
    pub const fn dot11(qos: bool) -> Framing {
        let header_bytes = if qos { QOS_HEADER_BYTES } else { HEADER_BYTES };
        Framing { header_bytes, overhead_bytes: header_bytes + LLC_SNAP_BYTES + FCS_BYTES, least_bytes: 0 }
    }
    /// Addresses and type, FCS, and padding up to the least frame.
    pub const ETHERNET: Framing = Framing {
        header_bytes: ETHERNET_HEADER_BYTES,
        overhead_bytes: ETHERNET_HEADER_BYTES + FCS_BYTES,
        least_bytes: ETHERNET_MIN_BYTES,
    };
    /// The frame that carries an IP packet of `ip_bytes`.
    #[inline]
    pub const fn mpdu_bytes(self, ip_bytes: u32) -> u32 {
        let bytes = self.overhead_bytes + ip_bytes;
        if bytes < self.least_bytes { self.least_bytes } else { bytes }
    }
}

/// Where in the spectrum a channel lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Band {
    /// 2.4 GHz.
    #[serde(rename = "2.4GHz")]
    Ghz2,
    /// 5 GHz.
    #[serde(rename = "5GHz")]
    Ghz5,
}

/// Frames ahead of an OFDM, HT or VHT frame, in DSSS or CCK, which silence stations that know no
/// other modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// No frame goes ahead: all stations understand the modes in use.
    None,
    /// The sender reserves the medium by a CTS that it sends to itself.
    CtsToSelf,
    /// RTS and CTS go before it.
    RtsCts,
}

/// PHY configuration of a station or an access point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(rename = "PhyConfig")]
pub struct PhyConfig {
    /// The standard: its modes, and whether there are A-MPDUs.
    pub standard: Standard,
    /// "2.4GHz" or "5GHz". Left out: 2.4 GHz for b and g, 5 GHz for a, n and ac. Only n may choose.
    pub band: Option<Band>,
    /// Channel width in MHz: 20; with n also 40; with ac also 40, 80 and 160. Narrower modes stay
    /// available.
    pub width_mhz: u16,
    /// Guard interval of 400 ns beside that of 800 ns (n and ac).
    pub short_guard_interval: bool,
    /// Most spatial streams, 1 to 4 (n and ac).
    #[schemars(range(min = 1, max = 4))]
    pub streams: u8,
    /// Short DSSS preamble for 2, 5.5 and 11 Mbit/s (2.4 GHz). 1 Mbit/s always has the long one.
    pub short_preamble: bool,
    /// Slot of 9 us in g and in n at 2.4 GHz. An access point turns it off (20 us) when an 802.11b
    /// station has joined. b always has 20 us, 5 GHz 9 us.
    pub short_slot: bool,
    /// Keep 802.11b stations out: the basic rates are OFDM's only (g, and n at 2.4 GHz).
    pub g_only: bool,
    /// For 802.11b stations near g, or n at 2.4 GHz.
    pub protection: Protection,
    /// Rate of protection frames, of DSSS or CCK. Left out: the highest basic rate of that kind.
    pub protection_rate: Option<DataRate>,
    /// Basic rate set: the rates that every station of the cell can receive, which responses use.
    /// Default: the mandatory rates. These are 1, 2, 5.5, 11 Mbit/s (b), 6, 12, 24 Mbit/s (5
    /// GHz, `g_only`), or both (g, and n at 2.4 GHz).
    pub basic_rates: Option<Vec<DataRate>>,
    /// Medium access of `standard` = "wavelan"; left out: as published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wavelan: Option<WavelanConfig>,
}

impl Default for PhyConfig {
    fn default() -> Self {
        PhyConfig {
            standard: Standard::N,
            band: None,
            width_mhz: 20,
            short_guard_interval: false,
            streams: 1,
            short_preamble: false,
            short_slot: true,
            g_only: false,
            protection: Protection::None,
            protection_rate: None,
            basic_rates: None,
            wavelan: None,
        }
    }
}

fn quote_rates(modes: &[Mode]) -> String {
    modes.iter().map(|m| format!("\"{}\"", m.rate())).collect::<Vec<_>>().join(", ")
}

impl PhyConfig {
    /// The defaults of that standard.
    pub fn of(standard: Standard) -> PhyConfig {
        PhyConfig { standard, ..PhyConfig::default() }
    }

    /// Checks that the values go together. The error names the key, the value and what is accepted.
    pub fn check(&self) -> Result<(), String> {
        let standard = self.standard.name();
        let legacy = !self.standard.has_ht();
        if self.standard == Standard::Wavelan {
            self.check_wavelan()?;
        } else if self.wavelan.is_some() {
            return Err(format!("`wavelan`: only with `standard` = \"wavelan\", not \"{standard}\""));
        }
        match (self.standard, self.band) {
            (Standard::B | Standard::G | Standard::Wavelan, Some(Band::Ghz5)) => {
                return Err(format!("`band` = \"5GHz\": `standard` = \"{standard}\" works at \"2.4GHz\" only"));
            }
            (Standard::A | Standard::Ac, Some(Band::Ghz2)) => {
                return Err(format!("`band` = \"2.4GHz\": `standard` = \"{standard}\" works at \"5GHz\" only"));
            }
            _ => {}
        }
        let widths: &[u16] = match self.standard {
            Standard::N => &[20, 40],
            Standard::Ac => &[20, 40, 80, 160],
            _ => &[20],
        };
        if !widths.contains(&self.width_mhz) {
            let widths = widths.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!("`width_mhz` = {}: `standard` = \"{standard}\" has {widths}", self.width_mhz));
        }
        if self.short_guard_interval && legacy {
            return Err(format!(
                "`short_guard_interval` = true: needs `standard` = \"n\" or \"ac\", not \"{standard}\""
            ));
        }
        if !(1..=4).contains(&self.streams) {
            return Err(format!("`streams` = {}: must be 1 to 4", self.streams));
        }
        if self.streams > 1 && legacy {
            return Err(format!("`streams` = {}: `standard` = \"{standard}\" has 1 only", self.streams));
        }
        let low_band = self.band() == Band::Ghz2;
        let is_dsss_only = matches!(self.standard, Standard::B | Standard::Wavelan);
        if self.short_preamble && !low_band {
            return Err("`short_preamble` = true: only at 2.4 GHz; leave it out or say false".into());
        }
        if !self.short_slot && !low_band {
            return Err("`short_slot` = false: at 5 GHz the slot is always 9us; leave it out or say true".into());
        }
        if self.g_only && (!low_band || is_dsss_only) {
            return Err("`g_only` = true: only for `standard` = \"g\", or \"n\" at 2.4 GHz".into());
        }
        if self.protection != Protection::None && (!low_band || is_dsss_only) {
            let value = if self.protection == Protection::CtsToSelf { "cts_to_self" } else { "rts_cts" };
            return Err(format!(
                "`protection` = \"{value}\": must be \"none\" except for `standard` = \"g\", or \"n\" at 2.4 GHz"
            ));
        }
        if let Some(rate) = self.protection_rate {
            if !Mode::legacy(rate).is_some_and(Mode::is_dsss) {
                return Err(format!("`protection_rate` = \"{rate}\": must be one of {}", quote_rates(&Mode::DSSS)));
            }
        }
        if let Some(rates) = &self.basic_rates {
            let known = self.legacy_modes();
            if rates.is_empty() {
                return Err(format!(
                    "`basic_rates` = []: needs at least one of {}; leave it out for the mandatory rates",
                    quote_rates(&known)
                ));
            }
            if let Some(rate) = rates.iter().find(|&&r| !known.iter().any(|m| m.rate() == r)) {
                return Err(format!("`basic_rates` has \"{rate}\": must be among {}", quote_rates(&known)));
            }
        }
        Ok(())
    }

    /// Refuses settings that 802.11 has and WaveLAN does not have.
    fn check_wavelan(&self) -> Result<(), String> {
        let only = "`standard` = \"wavelan\" has one rate, and";
        if self.short_preamble {
            return Err(format!("`short_preamble` = true: {only} its preamble is `wavelan.preamble`"));
        }
        if !self.short_slot {
            return Err(format!("`short_slot` = false: {only} its slot is `wavelan.slot`"));
        }
        if self.basic_rates.is_some() {
            return Err(format!("`basic_rates`: {only} no responses; leave it out"));
        }
        if self.protection_rate.is_some() {
            return Err(format!("`protection_rate`: {only} no protection; leave it out"));
        }
        Ok(())
    }

    /// The medium access of WaveLAN; `None` for 802.11.
    pub fn wavelan(&self) -> Option<WavelanConfig> {
        (self.standard == Standard::Wavelan).then(|| self.wavelan.clone().unwrap_or_default())
    }

    /// The frames around packets.
    pub fn framing(&self, qos: bool) -> Framing {
        if self.standard == Standard::Wavelan { Framing::ETHERNET } else { Framing::dot11(qos) }
    }

    /// The band in use.
    pub fn band(&self) -> Band {
        self.band.unwrap_or(match self.standard {
            Standard::B | Standard::G | Standard::Wavelan => Band::Ghz2,
            Standard::A | Standard::N | Standard::Ac => Band::Ghz5,
        })
    }
    /// The widest channel in use.
    pub fn width(&self) -> Width {
        Width::from_mhz(self.width_mhz).unwrap_or(Width::Mhz20)
    }

    /// The modes that are neither HT nor VHT, slowest first within DSSS and within OFDM.
    pub fn legacy_modes(&self) -> Vec<Mode> {
        if self.standard == Standard::Wavelan {
            return vec![Mode::DSSS[1]];
        }
        let dsss = self.band() == Band::Ghz2 && !(self.g_only && self.standard != Standard::B);
        let ofdm = self.standard != Standard::B;
        let mut modes = Vec::new();
        if dsss {
            modes.extend(Mode::DSSS);
        }
        if ofdm {
            modes.extend(Mode::OFDM);
        }
        modes
    }

    /// All that rate control may pick, sorted by streams, then rate (then width and guard
    /// interval): for b, a and g their rates; for n and ac the HT or VHT modes up to the
    /// configured streams and width with either guard interval, as far as allowed. HT stations
    /// falling back to non-HT rates are left out.
    pub fn modes(&self) -> Vec<Mode> {
        let mut modes: Vec<Mode> = if self.standard.has_ht() {
            let format = if self.standard.has_vht() { Format::Vht } else { Format::Ht };
            let is_available = |m: &Mode| {
                m.format() == format
                    && m.streams() <= self.streams
                    && m.width() <= self.width()
                    && (self.short_guard_interval || !m.is_short_gi())
            };
            Mode::all().filter(is_available).collect()
        } else {
            self.legacy_modes()
        };
        modes.sort_by_key(|m| (m.streams(), m.rate(), m.index()));
        modes
    }

    /// True if a radio with this PHY can send and receive in `mode`. Later standards know the
    /// formats of the earlier ones in their band.
    pub fn supports(&self, mode: Mode) -> bool {
        let is_within = mode.streams() <= self.streams
            && mode.width() <= self.width()
            && (self.short_guard_interval || !mode.is_short_gi());
        match mode.format() {
            Format::Dsss | Format::Ofdm => self.legacy_modes().contains(&mode),
            Format::Ht => self.standard.has_ht() && is_within,
            Format::Vht => self.standard.has_vht() && is_within,
        }
    }

    /// All that rate control may pick towards a radio with the PHY `peer`, sorted as
    /// [`Self::modes`] are: of the modes of the earlier standard of the two those that both
    /// support. Empty if they share none.
    pub fn modes_with(&self, peer: &PhyConfig) -> Vec<Mode> {
        if (self.standard == Standard::Wavelan) != (peer.standard == Standard::Wavelan) {
            return Vec::new();
        }
        let earlier = self.earlier_of(peer);
        earlier.modes().into_iter().filter(|&m| self.supports(m) && peer.supports(m)).collect()
    }

    /// The one of the two that has the earlier standard, b before a and g before n before ac.
    pub fn earlier_of<'a>(&'a self, peer: &'a PhyConfig) -> &'a PhyConfig {
        let rank = |phy: &PhyConfig| match phy.standard {
            Standard::B => 0,
            Standard::A | Standard::G => 1,
            Standard::N => 2,
            Standard::Ac => 3,
            Standard::Wavelan => 4,
        };
        if rank(peer) < rank(self) { peer } else { self }
    }

    /// The HT or VHT mode of that MCS at the configured width and guard interval; for ac with the
    /// configured streams, for n the MCS says them. `None`: the PHY has no such mode.
    pub fn mode_of_mcs(&self, mcs: u8) -> Option<Mode> {
        match self.standard {
            Standard::N => {
                Mode::ht(mcs, self.width(), self.short_guard_interval).filter(|m| m.streams() <= self.streams)
            }
            Standard::Ac => Mode::vht(mcs, self.streams, self.width(), self.short_guard_interval),
            Standard::B | Standard::A | Standard::G | Standard::Wavelan => None,
        }
    }

    /// The basic rates as modes, slowest first.
    pub fn basic_modes(&self) -> Vec<Mode> {
        let known = self.legacy_modes();
        let is_basic = |m: &Mode| match &self.basic_rates {
            Some(rates) => rates.contains(&m.rate()),
            None => is_mandatory(*m),
        };
        let mut basic: Vec<Mode> = known.into_iter().filter(is_basic).collect();
        basic.sort_by_key(|m| m.rate());
        basic
    }

    /// Durations that follow from this PHY.
    pub fn timing(&self) -> Timing {
        Timing::new(self)
    }
}
checked!(PhyConfig);

/// True if every station of the mode's PHY can receive it: DSSS and CCK (clause 16), 6, 12 and 24
/// Mbit/s of OFDM (17).
fn is_mandatory(mode: Mode) -> bool {
    mode.is_dsss() || [0, 2, 4].iter().any(|&i| mode == Mode::OFDM[i])
}

/// Number of DSSS, CCK and OFDM modes. These are the modes of responses and the non-HT reference
/// rates.
const LEGACY: usize = 12;

/// Mode and durations of the response to a frame, stored since every exchange needs them.
#[derive(Debug, Clone, Copy)]
struct Response {
    mode: Mode,
    ack: Span,
    /// Duration of a Block Ack for 64 MPDUs at most.
    block_ack: Span,
}

/// All durations of one PHY, computed once; every method is cheap.
#[derive(Debug, Clone)]
pub struct Timing {
    /// A slot of the backoff.
    pub slot: Span,
    /// The gap within an exchange.
    pub sifs: Span,
    /// aCWmin of DCF: 31 for b, else 15.
    pub cw_min: u32,
    /// aCWmax, 1023.
    pub cw_max: u32,
    /// Preamble of DSSS and CCK at all rates but 1 Mbit/s.
    dsss_preamble: Span,
    /// Time added at the end of OFDM, HT and VHT PPDUs.
    signal_extension: Span,
    /// The rest is indexed by the (reference) mode that a response answers.
    response: [Response; LEGACY],
    rts: [Mode; LEGACY],
    protection: Protection,
    lowest_basic: Mode,
    is_dsss_only: bool,
}

impl Timing {
    /// Durations of a PHY with this configuration.
    pub fn new(config: &PhyConfig) -> Timing {
        let basic = config.basic_modes();
        let is_b = config.standard == Standard::B;
        let low_band = config.band() == Band::Ghz2;
        // Highest basic rate of the same kind (DSSS or OFDM) not above the one answered; else the
        // highest mandatory one.
        let respond = |to: Mode| {
            let fits = |m: &Mode| m.is_dsss() == to.is_dsss() && m.rate() <= to.rate();
            let mut mandatory = Mode::DSSS.into_iter().chain(Mode::OFDM).filter(|&m| is_mandatory(m));
            basic.iter().copied().rfind(fits).or_else(|| mandatory.rfind(fits)).unwrap_or(to)
        };
        let legacy: [Mode; LEGACY] =
            std::array::from_fn(|i| if i < 4 { Mode::DSSS[i] } else { Mode::OFDM[i - Mode::DSSS.len()] });
        let response = legacy.map(|to| Response { mode: respond(to), ack: Span::ZERO, block_ack: Span::ZERO });
        let protection_mode = match config.protection {
            Protection::None => None,
            _ => config
                .protection_rate
                .and_then(Mode::legacy)
                .or_else(|| basic.iter().copied().rfind(|m| m.is_dsss()))
                .or(Some(Mode::DSSS[0])),
        };
        let rts = std::array::from_fn(|i| match protection_mode {
            Some(mode) if !legacy[i].is_dsss() => mode,
            _ => response[i].mode,
        });
        let wavelan = config.wavelan();
        let dsss_preamble = match &wavelan {
            Some(w) => w.preamble,
            None if config.short_preamble => Span::from_us(96),
            None => Span::from_us(192),
        };
        let dot11 = Timing {
            slot: Span::from_us(if is_b || (low_band && !config.short_slot) { 20 } else { 9 }),
            sifs: Span::from_us(if low_band { 10 } else { 16 }),
            cw_min: if is_b { 31 } else { 15 },
            cw_max: 1023,
            dsss_preamble,
            signal_extension: Span::from_us(if low_band { 6 } else { 0 }),
            response,
            rts,
            protection: config.protection,
            lowest_basic: basic.first().copied().unwrap_or(if is_b { Mode::DSSS[0] } else { Mode::OFDM[0] }),
            is_dsss_only: is_b,
        };
        let mut timing = match wavelan {
            // The interframe space takes the place of DIFS; no frame is sent after SIFS.
            Some(w) => Timing {
                slot: w.slot,
                sifs: w.interframe_space,
                cw_min: w.cw_min,
                cw_max: w.cw_max,
                is_dsss_only: true,
                ..dot11
            },
            None => dot11,
        };
        let lasts = |mode: Mode, bytes: u32| timing.ppdu(mode, bytes);
        timing.response = timing.response.map(|Response { mode, .. }| Response {
            mode,
            ack: lasts(mode, ACK_BYTES),
            block_ack: lasts(mode, BLOCK_ACK_BYTES),
        });
        timing
    }

    /// From the start of a PPDU to its PSDU: training and headers, without SERVICE.
    #[inline]
    pub fn preamble(&self, mode: Mode) -> Span {
        // Long training fields for 1 to 4 streams.
        const LTF_US: [u64; 4] = [4, 8, 16, 16];
        Span::from_us(match mode.format() {
            Format::Dsss if mode != Mode::DSSS[0] => return self.dsss_preamble,
            Format::Dsss => 192,
            Format::Ofdm => 20,
            Format::Ht => 32 + LTF_US[mode.streams() as usize - 1],
            Format::Vht => 36 + LTF_US[mode.streams() as usize - 1],
        })
    }

    /// Duration of a whole PPDU. With `psdu_bytes` = 0 the least a PPDU can take.
    #[inline]
    pub fn ppdu(&self, mode: Mode, psdu_bytes: u32) -> Span {
        let bits = 8 * u64::from(psdu_bytes);
        let preamble = self.preamble(mode);
        if mode.is_dsss() {
            return preamble + Span::from_us((bits * 1_000_000).div_ceil(mode.rate().as_bps()));
        }
        let symbols = (bits + 16 + 6 * u64::from(mode.encoders())).div_ceil(u64::from(mode.bits_per_symbol()));
        preamble + Span::from_ns((symbols * mode.symbol().as_ns()).next_multiple_of(4_000)) + self.signal_extension
    }

    /// The largest PSDU whose [`Timing::ppdu`] does not exceed `time`; 0 if there is none. Bounds
    /// of the format ([`Mode::max_psdu_bytes`], [`PPDU_MAX`]) are the caller's.
    #[inline]
    pub fn psdu_bytes_within(&self, mode: Mode, time: Span) -> u32 {
        let bytes = if mode.is_dsss() {
            let us = time.saturating_sub(self.preamble(mode)).as_ns() / 1_000;
            us.saturating_mul(mode.rate().as_bps()) / 8_000_000
        } else {
            let ns = time.saturating_sub(self.preamble(mode) + self.signal_extension).as_ns();
            let symbols = (ns - ns % 4_000) / mode.symbol().as_ns();
            let bits = symbols.saturating_mul(u64::from(mode.bits_per_symbol()));
            bits.saturating_sub(16 + 6 * u64::from(mode.encoders())) / 8
        };
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Mode of a control response (ACK, Block Ack, CTS) to a frame in `data`. It is the highest
    /// basic rate of the same kind (DSSS or OFDM) not above the frame's non-HT reference rate. If
    /// there is none, it is the highest such mandatory rate.
    #[inline]
    // [IEEE80211-10.6.6.5-1] [IEEE80211-10.6.6.5-2]
    pub fn response_mode(&self, data: Mode) -> Mode {
        self.response[data.reference().index()].mode
    }
    /// Mode of an RTS or a CTS-to-self ahead of a frame in `data`. It is the protection rate if
    /// protection is on and the frame needs it, else the mode of a response.
    #[inline]
    // [IEEE80211-10.6.6-1]
    pub fn rts_mode(&self, data: Mode) -> Mode {
        self.rts[data.reference().index()]
    }
    /// The ACK of a frame in this mode.
    #[inline]
    pub fn ack(&self, data: Mode) -> Span {
        self.response[data.reference().index()].ack
    }
    /// The Block Ack of an A-MPDU in this mode.
    #[inline]
    pub fn block_ack(&self, data: Mode) -> Span {
        self.response[data.reference().index()].block_ack
    }
    /// The Block Ack of so many MPDUs in this mode.
    #[inline]
    pub fn block_ack_of(&self, data: Mode, mpdus: usize) -> Span {
        match block_ack_bytes(mpdus) {
            BLOCK_ACK_BYTES => self.block_ack(data),
            longer => self.ppdu(self.response_mode(data), longer),
        }
    }
    /// A Block Ack request for frames in `data`, sent as a response to them would be.
    #[inline]
    pub fn bar(&self, data: Mode) -> Span {
        self.ppdu(self.response_mode(data), BAR_BYTES)
    }
    /// The RTS before a frame in this mode.
    #[inline]
    pub fn rts(&self, data: Mode) -> Span {
        self.ppdu(self.rts_mode(data), RTS_BYTES)
    }
    /// The CTS that answers the RTS of [`Timing::rts`].
    #[inline]
    pub fn cts(&self, data: Mode) -> Span {
        self.ppdu(self.response_mode(self.rts_mode(data)), CTS_BYTES)
    }
    /// The CTS to itself before a frame in this mode.
    #[inline]
    pub fn cts_to_self(&self, data: Mode) -> Span {
        self.ppdu(self.rts_mode(data), CTS_BYTES)
    }
    /// Protection that the frame needs: that of the configuration for OFDM, HT and VHT, none for
    /// DSSS and CCK.
    #[inline]
    // [IEEE80211-10.27-1]
    pub fn protection(&self, data: Mode) -> Protection {
        if data.is_dsss() { Protection::None } else { self.protection }
    }
    /// From the start of the protection exchange to the start of the frame in `data`: CTS and SIFS,
    /// or RTS, SIFS, CTS and SIFS; 0 without protection.
    #[inline]
    pub fn protection_time(&self, data: Mode) -> Span {
        match self.protection(data) {
            Protection::None => Span::ZERO,
            Protection::CtsToSelf => self.cts_to_self(data) + self.sifs,
            Protection::RtsCts => self.rts(data) + self.cts(data) + self.sifs * 2,
        }
    }

    /// The idle time before a backoff of that AIFSN.
    #[inline]
    // [IEEE80211-10.3.2.3-3]
    pub fn aifs(&self, aifsn: u32) -> Span {
        self.sifs + self.slot * u64::from(aifsn)
    }
    /// The idle time before a backoff of DCF.
    #[inline]
    // [IEEE80211-10.3.2.3-2]
    pub fn difs(&self) -> Span {
        self.aifs(2)
    }
    /// The idle time in place of DIFS after a PPDU that was not decoded; for EDCA add
    /// `aifs(aifsn)`, less `difs()`.
    #[inline]
    // [IEEE80211-10.3.2.3-4]
    pub fn eifs(&self) -> Span {
        self.sifs + self.ppdu(self.lowest_basic, ACK_BYTES) + self.difs()
    }
    /// Time from the end of a frame in `data` until its sender knows that no response has begun.
    #[inline]
    // [IEEE80211-10.3.2.11-2]
    pub fn ack_timeout(&self, data: Mode) -> Span {
        self.sifs + self.slot + self.preamble(self.response_mode(data))
    }
    /// As [`Timing::ack_timeout`], for the CTS that answers an RTS ahead of a frame in `data`.
    #[inline]
    // [IEEE80211-10.3.2.9-3]
    pub fn cts_timeout(&self, data: Mode) -> Span {
        self.ack_timeout(self.rts_mode(data))
    }
}

/// Parameters of one access category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdcaParams {
    /// Slots after SIFS before the backoff goes on.
    pub aifsn: u32,
    /// Contention window of the first try, slots.
    pub cw_min: u32,
    /// Largest contention window, slots.
    pub cw_max: u32,
    /// Longest time to hold the medium; zero: one frame exchange.
    pub txop: Span,
}

/// EDCA parameters in the order background, best effort, video, voice: for stations those of IEEE
/// 802.11-2012 Table 8-105, for an access point those of the WMM specification (smaller CWmax for
/// best effort, AIFSN 1 for video and voice). Access points of the 802.11n years announce these;
/// later editions raise the TXOP limits.
// [IEEE80211-10.23.2.2-2]
pub fn edca_defaults(timing: &Timing, is_ap: bool) -> [EdcaParams; 4] {
    let (cw, cw_max) = (timing.cw_min + 1, timing.cw_max);
    let (video_us, voice_us) = if timing.is_dsss_only { (6_016, 3_264) } else { (3_008, 1_504) };
    let ac = |aifsn, cw_min, cw_max, txop_us| EdcaParams { aifsn, cw_min, cw_max, txop: Span::from_us(txop_us) };
    let short = if is_ap { 1 } else { 2 };
    [
        ac(7, cw - 1, cw_max, 0),
        ac(3, cw - 1, if is_ap { 4 * cw - 1 } else { cw_max }, 0),
        ac(short, cw / 2 - 1, cw - 1, video_us),
        ac(short, cw / 4 - 1, cw / 2 - 1, voice_us),
    ]
}
