//! The table of modes: every way the payload of a PPDU can be sent.
//!
//! A mode is a format (DSSS and CCK, OFDM, HT, VHT) with a modulation, a code rate, a number of
//! spatial streams, a channel width and a guard interval. The bits per symbol follow from these; so
//! do the rates, which the table never lists:
//!
//! | format | clause of IEEE 802.11-2020 | modes | data subcarriers |
//! |---|---|---|---|
//! | DSSS, CCK | 15, 16 | 1, 2, 5.5, 11 Mbit/s | |
//! | OFDM (also ERP-OFDM) | 17, 18 | 6, 9, 12, 18, 24, 36, 48, 54 Mbit/s | 48 |
//! | HT | 19 | MCS 0 to 31, 20 and 40 MHz | 52, 108 |
//! | VHT | 21 | MCS 0 to 9, 1 to 4 streams, 20 to 160 MHz | 52, 108, 234, 468 |
//!
//! Equal modulation on all streams and binary convolutional coding are assumed throughout; HT MCS
//! 32 to 76, LDPC and STBC are left out. VHT leaves out the combinations that clause 21.5 does not
//! define.

mod names;

use std::fmt;

use names::NAMES;

use crate::convert::{count8, count16, saturate8, saturate16, saturate32};
use crate::units::{DataRate, Span};

/// The format of a PPDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Format {
    /// DSSS 1 and 2 Mbit/s, CCK 5.5 and 11 Mbit/s.
    Dsss,
    /// OFDM of 802.11a, and ERP-OFDM of 802.11g.
    Ofdm,
    /// HT, mixed format (802.11n).
    Ht,
    /// VHT, single user (802.11ac).
    Vht,
}

/// Modulation of the signal by bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Modulation {
    /// Differential BPSK, spread by the Barker sequence.
    Dbpsk,
    /// Differential QPSK, spread by the Barker sequence.
    Dqpsk,
    /// Complementary code keying, 4 bits per 8 chips.
    Cck5,
    /// Complementary code keying, 8 bits per 8 chips.
    Cck11,
    /// OFDM, one bit on a subcarrier.
    Bpsk,
    /// Two bits.
    Qpsk,
    /// Four bits.
    Qam16,
    /// Six bits.
    Qam64,
    /// Eight bits.
    Qam256,
}

impl Modulation {
    /// Coded bits per symbol, or per symbol and subcarrier.
    pub const fn bits(self) -> u32 {
        match self {
            Modulation::Dbpsk | Modulation::Bpsk => 1,
            Modulation::Dqpsk | Modulation::Qpsk => 2,
            Modulation::Cck5 | Modulation::Qam16 => 4,
            Modulation::Qam64 => 6,
            Modulation::Cck11 | Modulation::Qam256 => 8,
        }
    }
}

/// Information bits per coded bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CodeRate {
    /// DSSS and CCK.
    Uncoded,
    /// One in two.
    Half,
    /// Two in three.
    TwoThirds,
    /// Three in four.
    ThreeQuarters,
    /// Five in six.
    FiveSixths,
}

impl CodeRate {
    /// Numerator and denominator.
    pub const fn ratio(self) -> (u32, u32) {
        match self {
            CodeRate::Uncoded => (1, 1),
            CodeRate::Half => (1, 2),
            CodeRate::TwoThirds => (2, 3),
            CodeRate::ThreeQuarters => (3, 4),
            CodeRate::FiveSixths => (5, 6),
        }
    }
}

/// Width of the channel a PPDU takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Width {
    /// One channel of 20 MHz.
    Mhz20,
    /// Two.
    Mhz40,
    /// Four.
    Mhz80,
    /// Eight.
    Mhz160,
}

impl Width {
    /// The narrowest first.
    pub const ALL: [Width; 4] = [Width::Mhz20, Width::Mhz40, Width::Mhz80, Width::Mhz160];

    /// In MHz.
    pub const fn mhz(self) -> u16 {
        20 << self as u16
    }
    /// The width of `mhz`, if there is one.
    pub const fn from_mhz(mhz: u16) -> Option<Width> {
        match mhz {
            20 => Some(Width::Mhz20),
            40 => Some(Width::Mhz40),
            80 => Some(Width::Mhz80),
            160 => Some(Width::Mhz160),
            _ => None,
        }
    }
    /// Data subcarriers of HT and VHT.
    const fn subcarriers(self) -> u32 {
        match self {
            Width::Mhz20 => 52,
            Width::Mhz40 => 108,
            Width::Mhz80 => 234,
            Width::Mhz160 => 468,
        }
    }
}

