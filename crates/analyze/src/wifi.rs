//! Captures in monitor mode: what each pair of stations did on the air. Only what 802.11 sends in
//! the clear is read, so that encrypted networks are seen as well.
//!
//! MPDUs are one PPDU if they have the same sender and receiver and the same number of their
//! A-MPDU, or the same time on the card's clock. A Block Ack says which MPDUs of the last PPDU
//! arrived. ACK and CTS have no sender: it is whom the frame before was sent to.

mod airtime;
pub(crate) mod radio;
mod radiotap;

use std::collections::VecDeque;
use std::fmt::Write as _;

use airtcp_core::units::{Seq12, Span, Time};
use airtcp_core::wifi::phy::Format;
use hashbrown::HashMap;

use self::airtime::Length;
use self::radio::{Phy, Radio};
use crate::reader::Raw;
use crate::tables::{AirtimeRow, Rows, StationRow};

/// Pairs and senders that are told apart; a flood of invented addresses may not take the memory.
const PAIRS: usize = 4096;
const SENDERS: usize = 512;
/// Times over which airtime is summed at most; and the first length of one.
const BINS: usize = 512;
const FIRST_BIN: Span = Span::from_ms(10);
/// A copy is told from new data by the sequence numbers before it.
const REMEMBERED: usize = 256;
/// Over such a time the air counts as busy if it was so for this many percent, with the least pause
/// before each PPDU.
const BUSY_OVER: Span = Span::from_ms(100);
const BUSY_PERCENT: u64 = 70;
const PAUSE: Span = Span::from_us(50);

type Address = [u8; 6];
const NOBODY: Address = [0; 6];

fn spelled(address: Address) -> String {
    if address == NOBODY {
        return String::new();
    }
    let mut text = String::with_capacity(17);
    for (i, byte) in address.iter().enumerate() {
        let _ = write!(text, "{}{byte:02x}", if i > 0 { ":" } else { "" });
    }
    text
}

/// IEEE 802.11-2020 section 9.2.4.1: type and subtype.
mod kind {
    pub(super) const TYPE: u8 = 0x0c;
    pub(super) const MANAGEMENT: u8 = 0x00;
    pub(super) const CONTROL: u8 = 0x04;
    pub(super) const DATA: u8 = 0x08;
    pub(super) const NO_DATA: u8 = 0x40;
    pub(super) const QOS: u8 = 0x80;
    pub(super) const BLOCK_ACK: u8 = 0x94;
    pub(super) const RTS: u8 = 0xb4;
    pub(super) const CTS: u8 = 0xc4;
    pub(super) const ACK: u8 = 0xd4;
}
const FOUR_ADDRESSES: u8 = 0x03;
const RETRY: u8 = 0x08;
const PROTECTED: u8 = 0x40;
const FCS_BYTES: usize = 4;

/// Traffic from one station to another.
#[derive(Debug)]
struct Pair {
    from: Address,
    to: Address,
    mhz: u16,
    first: Time,
    data: u64,
    data_bytes: u64,
    retries: u64,
    encrypted: u64,
    corrupt: u64,
    management: u64,
    control: u64,
    airtime: Span,
    /// Bits and the time that they take without preambles, of data.
    bits: u64,
    bits_ns: u64,
    /// MPDUs by format, MCS, streams and width.
    modes: Vec<((Phyname, u8, u8, u16), u64)>,
    signal_sum: i64,
    signals: u64,
    signal_min: i8,
    ppdus: u64,
    aggregates: u64,
    aggregated: u64,
    longest: u32,
    block_acks: u64,
    acked: u64,
    lost: u64,
    unseen: u64,
    recent: [VecDeque<u16>; 2],
}

type Phyname = &'static str;

impl Pair {
    fn new(from: Address, to: Address, mhz: u16, first: Time) -> Pair {
        Pair {
            from,
            to,
            mhz,
            first,
            data: 0,
            data_bytes: 0,
            retries: 0,
            encrypted: 0,
            corrupt: 0,
            management: 0,
            control: 0,
            airtime: Span::ZERO,
            bits: 0,
            bits_ns: 0,
            modes: Vec::new(),
            signal_sum: 0,
            signals: 0,
            signal_min: 0,
            ppdus: 0,
            aggregates: 0,
            aggregated: 0,
            longest: 0,
            block_acks: 0,
            acked: 0,
            lost: 0,
            unseen: 0,
            recent: Default::default(),
        }
    }
}

