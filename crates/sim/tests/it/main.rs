//! The simulator's integration tests, in one program: it is linked once.

mod capture;
mod capture_air;
mod common;
mod compressed_sacks;
mod coop;
mod examples;
mod portable;
mod probe;
mod receive_offload;
mod roaming;
mod routes;
mod sender;
mod tcp_worlds;
mod theory;
mod worlds;
