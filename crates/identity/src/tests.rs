//! Small workspaces in temporary folders, and what of them names the engine.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::engine;

const MANIFEST: &str = "[workspace.dependencies]\nmath = { package = \"libm\", version = \"0.2\" }\n";
const CORE: &str =
    "[dependencies]\nmath.workspace = true\nairtcp-law.workspace = true\n[dev-dependencies]\ninsta = \"1\"\n";
const SIM: &str = "[dependencies]\nairtcp-core.workspace = true\n[target.'cfg(unix)'.dependencies]\nrayon = \"1\"\n";
const LOCK: &str = r#"
[[package]]
name = "airtcp-core"
version = "0.1.0"
dependencies = ["airtcp-law", "insta", "libm 0.2.1"]

[[package]]
name = "airtcp-law"
version = "0.1.0"

[[package]]
name = "airtcp-sim"
version = "0.1.0"
dependencies = ["airtcp-core", "rayon"]

[[package]]
name = "insta"
version = "1.0.1"
source = "registry"
dependencies = ["libm 0.1.4"]

[[package]]
name = "libm"
version = "0.1.4"
source = "registry"

[[package]]
name = "libm"
version = "0.2.1"
source = "registry"

[[package]]
name = "rayon"
version = "1.0.2"
source = "registry"
dependencies = ["deque"]

[[package]]
name = "deque"
version = "0.8.3"
source = "registry"
"#;
const LIB: &str = r#"//! A core.
mod queue;
/// How many.
pub const COUNT: u32 = 10;
const PROFILE: &str = include_str!("profiles/linux.toml");
const TABLE: &[u8] = include_bytes!("../table.txt");
const SCHEMA: &str = include_str!("../schema.json");
macro_rules! page {
    ($module:ident) => {
        include_str!(concat!(stringify!($module), ".rs"))
    };
}
pub fn sum(a: u32, b: u32) -> u32 {
    if a == 0 && b == 0 { return 0; }
    a + b // both
}
pub fn name() -> &'static str { "reno" }
#[cfg(test)]
mod inner { fn of_tests() -> u32 { 5 } }
#[allow(unused)]
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) const EXAMPLE: Hole = Hole { dup_acks: 0 };
pub const PAIR: (u32, [u32; 2]) = (1, [2, 3]);
pub const ONE: (u32,) = (4,);
macro_rules! list { ($($value:expr,)*) => { [$($value),*] }; }
pub struct Last;
"#;
const FILES: [(&str, &str); 16] = [
    ("Cargo.toml", MANIFEST),
    ("Cargo.lock", LOCK),
    ("crates/core/Cargo.toml", CORE),
    ("crates/law/Cargo.toml", ""),
    ("crates/law/src/lib.rs", "pub const UNIT: u64 = 1024;\n"),
    ("crates/sim/Cargo.toml", SIM),
    ("crates/core/table.txt", "1 # one\n"),
    ("crates/core/schema.json", "{\"description\": \"How many.\"}\n"),
    ("crates/core/src/lib.rs", LIB),
    ("crates/core/src/profiles/linux.toml", "# Linux\nwindow = 10\nname = \"linux\"\n"),
    (
        "crates/core/src/queue.rs",
        "#[cfg(test)] mod checks;\npub struct Queue { #[cfg(test)] seen: u32, length: u32 }\n",
    ),
    ("crates/core/src/queue/checks.rs", "mod deep;\n"),
    ("crates/core/src/queue/checks/deep.rs", "const A: u32 = 1;\n"),
    ("crates/core/src/tests.rs", "const B: u32 = 1;\n"),
    ("crates/sim/src/lib.rs", "mod bench;\npub const EVENTS: u32 = 3;\n"),
    ("crates/sim/src/bench.rs", "//! Inner.\n#![cfg(test)]\nconst C: u32 = 1;\n"),
];

fn workspace() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn id(root: &TempDir) -> String {
    engine(root.path()).unwrap().0
}

