//! Standard streams without room, and names that would act on a terminal.

#![cfg(target_os = "linux")]

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::process::{Command, Output, Stdio};

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

fn emu(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_airtcp-emu"));
    command.args(arguments);
    command
}

/// Runs with a plan as its descriptor 9.
fn with_plan(what: &str, plan: &str, stderr: Stdio) -> Output {
    let path = std::env::temp_dir().join(format!("airtcp-plan-{}-{what}", std::process::id()));
    let mut file = File::create_new(&path).unwrap();
    file.write_all(plan.as_bytes()).unwrap();
    file.rewind().unwrap();
    // The shell becomes the program, whose parent this process stays.
    let program = env!("CARGO_BIN_EXE_airtcp-emu");
    let script = format!("exec {program:?} {what} 9 {} 9< {path:?}", if what == "guests" { "/tmp" } else { "" });
    let output = Command::new("/bin/sh").args(["-c", &script]).stderr(stderr).output().unwrap();
    std::fs::remove_file(path).unwrap();
    output
}

/// 101 is the status of a panic.
#[test]
fn errors_keep_their_status_where_standard_error_has_no_room() {
    for arguments in [&["nonsense"][..], &["lab-traffic", "nonsense"], &["exec", "0", "nobody", "true"]] {
        let normal = emu(arguments).stderr(Stdio::null()).status().unwrap().code();
        assert!(matches!(normal, Some(1 | 2)), "{arguments:?}: {normal:?}");
        assert_eq!(emu(arguments).stderr(full()).status().unwrap().code(), normal, "{arguments:?}");
    }
    assert_eq!(with_plan("guests", "nonsense", full().into()).status.code(), Some(1));
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let out = emu(&["check"]).stdout(full()).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(said, "error: cannot write to standard output: No space left on device (os error 28)\n");
    assert_eq!(out.status.code(), Some(1));
}

#[test]
fn names_neither_act_on_a_terminal_nor_make_lines() {
    let name = "\u{1b}[2Ja\u{202e}b\nerror: c";
    let plan = serde_json::json!({
        "scenario": null, "wmediumd": "nonsense", "file": name, "seed": 1, "radios": [], "for_s": null,
        "record": null, "quiet": true, "parent": std::process::id(),
    });
    let out = with_plan("hwsim", &plan.to_string(), Stdio::piped());
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.starts_with("error: \\u001b[2Ja\\u202eb\\u000aerror: c: "), "{said:?}");
    assert_eq!(out.status.code(), Some(2));
    let scenario = serde_json::json!({
        "scenario": "{}", "file": name, "hosts": [], "commands": [], "for_s": null, "record": null, "internet": null,
        "quiet": true, "guests": null, "parent": std::process::id(),
    });
    let out = with_plan("run", &scenario.to_string(), Stdio::piped());
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("\\u001b[2Ja\\u202eb\\u000aerror: c") && !said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
}
