//! The programs of a laboratory's flows. Each runs inside a guest, where time is virtual, and
//! writes what it saw to a file when its flow is over.

// A guest's own clock is the laboratory's.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use airtcp_core::units::Span;
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use crate::common::output::to_stderr;
use crate::common::sys::{Offload, set_offload, tcp_info};
use crate::hwsim::new_radio;
use crate::uml::guest_init::now;
use crate::uml::guest_time::GuestTime;

/// A TCP sender at one instant, as the kernel counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at: GuestTime,
    pub(crate) bytes_acked: u64,
    pub(crate) srtt_us: u32,
    pub(crate) min_rtt_us: u32,
    pub(crate) cwnd: u32,
    pub(crate) segments: u32,
    pub(crate) retransmitted: u32,
}

/// A datagram: its number, and when it was sent and came, or came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Datagram {
    pub(crate) number: u64,
    pub(crate) sent: GuestTime,
    pub(crate) came: Option<GuestTime>,
}

/// Observations of one end of a flow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Observations {
    pub(crate) samples: Vec<Sample>,
    /// Payload that has come, by time.
    pub(crate) came: Vec<(GuestTime, u64)>,
    pub(crate) datagrams: Vec<Datagram>,
}

impl Observations {
    fn write(&self, path: &str) -> io::Result<()> {
        let part = format!("{path}.part");
        fs::write(&part, serde_json::to_vec(self)?)?;
        fs::rename(part, path)
    }
}

/// Number of those radio rules of mac80211_hwsim that allow 80 MHz from channel 36 on
/// (`hwsim_world_regdom_custom_04`). Without them mac80211 treats no station as one of 802.11ac
/// (net/mac80211/vht.c, `ieee80211_vht_cap_ie_to_sta_vht_cap`).
const RULES: u32 = 3;

fn sleep_until(time: GuestTime) {
    let left = time.since(now());
    if !left.is_zero() {
        std::thread::sleep(Duration::from_nanos(left.as_ns()));
    }
}

/// Runs one of the programs.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    match program(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            to_stderr(format_args!("lab-traffic {}: {error}", words.join(" ")));
            ExitCode::FAILURE
        }
    }
}

fn program(words: &[&str]) -> io::Result<()> {
    let number = |text: &&str| text.parse::<u64>().map_err(io::Error::other);
    let time = |text: &&str| number(text).map(GuestTime::from_ns);
    let span = |text: &&str| number(text).map(Span::from_ns);
    match words {
        ["send", host, port, start, stop, interval, out, cc] => {
            let (start, stop, interval) = (time(start)?, time(stop)?, span(interval)?);
            send(&format!("{host}:{port}"), cc, start, stop, interval, out)
        }
        ["sink", port, start, stop, interval, out] => {
            sink(&format!("0.0.0.0:{port}"), time(start)?, time(stop)?, span(interval)?, out)
        }
        ["ping" | "datagrams", host, port, start, stop, interval, out, payload] => {
            let (start, stop, interval) = (time(start)?, time(stop)?, span(interval)?);
            let payload = usize::try_from(number(payload)?).unwrap_or(0);
            let comes_back = words[0] == "ping";
            datagrams(&format!("{host}:{port}"), (start, stop, interval), out, payload, comes_back)
        }
        ["wait", until] => {
            sleep_until(time(until)?);
            Ok(())
        }
        ["merge", device, timeout, defer] => merge(device, span(timeout)?, number(defer)?),
        ["new-radio"] => new_radio(RULES),
        ["no-tso", device] => set_offload(device, Offload::Send, false),
        ["echo", port] => echo(&format!("0.0.0.0:{port}")),
        ["count", port, _, stop, _, out] => count(&format!("0.0.0.0:{port}"), time(stop)?, out),
        _ => Err(io::Error::other("no such program")),
    }
}

/// The interface merges segments that it receives (GRO), and keeps them as long as the settings of
/// NAPI say.
fn merge(device: &str, timeout: Span, defer: u64) -> io::Result<()> {
    set_offload(device, Offload::Receive, true)?;
    for (file, value) in [("gro_flush_timeout", timeout.as_ns()), ("napi_defer_hard_irqs", defer)] {
        fs::write(format!("/sys/class/net/{device}/{file}"), value.to_string())?;
    }
    Ok(())
}

/// At each multiple of `interval` after `start`, until `stop`.
fn ticks(start: GuestTime, stop: GuestTime, interval: Span) -> impl Iterator<Item = GuestTime> {
    let step = interval.max(Span::from_ms(1));
    (0..).map(move |n: u64| (start + step * n).min(stop)).take_while(move |&at| at < stop).chain([stop])
}

