//! The seam to real programs, with a clock set by hand: what is injected fares as what is
//! simulated.

use airtcp_core::packet::{FlowId, Kind, Packet, PacketId};
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::Ac;
use airtcp_sim::capture::NoCapture;
use airtcp_sim::record::{Data, Table};
use airtcp_sim::scenario::{Attach, Scenario};
use airtcp_sim::spec::{NodeId, RunSpec};
use airtcp_sim::world::{NotInjected, RunOutput, World};
use proptest::prelude::*;

// The kernel of `b` merges what it receives by itself; so nothing is merged in the simulations to
// compare with.

/// Trains of datagrams from `a` and `c` to `b`, behind a bottleneck that drops and a line that
/// loses, beside simulated TCP.
const WIRED: &str = r#"
    duration = "3s"
    nodes = [
        { name = "a", kind = "host" }, { name = "b", kind = "host", receive_offload = "off" }, { name = "c", kind = "host" },
        { name = "r1", kind = "router" }, { name = "r2", kind = "router" },
    ]
    links = [
        { from = "a", to = "r1", rate = "1Gbit/s", delay = "1ms" },
        { from = "c", to = "r1", rate = "1Gbit/s", delay = "2ms" },
        { from = "r1", to = "r2", rate = "20Mbit/s", delay = "5ms", queue = QUEUE, loss = 0.01 },
        { from = "r2", to = "b", rate = "1Gbit/s", delay = "1ms" },
    ]
    flows = [
        { name = "cross", from = "c", to = "b", tcp = { cc = "cubic" } },
        { name = "train", from = "a", to = "b", start = "123us", traffic = { kind = "train", count = 20, gap = "13us", every = "14ms", packet_bytes = 1200 } },
    ]
"#;

/// The same from a station of a WLAN, beside another that uploads.
const WIRELESS: &str = r#"
    duration = "3s"
    nodes = [
        { name = "a", kind = "host" }, { name = "c", kind = "host" }, { name = "ap", kind = "router" },
        { name = "b", kind = "host", receive_offload = "off" },
    ]
    wlans = [{ ap = "ap", phy = { standard = "n" }, stations = [{ node = "a", signal = { kind = "error_rate", rate = 0.2 } }, "c"] }]
    links = [{ from = "ap", to = "b", rate = "1Gbit/s", delay = "5ms" }]
    flows = [
        { name = "cross", from = "c", to = "b", tcp = { cc = "cubic" } },
        { name = "train", from = "a", to = "b", start = "123us", traffic = { kind = "train", count = 20, gap = "13us", every = "14ms", packet_bytes = 1200 } },
    ]
"#;

const FIFO: &str = r#"{ name = "fifo", limit_packets = 40 }"#;
const FQ_CODEL: &str = r#""fq_codel""#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text, "x.toml", &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

fn attached(text: &str, hosts: &[&str]) -> RunSpec {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    scenario(text).to_spec_attached(&Attach { hosts: &hosts, forever: false }).unwrap()
}

fn node(spec: &RunSpec, name: &str) -> NodeId {
    NodeId(spec.nodes.iter().position(|node| node.name == name).unwrap() as u32)
}

fn floats<'a>(table: &'a Table, name: &str) -> &'a [f64] {
    match table.columns.iter().find(|c| c.name == name).map(|c| &c.data) {
        Some(Data::F64(values)) => values,
        other => panic!("{name}: {other:?}"),
    }
}

/// When each datagram was sent and received, of a simulated run.
fn simulated(text: &str) -> (Vec<(f64, f64)>, RunOutput) {
    let mut world = World::build(&scenario(text).to_spec().unwrap()).unwrap();
    world.run(&mut NoCapture);
    let output = world.finish();
    let table = output.table("datagrams").unwrap();
    let fates = floats(table, "sent_s").iter().copied().zip(floats(table, "received_s").iter().copied());
    (fates.collect(), output)
}

fn datagram(size: u16) -> Packet {
    let mut packet = Packet::external(Kind::Udp, 77, Ac::Be);
    (packet.size, packet.len) = (size, size - 28);
    packet
}

/// The clock of a driver that wakes when it has something to inject, and otherwise as it likes.
struct Replay<'w> {
    world: &'w mut World,
    from: NodeId,
    to: NodeId,
    /// When each datagram arrived.
    arrived: Vec<Option<Time>>,
    /// By packet number: which datagram has it.
    slots: Vec<usize>,
}

