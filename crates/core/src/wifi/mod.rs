//! 802.11: what happens between a station's queue and the packets that leave the access point's reorder buffer.
//!
//! Frames are lengths, addresses and flags here; nothing assumes that their sender is our own TCP.

//! [`medium`] is who sends when and who hears what, [`mac`] what a radio does above it, [`phy`] modes, durations, errors and signals. A
//! [`Channel`] is the first with the second above it.

pub mod channel;
pub mod config;
mod ids;
pub mod mac;
pub mod medium;
pub mod phy;
pub mod roam;
pub mod trace;

pub use channel::{AirOutputs, Channel, ChannelConfig, PairConfig, Released};
pub use config::{Aggregation, OnGiveUp, OnMissed, RadioConfig, RadioOptions, Retries, RetryCount};
pub use ids::{AirLinkId, PairId, RadioId};
pub use mac::{AirHoldings, rate, reorder, retry_out, transmit};
pub use medium::Occupancy;
pub use roam::{ApQueue, Measured, Roam, RoamRule, StationQueue};
pub use trace::{Ac, AirStats, FrameKind, FrameRecord, PpduRecord, TraceConfig};
pub use transmit::{Mac80211Config, QdiscConfig, TransmitConfig};
