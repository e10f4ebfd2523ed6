//! Hosts with kernels of their own, in virtual time: User-Mode Linux with external time travel and
//! vhost-user devices.
//!
//! [`controller`] decides who runs; [`message`], [`vhost`] and [`ring`] are the two protocols, and
//! [`patience`] waits. They know no kernel: tests have clients of their own. [`boot`] starts
//! kernels in a [`sandbox`], [`guest_init`] is their first process, [`console`] is what it reads,
//! [`shared_folder`] the folder between with its [`files`], and [`run`] is a network from beginning
//! to end. [`request`] is a command from a second terminal.

pub mod controller;
pub mod guest;
pub mod guest_time;
pub mod message;
pub mod patience;
pub mod ring;
pub mod vhost;

pub(crate) mod boot;
pub(crate) mod console;
pub(crate) mod files;
pub(crate) mod guest_init;
pub(crate) mod request;
pub(crate) mod run;
mod sandbox;
pub(crate) mod shared_folder;
mod untrusted_folder;
