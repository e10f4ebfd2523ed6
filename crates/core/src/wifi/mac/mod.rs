//! The functions of a radio above the medium: queues, aggregation, Block Ack, retries, rate
//! control, and the recipient's reorder buffer.
//!
//! [`SimMac`] is the simulator's MAC, for all radios of a channel. In it [`feed`] brings packets
//! from the host's queues into PPDUs, `exchange` answers the medium, [`association`] ends and
//! begins. One folder for each thing that can be chosen: [`transmit`], [`rate`], [`retry_out`].

mod association;
mod audit;
pub mod completion;
pub mod early_drop;
mod exchange;
mod feed;
mod group;
mod originator;
mod radio;
pub mod rate;
mod records;
pub mod reorder;
pub mod retry_out;
pub mod transmit;

use std::sync::Arc;

pub use audit::AirHoldings;

use completion::Completions;
use originator::{Mpdu, Session};
use radio::{AcQueue, Radio};
use rate::{AnyRateControl, RateConfig, RateContext};
use reorder::{HandsUp, ReorderBuffer};
use retry_out::{TcpEarlyDrop, TcpRetryLimit};
use transmit::{AnyTransmit, TransmitContext};

use super::ids::{AirLinkId, PairId, RadioId, SessionId};
use super::medium::{MediumSetup, NEVER, PathSetup, RadioSetup, component};
use super::outputs::AirOutputs;
use super::phy::{EdcaParams, ErrorModel, Mode, Signal, Standard, Timing, edca_defaults};
use super::setup::{ChannelConfig, PairConfig, Roams};
use super::trace::{Ac, AirStats, FrameRecord, PpduRecord, TraceConfig};
use crate::packet::{PacketId, Pool};
use crate::queue::{DropReason, Drops, Hosts, QueueContext};
use crate::rng::{Purpose, Stream};
use crate::units::{Seq12, Span, Time};

/// The recipient's side of Block Ack in the simulator.
pub(super) type Recipient = ReorderBuffer<PacketId, TcpEarlyDrop>;

#[derive(Debug)]
pub(super) struct Link {
    pub from: RadioId,
    pub to: RadioId,
    pub pair: Option<PairId>,
    pub gate: Gate,
    pub sessions: [Option<SessionId>; 4],
    pub rate: AnyRateControl,
    /// Configuration from which each association builds a rate control; `None` if the link has one
    /// association only.
    pub rate_setup: Option<Box<(RateConfig, RateContext)>>,
    pub wants_snr: bool,
    /// A lower retry limit than that of the driver.
    pub retry_limit: Option<Box<TcpRetryLimit>>,
    pub stats: AirStats,
    /// Time up to which `stats.held_packet_ns` is complete.
    pub counted_to: Time,
}

impl Link {
    /// True if the link goes from an access point to all its stations.
    pub(super) fn is_group(&self) -> bool {
        self.pair.is_none()
    }
    #[inline]
    pub(super) fn count_to(&mut self, now: Time) {
        // Packets come and go by the aggregate: many at one instant.
        if now == self.counted_to {
            return;
        }
        self.stats.held_packet_ns +=
            u128::from(self.stats.held_packets) * u128::from(now.since(self.counted_to).as_ns());
        self.counted_to = now;
    }
    /// The host releases this number of packets and bytes.
    pub(super) fn release(&mut self, now: Time, packets: u32, bytes: u64) {
        self.count_to(now);
        self.stats.held_packets -= u64::from(packets);
        self.stats.held_bytes -= bytes;
    }
}

/// Treatment of a packet that comes to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
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
pub(super) struct Pair {
    pub roams: Option<Roams>,
    pub is_associated: bool,
}

