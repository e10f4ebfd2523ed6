//! The protocol state machines of airtcp.
//!
//! Everything here is sans-IO: time, randomness and packets come in as arguments, actions go out as
//! values. No clocks, threads, sockets or globals. The simulator, the emulator and the host tools
//! drive the same code.

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

pub mod buffer_probe;
pub mod convert;
pub mod coop;
pub mod e_model;
mod flags;
pub mod nada;
pub mod packet;
pub mod policy;
pub mod prefetch;
pub mod queue;
pub mod range;
pub mod receive;
pub mod rng;
pub mod table;
pub mod tcp;
pub mod units;
pub mod wifi;
pub mod wire;
