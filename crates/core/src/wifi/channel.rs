//! A wireless channel: its radios, what they send each other, and when.
//!
//! The owner hands packets over with [`Channel::enqueue`], calls [`Channel::on_deadline`] at [`Channel::deadline`] and takes what
//! has happened out of [`AirOutputs`]. One deadline serves the whole medium: the end of a transmission, the end of a gap, a
//! response that is overdue, the next frame that contention lets go, a reorder buffer's timeout.
//!
//! **An exchange** is RTS, CTS, data and response, as far as they are used, each a PPDU with a short gap (SIFS) before it. What
//! reaches the receiver of a PPDU is decided when it ends: nothing if the receiver was sensing or sending something else
//! when it began; only what was over before another transmission came in, where hidden stations are; and of what is left
//! each MPDU by its own chance, from the signal at that time, the mode and its length.
//!
//! **An association** can end and begin (`association`), where a pair is set up so ([`PairConfig::roams`]).
//!
//! **Without acknowledgements** (`ack`) an exchange is over with its data: what has not arrived is lost.
//!
//! **Group-addressed frames** (broadcast) go from an access point to all its stations, see [`group`].
//!
//! Assumptions: propagation takes no time; radios hear each other or do not; a third party decodes what it hears alone. Of two
//! transmissions that overlap from the start both are lost, unless [`ChannelConfig::capture_effect`] lets one be received.

mod association;
mod audit;
mod exchange;
mod feed;
mod group;
mod records;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use audit::{AirHoldings, Occupancy};

use super::config::RadioConfig;
use super::contention::{Contender, Contention};
use super::ids::{AirLinkId, PairId, RadioId, SessionId, Tag};
use super::originator::{Mpdu, Session};
use super::phy::{EdcaParams, ErrorModel, Mode, Motion, Quality, Signal, SignalConfig, Standard, edca_defaults};
use super::radio::{AcQueue, Radio};
use super::rate::{AnyRateControl, RateConfig, RateContext};
use super::reorder::ReorderBuffer;
use super::retry_out::AnyRetryOut;
use super::roam::{ApQueue, StationQueue};
use super::trace::{Ac, AirStats, FrameRecord, PpduRecord, TraceConfig};
use super::transmit::{AnyTransmit, TransmitContext};
use crate::packet::{FlowId, PacketId, Pool};
use crate::queue::{DropReason, Drops, Hosts, QueueContext};
use crate::rng::{Purpose, Rng, Stream, stream};
use crate::units::{Probability, Seq12, Span, Time};

const NEVER: Time = Time::NEVER;

/// A channel as it is set up.
#[derive(Debug, Clone)]
pub struct ChannelConfig {
    /// Its radios; a [`RadioId`] is a place in this list.
    pub radios: Vec<Arc<RadioConfig>>,
    /// Who talks to whom; a [`PairId`] is a place in this list.
    pub pairs: Vec<PairConfig>,
    /// Access points that send to all their stations at once: the `i`-th has the link `2 * pairs.len() + i` for it.
    pub groups: Vec<RadioId>,
    /// Pairs of radios that do not hear each other.
    pub hidden: Vec<(RadioId, RadioId)>,
    /// Time from the start of a transmission until others sense it.
    pub sensing: Span,
    /// Probability that one of two transmissions that meet at a receiver is so much stronger there that it is received as
    /// if it were alone; either one with half of it. The later one must begin within the preamble of the earlier.
    pub capture_effect: Probability,
    /// Of the run.
    pub seed: u64,
    /// Tells the channels of a run apart in their random numbers.
    pub index: u32,
    /// Which records are kept.
    pub trace: TraceConfig,
}

/// A station and its access point. Its two directions are links `2 * i` (up) and `2 * i + 1` (down) of the channel.
#[derive(Debug, Clone)]
pub struct PairConfig {
    /// The station's radio.
    pub station: RadioId,
    /// The access point's.
    pub access_point: RadioId,
    /// The radio link between them, in both directions alike.
    pub signal: SignalConfig,
    /// How far apart they are, where one of them walks.
    pub motion: Option<Motion>,
    /// The station comes and goes, and is not associated at first. `None`: it is associated all the time.
    pub roams: Option<Roams>,
}

impl PairConfig {
    /// Devices that stand where they are and are associated all the time.
    pub fn fixed(station: impl Into<RadioId>, access_point: impl Into<RadioId>, signal: SignalConfig) -> PairConfig {
        PairConfig { station: station.into(), access_point: access_point.into(), signal, motion: None, roams: None }
    }
}

