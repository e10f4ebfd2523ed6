//! Wi-Fi's own news of a path: connect, roam and disconnect, by the family nl80211 of generic
//! netlink. Not every kernel has it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::{attribute, messages, u16_at, u32_at};
use crate::sys;

/// Address of an access point's radio.
pub type Bssid = [u8; 6];

const CONTROL: u16 = 16; // GENL_ID_CTRL
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;

const GET_INTERFACE: u8 = 5;
const NEW_INTERFACE: u8 = 7;
const GET_STATION: u8 = 17;
const NEW_STATION: u8 = 19;
const CONNECT: u8 = 46;
const ROAM: u8 = 47;
const DISCONNECT: u8 = 48;
const INTERFACE: u16 = 3;
const ADDRESS: u16 = 6;
const STATUS: u16 = 72;

const STATION_INFO: u16 = 21;
const RATES: [u16; 2] = [8, 14]; // of what is sent, of what is received
const RATE: u16 = 5; // in 100 kbit/s
const SHORT_RATE: u16 = 1; // the same in 16 bits

// Attributes of a station: `enum nl80211_sta_info`, `nl80211_tid_stats` and `nl80211_txq_stats` of
// `include/uapi/linux/nl80211.h`, Linux 6.12.
const SIGNAL: u16 = 7;
const SENT_PACKETS: u16 = 10;
const RETRIES: u16 = 11;
const FAILED: u16 = 12;
const EXPECTED: u16 = 27; // kbit/s
const TID_STATS: u16 = 31;
const TXQ_STATS: u16 = 6;
const TXQ_BYTES: u16 = 1;
const TXQ_PACKETS: u16 = 2;
const TXQ_DROPS: u16 = 4;
const TXQ_MARKS: u16 = 5;
/// TIDs of QoS, and one for frames without.
const TIDS: u16 = 17;

const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A family of generic netlink: its number, and the number of one of its groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Family {
    id: u16,
    group: u32,
}

fn request(kind: u16, flags: u16, command: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = vec![command, 1, 0, 0];
    for (name, value) in attributes {
        body.extend(u16::try_from(4 + value.len()).unwrap_or(4).to_ne_bytes());
        body.extend(name.to_ne_bytes());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let mut all = u32::try_from(16 + body.len()).unwrap_or(0).to_ne_bytes().to_vec();
    all.extend(kind.to_ne_bytes());
    all.extend((1 | flags).to_ne_bytes());
    all.extend([0; 8]);
    all.extend(body);
    all
}

/// Family and group of an answer.
fn family_of(body: &[u8], group: &str) -> Option<Family> {
    let attributes = body.get(4..)?;
    let id = u16_at(attribute(attributes, FAMILY_ID)?, 0)?;
    let mut groups = attribute(attributes, GROUPS)?;
    while let Some(length) = u16_at(groups, 0).map(usize::from) {
        let one = groups.get(4..length)?;
        let name = attribute(one, GROUP_NAME)?;
        if name.strip_suffix(&[0]) == Some(group.as_bytes()) {
            return Some(Family { id, group: u32_at(attribute(one, GROUP_ID)?, 0)? });
        }
        groups = groups.get(length.next_multiple_of(4)..)?;
    }
    None
}

fn family(name: &str, group: &str) -> io::Result<Option<Family>> {
    let socket = sys::netlink(libc::NETLINK_GENERIC, 0)?;
    let name = [name.as_bytes(), &[0]].concat();
    sys::send(socket.as_raw_fd(), &request(CONTROL, 0, GET_FAMILY, &[(FAMILY_NAME, &name)]))?;
    let mut buffer = vec![0; 1 << 16];
    if sys::readable(&[socket.as_raw_fd()], Duration::from_secs(1))? != [true] {
        return Ok(None);
    }
    let n = sys::receive(socket.as_raw_fd(), &mut buffer)?;
    Ok(messages(&buffer[..n]).find_map(|(kind, body)| if kind == CONTROL { family_of(body, group) } else { None }))
}

/// Reads a message: the interface, and its access point from now on; `None`: it has none.
fn news(body: &[u8]) -> Option<(u32, Option<Bssid>)> {
    let (command, attributes) = (*body.first()?, body.get(4..)?);
    let interface = u32_at(attribute(attributes, INTERFACE)?, 0)?;
    match command {
        CONNECT => {
            // A number that is not 0 tells of a try that failed.
            let status = attribute(attributes, STATUS).and_then(|value| u16_at(value, 0)).unwrap_or(0);
            (status == 0).then(|| (interface, bssid(attributes)))
        }
        ROAM => Some((interface, bssid(attributes))),
        DISCONNECT => Some((interface, None)),
        _ => None,
    }
}

fn bssid(attributes: &[u8]) -> Option<Bssid> {
    attribute(attributes, ADDRESS)?.try_into().ok()
}

/// Facts that the kernel tells of an access point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessPoint {
    /// Address of its radio.
    pub bssid: Bssid,
    /// The greater of the data rates of the last frames to and from it, kbit/s.
    pub kbps: Option<u64>,
}

