//! For all bytes: no panic, every packet counted at most once, bytes conserved.

use airtcp_analyze::{Analyzer, Options};
use airtcp_core::units::Span;
use proptest::prelude::*;

use crate::common::*;

fn check(bytes: Vec<u8>) {
    let options = Options { points: 8, idle_timeout_s: 10.0, max_connections: 3 };
    if Analyzer::new(std::io::Cursor::new(bytes.clone()), options).is_err() {
        return;
    }
    let found = analyse_with(bytes, options);
    let sum = |column| found.numbers("flows", column).iter().sum::<u64>();
    assert_eq!(sum("payload_bytes"), sum("unique_bytes") + sum("retransmitted_bytes"));
    assert!(sum("packets") <= found.packets);
    let classes = [
        "fast_retransmits",
        "recovery_retransmissions",
        "timeouts",
        "repair_retransmissions",
        "tail_loss_probes",
        "unclassified_retransmissions",
    ];
    let rows = found.numbers("retransmissions", "flow").len() as u64;
    assert_eq!(rows, sum("retransmitted_packets"));
    assert_eq!(rows, classes.into_iter().map(sum).sum::<u64>());
    assert_eq!(found.numbers("retransmissions", "spurious").iter().sum::<u64>(), sum("spurious_retransmissions"));
    assert_eq!(found.numbers("timeouts", "flow").len() as u64, sum("timeouts"));
}

fn capture() -> Vec<u8> {
    let path = Path::new(config("linux-6", |_| {}), Span::from_ms(20)).losing(&[3, 12, 13, 40, 41, 42, 43, 44, 45, 60]);
    path.run(120_000, Span::from_secs(60)).pcap(Tap::Between)
}

#[test]
fn an_intact_capture_counts_every_packet() {
    let found = analyse(capture());
    assert_eq!(found.numbers("flows", "packets").iter().sum::<u64>(), found.packets);
    check(capture());
}

proptest! {
    #[test]
    fn random_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..2000), magic in 0..4usize) {
        let magic = [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0xa1, 0xb2, 0x3c, 0x4d], &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a], &[0x1f, 0x8b, 8]][magic];
        bytes.splice(0..0, magic.iter().copied());
        check(bytes);
    }

    #[test]
    fn cut_and_flipped(keep in 0.0..1.0f64, flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 0..40)) {
        let mut bytes = capture();
        bytes.truncate((bytes.len() as f64 * (0.5 + keep / 2.0)) as usize);
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        check(bytes);
    }

    /// Damage behind IP's header only, so that all packets are still read.
    #[test]
    fn flipped_headers(flips in prop::collection::vec((any::<prop::sample::Index>(), 0..40usize, any::<u8>()), 1..60)) {
        let path = Path::new(config("macos-10.11", |_| {}), Span::from_ms(20)).losing(&[3, 12, 13, 40, 41, 42]);
        let mut packets = path.run(60_000, Span::from_secs(60)).taps[1].clone();
        for (which, at, value) in flips {
            let bytes = &mut packets[which.index(60)].1;
            let at = 24 + at;
            if at < bytes.len() {
                bytes[at] = value;
            }
        }
        check(pcap(&packets));
    }
}
