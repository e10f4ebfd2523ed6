//! The figures of a run at a glance: per group of flows, per flow of small groups, per link that is
//! not one of many.
//!
//! Contents depend on scenario and seed only. A figure that does not exist is `None` (JSON `null`);
//! every number is finite. A figure without a comment is what the column of its name is, which
//! states unit and meaning: see [`crate::books::record`].

#![allow(missing_docs)] // said there, once

use serde::Serialize;

use super::record::{AirRow, Figure, FlowRow, LinkRow};

/// Most links of WLANs that are all listed; of more only those of single stations are.
pub const MAX_AIR_LISTED: usize = 200;

/// Groups of more flows than this are not listed flow by flow.
pub const MAX_FLOWS_LISTED: usize = 100;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub seed: u64,
    /// Virtual time the run reached.
    pub end_s: f64,
    pub warmup_s: f64,
    pub groups: Vec<GroupSummary>,
    pub links: Vec<LinkSummary>,
    /// Links of WLANs. Members of groups are left out where there are more than [`MAX_AIR_LISTED`]
    /// in all.
    pub air: Vec<AirSummary>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSummary {
    pub group: String,
    pub kind: String,
    /// Congestion control, empty unless TCP.
    pub cc: String,
    pub flow_count: u64,
    /// Payload acknowledged at the senders of all flows together.
    pub goodput_bps: Option<f64>,
    /// Payload in order at the receivers of all flows together.
    pub delivered_bps: Option<f64>,
    /// Jain's fairness index of the flows' goodputs.
    pub jain: Option<f64>,
    /// Packets without payload that the receivers sent (tcp).
    pub acks_sent: u64,
    pub segments_sent: u64,
    pub segments_retransmitted: u64,
    pub retransmission_ratio: Option<f64>,
    pub timeouts: u64,
    pub fast_retransmits: u64,
    pub ecn_reductions: u64,
    pub dropped_at_queues: u64,
    pub lost_on_lines: u64,
    /// Mean over the flows of their time averages, segments.
    pub cwnd_mean_segments: Option<f64>,
    /// Mean over the flows of their mean round-trip time.
    pub rtt_mean_ms: Option<f64>,
    pub transfers: u64,
    /// Mean duration of the transfers that began after warmup and are complete.
    pub transfer_mean_s: Option<f64>,
    pub received: u64,
    pub delay_mean_ms: Option<f64>,
    /// Figures that only some kinds of traffic have: means over the flows.
    #[serde(flatten)]
    pub figures: Figures,
    /// Flow by flow, unless there are more than [`MAX_FLOWS_LISTED`].
    pub flows: Vec<FlowSummary>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowSummary {
    pub name: String,
    pub goodput_bps: Option<f64>,
    pub delivered_bps: Option<f64>,
    pub bytes_acked: u64,
    pub acks_sent: u64,
    pub segments_sent: u64,
    pub segments_retransmitted: u64,
    pub retransmission_ratio: Option<f64>,
    pub timeouts: u64,
    pub fast_retransmits: u64,
    pub ecn_reductions: u64,
    pub dropped_at_queues: u64,
    /// Segments, time average.
    pub cwnd_mean_segments: Option<f64>,
    pub rtt_mean_ms: Option<f64>,
    pub rtt_min_ms: Option<f64>,
    pub rtt_max_ms: Option<f64>,
    pub completion_s: Option<f64>,
    pub received: u64,
    pub delay_mean_ms: Option<f64>,
    pub jitter_ms: Option<f64>,
    #[serde(flatten)]
    pub figures: Figures,
}

/// Numbers that only some kinds of traffic have, by the name of their column in the table `flows`:
/// all of them, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures(Vec<(&'static str, Option<f64>)>);

impl Figures {
    /// `None` if it does not exist or there is none of that name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(own, _)| *own == name)?.1
    }

    fn all(of: &[&'static Figure], value: impl Fn(&'static str) -> Option<f64>) -> Figures {
        Figures(of.iter().map(|figure| (figure.name, value(figure.name))).collect())
    }
}