/// See the module.
#[derive(Debug)]
pub struct SimMac {
    pub(super) radios: Vec<Radio>,
    /// By radio: the queues above its driver's frames.
    pub(super) transmits: Vec<AnyTransmit>,
    pub(super) links: Vec<Link>,
    pub(super) pairs: Vec<Pair>,
    /// Access point and station of each pair, in order.
    pair_of: Vec<((RadioId, RadioId), PairId)>,
    pub(super) sessions: Vec<Session>,
    /// Sessions with a recipient that holds MPDUs.
    holding: Vec<SessionId>,
    pub(super) reorder_at: Time,
    pub(super) completions: Completions,
    pub(super) aqm_at: Time,
    /// Emptied lists of MPDUs, to be used again.
    spare: Vec<Vec<Mpdu>>,
    failed: Vec<Mpdu>,
    deliverable: Vec<PacketId>,
    refused: Vec<PacketId>,
    drops: Drops,
    seed: u64,
    index: u32,
    trace: TraceConfig,
    ampdus: u32,
    pub(super) ppdus: Vec<PpduRecord>,
    pub(super) frames: Vec<FrameRecord>,
}

/// The radios with the pool and the outputs that their calls use: a [`Mac`](super::medium::Mac) for
/// one call of the medium.
pub(super) struct Sim<'a> {
    pub mac: &'a mut SimMac,
    pub pool: &'a mut Pool,
    pub out: &'a mut AirOutputs,
}

impl SimMac {
    /// The radios at time 0 with nothing to send, and the medium that they need.
    pub(super) fn new(config: &ChannelConfig) -> (SimMac, MediumSetup) {
        let component = |i| component(config.index, i);
        let (mut is_ap, mut is_shut) = (vec![false; config.radios.len()], vec![false; config.radios.len()]);
        for pair in &config.pairs {
            is_ap[pair.access_point.index()] = true;
            is_shut[pair.station.index()] |= pair.roams.is_some();
        }
        let mut radios = Vec::with_capacity(config.radios.len());
        let mut transmits = Vec::with_capacity(config.radios.len());
        let mut setups: Vec<RadioSetup> = Vec::with_capacity(config.radios.len());
        let mut fastest = Mode::DSSS[0];
        for (i, radio) in config.radios.iter().enumerate() {
            // Radios of one kind share the table, and the cache has it once.
            let before = i.checked_sub(1).filter(|&before| Arc::ptr_eq(&config.radios[before], radio));
            let timing: Arc<Timing> =
                before.map_or_else(|| Arc::new(radio.phy.timing()), |before| Arc::clone(&setups[before].timing));
            let edca = if radio.has_qos() {
                edca_defaults(&timing, is_ap[i])
            } else {
                let aifsn = if radio.phy.standard == Standard::Wavelan { 0 } else { 2 };
                let dcf = EdcaParams { aifsn, cw_min: timing.cw_min, cw_max: timing.cw_max, txop: Span::ZERO };
                [dcf; 4]
            };
            if before.is_none() {
                fastest = self::fastest(&radio.phy.modes());
            }
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
            setups.push(RadioSetup {
                timing: Arc::clone(&timing),
                edca,
                has_qos,
                eifs: radio.eifs,
                retry_limit: radio.retries.frame_tries,
                wavelan: radio.phy.wavelan(),
                hears_one_by_one: radio.reorder_buffer.hands_up == HandsUp::AtLastBit,
            });
            radios.push(Radio {
                config: Arc::clone(radio),
                timing,
                edca,
                queues,
                formed_ahead: if aggregates { usize::from(radio.formed_ahead()) } else { 1 },
                aggregates,
                has_qos,
                orphans: radio.transmit.orphans(),
                framing: radio.framing(),
                acks: radio.acks(),
                single_mpdu: ((Mode::DSSS[0], 0), Span::ZERO),
                max_bytes_by_duration: None,
                is_pulled: transmits[i].is_pulled(),
                counts_received: transmits[i].counts_received(),
                is_shut: is_shut[i],
            });
        }
        let (mut links, mut pairs, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        let errors = ErrorModel::default();
        // By direction, of the pair before: its configurations, and their modes. Most pairs are
        // alike.
        let mut known = [(None, Vec::new()), (None, Vec::new())];
        for (i, pair) in config.pairs.iter().enumerate() {
            let station = &config.radios[pair.station.index()];
            let access_point = &config.radios[pair.access_point.index()];
            let name = Stream::new(config.seed, component(i), Purpose::Signal);
            let mut signal = Signal::new(&pair.signal, &station.phy, &errors, name);
            if let Some(motion) = &pair.motion {
                signal.follow(motion.clone());
            }
            let is_associated = pair.roams.is_none();
            pairs.push(Pair { roams: pair.roams, is_associated });
            paths.push(PathSetup { ends: (pair.station, pair.access_point), signal });
            for (down, radio) in [(0, station), (1, access_point)] {
                // Both ends must be able to use a mode.
                let other = if down == 1 { station } else { access_point };
                let ends = (Arc::as_ptr(radio), Arc::as_ptr(other));
                if known[down].0 != Some(ends) {
                    let common = radio.phy.modes_with(&other.phy);
                    known[down] = (Some(ends), if common.is_empty() { radio.phy.modes() } else { common });
                }
                let sender = if down == 1 { pair.access_point } else { pair.station };
                let context = RateContext {
                    modes: known[down].1.clone(),
                    timing: Arc::clone(&setups[sender.index()].timing),
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
                    retry_limit: {
                        let limit = radios[from.index()].config.retries.tcp_limit.as_ref();
                        limit.map(|config| Box::new(TcpRetryLimit::new(config)))
                    },
                    rate_setup: pair.roams.map(|_| Box::new((rate_config, context))),
                    stats: AirStats::default(),
                    counted_to: Time::ZERO,
                });
            }
        }
        for (i, &ap) in config.groups.iter().enumerate() {
            let component = component(2 * config.pairs.len() + i);
            links.push(group::link(ap, &radios[ap.index()], &errors, config.seed, component));
        }
        let setup = MediumSetup {
            radios: setups,
            paths,
            groups: config.groups.clone(),
            hidden: config.hidden.clone(),
            sensing: config.sensing,
            capture_effect: config.capture_effect.get(),
            seed: config.seed,
            index: config.index,
            reports_control: config.trace.frames,
        };
        let ends = |p: &PairConfig| (p.access_point, p.station);
        let mut pair_of: Vec<_> = config.pairs.iter().map(ends).zip((0..).map(PairId)).collect();
        pair_of.sort_unstable();
        let mac = SimMac {
            radios,
            transmits,
            links,
            pairs,
            pair_of,
            sessions: Vec::new(),
            holding: Vec::new(),
            reorder_at: NEVER,
            completions: Completions::new(config.radios.iter().map(|radio| radio.tx_completion)),
            aqm_at: NEVER,
            spare: Vec::new(),
            failed: Vec::new(),
            deliverable: Vec::new(),
            refused: Vec::new(),
            drops: Drops::default(),
            seed: config.seed,
            index: config.index,
            trace: config.trace,
            ampdus: 0,
            ppdus: Vec::new(),
            frames: Vec::new(),
        };
        (mac, setup)
    }

