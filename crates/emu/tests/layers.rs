//! Modules import downwards: `common` imports no product, and products import each other only where
//! [`IMPORTS`] says so.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each layer, and the layers that it may import beside itself.
const IMPORTS: [(&str, &[&str]); 5] = [
    ("common", &[]),
    ("shell", &["common"]),
    ("uml", &["common"]),
    ("hwsim", &["common"]),
    ("lab", &["common", "uml", "hwsim"]),
];
/// Files of the crate's root, which may import everything.
const TOP: [&str; 3] = ["lib.rs", "main.rs", "exec.rs"];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The layer of a file, by its path below `src`; `None`: the crate's root.
fn layer(path: &Path) -> Option<String> {
    let first = path.iter().next()?.to_str()?;
    (!TOP.contains(&first)).then(|| first.trim_end_matches(".rs").to_owned())
}

/// Modules of the crate's root that a file names: `crate::X`, `crate::{X, ...}`, and `super` as
/// often as leads there.
fn named(path: &Path, text: &str) -> BTreeSet<String> {
    let root = format!("{}::", vec!["super"; path.iter().count()].join("::"));
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for before in ["crate::", "airtcp_emu::", root.as_str()] {
            for (at, _) in line.match_indices(before) {
                let is_longer = line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
                let rest = &line[at + before.len()..];
                if !is_longer {
                    assert!(!rest.starts_with(['{', '*']), "{}: one module in each line: {line}", path.display());
                    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
                    names.insert(rest[..end.unwrap_or(rest.len())].to_owned());
                }
            }
        }
    }
    names
}

/// Imports of a file that its layer may not have.
fn forbidden(path: &Path, text: &str) -> Vec<String> {
    let Some(own) = layer(path) else { return Vec::new() };
    let allowed = IMPORTS.iter().find(|(name, _)| *name == own);
    let (_, allowed) = allowed.unwrap_or_else(|| panic!("{}: no layer {own:?}: add it to IMPORTS", path.display()));
    let is_upward = |name: &String| *name != own && name != "super" && !allowed.contains(&name.as_str());
    named(path, text).into_iter().filter(is_upward).collect()
}

#[test]
fn no_module_imports_upwards() {
    let mut all = Vec::new();
    files(&sources(), &mut all);
    assert!(all.len() > 50, "{all:?}");
    for file in all {
        let path = file.strip_prefix(sources()).unwrap();
        let upward = forbidden(path, &fs::read_to_string(&file).unwrap());
        assert!(upward.is_empty(), "src/{} imports {}", path.display(), upward.join(", "));
    }
}

#[test]
fn an_upward_import_is_found_however_it_is_written() {
    let of = |path: &str, text: &str| forbidden(Path::new(path), text);
    for text in
        ["use crate::uml::run;", "fn f() { crate::uml::run::run() }", "pub(in crate::uml) fn f() {}", "use crate::uml;"]
    {
        assert_eq!(of("common/clock.rs", text), ["uml"], "{text}");
        assert_eq!(of("shell/run.rs", text), ["uml"], "{text}");
        assert!(of("lab/run.rs", text).is_empty() && of("uml/run.rs", text).is_empty(), "{text}");
    }
    assert_eq!(of("common.rs", "use super::shell::tun;"), ["shell"]);
    assert_eq!(of("common/world/tests.rs", "use super::super::super::lab::cell;"), ["lab"]);
    assert!(of("common/world/tests.rs", "use super::super::clock;").is_empty());
    assert!(of("lib.rs", "use crate::lab;").is_empty());
}

#[test]
#[should_panic(expected = "one module in each line")]
fn a_list_of_modules_is_refused() {
    forbidden(Path::new("common/clock.rs"), "use crate::{shell, uml};");
}
