//! Rooms of the simulator: no arrow between them leads back up.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room with the modules of the crate that it may name. Traffic is a part of the hosts.
const ROOMS: [(&str, &[&str]); 5] = [
    ("engine", &["engine", "path", "spec"]),
    ("books", &["books", "capture", "spec"]),
    ("network", &["network", "engine", "books", "capture", "context", "error", "path", "spec"]),
    ("hosts", &["hosts", "traffic", "engine", "books", "context", "error", "path", "spec"]),
    ("traffic", &["traffic", "books", "error", "spec"]),
];

/// Rust files below a folder, without files of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_stem().is_some_and(|s| s != "tests") {
            files.push(path);
        }
    }
    files
}

/// Modules of the crate that a file names outside comments and tests.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: String =
        code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let paths =
        code.split("crate::").skip(1).map(|after| after.chars().take_while(|&c| is_name(c)).collect::<String>());
    paths.filter(|name| !name.is_empty()).collect()
}

#[test]
fn no_room_names_one_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut faults = Vec::new();
    for (room, allowed) in ROOMS {
        let files = sources(&source.join(room));
        assert!(files.len() > 3, "{room}: {} files", files.len());
        for file in files {
            let names = named(&fs::read_to_string(&file).unwrap());
            let others = names.iter().filter(|name| !allowed.contains(&name.as_str()));
            faults.extend(others.map(|name| format!("{}: crate::{name}", file.display())));
        }
    }
    assert!(faults.is_empty(), "a room names one above it:\n{}", faults.join("\n"));
}

#[test]
fn names_are_found_where_code_has_them() {
    let text = "//! crate::world\nuse crate::books::{Books};\nfn f() -> crate::path::Place {} // crate::hosts\n#[cfg(test)]\nmod tests { use crate::world; }";
    assert_eq!(named(text), BTreeSet::from(["books".to_owned(), "path".to_owned()]));
}
