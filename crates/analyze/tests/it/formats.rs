//! The same packets in every file format and on every kind of link give the same tables.

use std::io::Write;

use airtcp_core::units::{Span, Time};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::common::*;

/// IPv4 packets with losses and repetitions among them, at whole microseconds.
fn packets() -> Vec<(Time, Vec<u8>)> {
    let path = Path::new(config("macos-10.11", |_| {}), Span::from_ms(20)).losing(&[12, 13, 40, 55, 56, 57, 58, 59]);
    let told = path.run(150_000, Span::from_secs(60));
    assert!(told.stats.fast_retransmits > 0 && told.stats.timeouts > 0, "{:?}", told.stats);
    let whole = |at: Time| Time::from_ns(at.as_ns() / 1000 * 1000);
    told.taps[Tap::Sender as usize].iter().map(|(at, bytes)| (whole(*at), bytes.clone())).collect()
}

#[derive(Clone, Copy)]
struct File {
    big_endian: bool,
    snap_bytes: usize,
}

const PLAIN: File = File { big_endian: false, snap_bytes: usize::MAX };

impl File {
    fn u16(self, n: u16) -> [u8; 2] {
        if self.big_endian { n.to_be_bytes() } else { n.to_le_bytes() }
    }
    fn u32(self, n: u32) -> [u8; 4] {
        if self.big_endian { n.to_be_bytes() } else { n.to_le_bytes() }
    }
    fn u64(self, n: u64) -> [u8; 8] {
        if self.big_endian { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    /// `unit_ns`: 1 or 1000.
    fn pcap(self, link: u32, unit_ns: u64, packets: &[(Time, Vec<u8>)]) -> Vec<u8> {
        let magic = if unit_ns == 1 { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        let mut file = [self.u32(magic).as_slice(), &self.u16(2), &self.u16(4), &[0; 8]].concat();
        file.extend(self.u32(65_535));
        file.extend(self.u32(link));
        for (at, bytes) in packets {
            let kept = bytes.len().min(self.snap_bytes);
            let (s, part) = (at.as_ns() / 1_000_000_000, at.as_ns() % 1_000_000_000 / unit_ns);
            for n in [s as u32, part as u32, kept as u32, bytes.len() as u32] {
                file.extend(self.u32(n));
            }
            file.extend(&bytes[..kept]);
        }
        file
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = self.u32(12 + padded as u32);
        let mut block = [self.u32(kind).as_slice(), &length, body].concat();
        block.resize(8 + padded, 0);
        block.extend(length);
        block
    }

    fn section(self) -> Vec<u8> {
        let body = [self.u32(0x1a2b_3c4d).as_slice(), &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    /// `resolution`: the option's byte, and what a second is then.
    fn interface(self, link: u16, resolution: Option<u8>, offset_s: Option<u64>) -> Vec<u8> {
        let mut body = [self.u16(link), [0; 2]].concat();
        body.extend(self.u32(0));
        if let Some(resolution) = resolution {
            body.extend([self.u16(9), self.u16(1)].concat());
            body.extend([resolution, 0, 0, 0]);
        }
        if let Some(offset) = offset_s {
            body.extend([self.u16(14), self.u16(8)].concat());
            body.extend(self.u64(offset));
        }
        body.extend([0; 4]);
        self.block(1, &body)
    }

    fn enhanced(self, interface: u32, ticks: u64, bytes: &[u8]) -> Vec<u8> {
        let kept = bytes.len().min(self.snap_bytes);
        let mut body = Vec::new();
        for n in [interface, (ticks >> 32) as u32, ticks as u32, kept as u32, bytes.len() as u32] {
            body.extend(self.u32(n));
        }
        body.extend(&bytes[..kept]);
        self.block(6, &body)
    }

    /// The block of the first drafts; `comment`: an option behind the packet.
    fn obsolete(self, interface: u16, ticks: u64, bytes: &[u8], comment: &str) -> Vec<u8> {
        let mut body = [self.u16(interface), self.u16(0)].concat();
        for n in [(ticks >> 32) as u32, ticks as u32, bytes.len() as u32, bytes.len() as u32] {
            body.extend(self.u32(n));
        }
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        if !comment.is_empty() {
            body.extend([self.u16(1), self.u16(comment.len() as u16)].concat());
            body.extend(comment.as_bytes());
            body.resize(body.len().next_multiple_of(4), 0);
            body.extend([0; 4]);
        }
        self.block(2, &body)
    }

    fn pcapng(self, link: u16, resolution: Option<u8>, per_second: u64, packets: &[(Time, Vec<u8>)]) -> Vec<u8> {
        let mut file = self.section();
        file.extend(self.interface(link, resolution, None));
        for (at, bytes) in packets {
            let ticks = u128::from(at.as_ns()) * u128::from(per_second) / 1_000_000_000;
            file.extend(self.enhanced(0, ticks as u64, bytes));
        }
        file
    }
}

const RAW: u16 = 101;

fn expect_same(what: &str, reference: &Analysed, file: Vec<u8>) {
    let found = analyse(file);
    assert_eq!(found.damage, None, "{what}");
    assert_eq!(found.notes, Vec::<String>::new(), "{what}");
    assert_same(what, reference, &found);
}

/// NaN equals NaN. The tables of stations exist only for captures in monitor mode.
fn assert_same(what: &str, a: &Analysed, b: &Analysed) {
    for (one, other) in a.tables.iter().zip(&b.tables).filter(|(t, _)| !matches!(t.name, "stations" | "airtime")) {
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "{what}");
    }
}

#[test]
fn every_format_gives_the_same_tables() {
    let packets = packets();
    let reference = analyse(pcap(&packets));
    assert!(reference.flow("retransmitted_packets") > 3);
    let big = File { big_endian: true, ..PLAIN };
    for (file, order) in [(PLAIN, "little-endian"), (big, "big-endian")] {
        for unit in [1, 1000] {
            expect_same(&format!("pcap {order} {unit}"), &reference, file.pcap(u32::from(RAW), unit, &packets));
        }
        for (resolution, per_second) in
            [(None, 1_000_000), (Some(6), 1_000_000), (Some(9), 1_000_000_000), (Some(12), 1_000_000_000_000)]
        {
            let what = format!("pcapng {order} {resolution:?}");
            expect_same(&what, &reference, file.pcapng(RAW, resolution, per_second, &packets));
        }
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let plain = PLAIN.pcap(u32::from(RAW), 1, &packets);
    gzip.write_all(&plain).unwrap();
    let gzip = gzip.finish().unwrap();
    expect_same("gzip", &reference, gzip.clone());
    // Members one after the other, as tools leave them that compress in parallel.
    let mut second = GzEncoder::new(Vec::new(), Compression::fast());
    second.write_all(&PLAIN.pcap(u32::from(RAW), 1, &packets)[24..]).unwrap();
    let mut first = GzEncoder::new(Vec::new(), Compression::fast());
    first.write_all(&plain[..24]).unwrap();
    expect_same("gzip members", &reference, [first.finish().unwrap(), second.finish().unwrap()].concat());
}

fn snoop(packets: &[(Time, Vec<u8>)]) -> Vec<u8> {
    let mut file = [&b"snoop\0\0\0"[..], &2u32.to_be_bytes(), &4u32.to_be_bytes()].concat();
    for (at, bytes) in packets {
        let (s, us) = (at.as_ns() / 1_000_000_000, at.as_ns() % 1_000_000_000 / 1000);
        let record = (24 + bytes.len()).next_multiple_of(4);
        for n in [bytes.len(), bytes.len(), record, 0, s as usize, us as usize] {
            file.extend((n as u32).to_be_bytes());
        }
        file.extend(bytes);
        file.resize(file.len() + record - 24 - bytes.len(), 0);
    }
    file
}

/// `from_s`: Unix time of the first moment; `extended`: each record has two extension headers.
fn erf(from_s: u64, extended: bool, packets: &[(Time, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (at, bytes) in packets {
        let (s, ns) = (at.as_ns() / 1_000_000_000, at.as_ns() % 1_000_000_000);
        // Rounded up, so that whole microseconds come out again.
        let ticks = (from_s + s) << 32 | ((ns << 32).div_ceil(1_000_000_000));
        let more: &[u8] = if extended { &[0x83, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0] } else { &[] };
        let length = 18 + more.len() + bytes.len();
        file.extend(ticks.to_le_bytes());
        file.extend([if extended { 0x82 } else { 2 }, 4]);
        for n in [length, 0, bytes.len()] {
            file.extend((n as u16).to_be_bytes());
        }
        file.extend(more);
        file.extend([0, 0]);
        file.extend(bytes);
    }
    file
}

fn ethernet(packets: &[(Time, Vec<u8>)]) -> Vec<(Time, Vec<u8>)> {
    let before = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    packets.iter().map(|(at, p)| (*at, [&before[..], p].concat())).collect()
}

#[test]
fn formats_of_other_systems_give_the_same_tables() {
    let packets = packets();
    let reference = analyse(pcap(&packets));
    let framed = ethernet(&packets);
    expect_same("snoop", &reference, snoop(&framed));
    for extended in [false, true] {
        expect_same(&format!("ERF {extended}"), &reference, erf(1_700_000_000, extended, &framed));
    }
    // Records with times of no epoch are another format.
    assert!(airtcp_analyze::Reader::new(std::io::Cursor::new(erf(1_000, false, &framed))).is_err());
    // Kuznetsov's patch: eight bytes more before each packet.
    for big_endian in [false, true] {
        let file = File { big_endian, ..PLAIN };
        let mut modified = file.pcap(u32::from(RAW), 1000, &[]);
        modified[..4].copy_from_slice(&file.u32(0xa1b2_cd34));
        for (at, bytes) in &packets {
            let (s, us) = (at.as_ns() / 1_000_000_000, at.as_ns() % 1_000_000_000 / 1000);
            for n in [s as u32, us as u32, bytes.len() as u32, bytes.len() as u32, 7, 0x0800_0000] {
                modified.extend(file.u32(n));
            }
            modified.extend(bytes);
        }
        expect_same(&format!("modified pcap {big_endian}"), &reference, modified);
        let mut obsolete = file.section();
        obsolete.extend(file.interface(RAW, None, None));
        for (at, bytes) in &packets {
            obsolete.extend(file.obsolete(0, at.as_ns() / 1000, bytes, ""));
        }
        expect_same(&format!("obsolete blocks {big_endian}"), &reference, obsolete);
    }
}

#[test]
fn zstd_frames_are_unpacked_one_after_another() {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    let packets = packets();
    let reference = analyse(pcap(&packets));
    let plain = PLAIN.pcap(u32::from(RAW), 1, &packets);
    let pack = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    expect_same("zstd", &reference, pack(&plain));
    expect_same("zstd frames", &reference, [pack(&plain[..24]), pack(&plain[24..])].concat());
    let half = plain.len() / 2;
    let mut cut = [pack(&plain[..half]), pack(&plain[half..])].concat();
    cut.truncate(cut.len() - 100);
    let found = analyse(cut);
    assert!(found.damage.is_some_and(|damage| damage.contains("cannot be read on")));
}

#[test]
fn comments_and_keys_are_counted() {
    let packets = packets();
    let mut file = PLAIN.section();
    file.extend(PLAIN.block(10, &[1; 24])); // keys of TLS
    file.extend(PLAIN.interface(RAW, None, None));
    for (i, (at, bytes)) in packets.iter().enumerate() {
        let mut body = Vec::new();
        let ticks = at.as_ns() / 1000;
        for n in [0, (ticks >> 32) as u32, ticks as u32, bytes.len() as u32, bytes.len() as u32] {
            body.extend(PLAIN.u32(n));
        }
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        if i < 2 {
            body.extend([1, 0, 4, 0, b'o', b'd', b'd', b'!', 0, 0, 0, 0]);
        }
        file.extend(PLAIN.block(6, &body));
    }
    let found = analyse(file);
    assert_eq!(found.damage, None);
    assert_eq!(
        found.notes,
        ["2 comments in the file are not read", "1 block of decryption secrets in the file is not read"]
    );
    assert_same("comments", &analyse(pcap(&packets)), &found);
}

#[test]
fn pcapng_with_all_that_may_be_in_it() {
    let packets = packets();
    let reference = analyse(pcap(&packets));
    let mut file = PLAIN.section();
    let (half, ticks) = (packets.len() / 2, |at: &Time| at.as_ns() / 1000);
    file.extend(PLAIN.block(4, &[0; 20])); // names
    file.extend(PLAIN.block(0x0bad, &[7; 33])); // nobody knows this one
    file.extend(PLAIN.interface(1, None, None));
    file.extend(PLAIN.interface(RAW, None, None));
    for (at, bytes) in &packets[..half] {
        file.extend(PLAIN.enhanced(1, ticks(at), bytes));
        file.extend(PLAIN.block(5, &[0; 12])); // statistics
    }
    // A section of the other byte order, its interface beginning at 0 again, with an offset of its
    // own.
    let big = File { big_endian: true, ..PLAIN };
    let mut second = big.section();
    second.extend(big.interface(RAW, None, Some((-1_000_000i64) as u64)));
    for (at, bytes) in &packets[half..] {
        second.extend(big.enhanced(0, ticks(at) + 1_000_000 * 1_000_000, bytes));
    }
    file.extend(second);
    let found = analyse(file);
    assert_eq!(found.damage, None);
    assert_eq!(found.packets as usize, packets.len());
    // Each direction counts where it was seen first.
    assert_eq!(
        found.notes,
        [format!(
            "{} packets skipped that passed another interface than the first of their direction",
            packets.len() - half
        )]
    );
    let first_half = analyse(pcap(&packets[..half]));
    assert_same("first half", &first_half, &found);
    assert!(reference.flow("packets") > found.flow("packets"));
}

/// Frame before each packet, link type.
fn links() -> Vec<(&'static str, u16, Vec<u8>)> {
    let ethernet = |tail: &[u8]| [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], tail].concat();
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let wlan = |control: [u8; 2], more: &[u8]| [&control[..], &[0; 22], more, &snap].concat();
    let radiotap = |rest: Vec<u8>| [&[0, 0, 9, 0, 2, 0, 0, 0, 0x10][..], &rest].concat();
    vec![
        ("ethernet", 1, ethernet(&[8, 0])),
        ("VLAN", 1, ethernet(&[0x81, 0, 0, 5, 8, 0])),
        ("QinQ", 1, ethernet(&[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5, 8, 0])),
        ("PPPoE", 1, ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 0, 0, 0x21])),
        ("raw", 101, vec![]),
        ("raw, BSD", 12, vec![]),
        ("IPv4", 228, vec![]),
        ("cooked", 113, [&[0; 14][..], &[8, 0]].concat()),
        ("cooked v2", 276, [&[8, 0][..], &[0; 18]].concat()),
        ("null", 0, vec![2, 0, 0, 0]),
        ("loop", 108, vec![0, 0, 0, 2]),
        ("802.11", 105, wlan([8, 1], &[])),
        ("802.11 QoS", 105, wlan([0x88, 2], &[0, 0])),
        ("802.11 four addresses", 105, wlan([0x88, 3], &[0; 8])),
        ("radiotap", 127, radiotap(wlan([8, 1], &[]))),
        ("Prism", 119, prism(&wlan([8, 1], &[]))),
        ("AVS", 163, avs(&wlan([8, 1], &[]))),
        ("AVS in Prism's place", 119, avs(&wlan([8, 1], &[]))),
        ("PPI", 192, ppi(105, &wlan([8, 1], &[]))),
        ("PPI before Ethernet", 192, ppi(1, &ethernet(&[8, 0]))),
        ("PPP", 9, vec![0, 0x21]),
        ("PPP, short", 9, vec![0x21]),
        ("PPP with address", 9, vec![0xff, 3, 0, 0x21]),
        ("PPP over HDLC", 50, vec![0xff, 3, 0, 0x21]),
        ("Cisco HDLC", 104, vec![0x0f, 0, 8, 0]),
        ("PPPoE without Ethernet", 51, vec![0x11, 0, 0, 1, 0, 0, 0, 0x21]),
        ("OpenBSD's enc", 109, vec![0; 12]),
        ("OpenBSD's pflog", 117, [&[61][..], &[0; 63]].concat()),
        ("MPLS", 1, ethernet(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64])),
        ("LLC and SNAP", 1, ethernet(&[0, 100, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0])),
        ("PKTAP", 258, pktap(&ethernet(&[8, 0]))),
        ("ERF in pcap", 197, erf(1_700_000_000, false, &[(Time::ZERO, ethernet(&[8, 0]))])),
    ]
}

/// Items of linux-wlan-ng: channel 6, -55 dBm, 11 Mbit/s.
fn prism(frame: &[u8]) -> Vec<u8> {
    let mut header = [0x44u32.to_le_bytes(), 144u32.to_le_bytes()].concat();
    header.extend([0; 16]);
    for (item, value) in [(1, 0), (2, 0), (3, 6), (4, 0), (5, 0), (6, 0xffff_ffc9), (7, 0), (8, 22), (9, 0), (10, 0)] {
        header.extend(((item << 16 | 0x44) as u32).to_le_bytes());
        header.extend([0, 0, 4, 0]);
        header.extend(u32::to_le_bytes(value));
    }
    [&header, frame].concat()
}

/// Version 1: channel 6, 11 Mbit/s, -55 dBm.
fn avs(frame: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 64];
    for (at, value) in [(0, 0x8021_1001), (4, 64), (28, 6), (32, 110), (44, 2), (48, 0xffff_ffc9)] {
        header[at..at + 4].copy_from_slice(&u32::to_be_bytes(value));
    }
    [&header, frame].concat()
}

/// One field of 802.11: 11 Mbit/s, 2437 MHz, -55 dBm.
fn ppi(link: u32, frame: &[u8]) -> Vec<u8> {
    let mut header = vec![0, 0, 32, 0];
    header.extend(link.to_le_bytes());
    header.extend([2, 0, 20, 0]);
    header.extend([0; 10]);
    header.extend([22, 0, 0x85, 9, 0, 0, 0, 0, 201, 160]);
    [&header, frame].concat()
}

/// Length, "a packet follows", link type 1, name of the interface.
fn pktap(frame: &[u8]) -> Vec<u8> {
    let mut header = [108u32, 1, 1].map(u32::to_le_bytes).concat();
    header.resize(108, 0);
    [&header, frame].concat()
}

#[test]
fn nflog_carries_packets_in_an_attribute() {
    let packets = packets();
    let reference = analyse(pcap(&packets));
    let framed: Vec<_> = packets
        .iter()
        .map(|(at, p)| {
            let length = (4 + p.len() as u16).to_le_bytes();
            (*at, [&[2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 1, 0, 5, 0, 10, 0, 0, 0, 0, 0][..], &length, &[9, 0], p].concat())
        })
        .collect();
    expect_same("NFLOG", &reference, PLAIN.pcap(239, 1, &framed));
}

/// Headers of monitor mode that are none of radiotap's tell of stations, too.
#[test]
fn stations_show_behind_every_header_of_monitor_mode() {
    let packets = packets();
    let frame: Vec<u8> = [&[8, 0x09][..], &[0; 2], &[2; 6], &[4; 6], &[6; 8], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
    for (what, link, before, signal) in [
        ("802.11", 105, frame.clone(), None),
        ("Prism", 119, prism(&frame), Some(-55.0)),
        ("AVS", 163, avs(&frame), Some(-55.0)),
        ("PPI", 192, ppi(105, &frame), Some(-55.0)),
    ] {
        let framed: Vec<_> = packets.iter().map(|(at, p)| (*at, [&before[..], p].concat())).collect();
        let found = analyse(PLAIN.pcap(link, 1, &framed));
        assert_eq!(found.texts("stations", "transmitter"), ["04:04:04:04:04:04"], "{what}");
        assert_eq!(found.numbers("stations", "data_frames"), [packets.len() as u64], "{what}");
        // The retry bit alone tells of repetitions.
        assert_eq!(found.numbers("stations", "retries"), [packets.len() as u64], "{what}");
        let level = found.floats("stations", "signal_mean_dbm")[0];
        assert!(signal.map_or(level.is_nan(), |signal| level == signal), "{what}: {level}");
    }
}

#[test]
fn every_link_gives_the_same_tables() {
    let packets = packets();
    let reference = analyse(pcap(&packets));
    for (what, link, before) in links() {
        let framed: Vec<_> = packets.iter().map(|(at, p)| (*at, [&before[..], p].concat())).collect();
        expect_same(what, &reference, PLAIN.pcap(u32::from(link), 1, &framed));
    }
}

#[test]
fn headers_of_every_shape_give_the_same_tables() {
    let packets = packets();
    let reference = analyse(pcap(&packets));
    // IPv4 with options.
    let with_options = |p: &[u8]| {
        let mut p = [&p[..20], &[1, 1, 1, 0], &p[20..]].concat();
        let total = u16::from_be_bytes([p[2], p[3]]) + 4;
        p[2..4].copy_from_slice(&total.to_be_bytes());
        p[0] = 0x46;
        p
    };
    let changed: Vec<_> = packets.iter().map(|(at, p)| (*at, with_options(p))).collect();
    expect_same("IPv4 options", &reference, pcap(&changed));
    // Segmentation offload leaves the length at zero.
    let without_length = |p: &[u8]| [&p[..2], &[0, 0], &p[4..]].concat();
    let changed: Vec<_> = packets.iter().map(|(at, p)| (*at, without_length(p))).collect();
    expect_same("IPv4 without length", &reference, pcap(&changed));
    // IPv6, plain and with extension headers (hop-by-hop, destination options).
    for extensions in [&[][..], &[60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]] {
        let v6 = |p: &[u8]| {
            let address = |last: u8| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            let length = (p.len() - 20 + extensions.len()) as u16;
            let first = if extensions.is_empty() { 6 } else { 0 };
            let head = [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[first, 64]].concat();
            [&head, &address(p[15])[..], &address(p[19]), extensions, &p[20..]].concat()
        };
        let changed: Vec<_> = packets.iter().map(|(at, p)| (*at, v6(p))).collect();
        let found = analyse(pcap(&changed));
        assert_eq!(found.texts("flows", "source"), ["2001:db8::1", "2001:db8::2"]);
        assert_eq!(found.numbers("flows", "ip_version"), [6, 6]);
        for table in ["retransmissions", "timeouts", "rtt_samples", "windows", "segments"] {
            let of = |a: &Analysed| format!("{:?}", a.tables.iter().find(|t| t.name == table));
            assert_eq!(of(&found), of(&reference), "{table}");
        }
    }
}

#[test]
fn cut_packets_count_with_their_whole_length() {
    let packets = packets();
    let reference = analyse(pcap(&packets));
    let cut = |snap_bytes| File { snap_bytes, ..PLAIN }.pcap(u32::from(RAW), 1, &packets);
    // 20 of IPv4, 60 of TCP at most.
    expect_same("80 bytes", &reference, cut(80));
    // Options gone: what is left of TCP's header still tells what was sent and acknowledged.
    let bare = analyse(cut(40));
    assert!(bare.notes[0].starts_with("snapshot length cut the TCP options"), "{:?}", bare.notes);
    for column in ["packets", "data_packets", "payload_bytes", "unique_bytes", "retransmitted_packets", "acks"] {
        assert_eq!(bare.numbers("flows", column), reference.numbers("flows", column), "{column}");
    }
    let nothing = analyse(cut(39));
    assert_eq!(nothing.notes, [format!("{} packets whose headers the snapshot length cut skipped", packets.len())]);
}

#[test]
fn what_is_not_tcp_is_counted() {
    let mut odd = packets();
    odd[5].1[6] |= 0x20; // more fragments
    odd[6].1[9] = 17;
    odd[7].1[0] = 0x41;
    odd[8].1[32] = 0x10; // a TCP header of 4 bytes
    let found = analyse(pcap(&odd));
    assert_eq!(
        found.notes,
        [
            "1 packet that are neither TCP, QUIC nor DNS skipped",
            "1 packet that are IP fragments skipped",
            "2 packets whose headers contradict themselves skipped"
        ]
    );
    let other = analyse(PLAIN.pcap(147, 1, &odd));
    assert_eq!(other.notes, [format!("{} packets of link type 147, which is not read skipped", odd.len())]);
}

#[test]
fn a_damaged_file_names_the_place_and_keeps_what_was_read() {
    let packets = packets();
    let n = packets.len();
    let before = |k: usize| analyse(pcap(&packets[..k]));
    let whole = PLAIN.pcap(u32::from(RAW), 1, &packets);
    let last = 16 + packets[n - 1].1.len();
    let start = whole.len() - last;
    for (keep, what) in [
        (start + 5, "the file ends 5 bytes into a packet header; expected are 16".to_owned()),
        (start + 20, format!("the file ends 4 bytes into a packet; expected are {}", last - 16)),
    ] {
        let found = analyse(whole[..keep].to_vec());
        assert_eq!(found.damage, Some(format!("packet {n}, byte {start}: {what}")));
        assert_same(&what, &before(n - 1), &found);
    }
    let mut long = whole.clone();
    long[start + 8..start + 12].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    let damage = analyse(long).damage.unwrap();
    assert_eq!(
        damage,
        format!("packet {n}, byte {start}: a packet of 2147483647 captured bytes; expected are at most 16777216")
    );

    let ng = PLAIN.pcapng(RAW, Some(9), 1_000_000_000, &packets);
    let start = ng.len() - (32 + packets[n - 1].1.len().next_multiple_of(4));
    let place = format!("packet {n}, byte {start}: ");
    for (at, with, what) in [
        (start + 4, 13, "a block of type 6 with length"),
        (start + 8, 3, "a packet of interface 3; this section has 1 so far"),
        (start + 20, 0xff, "a block of type 6 that contradicts its length"),
    ] {
        let mut bad = ng.clone();
        bad[at] = with;
        let found = analyse(bad);
        let damage = found.damage.clone().unwrap();
        assert!(damage.starts_with(&place) && damage.contains(what), "{damage}");
        assert_same(what, &before(n - 1), &found);
    }

    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&whole).unwrap();
    let gzip = gzip.finish().unwrap();
    let found = analyse(gzip[..gzip.len() / 2].to_vec());
    let damage = found.damage.unwrap();
    assert!(damage.contains(" of the unpacked file: cannot be read on: "), "{damage}");
    assert!(found.packets > 0);
}

#[test]
fn what_is_no_capture_is_refused() {
    let refused =
        |bytes: &[u8]| match airtcp_analyze::Analyzer::new(std::io::Cursor::new(bytes.to_vec()), Default::default()) {
            Ok(_) => panic!("taken"),
            Err(error) => error.to_string(),
        };
    assert!(refused(b"").contains("it is empty"));
    assert!(refused(b"hello world").contains("begins with the bytes 68 65 6c 6c"));
    assert!(refused(&[0x1f, 0x8b, 9, 9]).contains("gzip that cannot be unpacked"));
    assert!(refused(&[0xd4, 0xc3, 0xb2, 0xa1, 2]).contains("the file header has 5 bytes; expected are 24"));
    assert!(refused(b"snoop\0\0\0\0\0\0\x01\0\0\0\x04").contains("snoop version 1; expected is 2"));
    assert!(refused(b"snoop\0\0\0\0\0\0\x02\0\0\0\x08").contains("datalink type 8"));
}
