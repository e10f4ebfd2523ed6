//! Hosts that walk from access point to access point: what becomes of their packets, and of their
//! connections.

use airtcp_core::table::{Data, Table};
use airtcp_core::units::{Span, Time};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::{RunOutput, World};

/// Two access points 20 m apart, a phone between them, and a wire to the server behind a switch.
const NET: &str = r#"
duration = "24s"

[[nodes]]
name = "phone"
kind = "host"
profile = "linux-6"

[[nodes]]
name = "ap1"
kind = "router"

[[nodes]]
name = "ap2"
kind = "router"

[[nodes]]
name = "switch"
kind = "router"

[[nodes]]
name = "server"
kind = "host"

[[links]]
name = "one"
from = "ap1"
to = "switch"
rate = "100Mbit/s"
delay = "1ms"

[[links]]
name = "two"
from = "ap2"
to = "switch"
rate = "100Mbit/s"
delay = "1ms"

[[links]]
from = "switch"
to = "server"
rate = "100Mbit/s"
delay = "2ms"

[[wlans]]
name = "w1"
ap = "ap1"
phy = { standard = "g" }
signal = { kind = "path_loss" }
stations = ["phone"]

[[wlans]]
name = "w2"
ap = "ap2"
ap_position_m = [20, 0]
phy = { standard = "g" }
signal = { kind = "path_loss" }
stations = ["phone"]

[[walks]]
node = "phone"
waypoints_m = [[0, 3], [20, 3]]
speed_m_per_s = 1.0

[[roaming]]
node = "phone"

[record]
drops = ["w1", "w2", "one", "two"]
interval = "100ms"
"#;

const UDP: &str = r#"
[[flows]]
name = "up"
from = "phone"
to = "server"
traffic = { kind = "cbr", rate = "4Mbit/s", packet_bytes = 500 }

[[flows]]
name = "down"
from = "server"
to = "phone"
traffic = { kind = "cbr", rate = "4Mbit/s", packet_bytes = 500 }
"#;

const TCP: &str = r#"
[[flows]]
name = "upload"
from = "phone"
to = "server"

[[flows]]
name = "download"
from = "server"
to = "phone"
"#;

fn world(flows: &str, set: &[&str]) -> World {
    let overrides: Vec<Override> = set.iter().map(|s| Override::parse(s).unwrap()).collect();
    let scenario = Scenario::parse(&format!("{NET}{flows}"), "walk.toml", &overrides).unwrap_or_else(|e| panic!("{e}"));
    World::build(&scenario.to_spec().unwrap_or_else(|e| panic!("{e}"))).unwrap()
}

/// Runs it to its end; on the way and there every packet is somewhere.
fn run(flows: &str, set: &[&str]) -> RunOutput {
    let mut world = world(flows, set);
    for ms in (0..24_000).step_by(37) {
        world.run_until(Time::ZERO + Span::from_ms(ms), &mut NoCapture);
        let l = world.ledger();
        let known = l.delivered.packets + l.dropped.packets + l.lost.packets + world.packets_inside() as u64;
        assert_eq!(l.sent.packets, known, "at {ms} ms: {l:?}");
    }
    world.run(&mut NoCapture);
    world.finish()
}

fn numbers(table: &Table, column: &str) -> Vec<f64> {
    match table.column(column).unwrap_or_else(|| panic!("{column}")) {
        Data::F64(v) => v.clone(),
        Data::U64(v) => v.iter().map(|&v| v as f64).collect(),
        Data::U32(v) => v.iter().map(|&v| f64::from(v)).collect(),
        other => panic!("{column}: {other:?}"),
    }
}

fn texts(table: &Table, column: &str) -> Vec<String> {
    match table.column(column).unwrap() {
        Data::Str(v) => v.iter().map(|s| s.to_string()).collect(),
        other => panic!("{column}: {other:?}"),
    }
}

fn one(output: &RunOutput, table: &str, column: &str) -> f64 {
    let found = numbers(output.table(table).unwrap(), column);
    assert_eq!(found.len(), 1, "rows of {table}");
    found[0]
}

