//! One scenario: what it means, its run in slices, what the run recorded.

use std::collections::BTreeMap;

use airtcp_core::convert::{count, floor64};
use airtcp_core::tcp::profile::profile_names;
use airtcp_core::units::{Span, Time};
use airtcp_sim::capture::NoCapture;
use airtcp_sim::record::{Data, Table};
use airtcp_sim::scenario::{Override, Scenario, ScenarioErrors};
use airtcp_sim::spec::{RunSpec, Traffic};
use airtcp_sim::world::World;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::drawing::Drawing;

/// Which engine this is, as `airtcp._airtcp.engine()` has it.
pub fn engine() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "+", env!("AIRTCP_ENGINE_HASH"))
}

/// Names of everything registered, by what it is.
pub fn names() -> Json {
    let mut names: BTreeMap<&str, Vec<&str>> =
        airtcp_sim::axes().map(|axis| (axis.key, axis.pages.iter().map(|page| page.name).collect())).collect();
    names.insert("profiles", profile_names().collect());
    json!(names)
}

/// Message, as JSON, of a failure that no scenario is at fault for.
pub fn fault(message: &str) -> String {
    json!({ "text": message, "errors": [] }).to_string()
}

fn faults(errors: &ScenarioErrors) -> String {
    let list: Vec<Json> = errors
        .iter()
        .map(
            |e| json!({ "line": e.line, "argument": e.argument, "key": e.key, "value": e.value, "message": e.message }),
        )
        .collect();
    json!({ "text": errors.to_string(), "errors": list }).to_string()
}

/// A scenario to be read or run.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The scenario, TOML.
    pub toml: String,
    /// Name of the file in errors.
    #[serde(default = "file_name")]
    pub file: String,
    /// Changes to it, each as the argument of `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    /// The run is to be drawn: its queues are looked at once in so many seconds.
    #[serde(default)]
    pub draw_every_s: Option<f64>,
    /// Each frame and PPDU of a run that is drawn is recorded, too.
    #[serde(default = "yes")]
    pub draw_frames: bool,
}

fn yes() -> bool {
    true
}

fn file_name() -> String {
    "scenario.toml".to_owned()
}

impl Request {
    /// From JSON.
    pub fn read(text: &str) -> Result<Request, String> {
        serde_json::from_str(text).map_err(|error| fault(&error.to_string()))
    }

    fn parse(&self) -> Result<(Scenario, RunSpec), String> {
        let changes: Result<Vec<Override>, String> = self.set.iter().map(|set| Override::parse(set)).collect();
        let changes = changes.map_err(|message| fault(&message))?;
        let scenario = Scenario::parse(&self.toml, &self.file, &changes).map_err(|errors| faults(&errors))?;
        let spec = scenario.to_spec().map_err(|errors| faults(&errors))?;
        Ok((scenario, spec))
    }

    /// The scenario with all defaults filled in and groups expanded, in the order of the indices in
    /// tables.
    pub fn describe(&self) -> Result<String, String> {
        let (scenario, spec) = self.parse()?;
        Ok(Request::description(&scenario, &spec))
    }

    fn description(scenario: &Scenario, spec: &RunSpec) -> String {
        let nodes: Vec<Json> = spec.nodes.iter().map(|n| json!({ "name": n.name, "host": n.is_host })).collect();
        let link = |l: &airtcp_sim::spec::LinkSpec| {
            json!({
                "name": l.name, "group": l.group, "from": l.from.0, "to": l.to.0, "rate_bps": l.rate.as_bps(),
                "delay_s": l.delay.as_secs_f64(), "member": l.is_member_of_group,
                "air": l.air.map(|air| json!({ "channel": air.channel.0, "down": air.down })),
            })
        };
        let flow = |f: &airtcp_sim::spec::FlowSpec| {
            json!({
                "name": f.name, "group": f.group, "from": f.from.0, "to": f.to.0, "start_s": f.start.as_secs_f64(),
                "tcp": matches!(f.traffic, Traffic::Tcp { .. }),
            })
        };
        let channels = spec
            .channels
            .iter()
            .map(|c| json!({ "name": c.name, "nodes": c.radios.iter().map(|radio| radio.node.0).collect::<Vec<_>>() }));
        let description = json!({
            "name": scenario.name(),
            "scenario": scenario.to_json(),
            "seed": spec.seed,
            "duration_s": spec.duration.as_secs_f64(),
            "warmup_s": spec.warmup.as_secs_f64(),
            "nodes": nodes,
            "links": spec.links.iter().map(link).collect::<Vec<_>>(),
            "flows": spec.flows.iter().map(flow).collect::<Vec<_>>(),
            "channels": channels.collect::<Vec<_>>(),
        });
        description.to_string()
    }
}

