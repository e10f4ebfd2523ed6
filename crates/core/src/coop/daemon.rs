//! The daemon of one terminal: samples and announcements in, caps and announcements out.
//!
//! A driver asks [`Daemon::deadline`] when to call. At [`Daemon::sample_at`] it reads the kernel's
//! connections, calls [`Daemon::on_sample`] and sets the caps that come back
//! (`TCP_BPF_SNDCWND_CLAMP`, or the simulated sender's `set_cwnd_cap`). At the other deadlines it
//! calls [`Daemon::on_deadline`] and broadcasts the announcement that comes back. Datagrams that
//! arrive on the port go to [`Daemon::on_announcement`] unchanged.
//!
//! n is the terminal itself and the others that send and count ([`Peers`]). Announcements change n,
//! and thereby the size of a cap that is in force. With `phases = "shared"` they can also bring a
//! cap to a connection whose own RTT is long, for a stated time ([`super::cap`]). None stops a
//! connection or lifts a cap of a connection's own RTT. A connection's RTT and phase are its own
//! ([`super::cap`]): two connections of one terminal may lead over paths of different length.
//!
//! A terminal announces itself while it sends, the first time within `announce_jitter` of an
//! interval after it began to, and `farewells` times after. An idle one is silent: a broadcast
//! wakes every terminal on the access point.
//!
//! `bw_max = "learn"` is the source's future work. A terminal adds what it and the counted others
//! delivered in their last intervals, and divides by f(n) (equation 3): what one alone would reach,
//! if (2) holds. The greatest of `learn_window` is BWmax. It is too small until a terminal has sent
//! as fast as the WLAN allows; as long as nothing is known, there is no cap.

use std::collections::BTreeMap;

use rand::RngExt;

use super::cap::Flow;
use super::peers::{AnnouncementOutcome, Peers};
use super::recent::Recent;
use super::{ANNOUNCEMENT_BYTES, Announcement, AnnouncementError, BwMax, CoopConfig, Count, Phase, Phases, TerminalId};
use crate::convert::{count, floor64};
use crate::rng::Rng;
use crate::units::{DataRate, Span, Time};

/// The driver's name of a connection, such as Linux's socket cookie. Not used again while the
/// terminal runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u64);

/// Sample of one connection, as the kernel monitor reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSample {
    /// Identity of the connection, for as long as it lasts.
    pub id: FlowId,
    /// The RTT as it stands: the kernel's smoothed one, or the latest.
    pub rtt: Option<Span>,
    /// The least RTT since the last sample, if the monitor sees them all; else `rtt` is taken. Not
    /// the kernel's minimum of the whole connection, which would outlast a change of path.
    pub least_rtt: Option<Span>,
    /// Bytes acknowledged since the connection began.
    pub delivered_bytes: u64,
    /// True if it has unsent or unacknowledged data.
    pub sending: bool,
}

/// The daemon of one terminal: samples and announcements in, caps and announcements out.
#[derive(Debug)]
pub struct Daemon {
    config: CoopConfig,
    id: TerminalId,
    rng: Rng,
    peers: Peers,
    flows: BTreeMap<FlowId, Flow>,
    sending_flows: u32,
    sample_at: Time,
    announce_at: Time,
    farewells: u8,
    sequence: u32,
    /// Delivered since the last announcement, and when that was.
    delivered_bytes: u64,
    counted_from: Time,
    learnt: Recent<u64>,
}

impl Daemon {
    /// Begins at `now`. `rng` draws the jitter and the first sequence number.
    pub fn new(config: CoopConfig, id: TerminalId, mut rng: Rng, now: Time) -> Daemon {
        Daemon {
            peers: Peers::new(id, &config),
            flows: BTreeMap::new(),
            sending_flows: 0,
            sample_at: now,
            announce_at: Time::NEVER,
            farewells: 0,
            sequence: rng.random(),
            delivered_bytes: 0,
            counted_from: now,
            learnt: Recent::new(config.learn_window),
            config,
            id,
            rng,
        }
    }

    /// When the monitor is to be read next, or an announcement is due.
    pub fn deadline(&self) -> Time {
        self.sample_at.min(self.announce_at)
    }
    /// When the monitor is to be read next.
    pub fn sample_at(&self) -> Time {
        self.sample_at
    }

    /// Takes the samples of the monitor at `now`. `caps` becomes the cap of each of `flows`, in
    /// their order, segments; None: none.
    pub fn on_sample(&mut self, now: Time, flows: &[FlowSample], caps: &mut Vec<Option<u32>>) {
        self.sample_at = now + self.config.sample_every;
        self.peers.expire(now);
        let reports = self.peers.correcting_terminals();
        let reported = self.config.phases == Phases::Shared && reports >= u32::from(self.config.shared_peers);
        for sample in flows {
            let flow = self.flows.entry(sample.id).or_insert_with(|| Flow::new(&self.config, now, sample));
            let delivered = flow.on_sample(&self.config, now, sample, reported);
            self.delivered_bytes = self.delivered_bytes.saturating_add(delivered);
        }
        self.flows.retain(|_, flow| flow.seen == now);
        let sending = count(flows.iter().filter(|f| f.sending).count());
        if sending > 0 && self.sending_flows == 0 {
            self.farewells = self.config.farewells;
            if self.announce_at.is_never() {
                // Nothing was counted while nothing was announced.
                (self.delivered_bytes, self.counted_from) = (0, now);
                self.announce_at = now + self.jittered(0.0, self.config.announce_jitter);
            }
        }
        self.sending_flows = sending;

        let (terminals, bw_max) = (self.terminals(), self.bw_max(now));
        let shares = match self.config.count {
            Count::Terminals => terminals.saturating_mul(sending),
            Count::Flows => self.peers.sending_flows().saturating_add(sending),
        };
        caps.clear();
        caps.extend(flows.iter().map(|sample| {
            let flow = self.flows.get_mut(&sample.id)?;
            match flow.phase() {
                Phase::Free => None,
                Phase::Stop { .. } => Some(self.config.stop_cap),
                Phase::Correction { .. } | Phase::Shared { .. } => {
                    let rtt = flow.rtt_in_cap(&self.config, now)?;
                    Some(self.config.ideal_cwnd(bw_max?, rtt, terminals, shares).max(self.config.min_cap))
                }
            }
        }));
    }

