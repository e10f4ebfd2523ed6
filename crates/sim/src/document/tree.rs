//! A document with the place of every key and value: what the checks walk over and what errors
//! point into.

use std::collections::BTreeMap;
use std::fmt;

use airtcp_core::convert::count;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Tables and lists within each other. More is no file for people, and would exhaust the stack.
pub const MAX_DEPTH: usize = 100;

/// Where a value was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Line of the file, from 1.
    Line(u32),
    /// Index of another file, and the line there.
    Elsewhere(usize, u32),
    /// Index of the override.
    Override(usize),
    /// A document without lines (JSON).
    Document,
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The value.
    pub value: Value,
    /// Where it stands.
    pub origin: Origin,
}

/// A value of a document.
#[derive(Debug, Clone)]
pub enum Value {
    /// Text.
    String(String),
    /// A number without a fraction.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A date, or something else that no key takes, as it is shown.
    Other(String),
    /// A list.
    Array(Vec<Tree>),
    /// A table, by key.
    Table(BTreeMap<String, Entry>),
}

/// A key's value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Where the key stands.
    pub origin: Origin,
    /// Its value.
    pub tree: Tree,
    /// Keys of a table are in the order of their ranks.
    pub rank: usize,
}

/// One step of a [`KeyPath`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into a table.
    Key(String),
    /// Into a list, from 0.
    Index(usize),
}

/// A place in a document: `links[0].rate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPath(pub Vec<Step>);

impl KeyPath {
    /// The place of this key in the table at this one.
    pub fn key(&self, key: &str) -> KeyPath {
        self.with(Step::Key(key.to_owned()))
    }
    /// The place of this entry in the list at this one.
    pub fn index(&self, index: usize) -> KeyPath {
        self.with(Step::Index(index))
    }
    fn with(&self, step: Step) -> KeyPath {
        let mut path = self.clone();
        path.0.push(step);
        path
    }
}

impl fmt::Display for KeyPath {
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

/// Bytes of the text.
pub(crate) type TextRange = std::ops::Range<usize>;

/// Line numbers of byte offsets.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn new(text: &str) -> Lines {
        Lines(std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect())
    }
    /// The line, from 1, that holds the byte at `offset`.
    pub(crate) fn at(&self, offset: usize) -> u32 {
        count(self.0.partition_point(|&start| start <= offset))
    }
}

impl Tree {
    /// An empty table.
    pub fn table(origin: Origin) -> Tree {
        Tree { value: Value::Table(BTreeMap::new()), origin }
    }

    /// Or the line at which it is nested too deep.
    pub(crate) fn from_toml(table: &Spanned<DeTable>, lines: &Lines) -> Result<Tree, u32> {
        Tree::from_table(table.get_ref(), &|span| Origin::Line(lines.at(span.start)), table.span(), 0)
            .map_err(|at| lines.at(at.start))
    }

    /// A value of an override: every part of it has the same origin.
    pub(crate) fn from_override(value: &Spanned<DeValue>, origin: Origin) -> Result<Tree, TextRange> {
        Tree::from_value(value, &|_| origin, 0)
    }

    fn from_table(
        table: &DeTable,
        origin: &dyn Fn(TextRange) -> Origin,
        at: TextRange,
        depth: usize,
    ) -> Result<Tree, TextRange> {
        let mut keys: Vec<_> = table.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        let mut entries = BTreeMap::new();
        for (rank, (key, value)) in keys.into_iter().enumerate() {
            let tree = Tree::from_value(value, origin, depth + 1)?;
            entries.insert(key.get_ref().to_string(), Entry { origin: origin(key.span()), tree, rank });
        }
        Ok(Tree { value: Value::Table(entries), origin: origin(at) })
    }