/// What becomes of packets at either end without association. A radio of a station that roams has no other pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roams {
    /// The station's packets.
    pub station_queue: StationQueue,
    /// Packets that its access point has for it.
    pub ap_queue: ApQueue,
}

/// What has happened. The owner takes it out after each call.
#[derive(Debug, Default)]
pub struct AirOutputs {
    /// Link and packet: in order at the recipient's upper layer.
    pub delivered: Vec<(AirLinkId, PacketId)>,
    /// Link and packet: lost, and why. To be removed from the pool.
    pub dropped: Vec<(AirLinkId, PacketId, DropReason)>,
    /// Link and packet: not sent before the end of the association, in order as far as they were. The owner finds another way.
    pub handed_back: Vec<(AirLinkId, PacketId)>,
    /// Pair and packet: a group-addressed packet has reached this pair's station. The packet itself is among `delivered`, once,
    /// if it has reached any.
    pub heard: Vec<(PairId, PacketId)>,
    /// Packets that are no longer held by their host, where that was asked for.
    pub released: Vec<Released>,
}

/// Packets of a flow that its host no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// Whose packets.
    pub flow: FlowId,
    /// How many.
    pub packets: u32,
    /// Their payload together.
    pub payload_bytes: u64,
}

impl AirOutputs {
    /// Whether nothing has happened.
    pub fn is_empty(&self) -> bool {
        let none = self.delivered.is_empty() && self.dropped.is_empty() && self.handed_back.is_empty();
        none && self.heard.is_empty() && self.released.is_empty()
    }
    /// Counts a packet to the ones before it if they are of the same flow.
    fn release(&mut self, flow: FlowId, payload: u16) {
        match self.released.last_mut() {
            Some(last) if last.flow == flow => {
                last.packets += 1;
                last.payload_bytes += u64::from(payload);
            }
            _ => self.released.push(Released { flow, packets: 1, payload_bytes: u64::from(payload) }),
        }
    }
}

#[derive(Debug)]
struct Link {
    from: RadioId,
    to: RadioId,
    pair: Option<PairId>,
    gate: Gate,
    sessions: [Option<SessionId>; 4],
    rate: AnyRateControl,
    /// What rate control is built from at each association, where there are several.
    rate_setup: Option<Box<(RateConfig, RateContext)>>,
    wants_snr: bool,
    /// A lower retry limit for TCP.
    tcp_limit: Option<Box<AnyRetryOut>>,
    stats: AirStats,
    /// Up to when `stats.held_packet_ns` is complete.
    counted_to: Time,
    error_rng: Rng,
}

impl Link {
    /// From an access point to all its stations.
    fn is_group(&self) -> bool {
        self.pair.is_none()
    }
    #[inline]
    fn count_to(&mut self, now: Time) {
        // Packets come and go by the aggregate: many at one instant.
        if now == self.counted_to {
            return;
        }
        self.stats.held_packet_ns +=
            u128::from(self.stats.held_packets) * u128::from(now.since(self.counted_to).as_ns());
        self.counted_to = now;
    }
    fn release(&mut self, now: Time, size: u16) {
        self.count_to(now);
        self.stats.held_packets -= 1;
        self.stats.held_bytes -= u64::from(size);
    }
}

/// What becomes of a packet that comes to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// It goes its way.
    Open,
    /// There is no association: it waits in the queue for one,
    Waits,
    /// or is dropped,
    Drops,
    /// or the owner has it back.
    HandsBack,
}

#[derive(Debug)]
struct Pair {
    signal: Signal,
    access_point: RadioId,
    roams: Option<Roams>,
    is_associated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// On the air.
    Rts,
    Cts,
    /// CTS to itself.
    CtsToSelf,
    Data,
    Response,
    /// SIFS before it.
    BeforeCts,
    BeforeData,
    BeforeResponse,
    /// Nothing has come back; the originator will notice.
    Overdue,
}

