//! The cooperative daemon against the kernel: a cap comes into force, and is gone when the daemon
//! is.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use airtcp_core::coop::{Announcement, TerminalId};
use airtcp_core::units::Span;
use airtcp_host::coop::{LEASE, PORT};
use airtcp_host::sys::monotonic;
use common::coop::{daemon_with, segments_of, wait_for_cap, window};
use common::{Bed, LINE, Line, Upload, rates};

/// With a queue that makes the round trip eight times as long.
const LONG: Line = Line { packets: 250, ..LINE };

/// The daemon of terminal a. It may use half of the line, by the least round trip.
fn daemon(bed: &Bed) -> Child {
    daemon_with(bed, &common::coop::HALF).0
}

#[test]
fn a_killed_daemon_leaves_nothing() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let before = {
        let bed = Bed::new(LONG);
        let upload = [Upload::new(&bed, Some("cubic"), |_| {})];
        thread::sleep(Duration::from_secs(2));
        rates(&upload, Duration::from_secs(1))[0]
    };
    // AIRTCP_HOST_KILLS=100 takes ten minutes.
    let kills = std::env::var("AIRTCP_HOST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    for round in 0..kills {
        let bed = Bed::new(LONG);
        let mut daemon = daemon(&bed);
        let upload = [Upload::new(&bed, Some("cubic"), |_| {})];
        wait_for_cap(&upload[0], 2 * segments_of(1));
        thread::sleep(Duration::from_secs(1));
        let (cap, ssthresh) = window(&upload[0]);
        let capped = rates(&upload, Duration::from_secs(1))[0];
        assert!(capped < 0.75 * before, "capped {capped:.1} of {before:.1} Mbit/s");
        assert_eq!(window(&upload[0]).1, ssthresh, "the cap touched the threshold");
        daemon.kill().unwrap(); // SIGKILL
        daemon.wait().unwrap();
        thread::sleep(LEASE + Duration::from_secs(1));
        let (free, after) = window(&upload[0]);
        let rate = rates(&upload, Duration::from_secs(1))[0];
        println!(
            "round {round}: {before:.1} Mbit/s, capped {capped:.1} (window {cap}), after kill -9 {rate:.1} (window {free}), ssthresh {ssthresh} then {after}"
        );
        // CUBIC's own HyStart may end the slow start that leads back earlier; nothing may raise or
        // reset it.
        assert!(after <= ssthresh && after > cap, "threshold {ssthresh}, {after} after the cap of {cap}");
        assert!(rate >= 0.8 * before, "{rate:.1} of {before:.1} Mbit/s after the lease and a second");
    }
}

/// BBR, too, obeys the lease, and finds its rate again when the daemon is gone.
#[test]
fn bbr_obeys_a_lease() {
    let bbr = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let missing = common::missing()
        .or_else(|| (!bbr.split_whitespace().any(|name| name == "bbr")).then(|| "this kernel has no BBR".to_owned()));
    if let Some(reason) = missing {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let bed = Bed::new(LONG);
    let mut daemon = daemon(&bed);
    let bbr = [Upload::new(&bed, Some("bbr"), |_| {})];
    thread::sleep(Duration::from_secs(1));
    // BBR alone makes no long queue, and CUBIC beside it may be capped first. So the way itself
    // gets longer, once the short one is known.
    bed.detour.store(150_000_000, Ordering::Relaxed);
    let begin = monotonic();
    while !control(&bbr[0]).starts_with("airtcp_bbr") {
        assert!(monotonic().since(begin) < Span::from_secs(20), "no cap after 20 s: {:?}", window(&bbr[0]));
        thread::sleep(Duration::from_millis(20));
    }
    let most = 2 * segments_of(1);
    while window(&bbr[0]).0 > most {
        assert!(monotonic().since(begin) < Span::from_secs(20), "the window is {:?}", window(&bbr[0]));
        thread::sleep(Duration::from_millis(20));
    }
    bed.detour.store(0, Ordering::Relaxed);
    let cap = window(&bbr[0]).0;
    daemon.kill().unwrap(); // SIGKILL
    daemon.wait().unwrap();
    thread::sleep(LEASE + Duration::from_secs(1));
    let rate = rates(&bbr, Duration::from_secs(2))[0];
    println!("BBR: window {cap} under the cap, {rate:.1} Mbit/s after kill -9");
    assert!(rate >= 0.8 * 18.0, "{rate:.1} Mbit/s after the lease and a second");
}

fn control(upload: &Upload) -> String {
    airtcp_host::sys::stream::congestion_control(upload.socket.as_raw_fd()).unwrap()
}

#[test]
fn a_hostile_announcer_caps_nobody_below_the_fair_share() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let bed = Bed::new(LONG);
    let other = bed.b.run(|| UdpSocket::bind(("0.0.0.0", PORT)).unwrap());
    let mut daemon = daemon(&bed);
    let upload = Upload::new(&bed, Some("cubic"), |_| {});
    // Another terminal hears that this one sends.
    other.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut datagram = [0; 100];
    let (bytes, from) = other.recv_from(&mut datagram).unwrap();
    let announcement = Announcement::decode(&datagram[..bytes]).unwrap();
    assert_eq!((from.ip().to_string().as_str(), announcement.flows), ("10.9.0.1", 1), "{announcement:?}");
    wait_for_cap(&upload, 2 * segments_of(1));
    let hostile = bed.b.run(|| {
        let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
        socket.set_broadcast(true).unwrap();
        socket.set_ttl(255).unwrap();
        socket
    });
    let mut least = u32::MAX;
    for sequence in 0..60u32 {
        for name in 1..=64 {
            let announcement = Announcement {
                sender: TerminalId::new(name).unwrap(),
                sequence,
                flows: 16,
                leaving: false,
                correcting: true,
                throughput_kbps: Some(1),
            };
            // Broadcast needs a route on a line of two; the daemon hears both ways alike.
            hostile.send_to(&announcement.encode(), ("10.9.0.1", PORT)).unwrap();
        }
        for length in [0, 1, 23, 24, 25, 1400] {
            hostile.send_to(&vec![sequence as u8; length], ("10.9.0.1", PORT)).unwrap();
        }
        thread::sleep(Duration::from_millis(100));
        least = least.min(window(&upload).0);
    }
    let is_alive = daemon.try_wait().unwrap().is_none();
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    println!("64 names of one host: the window is {least} at least, its share of two {}", segments_of(2));
    assert!(is_alive, "the daemon has ended");
    assert!(least >= segments_of(2), "{least} segments, the share of two terminals is {}", segments_of(2));
}

