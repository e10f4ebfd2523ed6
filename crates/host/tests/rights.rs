//! Rights, refusals, a second instance, and SIGKILL.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use airtcp_host::av::LEASE;
use common::{Bed, LINE, Upload, rates};

const PROGRAM: &str = env!("CARGO_BIN_EXE_airtcp-host");

/// As user 1000 with these capabilities and no others.
fn as_user(capabilities: &str, words: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=1000", "--regid=1000", "--clear-groups"]);
    if !capabilities.is_empty() {
        command.arg(format!("--inh-caps={capabilities}")).arg(format!("--ambient-caps={capabilities}"));
    }
    command.arg(PROGRAM).args(words.split(' ')).stdin(Stdio::null());
    command
}

/// Starts it; the first line that it says.
fn start(mut command: Command) -> (Child, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    thread::spawn(move || lines.for_each(drop));
    (child, first)
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_refusal_names_the_capability_and_two_of_them_suffice() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    for (capabilities, words, says) in [
        (
            "",
            "av --target 4Mbit/s",
            "no CAP_BPF and no CAP_PERFMON: run it as root, or as a service with AmbientCapabilities",
        ),
        ("+bpf", "av --target 4Mbit/s", "no CAP_PERFMON"),
        ("+bpf,+perfmon", "av --target 4Mbit/s --port 80", "no CAP_NET_ADMIN"),
        ("+perfmon", "coop --interface lo", "no CAP_BPF"),
        ("", "pacing --interface lo --apply", "run it as root"),
    ] {
        let out = as_user(capabilities, words).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{words}: {text}");
        assert!(text.contains(says) && !text.contains("EPERM") && !text.contains("os error 1)"), "{words}: {text}");
    }
    let (av, says) = start(as_user("+bpf,+perfmon", "av --target 4Mbit/s"));
    assert!(says.contains("airtcp_av is registered"), "{says}");
    let (second, says) = start(as_user("+bpf,+perfmon", "av --target 4Mbit/s"));
    assert!(says.contains("another airtcp-host has registered `airtcp_av`"), "{says}");
    end(second);
    end(av);
    let (hook, says) = start(as_user("+bpf,+perfmon,+net_admin", "av --target 4Mbit/s --port 80"));
    assert!(says.contains("airtcp_av is registered"), "{says}");
    end(hook);
    let (coop, says) = start(as_user("+bpf,+perfmon", "coop --interface lo"));
    assert!(says.contains("terminal"), "{says}");
    end(coop);
}

#[test]
fn bad_input_is_refused_with_what_is_accepted() {
    for (words, says) in [
        ("av", "--target RATE is missing"),
        ("av --target fast", "must be a rate from 1kbit/s to 100Gbit/s"),
        ("av --target 4Mbit/s --cgroup no/such", "is no control group"),
        ("av --target 4Mbit/s --port 0", "must be 1 to 65535"),
        ("coop --interface lo --set stop_at=0.5", "stop_at"),
        ("coop --interface lo --set nonsense=1", "nonsense"),
        ("coop --interface lo --set stop_at", "must be KEY=VALUE"),
        ("monitor --out x --interface nowhere0", "there is no interface of that name"),
        ("probe send", "HOST is missing"),
        ("probe send 127.0.0.1 --count 0", "must be a number from 1 to 100000"),
        ("efr --threshold 3 --window 4", "not both"),
        ("pacing --rate 1Gbit/s", "belong together"),
        ("proxy", "the file of rules is missing"),
        ("proxy no/such.toml", "no/such.toml: cannot read it"),
        ("fly", "is not a command"),
        ("check --loud", "is not understood"),
    ] {
        let out = Command::new(PROGRAM).args(words.split(' ')).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(2) && text.contains(says), "{words}: {:?}, {text}", out.status.code());
    }
}

#[test]
fn a_killed_av_leaves_plain_reno() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let mut command = Command::new(PROGRAM);
    command.args(["av", "--target", "4Mbit/s"]);
    let (av, says) = start(command);
    assert!(says.contains("registered"), "{says}");
    let bed = Bed::new(LINE);
    let upload = [Upload::new(&bed, Some("airtcp_av"), |_| {})];
    thread::sleep(Duration::from_secs(1));
    let held = rates(&upload, Duration::from_secs(2))[0];
    end(av); // SIGKILL
    thread::sleep(LEASE + Duration::from_secs(3));
    let free = rates(&upload, Duration::from_secs(2))[0];
    println!("target 4: {held:.2} Mbit/s, {free:.2} after kill -9");
    assert!((held / 4.0 - 1.0).abs() < 0.1, "{held}");
    assert!(free > 12.0, "{free} of 20 Mbit/s");
}
