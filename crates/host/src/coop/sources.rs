//! Sources of announcements that count: one terminal per neighbour on the link, however many names
//! and addresses it has.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use airtcp_core::coop::TerminalId;
use airtcp_core::units::{Span, Time};

/// Address of a radio or a network card.
pub type LinkAddress = [u8; 6];

/// A neighbour, as far as it can be told apart from others.
///
/// Addresses of IP are its own choice: of IPv6 it has as many as it likes. The address on the link
/// is not, where an access point takes frames from its stations alone. On a link without such
/// addresses, as a TUN device, each address of IPv4 is a neighbour, and all of IPv6 are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbour {
    /// By its address on the link.
    Link(LinkAddress),
    /// By its address of IPv4.
    V4(Ipv4Addr),
    /// Any address of IPv6.
    AnyV6,
}

impl Neighbour {
    /// The sender of a datagram from `from`; `link`: its address on the link, where the link has
    /// such.
    pub fn new(link: Option<LinkAddress>, from: IpAddr) -> Neighbour {
        match (link, from.to_canonical()) {
            (Some(link), _) => Neighbour::Link(link),
            (None, IpAddr::V4(v4)) => Neighbour::V4(v4),
            (None, IpAddr::V6(_)) => Neighbour::AnyV6,
        }
    }

    /// May be two addresses of one host.
    fn may_be(self, other: Neighbour) -> bool {
        matches!((self, other), (Neighbour::V4(_), Neighbour::AnyV6) | (Neighbour::AnyV6, Neighbour::V4(_)))
    }
}

/// Sources of announcements that count: one terminal per neighbour, and none in the name of
/// another's.
///
/// Announcements are not authenticated. This bounds what one host can claim.
#[derive(Debug, Default)]
pub struct Sources {
    known: BTreeMap<Neighbour, (TerminalId, Time)>,
    expire_after: Span,
    most: usize,
}

impl Sources {
    /// A neighbour is forgotten when it was not heard for `expire_after`; at most `most` are
    /// remembered.
    pub fn new(expire_after: Span, most: usize) -> Sources {
        Sources { known: BTreeMap::new(), expire_after, most }
    }

    /// An announcement of `id` came from `neighbour`; may it count?
    pub fn admit(&mut self, now: Time, neighbour: Neighbour, id: TerminalId) -> bool {
        let expire_after = self.expire_after;
        self.known.retain(|_, (_, heard)| now.since(*heard) < expire_after);
        if let Some((known, heard)) = self.known.get_mut(&neighbour) {
            if *known != id {
                return false;
            }
            *heard = now;
            return true;
        }
        let is_anothers = self.known.iter().any(|(other, (known, _))| *known == id && !neighbour.may_be(*other));
        if is_anothers || self.known.len() >= self.most {
            return false;
        }
        self.known.insert(neighbour, (id, now));
        true
    }
}

/// An announcement as the kernel's side hands it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The sender's address.
    pub from: IpAddr,
    /// Where a frame of Ethernet has the sender's address; on other links it means nothing.
    pub link: LinkAddress,
    /// The payload.
    pub datagram: Vec<u8>,
}

/// Bytes of what is handed over, the payload's padding included.
const HEARD_BYTES: usize = 8 + 8 + 16 + 8 + 32;

impl Heard {
    /// Reads the bytes that the kernel's side writes.
    pub fn read(bytes: &[u8]) -> Option<Heard> {
        let bytes = bytes.get(..HEARD_BYTES)?;
        let words = crate::words::words(&bytes[..16]);
        let from: [u8; 16] = bytes[16..32].try_into().ok()?;
        let from = match words[1] {
            2 => Ipv4Addr::new(from[0], from[1], from[2], from[3]).into(),
            10 => Ipv6Addr::from(from).into(),
            _ => return None,
        };
        let length = usize::try_from(words[0]).ok()?;
        Some(Heard { from, link: bytes[32..38].try_into().ok()?, datagram: bytes[40..].get(..length)?.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }
    fn id(n: u64) -> TerminalId {
        TerminalId::new(n).unwrap()
    }

    #[test]
    fn one_neighbour_is_one_terminal() {
        let of = |n| Neighbour::new(Some([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n).into());
        let mut s = Sources::new(Span::from_secs(3), 3);
        assert!(s.admit(at(0), of(1), id(1)));
        assert!(!s.admit(at(1), of(1), id(2)), "a second name");
        assert!(!s.admit(at(1), of(2), id(1)), "another's name");
        let v6 = Neighbour::new(Some([2, 0, 0, 0, 0, 1]), Ipv6Addr::LOCALHOST.into());
        assert!(s.admit(at(1), v6, id(1)), "the same host's other address");
        assert!(s.admit(at(2), of(2), id(2)) && s.admit(at(2), of(3), id(3)));
        assert!(!s.admit(at(2), of(4), id(4)), "full");
        assert!(s.admit(at(3_001), of(1), id(9)), "forgotten");
    }

    #[test]
    fn a_hundred_addresses_of_one_neighbour_are_one() {
        for link in [Some([2, 0, 0, 0, 0, 1]), None] {
            let mut s = Sources::new(Span::from_secs(3), 64);
            let from = |n: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n).into();
            let counted = (1..=100).filter(|&n| s.admit(at(0), Neighbour::new(link, from(n)), id(n.into()))).count();
            assert_eq!(counted, 1, "{link:?}");
        }
    }

    #[test]
    fn without_addresses_on_the_link_a_host_of_both_families_has_one_name() {
        let (v4, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut s = Sources::new(Span::from_secs(3), 64);
        assert!(s.admit(at(0), Neighbour::new(None, v4), id(1)));
        assert!(s.admit(at(0), Neighbour::new(None, Ipv6Addr::LOCALHOST.into()), id(1)));
        assert!(s.admit(at(0), Neighbour::new(None, other), id(2)));
        assert!(!s.admit(at(0), Neighbour::new(None, Ipv6Addr::LOCALHOST.into()), id(2)), "the first one's place");
        assert!(!s.admit(at(0), Neighbour::new(None, other), id(1)), "another's name");
    }

    #[test]
    fn what_the_kernel_hands_over_is_read() {
        let mut bytes = crate::words::bytes(&[24, 10]);
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend([2, 0, 0, 0, 0, 7, 0, 0]);
        bytes.extend(1..=32);
        let heard = Heard::read(&bytes).unwrap();
        assert_eq!((heard.from, heard.link), (Ipv6Addr::LOCALHOST.into(), [2, 0, 0, 0, 0, 7]));
        assert_eq!(heard.datagram, (1..=24).collect::<Vec<u8>>());
        assert_eq!(Heard::read(&bytes[1..]), None);
        bytes[0] = 33;
        assert_eq!(Heard::read(&bytes), None, "longer than it is");
    }

    proptest! {
        #[test]
        fn no_neighbour_has_two_names_at_a_time(all in prop::collection::vec((0u64..500, 0u8..6, 1u64..6), 0..100)) {
            let (mut s, mut now, mut admitted) = (Sources::new(Span::from_secs(3), 64), 0, BTreeMap::new());
            for (wait, link, name) in all {
                now += wait;
                admitted.retain(|_, (_, heard)| now - *heard < 3000);
                if s.admit(at(now), Neighbour::Link([link; 6]), id(name)) {
                    admitted.insert(link, (name, now));
                }
                let names: std::collections::BTreeSet<u64> = admitted.values().map(|(name, _)| *name).collect();
                prop_assert_eq!(names.len(), admitted.len());
            }
        }
    }
}
