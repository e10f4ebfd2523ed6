//! Connections of QUIC made up packet by packet: what shows of them, and what does not.

use airtcp_core::units::{Span, Time};

use crate::common::*;

/// IPv4 and UDP around a payload of `bytes`, of which the first are `head`.
fn datagram(from_client: bool, port: u16, head: &[u8], bytes: usize) -> Vec<u8> {
    let (client, server) = (([10, 0, 0, 1], 50_000u16), ([10, 0, 0, 2], port));
    let (source, destination) = if from_client { (client, server) } else { (server, client) };
    let mut packet = vec![0x45, 0];
    packet.extend((28 + bytes as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(source.0);
    packet.extend(destination.0);
    for n in [source.1, destination.1, 8 + bytes as u16, 0] {
        packet.extend(n.to_be_bytes());
    }
    packet.extend(head);
    packet.resize(28 + bytes, 0xee);
    packet
}

const INITIAL: [u8; 5] = [0xc3, 0, 0, 0, 1];

struct Made {
    packets: Vec<(Time, Vec<u8>)>,
}

impl Made {
    fn new() -> Made {
        Made { packets: Vec::new() }
    }
    fn at(&mut self, us: u64, packet: Vec<u8>) {
        self.packets.push((Time::ZERO + Span::from_us(us), packet));
    }

    /// Handshake of 30 ms seen 5 ms from the client, then a download of 1200-byte datagrams, one a
    /// millisecond, from `from_ms` to `to_ms`; `spin`: value of the bit at a time in ms.
    fn download(mut self, ranges: &[(u64, u64)], spin: impl Fn(u64) -> bool) -> Made {
        self.at(0, datagram(true, 443, &INITIAL, 1200));
        self.at(25_000, datagram(false, 443, &INITIAL, 1200));
        self.at(30_000, datagram(true, 443, &[0xe3, 0, 0, 0, 1], 1200));
        for &(from, to) in ranges {
            for ms in from..to {
                let bit = if spin(ms) { 0x60 } else { 0x40 };
                self.at(ms * 1000, datagram(false, 443, &[bit], 1200));
                if ms % 2 == 0 {
                    self.at(ms * 1000 + 100, datagram(true, 443, &[bit], 40));
                }
            }
        }
        self
    }

    fn analyse(&self) -> Analysed {
        analyse(pcap(&self.packets))
    }
}

fn value(found: &Analysed, column: &str) -> f64 {
    found.floats("quic", column)[0]
}

#[test]
fn handshake_rate_and_spin_bit_are_read() {
    // The bit turns each 30 ms.
    let found = Made::new().download(&[(60, 1060)], |ms| ms / 30 % 2 == 1).analyse();
    assert_eq!(found.texts("quic", "version"), ["0x1"]);
    assert_eq!(found.texts("quic", "client"), ["10.0.0.1"]);
    assert_eq!(found.numbers("quic", "server_packets"), [1001]);
    assert_eq!(found.numbers("quic", "client_small_packets"), [500]);
    assert_eq!(found.numbers("quic", "server_small_packets"), [0]);
    assert_eq!((value(&found, "handshake_far_ms"), value(&found, "handshake_near_ms")), (25.0, 5.0));
    assert_eq!(found.numbers("quic", "spin_samples"), [32]);
    for column in ["spin_min_ms", "spin_mean_ms", "spin_max_ms"] {
        assert!((value(&found, column) - 30.0).abs() < 1e-6, "{column}");
    }
    assert!((value(&found, "rate_bps") / 9.6e6 - 1.0).abs() < 0.05, "{}", value(&found, "rate_bps"));
    assert_eq!(found.numbers("quic", "stalls"), [0]);
    assert_eq!(found.notes, Vec::<String>::new());
}

#[test]
fn a_queue_shows_in_the_spin_bit() {
    // The round trip grows from 30 to 120 ms.
    let found = Made::new()
        .download(&[(60, 2060)], |ms| if ms < 600 { ms / 30 % 2 == 1 } else { (ms - 600) / 120 % 2 == 1 })
        .analyse();
    assert!((value(&found, "spin_min_ms") - 30.0).abs() < 1e-6);
    assert!((value(&found, "spin_max_ms") - 120.0).abs() < 1e-6);
}

#[test]
fn a_bit_that_does_not_spin_tells_nothing() {
    for (what, spin) in [("never", 0u64), ("always", 1), ("at random", 2)] {
        let bit = |ms: u64| match spin {
            2 => ms.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1,
            other => other == 1,
        };
        let found = Made::new().download(&[(60, 1060)], bit).analyse();
        assert_eq!(found.numbers("quic", "spin_samples"), [0], "{what}");
        assert!(value(&found, "spin_mean_ms").is_nan(), "{what}");
    }
}

#[test]
fn a_stall_is_told_and_left_out_of_the_rate() {
    let found = Made::new().download(&[(60, 560), (3560, 4060)], |_| false).analyse();
    assert_eq!(found.numbers("quic", "stalls"), [1]);
    assert!((value(&found, "stalled_s") - 3.001).abs() < 1e-6);
    assert!((value(&found, "rate_bps") / 9.6e6 - 1.0).abs() < 0.05);
}

#[test]
fn a_repeated_initial_leaves_the_round_trip_open() {
    let mut made = Made::new();
    made.at(0, datagram(true, 443, &INITIAL, 1200));
    made.at(1_000_000, datagram(true, 443, &INITIAL, 1200));
    made.at(1_025_000, datagram(false, 443, &INITIAL, 1200));
    let found = made.analyse();
    assert_eq!(found.numbers("quic", "initial_packets"), [2]);
    assert!(value(&found, "handshake_far_ms").is_nan());
}

#[test]
fn a_connection_that_began_before_counts_by_its_port() {
    let mut made = Made::new();
    for ms in 0..20 {
        made.at(ms * 1000, datagram(ms % 2 == 0, 443, &[0x41], 800));
    }
    let found = made.analyse();
    assert_eq!(found.texts("quic", "version"), [""]);
    assert_eq!(found.numbers("quic", "server_port"), [443]);
    // Other traffic of UDP is none: no fixed bit, another port.
    for (port, head) in [(443, 0x01), (443, 0x16), (9999, 0x41)] {
        let mut made = Made::new();
        for ms in 0..20 {
            made.at(ms * 1000, datagram(ms % 2 == 0, port, &[head], 800));
        }
        let found = made.analyse();
        assert!(found.texts("quic", "version").is_empty(), "{port} {head:x}");
        assert_eq!(found.notes, ["20 packets that are neither TCP, QUIC nor DNS skipped"]);
    }
    // A bit that is missing later takes the connection back.
    made.at(30_000, datagram(true, 443, &[0x01], 800));
    let found = made.analyse();
    assert!(found.texts("quic", "version").is_empty());
    assert_eq!(found.notes, ["21 packets that are neither TCP, QUIC nor DNS skipped"]);
}
