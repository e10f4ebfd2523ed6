//! The cooperative daemon of a host: a driver of [`airtcp_core::coop::Daemon`], which is what runs
//! on real hosts.
//!
//! Its monitor reads the TCP flows that begin at the host, and its caps go to their senders. It
//! sees what a kernel tells: the smoothed RTT, what was acknowledged, and whether there is anything
//! to send. An announcement's bytes stay here; its packet carries their number.

use std::collections::VecDeque;

use airtcp_core::convert::{count, count16};
use airtcp_core::coop::{
    ANNOUNCEMENT_BYTES, AnnouncementOutcome, CoopConfig, Daemon, FlowId as Connection, FlowSample, Phase, TerminalId,
};
use airtcp_core::packet::{FlowId, Kind, Packet};
use airtcp_core::rng::{Purpose, stream};
use airtcp_core::tcp::Outputs;
use airtcp_core::units::{Seq32, Time};
use rand::RngExt;

use super::{AnyEnds, Context, DATAGRAM_HEADER, Flow};
use crate::books::totals::DaemonStats;

/// Announcements on their way; older ones are lost.
const KEPT: usize = 64;

pub(crate) struct Host {
    /// `None`: not running.
    daemon: Option<Daemon>,
    config: CoopConfig,
    flow: FlowId,
    seed: u64,
    start: Time,
    stop: Time,
    /// Connections of this host, as flows.
    connections: Vec<FlowId>,
    samples: Vec<FlowSample>,
    caps: Vec<Option<u32>>,
    /// The last announcements; the first is number `first`.
    announced: VecDeque<[u8; ANNOUNCEMENT_BYTES]>,
    first: u32,
    pub stats: DaemonStats,
}

impl Host {
    pub(crate) fn new(ctx: &Context, config: &CoopConfig, connections: Vec<FlowId>) -> Host {
        Host {
            daemon: None,
            config: config.clone(),
            flow: ctx.flow,
            seed: ctx.seed,
            start: ctx.spec.start,
            stop: ctx.spec.stop,
            connections,
            samples: Vec::new(),
            caps: Vec::new(),
            announced: VecDeque::new(),
            first: 0,
            stats: DaemonStats::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Time {
        match &self.daemon {
            None => self.start,
            Some(daemon) => daemon.deadline().min(self.stop),
        }
    }

    /// `flows`: those of the world that come before this one.
    pub(crate) fn on_deadline(&mut self, now: Time, flows: &mut [Flow], out: &mut Outputs) {
        if now >= self.stop {
            self.start = Time::NEVER;
            if let Some(mut daemon) = self.daemon.take() {
                self.announce(daemon.leave(now), out);
                self.caps.clear();
                self.apply(now, flows);
            }
            return;
        }
        let flow = self.flow;
        let daemon = self.daemon.get_or_insert_with(|| {
            let mut rng = stream(self.seed, u64::from(flow.0), Purpose::Coop);
            let id = TerminalId::new(rng.random::<u64>() | 1).expect("not zero");
            Daemon::new(self.config.clone(), id, rng, now)
        });
        if now >= daemon.sample_at() {
            self.samples.clear();
            for &i in &self.connections {
                let AnyEnds::Tcp(tcp) = &flows[i.0 as usize].ends else { unreachable!("chosen by their traffic") };
                self.samples.push(FlowSample {
                    id: Connection(u64::from(i.0) << 32 | tcp.connection()),
                    rtt: tcp.sender.srtt(),
                    least_rtt: None,
                    delivered_bytes: tcp.sender.stats().bytes_acked,
                    sending: tcp.is_sending(),
                });
            }
            daemon.on_sample(now, &self.samples, &mut self.caps);
            let (terminals, [free, corrected, stopped], _) = self.state();
            let stats = &mut self.stats;
            stats.samples += 1;
            stats.terminals += u64::from(terminals);
            stats.looks += u64::from(free + corrected + stopped);
            stats.corrected += u64::from(corrected);
            stats.stopped += u64::from(stopped);
            self.apply(now, flows);
        }
        if let Some(bytes) = self.daemon.as_mut().and_then(|d| d.on_deadline(now)) {
            self.announce(bytes, out);
        }
    }

    fn apply(&self, now: Time, flows: &mut [Flow]) {
        for (n, &i) in self.connections.iter().enumerate() {
            if let AnyEnds::Tcp(tcp) = &mut flows[i.0 as usize].ends {
                tcp.set_cwnd_cap(now, self.caps.get(n).copied().flatten());
            }
        }
    }

    fn announce(&mut self, bytes: [u8; ANNOUNCEMENT_BYTES], out: &mut Outputs) {
        let mut packet = Packet::new(self.flow, Kind::Udp, 0);
        packet.len = count16(bytes.len());
        packet.size = DATAGRAM_HEADER + packet.len;
        packet.seq = Seq32(self.first.wrapping_add(count(self.announced.len())));
        out.packets.push(packet);
        self.announced.push_back(bytes);
        if self.announced.len() > KEPT {
            self.announced.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        self.stats.announced += 1;
    }

    /// The bytes that a packet of this daemon carries.
    pub(crate) fn bytes(&self, packet: &Packet) -> Option<[u8; ANNOUNCEMENT_BYTES]> {
        self.announced.get(packet.seq.0.wrapping_sub(self.first) as usize).copied()
    }

    /// A broadcast has reached this host.
    pub(crate) fn on_announcement(&mut self, now: Time, bytes: &[u8]) {
        let Some(daemon) = &mut self.daemon else { return };
        match daemon.on_announcement(now, bytes) {
            Ok(AnnouncementOutcome::Own) => {}
            Ok(AnnouncementOutcome::Taken) => self.stats.heard += 1,
            Ok(AnnouncementOutcome::Late | AnnouncementOutcome::Refused) | Err(_) => {
                self.stats.heard += 1;
                self.stats.refused += 1;
            }
        }
    }

    /// Terminals that send, connections by phase (free, corrected, stopped), and the least cap in
    /// force.
    pub(crate) fn state(&self) -> (u32, [u32; 3], Option<u32>) {
        let Some(daemon) = &self.daemon else { return (0, [0; 3], None) };
        let mut phases = [0; 3];
        for sample in self.samples.iter().filter(|s| s.sending) {
            phases[match daemon.phase(sample.id) {
                Some(Phase::Correction { .. } | Phase::Shared { .. }) => 1,
                Some(Phase::Stop { .. }) => 2,
                Some(Phase::Free) | None => 0,
            }] += 1;
        }
        (daemon.terminals(), phases, self.caps.iter().flatten().min().copied())
    }
}
