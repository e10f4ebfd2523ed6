//! A run, fully determined: what a scenario file becomes after validation and what a `world::World`
//! is built from.
//!
//! Nothing here is optional for want of a default, and no value is out of range: the scenario sees
//! to that.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use airtcp_core::convert::count;
use airtcp_core::packet::FlowId;
use airtcp_core::queue::{FifoConfig, QueueConfig};
use airtcp_core::receive::{OffConfig, ReceiveOffloadConfig};
use airtcp_core::tcp::TcpConfig;
use airtcp_core::units::{DataRate, Probability, Span, Time};
use airtcp_core::wifi::phy::{Motion, SignalConfig, Track};
use airtcp_core::wifi::{Ac, ApQueue, RadioConfig, RadioId, RoamRule, Roams, StationQueue};

use crate::network::rate_trace::RateTrace;
pub use crate::traffic::{TcpApp, Traffic};

/// Index into [`RunSpec::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Index into [`RunSpec::links`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl NodeId {
    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// All ids below `links`.
    pub fn all(links: usize) -> impl Iterator<Item = LinkId> + Clone {
        (0..count(links)).map(LinkId)
    }
}

/// Index into [`RunSpec::channels`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

impl ChannelId {
    /// As an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// All that decides a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// Seed of every random stream.
    pub seed: u64,
    /// Virtual time from start to end; [`Span::MAX`]: there is no end.
    pub duration: Span,
    /// Summaries leave out what happens before this; series and tables of single events do not.
    pub warmup: Span,
    /// By number.
    pub nodes: Vec<NodeSpec>,
    /// By number: lines, and links in the air.
    pub links: Vec<LinkSpec>,
    /// Wireless channels. Their links are in `links`, marked by [`LinkSpec::air`].
    pub channels: Vec<ChannelSpec>,
    /// Hosts that move, each once.
    pub walks: Vec<WalkSpec>,
    /// Hosts that are a station of several access points, one at a time, each once.
    pub roaming: Vec<RoamingSpec>,
    /// By number.
    pub flows: Vec<FlowSpec>,
    /// Output that is written.
    pub record: RecordSpec,
    /// Hosts of real programs.
    pub external: ExternalSpec,
}

/// Hosts whose programs are real; none in an ordinary run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExternalSpec {
    /// By node, ascending. Between each two of them that a path leads between, in either order,
    /// there is a flow of [`Traffic::External`].
    pub hosts: Vec<ExternalHost>,
    /// Flows of the scenario, by name, that are not there because real programs are at both of
    /// their ends.
    pub left_out: Vec<String>,
}

/// A host whose programs are real.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalHost {
    /// The host.
    pub node: NodeId,
    /// Name of its profile.
    pub profile: String,
    /// TCP as its profile has it: what the host's real TCP is to be set to.
    pub tcp: Arc<TcpConfig>,
}

/// A frequency that radios share.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelSpec {
    /// Name of the channel, or of the one WLAN on it. Unique.
    pub name: String,
    /// By number.
    pub radios: Vec<RadioSpec>,
    /// Pairs of radios that exchange frames: a station and its access point.
    pub pairs: Vec<PairSpec>,
    /// Access points, as indices into `radios`, that send group-addressed frames to all their
    /// stations.
    pub groups: Vec<RadioId>,
    /// Pairs of radios, as indices into `radios`, that do not hear each other.
    pub hidden: Vec<(RadioId, RadioId)>,
    /// A transmission is sensed only after this long: whoever is due sooner transmits as well. IEEE
    /// 802.11-2020 17.3.12: aCCATime is below 4 us for OFDM.
    pub sensing: Span,
    /// Probability that one of two transmissions which meet at a receiver is received as if it were
    /// alone.
    pub capture_effect: Probability,
}

/// A radio of a node. A node may have several.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioSpec {
    /// The node it belongs to.
    pub node: NodeId,
    /// How it is set.
    pub config: Arc<RadioConfig>,
}

/// Two radios of a channel and what lies between them.
#[derive(Debug, Clone, PartialEq)]
pub struct PairSpec {
    /// Indices into [`ChannelSpec::radios`].
    pub station: RadioId,
    /// See `station`.
    pub access_point: RadioId,
    /// Signals between them, which decide if their frames arrive.
    pub signal: SignalConfig,
    /// How far apart they are, where the station walks.
    pub motion: Option<Motion>,
    /// The station roams: see [`RoamingSpec`].
    pub roams: Option<Roams>,
}

impl PairSpec {
    /// A station that stands where it is and is associated all the time.
    pub fn fixed(station: impl Into<RadioId>, access_point: impl Into<RadioId>, signal: SignalConfig) -> PairSpec {
        let (station, access_point) = (station.into(), access_point.into());
        PairSpec { station, access_point, signal, motion: None, roams: None }
    }
}

/// A host that moves.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkSpec {
    /// The host.
    pub node: NodeId,
    /// Its position over time.
    pub track: Arc<Track>,
}

/// A host that goes from access point to access point.
#[derive(Debug, Clone, PartialEq)]
pub struct RoamingSpec {
    /// The host.
    pub node: NodeId,
    /// Speaks of `candidates` by their place.
    pub rule: RoamRule,
    /// Its links to the access points that it may use.
    pub candidates: Vec<LinkId>,
    /// Where it begins; `None`: where the rule would have it.
    pub first: Option<usize>,
    /// From the end of one association to the next.
    pub gap: Span,
    /// Fate of the host's own packets when it changes.
    pub station_queue: StationQueue,
    /// Fate of those that wait for it at the access point it leaves.
    pub ap_queue: ApQueue,
    /// TCP senders on the host learn of each new association
    /// ([`airtcp_core::tcp::Sender::on_path_change`]).
    pub tells_senders: bool,
}

