//! The work for a packet is bounded by a few steps, however many segments are outstanding: counted,
//! not timed.

// Tests may cast numbers that they know.
#![allow(clippy::cast_possible_truncation)]

use std::io::Cursor;

use crate::send_history::LOOKED_AT;
use crate::{Analyzer, Options};

const MSS: u32 = 1000;

/// A capture of raw IP packets, 10 us apart.
struct File {
    bytes: Vec<u8>,
    packets: u32,
}

impl File {
    fn new() -> File {
        let head: Vec<u8> =
            [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 101].iter().flat_map(|n| n.to_le_bytes()).collect();
        File { bytes: head, packets: 0 }
    }

    fn packet(&mut self, back: bool, seq: u32, ack: u32, flags: u8, options: &[u8], payload: u32) {
        let (mut ends, mut ports) = ([[10, 0, 0, 1], [10, 0, 0, 2]], [40_000u16, 80]);
        if back {
            ends.reverse();
            ports.reverse();
        }
        let headers = 40 + options.len() as u32;
        let micros = 10 * self.packets;
        self.packets += 1;
        for n in [micros / 1_000_000, micros % 1_000_000, headers, headers + payload] {
            self.bytes.extend(n.to_le_bytes());
        }
        self.bytes.extend([0x45, 0]);
        self.bytes.extend(((headers + payload) as u16).to_be_bytes());
        self.bytes.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
        self.bytes.extend(ends.concat());
        ports.iter().for_each(|port| self.bytes.extend(port.to_be_bytes()));
        self.bytes.extend(seq.to_be_bytes());
        self.bytes.extend(ack.to_be_bytes());
        self.bytes.extend([((5 + options.len() / 4) << 4) as u8, flags, 0xff, 0xff, 0, 0, 0, 0]);
        self.bytes.extend(options);
    }

    /// A connection whose sender's segments pass in this order, each followed by an ACK with SACK
    /// if wanted.
    fn conversation(order: impl Iterator<Item = u32>, sack: bool) -> File {
        let mut file = File::new();
        let syn = [2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 14, 1, 1];
        file.packet(false, 1000, 0, 0x02, &syn, 0);
        file.packet(true, 5000, 1001, 0x12, &syn, 0);
        file.packet(false, 1001, 5001, 0x10, &[], 0);
        for n in order {
            let seq = 1001 + n * MSS;
            file.packet(false, seq, 5001, 0x10, &[], MSS);
            if sack {
                let block = [&[1, 1, 5, 10][..], &seq.to_be_bytes(), &(seq + MSS).to_be_bytes()].concat();
                file.packet(true, 5001, 1001, 0x10, &block, 0);
            }
        }
        file
    }

    /// Segments looked at for each packet.
    fn work(self) -> u64 {
        LOOKED_AT.set(0);
        let packets = u64::from(self.packets);
        let mut analyzer = Analyzer::new(Cursor::new(self.bytes), Options::default()).unwrap();
        while analyzer.advance(1000) {}
        analyzer.finish();
        assert_eq!(analyzer.packets(), packets);
        LOOKED_AT.get() / packets
    }
}

#[test]
fn the_work_for_a_packet_does_not_grow_with_what_is_outstanding() {
    const N: u32 = 6000;
    let descending = || (0..N).rev();
    // Every segment, then every second one again, from the last to the first.
    let again = || (0..N).chain((0..N).rev().step_by(2));
    // A step that visits all, without order.
    let scattered = || (0..N).map(|n| n * 2_477 % N);
    for sack in [false, true] {
        for (what, work) in [
            ("descending", File::conversation(descending(), sack).work()),
            ("again, descending", File::conversation(again(), sack).work()),
            ("scattered", File::conversation(scattered(), sack).work()),
        ] {
            assert!(work <= 16, "{what}, SACK {sack}: {work} segments for each packet");
        }
    }
}
