//! Captures of wireless channels: byte by byte, read back by another library, and as tshark sees
//! them.

use std::io::Write;
use std::process::Command;

use airtcp_core::packet::{FlowId, Kind, Packet};
use airtcp_core::units::Time;
use airtcp_core::wifi::phy::{Mode, PhyConfig, Standard, Width};
use airtcp_core::wifi::{Ac, FrameKind, FrameRecord, RadioId};
use airtcp_sim::capture::{CaptureSink, HEADERS_ONLY, PcapngWriter, WHOLE_PACKETS};
use airtcp_sim::scenario::Scenario;
use airtcp_sim::spec::{ChannelId, RunSpec};
use airtcp_sim::world::World;
use pcap_file::DataLink;
use pcap_file::pcapng::{Block, PcapNgReader};

/// Radio 0 is the access point, 1 and 2 are its stations, of which 2 has no QoS.
const SCENARIO: &str = r#"
duration = "400ms"

[[nodes]]
name = "sta"
kind = "host"

[[nodes]]
name = "old"
kind = "host"

[[nodes]]
name = "ap"
kind = "router"

[[nodes]]
name = "server"
kind = "host"

[[links]]
from = "ap"
to = "server"
rate = "1Gbit/s"
delay = "1ms"

[[wlans]]
ap = "ap"
channel = "11"
phy = { standard = "n", band = "2.4GHz", width_mhz = 40, short_guard_interval = true }
signal = { kind = "snr", snr_db = 17 }
stations = ["sta", { node = "old", radio = { phy = { standard = "g" }, rts_threshold_bytes = 1000 } }]

[[flows]]
name = "up"
from = "sta"
to = "server"

[[flows]]
name = "down"
from = "server"
to = "old"

[[flows]]
name = "ping"
from = "old"
to = "server"
traffic = { kind = "ping", interval = "20ms" }

[record]
capture = ["ap->server"]
capture_air = ["ap"]
"#;

fn spec() -> RunSpec {
    let scenario = Scenario::parse(SCENARIO, "x.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
    scenario.to_spec().unwrap_or_else(|e| panic!("{e}"))
}

fn capture(frames: &[FrameRecord], snaplen: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = PcapngWriter::new(&mut file, &spec(), snaplen);
    frames.iter().for_each(|f| writer.frame(ChannelId(0), f));
    writer.finish().unwrap();
    file
}

/// Frames in the file: interface, time, bytes, length on the air.
fn read(file: &[u8]) -> Vec<(u32, u64, Vec<u8>, u32)> {
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(p) = block.unwrap() {
            frames.push((p.interface_id, p.timestamp.as_nanos() as u64, p.data.to_vec(), p.original_len));
        }
    }
    frames
}

fn frame(kind: FrameKind, from: u16, to: u16, mode: Mode) -> FrameRecord {
    FrameRecord {
        time: Time::from_ns(1_234_567_891),
        kind,
        from: RadioId(from),
        to: RadioId(to),
        mode,
        ac: Ac::Be,
        sn: 0,
        bitmap: 0,
        retry: false,
        fcs_ok: true,
        ampdu: None,
        is_last_of_ampdu: false,
        duration_us: 0,
        snr_db: f32::NAN,
        packet: None,
    }
}

fn udp(size: u16) -> Option<Packet> {
    let mut p = Packet::new(FlowId(2), Kind::EchoRequest, 0);
    p.size = size;
    Some(p)
}

/// Bit by bit as IEEE 802.11-2020 9.2.4.8 has it, to check the crate's by.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}

#[test]
fn an_acknowledgement_byte_by_byte() {
    let mode = PhyConfig::of(Standard::G).modes().into_iter().find(|m| m.rate().as_bps() == 24_000_000).unwrap();
    let ack = FrameRecord { snr_db: 30.4, duration_us: 0x1234, ..frame(FrameKind::Ack, 0, 1, mode) };
    let file = capture(&[ack], WHOLE_PACKETS);
    let [(interface, time, data, length)] = read(&file).try_into().unwrap();
    assert_eq!((interface, time, length as usize), (1, 1_234_567_891, data.len()));
    #[rustfmt::skip]
    let radiotap = [
        0, 0, 28, 0, 0x6e, 0, 0x40, 0,    // version 0, 28 bytes; flags, rate, channel, signal, noise, timestamp
        0x10, 48,                         // FCS at end, 24 Mbit/s
        0x9e, 0x09, 0xc0, 0,              // 2462 MHz, 2.4 GHz and OFDM
        (-64i8) as u8, (-94i8) as u8,     // 30 dB above the noise
    ];
    assert_eq!(data[..16], radiotap);
    // The timestamp is at a multiple of 8.
    assert_eq!(
        data[..16],
        radiotap[..16].iter().copied().enumerate().map(|(i, b)| if i == 2 { 28 } else { b }).collect::<Vec<_>>()
    );
    assert_eq!(data[16..24], 1_234_567u64.to_le_bytes());
    assert_eq!(data[24..28], [0, 0, 0x21, 0]);
    assert_eq!(data[28..38], [0xd4, 0, 0x34, 0x12, 2, 0, 0, 0, 0, 1]);
    assert_eq!(data[38..], crc32(&data[28..38]).to_le_bytes());
}

