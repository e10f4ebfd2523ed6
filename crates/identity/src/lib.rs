//! Name of the engine that a workspace builds: a hash of everything that decides the results of a
//! run, and of nothing else.
//!
//! The hash covers the tokens in the sources of the core, the law and the simulator. It also covers
//! the data compiled into them, and the versions of all crates they depend on. It does not cover
//! comments, whitespace, tests, and the place of the workspace. The version of rustc does not
//! count. Rust and IEEE 754 fix what the sources compute, and `libm` supplies the functions that
//! they do not fix.

mod dependencies;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use source::Source;

/// The crates whose sources decide results: folder and name.
const CRATES: [(&str, &str); 3] =
    [("crates/core", "airtcp-core"), ("crates/law", "airtcp-law"), ("crates/sim", "airtcp-sim")];

/// The engine's name, 16 hexadecimal digits, and what to watch for changes: files and folders
/// relative to `root`, which is the root of the workspace.
pub fn engine(root: &Path) -> io::Result<(String, Vec<PathBuf>)> {
    let mut watched = vec![PathBuf::from("Cargo.lock"), PathBuf::from("Cargo.toml")];
    let mut sources = BTreeMap::new();
    for (folder, _) in CRATES {
        let folder = Path::new(folder);
        watched.extend([folder.join("Cargo.toml"), folder.join("src")]);
        let mut found = Vec::new();
        rust_files(root, &folder.join("src"), &mut found)?;
        for path in found {
            let source = Source::read(&path, &text(root, &path)?)?;
            sources.insert(path, source);
        }
    }
    let compiled: BTreeSet<PathBuf> = sources.values().flat_map(|s| s.modules.iter().cloned()).collect();
    let tests: Vec<PathBuf> =
        sources.values().flat_map(|s| s.tests.iter()).filter(|test| !compiled.contains(*test)).cloned().collect();
    // A test module is a file, or a folder with everything below.
    sources.retain(|path, _| !tests.iter().any(|test| path.starts_with(test) || path.with_extension("") == *test));

    let mut hash = Sha256::new();
    // Lengths keep apart what would look the same strung together.
    let mut add = |name: &str, bytes: &[u8]| {
        hash.update(format!("{} {name} {}\n", name.len(), bytes.len()));
        hash.update(bytes);
    };
    let mut data = BTreeSet::new();
    for (path, source) in &sources {
        add(&slashed(path), source.tokens.as_bytes());
        for included in &source.included {
            data.insert(inside(included).ok_or_else(|| fault(path, "includes a file outside the workspace"))?);
        }
    }
    for path in data {
        // A Rust file below `src` is there already.
        if !sources.contains_key(&path) {
            add(&slashed(&path), &meaning(root, &path)?);
            if !watched.iter().any(|folder| path.starts_with(folder)) {
                watched.push(path);
            }
        }
    }
    let versions = dependencies::versions(root)?;
    add("dependencies", versions.join("\n").as_bytes());
    let hex = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok((hex, watched))
}

/// The contents of an included file that can decide a result.
fn meaning(root: &Path, path: &Path) -> io::Result<Vec<u8>> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("toml") => {
            let table = table(root, path)?;
            Ok(toml::to_string(&table).map_err(|e| fault(path, e))?.into_bytes())
        }
        Some("rs") => Ok(Source::read(path, &text(root, path)?)?.tokens.into_bytes()),
        _ => fs::read(root.join(path)).map_err(|e| fault(path, e)),
    }
}

fn text(root: &Path, path: &Path) -> io::Result<String> {
    fs::read_to_string(root.join(path)).map_err(|e| fault(path, e))
}

/// A TOML file, its keys in the order of their names.
fn table(root: &Path, path: &Path) -> io::Result<toml::Table> {
    toml::from_str(&text(root, path)?).map_err(|e| fault(path, e))
}

/// The Rust files below `path`, relative to `root`.
fn rust_files(root: &Path, path: &Path, out: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(path)).map_err(|e| fault(path, e))? {
        let entry = entry?;
        let inner = path.join(entry.file_name());
        if entry.path().is_dir() {
            rust_files(root, &inner, out)?;
        } else if inner.extension().is_some_and(|e| e == "rs") {
            out.push(inner);
        }
    }
    Ok(())
}

/// A path without `.` and `..`; `None` if it leaves the folder it starts from.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::CurDir => {}
            Component::ParentDir if out.pop() => {}
            _ => return None,
        }
    }
    Some(out)
}

/// The same name on every system.
fn slashed(path: &Path) -> String {
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

fn fault(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", slashed(path)))
}

#[cfg(test)]
mod tests;