/// A run.
pub struct Session {
    world: Option<World>,
    drawing: Option<Drawing>,
    /// Kept while they are read.
    tables: Vec<Table>,
    /// Codes of columns of names: of the table and the column with these indices.
    codes: Vec<Vec<u32>>,
}

impl Session {
    /// Builds the network, and tells what the scenario means.
    pub fn open(request: &Request) -> Result<(Session, String), String> {
        let (scenario, mut spec) = request.parse()?;
        let description = Request::description(&scenario, &spec);
        let every = |s: f64| Span::from_ns(floor64(s * 1e9).max(1_000_000));
        let drawing = request.draw_every_s.map(|s| Drawing::new(&mut spec, every(s), request.draw_frames));
        let world = World::build(&spec).map_err(|error| fault(&error.to_string()))?;
        Ok((Session { world: Some(world), drawing, tables: Vec::new(), codes: Vec::new() }, description))
    }

    /// Runs up to this simulated time, seconds, and tells how far it came.
    pub fn advance(&mut self, until_s: f64) -> Result<f64, String> {
        let world = self.world.as_mut().ok_or_else(|| fault("the run is finished"))?;
        let until = Time::from_ns(floor64((until_s * 1e9).ceil())).min(world.end());
        match &mut self.drawing {
            Some(drawing) => drawing.advance(world, until),
            None => world.run_until(until, &mut NoCapture),
        }
        world.outgrown().map_or(Ok(world.now().as_secs_f64()), |outgrown| Err(fault(&outgrown.to_string())))
    }

    /// Ends the run where it is: summary, hash, and the columns of all tables with their places in
    /// memory.
    pub fn finish(&mut self) -> Result<String, String> {
        let world = self.world.take().ok_or_else(|| fault("the run is finished"))?;
        let now_s = world.now().as_secs_f64();
        let output = world.finish();
        let summary = serde_json::to_string(&output.summary).map_err(|error| fault(&error.to_string()))?;
        let drawn_until_s = self.drawing.as_ref().and_then(Drawing::until).map(|until| until.as_secs_f64());
        // Tables of a run that is drawn are large, and hold more than the scenario asks for.
        let tables_hash = self.drawing.is_none().then(|| hash_of_tables(&output.tables));
        self.tables = output.tables;
        self.tables.extend(self.drawing.take().into_iter().flat_map(Drawing::into_tables));
        self.codes.clear();
        let mut tables = Vec::new();
        for table in &self.tables {
            let columns = table.columns.iter().map(|column| {
                let (kind, at, names) = place(&column.data, &mut self.codes);
                let (name, meaning) = (column.name, column.unit_and_meaning);
                json!({ "name": name, "meaning": meaning, "kind": kind, "at": at, "names": names })
            });
            let columns: Vec<Json> = columns.collect();
            tables.push(json!({ "name": table.name, "about": table.about, "rows": table.len(), "columns": columns }));
        }
        let answer = json!({
            "engine": engine(), "hash": hash(summary.as_bytes()), "tables_hash": tables_hash, "end_s": now_s,
            "events": output.events, "packets_delivered": output.packets_delivered, "drawn_until_s": drawn_until_s,
            "summary": output.summary, "tables": tables,
        });
        Ok(answer.to_string())
    }
}