fn send(to: &str, cc: &str, start: GuestTime, stop: GuestTime, interval: Span, out: &str) -> io::Result<()> {
    sleep_until(start);
    let mut stream = TcpStream::connect(to)?;
    setsockopt(&stream, sockopt::TcpCongestion, &cc.into())?;
    let watched = stream.try_clone()?;
    let path = out.to_owned();
    let watch = std::thread::spawn(move || -> io::Result<()> {
        let mut observations = Observations::default();
        for at in ticks(start, stop, interval) {
            sleep_until(at);
            observations.samples.push(sample(&tcp_info(&watched)?));
        }
        observations.write(&path)?;
        std::process::exit(0)
    });
    let block = vec![0; 65536];
    while now() < stop {
        stream.write_all(&block)?;
    }
    watch.join().unwrap_or(Ok(()))
}

fn sample(info: &[u8]) -> Sample {
    let word = |at: usize| info.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u32::from_ne_bytes(*b));
    let long = |at: usize| info.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b));
    Sample {
        at: now(),
        bytes_acked: long(120),
        srtt_us: word(68),
        min_rtt_us: word(148),
        cwnd: word(80),
        segments: word(136),
        retransmitted: word(100),
    }
}

fn sink(at: &str, start: GuestTime, stop: GuestTime, interval: Span, out: &str) -> io::Result<()> {
    let listener = TcpListener::bind(at)?;
    let total = Arc::new(AtomicU64::new(0));
    let (read, path) = (Arc::clone(&total), out.to_owned());
    std::thread::spawn(move || {
        let mut observations = Observations::default();
        for at in ticks(start, stop, interval) {
            sleep_until(at);
            observations.came.push((now(), read.load(Ordering::Relaxed)));
        }
        let _ = observations.write(&path);
    });
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 1 << 18];
    loop {
        let got = stream.read(&mut buffer)?;
        if got == 0 {
            // The other thread has still to write its observations.
            sleep_until(stop + Span::from_secs(1));
            return Ok(());
        }
        total.fetch_add(u64::try_from(got).unwrap_or(0), Ordering::Relaxed);
    }
}

/// The head of a datagram: its number, and when it was sent.
const HEAD: usize = 16;

fn head(bytes: &[u8]) -> Option<(u64, GuestTime)> {
    let number = bytes.first_chunk().map(|b| u64::from_be_bytes(*b))?;
    let sent = bytes.get(8..)?.first_chunk().map(|b| u64::from_be_bytes(*b))?;
    Some((number, GuestTime::from_ns(sent)))
}

fn datagrams(
    to: &str,
    (start, stop, interval): (GuestTime, GuestTime, Span),
    out: &str,
    payload: usize,
    comes_back: bool,
) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    let all: Arc<Mutex<Vec<Datagram>>> = Arc::default();
    if comes_back {
        let (socket, all) = (socket.try_clone()?, Arc::clone(&all));
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while let Ok(got) = socket.recv(&mut buffer) {
                let came = now();
                let Some((number, _)) = buffer.get(..got).and_then(head) else { continue };
                let Ok(mut all) = all.lock() else { return };
                let known = usize::try_from(number).ok().and_then(|n| all.get_mut(n));
                if let Some(own) = known.filter(|own| own.came.is_none()) {
                    own.came = Some(came);
                }
            }
        });
    }
    let mut bytes = vec![0; payload.max(HEAD)];
    for number in 0.. {
        let at = start + interval.max(Span::from_us(1)) * number;
        if at >= stop {
            break;
        }
        sleep_until(at);
        let sent = now();
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes[8..HEAD].copy_from_slice(&sent.as_ns().to_be_bytes());
        if let Ok(mut all) = all.lock() {
            all.push(Datagram { number, sent, came: None });
        }
        // A datagram that the kernel does not take is one that does not come.
        let _ = socket.send(&bytes);
    }
    // The last ones have until then to come back.
    sleep_until(stop + Span::from_ms(500));
    let datagrams = all.lock().map(|all| all.clone()).unwrap_or_default();
    Observations { datagrams, ..Observations::default() }.write(out)
}

fn echo(at: &str) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    let mut buffer = vec![0; 65536];
    loop {
        let (got, from) = socket.recv_from(&mut buffer)?;
        let _ = socket.send_to(&buffer[..got], from);
    }
}

fn count(at: &str, stop: GuestTime, out: &str) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    let mut observations = Observations::default();
    let mut buffer = vec![0; 65536];
    loop {
        let left = (stop + Span::from_ms(400)).since(now());
        if left.is_zero() {
            return observations.write(out);
        }
        socket.set_read_timeout(Some(Duration::from_nanos(left.max(Span::from_us(1)).as_ns())))?;
        let Ok(got) = socket.recv(&mut buffer) else { continue };
        if let Some((number, sent)) = buffer.get(..got).and_then(head) {
            observations.datagrams.push(Datagram { number, sent, came: Some(now()) });
        }
    }
}
