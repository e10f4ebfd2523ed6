//! airtcp's remedies on Linux hosts. The binary `airtcp-host` is a thin `main` over this library.
#![cfg(target_os = "linux")]

pub mod args;
pub mod av;
pub mod coop;
#[cfg(feature = "bpf")]
pub mod load;
pub mod monitor;
pub mod nft;
pub mod paths;
pub mod probe;
pub mod proxy;
pub mod recipes;
pub mod rights;
pub mod send;
pub mod spacing;
pub mod sys;
pub mod words;