    /// A datagram came in. The error is for a log; nothing has changed then.
    pub fn on_announcement(&mut self, now: Time, datagram: &[u8]) -> Result<AnnouncementOutcome, AnnouncementError> {
        Ok(self.peers.on_announcement(now, &Announcement::decode(datagram)?))
    }

    /// The announcement to broadcast, if one is due.
    pub fn on_deadline(&mut self, now: Time) -> Option<[u8; ANNOUNCEMENT_BYTES]> {
        if now < self.announce_at {
            return None;
        }
        if self.sending_flows == 0 {
            if self.farewells == 0 {
                self.announce_at = Time::NEVER;
                return None;
            }
            self.farewells -= 1;
        }
        let jitter = self.config.announce_jitter;
        self.announce_at = now + self.jittered(1.0 - jitter, 1.0 + jitter);
        Some(self.announce(now, false))
    }

    /// The daemon ends: its last announcement. The driver lifts all caps.
    pub fn leave(&mut self, now: Time) -> [u8; ANNOUNCEMENT_BYTES] {
        self.announce_at = Time::NEVER;
        self.announce(now, true)
    }

    /// The terminal's path has changed, as after a handover: least RTTs of the old one say nothing,
    /// and its peers are elsewhere.
    pub fn on_path_change(&mut self) {
        for flow in self.flows.values_mut() {
            flow.forget_path(&self.config);
        }
        self.peers = Peers::new(self.id, &self.config);
        self.learnt = Recent::new(self.config.learn_window);
    }

    /// The path of one connection has changed, as after another default route. Terminals on the
    /// access point are those from before.
    pub fn on_flow_path_change(&mut self, flow: FlowId) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.forget_path(&self.config);
        }
    }

    /// n: the terminals that send, this one included. At least 1.
    pub fn terminals(&self) -> u32 {
        (self.peers.sending_terminals() + u32::from(self.sending_flows > 0)).max(1)
    }
    /// BWmax as it is used; None: not learnt yet.
    pub fn bw_max(&mut self, now: Time) -> Option<DataRate> {
        match self.config.bw_max {
            BwMax::Given(rate) => Some(rate),
            BwMax::Learn => self.learnt.get(now).map(DataRate::from_bps),
        }
    }
    /// Phase that the daemon assumes for a connection; none if the connection is not known.
    pub fn phase(&self, flow: FlowId) -> Option<Phase> {
        self.flows.get(&flow).map(Flow::phase)
    }
    /// The other terminals.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }
    /// This terminal's name.
    pub fn id(&self) -> TerminalId {
        self.id
    }
    /// As given to [`Daemon::new`].
    pub fn config(&self) -> &CoopConfig {
        &self.config
    }

    fn announce(&mut self, now: Time, leaving: bool) -> [u8; ANNOUNCEMENT_BYTES] {
        let span = now.since(self.counted_from);
        let own_bps = (!span.is_zero()).then(|| DataRate::from_bytes_per(self.delivered_bytes, span).as_bps());
        (self.delivered_bytes, self.counted_from) = (0, now);
        self.peers.expire(now);
        if let Some(own) = own_bps {
            let all = own.saturating_add(self.peers.throughput_kbps().saturating_mul(1000));
            let alone = floor64(all as f64 / self.config.shrinkage(self.terminals()));
            if alone > 0 {
                self.learnt.push(now, alone.min(self.config.learn_max.as_bps()));
            }
        }
        let announcement = Announcement {
            sender: self.id,
            sequence: self.sequence,
            flows: if leaving { 0 } else { u16::try_from(self.sending_flows).unwrap_or(u16::MAX) },
            leaving,
            correcting: self.flows.values().any(Flow::is_correcting),
            throughput_kbps: own_bps.map(|bps| u32::try_from(bps / 1000).unwrap_or(u32::MAX)),
        };
        self.sequence = self.sequence.wrapping_add(1);
        announcement.encode()
    }

    /// A span drawn evenly from `low` to `high` announcement intervals; never zero, so that
    /// deadlines advance.
    fn jittered(&mut self, low: f64, high: f64) -> Span {
        let share = low + (high - low) * self.rng.random::<f64>();
        Span::from_secs_f64(self.config.announce_every.as_secs_f64() * share).max(Span::from_ns(1))
    }
}
