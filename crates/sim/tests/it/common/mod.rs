//! Small networks for tests.

use std::path::{Path, PathBuf};

use airtcp_core::queue::QueueConfig;
use airtcp_core::queue::fifo::FifoConfig;
use airtcp_core::table::Data;
use airtcp_core::units::{Bytes, DataRate, Span, Time};
use airtcp_core::wifi::Ac;
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::spec::*;
use airtcp_sim::traffic::{Cbr, Train};
use airtcp_sim::world::{RunOutput, World};

pub fn empty(seed: u64, duration: Span) -> RunSpec {
    RunSpec {
        seed,
        duration,
        warmup: Span::ZERO,
        nodes: Vec::new(),
        links: Vec::new(),
        channels: Vec::new(),
        walks: Vec::new(),
        roaming: Vec::new(),
        flows: Vec::new(),
        external: ExternalSpec::default(),
        record: RecordSpec {
            interval: Span::from_ms(100),
            flow_series_max: 0,
            link_series: Vec::new(),
            drops: Vec::new(),
            retransmissions: Vec::new(),
            capture: Vec::new(),
            air_series: Vec::new(),
            ppdus: Vec::new(),
            capture_air: Vec::new(),
        },
    }
}

pub fn fifo(limit_packets: Option<u32>, limit_bytes: Option<u64>) -> QueueConfig {
    QueueConfig::Fifo(FifoConfig { limit_packets, limit_bytes: limit_bytes.map(Bytes::new) })
}

pub trait Building {
    fn host(&mut self, name: &str) -> NodeId;
    fn router(&mut self, name: &str) -> NodeId;
    fn link(&mut self, from: NodeId, to: NodeId, rate: DataRate, delay: Span, queue: QueueConfig) -> LinkId;
    fn both(&mut self, a: NodeId, b: NodeId, rate: DataRate, delay: Span) -> (LinkId, LinkId);
    fn flow(&mut self, from: NodeId, to: NodeId, start: Time, stop: Time, traffic: Traffic) -> usize;
    fn record_everything(&mut self);
}

impl Building for RunSpec {
    fn host(&mut self, name: &str) -> NodeId {
        self.nodes.push(NodeSpec::new(name, true));
        NodeId(self.nodes.len() as u32 - 1)
    }
    fn router(&mut self, name: &str) -> NodeId {
        self.nodes.push(NodeSpec::new(name, false));
        NodeId(self.nodes.len() as u32 - 1)
    }
    fn link(&mut self, from: NodeId, to: NodeId, rate: DataRate, delay: Span, queue: QueueConfig) -> LinkId {
        let name = format!("{}->{}", self.nodes[from.0 as usize].name, self.nodes[to.0 as usize].name);
        self.links.push(LinkSpec {
            line: LineSpec { queue, ..LineSpec::new(&name, rate) }.into(),
            name,
            from,
            to,
            delay,
            air: None,
        });
        LinkId(self.links.len() as u32 - 1)
    }
    fn both(&mut self, a: NodeId, b: NodeId, rate: DataRate, delay: Span) -> (LinkId, LinkId) {
        (self.link(a, b, rate, delay, fifo(None, None)), self.link(b, a, rate, delay, fifo(None, None)))
    }
    fn flow(&mut self, from: NodeId, to: NodeId, start: Time, stop: Time, traffic: Traffic) -> usize {
        let name = format!("flow{}", self.flows.len());
        self.flows.push(FlowSpec { group: name.clone(), name, from, to, start, stop, ac: Ac::Be, traffic });
        self.flows.len() - 1
    }
    fn record_everything(&mut self) {
        let all: Vec<LinkId> = (0..self.links.len() as u32).map(LinkId).collect();
        self.record.link_series = all.clone();
        self.record.drops = all;
        self.record.flow_series_max = 1000;
    }
}

pub fn run(spec: &RunSpec) -> RunOutput {
    let mut world = World::build(spec).unwrap();
    world.run(&mut NoCapture);
    world.finish()
}
/// All at the same time, each in a thread of its own. Results are in the order of the
/// specifications.
pub fn run_together(specs: &[RunSpec]) -> Vec<RunOutput> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = specs.iter().map(|spec| scope.spawn(|| run(spec))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub fn cbr(bps: u64, packet_bytes: u16) -> Traffic {
    Traffic::Cbr(Cbr { rate: DataRate::from_bps(bps), packet_bytes })
}
pub fn train(count: u32, packet_bytes: u16) -> Traffic {
    Traffic::Train(Train { count, gap: Span::ZERO, packet_bytes, every: None })
}

/// Every example that is a scenario of its own, and not a sweep.
pub fn examples() -> Vec<(PathBuf, RunSpec)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let is_scenario = |path: &PathBuf| {
        let is_sweep = path.file_name().unwrap().to_string_lossy().starts_with("sweep-");
        path.extension().is_some_and(|e| e == "toml") && !is_sweep
    };
    let load = |path: PathBuf| {
        let spec = Scenario::load(&path, &[]).and_then(|s| s.to_spec()).unwrap_or_else(|e| panic!("{e}"));
        (path, spec)
    };
    files.filter(is_scenario).map(load).collect()
}

/// Runs a scenario with changes. Returns for each flow: goodput in Mbit/s (0 where it has none) and
/// mean round trip in ms.
pub fn goodputs_and_rtts(text: &str, sets: &[&str]) -> Vec<(f64, f64)> {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    let spec = Scenario::parse(text, "scenario.toml", &overrides).unwrap().to_spec().unwrap();
    let mut world = World::build(&spec).unwrap();
    world.run(&mut NoCapture);
    let out = world.finish();
    let flows = out.table("flows").unwrap();
    let (Some(Data::F64(goodput)), Some(Data::F64(rtt))) = (flows.column("goodput_bps"), flows.column("rtt_mean_ms"))
    else {
        panic!("columns of flows");
    };
    goodput.iter().map(|bps| bps / 1e6).zip(rtt.iter().copied()).collect()
}
