//! When has the path of an interface changed? From the kernel's routing messages, and from those of
//! Wi-Fi where there are any.
//!
//! [`change`] decides which of them count.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use airtcp_core::units::Time;

use crate::sys;

pub mod change;
pub mod wifi;

use change::{Change, Changes, DEBOUNCE, Family, NextHop, Whose};

const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400; // link, addresses and routes of IPv4, of IPv6

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
const GETROUTE: u16 = 26;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const LOCAL_TABLE: u8 = 255;
const MAIN_TABLE: u32 = 254;
const UNICAST: u8 = 1;
const CLONED: u32 = 0x200;
const LOWER_UP: u32 = 0x10000;
const TIMES_UP: u16 = 47; // IFLA_CARRIER_UP_COUNT
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const OUT_INTERFACE: u16 = 4;
const GATEWAY: u16 = 5;
const METRIC: u16 = 6;
const HOPS: u16 = 9;
const TABLE: u16 = 15;
const VIA: u16 = 18;
const PREFERENCE: u16 = 20;

/// News of an interface in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Its carrier is there or not, and how often it has come.
    Carrier(u32, bool, Option<u32>),
    /// It is gone.
    Removed(u32),
    /// An address of it is there or not.
    Address(u32, IpAddr, bool),
    /// Some default route is another one.
    Routes,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The first attribute `kind`.
