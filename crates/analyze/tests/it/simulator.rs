//! Captures the simulator writes, beside its own tables.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use airtcp_core::queue::QueueConfig;
use airtcp_core::queue::fifo::FifoConfig;
use airtcp_core::units::{Bytes, DataRate, Probability, Span, Time};
use airtcp_core::wifi::Ac;
use airtcp_sim::capture::{HEADERS_ONLY, PcapngWriter};
use airtcp_sim::record::Data;
use airtcp_sim::spec::*;
use airtcp_sim::traffic::Transfer;
use airtcp_sim::world::World;

use crate::common::*;

#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Four hosts send to one over a line that loses some; captured next to the first of them, whose
/// line takes no time.
fn spec(profile: &str, loss: f64) -> RunSpec {
    let fifo = |packets| QueueConfig::Fifo(FifoConfig { limit_packets: packets, limit_bytes: None });
    let link = |from: u32, to: u32, mbps, delay, loss, packets| LinkSpec {
        name: format!("{from}->{to}"),
        from: NodeId(from),
        to: NodeId(to),
        delay,
        air: None,
        line: Arc::new(LineSpec {
            queue: fifo(packets),
            loss: Probability::new(loss).unwrap(),
            ..LineSpec::new("line", DataRate::from_mbps(mbps))
        }),
    };
    let node = |name: &str, is_host| NodeSpec::new(name, is_host);
    let tcp = config(profile, |_| {});
    let mut links =
        vec![link(5, 4, 10, Span::from_ms(10), loss, Some(30)), link(4, 5, 10, Span::from_ms(10), 0.0, None)];
    for host in 0..4 {
        links.push(link(host, 5, 1_000_000, Span::from_ns(1), 0.0, None));
        links.push(link(5, host, 1_000_000, Span::from_ns(1), 0.0, None));
    }
    RunSpec {
        seed: 7,
        duration: Span::from_secs(60),
        warmup: Span::ZERO,
        nodes: vec![
            node("a", true),
            node("b", true),
            node("c", true),
            node("d", true),
            node("sink", true),
            node("r", false),
        ],
        links,
        channels: Vec::new(),
        walks: Vec::new(),
        roaming: Vec::new(),
        flows: (0..4)
            .map(|host| FlowSpec {
                name: format!("flow{host}"),
                group: "flow".into(),
                from: NodeId(host),
                to: NodeId(4),
                start: Time::ZERO + Span::from_ms(u64::from(host) * 17),
                stop: Time::NEVER,
                ac: Ac::Be,
                traffic: Traffic::Tcp {
                    sender: tcp.clone(),
                    receiver: tcp.clone(),
                    read_rate: None,
                    app: TcpApp::Transfer(Transfer { bytes: Bytes::new(2_000_000) }),
                },
            })
            .collect(),
        external: ExternalSpec::default(),
        record: RecordSpec {
            retransmissions: Vec::new(),
            interval: Span::from_secs(1),
            flow_series_max: 0,
            link_series: vec![],
            drops: vec![],
            capture: (2..10).map(LinkId).collect(),
            air_series: Vec::new(),
            ppdus: Vec::new(),
            capture_air: Vec::new(),
        },
    }
}

#[test]
fn counts_agree_with_the_simulators_tables() {
    for (profile, loss) in [("linux-3.13", 0.01), ("windows-10", 0.02), ("macos-10.11", 0.0), ("freebsd-2.2.1", 0.03)] {
        let spec = spec(profile, loss);
        let file = Shared::default();
        let mut writer = PcapngWriter::new(file.clone(), &spec, HEADERS_ONLY);
        let mut world = World::build(&spec).unwrap();
        world.run(&mut writer);
        writer.finish().unwrap();
        let output = world.finish();
        let capture = file.0.lock().unwrap().clone();
        let found = analyse(capture);
        assert_eq!(found.damage, None);
        assert_eq!(found.notes, Vec::<String>::new());
        let told = |column: &str| match output.table("flows").unwrap().column(column) {
            Some(Data::U64(v)) => v.clone(),
            other => panic!("{column}: {other:?}"),
        };
        let payload = found.numbers("flows", "payload_bytes");
        let flows: Vec<usize> = (0..payload.len()).filter(|&i| payload[i] > 0).collect();
        assert_eq!(flows.len(), 4);
        // Rows come as connections end; flows are numbered as they begin.
        let mut by_start = flows.clone();
        let numbers = found.numbers("flows", "flow");
        by_start.sort_by_key(|&i| numbers[i]);
        let of = |column: &str| -> Vec<u64> {
            let all = found.numbers("flows", column);
            by_start.iter().map(|&i| all[i]).collect()
        };
        assert_eq!(of("unique_bytes"), [2_000_000; 4], "{profile}");
        for (here, there) in [
            ("timeouts", "timeouts"),
            ("fast_retransmits", "fast_retransmits"),
            ("retransmitted_packets", "segments_retransmitted"),
            ("data_packets", "segments_sent"),
        ] {
            // Linux takes reductions back on DSACKs and timestamps, and begins anew: without a
            // trace of its own in a capture.
            if here != "fast_retransmits" || !config(profile, |_| {}).loss_recovery.dsack {
                assert_eq!(of(here), told(there), "{profile}: {here}");
            }
        }
        assert!(of("retransmitted_packets").iter().sum::<u64>() > 10, "{profile}");
        assert_eq!(found.texts("flows", "vantage")[by_start[0]], "sender");
    }
}
