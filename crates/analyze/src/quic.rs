//! QUIC (RFC 9000), as far as it shows: the packets' first bytes, sizes and times. Frames are
//! encrypted, so losses, windows and acknowledgements are not to be seen (RFC 9312).

use airtcp_core::units::{Span, Time};
use hashbrown::HashMap;

use crate::decode::{Datagram, Endpoint};
use crate::tables::{QuicRow, Rows};

const HTTPS: u16 = 443;
/// First byte of a packet (RFC 9000 section 17, RFC 8999 section 5.1).
const LONG_HEADER: u8 = 0x80;
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;
/// Connections followed; beyond, further ones are not.
const CONNECTIONS: usize = 50_000;
/// Packets from which on a connection without a handshake counts as one, if each has the fixed bit.
const TELLING: u64 = 10;
/// A short header, an identifier of up to 20 bytes, an ACK frame and the tag of 16 bytes fit in.
const ACK_BYTES: u32 = 60;
/// A pause of the sender of most bytes that counts as a stall: several round trips, and so long.
const STALL: Span = Span::from_ms(200);
const STALL_ROUND_TRIPS: u64 = 4;
/// An endpoint that does not spin sets the bit at random, in each packet or once (RFC 9000 section
/// 17.4). A bit that spins keeps its value for a round trip: so many packets on the average.
const PACKETS_PER_SPIN: u64 = 4;
const LEAST_SPINS: u64 = 3;
/// Reordering around an edge of the bit makes short periods (RFC 9312 section 3.8.2); those below
/// this part of the mean so far are left out.
const SHORT_PERIOD: u64 = 4;

#[derive(Debug, Default)]
struct Direction {
    packets: u64,
    bytes: u64,
    largest: u32,
    small: u64,
    first: Option<Time>,
    last: Option<Time>,
    /// Pauses that were stalls.
    stalls: u64,
    stalled: Span,
    longest_pause: Span,
    spin: Option<bool>,
    edge: Option<Time>,
    short_headers: u64,
    spins: u64,
    periods: u64,
    period_sum: Span,
    period_min: Option<Span>,
    period_max: Span,
}

#[derive(Debug)]
struct Connection {
    client: Endpoint,
    server: Endpoint,
    version: Option<u32>,
    plain: bool,
    first: Time,
    /// First packet of the client, of the server, and of the client after that.
    handshake: [Option<Time>; 3],
    /// Handshake packets of the client before the server's first.
    asked: u64,
    /// From client and from server.
    ways: [Direction; 2],
    place: u32,
}

/// Connections of QUIC in a capture.
#[derive(Debug, Default)]
pub(crate) struct Quic {
    by_ends: HashMap<(u32, Endpoint, Endpoint), usize>,
    connections: Vec<Connection>,
}

