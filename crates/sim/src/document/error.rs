//! Errors of a document: file and line (or the `--set` argument), key, value, and what would be
//! accepted.

use std::collections::BTreeSet;
use std::fmt;

/// Errors beyond this many are counted, not printed.
const SHOWN: usize = 20;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// Name of the file as the user gave it.
    pub file: String,
    /// Line in the file, from 1; `None` if the fault is not at a line, or is in an override.
    pub line: Option<u32>,
    /// The override at fault, as the user gave it (`--set duration=5`).
    pub argument: Option<String>,
    /// TextRange in the document: `links[0].rate`; empty if the fault is in the file as a whole.
    pub key: String,
    /// The value found there, as TOML, where that is one line.
    pub value: Option<String>,
    /// The fault, and the values that would be accepted.
    pub message: String,
}

impl Fault {
    /// `FILE:LINE: key`, as exactly as known.
    pub fn place(&self) -> String {
        let head = match (&self.argument, self.line) {
            (Some(argument), _) => argument.clone(),
            (None, Some(line)) => format!("{}:{line}", self.file),
            (None, None) => self.file.clone(),
        };
        if self.key.is_empty() { head } else { format!("{head}: {}", self.key) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.place())?;
        if let Some(value) = self.value.as_ref().filter(|_| !self.key.is_empty()) {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Fault {}

/// All faults of a document, in the order of the file, overrides last. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// `Err` if there are any.
    pub(crate) fn check(mut errors: Vec<Fault>) -> Result<(), Faults> {
        if errors.is_empty() {
            return Ok(());
        }
        errors.sort_by_key(|e| (e.argument.is_some(), e.line.unwrap_or(0)));
        // One option can be wrong for several flows that share a profile.
        let mut seen = BTreeSet::new();
        errors.retain(|error| seen.insert(error.clone()));
        Err(Faults(errors))
    }

    /// Faults in the order of their lines.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl From<Fault> for Faults {
    fn from(error: Fault) -> Faults {
        Faults(vec![error])
    }
}

impl fmt::Display for Faults {
    /// One line each.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, error) in self.0.iter().take(SHOWN).enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Faults {}

/// Former names of keys that mean something else in the same file.
const RENAMED: [(&str, &str); 2] = [("capture", "capture_effect"), ("reorder", "reorder_buffer")];

/// The one of `known` that `found` was probably meant to be: its present name, or equal but for
/// case and `-` or `_`, or at most a third of its letters away. Among several as near, the one that
/// begins alike.
pub(crate) fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |s: &str| s.to_lowercase().replace('-', "_");
    let known: Vec<&str> = known.into_iter().collect();
    if let Some(&(_, present)) = RENAMED.iter().find(|(old, new)| *old == found && known.contains(new)) {
        return known.into_iter().find(|k| *k == present);
    }
    let wanted = plain(found);
    let allowed = (wanted.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&wanted, &plain(k)), k))
        .filter(|&(distance, _)| distance <= allowed)
        .min_by(|(a, x), (b, y)| {
            let alike = |k: &str| strsim::jaro_winkler(&wanted, &plain(k));
            a.cmp(b).then_with(|| alike(y).total_cmp(&alike(x)))
        })
        .map(|(_, k)| k)
}

/// `; did you mean `x`?`, or nothing.
pub(crate) fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |n| format!("; did you mean `{n}`?"))
}

/// `unknown …; did you mean `x`? accepted: a, b, c`.
pub(crate) fn unknown<'a>(what: &str, found: &str, known: &[&'a str], hint: Option<&'a str>) -> String {
    let hint = hint.or_else(|| nearest(found, known.iter().copied()));
    let separator = if hint.is_some() { "" } else { ";" };
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("unknown {what}{}{separator} accepted: {list}", suggestion(hint))
}