    fn from_value(
        value: &Spanned<DeValue>,
        origin: &dyn Fn(TextRange) -> Origin,
        depth: usize,
    ) -> Result<Tree, TextRange> {
        let at = value.span();
        if depth > MAX_DEPTH {
            return Err(at);
        }
        let converted = match value.get_ref() {
            DeValue::String(s) => Value::String(s.to_string()),
            DeValue::Integer(i) => {
                // A number that does not fit is far outside every range; saturating keeps it there.
                let parsed = i128::from_str_radix(i.as_str(), i.radix());
                Value::Integer(parsed.unwrap_or(if i.as_str().starts_with('-') { i128::MIN } else { i128::MAX }))
            }
            DeValue::Float(x) => Value::Float(x.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(b) => Value::Bool(*b),
            DeValue::Datetime(d) => Value::Other(d.to_string()),
            DeValue::Array(items) => {
                let items: Result<Vec<Tree>, TextRange> =
                    items.iter().map(|v| Tree::from_value(v, origin, depth + 1)).collect();
                Value::Array(items?)
            }
            DeValue::Table(table) => return Tree::from_table(table, origin, at, depth),
        };
        Ok(Tree { value: converted, origin: origin(at) })
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
                    .enumerate()
                    .map(|(rank, (key, v))| (key, Entry { origin, tree: Tree::from_json(v, origin), rank }))
                    .collect(),
            ),
        };
        Tree { value, origin }
    }

    /// For the typed parse. Dates and numbers that JSON has no room for become text, which no key
    /// accepts in their place.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::String(s) | Value::Other(s) => Json::String(s.clone()),
            Value::Bool(b) => Json::Bool(*b),
            Value::Integer(i) => serde_json::Number::from_i128(*i).map_or(Json::String(i.to_string()), Json::Number),
            Value::Float(x) => serde_json::Number::from_f64(*x).map_or(Json::String(x.to_string()), Json::Number),
            Value::Array(items) => Json::Array(items.iter().map(Tree::to_json).collect()),
            Value::Table(table) => Json::Object(table.iter().map(|(k, e)| (k.clone(), e.tree.to_json())).collect()),
        }
    }

    /// The value of a key, if this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Tree> {
        match &self.value {
            Value::Table(table) => table.get(key).map(|e| &e.tree),
            _ => None,
        }
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// Puts a value at a path; a key that is there keeps its rank. Tables on the way are made,
    /// entries of lists are not.
    pub(crate) fn put(&mut self, path: &[Step], origin: Origin, new: Tree) {
        match path.split_first() {
            None => *self = new,
            Some((Step::Index(i), rest)) => {
                if let Value::Array(items) = &mut self.value {
                    if let Some(item) = items.get_mut(*i) {
                        item.put(rest, origin, new);
                    }
                }
            }
            Some((Step::Key(key), rest)) => {
                if !matches!(self.value, Value::Table(_)) {
                    self.value = Value::Table(BTreeMap::new());
                }
                let Value::Table(table) = &mut self.value else { return };
                let rank = table.len();
                let made = || Entry { origin, tree: Tree::table(origin), rank };
                let entry = table.entry(key.clone()).or_insert_with(made);
                if rest.is_empty() {
                    entry.origin = origin;
                }
                entry.tree.put(rest, origin, new);
            }
        }
    }

    /// Removes what stands at a path.
    pub(crate) fn remove(&mut self, path: &[Step]) {
        let Some((last, outer)) = path.split_last() else { return };
        let mut here = self;
        for step in outer {
            let next = match (&mut here.value, step) {
                (Value::Table(table), Step::Key(key)) => table.get_mut(key).map(|e| &mut e.tree),
                (Value::Array(items), Step::Index(i)) => items.get_mut(*i),
                _ => None,
            };
            match next {
                Some(tree) => here = tree,
                None => return,
            }
        }
        match (&mut here.value, last) {
            (Value::Table(table), Step::Key(key)) => {
                table.remove(key);
            }
            (Value::Array(items), Step::Index(i)) if *i < items.len() => {
                items.remove(*i);
            }
            _ => {}
        }
    }

    /// The same, from another file.
    pub(crate) fn moved_from(&self, file: usize) -> Tree {
        let moved = |origin| match origin {
            Origin::Line(line) => Origin::Elsewhere(file, line),
            other => other,
        };
        let value = match &self.value {
            Value::Array(items) => Value::Array(items.iter().map(|t| t.moved_from(file)).collect()),
            Value::Table(table) => {
                let entries = table.iter().map(|(key, e)| {
                    (key.clone(), Entry { origin: moved(e.origin), tree: e.tree.moved_from(file), rank: e.rank })
                });
                Value::Table(entries.collect())
            }
            plain => plain.clone(),
        };
        Tree { value, origin: moved(self.origin) }
    }

    /// The value as it would be written; `None` for lists and tables.
    pub fn shown(&self) -> Option<String> {
        let shown = match &self.value {
            Value::String(s) => quoted(s),
            Value::Integer(i128::MAX | i128::MIN) => return None,
            Value::Integer(i) => i.to_string(),
            Value::Float(x) => toml::Value::Float(*x).to_string(),
            Value::Bool(b) => b.to_string(),
            Value::Other(d) => d.clone(),
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

    /// The origin of the value at `path`, and the value itself if it is written. If it is not
    /// written, the origin of the table or list that would hold it.
    pub fn locate(&self, path: &KeyPath) -> (Origin, Option<&Tree>) {
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
