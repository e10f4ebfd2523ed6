//! Captures in monitor mode that the simulator writes, beside its own account of every PPDU.

use airtcp_sim::capture::{HEADERS_ONLY, PcapngWriter};
use airtcp_sim::record::Data;
use airtcp_sim::scenario::{Override, Scenario};
use airtcp_sim::world::{RunOutput, World};

use crate::common::*;
use crate::simulator::Shared;

const NETWORK: &str = r#"
duration = "3s"
nodes = [
  { name = "sta", kind = "host", count = 3, profile = "linux-6" },
  { name = "ap", kind = "router" },
  { name = "server", kind = "host", profile = "linux-6" },
]
links = [{ from = "ap", to = "server", rate = "1Gbit/s", delay = "5ms" }]
flows = [{ name = "up", from = "sta", to = "server" }, { name = "down", from = "server", to = "sta[0]" }]
[[wlans]]
name = "wlan"
ap = "ap"
channel = "36"
signal = { kind = "path_loss", exponent = 3.5 }
phy = { standard = "n", width_mhz = 40, short_guard_interval = true, streams = 2 }
stations = [
  { node = "sta[0]", position_m = [2, 0] },
  { node = "sta[1]", position_m = [9, 0] },
  { node = "sta[2]", position_m = [0, 16] },
]
[record]
capture_air = ["wlan"]
ppdus = ["wlan"]
"#;

fn run(sets: &[&str]) -> (Vec<u8>, RunOutput) {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    let spec =
        Scenario::parse(NETWORK, "x.toml", &overrides).and_then(|s| s.to_spec()).unwrap_or_else(|e| panic!("{e}"));
    let file = Shared::default();
    let mut writer = PcapngWriter::new(file.clone(), &spec, HEADERS_ONLY);
    let mut world = World::build(&spec).unwrap();
    world.run(&mut writer);
    writer.finish().unwrap();
    (file.bytes(), world.finish())
}

/// The simulator's account of a link.
#[derive(Debug, Default)]
struct Link {
    ppdus: u64,
    mpdus: u64,
    airtime_s: f64,
    lost: u64,
}

/// By address of the transmitter and the receiver.
fn truth(output: &RunOutput) -> Vec<(String, String, Link)> {
    let floats = |table: &str, column: &str| match output.table(table).unwrap().column(column) {
        Some(Data::F64(v)) => v.clone(),
        Some(Data::U64(v)) => v.iter().map(|&n| n as f64).collect(),
        Some(Data::U32(v)) => v.iter().map(|&n| f64::from(n)).collect(),
        other => panic!("{column}: {other:?}"),
    };
    let texts = |column: &str| match output.table("air").unwrap().column(column) {
        Some(Data::Str(v)) => v.iter().map(ToString::to_string).collect::<Vec<_>>(),
        other => panic!("{column}: {other:?}"),
    };
    let (links, directions) = (floats("air", "link"), texts("direction"));
    let failed = floats("air", "mpdus_failed");
    let (of, mpdus, took) = (floats("ppdus", "link"), floats("ppdus", "mpdus"), floats("ppdus", "duration_us"));
    let mut station = [0u8; 2];
    let mut found = Vec::new();
    for (i, direction) in directions.iter().enumerate() {
        let up = direction == "up";
        station[usize::from(up)] += 1;
        let (ap, sta) = ("02:00:00:00:00:00".to_owned(), format!("02:00:00:00:00:0{}", station[usize::from(up)]));
        let mut link = Link { lost: failed[i] as u64, ..Link::default() };
        for p in (0..of.len()).filter(|&p| of[p] == links[i] && mpdus[p] > 0.0) {
            link.ppdus += 1;
            link.mpdus += mpdus[p] as u64;
            link.airtime_s += took[p] * 1e-6;
        }
        found.push(if up { (sta, ap, link) } else { (ap, sta, link) });
    }
    found
}

fn near(what: &str, found: f64, expected: f64, part: f64) {
    assert!((found - expected).abs() <= part * expected.abs() + 1e-9, "{what}: {found}, not {expected}");
}

