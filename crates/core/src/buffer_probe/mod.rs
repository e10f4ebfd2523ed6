//! How large is the buffer of an access point? A train of numbered datagrams from the wired side finds out.
//!
//! A host on the wire sends a train faster than the air carries it ([`Schedule`]); the station behind the access point notes
//! which arrive and when ([`RunLog`]); [`estimate`] makes a number of packets of it. Nothing here knows a socket or a clock, so
//! the simulator and real hosts run the same procedure.

#![cfg_attr(
    not(test),
    warn(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::cast_lossless,
        unreachable_pub,
        missing_docs
    )
)]

mod estimate;
mod schedule;

pub use estimate::{Estimate, EstimatorConfig, RunLog, estimate};
pub use schedule::Schedule;
