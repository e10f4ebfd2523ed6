//! TCP flows: connections, one after the other where the application makes transfers.

use std::sync::Arc;

use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::receive::Merged;
use airtcp_core::rng::{Purpose, Streams, stream};
use airtcp_core::tcp::{Notice, Outputs, RandomPhase, Receiver, Sender, SenderStats, TcpConfig, TimerPhase};
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_core::wifi::Released;
use rand::RngExt;

use super::repeats::{Repeats, RowContext};
use super::{AnyApp, Context, Counters, Gives, Period, Report, Traffic};
use crate::books::record::{Log, Transfer, ratio};
use crate::error::BuildError;
use crate::spec::NodeId;

pub(crate) struct Tcp {
    pub sender: Sender,
    pub receiver: Receiver,
    flow: FlowId,
    /// Modulo 16, as packets carry it.
    incarnation: u8,
    phase: Phase,
    app: AnyApp,
    /// The next thing the application does: start a transfer or stop. [`Time::NEVER`]: nothing.
    app_deadline: Time,
    /// Totals of connections that are over, if there are any.
    past: Option<Box<Past>>,
    transfer: Option<Transferring>,
    transfers: u32,
    /// Transfers that are complete.
    completed: u64,
    /// Start and end of the first complete transfer.
    first_completion: Option<(Time, Time)>,
    /// Set from outside, for all connections to come as well.
    cwnd_cap: Option<u32>,
    /// If each retransmission is recorded.
    repeats: Option<Box<Repeats>>,
    config: Arc<Connections>,
}

/// Settings that only a new connection needs.
struct Connections {
    sender: Arc<TcpConfig>,
    receiver: Arc<TcpConfig>,
    read_rate: Option<DataRate>,
    seed: u64,
    stop: Time,
    radio_tsq: Option<RadioTsq>,
    /// Phases of the two hosts' timers.
    timer_phases: [Span; 2],
}

/// Reports of the device below a sender, for TCP small queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RadioTsq {
    /// As [`Sender::enable_tsq`] takes it.
    pub pacing_shift: Option<u32>,
}

/// Counters of connections that are over.
struct Past {
    sent: SenderStats,
    received: Received,
}

/// Counters of receivers.
#[derive(Debug, Clone, Copy, Default)]
struct Received {
    /// Data segments that brought nothing new.
    duplicates: u64,
    /// In order.
    bytes: u64,
    acks: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the first or between two transfers; the last connection may still be closing.
    Between,
    Running,
    /// Stopped: whatever arrives is ignored.
    Frozen,
}

#[derive(Debug, Clone, Copy)]
struct Transferring {
    bytes: u64,
    start: Time,
    dropped_at_queues: u64,
}

impl Tcp {
    /// `recorded`: each retransmission is.
    pub(crate) fn new(ctx: &Context, radio_tsq: Option<RadioTsq>, recorded: bool) -> Result<Tcp, BuildError> {
        let (flow, spec, seed) = (ctx.flow, ctx.spec, ctx.seed);
        let Traffic::Tcp { sender, receiver, read_rate, app } = &spec.traffic else {
            unreachable!("the caller matched the traffic")
        };
        let config = Arc::new(Connections {
            sender: Arc::clone(sender),
            receiver: Arc::clone(receiver),
            read_rate: *read_rate,
            seed,
            stop: spec.stop,
            radio_tsq,
            timer_phases: [timer_phase(sender, spec.from, seed), timer_phase(receiver, spec.to, seed)],
        });
        let (sender, receiver) = config.connection(flow, 0);
        let begins = app.outlasts_stop() || spec.start < spec.stop;
        Ok(Tcp {
            sender,
            receiver,
            flow,
            incarnation: 0,
            phase: Phase::Between,
            app: app.build(ctx)?,
            app_deadline: if begins { spec.start } else { Time::NEVER },
            past: None,
            transfer: None,
            transfers: 0,
            completed: 0,
            first_completion: None,
            cwnd_cap: None,
            repeats: recorded.then(Box::default),
            config,
        })
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        let sender = if self.phase == Phase::Frozen { Time::NEVER } else { self.sender.deadline() };
        self.app_deadline.min(sender)
    }
    #[inline]
    pub(crate) fn destination_deadline(&self) -> Time {
        self.receiver.deadline()
    }

