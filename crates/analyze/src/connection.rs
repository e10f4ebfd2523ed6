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

/// How a connection began, as far as the capture shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// No SYN passed.
    Unseen,
    /// A SYN passed, and no packet of the other end.
    Waiting,
    Answered,
    /// A RST answered the SYN.
    Refused,
}

/// A reset that cut the connection short: no FIN had passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reset {
    /// The end that sent it.
    side: usize,
    /// Data was not acknowledged, or this end had sent none in answer to the other's.
    cut: bool,
}

/// A SYN that nothing answered for so long, or that was repeated, has no answer.
const UNANSWERED: Span = Span::from_secs(1);
/// A packet without identification is a copy of one that passed within this part of a round trip.
const COPY_PART: u64 = 2;

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
    opening: Opening,
    /// The end that sent the first SYN, when, and how long its answer took.
    client: Option<usize>,
    syn_at: Time,
    answered_in: Option<Span>,
    /// When that was, and from then to its first data.
    answered_at: Time,
    asked_after: Option<Span>,
    reset: Option<Reset>,
    /// Data of this connection was captured twice.
    copied: bool,
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
            opening: Opening::Unseen,
            client: None,
            syn_at: Time::ZERO,
            answered_in: None,
            answered_at: Time::ZERO,
            asked_after: None,
            reset: None,
            copied: false,
        }
    }

    /// A packet without IP identification is the same as one that passed so long before: it is a
    /// copy if no sender can have sent it again by then.
    pub(crate) fn is_copy(&mut self, p: &Segment, age: Span) -> bool {
        let trips = [0, 1].map(|side| [self.flows[side].rtt_min(), self.loops[side].least]);
        let least = trips.into_iter().flatten().flatten().min();
        if least.is_some_and(|least| age >= least / COPY_PART) {
            return false;
        }
        let carries = p.payload > 0 || p.has(TcpFlags::SYN) || p.has(TcpFlags::FIN);
        self.copied |= carries;
        // ACKs that are equal may be several.
        carries || self.copied
    }

    fn note_opening(&mut self, now: Time, side: usize, p: &Segment) {
        let (syn, ack, rst) = (p.has(TcpFlags::SYN), p.has(TcpFlags::ACK), p.has(TcpFlags::RST));
        match self.opening {
            Opening::Unseen if syn && !ack => {
                (self.opening, self.client, self.syn_at) = (Opening::Waiting, Some(side), now);
            }
            Opening::Unseen if syn => (self.opening, self.client) = (Opening::Answered, Some(1 - side)),
            Opening::Waiting if Some(side) != self.client => {
                self.opening = if rst { Opening::Refused } else { Opening::Answered };
                self.answered_in = Some(now.since(self.syn_at));
                self.answered_at = now;
            }
            // Only one direction is in the capture.
            Opening::Waiting if !syn && !rst => self.opening = Opening::Answered,
            _ => {}
        }
        // Where the server speaks first, the client waits for it.
        let is_first = !self.flows.iter().any(Flow::has_data);
        if p.payload > 0 && self.answered_in.is_some() && Some(side) == self.client && is_first {
            self.asked_after = Some(now.since(self.answered_at));
        }
        let is_over = self.reset.is_some() || self.flows.iter().any(|f| f.fin_seen);
        if rst && !is_over && self.opening != Opening::Refused {
            let open = self.flows.iter().any(Flow::waits_for_ack);
            let no_answer = self.flows[1 - side].has_data() && !self.flows[side].has_data();
            self.reset = Some(Reset { side, cut: open || no_answer });
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
        self.note_opening(now, side, p);
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
            opening: match self.opening {
                Opening::Unseen => "",
                Opening::Waiting => "unanswered",
                Opening::Answered => "answered",
                Opening::Refused => "refused",
            },
            answered_in: self.answered_in,
            asked_after: self.asked_after,
            role: match self.client {
                Some(client) if client == side => "client",
                Some(_) => "server",
                None => "",
            },
            reset_by: match self.reset {
                Some(reset) if reset.side == side => "source",
                Some(_) => "destination",
                None => "",
            },
            reset_cut: self.reset.is_some_and(|reset| reset.cut),
            one_way: !self.flows[0].has_packets() || !self.flows[1].has_packets(),
        }
    }

    /// `now`: the last packet of the capture.
    pub(crate) fn finish(mut self, now: Time, rows: &mut Rows) {
        let again = self.client.is_some_and(|client| self.flows[client].repeats_syn());
        if self.opening == Opening::Waiting && !again && now.since(self.last_at) < UNANSWERED {
            // The capture ends too soon to tell.
            self.opening = Opening::Unseen;
        }
        for (view, flow) in self.views.iter_mut().zip(&mut self.flows) {
            view.finish(flow);
        }
        let around = [self.around(0), self.around(1)];
        for (flow, around) in self.flows.into_iter().zip(around) {
            flow.finish(around, rows);
        }
    }
}
