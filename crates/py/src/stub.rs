//! TEMPORARY: the shape of the engine's interface with invented numbers, so that the Python side can be built first.
//! Replaced by `airtcp_sim` as soon as the engine is there.

use serde_json::{Value, json};

pub struct Scenario(pub Value);
pub struct Problem {
    pub file: String,
    pub line: Option<u32>,
    pub argument: Option<String>,
    pub value: Option<String>,
    pub key: String,
    pub message: String,
}

pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenario",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "description": "Name of the run."},
            "seed": {"type": "integer", "minimum": 0, "default": 1, "description": "Seed."},
            "duration": {"$ref": "#/$defs/Span", "description": "Simulated time."},
            "nodes": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            "links": {"type": "array", "items": {"$ref": "#/$defs/Link"}},
        },
        "required": ["duration"],
        "$defs": {
            "Span": {"type": "string", "pattern": "^[0-9.]+(ns|us|ms|s)$"},
            "Node": {"type": "object", "additionalProperties": false, "description": "A node.", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            "Link": {"type": "object", "additionalProperties": false, "description": "A link.", "properties": {
                "from": {"type": "string"}, "to": {"type": "string"}, "queue": {"$ref": "#/$defs/QueueConfig"}}, "required": ["from", "to"]},
            "QueueConfig": {"anyOf": [{"type": "string", "enum": ["fifo"]}, {"oneOf": [
                {"type": "object", "description": "Drop-tail.", "properties": {"name": {"const": "fifo", "type": "string"}, "packets": {"type": ["integer", "null"]}}, "required": ["name"]}]}]},
        }
    })
}

impl Scenario {
    pub fn parse(text: &str, _file: &str, overrides: &[String]) -> Result<Scenario, Vec<Problem>> {
        let problem = |key: &str, message: String| vec![Problem { file: _file.into(), line: Some(1), argument: None, value: None, key: key.into(), message }];
        let mut v: toml::Table = toml::from_str(text).map_err(|e| problem("", e.to_string()))?;
        for o in overrides {
            let (k, x) = o.split_once('=').ok_or_else(|| problem(o, format!("`{o}`: expected key=value")))?;
            let x = format!("x = {x}").parse::<toml::Table>().map(|mut t| t.remove("x").unwrap()).unwrap_or(toml::Value::String(x.into()));
            v.insert(k.into(), x);
        }
        for k in v.keys() {
            if !["name", "seed", "duration", "nodes", "links", "flows"].contains(&k.as_str()) {
                return Err(problem(k, format!("unknown key `{k}`")));
            }
        }
        v.entry("seed").or_insert(toml::Value::Integer(1));
        v.entry("name").or_insert(toml::Value::String("stub".into()));
        let s = Scenario(serde_json::to_value(v).map_err(|e| problem("", e.to_string()))?);
        if !(s.duration_s() > 0.0) {
            return Err(problem("duration", "duration: missing, or not a duration such as \"10s\"".into()));
        }
        Ok(s)
    }
    pub fn duration_s(&self) -> f64 {
        self.0["duration"].as_str().and_then(|s| s.strip_suffix('s')).and_then(|s| s.parse().ok()).unwrap_or(0.0)
    }
}

pub struct World {
    now: f64,
    duration: f64,
    pub seed: u64,
}

pub enum Data {
    F64(Vec<f64>),
    U32(Vec<u32>),
    Bool(Vec<bool>),
    U64(Vec<u64>),
    Str(Vec<String>),
}
pub struct Column {
    pub name: &'static str,
    pub unit_and_meaning: &'static str,
    pub data: Data,
}
pub struct Table {
    pub name: &'static str,
    pub columns: Vec<Column>,
}
pub struct RunOutput {
    pub tables: Vec<Table>,
    pub summary: Value,
}

impl World {
    pub fn build(s: &Scenario) -> World {
        World { now: 0.0, duration: s.duration_s(), seed: s.0["seed"].as_u64().unwrap_or(0) }
    }
    pub fn now_s(&self) -> f64 {
        self.now
    }
    pub fn run_until(&mut self, t: f64) {
        let t = t.min(self.duration);
        std::hint::black_box((0..((t - self.now) * 3e7) as u64).fold(0u64, |a, b| a.wrapping_mul(31).wrapping_add(std::hint::black_box(b))));
        self.now = t;
    }
    pub fn finish(self) -> RunOutput {
        let n = (self.now * 10.0) as usize;
        let time: Vec<f64> = (0..n).map(|i| i as f64 / 10.0).collect();
        let wave = |k: f64| time.iter().map(|t| 0.5 + 0.4 * ((t + self.seed as f64) * k).sin()).collect::<Vec<_>>();
        let table = |name, columns: Vec<(&'static str, Data)>| Table {
            name,
            columns: columns.into_iter().map(|(name, data)| Column { name, unit_and_meaning: "invented", data }).collect(),
        };
        let (f, u, s) = (Data::F64, Data::U64, Data::Str);
        let none = || Data::F64(vec![]);
        RunOutput {
            tables: vec![
                table("flows", vec![("flow", Data::U32(vec![0])), ("name", s(vec!["reno".into()])), ("group", s(vec!["reno".into()])), ("kind", s(vec!["tcp".into()])), ("stop_s", f(vec![f64::NAN]))]),
                table("links", vec![("link", Data::U32(vec![0])), ("name", s(vec!["r1->r2".into()])), ("utilisation", f(vec![0.9])), ("dropped_overflow", u(vec![1])), ("dropped_early", u(vec![0]))]),
                table("flow_series", vec![("time_s", f(time.clone())), ("flow", Data::U32(vec![0; n])), ("cwnd_segments", Data::U32(vec![10; n]))]),
                table("link_series", vec![
                    ("time_s", f(time.clone())), ("link", Data::U32(vec![0; n])), ("arrived_packets", u(vec![100; n])), ("dropped_packets", u(vec![1; n])),
                    ("utilisation", f(wave(1.0))), ("queue_packets", u(vec![5; n])), ("queue_mean_packets", f(wave(2.0)))]),
                table("drops", vec![("time_s", none()), ("link", Data::U32(vec![])), ("reverse", Data::Bool(vec![])), ("reason", s(vec![]))]),
                table("transfers", vec![("start_s", none())]),
                table("pings", vec![("sent_s", none())]),
                table("datagrams", vec![("sent_s", none())]),
            ],
            summary: json!({"seed": self.seed, "end_s": self.now, "warmup_s": 0.0,
                "groups": [{"group": "reno", "flow_count": 1, "goodput_bps": 1e7}],
                "links": [{"name": "r1->r2", "utilisation": 0.93, "dropped_overflow": 1, "dropped_early": 0}]}),
        }
    }
}