#[test]
fn the_nearer_access_point_takes_over_at_the_midpoint() {
    let output = run(UDP, &[]);
    let handovers = output.table("handovers").unwrap();
    assert_eq!(texts(handovers, "from"), ["w1"]);
    assert_eq!(texts(handovers, "to"), ["w2"]);
    // The midpoint is at 10 s; it is seen at the next look.
    let time = one(&output, "handovers", "time_s");
    assert!(time > 10.0 && time <= 10.0101, "{time}");
    assert!((one(&output, "handovers", "associated_s") - time - 0.05).abs() < 1e-9);
    assert!((one(&output, "handovers", "x_m") - time).abs() < 1e-6);
    let middle = 109f64.sqrt();
    for column in ["from_distance_m", "to_distance_m"] {
        assert!((one(&output, "handovers", column) - middle).abs() < 0.02, "{column}");
    }
    assert!((one(&output, "handovers", "from_rssi_dbm") - one(&output, "handovers", "to_rssi_dbm")).abs() < 0.1);

    let walkers = output.table("walkers").unwrap();
    let rows: Vec<(f64, f64, String, f64)> = numbers(walkers, "time_s")
        .into_iter()
        .zip(numbers(walkers, "x_m"))
        .zip(texts(walkers, "wlan").into_iter().zip(numbers(walkers, "distance_m")))
        .map(|((t, x), (wlan, d))| (t, x, wlan, d))
        .collect();
    assert_eq!(rows.len(), 240);
    for (t, x, wlan, d) in rows {
        assert!((x - t.min(20.0)).abs() < 1e-6);
        let ap = if t < 10.01 { 0.0 } else { 20.0 };
        assert_eq!(wlan, if t < 10.01 { "w1" } else { "w2" }, "{t}");
        assert!((d - ((x - ap) * (x - ap) + 9.0).sqrt()).abs() < 1e-6, "{t}");
    }
}

#[test]
fn datagrams_of_the_gap_wait_or_are_lost_and_are_counted() {
    // 4 Mbit/s in packets of 500 bytes: 50 come in a gap of 50 ms.
    for (station, ap) in [("keep", "drop"), ("drop", "drop"), ("keep", "forward"), ("drop", "forward")] {
        let set = [format!("roaming[0].station_queue={station}"), format!("roaming[0].ap_queue={ap}")];
        let output = run(UDP, &set.each_ref().map(String::as_str));
        let [kept, lost_up, lost_down, forwarded] =
            ["kept", "dropped_station", "dropped_ap", "forwarded"].map(|c| one(&output, "handovers", c));
        let flows = output.table("flows").unwrap();
        let links = output.table("links").unwrap();
        let dropped_by_codel = |up: bool| -> f64 {
            let names = texts(links, "name");
            let of_direction =
                numbers(links, "dropped_early").into_iter().zip(names).filter(|(_, n)| n.starts_with("phone->") == up);
            of_direction.map(|(dropped, _)| dropped).sum()
        };
        let missing: Vec<f64> = numbers(flows, "segments_sent")
            .iter()
            .zip(numbers(flows, "received"))
            .zip([true, false].map(dropped_by_codel))
            .map(|((sent, received), dropped)| sent - received - dropped)
            .collect();
        // A few are on their way at the end of the run.
        let on_the_way = 8.0;
        let what = format!("{station} {ap}: {kept} {lost_up} {lost_down} {forwarded} {missing:?}");
        if station == "keep" {
            assert!(lost_up == 0.0 && missing[0] < on_the_way, "{what}");
        } else {
            assert!((49.0..=53.0).contains(&lost_up) && kept == 0.0, "{what}");
            assert!((missing[0] - lost_up).abs() < on_the_way, "{what}");
        }
        // 3 ms of wire under way besides.
        if ap == "drop" {
            assert!((50.0..=58.0).contains(&lost_down) && forwarded == 0.0, "{what}");
            assert!((missing[1] - lost_down).abs() < on_the_way, "{what}");
        } else {
            assert!((50.0..=58.0).contains(&forwarded) && lost_down == 0.0, "{what}");
            assert!(missing[1] < on_the_way, "{what}");
        }
        let reasons = texts(output.table("drops").unwrap(), "reason");
        assert_eq!(reasons.iter().filter(|r| *r == "gone").count() as f64, lost_up + lost_down, "{what}");
        let by_link: f64 = numbers(output.table("links").unwrap(), "dropped_gone").iter().sum();
        assert_eq!(by_link, lost_up + lost_down, "{what}");
    }
}

