//! Against the Linux kernel's own packets (`evidence/figures/kernel/losses.json.gz`, made by
//! `evidence/kernel/losses.py`): the same scripts of lost and delayed packets, run with the profile
//! `linux-6`, send the same segments at the same times.
//!
//! If a timer makes a segment leave, the kernel is later by the delay of its jiffies and timer
//! wheel. That much is allowed; later segments may be as late as such a timer, or on time, since
//! only some of them follow from it. Everything else has [`TOLERANCE_MS`]. The remaining
//! differences are in [`ACCEPTED`], each with the mechanism behind it. A run that agrees and is
//! listed there fails the test, so that the list stays exact.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use serde_json::Value;

use super::super::cc::CcConfig;
use super::super::loss::LossConfig;
use super::*;

/// Scheduling of the kernel's host and of the user-space path.
const TOLERANCE_MS: f64 = 2.0;
/// How soon after an ACK the application has read what it covers.
const WINDOW_UPDATE_MS: f64 = 1.0;
/// CONFIG_HZ = 250.
const JIFFY_MS: f64 = 4.0;
/// `kernel/time/timer.c`: 64 steps a level, each level eight times coarser than the one below.
fn wheel_step_ms(wait_ms: f64) -> f64 {
    let (mut jiffies, mut step) = (wait_ms / JIFFY_MS, JIFFY_MS);
    while jiffies >= 63.0 {
        (jiffies, step) = (jiffies / 8.0, step * 8.0);
    }
    step
}

/// Differences that stay, and why: `case settings... = reason`, the reason being one of
/// [`REASONS`]. A setting stands for both controls, `setting/control` for one.
const ACCEPTED: &str = include_str!("against_linux.txt");
/// Accepted differences of the runs whose ACKs are delayed and compressed.
const ACCEPTED_AS_IS: &str = include_str!("against_linux_as_is.txt");

/// Mechanism behind each difference in [`ACCEPTED`].
const REASONS: &[(&str, &str)] = &[
    (
        "cubic",
        "CUBIC alone: a segment comes an ACK earlier or later than with the kernel's window; not examined further",
    ),
    (
        "delayed_ack_late",
        "the receiver's delayed ACK is a timer, too, and came 8 ms late; another timer follows from it",
    ),
    ("delayed_acks", "which segments delayed ACKs cover once the quick ones are over; not examined further"),
    ("either", "the kernel has either outcome: in an earlier recording it had that of airtcp"),
    (
        "first_window",
        "without SACK the first duplicate ACK of a connection changes the window (SYNs are not scaled) and does not count",
    ),
    (
        "jiffy",
        "a timer sends a millisecond before an ACK comes; it is up to a jiffy later in the kernel, which has the ACK by then",
    ),
    ("newreno", "NewReno without SACK: a segment leaves an ACK or a timer step earlier or later; not examined further"),
    ("quick_acks", "where the receive window is small the kernel begins with fewer quick ACKs (`tcp_incr_quickack`)"),
    ("sack_blocks", "the kernel reports three blocks where four fit; cause not examined"),
    ("unexamined", "not examined"),
    ("window_updates", "the kernel's application reads later: an ACK more or less, with nothing but a larger window"),
];

/// Segments that are sent and acknowledged one by one before the rest is written, where the receive
/// window is small (`AHEAD` of the script).
const AHEAD: u64 = 4;

/// A rule of a script for single packets; see `evidence/kernel/pathemu/src/script.rs`.
#[derive(Clone)]
struct Rule {
    number: Option<(u64, u64)>,
    segments: (u64, u64),
    transmission: u32,
    fate: Fate,
}

