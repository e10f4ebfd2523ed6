//! When has the path of an interface changed? From the kernel's routing messages, and from those of Wi-Fi where there are any.
//!
//! A change is: a route other than that of the host itself comes or goes, an address comes or goes, a carrier comes back. Messages come in
//! bunches, so a change counts once [`DEBOUNCE`] has passed since the last.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use airtcp_core::units::{Span, Time};

use crate::sys;

pub mod wifi;

/// Messages closer together than this are one change.
pub const DEBOUNCE: Span = Span::from_ms(50);

const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400; // link, addresses and routes of IPv4, of IPv6

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
const LOCAL_TABLE: u8 = 255;
const UNICAST: u8 = 1;
const CLONED: u32 = 0x200;
const LOWER_UP: u32 = 0x10000;
const OUT_INTERFACE: u16 = 4;

/// What a message tells of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Its path is another one. 0: it is not said of which.
    Changed(u32),
    /// Its carrier is there or not.
    Carrier(u32, bool),
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

/// The messages of one datagram: kind and what is behind the header. What cannot be read ends them.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (u32_at(bytes, 0)? as usize, u16_at(bytes, 4)?);
        let body = bytes.get(16..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// The news of one datagram of routing messages. What cannot be read is left out.
pub fn news(bytes: &[u8]) -> Vec<News> {
    messages(bytes).filter_map(|(kind, body)| one(kind, body)).collect()
}

fn one(kind: u16, body: &[u8]) -> Option<News> {
    match kind {
        NEWLINK => Some(News::Carrier(u32_at(body, 4)?, u32_at(body, 8)? & LOWER_UP != 0)),
        DELLINK => Some(News::Carrier(u32_at(body, 4)?, false)),
        NEWADDR | DELADDR => Some(News::Changed(u32_at(body, 4)?)),
        NEWROUTE | DELROUTE => {
            let (table, route, flags) = (*body.get(4)?, *body.get(7)?, u32_at(body, 8)?);
            if table == LOCAL_TABLE || route != UNICAST || flags & CLONED != 0 {
                return None;
            }
            let out = attribute(body.get(12..)?, OUT_INTERFACE).and_then(|value| u32_at(value, 0));
            Some(News::Changed(out.unwrap_or(0)))
        }
        _ => None,
    }
}

/// Hears the kernel, and tells which interfaces have a changed path.
#[derive(Debug)]
pub struct Watch {
    socket: OwnedFd,
    wifi: Option<wifi::Wifi>,
    carriers: BTreeMap<u32, bool>,
    /// Interfaces with a change, and when the last message came.
    pending: BTreeMap<u32, Time>,
    buffer: Vec<u8>,
}

impl Watch {
    /// Of this namespace.
    pub fn new() -> io::Result<Watch> {
        let socket = sys::netlink(libc::NETLINK_ROUTE, GROUPS)?;
        // A kernel that refuses to say is one without.
        let wifi = wifi::Wifi::new().unwrap_or(None);
        Ok(Watch { socket, wifi, carriers: BTreeMap::new(), pending: BTreeMap::new(), buffer: vec![0; 1 << 16] })
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
            "changes of the path: Wi-Fi's connect, roam and disconnect, routes, addresses and carriers"
        } else {
            "changes of the path: routes, addresses and carriers; this kernel has no nl80211"
        }
    }

    /// The access point of an interface; `None`: it is not known.
    pub fn access_point(&self, interface: u32) -> Option<wifi::AccessPoint> {
        self.wifi.as_ref()?.access_point(interface)
    }

    /// Reads what is there.
    pub fn read(&mut self, now: Time) {
        while let Some(wifi) = &mut self.wifi {
            match wifi.poll() {
                Ok(Some(interfaces)) => interfaces.into_iter().for_each(|i| self.take(now, News::Changed(i))),
                Ok(None) => break,
                Err(e) => {
                    if e.raw_os_error() != Some(libc::ENOBUFS) {
                        break;
                    }
                    self.pending.insert(0, now);
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
                // The kernel dropped messages: whatever they said, some path may be another one.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    self.pending.insert(0, now);
                }
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, now: Time, item: News) {
        match item {
            News::Changed(interface) => {
                self.pending.insert(interface, now);
            }
            News::Carrier(interface, is_up) => {
                let before = self.carriers.insert(interface, is_up);
                if before == Some(false) && is_up {
                    self.pending.insert(interface, now);
                }
            }
        }
    }

    /// Interfaces whose path has changed and been quiet since; 0 stands for all.
    pub fn due(&mut self, now: Time) -> Vec<u32> {
        let due: Vec<u32> =
            self.pending.iter().filter(|(_, at)| now.since(**at) >= DEBOUNCE).map(|(i, _)| *i).collect();
        for interface in &due {
            self.pending.remove(interface);
        }
        due
    }

    /// How long a caller may wait before [`Watch::due`] has something, at most `otherwise`.
    pub fn wait(&self, now: Time, otherwise: Duration) -> Duration {
        let first = self.pending.values().min().copied();
        first.map_or(otherwise, |at| {
            let left = DEBOUNCE.saturating_sub(now.since(at));
            Duration::from_nanos(left.as_ns()).min(otherwise)
        })
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

    fn route(table: u8, kind: u8, out: u32) -> Vec<u8> {
        let mut body = vec![2, 0, 0, 0, table, 3, 0, kind, 0, 0, 0, 0];
        body.extend([8, 0, 15, 0, 254, 0, 0, 0]); // RTA_TABLE
        body.extend([8, 0, 4, 0]);
        body.extend(out.to_ne_bytes());
        body
    }

    #[test]
    fn routes_and_carriers_are_read() {
        let mut bytes = message(NEWROUTE, &route(254, UNICAST, 7));
        bytes.extend(message(DELROUTE, &route(LOCAL_TABLE, 2, 7)));
        let mut link = vec![0, 0, 1, 0];
        link.extend(3u32.to_ne_bytes());
        link.extend(LOWER_UP.to_ne_bytes());
        link.extend([0; 4]);
        bytes.extend(message(NEWLINK, &link));
        assert_eq!(news(&bytes), [News::Changed(7), News::Carrier(3, true)]);
    }

    #[test]
    fn a_bunch_is_one_change_once_it_is_quiet() {
        let mut w = Watch::new().unwrap();
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        w.take(at(0), News::Changed(2));
        w.take(at(40), News::Changed(2));
        w.take(at(0), News::Carrier(5, true)); // as it was found
        assert_eq!(w.due(at(60)), Vec::<u32>::new());
        assert_eq!(w.wait(at(60), Duration::from_secs(1)), Duration::from_millis(30));
        assert_eq!(w.due(at(90)), [2]);
        w.take(at(0), News::Carrier(5, false));
        w.take(at(0), News::Carrier(5, true));
        assert_eq!(w.due(at(90)), [5]);
        assert_eq!(w.due(at(90)), Vec::<u32>::new());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 16u16..26, plausible: bool) {
            if plausible && bytes.len() >= 16 {
                let length = u32::try_from(bytes.len()).unwrap();
                bytes[..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            }
            news(&bytes);
        }
    }
}
