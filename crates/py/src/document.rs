//! `Document`: files with the place of everything, for formats that are declared in Python.

use std::collections::BTreeMap;
use std::path::PathBuf;

use airtcp_sim::document::{self, Entry, Faults, KeyPath, MAX_DEPTH, Origin, Tree, Value};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString};

create_exception!(
    _airtcp,
    DocumentError,
    PyValueError,
    "A file cannot be read, or is not what it should be. `faults` has a line for each fault."
);

fn raised(py: Python<'_>, faults: &Faults) -> PyErr {
    let error = DocumentError::new_err(faults.to_string());
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    error.value(py).setattr("faults", texts).map_or_else(|other| other, |()| error)
}

/// A JSON Schema, ready for use.
#[pyclass(module = "airtcp._airtcp", frozen)]
pub(crate) struct Schema(serde_json::Value);

#[pymethods]
impl Schema {
    #[new]
    fn new(text: &str) -> PyResult<Schema> {
        serde_json::from_str(text).map(Schema).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// One step into a document, as Python has it.
#[derive(FromPyObject)]
enum Step {
    Index(usize),
    Key(String),
}

fn path(steps: Vec<Step>) -> KeyPath {
    steps.into_iter().fold(KeyPath::default(), |path, step| match step {
        Step::Index(i) => path.index(i),
        Step::Key(key) => path.key(&key),
    })
}

/// A file, or values of a program, with the place of everything. A change makes another one.
#[pyclass(module = "airtcp._airtcp", frozen)]
pub(crate) struct Document(document::Document);

#[pymethods]
impl Document {
    /// From a TOML file; `what` should be in it, for messages.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, what: &str) -> PyResult<Document> {
        let read = py.detach(|| document::Document::load(&path, what));
        read.map(Document).map_err(|faults| raised(py, &faults))
    }
    /// From TOML that is called `file_name` in messages.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: &[u8], file_name: &str, what: &str) -> PyResult<Document> {
        let read = document::Document::parse_bytes(text, file_name, what);
        read.map(Document).map_err(|faults| raised(py, &faults))
    }
    /// From values of a program, called `name` in messages.
    #[staticmethod]
    fn of(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Document> {
        Ok(Document(document::Document::new(tree(value, Origin::Document, 0)?, name)))
    }

    /// Its contents as plain values. Keys are in the order of the file.
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        object(py, self.0.tree())
    }
    /// The line of the file at which something stands, or what would hold it.
    fn line(&self, at: Vec<Step>) -> Option<u32> {
        self.0.fault(&path(at), String::new()).line
    }
    /// `FILE:LINE: key`, as exactly as is known; of what is not from the file, what it is from.
    #[pyo3(name = "where")]
    fn place(&self, at: Vec<Step>) -> String {
        let fault = self.0.fault(&path(at), String::new());
        fault.argument.clone().unwrap_or_else(|| fault.place())
    }
    /// `FILE:LINE: key = value: message`.
    fn fault(&self, at: Vec<Step>, message: String) -> String {
        self.0.fault(&path(at), message).to_string()
    }
    /// Raises everything in which it differs from a schema.
    fn check(&self, py: Python<'_>, schema: &Schema) -> PyResult<()> {
        self.0.check(&schema.0).map_err(|faults| raised(py, &faults))
    }

    /// With a value in some place, which messages say came from `argument`.
    fn put(&self, at: Vec<Step>, value: &Bound<'_, PyAny>, argument: String) -> PyResult<Document> {
        let mut changed = self.0.clone();
        let origin = changed.argument(argument);
        changed.put(&path(at), tree(value, origin, 0)?, origin);
        Ok(Document(changed))
    }
    /// With what stands in one place in another, too.
    fn copy(&self, source: Vec<Step>, target: Vec<Step>) -> Document {
        let mut changed = self.0.clone();
        changed.copy(&path(source), &path(target));
        Document(changed)
    }
    /// Without what stands there.
    fn without(&self, at: Vec<Step>) -> Document {
        let mut changed = self.0.clone();
        changed.remove(&path(at));
        Document(changed)
    }
    /// With some entries of a list of another document in some place. They keep the places that
    /// they have there.
    fn graft(&self, at: Vec<Step>, other: &Document, key: &str, entries: Vec<usize>) -> Document {
        let mut changed = self.0.clone();
        if let Some(Value::Array(items)) = other.0.tree().get(key).map(|tree| &tree.value) {
            let chosen: Vec<Tree> = entries.iter().filter_map(|&i| items.get(i).cloned()).collect();
            changed.graft(&path(at), &other.0, &chosen);
        }
        Document(changed)
    }
}