fn rules(script: &str) -> Vec<Rule> {
    let range = |text: &str| {
        let (a, b) = text.split_once('-').unwrap_or((text, text));
        (a.parse().unwrap(), b.parse().unwrap())
    };
    script
        .split(',')
        .filter(|item| !item.is_empty())
        .map(|item| {
            let (key, action) = item.split_once('=').unwrap();
            let fate = match action.strip_prefix('+') {
                Some(ms) => Fate::Delay(Span::from_us((ms.parse::<f64>().unwrap() * 1e3) as u64)),
                None => Fate::Lose,
            };
            let (segments, transmission) = key.split_once('.').unwrap_or((key, "0"));
            match key.strip_prefix('#') {
                Some(n) => Rule { number: Some(range(n)), segments: (0, 0), transmission: 0, fate },
                None => {
                    Rule { number: None, segments: range(segments), transmission: transmission.parse().unwrap(), fate }
                }
            }
        })
        .collect()
}

fn script(text: &str, mss: u64) -> Script {
    let rules = rules(text);
    let mut transmissions = BTreeMap::new();
    Box::new(move |n, p| {
        let segment = (u64::from(p.seq.0).wrapping_sub(1)) / mss;
        let count = transmissions.entry(segment).or_insert(0);
        let transmission = *count;
        *count += u32::from(p.len > 0);
        let hit = |r: &&Rule| match r.number {
            Some((first, last)) => (first..=last).contains(&n),
            None => p.len > 0 && (r.segments.0..=r.segments.1).contains(&segment) && r.transmission == transmission,
        };
        rules.iter().find(hit).map_or(Fate::Pass, |r| r.fate)
    })
}

fn settings(c: &mut TcpConfig, case: &Value, setting: &str, control: &str) {
    c.cc = CcConfig::by_name(control).unwrap_or_else(|| panic!("no control {control}"));
    if control == "cubic" {
        c.cc = config("linux-6", |_| {}).cc.clone();
    }
    match setting {
        // Since 6.17 the kernel has no other way to find losses with SACK (commit "remove
        // RFC3517/RFC6675 loss
        // detection"): its runs with `tcp_recovery = 0` are the same as the default ones.
        "default" | "no_rack" => {}
        "no_probe" => c.loss_recovery.tail_loss_probe = false,
        // Without SACK the kernel counts duplicates.
        "no_sack" => {
            c.loss_recovery.recovery = Recovery::NewReno;
            c.loss_recovery.loss = LossConfig::by_name("dup_thresh").unwrap();
        }
        "no_timestamps" => c.timestamps.enabled = false,
        "no_dsack" => c.loss_recovery.dsack = false,
        other => panic!("no setting {other}"),
    }
    c.cwnd.initial = case["window"].as_u64().unwrap() as u32;
    if !case["delayed_acks"].as_bool().unwrap() {
        (c.receiver.delayed_ack, c.receiver.compressed_sacks) = (Span::ZERO, 0);
    }
    c.buffers.send = Bytes::new(4 << 20);
    let window = case["receive_window"].as_u64().unwrap();
    if window > 0 {
        c.buffers.receive = Bytes::new(window * u64::from(c.mss()));
        c.buffers.receive_max = c.buffers.receive;
    }
}

struct Story {
    /// Contents of each ACK, as the reference writes them.
    acks: Vec<String>,
    /// ms since the first data, segment, how long the timer ran that sent it.
    sent: Vec<(f64, u64, Option<f64>)>,
    stats: SenderStats,
    cwnd: u32,
    ssthresh: u32,
}

/// An ACK in segments: `cumulative:from-to,from-to`, with an `f` where it covers the FIN.
fn said(p: &Packet, mss: u64, bytes: u64) -> String {
    let segment = |seq: Seq32| (u64::from(seq.0) - 1) / mss;
    let fin = if u64::from(p.ack.0) == bytes + 2 { "f" } else { "" };
    let blocks: Vec<String> = p.sack().iter().map(|b| format!("{}-{}", segment(b.start), segment(b.end))).collect();
    let colon = if blocks.is_empty() { "" } else { ":" };
    format!("{}{fin}{colon}{}", segment(p.ack), blocks.join(","))
}