#[test]
fn connections_survive_whatever_becomes_of_the_queues() {
    for rule in ["", r#"roaming[0].rule={ kind = "rssi", below_dbm = -50 }"#] {
        for (station, ap) in [("keep", "drop"), ("drop", "drop"), ("keep", "forward")] {
            let set = [format!("roaming[0].station_queue={station}"), format!("roaming[0].ap_queue={ap}")];
            let mut set: Vec<&str> = set.iter().map(String::as_str).collect();
            set.push("walks[0].there_and_back=true");
            set.push("walks[0].speed_m_per_s=4");
            if !rule.is_empty() {
                set.push(rule);
            }
            let output = run(TCP, &set);
            let handovers = output.table("handovers").unwrap();
            assert!(handovers.len() >= 3, "{set:?}: {}", handovers.len());
            let (from, to) = (texts(handovers, "from"), texts(handovers, "to"));
            assert!(from.iter().zip(&to).all(|(a, b)| a != b) && from.windows(2).all(|w| w[0] != w[1]));
            // Both still move after the last one.
            let last = numbers(handovers, "associated_s").into_iter().filter(|t| *t < 23.0).fold(0.0, f64::max);
            let series = output.table("flow_series").unwrap();
            let (time, flow, acked) =
                (numbers(series, "time_s"), numbers(series, "flow"), numbers(series, "bytes_acked"));
            for f in [0.0, 1.0] {
                let at = |t: f64| {
                    let before = (0..time.len()).filter(|&i| flow[i] == f && time[i] <= t);
                    before.map(|i| acked[i]).fold(0.0, f64::max)
                };
                assert!(at(24.0) - at(last) > 100_000.0, "{set:?}: flow {f} stands still after {last} s");
            }
            if ap == "forward" && station == "keep" {
                let lost: f64 = numbers(handovers, "dropped_ap").iter().sum();
                assert_eq!(lost, 0.0, "with g nothing waits in a reorder buffer");
            }
        }
    }
}

#[test]
fn switches_at_given_times_and_on_one_channel() {
    let set = [
        r#"roaming[0].rule={ kind = "times", switches = [{ at = "2s", to = "w1" }, { at = "5s", to = "w2" }, { at = "5.02s", to = "w1" }] }"#,
        "roaming[0].first=w2",
        "wlans.w1.channel=6",
        "wlans.w2.channel=6",
        "record.ppdus=true",
    ];
    let output = run(UDP, &set);
    let handovers = output.table("handovers").unwrap();
    assert_eq!(texts(handovers, "to"), ["w1", "w2", "w1"]);
    // The third came due while it was away.
    for (at, want) in numbers(handovers, "time_s").into_iter().zip([2.0, 5.0, 5.05]) {
        assert!((at - want).abs() < 1e-9, "{at}");
    }
    // Nobody sends on a link without association, but for what was on the air.
    let (ppdus, links) = (output.table("ppdus").unwrap(), output.table("links").unwrap());
    let names = texts(links, "name");
    for (t, link) in numbers(ppdus, "start_s").into_iter().zip(numbers(ppdus, "link")) {
        let is_w1 = names[link as usize].contains("ap1");
        let allowed =
            if is_w1 { (2.05..5.005).contains(&t) || t >= 5.1 } else { t < 2.005 || (5.05..5.055).contains(&t) };
        assert!(allowed, "{} at {t}", names[link as usize]);
    }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let set = ["wlans.w1.signal.shadowing.sigma_db=4", r#"roaming[0].rule={ kind = "rssi" }"#, "record.ppdus=true"];
    // As text: what does not exist is NaN, which equals nothing.
    let [a, b] = [(); 2].map(|()| format!("{:?}", run(TCP, &set)));
    assert!(a == b);
}
