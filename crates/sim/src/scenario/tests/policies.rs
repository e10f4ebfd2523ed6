//! Naming a policy that a host has already changes nothing: on every axis, for every profile and
//! every policy.

use airtcp_core::policy::AXES;
use airtcp_core::tcp::profile::profile_names;
use airtcp_core::wifi::TransmitConfig;
use serde_json::{Value as Json, json};

use super::*;
use crate::spec::RunSpec;

/// A station with this profile, and `own` over it, sends to a server.
fn host(base: &str, own: &Json) -> Json {
    json!({
        "duration": "1s",
        "profiles": { "own": lay_over(json!({ "base": base }), own) },
        "nodes": [
            { "name": "sta", "kind": "host", "profile": "own" },
            { "name": "server", "kind": "host" },
            { "name": "ap", "kind": "router" },
        ],
        "links": [{ "from": "ap", "to": "server", "rate": "1Gbit/s", "delay": "1ms" }],
        "wlans": [{ "ap": "ap", "stations": ["sta"] }],
        "flows": [{ "name": "up", "from": "sta", "to": "server" }],
    })
}

fn lay_over(mut base: Json, own: &Json) -> Json {
    let own = own.as_object().unwrap().clone();
    base.as_object_mut().unwrap().extend(own);
    base
}

fn spec(file: &Json, place: &str, said: Option<&Json>) -> Result<RunSpec, ScenarioErrors> {
    let said = said.map(|value| {
        let mut table = toml::Table::new();
        table.insert("x".to_owned(), toml::Value::try_from(value).unwrap());
        let line = toml::to_string(&table).unwrap();
        // A policy's table fits on a line of its own.
        let value = if value.is_string() { line["x = ".len()..].trim().to_owned() } else { inline(value) };
        Override::parse(&format!("{place}={value}")).unwrap()
    });
    let overrides: Vec<Override> = said.into_iter().collect();
    Scenario::parse_json(&file.to_string(), "x.json", &overrides)?.to_spec()
}

