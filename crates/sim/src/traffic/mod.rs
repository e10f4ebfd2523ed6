//! Traffic of flows. A kind of traffic is one file and one line of the registry below: the file has
//! its parameters in scenario files, what is wrong with them, both ends of a flow, and what it adds
//! to tables and summaries.
//!
//! A flow has a source end and a destination end, each with a deadline of its own. Packets go out
//! through [`Outputs`]. TCP is one kind with several applications ([`App`]), each of which decides
//! when there is something to send; other kinds are protocols of their own ([`Kind`]).

#[macro_use]
mod registry;
mod daemon;
mod external;
mod first_queue;
mod repeats;
mod report;
mod tcp;

use airtcp_core::coop::CoopConfig;
use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::receive::Merged;
use airtcp_core::rng::{Purpose, Rng, stream};
use airtcp_core::tcp::{Outputs, TcpConfig};
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_core::wifi::Released;

pub(crate) use daemon::Host;
pub(crate) use external::External;
pub(crate) use first_queue::{FirstQueue, QueueNotice};
pub(crate) use report::{Period, Report, Tables};

pub(crate) use tcp::{RadioTsq, Tcp};

use crate::books::record::{Figure, Log};
use crate::books::totals::{Counters, FlowTotals};
use crate::error::BuildError;
use crate::spec::FlowSpec;

kinds! {
    tcp {
        unlimited => Unlimited,
        transfer => Transfer,
        web => Web,
        stream => Stream,
    }
    alone {
        ping => Ping,
        cbr => Cbr,
        train => Train,
        call => Call,
        buffer_probe => BufferProbe,
    }
}

/// A kind of traffic that is a protocol of its own: what a scenario file says of it.
pub(crate) trait Kind: Sized {
    /// Both ends of a flow.
    type Ends: Ends;
    /// The destination sends packets, too, so a path must lead back.
    const IS_ANSWERED: bool = false;
    /// Figures of a flow besides those common to all kinds: columns of the table `flows` and
    /// numbers of the summary.
    const FIGURES: &'static [Figure] = &[];

    /// With all defaults, as its bare name stands for; `None`: it needs parameters.
    fn by_default() -> Option<Self> {
        None
    }
    /// Reports errors in parameters that types and the schema's ranges do not show.
    fn check(&self, faults: &mut Faults);
    /// The largest packet that it sends, bytes at the IP layer.
    fn packet_bytes(&self) -> u16;
    /// Packets that its source sends within a span at most; 0: as many as the network lets it.
    /// Scenarios are held to bounds by it.
    fn packets_within(&self, _: Span) -> u64 {
        0
    }
    /// Each packet is remembered, for a row of a table.
    const REMEMBERS_PACKETS: bool = false;
    /// Its two ends share nothing but packets: they may be in different parts of a world, and
    /// [`Ends::join`] makes one of both.
    const MAY_PART: bool = false;
    /// Both ends of the flow.
    fn build(&self, ctx: &Context) -> Result<Self::Ends, BuildError>;
    /// Names the tables that it fills ([`Tables::of`]), so that they exist in every run.
    fn declare(_: &mut Tables) {}
}

/// Both ends of a flow of one [`Kind`].
pub(crate) trait Ends {
    /// When the source has something to do; [`Time::NEVER`]: nothing. It may also be asked before
    /// that time.
    fn deadline(&self) -> Time;
    /// The source's time has come: what it sends goes to `out`.
    fn on_deadline(&mut self, now: Time, out: &mut Outputs);
    /// When the destination has something to do of its own accord.
    fn destination_deadline(&self) -> Time {
        Time::NEVER
    }
    /// The destination's time has come: what it sends goes to `out`, marked by
    /// [`Packet::set_reverse`].
    fn on_destination_deadline(&mut self, _now: Time, _out: &mut Outputs) {}
    /// A packet has arrived: at the source if it is a reverse one, otherwise at the destination. It
    /// may change the deadline of that end alone.
    fn on_packet(&mut self, now: Time, packet: &Packet, out: &mut Outputs);
    /// Everything so far that tables count from warmup on.
    fn counters(&self) -> Counters;
    /// Takes the destination from another copy of the flow, where it was while the source was here.
    /// See [`Kind::MAY_PART`].
    fn join(&mut self, _destination: Self)
    where
        Self: Sized,
    {
    }
    /// Fills in the flow's row, its own [`Kind::FIGURES`] and its tables. Figures from counters are
    /// in the row already.
    fn report(&self, period: &Period, report: &mut Report);
}

