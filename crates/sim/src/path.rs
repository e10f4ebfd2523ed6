//! Places on paths, and what stands there.
//!
//! The paths of all flows lie one after the other in one list of [`Hop`]s ([`crate::route::Routes::hops`]); a packet knows its
//! [`Place`] in it. These types own the bits in which an end, a fused link and a loss are noted.

use crate::spec::LinkId;

/// A place on a path: an index into [`crate::route::Routes::hops`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Place(u32);

impl Place {
    /// Places that there may be.
    pub const MAX_COUNT: usize = 1 << 31;

    /// `index` is below [`Place::MAX_COUNT`].
    #[inline]
    pub const fn new(index: u32) -> Place {
        Place(index)
    }
    /// The index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The place after it.
    #[inline]
    pub const fn next(self) -> Place {
        Place(self.0 + 1)
    }
    /// The place before it: that of the link which leads here. A path does not begin with it.
    #[inline]
    pub const fn before(self) -> Place {
        Place(self.0.wrapping_sub(1))
    }
}

/// What stands at a place: a link, or the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop(u32);

impl Hop {
    /// Marks a link that is fused with the one before it on every path (see [`crate::link`]).
    const FUSED: u32 = 1 << 31;
    /// The end of a path. Links with such an id there cannot be.
    pub const END: Hop = Hop(u32::MAX >> 1);
    /// A place of another part of a world that runs in parts. It counts as fused, so that a packet that is put in flight is looked
    /// at once for both.
    pub(crate) const AWAY: Hop = Hop(u32::MAX);

    /// A link.
    #[inline]
    pub const fn of(link: LinkId) -> Hop {
        Hop(link.0)
    }
    /// The same link, fused with the one before it.
    pub const fn fused(self) -> Hop {
        Hop(self.0 | Hop::FUSED)
    }
    /// The same link by itself.
    pub(crate) const fn unfused(self) -> Hop {
        Hop(self.0 & !Hop::FUSED)
    }
    /// A link that is fused with the one before it.
    #[inline]
    pub const fn is_fused(self) -> bool {
        self.0 & Hop::FUSED != 0
    }
    /// It is in another part.
    #[inline]
    pub(crate) const fn is_away(self) -> bool {
        self.0 == Hop::AWAY.0
    }
    /// The end of a path.
    #[inline]
    pub const fn is_end(self) -> bool {
        self.0 == Hop::END.0
    }
    /// The link. At an end there is none.
    #[inline]
    pub const fn link(self) -> LinkId {
        LinkId(self.0 & !Hop::FUSED)
    }
}

/// What is next for a packet in flight: it reaches a place, or is lost on the line before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Next(u32);

impl Next {
    const LOST: u32 = 1 << 31;

    /// It reaches `place`.
    #[inline]
    pub const fn reaches(place: Place) -> Next {
        Next(place.0)
    }
    /// It is lost before it reaches `place`.
    pub const fn lost_before(place: Place) -> Next {
        Next(place.0 | Next::LOST)
    }
    /// It is lost.
    #[inline]
    pub const fn is_lost(self) -> bool {
        self.0 & Next::LOST != 0
    }
    /// The place that it reaches, or would.
    #[inline]
    pub const fn place(self) -> Place {
        Place(self.0 & !Next::LOST)
    }
    /// By which packets that arrive together are ordered: by place, those that are lost last.
    #[inline]
    pub(crate) const fn rank(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Hop, LinkId, Next, Place};

    #[test]
    fn marks_do_not_touch_what_they_mark() {
        for id in [0, 1, (1 << 30) + 7] {
            let hop = Hop::of(LinkId(id));
            assert!(!hop.is_fused() && hop.fused().is_fused() && !hop.is_end() && !hop.fused().is_end());
            assert_eq!((hop.link(), hop.fused().link()), (LinkId(id), LinkId(id)));
            let (there, lost) = (Next::reaches(Place::new(id)), Next::lost_before(Place::new(id)));
            assert!(!there.is_lost() && lost.is_lost() && there.rank() < lost.rank());
            assert_eq!((there.place(), lost.place()), (Place::new(id), Place::new(id)));
        }
        assert!(Hop::END.is_end() && !Hop::END.is_fused());
        assert_eq!(Place::new(6).next().before(), Place::new(6));
    }
}
