//! Python bindings. No logic lives here.

mod analyze;
mod document;

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use airtcp_core::convert::floor64;
use airtcp_core::policy::Page;
use airtcp_core::tcp::profile::{profile_file, profile_names};
use airtcp_core::units::Time;
use airtcp_sim::capture::{CaptureSink, NoCapture, PcapngWriter};
use airtcp_sim::record::{Data, Table};
use airtcp_sim::scenario::{Override, Scenario, ScenarioError as Fault, ScenarioErrors};
use airtcp_sim::spec::RunSpec;
use airtcp_sim::world::{Threads, Worlds};
use numpy::IntoPyArray;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};

create_exception!(
    _airtcp,
    ScenarioError,
    PyValueError,
    "A scenario or an override is wrong. The message holds what was found; `errors` lists it fault by fault."
);

create_exception!(
    _airtcp,
    RunError,
    PyRuntimeError,
    "A run cannot go on: it has outgrown what memory is for, or the audit found that its books do not agree."
);

fn scenario_error(py: Python<'_>, message: String, faults: &[&Fault]) -> PyErr {
    let error = ScenarioError::new_err(message);
    let attach = || -> PyResult<()> {
        let list = PyList::empty(py);
        for fault in faults {
            let entry = PyDict::new(py);
            entry.set_item("file", &fault.file)?;
            entry.set_item("line", fault.line)?;
            entry.set_item("argument", &fault.argument)?;
            entry.set_item("key", &fault.key)?;
            entry.set_item("value", &fault.value)?;
            entry.set_item("message", &fault.message)?;
            list.append(entry)?;
        }
        error.value(py).setattr("errors", list)
    };
    attach().map_or_else(|other| other, |()| error)
}

/// The JSON Schema of scenario files, as text.
#[pyfunction]
fn schema() -> String {
    format!("{:#}", airtcp_sim::scenario::schema())
}

/// Names of everything registered, by what it is.
#[pyfunction]
fn names(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let names = PyDict::new(py);
    names.set_item("profiles", profile_names().collect::<Vec<_>>())?;
    for axis in airtcp_sim::axes() {
        names.set_item(axis.key, axis.pages.iter().map(|page| page.name).collect::<Vec<_>>())?;
    }
    Ok(names)
}

/// The page of every registered policy, in the order of registration.
#[pyfunction]
fn pages(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let pages = PyList::empty(py);
    for axis in airtcp_sim::axes() {
        for page in axis.pages {
            let entry = PyDict::new(py);
            entry.set_item("axis", axis.key)?;
            entry.set_item("what", axis.what)?;
            entry.set_item("place", axis.place)?;
            entry.set_item("definition", axis.definition)?;
            entry.set_item("name", page.name)?;
            entry.set_item("rust_type", page.rust_type)?;
            entry.set_item("decides", page.decides())?;
            let parts = PyDict::new(py);
            for label in Page::LABELS {
                if let Some(text) = page.part(label) {
                    parts.set_item(label, text)?;
                }
            }
            entry.set_item("parts", parts)?;
            entry.set_item("details", page.details())?;
            pages.append(entry)?;
        }
    }
    Ok(pages)
}

/// A host profile's file, TOML with comments; `None` if there is no such profile.
#[pyfunction]
fn profile(name: &str) -> Option<&'static str> {
    profile_file(name)
}

/// Which engine this is: the package's version and a hash of everything that decides the results of
/// a run (see `crates/identity`). Equal on all machines that built the same sources; comments and
/// tests do not change it.
#[pyfunction]
fn engine() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), "+", env!("AIRTCP_ENGINE_HASH"))
}

/// A change of a scenario: its name in an error, its key, its value as TOML or bare text.
type Change = (String, String, String);

fn overrides(changes: Vec<Change>) -> Vec<Override> {
    changes.into_iter().map(|(argument, key, value)| Override { argument, key, value }).collect()
}

/// Splits the argument of `--set`.
#[pyfunction]
fn parse_set(py: Python<'_>, argument: &str) -> PyResult<Change> {
    let parsed = Override::parse(argument).map_err(|message| scenario_error(py, message, &[]))?;
    Ok((parsed.argument, parsed.key, parsed.value))
}

/// A scenario that was read, changed and found valid.
#[pyclass(module = "airtcp._airtcp", frozen)]
struct Checked {
    scenario: Scenario,
    spec: Arc<RunSpec>,
}