fn access_point(body: &[u8]) -> Option<AccessPoint> {
    let station = station(body)?;
    let kbps = [station.sent_kbps, station.received_kbps].into_iter().flatten().max();
    Some(AccessPoint { bssid: station.address, kbps })
}

/// Facts that the kernel tells of the far end of a link: a station of this access point, or the
/// access point of this station. `None`: the driver does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Address of its radio.
    pub address: Bssid,
    /// Data rate of the last frame to it, kbit/s.
    pub sent_kbps: Option<u64>,
    /// Data rate of the last frame from it, kbit/s.
    pub received_kbps: Option<u64>,
    /// Throughput that rate control expects, kbit/s.
    pub expected_kbps: Option<u64>,
    /// Packets sent to it.
    pub sent: Option<u32>,
    /// Frames repeated to it.
    pub retries: Option<u32>,
    /// Packets given up.
    pub failed: Option<u32>,
    /// Strength of the last frame from it, dBm.
    pub signal_dbm: Option<i8>,
    /// Packets that mac80211 holds for it.
    pub queue: Option<StationQueue>,
}

/// mac80211's queues for a station, all TIDs together. They are FQ-CoDel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StationQueue {
    /// Packets that wait.
    pub packets: u32,
    /// Bytes that wait.
    pub bytes: u32,
    /// Packets dropped since it is there.
    pub dropped: u32,
    /// Packets marked since it is there.
    pub marked: u32,
}

fn station(body: &[u8]) -> Option<Station> {
    let attributes = body.get(4..)?;
    if body.first() != Some(&NEW_STATION) {
        return None;
    }
    let info = attribute(attributes, STATION_INFO).unwrap_or_default();
    let rate = |kind| {
        let rate = attribute(info, kind)?;
        let long = attribute(rate, RATE).and_then(|value| u32_at(value, 0));
        let units = long.or_else(|| attribute(rate, SHORT_RATE).and_then(|value| u16_at(value, 0)).map(u32::from));
        units.map(|units| u64::from(units) * 100)
    };
    let count = |kind| u32_at(attribute(info, kind)?, 0);
    Some(Station {
        address: bssid(attributes)?,
        sent_kbps: rate(RATES[0]),
        received_kbps: rate(RATES[1]),
        expected_kbps: count(EXPECTED).map(u64::from),
        sent: count(SENT_PACKETS),
        retries: count(RETRIES),
        failed: count(FAILED),
        signal_dbm: attribute(info, SIGNAL).and_then(|value| value.first()).map(|&byte| i8::from_ne_bytes([byte])),
        queue: attribute(info, TID_STATS).and_then(station_queue),
    })
}

