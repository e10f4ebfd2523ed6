//! Captures, read back by `pcap-file` and, where it is installed, by tshark.

use std::cell::RefCell;
use std::io::{self, Write};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

use airtcp_core::packet::{Ecn, FlowId, Kind, Packet, SackBlock, TcpFlags};
use airtcp_core::tcp::TcpConfig;
use airtcp_core::tcp::profile::profile;
use airtcp_core::units::{Bytes, DataRate, Seq32, Span, Time};
use airtcp_core::wire::{self, Announced, Endpoints};
use airtcp_sim::capture::{CaptureSink, Captured, HEADERS_ONLY, PcapngWriter, WHOLE_PACKETS};
use airtcp_sim::spec::{
    ExternalSpec, FlowSpec, LineSpec, LinkId, LinkSpec, NodeId, NodeSpec, RecordSpec, RunSpec, TcpApp, Traffic,
};
use airtcp_sim::traffic::{Cbr, Ping, Unlimited};
use pcap_file::PcapError;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption as IfOption;
use pcap_file::pcapng::blocks::section_header::SectionHeaderOption;
use pcap_file::pcapng::{Block, PcapNgParser, PcapNgReader};
use proptest::prelude::*;

const LEFT: u32 = 0;
const RIGHT: u32 = 2;
const THERE: LinkId = LinkId(2);
const BACK: LinkId = LinkId(0);

fn linux() -> Arc<TcpConfig> {
    let mut config = profile("linux-6").unwrap().resolve().unwrap();
    // Gives a window scale of 6.
    config.buffers.receive_max = Bytes::new(3 << 20);
    Arc::new(config)
}

/// left - r1 - right, with a TCP, a UDP and a ping flow, the two directions of the second line
/// captured.
fn spec() -> RunSpec {
    let node = |name: &str, is_host| NodeSpec::new(name, is_host);
    let link = |name: &str, from, to| LinkSpec {
        name: name.into(),
        from: NodeId(from),
        to: NodeId(to),
        delay: Span::from_ms(1),
        air: None,
        line: LineSpec::new(name, DataRate::from_mbps(100)).into(),
    };
    let flow = |name: &str, traffic| FlowSpec {
        name: name.into(),
        group: name.into(),
        from: NodeId(LEFT),
        to: NodeId(RIGHT),
        start: Time::ZERO,
        stop: Time::NEVER,
        ac: airtcp_core::wifi::Ac::Be,
        traffic,
    };
    let tcp =
        Traffic::Tcp { sender: linux(), receiver: linux(), read_rate: None, app: TcpApp::Unlimited(Unlimited {}) };
    RunSpec {
        seed: 1,
        duration: Span::from_secs(1),
        warmup: Span::ZERO,
        nodes: vec![node("left[17]", true), node("r1", false), node("right", true)],
        links: vec![link("right->r1", 2, 1), link("left[17]->r1", 0, 1), link("r1->right", 1, 2)],
        channels: Vec::new(),
        walks: Vec::new(),
        roaming: Vec::new(),
        flows: vec![
            flow("tcp", tcp),
            flow("udp", Traffic::Cbr(Cbr { rate: DataRate::from_mbps(1), packet_bytes: 1000 })),
            flow("ping", Traffic::Ping(Ping { interval: Span::from_ms(10), packet_bytes: 84 })),
        ],
        external: ExternalSpec::default(),
        record: RecordSpec {
            interval: Span::from_ms(100),
            flow_series_max: 0,
            link_series: vec![],
            drops: vec![],
            retransmissions: Vec::new(),
            capture: vec![THERE, BACK, THERE],
            air_series: Vec::new(),
            ppdus: Vec::new(),
            capture_air: Vec::new(),
        },
    }
}

fn packet(flow: u32, kind: Kind, size: u16) -> Packet {
    let mut p = Packet::new(FlowId(flow), kind, 0);
    p.size = size;
    p
}