    /// Takes a packet that the host at the sending end of `link` hands over. `report`: its release
    /// is to be told. Its radio and category, if it waits now.
    #[expect(clippy::too_many_arguments, reason = "the hottest entry: what is known of a packet, and where it goes")]
    #[inline]
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        link: AirLinkId,
        id: PacketId,
        ac: Ac,
        report: bool,
        pool: &mut Pool,
        out: &mut AirOutputs,
    ) -> Option<(RadioId, Ac)> {
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
            self.drop_or_hand_back(now, link, id, report, pool, out);
            return None;
        }
        let session = match l.sessions[ac.index()] {
            None => self.open_session(link, ac),
            Some(session) => session,
        };
        pool.hold(id, session.number(), report);
        let receiver = self.sessions[session.index()].receiver;
        self.transmits[from.index()].enqueue(now, ac, receiver, id, pool, &mut self.drops);
        if self.radios[from.index()].is_pulled {
            self.schedule(from, ac, session);
        }
        self.book_drops(now, pool, out);
        Some((from, ac))
    }

    #[cold]
    pub(super) fn open_session(&mut self, link: AirLinkId, ac: Ac) -> SessionId {
        let l = &mut self.links[link.index()];
        // Each receiver and access category has a stream. A station that comes back gets the same
        // one again.
        let stream =
            Stream::new(self.seed, component(self.index, 4 * link.index() + ac.index()), Purpose::SessionQueue);
        let context = QueueContext { rate: l.rate.best().rate(), mtu: 1500, stream, hosts: Hosts::default() };
        let receiver = self.transmits[l.from.index()].open(ac, &context);
        let from = &self.radios[l.from.index()];
        let to = &self.radios[l.to.index()];
        // Each sender decides alone to send A-MPDUs; the other end must be able to receive them.
        let block_ack = from.aggregates && to.config.receives_ampdus() && !l.is_group();
        let id = SessionId::new(self.sessions.len());
        l.sessions[ac.index()] = Some(id);
        self.sessions.push(Session {
            link,
            next_sn: Seq12::new(0),
            unsent: Default::default(),
            retransmissions: Default::default(),
            bar_due: false,
            is_scheduled: false,
            receiver,
            window: from.config.aggregation.window.min(to.config.reorder_buffer.window),
            // [IEEE80211-10.25.2-1]
            recipient: block_ack.then(|| {
                let config = &to.config.reorder_buffer;
                Box::new(Recipient::new(config, Seq12::new(0), config.early_drop()))
            }),
            recipient_waits: false,
            is_over: false,
            sample: None,
        });
        id
    }

    /// Books the packets that a discipline has just dropped and marked.
    #[inline]
    pub(super) fn book_drops(&mut self, now: Time, pool: &Pool, out: &mut AirOutputs) {
        let SimMac { drops, sessions, links, .. } = self;
        Booking { now, drops, sessions, links, pool, out }.settle();
    }

    /// Holes that have stood for the timeout are passed over.
    pub(super) fn release_held(&mut self, now: Time, pool: &mut Pool, out: &mut AirOutputs) {
        let mut i = 0;
        while i < self.holding.len() {
            let id = self.holding[i];
            let session = &mut self.sessions[id.index()];
            let recipient = session.recipient.as_mut().expect("it holds something");
            if recipient.deadline() <= now {
                recipient.on_deadline(now, &mut self.deliverable);
                self.deliver(id, pool, out);
            }
            i += 1;
        }
        self.update_holding();
    }

    /// Delivers the MPDUs that a recipient has released to its upper layer.
    pub(super) fn deliver(&mut self, session: SessionId, pool: &Pool, out: &mut AirOutputs) {
        let link = self.sessions[session.index()].link;
        let stats = &mut self.links[link.index()].stats;
        for id in self.deliverable.drain(..) {
            stats.delivered_packets += 1;
            stats.delivered_bytes += u64::from(pool[id].size);
            out.delivered.push((link, id));
        }
        for id in self.refused.drain(..) {
            stats.dropped_late += 1;
            out.dropped.push((link, id, DropReason::Late));
        }
    }

    /// Updates the list of recipients that hold MPDUs, and the earliest of their timeouts.
    pub(super) fn update_holding(&mut self) {
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

/// References needed to book the packets that a discipline has just dropped and marked.
pub(super) struct Booking<'a> {
    pub now: Time,
    pub drops: &'a mut Drops,
    pub sessions: &'a [Session],
    pub links: &'a mut [Link],
    pub pool: &'a Pool,
    pub out: &'a mut AirOutputs,
}

impl Booking<'_> {
    /// Books drops and marks, if there are any; mostly there are none.
    #[inline]
    pub(super) fn settle(self) {
        if !self.drops.is_empty() {
            self.book();
        }
    }

    #[cold]
    fn book(self) {
        let Booking { now, drops, sessions, links, pool, out } = self;
        for id in drops.marked.drain(..) {
            let session = SessionId::of(pool.held(id).session);
            links[sessions[session.index()].link.index()].stats.marked += 1;
        }
        for (id, reason) in drops.dropped.drain(..) {
            let held = pool.held(id);
            let link = sessions[SessionId::of(held.session).index()].link;
            let l = &mut links[link.index()];
            match reason {
                DropReason::Early => l.stats.dropped_early += 1,
                DropReason::Filtered => l.stats.filtered += 1,
                _ => l.stats.dropped_overflow += 1,
            }
            l.release(now, 1, held.size.into());
            if held.reports {
                out.release(held.flow, held.len);
            }
            out.dropped.push((link, id, reason));
        }
    }
}

/// The fastest of some modes; never empty.
pub(super) fn fastest(modes: &[Mode]) -> Mode {
    *modes.iter().max_by_key(|m| m.rate()).expect("every PHY has modes")
}
