//! Which news of the kernel are another path, and when they take effect. No socket, no clock.
//!
//! A sender of router advertisements makes addresses and routes of the hosts on its link come, go
//! and be renewed as often as it likes. So only four things count: a carrier that returns, another
//! access point, another next hop of the default route, and the loss of a connection's source
//! address. A message that repeats the known state counts for nothing, however often it comes.
//!
//! Effects on an interface are at least [`EFFECT_EVERY`] apart. News in between waits, and is
//! compared with the state of that time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use airtcp_core::units::{Span, Time};

use super::wifi::Bssid;

/// Messages closer together than this are one change.
pub const DEBOUNCE: Span = Span::from_ms(50);
/// Messages that do not end are not waited for longer than this.
const MOST_DEBOUNCE: Span = Span::from_ms(500);
/// The path of an interface changes at most once in this time.
pub const EFFECT_EVERY: Span = Span::from_secs(10);

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Version of an address; an IPv4 address that is mapped into IPv6 is one of IPv4.
    pub fn of(address: IpAddr) -> Family {
        if address.to_canonical().is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

/// The connections whose path is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// All, and the other terminals are others: the carrier came back, or the access point is
    /// another one.
    All,
    /// Those of a version of IP: its default route has another next hop.
    Family(Family),
    /// Those with this source, which the host does not have any more.
    Source(IpAddr),
}

/// A change of the path on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Its number.
    pub interface: u32,
    /// The connections that it concerns.
    pub whose: Whose,
}

/// Address of the next hop; empty where the link leads to one other host.
pub type NextHop = Vec<u8>;

/// The default route of one version of IP.
#[derive(Debug, Clone, Default)]
struct Route {
    /// As it is.
    now: Option<NextHop>,
    /// As it was last, when it took effect.
    known: Option<NextHop>,
}

#[derive(Debug, Clone, Default)]
struct Interface {
    /// The carrier is there, and how often it has come.
    carrier: Option<(bool, Option<u32>)>,
    bssid: Option<Bssid>,
    routes: [Route; 2],
    is_new_link: bool,
    gone: BTreeSet<IpAddr>,
    /// When the first and the last message came that are not looked at yet.
    pending: Option<(Time, Time)>,
    /// When the last change took effect, and the last of all connections.
    changed: Option<Time>,
    relinked: Option<Time>,
}

impl Interface {
    fn news(&mut self, now: Time) {
        self.pending = Some((self.pending.map_or(now, |(first, _)| first), now));
    }

    /// When what is pending may take effect.
    fn due_at(&self) -> Option<Time> {
        let (first, last) = self.pending?;
        let quiet = (last + DEBOUNCE).min(first + MOST_DEBOUNCE);
        Some(self.changed.map_or(quiet, |changed| quiet.max(changed + EFFECT_EVERY)))
    }
}

/// State of all interfaces as it was told.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    interfaces: BTreeMap<u32, Interface>,
}

impl Changes {
    fn of(&mut self, interface: u32) -> &mut Interface {
        self.interfaces.entry(interface).or_default()
    }

    /// The carrier is there or not. `times`: how often it has come so far, where that is known.
    pub fn carrier(&mut self, now: Time, interface: u32, is_there: bool, times: Option<u32>) {
        let one = self.of(interface);
        let before = one.carrier.replace((is_there, times));
        // The count shows a return whose message was lost.
        let has_returned = before.is_some_and(|(was_there, before)| !was_there || (before < times && before.is_some()));
        if is_there && has_returned {
            one.is_new_link = true;
            one.news(now);
        }
    }

    /// The interface is no longer there.
    pub fn removed(&mut self, interface: u32) {
        self.interfaces.remove(&interface);
    }

    /// The access point is `bssid`; `None`: there is none for now.
    pub fn access_point(&mut self, now: Time, interface: u32, bssid: Option<Bssid>) {
        let one = self.of(interface);
        if bssid.is_some() && one.bssid != bssid {
            one.bssid = bssid;
            one.is_new_link = true;
            one.news(now);
        }
    }

    /// An address is there or not.
    pub fn address(&mut self, now: Time, interface: u32, address: IpAddr, is_there: bool) {
        let one = self.of(interface);
        if is_there {
            // Taken away and given again, it is the same.
            one.gone.remove(&address);
        } else if one.gone.len() < 64 || one.gone.contains(&address) {
            one.gone.insert(address);
            one.news(now);
        }
    }

    /// The default route as it is; `None`: there is none. Without one nothing is measured, so that
    /// alone is no other path.
    pub fn default_route(&mut self, now: Time, interface: u32, family: Family, hop: Option<NextHop>) {
        let one = self.of(interface);
        let route = &mut one.routes[family as usize];
        route.now = hop;
        if route.now.is_some() && route.now != route.known {
            one.news(now);
        }
    }

