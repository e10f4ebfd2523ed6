//! packetdrill's scripts against airtcp's own TCP, in virtual time.
//!
//! A script says when segments arrive, which system calls the application makes, and what the host
//! under test is to send. Here that host is airtcp's sender and receiver with the profile
//! `linux-6`, and the clock has no error. No command and no code of a script runs, and no file
//! is opened besides it.
//!
//! From outside to inside: [`parse`] reads a script, [`driver`] plays it, [`sockets`] carries its
//! calls out, and [`connection`] puts a sender and a receiver together.

pub mod compare;
pub mod connection;
pub mod driver;
pub mod parse;
pub mod python;
pub mod report;
pub mod script;
pub mod settings;
pub mod sockets;

pub use driver::Verdict;

/// Jiffies a second of the kernels for which the public scripts are written (`CONFIG_HZ`).
pub const HZ: u32 = 1000;

/// Reads and plays a script on a host with so many jiffies a second.
pub fn run(text: &str, hz: u32) -> Verdict {
    match parse::parse(text) {
        Ok(script) => driver::play(&script, hz),
        Err(error) => Verdict::NotExpressible { line: error.line, reason: format!("syntax: {}", error.message) },
    }
}