    pub(crate) fn on_deadline(&mut self, now: Time, out: &mut Outputs, log: &mut Log) {
        if self.app_deadline <= now {
            self.app_deadline = Time::NEVER;
            match self.phase {
                Phase::Between => self.begin(now, out),
                Phase::Running if now < self.config.stop => {
                    let (bytes, next) = self.app.on_deadline(now);
                    self.app_deadline = next.min(self.config.stop);
                    self.sender.write(now, bytes, out);
                }
                Phase::Running => {
                    self.phase = Phase::Frozen;
                    return;
                }
                Phase::Frozen => {}
            }
        }
        if self.phase != Phase::Frozen && self.sender.deadline() <= now {
            self.sender.on_deadline(now, out);
        }
        if !out.notices.is_empty() {
            self.on_notices(now, out, log);
        }
    }

    pub(crate) fn on_destination_deadline(&mut self, now: Time, out: &mut Outputs) {
        self.receiver.on_deadline(now, out);
        out.notices.clear();
    }

    #[inline]
    pub(crate) fn on_packet(&mut self, now: Time, packet: &Packet, out: &mut Outputs, log: &mut Log) {
        if packet.incarnation() != self.incarnation {
            return;
        }
        if !packet.is_reverse() {
            self.receiver.on_packet(now, packet, out);
            out.notices.clear();
            if let Some(repeats) = &mut self.repeats {
                repeats.on_arrival(packet, &self.receiver, log);
            }
        } else if self.phase != Phase::Frozen {
            self.sender.on_packet(now, packet, out);
            if !out.notices.is_empty() {
                self.on_notices(now, out, log);
            }
        }
    }

    /// The first queue of the source's host had no room for some segments.
    pub(crate) fn on_refused(&mut self, now: Time, refused: &[Packet]) {
        if self.phase != Phase::Frozen && refused.iter().all(|p| p.incarnation() == self.incarnation) {
            self.sender.on_refused(now, refused);
        }
    }

    /// The first queue of the source's host dropped one that counts as sent.
    pub(crate) fn on_congested(&mut self, now: Time) {
        if self.phase != Phase::Frozen {
            self.sender.on_congested(now);
        }
    }

    /// As [`Self::on_packet`], of several segments that came up as one packet.
    pub(crate) fn on_merged(&mut self, now: Time, merged: &Merged, more: bool, out: &mut Outputs, log: &mut Log) {
        let packet = &merged.packet;
        if (merged.segments == 1 && !more) || packet.is_reverse() {
            return self.on_packet(now, packet, out, log);
        }
        if packet.incarnation() != self.incarnation {
            return;
        }
        self.receiver.on_merged(now, packet, (merged.segments, merged.segment_len), more, out);
        out.notices.clear();
        if let Some(repeats) = &mut self.repeats {
            merged.each().for_each(|segment| repeats.on_arrival(&segment, &self.receiver, log));
        }
    }

    /// The source's host no longer holds some segments.
    pub(crate) fn on_released(&mut self, now: Time, released: Released, out: &mut Outputs, log: &mut Log) {
        if self.phase == Phase::Frozen {
            return;
        }
        self.sender.on_released(now, released.packets, released.payload_bytes, out);
        if !out.notices.is_empty() {
            self.on_notices(now, out, log);
        }
    }

    /// The source's host has a new way to the network.
    pub(crate) fn on_path_change(&mut self, now: Time) {
        if self.phase == Phase::Running {
            self.sender.on_path_change(now);
        }
    }

    /// Takes the receiver from another copy of a flow of one connection.
    pub(crate) fn join(&mut self, destination: Tcp) {
        self.receiver = destination.receiver;
    }

    /// Number of the connection within the flow, from 1; 0 before the first.
    pub(crate) fn connection(&self) -> u64 {
        u64::from(self.transfers)
    }

    /// A connection is under way and has something to send or to be acknowledged.
    pub(crate) fn is_sending(&self) -> bool {
        self.phase == Phase::Running && !self.sender.is_idle()
    }

    /// See [`Sender::set_cwnd_cap`].
    pub(crate) fn set_cwnd_cap(&mut self, now: Time, cap: Option<u32>) {
        if self.cwnd_cap != cap {
            self.cwnd_cap = cap;
            self.sender.set_cwnd_cap(now, cap);
        }
    }

