//! Python bindings. No logic lives here.

use pyo3::prelude::*;

#[pymodule]
fn _airtcp(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))
}
