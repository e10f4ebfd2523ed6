//! Reads captures of real TCP traffic and says what its senders did: each retransmission and why,
//! what was known when a timeout fired, round trips, windows, and what other loss policies would
//! have done.
//!
//! Bytes come from any [`std::io::Read`]; time is that of the packets. Memory is bounded whatever
//! the capture's length: connections end when they close or fall silent, the rows of their tables
//! are taken out in batches ([`Analyzer::drain`]).
//!
//! [`reader`] files, `places` several of them, `decode` headers, `open` and `connection` which
//! packets belong together, `view` what the sender had heard when it sent something, `flow` its
//! state and why it repeated something, `whatif` other policies, `wifi` what stations did on the
//! air, `copies` packets captured twice, `dns` questions for names, [`tables`] what comes out.

mod analyzer;
mod connection;
mod copies;
mod decode;
mod dns;
mod flow;
mod histogram;
mod open;
mod places;
mod quic;
pub mod reader;
mod rtt;
mod send_history;
pub mod tables;
mod thin;
mod view;
mod whatif;
mod wifi;
#[cfg(test)]
mod work;

pub use analyzer::{Analyzer, Options, Summary};
pub use dns::Dns;
pub use places::{Opener, Place};
pub use reader::{CaptureError, Packing, Reader, UnixTime};
