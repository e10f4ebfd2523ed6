//! The monitor against a real kernel.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use airtcp_core::units::{Span, Time};
use airtcp_host::sys::{self, tcp_info};
use common::flood::Flood;
use common::{Bed, End, LINE};

/// The monitor in a namespace, once it listens. `interval`: the least time between rows of a
/// connection.
fn monitor(end: &End, out: PathBuf, unprivileged: bool, interval: &'static str) -> Child {
    let mut child = end.run(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_airtcp-host"));
        if unprivileged {
            command = Command::new("setpriv");
            command.args(["--reuid=1000", "--regid=1000", "--clear-groups"]).arg(env!("CARGO_BIN_EXE_airtcp-host"));
        }
        command
            .arg("monitor")
            .arg("--out")
            .arg(out)
            .args(["--interval", interval])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains(if unprivileged { "falling back" } else { "listening" }), "{first}");
    thread::spawn(move || lines.for_each(|line| println!("{}", line.unwrap_or_default())));
    child
}

fn stop(mut child: Child) {
    let status = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(status.success() && child.wait().unwrap().success());
}

/// The last row of the connection to `port`: cwnd.
fn last_cwnd(out: &Path, port: u16) -> u32 {
    let flows = fs::read_to_string(out.join("flows.csv")).unwrap();
    let flow = flows.lines().find(|line| line.split(',').nth(4) == Some(&port.to_string())).unwrap();
    let number = flow.split(',').next().unwrap();
    let series = fs::read_to_string(out.join("flow_series.csv")).unwrap();
    let last = series.lines().rfind(|line| line.split(',').nth(1) == Some(number)).unwrap();
    last.split(',').nth(2).unwrap().parse().unwrap()
}

/// A folder that any user may write to.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    folder
}

/// A bed with the monitor at its first end.
struct Watched {
    bed: Bed,
    /// Where the tables are, as long as this is.
    folder: tempfile::TempDir,
    child: Child,
    unprivileged: bool,
}

/// Runs `test` with rights and as an ordinary user. `before` prepares the bed.
fn with_and_without_rights(before: impl Fn(&Bed), test: impl Fn(Watched)) {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    for unprivileged in [false, true] {
        let (folder, bed) = (open_folder(), Bed::new(LINE));
        before(&bed);
        let child = monitor(&bed.a, folder.path().join("run"), unprivileged, "0s");
        test(Watched { bed, folder, child, unprivileged });
    }
}

#[test]
fn the_last_row_is_what_tcp_info_says() {
    with_and_without_rights(
        |_| {},
        |watched| {
            let bed = &watched.bed;
            let listener = bed.b.run(|| TcpListener::bind(("10.9.0.2", 5001)).unwrap());
            let mut sender = bed.a.run(|| {
                let socket = sys::tcp_socket().unwrap();
                sys::set_congestion_control(socket.as_raw_fd(), "cubic").unwrap();
                sys::connect(socket, [10, 9, 0, 2], 5001).unwrap()
            });
            let (mut receiver, _) = listener.accept().unwrap();
            let drained = thread::spawn(move || receiver.read_to_end(&mut Vec::new()).unwrap());
            sender.write_all(&vec![0; 2_000_000]).unwrap();
            // The window after the last ACK is in the row of the ACK after it.
            for _ in 0..2 {
                thread::sleep(Duration::from_millis(150));
                sender.write_all(&[0]).unwrap();
            }
            thread::sleep(Duration::from_millis(300));
            let expected = tcp_info(sender.as_raw_fd()).unwrap().tcpi_snd_cwnd;
            stop(watched.child);
            drop(sender);
            drained.join().unwrap();
            let out = watched.folder.path().join("run");
            assert_eq!(last_cwnd(&out, 5001), expected, "unprivileged {}", watched.unprivileged);
        },
    );
}

