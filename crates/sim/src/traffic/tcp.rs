//! TCP flows and the applications on them.
//!
//! Unlimited: one connection that never runs out of data. At `stop` its sender is frozen: it sends nothing more and ACKs
//! that still arrive are ignored. Sized: one transfer, then close. Web: a SURGE user (Barford and Crovella, SIGMETRICS
//! 1998), transfer after transfer, each on a new connection; at `stop` the transfer under way goes on and no other begins.
//! Stream: one connection to which data are written at a constant rate; at `stop` its sender is frozen.

use std::sync::Arc;

use airtcp_core::packet::{FlowId, Packet};
use airtcp_core::rng::{Purpose, Rng, stream};
use airtcp_core::tcp::{Notice, Outputs, RandomPhase, Receiver, Sender, SenderStats, TcpConfig, TimerPhase};
use airtcp_core::units::{DataRate, Span, Time};
use airtcp_core::wifi::Released;
use rand::RngExt;
use rand_distr::{Distribution, LogNormal, Pareto};

use crate::error::BuildError;
use crate::record::{Log, Transfer};
use crate::spec::{FlowSpec, NodeId, Surge, TcpApp, Traffic};
use crate::traffic::repeats::{Place, Repeats};

pub(crate) struct Tcp {
    pub sender: Sender,
    pub receiver: Receiver,
    flow: FlowId,
    /// Modulo 16, as packets carry it.
    incarnation: u8,
    phase: Phase,
    app: App,
    /// The next thing the application does: start a transfer or stop. [`Time::NEVER`]: nothing.
    app_deadline: Time,
    /// Of connections that are over.
    past: SenderStats,
    transfer: Option<Running>,
    transfers: u32,
    /// Transfers that are complete.
    pub completed: u64,
    /// Start and end of the first complete transfer.
    pub first_completion: Option<(Time, Time)>,
    /// Segments that brought the receivers of past connections nothing new.
    past_duplicates: u64,
    /// Set from outside, for all connections to come as well.
    cwnd_cap: Option<u32>,
    /// If each retransmission is recorded.
    repeats: Option<Box<Repeats>>,
    config: Arc<Ends>,
}

/// What only a new connection needs.
struct Ends {
    sender: Arc<TcpConfig>,
    receiver: Arc<TcpConfig>,
    read_rate: Option<DataRate>,
    seed: u64,
    stop: Time,
    below: Option<Below>,
    /// Of the two hosts' timers.
    timer_phases: [Span; 2],
}

/// What the device below a sender does for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Below {
    /// As [`Sender::enable_tsq`] takes it.
    pub pacing_shift: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the first or between two transfers; the last connection may still be closing.
    Between,
    Running,
    /// Stopped: whatever arrives is ignored.
    Frozen,
}

#[derive(Debug)]
enum App {
    Unlimited,
    Sized(u64),
    Web(Box<Web>),
    Stream(Stream),
}

/// Data that come into being at a rate.
#[derive(Debug)]
struct Stream {
    rate: DataRate,
    every: Span,
    start: Time,
    written: u64,
}

impl Stream {
    /// What has come into being since the last call, bytes, and when to call again.
    fn write(&mut self, now: Time) -> (u64, Time) {
        // One period is there from the start: the first picture.
        let made = self.rate.bytes_in(now.since(self.start) + self.every).get();
        let bytes = made - self.written;
        self.written = made;
        (bytes, now + self.every)
    }
}

#[derive(Debug)]
struct Web {
    body: LogNormal<f64>,
    tail: Pareto<f64>,
    gap: Pareto<f64>,
    surge: Surge,
    size_rng: Rng,
    gap_rng: Rng,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    bytes: u64,
    start: Time,
    dropped_at_queues: u64,
}

