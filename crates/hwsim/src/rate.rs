//! Rates as mac80211 names them, and the modes that they are.

use airtcp_core::units::DataRate;
use airtcp_core::wifi::phy::Mode;
use airtcp_core::wifi::phy::mode::Width;

/// RTS and CTS go before the frame.
pub const RTS: u16 = 1 << 0;
/// The number is an HT MCS.
pub const HT: u16 = 1 << 3;
/// 40 MHz.
pub const WIDTH_40: u16 = 1 << 5;
/// Short guard interval.
pub const SHORT_GI: u16 = 1 << 7;
/// The number is a VHT MCS, and above it the streams less one.
pub const VHT: u16 = 1 << 8;
/// 80 MHz.
pub const WIDTH_80: u16 = 1 << 9;
/// 160 MHz.
pub const WIDTH_160: u16 = 1 << 10;

/// Legacy rates in the order of hwsim's radios, in units of 100 kbit/s. Those at 5 GHz begin with
/// the fifth.
const LEGACY: [u64; 12] = [10, 20, 55, 110, 60, 90, 120, 180, 240, 360, 480, 540];
/// Frequencies from here on have no rates of 802.11b.
const GHZ_5: u32 = 4_000;

/// A rate of a frame's series, and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// As the kernel says it.
    pub index: i8,
    /// Flags that tell the meaning of `index`.
    pub flags: u16,
    /// Tries.
    pub count: u8,
    /// The mode that it is.
    pub mode: Mode,
}

/// The mode of an index with its flags, at a frequency in MHz; `None`: there is no such mode.
pub fn mode(index: i8, flags: u16, mhz: u32) -> Option<Mode> {
    let index = u8::try_from(index).ok()?;
    let width = match flags & (WIDTH_40 | WIDTH_80 | WIDTH_160) {
        0 => Width::Mhz20,
        WIDTH_40 => Width::Mhz40,
        WIDTH_80 => Width::from_mhz(80)?,
        WIDTH_160 => Width::from_mhz(160)?,
        _ => return None,
    };
    if flags & VHT != 0 {
        return Mode::vht(index & 0xf, (index >> 4) + 1, width, flags & SHORT_GI != 0);
    }
    if flags & HT != 0 {
        return Mode::ht(index, width, flags & SHORT_GI != 0);
    }
    let from = if mhz >= GHZ_5 { 4 } else { 0 };
    let rate = LEGACY.get(usize::from(index) + from)?;
    Mode::legacy(DataRate::from_bps(rate * 100_000))
}

/// The rate as modules without patches take it: a legacy one, the highest that is not above.
pub fn plain(stage: Stage, mhz: u32) -> Stage {
    if stage.flags & (HT | VHT) == 0 {
        return Stage { flags: 0, ..stage };
    }
    let from = if mhz >= GHZ_5 { 4i8 } else { 0 };
    let fits = |rate: &&u64| **rate * 100_000 <= stage.mode.rate().as_bps();
    let above_first = (5i8..).zip(&LEGACY[5..]).take_while(|(_, rate)| fits(rate)).last();
    Stage { index: above_first.map_or(4, |(index, _)| index) - from, flags: 0, ..stage }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_without_patches_get_legacy_rates() {
        let of = |index, flags, mhz| {
            let stage = Stage { index, flags, count: 1, mode: mode(index, flags, mhz).unwrap() };
            let found = plain(stage, mhz);
            assert_eq!(found.flags & (HT | VHT), 0);
            (found.index, mode(found.index, found.flags, mhz).unwrap().rate().as_bps())
        };
        assert_eq!(of(0, HT, 2412), (4, 6_000_000));
        assert_eq!(of(0, HT, 5180), (0, 6_000_000));
        assert_eq!(of(1, HT, 5180), (2, 12_000_000));
        assert_eq!(of(7, HT, 2412), (11, 54_000_000));
        assert_eq!(of(0x19, VHT | WIDTH_80, 5180), (7, 54_000_000));
        assert_eq!(of(1, 0, 2412), (1, 2_000_000));
    }

    #[test]
    fn every_rate_of_a_radio_is_a_mode() {
        for (index, rate) in (0i8..).zip(LEGACY) {
            let found = mode(index, 0, 2412).unwrap();
            assert_eq!((found.rate().as_bps(), found.is_ht_or_later()), (rate * 100_000, false));
            if index >= 4 {
                assert_eq!(mode(index - 4, 0, 5180), Some(found));
            }
        }
        for mcs in 0..16 {
            for flags in [0, SHORT_GI, WIDTH_40, SHORT_GI | WIDTH_40] {
                let found = mode(mcs, HT | flags, 2412).unwrap();
                assert_eq!(found.mcs(), u8::try_from(mcs).ok());
                assert_eq!(found.is_short_gi(), flags & SHORT_GI != 0);
                assert_eq!(found.width().mhz(), if flags & WIDTH_40 != 0 { 40 } else { 20 });
            }
        }
        assert_eq!(mode(0x13, VHT | WIDTH_80, 5180).map(|mode| mode.streams()), Some(2));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        let wrong = [(-1, 0, 2412), (12, 0, 2412), (8, 0, 5180), (99, HT, 2412), (0x1f, VHT, 5180), (0x70, VHT, 5180)];
        for (index, flags, mhz) in wrong {
            assert_eq!(mode(index, flags, mhz), None, "{index} {flags:#x} {mhz}");
        }
        assert_eq!(mode(0, HT | WIDTH_40 | WIDTH_80, 5180), None);
    }
}