/// A version of IETF QUIC: 1, 2, a draft, or one reserved to force negotiation.
fn is_version(version: u32) -> bool {
    matches!(version, 1 | 0x6b33_43cf) || version >> 8 == 0x00ff_0000 || version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

impl Quic {
    /// A datagram of UDP passed at `place`. False: it belongs to no connection.
    pub(crate) fn on_datagram(&mut self, now: Time, place: u32, datagram: &Datagram) -> bool {
        let Some(&first) = datagram.payload.first() else { return false };
        let (source, destination) = (datagram.source, datagram.destination);
        let ends = if source <= destination { (place, source, destination) } else { (place, destination, source) };
        let version = match datagram.payload {
            [_, a, b, c, d, ..] if first & LONG_HEADER != 0 => Some(u32::from_be_bytes([*a, *b, *c, *d])),
            _ => None,
        };
        let at = match self.by_ends.get(&ends) {
            Some(&at) => at,
            None => {
                let begins = first & FIXED != 0 && version.is_some_and(is_version);
                let perhaps =
                    first & (FIXED | LONG_HEADER) == FIXED && (source.port == HTTPS || destination.port == HTTPS);
                if !(begins || perhaps) || self.connections.len() >= CONNECTIONS {
                    return false;
                }
                let from_server = source.port == HTTPS && destination.port != HTTPS;
                let (client, server) = if from_server { (destination, source) } else { (source, destination) };
                self.by_ends.insert(ends, self.connections.len());
                self.connections.push(Connection::new(now, place, client, server));
                self.connections.len() - 1
            }
        };
        self.connections[at].on_datagram(now, datagram, first, version);
        true
    }

    /// Rows of all connections that were QUIC. Returns the packets of the others.
    pub(crate) fn finish(&mut self, rows: &mut Rows) -> u64 {
        self.by_ends.clear();
        let mut others = 0;
        for connection in self.connections.drain(..) {
            if connection.is_quic() {
                rows.quic.push(connection.row());
            } else {
                others += connection.ways.iter().map(|way| way.packets).sum::<u64>();
            }
        }
        others
    }
}

impl Connection {
    fn new(first: Time, place: u32, client: Endpoint, server: Endpoint) -> Connection {
        Connection {
            client,
            server,
            version: None,
            plain: true,
            first,
            handshake: [None; 3],
            asked: 0,
            ways: Default::default(),
            place,
        }
    }

    fn is_quic(&self) -> bool {
        let packets: u64 = self.ways.iter().map(|way| way.packets).sum();
        self.version.is_some() || (self.plain && packets >= TELLING && self.ways.iter().all(|way| way.packets > 0))
    }

    fn on_datagram(&mut self, now: Time, datagram: &Datagram, first: u8, version: Option<u32>) {
        let from_client = datagram.source == self.client;
        // Version negotiation has no fixed bit.
        self.plain &= first & FIXED != 0 || version == Some(0);
        if let Some(version) = version.filter(|&v| v != 0 && is_version(v)) {
            self.version = Some(version);
            self.on_handshake(now, from_client);
        } else if from_client && self.handshake[1].is_some() && self.handshake[2].is_none() {
            self.handshake[2] = Some(now);
        }
        let floor = self.round_trip().map_or(STALL, |rtt| STALL.max(rtt * STALL_ROUND_TRIPS));
        self.ways[usize::from(!from_client)].on_packet(now, datagram.bytes, first, floor);
    }

    fn on_handshake(&mut self, now: Time, from_client: bool) {
        let [asked, answered, confirmed] = &mut self.handshake;
        match (from_client, &asked, &answered) {
            (true, _, None) => {
                asked.get_or_insert(now);
                self.asked += 1;
            }
            (false, Some(_), None) => *answered = Some(now),
            (true, _, Some(_)) => {
                confirmed.get_or_insert(now);
            }
            _ => {}
        }
    }

    /// Round trip of the handshake: from the capture to the server and back, and to the client and
    /// back. `None`: it is not in the capture, or a packet of it was repeated.
    fn parts(&self) -> [Option<Span>; 2] {
        let [asked, answered, confirmed] = self.handshake;
        let between = |from: Option<Time>, to: Option<Time>| Some(to?.since(from?));
        [between(asked, answered).filter(|_| self.asked == 1), between(answered, confirmed)]
    }

    fn round_trip(&self) -> Option<Span> {
        match self.parts() {
            [Some(far), near] => Some(far + near.unwrap_or(Span::ZERO)),
            _ => None,
        }
    }

    fn row(&self) -> QuicRow {
        let ms = |span: Option<Span>| span.map_or(f64::NAN, |span| span.as_ns() as f64 * 1e-6);
        let s = |at: Time| at.since(Time::ZERO).as_ns() as f64 * 1e-9;
        let [far, near] = self.parts();
        let [up, down] = &self.ways;
        let main = if down.bytes >= up.bytes { down } else { up };
        // Either direction shows the same period; the one with more packets shows it more finely.
        let spin = self.ways.iter().filter(|way| way.spins_truly()).max_by_key(|way| way.short_headers);
        let mean = spin.filter(|way| way.periods > 0).map(|way| way.period_sum / way.periods);
        let last = up.last.max(down.last).unwrap_or(self.first);
        let active = match (main.first, main.last) {
            (Some(first), Some(last)) => last.since(first).saturating_sub(main.stalled),
            _ => Span::ZERO,
        };
        let rate = if active.is_zero() { f64::NAN } else { main.bytes as f64 * 8e9 / active.as_ns() as f64 };
        QuicRow {
            place: self.place,
            client: self.client.address.to_string().into(),
            client_port: u32::from(self.client.port),
            server: self.server.address.to_string().into(),
            server_port: u32::from(self.server.port),
            version: self.version.map_or(String::new(), |version| format!("{version:#x}")).into(),
            start_s: s(self.first),
            end_s: s(last),
            client_packets: up.packets,
            server_packets: down.packets,
            client_bytes: up.bytes,
            server_bytes: down.bytes,
            client_largest_bytes: up.largest,
            server_largest_bytes: down.largest,
            client_small_packets: up.small,
            server_small_packets: down.small,
            initial_packets: self.asked,
            rate_bps: rate,
            handshake_far_ms: ms(far),
            handshake_near_ms: ms(near),
            spin_samples: spin.map_or(0, |way| way.periods),
            spin_min_ms: ms(spin.and_then(|way| way.period_min)),
            spin_mean_ms: ms(mean),
            spin_max_ms: ms(spin.filter(|way| way.periods > 0).map(|way| way.period_max)),
            stalls: main.stalls,
            stalled_s: main.stalled.as_ns() as f64 * 1e-9,
            longest_pause_s: main.longest_pause.as_ns() as f64 * 1e-9,
        }
    }
}

impl Direction {
    fn on_packet(&mut self, now: Time, bytes: u32, first: u8, stall: Span) {
        if let Some(last) = self.last {
            let pause = now.since(last);
            self.longest_pause = self.longest_pause.max(pause);
            if pause >= stall {
                self.stalls += 1;
                self.stalled += pause;
            }
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.packets += 1;
        self.bytes += u64::from(bytes);
        self.largest = self.largest.max(bytes);
        if first & LONG_HEADER != 0 {
            return;
        }
        self.short_headers += 1;
        self.small += u64::from(bytes < ACK_BYTES);
        let spin = first & SPIN != 0;
        if self.spin.is_some_and(|before| before != spin) {
            self.spins += 1;
            if let Some(edge) = self.edge {
                self.on_period(now.since(edge), stall);
            }
            self.edge = Some(now);
        }
        self.spin = Some(spin);
    }

    /// A pause of the application lengthens a period by itself; such a period says nothing.
    fn on_period(&mut self, period: Span, stall: Span) {
        let is_short = self.periods > 0 && period * SHORT_PERIOD < self.period_sum / self.periods;
        if is_short || period >= stall * 10 {
            return;
        }
        self.periods += 1;
        self.period_sum += period;
        self.period_min = Some(self.period_min.map_or(period, |min| min.min(period)));
        self.period_max = self.period_max.max(period);
    }

    fn spins_truly(&self) -> bool {
        self.spins >= LEAST_SPINS && self.short_headers >= self.spins * PACKETS_PER_SPIN
    }
}
