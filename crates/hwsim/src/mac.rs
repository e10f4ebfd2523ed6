//! Work of a radio above the medium when its queues, sessions and rate control are a kernel's: a
//! table of frames that were handed over, and what a chip and its driver make of them.
//!
//! **A-MPDUs** are formed of frames of one receiver and one identifier, within the Block Ack
//! window. [`Aggregation`](airtcp_core::wifi::Aggregation) sets their limits, and how many are
//! formed ahead. An MPDU that fails goes back to its place in the queue, and out in a later A-MPDU.
//! An A-MPDU that nothing answers is repeated whole, along its series of rates. That is the series
//! of the newest frame that waits: drivers ask for the rates when they form an A-MPDU, and the
//! series of earlier frames may be old. [`Retries`](airtcp_core::wifi::Retries) limits both. A
//! frame that tests a rate goes alone. All this is as in ath9k
//! (drivers/net/wireless/ath/ath9k/xmit.c of Linux 6.12, `ath_tx_form_aggr`, `ath_set_rates`).
//!
//! **Status**: a kernel learns how each MPDU ended. With the first MPDU of an A-MPDU that ends it
//! learns of the whole: how many MPDUs it had, how many were acknowledged, and its tries by rate
//! (`ath_tx_complete_aggr`, `ath_tx_rc_status`). It hears nothing of an A-MPDU while none of its
//! MPDUs has ended. A rate at which only an RTS was sent counts once, if it was the last one.
//!
//! **Kernels are asked first**: when a PPDU ends, a kernel hears how each of its frames ended, and
//! hands over further ones a microsecond later (kernel/mac80211-hwsim). So what is formed ahead is
//! formed only after that: a retry and the frames that follow it go together, as they do where
//! driver and queues are one program. Another two microseconds later TCP hears of it. Segments that
//! TCP then sends come too late for that A-MPDU, as in ath9k. A radio waits longer than that before
//! its next PPDU.
//!
//! **Frames that the driver took** for different A-MPDUs do not go in one. A retry joins any, and
//! so do the frames that a tested rate cut off. So does a frame that the driver took and that did
//! not fit: it waits for the next A-MPDU of its queue (`ath_tx_form_aggr`, `stop:`).
//!
//! **Turns**: A-MPDUs go in the order in which the driver took them. If it tells no order,
//! receivers with waiting frames have turns in the order in which their frames came. The one that
//! was served last comes last.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use airtcp_core::convert::{count, saturate8};
use airtcp_core::units::{Seq12, Span, Time};
use airtcp_core::wifi::config::RetryCount;
use airtcp_core::wifi::medium::{Arrival, Fate, Mac, Outcome, Payload, Signals, To, TxRequest};
use airtcp_core::wifi::phy::{Timing, timing};
use airtcp_core::wifi::{Ac, RadioConfig, RadioId};

use crate::frame::{self, Address, FCS};
use crate::message::{self, AMPDU, Aggregate, Arrived, NO_ACK, PROBE, STAGES, Sent};
use crate::rate::{self, Stage};

/// Where a signal has no power, frames arrive with this one, dBm.
const SIGNAL: i32 = -50;
/// Noise in 20 MHz, dBm.
const NOISE: f32 = -95.0;

/// Addresses of a radio that stay whatever its kernel says of others: those that the module gives
/// it.
const LASTING_ADDRESSES: usize = 2;
/// Most addresses of a radio.
const MOST_ADDRESSES: usize = 16;
/// Most frames that a radio holds: hwsim keeps 2000 at most, and its patches stop the queues long
/// before.
const MOST_HELD: usize = 2048;

/// From the end of a PPDU to the last frame that a kernel hands over because of it, at most. A
/// kernel's timer is not exact to the nanosecond.
const HANDING_OVER: Span = Span::from_us(2);

