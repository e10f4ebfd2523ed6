//! The audit of a world: at every sample, whether its books agree.
//!
//! [`Snapshot`] are read off at one instant: what counters say, and what is found by looking into
//! every component. Each law is a method of [`Inspection`] that holds the two against each other,
//! or against the books of the sample before. A law that does not hold is a [`Finding`]: a defect
//! of airtcp, never of a scenario. The run ends there.
//!
//! The audit reads and changes nothing, and costs nothing where it is off: all of its work is done
//! between events, at the times of samples. Debug builds, and so tests, have it on.

use airtcp_core::packet::FlowId;
use airtcp_core::range::from_to;
use airtcp_core::units::{Span, Time};
use airtcp_core::wifi::{AirHoldings, AirStats, Occupancy};

use super::totals::{FlowTotals, LinkTotals, Totals};
use super::{Books, Ledger};
use crate::spec::{LinkId, RunSpec};

/// Audits of one run at most; where there are more samples, some are passed over.
const MOST: u64 = 20_000;
/// Audits of a run that has no samples.
const WITHOUT_SAMPLES: u64 = 100;

/// A law that does not hold: a defect of airtcp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "audit at {time}: {component}: {message}; this is a defect of airtcp: please report it with the scenario and its seed"
)]
pub struct Finding {
    /// When.
    pub time: Span,
    /// Component whose books do not agree.
    pub component: String,
    /// The law, with the sums on both sides.
    pub message: String,
}

/// When a world is audited, and what was found.
pub(crate) struct Audit {
    every: Span,
    next: Time,
    before: Option<Snapshot>,
    finding: Option<Finding>,
}

impl Audit {
    /// From `now` on, at every sample of a run of `spec`.
    pub(crate) fn new(spec: &RunSpec, now: Time) -> Box<Audit> {
        let duration = spec.duration;
        // Without an end as if in an hour.
        let duration = if duration == Span::MAX { Span::from_secs(3600) } else { duration }.as_ns();
        let samples = Some(spec.record.interval).filter(|every| !every.is_zero());
        let every = samples.unwrap_or(Span::from_ns(duration / WITHOUT_SAMPLES)).as_ns().max(1);
        // Times of samples still.
        let every = Span::from_ns(every).saturating_mul((duration / every / MOST).max(1));
        let next = (now + every).min(Time::ZERO + spec.duration);
        Box::new(Audit { every, next, before: None, finding: None })
    }
}

impl Books {
    /// The law that does not hold, if one was found.
    pub(crate) fn finding(&self) -> Option<&Finding> {
        self.audit.as_ref()?.finding.as_ref()
    }

    /// Time of the next audit.
    pub(crate) fn next_audit(&self) -> Option<Time> {
        self.audit.as_ref().map(|audit| audit.next)
    }

    /// Holds the laws against a snapshot.
    pub(crate) fn check(&mut self, spec: &RunSpec, snapshot: Snapshot) {
        let (now, end) = (snapshot.now, Time::ZERO + spec.duration);
        let Some(audit) = &mut self.audit else { return };
        audit.finding = Inspection { spec, books: &snapshot, before: audit.before.as_ref() }.finding();
        audit.before = Some(snapshot);
        audit.next = if now >= end { Time::NEVER } else { (now + audit.every).min(end) };
    }
}

/// Packets and their bytes at the IP layer.
pub(crate) type Sum = (u64, u64);

/// By the packets in flight: those whose transmission on a link has not begun, and those whose
/// transmission is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OnLine {
    pub waiting: (u64, u64),
    /// True if packets wait in a discipline of the link's own until the line is free, and not in
    /// flight.
    pub has_discipline: bool,
    pub in_service: (u64, u64),
}

/// Counters and holdings of all components of a world at one instant.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub now: Time,
    pub totals: Totals,
    pub ledger: Ledger,
    pub pool: Sum,
    pub on_wires: Sum,
    pub in_queues: Sum,
    /// Handed back by access points for hosts that are between two of them.
    pub with_roamers: Sum,
    /// With processors of hosts, on their way up or down.
    pub in_processors: Sum,
    pub in_interfaces: Sum,
    /// Arrived at hosts of real programs, and not yet taken.
    pub in_egress: Sum,
    /// By link, from the packets in flight.
    pub on_lines: Vec<Option<OnLine>>,
    pub channels: Vec<ChannelSnapshot>,
    /// By flow, `None` unless it is TCP: first and last byte outstanding at the sender, and the
    /// next byte that the receiver waits for.
    pub connections: Vec<Option<((u64, u64), u64)>>,
}

