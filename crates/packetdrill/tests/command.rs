//! The command: its table, its JSON and its exit codes.

use std::path::Path;
use std::process::{Command, Output};

const SCRIPT: &str = "\
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 65535 <mss 1000>
   +0 > S. 0:0(0) ack 1 <...>
";

fn command(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_airtcp-packetdrill"));
    command.current_dir(folder).args(words).output().unwrap()
}

/// A folder with a script that passes, one that fails and one that is not expressible.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("airtcp-packetdrill-{name}-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("topic")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join("topic").join(name), text).unwrap();
    write("good.pkt", SCRIPT);
    write("bad.pkt", &SCRIPT.replace("S. 0:0(0) ack 1", "S. 0:0(0) ack 2"));
    write("other.pkt", &format!("{SCRIPT}   +0 poll([], 0, 0) = 0\n"));
    write("notes.txt", "no script");
    folder
}

#[test]
fn the_table_counts_by_topic_and_tells_why() {
    let folder = folder("table");
    let done = command(&folder, &["run", "topic", "--list-reasons"]);
    let text = String::from_utf8(done.stdout).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(done.status.code(), Some(1), "{text}");
    assert!(text.contains("all         1       1                1"), "{text}");
    assert!(text.contains("topic/bad.pkt:5: expected `> S. 0:0(0) ack 2 <...>`, got `> S. 0:0(0) ack 1"), "{text}");
    assert!(text.contains("   1  poll: topic/other.pkt"), "{text}");
}

#[test]
fn json_has_an_object_for_each_script() {
    let folder = folder("json");
    let done = command(&folder, &["run", "topic/good.pkt", "topic/other.pkt", "--json", "--hz", "250"]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(done.status.code(), Some(0), "no script failed");
    let rows: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        rows,
        serde_json::json!([
            { "script": "topic/good.pkt", "topic": "topic", "result": "passed" },
            { "script": "topic/other.pkt", "topic": "topic", "result": "not_expressible", "line": 6, "why": "poll" },
        ])
    );
}

#[test]
fn a_wrong_word_is_told_by_name() {
    let here = Path::new(".");
    for (words, message) in [
        (vec!["play"], "the first word is to be `run`"),
        (vec!["run"], "no script (*.pkt) is named"),
        (vec!["run", "nowhere.pkt"], "nowhere.pkt: there is no such file"),
        (vec!["run", "--fast"], "--fast is no option"),
        (vec!["run", "--hz", "0"], "--hz is `0`: a number from 1 to 10000 is expected"),
    ] {
        let done = command(here, &words);
        let text = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{words:?}: {text}");
        assert!(text.contains(message), "{words:?}: {text}");
    }
}

/// The script that the page shows passes.
#[test]
fn the_example_of_the_page_passes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/packetdrill.md");
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(airtcp_packetdrill::run(example, airtcp_packetdrill::HZ), airtcp_packetdrill::Verdict::Passed);
}
