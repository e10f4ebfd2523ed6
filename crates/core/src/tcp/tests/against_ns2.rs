//! Against ns-2.35's own packet traces (`evidence/figures/ns2`, which has the scripts that made
//! them).

use super::*;

struct Event {
    ms: f64,
    kind: &'static str,
    segment: u64,
}

fn events(csv: &'static str) -> Vec<Event> {
    csv.lines()
        .skip(1)
        .map(|line| {
            let f: Vec<&str> = line.split(',').collect();
            Event { ms: f[0].parse::<f64>().unwrap() * 1e3, kind: f[1], segment: f[2].parse().unwrap_or(0) }
        })
        .collect()
}

/// The link of the traces: 10 Mbit/s, 20 ms, 1500-byte packets, initial `ssthresh` 8. `lost` counts
/// from the SYN.
fn run(recovery: Recovery, lost: &'static [u64], seconds: u64, bytes: u64, ssthresh: u32) -> Pair {
    let c = config("ns2-reno", |c| {
        c.connection.packet_bytes = 1500;
        c.loss_recovery.recovery = recovery;
        c.cwnd.initial_ssthresh = ssthresh;
    });
    let mut pair = Pair::same(&c, Span::from_ms(20));
    pair.rate = Some(DataRate::from_mbps(10));
    pair.data_fate = Box::new(move |n, _| if lost.contains(&(n + 2)) { Fate::Lose } else { Fate::Pass });
    let mut pair = pair.start(bytes);
    pair.run(Time::ZERO + Span::from_secs(seconds));
    pair
}

fn resent(pair: &Pair) -> Vec<(u64, f64)> {
    let mut seen = std::collections::BTreeSet::new();
    pair.sent.iter().filter(|s| !seen.insert(s.1)).map(|s| ((s.1 - 1) / 1460, s.0)).collect()
}

/// The same segments are sent again, each within `tolerance_ms` of ns-2's instant, and as much new
/// data has left at each instant to within one segment.
fn compare(csv: &'static str, pair: &Pair, tolerance_ms: f64) {
    let reference = events(csv);
    let theirs: Vec<(u64, f64)> = reference.iter().filter(|e| e.kind == "resend").map(|e| (e.segment, e.ms)).collect();
    let ours = resent(pair);
    assert_eq!(ours.iter().map(|r| r.0).collect::<Vec<_>>(), theirs.iter().map(|r| r.0).collect::<Vec<_>>());
    for (a, b) in ours.iter().zip(&theirs) {
        assert!((a.1 - b.1).abs() <= tolerance_ms, "segment {}: {} ms, ns-2 {} ms", a.0, a.1, b.1);
    }
    let sends: Vec<&Event> = reference.iter().filter(|e| e.kind == "send").collect();
    for (i, e) in sends.iter().enumerate().filter(|(_, e)| e.ms < pair.now.as_ns() as f64 / 1e6) {
        if sends.get(i + 1).is_some_and(|next| next.ms - e.ms < 0.01) {
            continue; // one of several that leave at once
        }
        let highest = pair.sent.iter().filter(|s| s.0 <= e.ms + 0.01).map(|s| (s.1 - 1) / 1460).max().unwrap();
        let lag = highest as i64 - e.segment as i64;
        assert!(lag.abs() <= 1, "at {} ms we had sent {highest}, ns-2 {}", e.ms, e.segment);
    }
}

// [RFC5681-3.2-3] [RFC5681-3.2-11]
#[test]
fn one_loss() {
    let csv = include_str!("../../../../../evidence/figures/ns2/one_loss.csv");
    compare(csv, &run(Recovery::Reno, &[60], 1, u64::MAX, 8), 1.3);
}

// [RFC6582-3.2-4a] [RFC6582-3.2-4b]
#[test]
fn two_losses() {
    let newreno = include_str!("../../../../../evidence/figures/ns2/two_losses_newreno.csv");
    compare(newreno, &run(Recovery::NewReno, &[60, 63], 1, u64::MAX, 8), 1.3);
    let sack = include_str!("../../../../../evidence/figures/ns2/two_losses_sack.csv");
    let pair = run(Recovery::Sack, &[60, 63], 1, u64::MAX, 8);
    assert_eq!(resent(&pair).iter().map(|r| r.0).collect::<Vec<_>>(), [58, 61]);
    assert!(events(sack).iter().filter(|e| e.kind == "resend").map(|e| e.segment).eq([58, 61]));
}

#[test]
fn two_losses_cost_reno_a_timeout() {
    let csv = include_str!("../../../../../evidence/figures/ns2/two_losses_reno.csv");
    let theirs: Vec<f64> = events(csv).iter().filter(|e| e.kind == "timeout").map(|e| e.ms).collect();
    let pair = run(Recovery::Reno, &[60, 63], 1, u64::MAX, 8);
    assert_eq!(pair.sender.stats().timeouts as usize, theirs.len());
    let again = resent(&pair);
    assert_eq!((again[0].0, again[1].0), (58, 61));
    // The timer runs in ticks of 10 ms from a phase that ns-2 draws.
    assert!((again[1].1 - theirs[0]).abs() <= 20.0, "{} ms, ns-2 {} ms", again[1].1, theirs[0]);
}