    pub(crate) fn on_drop(&mut self, packet: &Packet) {
        if let Some(running) = self.transfer.as_mut().filter(|_| packet.incarnation() == self.incarnation) {
            running.dropped_at_queues += 1;
        }
    }

    /// Counters of all connections of this flow.
    pub(crate) fn stats(&self, at: Time) -> SenderStats {
        let now = self.sender.stats_at(at);
        let Some(Past { sent: past, .. }) = self.past.as_deref() else { return now };
        let least = [past, &now].into_iter().filter(|stats| stats.rtt_count > 0).map(|stats| stats.rtt_min_ns);
        SenderStats {
            segments_sent: past.segments_sent + now.segments_sent,
            segments_retransmitted: past.segments_retransmitted + now.segments_retransmitted,
            bytes_acked: past.bytes_acked + now.bytes_acked,
            fast_retransmits: past.fast_retransmits + now.fast_retransmits,
            duplicate_acks: past.duplicate_acks + now.duplicate_acks,
            timeouts: past.timeouts + now.timeouts,
            window_probes: past.window_probes + now.window_probes,
            tail_loss_probes: past.tail_loss_probes + now.tail_loss_probes,
            duplicate_sacks: past.duplicate_sacks + now.duplicate_sacks,
            undos: past.undos + now.undos,
            spurious_timeouts: past.spurious_timeouts + now.spurious_timeouts,
            ecn_reductions: past.ecn_reductions + now.ecn_reductions,
            rtt_count: past.rtt_count + now.rtt_count,
            rtt_sum_ns: past.rtt_sum_ns + now.rtt_sum_ns,
            rtt_min_ns: least.min().unwrap_or(0),
            rtt_max_ns: past.rtt_max_ns.max(now.rtt_max_ns),
            cwnd_segment_ns: past.cwnd_segment_ns + now.cwnd_segment_ns,
            open_ns: past.open_ns + now.open_ns,
        }
    }

    pub(crate) fn counters(&self, now: Time) -> Counters {
        let tcp = self.stats(now);
        let received = self.received();
        Counters {
            sent: tcp.segments_sent,
            tcp,
            spurious_retransmissions: received.duplicates,
            delivered_bytes: received.bytes,
            acks_sent: received.acks,
            ..Counters::default()
        }
    }

    /// Reports the figures of the flow that counters alone do not tell.
    pub(crate) fn report(&self, period: &Period, report: &mut Report) {
        let (a, b, row) = (&period.first.tcp, &period.last.tcp, &mut report.row);
        row.cc = self.config.sender.cc.name().into();
        row.goodput_bps = ratio(row.bytes_acked as f64 * 8.0, period.length.as_secs_f64());
        let delivered = (period.last.delivered_bytes - period.first.delivered_bytes) as f64;
        row.delivered_bps = ratio(delivered * 8.0, period.length.as_secs_f64());
        row.retransmission_ratio = ratio(row.segments_retransmitted as f64, row.segments_sent as f64);
        let sum_ms = (b.rtt_sum_ns - a.rtt_sum_ns) as f64 * 1e-6;
        row.rtt_mean_ms = ratio(sum_ms, (b.rtt_count - a.rtt_count) as f64);
        let cwnd_time = (b.cwnd_segment_ns - a.cwnd_segment_ns) as f64;
        row.cwnd_mean_segments = ratio(cwnd_time, (b.open_ns - a.open_ns) as f64);
        if b.rtt_count > 0 {
            row.rtt_min_ms = b.rtt_min_ns as f64 * 1e-6;
            row.rtt_max_ms = b.rtt_max_ns as f64 * 1e-6;
        }
        row.transfers = self.completed;
        if let Some((start, end)) = self.first_completion {
            row.completion_s = end.since(start).as_secs_f64();
        }
    }

    /// Totals of the receivers of all connections.
    fn received(&self) -> Received {
        let now = self.receiver.stats();
        let past = self.past.as_ref().map_or(Received::default(), |past| past.received);
        Received {
            duplicates: past.duplicates + now.segments_duplicate,
            bytes: past.bytes + now.bytes_delivered,
            acks: past.acks + now.acks_sent,
        }
    }