impl Serialize for Figures {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.0.iter().copied())
    }
}

/// A flow's row in the table `flows`, and those of the figures of its kind that exist.
pub(crate) type Reported = (FlowRow, Vec<(&'static str, f64)>);

/// NaN if it does not exist.
pub(crate) fn figure_of(figures: &[(&'static str, f64)], name: &str) -> f64 {
    figures.iter().find(|(own, _)| *own == name).map_or(f64::NAN, |(_, value)| *value)
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkSummary {
    pub name: String,
    pub rate_bps: u64,
    pub arrived_packets: u64,
    pub dropped_overflow: u64,
    pub dropped_early: u64,
    pub filtered: u64,
    pub lost_packets: u64,
    pub marked: u64,
    pub forwarded_packets: u64,
    pub forwarded_bytes: u64,
    pub utilisation: Option<f64>,
    pub loss_ratio: Option<f64>,
    pub queue_mean_packets: Option<f64>,
    pub queue_max_packets: u64,
    pub queue_delay_mean_ms: Option<f64>,
}

/// A link of a WLAN, in what a line does not have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AirSummary {
    pub name: String,
    /// WLAN.
    pub group: String,
    /// Data rate of the PPDUs, mean.
    pub mac_rate_mean_bps: Option<f64>,
    pub mpdu_error_rate: Option<f64>,
    pub mpdus_per_ppdu: Option<f64>,
    /// Part of the time.
    pub airtime: Option<f64>,
    pub ppdus: u64,
    pub ppdus_unanswered: u64,
    pub ppdus_collided: u64,
    pub dropped_retries: u64,
    /// Without acknowledgements.
    pub lost_collision: u64,
    pub lost_errors: u64,
    pub dropped_late: u64,
    pub given_up: u64,
    pub reorder_timeouts: u64,
    pub held_mean_packets: Option<f64>,
    pub held_max_packets: u64,
}

impl AirSummary {
    pub(crate) fn new(r: &AirRow) -> AirSummary {
        AirSummary {
            name: r.name.to_string(),
            group: r.group.to_string(),
            mac_rate_mean_bps: finite(r.mac_rate_mean_bps),
            mpdu_error_rate: finite(r.mpdu_error_rate),
            mpdus_per_ppdu: finite(r.mpdus_per_ppdu),
            airtime: finite(r.airtime),
            ppdus: r.ppdus,
            ppdus_unanswered: r.ppdus_unanswered,
            ppdus_collided: r.ppdus_collided,
            dropped_retries: r.dropped_retries,
            lost_collision: r.lost_collision,
            lost_errors: r.lost_errors,
            dropped_late: r.dropped_late,
            given_up: r.given_up,
            reorder_timeouts: r.reorder_timeouts,
            held_mean_packets: finite(r.held_mean_packets),
            held_max_packets: r.held_max_packets,
        }
    }
}

pub(crate) fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.filter(|v| v.is_finite()).fold((0u64, 0.0), |(n, sum), v| (n + 1, sum + v));
    (n > 0).then(|| sum / n as f64)
}

/// Jain's index: 1 when all are equal, 1/n when one has everything; `None` if none has anything.
pub fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum, squares) =
        values.filter(|v| v.is_finite()).fold((0u64, 0.0, 0.0), |(n, s, q), v| (n + 1, s + v, q + v * v));
    (squares > 0.0).then(|| sum * sum / (n as f64 * squares))
}

impl GroupSummary {
    /// `figures`: those that some kind of traffic has.
    pub(crate) fn new(
        reported: &[&Reported],
        transfer_mean_s: Option<f64>,
        figures: &[&'static Figure],
    ) -> GroupSummary {
        let rows: Vec<&FlowRow> = reported.iter().map(|(row, _)| row).collect();
        let first = rows[0];
        let sum = |f: fn(&FlowRow) -> u64| rows.iter().map(|r| f(r)).sum::<u64>();
        let goodputs = || rows.iter().map(|r| r.goodput_bps);
        let delivered = || rows.iter().map(|r| r.delivered_bps);
        let (sent, again) = (sum(|r| r.segments_sent), sum(|r| r.segments_retransmitted));
        let listed = if rows.len() > MAX_FLOWS_LISTED { &[] } else { reported };
        GroupSummary {
            group: first.group.to_string(),
            kind: first.kind.to_string(),
            cc: first.cc.to_string(),
            flow_count: rows.len() as u64,
            goodput_bps: mean(goodputs()).map(|_| goodputs().filter(|v| v.is_finite()).sum()),
            delivered_bps: mean(delivered()).map(|_| delivered().filter(|v| v.is_finite()).sum()),
            jain: jain(goodputs()),
            acks_sent: sum(|r| r.acks_sent),
            segments_sent: sent,
            segments_retransmitted: again,
            retransmission_ratio: (sent > 0).then(|| again as f64 / sent as f64),
            timeouts: sum(|r| r.timeouts),
            fast_retransmits: sum(|r| r.fast_retransmits),
            ecn_reductions: sum(|r| r.ecn_reductions),
            dropped_at_queues: sum(|r| r.dropped_at_queues),
            lost_on_lines: sum(|r| r.lost_on_lines),
            cwnd_mean_segments: mean(rows.iter().map(|r| r.cwnd_mean_segments)),
            rtt_mean_ms: mean(rows.iter().map(|r| r.rtt_mean_ms)),
            transfers: sum(|r| r.transfers),
            transfer_mean_s,
            received: sum(|r| r.received),
            delay_mean_ms: mean(rows.iter().map(|r| r.delay_mean_ms)),
            figures: Figures::all(figures, |name| mean(reported.iter().map(|(_, own)| figure_of(own, name)))),
            flows: listed.iter().map(|r| FlowSummary::new(r, figures)).collect(),
        }
    }
}

impl FlowSummary {
    fn new((r, own): &Reported, figures: &[&'static Figure]) -> FlowSummary {
        FlowSummary {
            name: r.name.to_string(),
            goodput_bps: finite(r.goodput_bps),
            delivered_bps: finite(r.delivered_bps),
            acks_sent: r.acks_sent,
            bytes_acked: r.bytes_acked,
            segments_sent: r.segments_sent,
            segments_retransmitted: r.segments_retransmitted,
            retransmission_ratio: finite(r.retransmission_ratio),
            timeouts: r.timeouts,
            fast_retransmits: r.fast_retransmits,
            ecn_reductions: r.ecn_reductions,
            dropped_at_queues: r.dropped_at_queues,
            cwnd_mean_segments: finite(r.cwnd_mean_segments),
            rtt_mean_ms: finite(r.rtt_mean_ms),
            rtt_min_ms: finite(r.rtt_min_ms),
            rtt_max_ms: finite(r.rtt_max_ms),
            completion_s: finite(r.completion_s),
            received: r.received,
            delay_mean_ms: finite(r.delay_mean_ms),
            jitter_ms: finite(r.jitter_ms),
            figures: Figures::all(figures, |name| finite(figure_of(own, name))),
        }
    }
}

impl LinkSummary {
    pub(crate) fn new(r: &LinkRow) -> LinkSummary {
        LinkSummary {
            name: r.name.to_string(),
            rate_bps: r.rate_bps,
            arrived_packets: r.arrived_packets,
            dropped_overflow: r.dropped_overflow,
            dropped_early: r.dropped_early,
            filtered: r.filtered,
            lost_packets: r.lost_packets,
            marked: r.marked,
            forwarded_packets: r.forwarded_packets,
            forwarded_bytes: r.forwarded_bytes,
            utilisation: finite(r.utilisation),
            loss_ratio: finite(r.loss_ratio),
            queue_mean_packets: finite(r.queue_mean_packets),
            queue_max_packets: r.queue_max_packets,
            queue_delay_mean_ms: finite(r.queue_delay_mean_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_worked_examples() {
        assert_eq!(jain([5.0; 4].into_iter()), Some(1.0));
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
        assert_eq!(jain([0.0, f64::NAN].into_iter()), None);
        assert_eq!(jain([1.0, 3.0].into_iter()), Some(16.0 / 20.0));
    }
}
