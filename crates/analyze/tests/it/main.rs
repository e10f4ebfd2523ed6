//! The analysis's integration tests, in one program: it is linked once.

// Tests may cast numbers that they know.
#![allow(
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    unreachable_pub
)]

mod causes;
mod common;
mod damage;
mod formats;
mod matrix;
mod monitor;
mod own_tcp;
mod places;
mod quic;
mod simulator;
mod vantage;