    /// The default routes are those from before this began.
    pub fn begin(&mut self) {
        for one in self.interfaces.values_mut() {
            one.pending = None;
            for route in &mut one.routes {
                route.known.clone_from(&route.now);
            }
        }
    }

    /// Interfaces that something was told of.
    pub fn known(&self) -> Vec<u32> {
        self.interfaces.keys().copied().collect()
    }

    /// Changes that take effect at `now`. `uses`: some connection is concerned. A change that
    /// concerns none is left out.
    pub fn due(&mut self, now: Time, mut uses: impl FnMut(Change) -> bool) -> Vec<Change> {
        let mut all = Vec::new();
        for (&interface, one) in &mut self.interfaces {
            if one.due_at().is_none_or(|at| now < at) {
                continue;
            }
            one.pending = None;
            let before = all.len();
            let is_new_link = std::mem::take(&mut one.is_new_link);
            let gone = std::mem::take(&mut one.gone);
            if is_new_link {
                one.relinked = Some(now);
                all.push(Change { interface, whose: Whose::All });
            }
            let is_fresh = one.relinked.is_some_and(|at| now.since(at) <= EFFECT_EVERY);
            for family in [Family::V4, Family::V6] {
                let route = &mut one.routes[family as usize];
                let change = Change { interface, whose: Whose::Family(family) };
                // The first route of a new link belongs to it.
                let belongs = is_new_link || (route.known.is_none() && is_fresh);
                if route.now.is_some() && route.now != route.known && !belongs && uses(change) {
                    all.push(change);
                }
                if route.now.is_some() || is_new_link {
                    route.known.clone_from(&route.now);
                }
            }
            for source in gone.into_iter().filter(|_| !is_new_link) {
                let change = Change { interface, whose: Whose::Source(source) };
                if uses(change) {
                    all.push(change);
                }
            }
            if all.len() > before {
                one.changed = Some(now);
            }
        }
        all
    }

    /// When [`Changes::due`] may have something next.
    pub fn next(&self) -> Option<Time> {
        self.interfaces.values().filter_map(Interface::due_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: u32 = 3;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }
    fn hop(n: u8) -> Option<NextHop> {
        Some(vec![n; 16])
    }
    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }
    fn whose(changes: &[Change]) -> Vec<Whose> {
        changes.iter().map(|change| change.whose).collect()
    }
    fn begun() -> Changes {
        let mut c = Changes::default();
        c.carrier(at(0), A, true, Some(1));
        c.default_route(at(0), A, Family::V4, hop(1));
        c.default_route(at(0), A, Family::V6, hop(1));
        c.begin();
        c
    }

    #[test]
    fn what_router_advertisements_renew_is_no_change() {
        let mut c = begun();
        for ms in (1000..5000).step_by(200) {
            c.default_route(at(ms), A, Family::V6, hop(1));
            c.address(at(ms), A, ip("2001:db8::1"), true);
            c.carrier(at(ms), A, true, Some(1));
            assert_eq!(c.due(at(ms + 100), |_| true), []);
        }
        // News of a prefix that ends, and of a router that says it is none and takes it back.
        c.address(at(6000), A, ip("2001:db8::2"), false);
        c.default_route(at(6000), A, Family::V6, None);
        c.default_route(at(6100), A, Family::V6, hop(1));
        assert_eq!(c.due(at(7000), |change| change.whose == Whose::Family(Family::V6)), []);
    }

    #[test]
    fn a_real_change_counts_once_it_is_quiet() {
        let mut c = begun();
        c.carrier(at(0), A, false, Some(1));
        c.carrier(at(40), A, true, Some(2));
        assert_eq!(c.due(at(60), |_| true), []);
        assert_eq!(c.next(), Some(at(90)));
        assert_eq!(whose(&c.due(at(90), |_| true)), [Whose::All]);
        assert_eq!((c.due(at(200), |_| true), c.next()), (vec![], None));
        let mut c = begun();
        c.access_point(at(0), A, Some([1; 6]));
        assert_eq!(whose(&c.due(at(50), |_| true)), [Whose::All]);
        c.access_point(at(20_000), A, None);
        c.access_point(at(20_100), A, Some([1; 6]));
        assert_eq!(c.due(at(21_000), |_| true), []);
        let mut c = begun();
        c.default_route(at(0), A, Family::V4, hop(2));
        assert_eq!(whose(&c.due(at(50), |_| true)), [Whose::Family(Family::V4)]);
        let mut c = begun();
        c.address(at(0), A, ip("10.0.0.2"), false);
        assert_eq!(whose(&c.due(at(50), |_| true)), [Whose::Source(ip("10.0.0.2"))]);
        let mut c = begun();
        c.carrier(at(0), A, true, Some(2)); // the message that it had gone was lost
        assert_eq!(whose(&c.due(at(50), |_| true)), [Whose::All]);
    }

