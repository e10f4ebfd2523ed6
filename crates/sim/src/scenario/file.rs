//! The scenario file as written: strict about keys and types, free of policy. Doc comments here are
//! the descriptions in the JSON Schema and the reference page.

mod coop;
mod roam;
mod wlan;

use std::borrow::Cow;
use std::collections::BTreeMap;

use airtcp_core::queue::QueueConfig;
use airtcp_core::receive::ReceiveOffloadConfig;
use airtcp_core::tcp::TcpOptions;
use airtcp_core::units::{DataRate, Probability, Span};
use airtcp_core::wifi::{Ac, RadioOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::rate_trace::RateTraceConfig;
use crate::traffic::TrafficConfig;
pub use coop::Coop;
pub use roam::{NearestRule, Roaming, RoamingRule, RssiRule, Switch, TimesRule, Walk};
pub use wlan::{AllHidden, Hidden, Layer, Selection, Station, StationEntry, Wlan};
pub(super) use wlan::{lay, plain_name};

/// Most nodes, flows or lines (in one direction) of a run. A world of this size needs a few GiB.
pub const MAX_COUNT: u32 = 1_000_000;

/// A scenario: a network, the flows through it and what to record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    /// Name of the scenario, used in titles and folder names. Default: the file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Purpose of the scenario, in a sentence or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seed of everything random. The same file and seed give the same results to the bit.
    #[serde(default = "defaults::seed")]
    #[schemars(range(max = 9_223_372_036_854_775_807i64))]
    pub seed: u64,
    /// Simulated time, at most 30 days.
    pub duration: Span,
    /// Summaries leave out the time before this. Time series and tables of single events include
    /// it.
    #[serde(default)]
    pub warmup: Span,
    /// Hosts and routers.
    pub nodes: Vec<Node>,
    /// Lines between nodes.
    #[serde(default)]
    pub links: Vec<Link>,
    /// Wireless LANs: stations and their access points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wlans: Vec<Wlan>,
    /// Paths of hosts that move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub walks: Vec<Walk>,
    /// Hosts that change their access point, with the rules for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roaming: Vec<Roaming>,
    /// Host profiles of your own, by name: a base, and options that differ from it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub profiles: BTreeMap<String, Profile>,
    /// Connections and packet streams. Without flows the network stays silent.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// Hosts that run the cooperative daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coop: Vec<Coop>,
    /// Recordings besides the summaries.
    #[serde(default)]
    pub record: Record,
}

/// A host, a router, or a group of `count` like them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Name by which links and flows refer to it: letters, digits, `_` and `-`.
    pub name: String,
    /// `host` or `router`: hosts are ends of flows, routers forward packets.
    pub kind: NodeKind,
    /// Makes a group: members `name[0]`, `name[1]` and so on, addressed together by `name`.
    /// Default: a single node, not a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub count: Option<u32>,
    /// Host profile: a built-in one or one from `profiles`. It sets every TCP option that a flow
    /// does not. Hosts only. Default: `linux-6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// How it takes packets from its interface, and which of them it merges on the way up to TCP.
    /// Hosts only. Default: as its profile has it, for the air if it is a station of a WLAN and
    /// for a line otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_offload: Option<ReceiveOffloadConfig>,
    /// Time that its processor needs for each packet it sends or receives, of any size: before the
    /// first queue, and before receive offload. One processor does all of them one after the other,
    /// in the order of coming. Any number of packets may wait for it. Senders then count packets as
    /// sent that the host's first queue drops. Real programs and cooperative daemons take no time.
    /// At most 1 s. Hosts only. Default: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub packet_time: Span,
    /// Real programs run on it when the scenario runs in real time. Flows between two such hosts
    /// are left to them. In simulated time nothing takes their place. Hosts only. Default:
    /// false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attach: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the key of this type says it
pub enum NodeKind {
    /// An end of flows. Never forwards.
    Host,
    /// Forwards along shortest paths. Never an end of a flow.
    Router,
}