#[derive(Clone)]
pub(crate) struct ChannelSnapshot {
    pub holdings: AirHoldings,
    pub occupancy: Occupancy,
    pub airtime_of_radios: Vec<u64>,
    pub disorder: Option<(LinkId, String)>,
}

/// The laws, and what they are about.
pub(crate) struct Inspection<'a> {
    pub spec: &'a RunSpec,
    /// The instant that is audited.
    pub books: &'a Snapshot,
    /// The sample before.
    pub before: Option<&'a Snapshot>,
}

pub(crate) type LawResult = Result<(), Finding>;

/// Counters of some type by name: those that never fall.
macro_rules! counters {
    ($from:expr; $($name:ident),+ $(,)?) => { [$((stringify!($name), u128::from($from.$name))),+] };
}

impl Inspection<'_> {
    const LAWS: [fn(&Self) -> LawResult; 12] = [
        Self::every_packet_has_one_fate,
        Self::every_packet_is_somewhere,
        Self::drops_have_causes,
        Self::what_came_to_a_line_is_there_or_left,
        Self::what_waits_is_in_flight,
        Self::what_came_to_a_channel_is_there_or_left,
        Self::airtime_is_the_time_there_was,
        Self::a_queue_is_as_long_as_its_packets_made_it,
        Self::counters_never_fall,
        Self::nothing_is_acknowledged_before_it_came,
        Self::numbers_in_the_air_are_in_order,
        Self::interfaces_pass_up_what_they_took,
    ];

    pub(crate) fn finding(&self) -> Option<Finding> {
        Self::LAWS.into_iter().find_map(|law| law(self).err())
    }

    fn fails(&self, component: impl Into<String>, message: String) -> LawResult {
        Err(Finding { time: self.books.now.since(Time::ZERO), component: component.into(), message })
    }

    /// `whole` is the sum of `parts`.
    fn balance<N: Into<u128> + Copy>(&self, component: &str, whole: (&str, N), parts: &[(&str, N)]) -> LawResult {
        let (what, is) = (whole.0, whole.1.into());
        let sum: u128 = parts.iter().map(|part| part.1.into()).sum();
        if is == sum {
            return Ok(());
        }
        let parts: Vec<String> = parts.iter().map(|(what, n)| format!("{what} {}", (*n).into())).collect();
        self.fails(component, format!("{what} {is} is not {sum} = {}", parts.join(" + ")))
    }

    fn link(&self, link: LinkId) -> String {
        self.spec.links.get(link.index()).map_or("a link of a WLAN".to_owned(), |link| format!("link {}", link.name))
    }
    fn channel(&self, channel: usize) -> String {
        format!("channel {}", self.spec.channels[channel].name)
    }
    /// Counters of lines; links through the air have laws of their own.
    fn lines(&self) -> impl Iterator<Item = (LinkId, &LinkTotals)> {
        let links = (0..).map(LinkId).zip(&self.books.totals.links);
        links.filter(|(id, _)| self.spec.links[id.index()].air.is_none())
    }

    /// Injected = delivered + dropped + lost + still inside, packets and bytes.
    fn every_packet_has_one_fate(&self) -> LawResult {
        let (l, pool) = (&self.books.ledger, self.books.pool);
        for (unit, of) in [("packets", 0), ("bytes", 1)] {
            let n = |count: super::Count| if of == 0 { count.packets } else { count.bytes };
            self.balance(
                "world",
                (&format!("{unit} sent"), n(l.sent)),
                &[
                    ("delivered", n(l.delivered)),
                    ("dropped", n(l.dropped)),
                    ("lost", n(l.lost)),
                    ("inside", if of == 0 { pool.0 } else { pool.1 }),
                ],
            )?;
        }
        Ok(())
    }

    /// Packets in the pool are on a line, in a queue, with a radio or with a host that roams:
    /// nothing leaks.
    fn every_packet_is_somewhere(&self) -> LawResult {
        let b = self.books;
        let air = b.channels.iter().map(|c| c.holdings.packets()).fold((0, 0), |a, c| (a.0 + c.0, a.1 + c.1));
        let parts = |n: fn(Sum) -> u64| {
            [
                ("on lines and before drop-tail lines", n(b.on_wires)),
                ("in queues", n(b.in_queues)),
                ("with radios", n(air)),
                ("with hosts that roam", n(b.with_roamers)),
                ("with processors of hosts", n(b.in_processors)),
                ("waiting for real programs", n(b.in_egress)),
            ]
        };
        self.balance("pool", ("packets inside", b.pool.0), &parts(|sum| sum.0))?;
        self.balance("pool", ("bytes inside", b.pool.1), &parts(|sum| sum.1))
    }

    /// Each drop is counted once by its link, with its cause, and once by its flow.
    fn drops_have_causes(&self) -> LawResult {
        let (t, l) = (&self.books.totals, &self.books.ledger);
        let of_links = |n: fn(&LinkTotals) -> u64| t.links.iter().map(n).sum::<u64>();
        let filtered = of_links(|l| l.filtered);
        self.balance(
            "world",
            ("packets dropped", l.dropped.packets),
            &[
                ("overflow", of_links(|l| l.dropped_overflow)),
                ("early", of_links(|l| l.dropped_early)),
                ("filtered", filtered),
                ("gone", of_links(|l| l.dropped_gone)),
            ],
        )?;
        self.balance("world", ("packets lost", l.lost.packets), &[("of links", of_links(|l| l.lost_packets))])?;
        let of_flows = |n: fn(&FlowTotals) -> u64| t.flows.iter().map(n).sum::<u64>();
        let dropped = of_flows(|f| f.dropped_at_queues);
        self.balance(
            "flows",
            ("packets dropped", l.dropped.packets),
            &[("of flows", dropped), ("filtered", filtered)],
        )?;
        self.balance("flows", ("packets lost", l.lost.packets), &[("of flows", of_flows(|f| f.lost_on_lines))])
    }

    /// Arrived = dropped + waiting + being transmitted + transmitted.
    fn what_came_to_a_line_is_there_or_left(&self) -> LawResult {
        for (link, t) in self.lines() {
            let on_line = t.started_packets - t.forwarded_packets;
            let dropped = t.dropped_overflow + t.dropped_early + t.filtered;
            let parts = [
                ("dropped", dropped),
                ("waiting", t.queue_packets),
                ("on the line", on_line),
                ("forwarded", t.forwarded_packets),
            ];
            self.balance(&self.link(link), ("packets that arrived", t.arrived_packets), &parts)?;
            let on_line = self.books.on_lines[link.index()].map(|on| on.in_service.1);
            let known = t.dropped_bytes + t.queue_bytes + t.forwarded_bytes;
            let on_line = on_line.unwrap_or(t.arrived_bytes.saturating_sub(known));
            let parts = [
                ("dropped", t.dropped_bytes),
                ("waiting", t.queue_bytes),
                ("on the line", on_line),
                ("forwarded", t.forwarded_bytes),
            ];
            self.balance(&self.link(link), ("bytes that arrived", t.arrived_bytes), &parts)?;
        }
        Ok(())
    }

    /// Packets that wait for a drop-tail line, and packets that any line transmits, are found among
    /// those in flight.
    fn what_waits_is_in_flight(&self) -> LawResult {
        for (link, t) in self.lines() {
            let Some(on) = &self.books.on_lines[link.index()] else { continue };
            let component = self.link(link);
            let on_line = t.started_packets - t.forwarded_packets;
            self.balance(&component, ("packets on the line", on_line), &[("in flight", on.in_service.0)])?;
            let (packets, bytes) = if on.has_discipline { (0, 0) } else { (t.queue_packets, t.queue_bytes) };
            self.balance(&component, ("packets waiting for the line", packets), &[("in flight", on.waiting.0)])?;
            self.balance(&component, ("bytes waiting for the line", bytes), &[("in flight", on.waiting.1)])?;
        }
        Ok(())
    }

    /// Packets that came to radios were delivered, dropped or lost, or are with them; and each
    /// holds what its counters say.
    fn what_came_to_a_channel_is_there_or_left(&self) -> LawResult {
        for (i, c) in self.books.channels.iter().enumerate() {
            let (component, h) = (self.channel(i), &c.holdings);
            let parts =
                [("in queues", h.queued.0), ("in drivers", h.in_drivers.0), ("in reorder buffers", h.reordering.0)];
            self.balance(&component, ("packets without an end", h.without_end), &parts)?;
            for (what, held, n) in [("packets held", h.held.0, 0), ("bytes held", h.held.1, 1)] {
                let n = |sum: Sum| if n == 0 { sum.0 } else { sum.1 };
                let parts = [
                    ("in queues", n(h.queued)),
                    ("in drivers", n(h.in_drivers)),
                    ("arrived and not yet acknowledged", n(h.arrived)),
                ];
                self.balance(&component, (what, held), &parts)?;
            }
            let parts = [("not arrived", h.in_drivers.0), ("arrived", h.arrived.0)];
            self.balance(&component, ("frames of drivers", h.driver_frames), &parts)?;
        }
        Ok(())
    }

    /// A channel is idle or in use, and use is the airtime of its radios, what overlaps counted
    /// once. No radio has more than all.
    fn airtime_is_the_time_there_was(&self) -> LawResult {
        let elapsed = self.books.now.as_ns();
        for (i, c) in self.books.channels.iter().enumerate() {
            let (component, o) = (self.channel(i), &c.occupancy);
            self.balance(&component, ("ns elapsed", elapsed), &[("idle", o.idle_ns), ("in use", o.busy_ns)])?;
            let airtime: u64 = c.airtime_of_radios.iter().sum();
            let parts = [("in use", o.busy_ns), ("by several at once", o.overlap_ns)];
            self.balance(&component, ("ns of airtime", airtime), &parts)?;
            if let Some((radio, airtime)) = c.airtime_of_radios.iter().enumerate().find(|&(_, &ns)| ns > o.busy_ns) {
                return self.fails(
                    component,
                    format!("radio {radio} has {airtime} ns of airtime, more than the {} in use", o.busy_ns),
                );
            }
        }
        if let Some((link, t)) = self.lines().find(|(_, t)| t.busy_ns > elapsed) {
            return self.fails(self.link(link), format!("busy for {} ns of {elapsed}", t.busy_ns));
        }
        Ok(())
    }

    /// The time integral of a queue lies between those of the shortest and the longest that it can
    /// have been since the last sample: what there was, less or more all that left or came. Where
    /// nothing came or left the two are one.
    fn a_queue_is_as_long_as_its_packets_made_it(&self) -> LawResult {
        let Some(before) = self.before else { return Ok(()) };
        let ns = u128::from(self.books.now.since(before.now).as_ns());
        for (link, (a, b)) in (0..).map(LinkId).zip(before.totals.links.iter().zip(&self.books.totals.links)) {
            let came = b.arrived_packets.saturating_sub(a.arrived_packets);
            let least = u128::from(b.queue_packets.saturating_sub(came)) * ns;
            let most = u128::from(a.queue_packets + came) * ns;
            let integral = b.queue_packet_ns.saturating_sub(a.queue_packet_ns);
            if !(least..=most).contains(&integral) {
                let (from, to) = (a.queue_packets, b.queue_packets);
                let message = format!(
                    "queue from {from} to {to} packets within {ns} ns, {came} arrived: its integral {integral} is not {}",
                    from_to(&(least..=most))
                );
                return self.fails(self.link(link), message);
            }
        }
        Ok(())
    }

    pub(crate) fn counters_never_fall(&self) -> LawResult {
        let Some(before) = self.before else { return Ok(()) };
        let (a, b) = (&before.totals, &self.books.totals);
        for (link, (a, b)) in (0..).map(LinkId).zip(a.links.iter().zip(&b.links)) {
            self.not_below(|| self.link(link), of_link(a), of_link(b))?;
        }
        for (a, b) in a.air.iter().zip(&b.air) {
            self.not_below(|| "a link of a WLAN".to_owned(), of_air(a), of_air(b))?;
        }
        for (flow, (a, b)) in (0..).map(FlowId).zip(a.flows.iter().zip(&b.flows)) {
            let name = || format!("flow {}", self.spec.flows[flow.0 as usize].name);
            self.not_below(name, of_flow(a), of_flow(b))?;
        }
        Ok(())
    }

    fn not_below<const N: usize>(
        &self,
        component: impl Fn() -> String,
        before: [(&'static str, u128); N],
        now: [(&'static str, u128); N],
    ) -> LawResult {
        match before.iter().zip(&now).find(|(a, b)| b.1 < a.1) {
            Some((a, b)) => self.fails(component(), format!("{} fell from {} to {}", a.0, a.1, b.1)),
            None => Ok(()),
        }
    }

    /// The sender has sent what the receiver has, and the receiver has what the sender counts as
    /// acknowledged.
    fn nothing_is_acknowledged_before_it_came(&self) -> LawResult {
        for (flow, connection) in self.spec.flows.iter().zip(&self.books.connections) {
            let &Some(((from, to), next)) = connection else { continue };
            // Beyond the last byte there is the FIN.
            if from > next || next > to + 1 || from > to + 1 {
                let message =
                    format!("acknowledged to {from}, received to {next}, sent to {to}: must not fall in this order");
                return self.fails(format!("flow {}", flow.name), message);
            }
        }
        Ok(())
    }

    fn numbers_in_the_air_are_in_order(&self) -> LawResult {
        match self.books.channels.iter().find_map(|c| c.disorder.as_ref()) {
            Some((link, what)) => self.fails(self.link(*link), format!("sequence numbers: {what}")),
            None => Ok(()),
        }
    }

    /// Packets that receive offload has taken went up, or wait for its poll.
    fn interfaces_pass_up_what_they_took(&self) -> LawResult {
        let (l, waiting) = (&self.books.ledger, self.books.in_interfaces);
        let (taken, up) = (l.taken_by_interfaces, l.passed_by_interfaces);
        let parts = |up, waiting| [("handed up", up), ("waiting", waiting)];
        self.balance("interfaces", ("packets taken", taken.packets), &parts(up.packets, waiting.0))?;
        self.balance("interfaces", ("bytes taken", taken.bytes), &parts(up.bytes, waiting.1))
    }
}

fn of_link(t: &LinkTotals) -> [(&'static str, u128); 15] {
    counters!(t; arrived_packets, arrived_bytes, dropped_overflow, dropped_early, filtered, dropped_gone, dropped_bytes, lost_packets,
        held_back_packets, marked, forwarded_packets, forwarded_bytes, started_packets, busy_ns, queue_packet_ns)
}

fn of_air(s: &AirStats) -> [(&'static str, u128); 26] {
    counters!(s; arrived_packets, arrived_bytes, dropped_overflow, dropped_early, filtered, marked, dropped_retries, lost_collision,
        lost_errors, dropped_late, dropped_gone, handed_back, delivered_packets, delivered_bytes, held_packet_ns, rts_unanswered,
        ppdus, ppdus_unanswered, ppdus_collided, mpdus, mpdus_failed, rate_sum_bps, airtime_ns, bars, given_up, reorder_timeouts)
}

fn of_flow(f: &FlowTotals) -> [(&'static str, u128); 26] {
    let c = &f.counters;
    let [a, b] = counters!(f; dropped_at_queues, lost_on_lines);
    let [c0, c1, c2, c3, c4, c5, c6] = counters!(c; sent, received, received_bytes, delay_sum_ns, spurious_retransmissions, delivered_bytes, acks_sent);
    let tcp = counters!(c.tcp; segments_sent, segments_retransmitted, bytes_acked, fast_retransmits, duplicate_acks, timeouts,
        window_probes, tail_loss_probes, duplicate_sacks, ecn_reductions, undos, spurious_timeouts, rtt_count, rtt_sum_ns,
        rtt_max_ns, cwnd_segment_ns, open_ns);
    let mut all = [("", 0); 26];
    all[..9].copy_from_slice(&[a, b, c0, c1, c2, c3, c4, c5, c6]);
    all[9..].copy_from_slice(&tcp);
    all
}
