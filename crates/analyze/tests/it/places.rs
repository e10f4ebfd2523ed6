//! Several files at once: pieces of one capture, and captures of several places.

use std::io::Cursor;

use airtcp_analyze::{Analyzer, Opener, Options, Place, Reader};
use airtcp_core::units::{Span, Time};

use crate::common::*;

type Packets = [(Time, Vec<u8>)];

fn told() -> Told {
    Path::new(config("linux-6", |_| {}), Span::from_ms(20)).losing(&[12, 40]).run(150_000, Span::from_secs(20))
}

fn reader(packets: &Packets) -> Reader {
    Reader::new(Cursor::new(pcap(packets))).unwrap()
}

fn finish(mut analyzer: Analyzer) -> Analysed {
    while analyzer.advance(17) {}
    analyzer.finish();
    Analysed {
        tables: analyzer.drain(),
        notes: analyzer.notes(),
        damage: analyzer.damage().map(ToString::to_string),
        packets: analyzer.packets(),
    }
}

#[test]
fn pieces_are_the_whole() {
    let told = told();
    let packets = &told.taps[Tap::Sender as usize];
    let whole = analyse(pcap(packets));
    let pieces: Vec<_> = packets.chunks(50).map(<[_]>::to_vec).collect();
    let later = pieces[1..].iter().cloned().enumerate().map(|(i, piece)| {
        let open: Opener = Box::new(move || Reader::new(Cursor::new(pcap(&piece))));
        (i + 1, open)
    });
    let found = finish(Analyzer::of(vec![Place::new((0, reader(&pieces[0])), later)], Vec::new(), Options::default()));
    assert!(pieces.len() > 3);
    assert_eq!(found.packets, whole.packets);
    assert_eq!(format!("{:?}", found.tables), format!("{:?}", whole.tables));
}

#[test]
fn each_place_is_told_for_itself() {
    let told = told();
    let (here, there) = (&told.taps[Tap::Sender as usize], &told.taps[Tap::Receiver as usize]);
    // The clock there is three seconds ahead.
    let ahead = Span::from_secs(3);
    let moved: Vec<_> = there.iter().map(|(at, packet)| (*at + ahead, packet.clone())).collect();
    let places = vec![Place::new((0, reader(here)), []), Place::new((1, reader(&moved)), [])];
    let found = finish(Analyzer::of(places, vec![0, 3_000_000_000], Options::default()));
    let alone = [analyse(pcap(here)), analyse(pcap(there))];
    let place = found.numbers("flows", "place");
    for column in ["payload_bytes", "retransmitted_packets", "packets"] {
        for (n, one) in alone.iter().enumerate() {
            let all = found.numbers("flows", column);
            let here: Vec<u64> = (0..all.len()).filter(|&i| place[i] == n as u64).map(|i| all[i]).collect();
            assert_eq!(here, one.numbers("flows", column), "{column}, place {n}");
        }
    }
    assert_eq!(found.notes, Vec::<String>::new());
}

#[test]
fn damage_in_one_file_spares_the_others() {
    let told = told();
    let (here, there) = (&told.taps[Tap::Sender as usize], &told.taps[Tap::Receiver as usize]);
    let mut cut = pcap(here);
    cut.truncate(cut.len() / 2);
    let broken = Reader::new(Cursor::new(cut)).unwrap();
    let places = vec![Place::new((0, broken), []), Place::new((1, reader(there)), [])];
    let mut analyzer = Analyzer::of(places, Vec::new(), Options::default());
    while analyzer.advance(1000) {}
    analyzer.finish();
    assert_eq!(analyzer.damaged_file(), Some(0));
    assert!(analyzer.packets() as usize > there.len());
}
