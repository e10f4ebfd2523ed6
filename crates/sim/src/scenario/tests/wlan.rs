//! WLANs of a scenario: what they expand to, and what is wrong with them.

use airtcp_core::wifi::phy::{Band, SignalConfig, Standard};
use airtcp_core::wifi::{Ac, OnGiveUp, RadioConfig};

use super::*;
use crate::spec::{AirSpec, ChannelId, ChannelSpec};

/// Everything a WLAN can say at least once.
const FULL: &str = r#"duration = "10s"

[profiles.phone]
base = "linux-6"
wifi = { retries = { software = 10, frame_tries = 4 }, qos = true }

[[nodes]]
name = "sta"
kind = "host"
count = 3
profile = "phone"

[[nodes]]
name = "far"
kind = "host"

[[nodes]]
name = "other"
kind = "host"

[[nodes]]
name = "ap"
kind = "router"

[[nodes]]
name = "ap2"
kind = "router"

[[nodes]]
name = "server"
kind = "host"

[[links]]
from = "ap"
to = "server"
rate = "1Gbit/s"
delay = "1ms"

[[links]]
from = "ap2"
to = "server"
rate = "1Gbit/s"
delay = "1ms"

[[wlans]]
name = "home"
ap = "ap"
channel = "36"
signal = { kind = "snr", snr_db = 25 }
phy = { standard = "n", width_mhz = 40, short_guard_interval = true }
station_radio = { rts_threshold_bytes = 2000, retries = { software = 20 } }
ap_radio = { reorder_buffer = { retry_out = "stepped" } }
hidden = [["sta[0]", "far"], ["sta[1]", "other"]]
sensing = "3us"

[[wlans.stations]]
node = "sta"

[[wlans.stations]]
node = "far"
signal = { kind = "snr", snr_db = 10 }
radio = { phy = { standard = "a" }, rate_control = { name = "fixed", rate = "24Mbit/s" } }

[[wlans]]
ap = "ap2"
channel = "36"
stations = ["other"]

[[flows]]
name = "up"
from = "sta"
to = "server"
ac = "vi"

[[flows]]
name = "down"
from = "server"
to = "far"

[record]
links = ["home"]
ppdus = ["ap2"]
capture_air = ["home"]
air_series = ["home", "other->ap2"]
"#;

fn errors(from: &str, to: &str) -> String {
    assert_eq!(FULL.matches(from).count(), 1, "{from:?} is not unique");
    errors_with(&FULL.replace(from, to), &[])
}

fn with(from: &str, to: &str) -> RunSpec {
    assert_eq!(FULL.matches(from).count(), 1, "{from:?} is not unique");
    spec(&FULL.replace(from, to))
}

/// The pairs of radios that do not hear each other, as numbers.
fn hidden(channel: &ChannelSpec) -> Vec<(u16, u16)> {
    channel.hidden.iter().map(|(a, b)| (a.0, b.0)).collect()
}

