//! The cooperative daemon of terminal a, and the window of a connection that it caps.

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use airtcp_core::coop::CoopConfig;
use airtcp_core::units::{DataRate, Span};
use airtcp_host::sys::{monotonic, tcp_info};

use super::{Bed, Upload};

/// Options of a daemon that may use half of the line, by the least round trip.
pub const HALF: [&str; 6] = ["--bw-max", "10Mbit/s", "--set", "rtt_in_cap=\"min\"", "--set", "correct_at=3.0"];

/// Lines that it has said so far.
pub type Said = Arc<Mutex<Vec<String>>>;

/// Starts it.
pub fn daemon_with(bed: &Bed, options: &[&str]) -> (Child, Said) {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    let mut daemon = bed.a.run(move || {
        // An ordinary user with just these two.
        let rights = ["--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon"];
        Command::new("setpriv")
            // Nothing stays of a test that fails.
            .args(["--reuid=1000", "--regid=1000", "--clear-groups", "--pdeathsig", "KILL"])
            .args(rights)
            .arg(env!("CARGO_BIN_EXE_airtcp-host"))
            .args(["coop", "--interface", "air0"])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    // It says when it is there.
    let mut lines = BufReader::new(daemon.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("terminal"), "{first}");
    let said = Said::default();
    let to = said.clone();
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            println!("{line}");
            to.lock().unwrap().push(line);
        }
    });
    (daemon, said)
}

/// The share of each of so many terminals.
pub fn segments_of(terminals: u32) -> u32 {
    // 20 ms, and what a full queue of a busy machine may add to the least that was seen.
    CoopConfig::default().ideal_cwnd(DataRate::from_mbps(10), Span::from_ms(20), terminals, terminals)
}

/// Window and threshold.
pub fn window(upload: &Upload) -> (u32, u32) {
    let info = tcp_info(upload.socket.as_raw_fd()).unwrap();
    (info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh)
}

/// Waits until the window, which was larger, is at most `most`.
pub fn wait_for_cap(upload: &Upload, most: u32) {
    let begin = monotonic();
    let mut largest = 0;
    while largest <= 2 * most || window(upload).0 > most {
        largest = largest.max(window(upload).0);
        assert!(monotonic().since(begin) < Span::from_secs(20), "no cap after 20 s: {:?}", window(upload));
        thread::sleep(Duration::from_millis(20));
    }
}
