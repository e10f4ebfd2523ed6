//! The suite of airtcp's own scripts, `evidence/packetdrill/`. A script that fails and is not in
//! `known.txt` fails the test, and so does one that is in it and passes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use airtcp_packetdrill::{Verdict, run};

/// Jiffies a second of the kernel that passes them.
const HZ: u32 = 250;

fn scripts(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scripts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            found.push(path);
        }
    }
}

/// Lines `script = reason`; `#` begins a comment.
fn known(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (script, reason) = line.split_once('=').unwrap_or_else(|| panic!("known.txt: `{line}` has no reason"));
            (script.trim().to_owned(), reason.trim().to_owned())
        })
        .collect()
}

#[test]
fn every_script_of_the_suite_passes_or_is_known_to_fail() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../evidence/packetdrill");
    let mut files = Vec::new();
    scripts(&suite, &mut files);
    files.sort();
    assert!(files.len() >= 200, "{} scripts below {}", files.len(), suite.display());
    let mut known = known(&std::fs::read_to_string(suite.join("known.txt")).unwrap_or_default());
    let mut wrong = String::new();
    for file in &files {
        let name = file.strip_prefix(&suite).unwrap().to_string_lossy().into_owned();
        let verdict = run(&std::fs::read_to_string(file).unwrap(), HZ);
        let reason = known.remove(&name);
        let _ = match (verdict, reason) {
            (Verdict::Passed, None) => Ok(()),
            (Verdict::Passed, Some(reason)) => writeln!(wrong, "{name} passes, and known.txt lists it: {reason}"),
            (_, Some(_)) => Ok(()),
            (Verdict::Failed { line, message }, None) => writeln!(wrong, "{name}:{line}: {message}"),
            (Verdict::NotExpressible { line, reason }, None) => {
                writeln!(wrong, "{name}:{line}: not expressible: {reason}")
            }
        };
    }
    for name in known.keys() {
        let _ = writeln!(wrong, "known.txt lists {name}, which is not there");
    }
    assert!(wrong.is_empty(), "{} scripts\n{wrong}", files.len());
}
