//! The simulator's integration tests, in one program: it is linked once.

// Tests may cast numbers that they know.
#![allow(
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    unreachable_pub
)]

mod bbr3;
mod cake;
mod call;
mod capture;
mod capture_air;
mod common;
mod compressed_sacks;
mod coop;
mod dualq;
mod examples;
mod packet_time;
mod parts;
mod portable;
mod probe;
mod rate_trace;
mod receive_offload;
mod roaming;
mod rooms;
mod routes;
mod seam;
mod sender;
mod tcp_worlds;
mod theory;
mod worlds;