fn inline(value: &Json) -> String {
    match value {
        Json::Object(table) => {
            let entries: Vec<String> = table.iter().map(|(key, value)| format!("{key} = {}", inline(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Where a host's scenario names a policy of the axis, and how a profile does. `None`: profiles do
/// not speak of it.
fn places(axis: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match axis {
        "cc" => ("flows[0].tcp", &["cc"]),
        "loss" => ("flows[0].tcp", &["loss"]),
        "queue" => ("wlans[0].station_radio", &["transmit", "qdisc"]),
        "rate_control" => ("wlans[0].station_radio", &["rate_control"]),
        "retry_out" => ("wlans[0].station_radio", &["reorder_buffer", "retry_out"]),
        "transmit" => ("wlans[0].station_radio", &["transmit"]),
        "signal" => return None,          // of the place, not of the host
        "receive_offload" => return None, // of the interface, in a table of its own
        other => panic!("where does a profile name a policy of the axis `{other}`?"),
    })
}

/// Policy of a scenario's host on an axis, as JSON.
fn has(spec: &RunSpec, axis: &str) -> Json {
    let Traffic::Tcp { sender, .. } = &spec.flows[0].traffic else { panic!("a TCP flow") };
    let radio = &spec.channels[0].radios.iter().find(|r| spec.nodes[r.node.0 as usize].is_host).unwrap().config;
    match axis {
        "cc" => serde_json::to_value(&sender.cc),
        "loss" => serde_json::to_value(&sender.loss_recovery.loss),
        "queue" => serde_json::to_value(&radio.transmit).map(|path| path["qdisc"].clone()),
        "rate_control" => serde_json::to_value(&radio.rate_control),
        "transmit" => serde_json::to_value(&radio.transmit),
        _ => serde_json::to_value(&radio.reorder_buffer.retry_out),
    }
    .unwrap()
}

/// `policy` where profiles, and stations, name one of the axis.
fn at(path: &[&str], policy: Json) -> Json {
    let mut table = path.iter().rev().fold(policy, |inner, key| json!({ *key: inner }));
    if path == ["transmit", "qdisc"] {
        table["transmit"]["name"] = "qdisc".into();
    }
    table
}

fn of_profile(path: &[&str], policy: Json) -> Json {
    match path[0] {
        "cc" | "loss" => at(path, policy),
        _ => json!({ "wifi": at(path, policy) }),
    }
}

#[test]
fn naming_what_a_profile_has_changes_nothing() {
    let mut named = 0;
    for profile in profile_names() {
        let file = host(profile, &json!({}));
        let plain = spec(&file, "", None).unwrap();
        for axis in AXES {
            let Some((place, path)) = places(axis.key) else { continue };
            let Some(name) = has(&plain, axis.key)["name"].as_str().map(str::to_owned) else { continue };
            for said in [json!(name), json!({ "name": name })] {
                let said = at(path, said);
                let place = format!("{place}.{}", path[0]);
                let with = spec(&file, &place, Some(&said[path[0]])).unwrap_or_else(|e| panic!("{profile}: {e}"));
                assert_eq!(with, plain, "{profile}: {place} = {said}");
                named += 1;
            }
        }
        let name = if has(&plain, "queue").is_null() { "mac80211" } else { "qdisc" };
        let with = spec(&file, "wlans[0].station_radio.transmit", Some(&json!(name))).unwrap();
        assert_eq!(with, plain, "{profile}: transmit = {name}");
    }
    assert!(named >= 4 * profile_names().count(), "{named}");
}

/// The policy's table with a parameter that is not its default, from what its schema's default
/// shows.
fn with_a_parameter(axis: &str, name: &str, valid: impl Fn(&Json) -> bool) -> Option<Json> {
    let by_hand = match (axis, name) {
        ("cc", "reno") => Some(json!({ "name": "reno", "increase": "per_ack" })),
        ("queue", "fifo") => Some(json!({ "name": "fifo", "limit_packets": 7 })),
        ("queue", "ack_filter") => Some(json!({ "name": "ack_filter", "limit_packets": 7 })),
        ("cc", "tcp_av") => Some(json!({ "name": "tcp_av", "target": "2Mbit/s", "floor_rtt": "smoothed" })),
        ("rate_control", "fixed") => Some(json!({ "name": "fixed", "rate": "13Mbit/s" })),
        _ => None,
    };
    if by_hand.is_some() {
        return by_hand;
    }
    let defaults = match axis {
        "cc" => CcConfig::by_name(name).map(|c| serde_json::to_value(c).unwrap()),
        "loss" => LossConfig::by_name(name).map(|c| serde_json::to_value(c).unwrap()),
        "queue" => QueueConfig::by_name(name).map(|c| serde_json::to_value(c).unwrap()),
        "rate_control" => RateConfig::by_name(name).map(|c| serde_json::to_value(c).unwrap()),
        "transmit" => TransmitConfig::by_name(name).map(|c| serde_json::to_value(c).unwrap()),
        _ => RetryOutConfig::by_name(name).map(|c| serde_json::to_value(c).unwrap()),
    }?;
    let changed = |(key, value): (&String, &Json)| {
        let other = match value {
            Json::Bool(on) => json!(!on),
            Json::Number(n) if n.is_u64() => json!(n.as_u64()? + 1),
            Json::Number(n) => json!(n.as_f64()? * 0.9),
            Json::String(text) if text.ends_with("ms") => json!(format!("1{text}")),
            _ => return None,
        };
        let table = json!({ "name": name, key.as_str(): other });
        valid(&table).then_some(table)
    };
    defaults.as_object()?.iter().filter(|(key, _)| *key != "name").find_map(changed)
}

#[test]
fn naming_a_policy_keeps_what_the_hosts_own_profile_says_of_it() {
    let mut without = Vec::new();
    for axis in AXES {
        let Some((place, path)) = places(axis.key) else { continue };
        let place = format!("{place}.{}", path[0]);
        for page in axis.pages {
            let file = |policy: &Json| host("linux-6", &of_profile(path, policy.clone()));
            let differs = |policy: &Json| {
                let plain = spec(&file(&json!(page.name)), "", None);
                spec(&file(policy), "", None).is_ok_and(|with| plain.is_ok_and(|plain| plain != with))
            };
            let Some(policy) = with_a_parameter(axis.key, page.name, differs) else {
                without.push(page.name);
                continue;
            };
            let plain = spec(&file(&policy), "", None).unwrap_or_else(|e| panic!("{policy}: {e}"));
            let said = at(path, json!(page.name));
            let with = spec(&file(&policy), &place, Some(&said[path[0]])).unwrap_or_else(|e| panic!("{policy}: {e}"));
            assert_eq!(with, plain, "{place} = {said} over {policy}");
        }
    }
    assert_eq!(without, ["minstrel"], "no rate control of 802.11n");
}

#[test]
fn linux_6_has_linux_cubic_whether_named_or_not_and_windows_has_its_own() {
    let cubic = |profile: &str, said: Json| {
        let spec = spec(&host(profile, &json!({})), "flows[0].tcp.cc", Some(&said)).unwrap();
        has(&spec, "cc")
    };
    for (profile, said, reno_catch_up, fast_convergence) in [
        ("linux-6", json!("cubic"), false, true),
        ("linux-6", json!({ "name": "cubic", "fast_convergence": false }), false, false),
        ("linux-6", json!({ "name": "cubic", "reno_catch_up": true }), true, true),
        ("linux-3.13", json!("cubic"), false, true),
        ("macos-10.11", json!("cubic"), true, true),
        ("windows-10", json!("cubic"), true, true), // its profile's control is Reno
    ] {
        let cubic = cubic(profile, said.clone());
        assert_eq!(cubic["reno_catch_up"], json!(reno_catch_up), "{profile} {said}");
        assert_eq!(cubic["fast_convergence"], json!(fast_convergence), "{profile} {said}");
    }
}
