//! Group-addressed frames, which an access point sends to all its stations at once.
//!
//! They are sent at the lowest basic rate, one by one, without acknowledgement or retries (IEEE
//! 802.11-2020 10.3.7, 10.6.5.3). The signal of each station decides if it receives its copy. A
//! station's own broadcast goes to its access point first, as all its frames do, and the access
//! point sends it to all (4.3.5.2). The station that it came from gets it, too, and ignores it.
//!
//! The medium decides which stations it reaches.

use std::sync::Arc;

use super::radio::Radio;
use super::rate::{RateConfig, RateContext};
use super::{Gate, Link, fastest};
use crate::rng::{Purpose, Stream};
use crate::units::Time;
use crate::wifi::ids::RadioId;
use crate::wifi::phy::ErrorModel;
use crate::wifi::trace::AirStats;

/// The link from an access point to its group.
pub(super) fn link(ap: RadioId, radio: &Radio, errors: &ErrorModel, seed: u64, component: u64) -> Link {
    // [IEEE80211-10.6.5-1]
    let lowest = radio.config.phy.basic_modes().first().copied();
    let context = RateContext {
        modes: vec![lowest.unwrap_or_else(|| fastest(&radio.config.phy.modes()))],
        timing: Arc::clone(&radio.timing),
        stream: Stream::new(seed, component, Purpose::RateControl),
        errors: errors.clone(),
    };
    let rate = RateConfig::by_name("fixed").expect("registered").build(&context);
    Link {
        from: ap,
        to: ap,
        pair: None,
        gate: Gate::Open,
        rate_setup: None,
        sessions: [None; 4],
        wants_snr: false,
        rate,
        retry_limit: None,
        stats: AirStats::default(),
        counted_to: Time::ZERO,
    }
}