/// A PPDU under way.
#[derive(Debug)]
struct Ppdu {
    pair: usize,
    at: Time,
    number: Option<u32>,
    tsft: Option<u64>,
    phy: Phy,
    short_preamble: bool,
    length: Length,
    is_data: bool,
    mpdus: u32,
    numbers: Vec<u16>,
}

#[derive(Debug, Default)]
pub(crate) struct Air {
    pairs: Vec<Pair>,
    by_address: HashMap<(Address, Address, u16), usize>,
    ppdu: Option<Ppdu>,
    /// Pair of the last PPDU with data, and its sequence numbers that are not acknowledged yet.
    sent: Option<(usize, Vec<u16>)>,
    /// Sender and receiver of the last frame that names a sender.
    exchange: Option<(Address, Address)>,
    last_was_rts: bool,
    pub unreadable: u64,
    pub crowd: u64,
    /// Nanoseconds by sender and bin.
    senders: Vec<(Address, Vec<u64>)>,
    bin: Option<Span>,
    busy_since: Time,
    busy_for: Span,
    busy: bool,
}

fn address(frame: &[u8], at: usize) -> Option<Address> {
    frame.get(at..at + 6)?.try_into().ok()
}

/// Fields of a frame's header.
struct Frame {
    kind: u8,
    retry: bool,
    protected: bool,
    to: Address,
    from: Option<Address>,
    number: u16,
    tid: u8,
}

fn frame(bytes: &[u8]) -> Option<Frame> {
    let &[first, flags, ..] = bytes else { return None };
    let to = address(bytes, 4)?;
    let is_data = first & kind::TYPE == kind::DATA;
    let from = match first {
        kind::ACK | kind::CTS => None,
        _ => address(bytes, 10),
    };
    let has_number = first & kind::TYPE != kind::CONTROL;
    let number = match bytes.get(22..24) {
        Some(&[low, high]) if has_number => u16::from_le_bytes([low, high]) >> 4,
        _ => 0,
    };
    let header = if flags & FOUR_ADDRESSES == FOUR_ADDRESSES { 30 } else { 24 };
    let tid = if is_data && first & kind::QOS != 0 { bytes.get(header).map_or(0, |b| b & 0x0f) } else { 0 };
    Some(Frame { kind: first, retry: flags & RETRY != 0, protected: flags & PROTECTED != 0, to, from, number, tid })
}

/// True for a frame of 802.11 as a card in monitor mode hands it over.
pub(crate) fn is_monitor(raw: &Raw) -> bool {
    radio::is_monitor(raw.link_type)
        && (raw.link_type != radio::link_type::PPI
            || radio::parse(raw.link_type, raw.data).is_none_or(|tap| tap.inner == radio::link_type::IEEE802_11))
}

