//! Recipes against a real kernel, in namespaces of their own.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use airtcp_host::sys::{self, monotonic};
use common::{Bed, LINE, Line, Upload};

fn host(bed: &Bed, words: &'static str) -> (i32, String) {
    bed.a.run(move || {
        let out = Command::new(env!("CARGO_BIN_EXE_airtcp-host")).args(words.split(' ')).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        (out.status.code().unwrap(), text)
    })
}

fn sysctl(bed: &Bed, name: &'static str) -> String {
    bed.a.run(move || fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap().trim().to_owned())
}

fn set(bed: &Bed, name: &'static str, value: &'static str) {
    bed.a.run(move || fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap());
}

#[test]
fn what_is_applied_is_checked_and_undone() {
    if let Some(reason) = common::missing_namespaces() {
        common::skipped(&reason);
        return;
    }
    let bed = Bed::new(LINE);
    let before = (sysctl(&bed, "tcp_pacing_ss_ratio"), sysctl(&bed, "tcp_reordering"));
    assert_eq!(host(&bed, "pacing --interface air0 --check --for 0s").0, 1);
    let (code, text) = host(&bed, "pacing --interface air0 --apply");
    assert_eq!(code, 0, "{text}");
    assert_eq!(sysctl(&bed, "tcp_pacing_ss_ratio"), "100");
    assert_eq!(host(&bed, "pacing --interface air0 --check --for 0s"), (0, "all is set\n".to_owned()));
    bed.a.ip("link set dev air0 gso_max_segs 2");
    let (code, text) = host(&bed, "pacing --interface air0 --check --for 0s");
    assert!(code == 1 && text.contains("gso_max_segs of air0 is 2, not 1"), "{text}");
    assert_eq!(host(&bed, "efr --threshold 1 --apply").0, 0);
    let (code, text) = host(&bed, "efr --threshold 2 --prefix 10.9.0.2 --apply");
    assert_eq!(code, 0, "{text}");
    let route = bed.a.run(|| Command::new("ip").args(["route", "show", "10.9.0.2"]).output().unwrap().stdout);
    assert!(String::from_utf8_lossy(&route).contains("reordering 2"), "{}", String::from_utf8_lossy(&route));
    let (code, text) = host(&bed, "undo");
    assert_eq!(code, 0, "{text}");
    assert_eq!((sysctl(&bed, "tcp_pacing_ss_ratio"), sysctl(&bed, "tcp_reordering")), before);
    let route = bed.a.run(|| Command::new("ip").args(["route", "show", "10.9.0.2"]).output().unwrap().stdout);
    assert!(!String::from_utf8_lossy(&route).contains("reordering"));
    assert!(host(&bed, "undo").1.contains("nothing was set"));
}

/// A paced connection whose window is locked at 40 segments: what the checker says of it.
#[test]
fn the_spacing_on_the_wire_decides() {
    if let Some(reason) = common::missing_namespaces() {
        common::skipped(&reason);
        return;
    }
    // Faster than the connection, so that only its own pacing spaces the segments.
    let bed = Bed::new(Line { bits_per_second: 100_000_000, packets: 1000, ..LINE });
    bed.a.ip("link set dev air0 gso_max_segs 65535");
    bed.a.ip("route change 10.9.0.2 dev air0 src 10.9.0.1 cwnd lock 40");
    // The lock of a route counts from the second connection on.
    drop(Upload::new(&bed, Some("reno"), |_| {}));
    thread::sleep(Duration::from_millis(500));
    // A connection keeps the settings of the interface that it began with.
    let begin = || {
        let upload = Upload::new(&bed, Some("reno"), |socket| {
            // Armed, and far above what the window allows.
            sys::set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 1_000_000_000).unwrap();
        });
        thread::sleep(Duration::from_secs(1));
        assert_eq!(sys::tcp_info(upload.socket.as_raw_fd()).unwrap().tcpi_snd_cwnd, 40);
        upload
    };
    let check = || host(&bed, "pacing --interface air0 --check --for 1s");
    let upload = begin();
    let (code, text) = check();
    println!("as Linux has it: {text}");
    assert!(code == 1 && text.contains("does not pass"), "{text}");
    drop(upload);
    assert_eq!(host(&bed, "pacing --interface air0 --apply").0, 0);
    let upload = begin();
    // A busy machine may delay timers of the kernel for a second.
    let tries = (0..15).map(|_| check()).find(|(code, _)| *code == 0);
    let (_, text) = tries.expect("one second of fifteen passes");
    println!("applied: {text}");
    assert!(text.contains("all is set") && text.contains("passes: within 20 %"), "{text}");
    drop(upload);
    assert_eq!(host(&bed, "undo").0, 0);
    let _upload = begin();
    let (code, text) = check();
    assert!(code == 1 && text.contains("does not pass"), "after undo: {text}");
}

/// Milliseconds until `segments` written at once have arrived, the first of them being lost once.
fn completion(bed: &Bed, segments: usize) -> u64 {
    let listener = bed.b.run(|| TcpListener::bind(("10.9.0.2", 0)).unwrap());
    let port = listener.local_addr().unwrap().port();
    let mut sender = bed.a.run(move || {
        let socket = sys::tcp_socket().unwrap();
        sys::set_congestion_control(socket.as_raw_fd(), "cubic").unwrap();
        sys::connect(socket, [10, 9, 0, 2], port).unwrap()
    });
    let (mut receiver, _) = listener.accept().unwrap();
    // The first ACK of data updates the window, and would not count as a duplicate.
    sender.write_all(&[0; 1460]).unwrap();
    receiver.read_exact(&mut [0; 1460]).unwrap();
    thread::sleep(Duration::from_millis(100));
    let begin = monotonic();
    bed.drop_next.store(1, Ordering::Relaxed);
    sender.write_all(&vec![0; 1460 * segments]).unwrap();
    receiver.read_exact(&mut vec![0; 1460 * segments]).unwrap();
    monotonic().since(begin).as_ns() / 1_000_000
}

/// Without SACK the threshold that is set is the number of duplicates that Linux needs.
#[test]
fn the_threshold_decides_between_a_round_trip_and_a_timeout() {
    if let Some(reason) = common::missing_namespaces() {
        common::skipped(&reason);
        return;
    }
    let bed = Bed::new(LINE);
    set(&bed, "tcp_sack", "0");
    set(&bed, "tcp_timestamps", "0");
    set(&bed, "tcp_early_retrans", "0");
    set(&bed, "tcp_no_metrics_save", "1");
    for (threshold, segments, is_fast) in [(1, 2, true), (2, 3, true), (3, 4, true), (3, 3, false), (2, 2, false)] {
        let words = ["efr --threshold 1 --apply", "efr --threshold 2 --apply", "efr --threshold 3 --apply"];
        let (code, text) = host(&bed, words[threshold - 1]);
        assert_eq!(code, 0, "{text}");
        // A busy machine may delay one; the threshold decides between 42 and 246 ms.
        let ms = (0..3).map(|_| completion(&bed, segments)).min().unwrap();
        println!("threshold {threshold}, {segments} segments, the first lost: {ms} ms");
        assert_eq!(ms < 150, is_fast, "threshold {threshold}, {segments} segments: {ms} ms");
    }
    assert_eq!(host(&bed, "undo").0, 0);
}