fn station_queue(tids: &[u8]) -> Option<StationQueue> {
    let queues = (1..=TIDS).filter_map(|tid| attribute(attribute(tids, tid)?, TXQ_STATS));
    queues.fold(None, |sum: Option<StationQueue>, queue| {
        let sum = sum.unwrap_or_default();
        let plus =
            |old: u32, kind| old.saturating_add(attribute(queue, kind).and_then(|value| u32_at(value, 0)).unwrap_or(0));
        Some(StationQueue {
            packets: plus(sum.packets, TXQ_PACKETS),
            bytes: plus(sum.bytes, TXQ_BYTES),
            dropped: plus(sum.dropped, TXQ_DROPS),
            marked: plus(sum.marked, TXQ_MARKS),
        })
    })
}

fn interface(body: &[u8]) -> Option<u32> {
    let attributes = body.get(4..).filter(|_| body.first() == Some(&NEW_INTERFACE))?;
    u32_at(attribute(attributes, INTERFACE)?, 0)
}

/// Hears Wi-Fi.
#[derive(Debug)]
pub struct Wifi {
    socket: OwnedFd,
    family: u16,
    buffer: Vec<u8>,
}

impl Wifi {
    /// Watches this namespace; `None`: the kernel has no nl80211.
    pub fn new() -> io::Result<Option<Wifi>> {
        let Some(family) = family("nl80211", "mlme")? else { return Ok(None) };
        let socket = sys::netlink(libc::NETLINK_GENERIC, 0)?;
        sys::join_group(socket.as_raw_fd(), family.group)?;
        Ok(Some(Wifi { socket, family: family.id, buffer: vec![0; 1 << 16] }))
    }

    /// Readable when there is news.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The next interfaces of which an access point is told, and which; `None` of one: it has none.
    /// `Err`: nothing waits (`WouldBlock`), or messages were lost.
    pub fn poll(&mut self) -> io::Result<Vec<(u32, Option<Bssid>)>> {
        let n = sys::receive(self.socket.as_raw_fd(), &mut self.buffer)?;
        let all = messages(&self.buffer[..n]).filter(|(kind, _)| *kind == self.family);
        Ok(all.filter_map(|(_, body)| news(body)).collect())
    }

    /// The access point of an interface; `None`: it has none, or more than one peer as an access
    /// point itself has.
    pub fn access_point(&self, interface: u32) -> Option<AccessPoint> {
        let mut found = self.all(GET_STATION, Some(interface), access_point)?;
        if found.len() == 1 { found.pop() } else { None }
    }

    /// All interfaces of Wi-Fi.
    pub fn interfaces(&self) -> Option<Vec<u32>> {
        self.all(GET_INTERFACE, None, interface)
    }

    /// The stations of an interface.
    pub fn stations(&self, interface: u32) -> Option<Vec<Station>> {
        self.all(GET_STATION, Some(interface), station)
    }