/// The kind of a column's values and where they lie. Names become numbers of a list of them.
fn place(data: &Data, codes: &mut Vec<Vec<u32>>) -> (&'static str, usize, Option<Vec<String>>) {
    match data {
        Data::Bool(v) => ("bool", v.as_ptr().addr(), None),
        Data::U32(v) => ("u32", v.as_ptr().addr(), None),
        Data::U64(v) => ("u64", v.as_ptr().addr(), None),
        Data::F64(v) => ("f64", v.as_ptr().addr(), None),
        Data::Str(values) => {
            let (mut known, mut names) = (BTreeMap::new(), Vec::new());
            let mut of_rows = Vec::with_capacity(values.len());
            for name in values {
                let name: &str = name;
                let number = *known.entry(name).or_insert_with(|| {
                    names.push(name.to_owned());
                    count(names.len() - 1)
                });
                of_rows.push(number);
            }
            let at = of_rows.as_ptr().addr();
            codes.push(of_rows);
            ("names", at, Some(names))
        }
    }
}

/// The first 16 hexadecimal digits of SHA-256.
pub fn hash(bytes: &[u8]) -> String {
    short(&Sha256::digest(bytes))
}

/// A hash of all tables: names and values, little-endian; of what is no number one form, since
/// machines differ in its bits.
pub fn hash_of_tables(tables: &[Table]) -> String {
    let mut all = Sha256::new();
    for table in tables {
        all.update(format!("{} {}\n", table.name, table.len()));
        for column in &table.columns {
            all.update(format!("{}\n", column.name));
            match &column.data {
                Data::Bool(v) => v.iter().for_each(|&b| all.update([u8::from(b)])),
                Data::U32(v) => v.iter().for_each(|n| all.update(n.to_le_bytes())),
                Data::U64(v) => v.iter().for_each(|n| all.update(n.to_le_bytes())),
                Data::F64(v) => v.iter().for_each(|x| {
                    let x = if x.is_nan() { f64::NAN } else { *x };
                    all.update(x.to_le_bytes());
                }),
                Data::Str(v) => v.iter().for_each(|name| all.update(format!("{name}\n"))),
            }
        }
    }
    short(&all.finalize())
}

fn short(digest: &[u8]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{Request, Session};

    const CALL: &str = include_str!("../../../playground/stories/call.toml");

    fn run(more: Json) -> Json {
        let mut request = json!({ "toml": CALL, "set": ["duration=3s"] });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (mut session, description) = Session::open(&Request::read(&request.to_string()).unwrap()).unwrap();
        let description: Json = serde_json::from_str(&description).unwrap();
        assert_eq!(description["duration_s"], 3.0);
        session.advance(3.0).unwrap();
        serde_json::from_str(&session.finish().unwrap()).unwrap()
    }

    fn rows(output: &Json, name: &str) -> u64 {
        let table = output["tables"].as_array().unwrap().iter().find(|table| table["name"] == name);
        table.map_or(0, |table| table["rows"].as_u64().unwrap())
    }

    #[test]
    fn drawing_with_and_without_frames_leaves_the_run_as_it_is() {
        let plain = run(json!({}));
        let whole = run(json!({ "draw_every_s": 0.01 }));
        let quick = run(json!({ "draw_every_s": 0.01, "draw_frames": false }));
        for name in ["frames", "ppdus"] {
            assert!(rows(&whole, name) > 100, "{name}");
            assert_eq!(rows(&quick, name), 0, "{name}");
        }
        for name in ["waiting", "drops", "flow_series", "pings"] {
            assert_eq!(rows(&quick, name), rows(&whole, name), "{name}");
        }
        assert!(rows(&quick, "waiting") > 0);
        for other in [whole, quick] {
            assert_eq!(other["hash"], plain["hash"]);
            assert_eq!(other["events"], plain["events"]);
        }
    }
}