/// Mode of a PPDU's payload: a row of the table, by its index. Modes of one format are ordered by
/// width, guard interval, streams, MCS or rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(u16);

const DSSS_AT: usize = 0;
const OFDM_AT: usize = 4;
const HT_AT: usize = 12;
const VHT_AT: usize = HT_AT + 2 * 2 * 32;

#[derive(Debug, Clone, Copy)]
struct Row {
    rate_bps: u32,
    /// N_DBPS.
    bits_per_symbol: u16,
    format: Format,
    modulation: Modulation,
    code_rate: CodeRate,
    width: Width,
    short_gi: bool,
    streams: u8,
    mcs: u8,
    /// N_ES.
    encoders: u8,
    /// Index of the non-HT reference mode; of the mode itself if it is not HT or VHT.
    reference: u8,
    is_defined: bool,
}

const DSSS: [(Modulation, u32); 4] = [
    (Modulation::Dbpsk, 1_000_000),
    (Modulation::Dqpsk, 2_000_000),
    (Modulation::Cck5, 5_500_000),
    (Modulation::Cck11, 11_000_000),
];

/// Table 17-4.
const OFDM: [(Modulation, CodeRate); 8] = [
    (Modulation::Bpsk, CodeRate::Half),
    (Modulation::Bpsk, CodeRate::ThreeQuarters),
    (Modulation::Qpsk, CodeRate::Half),
    (Modulation::Qpsk, CodeRate::ThreeQuarters),
    (Modulation::Qam16, CodeRate::Half),
    (Modulation::Qam16, CodeRate::ThreeQuarters),
    (Modulation::Qam64, CodeRate::TwoThirds),
    (Modulation::Qam64, CodeRate::ThreeQuarters),
];

/// Modulation, code rate and non-HT reference rate (index into [`OFDM`]) of HT MCS modulo 8 and of
/// VHT MCS (clauses 19.5 and 21.5; 10.6.11 for the reference, which is 54 Mbit/s for whatever
/// exceeds 64-QAM 3/4).
const MCS: [(Modulation, CodeRate, u8); 10] = [
    (Modulation::Bpsk, CodeRate::Half, 0),
    (Modulation::Qpsk, CodeRate::Half, 2),
    (Modulation::Qpsk, CodeRate::ThreeQuarters, 3),
    (Modulation::Qam16, CodeRate::Half, 4),
    (Modulation::Qam16, CodeRate::ThreeQuarters, 5),
    (Modulation::Qam64, CodeRate::TwoThirds, 6),
    (Modulation::Qam64, CodeRate::ThreeQuarters, 7),
    (Modulation::Qam64, CodeRate::FiveSixths, 7),
    (Modulation::Qam256, CodeRate::ThreeQuarters, 7),
    (Modulation::Qam256, CodeRate::FiveSixths, 7),
];

const fn mcs_row(format: Format, mcs: u8, streams: u8, width: Width, short_gi: bool) -> Row {
    let (modulation, code_rate, reference) =
        MCS[if matches!(format, Format::Ht) { mcs as usize % 8 } else { mcs as usize }];
    let coded = width.subcarriers() * modulation.bits() * streams as u32;
    let (num, den) = code_rate.ratio();
    let bits = coded * num / den;
    let at_short_gi = bits as u64 * 1_000_000_000 / 3600;
    let rate = if short_gi { at_short_gi } else { bits as u64 * 1_000_000_000 / 4000 };
    let (encoders, is_defined) = match format {
        // Clause 19.5: a second encoder above 300 Mbit/s, whatever the guard interval.
        Format::Ht => (if at_short_gi > 300_000_000 { 2 } else { 1 }, true),
        // Clause 21.5: one encoder per 600 Mbit/s begun; one combination takes more, for whole
        // punctured blocks.
        _ => match (width, streams, mcs) {
            (Width::Mhz20, 1 | 2 | 4, 9) | (Width::Mhz80, 3, 6) | (Width::Mhz160, 3, 9) => (1, false),
            (Width::Mhz160, 4, 7) => (6, true),
            _ => (saturate8(saturate32(at_short_gi.div_ceil(600_000_000))), true),
        },
    };
    Row {
        rate_bps: saturate32(rate),
        bits_per_symbol: saturate16(bits as u64),
        format,
        modulation,
        code_rate,
        width,
        short_gi,
        streams,
        mcs,
        encoders,
        reference: count8(OFDM_AT) + reference,
        is_defined,
    }
}