impl Air {
    /// A frame is heard. Says whether it carries what the capture has shown already: a copy that
    /// its radio repeated.
    pub(crate) fn on_frame(&mut self, now: Time, raw: &Raw) -> bool {
        let heard = radio::parse(raw.link_type, raw.data).and_then(|tap| {
            let bytes = raw.data.get(tap.length..)?;
            Some((tap, bytes, frame(bytes)?))
        });
        let Some((tap, bytes, f)) = heard else {
            self.unreadable += 1;
            return false;
        };
        let wire_bytes = (raw.wire_bytes as usize).saturating_sub(tap.length) + if tap.has_fcs { 0 } else { FCS_BYTES };
        let from = f.from.unwrap_or_else(|| self.answers(&f));
        // The address of a corrupt frame counts only if it is known.
        let place = self.place(now, from, f.to, tap.mhz, !tap.bad_fcs);
        let Some(place) = place else {
            self.crowd += 1;
            return false;
        };
        let is_data = f.kind & kind::TYPE == kind::DATA && f.kind & kind::NO_DATA == 0;
        self.extend_ppdu(now, place, &tap, wire_bytes, is_data.then_some(f.number));
        if f.kind == kind::BLOCK_ACK && !tap.bad_fcs {
            self.on_block_ack(&f, bytes, tap.has_fcs);
        } else if f.kind == kind::ACK {
            if let Some((pair, _)) = self.sent.take_if(|(pair, _)| self.pairs[*pair].from == f.to) {
                self.pairs[pair].acked += 1;
            }
        }
        if f.from.is_some() {
            self.exchange = Some((from, f.to));
        }
        self.last_was_rts = f.kind == kind::RTS;
        let pair = &mut self.pairs[place];
        match f.kind & kind::TYPE {
            kind::MANAGEMENT => pair.management += 1,
            kind::CONTROL => pair.control += 1,
            _ => {}
        }
        if let Some(signal) = tap.signal_dbm.filter(|_| f.from.is_some()) {
            pair.signal_min = if pair.signals == 0 { signal } else { pair.signal_min.min(signal) };
            pair.signal_sum += i64::from(signal);
            pair.signals += 1;
        }
        if !is_data {
            return false;
        }
        pair.on_data(&f, &tap, wire_bytes)
    }

    /// The sender of an ACK or CTS.
    fn answers(&self, f: &Frame) -> Address {
        match self.exchange {
            Some((from, to)) if from == f.to && to[0] & 1 == 0 && (f.kind == kind::ACK || self.last_was_rts) => to,
            _ if f.kind == kind::CTS => f.to,
            _ => NOBODY,
        }
    }

    fn place(&mut self, now: Time, from: Address, to: Address, mhz: u16, may_be_new: bool) -> Option<usize> {
        if let Some(&place) = self.by_address.get(&(from, to, mhz)) {
            return Some(place);
        }
        if !may_be_new || self.pairs.len() >= PAIRS {
            return None;
        }
        self.by_address.insert((from, to, mhz), self.pairs.len());
        self.pairs.push(Pair::new(from, to, mhz, now));
        Some(self.pairs.len() - 1)
    }

    /// `number`: of data.
    fn extend_ppdu(&mut self, now: Time, pair: usize, tap: &Radio, wire_bytes: usize, number: Option<u16>) {
        let bytes = u32::try_from(wire_bytes).unwrap_or(u32::MAX);
        let same = |ppdu: &&mut Ppdu| {
            ppdu.pair == pair
                && ppdu.is_data
                && number.is_some()
                && match (ppdu.number, tap.ampdu) {
                    (Some(one), Some(other)) => one == other,
                    (None, None) => ppdu.tsft.is_some() && ppdu.tsft == tap.tsft,
                    _ => false,
                }
        };
        if let Some(ppdu) = self.ppdu.as_mut().filter(same) {
            ppdu.length.add(bytes);
            ppdu.mpdus += 1;
            ppdu.numbers.extend(number);
            return;
        }
        self.end_ppdu();
        let mut length = Length::default();
        length.add(bytes);
        self.ppdu = Some(Ppdu {
            pair,
            at: now,
            number: tap.ampdu,
            tsft: tap.tsft,
            phy: tap.phy,
            short_preamble: tap.short_preamble,
            length,
            is_data: number.is_some(),
            mpdus: 1,
            numbers: number.into_iter().collect(),
        });
    }

    fn end_ppdu(&mut self) {
        let Some(ppdu) = self.ppdu.take() else { return };
        let took = airtime::of(ppdu.phy, ppdu.length, ppdu.short_preamble);
        let pair = &mut self.pairs[ppdu.pair];
        pair.airtime += took;
        let from = pair.from;
        if ppdu.is_data {
            pair.ppdus += 1;
            pair.longest = pair.longest.max(ppdu.mpdus);
            if ppdu.mpdus > 1 || ppdu.number.is_some() {
                pair.aggregates += 1;
                pair.aggregated += u64::from(ppdu.mpdus);
            }
            self.sent = Some((ppdu.pair, ppdu.numbers));
        }
        self.add_airtime(from, ppdu.at, took);
        self.busy_for += took + PAUSE;
        let since = ppdu.at.since(self.busy_since);
        if since >= BUSY_OVER {
            self.busy = self.busy_for * 100 >= since * BUSY_PERCENT;
            (self.busy_since, self.busy_for) = (ppdu.at, Span::ZERO);
        }
    }

