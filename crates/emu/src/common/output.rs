//! Lines for people.

use std::io::Write;

/// Writes a line to standard error. A terminal that has gone, or a full disk, ends nothing.
pub(crate) fn tell(line: std::fmt::Arguments) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
