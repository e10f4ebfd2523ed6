//! Numbers of things within one channel, each a type of its own.

use std::num::NonZeroU32;

use crate::convert::count16;

/// A radio of a channel: its place in [`ChannelConfig::radios`](super::ChannelConfig::radios).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RadioId(pub u16);

impl RadioId {
    /// The radio at this index.
    #[inline]
    pub const fn at(index: usize) -> RadioId {
        RadioId(count16(index))
    }

    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<u16> for RadioId {
    fn from(number: u16) -> RadioId {
        RadioId(number)
    }
}

/// A station and its access point: their place in
/// [`ChannelConfig::pairs`](super::ChannelConfig::pairs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairId(pub u16);

impl PairId {
    /// The pair at this index.
    #[inline]
    pub const fn at(index: usize) -> PairId {
        PairId(count16(index))
    }

    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The link from the station to the access point.
    #[inline]
    pub const fn up(self) -> AirLinkId {
        AirLinkId(2 * self.0 as u32)
    }
    /// The link from the access point to the station.
    #[inline]
    pub const fn down(self) -> AirLinkId {
        AirLinkId(2 * self.0 as u32 + 1)
    }
}

/// A direction between two radios, or from an access point to its group. Those of the pairs come
/// first, two each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AirLinkId(pub u32);

impl AirLinkId {
    /// The link from the `i`-th access point of
    /// [`ChannelConfig::groups`](super::ChannelConfig::groups) to all its stations.
    #[inline]
    pub const fn group(i: u16, pairs: u32) -> AirLinkId {
        AirLinkId(2 * pairs + i as u32)
    }
    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The other direction of a pair's link.
    #[inline]
    pub const fn opposite(self) -> AirLinkId {
        AirLinkId(self.0 ^ 1)
    }
    /// True if this link of a pair leads from the access point to the station.
    #[inline]
    pub const fn is_down(self) -> bool {
        self.0 & 1 == 1
    }
}

/// State of one access category at one end of a link, for the time of one association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionId(NonZeroU32);

impl SessionId {
    /// The session at this index of the channel's list.
    #[expect(clippy::cast_possible_truncation, reason = "sessions do not come in billions; saturates")]
    pub(super) const fn new(index: usize) -> SessionId {
        let number = if index < u32::MAX as usize { index as u32 + 1 } else { u32::MAX };
        match NonZeroU32::new(number) {
            Some(number) => SessionId(number),
            None => unreachable!(),
        }
    }
    /// As an index.
    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
    /// As a plain number, for owners that do not know its meaning.
    #[inline]
    pub(super) const fn number(self) -> u32 {
        self.0.get()
    }
    /// The session of such a number.
    #[inline]
    pub(super) const fn of(number: u32) -> SessionId {
        SessionId(NonZeroU32::new(number).expect("of a packet that a discipline has"))
    }
}
