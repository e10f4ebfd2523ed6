//! TCP-AV as the kernel runs it, over a line of 20 Mbit/s, 20 ms and 50 packets.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]

mod common;

use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use airtcp_core::units::{DataRate, Span};
use airtcp_host::av::{AfterTimeout, Av, Base, CONTROL, Order, cgroup};
use airtcp_host::paths::change::{Change, Family, Whose};
use airtcp_host::sys::{monotonic, tcp_info};
use common::{Bed, LINE, Line, Upload, rates};

const SETTLE: Duration = Duration::from_secs(2);
const SPAN: Duration = Duration::from_secs(6);

/// Mean rates in Mbit/s of uploads with these controls and targets.
fn scene(av: &Av, line: Line, uploads: &[(&str, u64)]) -> Vec<f64> {
    let bed = Bed::new(line);
    let uploads: Vec<Upload> = uploads
        .iter()
        .map(|&(control, target)| {
            Upload::new(&bed, Some(control), |socket| {
                if target > 0 {
                    av.set_target(socket, DataRate::from_mbps(target)).unwrap();
                }
            })
        })
        .collect();
    thread::sleep(SETTLE);
    rates(&uploads, SPAN)
}

#[test]
fn the_kernel_holds_targets() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    let order = Order {
        target: DataRate::from_mbps(8),
        base: Base::Reno,
        after_timeout: AfterTimeout::NewData,
        cgroup: None,
        rules: vec![],
    };
    let av = Av::start(order).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                av.renew().unwrap();
                thread::sleep(Duration::from_millis(200));
            }
        });
        let (av, lossy) = (&av, Line { loss_per_mille: 20, ..LINE });
        let some_loss = Line { loss_per_mille: 10, ..LINE };
        let beside = scope.spawn(move || scene(av, LINE, &[(CONTROL, 0), ("cubic", 0), ("cubic", 0)]));
        let alone = scope.spawn(move || scene(av, lossy, &[(CONTROL, 0)]));
        let reno = scope.spawn(move || scene(av, lossy, &[("reno", 0)]));
        let two = scope.spawn(move || scene(av, some_loss, &[(CONTROL, 2), (CONTROL, 6)]));
        let (beside, alone, reno, two) =
            (beside.join().unwrap(), alone.join().unwrap(), reno.join().unwrap(), two.join().unwrap());
        println!("beside two CUBIC {beside:.2?}; at 2 % loss {alone:.2?}, Reno {reno:.2?}; targets 2 and 6 {two:.2?}");
        let path = path_change(av);
        done.store(true, Ordering::Relaxed);
        assert!(beside[0] >= 0.9 * 8.0, "beside two CUBIC: {beside:.2?}");
        assert!(alone[0] >= 0.9 * 8.0 && alone[0] >= 1.4 * reno[0], "at 2 % loss: {alone:.2?}, Reno {reno:.2?}");
        assert!((two[0] / 2.0 - 1.0).abs() < 0.05 && (two[1] / 6.0 - 1.0).abs() < 0.05, "two targets: {two:.2?}");
        path.unwrap();
    });
    drop(av);
    on_cubic();
    let unchanged = unchanged_program(4);
    println!("an unchanged program in a control group, target 4: {unchanged:.2}");
    assert!((unchanged / 4.0 - 1.0).abs() < 0.05, "{unchanged}");
}

/// With a timeout new data leaves, unless the window alone is to be kept. The program's own choice
/// of `TCP_NODELAY` stays.
#[test]
fn new_data_leaves_with_a_timeout() {
    if let Some(reason) = common::missing() {
        common::skipped(&reason);
        return;
    }
    let _alone = common::alone();
    for (after_timeout, leaves) in [(AfterTimeout::NewData, true), (AfterTimeout::Floor, false)] {
        after_a_timeout(after_timeout, leaves);
    }
}

fn after_a_timeout(after_timeout: AfterTimeout, leaves: bool) {
    let order = Order { target: DataRate::from_mbps(8), base: Base::Reno, after_timeout, cgroup: None, rules: vec![] };
    let av = Av::start(order).unwrap();
    let bed = Bed::new(LINE);
    let uploads = [false, true].map(|nodelay| {
        let upload = Upload::new(&bed, Some(CONTROL), |_| {});
        upload.socket.set_nodelay(nodelay).unwrap();
        upload
    });
    let seen = |upload: &Upload| tcp_info(upload.socket.as_raw_fd()).unwrap();
    let renewed = |span: Duration| {
        let begin = monotonic();
        while monotonic().since(begin).as_ns() < span.as_nanos() as u64 {
            av.renew().unwrap();
            thread::sleep(Duration::from_millis(50));
        }
    };
    renewed(SETTLE);
    bed.outage.store(true, Ordering::Relaxed);
    // All that the window lets leave has left, and a timeout takes 0.2 s at least.
    thread::sleep(Duration::from_millis(150));
    let before = uploads.each_ref().map(|upload| seen(upload).tcpi_unacked);
    renewed(Duration::from_secs(1));
    for (upload, before) in uploads.iter().zip(before) {
        let info = seen(upload);
        println!("outstanding {before}, after {} timeouts {}", info.tcpi_retransmits, info.tcpi_unacked);
        assert!(info.tcpi_retransmits > 0, "no timeout");
        let more = info.tcpi_unacked.saturating_sub(before);
        assert!(if leaves { more >= 5 } else { more <= 1 }, "{after_timeout:?}: {before}, then {}", info.tcpi_unacked);
    }
    assert_eq!(uploads.each_ref().map(|upload| upload.socket.nodelay().unwrap()), [false, true]);
    bed.outage.store(false, Ordering::Relaxed);
    renewed(Duration::from_secs(4));
    assert!(rates(&uploads, Duration::from_secs(1)).iter().all(|&rate| rate > 4.0), "they go on");
}

