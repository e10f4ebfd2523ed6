//! The buffer probe over a real queue of the kernel: TBF over pfifo on a forwarding host.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::process::{Command, Stdio};

use common::End;

/// a - m - b by veth, 30 Mbit/s from m to b over a pfifo of so many packets.
fn network(limit: u32) -> [End; 3] {
    let [a, m, b] = [End::new(), End::new(), End::new()];
    let (to_m, to_b) = (m.run(airtcp_host::sys::thread_id), b.run(airtcp_host::sys::thread_id));
    a.ip(&format!("link add wire type veth peer name wire netns {to_m}"));
    m.ip(&format!("link add air type veth peer name air netns {to_b}"));
    for (end, address, device) in [
        (&a, "10.8.1.1/24", "wire"),
        (&m, "10.8.1.2/24", "wire"),
        (&m, "10.8.2.1/24", "air"),
        (&b, "10.8.2.2/24", "air"),
    ] {
        end.ip(&format!("addr add {address} dev {device}"));
        end.ip(&format!("link set {device} up"));
    }
    a.ip("route add default via 10.8.1.2");
    b.ip("route add default via 10.8.2.1");
    m.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    for line in [
        "qdisc add dev air root handle 1: tbf rate 30mbit burst 1600 limit 10mb".to_owned(),
        format!("qdisc add dev air parent 1:1 pfifo limit {limit}"),
    ] {
        m.run(move || assert!(Command::new("tc").args(line.split(' ')).status().unwrap().success(), "tc {line}"));
    }
    [a, m, b]
}

#[test]
fn buffers_of_the_kernel_are_found_within_two_packets() {
    if let Some(reason) = common::missing_namespaces() {
        common::skipped(&reason);
        return;
    }
    for limit in [50u32, 133, 500] {
        // A train is sent in real time: where other work takes the processor, one measurement may be off, but not all.
        let mut means = Vec::new();
        while means.len() < 3 && !means.iter().any(|mean: &f64| (mean - f64::from(limit)).abs() <= 2.0) {
            means.push(measured(limit));
        }
        println!("pfifo {limit}: {means:?}");
        assert!((means[means.len() - 1] - f64::from(limit)).abs() <= 2.0, "pfifo {limit}: {means:?}");
    }
}

/// What the probe takes for the size of a buffer of `limit` packets.
fn measured(limit: u32) -> f64 {
    let [a, _m, b] = network(limit);
    let program = env!("CARGO_BIN_EXE_airtcp-host");
    let mut receiver = b.run(move || {
        Command::new(program).args(["probe", "receive", "--once"]).stderr(Stdio::piped()).spawn().unwrap()
    });
    // It says when it listens.
    let mut first = [0; 8];
    std::io::Read::read_exact(receiver.stderr.as_mut().unwrap(), &mut first).unwrap();
    let sent = a.run(move || {
        let words = "probe send 10.8.2.2 --trains 3 --count 1000 --gap 125us --bytes 1472 --pause 400ms";
        Command::new(program).args(words.split(' ')).output().unwrap()
    });
    let text = String::from_utf8_lossy(&sent.stdout).into_owned();
    let _ = receiver.kill();
    receiver.wait().unwrap();
    println!("pfifo {limit}: {text}");
    assert!(sent.status.success(), "{text}{}", String::from_utf8_lossy(&sent.stderr));
    let found = text.lines().find_map(|line| line.strip_prefix("buffer: ")).unwrap();
    found.split(' ').next().unwrap().parse().unwrap()
}
