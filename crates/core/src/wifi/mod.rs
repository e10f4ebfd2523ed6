//! 802.11: the path of packets from the sender's queue to the recipient's reorder buffer.
//!
//! Frames are lengths, addresses and flags here; nothing assumes that their sender is our own TCP.
//!
//! [`medium`] has the times of transmissions and their reception, [`mac`] the functions of a radio
//! above it, [`phy`] modes, durations, errors and signals. A [`Channel`] is a medium with its MAC.

pub mod channel;
pub mod config;
mod ids;
pub mod mac;
pub mod medium;
mod outputs;
pub mod phy;
pub mod roam;
mod setup;
pub mod trace;

pub use channel::Channel;
pub use config::{Aggregation, OnGiveUp, OnMissed, RadioConfig, RadioOptions, Retries, RetryCount};
pub use ids::{AirLinkId, PairId, RadioId};
pub use mac::completion::TxCompletion;
pub use mac::{AirHoldings, rate, reorder, retry_out, transmit};
pub use medium::Occupancy;
pub use outputs::{AirOutputs, Released};
pub use roam::{ApQueue, Measured, Roam, RoamRule, StationQueue};
pub use setup::{ChannelConfig, PairConfig, Roams};
pub use trace::{Ac, AirStats, FrameKind, FrameRecord, PpduRecord, TraceConfig};
pub use transmit::{Mac80211Config, QdiscConfig, TransmitConfig};
