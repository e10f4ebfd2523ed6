//! `efr send`: the core's sender against this kernel's receiver, over a scripted line, beside the
//! simulation of the same.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Answer, channel};
use std::thread;
use std::time::Duration;

use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::rng::Streams;
use airtcp_core::tcp::{Notice, Outputs, Receiver, Sender};
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_host::{send, sys};
use common::{Bed, LINE, Line};

const HOST: &str = env!("CARGO_BIN_EXE_airtcp-host");

fn data(bytes: usize) -> Vec<u8> {
    let mut draw = 0x5eed_u64;
    let mut next = || {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        (draw >> 24) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A file in a folder of its own.
struct Sent {
    folder: tempfile::TempDir,
}

impl Sent {
    fn new(bytes: &[u8]) -> Sent {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data"), bytes).unwrap();
        Sent { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// One connection's bytes at b, and how it ended.
fn receive(bed: &Bed, port: u16) -> Answer<(Vec<u8>, Option<std::io::ErrorKind>)> {
    receive_into(bed, port, None)
}

/// With a window of at most so many bytes.
fn receive_into(bed: &Bed, port: u16, window: Option<i32>) -> Answer<(Vec<u8>, Option<std::io::ErrorKind>)> {
    let listener = bed.b.run(move || TcpListener::bind(("10.9.0.2", port)).unwrap());
    if let Some(bytes) = window {
        sys::set_option(listener.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes).unwrap();
    }
    let (give, take) = channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        let end = stream.read_to_end(&mut all).err().map(|e| e.kind());
        give.send((all, end)).unwrap();
    });
    take
}

fn host(bed: &Bed, words: Vec<String>) -> (i32, String) {
    bed.a.run(move || {
        let out = Command::new(HOST).args(&words).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        (out.status.code().unwrap(), text)
    })
}

fn words(sent: &Sent, port: u16, more: &[&str]) -> Vec<String> {
    let path = sent.path("data").to_str().unwrap().to_owned();
    let to = format!("10.9.0.2:{port}");
    ["efr", "send", &path, &to].iter().chain(more).map(|w| (*w).to_owned()).collect()
}

fn forwarding(bed: &Bed) -> String {
    bed.a.run(|| fs::read_to_string("/proc/sys/net/ipv4/conf/air0/forwarding").unwrap().trim().to_owned())
}

fn tables(bed: &Bed) -> String {
    bed.a.run(|| String::from_utf8(Command::new("nft").args(["list", "tables"]).output().unwrap().stdout).unwrap())
}

#[test]
fn a_file_arrives_whole_through_losses_and_nothing_stays() {
    if let Some(reason) = common::missing_nft() {
        common::skipped(&reason);
        return;
    }
    let bed = Bed::new(Line { loss_per_mille: 20, ..LINE });
    let bytes = data(3_000_001);
    let sent = Sent::new(&bytes);
    let before = forwarding(&bed);
    assert_eq!(before, "0", "a namespace of its own");
    let answer = receive(&bed, 5001);
    let (code, text) = host(&bed, words(&sent, 5001, &["--forward", "--json"]));
    assert_eq!(code, 0, "{text}");
    let (received, end) = answer.recv().unwrap();
    assert!(received == bytes && end.is_none(), "{} of {} bytes, {end:?}", received.len(), bytes.len());
    assert!(text.contains("\"bytes\": 3000001") && text.contains("SACK"), "{text}");
    println!("3 MB at 2 % loss: {text}");
    assert_eq!((forwarding(&bed), tables(&bed).contains("airtcp")), (before, false));
    assert!(host(&bed, vec!["undo".to_owned()]).1.contains("nothing was set"));
}

#[test]
fn what_goes_wrong_is_said() {
    if let Some(reason) = common::missing_nft() {
        common::skipped(&reason);
        return;
    }
    let bed = Bed::new(LINE);
    let sent = Sent::new(&data(10_000));
    let fails = |words: Vec<String>, code: i32, named: &str| {
        let (got, text) = host(&bed, words);
        assert!(got == code && text.contains(named), "{got}: {text}");
    };
    fails(words(&sent, 5001, &[]), 1, "--forward has it do so");
    fails(words(&sent, 5001, &["--forward"]), 1, "10.9.0.2:5001 refuses the connection");
    fails(words(&sent, 5001, &["--net", "10.0.0.1/30"]), 2, "--net 10.0.0.1/30");
    fails(words(&sent, 5001, &["--profile", "linux-7"]), 2, "must be one of linux-6");
    fails(words(&sent, 5001, &["--set", "handshake=false"]), 2, "handshake");
    fails(words(&sent, 5001, &["--set", "max_cwnd=\"x\""]), 2, "an option of the sender is wrong");
    fails(words(&sent, 5001, &["--device", "air0", "--forward"]), 1, "--device air0: another process has it");
    let mut nothing = words(&sent, 5001, &[]);
    nothing[2] = "/nothing".to_owned();
    fails(nothing, 1, "/nothing: cannot read it");
    bed.a.ip("link set air0 mtu 1000");
    let _answer = receive(&bed, 5002);
    fails(words(&sent, 5002, &["--forward"]), 1, "the way takes packets of 1000 bytes; --set packet_bytes=1000");
    let answer = receive(&bed, 5003);
    let (code, text) = host(&bed, words(&sent, 5003, &["--forward", "--set", "packet_bytes=1000"]));
    assert!(code == 0 && text.contains("segments of 948 bytes"), "{text}");
    assert_eq!(answer.recv().unwrap().0.len(), 10_000);
}

/// Ctrl-C resets the connection. All that SIGKILL leaves behind is undone.
#[test]
fn an_end_before_the_end_is_clean() {
    if let Some(reason) = common::missing_nft() {
        common::skipped(&reason);
        return;
    }
    let bed = Bed::new(LINE);
    let sent = Sent::new(&data(50_000_000));
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let port = 6000 + u16::try_from(signal).unwrap();
        let answer = receive(&bed, port);
        let words = words(&sent, port, &["--forward"]);
        let child = bed
            .a
            .run(move || Command::new(HOST).args(&words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        thread::sleep(Duration::from_millis(1500));
        assert_eq!(forwarding(&bed), "1");
        Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().unwrap();
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        if signal == libc::SIGINT {
            assert!(out.status.code() == Some(1) && text.contains("the connection was reset"), "{text}");
            let (received, end) = answer.recv_timeout(Duration::from_secs(5)).unwrap();
            assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset), "after {} bytes", received.len());
        } else {
            let (code, text) = host(&bed, vec!["undo".to_owned()]);
            assert!(code == 0 && text.contains("air0/forwarding=0: done"), "{text}");
        }
        assert_eq!(forwarding(&bed), "0", "signal {signal}");
        // The kernel removes the table when it sees that its owner is gone.
        let gone = (0..50).any(|_| {
            thread::sleep(Duration::from_millis(20));
            !tables(&bed).contains("airtcp")
        });
        assert!(gone && bed.a.run(|| !fs::exists("/sys/class/net/airtcp0").unwrap()), "signal {signal}");
    }
}

const SEGMENTS: usize = 40;
/// The segment that is lost, counted from 0 over all that leave: in the middle of a steady window.
const LOST: u64 = 24;

fn options(window: u32, loss: &str, recovery: &str) -> Vec<String> {
    vec![
        format!("max_cwnd={window}"),
        format!("initial_window={window}"),
        format!("loss=\"{loss}\""),
        format!("recovery=\"{recovery}\""),
        "cc=\"reno\"".to_owned(),
        "timestamps=false".to_owned(),
        "tail_loss_probe=false".to_owned(),
        "limited_transmit=false".to_owned(),
        "segments_at_once=\"single\"".to_owned(),
    ]
}

/// How a sender got over one loss.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    cause: String,
    dup_acks: u32,
    repeats: usize,
    /// From the lost segment until it was sent again, ms.
    waited: f64,
    /// From the first SYN to the end.
    seconds: f64,
}

/// The core's sender and its receiver over the same line, in virtual time.
fn simulated(line: Line, sets: &[String]) -> Outcome {
    let sender_config = Arc::new(send::config("linux-6", sets).unwrap());
    let mut receiver_config = (*sender_config).clone();
    receiver_config.loss_recovery.recovery = sender_config.loss_recovery.recovery;
    let mut sender = Sender::new(FlowId(0), 0, sender_config.clone(), Streams::of(1, 0));
    let mut receiver = Receiver::new(FlowId(0), 0, Arc::new(receiver_config));
    let rate = DataRate::from_bps(line.bits_per_second);
    let one_way = Span::from_ns(line.rtt.as_nanos() as u64 / 2);
    let (mut now, mut free, mut count) = (Time::ZERO, Time::ZERO, 0);
    let mut out = Outputs::default();
    let mut flying: Vec<(Time, bool, Packet)> = Vec::new();
    let mut repeats = Vec::new();
    sender.open(now, &mut out);
    sender.write(now, (SEGMENTS * sender_config.mss() as usize) as u64, &mut out);
    sender.close(now, &mut out);
    loop {
        for notice in std::mem::take(&mut out.notices) {
            match notice {
                Notice::Retransmitted(what) => repeats.push(what),
                Notice::Closed => {
                    let first = repeats.first().expect("a segment was lost");
                    return Outcome {
                        cause: first.cause.name().to_owned(),
                        dup_acks: first.dup_acks,
                        repeats: repeats.len(),
                        waited: first.waited.as_secs_f64() * 1e3,
                        seconds: now.as_secs_f64(),
                    };
                }
                _ => {}
            }
        }
        for packet in std::mem::take(&mut out.packets) {
            let forward = !packet.is_reverse();
            let mut at = now;
            if forward {
                free = free.max(now) + rate.time_for(u64::from(packet.size));
                at = free;
                if packet.size > 500 {
                    count += 1;
                    if count == LOST + 1 {
                        continue;
                    }
                }
            }
            flying.push((at + one_way, forward, packet));
        }
        let first = (0..flying.len()).min_by_key(|&i| flying[i].0);
        let arrival = first.map_or(Time::NEVER, |i| flying[i].0);
        now = arrival.min(sender.deadline()).min(receiver.deadline());
        assert!(!now.is_never(), "stuck");
        if arrival == now {
            let (_, forward, packet) = flying.remove(first.unwrap());
            if forward { receiver.on_packet(now, &packet, &mut out) } else { sender.on_packet(now, &packet, &mut out) }
        } else if sender.deadline() == now {
            sender.on_deadline(now, &mut out);
        } else {
            receiver.on_deadline(now, &mut out);
        }
    }
}

/// The same with this kernel's receiver.
fn real(bed: &Bed, sets: &[String], port: u16) -> Outcome {
    let config = send::config("linux-6", sets).unwrap();
    let bytes = data(SEGMENTS * config.mss() as usize);
    let sent = Sent::new(&bytes);
    // A window that grows makes an ACK a window update, which is no duplicate without SACK (RFC
    // 5681 section 2). So it is held.
    let answer = receive_into(bed, port, Some(20_000));
    bed.lose(&[LOST]);
    let log = sent.path("log.csv").to_str().unwrap().to_owned();
    let mut all = words(&sent, port, &["--forward", "--json", "--log", &log]);
    all.extend(sets.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
    let (code, text) = host(bed, all);
    assert_eq!(code, 0, "{text}");
    assert!(answer.recv().unwrap().0 == bytes);
    let log = fs::read_to_string(log).unwrap();
    let rows: Vec<Vec<&str>> = log.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let seconds = text.split("\"seconds\": ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let first = rows.first().expect("a segment was lost");
    Outcome {
        cause: first[3].to_owned(),
        dup_acks: first[5].parse().unwrap(),
        repeats: rows.len(),
        waited: first[4].parse().unwrap(),
        seconds,
    }
}

/// Figure 9's cases: windows of two to six segments with one loss. The real receiver makes EFR act
/// as the simulated one does, where three duplicates wait for the timeout.
#[test]
fn the_threshold_follows_the_window_at_a_real_receiver() {
    if let Some(reason) = common::missing_nft() {
        common::skipped(&reason);
        return;
    }
    let bed = Bed::new(LINE);
    let mut port = 7000;
    for recovery in ["new_reno", "sack"] {
        for loss in ["efr", "dup_thresh"] {
            for window in 2..=6 {
                let sets = options(window, loss, recovery);
                let simulation = simulated(LINE, &sets);
                // A busy machine may delay one; what made it repeat is the same each time.
                let mut tries = (0..5).map(|_| {
                    port += 1;
                    let outcome = real(&bed, &sets, port);
                    let [a, b] = [&outcome, &simulation].map(|o| (o.cause.clone(), o.dup_acks, o.repeats));
                    assert_eq!(a, b, "{recovery}, {loss}, window {window}: real and simulated");
                    outcome
                });
                let real = tries.find(|real| (real.waited - simulation.waited).abs() < 25.0);
                let real = real.unwrap_or_else(|| panic!("{recovery}, {loss}, window {window}: {simulation:?}"));
                println!(
                    "{recovery}, {loss}, window {window}: {} after {} duplicates; repeated after {:.0} ms, {:.0} really; whole {:.0} and {:.0} ms",
                    real.cause,
                    real.dup_acks,
                    simulation.waited,
                    real.waited,
                    simulation.seconds * 1e3,
                    real.seconds * 1e3
                );
            }
        }
    }
}
