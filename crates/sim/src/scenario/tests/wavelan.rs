//! WaveLAN in a scenario: what it expands to, and what does not go with it.

use airtcp_core::queue::QueueConfig;
use airtcp_core::wifi::TransmitConfig;
use airtcp_core::wifi::phy::{Backoff, SignalConfig, Standard};

use super::*;

const BASE: &str = r#"duration = "10s"

[[nodes]]
name = "mh"
kind = "host"
count = 2
profile = "linux-6"

[[nodes]]
name = "bridge"
kind = "router"

[[nodes]]
name = "ch"
kind = "host"

[[links]]
from = "bridge"
to = "ch"
rate = "10Mbit/s"
delay = "10us"

[[wlans]]
name = "air"
ap = "bridge"
stations = ["mh"]
phy = { standard = "wavelan" }

[[flows]]
name = "up"
from = "mh"
to = "ch"
"#;

fn expand(sets: &[&str]) -> Result<RunSpec, String> {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    let scenario = Scenario::parse(BASE, "x.toml", &overrides).map_err(|e| e.to_string())?;
    scenario.to_spec().map_err(|e| e.to_string())
}

#[test]
fn defaults_are_those_of_an_ethernet_driver_on_a_wavelan() {
    let spec = expand(&[]).unwrap();
    let channel = &spec.channels[0];
    assert_eq!((channel.sensing.as_ns(), channel.capture_effect.get()), (16_000, 0.0));
    for radio in &channel.radios {
        let config = &radio.config;
        assert!(!config.acks() && !config.has_qos() && !config.aggregates() && !config.eifs);
        let w = config.phy.wavelan().unwrap();
        assert_eq!((w.slot.as_ns(), w.interframe_space.as_ns()), (23_000, 60_000));
        assert_eq!((w.cw_min, w.cw_max, w.cw_next, w.attempts), (31, 255, 15, 15));
        // The host's profile speaks of another device.
        let TransmitConfig::Qdisc(path) = &config.transmit else { panic!("{:?}", config.transmit) };
        assert!(matches!(&path.qdisc, QueueConfig::Fifo(f) if f.limit_packets == Some(50)));
        assert_eq!(path.driver_frames, 1);
    }
    let air = spec.links.iter().find(|l| l.air.is_some()).unwrap();
    assert_eq!(air.rate.as_bps(), 2_000_000);
}

#[test]
fn every_parameter_can_be_set_by_its_path() {
    let spec = expand(&[
        "wlans.air.phy.wavelan.slot=16us",
        "wlans.air.phy.wavelan.cw_next=31",
        "wlans.air.phy.wavelan.attempts=0",
        "wlans.air.phy.wavelan.backoff=freeze",
        "wlans.air.sensing=40us",
        "wlans.air.capture_effect=0.25",
        "wlans.air.signal={ kind = \"bit_errors\", rate = 1e-6 }",
        "wlans.air.station_radio.transmit={ name = \"qdisc\", driver_frames = 2 }",
    ])
    .unwrap();
    let channel = &spec.channels[0];
    assert_eq!((channel.sensing.as_ns(), channel.capture_effect.get()), (40_000, 0.25));
    let w = channel.radios[1].config.phy.wavelan().unwrap();
    assert_eq!((w.slot.as_ns(), w.cw_next, w.attempts, w.backoff), (16_000, 31, 0, Backoff::Freeze));
    assert_eq!(channel.radios[1].config.phy.standard, Standard::Wavelan);
    assert!(matches!(channel.pairs[0].signal, SignalConfig::BitErrors(_)));
}

