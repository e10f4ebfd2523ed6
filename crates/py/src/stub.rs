//! TEMPORARY: the shape of the engine's interface with invented numbers, so that the Python side can be built first.
//! Replaced by `airtcp_sim` as soon as the engine is there.

use serde_json::{Value, json};

pub struct Scenario(pub Value);
pub struct Problem {
    pub line: usize,
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
        let problem = |key: &str, message: String| vec![Problem { line: 1, key: key.into(), message }];
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
    U64(Vec<u64>),
    Str(Vec<String>),
}
pub struct Column {
    pub name: &'static str,
    pub meaning: &'static str,
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
        let col = |name, meaning, data| Column { name, meaning, data };
        let wave = |k: f64| time.iter().map(|t| 0.5 + 0.4 * ((t + self.seed as f64) * k).sin()).collect::<Vec<_>>();
        RunOutput {
            tables: vec![
                Table { name: "links", columns: vec![col("link", "name", Data::Str(vec!["r1->r2".into()])), col("utilisation", "part of the rate", Data::F64(vec![f64::NAN]))] },
                Table { name: "link_series", columns: vec![
                    col("time_s", "s", Data::F64(time.clone())), col("link", "name", Data::Str(vec!["r1->r2".into(); n])),
                    col("utilisation", "part of the rate", Data::F64(wave(1.0))), col("loss_ratio", "dropped / arrived", Data::F64(wave(0.5))),
                    col("queue_packets", "packets", Data::F64(wave(2.0)))] },
                Table { name: "flow_series", columns: vec![
                    col("time_s", "s", Data::F64(time.clone())), col("flow", "name", Data::Str(vec!["reno".into(); n])), col("cwnd", "segments", Data::F64(wave(0.3)))] },
                Table { name: "drops", columns: vec![col("time_s", "s", Data::F64(vec![])), col("flow", "name", Data::Str(vec![])), col("seq", "", Data::U64(vec![]))] },
            ],
            summary: json!({"groups": [{"group": "reno", "flows": 1, "goodput_bit_s": 1e7}], "links": [{"link": "r1->r2", "utilisation": 0.93}]}),
        }
    }
}
