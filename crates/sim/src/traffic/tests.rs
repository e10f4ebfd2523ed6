//! Tests that hold for every registered kind of traffic.

use airtcp_core::table::Data;
use airtcp_core::units::{Span, Time};
use serde_json::{Value as Json, json};

use super::TrafficConfig;
use crate::capture::NoCapture;
use crate::scenario::{Scenario, schema};
use crate::spec::RunSpec;
use crate::world::{RunOutput, World};

/// A value that the schema accepts.
fn any_value(root: &Json, schema: &Json) -> Json {
    match schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
        Some("DataRate") => return json!("1Mbit/s"),
        Some("Bytes") => return json!("10kB"),
        Some("Span") => return json!("10ms"),
        Some(name) => return any_value(root, &root["$defs"][name]),
        None => {}
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => schema["minimum"].as_number().map_or(json!(1), |least| json!(least)),
        Some("boolean") => json!(false),
        _ => schema["enum"][0].clone(),
    }
}

/// A flow of that kind with no more parameters than it needs, between two hosts behind a router.
fn scenario(kind: &str) -> RunSpec {
    let root = schema();
    let tables = root["$defs"]["Traffic"]["anyOf"].as_array().and_then(|forms| forms[1]["oneOf"].as_array());
    let table = tables.into_iter().flatten().find(|t| t["properties"]["kind"]["const"] == kind);
    let table = table.unwrap_or_else(|| panic!("{kind} is not in the schema"));
    let required = table["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let mut traffic = json!({ "kind": kind });
    for key in required.filter(|&key| key != "kind") {
        traffic[key] = any_value(root, &table["properties"][key]);
    }
    let text = json!({
        "duration": "3s",
        "warmup": "1s",
        "nodes": [{ "name": "a", "kind": "host" }, { "name": "r", "kind": "router" }, { "name": "b", "kind": "host" }],
        "links": [
            { "from": "a", "to": "r", "rate": "10Mbit/s", "delay": "1ms" },
            { "from": "r", "to": "b", "rate": "2Mbit/s", "delay": "5ms", "loss": 0.01 },
        ],
        "flows": [{ "name": "f", "from": "a", "to": "b", "traffic": traffic }],
    });
    let scenario = Scenario::parse_json(&text.to_string(), "x.json", &[]).unwrap_or_else(|e| panic!("{kind}: {e}"));
    // The scenario as written out says the same.
    let again = Scenario::parse(&scenario.to_toml(), "x.toml", &[]).unwrap_or_else(|e| panic!("{kind}: {e}"));
    let spec = scenario.to_spec().unwrap_or_else(|e| panic!("{kind}: {e}"));
    assert_eq!(again.to_spec().unwrap_or_else(|e| panic!("{kind}: {e}")), spec, "{kind}");
    spec
}

fn run(spec: &RunSpec, cuts_ms: &[u64]) -> RunOutput {
    let mut world = World::build(spec).unwrap();
    for &ms in cuts_ms {
        world.run_until(Time::ZERO + Span::from_ms(ms), &mut NoCapture);
    }
    world.run(&mut NoCapture);
    let l = world.ledger();
    let known = l.delivered.packets + l.dropped.packets + l.lost.packets;
    assert_eq!(l.sent.packets, known + world.packets_inside() as u64);
    assert!(l.delivered_forward.packets > 0, "nothing has arrived");
    world.finish()
}

#[test]
fn every_kind_is_written_runs_and_is_reported() {
    for &kind in TrafficConfig::NAMES {
        let spec = scenario(kind);
        let output = run(&spec, &[]);
        // As text, in which NaN is like NaN.
        let cut = run(&spec, &[1, 999, 1000, 1001, 2500]);
        assert_eq!(format!("{cut:?}"), format!("{output:?}"), "{kind}: cuts change nothing");
        let flows = output.table("flows").unwrap();
        let Some(Data::Str(kinds)) = flows.column("kind") else { panic!() };
        assert_eq!(kinds[0], spec.flows[0].traffic.kind());
        let summary = serde_json::to_value(&output.summary).unwrap();
        for figure in super::figures() {
            let column = flows.columns.iter().find(|c| c.name == figure.name);
            assert_eq!(column.map(|c| c.unit_and_meaning), Some(figure.unit_and_meaning), "{kind}");
            for row in [&summary["groups"][0], &summary["groups"][0]["flows"][0]] {
                assert!(row.as_object().unwrap().contains_key(figure.name), "{kind}: {}", figure.name);
            }
        }
    }
}

#[test]
fn every_kind_has_a_page_with_all_its_parts() {
    let lacking = TrafficConfig::AXIS.lacking();
    assert!(lacking.is_empty(), "the comment that opens a kind's file lacks\n{}", lacking.join("\n"));
    let names: Vec<&str> = TrafficConfig::AXIS.pages.iter().map(|page| page.name).collect();
    assert_eq!(names, TrafficConfig::NAMES);
    assert_eq!(crate::axes().filter(|axis| axis.key == "traffic").count(), 1);
}

#[test]
fn a_bare_name_stands_for_the_defaults() {
    for &kind in TrafficConfig::NAMES {
        let by_name = TrafficConfig::by_name(kind);
        assert_eq!(serde_json::from_value::<TrafficConfig>(json!(kind)).ok(), by_name, "{kind}");
        if let Some(config) = by_name {
            assert_eq!(config.name(), kind);
            assert_eq!(serde_json::from_value::<TrafficConfig>(json!({ "kind": kind })).unwrap(), config);
        }
    }
    assert_eq!(TrafficConfig::by_name("telepathy"), None);
}

#[test]
fn names_and_tables_of_kinds_are_their_own() {
    let output = run(&scenario("ping"), &[]);
    let names: Vec<&str> = output.tables.iter().map(|t| t.name).collect();
    for table in &output.tables {
        assert_eq!(names.iter().filter(|&&name| name == table.name).count(), 1, "two tables {}", table.name);
        assert!(!table.about.is_empty(), "{}: which rows has it?", table.name);
        for column in &table.columns {
            let same = table.columns.iter().filter(|c| c.name == column.name).count();
            assert_eq!(same, 1, "two columns {}.{}", table.name, column.name);
        }
    }
}
