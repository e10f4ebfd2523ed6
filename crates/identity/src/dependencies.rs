//! The crates of others that are compiled into the engine, from `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use toml::{Table, Value};

use crate::{CRATES, fault, table};

/// `name version` of every crate that [`CRATES`] depend on, directly or not, in order. The lock
/// file does not tell dependencies of tests from others, so the walk starts from what the manifests
/// name.
pub(crate) fn versions(root: &Path) -> io::Result<Vec<String>> {
    let workspace = table(root, Path::new("Cargo.toml"))?;
    let lock_file = Path::new("Cargo.lock");
    let lock = table(root, lock_file)?;
    let mut packages: BTreeMap<&str, Vec<&Table>> = BTreeMap::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table) {
        packages.entry(text(package, "name")).or_default().push(package);
    }
    // An entry of the lock file is `name`, or `name version` or `name version (source)` where that
    // would be ambiguous.
    let find = |listed: &str| -> io::Result<&Table> {
        let mut parts = listed.split(' ');
        let (name, version, source) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let fits = |package: &&&Table| {
            version.is_none_or(|v| text(package, "version") == v)
                && source.is_none_or(|s| text(package, "source") == s.trim_matches(['(', ')']))
        };
        packages
            .get(name)
            .and_then(|all| all.iter().find(fits))
            .copied()
            .ok_or_else(|| fault(lock_file, format!("no package {listed:?}: let Cargo write the file again")))
    };
    let mut open = Vec::new();
    for (folder, name) in CRATES {
        let named = names(&table(root, &Path::new(folder).join("Cargo.toml"))?, &workspace);
        open.extend(listed(find(name)?).filter(|dependency| named.contains(first(dependency))));
    }
    let mut found = BTreeSet::new();
    while let Some(dependency) = open.pop() {
        let package = find(dependency)?;
        let name = text(package, "name");
        if CRATES.iter().any(|(_, ours)| *ours == name) {
            continue;
        }
        if !package.contains_key("source") {
            return Err(fault(
                lock_file,
                format!("{name} decides results and its sources do not count: add it to CRATES"),
            ));
        }
        if found.insert(format!("{name} {}", text(package, "version"))) {
            open.extend(listed(package));
        }
    }
    Ok(found.into_iter().collect())
}

fn text<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn first(listed: &str) -> &str {
    listed.split(' ').next().unwrap_or_default()
}

fn listed(package: &Table) -> impl Iterator<Item = &str> {
    package.get("dependencies").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The packages that a manifest's `[dependencies]` name, on any target, under their own names.
fn names(manifest: &Table, workspace: &Table) -> BTreeSet<String> {
    let below = |table: &Table, key: &str| table.get(key).and_then(Value::as_table).cloned().unwrap_or_default();
    let shared = below(&below(workspace, "workspace"), "dependencies");
    let mut tables = vec![below(manifest, "dependencies")];
    tables.extend(below(manifest, "target").values().filter_map(Value::as_table).map(|t| below(t, "dependencies")));
    let renamed = |entry: Option<&Value>| entry?.get("package")?.as_str().map(str::to_owned);
    let name = |(key, entry): (&String, &Value)| {
        renamed(Some(entry)).or_else(|| renamed(shared.get(key))).unwrap_or_else(|| key.clone())
    };
    tables.iter().flat_map(|table| table.iter().map(name)).collect()
}