/// A frame of a kernel.
#[derive(Debug)]
struct Mpdu {
    sent: Sent,
    /// Tries behind it, as the limit counts them.
    retries: u8,
    /// The rates that it was sent at, with the number of tries.
    used: Vec<Stage>,
    was_sent: bool,
    /// The A-MPDU for which its driver took it is over, or went without it, or had no room for it:
    /// it joins any.
    joins_any: bool,
}

impl Mpdu {
    fn bytes(&self) -> u32 {
        count(self.sent.bytes.len() + FCS)
    }
    fn may_aggregate(&self) -> bool {
        self.sent.flags & AMPDU != 0
    }
    fn tests_rate(&self) -> bool {
        self.sent.flags & PROBE != 0
    }
    /// Its driver took the two for different A-MPDUs.
    fn is_apart_from(&self, next: &Mpdu) -> bool {
        !self.joins_any && self.key() == next.key() && self.sent.taken_for != next.sent.taken_for
    }
    /// Frames of one key keep their order.
    fn key(&self) -> (Address, Option<u8>) {
        (self.sent.header.receiver, self.sent.header.tid)
    }
}

/// A PPDU that is ready for the air.
#[derive(Debug)]
struct Ppdu {
    mpdus: Vec<Mpdu>,
    /// Its rates.
    series: Vec<Stage>,
    /// Tries by stage, and those of the last stage of which only an RTS was sent.
    tries: [u8; STAGES],
    unheard: u8,
    /// It is under Block Ack; alone in a PPDU, too.
    in_session: bool,
    /// Tries of it, those included of which only an RTS was sent.
    tried: u32,
    /// Number of the A-MPDU.
    number: u32,
    /// Fates of the MPDUs at their receiver, in the try under way.
    fates: Vec<Fate>,
}

impl Ppdu {
    fn new(mpdus: Vec<Mpdu>, series: Vec<Stage>, number: u32) -> Ppdu {
        let in_session = mpdus.first().is_some_and(Mpdu::may_aggregate);
        let (tries, fates) = ([0; STAGES], Vec::new());
        Ppdu { mpdus, series, tries, unheard: 0, in_session, tried: 0, number, fates }
    }

    /// The stage of the next try; the last one for tries beyond the series.
    fn stage(&self) -> usize {
        let mut before = 0;
        let past = |stage: &&Stage| {
            before += u32::from(stage.count);
            before <= self.tried
        };
        self.series.iter().take_while(past).count().min(self.series.len().saturating_sub(1))
    }
}

/// Counts a try at a rate among those that were used.
fn tally(used: &mut Vec<Stage>, stage: Stage) {
    let known = used.iter().position(|own| (own.index, own.flags) == (stage.index, stage.flags));
    match known.or((used.len() == STAGES).then_some(STAGES - 1)) {
        Some(at) => used[at].count = used[at].count.saturating_add(1),
        None => used.push(Stage { count: 1, ..stage }),
    }
}

/// Frames of one category.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Mpdu>,
    formed: VecDeque<Ppdu>,
    last: Option<(Address, Option<u8>)>,
}

impl Queue {
    fn held(&self) -> usize {
        self.waiting.len() + self.formed.iter().map(|ppdu| ppdu.mpdus.len()).sum::<usize>()
    }

    /// The oldest sequence number of a session that is not resolved.
    fn window_start(&self, key: (Address, Option<u8>)) -> Option<Seq12> {
        let formed = self.formed.iter().flat_map(|ppdu| &ppdu.mpdus);
        let own = formed.chain(&self.waiting).filter(|mpdu| mpdu.key() == key && mpdu.may_aggregate());
        own.map(|mpdu| mpdu.sent.header.sn).reduce(|oldest, sn| if sn.is_before(oldest) { sn } else { oldest })
    }