fn edit(root: &TempDir, path: &str, from: &str, to: &str) {
    let path = root.path().join(path);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches(from).count(), 1, "{from:?} in {}", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

/// True if the edit gives the engine another name.
fn renames(path: &str, from: &str, to: &str) -> bool {
    let root = workspace();
    let before = id(&root);
    edit(&root, path, from, to);
    before != id(&root)
}

#[test]
fn what_decides_no_result_keeps_the_name() {
    let lib = "crates/core/src/lib.rs";
    for (path, from, to) in [
        (lib, "// both", "/* the sum of both */"),
        (lib, "//! A core.", "//! The core."),
        (lib, "/// How many.", "#[doc = \"How many there are.\"]"),
        (lib, "    a + b", "\n        a+b"),
        (lib, "COUNT: u32 = 10", "COUNT : u32=10"),
        (lib, "a == 0 && b == 0", "a==0&&b==0"),
        (lib, "mod inner { fn of_tests() -> u32 { 5 } }", "mod inner { fn of_tests() -> u32 { 6 } }"),
        (lib, "mod inner {", "use std::{fmt, io};\n#[cfg(all(test, unix))]\nmod inner {"),
        (lib, "dup_acks: 0", "dup_acks: 1"),
        // rustfmt puts a comma before a closing bracket, or takes it away.
        (lib, "b: u32)", "b: u32,)"),
        (lib, "(1, [2, 3])", "(1, [2, 3],)"),
        (lib, "[2, 3]", "[2, 3,]"),
        (lib, "(\"profiles/linux.toml\")", "(\"profiles/linux.toml\",)"),
        ("crates/core/src/queue.rs", "length: u32 }", "length: u32, }"),
        ("crates/core/src/tests.rs", "1", "2"),
        ("crates/core/src/queue/checks.rs", "mod deep;", "mod deep; mod more;"),
        ("crates/core/src/queue/checks/deep.rs", "1", "2"),
        ("crates/sim/src/bench.rs", "1", "2"),
        ("crates/core/src/profiles/linux.toml", "# Linux", "# Linux 6"),
        ("crates/core/src/profiles/linux.toml", "window = 10", "window=10 # segments"),
        ("crates/core/schema.json", "many", "many there are"),
        // Dependencies of tests alone.
        ("Cargo.lock", "1.0.1", "1.0.9"),
        ("Cargo.lock", "version = \"0.1.4\"", "version = \"0.1.4\"\nchecksum = \"00\""),
    ] {
        assert!(!renames(path, from, to), "{path}: {from:?} -> {to:?}");
    }
}

#[test]
fn what_decides_results_gives_another_name() {
    let lib = "crates/core/src/lib.rs";
    for (path, from, to) in [
        (lib, "= 10", "= 11"),
        (lib, "a + b", "a - b"),
        (lib, "&& b", "|| b"),
        (lib, "\"reno\"", "\"re no\""),
        (lib, "sum(a", "s um(a"),
        // A comma that makes a tuple, or that a macro waits for.
        (lib, "(4,)", "(4)"),
        (lib, "($($value:expr,)*)", "($($value:expr)*)"),
        // Behind everything that was left out as a test.
        (lib, "pub struct Last;", "pub struct Lost;"),
        (lib, "#[cfg(test)]\nmod inner", "#[cfg(not(test))]\nmod inner"),
        // A module of both is one of the engine.
        (lib, "mod queue;", "mod queue; #[cfg(not(test))] mod tests;"),
        // A field is no item: what cannot be told counts.
        ("crates/core/src/queue.rs", "length: u32", "length: u64"),
        ("crates/sim/src/lib.rs", "= 3", "= 4"),
        ("crates/law/src/lib.rs", "= 1024", "= 1023"),
        ("crates/core/src/profiles/linux.toml", "10", "11"),
        ("crates/core/table.txt", "# one", "# two"),
    ] {
        assert!(renames(path, from, to), "{path}: {from:?} -> {to:?}");
    }
}

#[test]
fn the_version_of_a_dependency_counts_renamed_indirect_or_of_a_target() {
    let first = id(&workspace());
    for version in ["1.0.2", "0.8.3"] {
        assert!(renames("Cargo.lock", version, "9.9.9"), "{version}");
    }
    let root = workspace();
    edit(&root, "Cargo.lock", "\"insta\", \"libm 0.2.1\"", "\"insta\", \"libm 0.2.2\"");
    edit(&root, "Cargo.lock", "version = \"0.2.1\"", "version = \"0.2.2\"");
    assert_ne!(first, id(&root));
}

#[test]
fn the_place_of_the_workspace_does_not_count() {
    assert_eq!(id(&workspace()), id(&workspace()));
    let (name, watched) = engine(workspace().path()).unwrap();
    assert_eq!(name.len(), 16);
    // All relative; data beside `src` is watched by itself.
    assert!(watched.iter().all(|path| path.is_relative()), "{watched:?}");
    for path in ["Cargo.lock", "crates/core/src", "crates/sim/src", "crates/core/table.txt"] {
        assert!(watched.iter().any(|watched| watched == Path::new(path)), "{path} in {watched:?}");
    }
}

#[test]
fn what_cannot_be_told_is_an_error_that_names_the_file() {
    for (path, from, to, says) in [
        (
            "crates/core/src/lib.rs",
            "\".rs\"",
            "\".bin\"",
            "crates/core/src/lib.rs: an include whose file cannot be told",
        ),
        ("crates/core/src/lib.rs", "linux.toml", "lunix.toml", "crates/core/src/profiles/lunix.toml"),
        ("crates/core/src/profiles/linux.toml", "10", "ten", "crates/core/src/profiles/linux.toml"),
        ("crates/core/src/queue.rs", "pub struct Queue {", "pub struct Queue {{", "crates/core/src/queue.rs"),
        ("Cargo.lock", "\"deque\"", "\"deck\"", "Cargo.lock: no package \"deck\""),
        ("Cargo.lock", "source = \"registry\"\ndependencies = [\"deque\"]", "", "Cargo.lock: rayon decides results"),
    ] {
        let root = workspace();
        let path = root.path().join(path);
        fs::write(&path, fs::read_to_string(&path).unwrap().replacen(from, to, 1)).unwrap();
        let error = engine(root.path()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