    /// Asks for all of a kind; `None`: the kernel does not answer.
    fn all<T>(&self, command: u8, interface: Option<u32>, read: fn(&[u8]) -> Option<T>) -> Option<Vec<T>> {
        const DUMP: u16 = 0x300;
        let socket = sys::netlink(libc::NETLINK_GENERIC, 0).ok()?;
        let fd = socket.as_raw_fd();
        let index = interface.map(u32::to_ne_bytes);
        let attributes: Vec<(u16, &[u8])> = index.iter().map(|index| (INTERFACE, &index[..])).collect();
        sys::send(fd, &request(self.family, DUMP, command, &attributes)).ok()?;
        let (mut buffer, mut found) = (vec![0; 1 << 16], Vec::new());
        loop {
            if sys::readable(&[fd], Duration::from_millis(500)).ok()? != [true] {
                return None;
            }
            let n = sys::receive(fd, &mut buffer).ok()?;
            for (kind, body) in messages(&buffer[..n]) {
                if kind == DONE || kind == ERROR {
                    return Some(found);
                }
                if kind == self.family {
                    found.extend(read(body));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(command: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        request(0, 0, command, attributes)[16..].to_vec()
    }

    #[test]
    fn connect_roam_and_disconnect_are_read() {
        let (index, address) = (7u32.to_ne_bytes(), [2, 0, 0, 0, 1, 0]);
        let wiphy: (u16, &[u8]) = (1, &[0, 0, 0, 0]);
        let of = |command, status: u16| {
            news(&body(command, &[wiphy, (INTERFACE, &index), (ADDRESS, &address), (STATUS, &status.to_ne_bytes())]))
        };
        assert_eq!(of(CONNECT, 0), Some((7, Some(address))));
        assert_eq!(of(CONNECT, 17), None, "a try that failed");
        assert_eq!(of(ROAM, 0), Some((7, Some(address))));
        assert_eq!(of(NEW_STATION, 0), None);
        assert_eq!(news(&body(DISCONNECT, &[wiphy, (INTERFACE, &index)])), Some((7, None)));
        assert_eq!(news(&body(ROAM, &[wiphy])), None, "of no interface");
    }

    #[test]
    fn an_access_point_and_its_rate_are_read() {
        let address = [2, 0, 0, 0, 1, 0];
        let nested = |attributes: &[(u16, &[u8])]| body(0, attributes)[4..].to_vec();
        let (sent, received) = (nested(&[(SHORT_RATE, &[0x20, 0x03])]), nested(&[(RATE, &8667u32.to_ne_bytes())]));
        let info = nested(&[(RATES[0], &sent), (RATES[1], &received)]);
        let of = |command, info: &[u8]| access_point(&body(command, &[(ADDRESS, &address), (STATION_INFO, info)]));
        assert_eq!(of(NEW_STATION, &info), Some(AccessPoint { bssid: address, kbps: Some(866_700) }));
        let slow = nested(&[(RATES[0], &sent)]);
        assert_eq!(of(NEW_STATION, &slow).unwrap().kbps, Some(80_000));
        assert_eq!(of(NEW_STATION, &[]).unwrap().kbps, None);
        assert_eq!(of(ROAM, &info), None);
    }

    #[test]
    fn a_station_is_read() {
        let nested = |attributes: &[(u16, &[u8])]| body(0, attributes)[4..].to_vec();
        let word = |value: u32| value.to_ne_bytes();
        let queue = |packets: u32| {
            let stats =
                nested(&[(TXQ_BYTES, &word(1500 * packets)), (TXQ_PACKETS, &word(packets)), (TXQ_DROPS, &word(1))]);
            nested(&[(TXQ_STATS | 0x8000, &stats)])
        };
        let tids = nested(&[(1, &queue(3)), (2, &[]), (7, &queue(4))]);
        let rate = nested(&[(RATE, &word(650))]);
        let all: [(u16, &[u8]); 7] = [
            (RATES[0], &rate),
            (SIGNAL, &[200]),
            (SENT_PACKETS, &word(90)),
            (RETRIES, &word(12)),
            (FAILED, &word(2)),
            (EXPECTED, &word(41_000)),
            (TID_STATS, &tids),
        ];
        let info = nested(&all);
        let found = station(&body(NEW_STATION, &[(ADDRESS, &[2, 0, 0, 0, 1, 0]), (STATION_INFO, &info)])).unwrap();
        assert_eq!((found.sent_kbps, found.received_kbps, found.expected_kbps), (Some(65_000), None, Some(41_000)));
        assert_eq!((found.sent, found.retries, found.failed), (Some(90), Some(12), Some(2)));
        assert_eq!(found.signal_dbm, Some(-56));
        assert_eq!(found.queue, Some(StationQueue { packets: 7, bytes: 10_500, dropped: 2, marked: 0 }));
        assert_eq!(interface(&body(NEW_INTERFACE, &[(INTERFACE, &word(9))])), Some(9));
    }

    /// The control family describes itself: the same message that describes nl80211 where it
    /// exists.
    #[test]
    fn a_family_is_found_by_its_name() {
        let control = family("nlctrl", "notify").unwrap().expect("every kernel has it");
        assert_eq!((control.id, control.group), (CONTROL, u32::from(CONTROL)));
        assert_eq!(family("nlctrl", "no such").unwrap(), None);
        assert_eq!(family("no such", "notify").unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            news(&bytes);
            family_of(&bytes, "mlme");
            access_point(&bytes);
            station_queue(&bytes);
            interface(&bytes);
        }
    }
}
