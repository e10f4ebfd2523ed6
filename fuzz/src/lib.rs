//! Attacks on the readers of files and datagrams of strangers. Each function takes any bytes
//! and panics on a defect.

use std::io::Cursor;
use std::sync::LazyLock;

use airtcp_analyze::tables::Data;
use airtcp_analyze::{Analyzer, Options};
use airtcp_core::coop::{ANNOUNCEMENT_BYTES, Announcement, CoopConfig, Daemon, FlowId, FlowSample, TerminalId};
use airtcp_core::packet::Ecn;
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::units::{Span, Time};
use airtcp_core::wire::{Reader, patch_ecn};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::document::Document;
use airtcp_sim::scenario::Scenario;
use airtcp_sim::spec::{NodeId, RunSpec};
use airtcp_sim::world::World;

/// Bytes as a capture file, through the whole path: no panic, every packet counted once, bytes
/// conserved.
pub fn analyze(bytes: &[u8]) {
    // Few points and connections, so that thinning and eviction are reached.
    let options = Options { points: 16, idle_timeout_s: 60.0, max_connections: 4 };
    let Ok(mut analyzer) = Analyzer::new(Cursor::new(bytes.to_vec()), options) else { return };
    let (mut payload, mut parts, mut packets) = (0, 0, 0);
    loop {
        let more = analyzer.advance(7);
        if !more {
            analyzer.finish();
        }
        for table in analyzer.drain().iter().filter(|t| t.name == "flows") {
            let sum = |name| match table.column(name) {
                Some(Data::U64(v)) => v.iter().sum::<u64>(),
                other => panic!("{name}: {other:?}"),
            };
            payload += sum("payload_bytes");
            parts += sum("unique_bytes") + sum("retransmitted_bytes");
            packets += sum("packets");
        }
        if !more {
            break;
        }
    }
    assert_eq!(payload, parts);
    assert!(packets <= analyzer.packets());
    let _ = (analyzer.notes(), analyzer.damage().map(ToString::to_string), analyzer.summary());
}

/// Bytes as datagrams to the cooperative daemon: what is read writes back as it was, no
/// connection's phase changes, memory is bounded.
pub fn announcement(bytes: &[u8]) {
    if let Ok(a) = Announcement::decode(bytes) {
        // A document of version 1 is written as version 2.
        let written = a.encode();
        assert_eq!((&written[..4], &written[5..]), (&bytes[..4], &bytes[5..]));
    }
    let config = CoopConfig { max_peers: 4, ..CoopConfig::default() };
    let mut daemon = Daemon::new(config, TerminalId::new(1).unwrap(), stream(1, 0, Purpose::Coop), Time::ZERO);
    let (mut now, mut caps) = (Time::ZERO, Vec::new());
    let sample = |rtt, delivered_bytes| FlowSample {
        id: FlowId(0),
        rtt: Some(Span::from_ms(rtt)),
        least_rtt: None,
        delivered_bytes,
        sending: true,
    };
    daemon.on_sample(now, &[sample(100, 0)], &mut caps);
    daemon.on_sample(now, &[sample(700, 1)], &mut caps);
    // Each datagram behind a byte that says how long it was in coming.
    for datagram in bytes.chunks(1 + ANNOUNCEMENT_BYTES) {
        now += Span::from_ms(10 * u64::from(datagram[0]));
        let before = daemon.phase(FlowId(0));
        let _ = daemon.on_announcement(now, &datagram[1..]);
        assert_eq!(daemon.phase(FlowId(0)), before);
        assert!(daemon.peers().len() <= 4 && (1..=5).contains(&daemon.terminals()));
        daemon.on_sample(now, &[sample(300, 1)], &mut caps);
        assert!(caps[0].is_some_and(|cap| cap >= 2));
        let _ = daemon.on_deadline(now);
    }
}