    /// The keys of frames that wait, in the order in which they are served.
    fn turns(&self) -> Vec<(Address, Option<u8>)> {
        let mut keys = Vec::new();
        let mut add = |of: &dyn Fn(&Mpdu) -> bool| {
            for mpdu in self.waiting.iter().filter(|mpdu| of(mpdu)) {
                if !keys.contains(&mpdu.key()) {
                    keys.push(mpdu.key());
                }
            }
            keys.len()
        };
        // The receiver that was served last comes last.
        let many = add(&|mpdu| mpdu.sent.taken_for.is_none());
        // A driver that says what it took for an A-MPDU has chosen the order.
        add(&|mpdu| !mpdu.joins_any);
        add(&|_| true);
        if let Some(at) = keys[..many].iter().position(|key| Some(*key) == self.last) {
            keys[at..many].rotate_left(1);
        }
        keys
    }

    /// Puts a frame back to where its number belongs, but behind one that its driver kept to `test`
    /// a rate: ath9k sends that first (`ath_tx_complete_aggr` in xmit.c of Linux 6.12,
    /// `skb_queue_splice_tail`).
    fn put_back(&mut self, mut mpdu: Mpdu, test: impl Fn(&Mpdu) -> bool) {
        mpdu.joins_any = true;
        let sn = mpdu.sent.header.sn;
        let is_first = |other: &Mpdu| other.joins_any && !other.was_sent && test(other);
        let is_own = |other: &Mpdu| other.key() == mpdu.key();
        let follows = |other: &Mpdu| is_own(other) && !is_first(other) && sn.is_before(other.sent.header.sn);
        let before = |other: &Mpdu| is_own(other) && (is_first(other) || other.sent.header.sn.is_before(sn));
        let at = self.waiting.iter().position(follows);
        let behind = || self.waiting.iter().rposition(before).map(|at| at + 1);
        let at = at.or_else(behind).unwrap_or(0);
        self.waiting.insert(at, mpdu);
    }
}

/// Traffic from one radio to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// PPDUs, every try counted.
    pub ppdus: u64,
    /// Those of them that nothing answered.
    pub unanswered: u64,
    /// Those of them that another transmission hit.
    pub collided: u64,
    /// Under Block Ack: A-MPDUs, and single MPDUs in their place.
    pub ampdus: u64,
    /// MPDUs in them, every try counted.
    pub mpdus: u64,
    /// Those of them that were not acknowledged.
    pub mpdus_failed: u64,
    /// Given up after the last retry.
    pub given_up: u64,
    /// Sum of the rates of `ampdus`, bit/s.
    pub rate_sum_bps: u128,
    /// Airtime of exchanges, from the first bit to the end of the answer.
    pub airtime_ns: u64,
    /// Frames without Block Ack: management and others.
    pub frames: u64,
}

#[derive(Debug)]
struct Radio {
    config: Arc<RadioConfig>,
    timing: Arc<Timing>,
    txop: [Span; 4],
    queues: [Queue; 4],
    /// The kernel's name of it.
    name: Address,
    /// Frames to these are for it.
    addresses: Vec<Address>,
    wants_damaged: bool,
    has_one_rate: bool,
    /// Its kernel has it no longer.
    is_gone: bool,
    /// Frames in `queues`.
    held: usize,
}

/// See the module.
#[derive(Debug)]
pub struct HwsimMac {
    radios: Vec<Radio>,
    /// A radio that nobody hears: for it are frames to addresses that nobody has.
    nobody: RadioId,
    out: VecDeque<(RadioId, Vec<u8>)>,
    /// Queues that are to form PPDUs ahead, once time has gone on from then.
    due: Vec<(Time, RadioId, Ac)>,
    ampdus: u32,
    traffic: BTreeMap<(RadioId, RadioId), Traffic>,
    /// The kernel knows nothing of the attributes that patches add.
    is_plain: bool,
}

