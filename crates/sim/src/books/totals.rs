//! Counters of links and flows at one instant.

use airtcp_core::packet::FlowId;
use airtcp_core::tcp::SenderStats;
use airtcp_core::wifi::AirStats;

use crate::spec::{LinkId, RunSpec};

/// Counters from the beginning of the run up to some instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkTotals {
    pub arrived_packets: u64,
    pub arrived_bytes: u64,
    pub dropped_overflow: u64,
    pub dropped_early: u64,
    /// ACKs that a newer one made superfluous.
    pub filtered: u64,
    /// In the air: for want of an association.
    pub dropped_gone: u64,
    pub dropped_bytes: u64,
    pub lost_packets: u64,
    /// Held back on the line, so that others overtake them.
    pub held_back_packets: u64,
    pub marked: u64,
    /// Transmitted to the end, those lost on the line included.
    pub forwarded_packets: u64,
    pub forwarded_bytes: u64,
    /// Packets whose transmission has begun.
    pub started_packets: u64,
    /// Time the line was busy.
    pub busy_ns: u64,
    /// Time integral of the packets waiting, the one being transmitted not counted.
    pub queue_packet_ns: u128,
    /// Now waiting.
    pub queue_packets: u64,
    pub queue_bytes: u64,
}

impl LinkTotals {
    /// Packets dropped for any cause but a filter's.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped_overflow + self.dropped_early + self.dropped_gone
    }
}

impl From<&AirStats> for LinkTotals {
    /// Counters that an air link has in common with a line. All that the sending host holds waits;
    /// the line is busy while it is used for this link.
    fn from(s: &AirStats) -> LinkTotals {
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
}

/// Counters of a flow since the start of the run. A kind of traffic leaves at zero what it does not
/// know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Data segments, retransmissions included, datagrams, or requests.
    pub sent: u64,
    /// Datagrams or replies, bytes at the IP layer, and their one-way delays.
    pub received: u64,
    pub received_bytes: u64,
    pub delay_sum_ns: u128,
    pub tcp: SenderStats,
    pub spurious_retransmissions: u64,
    /// Payload in order at the receiver of TCP, bytes, and the ACKs it sent.
    pub delivered_bytes: u64,
    pub acks_sent: u64,
}

impl Counters {
    /// Adds what another copy of the flow has of its destination.
    pub(crate) fn receive(&mut self, destination: &Counters) {
        self.received += destination.received;
        self.received_bytes += destination.received_bytes;
        self.delay_sum_ns += destination.delay_sum_ns;
        self.spurious_retransmissions += destination.spurious_retransmissions;
        self.delivered_bytes += destination.delivered_bytes;
        self.acks_sent += destination.acks_sent;
    }
}

/// Counters of a flow and of its packets in the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FlowTotals {
    pub counters: Counters,
    pub dropped_at_queues: u64,
    pub lost_on_lines: u64,
}

/// Counters of cooperative daemons, each since the start of the run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DaemonStats {
    pub announced: u64,
    /// Announcements of others that came in, and of these refused: malformed, late, or of a
    /// terminal for which there is no room.
    pub heard: u64,
    pub refused: u64,
    /// Looks at a connection that sends, and of these with a cap in force, and in stop mode.
    pub looks: u64,
    pub corrected: u64,
    pub stopped: u64,
    /// Sum of the terminals counted, over times of looking, and how many these were.
    pub terminals: u64,
    pub samples: u64,
}

/// All counters at one instant. Where nothing has happened yet they are zero, and nothing is kept.
#[derive(Clone, Default)]
pub(crate) struct Totals {
    pub links: Vec<LinkTotals>,
    /// By link of a WLAN, in order.
    pub air: Vec<AirStats>,
    pub flows: Vec<FlowTotals>,
}

impl Totals {
    pub(crate) fn link(&self, id: LinkId) -> LinkTotals {
        self.links.get(id.index()).copied().unwrap_or_default()
    }
    pub(crate) fn flow(&self, id: FlowId) -> FlowTotals {
        self.flows.get(id.0 as usize).copied().unwrap_or_default()
    }
    /// Counters of the `i`-th link of a WLAN.
    pub(crate) fn air(&self, i: usize) -> AirStats {
        self.air.get(i).copied().unwrap_or_default()
    }
    pub(crate) fn are_zero(&self) -> bool {
        let no_links = self.links.iter().all(|link| *link == LinkTotals::default());
        let no_air = self.air.iter().all(|link| *link == AirStats::default());
        no_links && no_air && self.flows.iter().all(|flow| *flow == FlowTotals::default())
    }

    /// Joins the counters of all parts of a world. `of_node`, `of_link`: the part of each.
    pub(crate) fn join(parts: &[Totals], spec: &RunSpec, of_node: &[u16], of_link: &[u16]) -> Totals {
        let of_link = |link: LinkId| usize::from(of_link[link.index()]);
        if parts.iter().all(|part| part.links.is_empty()) {
            return Totals::default();
        }
        let links = LinkId::all(spec.links.len());
        let air = links.clone().filter(|link| spec.links[link.index()].air.is_some());
        let flows = (0..).map(FlowId).zip(&spec.flows).map(|(id, flow)| {
            let [source, destination] = [flow.from, flow.to].map(|node| usize::from(of_node[node.index()]));
            let mut counters = parts[source].flow(id).counters;
            if destination != source {
                counters.receive(&parts[destination].flow(id).counters);
            }
            let sum = |of: fn(&FlowTotals) -> u64| parts.iter().map(|part| of(&part.flow(id))).sum();
            FlowTotals {
                counters,
                dropped_at_queues: sum(|flow| flow.dropped_at_queues),
                lost_on_lines: sum(|flow| flow.lost_on_lines),
            }
        });
        Totals {
            links: links.map(|link| parts[of_link(link)].link(link)).collect(),
            air: air.enumerate().map(|(i, link)| parts[of_link(link)].air(i)).collect(),
            flows: flows.collect(),
        }
    }
}
