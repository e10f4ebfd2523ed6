//! The buffer probe over a real queue of the kernel: TBF over pfifo on a forwarding host.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};

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
        // A train is sent in real time: where other work takes the processor, one measurement may
        // be off, but not all.
        let mut means = Vec::new();
        while means.len() < 3 && !means.iter().any(|mean: &f64| (mean - f64::from(limit)).abs() <= 2.0) {
            means.push(measured(limit));
        }
        println!("pfifo {limit}: {means:?}");
        assert!((means[means.len() - 1] - f64::from(limit)).abs() <= 2.0, "pfifo {limit}: {means:?}");
    }
}

/// Estimate of the probe for a buffer of `limit` packets.
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

/// Starts a receiver in a namespace of its own with this network, as soon as it listens.
fn receiver(end: &End, options: &'static [&str]) -> Child {
    end.ip("link set lo up");
    let program = env!("CARGO_BIN_EXE_airtcp-host");
    let mut receiver = end.run(move || {
        Command::new(program).args(["probe", "receive"]).args(options).stderr(Stdio::piped()).spawn().unwrap()
    });
    let mut first = [0; 8];
    receiver.stderr.as_mut().unwrap().read_exact(&mut first).unwrap();
    receiver
}

fn send_from(end: &End, words: &'static str) -> (bool, String) {
    let program = env!("CARGO_BIN_EXE_airtcp-host");
    end.run(move || {
        let out = Command::new(program).args(words.split(' ')).output().unwrap();
        (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
    })
}

#[test]
fn a_stranger_does_not_hold_the_receiver() {
    if let Some(reason) = common::missing_namespaces() {
        common::skipped(&reason);
        return;
    }
    let end = End::new();
    let mut program = receiver(&end, &["--once"]);
    // Strangers: who says nothing, who greets and is silent, who is cut off for a line without end,
    // who asks for too much.
    let strangers: Vec<TcpStream> = end.run(|| {
        let greetings: [&[u8]; 4] =
            [b"", b"airtcp-probe 1 ff 1000 100000\n", &[b'x'; 100], b"airtcp-probe 1 ff 4000000000 1\n"];
        let from = |n: usize, bytes: &[u8]| {
            let socket = airtcp_host::sys::tcp_socket().unwrap();
            let own = std::net::SocketAddr::from(([127, 0, 1, n as u8], 0));
            airtcp_host::sys::stream::bind(std::os::fd::AsRawFd::as_raw_fd(&socket), own).unwrap();
            let mut stream = airtcp_host::sys::connect(socket, [127, 0, 0, 1], 24_688).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        greetings.iter().enumerate().map(|(n, bytes)| from(n + 1, bytes)).collect()
    });
    let words = "probe send 127.0.0.1 --trains 2 --count 50 --pause 100ms";
    let begin = airtcp_host::sys::monotonic();
    let (is_done, text) = send_from(&end, words);
    let took = airtcp_host::sys::monotonic().since(begin);
    let ended = program.wait().unwrap();
    drop(strangers);
    println!("four strangers at the receiver, and a sender: {took}\n{text}");
    assert!(is_done && ended.success(), "{text}");
    assert!(took < airtcp_core::units::Span::from_secs(5), "{took}");
}

#[test]
fn who_is_not_asked_for_is_refused() {
    if let Some(reason) = common::missing_namespaces() {
        common::skipped(&reason);
        return;
    }
    let end = End::new();
    let mut program = receiver(&end, &["--from", "192.0.2.0/24"]);
    let (is_done, text) = send_from(&end, "probe send 127.0.0.1 --trains 1 --count 5");
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(!is_done && (text.contains("cannot hear the receiver") || text.contains("cannot greet")), "{text}");
}

/// It says that it is ready, and then tells of arrivals without end.
#[test]
fn a_log_without_end_is_not_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _datagrams = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let hostile = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = [0; 64];
        let _ = stream.read(&mut line).unwrap();
        stream.write_all(b"ready\n").unwrap();
        let mut written = 0u64;
        while stream.write_all(b"0 1\n0 2\n0 3\n0 4\n").is_ok() && written < 1 << 30 {
            written += 16;
        }
        written
    });
    let begin = airtcp_host::sys::monotonic();
    let program = env!("CARGO_BIN_EXE_airtcp-host");
    let out = Command::new(program)
        .args(["probe", "send", "127.0.0.1", "--trains", "1", "--count", "5", "--pause", "1ms", "--udp-port"])
        .arg(port.to_string())
        .output()
        .unwrap();
    let (took, written) = (airtcp_host::sys::monotonic().since(begin), hostile.join().unwrap());
    let text = String::from_utf8_lossy(&out.stderr);
    println!("a log without end: the sender ends after {took}, the receiver has written {written} bytes");
    assert!(!out.status.success() && text.contains("more lines than the 5 datagrams"), "{text}");
    assert!(written < 64 << 20, "{written}");
}