#[test]
fn control_frames_have_the_lengths_of_the_standard() {
    let mode = Mode::OFDM[0];
    let cases = [
        (FrameKind::Ack, 14, 0xd4),
        (FrameKind::Cts, 14, 0xc4),
        (FrameKind::Rts, 20, 0xb4),
        (FrameKind::BlockAckRequest, 24, 0x84),
        (FrameKind::BlockAck, 32, 0x94),
    ];
    for (kind, length, first) in cases {
        let record = FrameRecord { sn: 0xabc, bitmap: 0x8000_0000_0000_0001, ac: Ac::Vo, ..frame(kind, 1, 0, mode) };
        let [(_, _, data, _)] = read(&capture(&[record], WHOLE_PACKETS)).try_into().unwrap();
        let body = &data[usize::from(data[2])..];
        assert_eq!((body.len(), body[0]), (length, first), "{kind:?}");
        assert_eq!(body[4..10], [2, 0, 0, 0, 0, 0], "{kind:?}");
        if length >= 20 {
            assert_eq!(body[10..16], [2, 0, 0, 0, 0, 1], "{kind:?}");
        }
        if length >= 24 {
            // Compressed, TID 6, first sequence number 0xabc, fragment 0.
            assert_eq!(body[16..20], [0x04, 0x60, 0xc0, 0xab], "{kind:?}");
        }
        if length == 32 {
            assert_eq!(body[20..28], [1, 0, 0, 0, 0, 0, 0, 0x80]);
        }
    }
}