/// A connection with a loss, ECN, SACK and a close, a datagram, a ping and its reply. Odd sizes are
/// among them.
fn story() -> Vec<Captured> {
    let (syn, ack, fin, psh) = (TcpFlags::SYN, TcpFlags::ACK, TcpFlags::FIN, TcpFlags::PSH);
    let (ece, cwr) = (TcpFlags::ECE, TcpFlags::CWR);
    let mut at = 0;
    let mut captured = Vec::new();
    let mut put = |mut packet: Packet, back: bool| {
        if back {
            packet.set_reverse();
        }
        captured.push(Captured { time: Time::from_ns(at), link: if back { BACK } else { THERE }, packet });
        at += 1_234_567_891;
    };
    let tcp = |flags, size, len, seq, ack_number, window| {
        let mut p = packet(0, Kind::Tcp, size);
        (p.flags, p.len, p.window) = (flags, len, window);
        (p.seq, p.ack, p.ts_val, p.ts_ecr) = (Seq32(seq), Seq32(ack_number), 1000, 990);
        p
    };
    put(tcp(syn | ece | cwr, 60, 0, u32::MAX, 0, 65_535), false);
    put(tcp(syn | ack | ece, 60, 0, 99, 0, 1 << 20), true);
    put(tcp(ack, 52, 0, 0, 100, 65_535), false);
    for i in [0, 2, 3, 5] {
        let mut data = tcp(ack | psh, 1500, 1448, 1448 * i, 100, 65_535);
        data.ecn = if i == 3 { Ecn::Ce } else { Ecn::Ect0 };
        put(data, false);
    }
    let mut sack = tcp(ack | ece, 72, 0, 100, 1448, 3_000_000);
    sack.push_sack(SackBlock { start: Seq32(1448 * 5), end: Seq32(1448 * 6) });
    sack.push_sack(SackBlock { start: Seq32(1448 * 2), end: Seq32(1448 * 4) });
    put(sack, true);
    put(tcp(ack | psh | fin, 53, 1, 1448 * 6, 100, 65_535), false);
    let mut datagram = packet(1, Kind::Udp, 1001);
    datagram.seq = Seq32(0x0005_1234);
    put(datagram, false);
    let mut echo = packet(2, Kind::EchoRequest, 85);
    echo.seq = Seq32(3);
    put(echo, false);
    echo.kind = Kind::EchoReply;
    put(echo, true);
    captured
}

fn capture(spec: &RunSpec, snaplen: u32, packets: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = PcapngWriter::new(&mut file, spec, snaplen);
    packets.iter().for_each(|c| writer.packet(c));
    writer.finish().unwrap();
    file
}

/// All blocks of `file`, or the error at the first one that is not whole.
fn blocks(file: &[u8]) -> Result<Vec<Block<'static>>, PcapError> {
    let (mut rest, mut parser) = PcapNgParser::new(file)?;
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        let (after, block) = parser.next_block(rest)?;
        blocks.push(block.into_owned());
        rest = after;
    }
    Ok(blocks)
}

