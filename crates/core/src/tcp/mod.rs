//! TCP: senders and receivers as real stacks behave.
//!
//! A connection carries data one way: a [`Sender`] opens it, sends and closes; a [`Receiver`]
//! answers. Both are driven by three calls: `on_packet` when a packet of theirs arrives,
//! `on_deadline` once `deadline()` is reached (calling it early is harmless), and the application's
//! `write`, `close` or `set_read_rate`. After any of them look at `deadline()` again and take what
//! is in [`Outputs`].
//!
//! Before working here read RFC 9293, 5681, 6582, 6675, 6298, 6937 and 8985.

pub mod cc;
mod config;
mod delivery;
pub mod loss;
mod out_of_window;
mod pacing;
mod paws;
pub mod profile;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod sender;
#[cfg(test)]
mod tests;
mod ticks;

pub use config::{
    BufferConfig, ConnectionConfig, CwndConfig, EcnConfig, EcnEcho, Frto, FrtoResponse, HostQueueConfig, LocalDrops,
    LossRecoveryConfig, Pacing, PacingConfig, PacingRtt, RandomPhase, ReceiverConfig, Recovery, RtoConfig,
    RtoRecoveryConfig, RttvarRule, SegmentsAtOnce, SpuriousRtoConfig, TcpConfig, TcpOptions, TimerConfig, TimerPhase,
    TimestampConfig, Tsq, UndoConfig, Unresolved,
};
pub use receiver::{Receiver, ReceiverStats};
pub use sender::{Sender, SenderInfo, SenderStats};

use std::borrow::Cow;

use crate::convert::low32;
use crate::packet::Packet;
use crate::units::{Span, Time};

/// Actions that a state machine requests. The driver takes them out after each call.
#[derive(Debug, Default)]
pub struct Outputs {
    /// To be sent now, in this order.
    pub packets: Vec<Packet>,
    /// Events, in this order.
    pub notices: Vec<Notice>,
}

impl Outputs {
    /// Adds a packet that is put together where it stays: a copy of what has just been written in
    /// parts would wait for it.
    #[inline]
    fn begin(&mut self, packet: Packet) -> &mut Packet {
        self.packets.push(packet);
        let last = self.packets.len() - 1;
        &mut self.packets[last]
    }
}

/// Event for the application (or a trace).
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
    /// Fast recovery began.
    EnteredRecovery,
    /// The retransmission timer ran out.
    RetransmissionTimeout,
    /// Data was sent again.
    Retransmitted(Retransmission),
}

/// One data segment sent again, and what the sender knew when it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retransmission {
    /// Offset of its first byte; the first byte of a connection is 1.
    pub start: u64,
    /// Payload bytes.
    pub len: u16,
    /// Why it was sent again.
    pub cause: Cause,
    /// Since the segment was last sent.
    pub waited: Span,
    /// Duplicate ACKs in hand: since the last cumulative advance.
    pub dup_acks: u32,
    /// Segments outstanding, this one included.
    pub outstanding: u32,
    /// Segments, before the reduction that comes with it.
    pub cwnd: u32,
    /// Receive window in whole segments.
    pub send_window: u32,
}

/// Cause of a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The loss that begins fast recovery.
    FastRetransmit,
    /// Further losses within it.
    Recovery,
    /// The retransmission timeout.
    Timeout,
    /// The repair that follows a timeout.
    TimeoutRepair,
    /// A tail loss probe.
    TailLossProbe,
}

impl Cause {
    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::FastRetransmit => "fast",
            Cause::Recovery => "recovery",
            Cause::Timeout => "timeout",
            Cause::TimeoutRepair => "repair",
            Cause::TailLossProbe => "probe",
        }
    }
}

impl From<Cause> for Cow<'static, str> {
    fn from(cause: Cause) -> Cow<'static, str> {
        Cow::Borrowed(cause.name())
    }
}

/// The timestamp clock (RFC 7323 section 4.1); zero when timestamps are off, never zero when they
/// are on.
fn timestamp(now: Time, config: &TcpConfig) -> u32 {
    if config.timestamps.enabled { timestamp_at(now, config.timestamps.tick) } else { 0 }
}

fn timestamp_at(now: Time, tick: Span) -> u32 {
    low32(now.since(Time::ZERO).ticks(tick.max(Span::from_ns(1))) + 1).max(1)
}
