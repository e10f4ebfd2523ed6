//! Results of many scripts, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::driver::Verdict;

/// The result of one script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// As the caller names it.
    pub script: String,
    /// Scripts of one topic are counted together.
    pub topic: String,
    /// `passed`, `failed` or `not_expressible`.
    pub result: &'static str,
    /// Line of the script that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Why it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Entry {
    /// The entry of a verdict.
    pub fn new(script: &str, topic: &str, verdict: Verdict) -> Entry {
        let (result, line, why) = match verdict {
            Verdict::Passed => ("passed", None, None),
            Verdict::Failed { line, message } => ("failed", Some(line), Some(message)),
            Verdict::NotExpressible { line, reason } => ("not_expressible", Some(line), Some(reason)),
        };
        Entry { script: script.to_owned(), topic: topic.to_owned(), result, line, why }
    }
}

/// Counts of one topic: passed, failed, not expressible.
type Counts = [usize; 3];

fn place(result: &str) -> usize {
    match result {
        "passed" => 0,
        "failed" => 1,
        _ => 2,
    }
}

/// Counts by topic.
pub fn by_topic(entries: &[Entry]) -> BTreeMap<&str, Counts> {
    let mut topics: BTreeMap<&str, Counts> = BTreeMap::new();
    for entry in entries {
        topics.entry(&entry.topic).or_default()[place(entry.result)] += 1;
    }
    topics
}

/// The table for people.
pub fn table(entries: &[Entry], lists_reasons: bool) -> String {
    let topics = by_topic(entries);
    let width = topics.keys().map(|topic| topic.len()).max().unwrap_or(0).max(5);
    let mut text = String::new();
    let _ = writeln!(text, "{:width$}  passed  failed  not expressible", "topic");
    let mut all: Counts = [0; 3];
    for (topic, counts) in &topics {
        let _ = writeln!(text, "{topic:width$}  {:6}  {:6}  {:15}", counts[0], counts[1], counts[2]);
        all.iter_mut().zip(counts).for_each(|(all, n)| *all += n);
    }
    let _ = writeln!(text, "{:width$}  {:6}  {:6}  {:15}", "all", all[0], all[1], all[2]);
    for entry in entries.iter().filter(|entry| entry.result == "failed") {
        let _ = write!(text, "\n{}:{}: {}", entry.script, entry.line.unwrap_or(0), entry.why.as_deref().unwrap_or(""));
    }
    if all[1] > 0 {
        text.push('\n');
    }
    if lists_reasons {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.result == "not_expressible") {
            reasons.entry(entry.why.as_deref().unwrap_or("")).or_default().push(&entry.script);
        }
        text.push_str("\nNot expressible, by reason:\n");
        for (reason, scripts) in reasons {
            let _ = writeln!(text, "{:4}  {reason}: {}", scripts.len(), scripts.join(", "));
        }
    }
    text
}