/// An application on TCP: what a scenario file says of it.
pub(crate) trait App: Sized {
    /// The application of one flow.
    type Running: Running + std::fmt::Debug;
    /// It sends all it has, whenever the flow stops.
    const OUTLASTS_STOP: bool = false;
    /// A flow has one connection, without an end of its own: so its two ends share nothing but
    /// packets.
    const IS_ONE_CONNECTION: bool = false;

    /// With all defaults, as its bare name stands for; `None`: it needs parameters.
    fn by_default() -> Option<Self> {
        None
    }
    /// Reports errors in parameters that types and the schema's ranges do not show.
    fn check(&self, faults: &mut Faults);
    /// The application of a flow.
    fn build(&self, ctx: &Context) -> Result<Self::Running, BuildError>;
}

/// The application of one flow.
pub(crate) trait Running {
    /// A connection begins: what the application gives it.
    fn on_begin(&mut self, now: Time) -> Gives;
    /// The time that [`Gives::Data`] named has come: further bytes, and when there are more.
    fn on_deadline(&mut self, _now: Time) -> (u64, Time) {
        (0, Time::NEVER)
    }
    /// A transfer that began at `start` is over. When the next one begins, on a connection of its
    /// own; `None`: there is none.
    fn on_end(&mut self, _now: Time, _start: Time) -> Option<Time> {
        None
    }
}

impl<T: Running> Running for Box<T> {
    fn on_begin(&mut self, now: Time) -> Gives {
        (**self).on_begin(now)
    }
    fn on_deadline(&mut self, now: Time) -> (u64, Time) {
        (**self).on_deadline(now)
    }
    fn on_end(&mut self, now: Time, start: Time) -> Option<Time> {
        (**self).on_end(now, start)
    }
}

/// Data that an application gives to a connection that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    /// More than it can ever carry; the sender is frozen at the flow's stop.
    Endless,
    /// So many bytes, then it is closed: a transfer.
    Transfer(u64),
    /// So many bytes for now; [`Running::on_deadline`] has more at `next`. The sender is frozen at
    /// the flow's stop.
    Data { bytes: u64, next: Time },
}

/// Carrier of a kind of traffic.
pub(crate) enum Carried {
    ByTcp(TcpApp),
    Alone(Traffic),
}

/// Errors in parameters: key, with dots where it is within another, and what would be right.
#[derive(Debug, Default)]
pub(crate) struct Faults(pub Vec<(&'static str, String)>);

impl Faults {
    /// A fault of `key` unless `holds`.
    pub(crate) fn require(&mut self, holds: bool, key: &'static str, message: impl Into<String>) {
        if !holds {
            self.0.push((key, message.into()));
        }
    }
}

/// The flow that a kind of traffic is built for.
pub(crate) struct Context<'a> {
    pub flow: FlowId,
    pub spec: &'a FlowSpec,
    pub seed: u64,
}

impl Context<'_> {
    /// The flow's own random numbers for one purpose.
    pub(crate) fn rng(&self, purpose: Purpose) -> Rng {
        stream(self.seed, u64::from(self.flow.0), purpose)
    }
    /// A parameter with which no flow can be built.
    pub(crate) fn bad(
        &self,
        parameter: &'static str,
        value: impl std::fmt::Display,
        accepted: &'static str,
    ) -> BuildError {
        BuildError::BadParameter { flow: self.spec.name.clone(), parameter, value: value.to_string(), accepted }
    }
}

