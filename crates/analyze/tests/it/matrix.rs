//! Classes of retransmissions against the sender's own account: vantage, round trip, buffer, loss,
//! timestamps, host.

use std::collections::BTreeMap;

use airtcp_sim::record::Data;

use crate::causes::{PLACES, run};
use crate::common::*;

/// Retransmissions: those compared, those whose class is right, those said to be unknown; and of
/// those that are not compared, which the sender never made.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    told: usize,
    right: usize,
    unknown: usize,
    made_up: usize,
}

impl std::ops::AddAssign for Score {
    fn add_assign(&mut self, other: Score) {
        self.told += other.told;
        self.right += other.right;
        self.unknown += other.unknown;
        self.made_up += other.made_up;
    }
}

impl Score {
    fn part(&self) -> f64 {
        self.right as f64 / (self.told + self.made_up).max(1) as f64
    }
}

fn score(sets: &[String], at: [&str; 2], confusion: &mut BTreeMap<(String, String, String), usize>) -> Score {
    let (capture, output) = run(sets, at);
    let found = analyse(capture);
    let table = output.table("retransmissions").unwrap();
    let (Some(Data::F64(sent_s)), Some(Data::U64(starts)), Some(Data::Str(causes)), Some(Data::U32(sizes))) =
        (table.column("time_s"), table.column("seq"), table.column("cause"), table.column("size_bytes"))
    else {
        panic!("no retransmissions")
    };
    let mut used = vec![false; starts.len()];
    let (seq, bytes) = (found.numbers("retransmissions", "seq"), found.numbers("retransmissions", "bytes"));
    let (time, class) = (found.floats("retransmissions", "time_s"), found.texts("retransmissions", "class"));
    let reason = found.texts("retransmissions", "reason");
    let mut score = Score::default();
    // The capture begins with the first SYN, which leaves at once.
    for i in (0..seq.len()).filter(|&i| bytes[i] > 0) {
        let truth = (0..starts.len())
            .filter(|&j| starts[j] <= seq[i] && seq[i] < starts[j] + u64::from(sizes[j]) && !used[j])
            .filter(|&j| sent_s[j] <= time[i] + 0.001)
            .max_by(|&a, &b| sent_s[a].total_cmp(&sent_s[b]));
        let Some(truth) = truth else {
            score.made_up += 1;
            continue;
        };
        used[truth] = true;
        score.told += 1;
        score.right += usize::from(class[i] == causes[truth]);
        score.unknown += usize::from(class[i] == "unknown");
        if class[i] != causes[truth] {
            *confusion.entry((causes[truth].to_string(), class[i].clone(), reason[i].clone())).or_default() += 1;
        }
    }
    score
}

/// A home, a long path; a small buffer, a bloated one; losses on the line, or behind a capture in
/// the middle.
fn settings(timestamps: bool) -> impl Iterator<Item = Vec<String>> {
    let mut all = Vec::new();
    for profile in ["linux-6", "linux-3.13"] {
        for (far_ms, packets) in [(10, 20), (10, 250), (80, 20), (80, 250)] {
            for loss in [0.0, 0.01, 0.08] {
                all.push(vec![
                    "duration=20s".to_owned(),
                    format!("nodes.a.profile={profile}"),
                    format!("nodes.b.profile={profile}"),
                    format!("flows.f.tcp={{ timestamps = {timestamps} }}"),
                    format!("flows.f.receiver={{ timestamps = {timestamps} }}"),
                    "links.line.rate=10Mbit/s".to_owned(),
                    format!("links.line.queue.limit_packets={packets}"),
                    format!("links.last.delay={far_ms}ms"),
                    format!("links.{}.loss={loss}", if packets == 20 { "line" } else { "last" }),
                ]);
            }
        }
    }
    all.into_iter()
}

#[test]
fn classes_are_the_senders_wherever_it_is_captured() {
    for timestamps in [true, false] {
        for (place, at) in PLACES {
            let mut sum = Score::default();
            let mut confusion = BTreeMap::new();
            settings(timestamps).for_each(|sets| sum += score(&sets, at, &mut confusion));
            println!("{place}, timestamps {timestamps}: {:.1} % of {sum:?}", sum.part() * 100.0);
            let least = if place == "before" { 0.95 } else { 0.9 };
            assert!(sum.told > 500 && sum.part() >= least, "{place}, timestamps {timestamps}: {sum:?}, {confusion:#?}");
        }
    }
}

/// The queue makes the round trip 15 times as long as the least one.
#[test]
fn a_bloated_queue_before_the_capture_makes_no_timeouts() {
    for timestamps in [true, false] {
        let sets = [
            "duration=60s".to_owned(),
            format!("flows.f.tcp={{ timestamps = {timestamps} }}"),
            "links.line.rate=10Mbit/s".to_owned(),
            "links.last.delay=1ms".to_owned(),
            "links.line.queue.limit_packets=280".to_owned(),
        ];
        for (place, at) in PLACES {
            let (capture, output) = run(&sets, at);
            let found = analyse(capture);
            let Some(Data::U64(timeouts)) = output.table("flows").unwrap().column("timeouts") else { panic!() };
            let Some(Data::U64(fast)) = output.table("flows").unwrap().column("fast_retransmits") else { panic!() };
            assert!(timeouts == &[0] && fast[0] > 1, "{timeouts:?} {fast:?}");
            assert_eq!((found.flow("timeouts"), found.flow("fast_retransmits")), (0, fast[0]), "{place}, {timestamps}");
            assert_eq!(found.flow("unclassified_retransmissions"), 0, "{place}, {timestamps}");
        }
    }
}
