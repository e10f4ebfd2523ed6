//! How large is the buffer of an access point? A train of numbered datagrams from the wired side
//! finds out.
//!
//! A host on the wire sends a train faster than the air carries it ([`Schedule`]); the station
//! behind the access point notes which arrive and when ([`RunLog`]); [`estimate`] makes a number of
//! packets of it. Nothing here knows a socket or a clock, so the simulator and real hosts run the
//! same procedure.

mod estimate;
mod schedule;

pub use estimate::{Estimate, EstimatorConfig, RunLog, estimate};
pub use schedule::Schedule;
