//! The physical layer: modes, durations, errors, signal.