#[test]
fn data_frames_say_who_how_and_what() {
    let mode =
        PhyConfig { width_mhz: 40, short_guard_interval: true, ..PhyConfig::of(Standard::N) }.mode_of_mcs(7).unwrap();
    assert_eq!(mode.width(), Width::Mhz40);
    let first =
        FrameRecord { sn: 0x123, ac: Ac::Vi, ampdu: Some(9), packet: udp(100), ..frame(FrameKind::Data, 1, 0, mode) };
    let broken = FrameRecord { fcs_ok: false, retry: true, is_last_of_ampdu: true, packet: None, ..first };
    let down = FrameRecord { packet: udp(60), ..frame(FrameKind::Data, 0, 2, Mode::DSSS[3]) };
    let [a, b, c] = read(&capture(&[first, broken, down], WHOLE_PACKETS)).try_into().unwrap();
    let body = |frame: &(u32, u64, Vec<u8>, u32)| frame.2[usize::from(frame.2[2])..].to_vec();
    let (sent, again, old) = (body(&a), body(&b), body(&c));

    // QoS data to the DS: BSSID, source, destination; sequence number 0x123; TID 5; LLC and SNAP of
    // IPv4.
    assert_eq!(sent.len(), 26 + 8 + 100 + 4);
    assert_eq!(sent[..2], [0x88, 0x01]);
    assert_eq!(sent[4..22], [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0]);
    assert_eq!(sent[22..26], [0x30, 0x12, 5, 0]);
    assert_eq!(sent[26..34], [0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    assert_eq!(sent[34], 0x45);
    assert_eq!(sent[134..], crc32(&sent[..134]).to_le_bytes());
    // The copy: retry bit, the same packet though the record no longer has it, a wrong FCS and the
    // flag for it.
    assert_eq!((again[1], &again[34..134]), (0x09, &sent[34..134]));
    assert_eq!(again[134..], (!crc32(&again[..134])).to_le_bytes());
    let flags = |frame: &(u32, u64, Vec<u8>, u32)| frame.2[8];
    assert_eq!((flags(&a), flags(&b)), (0x10, 0x50));
    // MCS 7, 40 MHz, short guard interval; A-MPDU 9, last subframe known, and last.
    assert_eq!(a.2[14..17], [0x7f, 0x05, 7]);
    assert_eq!(a.2[20..26], [9, 0, 0, 0, 0x04, 0]);
    assert_eq!(b.2[20..26], [9, 0, 0, 0, 0x0c, 0]);
    // Without QoS, from the DS, CCK at 11 Mbit/s.
    assert_eq!(old.len(), 24 + 8 + 60 + 4);
    assert_eq!(old[..2], [0x08, 0x02]);
    assert_eq!(old[4..22], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]);
    assert_eq!((c.2[9], &c.2[10..14]), (22, &[0x9e, 0x09, 0xa0, 0][..]));
}

#[test]
fn interfaces_tell_wires_from_channels() {
    let file = capture(&[], HEADERS_ONLY);
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    while let Some(block) = reader.next_block() {
        block.unwrap();
    }
    let links: Vec<DataLink> = reader.interfaces().iter().map(|i| i.linktype).collect();
    assert_eq!(links, [DataLink::RAW, DataLink::IEEE802_11_RADIOTAP]);
}

#[test]
fn what_the_spec_does_not_have_is_an_error_not_a_panic() {
    let mode = Mode::OFDM[0];
    let stray = Packet::new(FlowId(77), Kind::Tcp, 0);
    let cases = [
        (1, frame(FrameKind::Ack, 0, 1, mode), "channel 1"),
        (0, frame(FrameKind::Ack, 0, 9, mode), "radio 0 to 9"),
        (0, frame(FrameKind::Data, 0, 1, mode), "not captured before"),
        (0, FrameRecord { packet: Some(stray), ..frame(FrameKind::Data, 0, 1, mode) }, "flow 77"),
    ];
    for (channel, record, message) in cases {
        let mut writer = PcapngWriter::new(Vec::new(), &spec(), 0);
        writer.frame(ChannelId(channel), &record);
        let error = writer.finish().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// Fields of each frame as tshark sees them; `None`, and a line on the terminal, without tshark.
fn tshark(file: &[u8], filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        std::io::stderr()
            .write_all(b"SKIPPED: the check with tshark, which is not installed (Debian package tshark)\n")
            .unwrap();
        return None;
    }
    let mut path = tempfile::NamedTempFile::new().unwrap();
    path.write_all(file).unwrap();
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(path.path()).args([
        "-o",
        "wlan.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "eth.check_fcs:TRUE",
    ]);
    command.args(["-o", "tcp.check_checksum:TRUE", "-Y", filter, "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn run(snaplen: u32) -> Vec<u8> {
    let spec = spec();
    let mut file = Vec::new();
    let mut writer = PcapngWriter::new(&mut file, &spec, snaplen);
    World::build(&spec).unwrap().run(&mut writer);
    writer.finish().unwrap();
    file
}

#[test]
fn a_run_is_captured_in_order_of_time() {
    let frames = read(&run(HEADERS_ONLY));
    assert!(frames.len() > 1000, "{}", frames.len());
    assert!(frames.iter().any(|f| f.0 == 0) && frames.iter().any(|f| f.0 == 1));
    assert!(frames.windows(2).all(|w| w[0].1 <= w[1].1));
}

#[test]
fn tshark_dissects_a_run_without_complaint() {
    for snaplen in [WHOLE_PACKETS, HEADERS_ONLY] {
        let file = run(snaplen);
        let frames = read(&file).len();
        let Some(all) =
            tshark(&file, "frame", &["frame.number", "_ws.malformed", "wlan.fcs.status", "radiotap.flags.badfcs"])
        else {
            return;
        };
        assert_eq!(all.len(), frames);
        let (mut good, mut bad) = (0, 0);
        for line in all {
            // tshark calls any frame malformed whose FCS is wrong.
            let is_bad = matches!(line[3].as_str(), "1" | "True");
            assert!(is_bad || line[1].is_empty(), "frame {}", line[0]);
            match (line[2].as_str(), line[3].as_str()) {
                // A line's packet has no FCS, and of a frame cut short it cannot be checked.
                ("", _) | ("2", _) => {}
                ("1", "0" | "False") => good += 1,
                ("0", "1" | "True") => bad += 1,
                other => panic!("frame {}: {other:?}", line[0]),
            }
        }
        if snaplen == WHOLE_PACKETS {
            assert!(good > 500 && bad > 10, "{good} good, {bad} bad");
        }
        // Errors and warnings of tshark, apart from those about the fate of packets.
        let faults = tshark(
            &file,
            "_ws.expert.severity >= 6291456 && !tcp.analysis.flags && radiotap.flags.badfcs == 0",
            &["frame.number", "_ws.expert.message"],
        );
        assert_eq!(faults.unwrap(), Vec::<Vec<String>>::new());
    }
}

#[test]
fn tshark_sees_the_rates_the_aggregates_and_the_exchanges() {
    let file = run(WHOLE_PACKETS);
    let count = |filter: &str| tshark(&file, filter, &["frame.number"]).map(|lines| lines.len());
    if count("frame").is_none() {
        return;
    }
    for filter in [
        "radiotap.mcs.index && radiotap.ampdu && wlan.fc.type_subtype == 40 && wlan.fc.tods == 1 && tcp",
        "radiotap.ampdu.flags.last == 1",
        "wlan.fc.retry == 1",
        "wlan.fc.type_subtype == 25 && wlan.ba.bm",
        "wlan.fc.type_subtype == 29 && radiotap.datarate",
        "wlan.fc.type_subtype == 32 && wlan.fc.fromds == 1 && tcp",
        "wlan.fc.type_subtype == 32 && icmp",
        "radiotap.channel.freq == 2462 && radiotap.dbm_antsignal == -77",
        "radiotap.timestamp.ts",
    ] {
        assert!(count(filter).unwrap() > 0, "{filter}");
    }
}

/// Two hosts that upload over a WaveLAN, as often as not at the same time.
const WAVELAN: &str = r#"
duration = "5s"
[[nodes]]
name = "mh"
kind = "host"
count = 2
[[nodes]]
name = "ap"
kind = "router"
[[nodes]]
name = "ch"
kind = "host"
[[links]]
from = "ap"
to = "ch"
rate = "10Mbit/s"
delay = "1ms"
[[wlans]]
ap = "ap"
phy = { standard = "wavelan" }
stations = ["mh"]
[[flows]]
name = "up"
from = "mh"
to = "ch"
[record]
capture_air = ["ap"]
"#;

#[test]
fn a_wavelan_is_captured_as_ethernet() {
    let spec = Scenario::parse(WAVELAN, "x.toml", &[]).unwrap().to_spec().unwrap();
    let mut file = Vec::new();
    let mut writer = PcapngWriter::new(&mut file, &spec, WHOLE_PACKETS);
    World::build(&spec).unwrap().run(&mut writer);
    writer.finish().unwrap();
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    while let Some(block) = reader.next_block() {
        block.unwrap();
    }
    assert_eq!(reader.interfaces()[0].linktype, DataLink::ETHERNET);
    let frames = read(&file);
    let (mut good, mut bad, mut padded) = (0, 0, 0);
    for (interface, _, data, length) in &frames {
        assert_eq!((*interface, *length as usize), (0, data.len()));
        assert!((64..=1518).contains(&data.len()));
        // Between the access point, radio 0, and a station.
        assert_eq!((&data[..5], &data[6..11]), (&[2, 0, 0, 0, 0][..], &[2, 0, 0, 0, 0][..]));
        assert!((data[5] == 0) != (data[11] == 0));
        assert_eq!((data[12], data[13], data[14]), (8, 0, 0x45));
        let ip_bytes = usize::from(u16::from_be_bytes([data[16], data[17]]));
        assert_eq!(data.len(), (14 + ip_bytes).max(60) + 4);
        padded += usize::from(14 + ip_bytes < 60);
        let (body, fcs) = data.split_at(data.len() - 4);
        if fcs == crc32(body).to_le_bytes() {
            good += 1;
        } else {
            assert_eq!(fcs, (!crc32(body)).to_le_bytes());
            bad += 1;
        }
    }
    assert!(good > 300 && bad > 10, "{good} good, {bad} that collided, {padded} padded");
    let fields = ["frame.number", "_ws.malformed", "eth.fcs.status", "ip.checksum.status"];
    let Some(seen) = tshark(&file, "eth", &fields) else { return };
    assert_eq!(seen.len(), frames.len());
    for line in &seen {
        assert!(line[1].is_empty() && line[3] == "1", "{line:?}");
    }
    let with = |status: &str| seen.iter().filter(|line| line[2] == status).count();
    assert_eq!((with("1"), with("0")), (good, bad));
}