    /// The air was taken nearly all the time of late.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    fn on_block_ack(&mut self, f: &Frame, bytes: &[u8], has_fcs: bool) {
        self.end_data();
        let Some(receiver) = f.from else { return };
        let body = bytes.get(16..bytes.len().saturating_sub(if has_fcs { FCS_BYTES } else { 0 })).unwrap_or(&[]);
        let [control, _, low, high, bitmap @ ..] = body else { return };
        // Compressed: bits 1 to 4 of the control field.
        if (control >> 1) & 0x0f != 2 {
            return;
        }
        let wanted = |(pair, _): &mut (usize, Vec<u16>)| {
            let pair = &self.pairs[*pair];
            pair.from == f.to && pair.to == receiver
        };
        let Some((pair, mut numbers)) = self.sent.take_if(wanted) else { return };
        let start = Seq12::new(u16::from_le_bytes([*low, *high]) >> 4);
        let arrived = |number: u16| {
            let offset = usize::from(start.distance_to(Seq12::new(number)));
            // MPDUs before the window have been received.
            offset >= 2048 || bitmap.get(offset / 8).is_some_and(|byte| byte >> (offset % 8) & 1 == 1)
        };
        numbers.sort_unstable_by_key(|&n| start.distance_to(Seq12::new(n)));
        numbers.dedup();
        let pair = &mut self.pairs[pair];
        pair.block_acks += 1;
        for &number in &numbers {
            if arrived(number) { pair.acked += 1 } else { pair.lost += 1 }
        }
        // Numbers between the first and the last that arrived although they were not heard here.
        for two in numbers.windows(2) {
            let (mut between, last) = (Seq12::new(two[0]).forward(1), Seq12::new(two[1]));
            while between.is_before(last) {
                pair.unseen += u64::from(arrived(between.get()));
                between = between.forward(1);
            }
        }
    }

    /// The PPDU with data is over: its answer has come.
    fn end_data(&mut self) {
        if self.ppdu.as_ref().is_some_and(|ppdu| ppdu.is_data) {
            self.end_ppdu();
        }
    }

    fn add_airtime(&mut self, from: Address, at: Time, took: Span) {
        let bin = *self.bin.get_or_insert(FIRST_BIN);
        let mut index = usize::try_from(at.as_ns() / bin.as_ns()).unwrap_or(usize::MAX);
        while index >= BINS {
            for (_, bins) in &mut self.senders {
                *bins = bins.chunks(2).map(|two| two.iter().sum()).collect();
            }
            self.bin = self.bin.map(|bin| bin * 2);
            index /= 2;
        }
        let known = self.senders.iter().position(|(address, _)| *address == from);
        let place = match known {
            Some(place) => place,
            None if self.senders.len() < SENDERS => {
                self.senders.push((from, Vec::new()));
                self.senders.len() - 1
            }
            None => return,
        };
        let bins = &mut self.senders[place].1;
        if bins.len() <= index {
            bins.resize(index + 1, 0);
        }
        bins[index] += took.as_ns();
    }

    pub(crate) fn finish(&mut self, place: u32, rows: &mut Rows) {
        self.end_ppdu();
        for pair in self.pairs.drain(..) {
            rows.stations.push(pair.row(place));
        }
        self.by_address.clear();
        let bin_s = self.bin.map_or(0.0, |bin| bin.as_ns() as f64 * 1e-9);
        for (from, bins) in self.senders.drain(..) {
            for (i, ns) in bins.into_iter().enumerate().filter(|(_, ns)| *ns > 0) {
                let (time_s, airtime_s) = (i as f64 * bin_s, ns as f64 * 1e-9);
                rows.airtime.push(AirtimeRow {
                    place,
                    transmitter: spelled(from).into(),
                    time_s,
                    for_s: bin_s,
                    airtime_s,
                });
            }
        }
    }
}

