//! How long a PPDU is on the air, from its mode and its length (IEEE 802.11-2020 clauses 15 to 21;
//! HE: 802.11ax clause 27).

use airtcp_core::units::Span;
use airtcp_core::wifi::phy::{Format, Mode};

use super::radio::Phy;

/// MPDU delimiter of an A-MPDU subframe.
const DELIMITER_BYTES: u64 = 4;

/// Length of a PPDU under way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Length {
    mpdus: u32,
    /// Bytes of the MPDUs; and the same with a delimiter before and padding behind each.
    plain: u64,
    framed: u64,
}

impl Length {
    /// Another MPDU, FCS included.
    pub(super) fn add(&mut self, bytes: u32) {
        self.mpdus += 1;
        self.plain += u64::from(bytes);
        self.framed += u64::from(bytes).next_multiple_of(4) + DELIMITER_BYTES;
    }

    fn bytes(self) -> u64 {
        if self.mpdus > 1 { self.framed } else { self.plain }
    }
}

/// Training fields for so many streams.
fn training(streams: u8) -> u64 {
    match streams {
        0 | 1 => 1,
        2 => 2,
        3 | 4 => 4,
        n => u64::from(n).next_multiple_of(2),
    }
}

/// Bit/s.
pub(super) fn rate_bps(phy: Phy) -> Option<u64> {
    match phy {
        Phy::Unknown => None,
        Phy::Known(mode) => Some(mode.rate().as_bps()),
        Phy::He { mcs, streams, mhz, guard_ns } => {
            let bits = he_bits(mcs, streams, mhz);
            Some(bits * 1_000_000_000 / (12_800 + u64::from(guard_ns)))
        }
    }
}

/// Data bits of an HE symbol.
fn he_bits(mcs: u8, streams: u8, mhz: u16) -> u64 {
    let tones = match mhz {
        2 => 24,
        4 => 48,
        8 => 102,
        20 => 234,
        40 => 468,
        80 => 980,
        _ => 1960,
    };
    // Bits per tone and code rate.
    let (bits, num, den) = match mcs {
        0 => (1, 1, 2),
        1 => (2, 1, 2),
        2 => (2, 3, 4),
        3 => (4, 1, 2),
        4 => (4, 3, 4),
        5 => (6, 2, 3),
        6 => (6, 3, 4),
        7 => (6, 5, 6),
        8 => (8, 3, 4),
        9 => (8, 5, 6),
        10 => (10, 3, 4),
        _ => (10, 5, 6),
    };
    (tones * bits * u64::from(streams) * num / den).max(1)
}

/// Airtime of a PPDU. An unknown PHY counts as the slowest rate of OFDM.
pub(super) fn of(phy: Phy, length: Length, short_preamble: bool) -> Span {
    let bits = 8 * length.bytes();
    match phy {
        Phy::Unknown => legacy(Mode::OFDM[0], bits, short_preamble),
        Phy::Known(mode) => match mode.format() {
            Format::Dsss | Format::Ofdm => legacy(mode, bits, short_preamble),
            Format::Ht => symbols(mode, bits, 20 + 8 + 4 + 4 * training(mode.streams())),
            Format::Vht => symbols(mode, bits, 20 + 8 + 4 + 4 * training(mode.streams()) + 4),
        },
        Phy::He { mcs, streams, mhz, guard_ns } => {
            let count = (16 + bits + 6).div_ceil(he_bits(mcs, streams, mhz));
            // Legacy preamble, repeated L-SIG, HE-SIG-A, HE-STF, HE-LTFs of 6.4 us with their
            // guard.
            Span::from_us(20 + 4 + 8 + 4 + 8 * training(streams))
                + Span::from_ns(count * (12_800 + u64::from(guard_ns)))
        }
    }
}

fn legacy(mode: Mode, bits: u64, short_preamble: bool) -> Span {
    if mode.format() == Format::Dsss {
        let preamble = if short_preamble { 96 } else { 192 };
        return Span::from_us(preamble) + mode.rate().time_for(bits.div_ceil(8));
    }
    symbols(mode, bits, 20)
}

fn symbols(mode: Mode, bits: u64, preamble_us: u64) -> Span {
    let coded = 16 + bits + 6 * u64::from(mode.encoders().max(1));
    Span::from_us(preamble_us) + mode.symbol() * coded.div_ceil(u64::from(mode.bits_per_symbol().max(1)))
}

#[cfg(test)]
mod tests {
    use airtcp_core::units::DataRate;
    use airtcp_core::wifi::phy::Width;

    use super::*;

    fn length(mpdus: &[u32]) -> Length {
        let mut length = Length::default();
        mpdus.iter().for_each(|&bytes| length.add(bytes));
        length
    }

    /// An ACK of 14 bytes at 6 Mbit/s takes 44 us, at 24 Mbit/s 28 us; at 1 Mbit/s 304 us.
    #[test]
    fn acks_take_what_the_standard_says() {
        for (mbps, us) in [(6, 44), (24, 28), (1, 304)] {
            let mode = Mode::legacy(DataRate::from_mbps(mbps)).unwrap();
            assert_eq!(of(Phy::Known(mode), length(&[14]), false), Span::from_us(us), "{mbps} Mbit/s");
        }
    }

    #[test]
    fn aggregates_have_one_preamble() {
        let mode = Phy::Known(Mode::vht(7, 1, Width::Mhz20, true).unwrap());
        let (one, ten) = (of(mode, length(&[1538]), false), of(mode, length(&[1538; 10]), false));
        assert!(ten < one * 10 && ten > one * 8, "{one:?} {ten:?}");
        assert_eq!(length(&[1538; 10]).bytes(), 10 * 1544);
    }

    /// 802.11ax table 27-111: MCS 11, two streams, 80 MHz, 0.8 us: 1201 Mbit/s.
    #[test]
    fn he_rates() {
        let rate = |mcs, streams, mhz| rate_bps(Phy::He { mcs, streams, mhz, guard_ns: 800 }).unwrap() / 100_000;
        assert_eq!((rate(11, 2, 80), rate(0, 1, 20), rate(7, 1, 20)), (12_009, 86, 860));
    }
}