#[test]
fn section_interfaces_and_names() {
    let file = capture(&spec(), HEADERS_ONLY, &[]);
    let reader = PcapNgReader::new(&file[..]).unwrap();
    let application = format!("airtcp {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(reader.section().options, [SectionHeaderOption::UserApplication(application.into())]);
    let blocks = blocks(&file).unwrap();
    let [Block::InterfaceDescription(there), Block::InterfaceDescription(back), Block::NameResolution(names)] =
        &blocks[..]
    else {
        panic!("{blocks:?}");
    };
    for (interface, name) in [(there, "r1->right"), (back, "right->r1")] {
        assert_eq!((u32::from(interface.linktype), interface.snaplen), (101, HEADERS_ONLY));
        let options = [IfOption::IfName(name.into()), IfOption::IfSpeed(100_000_000), IfOption::IfTsResol(9)];
        assert_eq!(interface.options, options);
    }
    let text = format!("{names:?}");
    assert!(text.contains("left[17]") && text.contains("right") && !text.contains("r1"), "{text}");
}

#[test]
fn names_are_spread_over_blocks_that_readers_accept() {
    let mut spec = spec();
    spec.nodes.extend((0..2500).map(|i| NodeSpec::new(format!("host[{i}]"), true)));
    let blocks = blocks(&capture(&spec, HEADERS_ONLY, &[])).unwrap();
    assert_eq!(blocks.iter().filter(|b| matches!(b, Block::NameResolution(_))).count(), 3);
}

fn any_captured() -> impl Strategy<Value = Captured> {
    let packet = (0u32..3, 0usize..4, any::<(u16, u16, u8, u32, bool)>());
    (any::<u64>(), any::<bool>(), packet).prop_map(|(ns, back, (flow, kind, (size, len, flags, window, reverse)))| {
        let mut p = packet_of(flow, kind, size);
        (p.len, p.flags, p.window) = (len, TcpFlags::from_bits(flags), window);
        if reverse {
            p.set_reverse();
        }
        Captured { time: Time::from_ns(ns), link: if back { BACK } else { THERE }, packet: p }
    })
}

fn packet_of(flow: u32, kind: usize, size: u16) -> Packet {
    packet(flow, [Kind::Tcp, Kind::Udp, Kind::EchoRequest, Kind::EchoReply][kind], size)
}

proptest! {
    #[test]
    fn packets_read_back_to_the_nanosecond(
        captured in prop::collection::vec(any_captured(), 0..20),
        snaplen in prop_oneof![Just(WHOLE_PACKETS), Just(HEADERS_ONLY), 1u32..2000],
    ) {
        let blocks = blocks(&capture(&spec(), snaplen, &captured)).unwrap();
        let read: Vec<_> = blocks.into_iter().filter_map(|b| b.into_enhanced_packet()).collect();
        prop_assert_eq!(read.len(), captured.len());
        for (block, c) in read.iter().zip(&captured) {
            let announced = match c.packet.flow {
                FlowId(0) => Announced::of(&linux(), &linux()),
                _ => Announced::default(),
            };
            let mut whole = Vec::new();
            wire::write_packet(&c.packet, &Endpoints::of(&c.packet, LEFT, RIGHT), &announced, &mut whole);
            prop_assert_eq!(block.timestamp.as_nanos(), u128::from(c.time.as_ns()));
            prop_assert_eq!(block.interface_id, u32::from(c.link == BACK));
            prop_assert_eq!(block.original_len as usize, whole.len());
            let kept = if snaplen == WHOLE_PACKETS { whole.len() } else { whole.len().min(snaplen as usize) };
            prop_assert_eq!(&block.data[..], &whole[..kept]);
        }
    }
}

/// Takes whole writes until `room` bytes are used up, then fails; remembers what came through, and
/// where writes ended.
struct Disk {
    taken: Rc<RefCell<(Vec<u8>, Vec<usize>)>>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (taken, ends) = &mut *self.taken.borrow_mut();
        if taken.len() + bytes.len() > self.room {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        taken.extend_from_slice(bytes);
        ends.push(taken.len());
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// More than fits into the writer's buffer several times over, with packets of very different
/// sizes.
fn long_story() -> Vec<Captured> {
    let mut packets: Vec<_> = (0..40).flat_map(|_| story()).collect();
    packets.insert(300, Captured { packet: packet(1, Kind::Udp, u16::MAX), ..packets[0] });
    packets
}

#[test]
fn an_interrupted_run_leaves_whole_blocks() {
    let taken = Rc::default();
    let disk = Disk { taken: Rc::clone(&taken), room: usize::MAX };
    let mut writer = PcapngWriter::new(disk, &spec(), WHOLE_PACKETS);
    long_story().iter().for_each(|c| writer.packet(c));
    // As a killed process does: nothing is flushed.
    std::mem::forget(writer);
    let (file, ends) = &*taken.borrow();
    assert!(ends.len() > 3, "only {} writes", ends.len());
    for &end in ends {
        blocks(&file[..end]).unwrap_or_else(|e| panic!("{end} of {} bytes: {e}", file.len()));
    }
}

#[test]
fn a_writer_dropped_unfinished_leaves_a_complete_file() {
    let mut file = Vec::new();
    let mut writer = PcapngWriter::new(&mut file, &spec(), HEADERS_ONLY);
    story().iter().for_each(|c| writer.packet(c));
    drop(writer);
    assert_eq!(file, capture(&spec(), HEADERS_ONLY, &story()));
}

#[test]
fn a_full_disk_is_reported_at_the_end() {
    let complete = capture(&spec(), WHOLE_PACKETS, &long_story());
    for room in (0..complete.len()).step_by(20_011) {
        let taken = Rc::default();
        let mut writer = PcapngWriter::new(Disk { taken: Rc::clone(&taken), room }, &spec(), WHOLE_PACKETS);
        long_story().iter().for_each(|c| writer.packet(c));
        assert_eq!(writer.finish().unwrap_err().kind(), io::ErrorKind::StorageFull, "{room}");
        let (file, _) = &*taken.borrow();
        assert!(complete.starts_with(file));
        assert!(file.is_empty() || blocks(file).is_ok());
    }
}

#[test]
fn what_the_spec_does_not_have_is_an_error_not_a_panic() {
    let good = story()[0];
    let cases = [
        (Captured { link: LinkId(1), ..good }, "a packet of link 1, which is not captured"),
        (Captured { link: LinkId(9), ..good }, "a packet of link 9, which is not captured"),
        (Captured { packet: packet(3, Kind::Tcp, 40), ..good }, "a packet of flow 3, but there are only 3"),
    ];
    for (bad, message) in cases {
        let mut writer = PcapngWriter::new(io::sink(), &spec(), HEADERS_ONLY);
        [good, bad, good].iter().for_each(|c| writer.packet(c));
        let error = writer.finish().unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::InvalidInput, message));
    }
    let mut spec = spec();
    spec.record.capture.push(LinkId(7));
    let error = PcapngWriter::new(io::sink(), &spec, HEADERS_ONLY).finish().unwrap_err();
    assert_eq!(error.to_string(), "link 7 is to be captured, but there are only 3");
}

/// Fields of each packet as tshark sees them, every checksum checked; `None`, and a line on the
/// terminal, without tshark.
fn tshark(file: &[u8], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        // Not eprintln!, which the test harness keeps to itself when a test passes.
        io::stderr()
            .write_all(b"SKIPPED: the check with tshark, which is not installed (Debian package tshark)\n")
            .unwrap();
        return None;
    }
    let mut path = tempfile::NamedTempFile::new().unwrap();
    path.write_all(file).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(path.path());
    for preference in ["ip.check_checksum", "tcp.check_checksum", "udp.check_checksum"] {
        command.arg("-o").arg(format!("{preference}:TRUE"));
    }
    command.args(["-T", "fields", "-E", "separator=|"]);
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
}

