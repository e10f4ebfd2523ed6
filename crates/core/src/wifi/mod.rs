//! 802.11: what happens between a station's queue and the packets that leave the access point's reorder buffer.
//!
//! Frames are lengths, addresses and flags here; nothing assumes that their sender is our own TCP.

pub mod channel;
pub mod config;
mod contention;
mod ids;
mod originator;
pub mod phy;
mod radio;
pub mod rate;
pub mod reorder;
pub mod retry_out;
pub mod roam;
pub mod trace;
pub mod transmit;

pub use channel::{AirHoldings, AirOutputs, Channel, ChannelConfig, Occupancy, PairConfig, Released};
pub use config::{Aggregation, OnGiveUp, OnMissed, RadioConfig, RadioOptions, Retries, RetryCount};
pub use ids::{AirLinkId, PairId, RadioId};
pub use roam::{ApQueue, Measured, Roam, RoamRule, StationQueue};
pub use trace::{Ac, AirStats, FrameKind, FrameRecord, PpduRecord, TraceConfig};
pub use transmit::{Mac80211Config, QdiscConfig, TransmitConfig};
