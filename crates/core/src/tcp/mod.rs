//! TCP: senders and receivers as real stacks behave.
//!
//! A connection carries data one way: a [`Sender`] opens it, sends and closes; a [`Receiver`] answers. Both are driven by
//! three calls: `on_packet` when a packet of theirs arrives, `on_deadline` once `deadline()` is reached (calling it early
//! is harmless), and the application's `write`, `close` or `set_read_rate`. After any of them look at `deadline()` again
//! and take what is in [`Outputs`].
//!
//! Before working here read RFC 9293, 5681, 6582, 6675, 6298 and 6937.

pub mod cc;
mod delivery;
pub mod loss;
mod pacing;
pub mod profile;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod sender;
#[cfg(test)]
mod tests;

pub use profile::{Pacing, PacingRtt, Recovery, TcpConfig, TcpOptions, Tsq};
pub use receiver::{Receiver, ReceiverStats};
pub use sender::{Sender, SenderStats};

use crate::packet::Packet;
use crate::units::Time;

/// What a state machine wants done. The driver takes it out after each call.
#[derive(Debug, Default)]
pub struct Outputs {
    /// To be sent now, in this order.
    pub packets: Vec<Packet>,
    pub notices: Vec<Notice>,
}

/// What the application (or a trace) should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The handshake is done.
    Established,
    /// All that was written has been acknowledged.
    AllAcked,
    /// The connection is over on this side: closed cleanly.
    Closed,
    /// Given up after too many retransmissions.
    TimedOut,
    EnteredRecovery,
    RetransmissionTimeout,
}

/// The timestamp clock (RFC 7323 section 4.1); zero when timestamps are off, never zero when they are on.
fn timestamp(now: Time, config: &TcpConfig) -> u32 {
    if !config.timestamps {
        return 0;
    }
    ((now.as_ns() / config.timestamp_tick.as_ns().max(1) + 1) as u32).max(1)
}
