//! How fast captures are analysed, and in how much memory.
//!
//! ```sh
//! cargo run --release -p airtcp-analyze --example speed -- [FILE]
//! ```
//!
//! Without a file: writes one of 5 million packets to the directory for temporary files first, a
//! thousand connections at once whose senders lose and repeat one segment in a hundred.

#![allow(clippy::cast_lossless, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of numbers that are known to fit
#![allow(clippy::disallowed_types)] // it measures time

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use airtcp_analyze::{Analyzer, Options};
use etherparse::PacketBuilder;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};

const PACKETS: u64 = 5_000_000;
const CONNECTIONS: usize = 1000;
/// Segments of a connection before the next one takes its place.
const SEGMENTS: u32 = 1000;
const MSS: u32 = 1448;
const SNAP_BYTES: usize = 96;

fn main() {
    let (file, is_ours) = match std::env::args().nth(1) {
        Some(file) => (PathBuf::from(file), false),
        None => {
            let file = std::env::temp_dir().join(format!("airtcp-speed-{}.pcap", std::process::id()));
            generate(&file).expect("the capture can be written");
            (file, true)
        }
    };
    // Once to have it in the page cache.
    for run in ["first", "second"] {
        let (began, cpu_before) = (Instant::now(), processor_s());
        let mut analyzer =
            Analyzer::new(File::open(&file).expect("the file opens"), Options::default()).expect("a capture");
        let mut rows = 0;
        loop {
            let more = analyzer.advance(200_000);
            if !more {
                analyzer.finish();
            }
            rows += analyzer.drain().iter().map(|t| t.len()).sum::<usize>();
            if !more {
                break;
            }
        }
        let took = began.elapsed().as_secs_f64();
        let (packets, cpu) = (analyzer.packets(), processor_s() - cpu_before);
        println!(
            "{run}: {packets} packets in {took:.2} s, {:.2} million/s; processor {cpu:.2} s, {:.2} million/s; {rows} rows, peak memory {}",
            packets as f64 / took / 1e6,
            packets as f64 / cpu / 1e6,
            peak_memory()
        );
        for line in analyzer.notes().into_iter().chain(analyzer.damage().map(ToString::to_string)) {
            println!("  {line}");
        }
    }
    if is_ours {
        std::fs::remove_file(&file).expect("the capture can be removed");
    }
}

/// User and system time of this process (proc(5): fields 14 and 15 of stat, hundredths of a
/// second).
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat.rsplit(')').next().unwrap_or("").split(' ').filter_map(|f| f.parse().ok()).collect();
    // The remaining fields begin with field 4, since the state is no number.
    fields.get(10).zip(fields.get(11)).map_or(f64::NAN, |(user, system)| (user + system) / 100.0)
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("unknown");
    line.trim().to_owned()
}

/// One of the connections in the file.
struct Writing {
    port: u16,
    client: [u8; 4],
    seq: u32,
    left: u32,
}

fn generate(file: &Path) -> std::io::Result<()> {
    let header = PcapHeader {
        ts_resolution: TsResolution::NanoSecond,
        datalink: DataLink::ETHERNET,
        snaplen: SNAP_BYTES as u32,
        ..PcapHeader::default()
    };
    let out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut writer = PcapWriter::with_header(out, header).map_err(std::io::Error::other)?;
    let mut connections: Vec<Writing> = Vec::new();
    let (mut packets, mut ns, mut number) = (0u64, 0u64, 0u32);
    let mut frame = Vec::new();
    let payload = [0; MSS as usize];
    while packets < PACKETS {
        for i in 0..CONNECTIONS {
            if connections.get(i).is_none_or(|c| c.left == 0) {
                let [_, a, b, c] = number.to_be_bytes();
                let new = Writing {
                    port: 1024 + (number % 60_000) as u16,
                    client: [10, a, b, c],
                    seq: number,
                    left: SEGMENTS,
                };
                number += 1;
                match connections.get_mut(i) {
                    Some(place) => *place = new,
                    None => connections.push(new),
                }
            }
            let c = &mut connections[i];
            let again = c.left % 100 == 50;
            let stamp = ((ns / 1_000_000) as u32, 1);
            let options = [
                etherparse::TcpOptionElement::Noop,
                etherparse::TcpOptionElement::Noop,
                etherparse::TcpOptionElement::Timestamp(stamp.0, stamp.1),
            ];
            for (seq, forward) in [(c.seq, true), (c.seq + MSS, true), (c.seq + 2 * MSS, false)] {
                let up = PacketBuilder::ethernet2([2; 6], [4; 6]);
                let (from, to) = if forward { (c.client, [192, 0, 2, 1]) } else { ([192, 0, 2, 1], c.client) };
                let (sp, dp) = if forward { (c.port, 443) } else { (443, c.port) };
                let tcp = up.ipv4(from, to, 64).tcp(sp, dp, if forward { seq } else { 7 }, 60_000);
                let tcp = tcp.ack(if forward { 7 } else { seq }).options(&options).map_err(std::io::Error::other)?;
                frame.clear();
                let data = if forward { &payload[..] } else { &[] };
                tcp.write(&mut frame, data).map_err(std::io::Error::other)?;
                let kept = frame.len().min(SNAP_BYTES);
                ns += 400;
                let time = Duration::from_nanos(ns);
                let packet = PcapPacket::new(time, frame.len() as u32, &frame[..kept]);
                writer.write_packet(&packet).map_err(std::io::Error::other)?;
                packets += 1;
                if again && forward && seq == c.seq {
                    writer.write_packet(&packet).map_err(std::io::Error::other)?;
                    packets += 1;
                }
            }
            c.seq += 2 * MSS;
            c.left -= 1;
        }
    }
    writer.into_writer().flush()
}