impl HwsimMac {
    /// Radios with nothing to send: their configuration, the durations of their PHY, and the limits
    /// of their TXOPs.
    pub(crate) fn new(radios: Vec<(Arc<RadioConfig>, Arc<Timing>, [Span; 4])>) -> HwsimMac {
        let nobody = RadioId::at(radios.len());
        let radio = |(place, (config, timing, txop))| Radio {
            config,
            timing,
            txop,
            queues: Default::default(),
            // As hwsim calls the first radio of a kernel.
            name: [0x42, 0, 0, 0, 0, 0],
            addresses: vec![frame::address(place)],
            wants_damaged: false,
            has_one_rate: false,
            is_gone: false,
            held: 0,
        };
        let radios = (0..).zip(radios).map(radio).collect();
        let (out, due, traffic) = (VecDeque::new(), Vec::new(), BTreeMap::new());
        HwsimMac { radios, nobody, out, due, ampdus: 0, traffic, is_plain: false }
    }

    /// The kernel calls a radio so. Its addresses are that name and what the module gives its first
    /// interface.
    pub(crate) fn rename(&mut self, radio: RadioId, name: Address) {
        let mut own = name;
        own[0] &= !frame::NAME;
        let r = &mut self.radios[radio.index()];
        (r.name, r.addresses) = (name, vec![own, name]);
    }

    /// Frames to this address are for that radio, and no longer for another one.
    pub(crate) fn add_address(&mut self, radio: RadioId, address: Address) {
        if self.radios[radio.index()].is_gone {
            return;
        }
        self.remove_address(address);
        let own = &mut self.radios[radio.index()].addresses;
        // Stations that look for networks change theirs: the oldest one goes.
        if own.len() >= MOST_ADDRESSES {
            own.remove(LASTING_ADDRESSES);
        }
        own.push(address);
    }

    /// No radio has this address any longer, unless it is one that lasts.
    pub(crate) fn remove_address(&mut self, address: Address) {
        for radio in &mut self.radios {
            let mut place = 0;
            radio.addresses.retain(|own| {
                place += 1;
                *own != address || place <= LASTING_ADDRESSES
            });
        }
    }

    /// Nobody has the radio any longer: its addresses are nobody's, and what waits in it is not
    /// sent. False: it had vanished before.
    pub(crate) fn vanish(&mut self, radio: RadioId) -> bool {
        let r = &mut self.radios[radio.index()];
        let is_new = !r.is_gone;
        r.is_gone = true;
        r.addresses.clear();
        for queue in &mut r.queues {
            queue.waiting.clear();
            // The first may be on the air.
            queue.formed.truncate(1);
        }
        r.held = r.queues.iter().map(Queue::held).sum();
        is_new
    }

    /// The kernel's module has none of the patches: what arrives has a legacy rate, and no number
    /// of an A-MPDU.
    pub(crate) fn speak_plainly(&mut self) {
        self.is_plain = true;
    }

    /// Sets if a radio hears of frames that arrive damaged. Kernels that did not ask for them drop
    /// them.
    pub fn want_damaged(&mut self, radio: RadioId, wants: bool) {
        self.radios[radio.index()].wants_damaged = wants;
    }

    /// The radio's rate is fixed, and [`Retries`](airtcp_core::wifi::Retries) alone limits its
    /// tries. minstrel_ht tests rates even where its kernel allows one only, and has RTS before
    /// later tries: both are left out.
    pub fn fix_rate(&mut self, radio: RadioId) {
        self.radios[radio.index()].has_one_rate = true;
    }

    /// The next message for a kernel.
    pub fn take_out(&mut self) -> Option<(RadioId, Vec<u8>)> {
        self.out.pop_front()
    }

    /// Messages for kernels that wait to be taken.
    pub fn waiting_out(&self) -> usize {
        self.out.len()
    }

    /// Traffic by sender and receiver, and traffic to nobody.
    pub fn traffic(&self) -> &BTreeMap<(RadioId, RadioId), Traffic> {
        &self.traffic
    }

    /// How many radios there are.
    pub fn count(&self) -> usize {
        self.radios.len()
    }

