//! A document with the place of every key and value: what the checks walk over and what errors point into.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Line of the file, from 1.
    Line(u32),
    /// Index of the override.
    Override(usize),
    /// A document without lines (JSON).
    Document,
}

#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub value: Value,
    pub origin: Origin,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    String(String),
    Integer(i128),
    Float(f64),
    Bool(bool),
    Datetime(String),
    Array(Vec<Tree>),
    Table(BTreeMap<String, Entry>),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Where the key stands.
    pub origin: Origin,
    pub tree: Tree,
}

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// A place in a document: `links[0].rate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(pub Vec<Step>);

impl Path {
    pub fn key(&self, key: &str) -> Path {
        self.with(Step::Key(key.to_owned()))
    }
    pub fn index(&self, index: usize) -> Path {
        self.with(Step::Index(index))
    }
    fn with(&self, step: Step) -> Path {
        let mut path = self.clone();
        path.0.push(step);
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(n) => write!(f, "[{n}]")?,
                Step::Key(key) => {
                    if i > 0 {
                        f.write_str(".")?;
                    }
                    if is_bare(key) { f.write_str(key)? } else { write!(f, "{}", quoted(key))? }
                }
            }
        }
        Ok(())
    }
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn quoted(s: &str) -> String {
    toml::Value::String(s.to_owned()).to_string()
}

/// Line numbers of byte offsets.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub fn new(text: &str) -> Lines {
        Lines(std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect())
    }
    /// The line, from 1, that holds the byte at `offset`.
    pub fn at(&self, offset: usize) -> u32 {
        self.0.partition_point(|&start| start <= offset) as u32
    }
}

impl Tree {
    pub fn table(origin: Origin) -> Tree {
        Tree { value: Value::Table(BTreeMap::new()), origin }
    }

    pub fn from_toml(table: &Spanned<DeTable>, lines: &Lines) -> Tree {
        Tree::from_table(table.get_ref(), &|span| Origin::Line(lines.at(span.start)), table.span())
    }

    /// A value of an override: every part of it has the same origin.
    pub fn from_override(value: &Spanned<DeValue>, index: usize) -> Tree {
        Tree::from_value(value, &|_| Origin::Override(index))
    }

    fn from_table(
        table: &DeTable,
        origin: &dyn Fn(std::ops::Range<usize>) -> Origin,
        at: std::ops::Range<usize>,
    ) -> Tree {
        let entries = table.iter().map(|(key, value)| {
            let entry = Entry { origin: origin(key.span()), tree: Tree::from_value(value, origin) };
            (key.get_ref().to_string(), entry)
        });
        Tree { value: Value::Table(entries.collect()), origin: origin(at) }
    }

    fn from_value(value: &Spanned<DeValue>, origin: &dyn Fn(std::ops::Range<usize>) -> Origin) -> Tree {
        let at = value.span();
        let converted = match value.get_ref() {
            DeValue::String(s) => Value::String(s.to_string()),
            DeValue::Integer(i) => {
                // What does not fit is far outside every range; saturating keeps it there.
                let parsed = i128::from_str_radix(i.as_str(), i.radix());
                Value::Integer(parsed.unwrap_or(if i.as_str().starts_with('-') { i128::MIN } else { i128::MAX }))
            }
            DeValue::Float(x) => Value::Float(x.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(b) => Value::Bool(*b),
            DeValue::Datetime(d) => Value::Datetime(d.to_string()),
            DeValue::Array(items) => Value::Array(items.iter().map(|v| Tree::from_value(v, origin)).collect()),
            DeValue::Table(table) => return Tree::from_table(table, origin, at),
        };
        Tree { value: converted, origin: origin(at) }
    }

    /// `null` members of objects count as absent.
    pub fn from_json(value: serde_json::Value, origin: Origin) -> Tree {
        use serde_json::Value as Json;
        let value = match value {
            Json::Null => Value::String("null".to_owned()),
            Json::Bool(b) => Value::Bool(b),
            Json::String(s) => Value::String(s),
            Json::Number(n) => match n.as_i128() {
                Some(i) => Value::Integer(i),
                None => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
            },
            Json::Array(items) => Value::Array(items.into_iter().map(|v| Tree::from_json(v, origin)).collect()),
            Json::Object(map) => Value::Table(
                map.into_iter()
                    .filter(|(_, v)| !v.is_null())
                    .map(|(key, v)| (key, Entry { origin, tree: Tree::from_json(v, origin) }))
                    .collect(),
            ),
        };
        Tree { value, origin }
    }

    /// For the typed parse. Dates and numbers that JSON has no room for become text, which no key accepts in their place.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::String(s) | Value::Datetime(s) => Json::String(s.clone()),
            Value::Bool(b) => Json::Bool(*b),
            Value::Integer(i) => serde_json::Number::from_i128(*i).map_or(Json::String(i.to_string()), Json::Number),
            Value::Float(x) => serde_json::Number::from_f64(*x).map_or(Json::String(x.to_string()), Json::Number),
            Value::Array(items) => Json::Array(items.iter().map(Tree::to_json).collect()),
            Value::Table(table) => Json::Object(table.iter().map(|(k, e)| (k.clone(), e.tree.to_json())).collect()),
        }
    }

    pub fn get(&self, key: &str) -> Option<&Tree> {
        match &self.value {
            Value::Table(table) => table.get(key).map(|e| &e.tree),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// The value as it would be written; `None` for lists and tables.
    pub fn shown(&self) -> Option<String> {
        let shown = match &self.value {
            Value::String(s) => quoted(s),
            Value::Integer(i128::MAX | i128::MIN) => return None,
            Value::Integer(i) => i.to_string(),
            Value::Float(x) => toml::Value::Float(*x).to_string(),
            Value::Bool(b) => b.to_string(),
            Value::Datetime(d) => d.clone(),
            Value::Array(_) | Value::Table(_) => return None,
        };
        if shown.contains('\n') {
            return None;
        }
        const LONGEST: usize = 60;
        if shown.chars().count() > LONGEST {
            return Some(shown.chars().take(LONGEST).chain("…".chars()).collect());
        }
        Some(shown)
    }

    /// The origin of what stands at `path` and, if it is written at all, itself. Of something that is not written, the
    /// origin of what would hold it.
    pub fn locate(&self, path: &Path) -> (Origin, Option<&Tree>) {
        let mut here = self;
        let mut origin = self.origin;
        for step in &path.0 {
            let next = match (step, &here.value) {
                (Step::Key(key), Value::Table(table)) => table.get(key).map(|e| (e.origin, &e.tree)),
                (Step::Index(i), Value::Array(items)) => items.get(*i).map(|t| (t.origin, t)),
                _ => None,
            };
            match next {
                Some((at, tree)) => (origin, here) = (at, tree),
                None => return (origin, None),
            }
        }
        (origin, Some(here))
    }
}
