//! Captures of airtcp's own TCP, at the sender: the analysis says of every retransmission what the sender said.

mod common;

use airtcp_core::units::{Span, Time};
use common::*;

/// Pseudo-random, from the number alone.
fn dice(seed: u64, n: u64) -> u64 {
    let mut x = (seed << 32 ^ n).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[test]
fn probe_the_differences() {
    for name in airtcp_core::tcp::profile::profile_names() {
        let (mut total, mut wrong, mut dups, mut flight, mut missing) = (0, 0, 0, 0, 0);
        for (percent, ms, seed) in [(1, 20, 1), (3, 20, 2), (8, 50, 3), (15, 100, 4), (3, 200, 5), (30, 30, 6)] {
            let mut path = Path::new(config(name, |_| {}), Span::from_ms(ms));
            path.data = Box::new(move |n, _| if dice(seed, n) % 100 < percent { Fate::LoseLast } else { Fate::Pass });
            let told = path.run(600_000, Span::from_secs(600));
            let found = told.analyzed(Tap::Sender);
            let payload = found.numbers("retransmissions", "bytes");
            println!("fins {}", payload.iter().filter(|&&b| b == 0).count());
            let seq = found.numbers("retransmissions", "seq");
            let class = found.texts("retransmissions", "class");
            let reason = found.texts("retransmissions", "reason");
            let time = found.floats("retransmissions", "time_s");
            let dup = found.numbers("retransmissions", "dup_acks");
            let out = found.numbers("retransmissions", "flight_segments");
            total += told.retransmissions.len();
            if seq.len() != told.retransmissions.len() {
                missing += 1;
                println!("{name} {percent}% {ms} ms: {} told, {} found", told.retransmissions.len(), seq.len());
            }
            let mut shown = 0;
            if name == "windows-10" && percent == 30 {
                for (i, (at, r)) in told.retransmissions.iter().enumerate() {
                    if time[i] < 0.5 {
                        println!(
                            "  {:.3} {} {} | {} {} {}",
                            (*at - Span::ZERO).as_secs_f64(),
                            r.start,
                            r.cause.name(),
                            seq[i],
                            class[i],
                            reason[i]
                        );
                    }
                }
                let (k, f, t) = (
                    found.texts("segments", "kind"),
                    found.numbers("segments", "seq_from"),
                    found.numbers("segments", "seq_to"),
                );
                for (i, at) in found.floats("segments", "time_s").iter().enumerate() {
                    if (0.29..0.37).contains(at) {
                        println!("   {at:.3} {} {} {}", k[i], f[i], t[i]);
                    }
                }
            }
            for (i, (at, r)) in told.retransmissions.iter().enumerate().take(seq.len()) {
                if seq[i] != r.start || class[i] != r.cause.name() {
                    wrong += 1;
                    shown += 1;
                    if shown < 6 {
                        println!(
                            "{name} {percent}% {ms} ms at {:.3}/{:.3}: told {} {}, found {} {} ({}), dup {} {}, waited {:.3}",
                            (*at - Span::ZERO).as_secs_f64(),
                            time[i],
                            r.start,
                            r.cause.name(),
                            seq[i],
                            class[i],
                            reason[i],
                            r.dup_acks,
                            dup[i],
                            r.waited.as_secs_f64()
                        );
                    }
                } else {
                    dups += usize::from(dup[i] != u64::from(r.dup_acks));
                    flight += usize::from(out[i] != u64::from(r.outstanding));
                }
            }
        }
        println!(
            "{name}: {total} retransmissions, {wrong} classed otherwise, {dups} other dup ACKs, {flight} other flights, {missing}"
        );
    }
    let _ = Time::ZERO;
}