/// A link that is one direction between two radios. The channel decides when its packets arrive: of
/// a [`LinkSpec`] only names, ends and cost count then; `rate` is that of the fastest mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AirSpec {
    /// The channel of both.
    pub channel: ChannelId,
    /// Index into [`ChannelSpec::pairs`], or of a link to a group into [`ChannelSpec::groups`].
    pub pair: u16,
    /// From the access point.
    pub down: bool,
    /// From an access point to all its stations; `to` of such a link is the access point itself.
    pub is_group: bool,
}

/// A host or a router.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSpec {
    /// `left[17]` for the members of a group, `r1` for a single node.
    pub name: String,
    /// Hosts are ends of flows and never forward; routers forward.
    pub is_host: bool,
    /// How a host takes packets from its interface. A router does not.
    pub receive_offload: ReceiveOffloadConfig,
    /// Time that a host's processor takes for each packet, sent or received.
    pub packet_time: Span,
}

impl NodeSpec {
    /// A router, or a host that takes packets one by one.
    pub fn new(name: impl Into<String>, is_host: bool) -> NodeSpec {
        let receive_offload = ReceiveOffloadConfig::Off(OffConfig {});
        NodeSpec { name: name.into(), is_host, receive_offload, packet_time: Span::ZERO }
    }
}

/// One direction of a line.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSpec {
    /// `r1->r2`, `left[17]->r1`. Unique.
    pub name: String,
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// Propagation, from the end of the transmission to the arrival.
    pub delay: Span,
    /// `None`: a wire.
    pub air: Option<AirSpec>,
    /// A large network has many links alike. It can be read and changed as if it were in the link
    /// itself.
    pub line: Arc<LineSpec>,
}

/// Settings that links have in common that came from one entry, in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct LineSpec {
    /// Name of the `[[links]]` entry it came from; both directions have the same.
    pub group: String,
    /// Never zero.
    pub rate: DataRate,
    /// The rate over time, where it varies: then `rate` is what disciplines and reports calculate
    /// with.
    pub rate_trace: Option<Arc<RateTrace>>,
    /// The discipline of the packets that wait before it.
    pub queue: QueueConfig,
    /// Each packet is lost on the line, after transmission, with this probability.
    pub loss: Probability,
    /// Changes of the line to the order of its packets.
    pub reorder: Reorder,
    /// Cost of this link for shortest-path routing; ties go to the path whose first differing link
    /// has the lower id.
    pub cost: u32,
    /// Part of a group of access links: left out of the link series unless asked for.
    pub is_member_of_group: bool,
}

impl Deref for LinkSpec {
    type Target = LineSpec;
    fn deref(&self) -> &LineSpec {
        &self.line
    }
}

impl DerefMut for LinkSpec {
    fn deref_mut(&mut self) -> &mut LineSpec {
        Arc::make_mut(&mut self.line)
    }
}

impl LineSpec {
    /// A line of that entry and rate: drop-tail without limit, and nothing goes wrong.
    pub fn new(group: impl Into<String>, rate: DataRate) -> LineSpec {
        LineSpec {
            group: group.into(),
            rate,
            rate_trace: None,
            queue: QueueConfig::Fifo(FifoConfig::default()),
            loss: Probability::ZERO,
            reorder: Reorder::NONE,
            cost: 1,
            is_member_of_group: false,
        }
    }

    /// The fastest that it can be.
    pub(crate) fn top_rate(&self) -> DataRate {
        self.rate_trace.as_ref().map_or(self.rate, |trace| DataRate::from_bps(trace.top_bps()))
    }
}

/// Each packet that is not lost is held back with this probability: it arrives later by a time
/// drawn uniformly from a range. Those behind it overtake it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Probability of being held back.
    pub probability: Probability,
    /// Least time.
    pub min: Span,
    /// Most time.
    pub max: Span,
}

impl Reorder {
    /// Nothing is held back.
    pub const NONE: Reorder = Reorder { probability: Probability::ZERO, min: Span::ZERO, max: Span::ZERO };
}

/// Traffic from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSpec {
    /// `reno[3]` for the members of a group, `reno` for a single flow.
    pub name: String,
    /// Name of the `[[flows]]` entry it came from, by which results are grouped.
    pub group: String,
    /// Its source.
    pub from: NodeId,
    /// Its destination.
    pub to: NodeId,
    /// When it begins.
    pub start: Time,
    /// Unlimited and repeating traffic ends here; [`Time::NEVER`]: at the end of the run.
    pub stop: Time,
    /// Access category of its packets in the air, both directions.
    pub ac: Ac,
    /// Traffic that it sends.
    pub traffic: Traffic,
}

/// Output that is written besides summaries.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordSpec {
    /// Distance of the samples in the time series.
    pub interval: Span,
    /// At most this many TCP flows have a time series, spread evenly over all.
    pub flow_series_max: u32,
    /// Links with a time series.
    pub link_series: Vec<LinkId>,
    /// Links whose drops are recorded one by one.
    pub drops: Vec<LinkId>,
    /// TCP flows whose retransmissions are recorded one by one, ascending.
    pub retransmissions: Vec<FlowId>,
    /// Links whose packets are captured as they enter the line. Wires only.
    pub capture: Vec<LinkId>,
    /// Air links with a time series of their own (rate, airtime, errors).
    pub air_series: Vec<LinkId>,
    /// Channels whose PPDUs are recorded one by one.
    pub ppdus: Vec<ChannelId>,
    /// Channels whose frames are captured, with radiotap headers.
    pub capture_air: Vec<ChannelId>,
}