fn run(case: &Value, setting: &str, control: &str, until_ms: f64) -> Story {
    let c = config("linux-6", |c| settings(c, case, setting, control));
    let mss = u64::from(c.mss());
    let number = |key: &str| case[key].as_f64().unwrap();
    let mut pair = Pair::same(&c, Span::from_us((number("rtt_ms") * 500.0) as u64));
    pair.rate = Some(DataRate::from_bps((number("rate_mbit") * 1e6) as u64));
    pair.data_fate = script(case["data"].as_str().unwrap(), mss);
    let bytes = number("segments") as u64 * mss;
    let acks = Rc::new(RefCell::new(Vec::new()));
    let (log, mut fate) = (acks.clone(), script(case["acks"].as_str().unwrap(), mss));
    pair.ack_fate = Box::new(move |n, p| {
        log.borrow_mut().push(said(p, mss, bytes));
        fate(n, p)
    });
    let mut pair = if number("receive_window") > 0.0 {
        let mut pair = pair.start(mss);
        let mut out = Outputs::default();
        for n in 1..=AHEAD {
            while pair.sender.stats().bytes_acked < n * mss {
                pair.run_for(Span::from_us(100));
            }
            pair.sender.write(pair.now, if n == AHEAD { bytes - n * mss } else { mss }, &mut out);
            pair.timer_ran = None;
            pair.out.packets.append(&mut out.packets);
            pair.drain();
        }
        pair
    } else {
        pair.start(bytes)
    };
    if case["close"].as_bool().unwrap() {
        pair.sender.close(pair.now, &mut pair.out);
        pair.drain();
    }
    let begin = if pair.sent.is_empty() { number("rtt_ms") } else { pair.sent[0].0 };
    pair.run(Time::ZERO + Span::from_us(((begin + until_ms) * 1e3) as u64));
    let first = pair.sent[0].0;
    let waited = pair.waited.iter().map(|w| w.map(|w| w.as_ns() as f64 / 1e6));
    let acks = acks.take();
    Story {
        acks,
        sent: pair.sent.iter().zip(waited).map(|(s, w)| (s.0 - first, (s.1 - 1) / mss, w)).collect(),
        stats: *pair.sender.stats(),
        cwnd: pair.sender.window().cwnd,
        ssthresh: pair.sender.window().ssthresh,
    }
}

/// `ms=first-last ...` as a list of `(ms, segment)`.
fn sent(text: &str) -> Vec<(f64, u64)> {
    let mut all = Vec::new();
    for group in text.split(' ') {
        let (ms, segments) = group.split_once('=').unwrap();
        let (first, last) = segments.split_once('-').unwrap_or((segments, segments));
        all.extend((first.parse().unwrap()..=last.parse().unwrap()).map(|s: u64| (ms.parse().unwrap(), s)));
    }
    all
}

/// Until when the kernel was watched at least: two round trips after everything had been
/// acknowledged, if it was, as long as a script holds packets back, and until the last ACK was
/// there.
fn until_ms(case: &Value, packets: &[(f64, u64)], acks: &str) -> f64 {
    let rtt = case["rtt_ms"].as_f64().unwrap();
    let all = case["segments"].as_u64().unwrap();
    let last = packets.last().unwrap().0;
    let scripts = [case["data"].as_str().unwrap(), case["acks"].as_str().unwrap()];
    let delays =
        scripts.iter().flat_map(|s| rules(s)).map(|r| if let Fate::Delay(d) = r.fate { d } else { Span::ZERO });
    let late = delays.max().map_or(0.0, |d| d.as_ns() as f64 / 1e6);
    let (mut ms, mut end, mut over) = (0.0, last, false);
    for ack in acks.split(' ') {
        let (gap, numbers) = ack.split_once('=').unwrap();
        ms += gap.parse::<f64>().unwrap();
        if !over && numbers.split(':').next().unwrap().trim_end_matches('f').parse() == Ok(all) {
            end = end.max(ms + 2.5 * rtt + late);
            over = true;
        }
    }
    end.max(ms + rtt) + 4.0 * JIFFY_MS
}