    /// The number of a radio for frames to addresses that no radio has.
    pub fn nobody(&self) -> RadioId {
        self.nobody
    }

    /// Frames that a radio holds.
    pub fn held(&self, radio: RadioId) -> usize {
        self.radios.get(radio.index()).map_or(0, |radio| radio.held)
    }

    /// A kernel hands over a frame. Its category; `None`: the radio holds so much that this one is
    /// given up at once.
    pub(crate) fn take_in(&mut self, now: Time, radio: RadioId, sent: Sent) -> Option<Ac> {
        let ac = sent.header.ac;
        self.radios[radio.index()].name = sent.radio;
        if self.radios[radio.index()].held >= MOST_HELD {
            let status = message::status(&sent, &[], false, SIGNAL, None);
            self.out.push_back((radio, status));
            return None;
        }
        self.radios[radio.index()].held += 1;
        let joins_any = sent.taken_for.is_some_and(|number| number & message::OVER != 0);
        let mpdu = Mpdu { sent, retries: 0, used: Vec::new(), was_sent: false, joins_any };
        if self.radios[radio.index()].queues[ac.index()].waiting.iter().any(|other| other.is_apart_from(&mpdu)) {
            self.form_ahead(radio, ac);
        }
        self.radios[radio.index()].queues[ac.index()].waiting.push_back(mpdu);
        self.form_later(now, radio, ac);
        Some(ac)
    }

    fn form_later(&mut self, now: Time, radio: RadioId, ac: Ac) {
        if self.due.last() != Some(&(now, radio, ac)) {
            self.due.push((now, radio, ac));
        }
    }

    /// Time goes on to `now`: kernels have said what they had to say of what ended [`HANDING_OVER`]
    /// before.
    pub(crate) fn form_due(&mut self, now: Time) {
        let is_over = |since: Time| since + HANDING_OVER < now;
        if self.due.first().is_some_and(|(since, ..)| is_over(*since)) {
            let all = std::mem::take(&mut self.due).into_iter();
            let (due, later): (Vec<_>, Vec<_>) = all.partition(|(since, ..)| is_over(*since));
            self.due = later;
            for (_, radio, ac) in due {
                self.form_ahead(radio, ac);
            }
        }
    }

    /// Forms as many PPDUs as the radio keeps ready.
    fn form_ahead(&mut self, radio: RadioId, ac: Ac) {
        let ahead = usize::from(self.radios[radio.index()].config.formed_ahead());
        while self.radios[radio.index()].queues[ac.index()].formed.len() < ahead && self.form(radio, ac) {}
    }

