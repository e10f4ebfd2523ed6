//! How far apart do segments leave an interface? Beside RTT / cwnd of their connection, as the
//! study pacing-buffers spaces them.
//!
//! A packet socket gives the time at which each packet went to the driver, sock_diag the windows
//! and round trips of that moment.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use airtcp_core::units::{Span, Time};

use crate::monitor::{Seen, ask};
use crate::sys;
use crate::sys::packets::{self, Sent};

/// Gaps may be so much off RTT / cwnd, at their 5th and 95th percentile.
pub const TOLERANCE: f64 = 0.2;
/// With fewer gaps nothing is said.
pub const LEAST_GAPS: usize = 100;
/// How often windows are asked for.
const ASK_EVERY: Span = Span::from_ms(10);
/// A window counts for gaps this close to it.
const VALID: Span = Span::from_ms(25);

/// Gaps beside RTT / cwnd.
#[derive(Debug, Clone, PartialEq)]
pub struct Spacing {
    /// Gaps between segments of a connection that filled its window.
    pub gaps: usize,
    /// Connections.
    pub flows: usize,
    /// Percentiles 5, 50 and 95 of gap / (RTT / cwnd).
    pub ratios: [f64; 3],
    /// Median of RTT / cwnd, us.
    pub expected_us: f64,
    /// Mean number of segments that left together.
    pub burst: f64,
}

impl Spacing {
    /// Both percentiles are within the tolerance.
    pub fn passes(&self) -> bool {
        [self.ratios[0], self.ratios[2]].iter().all(|ratio| (ratio - 1.0).abs() <= TOLERANCE)
    }

    /// As a person reads it.
    pub fn report(&self) -> String {
        let [low, middle, high] = self.ratios;
        format!(
            "{} gaps of {} connections, RTT / cwnd {:.0} us: 5 % of gaps below {low:.2} of it, median {middle:.2}, 5 % above {high:.2}; {:.2} segments leave together",
            self.gaps, self.flows, self.expected_us, self.burst
        )
    }
}

/// A connection by its addresses and ports, this host's first.
type Name = ([IpAddr; 2], (u16, u16));

/// The segments of one packet.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Segment {
    name: Name,
    payload: usize,
}

/// The TCP segment in an IP packet; `None`: it carries no data of TCP.
fn segment(packet: &[u8], length: usize) -> Option<Segment> {
    let port = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let (ends, tcp) = match packet.first()? >> 4 {
        4 if packet.get(9) == Some(&6) => {
            let address =
                |at: usize| Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?)));
            ([address(12)?, address(16)?], usize::from(packet.first()? & 15) * 4)
        }
        6 if packet.get(6) == Some(&6) => {
            let address = |at: usize| {
                let octets = <[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?;
                Some(IpAddr::V6(Ipv6Addr::from(octets)))
            };
            ([address(8)?, address(24)?], 40)
        }
        _ => return None,
    };
    let header = usize::from(packet.get(tcp + 12)? >> 4) * 4;
    let payload = length.checked_sub(tcp + header).filter(|n| *n > 0)?;
    Some(Segment { name: (ends, (port(tcp)?, port(tcp + 2)?)), payload })
}

/// The spacing that a connection's window asks for, as it was last seen.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Time,
    gap_ns: f64,
    mss: usize,
    fills: bool,
}

#[derive(Debug, Default)]
struct Measured {
    asked: BTreeMap<Name, Asked>,
    last: BTreeMap<Name, Time>,
    /// Gap and what was asked for, ns.
    gaps: Vec<(f64, f64)>,
    flows: BTreeMap<Name, ()>,
    together: u64,
    groups: u64,
}

impl Measured {
    fn window(&mut self, seen: &Seen) {
        let name = (seen.ends.map(|end| end.to_canonical()), seen.ports);
        // A sender that its window does not limit leaves longer gaps, and one in recovery others.
        let in_flight = u64::from(seen.in_flight());
        let fills = seen.lost_out == 0 && seen.cwnd >= 4 && in_flight * 10 >= u64::from(seen.cwnd) * 7;
        let gap_ns = f64::from(seen.srtt_us) * 1000.0 / f64::from(seen.cwnd.max(1));
        let asked = Asked { at: seen.at, gap_ns, mss: seen.mss.max(1) as usize, fills };
        self.asked.insert(name, asked);
    }

    fn packet(&mut self, at: Time, segment: &Segment) {
        let before = self.last.insert(segment.name, at);
        let Some(asked) =
            self.asked.get(&segment.name).filter(|a| a.fills && at.since(a.at).max(a.at.since(at)) < VALID)
        else {
            return;
        };
        let Some(before) = before else { return };
        let gap = at.since(before).as_ns() as f64;
        self.flows.insert(segment.name, ());
        self.gaps.push((gap, asked.gap_ns));
        // Segments of one packet leave without a gap.
        let more = segment.payload.div_ceil(asked.mss).saturating_sub(1);
        self.gaps.extend(std::iter::repeat_n((0.0, asked.gap_ns), more));
        self.together += 1 + more as u64;
        self.groups += u64::from(gap >= asked.gap_ns / 10.0);
    }