// [RFC6298-5.4-1]
#[test]
fn timeouts_and_their_backoff() {
    let csv = include_str!("../../../../../evidence/figures/ns2/timeout.csv");
    let waits = |times: Vec<f64>| times.windows(2).map(|w| w[1] - w[0]).collect::<Vec<f64>>();
    let theirs = waits(events(csv).iter().filter(|e| e.segment == 38 && e.kind == "resend").map(|e| e.ms).collect());
    // Segment 38 is lost with each of its first four transmissions; ours come at other counts than
    // ns-2's.
    let c = config("ns2-reno", |c| {
        c.connection.packet_bytes = 1500;
        c.cwnd.initial_ssthresh = 8;
    });
    let mut pair = Pair::same(&c, Span::from_ms(20));
    pair.rate = Some(DataRate::from_mbps(10));
    let mut left = 4;
    pair.data_fate = Box::new(move |_, p| {
        if left > 0 && (p.seq.0 - 1) / 1460 == 38 {
            left -= 1;
            return Fate::Lose;
        }
        Fate::Pass
    });
    let mut pair = pair.start(u64::MAX);
    pair.run(Time::ZERO + Span::from_secs(3));
    let ours = waits(resent(&pair).iter().filter(|r| r.0 == 38).map(|r| r.1).collect());
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(&theirs) {
        assert!((a - b).abs() <= 10.0, "{ours:?}, ns-2 {theirs:?}");
    }
}

/// The SYN is lost: ssthresh is 2 from then on, so the window grows by 1/cwnd for each ACK from the
/// second one on.
#[test]
fn after_a_lost_syn() {
    let csv = include_str!("../../../../../evidence/figures/ns2/syn_lost.csv");
    let c = config("ns2-reno", |c| c.connection.packet_bytes = 1500);
    let mut pair = Pair::same(&c, Span::from_ms(20));
    pair.rate = Some(DataRate::from_mbps(10));
    let mut lost = Outputs::default();
    pair.sender.open(Time::ZERO, &mut lost);
    pair.sender.write(Time::ZERO, u64::MAX, &mut lost);
    pair.run(Time::ZERO + Span::from_ms(3600));
    let theirs: Vec<(u64, f64)> =
        events(csv).iter().filter(|e| e.kind == "send" && e.ms < 3600.0).map(|e| (e.segment, e.ms)).collect();
    let ours: Vec<(u64, f64)> = pair.sent.iter().map(|s| ((s.1 - 1) / 1460, s.0)).collect();
    assert!(theirs.len() > 50, "{}", theirs.len());
    assert_eq!(ours.iter().map(|s| s.0).collect::<Vec<_>>(), theirs.iter().map(|s| s.0).collect::<Vec<_>>());
    for (a, b) in ours.iter().zip(&theirs) {
        assert!((a.1 - b.1).abs() <= 1.3, "segment {}: {} ms, ns-2 {} ms", a.0, a.1, b.1);
    }
}

/// Slow start into a queue of 19 packets: many holes, one fast retransmit, then a timeout and
/// everything again from the oldest on, with a segment more for each of the first two duplicate
/// ACKs.
// [RFC5681-3.1-17]
#[test]
fn slow_start_overflow_and_its_repair() {
    let csv = include_str!("../../../../../evidence/figures/ns2/slow_start_overflow.csv");
    let c = config("ns2-reno", |c| c.connection.packet_bytes = 1500);
    let mut pair = Pair::same(&c, Span::from_ms(20));
    pair.rate = Some(DataRate::from_mbps(10));
    pair.limit = 19;
    let mut pair = pair.start(u64::MAX);
    pair.run(Time::ZERO + Span::from_secs(3));
    compare(csv, &pair, 1.3);
}

#[test]
fn a_lost_syn_and_a_lost_tail() {
    let csv = include_str!("../../../../../evidence/figures/ns2/tail_loss.csv");
    let theirs: Vec<f64> = events(csv).iter().filter(|e| e.kind == "timeout").map(|e| e.ms).collect();
    let pair = run(Recovery::Reno, &[20, 21], 3, 21 * 1460, u32::MAX);
    let again = resent(&pair);
    assert_eq!(again.iter().map(|r| r.0).collect::<Vec<_>>()[..2], [18, 19]);
    assert!((again[0].1 - theirs[0]).abs() <= 20.0, "{} ms, ns-2 {} ms", again[0].1, theirs[0]);
    assert_eq!(pair.sender.window().ssthresh, 10);
}
