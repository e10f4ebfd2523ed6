//! `Analysis`: reads a capture and hands out tables.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use airtcp_analyze::{Analyzer, CaptureError as Fault, Options, Summary};
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::to_python;

create_exception!(_airtcp, CaptureError, PyValueError, "A file is no capture, or of a kind that is not read.");

/// A capture being analysed, some packets at a time. Where the cuts fall does not change the results.
#[pyclass(module = "airtcp._airtcp", frozen)]
pub(crate) struct Analysis {
    path: PathBuf,
    file_bytes: u64,
    analyzer: Mutex<Analyzer>,
}

impl Analysis {
    fn analyzer(&self) -> MutexGuard<'_, Analyzer> {
        self.analyzer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Analysis {
    /// `points`: of a flow in each series; `idle_timeout_s`: silence that ends a connection; `max_connections`: open at once.
    #[new]
    #[pyo3(signature = (path, *, points=4000, idle_timeout_s=300.0, max_connections=100_000))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        points: usize,
        idle_timeout_s: f64,
        max_connections: usize,
    ) -> PyResult<Analysis> {
        let file = File::open(&path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(PyOSError::new_err(format!("{}: is a directory; expected is a capture file", path.display())));
        }
        let options = Options { points, idle_timeout_s, max_connections };
        let analyzer = py.detach(|| Analyzer::new(file, options)).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            match error {
                Fault::Io(_) => PyOSError::new_err(message),
                _ => CaptureError::new_err(message),
            }
        })?;
        Ok(Analysis { path, file_bytes: metadata.len(), analyzer: Mutex::new(analyzer) })
    }

    /// Reads up to that many packets more; false at the end of the file, or of what can be read of it. Other Python
    /// threads go on meanwhile.
    fn advance(&self, py: Python<'_>, packets: u64) -> bool {
        py.detach(|| self.analyzer().advance(packets))
    }

    /// Bytes of the file read so far, and its size.
    fn progress(&self, py: Python<'_>) -> (u64, u64) {
        py.detach(|| (self.analyzer().bytes_read(), self.file_bytes))
    }

    fn packets(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.analyzer().packets())
    }

    /// What ended the reading before the end of the file.
    fn damage(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.analyzer().damage().map(|damage| format!("{}: {damage}", self.path.display())))
    }

    /// What a reader of the results should know.
    fn notes(&self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.analyzer().notes())
    }

    /// Ends all connections that are open.
    fn finish(&self, py: Python<'_>) {
        py.detach(|| self.analyzer().finish());
    }

    /// Table, column, values: the rows that became final since the last call.
    fn drain(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let tables = py.detach(|| self.analyzer().drain());
        to_python(py, tables)
    }

    /// What the capture is.
    fn capture(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let summary = py.detach(|| self.analyzer().summary());
        let Summary {
            format,
            gzip,
            link_types,
            snap_bytes,
            packets,
            tcp_packets,
            connections,
            bytes,
            first_ns,
            last_ns,
        } = summary;
        let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 * 1e-9);
        let capture = PyDict::new(py);
        capture.set_item("format", format)?;
        capture.set_item("gzip", gzip)?;
        capture.set_item("link_types", link_types)?;
        capture.set_item("snap_bytes", snap_bytes)?;
        capture.set_item("packets", packets)?;
        capture.set_item("tcp_packets", tcp_packets)?;
        capture.set_item("connections", connections)?;
        capture.set_item("bytes", bytes)?;
        capture.set_item("first_s", seconds(first_ns))?;
        capture.set_item("last_s", seconds(last_ns))?;
        let duration = first_ns.zip(last_ns).map(|(first, last)| last - first);
        capture.set_item("duration_s", seconds(duration))?;
        Ok(capture.unbind())
    }

    /// Table, its columns and what they hold.
    #[staticmethod]
    fn columns(py: Python<'_>) -> PyResult<Py<PyDict>> {
        let columns = PyDict::new(py);
        for table in airtcp_analyze::tables::empty() {
            let meanings: Vec<(&str, &str)> = table.columns.iter().map(|c| (c.name, c.unit_and_meaning)).collect();
            columns.set_item(table.name, meanings)?;
        }
        Ok(columns.unbind())
    }
}