/// A line between two nodes, or one for each member of a group.
///
/// A single end and a group: each member gets a line of its own. Two groups of equal size: member
/// by member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name by which `record` and `--set` refer to it: letters, digits, `_` and `-`. Default: both
    /// ends, as `r1-r2`, or `left3-r1` for a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Node or group at one end, or one member as `left[3]`.
    pub from: String,
    /// Node or group at the other end, or one member as `left[3]`.
    pub to: String,
    /// Rate of the line in each direction, in bits of IP packets.
    pub rate: DataRate,
    /// Rate of the line over time, in each direction. `rate` is then what queue disciplines and
    /// buffer rules calculate with. Default: `rate` at all times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_trace: Option<RateTraceConfig>,
    /// Propagation delay, one way: a duration, or a range over the members of a group.
    pub delay: Delay,
    /// Queue discipline before the line. Default: `fifo` without a limit.
    #[serde(default = "defaults::queue")]
    pub queue: QueueConfig,
    /// Limit of the queue by a rule instead of a number. Sets the queue's `limit_packets` or
    /// `limit_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Buffer>,
    /// Probability with which each packet is lost on the line, after transmission.
    #[serde(default)]
    pub loss: Probability,
    /// Holds some packets back on the line, so that those behind overtake them. Default: packets
    /// stay in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// Cost of the line for shortest-path routing.
    #[serde(default = "defaults::cost")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub cost: u32,
    /// Options that differ in the direction from `to` to `from`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<Reverse>,
    /// Only the direction from `from` to `to` exists.
    #[serde(default)]
    pub one_way: bool,
}

impl Link {
    /// The name it is given or goes by.
    pub fn name(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(default_link_name(&self.from, &self.to)),
        }
    }
}

/// `r1-r2`; a member is named without its brackets (`left3-r1`), so that the name can be used like
/// any other.
pub(super) fn default_link_name(from: &str, to: &str) -> String {
    plain_name(&format!("{from}-{to}"))
}

/// Options that differ in the direction from `to` to `from` of a line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reverse {
    /// Line rate. If it is set here, the `rate_trace` of the other direction does not apply to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<DataRate>,
    /// Rate over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_trace: Option<RateTraceConfig>,
    /// Propagation delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// Queue discipline. If it is set here, the `buffer` of the other direction does not apply to
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueConfig>,
    /// Limit of the queue by a rule. A rule uses the rate of its own direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Buffer>,
    /// Probability with which each packet is lost on the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Probability>,
    /// Reordering on the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// Cost of the line for shortest-path routing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub cost: Option<u32>,
}

/// Reordering on a line: each packet that is not lost is held back with `probability` after its
/// transmission, and arrives `delay` late. Packets that follow within that time may overtake it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Probability with which each packet is held back.
    pub probability: Probability,
    /// Time for which it is held back: a duration, or a range from which each such packet draws its
    /// own.
    pub delay: Hold,
}

/// One duration, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Hold {
    #[allow(missing_docs)] // its type says it
    For(Span),
    #[allow(missing_docs)] // its type says it
    Between(HoldRange),
}

/// Durations drawn uniformly from a range, one per packet that is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldRange {
    /// Shortest duration.
    pub min: Span,
    /// Longest duration.
    pub max: Span,
}

/// One delay, or a range over the members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Delay {
    #[allow(missing_docs)] // its type says it
    Fixed(Span),
    #[allow(missing_docs)] // its type says it
    Spread(DelaySpread),
}

/// Delays that differ from member to member; both directions of a member's line have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelaySpread {
    /// Shortest delay.
    pub min: Span,
    /// Longest delay.
    pub max: Span,
    /// Distribution of the delays between `min` and `max`.
    #[serde(default)]
    pub spread: Spread,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the key of this type says it
pub enum Spread {
    /// Equal steps: the first member has `min`, the last `max`; a single line has the mean.
    #[default]
    Even,
    /// Uniformly distributed, drawn once per member from the seed.
    Random,
}

/// A queue limit by a rule of buffer sizing. The result is rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// The rule.
    pub rule: BufferRule,
    /// Round-trip time of the rule: usually twice the propagation delay from end to end.
    pub rtt: Span,
    /// Number of flows N for `bdp_over_sqrt_n`. `bdp` ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub flows: Option<u32>,
    /// Factor by which the result is multiplied: 0.25 gives a quarter of the rule's buffer.
    #[serde(default = "defaults::scale")]
    #[schemars(range(min = 0))]
    pub scale: f64,
    /// Size of the packets in which the limit is counted, headers included. Default: the limit is
    /// in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub packet_bytes: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the key of this type says it
pub enum BufferRule {
    /// Bandwidth-delay product: rate × rtt.
    Bdp,
    /// rate × rtt / √N for N flows (Appenzeller, Keslassy and McKeown, SIGCOMM 2004).
    BdpOverSqrtN,
}

/// A host profile: a base, and options that differ from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Profile that sets all options that this one does not: a built-in one or another of
    /// `profiles`.
    #[serde(default = "defaults::profile")]
    pub base: String,
    /// Options of the host's radio if it is a station of a WLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wifi: Option<Layer<RadioOptions>>,
    #[serde(flatten)]
    #[allow(missing_docs)] // its type says it
    pub options: TcpOptions,
}

