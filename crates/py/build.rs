//! Tells which engine this is: a hash over what decides the results of a run, see `engine` in `src/lib.rs`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What decides the results, from the root of the workspace.
const SOURCES: [&str; 4] = ["crates/core/Cargo.toml", "crates/core/src", "crates/sim/Cargo.toml", "crates/sim/src"];

/// Crates of others whose version decides what is drawn.
const DRAWS: [&str; 4] = ["rand", "rand_core", "rand_distr", "rand_xoshiro"];

/// The Rust sources and the data that is compiled in, below `path` or `path` itself. Not: snapshots of tests.
fn files(path: &Path, out: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            files(&entry?.path(), out)?;
        }
    } else if path.extension().is_some_and(|e| e == "rs" || e == "toml") {
        out.push(path.to_owned());
    }
    Ok(())
}

/// `name version` of each of [`DRAWS`] that the lock file holds, in its order.
fn locked(lock: &str) -> Vec<String> {
    let value = |line: &str, key: &str| line.strip_prefix(key).map(|rest| rest.trim_matches('"').to_owned());
    let mut found = Vec::new();
    let mut name = String::new();
    for line in lock.lines() {
        if let Some(is) = value(line, "name = ") {
            name = is;
        } else if let (Some(version), true) = (value(line, "version = "), DRAWS.contains(&name.as_str())) {
            found.push(format!("{name} {version}"));
        }
    }
    found
}

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut hash = Sha256::new();
    let mut found = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
        files(&root.join(source), &mut found)?;
    }
    // Neither the order of a directory nor the place of the workspace may matter.
    let mut named: Vec<(String, PathBuf)> = found
        .into_iter()
        .map(|path| {
            let inside = path.strip_prefix(&root).unwrap_or(&path);
            (inside.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"), path)
        })
        .collect();
    named.sort();
    for (name, path) in named {
        let text = fs::read(path)?;
        // Lengths keep apart what would look the same strung together.
        hash.update(format!("{} {name} {}\n", name.len(), text.len()));
        hash.update(text);
    }
    let lock = root.join("Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    hash.update(locked(&fs::read_to_string(lock).unwrap_or_default()).join("\n"));
    let hex: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=AIRTCP_ENGINE_HASH={hex}");
    Ok(())
}
