//! Hosts with kernels of their own, in virtual time: User-Mode Linux with external time travel and
//! vhost-user devices.
//!
//! [`controller`] decides who runs; [`message`], [`vhost`] and [`ring`] are the two protocols, and
//! [`patience`] waits. They know no kernel: tests have clients of their own. [`boot`] starts
//! kernels in a [`sandbox`], [`inside`] is their first process, [`keys`] is what it reads, [`work`]
//! the folder between, and [`run`] is a network from beginning to end.

pub mod controller;
pub mod guest;
pub mod guest_time;
pub mod message;
pub mod patience;
pub mod ring;
pub mod vhost;

pub(crate) mod boot;
pub(crate) mod inside;
pub(crate) mod keys;
pub(crate) mod run;
mod sandbox;
pub(crate) mod work;

pub(crate) use boot::init as boot_init;
pub(crate) use inside::run as inside_run;
pub(crate) use run::run as run_guests;