/// A frame exchange under way.
#[derive(Debug)]
struct Exchange {
    /// End of the stage.
    at: Time,
    stage: Stage,
    ac: Ac,
    from: RadioId,
    to: RadioId,
    link: AirLinkId,
    mode: Mode,
    data: Span,
    response: Span,
    /// From the end of the data to the end of the response: SIFS and it, or nothing without acknowledgements.
    answer: Span,
    response_mode: Mode,
    start: Time,
    /// Of the PPDU on the air, or the last.
    ppdu_start: Time,
    /// Of the PPDU with data.
    data_start: Time,
    /// Another transmission was at the receiver from then to then.
    hit: (Time, Time),
    /// The receiver did not notice its beginning.
    missed: bool,
    collided: bool,
    is_data_sent: bool,
    /// [`NEVER`]: one exchange only.
    txop_end: Time,
    received: u16,
    legible: u16,
    /// MPDUs whose fate is known and which have gone up: those that end before the PPDU, where they go up one by one.
    judged: u16,
    /// The receiver has caught the preamble of the PPDU with data; known when an MPDU has ended.
    caught: Option<bool>,
    snr_db: f32,
}

impl Exchange {
    fn is_on_air(&self) -> bool {
        matches!(self.stage, Stage::Rts | Stage::Cts | Stage::CtsToSelf | Stage::Data | Stage::Response)
    }
    /// Who sends the PPDU that is on the air.
    fn transmitter(&self) -> RadioId {
        match self.stage {
            Stage::Cts | Stage::Response => self.to,
            _ => self.from,
        }
    }
    /// Who receives the PPDU that is on the air.
    fn receiver(&self) -> RadioId {
        match self.stage {
            Stage::Cts | Stage::Response => self.from,
            _ => self.to,
        }
    }
    fn hit(&mut self, from: Time, to: Time) {
        self.hit = (self.hit.0.min(from), self.hit.1.max(to));
        self.collided = true;
    }
    /// The whole PPDU on the air is lost if anything hits it: control frames are one piece.
    fn is_spoilt(&self) -> bool {
        self.missed || self.hit.0 < self.hit.1
    }
}

/// Of a hit: nothing yet.
const UNHURT: (Time, Time) = (NEVER, Time::ZERO);

/// See the module.
#[derive(Debug)]
pub struct Channel {
    radios: Vec<Radio>,
    /// By radio: the queues above its driver's frames.
    transmits: Vec<AnyTransmit>,
    links: Vec<Link>,
    pairs: Vec<Pair>,
    sessions: Vec<Session>,
    contention: Contention,
    exchanges: Vec<Exchange>,
    occupancy: Occupancy,
    /// Sessions whose recipient holds something.
    holding: Vec<SessionId>,
    reorder_at: Time,
    aqm_at: Time,
    due: Time,
    /// By packet: its session, while a queue discipline has it.
    session_of: Vec<Tag>,
    /// Emptied lists of MPDUs, to be used again.
    spare: Vec<Vec<Mpdu>>,
    failed: Vec<Mpdu>,
    up: Vec<PacketId>,
    refused: Vec<PacketId>,
    drops: Drops,
    capture_effect: f64,
    capture_rng: Rng,
    seed: u64,
    index: u32,
    trace: TraceConfig,
    ampdus: u32,
    /// To be taken out by the owner.
    pub ppdus: Vec<PpduRecord>,
    /// As `ppdus`, frame by frame.
    pub frames: Vec<FrameRecord>,
}

/// Names what draws: the `i`-th of its kind in the channel of that index.
fn component(channel: u32, i: usize) -> u64 {
    u64::from(channel) << 32 | i as u64
}