pub(crate) fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    while let (Some(length), Some(found)) = (u16_at(bytes, 0), u16_at(bytes, 2)) {
        let length = usize::from(length);
        if length < 4 || length > bytes.len() {
            return None;
        }
        if found & 0x3fff == kind {
            return bytes.get(4..length);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// The messages of one datagram: kind and the bytes behind the header. A message that cannot be
/// read ends them.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (u32_at(bytes, 0)? as usize, u16_at(bytes, 4)?);
        let body = bytes.get(16..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// The news of one datagram of routing messages. A message that cannot be read is left out.
pub fn news(bytes: &[u8]) -> Vec<News> {
    messages(bytes).filter_map(|(kind, body)| one(kind, body)).collect()
}

fn one(kind: u16, body: &[u8]) -> Option<News> {
    match kind {
        NEWLINK => {
            let times = body.get(16..).and_then(|rest| u32_at(attribute(rest, TIMES_UP)?, 0));
            Some(News::Carrier(u32_at(body, 4)?, u32_at(body, 8)? & LOWER_UP != 0, times))
        }
        DELLINK => Some(News::Removed(u32_at(body, 4)?)),
        NEWADDR | DELADDR => {
            let attributes = body.get(8..)?;
            // On a line between two, `ADDRESS` is the other end's.
            let bytes = attribute(attributes, LOCAL).or_else(|| attribute(attributes, ADDRESS))?;
            Some(News::Address(u32_at(body, 4)?, address(bytes)?, kind == NEWADDR))
        }
        NEWROUTE | DELROUTE => default_routes(body).map(|_| News::Routes),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

/// A default route by an interface. The lesser rank is taken first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Default {
    interface: u32,
    family: Family,
    rank: (bool, u32, u8),
    hop: NextHop,
}

/// Default routes in a message of routes; `None`: it is about another route.
fn default_routes(body: &[u8]) -> Option<Vec<Default>> {
    let (family, length, table, kind, flags) =
        (*body.first()?, *body.get(1)?, *body.get(4)?, *body.get(7)?, u32_at(body, 8)?);
    let family = match i32::from(family) {
        libc::AF_INET => Family::V4,
        libc::AF_INET6 => Family::V6,
        _ => return None,
    };
    if length > 0 || table == LOCAL_TABLE || kind != UNICAST || flags & CLONED != 0 {
        return None;
    }
    let attributes = body.get(12..)?;
    let number = |kind| attribute(attributes, kind).and_then(|value| u32_at(value, 0));
    let preference = match attribute(attributes, PREFERENCE).and_then(|value| value.first()) {
        Some(1) => 0, // high
        Some(3) => 2, // low
        _ => 1,
    };
    let is_other_table = number(TABLE).unwrap_or(u32::from(table)) != MAIN_TABLE;
    let rank = (is_other_table, number(METRIC).unwrap_or(0), preference);
    let hop = |attributes| attribute(attributes, GATEWAY).or_else(|| attribute(attributes, VIA)).unwrap_or_default();
    let mut all = Vec::new();
    if let Some(interface) = number(OUT_INTERFACE) {
        all.push(Default { interface, family, rank, hop: hop(attributes).to_vec() });
    }
    // Several next hops: each has a length, an interface and attributes.
    let mut hops = attribute(attributes, HOPS).unwrap_or_default();
    while let (Some(length), Some(interface)) = (u16_at(hops, 0).map(usize::from), u32_at(hops, 4)) {
        let Some(one) = hops.get(8..length) else { break };
        all.push(Default { interface, family, rank, hop: hop(one).to_vec() });
        hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(all)
}

/// The next hop that the kernel takes first, for each interface and version of IP. Reachability
/// does not count here, as it may in the kernel.
fn first_hops(all: Vec<Default>) -> BTreeMap<(u32, Family), NextHop> {
    let mut best: BTreeMap<(u32, Family), Default> = BTreeMap::new();
    for route in all {
        let place = best.entry((route.interface, route.family)).or_insert_with(|| route.clone());
        if route.rank < place.rank {
            *place = route;
        }
    }
    best.into_iter().map(|(name, route)| (name, route.hop)).collect()
}

/// Asks the kernel for all of a kind; `header`: of that kind, all zero but for the family.
fn dump(kind: u16, header: &[u8], mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
    const DUMP: u16 = 0x301; // a request, for all
    let socket = sys::netlink(libc::NETLINK_ROUTE, 0)?;
    let mut request = u32::try_from(16 + header.len()).unwrap_or(0).to_ne_bytes().to_vec();
    request.extend(kind.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(header);
    sys::send(socket.as_raw_fd(), &request)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        if sys::readable(&[socket.as_raw_fd()], Duration::from_secs(1))? != [true] {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let n = sys::receive(socket.as_raw_fd(), &mut buffer)?;
        for (kind, body) in messages(&buffer[..n]) {
            if kind == DONE || kind == ERROR {
                return Ok(());
            }
            take(kind, body);
        }
    }
}

/// Connections of this namespace by their sources, as `sock_diag` tells.
pub fn uses(change: Change) -> bool {
    let Ok(socket) = sys::netlink(libc::NETLINK_SOCK_DIAG, 0) else { return true };
    let mut is_used = false;
    let asked = crate::monitor::ask(socket.as_raw_fd(), &mut vec![0; 1 << 16], |seen, _| {
        is_used |= change.concerns(seen.ends[0].to_canonical());
        Ok(())
    });
    // Without an answer the law forgets too much rather than too little.
    is_used || asked.is_err()
}

/// Hears the kernel, and tells which interfaces have a changed path.
#[derive(Debug)]
pub struct Watch {
    socket: OwnedFd,
    wifi: Option<wifi::Wifi>,
    changes: Changes,
    /// Since when default routes are to be looked at again.
    look: Option<Time>,
    buffer: Vec<u8>,
}

impl Watch {
    /// Watches this namespace.
    pub fn new() -> io::Result<Watch> {
        let socket = sys::netlink(libc::NETLINK_ROUTE, GROUPS)?;
        // A kernel that refuses to say is one without.
        let wifi = wifi::Wifi::new().unwrap_or(None);
        let mut watch = Watch { socket, wifi, changes: Changes::default(), look: None, buffer: vec![0; 1 << 16] };
        watch.look_around(sys::monotonic());
        watch.changes.begin();
        Ok(watch)
    }

    /// Readable when there is news.
    pub fn fds(&self) -> Vec<RawFd> {
        let wifi = self.wifi.as_ref().map(wifi::Wifi::fd);
        [Some(self.socket.as_raw_fd()), wifi].into_iter().flatten().collect()
    }

    /// Wi-Fi itself tells of changes.
    pub fn hears_wifi(&self) -> bool {
        self.wifi.is_some()
    }

    /// From where changes are told, as a sentence.
    pub fn sources(&self) -> &'static str {
        if self.hears_wifi() {
            "changes of the path: Wi-Fi's access point, carriers, default routes and lost source addresses"
        } else {
            "changes of the path: carriers, default routes and lost source addresses; this kernel has no nl80211"
        }
    }

    /// The access point of an interface; `None`: it is not known.
    pub fn access_point(&self, interface: u32) -> Option<wifi::AccessPoint> {
        self.wifi.as_ref()?.access_point(interface)
    }

    /// Carriers, access points and default routes as they are. Whatever cannot be read stays as it
    /// was.
    fn look_around(&mut self, now: Time) {
        let changes = &mut self.changes;
        let _ = dump(GETLINK, &[0; 16], |kind, body| {
            if let Some(News::Carrier(interface, is_there, times)) = one(kind, body) {
                changes.carrier(now, interface, is_there, times);
            }
        });
        if let Some(wifi) = &self.wifi {
            for interface in wifi.interfaces().unwrap_or_default() {
                let bssid = wifi.access_point(interface).map(|ap| ap.bssid);
                self.changes.access_point(now, interface, bssid);
            }
        }
        self.look_at_routes(now);
    }

    fn look_at_routes(&mut self, now: Time) {
        self.look = None;
        let mut all = Vec::new();
        if dump(GETROUTE, &[0; 12], |_, body| all.extend(default_routes(body).unwrap_or_default())).is_err() {
            return;
        }
        let mut hops = first_hops(all);
        for interface in self.changes.known() {
            for family in [Family::V4, Family::V6] {
                let hop = hops.remove(&(interface, family));
                self.changes.default_route(now, interface, family, hop);
            }
        }
        for ((interface, family), hop) in hops {
            self.changes.default_route(now, interface, family, Some(hop));
        }
    }

    /// Reads what is there.
    pub fn read(&mut self, now: Time) {
        let mut is_lost = false;
        while let Some(wifi) = &mut self.wifi {
            match wifi.poll() {
                Ok(all) => {
                    all.into_iter().for_each(|(interface, bssid)| self.changes.access_point(now, interface, bssid));
                }
                Err(e) => {
                    is_lost |= e.raw_os_error() == Some(libc::ENOBUFS);
                    if e.kind() == io::ErrorKind::WouldBlock || !is_lost {
                        break;
                    }
                }
            }
        }
        loop {
            match sys::receive(self.socket.as_raw_fd(), &mut self.buffer) {
                Ok(n) => {
                    for item in news(&self.buffer[..n]) {
                        self.take(now, item);
                    }
                }
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => is_lost = true,
                Err(_) => break,
            }
        }
        // The kernel dropped messages: what they said shows in how things are.
        if is_lost {
            self.look_around(now);
        }
    }

    fn take(&mut self, now: Time, item: News) {
        match item {
            News::Carrier(interface, is_there, times) => self.changes.carrier(now, interface, is_there, times),
            News::Removed(interface) => self.changes.removed(interface),
            News::Address(interface, address, is_there) => self.changes.address(now, interface, address, is_there),
            News::Routes => self.look = self.look.or(Some(now)),
        }
    }

    /// Changes of the path that take effect. `uses`: some connection is concerned.
    pub fn due(&mut self, now: Time, uses: impl FnMut(Change) -> bool) -> Vec<Change> {
        if self.look.is_some_and(|since| now.since(since) >= DEBOUNCE) {
            self.look_at_routes(now);
        }
        self.changes.due(now, uses)
    }

    /// How long a caller may wait before [`Watch::due`] has something, at most `otherwise`.
    pub fn wait(&self, now: Time, otherwise: Duration) -> Duration {
        let look = self.look.map(|since| since + DEBOUNCE);
        let first = [look, self.changes.next()].into_iter().flatten().min();
        first.map_or(otherwise, |at| Duration::from_nanos(at.since(now).as_ns()).min(otherwise))
    }
}

impl Change {
    /// A connection with this source has another path.
    pub fn concerns(&self, source: IpAddr) -> bool {
        match self.whose {
            Whose::All => true,
            Whose::Family(family) => Family::of(source) == family,
            Whose::Source(gone) => source == gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut all = u32::try_from(16 + body.len()).unwrap().to_ne_bytes().to_vec();
        all.extend(kind.to_ne_bytes());
        all.extend([0; 10]);
        all.extend(body);
        all
    }

    fn route(table: u8, kind: u8, length: u8, out: u32, hop: u8, preference: u8) -> Vec<u8> {
        let mut body = vec![10, length, 0, 0, table, 3, 0, kind, 0, 0, 0, 0];
        body.extend([8, 0, 15, 0, table, 0, 0, 0]); // RTA_TABLE
        body.extend([8, 0, 4, 0]);
        body.extend(out.to_ne_bytes());
        body.extend([20, 0, 5, 0]);
        body.extend([hop; 16]);
        body.extend([5, 0, 20, 0, preference, 0, 0, 0]);
        body
    }

    #[test]
    fn routes_addresses_and_carriers_are_read() {
        let mut bytes = message(NEWROUTE, &route(254, UNICAST, 0, 7, 1, 0));
        bytes.extend(message(DELROUTE, &route(LOCAL_TABLE, 2, 0, 7, 1, 0)));
        bytes.extend(message(NEWROUTE, &route(254, UNICAST, 64, 7, 1, 0)));
        let mut link = vec![0, 0, 1, 0];
        link.extend(3u32.to_ne_bytes());
        link.extend(LOWER_UP.to_ne_bytes());
        link.extend([0; 4]);
        bytes.extend(message(NEWLINK, &link));
        link.extend([8, 0, 47, 0, 5, 0, 0, 0]);
        bytes.extend(message(NEWLINK, &link));
        let mut gone = vec![2, 24, 0, 0, 3, 0, 0, 0];
        gone.extend([8, 0, 1, 0, 10, 0, 0, 1, 8, 0, 2, 0, 10, 0, 0, 2]);
        bytes.extend(message(DELADDR, &gone));
        let expected = [
            News::Routes,
            News::Carrier(3, true, None),
            News::Carrier(3, true, Some(5)),
            News::Address(3, IpAddr::from([10, 0, 0, 2]), false),
        ];
        assert_eq!(news(&bytes), expected);
    }

    #[test]
    fn the_first_next_hop_is_that_of_the_best_route() {
        let of = |table, out, hop, preference| default_routes(&route(table, UNICAST, 0, out, hop, preference)).unwrap();
        // The second is as good and came later, the third is of a router that calls itself bad.
        let all = [of(254, 7, 1, 0), of(254, 7, 2, 0), of(254, 7, 3, 3), of(100, 7, 4, 1), of(254, 8, 5, 0)].concat();
        let best = first_hops(all.clone());
        assert_eq!(
            (best[&(7, Family::V6)].as_slice(), best[&(8, Family::V6)].as_slice()),
            (&[1; 16][..], &[5; 16][..])
        );
        let better = first_hops([all, of(254, 7, 6, 1)].concat());
        assert_eq!(better[&(7, Family::V6)], [6; 16]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 16u16..27, plausible: bool) {
            if plausible && bytes.len() >= 16 {
                let length = u32::try_from(bytes.len()).unwrap();
                bytes[..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            }
            news(&bytes);
        }
    }
}