#[test]
fn tshark_finds_checksums_right_and_nothing_malformed() {
    let fields = [
        "_ws.malformed",
        "_ws.expert.severity",
        "ip.checksum.status",
        "tcp.checksum.status",
        "udp.checksum.status",
        "icmp.checksum.status",
        "frame.time_epoch",
        "frame.len",
        "frame.interface_name",
    ];
    for snaplen in [WHOLE_PACKETS, HEADERS_ONLY] {
        let Some(lines) = tshark(&capture(&spec(), snaplen, &story()), &fields) else { return };
        assert_eq!(lines.len(), story().len());
        for (line, c) in lines.iter().zip(story()) {
            let [malformed, severity, ip, tcp, udp, icmp, time, len, interface] = &line[..] else { panic!("{line:?}") };
            assert_eq!(malformed, "", "{line:?}");
            // 8388608 is an error; warnings are what the story itself tells (a lost segment).
            assert!(!severity.contains("8388608"), "{line:?}");
            // 1: good. 2: not verifiable, for want of the payload.
            let whole = snaplen == WHOLE_PACKETS || u32::from(c.packet.size) <= snaplen;
            let expected = if whole { "1" } else { "2" };
            let statuses = match c.packet.kind {
                Kind::Tcp => [tcp, udp, icmp],
                Kind::Udp => [udp, tcp, icmp],
                Kind::EchoRequest | Kind::EchoReply => [icmp, tcp, udp],
            };
            assert_eq!((ip.as_str(), statuses.map(String::as_str)), ("1", [expected, "", ""]), "{line:?}");
            let ns = c.time.as_ns();
            assert_eq!(*time, format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000));
            assert_eq!(*len, c.packet.size.to_string());
            assert_eq!(interface, if c.link == BACK { "right->r1" } else { "r1->right" });
        }
    }
}