const fn rows() -> [Row; Mode::COUNT] {
    let mut rows = [mcs_row(Format::Ht, 0, 1, Width::Mhz20, false); Mode::COUNT];
    let mut i = 0;
    while i < 4 {
        let (modulation, rate_bps) = DSSS[i];
        rows[DSSS_AT + i] = Row {
            rate_bps,
            bits_per_symbol: saturate16(modulation.bits() as u64),
            format: Format::Dsss,
            modulation,
            code_rate: CodeRate::Uncoded,
            reference: count8(DSSS_AT + i),
            ..rows[0]
        };
        i += 1;
    }
    i = 0;
    while i < 8 {
        let (modulation, code_rate) = OFDM[i];
        let (num, den) = code_rate.ratio();
        let bits = 48 * modulation.bits() * num / den;
        rows[OFDM_AT + i] = Row {
            rate_bps: bits * 250_000,
            bits_per_symbol: saturate16(bits as u64),
            format: Format::Ofdm,
            modulation,
            code_rate,
            reference: count8(OFDM_AT + i),
            ..rows[HT_AT]
        };
        i += 1;
    }
    i = 0;
    while i < 8 {
        let (width, short_gi) = (Width::ALL[i / 2], i % 2 == 1);
        let mut mcs = 0;
        while i < 4 && mcs < 32 {
            rows[HT_AT + i * 32 + mcs] = mcs_row(Format::Ht, count8(mcs), count8(mcs) / 8 + 1, width, short_gi);
            mcs += 1;
        }
        let mut k = 0;
        while k < 40 {
            rows[VHT_AT + i * 40 + k] = mcs_row(Format::Vht, count8(k % 10), count8(k / 10 + 1), width, short_gi);
            k += 1;
        }
        i += 1;
    }
    rows
}

static ROWS: [Row; Mode::COUNT] = rows();

impl Mode {
    /// Size of the table: [`Mode::index`] is below it.
    pub const COUNT: usize = VHT_AT + 4 * 2 * 40;

    /// DSSS 1 Mbit/s, DSSS 2 Mbit/s, CCK 5.5 Mbit/s, CCK 11 Mbit/s.
    pub const DSSS: [Mode; 4] = [Mode(0), Mode(1), Mode(2), Mode(3)];
    /// OFDM 6, 9, 12, 18, 24, 36, 48, 54 Mbit/s.
    pub const OFDM: [Mode; 8] = [Mode(4), Mode(5), Mode(6), Mode(7), Mode(8), Mode(9), Mode(10), Mode(11)];

    const fn at(index: usize) -> Mode {
        Mode(count16(index))
    }

    /// The DSSS, CCK or OFDM mode of exactly that rate.
    pub fn legacy(rate: DataRate) -> Option<Mode> {
        Mode::DSSS.into_iter().chain(Mode::OFDM).find(|m| m.rate() == rate)
    }
    /// HT MCS 0 to 31 (the streams are `mcs / 8 + 1`) at 20 or 40 MHz.
    pub const fn ht(mcs: u8, width: Width, short_gi: bool) -> Option<Mode> {
        if mcs < 32 && width as u8 <= Width::Mhz40 as u8 {
            Some(Mode::at(HT_AT + (width as usize * 2 + short_gi as usize) * 32 + mcs as usize))
        } else {
            None
        }
    }
    /// VHT MCS 0 to 9 with 1 to 4 streams; `None` also for the combinations that the standard does
    /// not define.
    pub fn vht(mcs: u8, streams: u8, width: Width, short_gi: bool) -> Option<Mode> {
        if mcs >= 10 || !(1..=4).contains(&streams) {
            return None;
        }
        let group = (width as usize * 2 + usize::from(short_gi)) * 4 + streams as usize - 1;
        Some(Mode::at(VHT_AT + group * 10 + usize::from(mcs))).filter(|m| m.row().is_defined)
    }
    /// Every mode there is, in the order of the table.
    pub fn all() -> impl Iterator<Item = Mode> {
        (0..Mode::COUNT).map(Mode::at).filter(|m| m.row().is_defined)
    }