    fn begin(&mut self, now: Time, out: &mut Outputs) {
        if self.transfers > 0 {
            self.past = Some(Box::new(Past { sent: self.stats(now), received: self.received() }));
            if let Some(repeats) = &mut self.repeats {
                repeats.forget();
            }
            self.incarnation = (self.transfers % 16) as u8;
            (self.sender, self.receiver) = self.config.connection(self.flow, self.transfers);
        }
        if self.cwnd_cap.is_some() {
            self.sender.set_cwnd_cap(now, self.cwnd_cap);
        }
        self.transfers += 1;
        self.phase = Phase::Running;
        self.receiver.set_read_rate(now, self.config.read_rate);
        let gives = self.app.on_begin(now);
        self.sender.open(now, out);
        match gives {
            Gives::Endless => {
                self.sender.write(now, u64::MAX, out);
                self.app_deadline = self.config.stop;
            }
            Gives::Transfer(bytes) => {
                self.sender.write(now, bytes, out);
                self.transfer = Some(Transferring { bytes, start: now, dropped_at_queues: 0 });
                self.sender.close(now, out);
            }
            Gives::Data { bytes, next } => {
                self.sender.write(now, bytes, out);
                self.app_deadline = next.min(self.config.stop);
            }
        }
    }

    #[cold]
    fn on_notices(&mut self, now: Time, out: &mut Outputs, log: &mut Log) {
        for i in 0..out.notices.len() {
            match out.notices[i] {
                Notice::AllAcked => self.end_transfer(now, true, log),
                Notice::TimedOut => self.end_transfer(now, false, log),
                Notice::Established | Notice::Closed | Notice::EnteredRecovery | Notice::RetransmissionTimeout => {}
                Notice::Retransmitted(what) => {
                    if let Some(repeats) = &mut self.repeats {
                        let at = RowContext { now, flow: self.flow, transfer: self.transfers - 1 };
                        repeats.on_retransmission(at, &what, &self.receiver, &mut out.packets, log);
                    }
                }
            }
        }
        out.notices.clear();
    }

    /// The transfer is over: complete, or given up by the sender.
    fn end_transfer(&mut self, now: Time, complete: bool, log: &mut Log) {
        let Some(running) = self.transfer.take() else { return };
        let stats = self.sender.stats();
        log.push_transfer(Transfer {
            flow: self.flow,
            index: self.transfers - 1,
            bytes: running.bytes,
            start: running.start,
            end: complete.then_some(now),
            segments_sent: stats.segments_sent,
            segments_retransmitted: stats.segments_retransmitted,
            dropped_at_queues: running.dropped_at_queues,
        });
        if complete {
            self.completed += 1;
            self.first_completion.get_or_insert((running.start, now));
        }
        if let Some(next) = self.app.on_end(now, running.start) {
            self.app_deadline = if next < self.config.stop { next } else { Time::NEVER };
            self.phase = Phase::Between;
        }
    }
}

impl Connections {
    /// The `index`-th connection of `flow`.
    fn connection(&self, flow: FlowId, index: u32) -> (Sender, Receiver) {
        // Each connection has random streams of its own.
        let component = u64::from(index) << 32 | u64::from(flow.0);
        let streams = Streams::of(self.seed, component);
        let incarnation = (index % 16) as u8;
        let mut sender = Sender::new(flow, incarnation, Arc::clone(&self.sender), streams);
        if let Some(radio_tsq) = self.radio_tsq {
            sender.enable_tsq(radio_tsq.pacing_shift);
        }
        let mut receiver = Receiver::new(flow, incarnation, Arc::clone(&self.receiver));
        sender.set_timer_phase(self.timer_phases[0]);
        receiver.set_timer_phase(self.timer_phases[1]);
        (sender, receiver)
    }
}

/// All connections of a host share its clocks: all ticks count from the same moment.
fn timer_phase(config: &TcpConfig, host: NodeId, seed: u64) -> Span {
    match config.timers.phase {
        TimerPhase::At(phase) => phase,
        TimerPhase::Random(RandomPhase::Random) => {
            let longest = config.longest_timer_period().as_ns().max(1);
            let mut rng = stream(seed, u64::from(host.0), Purpose::TimerPhase);
            Span::from_ns(rng.random_range(0..longest))
        }
    }
}
