//! Overrides: `key=value` from the command line or a sweep, applied to the document before it is
//! checked, so that an override is held to the same rules as the file.

use serde_json::Value as Json;
use toml::de::DeValue;

use super::check;
use super::error::unknown;
use super::file::{default_link_name, plain_name};
use super::tree::{Entry, KeyPath, Origin, Step, Tree, Value};

/// One override. The key is a dotted path; a list entry is addressed by its index
/// (`flows[0].tcp.cc`) or its name (`links.bottleneck.rate`). The value is TOML, or else text as it
/// stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// As the user gave it, for error messages: `--set duration=10s`.
    pub argument: String,
    /// The path of what changes.
    pub key: String,
    /// Its new value, as TOML.
    pub value: String,
}

impl Override {
    /// From the argument of `--set`. Without a `=` the error says what is expected.
    pub fn parse(set: &str) -> Result<Override, String> {
        match set.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok(Override {
                argument: format!("--set {set}"),
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
            }),
            _ => Err(format!("--set {set}: not an override: KEY=VALUE, such as `links.bottleneck.rate=50Mbit/s`")),
        }
    }

    /// From an option with a name of its own: `("--seed", "seed", "7")`.
    pub fn from_option(option: &str, key: &str, value: &str) -> Override {
        Override { argument: format!("{option} {value}"), key: key.to_owned(), value: value.to_owned() }
    }

    /// Changes the document, or says where it fails and why. `origin` is the override.
    pub(super) fn apply(&self, origin: Origin, root: &Json, document: &mut Tree) -> Result<(), (KeyPath, String)> {
        let steps = steps(&self.key).ok_or_else(|| {
            (
                KeyPath::default(),
                format!("`{}` is not a key: names with dots between, such as `flows[0].tcp.cc`", self.key),
            )
        })?;
        let mut path = KeyPath::default();
        let mut here = &mut *document;
        let mut schema = Some(root);
        for step in &steps {
            let found = into(here, step, root, schema).map_err(|message| (path.clone(), message))?;
            schema = match &found {
                Step::Key(key) => schema.and_then(|s| check::member(root, s, key)),
                Step::Index(_) => schema.map(|s| &check::resolve(root, s).1["items"]),
            };
            here = match (&mut here.value, &found) {
                (Value::Table(table), Step::Key(key)) => {
                    // A key that is not there yet starts as its default where that tells which kind
                    // it is.
                    let default = || match schema.map(|s| &s["default"]) {
                        Some(default) if schema.and_then(|s| check::tag_key(root, s)).is_some() => {
                            Tree::from_json(default.clone(), origin)
                        }
                        _ => Tree::table(origin),
                    };
                    let rank = table.len();
                    &mut table.entry(key.clone()).or_insert_with(|| Entry { origin, tree: default(), rank }).tree
                }
                (Value::Array(items), Step::Index(i)) => &mut items[*i],
                _ => unreachable!("`into` answers for what is here"),
            };
            path.0.push(found);
        }
        *here = self.tree(origin, schema.is_some_and(|s| check::takes_text_only(root, s)));
        mark(document, &path, origin);
        Ok(())
    }

    fn tree(&self, origin: Origin, text_only: bool) -> Tree {
        let text = || Tree { value: Value::String(self.value.clone()), origin };
        match DeValue::parse(&self.value) {
            Ok(value) if !text_only || value.get_ref().is_str() => {
                Tree::from_override(&value, origin).unwrap_or_else(|_| text())
            }
            _ => text(),
        }
    }
}

/// The last key of `path` now comes from the override.
fn mark(document: &mut Tree, path: &KeyPath, origin: Origin) {
    let mut here = document;
    for (i, step) in path.0.iter().enumerate() {
        here = match (&mut here.value, step) {
            (Value::Table(table), Step::Key(key)) => match table.get_mut(key) {
                Some(entry) => {
                    if i + 1 == path.0.len() {
                        entry.origin = origin;
                    }
                    &mut entry.tree
                }
                None => return,
            },
            (Value::Array(items), Step::Index(n)) => &mut items[*n],
            _ => return,
        };
    }
}

/// `a.b[2].c` as steps; `None` if it does not have that form.
fn steps(key: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for part in key.split('.') {
        let (name, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if !is_name {
            return None;
        }
        steps.push(Step::Key(name.to_owned()));
        while let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            rest = after;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(steps)
}

/// The step that `step` means at `here`: in a list a name becomes an index. A bare policy name
/// becomes a table, so that its parameters can be set.
fn into(here: &mut Tree, step: &Step, root: &Json, schema: Option<&Json>) -> Result<Step, String> {
    if let (Value::String(name), Step::Key(_)) = (&here.value, step) {
        if let Some(tag) = schema.and_then(|s| check::tag_key(root, s)) {
            let name = Tree { value: Value::String(name.clone()), origin: here.origin };
            let mut table = Tree::table(here.origin);
            if let Value::Table(entries) = &mut table.value {
                entries.insert(tag.to_owned(), Entry { origin: here.origin, tree: name, rank: 0 });
            }
            *here = table;
        }
    }
    match (&here.value, step) {
        (Value::Table(_), Step::Key(key)) => Ok(Step::Key(key.clone())),
        (Value::Array(items), Step::Index(i)) if *i < items.len() => Ok(Step::Index(*i)),
        (Value::Array(items), Step::Index(i)) => Err(format!("has no entry [{i}]: it has {}", items.len())),
        (Value::Array(items), Step::Key(key)) => {
            let names: Vec<String> = items.iter().map(entry_name).collect();
            let mut known: Vec<&str> = names.iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
            known.truncate(20);
            let found = names.iter().position(|n| n == key).map(Step::Index);
            found.ok_or_else(|| format!("`{key}`: {}", unknown("entry", key, &known, None)))
        }
        (_, Step::Index(_)) => Err("is not a list".to_owned()),
        (_, Step::Key(key)) => Err(format!("is not a table, so it has no `{key}`")),
    }
}

/// The name of a list entry; of a link or WLAN without one its default, of a station its node.
/// Empty if there is none.
fn entry_name(entry: &Tree) -> String {
    let text = |key| entry.get(key).and_then(Tree::as_str);
    match (text("name"), text("from"), text("to"), text("ap").or(text("node"))) {
        (Some(name), ..) => name.to_owned(),
        (None, Some(from), Some(to), _) => default_link_name(from, to),
        (None, None, None, Some(node)) => plain_name(node),
        _ => String::new(),
    }
}
