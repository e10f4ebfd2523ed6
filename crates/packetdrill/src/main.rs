//! `airtcp-packetdrill`: plays packetdrill scripts against airtcp's TCP.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use airtcp_packetdrill::report::{Entry, table};
use airtcp_packetdrill::{HZ, run};

const USAGE: &str = "\
usage: airtcp-packetdrill run FILES... [--hz N] [--json] [--list-reasons]

Plays packetdrill scripts against airtcp's TCP (profile linux-6) in virtual time. A folder stands for
all scripts below it. No command and no code of a script runs. The exit code is 1 if a script failed.

  --hz N          jiffies a second, of which timers are multiples: 1000, as the public scripts expect
  --json          one object for each script, in place of the table
  --list-reasons  the reasons of scripts that are not expressible, too";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match command(&words) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("airtcp-packetdrill: {message}");
            ExitCode::from(2)
        }
    }
}

fn command(words: &[String]) -> Result<ExitCode, String> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    if words.first().map(String::as_str) != Some("run") {
        return Err(format!("the first word is to be `run`\n{USAGE}"));
    }
    let (mut json, mut lists_reasons, mut files) = (false, false, Vec::new());
    let mut hz = HZ;
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--hz" => {
                let value = rest.next().map_or("", String::as_str);
                let known = value.parse().ok().filter(|hz| (1..=10_000).contains(hz));
                hz = known.ok_or_else(|| format!("--hz is `{value}`: a number from 1 to 10000 is expected"))?;
            }
            "--json" => json = true,
            "--list-reasons" => lists_reasons = true,
            option if option.starts_with('-') => {
                return Err(format!("{option} is no option: --hz, --json and --list-reasons are"));
            }
            file => find(Path::new(file), &mut files)?,
        }
    }
    if files.is_empty() {
        return Err("no script (*.pkt) is named".to_owned());
    }
    files.sort();
    let mut entries = Vec::new();
    for file in &files {
        let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let verdict = run(&String::from_utf8_lossy(&bytes), hz);
        entries.push(Entry::new(&file.display().to_string(), &topic(file), verdict));
    }
    if json {
        let text = serde_json::to_string_pretty(&entries).map_err(|e| e.to_string())?;
        println!("{text}");
    } else {
        print!("{}", table(&entries, lists_reasons));
    }
    let failed = entries.iter().any(|entry| entry.result == "failed");
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Scripts below a path.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let at = |e: std::io::Error| format!("{}: {e}", path.display());
    if !path.is_dir() {
        if !path.exists() {
            return Err(format!("{}: there is no such file", path.display()));
        }
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path).map_err(at)? {
        let entry = entry.map_err(at)?;
        let kind = entry.file_type().map_err(at)?;
        let below = entry.path();
        if kind.is_dir() {
            find(&below, files)?;
        } else if kind.is_file() && below.extension().is_some_and(|extension| extension == "pkt") {
            files.push(below);
        }
    }
    Ok(())
}

/// The folder's name; in a flat folder of many topics, what a name begins with.
fn topic(file: &Path) -> String {
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(rest) = name.strip_prefix("tcp_") {
        return rest.split(['_', '.']).next().unwrap_or(rest).to_owned();
    }
    let folder = file.parent().and_then(Path::file_name);
    folder.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default()
}