impl Checked {
    fn new(py: Python<'_>, read: impl FnOnce() -> Result<Scenario, ScenarioErrors> + Send) -> PyResult<Checked> {
        py.detach(|| {
            let scenario = read()?;
            let spec = Arc::new(scenario.to_spec()?);
            Ok(Checked { scenario, spec })
        })
        .map_err(|found: ScenarioErrors| scenario_error(py, found.to_string(), &found.iter().collect::<Vec<_>>()))
    }
}

#[pymethods]
impl Checked {
    /// From a TOML file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, changes: Vec<Change>) -> PyResult<Checked> {
        Checked::new(py, || Scenario::load(&path, &overrides(changes)))
    }
    /// From TOML that is called `file_name` in errors.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: &[u8], file_name: &str, changes: Vec<Change>) -> PyResult<Checked> {
        Checked::new(py, || Scenario::parse_bytes(text, file_name, &overrides(changes)))
    }
    /// From JSON of the same structure.
    #[staticmethod]
    fn from_json(py: Python<'_>, text: &str, file_name: &str, changes: Vec<Change>) -> PyResult<Checked> {
        Checked::new(py, || Scenario::parse_json(text, file_name, &overrides(changes)))
    }
    /// The scenario with changes applied and defaults written out.
    fn to_json(&self) -> String {
        self.scenario.to_json().to_string()
    }
    /// As `to_json`, as TOML.
    fn to_toml(&self) -> String {
        self.scenario.to_toml()
    }
    /// Nodes, links and flows once groups are expanded.
    fn counts(&self) -> (usize, usize, usize) {
        (self.spec.nodes.len(), self.spec.links.len(), self.spec.flows.len())
    }
}

/// One run, advanced step by step. The steps do not change its results.
#[pyclass(module = "airtcp._airtcp")]
struct Run {
    worlds: Option<Worlds>,
    capture: Option<PcapngWriter<File>>,
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the run is finished")
}

#[pymethods]
impl Run {
    /// `capture`: file for what the scenario wants captured, as pcapng, and how many bytes of a
    /// packet it keeps (0: all). `audit`: at every sample the books of the run are checked, on
    /// one core. `threads`: most cores that the run takes; 0: as many as pay.
    #[new]
    #[pyo3(signature = (scenario, capture, audit = false, threads = 1))]
    fn new(
        py: Python<'_>,
        scenario: &Checked,
        capture: Option<(PathBuf, u32)>,
        audit: bool,
        threads: usize,
    ) -> PyResult<Run> {
        let capture = match capture {
            Some((path, snaplen)) => Some(PcapngWriter::new(File::create(path)?, &scenario.spec, snaplen)),
            None => None,
        };
        let threads = NonZeroUsize::new(if audit { 1 } else { threads }).map_or(Threads::Auto, Threads::Most);
        let worlds = py.detach(|| Worlds::build(&scenario.spec, threads));
        let mut worlds = worlds.map_err(|error| scenario_error(py, error.to_string(), &[]))?;
        if audit {
            worlds.audit();
        }
        Ok(Run { worlds: Some(worlds), capture })
    }

    /// Runs up to this simulated time, seconds. Other Python threads go on meanwhile.
    fn advance(&mut self, py: Python<'_>, until_s: f64) -> PyResult<()> {
        let worlds = self.worlds.as_mut().ok_or_else(finished)?;
        let sink: &mut (dyn CaptureSink + Send) = match &mut self.capture {
            Some(capture) => capture,
            None => &mut NoCapture,
        };
        // Rounded up, so that a caller who asks for a little more than now always gets on.
        let until = Time::from_ns(floor64((until_s * 1e9).ceil())).min(worlds.end());
        py.detach(|| worlds.run_until(until, sink));
        if let Some(finding) = worlds.finding() {
            return Err(RunError::new_err(finding.to_string()));
        }
        worlds.outgrown().map_or(Ok(()), |outgrown| Err(RunError::new_err(outgrown.to_string())))
    }

    /// Into how many parts the network is divided: cores that the run takes at most.
    #[getter]
    fn parts(&self) -> PyResult<usize> {
        Ok(self.worlds.as_ref().ok_or_else(finished)?.parts())
    }

    /// Gives each part a thread of its own from here on, or runs all parts in turn in one thread.
    /// The results do not depend on it.
    fn set_threaded(&mut self, is_threaded: bool) -> PyResult<()> {
        self.worlds.as_mut().ok_or_else(finished)?.set_threaded(is_threaded);
        Ok(())
    }

