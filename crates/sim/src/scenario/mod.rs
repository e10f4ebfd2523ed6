//! Scenario files: TOML (or JSON) in, a fully determined [`RunSpec`] out.
//!
//! [`Scenario::parse`] reads the text, applies overrides, and holds every key, type, name and range
//! against the schema; [`Scenario::to_spec`] checks what only the whole can tell (references, sums,
//! times that must fit each other) and expands groups into members. Both report everything they
//! find at once, each fault with its file, line, key and value. The meaning of a file does not
//! depend on the machine that reads it.

mod attach;
mod buffer;
mod expand;
pub mod file;
mod overrides;
mod schema;

use std::path::Path;

use serde_json::Value as Json;

pub use attach::Attach;

pub use crate::document::{Fault as ScenarioError, Faults as ScenarioErrors};
pub use file::ScenarioFile;
pub use overrides::Override;
pub use schema::schema;

use crate::document::{Document, check, error, tree};
use crate::spec::RunSpec;
use tree::KeyPath;

/// A scenario whose keys, types and ranges are right.
#[derive(Debug, Clone)]
pub struct Scenario {
    file: ScenarioFile,
    source: Document,
}

impl Scenario {
    /// Reads a file and parses it.
    pub fn load(path: &Path, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        Scenario::from_document(Document::load(path, "scenario")?, overrides)
    }

    /// As [`Scenario::parse`], of bytes that may not be text.
    pub fn parse_bytes(bytes: &[u8], file_name: &str, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        Scenario::from_document(Document::parse_bytes(bytes, file_name, "scenario")?, overrides)
    }

    /// Parses TOML. `file_name` is for error messages and the default name only.
    pub fn parse(text: &str, file_name: &str, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        Scenario::from_document(Document::parse(text, file_name)?, overrides)
    }

    /// Parses JSON of the same structure. Members that are `null` count as absent. Errors name keys
    /// but no lines.
    pub fn parse_json(text: &str, file_name: &str, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        Scenario::from_document(Document::parse_json(text, file_name)?, overrides)
    }

    fn from_document(mut source: Document, overrides: &[Override]) -> Result<Scenario, ScenarioErrors> {
        if source.is_empty() {
            return Err(source.fault(&KeyPath::default(), EMPTY.to_owned()).into());
        }
        let schema = schema();
        let mut errors = Vec::new();
        for over in overrides {
            let origin = source.argument(over.argument.clone());
            if let Err((path, message)) = over.apply(origin, schema, source.tree_mut()) {
                let (file, argument) = (source.file_name().to_owned(), Some(over.argument.clone()));
                let key = path.to_string();
                errors.push(ScenarioError { file, line: None, argument, key, value: None, message });
            }
        }
        check::check(schema, source.tree(), &mut |path, message| errors.push(source.fault(path, message)));
        ScenarioErrors::check(errors)?;

        // The type of a policy's parameters checks here what the schema cannot say about them.
        let file = serde_path_to_error::deserialize(source.tree().to_json()).map_err(|error| {
            use serde_path_to_error::Segment;
            let mut path = KeyPath::default();
            for segment in error.path() {
                path = match segment {
                    Segment::Map { key } => path.key(key),
                    Segment::Seq { index } => path.index(*index),
                    Segment::Enum { .. } | Segment::Unknown => path,
                };
            }
            source.fault(&path, error.inner().to_string())
        })?;
        Ok(Scenario { file, source })
    }

    /// The scenario's name, or that of its file.
    pub fn name(&self) -> &str {
        let stem = || Path::new(self.source.file_name()).file_stem().and_then(|s| s.to_str());
        self.file.name.as_deref().or_else(stem).unwrap_or("scenario")
    }

    /// The file as written, overrides applied.
    pub fn file(&self) -> &ScenarioFile {
        &self.file
    }

    /// Checks what the schema cannot and expands groups.
    pub fn to_spec(&self) -> Result<RunSpec, ScenarioErrors> {
        self.to_spec_attached(&Attach::default())
    }

    /// As [`Scenario::to_spec`], with real programs on more hosts than the file says.
    pub fn to_spec_attached(&self, attach: &Attach) -> Result<RunSpec, ScenarioErrors> {
        expand::expand(&self.file, &self.source, attach)
    }

    /// The scenario with overrides applied and defaults written out, as TOML that parses to the
    /// same run.
    pub fn to_toml(&self) -> String {
        toml::to_string(erased(&self.resolved())).expect("every scenario can be written as TOML: see the tests")
    }

    /// As [`Scenario::to_toml`], as JSON for [`Scenario::parse_json`].
    pub fn to_json(&self) -> Json {
        serde_json::to_value(erased(&self.resolved())).expect("every scenario can be written as JSON: see the tests")
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
        file
    }
}

/// The file without its type: what writes it is then compiled once for all formats, not once for
/// each.
fn erased(file: &ScenarioFile) -> &dyn erased_serde::Serialize {
    file
}

const EMPTY: &str = "is empty: a scenario has at least `duration`, `nodes` and `links`";

#[cfg(test)]
mod tests;
