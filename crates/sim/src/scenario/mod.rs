//! Scenario files: TOML (or JSON) in, a fully determined [`RunSpec`] out.
//!
//! [`Scenario::parse`] reads the text, applies overrides, and holds every key, type, name and range against the schema;
//! [`Scenario::to_spec`] checks what only the whole can tell (references, sums, times that must fit each other) and
//! expands groups into members. Both report everything they find at once, each fault with its file, line, key and value.
//! What a file means does not depend on the machine that reads it.

mod buffer;
mod check;
mod error;
mod expand;
pub mod file;
mod overrides;
mod schema;
mod tree;

use std::io::Read;
use std::path::Path as FsPath;

use serde_json::Value as Json;
use toml::de::DeTable;

pub use error::{ScenarioError, ScenarioErrors};
pub use file::ScenarioFile;
pub use overrides::Override;
pub use schema::schema;

use crate::spec::RunSpec;
use tree::{Lines, Origin, Path, Tree};

/// Scenario files are not larger than this; something else that is opened by mistake may be endless.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A scenario whose keys, types and ranges are right.
#[derive(Debug, Clone)]
pub struct Scenario {
    file: ScenarioFile,
    source: Source,
}

/// The document and what errors need to point into it.
#[derive(Debug, Clone)]
struct Source {
    file_name: String,
    arguments: Vec<String>,
    tree: Tree,
}

impl Source {
    fn error(&self, path: &Path, message: String) -> ScenarioError {
        let (origin, tree) = self.tree.locate(path);
        let (line, argument) = match origin {
            // The document as a whole is not at a line.
            _ if path.0.is_empty() => (None, None),
            Origin::Line(line) => (Some(line), None),
            Origin::Override(i) => (None, Some(self.arguments[i].clone())),
            Origin::Document => (None, None),
        };
        let value = tree.and_then(Tree::shown);
        ScenarioError { file: self.file_name.clone(), line, argument, key: path.to_string(), value, message }
    }
}

fn whole_file(file_name: &str, line: Option<u32>, message: String) -> ScenarioErrors {
    let file = file_name.to_owned();
    ScenarioError { file, line, argument: None, key: String::new(), value: None, message }.into()
}

impl Scenario {
    /// Reads a file and parses it.
    pub fn load(path: &FsPath, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        let file_name = path.display().to_string();
        let fail = |message: String| whole_file(&file_name, None, message);
        if path.is_dir() {
            return Err(fail("is a directory, not a scenario file".to_owned()));
        }
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path).and_then(|f| f.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(|error| fail(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(fail(format!("is larger than {} MiB: not a scenario file", MAX_FILE_BYTES >> 20)));
        }
        Scenario::parse_bytes(&bytes, &file_name, overrides)
    }

    /// As [`Scenario::parse`], of bytes that may not be text.
    pub fn parse_bytes(bytes: &[u8], file_name: &str, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        if bytes.contains(&0) {
            return Err(whole_file(file_name, None, "is a binary file, not a scenario in TOML".to_owned()));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Scenario::parse(text, file_name, overrides),
            Err(error) => {
                let valid = &bytes[..error.valid_up_to()];
                let line = 1 + valid.iter().filter(|&&b| b == b'\n').count() as u32;
                Err(whole_file(file_name, Some(line), "is not UTF-8 text".to_owned()))
            }
        }
    }

    /// Parses TOML. `file_name` is for error messages and the default name only.
    pub fn parse(text: &str, file_name: &str, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        let lines = Lines::new(text);
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map(|span| lines.at(span.start));
            whole_file(file_name, line, format!("not TOML: {}", error.message().replace('\n', "; ")))
        })?;
        if table.get_ref().is_empty() {
            return Err(whole_file(file_name, None, EMPTY.to_owned()));
        }
        Scenario::from_tree(Tree::from_toml(&table, &lines), file_name, overrides)
    }

    /// Parses JSON of the same structure. Members that are `null` count as absent. Errors name keys but no lines.
    pub fn parse_json(text: &str, file_name: &str, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        let json: Json = serde_json::from_str(text)
            .map_err(|error| whole_file(file_name, u32::try_from(error.line()).ok(), format!("not JSON: {error}")))?;
        match &json {
            Json::Object(map) if map.is_empty() => Err(whole_file(file_name, None, EMPTY.to_owned())),
            Json::Object(_) => Scenario::from_tree(Tree::from_json(json, Origin::Document), file_name, overrides),
            _ => Err(whole_file(file_name, None, "not a JSON object".to_owned())),
        }
    }

    fn from_tree(mut tree: Tree, file_name: &str, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        let schema = schema();
        let mut errors = Vec::new();
        for (i, over) in overrides.iter().enumerate() {
            if let Err((path, message)) = over.apply(i, schema, &mut tree) {
                let (file, argument) = (file_name.to_owned(), Some(over.argument.clone()));
                let key = path.to_string();
                errors.push(ScenarioError { file, line: None, argument, key, value: None, message });
            }
        }
        let arguments = overrides.iter().map(|o| o.argument.clone()).collect();
        let source = Source { file_name: file_name.to_owned(), arguments, tree };
        check::check(schema, &source.tree, &mut |path, message| errors.push(source.error(path, message)));
        ScenarioErrors::check(errors)?;

        // What the schema cannot say about a policy's parameters its own type says here.
        let file = serde_path_to_error::deserialize(source.tree.to_json()).map_err(|error| {
            use serde_path_to_error::Segment;
            let mut path = Path::default();
            for segment in error.path() {
                path = match segment {
                    Segment::Map { key } => path.key(key),
                    Segment::Seq { index } => path.index(*index),
                    Segment::Enum { .. } | Segment::Unknown => path,
                };
            }
            source.error(&path, error.inner().to_string())
        })?;
        Ok(Scenario { file, source })
    }

    /// The scenario's name, or that of its file.
    pub fn name(&self) -> &str {
        let stem = || FsPath::new(&self.source.file_name).file_stem().and_then(|s| s.to_str());
        self.file.name.as_deref().or_else(stem).unwrap_or("scenario")
    }

    /// What was written, overrides applied.
    pub fn file(&self) -> &ScenarioFile {
        &self.file
    }

    /// Checks what the schema cannot and expands groups.
    pub fn to_spec(&self) -> Result<RunSpec, ScenarioErrors> {
        expand::expand(&self.file, &self.source)
    }

    /// The scenario with overrides applied and defaults written out, as TOML that parses to the same run.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.resolved()).expect("every scenario can be written as TOML: see the tests")
    }

    /// As [`Scenario::to_toml`], as JSON for [`Scenario::parse_json`].
    pub fn to_json(&self) -> Json {
        serde_json::to_value(self.resolved()).expect("every scenario can be written as JSON: see the tests")
    }

    fn resolved(&self) -> ScenarioFile {
        let mut file = self.file.clone();
        file.name = Some(self.name().to_owned());
        file.record.interval = Some(file.record.interval_of(file.duration));
        for link in &mut file.links {
            link.name = Some(link.name().into_owned());
        }
        for wlan in &mut file.wlans {
            wlan.name = Some(wlan.name().into_owned());
        }
        for node in &mut file.nodes {
            if node.kind == file::NodeKind::Host && node.profile.is_none() {
                node.profile = Some(file::defaults::profile());
            }
        }
        for flow in &mut file.flows {
            flow.traffic = file::Traffic::Table(flow.traffic.table().into_owned());
        }
        file
    }
}

const EMPTY: &str = "is empty: a scenario has at least `duration`, `nodes` and `links`";

#[cfg(test)]
mod tests;