impl Pair {
    /// Says whether it is a copy of what was heard before.
    fn on_data(&mut self, f: &Frame, tap: &Radio, wire_bytes: usize) -> bool {
        self.data += 1;
        self.data_bytes += wire_bytes as u64;
        self.retries += u64::from(f.retry);
        self.encrypted += u64::from(f.protected);
        self.corrupt += u64::from(tap.bad_fcs);
        if let Some(bps) = airtime::rate_bps(tap.phy) {
            self.bits += 8 * wire_bytes as u64;
            self.bits_ns += 8_000_000_000u64.saturating_mul(wire_bytes as u64) / bps.max(1);
        }
        let mode = match tap.phy {
            Phy::Unknown => ("", 0, 0, 0),
            Phy::He { mcs, streams, mhz, .. } => ("HE", mcs, streams, mhz),
            Phy::Known(mode) => {
                let name = match mode.format() {
                    Format::Dsss => "DSSS",
                    Format::Ofdm => "OFDM",
                    Format::Ht => "HT",
                    Format::Vht => "VHT",
                };
                (name, mode.mcs().unwrap_or(0), mode.streams(), mode.width().mhz())
            }
        };
        match self.modes.iter_mut().find(|(known, _)| *known == mode) {
            Some((_, n)) => *n += 1,
            None => self.modes.push((mode, 1)),
        }
        if tap.bad_fcs {
            return false;
        }
        // Access categories above the usual one have numbers of their own; they share a memory
        // here.
        let recent = &mut self.recent[usize::from(f.tid != 0)];
        if f.retry && recent.contains(&(f.number | u16::from(f.tid) << 12)) {
            return true;
        }
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        recent.push_back(f.number | u16::from(f.tid) << 12);
        false
    }

    fn row(&self, place: u32) -> StationRow {
        let most = self.modes.iter().max_by_key(|(_, n)| *n).map(|(mode, _)| *mode);
        let has_mcs = |name: &str| matches!(name, "HT" | "VHT" | "HE");
        let (sum, n) = self.modes.iter().filter(|((name, ..), _)| has_mcs(name)).fold(
            (0, 0),
            |(sum, n), ((name, mcs, streams, _), count)| {
                // That of HT counts on over the streams.
                let mcs = if *name == "HT" { mcs % 8 } else { *mcs };
                let _ = streams;
                (sum + u64::from(mcs) * count, n + count)
            },
        );
        let ratio = |a: f64, b: u64| if b == 0 { f64::NAN } else { a / b as f64 };
        StationRow {
            place,
            channel_mhz: u32::from(self.mhz),
            transmitter: spelled(self.from).into(),
            receiver: spelled(self.to).into(),
            first_s: self.first.since(Time::ZERO).as_ns() as f64 * 1e-9,
            data_frames: self.data,
            data_bytes: self.data_bytes,
            retries: self.retries,
            encrypted: self.encrypted,
            corrupt: self.corrupt,
            management_frames: self.management,
            control_frames: self.control,
            airtime_s: self.airtime.as_ns() as f64 * 1e-9,
            rate_mean_bps: ratio(self.bits as f64 * 1e9, self.bits_ns),
            phy: most.map_or("", |m| m.0).into(),
            mcs_mean: ratio(sum as f64, n),
            streams: most.filter(|m| m.2 > 0).map_or(f64::NAN, |m| f64::from(m.2)),
            width_mhz: most.filter(|m| m.3 > 0).map_or(f64::NAN, |m| f64::from(m.3)),
            signal_mean_dbm: ratio(self.signal_sum as f64, self.signals),
            signal_min_dbm: if self.signals == 0 { f64::NAN } else { f64::from(self.signal_min) },
            ppdus: self.ppdus,
            ampdus: self.aggregates,
            ampdu_mpdus_mean: ratio(self.aggregated as f64, self.aggregates),
            ampdu_mpdus_max: self.longest,
            block_acks: self.block_acks,
            acked_mpdus: self.acked,
            lost_mpdus: self.lost,
            unseen_mpdus: self.unseen,
        }
    }
}