/// Two real hosts behind a link that drops, marks and filters, and a radio that gives up.
static NETWORK: LazyLock<RunSpec> = LazyLock::new(|| {
    let text = r#"
        duration = "1s"
        nodes = [
            { name = "a", kind = "host", attach = true }, { name = "ap", kind = "router" }, { name = "r", kind = "router" },
            { name = "b", kind = "host", attach = true },
        ]
        wlans = [{ ap = "ap", stations = ["a"], signal = { kind = "error_rate", rate = 0.3 }, ap_radio = { reorder_buffer = { retry_out = "delay" } } }]
        links = [
            { from = "ap", to = "r", rate = "2Mbit/s", delay = "1ms", queue = "fq_codel", reverse = { queue = { name = "ack_filter", limit_packets = 5 } } },
            { from = "r", to = "b", rate = "1Gbit/s", delay = "1ms" },
        ]
    "#;
    let read = Scenario::parse(text, "network.toml", &[]).and_then(|read| read.to_spec());
    read.unwrap_or_else(|faults| panic!("{faults}"))
});

/// Bytes as packets of real programs, each behind two that say from where, when and how long: each
/// is read or refused, goes through a network, and comes out once at most; ECN changes nothing but
/// itself.
pub fn packet(bytes: &[u8]) {
    let mut world = World::build(&NETWORK).expect("a network");
    world.audit();
    let hosts = [0, 1].map(|i| world.external_hosts()[i].node);
    let (mut reader, mut sent, mut taken) = (Reader::default(), 0, 0);
    let mut rest = bytes;
    while let [when, length, tail @ ..] = rest {
        let (packet, others) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = others;
        world.run_until(world.now() + Span::from_us(u64::from(*when >> 1) * 50), &mut NoCapture);
        if let Ok(read) = reader.read(packet) {
            assert_eq!(usize::from(read.packet.size), packet.len());
            assert!(read.packet.len <= read.packet.size && read.packet.is_external());
            let mut marked = packet.to_vec();
            patch_ecn(&mut marked, Ecn::Ce);
            let again = reader.read(&marked).expect("as before").packet;
            assert_eq!(
                (again.connection(), again.ecn, again.len),
                (read.packet.connection(), Ecn::Ce, read.packet.len)
            );
            let [from, to]: [NodeId; 2] = if when & 1 == 0 { hosts } else { [hosts[1], hosts[0]] };
            world.inject(from, to, read.packet).expect("attached hosts with a path");
            sent += 1;
        }
        if when & 2 == 0 {
            taken += u32::from(world.take_egress().is_some());
        }
    }
    world.run_until(world.end().max(world.now()), &mut NoCapture);
    while world.take_egress().is_some() {
        taken += 1;
    }
    assert!(taken + world.external_inside() <= sent);
    assert_eq!(world.finding(), None);
}

/// Bytes as a scenario file, to what a world is built from: what is accepted says the same again
/// once it is written out, and every fault names a file.
pub fn scenario(bytes: &[u8]) {
    let read = match Scenario::parse_bytes(bytes, "x.toml", &[]) {
        Ok(read) => read,
        Err(faults) => return assert!(faults.iter().all(|fault| !fault.to_string().is_empty())),
    };
    // A million members are no defect, but no work for many times a second either.
    if bytes.windows(5).any(|w| w.iter().all(|b| b.is_ascii_digit() || *b == b'_')) {
        return;
    }
    let Ok(spec) = read.to_spec() else { return };
    let again = Scenario::parse(&read.to_toml(), "again.toml", &[]).and_then(|again| again.to_spec());
    assert_eq!(again.unwrap_or_else(|faults| panic!("{faults}")), spec);
}

/// Schemas of the files that `airtcp schema WHAT --out fuzz/schemas/WHAT.json` has written, and
/// that of scenarios.
static SCHEMAS: LazyLock<Vec<serde_json::Value>> = LazyLock::new(|| {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = files.filter_map(|file| serde_json::from_str(&std::fs::read_to_string(file.path()).ok()?).ok());
    let own = serde_json::from_str(&format!("{:#}", airtcp_sim::scenario::schema())).expect("JSON");
    read.chain([own]).collect()
});

/// Bytes as a sweep, study or experiment file, held against its schema: no panic, and every fault
/// says something.
pub fn document(bytes: &[u8]) {
    let Ok(document) = Document::parse_bytes(bytes, "x.toml", "sweep") else { return };
    for schema in SCHEMAS.iter() {
        if let Err(faults) = document.check(schema) {
            assert!(faults.iter().all(|fault| !fault.to_string().is_empty()));
        }
    }
}