impl Channel {
    /// The channel at time 0, with nothing to send.
    pub fn new(config: &ChannelConfig) -> Channel {
        let component = |i| component(config.index, i);
        let is_ap = |r: usize| config.pairs.iter().any(|p| p.access_point.index() == r);
        let mut radios = Vec::with_capacity(config.radios.len());
        let mut transmits = Vec::with_capacity(config.radios.len());
        for (i, radio) in config.radios.iter().enumerate() {
            let timing = radio.phy.timing();
            let edca = if radio.has_qos() {
                edca_defaults(&timing, is_ap(i))
            } else {
                let aifsn = if radio.phy.standard == Standard::Wavelan { 0 } else { 2 };
                let dcf = EdcaParams { aifsn, cw_min: timing.cw_min, cw_max: timing.cw_max, txop: Span::ZERO };
                [dcf; 4]
            };
            let fastest = fastest(&radio.phy.modes());
            let streams = [0, 1, 2, 3].map(|ac| Stream::new(config.seed, component(4 * i + ac), Purpose::AirQueue));
            transmits.push(radio.transmit.build(&TransmitContext { rate: fastest.rate(), streams }));
            let driver_frames = radio.transmit.driver_frames();
            let queues = [(); 4].map(|()| AcQueue {
                driver_count: 0,
                driver_frames,
                formed: Default::default(),
                schedule: Default::default(),
            });
            let (aggregates, has_qos) = (radio.aggregates(), radio.has_qos());
            radios.push(Radio {
                config: Arc::clone(radio),
                timing,
                edca,
                queues,
                aggregates,
                has_qos,
                orphans: radio.transmit.orphans(),
                framing: radio.framing(),
                acks: radio.acks(),
                is_shut: config.pairs.iter().any(|p| p.station.index() == i && p.roams.is_some()),
            });
        }
        let contention = Contention::new(
            radios.iter().enumerate().map(|(i, r)| Contender {
                timing: r.timing.clone(),
                edca: r.edca,
                has_qos: r.has_qos,
                eifs: r.config.eifs,
                retry_limit: r.config.retries.frame_tries,
                wavelan: r.config.phy.wavelan(),
                rng: stream(config.seed, component(i), Purpose::Backoff),
            }),
            &config.hidden,
            config.sensing,
        );
        let (mut links, mut pairs) = (Vec::new(), Vec::new());
        let errors = ErrorModel::default();
        for (i, pair) in config.pairs.iter().enumerate() {
            let station = &config.radios[pair.station.index()];
            let access_point = &config.radios[pair.access_point.index()];
            let name = Stream::new(config.seed, component(i), Purpose::Signal);
            let mut signal = Signal::new(&pair.signal, &station.phy, &errors, name);
            if let Some(motion) = &pair.motion {
                signal.follow(motion.clone());
            }
            let is_associated = pair.roams.is_none();
            pairs.push(Pair { signal, access_point: pair.access_point, roams: pair.roams, is_associated });
            for (down, radio) in [(0, station), (1, access_point)] {
                // Both ends must be able to use a mode.
                let other = if down == 1 { station } else { access_point };
                let common = radio.phy.modes_with(&other.phy);
                let context = RateContext {
                    modes: if common.is_empty() { radio.phy.modes() } else { common },
                    timing: radios[if down == 1 { pair.access_point } else { pair.station }.index()].timing.clone(),
                    stream: Stream::new(config.seed, component(2 * i + down), Purpose::RateControl),
                    errors: errors.clone(),
                };
                let rate_config = radio
                    .rate_control
                    .clone()
                    .unwrap_or_else(|| RateConfig::default_for(radio.phy.earlier_of(&other.phy)));
                let rate = rate_config.build(&context);
                let (from, to) =
                    if down == 1 { (pair.access_point, pair.station) } else { (pair.station, pair.access_point) };
                links.push(Link {
                    from,
                    to,
                    pair: Some(PairId::at(i)),
                    gate: pair.roams.map_or(Gate::Open, |roams| Gate::without_association(roams, down == 1)),
                    sessions: [None; 4],
                    wants_snr: rate.wants_snr(),
                    rate,
                    tcp_limit: radios[from.index()].config.retries.tcp_limit.as_ref().map(|c| Box::new(c.build(&()))),
                    rate_setup: pair.roams.map(|_| Box::new((rate_config, context))),
                    stats: AirStats::default(),
                    counted_to: Time::ZERO,
                    error_rng: stream(config.seed, component(2 * i + down), Purpose::AirErrors),
                });
            }
        }
        for (i, &ap) in config.groups.iter().enumerate() {
            let component = component(2 * config.pairs.len() + i);
            links.push(group::link(ap, &radios[ap.index()], &errors, config.seed, component));
        }
        Channel {
            radios,
            transmits,
            links,
            pairs,
            sessions: Vec::new(),
            contention,
            exchanges: Vec::new(),
            occupancy: Occupancy::default(),
            holding: Vec::new(),
            reorder_at: NEVER,
            aqm_at: NEVER,
            due: NEVER,
            session_of: Vec::new(),
            spare: Vec::new(),
            failed: Vec::new(),
            up: Vec::new(),
            refused: Vec::new(),
            drops: Drops::default(),
            capture_effect: config.capture_effect.get(),
            capture_rng: stream(config.seed, component(0), Purpose::Capture),
            seed: config.seed,
            index: config.index,
            trace: config.trace,
            ampdus: 0,
            ppdus: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// When there is something to do.
    #[inline]
    pub fn deadline(&self) -> Time {
        self.due
    }

    /// Counters of a link from the start of the run to now.
    pub fn stats(&self, link: AirLinkId, now: Time) -> AirStats {
        let l = &self.links[link.index()];
        let mut stats = l.stats;
        stats.held_packet_ns += u128::from(stats.held_packets) * u128::from(now.since(l.counted_to).as_ns());
        // What is on the air now will be booked when it ends; until then its part so far counts.
        let under_way = self.exchanges.iter().filter(|x| x.link == link);
        stats.airtime_ns += under_way.map(|x| now.since(x.start).as_ns()).sum::<u64>();
        for s in l.sessions.into_iter().flatten() {
            if let Some(recipient) = &self.sessions[s.index()].recipient {
                let r = recipient.stats();
                stats.given_up += r.given_up;
                stats.reorder_timeouts += r.timeouts;
            }
        }
        stats
    }

    /// The most packets held is counted anew from now.
    pub fn reset_held_max(&mut self, link: AirLinkId) {
        let stats = &mut self.links[link.index()].stats;
        stats.held_max = stats.held_packets;
    }

    /// The mode that rate control now thinks best for a link.
    pub fn best_mode(&self, link: AirLinkId) -> Mode {
        self.links[link.index()].rate.best()
    }

    /// The signal-to-noise ratio of a link, NaN where its signal has none.
    pub fn snr_db(&mut self, link: AirLinkId, now: Time) -> f32 {
        match self.links[link.index()].pair {
            None => f32::NAN,
            Some(pair) => snr_of(self.pairs[pair.index()].signal.link(now)),
        }
    }

    /// The host at the sending end of `link` hands over a packet. `report`: its release is to be told.
    #[expect(clippy::too_many_arguments, reason = "the hottest entry: what is known of a packet, and where it goes")]
    pub fn enqueue(
        &mut self,
        now: Time,
        link: AirLinkId,
        id: PacketId,
        ac: Ac,
        report: bool,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) {
        let packet = &pool[id];
        let size = packet.size;
        let l = &mut self.links[link.index()];
        let from = l.from;
        let ac = if self.radios[from.index()].has_qos { ac } else { Ac::Be };
        l.count_to(now);
        l.stats.arrived_packets += 1;
        l.stats.arrived_bytes += u64::from(size);
        l.stats.held_packets += 1;
        l.stats.held_bytes += u64::from(size);
        l.stats.held_max = l.stats.held_max.max(l.stats.held_packets);
        if matches!(l.gate, Gate::Drops | Gate::HandsBack) {
            self.turn_away(now, link, id, report, pool, out);
            return;
        }
        let session = match l.sessions[ac.index()] {
            None => self.open_session(link, ac),
            Some(session) => session,
        };
        if self.session_of.len() <= id.0 as usize {
            self.session_of.resize(id.0 as usize + 1, Tag::default());
        }
        self.session_of[id.0 as usize] = Tag::new(session, report);
        let receiver = self.sessions[session.index()].receiver;
        let transmit = &mut self.transmits[from.index()];
        transmit.enqueue(now, ac, receiver, id, pool, &mut self.drops);
        if transmit.is_pulled() {
            self.schedule(from, ac, session);
        }
        self.account(now, pool, out);
        self.serve(now, from, ac, pool, out);
        self.set_due();
    }

    /// Everything due at `now`.
    pub fn on_deadline(&mut self, now: Time, pool: &mut Pool, out: &mut AirOutputs) {
        loop {
            // The earliest first; of those at the same time, what began first.
            if let Some(i) = self.exchanges.iter().position(|x| x.at <= now) {
                self.step(now, i, pool, out);
                continue;
            }
            if self.reorder_at <= now {
                self.release_held(now, pool, out);
                continue;
            }
            if self.aqm_at <= now {
                self.on_aqm(now, pool, out);
                continue;
            }
            let (at, radio) = self.contention.next();
            if at > now {
                break;
            }
            self.begin(now, radio, pool, out);
        }
        self.set_due();
    }

    fn set_due(&mut self) {
        let mut due = self.reorder_at.min(self.aqm_at).min(self.contention.next().0);
        for x in &self.exchanges {
            due = due.min(x.at);
        }
        self.due = due;
    }

    #[cold]
    fn open_session(&mut self, link: AirLinkId, ac: Ac) -> SessionId {
        let l = &mut self.links[link.index()];
        // A stream for each receiver and access category; the one of before where a station comes back.
        let stream =
            Stream::new(self.seed, component(self.index, 4 * link.index() + ac.index()), Purpose::SessionQueue);
        let context = QueueContext { rate: l.rate.best().rate(), mtu: 1500, stream, hosts: Hosts::default() };
        let receiver = self.transmits[l.from.index()].open(ac, &context);
        let from = &self.radios[l.from.index()];
        let to = &self.radios[l.to.index()];
        // Whether one sends A-MPDUs is its own affair; the other end must be able to receive them.
        let block_ack = from.aggregates && to.config.receives_ampdus() && !l.is_group();
        let id = SessionId::new(self.sessions.len());
        l.sessions[ac.index()] = Some(id);
        self.sessions.push(Session {
            link,
            next_sn: Seq12::new(0),
            fresh: Default::default(),
            again: Default::default(),
            bar: false,
            is_scheduled: false,
            receiver,
            window: from.config.aggregation.window.min(to.config.reorder_buffer.window),
            // [IEEE80211-10.25.2-1]
            recipient: block_ack.then(|| Box::new(ReorderBuffer::new(&to.config.reorder_buffer, Seq12::new(0)))),
            recipient_waits: false,
            is_over: false,
        });
        id
    }

    /// Books what a discipline has just dropped and marked.
    #[inline]
    fn account(&mut self, now: Time, pool: &Pool, out: &mut AirOutputs) {
        if !self.drops.dropped.is_empty() || !self.drops.marked.is_empty() {
            self.book_drops(now, pool, out);
        }
    }

    #[cold]
    fn book_drops(&mut self, now: Time, pool: &Pool, out: &mut AirOutputs) {
        for id in self.drops.marked.drain(..) {
            let session = self.session_of[id.0 as usize].session();
            self.links[self.sessions[session.index()].link.index()].stats.marked += 1;
        }
        for (id, reason) in self.drops.dropped.drain(..) {
            let tag = self.session_of[id.0 as usize];
            let link = self.sessions[tag.session().index()].link;
            let l = &mut self.links[link.index()];
            match reason {
                DropReason::Early => l.stats.dropped_early += 1,
                DropReason::Filtered => l.stats.filtered += 1,
                _ => l.stats.dropped_overflow += 1,
            }
            let packet = &pool[id];
            l.release(now, packet.size);
            if tag.reports() {
                out.release(packet.flow, packet.len);
            }
            out.dropped.push((link, id, reason));
        }
    }

    /// Holes that have stood for the timeout are passed over.
    fn release_held(&mut self, now: Time, pool: &mut Pool, out: &mut AirOutputs) {
        let mut i = 0;
        while i < self.holding.len() {
            let id = self.holding[i];
            let session = &mut self.sessions[id.index()];
            let recipient = session.recipient.as_mut().expect("it holds something");
            if recipient.deadline() <= now {
                recipient.on_deadline(now, &mut self.up);
                self.hand_up(id, pool, out);
            }
            i += 1;
        }
        self.update_holding();
    }

    /// What a recipient has let go reaches its upper layer.
    fn hand_up(&mut self, session: SessionId, pool: &Pool, out: &mut AirOutputs) {
        let link = self.sessions[session.index()].link;
        let stats = &mut self.links[link.index()].stats;
        for id in self.up.drain(..) {
            stats.delivered_packets += 1;
            stats.delivered_bytes += u64::from(pool[id].size);
            out.delivered.push((link, id));
        }
        for id in self.refused.drain(..) {
            stats.dropped_late += 1;
            out.dropped.push((link, id, DropReason::Late));
        }
    }

    /// Who holds something, and until when at most.
    fn update_holding(&mut self) {
        let sessions = &mut self.sessions;
        let mut least = NEVER;
        self.holding.retain(|&id| {
            let session = &mut sessions[id.index()];
            let at = session.recipient.as_ref().map_or(NEVER, |r| r.deadline());
            least = least.min(at);
            session.recipient_waits = at != NEVER;
            session.recipient_waits
        });
        self.reorder_at = least;
    }
}

/// The fastest of some modes; never empty.
fn fastest(modes: &[Mode]) -> Mode {
    *modes.iter().max_by_key(|m| m.rate()).expect("every PHY has modes")
}

fn snr_of(quality: Quality) -> f32 {
    quality.snr_db().unwrap_or(f32::NAN)
}