/// A flow, or a group of `count` like it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name by which results are grouped and `--set` refers to it: letters, digits, `_` and `-`.
    pub name: String,
    /// Host or group that sends, or one member as `left[3]`.
    pub from: String,
    /// Host or group that receives, or one member as `right[3]`.
    pub to: String,
    /// Number of flows, `name[0]`, `name[1]` and so on. Flow i runs from member i to member i. A
    /// smaller group starts again at its first member. Default: the size of the larger of the
    /// two groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub count: Option<u32>,
    /// Start: a time, or a range from which each flow draws its own, by the seed.
    #[serde(default)]
    pub start: Start,
    /// End of unlimited and repeating traffic. Default: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// Kind of traffic: the name of a kind with its defaults, or a table with `kind` and its
    /// parameters.
    #[serde(default)]
    pub traffic: TrafficConfig,
    /// Access category of its packets in the air, in both directions. It applies to radios with
    /// QoS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ac: Ac,
    /// Options of the sending end that differ from its host's profile. Those that concern both ends
    /// (`packet_bytes`, `handshake`, `timestamps`, `recovery`, `ecn`) apply to the receiving
    /// end as well, unless `receiver` sets them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tcp: TcpOptions,
    /// Options of the receiving end that differ from its host's profile. The ends agree as real
    /// ones do. They use timestamps and SACK only if both have them, and the smaller of the two
    /// packet sizes. A handshake takes place if the sender begins with one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub receiver: TcpOptions,
    /// Rate at which the receiving application reads. Default: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_rate: Option<DataRate>,
}

/// One start time, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Start {
    #[allow(missing_docs)] // its type says it
    At(Span),
    #[allow(missing_docs)] // its type says it
    Between(StartRange),
}

impl Default for Start {
    fn default() -> Start {
        Start::At(Span::ZERO)
    }
}

/// Start times drawn uniformly from a range, one per flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRange {
    /// Earliest start.
    pub from: Span,
    /// Latest start.
    pub to: Span,
}

/// Recordings besides the summaries. Links are named by entry (`bottleneck`: both directions and,
/// for a group, every member) or by single direction (`r1->r2`, `left[3]->r1`). The name of a WLAN
/// stands for the lines of all its stations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Record {
    /// Time between samples of the time series. Default: `duration` / 600, at least 1 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
    /// Most TCP flows with a time series. They are spread evenly over all TCP flows.
    #[schemars(range(max = MAX_COUNT))]
    pub flow_series_max: u32,
    /// Links with a time series. Default: links that do not belong to a group of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<String>>,
    /// Links whose drops are recorded one by one. Default: the same as `links`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drops: Option<Vec<String>>,
    /// TCP flows whose retransmissions are recorded one by one, or true for all. They are names of
    /// entries (`web`: every flow of it) or of single flows (`web[3]`). Each retransmission
    /// takes about 100 bytes of memory until the end of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmissions: Option<Selection>,
    /// Links whose packets are captured as they enter the line. `capture_air` captures those of a
    /// WLAN.
    pub capture: Vec<String>,
    /// Links of WLANs with a time series of rate, airtime, errors and packets held. Default: all of
    /// them, if there are at most 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub air_series: Option<Vec<String>>,
    /// WLANs on whose channels each PPDU is recorded: their names, or true for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ppdus: Option<Selection>,
    /// WLANs whose channels are captured frame by frame, as a monitor beside the receivers would.
    pub capture_air: Vec<String>,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            interval: None,
            flow_series_max: 64,
            links: None,
            drops: None,
            retransmissions: None,
            capture: Vec::new(),
            air_series: None,
            ppdus: None,
            capture_air: Vec::new(),
        }
    }
}

impl Record {
    /// The interval that is set, or the default.
    pub fn interval_of(&self, duration: Span) -> Span {
        self.interval.unwrap_or_else(|| duration.mul_ratio(1, 600).max(Span::from_ms(1)))
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) mod defaults {
    use super::QueueConfig;

    pub(crate) fn seed() -> u64 {
        1
    }
    pub(crate) fn queue() -> QueueConfig {
        QueueConfig::by_name("fifo").expect("registered")
    }
    pub(crate) fn cost() -> u32 {
        1
    }
    pub(crate) fn scale() -> f64 {
        1.0
    }
    pub(crate) const PROFILE: &str = "linux-6";
    pub(crate) fn profile() -> String {
        PROFILE.to_owned()
    }
}