impl Replay<'_> {
    fn run_until(&mut self, time: Time) {
        self.world.run_until(time, &mut NoCapture);
    }
    fn inject(&mut self, packet: Packet) {
        let id = self.world.inject(self.from, self.to, packet).unwrap();
        let slot = id.0 as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, usize::MAX);
        }
        self.slots[slot] = self.arrived.len();
        self.arrived.push(None);
    }
    fn take(&mut self, most: usize) {
        for _ in 0..most {
            let Some(egress) = self.world.take_egress() else { return };
            assert_eq!((egress.from, egress.to), (self.from, self.to));
            let arrived = &mut self.arrived[self.slots[egress.id.0 as usize]];
            assert_eq!(*arrived, None, "a number was used for two");
            *arrived = Some(egress.time);
        }
    }
}

/// Injects datagrams at the times of the train's, and looks in at other times as `wakes` has it, ns
/// after the last time. `take`: whether to take what has arrived, wake by wake.
fn replay(text: &str, sent: &[f64], wakes: &[u64], take: &[bool]) -> (Vec<Option<Time>>, RunOutput) {
    let mut spec = attached(text, &["a", "b"]);
    assert_eq!(spec.external.left_out, ["train"]);
    spec.record.drops = Vec::new();
    let (from, to) = (node(&spec, "a"), node(&spec, "b"));
    let mut world = World::build(&spec).unwrap();
    let end = world.end();
    let mut replay = Replay { world: &mut world, from, to, arrived: Vec::new(), slots: Vec::new() };
    let (mut wakes, mut take) = (wakes.iter().cycle(), take.iter().cycle());
    for &at in sent {
        let at = Time::from_ns((at * 1e9).round() as u64);
        for _ in 0..20 {
            let Some(&wake) = wakes.next() else { break };
            let wake = replay.world.now() + Span::from_ns(wake);
            if wake >= at {
                break;
            }
            replay.run_until(wake);
            if take.next() == Some(&true) {
                replay.take(usize::MAX);
            }
        }
        replay.run_until(at);
        if take.next() == Some(&true) {
            replay.take(2);
        }
        replay.inject(datagram(1200));
    }
    replay.run_until(end);
    replay.take(usize::MAX);
    let arrived = replay.arrived;
    (arrived, world.finish())
}

/// As simulated, to the nanosecond.
fn hold_to(simulated: &[(f64, f64)], arrived: &[Option<Time>]) {
    assert_eq!(simulated.len(), arrived.len());
    for (number, ((sent, received), arrived)) in simulated.iter().zip(arrived).enumerate() {
        let arrived = arrived.map_or(f64::NAN, Time::as_secs_f64);
        let is_same = arrived == *received || (arrived.is_nan() && received.is_nan());
        assert!(is_same, "datagram {number}, sent at {sent}: simulated {received}, injected {arrived}");
    }
}