    /// Forms one PPDU; false: nothing can be sent.
    fn form(&mut self, radio: RadioId, ac: Ac) -> bool {
        let r = &mut self.radios[radio.index()];
        let longest = r.longest(ac);
        let queue = &mut r.queues[ac.index()];
        let keys = queue.turns();
        let limits = &r.config.aggregation;
        for key in keys {
            let mut mpdus: Vec<Mpdu> = Vec::new();
            let mut series = Vec::new();
            let (mut at, mut total, mut most_bytes) = (0, 0, 0);
            let start = queue.window_start(key);
            while at < queue.waiting.len() {
                let next = &queue.waiting[at];
                if next.key() != key {
                    at += 1;
                    continue;
                }
                if !next.may_aggregate() {
                    if mpdus.is_empty() {
                        series.clone_from(&next.sent.series);
                        mpdus.extend(queue.waiting.remove(at));
                    }
                    break;
                }
                let is_inside = start.is_none_or(|start| start.distance_to(next.sent.header.sn) < limits.window);
                let size = timing::subframe_bytes(next.bytes());
                let alone = !next.sent.series.iter().all(|stage| stage.mode.is_ht_or_later())
                    || (next.tests_rate() && !r.has_one_rate)
                    || !limits.enabled;
                if mpdus.is_empty() {
                    let like = |other: &&Mpdu| other.key() == key && other.may_aggregate() && !other.tests_rate();
                    let newest = queue.waiting.iter().rev().find(like).filter(|_| !alone);
                    series.clone_from(&newest.unwrap_or(next).sent.series);
                    if let Some(only) = series.first().copied().filter(|_| r.has_one_rate) {
                        series = vec![Stage { count: u8::MAX, flags: only.flags & !rate::RTS, ..only }];
                    }
                    let slowest = series.iter().map(|stage| stage.mode).min_by_key(|mode| mode.rate());
                    let within = slowest.map_or(0, |mode| r.timing.psdu_bytes_within(mode, longest(mode)));
                    most_bytes = within.min(slowest.map_or(0, |mode| limits.most_bytes(mode.format())));
                }
                let is_full = mpdus.len() >= usize::from(limits.max_frames) || total + size > most_bytes;
                if !is_inside || (!mpdus.is_empty() && (is_full || alone)) {
                    break;
                }
                total += size;
                mpdus.extend(queue.waiting.remove(at));
                if alone {
                    break;
                }
            }
            if mpdus.is_empty() {
                continue;
            }
            queue.last = Some(key);
            let taken_for = mpdus.last().and_then(|mpdu| mpdu.sent.taken_for);
            for left in queue.waiting.iter_mut().filter(|left| left.key() == key && left.sent.taken_for == taken_for) {
                left.joins_any = true;
            }
            self.ampdus = self.ampdus.wrapping_add(1);
            queue.formed.push_back(Ppdu::new(mpdus, series, self.ampdus));
            return true;
        }
        false
    }

    /// The radio with this address; [`HwsimMac::nobody`] if none has it.
    pub(crate) fn radio_of(&self, address: Address) -> RadioId {
        let found = self.radios.iter().position(|radio| radio.addresses.contains(&address));
        found.map_or(self.nobody, RadioId::at)
    }
}

impl Radio {
    /// The longest PPDU that the limits allow in a mode: within a TXOP its answer has room, too.
    fn longest(&self, ac: Ac) -> impl Fn(airtcp_core::wifi::phy::Mode) -> Span + 'static {
        // [IEEE80211-10.13-1]
        let limit = self.config.aggregation.max_duration.min(timing::PPDU_MAX);
        let (txop, timing) = (self.txop[ac.index()], Arc::clone(&self.timing));
        move |mode| match txop {
            Span::ZERO => limit,
            // [IEEE80211-10.23.2.9-1]
            txop => limit.min(txop.saturating_sub(timing.sifs + timing.block_ack(mode))),
        }
    }
}

impl Mac for HwsimMac {
    fn next(&mut self, _: Time, _: &mut Signals, request: &mut TxRequest) -> bool {
        let (radio, ac) = (request.from, request.ac);
        let Some(r) = self.radios.get(radio.index()) else { return false };
        if r.queues[ac.index()].formed.is_empty() && !self.form(radio, ac) {
            return false;
        }
        let r = &self.radios[radio.index()];
        let Some(ppdu) = r.queues[ac.index()].formed.front() else { return false };
        let (Some(first), Some(stage)) = (ppdu.mpdus.first(), ppdu.series.get(ppdu.stage())) else { return false };
        let header = &first.sent.header;
        let user = &mut request.users.head;
        user.id = u64::from(ppdu.number);
        user.to = if header.is_group() { To::Group } else { To::Radio(self.radio_of(header.receiver)) };
        user.mode = stage.mode;
        user.acked = first.sent.flags & NO_ACK == 0;
        user.mpdus.extend(ppdu.mpdus.iter().map(Mpdu::bytes));
        if let [bytes] = user.mpdus[..] {
            user.payload = Payload::Mpdu;
            user.psdu_bytes = bytes;
        } else {
            user.payload = Payload::Ampdu;
            user.psdu_bytes = user.mpdus.iter().map(|&bytes| timing::subframe_bytes(bytes)).sum();
        }
        request.rts = stage.flags & rate::RTS != 0 || user.psdu_bytes > r.config.rts_threshold_bytes;
        user.header_bytes = r.config.framing().header_bytes;
        true
    }

