//! Cooperative daemons in a world: announcements through the air, caps on senders.

use airtcp_sim::capture::NoCapture;
use airtcp_sim::record::{Data, Table};
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::{RunOutput, World};

const PHONES: &str = include_str!("../../../../examples/coop-phones.toml");

fn scenario(sets: &[&str]) -> Result<Scenario, String> {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    Scenario::parse(PHONES, "coop.toml", &overrides).map_err(|e| e.to_string())
}

fn run(sets: &[&str]) -> RunOutput {
    let spec = scenario(sets).and_then(|s| s.to_spec().map_err(|e| e.to_string())).unwrap_or_else(|e| panic!("{e}"));
    let mut world = World::build(&spec).unwrap();
    world.run(&mut NoCapture);
    let ledger = world.ledger();
    let gone = ledger.delivered.packets + ledger.dropped.packets + ledger.lost.packets;
    assert_eq!(ledger.sent.packets, gone + world.packets_inside() as u64, "every packet has a fate");
    world.finish()
}

fn floats<'a>(table: &'a Table, column: &str) -> &'a [f64] {
    match table.column(column) {
        Some(Data::F64(values)) => values,
        other => panic!("{column}: {other:?}"),
    }
}
fn counts<'a>(table: &'a Table, column: &str) -> &'a [u64] {
    match table.column(column) {
        Some(Data::U64(values)) => values,
        other => panic!("{column}: {other:?}"),
    }
}

#[test]
fn daemons_hear_each_other_through_the_air() {
    const SEEDS: u64 = 12;
    let (mut heard_of_all, mut terminals, mut repeated) = ([0; 4], [0.0; 4], 0);
    for seed in 1..=SEEDS {
        let out = run(&["duration=20s", "warmup=5s", "nodes.phone.count=4", &format!("seed={seed}")]);
        let daemons = out.table("daemons").unwrap();
        assert_eq!(daemons.len(), 4);
        for i in 0..4 {
            let (announced, heard) = (counts(daemons, "announced")[i], counts(daemons, "heard")[i]);
            assert!((17..=22).contains(&announced), "one a second: {announced}");
            heard_of_all[i] += heard;
            assert_eq!(counts(daemons, "refused")[i], 0);
            let n = floats(daemons, "terminals_mean")[i];
            assert!(n <= 4.0, "{n}");
            terminals[i] += n / SEEDS as f64;
        }
        assert_eq!(out.table("flows").unwrap().len(), 4, "daemons are not among the flows");
        // Each announcement is on the air twice.
        let links = out.table("links").unwrap();
        let Some(Data::Str(names)) = links.column("name") else { panic!() };
        let group = names.iter().position(|n| n == "ap->*").unwrap();
        let (came, sent) = (counts(links, "arrived_packets")[group], counts(links, "forwarded_packets")[group]);
        assert!((55..=62).contains(&came), "four daemons, 15 s: {came}");
        assert!(sent < came, "some collide, and are not repeated: {sent} of {came}");
        repeated += sent;
    }
    assert!(repeated > 30 * SEEDS, "{repeated}");
    assert!(terminals.iter().all(|&n| n > 3.4), "{terminals:?}");
    // The access point repeats an announcement as a group frame: once, without an ACK. Among five
    // radios that always have something to send a third of the frames collide (Bianchi 2000, CWmin
    // 15); half may be lost to chance.
    for heard in heard_of_all {
        assert!(heard > 30 * SEEDS && heard <= 66 * SEEDS, "three others, some lost by collision: {heard}");
    }
}

/// A daemon that believes the path to carry 1 Mbit/s caps a window at 2 Mbit/s x 0.25 s; without
/// queues nothing is capped.
#[test]
fn a_cap_in_force_bounds_the_window() {
    let base = ["duration=40s", "warmup=20s", "nodes.phone.count=2"];
    let with = |more: &[&str]| run(&[&base[..], more].concat());
    let series_max = |out: &RunOutput| {
        let series = out.table("flow_series").unwrap();
        let Some(Data::U32(cwnd)) = series.column("cwnd_segments") else { panic!() };
        let late = floats(series, "time_s").iter().zip(cwnd).filter(|(t, _)| **t > 20.0);
        late.map(|(_, c)| *c).max().unwrap()
    };
    // In force from the first look on, and never over; the least RTT in the cap keeps it still.
    let always = "coop.daemons.daemon={ bw_max = \"1Mbit/s\", correct_at = 1.0001, correction_exit = 1.00005, stop_exit = 1.5, \
                  stop_at = 100, rtt_in_cap = \"min\", min_cap = 2 }";
    let capped = with(&[always]);
    // 1 Mbit/s x 2^-0.15 x 0.26 s / 12 kbit / 2 terminals = 9.8 segments.
    let most = series_max(&capped);
    assert!((9..=11).contains(&most), "{most}");
    let daemons = capped.table("daemons").unwrap();
    assert!(floats(daemons, "corrected").iter().all(|&c| c > 0.9), "{daemons:?}");
    let free = with(&["coop=[]"]);
    assert!(series_max(&free) > 60);
    // A daemon that ends lifts its caps.
    let ended = with(&[always, "coop.daemons.stop=10s"]);
    assert!(series_max(&ended) > 60, "{}", series_max(&ended));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let sets = ["duration=15s", "warmup=5s"];
    // As text: NaN is not equal to itself.
    let text = || format!("{:?}", run(&sets));
    assert!(text() == text());
}

#[test]
fn what_is_wrong_is_said() {
    for (sets, wants) in [
        (&["coop.daemons.nodes=[\"server\"]"][..], "coop[0].nodes[0] = \"server\": server must be a station of a WLAN"),
        (&["coop.daemons.nodes=[\"ap\"]"], "`ap` is a router: the daemon runs on hosts"),
        (&["coop.daemons.nodes=[\"phone\", \"phone[1]\"]"], "phone[1] already has the daemon of coop[0]"),
        (&["coop.daemons.nodes=[\"fone\"]"], "fone"),
        (&["coop.daemons.nodes=[]"], "must name at least one host"),
        (&["coop.daemons.stop=\"0s\""], "must be after start"),
        (&["coop.daemons.start=\"2min\""], "must be before the end of the run"),
        (&["coop.daemons.daemon.bw_max=19"], "bw_max"),
        (&["coop.daemons.daemon.stop_exit=7"], "stop_exit"),
    ] {
        let error = scenario(sets).and_then(|s| s.to_spec().map_err(|e| e.to_string())).unwrap_err();
        assert!(error.contains(wants), "{sets:?}: {error}");
    }
}