    #[test]
    fn effects_are_apart_and_the_last_is_not_missed() {
        let mut c = begun();
        let mut seen = Vec::new();
        for ms in (0..30_000).step_by(10) {
            // Two next hops in turn, until second 25.
            if ms % 200 == 0 && ms < 25_000 {
                c.default_route(at(ms), A, Family::V6, hop((ms / 200 % 2) as u8 + 2));
            }
            seen.extend(c.due(at(ms), |_| true).iter().map(|_| ms));
        }
        assert!(seen.windows(2).all(|pair| pair[1] - pair[0] >= 10_000), "{seen:?}");
        assert!((2..=3).contains(&seen.len()), "{seen:?}");
        // A handover and back within the time is none; one that stays takes effect at its end.
        let mut c = begun();
        c.default_route(at(0), A, Family::V4, hop(2));
        assert_eq!(c.due(at(100), |_| true).len(), 1);
        c.default_route(at(3000), A, Family::V4, hop(3));
        assert_eq!((c.due(at(9000), |_| true), c.next()), (vec![], Some(at(10_100))));
        assert_eq!(whose(&c.due(at(10_100), |_| true)), [Whose::Family(Family::V4)]);
        c.default_route(at(11_000), A, Family::V4, hop(4));
        c.default_route(at(12_000), A, Family::V4, hop(3));
        assert_eq!(c.due(at(30_000), |_| true), []);
    }

    #[test]
    fn what_concerns_nobody_does_not_delay_what_does() {
        let mut c = begun();
        c.default_route(at(0), A, Family::V6, hop(7));
        c.address(at(0), A, ip("2001:db8::7"), false);
        assert_eq!(c.due(at(100), |_| false), []);
        c.carrier(at(200), A, false, Some(1));
        c.carrier(at(200), A, true, Some(2));
        assert_eq!(whose(&c.due(at(300), |_| false)), [Whose::All]);
    }

    #[test]
    fn the_first_route_of_a_new_link_belongs_to_it() {
        let mut c = begun();
        c.carrier(at(0), A, false, Some(1));
        c.default_route(at(0), A, Family::V4, None);
        c.carrier(at(100), A, true, Some(2));
        assert_eq!(whose(&c.due(at(200), |_| true)), [Whose::All]);
        c.default_route(at(3000), A, Family::V4, hop(9));
        assert_eq!(c.due(at(11_000), |_| true).len() + c.due(at(30_000), |_| true).len(), 1, "it came late");
        let mut c = begun();
        c.carrier(at(0), A, false, Some(1));
        c.default_route(at(0), A, Family::V4, None);
        c.carrier(at(100), A, true, Some(2));
        c.due(at(200), |_| true);
        c.default_route(at(3000), A, Family::V4, hop(9));
        assert_eq!(c.due(at(10_200), |_| true), []);
        // Without a new link the first one is a change.
        let mut c = Changes::default();
        c.carrier(at(0), A, true, None);
        c.begin();
        c.default_route(at(0), A, Family::V4, hop(1));
        assert_eq!(whose(&c.due(at(50), |_| true)), [Whose::Family(Family::V4)]);
        c.removed(A);
        assert_eq!(c.known(), Vec::<u32>::new());
    }

    proptest! {
        #[test]
        fn effects_are_never_closer_and_a_new_link_is_always_noticed(
            all in prop::collection::vec((0u64..3000, 0u8..5, 0u8..3), 0..200)
        ) {
            let (mut c, mut ms, mut effects) = (begun(), 0, Vec::new());
            let mut step = |c: &mut Changes, ms: u64| effects.extend(c.due(at(ms), |_| true).iter().map(|change| (ms, *change)));
            for (wait, kind, value) in all {
                for _ in 0..wait / 50 {
                    ms += 50;
                    step(&mut c, ms);
                }
                match kind {
                    0 => c.carrier(at(ms), A, value > 0, None),
                    1 => c.access_point(at(ms), A, (value > 0).then_some([value; 6])),
                    2 => c.default_route(at(ms), A, Family::V6, if value > 0 { hop(value) } else { None }),
                    3 => c.address(at(ms), A, IpAddr::from([10, 0, 0, value]), value > 1),
                    _ => c.default_route(at(ms), A, Family::V4, hop(value)),
                }
            }
            c.carrier(at(ms), A, false, None);
            c.carrier(at(ms), A, true, None);
            step(&mut c, ms + 11_000);
            let times: BTreeSet<u64> = effects.iter().map(|(ms, _)| *ms).collect();
            let times: Vec<u64> = times.into_iter().collect();
            prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 10_000), "{:?}", times);
            prop_assert_eq!(effects.last().map(|(_, change)| change.whose), Some(Whose::All));
        }
    }
}