    fn heard(&mut self, _: Time, request: &TxRequest, arrival: Arrival<'_>) {
        let place = arrival.at.index();
        let Some(receiver) = self.radios.get(place) else { return };
        let (name, wants_damaged) = (receiver.name, receiver.wants_damaged);
        let queue = self.radios.get_mut(request.from.index()).map(|radio| &mut radio.queues[request.ac.index()]);
        let Some(ppdu) = queue.and_then(|queue| queue.formed.front_mut()) else { return };
        if !request.is_group() {
            ppdu.fates.resize(ppdu.mpdus.len(), Fate::Lost);
            for (own, fate) in ppdu.fates.iter_mut().skip(arrival.first).zip(arrival.fates) {
                *own = *fate;
            }
        }
        let Some(&stage) = ppdu.series.get(ppdu.stage()) else { return };
        // Whole decibels within the range of a radio.
        #[allow(clippy::cast_possible_truncation, reason = "rounded and within a byte")]
        let signal =
            if arrival.snr_db.is_nan() { SIGNAL } else { (NOISE + arrival.snr_db).round().clamp(-100.0, 0.0) as i32 };
        let ampdu = (request.users[arrival.user].payload == Payload::Ampdu && !self.is_plain).then_some(ppdu.number);
        for (mpdu, fate) in ppdu.mpdus.iter().skip(arrival.first).zip(arrival.fates) {
            let is_damaged = *fate == Fate::HeaderOk;
            if *fate == Fate::Lost || (is_damaged && !wants_damaged) {
                continue;
            }
            let stage = if self.is_plain { rate::plain(stage, mpdu.sent.frequency) } else { stage };
            let mut bytes = mpdu.sent.bytes.clone();
            if mpdu.was_sent {
                frame::mark_retry(&mut bytes);
            }
            if is_damaged {
                frame::damage(&mut bytes);
            }
            let how = Arrived { stage, signal, ampdu, is_damaged };
            let message = message::received(name, &bytes, mpdu.sent.frequency, &how);
            self.out.extend(message.map(|message| (arrival.at, message)));
        }
    }