fn check(sets: &[&str], hide: bool) {
    let (mut capture, output) = run(sets);
    if hide {
        encrypt(&mut capture);
    }
    let found = analyse(capture);
    let text = |column| found.texts("stations", column);
    let number = |column| found.numbers("stations", column);
    let float = |column| found.floats("stations", column);
    let (from, to) = (text("transmitter"), text("receiver"));
    let mut compared = 0;
    for (transmitter, receiver, link) in truth(&output) {
        let Some(row) = (0..from.len()).find(|&i| from[i] == transmitter && to[i] == receiver) else {
            assert_eq!(link.mpdus, 0, "{transmitter} to {receiver}");
            continue;
        };
        if link.mpdus < 100 {
            continue;
        }
        compared += 1;
        let what = format!("{sets:?} {transmitter} to {receiver}");
        near(&what, number("data_frames")[row] as f64, link.mpdus as f64, 0.002);
        near(&what, number("ppdus")[row] as f64, link.ppdus as f64, 0.002);
        // A station's answers to the other one are on its own account, 24 to 44 us each.
        let control = number("control_frames")[row] as f64 * 44e-6;
        let took = float("airtime_s")[row];
        assert!(took >= 0.99 * link.airtime_s && took <= 1.01 * link.airtime_s + control, "{what}: {took}");
        near(&what, number("encrypted")[row] as f64, if hide { link.mpdus as f64 } else { 0.0 }, 0.002);
        let tries = number("acked_mpdus")[row] + number("lost_mpdus")[row];
        assert!(tries <= number("data_frames")[row]);
        // If nobody answered a PPDU, no Block Ack shows the loss of its MPDUs.
        assert!(number("lost_mpdus")[row] <= link.lost, "{what}");
        assert_eq!(number("unseen_mpdus")[row], 0);
    }
    assert!(compared >= 4, "{compared}");
    let busy: f64 = found.floats("airtime", "airtime_s").iter().sum();
    near("all", busy, float("airtime_s").iter().sum(), 1e-6);
    assert!(busy > 1.0 && busy < 3.0, "{busy}");
}

/// Makes the capture that of a network with a key: the bit that says so, and an unreadable body.
fn encrypt(capture: &mut [u8]) {
    let mut at = 0;
    while at + 12 <= capture.len() {
        let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap()) as usize;
        let (kind, length) = (word(at), word(at + 4));
        if kind == 6 {
            let (data, kept) = (at + 28, word(at + 20));
            let frame = data + usize::from(u16::from_le_bytes([capture[data + 2], capture[data + 3]]));
            if capture[frame] & 0x0c == 0x08 {
                capture[frame + 1] |= 0x40;
                capture[frame + 26..data + kept].fill(0xa5);
            }
        }
        at += length;
    }
}

#[test]
fn stations_are_counted_as_the_simulator_has_them() {
    check(&[], false);
    check(&["wlans.wlan.phy={ standard = \"ac\", width_mhz = 80, streams = 2 }"], false);
    check(&["wlans.wlan.phy={ standard = \"a\" }"], false);
}

#[test]
fn encryption_hides_no_station() {
    check(&[], true);
}

#[test]
fn repetitions_of_a_radio_are_none_of_tcp() {
    let (capture, output) = run(&[]);
    let found = analyse(capture);
    let retries: u64 = found.numbers("stations", "retries").iter().sum();
    assert!(retries > 100, "{retries}");
    let Some(Data::U64(told)) = output.table("flows").unwrap().column("segments_retransmitted") else { panic!() };
    let seen: u64 = found.numbers("flows", "retransmitted_packets").iter().sum();
    let told: u64 = told.iter().sum();
    assert!(seen <= told + told / 10 + 5, "{seen}, not {told}");
}

#[test]
fn a_full_channel_is_told_from_a_queue() {
    let (capture, _) = run(&[]);
    let found = analyse(capture);
    let sum = |column: &str| found.floats("flows", column).iter().sum::<f64>();
    let (air, queue, application) = (sum("limited_air_s"), sum("limited_queue_s"), sum("limited_sender_app_s"));
    assert!(air > 20.0 * queue && air > 10.0 * application, "{air} {queue} {application}");
}
