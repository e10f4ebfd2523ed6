//! The cooperative daemon of the study `coop-cwnd`: terminals on one access point share the path by
//! agreement.
//!
//! A. Hayakawa, S. Yamaguchi, M. Oguchi, paper 3X-04, 77th National Convention of the Information
//! Processing Society of Japan, 2015. Where many terminals upload over one access point and a long
//! path, the queue towards them fills with ACKs and ACKs are lost. The daemon on each terminal
//! reads its own connections from the kernel, tells the others by UDP broadcast that it sends,
//! counts them, and bounds its windows to the terminal's share. [`Daemon`] has the mechanism,
//! [`CoopConfig`] what the source gives and what it leaves open, [`Announcement`] the wire format.
//!
//! Nothing here reads a clock, a socket or a kernel: the simulator, and on a real host the kernel
//! monitor and a UDP socket, drive the same code.

pub mod announcement;
pub mod cap;
pub mod config;
pub mod daemon;
pub mod peers;
pub mod recent;
#[cfg(test)]
mod tests;

pub use announcement::{ANNOUNCEMENT_BYTES, Announcement, AnnouncementError, TerminalId};
pub use cap::Phase;
pub use config::{BwMax, CapRtt, CoopConfig, Count, Phases};
pub use daemon::{Daemon, FlowId, FlowSample};
pub use peers::{AnnouncementOutcome, Peers};
