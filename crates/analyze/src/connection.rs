//! A connection: two flows, and where between its ends the capture was taken.

use std::collections::VecDeque;
use std::net::IpAddr;

use airtcp_core::convert::signed32;
use airtcp_core::packet::{FlowId, TcpFlags};
use airtcp_core::units::{Span, Time};

use crate::decode::{Endpoint, Segment};
use crate::flow::{Flow, Limits, Passing, Surroundings};
use crate::tables::Rows;
use crate::view::View;

/// Timestamps that have not been echoed; older ones are forgotten.
const ECHOES: usize = 64;

/// The round trip from the capture to one end and back. The least of: its answer to a SYN or
/// SYN-ACK, its ACKs of data, and its echoes of timestamps.
#[derive(Debug, Default)]
struct Loop {
    least: Option<Span>,
    /// Timestamps on their way to that end: value, when it first passed.
    on_their_way: VecDeque<(u32, Time)>,
    /// When a SYN passed on its way to that end, if it has neither been repeated nor answered.
    syn: Option<Time>,
    syns: u32,
}

impl Loop {
    fn sample(&mut self, rtt: Span) {
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
    }

    /// A packet passes on its way to this end.
    fn towards(&mut self, now: Time, p: &Segment) {
        if p.has(TcpFlags::SYN) {
            self.syns += 1;
            self.syn = (self.syns == 1).then_some(now);
        }
        if let Some((value, _)) = p.options.timestamps {
            if self.on_their_way.back().is_none_or(|&(last, _)| signed32(value.wrapping_sub(last)) > 0) {
                if self.on_their_way.len() == ECHOES {
                    self.on_their_way.pop_front();
                }
                self.on_their_way.push_back((value, now));
            }
        }
    }

    /// A packet passes that this end sent.
    fn back(&mut self, now: Time, p: &Segment) {
        if p.has(TcpFlags::ACK) {
            if let Some(sent) = self.syn.take() {
                self.sample(now.since(sent));
            }
        }
        let Some((_, echo)) = p.options.timestamps else { return };
        while let Some(&(value, passed)) = self.on_their_way.front() {
            let behind = signed32(echo.wrapping_sub(value));
            if behind < 0 {
                break;
            }
            self.on_their_way.pop_front();
            if behind == 0 {
                self.sample(now.since(passed));
                break;
            }
        }
    }
}

/// When and where a packet passed.
pub(crate) struct Arrival {
    /// Since the first packet of the capture.
    pub now: Time,
    /// Number in the file, from 1.
    pub packet: u64,
    pub interface: u32,
    /// In monitor mode: the air was taken of late.
    pub air_busy: bool,
    pub limits: Limits,
}

/// Place of a connection among those of a capture, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionId(pub u32);

#[derive(Debug)]
pub(crate) struct Connection {
    id: ConnectionId,
    place: u32,
    /// That of the first packet sent comes first.
    ends: [Endpoint; 2],
    /// Sent by the end of the same index.
    flows: [Flow; 2],
    views: [View; 2],
    loops: [Loop; 2],
    scales: [Option<u8>; 2],
    sack_permitted: [bool; 2],
    interfaces: [Option<u32>; 2],
    last_at: Time,
}

impl Connection {
    pub(crate) fn new(id: ConnectionId, p: &Segment) -> Connection {
        Connection {
            id,
            place: p.place,
            ends: [p.source, p.destination],
            flows: [Flow::new(), Flow::new()],
            views: [View::default(), View::default()],
            loops: [Loop::default(), Loop::default()],
            scales: [None; 2],
            sack_permitted: [false; 2],
            interfaces: [None; 2],
            last_at: Time::ZERO,
        }
    }

    pub(crate) fn last_at(&self) -> Time {
        self.last_at
    }

    /// True if a SYN begins another connection between the same ports.
    pub(crate) fn is_followed_by(&self, p: &Segment) -> bool {
        if !p.has(TcpFlags::SYN) || p.has(TcpFlags::ACK) {
            return false;
        }
        let over = self.flows.iter().any(|f| f.fin_seen || f.rst_seen);
        let flow = &self.flows[self.side(p)];
        over || !flow.syn_seen || flow.has_other_initial(p.seq)
    }

