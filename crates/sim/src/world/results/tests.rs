//! Packets that wait, as pictures show them, are those that links and radios count.

use airtcp_core::convert::count;
use airtcp_core::units::{Span, Time};

use crate::capture::NoCapture;
use crate::network::WaitsIn;
use crate::scenario::Scenario;
use crate::spec::LinkId;
use crate::world::World;

const CELL: &str = r#"
    duration = "4s"
    nodes = [
        { name = "sta", kind = "host", count = 3, profile = "linux-3.13-no-tsq" },
        { name = "ap", kind = "router" },
        { name = "r", kind = "router" },
        { name = "server", kind = "host" },
    ]
    links = [
        { from = "ap", to = "r", rate = "10Mbit/s", delay = "5ms", queue = "fq_codel" },
        { from = "r", to = "server", rate = "8Mbit/s", delay = "5ms", queue = { name = "fifo", limit_packets = 40 } },
    ]
    wlans = [{ name = "wlan", ap = "ap", signal = { kind = "snr", snr_db = 12 }, stations = ["sta"] }]
    flows = [
        { name = "up", from = "sta", to = "server" },
        { name = "down", from = "server", to = "sta[1]" },
        { name = "ping", from = "sta[0]", to = "server", traffic = { kind = "ping", interval = "50ms" } },
    ]
"#;

#[test]
fn what_waits_is_what_links_and_radios_count() {
    let spec = Scenario::parse(CELL, "cell.toml", &[]).unwrap().to_spec().unwrap();
    let mut world = World::build(&spec).unwrap();
    let (mut most, mut reordered) = (0, 0);
    for step in 1..=400u64 {
        world.run_until(Time::ZERO + Span::from_ms(10 * step), &mut NoCapture);
        let all = world.waiting();
        let of = |link: LinkId, place| all.iter().filter(|w| w.link == link && w.place == place).count() as u64;
        for link in LinkId::all(spec.links.len()).filter(|l| spec.links[l.index()].air.is_none()) {
            assert_eq!(of(link, WaitsIn::Queue), world.link_totals(link).queue_packets, "link {link:?}, step {step}");
        }
        let held = world.network.air.channels[0].holdings(&world.network.pool);
        let through_air = || LinkId::all(spec.links.len()).filter(|l| spec.links[l.index()].air.is_some());
        let sum = |place| through_air().map(|link| of(link, place)).sum::<u64>();
        assert_eq!(sum(WaitsIn::Queue), held.queued.0 + held.in_drivers.0, "step {step}");
        assert_eq!(sum(WaitsIn::Reorder), held.reordering.0, "step {step}");
        most = most.max(count(all.len()));
        reordered += held.reordering.0;
    }
    assert!(most > 50 && reordered > 0, "{most}, {reordered}: something is to wait in both");
}