impl Web {
    fn new(surge: &Surge, flow: FlowId, spec: &FlowSpec, seed: u64) -> Result<Web, BuildError> {
        let bad = |parameter, value: f64, accepted| BuildError::BadParameter {
            flow: spec.name.clone(),
            parameter,
            value: value.to_string(),
            accepted,
        };
        Ok(Web {
            body: LogNormal::new(surge.body_mu, surge.body_sigma)
                .map_err(|_| bad("body_sigma", surge.body_sigma, "finite and not negative"))?,
            tail: Pareto::new(surge.tail_k_bytes, surge.tail_alpha)
                .map_err(|_| bad("tail_alpha", surge.tail_alpha, "positive, as must be tail_k_bytes"))?,
            gap: Pareto::new(surge.gap_k.as_secs_f64(), surge.gap_alpha)
                .map_err(|_| bad("gap_alpha", surge.gap_alpha, "positive, as must be gap_k"))?,
            surge: surge.clone(),
            size_rng: stream(seed, u64::from(flow.0), Purpose::TransferSize),
            gap_rng: stream(seed, u64::from(flow.0), Purpose::ThinkTime),
        })
    }
    fn draw_size(&mut self) -> u64 {
        let from_tail = self.size_rng.random::<f64>() < self.surge.tail_fraction.get();
        let bytes = if from_tail { self.tail.sample(&mut self.size_rng) } else { self.body.sample(&mut self.size_rng) };
        // A float to integer cast saturates.
        (bytes.ceil() as u64).clamp(1, self.surge.max_bytes.max(1))
    }
    fn draw_gap(&mut self) -> Span {
        Span::from_secs_f64(self.gap.sample(&mut self.gap_rng))
    }
}

impl Tcp {
    /// `recorded`: each retransmission is.
    pub fn new(
        flow: FlowId,
        spec: &FlowSpec,
        seed: u64,
        below: Option<Below>,
        recorded: bool,
    ) -> Result<Tcp, BuildError> {
        let Traffic::Tcp { sender, receiver, read_rate, app } = &spec.traffic else {
            unreachable!("the caller matched the traffic")
        };
        let app = match app {
            TcpApp::Unlimited => App::Unlimited,
            TcpApp::Sized(bytes) => App::Sized(*bytes),
            TcpApp::Web(surge) => App::Web(Box::new(Web::new(surge, flow, spec, seed)?)),
            TcpApp::Stream { rate, every } => {
                App::Stream(Stream { rate: *rate, every: *every, start: Time::ZERO, written: 0 })
            }
        };
        let config = Arc::new(Ends {
            sender: Arc::clone(sender),
            receiver: Arc::clone(receiver),
            read_rate: *read_rate,
            seed,
            stop: spec.stop,
            below,
            timer_phases: [timer_phase(sender, spec.from, seed), timer_phase(receiver, spec.to, seed)],
        });
        let (sender, receiver) = config.connection(flow, 0);
        let begins = matches!(app, App::Sized(_)) || spec.start < spec.stop;
        Ok(Tcp {
            sender,
            receiver,
            flow,
            incarnation: 0,
            phase: Phase::Between,
            app,
            app_deadline: if begins { spec.start } else { Time::NEVER },
            past: SenderStats { rtt_min_ns: u64::MAX, ..SenderStats::default() },
            transfer: None,
            transfers: 0,
            completed: 0,
            first_completion: None,
            past_duplicates: 0,
            cwnd_cap: None,
            repeats: recorded.then(Box::default),
            config,
        })
    }

    #[inline]
    pub fn source_deadline(&self) -> u64 {
        let sender = if self.phase == Phase::Frozen { Time::NEVER } else { self.sender.deadline() };
        self.app_deadline.min(sender).as_ns()
    }
    #[inline]
    pub fn destination_deadline(&self) -> u64 {
        self.receiver.deadline().as_ns()
    }

