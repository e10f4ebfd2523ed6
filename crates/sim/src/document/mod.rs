//! Files in TOML (or JSON, or values of a program) as one tree that knows where everything was
//! written.
//!
//! Scenarios, sweeps and studies are read here: [`Document::load`] says in the same words what is
//! no file of text, [`Document::check`] holds keys, types and ranges against a JSON Schema and
//! finds everything wrong at once, and [`Document::fault`] gives any later finding its file, line,
//! key and value.

pub(crate) mod check;
pub(crate) mod error;
pub(crate) mod tree;

use std::io::Read;
use std::path::Path;

use airtcp_core::convert::count;
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

pub use error::{Fault, Faults};
pub use tree::{Entry, KeyPath, MAX_DEPTH, Origin, Step, Tree, Value};

use tree::Lines;

/// Largest file. A device that is opened by mistake may be endless.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A document with the places of its values.
#[derive(Debug, Clone)]
pub struct Document {
    file_name: String,
    /// Files whose parts were inserted.
    others: Vec<String>,
    /// Sources of values that are not from a file.
    arguments: Vec<String>,
    tree: Tree,
}

fn whole_file(file_name: &str, line: Option<u32>, message: String) -> Faults {
    let file = file_name.to_owned();
    Fault { file, line, argument: None, key: String::new(), value: None, message }.into()
}

fn not_toml(error: &toml::de::Error) -> String {
    match error.message() {
        // The parser's two limits: for keys of many parts, and for values.
        "recursion limit" | "cannot recurse further; max recursion depth met" => "not TOML: nested too deep".to_owned(),
        message => format!("not TOML: {}", message.replace('\n', "; ")),
    }
}

impl Document {
    /// `file_name` is for messages only.
    pub fn new(tree: Tree, file_name: &str) -> Document {
        Document { file_name: file_name.to_owned(), others: Vec::new(), arguments: Vec::new(), tree }
    }

    /// Reads a file. `what` should be in it, for messages: `scenario`.
    pub fn load(path: &Path, what: &str) -> Result<Document, Faults> {
        let file_name = path.display().to_string();
        let fail = |message: String| whole_file(&file_name, None, message);
        if path.is_dir() {
            return Err(fail(format!("is a directory, not a {what} file")));
        }
        // A pipe would be waited for, and a device may never end.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(fail(format!("is not a regular file: not a {what} file")));
        }
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path).and_then(|f| f.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(|error| fail(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(fail(format!("is larger than {} MiB: not a {what} file", MAX_FILE_BYTES >> 20)));
        }
        Document::parse_bytes(&bytes, &file_name, what)
    }

    /// As [`Document::parse`], of bytes that may not be text.
    pub fn parse_bytes(bytes: &[u8], file_name: &str, what: &str) -> Result<Document, Faults> {
        if bytes.contains(&0) {
            return Err(whole_file(file_name, None, format!("is a binary file, not a {what} in TOML")));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Document::parse(text, file_name),
            Err(error) => {
                let valid = &bytes[..error.valid_up_to()];
                let line = 1 + count(valid.iter().filter(|&&b| b == b'\n').count());
                Err(whole_file(file_name, Some(line), "is not UTF-8 text".to_owned()))
            }
        }
    }

    /// Parses TOML.
    pub fn parse(text: &str, file_name: &str) -> Result<Document, Faults> {
        let lines = Lines::new(text);
        let table = DeTable::parse(text)
            .map_err(|error| whole_file(file_name, error.span().map(|span| lines.at(span.start)), not_toml(&error)))?;
        match Tree::from_toml(&table, &lines) {
            Ok(tree) => Ok(Document::new(tree, file_name)),
            Err(line) => {
                Err(whole_file(file_name, Some(line), format!("tables and lists are nested deeper than {MAX_DEPTH}")))
            }
        }
    }

    /// Parses JSON of the same structure. Members that are `null` count as absent. Faults name keys
    /// but no lines.
    pub fn parse_json(text: &str, file_name: &str) -> Result<Document, Faults> {
        let json: Json = serde_json::from_str(text)
            .map_err(|error| whole_file(file_name, u32::try_from(error.line()).ok(), format!("not JSON: {error}")))?;
        match json {
            Json::Object(_) => Ok(Document::new(Tree::from_json(json, Origin::Document), file_name)),
            _ => Err(whole_file(file_name, None, "not a JSON object".to_owned())),
        }
    }

    /// As faults name it.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// All that stands in it.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// A name for values that do not come from a file, for messages: `--set n=5`.
    pub fn argument(&mut self, name: String) -> Origin {
        self.arguments.push(name);
        Origin::Override(self.arguments.len() - 1)
    }

    /// True if it is empty.
    pub fn is_empty(&self) -> bool {
        matches!(&self.tree.value, Value::Table(table) if table.is_empty())
    }

    /// A fault at `path`, with its file, line and value.
    pub fn fault(&self, path: &KeyPath, message: String) -> Fault {
        let (origin, tree) = self.tree.locate(path);
        let mut fault = Fault {
            file: self.file_name.clone(),
            line: None,
            argument: None,
            key: path.to_string(),
            value: tree.and_then(Tree::shown),
            message,
        };
        match origin {
            // The document as a whole is not at a line.
            _ if path.0.is_empty() => {}
            Origin::Line(line) => fault.line = Some(line),
            Origin::Elsewhere(file, line) => {
                fault.file.clone_from(&self.others[file]);
                fault.line = Some(line);
            }
            Origin::Override(i) => fault.argument = Some(self.arguments[i].clone()),
            Origin::Document => {}
        }
        fault
    }

    /// All faults against a JSON Schema.
    pub fn check(&self, schema: &Json) -> Result<(), Faults> {
        let mut found = Vec::new();
        check::check(schema, &self.tree, &mut |path, message| found.push(self.fault(path, message)));
        Faults::check(found)
    }

    /// Sets the value at a path. Missing tables on the way are made.
    pub fn put(&mut self, path: &KeyPath, tree: Tree, origin: Origin) {
        self.tree.put(&path.0, origin, tree);
    }

    /// Copies the value at one path to another, with its places. A missing value is not copied.
    pub fn copy(&mut self, from: &KeyPath, to: &KeyPath) {
        if let (origin, Some(tree)) = self.tree.locate(from) {
            let tree = tree.clone();
            self.tree.put(&to.0, origin, tree);
        }
    }

    /// Removes the value at a path.
    pub fn remove(&mut self, path: &KeyPath) {
        self.tree.remove(&path.0);
    }

    /// Puts parts of another document as a list at a path; they keep the places that they have
    /// there.
    pub fn graft(&mut self, path: &KeyPath, other: &Document, items: &[Tree]) {
        let file = self.others.len();
        self.others.push(other.file_name.clone());
        let items = items.iter().map(|tree| tree.moved_from(file)).collect();
        let (origin, _) = self.tree.locate(path);
        self.tree.put(&path.0, origin, Tree { value: Value::Array(items), origin });
    }
}

/// A value as it stands after `KEY=`.
pub fn parse_value(text: &str) -> Result<Tree, String> {
    let value = DeValue::parse(text).map_err(|error| not_toml(&error))?;
    Tree::from_override(&value, Origin::Document).map_err(|_| format!("nested deeper than {MAX_DEPTH}"))
}

#[cfg(test)]
mod tests;
