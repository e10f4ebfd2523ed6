use airtcp_core::units::{Span, Time};
use airtcp_sim::scenario::Scenario;

use super::{SimulatedNetwork, attach};
use crate::common::config::RunConfig;
use crate::common::network::{Network, NotSent};

/// Two cells of three and of one station, and a server at the wire.
const CELLS: &str = r#"
name = "cells"
duration = "10s"

[[nodes]]
name = "sta"
kind = "host"
count = 3

[[nodes]]
name = "far"
kind = "host"

[[nodes]]
name = "server"
kind = "host"

[[nodes]]
name = "ap"
kind = "router"

[[nodes]]
name = "other"
kind = "router"

[[links]]
from = "ap"
to = "server"
rate = "1Gbit/s"
delay = "1ms"

[[links]]
from = "other"
to = "server"
rate = "1Gbit/s"
delay = "1ms"

[[wlans]]
name = "near"
ap = "ap"
stations = ["sta"]
phy = { standard = "g" }

[[wlans]]
name = "away"
ap = "other"
stations = ["far"]
phy = { standard = "g" }

[[flows]]
name = "near-up"
from = "sta"
to = "server"

[[flows]]
name = "far-up"
from = "far"
to = "server"
"#;

/// Places of the real hosts: as in the scenario.
const FAR: usize = 3;
const SERVER: usize = 4;

fn network() -> SimulatedNetwork {
    let scenario = Scenario::parse(CELLS, "cells.toml", &[]).unwrap();
    let config = RunConfig {
        scenario: String::new(),
        file: "cells.toml".to_owned(),
        hosts: ["sta", "far", "server"].map(str::to_owned).into(),
        commands: Vec::new(),
        for_s: None,
        record: None,
        internet: None,
        gates: Vec::new(),
        quiet: true,
        guests: None,
        lab: None,
        parent: 0,
    };
    let Ok(attached) = attach(&scenario, &config) else { panic!("the scenario has no world") };
    let names: Vec<&str> = attached.hosts.iter().map(|real| real.name.as_str()).collect();
    assert_eq!(names, ["sta[0]", "sta[1]", "sta[2]", "far", "server"]);
    attached.network
}

fn udp4(source: u8, destination: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, source];
    packet.extend(destination);
    packet.extend([0x60, 0x6f, 0x60, 0x6f, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    packet
}

fn udp6(source: u8, destination: [u16; 8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 16, 17, 1, 0xfd];
    packet.extend([0; 14]);
    packet.push(source);
    packet.extend(destination.iter().flat_map(|word| word.to_be_bytes()));
    packet.extend([0x60, 0x6f, 0x60, 0x6f, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    packet
}

/// Who gets the packet, ascending, and whether all did at one time.
fn hearers(
    network: &mut SimulatedNetwork,
    from: usize,
    packet: &[u8],
    now: &mut Time,
) -> Result<(Vec<usize>, bool), NotSent> {
    network.run_until(*now);
    let id = network.inject(from, packet)?;
    *now += Span::from_ms(100);
    network.run_until(*now);
    let mut got = Vec::new();
    while network.take_egress(&mut |delivered| {
        assert_eq!(delivered.id, id);
        got.push((delivered.to, delivered.time));
    }) {}
    assert_eq!(network.inside(), 0);
    got.sort_unstable();
    let is_at_once = got.windows(2).all(|two| two[0].1 == two[1].1);
    Ok((got.into_iter().map(|(to, _)| to).collect(), is_at_once))
}

#[test]
fn broadcasts_of_a_station_reach_the_others_of_its_cell() {
    let (mut network, mut now) = (network(), Time::ZERO);
    let all = [255; 4];
    for packet in [udp4(2, all), udp4(2, [10, 255, 255, 255]), udp6(2, [0xff02, 0, 0, 0, 0, 0, 0, 1])] {
        // As often as there are others to carry it, and once more.
        for _ in 0..3 {
            assert_eq!(hearers(&mut network, 1, &packet, &mut now), Ok((vec![0, 2], true)));
            // The number is used again, and a packet to one host is for that alone.
            assert_eq!(hearers(&mut network, 0, &udp4(1, [10, 0, 0, 3]), &mut now), Ok((vec![2], true)));
        }
    }
}

#[test]
fn other_broadcasts_and_multicast_are_for_nobody() {
    let (mut network, mut now) = (network(), Time::ZERO);
    let nobody = Err(NotSent::Unroutable);
    assert_eq!(hearers(&mut network, FAR, &udp4(4, [255; 4]), &mut now), nobody, "alone in its cell");
    assert_eq!(hearers(&mut network, SERVER, &udp4(5, [255; 4]), &mut now), nobody, "at a wire");
    for destination in [[224, 0, 0, 1], [10, 0, 0, 255], [192, 0, 2, 255]] {
        assert_eq!(hearers(&mut network, 0, &udp4(1, destination), &mut now), nobody, "{destination:?}");
    }
    assert_eq!(hearers(&mut network, 0, &udp6(1, [0xff02, 0, 0, 0, 0, 0, 0, 2]), &mut now), nobody);
}
