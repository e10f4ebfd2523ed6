//! Places on paths, and what stands there.
//!
//! The paths of all flows lie one after the other in one list of [`Hop`]s
//! ([`crate::network::route::Routes::hops`]); a packet knows its [`Place`] in it. These types own
//! the bits in which an end, a fused link and a loss are noted.

use airtcp_core::packet::FlowId;

use crate::spec::LinkId;

/// A place on a path: an index into [`crate::network::route::Routes::hops`].
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

/// The paths of a flow with roaming ends.
#[derive(Debug, Clone)]
pub struct Variants {
    /// Flow that takes one of them at a time.
    pub flow: FlowId,
    /// Ends, as indices into [`crate::spec::RunSpec::roaming`]; `None`: does not roam.
    pub ends: [Option<u32>; 2],
    /// By association of `from`, then of `to`: places where its paths begin, forward and reverse.
    pub start: Vec<Vec<[Place; 2]>>,
}

/// Hop at a place: a link, or the end of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop(u32);

impl Hop {
    /// Marks hops that a packet which is put in flight is looked at for, with one of the next two
    /// marks or both.
    const MARKED: u32 = 1 << 31;
    /// Marks a link that is fused with the one before it on every path (see
    /// [`crate::network::link`]).
    const FUSED: u32 = 1 << 30;
    /// Marks what leads across a border: a place that another part of the world has than the place
    /// before it. Where a fused link leads there, it has the mark, as packets do not stop before
    /// its end.
    const ACROSS: u32 = 1 << 29;
    const MARKS: u32 = Hop::MARKED | Hop::FUSED | Hop::ACROSS;
    /// The end of a path. Links with such an id there cannot be.
    pub const END: Hop = Hop(!Hop::MARKS);

    /// A link.
    #[inline]
    pub const fn of(link: LinkId) -> Hop {
        Hop(link.0)
    }
    /// The same link, fused with the one before it.
    pub const fn fused(self) -> Hop {
        Hop(self.0 | Hop::MARKED | Hop::FUSED)
    }
    /// The same link by itself. It leads across no border.
    pub(crate) const fn unfused(self) -> Hop {
        Hop(self.0 & !Hop::MARKS)
    }
    /// The same, leading across a border.
    pub(crate) const fn across(self) -> Hop {
        Hop(self.0 | Hop::MARKED | Hop::ACROSS)
    }
    /// The same, leading across none.
    pub(crate) const fn within(self) -> Hop {
        Hop(self.0 & if self.is_fused() { !Hop::ACROSS } else { !Hop::MARKS })
    }
    /// It is fused with the one before it, or leads across a border.
    #[inline]
    pub(crate) const fn is_marked(self) -> bool {
        self.0 & Hop::MARKED != 0
    }
    /// A link that is fused with the one before it.
    #[inline]
    pub const fn is_fused(self) -> bool {
        self.0 & Hop::FUSED != 0
    }
    /// It leads across a border.
    #[inline]
    pub(crate) const fn is_across(self) -> bool {
        self.0 & Hop::ACROSS != 0
    }
    /// The end of a path.
    #[inline]
    pub const fn is_end(self) -> bool {
        self.0 & !Hop::MARKS == Hop::END.0
    }
    /// The link. At an end there is none.
    #[inline]
    pub const fn link(self) -> LinkId {
        LinkId(self.0 & !Hop::MARKS)
    }
}

/// Next event of a packet in flight: it reaches a place, or is lost on the line before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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
    /// The one with that [`Self::rank`].
    pub(crate) const fn of_rank(rank: u32) -> Next {
        Next(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::{Hop, LinkId, Next, Place};

    #[test]
    fn marks_do_not_touch_what_they_mark() {
        for id in [0, 1, (1 << 28) + 7] {
            let hop = Hop::of(LinkId(id));
            assert!(!hop.is_fused() && hop.fused().is_fused() && !hop.is_end() && !hop.fused().is_end());
            assert!(!hop.is_across() && !hop.fused().is_across());
            assert!(hop.across().is_across() && hop.across().is_marked() && !hop.across().is_fused());
            let both = hop.fused().across();
            assert!(both.is_across() && both.is_fused() && both.is_marked());
            assert_eq!([both.within(), both.unfused(), hop.across().within()], [hop.fused(), hop, hop]);
            assert_eq!([hop.link(), hop.fused().link(), hop.across().link(), both.link()], [LinkId(id); 4]);
            let (there, lost) = (Next::reaches(Place::new(id)), Next::lost_before(Place::new(id)));
            assert!(!there.is_lost() && lost.is_lost() && there.rank() < lost.rank());
            assert_eq!((there.place(), lost.place()), (Place::new(id), Place::new(id)));
        }
        assert!(Hop::END.is_end() && !Hop::END.is_marked() && Hop::END.across().is_end());
        assert_eq!(Place::new(6).next().before(), Place::new(6));
    }
}