/// On CUBIC: the target at 2 % loss, and beside two CUBIC.
fn on_cubic() {
    let order = Order {
        target: DataRate::from_mbps(8),
        base: Base::Cubic,
        after_timeout: AfterTimeout::NewData,
        cgroup: None,
        rules: vec![],
    };
    let av = Av::start(order).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                av.renew().unwrap();
                thread::sleep(Duration::from_millis(200));
            }
        });
        let lossy = Line { loss_per_mille: 20, ..LINE };
        let av = &av;
        let held = scope.spawn(move || scene(av, lossy, &[(CONTROL, 0)]));
        let beside = scope.spawn(move || scene(av, LINE, &[(CONTROL, 0), ("cubic", 0), ("cubic", 0)]));
        let cubic = scope.spawn(move || scene(av, lossy, &[("cubic", 0)]));
        let (held, beside, cubic) = (held.join().unwrap(), beside.join().unwrap(), cubic.join().unwrap());
        done.store(true, Ordering::Relaxed);
        println!("on CUBIC: at 2 % loss {held:.2?}, CUBIC alone {cubic:.2?}; beside two CUBIC {beside:.2?}");
        assert!(held[0] >= 0.9 * 8.0 && held[0] >= 1.4 * cubic[0], "at 2 % loss: {held:.2?}, CUBIC {cubic:.2?}");
        assert!(beside[0] >= 0.9 * 8.0, "beside two CUBIC: {beside:.2?}");
    });
}

/// A program that asks for nothing, in a control group: its rate in Mbit/s.
fn unchanged_program(target: u64) -> f64 {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    let group = cgroup("").unwrap().join(format!("airtcp-test-{}", std::process::id()));
    std::fs::create_dir(&group).unwrap();
    let order = Order {
        target: DataRate::from_mbps(target),
        base: Base::Reno,
        after_timeout: AfterTimeout::NewData,
        cgroup: Some(group.clone()),
        rules: vec![],
    };
    let av = Av::start(order).unwrap();
    let bed = Bed::new(LINE);
    let listener = bed.b.run(|| TcpListener::bind(("10.9.0.2", 5001)).unwrap());
    let script = format!("echo $$ > {}/cgroup.procs; exec cat /dev/zero > /dev/tcp/10.9.0.2/5001", group.display());
    let mut program =
        bed.a.run(move || Command::new("bash").args(["-c", &script]).stderr(Stdio::null()).spawn().unwrap());
    let (mut stream, _) = listener.accept().unwrap();
    let counted = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 17];
        let begin = monotonic();
        let (mut bytes, mut start) = (0, begin);
        loop {
            let n = stream.read(&mut buffer).unwrap() as u64;
            let now = monotonic();
            if now.since(begin) < Span::from_secs(2) {
                start = now;
            } else {
                bytes += n;
            }
            if now.since(begin) > Span::from_secs(6) {
                return bytes as f64 * 8e3 / now.since(start).as_ns() as f64;
            }
        }
    });
    while !counted.is_finished() {
        av.renew().unwrap();
        thread::sleep(Duration::from_millis(100));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    drop(av);
    let _ = std::fs::remove_dir(&group);
    counted.join().unwrap()
}

/// Least round trips before and after 100 ms more, without and with the news of it.
fn path_change(av: &Av) -> Result<(), String> {
    let bed = Bed::new(LINE);
    let upload = Upload::new(&bed, Some(CONTROL), |_| {});
    let least = || av.least_rtt(upload.socket.as_raw_fd()).unwrap().unwrap().as_ns() / 1_000_000;
    thread::sleep(Duration::from_secs(1));
    let before = least();
    bed.detour.store(100_000_000, Ordering::Relaxed);
    thread::sleep(Duration::from_secs(2));
    let untold = least();
    let air = bed.a.run(|| airtcp_host::sys::interface_index("air0").unwrap());
    let changed = |family| {
        av.path_changed(Change { interface: air, whose: Whose::Family(family) }).unwrap();
        thread::sleep(Duration::from_secs(1));
        least()
    };
    let (of_others, told) = (changed(Family::V6), changed(Family::V4));
    println!("least round trip {before} ms; 100 ms more: {untold} ms, told of IPv6 {of_others} ms, of IPv4 {told} ms");
    if before > 24 || untold != before || of_others != before || !(118..=132).contains(&told) {
        return Err(format!("least round trip {before}, {untold}, {of_others}, {told} ms"));
    }
    Ok(())
}
