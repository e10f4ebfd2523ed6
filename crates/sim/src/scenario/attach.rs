//! Hosts of real programs, besides those that a scenario file names.

/// Additions of a driver in real time to a scenario.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attach<'a> {
    /// Hosts with real programs: `laptop`, one member of a group as `left[3]`, or a group's name
    /// for all its members. The file may name them as well.
    pub hosts: &'a [String],
    /// The run has no end. The file's `duration` decides nothing but the default of
    /// `record.interval`.
    pub forever: bool,
}
