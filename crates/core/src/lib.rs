//! The protocol state machines of airtcp.
//!
//! Everything here is sans-IO: time, randomness and packets come in as arguments, actions go out as values. No clocks,
//! threads, sockets or globals. The simulator, the emulator and the host tools drive the same code.

// Tests may compare with the platform's logarithms.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod buffer_probe;
pub mod convert;
pub mod coop;
mod flags;
pub mod packet;
pub mod policy;
pub mod queue;
pub mod receive;
pub mod rng;
pub mod table;
pub mod tcp;
pub mod units;
pub mod wifi;
pub mod wire;
