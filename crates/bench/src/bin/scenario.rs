//! Runs a scenario file and prints how long it took, and a hash of all that came out: for measuring
//! and for comparing engines.
//!
//! `cargo run --release -p airtcp-bench --bin scenario -- FILE [threads=1] [KEY=VALUE]...`

#![allow(clippy::cast_lossless, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of numbers that are known to fit

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::{Threads, Worlds};

#[allow(clippy::disallowed_types)] // a measurement needs a clock
fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("usage: scenario FILE [threads=N] [KEY=VALUE]...");
    let (mut threads, mut changes) = (Threads::Most(NonZeroUsize::MIN), Vec::new());
    for arg in args {
        match arg.strip_prefix("threads=") {
            Some("auto") => threads = Threads::Auto,
            Some(n) => threads = Threads::Most(n.parse().expect("threads: a number above 0, or auto")),
            None => changes.push(Override::parse(&arg).unwrap_or_else(|e| panic!("{e}"))),
        }
    }
    let spec = Scenario::load(Path::new(&file), &changes)
        .and_then(|scenario| scenario.to_spec())
        .unwrap_or_else(|errors| panic!("{errors}"));
    let begin = std::time::Instant::now();
    let mut worlds = Worlds::build(&Arc::new(spec), threads).unwrap_or_else(|e| panic!("{e}"));
    let built = begin.elapsed();
    worlds.run(&mut NoCapture);
    let ran = begin.elapsed() - built;
    let (parts, steps) = (worlds.parts(), worlds.steps());
    let output = worlds.finish();
    let finished = begin.elapsed() - built - ran;
    let mut hash = DefaultHasher::new();
    // The text of NaN is equal to itself, which NaN is not.
    format!("{:?}{:?}{}", output.tables, output.summary, output.events).hash(&mut hash);
    println!(
        "hash {:016x}  events {}  delivered {}  parts {parts}",
        hash.finish(),
        output.events,
        output.packets_delivered
    );
    if parts > 1 {
        println!(
            "{} steps of {:.0} events: {:.2} times as fast at most",
            steps.count,
            steps.events as f64 / steps.count as f64,
            steps.events as f64 / steps.longest as f64
        );
    }
    println!(
        "built in {:.3} s, ran in {:.3} s of wall time ({:.1} ns per delivered packet), finished in {:.3} s",
        built.as_secs_f64(),
        ran.as_secs_f64(),
        ran.as_nanos() as f64 / output.packets_delivered as f64,
        finished.as_secs_f64()
    );
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        if let Some(line) = status.lines().find(|l| l.starts_with("VmHWM")) {
            println!("{line}");
        }
    }
}