/// The value of `KEY=VALUE`: TOML.
#[pyfunction]
pub(crate) fn parse_value(py: Python<'_>, text: &str) -> PyResult<Py<PyAny>> {
    object(py, &document::parse_value(text).map_err(PyValueError::new_err)?)
}

fn object(py: Python<'_>, tree: &Tree) -> PyResult<Py<PyAny>> {
    Ok(match &tree.value {
        Value::String(s) | Value::Other(s) => PyString::new(py, s).into_any().unbind(),
        Value::Integer(i) => i.into_pyobject(py)?.into_any().unbind(),
        Value::Float(x) => PyFloat::new(py, *x).into_any().unbind(),
        Value::Bool(b) => PyBool::new(py, *b).to_owned().into_any().unbind(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(object(py, item)?)?;
            }
            list.into_any().unbind()
        }
        Value::Table(table) => {
            let mut entries: Vec<(&String, &Entry)> = table.iter().collect();
            entries.sort_by_key(|(_, entry)| entry.rank);
            let dict = PyDict::new(py);
            for (key, entry) in entries {
                dict.set_item(key, object(py, &entry.tree)?)?;
            }
            dict.into_any().unbind()
        }
    })
}

fn tree(value: &Bound<'_, PyAny>, origin: Origin, depth: usize) -> PyResult<Tree> {
    let other = || -> PyResult<Value> { Ok(Value::Other(value.repr()?.to_string())) };
    let converted = if depth > MAX_DEPTH {
        Value::Other(format!("nested deeper than {MAX_DEPTH}"))
    } else if let Ok(b) = value.cast::<PyBool>() {
        Value::Bool(b.is_true())
    } else if let Ok(i) = value.cast::<PyInt>() {
        // A number that does not fit is far outside every range; saturating keeps it there.
        let widest = || if i.lt(0).unwrap_or(false) { i128::MIN } else { i128::MAX };
        Value::Integer(i.extract().unwrap_or_else(|_| widest()))
    } else if let Ok(x) = value.cast::<PyFloat>() {
        Value::Float(x.value())
    } else if let Ok(s) = value.cast::<PyString>() {
        s.to_str().map_or_else(|_| other(), |s| Ok(Value::String(s.to_owned())))?
    } else if let Ok(map) = value.cast::<PyMapping>() {
        let mut table = BTreeMap::new();
        for (rank, pair) in map.items()?.iter().enumerate() {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            let name = key.cast::<PyString>().ok().and_then(|s| s.to_str().ok().map(str::to_owned));
            let (name, tree) = match name {
                Some(name) => (name, tree(&value, origin, depth + 1)?),
                // No key of ours is written like that, so that it is refused by its name.
                None => {
                    let name = key.repr()?.to_string();
                    (name, Tree { value: Value::Other("a key that is no text".to_owned()), origin })
                }
            };
            table.insert(name, Entry { origin, tree, rank });
        }
        Value::Table(table)
    } else if value.is_instance_of::<PyBytes>() {
        other()?
    } else if let Ok(sequence) = value.cast::<PySequence>() {
        let mut items = Vec::new();
        for item in sequence.try_iter()? {
            items.push(tree(&item?, origin, depth + 1)?);
        }
        Value::Array(items)
    } else {
        other()?
    };
    Ok(Tree { value: converted, origin })
}
