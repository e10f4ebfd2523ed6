//! `Analysis`: reads a capture and hands out tables.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use airtcp_analyze::{Analyzer, CaptureError as Fault, Opener, Options, Packing, Place, Reader, Summary, UnixTime};
use airtcp_core::units::Span;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::to_python;

create_exception!(_airtcp, CaptureError, PyValueError, "A file is no capture, or of a kind that is not read.");

/// A capture being analysed, some packets at a time. Where the cuts fall does not change the
/// results.
#[pyclass(module = "airtcp._airtcp", frozen)]
pub(crate) struct Analysis {
    /// All files, place by place.
    paths: Vec<PathBuf>,
    file_bytes: u64,
    analyzer: Mutex<Analyzer>,
}

impl Analysis {
    fn analyzer(&self) -> MutexGuard<'_, Analyzer> {
        self.analyzer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(path: &Path) -> PyResult<u64> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let metadata = std::fs::metadata(path).map_err(named)?;
    if metadata.is_dir() {
        return Err(PyOSError::new_err(format!("{}: is a directory; expected is a capture file", path.display())));
    }
    Ok(metadata.len())
}

fn open(path: &Path) -> Result<Reader, Fault> {
    Reader::new(File::open(path)?)
}

fn raised(path: &Path, error: Fault) -> PyErr {
    match error {
        Fault::Io(error) => io::Error::new(error.kind(), format!("{}: {error}", path.display())).into(),
        _ => CaptureError::new_err(format!("{}: {error}", path.display())),
    }
}

#[pymethods]
impl Analysis {
    /// `places`: for each place of capture the files that it was rotated into; `ahead_ns`: by how
    /// much their clocks are ahead of the first one's; `points`: of a flow in each series;
    /// `idle_timeout_s`: silence that ends a connection; `max_connections`: open at once.
    #[new]
    #[pyo3(signature = (places, *, ahead_ns=Vec::new(), points=4000, idle_timeout_s=300.0, max_connections=100_000))]
    fn new(
        py: Python<'_>,
        places: Vec<Vec<PathBuf>>,
        ahead_ns: Vec<i64>,
        points: usize,
        idle_timeout_s: f64,
        max_connections: usize,
    ) -> PyResult<Analysis> {
        let options = Options { points, idle_timeout_s, max_connections };
        let (mut paths, mut file_bytes, mut read) = (Vec::new(), 0, Vec::new());
        for files in places {
            let mut sorted = Vec::new();
            let is_rotated = files.len() > 1;
            for path in files {
                file_bytes += size(&path)?;
                // Only where there is an order to find: a pipe can be read once.
                let first = match is_rotated {
                    true => py.detach(|| open(&path).and_then(|mut r| r.peek())).map_err(|e| raised(&path, e))?,
                    false => None,
                };
                sorted.push((first.unwrap_or(UnixTime::NEVER), path));
            }
            sorted.sort();
            let mut numbered = Vec::new();
            for (_, path) in sorted {
                numbered.push((paths.len(), path.clone()));
                paths.push(path);
            }
            let mut numbered = numbered.into_iter();
            let Some((number, path)) = numbered.next() else { continue };
            let reader = py.detach(|| open(&path)).map_err(|error| raised(&path, error))?;
            let later = numbered.map(|(number, path)| (number, Box::new(move || open(&path)) as Opener));
            read.push(Place::new((number, reader), later));
        }
        if read.is_empty() {
            return Err(PyValueError::new_err("no file; expected is at least one capture"));
        }
        Ok(Analysis { paths, file_bytes, analyzer: Mutex::new(Analyzer::of(read, ahead_ns, options)) })
    }

    /// Reads up to that many packets more; false at the end of the file, or of what can be read of
    /// it. Other Python threads go on meanwhile.
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

    /// The damage that ended the reading before the end of the file.
    fn damage(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| {
            let analyzer = self.analyzer();
            let path = analyzer.damaged_file().and_then(|number| self.paths.get(number));
            Some(format!("{}: {}", path?.display(), analyzer.damage()?))
        })
    }

    /// Notes for a reader of the results.
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

    /// Description of the capture.
    fn capture(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let summary = py.detach(|| self.analyzer().summary());
        let Summary {
            format,
            packing,
            link_types,
            snap_bytes,
            packets,
            tcp_packets,
            connections,
            bytes,
            first,
            last,
            copies,
            dns,
        } = summary;
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let capture = PyDict::new(py);
        capture.set_item("format", format)?;
        capture.set_item("packing", packing.map(Packing::name))?;
        capture.set_item("link_types", link_types)?;
        capture.set_item("snap_bytes", snap_bytes)?;
        capture.set_item("packets", packets)?;
        capture.set_item("tcp_packets", tcp_packets)?;
        capture.set_item("connections", connections)?;
        capture.set_item("bytes", bytes)?;
        capture.set_item("first_s", first.map(|time| seconds(time.as_ns())))?;
        capture.set_item("last_s", last.map(|time| seconds(time.as_ns())))?;
        let duration = first.zip(last).map(|(first, last)| seconds(last.since(first).as_ns()));
        capture.set_item("duration_s", duration)?;
        capture.set_item("copies", copies)?;
        let span_s = |span: Span| seconds(span.as_ns());
        let names = PyDict::new(py);
        names.set_item("questions", dns.questions)?;
        names.set_item("repeated", dns.repeated)?;
        names.set_item("answers", dns.answers)?;
        names.set_item("unanswered", dns.unanswered)?;
        names.set_item("failed", dns.failed)?;
        names.set_item("slow", dns.slow)?;
        names.set_item("median_s", dns.median.map(span_s))?;
        names.set_item("longest_s", dns.longest.map(span_s))?;
        names.set_item("server", dns.server.map(|address| address.to_string()))?;
        capture.set_item("dns", names)?;
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
