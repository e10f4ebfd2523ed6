//! A laboratory of real Wi-Fi stacks: each radio of a wireless scenario is a Linux kernel of its
//! own, with hostapd or `iw`, on airtcp's 802.11 medium in virtual time.
//!
//! [`scenario`] is a scenario as the laboratory can run it, [`script`] what each kernel is to do,
//! [`traffic`] the programs that send, [`tables`] what is kept, and [`run`] a laboratory from
//! beginning to end.

mod run;
pub(crate) mod scenario;
mod script;
mod tables;
mod traffic;

pub(crate) use run::{guest_run, run};
pub(crate) use traffic::run as traffic_run;

#[cfg(test)]
mod tests;