    fn end(self) -> Option<Spacing> {
        if self.gaps.len() < LEAST_GAPS {
            return None;
        }
        let mut ratios: Vec<f64> = self.gaps.iter().map(|(gap, asked)| gap / asked.max(1.0)).collect();
        let mut asked: Vec<f64> = self.gaps.iter().map(|(_, asked)| asked / 1000.0).collect();
        ratios.sort_by(f64::total_cmp);
        asked.sort_by(f64::total_cmp);
        let at = |all: &[f64], percent: usize| all[(all.len() - 1) * percent / 100];
        Some(Spacing {
            gaps: ratios.len(),
            flows: self.flows.len(),
            ratios: [at(&ratios, 5), at(&ratios, 50), at(&ratios, 95)],
            expected_us: at(&asked, 50),
            burst: self.together as f64 / self.groups.max(1) as f64,
        })
    }
}

/// Watches an interface. `None`: no connection filled its window long enough.
pub fn measure(interface: &str, span: Duration) -> Result<Option<Spacing>, String> {
    let index = sys::interface_index(interface)
        .ok_or_else(|| format!("--interface {interface}: there is no interface of that name; `ip link` lists them"))?;
    let fault = |e: io::Error| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "the spacing cannot be measured: no CAP_NET_RAW; run it as root, or use --for 0s for the settings alone"
                .to_owned()
        }
        _ => format!("the spacing on {interface} cannot be measured: {e}"),
    };
    let socket = packets::open(index).map_err(fault)?;
    let diag = sys::netlink(libc::NETLINK_SOCK_DIAG, 0).map_err(fault)?;
    let mut measured = Measured::default();
    let (mut buffer, mut answer) = ([0; 256], vec![0; 1 << 17]);
    let begin = sys::monotonic();
    // The packet socket has the clock of the wall.
    let offset = sys::realtime().since(begin);
    let mut next = begin;
    loop {
        let now = sys::monotonic();
        if now.since(begin) >= sys::span(span) {
            return Ok(measured.end());
        }
        if now >= next {
            next = now + ASK_EVERY;
            ask(diag.as_raw_fd(), &mut answer, |seen, _| {
                measured.window(&seen);
                Ok(())
            })?;
        }
        sys::readable(&[socket.as_raw_fd()], Duration::from_nanos(next.since(now).as_ns())).map_err(fault)?;
        while let Some(Sent { at, length }) = packets::next(socket.as_raw_fd(), &mut buffer).map_err(fault)? {
            if let Some(segment) = segment(&buffer[..length.min(buffer.len())], length) {
                measured.packet(at - offset, &segment);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> Name {
        let address = |n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n));
        ([address(1), address(2)], (1000, 2000))
    }

    #[test]
    fn a_segment_is_found_in_its_packet() {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0x03, 0xe8, 0x07, 0xd0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x10]);
        packet.resize(20 + 32, 0);
        assert_eq!(segment(&packet, 1500), Some(Segment { name: name(), payload: 1448 }));
        assert_eq!(segment(&packet, 52), None, "an ACK");
        packet[9] = 17;
        assert_eq!(segment(&packet, 1500), None, "UDP");
    }

    /// Packets of `segments` every `gap_us`, of a connection that asks for 500 us.
    fn spaced(gap_us: u64, segments: usize, fills: bool) -> Option<Spacing> {
        let mut m = Measured::default();
        for n in 0..400 {
            let at = Time::ZERO + Span::from_secs(1) + Span::from_us(n * gap_us);
            m.asked.insert(name(), Asked { at, gap_ns: 500_000.0, mss: 1448, fills });
            m.packet(at, &Segment { name: name(), payload: 1448 * segments });
        }
        m.end()
    }

    #[test]
    fn gaps_are_held_against_the_window() {
        let even = spaced(500, 1, true).unwrap();
        assert!(even.passes() && even.burst == 1.0 && even.ratios == [1.0; 3], "{even:?}");
        let pairs = spaced(1000, 2, true).unwrap();
        assert!(!pairs.passes() && pairs.burst == 2.0 && pairs.ratios == [0.0, 0.0, 2.0], "{pairs:?}");
        assert!(spaced(550, 1, true).unwrap().passes() && !spaced(610, 1, true).unwrap().passes());
        assert_eq!(spaced(500, 1, false), None, "its window does not limit it");
    }

    proptest! {
        #[test]
        fn any_packet_is_read(bytes in prop::collection::vec(any::<u8>(), 0..100), length in 0..2000usize) {
            segment(&bytes, length);
        }
    }
}