#[test]
fn what_does_not_go_together_is_named() {
    for (set, key, message) in [
        ("wlans.air.station_radio.ack=true", "station_radio.ack", "WaveLAN has no acknowledgements"),
        ("wlans.air.station_radio.qos=true", "station_radio.qos", "WaveLAN has one queue"),
        ("wlans.air.ap_radio.eifs=true", "ap_radio.eifs", "one interframe space"),
        ("wlans.air.ap_radio.rts_threshold_bytes=500", "ap_radio.rts_threshold_bytes", "WaveLAN has no RTS"),
        ("wlans.air.ap_radio.rate_control=minstrel", "ap_radio.rate_control", "WaveLAN has one rate"),
        ("wlans.air.ap_radio.rate_control={ name = \"fixed\", rts = true }", "ap_radio.rate_control", "has no RTS"),
        ("wlans.air.ap_radio.rate_control={ name = \"fixed\", rate = \"1Mbit/s\" }", "rate_control", "`rate` 2Mbit/s"),
        ("wlans.air.ap_radio.aggregation={ max_frames = 3 }", "ap_radio.aggregation", "WaveLAN has no A-MPDUs"),
        ("wlans.air.station_radio.retries={ frame_tries = 3 }", "station_radio.retries", "sends nothing again"),
        (
            "wlans.air.ap_radio.reorder_buffer={ retry_out = \"stepped\" }",
            "ap_radio.reorder_buffer",
            "has no Block Ack",
        ),
        ("wlans.air.ap_radio.transmit=mac80211", "ap_radio.transmit", "is for 802.11"),
        ("wlans.air.phy.width_mhz=40", "phy.width_mhz", "`standard` = \"wavelan\" has 20"),
        ("wlans.air.phy.band=5GHz", "phy.band", "works at \"2.4GHz\" only"),
        ("wlans.air.phy.short_preamble=true", "phy.short_preamble", "`wavelan.preamble`"),
        ("wlans.air.phy.short_slot=false", "phy.short_slot", "`wavelan.slot`"),
        ("wlans.air.phy.basic_rates=[\"2Mbit/s\"]", "phy.basic_rates", "leave it out"),
        ("wlans.air.phy.wavelan.slot=0us", "phy.wavelan.slot", "must be above zero"),
        ("wlans.air.phy.wavelan.cw_next=300", "phy.wavelan.cw_next", "must be at most `cw_max` (255)"),
        ("wlans.air.phy.wavelan.cw_mni=3", "cw_mni", "cw_min"),
        ("wlans.air.phy.wavelan.backoff=persist", "phy.wavelan.backoff", "resense"),
        ("wlans.air.sensing=2ms", "sensing", "must be at most 1ms"),
        ("wlans.air.capture_effect=1.5", "capture_effect", "1.5"),
        // Former names of these keys.
        ("wlans.air.capture=0.5", "capture", "did you mean `capture_effect`?"),
        ("wlans.air.ap_radio.reorder={ window = 3 }", "ap_radio.reorder", "did you mean `reorder_buffer`?"),
        ("wlans.air.phy={ standard = \"b\", wavelan = { slot = \"16us\" } }", "phy.wavelan", "only with `standard`"),
        ("wlans.air.phy={ standard = \"b\" }", "ack", ""),
    ] {
        // The last is right but for what it is laid under.
        let sets: &[&str] = if key == "ack" { &[set, "wlans.air.station_radio.ack=false"] } else { &[set] };
        let error = expand(sets).expect_err(set);
        // The error names the key, or the table of the key, with the key in the message.
        let last = key.rsplit('.').next().unwrap();
        let is_named = error.contains(key) || error.contains(&format!("`{last}`"));
        assert!(is_named && error.contains(message), "{set}: {error}");
        assert!(error.contains("x.toml") || error.contains("--set"), "{set}: {error}");
    }
    let error =
        expand(&["wlans.air.stations=[\"mh[0]\", { node = \"mh[1]\", radio = { phy = { standard = \"b\" } } }]"]);
    let error = error.unwrap_err();
    assert!(
        error.contains("WaveLAN and 802.11 do not understand each other") || error.contains("no mode in common"),
        "{error}"
    );
}

#[test]
fn radios_of_802_11_may_go_without_acknowledgements() {
    let b = "wlans.air.phy={ standard = \"b\" }";
    let fixed = "wlans.air.station_radio={ ack = false, rate_control = \"fixed\" }";
    let spec = expand(&[b, fixed]).unwrap();
    assert!(spec.channels[0].radios[0].config.acks() && !spec.channels[0].radios[1].config.acks());
    let n = "wlans.air.phy={ standard = \"n\" }";
    let error = expand(&[n, fixed]).unwrap_err();
    assert!(error.contains("does not go with A-MPDUs: set `aggregation = { enabled = false }`"), "{error}");
}
