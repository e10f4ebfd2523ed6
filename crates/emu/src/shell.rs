//! Real programs in real time: a host of a scenario becomes a network namespace with a TUN device,
//! and a simulated network carries its packets.
//!
//! [`driver`] is the loop, without I/O; [`watch`] says how late it is. [`host`], [`tun`] and
//! [`internet`] are namespaces and devices, [`init`] the programs' first process, [`run`] a network
//! from beginning to end, [`enter`] a command from a second terminal.

pub mod driver;
pub mod gate;
pub mod watch;

pub(crate) mod check;
pub(crate) mod enter;
mod host;
pub(crate) mod init;
mod internet;
mod report;
pub(crate) mod run;
mod segments;
mod tun;