#[test]
fn wlans_become_radios_pairs_and_links() {
    let spec = spec(FULL);
    let names: Vec<&str> = spec.links.iter().map(|l| l.name.as_str()).collect();
    #[rustfmt::skip]
    assert_eq!(names, [
        "ap->server", "server->ap", "ap2->server", "server->ap2",
        "sta[0]->ap", "ap->sta[0]", "sta[1]->ap", "ap->sta[1]", "sta[2]->ap", "ap->sta[2]",
        "far->ap", "ap->far", "other->ap2", "ap2->other",
    ]);
    let [channel] = spec.channels.as_slice() else { panic!("both WLANs share the channel") };
    assert_eq!((channel.name.as_str(), channel.sensing), ("36", Span::from_us(3)));
    let nodes: Vec<&str> = channel.radios.iter().map(|r| spec.nodes[r.node.0 as usize].name.as_str()).collect();
    assert_eq!(nodes, ["ap", "sta[0]", "sta[1]", "sta[2]", "far", "ap2", "other"]);
    let pairs: Vec<(u16, u16)> = channel.pairs.iter().map(|p| (p.station.0, p.access_point.0)).collect();
    assert_eq!(pairs, [(1, 0), (2, 0), (3, 0), (4, 0), (6, 5)]);
    assert_eq!(hidden(channel), [(1, 4), (2, 6)]);
    assert!(matches!(&channel.pairs[0].signal, SignalConfig::Snr(c) if c.snr_db == 25.0));
    assert!(matches!(&channel.pairs[3].signal, SignalConfig::Snr(c) if c.snr_db == 10.0));
    assert_eq!(channel.pairs[4].signal, SignalConfig::default());

    let air: Vec<Option<AirSpec>> = spec.links.iter().map(|l| l.air).collect();
    assert_eq!(air[..4], [None; 4]);
    assert_eq!(air[4], Some(AirSpec { channel: ChannelId(0), pair: 0, down: false, is_group: false }));
    assert_eq!(air[5], Some(AirSpec { channel: ChannelId(0), pair: 0, down: true, is_group: false }));
    assert_eq!(air[13], Some(AirSpec { channel: ChannelId(0), pair: 4, down: true, is_group: false }));
    // The fastest mode that both ends have.
    assert_eq!(spec.links[4].rate, DataRate::from_mbps(150));
    assert_eq!(spec.links[10].rate, DataRate::from_mbps(54));
    assert!(spec.links[4].is_member_of_group && !spec.links[10].is_member_of_group);
    assert_eq!((spec.links[4].group.as_str(), spec.links[12].group.as_str()), ("home", "ap2"));

    assert_eq!((spec.flows[0].ac, spec.flows[3].ac), (Ac::Vi, Ac::Be));
    let ids = |links: &[LinkId]| links.iter().map(|l| l.0).collect::<Vec<_>>();
    assert_eq!(ids(&spec.record.link_series), (4..12).collect::<Vec<_>>());
    assert_eq!(ids(&spec.record.air_series), (4..13).collect::<Vec<_>>());
    assert_eq!(
        (spec.record.ppdus.as_slice(), spec.record.capture_air.as_slice()),
        (&[ChannelId(0)][..], &[ChannelId(0)][..])
    );
}

#[test]
fn radio_options_are_layered_station_over_wlan_over_profile_over_defaults() {
    let spec = spec(FULL);
    let radio = |i: usize| &*spec.channels[0].radios[i].config;
    let (ap, sta, far, other) = (radio(0), radio(1), radio(4), radio(6));
    assert_eq!((sta.phy.standard, sta.phy.width_mhz, sta.phy.band()), (Standard::N, 40, Band::Ghz5));
    // Key by key: one from the WLAN, one from the profile, one by default.
    assert_eq!((sta.retries.software, sta.retries.frame_tries), (20, 4));
    assert_eq!((sta.retries.on_give_up, sta.qos), (OnGiveUp::Bar, Some(true)));
    assert_eq!(sta.rts_threshold_bytes, 2000);
    assert!(sta.reorder_buffer.retry_out.is_none());
    // Another standard replaces the WLAN's `phy` as a whole.
    assert_eq!((far.phy.standard, far.phy.width_mhz, far.phy.short_guard_interval), (Standard::A, 20, false));
    assert_eq!((far.retries.frame_tries, far.rts_threshold_bytes), (RadioConfig::default().retries.frame_tries, 2000));
    assert!(ap.reorder_buffer.retry_out.is_some());
    assert_eq!((ap.phy.width_mhz, ap.rts_threshold_bytes), (40, u32::MAX));
    assert_eq!((other.phy.standard, other.phy.width_mhz), (Standard::N, 20));
}