    /// Over, and likely to stay silent: both ends have closed, or one has reset.
    pub(crate) fn is_over(&self) -> bool {
        self.flows.iter().all(|f| f.fin_seen) || self.flows.iter().any(|f| f.rst_seen)
    }

    fn side(&self, p: &Segment) -> usize {
        usize::from(p.source != self.ends[0])
    }

    /// False: the direction was seen on another interface before; there it counts.
    pub(crate) fn on_packet(
        &mut self,
        arrival: &Arrival,
        p: &Segment,
        next_flow: &mut FlowId,
        rows: &mut Rows,
    ) -> bool {
        let &Arrival { now, packet, interface, air_busy, limits } = arrival;
        let side = self.side(p);
        if *self.interfaces[side].get_or_insert(interface) != interface {
            return false;
        }
        let other = 1 - side;
        self.last_at = now;
        self.loops[side].back(now, p);
        self.loops[other].towards(now, p);
        if p.has(TcpFlags::SYN) {
            self.scales[side] = p.options.window_scale;
            self.sack_permitted[side] = p.options.sack_permitted;
            self.flows[other].announced_mss = p.options.mss;
            // Scaling is in use if both SYNs have the option (RFC 7323 section 2.2), and likewise
            // SACK.
            let answered = p.has(TcpFlags::ACK) || self.flows[other].syn_seen;
            for this in 0..2 {
                let both = self.scales.iter().all(Option::is_some);
                let scale = if both { self.scales[1 - this] } else { answered.then_some(0) };
                self.flows[this].receiver_scale = scale.filter(|_| self.is_known(1 - this, side));
                self.flows[this].sack = self.sack_permitted == [true; 2];
            }
        }
        if self.flows[side].id.is_none() && (p.payload > 0 || p.has(TcpFlags::SYN)) {
            self.flows[side].id = Some(*next_flow);
            next_flow.0 += 1;
        }
        let at = |near: Option<Span>| {
            let near = near.unwrap_or_default();
            let slack = Span::ZERO;
            Passing {
                now,
                seen: now,
                packet,
                near,
                turn: near,
                slack,
                by_clock: false,
                flowing: false,
                air_busy,
                limits,
            }
        };
        self.views[side].sent(&at(self.loops[side].least), p, &mut self.flows[side]);
        self.views[other].heard(&at(self.loops[other].least), p, &mut self.flows[other]);
        if self.flows[side].pending() > limits.rows {
            let around = self.around(side);
            self.flows[side].flush(limits.rows / 2, &around, rows);
        }
        true
    }

    /// The SYN of `end` has been seen; `side` sends one now.
    fn is_known(&self, end: usize, side: usize) -> bool {
        end == side || self.flows[end].syn_seen
    }

    fn around(&self, side: usize) -> Surroundings {
        let other = 1 - side;
        let of = |e: &Endpoint| (e.address.to_string(), e.port);
        let far = [self.loops[other].least, self.flows[side].rtt_min()].into_iter().flatten().min();
        let near = [self.loops[side].least, self.flows[other].rtt_min()].into_iter().flatten().min();
        Surroundings {
            connection: self.id,
            place: self.place,
            source: of(&self.ends[side]),
            destination: of(&self.ends[other]),
            ip_version: if matches!(self.ends[0].address, IpAddr::V4(_)) { 4 } else { 6 },
            end: self.last_at,
            near,
            far,
            reset: self.flows.iter().any(|f| f.rst_seen),
        }
    }

    pub(crate) fn finish(mut self, rows: &mut Rows) {
        for (view, flow) in self.views.iter_mut().zip(&mut self.flows) {
            view.finish(flow);
        }
        let around = [self.around(0), self.around(1)];
        for (flow, around) in self.flows.into_iter().zip(around) {
            flow.finish(around, rows);
        }
    }
}
