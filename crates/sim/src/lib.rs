//! Worlds in virtual time: topology, links, traffic, scenario files and what a run records.
//!
//! [`document`] reads files with the place of everything; [`scenario`] turns a file into a
//! [`spec::RunSpec`]; [`world`] runs that; [`record`] holds what came out.

// Tests may compare with the platform's logarithms, and cast numbers that they know.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        missing_docs,
        unreachable_pub
    )
)]

mod books;
pub mod capture;
mod context;
pub mod document;
pub mod engine;
pub mod error;
mod hosts;
mod network;
pub mod path;
pub mod scenario;
pub mod spec;
pub mod traffic;
pub mod world;
mod worlds;

pub use books::{record, summary};
pub use network::{rate_trace, route};

/// Every axis of a scenario that has a registry: those of [`airtcp_core`], then kinds of traffic.
pub fn axes() -> impl Iterator<Item = &'static airtcp_core::policy::Axis> {
    airtcp_core::policy::AXES.iter().chain([&traffic::TrafficConfig::AXIS])
}
