//! The wireless channels of a world: links through the air and the channels that carry them.

use std::collections::BTreeMap;

use airtcp_core::wifi::{AirOutputs, AirStats, Channel, ChannelConfig, FrameRecord, PairConfig, TraceConfig};

use crate::link::LinkTotals;
use crate::spec::{FlowSpec, NodeId, PairSpec, RunSpec, Traffic};

#[derive(Debug, Default)]
pub(crate) struct Air {
    pub channels: Vec<Channel>,
    /// By channel and its link: the link of the world.
    pub world_link: Vec<Vec<u32>>,
    /// By link of the world: channel and its link. `None`: a wire.
    pub at: Vec<Option<(u32, u32)>>,
    /// By channel and pair: the daemon on the pair's station, as a flow.
    pub daemons: Vec<Vec<Option<u32>>>,
    /// Frames of all channels on their way to the capture, with their channel.
    pub recorded: Vec<(u32, FrameRecord)>,
    /// A lot of records has come together.
    pub hand_over_due: bool,
    /// What a channel has just put out; empty between calls.
    pub out: AirOutputs,
}

impl Air {
    pub fn new(spec: &RunSpec) -> Air {
        let mut air = Air { at: vec![None; spec.links.len()], ..Air::default() };
        let is_daemon = |(_, f): &(u32, &FlowSpec)| matches!(f.traffic, Traffic::Daemon(_));
        let daemon_of: BTreeMap<NodeId, u32> =
            (0u32..).zip(&spec.flows).filter(is_daemon).map(|(i, f)| (f.from, i)).collect();
        for (c, channel) in spec.channels.iter().enumerate() {
            let c32 = c as u32;
            air.channels.push(Channel::new(&ChannelConfig {
                radios: channel.radios.iter().map(|r| r.config.clone()).collect(),
                pairs: channel
                    .pairs
                    .iter()
                    .map(|p| PairConfig {
                        station: p.station,
                        access_point: p.access_point,
                        signal: p.signal.clone(),
                        motion: p.motion.clone(),
                        roams: p.roams,
                    })
                    .collect(),
                groups: channel.groups.clone(),
                hidden: channel.hidden.clone(),
                sensing: channel.sensing,
                capture_effect: channel.capture_effect,
                seed: spec.seed,
                index: c32,
                trace: TraceConfig {
                    ppdus: spec.record.ppdus.contains(&c32),
                    frames: spec.record.capture_air.contains(&c32),
                },
            }));
            let daemon = |pair: &PairSpec| daemon_of.get(&channel.radios[usize::from(pair.station)].node).copied();
            air.daemons.push(channel.pairs.iter().map(daemon).collect());
            air.world_link.push(vec![u32::MAX; 2 * channel.pairs.len() + channel.groups.len()]);
        }
        for (i, link) in spec.links.iter().enumerate() {
            if let Some(a) = link.air {
                let pairs = spec.channels[a.channel as usize].pairs.len() as u32;
                let own = match a.is_group {
                    true => 2 * pairs + u32::from(a.pair),
                    false => 2 * u32::from(a.pair) + u32::from(a.down),
                };
                air.at[i] = Some((a.channel, own));
                air.world_link[a.channel as usize][own as usize] = i as u32;
            }
        }
        air
    }

    /// The link of the world that a channel's link is.
    pub fn world_link(&self, channel: u32, link: u32) -> u32 {
        self.world_link[channel as usize][link as usize]
    }

    /// Links of the world that go through the air, in order.
    pub fn links(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.at).filter(|(_, at)| at.is_some()).map(|(link, _)| link)
    }

    /// Counters of a link of the world from the start of the run to now; `None` for a wire.
    pub fn stats(&self, link: u32, now: u64) -> Option<AirStats> {
        self.at[link as usize].map(|(channel, own)| self.channels[channel as usize].stats(own, now))
    }
}

/// The counters that an air link has in common with a line. What waits is all that the sending host holds; the line is
/// busy while it is used for this link.
pub(crate) fn link_totals(s: &AirStats) -> LinkTotals {
    LinkTotals {
        arrived_packets: s.arrived_packets,
        arrived_bytes: s.arrived_bytes,
        dropped_overflow: s.dropped_overflow,
        dropped_early: s.dropped_early,
        filtered: s.filtered,
        dropped_gone: s.dropped_gone,
        dropped_bytes: 0,
        held_back_packets: 0,
        lost_packets: s.dropped_retries + s.lost_collision + s.lost_errors + s.dropped_late,
        marked: s.marked,
        forwarded_packets: s.delivered_packets,
        forwarded_bytes: s.delivered_bytes,
        started_packets: s.delivered_packets,
        busy_ns: s.airtime_ns,
        queue_packet_ns: s.held_packet_ns,
        queue_packets: s.held_packets,
        queue_bytes: s.held_bytes,
    }
}