/// The first difference, in words.
fn difference(theirs: &[(f64, u64)], ours: &[(f64, u64, Option<f64>)]) -> Option<String> {
    let mut shifts = vec![0.0];
    for (i, (&(t, s), &(o, n, waited))) in theirs.iter().zip(ours).enumerate() {
        if s != n {
            return Some(format!("packet {i}: {n} at {o:.1} ms, Linux {s} at {t:.1} ms"));
        }
        let near =
            |low: f64, high: f64| shifts.iter().rev().copied().find(|shift| (low..=high).contains(&(t - o - shift)));
        let found = match waited {
            None => near(-TOLERANCE_MS, TOLERANCE_MS),
            Some(waited) => near(-TOLERANCE_MS - JIFFY_MS, TOLERANCE_MS + JIFFY_MS + wheel_step_ms(waited)),
        };
        if found.is_none() {
            let by = waited.map_or(String::new(), |w| format!(" by a timer of {w:.1} ms"));
            let back = if shifts.len() > 1 { format!(", timers before: {shifts:.1?} ms") } else { String::new() };
            return Some(format!("segment {s} (packet {i}): at {o:.1} ms{by}, Linux at {t:.1} ms{back}"));
        }
        if waited.is_some() {
            shifts.push(t - o);
        }
    }
    let (last_time, more) = (theirs.last().map_or(0.0, |t| t.0), ours.len() as i64 - theirs.len() as i64);
    match more {
        0 => None,
        1.. => {
            Some(format!("{more} packets more, the first {:?} at {:.1} ms", ours[theirs.len()].1, ours[theirs.len()].0))
        }
        _ => {
            let (t, s) = theirs[ours.len()];
            Some(format!("{} packets fewer, the first {s} at {t:.1} of {last_time:.1} ms", -more))
        }
    }
}

/// The first ACK of the receivers that differs. If a filled hole gives the application much to
/// read, the kernel announces the new room at once, in an ACK with no other news. Here reading
/// takes no time, and the first ACK announces it.
fn ack_difference(theirs: &str, ours: &[String]) -> Option<String> {
    let mut cumulative = String::new();
    let mut i = 0;
    for ack in theirs.split(' ') {
        let (gap, said) = ack.split_once('=').unwrap();
        if said.is_empty() && gap.parse::<f64>().unwrap() < WINDOW_UPDATE_MS {
            continue;
        }
        let (number, blocks) = said.split_once(':').map_or((said, None), |(n, b)| (n, Some(b)));
        if !number.is_empty() {
            cumulative = number.to_owned();
        }
        let theirs = blocks.map_or(cumulative.clone(), |b| format!("{cumulative}:{b}"));
        match ours.get(i) {
            Some(o) if *o == theirs => {}
            Some(o) => return Some(format!("ACK {i} says {o}, Linux {theirs}")),
            None => return Some(format!("no ACK {i}, Linux {theirs}")),
        }
        i += 1;
    }
    None
}

fn counts(counters: &Value) -> impl Fn(&[&str]) -> u64 {
    let counters = counters.clone();
    move |names| names.iter().map(|n| counters[*n].as_u64().unwrap_or(0)).sum()
}

/// Timeouts, probes, fast recoveries and undos, and window and threshold at the end.
fn count_difference(run: &Value, ours: &Story) -> Option<String> {
    let theirs = counts(&run["counters"]);
    let pairs = [
        ("timeouts", ours.stats.timeouts, theirs(&["TCPTimeouts"])),
        ("probes", ours.stats.tail_loss_probes, theirs(&["TCPLossProbes"])),
        ("fast recoveries", ours.stats.fast_retransmits, theirs(&["TCPSackRecovery", "TCPRenoRecovery"])),
        ("undos", ours.stats.undos, theirs(&["TCPFullUndo", "TCPPartialUndo", "TCPDSACKUndo", "TCPLossUndo"])),
        ("cwnd", u64::from(ours.cwnd), run["info"]["cwnd"].as_u64().unwrap()),
        ("ssthresh", u64::from(ours.ssthresh).min(0x7fff_ffff), run["info"]["ssthresh"].as_u64().unwrap()),
    ];
    let mut text = String::new();
    for (what, ours, theirs) in pairs.into_iter().filter(|p| p.1 != p.2) {
        write!(text, "{}{what} {ours}, Linux {theirs}", if text.is_empty() { "" } else { "; " }).unwrap();
    }
    (!text.is_empty()).then_some(text)
}

