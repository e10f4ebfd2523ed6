//! In lockstep with the Linux kernel: it and airtcp were given the same ACKs, or the same data, at
//! the same times. After each of them the same segments leave, and TCP_INFO is the same.
//!
//! `evidence/figures/lockstep.json.gz` has what the kernel did (`evidence/lockstep/run.py
//! --measure`). A path is compared up to its first difference. Paths that differ are in
//! [`KNOWN`], each with the mechanism behind it. A path that agrees and is listed there fails the
//! test, so that the list stays exact.

mod compare;
mod receiving;
mod record;
mod sending;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// Paths that differ, and why: `topic seed seed ... = reason`, the reason being one of [`REASONS`].
const KNOWN: &str = include_str!("known.txt");
/// `reason: words` by line.
const REASONS: &str = include_str!("reasons.txt");

fn known() -> BTreeMap<(&'static str, u64), &'static str> {
    let reasons: Vec<&str> = REASONS.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
    let mut all = BTreeMap::new();
    for line in KNOWN.lines().filter(|line| !line.starts_with('#')) {
        let (what, reason) = line.split_once(" = ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(reasons.contains(&reason), "no such reason: {line}");
        let mut words = what.split(' ');
        let topic = words.next().unwrap();
        for seed in words {
            let twice = all.insert((topic, seed.parse().unwrap()), reason);
            assert!(twice.is_none(), "{topic} {seed} is listed twice");
        }
    }
    all
}

#[test]
fn tcp_goes_in_lockstep_with_the_kernels() {
    let file = include_bytes!("../../../../evidence/figures/lockstep.json.gz");
    let data: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&file[..])).unwrap();
    let mut known = known();
    let mut told = String::new();
    let (mut number, mut equal) = (0, 0);
    for (topic, text) in data["paths"].as_object().unwrap() {
        for path in record::paths(text.as_str().unwrap()) {
            number += 1;
            let seed = path.head.seed;
            let found = compare::first_difference(&path, &[]);
            equal += u32::from(found.is_none());
            match (found, known.remove(&(topic.as_str(), seed))) {
                (None, None) | (Some(_), Some(_)) => {}
                (Some(d), None) => writeln!(
                    told,
                    "{topic} {seed}, step {}, {} us, after {}: {}: Linux {:?}, airtcp {:?}",
                    d.step, d.at_us, d.event, d.field, d.linux, d.airtcp
                )
                .unwrap(),
                (None, Some(reason)) => {
                    writeln!(told, "{topic} {seed} ({reason}) agrees now: take it off the list").unwrap();
                }
            }
        }
    }
    for (topic, seed) in known.keys() {
        writeln!(told, "{topic} {seed} is listed and was not recorded").unwrap();
    }
    println!("{equal} of {number} paths equal to the end");
    assert!(told.is_empty(), "{told}");
}