    #[inline]
    fn row(self) -> &'static Row {
        &ROWS[self.0 as usize]
    }
    /// Its place in the table, for tables indexed by mode.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
    /// Nominal data rate, the fraction of a bit per second cut off (72 222 222 bit/s).
    #[inline]
    pub fn rate(self) -> DataRate {
        DataRate::from_bps(u64::from(self.row().rate_bps))
    }
    /// The PHY that defines it.
    #[inline]
    pub fn format(self) -> Format {
        self.row().format
    }
    /// Information bits per symbol over all streams: N_DBPS. For DSSS a symbol is 11 chips, for CCK
    /// 8.
    #[inline]
    pub fn bits_per_symbol(self) -> u32 {
        u32::from(self.row().bits_per_symbol)
    }
    /// Duration of an OFDM symbol with its guard interval, 4000 or 3600 ns. For DSSS and CCK it
    /// does not apply: zero.
    #[inline]
    pub fn symbol(self) -> Span {
        Span::from_ns(match (self.format(), self.row().short_gi) {
            (Format::Dsss, _) => 0,
            (_, true) => 3600,
            (_, false) => 4000,
        })
    }
    /// Number of convolutional encoders, N_ES: each adds 6 tail bits.
    #[inline]
    pub fn encoders(self) -> u32 {
        u32::from(self.row().encoders)
    }
    /// Its modulation.
    #[inline]
    pub fn modulation(self) -> Modulation {
        self.row().modulation
    }
    /// Its code rate.
    #[inline]
    pub fn code_rate(self) -> CodeRate {
        self.row().code_rate
    }
    /// Spatial streams, 1 to 4.
    #[inline]
    pub fn streams(self) -> u8 {
        self.row().streams
    }
    /// Its bandwidth.
    #[inline]
    pub fn width(self) -> Width {
        self.row().width
    }
    /// True if the guard interval is 400 ns.
    #[inline]
    pub fn is_short_gi(self) -> bool {
        self.row().short_gi
    }
    /// MCS index: 0 to 31 for HT, 0 to 9 for VHT.
    #[inline]
    pub fn mcs(self) -> Option<u8> {
        self.is_ht_or_later().then(|| self.row().mcs)
    }
    /// True if the mode is one of 802.11n or ac.
    #[inline]
    pub fn is_ht_or_later(self) -> bool {
        self.format() >= Format::Ht
    }
    /// True if the mode is one of 802.11b.
    #[inline]
    pub fn is_dsss(self) -> bool {
        self.format() == Format::Dsss
    }
    /// The mode whose rate stands for this one where a non-HT rate is asked for (clause 10.6.11);
    /// itself unless HT or VHT.
    #[inline]
    // [IEEE80211-10.6.11-1]
    pub fn reference(self) -> Mode {
        Mode(u16::from(self.row().reference))
    }
    /// Most bytes a PSDU may have: aPSDUMaxLength of its clause.
    pub fn max_psdu_bytes(self) -> u32 {
        match self.format() {
            Format::Dsss | Format::Ofdm => 4095,
            Format::Ht => 65_535,
            Format::Vht => 1_048_575,
        }
    }
    /// Its name, as people write it: `11 Mbit/s`, `MCS 7 20 MHz`, `MCS 15 40 MHz SGI`, for VHT with
    /// its streams `MCS 9 2SS 80 MHz`.
    #[inline]
    pub fn name(self) -> &'static str {
        NAMES[self.index()]
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Mode({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ht(mcs: u8, width: Width, short_gi: bool) -> Mode {
        Mode::ht(mcs, width, short_gi).unwrap()
    }
    fn vht(mcs: u8, streams: u8, width: Width, short_gi: bool) -> Mode {
        Mode::vht(mcs, streams, width, short_gi).unwrap()
    }

    // [IEEE80211-10.6.11-1]
    #[test]
    fn rows_of_the_standards_tables() {
        use Width::{Mhz20, Mhz40, Mhz80, Mhz160};
        // Mode, N_DBPS, N_ES, kbit/s (rounded down), non-HT reference in Mbit/s.
        for (mode, bits, encoders, kbps, reference) in [
            (Mode::OFDM[0], 24, 1, 6_000, 6),
            (Mode::OFDM[1], 36, 1, 9_000, 9),
            (Mode::OFDM[4], 96, 1, 24_000, 24),
            (Mode::OFDM[6], 192, 1, 48_000, 48),
            (Mode::OFDM[7], 216, 1, 54_000, 54),
            (ht(0, Mhz20, false), 26, 1, 6_500, 6),
            (ht(1, Mhz20, false), 52, 1, 13_000, 12),
            (ht(3, Mhz20, true), 104, 1, 28_888, 24),
            (ht(7, Mhz20, false), 260, 1, 65_000, 54),
            (ht(7, Mhz20, true), 260, 1, 72_222, 54),
            (ht(5, Mhz40, false), 432, 1, 108_000, 48),
            (ht(15, Mhz40, true), 1080, 1, 300_000, 54),
            (ht(20, Mhz40, true), 972, 1, 270_000, 36),
            (ht(21, Mhz40, false), 1296, 2, 324_000, 48),
            (ht(31, Mhz20, true), 1040, 1, 288_888, 54),
            (ht(31, Mhz40, true), 2160, 2, 600_000, 54),
            (vht(8, 1, Mhz20, false), 312, 1, 78_000, 54),
            (vht(9, 3, Mhz20, false), 1040, 1, 260_000, 54),
            (vht(9, 1, Mhz80, true), 1560, 1, 433_333, 54),
            (vht(9, 2, Mhz80, false), 3120, 2, 780_000, 54),
            (vht(9, 3, Mhz80, true), 4680, 3, 1_300_000, 54),
            (vht(7, 4, Mhz160, false), 9360, 6, 2_340_000, 54),
            (vht(9, 4, Mhz160, true), 12480, 6, 3_466_666, 54),
        ] {
            assert_eq!(mode.bits_per_symbol(), bits, "{mode:?}");
            assert_eq!(mode.encoders(), encoders, "{mode:?}");
            assert_eq!(mode.rate().as_bps() / 1_000, kbps, "{mode:?}");
            assert_eq!(mode.reference().rate(), DataRate::from_mbps(reference), "{mode:?}");
        }
    }

    /// The rule by which clause 21.5 leaves out combinations: every encoder fills whole punctured
    /// blocks in each symbol.
    #[test]
    fn every_encoder_fills_whole_blocks() {
        for mode in Mode::all().filter(|m| !m.is_dsss()) {
            let (num, den) = mode.code_rate().ratio();
            let coded = mode.bits_per_symbol() / num * den;
            assert_eq!(mode.bits_per_symbol() * den, coded * num, "{mode:?}");
            assert_eq!(coded % (den * mode.encoders()), 0, "{mode:?}");
        }
        for (mcs, streams, width) in [
            (9, 1, Width::Mhz20),
            (9, 2, Width::Mhz20),
            (9, 4, Width::Mhz20),
            (6, 3, Width::Mhz80),
            (9, 3, Width::Mhz160),
        ] {
            assert_eq!(Mode::vht(mcs, streams, width, false), None);
            assert_eq!(Mode::vht(mcs, streams, width, true), None);
        }
    }

    #[test]
    fn the_table_is_what_its_constructors_say() {
        assert!(size_of::<Mode>() <= 4);
        // 4 DSSS and CCK, 8 OFDM, 32 HT at two widths and guard intervals, 160 VHT at two guard
        // intervals but for five.
        assert_eq!(Mode::all().count(), 4 + 8 + 128 + 320 - 10);
        for mode in Mode::all() {
            let again = match mode.format() {
                Format::Dsss | Format::Ofdm => Mode::legacy(mode.rate()),
                Format::Ht => Mode::ht(mode.mcs().unwrap(), mode.width(), mode.is_short_gi()),
                Format::Vht => Mode::vht(mode.mcs().unwrap(), mode.streams(), mode.width(), mode.is_short_gi()),
            };
            assert_eq!(again, Some(mode));
            assert_eq!(mode.reference().reference(), mode.reference());
            assert!(mode.reference().rate() <= mode.rate() || mode.is_ht_or_later());
        }
        assert_eq!(Mode::ht(32, Width::Mhz20, false), None);
        assert_eq!(Mode::ht(0, Width::Mhz80, false), None);
        assert_eq!(Mode::vht(10, 1, Width::Mhz80, false), None);
        assert_eq!(Mode::vht(0, 5, Width::Mhz80, false), None);
        assert_eq!(Mode::vht(0, 0, Width::Mhz80, false), None);
        assert_eq!(Mode::legacy(DataRate::from_mbps(7)), None);
    }

    #[test]
    fn names() {
        for (mode, name) in [
            (Mode::DSSS[2], "5.5 Mbit/s"),
            (Mode::OFDM[7], "54 Mbit/s"),
            (ht(7, Width::Mhz20, false), "MCS 7 20 MHz"),
            (ht(15, Width::Mhz40, true), "MCS 15 40 MHz SGI"),
            (vht(9, 2, Width::Mhz80, false), "MCS 9 2SS 80 MHz"),
        ] {
            assert_eq!(mode.name(), name);
        }
        let again = |mode: &Mode| {
            let gi = if mode.is_short_gi() { " SGI" } else { "" };
            let (streams, mhz) = (mode.streams(), mode.width().mhz());
            match (mode.format(), mode.mcs()) {
                (Format::Ht, Some(mcs)) => format!("MCS {mcs} {mhz} MHz{gi}"),
                (_, Some(mcs)) => format!("MCS {mcs} {streams}SS {mhz} MHz{gi}"),
                (_, None) => format!("{} Mbit/s", mode.rate().as_bps() as f64 / 1e6),
            }
        };
        for mode in Mode::all() {
            assert_eq!(mode.name(), again(&mode));
        }
    }
}
