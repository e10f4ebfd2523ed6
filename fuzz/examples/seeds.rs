//! Writes a first corpus: small captures of each format and link type, with a handshake, losses,
//! SACK and a close.

use std::fs;
use std::path::Path;

/// Ethernet to the IPv4 TCP packet's headers, by hand so that this needs no library.
fn packet(back: bool, seq: u32, ack: u32, flags: u8, options: &[u8], payload: usize) -> Vec<u8> {
    let (mut from, mut to) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let (mut from_port, mut to_port) = (40_000u16, 80u16);
    if back {
        std::mem::swap(&mut from, &mut to);
        std::mem::swap(&mut from_port, &mut to_port);
    }
    let total = (40 + options.len() + payload) as u16;
    let mut p = vec![0x45, 0];
    p.extend(total.to_be_bytes());
    p.extend([0, 1, 0x40, 0, 64, 6, 0, 0]);
    p.extend(from);
    p.extend(to);
    p.extend(from_port.to_be_bytes());
    p.extend(to_port.to_be_bytes());
    p.extend(seq.to_be_bytes());
    p.extend(ack.to_be_bytes());
    p.extend([((5 + options.len() / 4) << 4) as u8, flags, 0xff, 0xff, 0, 0, 0, 0]);
    p.extend(options);
    p.resize(usize::from(total), 0);
    p
}

fn conversation() -> Vec<Vec<u8>> {
    let syn = [2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 1, 1];
    let sack = |from: u32, to: u32| [&[1, 1, 5, 10][..], &from.to_be_bytes(), &to.to_be_bytes()].concat();
    let data = |n: u32| packet(false, 1001 + 100 * n, 5001, 0x18, &[], 100);
    let ack = |n: u32, options: &[u8]| packet(true, 5001, 1001 + 100 * n, 0x10, options, 0);
    let mut story = vec![packet(false, 1000, 0, 2, &syn, 0), packet(true, 5000, 1001, 0x12, &syn, 0), ack(0, &[])];
    story.extend((0..6).map(data));
    story.push(ack(1, &[]));
    story.extend((3..6).map(|n| ack(1, &sack(1201, 1001 + 100 * n))));
    story.push(data(1)); // fast
    story.push(data(5)); // again
    story.push(ack(6, &sack(1501, 1601))); // DSACK
    story.push(data(8)); // leaves a gap
    story.push(data(7));
    story.push(ack(9, &[]));
    story.push(packet(false, 1901, 5001, 0x11, &[], 0));
    story.push(packet(true, 5001, 1902, 0x11, &[], 0));
    story.push(packet(false, 1902, 5002, 4, &[], 0));
    story
}

fn pcap(link: u32, before: &[u8]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32.to_le_bytes().as_slice(), &[2, 0, 4, 0], &[0; 8], &65_535u32.to_le_bytes()].concat();
    file.extend(link.to_le_bytes());
    for (i, p) in conversation().iter().enumerate() {
        let length = (before.len() + p.len()) as u32;
        for n in [i as u32 / 10, i as u32 % 10 * 100_000, length, length] {
            file.extend(n.to_le_bytes());
        }
        file.extend(before);
        file.extend(p);
    }
    file
}

fn pcapng() -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len()) as u32;
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), body, &length.to_le_bytes()].concat()
    };
    let mut file = block(0x0a0d_0d0a, &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat());
    file.extend(block(1, &[101, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]));
    for (i, p) in conversation().iter().enumerate() {
        let mut body = Vec::new();
        for n in [0, 0, i as u32 * 100_000_000, p.len() as u32, p.len() as u32] {
            body.extend(n.to_le_bytes());
        }
        body.extend(p);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, &body));
        if i == 4 {
            file.extend(block(3, &[&(p.len() as u32).to_le_bytes()[..], p].concat()));
        }
    }
    file
}

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/analyze");
    fs::create_dir_all(&folder)?;
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let wlan = [&[0x88, 1][..], &[0; 24], &snap].concat();
    let links: [(&str, u32, Vec<u8>); 7] = [
        ("ethernet", 1, [&[2; 12][..], &[8, 0]].concat()),
        ("vlan", 1, [&[2; 12][..], &[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5, 8, 0]].concat()),
        ("raw", 101, vec![]),
        ("cooked", 113, [&[0; 14][..], &[8, 0]].concat()),
        ("cooked2", 276, [&[8, 0][..], &[0; 18]].concat()),
        ("null", 0, vec![2, 0, 0, 0]),
        ("radiotap", 127, [&[0, 0, 9, 0, 2, 0, 0, 0, 0x10][..], &wlan].concat()),
    ];
    for (name, link, before) in links {
        fs::write(folder.join(format!("{name}.pcap")), pcap(link, &before))?;
    }
    fs::write(folder.join("raw.pcapng"), pcapng())
}