impl Default for TrafficConfig {
    fn default() -> TrafficConfig {
        TrafficConfig::Unlimited(Unlimited {})
    }
}

/// One flow, both ends.
pub(crate) struct Flow {
    pub ends: AnyEnds,
    /// Packets of it, in either direction.
    pub dropped_at_queues: u64,
    pub lost_on_lines: u64,
    /// The first queue of its data, if its sender hears what becomes of packets there.
    pub first_queue: Option<FirstQueue>,
}

impl Flow {
    /// Counters of the flow and its packets.
    pub(crate) fn totals(&self, now: Time) -> FlowTotals {
        FlowTotals {
            counters: self.ends.counters(now),
            dropped_at_queues: self.dropped_at_queues,
            lost_on_lines: self.lost_on_lines,
        }
    }
}

impl AnyEnds {
    /// `before`: the flows before it. `radio_tsq`: the device below the source reports packets that
    /// it has let go. `recorded`: each retransmission.
    pub(crate) fn new(
        ctx: &Context,
        before: &[FlowSpec],
        radio_tsq: Option<RadioTsq>,
        recorded: bool,
    ) -> Result<AnyEnds, BuildError> {
        if let Some(ends) = ctx.spec.traffic.build(ctx)? {
            return Ok(ends);
        }
        Ok(match &ctx.spec.traffic {
            Traffic::Daemon(config) => {
                let mine =
                    |(_, f): &(FlowId, &FlowSpec)| f.from == ctx.spec.from && matches!(f.traffic, Traffic::Tcp { .. });
                let connections = (0..ctx.flow.0).map(FlowId).zip(before).filter(mine).map(|(i, _)| i).collect();
                AnyEnds::Daemon(Box::new(Host::new(ctx, config, connections)))
            }
            _ => AnyEnds::Tcp(Tcp::new(ctx, radio_tsq, recorded)?),
        })
    }

    /// The first queue of the source's host had no room for some of its packets.
    pub(crate) fn on_refused(&mut self, now: Time, refused: &[Packet]) {
        if let AnyEnds::Tcp(e) = self {
            e.on_refused(now, refused);
        }
    }
    /// The first queue of the source's host dropped a packet of the flow and has not said which.
    pub(crate) fn on_congested(&mut self, now: Time) {
        if let AnyEnds::Tcp(e) = self {
            e.on_congested(now);
        }
    }
    /// The host of the source no longer holds some packets of this flow.
    pub(crate) fn on_released(&mut self, now: Time, released: Released, out: &mut Outputs, log: &mut Log) {
        if let AnyEnds::Tcp(e) = self {
            e.on_released(now, released, out, log);
        }
    }
    /// The host of the source has a new way to the network.
    pub(crate) fn on_path_change(&mut self, now: Time) {
        if let AnyEnds::Tcp(e) = self {
            e.on_path_change(now);
        }
    }
    /// Stands for the ends of a flow that are in other parts of the world.
    pub(crate) fn elsewhere() -> AnyEnds {
        AnyEnds::External(External::default())
    }
    /// A packet of this flow was dropped at a queue.
    pub(crate) fn on_drop(&mut self, packet: &Packet) {
        if let AnyEnds::Tcp(e) = self {
            e.on_drop(packet);
        }
    }
}

/// IP and UDP (or ICMP echo) headers, bytes.
const DATAGRAM_HEADER: u16 = 28;

/// Payload of a datagram of `packet_bytes` at the IP layer.
fn payload(packet_bytes: u16) -> u16 {
    packet_bytes.saturating_sub(DATAGRAM_HEADER)
}

/// A datagram of `packet_bytes` at the IP layer, as Ethernet carries it at most.
const fn datagram_bytes() -> u16 {
    1500
}

#[cfg(test)]
mod tests;
