//! Python bindings. No logic lives here.

mod stub;

use numpy::IntoPyArray;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use stub::{Data, Problem, Scenario, World};

create_exception!(
    _airtcp,
    ScenarioError,
    PyValueError,
    "A scenario or an override is wrong. The message holds every error found; `errors` lists them one by one."
);

fn scenario_error(py: Python<'_>, problems: &[Problem]) -> PyErr {
    let message = problems.iter().map(|p| p.message.clone()).collect::<Vec<_>>().join("\n");
    let error = ScenarioError::new_err(message);
    let attach = || -> PyResult<()> {
        let list = PyList::empty(py);
        for p in problems {
            let d = PyDict::new(py);
            d.set_item("file", &p.file)?;
            d.set_item("line", p.line)?;
            d.set_item("argument", &p.argument)?;
            d.set_item("key", &p.key)?;
            d.set_item("value", &p.value)?;
            d.set_item("message", &p.message)?;
            list.append(d)?;
        }
        error.value(py).setattr("errors", list)
    };
    match attach() {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// The JSON Schema of scenario files, as text.
#[pyfunction]
fn schema() -> String {
    format!("{:#}", stub::schema())
}

/// Names of everything registered, by what it is.
#[pyfunction]
fn names(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    use airtcp_core::{queue::QueueConfig, tcp::cc::CcConfig, tcp::loss::LossConfig, tcp::profile::profile_names};
    let d = PyDict::new(py);
    d.set_item("profiles", profile_names().collect::<Vec<_>>())?;
    d.set_item("congestion controls", CcConfig::NAMES)?;
    d.set_item("loss policies", LossConfig::NAMES)?;
    d.set_item("queues", QueueConfig::NAMES)?;
    Ok(d)
}

/// Parses a scenario and validates it. Returns it with every default filled in, as JSON.
#[pyfunction]
fn check(py: Python<'_>, text: &str, file_name: &str, overrides: Vec<String>) -> PyResult<String> {
    let scenario = Scenario::parse(text, file_name, &overrides).map_err(|e| scenario_error(py, &e))?;
    Ok(scenario.0.to_string())
}

/// One run, advanced step by step. The steps do not change its results.
#[pyclass(module = "airtcp._airtcp")]
struct Run {
    world: Option<World>,
    duration_s: f64,
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the run is finished")
}

#[pymethods]
impl Run {
    #[new]
    fn new(py: Python<'_>, text: &str, file_name: &str, overrides: Vec<String>) -> PyResult<Run> {
        let scenario = Scenario::parse(text, file_name, &overrides).map_err(|e| scenario_error(py, &e))?;
        let world = py.detach(|| World::build(&scenario));
        Ok(Run { world: Some(world), duration_s: scenario.duration_s() })
    }

    /// Runs up to this simulated time, seconds. Other Python threads go on meanwhile.
    fn advance(&mut self, py: Python<'_>, until_s: f64) -> PyResult<()> {
        let world = self.world.as_mut().ok_or_else(finished)?;
        py.detach(|| world.run_until(until_s));
        Ok(())
    }

    #[getter]
    fn now_s(&self) -> PyResult<f64> {
        Ok(self.world.as_ref().ok_or_else(finished)?.now_s())
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.duration_s
    }

    /// Ends the run where it is and hands out what it recorded.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Output> {
        let world = self.world.take().ok_or_else(finished)?;
        let output = py.detach(|| world.finish());
        let (tables, meanings) = (PyDict::new(py), PyDict::new(py));
        for table in output.tables {
            let (columns, columns_mean) = (PyDict::new(py), PyDict::new(py));
            for column in table.columns {
                columns_mean.set_item(column.name, column.unit_and_meaning)?;
                let data = match column.data {
                    Data::Bool(v) => v.into_pyarray(py).into_any(),
                    Data::U32(v) => v.into_pyarray(py).into_any(),
                    Data::F64(v) => v.into_pyarray(py).into_any(),
                    Data::U64(v) => v.into_pyarray(py).into_any(),
                    Data::Str(v) => PyList::new(py, v)?.into_any(),
                };
                columns.set_item(column.name, data)?;
            }
            tables.set_item(table.name, columns)?;
            meanings.set_item(table.name, columns_mean)?;
        }
        let stats = PyDict::new(py);
        stats.set_item("events", 0)?;
        stats.set_item("packets", 0)?;
        Ok(Output {
            tables: tables.unbind(),
            meanings: meanings.unbind(),
            summary: output.summary.to_string(),
            stats: stats.unbind(),
        })
    }
}

/// What a run recorded.
#[pyclass(module = "airtcp._airtcp", frozen, get_all)]
struct Output {
    /// Table, column, values.
    tables: Py<PyDict>,
    /// Table, column, what it holds.
    meanings: Py<PyDict>,
    /// JSON.
    summary: String,
    /// Counters of the engine.
    stats: Py<PyDict>,
}

#[pymodule]
fn _airtcp(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("ScenarioError", m.py().get_type::<ScenarioError>())?;
    m.add_class::<Run>()?;
    m.add_class::<Output>()?;
    m.add_function(wrap_pyfunction!(schema, m)?)?;
    m.add_function(wrap_pyfunction!(names, m)?)?;
    m.add_function(wrap_pyfunction!(check, m)?)
}