    #[getter]
    fn now_s(&self) -> PyResult<f64> {
        Ok(self.worlds.as_ref().ok_or_else(finished)?.now().as_secs_f64())
    }

    #[getter]
    fn end_s(&self) -> PyResult<f64> {
        Ok(self.worlds.as_ref().ok_or_else(finished)?.end().as_secs_f64())
    }

    /// Ends the run where it is and hands out what it recorded.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Output> {
        let worlds = self.worlds.take().ok_or_else(finished)?;
        if let Some(capture) = self.capture.take() {
            py.detach(|| capture.finish())?;
        }
        let output = py.detach(|| worlds.finish());
        let (meanings, abouts) = (PyDict::new(py), PyDict::new(py));
        for table in &output.tables {
            abouts.set_item(table.name, table.about)?;
            let meaning = PyDict::new(py);
            for column in &table.columns {
                meaning.set_item(column.name, column.unit_and_meaning)?;
            }
            meanings.set_item(table.name, meaning)?;
        }
        let stats = PyDict::new(py);
        stats.set_item("events", output.events)?;
        stats.set_item("packets_delivered", output.packets_delivered)?;
        Ok(Output {
            recorded: Mutex::new(output.tables),
            tables: PyOnceLock::new(),
            meanings: meanings.unbind(),
            abouts: abouts.unbind(),
            summary: serde_json::to_string(&output.summary).map_err(|e| PyRuntimeError::new_err(e.to_string()))?,
            stats: stats.unbind(),
        })
    }
}

/// Tables that a run recorded.
#[pyclass(module = "airtcp._airtcp", frozen)]
struct Output {
    recorded: Mutex<Vec<Table>>,
    tables: PyOnceLock<Py<PyDict>>,
    /// Table, column, what it holds.
    #[pyo3(get)]
    meanings: Py<PyDict>,
    /// Table, which rows it has.
    #[pyo3(get)]
    abouts: Py<PyDict>,
    /// JSON.
    #[pyo3(get)]
    summary: String,
    /// Counters of the engine.
    #[pyo3(get)]
    stats: Py<PyDict>,
}

#[pymethods]
impl Output {
    /// Table, column, values. Made when first asked for: who only wants the summary need not load
    /// NumPy.
    #[getter]
    fn tables(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let tables = self.tables.get_or_try_init(py, || {
            let recorded = std::mem::take(&mut *self.recorded.lock().unwrap_or_else(PoisonError::into_inner));
            to_python(py, recorded)
        })?;
        Ok(tables.clone_ref(py))
    }
}

fn to_python(py: Python<'_>, recorded: Vec<Table>) -> PyResult<Py<PyDict>> {
    let tables = PyDict::new(py);
    for table in recorded {
        let columns = PyDict::new(py);
        for column in table.columns {
            let data = match column.data {
                Data::Bool(v) => v.into_pyarray(py).into_any(),
                Data::U32(v) => v.into_pyarray(py).into_any(),
                Data::U64(v) => v.into_pyarray(py).into_any(),
                Data::F64(v) => v.into_pyarray(py).into_any(),
                Data::Str(v) => PyList::new(py, v)?.into_any(),
            };
            columns.set_item(column.name, data)?;
        }
        tables.set_item(table.name, columns)?;
    }
    Ok(tables.unbind())
}

#[pymodule]
fn _airtcp(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("ScenarioError", m.py().get_type::<ScenarioError>())?;
    m.add("RunError", m.py().get_type::<RunError>())?;
    m.add("CaptureError", m.py().get_type::<analyze::CaptureError>())?;
    m.add_class::<analyze::Analysis>()?;
    m.add("DocumentError", m.py().get_type::<document::DocumentError>())?;
    m.add_class::<document::Document>()?;
    m.add_class::<document::Schema>()?;
    m.add_class::<Checked>()?;
    m.add_class::<Run>()?;
    m.add_class::<Output>()?;
    m.add_function(wrap_pyfunction!(schema, m)?)?;
    m.add_function(wrap_pyfunction!(names, m)?)?;
    m.add_function(wrap_pyfunction!(pages, m)?)?;
    m.add_function(wrap_pyfunction!(profile, m)?)?;
    m.add_function(wrap_pyfunction!(engine, m)?)?;
    m.add_function(wrap_pyfunction!(parse_set, m)?)?;
    m.add_function(wrap_pyfunction!(document::parse_value, m)?)
}
