//! A channel as it is set up: its radios, its pairs of stations and access points, and who hears
//! whom.

use std::sync::Arc;

use super::config::RadioConfig;
use super::ids::RadioId;
use super::phy::{Motion, SignalConfig};
use super::roam::{ApQueue, StationQueue};
use super::trace::TraceConfig;
use crate::units::{Probability, Span};

/// A channel as it is set up.
#[derive(Debug, Clone)]
pub struct ChannelConfig {
    /// Its radios; a [`RadioId`] is a place in this list.
    pub radios: Vec<Arc<RadioConfig>>,
    /// Pairs of a station and its access point; a [`PairId`] is a place in this list.
    pub pairs: Vec<PairConfig>,
    /// Access points that send to all their stations at once: the `i`-th has the link `2 *
    /// pairs.len() + i` for it.
    pub groups: Vec<RadioId>,
    /// Pairs of radios that do not hear each other.
    pub hidden: Vec<(RadioId, RadioId)>,
    /// Time from the start of a transmission until others sense it.
    pub sensing: Span,
    /// Probability that one of two transmissions that meet at a receiver is so much stronger there
    /// that it is received as if it were alone; either one with half of it. The later one must
    /// begin within the preamble of the earlier.
    pub capture_effect: Probability,
    /// Seed of the run.
    pub seed: u64,
    /// Number of the channel within the run; channels with different numbers draw different random
    /// numbers.
    pub index: u32,
    /// Records that are kept.
    pub trace: TraceConfig,
}

/// A station and its access point. Its two directions are links `2 * i` (up) and `2 * i + 1` (down)
/// of the channel.
#[derive(Debug, Clone)]
pub struct PairConfig {
    /// The station's radio.
    pub station: RadioId,
    /// The access point's radio.
    pub access_point: RadioId,
    /// The radio link between them, in both directions alike.
    pub signal: SignalConfig,
    /// Distance of the two, where one of them walks.
    pub motion: Option<Motion>,
    /// The station comes and goes, and is not associated at first. `None`: it is associated all the
    /// time.
    pub roams: Option<Roams>,
}

impl PairConfig {
    /// Devices that stand where they are and are associated all the time.
    pub fn fixed(station: impl Into<RadioId>, access_point: impl Into<RadioId>, signal: SignalConfig) -> PairConfig {
        PairConfig { station: station.into(), access_point: access_point.into(), signal, motion: None, roams: None }
    }
}

/// Treatment of packets at either end without association. The radio of a station that roams is in
/// no other pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roams {
    /// The station's packets.
    pub station_queue: StationQueue,
    /// Packets that its access point has for it.
    pub ap_queue: ApQueue,
}
