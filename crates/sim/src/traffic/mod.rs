//! What flows send: TCP applications, pings, datagrams.
//!
//! A flow has a source end and a destination end, each with a deadline of its own. Packets go out through
//! [`Outputs`], results into [`Log`].

mod cbr;
mod daemon;
mod ping;
mod repeats;
mod tcp;
mod train;

use airtcp_core::buffer_probe::Schedule;
use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::tcp::{Outputs, SenderStats};
use airtcp_core::wifi::{Ac, Released};

pub(crate) use cbr::Cbr;
pub(crate) use daemon::{DaemonStats, Host};
pub(crate) use ping::Ping;
pub(crate) use tcp::{Below, Tcp};
pub(crate) use train::Train;

use crate::error::BuildError;
use crate::record::Log;
use crate::spec::{FlowSpec, Traffic};

/// One flow, both ends.
pub(crate) struct Flow {
    pub ends: Ends,
    /// Where its paths begin in [`crate::route::Routes::hops`], forward and reverse.
    pub path_start: [u32; 2],
    /// Of its packets, in either direction.
    pub dropped_at_queues: u64,
    pub lost_on_lines: u64,
    /// Access category in the air.
    pub ac: Ac,
    /// The radio of its source reports what it no longer holds.
    pub reports_release: bool,
}

#[allow(clippy::large_enum_variant)] // TCP flows are the many and the hot ones: in place
pub(crate) enum Ends {
    Tcp(Tcp),
    Ping(Ping),
    Cbr(Cbr),
    Train(Train),
    /// The world drives it: it needs other flows.
    Daemon(Box<Host>),
}

impl Ends {
    /// `before`: the flows before it. `below`: the device below the source reports what it no longer holds. `recorded`: each retransmission.
    pub fn new(
        id: FlowId,
        spec: &FlowSpec,
        before: &[FlowSpec],
        seed: u64,
        below: Option<Below>,
        recorded: bool,
    ) -> Result<Ends, BuildError> {
        Ok(match &spec.traffic {
            Traffic::Tcp { .. } => Ends::Tcp(Tcp::new(id, spec, seed, below, recorded)?),
            Traffic::Ping { interval, packet_bytes } => Ends::Ping(Ping::new(id, spec, *interval, *packet_bytes)),
            Traffic::Cbr { rate, packet_bytes } => Ends::Cbr(Cbr::new(id, spec, *rate, *packet_bytes)?),
            Traffic::Train { count, gap, packet_bytes, every } => {
                let schedule = Schedule::new(spec.start, spec.stop, *count, *gap, *every, u32::MAX);
                Ends::Train(Train::new(id, schedule, *packet_bytes))
            }
            Traffic::BufferProbe { count, gap, packet_bytes, every, runs, .. } => {
                let schedule = Schedule::new(spec.start, spec.stop, *count, *gap, *every, *runs);
                Ends::Train(Train::new(id, schedule, *packet_bytes))
            }
            Traffic::Daemon(config) => {
                let mine = |(_, f): &(u32, &FlowSpec)| f.from == spec.from && matches!(f.traffic, Traffic::Tcp { .. });
                let connections = (0..id.0).zip(before).filter(mine).map(|(i, _)| i).collect();
                Ends::Daemon(Box::new(Host::new(id, spec, config, connections, seed)))
            }
        })
    }

    /// When the source end has something to do, ns.
    #[inline]
    pub fn source_deadline(&self) -> u64 {
        match self {
            Ends::Tcp(e) => e.source_deadline(),
            Ends::Ping(e) => e.deadline(),
            Ends::Cbr(e) => e.deadline(),
            Ends::Train(e) => e.deadline(),
            Ends::Daemon(e) => e.deadline(),
        }
    }
    /// When the destination end has something to do, ns.
    #[inline]
    pub fn destination_deadline(&self) -> u64 {
        match self {
            Ends::Tcp(e) => e.destination_deadline(),
            _ => u64::MAX,
        }
    }
    pub fn on_source_deadline(&mut self, now: u64, out: &mut Outputs, log: &mut Log) {
        match self {
            Ends::Tcp(e) => e.on_source_deadline(now, out, log),
            Ends::Ping(e) => e.on_deadline(now, out),
            Ends::Cbr(e) => e.on_deadline(now, out),
            Ends::Train(e) => e.on_deadline(now, out),
            Ends::Daemon(_) => {}
        }
    }
    pub fn on_destination_deadline(&mut self, now: u64, out: &mut Outputs) {
        if let Ends::Tcp(e) = self {
            e.on_destination_deadline(now, out);
        }
    }
    /// A packet has arrived at one of the ends: at the source if it is a reverse one.
    #[inline]
    pub fn on_packet(&mut self, now: u64, packet: &Packet, out: &mut Outputs, log: &mut Log) {
        match self {
            Ends::Tcp(e) => e.on_packet(now, packet, out, log),
            Ends::Ping(e) => e.on_packet(now, packet, out),
            Ends::Cbr(e) => e.on_packet(now, packet),
            Ends::Train(e) => e.on_packet(now, packet),
            Ends::Daemon(_) => {}
        }
    }
    /// The host of the source no longer holds some packets of this flow.
    pub fn on_released(&mut self, now: u64, released: Released, out: &mut Outputs, log: &mut Log) {
        if let Ends::Tcp(e) = self {
            e.on_released(now, released, out, log);
        }
    }
    /// The host of the source has a new way to the network.
    pub fn on_path_change(&mut self, now: u64) {
        if let Ends::Tcp(e) = self {
            e.on_path_change(now);
        }
    }
    /// A packet of this flow was dropped at a queue.
    pub fn on_drop(&mut self, packet: &Packet) {
        if let Ends::Tcp(e) = self {
            e.on_drop(packet);
        }
    }

    /// TCP counters over all connections of the flow; zeros for other traffic.
    pub fn tcp_stats(&self, now: airtcp_core::units::Time) -> SenderStats {
        match self {
            Ends::Tcp(e) => e.stats(now),
            _ => SenderStats::default(),
        }
    }
}

/// IP and UDP (or ICMP echo) headers.
const DATAGRAM_HEADER: u16 = 28;

/// Payload of a datagram of `packet_bytes` at the IP layer.
fn payload(packet_bytes: u16) -> u16 {
    packet_bytes.saturating_sub(DATAGRAM_HEADER)
}