#[test]
fn tshark_follows_the_connection() {
    let fields = [
        "tcp.len",
        "tcp.window_size",
        "tcp.options.mss_val",
        "tcp.options.wscale.shift",
        "tcp.options.timestamp.tsval",
        "tcp.options.sack_le",
        "ip.dsfield.ecn",
        "tcp.stream",
        "icmp.resp_to",
    ];
    let Some(lines) = tshark(&capture(&spec(), HEADERS_ONLY, &story()), &fields) else { return };
    let lines: Vec<_> = lines.iter().map(|l| l.join("|")).collect();
    assert_eq!(
        lines,
        [
            "0|65535|1460|6|1000||0|0|",
            "0|65535|1460|6|1000||0|0|",
            "0|65472|||1000||0|0|", // 1023 * 2^6
            "1448|65472|||1000||2|0|",
            "1448|65472|||1000||2|0|",
            "1448|65472|||1000||3|0|",
            "1448|65472|||1000||2|0|",
            "0|3000000|||1000|7241,2897|0|0|", // relative to the SYN's sequence number, hence one more
            "1|65472|||1000||0|0|",
            "||||||0||",
            "||||||0||",
            "||||||0||11",
        ]
    );
}

#[test]
fn tshark_reads_any_packet() {
    let mut packets = Vec::new();
    for (kind, size) in (0..4).flat_map(|kind| (0..120).chain([1499, 1500, 9000, 65_535]).map(move |size| (kind, size)))
    {
        let mut p = packet_of(kind as u32 % 3, kind, size);
        (p.flags, p.len, p.window) = (TcpFlags::from_bits(size as u8), size / 3, u32::from(size) << 10);
        (p.ts_val, p.ts_ecr) = (u32::from(size) % 2, 0);
        p.push_sack(SackBlock { start: Seq32(5), end: Seq32(9) });
        packets.push(Captured { time: Time::from_ns(packets.len() as u64), link: THERE, packet: p });
    }
    let fields =
        ["_ws.malformed", "ip.checksum.status", "tcp.checksum.status", "udp.checksum.status", "icmp.checksum.status"];
    let Some(lines) = tshark(&capture(&spec(), WHOLE_PACKETS, &packets), &fields) else { return };
    assert_eq!(lines.len(), packets.len());
    for (line, c) in lines.iter().zip(packets) {
        let [malformed, statuses @ ..] = &line[..] else { panic!("{line:?}") };
        assert_eq!((malformed.as_str(), statuses.concat().as_str()), ("", "11"), "{:?}: {line:?}", c.packet);
    }
}

#[test]
fn tshark_reads_a_capture_cut_short_by_a_kill() {
    let taken = Rc::default();
    let mut writer = PcapngWriter::new(Disk { taken: Rc::clone(&taken), room: usize::MAX }, &spec(), WHOLE_PACKETS);
    long_story().iter().for_each(|c| writer.packet(c));
    std::mem::forget(writer);
    let Some(lines) = tshark(&taken.borrow().0, &["frame.len"]) else { return };
    assert!(lines.len() > 100 && lines.len() < long_story().len(), "{}", lines.len());
}
