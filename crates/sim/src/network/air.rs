//! The wireless channels of a world: links through the air and the channels that carry them.

use airtcp_core::convert::count;
use airtcp_core::units::Time;
use airtcp_core::wifi::{AirLinkId, AirOutputs, AirStats, Channel, ChannelConfig, PairConfig, PairId, TraceConfig};

use crate::spec::{ChannelId, LinkId, RunSpec};

#[derive(Debug, Default)]
pub(crate) struct Air {
    pub channels: Vec<Channel>,
    /// By channel and its link: the link of the world.
    pub world_link: Vec<Vec<LinkId>>,
    /// By link of the world: channel and its link. `None`: a wire.
    pub at: Vec<Option<(ChannelId, AirLinkId)>>,
    /// A batch of records has come together.
    pub flush_due: bool,
    /// Outputs of the channel that was called last; empty between calls.
    pub out: AirOutputs,
}

impl Air {
    pub(crate) fn new(spec: &RunSpec) -> Air {
        let mut air = Air { at: vec![None; spec.links.len()], ..Air::default() };
        for (id, channel) in (0..).map(ChannelId).zip(&spec.channels) {
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
                index: id.0,
                trace: TraceConfig {
                    ppdus: spec.record.ppdus.contains(&id),
                    frames: spec.record.capture_air.contains(&id),
                },
            }));
        }
        // By channel: the channel's link beside that of the world.
        let mut links: Vec<Vec<(AirLinkId, LinkId)>> = vec![Vec::new(); spec.channels.len()];
        for (id, link) in (0..).map(LinkId).zip(&spec.links) {
            if let Some(a) = link.air {
                let pairs = count(spec.channels[a.channel.index()].pairs.len());
                let own = match a.is_group {
                    true => AirLinkId::group(a.pair, pairs),
                    false if a.down => PairId(a.pair).down(),
                    false => PairId(a.pair).up(),
                };
                air.at[id.index()] = Some((a.channel, own));
                links[a.channel.index()].push((own, id));
            }
        }
        for (of_channel, channel) in links.iter_mut().zip(&spec.channels) {
            of_channel.sort_unstable();
            debug_assert_eq!(of_channel.len(), 2 * channel.pairs.len() + channel.groups.len(), "each link once");
            air.world_link.push(of_channel.iter().map(|&(_, id)| id).collect());
        }
        air
    }

    /// The link of the world that a channel's link is.
    pub(crate) fn world_link(&self, channel: ChannelId, link: AirLinkId) -> LinkId {
        self.world_link[channel.index()][link.index()]
    }

    /// Links of the world that go through the air, in order.
    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        (0..).map(LinkId).zip(&self.at).filter(|(_, at)| at.is_some()).map(|(link, _)| link)
    }

    /// Counters of a link of the world from the start of the run to now; `None` for a wire.
    pub(crate) fn stats(&self, link: LinkId, now: Time) -> Option<AirStats> {
        self.at[link.index()].map(|(channel, own)| self.channels[channel.index()].stats(own, now))
    }
}