fn column(output: &RunOutput, table: &str, name: &str) -> Vec<String> {
    let column = output.table(table).unwrap().columns.iter().find(|c| c.name == name).unwrap();
    match &column.data {
        Data::U64(values) => values.iter().map(u64::to_string).collect(),
        Data::F64(values) => values.iter().map(f64::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn injected_packets_fare_as_simulated_ones() {
    for text in [WIRED.replace("QUEUE", FIFO), WIRED.replace("QUEUE", FQ_CODEL), WIRELESS.to_owned()] {
        let (fates, simulation) = simulated(&text);
        assert!(fates.len() > 4000, "{}", fates.len());
        let lost = fates.iter().filter(|(_, received)| received.is_nan()).count();
        let sent: Vec<f64> = fates.iter().map(|(sent, _)| *sent).collect();
        let (arrived, real) = replay(&text, &sent, &[], &[true]);
        hold_to(&fates, &arrived);
        let (woken, _) = replay(&text, &sent, &[1, 977, 300_001, 40, 12_345_678], &[false, true, false]);
        assert_eq!(arrived, woken);
        // To the lines and to the simulated flow beside them nothing has changed.
        for name in ["arrived_packets", "arrived_bytes", "dropped_overflow", "forwarded_bytes", "queue_mean_packets"] {
            assert_eq!(column(&simulation, "links", name), column(&real, "links", name), "{name}");
        }
        assert_eq!(column(&simulation, "flows", "bytes_acked")[0], column(&real, "flows", "bytes_acked")[0]);
        assert_eq!(column(&simulation, "flows", "received")[1], column(&real, "flows", "received")[1]);
        assert_eq!(fates.len() - lost, arrived.iter().flatten().count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn needless_wakes_and_untaken_packets_change_nothing(
        wakes in prop::collection::vec(prop_oneof![0u64..2000, 0u64..20_000_000], 1..40),
        take in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        for text in [WIRED.replace("QUEUE", FIFO), WIRELESS.to_owned()] {
            let text = text.replace("\"3s\"", "\"300ms\"");
            let (fates, _) = simulated(&text);
            let sent: Vec<f64> = fates.iter().map(|(sent, _)| *sent).collect();
            let (arrived, _) = replay(&text, &sent, &wakes, &take);
            hold_to(&fates, &arrived);
        }
    }
}

#[test]
fn a_number_is_not_used_again_before_its_packet_has_been_taken() {
    let spec = attached(&WIRED.replace("QUEUE", FIFO), &["a", "b"]);
    let (from, to) = (node(&spec, "a"), node(&spec, "b"));
    let mut world = World::build(&spec).unwrap();
    let mut first = Vec::new();
    for n in 0..30u64 {
        first.push(world.inject(from, to, datagram(1200)).unwrap());
        world.run_until(Time::from_ns((n + 1) * 10_000_000), &mut NoCapture);
    }
    world.run_until(Time::ZERO + Span::from_secs(1), &mut NoCapture);
    assert_eq!(world.external_inside(), 0);
    let mut taken: Vec<PacketId> = Vec::new();
    let next = loop {
        // Half of them have been taken; the other half keep their numbers.
        if taken.len() >= 10 {
            break world.inject(from, to, datagram(1200)).unwrap();
        }
        taken.push(world.take_egress().expect("most have arrived").id);
    };
    assert!(!first.contains(&next) || taken.contains(&next) || !has_arrived(&mut world, next));
    assert_eq!(world.external_inside(), 1);
    let mut rest: Vec<PacketId> = Vec::new();
    while let Some(egress) = world.take_egress() {
        rest.push(egress.id);
    }
    assert!(rest.iter().all(|id| first.contains(id) && !taken.contains(id) && *id != next));
}

/// True if the packet waits to be taken; takes all that do.
fn has_arrived(world: &mut World, id: PacketId) -> bool {
    let mut found = false;
    while let Some(egress) = world.take_egress() {
        found |= egress.id == id;
    }
    found
}

#[test]
fn what_cannot_enter_is_told() {
    let spec = attached(&WIRED.replace("QUEUE", FIFO), &["a", "b"]);
    let (a, b, c) = (node(&spec, "a"), node(&spec, "b"), node(&spec, "c"));
    let mut world = World::build(&spec).unwrap();
    let told = |world: &mut World, from, to| world.inject(from, to, datagram(100)).unwrap_err().to_string();
    assert_eq!(told(&mut world, a, a), "`a` would send to itself: such packets do not leave a host");
    assert_eq!(told(&mut world, a, c), "`c` is not attached: real programs cannot send from it or to it");
    assert_eq!(
        told(&mut world, NodeId(99), b),
        "`node 99` is not attached: real programs cannot send from it or to it"
    );
    let own = Packet::new(FlowId(0), Kind::Udp, 0);
    assert_eq!(world.inject(a, b, own), Err(NotInjected::NotExternal));
    assert_eq!((world.external_inside(), world.packets_inside()), (0, 0));
}

#[test]
fn hosts_are_attached_by_file_and_by_name() {
    let text = r#"
        duration = "1s"
        nodes = [
            { name = "left", kind = "host", count = 3 },
            { name = "s", kind = "host", attach = true, profile = "windows-10" },
            { name = "alone", kind = "host" }, { name = "r", kind = "router" },
        ]
        links = [
            { from = "left", to = "r", rate = "1Gbit/s", delay = "1ms" },
            { from = "s", to = "r", rate = "1Gbit/s", delay = "1ms" },
            { from = "alone", to = "left[0]", rate = "1Gbit/s", delay = "1ms" },
        ]
        flows = [{ name = "up", from = "left", to = "s" }]
    "#;
    let names = |hosts: &[&str]| {
        let spec = attached(text, hosts);
        World::build(&spec).unwrap();
        let of = |node: NodeId| spec.nodes[node.index()].name.clone();
        let hosts: Vec<String> =
            spec.external.hosts.iter().map(|host| format!("{} {}", of(host.node), host.profile)).collect();
        let flows: Vec<String> = spec.flows.iter().map(|flow| flow.name.clone()).collect();
        (hosts.join(", "), flows.join(", "), spec.external.left_out.join(", "))
    };
    let told = |hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        scenario(text).to_spec_attached(&Attach { hosts: &hosts, forever: false }).unwrap_err().to_string()
    };
    let all = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(names(&[]), all("s windows-10", "up[0], up[1], up[2]", ""));
    assert_eq!(
        names(&["left[1]", "s"]),
        all("left[1] linux-6, s windows-10", "up[0], up[2], left[1]->s, s->left[1]", "up[1]")
    );
    let (hosts, _, left_out) = names(&["left"]);
    assert_eq!(hosts, "left[0] linux-6, left[1] linux-6, left[2] linux-6, s windows-10");
    assert_eq!(left_out, "up[0], up[1], up[2]");
    // Hosts do not forward: no flow to the one behind a host.
    assert_eq!(names(&["alone"]).1, "up[0], up[1], up[2]");
    assert_eq!(told(&["lef"]), "lef: unknown node; did you mean `left`? accepted: left, s, alone, r");
    assert_eq!(told(&["r"]), "r: is a router: real programs run on hosts");
    assert_eq!(told(&["left[3]"]), "left[3]: the members of `left` are left[0] to left[2]");
    assert_eq!(told(&["left[1]", "left"]), "left: attaches left[1] a second time: name each host once");
}

#[test]
fn a_run_without_an_end_goes_on() {
    let hosts = ["a".to_owned(), "b".to_owned()];
    let text = WIRED.replace("QUEUE", FIFO);
    let spec = scenario(&text).to_spec_attached(&Attach { hosts: &hosts, forever: true }).unwrap();
    let mut world = World::build(&spec).unwrap();
    assert!(world.end().is_never());
    let (from, to) = (node(&spec, "a"), node(&spec, "b"));
    world.run_until(Time::ZERO + Span::from_secs(5), &mut NoCapture);
    world.inject(from, to, datagram(500)).unwrap();
    let deadline = world.deadline();
    assert!(deadline >= world.now() && deadline < world.now() + Span::from_ms(2), "{deadline}");
    world.run_until(Time::ZERO + Span::from_secs(6), &mut NoCapture);
    let egress = world.take_egress().expect("it has arrived");
    assert!(egress.time > Time::ZERO + Span::from_ms(5007) && egress.packet().size == 500);
}

/// A phone that walks from one access point to another and back, over both queues' ways to end an
/// association.
const WALK: &str = r#"
    duration = "12s"
    nodes = [
        { name = "phone", kind = "host" }, { name = "near", kind = "host" }, { name = "ap1", kind = "router" },
        { name = "ap2", kind = "router" }, { name = "server", kind = "host" },
    ]
    links = [
        { from = "ap1", to = "server", rate = "1Gbit/s", delay = "1ms" },
        { from = "ap2", to = "server", rate = "1Gbit/s", delay = "1ms" },
        { from = "ap1", to = "ap2", rate = "1Gbit/s", delay = "1ms" },
    ]
    walks = [{ node = "phone", waypoints_m = [[0.0, 3.0], [20.0, 3.0]], speed_m_per_s = 5.0, there_and_back = true }]
    roaming = [
        { node = "phone", rule = { kind = "nearest", hysteresis_m = 0.5 }, gap = "50ms", station_queue = STATION, ap_queue = AP },
    ]
    [[wlans]]
    name = "one"
    ap = "ap1"
    channel = "1"
    phy = { standard = "g" }
    signal = { kind = "path_loss", exponent = 4.0 }
    stations = ["phone", { node = "near", position_m = [0.0, -3.0] }]
    [[wlans]]
    name = "two"
    ap = "ap2"
    ap_position_m = [20.0, 0.0]
    channel = "11"
    phy = { standard = "g" }
    signal = { kind = "path_loss", exponent = 4.0 }
    stations = ["phone"]
"#;

/// A real kernel waits for its buffers: whatever becomes of a packet, also between associations and
/// over two radios, its host hears once that it no longer holds it.
#[test]
fn each_packet_that_a_radio_held_is_released_once() {
    for (station, ap) in [("keep", "drop"), ("keep", "forward"), ("drop", "drop"), ("drop", "forward")] {
        let text = WALK.replace("STATION", &format!("{station:?}")).replace("AP }", &format!("{ap:?} }}"));
        let spec = attached(&text, &["phone", "near", "server"]);
        let pairs = [("phone", "server"), ("phone", "near"), ("near", "phone"), ("near", "server")];
        let pairs = pairs.map(|(from, to)| (node(&spec, from), node(&spec, to)));
        let mut world = World::build(&spec).unwrap();
        world.report_releases();
        let (mut sent, mut released) = (0, 0);
        for ms in 0..12_000u64 {
            if ms < 10_000 && ms % 2 == 0 {
                for (from, to) in pairs {
                    // A burst fills the queue before the phone leaves, and goes on while it is
                    // away.
                    world.inject(from, to, datagram(1400)).unwrap();
                    sent += 1;
                }
            }
            world.run_until(Time::from_ns((ms + 1) * 1_000_000), &mut NoCapture);
            while world.take_egress().is_some() {}
            while let Some((_, packets)) = world.take_released() {
                released += packets;
            }
        }
        assert_eq!(world.external_inside(), 0, "{station}, {ap}");
        assert_eq!(released, sent, "{station}, {ap}");
    }
}