#[test]
fn channels_are_shared_by_name_only() {
    let text = FULL.replace(r#", ["sta[1]", "other"]"#, "");
    let apart = spec(&text.replace("channel = \"36\"\nstations", "stations"));
    let names: Vec<&str> = apart.channels.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["36", "ap2"]);
    assert_eq!(apart.channels[1].pairs.len(), 1);
    assert_eq!(apart.channels[1].sensing, Span::from_us(4));
    // A name without its WLAN is the access point's.
    assert_eq!(apart.links[12].group, "ap2");
}

#[test]
fn all_stations_of_a_wlan_can_be_hidden() {
    let spec = with(r#"hidden = [["sta[0]", "far"], ["sta[1]", "other"]]"#, r#"hidden = "all""#);
    assert_eq!(hidden(&spec.channels[0]), [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]);
    let group = with(r#"["sta[0]", "far"]"#, r#"["sta", "sta"]"#);
    assert_eq!(hidden(&group.channels[0]), [(1, 2), (1, 3), (2, 3), (2, 6)]);
}

const PLACES: &str = r#"duration = "1s"
nodes = [
  { name = "a", kind = "host" }, { name = "b", kind = "host" }, { name = "c", kind = "host" },
  { name = "ap", kind = "router" },
]

[[wlans]]
ap = "ap"
ap_position_m = [10, 0]
phy = { standard = "g" }
signal = { kind = "path_loss", exponent = 2, reference_loss_db = 40, tx_power_dbm = 20 }
carrier_sense_dbm = -52.0
stations = [
  { node = "a", position_m = [0, 0] },
  { node = "b", position_m = [30, 0] },
  { node = "c", position_m = [10, 25], signal = { kind = "path_loss", tx_power_dbm = 23 } },
]
"#;

/// 40 dB at 1 m and 20 dB a decade: 20 dBm becomes -52 dBm at 39.8 m.
#[test]
fn who_hears_whom_follows_from_the_same_path_loss() {
    let near = spec(PLACES);
    assert_eq!(near.channels[0].hidden, []);
    let distance = |spec: &RunSpec, i: usize| match &spec.channels[0].pairs[i].signal {
        SignalConfig::PathLoss(c) => (c.distance_m, c.tx_power_dbm, c.exponent),
        other => panic!("{other:?}"),
    };
    assert_eq!(distance(&near, 0), (Some(10.0), 20.0, 2.0));
    assert_eq!(distance(&near, 2), (Some(25.0), 23.0, 2.0));
    // a and b are 40 m apart, c is 47.2 m from b, and in both directions the weaker one counts.
    let far = spec(&PLACES.replace("[30, 0]", "[40, 0]").replace("[10, 25]", "[0, 25]"));
    assert_eq!(hidden(&far.channels[0]), [(1, 2), (2, 3)]);
    // Not even from the access point, which is heard by its stations whatever the distance.
    let further = spec(&PLACES.replace("[30, 0]", "[80, 0]"));
    assert_eq!(hidden(&further.channels[0]), [(1, 2), (2, 3)]);
}

#[test]
fn the_written_out_scenario_is_the_same_run() {
    for text in [FULL, PLACES] {
        let scenario = Scenario::parse(text, "x.toml", &[]).unwrap();
        let want = scenario.to_spec().unwrap();
        let toml = Scenario::parse(&scenario.to_toml(), "y.toml", &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(toml.to_spec().unwrap(), want);
        let json =
            Scenario::parse_json(&scenario.to_json().to_string(), "z.json", &[]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(json.to_spec().unwrap(), want);
    }
}

#[test]
fn overrides_reach_wlans_and_stations_by_name() {
    let sets = [
        "wlans.home.phy.width_mhz=20",
        "wlans.home.stations.far.signal.snr_db=12.5",
        "wlans.ap2.station_radio.aggregation.max_frames=8",
        "wlans.home.ap_radio.reorder_buffer.retry_out={ name = \"fixed\", index = 3 }",
    ];
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    let spec = Scenario::parse(FULL, "x.toml", &overrides).unwrap().to_spec().unwrap_or_else(|e| panic!("{e}"));
    let channel = &spec.channels[0];
    assert_eq!(channel.radios[1].config.phy.width_mhz, 20);
    assert!(matches!(&channel.pairs[3].signal, SignalConfig::Snr(c) if c.snr_db == 12.5));
    assert_eq!(channel.radios[6].config.aggregation.max_frames, 8);
    assert_eq!(channel.radios[0].config.reorder_buffer.retry_out.as_ref().unwrap().name(), "fixed");
}

#[test]
fn a_host_may_have_nothing_but_a_wlan() {
    let text = PLACES.replace(r#"{ node = "c", position"#, r#"{ node = "b", position"#);
    let error = errors_with(&text, &[]);
    assert!(error.contains("b is already a station of this WLAN"), "{error}");
    assert_eq!(errors_with(PLACES, &[]), "accepted");
}

/// One change each to [`FULL`] that makes it wrong.
#[rustfmt::skip]
const FAULTS: &[(&str, &str)] = &[
    // Keys, types and names.
    (r#"ap = "ap"
"#, ""),
    (r#"ap = "ap"
"#, "ap = \"sta\"\n"),
    (r#"ap = "ap"
"#, "ap = \"app\"\n"),
    ("[[wlans.stations]]\nnode = \"sta\"", "[[wlans.stations]]\nnode = \"ap2\""),
    ("[[wlans.stations]]\nnode = \"sta\"", "[[wlans.stations]]\nnode = \"stat\""),
    ("[[wlans.stations]]\nnode = \"sta\"", "[[wlans.stations]]\nnoode = \"sta\""),
    (r#"stations = ["other"]"#, "stations = []"),
    (r#"stations = ["other"]"#, "stations = [3]"),
    (r#"stations = ["other"]"#, r#"stations = ["other", "other"]"#),
    (r#"stations = ["other"]"#, r#"stations = ["other", "sta[2]"]"#),
    (r#"name = "home""#, r#"name = "ap2""#),
    (r#"name = "home""#, r#"name = "ap-server""#),
    (r#"name = "home""#, r#"name = "36""#),
    (r#"sensing = "3us""#, r#"sensing = "1ms""#),
    ("stations = [\"other\"]", "stations = [\"other\"]\nsensing = \"4us\""),
    // PHY.
    (r#"standard = "n", width_mhz = 40, short_guard_interval = true"#, r#"standard = "x""#),
    (r#"standard = "n", width_mhz = 40, short_guard_interval = true"#, r#"standard = "a", width_mhz = 40"#),
    (r#"standard = "n", width_mhz = 40, short_guard_interval = true"#, r#"standard = "n", streams = 5"#),
    (r#"standard = "n", width_mhz = 40, short_guard_interval = true"#, r#"standard = "n", witdh_mhz = 40"#),
    (r#"phy = { standard = "a" }"#, r#"phy = { standard = "g" }"#),
    (r#"phy = { standard = "a" }"#, r#"phy = { width_mhz = 80 }"#),
    ("ap_radio = {", r#"ap_radio = { rate_control = { name = "fixed", mcs = 7 },"#),
    (r#"phy = { standard = "n", width_mhz = 40, short_guard_interval = true }
station_radio = {"#, r#"station_radio = { phy = { standard = "b" },"#),
    // Rate control.
    (r#"rate = "24Mbit/s""#, r#"rate = "25Mbit/s""#),
    (r#"rate = "24Mbit/s""#, "mcs = 3"),
    (r#"rate_control = { name = "fixed", rate = "24Mbit/s" }"#, r#"rate_control = "minstrel_ht""#),
    (r#"rate_control = { name = "fixed", rate = "24Mbit/s" }"#, r#"rate_control = "minstrell""#),
    ("station_radio = { rts", r#"station_radio = { rate_control = "minstrel", rts"#),
    ("station_radio = { rts", r#"station_radio = { rate_control = { name = "fixed", mcs = 9 }, rts"#),
    // Aggregation, retries, queues, reorder buffer.
    ("retries = { software = 20 }", "retries = { software = 0 }"),
    ("retries = { software = 20 }", "retries = { sofware = 20 }"),
    ("retries = { software = 20 }", "aggregation = { max_frames = 65 }"),
    ("retries = { software = 20 }", r#"aggregation = { max_duration = "0s" }"#),
    ("retries = { software = 20 }", r#"transmit = { name = "mac80211", aql_low = "20ms" }"#),
    ("retries = { software = 20 }", r#"transmit = { name = "qdisc", aql = true }"#),
    ("retries = { software = 20 }", r#"transmit = { name = "qdisc", qdisc = "pfifo" }"#),
    (r#"reorder_buffer = { retry_out = "stepped" }"#, r#"reorder_buffer = { retry_out = "steped" }"#),
    (r#"reorder_buffer = { retry_out = "stepped" }"#, r#"reorder_buffer = { retry_out = { name = "fixed", index = 0 } }"#),
    (r#"reorder_buffer = { retry_out = "stepped" }"#, "reorder_buffer = { window = 0 }"),
    ("frame_tries = 4", "frame_tries = 0"),
    ("frame_tries = 4", "frame_trys = 4"),
    // Signal.
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { snr_db = 25 }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "noise", snr_db = 25 }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = "snr""#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "snr", snr_db = 1000 }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "error_rate", rate = 1.5 }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "error_rate" }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "error_rate", rates = { "MCS 70" = 0.1 } }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "path_loss", distance_m = -3 }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "path_loss" }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "trace", points = [[1, 20], [0, 30]] }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "trace", points = [[1, 20, 3]] }"#),
    ("signal = { kind = \"snr\", snr_db = 25 }", r#"signal = { kind = "trace", points = [] }"#),
    ("node = \"sta\"\n", "node = \"sta\"\nposition_m = [1, 2]\n"),
    ("node = \"sta\"\n", "node = \"sta\"\nposition_m = [1]\n"),
    ("sensing = \"3us\"", "carrier_sense_dbm = -82"),
    // Who hears whom.
    (r#"["sta[0]", "far"]"#, r#"["sta[0]", "for"]"#),
    (r#"["sta[0]", "far"]"#, r#"["sta[0]", "server"]"#),
    (r#"["sta[0]", "far"]"#, r#"["sta[0]", "sta[0]"]"#),
    (r#"["sta[0]", "far"]"#, r#"["sta", "ap"]"#),
    (r#"["sta[0]", "far"]"#, r#"["sta[0]"]"#),
    (r#"hidden = [["sta[0]", "far"], ["sta[1]", "other"]]"#, r#"hidden = "some""#),
    // Flows and records.
    (r#"ac = "vi""#, r#"ac = "video""#),
    (r#"links = ["home"]"#, r#"links = ["hom"]"#),
    (r#"links = ["home"]"#, r#"capture = ["home"]"#),
    (r#"air_series = ["home", "other->ap2"]"#, r#"air_series = ["ap-server"]"#),
    (r#"ppdus = ["ap2"]"#, r#"ppdus = ["ap3"]"#),
    (r#"capture_air = ["home"]"#, r#"capture_air = true"#),
    // A host that is in no WLAN and has no line, and a line beside a WLAN.
    (r#"stations = ["other"]"#, r#"stations = ["server"]"#),
    ("[[wlans]]\nap = \"ap2\"", "[[links]]\nfrom = \"other\"\nto = \"ap2\"\nrate = \"1Mbit/s\"\ndelay = \"1ms\"\n[[wlans]]\nap = \"ap2\""),
];

#[test]
fn every_fault_is_named_with_file_line_key_value_and_what_is_accepted() {
    let listing = FAULTS.iter().map(|(from, to)| {
        let errors = errors(from, to);
        assert_ne!(errors, "accepted", "{to}");
        format!("{from}\n    => {to}\n{errors}\n\n")
    });
    insta::assert_snapshot!(without_registries(listing.collect()));
}