    fn done(&mut self, now: Time, _: &mut Signals, request: &TxRequest, outcome: &Outcome<'_>) {
        let user = outcome.only_user();
        let to = match request.only_user().to {
            To::Radio(to) => to,
            To::Group => self.nobody,
        };
        let Some(radio) = self.radios.get_mut(request.from.index()) else { return };
        let Some(mut ppdu) = radio.queues[request.ac.index()].formed.pop_front() else { return };
        let answers = request.only_user().is_answered();
        let (is_gone, has_one_rate) = (radio.is_gone, radio.has_one_rate);
        let place = ppdu.stage();
        let stage = ppdu.series.get(place).copied();
        if ppdu.tries[place] == 0 {
            ppdu.unheard = 0;
        }
        ppdu.tries[place] = ppdu.tries[place].saturating_add(1);
        ppdu.unheard = ppdu.unheard.saturating_add(u8::from(!outcome.is_data_sent));
        ppdu.tried += 1;
        let retries = &radio.config.retries;
        let arrived = |n: usize| answers && user.answered && ppdu.fates.get(n) == Some(&Fate::Whole);
        let many = ppdu.mpdus.len();
        let whole = (0..many).filter(|&n| arrived(n)).count();
        let traffic = self.traffic.entry((request.from, to)).or_default();
        traffic.airtime_ns += now.since(outcome.start).as_ns();
        if outcome.is_data_sent {
            traffic.ppdus += 1;
            traffic.unanswered += u64::from(answers && !user.answered);
            traffic.collided += u64::from(user.collided);
            if ppdu.in_session {
                traffic.ampdus += 1;
                traffic.mpdus += u64::from(count(many));
                traffic.mpdus_failed += u64::from(count(many - whole));
                traffic.rate_sum_bps += u128::from(user.mode.rate().as_bps());
            } else {
                traffic.frames += 1;
            }
            for (mpdu, stage) in ppdu.mpdus.iter_mut().zip(std::iter::repeat(stage)) {
                stage.into_iter().for_each(|stage| tally(&mut mpdu.used, stage));
                mpdu.was_sent = true;
            }
        }
        let total: u32 = ppdu.series.iter().map(|stage| u32::from(stage.count)).sum();
        let limit = match ppdu.in_session {
            _ if !answers => 1,
            true => total.min(u32::from(retries.hardware_tries)),
            // [IEEE80211-10.3.6-2]
            false => u32::from(retries.frame_tries),
        };
        let queue = &mut radio.queues[request.ac.index()];
        if !user.answered && ppdu.tried < limit && !is_gone {
            ppdu.fates.clear();
            // Receivers number what arrives: another try is another A-MPDU.
            self.ampdus = self.ampdus.wrapping_add(1);
            ppdu.number = self.ampdus;
            queue.formed.push_front(ppdu);
        } else {
            let more = match retries.counts {
                RetryCount::Handings => 1,
                RetryCount::Transmissions => saturate8(ppdu.tried),
            };
            // A rate at which only RTS were sent, and no other after it, was tried once.
            ppdu.tries[place] = ppdu.tries[place].saturating_sub(ppdu.unheard).max(1);
            let tried = ppdu.series.iter().zip(ppdu.tries).filter(|(_, tries)| *tries > 0);
            let used: Vec<Stage> = tried.map(|(stage, count)| Stage { count, ..*stage }).collect();
            let mut told = Some(Aggregate { mpdus: saturate8(count(many)), acked: saturate8(count(whole)) });
            let fates = std::mem::take(&mut ppdu.fates);
            for (n, mut mpdu) in ppdu.mpdus.into_iter().enumerate() {
                let is_acked = answers && user.answered && fates.get(n) == Some(&Fate::Whole);
                // [IEEE80211-10.3.4.4-1]
                if answers && !is_acked && ppdu.in_session && !is_gone && mpdu.retries < retries.software {
                    mpdu.retries = mpdu.retries.saturating_add(more);
                    queue.put_back(mpdu, |other| other.tests_rate() && !has_one_rate);
                    continue;
                }
                radio.held = radio.held.saturating_sub(1);
                traffic.given_up += u64::from(answers && !is_acked);
                let status = match told.take() {
                    _ if self.is_plain => {
                        // It takes the flags of the frame's own rates.
                        let count = mpdu.used.iter().fold(0u8, |sum, stage| sum.saturating_add(stage.count));
                        let own = mpdu.sent.series.first().map(|first| Stage { count, ..*first });
                        message::status(&mpdu.sent, own.as_slice(), is_acked, SIGNAL, None)
                    }
                    Some(all) if ppdu.in_session => message::status(&mpdu.sent, &used, is_acked, SIGNAL, Some(all)),
                    _ => {
                        let part = Aggregate { mpdus: 0, acked: 0 };
                        message::status(&mpdu.sent, &mpdu.used, is_acked, SIGNAL, ppdu.in_session.then_some(part))
                    }
                };
                self.out.push_back((request.from, status));
            }
        }
        self.form_later(now, request.from, request.ac);
    }

    fn has_frame(&self, radio: RadioId, ac: Ac) -> bool {
        let queue = self.radios.get(radio.index()).map(|radio| &radio.queues[ac.index()]);
        queue.is_some_and(|queue| !queue.formed.is_empty() || !queue.waiting.is_empty())
    }
}
