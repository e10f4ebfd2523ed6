//! Captures of airtcp's own TCP, at the sender: what the analysis says of each retransmission
//! beside what the sender said.

use airtcp_core::tcp::Frto;
use airtcp_core::tcp::profile::profile_names;
use airtcp_core::units::Span;

use crate::common::*;

/// Pseudo-random, from the number alone.
fn dice(seed: u64, n: u64) -> u64 {
    let mut x = (seed << 32 ^ n).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Retransmissions; those of another class; those with other duplicate ACKs, or another flight.
#[derive(Debug, Default, PartialEq)]
struct Agreement {
    told: usize,
    classed_otherwise: usize,
    counted_otherwise: usize,
}

fn compare(name: &str, percent: u64, one_way_ms: u64, seed: u64) -> Agreement {
    let mut path = Path::new(config(name, |_| {}), Span::from_ms(one_way_ms));
    path.data = Box::new(move |n, _| if dice(seed, n) % 100 < percent { Fate::LoseLast } else { Fate::Pass });
    let told = path.run(600_000, Span::from_secs(600));
    let found = told.analyzed(Tap::Sender);
    let column = |name| found.numbers("retransmissions", name);
    let (seq, bytes, dup, flight) = (column("seq"), column("bytes"), column("dup_acks"), column("flight_segments"));
    let (class, reason) = (found.texts("retransmissions", "class"), found.texts("retransmissions", "reason"));
    // A sender does not tell of a repeated FIN without data.
    let rows: Vec<usize> = (0..seq.len()).filter(|&i| bytes[i] > 0).collect();
    let starts: Vec<u64> = rows.iter().map(|&i| seq[i]).collect();
    let expected: Vec<u64> = told.retransmissions.iter().map(|(_, r)| r.start).collect();
    assert_eq!(starts, expected, "{name}, {percent} %, {one_way_ms} ms: what was sent again");
    let mut agreement = Agreement { told: rows.len(), ..Agreement::default() };
    for (&i, (at, r)) in rows.iter().zip(&told.retransmissions) {
        if class[i] != r.cause.name() {
            agreement.classed_otherwise += 1;
            println!(
                "{name}, {percent} %, {one_way_ms} ms, {at}: {} is {}, not {} ({})",
                r.start,
                r.cause.name(),
                class[i],
                reason[i]
            );
        } else if dup[i] != u64::from(r.dup_acks) || flight[i] != u64::from(r.outstanding) {
            agreement.counted_otherwise += 1;
        }
    }
    agreement
}

/// Loss in percent, one-way delay in milliseconds, seed.
const MODERATE: [(u64, u64, u64); 4] = [(1, 20, 1), (3, 20, 2), (8, 50, 3), (3, 200, 5)];
const HEAVY: [(u64, u64, u64); 2] = [(15, 100, 4), (30, 30, 6)];

/// RACK's timers, its undoing of reductions and its probes leave no trace of their own in a
/// capture. Some of its retransmissions therefore look like another class. The set of repeated
/// segments agrees always.
fn uses_rack(name: &str) -> bool {
    config(name, |_| {}).loss_recovery.loss.name() == "rack"
}

/// F-RTO finds out in the sender that a timeout was spurious. Its undo shows in a capture only
/// later, or not.
fn uses_frto(name: &str) -> bool {
    config(name, |_| {}).spurious_rto.frto != Frto::Off
}

#[test]
fn moderate_loss_is_classed_as_the_sender_has_it() {
    let (mut rack, mut rack_otherwise) = (0, 0);
    for name in profile_names() {
        for (percent, ms, seed) in MODERATE {
            let found = compare(name, percent, ms, seed);
            assert!(found.told > 2);
            if uses_rack(name) {
                rack += found.told;
                rack_otherwise += found.classed_otherwise + found.counted_otherwise;
            } else {
                assert_eq!(found.classed_otherwise, 0, "{name}, {percent} %, {ms} ms");
                // A flight begins with part of a segment after a partial acknowledgement; F-RTO
                // sends new data after a timeout.
                assert!(
                    found.counted_otherwise <= if uses_frto(name) { 2 } else { 1 },
                    "{name}, {percent} %, {ms} ms: {found:?}"
                );
            }
        }
    }
    assert!(rack > 50 && rack_otherwise * 10 < rack, "{rack_otherwise} of {rack}");
}

/// With a sixth or a third of all packets lost, timers and reports coincide, and in a capture the
/// states of the sender that follow from them differ for a while.
#[test]
fn heavy_loss_mostly_is() {
    for name in profile_names() {
        for (percent, ms, first) in HEAVY {
            // Five transfers, because in one of them a few retransmissions decide.
            let found = (first..first + 5).map(|seed| compare(name, percent, ms, seed)).fold(
                Agreement::default(),
                |sum, one| Agreement {
                    told: sum.told + one.told,
                    classed_otherwise: sum.classed_otherwise + one.classed_otherwise,
                    counted_otherwise: sum.counted_otherwise + one.counted_otherwise,
                },
            );
            if !uses_rack(name) {
                // With F-RTO only the classes: what is in flight after it has taken a timeout back
                // cannot be told from outside. A repair that begins when F-RTO finds the timeout
                // needed follows an ACK, and looks like a fast retransmission.
                let (otherwise, one_in) = match uses_frto(name) {
                    true => (found.classed_otherwise, 3),
                    false => (found.classed_otherwise + found.counted_otherwise, 20),
                };
                assert!(otherwise * one_in < found.told, "{name}, {percent} %, {ms} ms: {found:?}");
            }
        }
    }
}
