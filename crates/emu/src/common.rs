//! Parts that networks of all kinds share: orders, clocks, processes, netlink, captures, tables and
//! the simulated network behind real hosts. They import none of those kinds.

pub mod clock;
pub mod lateness;
pub mod network;
pub mod payloads;

pub(crate) mod addresses;
mod broadcast;
pub(crate) mod capture;
pub(crate) mod config;
pub(crate) mod connections;
pub(crate) mod diag;
pub(crate) mod medium;
pub(crate) mod net;
pub(crate) mod netlink;
pub(crate) mod output;
pub(crate) mod process;
pub(crate) mod radio_table;
pub(crate) mod rights;
pub(crate) mod signals;
pub(crate) mod state;
pub(crate) mod stop;
pub(crate) mod store;
pub(crate) mod sys;
pub(crate) mod world;
