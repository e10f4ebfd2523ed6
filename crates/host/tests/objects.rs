//! The committed BPF objects: made of these sources, small, and without what the kernel would
//! refuse.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

fn objects(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn there_is_one_for_each_source_and_it_is_small() {
    let sources = fs::read_dir(folder())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".bpf.c"));
    let built = objects(&folder().join("built"));
    assert_eq!(built.len(), sources.count());
    for object in built {
        assert!(fs::metadata(&object).unwrap().len() < 64 << 10, "{}", object.display());
    }
}

/// Where the tools are, the objects are built again and compared byte by byte.
#[test]
fn they_are_built_from_these_sources() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim());
    let version = Command::new("rustc").arg("-V").output().unwrap();
    let has_tools = fs::read_dir(sysroot.join("lib/rustlib"))
        .unwrap()
        .any(|entry| entry.unwrap().path().join("bin/llvm-link").exists());
    let is_pinned = String::from_utf8_lossy(&version.stdout).starts_with("rustc 1.95.0");
    let has_clang = Command::new("clang-14").arg("--version").output().is_ok();
    if !(has_tools && is_pinned && has_clang) {
        let reason = "SKIPPED: comparing the BPF objects needs clang-14, and rustc 1.95.0 with llvm-tools\n";
        std::io::stderr().write_all(reason.as_bytes()).unwrap();
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let made = Command::new(folder().join("build.sh")).arg(out.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for object in objects(out.path()) {
        let committed = folder().join("built").join(object.file_name().unwrap());
        let same = fs::read(&object).unwrap() == fs::read(&committed).unwrap();
        assert!(same, "{}: run `make bpf` and commit it", committed.display());
    }
}