/// A column of the rows of `queues.csv` whose discipline has this name.
fn column(out: &Path, qdisc: &str, name: &str) -> Vec<u64> {
    let text = fs::read_to_string(out.join("queues.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let at = head.iter().position(|&column| column == name).unwrap();
    lines.filter(|row| row[1] == "air0" && row[2] == qdisc).map(|row| row[at].parse().unwrap()).collect()
}

#[test]
fn queues_of_interfaces_are_told() {
    let slow = |bed: &Bed| {
        bed.a.run(|| {
            let words = "qdisc add dev air0 root tbf rate 4mbit burst 5000 limit 100000".split(' ');
            assert!(Command::new("tc").args(words).status().unwrap().success());
        });
    };
    with_and_without_rights(slow, |watched| {
        let bed = &watched.bed;
        // 210 kB at once: more than half find no room, the rest waits for 200 ms.
        bed.a.run(|| {
            let socket = UdpSocket::bind(("10.9.0.1", 0)).unwrap();
            (0..150).for_each(|_| drop(socket.send_to(&[0; 1372], ("10.9.0.2", 9))));
        });
        thread::sleep(Duration::from_millis(700));
        stop(watched.child);
        let out = watched.folder.path().join("run");
        let (waiting, bytes) = (column(&out, "tbf", "queue_packets"), column(&out, "tbf", "queue_bytes"));
        assert!((5..20).contains(&waiting.len()), "ten rows a second: {}", waiting.len());
        assert!(waiting.iter().any(|&packets| packets > 20), "{waiting:?}");
        assert!(bytes.iter().all(|&bytes| bytes <= 100_000) && *bytes.last().unwrap() == 0, "{bytes:?}");
        let (sent, dropped) = (column(&out, "tbf", "sent_packets"), column(&out, "tbf", "dropped_packets"));
        assert_eq!(sent.last().unwrap() + dropped.last().unwrap(), 150);
        assert!((50..90).contains(dropped.last().unwrap()), "{dropped:?}");
    });
}

#[test]
fn nothing_is_lost_at_many_events_a_second() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let end = End::new();
    end.ip("link set lo mtu 576 up");
    end.ip("link set lo gso_max_segs 1");
    let child = monitor(&end, out.clone(), false, "0s");
    let is_over = Arc::new(AtomicBool::new(false));
    for port in [7001, 7002] {
        let listener = end.run(move || TcpListener::bind(("127.0.0.1", port)).unwrap());
        let socket = end.run(move || {
            let socket = sys::tcp_socket().unwrap();
            sys::set_congestion_control(socket.as_raw_fd(), "cubic").unwrap();
            sys::connect(socket, [127, 0, 0, 1], port).unwrap()
        });
        let (mut receiver, _) = listener.accept().unwrap();
        let (mut sender, end) = (socket, is_over.clone());
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(1..) = receiver.read(&mut buffer) {}
        });
        thread::spawn(move || while !end.load(Ordering::Relaxed) && sender.write_all(&[0; 1 << 14]).is_ok() {});
    }
    thread::sleep(Duration::from_secs(3));
    is_over.store(true, Ordering::Relaxed);
    stop(child);
    let (told, lost) = told_and_lost(&out);
    println!("{told} events, {lost} lost");
    assert!(lost == 0 && told > 1_000, "{told} events, {lost} lost");
}

/// Events in the tables, and those that found the ring full.
fn told_and_lost(out: &Path) -> (u64, u64) {
    let about = fs::read_to_string(out.join("monitor.json")).unwrap();
    let of =
        |key: &str| about.split(&format!("\"{key}\": ")).nth(1).unwrap().split([',', '\n']).next().unwrap().parse();
    (of("events").unwrap(), of("lost").unwrap())
}

/// Calls of the program that hears ACKs, and the time that they took, ns.
fn calls() -> (u64, u64) {
    let programs = libbpf_rs::query::ProgInfoIter::default().filter(|p| p.name == "acked");
    let last = programs.max_by_key(|p| p.id).unwrap();
    (last.run_cnt, last.run_time_ns)
}

