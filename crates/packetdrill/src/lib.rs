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

/// Reads and plays a script.
pub fn run(text: &str) -> Verdict {
    match parse::parse(text) {
        Ok(script) => driver::play(&script),
        Err(error) => Verdict::NotExpressible { line: error.line, reason: format!("syntax: {}", error.message) },
    }
}