/// Case and `setting/control` of everything in `list`, with the reason.
fn accepted(list: &'static str) -> BTreeMap<(&'static str, String), &'static str> {
    let mut all = BTreeMap::new();
    for line in list.lines().filter(|l| !l.starts_with('#')) {
        let (what, reason) = line.split_once(" = ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(REASONS.iter().any(|r| r.0 == reason), "no such reason: {line}");
        let mut words = what.split(' ');
        let case = words.next().unwrap();
        for setting in words {
            let controls: &[&str] = if setting.contains('/') { &[""] } else { &["/reno", "/cubic"] };
            for control in controls {
                let twice = all.insert((case, format!("{setting}{control}")), reason);
                assert!(twice.is_none(), "{case} {setting} is accepted twice");
            }
        }
    }
    all
}

fn explain(reason: &str) -> &'static str {
    REASONS.iter().find(|r| r.0 == reason).map_or("", |r| r.1)
}

// [RFC6675-6-1] [RFC8985-4-1] [RFC8985-9.2-1] [RFC9438-4.6-1]
#[test]
fn loss_recovery_is_as_in_the_kernel() {
    compare(include_bytes!("../../../../../evidence/figures/kernel/losses.json.gz"), ACCEPTED);
}

/// ACKs are delayed and compressed as everywhere.
#[test]
fn loss_recovery_with_the_kernels_own_acks_is_as_in_the_kernel() {
    compare(include_bytes!("../../../../../evidence/figures/kernel/losses_as_is.json.gz"), ACCEPTED_AS_IS);
}

fn compare(reference: &[u8], list: &'static str) {
    let reference: Value = serde_json::from_reader(flate2::read::GzDecoder::new(reference)).unwrap();
    let (mut told, mut differ) = (String::new(), String::new());
    let (mut compared, mut in_packets) = (0, 0);
    let mut accepted = accepted(list);
    for case in reference["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let runs = case["runs"].as_object().unwrap();
        for (key, run_value) in runs {
            let theirs = run_value["same_as"].as_str().map_or(run_value, |twin| &runs[twin]);
            if !theirs["unstable"].is_null() {
                continue;
            }
            compared += 1;
            let (setting, control) = key.split_once('/').unwrap();
            let packets = sent(theirs["sent"].as_str().unwrap());
            let acks = theirs["acks"].as_str().unwrap();
            let ours = run(case, setting, control, until_ms(case, &packets, acks));
            let in_order = difference(&packets, &ours.sent);
            in_packets += usize::from(in_order.is_none());
            let found =
                in_order.or_else(|| count_difference(theirs, &ours)).or_else(|| ack_difference(acks, &ours.acks));
            match (found, accepted.remove(&(name, key.clone()))) {
                (None, None) => {}
                (Some(text), Some(reason)) => writeln!(differ, "{name} {key}: {text} ({})", explain(reason)).unwrap(),
                (Some(text), None) => writeln!(told, "{name} {key}: {text}").unwrap(),
                (None, Some(_)) => {
                    writeln!(told, "{name} {key} agrees now: take it off the list of what differs").unwrap()
                }
            }
        }
    }
    for (case, key) in accepted.keys() {
        writeln!(told, "{case} {key} is on the list of what differs and was not run").unwrap();
    }
    let agreed = compared - differ.lines().count() - told.lines().filter(|l| !l.contains("agrees now")).count();
    println!("{compared} runs compared, {agreed} agree in all, {in_packets} packet by packet\n{differ}\n{told}");
    assert!(told.is_empty(), "{told}");
}