/// ACKs for 32 connections, as fast as the kernel receives them: each is told or counted as lost.
/// AIRTCP_HOST_QUIET=1 says that the machine does nothing else; then there must be 400 000 a
/// second, none lost, and less than 0.5 us for each.
#[test]
fn each_event_is_told_or_counted() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let end = End::new();
    end.ip("link set lo up");
    end.run(|| {
        // Addresses of this host are believed in what arrives, though it came over no socket of it.
        for key in ["route_localnet", "accept_local"] {
            fs::write(format!("/proc/sys/net/ipv4/conf/lo/{key}"), "1").unwrap();
        }
    });
    let child = monitor(&end, out.clone(), false, "10ms");
    if is_quiet() {
        let first = Command::new("chrt").args(["--rr", "--pid", "1"]).arg(child.id().to_string()).status();
        assert!(first.is_ok_and(|status| status.success()), "chrt is missing");
    }
    let stats = Path::new("/proc/sys/kernel/bpf_stats_enabled");
    fs::write(stats, "1").unwrap();
    let span = Span::from_secs(if is_quiet() { 5 } else { 1 });
    // On two processors at once, and the reader comes before them.
    let (sent, took): (u64, Span) = end.run(move || {
        let mut floods = [7003, 7004].map(|port| Flood::new(port, 16));
        let begin = sys::monotonic();
        let sent = thread::scope(|scope| {
            let sending: Vec<_> = floods.iter_mut().map(|flood| scope.spawn(move || flood.run(span))).collect();
            sending.into_iter().map(|one| one.join().unwrap()).sum()
        });
        (sent, sys::monotonic().since(begin))
    });
    thread::sleep(Duration::from_millis(200));
    let (count, ns) = calls();
    fs::write(stats, "0").unwrap();
    stop(child);
    let (told, lost) = told_and_lost(&out);
    let (rate, each) = (sent as f64 / took.as_secs_f64(), ns as f64 / count as f64);
    println!("{rate:.0} ACKs a second: {told} told, {lost} lost; {each:.0} ns each of {count} calls");
    // Beside the ACKs: how connections begin and end, and timeouts.
    assert!((sent..sent + 3_000).contains(&(told + lost)), "{sent} ACKs, {told} told, {lost} lost");
    assert!(
        !is_quiet() || (rate >= 400_000.0 && lost == 0 && each < 500.0),
        "{rate:.0} a second, {lost} lost, {each:.0} ns"
    );
}

fn is_quiet() -> bool {
    std::env::var_os("AIRTCP_HOST_QUIET").is_some()
}

/// Processor time of this thread so far, ns. Other work on the machine does not count.
fn processor_ns() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split_whitespace().next().unwrap().parse().unwrap()
}

/// Events of 20 connections, as the ring brings them: more than 400 000 in a second of processor
/// time.
#[test]
fn the_reader_keeps_up_with_400_000_events_a_second() {
    use airtcp_host::monitor::{EVENT_BYTES, Seen, Tables};

    let folder = tempfile::tempdir().unwrap();
    let mut tables = Tables::new(&folder.path().join("run"), Duration::from_millis(10), Time::ZERO).unwrap();
    let begin = processor_ns();
    for n in 0..1_000_000u64 {
        let mut bytes = [0; EVENT_BYTES];
        bytes[..8].copy_from_slice(&(n * 2500).to_ne_bytes());
        bytes[8..16].copy_from_slice(&(n % 20).to_ne_bytes());
        tables.take(Seen::of_event(&bytes).unwrap()).unwrap();
    }
    let ns = processor_ns() - begin;
    println!("{:.0} ns an event, {:.2} million a second", ns / 1e6, 1e9 / ns);
    assert_eq!(tables.seen, 1_000_000);
    assert!(ns < 2.5e9, "{:.0} events a second", 1e15 / ns);
}
