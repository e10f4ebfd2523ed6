//! The 802.11 medium of a scenario, for radios of Linux kernels.

use std::sync::Arc;

use airtcp_core::wifi::{ChannelConfig, PairConfig, TraceConfig};
use airtcp_sim::spec::{ChannelSpec, PairSpec, RunSpec};

/// The one channel that a scenario must have, with stations that stay where they are.
pub(crate) fn only_channel<'a>(spec: &'a RunSpec, who: &str) -> Result<&'a ChannelSpec, String> {
    let [channel] = &spec.channels[..] else {
        return Err(match spec.channels.len() {
            0 => format!("the scenario has no WLAN: {who} needs [[wlans]] with an access point and stations"),
            n => format!("the scenario has {n} channels: {who} runs one"),
        });
    };
    if !spec.walks.is_empty() || !spec.roaming.is_empty() {
        return Err(format!("hosts that walk or roam: {who} runs stations that stay where they are"));
    }
    Ok(channel)
}

/// The medium of a channel whose stations stay where they are.
pub(crate) fn medium(spec: &RunSpec, channel: &ChannelSpec) -> ChannelConfig {
    let pair = |pair: &PairSpec| PairConfig {
        station: pair.station,
        access_point: pair.access_point,
        signal: pair.signal.clone(),
        motion: None,
        roams: None,
    };
    ChannelConfig {
        radios: channel.radios.iter().map(|radio| Arc::clone(&radio.config)).collect(),
        pairs: channel.pairs.iter().map(pair).collect(),
        groups: channel.groups.clone(),
        hidden: channel.hidden.clone(),
        sensing: channel.sensing,
        capture_effect: channel.capture_effect,
        seed: spec.seed,
        index: 0,
        trace: TraceConfig::default(),
    }
}