    pub fn on_source_deadline(&mut self, now: u64, out: &mut Outputs, log: &mut Log) {
        let now = Time::from_ns(now);
        if self.app_deadline <= now {
            self.app_deadline = Time::NEVER;
            match self.phase {
                Phase::Between => self.begin(now, out),
                Phase::Running => match &mut self.app {
                    App::Stream(stream) if now < self.config.stop => {
                        let (bytes, next) = stream.write(now);
                        self.app_deadline = next.min(self.config.stop);
                        self.sender.write(now, bytes, out);
                    }
                    _ => {
                        self.phase = Phase::Frozen;
                        return;
                    }
                },
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

    pub fn on_destination_deadline(&mut self, now: u64, out: &mut Outputs) {
        self.receiver.on_deadline(Time::from_ns(now), out);
        out.notices.clear();
    }

    #[inline]
    pub fn on_packet(&mut self, now: u64, packet: &Packet, out: &mut Outputs, log: &mut Log) {
        if packet.incarnation() != self.incarnation {
            return;
        }
        let now = Time::from_ns(now);
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

    /// The source's host no longer holds some segments.
    pub fn on_released(&mut self, now: u64, released: Released, out: &mut Outputs, log: &mut Log) {
        if self.phase == Phase::Frozen {
            return;
        }
        self.sender.on_released(Time::from_ns(now), released.packets, released.payload_bytes, out);
        if !out.notices.is_empty() {
            self.on_notices(Time::from_ns(now), out, log);
        }
    }

    /// The source's host has a new way to the network.
    pub fn on_path_change(&mut self, now: u64) {
        if self.phase == Phase::Running {
            self.sender.on_path_change(Time::from_ns(now));
        }
    }

    /// Number of the connection within the flow, from 1; 0 before the first.
    pub fn connection(&self) -> u64 {
        u64::from(self.transfers)
    }

    /// A connection is under way and has something to send or to be acknowledged.
    pub fn is_sending(&self) -> bool {
        self.phase == Phase::Running && !self.sender.is_idle()
    }

    /// See [`Sender::set_cwnd_cap`].
    pub fn set_cwnd_cap(&mut self, now: Time, cap: Option<u32>) {
        if self.cwnd_cap != cap {
            self.cwnd_cap = cap;
            self.sender.set_cwnd_cap(now, cap);
        }
    }

    pub fn on_drop(&mut self, packet: &Packet) {
        if let Some(running) = self.transfer.as_mut().filter(|_| packet.incarnation() == self.incarnation) {
            running.dropped_at_queues += 1;
        }
    }

    /// Counters of all connections of this flow.
    pub fn stats(&self, at: Time) -> SenderStats {
        let (past, now) = (&self.past, self.sender.stats_at(at));
        let now_min = if now.rtt_count > 0 { now.rtt_min_ns } else { u64::MAX };
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
            rtt_min_ns: past.rtt_min_ns.min(now_min),
            rtt_max_ns: past.rtt_max_ns.max(now.rtt_max_ns),
            cwnd_segment_ns: past.cwnd_segment_ns + now.cwnd_segment_ns,
            open_ns: past.open_ns + now.open_ns,
        }
    }

    /// Data segments that brought the receiver nothing new.
    pub fn spurious_retransmissions(&self) -> u64 {
        self.past_duplicates + self.receiver.stats().segments_duplicate
    }

    fn begin(&mut self, now: Time, out: &mut Outputs) {
        if self.transfers > 0 {
            self.past = self.stats(now);
            self.past_duplicates = self.spurious_retransmissions();
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
        let bytes = match &mut self.app {
            App::Unlimited => u64::MAX,
            App::Sized(bytes) => *bytes,
            App::Web(web) => web.draw_size(),
            App::Stream(stream) => {
                stream.start = now;
                let (bytes, next) = stream.write(now);
                self.app_deadline = next.min(self.config.stop);
                self.sender.open(now, out);
                self.sender.write(now, bytes, out);
                return;
            }
        };
        self.sender.open(now, out);
        self.sender.write(now, bytes, out);
        if bytes == u64::MAX {
            self.app_deadline = self.config.stop;
        } else {
            self.transfer = Some(Running { bytes, start: now, dropped_at_queues: 0 });
            self.sender.close(now, out);
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
                        let at = Place { now, flow: self.flow, transfer: self.transfers - 1 };
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
        log.transfers.push(Transfer {
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
        if let App::Web(web) = &mut self.app {
            let gap = web.draw_gap();
            let next = if web.surge.gap_after_end { now + gap } else { (running.start + gap).max(now) };
            self.app_deadline = if next < self.config.stop { next } else { Time::NEVER };
            self.phase = Phase::Between;
        }
    }
}

impl Ends {
    /// The `index`-th connection of `flow`.
    fn connection(&self, flow: FlowId, index: u32) -> (Sender, Receiver) {
        // Each connection has a random stream of its own.
        let component = u64::from(index) << 32 | u64::from(flow.0);
        let rng = stream(self.seed, component, Purpose::CongestionControl);
        let incarnation = (index % 16) as u8;
        let mut sender = Sender::new(flow, incarnation, Arc::clone(&self.sender), rng);
        if let Some(below) = self.below {
            sender.enable_tsq(below.pacing_shift);
        }
        let mut receiver = Receiver::new(flow, incarnation, Arc::clone(&self.receiver));
        sender.set_timer_phase(self.timer_phases[0]);
        receiver.set_timer_phase(self.timer_phases[1]);
        (sender, receiver)
    }
}

/// All connections of a host share its clocks: both ticks count from the same moment.
fn timer_phase(config: &TcpConfig, host: NodeId, seed: u64) -> Span {
    match config.timer_phase {
        TimerPhase::At(phase) => phase,
        TimerPhase::Random(RandomPhase::Random) => {
            let longest = config.timer_tick.max(config.delayed_ack_tick).as_ns().max(1);
            let mut rng = stream(seed, u64::from(host.0), Purpose::TimerPhase);
            Span::from_ns(rng.random_range(0..longest))
        }
    }
}