/// A path of 0.1 ms, as to a storage behind the same access point: any queue at all is many times
/// its least round trip, so stop mode comes at once and comes back. A window of one segment there
/// waits for the receiver's delayed ACK.
#[test]
fn stop_mode_starves_nobody_on_a_short_path() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let short = Line { bits_per_second: 9_600_000, rtt: Duration::from_micros(100), packets: 100, loss_per_mille: 0 };
    // AIRTCP_HOST_STOP_CAP=1 shows the study's window.
    let stop_cap = std::env::var("AIRTCP_HOST_STOP_CAP").map(|n| format!("stop_cap={n}"));
    let mut options = vec!["--bw-max", "9.6Mbit/s"];
    if let Ok(stop_cap) = &stop_cap {
        options.extend(["--set", stop_cap]);
    }
    // Where the daemon sees no short round trip before the queue, there is no cap, and nothing is
    // shown.
    for _ in 0..20 {
        let bed = Bed::new(short);
        let (mut daemon, said) = daemon_with(&bed, &options);
        let upload = [Upload::new(&bed, Some("cubic"), |_| {})];
        let mut seconds = Vec::new();
        let is_capped = || said.lock().unwrap().iter().any(|line| line.contains("1 of 1 connections capped"));
        while seconds.len() < 12 && (seconds.len() < 2 || is_capped()) {
            seconds.push(rates(&upload, Duration::from_secs(1))[0]);
        }
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        if is_capped() {
            let least = seconds[1..].iter().copied().fold(f64::INFINITY, f64::min);
            println!("0.1 ms and 9.6 Mbit/s, each second: {seconds:.1?}; {least:.1} at least");
            assert!(least >= 2.4, "{least:.1} Mbit/s in a second, a quarter of the line's rate was expected");
            return;
        }
    }
    panic!("in twenty runs there was no cap");
}

/// Each daemon has wrappers of its own: two namespaces of one kernel have one each. One that begins
/// anew takes over what a killed one left.
#[test]
fn daemons_of_one_kernel_do_not_disturb_each_other() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let beds = [Bed::new(LONG), Bed::new(LONG)];
    let mut daemons: Vec<Child> = beds.iter().map(daemon).collect();
    let uploads: Vec<Upload> = beds.iter().map(|bed| Upload::new(bed, Some("cubic"), |_| {})).collect();
    let is_capped =
        |upload: &Upload| control(upload).starts_with("airtcp_cubic") && window(upload).0 <= 2 * segments_of(1);
    let begin = monotonic();
    while !uploads.iter().all(is_capped) {
        assert!(monotonic().since(begin) < Span::from_secs(20), "no caps after 20 s");
        thread::sleep(Duration::from_millis(20));
    }
    let before: Vec<String> = uploads.iter().map(control).collect();
    assert!(before.iter().all(|name| name.starts_with("airtcp_cubic")) && before[0] != before[1], "{before:?}");
    daemons[0].kill().unwrap(); // SIGKILL
    daemons[0].wait().unwrap();
    thread::sleep(LEASE + Duration::from_secs(1));
    assert!(window(&uploads[0]).0 > 2 * segments_of(1), "free again: {:?}", window(&uploads[0]));
    assert!(window(&uploads[1]).0 <= 2 * segments_of(1), "the other's cap holds: {:?}", window(&uploads[1]));
    daemons[0] = daemon(&beds[0]);
    let begin = monotonic();
    let mut waited = 0;
    while control(&uploads[0]) == before[0] || !is_capped(&uploads[0]) {
        // It has seen the full queue alone. The timeout after an outage lets it see the round trip
        // without one, if it looks in time.
        if waited % 200 == 0 {
            beds[0].outage.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(500));
            beds[0].outage.store(false, Ordering::Relaxed);
        }
        waited += 1;
        assert!(monotonic().since(begin) < Span::from_secs(40), "no cap after 40 s: {:?}", window(&uploads[0]));
        thread::sleep(Duration::from_millis(20));
    }
    let after = control(&uploads[0]);
    println!("wrappers {before:?}, after kill -9 and a new start {after}");
    assert!(after.starts_with("airtcp_cubic") && after != before[0], "{after}");
    for mut daemon in daemons {
        Command::new("kill").arg(daemon.id().to_string()).status().unwrap();
        daemon.wait().unwrap();
    }
    assert_eq!(control(&uploads[0]), "cubic", "at an orderly end the kernel's own is back");
}
